// SPDX-License-Identifier: GPL-2.0-only

#include <linux/iommu.h>
#include <linux/pci.h>

/*
 * Groups of devices that an IOMMU cannot tell apart, and the domain that one is in.
 * Without IOMMUs in the kernel, no device has a group.
 */

/* The group of a PCI function, with a reference; NULL if it has none or is not there. */
__mp_helper void *mp_helper_iommu_group_find(int domain, unsigned int bus, unsigned int devfn)
{
	struct iommu_group *group = NULL;
	struct pci_dev *pdev;

	/* The function keeps its group as long as it is not removed. */
	pci_lock_rescan_remove();
	pdev = pci_get_domain_bus_and_slot(domain, bus, devfn);
	if (pdev)
		group = iommu_group_get(&pdev->dev);
	pci_dev_put(pdev);
	pci_unlock_rescan_remove();
	return group;
}

__mp_helper void mp_helper_iommu_group_release(void *group)
{
	iommu_group_put(group);
}

/* Calls the function for each device of the group until it returns something else than 0. */
__mp_helper int mp_helper_iommu_group_visit(void *group,
					    int (*visit)(struct device *dev, void *data),
					    void *data)
{
	return iommu_group_for_each_dev(group, data, visit);
}

#ifdef CONFIG_IOMMU_API

/* The domain that a device is in; for the function of a visit only. */
__mp_helper void *mp_helper_iommu_visited_domain(struct device *dev)
{
	return iommu_driver_get_domain_for_dev(dev);
}

__mp_helper bool mp_helper_iommu_domain_is_identity(void *domain)
{
	return ((struct iommu_domain *)domain)->type == IOMMU_DOMAIN_IDENTITY;
}

/* Whether the kernel's own DMA interface manages the domain. */
__mp_helper bool mp_helper_iommu_domain_is_managed(void *domain)
{
	return iommu_is_dma_domain(domain);
}

__mp_helper int mp_helper_iommu_domain_map(void *domain, u64 bus, u64 phys, size_t len,
					   bool read, bool write)
{
	int prot = IOMMU_MMIO | (read ? IOMMU_READ : 0) | (write ? IOMMU_WRITE : 0);

	return iommu_map(domain, bus, phys, len, prot, GFP_KERNEL);
}

/* Undoes that; nothing if the address leads elsewhere. */
__mp_helper void mp_helper_iommu_domain_unmap(void *domain, u64 bus, u64 phys, size_t len)
{
	if (iommu_iova_to_phys(domain, bus) == phys)
		iommu_unmap(domain, bus, len);
}

#else

__mp_helper void *mp_helper_iommu_visited_domain(struct device *dev)
{
	return NULL;
}

__mp_helper bool mp_helper_iommu_domain_is_identity(void *domain)
{
	return false;
}

__mp_helper bool mp_helper_iommu_domain_is_managed(void *domain)
{
	return false;
}

__mp_helper int mp_helper_iommu_domain_map(void *domain, u64 bus, u64 phys, size_t len,
					   bool read, bool write)
{
	return -EOPNOTSUPP;
}

__mp_helper void mp_helper_iommu_domain_unmap(void *domain, u64 bus, u64 phys, size_t len)
{
}

#endif
