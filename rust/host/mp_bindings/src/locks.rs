// SPDX-License-Identifier: GPL-2.0-only

//! Spin locks that keep softirqs or interrupts off a processor. Contexts of a host run on as many
//! processors as there are contexts: a softirq that wants a lock waits until its owner has left it.

use bindings::spinlock_t;
use machine::{
    context::in_atomic,
    enter_atomic,
    leave_atomic,
    point, //
};

/// # Safety
///
/// Enabled again by the same context.
pub unsafe fn local_bh_disable() {
    point();
    enter_atomic();
}

/// # Safety
///
/// Disabled by the same context.
pub unsafe fn local_bh_enable() {
    leave_atomic();
    point();
}

/// Lock; whether the caller could have slept before.
///
/// # Safety
///
/// The lock is initialised; so for all functions below.
///
/// Fails if the caller has the lock.
pub unsafe fn spin_lock_bh_nested(lock: *mut spinlock_t) -> bool {
    let enabled = !in_atomic();
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_lock(lock) };
    enabled
}

/// # Safety
///
/// The caller has the lock.
pub unsafe fn spin_unlock_bh_nested(lock: *mut spinlock_t, _enable: bool) {
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_unlock(lock) };
}

/// # Safety
///
/// As for [`spin_lock_bh_nested`].
pub unsafe fn spin_trylock_bh(lock: *mut spinlock_t) -> i32 {
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_trylock(lock) }
}

/// # Safety
///
/// As for [`spin_lock_bh_nested`].
pub unsafe fn spin_lock_irqsave_flags(lock: *mut spinlock_t) -> usize {
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_lock(lock) };
    0
}

/// # Safety
///
/// The caller has the lock.
pub unsafe fn spin_unlock_irqrestore_flags(lock: *mut spinlock_t, _flags: usize) {
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_unlock(lock) };
}

/// # Safety
///
/// As for [`spin_lock_bh_nested`].
pub unsafe fn spin_trylock_irqsave_flags(lock: *mut spinlock_t, _flags: *mut usize) -> bool {
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_trylock(lock) != 0 }
}
