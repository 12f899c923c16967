// SPDX-License-Identifier: GPL-2.0-only

//! Interfaces: the local ends of links, whether or not anybody is at the far end.
//!
//! A transport registers one for each place where a peer can be, as soon as its own
//! end works ([`Registration`]), and says which peer is there ([`Registration::set_peer`]).
//! Function services find interfaces by id, and hear of changes as a [`Watcher`]. The
//! local host, as a peer of itself, has an interface as well.
//!
//! An id is never zero and names the same place after a reboot, if the hardware is
//! the same ([`id_at`]). A host that another one forwards to has an interface as well
//! ([`routed`](crate::routed)); its id names the host ([`id_behind`]).
//!
//! Looking takes no lock; changes, and the calls of watchers, are made under the
//! registry's mutex, as those of functions are.

use crate::{
    peer::Peer,
    service::{
        MAX_PEERS,
        REGISTRY, //
    },
    stats::Counter,
    sysfs::InterfaceDirectory, //
};
use kernel::{
    prelude::*,
    str::CString,
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
    pci,
    sync::RcuArc,
    time::monotonic_ns, //
};
use mp_proto::{
    link::WaitsFor,
    wire::PeerId, //
};

const NS_PER_MS: u64 = 1_000_000;

/// Most interfaces: for each peer, which may be the local host, one over a bridge and one to where
/// others forward.
const MAX_INTERFACES: usize = 2 * MAX_PEERS;

/// The interfaces, in no order; read under RCU.
static INTERFACES: [RcuArc<Interface>; MAX_INTERFACES] =
    [const { RcuArc::empty() }; MAX_INTERFACES];

/// The mark of ids that come from a place on a PCI bus.
const ON_BUS: u32 = 1 << 31;
/// That of other bridges.
const OFF_BUS: u32 = 1 << 30;
/// That of hosts without a bridge in common with this one.
const ROUTED: u32 = 1 << 29;
/// Bits of an id for the port.
const PORT_BITS: u32 = 6;
/// Bits of an id for what remains of the bus's domain.
const DOMAIN_BITS: u32 = 9;

/// The id of port `port` of the bridge at `function`.
pub fn id_at(function: &pci::Function, port: u32) -> u32 {
    let domain = function.domain;
    let domain =
        (domain ^ domain >> DOMAIN_BITS ^ domain >> (2 * DOMAIN_BITS)) & ((1 << DOMAIN_BITS) - 1);
    let place = domain << 16
        | u32::from(function.bus) << 8
        | u32::from(function.device & 0x1f) << 3
        | u32::from(function.function & 7);
    ON_BUS | place << PORT_BITS | port & ((1 << PORT_BITS) - 1)
}

/// The id of port `port` of a bridge that is not on a PCI bus, and has this number only.
pub fn id_of(bridge: u32, port: u32) -> u32 {
    let bridge = bridge & (OFF_BUS - 1) >> PORT_BITS;
    OFF_BUS | bridge << PORT_BITS | port & ((1 << PORT_BITS) - 1)
}

/// The id of the interface to the host `peer`, to which another one forwards.
pub fn id_behind(peer: PeerId) -> u32 {
    ROUTED | peer.0 & (ROUTED - 1)
}

/// Where an interface leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Over a bridge.
    Bridge,
    /// To the local host itself.
    Loopback,
    /// To a host that another one forwards to: only frames get there, and no window leads to its
    /// memory.
    Routed,
}

impl Kind {
    /// For people, and for programs that read what people do.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Kind::Bridge => c"bridge",
            Kind::Loopback => c"loopback",
            Kind::Routed => c"routed",
        }
    }
}

/// What a transport says of an interface.
pub struct Info {
    /// The id that it would have; the next one that is free if another one has it.
    pub id: u32,
    /// For people: printable ASCII.
    pub name: CString,
    /// Where it leads.
    pub kind: Kind,
    /// The bridge's function on the PCI bus, if it is known.
    pub location: Option<pci::Function>,
    /// See [`Link::bridge`](crate::peer::Link::bridge).
    pub bridge: Option<u32>,
    /// Which of the bridge's peers is at the far end.
    pub port: u32,
}

/// The local end of a link.
pub struct Interface {
    info: Info,
    peer: RcuArc<Peer>,
    resets: Counter,
    /// See [`waits`](Self::waits): the number, and above it since when, in milliseconds.
    waits: Atomic<u64>,
}

/// Bits of [`Interface::waits`] for the number.
const WAITS_BITS: u32 = 8;

impl Interface {
    /// Its id.
    pub fn id(&self) -> u32 {
        self.info.id
    }

    /// What its transport says of it.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The peer at the far end, while frames can be sent to it.
    pub fn peer(&self) -> Option<Arc<Peer>> {
        self.peer.get()
    }

    /// Tell watchers that no peer is at the far end, if one was.
    fn lose_peer(self: &Arc<Self>, watchers: &Watchers) {
        if let Some(peer) = self.peer.replace(None) {
            watchers.tell(|w| w.peer_down(self, &peer));
        }
    }

    /// How often its transport has ended an epoch because the peer wrote what cannot be.
    pub fn resets(&self) -> u64 {
        self.resets.get()
    }

    /// What its link waits for to carry frames, and for how many milliseconds it has waited for
    /// that and what was before it; [`None`] if it waits for nothing, or its transport does not tell.
    pub fn waits(&self) -> Option<(WaitsFor, u64)> {
        let word = self.waits.load(Relaxed);
        let waits = WaitsFor::of_number(word as u32 & ((1 << WAITS_BITS) - 1))?;
        let now = monotonic_ns() / NS_PER_MS;
        Some((waits, now.saturating_sub(word >> WAITS_BITS)))
    }

    /// Whether there is a peer at the far end.
    pub fn is_up(&self) -> bool {
        self.peer.load(&rcu::read_lock()).is_some()
    }
}

/// A peer has left: it is at no far end any more. Sleeps.
pub(crate) fn left(watchers: &Watchers, peer: &Arc<Peer>) {
    let is_it = |there: Arc<Peer>| Arc::ptr_eq(&there, peer);
    for interface in all().filter(|interface| interface.peer().is_some_and(is_it)) {
        interface.lose_peer(watchers);
    }
}

/// Find an interface.
pub fn get(id: u32) -> Option<Arc<Interface>> {
    all().find(|interface| interface.id() == id)
}

/// The interface with the smallest id above `id`; [`None`] begins with the first one.
pub fn next(id: Option<u32>) -> Option<Arc<Interface>> {
    let from = id.map_or(0, |id| u64::from(id) + 1);
    all()
        .filter(|interface| u64::from(interface.id()) >= from)
        .min_by_key(|interface| interface.id())
}

fn all() -> impl Iterator<Item = Arc<Interface>> {
    INTERFACES.iter().filter_map(|cell| cell.get())
}

/// Who wants to hear of changes.
///
/// Process context, one call at a time, under the registry's mutex: a watcher must
/// not register anything, but may sleep for a bounded time.
pub trait Watcher: Send + Sync + 'static {
    /// There is an interface; at first also called for those that are there already.
    fn added(&self, interface: &Arc<Interface>);

    /// An interface goes, without a peer by then; at last also called for those that
    /// stay.
    fn removed(&self, interface: &Arc<Interface>);

    /// A peer is at the far end.
    fn peer_up(&self, interface: &Arc<Interface>, peer: &Arc<Peer>);

    /// The peer is not there any more.
    fn peer_down(&self, interface: &Arc<Interface>, peer: &Arc<Peer>);

    /// The interface has failed: until it goes, there will be no peer any more.
    fn failed(&self, interface: &Arc<Interface>) {
        let _ = interface;
    }
}

/// The watchers, and the name of the next one.
pub(crate) struct Watchers {
    next: u64,
    list: KVec<(u64, Arc<dyn Watcher>)>,
}

impl Watchers {
    pub(crate) const fn new() -> Self {
        Self {
            next: 0,
            list: KVec::new(),
        }
    }

    fn tell(&self, f: impl Fn(&dyn Watcher)) {
        for (_, watcher) in &self.list {
            f(&**watcher);
        }
    }
}

/// Call a [`Watcher`]. Dropping it sleeps, and returns when no call is under way
/// or can start.
pub struct Watch {
    token: u64,
}

impl Watch {
    /// Start to watch.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(watcher: Arc<dyn Watcher>) -> Result<Self> {
        let mut registry = REGISTRY.lock();
        let watchers = &mut registry.watchers;
        let token = watchers.next;
        watchers.list.push((token, watcher.clone()), GFP_KERNEL)?;
        watchers.next += 1;
        for interface in all() {
            watcher.added(&interface);
            if let Some(peer) = interface.peer() {
                watcher.peer_up(&interface, &peer);
            }
        }
        Ok(Self { token })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut registry = REGISTRY.lock();
        let list = &mut registry.watchers.list;
        let at = list.iter().position(|(token, _)| *token == self.token);
        let Some((_, watcher)) = at.and_then(|at| list.remove(at).ok()) else {
            return;
        };
        if list.is_empty() {
            // Nobody drops what is static.
            *list = KVec::new();
        }
        for interface in all() {
            if let Some(peer) = interface.peer() {
                watcher.peer_down(&interface, &peer);
            }
            watcher.removed(&interface);
        }
    }
}

/// Keeps an interface registered.
pub struct Registration {
    interface: Arc<Interface>,
    cell: &'static RcuArc<Interface>,
    /// Until it goes.
    directory: Option<InterfaceDirectory>,
}

impl Registration {
    /// Register an interface without a peer, and tell all watchers.
    ///
    /// # Errors
    ///
    /// `EINVAL` for the id zero, `ENOSPC` if there are too many, `ENODEV` if the service
    /// is being stopped, `ENOMEM`.
    pub fn new(mut info: Info) -> Result<Self> {
        if info.id == 0 {
            return Err(EINVAL);
        }
        let registry = REGISTRY.lock();
        let cell = INTERFACES.iter().find(|cell| cell.get().is_none());
        let cell = cell.ok_or(ENOSPC)?;
        // Ends: there are fewer interfaces than ids.
        while get(info.id).is_some() {
            info.id = info.id.wrapping_add(1).max(1);
        }
        let interface = Arc::new(
            Interface {
                info,
                peer: RcuArc::empty(),
                resets: Counter::new(),
                waits: Atomic::new(0),
            },
            GFP_KERNEL,
        )?;
        let tree = registry.tree.as_ref().ok_or(ENODEV)?;
        let directory = InterfaceDirectory::new(tree, &interface)?;
        cell.replace(Some(interface.clone()));
        registry.watchers.tell(|w| w.added(&interface));
        Ok(Self {
            interface,
            cell,
            directory: Some(directory),
        })
    }

    /// The interface.
    pub fn interface(&self) -> &Arc<Interface> {
        &self.interface
    }

    /// Count an epoch that has ended because the peer wrote what cannot be.
    pub fn count_reset(&self) {
        self.interface.resets.add(1);
    }

    /// Say what the link waits for, and since when in nanoseconds of the monotonic clock. Any
    /// context.
    pub fn set_waits(&self, waits: Option<(WaitsFor, u64)>) {
        let word = waits.map_or(0, |(waits, since)| {
            ((since / NS_PER_MS) << WAITS_BITS) | u64::from(waits.number())
        });
        self.interface.waits.store(word, Relaxed);
    }

    /// Say which peer is at the far end: one that has been entered. It leaves only after this
    /// has been called again, unless it is one that another one forwards to: such a peer is not
    /// at the far end any more when it has left, nor does it get there. Sleeps.
    pub fn set_peer(&self, peer: Option<Arc<Peer>>) {
        let registry = REGISTRY.lock();
        let interface = &self.interface;
        interface.lose_peer(&registry.watchers);
        if let Some(peer) = peer.filter(|peer| peer.is_connected()) {
            interface.peer.replace(Some(peer.clone()));
            registry.watchers.tell(|w| w.peer_up(interface, &peer));
        }
    }
}

impl Registration {
    /// The hardware has failed for good: no peer is at the far end, and none will be. Sleeps.
    pub fn fail(&self) {
        self.set_peer(None);
        let registry = REGISTRY.lock();
        registry.watchers.tell(|w| w.failed(&self.interface));
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.set_peer(None);
        let registry = REGISTRY.lock();
        self.cell.replace(None);
        registry.watchers.tell(|w| w.removed(&self.interface));
        self.directory = None;
    }
}
