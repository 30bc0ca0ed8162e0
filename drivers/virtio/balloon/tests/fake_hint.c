// SPDX-License-Identifier: GPL-2.0
/*
 * Rounds of free page hinting. A block that was hinted is free, but not on a
 * free list, until its answer and beyond; the host writes into it, as a
 * migration leaves it with other contents.
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/virtio_config.h>

#include "fake_host.h"

/**
 * fake_set_hint_id() - ask for a round, or end what there is of them
 * @host: the host; no lock held
 * @id: free_page_hint_cmd_id
 */
void fake_set_hint_id(struct fake_host *host, u32 id)
{
	scoped_guard(spinlock, &host->lock)
		host->config.free_page_hint_cmd_id = cpu_to_le32(id);
	virtio_config_changed(&host->vdev);
}

/* A round begins or ends [VB-H1, VB-H2, VB-H4, VB-H7]. */
static void fake_hint_read_id(struct fake_host *host,
			      struct fake_request *request)
{
	const __virtio32 *buf = phys_to_virt(request->addr);
	u32 id;

	if (request->len != sizeof(*buf)) {
		fake_fault(host, "VB-H1: command id of an odd size",
			   request->len);
		return;
	}
	id = __virtio32_to_cpu(!host->setup.legacy || virtio_legacy_is_little_endian(),
			       *buf);
	if (id == VIRTIO_BALLOON_CMD_ID_STOP) {
		host->ended++;
		host->begun = id;
		return;
	}
	if (id == host->begun)
		fake_fault(host, "VB-H2: command id given twice", id);
	if (id == VIRTIO_BALLOON_CMD_ID_DONE)
		fake_fault(host, "VB-H1: DONE is no round", id);
	host->begun = id;
	host->rounds++;
	host->hinted = 0;
	host->hints = 0;
	host->small = MAX_PAGE_ORDER;
}

static void fake_hint_block(struct fake_host *host, struct fake_request *request,
			    bool begin)
{
	unsigned long unit = request->addr / SZ_4K, n = request->len / SZ_4K, i;
	struct page *page = pfn_to_page(PHYS_PFN(request->addr));

	if (unit + n > host->nr_units || !IS_ALIGNED(request->addr, request->len)) {
		fake_fault(host, "VB-H3: odd block", unit);
		return;
	}
	for (i = 0; i < n; i++)
		if (!fake_pages_report(host, unit + i, begin))
			fake_fault(host, "VB-H3: page in use is hinted",
				   unit + i);
	if (PageBuddy(page))
		fake_fault(host, "VB-H3: block on a free list is hinted", unit);
	if (begin)
		fake_discard(page);
	else if (!fake_is_discarded(page))
		fake_fault(host, "VB-H5: hinted block was written to", unit);
}

/**
 * fake_hint_read() - take note of a buffer of the hinting queue
 * @host: the host
 * @request: just read
 */
void fake_hint_read(struct fake_host *host, struct fake_request *request)
{
	if (!(host->status & VIRTIO_CONFIG_S_DRIVER_OK))
		fake_fault(host, "hint before DRIVER_OK", host->resets);
	if (!request->hint) {
		fake_hint_read_id(host, request);
		return;
	}
	if (host->begun == VIRTIO_BALLOON_CMD_ID_STOP)
		fake_fault(host, "VB-H1: hint outside of a round", request->addr);
	fake_hint_block(host, request, true);
	host->hinted += request->len / SZ_4K;
	host->hints++;
	host->small = min_t(unsigned int, host->small, get_order(request->len));
}

/**
 * fake_hint_answer() - be done with a buffer
 * @host: the host
 * @request: about to be answered, or forgotten by a reset
 */
void fake_hint_answer(struct fake_host *host, struct fake_request *request)
{
	if (request->hint)
		fake_hint_block(host, request, false);
}
