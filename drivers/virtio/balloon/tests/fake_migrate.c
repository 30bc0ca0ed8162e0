// SPDX-License-Identifier: GPL-2.0
/*
 * Migration of ballooned pages: what the migration core does to a page,
 * through the operations that the page itself names.
 */
#include <linux/balloon_compaction.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "fake_host.h"

#ifdef CONFIG_BALLOON_COMPACTION

/**
 * fake_isolate() - take a page off the balloon's list, to migrate it
 * @page: in the balloon
 *
 * Return: false if the driver is about to take it off itself.
 */
bool fake_isolate(struct page *page)
{
	if (!get_page_unless_zero(page))
		return false;
	if (!trylock_page(page)) {
		put_page(page);
		return false;
	}
	/* The mark stays when the page leaves the balloon; the operations go */
	if (__PageMovable(page) && page_movable_ops(page) == &balloon_mops &&
	    balloon_mops.isolate_page(page, 0)) {
		unlock_page(page);
		return true;
	}
	unlock_page(page);
	put_page(page);
	return false;
}

/**
 * fake_putback() - give up migrating a page
 * @page: isolated
 */
void fake_putback(struct page *page)
{
	lock_page(page);
	balloon_mops.putback_page(page);
	unlock_page(page);
	put_page(page);
}

/**
 * fake_migrate() - have another page stand in for one
 * @page: isolated; put back if migration fails
 * @gfp: what kind of page is to stand in
 * @newpage: the page that was to stand in; not to be used, only looked at.
 *           May be NULL.
 *
 * Return: what the driver says; 0 if migrated.
 */
int fake_migrate(struct page *page, gfp_t gfp, struct page **newpage)
{
	struct page *new = alloc_page(gfp);
	int err;

	if (newpage)
		*newpage = new;
	if (!new) {
		fake_putback(page);
		return -ENOMEM;
	}
	lock_page(page);
	lock_page(new);
	err = balloon_mops.migrate_page(new, page, MIGRATE_SYNC);
	unlock_page(new);
	unlock_page(page);
	put_page(new);
	if (err)
		fake_putback(page);
	else
		put_page(page);
	return err;
}

#endif /* CONFIG_BALLOON_COMPACTION */
