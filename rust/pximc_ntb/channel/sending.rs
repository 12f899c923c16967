// SPDX-License-Identifier: GPL-2.0-only

//! What the sending half of a ring asks of its channel.

use super::Channel;
use crate::{
    dma::{
        self,
        Copies,
        Pending, //
    },
    memory::{
        LocalMemory,
        RemoteMemory, //
    }, //
};
use kernel::prelude::*;
use mp_proto::{
    ring::{
        Armed,
        Chunk,
        Corrupt,
        Slot, //
    },
    sending::Context, //
};
use mp_transport::frame::Frame;

/// Ring `number` of a channel.
pub(super) struct Sending<'a> {
    pub(super) channel: &'a Channel,
    pub(super) number: u32,
}

impl Context<Frame> for Sending<'_> {
    type Inbound = LocalMemory;
    type Outbound = RemoteMemory;
    type Copies = Copies;

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
    fn write_data(&self, slot: &Slot, chunk: &Chunk, at: usize, frame: &Frame) -> Result {
        dma::for_each_piece(chunk, at, frame, |at, piece| {
            self.channel.out.copy(&slot.parts, at, piece)
        })
    }

    #[inline]
    fn wants_copy(&self, len: u32) -> bool {
        self.channel.engine.wants(len)
    }

    #[inline]
    fn start_copy(&self, copies: &mut Copies, record: Pending) -> Result<(), Pending> {
        self.channel.engine.start(copies, record)
    }

    fn copy_ended(&self, len: u32, copied: bool) {
        let counters = &self.channel.engine.counters;
        if copied {
            counters.frames.add(1);
            counters.bytes.add(u64::from(len));
        } else {
            counters.errors.add(1);
            counters.fallbacks.add(1);
        }
    }

    #[inline]
    fn ring_bell(&self) {
        self.channel.ring_bell(self.number);
    }

    #[inline]
    fn asleep(&self) {
        self.channel.follow(self.number, Armed::Asleep, 0);
    }

    fn ring_full(&self) {
        self.channel.counters.ring_full.add(1);
    }

    fn corrupt(&self, cause: Corrupt) {
        self.channel.fail(cause);
    }

    fn unreadable(&self) {
        self.channel
            .break_off("a frame's data cannot be read any more");
    }
}
