// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The sending half of a ring: frames are cut into records, published, and reported once the peer
//! has consumed them.
//!
//! A [`SendingHalf`] lives for one epoch. Its caller serialises all calls, which a spin lock does in
//! the kernel, and passes a [`Context`] to each: the [`Side`](crate::side::Side), and what happens
//! outside of the ring. A context holds nothing of the half.
//!
//! # Frames
//! A frame that does not fit as a whole leaves a rest, which is sent as the peer consumes. Until all
//! of it is sent, other frames are refused: records of two frames never mix. Asking for room
//! ([`SendingHalf::await_room`]) sends the rest first.
//!
//! # Publication
//! Records are committed in any order and published in ring order, by [`SendingHalf::publish`],
//! perhaps on another processor than the one that wrote them. Every record is therefore followed by
//! a write barrier. Nothing is written once [`Side::is_open`](crate::side::Side::is_open) is false:
//! the peer may be in the next epoch.
//!
//! # Copies
//! [`Context::start_copy`] may take the data of a record away, for an engine that copies it. Such a
//! record is committed when the engine has reported it, or written here if the engine has failed.
//!
//! # Reports
//! [`SendingHalf::send`] returns the units of the whole frame, and [`SendingHalf::completions`]
//! gives them back: many at a time, unless somebody waits for room.

mod context;

pub use context::{Context, Copies, Payload, Pending, SendError};

use crate::memory::{Inbound, OutOfBounds, Outbound};
use crate::ring::{
    units_for, Armed, Chunk, Corrupt, GoodPlace, Producer, ReserveError, Ringing, Slot, Split, UNIT,
};
use crate::wire::{BlockHdr, Envelope, Tag, FUNC_HDR_MAX};

/// Records that may be reserved and not yet committed.
pub const TX_HELD: usize = 16;

/// Consumed units that nobody waits for are reported once they make up this part of the ring: a
/// report takes longer than most packets.
const REPORT_PART: u32 = 16;

/// Bytes of the headers of a record, all together.
const HEAD_MAX: usize = BlockHdr::SIZE + Envelope::MAX + FUNC_HDR_MAX;

/// What [`SendingHalf::await_room`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// There is room for another frame now; else the peer has been asked for a doorbell.
    pub now: bool,
    /// [`SendingHalf::completions`] would return units.
    pub has_report: bool,
}

/// A frame of which only some records fitted so far.
struct Partial<F: Payload> {
    head: Envelope,
    frame: F,
    rest: Split,
}

impl<F: Payload> Drop for Partial<F> {
    fn drop(&mut self) {
        if self.rest.next().is_some() {
            self.frame.failed(SendError::Gone);
        }
    }
}

/// The sending half of a ring in one epoch; `C` are the records that are being copied.
pub struct SendingHalf<F: Payload, C> {
    producer: Producer<TX_HELD>,
    partial: Option<Partial<F>>,
    /// Units reserved since the epoch began, modulo 2^32.
    sent: u32,
    /// Units that [`completions`](Self::completions) has returned, modulo 2^32.
    reported: u32,
    /// Whether somebody waits to hear of the next units consumed.
    awaited: bool,
    /// Whether somebody waits for room that only the records being copied can bring.
    rearm: bool,
    /// Whether frames are published at once, and no units of them are counted.
    urgent: bool,
    /// `None` on a ring whose records are all written at once.
    copies: Option<C>,
}

impl<F: Payload, C: Copies<F>> SendingHalf<F, C> {
    /// The sending half at the start of an epoch. `tx` marks the words that this side writes, `rx`
    /// those of the peer. Frames of an `urgent` half are published at once.
    #[inline]
    pub fn new(
        to: GoodPlace,
        tx: Tag,
        rx: Tag,
        ringing: Ringing,
        urgent: bool,
        copies: Option<C>,
    ) -> Self {
        SendingHalf {
            producer: Producer::at(to, tx, rx, ringing),
            partial: None,
            sent: 0,
            reported: 0,
            awaited: false,
            rearm: false,
            urgent,
            copies,
        }
    }

    /// Send a frame, behind the headers `head`; its units, zero of an urgent half. What does not
    /// fit now follows later. [`publish`](Self::publish) makes a frame go that fits as a whole.
    ///
    /// # Errors
    /// The caller still has the frame, and [`Payload::failed`] was not called.
    #[inline]
    pub fn send<X>(&mut self, x: &X, head: &Envelope, frame: &F) -> Result<u32, SendError<F::Error>>
    where
        X: Context<F, Copies = C>,
    {
        if !x.is_open() {
            return Err(SendError::Gone);
        }
        if self.partial.is_some() {
            return Err(SendError::Full);
        }
        let hdr_len = (head.len() + frame.func_hdr().len()) as u32;
        let data_len = frame.data_len();
        let mut rest = Split::new(hdr_len, data_len, self.producer.record_cap())
            .map_err(|_| SendError::TooLarge)?;
        let units = rest.units();
        let chunk = rest.next().ok_or(SendError::TooLarge)?;
        self.put(x, &chunk, head, frame)?;
        if chunk.data_len < data_len {
            self.partial = Some(Partial {
                head: *head,
                frame: frame.clone(),
                rest,
            });
            self.publish(x);
            self.go_on(x);
        }
        if self.urgent {
            self.publish(x);
            return Ok(0);
        }
        Ok(units)
    }

    /// Publish what is committed, and ring if the peer sleeps. After the end of the epoch, write
    /// nothing: the peer may be in the next one.
    #[inline]
    pub fn publish<X: Context<F>>(&mut self, x: &X) {
        if !x.is_open() {
            return;
        }
        if let Ok(true) = self.producer.publish(x.outbound(), x.inbound()) {
            x.ring_bell();
        }
    }

    /// Ask for a report of the next units that the peer consumes.
    #[inline]
    pub fn await_room<X>(&mut self, x: &X) -> Room
    where
        X: Context<F, Copies = C>,
    {
        self.awaited = true;
        let progress = self.arm_space(x);
        if progress && self.partial.is_some() {
            // The room is for the rest of the frame before; if that takes all of it, it has
            // asked for more.
            self.go_on(x);
        }
        let now = progress && self.partial.is_none();
        Room {
            now,
            has_report: now || self.unreported() != 0,
        }
    }

    /// Look at what the peer has consumed, and send what there is room for now. Units that nobody
    /// was told of, if somebody is to be told; always zero of an urgent half.
    #[inline]
    pub fn completions<X>(&mut self, x: &X) -> Option<u32>
    where
        X: Context<F, Copies = C>,
    {
        if self.is_idle() {
            return None;
        }
        let awaited = self.awaited;
        match self.harvest(x) {
            0 => None,
            _ if self.urgent => awaited.then_some(0),
            units => Some(units),
        }
    }

    /// Commit and publish the records whose copies have ended; those that have not been copied are
    /// written here.
    pub fn settle<X>(&mut self, x: &X)
    where
        X: Context<F, Copies = C>,
    {
        let mut committed = false;
        while let Some((record, copied)) = self.copies.as_mut().and_then(C::take_reported) {
            if !x.is_open() || !finish(x, &record, copied) {
                record.frame.failed(SendError::Gone);
                continue;
            }
            self.producer.commit(record.slot);
            committed = true;
        }
        if committed {
            self.publish(x);
            if self.rearm {
                self.arm_space(x);
            }
        }
    }

    /// Fail what has not gone: the epoch is over, and nothing is copied any more.
    pub fn close(&mut self) {
        self.partial = None;
        if let Some(copies) = &mut self.copies {
            copies.abandon();
        }
    }

    /// Replace the frame of which a rest has to go, so that its owner may vanish.
    ///
    /// # Errors
    /// That of `replace`; the rest has failed then.
    pub fn detach<E>(&mut self, replace: impl FnOnce(&F) -> Result<F, E>) -> Result<(), E> {
        if let Some(mut partial) = self.partial.take() {
            partial.frame = replace(&partial.frame)?;
            self.partial = Some(partial);
        }
        Ok(())
    }

    /// Whether the rest of a frame has to go.
    #[inline]
    pub fn has_partial(&self) -> bool {
        self.partial.is_some()
    }

    /// The records that are being copied.
    #[inline]
    pub fn copies(&self) -> Option<&C> {
        self.copies.as_ref()
    }

    /// Write the indices again: see [`Producer::repeat`].
    ///
    /// # Errors
    /// [`OutOfBounds`] when a control word lies outside its memory.
    pub fn repeat(&self, out: &impl Outbound) -> Result<(), OutOfBounds> {
        self.producer.repeat(out)
    }

    /// Whether this side waits although the peer has consumed what it waits for.
    pub fn is_overdue(&self, inb: &impl Inbound) -> bool {
        (self.awaited || self.partial.is_some()) && self.producer.is_overdue(inb)
    }

    /// Size of the ring in units.
    #[inline]
    pub fn units(&self) -> u32 {
        self.producer.units()
    }

    /// Units free as far as is known.
    #[inline]
    pub fn free_units(&self) -> u32 {
        self.producer.free_units()
    }

    /// Look at what the peer has consumed, and do nothing about it: the units free.
    ///
    /// # Errors
    /// [`Corrupt`] when the peer's index is impossible.
    pub fn refresh(&mut self, inb: &impl Inbound) -> Result<u32, Corrupt> {
        self.producer.refresh(inb)
    }

    /// Whether records are being copied.
    #[inline]
    fn is_copying(&self) -> bool {
        self.copies.as_ref().is_some_and(|c| !c.is_empty())
    }

    /// Whether nothing is under way, and nobody waits for anything.
    #[inline]
    fn is_idle(&self) -> bool {
        let is_copying = self.is_copying();
        self.producer.unread_units() == 0 && self.partial.is_none() && !self.awaited && !is_copying
    }

    /// Units that the peer is known to have consumed and nobody was told of.
    #[inline]
    fn unreported(&self) -> u32 {
        let outstanding = self.producer.units() - self.producer.free_units();
        let done = self.sent.wrapping_sub(outstanding);
        done.wrapping_sub(self.reported)
    }

    /// Write one record, and commit it unless its data is copied by somebody else.
    #[inline]
    fn put<X>(
        &mut self,
        x: &X,
        chunk: &Chunk,
        head: &Envelope,
        frame: &F,
    ) -> Result<(), SendError<F::Error>>
    where
        X: Context<F, Copies = C>,
    {
        let slot = match self.producer.reserve(x.inbound(), chunk.hdr.buffer_len) {
            Ok(slot) => slot,
            Err(e) => return Err(refused(x, e)),
        };
        let data_at = match write_head(x.outbound(), &slot, chunk, head, frame) {
            Ok(data_at) => data_at,
            Err(e) => return Err(self.withdraw(slot, e)),
        };
        let slot = match &mut self.copies {
            Some(copies) if x.wants_copy(chunk.data_len) => {
                let record = Pending {
                    slot,
                    chunk: *chunk,
                    data_at,
                    frame: frame.clone(),
                };
                x.start_copy(copies, record).err().map(|r| r.slot)
            }
            _ => Some(slot),
        };
        if let Some(slot) = slot {
            if let Err(e) = x.write_data(&slot, chunk, data_at, frame) {
                return Err(self.withdraw(slot, SendError::Body(e)));
            }
            self.producer.commit(slot);
        }
        // Whoever publishes it may run on another processor, and a fence there does not empty this
        // one's write-combining buffers.
        x.outbound().wmb();
        self.sent = self.sent.wrapping_add(units_for(chunk.hdr.buffer_len));
        Ok(())
    }

    /// Take back a record that cannot be written: `why`.
    fn withdraw(&mut self, slot: Slot, why: SendError<F::Error>) -> SendError<F::Error> {
        // The slot is the newest one: nobody else has reserved meanwhile.
        let _ = self.producer.cancel(slot);
        why
    }

    /// Send as much as fits of a frame in several records.
    fn go_on<X>(&mut self, x: &X)
    where
        X: Context<F, Copies = C>,
    {
        while let Some(mut partial) = self.partial.take() {
            let mut rest = partial.rest.clone();
            let Some(chunk) = rest.next() else {
                return;
            };
            match self.put(x, &chunk, &partial.head, &partial.frame) {
                Ok(()) => {
                    partial.rest = rest;
                    self.publish(x);
                    self.partial = Some(partial);
                }
                Err(SendError::Full) => {
                    self.partial = Some(partial);
                    if !self.arm_space(x) {
                        return;
                    }
                }
                // The peer has broken the rules, which ends the epoch. A rest that is dropped has failed.
                Err(SendError::Gone) => return,
                Err(e) => {
                    partial.frame.failed(e);
                    // The peer has its beginning: another frame must not follow.
                    x.unreadable();
                }
            }
        }
    }

    /// Units that the peer has consumed and nobody was told of, if it is time to tell.
    #[inline]
    fn harvest<X>(&mut self, x: &X) -> u32
    where
        X: Context<F, Copies = C>,
    {
        if self.is_copying() {
            self.settle(x);
        }
        if let Err(cause) = self.producer.refresh(x.inbound()) {
            x.corrupt(cause);
            return 0;
        }
        if self.partial.is_some() {
            self.go_on(x);
        }
        let units = self.unreported();
        if units < self.producer.units() / REPORT_PART && !self.awaited {
            return 0;
        }
        self.awaited &= units == 0;
        self.reported = self.reported.wrapping_add(units);
        units
    }

    /// Ask for a doorbell once half of what is under way has been consumed, or half of the ring is
    /// free; `true` if it has, or if nothing is under way. Once the epoch is over, the next that
    /// happens is that the peer leaves.
    fn arm_space<X>(&mut self, x: &X) -> bool
    where
        X: Context<F, Copies = C>,
    {
        if !x.is_open() {
            return false;
        }
        self.publish(x);
        let target = self.space_to_await();
        let armed = self
            .producer
            .arm_space(x.outbound(), x.inbound(), target * UNIT);
        match armed {
            Ok(armed) => {
                if armed == Armed::Asleep {
                    x.asleep();
                }
                let is_there = armed == Armed::Ready;
                // The peer is asked for what it knows of only.
                self.rearm = !is_there && self.is_copying();
                is_there
            }
            Err(cause) => {
                x.corrupt(cause);
                true
            }
        }
    }

    /// Units free for which to ask for a doorbell. A peer that keeps records gives back no more
    /// than leaves half of the ring free, which is as much as any record needs: more is not
    /// waited for.
    fn space_to_await(&self) -> u32 {
        let (units, free) = (self.producer.units(), self.producer.free_units());
        let target = free + (units - free).div_ceil(2);
        match units / 2 {
            half if free < half => half.min(target),
            _ => target,
        }
    }
}

/// Why a record that could not be reserved is not sent.
fn refused<F: Payload>(x: &impl Context<F>, e: ReserveError) -> SendError<F::Error> {
    match e {
        ReserveError::Full | ReserveError::TooManyHeld => {
            x.ring_full();
            SendError::Full
        }
        ReserveError::Length => SendError::TooLarge,
        ReserveError::Corrupt(cause) => {
            x.corrupt(cause);
            SendError::Gone
        }
    }
}

/// Make sure that the data of a record is there; `false` if that cannot be.
fn finish<F: Payload>(x: &impl Context<F>, record: &Pending<F>, copied: bool) -> bool {
    let Pending {
        slot,
        chunk,
        data_at,
        frame,
    } = record;
    x.copy_ended(chunk.data_len, copied);
    let is_there = copied || x.write_data(slot, chunk, *data_at, frame).is_ok();
    if !is_there {
        x.unreadable();
    }
    is_there
}

/// Write block header and headers of a record; where its data begins.
#[inline]
fn write_head<F: Payload>(
    out: &impl Outbound,
    slot: &Slot,
    chunk: &Chunk,
    envelope: &Envelope,
    frame: &F,
) -> Result<usize, SendError<F::Error>> {
    let mut head = Head::new();
    head.collect(slot, chunk, envelope, frame)
        .ok_or(SendError::TooLarge)?;
    slot.write(out, 0, head.bytes())
        .map_err(|_| SendError::Body(F::OUTSIDE))?;
    Ok(head.len)
}

/// The headers of a record, collected for one write.
struct Head {
    bytes: [u8; HEAD_MAX],
    len: usize,
}

impl Head {
    #[inline]
    fn new() -> Self {
        Head {
            bytes: [0; HEAD_MAX],
            len: 0,
        }
    }

    /// The headers of a record; `None` if there is no room for all of them.
    #[inline]
    fn collect(
        &mut self,
        slot: &Slot,
        chunk: &Chunk,
        envelope: &Envelope,
        frame: &impl Payload,
    ) -> Option<()> {
        self.put(&slot.header(&chunk.hdr))?;
        if chunk.hdr.hdr_len != 0 {
            let bytes = envelope.encode();
            self.put(bytes.get(..envelope.len())?)?;
            self.put(frame.func_hdr())?;
        }
        Some(())
    }

    /// Append `bytes`; `None` if there is no room.
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.bytes.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}
