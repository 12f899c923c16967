// SPDX-License-Identifier: GPL-2.0

//! The registries, sending by peer id, and the entry point for what arrives.

use crate::{
    frame::{
        Frame,
        FuncId,
        RxContext,
        RxData,
        RxFrame, //
    },
    function::{
        Function,
        FunctionEntry, //
    },
    loopback::SelfEntry,
    peer::Peer,
    stats::Counter,
    sysfs::{
        PeerDirectory,
        Tree, //
    },
    transport::TransportEntry, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    }, //
};
use mp_kernel::{
    error,
    sync::RcuArc, //
};
use mp_proto::wire::{
    MsgHdr,
    PeerId, //
};

/// Most peers of one host, itself included.
pub const MAX_PEERS: usize = 64;

/// Most function services.
const MAX_FUNCTIONS: usize = 16;

/// Peers by their index; read under RCU.
static PEERS: [RcuArc<Peer>; MAX_PEERS] = [const { RcuArc::empty() }; MAX_PEERS];

/// Functions in no order; read under RCU.
static FUNCTIONS: [RcuArc<FunctionEntry>; MAX_FUNCTIONS] =
    [const { RcuArc::empty() }; MAX_FUNCTIONS];

/// The local host's id; [`PeerId::SELF`] until a transport knows it.
static SELF_ID: Atomic<u32> = Atomic::new(PeerId::SELF.0);

/// The local host as a peer of itself; read under RCU.
static SELF: RcuArc<SelfEntry> = RcuArc::empty();

/// Frames dropped before any function saw them.
#[derive(Default)]
pub struct Drops {
    /// The message header contradicts the frame or the link (`IDT-MSG-8`).
    pub bad_header: Counter,
    /// No function of that id (`IDT-FN-4`).
    pub unknown_function: Counter,
    /// Addressed to another host, to which no route is known (`IDT-MSG-7`).
    pub no_route: Counter,
}

/// See [`Drops`].
pub static DROPS: Drops = Drops {
    bad_header: Counter::new(),
    unknown_function: Counter::new(),
    no_route: Counter::new(),
};

/// What changes only under the registry's mutex.
pub(crate) struct Registry {
    tree: Option<Tree>,
    transports: KVec<Arc<TransportEntry>>,
    directories: KVec<PeerDirectory>,
}

kernel::sync::global_lock! {
    // SAFETY: Initialised in the module's `init`, before anything is registered.
    pub(crate) unsafe(uninit) static REGISTRY: Mutex<Registry> = Registry {
        tree: None,
        transports: KVec::new(),
        directories: KVec::new(),
    };
}

/// Opens the registry: from now on peers and services may register.
pub(crate) fn start() -> Result {
    REGISTRY.lock().tree = Some(Tree::new()?);
    Ok(())
}

/// Closes the registry, which is empty by then, and frees what it holds.
pub(crate) fn stop() {
    let mut registry = REGISTRY.lock();
    registry.tree = None;
    registry.directories = KVec::new();
    registry.transports = KVec::new();
}

/// The local host's id.
#[inline]
pub fn self_id() -> PeerId {
    PeerId(SELF_ID.load(Relaxed))
}

/// Gives the local host its id (`IDT-PEER-11`), e.g. [`PeerId::RP`].
///
/// # Errors
///
/// `EINVAL` for a reserved id, `EBUSY` if it already has a different one.
pub fn set_self_id(id: PeerId) -> Result {
    if !id.is_host() {
        return Err(EINVAL);
    }
    match SELF_ID.cmpxchg(PeerId::SELF.0, id.0, Relaxed) {
        Ok(_) => Ok(()),
        Err(old) if old == id.0 => Ok(()),
        Err(_) => Err(EBUSY),
    }
}

/// Takes the id back, so that another transport can choose one.
pub fn clear_self_id() {
    SELF_ID.store(PeerId::SELF.0, Relaxed);
}

/// Replaces [`PeerId::SELF`] by the id it stands for.
#[inline]
fn resolve(id: PeerId) -> PeerId {
    if id == PeerId::SELF {
        self_id()
    } else {
        id
    }
}

/// Enters or removes the self peer.
pub(crate) fn self_set(entry: Option<Arc<SelfEntry>>) {
    drop(SELF.replace(entry));
}

/// Waits until the frames to self that wait now have been delivered. Sleeps.
pub(crate) fn settle_self() {
    if let Some(entry) = SELF.get() {
        entry.link.settle();
    }
}

/// Calls `f` for each peer but the local host.
pub fn for_each_peer(mut f: impl FnMut(&Peer)) {
    let guard = rcu::read_lock();
    for cell in &PEERS {
        if let Some(peer) = cell.load(&guard) {
            f(&peer);
        }
    }
}

/// Calls `f` for each function, under RCU.
#[inline]
pub(crate) fn for_each_function(mut f: impl FnMut(&dyn Function)) {
    let guard = rcu::read_lock();
    for cell in &FUNCTIONS {
        if let Some(entry) = cell.load(&guard) {
            f(&*entry.function);
        }
    }
}

/// Finds a peer (`IDT-PEER-10`); [`PeerId::SELF`] finds the local host.
pub fn peer_get(id: PeerId) -> Option<Arc<Peer>> {
    if resolve(id) == self_id() {
        return SELF.get().map(|entry| entry.peer.clone());
    }
    PEERS
        .iter()
        .filter_map(|cell| cell.get())
        .find(|peer| peer.id() == id)
}

/// The peer after `index` in the order of indices (`IDT-PEER-10`); the local
/// host is not among them.
pub fn peer_next(index: Option<u32>) -> Option<Arc<Peer>> {
    let from = index.map_or(0, |i| i as usize + 1);
    PEERS.iter().skip(from).find_map(|cell| cell.get())
}

/// Sends a frame to a peer, to the local host or to all other peers
/// (`IDT-MSG-2`, `IDT-MSG-3`), through the first queue of each.
///
/// # Errors
///
/// `ENOTCONN` if there is no such peer, `EMSGSIZE`; `EAGAIN` if its queue is
/// full, and then the frame may be sent again. For a broadcast the first error;
/// the other copies have been sent.
pub fn send(dst: PeerId, frame: &Frame) -> Result {
    if dst == PeerId::BCAST {
        return broadcast(frame);
    }
    let result = match peer_get(dst) {
        Some(peer) => send_to(&peer, frame),
        None => Err(error::not_connected()),
    };
    result.inspect_err(|e| {
        if *e != EAGAIN {
            frame.fail(*e);
        }
    })
}

fn broadcast(frame: &Frame) -> Result {
    let mut result = Ok(());
    let mut next = peer_next(None);
    while let Some(peer) = next {
        let copy = send_to(&peer, frame).inspect_err(|e| frame.fail(*e));
        result = result.and(copy);
        next = peer_next(Some(peer.index()));
    }
    result
}

fn send_to(peer: &Peer, frame: &Frame) -> Result {
    let sent = peer.send(frame, 0);
    peer.kick(0);
    sent.map(|_| ()).map_err(Error::from)
}

/// Takes a frame that came from `peer` and gives it to its function
/// (`IDT-MSG-4`). Softirq context. `msg` and `func_hdr` are private copies.
///
/// # Errors
///
/// `EBADMSG` for a header that is not true, `ENOENT` for an unknown function,
/// `EHOSTUNREACH` for another host's frame, or the function's own error. The
/// frame has then been counted as dropped.
pub fn receive(
    rx: &RxContext<'_>,
    peer: &Arc<Peer>,
    msg: MsgHdr,
    func_hdr: &[u8],
    data: &dyn RxData,
) -> Result {
    let bytes = data.len();
    let result = check(peer, &msg, func_hdr.len() + bytes).and_then(|()| {
        let frame = RxFrame {
            peer,
            msg,
            func_hdr,
            data,
        };
        dispatch(rx, frame)
    });
    match result {
        Ok(()) => peer.stats().received(bytes),
        Err(_) => peer.stats().rx_errors.add(1),
    }
    result
}

/// `IDT-MSG-8`, and `IDT-MSG-7` as far as there is no route.
#[inline]
fn check(peer: &Peer, msg: &MsgHdr, len: usize) -> Result {
    if msg.len as usize != len || resolve(msg.src) != resolve(peer.id()) {
        DROPS.bad_header.add(1);
        return Err(error::bad_message());
    }
    if resolve(msg.dst) != self_id() && msg.dst != PeerId::BCAST {
        DROPS.no_route.add(1);
        return Err(error::unreachable());
    }
    Ok(())
}

#[inline]
fn dispatch(rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
    let guard = rcu::read_lock();
    let func = FuncId(frame.msg().func);
    for cell in &FUNCTIONS {
        if let Some(entry) = cell.load(&guard) {
            if entry.id == func {
                return entry.function.receive(rx, frame);
            }
        }
    }
    DROPS.unknown_function.add(1);
    Err(ENOENT)
}

pub(crate) fn peer_add(peer: &Arc<Peer>) -> Result {
    let mut registry = REGISTRY.lock();
    let cell = PEERS.get(peer.index() as usize).ok_or(ERANGE)?;
    if cell.get().is_some() || peer.id() == self_id() || peer_get(peer.id()).is_some() {
        return Err(EEXIST);
    }
    let tree = registry.tree.as_ref().ok_or(ENODEV)?;
    let directory = PeerDirectory::new(tree, peer)?;
    registry.directories.push(directory, GFP_KERNEL)?;
    cell.replace(Some(peer.clone()));
    // `peer_add` may sleep: take references instead of an RCU section.
    for cell in &FUNCTIONS {
        if let Some(entry) = cell.get() {
            entry.function.peer_add(peer);
        }
    }
    Ok(())
}

pub(crate) fn peer_del(peer: &Arc<Peer>) {
    let mut registry = REGISTRY.lock();
    peer.disconnect();
    for cell in &FUNCTIONS {
        if let Some(entry) = cell.get() {
            entry.function.peer_del(peer);
        }
    }
    if let Some(cell) = PEERS.get(peer.index() as usize) {
        cell.replace(None);
    }
    registry.directories.retain(|d| d.id() != peer.id());
    peer.transport().retire(peer);
}

pub(crate) fn function_add(entry: Arc<FunctionEntry>) -> Result {
    let _registry = REGISTRY.lock();
    let mut free = None;
    for cell in &FUNCTIONS {
        match cell.get() {
            Some(other) if other.id == entry.id => return Err(EEXIST),
            Some(_) => {}
            None => free = free.or(Some(cell)),
        }
    }
    free.ok_or(ENOSPC)?.replace(Some(entry.clone()));
    for cell in &PEERS {
        if let Some(peer) = cell.get() {
            entry.function.peer_add(&peer);
        }
    }
    Ok(())
}

pub(crate) fn function_del(id: FuncId) {
    let _registry = REGISTRY.lock();
    for cell in &FUNCTIONS {
        if cell.get().is_some_and(|entry| entry.id == id) {
            let entry = cell.replace(None);
            for peer in PEERS.iter().filter_map(|cell| cell.get()) {
                if let Some(entry) = &entry {
                    entry.function.peer_del(&peer);
                }
            }
            // Frames of this function that wait to be looped back run its code when dropped.
            if let Some(entry) = SELF.get() {
                entry.link.drain();
            }
        }
    }
}

/// The function with the smallest id from `id` on.
pub(crate) fn function_from(id: u32) -> Option<Arc<FunctionEntry>> {
    let entries = FUNCTIONS.iter().filter_map(|cell| cell.get());
    entries
        .filter(|entry| entry.id.0 >= id)
        .min_by_key(|entry| entry.id.0)
}

/// The transport with the smallest id from `id` on. Sleeps.
pub(crate) fn transport_from(id: u32) -> Option<Arc<TransportEntry>> {
    let registry = REGISTRY.lock();
    let entries = registry.transports.iter().filter(|t| t.id() >= id);
    entries.min_by_key(|t| t.id()).cloned()
}

pub(crate) fn transport_add(entry: &Arc<TransportEntry>) -> Result {
    let mut registry = REGISTRY.lock();
    if registry.transports.iter().any(|t| t.id() == entry.id()) {
        return Err(EEXIST);
    }
    registry.transports.push(entry.clone(), GFP_KERNEL)?;
    Ok(())
}

pub(crate) fn transport_del(entry: &Arc<TransportEntry>) {
    let mut registry = REGISTRY.lock();
    registry.transports.retain(|t| t.id() != entry.id());
}
