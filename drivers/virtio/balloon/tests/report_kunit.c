// SPDX-License-Identifier: GPL-2.0
/*
 * Free page reporting and page poison: the clauses of the specification that
 * are about them, and what went wrong in drivers of this kind. fake_report.c
 * watches most of it in each case; that page_reporting.c does what it should
 * is tested with it.
 */
#include <linux/mm.h>
#include <linux/page_reporting.h>
#include <linux/virtio_config.h>

#include "fake_host.h"

#define REPORT_POISON	BIT_ULL(VIRTIO_BALLOON_F_PAGE_POISON)
#define REPORT_REPORTING BIT_ULL(VIRTIO_BALLOON_F_REPORTING)
#define REPORT_BOTH	(REPORT_POISON | REPORT_REPORTING)

/* A block that is reported, and that CPUs do not keep on lists of their own */
#define REPORT_ORDER	MAX_PAGE_ORDER

/* Whether free pages of this kernel hold a value: a matter of how it booted */
static bool report_fills(void)
{
	return want_init_on_free() || page_poisoning_enabled_static();
}

/* The case is about kernels that fill free pages, or about the others. */
static void report_needs_filling(struct kunit *test, bool filling)
{
	if (report_fills() != filling)
		kunit_skip(test, filling ?
			   "needs init_on_free=1 or page_poison=1" :
			   "needs init_on_free=0 and page_poison=0");
}

static bool report_accepts(struct fake_host *host, u64 features)
{
	return (host->features & features) == features;
}

static bool report_holds_poison(struct fake_host *host, struct page *page)
{
	return fake_holds(page, le32_to_cpu(host->config.poison_val));
}

/* Use a block and free it, and wait until it is in a report. */
static void report_free_block(struct fake_host *host)
{
	struct page *page = alloc_pages(GFP_KERNEL, REPORT_ORDER);

	KUNIT_ASSERT_NOT_NULL(host->test, page);
	memset(page_address(page), 0x5a, PAGE_SIZE << REPORT_ORDER);
	scoped_guard(spinlock, &host->lock)
		host->awaited = page;
	__free_pages(page, REPORT_ORDER);
	fake_wait(host, !READ_ONCE(host->awaited));
}

/* Wait until the guest has nothing more to report. */
static void report_await_silence(struct fake_host *host)
{
	unsigned long before;

	do {
		before = host->reported;
		schedule_timeout_uninterruptible(HZ);
	} while (host->reported != before);
}

/* Do not accept PAGE_POISON unless deflated pages are written with it. */
static void vb_f2_poison_if_pages_are_filled(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_POISON);

	KUNIT_EXPECT_EQ(test, report_accepts(host, REPORT_POISON),
			report_fills());
}

/* Do not accept PAGE_REPORTING without PAGE_POISON if free pages have a value. */
static void vb_f3_reporting_wants_poison(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_REPORTING);

	KUNIT_EXPECT_EQ(test, report_accepts(host, REPORT_REPORTING),
			!report_fills());
	fake_unbind(host);
	host->setup.features |= REPORT_POISON;
	fake_bind(host);
	KUNIT_EXPECT_TRUE(test, report_accepts(host, REPORT_REPORTING));
}

/* Deflated pages hold poison_val when they are used again. */
static void vb_p1_deflated_pages_hold_poison_val(struct kunit *test)
{
	struct fake_host *host;
	struct page *page;

	report_needs_filling(test, true);
	host = fake_new_with(test, REPORT_POISON);
	fake_set_target(host, 700);
	fake_settle(host);
	page = fake_held_page(host, 350);
	KUNIT_EXPECT_FALSE(test, report_holds_poison(host, page));
	fake_set_target(host, 0);
	fake_settle(host);
	KUNIT_EXPECT_TRUE(test, report_holds_poison(host, page));
}

/* poison_val is written before DRIVER_OK, after each reset; fake_host.c looks. */
static void vb_p2_poison_val_after_each_reset(struct kunit *test)
{
	struct fake_host *host;

	report_needs_filling(test, true);
	host = fake_new_with(test, REPORT_BOTH);
	KUNIT_EXPECT_TRUE(test, host->poisoned);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(host->config.poison_val),
			page_poisoning_enabled_static() ? 0xaaaaaaaa : 0);
	fake_unbind(host);
	KUNIT_EXPECT_FALSE(test, host->poisoned);
	fake_bind(host);
	KUNIT_EXPECT_TRUE(test, host->poisoned);
#ifdef CONFIG_PM_SLEEP
	fake_freeze(host);
	KUNIT_EXPECT_FALSE(test, host->poisoned);
	KUNIT_ASSERT_EQ(test, 0, fake_restore(host));
	KUNIT_EXPECT_TRUE(test, host->poisoned);
#endif
}

/* poison_val is left alone while the device is in use; fake_host.c looks. */
static void vb_p3_poison_val_is_constant(struct kunit *test)
{
	struct fake_host *host;
	__le32 value;

	report_needs_filling(test, true);
	host = fake_new_with(test, REPORT_BOTH);
	value = host->config.poison_val;
	fake_set_target(host, 700);
	fake_settle(host);
	report_free_block(host);
	fake_set_target(host, 0);
	fake_settle(host);
	KUNIT_EXPECT_TRUE(test, host->config.poison_val == value);
}

/* With PAGE_POISON, pages hold poison_val when they are reported. */
static void vb_r1_reported_pages_hold_poison_val(struct kunit *test)
{
	struct fake_host *host;

	report_needs_filling(test, true);
	host = fake_new_with(test, REPORT_BOTH);
	report_free_block(host);
	report_free_block(host);
}

/* Without it, the guest takes it that a reported page holds anything. */
static void vb_r1_reported_pages_may_change(struct kunit *test)
{
	struct fake_host *host;
	struct page *page;

	report_needs_filling(test, false);
	host = fake_new_with(test, REPORT_BOTH);
	report_free_block(host);
	page = alloc_pages(GFP_KERNEL | __GFP_ZERO, 0);
	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_TRUE(test, fake_holds(page, 0));
	__free_pages(page, 0);
	fake_set_target(host, 3000);
	fake_settle(host);
	fake_set_target(host, 0);
	fake_settle(host);
}

/* A reported page is not used before the answer, however late that is. */
static void vb_r2_nothing_is_used_before_the_answer(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_BOTH);
	struct page *pages[8];
	unsigned int round, i;

	host->answers = FAKE_STEPPED;
	for (round = 0; round < 4; round++) {
		fake_wait(host, host->reporting);
		for (i = 0; i < ARRAY_SIZE(pages); i++) {
			pages[i] = alloc_pages(GFP_KERNEL, REPORT_ORDER);
			KUNIT_ASSERT_NOT_NULL(test, pages[i]);
			memset(page_address(pages[i]), 0xaa, PAGE_SIZE << REPORT_ORDER);
		}
		while (i--)
			__free_pages(pages[i], REPORT_ORDER);
		fake_step(host, 1);
	}
	host->answers = FAKE_AT_ONCE;
	fake_step(host, UINT_MAX);
}

/* Nothing is reported before DRIVER_OK; fake_report.c looks. */
static void vb_r3_reports_follow_driver_ok(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_BOTH);
	unsigned long reported;

	fake_wait(host, host->reported);
	reported = host->reported;
	fake_unbind(host);
	fake_bind(host);
	fake_wait(host, host->reported > reported);
}

/* Large blocks are reported, each once; fake_report.c looks at their size. */
static void vb_r4_large_blocks_are_reported(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_BOTH);
	unsigned long first, second;

	fake_wait(host, host->reported);
	report_await_silence(host);
	first = host->reported;
	KUNIT_EXPECT_GT(test, first * SZ_4K, SZ_64M);
	report_free_block(host);
	report_await_silence(host);
	second = host->reported - first;
	KUNIT_EXPECT_LE(test, second * SZ_4K, first * SZ_4K / 8);
}

/* The ring takes fewer blocks than a report has. */
static void short_ring(struct kunit *test)
{
	struct fake_setup setup = fake_setup_with(test, REPORT_BOTH);
	struct fake_host *host;

	setup.ring = 2;
	host = fake_new(test, &setup);
	fake_wait(host, host->queue[FAKE_REPORT].buffers > 5);
	report_await_silence(host);
	report_free_block(host);
}

/* The host lets reports wait; unbinding ends all the same. */
static void silent_host(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_BOTH);

	fake_set_target(host, 700);
	fake_settle(host);
	host->answers = FAKE_NEVER;
	fake_wait(host, host->reporting);
	fake_unbind(host);
	host->answers = FAKE_AT_ONCE;
	fake_bind(host);
	fake_settle(host);
	report_free_block(host);
}

/* A slow host is waited for, also by the one who unbinds. */
static void slow_host(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_BOTH);
	unsigned int resets;

	host->answers = FAKE_LATE;
	fake_wait(host, host->reporting);
	resets = host->resets;
	fake_unbind(host);
	KUNIT_EXPECT_EQ(test, host->resets, resets + 1);
}

/* The rings break in mid-report: the blocks come back, nobody waits. */
static void broken_ring(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_BOTH);

	host->answers = FAKE_NEVER;
	fake_wait(host, host->reporting);
	fake_break(host);
	fake_unbind(host);
	host->answers = FAKE_AT_ONCE;
	fake_bind(host);
	report_free_block(host);
}

/* Lost and doubled interrupts, odd used lengths */
static void odd_answers(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_BOTH);
	enum fake_interrupts interrupts;

	host->used_len = 0xffffff00;
	host->answers = FAKE_LATE;
	for (interrupts = FAKE_INLINE; interrupts <= FAKE_DOUBLED; interrupts++) {
		host->interrupts = interrupts;
		report_free_block(host);
	}
	host->answers = FAKE_AT_ONCE;
	fake_step(host, UINT_MAX);
}

#ifdef CONFIG_PM_SLEEP
/* After sleep, the host may be a new one: it hears of all free memory again. */
static void restored(struct kunit *test)
{
	struct fake_host *host = fake_new_with(test, REPORT_BOTH);
	unsigned long before;

	report_free_block(host);
	before = host->reported;
	fake_freeze(host);
	KUNIT_EXPECT_EQ(test, host->reporting, 0);
	KUNIT_ASSERT_EQ(test, 0, fake_restore(host));
	fake_wait(host, host->reported >= before + before / 4 * 3);
}
#endif

static int report_nobody(struct page_reporting_dev_info *reporter,
			 struct scatterlist *sg, unsigned int nents)
{
	return -EIO;
}

/* There is a reporter already: the balloon works without. */
static void second_reporter(struct kunit *test)
{
	struct page_reporting_dev_info other = { .report = report_nobody };
	struct fake_host *host;

	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&other));
	host = fake_new_with(test, REPORT_BOTH);
	fake_set_target(host, 700);
	fake_settle(host);
	fake_unbind(host);
	page_reporting_unregister(&other);
	fake_bind(host);
	report_free_block(host);
}

#define REPORT_CASE(name) KUNIT_CASE_PARAM(name, fake_gen_params)

static struct kunit_case report_cases[] = {
	REPORT_CASE(vb_f2_poison_if_pages_are_filled),
	REPORT_CASE(vb_f3_reporting_wants_poison),
	REPORT_CASE(vb_p1_deflated_pages_hold_poison_val),
	KUNIT_CASE(vb_p2_poison_val_after_each_reset),
	KUNIT_CASE(vb_p3_poison_val_is_constant),
	REPORT_CASE(vb_r1_reported_pages_hold_poison_val),
	KUNIT_CASE(vb_r1_reported_pages_may_change),
	REPORT_CASE(vb_r2_nothing_is_used_before_the_answer),
	REPORT_CASE(vb_r3_reports_follow_driver_ok),
	REPORT_CASE(vb_r4_large_blocks_are_reported),
	REPORT_CASE(short_ring),
	REPORT_CASE(silent_host),
	REPORT_CASE(slow_host),
	REPORT_CASE(broken_ring),
	REPORT_CASE(odd_answers),
#ifdef CONFIG_PM_SLEEP
	KUNIT_CASE(restored),
#endif
	KUNIT_CASE(second_reporter),
	{}
};

static struct kunit_suite report_suite = {
	.name = "virtio_balloon_report",
	.exit = fake_exit,
	.test_cases = report_cases,
};

kunit_test_suite(report_suite);
