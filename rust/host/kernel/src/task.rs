// SPDX-License-Identifier: GPL-2.0-only

//! The calling task: signals never come on the host.

use crate::ffi::{
    c_int,
    c_long, //
};

/// Sleeps until it is woken.
pub const MAX_SCHEDULE_TIMEOUT: c_long = c_long::MAX;
/// States of a task that sleeps.
pub const TASK_INTERRUPTIBLE: c_int = bindings::TASK_INTERRUPTIBLE as c_int;
/// Not ended by signals.
pub const TASK_UNINTERRUPTIBLE: c_int = bindings::TASK_UNINTERRUPTIBLE as c_int;
/// May be frozen.
pub const TASK_FREEZABLE: c_int = bindings::TASK_FREEZABLE as c_int;
/// All that wake-ups are for.
pub const TASK_NORMAL: crate::ffi::c_uint = bindings::TASK_NORMAL as crate::ffi::c_uint;

/// The calling task.
pub struct Current;

impl Current {
    /// Whether a signal is there.
    pub fn signal_pending(&self) -> bool {
        false
    }
}

/// The calling task.
#[macro_export]
macro_rules! current {
    () => {
        $crate::task::Current
    };
}
pub use current;
