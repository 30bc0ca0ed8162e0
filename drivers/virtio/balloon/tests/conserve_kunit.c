// SPDX-License-Identifier: GPL-2.0
/*
 * Conservation: whatever the host does and whatever goes wrong, in any order,
 * each page is with one side. A run makes random steps; after some of them
 * the host answers for a while, all comes to rest, and all is checked.
 *
 * The seed is in the log, and virtio_balloon.test_seed= repeats a run.
 */
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/virtio_config.h>

#include "fake_host.h"

#define CONSERVE_STEPS	150
/* Every so many steps things come to rest, in the mean */
#define CONSERVE_REST	12
/* Pages that the guest may take for itself at a time */
#define CONSERVE_PAGES	500

/**
 * struct conserve - a run
 * @host: the device
 * @rnd: the source of all that is random
 * @isolated: a page that migration has, or NULL
 * @broken: the rings are broken until the device is bound anew
 * @steps: what was done since things were at rest last, by number
 * @nr_steps: how many
 */
struct conserve {
	struct fake_host *host;
	struct rnd_state rnd;
	struct page *isolated;
	bool broken;
	u8 steps[CONSERVE_STEPS];
	unsigned int nr_steps;
};

static unsigned int conserve_random(struct conserve *run, unsigned int ceiling)
{
	return prandom_u32_state(&run->rnd) % ceiling;
}

static void conserve_target(struct conserve *run)
{
	unsigned int most = 3 * fake_batch(run->host) * VIRTIO_BALLOON_UNITS;

	fake_set_units(run->host, conserve_random(run, most));
}

static void conserve_small_target(struct conserve *run)
{
	fake_set_units(run->host, conserve_random(run, 50));
}

static void conserve_answers(struct conserve *run)
{
	run->host->answers = conserve_random(run, FAKE_NEVER + 1);
	run->host->newest_first = conserve_random(run, 2);
	run->host->used_len = conserve_random(run, 5000);
}

static void conserve_interrupts(struct conserve *run)
{
	run->host->interrupts = conserve_random(run, FAKE_DOUBLED + 1);
}

static void conserve_step(struct conserve *run)
{
	fake_step(run->host, 1 + conserve_random(run, 3));
}

static void conserve_sleep(struct conserve *run)
{
	schedule_timeout_uninterruptible(1 + conserve_random(run, HZ / 10));
}

static void conserve_call_back(struct conserve *run)
{
	fake_spurious(run->host, conserve_random(run, FAKE_QUEUES));
}

static void conserve_stats(struct conserve *run)
{
	if (run->host->queue[FAKE_STATS].outstanding)
		fake_ask_stats(run->host);
}

/* The guest takes pages and writes to them. */
static void conserve_take(struct conserve *run)
{
	struct page *page, *next;
	LIST_HEAD(pages);

	alloc_pages_bulk_list(GFP_KERNEL | __GFP_ZERO, CONSERVE_PAGES, &pages);
	list_for_each_entry_safe(page, next, &pages, lru)
		__free_page(page);
}

static void conserve_break(struct conserve *run)
{
	fake_break(run->host);
	run->broken = true;
}

#ifdef CONFIG_BALLOON_COMPACTION
static void conserve_putback(struct conserve *run)
{
	if (run->isolated)
		fake_putback(run->isolated);
	run->isolated = NULL;
}

static void conserve_isolate(struct conserve *run)
{
	unsigned long held = fake_held(run->host);
	struct page *page;

	if (run->isolated || !held)
		return;
	page = fake_held_page(run->host, conserve_random(run, held));
	if (fake_isolate(page))
		run->isolated = page;
}

static void conserve_migrate(struct conserve *run)
{
	static const gfp_t kinds[] = { GFP_HIGHUSER_MOVABLE, GFP_KERNEL };

	if (!run->isolated)
		conserve_isolate(run);
	if (run->isolated)
		fake_migrate(run->isolated, kinds[conserve_random(run, 2)],
			     NULL);
	run->isolated = NULL;
}
#else
static void conserve_putback(struct conserve *run)
{
}

static void conserve_isolate(struct conserve *run)
{
}

static void conserve_migrate(struct conserve *run)
{
}
#endif

static void conserve_bind(struct conserve *run)
{
	conserve_putback(run);
	fake_unbind(run->host);
	fake_bind(run->host);
	run->broken = false;
}

#ifdef CONFIG_PM_SLEEP
static void conserve_freeze(struct conserve *run)
{
	conserve_putback(run);
	fake_freeze(run->host);
	KUNIT_EXPECT_EQ(run->host->test, 0, fake_restore(run->host));
	run->broken = false;
}
#else
static void conserve_freeze(struct conserve *run)
{
}
#endif

/* Come to rest, and have all checked. */
static void conserve_rest(struct conserve *run)
{
	struct fake_host *host = run->host;

	conserve_putback(run);
	host->interrupts = FAKE_INLINE;
	if (run->broken)
		conserve_bind(run);
	host->answers = FAKE_STEPPED;
	/* What interrupts were lost is made up for by this one */
	virtio_config_changed(&host->vdev);
	fake_settle(host);
}

#define CONSERVE(step, weight)	{ #step, weight, conserve_ ## step }

static const struct {
	const char *name;
	unsigned int weight;
	void (*step)(struct conserve *run);
} conserve_steps[] = {
	CONSERVE(target, 20),
	CONSERVE(small_target, 5),
	CONSERVE(answers, 8),
	CONSERVE(interrupts, 5),
	CONSERVE(step, 20),
	CONSERVE(sleep, 10),
	CONSERVE(call_back, 5),
	CONSERVE(stats, 5),
	CONSERVE(take, 5),
	CONSERVE(isolate, 5),
	CONSERVE(putback, 5),
	CONSERVE(migrate, 8),
	CONSERVE(break, 2),
	CONSERVE(bind, 2),
	CONSERVE(freeze, 2),
};

static void conserve_random_step(struct conserve *run)
{
	unsigned int sum = 0, s, pick;

	for (s = 0; s < ARRAY_SIZE(conserve_steps); s++)
		sum += conserve_steps[s].weight;
	pick = conserve_random(run, sum);
	for (s = 0; pick >= conserve_steps[s].weight; s++)
		pick -= conserve_steps[s].weight;
	run->steps[run->nr_steps++] = s;
	conserve_steps[s].step(run);
}

/* Say what led to a failure. */
static void conserve_tell(struct conserve *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_steps; i++)
		kunit_info(run->host->test, "%s\n",
			   conserve_steps[run->steps[i]].name);
}

/* Random steps, with each kind of device, while free pages are reported */
static void pages_are_conserved(struct kunit *test)
{
	const struct fake_setup *param = test->param_value;
	struct fake_setup setup = *param;
	struct conserve run = {};
	unsigned int i;

	setup.features |= BIT_ULL(VIRTIO_BALLOON_F_REPORTING) |
			  BIT_ULL(VIRTIO_BALLOON_F_PAGE_POISON);
	run.host = fake_new(test, &setup);
	prandom_seed_state(&run.rnd, fake_seed(test));
	for (i = 0; i < CONSERVE_STEPS && test->status != KUNIT_FAILURE; i++) {
		conserve_random_step(&run);
		if (conserve_random(&run, CONSERVE_REST))
			continue;
		conserve_rest(&run);
		if (test->status != KUNIT_FAILURE)
			run.nr_steps = 0;
	}
	if (test->status == KUNIT_FAILURE)
		conserve_tell(&run);
	else
		conserve_rest(&run);
}

static struct kunit_case conserve_cases[] = {
	KUNIT_CASE_PARAM(pages_are_conserved, fake_gen_params),
	{}
};

static struct kunit_suite conserve_suite = {
	.name = "virtio_balloon_conserve",
	.exit = fake_exit,
	.test_cases = conserve_cases,
};

kunit_test_suite(conserve_suite);
