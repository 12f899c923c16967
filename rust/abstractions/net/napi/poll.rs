// SPDX-License-Identifier: GPL-2.0-only

//! What NAPI asks of a source of packets.

use super::Napi;

/// A source of packets that NAPI polls.
pub trait Poll: Send + Sync + 'static {
    /// Handle up to `budget` packets and return how many it handled: fewer
    /// when nothing is left to do.
    ///
    /// Runs in softirq context, on one CPU at a time. After a poll that has used
    /// up its budget it is called again, once other tasks had a chance to run. A
    /// `budget` of zero asks for transmit completions only; no packet may be
    /// received then.
    fn poll(&self, napi: &Napi, budget: u32) -> u32;

    /// For how many nanoseconds, at most, a processor that has nothing else to do
    /// watches the source; zero: not at all. Asked once.
    fn linger_ns(&self) -> u64 {
        0
    }

    /// Enable the source's interrupt after a poll that left nothing to do.
    /// `true` if something has come meanwhile: a poll follows at once. A processor
    /// that has nothing else to do watches the source for `watch_ns` nanoseconds
    /// from now on.
    ///
    /// Softirq context, or with preemption disabled.
    fn arm(&self, _watch_ns: u64) -> bool {
        false
    }

    /// Disable the source's interrupt until [`arm`](Self::arm), as far as it can
    /// be: [`is_ready`](Self::is_ready) is asked instead. Preemption is disabled.
    fn mute(&self) {}

    /// Whether a poll would find something. `false` may be late: it is asked again, or
    /// [`arm`](Self::arm) follows. Preemption may be disabled, so it waits for nobody.
    fn is_ready(&self) -> bool {
        false
    }
}
