// SPDX-License-Identifier: GPL-2.0-only

//! The registries, sending by peer id, and the entry point for what arrives.

use crate::{
    forward,
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
    interface::{
        self,
        Watchers, //
    },
    loopback::SelfEntry,
    management,
    netlink,
    peer::{
        traced,
        Peer, //
    },
    stats::{
        Counter,
        Stats, //
    },
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
    sync::RcuArc,
    trace, //
};
use mp_proto::{
    flow,
    manage,
    route::{
        verdict,
        Verdict, //
    },
    wire::{
        MsgHdr,
        PeerId,
        WayTag, //
    }, //
};

pub use mp_proto::wire::MAX_PEERS;

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
    /// Addressed to another host, between which and the source nothing is
    /// forwarded (`IDT-MSG-7`).
    pub no_route: Counter,
    /// From an earlier life of a host at the other side of one that forwards.
    pub stale: Counter,
    /// Beyond what a host may have forwarded at a time.
    pub overrun: Counter,
    /// To be forwarded, but memory was short or the destination has left.
    pub forwarding: Counter,
}

/// See [`Drops`].
pub static DROPS: Drops = Drops {
    bad_header: Counter::new(),
    unknown_function: Counter::new(),
    no_route: Counter::new(),
    stale: Counter::new(),
    overrun: Counter::new(),
    forwarding: Counter::new(),
};

/// Names of the service's counters, of [`DROPS`] and of what was forwarded.
pub(crate) const COUNTERS: &[&CStr; 7] = &[
    c"dropped_bad_header",
    c"dropped_unknown_function",
    c"dropped_no_route",
    c"dropped_stale",
    c"dropped_overrun",
    c"dropped_forwarding",
    c"forwarded",
];

/// The values of [`COUNTERS`].
pub(crate) fn counters() -> [u64; COUNTERS.len()] {
    [
        DROPS.bad_header.get(),
        DROPS.unknown_function.get(),
        DROPS.no_route.get(),
        DROPS.stale.get(),
        DROPS.overrun.get(),
        DROPS.forwarding.get(),
        forward::FORWARDED.get(),
    ]
}

/// What changes only under the registry's mutex.
pub(crate) struct Registry {
    pub(crate) tree: Option<Tree>,
    pub(crate) watchers: Watchers,
    transports: KVec<Arc<TransportEntry>>,
    directories: KVec<PeerDirectory>,
}

kernel::sync::global_lock! {
    // SAFETY: Initialised in the module's `init`, before anything is registered.
    pub(crate) unsafe(uninit) static REGISTRY: Mutex<Registry> = Registry {
        tree: None,
        watchers: Watchers::new(),
        transports: KVec::new(),
        directories: KVec::new(),
    };
}

/// Open the registry: from now on peers and services may register.
///
/// # Errors
///
/// `ENOMEM`, `EEXIST` if somebody else has the name in sysfs. It is closed again then.
pub(crate) fn start() -> Result {
    REGISTRY.lock().tree = Some(Tree::new()?);
    management::start().inspect_err(|_| stop())
}

/// Close the registry, which is empty by then, and free what it holds.
pub(crate) fn stop() {
    management::stop();
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

/// Give the local host its id (`IDT-PEER-11`), e.g. [`PeerId::RP`].
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

/// Take the id back, so that another transport can choose one.
pub fn clear_self_id() {
    SELF_ID.store(PeerId::SELF.0, Relaxed);
}

/// Replace [`PeerId::SELF`] by the id it stands for.
#[inline]
fn resolve(id: PeerId) -> PeerId {
    if id == PeerId::SELF {
        self_id()
    } else {
        id
    }
}

/// Enter or remove the self peer.
pub(crate) fn self_set(entry: Option<Arc<SelfEntry>>) {
    drop(SELF.replace(entry));
}

/// Wait until the frames to self that wait now have been delivered. Sleeps.
pub(crate) fn settle_self() {
    if let Some(entry) = SELF.get() {
        entry.link.settle();
    }
}

/// Call `f` for each peer but the local host.
pub fn for_each_peer(mut f: impl FnMut(&Peer)) {
    let guard = rcu::read_lock();
    for cell in &PEERS {
        if let Some(peer) = cell.load(&guard) {
            f(&peer);
        }
    }
}

/// Call `f` for each function, under RCU.
#[inline]
pub(crate) fn for_each_function(mut f: impl FnMut(&dyn Function)) {
    let guard = rcu::read_lock();
    for cell in &FUNCTIONS {
        if let Some(entry) = cell.load(&guard) {
            f(&*entry.function);
        }
    }
}

/// Tell a function that frames to `peer` were dropped on their way, or all of them
/// ([`flow::ANY`]). If it has gone meanwhile, nobody else would make up for them.
pub(crate) fn lost(peer: &Peer, function: u32) {
    let guard = rcu::read_lock();
    let mut is_known = false;
    for entry in FUNCTIONS.iter().filter_map(|cell| cell.load(&guard)) {
        if function == flow::ANY || entry.id == FuncId(function) {
            entry.function.lost(peer);
            is_known = true;
        }
    }
    if !is_known {
        peer.reset();
    }
}

/// Find a peer (`IDT-PEER-10`); [`PeerId::SELF`] finds the local host.
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

/// Send a frame to a peer, to the local host or to all other peers
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

/// Take a frame that came over the link of `peer` and give it to its function
/// (`IDT-MSG-4`), or pass it on (`IDT-MSG-7`). Softirq context. `msg` and
/// `rest`, the headers behind it, are private copies.
///
/// # Errors
///
/// `EBADMSG` for a header that is not true, `ENOENT` for an unknown function,
/// `EHOSTUNREACH` for another host's frame that is not forwarded, or the
/// function's own error. The frame has then been counted as dropped.
pub fn receive(
    rx: &RxContext<'_>,
    peer: &Arc<Peer>,
    msg: MsgHdr,
    rest: &[u8],
    data: &dyn RxData,
) -> Result {
    let result = match verdict(
        self_id(),
        resolve(peer.id()),
        resolve(msg.src),
        resolve(msg.dst),
    ) {
        Verdict::Deliver => deliver(rx, peer, msg, rest, data),
        Verdict::DeliverFar => deliver_far(rx, peer, msg, rest, data),
        Verdict::Forward => forward::forward(rx, peer, msg, rest, data),
        Verdict::Loop => {
            DROPS.no_route.add(1);
            Err(error::unreachable())
        }
        Verdict::BadSource => Err(bad_header()),
    };
    if result.is_err() {
        peer.stats().rx_errors.add(1);
    }
    if rx.last {
        let untold = peer.take_untold(rx.queue);
        if untold != 0 {
            forward::publish(peer, rx.queue, untold);
        }
    }
    result
}

/// Count a header that is not true (`IDT-MSG-8`).
#[cold]
pub(crate) fn bad_header() -> Error {
    DROPS.bad_header.add(1);
    error::bad_message()
}

/// Give a frame of `peer` to its function.
#[inline]
fn deliver(
    rx: &RxContext<'_>,
    peer: &Arc<Peer>,
    msg: MsgHdr,
    func_hdr: &[u8],
    data: &dyn RxData,
) -> Result {
    let bytes = data.len();
    if msg.len as usize != func_hdr.len() + bytes {
        return Err(bad_header());
    }
    if msg.func == manage::FUNC_ID {
        return management::receive(peer, func_hdr);
    }
    trace::frame_receive(|| traced(&msg, bytes, rx.queue, rx.priority));
    let frame = RxFrame {
        peer,
        msg,
        func_hdr,
        data,
    };
    dispatch(rx, frame)?;
    peer.stats().received(bytes);
    Ok(())
}

/// Give a frame to its function that `hop` has forwarded.
fn deliver_far(
    rx: &RxContext<'_>,
    hop: &Arc<Peer>,
    msg: MsgHdr,
    rest: &[u8],
    data: &dyn RxData,
) -> Result {
    let (way, func_hdr) = split_way(rest)?;
    match far_peer(hop, msg.src, way) {
        Some(peer) => deliver(rx, &peer, msg, func_hdr, data),
        None if hop.id() == PeerId::RP => {
            DROPS.stale.add(1);
            Err(error::stale())
        }
        None => Err(bad_header()),
    }
}

/// Split the mark of the way from the function header.
pub(crate) fn split_way(rest: &[u8]) -> Result<(Option<WayTag>, &[u8])> {
    let (way, func_hdr) = rest.split_first_chunk().ok_or_else(bad_header)?;
    Ok((WayTag::from_value(u32::from_le_bytes(*way)), func_hdr))
}

/// The peer with this id that `hop` forwards to, if `way` is its mark.
pub(crate) fn far_peer(hop: &Peer, id: PeerId, way: Option<WayTag>) -> Option<Arc<Peer>> {
    let guard = rcu::read_lock();
    let mut present = PEERS.iter().filter_map(|cell| cell.load(&guard));
    let peer = present.find(|peer| peer.id() == id)?;
    let via = peer.via()?;
    (via.hop().life() == hop.life() && way == Some(via.way())).then(|| peer.into())
}

/// The peer with this index, unless it is the local host.
pub(crate) fn peer_at(index: u32) -> Option<Arc<Peer>> {
    PEERS.get(index as usize)?.get()
}

/// Counters over all peers that are there.
pub(crate) fn totals() -> manage::PeerStats {
    let sum = Stats::default();
    for_each_peer(|peer| sum.absorb(peer.stats().snapshot()));
    sum.snapshot()
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
    match peer.hop() {
        // The hop may have left since it has announced the peer.
        Some(hop) if !is_present(hop) => return Err(error::not_connected()),
        Some(_) => {}
        // A link of its own is better than any other way.
        None => {
            if let Some(far) = peer_get(peer.id()).filter(|p| p.via().is_some()) {
                remove(&mut registry, &far);
            }
        }
    }
    if cell.get().is_some() || peer.id() == self_id() || peer_get(peer.id()).is_some() {
        return Err(EEXIST);
    }
    management::make_room(PEERS.iter().filter(|cell| cell.get().is_some()).count() + 1)?;
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
    netlink::arrived(peer);
    management::kick();
    Ok(())
}

/// Remove a peer, and before it those that it forwards to.
pub(crate) fn peer_del(peer: &Arc<Peer>) {
    let mut registry = REGISTRY.lock();
    for far in PEERS.iter().filter_map(|cell| cell.get()) {
        if far.hop().is_some_and(|hop| hop.life() == peer.life()) {
            remove(&mut registry, &far);
        }
    }
    if is_present(peer) {
        remove(&mut registry, peer);
    }
    management::kick();
}

/// Whether it is this very peer that is in the registry.
fn is_present(peer: &Peer) -> bool {
    peer_at(peer.index()).is_some_and(|p| p.life() == peer.life())
}

/// Remove a peer that is in the registry.
fn remove(registry: &mut Registry, peer: &Arc<Peer>) {
    peer.disconnect();
    interface::left(&registry.watchers, peer);
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
    netlink::left(peer);
}

pub(crate) fn function_add(entry: Arc<FunctionEntry>) -> Result {
    if entry.id.0 == manage::FUNC_ID {
        return Err(EEXIST);
    }
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
