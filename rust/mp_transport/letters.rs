// SPDX-License-Identifier: GPL-2.0-only

//! Messages of peers that wait for the worker of [`management`](crate::management), in the order in
//! which they have come. Each peer has a [share](mp_proto::letters) of its own, and memory for what
//! peers have to say is there before they are.

use crate::peer::Peer;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    error,
    fifo::{
        Chunked,
        Supply, //
    },
    new_spinlock_bh,
    sync::SpinLockBh, //
};
use mp_proto::{
    letters::{
        in_advance,
        Shares, //
    },
    manage::Message, //
};

/// Messages that get memory at a time.
const CHUNK: usize = 64;

/// A message that waits.
pub(crate) struct Letter {
    pub(crate) from: Arc<Peer>,
    pub(crate) message: Message,
}

struct Waiting {
    letters: Chunked<Letter, CHUNK>,
    shares: Shares,
}

/// The messages.
#[pin_data]
pub(crate) struct Letters {
    #[pin]
    waiting: SpinLockBh<Waiting>,
}

impl Letters {
    /// None, and no memory for any.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            waiting <- new_spinlock_bh!(Waiting {
                letters: Chunked::new(),
                shares: Shares::new(),
            }),
        })
    }

    /// Get memory for what so many peers have to say. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn make_room(&self, peers: usize) -> Result {
        let places = in_advance(peers);
        let mut supply = Supply::new();
        // Ends: what comes meanwhile does not take more than it has brought memory for.
        while !self
            .waiting
            .lock()
            .letters
            .reserve_from(places, &mut supply)
        {
            supply.fill(GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Add a message. Softirq context.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if the peer has its share already, `ENOMEM` beyond what there is memory for.
    pub(crate) fn push(&self, from: &Arc<Peer>, message: Message) -> Result {
        let index = from.index();
        let from = from.clone();
        let mut waiting = self.waiting.lock();
        if !waiting.shares.take(index) {
            return Err(error::no_buffers());
        }
        let pushed = waiting.letters.push(Letter { from, message });
        pushed.inspect_err(|_| waiting.shares.give_back(index))
    }

    /// Take the oldest message out.
    pub(crate) fn pop(&self) -> Option<Letter> {
        let mut waiting = self.waiting.lock();
        let letter = waiting.letters.pop()?;
        waiting.shares.give_back(letter.from.index());
        Some(letter)
    }
}
