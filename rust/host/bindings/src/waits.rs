// SPDX-License-Identifier: GPL-2.0-only

//! Wait queues and timed sleeps. No signals come on the host.

use crate::lock_class_key;
use core::ffi::c_void;
use machine::{
    might_sleep,
    now,
    point,
    queue, //
};

/// Ticks of the timer in a second.
pub const HZ: u32 = 250;
const JIFFY_NS: u64 = 1_000_000_000 / HZ as u64;
/// A timeout that does not come.
const MAX_SCHEDULE_TIMEOUT: isize = isize::MAX;

pub const TASK_INTERRUPTIBLE: u32 = 1;
pub const TASK_UNINTERRUPTIBLE: u32 = 2;
pub const TASK_KILLABLE: u32 = 0x102;
pub const TASK_NORMAL: u32 = 3;
pub const TASK_FREEZABLE: u32 = 0x2000;

/// A queue of contexts that wait, known by its address alone.
#[repr(C)]
pub struct wait_queue_head {
    _spare: u8,
}

/// One that waits: known by its context alone.
#[repr(C)]
pub struct wait_queue_entry {
    _spare: u8,
}

/// # Safety
///
/// Any pointer will do; so for all functions of this file.
pub unsafe fn __init_waitqueue_head(
    _head: *mut wait_queue_head,
    _name: *const u8,
    _key: *mut lock_class_key,
) {
}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn init_wait(_entry: *mut wait_queue_entry) {}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn init_wait_entry(_entry: *mut wait_queue_entry, _flags: i32) {}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn prepare_to_wait_exclusive(
    head: *mut wait_queue_head,
    _entry: *mut wait_queue_entry,
    _state: i32,
) {
    point();
    queue::prepare(head.addr(), true);
    point();
}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn prepare_to_wait_event(
    head: *mut wait_queue_head,
    _entry: *mut wait_queue_entry,
    _state: i32,
) -> isize {
    point();
    queue::prepare(head.addr(), false);
    point();
    0
}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn finish_wait(head: *mut wait_queue_head, _entry: *mut wait_queue_entry) {
    queue::finish(head.addr());
    point();
}

/// Sleep until somebody wakes the caller, or for so many ticks; those that are left.
///
/// # Safety
///
/// None beyond that the caller may sleep, which is checked.
pub unsafe fn schedule_timeout(jiffies: isize) -> isize {
    might_sleep();
    if jiffies == MAX_SCHEDULE_TIMEOUT {
        queue::schedule(None);
        return jiffies;
    }
    let end = now() + jiffies.unsigned_abs() as u64 * JIFFY_NS;
    queue::schedule(Some(end));
    (end.saturating_sub(now()).div_ceil(JIFFY_NS)) as isize
}

/// Sleep until somebody wakes the caller, or until the clock shows that time; zero if that is the
/// reason.
///
/// # Safety
///
/// `expires` is null or a time.
pub unsafe fn schedule_hrtimeout_range(expires: *mut i64, _slack: u64, _mode: u32) -> i32 {
    might_sleep();
    // SAFETY: As the caller promises.
    let end = unsafe { expires.as_ref() };
    let passed = queue::schedule(end.map(|at| at.cast_unsigned()));
    if passed {
        0
    } else {
        -(crate::EINTR.cast_signed())
    }
}

/// Wake `most` of those that wait alone, and all others; 0: all.
///
/// # Safety
///
/// Any pointer will do.
pub unsafe fn __wake_up(head: *mut wait_queue_head, _mode: u32, most: i32, _key: *mut c_void) {
    point();
    queue::wake(head.addr(), most.unsigned_abs() as usize);
}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn __wake_up_sync(head: *mut wait_queue_head, mode: u32) {
    // SAFETY: As the caller promises.
    unsafe { __wake_up(head, mode, 1, core::ptr::null_mut()) };
}

/// # Safety
///
/// None.
pub unsafe fn ktime_get() -> i64 {
    now().cast_signed()
}
