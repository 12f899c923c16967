// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two hosts in one process, for tests: a [`World`] of links between them, and [`FakeDevice`]s
//! that behave like open files of the character device on either of them.
//!
//! It follows `uapi/linux/mp_fabric.h` in what a program sees, one lock over everything instead of
//! messages and rings. Windows are files in memory and are really mapped. Whatever a test wants to
//! go wrong is a function of [`World`].

#![forbid(unsafe_code)]

mod acceptance;
mod device;
mod park;
mod sharing;
mod state;

pub use device::FakeDevice;

use rustix::io::Errno;
use state::{Link, State};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The first one.
    A,
    /// The second one.
    B,
}

impl Host {
    fn other(self) -> Self {
        match self {
            Host::A => Host::B,
            Host::B => Host::A,
        }
    }
}

/// Id of the loopback interface, on both hosts.
pub const LOOPBACK: u32 = 1;

/// Two hosts and the links between them.
#[derive(Clone, Debug)]
pub struct World(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl World {
    /// Hosts that have never been used, with that many links, all of them up, and that many bytes
    /// for windows per link on each host.
    pub fn new(links: u32, bytes: u64) -> Self {
        World(Arc::new(Shared {
            state: Mutex::new(State::new((0..links).map(|_| Link::new(bytes)).collect())),
            changed: Condvar::new(),
        }))
    }

    /// Let processes of a host have sessions with each other over the loopback interface, with
    /// that many bytes for windows. They cannot at first.
    pub fn set_loopback(&self, bytes: u64) {
        let mut state = self.lock();
        for host in [Host::A, Host::B] {
            state.links.push(Link {
                own: Some(host),
                ..Link::new(bytes)
            });
        }
    }

    /// A new context: that of another process of the host.
    pub fn open(&self, host: Host) -> FakeDevice {
        FakeDevice::new(self.clone(), host)
    }

    /// Id of the local end of a link; the two ends have different ones.
    pub fn interface(&self, link: usize, host: Host) -> u32 {
        state::interface(link, host)
    }

    /// Take a link down, or bring it up again.
    pub fn set_up(&self, link: usize, up: bool) {
        self.change(|state| state.set_up(link, up));
    }

    /// Remove the local end of a link.
    pub fn remove(&self, link: usize, host: Host) {
        self.change(|state| state.remove(link, host));
    }

    /// Add the local end of a link again.
    pub fn add(&self, link: usize, host: Host) {
        self.change(|state| state.add(link, host));
    }

    /// Whether contexts are told of interfaces that are added. They are at first.
    pub fn set_tells_arrivals(&self, tells: bool) {
        self.lock().tells_arrivals = tells;
    }

    /// Free bytes for windows.
    pub fn free(&self, link: usize, host: Host) -> u64 {
        self.lock().links[link].free[host as usize]
    }

    /// Whether processes may name physical addresses. They may at first.
    pub fn set_privileged(&self, privileged: bool) {
        self.lock().privileged = privileged;
    }

    /// Whether devices can reach remote windows. They can at first.
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().reachable = reachable;
    }

    /// Whether drivers copy where no window leads. They do at first.
    pub fn set_placed(&self, placed: bool) {
        self.lock().places = placed;
    }

    /// Whether windows can be mapped. They can at first.
    pub fn set_mappable(&self, mappable: bool) {
        self.lock().mappable = mappable;
    }

    /// Whether another host forwards between the two, and no window leads anywhere. None does at
    /// first.
    pub fn set_routed(&self, routed: bool) {
        self.lock().routed = routed;
    }

    /// Whether the bridges are PCI devices, with known ids. They are at first.
    pub fn set_pci(&self, pci: bool) {
        self.lock().pci = pci;
    }

    /// What interfaces are called.
    pub fn set_name(&self, name: &[u8]) {
        self.lock().name = name.into();
    }

    /// Devices that may reach the remote window of a session: mode, domain, bus, devfn.
    pub fn access(&self, handle: u32) -> Vec<(u32, u32, u8, u8)> {
        self.lock().access(handle)
    }

    /// Most sessions of a context.
    pub fn set_quota(&self, quota: usize) {
        self.lock().quota = quota;
    }

    /// Whether names and held requests are known on both hosts. They are at first.
    pub fn set_accepts(&self, accepts: bool) {
        self.lock().accepts = accepts;
    }

    /// Whether segments can be filled with memory. They can at first.
    pub fn set_fills(&self, fills: bool) {
        self.lock().fills = fills;
    }

    /// Most bytes of a program that can be pinned.
    pub fn set_pinned(&self, bytes: u64) {
        self.lock().pinned = bytes;
    }

    /// Whether the other host's numbers have the most significant byte first. They have not at
    /// first.
    pub fn set_big_endian(&self, big_endian: bool) {
        self.lock().big_endian = big_endian;
    }

    /// The version that the driver says it is of.
    pub fn set_version(&self, version: u32) {
        self.lock().version = version;
    }

    /// End all connections over a link for good, as when the other host starts anew.
    pub fn lose(&self, link: usize) {
        self.change(|state| state.connections_changed(link, mp_fabric::sys::MP_NOTICE_LOST));
    }

    /// Let the bridge of a link fail on a host: it stays down.
    pub fn fail(&self, link: usize, host: Host) {
        self.change(|state| state.bridge_failed(link, host));
    }

    /// Whether the other host does not answer. It does at first.
    pub fn set_silent(&self, silent: bool) {
        self.lock().sharing.silent = silent;
    }

    /// Let so many signals fail for want of memory.
    pub fn fail_signals(&self, count: u32) {
        self.lock().signals_fail = count;
    }

    /// Let so many calls that store fail with that.
    pub fn fail_stores(&self, count: u32, errno: Errno) {
        self.lock().stores_fail = (count, errno);
    }

    /// Let queues that are started from now on wait for [`release_queues`](Self::release_queues).
    pub fn hold_queues(&self) {
        self.lock().sharing.held = true;
    }

    /// Let queues do their work.
    pub fn release_queues(&self) {
        self.change(State::release_queues);
    }

    /// Most bytes of a segment, and of one that peers reach.
    pub fn set_memory(&self, bytes: u64, reached: u64) {
        let mut state = self.lock();
        (state.memory, state.window) = (bytes, reached);
    }

    /// Contexts that are open.
    pub fn contexts(&self) -> usize {
        self.lock().contexts.len()
    }

    /// Calls that wait at this moment.
    pub fn waiting(&self) -> usize {
        self.lock().waiting
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that has failed does not make the others fail.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.lock());
        self.0.changed.notify_all();
        result
    }
}
