/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A host that lives in the kernel, for tests of the balloon driver.
 *
 * It is a virtio device of our own, below a KUnit device. The driver probes it
 * through the virtio bus, like any other, and talks to it by real rings, split
 * or packed. The host sees nothing but what a host sees: the rings, by physical
 * address, the notifications, the configuration space and the status byte.
 *
 * A case is a few lines:
 *
 *	static void vb_o1_follows_the_target(struct kunit *test)
 *	{
 *		struct fake_host *host = fake_new(test, test->param_value);
 *
 *		fake_set_target(host, 700);
 *		fake_settle(host);
 *		KUNIT_EXPECT_EQ(test, fake_held(host), 700);
 *	}
 *
 * in a suite with .exit = fake_exit, as KUNIT_CASE_PARAM(..., fake_gen_params)
 * to run with each kind of device, or as KUNIT_CASE with a struct fake_setup of
 * its own (or NULL: modern, split) as second argument of fake_new().
 *
 * How the host answers is set at any time by host->answers and its neighbours
 * in struct fake_host; by default at once, in the driver's notification.
 * fake_step() answers by hand. fake_wait() waits for a condition, and fails
 * the case if it does not come.
 *
 * What each case has for nothing: the host keeps, for every PFN, which side
 * has it, and holds the driver to the clauses of the specification at every
 * notification, request, answer and reset (struct fake_fault says what can be
 * wrong). While it holds a page it keeps a mark in it, so that it sees if the
 * guest uses it. fake_settle(), fake_unbind() and the end of the case check
 * the guest's side as well: MemTotal, the managed pages of each zone, free
 * pages, memory the driver has not freed, warnings in the kernel log.
 *
 * Units: a page without more is a guest page; a unit is 4096 bytes. Counters
 * are in guest pages, the fields of the configuration space in units.
 */
#ifndef _VIRTIO_BALLOON_FAKE_HOST_H
#define _VIRTIO_BALLOON_FAKE_HOST_H

#include <kunit/test.h>
#include <linux/irq_work.h>
#include <linux/mmzone.h>
#include <linux/spinlock.h>
#include <linux/vhost_iotlb.h>
#include <linux/virtio.h>
#include <linux/virtio_ring.h>
#include <linux/vringh.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/virtio_balloon.h>

#include "../virtio_balloon.h"

struct fake_host;
struct fake_watch;

/* How long the driver may take for anything at all, in jiffies */
#define FAKE_PATIENCE		(20 * HZ)
/* How long the way down may take, whatever the host does */
#define FAKE_UNBIND_MAX		(5 * HZ)
/* When FAKE_LATE answers, in jiffies after the notification */
#define FAKE_DELAY		(HZ / 20)
/* Entries in a ring, if struct fake_setup does not say */
#define FAKE_RING		128
/* Pages that others may take or give back while a case runs */
#define FAKE_NOISE		128

/**
 * struct fake_setup - what kind of device
 * @name: for the log
 * @packed: packed rings; split otherwise
 * @legacy: without VERSION_1; goes with split rings only
 * @must_tell_host: offers MUST_TELL_HOST
 * @no_stats: has no statistics queue
 * @no_event_idx: does not offer EVENT_IDX
 * @hardened: a core that lets no ring be used before DRIVER_OK
 * @no_config: a transport that cannot read the configuration
 * @early_interrupts: calls callbacks for no reason as soon as they are there
 * @features: feature bits offered besides
 * @ring: entries in each ring; 0 for FAKE_RING
 * @num_pages: target when the driver comes, in units
 * @actual: size that the device remembers from before, in units
 * @fail_queue: the queue of this number, from 1, cannot be set up
 * @may_fail: the driver need not bind
 */
struct fake_setup {
	const char *name;
	bool packed;
	bool legacy;
	bool must_tell_host;
	bool no_stats;
	bool no_event_idx;
	bool hardened;
	bool no_config;
	bool early_interrupts;
	u64 features;
	unsigned int ring;
	u32 num_pages;
	u32 actual;
	unsigned int fail_queue;
	bool may_fail;
};

/* Queues, in the order of their numbers; those not negotiated have none */
enum fake_queue_id {
	FAKE_INFLATE,
	FAKE_DEFLATE,
	FAKE_STATS,
	FAKE_HINT,
	FAKE_REPORT,
	FAKE_QUEUES
};

/**
 * enum fake_answers - when the host answers, unless it is about statistics
 * @FAKE_AT_ONCE: within the notification, as long as there are any
 * @FAKE_STEPPED: when fake_step() says so; reads the ring when notified only
 * @FAKE_LATE: FAKE_DELAY after the notification
 * @FAKE_NEVER: reads them, and that is all
 */
enum fake_answers {
	FAKE_AT_ONCE,
	FAKE_STEPPED,
	FAKE_LATE,
	FAKE_NEVER,
};

/**
 * enum fake_interrupts - how used buffer interrupts arrive
 * @FAKE_INLINE: in the context that answers
 * @FAKE_HARD: in hard interrupt context, a little later
 * @FAKE_LOST: not at all
 * @FAKE_DOUBLED: twice, and once more for no reason; asked for or not
 */
enum fake_interrupts {
	FAKE_INLINE,
	FAKE_HARD,
	FAKE_LOST,
	FAKE_DOUBLED,
};

/* A piece of guest memory, in bytes */
struct fake_piece {
	phys_addr_t addr;
	u32 len;
};

/**
 * struct fake_request - a buffer that the host has read and not answered
 * @link: in host->requests, the oldest first
 * @queue: where it came from
 * @id: what names it in the used ring
 * @descs: descriptors it takes, for a packed ring
 * @addr: physical address
 * @len: bytes
 * @sum: checksum of the contents, which are not to change
 * @pieces: of a report, in place of @addr, @len and @sum
 * @hint: a free block, which the device may write to; no contents
 * @nr_pieces: how many
 */
struct fake_request {
	struct list_head link;
	struct fake_queue *queue;
	u16 id;
	u16 descs;
	phys_addr_t addr;
	u32 len;
	u32 sum;
	struct fake_piece *pieces;
	unsigned int nr_pieces;
	bool hint;
};

/* The host's side of a packed ring */
struct fake_packed {
	struct vring_packed_desc *desc;
	struct vring_packed_desc_event *driver;
	u16 num;
	u16 avail;
	u16 used;
	u16 fresh;	/* used since the driver was last to be told */
	bool avail_wrap;
	bool used_wrap;
};

/**
 * struct fake_queue - the host's side of a queue
 * @host: whose
 * @id: its number
 * @vq: the driver's side; NULL while there is none
 * @vringh: of a split ring
 * @packed: of a packed ring
 * @pool: a request for each entry, by fake_request.id
 * @pieces: of the reporting queue, FAKE_PIECES for each entry
 * @kicks: notifications
 * @buffers: requests read
 * @outstanding: of them, unanswered
 * @interrupts: raised
 * @raise: an interrupt is due
 */
struct fake_queue {
	struct fake_host *host;
	enum fake_queue_id id;
	struct virtqueue *vq;
	struct vringh vringh;
	struct fake_packed packed;
	struct fake_request *pool;
	struct fake_piece *pieces;
	unsigned int kicks;
	unsigned int buffers;
	unsigned int outstanding;
	unsigned int interrupts;
	unsigned long raise;
};

/* Which side has a unit */
enum fake_owner {
	FAKE_GUEST,		/* the guest, who may use it */
	FAKE_INFLATING,		/* was in an inflate request, unanswered */
	FAKE_HELD,		/* the host */
	FAKE_DEFLATING,		/* was in a deflate request, unanswered */
};

/**
 * struct fake_fault - something the driver did against the rules
 * @what: the clause and the fault
 * @value: for the most part, the PFN
 */
struct fake_fault {
	const char *what;
	u64 value;
};

/* A zone and its managed pages before the driver came */
struct fake_zone {
	struct zone *zone;
	unsigned long managed;
};

/* Pieces of a report, at most */
#define FAKE_PIECES	PAGE_REPORTING_CAPACITY

#define FAKE_FAULTS	8
#define FAKE_ZONES	16

/**
 * struct fake_host - the device
 * @test: the case
 * @vdev: what the driver sees
 * @setup: what kind it is
 *
 * To be changed by a case at any time:
 * @answers: see enum fake_answers
 * @interrupts: see enum fake_interrupts
 * @newest_first: answers in reverse order
 * @used_len: the used length that it reports
 * @on_kick: called before a notification is looked at
 * @on_config_read: called before num_pages is read
 * @on_ready: called just before DRIVER_OK is set
 * @data: for these to use
 *
 * To be read by a case:
 * @lock: guards all that follows, but for what has one word
 * @wait: woken when any of it changes
 * @config: the configuration space
 * @status: the status byte
 * @features: as negotiated
 * @queue: the queues
 * @outstanding: requests to inflate or deflate, unanswered
 * @owned: units by their owner
 * @inflated: pages that were named in inflate requests, in all
 * @deflated: pages that were named in deflate requests, in all
 * @groups: of them, groups of 2 MiB that were named whole and in order
 * @reported: units that were reported, in all
 * @reporting: of them, unanswered
 * @hinted: units in free blocks that were hinted in this round
 * @hints: blocks hinted in this round
 * @small: order of the smallest of them
 * @begun: command id of the round, as the driver gave it
 * @rounds: how many rounds the driver began
 * @ended: how many it ended
 * @poisoned: poison_val was written since the last reset
 * @awaited: a page; its report was read if this is NULL again
 * @config_reads: reads of num_pages
 * @config_writes: writes of actual
 * @resets: how often it was reset
 * @stats: the statistics that came last
 * @nr_stats: entries in @stats
 * @stats_answers: how often statistics came
 * @faults: the first faults that were seen
 * @nr_faults: how many were seen in all
 */
struct fake_host {
	struct kunit *test;
	struct virtio_device vdev;
	struct fake_setup setup;

	enum fake_answers answers;
	enum fake_interrupts interrupts;
	bool newest_first;
	u32 used_len;
	void (*on_kick)(struct fake_host *host, struct fake_queue *queue);
	void (*on_config_read)(struct fake_host *host);
	void (*on_ready)(struct fake_host *host);
	unsigned long data;

	spinlock_t lock;	/* see above */
	wait_queue_head_t wait;
	struct virtio_balloon_config config;
	u8 status;
	u64 features;
	struct fake_queue queue[FAKE_QUEUES];
	unsigned int outstanding;
	unsigned long owned[FAKE_DEFLATING + 1];
	unsigned long inflated;
	unsigned long deflated;
	unsigned long groups;
	unsigned long reported;
	unsigned long reporting;
	unsigned long hinted;
	unsigned int hints;
	unsigned int small;
	u32 begun;
	unsigned int rounds;
	unsigned int ended;
	bool poisoned;
	struct page *awaited;
	unsigned int config_reads;
	unsigned int config_writes;
	unsigned int resets;
	struct virtio_balloon_stat stats[VIRTIO_BALLOON_S_NR];
	unsigned int nr_stats;
	unsigned int stats_answers;
	struct fake_fault faults[FAKE_FAULTS];
	unsigned int nr_faults;

	/* private: */
	bool registered;
	bool gone;
	bool leaving;
	struct completion released;
	struct list_head requests;
	struct fake_request *stats_request;
	struct delayed_work late;
	struct irq_work hard;
	struct vhost_iotlb *iotlb;
	spinlock_t iotlb_lock;	/* vringh's */
	u8 *owner;
	unsigned long nr_units;
	unsigned long lowest;
	unsigned long highest;
	unsigned long totalram;
	unsigned long free;
	struct fake_zone zones[FAKE_ZONES];
	unsigned int nr_zones;
	struct fake_watch *watch;
};

u32 fake_seed(struct kunit *test);
void fake_sleep(unsigned long delay);

/* The life of a device */
const void *fake_gen_params(const void *prev, char *desc);
struct fake_setup fake_setup_with(struct kunit *test, u64 features);
struct fake_host *fake_new(struct kunit *test, const struct fake_setup *setup);
struct fake_host *fake_new_with(struct kunit *test, u64 features);
void fake_exit(struct kunit *test);
bool fake_is_bound(struct fake_host *host);
void fake_bind(struct fake_host *host);
void fake_unbind(struct fake_host *host);
void fake_freeze(struct fake_host *host);
int fake_restore(struct fake_host *host);
void fake_shutdown(struct fake_host *host);
void fake_break(struct fake_host *host);
void fake_pull(struct fake_host *host);

/* What the host does */
void fake_set_units(struct fake_host *host, u32 units);
void fake_set_target(struct fake_host *host, unsigned long pages);
unsigned int fake_step(struct fake_host *host, unsigned int count);
void fake_ask_stats(struct fake_host *host);
void fake_answer_unposted(struct fake_host *host, enum fake_queue_id id);
void fake_spurious(struct fake_host *host, enum fake_queue_id id);

/* Page migration, as the migration core does it */
bool fake_isolate(struct page *page);
void fake_putback(struct page *page);
int fake_migrate(struct page *page, gfp_t gfp, struct page **newpage);

/* What the test sees */
bool fake_at_rest(struct fake_host *host);
void fake_settle(struct fake_host *host);
void fake_check(struct fake_host *host);
unsigned long fake_held(struct fake_host *host);
unsigned long fake_on_cpus(const struct fake_host *host);
unsigned long fake_unmanaged(struct fake_host *host);
struct page *fake_held_page(struct fake_host *host, unsigned long nth);
unsigned long fake_batch(struct fake_host *host);
unsigned long fake_scattered(struct fake_host *host);
u64 fake_stat(struct fake_host *host, u16 tag);

/**
 * fake_wait() - wait for a condition; the case fails if it does not come
 * @host: the host; the condition is looked at when anything happens to it
 * @condition: an expression
 */
#define fake_wait(host, condition) do {					\
	struct fake_host *_host = (host);				\
	bool _came = wait_event_timeout(_host->wait, condition,		\
					FAKE_PATIENCE);			\
									\
	KUNIT_ASSERT_TRUE_MSG(_host->test, _came,			\
			      "waited in vain for %s", #condition);	\
} while (0)

/* fake_ring.c: reading and answering, host->lock held */
int fake_ring_init(struct fake_queue *queue);
struct fake_request *fake_ring_read(struct fake_queue *queue);
void fake_ring_answer(struct fake_queue *queue, u16 id, u16 descs, u32 len);
bool fake_ring_wants_interrupt(struct fake_queue *queue);
bool fake_ring_listen(struct fake_queue *queue);

/* fake_hint.c: rounds of hinting; host->lock held by the first two */
void fake_hint_read(struct fake_host *host, struct fake_request *request);
void fake_hint_answer(struct fake_host *host, struct fake_request *request);
void fake_set_hint_id(struct fake_host *host, u32 id);

/* fake_report.c: what is reported, host->lock held */
void fake_report_read(struct fake_host *host, struct fake_request *request);
void fake_report_answer(struct fake_host *host, struct fake_request *request);
bool fake_holds(struct page *page, u32 value);
void fake_discard(struct page *page);
bool fake_is_discarded(struct page *page);

/* fake_pages.c: who has which page, host->lock held unless said */
int fake_pages_init(struct fake_host *host);
bool fake_pages_report(struct fake_host *host, unsigned long unit, bool begin);
void fake_fault(struct fake_host *host, const char *what, u64 value);
void fake_pages_read(struct fake_host *host, struct fake_request *request);
void fake_pages_answer(struct fake_host *host, struct fake_request *request);
void fake_pages_forget(struct fake_host *host);
void fake_pages_check(struct fake_host *host);
void fake_check_guest(struct fake_host *host);
void fake_check_nothing_left(struct fake_host *host);

/* fake_watch.c: what the driver allocates, and what of that is to fail */
int fake_watch_begin(struct fake_host *host);
void fake_watch_end(struct fake_host *host);
bool fake_can_fail(void);
void fake_fail_nth(unsigned int nth);
bool fake_has_failed(void);

#endif /* _VIRTIO_BALLOON_FAKE_HOST_H */
