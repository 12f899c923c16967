// SPDX-License-Identifier: GPL-2.0-only

//! When this host was short of memory for what it tells a peer, or for what that has told it.
//!
//! Meanwhile a peer that is silent may not have been asked, or its answer may not have been heard.
//! So the time that it has for an answer counts from the end of the last shortage on.

use crate::link::AGAIN_MS;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use mp_kernel::time::monotonic_ns;

/// Nanoseconds after which a shortage that was noted is over: what waits is tried again before.
const OVER_NS: u64 = 3 * AGAIN_MS as u64 * 1_000_000;

/// The shortages of one link.
pub(crate) struct Shortage {
    /// When something waited for memory last, in nanoseconds.
    last: Atomic<u64>,
}

impl Shortage {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            last: Atomic::new(0),
        }
    }

    /// Something that is to be told or heard waits for memory now. Any context.
    pub(crate) fn note(&self) {
        self.last.store(monotonic_ns(), Relaxed);
    }

    /// Since when the silence of a peer is its own, which was asked at `asked`.
    pub(crate) fn silent_since(&self, asked: u64) -> u64 {
        asked.max(self.last.load(Relaxed))
    }

    /// For how many of the nanoseconds that a silence has lasted it is the peer's own, at that time.
    pub(crate) fn own_silence(&self, lasted: u64, now: u64) -> u64 {
        lasted.min(now.saturating_sub(self.last.load(Relaxed)))
    }

    /// Whether there is one now.
    pub(crate) fn is_there(&self) -> bool {
        self.own_silence(OVER_NS, monotonic_ns()) < OVER_NS
    }
}
