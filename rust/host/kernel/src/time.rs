// SPDX-License-Identifier: GPL-2.0-only

//! Spans of time, by the clock of the run.

use crate::ffi::{
    c_uint,
    c_ulong, //
};

/// Nanoseconds of a microsecond.
pub const NSEC_PER_USEC: i64 = 1000;
/// Nanoseconds of a millisecond.
pub const NSEC_PER_MSEC: i64 = 1_000_000;
/// Nanoseconds of a second.
pub const NSEC_PER_SEC: i64 = 1_000_000_000;

/// Ticks of the timer.
pub type Jiffies = c_ulong;
/// Milliseconds.
pub type Msecs = c_uint;

/// So many ticks as take that time at least.
pub fn msecs_to_jiffies(msecs: Msecs) -> Jiffies {
    (u64::from(msecs) * u64::from(bindings::HZ)).div_ceil(1000) as Jiffies
}

/// A span of time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, PartialOrd, Eq, Ord, Debug)]
pub struct Delta {
    nanos: i64,
}

impl Delta {
    /// None.
    pub const ZERO: Self = Self { nanos: 0 };

    /// So many microseconds; the largest span if that is too much.
    pub const fn from_micros(micros: i64) -> Self {
        Self {
            nanos: micros.saturating_mul(NSEC_PER_USEC),
        }
    }

    /// So many milliseconds; the largest span if that is too much.
    pub const fn from_millis(millis: i64) -> Self {
        Self {
            nanos: millis.saturating_mul(NSEC_PER_MSEC),
        }
    }

    /// So many seconds; the largest span if that is too much.
    pub const fn from_secs(secs: i64) -> Self {
        Self {
            nanos: secs.saturating_mul(NSEC_PER_SEC),
        }
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.nanos
    }
}

/// Delays.
pub mod delay {
    use super::Delta;

    /// Sleep for that time at least.
    pub fn fsleep(delta: Delta) {
        let span = u64::try_from(delta.as_nanos()).unwrap_or(0);
        machine::sleep_until(machine::now() + span);
    }
}
