// SPDX-License-Identifier: MIT OR Apache-2.0

//! PXI MultiComputing (PXImc) 1.1 for programs in Rust: memory windows that are shared with a
//! process on a system at the other end of a link, over the fabric's sessions.
//!
//! The names are the specification's: a [`Library`] finds [`Interface`]s, whose requests open
//! [`Session`]s. What its functions return as a number of a status is an [`Error`] here, and what
//! they write through pointers is the value. The crate `pximc-ntb` makes the functions of the
//! specification from it.
//!
//! Pairing, sizes and resources are the kernel's. This crate owns what the kernel does not know:
//! the order in which arguments and states are looked at, the addresses that
//! [`Session::wait_for_connection`] has given, and which interfaces are none of PXImc's.
//!
//! It is thread safe and holds no lock while it waits. Identifiers like PXI-WFC-7 in the tests
//! are those of `Documentation/conformance/pximc.md`.
//!
//! # Examples
//! ```no_run
//! use mp_fabric::Deadline;
//! use pximc::{Library, Sizes};
//! use vm_memory::Bytes;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let library = Library::open()?;
//! let interface = library.interfaces().remove(0);
//! let sizes = Sizes { max_remote: 0x1000, min_remote: 0x400, ..Sizes::default() };
//! let session = interface.request_logical_as_client(0xF000_0001, sizes, 0)?;
//! let connection = session.wait_for_connection(Deadline::PAST)?;
//! if let Some(window) = &connection.remote {
//!     window.volatile().write_obj(1_u32, 0).unwrap();
//! }
//! session.assert_event()?;
//! # Ok(())
//! # }
//! ```

mod error;
mod interface;
mod pci_names;
mod session;

pub use error::{Error, Result};
pub use interface::{Information, Interface, InterfaceEvents, Sizes};
#[cfg(target_pointer_width = "64")]
pub use mp_fabric::vm_memory;
pub use mp_fabric::{
    Access, CharDevice, Deadline, Device, Fabric, InterfaceId, Location, Map, PciFunction, PciIds,
    PhysicalRange, Remote, Role, Window, SIZE_MAX, WINDOW_DATA_MAX,
};
pub use session::{Connection, Session, SessionEvent};

use std::env;

/// Set to 1, the loopback interface is one of PXImc's: both ends of it are this system.
pub const LOOPBACK_VARIABLE: &str = "PXIMC_LOOPBACK";

/// The access to all interfaces of this process.
#[derive(Debug)]
pub struct Library<D = CharDevice> {
    fabric: Fabric<D>,
    loopback: bool,
}

impl Library {
    /// Open the fabric's device, as the environment wants it.
    ///
    /// # Errors
    /// [`mp_fabric::Error::NotLoaded`]: the kernel module is not loaded.
    /// [`mp_fabric::Error::NoPermission`]: the user may not open the device. Others of `open()`.
    pub fn open() -> mp_fabric::Result<Self> {
        let fabric = Fabric::open()?;
        let loopback = env::var_os(LOOPBACK_VARIABLE).is_some_and(|value| value == "1");
        Ok(Self::with_fabric(fabric, loopback))
    }
}

impl<D: Device> Library<D> {
    /// Work on a context that is open; with or without the loopback interface.
    pub fn with_fabric(fabric: Fabric<D>, loopback: bool) -> Self {
        Library { fabric, loopback }
    }

    /// All interfaces that are there at this moment, whether up or down.
    pub fn interfaces(&self) -> Vec<Interface<D>> {
        // Without a list there is nothing that could be used.
        let ids = self.fabric.interfaces().unwrap_or_else(|error| {
            tracing::error!("no list of interfaces: {error}");
            Vec::new()
        });
        ids.into_iter()
            .filter_map(|id| self.interface(id.0).ok())
            .collect()
    }

    /// An interface by its number.
    ///
    /// # Errors
    /// [`Error::InvalidInterface`].
    pub fn interface(&self, id: u32) -> Result<Interface<D>> {
        let known = self
            .fabric
            .interface(InterfaceId(id))
            .map_err(Error::of_interface)?;
        if known.routed || known.loopback && !self.loopback {
            return Err(Error::InvalidInterface);
        }
        Ok(Interface::new(self.fabric.clone(), known.id))
    }
}
