// SPDX-License-Identifier: GPL-2.0-only

//! Mandatory memory barriers: they order accesses as devices and other hosts
//! see them, also on a kernel built for one processor, where the `smp_*`
//! family of [`kernel::sync::barrier`] compiles to nothing.

/// Order all loads and stores before it ahead of all after it.
#[inline]
pub fn mb() {
    // SAFETY: A barrier has no requirements.
    unsafe { mp_bindings::mb() }
}

/// Order all loads before it ahead of all loads after it.
#[inline]
pub fn rmb() {
    // SAFETY: A barrier has no requirements.
    unsafe { mp_bindings::rmb() }
}

/// Order all stores before it ahead of all stores after it, and empty
/// write-combining buffers.
#[inline]
pub fn wmb() {
    // SAFETY: A barrier has no requirements.
    unsafe { mp_bindings::wmb() }
}
