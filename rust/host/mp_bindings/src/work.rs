// SPDX-License-Identifier: GPL-2.0-only

//! Delayed work on workqueues. An item that is queued or runs has a context; it never runs twice at
//! a time. A queue runs as many items at a time as it may, in the order in which they came.

use core::{
    ffi::c_void,
    ptr, //
};
use machine::{
    alarm::Alarm,
    fail,
    host,
    memory,
    might_sleep,
    now,
    order,
    point,
    queue,
    Kind, //
};
use std::{
    alloc::Layout,
    cell::{
        Cell,
        RefCell, //
    },
    collections::{
        HashMap,
        VecDeque, //
    },
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

/// Items that the system's queue runs at a time.
const MOST: usize = 256;

/// A workqueue: items whose time has come, the first `most` of which run.
struct Workqueue {
    most: usize,
    line: RefCell<VecDeque<u64>>,
    next: Cell<u64>,
}

impl Workqueue {
    fn new(most: usize) -> Rc<Self> {
        Rc::new(Self {
            most,
            line: RefCell::default(),
            next: Cell::new(0),
        })
    }

    fn queue(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Whether the item with this ticket has no turn yet.
    fn must_wait(&self, ticket: u64) -> bool {
        let line = self.line.borrow();
        !line.iter().take(self.most).any(|other| *other == ticket)
    }

    /// Run an item in its turn, unless it is cancelled before.
    fn run(&self, is_cancelled: &Cell<bool>, work: impl FnOnce()) {
        let ticket = self.next.replace(self.next.get() + 1);
        self.line.borrow_mut().push_back(ticket);
        queue::wait_while(self.queue(), || {
            self.must_wait(ticket) && !is_cancelled.get()
        });
        if !is_cancelled.get() {
            work();
        }
        self.line.borrow_mut().retain(|other| *other != ticket);
        queue::wake_all(self.queue());
    }
}

/// The queues of a host, by address; that of the system has none.
#[derive(Default)]
struct Queues(RefCell<HashMap<usize, Rc<Workqueue>>>);

fn workqueue(queue: *mut c_void) -> Rc<Workqueue> {
    let queues = host().own::<Queues>();
    let mut queues = queues.0.borrow_mut();
    if queue == SYSTEM {
        queues
            .entry(queue.addr())
            .or_insert_with(|| Workqueue::new(MOST));
    }
    let found = queues.get(&queue.addr()).cloned();
    found.expect("a workqueue that has not been destroyed")
}

/// The system's queue.
const SYSTEM: *mut c_void = ptr::dangling_mut::<u8>().cast();

/// What is known of an item, by its address.
struct Item {
    class: usize,
    alarm: Rc<Alarm>,
    /// The queue that it was added to last.
    on: Rc<RefCell<Option<Rc<Workqueue>>>>,
    is_disabled: Rc<Cell<bool>>,
}

impl Item {
    fn new(work: *mut delayed_work, class: usize) -> Rc<Self> {
        let on = Rc::<RefCell<Option<Rc<Workqueue>>>>::default();
        let is_disabled = Rc::<Cell<bool>>::default();
        let (theirs, is_cancelled) = (on.clone(), is_disabled.clone());
        let alarm = Alarm::new("worker", Kind::Process, move || {
            let queue = theirs.borrow().clone().expect("an item that was queued");
            queue.run(&is_cancelled, || {
                // As lockdep has it: whoever waits for the work waits for all that it waits for.
                order::wait_for(class, "work");
                order::taken(work.addr(), class, "work");
                // SAFETY: An item is initialised as long as it is queued or runs: it is disabled
                // before it is freed.
                let (work, func) = unsafe { (&raw mut (*work).work, (*work).work.func) };
                // SAFETY: What it was initialised with, called as a workqueue does.
                unsafe { func.expect("a function")(work) };
                order::left(work.addr());
            });
        });
        Rc::new(Self {
            class,
            alarm,
            on,
            is_disabled,
        })
    }

    /// Queue a run in so many milliseconds.
    fn add(&self, queue: *mut c_void, ms: u32) {
        *self.on.borrow_mut() = Some(workqueue(queue));
        self.alarm.set(now() + u64::from(ms) * 1_000_000);
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
    key: *mut bindings::lock_class_key,
) {
    let this = delayed_work {
        work: work_struct { func },
    };
    // SAFETY: As the caller promises.
    unsafe { work.write(this) };
    let items = host().own::<Items>();
    items
        .0
        .borrow_mut()
        .insert(work.addr(), Item::new(work, key.addr()));
}

/// # Safety
///
/// The item is initialised; so for all functions below.
pub unsafe fn requeue_delayed(queue: *mut c_void, work: *mut delayed_work, ms: u32) {
    point();
    let item = item(work);
    if !item.is_disabled.get() {
        item.add(queue, ms);
    }
}

/// # Safety
///
/// As for [`requeue_delayed`].
pub unsafe fn queue_delayed_once(queue: *mut c_void, work: *mut delayed_work, ms: u32) {
    point();
    let item = item(work);
    if !item.is_disabled.get() && !item.alarm.is_set() {
        item.add(queue, ms);
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
    order::wait_for(item.class, "work");
    item.is_disabled.set(true);
    let was_queued = item.alarm.cancel();
    if let Some(queue) = &*item.on.borrow() {
        queue::wake_all(queue.queue());
    }
    item.alarm.wait();
    was_queued
}

/// # Safety
///
/// None.
pub unsafe fn system_workqueue(_urgent: bool) -> *mut c_void {
    SYSTEM
}

/// A queue that runs `most` items at a time; null without memory.
///
/// # Safety
///
/// The name is a string.
pub unsafe fn alloc_unbound_workqueue(_name: *const u8, most: i32) -> *mut c_void {
    let queue = memory::allocate(Layout::new::<u64>(), true);
    if !queue.is_null() {
        let most = usize::try_from(most).ok().filter(|most| *most != 0);
        let queues = host().own::<Queues>();
        let new = Workqueue::new(most.unwrap_or(MOST));
        queues.0.borrow_mut().insert(queue.addr(), new);
    }
    queue.cast()
}

/// # Safety
///
/// No work is queued on it: that is checked.
pub unsafe fn destroy_workqueue(queue: *mut c_void) {
    might_sleep();
    let queues = host().own::<Queues>();
    let queue_is_idle = workqueue(queue).line.borrow().is_empty();
    if !queue_is_idle {
        fail("it destroys a workqueue that has work");
    }
    queues.0.borrow_mut().remove(&queue.addr());
    // SAFETY: Allocated with the queue, and nobody's any more.
    unsafe { memory::free(queue.cast()) };
}
