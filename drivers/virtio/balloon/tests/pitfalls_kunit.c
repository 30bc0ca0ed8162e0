// SPDX-License-Identifier: GPL-2.0
/*
 * What went wrong in drivers of this kind, one case each: waiting, teardown,
 * failure half-way up, odd targets and rings, mad hosts, page migration.
 */
#include <linux/kernel_stat.h>
#include <linux/mm.h>
#include <linux/virtio_config.h>
#include <linux/vmstat.h>

#include "fake_host.h"

/* A device of the case's kind, with @pages in the balloon */
static struct fake_host *pitfall_inflated(struct kunit *test,
					  unsigned long pages)
{
	struct fake_host *host = fake_new(test, test->param_value);

	fake_set_target(host, pages);
	fake_settle(host);
	return host;
}

/* An event counter of the kernel's */
static unsigned long pitfall_event(enum vm_event_item item)
{
	unsigned long events[NR_VM_EVENT_ITEMS];

	all_vm_events(events);
	return events[item];
}

/* Unbind does not wait for a host that is silent while the balloon grows. */
static void silent_host_inflating(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);

	host->answers = FAKE_NEVER;
	fake_set_target(host, 2 * fake_batch(host));
	fake_wait(host, host->outstanding);
	fake_unbind(host);
}

/* Nor for one that is silent while the balloon shrinks. */
static void silent_host_deflating(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 2000);

	host->answers = FAKE_NEVER;
	fake_set_target(host, 10);
	fake_wait(host, host->outstanding);
	fake_unbind(host);
	host->answers = FAKE_AT_ONCE;
	fake_bind(host);
	fake_settle(host);
}

/* A host that is slow, but answers, is waited for: it hears of all pages. */
static void slow_host_is_waited_for(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 2000);

	host->answers = FAKE_LATE;
	fake_unbind(host);
	KUNIT_EXPECT_EQ(test, host->deflated, 2000);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(host->config.actual), 0);
}

/* Rings that break while the balloon moves: there is nothing to wait for. */
static void broken_rings(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned long begin;

	host->answers = FAKE_STEPPED;
	fake_set_target(host, 2 * fake_batch(host));
	fake_wait(host, host->outstanding);
	fake_break(host);
	fake_step(host, 1);
	fake_set_target(host, 100);
	fake_sleep(HZ / 20);
	fake_unbind(host);

	host->answers = FAKE_AT_ONCE;
	fake_bind(host);
	fake_settle(host);
	host->answers = FAKE_STEPPED;
	fake_set_target(host, 0);
	fake_wait(host, host->outstanding);
	fake_break(host);
	begin = jiffies;
	fake_unbind(host);
	KUNIT_EXPECT_LE(test, jiffies - begin, HZ / 2);
}

static void pitfall_break_on_kick(struct fake_host *host,
				  struct fake_queue *queue)
{
	fake_break(host);
}

/* Rings that break within a notification */
static void broken_in_notification(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);

	host->on_kick = pitfall_break_on_kick;
	fake_set_target(host, 3 * fake_batch(host));
	fake_wait(host, host->queue[FAKE_INFLATE].outstanding ||
		  host->inflated > 700);
	host->on_kick = NULL;
	fake_unbind(host);
}

static void pitfall_break_on_read(struct fake_host *host)
{
	fake_break(host);
}

/* Rings that break just before a request is added, up or down */
static void add_fails(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned int reads = host->config_reads;

	host->on_config_read = pitfall_break_on_read;
	fake_set_target(host, 5000);
	fake_wait(host, host->config_reads > reads);
	fake_sleep(HZ / 20);
	KUNIT_EXPECT_EQ(test, fake_held(host), 700);
	host->on_config_read = NULL;
	fake_unbind(host);

	fake_set_target(host, 700);
	fake_bind(host);
	fake_settle(host);
	reads = host->config_reads;
	host->on_config_read = pitfall_break_on_read;
	fake_set_target(host, 20);
	fake_sleep(HZ / 20);
	KUNIT_EXPECT_GT(test, host->config_reads, reads);
	fake_unbind(host);
}

/* A device that is pulled out while the balloon grows, and at rest */
static void surprise_removal(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);

	host->answers = FAKE_STEPPED;
	fake_set_target(host, 2 * fake_batch(host));
	fake_wait(host, host->outstanding);
	fake_pull(host);
	fake_unbind(host);
}

static void surprise_removal_at_rest(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);

	fake_set_target(host, 2 * fake_batch(host) + 77);
	fake_settle(host);
	fake_pull(host);
	fake_unbind(host);
}

/* Shutdown with requests posted ends, and nothing is said after it. */
static void shutdown_under_way(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned int kicks;

	host->answers = FAKE_STEPPED;
	fake_set_target(host, 2 * fake_batch(host));
	fake_wait(host, host->outstanding);
	fake_shutdown(host);
	kicks = host->queue[FAKE_INFLATE].kicks;
	fake_set_target(host, 5);
	fake_sleep(HZ / 5);
	KUNIT_EXPECT_EQ(test, host->queue[FAKE_INFLATE].kicks, kicks);
	fake_unbind(host);
}

/* A queue that cannot be set up: nothing is left, and a retry works. */
static void probe_fails_at_a_queue(struct kunit *test)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = *param;
	unsigned int queues = FAKE_QUEUES;
	struct fake_host *host;

	setup.may_fail = true;
	setup.num_pages = 300 * VIRTIO_BALLOON_UNITS;
	setup.features |= BIT_ULL(VIRTIO_BALLOON_F_REPORTING) |
			  BIT_ULL(VIRTIO_BALLOON_F_FREE_PAGE_HINT) |
			  BIT_ULL(VIRTIO_BALLOON_F_PAGE_POISON);
	setup.fail_queue = 1;
	host = fake_new(test, &setup);
	/* a guest that fills its free pages does without hinting */
	queues -= !(host->features & BIT_ULL(VIRTIO_BALLOON_F_FREE_PAGE_HINT));
	for (; host->setup.fail_queue <= queues; host->setup.fail_queue++) {
		fake_bind(host);
		KUNIT_EXPECT_FALSE(test, fake_is_bound(host));
		fake_check_nothing_left(host);
	}
	host->setup.fail_queue = 0;
	fake_bind(host);
	KUNIT_ASSERT_TRUE(test, fake_is_bound(host));
	fake_settle(host);
}

/* A transport without a configuration is turned down. */
static void no_configuration(struct kunit *test)
{
	const struct fake_setup setup = { .no_config = true, .may_fail = true };
	struct fake_host *host = fake_new(test, &setup);

	KUNIT_EXPECT_FALSE(test, fake_is_bound(host));
}

/* Each allocation of the way up fails once: nothing is left each time. */
static void probe_fails_at_an_allocation(struct kunit *test)
{
	const struct fake_setup setup = {
		.may_fail = true,
		.num_pages = 300 * VIRTIO_BALLOON_UNITS,
	};
	struct fake_host *host = fake_new(test, &setup);
	unsigned int nth = 0, failed = 0;
	bool injected;

	if (!fake_can_fail())
		kunit_skip(test, "the kernel cannot have allocations fail");
	fake_settle(host);
	do {
		fake_unbind(host);
		fake_fail_nth(++nth);
		fake_bind(host);
		injected = fake_has_failed();
		fake_fail_nth(0);
		failed += !fake_is_bound(host);
		if (fake_is_bound(host))
			fake_settle(host);
		else
			fake_check_nothing_left(host);
	} while (injected && nth < 500);
	KUNIT_EXPECT_FALSE(test, injected);
	KUNIT_EXPECT_TRUE(test, fake_is_bound(host));
	KUNIT_EXPECT_GE(test, failed, 5);
}

static void pitfall_break_when_ready(struct fake_host *host)
{
	fake_break(host);
}

/* A device that breaks as soon as it is ready: start fails, all is undone. */
static void start_fails(struct kunit *test)
{
	const struct fake_setup setup = {
		.hardened = true,
		.may_fail = true,
		.fail_queue = 1,
	};
	struct fake_host *host = fake_new(test, &setup);

	host->setup.fail_queue = 0;
	host->on_ready = pitfall_break_when_ready;
	fake_bind(host);
	KUNIT_EXPECT_FALSE(test, fake_is_bound(host));
	fake_check_nothing_left(host);
	host->on_ready = NULL;
	fake_bind(host);
	KUNIT_ASSERT_TRUE(test, fake_is_bound(host));
	fake_set_target(host, 300);
	fake_settle(host);
}

/* Bind and unbind, with a full balloon each time */
static void bind_again_and_again(struct kunit *test)
{
	struct fake_host *host = fake_new(test, NULL);
	unsigned int i;

	fake_set_target(host, 300);
	fake_settle(host);
	for (i = 0; i < 25; i++) {
		fake_unbind(host);
		fake_bind(host);
		fake_settle(host);
	}
}

/* Without a statistics queue all the rest works, and goes away cleanly. */
static void no_statistics_queue(struct kunit *test)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = *param;
	struct fake_host *host;

	setup.no_stats = true;
	host = fake_new(test, &setup);
	fake_set_target(host, 700);
	fake_settle(host);
	fake_unbind(host);
	fake_bind(host);
	fake_settle(host);
}

/* Callbacks that come as soon as there is a queue, for no reason */
static void interrupts_before_driver_ok(struct kunit *test)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = *param;
	struct fake_host *host;

	setup.early_interrupts = true;
	setup.num_pages = 300 * VIRTIO_BALLOON_UNITS;
	host = fake_new(test, &setup);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, host->stats_answers, 1);
}

static void pitfall_call_back(struct fake_host *host, struct fake_queue *queue)
{
	fake_spurious(host, FAKE_INFLATE);
	fake_spurious(host, FAKE_STATS);
	virtio_config_changed(&host->vdev);
}

/* Callbacks that come while the driver is on its way out */
static void interrupts_on_the_way_down(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);

	host->on_kick = pitfall_call_back;
	fake_set_target(host, 300);
	fake_unbind(host);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(host->config.actual), 0);
}

static void pitfall_dawdle(struct fake_host *host, struct fake_queue *queue)
{
	if (host->data) {
		host->data--;
		wake_up_all(&host->wait);
		fake_sleep(HZ / 2);
	}
}

/* The driver goes while it is still away in a notification. */
static void unbind_during_a_notification(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);

	host->data = 1;
	host->on_kick = pitfall_dawdle;
	fake_set_target(host, 1500);
	fake_wait(host, !host->data);
	fake_unbind(host);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(host->config.actual), 0);
}

/* Interrupts in hard interrupt context */
static void interrupts_are_hard(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned int round;

	host->interrupts = FAKE_HARD;
	host->answers = FAKE_LATE;
	for (round = 0; round < 3; round++) {
		fake_set_target(host, fake_batch(host) + 100 * round);
		fake_settle(host);
		fake_set_target(host, 20 * round);
		fake_settle(host);
		fake_ask_stats(host);
		fake_wait(host, host->stats_answers == round + 2);
	}
}

/* Interrupts that come twice, and for no reason, asked for or not */
static void interrupts_are_doubled(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);

	host->interrupts = FAKE_DOUBLED;
	host->answers = FAKE_LATE;
	fake_set_target(host, 2 * fake_batch(host));
	fake_settle(host);
	fake_set_target(host, 0);
	fake_settle(host);
}

/* Interrupts that are lost: the next change of target puts it right. */
static void interrupts_are_lost(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 100);

	host->interrupts = FAKE_LOST;
	host->answers = FAKE_LATE;
	fake_set_target(host, 700);
	fake_wait(host, host->outstanding);
	fake_wait(host, !host->outstanding);
	fake_sleep(HZ);
	host->interrupts = FAKE_INLINE;
	fake_set_target(host, 701);
	fake_settle(host);
	host->interrupts = FAKE_LOST;
	fake_set_target(host, 0);
	fake_wait(host, host->outstanding);
	fake_unbind(host);
}

/*
 * Targets that are no multiple of anything: the balloon gets there, and then
 * there is nothing more to be heard.
 */
static void odd_targets_settle(struct kunit *test)
{
	static const u32 odd[] = {
		1, 2, 3, 15, 16, 17, 31, 33, 255, 256, 257, 511, 512, 513, 1023,
		1025, 4095, 4097, 7777, 7776, 7775, 100, 99, 16, 15, 2, 1, 0,
	};
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned int i, kicks, writes;

	for (i = 0; i < ARRAY_SIZE(odd); i++) {
		fake_set_units(host, odd[i]);
		fake_settle(host);
	}
	fake_set_units(host, 1023);
	fake_settle(host);
	kicks = host->queue[FAKE_INFLATE].kicks + host->queue[FAKE_DEFLATE].kicks;
	writes = host->config_writes;
	fake_sleep(2 * HZ);
	KUNIT_EXPECT_EQ(test, kicks, host->queue[FAKE_INFLATE].kicks +
			host->queue[FAKE_DEFLATE].kicks);
	KUNIT_EXPECT_EQ(test, writes, host->config_writes);
}

/* The smallest rings there can be */
static void tiny_rings(struct kunit *test)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = *param;
	struct fake_host *host;

	setup.ring = 1;
	host = fake_new(test, &setup);
	host->answers = FAKE_LATE;
	fake_set_target(host, 2 * fake_batch(host) + 5);
	fake_settle(host);
	fake_set_target(host, 5);
	fake_settle(host);
	fake_ask_stats(host);
	fake_wait(host, host->stats_answers == 2);
}

/* Answers that come in the reverse order */
static void answers_out_of_order(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);

	host->newest_first = true;
	host->answers = FAKE_LATE;
	fake_set_target(host, 3 * fake_batch(host));
	fake_settle(host);
	fake_set_target(host, 7);
	fake_settle(host);
}

/* An answer to what was never posted breaks the ring, and nothing else. */
static void answers_unposted(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	enum fake_queue_id id;

	for (id = FAKE_INFLATE; id <= FAKE_STATS; id++) {
		host->answers = FAKE_STEPPED;
		fake_set_target(host, id == FAKE_DEFLATE ? 10 : 5000);
		fake_wait(host, host->outstanding);
		fake_answer_unposted(host, id);
		fake_sleep(HZ / 10);
		fake_unbind(host);
		host->answers = FAKE_AT_ONCE;
		fake_set_target(host, 700);
		fake_bind(host);
		fake_settle(host);
	}
}

/* A lower target stops an inflation under way at once, a full ring or not. */
static void deflate_outranks_inflate(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned long most = host->inflated;

	host->answers = FAKE_STEPPED;
	fake_set_target(host, 20 * fake_batch(host));
	fake_wait(host, host->outstanding);
	fake_sleep(HZ / 5);
	fake_set_target(host, 10);
	fake_wait(host, host->owned[FAKE_DEFLATING]);
	fake_settle(host);
	/* What was posted goes on, but no more follows */
	most += (VIRTIO_BALLOON_MOVES + 1) *
		(fake_batch(host) + 2 * VIRTIO_BALLOON_GROUP);
	KUNIT_EXPECT_LE(test, host->inflated, most);
}

/* While the host is at work it finds more in the ring, and need not be told. */
static void host_is_told_when_it_ran_dry(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);

	host->answers = FAKE_STEPPED;
	fake_set_target(host, 3 * fake_batch(host));
	fake_wait(host, host->outstanding);
	fake_sleep(HZ / 5);
	KUNIT_EXPECT_EQ(test, host->queue[FAKE_INFLATE].kicks, 1);
	fake_step(host, 1);
	fake_wait(host, host->outstanding);
	KUNIT_EXPECT_EQ(test, host->queue[FAKE_INFLATE].kicks, 2);
	fake_settle(host);
}

/* A target that sinks with every look at it is followed all the same. */
static void pitfall_sink(struct fake_host *host)
{
	u32 units = le32_to_cpu(host->config.num_pages);

	if (host->data && units > 100) {
		host->config.num_pages = cpu_to_le32(units - 100);
		host->data--;
		virtio_config_changed(&host->vdev);
	}
}

static void target_changes_under_the_reader(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 10);

	host->data = 20;
	host->on_config_read = pitfall_sink;
	fake_set_target(host, 5000);
	fake_wait(host, !host->data);
	fake_settle(host);
}

/* A target that moves all the time */
static void target_never_rests(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned int i;

	host->answers = FAKE_LATE;
	for (i = 0; i < 50; i++) {
		fake_set_target(host, i * 7919 % 6000);
		fake_sleep(i % 3);
	}
	fake_settle(host);
}

/* Time that the kernel was busy so far, in nanoseconds */
static u64 pitfall_busy(void)
{
	unsigned int cpu;
	u64 busy = 0;

	for_each_online_cpu(cpu)
		busy += kcpustat_cpu(cpu).cpustat[CPUTIME_SYSTEM];
	return busy;
}

/*
 * A target beyond all memory: inflation stops where the guest can still live,
 * is quiet there, and a target within reach is met exactly.
 */
static void target_beyond_memory(struct kunit *test)
{
	struct fake_host *host = fake_new(test, NULL);
	unsigned long held = 0;
	struct page *page;
	unsigned int i;
	u64 busy;

	fake_set_units(host, U32_MAX);
	while (!held || fake_held(host) != held) {
		held = fake_held(host);
		fake_sleep(2 * HZ);
	}
	busy = pitfall_busy();
	fake_sleep(4 * HZ);
	KUNIT_EXPECT_LE(test, pitfall_busy() - busy, 1ULL * NSEC_PER_SEC);
	KUNIT_EXPECT_GT(test, held, host->totalram / 2);
	KUNIT_EXPECT_LT(test, held, host->totalram);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(host->config.actual),
			held * VIRTIO_BALLOON_UNITS);
	for (i = 0; i < 20; i++) {
		page = alloc_page(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
		KUNIT_EXPECT_NOT_NULL(test, page);
		if (page)
			__free_page(page);
	}
	fake_set_target(host, 700);
	fake_settle(host);
}

/*
 * Others may look at a page, and hold it meanwhile: it is given back when they
 * let go, and its neighbours at once.
 */
static void pages_are_looked_at(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 2000);
	struct page *pages[3];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		pages[i] = fake_held_page(host, 100 + 700 * i);
		get_page(pages[i]);
	}
	fake_set_target(host, 0);
	fake_settle(host);
	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		KUNIT_EXPECT_EQ(test, page_count(pages[i]), 1);
		put_page(pages[i]);
	}
}

/* Whole groups of 2 MiB stand together in a request, where there are any. */
static void groups_stand_together(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned long pages = 3 * fake_batch(host);

	fake_set_target(host, fake_scattered(host) + pages);
	fake_settle(host);
	KUNIT_EXPECT_GE(test, host->groups,
			pages * 3 / 4 / VIRTIO_BALLOON_GROUP);
}

/* The kernel's counters tell how much was moved. */
static void events_are_counted(struct kunit *test)
{
	struct fake_host *host = fake_new(test, NULL);
	unsigned long in = pitfall_event(BALLOON_INFLATE);
	unsigned long out = pitfall_event(BALLOON_DEFLATE);

	fake_set_target(host, 5000);
	fake_settle(host);
	fake_set_target(host, 123);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, pitfall_event(BALLOON_INFLATE) - in, 5000);
	KUNIT_EXPECT_EQ(test, pitfall_event(BALLOON_DEFLATE) - out, 5000 - 123);
}

/* Statistics do not stand behind an inflation that is stuck. */
static void statistics_while_stuck(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned int i;

	host->answers = FAKE_NEVER;
	fake_set_target(host, 20 * fake_batch(host));
	fake_wait(host, host->outstanding);
	for (i = 2; i < 5; i++) {
		fake_ask_stats(host);
		fake_wait(host, host->stats_answers == i);
	}
}

#ifdef CONFIG_PM_SLEEP

/* All is given back before sleep, and taken again after it. */
static void freeze_and_restore(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned int answers = host->stats_answers;

	fake_freeze(host);
	fake_set_target(host, 900);
	fake_sleep(HZ / 10);
	KUNIT_EXPECT_EQ(test, 0, fake_restore(host));
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, fake_held(host), 900);
	fake_wait(host, host->stats_answers == answers + 1);
	fake_ask_stats(host);
	fake_wait(host, host->stats_answers == answers + 2);
}

/* The same when the host is not done with what was asked of it before */
static void freeze_with_requests_posted(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);

	host->answers = FAKE_NEVER;
	fake_ask_stats(host);
	fake_set_target(host, 2 * fake_batch(host));
	fake_wait(host, host->outstanding);
	fake_freeze(host);
	host->answers = FAKE_AT_ONCE;
	KUNIT_EXPECT_EQ(test, 0, fake_restore(host));
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, host->queue[FAKE_STATS].outstanding, 1);
}

/* A restore that fails leaves nothing, and the driver can still go. */
static void restore_fails(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned int queue;

	for (queue = 1; queue <= FAKE_STATS + 1; queue++) {
		fake_freeze(host);
		host->setup.fail_queue = queue;
		KUNIT_EXPECT_LT(test, fake_restore(host), 0);
		fake_check_nothing_left(host);
		host->setup.fail_queue = 0;
		fake_unbind(host);
		fake_bind(host);
		fake_settle(host);
	}
}

/* Each allocation of a restore fails once. */
static void restore_fails_at_an_allocation(struct kunit *test)
{
	struct fake_host *host = fake_new(test, NULL);
	unsigned int nth = 0, failed = 0;
	bool injected;

	if (!fake_can_fail())
		kunit_skip(test, "the kernel cannot have allocations fail");
	do {
		fake_set_target(host, 300);
		fake_settle(host);
		fake_freeze(host);
		fake_fail_nth(++nth);
		if (fake_restore(host)) {
			failed++;
			injected = fake_has_failed();
			fake_fail_nth(0);
			fake_check_nothing_left(host);
			fake_unbind(host);
			fake_bind(host);
		} else {
			injected = fake_has_failed();
			fake_fail_nth(0);
		}
	} while (injected && nth < 500);
	KUNIT_EXPECT_FALSE(test, injected);
	KUNIT_EXPECT_GE(test, failed, 5);
}

#endif /* CONFIG_PM_SLEEP */

#ifdef CONFIG_BALLOON_COMPACTION

/* Isolate a page of the balloon; the case fails if that cannot be. */
static struct page *pitfall_isolated(struct fake_host *host)
{
	struct page *page = fake_held_page(host, fake_held(host) / 2);

	KUNIT_ASSERT_TRUE(host->test, fake_isolate(page));
	return page;
}

/* A migrated page is replaced on both sides, and the accounts stay. */
static void migration_replaces_a_page(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned long events = pitfall_event(BALLOON_MIGRATE);
	struct page *page, *newpage;
	unsigned int i;

	for (i = 0; i < 20; i++) {
		if (i == 10)
			host->answers = FAKE_LATE;
		page = pitfall_isolated(host);
		KUNIT_EXPECT_EQ(test, 0, fake_migrate(page, GFP_HIGHUSER_MOVABLE,
						      &newpage));
		fake_settle(host);
		KUNIT_EXPECT_EQ(test, page_count(newpage), 1);
	}
	KUNIT_EXPECT_EQ(test, host->inflated, 700 + 20);
	KUNIT_EXPECT_EQ(test, host->deflated, 20);
	KUNIT_EXPECT_EQ(test, pitfall_event(BALLOON_MIGRATE) - events, 20);
	fake_set_target(host, 0);
	fake_settle(host);
}

/* A migration to another zone corrects the managed pages of both. */
static void migration_across_zones(struct kunit *test)
{
	static const gfp_t kinds[] = { GFP_KERNEL, GFP_DMA32, GFP_DMA };
	struct fake_host *host = pitfall_inflated(test, 700);
	struct page *page = NULL, *newpage;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		page = pitfall_isolated(host);
		KUNIT_EXPECT_EQ(test, 0, fake_migrate(page, kinds[i], &newpage));
		fake_settle(host);
		if (page_zone(page) != page_zone(newpage))
			break;
	}
	if (i == ARRAY_SIZE(kinds))
		kunit_skip(test, "one zone only; boot with movablecore=128M");
	fake_set_target(host, 0);
	fake_settle(host);
}

/* One batch from several zones */
static void zones_are_accounted(struct kunit *test)
{
	struct fake_host *host = fake_new(test, NULL);
	struct zone *movable = NULL;
	unsigned int z;

	for (z = 0; z < host->nr_zones; z++)
		if (zone_idx(host->zones[z].zone) == ZONE_MOVABLE &&
		    populated_zone(host->zones[z].zone))
			movable = host->zones[z].zone;
	if (!movable)
		kunit_skip(test, "no ZONE_MOVABLE; boot with movablecore=128M");
	fake_set_target(host, zone_managed_pages(movable) + 3000);
	fake_settle(host);
	fake_set_target(host, 3);
	fake_settle(host);
}

/* The host is silent: migration gives up, the host's answer is dealt with. */
static void migration_times_out(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned long begin;
	struct page *page;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		host->answers = FAKE_STEPPED;
		page = pitfall_isolated(host);
		begin = jiffies;
		KUNIT_EXPECT_NE(test, 0, fake_migrate(page, GFP_HIGHUSER_MOVABLE,
						      NULL));
		KUNIT_EXPECT_LE(test, jiffies - begin, FAKE_UNBIND_MAX);
		KUNIT_EXPECT_EQ(test, host->owned[FAKE_INFLATING],
				VIRTIO_BALLOON_UNITS);
		if (!i)
			fake_settle(host);
	}
	fake_unbind(host);
}

/* Many migrations that time out: each asks for a buffer of its own. */
static void migrations_run_out_of_buffers(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);
	unsigned int i;

	host->answers = FAKE_STEPPED;
	for (i = 0; i < 2 * VIRTIO_BALLOON_MIGRATIONS; i++)
		KUNIT_EXPECT_NE(test, 0,
				fake_migrate(pitfall_isolated(host),
					     GFP_HIGHUSER_MOVABLE, NULL));
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, host->inflated, 700 + VIRTIO_BALLOON_MIGRATIONS);
}

/* Migration with rings that are broken, full, or of one entry */
static void migration_without_room(struct kunit *test)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = *param;
	struct fake_host *host;

	setup.ring = 1;
	host = fake_new(test, &setup);
	fake_set_target(host, 700);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, 0, fake_migrate(pitfall_isolated(host),
					      GFP_HIGHUSER_MOVABLE, NULL));
	fake_settle(host);
	host->answers = FAKE_STEPPED;
	fake_set_target(host, 800);
	fake_wait(host, host->outstanding);
	KUNIT_EXPECT_NE(test, 0, fake_migrate(pitfall_isolated(host),
					      GFP_HIGHUSER_MOVABLE, NULL));
	fake_settle(host);
	fake_set_target(host, 600);
	fake_wait(host, host->outstanding);
	KUNIT_EXPECT_NE(test, 0, fake_migrate(pitfall_isolated(host),
					      GFP_HIGHUSER_MOVABLE, NULL));
	fake_settle(host);
	fake_break(host);
	KUNIT_EXPECT_NE(test, 0, fake_migrate(pitfall_isolated(host),
					      GFP_HIGHUSER_MOVABLE, NULL));
}

/* Rings that break while a migration waits */
static void migration_breaks(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 700);

	host->on_kick = pitfall_break_on_kick;
	KUNIT_EXPECT_NE(test, 0, fake_migrate(pitfall_isolated(host),
					      GFP_HIGHUSER_MOVABLE, NULL));
	host->on_kick = NULL;
	fake_unbind(host);
}

/* A page under migration is waited for, not lost and not taken twice. */
static void deflation_awaits_migration(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 300);
	struct page *page = pitfall_isolated(host);

	fake_set_target(host, 0);
	fake_wait(host, fake_held(host) == 1);
	fake_sleep(HZ / 5);
	KUNIT_EXPECT_EQ(test, fake_held(host), 1);
	fake_putback(page);
	fake_settle(host);

	fake_set_target(host, 300);
	fake_settle(host);
	page = pitfall_isolated(host);
	fake_set_target(host, 0);
	fake_wait(host, fake_held(host) == 1);
	fake_migrate(page, GFP_HIGHUSER_MOVABLE, NULL);
	fake_settle(host);
}

/* A page that is put back while the driver is on its way out */
struct pitfall_putback {
	struct delayed_work work;
	struct page *page;
};

static void pitfall_putback_work(struct work_struct *work)
{
	struct pitfall_putback *late = container_of(to_delayed_work(work),
						    struct pitfall_putback,
						    work);

	fake_putback(late->page);
}

static void unbind_awaits_migration(struct kunit *test)
{
	static const unsigned long delays[] = { HZ / 2, 3 * HZ + HZ / 2 };
	struct fake_host *host = pitfall_inflated(test, 300);
	struct pitfall_putback late;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(delays); i++) {
		late.page = pitfall_isolated(host);
		INIT_DELAYED_WORK_ONSTACK(&late.work, pitfall_putback_work);
		schedule_delayed_work(&late.work, delays[i]);
		fake_unbind(host);
		flush_delayed_work(&late.work);
		destroy_delayed_work_on_stack(&late.work);
		fake_bind(host);
		fake_settle(host);
	}
}

/* No migration begins, and none hangs, once the driver is on its way out. */
static void pitfall_migrate_work(struct work_struct *work)
{
	struct pitfall_putback *late = container_of(to_delayed_work(work),
						    struct pitfall_putback,
						    work);

	fake_migrate(late->page, GFP_HIGHUSER_MOVABLE, NULL);
}

static void unbind_ends_migration(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 300);
	struct pitfall_putback late = { .page = pitfall_isolated(host) };
	unsigned long begin;

	host->answers = FAKE_NEVER;
	INIT_DELAYED_WORK_ONSTACK(&late.work, pitfall_migrate_work);
	schedule_delayed_work(&late.work, 0);
	fake_wait(host, host->outstanding);
	begin = jiffies;
	fake_unbind(host);
	KUNIT_EXPECT_LE(test, jiffies - begin, 2 * HZ);
	flush_delayed_work(&late.work);
	destroy_delayed_work_on_stack(&late.work);
}

/*
 * A page that migration does not give back in time costs that page, not the
 * life of whoever unbinds the driver; and it may still come back later.
 */
static void unbind_gives_migration_up(struct kunit *test)
{
	struct fake_host *host = pitfall_inflated(test, 300);
	struct page *page = pitfall_isolated(host);
	struct balloon_dev_info *info = balloon_page_device(page);
	unsigned long begin = jiffies;

	device_release_driver(&host->vdev.dev);
	KUNIT_EXPECT_LE(test, jiffies - begin, 2 * FAKE_UNBIND_MAX);
	KUNIT_EXPECT_EQ(test, host->totalram, totalram_pages() + 1);
	fake_putback(page);
	KUNIT_EXPECT_PTR_EQ(test, balloon_page_dequeue(info), page);
	adjust_managed_page_count(page, 1);
	put_page(page);
	kfree(container_of(info, struct virtio_balloon, info));
}

#endif /* CONFIG_BALLOON_COMPACTION */

static struct kunit_case pitfall_cases[] = {
	KUNIT_CASE_PARAM(silent_host_inflating, fake_gen_params),
	KUNIT_CASE_PARAM(silent_host_deflating, fake_gen_params),
	KUNIT_CASE_PARAM(slow_host_is_waited_for, fake_gen_params),
	KUNIT_CASE_PARAM(broken_rings, fake_gen_params),
	KUNIT_CASE_PARAM(broken_in_notification, fake_gen_params),
	KUNIT_CASE_PARAM(add_fails, fake_gen_params),
	KUNIT_CASE_PARAM(surprise_removal, fake_gen_params),
	KUNIT_CASE_PARAM(surprise_removal_at_rest, fake_gen_params),
	KUNIT_CASE_PARAM(shutdown_under_way, fake_gen_params),
	KUNIT_CASE_PARAM(probe_fails_at_a_queue, fake_gen_params),
	KUNIT_CASE(no_configuration),
	KUNIT_CASE(probe_fails_at_an_allocation),
	KUNIT_CASE(start_fails),
	KUNIT_CASE(bind_again_and_again),
	KUNIT_CASE_PARAM(no_statistics_queue, fake_gen_params),
	KUNIT_CASE_PARAM(interrupts_before_driver_ok, fake_gen_params),
	KUNIT_CASE_PARAM(interrupts_on_the_way_down, fake_gen_params),
	KUNIT_CASE_PARAM(unbind_during_a_notification, fake_gen_params),
	KUNIT_CASE_PARAM(interrupts_are_hard, fake_gen_params),
	KUNIT_CASE_PARAM(interrupts_are_doubled, fake_gen_params),
	KUNIT_CASE_PARAM(interrupts_are_lost, fake_gen_params),
	KUNIT_CASE_PARAM(odd_targets_settle, fake_gen_params),
	KUNIT_CASE_PARAM(tiny_rings, fake_gen_params),
	KUNIT_CASE_PARAM(answers_out_of_order, fake_gen_params),
	KUNIT_CASE_PARAM(answers_unposted, fake_gen_params),
	KUNIT_CASE_PARAM(deflate_outranks_inflate, fake_gen_params),
	KUNIT_CASE_PARAM(host_is_told_when_it_ran_dry, fake_gen_params),
	KUNIT_CASE_PARAM(target_changes_under_the_reader, fake_gen_params),
	KUNIT_CASE_PARAM(target_never_rests, fake_gen_params),
	KUNIT_CASE(target_beyond_memory),
	KUNIT_CASE_PARAM(pages_are_looked_at, fake_gen_params),
	KUNIT_CASE_PARAM(groups_stand_together, fake_gen_params),
	KUNIT_CASE(events_are_counted),
	KUNIT_CASE_PARAM(statistics_while_stuck, fake_gen_params),
#ifdef CONFIG_PM_SLEEP
	KUNIT_CASE_PARAM(freeze_and_restore, fake_gen_params),
	KUNIT_CASE_PARAM(freeze_with_requests_posted, fake_gen_params),
	KUNIT_CASE_PARAM(restore_fails, fake_gen_params),
	KUNIT_CASE(restore_fails_at_an_allocation),
#endif
#ifdef CONFIG_BALLOON_COMPACTION
	KUNIT_CASE_PARAM(migration_replaces_a_page, fake_gen_params),
	KUNIT_CASE(migration_across_zones),
	KUNIT_CASE(zones_are_accounted),
	KUNIT_CASE_PARAM(migration_times_out, fake_gen_params),
	KUNIT_CASE_PARAM(migrations_run_out_of_buffers, fake_gen_params),
	KUNIT_CASE_PARAM(migration_without_room, fake_gen_params),
	KUNIT_CASE_PARAM(migration_breaks, fake_gen_params),
	KUNIT_CASE_PARAM(deflation_awaits_migration, fake_gen_params),
	KUNIT_CASE_PARAM(unbind_awaits_migration, fake_gen_params),
	KUNIT_CASE_PARAM(unbind_ends_migration, fake_gen_params),
	KUNIT_CASE_PARAM(unbind_gives_migration_up, fake_gen_params),
#endif
	{}
};

static struct kunit_suite pitfall_suite = {
	.name = "virtio_balloon_pitfalls",
	.exit = fake_exit,
	.test_cases = pitfall_cases,
};

kunit_test_suite(pitfall_suite);
