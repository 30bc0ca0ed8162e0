// SPDX-License-Identifier: GPL-2.0
/*
 * What the balloon driver says to its host and hears from it: the only code
 * that touches virtqueues.
 *
 * Notifications. Telling the host of a buffer costs an exit, during which many
 * hosts do all the work, and while the host works on one buffer it finds the
 * next in the ring by itself. So a queue is kicked only when the host has
 * answered everything it was told of, and interrupts are asked for only by
 * someone who has nothing else to do.
 */
#include <linux/virtio_config.h>
#include <trace/events/virtio_balloon.h>

#include "virtio_balloon.h"

/* How long a waiter sleeps before it looks for a broken queue again */
#define VIRTIO_BALLOON_PEEK	(HZ / 10)

/**
 * virtio_balloon_host_init() - prepare all that a queue callback may touch
 * @vb: the balloon, zeroed
 *
 * To be called once, before the first virtio_balloon_host_find().
 */
void virtio_balloon_host_init(struct virtio_balloon *vb)
{
	spin_lock_init(&vb->lock);
	init_waitqueue_head(&vb->answers);
	atomic_set(&vb->interrupts, 0);
}

/**
 * virtio_balloon_host_find() - get the queues of the active features
 * @vb: the balloon, its active features known
 *
 * Queues get dense numbers in the order of the features; one that was not
 * negotiated has no number [VB-I2], so none is asked for without a name.
 *
 * Context: may sleep.
 * Return: 0, or what the transport's find_vqs returns; nothing is held then.
 */
int virtio_balloon_host_find(struct virtio_balloon *vb)
{
	struct virtqueue_info info[VIRTIO_BALLOON_Q_MAX] = {};
	enum virtio_balloon_queue ids[VIRTIO_BALLOON_Q_MAX];
	struct virtqueue *vqs[VIRTIO_BALLOON_Q_MAX];
	unsigned int f, q, n = 0;
	int err;

	for (f = 0; f < vb->nr_active; f++) {
		for (q = 0; q < vb->active[f]->nr_queues; q++, n++) {
			ids[n] = vb->active[f]->queues[q].id;
			info[n].name = vb->active[f]->queues[q].name;
			info[n].callback = vb->active[f]->queues[q].callback;
		}
	}

	err = virtio_find_vqs(vb->vdev, n, vqs, info, NULL);
	if (err)
		return err;

	spin_lock(&vb->lock);
	for (q = 0; q < n; q++)
		vb->rings[ids[q]].vq = vqs[q];
	spin_unlock(&vb->lock);
	return 0;
}

/**
 * virtio_balloon_host_lose() - let go of the queues
 * @vb: the balloon, its device reset: the host has forgotten every buffer
 *
 * Batches stay POSTED, so that their pages can be found and released.
 *
 * Context: may sleep. Nothing may be waiting for the host any more.
 */
void virtio_balloon_host_lose(struct virtio_balloon *vb)
{
	unsigned int q;

	spin_lock(&vb->lock);
	for (q = 0; q < VIRTIO_BALLOON_Q_MAX; q++) {
		struct virtio_balloon_ring *ring = &vb->rings[q];

		while (ring->vq && virtqueue_detach_unused_buf(ring->vq))
			;
		memset(ring, 0, sizeof(*ring));
	}
	spin_unlock(&vb->lock);
	vb->vdev->config->del_vqs(vb->vdev);
}

/**
 * virtio_balloon_interrupt() - wake those who wait for an answer
 * @vb: the balloon
 *
 * Context: any, hard interrupts included; takes no lock of the driver's.
 */
void virtio_balloon_interrupt(struct virtio_balloon *vb)
{
	atomic_inc(&vb->interrupts);
	wake_up_all(&vb->answers);
}

/**
 * virtio_balloon_broken() - whether the host can be talked to no more
 * @vb: the balloon
 *
 * Return: true if the device was removed, shut down or never set up, or if its
 * rings make no sense.
 */
bool virtio_balloon_broken(struct virtio_balloon *vb)
{
	struct virtqueue *vq = READ_ONCE(vb->rings[VIRTIO_BALLOON_Q_INFLATE].vq);
	struct virtqueue *deflate =
		READ_ONCE(vb->rings[VIRTIO_BALLOON_Q_DEFLATE].vq);

	return !vq || !deflate ||
	       virtqueue_is_broken(vq) || virtqueue_is_broken(deflate);
}

/**
 * virtio_balloon_has_room() - whether a queue would take another buffer
 * @vb: the balloon
 * @queue: the queue
 *
 * Return: true if it would. A hint: a migration may take the place.
 */
bool virtio_balloon_has_room(struct virtio_balloon *vb,
			     enum virtio_balloon_queue queue)
{
	struct virtqueue *vq = vb->rings[queue].vq;

	return vq && READ_ONCE(vq->num_free);
}

/* Whether the host may have run dry, while there is more for it. */
static bool virtio_balloon_ring_dry(const struct virtio_balloon_ring *ring)
{
	return ring->untold && ring->untold == ring->posted;
}

/**
 * virtio_balloon_kick_due() - whether the host may have run dry
 * @vb: the balloon
 *
 * Context: does not sleep.
 * Return: true if virtio_balloon_kick() would have something to tell.
 */
bool virtio_balloon_kick_due(struct virtio_balloon *vb)
{
	bool due;

	spin_lock(&vb->lock);
	due = virtio_balloon_ring_dry(&vb->rings[VIRTIO_BALLOON_Q_INFLATE]) ||
	      virtio_balloon_ring_dry(&vb->rings[VIRTIO_BALLOON_Q_DEFLATE]);
	spin_unlock(&vb->lock);
	return due;
}

static void virtio_balloon_kick_rings(struct virtio_balloon *vb,
				      enum virtio_balloon_queue first,
				      enum virtio_balloon_queue last)
{
	enum virtio_balloon_queue q;

	for (q = first; q <= last; q++) {
		struct virtio_balloon_ring *ring = &vb->rings[q];
		bool kick = false;

		spin_lock(&vb->lock);
		if (virtio_balloon_ring_dry(ring)) {
			ring->untold = 0;
			kick = virtqueue_kick_prepare(ring->vq);
		}
		spin_unlock(&vb->lock);
		if (kick)
			virtqueue_notify(ring->vq);
	}
}

/**
 * virtio_balloon_kick() - tell the host of what was posted, if it ran dry
 * @vb: the balloon, DRIVER_OK set [VB-I1]
 *
 * Context: does not sleep, but may take as long as the host needs for all
 * that was posted.
 */
void virtio_balloon_kick(struct virtio_balloon *vb)
{
	virtio_balloon_kick_rings(vb, VIRTIO_BALLOON_Q_INFLATE,
				  VIRTIO_BALLOON_Q_DEFLATE);
}

/* Count a buffer that was made available. */
static void virtio_balloon_count_posted(struct virtio_balloon *vb,
					struct virtio_balloon_ring *ring)
{
	lockdep_assert_held(&vb->lock);

	ring->posted++;
	ring->untold++;
}

/* Note that a batch is with the host; @waited: someone waits for its answer. */
static void virtio_balloon_posted(struct virtio_balloon *vb,
				  struct virtio_balloon_batch *batch,
				  enum virtio_balloon_queue queue, bool waited)
{
	struct virtio_balloon_ring *ring = &vb->rings[queue];

	batch->state = VIRTIO_BALLOON_POSTED;
	batch->queue = queue;
	batch->waited = waited;
	virtio_balloon_count_posted(vb, ring);
	trace_virtio_balloon_posted(vb->vdev, ring->vq->name, batch->count,
				    ring->posted);
}

/**
 * virtio_balloon_post() - hand a batch to the host
 * @vb: the balloon
 * @batch: IDLE, or a migration's in ANSWERED; its pfns and count filled in
 * @queue: inflate or deflate
 *
 * On success the batch, and the references that it holds, are the host's until
 * it is ANSWERED or the device is reset. It is not notified.
 *
 * Context: does not sleep.
 * Return: 0; -ENOSPC if the ring is full; -EIO or -ENODEV if it is broken or
 * gone. The batch is as before then.
 */
int virtio_balloon_post(struct virtio_balloon *vb,
			struct virtio_balloon_batch *batch,
			enum virtio_balloon_queue queue)
{
	struct virtio_balloon_ring *ring = &vb->rings[queue];
	struct scatterlist sg;
	int err = -ENODEV;

	sg_init_one(&sg, batch->pfns, batch->count * VIRTIO_BALLOON_UNITS *
		    sizeof(*batch->pfns));

	spin_lock(&vb->lock);
	if (ring->vq)
		err = virtqueue_add_outbuf(ring->vq, &sg, 1, batch, GFP_ATOMIC);
	if (!err)
		virtio_balloon_posted(vb, batch, queue, batch->page &&
				      queue == VIRTIO_BALLOON_Q_INFLATE);
	spin_unlock(&vb->lock);
	return err;
}

/**
 * virtio_balloon_report_size() - blocks that the host can be told of at a time
 * @vb: the balloon
 *
 * Return: the size of the reporting queue.
 */
unsigned int virtio_balloon_report_size(struct virtio_balloon *vb)
{
	return virtqueue_get_vring_size(vb->rings[VIRTIO_BALLOON_Q_REPORT].vq);
}

/**
 * virtio_balloon_post_report() - tell the host of free pages
 * @vb: the balloon, DRIVER_OK set [VB-R3]; vb->report not with the host
 * @sg: the free blocks, which nobody may use before the answer [VB-R2]
 * @nents: how many, at most virtio_balloon_report_size()
 *
 * It is notified by virtio_balloon_wait() for vb->report.
 *
 * Context: does not sleep, does not allocate.
 * Return: 0, or -EIO if the queue is broken.
 */
int virtio_balloon_post_report(struct virtio_balloon *vb,
			       struct scatterlist *sg, unsigned int nents)
{
	struct virtio_balloon_ring *ring = &vb->rings[VIRTIO_BALLOON_Q_REPORT];
	int err;

	spin_lock(&vb->lock);
	err = virtqueue_add_inbuf(ring->vq, sg, nents, &vb->report, GFP_ATOMIC);
	if (!err)
		virtio_balloon_posted(vb, &vb->report,
				      VIRTIO_BALLOON_Q_REPORT, true);
	spin_unlock(&vb->lock);
	return err;
}

/* The next answer of a queue, or NULL; the used length says nothing [VB-O10]. */
static void *virtio_balloon_next_answer(struct virtio_balloon *vb,
					struct virtio_balloon_ring *ring)
{
	unsigned int len;
	void *data;

	lockdep_assert_held(&vb->lock);

	data = ring->posted ? virtqueue_get_buf(ring->vq, &len) : NULL;
	if (data) {
		ring->posted--;
		ring->untold = min(ring->untold, ring->posted);
	}
	return data;
}

/* Collect the answers of one queue. */
static void virtio_balloon_reap_ring(struct virtio_balloon *vb,
				     struct virtio_balloon_ring *ring)
{
	struct virtio_balloon_batch *batch;

	while ((batch = virtio_balloon_next_answer(vb, ring))) {
		trace_virtio_balloon_answered(vb->vdev, ring->vq->name,
					      batch->count, ring->posted);
		WRITE_ONCE(batch->state, VIRTIO_BALLOON_ANSWERED);
		if (batch->waited)
			wake_up_all(&vb->answers);
	}
}

static void virtio_balloon_reap_rings(struct virtio_balloon *vb,
				      enum virtio_balloon_queue first,
				      enum virtio_balloon_queue last)
{
	enum virtio_balloon_queue q;

	spin_lock(&vb->lock);
	for (q = first; q <= last; q++)
		virtio_balloon_reap_ring(vb, &vb->rings[q]);
	spin_unlock(&vb->lock);
}

/**
 * virtio_balloon_reap() - take the host's answers
 * @vb: the balloon
 *
 * Batches that were answered become ANSWERED.
 *
 * Context: does not sleep.
 */
void virtio_balloon_reap(struct virtio_balloon *vb)
{
	virtio_balloon_reap_rings(vb, VIRTIO_BALLOON_Q_INFLATE,
				  VIRTIO_BALLOON_Q_DEFLATE);
}

/**
 * virtio_balloon_is_due() - whether the work item has to deal with a batch
 * @vb: the balloon
 * @batch: any batch
 *
 * Return: true if it is ANSWERED, and no migration waits for it.
 */
bool virtio_balloon_is_due(struct virtio_balloon *vb,
			   struct virtio_balloon_batch *batch)
{
	bool due;

	spin_lock(&vb->lock);
	due = batch->state == VIRTIO_BALLOON_ANSWERED && !batch->waited;
	spin_unlock(&vb->lock);
	return due;
}

/**
 * virtio_balloon_abandon() - leave the answer to the work item
 * @vb: the balloon
 * @batch: a migration's, POSTED or ANSWERED
 *
 * Context: does not sleep.
 */
void virtio_balloon_abandon(struct virtio_balloon *vb,
			    struct virtio_balloon_batch *batch)
{
	spin_lock(&vb->lock);
	batch->waited = false;
	spin_unlock(&vb->lock);
}

/**
 * virtio_balloon_recycle() - make an answered batch usable again
 * @vb: the balloon
 * @batch: ANSWERED; it holds no pages any more
 *
 * Context: does not sleep.
 */
void virtio_balloon_recycle(struct virtio_balloon *vb,
			    struct virtio_balloon_batch *batch)
{
	spin_lock(&vb->lock);
	batch->count = 0;
	batch->page = NULL;
	batch->waited = false;
	WRITE_ONCE(batch->state, VIRTIO_BALLOON_IDLE);
	spin_unlock(&vb->lock);
}

static void virtio_balloon_mute_rings(struct virtio_balloon *vb,
				      enum virtio_balloon_queue first,
				      enum virtio_balloon_queue last)
{
	enum virtio_balloon_queue q;

	spin_lock(&vb->lock);
	for (q = first; q <= last; q++)
		if (vb->rings[q].vq)
			virtqueue_disable_cb(vb->rings[q].vq);
	spin_unlock(&vb->lock);
}

/**
 * virtio_balloon_mute() - ask the host for no interrupts
 * @vb: the balloon
 *
 * The host may still send some.
 */
void virtio_balloon_mute(struct virtio_balloon *vb)
{
	virtio_balloon_mute_rings(vb, VIRTIO_BALLOON_Q_INFLATE,
				  VIRTIO_BALLOON_Q_DEFLATE);
}

/*
 * Ask for an interrupt on the next answer; or, when the host knows of all that
 * was posted and there is no hurry, when most of it is answered.
 */
static bool virtio_balloon_listen_ring(struct virtio_balloon_ring *ring)
{
	if (!ring->vq || !ring->posted)
		return true;
	if (ring->posted > 1 && !ring->untold)
		return virtqueue_enable_cb_delayed(ring->vq);
	return virtqueue_enable_cb(ring->vq);
}

static bool virtio_balloon_listen_rings(struct virtio_balloon *vb,
					enum virtio_balloon_queue first,
					enum virtio_balloon_queue last)
{
	enum virtio_balloon_queue q;
	bool quiet = true;

	spin_lock(&vb->lock);
	for (q = first; q <= last; q++)
		quiet &= virtio_balloon_listen_ring(&vb->rings[q]);
	spin_unlock(&vb->lock);
	return quiet;
}

/**
 * virtio_balloon_listen() - ask the host for an interrupt when it answers
 * @vb: the balloon
 *
 * Return: false if there are answers already; they should be reaped first.
 */
bool virtio_balloon_listen(struct virtio_balloon *vb)
{
	return virtio_balloon_listen_rings(vb, VIRTIO_BALLOON_Q_INFLATE,
					   VIRTIO_BALLOON_Q_DEFLATE);
}

/* Whether what virtio_balloon_wait() waits for is there */
static bool virtio_balloon_is_answered(struct virtio_balloon *vb,
				       struct virtio_balloon_batch *batch)
{
	unsigned int b;

	if (batch)
		return READ_ONCE(batch->state) == VIRTIO_BALLOON_ANSWERED;
	for (b = 0; b < VIRTIO_BALLOON_BATCHES; b++)
		if (virtio_balloon_is_answered(vb, &vb->batches[b]))
			return true;
	return false;
}

/* Whether a waiter has to go, whatever the host does: migrations only */
static bool virtio_balloon_wait_is_over(struct virtio_balloon *vb,
					struct virtio_balloon_batch *batch)
{
	return batch && batch != &vb->report && READ_ONCE(vb->stopping);
}

/**
 * virtio_balloon_wait() - wait for the host, the one place that does
 * @vb: the balloon
 * @batch: what to wait for, a migration's or vb->report; NULL for any answer of
 *         the inflate and deflate queues
 * @timeout: for how long at most, in jiffies
 *
 * A report is the only buffer of its queue, and its wait leaves the others'
 * answers alone.
 *
 * Context: sleeps, uninterruptibly; no lock of the driver's held but
 * vb->migration.
 * Return: 0 if answered; -EIO if a queue is broken; -ESHUTDOWN, only with a
 * migration's @batch, if the device is being stopped; -ETIMEDOUT.
 */
int virtio_balloon_wait(struct virtio_balloon *vb,
			struct virtio_balloon_batch *batch,
			unsigned long timeout)
{
	bool report = batch == &vb->report;
	enum virtio_balloon_queue first = report ? VIRTIO_BALLOON_Q_REPORT :
						   VIRTIO_BALLOON_Q_INFLATE;
	enum virtio_balloon_queue last = report ? VIRTIO_BALLOON_Q_REPORT :
						  VIRTIO_BALLOON_Q_DEFLATE;
	unsigned long end = jiffies + timeout;

	for (;;) {
		int seen = atomic_read(&vb->interrupts);

		virtio_balloon_reap_rings(vb, first, last);
		virtio_balloon_kick_rings(vb, first, last);
		if (virtio_balloon_is_answered(vb, batch))
			return 0;
		if (virtio_balloon_broken(vb))
			return -EIO;
		if (virtio_balloon_wait_is_over(vb, batch))
			return -ESHUTDOWN;
		if (time_after_eq(jiffies, end))
			return -ETIMEDOUT;
		if (!virtio_balloon_listen_rings(vb, first, last))
			continue;
		wait_event_timeout(vb->answers,
				   atomic_read(&vb->interrupts) != seen ||
				   virtio_balloon_is_answered(vb, batch) ||
				   virtio_balloon_wait_is_over(vb, batch),
				   VIRTIO_BALLOON_PEEK);
	}
}

/**
 * virtio_balloon_post_stats() - make the statistics buffer available
 * @vb: the balloon; vb->stats filled in and not with the host [VB-S1]
 *
 * Context: does not sleep, does not notify.
 * Return: 0, or -EIO: the queue is broken, or the core does not let buffers be
 * added before DRIVER_OK.
 */
int virtio_balloon_post_stats(struct virtio_balloon *vb)
{
	struct virtio_balloon_ring *ring = &vb->rings[VIRTIO_BALLOON_Q_STATS];
	struct scatterlist sg;
	int err = -ENODEV;

	sg_init_one(&sg, vb->stats, vb->nr_stats * sizeof(*vb->stats));
	spin_lock(&vb->lock);
	if (ring->vq)
		err = virtqueue_add_outbuf(ring->vq, &sg, 1, vb->stats,
					   GFP_ATOMIC);
	spin_unlock(&vb->lock);
	return err;
}

/**
 * virtio_balloon_kick_stats() - tell the host of the statistics buffer
 * @vb: the balloon, DRIVER_OK set [VB-I1]
 */
void virtio_balloon_kick_stats(struct virtio_balloon *vb)
{
	struct virtqueue *vq = vb->rings[VIRTIO_BALLOON_Q_STATS].vq;
	bool kick;

	spin_lock(&vb->lock);
	kick = virtqueue_kick_prepare(vq);
	spin_unlock(&vb->lock);
	if (kick)
		virtqueue_notify(vq);
}

/**
 * virtio_balloon_reap_stats() - see whether the host asks for statistics
 * @vb: the balloon
 *
 * Return: true if it gave the buffer back.
 */
bool virtio_balloon_reap_stats(struct virtio_balloon *vb)
{
	struct virtio_balloon_ring *ring = &vb->rings[VIRTIO_BALLOON_Q_STATS];
	unsigned int len;
	bool used;

	spin_lock(&vb->lock);
	/* A host may interrupt before the queues are known to the driver */
	used = ring->vq && virtqueue_get_buf(ring->vq, &len);
	spin_unlock(&vb->lock);
	return used;
}

/* Add a buffer to the hinting queue; @data names it. */
static int virtio_balloon_add_hint(struct virtio_balloon *vb,
				   struct scatterlist *sg, void *data, bool out)
{
	struct virtio_balloon_ring *ring = &vb->rings[VIRTIO_BALLOON_Q_HINT];
	int err;

	spin_lock(&vb->lock);
	err = virtqueue_add_sgs(ring->vq, &sg, out, !out, data, GFP_ATOMIC);
	if (!err)
		virtio_balloon_count_posted(vb, ring);
	spin_unlock(&vb->lock);
	return err;
}

/**
 * virtio_balloon_post_hint() - tell the host of a free block [VB-H3]
 * @vb: the balloon, DRIVER_OK set
 * @block: its head; virtio_balloon_reap_hint() returns it
 * @order: its order
 *
 * It is not notified.
 *
 * Context: does not sleep, does not allocate.
 * Return: 0; -ENOSPC if the ring is full; -EIO if it is broken.
 */
int virtio_balloon_post_hint(struct virtio_balloon *vb, struct page *block,
			     unsigned int order)
{
	struct scatterlist sg;

	sg_init_table(&sg, 1);
	sg_set_page(&sg, block, PAGE_SIZE << order, 0);
	return virtio_balloon_add_hint(vb, &sg, block, false);
}

/**
 * virtio_balloon_post_hint_id() - tell the host of a round's begin or end
 * @vb: the balloon, DRIVER_OK set
 * @id: the command id, the host's until virtio_balloon_reap_hint() returns it
 *
 * It is not notified [VB-H1, VB-H4].
 *
 * Context: does not sleep, does not allocate.
 * Return: 0; -ENOSPC if the ring is full; -EIO if it is broken.
 */
int virtio_balloon_post_hint_id(struct virtio_balloon *vb, __virtio32 *id)
{
	struct scatterlist sg;

	sg_init_one(&sg, id, sizeof(*id));
	return virtio_balloon_add_hint(vb, &sg, id, true);
}

/**
 * virtio_balloon_reap_hint() - take one answer of the hinting queue
 * @vb: the balloon
 *
 * Context: does not sleep.
 * Return: what was posted: a block or a command id; NULL if there is no answer.
 */
void *virtio_balloon_reap_hint(struct virtio_balloon *vb)
{
	void *data;

	spin_lock(&vb->lock);
	data = virtio_balloon_next_answer(vb, &vb->rings[VIRTIO_BALLOON_Q_HINT]);
	spin_unlock(&vb->lock);
	return data;
}

/**
 * virtio_balloon_kick_hints() - tell the host of hints, if it ran dry
 * @vb: the balloon, DRIVER_OK set [VB-I1]
 *
 * Context: does not sleep, but may take as long as the host needs.
 */
void virtio_balloon_kick_hints(struct virtio_balloon *vb)
{
	virtio_balloon_kick_rings(vb, VIRTIO_BALLOON_Q_HINT,
				  VIRTIO_BALLOON_Q_HINT);
}

/**
 * virtio_balloon_notify_hints() - tell the host of hints, come what may
 * @vb: the balloon, DRIVER_OK set [VB-I1]
 *
 * Context: as virtio_balloon_kick_hints().
 */
void virtio_balloon_notify_hints(struct virtio_balloon *vb)
{
	virtqueue_notify(vb->rings[VIRTIO_BALLOON_Q_HINT].vq);
}

/**
 * virtio_balloon_mute_hints() - ask for no interrupts of the hinting queue
 * @vb: the balloon
 */
void virtio_balloon_mute_hints(struct virtio_balloon *vb)
{
	virtio_balloon_mute_rings(vb, VIRTIO_BALLOON_Q_HINT,
				  VIRTIO_BALLOON_Q_HINT);
}

/**
 * virtio_balloon_listen_hints() - ask for an interrupt when hints are answered
 * @vb: the balloon
 *
 * Return: false if there are answers already; they should be reaped first.
 */
bool virtio_balloon_listen_hints(struct virtio_balloon *vb)
{
	return virtio_balloon_listen_rings(vb, VIRTIO_BALLOON_Q_HINT,
					   VIRTIO_BALLOON_Q_HINT);
}
