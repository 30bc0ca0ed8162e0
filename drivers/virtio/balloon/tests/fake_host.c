// SPDX-License-Identifier: GPL-2.0
/*
 * The fake host: the device, its configuration space, notifications, answers
 * and interrupts. See fake_host.h.
 *
 * host->lock guards the host's side of the rings and all that is written about
 * pages; it is never held while the driver is called.
 */
#include <linux/cleanup.h>
#include <linux/device.h>
#include <linux/io.h>
#include <linux/moduleparam.h>
#include <linux/random.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <kunit/device.h>

#include "fake_host.h"

static unsigned int test_seed;
module_param(test_seed, uint, 0444);
MODULE_PARM_DESC(test_seed, "seed of the random unit tests, 0 for a new one");

#define vdev_to_host(v)	container_of(v, struct fake_host, vdev)

static const struct fake_setup fake_setups[] = {
	{ .name = "split legacy", .legacy = true },
	{ .name = "split legacy must-tell-host", .legacy = true,
	  .must_tell_host = true },
	{ .name = "split modern" },
	{ .name = "split modern must-tell-host", .must_tell_host = true },
	{ .name = "split modern no-event-idx", .no_event_idx = true },
	{ .name = "packed", .packed = true },
	{ .name = "packed must-tell-host", .packed = true,
	  .must_tell_host = true },
	{ .name = "packed no-event-idx", .packed = true,
	  .no_event_idx = true },
};

/**
 * fake_seed() - what a random case begins with
 * @test: the case; its log gets the seed
 *
 * Return: virtio_balloon.test_seed, or a new seed if that is 0.
 */
u32 fake_seed(struct kunit *test)
{
	u32 seed = test_seed ?: get_random_u32();

	kunit_info(test, "virtio_balloon.test_seed=%u\n", seed);
	return seed;
}

/**
 * fake_gen_params() - parameter generator: each kind of device
 * @prev: the one before, NULL to begin
 * @desc: where its name goes
 *
 * Return: a struct fake_setup, or NULL at the end.
 */
const void *fake_gen_params(const void *prev, char *desc)
{
	const struct fake_setup *next = prev ? prev : fake_setups;

	if (prev && ++next == fake_setups + ARRAY_SIZE(fake_setups))
		return NULL;
	strscpy(desc, next->name, KUNIT_PARAM_DESC_SIZE);
	return next;
}

/* Deliver the interrupts of one queue that are due. */
static void fake_interrupt(struct fake_queue *queue)
{
	if (!test_and_clear_bit(0, &queue->raise))
		return;
	queue->interrupts++;
	vring_interrupt(0, queue->vq);
	if (queue->host->interrupts == FAKE_DOUBLED) {
		vring_interrupt(0, queue->vq);
		queue->vq->callback(queue->vq);
	}
}

static void fake_hard(struct irq_work *work)
{
	struct fake_host *host = container_of(work, struct fake_host, hard);
	int q;

	for (q = 0; q < FAKE_QUEUES; q++)
		fake_interrupt(&host->queue[q]);
}

/* Deliver what interrupts are due; host->lock is not held. */
static void fake_interrupts(struct fake_host *host)
{
	int q;

	if (host->interrupts == FAKE_HARD) {
		irq_work_queue(&host->hard);
		return;
	}
	for (q = 0; q < FAKE_QUEUES; q++) {
		if (host->interrupts == FAKE_LOST)
			clear_bit(0, &host->queue[q].raise);
		fake_interrupt(&host->queue[q]);
	}
}

/* Answer one request; the interrupt is only noted. */
static void fake_answer(struct fake_request *request)
{
	struct fake_queue *queue = request->queue;
	struct fake_host *host = queue->host;

	lockdep_assert_held(&host->lock);

	list_del(&request->link);
	queue->outstanding--;
	if (queue->id == FAKE_REPORT) {
		fake_report_answer(host, request);
	} else if (queue->id == FAKE_HINT) {
		fake_hint_answer(host, request);
	} else if (queue->id != FAKE_STATS) {
		host->outstanding--;
		fake_pages_answer(host, request);
	}
	fake_ring_answer(queue, request->id, request->descs, host->used_len);
	if (fake_ring_wants_interrupt(queue) || host->interrupts == FAKE_DOUBLED)
		set_bit(0, &queue->raise);
}

/* The request to answer next, or NULL */
static struct fake_request *fake_next(struct fake_host *host)
{
	if (list_empty(&host->requests))
		return NULL;
	if (host->newest_first)
		return list_last_entry(&host->requests, struct fake_request,
				       link);
	return list_first_entry(&host->requests, struct fake_request, link);
}

static unsigned int fake_answer_some(struct fake_host *host, unsigned int count)
{
	struct fake_request *request;
	unsigned int answered = 0;

	lockdep_assert_held(&host->lock);

	while (answered < count && (request = fake_next(host))) {
		fake_answer(request);
		answered++;
	}
	return answered;
}

/* Each entry is there once, and the same ones come each time [VB-S3]. */
static void fake_check_stats(struct fake_host *host,
			     const struct virtio_balloon_stat *stats,
			     unsigned int count)
{
	unsigned int i;
	u32 seen = 0;
	u16 tag;

	if (host->stats_answers && count != host->nr_stats)
		fake_fault(host, "VB-S3: other statistics than before", count);
	for (i = 0; i < count; i++) {
		tag = virtio16_to_cpu(&host->vdev, stats[i].tag);
		if (tag >= VIRTIO_BALLOON_S_NR || seen & BIT(tag))
			fake_fault(host, "VB-S3: unknown or double tag", tag);
		else
			seen |= BIT(tag);
		if (host->stats_answers && stats[i].tag != host->stats[i].tag)
			fake_fault(host, "VB-S3: another tag than before", tag);
	}
}

static void fake_read_stats(struct fake_host *host,
			    struct fake_request *request)
{
	unsigned int count = request->len / sizeof(*host->stats);
	const void *stats = phys_to_virt(request->addr);

	if (request->queue->outstanding > 1)
		fake_fault(host, "VB-S1: several statistics buffers",
			   request->queue->outstanding);
	if (!count || count > VIRTIO_BALLOON_S_NR ||
	    request->len % sizeof(*host->stats)) {
		fake_fault(host, "VB-S3: odd buffer length", request->len);
		return;
	}
	fake_check_stats(host, stats, count);
	memcpy(host->stats, stats, request->len);
	host->nr_stats = count;
	host->stats_answers++;
}

/* Read what is new in a ring; returns whether there was anything. */
static bool fake_read(struct fake_queue *queue)
{
	struct fake_host *host = queue->host;
	struct fake_request *request;
	bool any = false;

	lockdep_assert_held(&host->lock);

	while (queue->vq && (request = fake_ring_read(queue))) {
		any = true;
		queue->buffers++;
		queue->outstanding++;
		if (queue->id == FAKE_STATS) {
			INIT_LIST_HEAD(&request->link);
			host->stats_request = request;
			fake_read_stats(host, request);
			continue;
		}
		list_add_tail(&request->link, &host->requests);
		if (queue->id == FAKE_REPORT) {
			fake_report_read(host, request);
			continue;
		}
		if (queue->id == FAKE_HINT) {
			fake_hint_read(host, request);
			continue;
		}
		host->outstanding++;
		fake_pages_read(host, request);
	}
	return any;
}

static void fake_read_all(struct fake_host *host)
{
	int q;

	for (q = 0; q < FAKE_QUEUES; q++)
		fake_read(&host->queue[q]);
}

/* The driver's notification */
static bool fake_notify(struct virtqueue *vq)
{
	struct fake_queue *queue = vq->priv;
	struct fake_host *host = queue->host;

	if (host->on_kick)
		host->on_kick(host, queue);
	if (host->gone)
		return false;
	scoped_guard(spinlock, &host->lock) {
		queue->kicks++;
		if (!(host->status & VIRTIO_CONFIG_S_DRIVER_OK))
			fake_fault(host, "VB-I1: notified before DRIVER_OK",
				   queue->id);
		do {
			while (fake_read(queue) &&
			       host->answers == FAKE_AT_ONCE)
				fake_answer_some(host, UINT_MAX);
		} while (!fake_ring_listen(queue));
	}
	if (host->answers == FAKE_LATE)
		schedule_delayed_work(&host->late, FAKE_DELAY);
	fake_interrupts(host);
	wake_up_all(&host->wait);
	return true;
}

static void fake_late(struct work_struct *work)
{
	struct fake_host *host = container_of(to_delayed_work(work),
					      struct fake_host, late);

	fake_step(host, UINT_MAX);
}

/**
 * fake_step() - answer requests, but for those for statistics
 * @host: the host
 * @count: how many at most
 *
 * Return: how many there were to answer.
 */
unsigned int fake_step(struct fake_host *host, unsigned int count)
{
	unsigned int answered;

	scoped_guard(spinlock, &host->lock)
		answered = fake_answer_some(host, count);
	fake_interrupts(host);
	wake_up_all(&host->wait);
	return answered;
}

/**
 * fake_ask_stats() - give the statistics buffer back, for new figures
 * @host: the host, which has the buffer
 */
void fake_ask_stats(struct fake_host *host)
{
	struct fake_queue *queue = &host->queue[FAKE_STATS];

	scoped_guard(spinlock, &host->lock) {
		KUNIT_ASSERT_EQ(host->test, queue->outstanding, 1);
		fake_answer(host->stats_request);
	}
	fake_interrupts(host);
}

/**
 * fake_answer_unposted() - answer a request that there is not
 * @host: the host
 * @id: the queue in which it does so
 */
void fake_answer_unposted(struct fake_host *host, enum fake_queue_id id)
{
	struct fake_queue *queue = &host->queue[id];

	scoped_guard(spinlock, &host->lock)
		fake_ring_answer(queue, virtqueue_get_vring_size(queue->vq) - 1,
				 1, 0);
	set_bit(0, &queue->raise);
	fake_interrupts(host);
}

/**
 * fake_spurious() - call the driver's callback for no reason
 * @host: the host
 * @id: the queue; one that the driver does not use has no callback
 */
void fake_spurious(struct fake_host *host, enum fake_queue_id id)
{
	struct virtqueue *vq = host->queue[id].vq;

	if (vq)
		vq->callback(vq);
}

/**
 * fake_set_units() - change the target
 * @host: the host
 * @units: num_pages
 */
void fake_set_units(struct fake_host *host, u32 units)
{
	scoped_guard(spinlock, &host->lock)
		host->config.num_pages = cpu_to_le32(units);
	virtio_config_changed(&host->vdev);
}

/**
 * fake_set_target() - change the target
 * @host: the host
 * @pages: in guest pages
 */
void fake_set_target(struct fake_host *host, unsigned long pages)
{
	fake_set_units(host, pages * VIRTIO_BALLOON_UNITS);
}

static bool fake_has_poison(struct fake_host *host)
{
	return host->features & BIT_ULL(VIRTIO_BALLOON_F_PAGE_POISON);
}

static bool fake_has_queue(struct fake_host *host, enum fake_queue_id id)
{
	if (id == FAKE_STATS)
		return host->features & BIT_ULL(VIRTIO_BALLOON_F_STATS_VQ);
	if (id == FAKE_HINT)
		return host->features & BIT_ULL(VIRTIO_BALLOON_F_FREE_PAGE_HINT);
	if (id == FAKE_REPORT)
		return host->features & BIT_ULL(VIRTIO_BALLOON_F_REPORTING);
	return true;
}

/* Configuration space: whole fields of 4 bytes, and no others [VB-O10] */
static bool fake_config_ok(struct fake_host *host, unsigned int offset,
			   unsigned int len)
{
	if (len == 4 && offset % 4 == 0 &&
	    offset + len <= offsetofend(struct virtio_balloon_config, actual))
		return true;
	if (len == 4 && fake_has_poison(host) &&
	    offset == offsetof(struct virtio_balloon_config, poison_val))
		return true;
	if (len == 4 && fake_has_queue(host, FAKE_HINT) &&
	    offset == offsetof(struct virtio_balloon_config,
			       free_page_hint_cmd_id))
		return true;
	scoped_guard(spinlock, &host->lock)
		fake_fault(host, "VB-O10: odd access to the configuration",
			   offset);
	return false;
}

static void fake_config_get(struct virtio_device *vdev, unsigned int offset,
			    void *buf, unsigned int len)
{
	struct fake_host *host = vdev_to_host(vdev);
	bool target = offset == offsetof(struct virtio_balloon_config,
					 num_pages);

	memset(buf, 0xff, len);
	if (host->gone || !fake_config_ok(host, offset, len))
		return;
	if (target && host->on_config_read)
		host->on_config_read(host);
	scoped_guard(spinlock, &host->lock) {
		memcpy(buf, (void *)&host->config + offset, len);
		host->config_reads += target;
	}
	wake_up_all(&host->wait);
}

static void fake_config_set_other(struct fake_host *host, unsigned int offset)
{
	if (offset != offsetof(struct virtio_balloon_config, poison_val))
		fake_fault(host, "field is not the driver's", offset);
	if (host->status & VIRTIO_CONFIG_S_DRIVER_OK)
		fake_fault(host, "VB-P3: poison_val written while in use",
			   le32_to_cpu(host->config.poison_val));
	host->poisoned = true;
}

static void fake_config_set(struct virtio_device *vdev, unsigned int offset,
			    const void *buf, unsigned int len)
{
	struct fake_host *host = vdev_to_host(vdev);

	if (host->gone || !fake_config_ok(host, offset, len))
		return;
	scoped_guard(spinlock, &host->lock) {
		memcpy((void *)&host->config + offset, buf, len);
		if (offset == offsetof(struct virtio_balloon_config, actual))
			host->config_writes++;
		else
			fake_config_set_other(host, offset);
	}
	wake_up_all(&host->wait);
}

/* Call each callback for no reason, and let what it starts run. */
static void fake_call_all(struct fake_host *host)
{
	int q;

	for (q = 0; q < FAKE_QUEUES; q++)
		fake_spurious(host, q);
	schedule_timeout_uninterruptible(2);
}

static u32 fake_generation(struct virtio_device *vdev)
{
	return vdev_to_host(vdev)->config_reads;
}

static u8 fake_get_status(struct virtio_device *vdev)
{
	return vdev_to_host(vdev)->status;
}

static void fake_set_status(struct virtio_device *vdev, u8 status)
{
	struct fake_host *host = vdev_to_host(vdev);
	bool ready = status & ~host->status & VIRTIO_CONFIG_S_DRIVER_OK;

	if (ready && host->setup.early_interrupts)
		fake_call_all(host);
	if (ready && host->setup.hardened)
		__virtio_unbreak_device(vdev);
	if (ready && host->on_ready)
		host->on_ready(host);
	scoped_guard(spinlock, &host->lock) {
		if (ready && fake_has_poison(host) && !host->poisoned)
			fake_fault(host, "VB-P2: poison_val was not written",
				   host->resets);
		host->status = status;
	}
}

/* After this, the host does nothing more of its own accord. */
static void fake_reset(struct virtio_device *vdev)
{
	struct fake_host *host = vdev_to_host(vdev);
	struct fake_request *request;

	cancel_delayed_work_sync(&host->late);
	irq_work_sync(&host->hard);
	scoped_guard(spinlock, &host->lock) {
		if (host->status & VIRTIO_CONFIG_S_DRIVER_OK)
			fake_read_all(host);
		fake_pages_forget(host);
		list_for_each_entry(request, &host->requests, link)
			if (request->queue->id == FAKE_REPORT)
				fake_report_answer(host, request);
			else if (request->queue->id == FAKE_HINT)
				fake_hint_answer(host, request);
		INIT_LIST_HEAD(&host->requests);
		host->outstanding = 0;
		host->status = 0;
		host->resets++;
		host->config.poison_val = 0;
		host->poisoned = false;
		host->begun = VIRTIO_BALLOON_CMD_ID_STOP;
	}
	wake_up_all(&host->wait);
}

static u64 fake_get_features(struct virtio_device *vdev)
{
	const struct fake_setup *setup = &vdev_to_host(vdev)->setup;
	u64 features = setup->features;

	if (!setup->legacy)
		features |= BIT_ULL(VIRTIO_F_VERSION_1);
	if (setup->packed)
		features |= BIT_ULL(VIRTIO_F_RING_PACKED);
	if (!setup->no_event_idx)
		features |= BIT_ULL(VIRTIO_RING_F_EVENT_IDX);
	if (setup->must_tell_host)
		features |= BIT_ULL(VIRTIO_BALLOON_F_MUST_TELL_HOST);
	if (!setup->no_stats)
		features |= BIT_ULL(VIRTIO_BALLOON_F_STATS_VQ);
	return features;
}

static int fake_finalize_features(struct virtio_device *vdev)
{
	vring_transport_features(vdev);
	vdev_to_host(vdev)->features = vdev->features;
	return 0;
}

static void fake_del_vqs(struct virtio_device *vdev)
{
	struct fake_host *host = vdev_to_host(vdev);
	int q;

	for (q = 0; q < FAKE_QUEUES; q++) {
		struct fake_queue *queue = &host->queue[q];

		if (!queue->vq)
			continue;
		vring_del_virtqueue(queue->vq);
		queue->vq = NULL;
		kfree(queue->pool);
		kfree(queue->pieces);
		queue->pieces = NULL;
		queue->outstanding = 0;
		queue->raise = 0;
	}
}

/* Room for the requests of a queue, and the pieces of reports */
static int fake_alloc_requests(struct fake_queue *queue, unsigned int num)
{
	unsigned int i;

	queue->pool = kcalloc(num, sizeof(*queue->pool), GFP_KERNEL);
	if (!queue->pool)
		return -ENOMEM;
	if (queue->id != FAKE_REPORT)
		return 0;
	queue->pieces = kcalloc(num * FAKE_PIECES, sizeof(*queue->pieces),
				GFP_KERNEL);
	if (!queue->pieces) {
		kfree(queue->pool);
		return -ENOMEM;
	}
	for (i = 0; i < num; i++)
		queue->pool[i].pieces = &queue->pieces[i * FAKE_PIECES];
	return 0;
}

static int fake_add_vq(struct fake_host *host, enum fake_queue_id id,
		       unsigned int index, const struct virtqueue_info *info)
{
	struct fake_queue *queue = &host->queue[id];
	unsigned int num = host->setup.ring ?: FAKE_RING;
	int err;

	if (index + 1 == host->setup.fail_queue)
		return -ENOENT;
	err = fake_alloc_requests(queue, num);
	if (err)
		return err;
	queue->vq = vring_create_virtqueue(index, num, PAGE_SIZE, &host->vdev,
					   true, false, info->ctx, fake_notify,
					   info->callback, info->name);
	if (!queue->vq) {
		kfree(queue->pieces);
		kfree(queue->pool);
		return -ENOMEM;
	}
	if (host->setup.early_interrupts)
		queue->vq->callback(queue->vq);
	queue->vq->num_max = num;
	queue->vq->priv = queue;
	if (host->setup.hardened)
		__virtqueue_break(queue->vq);
	return fake_ring_init(queue);
}

/* Numbers are dense: a queue without a name takes none [VB-I2]. */
static int fake_find_vqs(struct virtio_device *vdev, unsigned int nvqs,
			 struct virtqueue *vqs[],
			 struct virtqueue_info infos[],
			 struct irq_affinity *desc)
{
	struct fake_host *host = vdev_to_host(vdev);
	enum fake_queue_id id = 0;
	unsigned int i, index = 0;
	int err = 0;

	for (i = 0; i < nvqs && !err; i++) {
		vqs[i] = NULL;
		if (!infos[i].name)
			continue;
		while (id < FAKE_QUEUES && !fake_has_queue(host, id))
			id++;
		if (id == FAKE_QUEUES)
			err = -ENOENT;
		else
			err = fake_add_vq(host, id, index++, &infos[i]);
		if (!err)
			vqs[i] = host->queue[id++].vq;
	}
	if (err)
		fake_del_vqs(vdev);
	return err;
}

static const char *fake_bus_name(struct virtio_device *vdev)
{
	return "fake";
}

static const struct virtio_config_ops fake_config_ops = {
	.get = fake_config_get,
	.set = fake_config_set,
	.generation = fake_generation,
	.get_status = fake_get_status,
	.set_status = fake_set_status,
	.reset = fake_reset,
	.find_vqs = fake_find_vqs,
	.del_vqs = fake_del_vqs,
	.get_features = fake_get_features,
	.finalize_features = fake_finalize_features,
	.bus_name = fake_bus_name,
};

static const struct virtio_config_ops fake_no_config_ops = {
	.get_status = fake_get_status,
	.set_status = fake_set_status,
	.reset = fake_reset,
	.get_features = fake_get_features,
	.finalize_features = fake_finalize_features,
};

static void fake_release(struct device *dev)
{
	complete(&vdev_to_host(dev_to_virtio(dev))->released);
}

static void fake_free_iotlb(void *iotlb)
{
	vhost_iotlb_free(iotlb);
}

/* Descriptors hold physical addresses: each stands for itself. */
static int fake_iotlb_init(struct fake_host *host)
{
	int err;

	host->iotlb = vhost_iotlb_alloc(1, 0);
	if (!host->iotlb)
		return -ENOMEM;
	err = kunit_add_action_or_reset(host->test, fake_free_iotlb,
					host->iotlb);
	if (err)
		return err;
	return vhost_iotlb_add_range(host->iotlb, 0, ULLONG_MAX - 1, 0,
				     VHOST_MAP_RW);
}

static struct fake_host *fake_alloc(struct kunit *test,
				    const struct fake_setup *setup)
{
	struct fake_host *host = kunit_kzalloc(test, sizeof(*host), GFP_KERNEL);
	int q;

	KUNIT_ASSERT_NOT_NULL(test, host);
	host->test = test;
	for (q = 0; q < FAKE_QUEUES; q++) {
		host->queue[q].host = host;
		host->queue[q].id = q;
	}
	if (setup)
		host->setup = *setup;
	host->config.num_pages = cpu_to_le32(host->setup.num_pages);
	host->config.actual = cpu_to_le32(host->setup.actual);
	spin_lock_init(&host->lock);
	spin_lock_init(&host->iotlb_lock);
	init_waitqueue_head(&host->wait);
	init_completion(&host->released);
	INIT_LIST_HEAD(&host->requests);
	INIT_DELAYED_WORK(&host->late, fake_late);
	host->hard = IRQ_WORK_INIT_HARD(fake_hard);
	KUNIT_ASSERT_EQ(test, 0, fake_iotlb_init(host));
	return host;
}

/**
 * fake_setup_with() - the case's kind of device, with more features
 * @test: the case, with a parameter of fake_gen_params() or none
 * @features: what it offers besides
 *
 * Return: the setup.
 */
struct fake_setup fake_setup_with(struct kunit *test, u64 features)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = {};

	if (param)
		setup = *param;
	setup.features |= features;
	return setup;
}

/**
 * fake_new_with() - fake_new() of fake_setup_with()
 * @test: see there
 * @features: see there
 *
 * Return: the host.
 */
struct fake_host *fake_new_with(struct kunit *test, u64 features)
{
	struct fake_setup setup = fake_setup_with(test, features);

	return fake_new(test, &setup);
}

/**
 * fake_sleep() - let time pass
 * @delay: in jiffies
 */
void fake_sleep(unsigned long delay)
{
	schedule_timeout_idle(delay);
}

/**
 * fake_new() - make a device and have the driver probe it
 * @test: the case; its suite has fake_exit() as .exit
 * @setup: what kind of device; NULL for a modern one with split rings
 *
 * Return: the host. The case fails if the driver does not take the device,
 * unless it may.
 */
struct fake_host *fake_new(struct kunit *test, const struct fake_setup *setup)
{
	struct fake_host *host = fake_alloc(test, setup);
	struct device *parent = kunit_device_register(test, "fake_host");

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, parent);
	KUNIT_ASSERT_EQ(test, 0, fake_pages_init(host));
	KUNIT_ASSERT_EQ(test, 0, fake_watch_begin(host));
	host->vdev.id.device = VIRTIO_ID_BALLOON;
	host->vdev.config = host->setup.no_config ? &fake_no_config_ops :
						    &fake_config_ops;
	host->vdev.dev.parent = parent;
	host->vdev.dev.release = fake_release;
	test->priv = host;
	KUNIT_ASSERT_EQ(test, 0, register_virtio_device(&host->vdev));
	host->registered = true;
	if (!host->setup.may_fail)
		KUNIT_ASSERT_TRUE_MSG(test, fake_is_bound(host),
				      "the driver did not take the device");
	return host;
}

/**
 * fake_exit() - end of a case: take the device away, check what is left
 * @test: the case
 */
void fake_exit(struct kunit *test)
{
	struct fake_host *host = test->priv;

	if (!host || !host->registered)
		return;
	host->registered = false;
	unregister_virtio_device(&host->vdev);
	wait_for_completion(&host->released);
	fake_check(host);
	fake_check_nothing_left(host);
	fake_watch_end(host);
}

/**
 * fake_is_bound() - whether the device has a driver
 * @host: the host
 *
 * Return: true if so.
 */
bool fake_is_bound(struct fake_host *host)
{
	return host->vdev.dev.driver;
}

/**
 * fake_bind() - have the driver probe the device
 * @host: the host, not bound
 */
void fake_bind(struct fake_host *host)
{
	int ret = device_attach(&host->vdev.dev);

	if (!host->setup.may_fail)
		KUNIT_ASSERT_EQ(host->test, ret, 1);
}

/**
 * fake_unbind() - take the driver off the device, in bounded time
 * @host: the host, bound
 */
void fake_unbind(struct fake_host *host)
{
	unsigned long begin = jiffies;

	device_release_driver(&host->vdev.dev);
	KUNIT_EXPECT_LE(host->test, jiffies - begin, FAKE_UNBIND_MAX);
	fake_check(host);
	fake_check_nothing_left(host);
}

#ifdef CONFIG_PM_SLEEP
/**
 * fake_freeze() - put the device to sleep, as before hibernation
 * @host: the host, bound
 */
void fake_freeze(struct fake_host *host)
{
	unsigned long begin = jiffies;

	KUNIT_EXPECT_EQ(host->test, 0, virtio_device_freeze(&host->vdev));
	KUNIT_EXPECT_LE(host->test, jiffies - begin, FAKE_UNBIND_MAX);
	KUNIT_EXPECT_EQ_MSG(host->test, host->status, 0, "not reset");
	fake_check(host);
	fake_check_nothing_left(host);
}

/**
 * fake_restore() - wake the device up
 * @host: the host, frozen
 *
 * Return: 0, or what the driver says.
 */
int fake_restore(struct fake_host *host)
{
	return virtio_device_restore(&host->vdev);
}
#endif

/**
 * fake_shutdown() - what the bus does to the device at shutdown
 * @host: the host, bound
 */
void fake_shutdown(struct fake_host *host)
{
	host->vdev.dev.bus->shutdown(&host->vdev.dev);
}

/**
 * fake_break() - have the rings break, as by a host that went mad
 * @host: the host
 */
void fake_break(struct fake_host *host)
{
	virtio_break_device(&host->vdev);
}

/**
 * fake_pull() - remove the device without a warning
 * @host: the host; the bus would call the driver's remove next
 */
void fake_pull(struct fake_host *host)
{
	host->gone = true;
	virtio_break_device(&host->vdev);
}

/**
 * fake_held() - how much the host has
 * @host: the host
 *
 * Return: guest pages.
 */
unsigned long fake_held(struct fake_host *host)
{
	return READ_ONCE(host->owned[FAKE_HELD]) / VIRTIO_BALLOON_UNITS;
}

/**
 * fake_at_rest() - whether the balloon is at its target, and all is said
 * @host: the host
 *
 * A target that is no multiple of the page size is rounded down. The guest has
 * drawn its conclusions from the host's answers when MemTotal is right.
 *
 * Return: true if so.
 */
bool fake_at_rest(struct fake_host *host)
{
	bool at_rest;

	spin_lock(&host->lock);
	at_rest = !host->outstanding &&
		  host->owned[FAKE_HELD] ==
			rounddown(le32_to_cpu(host->config.num_pages),
				  VIRTIO_BALLOON_UNITS) &&
		  host->owned[FAKE_HELD] == le32_to_cpu(host->config.actual) &&
		  totalram_pages() + fake_unmanaged(host) == host->totalram;
	spin_unlock(&host->lock);
	return at_rest;
}

/**
 * fake_settle() - wait until the balloon is at its target, and check all
 * @host: the host; what needs to be answered by hand is
 */
void fake_settle(struct fake_host *host)
{
	unsigned long end = jiffies + FAKE_PATIENCE;

	while (!fake_at_rest(host) && time_before(jiffies, end)) {
		if (host->answers == FAKE_STEPPED)
			fake_step(host, 1);
		wait_event_timeout(host->wait, fake_at_rest(host) ||
				   (host->answers == FAKE_STEPPED &&
				    host->outstanding), HZ / 50 + 1);
	}
	KUNIT_ASSERT_TRUE_MSG(host->test, fake_at_rest(host),
			      "target %u actual %u held %lu outstanding %u MemTotal off by %ld",
			      le32_to_cpu(host->config.num_pages),
			      le32_to_cpu(host->config.actual),
			      host->owned[FAKE_HELD], host->outstanding,
			      totalram_pages() + fake_unmanaged(host) -
			      host->totalram);
	scoped_guard(spinlock, &host->lock)
		fake_pages_check(host);
	fake_check(host);
	fake_check_guest(host);
}

/**
 * fake_check() - fail the case for what the driver did wrong
 * @host: the host
 */
void fake_check(struct fake_host *host)
{
	unsigned int i;

	for (i = 0; i < host->nr_faults && i < FAKE_FAULTS; i++)
		KUNIT_FAIL(host->test, "%s (%llu)", host->faults[i].what,
			   host->faults[i].value);
	if (host->nr_faults > FAKE_FAULTS)
		KUNIT_FAIL(host->test, "%u faults in all", host->nr_faults);
	host->nr_faults = 0;
}

/**
 * fake_held_page() - find a page that is in the balloon
 * @host: the host
 * @nth: which one, from 0
 *
 * Return: the page; the case fails if there are not so many.
 */
struct page *fake_held_page(struct fake_host *host, unsigned long nth)
{
	unsigned long unit;

	for (unit = 0; unit < host->nr_units; unit += VIRTIO_BALLOON_UNITS)
		if ((host->owner[unit] & 3) == FAKE_HELD && !nth--)
			return pfn_to_page(unit / VIRTIO_BALLOON_UNITS);
	KUNIT_FAIL_AND_ABORT(host->test, "not so many pages in the balloon");
}

/**
 * fake_batch() - how much the driver inflates by one request
 * @host: the host, bound
 *
 * Return: guest pages.
 */
unsigned long fake_batch(struct fake_host *host)
{
	struct virtio_balloon *vb = host->vdev.priv;

	return vb->capacity;
}

/**
 * fake_stat() - look a statistic up
 * @host: the host
 * @tag: which
 *
 * Return: its value; the case fails if it is not there.
 */
u64 fake_stat(struct fake_host *host, u16 tag)
{
	unsigned int i;

	for (i = 0; i < host->nr_stats; i++)
		if (virtio16_to_cpu(&host->vdev, host->stats[i].tag) == tag)
			return virtio64_to_cpu(&host->vdev, host->stats[i].val);
	KUNIT_FAIL_AND_ABORT(host->test, "no statistic with tag %u", tag);
}
