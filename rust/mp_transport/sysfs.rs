// SPDX-License-Identifier: GPL-2.0-only

//! `/sys/kernel/mp`: one directory per peer and per interface, and the service's own
//! counters (`IDT-PEER-4`).
//!
//! ```text
//! /sys/kernel/mp/self                        id of the local host, hexadecimal
//! /sys/kernel/mp/dropped_bad_header          frames, see service::Drops
//! /sys/kernel/mp/dropped_unknown_function
//! /sys/kernel/mp/dropped_{no_route,stale,overrun,forwarding}
//! /sys/kernel/mp/forwarded                   frames passed on to other hosts
//! /sys/kernel/mp/peers/<id>/{id,index,type,state,route,queues,max_frame}
//! /sys/kernel/mp/peers/<id>/{tx,rx}_{frames,bytes,errors}
//! /sys/kernel/mp/peers/<id>/link/            the transport's own counters
//! /sys/kernel/mp/interfaces/<id>/{name,kind,state,peer,resets,waits_for}
//! /sys/kernel/mp/interfaces/<id>/{location,vendor,device,subsystem_vendor,
//!                                 subsystem_device}  of a bridge on a PCI bus
//! ```

use crate::{
    interface::Interface,
    peer::Peer,
    service, //
};
use core::fmt::{
    self,
    Write, //
};
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use mp_kernel::kobject::{
    Attributes,
    Directory,
    NoAttributes, //
};
use mp_proto::wire::PeerId;

/// The attributes of the service itself: its id, and its counters.
struct ServiceAttributes;

/// Their names.
const SERVICE_NAMES: [&CStr; service::COUNTERS.len() + 1] = {
    let mut names = [c"self"; service::COUNTERS.len() + 1];
    let mut n = 0;
    while n < service::COUNTERS.len() {
        names[n + 1] = service::COUNTERS[n];
        n += 1;
    }
    names
};

impl Attributes for ServiceAttributes {
    fn names(&self) -> &'static [&'static CStr] {
        &SERVICE_NAMES
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let counter = index.checked_sub(1).and_then(|n| {
            let counters = service::counters();
            counters.get(n).copied()
        });
        match counter {
            Some(counter) => writeln!(out, "{counter}"),
            None => writeln!(out, "{:08x}", service::self_id().0),
        }
    }
}

/// The attributes of one peer.
struct PeerAttributes(Arc<Peer>);

impl Attributes for PeerAttributes {
    fn names(&self) -> &'static [&'static CStr] {
        &[
            c"id",
            c"index",
            c"type",
            c"state",
            c"route",
            c"queues",
            c"max_frame",
            c"tx_frames",
            c"tx_bytes",
            c"tx_errors",
            c"rx_frames",
            c"rx_bytes",
            c"rx_errors",
        ]
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let peer = &self.0;
        let stats = peer.stats().snapshot();
        match index {
            0 => writeln!(out, "{:08x}", peer.id().0),
            1 => writeln!(out, "{}", peer.index()),
            2 => writeln!(out, "{}", peer.transport().name().to_str().unwrap_or("?")),
            3 if peer.is_connected() => writeln!(out, "connected"),
            3 => writeln!(out, "leaving"),
            4 => match peer.hop() {
                Some(hop) => writeln!(out, "via {:08x}", hop.id().0),
                None => writeln!(out, "direct"),
            },
            5 => writeln!(out, "{}", peer.tx_queues()),
            6 => writeln!(out, "{}", peer.max_frame()),
            7 => writeln!(out, "{}", stats.tx_frames),
            8 => writeln!(out, "{}", stats.tx_bytes),
            9 => writeln!(out, "{}", stats.tx_errors),
            10 => writeln!(out, "{}", stats.rx_frames),
            11 => writeln!(out, "{}", stats.rx_bytes),
            _ => writeln!(out, "{}", stats.rx_errors),
        }
    }
}

/// The counters of a peer's link.
struct LinkAttributes(Arc<Peer>);

impl Attributes for LinkAttributes {
    fn names(&self) -> &'static [&'static CStr] {
        self.0.link_counters()
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "{}", self.0.link_counter(index))
    }
}

/// The attributes of an interface.
struct InterfaceAttributes(Arc<Interface>);

impl Attributes for InterfaceAttributes {
    fn names(&self) -> &'static [&'static CStr] {
        let (all, everywhere) = (
            &[
                c"name",
                c"kind",
                c"state",
                c"peer",
                c"resets",
                c"waits_for",
                c"location",
                c"vendor",
                c"device",
                c"subsystem_vendor",
                c"subsystem_device",
            ],
            6,
        );
        match self.0.info().location {
            Some(_) => all,
            None => all.get(..everywhere).unwrap_or_default(),
        }
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let info = self.0.info();
        match (index, &info.location, self.0.peer()) {
            (0, _, _) => writeln!(out, "{}", info.name.to_str().unwrap_or("?")),
            (1, _, _) => writeln!(out, "{}", info.kind.name().to_str().unwrap_or("?")),
            (2, _, Some(_)) => writeln!(out, "up"),
            (2, _, None) => writeln!(out, "down"),
            (3, _, Some(peer)) => writeln!(out, "{:08x}", peer.id().0),
            (4, _, _) => writeln!(out, "{}", self.0.resets()),
            (5, _, _) => writeln!(out, "{}", self.0.waits().map_or("none", |(w, _)| w.name())),
            (6, Some(function), _) => writeln!(out, "{function}"),
            (7, Some(function), _) => writeln!(out, "{:04x}", function.vendor_id),
            (8, Some(function), _) => writeln!(out, "{:04x}", function.device_id),
            (9, Some(function), _) => writeln!(out, "{:04x}", function.subsystem_vendor_id),
            (10, Some(function), _) => writeln!(out, "{:04x}", function.subsystem_id),
            _ => writeln!(out, "none"),
        }
    }
}

/// The tree: first the directories in which peers and interfaces appear, then the one
/// around them.
pub(crate) struct Tree {
    peers: Directory,
    interfaces: Directory,
    _root: Directory,
}

impl Tree {
    pub(crate) fn new() -> Result<Self> {
        let root = Directory::new(c"mp", None, Arc::new(ServiceAttributes, GFP_KERNEL)?)?;
        let nothing = Arc::new(NoAttributes, GFP_KERNEL)?;
        Ok(Self {
            peers: Directory::new(c"peers", Some(&root), nothing.clone())?,
            interfaces: Directory::new(c"interfaces", Some(&root), nothing)?,
            _root: root,
        })
    }
}

/// A peer's directory; dropping it removes it.
pub(crate) struct PeerDirectory {
    id: PeerId,
    _link: Directory,
    _directory: Directory,
}

impl PeerDirectory {
    pub(crate) fn new(tree: &Tree, peer: &Arc<Peer>) -> Result<Self> {
        let name = CString::try_from_fmt(fmt!("{:08x}", peer.id().0))?;
        let attributes = Arc::new(PeerAttributes(peer.clone()), GFP_KERNEL)?;
        let directory = Directory::new(&name, Some(&tree.peers), attributes)?;
        let counters = Arc::new(LinkAttributes(peer.clone()), GFP_KERNEL)?;
        Ok(Self {
            id: peer.id(),
            _link: Directory::new(c"link", Some(&directory), counters)?,
            _directory: directory,
        })
    }

    pub(crate) fn id(&self) -> PeerId {
        self.id
    }
}

/// An interface's directory; dropping it removes it.
pub(crate) struct InterfaceDirectory {
    _directory: Directory,
}

impl InterfaceDirectory {
    pub(crate) fn new(tree: &Tree, interface: &Arc<Interface>) -> Result<Self> {
        let name = CString::try_from_fmt(fmt!("{:08x}", interface.id()))?;
        let attributes = Arc::new(InterfaceAttributes(interface.clone()), GFP_KERNEL)?;
        Ok(Self {
            _directory: Directory::new(&name, Some(&tree.interfaces), attributes)?,
        })
    }
}
