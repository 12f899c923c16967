// SPDX-License-Identifier: GPL-2.0-only

//! Timers with the resolution of the clock, and waiting without sleep.

use machine::{
    alarm::Alarm,
    fail,
    host,
    point,
    Kind, //
};
use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc, //
};

pub const CLOCK_MONOTONIC: u32 = 1;
pub type hrtimer_mode = u32;
/// At a time, in a softirq.
pub const hrtimer_mode_HRTIMER_MODE_ABS_SOFT: hrtimer_mode = 4;

#[repr(u32)]
pub enum hrtimer_restart {
    HRTIMER_NORESTART = 0,
    HRTIMER_RESTART = 1,
}

type Function = unsafe extern "C" fn(*mut hrtimer) -> hrtimer_restart;

/// A timer, known by its address alone.
#[repr(C)]
pub struct hrtimer {
    function: Option<Function>,
}

/// The timers of a host.
#[derive(Default)]
struct Timers(RefCell<HashMap<usize, Rc<Alarm>>>);

fn alarm(timer: *mut hrtimer) -> Rc<Alarm> {
    let timers = host().own::<Timers>();
    let found = timers.0.borrow().get(&timer.addr()).cloned();
    found.expect("a timer that is set up and has not been freed")
}

/// # Safety
///
/// The timer is valid for writes, and stays until it is cancelled.
///
/// Fails for any other mode than the one above.
pub unsafe fn hrtimer_setup(
    timer: *mut hrtimer,
    function: Option<Function>,
    _clock: i32,
    mode: hrtimer_mode,
) {
    if mode != hrtimer_mode_HRTIMER_MODE_ABS_SOFT {
        fail("a timer has a mode that the host does not know");
    }
    // SAFETY: As the caller promises.
    unsafe { timer.write(hrtimer { function }) };
    let alarm = Alarm::new("timer", Kind::Softirq, move || {
        // SAFETY: It was started, and has not been cancelled since.
        let function = unsafe { (*timer).function.expect("a function") };
        // SAFETY: As the kernel calls it.
        if let hrtimer_restart::HRTIMER_RESTART = unsafe { function(timer) } {
            fail("a timer restarts itself by what its function returns");
        }
    });
    let timers = host().own::<Timers>();
    timers.0.borrow_mut().insert(timer.addr(), alarm);
}

/// # Safety
///
/// The timer is set up.
pub unsafe fn hrtimer_start_range_ns(
    timer: *mut hrtimer,
    at: i64,
    _slack: u64,
    _mode: hrtimer_mode,
) {
    point();
    alarm(timer).set(at.cast_unsigned());
}

/// Stop a timer and wait for its function; whether it was to expire.
///
/// # Safety
///
/// The timer is set up.
pub unsafe fn hrtimer_cancel(timer: *mut hrtimer) -> i32 {
    point();
    let alarm = alarm(timer);
    // Its function may have started it again meanwhile.
    let mut was_set = alarm.cancel();
    alarm.wait();
    was_set |= alarm.cancel();
    let timers = host().own::<Timers>();
    timers.0.borrow_mut().remove(&timer.addr());
    i32::from(was_set)
}

/// # Safety
///
/// None.
pub unsafe fn cpu_relax() {
    machine::context::relax();
}
