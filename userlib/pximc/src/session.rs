// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sessions: the table of states and calls, and the addresses that have been given.

use crate::{Error, Result};
use mp_fabric::{
    Access, CharDevice, Deadline, Device, EventMask, Fabric, InterfaceId, Map, PciFunction,
    SessionRequest, WindowPlace,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The partner has called [`Session::assert_event`]; all that it wrote before is there.
    Asserted,
    /// The partner has closed. Told at every call, until this side closes as well.
    ConnectionClosed,
    /// The other system can no longer be reached. Told at every call.
    InterfaceDown,
}

/// The windows of a session that has a partner. They stay mapped as long as they are held, also
/// if the partner or the link is gone; after this side has closed, an access may be fatal.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Memory of the other system.
    pub remote: Option<Arc<Map>>,
    /// Its size in bytes; 0 if there is no such window.
    pub remote_size: u64,
    /// Memory of this system that the other one reaches. That of a physical server is not mapped.
    pub local: Option<Arc<Map>>,
    /// Its size in bytes; 0 if there is no such window.
    pub local_size: u64,
}

/// What is known of a session's windows.
#[derive(Debug)]
enum Windows {
    /// Nobody has asked for them.
    Unknown,
    /// Mapped once; later calls get the same addresses.
    Mapped(Connection),
    /// Taken away by this side's end.
    Closed,
}

/// The use of a pair of windows. Dropping it closes.
#[derive(Debug)]
pub struct Session<D: Device = CharDevice> {
    session: mp_fabric::Session<D>,
    fabric: Fabric<D>,
    interface: InterfaceId,
    /// Whether the local window is memory that can be mapped.
    local_mapped: bool,
    windows: Mutex<Windows>,
}

impl<D: Device> Session<D> {
    pub(crate) fn open(
        fabric: &Fabric<D>,
        interface: InterfaceId,
        request: SessionRequest<'_, D>,
        local_mapped: bool,
    ) -> Result<Self> {
        Ok(Session {
            session: request.open().map_err(Error::of_request)?,
            fabric: fabric.clone(),
            interface,
            local_mapped,
            windows: Mutex::new(Windows::Unknown),
        })
    }

    /// The session's number: never 0, and no other one's on this system.
    pub fn number(&self) -> u32 {
        self.session.handle()
    }

    /// Wait for a partner. A session that has one gives the same windows at every call.
    ///
    /// # Errors
    /// [`Error::InvalidSession`]: closed, as of all calls below. [`Error::SessionClosed`],
    /// [`Error::InterfaceDown`], [`Error::Timeout`]; [`Error::SpaceNotAvailable`]: the windows
    /// could not be mapped, which may be tried again.
    pub fn wait_for_connection(&self, deadline: Deadline) -> Result<Connection> {
        let mask = EventMask::PAIRED | EventMask::CLOSED | EventMask::DOWN;
        let found = self
            .session
            .wait(mask, deadline)
            .map_err(Error::of_session)?;
        self.check(found)?;
        let mut windows = self.windows();
        match &*windows {
            Windows::Closed => Err(Error::InvalidSession),
            Windows::Mapped(connection) => Ok(connection.clone()),
            Windows::Unknown => {
                let connection = self.connect()?;
                *windows = Windows::Mapped(connection.clone());
                Ok(connection)
            }
        }
    }

    /// Where a device of this system reaches the remote window.
    ///
    /// # Errors
    /// In this order: [`Error::InvalidSession`], [`Error::SessionClosed`],
    /// [`Error::InterfaceDown`], [`Error::NoPairing`], [`Error::NoWindow`],
    /// [`Error::PhyResourceNotAvailable`].
    pub fn physical_address(&self) -> Result<u64> {
        self.check_remote()?;
        self.session.address().map_err(Error::of_session)
    }

    /// Let a PCI device of this system reach the remote window, in addition to what it may
    /// already, or with [`Access::CLEAR`] no longer. Whether there is such a device is not looked
    /// at.
    ///
    /// # Errors
    /// In this order: [`Error::InvalidSession`], [`Error::InvalidArgument`],
    /// [`Error::SessionClosed`], [`Error::InterfaceDown`], [`Error::NoPairing`],
    /// [`Error::NoWindow`], [`Error::PhyResourceNotAvailable`].
    pub fn enable_device_access(
        &self,
        access: Access,
        bus: u8,
        device: u8,
        function: u8,
    ) -> Result<()> {
        let known = Access::READ | Access::WRITE;
        let access_is_valid =
            access == Access::CLEAR || !access.is_empty() && known.contains(access);
        if !access_is_valid || device > 31 || function > 7 {
            return Err(Error::InvalidArgument);
        }
        self.check_remote()?;
        let interface = self
            .fabric
            .interface(self.interface)
            .map_err(|_| Error::InterfaceDown)?;
        let function = PciFunction {
            domain: interface.pci.map_or(0, |(_, bridge)| bridge.domain),
            bus,
            device,
            function,
        };
        self.session
            .allow(access, function)
            .map_err(Error::of_session)
    }

    /// Wake the partner, who finds all that this process has written before.
    ///
    /// # Errors
    /// In this order: [`Error::InvalidSession`], [`Error::SessionClosed`],
    /// [`Error::InterfaceDown`], [`Error::NoPairing`].
    pub fn assert_event(&self) -> Result<()> {
        match self.session.signal() {
            Ok(()) => Ok(()),
            Err(mp_fabric::Error::PartnerGone) => self.check_state().and(Err(Error::SessionClosed)),
            Err(error) => Err(Error::of_session(error)),
        }
    }

    /// Wait for an event.
    ///
    /// # Errors
    /// [`Error::InvalidSession`], [`Error::NoPairing`], [`Error::Timeout`].
    pub fn wait_for_event(&self, deadline: Deadline) -> Result<SessionEvent> {
        let mask = EventMask::SIGNAL | EventMask::CLOSED | EventMask::DOWN;
        let event = self
            .session
            .wait_one(mask, deadline)
            .map_err(Error::of_session)?;
        Ok(if event.contains(EventMask::CLOSED) {
            SessionEvent::ConnectionClosed
        } else if event.contains(EventMask::DOWN) {
            SessionEvent::InterfaceDown
        } else {
            SessionEvent::Asserted
        })
    }

    /// Close this side, without waiting for the other one. Calls of other threads that wait end
    /// with [`Error::InvalidSession`].
    ///
    /// # Errors
    /// [`Error::InvalidSession`]: it is closed already.
    pub fn close(&self) -> Result<()> {
        self.session.close().map_err(Error::of_session)?;
        // Unmaps, unless somebody holds the windows. Who maps them at this moment is waited for;
        // who comes later finds the end.
        *self.windows() = Windows::Closed;
        Ok(())
    }

    /// Map the windows of a session that is paired.
    fn connect(&self) -> Result<Connection> {
        let state = self.session.state().map_err(Error::of_session)?;
        let size = |place: Option<WindowPlace>| place.map_or(0, |place| place.size);
        Ok(Connection {
            remote: self.map(state.remote)?,
            remote_size: size(state.remote),
            local: self.map(state.local.filter(|_| self.local_mapped))?,
            local_size: size(state.local),
        })
    }

    fn map(&self, place: Option<WindowPlace>) -> Result<Option<Arc<Map>>> {
        let Some(place) = place else {
            return Ok(None);
        };
        match self.session.map(place) {
            Ok(map) => Ok(Some(Arc::new(map))),
            // It has been closed meanwhile.
            Err(mp_fabric::Error::NotFound(_)) => Err(Error::InvalidSession),
            Err(_) => Err(Error::SpaceNotAvailable),
        }
    }

    /// Refuse what has no remote window to be used.
    fn check_remote(&self) -> Result<()> {
        let state = self.session.state().map_err(Error::of_session)?;
        self.check(state.events)?;
        state.remote.map(|_| ()).ok_or(Error::NoWindow)
    }

    fn check_state(&self) -> Result<()> {
        let state = self.session.state().map_err(Error::of_session)?;
        self.check(state.events)
    }

    /// Refuse what is not paired any longer, or not yet, in the specification's order.
    fn check(&self, events: EventMask) -> Result<()> {
        if events.contains(EventMask::CLOSED | EventMask::DOWN) && self.is_removed() {
            // The partner may be well, and has not closed.
            Err(Error::InterfaceDown)
        } else if events.contains(EventMask::CLOSED) {
            Err(Error::SessionClosed)
        } else if events.contains(EventMask::DOWN) {
            Err(Error::InterfaceDown)
        } else if !events.contains(EventMask::PAIRED) {
            Err(Error::NoPairing)
        } else {
            Ok(())
        }
    }

    fn is_removed(&self) -> bool {
        let known = self.fabric.interface(self.interface);
        matches!(known, Err(mp_fabric::Error::NoInterface(_)))
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
