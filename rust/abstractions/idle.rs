// SPDX-License-Identifier: GPL-2.0-only

//! Threads that use the time in which a processor has nothing else to do.
//!
//! An [`IdleThread`] has the scheduling policy `SCHED_IDLE`. It takes the place
//! of the idle task: to leave it for a task that has just been woken is an
//! ordinary switch, without an interrupt and without the time that a sleeping
//! processor needs to come back.

use core::ptr::NonNull;

use kernel::{
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    processor::cpu_relax,
    str::CStr,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    }, //
};

/// What an [`IdleThread`] does.
pub trait IdleWork: Send + Sync + 'static {
    /// Do a bit of it; whether the thread is to come back without a
    /// [`kick`](IdleThread::kick) once no other task wants to run.
    fn run(&self) -> bool;
}

struct Shared<W> {
    work: W,
    /// Whether there was a kick since the thread began its last run.
    kicked: Atomic<bool>,
    asleep: Atomic<bool>,
}

/// A thread of the lowest priority, asleep until it is kicked.
///
/// # Invariants
///
/// `task` is a thread that runs [`main`] on `shared` until it is told to stop,
/// which only dropping does.
pub struct IdleThread<W: IdleWork> {
    task: NonNull<c_void>,
    shared: Arc<Shared<W>>,
}

// SAFETY: A thread can be woken and stopped from any task; `W` is `Send` and `Sync`.
unsafe impl<W: IdleWork> Send for IdleThread<W> {}
// SAFETY: As above.
unsafe impl<W: IdleWork> Sync for IdleThread<W> {}

impl<W: IdleWork> IdleThread<W> {
    /// Start a thread with this name, as shown by `ps`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &CStr, work: W) -> Result<Self> {
        let shared = Shared {
            work,
            kicked: Atomic::new(false),
            asleep: Atomic::new(false),
        };
        let shared = Arc::new(shared, GFP_KERNEL)?;
        let data: *const Shared<W> = &*shared;
        // SAFETY: The name is copied. What `data` points to lives until the thread has stopped.
        let task = unsafe {
            mp_bindings::idle_thread_run(
                Some(main::<W>),
                data.cast_mut().cast(),
                name.as_char_ptr(),
            )
        };
        // INVARIANT: Just started.
        Ok(Self {
            task: NonNull::new(task).ok_or(ENOMEM)?,
            shared,
        })
    }

    /// What it works on.
    #[inline]
    pub fn work(&self) -> &W {
        &self.shared.work
    }

    /// Run the work, as soon as a processor has nothing else to do. Any
    /// context.
    #[inline]
    pub fn kick(&self) {
        // Full ordering: either the thread sees the kick, or it is seen to be asleep.
        self.shared.kicked.xchg(true, Full);
        if self.shared.asleep.load(Relaxed) {
            // SAFETY: By the type invariants the thread has not been stopped.
            unsafe { mp_bindings::idle_thread_wake(self.task.as_ptr()) };
        }
    }
}

impl<W: IdleWork> Drop for IdleThread<W> {
    /// Wait for the thread to end.
    fn drop(&mut self) {
        // SAFETY: By the type invariants the thread runs, and is stopped only here.
        unsafe { mp_bindings::idle_thread_stop(self.task.as_ptr()) };
    }
}

/// The thread's function.
///
/// # Safety
///
/// `data` points to a `Shared<W>` that outlives the thread.
unsafe extern "C" fn main<W: IdleWork>(data: *mut c_void) -> c_int {
    // SAFETY: By the safety requirements.
    let shared = unsafe { &*data.cast_const().cast::<Shared<W>>() };
    // SAFETY: This is a kernel thread.
    while !unsafe { mp_bindings::idle_thread_must_stop() } {
        if !shared.work.run() {
            sleep(shared);
        } else if wanted() {
            // SAFETY: Nothing is held here that forbids to sleep.
            unsafe { mp_bindings::schedule() };
        }
    }
    0
}

/// Sleep until there is a kick, or the thread is to stop.
fn sleep<W>(shared: &Shared<W>) {
    shared.asleep.store(true, Relaxed);
    // SAFETY: This is a thread of ours; the state is set back below.
    unsafe { mp_bindings::about_to_sleep() };
    // SAFETY: This is a kernel thread.
    let must_stop = unsafe { mp_bindings::idle_thread_must_stop() };
    if !shared.kicked.xchg(false, Full) && !must_stop {
        // SAFETY: Nothing is held here that forbids to sleep.
        unsafe { mp_bindings::schedule() };
    }
    // SAFETY: As above.
    unsafe { mp_bindings::stay_awake() };
    shared.asleep.store(false, Relaxed);
}

/// Whether another task wants this processor.
#[inline]
fn wanted() -> bool {
    // SAFETY: Always safe.
    unsafe { mp_bindings::resched_wanted() }
}

/// Spin until `is_over`, or until another task wants this processor; the task
/// is not preempted meanwhile. Returns the last answer of `is_over`.
///
/// `before` runs before and `after` with the result, also unpreempted: nobody
/// else runs on this processor between them but interrupt handlers.
pub fn spin<T>(
    before: impl FnOnce(),
    mut is_over: impl FnMut() -> bool,
    after: impl FnOnce(bool) -> T,
) -> T {
    // SAFETY: Enabled again below.
    unsafe { mp_bindings::preempt_disable() };
    before();
    let over = loop {
        if is_over() {
            break true;
        }
        if wanted() {
            break false;
        }
        cpu_relax();
    };
    let result = after(over);
    // SAFETY: Disabled above.
    unsafe { mp_bindings::preempt_enable() };
    result
}
