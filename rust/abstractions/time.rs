// SPDX-License-Identifier: GPL-2.0-only

//! The clocks of timeouts.

/// Nanoseconds of the monotonic clock, as a number that protocol logic without
/// kernel types can hold. Any context.
#[inline]
pub fn monotonic_ns() -> u64 {
    // SAFETY: May be called at any time after the clocks have been set up at boot.
    unsafe { kernel::bindings::ktime_get() as u64 }
}

/// Nanoseconds since boot in steps of the timer tick: much faster to read. Any context.
#[inline]
pub fn coarse_ns() -> u64 {
    // SAFETY: As above.
    unsafe { mp_bindings::jiffies_ns() }
}

/// What [`monotonic_ns`] gives when the monotonic clock of the calling process gives `at`: in a
/// time namespace they are apart. Process context.
pub fn from_clock_of_caller(at: u64) -> u64 {
    // SAFETY: Always safe, in process context.
    let ahead = unsafe { mp_bindings::monotonic_ahead_ns() };
    match u64::try_from(ahead) {
        Ok(ahead) => at.saturating_sub(ahead),
        Err(_) => at.saturating_add(ahead.unsigned_abs()),
    }
}
