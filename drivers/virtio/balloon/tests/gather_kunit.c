// SPDX-License-Identifier: GPL-2.0
/*
 * How gathered pages become batches: nothing lost, nothing named twice, and no
 * group of 2 MiB split that a batch could have held whole.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#include "fake_host.h"

/* Guest pages that a test plays with: one block, aligned as it is large */
#define GATHER_GROUPS	2
#define GATHER_PAGES	(GATHER_GROUPS * VIRTIO_BALLOON_GROUP)
#define GATHER_ORDER	get_order(GATHER_PAGES * PAGE_SIZE)

struct gather_test {
	struct virtio_device vdev;
	struct virtio_balloon_gather gather;
	struct virtio_balloon_batch batch;
	struct page *block;
	unsigned long base;	/* the first guest page frame of @block */
	unsigned int *seen;	/* how often each page was named */
};

static int gather_test_init(struct kunit *test)
{
	struct gather_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	test->priv = t;
	t->vdev.features = BIT_ULL(VIRTIO_F_VERSION_1);
	KUNIT_ASSERT_EQ(test, 0,
			virtio_balloon_gather_init(&t->gather, GATHER_PAGES));
	INIT_LIST_HEAD(&t->batch.pages);
	t->batch.capacity = GATHER_PAGES;
	t->batch.pfns = kunit_kcalloc(test, GATHER_PAGES * VIRTIO_BALLOON_UNITS,
				      sizeof(*t->batch.pfns), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->batch.pfns);
	t->seen = kunit_kcalloc(test, GATHER_PAGES, sizeof(*t->seen),
				GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->seen);
	t->block = alloc_pages(GFP_KERNEL, GATHER_ORDER);
	KUNIT_ASSERT_NOT_NULL(test, t->block);
	t->base = page_to_pfn(t->block);
	return 0;
}

static void gather_test_exit(struct kunit *test)
{
	struct gather_test *t = test->priv;

	if (!t)
		return;
	if (t->block)
		__free_pages(t->block, GATHER_ORDER);
	virtio_balloon_gather_exit(&t->gather);
}

/* Gather the pages base + first .. + count - 1, as one allocation would. */
static void gather_add(struct gather_test *t, unsigned int first,
		       unsigned int count)
{
	LIST_HEAD(pages);

	while (count--)
		list_add(&pfn_to_page(t->base + first++)->lru, &pages);
	virtio_balloon_gather_add(&t->gather, &pages);
}

/* Close a batch, count what it names, and check that it is whole in itself. */
static void gather_close(struct kunit *test, bool last)
{
	struct gather_test *t = test->priv;
	unsigned int i, listed = 0;
	struct list_head *link;

	t->batch.count = 0;
	INIT_LIST_HEAD(&t->batch.pages);
	virtio_balloon_gather_close(&t->gather, &t->vdev, &t->batch, last);

	list_for_each(link, &t->batch.pages)
		listed++;
	KUNIT_EXPECT_EQ(test, listed, t->batch.count);

	for (i = 0; i < t->batch.count; i++) {
		u32 unit = virtio32_to_cpu(&t->vdev,
					   t->batch.pfns[i * VIRTIO_BALLOON_UNITS]);
		unsigned long pfn = unit / VIRTIO_BALLOON_UNITS - t->base;

		KUNIT_ASSERT_LT(test, pfn, (unsigned long)GATHER_PAGES);
		t->seen[pfn]++;
	}
}

/* How many groups stand whole, without a foreign PFN between, in the batch. */
static unsigned int gather_whole_groups(struct gather_test *t)
{
	unsigned int i, run = 0, whole = 0;
	unsigned long group = ULONG_MAX;

	for (i = 0; i < t->batch.count; i++) {
		u32 unit = virtio32_to_cpu(&t->vdev,
					   t->batch.pfns[i * VIRTIO_BALLOON_UNITS]);
		unsigned long pfn = unit / VIRTIO_BALLOON_UNITS;

		if (pfn / VIRTIO_BALLOON_GROUP != group)
			run = 0;
		group = pfn / VIRTIO_BALLOON_GROUP;
		if (++run == VIRTIO_BALLOON_GROUP)
			whole++;
	}
	return whole;
}

/* A full batch keeps back the group that the next one will complete. */
static void gather_keeps_open_group(struct kunit *test)
{
	struct gather_test *t = test->priv;
	unsigned int half = VIRTIO_BALLOON_GROUP / 2;

	gather_add(t, 0, VIRTIO_BALLOON_GROUP + half);
	gather_close(test, false);
	KUNIT_EXPECT_EQ(test, t->batch.count, VIRTIO_BALLOON_GROUP);
	KUNIT_EXPECT_EQ(test, t->gather.count, half);
	KUNIT_EXPECT_EQ(test, gather_whole_groups(t), 1);

	gather_add(t, VIRTIO_BALLOON_GROUP + half, half);
	gather_close(test, false);
	KUNIT_EXPECT_EQ(test, t->batch.count, VIRTIO_BALLOON_GROUP);
	KUNIT_EXPECT_EQ(test, t->gather.count, 0);
	KUNIT_EXPECT_EQ(test, gather_whole_groups(t), 1);
}

/* The last batch of an inflation keeps nothing back. */
static void gather_last_keeps_nothing(struct kunit *test)
{
	struct gather_test *t = test->priv;

	gather_add(t, 0, VIRTIO_BALLOON_GROUP + 1);
	gather_close(test, true);
	KUNIT_EXPECT_EQ(test, t->batch.count, VIRTIO_BALLOON_GROUP + 1);
	KUNIT_EXPECT_EQ(test, t->gather.count, 0);
	KUNIT_EXPECT_EQ(test, t->gather.nr_runs, 0);
}

/* A batch that has nothing but an open group goes out all the same. */
static void gather_open_group_alone(struct kunit *test)
{
	struct gather_test *t = test->priv;

	gather_add(t, 5, 7);
	gather_close(test, false);
	KUNIT_EXPECT_EQ(test, t->batch.count, 7);
	KUNIT_EXPECT_EQ(test, t->gather.count, 0);
}

/* Groups that come in pieces are put together. */
static void gather_joins_pieces(struct kunit *test)
{
	struct gather_test *t = test->priv;
	unsigned int half = VIRTIO_BALLOON_GROUP / 2, g;

	for (g = 0; g < GATHER_GROUPS; g++)
		gather_add(t, g * VIRTIO_BALLOON_GROUP + half, half);
	for (g = 0; g < GATHER_GROUPS; g++)
		gather_add(t, g * VIRTIO_BALLOON_GROUP, half);
	gather_close(test, true);
	KUNIT_EXPECT_EQ(test, gather_whole_groups(t), GATHER_GROUPS);
}

/* Each guest page is named by all of its units, in order [VB-O9]. */
static void gather_names_units(struct kunit *test)
{
	struct gather_test *t = test->priv;
	unsigned int i;

	gather_add(t, 1, 2);
	gather_close(test, true);
	for (i = 0; i < 2 * VIRTIO_BALLOON_UNITS; i++)
		KUNIT_EXPECT_EQ(test,
				virtio32_to_cpu(&t->vdev, t->batch.pfns[i]),
				(t->base + 1) * VIRTIO_BALLOON_UNITS + i);
}

/* Release forgets the pages; what is added later stands alone. */
static void gather_counts(struct kunit *test)
{
	struct gather_test *t = test->priv;

	gather_add(t, 0, 3);
	gather_add(t, 3, 2);
	KUNIT_EXPECT_EQ(test, t->gather.count, 5);
	KUNIT_EXPECT_EQ(test, t->gather.nr_runs, 1);
	gather_add(t, 9, 1);
	KUNIT_EXPECT_EQ(test, t->gather.nr_runs, 2);
}

/* Random pieces in random order, closed at random: each page named once. */
static void gather_conserves(struct kunit *test)
{
	struct gather_test *t = test->priv;
	unsigned int piece = VIRTIO_BALLOON_GROUP / 16, i, j, n;
	unsigned int *order;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, fake_seed(test));

	n = GATHER_PAGES / piece;
	order = kunit_kcalloc(test, n, sizeof(*order), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, order);
	for (i = 0; i < n; i++) {
		j = prandom_u32_state(&rnd) % (i + 1);
		order[i] = order[j];
		order[j] = i;
	}

	for (i = 0; i < n; i++) {
		gather_add(t, order[i] * piece, piece);
		if (prandom_u32_state(&rnd) % 4 == 0)
			gather_close(test, false);
	}
	if (t->gather.count)
		gather_close(test, true);

	KUNIT_EXPECT_EQ(test, t->gather.count, 0);
	for (i = 0; i < GATHER_PAGES; i++)
		KUNIT_EXPECT_EQ_MSG(test, t->seen[i], 1, "page %u", i);
}

static struct kunit_case gather_cases[] = {
	KUNIT_CASE(gather_keeps_open_group),
	KUNIT_CASE(gather_last_keeps_nothing),
	KUNIT_CASE(gather_open_group_alone),
	KUNIT_CASE(gather_joins_pieces),
	KUNIT_CASE(gather_names_units),
	KUNIT_CASE(gather_counts),
	KUNIT_CASE(gather_conserves),
	{}
};

static struct kunit_suite gather_suite = {
	.name = "virtio_balloon_gather",
	.init = gather_test_init,
	.exit = gather_test_exit,
	.test_cases = gather_cases,
};

kunit_test_suite(gather_suite);
