// SPDX-License-Identifier: GPL-2.0-only

#include <linux/pci.h>

__mp_helper u32 mp_helper_pci_domain_number(struct pci_bus *bus)
{
	return pci_domain_nr(bus);
}
