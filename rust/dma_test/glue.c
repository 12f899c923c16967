// SPDX-License-Identifier: GPL-2.0-only
/* What dma_test needs of macros and of memory at physical addresses. */

#include <linux/dmaengine.h>
#include <linux/io.h>
#include <linux/kasan-checks.h>
#include <linux/list.h>
#include <linux/mm.h>
#include "glue.h"

void dma_test_init_device(struct dma_device *dma)
{
	INIT_LIST_HEAD(&dma->channels);
	dma_cap_set(DMA_MEMCPY, dma->cap_mask);
}

void dma_test_add_channel(struct dma_device *dma, struct dma_chan *chan)
{
	chan->device = dma;
	chan->cookie = DMA_MIN_COOKIE;
	chan->completed_cookie = DMA_MIN_COOKIE;
	list_add_tail(&chan->device_node, &dma->channels);
}

/* RAM is reached by the linear map, a device's memory is mapped for the time. */
static void *map(phys_addr_t at, size_t len)
{
	if (pfn_valid(PHYS_PFN(at)) && page_is_ram(PHYS_PFN(at)))
		return phys_to_virt(at);
	return (__force void *)ioremap_wc(at, len);
}

static void unmap(void *map)
{
	if (!virt_addr_valid(map))
		iounmap((void __iomem *)map);
}

int dma_test_copy(phys_addr_t dst, phys_addr_t src, size_t len)
{
	void *to = map(dst, len), *from = map(src, len);

	if (to && from) {
		/* The engine of a real machine would read it in any case. */
		kasan_check_read(from, len);
		memcpy_toio((void __iomem *)to, from, len);
	}
	if (from)
		unmap(from);
	if (to)
		unmap(to);
	return to && from ? 0 : -ENOMEM;
}

int dma_test_spoil(phys_addr_t dst, size_t len)
{
	void *to = map(dst, len);

	if (!to)
		return -ENOMEM;
	memset_io((void __iomem *)to, 0xa5, len);
	unmap(to);
	return 0;
}
