// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The two tables of an engine: sessions of this host, and those of the other one.
//!
//! What a session still has to tell the other host is noted in its entry, with the time of the
//! decision (a count, not a clock), and told in that order; so no message needs a place in a
//! queue, and none is lost. An entry stays until all is told and the other host, too, has
//! finished with it: a number is never ambiguous.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use crate::pairing::message::{Pairing, Why};
use crate::pairing::terms::{Limits, Params, Span};

/// Storage of the caller for entries: a vector or a slice, as long as there may be entries.
pub trait Table<T>: DerefMut<Target = [Option<T>]> {}

impl<T, S: DerefMut<Target = [Option<T>]>> Table<T> for S {}

/// An entry by the number of its session.
pub(crate) trait Numbered {
    fn number(&self) -> u32;
}

/// Tables in which free places may be anywhere.
pub(crate) mod slots {
    use super::Numbered;

    pub(crate) fn find<T: Numbered>(table: &[Option<T>], number: u32) -> Option<&T> {
        table.iter().flatten().find(|e| e.number() == number)
    }

    pub(crate) fn find_mut<T: Numbered>(table: &mut [Option<T>], number: u32) -> Option<&mut T> {
        table.iter_mut().flatten().find(|e| e.number() == number)
    }

    /// Enter an object; `None` if the table is full.
    pub(crate) fn insert<T>(table: &mut [Option<T>], entry: T) -> Option<()> {
        let place = table.iter_mut().find(|place| place.is_none())?;
        *place = Some(entry);
        Some(())
    }

    pub(crate) fn remove<T: Numbered>(table: &mut [Option<T>], number: u32) {
        let is_it = |place: &&mut Option<T>| place.as_ref().is_some_and(|e| e.number() == number);
        if let Some(place) = table.iter_mut().find(is_it) {
            *place = None;
        }
    }
}

/// A table as far as it is used: what is looked through does not grow with the places that it has.
///
/// The first `used` places have entries, in the order of their numbers: so a lookup scans none.
#[derive(Debug)]
pub(super) struct Rows<T, S> {
    store: S,
    used: usize,
    of: PhantomData<T>,
}

pub(super) fn find<T: Numbered, S: Table<T>>(rows: &Rows<T, S>, number: u32) -> Option<&T> {
    rows.get(rows.position(number).ok()?)?.as_ref()
}

pub(super) fn find_mut<T: Numbered, S: Table<T>>(
    rows: &mut Rows<T, S>,
    number: u32,
) -> Option<&mut T> {
    let at = rows.position(number).ok()?;
    rows.get_mut(at)?.as_mut()
}

impl<T: Numbered, S: Table<T>> Rows<T, S> {
    pub(super) fn new(mut store: S) -> Self {
        store.fill_with(|| None);
        Rows {
            store,
            used: 0,
            of: PhantomData,
        }
    }

    /// Where the entry with that number is, or else belongs.
    fn position(&self, number: u32) -> Result<usize, usize> {
        // All places that are used have an entry.
        self.binary_search_by_key(&Some(number), |entry| entry.as_ref().map(T::number))
    }

    /// Whether one more entry may be there, of `most` at most.
    pub(super) fn has_place(&self, most: usize) -> bool {
        self.used < most.min(self.store.len())
    }

    /// Enter a session that is not there; `None` if the table is full.
    pub(super) fn insert(&mut self, entry: T) -> Option<()> {
        let (Ok(at) | Err(at)) = self.position(entry.number());
        let behind = self.store.get_mut(at..=self.used)?;
        behind.rotate_right(1);
        *behind.first_mut()? = Some(entry);
        self.used += 1;
        Some(())
    }

    pub(super) fn remove(&mut self, number: u32) {
        let Ok(at) = self.position(number) else {
            return;
        };
        if let Some(behind) = self.get_mut(at..) {
            behind.rotate_left(1);
        }
        if let Some(last) = self.last_mut() {
            *last = None;
            self.used -= 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.fill_with(|| None);
        self.used = 0;
    }
}

impl<T, S: Table<T>> Deref for Rows<T, S> {
    type Target = [Option<T>];

    fn deref(&self) -> &[Option<T>] {
        self.store.get(..self.used).unwrap_or(&[])
    }
}

impl<T, S: Table<T>> DerefMut for Rows<T, S> {
    fn deref_mut(&mut self) -> &mut [Option<T>] {
        self.store.get_mut(..self.used).unwrap_or(&mut [])
    }
}

/// When something was decided that is still to be told; zero if there is nothing.
pub(super) type Due = u64;

/// The earliest of what is due.
pub(super) fn earliest<K: Copy>(all: impl IntoIterator<Item = (Due, K)>) -> Option<(Due, K)> {
    let due = all.into_iter().filter(|(due, _)| *due != 0);
    due.min_by_key(|(due, _)| *due)
}

/// What an own session is to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// The other session's number.
    pub partner: u32,
    /// The window backed here.
    pub local: Option<Span>,
    /// The window backed on the other host.
    pub remote: Option<Span>,
    /// The other session is closed.
    pub partner_closed: bool,
}

/// Where an own session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Looks for a partner while the process waits.
    Asking,
    /// Its post has not been acknowledged; the process waits.
    Posting,
    /// A client whose request is at a server that answers itself, under that number; zero if the
    /// arbiter has not told which.
    Held(u32),
    /// Posted.
    Open,
    /// Has, or had, a partner.
    Paired(Pair),
    /// The other host knows it no more.
    Over,
}

/// What the asker holds for a session while the arbiter decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Nothing,
    /// Nothing can be held: the answer to the arbiter's last question.
    Denied,
    Window(Option<Span>),
}

/// A session of this host.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    pub(super) number: u32,
    pub(super) params: Params,
    /// Its identifier; zero while it has none.
    pub(super) uid: u32,
    pub(super) stage: Stage,
    /// Its owner has closed it.
    pub(super) closed: bool,
    /// When it began to ask, and later, when it was posted.
    pub(super) order: u64,
    pub(super) hold: Hold,
    /// REQUEST or POST, by its stage.
    pub(super) ask: Due,
    /// RESERVED.
    pub(super) answer: Due,
    /// CLOSE.
    pub(super) close: Due,
    /// Of a server that answers itself: the client whose request is at hand.
    pub(super) client: Option<u32>,
    /// When that was accepted.
    pub(super) accepted: Due,
    /// ACCEPT, or REJECT.
    pub(super) verdict: Due,
    /// The client that REJECT is for, and the reason.
    pub(super) rejects: Option<(u32, u32)>,
}

impl Own {
    pub(super) fn new(number: u32, params: &Params, stage: Stage) -> Own {
        Own {
            number,
            params: *params,
            uid: 0,
            stage,
            closed: false,
            order: 0,
            hold: Hold::Nothing,
            ask: 0,
            answer: 0,
            close: 0,
            client: None,
            accepted: 0,
            verdict: 0,
            rejects: None,
        }
    }

    pub(super) fn pair(&self) -> Option<&Pair> {
        match &self.stage {
            Stage::Paired(pair) => Some(pair),
            _ => None,
        }
    }

    /// Whether it may be given a partner that asks for one.
    pub(super) fn waits(&self) -> bool {
        self.stage == Stage::Open && !self.closed && self.client.is_none()
    }

    /// Whether it looks for a partner for its process.
    pub(super) fn asks(&self) -> bool {
        self.stage == Stage::Asking && !self.closed
    }

    /// Whether its request waits for an answer.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Held(_)) && !self.closed
    }

    /// Whether nobody needs the entry any more.
    pub(super) fn is_finished(&self) -> bool {
        let dues = [self.ask, self.answer, self.close, self.verdict];
        let told = dues == [0; 4];
        told && match self.stage {
            Stage::Over => true,
            Stage::Paired(pair) => self.closed && pair.partner_closed,
            _ => false,
        }
    }
}

impl Numbered for Own {
    fn number(&self) -> u32 {
        self.number
    }
}

/// Where a session of the other host stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FarStage {
    /// Looks for a partner; known to the arbiter only.
    Asking,
    /// A client whose request an own server, of that number, has at hand.
    Held(u32),
    /// Posted.
    Open,
    /// Has an own session for a partner; not closed. Sizes as that host sees them.
    Paired { local: u64, remote: u64 },
    /// Refused or closed: stays until the other host has been told.
    Gone,
}

/// What the arbiter has to tell about a session of the asker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Reserve(Limits),
    Release,
    Unable,
    Paired(Pairing),
}

/// What the other host is to learn of its session for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Posted,
    Refused(Why),
    Closed,
}

/// A session of the other host.
#[derive(Debug, Clone, Copy)]
pub struct Far {
    pub(super) number: u32,
    pub(super) params: Params,
    /// Its identifier; zero while it has none.
    pub(super) uid: u32,
    pub(super) stage: FarStage,
    /// Its own partner, zero without one.
    pub(super) partner: u32,
    /// When it began to ask, and later, when it was posted.
    pub(super) order: u64,
    pub(super) answer: Due,
    pub(super) answer_is: Answer,
    pub(super) step: Due,
    pub(super) step_is: Step,
    /// HELD.
    pub(super) notice: Due,
    /// Of a server that answers itself: the own client whose request it has; zero without.
    pub(super) client: u32,
    /// When it has accepted that.
    pub(super) accepted: Due,
}

impl Far {
    pub(super) fn new(number: u32, params: &Params, uid: u32, stage: FarStage) -> Far {
        Far {
            number,
            params: *params,
            uid,
            stage,
            partner: 0,
            order: 0,
            answer: 0,
            answer_is: Answer::Posted,
            step: 0,
            step_is: Step::Release,
            notice: 0,
            client: 0,
            accepted: 0,
        }
    }

    /// Whether it may be given a partner that asks for one.
    pub(super) fn waits(&self) -> bool {
        self.stage == FarStage::Open && self.client == 0
    }

    /// Whether processes of this host see it.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.stage, FarStage::Open | FarStage::Paired { .. })
    }

    /// Whether nobody needs the entry any more.
    pub(super) fn is_finished(&self) -> bool {
        let dues = [self.answer, self.step, self.notice];
        self.stage == FarStage::Gone && dues == [0; 3]
    }
}

impl Numbered for Far {
    fn number(&self) -> u32 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::rc::Rc;
    use std::vec;
    use std::vec::Vec;

    /// An entry that counts how often its number is looked at.
    #[derive(Clone)]
    struct Counted(u32, Rc<Cell<u32>>);

    impl Numbered for Counted {
        fn number(&self) -> u32 {
            self.1.set(self.1.get() + 1);
            self.0
        }
    }

    #[test]
    fn a_lookup_does_not_scan() {
        let looks = Rc::new(Cell::new(0));
        let mut rows = Rows::new(vec![None; 1024]);
        for number in 0..1024 {
            assert_eq!(rows.insert(Counted(2 * number, looks.clone())), Some(()));
        }
        for number in [0, 1, 511, 1023, 2046, 5000] {
            looks.set(0);
            let is_there = find(&rows, number).is_some();
            assert_eq!(is_there, number % 2 == 0 && number < 2048);
            assert!(looks.get() <= 12, "{} looks", looks.get());
        }
    }

    proptest! {
        #[test]
        fn entries_are_found_by_their_numbers(steps in prop::collection::vec((0u32..12, any::<bool>()), 1..80)) {
            let looks = Rc::new(Cell::new(0));
            let mut rows = Rows::new(vec![None; 8]);
            let mut known = BTreeSet::new();
            for (number, enters) in steps {
                if !enters {
                    rows.remove(number);
                    known.remove(&number);
                } else if !known.contains(&number) {
                    let entered = rows.insert(Counted(number, looks.clone()));
                    prop_assert_eq!(entered.is_some(), known.len() < 8);
                    entered.map(|()| known.insert(number));
                }
                prop_assert_eq!(rows.has_place(8), known.len() < 8);
                let there: Vec<_> = rows.iter().map(|e| e.as_ref().map(|e| e.0)).collect();
                prop_assert!(there.iter().copied().eq(known.iter().copied().map(Some)));
                for number in 0..12 {
                    let found = find_mut(&mut rows, number).map(|e| e.0);
                    prop_assert_eq!(found, known.get(&number).copied());
                }
            }
        }
    }
}
