// SPDX-License-Identifier: GPL-2.0-only

//! The order in which locks are taken: the rules of lockdep for classes of locks.
//!
//! Two contexts that take two locks in two orders wait for each other in few runs only. A class that
//! is ever taken inside another one must therefore never be taken around it, in whatever run of
//! contexts, and through as many others as there are. Work that somebody waits for counts as a lock that
//! it has while it runs.
//!
//! What a softirq or an interrupt takes must have nothing inside that is taken elsewhere where those may
//! come: its owner would be interrupted by who waits for what is around it.

use crate::{
    context::current,
    usage,
    world::{
        fail,
        world, //
    }, //
};
use std::collections::{
    BTreeMap,
    BTreeSet, //
};

/// A lock that a context has.
pub(crate) struct Held {
    lock: usize,
    class: usize,
}

/// Which classes were taken inside others, and what they are called.
#[derive(Default)]
pub(crate) struct Orders {
    inside: BTreeMap<usize, BTreeSet<usize>>,
    names: BTreeMap<usize, String>,
}

impl Orders {
    fn name(&self, class: usize) -> &str {
        self.names.get(&class).map_or("a lock", String::as_str)
    }

    fn call(&mut self, class: usize, name: &str) {
        self.names.entry(class).or_insert_with(|| name.to_owned());
    }

    /// All classes that are taken inside of one, through others too; the class itself only if it is.
    fn all_inside(&self, class: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![class];
        while let Some(class) = open.pop() {
            let inside = self.inside.get(&class).into_iter().flatten();
            open.extend(inside.filter(|class| found.insert(**class)));
        }
        found
    }

    /// Note that one class is taken inside another one; whether that is new, or why it is wrong.
    fn note(&mut self, outer: usize, inner: usize) -> Result<bool, String> {
        if outer == inner {
            let name = self.name(inner);
            return Err(format!("it takes {name} inside another lock of its class"));
        }
        if !self.inside.entry(outer).or_default().insert(inner) {
            return Ok(false);
        }
        if self.all_inside(inner).contains(&outer) {
            let (outer, name) = (self.name(outer), self.name(inner));
            return Err(format!(
                "it takes {name} inside {outer}, which is taken inside {name} elsewhere"
            ));
        }
        Ok(true)
    }
}

/// The caller is about to wait for a lock of this class and name, or for work of that class.
///
/// Fails if a lock that it has is one that is, somewhere, waited for inside of this one.
pub fn wait_for(class: usize, name: &str) {
    let world = world();
    let me = current(&world);
    let mut is_new = false;
    for held in me.held.borrow().iter() {
        let mut orders = world.orders.borrow_mut();
        orders.call(class, name);
        let noted = orders.note(held.class, class);
        drop(orders);
        is_new |= noted.unwrap_or_else(|wrong| fail(wrong));
    }
    if is_new {
        assert_safe(class);
    }
}

/// Fail if what softirqs or interrupts take has something inside that is taken where those may come, as
/// far as this class is one of them.
pub(crate) fn assert_safe(class: usize) {
    let world = world();
    let orders = world.orders.borrow();
    let all = world.usages.borrow();
    for (&outer, usage) in all.iter() {
        let inside = orders.all_inside(outer);
        if outer != class && !inside.contains(&class) {
            continue;
        }
        let of = |inner: &usize| usage::both(*usage, all.get(inner).copied().unwrap_or(0));
        if let Some((inner, what)) = inside.iter().find_map(|inner| Some((*inner, of(inner)?))) {
            let (outer, inner) = (orders.name(outer), orders.name(inner));
            fail(format!(
                "{outer}, which is taken in {what}, has {inner} inside, which is taken with {what} on"
            ));
        }
    }
}

/// The caller has the lock from now on.
pub fn taken(lock: usize, class: usize, name: &str) {
    let world = world();
    world.orders.borrow_mut().call(class, name);
    let held = Held { lock, class };
    current(&world).held.borrow_mut().push(held);
}

/// The caller has left the lock, in whatever order.
pub fn left(lock: usize) {
    let world = world();
    let me = current(&world);
    let mut held = me.held.borrow_mut();
    if let Some(at) = held.iter().rposition(|held| held.lock == lock) {
        held.remove(at);
    }
}

/// Whether any context has a lock in this memory; its name.
pub(crate) fn lock_within(start: usize, len: usize) -> Option<String> {
    let world = world();
    let orders = world.orders.borrow();
    world.contexts().iter().find_map(|context| {
        let held = context.held.borrow();
        let mut held = held.iter();
        let found = held.find(|held| (start..start + len).contains(&held.lock))?;
        Some(orders.name(found.class).to_owned())
    })
}
