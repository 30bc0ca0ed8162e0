// SPDX-License-Identifier: GPL-2.0
/*
 * Virtio memory balloon: the driver's frame. The features are in balloon/, and
 * balloon/virtio_balloon.h explains how they fit together.
 *
 * There is one way up and one way down. Probe and restore go up; remove,
 * freeze, and a way up that failed at any point go down. (At shutdown the
 * virtio bus breaks the queues and resets the device, which ends every wait.)
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>

#include "balloon/virtio_balloon.h"

/* In the order in which queues are numbered */
static const struct virtio_balloon_feature *const virtio_balloon_features[] = {
	&virtio_balloon_pages_feature,
	&virtio_balloon_stats_feature,
	&virtio_balloon_hint_feature,
	&virtio_balloon_poison_feature,
	&virtio_balloon_report_feature,
	/* the last: quiesced before all others */
	&virtio_balloon_oom_feature,
};

static_assert(ARRAY_SIZE(virtio_balloon_features) <= VIRTIO_BALLOON_FEATURES);

/* See what was negotiated: the one place that asks, but for the features. */
static void virtio_balloon_negotiated(struct virtio_balloon *vb)
{
	struct virtio_device *vdev = vb->vdev;
	unsigned int f;

	vb->must_tell_host =
		virtio_has_feature(vdev, VIRTIO_BALLOON_F_MUST_TELL_HOST);
	vb->deflate_on_oom =
		virtio_has_feature(vdev, VIRTIO_BALLOON_F_DEFLATE_ON_OOM);

	vb->nr_active = 0;
	for (f = 0; f < ARRAY_SIZE(virtio_balloon_features); f++) {
		const struct virtio_balloon_feature *feature =
			virtio_balloon_features[f];

		if (!feature->active || feature->active(vdev))
			vb->active[vb->nr_active++] = feature;
	}
}

static int virtio_balloon_prime(struct virtio_balloon *vb)
{
	unsigned int f;
	int err = 0;

	for (f = 0; f < vb->nr_active && !err; f++)
		if (vb->active[f]->prime)
			err = vb->active[f]->prime(vb);
	return err;
}

static int virtio_balloon_start(struct virtio_balloon *vb)
{
	int err = 0;

	while (vb->nr_started < vb->nr_active && !err) {
		const struct virtio_balloon_feature *feature =
			vb->active[vb->nr_started++];

		if (feature->start)
			err = feature->start(vb);
	}
	return err;
}

/*
 * The way down, from wherever the way up got to. Nothing is left: no page with
 * the host, no queue, no work. May be called again.
 */
static void virtio_balloon_down(struct virtio_balloon *vb)
{
	unsigned int f;

	WRITE_ONCE(vb->stopping, true);
	wake_up_all(&vb->answers);

	for (f = vb->nr_started; f--; )
		if (vb->active[f]->quiesce)
			vb->active[f]->quiesce(vb);
	for (f = vb->nr_started; f--; )
		if (vb->active[f]->stop)
			vb->active[f]->stop(vb);
	vb->nr_started = 0;

	virtio_reset_device(vb->vdev);
	if (vb->has_queues)
		virtio_balloon_host_lose(vb);
	vb->has_queues = false;

	for (f = vb->nr_inited; f--; )
		if (vb->active[f]->exit)
			vb->active[f]->exit(vb);
	vb->nr_inited = 0;
}

static int virtio_balloon_init(struct virtio_balloon *vb)
{
	int err = 0;

	while (vb->nr_inited < vb->nr_active && !err) {
		const struct virtio_balloon_feature *feature =
			vb->active[vb->nr_inited++];

		if (feature->init)
			err = feature->init(vb);
	}
	if (err)
		return err;

	err = virtio_balloon_host_find(vb);
	vb->has_queues = !err;
	return err;
}

/* The way up: to DRIVER_OK and beyond, or back down. */
static int virtio_balloon_up(struct virtio_balloon *vb)
{
	int err;

	virtio_balloon_negotiated(vb);
	WRITE_ONCE(vb->stopping, false);

	err = virtio_balloon_init(vb);
	if (!err)
		err = virtio_balloon_prime(vb);
	if (!err) {
		virtio_device_ready(vb->vdev);
		err = virtio_balloon_start(vb);
	}
	if (err)
		virtio_balloon_down(vb);
	return err;
}

static int virtio_balloon_validate(struct virtio_device *vdev)
{
	if (!vdev->config->get) {
		dev_err(&vdev->dev, "no access to the configuration\n");
		return -EINVAL;
	}
	/* PFNs are physical addresses: no IOMMU stands between */
	__virtio_clear_bit(vdev, VIRTIO_F_ACCESS_PLATFORM);
	virtio_balloon_hint_validate(vdev);
	virtio_balloon_report_validate(vdev);
	return 0;
}

/* Pages that migration did not give back point to @vb: keep it for them. */
static void virtio_balloon_free(struct virtio_balloon *vb)
{
	if (!vb->pages)
		kfree(vb);
}

static int virtio_balloon_probe(struct virtio_device *vdev)
{
	struct virtio_balloon *vb = kzalloc(sizeof(*vb), GFP_KERNEL);
	int err;

	if (!vb)
		return -ENOMEM;
	vb->vdev = vdev;
	vdev->priv = vb;
	mutex_init(&vb->migration);
	mutex_init(&vb->accounts);
	balloon_devinfo_init(&vb->info);
	virtio_balloon_host_init(vb);

	err = virtio_balloon_up(vb);
	if (err)
		virtio_balloon_free(vb);
	return err;
}

static void virtio_balloon_remove(struct virtio_device *vdev)
{
	struct virtio_balloon *vb = vdev->priv;

	virtio_balloon_down(vb);
	virtio_balloon_free(vb);
}

static void virtio_balloon_changed(struct virtio_device *vdev)
{
	virtio_balloon_config_changed(vdev->priv);
	virtio_balloon_hint_changed(vdev->priv);
}

static int virtio_balloon_freeze(struct virtio_device *vdev)
{
	virtio_balloon_down(vdev->priv);
	return 0;
}

static int virtio_balloon_restore(struct virtio_device *vdev)
{
	return virtio_balloon_up(vdev->priv);
}

static const struct virtio_device_id virtio_balloon_ids[] = {
	{ VIRTIO_ID_BALLOON, VIRTIO_DEV_ANY_ID },
	{ 0 },
};
MODULE_DEVICE_TABLE(virtio, virtio_balloon_ids);

static const unsigned int virtio_balloon_bits[] = {
	VIRTIO_BALLOON_F_MUST_TELL_HOST,
	VIRTIO_BALLOON_F_DEFLATE_ON_OOM,
	VIRTIO_BALLOON_F_STATS_VQ,
	VIRTIO_BALLOON_F_PAGE_POISON,
	VIRTIO_BALLOON_F_REPORTING,
	VIRTIO_BALLOON_F_FREE_PAGE_HINT,
};

static struct virtio_driver virtio_balloon_driver = {
	.driver.name = KBUILD_MODNAME,
	.driver.dev_groups = virtio_balloon_groups,
	.id_table = virtio_balloon_ids,
	.feature_table = virtio_balloon_bits,
	.feature_table_size = ARRAY_SIZE(virtio_balloon_bits),
	.validate = virtio_balloon_validate,
	.probe = virtio_balloon_probe,
	.remove = virtio_balloon_remove,
	.config_changed = virtio_balloon_changed,
	.freeze = pm_sleep_ptr(virtio_balloon_freeze),
	.restore = pm_sleep_ptr(virtio_balloon_restore),
};
module_virtio_driver(virtio_balloon_driver);

MODULE_DESCRIPTION("Virtio memory balloon");
MODULE_LICENSE("GPL");
