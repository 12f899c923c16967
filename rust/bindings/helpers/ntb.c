// SPDX-License-Identifier: GPL-2.0-only

#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/mm.h>
#include <linux/ntb.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

__mp_helper int mp_helper_ntb_port_number(struct ntb_dev *ntb)
{
	return ntb_port_number(ntb);
}

__mp_helper int mp_helper_ntb_peer_port_count(struct ntb_dev *ntb)
{
	return ntb_peer_port_count(ntb);
}

__mp_helper int mp_helper_ntb_peer_port_number(struct ntb_dev *ntb, int pidx)
{
	return ntb_peer_port_number(ntb, pidx);
}

__mp_helper int mp_helper_ntb_peer_port_idx(struct ntb_dev *ntb, int port)
{
	return ntb_peer_port_idx(ntb, port);
}

__mp_helper int mp_helper_ntb_peer_resource_idx(struct ntb_dev *ntb, int pidx)
{
	return ntb_peer_resource_idx(ntb, pidx);
}

__mp_helper u64 mp_helper_ntb_link_is_up(struct ntb_dev *ntb,
		enum ntb_speed *speed, enum ntb_width *width)
{
	return ntb_link_is_up(ntb, speed, width);
}

__mp_helper int mp_helper_ntb_link_enable(struct ntb_dev *ntb,
		enum ntb_speed speed, enum ntb_width width)
{
	return ntb_link_enable(ntb, speed, width);
}

__mp_helper int mp_helper_ntb_link_disable(struct ntb_dev *ntb)
{
	return ntb_link_disable(ntb);
}

__mp_helper int mp_helper_ntb_mw_count(struct ntb_dev *ntb, int pidx)
{
	return ntb_mw_count(ntb, pidx);
}

__mp_helper int mp_helper_ntb_mw_get_align(struct ntb_dev *ntb, int pidx,
		int widx, resource_size_t *addr_align, resource_size_t *size_align,
		resource_size_t *size_max)
{
	return ntb_mw_get_align(ntb, pidx, widx, addr_align, size_align,
		size_max);
}

__mp_helper int mp_helper_ntb_mw_set_trans(struct ntb_dev *ntb, int pidx,
		int widx, dma_addr_t addr, resource_size_t size)
{
	return ntb_mw_set_trans(ntb, pidx, widx, addr, size);
}

__mp_helper int mp_helper_ntb_mw_clear_trans(struct ntb_dev *ntb, int pidx,
		int widx)
{
	return ntb_mw_clear_trans(ntb, pidx, widx);
}

__mp_helper int mp_helper_ntb_peer_mw_count(struct ntb_dev *ntb)
{
	return ntb_peer_mw_count(ntb);
}

__mp_helper int mp_helper_ntb_peer_mw_get_addr(struct ntb_dev *ntb, int widx,
		phys_addr_t *base, resource_size_t *size)
{
	return ntb_peer_mw_get_addr(ntb, widx, base, size);
}

__mp_helper int mp_helper_ntb_peer_mw_set_trans(struct ntb_dev *ntb, int pidx,
		int widx, u64 addr, resource_size_t size)
{
	return ntb_peer_mw_set_trans(ntb, pidx, widx, addr, size);
}

__mp_helper int mp_helper_ntb_peer_mw_clear_trans(struct ntb_dev *ntb, int pidx,
		int widx)
{
	return ntb_peer_mw_clear_trans(ntb, pidx, widx);
}

__mp_helper int mp_helper_ntb_db_is_unsafe(struct ntb_dev *ntb)
{
	return ntb_db_is_unsafe(ntb);
}

__mp_helper u64 mp_helper_ntb_db_valid_mask(struct ntb_dev *ntb)
{
	return ntb_db_valid_mask(ntb);
}

__mp_helper int mp_helper_ntb_db_vector_count(struct ntb_dev *ntb)
{
	return ntb_db_vector_count(ntb);
}

__mp_helper u64 mp_helper_ntb_db_vector_mask(struct ntb_dev *ntb, int vector)
{
	return ntb_db_vector_mask(ntb, vector);
}

__mp_helper u64 mp_helper_ntb_db_read(struct ntb_dev *ntb)
{
	return ntb_db_read(ntb);
}

__mp_helper int mp_helper_ntb_db_clear(struct ntb_dev *ntb, u64 bits)
{
	return ntb_db_clear(ntb, bits);
}

__mp_helper u64 mp_helper_ntb_db_read_mask(struct ntb_dev *ntb)
{
	return ntb_db_read_mask(ntb);
}

__mp_helper int mp_helper_ntb_db_set_mask(struct ntb_dev *ntb, u64 bits)
{
	return ntb_db_set_mask(ntb, bits);
}

__mp_helper int mp_helper_ntb_db_clear_mask(struct ntb_dev *ntb, u64 bits)
{
	return ntb_db_clear_mask(ntb, bits);
}

__mp_helper int mp_helper_ntb_peer_db_set(struct ntb_dev *ntb, u64 bits)
{
	return ntb_peer_db_set(ntb, bits);
}

__mp_helper int mp_helper_ntb_spad_is_unsafe(struct ntb_dev *ntb)
{
	return ntb_spad_is_unsafe(ntb);
}

__mp_helper int mp_helper_ntb_spad_count(struct ntb_dev *ntb)
{
	return ntb_spad_count(ntb);
}

__mp_helper u32 mp_helper_ntb_spad_read(struct ntb_dev *ntb, int sidx)
{
	return ntb_spad_read(ntb, sidx);
}

__mp_helper int mp_helper_ntb_spad_write(struct ntb_dev *ntb, int sidx, u32 val)
{
	return ntb_spad_write(ntb, sidx, val);
}

__mp_helper u32 mp_helper_ntb_peer_spad_read(struct ntb_dev *ntb, int pidx,
		int sidx)
{
	return ntb_peer_spad_read(ntb, pidx, sidx);
}

__mp_helper int mp_helper_ntb_peer_spad_write(struct ntb_dev *ntb, int pidx,
		int sidx, u32 val)
{
	return ntb_peer_spad_write(ntb, pidx, sidx, val);
}

__mp_helper int mp_helper_ntb_msg_count(struct ntb_dev *ntb)
{
	return ntb_msg_count(ntb);
}

__mp_helper u64 mp_helper_ntb_msg_inbits(struct ntb_dev *ntb)
{
	return ntb_msg_inbits(ntb);
}

__mp_helper u64 mp_helper_ntb_msg_outbits(struct ntb_dev *ntb)
{
	return ntb_msg_outbits(ntb);
}

__mp_helper u64 mp_helper_ntb_msg_read_sts(struct ntb_dev *ntb)
{
	return ntb_msg_read_sts(ntb);
}

__mp_helper int mp_helper_ntb_msg_clear_sts(struct ntb_dev *ntb, u64 bits)
{
	return ntb_msg_clear_sts(ntb, bits);
}

__mp_helper int mp_helper_ntb_msg_set_mask(struct ntb_dev *ntb, u64 bits)
{
	return ntb_msg_set_mask(ntb, bits);
}

__mp_helper int mp_helper_ntb_msg_clear_mask(struct ntb_dev *ntb, u64 bits)
{
	return ntb_msg_clear_mask(ntb, bits);
}

__mp_helper u32 mp_helper_ntb_msg_read(struct ntb_dev *ntb, int *pidx, int midx)
{
	return ntb_msg_read(ntb, pidx, midx);
}

__mp_helper int mp_helper_ntb_peer_msg_write(struct ntb_dev *ntb, int pidx,
		int midx, u32 msg)
{
	return ntb_peer_msg_write(ntb, pidx, midx, msg);
}

__mp_helper struct device *mp_helper_ntb_get_dma_dev(struct ntb_dev *ntb)
{
	return ntb_get_dma_dev(ntb);
}

__mp_helper void mp_helper_virt_mb(void)
{
	virt_mb();
}

__mp_helper void mp_helper_virt_rmb(void)
{
	virt_rmb();
}

__mp_helper void mp_helper_virt_wmb(void)
{
	virt_wmb();
}

/* A peer's memory behind the bridge, mapped write-combining. */
__mp_helper void *mp_helper_ntb_map_window(phys_addr_t addr, size_t len)
{
	return (__force void *)ioremap_wc(addr, len);
}

__mp_helper void mp_helper_ntb_unmap_window(void *map)
{
	iounmap((void __iomem *)map);
}

/* The bus address of a window. */
__mp_helper u64 mp_helper_ntb_window_bus(struct ntb_dev *ntb, phys_addr_t addr,
					 size_t len)
{
	struct resource res = DEFINE_RES_MEM(addr, len);
	struct pci_bus_region region;

	pcibios_resource_to_bus(ntb->pdev->bus, &region, &res);
	return region.start;
}

/* Whether the host whose memory it is leads windows to it, and not the one that writes. */
__mp_helper bool mp_helper_ntb_receiver_translates(struct ntb_dev *ntb)
{
	return ntb->ops->mw_set_trans;
}

/* How the bridge reaches a range: the same when it is mapped and when it is let go. */
static unsigned long mp_range_attrs(bool is_device)
{
	unsigned long attrs = DMA_ATTR_SKIP_CPU_SYNC;

	if (is_device)
		return DMA_ATTR_MMIO;
#ifdef DMA_ATTR_REQUIRE_COHERENT
	attrs |= DMA_ATTR_REQUIRE_COHERENT;
#endif
	return attrs;
}

/*
 * Lets the bridge reach a range: memory of the kernel's, which must be coherent for
 * it, or what belongs to a device. DMA_MAPPING_ERROR if that is impossible.
 */
__mp_helper dma_addr_t mp_helper_ntb_map_range(struct device *dev, phys_addr_t phys,
					       size_t len, bool is_device)
{
	dma_addr_t addr = dma_map_phys(dev, phys, len, DMA_BIDIRECTIONAL,
				       mp_range_attrs(is_device));

	return dma_mapping_error(dev, addr) ? DMA_MAPPING_ERROR : addr;
}

__mp_helper void mp_helper_ntb_unmap_range(struct device *dev, dma_addr_t addr, size_t len,
					   bool is_device)
{
	dma_unmap_phys(dev, addr, len, DMA_BIDIRECTIONAL, mp_range_attrs(is_device));
}

/* Whether the bridge sees a table's pages in one run. */
static bool mp_is_one_run(struct sg_table *table)
{
	struct scatterlist *sg;
	dma_addr_t next = 0;
	int i;

	for_each_sgtable_dma_sg(table, sg, i) {
		if (i && sg_dma_address(sg) != next)
			return false;
		next = sg_dma_address(sg) + sg_dma_len(sg);
	}
	return true;
}

/*
 * Lets the bridge reach pages in one run, which they are, or which an IOMMU makes of
 * them. NULL if that is impossible.
 */
__mp_helper void *mp_helper_ntb_map_pages(struct device *dev, struct page **pages,
					  unsigned int count, dma_addr_t *addr)
{
	/* What the device is said to take in a piece; windows take what lies in a row. */
	unsigned int most = dma_get_max_seg_size(dev) & PAGE_MASK;
	unsigned long attrs = mp_range_attrs(false);
	struct sg_table *table;

	table = kzalloc_obj(*table);
	if (!table)
		return NULL;
	if (sg_alloc_table_from_pages_segment(table, pages, count, 0,
					      (size_t)count << PAGE_SHIFT, most, GFP_KERNEL))
		goto free;
	if (dma_map_sgtable(dev, table, DMA_BIDIRECTIONAL, attrs))
		goto free_table;
	if (mp_is_one_run(table)) {
		*addr = sg_dma_address(table->sgl);
		return table;
	}
	dma_unmap_sgtable(dev, table, DMA_BIDIRECTIONAL, attrs);
free_table:
	sg_free_table(table);
free:
	kfree(table);
	return NULL;
}

__mp_helper void mp_helper_ntb_unmap_pages(struct device *dev, void *map)
{
	struct sg_table *table = map;

	dma_unmap_sgtable(dev, table, DMA_BIDIRECTIONAL, mp_range_attrs(false));
	sg_free_table(table);
	kfree(table);
}

/* Whether the PCI error handling says that the bridge cannot be reached now. */
__mp_helper bool mp_helper_ntb_is_offline(struct ntb_dev *ntb)
{
	return ntb->pdev && pci_channel_offline(ntb->pdev);
}

/* Whether it says that the bridge will not be reached again. */
__mp_helper bool mp_helper_ntb_has_failed(struct ntb_dev *ntb)
{
	return ntb->pdev && ntb->pdev->error_state == pci_channel_io_perm_failure;
}
