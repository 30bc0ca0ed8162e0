/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the page allocator calls of free page reporting. With no reporter, each
 * of these is a branch that is never taken.
 */
#ifndef _MM_PAGE_REPORTING_H
#define _MM_PAGE_REPORTING_H

#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/page-flags.h>
/* page_alloc.c gets it from here */
#include <linux/page-isolation.h>

#ifdef CONFIG_PAGE_REPORTING
DECLARE_STATIC_KEY_FALSE(page_reporting_enabled);
extern unsigned int page_reporting_order;
extern bool page_reporting_noted;

void __page_reporting_taken(struct page *page);
void __page_reporting_notify(void);

/**
 * page_reported() - whether a block counts as reported, and will no longer
 * @page: head of a free block, about to leave its free list
 *
 * The page allocator asks it of each block that it takes off a free list, and
 * clears the mark itself; so the answer is also counted.
 *
 * Context: zone->lock held.
 * Return: true if @page is marked.
 */
static inline bool page_reported(struct page *page)
{
	if (!static_branch_unlikely(&page_reporting_enabled) ||
	    !PageReported(page))
		return false;
	__page_reporting_taken(page);
	return true;
}

/**
 * page_reporting_notify_free() - a block was put on a free list
 * @order: its order, after merging
 *
 * Context: zone->lock held, interrupts off.
 */
static inline void page_reporting_notify_free(unsigned int order)
{
	if (!static_branch_unlikely(&page_reporting_enabled) ||
	    order < page_reporting_order || page_reporting_noted)
		return;
	__page_reporting_notify();
}
#else /* CONFIG_PAGE_REPORTING */
static inline bool page_reported(struct page *page)
{
	return false;
}

static inline void page_reporting_notify_free(unsigned int order)
{
}
#endif /* CONFIG_PAGE_REPORTING */

#endif /* _MM_PAGE_REPORTING_H */
