// SPDX-License-Identifier: GPL-2.0-only

//! How many processors there are.
//!
//! C header: [`include/linux/cpumask.h`](srctree/include/linux/cpumask.h).

/// Number of processors that are online now, at least one. Any context.
pub fn online() -> u32 {
    // SAFETY: The mask of online processors may be counted at any time.
    unsafe { mp_bindings::num_online_cpus() }
}
