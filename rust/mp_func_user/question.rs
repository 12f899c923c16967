// SPDX-License-Identifier: GPL-2.0-only

//! Questions to the peer's service, which answers behind all that was stored before: what
//! barriers wait for, and processes that are about to sleep.
//!
//! What asks is one signal for each life of the link, which has a place of its own in the outbox:
//! asking fails only when the link is down.

use crate::outbox::{
    Outbox,
    Signal, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Release, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    barrier,
    error,
    new_spinlock_bh,
    new_wait_queue,
    sync::SpinLockBh,
    wait::{
        Events,
        Sleep,
        WaitQueue, //
    }, //
};
use mp_proto::{
    fabric::Life,
    sharing::question::{
        self,
        Heard,
        Ticket, //
    }, //
};

/// The way to the peer's service, and the message that asks it.
pub(crate) type Way = (Arc<Outbox>, Arc<Signal>);

struct State {
    engine: question::Questions,
    /// While both services listen to each other.
    way: Option<Way>,
}

/// The questions of one link.
#[pin_data]
pub(crate) struct Questions {
    #[pin]
    state: SpinLockBh<State>,
    /// The number of the last question, which the message carries that leaves.
    last: Arc<Atomic<u32>>,
    #[pin]
    queue: WaitQueue,
}

impl Questions {
    /// Nobody to be asked.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            state <- new_spinlock_bh!(State {
                engine: question::Questions::default(),
                way: None,
            }),
            last: Arc::new(Atomic::new(0), GFP_KERNEL)?,
            queue <- new_wait_queue!("mp_question"),
        })
    }

    /// What asks the service of that life, which does not listen yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS`.
    pub(crate) fn way(&self, outbox: &Arc<Outbox>, life: Life) -> Result<Way> {
        let signal = Signal::question(outbox, life, self.last.clone(), true)?;
        Ok((outbox.clone(), signal))
    }

    /// That service listens from now on.
    pub(crate) fn open(&self, way: Way) {
        let old = self.state.lock().way.replace(way);
        drop(old);
    }

    /// It does not any more: what was asked is not answered.
    pub(crate) fn close(&self) {
        let way = {
            let mut state = self.state.lock();
            state.engine.lose();
            state.way.take()
        };
        self.queue.wake(Events::IN);
        drop(way);
    }

    /// Ask for all that this processor has stored before.
    ///
    /// # Errors
    ///
    /// `ENETDOWN`.
    pub(crate) fn ask(&self) -> Result<Ticket> {
        // Also ahead of a message that is about to leave, and tells this number.
        barrier::wmb();
        let (ticket, way) = {
            let mut state = self.state.lock();
            let State { engine, way } = &mut *state;
            let way = way.as_ref().ok_or_else(error::net_down)?;
            let (ticket, sends) = engine.ask();
            self.last.store(engine.last(), Release);
            (ticket, sends.then(|| way.clone()))
        };
        self.send(way);
        Ok(ticket)
    }

    /// A question has been answered. Any context but hard interrupts.
    pub(crate) fn answered(&self, number: u32) {
        let way = {
            let mut state = self.state.lock();
            let Heard::Answered { sends } = state.engine.answered(number) else {
                // A peer that answers what nobody has asked wakes nobody.
                return;
            };
            sends.then(|| state.way.clone()).flatten()
        };
        self.queue.wake(Events::IN);
        self.send(way);
    }

    fn send(&self, way: Option<Way>) {
        let Some((outbox, signal)) = way else { return };
        // It has a place of its own.
        let _ = outbox.signal(&signal);
    }

    /// Whether a question has been answered. Any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// `ENETDOWN`: it will not be.
    pub(crate) fn is_answered(&self, ticket: Ticket) -> Result<bool> {
        let answered = self.state.lock().engine.is_answered(ticket);
        answered.map_err(|_| error::net_down())
    }

    /// Wait for an answer.
    ///
    /// # Errors
    ///
    /// `ENETDOWN`, `ETIMEDOUT`, `ERESTARTSYS` if the process is being killed.
    pub(crate) fn wait(&self, ticket: Ticket, deadline: Option<u64>) -> Result {
        let mut answered = Ok(false);
        let waited = self.queue.wait_until(Sleep::Killable, deadline, || {
            answered = self.is_answered(ticket);
            answered != Ok(false)
        });
        answered?;
        waited.ok()
    }

    /// Where those wait who have asked.
    pub(crate) fn queue(&self) -> &WaitQueue {
        &self.queue
    }
}
