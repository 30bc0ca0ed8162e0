// SPDX-License-Identifier: GPL-2.0
/* What the jobs do. Sizes on their command lines are MiB. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"

#define PAGE 4096UL

static size_t size_arg(char **args)
{
	char *word = args && *args ? strsep(args, " ") : NULL;

	return word ? strtoul(word, NULL, 10) * MIB : 0;
}

static char *map(size_t size)
{
	char *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

static int fail(struct job_state *state, int err)
{
	state->value = err;
	return -err;
}

static void touch(struct job_state *state, char *mem, size_t size)
{
	size_t at;

	for (at = 0; at < size; at += PAGE) {
		*(unsigned long *)(mem + at) = at ^ 0x5a5a5a5a5a5aUL;
		if (state && at % MIB == 0)
			state->progress = at / MIB;
	}
	if (state)
		state->progress = size / MIB;
}

static void rest(struct job_state *state)
{
	state->ready = 1;
	for (;;)
		pause();
}

/* touch SIZE: write to every page once, and end. */
static int work_touch(struct job_state *state, char *args)
{
	size_t size = size_arg(&args);
	char *mem = map(size);

	if (!mem)
		return fail(state, ENOMEM);
	touch(state, mem, size);
	return 0;
}

/* hold SIZE: write to every page once, and keep them. */
static int work_hold(struct job_state *state, char *args)
{
	size_t size = size_arg(&args);
	char *mem = map(size);

	if (!mem)
		return fail(state, ENOMEM);
	touch(state, mem, size);
	rest(state);
	return 0;
}

static unsigned long available_mib(void)
{
	static char text[4096];
	ssize_t len = read_file("/proc/meminfo", text, sizeof(text) - 1);
	char *line;

	if (len <= 0)
		return 0;
	text[len] = '\0';
	line = strstr(text, "MemAvailable:");
	return line ? strtoul(line + 13, NULL, 10) / 1024 : 0;
}

/* fill LEFT: take memory until no more than LEFT MiB are available. */
static int work_fill(struct job_state *state, char *args)
{
	unsigned long left = size_arg(&args) / MIB;
	char *mem;

	while (available_mib() > left) {
		mem = map(MIB);
		if (!mem)
			return fail(state, ENOMEM);
		touch(NULL, mem, MIB);
		state->progress++;
	}
	rest(state);
	return 0;
}

/* churn SIZE: allocate, touch and free, over and over. */
static int work_churn(struct job_state *state, char *args)
{
	size_t size = size_arg(&args);
	char *mem;

	state->ready = 1;
	for (;;) {
		mem = map(size);
		if (!mem)
			return fail(state, ENOMEM);
		touch(NULL, mem, size);
		munmap(mem, size);
		state->progress++;
	}
}

/*
 * fragment SIZE [KIB]: touch all of it in small pages, then free every other
 * 64 KiB, or KIB, so that free memory has no large blocks there.
 */
static int work_fragment(struct job_state *state, char *args)
{
	size_t size = size_arg(&args), piece = size_arg(&args) / 1024;
	char *mem = map(size);
	size_t at;

	if (!piece)
		piece = 64 * 1024;

	if (!mem)
		return fail(state, ENOMEM);
	madvise(mem, size, MADV_NOHUGEPAGE);
	touch(state, mem, size);
	for (at = 0; at < size; at += 2 * piece)
		madvise(mem + at, piece, MADV_DONTNEED);
	rest(state);
	return 0;
}

static unsigned long pattern(unsigned long i, unsigned long round)
{
	return (i + round) * 0x9e3779b97f4a7c15UL;
}

/*
 * checksum SIZE: fill with a pattern and compare, each round with a new one.
 * value counts words that were not what was written.
 */
static int work_checksum(struct job_state *state, char *args)
{
	size_t words = size_arg(&args) / sizeof(unsigned long);
	unsigned long *mem = (void *)map(words * sizeof(unsigned long));
	unsigned long i, round;

	if (!mem)
		return fail(state, ENOMEM);
	for (round = 0;; round++) {
		for (i = 0; i < words; i++)
			mem[i] = pattern(i, round);
		state->ready = 1;
		sleep_ms(20);
		for (i = 0; i < words; i++)
			state->value += mem[i] != pattern(i, round);
		state->progress++;
	}
}

/*
 * beat: wake up every 20 ms and note the longest gap in value, which the
 * agent's "take" clears. progress counts the beats.
 */
static int work_beat(struct job_state *state, char *args)
{
	unsigned long last, now;

	(void)args;
	mlockall(MCL_CURRENT | MCL_FUTURE);
	state->ready = 1;
	last = monotonic_ms();
	while (state->ready) {
		sleep_ms(20);
		now = monotonic_ms();
		if (now - last > state->value)
			state->value = now - last;
		last = now;
		state->progress++;
	}
	return 0;
}

static char block[MIB];

/* writefile SIZE PATH */
static int work_writefile(struct job_state *state, char *args)
{
	size_t size = size_arg(&args);
	int fd = args ? open(args, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;

	if (fd < 0)
		return fail(state, errno ? errno : EINVAL);
	memset(block, 0x5a, sizeof(block));
	for (; state->progress < size / MIB; state->progress++)
		if (write(fd, block, sizeof(block)) != sizeof(block))
			return fail(state, errno ? errno : ENOSPC);
	fsync(fd);
	close(fd);
	return 0;
}

/* readfile PATH: read it again and again; progress in MiB. */
static int work_readfile(struct job_state *state, char *args)
{
	int fd = args ? open(args, O_RDONLY) : -1;
	ssize_t n;

	if (fd < 0)
		return fail(state, errno ? errno : EINVAL);
	state->ready = 1;
	for (;;) {
		n = read(fd, block, sizeof(block));
		if (n < 0)
			return fail(state, errno);
		if (n == 0)
			lseek(fd, 0, SEEK_SET);
		state->progress += n / MIB;
	}
}

/* sh COMMANDS: through busybox; what they print goes nowhere. */
static int work_sh(struct job_state *state, char *args)
{
	setenv("PATH", "/bin:/sbin", 1);
	execl("/bin/busybox", "sh", "-c", args ? args : ":", NULL);
	return fail(state, errno);
}

static const struct {
	const char *kind;
	work_fn run;
	int oom_adj;
} works[] = {
	{ "touch", work_touch, 0 },
	{ "hold", work_hold, 0 },
	{ "fill", work_fill, 0 },
	{ "churn", work_churn, 0 },
	{ "fragment", work_fragment, 0 },
	{ "checksum", work_checksum, 0 },
	{ "beat", work_beat, -1000 },
	{ "writefile", work_writefile, 0 },
	{ "readfile", work_readfile, 0 },
	{ "sh", work_sh, 0 },
	{ "faults", work_faults, 0 },
	{ "zeroes", work_zeroes, 0 },
	{ "mix", work_mix, 0 },
	{ "latency", work_latency, -1000 },
	{ "pressure", work_pressure, -1000 },
	{ "oomloop", work_oomloop, -1000 },
};

work_fn work_find(const char *kind, int *oom_adj)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(works); i++) {
		if (strcmp(works[i].kind, kind))
			continue;
		*oom_adj = works[i].oom_adj;
		return works[i].run;
	}
	return NULL;
}
