// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The receiving half of a ring: records are taken, checked, passed on as frames, and given back.
//!
//! A [`ReceivingHalf`] lives for one epoch. Its caller serialises all calls, which a spin lock does
//! in the kernel, and passes a [`Context`] to each: the [`Side`](crate::side::Side), and what those
//! have done who keep records.
//!
//! # Frames
//! A frame in one record is passed on where it lies. One in several is put together by an
//! [`Assembly`]; if there is no memory for it, its records go by, and it is dropped.
//!
//! # Records that are kept
//! The layer above may leave a record in the ring, and gives it back in any context, also from
//! within the reception of the next one. Hence what is given back is noted outside of the half, and
//! collected by the next poll, in any order. Records are released to the peer in ring order. So
//! that the ring does not stop for one that is kept, the oldest ones are moved out: all that were
//! kept at the last heartbeat ([`ReceivingHalf::age`]), and as many as are in the way. A copy takes
//! its time, and the caller's lock is held meanwhile: one call copies a few records, and asks for
//! another one if there are more.
//!
//! # Giving back
//! What was consumed is published at the end of a poll, and within it as soon as it is much of the
//! ring: the peer may wait for it. Nothing is written once
//! [`Side::is_open`](crate::side::Side::is_open) is false.

mod context;
mod kept;

pub use context::{AddError, Arrived, Assembly, Context, Upper};
pub use kept::Kept;

use core::ops::DerefMut;

use self::kept::KeptList;
use crate::layout::CONTROL_RING;
use crate::memory::{Inbound, OutOfBounds, Outbound};
use crate::ring::{
    Armed, Consumer, Corrupt, GoodPlace, NextError, Reassembly, Record, Ringing, Step,
};
use crate::wire::Tag;

/// Records that may be held at a time. Those that are kept hold the ones that came after them as
/// well.
pub const RX_HELD: usize = 256;

/// What was consumed is published within a poll once it is more than this part of the ring.
const GIVE_BACK_PART: u32 = 4;

/// Records that one poll moves out at most.
const MOVED_AT_ONCE: u32 = 8;

/// Units after which it moves out no more: 256 KiB.
const UNITS_AT_ONCE: u32 = 4096;

/// Records that are given back are released at once if more than this part of the ring is held,
/// or half of the places.
const URGENT_PART: u32 = 4;

/// Records that a poll of `budget` records takes from the control ring before it looks at data. A
/// quarter is left: control frames of all hosts that are forwarded must not hold up everybody's data.
#[inline]
const fn control_budget(budget: u32) -> u32 {
    budget - budget / 4
}

/// One poll of a queue for up to `budget` records. `receive` takes at most so many of a ring, and
/// returns how many it took; so does this of all.
///
/// The control ring is polled with queue 0: first, then the data ring, then the control ring again with
/// what that has left. Less than the budget means that nothing is left to do.
#[inline]
pub fn poll_queue(queue: u16, budget: u32, mut receive: impl FnMut(u32, u32) -> u32) -> u32 {
    let data = u32::from(queue) + 1;
    if queue != 0 {
        return receive(data, budget);
    }
    let mut done = receive(CONTROL_RING, control_budget(budget));
    done += receive(data, budget - done);
    if done < budget {
        done += receive(CONTROL_RING, budget - done);
    }
    done
}

/// The receiving half of a ring in one epoch; `A` is an [`Assembly`], `S` has a place of
/// [`Option<Kept>`](Kept) for each record that may be held.
pub struct ReceivingHalf<A, S> {
    consumer: Consumer<RX_HELD>,
    kept: KeptList<S>,
    /// Whether records may be kept: what is urgent must always get through.
    keeps: bool,
    /// What [`Context::set_urgent`] was told last.
    urgent: bool,
    /// Whether records are in the way that the next poll is to move out.
    has_to_move: bool,
    order: Reassembly,
    assembly: A,
}

impl<K, A, S: DerefMut<Target = [Option<Kept<K>>]>> ReceivingHalf<A, S> {
    /// The receiving half at the start of an epoch. `tx` marks the words that this side writes, `rx`
    /// those of the peer. Nothing of an `urgent` half is kept, or if `places` are not [`RX_HELD`] times `None`.
    #[inline]
    pub fn new(
        from: GoodPlace,
        tx: Tag,
        rx: Tag,
        ringing: Ringing,
        urgent: bool,
        assembly: A,
        places: S,
    ) -> Self {
        ReceivingHalf {
            consumer: Consumer::at(from, tx, rx, ringing),
            keeps: !urgent && places.len() >= RX_HELD,
            urgent: false,
            has_to_move: false,
            kept: KeptList::new(places),
            order: Reassembly::new(),
            assembly,
        }
    }

    /// Receive up to `budget` records, and give back what was consumed; their number.
    #[inline]
    pub fn receive<X, U>(&mut self, x: &X, upper: &U, budget: u32) -> u32
    where
        X: Context<K>,
        A: Assembly<X::Inbound>,
        U: Upper<K, A::Whole>,
    {
        let mut done = 0;
        while done < budget && self.receive_one(x, upper) {
            done += 1;
        }
        self.end_poll(x);
        done
    }

    /// Receive one record; `false` if there is none, or none can be taken before one that is held
    /// was given back. [`end_poll`](Self::end_poll) has to follow.
    #[inline]
    pub fn receive_one<X, U>(&mut self, x: &X, upper: &U) -> bool
    where
        X: Context<K>,
        A: Assembly<X::Inbound>,
        U: Upper<K, A::Whole>,
    {
        if !x.is_open() {
            return false;
        }
        self.collect(x);
        let record = match self.consumer.next(x.inbound()) {
            Ok(Some(record)) => record,
            Ok(None) | Err(NextError::TooManyHeld) => return false,
            Err(NextError::Corrupt(cause)) => {
                x.corrupt(cause);
                return false;
            }
        };
        let place = Consumer::<RX_HELD>::place_of(record.token);
        let kept = self.pass_on(x, upper, &record, place);
        if !kept.is_some_and(|name| self.kept.put(place, name)) {
            self.consumer.release(record.token);
        }
        if self.consumer.unpublished_units() > self.consumer.units() / GIVE_BACK_PART {
            self.give_back(x);
        }
        true
    }

    /// Make room if records that are kept are in the way, and give back what was consumed.
    #[inline]
    pub fn end_poll<X: Context<K>>(&mut self, x: &X) {
        if !x.is_open() {
            return;
        }
        if !self.kept.is_empty() {
            self.look_after_kept(x);
        }
        self.give_back(x);
    }

    /// A heartbeat: move out what was there at the last one, a record with each call; whether
    /// another call is to follow. Others wait for what is behind it to be consumed.
    pub fn age<X: Context<K>>(&mut self, x: &X) -> bool {
        if !x.is_open() {
            return false;
        }
        if !self.kept.is_empty() {
            self.collect(x);
            if self.move_out(x, |_, is_old| is_old) {
                return true;
            }
            self.kept.age();
            self.look_after_kept(x);
        }
        self.give_back(x);
        false
    }

    /// Ask for a doorbell with the next record; `true` if there is one now that can be received, or
    /// another poll is needed to make room.
    #[inline]
    pub fn arm<X: Context<K>>(&mut self, x: &X) -> bool {
        if !x.is_open() {
            return false;
        }
        match self.consumer.arm_data(x.outbound(), x.inbound()) {
            Ok(armed) => {
                if armed == Armed::Asleep {
                    x.asleep();
                }
                // The ring is urgent while it is full: a poll follows what is given back.
                let must_poll = self.has_to_move && !self.kept.is_empty();
                must_poll || armed == Armed::Ready && !self.consumer.is_full()
            }
            Err(cause) => {
                x.corrupt(cause);
                false
            }
        }
    }

    /// Ask for no doorbell.
    #[inline]
    pub fn mute<X: Context<K>>(&mut self, x: &X) {
        if x.is_open() {
            // The words lie in the peer's memory, or the half would not have been made.
            let _ = self.consumer.mute(x.outbound());
        }
    }

    /// Whether the peer has published something new that can be received.
    #[inline]
    pub fn is_ready(&self, inb: &impl Inbound) -> bool {
        self.consumer.is_ready(inb) && !self.consumer.is_full()
    }

    /// Whether this side sleeps although there is something that can be received.
    pub fn is_overdue(&self, inb: &impl Inbound) -> bool {
        self.consumer.is_overdue(inb) && !self.consumer.is_full()
    }

    /// Write the indices again: see [`Consumer::repeat`].
    ///
    /// # Errors
    /// [`OutOfBounds`] when a control word lies outside its memory.
    pub fn repeat(&self, out: &impl Outbound) -> Result<(), OutOfBounds> {
        self.consumer.repeat(out)
    }

    /// Size of the ring in units.
    #[inline]
    pub fn units(&self) -> u32 {
        self.consumer.units()
    }

    /// Units that the peer has published and not got back.
    pub fn unread_units(&self, inb: &impl Inbound) -> u32 {
        self.consumer.unread_units(inb)
    }

    /// Units held by records that were not released, or released and not published.
    pub fn unreturned_units(&self) -> u32 {
        self.consumer.held_units() + self.consumer.unpublished_units()
    }

    /// Whether a frame has begun and is not complete.
    pub fn is_within_frame(&self) -> bool {
        self.order.is_open()
    }

    /// Release the records that were given back.
    #[inline]
    fn collect<X: Context<K>>(&mut self, x: &X) {
        if self.kept.is_empty() {
            return;
        }
        x.take_returned(|place| {
            self.consumer.release_at(place);
            self.kept.remove(place);
        });
    }

    /// Follow what is kept, at the end of a poll.
    fn look_after_kept<X: Context<K>>(&mut self, x: &X) {
        let left = self.make_room(x, MOVED_AT_ONCE);
        let is_urgent = self.needs_room();
        if is_urgent == self.urgent {
            return;
        }
        self.urgent = is_urgent;
        x.set_urgent(is_urgent);
        if is_urgent && !self.has_to_move {
            // What was given back before that asks for no poll.
            self.make_room(x, left);
        }
    }

    /// Whether records are to be released as soon as they are given back: they hold much of the
    /// ring, or half of the places, of which a ring of small records runs out first.
    fn needs_room(&self) -> bool {
        let held = self.consumer.held_units();
        held > self.consumer.units() / URGENT_PART || !self.consumer.may_keep()
    }

    /// Release what was given back, and move out what is in the way, up to `most` records; how many
    /// of these are left. Half of the ring must be free for the largest record. Without memory, the
    /// ring stops until something is given back or memory is there.
    fn make_room<X: Context<K>>(&mut self, x: &X, most: u32) -> u32 {
        self.collect(x);
        let before = self.consumer.held_units();
        let mut left = most;
        self.has_to_move = false;
        // What is moved out holds no more units than are released with it.
        while left > 0 && before - self.consumer.held_units() < UNITS_AT_ONCE {
            if !self.move_out(x, |consumer, _| !consumer.may_keep()) {
                return left;
            }
            left -= 1;
        }
        self.has_to_move = !self.consumer.may_keep();
        left
    }

    /// Move the oldest record that is kept out of the ring, if `is_due` says so of the ring and of
    /// whether it is old; `false` if there is none, or it cannot be moved now.
    fn move_out<X: Context<K>>(
        &mut self,
        x: &X,
        is_due: impl Fn(&Consumer<RX_HELD>, bool) -> bool,
    ) -> bool {
        let Some((place, name, is_old)) = self.kept.first(self.consumer.places_held()) else {
            return false;
        };
        // One that has been given back, or is being copied, is found by another poll.
        if !is_due(&self.consumer, is_old) || !x.move_out(name) {
            return false;
        }
        self.consumer.release_at(place);
        self.kept.remove(place);
        true
    }

    /// Tell the peer what was consumed, and wake it if it waits for that.
    #[inline]
    fn give_back<X: Context<K>>(&mut self, x: &X) {
        if !x.is_open() {
            return;
        }
        if let Ok(true) = self.consumer.publish_cons(x.outbound(), x.inbound()) {
            x.ring_bell();
        }
    }

    /// Pass a record on: a whole frame at once, a part of one to the assembly. The name of the
    /// record, if it is kept.
    #[inline]
    fn pass_on<X, U>(&mut self, x: &X, upper: &U, record: &Record, place: usize) -> Option<K>
    where
        X: Context<K>,
        A: Assembly<X::Inbound>,
        U: Upper<K, A::Whole>,
    {
        let step = match self.order.accept(record) {
            Ok(step) => step,
            Err(cause) => {
                x.corrupt(cause);
                return None;
            }
        };
        if !(step.first && step.last) {
            self.take_part(x, upper, record, step);
            return None;
        }
        upper.frame(&Arrived {
            record,
            place,
            may_keep: self.keeps && self.consumer.may_keep() && self.kept.has_room(),
            is_last: !self.consumer.knows_more(),
        })
    }

    fn take_part<X, U>(&mut self, x: &X, upper: &U, record: &Record, step: Step)
    where
        X: Context<K>,
        A: Assembly<X::Inbound>,
        U: Upper<K, A::Whole>,
    {
        match self.assembly.add(x.inbound(), record, step) {
            Ok(Some(whole)) => {
                upper.whole(&whole, !self.consumer.knows_more());
                self.assembly.give_back(whole);
            }
            Ok(None) => {}
            Err(AddError::NoMemory) => upper.no_memory(),
            Err(AddError::Outside) => x.corrupt(Corrupt::Memory),
        }
    }
}
