// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sessions: uses of windows that are shared with one process of the peer.

#[cfg(target_pointer_width = "64")]
use crate::{sys::mp_interface, whole, PartnerMemory, Stores};
use crate::{
    sys::{
        self, mp_handle, mp_info, mp_session, mp_session_access, mp_session_address,
        mp_session_open,
    },
    Call, CharDevice, Deadline, Device, Error, EventMask, Fabric, InterfaceId, Limit, Map, Object,
    PciFunction, PhysicalRange, Result, Subject, Vouched,
};
use rustix::io::Errno;
use std::{ops::RangeInclusive, sync::Arc};

/// Most bytes that a session is opened or answered with.
pub const WINDOW_DATA_MAX: usize = sys::MP_WINDOW_DATA_MAX as usize;
/// A size as large as can be had.
pub const SIZE_MAX: u64 = sys::MP_SIZE_MAX;

/// How a session looks for a partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for a client.
    Server,
    /// Pairs with a server at once, or fails.
    Client,
    /// Pairs with a peer at once, or waits for one.
    Peer,
}

/// What a server's local window consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Memory that the fabric provides.
    Logical,
    /// Physical addresses that the server names.
    Physical,
}

impl TryFrom<u32> for Role {
    type Error = Error;

    fn try_from(role: u32) -> Result<Self> {
        match role {
            sys::MP_ROLE_SERVER => Ok(Role::Server),
            sys::MP_ROLE_CLIENT => Ok(Role::Client),
            sys::MP_ROLE_PEER => Ok(Role::Peer),
            _ => Err(Error::Invalid(Subject::Unnamed)),
        }
    }
}

impl TryFrom<u32> for Location {
    type Error = Error;

    fn try_from(location: u32) -> Result<Self> {
        match location {
            sys::MP_LOCATION_LOGICAL => Ok(Location::Logical),
            sys::MP_LOCATION_PHYSICAL => Ok(Location::Physical),
            _ => Err(Error::Invalid(Subject::Unnamed)),
        }
    }
}

/// What a session is to be. Sizes that are not set are 0: no such window.
#[must_use = "a request does nothing until it is opened"]
#[derive(Debug)]
pub struct SessionRequest<'a, D = CharDevice> {
    device: &'a Arc<D>,
    open: mp_session_open,
    data: &'a [u8],
    name: &'a [u8],
}

impl<D: Device> Fabric<D> {
    /// A session that waits for a client.
    pub fn server(&self, interface: InterfaceId, protocol: u32) -> SessionRequest<'_, D> {
        self.request(interface, protocol, sys::MP_ROLE_SERVER)
    }

    /// A session that pairs with a server at once, or fails.
    pub fn client(&self, interface: InterfaceId, protocol: u32) -> SessionRequest<'_, D> {
        self.request(interface, protocol, sys::MP_ROLE_CLIENT)
    }

    /// A session that pairs with a peer at once, or waits for one.
    pub fn peer(&self, interface: InterfaceId, protocol: u32) -> SessionRequest<'_, D> {
        self.request(interface, protocol, sys::MP_ROLE_PEER)
    }

    fn request(&self, interface: InterfaceId, protocol: u32, role: u32) -> SessionRequest<'_, D> {
        SessionRequest {
            device: &self.device,
            open: mp_session_open {
                interface: interface.0,
                role,
                location: sys::MP_LOCATION_LOGICAL,
                protocol,
                ..Default::default()
            },
            data: &[],
            name: &[],
        }
    }
}

impl<'a, D: Device> SessionRequest<'a, D> {
    /// The unique identifier: of a server or a waiting peer its own, otherwise that of the window
    /// to pair with. 0, which is the default, is any.
    pub fn uid(mut self, uid: u32) -> Self {
        self.open.uid = uid;
        self
    }

    /// Least and most bytes of this host that the peer shall reach. As many as possible up to the
    /// maximum, which [`SIZE_MAX`] leaves open.
    pub fn local(mut self, size: RangeInclusive<u64>) -> Self {
        (self.open.local_min, self.open.local_max) = size.into_inner();
        self
    }

    /// Least and most bytes of the peer that this process shall reach.
    pub fn remote(mut self, size: RangeInclusive<u64>) -> Self {
        (self.open.remote_min, self.open.remote_max) = size.into_inner();
        self
    }

    /// What the partner is told, at most [`WINDOW_DATA_MAX`] bytes; servers and peers are posted
    /// with it.
    pub fn data(mut self, data: &'a [u8]) -> Self {
        self.data = data;
        self
    }

    /// The name, at most [`NAME_MAX`](crate::NAME_MAX) bytes: two sessions fit only if theirs are equal, in length
    /// and in bytes. None, which is the default, fits only none.
    pub fn name(mut self, name: &'a [u8]) -> Self {
        self.name = name;
        self
    }

    /// The first bytes of a peer's name are its own, the rest is that of the peer it wants: two
    /// fit if each has the name that the other one wants.
    pub fn own_name(mut self, len: u32) -> Self {
        self.open.name_own = len;
        self
    }

    /// A server's owner answers each request: [`Session::accept()`], [`Session::reject()`].
    pub fn hold(mut self) -> Self {
        self.open.flags |= sys::MP_SESSION_DEFER;
        self
    }

    /// A server that [holds](Self::hold) requests is over after one that was rejected or
    /// withdrawn.
    pub fn once(mut self) -> Self {
        self.open.flags |= sys::MP_SESSION_ONCE;
        self
    }

    /// A client does not wait for an answer: [`open()`](Self::open) returns as soon as a server has
    /// the request. `PAIRED` or `REFUSED` tell what has become of it; closing withdraws it.
    pub fn pending(mut self) -> Self {
        self.open.flags |= sys::MP_SESSION_NONBLOCK;
        self
    }

    /// The session has no windows, and fits only others without.
    pub fn bare(mut self) -> Self {
        self.open.flags |= sys::MP_SESSION_NO_WINDOWS;
        self
    }

    /// A server's local window is a range of physical addresses of this host. Needs
    /// `CAP_SYS_RAWIO`.
    pub fn physical(mut self, range: PhysicalRange) -> Self {
        self.open.location = sys::MP_LOCATION_PHYSICAL;
        self.open.address = range.start();
        self.local(range.len()..=range.len())
    }

    /// A client reaches physical addresses that a server has named.
    pub fn to_physical(mut self) -> Self {
        self.open.location = sys::MP_LOCATION_PHYSICAL;
        self
    }

    /// Open the session. One that waits for a partner is visible to the peer from then on.
    ///
    /// # Errors
    /// In this order: [`Error::NoInterface`]; [`Error::Invalid`]: both maxima 0, a maximum below
    /// its minimum, too much data, a name too long; [`Error::InterfaceDown`]; [`Error::NoSpace`]:
    /// the minima cannot be had; [`Error::NotPermitted`]: physical addresses need a privilege;
    /// [`Error::NotSupported`]: the peer cannot reach them, or is of a release without names;
    /// [`Error::UidTaken`]; [`Error::NoPartner`]: a client found nobody, or was rejected;
    /// [`Error::Quota`], [`Error::NoMemory`].
    pub fn open(mut self) -> Result<Session<D>> {
        // SAFETY: Its only address is that of a range that somebody vouches for.
        let open = unsafe { Vouched::new(&mut self.open) };
        let called = self
            .device
            .call(Call::SessionOpen(open, self.data, self.name));
        called.map_err(|errno| self.refused(errno))?;
        Ok(Session {
            object: Object::new(self.device, self.open.handle),
            uid: self.open.uid,
        })
    }
}

impl<D: Device> SessionRequest<'_, D> {
    /// Make an error of what the kernel has refused the request with.
    fn refused(&self, errno: Errno) -> Error {
        if errno == Errno::DQUOT {
            return Error::Quota(self.limit()).logged();
        }
        Error::of(Subject::Session {
            interface: InterfaceId(self.open.interface),
            protocol: self.open.protocol,
            uid: self.open.uid,
        })(errno)
    }

    /// Ask the kernel how many sessions there may be.
    fn limit(&self) -> Limit {
        let mut info = mp_info::default();
        match self.device.call(Call::Info(&mut info)) {
            Ok(()) => Limit::Sessions {
                context: info.sessions_max,
                user: info.user_sessions_max,
            },
            Err(_) => Limit::Unnamed,
        }
    }
}

/// Size of a window, and where it is mapped from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPlace {
    /// In bytes.
    pub size: u64,
    /// For [`Device::map`]; 0 if it cannot be mapped.
    pub offset: u64,
}

impl WindowPlace {
    fn is_mappable(&self) -> bool {
        self.offset != 0
    }
}

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// All that has happened.
    pub events: EventMask,
    /// Its interface.
    pub interface: InterfaceId,
    /// Memory of this host that the partner reaches, once paired.
    pub local: Option<WindowPlace>,
    /// Memory of the partner that this process reaches, once paired.
    pub remote: Option<WindowPlace>,
    /// Bytes from the first status word to its own; without meaning unless
    /// [`Info::features`](crate::Info::features) has `MP_FEATURE_ACCEPT`.
    pub status: u32,
    /// Its unique identifier on this host; 0 as long as it has none, and of kernels that do not
    /// tell it.
    pub uid: u32,
}

bitflags::bitflags! {
    /// What a device may do to a remote window.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// Read it.
        const READ = sys::MP_ACCESS_READ;
        /// Write to it.
        const WRITE = sys::MP_ACCESS_WRITE;
        /// Nothing any longer; stands alone.
        const CLEAR = sys::MP_ACCESS_CLEAR;
    }
}

/// A session; dropping closes it. Calls that wait when it is closed end with
/// [`Error::NotFound`]. Its handle is unique on this host and never 0. Maps of its windows have to be dropped by their owner, and
/// stay usable until then also if the partner or the link has gone.
#[derive(Debug)]
pub struct Session<D: Device = CharDevice> {
    object: Object<D>,
    uid: u32,
}

impl<D: Device> std::ops::Deref for Session<D> {
    type Target = Object<D>;

    fn deref(&self) -> &Object<D> {
        &self.object
    }
}

impl<D: Device> Session<D> {
    /// The unique identifier of the session on this host, as it was when this was opened: 0 of a
    /// client whose request was not answered then. [`state()`](Self::state) tells it later.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether the partner has closed it, its link is down, or nothing is told of it any more.
    pub fn is_over(&self) -> bool {
        let events = self.state().map(|state| state.events);
        events.map_or(true, |e| e.intersects(EventMask::CLOSED | EventMask::DOWN))
    }

    /// How the session stands; takes no event.
    ///
    /// # Errors
    /// [`Error::NotFound`]: closed, as of all calls.
    pub fn state(&self) -> Result<SessionState> {
        let mut session = mp_session {
            handle: self.open_handle()?,
            ..Default::default()
        };
        self.object.device.call(Call::Session(&mut session))?;
        let place = |size, offset| (size > 0).then_some(WindowPlace { size, offset });
        Ok(SessionState {
            events: EventMask::from_bits_retain(session.events),
            interface: InterfaceId(session.interface),
            local: place(session.local_size, session.local_offset),
            remote: place(session.remote_size, session.remote_offset),
            status: session.status,
            uid: session.uid,
        })
    }

    /// As [`wait()`](Self::wait), but gives and takes only the most important event: `CLOSED`
    /// before `DOWN` before `SIGNAL`.
    ///
    /// # Errors
    /// As [`wait()`](Self::wait).
    pub fn wait_one(&self, mask: EventMask, deadline: Deadline) -> Result<EventMask> {
        self.wait_by(sys::MP_WAIT_ONE, mask, deadline)
    }

    /// Wake the partner, once all that this process has written before is in its memory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::PartnerGone`], [`Error::InterfaceDown`],
    /// [`Error::NotPaired`].
    pub fn signal(&self) -> Result<()> {
        let mut handle = mp_handle {
            handle: self.open_handle()?,
            ..Default::default()
        };
        self.object
            .device
            .call(Call::Signal(&mut handle))
            .map_err(Error::from)
    }

    /// Map the memory of this host that the partner reaches; nothing if there is none, or the
    /// session is not paired.
    ///
    /// # Errors
    /// [`Error::NotFound`], and those of `mmap()`.
    pub fn map_local(&self) -> Result<Option<Map>> {
        self.state()?
            .local
            .map(|window| self.map(window))
            .transpose()
    }

    /// Map the memory of the partner; nothing if there is none, or the session is not paired.
    ///
    /// # Errors
    /// [`Error::NotFound`], and those of `mmap()`. [`Error::NotSupported`]: no window leads there,
    /// as another host forwards to the partner's: [`remote()`](Self::remote) stores there.
    pub fn map_remote(&self) -> Result<Option<Map>> {
        let Some(window) = self.state()?.remote else {
            return Ok(None);
        };
        match window.is_mappable() {
            true => self.map(window).map(Some),
            false => Err(Error::NotSupported(Subject::Unnamed)),
        }
    }

    /// The memory of the partner, to store to: mapped, or where stores are sent, if no window leads
    /// there. Nothing as of [`map_remote()`](Self::map_remote).
    ///
    /// # Errors
    /// [`Error::NotFound`], and those of `mmap()`.
    #[cfg(target_pointer_width = "64")]
    pub fn remote(&self) -> Result<Option<PartnerMemory<D>>> {
        let state = self.state()?;
        let Some(window) = state.remote else {
            return Ok(None);
        };
        let device = &self.object.device;
        Ok(Some(match window.is_mappable() {
            true => {
                let map = self.map(window)?;
                let map = match self.takes_whole_lines(state.interface) {
                    true => map.with_whole_lines(),
                    false => map,
                };
                PartnerMemory::Mapped(device.remote(map))
            }
            false => PartnerMemory::Sent(Stores::new(device, self.open_handle()?, window.size)?),
        }))
    }

    /// Whether lines are stored in one piece to a window of that interface: where the processor can,
    /// and the window is one of a bridge, not memory of this host.
    #[cfg(target_pointer_width = "64")]
    fn takes_whole_lines(&self, interface: InterfaceId) -> bool {
        if !whole::is_there() {
            return false;
        }
        let mut about = mp_interface {
            id: interface.0,
            ..Default::default()
        };
        let asked = self.object.device.call(Call::Interface(&mut about));
        asked.is_ok() && is_of_bridge(about.flags)
    }

    /// Map a window of [`state()`](Self::state).
    ///
    /// # Errors
    /// Those of `mmap()`.
    pub fn map(&self, window: WindowPlace) -> Result<Map> {
        self.open_handle()?;
        self.object
            .device
            .map(window.offset, window.size, 0)
            .map_err(Error::from)
    }

    /// Where a device of this host reaches the remote window: an address on the PCI bus.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotPermitted`], [`Error::InterfaceDown`],
    /// [`Error::NotPaired`], [`Error::PartnerGone`], [`Error::NoWindow`],
    /// [`Error::NotSupported`].
    pub fn address(&self) -> Result<u64> {
        let mut address = mp_session_address {
            handle: self.open_handle()?,
            ..Default::default()
        };
        self.object
            .device
            .call(Call::SessionAddress(&mut address))?;
        Ok(address.address)
    }

    /// Let a device of this host reach the remote window, in addition to what it may already.
    ///
    /// # Errors
    /// As [`address()`](Self::address), and [`Error::Invalid`]: a mode that cannot be.
    pub fn allow(&self, mode: Access, device: PciFunction) -> Result<()> {
        let mut access = mp_session_access {
            handle: self.open_handle()?,
            mode: mode.bits(),
            pci_domain: device.domain as u16,
            pci_domain_high: (device.domain >> 16) as u16,
            pci_bus: device.bus,
            pci_devfn: device.device << 3 | device.function & 7,
            ..Default::default()
        };
        self.object
            .device
            .call(Call::SessionAccess(&mut access))
            .map_err(Error::from)
    }
}

/// Whether the windows of an interface are those of a bridge, by its flags.
#[cfg(target_pointer_width = "64")]
fn is_of_bridge(flags: u32) -> bool {
    flags & sys::MP_INTERFACE_LOOPBACK == 0
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;

    #[test]
    fn windows_of_this_host_are_not_those_of_a_bridge() {
        assert!(is_of_bridge(0) && is_of_bridge(!sys::MP_INTERFACE_LOOPBACK));
        assert!(!is_of_bridge(sys::MP_INTERFACE_LOOPBACK) && !is_of_bridge(u32::MAX));
    }
}
