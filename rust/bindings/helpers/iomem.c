// SPDX-License-Identifier: GPL-2.0-only

#include <linux/ioport.h>
#include <linux/overflow.h>
#include <linux/security.h>

/* Adds a resource to those that cover all addresses below *arg. */
static int mp_iomem_cover(struct resource *found, void *arg)
{
	u64 *next = arg;

	if (found->start != *next)
		return 1;
	*next = found->end + 1;
	return 0;
}

/*
 * Whether all of a range of physical addresses is, by the resource tree, memory of devices, or
 * reserved: neither RAM, nor memory that is or may become RAM, nor tables of firmware, nor a
 * range that a driver has requested, whether for itself alone or not, and whatever
 * CONFIG_IO_STRICT_DEVMEM makes of that for /dev/mem.
 */
__mp_helper bool mp_helper_iomem_is_device_memory(u64 phys, u64 len)
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
	u64 next = phys, last;
	unsigned int n;

	/* The tree ends with the addresses that the processor has. */
	if (!len || len > SIZE_MAX || check_add_overflow(phys, len - 1, &last) ||
	    last > iomem_resource.end)
		return false;
	if (region_intersects(phys, len, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) !=
		    REGION_DISJOINT ||
	    region_intersects(phys, len, IORESOURCE_BUSY, IORES_DESC_NONE) != REGION_DISJOINT)
		return false;
	for (n = 0; n < ARRAY_SIZE(others); n++)
		if (region_intersects(phys, len, IORESOURCE_MEM, others[n]) != REGION_DISJOINT)
			return false;
	walk_iomem_res_desc(IORES_DESC_NONE, IORESOURCE_MEM, phys, last, &next, mp_iomem_cover);
	return next == last + 1;
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
