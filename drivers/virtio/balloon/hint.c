// SPDX-License-Identifier: GPL-2.0
/*
 * Free page hinting: a host that migrates the guest is told of free pages, which
 * it need not send.
 *
 * A round begins when the host gives a command id. The driver repeats it, offers
 * free blocks, large ones first, and ends with STOP when it has no more to
 * offer, or when the host has moved on [VB-H1, VB-H3, VB-H4]. The blocks stay
 * off the free lists until the host says DONE [VB-H6], so that nobody writes to
 * them; a later round of the same migration offers them again, since the host
 * may have missed some.
 *
 * On the way nothing of a block is read or written: writing to it would make it
 * one that has to be sent. So blocks come from the page reporting core, as they
 * are; if the kernel has no such core, from the page allocator. What they hold
 * is lost from then on [VB-H5]. That is no different from any free page, except
 * for a guest that fills its free pages and relies on it: that one does without.
 *
 * Memory that runs short gets the answered blocks back. A block without an
 * answer is never given back: the host might forget, after it was written to,
 * that it was.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/page_reporting_blocks.h>
#include <linux/shrinker.h>
#include <linux/virtio_config.h>

#include "virtio_balloon.h"

/* Smaller blocks are not worth a buffer of the queue */
#define VIRTIO_BALLOON_HINT_ORDER	min(4, MAX_PAGE_ORDER)
/* Blocks that are taken, or given back, at a time */
#define VIRTIO_BALLOON_HINT_SOME	PAGE_REPORTING_CAPACITY
/* How long the work item goes on at a time */
#define VIRTIO_BALLOON_HINT_SLICE	(HZ / 50 + 1)
/* How blocks are allocated, if they have to be */
#define VIRTIO_BALLOON_HINT_GFP		((GFP_HIGHUSER_MOVABLE & ~__GFP_RECLAIM) | \
					 __GFP_NOMEMALLOC | __GFP_NOWARN)
/*
 * How long to wait for an answer before the host is told again: some stop
 * looking at the queue just before they ask for notifications.
 */
#define VIRTIO_BALLOON_HINT_WAIT_MIN	(HZ / 50 + 1)
#define VIRTIO_BALLOON_HINT_WAIT_MAX	HZ

/* Indices of virtio_balloon_hint.ids */
enum {
	VIRTIO_BALLOON_HINT_ID_ROUND,
	VIRTIO_BALLOON_HINT_ID_STOP,
};

/* Take up to @max blocks from the guest; returns how many it could spare. */
static unsigned int virtio_balloon_hint_take(struct virtio_balloon_hint *hint,
					     struct page **blocks,
					     unsigned int max)
{
	unsigned int n = 0;

	if (hint->take)
		return hint->take(blocks, max, hint->order);
	while (n < max &&
	       (blocks[n] = alloc_pages(VIRTIO_BALLOON_HINT_GFP, hint->order)))
		n++;
	return n;
}

static void virtio_balloon_hint_give(struct virtio_balloon_hint *hint,
				     struct page **blocks, unsigned int count,
				     unsigned int order)
{
	if (hint->take) {
		hint->give(blocks, count, order);
		return;
	}
	while (count)
		__free_pages(blocks[--count], order);
}

/* Add to what is offered; false if the guest has nothing more to spare. */
static bool virtio_balloon_hint_refill(struct virtio_balloon_hint *hint)
{
	struct page *blocks[VIRTIO_BALLOON_HINT_SOME];
	unsigned int n, i;

	do {
		n = virtio_balloon_hint_take(hint, blocks, ARRAY_SIZE(blocks));
	} while (!n && --hint->order >= VIRTIO_BALLOON_HINT_ORDER);

	spin_lock(&hint->lock);
	for (i = 0; i < n; i++) {
		set_page_private(blocks[i], hint->order);
		list_add_tail(&blocks[i]->lru, &hint->offer);
	}
	WRITE_ONCE(hint->pages, hint->pages + ((unsigned long)n << hint->order));
	spin_unlock(&hint->lock);
	return n;
}

/*
 * Take some blocks of one order out of a list, to be given back; returns how
 * many.
 */
static unsigned int virtio_balloon_hint_pick(struct virtio_balloon_hint *hint,
					     struct list_head *list,
					     struct page **blocks,
					     unsigned int *order)
{
	unsigned int n = 0;
	struct page *page;

	lockdep_assert_held(&hint->lock);

	while (n < VIRTIO_BALLOON_HINT_SOME &&
	       (page = list_first_entry_or_null(list, struct page, lru))) {
		if (n && page_private(page) != *order)
			break;
		*order = page_private(page);
		list_del(&page->lru);
		set_page_private(page, 0);
		blocks[n++] = page;
	}
	WRITE_ONCE(hint->pages, hint->pages - ((unsigned long)n << *order));
	return n;
}

/*
 * Give back some blocks that are not with the host; returns how many guest pages
 * there were in them, 0 if there are no more blocks. From any task.
 */
static unsigned long virtio_balloon_hint_return(struct virtio_balloon_hint *hint)
{
	struct page *blocks[VIRTIO_BALLOON_HINT_SOME];
	unsigned int n, order = 0;

	spin_lock(&hint->lock);
	n = virtio_balloon_hint_pick(hint, &hint->held, blocks, &order);
	if (!n)
		n = virtio_balloon_hint_pick(hint, &hint->offer, blocks, &order);
	spin_unlock(&hint->lock);

	virtio_balloon_hint_give(hint, blocks, n, order);
	return (unsigned long)n << order;
}

/* Take the host's answers. */
static void virtio_balloon_hint_reap(struct virtio_balloon *vb)
{
	struct virtio_balloon_hint *hint = &vb->hint;
	unsigned int i;
	void *data;

	while ((data = virtio_balloon_reap_hint(vb))) {
		hint->wait = VIRTIO_BALLOON_HINT_WAIT_MIN;
		for (i = 0; i < ARRAY_SIZE(hint->ids); i++)
			if (data == &hint->ids[i])
				break;
		if (i < ARRAY_SIZE(hint->ids)) {
			hint->id_posted[i] = false;
			continue;
		}
		spin_lock(&hint->lock);
		list_move_tail(&((struct page *)data)->lru, &hint->held);
		spin_unlock(&hint->lock);
	}
}

/* Whether the host has answered all that it was told. */
static bool virtio_balloon_hint_answered(struct virtio_balloon_hint *hint)
{
	return list_empty(&hint->posted) &&
	       !hint->id_posted[VIRTIO_BALLOON_HINT_ID_ROUND] &&
	       !hint->id_posted[VIRTIO_BALLOON_HINT_ID_STOP];
}

/* See what the host wants, if that is new. */
static void virtio_balloon_hint_read_id(struct virtio_balloon *vb)
{
	struct virtio_balloon_hint *hint = &vb->hint;
	u32 id;

	if (!test_and_clear_bit(VIRTIO_BALLOON_HINT_CHANGED, &vb->flags))
		return;
	virtio_cread_le(vb->vdev, struct virtio_balloon_config,
			free_page_hint_cmd_id, &id);
	if (id == hint->id)
		return;
	hint->id = id;
	if (id == VIRTIO_BALLOON_CMD_ID_DONE)
		virtio_balloon_set_hint_state(vb, VIRTIO_BALLOON_HINT_RETURN);
	else if (id != VIRTIO_BALLOON_CMD_ID_STOP)
		virtio_balloon_set_hint_state(vb, VIRTIO_BALLOON_HINT_BEGIN);
	else if (hint->state == VIRTIO_BALLOON_HINT_OFFER)
		virtio_balloon_set_hint_state(vb, VIRTIO_BALLOON_HINT_END);
	else if (hint->state == VIRTIO_BALLOON_HINT_BEGIN)
		virtio_balloon_set_hint_state(vb, VIRTIO_BALLOON_HINT_REST);
}

/* Post a command id, whose buffer is not with the host; false if there is no room. */
static bool virtio_balloon_hint_post_id(struct virtio_balloon *vb,
					unsigned int which, u32 id)
{
	struct virtio_balloon_hint *hint = &vb->hint;

	/* in guest byte order for a legacy device [VB-H7] */
	hint->ids[which] = cpu_to_virtio32(vb->vdev, id);
	if (virtio_balloon_post_hint_id(vb, &hint->ids[which]))
		return false;
	hint->id_posted[which] = true;
	return true;
}

/* Begin a round: what was offered before is offered again. */
static bool virtio_balloon_hint_begin(struct virtio_balloon *vb)
{
	struct virtio_balloon_hint *hint = &vb->hint;

	if (!virtio_balloon_hint_answered(hint) ||
	    !virtio_balloon_hint_post_id(vb, VIRTIO_BALLOON_HINT_ID_ROUND,
					 hint->id))
		return false;
	spin_lock(&hint->lock);
	list_splice_init(&hint->held, &hint->offer);
	spin_unlock(&hint->lock);
	hint->order = MAX_PAGE_ORDER;
	WRITE_ONCE(hint->pressed, false);
	virtio_balloon_set_hint_state(vb, VIRTIO_BALLOON_HINT_OFFER);
	return true;
}

/* Tell the host of the first block of @offer; false if there is none, or no room. */
static bool virtio_balloon_hint_post(struct virtio_balloon *vb)
{
	struct virtio_balloon_hint *hint = &vb->hint;
	struct page *page;

	spin_lock(&hint->lock);
	page = list_first_entry_or_null(&hint->offer, struct page, lru);
	if (page)
		list_move_tail(&page->lru, &hint->posted);
	spin_unlock(&hint->lock);
	if (!page)
		return false;
	if (!virtio_balloon_post_hint(vb, page, page_private(page))) {
		WRITE_ONCE(vb->hinted, vb->hinted + (1UL << page_private(page)));
		return true;
	}

	spin_lock(&hint->lock);
	list_move(&page->lru, &hint->offer);
	spin_unlock(&hint->lock);
	return false;
}

static bool virtio_balloon_hint_offer(struct virtio_balloon *vb)
{
	struct virtio_balloon_hint *hint = &vb->hint;
	unsigned int n = 0;

	if (READ_ONCE(hint->pressed) ||
	    (list_empty(&hint->offer) && !virtio_balloon_hint_refill(hint))) {
		virtio_balloon_set_hint_state(vb, VIRTIO_BALLOON_HINT_END);
		return true;
	}
	while (n < VIRTIO_BALLOON_HINT_SOME && virtio_balloon_hint_post(vb))
		n++;
	return n || list_empty(&hint->offer);
}

static bool virtio_balloon_hint_end(struct virtio_balloon *vb)
{
	if (!virtio_balloon_hint_post_id(vb, VIRTIO_BALLOON_HINT_ID_STOP,
					 VIRTIO_BALLOON_CMD_ID_STOP))
		return false;
	virtio_balloon_set_hint_state(vb, VIRTIO_BALLOON_HINT_REST);
	return true;
}

static bool virtio_balloon_hint_give_all(struct virtio_balloon *vb)
{
	struct virtio_balloon_hint *hint = &vb->hint;

	if (virtio_balloon_hint_return(hint))
		return true;
	if (virtio_balloon_hint_answered(hint))
		virtio_balloon_set_hint_state(vb, VIRTIO_BALLOON_HINT_REST);
	return false;
}

/* Do what is next; false if it is the host's turn. */
static bool virtio_balloon_hint_step(struct virtio_balloon *vb)
{
	virtio_balloon_hint_reap(vb);
	virtio_balloon_hint_read_id(vb);

	switch (vb->hint.state) {
	case VIRTIO_BALLOON_HINT_REST:
		break;
	case VIRTIO_BALLOON_HINT_BEGIN:
		return virtio_balloon_hint_begin(vb);
	case VIRTIO_BALLOON_HINT_OFFER:
		return virtio_balloon_hint_offer(vb);
	case VIRTIO_BALLOON_HINT_END:
		return virtio_balloon_hint_end(vb);
	case VIRTIO_BALLOON_HINT_RETURN:
		return virtio_balloon_hint_give_all(vb);
	}
	return false;
}

static void virtio_balloon_hint_wake(struct virtio_balloon *vb)
{
	if (READ_ONCE(vb->hint.started))
		mod_delayed_work(vb->wq, &vb->hint.work, 0);
}

/* Wait for the host; tell it again if that has taken long. */
static void virtio_balloon_hint_await(struct virtio_balloon *vb)
{
	struct virtio_balloon_hint *hint = &vb->hint;

	if (!virtio_balloon_listen_hints(vb)) {
		virtio_balloon_hint_wake(vb);
		return;
	}
	if (virtio_balloon_hint_answered(hint))
		return;
	if (hint->wait > VIRTIO_BALLOON_HINT_WAIT_MIN)
		virtio_balloon_notify_hints(vb);
	queue_delayed_work(vb->wq, &hint->work, hint->wait);
	hint->wait = min(2 * hint->wait, VIRTIO_BALLOON_HINT_WAIT_MAX);
}

static void virtio_balloon_hint_work(struct work_struct *work)
{
	struct virtio_balloon *vb =
		container_of(to_delayed_work(work), struct virtio_balloon,
			     hint.work);
	unsigned long end = jiffies + VIRTIO_BALLOON_HINT_SLICE;
	bool again;

	if (READ_ONCE(vb->stopping) || virtio_balloon_broken(vb))
		return;
	virtio_balloon_mute_hints(vb);
	do {
		again = virtio_balloon_hint_step(vb);
		virtio_balloon_kick_hints(vb);
		cond_resched();
	} while (again && time_before(jiffies, end) && !READ_ONCE(vb->stopping));

	if (again)
		virtio_balloon_hint_wake(vb);
	else
		virtio_balloon_hint_await(vb);
}

static void virtio_balloon_hint_used(struct virtqueue *vq)
{
	virtio_balloon_hint_wake(vq->vdev->priv);
}

/**
 * virtio_balloon_hint_changed() - the host has changed the configuration
 * @vb: the balloon
 *
 * Context: any, hard interrupts included.
 */
void virtio_balloon_hint_changed(struct virtio_balloon *vb)
{
	set_bit(VIRTIO_BALLOON_HINT_CHANGED, &vb->flags);
	virtio_balloon_hint_wake(vb);
}

static unsigned long virtio_balloon_hint_count(struct shrinker *shrinker,
					       struct shrink_control *sc)
{
	struct virtio_balloon_hint *hint = shrinker->private_data;

	return READ_ONCE(hint->pages);
}

/* Memory runs short: give blocks back, and offer no more in this round. */
static unsigned long virtio_balloon_hint_scan(struct shrinker *shrinker,
					      struct shrink_control *sc)
{
	struct virtio_balloon_hint *hint = shrinker->private_data;
	unsigned long freed = 0, some;

	WRITE_ONCE(hint->pressed, true);
	do {
		some = virtio_balloon_hint_return(hint);
		freed += some;
	} while (some && freed < sc->nr_to_scan);
	return freed ?: SHRINK_STOP;
}

static int virtio_balloon_hint_add_shrinker(struct virtio_balloon_hint *hint)
{
	hint->shrinker = shrinker_alloc(0, "virtio-balloon-hint");
	if (!hint->shrinker)
		return -ENOMEM;
	hint->shrinker->count_objects = virtio_balloon_hint_count;
	hint->shrinker->scan_objects = virtio_balloon_hint_scan;
	hint->shrinker->private_data = hint;
	shrinker_register(hint->shrinker);
	return 0;
}

/**
 * virtio_balloon_hint_validate() - settle whether there can be hinting
 * @vdev: the device, its features not confirmed yet
 */
void virtio_balloon_hint_validate(struct virtio_device *vdev)
{
	if (!virtio_has_feature(vdev, VIRTIO_BALLOON_F_FREE_PAGE_HINT) ||
	    !virtio_balloon_expects_poison())
		return;
	dev_info(&vdev->dev,
		 "no free page hinting: a migration would lose what free pages are filled with\n");
	__virtio_clear_bit(vdev, VIRTIO_BALLOON_F_FREE_PAGE_HINT);
}

static bool virtio_balloon_hint_active(struct virtio_device *vdev)
{
	return virtio_has_feature(vdev, VIRTIO_BALLOON_F_FREE_PAGE_HINT);
}

static int virtio_balloon_hint_init(struct virtio_balloon *vb)
{
	struct virtio_balloon_hint *hint = &vb->hint;

	memset(hint, 0, sizeof(*hint));
	INIT_DELAYED_WORK(&hint->work, virtio_balloon_hint_work);
	spin_lock_init(&hint->lock);
	INIT_LIST_HEAD(&hint->offer);
	INIT_LIST_HEAD(&hint->posted);
	INIT_LIST_HEAD(&hint->held);
	hint->wait = VIRTIO_BALLOON_HINT_WAIT_MIN;
	hint->take = symbol_get(page_reporting_take_blocks);
	if (hint->take)
		hint->give = symbol_get(page_reporting_return_blocks);
	return virtio_balloon_hint_add_shrinker(hint);
}

static int virtio_balloon_hint_start(struct virtio_balloon *vb)
{
	WRITE_ONCE(vb->hint.started, true);
	virtio_balloon_hint_changed(vb);
	return 0;
}

static void virtio_balloon_hint_quiesce(struct virtio_balloon *vb)
{
	WRITE_ONCE(vb->hint.started, false);
	cancel_delayed_work_sync(&vb->hint.work);
}

/* The device was reset: all blocks are the guest's again. */
static void virtio_balloon_hint_exit(struct virtio_balloon *vb)
{
	struct virtio_balloon_hint *hint = &vb->hint;

	shrinker_free(hint->shrinker);
	spin_lock(&hint->lock);
	list_splice_init(&hint->posted, &hint->held);
	spin_unlock(&hint->lock);
	while (virtio_balloon_hint_return(hint))
		cond_resched();
	if (hint->take) {
		symbol_put(page_reporting_return_blocks);
		symbol_put(page_reporting_take_blocks);
		hint->take = NULL;
	}
}

const struct virtio_balloon_feature virtio_balloon_hint_feature = {
	.name = "hint",
	.active = virtio_balloon_hint_active,
	.queues = {
		{ VIRTIO_BALLOON_Q_HINT, "free_page_vq",
		  virtio_balloon_hint_used },
	},
	.nr_queues = 1,
	.init = virtio_balloon_hint_init,
	.start = virtio_balloon_hint_start,
	.quiesce = virtio_balloon_hint_quiesce,
	.exit = virtio_balloon_hint_exit,
};
