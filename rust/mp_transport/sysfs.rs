// SPDX-License-Identifier: GPL-2.0

//! `/sys/kernel/mp`: one directory per peer and the service's own counters
//! (`IDT-PEER-4`).
//!
//! ```text
//! /sys/kernel/mp/self                        id of the local host, hexadecimal
//! /sys/kernel/mp/dropped_bad_header          frames, see service::Drops
//! /sys/kernel/mp/dropped_unknown_function
//! /sys/kernel/mp/dropped_no_route
//! /sys/kernel/mp/peers/<id>/{id,index,type,state,queues,max_frame}
//! /sys/kernel/mp/peers/<id>/{tx,rx}_{frames,bytes,errors}
//! /sys/kernel/mp/peers/<id>/link             the transport's own counters, "name value" lines
//! ```

use crate::{
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

/// The attributes of the service itself.
struct ServiceAttributes;

impl Attributes for ServiceAttributes {
    const NAMES: &'static [&'static CStr] = &[
        c"self",
        c"dropped_bad_header",
        c"dropped_unknown_function",
        c"dropped_no_route",
    ];

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let drops = &service::DROPS;
        match index {
            0 => writeln!(out, "{:08x}", service::self_id().0),
            1 => writeln!(out, "{}", drops.bad_header.get()),
            2 => writeln!(out, "{}", drops.unknown_function.get()),
            _ => writeln!(out, "{}", drops.no_route.get()),
        }
    }
}

/// The attributes of one peer.
struct PeerAttributes(Arc<Peer>);

impl Attributes for PeerAttributes {
    const NAMES: &'static [&'static CStr] = &[
        c"id",
        c"index",
        c"type",
        c"state",
        c"queues",
        c"max_frame",
        c"tx_frames",
        c"tx_bytes",
        c"tx_errors",
        c"rx_frames",
        c"rx_bytes",
        c"rx_errors",
        c"link",
    ];

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let peer = &self.0;
        let stats = peer.stats().snapshot();
        match index {
            0 => writeln!(out, "{:08x}", peer.id().0),
            1 => writeln!(out, "{}", peer.index()),
            2 => writeln!(out, "{}", peer.transport().name().to_str().unwrap_or("?")),
            3 if peer.is_connected() => writeln!(out, "connected"),
            3 => writeln!(out, "leaving"),
            4 => writeln!(out, "{}", peer.tx_queues()),
            5 => writeln!(out, "{}", peer.max_frame()),
            6 => writeln!(out, "{}", stats.tx_frames),
            7 => writeln!(out, "{}", stats.tx_bytes),
            8 => writeln!(out, "{}", stats.tx_errors),
            9 => writeln!(out, "{}", stats.rx_frames),
            10 => writeln!(out, "{}", stats.rx_bytes),
            11 => writeln!(out, "{}", stats.rx_errors),
            _ => show_link(peer, out),
        }
    }
}

/// The counters of the peer's link, a line each.
fn show_link(peer: &Peer, out: &mut dyn Write) -> fmt::Result {
    let mut result = Ok(());
    peer.for_each_link_counter(&mut |name, value| {
        result = result.and(writeln!(out, "{name} {value}"));
    });
    result
}

/// The tree: first the directory in which peers appear, then the one around it.
pub(crate) struct Tree {
    peers: Directory,
    _root: Directory,
}

impl Tree {
    pub(crate) fn new() -> Result<Self> {
        let root = Directory::new(c"mp", None, Arc::new(ServiceAttributes, GFP_KERNEL)?)?;
        let nothing = Arc::new(NoAttributes, GFP_KERNEL)?;
        Ok(Self {
            peers: Directory::new(c"peers", Some(&root), nothing)?,
            _root: root,
        })
    }
}

/// A peer's directory; dropping it removes it.
pub(crate) struct PeerDirectory {
    id: PeerId,
    _directory: Directory,
}

impl PeerDirectory {
    pub(crate) fn new(tree: &Tree, peer: &Arc<Peer>) -> Result<Self> {
        let name = CString::try_from_fmt(fmt!("{:08x}", peer.id().0))?;
        let attributes = Arc::new(PeerAttributes(peer.clone()), GFP_KERNEL)?;
        Ok(Self {
            id: peer.id(),
            _directory: Directory::new(&name, Some(&tree.peers), attributes)?,
        })
    }

    pub(crate) fn id(&self) -> PeerId {
        self.id
    }
}
