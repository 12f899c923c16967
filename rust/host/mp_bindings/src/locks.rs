// SPDX-License-Identifier: GPL-2.0-only

//! Spin locks that keep softirqs or interrupts off a processor. Contexts of a host run on as many
//! processors as there are contexts: a softirq that wants a lock waits until its owner has left it.
//! Whether that could be its own processor, [`machine::usage`] finds.

use bindings::spinlock_t;
use machine::{
    context::{
        disable_interrupts,
        disable_softirqs,
        enable_softirqs,
        restore_interrupts,
        softirqs_are_off, //
    },
    point, //
};

/// # Safety
///
/// Enabled again by the same context.
pub unsafe fn local_bh_disable() {
    point();
    disable_softirqs();
}

/// # Safety
///
/// Disabled by the same context.
///
/// Fails where interrupts are off.
pub unsafe fn local_bh_enable() {
    enable_softirqs();
    point();
}

/// Lock; whether softirqs were enabled before.
///
/// # Safety
///
/// The lock is initialised; so for all functions below.
///
/// Fails if the caller has the lock.
pub unsafe fn spin_lock_bh_nested(lock: *mut spinlock_t) -> bool {
    let enabled = !softirqs_are_off();
    if enabled {
        disable_softirqs();
    }
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_lock(lock) };
    enabled
}

/// # Safety
///
/// The caller has the lock.
pub unsafe fn spin_unlock_bh_nested(lock: *mut spinlock_t, enable: bool) {
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_unlock(lock) };
    if enable {
        enable_softirqs();
    }
}

/// # Safety
///
/// As for [`spin_lock_bh_nested`].
pub unsafe fn spin_trylock_bh(lock: *mut spinlock_t) -> i32 {
    disable_softirqs();
    // SAFETY: As the caller promises.
    let taken = unsafe { bindings::spin_trylock(lock) };
    if taken == 0 {
        enable_softirqs();
    }
    taken
}

/// # Safety
///
/// As for [`spin_lock_bh_nested`].
pub unsafe fn spin_lock_irqsave_flags(lock: *mut spinlock_t) -> usize {
    let were_on = disable_interrupts();
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_lock(lock) };
    usize::from(were_on)
}

/// # Safety
///
/// The caller has the lock.
pub unsafe fn spin_unlock_irqrestore_flags(lock: *mut spinlock_t, flags: usize) {
    // SAFETY: As the caller promises.
    unsafe { bindings::spin_unlock(lock) };
    restore_interrupts(flags != 0);
}

/// # Safety
///
/// As for [`spin_lock_bh_nested`]; `flags` is valid for writes.
pub unsafe fn spin_trylock_irqsave_flags(lock: *mut spinlock_t, flags: *mut usize) -> bool {
    let were_on = disable_interrupts();
    // SAFETY: As the caller promises.
    let taken = unsafe { bindings::spin_trylock(lock) } != 0;
    if taken {
        // SAFETY: As the caller promises.
        unsafe { flags.write(usize::from(were_on)) };
    } else {
        restore_interrupts(were_on);
    }
    taken
}
