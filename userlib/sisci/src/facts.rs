// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is known of the library and of the bridges behind an adapter, which the system tells in
//! sysfs.

use crate::{Adapter, Error, Result};
use mp_fabric::{Interface, PciFunction};
use std::fs;

/// Who has made the library.
pub const VENDOR: &str = "pximc-ntb";

/// The version of the interface, and of this library.
pub const API: &str = concat!("SISCI API 2.x (", env!("CARGO_PKG_VERSION"), ")");

impl Adapter {
    /// One of its links.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: it does not have so many; so below.
    fn link(&self, port: usize) -> Result<&Interface> {
        self.links.get(port).ok_or(Error::IllegalParameter)
    }

    /// Whether a link is up. Without links the adapter is this host's own, which is always reached.
    ///
    /// # Errors
    /// There is no such link.
    pub fn is_operational(&self, port: usize) -> Result<bool> {
        match self.links.is_empty() {
            true => Ok(true),
            false => Ok(self.link(port)?.up),
        }
    }

    /// Lanes of a link.
    ///
    /// # Errors
    /// There is no such link. [`Error::NotSupported`]: the system does not tell; so below.
    pub fn link_width(&self, port: usize) -> Result<u32> {
        let width = attribute(self.link(port)?, "current_link_width")?;
        width.parse().map_err(|_| Error::NotSupported)
    }

    /// Generation of PCI Express that a link has the speed of.
    ///
    /// # Errors
    /// As [`link_width()`](Self::link_width).
    pub fn link_speed(&self, port: usize) -> Result<u32> {
        let speed = attribute(self.link(port)?, "current_link_speed")?;
        generation(&speed).ok_or(Error::NotSupported)
    }

    /// The first of its bridges that is a PCI function: bus << 8 | device << 3 | function.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: there is none.
    pub fn bdf(&self) -> Result<u32> {
        let mut functions = self.links.iter().filter_map(|link| link.pci);
        let (_, at) = functions.next().ok_or(Error::NotSupported)?;
        let devfn = u32::from(at.device) << 3 | u32::from(at.function);
        Ok(u32::from(at.bus) << 8 | devfn)
    }
}

/// What the system tells of the bridge.
fn attribute(link: &Interface, name: &str) -> Result<String> {
    let (_, at) = link.pci.ok_or(Error::NotSupported)?;
    let PciFunction {
        domain,
        bus,
        device,
        function,
    } = at;
    let directory = format!("/sys/bus/pci/devices/{domain:04x}:{bus:02x}:{device:02x}.{function}");
    let text = fs::read_to_string(format!("{directory}/{name}"));
    Ok(text.map_err(|_| Error::NotSupported)?.trim().into())
}

/// The generation of PCI Express that has a speed, which is written as `8.0 GT/s PCIe`.
fn generation(speed: &str) -> Option<u32> {
    let speeds = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"];
    let number = speed.split(' ').next()?;
    let at = speeds.iter().position(|speed| *speed == number)?;
    Some(at as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::generation;

    /// SI-QUERY-4: the speed of a link is the generation of PCI Express.
    #[test]
    fn speeds_are_generations() {
        assert_eq!(generation("2.5 GT/s PCIe"), Some(1));
        assert_eq!(generation("16.0 GT/s PCIe"), Some(4));
        assert_eq!(generation("Unknown"), None);
    }
}
