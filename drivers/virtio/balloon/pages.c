// SPDX-License-Identifier: GPL-2.0
/*
 * Inflate, deflate and page migration: moves guest pages between the page
 * allocator and the host until the balloon is as large as the host asks.
 *
 * The work item makes moves (virtio_balloon_move()) for a slice of time or
 * until there is none to make, and then arranges to be woken: by an answer, by
 * a new target, or by the clock. Which move comes next depends on nothing but
 * counters, so that it can be stopped and taken up again anywhere:
 *
 *   balloon larger than the goal               deflate, even during inflation
 *   deflated pages unanswered                  no inflation [VB-O5]
 *   balloon and inflating below the goal       inflate
 *   otherwise                                  wait for answers, or rest
 *
 * The goal is the target; or less, while what a guest out of memory got back is
 * not to be taken again (oom.c).
 *
 * While the host is being told of a batch it may be at work in that very exit,
 * and would go on with whatever is posted meanwhile. So the next batch is made
 * ready, but posted only afterwards: no CPU is away for longer than one batch.
 *
 * A target that is no multiple of the page size is rounded down, so that the
 * balloon settles.
 */
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/page_ref.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>
#include <linux/vmstat.h>
#include <trace/events/virtio_balloon.h>

#include "virtio_balloon.h"

/* How long the work item moves pages before it lets others run */
#define VIRTIO_BALLOON_SLICE		(HZ / 10)
/* How often the host is told of progress, at least */
#define VIRTIO_BALLOON_TELL		(HZ / 10)
/* Pause after memory could not be had: from, to */
#define VIRTIO_BALLOON_RETRY_MIN	(HZ / 5)
#define VIRTIO_BALLOON_RETRY_MAX	HZ
/* Pause while migration has all the pages that are to be deflated */
#define VIRTIO_BALLOON_ISOLATED		(HZ / 50 + 1)
/* How long a migration waits for the host */
#define VIRTIO_BALLOON_PATIENCE		(2 * HZ)
/* On the way down: silence after which the host is given up; time in all */
#define VIRTIO_BALLOON_STOP_SILENCE	HZ
#define VIRTIO_BALLOON_STOP_MAX		(3 * HZ)

/* How inflation allocates: what it cannot have easily it does without */
#define VIRTIO_BALLOON_GFP	(balloon_mapping_gfp_mask() | __GFP_NOMEMALLOC | \
				 __GFP_NORETRY | __GFP_NOWARN)

/*
 * The large blocks that it takes, in guest pages: two groups if there are such
 * blocks, because of those of one group each CPU keeps some on its lists, out
 * of reach for the others.
 */
#define VIRTIO_BALLOON_BLOCK	min(2 * VIRTIO_BALLOON_GROUP, MAX_ORDER_NR_PAGES)

/**
 * enum virtio_balloon_move - outcome of an attempt to move pages
 * @VIRTIO_BALLOON_MOVED: something was moved; there may be more to do
 * @VIRTIO_BALLOON_AT_HOST: it is the host's turn
 * @VIRTIO_BALLOON_AT_MIGRATION: the pages to deflate are being migrated
 * @VIRTIO_BALLOON_AT_ALLOCATOR: no memory to inflate with, for now
 * @VIRTIO_BALLOON_AT_CEILING: the balloon is as large as it may be for now
 * @VIRTIO_BALLOON_AT_TARGET: the balloon is as large as asked
 */
enum virtio_balloon_move {
	VIRTIO_BALLOON_MOVED,
	VIRTIO_BALLOON_AT_HOST,
	VIRTIO_BALLOON_AT_MIGRATION,
	VIRTIO_BALLOON_AT_ALLOCATOR,
	VIRTIO_BALLOON_AT_CEILING,
	VIRTIO_BALLOON_AT_TARGET,
};

/* The floor, see virtio_balloon_floor(); -1: by the guest's size */
int virtio_balloon_floor_mib = -1;

static int virtio_balloon_set_floor(const char *val,
				    const struct kernel_param *kp)
{
	int mib, err = kstrtoint(val, 0, &mib);

	if (!err && (mib < -1 || mib > INT_MAX >> (PAGE_SHIFT - 10)))
		err = -EINVAL;
	if (!err)
		WRITE_ONCE(virtio_balloon_floor_mib, mib);
	return err;
}

static const struct kernel_param_ops virtio_balloon_floor_ops = {
	.set = virtio_balloon_set_floor,
	.get = param_get_int,
};
module_param_cb(floor, &virtio_balloon_floor_ops, &virtio_balloon_floor_mib,
		0644);
MODULE_PARM_DESC(floor,
		 "MiB that inflation leaves available; 0 for none, -1 (default) for an amount that goes with the guest's size");

/* A balloon that the guest can take back on its own counts as its memory. */
static void virtio_balloon_account(struct virtio_balloon *vb,
				   struct page *page, long count)
{
	if (!vb->deflate_on_oom)
		adjust_managed_page_count(page, count);
}

static struct virtio_balloon_batch *
virtio_balloon_idle_batch(struct virtio_balloon *vb, unsigned int first,
			  unsigned int end)
{
	unsigned int b;

	for (b = first; b < end; b++)
		if (READ_ONCE(vb->batches[b].state) == VIRTIO_BALLOON_IDLE)
			return &vb->batches[b];
	return NULL;
}

/*
 * A batch for the work item, which alone takes these. The last is for deflation
 * only, so that no inflation can be in its way.
 */
static struct virtio_balloon_batch *
virtio_balloon_inflate_batch(struct virtio_balloon *vb)
{
	return virtio_balloon_idle_batch(vb, 0, VIRTIO_BALLOON_MOVES - 1);
}

static struct virtio_balloon_batch *
virtio_balloon_deflate_batch(struct virtio_balloon *vb)
{
	return virtio_balloon_idle_batch(vb, 0, VIRTIO_BALLOON_MOVES);
}

/* A batch of one page for a migration. */
static struct virtio_balloon_batch *
virtio_balloon_migration_batch(struct virtio_balloon *vb)
{
	lockdep_assert_held(&vb->migration);

	return virtio_balloon_idle_batch(vb, VIRTIO_BALLOON_MOVES,
					 VIRTIO_BALLOON_BATCHES);
}

/*
 * Put inflated pages, all answered, on the balloon's list, and take them off
 * the managed pages of their zones and MemTotal. The list is enqueued with
 * interrupts off, so little at a time: at most a group, of one zone.
 */
static void virtio_balloon_enqueue(struct virtio_balloon *vb,
				   struct list_head *pages)
{
	while (!list_empty(pages)) {
		struct page *first = list_first_entry(pages, struct page, lru);
		struct page *page = first;
		unsigned long n = 0;
		LIST_HEAD(some);

		list_for_each_entry_from(page, pages, lru) {
			if (n == VIRTIO_BALLOON_GROUP ||
			    page_zone_id(page) != page_zone_id(first))
				break;
			n++;
		}
		list_cut_before(&some, pages, &page->lru);
		virtio_balloon_account(vb, first, -n);
		WRITE_ONCE(vb->pages, vb->pages +
			   balloon_page_list_enqueue(&vb->info, &some));
	}
}

/* Take up to @count pages off the balloon's list; returns how many. */
static unsigned int virtio_balloon_dequeue(struct virtio_balloon *vb,
					   struct list_head *pages,
					   unsigned int count)
{
	unsigned int got = 0;
	size_t n;

	do {
		n = min_t(size_t, count - got, VIRTIO_BALLOON_GROUP);
		n = balloon_page_list_dequeue(&vb->info, pages, n);
		got += n;
	} while (n && got < count);
	WRITE_ONCE(vb->pages, vb->pages - got);
	return got;
}

/*
 * Give back an aligned block of single pages, as one if nobody else looks at
 * any of them: page by page it costs the allocator ten times the work to put
 * the block together again. Allocation profiling counts pages where they were
 * allocated, and has to see each of them.
 */
static void virtio_balloon_free_block(struct page *page, unsigned int order)
{
	unsigned int count = 1U << order, i = 1;

	if (!mem_alloc_profiling_enabled())
		while (i < count && page_ref_freeze(page + i, 1))
			page[i++].mapping = NULL;
	if (i == count) {
		__free_pages(page, order);
		return;
	}
	while (--i)
		page_ref_unfreeze(page + i, 1);
	for (i = 0; i < count; i++)
		__free_page(page + i);
}

/* Let the guest use @count deflated pages from the frame @pfn on. */
static void virtio_balloon_free_run(struct virtio_balloon *vb,
				    unsigned long pfn, unsigned int count)
{
	WRITE_ONCE(vb->given, vb->given + count);
	while (count) {
		unsigned int order = min3((unsigned int)ilog2(count),
					  pfn ? (unsigned int)__ffs(pfn) : 0,
					  (unsigned int)MAX_PAGE_ORDER);

		virtio_balloon_account(vb, pfn_to_page(pfn), 1L << order);
		virtio_balloon_free_block(pfn_to_page(pfn), order);
		pfn += 1UL << order;
		count -= 1U << order;
	}
}

/* The same for what is owed from the run @r on. */
static void virtio_balloon_free_owed(struct virtio_balloon *vb, unsigned int r)
{
	for (; r < vb->owed.nr_runs; r++)
		virtio_balloon_free_run(vb, vb->owed.runs[r].pfn,
					vb->owed.runs[r].count);
}

/* The same for the pages that a batch names. */
static void virtio_balloon_free_batch(struct virtio_balloon *vb,
				      const struct virtio_balloon_batch *batch)
{
	unsigned long first = 0, pfn;
	unsigned int i, count = 0;

	for (i = 0; i < batch->count; i++) {
		pfn = virtio32_to_cpu(vb->vdev,
				      batch->pfns[i * VIRTIO_BALLOON_UNITS]);
		pfn /= VIRTIO_BALLOON_UNITS;
		if (pfn != first + count) {
			virtio_balloon_free_run(vb, first, count);
			first = pfn;
			count = 0;
		}
		count++;
	}
	virtio_balloon_free_run(vb, first, count);
}

/*
 * Deal with what the host has answered. The batch of a migration whose page
 * is inflated, but whose migration has ended, is deflated again.
 */
static void virtio_balloon_complete(struct virtio_balloon *vb,
				    struct virtio_balloon_batch *batch)
{
	bool inflate = batch->queue == VIRTIO_BALLOON_Q_INFLATE;

	if (batch->page && inflate) {
		virtio_balloon_post(vb, batch, VIRTIO_BALLOON_Q_DEFLATE);
		return;
	}
	if (batch->page) {
		put_page(batch->page);
	} else if (inflate) {
		vb->inflating -= batch->count;
		virtio_balloon_enqueue(vb, &batch->pages);
	} else {
		if (vb->must_tell_host)
			virtio_balloon_free_batch(vb, batch);
		WRITE_ONCE(vb->deflating, vb->deflating - batch->count);
	}
	virtio_balloon_recycle(vb, batch);
}

/* Take the host's answers and draw the conclusions. */
static void virtio_balloon_settle(struct virtio_balloon *vb)
{
	struct virtio_balloon_batch *batch = vb->batches;

	virtio_balloon_reap(vb);
	for (; batch < vb->batches + VIRTIO_BALLOON_BATCHES; batch++)
		if (virtio_balloon_is_due(vb, batch))
			virtio_balloon_complete(vb, batch);
}

/* See what the host asks for, if that is new; then nothing is held off. */
static void virtio_balloon_read_target(struct virtio_balloon *vb)
{
	unsigned long target;
	u32 units;

	if (!test_and_clear_bit(VIRTIO_BALLOON_TARGET_CHANGED, &vb->flags))
		return;
	virtio_cread_le(vb->vdev, struct virtio_balloon_config, num_pages,
			&units);
	target = units / VIRTIO_BALLOON_UNITS;

	mutex_lock(&vb->accounts);
	if (vb->target != target) {
		trace_virtio_balloon_target(vb->vdev, target, vb->pages);
		virtio_balloon_hold_reset(vb);
	}
	WRITE_ONCE(vb->target, target);
	vb->retry_delay = 0;
	mutex_unlock(&vb->accounts);
}

/* Run the work item now; from any context. */
static void virtio_balloon_wake(struct virtio_balloon *vb)
{
	if (!READ_ONCE(vb->stopping))
		mod_delayed_work(vb->wq, &vb->work, 0);
}

/*
 * Do what takes an exit: kick the queues, tell the size of the balloon [VB-O8].
 * The host may work for all that was posted before this returns.
 */
static void virtio_balloon_tell(struct virtio_balloon *vb)
{
	u32 actual = READ_ONCE(vb->actual);

	virtio_balloon_kick(vb);
	if (actual == vb->actual_told)
		return;
	virtio_cwrite_le(vb->vdev, struct virtio_balloon_config, actual,
			 &actual);
	WRITE_ONCE(vb->actual_told, actual);
}

static void virtio_balloon_tell_work(struct work_struct *work)
{
	struct virtio_balloon *vb = container_of(work, struct virtio_balloon,
						 tell_work);

	virtio_balloon_tell(vb);
	WRITE_ONCE(vb->telling, false);
	virtio_balloon_wake(vb);
}

/* Have the host told what it has to know by now, by another CPU if possible. */
static void virtio_balloon_have_told(struct virtio_balloon *vb)
{
	if (READ_ONCE(vb->telling))
		return;
	if (!virtio_balloon_kick_due(vb) &&
	    READ_ONCE(vb->actual_told) == vb->actual)
		return;
	if (num_online_cpus() > 1 && !READ_ONCE(vb->stopping)) {
		WRITE_ONCE(vb->telling, true);
		queue_work(vb->wq, &vb->tell_work);
	} else {
		virtio_balloon_tell(vb);
	}
}

/* The size of the balloon as the host can know it, in balloon pages. */
static u32 virtio_balloon_size(const struct virtio_balloon *vb)
{
	return (vb->pages + vb->deflating) * VIRTIO_BALLOON_UNITS;
}

/* Note the size of the balloon for the host: now and then, and at rest. */
static void virtio_balloon_set_actual(struct virtio_balloon *vb, bool at_rest)
{
	if (!at_rest &&
	    time_before(jiffies, vb->actual_at + VIRTIO_BALLOON_TELL))
		return;
	WRITE_ONCE(vb->actual, virtio_balloon_size(vb));
	vb->actual_at = jiffies;
}

/* Pause before the next attempt to allocate, longer each time. */
static void virtio_balloon_back_off(struct virtio_balloon *vb)
{
	vb->retry_delay = clamp_t(unsigned long, vb->retry_delay * 2,
				  VIRTIO_BALLOON_RETRY_MIN,
				  VIRTIO_BALLOON_RETRY_MAX);
	vb->retry_at = jiffies + vb->retry_delay;
}

/* Whether there is something more urgent than inflation. */
static bool virtio_balloon_interrupted(struct virtio_balloon *vb)
{
	return test_bit(VIRTIO_BALLOON_TARGET_CHANGED, &vb->flags) ||
	       READ_ONCE(vb->stopping) || vb->deflating ||
	       vb->pages + vb->inflating >= vb->ceiling;
}

/**
 * virtio_balloon_floor() - what inflation leaves to the guest
 * @vb: the balloon
 *
 * By default 16 MiB or a 32nd of what the guest has without the balloon,
 * whichever is less: so much may go to the page lists of CPUs at any moment;
 * and a 512th, since boosts of the watermarks are not accounted for. A guest
 * that takes pages back when it runs out of memory needs no more than a sign
 * that it is about to: a 4096th.
 *
 * Return: guest pages that are to stay available, over the allocator's own
 * reserve. 0: as few as the allocator can do with.
 */
unsigned long virtio_balloon_floor(struct virtio_balloon *vb)
{
	unsigned long total = totalram_pages();
	int mib = READ_ONCE(virtio_balloon_floor_mib);

	if (mib >= 0)
		return (unsigned long)mib << (20 - PAGE_SHIFT);
	if (vb->deflate_on_oom)
		return total / 4096;
	total += READ_ONCE(vb->pages);
	return total / 512 + min(SZ_16M / PAGE_SIZE, total / 32);
}

static bool virtio_balloon_at_floor(struct virtio_balloon *vb)
{
	unsigned long floor = virtio_balloon_floor(vb);

	return floor && si_mem_available() < floor;
}

/*
 * Gather up to @n pages one by one, smaller free blocks first, but no more
 * than complete the last group, if they are its. May reclaim.
 *
 * Return: false if there are none.
 */
static bool virtio_balloon_gather_singles(struct virtio_balloon *vb,
					  unsigned int n)
{
	unsigned int gap = virtio_balloon_gather_gap(&vb->gathered);
	unsigned long got;
	LIST_HEAD(pages);

	n = min3(n, gap ?: (unsigned int)VIRTIO_BALLOON_GROUP,
		 virtio_balloon_gather_room(&vb->gathered));
	mutex_unlock(&vb->accounts);
	got = alloc_pages_bulk_list(VIRTIO_BALLOON_GFP, n, &pages);
	mutex_lock(&vb->accounts);
	if (!got)
		return false;
	virtio_balloon_gather_add(&vb->gathered, &pages);
	return true;
}

/*
 * Gather a large free block as single pages. Neither reclaims nor compacts.
 *
 * Return: false if there is no such block.
 */
static bool virtio_balloon_gather_block(struct virtio_balloon *vb)
{
	unsigned int order = ilog2(VIRTIO_BALLOON_BLOCK), i;
	struct page *page;

	mutex_unlock(&vb->accounts);
	page = alloc_pages(VIRTIO_BALLOON_GFP & ~__GFP_RECLAIM, order);
	mutex_lock(&vb->accounts);
	if (!page)
		return false;
	split_page(page, order);
	for (i = 0; i < VIRTIO_BALLOON_BLOCK; i += VIRTIO_BALLOON_GROUP)
		virtio_balloon_gather_add_group(&vb->gathered, page + i);
	return true;
}

/*
 * Allocate pages until @count are gathered. The host is kept busy meanwhile,
 * and the accounts are closed only between two allocations: an OOM notifier may
 * take what was gathered so far.
 *
 * Single pages are taken until the allocator has to break up large blocks for
 * them, which shows when it hands out a whole group in one go. From then on
 * such blocks are taken at once: that costs the guest no more of them, and a
 * third of the work. Each batch begins anew, as small blocks may have been
 * freed.
 *
 * Return: false if there is no more memory.
 */
static bool virtio_balloon_gather(struct virtio_balloon *vb, unsigned int count)
{
	struct virtio_balloon_gather *gather = &vb->gathered;

	while (gather->count < count && virtio_balloon_gather_room(gather) &&
	       !virtio_balloon_interrupted(vb)) {
		unsigned int want = count - gather->count;

		if (virtio_balloon_at_floor(vb))
			return false;
		if (!(want >= VIRTIO_BALLOON_BLOCK &&
		      virtio_balloon_gather_room(gather) >= VIRTIO_BALLOON_GROUP &&
		      !virtio_balloon_gather_gap(gather) &&
		      virtio_balloon_gather_block(vb)) &&
		    !virtio_balloon_gather_singles(vb, want))
			return false;
		virtio_balloon_reap(vb);
		mutex_unlock(&vb->accounts);
		virtio_balloon_have_told(vb);
		cond_resched();
		mutex_lock(&vb->accounts);
	}
	return true;
}

/* Hand the gathered pages to the host. */
static enum virtio_balloon_move
virtio_balloon_post_gathered(struct virtio_balloon *vb,
			     struct virtio_balloon_batch *batch, bool last)
{
	virtio_balloon_gather_close(&vb->gathered, vb->vdev, batch, last);
	if (virtio_balloon_post(vb, batch, VIRTIO_BALLOON_Q_INFLATE)) {
		put_pages_list(&batch->pages);
		batch->count = 0;
		return VIRTIO_BALLOON_AT_HOST;
	}
	vb->inflating += batch->count;
	return VIRTIO_BALLOON_MOVED;
}

/* Inflate by up to one batch; @want guest pages are missing in all. */
static enum virtio_balloon_move virtio_balloon_inflate(struct virtio_balloon *vb,
						       unsigned long want)
{
	struct virtio_balloon_batch *batch = virtio_balloon_inflate_batch(vb);
	unsigned int count;
	bool plenty;

	if (!batch || !virtio_balloon_has_room(vb, VIRTIO_BALLOON_Q_INFLATE))
		return VIRTIO_BALLOON_AT_HOST;
	if (vb->retry_delay && time_before(jiffies, vb->retry_at))
		return VIRTIO_BALLOON_AT_ALLOCATOR;

	count = min_t(unsigned long, want, batch->capacity);
	plenty = virtio_balloon_gather(vb, count);
	if (virtio_balloon_interrupted(vb))
		return VIRTIO_BALLOON_MOVED;
	if (READ_ONCE(vb->telling))
		return VIRTIO_BALLOON_AT_HOST;
	if (plenty) {
		if (!vb->gathered.count)
			return VIRTIO_BALLOON_MOVED;
		vb->retry_delay = 0;
		return virtio_balloon_post_gathered(vb, batch, count == want);
	}

	virtio_balloon_back_off(vb);
	virtio_balloon_set_state(vb, VIRTIO_BALLOON_STATE_AT_FLOOR);
	if (vb->gathered.count)
		return virtio_balloon_post_gathered(vb, batch, true);
	return VIRTIO_BALLOON_AT_ALLOCATOR;
}

/*
 * Take up to @want guest pages, a group at most, out of the balloon. Without
 * MUST_TELL_HOST the guest has them at once; the host hears of them as fast as
 * it listens.
 *
 * Return: how many were taken.
 */
static unsigned int virtio_balloon_take_back(struct virtio_balloon *vb,
					     unsigned long want)
{
	unsigned int n = min3(want, VIRTIO_BALLOON_GROUP,
			      (unsigned long)virtio_balloon_gather_room(&vb->owed));
	unsigned int r = vb->owed.nr_runs;
	LIST_HEAD(pages);

	lockdep_assert_held(&vb->accounts);

	if (n)
		n = virtio_balloon_dequeue(vb, &pages, n);
	if (!n)
		return 0;
	WRITE_ONCE(vb->deflating, vb->deflating + n);
	virtio_balloon_gather_note(&vb->owed, &pages);
	if (!vb->must_tell_host)
		virtio_balloon_free_owed(vb, r);
	return n;
}

/* Post a batch of what the host has to be told, if it is its turn to listen. */
static bool virtio_balloon_post_owed(struct virtio_balloon *vb)
{
	struct virtio_balloon_batch *batch = vb->unposted;

	if (READ_ONCE(vb->telling) ||
	    !virtio_balloon_has_room(vb, VIRTIO_BALLOON_Q_DEFLATE))
		return false;
	if (!batch) {
		batch = virtio_balloon_deflate_batch(vb);
		if (!batch)
			return false;
		virtio_balloon_gather_close(&vb->owed, vb->vdev, batch, true);
	}
	if (virtio_balloon_post(vb, batch, VIRTIO_BALLOON_Q_DEFLATE)) {
		vb->unposted = batch;
		return false;
	}
	vb->unposted = NULL;
	return true;
}

/*
 * Deflate a little; @want guest pages are too many in all. With none, finish
 * telling the host.
 */
static enum virtio_balloon_move virtio_balloon_deflate(struct virtio_balloon *vb,
						       unsigned long want)
{
	bool moved = want && virtio_balloon_take_back(vb, want);

	if (vb->unposted || vb->owed.count >= vb->capacity ||
	    (vb->owed.count && !moved))
		moved |= virtio_balloon_post_owed(vb);
	if (moved)
		return VIRTIO_BALLOON_MOVED;
	return vb->deflating ? VIRTIO_BALLOON_AT_HOST :
			       VIRTIO_BALLOON_AT_MIGRATION;
}

/* Make the one move that is due, see the top of this file. */
static enum virtio_balloon_move virtio_balloon_move(struct virtio_balloon *vb)
{
	unsigned long committed = vb->pages + vb->inflating;
	unsigned long goal = min(vb->target, vb->ceiling);

	lockdep_assert_held(&vb->accounts);

	if (committed + vb->gathered.count > goal)
		virtio_balloon_gather_release(&vb->gathered);

	if (vb->pages > goal) {
		virtio_balloon_set_state(vb, VIRTIO_BALLOON_STATE_DEFLATING);
		return virtio_balloon_deflate(vb, vb->pages - goal);
	}
	if (vb->deflating)
		return virtio_balloon_deflate(vb, 0);
	if (committed < goal) {
		if (vb->state != VIRTIO_BALLOON_STATE_AT_FLOOR)
			virtio_balloon_set_state(vb,
						 VIRTIO_BALLOON_STATE_INFLATING);
		return virtio_balloon_inflate(vb, goal - committed);
	}
	if (vb->inflating)
		return VIRTIO_BALLOON_AT_HOST;
	if (goal == vb->target) {
		virtio_balloon_set_state(vb, VIRTIO_BALLOON_STATE_IDLE);
		return VIRTIO_BALLOON_AT_TARGET;
	}
	if (virtio_balloon_hold_over(vb))
		return VIRTIO_BALLOON_MOVED;
	virtio_balloon_set_state(vb, VIRTIO_BALLOON_STATE_HELD_OFF);
	return VIRTIO_BALLOON_AT_CEILING;
}

/* The answers, the move that follows from them, and what the host has to know */
static enum virtio_balloon_move virtio_balloon_step(struct virtio_balloon *vb)
{
	enum virtio_balloon_move move;

	virtio_balloon_read_target(vb);
	mutex_lock(&vb->accounts);
	virtio_balloon_settle(vb);
	move = virtio_balloon_move(vb);
	mutex_unlock(&vb->accounts);
	virtio_balloon_have_told(vb);
	return move;
}

/**
 * virtio_balloon_give_back() - let the guest have pages of the balloon
 * @vb: the balloon, started
 * @count: guest pages that are wanted
 *
 * What an inflation has gathered goes first. As many pages as there is a record
 * for are freed at once; with MUST_TELL_HOST, once the host has answered, and
 * no others are taken before.
 *
 * Context: may sleep, for a mutex under which nobody allocates or waits.
 * Return: guest pages that the guest has had back so far, counted from an
 * arbitrary start, and modulo the word size.
 */
unsigned long virtio_balloon_give_back(struct virtio_balloon *vb,
				       unsigned long count)
{
	unsigned long given, had;
	unsigned int n;

	mutex_lock(&vb->accounts);
	virtio_balloon_settle(vb);
	had = vb->pages + vb->gathered.count;
	WRITE_ONCE(vb->given, vb->given + vb->gathered.count);
	count -= min_t(unsigned long, count, vb->gathered.count);
	virtio_balloon_gather_release(&vb->gathered);
	if (vb->must_tell_host && vb->deflating)
		count = 0;
	while (count) {
		n = virtio_balloon_take_back(vb, count);
		count -= n;
		if (!n && !(vb->owed.count && virtio_balloon_post_owed(vb)))
			break;
	}
	if (vb->owed.count && vb->must_tell_host)
		virtio_balloon_post_owed(vb);
	virtio_balloon_hold(vb, had - vb->pages);
	given = vb->given;
	mutex_unlock(&vb->accounts);
	virtio_balloon_wake(vb);
	return given;
}

/* When the work item has to run again without being woken by the host. */
static unsigned long virtio_balloon_delay(struct virtio_balloon *vb,
					  enum virtio_balloon_move move)
{
	switch (move) {
	case VIRTIO_BALLOON_MOVED:
		return 0;
	case VIRTIO_BALLOON_AT_HOST:
		if (vb->actual != virtio_balloon_size(vb))
			return VIRTIO_BALLOON_TELL;
		break;
	case VIRTIO_BALLOON_AT_MIGRATION:
		return VIRTIO_BALLOON_ISOLATED;
	case VIRTIO_BALLOON_AT_ALLOCATOR:
		return time_after(vb->retry_at, jiffies) ?
		       vb->retry_at - jiffies : 0;
	case VIRTIO_BALLOON_AT_CEILING:
		return virtio_balloon_hold_delay(vb);
	case VIRTIO_BALLOON_AT_TARGET:
		break;
	}
	return MAX_SCHEDULE_TIMEOUT;
}

static void virtio_balloon_work(struct work_struct *work)
{
	struct virtio_balloon *vb = container_of(to_delayed_work(work),
						 struct virtio_balloon, work);
	unsigned long end = jiffies + VIRTIO_BALLOON_SLICE, delay;
	enum virtio_balloon_move move;
	bool at_rest;

	if (READ_ONCE(vb->stopping) || virtio_balloon_broken(vb))
		return;

	virtio_balloon_mute(vb);
	do {
		move = virtio_balloon_step(vb);
	} while (move == VIRTIO_BALLOON_MOVED && time_before(jiffies, end) &&
		 !READ_ONCE(vb->stopping));

	at_rest = move == VIRTIO_BALLOON_AT_TARGET ||
		  move == VIRTIO_BALLOON_AT_CEILING ||
		  move == VIRTIO_BALLOON_AT_ALLOCATOR;
	mutex_lock(&vb->accounts);
	virtio_balloon_set_actual(vb, at_rest && !vb->inflating);
	mutex_unlock(&vb->accounts);
	virtio_balloon_have_told(vb);

	delay = virtio_balloon_delay(vb, move);
	if (delay && !READ_ONCE(vb->telling) && !virtio_balloon_listen(vb))
		delay = 0;
	/* Not later than someone else may have wished meanwhile */
	if (delay != MAX_SCHEDULE_TIMEOUT)
		queue_delayed_work(vb->wq, &vb->work, delay);
}

static void virtio_balloon_used(struct virtqueue *vq)
{
	struct virtio_balloon *vb = vq->vdev->priv;

	virtio_balloon_interrupt(vb);
	virtio_balloon_wake(vb);
}

/**
 * virtio_balloon_config_changed() - the host has changed the configuration
 * @vb: the balloon, started
 *
 * Context: any, hard interrupts included.
 */
void virtio_balloon_config_changed(struct virtio_balloon *vb)
{
	set_bit(VIRTIO_BALLOON_TARGET_CHANGED, &vb->flags);
	virtio_balloon_wake(vb);
}

/*
 * Have @newpage, inflated, stand in the balloon for @page, isolated. Both
 * pages are locked. The balloon's reference moves with the role.
 */
static void virtio_balloon_replace(struct virtio_balloon *vb,
				   struct page *newpage, struct page *page)
{
	unsigned long flags;

	spin_lock_irqsave(&vb->info.pages_lock, flags);
	balloon_page_insert(&vb->info, newpage);
	balloon_page_finalize(page);
	vb->info.isolated_pages--;
	__count_vm_event(BALLOON_MIGRATE);
	spin_unlock_irqrestore(&vb->info.pages_lock, flags);

	if (page_zone(page) != page_zone(newpage)) {
		virtio_balloon_account(vb, page, 1);
		virtio_balloon_account(vb, newpage, -1);
	}
}

/*
 * Inflate @newpage, wait for it, and deflate @page. If the host does not
 * answer in time, @newpage stays with it by a reference of the batch's, and is
 * deflated when the answer comes or freed after the reset.
 */
static int virtio_balloon_swap(struct virtio_balloon *vb, struct page *newpage,
			       struct page *page)
{
	struct virtio_balloon_batch *batch = virtio_balloon_migration_batch(vb);
	int err;

	if (!batch || !virtio_balloon_has_room(vb, VIRTIO_BALLOON_Q_DEFLATE))
		return -EAGAIN;

	get_page(newpage);
	batch->page = newpage;
	virtio_balloon_add_pfns(vb->vdev, batch, page_to_pfn(newpage), 1);
	if (virtio_balloon_post(vb, batch, VIRTIO_BALLOON_Q_INFLATE)) {
		virtio_balloon_recycle(vb, batch);
		put_page(newpage);
		return -EAGAIN;
	}

	err = virtio_balloon_wait(vb, batch, VIRTIO_BALLOON_PATIENCE);
	if (!err) {
		virtio_balloon_replace(vb, newpage, page);
		batch->page = page;
		batch->count = 0;
		virtio_balloon_add_pfns(vb->vdev, batch, page_to_pfn(page), 1);
		err = virtio_balloon_post(vb, batch, VIRTIO_BALLOON_Q_DEFLATE);
		if (!err)
			return 0;
		/* The work item will find it answered, and try again. */
		err = 0;
	}
	virtio_balloon_abandon(vb, batch);
	return err ? -EBUSY : 0;
}

static int virtio_balloon_migrate(struct balloon_dev_info *info,
				  struct page *newpage, struct page *page,
				  enum migrate_mode mode)
{
	struct virtio_balloon *vb = container_of(info, struct virtio_balloon,
						 info);
	int err = -EAGAIN;

	if (!mutex_trylock(&vb->migration))
		return -EAGAIN;
	if (!READ_ONCE(vb->stopping) && !READ_ONCE(vb->deflating)) {
		err = virtio_balloon_swap(vb, newpage, page);
		virtio_balloon_wake(vb);
	}
	mutex_unlock(&vb->migration);
	return err;
}

static size_t virtio_balloon_batch_size(const struct virtio_balloon_batch *batch)
{
	return array3_size(batch->capacity, VIRTIO_BALLOON_UNITS,
			   sizeof(*batch->pfns));
}

static void virtio_balloon_free_batches(struct virtio_balloon *vb)
{
	unsigned int b;

	for (b = 0; b < VIRTIO_BALLOON_MOVES; b++) {
		struct virtio_balloon_batch *batch = &vb->batches[b];

		if (batch->pfns)
			free_pages_exact(batch->pfns,
					 virtio_balloon_batch_size(batch));
		batch->pfns = NULL;
	}
}

static int virtio_balloon_alloc_batches(struct virtio_balloon *vb,
					unsigned int capacity)
{
	unsigned int b;

	for (b = 0; b < VIRTIO_BALLOON_MOVES; b++) {
		struct virtio_balloon_batch *batch = &vb->batches[b];

		batch->capacity = capacity + VIRTIO_BALLOON_KEPT *
				  VIRTIO_BALLOON_GROUP;
		batch->pfns = alloc_pages_exact(virtio_balloon_batch_size(batch),
						GFP_KERNEL | __GFP_NOWARN);
		if (!batch->pfns) {
			virtio_balloon_free_batches(vb);
			return -ENOMEM;
		}
	}
	for (b = 0; b < VIRTIO_BALLOON_MIGRATIONS; b++) {
		vb->batches[VIRTIO_BALLOON_MOVES + b].capacity = 1;
		vb->batches[VIRTIO_BALLOON_MOVES + b].pfns =
			vb->migration_pfns[b];
	}
	vb->capacity = capacity;
	return 0;
}

/* Set buffers aside: large ones in large guests, smaller ones if need be. */
static int virtio_balloon_pages_init(struct virtio_balloon *vb)
{
	unsigned int capacity = clamp(totalram_pages() / 32,
				      VIRTIO_BALLOON_BATCH_MIN,
				      VIRTIO_BALLOON_BATCH_MAX);
	unsigned int max_runs, b;
	int err;

	for (b = 0; b < VIRTIO_BALLOON_BATCHES; b++)
		INIT_LIST_HEAD(&vb->batches[b].pages);
	INIT_LIST_HEAD(&vb->gathered.pages);
	INIT_LIST_HEAD(&vb->owed.pages);
	INIT_DELAYED_WORK(&vb->work, virtio_balloon_work);
	INIT_WORK(&vb->tell_work, virtio_balloon_tell_work);
	if (IS_ENABLED(CONFIG_BALLOON_COMPACTION))
		vb->info.migratepage = virtio_balloon_migrate;

	capacity = rounddown_pow_of_two(capacity);
	do {
		err = virtio_balloon_alloc_batches(vb, capacity);
		capacity /= 2;
	} while (err && capacity >= VIRTIO_BALLOON_BATCH_MIN);
	if (err)
		return err;

	vb->wq = alloc_workqueue("virtio_balloon",
				 WQ_FREEZABLE | WQ_UNBOUND | WQ_MEM_RECLAIM, 3);
	if (!vb->wq)
		return -ENOMEM;
	max_runs = max(vb->capacity / 2, VIRTIO_BALLOON_GROUP);
	err = virtio_balloon_gather_init(&vb->gathered, max_runs);
	return err ?: virtio_balloon_gather_init(&vb->owed, max_runs);
}

static int virtio_balloon_pages_start(struct virtio_balloon *vb)
{
	vb->target = 0;
	vb->state = VIRTIO_BALLOON_STATE_IDLE;
	virtio_balloon_hold_reset(vb);
	vb->actual_at = jiffies;
	/* The device remembers this across a reset */
	virtio_cread_le(vb->vdev, struct virtio_balloon_config, actual,
			&vb->actual_told);
	vb->actual = vb->actual_told;

	set_bit(VIRTIO_BALLOON_TARGET_CHANGED, &vb->flags);
	virtio_balloon_read_target(vb);
	mutex_lock(&vb->accounts);
	if (vb->target && vb->state == VIRTIO_BALLOON_STATE_IDLE)
		virtio_balloon_set_state(vb, VIRTIO_BALLOON_STATE_INFLATING);
	mutex_unlock(&vb->accounts);
	virtio_balloon_wake(vb);
	return 0;
}

/* The work items run no more; nobody is inside a migration, nor will be. */
static void virtio_balloon_pages_quiesce(struct virtio_balloon *vb)
{
	cancel_delayed_work_sync(&vb->work);
	cancel_work_sync(&vb->tell_work);
	vb->telling = false;
	virtio_balloon_set_state(vb, VIRTIO_BALLOON_STATE_STOPPING);
	mutex_lock(&vb->migration);
	mutex_unlock(&vb->migration);
}

/*
 * Take all pages back while the host listens. What it does not answer in time
 * is released after the reset.
 */
static void virtio_balloon_pages_stop(struct virtio_balloon *vb)
{
	unsigned long end = jiffies + VIRTIO_BALLOON_STOP_MAX;
	enum virtio_balloon_move move;

	clear_bit(VIRTIO_BALLOON_TARGET_CHANGED, &vb->flags);
	vb->target = 0;
	vb->ceiling = ULONG_MAX;
	do {
		move = virtio_balloon_step(vb);
		if (move == VIRTIO_BALLOON_AT_MIGRATION)
			schedule_timeout_uninterruptible(VIRTIO_BALLOON_ISOLATED);
		else if (move == VIRTIO_BALLOON_AT_HOST &&
			 virtio_balloon_wait(vb, NULL,
					     VIRTIO_BALLOON_STOP_SILENCE))
			break;
		cond_resched();
	} while (move != VIRTIO_BALLOON_AT_TARGET && time_before(jiffies, end));

	if (!virtio_balloon_broken(vb)) {
		const u32 none = 0;

		virtio_cwrite_le(vb->vdev, struct virtio_balloon_config,
				 actual, &none);
	}
}

/*
 * Free what the batches hold and forget what the host was to be told: it
 * has forgotten all of it.
 */
static void virtio_balloon_forget_batches(struct virtio_balloon *vb)
{
	unsigned int b;

	for (b = 0; b < VIRTIO_BALLOON_BATCHES; b++) {
		struct virtio_balloon_batch *batch = &vb->batches[b];

		if (batch->page)
			put_page(batch->page);
		else if (!list_empty(&batch->pages))
			put_pages_list(&batch->pages);
		else if (vb->must_tell_host)
			virtio_balloon_free_batch(vb, batch);
		virtio_balloon_recycle(vb, batch);
	}
	if (vb->must_tell_host)
		virtio_balloon_free_owed(vb, 0);
	virtio_balloon_gather_release(&vb->owed);
	vb->unposted = NULL;
	vb->inflating = 0;
	vb->deflating = 0;
}

/* Free the ballooned pages; migration may have some a little longer. */
static void virtio_balloon_free_all(struct virtio_balloon *vb)
{
	unsigned long end = jiffies + VIRTIO_BALLOON_STOP_MAX;
	LIST_HEAD(pages);

	while (vb->pages && time_before(jiffies, end)) {
		if (!virtio_balloon_dequeue(vb, &pages, VIRTIO_BALLOON_GROUP))
			schedule_timeout_uninterruptible(VIRTIO_BALLOON_ISOLATED);
		virtio_balloon_gather_note(&vb->owed, &pages);
		virtio_balloon_free_owed(vb, 0);
		virtio_balloon_gather_release(&vb->owed);
		INIT_LIST_HEAD(&pages);
		cond_resched();
	}
	if (vb->pages)
		dev_err(&vb->vdev->dev, "%lu pages lost to migration\n",
			vb->pages);
}

static void virtio_balloon_pages_exit(struct virtio_balloon *vb)
{
	/* A late interrupt may have queued it once more */
	cancel_delayed_work_sync(&vb->work);
	virtio_balloon_gather_release(&vb->gathered);
	virtio_balloon_forget_batches(vb);
	virtio_balloon_free_all(vb);
	virtio_balloon_gather_exit(&vb->gathered);
	virtio_balloon_gather_exit(&vb->owed);
	virtio_balloon_free_batches(vb);
	if (vb->wq)
		destroy_workqueue(vb->wq);
	vb->wq = NULL;
}

const struct virtio_balloon_feature virtio_balloon_pages_feature = {
	.name = "pages",
	.queues = {
		{ VIRTIO_BALLOON_Q_INFLATE, "inflate", virtio_balloon_used },
		{ VIRTIO_BALLOON_Q_DEFLATE, "deflate", virtio_balloon_used },
	},
	.nr_queues = 2,
	.init = virtio_balloon_pages_init,
	.start = virtio_balloon_pages_start,
	.quiesce = virtio_balloon_pages_quiesce,
	.stop = virtio_balloon_pages_stop,
	.exit = virtio_balloon_pages_exit,
};
