// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The single-producer, single-consumer record ring, write-only across the bridge.
//!
//! The ring's bytes lie in the consumer's memory. Each side owns one index and writes it into the
//! *other* side's memory, next to its *event index*, which says when it wants a doorbell, so that
//! everything a side reads is local (design 4.5):
//!
//! | word | written by | lies in the memory of | meaning |
//! |---|---|---|---|
//! | `prod` | producer | consumer | units published |
//! | `want_space` | producer | consumer | ring when `cons` passes this |
//! | `cons` | consumer | producer | units given back |
//! | `want_data` | consumer | producer | ring when `prod` passes this |
//!
//! Indices count units of [`UNIT`] bytes, run freely over 32 bits and carry the epoch's [`Tag`];
//! a word with another tag counts as never written, unless one with the right tag was seen before:
//! then it has been destroyed, and the link is reset. Callers write their indices again from time
//! to time, which brings back those that got lost earlier. A record starts at a unit with a
//! [`BlockHdr`], which therefore never wraps; the rest of a record may wrap once, and [`Parts`]
//! says where.
//!
//! The block header's last word marks epoch and position of the record ([`Slot::header`]). Stale
//! bytes of an older lap or of an older epoch, left by a write that was lost or that came late,
//! are therefore never taken for a record.
//!
//! # Doorbells
//! A side rings when the index that it publishes has passed the other side's event index (design
//! 4.7); [`Ringing`] says when exactly. Before it sleeps a side writes its event index,
//! executes a full barrier and looks at the index again. Over coherent memory no wake-up can be
//! lost that way (the loom model proves it). Over a real bridge writes are posted: the event index
//! may still be under way while the other side publishes, and the published index may still be
//! under way at the look, so that both cross and nobody rings.
//!
//! With [`Ringing::Level`] the next publication rings in such a case. What is left is the last
//! publication before a silence. A side that has gone to sleep ([`Armed::Asleep`]) therefore looks
//! once more after the time that a write takes there and back: whatever was published later than
//! that has met the event index and rings. With [`Ringing::Edge`], callers' slow safety poll has to
//! cover both.
//!
//! # Large frames
//! A record is at most half of the ring ([`record_cap`]). [`Split`] cuts a frame into records and
//! [`Reassembly`] checks on the other side that they belong together; [`BlockHdr`] describes the
//! encoding.

use crate::memory::{Inbound, OutOfBounds, Outbound, Part, Parts};
use crate::wire::{BlockHdr, MsgHdr, Tag, TaggedIndex};

/// Bytes per unit: the alignment of records and the step of all indices.
pub const UNIT: u32 = 64;

/// Smallest ring in bytes.
pub const MIN_RING: u32 = 4096;

/// Largest ring in bytes.
pub const MAX_RING: u32 = 1 << 26;

/// Most data bytes of one frame.
pub const MAX_DATA: u32 = 1 << 24;

/// Most bytes of message header and function header of one frame.
pub const MAX_HDR: u32 = 1024;

/// Largest record, in bytes, of a ring of `ring` bytes: two fit, so that the producer can fill
/// one while the consumer empties the other.
#[inline]
pub const fn record_cap(ring: u32) -> u32 {
    ring / 2
}

/// Units that `bytes` occupy.
#[inline]
pub const fn units_for(bytes: u32) -> u32 {
    bytes.div_ceil(UNIT)
}

/// Whether moving an index from `old` to `new` passed `event` (event index, as in virtio).
#[inline]
pub const fn passed(event: u32, new: u32, old: u32) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// Half of the range of an index.
const HALF: u32 = 1 << 31;

/// Whether the index `event` lies behind `index`, by less than half of the range.
#[inline]
const fn is_behind(event: u32, index: u32) -> bool {
    passed(event, index, index.wrapping_sub(HALF - 1))
}

/// When a side that publishes an index rings, and what it is told not to. Both ends of an epoch
/// have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ringing {
    /// When this very publication passes the event index: version 1 of the wire format.
    Edge,
    /// When the event index lies behind what is published, by less than half of the range, and
    /// was not rung for yet: version 2. An event index that comes late is met by the next
    /// publication.
    Level,
}

impl Ringing {
    /// That of a wire version.
    #[inline]
    pub const fn of(version: u8) -> Self {
        match version {
            0 | 1 => Ringing::Edge,
            _ => Ringing::Level,
        }
    }

    /// An event index that asks for no doorbell, to a side that has published `index`.
    #[inline]
    const fn never(self, index: u32) -> u32 {
        match self {
            Ringing::Edge => index.wrapping_sub(1),
            Ringing::Level => index.wrapping_add(HALF),
        }
    }
}

/// What a side that publishes knows of the other side's event index.
#[derive(Debug)]
struct Event {
    ringing: Ringing,
    /// The event index that the index has passed: a doorbell was rung for it.
    rung: Option<u32>,
}

impl Event {
    const fn new(ringing: Ringing) -> Self {
        Event {
            ringing,
            rung: None,
        }
    }

    /// Whether to ring for the event index `event` after a publication from `old` to `new`.
    #[inline]
    fn is_due(&mut self, event: u32, new: u32, old: u32) -> bool {
        let behind = match self.ringing {
            Ringing::Edge => passed(event, new, old),
            Ringing::Level => is_behind(event, new),
        };
        let due = behind && self.rung != Some(event);
        self.rung = behind.then_some(event);
        due
    }
}

/// What a side that wants to sleep is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Armed {
    /// Do not sleep: what it would wait for is there.
    Ready,
    /// It sleeps from now on and has just written the event index: look once more a little later.
    Asleep,
    /// It sleeps; nothing was written.
    StillAsleep,
}

/// Write `index` under `tag` to a control word.
#[inline]
fn store_index(
    out: &(impl Outbound + ?Sized),
    at: usize,
    tag: Tag,
    index: u32,
) -> Result<(), OutOfBounds> {
    out.store_u64(at, TaggedIndex { tag, index }.word())
}

/// Write `index` again, so that it changes places neither with what was written before nor with
/// what will be: an index must not seem to go back.
fn repeat_index(
    out: &(impl Outbound + ?Sized),
    at: usize,
    tag: Tag,
    index: u32,
) -> Result<(), OutOfBounds> {
    out.wmb();
    store_index(out, at, tag, index)?;
    out.wmb();
    Ok(())
}

/// The mark of the block at unit `index` written under `tag`.
#[inline]
fn mark(tag: Tag, index: u32) -> u32 {
    (tag.value() ^ index.wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b)
}

/// What a peer wrote that cannot be: the link is reset, and the cause is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corrupt {
    /// The producer's index went back, ran over the consumer, or lost its tag.
    ProducerIndex,
    /// The consumer's index went back, ran over the producer, or lost its tag.
    ConsumerIndex,
    /// A block shorter than its header, or longer than what was published or than half of the ring.
    BlockLength,
    /// Headers shorter than a message header, too long, or longer than their block.
    HeaderLength,
    /// A data length too large or smaller than the data in the block.
    DataLength,
    /// A block that does not belong to this epoch and place.
    Mark,
    /// A continuation without its beginning, or the other way round.
    Sequence,
    /// The ring does not lie inside the memory.
    Memory,
}

impl From<OutOfBounds> for Corrupt {
    #[inline]
    fn from(_: OutOfBounds) -> Corrupt {
        Corrupt::Memory
    }
}

/// Why [`Place::check`] refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPlace;

/// Where a ring and its control words lie, as byte offsets. `data`, `prod` and `want_space` count
/// from the start of the consumer's memory, `cons` and `want_data` from the start of the
/// producer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The ring's bytes.
    pub data: usize,
    /// Their number, a power of two from [`MIN_RING`] to [`MAX_RING`].
    pub size: u32,
    /// Units published.
    pub prod: usize,
    /// The producer's event index.
    pub want_space: usize,
    /// Units given back.
    pub cons: usize,
    /// The consumer's event index.
    pub want_data: usize,
}

/// A place that was [checked](Place::check).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoodPlace(Place);

impl Place {
    /// Check size and alignment; the memories check the bounds at every access.
    ///
    /// # Errors
    /// [`BadPlace`] when `size` is not a power of two in range or an offset is not aligned.
    pub fn check(self) -> Result<GoodPlace, BadPlace> {
        let words = self.prod | self.want_space | self.cons | self.want_data;
        let fits = self.size.is_power_of_two()
            && (MIN_RING..=MAX_RING).contains(&self.size)
            && self.data % (UNIT as usize) == 0
            && words % 8 == 0
            && self.data.checked_add(self.size as usize).is_some();
        if fits {
            Ok(GoodPlace(self))
        } else {
            Err(BadPlace)
        }
    }

    #[inline]
    fn units(&self) -> u32 {
        self.size / UNIT
    }

    /// The `len` bytes from byte `skip` of unit `index` on; `skip + len` is at most the ring.
    #[inline]
    fn parts(&self, index: u32, skip: u32, len: u32) -> Parts {
        let start = (index & (self.units() - 1)) * UNIT + skip;
        let start = start & (self.size - 1);
        let until_end = self.size - start;
        let first = if len < until_end { len } else { until_end };
        Parts {
            first: Part {
                off: self.data + start as usize,
                len: first as usize,
            },
            second: Part {
                off: self.data,
                len: (len - first) as usize,
            },
        }
    }
}

/// Records handed out and not yet finished, in ring order; finished in any order.
#[derive(Debug)]
struct InFlight<const N: usize> {
    ends: [u32; N],
    done: [bool; N],
    first: u32,
    next: u32,
}

impl<const N: usize> InFlight<N> {
    const CHECK: () = assert!(N.is_power_of_two() && N <= 1 << 16);

    fn new() -> Self {
        let () = Self::CHECK;
        InFlight {
            ends: [0; N],
            done: [false; N],
            first: 0,
            next: 0,
        }
    }

    #[inline]
    fn place(token: u32) -> usize {
        token as usize & (N - 1)
    }

    #[inline]
    fn count(&self) -> usize {
        self.next.wrapping_sub(self.first) as usize
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.count() >= N
    }

    /// Enter a record that ends before unit `end`; the caller has checked [`Self::is_full`].
    #[inline]
    fn push(&mut self, end: u32) -> u32 {
        let token = self.next;
        let at = Self::place(token);
        if let (Some(e), Some(d)) = (self.ends.get_mut(at), self.done.get_mut(at)) {
            *e = end;
            *d = false;
            self.next = token.wrapping_add(1);
        }
        token
    }

    #[inline]
    fn finish(&mut self, token: u32) -> bool {
        let known = (token.wrapping_sub(self.first) as usize) < self.count();
        match self.done.get_mut(Self::place(token)) {
            Some(d) if known && !*d => {
                *d = true;
                true
            }
            _ => false,
        }
    }

    /// The token that a record at `place` has, if there is one.
    #[inline]
    fn token_at(&self, place: usize) -> u32 {
        let ahead = place.wrapping_sub(Self::place(self.first)) & (N - 1);
        self.first.wrapping_add(ahead as u32)
    }

    /// The places of the records, the oldest first.
    fn places(&self) -> impl Iterator<Item = usize> + use<N> {
        let first = self.first;
        (0..self.count() as u32).map(move |n| Self::place(first.wrapping_add(n)))
    }

    /// Take back the newest record.
    #[inline]
    fn undo(&mut self, token: u32) -> bool {
        let newest = self.count() > 0 && token.wrapping_add(1) == self.next;
        if newest {
            self.next = token;
        }
        newest
    }

    /// Remove the finished records at the front; the end of the last one.
    #[inline]
    fn drain(&mut self) -> Option<u32> {
        let mut end = None;
        while self.first != self.next {
            let at = Self::place(self.first);
            if !self.done.get(at).copied().unwrap_or(false) {
                break;
            }
            end = self.ends.get(at).copied();
            self.first = self.first.wrapping_add(1);
        }
        end
    }
}

/// Why no record could be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReserveError {
    /// No space now: publish, arm with [`Producer::arm_space`] and wait.
    Full,
    /// As many records are uncommitted as the producer can track.
    TooManyHeld,
    /// Shorter than a block header or longer than [`record_cap`]; waiting does not help.
    Length,
    /// The consumer's index is impossible.
    Corrupt(Corrupt),
}

impl From<Corrupt> for ReserveError {
    #[inline]
    fn from(c: Corrupt) -> Self {
        ReserveError::Corrupt(c)
    }
}

/// A reserved record. It has to be given back to [`Producer::commit`] or [`Producer::cancel`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Slot {
    /// Where the record's bytes go in the consumer's memory, the block header first.
    pub parts: Parts,
    token: u32,
    start: u32,
    mark: u32,
}

impl Slot {
    /// The bytes of the block header `hdr` with this record's mark; they go to the record's start.
    #[inline]
    pub fn header(&self, hdr: &BlockHdr) -> [u8; BlockHdr::SIZE] {
        BlockHdr {
            mark: self.mark,
            ..*hdr
        }
        .encode()
    }

    /// Copy `buf` to byte `at` of the record.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it does not fit into the record or the memory.
    #[inline]
    pub fn write(
        &self,
        out: &(impl Outbound + ?Sized),
        at: usize,
        buf: &[u8],
    ) -> Result<(), OutOfBounds> {
        self.parts.write(out, at, buf)
    }
}

/// The writing end of a ring. `N` records (a power of two) may be reserved and not yet committed,
/// so that asynchronous copies can overlap.
#[derive(Debug)]
pub struct Producer<const N: usize> {
    place: Place,
    tx: Tag,
    rx: Tag,
    reserved: u32,
    committed: u32,
    published: u32,
    cons: u32,
    /// The consumer's event index.
    event: Event,
    /// The own event index, unless what it was for was there.
    armed: Option<u32>,
    /// Whether the consumer has spoken in this epoch: from then on its word has its tag.
    heard: bool,
    held: InFlight<N>,
}

impl<const N: usize> Producer<N> {
    /// A producer at the start of an epoch. `tx` marks the words this side writes, `rx` those of
    /// the peer; `ringing` is that of the epoch's version.
    ///
    /// # Errors
    /// See [`Place::check`].
    pub fn new(place: Place, tx: Tag, rx: Tag, ringing: Ringing) -> Result<Self, BadPlace> {
        Ok(Self::at(place.check()?, tx, rx, ringing))
    }

    /// The same, at a place that was checked.
    #[inline]
    pub(crate) fn at(GoodPlace(place): GoodPlace, tx: Tag, rx: Tag, ringing: Ringing) -> Self {
        Producer {
            place,
            tx,
            rx,
            reserved: 0,
            committed: 0,
            published: 0,
            cons: 0,
            event: Event::new(ringing),
            armed: None,
            heard: false,
            held: InFlight::new(),
        }
    }

    /// Largest record in bytes, block header included.
    #[inline]
    pub fn record_cap(&self) -> u32 {
        record_cap(self.place.size)
    }

    /// Size of the ring in units.
    #[inline]
    pub fn units(&self) -> u32 {
        self.place.units()
    }

    /// Units free as far as is known without looking at memory.
    #[inline]
    pub fn free_units(&self) -> u32 {
        self.place.units() - self.reserved.wrapping_sub(self.cons)
    }

    /// Units published that the consumer has not given back yet, as far as is known.
    #[inline]
    pub fn unread_units(&self) -> u32 {
        self.published.wrapping_sub(self.cons)
    }

    /// Look at the consumer's index and return the free units.
    ///
    /// # Errors
    /// [`Corrupt::ConsumerIndex`] when it claims more than was published or less than before.
    #[inline]
    pub fn refresh(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<u32, Corrupt> {
        let word = inb.load_u64(self.place.cons)?;
        if let Some(cons) = TaggedIndex::index_of(word, self.rx) {
            let outstanding = self.published.wrapping_sub(self.cons);
            if cons.wrapping_sub(self.cons) > outstanding {
                return Err(Corrupt::ConsumerIndex);
            }
            if cons != self.cons {
                inb.rmb();
                self.cons = cons;
            }
            self.heard = true;
        } else if self.heard {
            return Err(Corrupt::ConsumerIndex);
        }
        Ok(self.free_units())
    }

    /// Reserve a record of `len` bytes, block header included.
    ///
    /// # Errors
    /// See [`ReserveError`].
    #[inline]
    pub fn reserve(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        len: u32,
    ) -> Result<Slot, ReserveError> {
        if len < BlockHdr::SIZE as u32 || len > self.record_cap() {
            return Err(ReserveError::Length);
        }
        if self.held.is_full() {
            return Err(ReserveError::TooManyHeld);
        }
        let need = units_for(len);
        if self.free_units() < need && self.refresh(inb)? < need {
            return Err(ReserveError::Full);
        }
        let start = self.reserved;
        self.reserved = start.wrapping_add(need);
        Ok(Slot {
            parts: self.place.parts(start, 0, len),
            token: self.held.push(self.reserved),
            start,
            mark: mark(self.tx, start),
        })
    }

    /// Mark the record as written completely. Records may be committed in any order; one is
    /// published once all before it are committed.
    #[inline]
    pub fn commit(&mut self, slot: Slot) {
        if self.held.finish(slot.token) {
            if let Some(end) = self.held.drain() {
                self.committed = end;
            }
        }
    }

    /// Give the newest reserved record back unused.
    ///
    /// # Errors
    /// The slot itself, when a younger one was reserved since.
    pub fn cancel(&mut self, slot: Slot) -> Result<(), Slot> {
        if !self.held.undo(slot.token) {
            return Err(slot);
        }
        self.reserved = slot.start;
        Ok(())
    }

    /// Publish what is committed and say whether the consumer wants a doorbell for it. The
    /// index is on its way before this returns, so that the doorbell cannot overtake it.
    ///
    /// # Errors
    /// [`OutOfBounds`] when a control word lies outside its memory.
    #[inline]
    pub fn publish(
        &mut self,
        out: &(impl Outbound + ?Sized),
        inb: &(impl Inbound + ?Sized),
    ) -> Result<bool, OutOfBounds> {
        let (old, new) = (self.published, self.committed);
        if old == new {
            return Ok(false);
        }
        out.wmb();
        store_index(out, self.place.prod, self.tx, new)?;
        self.published = new;
        out.mb();
        let event = inb.load_u64(self.place.want_data)?;
        // A consumer that has not spoken in this epoch sleeps until its first doorbell.
        Ok(match TaggedIndex::index_of(event, self.rx) {
            Some(event) => self.event.is_due(event, new, old),
            None => true,
        })
    }

    /// Write the published index and the event index again. A word that never arrived, or was
    /// destroyed before the consumer has looked at it, would otherwise stay lost while the ring
    /// is full.
    ///
    /// # Errors
    /// [`OutOfBounds`] when a control word lies outside its memory.
    pub fn repeat(&self, out: &(impl Outbound + ?Sized)) -> Result<(), OutOfBounds> {
        if let Some(event) = self.armed {
            repeat_index(out, self.place.want_space, self.tx, event)?;
        }
        repeat_index(out, self.place.prod, self.tx, self.published)
    }

    /// Whether the consumer has given back what [`Self::arm_space`] has last asked for in vain.
    /// The index is not taken over.
    #[inline]
    pub fn is_overdue(&self, inb: &(impl Inbound + ?Sized)) -> bool {
        let word = inb.load_u64(self.place.cons).unwrap_or(0);
        let cons = TaggedIndex::index_of(word, self.rx);
        let mut both = self.armed.iter().zip(cons);
        both.any(|(&event, cons)| is_behind(event, cons))
    }

    /// Ask for a doorbell once a record of `bytes` fits, unless it already does. Publish first:
    /// what is not published will not be given back.
    ///
    /// # Errors
    /// [`Corrupt`] when the consumer's index is impossible.
    #[inline]
    pub fn arm_space(
        &mut self,
        out: &(impl Outbound + ?Sized),
        inb: &(impl Inbound + ?Sized),
        bytes: u32,
    ) -> Result<Armed, Corrupt> {
        let total = self.place.units();
        let units = units_for(bytes).min(total);
        if self.refresh(inb)? >= units {
            self.armed = None;
            return Ok(Armed::Ready);
        }
        let missing = units - self.free_units();
        let awaited = missing.min(self.unread_units());
        let event = self.cons.wrapping_add(awaited).wrapping_sub(1);
        if awaited == 0 {
            // The consumer has nothing to give back.
            self.armed = None;
            return Ok(Armed::StillAsleep);
        }
        // It knows already.
        if self.armed == Some(event) {
            return Ok(Armed::StillAsleep);
        }
        store_index(out, self.place.want_space, self.tx, event)?;
        self.armed = Some(event);
        out.mb();
        if self.refresh(inb)? >= units {
            self.armed = None;
            return Ok(Armed::Ready);
        }
        Ok(Armed::Asleep)
    }
}

/// A received record, checked: its lengths agree with each other and with the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The block header, as copied once.
    pub hdr: BlockHdr,
    /// What follows the block header: `hdr.hdr_len` bytes of headers, then data.
    pub parts: Parts,
    /// Data bytes in this block.
    pub data_len: u32,
    /// To be given to [`Consumer::release`].
    pub token: u32,
}

/// Why no record was returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextError {
    /// As many records are held as the consumer can track; release one.
    TooManyHeld,
    /// The peer wrote what cannot be.
    Corrupt(Corrupt),
}

impl From<Corrupt> for NextError {
    #[inline]
    fn from(c: Corrupt) -> Self {
        NextError::Corrupt(c)
    }
}

impl From<OutOfBounds> for NextError {
    #[inline]
    fn from(_: OutOfBounds) -> Self {
        NextError::Corrupt(Corrupt::Memory)
    }
}

/// The reading end of a ring. `N` records (a power of two) may be held at the same time and
/// released in any order.
#[derive(Debug)]
pub struct Consumer<const N: usize> {
    place: Place,
    tx: Tag,
    rx: Tag,
    prod: u32,
    head: u32,
    released: u32,
    published: u32,
    /// The producer's event index.
    event: Event,
    /// The own event index, once there is one.
    want: Option<u32>,
    /// Whether the producer has spoken in this epoch: from then on its word has its tag.
    heard: bool,
    held: InFlight<N>,
}

impl<const N: usize> Consumer<N> {
    /// A consumer at the start of an epoch. `tx` marks the words this side writes, `rx` those of
    /// the peer; `ringing` is that of the epoch's version.
    ///
    /// # Errors
    /// See [`Place::check`].
    pub fn new(place: Place, tx: Tag, rx: Tag, ringing: Ringing) -> Result<Self, BadPlace> {
        Ok(Self::at(place.check()?, tx, rx, ringing))
    }

    /// The same, at a place that was checked.
    #[inline]
    pub(crate) fn at(GoodPlace(place): GoodPlace, tx: Tag, rx: Tag, ringing: Ringing) -> Self {
        Consumer {
            place,
            tx,
            rx,
            prod: 0,
            head: 0,
            released: 0,
            published: 0,
            event: Event::new(ringing),
            want: None,
            heard: false,
            held: InFlight::new(),
        }
    }

    /// Size of the ring in units.
    #[inline]
    pub fn units(&self) -> u32 {
        self.place.units()
    }

    /// Units released and not yet published to the producer.
    #[inline]
    pub fn unpublished_units(&self) -> u32 {
        self.released.wrapping_sub(self.published)
    }

    /// Units published by the producer, looking at its index, that were not given back yet;
    /// whatever the index says, not more than the ring has.
    pub fn unread_units(&self, inb: &(impl Inbound + ?Sized)) -> u32 {
        let word = inb.load_u64(self.place.prod).unwrap_or(0);
        let prod = TaggedIndex::index_of(word, self.rx).unwrap_or(self.prod);
        prod.wrapping_sub(self.published).min(self.units())
    }

    /// Whether more records are known of than were returned.
    #[inline]
    pub fn knows_more(&self) -> bool {
        self.head != self.prod
    }

    /// Look at the producer's index, once.
    #[inline]
    fn refresh(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<(), Corrupt> {
        let word = inb.load_u64(self.place.prod)?;
        if let Some(prod) = TaggedIndex::index_of(word, self.rx) {
            let known = self.prod.wrapping_sub(self.published);
            let now = prod.wrapping_sub(self.published);
            if now < known || now > self.place.units() {
                return Err(Corrupt::ProducerIndex);
            }
            if prod != self.prod {
                inb.rmb();
                self.prod = prod;
            }
            self.heard = true;
        } else if self.heard {
            return Err(Corrupt::ProducerIndex);
        }
        Ok(())
    }

    /// The next record, or `None` when there is none.
    ///
    /// # Errors
    /// See [`NextError`]; after [`NextError::Corrupt`] the ring is of no more use.
    #[inline]
    pub fn next(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<Option<Record>, NextError> {
        if self.head == self.prod {
            self.refresh(inb)?;
            if self.head == self.prod {
                return Ok(None);
            }
        }
        if self.held.is_full() {
            return Err(NextError::TooManyHeld);
        }
        let mut raw = [0; BlockHdr::SIZE];
        let at = self.place.parts(self.head, 0, BlockHdr::SIZE as u32);
        inb.read(at.first.off, &mut raw)?;
        let hdr = BlockHdr::decode(&raw);
        if hdr.mark != mark(self.rx, self.head) {
            return Err(Corrupt::Mark.into());
        }
        let longest = record_cap(self.place.size);
        let data_len = check_block(&hdr, self.prod.wrapping_sub(self.head), longest)?;
        let skip = BlockHdr::SIZE as u32;
        let parts = self.place.parts(self.head, skip, hdr.buffer_len - skip);
        self.head = self.head.wrapping_add(units_for(hdr.buffer_len));
        Ok(Some(Record {
            hdr,
            parts,
            data_len,
            token: self.held.push(self.head),
        }))
    }

    /// Give the bytes of a record back; `false` when `token` names none that is held.
    #[inline]
    pub fn release(&mut self, token: u32) -> bool {
        let known = self.held.finish(token);
        if let Some(end) = self.held.drain() {
            self.released = end;
        }
        known
    }

    /// The place of a record among those held, below `N`. No other record has it before the
    /// record is released and published.
    #[inline]
    pub fn place_of(token: u32) -> usize {
        InFlight::<N>::place(token)
    }

    /// As [`Self::release`], for the record that is held at `place`.
    #[inline]
    pub fn release_at(&mut self, place: usize) -> bool {
        self.release(self.held.token_at(place))
    }

    /// The places of the records that are held, and of those that were released behind one of them,
    /// the oldest first.
    pub fn places_held(&self) -> impl Iterator<Item = usize> + use<N> {
        self.held.places()
    }

    /// Whether the newest record may be held while others pass: less than half of the places and
    /// of the ring are behind the oldest record that is held, so that there is time to give it
    /// back before the ring stands still.
    #[inline]
    pub fn may_keep(&self) -> bool {
        self.held.count() <= N / 2 && self.held_units() <= self.units() / 2
    }

    /// Units returned as records and not released, also those that wait for a record before them.
    #[inline]
    pub fn held_units(&self) -> u32 {
        self.head.wrapping_sub(self.released)
    }

    /// Whether no record is returned before one that is held has been released.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.held.is_full()
    }

    /// Tell the producer what was released, in ring order, and say whether it wants a doorbell.
    ///
    /// # Errors
    /// [`OutOfBounds`] when a control word lies outside its memory.
    #[inline]
    pub fn publish_cons(
        &mut self,
        out: &(impl Outbound + ?Sized),
        inb: &(impl Inbound + ?Sized),
    ) -> Result<bool, OutOfBounds> {
        let (old, new) = (self.published, self.released);
        if old == new {
            return Ok(false);
        }
        // No test fails without this: no model lets a load of the records see what the producer
        // stores once it has this index.
        out.release();
        store_index(out, self.place.cons, self.tx, new)?;
        self.published = new;
        out.mb();
        let event = inb.load_u64(self.place.want_space)?;
        // A producer that has not spoken in this epoch never met a full ring.
        Ok(match TaggedIndex::index_of(event, self.rx) {
            Some(event) => self.event.is_due(event, new, old),
            None => false,
        })
    }

    /// Write the published index and the event index again, for the same reason as
    /// [`Producer::repeat`].
    ///
    /// # Errors
    /// [`OutOfBounds`] when a control word lies outside its memory.
    pub fn repeat(&self, out: &(impl Outbound + ?Sized)) -> Result<(), OutOfBounds> {
        if let Some(event) = self.want {
            repeat_index(out, self.place.want_data, self.tx, event)?;
        }
        repeat_index(out, self.place.cons, self.tx, self.published)
    }

    /// Whether the producer has published something that was not seen yet. It is not taken over.
    #[inline]
    pub fn is_ready(&self, inb: &(impl Inbound + ?Sized)) -> bool {
        let word = inb.load_u64(self.place.prod).unwrap_or(0);
        TaggedIndex::index_of(word, self.rx).is_some_and(|prod| prod != self.head)
    }

    /// Whether this side sleeps, and the producer has published more. It is not taken over.
    #[inline]
    pub fn is_overdue(&self, inb: &(impl Inbound + ?Sized)) -> bool {
        self.want == Some(self.head) && self.is_ready(inb)
    }

    /// Ask for no doorbell until [`Self::arm_data`]: the caller polls. The producer may ring
    /// nevertheless, once.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the control word lies outside its memory.
    #[inline]
    pub fn mute(&mut self, out: &(impl Outbound + ?Sized)) -> Result<(), OutOfBounds> {
        let never = self.event.ringing.never(self.prod);
        self.want = Some(never);
        store_index(out, self.place.want_data, self.tx, never)?;
        // Another processor may write the next one: this must not overtake it.
        out.wmb();
        Ok(())
    }

    /// Ask for a doorbell with the next record, unless there is one already: the caller goes on
    /// polling then.
    ///
    /// # Errors
    /// [`Corrupt`] when the producer's index is impossible.
    #[inline]
    pub fn arm_data(
        &mut self,
        out: &(impl Outbound + ?Sized),
        inb: &(impl Inbound + ?Sized),
    ) -> Result<Armed, Corrupt> {
        let armed = match self.want == Some(self.prod) {
            true => Armed::StillAsleep,
            false => {
                store_index(out, self.place.want_data, self.tx, self.prod)?;
                self.want = Some(self.prod);
                out.mb();
                Armed::Asleep
            }
        };
        self.refresh(inb)?;
        Ok(match self.head != self.prod {
            true => Armed::Ready,
            false => armed,
        })
    }
}

/// Check a block header against the units published from it on, and the `longest` block in bytes;
/// the data bytes in the block.
#[inline]
fn check_block(hdr: &BlockHdr, available: u32, longest: u32) -> Result<u32, Corrupt> {
    let fits = hdr.buffer_len <= longest && units_for(hdr.buffer_len) <= available;
    let body = match hdr.buffer_len.checked_sub(BlockHdr::SIZE as u32) {
        Some(body) if fits => body,
        _ => return Err(Corrupt::BlockLength),
    };
    let first = hdr.hdr_len != 0;
    if first && !(MsgHdr::SIZE as u32..=MAX_HDR).contains(&hdr.hdr_len) {
        return Err(Corrupt::HeaderLength);
    }
    let data = body.checked_sub(hdr.hdr_len).ok_or(Corrupt::HeaderLength)?;
    if hdr.len > MAX_DATA || data > hdr.len || (data == 0 && !first) {
        return Err(Corrupt::DataLength);
    }
    Ok(data)
}

/// Why a frame cannot be sent over a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitError {
    /// Headers shorter than a message header or longer than [`MAX_HDR`], or than a record.
    Header,
    /// More than [`MAX_DATA`] bytes of data.
    Data,
}

/// One record of a frame that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its block header; `hdr.buffer_len` is what to reserve.
    pub hdr: BlockHdr,
    /// First byte of the frame's data that it carries.
    pub data_off: u32,
    /// Number of data bytes that it carries, behind `hdr.hdr_len` bytes of headers.
    pub data_len: u32,
}

/// The records of one frame, in order.
#[derive(Debug, Clone)]
pub struct Split {
    hdr_len: u32,
    total: u32,
    sent: u32,
    cap: u32,
    started: bool,
}

impl Split {
    /// Plan a frame with `hdr_len` bytes of headers and `data_len` bytes of data over a ring
    /// whose records hold at most `cap` bytes ([`record_cap`]).
    ///
    /// # Errors
    /// See [`SplitError`].
    #[inline]
    pub fn new(hdr_len: u32, data_len: u32, cap: u32) -> Result<Split, SplitError> {
        let head = BlockHdr::SIZE as u32;
        if !(MsgHdr::SIZE as u32..=MAX_HDR).contains(&hdr_len) || head + hdr_len >= cap {
            return Err(SplitError::Header);
        }
        if data_len > MAX_DATA {
            return Err(SplitError::Data);
        }
        Ok(Split {
            hdr_len,
            total: data_len,
            sent: 0,
            cap,
            started: false,
        })
    }

    /// Units of the ring that the records not yet returned occupy together.
    #[inline]
    pub fn units(&self) -> u32 {
        self.clone()
            .fold(0, |sum, c| sum + units_for(c.hdr.buffer_len))
    }
}

impl Iterator for Split {
    type Item = Chunk;

    #[inline]
    fn next(&mut self) -> Option<Chunk> {
        if self.started && self.sent == self.total {
            return None;
        }
        let hdr_len = if self.started { 0 } else { self.hdr_len };
        let head = BlockHdr::SIZE as u32 + hdr_len;
        let len = self.total - self.sent;
        let data_len = len.min(self.cap - head);
        let chunk = Chunk {
            hdr: BlockHdr {
                buffer_len: head + data_len,
                hdr_len,
                len,
                mark: 0,
            },
            data_off: self.sent,
            data_len,
        };
        self.started = true;
        self.sent += data_len;
        Some(chunk)
    }
}

/// What a record contributes to the frame that is being received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The record begins a frame and carries its headers.
    pub first: bool,
    /// The record completes its frame.
    pub last: bool,
    /// Data bytes of the whole frame.
    pub total: u32,
    /// Where the record's data belongs in the frame's data.
    pub data_off: u32,
}

/// Checks that the records of a ring add up to frames. It holds lengths only.
#[derive(Debug, Default)]
pub struct Reassembly {
    total: u32,
    missing: u32,
}

impl Reassembly {
    /// A ring from which no frame has begun.
    pub const fn new() -> Self {
        Reassembly {
            total: 0,
            missing: 0,
        }
    }

    /// Whether a frame has begun and is not complete.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.missing != 0
    }

    /// Take the next record of the ring.
    ///
    /// # Errors
    /// [`Corrupt::Sequence`] when it does not continue the frame before it, or continues none.
    #[inline]
    pub fn accept(&mut self, rec: &Record) -> Result<Step, Corrupt> {
        let first = rec.hdr.hdr_len != 0;
        let fits = if first {
            self.missing == 0
        } else {
            self.missing != 0 && rec.hdr.len == self.missing
        };
        if !fits {
            return Err(Corrupt::Sequence);
        }
        if first {
            self.total = rec.hdr.len;
        }
        self.missing = rec
            .hdr
            .len
            .checked_sub(rec.data_len)
            .ok_or(Corrupt::DataLength)?;
        Ok(Step {
            first,
            last: self.missing == 0,
            total: self.total,
            data_off: self.total.saturating_sub(rec.hdr.len),
        })
    }
}
