/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guest side of the balloon tests: a static init and an agent.
 *
 * The agent answers requests on its own serial line, so that nothing the
 * kernel prints on the console can be taken for an answer. It neither forks
 * nor allocates for the commands that have to work when memory is gone.
 */
#ifndef BALLOON_GUEST_H
#define BALLOON_GUEST_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#define MIB (1024UL * 1024)
#define __printf(a, b) __attribute__((__format__(printf, a, b)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* util.c: small helpers; errors are negative errno values. */
ssize_t read_file(const char *path, char *buf, size_t size);
int write_file(const char *path, const char *text, size_t len);
int open_serial(const char *path);
int load_module(const char *path, const char *params);
unsigned long monotonic_ms(void);
void sleep_ms(unsigned int ms);
int cmdline_value(const char *key, char *buf, size_t size);
int set_oom_adj(int adj);
void log_line(const char *fmt, ...) __printf(1, 2);

/* agent.c: serve requests for ever. */
void agent_run(const char *serial);

/* jobs.c: background processes that use memory in some pattern. */
int jobs_init(void);
int job_start(const char *kind, char *args);
int job_stop(int slot);
int job_describe(int slot, char *buf, size_t size);
int job_wait(int slot);
int job_clear(int slot);

/* work.c: what the jobs do; each runs in a process of its own. */
struct job_state {
	atomic_ulong progress;	/* MiB, rounds or beats, by kind */
	atomic_ulong value;	/* kind-specific: gap in ms, errors, errno */
	atomic_int ready;	/* the pattern stands, or the loop runs */
};

typedef int (*work_fn)(struct job_state *state, char *args);

/* free.c: jobs about what is free, and how it is got. */
int work_faults(struct job_state *state, char *args);
int work_zeroes(struct job_state *state, char *args);
int work_mix(struct job_state *state, char *args);
int work_latency(struct job_state *state, char *args);

work_fn work_find(const char *kind, int *oom_adj);

/* pressure.c: jobs that log memory pressure, and cause it. */
int work_pressure(struct job_state *state, char *args);
int work_oomloop(struct job_state *state, char *args);

#endif
