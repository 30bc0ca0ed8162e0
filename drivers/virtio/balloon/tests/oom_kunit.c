// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that runs out: the OOM notifier, the hold-off, the floor, the states.
 * The notifier is called as the allocator does, one call at a time.
 */
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/prandom.h>
#include <linux/virtio_config.h>

#include "fake_host.h"

/* Guest pages that the notifier gives at first */
#define OOM_FIRST	(SZ_4M / PAGE_SIZE)

static struct virtio_balloon *oom_balloon(struct fake_host *host)
{
	return host->vdev.priv;
}

/* Run out of memory; returns the guest pages that the notifier has freed. */
static unsigned long oom_strike(struct fake_host *host)
{
	struct notifier_block *nb = &oom_balloon(host)->oom_nb;
	unsigned long freed = 0;

	KUNIT_ASSERT_NOT_NULL(host->test, nb->notifier_call);
	nb->notifier_call(nb, 0, &freed);
	return freed;
}

/* A device of the case's kind that may deflate on OOM */
static struct fake_host *oom_new(struct kunit *test)
{
	return fake_new_with(test, BIT_ULL(VIRTIO_BALLOON_F_DEFLATE_ON_OOM));
}

static struct fake_host *oom_inflated(struct kunit *test, unsigned long pages)
{
	struct fake_host *host = oom_new(test);

	fake_set_target(host, pages);
	fake_settle(host);
	return host;
}

static bool oom_told(struct fake_host *host, unsigned long pages)
{
	return fake_held(host) == pages &&
	       le32_to_cpu(host->config.actual) == pages * VIRTIO_BALLOON_UNITS;
}

/* VB-O2: without the feature there is no notifier, and the pages stay. */
static void vb_o2_stays_without_deflate_on_oom(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);

	fake_set_target(host, 700);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, unregister_oom_notifier(&oom_balloon(host)->oom_nb),
			-ENOENT);
	KUNIT_EXPECT_EQ(test, host->deflated, 0);
}

/* VB-O3: OOM gives pages back, and the host hears of them [VB-O4]. */
static void vb_o3_gives_back_on_oom(struct kunit *test)
{
	struct fake_host *host = oom_inflated(test, 3 * OOM_FIRST);
	unsigned long free = global_zone_page_state(NR_FREE_PAGES);
	unsigned long freed = oom_strike(host);

	KUNIT_EXPECT_GT(test, freed, 0);
	KUNIT_EXPECT_LE(test, freed, OOM_FIRST);
	KUNIT_EXPECT_GE(test, global_zone_page_state(NR_FREE_PAGES) +
			FAKE_NOISE, free + freed);
	fake_wait(host, oom_told(host, 2 * OOM_FIRST));
	KUNIT_EXPECT_EQ(test, host->deflated, OOM_FIRST);
	KUNIT_EXPECT_EQ(test, oom_balloon(host)->released_on_oom, freed);
	fake_check(host);
}

/* The whole balloon, if need be; and no more than that. */
static void oom_empties_the_balloon(struct kunit *test)
{
	struct fake_host *host = oom_inflated(test, OOM_FIRST + 5);
	unsigned long freed = oom_strike(host);

	freed += oom_strike(host);
	freed += oom_strike(host);
	KUNIT_EXPECT_EQ(test, freed, OOM_FIRST + 5);
	KUNIT_EXPECT_EQ(test, oom_strike(host), 0);
	fake_wait(host, oom_told(host, 0));
	fake_check(host);
}

static void oom_wants_more_in_a_storm(struct kunit *test)
{
	struct fake_host *host = oom_inflated(test, 40 * OOM_FIRST);
	unsigned long first = 40 * OOM_FIRST / 16;

	KUNIT_EXPECT_EQ(test, oom_strike(host), first);
	KUNIT_EXPECT_EQ(test, oom_strike(host), 4 * first);
	fake_sleep(HZ + 2);
	first = 55 * OOM_FIRST / 2 / 16;
	KUNIT_EXPECT_EQ(test, oom_strike(host), first);
	KUNIT_EXPECT_EQ(test, oom_strike(host), 4 * first);
	KUNIT_EXPECT_EQ(test, oom_strike(host),
			55 * OOM_FIRST / 2 - 5 * first);
	fake_check(host);
}

/* Pages that only a host can give wait for it, but not for ever. */
static void oom_waits_for_the_host(struct kunit *test)
{
	struct fake_host *host = oom_new(test);
	unsigned long start;

	host->answers = FAKE_LATE;
	fake_set_target(host, 700);
	fake_wait(host, host->outstanding);
	KUNIT_EXPECT_EQ(test, oom_balloon(host)->pages, 0);
	KUNIT_EXPECT_GT(test, oom_strike(host), 0);

	host->answers = FAKE_NEVER;
	fake_set_target(host, 800);
	fake_wait(host, host->outstanding);
	start = jiffies;
	while (oom_strike(host))
		;
	KUNIT_EXPECT_LE(test, jiffies - start, 2 * HZ);
	fake_check(host);
}

/* Out of memory while the host is told of a batch, and others are gathered */
static void oom_on_kick(struct fake_host *host, struct fake_queue *queue)
{
	if (host->data || queue->id != FAKE_INFLATE)
		return;
	host->data = 1;
	host->data += oom_strike(host);
}

static void oom_strikes_in_a_notification(struct kunit *test)
{
	struct fake_host *host = oom_new(test);

	host->on_kick = oom_on_kick;
	fake_set_target(host, 2 * fake_batch(host) + 5);
	fake_wait(host, host->data);
	host->on_kick = NULL;
	fake_sleep(HZ);
	fake_check(host);
	fake_set_target(host, 700);
	fake_settle(host);
}

/* What an inflation has gathered so far is given back as well. */
static void oom_takes_what_is_gathered(struct kunit *test)
{
	struct fake_host *host = oom_inflated(test, 100);
	struct virtio_balloon *vb = oom_balloon(host);
	LIST_HEAD(pages);

	KUNIT_ASSERT_EQ(test, alloc_pages_bulk_list(GFP_KERNEL, 64, &pages), 64);
	scoped_guard(mutex, &vb->accounts)
		virtio_balloon_gather_add(&vb->gathered, &pages);
	KUNIT_EXPECT_EQ(test, oom_strike(host), 164);
	KUNIT_EXPECT_EQ(test, vb->gathered.count, 0);
	fake_wait(host, oom_told(host, 0));
	fake_check(host);
}

/* Out of memory: inflation is to be held off for so many seconds. */
static void oom_expect_hold(struct fake_host *host, unsigned long seconds)
{
	oom_strike(host);
	fake_sleep(HZ / 2);
	KUNIT_EXPECT_EQ(host->test, oom_balloon(host)->hold_for, seconds * HZ);
	KUNIT_EXPECT_EQ(host->test, oom_balloon(host)->state,
			VIRTIO_BALLOON_STATE_HELD_OFF);
}

/* Act as if the hold-off had ended so long ago, and let inflation go on. */
static void oom_pass(struct fake_host *host, unsigned long ago)
{
	struct virtio_balloon *vb = oom_balloon(host);

	scoped_guard(mutex, &vb->accounts)
		vb->hold_until = jiffies - ago;
	virtio_config_changed(&host->vdev);
	fake_settle(host);
}

static void hold_off_takes_its_time(struct kunit *test)
{
	struct fake_host *host = oom_inflated(test, 3 * OOM_FIRST);

	oom_expect_hold(host, 10);
	fake_sleep(8 * HZ);
	KUNIT_EXPECT_TRUE(test, oom_told(host, 2 * OOM_FIRST));
	fake_sleep(3 * HZ);
	KUNIT_EXPECT_EQ(test, oom_balloon(host)->state,
			VIRTIO_BALLOON_STATE_IDLE);
	fake_settle(host);
}

static void hold_off_doubles(struct kunit *test)
{
	struct fake_host *host = oom_inflated(test, 3 * OOM_FIRST);
	unsigned long seconds;

	for (seconds = 10; seconds < 600; seconds *= 2) {
		oom_expect_hold(host, seconds);
		oom_pass(host, 0);
	}
	oom_expect_hold(host, 600);
	oom_pass(host, 1100 * HZ);
	oom_expect_hold(host, 600);
	/* long after, it is all forgotten */
	oom_pass(host, 1300 * HZ);
	oom_expect_hold(host, 10);
}

/* A new target ends it, the old one does not. */
static void hold_off_ends_with_the_target(struct kunit *test)
{
	struct fake_host *host = oom_inflated(test, 3 * OOM_FIRST);

	oom_strike(host);
	fake_wait(host, oom_told(host, 2 * OOM_FIRST));
	fake_set_target(host, 3 * OOM_FIRST);
	fake_sleep(HZ);
	KUNIT_EXPECT_EQ(test, fake_held(host), 2 * OOM_FIRST);
	fake_set_target(host, 3 * OOM_FIRST + 1);
	fake_settle(host);
	oom_expect_hold(host, 10);
}

/* It lasts as long as memory is scarce, and a hold-off longer. */
static void hold_off_awaits_plenty(struct kunit *test)
{
	struct fake_host *host = oom_inflated(test, 3 * OOM_FIRST);
	struct virtio_balloon *vb = oom_balloon(host);

	oom_strike(host);
	scoped_guard(mutex, &vb->accounts)
		vb->held = totalram_pages();
	fake_sleep(12 * HZ);
	KUNIT_EXPECT_EQ(test, vb->state, VIRTIO_BALLOON_STATE_HELD_OFF);
	scoped_guard(mutex, &vb->accounts)
		vb->held = OOM_FIRST;
	fake_sleep(8 * HZ);
	KUNIT_EXPECT_EQ(test, vb->state, VIRTIO_BALLOON_STATE_HELD_OFF);
	fake_settle(host);
}

static void floor_is_kept(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	struct virtio_balloon *vb = oom_balloon(host);
	unsigned long available = si_mem_available();

	virtio_balloon_floor_mib = (available - 20000) >> (20 - PAGE_SHIFT);
	fake_set_target(host, available);
	fake_wait(host, vb->state == VIRTIO_BALLOON_STATE_AT_FLOOR);
	fake_sleep(5 * HZ);
	KUNIT_EXPECT_EQ(test, vb->state, VIRTIO_BALLOON_STATE_AT_FLOOR);
	/* to a block of pages, more or less, and to what a CPU took meanwhile */
	KUNIT_EXPECT_GE(test, si_mem_available() + fake_on_cpus(host) + 1024 + FAKE_NOISE,
			virtio_balloon_floor(vb));
	KUNIT_EXPECT_LE(test, si_mem_available(),
			virtio_balloon_floor(vb) + 1024 + FAKE_NOISE);
	KUNIT_EXPECT_GT(test, fake_held(host), 20000 - 2048);

	/* without a floor, what the allocator has is to be had */
	virtio_balloon_floor_mib = 0;
	KUNIT_EXPECT_EQ(test, virtio_balloon_floor(vb), 0);
	fake_set_target(host, 22000);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, vb->state, VIRTIO_BALLOON_STATE_IDLE);
	virtio_balloon_floor_mib = -1;
	KUNIT_EXPECT_GT(test, virtio_balloon_floor(vb), 0);
}

static void states_follow_the_balloon(struct kunit *test)
{
	struct fake_host *host = oom_new(test);
	struct virtio_balloon *vb = oom_balloon(host);

	fake_wait(host, host->config_reads);
	fake_sleep(2);
	KUNIT_EXPECT_EQ(test, vb->state, VIRTIO_BALLOON_STATE_IDLE);
	host->answers = FAKE_STEPPED;
	fake_set_target(host, 700);
	fake_wait(host, host->outstanding);
	KUNIT_EXPECT_EQ(test, vb->state, VIRTIO_BALLOON_STATE_INFLATING);
	fake_settle(host);
	fake_sleep(2);
	KUNIT_EXPECT_EQ(test, vb->state, VIRTIO_BALLOON_STATE_IDLE);
	fake_set_target(host, 10);
	fake_wait(host, host->outstanding);
	KUNIT_EXPECT_EQ(test, vb->state, VIRTIO_BALLOON_STATE_DEFLATING);
	fake_settle(host);
	fake_sleep(2);
	KUNIT_EXPECT_EQ(test, vb->state, VIRTIO_BALLOON_STATE_IDLE);
}

/* What a file below the device's balloon/ says; @buf is a page. */
static const char *oom_read(struct fake_host *host, const char *name, char *buf)
{
	struct attribute **attr = virtio_balloon_groups[0]->attrs;
	struct device_attribute *file;

	while (*attr && strcmp((*attr)->name, name))
		attr++;
	KUNIT_ASSERT_NOT_NULL(host->test, *attr);
	file = container_of(*attr, struct device_attribute, attr);
	KUNIT_EXPECT_GT(host->test, file->show(&host->vdev.dev, file, buf), 0);
	return buf;
}

static unsigned long oom_read_bytes(struct fake_host *host, const char *name,
				    char *buf)
{
	unsigned long long bytes = 0;

	KUNIT_EXPECT_EQ(host->test,
			kstrtoull(oom_read(host, name, buf), 10, &bytes), 0);
	return bytes;
}

static void attributes_follow_the_balloon(struct kunit *test)
{
	char *buf = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	struct fake_host *host;
	unsigned long freed;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	host = oom_inflated(test, 3 * OOM_FIRST);
	KUNIT_EXPECT_STREQ(test, oom_read(host, "state", buf), "idle\n");
	KUNIT_EXPECT_EQ(test, oom_read_bytes(host, "target", buf), 12 * SZ_1M);
	KUNIT_EXPECT_EQ(test, oom_read_bytes(host, "actual", buf), 12 * SZ_1M);
	KUNIT_EXPECT_EQ(test, oom_read_bytes(host, "floor", buf),
			virtio_balloon_floor(oom_balloon(host)) * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, oom_read_bytes(host, "released_on_oom", buf), 0);

	freed = oom_strike(host);
	fake_sleep(HZ / 2);
	KUNIT_EXPECT_STREQ(test, oom_read(host, "state", buf), "held off\n");
	KUNIT_EXPECT_STREQ(test, oom_read(host, "reason", buf),
			   "the guest was out of memory\n");
	KUNIT_EXPECT_EQ(test, oom_read_bytes(host, "actual", buf),
			12 * SZ_1M - freed * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, oom_read_bytes(host, "released_on_oom", buf),
			freed * PAGE_SIZE);
}

/* From the first moment on the files say what the host asks for. */
static void attributes_from_the_start(struct kunit *test)
{
	char *buf = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	struct fake_host *host = oom_new(test);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	fake_unbind(host);
	host->answers = FAKE_NEVER;
	fake_set_target(host, 700);
	fake_bind(host);
	KUNIT_EXPECT_STREQ(test, oom_read(host, "state", buf), "inflating\n");
	KUNIT_EXPECT_EQ(test, oom_read_bytes(host, "target", buf),
			700 * PAGE_SIZE);
}

#ifdef CONFIG_PM_SLEEP
/* Frozen, there is nobody to notify; afterwards there is. */
static void oom_freeze_unregisters(struct kunit *test)
{
	struct fake_host *host = oom_inflated(test, 700);

	fake_freeze(host);
	KUNIT_EXPECT_EQ(test, oom_balloon(host)->state,
			VIRTIO_BALLOON_STATE_STOPPING);
	KUNIT_EXPECT_EQ(test, unregister_oom_notifier(&oom_balloon(host)->oom_nb),
			-ENOENT);
	KUNIT_EXPECT_EQ(test, fake_restore(host), 0);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, oom_strike(host), 700);
}
#endif

/* Targets, answers and OOM in any order; then all is as it was. */
static void oom_at_random(struct kunit *test)
{
	struct fake_host *host = oom_new(test);
	struct rnd_state rnd;
	int n;

	prandom_seed_state(&rnd, fake_seed(test));
	for (n = 0; n < 300; n++) {
		switch (prandom_u32_state(&rnd) % 8) {
		case 0 ... 1:
			fake_set_target(host, prandom_u32_state(&rnd) % 9000);
			break;
		case 2:
			host->answers = prandom_u32_state(&rnd) % 3;
			break;
		case 3 ... 4:
			oom_strike(host);
			break;
		default:
			fake_step(host, prandom_u32_state(&rnd) % 4);
			fake_sleep(prandom_u32_state(&rnd) % 5);
		}
	}
	host->answers = FAKE_AT_ONCE;
	fake_step(host, UINT_MAX);
	fake_set_target(host, 9001);
	fake_settle(host);
}

static struct kunit_case oom_cases[] = {
	KUNIT_CASE_PARAM(vb_o2_stays_without_deflate_on_oom, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o3_gives_back_on_oom, fake_gen_params),
	KUNIT_CASE_PARAM(oom_empties_the_balloon, fake_gen_params),
	KUNIT_CASE(oom_wants_more_in_a_storm),
	KUNIT_CASE_PARAM(oom_waits_for_the_host, fake_gen_params),
	KUNIT_CASE_PARAM(oom_strikes_in_a_notification, fake_gen_params),
	KUNIT_CASE(oom_takes_what_is_gathered),
	KUNIT_CASE_PARAM(hold_off_takes_its_time, fake_gen_params),
	KUNIT_CASE_PARAM(hold_off_doubles, fake_gen_params),
	KUNIT_CASE_PARAM(hold_off_ends_with_the_target, fake_gen_params),
	KUNIT_CASE(hold_off_awaits_plenty),
	KUNIT_CASE_PARAM(floor_is_kept, fake_gen_params),
	KUNIT_CASE_PARAM(states_follow_the_balloon, fake_gen_params),
	KUNIT_CASE(attributes_follow_the_balloon),
	KUNIT_CASE(attributes_from_the_start),
#ifdef CONFIG_PM_SLEEP
	KUNIT_CASE_PARAM(oom_freeze_unregisters, fake_gen_params),
#endif
	KUNIT_CASE_PARAM(oom_at_random, fake_gen_params),
	{}
};

static struct kunit_suite oom_suite = {
	.name = "virtio_balloon_oom",
	.exit = fake_exit,
	.test_cases = oom_cases,
};

kunit_test_suite(oom_suite);
