// SPDX-License-Identifier: GPL-2.0-only

//! When this host was short of memory for what it tells a peer, or for what that has told it.
//!
//! Meanwhile a peer that is silent may not have been asked, or its answer may not have been heard.
//! So the time that it has for an answer counts from the end of the last shortage on.

use crate::link::AGAIN_MS;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
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

    /// Until when a peer that was asked at `asked`, and has `most` nanoseconds for its answer, has to
    /// have answered.
    fn deadline(&self, asked: u64, most: u64) -> u64 {
        asked.max(self.last.load(Relaxed)).saturating_add(most)
    }

    /// Whether a peer that was asked at `asked` should have answered by now.
    pub(crate) fn is_late(&self, asked: u64, most: u64, now: u64) -> bool {
        now >= self.deadline(asked, most)
    }

    /// Wait by `f` for the answer of a peer that was asked at `asked`; `f` is told its deadline, and
    /// is called again where a shortage has put that off.
    ///
    /// # Errors
    ///
    /// Those of `f`, which says `ETIMEDOUT` at the deadline.
    pub(crate) fn wait(&self, asked: u64, most: u64, mut f: impl FnMut(u64) -> Result) -> Result {
        loop {
            let deadline = self.deadline(asked, most);
            match f(deadline) {
                Err(e) if e == ETIMEDOUT && self.deadline(asked, most) > deadline => {}
                answered => return answered,
            }
        }
    }

    /// Whether there is one now.
    pub(crate) fn is_there(&self) -> bool {
        !self.is_late(0, OVER_NS, monotonic_ns())
    }
}
