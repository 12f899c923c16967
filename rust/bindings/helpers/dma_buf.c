// SPDX-License-Identifier: GPL-2.0-only

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>

#ifdef CONFIG_DMA_SHARED_BUFFER
MODULE_IMPORT_NS("DMA_BUF");
#endif

__mp_helper void *mp_helper_dmabuf_export(const void *info)
{
#ifdef CONFIG_DMA_SHARED_BUFFER
	return dma_buf_export(info);
#else
	return ERR_PTR(-EOPNOTSUPP);
#endif
}

__mp_helper unsigned int mp_helper_device_max_segment(void *dev)
{
	return dma_get_max_seg_size(dev);
}

/* Says where an entry's memory is, which has a `struct page`; the next entry. */
__mp_helper void *mp_helper_sg_say(void *entry, u64 phys, unsigned int len)
{
	struct scatterlist *sg = entry;

	sg_set_page(sg, pfn_to_page(PHYS_PFN(phys)), len, offset_in_page(phys));
	return sg_next(sg);
}

__mp_helper void mp_helper_sgtable_unmap(void *dev, void *table, int direction)
{
	dma_unmap_sgtable(dev, table, direction, 0);
}

__mp_helper void mp_helper_sgtable_sync_for_cpu(void *dev, void *table, int direction)
{
	dma_sync_sgtable_for_cpu(dev, table, direction);
}

__mp_helper void mp_helper_sgtable_sync_for_device(void *dev, void *table, int direction)
{
	dma_sync_sgtable_for_device(dev, table, direction);
}

/* An area that is being mapped shows memory in one run. */
__mp_helper int mp_helper_vma_show_run(void *vma, unsigned long address, u64 phys, unsigned long len)
{
	struct vm_area_struct *area = vma;

	return remap_pfn_range(area, address, PHYS_PFN(phys), len, area->vm_page_prot);
}

/* It is neither inherited nor grown. */
__mp_helper void mp_helper_vma_keep_single(void *vma)
{
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
}
