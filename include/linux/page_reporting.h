/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PAGE_REPORTING_H
#define _LINUX_PAGE_REPORTING_H

#include <linux/types.h>

struct scatterlist;

/* Blocks in a report, at most */
#define PAGE_REPORTING_CAPACITY		32

/**
 * struct page_reporting_dev_info - one who is told of free pages
 * @report: tell of @nents blocks of free pages, each an entry of @sg. They are
 *          free again when it returns: with 0, they count as reported; with an
 *          error, they will be reported later. May sleep, but not allocate,
 *          since memory may be short of just these blocks. Not called twice at
 *          a time. It must end in bounded time once page_reporting_unregister()
 *          was called, and must not call that itself.
 * @order: smallest order of block to be told of, 0 for the default; the
 *         parameter page_reporting_order, if set, comes first
 */
struct page_reporting_dev_info {
	int (*report)(struct page_reporting_dev_info *prdev,
		      struct scatterlist *sg, unsigned int nents);
	unsigned int order;
};

int page_reporting_register(struct page_reporting_dev_info *prdev);
void page_reporting_unregister(struct page_reporting_dev_info *prdev);

#endif /* _LINUX_PAGE_REPORTING_H */
