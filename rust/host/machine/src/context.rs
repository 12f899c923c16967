// SPDX-License-Identifier: GPL-2.0-only

//! Contexts: what runs on a host, each with a stack of its own.

use crate::{
    host::Host,
    order::Held,
    world::{
        chance,
        fail,
        world,
        World, //
    }, //
};
use generator::{
    Generator,
    Gn, //
};
use std::{
    cell::{
        Cell,
        RefCell, //
    },
    rc::Rc, //
};

/// What a context runs.
type Body = Box<dyn FnOnce()>;

/// Words on the stack of a context.
const STACK: usize = 0x1_0000;

/// What may be done in a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A process, or a worker: may sleep.
    Process,
    /// A softirq: must not.
    Softirq,
    /// The handler of an interrupt: must not either.
    Interrupt,
}

/// Whether a context can have a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Ready,
    /// Until somebody wakes it, or until that time.
    Asleep(Option<u64>),
}

/// Something that runs on a host.
pub(crate) struct Context {
    pub(crate) number: u64,
    pub(crate) host: Rc<Host>,
    name: &'static str,
    kind: Cell<Kind>,
    /// Taken out while it runs.
    stack: RefCell<Option<Generator<'static, Body, ()>>>,
    pub(crate) state: Cell<State>,
    /// It is about to sleep, and nobody has woken it since it said so.
    pub(crate) about_to_sleep: Cell<bool>,
    pub(crate) timed_out: Cell<bool>,
    /// Sections in which it must not sleep, one within the other.
    atomic: Cell<u32>,
    /// How many of the outermost it has entered.
    sections: Cell<u64>,
    /// How often it has disabled softirqs.
    softirqs_off: Cell<u32>,
    /// Whether it has disabled interrupts.
    interrupts_off: Cell<bool>,
    /// Its allocations are not counted, and none fails because of its number.
    is_spared: Cell<bool>,
    /// Locks that it has.
    pub(crate) held: RefCell<Vec<Held>>,
    /// What it waits for, in words.
    waits_for: RefCell<String>,
    ended: Cell<bool>,
}

impl Context {
    pub(crate) fn new(number: u64, host: Rc<Host>, name: &'static str, body: Body) -> Self {
        let mut stack = Gn::<Body>::new_opt(STACK, run_body);
        stack.set_para(body);
        Self {
            number,
            host,
            name,
            kind: Cell::new(Kind::Process),
            stack: RefCell::new(Some(stack)),
            state: Cell::new(State::Ready),
            about_to_sleep: Cell::new(false),
            timed_out: Cell::new(false),
            atomic: Cell::new(0),
            sections: Cell::new(0),
            softirqs_off: Cell::new(0),
            interrupts_off: Cell::new(false),
            is_spared: Cell::new(false),
            held: RefCell::default(),
            waits_for: RefCell::default(),
            ended: Cell::new(false),
        }
    }

    /// Give it a turn; whether it has ended.
    pub(crate) fn resume(&self) -> bool {
        let stack = self.stack.borrow_mut().take();
        let mut stack = stack.expect("a context that has ended has no turn");
        stack.resume();
        if !stack.is_done() {
            *self.stack.borrow_mut() = Some(stack);
            return false;
        }
        assert!(
            self.atomic.get() == 0,
            "{} has ended in a section in which it must not sleep",
            self.name
        );
        assert!(
            self.held.borrow().is_empty(),
            "{} has ended with a lock",
            self.name
        );
        self.ended.set(true);
        crate::queue::wake_all(self.end_queue());
        true
    }

    /// The queue of contexts that wait for its end.
    fn end_queue(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// When it ends its sleep by itself.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self.state.get() {
            State::Asleep(deadline) => deadline,
            State::Ready => None,
        }
    }

    /// End a sleep whose time is over.
    pub(crate) fn end_late_sleep(&self, now: u64) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.timed_out.set(true);
            self.about_to_sleep.set(false);
            self.state.set(State::Ready);
        }
    }

    /// Whether it neither sleeps nor is about to.
    pub(crate) fn is_awake(&self) -> bool {
        self.state.get() == State::Ready && !self.about_to_sleep.get()
    }

    /// Whether it is in a section in which it must not sleep, and in which one.
    pub(crate) fn section(&self) -> Option<u64> {
        (self.atomic.get() != 0).then(|| self.sections.get())
    }

    /// Whether its allocations fail by number.
    pub(crate) fn is_spared(&self) -> bool {
        self.is_spared.get()
    }

    pub(crate) fn describe(&self) -> String {
        let state = match self.state.get() {
            State::Ready => "runs",
            State::Asleep(_) => "waits",
        };
        let (number, waits_for) = (self.host.number(), self.waits_for.borrow());
        format!("{} on host {number} {state}{waits_for}", self.name)
    }
}

/// What is at the bottom of each stack.
// The newer way hands out a scope, which would have to be passed through all code of the kernel.
#[allow(deprecated)]
fn run_body() {
    let body = generator::get_yield::<Body>();
    body.expect("a stack is made for a body")();
}

/// Give up the turn.
// As above.
#[allow(deprecated)]
pub(crate) fn yield_turn() {
    generator::yield_with(());
}

/// The context whose turn it is.
///
/// # Panics
///
/// If there is none.
pub(crate) fn current(world: &World) -> Rc<Context> {
    world.running().expect("in no context of a host")
}

/// The number of the calling context, which no other of the run has.
pub fn number() -> u64 {
    current(&world()).number
}

/// The name of a context that has not ended.
pub fn name_of(number: u64) -> &'static str {
    let contexts = world().contexts();
    let found = contexts.iter().find(|context| context.number == number);
    found.map_or("nobody", |context| context.name)
}

/// Call `wait`, which waits for what `text` says: reports of the run name it.
pub fn waiting_for(text: &str, wait: impl FnOnce()) {
    let context = current(&world());
    *context.waits_for.borrow_mut() = format!(" for {text}");
    wait();
    context.waits_for.borrow_mut().clear();
}

/// Something that another processor may see is about to happen: others may go first. Not while a
/// panic of the caller unwinds, as no other context must run on what is half done.
pub fn point() {
    if std::thread::panicking() {
        return;
    }
    let preempt = world().plan.get().preempt;
    if chance(preempt) {
        yield_turn();
    }
}

/// The caller begins a section in which it must not sleep. It also delays the end of an RCU grace
/// period, as any such section does.
pub fn enter_atomic() {
    let context = current(&world());
    if context.atomic.get() == 0 {
        context.sections.set(context.sections.get() + 1);
    }
    context.atomic.set(context.atomic.get() + 1);
}

/// The caller ends such a section.
///
/// Fails if it has begun none.
pub fn leave_atomic() {
    let context = current(&world());
    let Some(left) = context.atomic.get().checked_sub(1) else {
        fail("it ends a section that it has not begun");
    };
    context.atomic.set(left);
    if left == 0 {
        crate::queue::wake_all(context.host.grace_queue());
    }
}

/// The caller's processor takes no softirqs until [`enable_softirqs`]; a section as by
/// [`enter_atomic`].
pub fn disable_softirqs() {
    enter_atomic();
    let context = current(&world());
    context.softirqs_off.set(context.softirqs_off.get() + 1);
}

/// End what [`disable_softirqs`] has begun.
///
/// Fails if the caller has not begun it, or where interrupts are off: softirqs would run there.
pub fn enable_softirqs() {
    let context = current(&world());
    if interrupts_are_off() {
        fail("it enables softirqs where interrupts are off");
    }
    let Some(left) = context.softirqs_off.get().checked_sub(1) else {
        fail("it enables softirqs that it has not disabled");
    };
    context.softirqs_off.set(left);
    leave_atomic();
}

/// The caller's processor takes no interrupts until [`restore_interrupts`]; a section as by
/// [`enter_atomic`]. Whether it took some before.
pub fn disable_interrupts() -> bool {
    enter_atomic();
    !current(&world()).interrupts_off.replace(true)
}

/// End what [`disable_interrupts`] has begun, which has returned `were_on`.
pub fn restore_interrupts(were_on: bool) {
    current(&world()).interrupts_off.set(!were_on);
    leave_atomic();
}

/// What the caller is.
pub fn kind() -> Kind {
    current(&world()).kind.get()
}

/// Whether the caller's processor takes no interrupts.
pub fn interrupts_are_off() -> bool {
    let context = current(&world());
    context.interrupts_off.get() || context.kind.get() == Kind::Interrupt
}

/// Whether the caller is a softirq, or has disabled them: what `softirq_count()` tells.
pub fn softirqs_are_off() -> bool {
    let context = current(&world());
    context.softirqs_off.get() != 0 || context.kind.get() == Kind::Softirq
}

/// Call `body` as what interrupts the caller: a section from its beginning to its end.
pub fn interrupted<R>(kind: Kind, body: impl FnOnce() -> R) -> R {
    let context = current(&world());
    let before = context.kind.replace(kind);
    enter_atomic();
    let result = body();
    leave_atomic();
    context.kind.set(before);
    result
}

/// Call `body`, whose allocations
/// [`fail_allocation`](crate::world::fail_allocation) does not count: a test's own.
pub fn spared<R>(body: impl FnOnce() -> R) -> R {
    let context = current(&world());
    context.is_spared.set(true);
    let result = body();
    context.is_spared.set(false);
    result
}

/// Give up the turn, as a processor that waits for another one.
pub fn relax() {
    if !std::thread::panicking() {
        yield_turn();
    }
}

/// Whether the caller must not sleep.
pub fn in_atomic() -> bool {
    current(&world()).section().is_some()
}

/// The caller may sleep now.
///
/// Fails if it must not.
pub fn might_sleep() {
    if in_atomic() {
        fail("it sleeps where it must not");
    }
    point();
}

/// Sleep until all sections have ended that contexts of this host are in.
///
/// Fails if the caller is in such a section.
pub fn await_sections() {
    might_sleep();
    let world = world();
    let me = current(&world);
    let contexts = world.contexts().into_iter();
    let theirs = contexts.filter(|other| Rc::ptr_eq(&other.host, &me.host));
    let sections: Vec<_> = theirs.filter_map(|c| Some((c.section()?, c))).collect();
    let under_way = || {
        let mut same = sections.iter();
        same.any(|(section, c)| !c.ended.get() && c.section() == Some(*section))
    };
    crate::queue::wait_while(me.host.grace_queue(), under_way);
}

/// A context that was begun.
pub struct Handle(Rc<Context>);

impl Handle {
    /// Sleep until it has ended.
    pub fn join(&self) {
        might_sleep();
        crate::queue::wait_while(self.0.end_queue(), || !self.0.ended.get());
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.0.ended.get()
    }
}

/// Begin a context on the caller's host.
pub fn spawn(name: &'static str, kind: Kind, body: impl FnOnce() + 'static) -> Handle {
    spawn_on(&crate::host(), name, kind, body)
}

/// Begin a context on a host. A softirq or a handler of an interrupt is a section from its first turn
/// on, not before.
pub fn spawn_on(
    host: &Rc<Host>,
    name: &'static str,
    kind: Kind,
    body: impl FnOnce() + 'static,
) -> Handle {
    let body: Body = match kind {
        Kind::Process => Box::new(body),
        Kind::Softirq | Kind::Interrupt => Box::new(move || interrupted(kind, body)),
    };
    Handle(world().add_context(host.clone(), name, body))
}
