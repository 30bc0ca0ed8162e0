// SPDX-License-Identifier: GPL-2.0
/*
 * Free page reporting: tells a hypervisor which pages are free, so that it can
 * use them for something else until the guest touches them again.
 *
 * What is reported. Free blocks of page_reporting_order and above. A reported
 * block is marked (PageReported) while it stays on its free list; the page
 * allocator clears the mark when it takes the block off, to hand it out, to
 * split or to merge it. For each zone and order the core knows how many blocks
 * are marked, so it sees without looking whether there is something to report.
 * Blocks that merge with marked ones, on their return from a report, give a
 * marked block.
 *
 * A pass. Each node has a work item, which passes over the node's zones,
 * orders (large ones first) and migratetypes. A pass is a walk through states;
 * between two of them the work item may stop, and go on later, as long as no
 * block is with it.
 *
 *   state    does                                     then
 *   REST     begins a pass                            ADVANCE
 *   ADVANCE  next list; next zone: see Pacing         FILL; REPORT before a zone
 *                                                     is left; REST at the end
 *   FILL     takes blocks off the list                REPORT if the batch is
 *                                                     full or enough was looked
 *                                                     at, ADVANCE at list's end
 *   REPORT   tells the reporter of the batch          DRAIN
 *   DRAIN    puts the batch back, marked unless the   FILL; REST after an error
 *            reporter failed
 *
 * Bounds. Blocks that are with the reporter are out of reach for the allocator:
 * at most 1/PAGE_REPORTING_SHARE of what a zone has above its low watermark. A
 * block larger than that waits. zone->lock is held for PAGE_REPORTING_HOLD
 * blocks at a time, of which large ones count for several. Marked blocks found
 * at the front of a list go to its back: so each look begins at the front and
 * none is looked at twice, the allocator uses first what the host still backs,
 * and there is no position to remember. The time under zone->lock is at most
 * 1/PAGE_REPORTING_DUTY of one CPU.
 *
 * Pacing. Measured are, for each zone, how many pages the last pass reported
 * (fresh), and how many marked pages were taken since; and how many pages the
 * guest allocated since. Pages that were reported and taken again within one
 * period (page_reporting_delay_ms) were reported in vain. That many are kept in
 * reserve: they stay unreported, at the front of the lists, for as many passes
 * as there were failures, doubling (up to PAGE_REPORTING_HOLD_OFF). Free pages
 * that CPUs keep on lists of their own are not reported either. Both are, when
 * they are PAGE_REPORTING_QUIET times as many as were allocated in a period: at
 * that rate nobody will miss them soon.
 * Errors double the pause before the next pass, up to PAGE_REPORTING_PAUSE.
 *
 * Hand-over. Whole free blocks may also be had for longer, by who tells a host of
 * them on his own account: they are taken as they are, neither read nor written,
 * as long as a zone has more than its high watermark.
 *
 * Locks, outermost first:
 *
 *   page_reporting_mutex   who becomes or ceases to be the reporter; parameters
 *   page_reporting_calling no two calls of a reporter at a time
 *   zone->lock             marks, and what struct page_reporting_zone says
 */
#define pr_fmt(fmt) "page_reporting: " fmt

#include <linux/debugfs.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/page-isolation.h>
#include <linux/page_reporting.h>
#include <linux/page_reporting_blocks.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/sched/clock.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include "internal.h"
#include "page_reporting.h"

#define CREATE_TRACE_POINTS
#include <trace/events/page_reporting.h>

/* Blocks looked at, taken or put back, at most, while zone->lock is held */
#define PAGE_REPORTING_HOLD		32
/* Of what a zone has to spare, one in so many pages may be with the reporter */
#define PAGE_REPORTING_SHARE		16
/* One in so many nanoseconds may be spent under zone->lock */
#define PAGE_REPORTING_DUTY		10
/* Nanoseconds under zone->lock after which there is a rest */
#define PAGE_REPORTING_SLICE		(2 * NSEC_PER_MSEC)
/* For how many passes pages are kept in reserve, at most */
#define PAGE_REPORTING_HOLD_OFF		32
/* What is so many times as much as was allocated in a period is not held back */
#define PAGE_REPORTING_QUIET		8
/* Period if page_reporting_delay_ms is shorter; pause after errors, at most */
#define PAGE_REPORTING_PERIOD		(HZ / 10)
#define PAGE_REPORTING_PAUSE		(60 * HZ)
/* page_reporting_delay_ms is one hour at most */
#define PAGE_REPORTING_DELAY_MAX	(3600 * MSEC_PER_SEC)
/* page_reporting_order while nobody has set it */
#define PAGE_REPORTING_UNSET		UINT_MAX

/* States of a pass, see above */
enum page_reporting_state {
	PAGE_REPORTING_REST,
	PAGE_REPORTING_ADVANCE,
	PAGE_REPORTING_FILL,
	PAGE_REPORTING_REPORT,
	PAGE_REPORTING_DRAIN,
};

/**
 * struct page_reporting_zone - what is known of a zone
 * @blocks: marked blocks on the free lists, by order; guarded by zone->lock
 * @taken: marked pages that left the free lists, ever; guarded by zone->lock
 * @repeated: pages of @taken that were reported again; guarded by zone->lock
 * @seen: @taken, when last looked at; the work item's
 * @fresh: pages that the last pass reported; the work item's
 * @reserve: pages that are to stay unreported; the work item's
 * @hold: for so many more passes; the work item's
 * @hold_off: what @hold was set to last; the work item's
 */
struct page_reporting_zone {
	unsigned long blocks[NR_PAGE_ORDERS];
	unsigned long taken;
	unsigned long repeated;
	unsigned long seen;
	unsigned long fresh;
	unsigned long reserve;
	unsigned int hold;
	unsigned int hold_off;
};

/**
 * struct page_reporting_node - a node, and the pass over it
 * @work: makes the pass; all that follows but @freed is its own
 * @freed: large blocks were freed since the last pass began
 * @allocated: pages the guest had allocated ever, when the pass began
 * @lately: of them, since the pass before
 * @nid: the node
 * @state: of the pass
 * @zone: index of the zone it is at
 * @order: order it is at
 * @migratetype: migratetype it is at
 * @quota: pages of the zone still to be reported
 * @looked: marked blocks of the list that went to its back
 * @first: the first of them, to be compared only: it may be allocated by now
 * @error: the last report's
 * @pause: how long the pause was after the last error, in jiffies
 * @busy: nanoseconds under zone->lock since the last rest
 * @sg: blocks that are off the free lists
 * @nents: how many
 * @isolated: pages in them
 * @zones: the node's zones
 */
struct page_reporting_node {
	struct delayed_work work;
	bool freed;
	unsigned long allocated;
	unsigned long lately;
	int nid;
	enum page_reporting_state state;
	int zone;
	int order;
	int migratetype;
	unsigned long quota;
	unsigned long looked;
	const struct page *first;
	int error;
	unsigned long pause;
	u64 busy;
	struct scatterlist sg[PAGE_REPORTING_CAPACITY];
	unsigned int nents;
	unsigned long isolated;
	struct page_reporting_zone zones[MAX_NR_ZONES];
};

DEFINE_STATIC_KEY_FALSE(page_reporting_enabled);

/* Smallest order reported; PAGE_REPORTING_UNSET before the first reporter */
unsigned int page_reporting_order = PAGE_REPORTING_UNSET;
EXPORT_SYMBOL_GPL(page_reporting_order);

/* A large block was freed since a pass began, and the work items know */
bool page_reporting_noted __read_mostly;

static unsigned int page_reporting_delay_ms = 2000;

static DEFINE_MUTEX(page_reporting_mutex);
static DEFINE_MUTEX(page_reporting_calling);
static struct page_reporting_dev_info *page_reporting_dev;
static struct page_reporting_node *page_reporting_nodes[MAX_NUMNODES];
static struct workqueue_struct *page_reporting_wq;
/* page_reporting_order is a reporter's choice, not the user's */
static bool page_reporting_order_chosen;

/* Counters, since boot; see page_reporting_init() */
static struct {
	atomic64_t passes;
	atomic64_t reported_pages;
	atomic64_t repeated_pages;
	atomic64_t failures;
	atomic64_t lock_hold_max_ns;
} page_reporting_counters;

static struct zone *page_reporting_zone_of(const struct page_reporting_node *node)
{
	return &NODE_DATA(node->nid)->node_zones[node->zone];
}

/* At least a jiffy: work is not to be queued at once under zone->lock. */
static unsigned long page_reporting_delay(void)
{
	return max(msecs_to_jiffies(READ_ONCE(page_reporting_delay_ms)), 1UL);
}

/* Time between passes while something is being watched */
static unsigned long page_reporting_period(void)
{
	return max_t(unsigned long, page_reporting_delay(),
		     PAGE_REPORTING_PERIOD);
}

/**
 * __page_reporting_taken() - a marked block leaves its free list
 * @page: its head; still a buddy page
 *
 * Context: zone->lock held.
 */
void __page_reporting_taken(struct page *page)
{
	struct page_reporting_node *node = page_reporting_nodes[page_to_nid(page)];
	struct page_reporting_zone *pz = &node->zones[page_zonenum(page)];
	unsigned int order = buddy_order(page);

	lockdep_assert_held(&page_zone(page)->lock);

	pz->blocks[order]--;
	pz->taken += 1UL << order;
}

/**
 * __page_reporting_notify() - see to it that there will be a pass
 *
 * Context: any; zone->lock is held.
 */
void __page_reporting_notify(void)
{
	int nid;

	WRITE_ONCE(page_reporting_noted, true);
	for_each_node_state(nid, N_MEMORY) {
		struct page_reporting_node *node = page_reporting_nodes[nid];

		WRITE_ONCE(node->freed, true);
		queue_delayed_work(page_reporting_wq, &node->work,
				   page_reporting_delay());
	}
}

/* Take zone->lock; returns the time, for page_reporting_unlock(). */
static u64 page_reporting_lock(struct zone *zone) __acquires(&zone->lock)
{
	spin_lock_irq(&zone->lock);
	return local_clock();
}

static void page_reporting_unlock(struct page_reporting_node *node,
				  struct zone *zone, u64 since)
	__releases(&zone->lock)
{
	u64 held = local_clock() - since;

	spin_unlock_irq(&zone->lock);
	node->busy += held;
	if (held > atomic64_read(&page_reporting_counters.lock_hold_max_ns))
		atomic64_set(&page_reporting_counters.lock_hold_max_ns, held);
}

/* Pages of a zone in blocks that are large enough and not marked. */
static unsigned long page_reporting_unmarked(const struct zone *zone,
					     const struct page_reporting_zone *pz)
	__must_hold(&zone->lock)
{
	unsigned long pages = 0;
	unsigned int order;

	for (order = READ_ONCE(page_reporting_order); order < NR_PAGE_ORDERS; order++)
		pages += (zone->free_area[order].nr_free - pz->blocks[order]) << order;
	return pages;
}

/* Whether so many pages are more than the guest will soon need. */
static bool page_reporting_plenty(const struct page_reporting_node *node,
				  unsigned long pages)
{
	return pages / PAGE_REPORTING_QUIET > node->lately;
}

/* See how the last report of a zone fared: how many pages to keep in reserve. */
static void page_reporting_learn(const struct page_reporting_node *node,
				 struct page_reporting_zone *pz,
				 unsigned long taken)
{
	unsigned long vain = min(taken, pz->fresh);

	if (vain) {
		pz->reserve += vain;
		pz->hold_off = clamp(2 * pz->hold_off, 1U, PAGE_REPORTING_HOLD_OFF);
		pz->hold = pz->hold_off;
	} else if (pz->hold) {
		pz->hold--;
	} else if (pz->fresh) {
		pz->hold_off /= 2;
	}
	if (page_reporting_plenty(node, pz->reserve))
		pz->hold = 0;
	if (!pz->hold)
		pz->reserve = 0;
	pz->fresh = 0;
}

/* Pages of a zone that are free, but on the lists of CPUs. */
static unsigned long page_reporting_on_cpus(const struct zone *zone)
{
	unsigned long pages = 0;
	int cpu;

	for_each_online_cpu(cpu)
		pages += READ_ONCE(per_cpu_ptr(zone->per_cpu_pageset, cpu)->count);
	return pages;
}

/*
 * Put those pages on the zone's free lists: a few at a time, if the allocator
 * has a function for that.
 */
static void page_reporting_drain_cpus(struct zone *zone)
{
	int cpu;

	if (!IS_ENABLED(CONFIG_NUMA)) {
		drain_all_pages(zone);
		return;
	}
	for_each_online_cpu(cpu) {
		struct per_cpu_pages *pcp = per_cpu_ptr(zone->per_cpu_pageset, cpu);
		int left;

		for (left = READ_ONCE(pcp->count); left > 0; left -= max(1, pcp->batch)) {
			drain_zone_pages(zone, pcp);
			cond_resched();
		}
	}
}

/* Find out how much of a zone to report in this pass. */
static void page_reporting_enter_zone(struct page_reporting_node *node)
{
	struct page_reporting_zone *pz = &node->zones[node->zone];
	struct zone *zone = page_reporting_zone_of(node);
	unsigned long taken, unmarked;
	u64 since;

	since = page_reporting_lock(zone);
	taken = pz->taken - pz->seen;
	pz->seen = pz->taken;
	page_reporting_unlock(node, zone, since);

	page_reporting_learn(node, pz, taken);
	if (page_reporting_plenty(node, page_reporting_on_cpus(zone)))
		page_reporting_drain_cpus(zone);

	since = page_reporting_lock(zone);
	unmarked = page_reporting_unmarked(zone, pz);
	page_reporting_unlock(node, zone, since);
	node->quota = unmarked - min(unmarked, pz->reserve);
	node->order = MAX_PAGE_ORDER;
	node->migratetype = 0;
}

/* Whether the pass is at a list of which something may be reported. */
static bool page_reporting_at_list(const struct page_reporting_node *node)
{
	return node->quota && node->order >= 0 &&
	       node->order >= READ_ONCE(page_reporting_order);
}

/* Go to the next list of the zone; false if there is none. */
static bool page_reporting_next_list(struct page_reporting_node *node)
{
	do {
		if (++node->migratetype == MIGRATE_TYPES) {
			node->migratetype = 0;
			node->order--;
		}
	} while (is_migrate_isolate(node->migratetype));

	return page_reporting_at_list(node);
}

/* Go to the node's next zone with memory; false if there is none. */
static bool page_reporting_next_zone(struct page_reporting_node *node)
{
	while (++node->zone < MAX_NR_ZONES) {
		if (populated_zone(page_reporting_zone_of(node))) {
			page_reporting_enter_zone(node);
			return true;
		}
	}
	return false;
}

static enum page_reporting_state
page_reporting_advance(struct page_reporting_node *node)
{
	node->looked = 0;
	node->first = NULL;
	if (node->zone >= 0 && page_reporting_next_list(node))
		return PAGE_REPORTING_FILL;
	if (node->nents)
		return PAGE_REPORTING_REPORT;
	return page_reporting_next_zone(node) ? PAGE_REPORTING_FILL :
						PAGE_REPORTING_REST;
}

/* How many pages of a zone may be off the free lists: see Bounds. */
static unsigned long page_reporting_limit(const struct page_reporting_node *node,
					  struct zone *zone)
{
	unsigned long free = zone_page_state(zone, NR_FREE_PAGES) + node->isolated;
	unsigned long low = low_wmark_pages(zone);

	return (free - min(free, low)) / PAGE_REPORTING_SHARE;
}

/* Take one block off its list and into the batch, if it may be missing. */
static bool page_reporting_isolate(struct page_reporting_node *node,
				   struct zone *zone, struct page *page)
	__must_hold(&zone->lock)
{
	unsigned long pages = 1UL << node->order;

	if (node->isolated + pages > page_reporting_limit(node, zone))
		return false;
	if (!__isolate_free_page(page, node->order)) {
		node->quota = 0;
		return false;
	}
	sg_set_page(&node->sg[node->nents++], page, PAGE_SIZE << node->order, 0);
	node->isolated += pages;
	node->quota -= pages;
	return true;
}

/*
 * For how many blocks it counts to take one off its list: the allocator walks
 * along the pages of pageblocks, to see whether they change their migratetype.
 */
static unsigned int page_reporting_cost(unsigned int order)
{
	return order < pageblock_order - 1 ? 1 : PAGE_REPORTING_HOLD / 4;
}

/* Whether nothing more of the list can be reported in this pass. */
static bool page_reporting_list_done(const struct page_reporting_node *node,
				     const struct zone *zone,
				     const struct page *page)
	__must_hold(&zone->lock)
{
	unsigned long nr_free = zone->free_area[node->order].nr_free;

	return !page || page == node->first || node->looked >= nr_free ||
	       node->zones[node->zone].blocks[node->order] >= nr_free ||
	       node->quota < 1UL << node->order;
}

static enum page_reporting_state
page_reporting_fill(struct page_reporting_node *node, struct zone *zone)
	__must_hold(&zone->lock)
{
	unsigned long looked = node->looked;
	struct list_head *list;
	unsigned int n;

	/* A report may have come between, with the last blocks of the zone */
	if (!page_reporting_at_list(node))
		return PAGE_REPORTING_ADVANCE;
	list = &zone->free_area[node->order].free_list[node->migratetype];

	for (n = 0; n < PAGE_REPORTING_HOLD;) {
		struct page *page =
			list_first_entry_or_null(list, struct page, buddy_list);

		if (page_reporting_list_done(node, zone, page))
			return PAGE_REPORTING_ADVANCE;
		if (PageReported(page)) {
			list_move_tail(&page->buddy_list, list);
			node->first = node->first ?: page;
			node->looked++;
			n++;
			continue;
		}
		if (node->nents == PAGE_REPORTING_CAPACITY)
			return PAGE_REPORTING_REPORT;
		if (!page_reporting_isolate(node, zone, page))
			return node->nents ? PAGE_REPORTING_REPORT :
					     PAGE_REPORTING_ADVANCE;
		n += page_reporting_cost(node->order);
	}
	/* The batch does not wait while marked blocks are gone through */
	return node->nents && node->looked != looked ? PAGE_REPORTING_REPORT :
						       PAGE_REPORTING_FILL;
}

static enum page_reporting_state
page_reporting_report(struct page_reporting_node *node)
{
	struct page_reporting_dev_info *prdev;

	sg_mark_end(&node->sg[node->nents - 1]);
	mutex_lock(&page_reporting_calling);
	prdev = READ_ONCE(page_reporting_dev);
	node->error = prdev ? prdev->report(prdev, node->sg, node->nents) :
			      -ENODEV;
	mutex_unlock(&page_reporting_calling);

	trace_page_reporting_report(node->nid, page_reporting_zone_of(node)->name,
				    node->nents, node->isolated, node->error);
	if (prdev && node->error)
		atomic64_inc(&page_reporting_counters.failures);
	if (!node->error)
		atomic64_add(node->isolated,
			     &page_reporting_counters.reported_pages);
	return PAGE_REPORTING_DRAIN;
}

/* Whether the allocator merges a block of a migratetype with its free buddy. */
static bool page_reporting_merges(int migratetype, const struct page *buddy,
				  unsigned int order)
{
	int other = get_pageblock_migratetype(buddy);

	return order < pageblock_order || other == migratetype ||
	       (migratetype_is_mergeable(other) &&
		migratetype_is_mergeable(migratetype));
}

/*
 * The block that a reported one will be part of when it is back on its list:
 * its head, and its order in @order. NULL if it merges with an unmarked one.
 */
static struct page *page_reporting_merged(struct page *page, unsigned int *order)
{
	int migratetype = get_pageblock_migratetype(page);
	unsigned long pfn = page_to_pfn(page);

	for (; *order < MAX_PAGE_ORDER; ++*order) {
		struct page *buddy = find_buddy_page_pfn(page, pfn, *order, NULL);

		if (!buddy || !page_reporting_merges(migratetype, buddy, *order))
			break;
		if (!PageReported(buddy))
			return NULL;
		page = min(page, buddy);
		pfn &= ~(1UL << *order);
	}
	return page;
}

/* Put an isolated block back on the list that it came from. */
static void page_reporting_putback(struct page *page, unsigned int order)
{
	__putback_isolated_page(page, order, get_pageblock_migratetype(page));
}

/* Put a reported block back and mark what it becomes. */
static void page_reporting_put_marked(struct page_reporting_zone *pz,
				      struct zone *zone, struct page *page,
				      unsigned int order)
	__must_hold(&zone->lock)
{
	unsigned int merged_order = order;
	struct page *merged = page_reporting_merged(page, &merged_order);
	unsigned long taken = pz->taken;

	pz->fresh += 1UL << order;
	if (pz->repeated != pz->taken) {
		unsigned long pages = min(1UL << order, pz->taken - pz->repeated);

		pz->repeated += pages;
		atomic64_add(pages, &page_reporting_counters.repeated_pages);
	}

	page_reporting_putback(page, order);
	if (!merged || !PageBuddy(merged) || buddy_order(merged) != merged_order)
		return;
	__SetPageReported(merged);
	pz->blocks[merged_order]++;
	/* the marked ones it merged with were not taken by anyone */
	pz->taken = taken;
}

static enum page_reporting_state
page_reporting_drain(struct page_reporting_node *node, struct zone *zone)
	__must_hold(&zone->lock)
{
	struct page_reporting_zone *pz = &node->zones[node->zone];

	BUILD_BUG_ON(PAGE_REPORTING_CAPACITY > PAGE_REPORTING_HOLD);

	while (node->nents) {
		struct scatterlist *sg = &node->sg[--node->nents];
		unsigned int order = get_order(sg->length);
		struct page *page = sg_page(sg);

		if (node->error)
			page_reporting_putback(page, order);
		else
			page_reporting_put_marked(pz, zone, page, order);
	}
	node->isolated = 0;
	sg_init_table(node->sg, PAGE_REPORTING_CAPACITY);
	return node->error ? PAGE_REPORTING_REST : PAGE_REPORTING_FILL;
}

/* FILL or DRAIN, with the lock that they need. */
static enum page_reporting_state
page_reporting_locked_step(struct page_reporting_node *node)
{
	struct zone *zone = page_reporting_zone_of(node);
	u64 since = page_reporting_lock(zone);
	enum page_reporting_state next;

	if (node->state == PAGE_REPORTING_FILL)
		next = page_reporting_fill(node, zone);
	else
		next = page_reporting_drain(node, zone);
	page_reporting_unlock(node, zone, since);
	return next;
}

static void page_reporting_step(struct page_reporting_node *node)
{
	switch (node->state) {
	case PAGE_REPORTING_REST:
		break;
	case PAGE_REPORTING_ADVANCE:
		node->state = page_reporting_advance(node);
		break;
	case PAGE_REPORTING_REPORT:
		node->state = page_reporting_report(node);
		break;
	case PAGE_REPORTING_FILL:
	case PAGE_REPORTING_DRAIN:
		node->state = page_reporting_locked_step(node);
		break;
	}
}

/* Pages that were allocated since boot, in all zones. */
static unsigned long page_reporting_allocated(void)
{
	unsigned long events[NR_VM_EVENT_ITEMS] = {}, pages = 0;
	int zone;

	all_vm_events(events);
	for (zone = 0; zone < MAX_NR_ZONES; zone++)
		pages += events[PGALLOC_NORMAL - ZONE_NORMAL + zone];
	return pages;
}

/* Start a pass. Blocks freed from here on will be noted for the next one. */
static void page_reporting_begin(struct page_reporting_node *node)
{
	unsigned long allocated = page_reporting_allocated();

	node->lately = allocated - node->allocated;
	node->allocated = allocated;
	WRITE_ONCE(node->freed, false);
	WRITE_ONCE(page_reporting_noted, false);
	node->zone = -1;
	node->error = 0;
	node->state = PAGE_REPORTING_ADVANCE;
}

/*
 * A pass is over, and what it did may have to be looked at again: after how many
 * jiffies. 0 for when memory is freed.
 */
static unsigned long page_reporting_next(const struct page_reporting_node *node)
{
	unsigned long fresh = 0, reserve = 0, next = node->pause;
	unsigned int i;

	for (i = 0; i < MAX_NR_ZONES; i++) {
		fresh += node->zones[i].fresh;
		reserve += node->zones[i].reserve;
	}
	if (!next && (fresh || reserve || READ_ONCE(node->freed)))
		next = page_reporting_period();
	trace_page_reporting_pass(node->nid, fresh, reserve, node->lately,
				  node->error, jiffies_to_msecs(next));
	return next;
}

static void page_reporting_finish(struct page_reporting_node *node)
{
	unsigned long period = page_reporting_period(), next;

	atomic64_inc(&page_reporting_counters.passes);
	node->pause = node->error ? clamp(2 * node->pause, period,
					  max_t(unsigned long, period,
						PAGE_REPORTING_PAUSE)) : 0;
	next = page_reporting_next(node);
	if (next && READ_ONCE(page_reporting_dev))
		mod_delayed_work(page_reporting_wq, &node->work, next);
}

/* Leave the CPU and the zone's lock to others for a while. */
static void page_reporting_rest(struct page_reporting_node *node)
{
	mod_delayed_work(page_reporting_wq, &node->work, 1 +
			 nsecs_to_jiffies(node->busy * (PAGE_REPORTING_DUTY - 1)));
	node->busy = 0;
}

static void page_reporting_work(struct work_struct *work)
{
	struct page_reporting_node *node =
		container_of(work, struct page_reporting_node, work.work);

	if (!READ_ONCE(page_reporting_dev))
		return;
	if (node->state == PAGE_REPORTING_REST)
		page_reporting_begin(node);

	while (node->state != PAGE_REPORTING_REST) {
		if (!node->nents && node->busy > PAGE_REPORTING_SLICE) {
			page_reporting_rest(node);
			return;
		}
		page_reporting_step(node);
		cond_resched();
	}
	page_reporting_finish(node);
}

/* Take away the marks of up to PAGE_REPORTING_HOLD blocks of a list. */
static void page_reporting_unmark(struct page_reporting_zone *pz,
				  struct list_head *list, unsigned int order)
	__must_hold(&zone->lock)
{
	unsigned int n;

	for (n = 0; n < PAGE_REPORTING_HOLD && !list_empty(list); n++) {
		struct page *page = list_first_entry(list, struct page, buddy_list);

		list_move_tail(&page->buddy_list, list);
		if (PageReported(page)) {
			__ClearPageReported(page);
			pz->blocks[order]--;
		}
	}
}

/* Walk once along each list of an order, or more, and take away marks. */
static void page_reporting_unmark_order(struct page_reporting_node *node,
					struct page_reporting_zone *pz,
					struct zone *zone, unsigned int order)
{
	struct free_area *area = &zone->free_area[order];
	unsigned long left;
	int mt;

	for (mt = 0; mt < MIGRATE_TYPES; mt++) {
		left = READ_ONCE(area->nr_free);
		while (left && READ_ONCE(pz->blocks[order])) {
			u64 since = page_reporting_lock(zone);

			page_reporting_unmark(pz, &area->free_list[mt], order);
			page_reporting_unlock(node, zone, since);
			left -= min(left, PAGE_REPORTING_HOLD);
			cond_resched();
		}
	}
}

/*
 * Take away all marks of a node: the next reporter's host knows nothing of
 * them, and the allocator does not clear them once the static key is off.
 * No new ones come, so this ends when the counts are down.
 */
static void page_reporting_unmark_node(struct page_reporting_node *node)
{
	unsigned int i, order;

	for (i = 0; i < MAX_NR_ZONES; i++) {
		struct zone *zone = &NODE_DATA(node->nid)->node_zones[i];

		for (order = 0; order < NR_PAGE_ORDERS; order++)
			while (READ_ONCE(node->zones[i].blocks[order]))
				page_reporting_unmark_order(node, &node->zones[i],
							    zone, order);
	}
}

static void page_reporting_free_nodes(void)
{
	int nid;

	for_each_node(nid) {
		kfree(page_reporting_nodes[nid]);
		page_reporting_nodes[nid] = NULL;
	}
}

static int page_reporting_alloc_nodes(void)
{
	int nid;

	for_each_node(nid) {
		struct page_reporting_node *node =
			kzalloc_node(sizeof(*node), GFP_KERNEL, nid);

		if (!node) {
			page_reporting_free_nodes();
			return -ENOMEM;
		}
		node->nid = nid;
		sg_init_table(node->sg, PAGE_REPORTING_CAPACITY);
		INIT_DELAYED_WORK(&node->work, page_reporting_work);
		page_reporting_nodes[nid] = node;
	}
	return 0;
}

/* Have every node looked at soon. */
static void page_reporting_wake(void)
{
	int nid;

	lockdep_assert_held(&page_reporting_mutex);

	for_each_node_state(nid, N_MEMORY)
		mod_delayed_work(page_reporting_wq,
				 &page_reporting_nodes[nid]->work,
				 page_reporting_delay());
}

/* End the passes; the reporter is gone. */
static void page_reporting_cancel(void)
{
	int nid;

	for_each_node(nid)
		cancel_delayed_work_sync(&page_reporting_nodes[nid]->work);
}

/* By default blocks of the host's large pages, as far as the allocator has them */
static unsigned int page_reporting_default_order(unsigned int wanted)
{
	if (wanted && wanted <= MAX_PAGE_ORDER)
		return wanted;
	return min3((unsigned int)pageblock_order,
		    (unsigned int)get_order(SZ_2M), (unsigned int)MAX_PAGE_ORDER);
}

/**
 * page_reporting_register() - begin to report free pages
 * @prdev: whom to tell; to be kept until page_reporting_unregister()
 *
 * Context: may sleep.
 * Return: 0; -EBUSY if there is a reporter; -ENOMEM.
 */
int page_reporting_register(struct page_reporting_dev_info *prdev)
{
	int err = -EBUSY;

	mutex_lock(&page_reporting_mutex);
	if (page_reporting_dev)
		goto unlock;
	err = page_reporting_wq ? page_reporting_alloc_nodes() : -ENOMEM;
	if (err)
		goto unlock;

	if (page_reporting_order == PAGE_REPORTING_UNSET) {
		page_reporting_order = page_reporting_default_order(prdev->order);
		page_reporting_order_chosen = true;
	}
	WRITE_ONCE(page_reporting_noted, false);
	WRITE_ONCE(page_reporting_dev, prdev);
	static_branch_enable(&page_reporting_enabled);
	page_reporting_wake();
	pr_info("free pages are reported from order %u on\n",
		page_reporting_order);
unlock:
	mutex_unlock(&page_reporting_mutex);
	return err;
}
EXPORT_SYMBOL_GPL(page_reporting_register);

/**
 * page_reporting_unregister() - report no more
 * @prdev: the reporter; another one than the registered is ignored
 *
 * When this returns, @prdev's report() has returned and is not called again, no
 * block is off the free lists, and none counts as reported.
 *
 * Context: may sleep; as long as a call of report() takes.
 */
void page_reporting_unregister(struct page_reporting_dev_info *prdev)
{
	int nid;

	mutex_lock(&page_reporting_mutex);
	if (page_reporting_dev != prdev)
		goto unlock;

	WRITE_ONCE(page_reporting_dev, NULL);
	page_reporting_cancel();

	for_each_node(nid)
		page_reporting_unmark_node(page_reporting_nodes[nid]);
	static_branch_disable(&page_reporting_enabled);
	/* A free that still saw the key on may be using the nodes, or queue work */
	synchronize_rcu();
	page_reporting_cancel();
	page_reporting_free_nodes();

	if (page_reporting_order_chosen)
		page_reporting_order = PAGE_REPORTING_UNSET;
	page_reporting_order_chosen = false;
unlock:
	mutex_unlock(&page_reporting_mutex);
}
EXPORT_SYMBOL_GPL(page_reporting_unregister);

/*
 * The free block of a zone that is handed over next, or NULL. What is isolated,
 * of CMA, or in reserve is not for anyone to have.
 */
static struct page *page_reporting_next_block(struct zone *zone,
					      unsigned int order)
	__must_hold(&zone->lock)
{
	struct free_area *area = &zone->free_area[order];
	unsigned long free = zone_page_state(zone, NR_FREE_PAGES);
	int mt;

	if (free < high_wmark_pages(zone) + (1UL << order))
		return NULL;
	for (mt = 0; mt < MIGRATE_PCPTYPES; mt++)
		if (!list_empty(&area->free_list[mt]))
			return list_first_entry(&area->free_list[mt],
						struct page, buddy_list);
	return NULL;
}

/* Take up to @max blocks of a zone: a few while zone->lock is held. */
static unsigned int page_reporting_take_some(struct zone *zone,
					     struct page **blocks,
					     unsigned int max,
					     unsigned int order)
{
	unsigned int n;

	max = min(max, PAGE_REPORTING_HOLD / page_reporting_cost(order));
	spin_lock_irq(&zone->lock);
	for (n = 0; n < max; n++) {
		blocks[n] = page_reporting_next_block(zone, order);
		if (!blocks[n] || !__isolate_free_page(blocks[n], order))
			break;
	}
	spin_unlock_irq(&zone->lock);
	return n;
}

/**
 * page_reporting_take_blocks() - take free blocks, with what they hold
 * @blocks: where to put their heads
 * @max: how many at most
 * @order: of each
 *
 * They are as if allocated, but were not touched, and are not to be: they go
 * back by page_reporting_return_blocks(). Until then lru and private of their
 * heads are the caller's. Memory that runs short meanwhile is the caller's
 * business: he gives them back.
 *
 * Context: may sleep; takes zone->lock.
 * Return: how many there were; 0 if there are no such blocks to spare.
 */
unsigned int page_reporting_take_blocks(struct page **blocks, unsigned int max,
					unsigned int order)
{
	struct zone *zone;
	unsigned int n = 0, got;

	if (order > MAX_PAGE_ORDER)
		return 0;
	for_each_populated_zone(zone) {
		do {
			got = page_reporting_take_some(zone, blocks + n, max - n,
						       order);
			n += got;
			cond_resched();
		} while (got && n < max);
	}
	return n;
}
EXPORT_SYMBOL_GPL(page_reporting_take_blocks);

/* Put back blocks of one zone; returns how many were. */
static unsigned int page_reporting_return_some(struct page **blocks,
					       unsigned int count,
					       unsigned int order)
{
	struct zone *zone = page_zone(blocks[0]);
	unsigned long flags;
	unsigned int n;

	spin_lock_irqsave(&zone->lock, flags);
	for (n = 0; n < count && page_zone(blocks[n]) == zone; n++)
		page_reporting_putback(blocks[n], order);
	page_reporting_notify_free(order);
	spin_unlock_irqrestore(&zone->lock, flags);
	return n;
}

/**
 * page_reporting_return_blocks() - give back blocks that were taken
 * @blocks: their heads
 * @count: how many, at most PAGE_REPORTING_CAPACITY
 * @order: of each
 *
 * Context: any but hard interrupts; takes zone->lock.
 */
void page_reporting_return_blocks(struct page **blocks, unsigned int count,
				  unsigned int order)
{
	unsigned int n;

	for (; count; count -= n, blocks += n)
		n = page_reporting_return_some(blocks, count, order);
}
EXPORT_SYMBOL_GPL(page_reporting_return_blocks);

/* Set a parameter within bounds; what depends on it follows at once. */
static int page_reporting_set(const char *val, const struct kernel_param *kp,
			      unsigned int max)
{
	int err;

	mutex_lock(&page_reporting_mutex);
	err = param_set_uint_minmax(val, kp, 0, max);
	if (!err && kp->arg == &page_reporting_order)
		page_reporting_order_chosen = false;
	if (!err && page_reporting_dev)
		page_reporting_wake();
	mutex_unlock(&page_reporting_mutex);
	return err;
}

static int page_reporting_set_order(const char *val, const struct kernel_param *kp)
{
	return page_reporting_set(val, kp, MAX_PAGE_ORDER);
}

static const struct kernel_param_ops page_reporting_order_ops = {
	.set = page_reporting_set_order,
	.get = param_get_int,
};
module_param_cb(page_reporting_order, &page_reporting_order_ops,
		&page_reporting_order, 0644);
MODULE_PARM_DESC(page_reporting_order,
		 "Smallest order of free blocks that is reported");

static int page_reporting_set_delay(const char *val, const struct kernel_param *kp)
{
	return page_reporting_set(val, kp, PAGE_REPORTING_DELAY_MAX);
}

static const struct kernel_param_ops page_reporting_delay_ops = {
	.set = page_reporting_set_delay,
	.get = param_get_uint,
};
module_param_cb(page_reporting_delay_ms, &page_reporting_delay_ops,
		&page_reporting_delay_ms, 0644);
MODULE_PARM_DESC(page_reporting_delay_ms,
		 "Milliseconds from the freeing of a block to its being reported");

static int page_reporting_counter_get(void *data, u64 *val)
{
	*val = atomic64_read(data);
	return 0;
}

static int page_reporting_counter_set(void *data, u64 val)
{
	atomic64_set(data, val);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(page_reporting_counter_fops, page_reporting_counter_get,
			 page_reporting_counter_set, "%llu\n");

static int page_reporting_bytes_get(void *data, u64 *val)
{
	*val = (u64)atomic64_read(data) << PAGE_SHIFT;
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(page_reporting_bytes_fops, page_reporting_bytes_get,
			 NULL, "%llu\n");

/* Counters in debugfs; any of them can be set, to start from 0 for instance. */
static void __init page_reporting_debugfs(void)
{
	const struct {
		const char *name;
		atomic64_t *counter;
	} files[] = {
		{ "passes", &page_reporting_counters.passes },
		{ "reported_pages", &page_reporting_counters.reported_pages },
		{ "repeated_pages", &page_reporting_counters.repeated_pages },
		{ "failures", &page_reporting_counters.failures },
		{ "lock_hold_max_ns", &page_reporting_counters.lock_hold_max_ns },
	};
	struct dentry *dir = debugfs_create_dir("page_reporting", NULL);
	unsigned int f;

	for (f = 0; f < ARRAY_SIZE(files); f++)
		debugfs_create_file_unsafe(files[f].name, 0600, dir,
					   files[f].counter,
					   &page_reporting_counter_fops);
	debugfs_create_file_unsafe("reported_bytes", 0400, dir,
				   &page_reporting_counters.reported_pages,
				   &page_reporting_bytes_fops);
}

static int __init page_reporting_init(void)
{
	page_reporting_wq = alloc_workqueue("page_reporting",
					    WQ_FREEZABLE | WQ_UNBOUND, 0);
	page_reporting_debugfs();
	return page_reporting_wq ? 0 : -ENOMEM;
}
subsys_initcall(page_reporting_init);

#ifdef CONFIG_PAGE_REPORTING_KUNIT_TEST
#include "tests/page_reporting_kunit.c"
#endif
