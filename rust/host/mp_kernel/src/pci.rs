// SPDX-License-Identifier: GPL-2.0-only

//! What a function on a PCI bus is. Hosts have none.

use core::fmt;

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

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (domain, bus) = (self.domain, self.bus);
        let (device, function) = (self.device, self.function);
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}
