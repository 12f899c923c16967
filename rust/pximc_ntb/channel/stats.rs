// SPDX-License-Identifier: GPL-2.0-only

//! What is known and counted of a channel.

use super::{
    Channel,
    Ring, //
};
use crate::memory::LocalMemory;
use kernel::prelude::*;
use mp_proto::{
    memory::{
        Inbound,
        Outbound, //
    },
    ring::UNIT, //
};
use mp_transport::{
    details::{
        LinkDetails,
        RingDetails, //
    },
    stats::Counter, //
};

/// What happened on a channel, for the statistics.
#[derive(Default)]
pub(super) struct Counters {
    /// Doorbells rung at the peer.
    pub(super) doorbells: Counter,
    /// Sends that met a full ring.
    pub(super) ring_full: Counter,
    /// Frames dropped because no memory was left to put them together.
    pub(super) no_memory: Counter,
    /// Polls run.
    pub(super) polls: Counter,
    /// Kept frames that were moved out of the ring.
    pub(super) moved_out: Counter,
    /// Sleeps that a second look has ended.
    pub(super) crossed_wakeups: Counter,
    /// Sleeps that nothing but the heartbeat has ended.
    pub(super) late_wakeups: Counter,
    /// Microseconds that both have lasted too long, at most.
    pub(super) wakeup_delay_us: Counter,
}

impl Channel {
    /// What is known of memory and rings.
    pub(crate) fn details(&self) -> LinkDetails {
        let mut details = LinkDetails {
            inbound: self.inb.size() as u64,
            outbound: self.out.size() as u64,
            ..LinkDetails::default()
        };
        for (place, ring) in details.rings.iter_mut().zip(&self.rings) {
            *place = Some(ring.details(&self.inb));
        }
        details
    }

    /// The names of the counters.
    pub(crate) fn counters() -> &'static [&'static CStr] {
        &[
            c"doorbells",
            c"ring_full",
            c"no_memory",
            c"polls",
            c"dma_frames",
            c"dma_bytes",
            c"dma_errors",
            c"cpu_fallbacks",
            c"moved_out",
            c"dma_received",
            c"crossed_wakeups",
            c"late_wakeups",
            c"wakeup_delay_us",
        ]
    }

    /// The value of counter `counters()[index]`.
    pub(crate) fn counter(&self, index: usize) -> u64 {
        let counters = &self.counters;
        let dma = &self.engine.counters;
        let counter = match index {
            0 => &counters.doorbells,
            1 => &counters.ring_full,
            2 => &counters.no_memory,
            3 => &counters.polls,
            4 => &dma.frames,
            5 => &dma.bytes,
            6 => &dma.errors,
            7 => &dma.fallbacks,
            8 => &counters.moved_out,
            9 => &dma.received,
            10 => &counters.crossed_wakeups,
            11 => &counters.late_wakeups,
            _ => &counters.wakeup_delay_us,
        };
        counter.get()
    }
}

impl Ring {
    /// Sizes and fill levels.
    fn details(&self, inb: &LocalMemory) -> RingDetails {
        let (tx_units, tx_free) = {
            let tx = self.tx.lock();
            (tx.units(), tx.free_units())
        };
        let (rx_units, rx_used) = {
            let rx = self.rx.lock();
            (rx.units(), rx.unread_units(inb))
        };
        RingDetails {
            tx_size: tx_units * UNIT,
            tx_used: tx_units.saturating_sub(tx_free) * UNIT,
            rx_size: rx_units * UNIT,
            rx_used: rx_used * UNIT,
        }
    }
}
