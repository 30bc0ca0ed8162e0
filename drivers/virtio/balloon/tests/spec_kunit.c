// SPDX-License-Identifier: GPL-2.0
/*
 * A case for each normative clause of virtio 1.3, section 5.5, that concerns
 * what the driver does: VB-O1 is checked by the cases whose name begins with
 * vb_o1_. The file clauses lists the clauses.
 *
 * The host watches most clauses all the time (fake_pages.c); a case here
 * brings about what its clause is about, and makes sure that it came about.
 */
#include <linux/mm.h>
#include <linux/virtio_config.h>
#include <linux/vmstat.h>

#include "fake_host.h"

static bool spec_accepts(struct fake_host *host, unsigned int bit)
{
	return host->features & BIT_ULL(bit);
}

static bool spec_must_tell(struct fake_host *host)
{
	return spec_accepts(host, VIRTIO_BALLOON_F_MUST_TELL_HOST);
}

/* Pages by which the guest believes to be smaller */
static unsigned long spec_missing(struct fake_host *host)
{
	return host->totalram - totalram_pages();
}

/* Start with @pages in the balloon, and then answer by hand. */
static struct fake_host *spec_stepped(struct kunit *test, unsigned long pages)
{
	struct fake_host *host = fake_new(test, test->param_value);

	fake_set_target(host, pages);
	fake_settle(host);
	host->answers = FAKE_STEPPED;
	return host;
}

/* Accept MUST_TELL_HOST when offered. */
static void vb_f1_accepts_must_tell_host(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);

	KUNIT_EXPECT_EQ(test, spec_must_tell(host), host->setup.must_tell_host);
}

/* Bits that the driver does not know are left alone; so is an IOMMU. */
static void vb_f_ignores_other_bits(struct kunit *test)
{
	const struct fake_setup setup = {
		.features = GENMASK_ULL(23, 8) | BIT_ULL(40) |
			    BIT_ULL(VIRTIO_F_ACCESS_PLATFORM),
	};
	struct fake_host *host = fake_new(test, &setup);

	KUNIT_EXPECT_EQ(test, host->features & setup.features, 0);
	fake_set_target(host, 700);
	fake_settle(host);
}

/* No queue is notified before DRIVER_OK, with a target waiting or not. */
static void vb_i1_quiet_before_driver_ok(struct kunit *test)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = *param;
	struct fake_host *host;

	setup.num_pages = 700 * VIRTIO_BALLOON_UNITS;
	host = fake_new(test, &setup);
	fake_settle(host);
	KUNIT_EXPECT_GT(test, host->queue[FAKE_INFLATE].kicks, 0);
	KUNIT_EXPECT_GT(test, host->queue[FAKE_STATS].kicks, 0);
	fake_unbind(host);
	fake_bind(host);
	fake_settle(host);
}

/* A core that takes no buffer before DRIVER_OK is got along with. */
static void vb_i1_hardened_core(struct kunit *test)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = *param;
	struct fake_host *host;

	setup.hardened = true;
	setup.num_pages = 700 * VIRTIO_BALLOON_UNITS;
	host = fake_new(test, &setup);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, host->stats_answers, 1);
}

/* Queue numbers skip the queues whose feature was not negotiated. */
static void vb_i2_queue_numbers_are_dense(struct kunit *test)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = *param;
	struct fake_host *host;

	setup.no_stats = true;
	host = fake_new(test, &setup);
	KUNIT_EXPECT_NOT_NULL(test, host->queue[FAKE_INFLATE].vq);
	KUNIT_EXPECT_NOT_NULL(test, host->queue[FAKE_DEFLATE].vq);
	KUNIT_EXPECT_NULL(test, host->queue[FAKE_STATS].vq);
	fake_set_target(host, 700);
	fake_settle(host);
	fake_set_target(host, 100);
	fake_settle(host);
}

/* Supply pages when num_pages is above the actual number. */
static void vb_o1_inflates_to_the_target(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned long pages = 2 * fake_batch(host) + 77;

	fake_set_target(host, 1);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, fake_held(host), 1);
	fake_set_target(host, pages);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, fake_held(host), pages);
	KUNIT_EXPECT_EQ(test, host->inflated, pages);
}

/* The guest keeps off its pages while num_pages is not below actual. */
static void vb_o2_keeps_off_ballooned_pages(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	struct page *page, *next;
	unsigned long pages;
	LIST_HEAD(mine);

	for (pages = 300; pages < 1500; pages += 300) {
		fake_set_target(host, pages);
		fake_settle(host);
	}
	alloc_pages_bulk_list(GFP_KERNEL | __GFP_ZERO, 1000, &mine);
	scoped_guard(spinlock, &host->lock)
		fake_pages_check(host);
	list_for_each_entry_safe(page, next, &mine, lru)
		__free_page(page);
	KUNIT_EXPECT_EQ(test, host->deflated, 0);
	KUNIT_EXPECT_EQ(test, host->queue[FAKE_DEFLATE].buffers, 0);
}

/* Every page that is taken back is told on the deflate queue. */
static void vb_o4_tells_what_it_takes_back(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned long pages = 2 * fake_batch(host) + 77;

	fake_set_target(host, pages);
	fake_settle(host);
	fake_set_target(host, pages - 7);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, host->deflated, 7);
	fake_set_target(host, 1);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, host->deflated, pages - 1);
	fake_unbind(host);
	KUNIT_EXPECT_EQ(test, host->deflated, pages);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(host->config.actual), 0);
}

/*
 * With MUST_TELL_HOST a page is not used before its deflate was answered.
 * Without, it may be, and is: that is what the feature bit is good for.
 */
static void vb_o5_uses_deflated_pages_in_time(struct kunit *test)
{
	struct fake_host *host = spec_stepped(test, 700);

	fake_set_target(host, 100);
	fake_wait(host, host->owned[FAKE_DEFLATING] == 600 * VIRTIO_BALLOON_UNITS);
	schedule_timeout_uninterruptible(HZ / 10);
	KUNIT_EXPECT_EQ(test, spec_missing(host),
			spec_must_tell(host) ? 700 : 100);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, spec_missing(host), 100);
}

/* No page is inflated again while its deflate is unanswered. */
static void vb_o5_inflates_after_deflate(struct kunit *test)
{
	struct fake_host *host = spec_stepped(test, 700);
	unsigned long inflated = host->inflated;

	fake_set_target(host, 100);
	fake_wait(host, host->owned[FAKE_DEFLATING]);
	fake_set_target(host, 700);
	schedule_timeout_uninterruptible(HZ / 10);
	KUNIT_EXPECT_EQ(test, host->inflated, inflated);
	fake_settle(host);
}

/* A page is not used before its inflate was answered. */
static void vb_o6_keeps_pages_until_inflated(struct kunit *test)
{
	struct fake_host *host = spec_stepped(test, 0);

	fake_set_target(host, 700);
	fake_wait(host, host->owned[FAKE_INFLATING] == 700 * VIRTIO_BALLOON_UNITS);
	fake_set_target(host, 0);
	schedule_timeout_uninterruptible(HZ / 10);
	KUNIT_EXPECT_EQ(test, host->owned[FAKE_INFLATING],
			700 * VIRTIO_BALLOON_UNITS);
	scoped_guard(spinlock, &host->lock)
		fake_pages_check(host);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, host->deflated, 700);
}

/* A page's deflation is not asked for before its inflation was answered. */
static void vb_o7_deflates_after_inflate(struct kunit *test)
{
	struct fake_host *host = spec_stepped(test, 300);

	fake_set_target(host, 700);
	fake_wait(host, host->owned[FAKE_INFLATING] == 400 * VIRTIO_BALLOON_UNITS);
	fake_set_target(host, 0);
	fake_wait(host, host->owned[FAKE_DEFLATING] == 300 * VIRTIO_BALLOON_UNITS);
	schedule_timeout_uninterruptible(HZ / 10);
	KUNIT_EXPECT_EQ(test, host->deflated, 300);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, host->deflated, 700);
}

/* actual is told at rest, and now and then on the way there. */
static void vb_o8_tells_actual(struct kunit *test)
{
	struct fake_host *host = spec_stepped(test, 0);
	unsigned long batch = fake_batch(host);

	fake_set_target(host, 2 * batch);
	fake_wait(host, host->outstanding);
	fake_step(host, 1);
	KUNIT_EXPECT_GT(test, fake_held(host), 0);
	fake_wait(host, le32_to_cpu(host->config.actual) ==
		  host->owned[FAKE_HELD]);
	fake_wait(host, host->outstanding);
	fake_settle(host);
	host->answers = FAKE_AT_ONCE;
	fake_set_target(host, 5);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(host->config.actual),
			5 * VIRTIO_BALLOON_UNITS);
}

/* actual is written as often as the host needs it, not with each batch. */
static void vb_o8_tells_no_more_than_needed(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned long begin = jiffies, most;

	fake_set_target(host, 3 * fake_batch(host));
	fake_settle(host);
	most = 2 + 10 * (jiffies - begin) / HZ;
	KUNIT_EXPECT_LE(test, host->config_writes, most);
	schedule_timeout_uninterruptible(HZ / 2);
	KUNIT_EXPECT_LE(test, host->config_writes, most);
}

/* PFNs count 4096 bytes and have 32 bits, whatever the guest page size. */
static void vb_o9_names_pages_by_4096_bytes(struct kunit *test)
{
	struct fake_host *host = spec_stepped(test, 0);
	struct fake_request *request;
	phys_addr_t addr;
	__virtio32 *pfns;
	unsigned int i;

	fake_set_target(host, 3);
	fake_wait(host, host->outstanding);
	request = list_first_entry(&host->requests, struct fake_request, link);
	KUNIT_EXPECT_EQ(test, request->len, 3 * PAGE_SIZE / 4096 * 4);
	pfns = phys_to_virt(request->addr);
	for (i = 0; i < request->len / 4; i++) {
		addr = (phys_addr_t)virtio32_to_cpu(&host->vdev, pfns[i]) * 4096;
		KUNIT_EXPECT_TRUE(test, page_count(pfn_to_page(PHYS_PFN(addr))));
		KUNIT_EXPECT_EQ(test, addr % PAGE_SIZE / 4096,
				i % (PAGE_SIZE / 4096));
	}
	fake_settle(host);
}

/* The configuration is little-endian, actual one write of 4 bytes. */
static void vb_o10_config_is_little_endian(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);

	fake_set_units(host, 0x234 * VIRTIO_BALLOON_UNITS);
	fake_settle(host);
	KUNIT_EXPECT_EQ(test, fake_held(host), 0x234);
	KUNIT_EXPECT_TRUE(test, host->config.actual ==
			  cpu_to_le32(0x234 * VIRTIO_BALLOON_UNITS));
}

/* The used length says nothing. */
static void vb_o10_ignores_the_used_length(struct kunit *test)
{
	static const u32 lengths[] = { 1, 4, 4096, U32_MAX };
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		host->used_len = lengths[i];
		fake_set_target(host, 700);
		fake_settle(host);
		fake_set_target(host, 10);
		fake_settle(host);
		fake_ask_stats(host);
		fake_wait(host, host->stats_answers == i + 2);
	}
}

/* At most one statistics buffer is in the queue, however often it is asked. */
static void vb_s1_one_statistics_buffer(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned int i;

	host->interrupts = FAKE_DOUBLED;
	for (i = 1; i <= 20; i++) {
		fake_wait(host, host->stats_answers == i);
		KUNIT_EXPECT_EQ(test, host->queue[FAKE_STATS].outstanding, 1);
		fake_spurious(host, FAKE_STATS);
		fake_ask_stats(host);
	}
	fake_wait(host, host->stats_answers == i);
	schedule_timeout_uninterruptible(HZ / 20);
	KUNIT_EXPECT_EQ(test, host->queue[FAKE_STATS].buffers, i);
}

/* One is there after initialisation, and again each time it was used. */
static void vb_s2_statistics_are_always_there(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);

	KUNIT_EXPECT_EQ(test, host->stats_answers, 1);
	KUNIT_EXPECT_EQ(test, host->queue[FAKE_STATS].kicks, 1);
	fake_ask_stats(host);
	fake_wait(host, host->stats_answers == 2);
	fake_unbind(host);
	fake_bind(host);
	KUNIT_EXPECT_EQ(test, host->queue[FAKE_STATS].outstanding, 1);
}

/* Every statistic that the guest has is there, and is a figure. */
static void vb_s3_holds_every_statistic(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	unsigned int tag, supported = 4;
	u32 tags = 0;

	if (IS_ENABLED(CONFIG_VM_EVENT_COUNTERS))
		supported += 10;
	if (IS_ENABLED(CONFIG_VM_EVENT_COUNTERS) &&
	    IS_ENABLED(CONFIG_HUGETLB_PAGE))
		supported += 2;
	KUNIT_EXPECT_EQ(test, host->nr_stats, supported);
	for (tag = 0; tag < host->nr_stats; tag++)
		tags |= BIT(virtio16_to_cpu(&host->vdev, host->stats[tag].tag));
	KUNIT_EXPECT_EQ(test, hweight32(tags), supported);
	fake_ask_stats(host);
	fake_wait(host, host->stats_answers == 2);
}

/* The byte order is the device's, and the units are what the names say. */
static void vb_s4_statistics_in_device_byte_order(struct kunit *test)
{
	struct fake_host *host = fake_new(test, test->param_value);
	struct sysinfo info;
	u64 free;

	fake_set_target(host, 5000);
	fake_settle(host);
	fake_ask_stats(host);
	fake_wait(host, host->stats_answers == 2);
	si_meminfo(&info);
	free = fake_stat(host, VIRTIO_BALLOON_S_MEMFREE) >> PAGE_SHIFT;
	KUNIT_EXPECT_EQ(test, fake_stat(host, VIRTIO_BALLOON_S_MEMTOT),
			(u64)info.totalram << PAGE_SHIFT);
	KUNIT_EXPECT_LE(test, abs((long)free - (long)info.freeram), 2000);
	KUNIT_EXPECT_LE(test, fake_stat(host, VIRTIO_BALLOON_S_AVAIL),
			fake_stat(host, VIRTIO_BALLOON_S_MEMTOT));
	KUNIT_EXPECT_EQ(test, fake_stat(host, VIRTIO_BALLOON_S_CACHES),
			(u64)global_node_page_state(NR_FILE_PAGES) << PAGE_SHIFT);
}

static struct kunit_case spec_cases[] = {
	KUNIT_CASE_PARAM(vb_f1_accepts_must_tell_host, fake_gen_params),
	KUNIT_CASE(vb_f_ignores_other_bits),
	KUNIT_CASE_PARAM(vb_i1_quiet_before_driver_ok, fake_gen_params),
	KUNIT_CASE_PARAM(vb_i1_hardened_core, fake_gen_params),
	KUNIT_CASE_PARAM(vb_i2_queue_numbers_are_dense, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o1_inflates_to_the_target, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o2_keeps_off_ballooned_pages, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o4_tells_what_it_takes_back, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o5_uses_deflated_pages_in_time, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o5_inflates_after_deflate, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o6_keeps_pages_until_inflated, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o7_deflates_after_inflate, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o8_tells_actual, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o8_tells_no_more_than_needed, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o9_names_pages_by_4096_bytes, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o10_config_is_little_endian, fake_gen_params),
	KUNIT_CASE_PARAM(vb_o10_ignores_the_used_length, fake_gen_params),
	KUNIT_CASE_PARAM(vb_s1_one_statistics_buffer, fake_gen_params),
	KUNIT_CASE_PARAM(vb_s2_statistics_are_always_there, fake_gen_params),
	KUNIT_CASE_PARAM(vb_s3_holds_every_statistic, fake_gen_params),
	KUNIT_CASE_PARAM(vb_s4_statistics_in_device_byte_order,
			 fake_gen_params),
	{}
};

static struct kunit_suite spec_suite = {
	.name = "virtio_balloon_spec",
	.exit = fake_exit,
	.test_cases = spec_cases,
};

kunit_test_suite(spec_suite);
