// SPDX-License-Identifier: GPL-2.0
/*
 * Pages on their way into a batch: from the allocator, to be inflated, or from
 * the balloon, to be deflated.
 *
 * A host that backs the guest with 2 MiB pages gets one back only when all of
 * its 512 PFNs follow each other in one buffer. The allocator hands out
 * neighbours mostly one after the other, but it has a few blocks in use at a
 * time, and a batch may be full in the middle of them. So pages are noted as
 * runs, each within one group; a closed batch names its runs in the order of
 * their addresses, and groups that are still being filled when the batch is
 * full are left for the next one.
 *
 * Runs are also a short way to remember pages that were deflated and are in
 * use again before the host was told of them.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "virtio_balloon.h"

/**
 * virtio_balloon_gather_init() - start with nothing gathered
 * @gather: to be initialised
 * @max_runs: runs a batch may consist of
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int virtio_balloon_gather_init(struct virtio_balloon_gather *gather,
			       unsigned int max_runs)
{
	INIT_LIST_HEAD(&gather->pages);
	gather->count = 0;
	gather->nr_runs = 0;
	gather->max_runs = max_runs;
	gather->runs = kvmalloc_array(max_runs, sizeof(*gather->runs),
				      GFP_KERNEL);
	return gather->runs ? 0 : -ENOMEM;
}

/**
 * virtio_balloon_gather_exit() - undo virtio_balloon_gather_init()
 * @gather: empty, or zeroed memory that was never initialised
 */
void virtio_balloon_gather_exit(struct virtio_balloon_gather *gather)
{
	kvfree(gather->runs);
	gather->runs = NULL;
}

static bool virtio_balloon_same_group(unsigned long a, unsigned long b)
{
	return a / VIRTIO_BALLOON_GROUP == b / VIRTIO_BALLOON_GROUP;
}

/*
 * Add a page to a run, at either end: the allocator hands out blocks upwards,
 * and what was freed page by page downwards.
 */
static bool virtio_balloon_run_extend(struct virtio_balloon_run *run,
				      unsigned long pfn)
{
	if (run->pfn + run->count != pfn && run->pfn != pfn + 1)
		return false;
	if (!virtio_balloon_same_group(run->pfn, pfn))
		return false;
	run->pfn = min_t(u32, run->pfn, pfn);
	run->count++;
	return true;
}

/* Note pages as runs from the run @r on, which may have been begun. */
static void virtio_balloon_gather_runs(struct virtio_balloon_gather *gather,
				       struct list_head *pages, unsigned int r)
{
	struct virtio_balloon_run *run = &gather->runs[r];
	struct virtio_balloon_run *end = &gather->runs[gather->nr_runs];
	struct page *page;

	list_for_each_entry_reverse(page, pages, lru) {
		unsigned long pfn = page_to_pfn(page);

		gather->count++;
		if (run < end && virtio_balloon_run_extend(run, pfn))
			continue;
		run = end++;
		run->pfn = pfn;
		run->count = 1;
	}
	gather->nr_runs = end - gather->runs;
}

/**
 * virtio_balloon_gather_note() - note pages without taking them
 * @gather: with room for them; it holds no pages
 * @pages: guest pages, the most recent first, linked by page->lru
 *
 * They begin a new run, so that runs from the former nr_runs on are just these.
 */
void virtio_balloon_gather_note(struct virtio_balloon_gather *gather,
				struct list_head *pages)
{
	virtio_balloon_gather_runs(gather, pages, gather->nr_runs);
}

/**
 * virtio_balloon_gather_room() - how many pages can be added
 * @gather: any
 *
 * Return: guest pages, even if no two of them are neighbours.
 */
unsigned int
virtio_balloon_gather_room(const struct virtio_balloon_gather *gather)
{
	return gather->max_runs - gather->nr_runs;
}

/**
 * virtio_balloon_gather_add() - note pages and take them
 * @gather: with room for them
 * @pages: guest pages, the most recent first, linked by page->lru; left empty
 */
void virtio_balloon_gather_add(struct virtio_balloon_gather *gather,
			       struct list_head *pages)
{
	virtio_balloon_gather_runs(gather, pages, max(gather->nr_runs, 1U) - 1);
	list_splice_init(pages, &gather->pages);
}

/**
 * virtio_balloon_gather_add_group() - take a whole group
 * @gather: with room for a run
 * @page: the first of its guest pages, each with a reference of its own
 */
void virtio_balloon_gather_add_group(struct virtio_balloon_gather *gather,
				     struct page *page)
{
	struct virtio_balloon_run *run = &gather->runs[gather->nr_runs++];
	unsigned int i;

	run->pfn = page_to_pfn(page);
	run->count = VIRTIO_BALLOON_GROUP;
	gather->count += VIRTIO_BALLOON_GROUP;
	for (i = 0; i < VIRTIO_BALLOON_GROUP; i++)
		list_add(&page[i].lru, &gather->pages);
}

/**
 * virtio_balloon_gather_gap() - how much the last group lacks
 * @gather: any
 *
 * Return: guest pages between the last run and a whole group; 0 if a group
 * came last, and a whole group if nothing did.
 */
unsigned int
virtio_balloon_gather_gap(const struct virtio_balloon_gather *gather)
{
	if (!gather->nr_runs)
		return VIRTIO_BALLOON_GROUP;
	return VIRTIO_BALLOON_GROUP - gather->runs[gather->nr_runs - 1].count;
}

/**
 * virtio_balloon_gather_release() - give gathered pages back
 * @gather: left empty
 *
 * Context: may sleep. The host knows nothing of these pages.
 */
void virtio_balloon_gather_release(struct virtio_balloon_gather *gather)
{
	put_pages_list(&gather->pages);
	gather->count = 0;
	gather->nr_runs = 0;
}

/* How many runs fit in a batch. */
static unsigned int
virtio_balloon_gather_fitting(const struct virtio_balloon_gather *gather,
			      unsigned int capacity)
{
	unsigned int n = 0, count = 0;

	while (n < gather->nr_runs && count + gather->runs[n].count <= capacity)
		count += gather->runs[n++].count;
	return n;
}

static bool virtio_balloon_in_groups(const unsigned long *groups,
				     unsigned int n, unsigned long pfn)
{
	while (n--)
		if (virtio_balloon_same_group(groups[n], pfn))
			return true;
	return false;
}

/* How many pages of the group of @pfn are gathered. */
static unsigned int
virtio_balloon_gather_group(const struct virtio_balloon_gather *gather,
			    unsigned long pfn)
{
	unsigned int r, count = 0;

	for (r = 0; r < gather->nr_runs; r++)
		if (virtio_balloon_same_group(gather->runs[r].pfn, pfn))
			count += gather->runs[r].count;
	return count;
}

/*
 * The groups that are still being filled: among those of the last few runs,
 * the ones that are not whole. Returns how many; a page of each is in @groups.
 */
static unsigned int
virtio_balloon_gather_open(const struct virtio_balloon_gather *gather,
			   unsigned long *groups)
{
	unsigned int r = gather->nr_runs, n = 0;
	unsigned int end = r - min(r, 4U * VIRTIO_BALLOON_KEPT);

	while (r-- > end && n < VIRTIO_BALLOON_KEPT) {
		unsigned long pfn = gather->runs[r].pfn;

		if (!virtio_balloon_in_groups(groups, n, pfn) &&
		    virtio_balloon_gather_group(gather, pfn) <
		    VIRTIO_BALLOON_GROUP)
			groups[n++] = pfn;
	}
	return n;
}

/*
 * Move the runs of groups that are still being filled behind the others.
 *
 * Return: how many others there are; or all, if there is no other.
 */
static unsigned int
virtio_balloon_gather_settle(struct virtio_balloon_gather *gather)
{
	unsigned long groups[VIRTIO_BALLOON_KEPT];
	unsigned int r, n, settled = 0;

	n = virtio_balloon_gather_open(gather, groups);
	for (r = 0; r < gather->nr_runs; r++) {
		if (virtio_balloon_in_groups(groups, n, gather->runs[r].pfn))
			continue;
		swap(gather->runs[r], gather->runs[settled]);
		settled++;
	}
	return settled ?: gather->nr_runs;
}

/* Leave the pages of the runs from @r on, and give all others to @batch. */
static void virtio_balloon_gather_split(struct virtio_balloon_gather *gather,
					unsigned int r,
					struct virtio_balloon_batch *batch)
{
	LIST_HEAD(kept);
	unsigned int i;

	for (; r < gather->nr_runs; r++)
		for (i = 0; i < gather->runs[r].count; i++)
			list_move(&pfn_to_page(gather->runs[r].pfn + i)->lru,
				  &kept);
	list_splice_init(&gather->pages, &batch->pages);
	list_splice(&kept, &gather->pages);
}

static int virtio_balloon_run_cmp(const void *a, const void *b)
{
	const struct virtio_balloon_run *x = a, *y = b;

	return x->pfn < y->pfn ? -1 : 1;
}

/**
 * virtio_balloon_add_pfns() - name consecutive guest pages in a batch
 * @vdev: the device, for its byte order
 * @batch: IDLE, with room for @count more guest pages
 * @pfn: first guest page frame
 * @count: guest pages
 *
 * One entry of 32 bits for each 4096 bytes [VB-O9].
 */
void virtio_balloon_add_pfns(struct virtio_device *vdev,
			     struct virtio_balloon_batch *batch,
			     unsigned long pfn, unsigned int count)
{
	__virtio32 *pfns = batch->pfns + batch->count * VIRTIO_BALLOON_UNITS;
	u32 unit = pfn * VIRTIO_BALLOON_UNITS;
	unsigned int i;

	for (i = 0; i < count * VIRTIO_BALLOON_UNITS; i++)
		pfns[i] = cpu_to_virtio32(vdev, unit + i);
	batch->count += count;
}

/**
 * virtio_balloon_gather_close() - turn what was gathered into a batch
 * @gather: not empty; keeps what has no room, and groups that are still being
 *          filled, if there are others
 * @vdev: the device, for its byte order
 * @batch: IDLE; gets the pages, if @gather has them, and their PFNs, sorted
 * @last: nothing will follow: keep no group back
 *
 * If @gather has pages, the batch has to have room for all of them.
 */
void virtio_balloon_gather_close(struct virtio_balloon_gather *gather,
				 struct virtio_device *vdev,
				 struct virtio_balloon_batch *batch, bool last)
{
	unsigned int settled, r;

	settled = virtio_balloon_gather_fitting(gather, batch->capacity);
	if (!last && settled == gather->nr_runs)
		settled = virtio_balloon_gather_settle(gather);
	if (!list_empty(&gather->pages))
		virtio_balloon_gather_split(gather, settled, batch);

	sort(gather->runs, settled, sizeof(*gather->runs),
	     virtio_balloon_run_cmp, NULL);
	for (r = 0; r < settled; r++)
		virtio_balloon_add_pfns(vdev, batch, gather->runs[r].pfn,
					gather->runs[r].count);

	gather->count -= batch->count;
	gather->nr_runs -= settled;
	memmove(gather->runs, gather->runs + settled,
		gather->nr_runs * sizeof(*gather->runs));
}
