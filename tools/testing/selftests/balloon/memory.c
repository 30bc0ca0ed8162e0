// SPDX-License-Identifier: GPL-2.0
/*
 * What the balloon holds, by all accounts, while it rests, while memory is
 * compacted, when the driver goes and comes, and when memory runs out.
 */
#include "balloon.h"

#define COMPACT		"/proc/sys/vm/compact_memory"
/* How long the balloon may be on its way */
#define PATIENCE	60
/* Attempts to have compaction move something */
#define ROUNDS		4
/* Memory is taken so much at a time; in compaction, and freed */
#define CHUNK		(4 * MIB)
#define PIECE		(64 * 1024)

/* All accounts at one moment; sizes in bytes. */
struct accounts {
	unsigned long long actual;
	unsigned long long counted;
	unsigned long long migrated;
	unsigned long long total;
};

static int accounts_read(struct accounts *accounts)
{
	unsigned long long in, out, kib;
	int err;

	err = file_field("/proc/vmstat", "balloon_inflate", &in) ?:
	      file_field("/proc/vmstat", "balloon_deflate", &out) ?:
	      file_field("/proc/vmstat", "balloon_migrate",
			 &accounts->migrated) ?:
	      file_field("/proc/meminfo", "MemTotal", &kib);
	if (err)
		return err;
	accounts->counted = (in - out) * page_size();
	accounts->total = kib * 1024;
	return 0;
}

/* The accounts of a balloon that was at rest all the while. */
static const char *accounts_at_rest(const struct balloon *b,
				    struct accounts *accounts)
{
	unsigned long long after;
	unsigned int tries = 20;
	const char *why;

	while (tries--) {
		why = balloon_await(b, PATIENCE, &accounts->actual);
		if (!why && accounts_read(accounts))
			why = "the kernel does not count events of balloons";
		if (why)
			return why;
		if (balloon_rests(b, &after) && after == accounts->actual)
			return NULL;
	}
	return "the balloon does not come to rest";
}

/* Find a balloon, and its accounts at rest. */
static const char *accounts_find(struct balloon *b, struct accounts *accounts)
{
	return balloon_find(b) ?: need_root() ?: accounts_at_rest(b, accounts);
}

/* All memory that the kernel may use, hot-plugged memory included, in bytes. */
static unsigned long long ram_size(void)
{
	FILE *file = fopen("/proc/iomem", "r");
	unsigned long long first, last, sum = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, " : System RAM") &&
		    sscanf(line, " %llx-%llx", &first, &last) == 2 && last)
			sum += last - first + 1;
	if (file)
		fclose(file);
	return sum;
}

FIXTURE(memory) {
	struct balloon balloon;
	struct accounts before;
	bool shrinks;
};

/* A balloon that the guest cannot take back on its own makes MemTotal smaller. */
FIXTURE_SETUP(memory)
{
	const char *why = accounts_find(&self->balloon, &self->before);

	if (why)
		SKIP(return, "%s", why);
	self->shrinks = !balloon_has(&self->balloon, BALLOON_DEFLATE_ON_OOM);
}

FIXTURE_TEARDOWN(memory)
{
}

/* Each driver that went has given back all it held: so the sums agree. */
TEST_F_TIMEOUT(memory, counters_agree_with_actual, 120)
{
	if (self->balloon.count > 1)
		SKIP(return, "there are several balloons");
	EXPECT_EQ(self->before.actual, self->before.counted);
}

TEST_F_TIMEOUT(memory, balloon_fits_into_ram, 120)
{
	unsigned long long ram = ram_size();

	if (!ram)
		SKIP(return, "/proc/iomem does not tell where memory is");
	EXPECT_GE(ram, self->before.actual);
	EXPECT_GE(ram, self->before.total);
	if (self->shrinks)
		EXPECT_GE(ram, self->before.total + self->before.actual);
}

/* Use memory, free every other piece, say so, and wait for the end. */
static void fragment(size_t size, int ready)
{
	char *mem = memory_use(size);
	size_t at;

	for (at = 0; mem && at < size; at += 2 * PIECE)
		madvise(mem + at, PIECE, MADV_DONTNEED);
	if (write(ready, "", 1) == 1)
		pause();
	_exit(0);
}

/* A child that holds half of what is available in pieces; or -1. */
static pid_t fragment_start(void)
{
	unsigned long long kib;
	int fds[2];
	pid_t child;
	char byte;

	if (file_field("/proc/meminfo", "MemAvailable", &kib) || pipe(fds))
		return -1;
	child = child_fork();
	if (!child) {
		close(fds[0]);
		fragment(kib / 2 * 1024, fds[1]);
	}
	close(fds[1]);
	if (child > 0 && read(fds[0], &byte, 1) != 1) {
		child_end(child);
		child = -1;
	}
	close(fds[0]);
	return child;
}

/* Compact fragmented memory, and again when it is all free. */
static int compact_round(void)
{
	pid_t child = fragment_start();
	int err = file_write(COMPACT, "1");

	if (child > 0)
		child_end(child);
	return err ?: file_write(COMPACT, "1");
}

/* A target of the host's, or OOM, may change the size; compaction may not. */
TEST_F_TIMEOUT(memory, compaction_keeps_the_size, 300)
{
	unsigned long long target, released, value;
	struct accounts after = self->before;
	unsigned int round;

	if (access(COMPACT, W_OK))
		SKIP(return, "this kernel does not compact memory");
	if (!self->before.actual)
		SKIP(return, "the balloon is empty");
	ASSERT_EQ(0, balloon_number(&self->balloon, "target", &target));
	ASSERT_EQ(0, balloon_number(&self->balloon, "released_on_oom",
				    &released));
	for (round = 0; round < ROUNDS &&
	     after.migrated == self->before.migrated; round++) {
		ASSERT_EQ(0, compact_round());
		ASSERT_EQ(0, accounts_read(&after));
		EXPECT_GE(after.migrated, self->before.migrated);
	}
	ASSERT_EQ(0, balloon_number(&self->balloon, "target", &value));
	if (value != target)
		SKIP(return, "the host asked for another size meanwhile");
	ASSERT_EQ(0, balloon_number(&self->balloon, "released_on_oom", &value));
	if (value != released)
		SKIP(return, "memory ran out meanwhile");
	ASSERT_EQ(NULL, accounts_at_rest(&self->balloon, &after));
	EXPECT_EQ(self->before.actual, after.actual);
	if (after.migrated == self->before.migrated)
		SKIP(return, "no page of the balloon was in the way");
}

FIXTURE(driver) {
	struct balloon balloon;
	struct accounts before;
	unsigned long long full;
	unsigned long long empty;
};

/* What MemTotal is with the balloon as it is, and without one. */
FIXTURE_SETUP(driver)
{
	const char *why;

	if (!getenv("BALLOON_TEST_BIND"))
		SKIP(return, "BALLOON_TEST_BIND=1 allows it");
	why = accounts_find(&self->balloon, &self->before);
	if (why)
		SKIP(return, "%s", why);
	self->full = self->before.total;
	self->empty = self->before.total;
	if (!balloon_has(&self->balloon, BALLOON_DEFLATE_ON_OOM))
		self->empty += self->before.actual;
}

FIXTURE_TEARDOWN(driver)
{
	if (access(self->balloon.dir, F_OK))
		file_write(BALLOON_DRIVER "/bind", self->balloon.name);
}

/* Wait for a size; a new driver has to hear of it first. */
static bool await_size(const struct balloon *b, unsigned long long size)
{
	unsigned int left = PATIENCE * 1000 / POLL_MS;
	unsigned long long actual;

	while (!balloon_rests(b, &actual) || actual != size) {
		if (!left--)
			return false;
		sleep_ms(POLL_MS);
	}
	return true;
}

TEST_F_TIMEOUT(driver, goes_and_comes_back, 300)
{
	const char *name = self->balloon.name;
	struct accounts now;
	struct balloon again;

	ASSERT_EQ(0, file_write(BALLOON_DRIVER "/unbind", name));
	EXPECT_NE(0, access(self->balloon.dir, F_OK));
	ASSERT_EQ(0, accounts_read(&now));
	EXPECT_EQ(self->empty, now.total);
	if (self->balloon.count == 1)
		EXPECT_EQ(0, now.counted);

	ASSERT_EQ(0, file_write(BALLOON_DRIVER "/bind", name));
	ASSERT_EQ(NULL, balloon_find(&again));
	EXPECT_STREQ(self->balloon.dir, again.dir);
	EXPECT_TRUE(await_size(&again, self->before.actual));
	ASSERT_EQ(NULL, accounts_at_rest(&again, &now));
	EXPECT_EQ(self->before.actual, now.actual);
	EXPECT_EQ(self->full, now.total);
	if (again.count == 1)
		EXPECT_EQ(now.actual, now.counted);
}

FIXTURE(oom) {
	struct balloon balloon;
	struct accounts before;
	unsigned long long released;
};

FIXTURE_SETUP(oom)
{
	const char *why;

	if (!getenv("BALLOON_TEST_OOM"))
		SKIP(return, "BALLOON_TEST_OOM=1 allows it");
	why = accounts_find(&self->balloon, &self->before);
	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, balloon_number(&self->balloon, "released_on_oom",
				    &self->released));
}

FIXTURE_TEARDOWN(oom)
{
}

/* A child that takes memory until it is killed, the first to be. */
static pid_t press_start(void)
{
	pid_t child = child_fork();

	if (child)
		return child;
	if (file_write("/proc/self/oom_score_adj", "1000"))
		_exit(1);
	while (memory_use(CHUNK))
		;
	_exit(1);
}

/* Press until memory ran out. */
static const char *press(const struct balloon *b, unsigned long long released)
{
	unsigned int left = 2 * PATIENCE * 1000 / POLL_MS;
	unsigned long long now = released;
	pid_t child = press_start();
	int status;

	if (child < 0)
		return "there is no memory for a process";
	while (left-- && now == released) {
		if (waitpid(child, &status, WNOHANG) == child)
			return WIFSIGNALED(status) ? NULL :
			       "this process is not given so much memory";
		sleep_ms(POLL_MS);
		if (balloon_number(b, "released_on_oom", &now))
			break;
	}
	child_end(child);
	return now == released ? "memory did not run out in time" : NULL;
}

TEST_F_TIMEOUT(oom, is_met_with_pages_of_the_balloon, 300)
{
	const struct balloon *b = &self->balloon;
	unsigned long long released, actual;
	const char *why;

	if (balloon_has(b, BALLOON_DEFLATE_ON_OOM) && !self->before.actual)
		SKIP(return, "the balloon is empty");
	why = press(b, self->released);
	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, balloon_number(b, "actual", &actual));
	ASSERT_EQ(0, balloon_number(b, "released_on_oom", &released));
	if (balloon_has(b, BALLOON_DEFLATE_ON_OOM)) {
		EXPECT_GT(released, self->released);
		EXPECT_LT(actual, self->before.actual);
	} else {
		EXPECT_EQ(0, released);
		EXPECT_EQ(self->before.actual, actual);
	}
}

TEST_HARNESS_MAIN
