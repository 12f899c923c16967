// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interfaces: what is known of them and of the windows beyond, and requests for windows.
//!
//! Requests look at their arguments in the specification's order before the kernel sees them; it
//! looks at the rest in that order.

use crate::{pci_names, Error, Result, Session};
use mp_fabric::{
    CharDevice, Deadline, Device, EventMask, Fabric, InterfaceId, PhysicalRange, SessionRequest,
    Window, WINDOW_DATA_MAX,
};

/// The local end of a link.
#[derive(Debug)]
pub struct Interface<D = CharDevice> {
    fabric: Fabric<D>,
    id: InterfaceId,
}

/// What is known of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information {
    /// All that the fabric knows.
    pub interface: mp_fabric::Interface,
    /// Who has made the bridge.
    pub manufacturer: Option<&'static str>,
    /// What the bridge is called.
    pub model: Option<&'static str>,
}

/// What has happened since the last call; one of them at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceEvents {
    /// The interface has gone up or down.
    pub state: bool,
    /// The windows of the other system have changed.
    pub windows: bool,
}

/// Sizes of a request in bytes. A maximum of 0 is no such window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Most bytes of this system that the other one shall reach.
    pub max_local: u64,
    /// Least of them.
    pub min_local: u64,
    /// Most bytes of the other system that this one shall reach.
    pub max_remote: u64,
    /// Least of them.
    pub min_remote: u64,
}

impl Sizes {
    fn check(&self) -> Result<()> {
        if self.max_local == 0 && self.max_remote == 0
            || self.max_local < self.min_local
            || self.max_remote < self.min_remote
        {
            return Err(Error::InvalidArgument);
        }
        Ok(())
    }

    /// A request with these sizes.
    fn of<'a, D: Device>(&self, request: SessionRequest<'a, D>) -> SessionRequest<'a, D> {
        request
            .local(self.min_local..=self.max_local)
            .remote(self.min_remote..=self.max_remote)
    }
}

fn check_data(data: &[u8]) -> Result<()> {
    match data.len() {
        0..=WINDOW_DATA_MAX => Ok(()),
        _ => Err(Error::InvalidArgument),
    }
}

impl<D: Device> Interface<D> {
    pub(crate) fn new(fabric: Fabric<D>, id: InterfaceId) -> Self {
        Interface { fabric, id }
    }

    /// Its number: never 0, and the same as long as the hardware is.
    pub fn id(&self) -> u32 {
        self.id.0
    }

    /// What is known of it, also if it is down.
    ///
    /// # Errors
    /// [`Error::InvalidInterface`]: it has been removed, as of all calls below.
    pub fn information(&self) -> Result<Information> {
        let interface = self
            .fabric
            .interface(self.id)
            .map_err(Error::of_interface)?;
        let ids = interface.pci.map(|(ids, _)| ids);
        Ok(Information {
            manufacturer: ids.and_then(|ids| pci_names::manufacturer(ids.vendor)),
            model: ids.and_then(|ids| pci_names::model(ids.vendor, ids.device)),
            interface,
        })
    }

    /// Wait until something has happened since the last call of this process. The first call
    /// returns at once.
    ///
    /// # Errors
    /// [`Error::InvalidInterface`], [`Error::Timeout`].
    pub fn wait_for_event(&self, deadline: Deadline) -> Result<InterfaceEvents> {
        let mask = EventMask::STATE | EventMask::WINDOWS;
        let events = self
            .fabric
            .wait(self.id, mask, deadline)
            .map_err(Error::of_interface)?;
        Ok(InterfaceEvents {
            state: events.contains(EventMask::STATE),
            windows: events.contains(EventMask::WINDOWS),
        })
    }

    /// Unique identifiers of all windows of the other system, also of paired ones.
    ///
    /// # Errors
    /// [`Error::InvalidInterface`], [`Error::InterfaceDown`].
    pub fn windows(&self) -> Result<Vec<u32>> {
        self.fabric.windows(self.id).map_err(Error::of_interface)
    }

    /// What is known of a window of the other system, as that system sees it.
    ///
    /// # Errors
    /// [`Error::InvalidInterface`], [`Error::InterfaceDown`], [`Error::InvalidWindow`].
    pub fn window(&self, uid: u32) -> Result<Window> {
        self.fabric
            .window(self.id, uid)
            .map_err(Error::of_interface)
    }

    /// Post a window of memory for a client of the other system. The data are shown there,
    /// together with the unique identifier; 0 is any.
    ///
    /// # Errors
    /// In this order: [`Error::InvalidInterface`], [`Error::InvalidArgument`],
    /// [`Error::InterfaceDown`], [`Error::SpaceNotAvailable`], [`Error::UidConflict`].
    pub fn request_logical_as_server(
        &self,
        protocol: u32,
        sizes: Sizes,
        uid: u32,
        data: &[u8],
    ) -> Result<Session<D>> {
        sizes.check()?;
        check_data(data)?;
        let request = self.fabric.server(self.id, protocol).uid(uid).data(data);
        Session::open(&self.fabric, self.id, sizes.of(request), true)
    }

    /// Pair with a server of the other system, by its unique identifier unless that is 0.
    ///
    /// # Errors
    /// In this order: [`Error::InvalidInterface`], [`Error::InvalidArgument`],
    /// [`Error::InterfaceDown`], [`Error::SpaceNotAvailable`], [`Error::NoPairing`].
    pub fn request_logical_as_client(
        &self,
        protocol: u32,
        sizes: Sizes,
        uid: u32,
    ) -> Result<Session<D>> {
        sizes.check()?;
        let request = self.fabric.client(self.id, protocol).uid(uid);
        Session::open(&self.fabric, self.id, sizes.of(request), true)
    }

    /// Pair with a peer of the other system as a client does, or else posts a window as a server
    /// does.
    ///
    /// # Errors
    /// As [`request_logical_as_server()`](Self::request_logical_as_server).
    pub fn request_logical_as_peer(
        &self,
        protocol: u32,
        sizes: Sizes,
        uid: u32,
        data: &[u8],
    ) -> Result<Session<D>> {
        sizes.check()?;
        check_data(data)?;
        let request = self.fabric.peer(self.id, protocol).uid(uid).data(data);
        Session::open(&self.fabric, self.id, sizes.of(request), true)
    }

    /// Post a window to physical addresses of this system.
    ///
    /// # Errors
    /// In this order: [`Error::InvalidInterface`], [`Error::InvalidArgument`],
    /// [`Error::InterfaceDown`], [`Error::SpaceNotAvailable`],
    /// [`Error::PhyResourceNotAvailable`], [`Error::UidConflict`].
    pub fn request_physical_as_server(
        &self,
        protocol: u32,
        range: PhysicalRange,
        uid: u32,
        data: &[u8],
    ) -> Result<Session<D>> {
        check_data(data)?;
        let (address, size) = (range.start(), range.len());
        if size == 0 || address == 0 || address.checked_add(size - 1).is_none() {
            return Err(Error::InvalidArgument);
        }
        let request = self.fabric.server(self.id, protocol).uid(uid).data(data);
        Session::open(&self.fabric, self.id, request.physical(range), false)
    }

    /// Pair with a physical server of the other system, by its unique identifier unless that is
    /// 0. The window has the size that the server says, which has to lie within the limits.
    ///
    /// # Errors
    /// In this order: [`Error::InvalidInterface`], [`Error::InvalidArgument`],
    /// [`Error::InterfaceDown`], [`Error::SpaceNotAvailable`], [`Error::NoPairing`],
    /// [`Error::PhyResourceNotAvailable`].
    pub fn request_physical_as_client(
        &self,
        protocol: u32,
        max_remote: u64,
        min_remote: u64,
        uid: u32,
    ) -> Result<Session<D>> {
        if min_remote == 0 || max_remote < min_remote {
            return Err(Error::InvalidArgument);
        }
        let request = self.fabric.client(self.id, protocol).uid(uid);
        let request = request.remote(min_remote..=max_remote).to_physical();
        Session::open(&self.fabric, self.id, request, true)
    }
}
