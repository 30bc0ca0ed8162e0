// SPDX-License-Identifier: GPL-2.0
/*
 * What the driver allocates: that it is all freed at the end of a case, seen
 * through the kernel's tracepoints; and allocations that fail, by means of
 * fault injection. Without the one or the other in the kernel the one or the
 * other is not done.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <trace/events/kmem.h>

#include "fake_host.h"

#define FAKE_BLOCKS	256

/**
 * struct fake_block - memory that the driver has
 * @mem: where; NULL if this entry is free
 * @caller: who allocated it
 * @size: bytes
 */
struct fake_block {
	const void *mem;
	unsigned long caller;
	size_t size;
};

/**
 * struct fake_watch - all memory that the driver has
 * @lock: guards the rest; taken within the allocator, in any context
 * @task: the case's own, in which the driver is bound
 * @blocks: the memory
 * @full: there was more than could be noted
 */
struct fake_watch {
	raw_spinlock_t lock;	/* guards all of this */
	struct task_struct *task;
	struct fake_block blocks[FAKE_BLOCKS];
	bool full;
};

/* Whether memory is the driver's: it asked for it, or had it asked for. */
static bool fake_is_drivers(struct fake_watch *watch, unsigned long caller)
{
	char name[KSYM_SYMBOL_LEN];

	sprint_symbol_no_offset(name, caller);
	if (strstarts(name, "virtio_balloon"))
		return true;
	return watch->task == current &&
	       (strstarts(name, "alloc_workqueue") ||
		strstarts(name, "__alloc_workqueue") ||
		strstarts(name, "__kvmalloc"));
}

static struct fake_block *fake_find_block(struct fake_watch *watch,
					  const void *mem)
{
	unsigned int b;

	for (b = 0; b < FAKE_BLOCKS; b++)
		if (watch->blocks[b].mem == mem)
			return &watch->blocks[b];
	return NULL;
}

static void fake_saw_alloc(void *data, unsigned long caller, const void *mem,
			   size_t size, size_t allocated, gfp_t gfp, int node)
{
	struct fake_watch *watch = data;
	struct fake_block *block;
	unsigned long flags;

	if (!mem || !fake_is_drivers(watch, caller))
		return;
	raw_spin_lock_irqsave(&watch->lock, flags);
	block = fake_find_block(watch, NULL);
	if (block)
		*block = (struct fake_block){ mem, caller, size };
	else
		watch->full = true;
	raw_spin_unlock_irqrestore(&watch->lock, flags);
}

static void fake_saw_free(void *data, unsigned long caller, const void *mem)
{
	struct fake_watch *watch = data;
	struct fake_block *block;
	unsigned long flags;

	if (!mem)
		return;
	raw_spin_lock_irqsave(&watch->lock, flags);
	block = fake_find_block(watch, mem);
	if (block)
		block->mem = NULL;
	raw_spin_unlock_irqrestore(&watch->lock, flags);
}

/**
 * fake_watch_begin() - watch what the driver allocates from now on
 * @host: the host
 *
 * Return: 0 or a negative error.
 */
int fake_watch_begin(struct fake_host *host)
{
	struct fake_watch *watch;

	if (!IS_ENABLED(CONFIG_TRACEPOINTS))
		return 0;
	watch = kunit_kzalloc(host->test, sizeof(*watch), GFP_KERNEL);
	if (!watch)
		return -ENOMEM;
	raw_spin_lock_init(&watch->lock);
	watch->task = current;
	host->watch = watch;
	return register_trace_kmalloc(fake_saw_alloc, watch) ?:
	       register_trace_kfree(fake_saw_free, watch);
}

static bool fake_has_blocks(struct fake_watch *watch)
{
	unsigned int b;

	for (b = 0; b < FAKE_BLOCKS; b++)
		if (READ_ONCE(watch->blocks[b].mem))
			return true;
	return false;
}

/**
 * fake_watch_end() - fail the case if something was not freed
 * @host: the host, its device gone
 *
 * Context: sleeps for a while if that is so, as some things are freed late.
 */
void fake_watch_end(struct fake_host *host)
{
	struct fake_watch *watch = host->watch;
	unsigned int b;

	if (!watch)
		return;
	for (b = 0; b < 20 && fake_has_blocks(watch); b++) {
		schedule_timeout_uninterruptible(HZ / 20 + 1);
		rcu_barrier();
	}
	unregister_trace_kmalloc(fake_saw_alloc, watch);
	unregister_trace_kfree(fake_saw_free, watch);
	tracepoint_synchronize_unregister();
	KUNIT_EXPECT_FALSE_MSG(host->test, watch->full,
			       "the driver allocates without end");
	for (b = 0; b < FAKE_BLOCKS; b++)
		if (watch->blocks[b].mem)
			KUNIT_FAIL(host->test, "%zu bytes of %ps not freed",
				   watch->blocks[b].size,
				   (void *)watch->blocks[b].caller);
}

#if IS_ENABLED(CONFIG_FAILSLAB) && IS_ENABLED(CONFIG_FAIL_PAGE_ALLOC) && \
	IS_ENABLED(CONFIG_FAULT_INJECTION_DEBUG_FS)

/* The variable behind a file of fault injection's in debugfs */
static void *fake_variable(const char *kind, const char *file)
{
	struct dentry *dir = debugfs_lookup(kind, NULL), *dentry = NULL;
	void *variable = NULL;

	if (dir)
		dentry = debugfs_lookup(file, dir);
	if (dentry)
		variable = d_inode(dentry)->i_private;
	dput(dentry);
	dput(dir);
	return variable;
}

/* By default only allocations that may not sleep fail, with a long message. */
static bool fake_let_fail(const char *kind)
{
	bool *ignore = fake_variable(kind, "ignore-gfp-wait");
	unsigned long *verbose = fake_variable(kind, "verbose");

	if (!ignore || !verbose)
		return false;
	*ignore = false;
	*verbose = 0;
	return true;
}

/**
 * fake_can_fail() - have allocations fail on demand, if the kernel can do that
 *
 * Return: false if not.
 */
bool fake_can_fail(void)
{
	return fake_let_fail("failslab") && fake_let_fail("fail_page_alloc");
}

/**
 * fake_fail_nth() - have an allocation of the current thread fail
 * @nth: which one, counted from 1; 0 for none
 */
void fake_fail_nth(unsigned int nth)
{
	current->fail_nth = nth;
}

/**
 * fake_has_failed() - whether the allocation came
 *
 * Return: true if so.
 */
bool fake_has_failed(void)
{
	return !current->fail_nth;
}

#else

bool fake_can_fail(void)
{
	return false;
}

void fake_fail_nth(unsigned int nth)
{
}

bool fake_has_failed(void)
{
	return false;
}

#endif
