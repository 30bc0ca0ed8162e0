// SPDX-License-Identifier: GPL-2.0
/*
 * Deflate on OOM: before the OOM killer looks for a process, the allocator
 * calls the notifier, which gives it pages of the balloon [VB-O3]. OOM inside
 * a memory cgroup is not announced here, and leaves the balloon alone.
 *
 * What was given back is not taken again until the host asks for another size,
 * or memory was plentiful all through a hold-off, which doubles each time that
 * OOM follows soon after the one before. Plentiful is: what was given back, the
 * floor and a 32nd of the guest's memory are available together.
 *
 * The notifier runs in the middle of an allocation. It allocates nothing, and
 * takes no lock under which others allocate or wait. It waits for the host only
 * if there is nothing that it could give at once, and then not for long.
 */
#include <linux/mm.h>
#include <linux/oom.h>
#include <trace/events/virtio_balloon.h>

#include "virtio_balloon.h"

/* Guest pages that are given at once: at least, and at most */
#define VIRTIO_BALLOON_OOM_MIN		(SZ_4M / PAGE_SIZE)
#define VIRTIO_BALLOON_OOM_MAX		(SZ_256M / PAGE_SIZE)
/* One page in so many of the balloon is given at first, so much more next time */
#define VIRTIO_BALLOON_OOM_SHARE	16
#define VIRTIO_BALLOON_OOM_GROWTH	4
/* OOM that strikes again so soon wants more than last time */
#define VIRTIO_BALLOON_OOM_STORM	HZ
/* How long the notifier waits for a host: in all, and before it looks again */
#define VIRTIO_BALLOON_OOM_WAIT		(HZ / 2)
#define VIRTIO_BALLOON_OOM_PEEK		(HZ / 50 + 1)
/* How long what was given back is not taken again: from, to */
#define VIRTIO_BALLOON_HOLD_MIN		(10 * HZ)
#define VIRTIO_BALLOON_HOLD_MAX		(600 * HZ)

/**
 * virtio_balloon_hold() - hold inflation off, after OOM
 * @vb: the balloon
 * @pages: guest pages that were given back
 *
 * Context: vb->accounts held.
 */
void virtio_balloon_hold(struct virtio_balloon *vb, unsigned long pages)
{
	lockdep_assert_held(&vb->accounts);

	if (vb->ceiling == ULONG_MAX) {
		bool soon = time_before(jiffies,
					vb->hold_until + 2 * vb->hold_for);

		vb->hold_for = vb->hold_for && soon ?
			       min(2 * vb->hold_for, VIRTIO_BALLOON_HOLD_MAX) :
			       VIRTIO_BALLOON_HOLD_MIN;
		vb->held = 0;
	}
	vb->held += pages;
	vb->ceiling = vb->pages;
	vb->hold_until = jiffies + vb->hold_for;
}

/**
 * virtio_balloon_hold_reset() - hold nothing off, and forget that it was
 * @vb: the balloon
 */
void virtio_balloon_hold_reset(struct virtio_balloon *vb)
{
	vb->ceiling = ULONG_MAX;
	vb->hold_for = 0;
}

/**
 * virtio_balloon_hold_over() - see whether inflation may go on
 * @vb: the balloon, held off
 *
 * To be called every virtio_balloon_hold_delay() or more often.
 *
 * Context: vb->accounts held.
 * Return: true if so. It is not held off any more then.
 */
bool virtio_balloon_hold_over(struct virtio_balloon *vb)
{
	unsigned long plenty = vb->held + virtio_balloon_floor(vb) +
			       totalram_pages() / 32;

	lockdep_assert_held(&vb->accounts);

	if (si_mem_available() < plenty)
		vb->hold_until = jiffies + vb->hold_for;
	if (time_before(jiffies, vb->hold_until))
		return false;
	vb->ceiling = ULONG_MAX;
	return true;
}

/**
 * virtio_balloon_hold_delay() - when to see whether inflation may go on
 * @vb: the balloon, held off
 *
 * Return: jiffies from now.
 */
unsigned long virtio_balloon_hold_delay(const struct virtio_balloon *vb)
{
	return vb->hold_for / 10;
}

/*
 * Guest pages to give back: a part of the balloon that others on the host can
 * do without, but much more each time while a storm lasts. Each call comes
 * after the allocator has tried all else, which is what takes the time.
 */
static unsigned long virtio_balloon_oom_want(struct virtio_balloon *vb)
{
	unsigned long first = READ_ONCE(vb->pages) / VIRTIO_BALLOON_OOM_SHARE;
	unsigned long want = clamp(first, VIRTIO_BALLOON_OOM_MIN,
				   VIRTIO_BALLOON_OOM_MAX);

	if (vb->oom_chunk &&
	    time_before(jiffies, vb->oom_at + VIRTIO_BALLOON_OOM_STORM))
		want = min(VIRTIO_BALLOON_OOM_GROWTH * vb->oom_chunk,
			   VIRTIO_BALLOON_OOM_MAX);
	vb->oom_chunk = want;
	return want;
}

/* Whether the host has pages that it may be about to give back */
static bool virtio_balloon_oom_expects(struct virtio_balloon *vb)
{
	return READ_ONCE(vb->inflating) ||
	       (vb->must_tell_host && READ_ONCE(vb->deflating)) ||
	       READ_ONCE(vb->pages);
}

/*
 * Give back up to @want guest pages; returns how many. If all there is, is with
 * the host, it takes a while.
 */
static unsigned long virtio_balloon_oom_release(struct virtio_balloon *vb,
						unsigned long want)
{
	unsigned long end = jiffies + VIRTIO_BALLOON_OOM_WAIT;
	unsigned long given = READ_ONCE(vb->given), freed;

	for (;;) {
		freed = virtio_balloon_give_back(vb, want) - given;
		if (freed || !virtio_balloon_oom_expects(vb) ||
		    READ_ONCE(vb->stopping) || time_after_eq(jiffies, end))
			return freed;
		if (virtio_balloon_wait(vb, NULL, VIRTIO_BALLOON_OOM_PEEK) ==
		    -EIO)
			return freed;
		/* The answer may be memory enough */
		freed = virtio_balloon_give_back(vb, 0) - given;
		if (freed)
			return freed;
	}
}

static int virtio_balloon_oom_notify(struct notifier_block *nb,
				     unsigned long unused, void *data)
{
	struct virtio_balloon *vb = container_of(nb, struct virtio_balloon,
						 oom_nb);
	unsigned long *freed = data, want, got;

	if (READ_ONCE(vb->stopping))
		return NOTIFY_OK;
	want = virtio_balloon_oom_want(vb);
	got = virtio_balloon_oom_release(vb, want);
	WRITE_ONCE(vb->released_on_oom, vb->released_on_oom + got);
	trace_virtio_balloon_oom(vb->vdev, want, got, READ_ONCE(vb->pages));
	vb->oom_at = jiffies;
	*freed += got;
	return NOTIFY_OK;
}

static bool virtio_balloon_oom_active(struct virtio_device *vdev)
{
	return virtio_has_feature(vdev, VIRTIO_BALLOON_F_DEFLATE_ON_OOM);
}

static int virtio_balloon_oom_start(struct virtio_balloon *vb)
{
	vb->oom_chunk = 0;
	vb->oom_nb.notifier_call = virtio_balloon_oom_notify;
	return register_oom_notifier(&vb->oom_nb);
}

/* Ends soon: a notifier that is running waits for a moment at most. */
static void virtio_balloon_oom_quiesce(struct virtio_balloon *vb)
{
	unregister_oom_notifier(&vb->oom_nb);
}

const struct virtio_balloon_feature virtio_balloon_oom_feature = {
	.name = "oom",
	.active = virtio_balloon_oom_active,
	.start = virtio_balloon_oom_start,
	.quiesce = virtio_balloon_oom_quiesce,
};
