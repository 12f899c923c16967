// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Calls that wait until they may ask a peer: no room stays unused while one waits that could use it,
//! whatever calls give up, and whenever.

use mp_proto::turns::{self, Call, Calls, Lack, Payers};
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

/// How many the peer answers at a time, and how many of one payer.
const PLACES: usize = 4;
const SHARES: usize = 2;

/// A user, or a user in a namespace of another one: payers by their numbers.
#[derive(Clone, PartialEq, Debug)]
struct Set(&'static [u8]);

const SETS: [Set; 5] = [Set(&[0]), Set(&[1]), Set(&[2]), Set(&[0, 3]), Set(&[1, 3])];

impl Payers for Set {
    fn meets(&self, other: &Self) -> bool {
        self.0.iter().any(|payer| other.0.contains(payer))
    }
}

#[derive(Clone, Debug)]
struct Waiter {
    number: usize,
    lack: Lack,
    set: Set,
    is_called: Rc<Cell<bool>>,
}

impl Call for Waiter {
    type Payers = Set;

    fn lack(&self) -> Lack {
        self.lack
    }

    fn payers(&self) -> &Set {
        &self.set
    }

    fn call(&self) {
        self.is_called.set(true);
    }

    fn is(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

#[derive(Default)]
struct List(Vec<Waiter>);

impl Calls for List {
    type Call = Waiter;

    fn retain(&mut self, keep: impl FnMut(&Waiter) -> bool) {
        self.0.retain(keep);
    }
}

/// What happens, to one of those that it can happen to.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call comes, of one of the users.
    Ask(usize),
    /// The peer answers a connection.
    Answer(usize),
    /// The peer answers one that was resumed when the link came up.
    AnswerResumed,
    /// A call that was called asks again.
    Run(usize),
    /// A call that was called asks again, and there is no memory.
    Fail(usize),
    /// The deadline of a call is over, called or not.
    Leave(usize),
    /// The link goes and comes, with so many connections that are resumed.
    Flap(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..64usize;
    prop_oneof![
        6 => any.clone().prop_map(Step::Ask),
        4 => any.clone().prop_map(Step::Answer),
        2 => Just(Step::AnswerResumed),
        4 => any.clone().prop_map(Step::Run),
        1 => any.clone().prop_map(Step::Fail),
        2 => any.prop_map(Step::Leave),
        1 => (0..2 * PLACES).prop_map(Step::Flap),
    ]
}

/// A link, as the user service has it: one step is what happens under its lock.
#[derive(Default)]
struct Link {
    asked: Vec<Set>,
    resumed: usize,
    waiting: List,
    /// All calls that sleep, called or not.
    sleeping: Vec<Waiter>,
    calls: usize,
}

impl Link {
    /// What a call lacks now.
    fn lack(&self, set: &Set) -> Option<Lack> {
        let of = |payer: &u8| {
            self.asked
                .iter()
                .filter(|set| set.0.contains(payer))
                .count()
        };
        if set.0.iter().any(|payer| of(payer) >= SHARES) {
            return Some(Lack::Share);
        }
        (self.asked.len() + self.resumed >= PLACES).then_some(Lack::Place)
    }

    fn ask(&mut self, set: &Set, turn: Option<&Waiter>) {
        let lack = self.lack(set);
        if lack.is_none() {
            self.asked.push(set.clone());
        }
        let outcome: Result<_, ()> = Ok(lack);
        if let Some(turn) = turn.filter(|turn| !turns::is_used(turn.lack, &outcome)) {
            turns::pass_on(&mut self.waiting, turn);
        }
        let Some(lack) = lack else { return };
        self.calls += 1;
        let waiter = Waiter {
            number: self.calls,
            lack,
            set: set.clone(),
            is_called: Rc::default(),
        };
        self.waiting.0.push(waiter.clone());
        self.sleeping.push(waiter);
    }

    /// One of those that were called, which sleeps no more.
    fn called(&mut self, n: usize) -> Option<Waiter> {
        let called: Vec<usize> = (0..self.sleeping.len())
            .filter(|at| self.sleeping[*at].is_called.get())
            .collect();
        let at = *called.get(n.checked_rem(called.len())?)?;
        Some(self.sleeping.remove(at))
    }

    fn run(&mut self, n: usize) -> bool {
        let Some(turn) = self.called(n) else {
            return false;
        };
        self.ask(&turn.set.clone(), Some(&turn));
        true
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Ask(n) => self.ask(&SETS[n % SETS.len()], None),
            Step::Answer(n) => {
                if let Some(at) = n.checked_rem(self.asked.len()) {
                    let set = self.asked.remove(at);
                    turns::answered(&mut self.waiting, Some(&set));
                }
            }
            Step::AnswerResumed => {
                if let Some(left) = self.resumed.checked_sub(1) {
                    self.resumed = left;
                    turns::answered(&mut self.waiting, None);
                }
            }
            Step::Run(n) => drop(self.run(n)),
            Step::Fail(n) => {
                if let Some(turn) = self.called(n) {
                    assert!(!turns::is_used(turn.lack, &Err(())));
                    turns::pass_on(&mut self.waiting, &turn);
                }
            }
            Step::Leave(n) => {
                if let Some(at) = n.checked_rem(self.sleeping.len()) {
                    let gone = self.sleeping.remove(at);
                    turns::leave(&mut self.waiting, &gone);
                }
            }
            Step::Flap(resumed) => {
                turns::call_all(&mut self.waiting);
                self.asked.clear();
                self.resumed = resumed;
            }
        }
    }

    /// Those who wait are the ones that were not called; unless one was, nobody waits for what is free.
    fn check(&self) {
        let numbers = |all: &[Waiter]| all.iter().map(|w| w.number).collect::<Vec<_>>();
        let (called, asleep): (Vec<_>, Vec<_>) = self
            .sleeping
            .iter()
            .cloned()
            .partition(|w| w.is_called.get());
        assert_eq!(numbers(&asleep), numbers(&self.waiting.0));
        if called.is_empty() {
            for waiter in &self.waiting.0 {
                assert!(
                    self.lack(&waiter.set).is_some(),
                    "{waiter:?} could ask, and sleeps"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn nobody_sleeps_who_could_ask(steps in prop::collection::vec(step(), 1..80)) {
        let mut link = Link::default();
        for step in steps {
            link.take(step);
            link.check();
        }
        while link.run(0) {
            link.check();
        }
    }
}

/// Calls of others sleep on.
#[test]
fn an_answer_to_one_user_calls_no_call_of_another_one() {
    let mut link = Link::default();
    for n in [0, 0, 1, 1, 0, 1, 0] {
        link.take(Step::Ask(n));
    }
    link.take(Step::Answer(0));
    let called: Vec<_> = link
        .sleeping
        .iter()
        .map(|w| (w.set.0[0], w.is_called.get()))
        .collect();
    assert_eq!(called, [(0, true), (1, false), (0, false)]);
}
