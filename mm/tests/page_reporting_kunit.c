// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for free page reporting, against the kernel's own page allocator.
 * Part of page_reporting.c, so that they see all of it.
 *
 * The reporter is a struct fake_reporter. It looks at every block it is told
 * of, and can fail, sleep or call back. fake_check_marks() compares the marks on
 * the free lists with the counts of them.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/random.h>

/* Blocks that a random case has at a time */
#define FAKE_HELD	32
/* Large blocks that may be taken while zone->lock is held */
#define FAKE_LARGE	4
/* Free pages that others may take meanwhile, in all zones */
#define FAKE_NOISE	256

/**
 * struct fake_reporter - a reporter and what it saw
 * @dev: as the core knows it
 * @test: the case
 * @errors: how many reports to fail, from now on
 * @fail_at: which report to fail, counted from 1
 * @on_report: called with each report, may sleep
 * @called: completed by each report
 * @gone: completed by who unregisters it from a thread
 * @calls: reports
 * @pages: pages in those that did not fail
 * @at: when the last reports came, in jiffies
 */
struct fake_reporter {
	struct page_reporting_dev_info dev;
	struct kunit *test;
	unsigned int errors;
	unsigned int fail_at;
	void (*on_report)(struct fake_reporter *reporter);
	struct completion called;
	struct completion gone;
	unsigned int calls;
	unsigned long pages;
	unsigned long at[8];
};

static unsigned long fake_on_cpus(void)
{
	unsigned long pages = 0;
	struct zone *zone;

	for_each_populated_zone(zone)
		pages += page_reporting_on_cpus(zone);
	return pages;
}

static unsigned long fake_free_pages(void)
{
	unsigned long free = fake_on_cpus();
	struct zone *zone;

	for_each_populated_zone(zone)
		free += zone_page_state_snapshot(zone, NR_FREE_PAGES);
	return free;
}

/* What may be off the free lists of a zone while @isolated pages are */
static unsigned long fake_bound(struct zone *zone, unsigned long isolated)
{
	unsigned long free = zone_page_state_snapshot(zone, NR_FREE_PAGES);

	return (free + isolated - low_wmark_pages(zone)) / PAGE_REPORTING_SHARE;
}

/* A block of a report: free, on no list, not marked */
static unsigned long fake_look_at(struct fake_reporter *reporter,
				  struct scatterlist *sg)
{
	struct page *page = sg_page(sg);
	unsigned long i, pages = sg->length >> PAGE_SHIFT;
	unsigned long used = 0;

	for (i = 0; i < pages; i++)
		used += page_count(page + i) || PageBuddy(page + i) ||
			PageReported(page + i);
	KUNIT_EXPECT_EQ_MSG(reporter->test, used, 0, "pages in use, of %lu",
			    pages);
	return pages;
}

/* The blocks of a report, all of them; returns the pages in them. */
static unsigned long fake_look_at_all(struct fake_reporter *reporter,
				      struct scatterlist *sg, unsigned int nents)
{
	unsigned long pages = 0;
	struct scatterlist *s;
	unsigned int i;

	for_each_sg(sg, s, nents, i)
		pages += fake_look_at(reporter, s);
	KUNIT_EXPECT_TRUE(reporter->test, sg_is_last(&sg[nents - 1]));
	return pages;
}

static int fake_report(struct page_reporting_dev_info *dev,
		       struct scatterlist *sg, unsigned int nents)
{
	struct fake_reporter *reporter =
		container_of(dev, struct fake_reporter, dev);
	struct zone *zone = page_zone(sg_page(sg));
	unsigned long pages = fake_look_at_all(reporter, sg, nents);
	bool fails = reporter->errors;
	unsigned int i;

	for (i = 0; i < nents; i++)
		KUNIT_EXPECT_GE(reporter->test, get_order(sg[i].length),
				page_reporting_order);
	KUNIT_EXPECT_LE(reporter->test, pages,
			fake_bound(zone, pages) + FAKE_NOISE);

	reporter->at[reporter->calls++ % ARRAY_SIZE(reporter->at)] = jiffies;
	fails |= reporter->calls == reporter->fail_at;
	reporter->errors -= !!reporter->errors;
	complete(&reporter->called);
	if (reporter->on_report) {
		reporter->on_report(reporter);
		/* nobody had any of them meanwhile */
		fake_look_at_all(reporter, sg, nents);
	}
	if (fails)
		return -EIO;
	reporter->pages += pages;
	return 0;
}

/* Whether a pass is due or under way */
static bool fake_is_busy(void)
{
	bool busy = false;
	int nid;

	for_each_node_state(nid, N_MEMORY)
		busy |= work_busy(&page_reporting_nodes[nid]->work.work);
	return busy;
}

/*
 * Wait until there is nothing more to report: no pass is due. While others free
 * memory, there is always one.
 */
static void fake_await_silence(void)
{
	unsigned int n = 0;

	do {
		schedule_timeout_uninterruptible(2 * page_reporting_period() + 2);
	} while (fake_is_busy() && n++ < 100);
}

static unsigned long fake_count_marks(struct zone *zone, unsigned int order)
{
	unsigned long marks = 0;
	struct page *page;
	int mt;

	for (mt = 0; mt < MIGRATE_TYPES; mt++)
		list_for_each_entry(page, &zone->free_area[order].free_list[mt],
				    buddy_list)
			marks += PageReported(page);
	return marks;
}

/* Compare the marks of a zone with what the core knows; returns unmarked pages. */
static unsigned long fake_check_zone(struct kunit *test, struct zone *zone)
{
	struct page_reporting_zone *pz =
		&page_reporting_nodes[zone_to_nid(zone)]->zones[zone_idx(zone)];
	unsigned long blocks[NR_PAGE_ORDERS], marks[NR_PAGE_ORDERS], unmarked;
	unsigned int order;

	spin_lock_irq(&zone->lock);
	for (order = 0; order < NR_PAGE_ORDERS; order++) {
		marks[order] = fake_count_marks(zone, order);
		blocks[order] = pz->blocks[order];
	}
	unmarked = page_reporting_unmarked(zone, pz);
	spin_unlock_irq(&zone->lock);
	for (order = 0; order < NR_PAGE_ORDERS; order++)
		KUNIT_EXPECT_EQ_MSG(test, marks[order], blocks[order],
				    "marks of order %u in %s", order, zone->name);
	return unmarked;
}

/* The same of all zones; one that is too small for large blocks has none. */
static unsigned long fake_check_marks(struct kunit *test)
{
	unsigned long unmarked = 0, pages;
	struct zone *zone;

	for_each_populated_zone(zone) {
		pages = fake_check_zone(test, zone);
		if (fake_bound(zone, 0) > MAX_ORDER_NR_PAGES)
			unmarked += pages;
	}
	return unmarked;
}

/* Pages in marked blocks */
static unsigned long fake_marked(void)
{
	unsigned long pages = 0;
	unsigned int order;
	struct zone *zone;

	for_each_populated_zone(zone)
		for (order = 0; order < NR_PAGE_ORDERS; order++)
			pages += page_reporting_nodes[zone_to_nid(zone)]
				 ->zones[zone_idx(zone)].blocks[order] << order;
	return pages;
}

/* There is no reporter, and nothing is left of one. */
static void fake_check_nothing_left(struct kunit *test)
{
	unsigned int order;
	struct zone *zone;

	KUNIT_EXPECT_FALSE(test, static_key_enabled(&page_reporting_enabled));
	for_each_populated_zone(zone) {
		for (order = 0; order < NR_PAGE_ORDERS; order++) {
			unsigned long marks;

			spin_lock_irq(&zone->lock);
			marks = fake_count_marks(zone, order);
			spin_unlock_irq(&zone->lock);
			KUNIT_EXPECT_EQ(test, marks, 0);
		}
	}
}

static void fake_leave(void *reporter)
{
	page_reporting_unregister(&((struct fake_reporter *)reporter)->dev);
	page_reporting_order = PAGE_REPORTING_UNSET;
	page_reporting_order_chosen = false;
}

/* A reporter that is not registered yet, but will be gone at the end */
static struct fake_reporter *fake_reporter(struct kunit *test)
{
	struct fake_reporter *reporter =
		kunit_kzalloc(test, sizeof(*reporter), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, reporter);
	reporter->test = test;
	reporter->dev.report = fake_report;
	init_completion(&reporter->called);
	init_completion(&reporter->gone);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, fake_leave,
							   reporter));
	return reporter;
}

/* One that is registered, and has been told of everything */
static struct fake_reporter *fake_registered(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);

	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	fake_await_silence();
	return reporter;
}

static struct page *fake_alloc(struct kunit *test, unsigned int order)
{
	struct page *page = alloc_pages(GFP_KERNEL, order);

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_FALSE(test, PageReported(page));
	return page;
}

static int fake_set_order(const char *text)
{
	const struct kernel_param kp = {
		.name = "page_reporting_order",
		.arg = &page_reporting_order,
	};

	return page_reporting_set_order(text, &kp);
}

static int fake_set_delay(const char *text)
{
	const struct kernel_param kp = {
		.name = "page_reporting_delay_ms",
		.arg = &page_reporting_delay_ms,
	};

	return page_reporting_set_delay(text, &kp);
}

/* Everything that is free is reported, once, and marked. */
static void everything_is_reported_once(struct kunit *test)
{
	unsigned long free = fake_free_pages(), pages;
	struct fake_reporter *reporter = fake_registered(test);

	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
	KUNIT_EXPECT_GT(test, reporter->pages, free / 2);
	KUNIT_EXPECT_LE(test, reporter->pages, free);
	pages = reporter->pages;
	fake_await_silence();
	KUNIT_EXPECT_EQ(test, reporter->pages, pages);
}

/* What is freed later is reported too, and nothing else is. */
static void what_is_freed_is_reported(struct kunit *test)
{
	struct fake_reporter *reporter = fake_registered(test);
	struct page *page = fake_alloc(test, MAX_PAGE_ORDER);
	unsigned long pages = reporter->pages;

	fake_await_silence();
	KUNIT_EXPECT_EQ(test, reporter->pages, pages);
	__free_pages(page, MAX_PAGE_ORDER);
	fake_await_silence();
	KUNIT_EXPECT_EQ(test, reporter->pages, pages + MAX_ORDER_NR_PAGES);
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
}

/* Nothing of smaller order is reported; changes of the order take effect. */
static void order_is_kept(struct kunit *test)
{
	struct fake_reporter *reporter = fake_registered(test);
	unsigned int order = page_reporting_order;
	unsigned long pages = reporter->pages;

	KUNIT_EXPECT_EQ(test, order, page_reporting_default_order(0));
	KUNIT_EXPECT_EQ(test, 0, fake_set_order("10"));
	fake_await_silence();
	KUNIT_EXPECT_EQ(test, reporter->pages, pages);
	KUNIT_EXPECT_EQ(test, 0, fake_set_order("3"));
	fake_await_silence();
	KUNIT_EXPECT_GT(test, reporter->pages, pages);
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
	KUNIT_EXPECT_EQ(test, 0, fake_set_order("0"));
	fake_await_silence();
	KUNIT_EXPECT_LE(test, fake_check_marks(test), FAKE_NOISE);
}

/* An order that the user set outlives reporters; one that they chose does not. */
static void order_of_the_user_is_kept(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);

	reporter->dev.order = 4;
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	KUNIT_EXPECT_EQ(test, page_reporting_order, 4);
	page_reporting_unregister(&reporter->dev);
	KUNIT_EXPECT_EQ(test, page_reporting_order, PAGE_REPORTING_UNSET);

	KUNIT_EXPECT_EQ(test, 0, fake_set_order("7"));
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	KUNIT_EXPECT_EQ(test, page_reporting_order, 7);
	page_reporting_unregister(&reporter->dev);
	KUNIT_EXPECT_EQ(test, page_reporting_order, 7);

	reporter->dev.order = MAX_PAGE_ORDER + 1;
	page_reporting_order = PAGE_REPORTING_UNSET;
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	KUNIT_EXPECT_EQ(test, page_reporting_order,
			page_reporting_default_order(0));
}

/* Parameters out of bounds are refused and change nothing. */
static void absurd_parameters(struct kunit *test)
{
	unsigned int delay = page_reporting_delay_ms;

	KUNIT_EXPECT_EQ(test, -EINVAL, fake_set_order("11"));
	KUNIT_EXPECT_EQ(test, -EINVAL, fake_set_order("-1"));
	KUNIT_EXPECT_EQ(test, -EINVAL, fake_set_order("nine"));
	KUNIT_EXPECT_EQ(test, page_reporting_order, PAGE_REPORTING_UNSET);
	KUNIT_EXPECT_EQ(test, -EINVAL, fake_set_delay("-1"));
	KUNIT_EXPECT_EQ(test, -EINVAL, fake_set_delay("3600001"));
	KUNIT_EXPECT_EQ(test, page_reporting_delay_ms, delay);
}

static void fake_change_order(struct fake_reporter *reporter)
{
	WRITE_ONCE(page_reporting_order, reporter->calls % 2 ? 1 : 9);
}

/* The order changes while blocks are out, as one reporter in the kernel does. */
static void order_changes_in_flight(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);

	reporter->on_report = fake_change_order;
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	schedule_timeout_uninterruptible(HZ);
	reporter->on_report = NULL;
	KUNIT_EXPECT_EQ(test, 0, fake_set_order("9"));
	fake_await_silence();
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
}

/* A report that failed is made again, later and later. */
static void errors_are_retried(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);

	reporter->errors = 4;
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	while (reporter->errors)
		wait_for_completion(&reporter->called);
	KUNIT_EXPECT_EQ(test, reporter->pages, 0);
	KUNIT_EXPECT_GT(test, fake_check_marks(test), 0);
	schedule_timeout_uninterruptible(20 * page_reporting_period());
	fake_await_silence();
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
	KUNIT_EXPECT_GE(test, reporter->pages, fake_marked());
}

/* Whichever report fails, its blocks come back, and are reported later. */
static void each_report_fails(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);
	unsigned long free = fake_free_pages();
	unsigned int reports;

	do {
		reporter->calls = 0;
		reporter->pages = 0;
		reporter->fail_at++;
		KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
		fake_await_silence();
		reports = reporter->calls;
		KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
		KUNIT_EXPECT_GE(test, reporter->pages, fake_marked());
		page_reporting_unregister(&reporter->dev);
		fake_check_nothing_left(test);
	} while (reporter->fail_at < reports);
	KUNIT_EXPECT_GT(test, reporter->fail_at, 3);
	KUNIT_EXPECT_LE(test, abs((long)(fake_free_pages() - free)), FAKE_NOISE);
}

/* Each failure doubles the pause, up to a bound. */
static void pauses_grow(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);
	unsigned int i;

	reporter->errors = UINT_MAX;
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	for (i = 0; i < 5; i++)
		wait_for_completion(&reporter->called);
	for (i = 2; i < 5; i++)
		KUNIT_EXPECT_GE(test, reporter->at[i] - reporter->at[i - 1],
				(reporter->at[i - 1] - reporter->at[i - 2]) * 3 / 2);
	KUNIT_EXPECT_GT(test, fake_check_marks(test), 0);
	page_reporting_unregister(&reporter->dev);
	fake_check_nothing_left(test);
}

/* There is one reporter at a time; who is not it cannot end it. */
static void second_reporter(struct kunit *test)
{
	struct fake_reporter *first = fake_registered(test);
	struct fake_reporter *second = fake_reporter(test);

	KUNIT_EXPECT_EQ(test, -EBUSY, page_reporting_register(&second->dev));
	page_reporting_unregister(&second->dev);
	KUNIT_EXPECT_TRUE(test, static_key_enabled(&page_reporting_enabled));
	page_reporting_unregister(&first->dev);
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&second->dev));
	fake_await_silence();
	KUNIT_EXPECT_GT(test, second->pages, 0);
}

/* One that cannot be registered leaves nothing behind. */
static void no_memory(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);
	struct workqueue_struct *wq = page_reporting_wq;

	page_reporting_wq = NULL;
	KUNIT_EXPECT_EQ(test, -ENOMEM, page_reporting_register(&reporter->dev));
	page_reporting_wq = wq;
	KUNIT_EXPECT_EQ(test, page_reporting_order, PAGE_REPORTING_UNSET);
	fake_check_nothing_left(test);
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	fake_await_silence();
	KUNIT_EXPECT_GT(test, reporter->pages, 0);
}

/* When a reporter has gone, no mark is left, and the next hears of everything. */
static void marks_go_with_the_reporter(struct kunit *test)
{
	struct fake_reporter *reporter = fake_registered(test);
	unsigned long pages = reporter->pages;
	unsigned long free = fake_free_pages();

	page_reporting_unregister(&reporter->dev);
	fake_check_nothing_left(test);
	KUNIT_EXPECT_LE(test, abs((long)(fake_free_pages() - free)), FAKE_NOISE);
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	fake_await_silence();
	KUNIT_EXPECT_GE(test, reporter->pages, 2 * pages - pages / 8);
}

static void fake_sleep(struct fake_reporter *reporter)
{
	msleep(20 * MSEC_PER_SEC);
}

/* Unregistering waits for a report under way, and brings its blocks back. */
static void sleeping_reporter(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);
	unsigned long free = fake_free_pages();

	reporter->on_report = fake_sleep;
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	wait_for_completion(&reporter->called);
	page_reporting_unregister(&reporter->dev);
	KUNIT_EXPECT_EQ(test, reporter->calls, 1);
	fake_check_nothing_left(test);
	KUNIT_EXPECT_LE(test, abs((long)(fake_free_pages() - free)), FAKE_NOISE);
}

static int fake_unregister_thread(void *data)
{
	struct fake_reporter *reporter = data;

	wait_for_completion(&reporter->called);
	page_reporting_unregister(&reporter->dev);
	complete(&reporter->gone);
	return 0;
}

static void fake_nap(struct fake_reporter *reporter)
{
	msleep(20);
}

static void fake_await_end(struct fake_reporter *reporter)
{
	while (READ_ONCE(page_reporting_dev))
		schedule_timeout_uninterruptible(1);
}

/* A thread that a report wakes unregisters the reporter. */
static void unregistered_from_a_wake(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);
	struct task_struct *thread;

	reporter->on_report = fake_await_end;
	thread = kthread_run(fake_unregister_thread, reporter, "fake_unregister");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, thread);
	get_task_struct(thread);
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	wait_for_completion(&reporter->gone);
	KUNIT_EXPECT_EQ(test, 0, kthread_stop_put(thread));
	KUNIT_EXPECT_EQ(test, reporter->calls, 1);
	fake_check_nothing_left(test);
}

/* Register and unregister at all moments of a pass. */
static void short_lived_reporters(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);
	unsigned long free = fake_free_pages();
	unsigned int i;

	reporter->on_report = fake_nap;
	for (i = 0; i < 20; i++) {
		KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
		schedule_timeout_uninterruptible(page_reporting_delay() + i);
		page_reporting_unregister(&reporter->dev);
		fake_check_nothing_left(test);
	}
	KUNIT_EXPECT_LE(test, abs((long)(fake_free_pages() - free)), FAKE_NOISE);
}

/* A zone with a free block of the largest order, which is taken off its list */
static struct page *fake_isolate(struct kunit *test)
{
	struct zone *zone;

	for_each_populated_zone(zone) {
		struct list_head *list =
			&zone->free_area[MAX_PAGE_ORDER].free_list[MIGRATE_MOVABLE];
		struct page *page;
		bool isolated;

		if (fake_bound(zone, 0) <= MAX_ORDER_NR_PAGES)
			continue;
		spin_lock_irq(&zone->lock);
		page = list_first_entry_or_null(list, struct page, buddy_list);
		isolated = page && __isolate_free_page(page, MAX_PAGE_ORDER);
		spin_unlock_irq(&zone->lock);
		if (isolated)
			return page;
	}
	KUNIT_FAIL_AND_ABORT(test, "no large block is free");
}

/* Put a block back in halves, the first of them marked or not. */
static void fake_put_halves(struct page *page, bool marked)
{
	struct zone *zone = page_zone(page);
	struct page_reporting_zone *pz =
		&page_reporting_nodes[zone_to_nid(zone)]->zones[zone_idx(zone)];
	unsigned int order = MAX_PAGE_ORDER - 1;

	spin_lock_irq(&zone->lock);
	if (marked)
		page_reporting_put_marked(pz, zone, page, order);
	else
		__putback_isolated_page(page, order, MIGRATE_MOVABLE);
	page_reporting_put_marked(pz, zone, page + (1UL << order), order);
	spin_unlock_irq(&zone->lock);
}

/* A block is marked after merging if all of it was, and counts as one. */
static void marks_outlive_merging(struct kunit *test)
{
	struct page *page;

	fake_registered(test);
	page = fake_isolate(test);
	fake_put_halves(page, true);
	KUNIT_EXPECT_TRUE(test, PageBuddy(page));
	KUNIT_EXPECT_EQ(test, buddy_order(page), MAX_PAGE_ORDER);
	KUNIT_EXPECT_TRUE(test, PageReported(page));
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);

	page = fake_isolate(test);
	fake_put_halves(page, false);
	KUNIT_EXPECT_FALSE(test, PageReported(page));
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), MAX_ORDER_NR_PAGES);
}

/* Take a block off its list, and have its pageblocks be of a type. */
static void fake_retype(struct page *page, unsigned int order, int migratetype)
{
	struct zone *zone = page_zone(page);
	unsigned long i;

	spin_lock_irq(&zone->lock);
	if (PageBuddy(page) && buddy_order(page) == order &&
	    __isolate_free_page(page, order)) {
		for (i = 0; i < 1UL << order; i += pageblock_nr_pages)
			set_pageblock_migratetype(page + i, migratetype);
		__putback_isolated_page(page, order, migratetype);
	}
	spin_unlock_irq(&zone->lock);
}

/* Blocks that the allocator keeps apart, as their types differ, are marked. */
static void marks_need_no_merging(struct kunit *test)
{
	unsigned int order = MAX_PAGE_ORDER - 1;
	struct fake_reporter *reporter;
	struct page *page, *second;
	unsigned long pages;

	if (order < pageblock_order)
		kunit_skip(test, "blocks of all types merge");
	reporter = fake_registered(test);
	page = fake_isolate(test);
	second = page + (1UL << order);
	set_pageblock_migratetype(second, MIGRATE_HIGHATOMIC);
	fake_put_halves(page, true);
	KUNIT_EXPECT_TRUE(test, PageBuddy(page) && PageReported(page));
	KUNIT_EXPECT_TRUE(test, PageBuddy(second) && PageReported(second));
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);

	/* nor are they reported again and again */
	fake_retype(second, order, MIGRATE_HIGHATOMIC);
	fake_retype(page, order, MIGRATE_MOVABLE);
	KUNIT_EXPECT_EQ(test, 0, fake_set_delay("100"));
	pages = reporter->pages;
	schedule_timeout_uninterruptible(10 * page_reporting_period());
	KUNIT_EXPECT_GE(test, reporter->pages - pages, 2UL << order);
	KUNIT_EXPECT_LE(test, reporter->pages - pages, 6UL << order);
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
	fake_retype(second, order, MIGRATE_MOVABLE);
}

/* Have a node's pass stand at the large blocks of a zone. */
static struct page_reporting_node *fake_pass_at(struct zone *zone)
{
	struct page_reporting_node *node = page_reporting_nodes[zone_to_nid(zone)];

	cancel_delayed_work_sync(&node->work);
	node->zone = zone_idx(zone);
	node->order = MAX_PAGE_ORDER;
	node->migratetype = MIGRATE_MOVABLE;
	node->quota = ULONG_MAX;
	node->looked = 0;
	node->first = NULL;
	node->error = 0;
	node->state = PAGE_REPORTING_FILL;
	return node;
}

/* Large blocks are taken a few at a time, and not too many of them. */
static void few_are_taken_at_a_time(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);
	struct page_reporting_node *node;
	unsigned long free, back, taken = 0;
	struct zone *zone;

	KUNIT_EXPECT_EQ(test, 0, fake_set_delay("3600000"));
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	for_each_populated_zone(zone) {
		node = fake_pass_at(zone);
		free = zone_page_state_snapshot(zone, NR_FREE_PAGES);
		while (node->state == PAGE_REPORTING_FILL) {
			unsigned int nents = node->nents;

			node->state = page_reporting_locked_step(node);
			KUNIT_EXPECT_LE(test, node->nents - nents, FAKE_LARGE);
		}
		taken += node->nents;
		KUNIT_EXPECT_EQ(test, node->isolated,
				(unsigned long)node->nents << MAX_PAGE_ORDER);
		KUNIT_EXPECT_LE(test, node->isolated,
				fake_bound(zone, node->isolated) + FAKE_NOISE);
		node->state = PAGE_REPORTING_DRAIN;
		node->error = -EIO;
		node->state = page_reporting_locked_step(node);
		KUNIT_EXPECT_EQ(test, node->state, PAGE_REPORTING_REST);
		KUNIT_EXPECT_EQ(test, node->nents, 0);
		back = zone_page_state_snapshot(zone, NR_FREE_PAGES);
		KUNIT_EXPECT_LE(test, abs((long)(back - free)), FAKE_NOISE);
	}
	KUNIT_EXPECT_GT(test, taken, FAKE_LARGE);
}

/* However many marked blocks are in the way, the lock is held for a few only. */
static void lock_is_held_for_a_few(struct kunit *test)
{
	struct page_reporting_node *node;
	struct page_reporting_zone *pz;
	unsigned int holds = 0;
	struct zone *zone;

	fake_registered(test);
	KUNIT_EXPECT_EQ(test, 0, fake_set_delay("3600000"));
	for_each_populated_zone(zone) {
		node = fake_pass_at(zone);
		pz = &node->zones[node->zone];
		do {
			unsigned long looked = node->looked;

			spin_lock_irq(&zone->lock);
			/* as if there were an unmarked one somewhere */
			pz->blocks[MAX_PAGE_ORDER]--;
			node->state = page_reporting_fill(node, zone);
			pz->blocks[MAX_PAGE_ORDER]++;
			spin_unlock_irq(&zone->lock);
			holds++;
			KUNIT_EXPECT_LE(test, node->looked - looked,
					PAGE_REPORTING_HOLD);
		} while (node->state == PAGE_REPORTING_FILL);
		KUNIT_EXPECT_EQ(test, node->nents, 0);
		KUNIT_EXPECT_EQ(test, node->state, PAGE_REPORTING_ADVANCE);
		node->state = PAGE_REPORTING_REST;
	}
	KUNIT_EXPECT_GT(test, holds, 3);
	KUNIT_EXPECT_EQ(test, 0, fake_set_delay("100"));
}

/* After much time under zone->lock, nine times as much goes by without it. */
static void pass_rests(struct kunit *test)
{
	struct fake_reporter *reporter = fake_reporter(test);
	unsigned long start = jiffies;
	int nid;

	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	for_each_node_state(nid, N_MEMORY)
		page_reporting_nodes[nid]->busy = 100 * NSEC_PER_MSEC;
	wait_for_completion(&reporter->called);
	KUNIT_EXPECT_GE(test, jiffies_to_msecs(jiffies - start), 900);
	fake_await_silence();
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
	KUNIT_EXPECT_LT(test, jiffies_to_msecs(jiffies - start), 4000);
}

static void fake_fill_cpus(struct kunit *test)
{
	struct page *page, *next;
	unsigned int i;
	LIST_HEAD(pages);

	for (i = 0; i < 8 * FAKE_NOISE; i++)
		list_add(&fake_alloc(test, 0)->lru, &pages);
	list_for_each_entry_safe(page, next, &pages, lru)
		__free_page(page);
	KUNIT_EXPECT_GT(test, fake_on_cpus(), FAKE_NOISE);
}

/*
 * What CPUs keep on lists of their own is reported as well, but not while
 * memory comes and goes.
 */
static void lists_of_cpus_are_reported(struct kunit *test)
{
	unsigned int i;

	fake_registered(test);
	fake_fill_cpus(test);
	KUNIT_EXPECT_EQ(test, 0, fake_set_order("0"));
	for (i = 0; i < 16; i++) {
		__free_pages(fake_alloc(test, MAX_PAGE_ORDER), MAX_PAGE_ORDER);
		schedule_timeout_uninterruptible(page_reporting_period() / 4);
	}
	KUNIT_EXPECT_GT(test, fake_on_cpus(), FAKE_NOISE);
	fake_await_silence();
	KUNIT_EXPECT_LE(test, fake_on_cpus(), FAKE_NOISE);
	KUNIT_EXPECT_LE(test, fake_check_marks(test), FAKE_NOISE);
}

/* The counters tell what happened. */
static void counters_are_right(struct kunit *test)
{
	u64 reported = atomic64_read(&page_reporting_counters.reported_pages);
	u64 failures = atomic64_read(&page_reporting_counters.failures);
	u64 passes = atomic64_read(&page_reporting_counters.passes);
	struct fake_reporter *reporter = fake_reporter(test);
	struct page *page;
	u64 repeated;

	reporter->errors = 2;
	KUNIT_ASSERT_EQ(test, 0, page_reporting_register(&reporter->dev));
	while (reporter->errors)
		wait_for_completion(&reporter->called);
	schedule_timeout_uninterruptible(20 * page_reporting_period());
	fake_await_silence();
	KUNIT_EXPECT_EQ(test, atomic64_read(&page_reporting_counters.failures),
			failures + 2);
	KUNIT_EXPECT_GE(test, atomic64_read(&page_reporting_counters.passes),
			passes + 3);

	repeated = atomic64_read(&page_reporting_counters.repeated_pages);
	page = fake_alloc(test, MAX_PAGE_ORDER);
	__free_pages(page, MAX_PAGE_ORDER);
	fake_await_silence();
	KUNIT_EXPECT_GE(test, atomic64_read(&page_reporting_counters.repeated_pages),
			repeated + MAX_ORDER_NR_PAGES);
	KUNIT_EXPECT_EQ(test, atomic64_read(&page_reporting_counters.reported_pages),
			reported + reporter->pages);
}

/* What the pacing makes of what was measured */
static void pacing_learns(struct kunit *test)
{
	struct page_reporting_node *node = kunit_kzalloc(test, sizeof(*node),
							 GFP_KERNEL);
	struct page_reporting_zone pz = {};
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, node);
	node->lately = 1000;

	/* taken, but not what was just reported: that is fine */
	page_reporting_learn(node, &pz, 1000);
	KUNIT_EXPECT_EQ(test, pz.reserve, 0);
	/* reported in vain: held back, and longer each time */
	for (i = 1; i < 200; i *= 2) {
		pz.fresh = 1000;
		page_reporting_learn(node, &pz, 600);
		KUNIT_EXPECT_EQ(test, pz.reserve, 600);
		KUNIT_EXPECT_EQ(test, pz.hold, min(i, PAGE_REPORTING_HOLD_OFF));
		while (pz.hold) {
			KUNIT_EXPECT_EQ(test, pz.reserve, 600);
			page_reporting_learn(node, &pz, 0);
		}
		KUNIT_EXPECT_EQ(test, pz.reserve, 0);
	}
	/* not more than was reported, and added to what is held back already */
	pz.fresh = 100;
	page_reporting_learn(node, &pz, 600);
	KUNIT_EXPECT_EQ(test, pz.reserve, 100);
	pz.fresh = 50;
	page_reporting_learn(node, &pz, 50);
	KUNIT_EXPECT_EQ(test, pz.reserve, 150);
	/* nothing is held back that would last for long */
	node->lately = 150 / PAGE_REPORTING_QUIET;
	page_reporting_learn(node, &pz, 0);
	KUNIT_EXPECT_EQ(test, pz.reserve, 150);
	node->lately--;
	page_reporting_learn(node, &pz, 0);
	KUNIT_EXPECT_EQ(test, pz.reserve, 0);
	KUNIT_EXPECT_EQ(test, pz.hold, 0);
	/* reports that were of use are forgiven with */
	for (i = 0; i < 10; i++) {
		pz.fresh = 1000;
		page_reporting_learn(node, &pz, 0);
	}
	KUNIT_EXPECT_EQ(test, pz.hold_off, 0);
}

/* Memory that is allocated and freed all the time is soon left alone. */
static void churn_is_left_alone(struct kunit *test)
{
	struct fake_reporter *reporter = fake_registered(test);
	unsigned long pages = reporter->pages, end;
	struct page *held[8];
	unsigned int i, rounds = 0;

	end = jiffies + 40 * page_reporting_period();
	while (time_before(jiffies, end)) {
		for (i = 0; i < ARRAY_SIZE(held); i++)
			held[i] = fake_alloc(test, MAX_PAGE_ORDER);
		while (i--)
			__free_pages(held[i], MAX_PAGE_ORDER);
		schedule_timeout_uninterruptible(1);
		rounds++;
	}
	KUNIT_EXPECT_GT(test, rounds, 20);
	KUNIT_EXPECT_LE(test, reporter->pages - pages,
			8 * ARRAY_SIZE(held) * MAX_ORDER_NR_PAGES);
	fake_await_silence();
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
}

static void fake_doze(struct fake_reporter *reporter)
{
	schedule_timeout_uninterruptible(1);
}

/* Random allocations while blocks are with the reporter, which fails at times */
static void random_churn(struct kunit *test)
{
	unsigned long free = fake_free_pages();
	struct fake_reporter *reporter = fake_registered(test);
	struct page *pages[FAKE_HELD] = {};
	unsigned int orders[FAKE_HELD], i, n;
	u32 seed = get_random_u32();
	struct rnd_state rnd;

	kunit_info(test, "seed %u\n", seed);
	prandom_seed_state(&rnd, seed);
	reporter->on_report = fake_doze;
	KUNIT_EXPECT_EQ(test, 0, fake_set_order("2"));
	for (i = 0; i < 3000; i++) {
		n = prandom_u32_state(&rnd) % FAKE_HELD;
		if (pages[n]) {
			memset(page_address(pages[n]), 0x77, PAGE_SIZE << orders[n]);
			__free_pages(pages[n], orders[n]);
			pages[n] = NULL;
		} else {
			orders[n] = prandom_u32_state(&rnd) % NR_PAGE_ORDERS;
			pages[n] = fake_alloc(test, orders[n]);
		}
		reporter->errors = prandom_u32_state(&rnd) % 8 ? 0 : 1;
		if (!(prandom_u32_state(&rnd) % 8))
			schedule_timeout_uninterruptible(1);
		if (i % 64 == 0)
			fake_check_marks(test);
	}
	reporter->on_report = NULL;
	reporter->errors = 0;
	for (n = 0; n < FAKE_HELD; n++)
		if (pages[n])
			__free_pages(pages[n], orders[n]);
	schedule_timeout_uninterruptible(20 * page_reporting_period());
	fake_await_silence();
	KUNIT_EXPECT_LE(test, fake_check_marks(test), FAKE_NOISE);
	KUNIT_EXPECT_LE(test, abs((long)(fake_free_pages() - free)), FAKE_NOISE);
	page_reporting_unregister(&reporter->dev);
	fake_check_nothing_left(test);
}

/* Whole blocks are handed over as they are, down to the reserve, and return. */
static void blocks_are_handed_over(struct kunit *test)
{
	unsigned long free = fake_free_pages(), taken = 0, reserve = 0;
	struct page *blocks[PAGE_REPORTING_CAPACITY], *page;
	struct zone *zone;
	LIST_HEAD(held);
	unsigned int n, i;

	KUNIT_EXPECT_EQ(test, 0, page_reporting_take_blocks(blocks, 1,
							    MAX_PAGE_ORDER + 1));
	while ((n = page_reporting_take_blocks(blocks, ARRAY_SIZE(blocks),
					       MAX_PAGE_ORDER))) {
		for (i = 0; i < n; i++) {
			KUNIT_EXPECT_FALSE(test, PageBuddy(blocks[i]));
			KUNIT_EXPECT_EQ(test, page_count(blocks[i]), 0);
			list_add(&blocks[i]->lru, &held);
		}
		taken += (unsigned long)n << MAX_PAGE_ORDER;
	}
	for_each_populated_zone(zone)
		reserve += high_wmark_pages(zone);
	KUNIT_EXPECT_GT(test, taken, free / 2);
	KUNIT_EXPECT_LE(test, reserve, fake_free_pages() + FAKE_NOISE);

	for (n = 0; !list_empty(&held); n = 0) {
		while (n < ARRAY_SIZE(blocks) &&
		       (page = list_first_entry_or_null(&held, struct page, lru))) {
			list_del(&page->lru);
			blocks[n++] = page;
		}
		page_reporting_return_blocks(blocks, n, MAX_PAGE_ORDER);
	}
	KUNIT_EXPECT_GE(test, fake_free_pages() + FAKE_NOISE, free);
}

/* Blocks that were handed over in between are reported again. */
static void returned_blocks_are_reported(struct kunit *test)
{
	struct fake_reporter *reporter = fake_registered(test);
	struct page *blocks[4];
	unsigned int n;

	n = page_reporting_take_blocks(blocks, ARRAY_SIZE(blocks), MAX_PAGE_ORDER);
	KUNIT_ASSERT_EQ(test, n, ARRAY_SIZE(blocks));
	KUNIT_EXPECT_FALSE(test, PageReported(blocks[0]));
	reporter->pages = 0;
	page_reporting_return_blocks(blocks, n, MAX_PAGE_ORDER);
	fake_await_silence();
	KUNIT_EXPECT_GE(test, reporter->pages, n << MAX_PAGE_ORDER);
	KUNIT_EXPECT_EQ(test, fake_check_marks(test), 0);
}

static int fake_init(struct kunit *test)
{
	return fake_set_delay("100");
}

static struct kunit_case page_reporting_cases[] = {
	KUNIT_CASE(everything_is_reported_once),
	KUNIT_CASE(what_is_freed_is_reported),
	KUNIT_CASE(order_is_kept),
	KUNIT_CASE(order_of_the_user_is_kept),
	KUNIT_CASE(absurd_parameters),
	KUNIT_CASE(order_changes_in_flight),
	KUNIT_CASE(errors_are_retried),
	KUNIT_CASE(each_report_fails),
	KUNIT_CASE(pauses_grow),
	KUNIT_CASE(second_reporter),
	KUNIT_CASE(no_memory),
	KUNIT_CASE(marks_go_with_the_reporter),
	KUNIT_CASE(sleeping_reporter),
	KUNIT_CASE(unregistered_from_a_wake),
	KUNIT_CASE(short_lived_reporters),
	KUNIT_CASE(marks_outlive_merging),
	KUNIT_CASE(marks_need_no_merging),
	KUNIT_CASE(few_are_taken_at_a_time),
	KUNIT_CASE(lock_is_held_for_a_few),
	KUNIT_CASE(pass_rests),
	KUNIT_CASE(lists_of_cpus_are_reported),
	KUNIT_CASE(counters_are_right),
	KUNIT_CASE(pacing_learns),
	KUNIT_CASE(churn_is_left_alone),
	KUNIT_CASE(blocks_are_handed_over),
	KUNIT_CASE(returned_blocks_are_reported),
	KUNIT_CASE(random_churn),
	{}
};

static struct kunit_suite page_reporting_suite = {
	.name = "page_reporting",
	.init = fake_init,
	.test_cases = page_reporting_cases,
};

kunit_test_suite(page_reporting_suite);
