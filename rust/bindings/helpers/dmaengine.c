// SPDX-License-Identifier: GPL-2.0-only

#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/overflow.h>

/* An engine that has no node is as near as any. */
static bool mp_dma_is_near(struct dma_chan *chan, void *node)
{
	int at = dev_to_node(chan->device->dev);

	return at == NUMA_NO_NODE || at == *(int *)node;
}

__mp_helper struct dma_chan *mp_helper_dma_request_memcpy(struct device *near)
{
	int node = dev_to_node(near);
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	return dma_request_channel(mask, node == NUMA_NO_NODE ? NULL : mp_dma_is_near,
				   &node);
}

/* The linear map's address of RAM at a physical address, or NULL. */
__mp_helper void *mp_helper_phys_ram(phys_addr_t phys, size_t len)
{
	phys_addr_t last;

	if (!len || check_add_overflow(phys, len - 1, &last))
		return NULL;
	if (!pfn_valid(PHYS_PFN(phys)) || !page_is_ram(PHYS_PFN(phys)) ||
	    !pfn_valid(PHYS_PFN(last)) || !page_is_ram(PHYS_PFN(last)))
		return NULL;
	return phys_to_virt(phys);
}

/* The physical address of kernel memory, wherever it is mapped. */
__mp_helper phys_addr_t mp_helper_kernel_phys(void *virt)
{
	if (is_vmalloc_addr(virt))
		return page_to_phys(vmalloc_to_page(virt)) + offset_in_page(virt);
	return virt_to_phys(virt);
}

__mp_helper void mp_helper_dma_release(struct dma_chan *chan)
{
	dma_release_channel(chan);
}

__mp_helper const char *mp_helper_dma_chan_name(struct dma_chan *chan)
{
	return dma_chan_name(chan);
}

__mp_helper struct dma_async_tx_descriptor *
mp_helper_dmaengine_prep_dma_memcpy(struct dma_chan *chan, dma_addr_t dst,
				    dma_addr_t src, size_t len, unsigned long flags)
{
	return dmaengine_prep_dma_memcpy(chan, dst, src, len, flags);
}

__mp_helper bool mp_helper_dmaengine_submit_ok(struct dma_async_tx_descriptor *tx)
{
	return !dma_submit_error(dmaengine_submit(tx));
}

__mp_helper void mp_helper_dma_issue_pending(struct dma_chan *chan)
{
	dma_async_issue_pending(chan);
}

__mp_helper int mp_helper_dmaengine_terminate_async(struct dma_chan *chan)
{
	return dmaengine_terminate_async(chan);
}

__mp_helper void mp_helper_dmaengine_synchronize(struct dma_chan *chan)
{
	dmaengine_synchronize(chan);
}

__mp_helper bool mp_helper_is_dma_copy_aligned(struct dma_chan *chan, size_t off1,
					       size_t off2, size_t len)
{
	return is_dma_copy_aligned(chan->device, off1, off2, len);
}

__mp_helper bool mp_helper_dma_addr_failed(struct device *dev, dma_addr_t addr)
{
	return dma_mapping_error(dev, addr);
}

/* What is not in the linear map cannot be mapped for a device by its address. */
__mp_helper bool mp_helper_virt_range_valid(const void *start, size_t len)
{
	return virt_addr_valid(start) && virt_addr_valid(start + len - 1);
}

__mp_helper dma_addr_t mp_helper_dma_map_to_device(struct device *dev,
						   const void *start, size_t len)
{
	return dma_map_single(dev, (void *)start, len, DMA_TO_DEVICE);
}

__mp_helper void mp_helper_dma_unmap_to_device(struct device *dev, dma_addr_t addr,
					       size_t len)
{
	dma_unmap_single(dev, addr, len, DMA_TO_DEVICE);
}

__mp_helper dma_addr_t mp_helper_dma_map_from_device(struct device *dev, void *start,
						     size_t len)
{
	return dma_map_single(dev, start, len, DMA_FROM_DEVICE);
}

__mp_helper void mp_helper_dma_unmap_from_device(struct device *dev, dma_addr_t addr,
						 size_t len)
{
	dma_unmap_single(dev, addr, len, DMA_FROM_DEVICE);
}

__mp_helper dma_addr_t mp_helper_dma_map_window(struct device *dev, phys_addr_t addr,
						size_t len)
{
	return dma_map_resource(dev, addr, len, DMA_FROM_DEVICE, 0);
}

__mp_helper void mp_helper_dma_unmap_window(struct device *dev, dma_addr_t addr,
					    size_t len)
{
	dma_unmap_resource(dev, addr, len, DMA_FROM_DEVICE, 0);
}
