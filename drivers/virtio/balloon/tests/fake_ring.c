// SPDX-License-Identifier: GPL-2.0
/*
 * The host's side of the rings. Split rings are read by vringh, through an
 * identity map, as descriptors hold physical addresses; it knows no packed
 * ones, for which the little that a host needs is here.
 */
#include <linux/io.h>
#include <linux/jhash.h>

#include "fake_host.h"

#define FAKE_PACKED_AVAIL	BIT(VRING_PACKED_DESC_F_AVAIL)
#define FAKE_PACKED_USED	BIT(VRING_PACKED_DESC_F_USED)
#define FAKE_PACKED_WRAP	BIT(VRING_PACKED_EVENT_F_WRAP_CTR)

static bool fake_is_packed(struct fake_queue *queue)
{
	return queue->host->features & BIT_ULL(VIRTIO_F_RING_PACKED);
}

static void fake_packed_init(struct fake_packed *ring, struct virtqueue *vq)
{
	memset(ring, 0, sizeof(*ring));
	ring->desc = phys_to_virt(virtqueue_get_desc_addr(vq));
	ring->driver = phys_to_virt(virtqueue_get_avail_addr(vq));
	ring->num = virtqueue_get_vring_size(vq);
	ring->avail_wrap = true;
	ring->used_wrap = true;
}

static int fake_split_init(struct fake_queue *queue)
{
	struct fake_host *host = queue->host;
	struct virtqueue *vq = queue->vq;
	uintptr_t desc = virtqueue_get_desc_addr(vq);
	uintptr_t avail = virtqueue_get_avail_addr(vq);
	uintptr_t used = virtqueue_get_used_addr(vq);

	vringh_set_iotlb(&queue->vringh, host->iotlb, &host->iotlb_lock);
	return vringh_init_iotlb(&queue->vringh, host->features,
				 virtqueue_get_vring_size(vq), true,
				 (struct vring_desc *)desc,
				 (struct vring_avail *)avail,
				 (struct vring_used *)used);
}

/**
 * fake_ring_init() - begin with an empty ring
 * @queue: its vq is set up
 *
 * Return: 0 or a negative error.
 */
int fake_ring_init(struct fake_queue *queue)
{
	if (!fake_is_packed(queue))
		return fake_split_init(queue);
	fake_packed_init(&queue->packed, queue->vq);
	return 0;
}

/* The next available descriptor of a packed ring, or NULL */
static struct vring_packed_desc *fake_packed_next(struct fake_packed *ring)
{
	struct vring_packed_desc *desc = &ring->desc[ring->avail];
	u16 flags = le16_to_cpu(READ_ONCE(desc->flags));

	if (!!(flags & FAKE_PACKED_AVAIL) != ring->avail_wrap ||
	    !!(flags & FAKE_PACKED_USED) == ring->avail_wrap)
		return NULL;
	/* The rest of the descriptor was written before its flags */
	virtio_rmb(true);
	if (++ring->avail == ring->num) {
		ring->avail = 0;
		ring->avail_wrap = !ring->avail_wrap;
	}
	return desc;
}

/* The rest of a packed report, whose first descriptor is @desc */
static struct fake_request *
fake_packed_read_report(struct fake_queue *queue,
			struct vring_packed_desc *desc)
{
	struct fake_piece pieces[FAKE_PIECES];
	struct fake_request *request;
	unsigned int n = 0;
	u16 flags;

	do {
		flags = le16_to_cpu(desc->flags);
		pieces[n].addr = le64_to_cpu(desc->addr);
		pieces[n++].len = le32_to_cpu(desc->len);
		if (!(flags & VRING_DESC_F_WRITE) ||
		    flags & VRING_DESC_F_INDIRECT)
			fake_fault(queue->host, "report of an odd kind", flags);
		if (!(flags & VRING_DESC_F_NEXT))
			break;
		desc = fake_packed_next(&queue->packed);
	} while (desc && n < FAKE_PIECES);

	if (!desc || le16_to_cpu(desc->id) >= queue->packed.num) {
		fake_fault(queue->host, "report without an end", n);
		return NULL;
	}
	request = &queue->pool[le16_to_cpu(desc->id)];
	request->id = le16_to_cpu(desc->id);
	request->descs = n;
	request->nr_pieces = n;
	memcpy(request->pieces, pieces, n * sizeof(*pieces));
	return request;
}

static struct fake_request *fake_packed_read(struct fake_queue *queue)
{
	struct vring_packed_desc *desc = fake_packed_next(&queue->packed);
	struct fake_request *request;
	bool hint;
	u16 id;

	if (!desc)
		return NULL;
	if (queue->id == FAKE_REPORT)
		return fake_packed_read_report(queue, desc);
	id = le16_to_cpu(desc->id);
	hint = queue->id == FAKE_HINT &&
	       desc->flags & cpu_to_le16(VRING_DESC_F_WRITE);
	if (id >= queue->packed.num ||
	    (desc->flags & cpu_to_le16(VRING_DESC_F_NEXT |
				       (hint ? 0 : VRING_DESC_F_WRITE) |
				       VRING_DESC_F_INDIRECT))) {
		fake_fault(queue->host, "buffer not in one piece", id);
		return NULL;
	}
	request = &queue->pool[id];
	request->id = id;
	request->descs = 1;
	request->hint = hint;
	request->addr = le64_to_cpu(desc->addr);
	request->len = le32_to_cpu(desc->len);
	return request;
}

static struct fake_request *fake_split_read_report(struct fake_queue *queue)
{
	struct kvec iov[FAKE_PIECES + 1];
	struct fake_request *request;
	struct vringh_kiov wiov;
	unsigned int i;
	u16 id;
	int got;

	vringh_kiov_init(&wiov, iov, ARRAY_SIZE(iov));
	got = vringh_getdesc_iotlb(&queue->vringh, NULL, &wiov, &id,
				   GFP_ATOMIC);
	if (!got)
		return NULL;
	if (got < 0 || wiov.used > FAKE_PIECES) {
		fake_fault(queue->host, "report of an odd kind", got);
		vringh_kiov_cleanup(&wiov);
		return NULL;
	}
	request = &queue->pool[id];
	request->id = id;
	request->nr_pieces = wiov.used;
	for (i = 0; i < wiov.used; i++) {
		request->pieces[i].addr = (uintptr_t)wiov.iov[i].iov_base;
		request->pieces[i].len = wiov.iov[i].iov_len;
	}
	vringh_kiov_cleanup(&wiov);
	return request;
}

static struct fake_request *fake_split_read(struct fake_queue *queue)
{
	struct vringh_kiov riov, wiov, *iov = &riov;
	struct kvec out[2], in[2];
	struct fake_request *request = NULL;
	u16 id;
	int got;

	if (queue->id == FAKE_REPORT)
		return fake_split_read_report(queue);
	vringh_kiov_init(&riov, out, ARRAY_SIZE(out));
	vringh_kiov_init(&wiov, in, ARRAY_SIZE(in));
	got = vringh_getdesc_iotlb(&queue->vringh, &riov, &wiov, &id,
				   GFP_ATOMIC);
	if (!got)
		return NULL;
	if (queue->id == FAKE_HINT && !riov.used)
		iov = &wiov;
	if (got > 0 && riov.used + wiov.used == 1 && iov->used) {
		request = &queue->pool[id];
		request->id = id;
		request->hint = iov == &wiov;
		request->addr = (uintptr_t)iov->iov[0].iov_base;
		request->len = iov->iov[0].iov_len;
	} else {
		fake_fault(queue->host, "buffer not in one piece", id);
	}
	vringh_kiov_cleanup(&riov);
	vringh_kiov_cleanup(&wiov);
	return request;
}

/**
 * fake_ring_read() - take the next buffer that was made available
 * @queue: the queue
 *
 * Return: the request, not in any list, or NULL.
 */
struct fake_request *fake_ring_read(struct fake_queue *queue)
{
	struct fake_request *request = fake_is_packed(queue) ?
		fake_packed_read(queue) : fake_split_read(queue);

	if (!request)
		return NULL;
	request->queue = queue;
	if (queue->id != FAKE_REPORT && !request->hint)
		request->sum = jhash(phys_to_virt(request->addr),
				     request->len, 0);
	return request;
}

static void fake_packed_answer(struct fake_packed *ring, u16 id, u16 descs,
			       u32 len)
{
	struct vring_packed_desc *desc = &ring->desc[ring->used];
	u16 flags = ring->used_wrap ? FAKE_PACKED_AVAIL | FAKE_PACKED_USED : 0;

	desc->id = cpu_to_le16(id);
	desc->len = cpu_to_le32(len);
	virtio_wmb(true);
	WRITE_ONCE(desc->flags, cpu_to_le16(flags));
	ring->fresh += descs;
	ring->used += descs;
	if (ring->used >= ring->num) {
		ring->used -= ring->num;
		ring->used_wrap = !ring->used_wrap;
	}
}

/**
 * fake_ring_answer() - mark a buffer as used
 * @queue: the queue
 * @id: names the buffer; need not be true
 * @descs: how many descriptors it takes in a packed ring
 * @len: the used length
 */
void fake_ring_answer(struct fake_queue *queue, u16 id, u16 descs, u32 len)
{
	if (fake_is_packed(queue))
		fake_packed_answer(&queue->packed, id, descs, len);
	else
		vringh_complete_iotlb(&queue->vringh, id, len);
}

static bool fake_packed_wants_interrupt(struct fake_packed *ring)
{
	u16 old = ring->used - ring->fresh, event, flags;

	virtio_mb(true);
	ring->fresh = 0;
	flags = le16_to_cpu(READ_ONCE(ring->driver->flags));
	if (flags != VRING_PACKED_EVENT_FLAG_DESC)
		return flags == VRING_PACKED_EVENT_FLAG_ENABLE;
	event = le16_to_cpu(READ_ONCE(ring->driver->off_wrap));
	if (!!(event & FAKE_PACKED_WRAP) == ring->used_wrap)
		event &= ~FAKE_PACKED_WRAP;
	else
		event = (event & ~FAKE_PACKED_WRAP) - ring->num;
	return vring_need_event(event, ring->used, old);
}

/**
 * fake_ring_wants_interrupt() - whether the driver asks for an interrupt
 * @queue: the queue, some of its buffers used since this was called last
 *
 * Return: true if so.
 */
bool fake_ring_wants_interrupt(struct fake_queue *queue)
{
	if (fake_is_packed(queue))
		return fake_packed_wants_interrupt(&queue->packed);
	return vringh_need_notify_iotlb(&queue->vringh) > 0;
}

/**
 * fake_ring_listen() - ask the driver to notify of the next buffer
 * @queue: the queue
 *
 * For packed rings it is asked from the beginning.
 *
 * Return: false if there is one already.
 */
bool fake_ring_listen(struct fake_queue *queue)
{
	return fake_is_packed(queue) ||
	       vringh_notify_enable_iotlb(&queue->vringh);
}
