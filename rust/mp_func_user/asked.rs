// SPDX-License-Identifier: GPL-2.0-only

//! Own connections that a peer has not answered, and calls that wait for their turn to ask it.
//!
//! Of one user there are so many that others have room. Who has to wait is woken by an answer that
//! can be its turn: one to its own user, or, where all users together have asked for as much as
//! can be, one to anybody. An answer to one user wakes no call of another one otherwise.

use crate::quota::{
    Kind,
    Share, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    error,
    new_wait_queue,
    process::Payers,
    wait::{
        Events,
        Sleep,
        WaitQueue, //
    }, //
};
use mp_proto::sharing::UNANSWERED;

/// Most connections of one user that a peer has not answered: of all, a quarter.
const ASKED: u64 = UNANSWERED as u64 / 4;

/// Sets of payers that are told apart when calls are woken: of one user and its namespaces there are
/// few. Calls of more sets are woken without need.
const SETS: usize = 8;

/// What a call lacks that is to ask for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    /// Its user has asked for too many.
    Share,
    /// All users together have.
    Place,
}

/// A call that waits for its turn.
#[pin_data]
pub(crate) struct Waiter {
    payers: Arc<Payers>,
    lack: Lack,
    is_called: Atomic<bool>,
    #[pin]
    queue: WaitQueue,
}

impl Waiter {
    fn new(payers: &Arc<Payers>, lack: Lack) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            payers: payers.clone(),
            lack,
            is_called: Atomic::new(false),
            queue <- new_wait_queue!("mp_asked"),
        });
        // Under the link's lock, which others take: not charged.
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// It may be its turn.
    fn call(&self) {
        self.is_called.store(true, Release);
        self.queue.wake(Events::IN);
    }

    /// Whether its turn was used by a call that `asked` is the outcome of, or would be of no use to
    /// others like it.
    pub(crate) fn was_for(&self, asked: &Result<Option<Lack>>) -> bool {
        match asked {
            Ok(lack) => lack.is_none_or(|lack| lack == self.lack),
            Err(_) => false,
        }
    }

    /// Whether one of those pays for it.
    fn is_of(&self, payers: &Payers) -> bool {
        payers
            .iter()
            .any(|payer| self.payers.iter().any(|own| own == payer))
    }

    /// Wait until it may be its turn; without the link's lock.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, `ERESTARTSYS` if the process is being killed: it is to [leave](Asked::leave).
    pub(crate) fn wait(&self, deadline: Option<u64>) -> Result {
        let is_called = || self.is_called.load(Acquire);
        self.queue
            .wait_until(Sleep::Killable, deadline, is_called)
            .ok()
    }
}

/// The calls that an answer has woken.
#[derive(Default)]
struct Woken {
    /// A call that lacked a place.
    has_place: bool,
    /// Payers of those that lacked a share.
    sets: [Option<Arc<Payers>>; SETS],
}

impl Woken {
    /// Whether a call is the first of its kind. Those of one set of payers lack the same.
    fn is_first(&mut self, waiter: &Waiter) -> bool {
        if waiter.lack == Lack::Place {
            return !core::mem::replace(&mut self.has_place, true);
        }
        for set in &mut self.sets {
            match set {
                Some(known) if **known == *waiter.payers => return false,
                Some(_) => {}
                None => {
                    *set = Some(waiter.payers.clone());
                    return true;
                }
            }
        }
        true
    }
}

/// The own connections of a link that the peer has not answered, some of them left, and who waits.
pub(crate) struct Asked {
    /// What each counts as.
    all: KVec<(u32, Share)>,
    /// In the order in which they have come.
    waiting: KVec<Arc<Waiter>>,
}

impl Asked {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            all: KVec::new(),
            waiting: KVec::new(),
        }
    }

    /// A connection of that number is about to be asked for at an interface; what it lacks, if it
    /// cannot be now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn enter(
        &mut self,
        number: u32,
        payers: &Arc<Payers>,
        interface: u32,
    ) -> Result<Option<Lack>> {
        match Share::new(payers, Kind::Asked(interface), 1, ASKED) {
            Ok(share) => {
                self.all.push((number, share), GFP_KERNEL)?;
                Ok(None)
            }
            Err(e) if e == error::quota() => Ok(Some(Lack::Share)),
            Err(e) => Err(e),
        }
    }

    /// It was not asked for after all.
    pub(crate) fn take(&mut self, number: u32) -> Option<Share> {
        let at = self.all.iter().position(|(of, _)| *of == number)?;
        let (_, share) = self.all.remove(at).ok()?;
        Some(share)
    }

    /// The peer has answered one of them, or one that was resumed: that is nobody's share, but has
    /// taken a place.
    pub(crate) fn answered(&mut self, number: u32) {
        let payers = self.take(number).map(|share| share.payers().clone());
        let mut woken = Woken::default();
        self.call(|waiter| {
            let is_payers = payers.as_ref().is_some_and(|payers| waiter.is_of(payers));
            (waiter.lack == Lack::Place || is_payers) && woken.is_first(waiter)
        });
    }

    /// Wake all for whom `is_turn`: they do not wait any more.
    fn call(&mut self, mut is_turn: impl FnMut(&Waiter) -> bool) {
        self.waiting.retain(|waiter| {
            let is_called = is_turn(waiter);
            if is_called {
                waiter.call();
            }
            !is_called
        });
    }

    /// A call has to wait for what it lacks, from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn wait_for(&mut self, payers: &Arc<Payers>, lack: Lack) -> Result<Arc<Waiter>> {
        let waiter = Waiter::new(payers, lack)?;
        self.waiting.push(waiter.clone(), GFP_KERNEL)?;
        Ok(waiter)
    }

    /// A call that was woken has not used its turn: that is the next one's.
    pub(crate) fn pass_on(&mut self, from: &Waiter) {
        let mut woken = Woken::default();
        self.call(|waiter| {
            let lacked = waiter.lack == from.lack;
            let is_like = from.lack == Lack::Place || *waiter.payers == *from.payers;
            lacked && is_like && woken.is_first(waiter)
        });
    }

    /// A call does not wait any more. If it was woken, its turn is the next one's.
    pub(crate) fn leave(&mut self, waiter: &Arc<Waiter>) {
        let at = self.waiting.iter().position(|w| Arc::ptr_eq(w, waiter));
        match at.and_then(|at| self.waiting.remove(at).ok()) {
            Some(gone) => drop(gone),
            None => self.pass_on(waiter),
        }
    }

    /// Nothing will be answered.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.call(|_| true);
    }
}
