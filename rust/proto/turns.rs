// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Whose turn it is among calls that wait until they may ask a peer for a connection.
//!
//! A peer answers so many connections of all users at a time, and of one user a part of these. A call
//! that finds no room waits. What becomes free calls one that can use it: an answer to one user, the
//! first that waits for a share of that user; any answer, the first that waits for a place. No other
//! call is woken. A call that has been called asks again, and may find that another one was faster:
//! what it does not use it passes on.
//!
//! The caller has one lock around all of it, and the list of those who wait.

/// What a call lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Its user has asked for too many.
    Share,
    /// All users together have.
    Place,
}

/// Those who pay for a call: a user, and owners of namespaces that it is in. Calls of equal sets lack
/// the same.
pub trait Payers: Clone + PartialEq {
    /// Whether somebody is in both sets.
    fn meets(&self, other: &Self) -> bool;
}

/// A call that waits.
pub trait Call {
    /// Who pays for it.
    type Payers: Payers;

    /// What it waits for.
    fn lack(&self) -> Lack;

    /// Who pays for it.
    fn payers(&self) -> &Self::Payers;

    /// It may be its turn.
    fn call(&self);

    /// Whether it is the same call.
    fn is(&self, other: &Self) -> bool;
}

/// Calls in the order in which they have come.
pub trait Calls {
    /// One of them.
    type Call: Call;

    /// Keep those for which `keep`, which is called for each of them in order.
    fn retain(&mut self, keep: impl FnMut(&Self::Call) -> bool);
}

/// Whether a call that lacked `before` has used its turn, or would leave nothing for others like it:
/// `now` is what it lacked when it asked again, `None` if nothing, and `Err` if it has given up.
pub fn is_used<E>(before: Lack, now: &Result<Option<Lack>, E>) -> bool {
    match now {
        Ok(lack) => lack.is_none_or(|lack| lack == before),
        Err(_) => false,
    }
}

/// Sets of payers that are told apart when calls are woken: of one user and its namespaces there are
/// few. Calls of more sets are woken without need.
const SETS: usize = 8;

/// The calls that something free has woken.
struct Woken<P> {
    /// A call that lacked a place.
    has_place: bool,
    /// Payers of those that lacked a share.
    sets: [Option<P>; SETS],
}

impl<P: Payers> Woken<P> {
    fn none() -> Self {
        Self {
            has_place: false,
            sets: [const { None }; SETS],
        }
    }

    /// Whether a call is the first of its kind.
    fn is_first(&mut self, lack: Lack, payers: &P) -> bool {
        if lack == Lack::Place {
            return !core::mem::replace(&mut self.has_place, true);
        }
        for set in &mut self.sets {
            match set {
                Some(known) if known == payers => return false,
                Some(_) => {}
                None => {
                    *set = Some(payers.clone());
                    return true;
                }
            }
        }
        true
    }
}

/// Wake the first of each kind for which `is_free`: they do not wait any more.
fn call<C: Calls>(calls: &mut C, is_free: impl Fn(Lack, &<C::Call as Call>::Payers) -> bool) {
    let mut woken = Woken::none();
    calls.retain(|waiting| {
        let (lack, payers) = (waiting.lack(), waiting.payers());
        let is_called = is_free(lack, payers) && woken.is_first(lack, payers);
        if is_called {
            waiting.call();
        }
        !is_called
    });
}

/// The peer has answered: a place is free, and a share of `payers`, if what it has answered was one's.
pub fn answered<C: Calls>(calls: &mut C, payers: Option<&<C::Call as Call>::Payers>) {
    call(calls, |lack, of| {
        lack == Lack::Place || payers.is_some_and(|payers| of.meets(payers))
    });
}

/// A call that was called has not used its turn: that is the next one's.
pub fn pass_on<C: Calls>(calls: &mut C, from: &C::Call) {
    call(calls, |lack, payers| {
        lack == from.lack() && (lack == Lack::Place || payers == from.payers())
    });
}

/// A call does not wait any more. If it was called, its turn is the next one's.
pub fn leave<C: Calls>(calls: &mut C, gone: &C::Call) {
    let mut has_waited = false;
    calls.retain(|waiting| {
        let is_gone = waiting.is(gone);
        has_waited |= is_gone;
        !is_gone
    });
    if !has_waited {
        pass_on(calls, gone);
    }
}

/// Nothing will be answered.
pub fn call_all<C: Calls>(calls: &mut C) {
    calls.retain(|waiting| {
        waiting.call();
        false
    });
}
