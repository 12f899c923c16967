// SPDX-License-Identifier: GPL-2.0-only

//! Wait queues and what is polled for.

pub use bindings::schedule_hrtimeout_range;
use bindings::wait_queue_head;

pub const EPOLLIN: u32 = 0x001;
pub const EPOLLPRI: u32 = 0x002;
pub const EPOLLOUT: u32 = 0x004;
pub const EPOLLERR: u32 = 0x008;
pub const EPOLLHUP: u32 = 0x010;

pub const hrtimer_mode_HRTIMER_MODE_ABS: u32 = 0;

/// # Safety
///
/// The queue is initialised.
pub unsafe fn wait_queue_wake(queue: *mut wait_queue_head, _events: u32) {
    // SAFETY: As the caller promises.
    unsafe { bindings::__wake_up(queue, bindings::TASK_NORMAL, 0, core::ptr::null_mut()) };
}
