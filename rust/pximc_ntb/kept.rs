// SPDX-License-Identifier: GPL-2.0-only

//! Records that functions keep in the rings of a channel.
//!
//! A function may give a record back in any context, also while it receives the
//! next one, when the ring is locked. Hence giving back only sets a flag; the next
//! poll releases the record. It is asked for only if much of the ring is held: polls
//! that follow one another at once would keep programs from running. The same goes for
//! a record that could not be moved out while the engine copied it.

use crate::{
    channel::queue_of,
    dma::Engine,
    inward::InRing,
    memory::LocalMemory, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    barrier,
    bytes::Writer, //
};
use mp_proto::receiving::RX_HELD;
use mp_transport::{
    copy::{
        Buffers,
        Completion, //
    },
    frame::RxData,
    kept::{
        Hold,
        Holder, //
    }, //
};

const WORDS: usize = RX_HELD / u64::BITS as usize;

/// What has been given back of a ring.
struct Returns {
    /// The places of these records: a bit for each.
    places: [Atomic<u64>; WORDS],
    /// Whether a poll is to follow the next one. Either who gives back sees that it is so, or
    /// the poll that has set it finds what was given back: full barriers on both sides.
    urgent: Atomic<bool>,
}

impl Returns {
    const fn new() -> Self {
        Self {
            places: [const { Atomic::new(0) }; WORDS],
            urgent: Atomic::new(false),
        }
    }

    fn put(&self, place: usize) {
        let bits = u64::BITS as usize;
        if let Some(word) = self.places.get(place / bits) {
            // The bit is clear: a place is given back once before it is released.
            word.fetch_add(1 << (place % bits), Full);
        }
    }

    fn take(&self, mut f: impl FnMut(usize)) {
        for (word, first) in self.places.iter().zip((0..).step_by(u64::BITS as usize)) {
            if word.load(Relaxed) == 0 {
                continue;
            }
            let mut places = word.xchg(0, Acquire);
            while places != 0 {
                f(first + places.trailing_zeros() as usize);
                places &= places - 1;
            }
        }
    }
}

/// The kept records of a channel, as those see them who keep them.
pub(crate) struct Keeper {
    inb: LocalMemory,
    engine: Arc<Engine>,
    /// By ring.
    returns: KVec<Returns>,
}

impl Keeper {
    /// For the rings of the channel that has `engine`, which lie in `inb`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(inb: &LocalMemory, engine: Arc<Engine>, rings: usize) -> Result<Self> {
        let mut returns = KVec::with_capacity(rings, GFP_KERNEL)?;
        for _ in 0..rings {
            returns.push(Returns::new(), GFP_KERNEL)?;
        }
        Ok(Self {
            inb: inb.clone(),
            engine,
            returns,
        })
    }

    /// What names the record at `place` of ring `number`.
    pub(crate) fn token(number: u32, place: usize) -> u64 {
        u64::from(number) << 32 | place as u64
    }

    /// Whether a poll of ring `number` is to follow a record that is given back or unpinned.
    pub(crate) fn set_urgent(&self, number: u32, urgent: bool) {
        if let Some(returns) = self.returns.get(number as usize) {
            returns.urgent.xchg(urgent, Full);
        }
    }

    /// A record of ring `number` can leave the ring, which has been made known before a full
    /// barrier.
    fn poll_if_urgent(&self, number: u32) {
        let returns = self.returns.get(number as usize);
        if returns.is_some_and(|returns| returns.urgent.load(Relaxed)) {
            self.engine.poll_queue(queue_of(number));
        }
    }

    /// Call `f` with the place of each record of ring `number` that was given
    /// back since the last call.
    pub(crate) fn take_returned(&self, number: u32, f: impl FnMut(usize)) {
        if let Some(returns) = self.returns.get(number as usize) {
            returns.take(f);
        }
    }
}

/// The ring of a record that is kept.
fn ring_of(hold: &Hold) -> u32 {
    (hold.token >> 32) as u32
}

impl Holder for Keeper {
    fn copy_to(&self, hold: &Hold, offset: usize, dst: Writer<'_>) -> Result {
        let (inb, parts) = (&self.inb, hold.parts);
        InRing { inb, parts }.copy_to(offset, dst)
    }

    fn sync(&self, hold: &Hold, buffers: &Buffers<'_>, done: Completion) -> Result<(), Completion> {
        let (inb, parts) = (&self.inb, hold.parts);
        self.engine.copy_in(&InRing { inb, parts }, buffers, done)
    }

    fn unpinned(&self, hold: &Hold) {
        // Behind the lock of the record's state, where the poll has found it pinned.
        barrier::mb();
        self.poll_if_urgent(ring_of(hold));
    }

    fn release(&self, hold: &Hold) {
        let number = ring_of(hold);
        if let Some(returns) = self.returns.get(number as usize) {
            returns.put(hold.token as u32 as usize);
            self.poll_if_urgent(number);
        }
    }
}
