// SPDX-License-Identifier: GPL-2.0
/*
 * Free page reporting, and page poison: what the host is told of the guest's
 * free pages, and what they hold.
 *
 * The page reporting core takes free blocks off the free lists, has
 * virtio_balloon_report() tell the host of them, and puts them back. The host
 * may throw away what they hold. If the guest expects its free pages to hold a
 * value (init_on_free, page_poison), it says so as poison_val, and the host
 * keeps to it; one that cannot is told of no free pages.
 */
#include <linux/mm.h>
#include <linux/poison.h>
#include <linux/scatterlist.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#include "virtio_balloon.h"

/* How long a report waits before it looks whether the device is being stopped */
#define VIRTIO_BALLOON_REPORT_PATIENCE	HZ

/**
 * virtio_balloon_expects_poison() - whether free pages have to keep a value
 *
 * Return: true if the guest fills free pages, and relies on it.
 */
bool virtio_balloon_expects_poison(void)
{
	return want_init_on_free() || page_poisoning_enabled_static();
}

/**
 * virtio_balloon_report_validate() - settle what depends on the guest's setup
 * @vdev: the device, its features not confirmed yet
 *
 * PAGE_POISON is for guests that fill free pages [VB-F2], and one that does has
 * no use for reporting without it [VB-F3].
 */
void virtio_balloon_report_validate(struct virtio_device *vdev)
{
	/* Reports are chains of descriptors: an indirect one is allocated */
	__virtio_clear_bit(vdev, VIRTIO_RING_F_INDIRECT_DESC);

	if (!virtio_balloon_expects_poison()) {
		__virtio_clear_bit(vdev, VIRTIO_BALLOON_F_PAGE_POISON);
	} else if (virtio_has_feature(vdev, VIRTIO_BALLOON_F_REPORTING) &&
		   !virtio_has_feature(vdev, VIRTIO_BALLOON_F_PAGE_POISON)) {
		dev_info(&vdev->dev,
			 "no free page reporting: the host would not keep what free pages are filled with\n");
		__virtio_clear_bit(vdev, VIRTIO_BALLOON_F_REPORTING);
	}
}

static bool virtio_balloon_poison_active(struct virtio_device *vdev)
{
	return virtio_has_feature(vdev, VIRTIO_BALLOON_F_PAGE_POISON);
}

/* Say what free pages hold, after each reset anew [VB-P2]. */
static int virtio_balloon_poison_prime(struct virtio_balloon *vb)
{
	u32 value = 0;

	if (page_poisoning_enabled_static())
		memset(&value, PAGE_POISON, sizeof(value));
	virtio_cwrite_le(vb->vdev, struct virtio_balloon_config, poison_val,
			 &value);
	return 0;
}

const struct virtio_balloon_feature virtio_balloon_poison_feature = {
	.name = "poison",
	.active = virtio_balloon_poison_active,
	.prime = virtio_balloon_poison_prime,
};

static void virtio_balloon_report_used(struct virtqueue *vq)
{
	virtio_balloon_interrupt(vq->vdev->priv);
}

/*
 * Wait for the answer. Until it comes the blocks are the host's [VB-R2]. Only on
 * the way down a silent host is given up. Without an answer, because of that or
 * of broken queues, the device is reset: then they are the guest's again.
 */
static int virtio_balloon_await_report(struct virtio_balloon *vb)
{
	bool stopping;
	int err;

	do {
		stopping = READ_ONCE(vb->stopping);
		err = virtio_balloon_wait(vb, &vb->report,
					  VIRTIO_BALLOON_REPORT_PATIENCE);
	} while (err == -ETIMEDOUT && !stopping);

	if (err) {
		virtio_break_device(vb->vdev);
		virtio_reset_device(vb->vdev);
	}
	return err;
}

static unsigned int virtio_balloon_blocks_size(const struct scatterlist *sg,
					       unsigned int nents)
{
	unsigned int pages = 0, i;

	for (i = 0; i < nents; i++)
		pages += sg[i].length >> PAGE_SHIFT;
	return pages;
}

/* Tell the host of free blocks: of as many at a time as its queue takes. */
static int virtio_balloon_report(struct page_reporting_dev_info *reporter,
				 struct scatterlist *sg, unsigned int nents)
{
	struct virtio_balloon *vb =
		container_of(reporter, struct virtio_balloon, reporter);
	unsigned int size = virtio_balloon_report_size(vb);
	int err = 0;

	while (nents && !err) {
		unsigned int n = min(nents, size);

		sg_mark_end(&sg[n - 1]);
		vb->report.count = virtio_balloon_blocks_size(sg, n);
		err = virtio_balloon_post_report(vb, sg, n);
		if (!err)
			err = virtio_balloon_await_report(vb);
		if (!err)
			WRITE_ONCE(vb->reported,
				   vb->reported + vb->report.count);
		sg += n;
		nents -= n;
	}
	return err;
}

static bool virtio_balloon_report_active(struct virtio_device *vdev)
{
	return virtio_has_feature(vdev, VIRTIO_BALLOON_F_REPORTING);
}

/* Another reporter is no reason to go without a balloon. */
static int virtio_balloon_report_start(struct virtio_balloon *vb)
{
	int err;

	vb->reporter.report = virtio_balloon_report;
	err = page_reporting_register(&vb->reporter);
	if (err)
		dev_warn(&vb->vdev->dev, "no free page reporting: error %d\n",
			 err);
	return 0;
}

static void virtio_balloon_report_quiesce(struct virtio_balloon *vb)
{
	page_reporting_unregister(&vb->reporter);
}

const struct virtio_balloon_feature virtio_balloon_report_feature = {
	.name = "report",
	.active = virtio_balloon_report_active,
	.queues = {
		{ VIRTIO_BALLOON_Q_REPORT, "reporting",
		  virtio_balloon_report_used },
	},
	.nr_queues = 1,
	.start = virtio_balloon_report_start,
	.quiesce = virtio_balloon_report_quiesce,
};
