/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The virtio memory balloon driver, inside.
 *
 * Units. A "page" without more is a guest page (PAGE_SIZE). The device counts
 * in units of 4096 bytes ("balloon pages", PFNs, num_pages, actual);
 * VIRTIO_BALLOON_UNITS of them make one guest page. All counters of the driver
 * are in guest pages; they are converted where they meet the device.
 *
 * Life of a guest page:
 *
 *   allocator --> gathered --> batch on the inflate queue --> info.pages
 *
 *   info.pages --> owed --> batch on the deflate queue --> allocator
 *             \
 *              +-> allocator at once, unless MUST_TELL_HOST was negotiated;
 *                  then "owed" and the batch only remember its frame number
 *
 * Whoever holds a page at an arrow's end holds its reference. A batch that was
 * posted keeps what it holds until the host has answered or the device has
 * been reset, whatever happens to the one who posted it.
 *
 * Who runs. One work item moves the balloon (pages.c). It never waits for the
 * host: it posts what fits, asks for an interrupt and returns; the interrupt
 * queues it again. Since a host may do all its work while it is being told of
 * it, a second work item does the telling, on another CPU if there is one. Only
 * page migration, free page reporting, the OOM notifier and the way down wait,
 * and they do it in virtio_balloon_wait(), which ends on an answer, on a broken
 * queue, when the device is being stopped, and in any case when its time is up.
 *
 * Locks, outermost first:
 *
 *   page lock              taken by the migration core around a migration
 *   vb->migration          one migration at a time; only ever tried for, except
 *                          by the way down, which holds nothing else then
 *   oom_lock               held by the allocator around the OOM notifier
 *   vb->accounts           what the work item and the OOM notifier both use:
 *                          gathered, owed, unposted, pages, inflating,
 *                          deflating, target, ceiling, state
 *   vb->lock               the queues, and the state of each batch
 *   vb->info.pages_lock    the list of ballooned pages (balloon compaction)
 *   vb->hint.lock          blocks of free page hinting; none other is taken
 *                          with it
 *
 * None of them is taken in a queue's callback. vb->lock is a plain spinlock.
 * Under it, and under vb->accounts, nothing is allocated, nobody waits for the
 * host, and no host is notified: the OOM notifier takes vb->accounts in the
 * middle of an allocation that may be anyone's. So the work item opens the
 * accounts for each allocation, and afterwards takes what it finds in them.
 *
 * What the work item alone uses (the retry clock) has no lock: it does not run
 * twice at a time. On the way down the notifier is unregistered, and then the
 * work item cancelled, before the rest is taken away, without vb->accounts.
 */
#ifndef _DRIVERS_VIRTIO_BALLOON_H
#define _DRIVERS_VIRTIO_BALLOON_H

#include <linux/balloon_compaction.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/page_reporting.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/virtio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/virtio_balloon.h>

/* Balloon pages (4096 bytes) in a guest page */
#define VIRTIO_BALLOON_UNITS	(PAGE_SIZE >> VIRTIO_BALLOON_PFN_SHIFT)

/*
 * Guest pages in a group: a host with 2 MiB pages gets one back only when all
 * of its PFNs stand together in one buffer.
 */
#define VIRTIO_BALLOON_GROUP	max(SZ_2M / PAGE_SIZE, 1UL)

/*
 * Batches that can be with the host at a time: the first so many for the
 * balloon's own moves, the rest, of one page each, for page migration.
 */
#define VIRTIO_BALLOON_MOVES		4
#define VIRTIO_BALLOON_MIGRATIONS	4
#define VIRTIO_BALLOON_BATCHES	\
	(VIRTIO_BALLOON_MOVES + VIRTIO_BALLOON_MIGRATIONS)

/*
 * Groups that may be kept back from a batch, because they are still being
 * filled: the allocator has a few blocks in use at a time, by zone and CPU.
 */
#define VIRTIO_BALLOON_KEPT		4

/*
 * Guest pages of a batch: no fewer than the first, no more than the second;
 * and there is room for the groups that may be kept back.
 */
#define VIRTIO_BALLOON_BATCH_MIN	VIRTIO_BALLOON_GROUP
#define VIRTIO_BALLOON_BATCH_MAX	(SZ_64M / PAGE_SIZE)

struct virtio_balloon;

/**
 * enum virtio_balloon_state - what the balloon is about
 * @VIRTIO_BALLOON_STATE_IDLE: it is as large as the host asks
 * @VIRTIO_BALLOON_STATE_INFLATING: it grows
 * @VIRTIO_BALLOON_STATE_DEFLATING: it shrinks, as the host asks for less or the
 *                                  guest has run out of memory
 * @VIRTIO_BALLOON_STATE_AT_FLOOR: it cannot grow, as the guest has no more than
 *                                 the floor available; tries on, with pauses
 * @VIRTIO_BALLOON_STATE_HELD_OFF: it does not grow, as the guest has run out of
 *                                 memory not long ago
 * @VIRTIO_BALLOON_STATE_STOPPING: the device is being stopped
 *
 * From any but STOPPING to any, except that AT_FLOOR is left only when the
 * balloon is as large as it may be, or too large. Only a new start leads from
 * STOPPING to IDLE.
 */
enum virtio_balloon_state {
	VIRTIO_BALLOON_STATE_IDLE,
	VIRTIO_BALLOON_STATE_INFLATING,
	VIRTIO_BALLOON_STATE_DEFLATING,
	VIRTIO_BALLOON_STATE_AT_FLOOR,
	VIRTIO_BALLOON_STATE_HELD_OFF,
	VIRTIO_BALLOON_STATE_STOPPING,
};

/* The device's queues; their numbers follow from the table of features. */
enum virtio_balloon_queue {
	VIRTIO_BALLOON_Q_INFLATE,
	VIRTIO_BALLOON_Q_DEFLATE,
	VIRTIO_BALLOON_Q_STATS,
	VIRTIO_BALLOON_Q_HINT,
	VIRTIO_BALLOON_Q_REPORT,
	VIRTIO_BALLOON_Q_MAX
};

/**
 * struct virtio_balloon_ring - a queue, and what the host has of it
 * @vq: the queue, NULL while there is none
 * @posted: buffers made available that the host has not answered
 * @untold: those of them that were added since the last notification
 *
 * @vq's rings, @posted and @untold are guarded by vb->lock.
 */
struct virtio_balloon_ring {
	struct virtqueue *vq;
	unsigned int posted;
	unsigned int untold;
};

/**
 * enum virtio_balloon_batch_state - where a batch is
 * @VIRTIO_BALLOON_IDLE: with the driver, holds no pages
 * @VIRTIO_BALLOON_POSTED: with the host
 * @VIRTIO_BALLOON_ANSWERED: back from the host, its pages not yet dealt with
 *
 * IDLE -> POSTED -> ANSWERED -> IDLE; the batch of a migration goes from
 * ANSWERED to POSTED once more, on the deflate queue.
 */
enum virtio_balloon_batch_state {
	VIRTIO_BALLOON_IDLE,
	VIRTIO_BALLOON_POSTED,
	VIRTIO_BALLOON_ANSWERED,
};

/**
 * struct virtio_balloon_batch - guest pages that go to the host together
 * @state: see above; guarded by vb->lock
 * @queue: the queue it was posted to last
 * @waited: a waiter takes the answer, not the work item; guarded by vb->lock
 * @pages: the guest pages, linked by page->lru
 * @page: instead of @pages, the one page of a migration, whose lru link is
 *        still the migration core's
 * @count: guest pages named in @pfns
 * @capacity: guest pages for which @pfns has room
 * @pfns: the buffer: units of 4096 bytes, in device byte order
 */
struct virtio_balloon_batch {
	enum virtio_balloon_batch_state state;
	enum virtio_balloon_queue queue;
	bool waited;
	struct list_head pages;
	struct page *page;
	unsigned int count;
	unsigned int capacity;
	__virtio32 *pfns;
};

/**
 * struct virtio_balloon_run - consecutive pages inside one group
 * @pfn: first guest page frame
 * @count: guest pages
 */
struct virtio_balloon_run {
	u32 pfn;
	u32 count;
};

/**
 * struct virtio_balloon_gather - pages for the next batches
 * @pages: the pages, the most recent first, linked by page->lru; empty if they
 *         were only noted
 * @count: guest pages gathered
 * @runs: the pages as runs, the most recent last
 * @nr_runs: runs in use
 * @max_runs: runs for which there is room; a batch is closed when they are used
 */
struct virtio_balloon_gather {
	struct list_head pages;
	unsigned int count;
	struct virtio_balloon_run *runs;
	unsigned int nr_runs;
	unsigned int max_runs;
};

/**
 * struct virtio_balloon_feature - one concern of the driver
 * @name: for messages
 * @active: whether it takes part, from the negotiated features; NULL for always
 * @queues: the queues it needs, in the order of their numbers
 * @nr_queues: how many
 * @init: allocate; the queues are not known yet
 * @prime: queues are known, DRIVER_OK is not set: buffers and configuration
 *         fields that have to be there before; nothing may be notified
 * @start: DRIVER_OK is set: begin
 * @quiesce: begin nothing more, let go of what others could call in
 * @stop: the device still answers, perhaps: settle with it, in bounded time
 * @exit: the device was reset, its queues are gone: release all that is left
 *
 * All may sleep; any may be NULL. init, prime and start run in the
 * order of the table; quiesce and stop run in reverse over what was started,
 * exit in reverse over what was initialised. exit runs as well for a feature
 * whose own init failed half-way.
 */
struct virtio_balloon_feature {
	const char *name;
	bool (*active)(struct virtio_device *vdev);
	const struct {
		enum virtio_balloon_queue id;
		const char *name;
		vq_callback_t *callback;
	} queues[2];
	unsigned int nr_queues;
	int (*init)(struct virtio_balloon *vb);
	int (*prime)(struct virtio_balloon *vb);
	int (*start)(struct virtio_balloon *vb);
	void (*quiesce)(struct virtio_balloon *vb);
	void (*stop)(struct virtio_balloon *vb);
	void (*exit)(struct virtio_balloon *vb);
};

extern const struct virtio_balloon_feature virtio_balloon_pages_feature;
extern const struct virtio_balloon_feature virtio_balloon_stats_feature;
extern const struct virtio_balloon_feature virtio_balloon_hint_feature;
extern const struct virtio_balloon_feature virtio_balloon_poison_feature;
extern const struct virtio_balloon_feature virtio_balloon_report_feature;
extern const struct virtio_balloon_feature virtio_balloon_oom_feature;

#define VIRTIO_BALLOON_FEATURES	6

/* Bits of virtio_balloon.flags */
#define VIRTIO_BALLOON_TARGET_CHANGED	0
#define VIRTIO_BALLOON_HINT_CHANGED	1

/**
 * enum virtio_balloon_hint_state - what free page hinting is about
 * @VIRTIO_BALLOON_HINT_REST: nothing to do, until there is another command id
 * @VIRTIO_BALLOON_HINT_BEGIN: a round is to begin, once all is answered
 * @VIRTIO_BALLOON_HINT_OFFER: the host is being told of free blocks
 * @VIRTIO_BALLOON_HINT_END: it is to be told that there are no more
 * @VIRTIO_BALLOON_HINT_RETURN: the migration is over, the blocks go back
 *
 * A new id leads to BEGIN from any state, DONE to RETURN, STOP from OFFER to
 * END. BEGIN -> OFFER -> END -> REST, RETURN -> REST.
 */
enum virtio_balloon_hint_state {
	VIRTIO_BALLOON_HINT_REST,
	VIRTIO_BALLOON_HINT_BEGIN,
	VIRTIO_BALLOON_HINT_OFFER,
	VIRTIO_BALLOON_HINT_END,
	VIRTIO_BALLOON_HINT_RETURN,
};

/**
 * struct virtio_balloon_hint - free page hinting
 * @work: makes the rounds; what has no lock is its own
 * @lock: guards the lists and @pages
 * @offer: blocks of which the host will be told in this round
 * @posted: blocks of which it was told, unanswered
 * @held: blocks that it answered
 * @pages: guest pages in all of them
 * @state: see above
 * @id: command id that the host gave last
 * @order: of the blocks that are being taken
 * @pressed: memory ran short in this round; read and set with READ_ONCE and
 *           WRITE_ONCE anywhere
 * @ids: the buffers with command ids: the round's, and STOP
 * @id_posted: they are with the host
 * @started: the device is up; read anywhere with READ_ONCE
 * @wait: how long the next answer is waited for, in jiffies
 * @shrinker: gives back blocks when memory runs short
 * @take: page_reporting_take_blocks(), or NULL: the kernel has none
 * @give: page_reporting_return_blocks(), with @take only
 *
 * The blocks are linked by the lru of their heads, whose private is the order.
 */
struct virtio_balloon_hint {
	struct delayed_work work;
	spinlock_t lock;	/* see above */
	struct list_head offer;
	struct list_head posted;
	struct list_head held;
	unsigned long pages;
	enum virtio_balloon_hint_state state;
	u32 id;
	int order;
	bool pressed;
	__virtio32 ids[2];
	bool id_posted[2];
	bool started;
	unsigned long wait;
	struct shrinker *shrinker;
	unsigned int (*take)(struct page **blocks, unsigned int max,
			     unsigned int order);
	void (*give)(struct page **blocks, unsigned int count,
		     unsigned int order);
};

/**
 * struct virtio_balloon - one balloon device
 * @vdev: the device
 * @active: the features that take part, in order
 * @nr_active: how many
 * @nr_inited: how many of @active were initialised
 * @nr_started: how many of @active were started
 * @has_queues: the queues were found
 * @must_tell_host: MUST_TELL_HOST was negotiated; constant while up
 * @deflate_on_oom: DEFLATE_ON_OOM was negotiated; constant while up
 * @stopping: set on the way down, before anything is taken away; read anywhere
 *            with READ_ONCE, because each reader either tests it again later
 *            or is cancelled after it was set
 * @lock: see "Locks" above
 * @rings: the queues by their names, guarded by @lock once found
 * @answers: woken by the queue callbacks and by the way down
 * @interrupts: counts callbacks, so that a waiter cannot miss one
 * @batches: those of the balloon's own moves, then those of migrations
 * @capacity: guest pages in a batch of the balloon's own moves
 * @migration: see "Locks" above
 * @accounts: see "Locks" above
 * @wq: freezable queue for @work, @tell_work and @hint's
 * @work: moves the balloon
 * @info: the ballooned pages, guarded by its own pages_lock
 * @migration_pfns: buffers of the migrations' batches
 * @gathered: pages to be inflated
 * @owed: pages taken out of the balloon of which the host has to be told
 * @unposted: a batch of owed pages that found no room in the queue, or NULL
 * @pages: guest pages in the balloon, isolated ones included
 * @inflating: guest pages posted for inflation, unanswered
 * @deflating: guest pages taken out of the balloon that the host has not
 *             answered yet. The allocator may have them already, and none of
 *             them may be inflated again until the host knows. Set, with
 *             WRITE_ONCE, before such a page is freed, so that whoever is
 *             given the page sees it.
 * @given: guest pages that were given back to the guest; wraps around
 * @target: guest pages the host asks for
 * @ceiling: guest pages the balloon may have, whatever the target; ULONG_MAX if
 *           nothing is held off
 * @state: see above; read anywhere with READ_ONCE
 * @flags: VIRTIO_BALLOON_TARGET_CHANGED: the configuration has to be read again;
 *         set by the configuration interrupt, taken by the work item;
 *         VIRTIO_BALLOON_HINT_CHANGED: the same, taken by @hint's work item
 * @tell_work: tells the host: kicks queues, writes @actual
 * @telling: @tell_work is queued or running; set by the work item, cleared by
 *           @tell_work, which then wakes the work item
 * @actual: what the host is to know of the balloon's size, in balloon pages;
 *          set by the work item with WRITE_ONCE, read by @tell_work
 * @actual_at: when @actual was set, in jiffies; the work item's
 * @actual_told: what the host was told last; @tell_work's
 * @retry_at: when to allocate again, in jiffies
 * @retry_delay: how long the next pause is, in jiffies
 * @held: guest pages that were given back on OOM since inflation is held off
 * @hold_until: when inflation may go on, in jiffies, if memory is plentiful
 *              until then
 * @hold_for: how long inflation is held off, in jiffies; 0 if it never was
 * @oom_nb: the OOM notifier; the allocator calls it once at a time
 * @oom_at: when it was called last, in jiffies; the notifier's
 * @oom_chunk: guest pages that it gave back, or wanted to; the notifier's
 * @released_on_oom: guest pages that it gave back in all; the notifier's, read
 *                   anywhere with READ_ONCE
 * @stats_wq: freezable high-priority queue for @stats_work
 * @stats_work: answers the statistics request
 * @stats: the one statistics buffer
 * @nr_stats: entries of @stats in use
 * @stats_posted: @stats was posted before DRIVER_OK
 * @hint: free page hinting
 * @hinted: guest pages that the host was told of by it, ever; @hint's work
 *          item's, read anywhere with READ_ONCE
 * @reporter: how the page reporting core knows this device
 * @report: stands for the free pages that the host is being told of; posted by
 *          the core's call only, which is never made twice at a time
 * @reported: guest pages that the host was told of by it, ever; the core's
 *            call's, read anywhere with READ_ONCE
 */
struct virtio_balloon {
	struct virtio_device *vdev;

	const struct virtio_balloon_feature *active[VIRTIO_BALLOON_FEATURES];
	unsigned int nr_active;
	unsigned int nr_inited;
	unsigned int nr_started;
	bool has_queues;
	bool must_tell_host;
	bool deflate_on_oom;
	bool stopping;

	spinlock_t lock;	/* rings, states of batches */
	struct virtio_balloon_ring rings[VIRTIO_BALLOON_Q_MAX];
	wait_queue_head_t answers;
	atomic_t interrupts;
	struct virtio_balloon_batch batches[VIRTIO_BALLOON_BATCHES];
	unsigned int capacity;
	struct mutex migration;	/* one page migration at a time */

	struct mutex accounts;	/* what the OOM notifier uses too */
	struct workqueue_struct *wq;
	struct delayed_work work;
	struct balloon_dev_info info;
	__virtio32 migration_pfns[VIRTIO_BALLOON_MIGRATIONS][VIRTIO_BALLOON_UNITS];
	struct virtio_balloon_gather gathered;
	struct virtio_balloon_gather owed;
	struct virtio_balloon_batch *unposted;
	unsigned long pages;
	unsigned long inflating;
	unsigned long deflating;
	unsigned long given;
	unsigned long target;
	unsigned long ceiling;
	enum virtio_balloon_state state;
	unsigned long flags;
	struct work_struct tell_work;
	bool telling;
	u32 actual;
	unsigned long actual_at;
	u32 actual_told;
	unsigned long retry_at;
	unsigned long retry_delay;

	unsigned long held;
	unsigned long hold_until;
	unsigned long hold_for;
	struct notifier_block oom_nb;
	unsigned long oom_at;
	unsigned long oom_chunk;
	unsigned long released_on_oom;

	struct workqueue_struct *stats_wq;
	struct work_struct stats_work;
	struct virtio_balloon_stat stats[VIRTIO_BALLOON_S_NR];
	unsigned int nr_stats;
	bool stats_posted;

	struct virtio_balloon_hint hint;
	unsigned long hinted;
	struct page_reporting_dev_info reporter;
	struct virtio_balloon_batch report;
	unsigned long reported;
};

/* host.c */
void virtio_balloon_host_init(struct virtio_balloon *vb);
int virtio_balloon_host_find(struct virtio_balloon *vb);
void virtio_balloon_host_lose(struct virtio_balloon *vb);
void virtio_balloon_interrupt(struct virtio_balloon *vb);
bool virtio_balloon_broken(struct virtio_balloon *vb);
bool virtio_balloon_has_room(struct virtio_balloon *vb,
			     enum virtio_balloon_queue queue);
int virtio_balloon_post(struct virtio_balloon *vb,
			struct virtio_balloon_batch *batch,
			enum virtio_balloon_queue queue);
bool virtio_balloon_kick_due(struct virtio_balloon *vb);
void virtio_balloon_kick(struct virtio_balloon *vb);
void virtio_balloon_reap(struct virtio_balloon *vb);
bool virtio_balloon_is_due(struct virtio_balloon *vb,
			   struct virtio_balloon_batch *batch);
void virtio_balloon_abandon(struct virtio_balloon *vb,
			    struct virtio_balloon_batch *batch);
void virtio_balloon_recycle(struct virtio_balloon *vb,
			    struct virtio_balloon_batch *batch);
void virtio_balloon_mute(struct virtio_balloon *vb);
bool virtio_balloon_listen(struct virtio_balloon *vb);
int virtio_balloon_wait(struct virtio_balloon *vb,
			struct virtio_balloon_batch *batch,
			unsigned long timeout);
int virtio_balloon_post_hint(struct virtio_balloon *vb, struct page *block,
			     unsigned int order);
int virtio_balloon_post_hint_id(struct virtio_balloon *vb, __virtio32 *id);
void *virtio_balloon_reap_hint(struct virtio_balloon *vb);
void virtio_balloon_kick_hints(struct virtio_balloon *vb);
void virtio_balloon_notify_hints(struct virtio_balloon *vb);
void virtio_balloon_mute_hints(struct virtio_balloon *vb);
bool virtio_balloon_listen_hints(struct virtio_balloon *vb);
int virtio_balloon_post_report(struct virtio_balloon *vb,
			       struct scatterlist *sg, unsigned int nents);
unsigned int virtio_balloon_report_size(struct virtio_balloon *vb);
int virtio_balloon_post_stats(struct virtio_balloon *vb);
void virtio_balloon_kick_stats(struct virtio_balloon *vb);
bool virtio_balloon_reap_stats(struct virtio_balloon *vb);

/* gather.c */
int virtio_balloon_gather_init(struct virtio_balloon_gather *gather,
			       unsigned int max_runs);
void virtio_balloon_gather_exit(struct virtio_balloon_gather *gather);
unsigned int
virtio_balloon_gather_room(const struct virtio_balloon_gather *gather);
void virtio_balloon_gather_note(struct virtio_balloon_gather *gather,
				struct list_head *pages);
void virtio_balloon_gather_add(struct virtio_balloon_gather *gather,
			       struct list_head *pages);
void virtio_balloon_gather_add_group(struct virtio_balloon_gather *gather,
				     struct page *page);
unsigned int
virtio_balloon_gather_gap(const struct virtio_balloon_gather *gather);
void virtio_balloon_gather_close(struct virtio_balloon_gather *gather,
				 struct virtio_device *vdev,
				 struct virtio_balloon_batch *batch, bool last);
void virtio_balloon_gather_release(struct virtio_balloon_gather *gather);
void virtio_balloon_add_pfns(struct virtio_device *vdev,
			     struct virtio_balloon_batch *batch,
			     unsigned long pfn, unsigned int count);

/* hint.c */
void virtio_balloon_hint_validate(struct virtio_device *vdev);
void virtio_balloon_hint_changed(struct virtio_balloon *vb);

/* report.c */
bool virtio_balloon_expects_poison(void);
void virtio_balloon_report_validate(struct virtio_device *vdev);

/* pages.c */
void virtio_balloon_config_changed(struct virtio_balloon *vb);
extern int virtio_balloon_floor_mib;
unsigned long virtio_balloon_floor(struct virtio_balloon *vb);
unsigned long virtio_balloon_give_back(struct virtio_balloon *vb,
				       unsigned long count);

/* oom.c */
void virtio_balloon_hold(struct virtio_balloon *vb, unsigned long pages);
void virtio_balloon_hold_reset(struct virtio_balloon *vb);
bool virtio_balloon_hold_over(struct virtio_balloon *vb);
unsigned long virtio_balloon_hold_delay(const struct virtio_balloon *vb);

/* debug.c */
extern const struct attribute_group *virtio_balloon_groups[];
void virtio_balloon_set_state(struct virtio_balloon *vb,
			      enum virtio_balloon_state state);
void virtio_balloon_set_hint_state(struct virtio_balloon *vb,
				   enum virtio_balloon_hint_state state);

#endif /* _DRIVERS_VIRTIO_BALLOON_H */
