// SPDX-License-Identifier: GPL-2.0

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
