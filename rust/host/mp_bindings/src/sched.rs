// SPDX-License-Identifier: GPL-2.0-only

//! The scheduler of tasks, and threads that run where no other task wants to. How busy a host is, the
//! dice say.

use core::ffi::{
    c_int,
    c_void, //
};
use machine::{
    chance,
    context,
    dice::Odds,
    enter_atomic,
    host,
    leave_atomic,
    memory,
    point,
    queue,
    spawn,
    Handle,
    Kind, //
};
use std::{
    alloc::Layout,
    cell::{
        Cell,
        RefCell, //
    },
    collections::HashMap,
    rc::Rc, //
};

/// How often another task wants the processor.
const BUSY: Odds = Odds(1, 4);

type Main = unsafe extern "C" fn(*mut c_void) -> c_int;

/// A thread.
#[derive(Default)]
struct Thread {
    must_stop: Cell<bool>,
    handle: RefCell<Option<Handle>>,
}

impl Thread {
    fn queue(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

/// The threads of a host, by what they are known as.
#[derive(Default)]
struct Threads {
    by_task: RefCell<HashMap<usize, Rc<Thread>>>,
    by_context: RefCell<HashMap<u64, Rc<Thread>>>,
}

fn thread(task: *mut c_void) -> Rc<Thread> {
    let threads = host().own::<Threads>();
    let found = threads.by_task.borrow().get(&task.addr()).cloned();
    found.expect("a thread that was not stopped")
}

/// The calling thread.
fn me() -> Rc<Thread> {
    let threads = host().own::<Threads>();
    let found = threads.by_context.borrow().get(&context::number()).cloned();
    found.expect("called by a thread")
}

/// Start a thread; null without memory.
///
/// # Safety
///
/// `main` may be called with `data` until the thread is stopped.
pub unsafe fn idle_thread_run(
    main: Option<Main>,
    data: *mut c_void,
    _name: *const u8,
) -> *mut c_void {
    let task = memory::allocate(Layout::new::<u64>(), true);
    let Some(main) = main.filter(|_| !task.is_null()) else {
        return core::ptr::null_mut();
    };
    let this = Rc::new(Thread::default());
    let threads = host().own::<Threads>();
    let entered = threads.clone();
    let theirs = this.clone();
    let handle = spawn("idle thread", Kind::Process, move || {
        let number = context::number();
        entered.by_context.borrow_mut().insert(number, theirs);
        // SAFETY: As the caller promises: stopping waits for this context.
        unsafe { main(data) };
        entered.by_context.borrow_mut().remove(&number);
    });
    *this.handle.borrow_mut() = Some(handle);
    threads.by_task.borrow_mut().insert(task.addr(), this);
    task.cast()
}

/// # Safety
///
/// The thread has not been stopped.
pub unsafe fn idle_thread_wake(task: *mut c_void) {
    point();
    queue::wake_all(thread(task).queue());
}

/// Tell a thread to end, and wait for that.
///
/// # Safety
///
/// As for [`idle_thread_wake`].
pub unsafe fn idle_thread_stop(task: *mut c_void) {
    let this = thread(task);
    this.must_stop.set(true);
    queue::wake_all(this.queue());
    if let Some(handle) = &*this.handle.borrow() {
        handle.join();
    }
    let threads = host().own::<Threads>();
    threads.by_task.borrow_mut().remove(&task.addr());
    // SAFETY: Allocated with the thread, which has ended.
    unsafe { memory::free(task.cast()) };
}

/// # Safety
///
/// Called by a thread; so for the next two.
pub unsafe fn idle_thread_must_stop() -> bool {
    point();
    me().must_stop.get()
}

/// The thread sleeps with the next [`schedule`], unless it is woken before.
///
/// # Safety
///
/// As for [`idle_thread_must_stop`].
pub unsafe fn about_to_sleep() {
    queue::prepare(me().queue(), false);
    point();
}

/// # Safety
///
/// As for [`idle_thread_must_stop`].
pub unsafe fn stay_awake() {
    queue::finish(me().queue());
}

/// Sleep, if the caller was about to; else let others go first.
///
/// # Safety
///
/// None beyond that the caller may sleep, which is checked.
pub unsafe fn schedule() {
    machine::might_sleep();
    queue::schedule(None);
}

/// # Safety
///
/// None.
pub unsafe fn resched_wanted() -> bool {
    point();
    chance(BUSY)
}

/// # Safety
///
/// None.
pub unsafe fn other_task_runnable() -> bool {
    chance(BUSY)
}

/// # Safety
///
/// Enabled again by the same context.
pub unsafe fn preempt_disable() {
    enter_atomic();
}

/// # Safety
///
/// Disabled by the same context.
pub unsafe fn preempt_enable() {
    leave_atomic();
    point();
}
