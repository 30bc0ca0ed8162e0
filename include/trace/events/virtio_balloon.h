/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM virtio_balloon

#if !defined(_TRACE_VIRTIO_BALLOON_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_VIRTIO_BALLOON_H

#include <linux/tracepoint.h>
#include <linux/virtio.h>

/* All sizes are in guest pages. */

/* The host asks for another size. */
TRACE_EVENT(virtio_balloon_target,
	TP_PROTO(const struct virtio_device *vdev, unsigned long target_pages,
		 unsigned long balloon_pages),
	TP_ARGS(vdev, target_pages, balloon_pages),
	TP_STRUCT__entry(
		__string(dev, dev_name(&vdev->dev))
		__field(unsigned long, target_pages)
		__field(unsigned long, balloon_pages)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->target_pages = target_pages;
		__entry->balloon_pages = balloon_pages;
	),
	TP_printk("%s: target_pages=%lu balloon_pages=%lu", __get_str(dev),
		  __entry->target_pages, __entry->balloon_pages)
);

/* The balloon is about something else. */
TRACE_EVENT(virtio_balloon_state,
	TP_PROTO(const struct virtio_device *vdev, const char *from,
		 const char *to, unsigned long balloon_pages,
		 unsigned long target_pages),
	TP_ARGS(vdev, from, to, balloon_pages, target_pages),
	TP_STRUCT__entry(
		__string(dev, dev_name(&vdev->dev))
		__string(from, from)
		__string(to, to)
		__field(unsigned long, balloon_pages)
		__field(unsigned long, target_pages)
	),
	TP_fast_assign(
		__assign_str(dev);
		__assign_str(from);
		__assign_str(to);
		__entry->balloon_pages = balloon_pages;
		__entry->target_pages = target_pages;
	),
	TP_printk("%s: %s -> %s balloon_pages=%lu target_pages=%lu",
		  __get_str(dev), __get_str(from), __get_str(to),
		  __entry->balloon_pages, __entry->target_pages)
);

/* Pages that go to the host together, or are back, by the name of the queue. */
DECLARE_EVENT_CLASS(virtio_balloon_batch,
	TP_PROTO(const struct virtio_device *vdev, const char *queue,
		 unsigned int pages, unsigned int unanswered_batches),
	TP_ARGS(vdev, queue, pages, unanswered_batches),
	TP_STRUCT__entry(
		__string(dev, dev_name(&vdev->dev))
		__string(queue, queue)
		__field(unsigned int, pages)
		__field(unsigned int, unanswered_batches)
	),
	TP_fast_assign(
		__assign_str(dev);
		__assign_str(queue);
		__entry->pages = pages;
		__entry->unanswered_batches = unanswered_batches;
	),
	TP_printk("%s: %s pages=%u unanswered_batches=%u", __get_str(dev),
		  __get_str(queue), __entry->pages, __entry->unanswered_batches)
);

DEFINE_EVENT(virtio_balloon_batch, virtio_balloon_posted,
	TP_PROTO(const struct virtio_device *vdev, const char *queue,
		 unsigned int pages, unsigned int unanswered_batches),
	TP_ARGS(vdev, queue, pages, unanswered_batches)
);

DEFINE_EVENT(virtio_balloon_batch, virtio_balloon_answered,
	TP_PROTO(const struct virtio_device *vdev, const char *queue,
		 unsigned int pages, unsigned int unanswered_batches),
	TP_ARGS(vdev, queue, pages, unanswered_batches)
);

/* The guest ran out of memory. */
TRACE_EVENT(virtio_balloon_oom,
	TP_PROTO(const struct virtio_device *vdev, unsigned long wanted_pages,
		 unsigned long freed_pages, unsigned long balloon_pages),
	TP_ARGS(vdev, wanted_pages, freed_pages, balloon_pages),
	TP_STRUCT__entry(
		__string(dev, dev_name(&vdev->dev))
		__field(unsigned long, wanted_pages)
		__field(unsigned long, freed_pages)
		__field(unsigned long, balloon_pages)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->wanted_pages = wanted_pages;
		__entry->freed_pages = freed_pages;
		__entry->balloon_pages = balloon_pages;
	),
	TP_printk("%s: wanted_pages=%lu freed_pages=%lu balloon_pages=%lu",
		  __get_str(dev), __entry->wanted_pages, __entry->freed_pages,
		  __entry->balloon_pages)
);

/* Free page hinting is about something else; so many pages are kept aside. */
TRACE_EVENT(virtio_balloon_hint,
	TP_PROTO(const struct virtio_device *vdev, u32 id, const char *state,
		 unsigned long kept_pages, bool pressed),
	TP_ARGS(vdev, id, state, kept_pages, pressed),
	TP_STRUCT__entry(
		__string(dev, dev_name(&vdev->dev))
		__string(state, state)
		__field(u32, id)
		__field(unsigned long, kept_pages)
		__field(bool, pressed)
	),
	TP_fast_assign(
		__assign_str(dev);
		__assign_str(state);
		__entry->id = id;
		__entry->kept_pages = kept_pages;
		__entry->pressed = pressed;
	),
	TP_printk("%s: id=%#x %s kept_pages=%lu pressed=%d", __get_str(dev),
		  __entry->id, __get_str(state), __entry->kept_pages,
		  __entry->pressed)
);

#endif /* _TRACE_VIRTIO_BALLOON_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
