/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The page reporting core's hand-over of whole free blocks. Apart from
 * page_reporting.h, so that a driver can be built for a kernel that has no such
 * thing, and look for it when it runs.
 */
#ifndef _LINUX_PAGE_REPORTING_BLOCKS_H
#define _LINUX_PAGE_REPORTING_BLOCKS_H

struct page;

unsigned int page_reporting_take_blocks(struct page **blocks, unsigned int max,
					unsigned int order);
void page_reporting_return_blocks(struct page **blocks, unsigned int count,
				  unsigned int order);

#endif /* _LINUX_PAGE_REPORTING_BLOCKS_H */
