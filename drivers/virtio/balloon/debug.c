// SPDX-License-Identifier: GPL-2.0
/*
 * What can be seen of the balloon from inside the guest: the state, with its
 * messages and tracepoints, and the attributes, which
 * Documentation/ABI/testing/sysfs-bus-virtio-drivers-balloon describes.
 */
#include <linux/device.h>
#include <linux/sysfs.h>

#include "virtio_balloon.h"

#define CREATE_TRACE_POINTS
#include <trace/events/virtio_balloon.h>

static const struct {
	const char *name;
	const char *reason;
} virtio_balloon_states[] = {
	[VIRTIO_BALLOON_STATE_IDLE] = { "idle", "at the target" },
	[VIRTIO_BALLOON_STATE_INFLATING] = { "inflating", "below the target" },
	[VIRTIO_BALLOON_STATE_DEFLATING] = {
		"deflating", "larger than it may be"
	},
	[VIRTIO_BALLOON_STATE_AT_FLOOR] = { "at floor", "short of memory" },
	[VIRTIO_BALLOON_STATE_HELD_OFF] = {
		"held off", "the guest was out of memory"
	},
	[VIRTIO_BALLOON_STATE_STOPPING] = {
		"stopping", "the device is being stopped"
	},
};

static void virtio_balloon_log_left(struct virtio_balloon *vb)
{
	if (vb->state == VIRTIO_BALLOON_STATE_AT_FLOOR)
		dev_info(&vb->vdev->dev, "no longer short of memory\n");
	if (vb->state == VIRTIO_BALLOON_STATE_HELD_OFF)
		dev_info(&vb->vdev->dev, "no longer holding off\n");
}

static void virtio_balloon_log_entered(struct virtio_balloon *vb)
{
	if (vb->state == VIRTIO_BALLOON_STATE_AT_FLOOR)
		dev_info(&vb->vdev->dev,
			 "short of memory at %lu of %lu pages, trying on\n",
			 vb->pages + vb->inflating, vb->target);
	if (vb->state == VIRTIO_BALLOON_STATE_HELD_OFF)
		dev_info(&vb->vdev->dev,
			 "out of memory, gave %lu pages back, holding off at %lu of %lu pages for %lu s at least\n",
			 vb->held, vb->pages, vb->target, vb->hold_for / HZ);
}

/**
 * virtio_balloon_set_state() - note what the balloon is about
 * @vb: the balloon
 * @state: what it is from now on; nothing but STOPPING while it is being stopped
 *
 * The one place where the state changes, but for a new start.
 *
 * Context: vb->accounts held, or the work item cancelled.
 */
void virtio_balloon_set_state(struct virtio_balloon *vb,
			      enum virtio_balloon_state state)
{
	if (READ_ONCE(vb->stopping))
		state = VIRTIO_BALLOON_STATE_STOPPING;
	if (vb->state == state)
		return;
	trace_virtio_balloon_state(vb->vdev,
				   virtio_balloon_states[vb->state].name,
				   virtio_balloon_states[state].name,
				   vb->pages, vb->target);
	virtio_balloon_log_left(vb);
	WRITE_ONCE(vb->state, state);
	virtio_balloon_log_entered(vb);
}

static const char *const virtio_balloon_hint_states[] = {
	[VIRTIO_BALLOON_HINT_REST] = "rest",
	[VIRTIO_BALLOON_HINT_BEGIN] = "begin",
	[VIRTIO_BALLOON_HINT_OFFER] = "offer",
	[VIRTIO_BALLOON_HINT_END] = "end",
	[VIRTIO_BALLOON_HINT_RETURN] = "return",
};

/**
 * virtio_balloon_set_hint_state() - note what free page hinting is about
 * @vb: the balloon
 * @state: what it is from now on
 *
 * Context: the work item of free page hinting.
 */
void virtio_balloon_set_hint_state(struct virtio_balloon *vb,
				   enum virtio_balloon_hint_state state)
{
	struct virtio_balloon_hint *hint = &vb->hint;

	if (hint->state == state)
		return;
	trace_virtio_balloon_hint(vb->vdev, hint->id,
				  virtio_balloon_hint_states[state],
				  READ_ONCE(hint->pages),
				  READ_ONCE(hint->pressed));
	hint->state = state;
}

static struct virtio_balloon *virtio_balloon_of(struct device *dev)
{
	return dev_to_virtio(dev)->priv;
}

static ssize_t virtio_balloon_emit(char *buf, unsigned long pages)
{
	return sysfs_emit(buf, "%llu\n", (u64)pages << PAGE_SHIFT);
}

static ssize_t target_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return virtio_balloon_emit(buf,
				   READ_ONCE(virtio_balloon_of(dev)->target));
}
static DEVICE_ATTR_RO(target);

static ssize_t actual_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return virtio_balloon_emit(buf,
				   READ_ONCE(virtio_balloon_of(dev)->pages));
}
static DEVICE_ATTR_RO(actual);

static ssize_t floor_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	return virtio_balloon_emit(buf,
				   virtio_balloon_floor(virtio_balloon_of(dev)));
}
static DEVICE_ATTR_RO(floor);

static ssize_t released_on_oom_show(struct device *dev,
				    struct device_attribute *attr, char *buf)
{
	struct virtio_balloon *vb = virtio_balloon_of(dev);

	return virtio_balloon_emit(buf, READ_ONCE(vb->released_on_oom));
}
static DEVICE_ATTR_RO(released_on_oom);

static ssize_t hinted_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return virtio_balloon_emit(buf,
				   READ_ONCE(virtio_balloon_of(dev)->hinted));
}
static DEVICE_ATTR_RO(hinted);

static ssize_t reported_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return virtio_balloon_emit(buf,
				   READ_ONCE(virtio_balloon_of(dev)->reported));
}
static DEVICE_ATTR_RO(reported);

static ssize_t state_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	struct virtio_balloon *vb = virtio_balloon_of(dev);

	return sysfs_emit(buf, "%s\n",
			  virtio_balloon_states[READ_ONCE(vb->state)].name);
}
static DEVICE_ATTR_RO(state);

static ssize_t reason_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	struct virtio_balloon *vb = virtio_balloon_of(dev);

	return sysfs_emit(buf, "%s\n",
			  virtio_balloon_states[READ_ONCE(vb->state)].reason);
}
static DEVICE_ATTR_RO(reason);

static struct attribute *virtio_balloon_attrs[] = {
	&dev_attr_target.attr,
	&dev_attr_actual.attr,
	&dev_attr_floor.attr,
	&dev_attr_released_on_oom.attr,
	&dev_attr_hinted.attr,
	&dev_attr_reported.attr,
	&dev_attr_state.attr,
	&dev_attr_reason.attr,
	NULL
};

static const struct attribute_group virtio_balloon_group = {
	.name = "balloon",
	.attrs = virtio_balloon_attrs,
};

const struct attribute_group *virtio_balloon_groups[] = {
	&virtio_balloon_group,
	NULL
};
