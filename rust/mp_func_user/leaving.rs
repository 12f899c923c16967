// SPDX-License-Identifier: GPL-2.0-only

//! Waits until nobody reaches memory any more whose connections were ended.
//!
//! The peer's service takes the mappings of its processes away and stops their copies, without
//! the processes, before it says that a connection is gone. What it has stored is ahead of that.
//! One that does not say so in time loses the epoch of its link.

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
    new_wait_queue,
    time::monotonic_ns,
    wait::{
        Events,
        WaitQueue, //
    }, //
};

/// A peer that is up takes no longer to let go of memory.
const PATIENCE_NS: u64 = 5_000_000_000;

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

    /// Returns when no connection to what has that token is left that was ended.
    ///
    /// # Errors
    ///
    /// `EINTR` if the process is being killed.
    pub(crate) fn wait(&self, link: &Link, token: u32) -> Result {
        let mut deadline = Some(monotonic_ns() + PATIENCE_NS);
        loop {
            let seen = self.gone.load(Acquire);
            if !link.is_ending(token) {
                return Ok(());
            }
            let has_changed = || self.gone.load(Acquire) != seen;
            match self.queue.wait_until(deadline, has_changed).ok() {
                Err(e) if e == ETIMEDOUT => {
                    // With the epoch all of them end, without the peer.
                    link.reset();
                    deadline = None;
                }
                waited => waited?,
            }
        }
    }
}
