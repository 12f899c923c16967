// SPDX-License-Identifier: GPL-2.0-only

#include <linux/gfp.h>
#include <linux/mm.h>

/* The address of a page that is always mapped, which is all but high memory. */
__mp_helper void *mp_helper_page_address(struct page *page)
{
	return page_address(page);
}

__mp_helper phys_addr_t mp_helper_page_to_phys(struct page *page)
{
	return page_to_phys(page);
}

/*
 * A run of 2^order zeroed pages that are always mapped, aligned to its size; larger
 * than the page allocator's largest only where the kernel can make such runs.
 * NULL without memory.
 */
__mp_helper struct page *mp_helper_contiguous_alloc(unsigned int order)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN | __GFP_NORETRY;

	if (order <= MAX_PAGE_ORDER)
		return alloc_pages(gfp, order);
#ifdef CONFIG_CONTIG_ALLOC
	return alloc_contig_pages(1UL << order, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN,
				  numa_node_id(), NULL);
#else
	return NULL;
#endif
}

/*
 * The same as one compound page, no larger than the page allocator's largest: whoever
 * takes a reference to any part of it keeps the whole.
 */
__mp_helper struct page *mp_helper_compound_alloc(unsigned int order)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN | __GFP_NORETRY;

	return order <= MAX_PAGE_ORDER ? alloc_pages(gfp | __GFP_COMP, order) : NULL;
}

__mp_helper void mp_helper_contiguous_free(struct page *page, unsigned int order)
{
#ifdef CONFIG_CONTIG_ALLOC
	if (order > MAX_PAGE_ORDER) {
		free_contig_range(page_to_pfn(page), 1UL << order);
		return;
	}
#endif
	__free_pages(page, order);
}
