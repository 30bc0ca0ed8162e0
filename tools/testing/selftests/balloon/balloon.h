/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of the virtio memory balloon share: files of sysfs and proc,
 * the device, and memory that is used and freed.
 *
 * Functions that look whether a test makes sense here return the reason why
 * not, or NULL.
 */
#ifndef SELFTESTS_BALLOON_H
#define SELFTESTS_BALLOON_H

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "../kselftest_harness.h"

#define BALLOON_DEVICES	"/sys/bus/virtio/devices"
#define BALLOON_DRIVER	"/sys/bus/virtio/drivers/virtio_balloon"
#define BALLOON_ID	"0x0005"
#define CORE		"/sys/module/page_reporting/parameters"
#define CORE_DELAY	CORE "/page_reporting_delay_ms"
#define CORE_ORDER	CORE "/page_reporting_order"

#define MIB		(1024UL * 1024)
/* Enough for /proc/vmstat */
#define TEXT_SIZE	(32 * 1024)
/* A lookout is made so often */
#define POLL_MS		50

/* Feature bits, see include/uapi/linux/virtio_balloon.h */
enum balloon_feature {
	BALLOON_DEFLATE_ON_OOM = 2,
	BALLOON_FREE_PAGE_HINT = 3,
	BALLOON_REPORTING = 5,
};

/* A balloon with the driver under test, and how many balloons there are. */
struct balloon {
	char name[64];
	char dir[128];
	unsigned int count;
};

/* What a file holds, as a string; returns 0 or a negative errno. */
static inline int file_read(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 0;
	int err;

	if (fd < 0)
		return -errno;
	do {
		n = read(fd, text + len, size - 1 - len);
		len += n > 0 ? n : 0;
	} while (n > 0);
	err = n < 0 ? -errno : 0;
	close(fd);
	text[len] = '\0';
	return err;
}

/* One write; returns 0 or a negative errno. */
static inline int file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* A file of one line; returns 0, -EINVAL if it is none, or a negative errno. */
static inline int file_line(const char *path, char *text, size_t size)
{
	int err = file_read(path, text, size);
	char *end;

	if (err)
		return err;
	end = strchr(text, '\n');
	if (!end || end == text || end[1])
		return -EINVAL;
	*end = '\0';
	return 0;
}

/* A file that is a number and nothing else; returns as file_line(). */
static inline int file_number(const char *path, unsigned long long *value)
{
	char text[64];
	int err = file_line(path, text, sizeof(text));

	if (err)
		return err;
	if (strspn(text, "0123456789") != strlen(text))
		return -EINVAL;
	*value = strtoull(text, NULL, 10);
	return 0;
}

static inline int file_set(const char *path, unsigned long long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", value);
	return file_write(path, text);
}

/* A number after a word at the start of a line; returns 0 or a negative errno. */
static inline int file_field(const char *path, const char *word,
			     unsigned long long *value)
{
	static char text[TEXT_SIZE];
	int err = file_read(path, text, sizeof(text));
	char *line;

	if (err)
		return err;
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		size_t len = strcspn(line, ": ");

		if (len != strlen(word) || strncmp(line, word, len))
			continue;
		*value = strtoull(line + len + 1, NULL, 10);
		return 0;
	}
	return -ENOENT;
}

static inline unsigned long long page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static inline void sleep_ms(unsigned int ms)
{
	usleep(1000 * ms);
}

static inline const char *need_root(void)
{
	return geteuid() ? "this takes root" : NULL;
}

/* Whether a file system of this kind is mounted there. */
static inline bool is_mounted(const char *path, unsigned long magic)
{
	struct statfs fs;

	return !statfs(path, &fs) && (unsigned long)fs.f_type == magic;
}

static inline bool balloon_is(const char *name)
{
	char path[PATH_MAX], text[64];

	snprintf(path, sizeof(path), BALLOON_DEVICES "/%s/device", name);
	return !file_line(path, text, sizeof(text)) && !strcmp(text, BALLOON_ID);
}

/* Find a balloon that has the attributes of the driver under test. */
static inline const char *balloon_find(struct balloon *b)
{
	DIR *dir = opendir(BALLOON_DEVICES);
	struct dirent *entry;
	char path[PATH_MAX];

	memset(b, 0, sizeof(*b));
	if (!dir)
		return "there are no virtio devices";
	while ((entry = readdir(dir))) {
		if (!balloon_is(entry->d_name))
			continue;
		b->count++;
		snprintf(path, sizeof(path), BALLOON_DEVICES "/%s/balloon",
			 entry->d_name);
		if (access(path, F_OK))
			continue;
		snprintf(b->name, sizeof(b->name), "%.63s", entry->d_name);
		snprintf(b->dir, sizeof(b->dir), "%.127s", path);
	}
	closedir(dir);
	if (!b->count)
		return "there is no virtio balloon";
	return b->dir[0] ? NULL : "the balloon has another driver, or none";
}

static inline bool balloon_has(const struct balloon *b,
			       enum balloon_feature feature)
{
	char path[PATH_MAX], text[256];

	snprintf(path, sizeof(path), BALLOON_DEVICES "/%s/features", b->name);
	return !file_line(path, text, sizeof(text)) &&
	       strlen(text) > feature && text[feature] == '1';
}

static inline int balloon_number(const struct balloon *b, const char *name,
				 unsigned long long *value)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", b->dir, name);
	return file_number(path, value);
}

static inline bool balloon_is_idle(const struct balloon *b)
{
	char path[PATH_MAX], text[64];

	snprintf(path, sizeof(path), "%s/state", b->dir);
	return !file_line(path, text, sizeof(text)) && !strcmp(text, "idle");
}

/* Idle, and of the size that is asked for. */
static inline bool balloon_rests(const struct balloon *b,
				 unsigned long long *actual)
{
	unsigned long long target;

	return balloon_is_idle(b) && !balloon_number(b, "target", &target) &&
	       !balloon_number(b, "actual", actual) && *actual == target;
}

/* Wait until the balloon is at rest, and say how large it is. */
static inline const char *balloon_await(const struct balloon *b,
					unsigned int seconds,
					unsigned long long *actual)
{
	unsigned int left = seconds * 1000 / POLL_MS;

	while (!balloon_rests(b, actual)) {
		if (!left--)
			return "the balloon does not come to rest";
		sleep_ms(POLL_MS);
	}
	return NULL;
}

/* Find a balloon, and see whether its host is told of free pages. */
static inline const char *balloon_find_reporting(struct balloon *b)
{
	const char *why = balloon_find(b);

	if (!why && !balloon_has(b, BALLOON_REPORTING))
		why = "the host does not offer free page reporting";
	return why;
}

/* Whether the kernel's page reporting is the one under test. */
static inline const char *core_find(void)
{
	return access(CORE_DELAY, F_OK) ?
	       "this kernel has another page reporting, or none" : NULL;
}

/* Anonymous memory in small pages, each written to; NULL if there is none. */
static inline char *memory_use(size_t size)
{
	char *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mem == MAP_FAILED)
		return NULL;
	madvise(mem, size, MADV_NOHUGEPAGE);
	memset(mem, 0x5a, size);
	return mem;
}

/* A child that ends with its parent; as fork(). */
static inline pid_t child_fork(void)
{
	pid_t child = fork();

	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

static inline void child_end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Use so much memory and free it, if twice as much is to be had. */
static inline const char *memory_free(size_t size)
{
	unsigned long long kib;
	pid_t child;
	int status;

	if (file_field("/proc/meminfo", "MemAvailable", &kib) ||
	    kib * 1024 < 2 * size)
		return "too little memory is available";
	child = child_fork();
	if (!child)
		_exit(memory_use(size) ? 0 : 1);
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		return "this process is not given so much memory";
	return NULL;
}

#endif /* SELFTESTS_BALLOON_H */
