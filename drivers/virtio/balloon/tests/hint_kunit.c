// SPDX-License-Identifier: GPL-2.0
/*
 * Free page hinting: rounds by command ids in every order, full rings, hosts
 * that do not listen, memory that runs short meanwhile.
 */
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/shrinker.h>
#include <linux/virtio_config.h>

#include "fake_host.h"

/* The first of a migration's command ids, as QEMU counts them */
#define HINT_ID		0x80000001

static struct virtio_balloon_hint *hint_of(struct fake_host *host)
{
	struct virtio_balloon *vb = host->vdev.priv;

	return &vb->hint;
}

/* A device of the case's kind that asks for hints, with a ring of this size */
static struct fake_host *hint_new_ring(struct kunit *test, unsigned int ring)
{
	struct fake_setup setup = fake_setup_with(test,
				BIT_ULL(VIRTIO_BALLOON_F_FREE_PAGE_HINT));
	struct fake_host *host;

	setup.ring = ring;
	host = fake_new(test, &setup);
	if (!(host->features & BIT_ULL(VIRTIO_BALLOON_F_FREE_PAGE_HINT)))
		kunit_skip(test, "free pages hold a value");
	return host;
}

static struct fake_host *hint_new(struct kunit *test)
{
	return hint_new_ring(test, 0);
}

/* Free memory that a round leaves to the guest, in guest pages */
static unsigned long hint_spared(const struct fake_host *host)
{
	unsigned long pages = 0;
	unsigned int z;

	for (z = 0; z < host->nr_zones; z++)
		pages += high_wmark_pages(host->zones[z].zone);
	return pages;
}

/* Let it go through a whole round. */
static void hint_round(struct fake_host *host, u32 id)
{
	unsigned int ended = host->ended;

	fake_set_hint_id(host, id);
	fake_wait(host, host->begun == id || host->ended > ended);
	fake_wait(host, host->ended > ended);
}

/* Ask for a round, of a host that answers so, until it was told of some blocks. */
static void hint_stall(struct fake_host *host, enum fake_answers answers,
		       unsigned int blocks)
{
	host->answers = answers;
	fake_set_hint_id(host, HINT_ID);
	fake_wait(host, host->hints > blocks);
}

static void hint_done(struct fake_host *host)
{
	fake_set_hint_id(host, VIRTIO_BALLOON_CMD_ID_DONE);
	fake_wait(host, !READ_ONCE(hint_of(host)->pages));
	fake_check(host);
}

/* VB-H1: a round begins with its id, and offers the guest's free blocks. */
static void vb_h1_round_begins_with_its_id(struct kunit *test)
{
	struct fake_host *host = hint_new(test);
	unsigned long free = global_zone_page_state(NR_FREE_PAGES);

	hint_round(host, HINT_ID);
	KUNIT_EXPECT_EQ(test, host->rounds, 1);
	/* all but the reserve, small blocks, and what CPUs have on their lists */
	KUNIT_EXPECT_GE(test, host->hinted / VIRTIO_BALLOON_UNITS +
			hint_spared(host) + 4096, free);
	KUNIT_EXPECT_GE(test, host->small, 4);
	KUNIT_EXPECT_GE(test, global_zone_page_state(NR_FREE_PAGES) +
			FAKE_NOISE, hint_spared(host));
	hint_done(host);
}

/* VB-H2: the same id again is no other round. */
static void vb_h2_id_is_given_once(struct kunit *test)
{
	struct fake_host *host = hint_new(test);

	hint_round(host, HINT_ID);
	fake_set_hint_id(host, HINT_ID);
	fake_sleep(HZ / 10);
	KUNIT_EXPECT_EQ(test, host->rounds, 1);
	KUNIT_EXPECT_EQ(test, host->ended, 1);
	hint_done(host);
}

/* VB-H3: nothing more is offered after STOP, and nothing goes back. */
static void vb_h3_stops_when_told(struct kunit *test)
{
	struct fake_host *host = hint_new_ring(test, 16);
	unsigned long pages;

	hint_stall(host, FAKE_STEPPED, 0);
	fake_set_hint_id(host, VIRTIO_BALLOON_CMD_ID_STOP);
	fake_sleep(2);
	host->answers = FAKE_AT_ONCE;
	fake_step(host, UINT_MAX);
	fake_wait(host, host->ended == 1);
	KUNIT_EXPECT_LE(test, host->hints, 16);
	pages = hint_of(host)->pages;
	KUNIT_EXPECT_GT(test, pages, 0);
	fake_sleep(HZ / 10);
	KUNIT_EXPECT_EQ(test, hint_of(host)->pages, pages);

	/* the next round offers them again */
	hint_round(host, HINT_ID + 1);
	KUNIT_EXPECT_EQ(test, host->rounds, 2);
	KUNIT_EXPECT_EQ(test, host->hinted, hint_of(host)->pages *
			VIRTIO_BALLOON_UNITS);
	KUNIT_EXPECT_GT(test, host->hinted, pages * VIRTIO_BALLOON_UNITS);
	hint_done(host);
}

/* VB-H4: the end of a round is told, once. */
static void vb_h4_ends_with_stop(struct kunit *test)
{
	struct fake_host *host = hint_new(test);

	hint_round(host, HINT_ID);
	fake_sleep(HZ / 10);
	KUNIT_EXPECT_EQ(test, host->ended, 1);
	KUNIT_EXPECT_EQ(test, host->begun, VIRTIO_BALLOON_CMD_ID_STOP);
	fake_set_hint_id(host, VIRTIO_BALLOON_CMD_ID_STOP);
	fake_sleep(HZ / 10);
	KUNIT_EXPECT_EQ(test, host->ended, 1);
	hint_done(host);
}

/* VB-H5: a hinted block is not written to; fake_hint_answer() sees to it. */
static void vb_h5_blocks_are_left_alone(struct kunit *test)
{
	struct fake_host *host = hint_new(test);
	struct page *page;
	unsigned int n = 0;

	hint_round(host, HINT_ID);
	list_for_each_entry(page, &hint_of(host)->held, lru) {
		n++;
		KUNIT_EXPECT_TRUE(test, fake_is_discarded(page));
	}
	KUNIT_EXPECT_GE(test, n, host->hints);
	hint_done(host);
}

/* VB-H6: all goes back on DONE, and not before. */
static void vb_h6_done_releases_all(struct kunit *test)
{
	struct fake_host *host = hint_new(test);

	hint_round(host, HINT_ID);
	fake_sleep(HZ);
	KUNIT_EXPECT_EQ(test, hint_of(host)->pages * VIRTIO_BALLOON_UNITS,
			host->hinted);
	hint_done(host);
	KUNIT_EXPECT_EQ(test, hint_of(host)->state, VIRTIO_BALLOON_HINT_REST);

	/* the next migration is another one */
	hint_round(host, HINT_ID + 1);
	KUNIT_EXPECT_GT(test, host->hinted, 0);
	hint_done(host);
}

/* VB-H7: the id is in guest byte order for a legacy device. */
static void vb_h7_id_in_device_byte_order(struct kunit *test)
{
	struct fake_host *host = hint_new(test);

	hint_round(host, HINT_ID + 0x1234);
	KUNIT_EXPECT_EQ(test, (__force u32)hint_of(host)->ids[0],
			host->setup.legacy ? HINT_ID + 0x1234 :
			(__force u32)cpu_to_le32(HINT_ID + 0x1234));
	hint_done(host);
}

/* DONE, while some is yet unanswered: that goes back when it is answered. */
static void done_with_blocks_unanswered(struct kunit *test)
{
	struct fake_host *host = hint_new_ring(test, 8);

	hint_stall(host, FAKE_STEPPED, 0);
	fake_set_hint_id(host, VIRTIO_BALLOON_CMD_ID_DONE);
	fake_sleep(HZ / 10);
	KUNIT_EXPECT_GT(test, hint_of(host)->pages, 0);
	KUNIT_EXPECT_EQ(test, hint_of(host)->state, VIRTIO_BALLOON_HINT_RETURN);
	host->answers = FAKE_AT_ONCE;
	fake_step(host, UINT_MAX);
	fake_wait(host, !READ_ONCE(hint_of(host)->pages));
	KUNIT_EXPECT_EQ(test, host->rounds, 1);
	fake_check(host);
}

static void late_answers(struct kunit *test)
{
	struct fake_host *host = hint_new_ring(test, 32);

	host->answers = FAKE_LATE;
	hint_round(host, HINT_ID);
	KUNIT_EXPECT_GT(test, host->hints, 32);
	hint_done(host);
}

/* Interrupts that never come are no end of a round. */
static void lost_interrupts(struct kunit *test)
{
	struct fake_host *host = hint_new_ring(test, 32);

	host->interrupts = FAKE_LOST;
	host->answers = FAKE_LATE;
	hint_round(host, HINT_ID);
	hint_done(host);
}

/* A host that reads and answers nothing keeps what it has; the rest is free. */
static void silent_host(struct kunit *test)
{
	struct fake_host *host = hint_new(test);

	hint_stall(host, FAKE_NEVER, 0);
	fake_sleep(5 * HZ);
	KUNIT_EXPECT_LE(test, host->queue[FAKE_HINT].kicks, 100);
	fake_unbind(host);
	fake_check(host);
}

static void broken_ring(struct kunit *test)
{
	struct fake_host *host = hint_new(test);

	hint_stall(host, FAKE_NEVER, 0);
	fake_break(host);
	fake_sleep(HZ);
	fake_unbind(host);
	fake_check(host);
}

/* Unbound in the middle of a round, nothing is lost. */
static void unbound_in_a_round(struct kunit *test)
{
	struct fake_host *host = hint_new_ring(test, 16);

	hint_stall(host, FAKE_LATE, 20);
	fake_unbind(host);
	fake_check(host);
	fake_bind(host);
	fake_wait(host, host->rounds == 2);
	hint_done(host);
}

/* Memory runs short: so many pages are wanted. Returns how many came. */
static unsigned long hint_press(struct fake_host *host, unsigned long pages)
{
	struct shrinker *shrinker = hint_of(host)->shrinker;
	struct shrink_control sc = {
		.gfp_mask = GFP_KERNEL, .nr_to_scan = pages,
	};

	return shrinker->scan_objects(shrinker, &sc);
}

/* Memory that runs short gets what was answered, and the round ends. */
static void pressure_gets_blocks_back(struct kunit *test)
{
	struct fake_host *host = hint_new(test);
	struct virtio_balloon_hint *hint = hint_of(host);
	unsigned long pages, free, got;

	hint_round(host, HINT_ID);
	pages = hint->pages;
	KUNIT_EXPECT_EQ(test, hint->shrinker->count_objects(hint->shrinker, NULL),
			pages);
	free = global_zone_page_state(NR_FREE_PAGES);
	got = hint_press(host, 1000);
	KUNIT_EXPECT_GE(test, got, 1000);
	KUNIT_EXPECT_LE(test, got, 64 * 1024);
	KUNIT_EXPECT_EQ(test, hint->pages, pages - got);
	KUNIT_EXPECT_GE(test, global_zone_page_state(NR_FREE_PAGES) + FAKE_NOISE,
			free + got);
	while (hint_press(host, 1000) != SHRINK_STOP)
		;
	KUNIT_EXPECT_EQ(test, hint->pages, 0);
	hint_done(host);
}

/* What the host has not answered is not for anyone. */
static void pressure_in_a_round(struct kunit *test)
{
	struct fake_host *host = hint_new_ring(test, 16);

	hint_stall(host, FAKE_STEPPED, 0);
	fake_sleep(2);
	while (hint_press(host, 1000) != SHRINK_STOP)
		;
	KUNIT_EXPECT_EQ(test, hint_of(host)->pages * VIRTIO_BALLOON_UNITS,
			host->hinted);
	host->answers = FAKE_AT_ONCE;
	fake_step(host, UINT_MAX);
	fake_wait(host, host->ended == 1);
	KUNIT_EXPECT_LE(test, host->hints, 16);
	hint_done(host);
}

#ifdef CONFIG_PM_SLEEP
/* Frozen in a round: all goes back, and the id counts anew afterwards. */
static void frozen_in_a_round(struct kunit *test)
{
	struct fake_host *host = hint_new_ring(test, 16);

	hint_stall(host, FAKE_LATE, 20);
	fake_freeze(host);
	fake_check(host);
	host->answers = FAKE_AT_ONCE;
	KUNIT_EXPECT_EQ(test, fake_restore(host), 0);
	fake_wait(host, host->rounds == 2);
	hint_done(host);
}
#endif

/* Ids, answers, pressure and the balloon in any order; then all is as it was. */
static void hints_at_random(struct kunit *test)
{
	struct fake_host *host = hint_new_ring(test, 16);
	struct rnd_state rnd;
	int n;

	prandom_seed_state(&rnd, fake_seed(test));
	for (n = 0; n < 200; n++) {
		switch (prandom_u32_state(&rnd) % 8) {
		case 0 ... 1:
			fake_set_hint_id(host, HINT_ID + n);
			break;
		case 2:
			fake_set_hint_id(host, prandom_u32_state(&rnd) % 2);
			break;
		case 3:
			hint_press(host, prandom_u32_state(&rnd) % 5000);
			break;
		case 4:
			host->answers = prandom_u32_state(&rnd) % 3;
			break;
		case 5:
			fake_set_target(host, prandom_u32_state(&rnd) % 2000);
			break;
		default:
			fake_step(host, prandom_u32_state(&rnd) % 8);
			fake_sleep(prandom_u32_state(&rnd) % 3);
		}
	}
	host->answers = FAKE_AT_ONCE;
	fake_step(host, UINT_MAX);
	hint_done(host);
	fake_set_target(host, 2001);
	fake_settle(host);
}

static struct kunit_case hint_cases[] = {
	KUNIT_CASE_PARAM(vb_h1_round_begins_with_its_id, fake_gen_params),
	KUNIT_CASE_PARAM(vb_h2_id_is_given_once, fake_gen_params),
	KUNIT_CASE_PARAM(vb_h3_stops_when_told, fake_gen_params),
	KUNIT_CASE_PARAM(vb_h4_ends_with_stop, fake_gen_params),
	KUNIT_CASE_PARAM(vb_h5_blocks_are_left_alone, fake_gen_params),
	KUNIT_CASE_PARAM(vb_h6_done_releases_all, fake_gen_params),
	KUNIT_CASE_PARAM(vb_h7_id_in_device_byte_order, fake_gen_params),
	KUNIT_CASE_PARAM(done_with_blocks_unanswered, fake_gen_params),
	KUNIT_CASE_PARAM(late_answers, fake_gen_params),
	KUNIT_CASE(lost_interrupts),
	KUNIT_CASE_PARAM(silent_host, fake_gen_params),
	KUNIT_CASE_PARAM(broken_ring, fake_gen_params),
	KUNIT_CASE_PARAM(unbound_in_a_round, fake_gen_params),
	KUNIT_CASE_PARAM(pressure_gets_blocks_back, fake_gen_params),
	KUNIT_CASE_PARAM(pressure_in_a_round, fake_gen_params),
#ifdef CONFIG_PM_SLEEP
	KUNIT_CASE_PARAM(frozen_in_a_round, fake_gen_params),
#endif
	KUNIT_CASE_PARAM(hints_at_random, fake_gen_params),
	{}
};

static struct kunit_suite hint_suite = {
	.name = "virtio_balloon_hint",
	.exit = fake_exit,
	.test_cases = hint_cases,
};

kunit_test_suite(hint_suite);
