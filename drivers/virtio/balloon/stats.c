// SPDX-License-Identifier: GPL-2.0
/*
 * Memory statistics. The one buffer is the host's until it wants fresh
 * figures; then it gives the buffer back, and gets it filled anew. The answer
 * comes from a queue of its own, so that it waits neither for the balloon to
 * move nor for memory.
 */
#include <linux/mm.h>
#include <linux/vmstat.h>

#include "virtio_balloon.h"

static_assert(sizeof(struct virtio_balloon_stat) == 10);

static void virtio_balloon_stat(struct virtio_balloon *vb, u16 tag, u64 val)
{
	struct virtio_balloon_stat *stat = &vb->stats[vb->nr_stats++];

	stat->tag = cpu_to_virtio16(vb->vdev, tag);
	stat->val = cpu_to_virtio64(vb->vdev, val);
}

static void virtio_balloon_stat_pages(struct virtio_balloon *vb, u16 tag,
				      u64 pages)
{
	virtio_balloon_stat(vb, tag, pages << PAGE_SHIFT);
}

#ifdef CONFIG_HUGETLB_PAGE
static void virtio_balloon_hugetlb_stats(struct virtio_balloon *vb,
					 const unsigned long *events)
{
	virtio_balloon_stat(vb, VIRTIO_BALLOON_S_HTLB_PGALLOC,
			    events[HTLB_BUDDY_PGALLOC]);
	virtio_balloon_stat(vb, VIRTIO_BALLOON_S_HTLB_PGFAIL,
			    events[HTLB_BUDDY_PGALLOC_FAIL]);
}
#else
static void virtio_balloon_hugetlb_stats(struct virtio_balloon *vb,
					 const unsigned long *events)
{
}
#endif

#ifdef CONFIG_VM_EVENT_COUNTERS
static void virtio_balloon_event_stats(struct virtio_balloon *vb)
{
	unsigned long events[NR_VM_EVENT_ITEMS];
	u64 stalls = 0;
	int zone;

	all_vm_events(events);
	for (zone = 0; zone < MAX_NR_ZONES; zone++)
		stalls += events[ALLOCSTALL_NORMAL - ZONE_NORMAL + zone];

	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_SWAP_IN, events[PSWPIN]);
	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_SWAP_OUT,
				  events[PSWPOUT]);
	virtio_balloon_stat(vb, VIRTIO_BALLOON_S_MAJFLT, events[PGMAJFAULT]);
	virtio_balloon_stat(vb, VIRTIO_BALLOON_S_MINFLT, events[PGFAULT]);
	virtio_balloon_hugetlb_stats(vb, events);
	virtio_balloon_stat(vb, VIRTIO_BALLOON_S_OOM_KILL, events[OOM_KILL]);
	virtio_balloon_stat(vb, VIRTIO_BALLOON_S_ALLOC_STALL, stalls);
	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_ASYNC_SCAN,
				  events[PGSCAN_KSWAPD]);
	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_DIRECT_SCAN,
				  events[PGSCAN_DIRECT]);
	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_ASYNC_RECLAIM,
				  events[PGSTEAL_KSWAPD]);
	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_DIRECT_RECLAIM,
				  events[PGSTEAL_DIRECT]);
}
#else
static void virtio_balloon_event_stats(struct virtio_balloon *vb)
{
}
#endif

/* Fill the buffer: every entry is written, the same ones each time [VB-S3]. */
static void virtio_balloon_fill_stats(struct virtio_balloon *vb)
{
	struct sysinfo info;

	si_meminfo(&info);
	vb->nr_stats = 0;
	virtio_balloon_event_stats(vb);
	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_MEMFREE, info.freeram);
	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_MEMTOT, info.totalram);
	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_AVAIL,
				  si_mem_available());
	virtio_balloon_stat_pages(vb, VIRTIO_BALLOON_S_CACHES,
				  global_node_page_state(NR_FILE_PAGES));
}

static void virtio_balloon_stats_work(struct work_struct *work)
{
	struct virtio_balloon *vb = container_of(work, struct virtio_balloon,
						 stats_work);

	if (READ_ONCE(vb->stopping) || !virtio_balloon_reap_stats(vb))
		return;
	virtio_balloon_fill_stats(vb);
	if (!virtio_balloon_post_stats(vb))
		virtio_balloon_kick_stats(vb);
}

static void virtio_balloon_stats_used(struct virtqueue *vq)
{
	struct virtio_balloon *vb = vq->vdev->priv;

	if (!READ_ONCE(vb->stopping))
		queue_work(vb->stats_wq, &vb->stats_work);
}

static bool virtio_balloon_stats_active(struct virtio_device *vdev)
{
	return virtio_has_feature(vdev, VIRTIO_BALLOON_F_STATS_VQ);
}

static int virtio_balloon_stats_init(struct virtio_balloon *vb)
{
	INIT_WORK(&vb->stats_work, virtio_balloon_stats_work);
	vb->stats_wq = alloc_workqueue("virtio_balloon_stats",
				       WQ_FREEZABLE | WQ_HIGHPRI |
				       WQ_MEM_RECLAIM, 1);
	return vb->stats_wq ? 0 : -ENOMEM;
}

/*
 * The buffer is to be there before DRIVER_OK [VB-S2]. A core that distrusts
 * devices takes none so early; then it follows at once.
 */
static int virtio_balloon_stats_prime(struct virtio_balloon *vb)
{
	virtio_balloon_fill_stats(vb);
	vb->stats_posted = !virtio_balloon_post_stats(vb);
	return 0;
}

static int virtio_balloon_stats_start(struct virtio_balloon *vb)
{
	int err = 0;

	if (!vb->stats_posted)
		err = virtio_balloon_post_stats(vb);
	if (!err)
		virtio_balloon_kick_stats(vb);
	return err;
}

static void virtio_balloon_stats_quiesce(struct virtio_balloon *vb)
{
	cancel_work_sync(&vb->stats_work);
}

static void virtio_balloon_stats_exit(struct virtio_balloon *vb)
{
	/* A late interrupt may have queued it once more */
	cancel_work_sync(&vb->stats_work);
	if (vb->stats_wq)
		destroy_workqueue(vb->stats_wq);
	vb->stats_wq = NULL;
}

const struct virtio_balloon_feature virtio_balloon_stats_feature = {
	.name = "stats",
	.active = virtio_balloon_stats_active,
	.queues = {
		{ VIRTIO_BALLOON_Q_STATS, "stats", virtio_balloon_stats_used },
	},
	.nr_queues = 1,
	.init = virtio_balloon_stats_init,
	.prime = virtio_balloon_stats_prime,
	.start = virtio_balloon_stats_start,
	.quiesce = virtio_balloon_stats_quiesce,
	.exit = virtio_balloon_stats_exit,
};
