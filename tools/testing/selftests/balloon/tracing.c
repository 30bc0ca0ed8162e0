// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of the balloon driver and of free page reporting, in a trace
 * instance of their own, so that nobody else's trace is touched.
 */
#include <linux/magic.h>

#include "balloon.h"

#define INSTANCE	"balloon-selftest"
#define FREED		(64 * MIB)
#define PATIENCE	20

/* Where a tracefs is, and the path of something in the instance. */
struct tracing {
	const char *root;
	char path[PATH_MAX];
	bool there;
};

static const char *tracing_file(struct tracing *tracing, const char *file)
{
	snprintf(tracing->path, sizeof(tracing->path), "%s/instances/%s/%s",
		 tracing->root, INSTANCE, file);
	return tracing->path;
}

/* Make the instance; one that is left from an interrupted run will do. */
static const char *tracing_open(struct tracing *tracing)
{
	static const char *const roots[] = {
		"/sys/kernel/tracing", "/sys/kernel/debug/tracing",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(roots) && !tracing->root; i++)
		if (is_mounted(roots[i], TRACEFS_MAGIC))
			tracing->root = roots[i];
	if (!tracing->root)
		return "tracefs is not mounted";
	if (mkdir(tracing_file(tracing, ""), 0700) && errno != EEXIST)
		return "this tracefs has no instances";
	tracing->there = true;
	return NULL;
}

static int tracing_close(struct tracing *tracing)
{
	return tracing->there ? rmdir(tracing_file(tracing, "")) : 0;
}

FIXTURE(event) {
	struct tracing tracing;
	char format[128];
	char enable[128];
};

FIXTURE_VARIANT(event) {
	const char *system;
	const char *name;
};

FIXTURE_VARIANT_ADD(event, virtio_balloon_state) {
	.system = "virtio_balloon",
	.name = "virtio_balloon_state",
};

FIXTURE_VARIANT_ADD(event, virtio_balloon_target) {
	.system = "virtio_balloon",
	.name = "virtio_balloon_target",
};

FIXTURE_VARIANT_ADD(event, virtio_balloon_posted) {
	.system = "virtio_balloon",
	.name = "virtio_balloon_posted",
};

FIXTURE_VARIANT_ADD(event, virtio_balloon_answered) {
	.system = "virtio_balloon",
	.name = "virtio_balloon_answered",
};

FIXTURE_VARIANT_ADD(event, virtio_balloon_oom) {
	.system = "virtio_balloon",
	.name = "virtio_balloon_oom",
};

FIXTURE_VARIANT_ADD(event, virtio_balloon_hint) {
	.system = "virtio_balloon",
	.name = "virtio_balloon_hint",
};

FIXTURE_VARIANT_ADD(event, page_reporting_pass) {
	.system = "page_reporting",
	.name = "page_reporting_pass",
};

FIXTURE_VARIANT_ADD(event, page_reporting_report) {
	.system = "page_reporting",
	.name = "page_reporting_report",
};

FIXTURE_SETUP(event)
{
	struct balloon balloon;
	const char *why = need_root();

	if (!why && !strcmp(variant->system, "virtio_balloon"))
		why = balloon_find(&balloon);
	else if (!why)
		why = core_find();
	why = why ?: tracing_open(&self->tracing);
	if (why)
		SKIP(return, "%s", why);
	snprintf(self->format, sizeof(self->format), "events/%s/%s/format",
		 variant->system, variant->name);
	snprintf(self->enable, sizeof(self->enable), "events/%s/%s/enable",
		 variant->system, variant->name);
}

FIXTURE_TEARDOWN(event)
{
	EXPECT_EQ(0, tracing_close(&self->tracing));
}

TEST_F(event, has_a_format)
{
	static char text[TEXT_SIZE];

	ASSERT_EQ(0, file_read(tracing_file(&self->tracing, self->format), text,
			       sizeof(text)));
	EXPECT_NE(NULL, strstr(text, "\nprint fmt: \""));
}

TEST_F(event, can_be_switched)
{
	const char *path = tracing_file(&self->tracing, self->enable);
	unsigned long long on;

	ASSERT_EQ(0, file_write(path, "1"));
	ASSERT_EQ(0, file_number(path, &on));
	EXPECT_EQ(1, on);
	ASSERT_EQ(0, file_write(path, "0"));
	ASSERT_EQ(0, file_number(path, &on));
	EXPECT_EQ(0, on);
}

FIXTURE(reports) {
	struct tracing tracing;
	unsigned long long delay;
};

FIXTURE_SETUP(reports)
{
	struct balloon balloon;
	const char *why = need_root() ?: core_find() ?:
			  balloon_find_reporting(&balloon) ?:
			  tracing_open(&self->tracing);

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, file_number(CORE_DELAY, &self->delay));
	ASSERT_EQ(0, file_set(CORE_DELAY, 100));
}

FIXTURE_TEARDOWN(reports)
{
	EXPECT_EQ(0, file_set(CORE_DELAY, self->delay));
	EXPECT_EQ(0, tracing_close(&self->tracing));
}

/* Whether the trace has an event; it may grow large, so line by line. */
static bool tracing_shows(struct tracing *tracing, const char *event)
{
	FILE *file = fopen(tracing_file(tracing, "trace"), "r");
	char line[1024];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, event);
	if (file)
		fclose(file);
	return found;
}

/* A pass need not find anything to report, but there is one. */
TEST_F_TIMEOUT(reports, freed_memory_is_passed_over, 120)
{
	const char *enable = "events/page_reporting/enable", *why;
	unsigned int left = PATIENCE * 1000 / POLL_MS;

	ASSERT_EQ(0, file_write(tracing_file(&self->tracing, enable), "1"));
	why = memory_free(FREED);
	if (why)
		SKIP(return, "%s", why);
	while (!tracing_shows(&self->tracing, " page_reporting_pass: ") && left--)
		sleep_ms(POLL_MS);
	EXPECT_TRUE(tracing_shows(&self->tracing, " page_reporting_pass: "));
}

TEST_HARNESS_MAIN
