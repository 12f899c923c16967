// SPDX-License-Identifier: GPL-2.0-only

//! Own connections that a peer has not answered, and calls that wait for their turn to ask it.
//!
//! Of one user there are so many that others have room. Whose turn it is [`mp_proto::turns`] decides;
//! this has the memory for it, the shares, and the queues in which calls sleep.

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
use mp_proto::{
    sharing::UNANSWERED,
    turns::{
        self,
        Call,
        Calls,
        Lack, //
    }, //
};

/// Most connections of one user that a peer has not answered: of all, a quarter.
const ASKED: u64 = UNANSWERED as u64 / 4;

/// Who pays for a call.
#[derive(Clone)]
pub(crate) struct Payer(Arc<Payers>);

impl PartialEq for Payer {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl turns::Payers for Payer {
    fn meets(&self, other: &Self) -> bool {
        self.0
            .iter()
            .any(|payer| other.0.iter().any(|of| of == payer))
    }
}

/// A call that waits for its turn.
#[pin_data]
pub(crate) struct Waiter {
    payers: Payer,
    lack: Lack,
    is_called: Atomic<bool>,
    #[pin]
    queue: WaitQueue,
}

impl Waiter {
    fn new(payers: &Arc<Payers>, lack: Lack) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            payers: Payer(payers.clone()),
            lack,
            is_called: Atomic::new(false),
            queue <- new_wait_queue!("mp_asked"),
        });
        // Under the link's lock, which others take: not charged.
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Whether its turn was used by a call that `asked` is the outcome of, or would be of no use to
    /// others like it.
    pub(crate) fn was_for(&self, asked: &Result<Option<Lack>>) -> bool {
        turns::is_used(self.lack, asked)
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

impl Call for Waiter {
    type Payers = Payer;

    fn lack(&self) -> Lack {
        self.lack
    }

    fn payers(&self) -> &Payer {
        &self.payers
    }

    fn call(&self) {
        self.is_called.store(true, Release);
        self.queue.wake(Events::IN);
    }

    fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

/// Calls that wait, in the order in which they have come.
struct Line(KVec<Arc<Waiter>>);

impl Calls for Line {
    type Call = Waiter;

    fn retain(&mut self, mut keep: impl FnMut(&Waiter) -> bool) {
        self.0.retain(|waiter| keep(waiter));
    }
}

/// The own connections of a link that the peer has not answered, some of them left, and who waits.
pub(crate) struct Asked {
    /// What each counts as.
    all: KVec<(u32, Share)>,
    waiting: Line,
}

impl Asked {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            all: KVec::new(),
            waiting: Line(KVec::new()),
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
        let payers = self.take(number).map(|share| Payer(share.payers().clone()));
        turns::answered(&mut self.waiting, payers.as_ref());
    }

    /// A call has to wait for what it lacks, from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn wait_for(&mut self, payers: &Arc<Payers>, lack: Lack) -> Result<Arc<Waiter>> {
        let waiter = Waiter::new(payers, lack)?;
        self.waiting.0.push(waiter.clone(), GFP_KERNEL)?;
        Ok(waiter)
    }

    /// A call that was woken has not used its turn: that is the next one's.
    pub(crate) fn pass_on(&mut self, from: &Waiter) {
        turns::pass_on(&mut self.waiting, from);
    }

    /// A call does not wait any more. If it was woken, its turn is the next one's.
    pub(crate) fn leave(&mut self, waiter: &Waiter) {
        turns::leave(&mut self.waiting, waiter);
    }

    /// Nothing will be answered.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        turns::call_all(&mut self.waiting);
    }
}
