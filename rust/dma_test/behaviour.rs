// SPDX-License-Identifier: GPL-2.0-only

//! How the engine misbehaves.

/// What the module's parameters say; "every" counts pieces, zero means never.
#[derive(Clone, Copy)]
pub(crate) struct Behaviour {
    /// Time that a piece takes, in microseconds.
    pub(crate) delay_us: u32,
    /// Which pieces fail.
    pub(crate) fail_every: u32,
    /// Whether those that fail have garbage written.
    pub(crate) garbage: bool,
    /// Which pieces are never reported.
    pub(crate) stall_every: u32,
    /// Which pieces are refused.
    pub(crate) refuse_every: u32,
    /// Whether the last piece is copied first.
    pub(crate) reorder: bool,
    /// Whether pieces are reported while others are prepared.
    pub(crate) reclaim: bool,
}

/// What becomes of a piece that was accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Copied and reported.
    Copied,
    /// Reported as failed.
    Failed,
    /// Neither copied nor reported.
    Stalled,
}

/// Whether `number`, counted from one, is an `n`-th one.
fn is_nth(number: u64, n: u32) -> bool {
    n != 0 && number % u64::from(n) == 0
}

impl Behaviour {
    /// What becomes of the `number`-th piece accepted.
    pub(crate) fn fate(&self, number: u64) -> Fate {
        if is_nth(number, self.stall_every) {
            Fate::Stalled
        } else if is_nth(number, self.fail_every) {
            Fate::Failed
        } else {
            Fate::Copied
        }
    }

    /// Whether the `number`-th piece asked for is refused.
    pub(crate) fn refuses(&self, number: u64) -> bool {
        is_nth(number, self.refuse_every)
    }
}
