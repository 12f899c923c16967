// SPDX-License-Identifier: GPL-2.0-only

//! Delayed work on workqueues: each run is a context of its own. All queues are alike; an item
//! never runs twice at a time.

use core::{
    ffi::c_void,
    ptr, //
};
use machine::{
    host,
    might_sleep,
    now,
    point,
    queue,
    sleep_until,
    spawn,
    Kind, //
};
use std::{
    cell::{
        Cell,
        RefCell, //
    },
    collections::HashMap,
    rc::Rc, //
};

type Function = unsafe extern "C" fn(*mut work_struct);

/// What is to be done.
#[repr(C)]
pub struct work_struct {
    func: Option<Function>,
}

/// The same, later.
#[repr(C)]
pub struct delayed_work {
    pub work: work_struct,
}

/// What is known of an item, by its address. It outlives the item: runs that were cancelled see
/// here that they were.
#[derive(Default)]
struct Item {
    /// Changes with each run that is queued or cancelled.
    turn: Cell<u64>,
    is_queued: Cell<bool>,
    runs: Cell<bool>,
    is_disabled: Cell<bool>,
}

impl Item {
    fn queue(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Neither is what was queued run nor what would be.
    fn withdraw(&self) {
        self.turn.set(self.turn.get() + 1);
        self.is_queued.set(false);
    }
}

/// The items of a host.
#[derive(Default)]
struct Items(RefCell<HashMap<usize, Rc<Item>>>);

fn item(work: *mut delayed_work) -> Rc<Item> {
    let items = host().own::<Items>();
    let item = items.0.borrow().get(&work.addr()).cloned();
    item.expect("work that is initialised")
}

/// # Safety
///
/// The item is valid for writes.
pub unsafe fn init_delayed_work(
    work: *mut delayed_work,
    func: Option<Function>,
    _name: *const u8,
    _key: *mut bindings::lock_class_key,
) {
    let this = delayed_work {
        work: work_struct { func },
    };
    // SAFETY: As the caller promises.
    unsafe { work.write(this) };
    let items = host().own::<Items>();
    items.0.borrow_mut().insert(work.addr(), Rc::default());
}

/// Queue a run in so many milliseconds.
fn add(work: *mut delayed_work, item: &Rc<Item>, ms: u32) {
    item.withdraw();
    item.is_queued.set(true);
    let (item, turn) = (item.clone(), item.turn.get());
    let due = now() + u64::from(ms) * 1_000_000;
    spawn("worker", Kind::Process, move || {
        sleep_until(due);
        let is_due = || item.turn.get() == turn;
        while is_due() && item.runs.get() {
            queue::wait_while(item.queue(), || is_due() && item.runs.get());
        }
        if !is_due() {
            return;
        }
        item.is_queued.set(false);
        item.runs.set(true);
        // SAFETY: An item is initialised as long as it is queued or runs: those who free it
        // disable it before.
        let (work, func) = unsafe { (&raw mut (*work).work, (*work).work.func) };
        // SAFETY: What it was initialised with, called as a workqueue does.
        unsafe { func.expect("a function")(work) };
        item.runs.set(false);
        queue::wake_all(item.queue());
    });
}

/// # Safety
///
/// The item is initialised; so for all functions below.
pub unsafe fn requeue_delayed(_queue: *mut c_void, work: *mut delayed_work, ms: u32) {
    point();
    let item = item(work);
    if !item.is_disabled.get() {
        add(work, &item, ms);
    }
}

/// # Safety
///
/// As for [`requeue_delayed`].
pub unsafe fn queue_delayed_once(_queue: *mut c_void, work: *mut delayed_work, ms: u32) {
    point();
    let item = item(work);
    if !item.is_disabled.get() && !item.is_queued.get() {
        add(work, &item, ms);
    }
}

/// Cancel what is queued, wait for what runs, and queue nothing from now on.
///
/// # Safety
///
/// As for [`requeue_delayed`].
pub unsafe fn disable_delayed_work_sync(work: *mut delayed_work) -> bool {
    might_sleep();
    let item = item(work);
    let was_queued = item.is_queued.get();
    item.is_disabled.set(true);
    item.withdraw();
    queue::wake_all(item.queue());
    queue::wait_while(item.queue(), || item.runs.get());
    was_queued
}

/// # Safety
///
/// None.
pub unsafe fn system_workqueue(_urgent: bool) -> *mut c_void {
    ptr::dangling_mut::<u8>().cast()
}

/// # Safety
///
/// The name is a string.
pub unsafe fn alloc_unbound_workqueue(_name: *const u8, _most: i32) -> *mut c_void {
    // SAFETY: No requirements.
    unsafe { system_workqueue(false) }
}

/// # Safety
///
/// No work is queued on it.
pub unsafe fn destroy_workqueue(_queue: *mut c_void) {}
