// SPDX-License-Identifier: GPL-2.0
/* Jobs about free memory: what it costs to get, what it holds, how it comes. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define PAGE 4096UL
#define FILE_PATH "/tmp/faults"

static unsigned long number(char **args)
{
	char *word = *args ? strsep(args, " ") : NULL;

	return word ? strtoul(word, NULL, 10) : 0;
}

static unsigned long monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000UL + now.tv_nsec / 1000;
}

static char *map(size_t size, int fd)
{
	int flags = MAP_PRIVATE | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
	char *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

/* One task: map memory, write to each page, unmap it, so many times. */
static int fault_loop(size_t size, unsigned long rounds, int fd)
{
	unsigned long round;
	size_t at;

	for (round = 0; round < rounds; round++) {
		char *mem = map(size, fd);

		if (!mem)
			return 1;
		if (fd < 0)
			madvise(mem, size, MADV_HUGEPAGE);
		for (at = 0; at < size; at += PAGE)
			mem[at] = 1;
		munmap(mem, size);
	}
	return 0;
}

static int open_file(size_t size)
{
	int fd = open(FILE_PATH, O_RDWR | O_CREAT, 0600);

	if (fd >= 0 && ftruncate(fd, size)) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * faults anon|file SIZE TASKS ROUNDS: page faults in so many tasks at a time.
 * value is the time they took together, in microseconds.
 */
int work_faults(struct job_state *state, char *args)
{
	int is_file = args && !strncmp(strsep(&args, " "), "file", 4);
	size_t size = number(&args) * MIB;
	unsigned long tasks = number(&args), rounds = number(&args), begin, t;
	int fd = is_file ? open_file(size) : -1, status, failed = 0;

	if (!size || !tasks || !rounds || (is_file && fd < 0))
		return -EINVAL;
	begin = monotonic_us();
	for (t = 0; t < tasks; t++)
		if (!fork())
			_exit(fault_loop(size, rounds, fd));
	for (t = 0; t < tasks; t++)
		if (wait(&status) < 0 || status)
			failed = 1;
	state->value = monotonic_us() - begin;
	return failed ? -ENOMEM : 0;
}

/* How many words of fresh memory are not zero, but for the one written. */
static unsigned long dirty_words(unsigned long *mem, size_t size)
{
	size_t word, page_words = PAGE / sizeof(*mem);
	unsigned long dirty = 0;

	for (word = 0; word < size / sizeof(*mem); word++) {
		if (word % page_words == 0)
			mem[word] = 1;	/* or it would all be one page of zeroes */
		else
			dirty += mem[word] != 0;
	}
	return dirty;
}

/*
 * zeroes SIZE: take memory, look whether it is all zero, fill it, free it, wait
 * a while, over and over. value counts words that were not zero.
 */
int work_zeroes(struct job_state *state, char *args)
{
	size_t size = number(&args) * MIB;

	for (;;) {
		char *mem = map(size, -1);

		if (!mem)
			return -ENOMEM;
		state->value += dirty_words((unsigned long *)mem, size);
		memset(mem, 0xa5, size);
		munmap(mem, size);
		state->progress++;
		state->ready = 1;
		sleep_ms(state->progress % 2 ? 3000 : 10);
	}
}

/* A compiler of a kind: it takes memory bit by bit, works, and ends. */
static void compile(size_t size, unsigned int ms)
{
	char *mem = map(size, -1);
	size_t at;

	for (at = 0; mem && at < size; at += PAGE) {
		mem[at] = 1;
		if (at % (size / 8) == 0)
			sleep_ms(ms / 8);
	}
	_exit(!mem);
}

static void write_object(unsigned long n, size_t size)
{
	char path[] = "/tmp/object.0", block[PAGE] = {};
	size_t at;
	int fd;

	path[sizeof(path) - 2] += n % 10;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	for (at = 0; fd >= 0 && at < size; at += PAGE)
		if (write(fd, block, PAGE) != PAGE)
			break;
	if (fd >= 0)
		close(fd);
}

/*
 * mix ROUNDS: builds of a kind. In each round short-lived processes of
 * different sizes overlap and leave files behind; then one large one links;
 * then the machine is idle for some seconds. progress counts the rounds.
 */
int work_mix(struct job_state *state, char *args)
{
	unsigned long rounds = number(&args), round, n;

	for (round = 0; round < rounds; round++) {
		for (n = 0; n < 12; n++) {
			if (!fork())
				compile((40 + n * 37 % 90) * MIB, 240);
			if (n >= 2)
				wait(NULL);
			write_object(n, 4 * MIB);
		}
		while (wait(NULL) > 0)
			;
		if (!fork())
			compile(900 * MIB, 800);
		while (wait(NULL) > 0)
			;
		state->progress++;
		sleep_ms(8000);
	}
	return 0;
}

/*
 * latency: a real-time task that wants the CPU every 100 us. value is the
 * longest that it had to wait, in nanoseconds; the agent's "take" clears it.
 */
int work_latency(struct job_state *state, char *args)
{
	struct sched_param param = { .sched_priority = 50 };
	struct timespec next, now;
	unsigned long late;

	(void)args;
	if (mlockall(MCL_CURRENT) || sched_setscheduler(0, SCHED_FIFO, &param))
		return -errno;
	clock_gettime(CLOCK_MONOTONIC, &next);
	state->ready = 1;
	for (;;) {
		next.tv_nsec += 100000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		late = (now.tv_sec - next.tv_sec) * 1000000000L +
		       now.tv_nsec - next.tv_nsec;
		if (late > state->value)
			state->value = late;
		if (late > 1000000)
			next = now;
		state->progress++;
	}
}
