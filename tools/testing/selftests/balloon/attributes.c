// SPDX-License-Identifier: GPL-2.0
/*
 * The attributes of the virtio memory balloon, against what
 * Documentation/ABI/testing/sysfs-bus-virtio-drivers-balloon says of them.
 */
#include "balloon.h"

#define ABI_FILE	"Documentation/ABI/testing/sysfs-bus-virtio-drivers-balloon"
#define ABI_WHAT	"What:\t\t/sys/bus/virtio/devices/virtio<n>/balloon/"
#define FLOOR		"/sys/module/virtio_balloon/parameters/floor"
#define NAMES_MAX	32
#define NAME_SIZE	32

static const char *const sizes[] = {
	"target", "actual", "floor", "released_on_oom", "hinted", "reported",
};

static const char *const states[] = {
	"idle", "inflating", "deflating", "at floor", "held off", "stopping",
};

static const struct {
	const char *name;
	enum balloon_feature feature;
} counters[] = {
	{ "released_on_oom", BALLOON_DEFLATE_ON_OOM },
	{ "hinted", BALLOON_FREE_PAGE_HINT },
	{ "reported", BALLOON_REPORTING },
};

struct names {
	char name[NAMES_MAX][NAME_SIZE];
	unsigned int count;
};

static void names_add(struct names *names, const char *name)
{
	if (names->count < NAMES_MAX)
		snprintf(names->name[names->count++], NAME_SIZE, "%.31s", name);
}

static bool names_have(const struct names *names, const char *name)
{
	unsigned int i;

	for (i = 0; i < names->count; i++)
		if (!strcmp(names->name[i], name))
			return true;
	return false;
}

/* Where the ABI's description is: as told, or in the tree of this program. */
static void abi_path(char *path, size_t size)
{
	char exe[PATH_MAX / 2];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (getenv("BALLOON_ABI")) {
		snprintf(path, size, "%s", getenv("BALLOON_ABI"));
		return;
	}
	exe[len < 0 ? 0 : len] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	snprintf(path, size, "%s/../../../../" ABI_FILE, exe);
}

/* The attributes that the description names; returns 0 or a negative errno. */
static int abi_read(const char *path, struct names *names)
{
	static char text[TEXT_SIZE];
	int err = file_read(path, text, sizeof(text));
	const char *at = text;
	char name[NAME_SIZE];

	while (!err && (at = strstr(at, ABI_WHAT))) {
		at += strlen(ABI_WHAT);
		if (sscanf(at, "%31[^\n]", name) == 1)
			names_add(names, name);
	}
	return err;
}

/* The same, for when the description is not at hand. */
static void abi_known(struct names *names)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		names_add(names, sizes[i]);
	names_add(names, "state");
	names_add(names, "reason");
}

static void names_list(struct names *names, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			names_add(names, entry->d_name);
	if (dir)
		closedir(dir);
}

FIXTURE(attributes) {
	struct balloon balloon;
	struct names documented;
	struct names there;
};

FIXTURE_SETUP(attributes)
{
	const char *why = balloon_find(&self->balloon);
	char path[PATH_MAX];

	if (why)
		SKIP(return, "%s", why);
	abi_path(path, sizeof(path));
	if (abi_read(path, &self->documented)) {
		ASSERT_EQ(NULL, getenv("BALLOON_ABI"))
			TH_LOG("BALLOON_ABI=%s cannot be read", path);
		TH_LOG("without %s: by the list that is built in", ABI_FILE);
		abi_known(&self->documented);
	}
	names_list(&self->there, self->balloon.dir);
}

FIXTURE_TEARDOWN(attributes)
{
}

TEST_F(attributes, all_documented_are_there)
{
	unsigned int i;

	ASSERT_NE(0, self->documented.count);
	for (i = 0; i < self->documented.count; i++)
		EXPECT_TRUE(names_have(&self->there, self->documented.name[i]))
			TH_LOG("%s is missing", self->documented.name[i]);
}

TEST_F(attributes, all_there_are_documented)
{
	unsigned int i;

	for (i = 0; i < self->there.count; i++)
		EXPECT_TRUE(names_have(&self->documented, self->there.name[i]))
			TH_LOG("%s is not documented", self->there.name[i]);
}

TEST_F(attributes, all_are_read_only)
{
	char path[PATH_MAX];
	struct stat st;
	unsigned int i;

	for (i = 0; i < self->there.count; i++) {
		snprintf(path, sizeof(path), "%s/%s", self->balloon.dir,
			 self->there.name[i]);
		ASSERT_EQ(0, stat(path, &st));
		EXPECT_EQ(0444, st.st_mode & 0777)
			TH_LOG("%s", path);
	}
}

TEST_F(attributes, sizes_are_whole_pages)
{
	unsigned long long value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(0, balloon_number(&self->balloon, sizes[i], &value))
			TH_LOG("%s is no number", sizes[i]);
		EXPECT_EQ(0, value % page_size())
			TH_LOG("%s is %llu", sizes[i], value);
	}
}

TEST_F(attributes, state_is_a_documented_one)
{
	char path[PATH_MAX], text[64];
	bool known = false;
	size_t i;

	snprintf(path, sizeof(path), "%s/state", self->balloon.dir);
	ASSERT_EQ(0, file_line(path, text, sizeof(text)));
	for (i = 0; i < ARRAY_SIZE(states); i++)
		known |= !strcmp(text, states[i]);
	EXPECT_TRUE(known)
		TH_LOG("the state is '%s'", text);
}

TEST_F(attributes, reason_is_a_line)
{
	char path[PATH_MAX], text[256];

	snprintf(path, sizeof(path), "%s/reason", self->balloon.dir);
	EXPECT_EQ(0, file_line(path, text, sizeof(text)));
}

/* What the host does not offer does not happen. */
TEST_F(attributes, counters_without_feature_are_zero)
{
	unsigned long long value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		if (balloon_has(&self->balloon, counters[i].feature))
			continue;
		ASSERT_EQ(0, balloon_number(&self->balloon, counters[i].name,
					    &value));
		EXPECT_EQ(0, value)
			TH_LOG("%s", counters[i].name);
	}
}

/*
 * The attributes are read one after the other, and the host may ask for
 * another size in between: so only a difference that lasts counts.
 */
TEST_F(attributes, idle_is_at_the_target)
{
	unsigned long long actual = 0;
	unsigned int idle = 0, i;

	for (i = 0; i < 10000 / POLL_MS; i++) {
		if (balloon_rests(&self->balloon, &actual))
			return;
		idle = balloon_is_idle(&self->balloon) ? idle + 1 : 0;
		ASSERT_GT(2000 / POLL_MS, idle)
			TH_LOG("idle for 2 s, with %llu bytes", actual);
		sleep_ms(POLL_MS);
	}
	SKIP(return, "the balloon does not come to rest");
}

FIXTURE(floor) {
	struct balloon balloon;
	char before[32];
};

FIXTURE_SETUP(floor)
{
	const char *why = balloon_find(&self->balloon) ?: need_root();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, file_line(FLOOR, self->before, sizeof(self->before)));
}

FIXTURE_TEARDOWN(floor)
{
	EXPECT_EQ(0, file_write(FLOOR, self->before));
}

TEST_F(floor, attribute_follows_parameter)
{
	unsigned long long mib, bytes;

	for (mib = 1; mib <= 64; mib *= 8) {
		ASSERT_EQ(0, file_set(FLOOR, mib));
		ASSERT_EQ(0, balloon_number(&self->balloon, "floor", &bytes));
		EXPECT_EQ(mib * MIB, bytes);
	}
}

TEST_F(floor, other_values_are_refused)
{
	char now[32];

	EXPECT_EQ(-EINVAL, file_write(FLOOR, "-2"));
	EXPECT_EQ(-EINVAL, file_write(FLOOR, "some"));
	EXPECT_NE(0, file_write(FLOOR, "4294967296"));
	ASSERT_EQ(0, file_line(FLOOR, now, sizeof(now)));
	EXPECT_STREQ(self->before, now);
}

TEST_HARNESS_MAIN
