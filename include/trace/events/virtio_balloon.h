/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM virtio_balloon

#if !defined(_TRACE_VIRTIO_BALLOON_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_VIRTIO_BALLOON_H

#include <linux/tracepoint.h>

/* The balloon is about something else; sizes in guest pages. */
TRACE_EVENT(virtio_balloon_state,
	TP_PROTO(const char *dev, const char *from, const char *to,
		 unsigned long pages, unsigned long target),
	TP_ARGS(dev, from, to, pages, target),
	TP_STRUCT__entry(
		__string(dev, dev)
		__string(from, from)
		__string(to, to)
		__field(unsigned long, pages)
		__field(unsigned long, target)
	),
	TP_fast_assign(
		__assign_str(dev);
		__assign_str(from);
		__assign_str(to);
		__entry->pages = pages;
		__entry->target = target;
	),
	TP_printk("%s: %s -> %s pages=%lu target=%lu", __get_str(dev),
		  __get_str(from), __get_str(to), __entry->pages,
		  __entry->target)
);

/* The guest ran out of memory; sizes in guest pages. */
TRACE_EVENT(virtio_balloon_oom,
	TP_PROTO(const char *dev, unsigned long wanted, unsigned long freed,
		 unsigned long pages),
	TP_ARGS(dev, wanted, freed, pages),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(unsigned long, wanted)
		__field(unsigned long, freed)
		__field(unsigned long, pages)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->wanted = wanted;
		__entry->freed = freed;
		__entry->pages = pages;
	),
	TP_printk("%s: wanted=%lu freed=%lu pages=%lu", __get_str(dev),
		  __entry->wanted, __entry->freed, __entry->pages)
);

/* Free page hinting is about something else; size in guest pages. */
TRACE_EVENT(virtio_balloon_hint,
	TP_PROTO(const char *dev, u32 id, const char *state,
		 unsigned long pages, bool pressed),
	TP_ARGS(dev, id, state, pages, pressed),
	TP_STRUCT__entry(
		__string(dev, dev)
		__string(state, state)
		__field(u32, id)
		__field(unsigned long, pages)
		__field(bool, pressed)
	),
	TP_fast_assign(
		__assign_str(dev);
		__assign_str(state);
		__entry->id = id;
		__entry->pages = pages;
		__entry->pressed = pressed;
	),
	TP_printk("%s: id=%#x %s pages=%lu pressed=%d", __get_str(dev),
		  __entry->id, __get_str(state), __entry->pages,
		  __entry->pressed)
);

#endif /* _TRACE_VIRTIO_BALLOON_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
