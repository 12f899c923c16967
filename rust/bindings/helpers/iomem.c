// SPDX-License-Identifier: GPL-2.0-only

#include <linux/cleanup.h>
#include <linux/ioport.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/pci.h>
#include <linux/security.h>
#include <linux/slab.h>

/*
 * Claims: physical memory that programs have named, which no driver has requested, and none can
 * while it is claimed. Nor can memory be plugged there.
 */
struct mp_claim {
	struct list_head list;
	u64 first, last;
	/* Ranges that it is a part of. */
	unsigned int users;
};

static LIST_HEAD(mp_claims);
static DEFINE_MUTEX(mp_claims_lock);

/* Adds a resource to those that cover all addresses below *arg. */
static int mp_iomem_cover(struct resource *found, void *arg)
{
	u64 *next = arg;

	if (found->start != *next)
		return 1;
	*next = found->end + 1;
	return 0;
}

/* Whether a driver has a function with memory in a range, which it may not have requested. */
static bool mp_iomem_is_driven(u64 first, u64 last)
{
	struct resource range = DEFINE_RES_MEM(first, last - first + 1);
	struct pci_dev *pdev = NULL;
	int bar;

	for_each_pci_dev(pdev) {
		if (!pdev->dev.driver)
			continue;
		for (bar = 0; bar <= PCI_ROM_RESOURCE; bar++) {
			struct resource *res = pci_resource_n(pdev, bar);

			if (resource_type(res) == IORESOURCE_MEM && resource_size(res) &&
			    resource_overlaps(res, &range)) {
				pci_dev_put(pdev);
				return true;
			}
		}
	}
	return false;
}

/*
 * Whether all of a range of physical addresses is, by the resource tree, memory of devices, or
 * reserved: neither RAM, nor memory that is or may become RAM, nor tables of firmware, nor a
 * range that a driver has requested, whether for itself alone or not, and whatever
 * CONFIG_IO_STRICT_DEVMEM makes of that for /dev/mem; nor memory of a function that a driver has.
 */
static bool mp_iomem_is_free(u64 first, u64 last)
{
	static const unsigned long others[] = {
		IORES_DESC_ACPI_TABLES,
		IORES_DESC_ACPI_NV_STORAGE,
		IORES_DESC_PERSISTENT_MEMORY,
		IORES_DESC_PERSISTENT_MEMORY_LEGACY,
		IORES_DESC_DEVICE_PRIVATE_MEMORY,
		IORES_DESC_SOFT_RESERVED,
		IORES_DESC_CXL,
	};
	u64 next = first, len = last - first + 1;
	unsigned int n;

	if (region_intersects(first, len, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) !=
		    REGION_DISJOINT ||
	    region_intersects(first, len, IORESOURCE_BUSY, IORES_DESC_NONE) != REGION_DISJOINT)
		return false;
	for (n = 0; n < ARRAY_SIZE(others); n++)
		if (region_intersects(first, len, IORESOURCE_MEM, others[n]) != REGION_DISJOINT)
			return false;
	walk_iomem_res_desc(IORES_DESC_NONE, IORESOURCE_MEM, first, last, &next, mp_iomem_cover);
	return next == last + 1 && !mp_iomem_is_driven(first, last);
}

/* The last byte of a range of addresses that the processor has: there the tree ends. */
static bool mp_iomem_last(u64 phys, u64 len, u64 *last)
{
	return len && len <= SIZE_MAX && !check_add_overflow(phys, len - 1, last) &&
	       *last <= iomem_resource.end;
}

/* The first claim that lies in a range, or in a part of it. */
static struct mp_claim *mp_claims_first(u64 first, u64 last)
{
	struct mp_claim *claim, *found = NULL;

	list_for_each_entry(claim, &mp_claims, list)
		if (claim->first <= last && claim->last >= first &&
		    (!found || claim->first < found->first))
			found = claim;
	return found;
}

/* The first part of a range that is not claimed, from *first to *end; false if there is none. */
static bool mp_claims_gap(u64 *first, u64 last, u64 *end)
{
	struct mp_claim *claim;

	for (; *first <= last; *first = claim->last + 1) {
		claim = mp_claims_first(*first, last);
		if (!claim || claim->first > *first) {
			*end = claim ? claim->first - 1 : last;
			return true;
		}
	}
	return false;
}

/* Whether all of a range is claimed, or could be. */
__mp_helper bool mp_helper_iomem_is_device_memory(u64 phys, u64 len)
{
	u64 last, end;

	if (!mp_iomem_last(phys, len, &last))
		return false;
	guard(mutex)(&mp_claims_lock);
	for (; mp_claims_gap(&phys, last, &end); phys = end + 1)
		if (!mp_iomem_is_free(phys, end))
			return false;
	return true;
}

/* Claims a part of a range, for nobody yet. A driver may have come first. */
static int mp_claims_add(u64 first, u64 last)
{
	struct mp_claim *claim;

	if (!mp_iomem_is_free(first, last))
		return -EOPNOTSUPP;
	claim = kzalloc_obj(*claim, GFP_KERNEL_ACCOUNT);
	if (!claim)
		return -ENOMEM;
	if (!request_mem_region(first, last - first + 1, "mp_fabric")) {
		kfree(claim);
		return -EOPNOTSUPP;
	}
	claim->first = first;
	claim->last = last;
	list_add(&claim->list, &mp_claims);
	return 0;
}

/* Gives up what is nobody's. */
static void mp_claims_settle(void)
{
	struct mp_claim *claim, *next;

	list_for_each_entry_safe(claim, next, &mp_claims, list) {
		if (claim->users)
			continue;
		release_mem_region(claim->first, claim->last - claim->first + 1);
		list_del(&claim->list);
		kfree(claim);
	}
}

static void mp_claims_use(u64 first, u64 last, int more)
{
	struct mp_claim *claim;

	list_for_each_entry(claim, &mp_claims, list)
		if (claim->first <= last && claim->last >= first)
			claim->users += more;
}

/* Claims a range of whole pages: a part may be claimed already, for somebody else. */
__mp_helper int mp_helper_iomem_claim(u64 phys, u64 len)
{
	u64 first = phys, last, end;
	int err = 0;

	if (!mp_iomem_last(phys, len, &last))
		return -EOPNOTSUPP;
	guard(mutex)(&mp_claims_lock);
	for (; !err && mp_claims_gap(&first, last, &end); first = end + 1)
		err = mp_claims_add(first, end);
	if (!err)
		mp_claims_use(phys, last, 1);
	mp_claims_settle();
	return err;
}

/* Undoes that, for the same range. */
__mp_helper void mp_helper_iomem_unclaim(u64 phys, u64 len)
{
	guard(mutex)(&mp_claims_lock);
	mp_claims_use(phys, phys + len - 1, -1);
	mp_claims_settle();
}

/* Claims bytes of a BAR, by the whole pages that they are on, and tells where they are. */
__mp_helper int mp_helper_iomem_claim_bar(int domain, unsigned int bus, unsigned int devfn,
					  unsigned int bar, u64 off, u64 len, u64 *phys)
{
	struct pci_dev *pdev;
	struct resource *res;
	int err;

	/* The BAR stays where it is until it is claimed. */
	pci_lock_rescan_remove();
	pdev = pci_get_domain_bus_and_slot(domain, bus, devfn);
	res = pdev && bar < PCI_STD_NUM_BARS ? pci_resource_n(pdev, bar) : NULL;
	if (!res || resource_type(res) != IORESOURCE_MEM || !res->parent) {
		err = -ENODEV;
	} else if (off >= resource_size(res) || len > resource_size(res) - off) {
		err = -ERANGE;
	} else {
		*phys = res->start + off;
		err = mp_helper_iomem_claim(*phys, len);
	}
	pci_dev_put(pdev);
	pci_unlock_rescan_remove();
	return err;
}

/* Whether programs may not reach physical memory, nor be told where it is. */
__mp_helper bool mp_helper_memory_is_locked_down(void)
{
	return security_locked_down(LOCKDOWN_DEV_MEM) != 0;
}

/* Whether programs may not say what devices do. */
__mp_helper bool mp_helper_devices_are_locked_down(void)
{
	return security_locked_down(LOCKDOWN_PCI_ACCESS) != 0;
}
