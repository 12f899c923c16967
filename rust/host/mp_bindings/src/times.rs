// SPDX-License-Identifier: GPL-2.0-only

//! Clocks. There are no time namespaces.

/// # Safety
///
/// None.
pub unsafe fn jiffies_ns() -> u64 {
    const JIFFY_NS: u64 = 1_000_000_000 / bindings::HZ as u64;
    machine::now() / JIFFY_NS * JIFFY_NS
}

/// # Safety
///
/// None.
pub unsafe fn monotonic_ahead_ns() -> i64 {
    0
}
