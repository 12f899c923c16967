// SPDX-License-Identifier: GPL-2.0-only

//! A run: its contexts, which of them is next, and its clock.

use crate::{
    context::{
        Context,
        State, //
    },
    dice::{
        Dice,
        Odds, //
    },
    host::Host,
    memory::Memory,
    order::Orders,
    queue::Queues,
    usage::Usages, //
};
use std::{
    cell::{
        Cell,
        RefCell, //
    },
    rc::Rc,
    sync::Once, //
};

/// Nanoseconds that a turn takes.
const TURN_NS: u64 = 100;

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Decides all else.
    pub seed: u64,
    /// How often a context gives up its turn at a [`point`](crate::point).
    pub preempt: Odds,
    /// How often an allocation fails whose caller must not sleep.
    pub atomic_fails: Odds,
    /// How often any other allocation fails.
    pub fails: Odds,
    /// Turns after which the run has got stuck.
    pub most_turns: u64,
}

impl Plan {
    /// Contexts change often, and no allocation fails.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            preempt: Odds(1, 3),
            atomic_fails: Odds::NEVER,
            fails: Odds::NEVER,
            most_turns: 20_000_000,
        }
    }

    /// The same with allocations that fail.
    pub fn with_failing_memory(self, odds: Odds) -> Self {
        Self {
            atomic_fails: odds,
            fails: odds,
            ..self
        }
    }
}

/// A run. It belongs to the thread that has begun it.
pub struct World {
    pub(crate) plan: Cell<Plan>,
    pub(crate) dice: RefCell<Dice>,
    clock: Cell<u64>,
    /// Those that have not ended.
    contexts: RefCell<Vec<Rc<Context>>>,
    running: RefCell<Option<Rc<Context>>>,
    hosts: RefCell<Vec<Rc<Host>>>,
    pub(crate) queues: RefCell<Queues>,
    pub(crate) memory: RefCell<Memory>,
    pub(crate) usages: RefCell<Usages>,
    pub(crate) orders: RefCell<Orders>,
    /// The allocation that fails, and how many come before it from now on.
    failing: Cell<Option<(u64, u64)>>,
    next_context: Cell<u64>,
    /// Why the run has failed; see [`fail`].
    failure: RefCell<Option<String>>,
    /// The first panic of the run.
    panic: RefCell<Option<String>>,
}

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The run of this thread.
///
/// # Panics
///
/// If there is none: nothing of a kernel works outside of a host.
pub(crate) fn world() -> Rc<World> {
    let world = WORLD.with_borrow(Clone::clone);
    world.expect("code of a kernel runs on a host, within `machine::run`, only")
}

/// Run `main` in a process of the first host until it has returned, and then all others until
/// nothing is left that runs.
///
/// # Panics
///
/// With what any context panics with, for the reason of [`fail`], or if contexts wait for each
/// other. The seed is printed.
pub fn run(plan: Plan, main: impl FnOnce() + 'static) {
    let world = Rc::new(World {
        plan: Cell::new(plan),
        dice: RefCell::new(Dice::new(plan.seed)),
        clock: Cell::new(1_000_000_000),
        contexts: RefCell::default(),
        running: RefCell::default(),
        hosts: RefCell::default(),
        queues: RefCell::default(),
        memory: RefCell::default(),
        usages: RefCell::default(),
        orders: RefCell::default(),
        failing: Cell::new(None),
        next_context: Cell::new(0),
        failure: RefCell::default(),
        panic: RefCell::default(),
    });
    tell_seeds();
    let before = WORLD.replace(Some(world.clone()));
    assert!(before.is_none(), "a run within a run");
    let _end = End;
    let first = world.add_host();
    world.add_context(first, "main", Box::new(main));
    world.schedule();
}

/// Every panic in a run says of which seed it is. The first one is kept for [`fail`].
fn tell_seeds() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let world = WORLD.try_with(|world| world.try_borrow().ok()?.clone());
            if let Ok(Some(world)) = world {
                let (seed, failing) = (world.plan.get().seed, world.failing.get());
                let failing = failing.map(|(number, _)| format!(", allocation {number} fails"));
                eprintln!("in the run of seed {seed}{}:", failing.unwrap_or_default());
                let mut first = world.panic.borrow_mut();
                first.get_or_insert_with(|| info.to_string());
            }
            before(info);
        }));
    });
}

/// Ends the run of this thread.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let world = WORLD.take();
        if std::thread::panicking() {
            // Contexts have stacks with half-done work on them, which nobody can end.
            std::mem::forget(world);
        }
    }
}

impl World {
    /// One more host.
    pub(crate) fn add_host(&self) -> Rc<Host> {
        let mut hosts = self.hosts.borrow_mut();
        let host = Rc::new(Host::new(hosts.len()));
        hosts.push(host.clone());
        host
    }

    pub(crate) fn add_context(
        &self,
        host: Rc<Host>,
        name: &'static str,
        body: Box<dyn FnOnce()>,
    ) -> Rc<Context> {
        let number = self.next_context.get();
        self.next_context.set(number + 1);
        let context = Rc::new(Context::new(number, host, name, body));
        self.contexts.borrow_mut().push(context.clone());
        context
    }

    /// The context whose turn it is, if it is not the scheduler's.
    pub(crate) fn running(&self) -> Option<Rc<Context>> {
        self.running.borrow().clone()
    }

    /// Those that have not ended, in the order in which they began.
    pub(crate) fn contexts(&self) -> Vec<Rc<Context>> {
        self.contexts.borrow().clone()
    }

    /// Whether the allocation that is made now is the one that fails.
    pub(crate) fn is_failing(&self) -> bool {
        let is_spared = self.running().is_some_and(|context| context.is_spared());
        let Some((number, left)) = self.failing.get().filter(|_| !is_spared) else {
            return false;
        };
        self.failing.set(Some((number, left.saturating_sub(1))));
        left == 1
    }

    /// Give turns until all contexts have ended.
    fn schedule(&self) {
        let most = self.plan.get().most_turns;
        for _ in 0..most {
            let Some(next) = self.choose() else {
                return;
            };
            self.clock.set(self.clock.get() + TURN_NS);
            *self.running.borrow_mut() = Some(next.clone());
            let ended = next.resume();
            *self.running.borrow_mut() = None;
            if let Some(why) = self.failure.take() {
                panic!("{why}");
            }
            if ended {
                let mut contexts = self.contexts.borrow_mut();
                contexts.retain(|other| other.number != next.number);
            }
        }
        panic!("no end after {most} turns: {}", self.describe());
    }

    /// Whose turn is next; `None` if all have ended. The clock moves on if all sleep.
    fn choose(&self) -> Option<Rc<Context>> {
        loop {
            let contexts = self.contexts.borrow();
            let now = self.clock.get();
            for context in contexts.iter() {
                context.end_late_sleep(now);
            }
            let ready: Vec<_> = contexts
                .iter()
                .filter(|context| context.state.get() == State::Ready)
                .collect();
            if !ready.is_empty() {
                let at = self.dice.borrow_mut().below(ready.len() as u64);
                return ready.get(at as usize).copied().cloned();
            }
            if contexts.is_empty() {
                return None;
            }
            let next = contexts.iter().filter_map(|context| context.deadline());
            match next.min() {
                Some(at) => self.clock.set(at),
                None => panic!("deadlock: {}", self.describe()),
            }
        }
    }

    /// What each context is doing.
    fn describe(&self) -> String {
        let contexts = self.contexts();
        let lines = contexts.iter().map(|context| context.describe());
        lines.collect::<Vec<_>>().join("; ")
    }
}

/// End the run, which fails for that reason: the kernel would have stopped here.
///
/// Functions in C call this as well, through which a panic cannot go. Nor can it go out of what
/// unwinds by another panic; then the run fails for the reason of that one.
pub fn fail(why: impl Into<String>) -> ! {
    let world = world();
    let caller = world.running().map(|context| context.describe());
    let mut why = format!("{}: {}", caller.unwrap_or_default(), why.into());
    if std::thread::panicking() {
        let first = world.panic.borrow_mut().take();
        why = format!("{}; then {why}", first.unwrap_or_default());
    }
    *world.failure.borrow_mut() = Some(why);
    loop {
        crate::context::yield_turn();
    }
}

/// How many contexts have not ended.
pub fn count_of_contexts() -> usize {
    world().contexts.borrow().len()
}

/// Nanoseconds of the clock.
pub fn now() -> u64 {
    world().clock.get()
}

/// Whether what has these odds happens now.
pub fn chance(odds: Odds) -> bool {
    world().dice.borrow_mut().chance(odds)
}

/// A number below `end`, which is not zero.
pub fn below(end: u64) -> u64 {
    world().dice.borrow_mut().below(end)
}

/// Change how often allocations fail from now on, in both kinds.
pub fn set_failing_memory(odds: Odds) {
    let world = world();
    world.plan.set(world.plan.get().with_failing_memory(odds));
}

/// From now on one allocation fails: the `number`th, from 1 on, of whichever host.
pub fn fail_allocation(number: u64) {
    world().failing.set(Some((number, number)));
}

/// Whether the allocation that [`fail_allocation`] has named has been made. If not, it does not fail
/// any more.
pub fn has_failed() -> bool {
    let world = world();
    let failing = world.failing.get();
    world.failing.set(failing.map(|(number, _)| (number, 0)));
    failing.is_some_and(|(_, left)| left == 0)
}

/// Sleep until the clock shows `at`.
pub fn sleep_until(at: u64) {
    crate::might_sleep();
    while now() < at {
        crate::queue::prepare(crate::queue::NOBODY, false);
        crate::queue::schedule(Some(at));
        crate::queue::finish(crate::queue::NOBODY);
    }
}
