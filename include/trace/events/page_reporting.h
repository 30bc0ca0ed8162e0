/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM page_reporting

#if !defined(_TRACE_PAGE_REPORTING_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_PAGE_REPORTING_H

#include <linux/tracepoint.h>

/* The reporter was told of free blocks; sizes in guest pages. */
TRACE_EVENT(page_reporting_report,
	TP_PROTO(int nid, const char *zone, unsigned int blocks,
		 unsigned long pages, int error),
	TP_ARGS(nid, zone, blocks, pages, error),
	TP_STRUCT__entry(
		__field(int, nid)
		__string(zone, zone)
		__field(unsigned int, blocks)
		__field(unsigned long, pages)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__assign_str(zone);
		__entry->blocks = blocks;
		__entry->pages = pages;
		__entry->error = error;
	),
	TP_printk("nid=%d zone=%s blocks=%u pages=%lu error=%d", __entry->nid,
		  __get_str(zone), __entry->blocks, __entry->pages,
		  __entry->error)
);

/*
 * A pass over a node is over: what it reported, what it held back, and what was
 * allocated in the period before, all in guest pages; when there will be another
 * one at the latest, in milliseconds, 0 for when memory is freed.
 */
TRACE_EVENT(page_reporting_pass,
	TP_PROTO(int nid, unsigned long reported_pages,
		 unsigned long reserve_pages, unsigned long allocated_pages,
		 int error, unsigned int next_ms),
	TP_ARGS(nid, reported_pages, reserve_pages, allocated_pages, error,
		next_ms),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, reported_pages)
		__field(unsigned long, reserve_pages)
		__field(unsigned long, allocated_pages)
		__field(int, error)
		__field(unsigned int, next_ms)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->reported_pages = reported_pages;
		__entry->reserve_pages = reserve_pages;
		__entry->allocated_pages = allocated_pages;
		__entry->error = error;
		__entry->next_ms = next_ms;
	),
	TP_printk("nid=%d reported_pages=%lu reserve_pages=%lu allocated_pages=%lu error=%d next_ms=%u",
		  __entry->nid, __entry->reported_pages, __entry->reserve_pages,
		  __entry->allocated_pages, __entry->error, __entry->next_ms)
);

#endif /* _TRACE_PAGE_REPORTING_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
