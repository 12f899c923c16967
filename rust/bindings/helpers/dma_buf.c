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

#ifdef CONFIG_DMA_SHARED_BUFFER
/* A reference to the dma-buf of a descriptor, or an error. */
__mp_helper void *mp_helper_dmabuf_get(int fd)
{
	return dma_buf_get(fd);
}

__mp_helper void mp_helper_dmabuf_put(void *buffer)
{
	dma_buf_put(buffer);
}

__mp_helper size_t mp_helper_dmabuf_size(void *buffer)
{
	return ((struct dma_buf *)buffer)->size;
}

__mp_helper bool mp_helper_dmabuf_may_be_written(void *buffer)
{
	return ((struct dma_buf *)buffer)->file->f_mode & FMODE_WRITE;
}

/* Where some bytes of a table begin for its device, if they are one run for it. */
static bool mp_is_run(struct sg_table *table, u64 off, u64 len, u64 *start)
{
	u64 at = 0, found = 0;
	struct scatterlist *sg;
	int i;

	for_each_sgtable_dma_sg(table, sg, i) {
		u64 first = max(at, off), next = at + sg_dma_len(sg);
		u64 addr = sg_dma_address(sg) + (first - at);

		at = next;
		next = min(next, off + len);
		if (first >= next)
			continue;
		if (!found)
			*start = addr;
		else if (addr != *start + found)
			return false;
		found += next - first;
	}
	return found == len;
}

/*
 * Lets a device reach a buffer, of which some bytes are one run for it then; the attachment, and
 * where they begin. The buffer stays where it is meanwhile. EOPNOTSUPP if they are not one run.
 */
__mp_helper void *mp_helper_dmabuf_map(void *buffer, struct device *dev, u64 off, u64 len,
				       u64 *start)
{
	struct dma_buf_attachment *attachment;
	struct sg_table *table;

	attachment = dma_buf_attach(buffer, dev);
	if (IS_ERR(attachment))
		return attachment;
	table = dma_buf_map_attachment_unlocked(attachment, DMA_BIDIRECTIONAL);
	if (IS_ERR(table)) {
		dma_buf_detach(buffer, attachment);
		return table;
	}
	if (!mp_is_run(table, off, len, start)) {
		dma_buf_unmap_attachment_unlocked(attachment, table, DMA_BIDIRECTIONAL);
		dma_buf_detach(buffer, attachment);
		return ERR_PTR(-EOPNOTSUPP);
	}
	attachment->importer_priv = table;
	get_device(dev);
	return attachment;
}

__mp_helper void mp_helper_dmabuf_unmap(void *made)
{
	struct dma_buf_attachment *attachment = made;
	struct device *dev = attachment->dev;

	dma_buf_unmap_attachment_unlocked(attachment, attachment->importer_priv, DMA_BIDIRECTIONAL);
	dma_buf_detach(attachment->dmabuf, attachment);
	put_device(dev);
}
#else
__mp_helper void *mp_helper_dmabuf_get(int fd)
{
	return ERR_PTR(-EOPNOTSUPP);
}

/* There are none. */
__mp_helper void mp_helper_dmabuf_put(void *buffer)
{
}

__mp_helper size_t mp_helper_dmabuf_size(void *buffer)
{
	return 0;
}

__mp_helper bool mp_helper_dmabuf_may_be_written(void *buffer)
{
	return false;
}

__mp_helper void *mp_helper_dmabuf_map(void *buffer, struct device *dev, u64 off, u64 len,
				       u64 *start)
{
	return ERR_PTR(-EOPNOTSUPP);
}

__mp_helper void mp_helper_dmabuf_unmap(void *made)
{
}
#endif
