// SPDX-License-Identifier: GPL-2.0
/*
 * Memory pressure: a log of stall times and meminfo, and a driver that runs the
 * guest out of memory again and again.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static const char * const resources[] = { "memory", "io", "cpu" };

struct stalls {
	unsigned long long some[ARRAY_SIZE(resources)];	/* microseconds */
	unsigned long long full[ARRAY_SIZE(resources)];
};

static unsigned long long total_after(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	at = at ? strstr(at, "total=") : NULL;
	return at ? strtoull(at + strlen("total="), NULL, 10) : 0;
}

static int read_stalls(struct stalls *stalls)
{
	char path[40], text[512];
	ssize_t len;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(resources); i++) {
		snprintf(path, sizeof(path), "/proc/pressure/%s", resources[i]);
		len = read_file(path, text, sizeof(text) - 1);
		if (len < 0)
			return len;
		text[len] = '\0';
		stalls->some[i] = total_after(text, "some");
		stalls->full[i] = total_after(text, "full");
	}
	return 0;
}

static unsigned long meminfo_kib(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

static void print_stalls(FILE *file, const struct stalls *now,
			 const struct stalls *base)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(resources); i++)
		fprintf(file, " %llu %llu", now->some[i] - base->some[i],
			now->full[i] - base->full[i]);
}

static int log_sample(FILE *file, const struct stalls *base)
{
	static char text[4096];
	struct stalls now;
	ssize_t len;
	int err;

	err = read_stalls(&now);
	if (err)
		return err;
	len = read_file("/proc/meminfo", text, sizeof(text) - 1);
	if (len < 0)
		return len;
	text[len] = '\0';
	fprintf(file, "%lu", monotonic_ms());
	print_stalls(file, &now, base);
	fprintf(file, " %lu %lu %lu %lu\n", meminfo_kib(text, "MemFree:"),
		meminfo_kib(text, "MemAvailable:"),
		meminfo_kib(text, "\nCached:"), meminfo_kib(text, "SwapFree:"));
	return fflush(file) ? -errno : 0;
}

/*
 * pressure PATH: once a second a line with the time in ms, the stall times in
 * us since the start (some and full of memory, io, cpu), and MemFree,
 * MemAvailable, Cached, SwapFree in KiB. progress counts the lines.
 */
int work_pressure(struct job_state *state, char *args)
{
	FILE *file = args ? fopen(args, "w") : NULL;
	struct stalls base;
	int err;

	if (!file)
		err = -EINVAL;
	else
		err = read_stalls(&base);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	while (!err) {
		err = log_sample(file, &base);
		state->progress++;
		state->ready = 1;
		sleep_ms(1000);
	}
	state->value = -err;
	return err;
}

/* As tail /dev/zero: grow until the OOM killer comes. */
static void grow_for_ever(void)
{
	char *mem;

	set_oom_adj(0);
	for (;;) {
		mem = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (mem == MAP_FAILED)
			_exit(1);
		memset(mem, 0x5a, MIB);
	}
}

/* One event: returns its time in ms, or a negative errno if it was no OOM. */
static long oom_event(void)
{
	unsigned long begin = monotonic_ms();
	pid_t pid;
	int status;

	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		grow_for_ever();
	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		return -ECHILD;
	return monotonic_ms() - begin;
}

static int logged_event(FILE *file, const char *name, struct stalls *sum)
{
	struct stalls before, after;
	long ms;
	size_t i;

	if (read_stalls(&before))
		return -EIO;
	ms = oom_event();
	if (ms < 0)
		return ms;
	if (read_stalls(&after))
		return -EIO;
	fprintf(file, "%s %ld", name, ms);
	print_stalls(file, &after, &before);
	fputc('\n', file);
	for (i = 0; i < ARRAY_SIZE(resources); i++) {
		sum->some[i] += after.some[i] - before.some[i];
		sum->full[i] += after.full[i] - before.full[i];
	}
	return 0;
}

static void print_sums(FILE *file, struct stalls *sum, unsigned int times)
{
	static const struct stalls zero;
	size_t i;

	fputs("total -", file);
	print_stalls(file, sum, &zero);
	for (i = 0; i < ARRAY_SIZE(resources); i++) {
		sum->some[i] /= times;
		sum->full[i] /= times;
	}
	fputs("\naverage -", file);
	print_stalls(file, sum, &zero);
	fputc('\n', file);
}

/*
 * oomloop TIMES PATH: run out of memory so many times, a second apart, with one
 * line in PATH for each: its time in ms and the stalls in us as above; then the
 * total and the average. progress counts the events.
 */
int work_oomloop(struct job_state *state, char *args)
{
	char *word = args ? strsep(&args, " ") : NULL;
	unsigned int i, times = word ? strtoul(word, NULL, 10) : 0;
	FILE *file = args ? fopen(args, "w") : NULL;
	struct stalls sum = { 0 };
	char name[24];
	int err = 0;

	if (!file || !times)
		err = -EINVAL;
	mlockall(MCL_CURRENT);
	state->ready = 1;
	for (i = 0; i < times && !err; i++) {
		snprintf(name, sizeof(name), "event%u", i + 1);
		err = logged_event(file, name, &sum);
		state->progress += !err;
		sleep_ms(1000);
	}
	if (!err) {
		print_sums(file, &sum, times);
		err = fclose(file) ? -errno : 0;
	}
	state->value = -err;
	return err;
}
