/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between a virtio memory balloon device and its driver, as
 * virtio 1.3 section 5.5 defines it. Anyone may use this header to write a
 * device or a driver, under the licence named above.
 */
#ifndef _LINUX_VIRTIO_BALLOON_H
#define _LINUX_VIRTIO_BALLOON_H

#include <linux/types.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_types.h>

/* Feature bits */
#define VIRTIO_BALLOON_F_MUST_TELL_HOST	0 /* deflate answered before reuse */
#define VIRTIO_BALLOON_F_STATS_VQ	1 /* statistics queue */
#define VIRTIO_BALLOON_F_DEFLATE_ON_OOM	2 /* the guest may take pages back */
#define VIRTIO_BALLOON_F_FREE_PAGE_HINT	3 /* free page hinting queue */
#define VIRTIO_BALLOON_F_PAGE_POISON	4 /* poison_val is valid */
#define VIRTIO_BALLOON_F_REPORTING	5 /* free page reporting queue */

/* Page frame numbers count units of 4096 bytes, whatever the page size. */
#define VIRTIO_BALLOON_PFN_SHIFT	12

/* Values of free_page_hint_cmd_id that are no round of hinting */
#define VIRTIO_BALLOON_CMD_ID_STOP	0
#define VIRTIO_BALLOON_CMD_ID_DONE	1

/*
 * Configuration space; little-endian in legacy devices too. The device writes
 * num_pages and the command id, the driver writes actual and poison_val.
 */
struct virtio_balloon_config {
	__le32 num_pages;	/* target of the balloon, in 4096 byte pages */
	__le32 actual;		/* what is in the balloon, same unit */
	union {
		__le32 free_page_hint_cmd_id;
		__le32 free_page_report_cmd_id;	/* its former name */
	};
	__le32 poison_val;	/* what free pages of the guest are filled with */
};

/* Tags of statistics entries */
#define VIRTIO_BALLOON_S_SWAP_IN	0  /* bytes swapped in */
#define VIRTIO_BALLOON_S_SWAP_OUT	1  /* bytes swapped out */
#define VIRTIO_BALLOON_S_MAJFLT		2  /* major page faults */
#define VIRTIO_BALLOON_S_MINFLT		3  /* minor page faults */
#define VIRTIO_BALLOON_S_MEMFREE	4  /* bytes free */
#define VIRTIO_BALLOON_S_MEMTOT		5  /* bytes in all */
#define VIRTIO_BALLOON_S_AVAIL		6  /* bytes available, estimated */
#define VIRTIO_BALLOON_S_CACHES		7  /* bytes of page cache */
#define VIRTIO_BALLOON_S_HTLB_PGALLOC	8  /* hugetlb allocations */
#define VIRTIO_BALLOON_S_HTLB_PGFAIL	9  /* hugetlb allocations that failed */
#define VIRTIO_BALLOON_S_OOM_KILL	10 /* OOM kills */
#define VIRTIO_BALLOON_S_ALLOC_STALL	11 /* allocations that had to wait */
#define VIRTIO_BALLOON_S_ASYNC_SCAN	12 /* bytes scanned in background */
#define VIRTIO_BALLOON_S_DIRECT_SCAN	13 /* bytes scanned by allocations */
#define VIRTIO_BALLOON_S_ASYNC_RECLAIM	14 /* bytes reclaimed in background */
#define VIRTIO_BALLOON_S_DIRECT_RECLAIM	15 /* bytes reclaimed by allocations */
#define VIRTIO_BALLOON_S_NR		16

/* The tags as text, in order, for an array initialiser */
#define VIRTIO_BALLOON_S_NAMES_WITH_PREFIX(VIRTIO_BALLOON_S_NAMES_prefix) { \
	VIRTIO_BALLOON_S_NAMES_prefix "swap-in", \
	VIRTIO_BALLOON_S_NAMES_prefix "swap-out", \
	VIRTIO_BALLOON_S_NAMES_prefix "major-faults", \
	VIRTIO_BALLOON_S_NAMES_prefix "minor-faults", \
	VIRTIO_BALLOON_S_NAMES_prefix "free-memory", \
	VIRTIO_BALLOON_S_NAMES_prefix "total-memory", \
	VIRTIO_BALLOON_S_NAMES_prefix "available-memory", \
	VIRTIO_BALLOON_S_NAMES_prefix "disk-caches", \
	VIRTIO_BALLOON_S_NAMES_prefix "hugetlb-allocations", \
	VIRTIO_BALLOON_S_NAMES_prefix "hugetlb-failures", \
	VIRTIO_BALLOON_S_NAMES_prefix "oom-kills", \
	VIRTIO_BALLOON_S_NAMES_prefix "alloc-stalls", \
	VIRTIO_BALLOON_S_NAMES_prefix "async-scans", \
	VIRTIO_BALLOON_S_NAMES_prefix "direct-scans", \
	VIRTIO_BALLOON_S_NAMES_prefix "async-reclaims", \
	VIRTIO_BALLOON_S_NAMES_prefix "direct-reclaims" \
}

#define VIRTIO_BALLOON_S_NAMES VIRTIO_BALLOON_S_NAMES_WITH_PREFIX("")

/*
 * One entry of the statistics buffer: ten bytes on the wire, hence packed.
 * Guest byte order in legacy devices, little-endian in modern ones.
 */
struct virtio_balloon_stat {
	__virtio16 tag;
	__virtio64 val;
} __attribute__((packed));

#endif /* _LINUX_VIRTIO_BALLOON_H */
