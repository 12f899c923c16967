// SPDX-License-Identifier: GPL-2.0-only

//! What a function on a PCI bus is, and where.
//!
//! C header: [`include/linux/pci.h`](srctree/include/linux/pci.h)

use core::fmt;
use mp_bindings as bindings;

/// Place and ids of a PCI function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// Number of the domain.
    pub domain: u32,
    /// Number of the bus in the domain.
    pub bus: u8,
    /// Number of the device at the bus, below 32.
    pub device: u8,
    /// Number of the function of the device, below 8.
    pub function: u8,
    /// Vendor id.
    pub vendor_id: u16,
    /// Device id.
    pub device_id: u16,
    /// Vendor id of the subsystem.
    pub subsystem_vendor_id: u16,
    /// Device id of the subsystem.
    pub subsystem_id: u16,
}

impl Function {
    /// What is known of a device.
    ///
    /// # Safety
    ///
    /// `pdev` is a valid device on a bus.
    pub(crate) unsafe fn of(pdev: *mut bindings::pci_dev) -> Self {
        // SAFETY: As the caller promises.
        let (dev, bus) = unsafe { (&*pdev, (*pdev).bus) };
        let devfn = dev.devfn as u8;
        Self {
            // SAFETY: As the caller promises.
            domain: unsafe { bindings::pci_domain_number(bus) },
            // SAFETY: As the caller promises.
            bus: unsafe { (*bus).number },
            device: devfn >> 3,
            function: devfn & 7,
            vendor_id: dev.vendor,
            device_id: dev.device,
            subsystem_vendor_id: dev.subsystem_vendor,
            subsystem_id: dev.subsystem_device,
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (domain, bus) = (self.domain, self.bus);
        write!(
            f,
            "{domain:04x}:{bus:02x}:{:02x}.{}",
            self.device, self.function
        )
    }
}
