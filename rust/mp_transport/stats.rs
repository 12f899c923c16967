// SPDX-License-Identifier: GPL-2.0-only

//! Traffic counters of a peer or a transport (`IDT-PEER-1`).

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// One counter.
pub struct Counter(Atomic<u64>);

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

impl Counter {
    /// A counter that stands at zero.
    pub const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Add `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.add(n, Relaxed);
    }

    /// The present value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Live counters; may be bumped from any context.
#[derive(Default)]
pub struct Stats {
    /// Frames handed to the peer.
    pub tx_frames: Counter,
    /// Data bytes of these frames, without any header.
    pub tx_bytes: Counter,
    /// Frames that could not be sent; a full ring that was retried is no error.
    pub tx_errors: Counter,
    /// Frames received and accepted by a function.
    pub rx_frames: Counter,
    /// Data bytes of these frames, without any header.
    pub rx_bytes: Counter,
    /// Frames received and dropped.
    pub rx_errors: Counter,
}

/// A reading of [`Stats`]: `mp_stats` of the guide.
pub use mp_proto::manage::PeerStats as Snapshot;

impl Stats {
    /// Read all counters, each by itself.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            tx_frames: self.tx_frames.get(),
            tx_bytes: self.tx_bytes.get(),
            tx_errors: self.tx_errors.get(),
            rx_frames: self.rx_frames.get(),
            rx_bytes: self.rx_bytes.get(),
            rx_errors: self.rx_errors.get(),
        }
    }

    /// Add a reading, e.g. that of a peer that has left to its transport's.
    pub fn absorb(&self, s: Snapshot) {
        self.tx_frames.add(s.tx_frames);
        self.tx_bytes.add(s.tx_bytes);
        self.tx_errors.add(s.tx_errors);
        self.rx_frames.add(s.rx_frames);
        self.rx_bytes.add(s.rx_bytes);
        self.rx_errors.add(s.rx_errors);
    }

    /// Count a frame sent with `bytes` of data.
    #[inline]
    pub fn sent(&self, bytes: usize) {
        self.tx_frames.add(1);
        self.tx_bytes.add(bytes as u64);
    }

    /// Count a frame received with `bytes` of data.
    #[inline]
    pub fn received(&self, bytes: usize) {
        self.rx_frames.add(1);
        self.rx_bytes.add(bytes as u64);
    }
}
