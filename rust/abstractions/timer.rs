// SPDX-License-Identifier: GPL-2.0-only

//! A timer with the resolution of the clock, which ends with its owner.
//!
//! The kernel crate's timers belong to whoever started them last; a [`Timer`]
//! may be started by anybody at any time. Dropping it stops it, and its code
//! does not run any more when that returns.
//!
//! C header: [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h).

use kernel::{
    bindings,
    container_of,
    prelude::*,
    types::Opaque, //
};

/// What a [`Timer`] does when its time has come.
pub trait Expire: Send + Sync + 'static {
    /// The time has come; when it comes again, unless the timer is started before. Never runs
    /// twice at the same time; must not drop the timer.
    fn expire(&self) -> Option<u64>;
}

/// Calls an [`Expire`] at a time.
///
/// # Invariants
///
/// `timer` is set up, with [`Timer::callback`] as its function.
#[pin_data(PinnedDrop)]
pub struct Timer<E: Expire> {
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    target: E,
}

// SAFETY: Timers may be started and cancelled from any thread; `target` is `Send` and `Sync`.
unsafe impl<E: Expire> Send for Timer<E> {}
// SAFETY: As above.
unsafe impl<E: Expire> Sync for Timer<E> {}

impl<E: Expire> Timer<E> {
    /// In softirq context, where all locks may be taken.
    const MODE: bindings::hrtimer_mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT;

    /// Create a timer that has not been started.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(target: E) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                timer <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is valid for writes and pinned.
                    unsafe {
                        bindings::hrtimer_setup(
                            slot,
                            Some(Self::callback),
                            bindings::CLOCK_MONOTONIC as i32,
                            Self::MODE,
                        )
                    }
                }),
                target,
            }),
            GFP_KERNEL,
        )
    }

    /// What it does.
    #[inline]
    pub fn target(&self) -> &E {
        &self.target
    }

    /// Let it expire at `ns` of [`monotonic_ns`](crate::time::monotonic_ns), in place of what it
    /// was started for before. Any context.
    #[inline]
    pub fn start(&self, ns: u64) {
        // SAFETY: By the type invariants the timer is set up.
        unsafe { bindings::hrtimer_start_range_ns(self.timer.get(), ns as i64, 0, Self::MODE) };
    }

    /// # Safety
    ///
    /// Called by the kernel for the timer of a live `Timer<E>`.
    unsafe extern "C" fn callback(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        // SAFETY: The timer is the field of a `Timer`, which lives: dropping it waits for this
        // function.
        let this = unsafe { &*container_of!(Opaque::cast_from(timer), Self, timer) };
        if let Some(ns) = this.target.expire() {
            this.start(ns);
        }
        bindings::hrtimer_restart::HRTIMER_NORESTART
    }
}

#[pinned_drop]
impl<E: Expire> PinnedDrop for Timer<E> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants the timer is set up.
        unsafe { bindings::hrtimer_cancel(self.timer.get()) };
    }
}
