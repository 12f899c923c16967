// SPDX-License-Identifier: GPL-2.0-only

//! Waits until it is proven that nobody reaches memory any more whose connections were ended.
//!
//! The proof is the peer's word that a connection is gone, or the link's next epoch. The peer's
//! service takes the mappings of its processes away and stops their copies, without the
//! processes, before it says that; what it has stored is ahead of its word. A peer that does not
//! answer in time loses the epoch of its link, and has let go of everything before it joins the
//! next one. That this host calls the link down proves nothing: a peer that stands still does not
//! know, and goes on where it was.

use crate::link::Link;
use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full, //
    }, //
};
use mp_kernel::{
    error,
    new_wait_queue,
    time::monotonic_ns,
    wait::{
        Events,
        Sleep,
        WaitQueue, //
    }, //
};

/// A peer that is up takes no longer to let go of memory.
const ANSWER_NS: u64 = 5_000_000_000;

/// A peer that works takes no longer to join the next epoch.
const EPOCH_NS: u64 = 5_000_000_000;

/// The connections of one link that were ended.
#[pin_data]
pub(crate) struct Leaving {
    /// How many have let go, modulo 2^32.
    gone: Atomic<u32>,
    #[pin]
    queue: WaitQueue,
}

impl Leaving {
    /// None.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            gone: Atomic::new(0),
            queue <- new_wait_queue!("mp_leaving"),
        })
    }

    /// One of them has let go. Any context.
    pub(crate) fn has_let_go(&self) {
        self.gone.fetch_add(1, Full);
        self.queue.wake(Events::IN);
    }

    /// Wait until it is proven that nobody reaches a segment's memory by a connection that was
    /// ended; a peer that does not answer loses its link.
    ///
    /// # Errors
    ///
    /// `EINPROGRESS` if that is not proven yet, at once if there is no peer to ask; `ERESTARTSYS`
    /// if the process is being killed.
    pub(crate) fn wait(&self, link: &Link, segment: u32) -> Result {
        if !link.is_ending(segment) {
            return Ok(());
        }
        if !link.has_partner() {
            return Err(error::in_progress());
        }
        let asked = monotonic_ns();
        let last = asked + ANSWER_NS + EPOCH_NS;
        let answered = link.shortage().wait(asked, ANSWER_NS, |deadline| {
            match self.wait_until(deadline.min(last), link, segment) {
                // The peer may not have been asked.
                Err(e) if e == ETIMEDOUT && deadline > last => Err(error::in_progress()),
                answered => answered,
            }
        });
        match answered {
            Err(e) if e == ETIMEDOUT => link.reset(),
            answered => return answered,
        }
        match self.wait_until(monotonic_ns() + EPOCH_NS, link, segment) {
            Err(e) if e == ETIMEDOUT => Err(error::in_progress()),
            ended => ended,
        }
    }

    /// Wait for the proof until that time.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, `ERESTARTSYS` if the process is being killed.
    fn wait_until(&self, deadline: u64, link: &Link, segment: u32) -> Result {
        loop {
            let seen = self.gone.load(Acquire);
            if !link.is_ending(segment) {
                return Ok(());
            }
            let has_changed = || self.gone.load(Acquire) != seen;
            let queue = &self.queue;
            queue
                .wait_until(Sleep::Killable, Some(deadline), has_changed)
                .ok()?;
        }
    }
}
