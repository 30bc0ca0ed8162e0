// SPDX-License-Identifier: GPL-2.0
/*
 * Free page reporting: its parameters, its counters, and whether it reports.
 * Documentation/balloon.rst says what they are.
 */
#include <linux/magic.h>

#include "balloon.h"

#define DEBUGFS		"/sys/kernel/debug"
#define COUNTERS	DEBUGFS "/page_reporting"
/* Used and freed; how long it may take until some of it is reported */
#define FREED		(64 * MIB)
#define PATIENCE	20

FIXTURE(parameter) {
	unsigned long long before;
	bool unset;
};

FIXTURE_VARIANT(parameter) {
	const char *path;
	const char *refused[3];
	unsigned int good[2];
};

FIXTURE_VARIANT_ADD(parameter, order) {
	.path = CORE_ORDER,
	.refused = { "-1", "64", "some" },
	.good = { 4, 0 },
};

FIXTURE_VARIANT_ADD(parameter, delay_ms) {
	.path = CORE_DELAY,
	.refused = { "-1", "3600001", "some" },
	.good = { 3600000, 1 },
};

/* The order is -1 as long as nobody has set it; nor can it be set to that. */
FIXTURE_SETUP(parameter)
{
	const char *why = core_find() ?: need_root();
	char text[32];

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, file_line(variant->path, text, sizeof(text)));
	self->unset = !strcmp(text, "-1");
	if (!self->unset)
		ASSERT_EQ(0, file_number(variant->path, &self->before));
}

FIXTURE_TEARDOWN(parameter)
{
	if (!self->unset)
		EXPECT_EQ(0, file_set(variant->path, self->before));
}

TEST_F(parameter, out_of_range_is_refused)
{
	char before[32], after[32];
	size_t i;
	int err;

	ASSERT_EQ(0, file_line(variant->path, before, sizeof(before)));
	for (i = 0; i < ARRAY_SIZE(variant->refused); i++) {
		err = file_write(variant->path, variant->refused[i]);
		EXPECT_TRUE(err == -EINVAL || err == -ERANGE)
			TH_LOG("%s: %d", variant->refused[i], err);
	}
	ASSERT_EQ(0, file_line(variant->path, after, sizeof(after)));
	EXPECT_STREQ(before, after);
}

TEST_F(parameter, in_range_is_taken)
{
	unsigned long long now;
	size_t i;

	if (self->unset)
		SKIP(return, "nobody has set it, which could not be restored");
	for (i = 0; i < ARRAY_SIZE(variant->good); i++) {
		ASSERT_EQ(0, file_set(variant->path, variant->good[i]));
		ASSERT_EQ(0, file_number(variant->path, &now));
		EXPECT_EQ(variant->good[i], now);
	}
}

static const char *const names[] = {
	"passes", "reported_pages", "reported_bytes", "repeated_pages",
	"failures", "lock_hold_max_ns",
};

static int counter(const char *name, unsigned long long *value)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), COUNTERS "/%s", name);
	return file_number(path, value);
}

FIXTURE(counters) {
	unsigned long long delay;
};

/* Soon, for the tests that wait for reports. */
FIXTURE_SETUP(counters)
{
	const char *why = core_find() ?: need_root();

	if (why)
		SKIP(return, "%s", why);
	if (!is_mounted(DEBUGFS, DEBUGFS_MAGIC))
		SKIP(return, "debugfs is not mounted on " DEBUGFS);
	ASSERT_EQ(0, file_number(CORE_DELAY, &self->delay));
	ASSERT_EQ(0, file_set(CORE_DELAY, 100));
}

FIXTURE_TEARDOWN(counters)
{
	EXPECT_EQ(0, file_set(CORE_DELAY, self->delay));
}

/* The first counter that is none, or nothing. */
static const char *counter_wrong(void)
{
	unsigned long long value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (counter(names[i], &value))
			return names[i];
	return "";
}

TEST_F(counters, all_are_numbers)
{
	EXPECT_STREQ("", counter_wrong());
}

TEST_F(counters, bytes_are_those_of_the_pages)
{
	unsigned long long pages, bytes, after;
	unsigned int tries = 200;

	do {
		ASSERT_EQ(0, counter("reported_pages", &pages));
		ASSERT_EQ(0, counter("reported_bytes", &bytes));
		ASSERT_EQ(0, counter("reported_pages", &after));
		if (pages == after)
			break;
		sleep_ms(POLL_MS);
	} while (--tries);
	if (!tries)
		SKIP(return, "the counters never stand still");
	EXPECT_EQ(pages * page_size(), bytes);
}

/* Wait until nothing was reported for a while, so that no report is under way. */
static const char *counters_settle(unsigned long long *pages)
{
	unsigned long long before;
	unsigned int i;

	for (i = 0; i < PATIENCE; i++) {
		if (counter("reported_pages", &before))
			return "there is no counter";
		sleep_ms(1000);
		if (!counter("reported_pages", pages) && *pages == before)
			return NULL;
	}
	return "pages are reported all the time";
}

/* Wait until there are more reported pages than so many. */
static bool counters_grow(unsigned long long pages)
{
	unsigned long long now = pages;
	unsigned int i;

	for (i = 0; i < PATIENCE * 1000 / POLL_MS && now <= pages; i++) {
		sleep_ms(POLL_MS);
		if (counter("reported_pages", &now))
			return false;
	}
	return now > pages;
}

/* Free blocks of an order or larger, by /proc/buddyinfo. */
static unsigned long blocks_free(unsigned long long order)
{
	FILE *file = fopen("/proc/buddyinfo", "r");
	unsigned long sum = 0, blocks;
	char line[512], *word, *save;
	unsigned int i;

	/* Node 0, zone DMA32 blocks of order 0, of order 1, ... */
	while (file && fgets(line, sizeof(line), file)) {
		word = strtok_r(line, "\n ", &save);
		for (i = 0; word; i++, word = strtok_r(NULL, "\n ", &save)) {
			blocks = strtoul(word, NULL, 10);
			sum += i >= 4 + order ? blocks : 0;
		}
	}
	if (file)
		fclose(file);
	return sum;
}

/*
 * Memory that is freed is reported, unless it is in pieces. The counters may
 * have been set: so what they grow by is looked at.
 */
TEST_F_TIMEOUT(counters, freed_memory_is_reported, 120)
{
	unsigned long long pages, more, repeated, again, order, told, telling;
	struct balloon balloon;
	const char *why = balloon_find_reporting(&balloon) ?:
			  counters_settle(&pages);

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, counter("repeated_pages", &repeated));
	ASSERT_EQ(0, balloon_number(&balloon, "reported", &told));
	ASSERT_EQ(0, file_number(CORE_ORDER, &order));

	why = memory_free(FREED);
	if (why)
		SKIP(return, "%s", why);
	if (!counters_grow(pages) && !blocks_free(order))
		SKIP(return, "no block of order %llu is free", order);
	ASSERT_EQ(0, counter("repeated_pages", &again));
	ASSERT_EQ(0, counter("reported_pages", &more));
	ASSERT_EQ(0, balloon_number(&balloon, "reported", &telling));
	EXPECT_GT(more, pages);
	EXPECT_LE(again - repeated, more - pages);
	EXPECT_GT(telling, told);
}

TEST_HARNESS_MAIN
