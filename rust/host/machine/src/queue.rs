// SPDX-License-Identifier: GPL-2.0-only

//! Sleeping until somebody wakes one, as the kernel's wait queues do it.
//!
//! A queue is a number, usually the address of what is waited for. A context enters itself
//! ([`prepare`]), looks at what it waits for, and sleeps ([`schedule`]): a wake-up after it has
//! entered itself is never missed, one before is not seen.

use crate::context::{
    current,
    yield_turn,
    State, //
};
use crate::world::{
    fail,
    world, //
};
use std::{
    collections::HashMap,
    rc::Rc, //
};

/// A queue that nobody wakes.
pub const NOBODY: usize = 0;

/// Those on the queues: others before exclusive ones, and exclusive ones in the order in which they
/// came, as the kernel enters them.
pub(crate) type Queues = HashMap<usize, Vec<Entry>>;

/// A context on a queue.
pub(crate) struct Entry {
    context: Rc<crate::context::Context>,
    is_exclusive: bool,
}

/// Enter the calling context, unless it is on that queue; it is about to sleep.
pub fn prepare(queue: usize, is_exclusive: bool) {
    let world = world();
    let me = current(&world);
    me.about_to_sleep.set(true);
    let mut queues = world.queues.borrow_mut();
    let entries = queues.entry(queue).or_default();
    if !entries.iter().any(|e| e.context.number == me.number) {
        let at = if is_exclusive { entries.len() } else { 0 };
        entries.insert(
            at,
            Entry {
                context: me,
                is_exclusive,
            },
        );
    }
}

/// Take the calling context out; it does not want to sleep any more.
pub fn finish(queue: usize) {
    let world = world();
    let me = current(&world);
    me.about_to_sleep.set(false);
    remove(&world, queue, me.number);
}

fn remove(world: &crate::World, queue: usize, number: u64) {
    let mut queues = world.queues.borrow_mut();
    if let Some(entries) = queues.get_mut(&queue) {
        entries.retain(|e| e.context.number != number);
        if entries.is_empty() {
            queues.remove(&queue);
        }
    }
}

/// Sleep until somebody wakes the calling context, unless that has been done since [`prepare`], or
/// until that time; whether the time is over.
///
/// Fails while a panic of the caller unwinds: no other context may have a turn then.
pub fn schedule(deadline: Option<u64>) -> bool {
    if std::thread::panicking() {
        fail("it sleeps while a panic unwinds");
    }
    let me = current(&world());
    me.timed_out.set(false);
    if me.about_to_sleep.get() {
        me.state.set(State::Asleep(deadline));
    }
    yield_turn();
    me.timed_out.get()
}

/// Wake `most` of the exclusive sleepers on a queue, and all others; 0: all. Those that are woken
/// leave the queue. A context that is awake already stays there and does not count.
pub fn wake(queue: usize, most: usize) {
    let world = world();
    let mut woken = Vec::new();
    {
        let mut queues = world.queues.borrow_mut();
        let Some(entries) = queues.get_mut(&queue) else {
            return;
        };
        let mut exclusive = 0;
        entries.retain(|e| {
            if e.context.is_awake() || (most != 0 && exclusive >= most) {
                return true;
            }
            exclusive += usize::from(e.is_exclusive);
            woken.push(e.context.clone());
            false
        });
        if entries.is_empty() {
            queues.remove(&queue);
        }
    }
    for context in woken {
        context.about_to_sleep.set(false);
        context.state.set(State::Ready);
    }
}

/// Wake all sleepers on a queue.
pub fn wake_all(queue: usize) {
    wake(queue, 0);
}

/// Wait as long as `condition` holds; it is looked at anew whenever the queue is woken. Also for
/// contexts that must not sleep, as a processor spins.
pub fn wait_while(queue: usize, condition: impl Fn() -> bool) {
    while condition() {
        prepare(queue, false);
        if condition() {
            schedule(None);
        }
        finish(queue);
    }
}
