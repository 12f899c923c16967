// SPDX-License-Identifier: GPL-2.0-only

//! What the sending half of a ring asks of its channel.

use super::On;
use crate::dma::{
    self,
    Copies,
    Pending, //
};
use kernel::prelude::*;
use mp_proto::{
    ring::{
        Chunk,
        Slot, //
    },
    sending::Context, //
};
use mp_transport::frame::Frame;

impl Context<Frame> for On<'_> {
    type Copies = Copies;

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

    fn ring_full(&self) {
        self.channel.counters.ring_full.add(1);
    }

    fn unreadable(&self) {
        self.channel
            .break_off("a frame's data cannot be read any more");
    }
}
