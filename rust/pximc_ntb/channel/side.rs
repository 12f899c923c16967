// SPDX-License-Identifier: GPL-2.0-only

//! A channel, as the halves of one of its rings see it.

use super::Channel;
use crate::memory::{
    LocalMemory,
    RemoteMemory, //
};
use mp_proto::{
    ring::Corrupt,
    side::Side, //
};

/// Ring `number` of a channel.
pub(super) struct On<'a> {
    pub(super) channel: &'a Channel,
    pub(super) number: u32,
    /// How long an idle processor watches the ring before it sleeps, in nanoseconds.
    pub(super) watch_ns: u64,
}

impl Side for On<'_> {
    type Inbound = LocalMemory;
    type Outbound = RemoteMemory;

    #[inline]
    fn inbound(&self) -> &LocalMemory {
        &self.channel.inb
    }

    #[inline]
    fn outbound(&self) -> &RemoteMemory {
        &self.channel.out
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.channel.is_open()
    }

    #[inline]
    fn ring_bell(&self) {
        self.channel.ring_bell(self.number);
    }

    #[inline]
    fn asleep(&self) {
        self.channel.follow(self.number, self.watch_ns);
    }

    fn corrupt(&self, cause: Corrupt) {
        self.channel.fail(cause);
    }
}
