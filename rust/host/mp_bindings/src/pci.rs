// SPDX-License-Identifier: GPL-2.0-only

//! Functions on PCI buses, as far as one is asked what and where it is.

/// A bus.
#[repr(C)]
pub struct pci_bus {
    pub number: u8,
}

/// A function.
#[repr(C)]
pub struct pci_dev {
    pub bus: *mut pci_bus,
    pub devfn: u32,
    pub vendor: u16,
    pub device: u16,
    pub subsystem_vendor: u16,
    pub subsystem_device: u16,
}

/// The domain of a bus: there is one.
///
/// # Safety
///
/// Any pointer will do.
pub unsafe fn pci_domain_number(_bus: *mut pci_bus) -> u32 {
    0
}
