// SPDX-License-Identifier: GPL-2.0-only

//! What runs at a time: delayed work, timers.

use crate::{
    context::{
        interrupted,
        spawn,
        Kind, //
    },
    point,
    queue,
    world::now, //
};
use std::{
    cell::Cell,
    rc::Rc, //
};

/// What an [`Alarm`] does.
type Run = Box<dyn Fn()>;

/// A function that runs at a time, in a context that is there from when it is set to when nothing is
/// left to do: never twice at a time.
pub struct Alarm {
    name: &'static str,
    kind: Kind,
    run: Run,
    due: Cell<Option<u64>>,
    has_context: Cell<bool>,
    runs: Cell<bool>,
}

impl Alarm {
    /// One that has not been set.
    pub fn new(name: &'static str, kind: Kind, run: impl Fn() + 'static) -> Rc<Self> {
        Rc::new(Self {
            name,
            kind,
            run: Box::new(run),
            due: Cell::new(None),
            has_context: Cell::new(false),
            runs: Cell::new(false),
        })
    }

    /// Let it run at `at`, in place of what it was set to before.
    pub fn set(self: &Rc<Self>, at: u64) {
        self.due.set(Some(at));
        if self.has_context.replace(true) {
            queue::wake_all(self.queue());
            return;
        }
        let this = self.clone();
        spawn(self.name, Kind::Process, move || this.serve());
    }

    /// Whether it is to run.
    pub fn is_set(&self) -> bool {
        self.due.get().is_some()
    }

    /// It is not to run any more; whether it was to.
    pub fn cancel(&self) -> bool {
        let was_set = self.due.take().is_some();
        queue::wake_all(self.queue());
        was_set
    }

    /// Wait until it does not run.
    pub fn wait(&self) {
        queue::wait_while(self.queue(), || self.runs.get());
    }

    fn queue(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Its context.
    fn serve(&self) {
        while let Some(at) = self.due.get() {
            if at <= now() {
                self.run();
                continue;
            }
            queue::prepare(self.queue(), false);
            queue::schedule(Some(at));
            queue::finish(self.queue());
        }
        self.has_context.set(false);
    }

    fn run(&self) {
        self.due.set(None);
        self.runs.set(true);
        match self.kind {
            Kind::Process => (self.run)(),
            kind => interrupted(kind, &self.run),
        }
        self.runs.set(false);
        queue::wake_all(self.queue());
        point();
    }
}
