// SPDX-License-Identifier: GPL-2.0
/*
 * Jobs: background processes, watched through memory they share with the
 * agent. The table is there before memory gets short.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define JOBS_MAX 32

struct job {
	pid_t pid;		/* 0: the slot is free */
	int reaped;
	int status;		/* of waitpid(), once reaped */
};

static struct job jobs[JOBS_MAX];
static struct job_state *states;

int jobs_init(void)
{
	states = mmap(NULL, JOBS_MAX * sizeof(*states), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return states == MAP_FAILED ? -ENOMEM : 0;
}

static struct job *job_get(int slot)
{
	if (slot < 0 || slot >= JOBS_MAX || !jobs[slot].pid)
		return NULL;
	return &jobs[slot];
}

static void job_reap(struct job *job, int flags)
{
	if (!job->reaped && waitpid(job->pid, &job->status, flags) == job->pid)
		job->reaped = 1;
}

static void job_child(work_fn work, struct job_state *state, char *args,
		      int oom_adj)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	set_oom_adj(oom_adj);
	_exit(work(state, args) ? 1 : 0);
}

int job_start(const char *kind, char *args)
{
	struct job_state *state;
	int oom_adj, slot;
	work_fn work;
	pid_t pid;

	work = work_find(kind, &oom_adj);
	if (!work)
		return -ENOENT;
	for (slot = 0; slot < JOBS_MAX && jobs[slot].pid; slot++)
		;
	if (slot == JOBS_MAX)
		return -EBUSY;
	state = &states[slot];
	memset(state, 0, sizeof(*state));
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		job_child(work, state, args, oom_adj);
	jobs[slot] = (struct job){ .pid = pid };
	return slot;
}

int job_stop(int slot)
{
	struct job *job = job_get(slot);

	if (!job)
		return -ESRCH;
	if (!job->reaped)
		kill(job->pid, SIGKILL);
	job_reap(job, 0);
	job->pid = 0;
	return 0;
}

int job_wait(int slot)
{
	struct job *job = job_get(slot);

	if (!job)
		return -ESRCH;
	job_reap(job, 0);
	if (WIFEXITED(job->status) && !WEXITSTATUS(job->status))
		return 0;
	return states[slot].value ? -(int)states[slot].value : -ECHILD;
}

int job_describe(int slot, char *buf, size_t size)
{
	struct job *job = job_get(slot);
	struct job_state *state;
	const char *word = "running";
	int code = 0;

	if (!job)
		return -ESRCH;
	job_reap(job, WNOHANG);
	if (job->reaped) {
		word = WIFEXITED(job->status) ? "exited" : "killed";
		code = WIFEXITED(job->status) ? WEXITSTATUS(job->status) :
						WTERMSIG(job->status);
	}
	state = &states[slot];
	snprintf(buf, size, "%s %d %lu %lu %d", word, code, state->progress,
		 state->value, state->ready);
	return 0;
}

/* Clear the job's value, so that the next reading covers what follows. */
int job_clear(int slot)
{
	if (!job_get(slot))
		return -ESRCH;
	states[slot].value = 0;
	return 0;
}
