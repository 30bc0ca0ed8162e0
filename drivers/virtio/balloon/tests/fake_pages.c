// SPDX-License-Identifier: GPL-2.0
/*
 * Which side has which page, and what each may do with it.
 *
 * The host keeps an owner for each unit of 4096 bytes. A request moves units
 * from one owner to the next, and each move has its conditions:
 *
 *   GUEST -read-> INFLATING -answered-> HELD -read-> DEFLATING -answered-> GUEST
 *
 * The guest has to have a reference on a page that is not its own to use. The
 * host writes a mark into a page when it gets it; the mark is gone if the page
 * was used too early, and it is still there, with a reference, if the page was
 * forgotten in the end.
 */
#include <linux/debug_locks.h>
#include <linux/hash.h>
#include <linux/highmem.h>
#include <linux/jhash.h>
#include <linux/mm.h>
#include <linux/panic.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>
#include <linux/vmstat.h>

#include "fake_host.h"

/* In fake_host.owner[]: the unit was with the host once */
#define FAKE_EVER	0x80
/* In fake_host.owner[]: the unit was reported, and that is not answered */
#define FAKE_REPORTED	0x40

#define FAKE_MARK_LAST	(SZ_4K / sizeof(unsigned long) - 1)

static void fake_zones_init(struct fake_host *host, int nid)
{
	int z;

	for (z = 0; z < MAX_NR_ZONES && host->nr_zones < FAKE_ZONES; z++) {
		struct fake_zone *zone = &host->zones[host->nr_zones++];

		zone->zone = &NODE_DATA(nid)->node_zones[z];
		zone->managed = zone_managed_pages(zone->zone);
	}
}

/**
 * fake_on_cpus() - pages that are free, but on the lists of CPUs
 * @host: the fake host
 *
 * Return: guest pages.
 */
unsigned long fake_on_cpus(const struct fake_host *host)
{
	unsigned long pages = 0;
	unsigned int z;
	int cpu;

	for (z = 0; z < host->nr_zones; z++)
		for_each_online_cpu(cpu)
			pages += per_cpu_ptr(host->zones[z].zone->per_cpu_pageset,
					     cpu)->count;
	return pages;
}

/* Free pages, those on the lists of CPUs and those of slab included */
static unsigned long fake_free_pages(struct fake_host *host)
{
	unsigned long free = fake_on_cpus(host);
	unsigned int z;

	for (z = 0; z < host->nr_zones; z++) {
		struct zone *zone = host->zones[z].zone;

		if (populated_zone(zone))
			free += zone_page_state_snapshot(zone, NR_FREE_PAGES);
	}
	return free + global_node_page_state_pages(NR_SLAB_RECLAIMABLE_B) +
	       global_node_page_state_pages(NR_SLAB_UNRECLAIMABLE_B);
}

/**
 * fake_scattered() - how many pages are free, but not in whole groups
 * @host: the host; no lock held
 *
 * Return: guest pages.
 */
unsigned long fake_scattered(struct fake_host *host)
{
	unsigned long pages = fake_free_pages(host);
	unsigned int z, order;

	for (z = 0; z < host->nr_zones; z++)
		for (order = ilog2(VIRTIO_BALLOON_GROUP); order < NR_PAGE_ORDERS;
		     order++)
			pages -= host->zones[z].zone->free_area[order].nr_free <<
				 order;
	return pages;
}

static void fake_vfree(void *mem)
{
	vfree(mem);
}

/**
 * fake_pages_init() - note how things are before the driver comes
 * @host: the host; no lock held
 *
 * Return: 0 or a negative error.
 */
int fake_pages_init(struct fake_host *host)
{
	unsigned long end = 0;
	int nid;

	for_each_online_node(nid) {
		end = max(end, node_end_pfn(nid));
		fake_zones_init(host, nid);
	}
	host->nr_units = end * VIRTIO_BALLOON_UNITS;
	host->owned[FAKE_GUEST] = host->nr_units;
	host->lowest = host->nr_units;
	host->owner = vzalloc(host->nr_units);
	if (!host->owner)
		return -ENOMEM;
	host->totalram = totalram_pages();
	host->free = fake_free_pages(host);
	return kunit_add_action_or_reset(host->test, fake_vfree, host->owner);
}

/**
 * fake_fault() - note that the driver broke a rule
 * @host: the host; fake_check() fails the case
 * @what: the clause and the fault
 * @value: a PFN or the like
 */
void fake_fault(struct fake_host *host, const char *what, u64 value)
{
	if (host->nr_faults < FAKE_FAULTS) {
		host->faults[host->nr_faults].what = what;
		host->faults[host->nr_faults].value = value;
	}
	host->nr_faults++;
}

static struct page *fake_unit_page(unsigned long unit)
{
	return pfn_to_page(unit / VIRTIO_BALLOON_UNITS);
}

static enum fake_owner fake_owner(struct fake_host *host, unsigned long unit)
{
	return host->owner[unit] & ~(FAKE_EVER | FAKE_REPORTED);
}

static void fake_give(struct fake_host *host, unsigned long unit,
		      enum fake_owner owner)
{
	host->owned[fake_owner(host, unit)]--;
	host->owned[owner]++;
	host->owner[unit] = owner | FAKE_EVER |
			    (host->owner[unit] & FAKE_REPORTED);
	host->lowest = min(host->lowest, unit);
	host->highest = max(host->highest, unit);
}

/* What a unit that the host holds begins and ends with */
static unsigned long fake_mark_of(unsigned long unit)
{
	return unit * GOLDEN_RATIO_32 ^ 0xba11ba11;
}

static unsigned long *fake_map_mark(unsigned long unit)
{
	return kmap_local_page(fake_unit_page(unit)) +
	       unit % VIRTIO_BALLOON_UNITS * SZ_4K;
}

static void fake_mark(unsigned long unit)
{
	unsigned long *mark = fake_map_mark(unit);

	WRITE_ONCE(mark[0], fake_mark_of(unit));
	WRITE_ONCE(mark[FAKE_MARK_LAST], fake_mark_of(unit));
	kunmap_local(mark);
}

static bool fake_is_marked(unsigned long unit)
{
	unsigned long *mark = fake_map_mark(unit);
	bool marked;

	/* Whoever has the page now may have no business with these words */
	marked = READ_ONCE_NOCHECK(mark[0]) == fake_mark_of(unit) &&
		 READ_ONCE_NOCHECK(mark[FAKE_MARK_LAST]) == fake_mark_of(unit);
	kunmap_local(mark);
	return marked;
}

static bool fake_must_tell(struct fake_host *host)
{
	return host->features & BIT_ULL(VIRTIO_BALLOON_F_MUST_TELL_HOST);
}

static bool fake_is_free(unsigned long unit)
{
	return !page_count(fake_unit_page(unit));
}

/**
 * fake_pages_report() - note that a unit was reported, or that it was answered
 * @host: the host
 * @unit: in range
 * @begin: it was reported
 *
 * Return: whether that makes sense.
 */
bool fake_pages_report(struct fake_host *host, unsigned long unit, bool begin)
{
	enum fake_owner owner = fake_owner(host, unit);
	bool good = fake_is_free(unit) &&
		    begin == !(host->owner[unit] & FAKE_REPORTED) &&
		    (fake_must_tell(host) ? owner == FAKE_GUEST :
					    owner != FAKE_INFLATING);

	host->owner[unit] ^= FAKE_REPORTED;
	return good;
}

/* A unit in an inflate request */
static void fake_read_inflate(struct fake_host *host, unsigned long unit)
{
	switch (fake_owner(host, unit)) {
	case FAKE_GUEST:
		break;
	case FAKE_INFLATING:
	case FAKE_HELD:
		fake_fault(host, "PFN inflated that is in the balloon", unit);
		break;
	case FAKE_DEFLATING:
		fake_fault(host, "PFN inflated, its deflate unanswered", unit);
		break;
	}
	if (fake_is_free(unit))
		fake_fault(host, "VB-O6: free page inflated", unit);
	if (host->owner[unit] & FAKE_REPORTED)
		fake_fault(host, "VB-R2: inflated while reported", unit);
	fake_give(host, unit, FAKE_INFLATING);
}

/* A unit in a deflate request */
static void fake_read_deflate(struct fake_host *host, unsigned long unit)
{
	switch (fake_owner(host, unit)) {
	case FAKE_HELD:
		break;
	case FAKE_INFLATING:
		fake_fault(host, "VB-O7: deflated before it was inflated", unit);
		break;
	case FAKE_GUEST:
	case FAKE_DEFLATING:
		fake_fault(host, "PFN deflated that is not in the balloon", unit);
		break;
	}
	if (fake_must_tell(host)) {
		if (fake_is_free(unit))
			fake_fault(host, "VB-O5: page free before deflate", unit);
		else if (!fake_is_marked(unit))
			fake_fault(host, "VB-O2: page used in the balloon", unit);
	}
	fake_give(host, unit, FAKE_DEFLATING);
}

/* The unit of an entry of a request; out of range if it makes no sense */
static unsigned long fake_unit(struct fake_host *host,
			       struct fake_request *request, unsigned int entry)
{
	const __virtio32 *units = phys_to_virt(request->addr);

	return virtio32_to_cpu(&host->vdev, units[entry]);
}

/* A unit in a request: it makes sense, and its guest page is named whole. */
static bool fake_check_entry(struct fake_host *host, unsigned long unit,
			     unsigned long last, unsigned int entry)
{
	if (unit >= host->nr_units) {
		fake_fault(host, "VB-O9: PFN out of range", unit);
		return false;
	}
	if (entry % VIRTIO_BALLOON_UNITS ? unit != last + 1 :
	    unit % VIRTIO_BALLOON_UNITS)
		fake_fault(host, "VB-O9: guest page in parts", unit);
	return true;
}

/* Count the groups of 2 MiB that stand whole and in order in a request. */
static unsigned long fake_groups(struct fake_host *host,
				 struct fake_request *request)
{
	const unsigned int group = VIRTIO_BALLOON_GROUP * VIRTIO_BALLOON_UNITS;
	unsigned int entries = request->len / sizeof(u32), i, run = 0;
	unsigned long unit, last = 0, groups = 0;

	for (i = 0; i < entries; i++, last = unit) {
		unit = fake_unit(host, request, i);
		run = unit == last + 1 ? run + 1 : 1;
		if (unit % group == group - 1 && run >= group)
			groups++;
	}
	return groups;
}

/**
 * fake_pages_read() - take note of a request to inflate or deflate
 * @host: the host
 * @request: just read
 */
void fake_pages_read(struct fake_host *host, struct fake_request *request)
{
	bool inflate = request->queue->id == FAKE_INFLATE;
	unsigned int entries = request->len / sizeof(u32), i;
	unsigned long unit, last = 0;

	if (!entries || request->len % (sizeof(u32) * VIRTIO_BALLOON_UNITS))
		fake_fault(host, "VB-O9: odd buffer length", request->len);

	for (i = 0; i < entries; i++, last = unit) {
		unit = fake_unit(host, request, i);
		if (!fake_check_entry(host, unit, last, i))
			continue;
		if (inflate)
			fake_read_inflate(host, unit);
		else
			fake_read_deflate(host, unit);
	}
	if (!inflate) {
		host->deflated += entries / VIRTIO_BALLOON_UNITS;
		return;
	}
	host->inflated += entries / VIRTIO_BALLOON_UNITS;
	host->groups += fake_groups(host, request);
}

static void fake_answer_unit(struct fake_host *host, unsigned long unit,
			     bool inflate)
{
	if (inflate) {
		if (fake_is_free(unit))
			fake_fault(host, "VB-O6: free before inflated", unit);
		else
			fake_mark(unit);
		fake_give(host, unit, FAKE_HELD);
	} else {
		if (fake_must_tell(host) && fake_is_free(unit))
			fake_fault(host, "VB-O5: free before answered", unit);
		fake_give(host, unit, FAKE_GUEST);
	}
}

/**
 * fake_pages_answer() - carry a request out
 * @host: the host
 * @request: about to be answered
 */
void fake_pages_answer(struct fake_host *host, struct fake_request *request)
{
	bool inflate = request->queue->id == FAKE_INFLATE;
	unsigned int entries = request->len / sizeof(u32), i;
	unsigned long unit;

	if (request->sum != jhash(phys_to_virt(request->addr), request->len, 0)) {
		fake_fault(host, "request changed while posted", request->addr);
		return;
	}
	for (i = 0; i < entries; i++) {
		unit = fake_unit(host, request, i);
		if (unit < host->nr_units)
			fake_answer_unit(host, unit, inflate);
	}
}

static void fake_check_unit(struct fake_host *host, unsigned long unit)
{
	switch (fake_owner(host, unit)) {
	case FAKE_GUEST:
		break;
	case FAKE_INFLATING:
		if (fake_is_free(unit))
			fake_fault(host, "VB-O6: free while inflated", unit);
		break;
	case FAKE_HELD:
		/* Without MUST_TELL_HOST the host may yet have to be told */
		if (!fake_must_tell(host) && host->leaving)
			break;
		if (fake_is_free(unit))
			fake_fault(host, "VB-O4: free without deflate", unit);
		else if (!fake_is_marked(unit))
			fake_fault(host, "VB-O2: used in the balloon", unit);
		break;
	case FAKE_DEFLATING:
		if (fake_must_tell(host) && fake_is_free(unit))
			fake_fault(host, "VB-O5: free while deflated", unit);
		break;
	}
}

/**
 * fake_pages_check() - see whether the guest keeps off the host's pages
 * @host: the host; it has read all that was posted
 */
void fake_pages_check(struct fake_host *host)
{
	unsigned long unit;

	for (unit = host->lowest; unit <= host->highest; unit++)
		fake_check_unit(host, unit);
}

/* Whether the guest has to keep a unit for the host */
static bool fake_is_kept(struct fake_host *host, unsigned long unit)
{
	switch (fake_owner(host, unit)) {
	case FAKE_INFLATING:
		return true;
	case FAKE_HELD:
	case FAKE_DEFLATING:
		return fake_must_tell(host);
	case FAKE_GUEST:
		break;
	}
	return false;
}

/**
 * fake_pages_forget() - give all pages back: the device is being reset
 * @host: the host; it has read all that was posted
 */
void fake_pages_forget(struct fake_host *host)
{
	unsigned long unit;

	host->leaving = true;
	fake_pages_check(host);
	host->leaving = false;
	for (unit = host->lowest; unit <= host->highest; unit++) {
		if (fake_is_kept(host, unit) && !fake_is_free(unit))
			fake_mark(unit);
		if (fake_owner(host, unit) != FAKE_GUEST)
			fake_give(host, unit, FAKE_GUEST);
	}
}

/**
 * fake_unmanaged() - pages in the balloon that the guest does not count as its
 * @host: the host
 *
 * Those that it can take back when it needs them remain its own.
 *
 * Return: guest pages by which MemTotal is smaller.
 */
unsigned long fake_unmanaged(struct fake_host *host)
{
	if (host->features & BIT_ULL(VIRTIO_BALLOON_F_DEFLATE_ON_OOM))
		return 0;
	return fake_held(host);
}

/* Pages of a zone that the guest should count as gone */
static unsigned long fake_gone(struct fake_host *host, struct zone *zone)
{
	unsigned long unit, gone = 0;

	if (!fake_unmanaged(host))
		return 0;
	for (unit = host->lowest; unit <= host->highest;
	     unit += VIRTIO_BALLOON_UNITS)
		if (fake_owner(host, unit) == FAKE_HELD &&
		    page_zone(fake_unit_page(unit)) == zone)
			gone++;
	return gone;
}

static void fake_check_log(struct fake_host *host)
{
	KUNIT_EXPECT_FALSE_MSG(host->test,
			       test_taint(TAINT_WARN) ||
			       test_taint(TAINT_BAD_PAGE) ||
			       test_taint(TAINT_DIE),
			       "the kernel has warned");
	KUNIT_EXPECT_TRUE_MSG(host->test,
			      !IS_ENABLED(CONFIG_LOCKDEP) || debug_locks,
			      "lockdep has found something");
}

/* Others may also give back a lot of what they had when the case began. */
static bool fake_is_noise(long missing)
{
	return missing <= FAKE_NOISE && missing >= -16 * FAKE_NOISE;
}

/*
 * Pages that are neither free nor with the host, but were free once. How many
 * are being reported depends on the moment; none is when nothing else moves.
 */
static long fake_missing(struct fake_host *host)
{
	return host->free - fake_free_pages(host) - fake_held(host) -
	       READ_ONCE(host->reporting) / VIRTIO_BALLOON_UNITS;
}

/**
 * fake_check_guest() - compare the guest's accounts with the host's
 * @host: the host, at rest; no lock held
 *
 * Context: may sleep.
 */
void fake_check_guest(struct fake_host *host)
{
	unsigned int z, tries;

	fake_check_log(host);
	/* A report was answered, and the guest has not drawn its conclusions */
	for (tries = 0; tries < 10 && !fake_is_noise(fake_missing(host)); tries++)
		schedule_timeout_uninterruptible(HZ / 20 + 1);
	KUNIT_EXPECT_TRUE_MSG(host->test, fake_is_noise(fake_missing(host)),
			      "%ld free pages are missing", fake_missing(host));
	KUNIT_EXPECT_EQ(host->test, totalram_pages() + fake_unmanaged(host),
			host->totalram);
	for (z = 0; z < host->nr_zones; z++) {
		struct fake_zone *zone = &host->zones[z];

		if (!populated_zone(zone->zone))
			continue;
		KUNIT_EXPECT_EQ_MSG(host->test, zone->managed,
				    zone_managed_pages(zone->zone) +
				    fake_gone(host, zone->zone),
				    "managed pages of zone %s",
				    zone->zone->name);
	}
}

/* A page that nobody has any more, but for the one who forgot it */
static bool fake_is_lost(struct fake_host *host, unsigned long unit)
{
	struct page *page = fake_unit_page(unit);

	return host->owner[unit] & FAKE_EVER && page_count(page) == 1 &&
	       !PageSlab(page) && !PageLRU(page) && !PageCompound(page) &&
	       fake_is_marked(unit);
}

static unsigned long fake_lost(struct fake_host *host)
{
	unsigned long unit, lost = 0;

	for (unit = host->lowest; unit <= host->highest; unit++)
		lost += fake_is_lost(host, unit);
	return lost;
}

/**
 * fake_check_nothing_left() - see that the driver has left nothing behind
 * @host: the host, without a driver; no lock held
 *
 * Context: sleeps for a while if that is not so at once, as some things are
 * freed late.
 */
void fake_check_nothing_left(struct fake_host *host)
{
	unsigned long lost = 0;
	int tries;

	for (tries = 0; tries < 10; tries++) {
		lost = fake_lost(host);
		if (!lost && fake_is_noise(fake_missing(host)))
			break;
		schedule_timeout_uninterruptible(HZ / 20 + 1);
	}
	KUNIT_EXPECT_EQ_MSG(host->test, lost, 0, "units lost for ever");
	for (tries = 0; tries < FAKE_QUEUES; tries++)
		KUNIT_EXPECT_NULL_MSG(host->test, host->queue[tries].vq,
				      "queue %d is still there", tries);
	fake_check_guest(host);
}
