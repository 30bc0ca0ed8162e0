// SPDX-License-Identifier: GPL-2.0
/*
 * Reports of free pages. From the report to its answer the host may do with a
 * reported page what it likes, and the guest nothing: the page is free, but not
 * on a free list. The host writes into it, as one does that gives the memory
 * away, unless the guest wants it to keep poison_val.
 */
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/kasan.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "fake_host.h"

/* What a discarded page begins with */
#define FAKE_DISCARDED	0xd15cad

static bool fake_keeps_poison(struct fake_host *host)
{
	return host->features & BIT_ULL(VIRTIO_BALLOON_F_PAGE_POISON);
}

/**
 * fake_holds() - whether a page, free or not, is filled with a value
 * @page: the page
 * @value: in each word of 4 bytes
 *
 * Return: true if so.
 */
bool fake_holds(struct page *page, u32 value)
{
	unsigned int i;
	bool holds = true;
	u32 *word;

	kasan_disable_current();
	word = kmap_local_page(page);
	for (i = 0; i < PAGE_SIZE / sizeof(*word) && holds; i++)
		holds = word[i] == value;
	kunmap_local(word);
	kasan_enable_current();
	return holds;
}

/* The first word of a block; what the block's user may know nothing of */
static u32 fake_first_word(struct page *page, bool discard)
{
	u32 *word, value;

	kasan_disable_current();
	word = kmap_local_page(page);
	if (discard)
		*word = FAKE_DISCARDED;
	value = *word;
	kunmap_local(word);
	kasan_enable_current();
	return value;
}

/**
 * fake_discard() - do with a free block as one that gives its memory away
 * @page: its head
 */
void fake_discard(struct page *page)
{
	fake_first_word(page, true);
}

/**
 * fake_is_discarded() - whether nobody has written to it since
 * @page: its head
 *
 * Return: true if so.
 */
bool fake_is_discarded(struct page *page)
{
	return fake_first_word(page, false) == FAKE_DISCARDED;
}

/* A block of a report begins or ends to be with the host. */
static void fake_report_piece(struct fake_host *host, struct fake_piece *piece,
			      bool begin)
{
	struct page *page = pfn_to_page(PHYS_PFN(piece->addr));
	unsigned long unit = piece->addr / SZ_4K, n = piece->len / SZ_4K, i;

	if (unit + n > host->nr_units) {
		fake_fault(host, "VB-R2: block out of range", unit);
		return;
	}
	for (i = 0; i < n; i++)
		if (!fake_pages_report(host, unit + i, begin))
			fake_fault(host, "VB-R2: page in use is reported",
				   unit + i);
	if (PageBuddy(page))
		fake_fault(host, "VB-R2: block on a free list is reported", unit);
	if (!fake_keeps_poison(host) && !begin &&
	    !fake_is_discarded(page))
		fake_fault(host, "VB-R2: page used while reported", unit);
	host->reporting += begin ? n : -n;
	host->reported += begin ? n : 0;
}

/* See whether a block that the case is interested in is in a report. */
static void fake_report_awaited(struct fake_host *host,
				struct fake_piece *piece)
{
	struct page *page = host->awaited;

	if (!page || page_to_phys(page) < piece->addr ||
	    page_to_phys(page) >= piece->addr + piece->len)
		return;
	if (fake_keeps_poison(host) &&
	    !fake_holds(page, le32_to_cpu(host->config.poison_val)))
		fake_fault(host, "VB-R1: reported page is without poison_val",
			   page_to_pfn(page));
	host->awaited = NULL;
}

/**
 * fake_report_read() - take note of a report
 * @host: the host
 * @request: just read
 */
void fake_report_read(struct fake_host *host, struct fake_request *request)
{
	unsigned int i;

	if (!(host->status & VIRTIO_CONFIG_S_DRIVER_OK))
		fake_fault(host, "VB-R3: report before DRIVER_OK", host->resets);
	for (i = 0; i < request->nr_pieces; i++) {
		struct fake_piece *piece = &request->pieces[i];

		if (piece->len < SZ_2M || !IS_ALIGNED(piece->addr, SZ_2M))
			fake_fault(host, "VB-R4: small or odd block",
				   piece->len);
		fake_report_piece(host, piece, true);
		fake_report_awaited(host, piece);
		if (!fake_keeps_poison(host))
			fake_discard(pfn_to_page(PHYS_PFN(piece->addr)));
	}
}

/**
 * fake_report_answer() - the guest may use what it reported
 * @host: the host
 * @request: about to be answered, or forgotten by a reset
 */
void fake_report_answer(struct fake_host *host, struct fake_request *request)
{
	unsigned int i;

	for (i = 0; i < request->nr_pieces; i++)
		fake_report_piece(host, &request->pieces[i], false);
}
