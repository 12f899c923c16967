// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! A ring, and the two memories that each half of one is given.

use std::cell::Cell;
use std::ops::Deref;

use mp_proto::ring::{Corrupt, Place};
use mp_proto::side::Side;

use super::Ram;

/// Where the ring lies.
pub const PLACE: Place = Place {
    data: 4096,
    size: 8192,
    prod: 0,
    want_space: 8,
    cons: 64,
    want_data: 72,
};

/// The memories of both hosts, what the half says, and what it is given besides.
pub struct World<M> {
    pub own: Ram,
    pub peers: Ram,
    pub is_open: Cell<bool>,
    pub bells: Cell<u32>,
    pub sleeps: Cell<u32>,
    pub corrupt: Cell<Option<Corrupt>>,
    more: M,
}

impl<M> World<M> {
    /// Memories of so many bytes, while the epoch lasts.
    pub fn new(own: usize, peers: usize, more: M) -> World<M> {
        World {
            own: Ram::new(own),
            peers: Ram::new(peers),
            is_open: Cell::new(true),
            bells: Cell::new(0),
            sleeps: Cell::new(0),
            corrupt: Cell::new(None),
            more,
        }
    }
}

impl<M> Deref for World<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.more
    }
}

impl<M> Side for World<M> {
    type Inbound = Ram;
    type Outbound = Ram;

    fn inbound(&self) -> &Ram {
        &self.own
    }
    fn outbound(&self) -> &Ram {
        &self.peers
    }
    fn is_open(&self) -> bool {
        self.is_open.get()
    }
    fn ring_bell(&self) {
        self.bells.set(self.bells.get() + 1);
    }
    fn asleep(&self) {
        self.sleeps.set(self.sleeps.get() + 1);
    }
    fn corrupt(&self, cause: Corrupt) {
        self.corrupt.set(Some(cause));
    }
}
