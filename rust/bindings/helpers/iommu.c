// SPDX-License-Identifier: GPL-2.0-only

#include <linux/device/bus.h>
#include <linux/iommu.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/rcupdate.h>

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

/*
 * Whether the driver of a device leaves it to programs what the device reaches, as VFIO does. A
 * driver that is leaving is there until the end of a grace period.
 */
static bool mp_driver_manages_dma(struct device *dev)
{
	const struct device_driver *drv;

	guard(rcu)();
	drv = READ_ONCE(dev->driver);
	return drv && dev_is_pci(dev) && to_pci_driver(drv)->driver_managed_dma;
}

/* Whether a range of bus addresses is in a window of a function's own host bridge. */
static bool mp_is_in_window(struct pci_dev *pdev, u64 first, u64 last)
{
	struct pci_host_bridge *bridge = pci_find_host_bridge(pdev->bus);
	struct resource_entry *window;

	resource_list_for_each_entry(window, &bridge->windows)
		if (resource_type(window->res) == IORESOURCE_MEM &&
		    first >= window->res->start - window->offset &&
		    last <= window->res->end - window->offset)
			return true;
	return false;
}

struct mp_bus_range {
	u64 first, last;
};

static int mp_must_not_be_led(struct device *dev, void *data)
{
	struct mp_bus_range *range = data;

	return !dev_is_pci(dev) || mp_driver_manages_dma(dev) ||
	       !mp_is_in_window(to_pci_dev(dev), range->first, range->last);
}

/*
 * Whether the kernel's DMA interface gives these addresses to no device of the group, and no
 * driver of one lets programs take the group's domain away.
 */
__mp_helper bool mp_helper_iommu_group_may_be_led(void *group, u64 bus, size_t len)
{
	struct mp_bus_range range = { bus, bus + len - 1 };

	return !iommu_group_for_each_dev(group, &range, mp_must_not_be_led);
}

/*
 * The group of a device that gets a driver which lets programs take the group's domain away, with
 * a reference, if that is what a notifier of the bus is told; the device's lock is held.
 */
__mp_helper void *mp_helper_iommu_group_to_leave(unsigned long action, void *data)
{
	struct device *dev = data;

	if (action != BUS_NOTIFY_BIND_DRIVER || !mp_driver_manages_dma(dev))
		return NULL;
	return iommu_group_get(dev);
}

__mp_helper int mp_helper_pci_bus_notifier_add(struct notifier_block *block)
{
	return bus_register_notifier(&pci_bus_type, block);
}

__mp_helper void mp_helper_pci_bus_notifier_remove(struct notifier_block *block)
{
	bus_unregister_notifier(&pci_bus_type, block);
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
