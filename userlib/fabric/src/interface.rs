// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is known of the local ends of links, and of the peers' windows.

use crate::{
    sys::{self, mp_info, mp_interface, mp_interfaces, mp_window, mp_windows},
    wait, Call, Deadline, Device, Error, EventMask, Fabric, Location, Result, Role, Subject,
    Target, WINDOW_DATA_MAX,
};
use rustix::{fd::BorrowedFd, io::Errno};
use std::{fmt, fs, ops::RangeInclusive, thread, time::Duration};

/// Room that is tried first for lists of ids.
const IDS: usize = 64;

/// Time between two looks for an interface that is up.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// What every host calls itself.
const ITSELF: u32 = 0x8000_0000;
/// Tells what other hosts call this one, in hexadecimal.
const SELF: &str = "/sys/kernel/mp/self";

/// Names an interface: the same number as long as the hardware is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceId(pub u32);

impl InterfaceId {
    /// None of them. To wait for it is to wait for one that is added:
    /// [`STATE`](EventMask::STATE), which the first wait of a context finds. A kernel without
    /// `MP_FEATURE_ARRIVALS` does not know of it.
    pub const ANY: Self = Self(sys::MP_INTERFACE_ANY);
}

impl fmt::Display for InterfaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Version of the device's interface.
    pub version: u32,
    /// `MP_FEATURE_*` of [`sys`].
    pub features: u64,
    /// Most sessions of a context.
    pub sessions_max: u32,
    /// Most sessions of all contexts of a user.
    pub user_sessions_max: u32,
}

/// Ids of a PCI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciIds {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Subsystem vendor id.
    pub subsystem_vendor: u16,
    /// Subsystem id.
    pub subsystem_device: u16,
}

/// Where a PCI function is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciFunction {
    /// Domain, or segment.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

/// The other host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// 32 or 64 bits.
    pub word_size: u8,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
}

/// The local end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub id: InterfaceId,
    /// Whether both hosts reach each other.
    pub up: bool,
    /// Whether the other host is this one.
    pub loopback: bool,
    /// Whether another host forwards to the peer: no window leads to its memory.
    pub routed: bool,
    /// The bridge, if it is a PCI device.
    pub pci: Option<(PciIds, PciFunction)>,
    /// The other host, if known.
    pub remote: Option<Remote>,
    /// Id of the peer, if the interface is up.
    pub peer: Option<u32>,
    /// Number of this life of the link; 0 if the interface is not up.
    pub epoch: u64,
    /// Bytes of this host for windows.
    pub local_total: u64,
    /// The longest piece of them that is free, in bytes.
    pub local_free: u64,
    /// Bytes of the peer for windows.
    pub remote_total: u64,
    /// The name; what is not UTF-8 is replaced.
    pub name: String,
}

/// A window of the peer, as the peer's session sees it: its local size is that of the memory that
/// this host would reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The unique identifier.
    pub uid: u32,
    /// How the peer's session looks for a partner.
    pub role: Role,
    /// What the window consists of.
    pub location: Location,
    /// Number of the protocol, equal on both sides.
    pub protocol: u32,
    /// Whether it has a partner already; then the sizes are the actual ones.
    pub paired: bool,
    /// Bytes that this host could reach.
    pub local: RangeInclusive<u64>,
    /// Bytes of this host that the peer could reach.
    pub remote: RangeInclusive<u64>,
    /// What it was posted with.
    pub data: Vec<u8>,
}

impl<D: Device> Fabric<D> {
    /// What the kernel offers.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Ended`]: those of all calls, not repeated below.
    pub fn info(&self) -> Result<Info> {
        let mut info = mp_info::default();
        self.device.call(Call::Info(&mut info))?;
        Ok(Info {
            version: info.version,
            features: info.features,
            sessions_max: info.sessions_max,
            user_sessions_max: info.user_sessions_max,
        })
    }

    /// The local ends of all links, also of those that are down.
    ///
    /// # Errors
    /// Only those of all calls.
    pub fn interfaces(&self) -> Result<Vec<InterfaceId>> {
        let ids = list(Subject::Unnamed, |ids| {
            let mut interfaces = mp_interfaces::default();
            let called = self.device.call(Call::Interfaces(&mut interfaces, ids));
            (called, interfaces.count)
        })?;
        Ok(ids.into_iter().map(InterfaceId).collect())
    }

    /// What is known of an interface.
    ///
    /// # Errors
    /// [`Error::NoInterface`].
    pub fn interface(&self, id: InterfaceId) -> Result<Interface> {
        let mut interface = mp_interface {
            id: id.0,
            ..Default::default()
        };
        let called = self.device.call(Call::Interface(&mut interface));
        called.map_err(Error::of(Subject::Interface(id)))?;
        Ok(Interface::from(&interface))
    }

    /// Wait until an interface is up whose link leads to another host; the first one that is.
    ///
    /// # Errors
    /// [`Error::NoInterface`]: none is up until the deadline.
    pub fn wait_for_interface(&self, deadline: Deadline) -> Result<InterfaceId> {
        loop {
            if let Some(id) = self.interface_to_peer()? {
                return Ok(id);
            }
            let left = deadline.remaining();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::NoInterface(Subject::AnyInterface));
            }
            // Others of this context may wait for these events; to take them here would lose them.
            thread::sleep(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)));
        }
    }

    /// Find an interface that is up, and leads to another host over a bridge.
    fn interface_to_peer(&self) -> Result<Option<InterfaceId>> {
        for id in self.interfaces()? {
            match self.interface(id) {
                Ok(interface) if interface.up && interface.is_link() => return Ok(Some(id)),
                // One that has been removed since the list was made leads nowhere.
                Ok(_) | Err(Error::NoInterface(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Interfaces that are up and lead to a host, that of this number, or this one itself without a
    /// number: behind the others those that another host forwards.
    ///
    /// # Errors
    /// As [`interfaces()`](Self::interfaces).
    pub fn interfaces_to(&self, host: Option<u32>) -> Result<Vec<InterfaceId>> {
        let leads = |interface: &Interface| match host {
            None => interface.loopback,
            Some(_) => interface.up && !interface.loopback && interface.peer == host,
        };
        let interfaces = self.interfaces()?.into_iter();
        let interfaces = interfaces.filter_map(|id| self.interface(id).ok());
        let mut interfaces: Vec<_> = interfaces.filter(leads).collect();
        interfaces.sort_by_key(|interface| interface.routed);
        Ok(interfaces.iter().map(|interface| interface.id).collect())
    }

    /// The number that other hosts know this one by. That of the loopback interface may be one
    /// that means the host itself on every host; then the system tells.
    ///
    /// # Errors
    /// [`Error::NoInterface`]: there is no loopback interface, or the host has no number.
    pub fn host(&self) -> Result<u32> {
        let nobody = Error::NoInterface(Subject::Unnamed);
        let interfaces = self.interfaces()?.into_iter();
        let mut interfaces = interfaces.filter_map(|id| self.interface(id).ok());
        let own = interfaces.find(|interface| interface.loopback);
        match own.and_then(|own| own.peer) {
            Some(ITSELF) => {
                let number = fs::read_to_string(SELF).ok();
                let number = number.and_then(|text| u32::from_str_radix(text.trim(), 16).ok());
                number.ok_or(nobody)
            }
            number => number.ok_or(nobody),
        }
    }

    /// Unique identifiers of all windows of the peer, also of paired ones.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::InterfaceDown`].
    pub fn windows(&self, interface: InterfaceId) -> Result<Vec<u32>> {
        list(Subject::Interface(interface), |ids| {
            let mut windows = mp_windows {
                interface: interface.0,
                ..Default::default()
            };
            let called = self.device.call(Call::Windows(&mut windows, ids));
            (called, windows.count)
        })
    }

    /// What is known of a window of the peer.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::InterfaceDown`], [`Error::NotFound`]: no such window.
    pub fn window(&self, interface: InterfaceId, uid: u32) -> Result<Window> {
        let mut data = vec![0; WINDOW_DATA_MAX];
        let mut window = mp_window {
            interface: interface.0,
            id: uid,
            ..Default::default()
        };
        let called = self.device.call(Call::Window(&mut window, &mut data));
        called.map_err(Error::of(Subject::Window { interface, uid }))?;
        data.truncate(window.data_size as usize);
        Ok(Window {
            uid,
            role: Role::try_from(window.role)?,
            location: Location::try_from(window.location)?,
            protocol: window.protocol,
            paired: window.paired != 0,
            local: window.local_min..=window.local_max,
            remote: window.remote_min..=window.remote_max,
            data,
        })
    }

    /// Wait until the interface or its peer's windows have changed, and take that. The first
    /// wait of a context for an interface finds both.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::TimedOut`].
    pub fn wait(
        &self,
        interface: InterfaceId,
        mask: EventMask,
        deadline: Deadline,
    ) -> Result<EventMask> {
        wait::wait(
            &*self.device,
            Target::Interface(interface),
            mask,
            0,
            deadline,
        )
    }

    /// Signal an eventfd whenever an event of the mask comes, and at once if one is there;
    /// without an eventfd no longer.
    ///
    /// # Errors
    /// [`Error::NoInterface`]; [`Error::System`] with `EBADF`: not an eventfd.
    pub fn notify(
        &self,
        interface: InterfaceId,
        mask: EventMask,
        eventfd: Option<BorrowedFd<'_>>,
    ) -> Result<()> {
        wait::notify(&*self.device, Target::Interface(interface), mask, eventfd)
    }

    /// Report events of the mask to [`Events`](crate::Events) by a cookie; with an empty mask no
    /// longer.
    ///
    /// # Errors
    /// [`Error::NoInterface`].
    pub fn watch(&self, interface: InterfaceId, mask: EventMask, cookie: u64) -> Result<()> {
        wait::watch(&*self.device, Target::Interface(interface), mask, cookie)
    }
}

/// Ask for a list until there is room for it; the question gives the number that there are.
fn list(
    subject: Subject,
    mut ask: impl FnMut(&mut [u32]) -> (std::result::Result<(), Errno>, u32),
) -> Result<Vec<u32>> {
    let mut ids = vec![0; IDS];
    loop {
        let (called, count) = ask(&mut ids);
        let count = count as usize;
        match called {
            Ok(()) => {
                ids.truncate(count);
                return Ok(ids);
            }
            // More may come until the next question.
            Err(Errno::NOSPC) if count > ids.len() => ids.resize(count.saturating_add(IDS), 0),
            Err(errno) => return Err(Error::of(subject)(errno)),
        }
    }
}

impl Interface {
    /// Whether it is the local end of a link to another host, and not a way over others.
    pub fn is_link(&self) -> bool {
        !self.loopback && !self.routed
    }
}

impl From<&mp_interface> for Interface {
    fn from(interface: &mp_interface) -> Self {
        let has = |flag| interface.flags & flag != 0;
        Interface {
            id: InterfaceId(interface.id),
            up: has(sys::MP_INTERFACE_UP),
            loopback: has(sys::MP_INTERFACE_LOOPBACK),
            routed: has(sys::MP_INTERFACE_ROUTED),
            pci: has(sys::MP_INTERFACE_PCI).then(|| pci(interface)),
            remote: has(sys::MP_INTERFACE_REMOTE).then_some(Remote {
                word_size: interface.remote_word_size,
                big_endian: interface.remote_big_endian != 0,
            }),
            peer: (interface.peer != sys::MP_PEER_NONE).then_some(interface.peer),
            epoch: interface.epoch,
            local_total: interface.local_total,
            local_free: interface.local_free,
            remote_total: interface.remote_total,
            name: name(&interface.name),
        }
    }
}

fn pci(interface: &mp_interface) -> (PciIds, PciFunction) {
    let ids = PciIds {
        vendor: interface.vendor,
        device: interface.device,
        subsystem_vendor: interface.subsystem_vendor,
        subsystem_device: interface.subsystem_device,
    };
    let function = PciFunction {
        domain: u32::from(interface.pci_domain_high) << 16 | u32::from(interface.pci_domain),
        bus: interface.pci_bus,
        device: interface.pci_devfn >> 3,
        function: interface.pci_devfn & 7,
    };
    (ids, function)
}

/// The text up to the first zero byte.
fn name(text: &[std::ffi::c_char]) -> String {
    let bytes = text.iter().map(|c| c.to_ne_bytes()[0]);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
