// SPDX-License-Identifier: GPL-2.0-only

//! Read-copy-update: sections of readers, and grace periods that wait for them.

use machine::{
    context,
    enter_atomic,
    leave_atomic,
    point, //
};

/// # Safety
///
/// Unlocked by the same context.
pub unsafe fn rcu_read_lock() {
    point();
    enter_atomic();
}

/// # Safety
///
/// Locked by the same context.
pub unsafe fn rcu_read_unlock() {
    leave_atomic();
    point();
}

/// Sleep until all sections have ended that have begun before.
///
/// # Safety
///
/// None beyond that the caller may sleep, which is checked.
pub unsafe fn synchronize_rcu() {
    context::await_sections();
}

/// Callbacks are not made later here: there is none to wait for.
///
/// # Safety
///
/// As for [`synchronize_rcu`].
pub unsafe fn rcu_barrier() {
    machine::might_sleep();
}
