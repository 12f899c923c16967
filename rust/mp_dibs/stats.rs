// SPDX-License-Identifier: GPL-2.0-only

//! The counters, in `/sys/kernel/mp_dibs`.

use crate::fabric::Fabric;
use core::fmt::{
    self,
    Write, //
};
use kernel::prelude::*;
use mp_kernel::kobject::Attributes;
use mp_transport::stats::Counter;

/// What is counted.
#[derive(Default)]
pub(crate) struct Tally {
    /// Bytes stored into landing places of peers.
    pub(crate) sent_bytes: Counter,
    /// Frames that told of them.
    pub(crate) sent_signals: Counter,
    /// Bytes copied from landing places.
    pub(crate) received_bytes: Counter,
    /// Frames that told of them, and were believed.
    pub(crate) received_signals: Counter,
    /// Moves to tokens that no peer has told, or out of bounds.
    pub(crate) refused_moves: Counter,
    /// Frames whose record cannot be: each ended a connection.
    pub(crate) refused_frames: Counter,
    /// Frames for a connection that used the buffer before.
    pub(crate) late_frames: Counter,
    /// Frames for buffers that the peer may not send into, or not any more.
    pub(crate) unknown_buffers: Counter,
    /// Times that messages had to wait for room.
    pub(crate) waited: Counter,
    /// Messages that found no room to wait in.
    pub(crate) lost_messages: Counter,
    /// Events of peers that had too many.
    pub(crate) refused_events: Counter,
}

impl Attributes for Fabric {
    fn names(&self) -> &'static [&'static CStr] {
        &[
            c"sent_bytes",
            c"sent_signals",
            c"received_bytes",
            c"received_signals",
            c"refused_moves",
            c"refused_frames",
            c"late_frames",
            c"unknown_buffers",
            c"waited",
            c"lost_messages",
            c"refused_events",
            c"buffers",
            c"slots",
            c"partners",
        ]
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let t = &self.tally;
        let value = match index {
            0 => t.sent_bytes.get(),
            1 => t.sent_signals.get(),
            2 => t.received_bytes.get(),
            3 => t.received_signals.get(),
            4 => t.refused_moves.get(),
            5 => t.refused_frames.get(),
            6 => t.late_frames.get(),
            7 => t.unknown_buffers.get(),
            8 => t.waited.get(),
            9 => t.lost_messages.get(),
            10 => t.refused_events.get(),
            11 => self.buffers_in_use(),
            12 => self.slots_in_use(),
            _ => self.partners(),
        };
        writeln!(out, "{value}")
    }
}
