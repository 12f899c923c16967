// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The sending half: lines and slots of the partner's window, credit and free entries of the own.

use core::ops::DerefMut;

use super::layout::BadLayout;
use super::line::{lines_for, pack, Content, First, Operation, CONTENT, HEAD, PLACE};
use super::{
    tell_end, Arms, Broken, End, Head, Laps, Layout, Park, ARM_DATA, ARM_SPACE, CREDIT, END,
    EXTRA_MAX, INLINE_MAX, PLACED_EXTRA_MAX,
};
use crate::memory::{Inbound, OutOfBounds, Outbound, Part};

/// No slot.
const NONE: u32 = u32::MAX;

/// Where a slot of the partner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// The partner has it.
    #[default]
    Partner,
    /// In the queue of a stream.
    Queued(u16),
    /// A [`Slot`] stands for it.
    Taken(u16),
}

/// What a sender keeps for each slot of the partner.
#[derive(Debug, Clone, Copy, Default)]
pub struct Link {
    place: Place,
    next: u32,
}

/// What a sender keeps for each stream: its free slots, oldest first.
#[derive(Debug, Clone, Copy)]
pub struct Queue {
    first: u32,
    last: u32,
    len: u32,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            first: NONE,
            last: NONE,
            len: 0,
        }
    }
}

/// What a sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// So many free lines.
    Lines(u32),
    /// A free slot of that stream.
    Slot(u16),
}

/// A free slot of the partner, for one message. It has to go to [`Sender::send_slot`] or
/// [`Sender::put_back`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Slot {
    number: u32,
    stream: u16,
    part: Part,
}

impl Slot {
    /// Where its bytes lie in the partner's window. A processor or a DMA engine fills them, slots
    /// of a stream in any order; what an engine writes has to be complete before the slot is sent.
    #[inline]
    pub fn part(&self) -> Part {
        self.part
    }

    /// The stream that it was given for.
    #[inline]
    pub fn stream(&self) -> u16 {
        self.stream
    }
}

/// Why nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// No line is free now: publish, arm with [`Sender::arm_space`] and wait.
    Full,
    /// The partner did not announce that stream, or the slot is for another one.
    Stream,
    /// More bytes than the operation, the slot or the buffers have; waiting does not help.
    Length,
    /// This side has closed.
    Closed,
    /// The pair has ended.
    Broken(Broken),
}

impl From<Broken> for SendError {
    #[inline]
    fn from(broken: Broken) -> SendError {
        SendError::Broken(broken)
    }
}

impl From<OutOfBounds> for SendError {
    #[inline]
    fn from(_: OutOfBounds) -> SendError {
        SendError::Broken(Broken::Memory)
    }
}

/// The sending half of a queue pair. `L` holds a [`Link`] for each slot of the partner, `Q` a
/// [`Queue`] for each stream that it has announced.
///
/// Numbers of lines count from the beginning of the pair. `inb` is always the own window, `out`
/// the partner's.
#[derive(Debug)]
pub struct Sender<L, Q> {
    own: Layout,
    peer: Layout,
    slots: u32,
    links: L,
    queues: Q,
    lines: Laps,
    free: Laps,
    published: u64,
    taken: u64,
    acknowledged: u64,
    arms: Arms,
    closed: bool,
    failed: Option<Broken>,
}

impl<L: DerefMut<Target = [Link]>, Q: DerefMut<Target = [Queue]>> Sender<L, Q> {
    /// A sender at the beginning of a pair, between windows whose layouts were checked.
    ///
    /// # Errors
    /// [`BadLayout`] when a table is too short.
    pub fn new(own: Layout, peer: Layout, links: L, queues: Q) -> Result<Self, BadLayout> {
        let slots = peer.slots.min(own.free);
        if links.len() < slots as usize || queues.len() < peer.streams as usize {
            return Err(BadLayout);
        }
        Ok(Sender {
            own,
            peer,
            slots,
            links,
            queues,
            lines: Laps::new(peer.lines),
            free: Laps::new(own.free),
            published: 0,
            taken: 0,
            acknowledged: 0,
            arms: Arms::new(ARM_SPACE, ARM_DATA),
            closed: false,
            failed: None,
        })
    }

    /// The partner's window.
    #[inline]
    pub fn peer(&self) -> &Layout {
        &self.peer
    }

    /// Lines that were sent.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.lines.count()
    }

    /// Lines that are free as far as is known without looking.
    #[inline]
    fn free_lines(&self) -> u32 {
        self.peer.lines - (self.lines.count() - self.taken) as u32
    }

    #[inline]
    fn alive(&self) -> Result<(), Broken> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Keep an error for all later calls.
    #[inline]
    fn keep<T>(&mut self, result: Result<T, Broken>) -> Result<T, Broken> {
        if let Err(broken) = &result {
            self.failed = Some(*broken);
        }
        result
    }

    /// Look at the partner's credit, and whether it has broken off.
    fn look_credit(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<(), Broken> {
        if let Some(End::Broken { reason }) = End::decode(inb.load_u64(END)?)? {
            return Err(Broken::Partner(reason));
        }
        let word = inb.load_u64(CREDIT)?;
        let (taken, acknowledged) = ((word >> 32) as u32, word as u32);
        let more = u64::from(taken.wrapping_sub(self.taken as u32));
        if more > self.lines.count() - self.taken {
            return Err(Broken::Credit);
        }
        let taken = self.taken + more;
        let more = u64::from(acknowledged.wrapping_sub(self.acknowledged as u32));
        if more > taken - self.acknowledged {
            return Err(Broken::Credit);
        }
        inb.rmb();
        self.taken = taken;
        self.acknowledged += more;
        Ok(())
    }

    /// Lines that are free now.
    ///
    /// # Errors
    /// [`Broken::Credit`]; [`Broken::Partner`], [`Broken::End`]: the partner has broken off.
    pub fn room(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<u32, Broken> {
        self.alive()?;
        let looked = self.look_credit(inb);
        self.keep(looked)?;
        Ok(self.free_lines())
    }

    /// Whether that many lines are free; looks only if it does not know.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    #[inline]
    pub fn has_room(&mut self, inb: &(impl Inbound + ?Sized), lines: u32) -> Result<bool, Broken> {
        self.alive()?;
        self.admits(inb, lines)
    }

    #[inline]
    fn admits(&mut self, inb: &(impl Inbound + ?Sized), lines: u32) -> Result<bool, Broken> {
        Ok(self.free_lines() >= lines || self.room(inb)? >= lines)
    }

    /// How many lines the partner has taken out of its ring.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn taken(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<u64, Broken> {
        self.room(inb)?;
        Ok(self.taken)
    }

    /// How many lines the partner's layer has acknowledged: what was sent in them has taken
    /// effect there.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn acknowledged(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<u64, Broken> {
        self.room(inb)?;
        Ok(self.acknowledged)
    }

    /// Whether a message of `lines` lines can go now.
    #[inline]
    fn admit(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        head: &Head,
        lines: u32,
    ) -> Result<(), SendError> {
        self.alive()?;
        if self.closed {
            return Err(SendError::Closed);
        }
        if u32::from(head.stream) >= self.peer.streams {
            return Err(SendError::Stream);
        }
        if !self.admits(inb, lines)? {
            return Err(SendError::Full);
        }
        Ok(())
    }

    #[inline]
    fn put(&mut self, out: &(impl Outbound + ?Sized), content: &Content) -> Result<(), Broken> {
        let line = pack(content, self.lines.tag());
        let stored = out.store_line(self.peer.line(self.lines.at()), &line);
        self.keep(stored.map_err(Broken::from))?;
        self.lines.advance();
        Ok(())
    }

    /// Send a message of at most [`INLINE_MAX`] bytes; the number of lines sent with it.
    /// Without [`publish`](Self::publish) it may stay in the processor.
    ///
    /// # Errors
    /// See [`SendError`].
    #[inline]
    pub fn send(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        out: &(impl Outbound + ?Sized),
        head: &Head,
        data: &[u8],
    ) -> Result<u64, SendError> {
        let mut rest = data;
        self.send_with(inb, out, head, data.len(), |room| {
            if let Some((now, later)) = rest.split_at_checked(room.len()) {
                room.copy_from_slice(now);
                rest = later;
            }
        })
    }

    /// As [`send`](Self::send), of `len` bytes that `fill` writes, one run after the other. It is
    /// not called if nothing is sent.
    ///
    /// # Errors
    /// See [`SendError`].
    #[inline]
    pub fn send_with(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        out: &(impl Outbound + ?Sized),
        head: &Head,
        len: usize,
        mut fill: impl FnMut(&mut [u8]),
    ) -> Result<u64, SendError> {
        if len > INLINE_MAX {
            return Err(SendError::Length);
        }
        self.admit(inb, head, lines_for(len))?;
        let first = First {
            head: *head,
            operation: Operation::Inline,
            slot: 0,
            len: len as u32,
        };
        let mut content = first_line(&first, &[], &[]);
        let mut run = len.min(EXTRA_MAX);
        if let Some(room) = content.get_mut(HEAD..HEAD + run) {
            fill(room);
        }
        self.put(out, &content)?;
        let mut left = len - run;
        while left > 0 {
            content = [0; 64];
            run = left.min(CONTENT);
            if let Some(room) = content.get_mut(..run) {
                fill(room);
            }
            self.put(out, &content)?;
            left -= run;
        }
        Ok(self.sent())
    }

    /// Take the next free slot of a stream, if there is one.
    ///
    /// # Errors
    /// [`SendError::Stream`]; [`Broken::Free`] or [`Broken::FreeSlot`].
    pub fn take_slot(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        stream: u16,
    ) -> Result<Option<Slot>, SendError> {
        self.alive()?;
        let queue = self.queues.get(usize::from(stream));
        let known = queue.filter(|_| u32::from(stream) < self.peer.streams);
        if known.ok_or(SendError::Stream)?.first == NONE {
            let looked = self.look_free(inb);
            self.keep(looked)?;
        }
        Ok(self.pop(stream))
    }

    /// Free slots of a stream.
    ///
    /// # Errors
    /// As [`take_slot`](Self::take_slot).
    pub fn slots(&mut self, inb: &(impl Inbound + ?Sized), stream: u16) -> Result<u32, SendError> {
        self.alive()?;
        let looked = self.look_free(inb);
        self.keep(looked)?;
        let queue = self.queues.get(usize::from(stream));
        let known = queue.filter(|_| u32::from(stream) < self.peer.streams);
        Ok(known.ok_or(SendError::Stream)?.len)
    }

    /// The slot that [`take_slot`](Self::take_slot) would take, by its number.
    ///
    /// # Errors
    /// As [`take_slot`](Self::take_slot).
    pub fn next_slot(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        stream: u16,
    ) -> Result<Option<u32>, SendError> {
        self.slots(inb, stream)?;
        let queue = self.queues.get(usize::from(stream));
        let first = queue.map(|queue| queue.first);
        Ok(first.filter(|first| *first != NONE))
    }

    /// Whether the partner has closed its own direction: what it had given and acknowledged before is
    /// known behind that.
    ///
    /// # Errors
    /// [`Broken::Partner`], [`Broken::End`]: it has broken off.
    pub fn is_closed_there(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<bool, Broken> {
        self.alive()?;
        let word = inb.load_u64(END).map_err(Broken::from);
        let end = word.and_then(End::decode);
        let end = self.keep(end)?;
        inb.rmb();
        Ok(matches!(end, Some(End::Closed { .. })))
    }

    /// Whether the partner has given a slot, of this number, and nothing was sent in it since. Of a
    /// slot that was sent: whether it has come back.
    ///
    /// # Errors
    /// As [`take_slot`](Self::take_slot).
    pub fn has_slot(&mut self, inb: &(impl Inbound + ?Sized), number: u32) -> Result<bool, Broken> {
        self.alive()?;
        let looked = self.look_free(inb);
        self.keep(looked)?;
        let link = self.links.get(number as usize);
        Ok(link.is_some_and(|link| link.place != Place::Partner))
    }

    fn pop(&mut self, stream: u16) -> Option<Slot> {
        let queue = self.queues.get_mut(usize::from(stream))?;
        let number = queue.first;
        let part = self.peer.slot(number)?;
        let link = self.links.get_mut(number as usize)?;
        queue.first = link.next;
        if queue.first == NONE {
            queue.last = NONE;
        }
        queue.len -= 1;
        link.place = Place::Taken(stream);
        Some(Slot {
            number,
            stream,
            part,
        })
    }

    /// Enter what the partner has given.
    fn look_free(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<(), Broken> {
        for _ in 0..self.slots {
            let word = inb.load_u64(self.own.free_entry(self.free.at()))?;
            if !self.free.is_new(word, Broken::Free)? {
                break;
            }
            let (number, stream) = (word as u32, (word >> 32) as u16);
            if word << 8 >> 56 != 0 || number >= self.slots {
                return Err(Broken::FreeSlot);
            }
            if u32::from(stream) >= self.peer.streams {
                return Err(Broken::Stream);
            }
            inb.rmb();
            self.enter(number, stream)?;
            self.free.advance();
        }
        Ok(())
    }

    /// Put a slot of the partner at the end of a stream's queue.
    fn enter(&mut self, number: u32, stream: u16) -> Result<(), Broken> {
        let link = self.links.get_mut(number as usize);
        let link = link.filter(|link| link.place == Place::Partner);
        let link = link.ok_or(Broken::FreeSlot)?;
        *link = Link {
            place: Place::Queued(stream),
            next: NONE,
        };
        let queue = self.queues.get_mut(usize::from(stream));
        let queue = queue.ok_or(Broken::Stream)?;
        queue.len += 1;
        let last = core::mem::replace(&mut queue.last, number);
        match self.links.get_mut(last as usize) {
            Some(before) => before.next = number,
            None => queue.first = number,
        }
        Ok(())
    }

    /// Return a slot that was not used; it is the next one of its stream.
    pub fn put_back(&mut self, slot: Slot) {
        let queue = self.queues.get_mut(usize::from(slot.stream));
        let link = self.links.get_mut(slot.number as usize);
        if let (Some(queue), Some(link)) = (queue, link) {
            *link = Link {
                place: Place::Queued(slot.stream),
                next: queue.first,
            };
            queue.first = slot.number;
            queue.len += 1;
            if queue.last == NONE {
                queue.last = slot.number;
            }
        }
    }

    /// Send a slot whose first `len` bytes have been written, with at most [`EXTRA_MAX`] bytes
    /// of the layer above beside them; the number of lines sent with it.
    ///
    /// # Errors
    /// See [`SendError`]; the slot comes back.
    #[inline]
    pub fn send_slot(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        out: &(impl Outbound + ?Sized),
        head: &Head,
        slot: Slot,
        len: u32,
        extra: &[u8],
    ) -> Result<u64, (Slot, SendError)> {
        if len > self.peer.slot_size || extra.len() > EXTRA_MAX {
            return Err((slot, SendError::Length));
        }
        if head.stream != slot.stream {
            return Err((slot, SendError::Stream));
        }
        let first = First {
            head: *head,
            operation: Operation::Slot,
            slot: slot.number as u16,
            len,
        };
        match self.send_one(inb, out, &first, &[], extra) {
            Ok(sent) => {
                if let Some(link) = self.links.get_mut(slot.number as usize) {
                    link.place = Place::Partner;
                }
                Ok(sent)
            }
            Err(why) => Err((slot, why)),
        }
    }

    /// Tell that `len` bytes were written at `off` in the partner's buffers, which it has
    /// advertised under `key`, with at most [`PLACED_EXTRA_MAX`] bytes of the layer above; the
    /// number of lines sent with it. [`Layout::buffer`] of [`peer`](Self::peer) says where these
    /// bytes lie in the partner's window.
    ///
    /// # Errors
    /// See [`SendError`].
    #[allow(clippy::too_many_arguments)] // two windows, and what one line has
    pub fn send_placed(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        out: &(impl Outbound + ?Sized),
        head: &Head,
        key: u32,
        off: u64,
        len: u32,
        extra: &[u8],
    ) -> Result<u64, SendError> {
        if self.peer.buffer(off, len).is_none() || extra.len() > PLACED_EXTRA_MAX {
            return Err(SendError::Length);
        }
        let first = First {
            head: *head,
            operation: Operation::Placed,
            slot: 0,
            len,
        };
        self.send_one(inb, out, &first, &place(off, key), extra)
    }

    /// Let the partner write `len` bytes at `off` in the own buffers, under `key`; the number of
    /// lines sent with it.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn advertise(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        out: &(impl Outbound + ?Sized),
        head: &Head,
        key: u32,
        off: u64,
        len: u32,
    ) -> Result<u64, SendError> {
        if self.own.buffer(off, len).is_none() {
            return Err(SendError::Length);
        }
        let first = First {
            head: *head,
            operation: Operation::Advertise,
            slot: 0,
            len,
        };
        self.send_one(inb, out, &first, &place(off, key), &[])
    }

    /// Send one line, behind all that was written before.
    #[inline]
    fn send_one(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        out: &(impl Outbound + ?Sized),
        first: &First,
        place: &[u8],
        extra: &[u8],
    ) -> Result<u64, SendError> {
        self.admit(inb, &first.head, 1)?;
        out.wmb();
        self.put(out, &first_line(first, place, extra))?;
        Ok(self.sent())
    }

    /// Push out what was sent, and say whether the partner has to be signalled.
    ///
    /// # Errors
    /// [`Broken::Memory`] when the window is too small.
    #[inline]
    pub fn publish(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        out: &(impl Outbound + ?Sized),
    ) -> Result<bool, Broken> {
        self.alive()?;
        if self.published == self.lines.count() {
            return Ok(false);
        }
        self.published = self.lines.count();
        out.mb();
        self.arms.must_signal(inb)
    }

    /// Publish, and ask for a signal when the partner gives lines or slots; say whether the
    /// partner has to be signalled. The caller asks the partner's host, looks again, and sleeps.
    ///
    /// # Errors
    /// [`Broken::Memory`] when the window is too small.
    pub fn arm_space(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        out: &(impl Outbound + ?Sized),
    ) -> Result<bool, Broken> {
        self.alive()?;
        self.arms.arm(out)?;
        self.published = self.lines.count();
        out.mb();
        self.arms.must_signal(inb)
    }

    /// What a kernel needs to let this side sleep until it may have what it needs; nothing if it
    /// has. [`arm_space`](Self::arm_space) comes before.
    ///
    /// # Errors
    /// As [`room`](Self::room) and [`take_slot`](Self::take_slot).
    pub fn park(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        need: Need,
    ) -> Result<Option<Park>, SendError> {
        // Loaded before the look: what comes after it changes the word.
        let word = match need {
            Need::Lines(_) => CREDIT,
            Need::Slot(_) => {
                let looked = self.look_free(inb);
                self.keep(looked)?;
                self.own.free_entry(self.free.at())
            }
        };
        let value = inb.load_u64(word)?;
        let there = match need {
            Need::Lines(lines) => self.room(inb)? >= lines,
            Need::Slot(stream) => self.slots(inb, stream)? > 0,
        };
        Ok((!there).then(|| self.arms.park(word, value)))
    }

    /// End this direction and the pair in order. The partner has to be signalled.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the window is too small.
    pub fn close(
        &mut self,
        out: &(impl Outbound + ?Sized),
        reason: u16,
    ) -> Result<(), OutOfBounds> {
        self.closed = true;
        let lines = self.lines.count() as u32;
        tell_end(out, End::Closed { reason, lines })
    }

    /// What must hold between any two calls, for tests.
    ///
    /// # Errors
    /// What does not.
    pub fn invariants(&self) -> Result<(), &'static str> {
        self.lines.invariants()?;
        let sent = self.lines.count();
        let counts = self.acknowledged <= self.taken
            && self.taken <= sent
            && sent - self.taken <= u64::from(self.peer.lines)
            && self.published <= sent;
        if !counts {
            return Err("lines sent, taken and acknowledged are out of order");
        }
        let links = self.links.iter().take(self.slots as usize);
        let queued = links
            .filter(|l| matches!(l.place, Place::Queued(_)))
            .count();
        let mut found = 0;
        for (stream, queue) in self.queues.iter().enumerate() {
            let (mut at, mut last, before) = (queue.first, NONE, found);
            while at != NONE {
                let link = self.links.get(at as usize).ok_or("a queue leads nowhere")?;
                if link.place != Place::Queued(stream as u16) || found >= queued {
                    return Err("a slot is in a queue that is not its own");
                }
                found += 1;
                (at, last) = (link.next, at);
            }
            if queue.last != last || queue.len as usize != found - before {
                return Err("a queue ends elsewhere");
            }
        }
        (found == queued).then_some(()).ok_or("a slot is lost")
    }
}

/// Copy bytes to content byte `at`.
#[inline]
fn fill(content: &mut Content, at: usize, bytes: &[u8]) {
    let room = content.get_mut(at..).and_then(|c| c.get_mut(..bytes.len()));
    if let Some(room) = room {
        room.copy_from_slice(bytes);
    }
}

#[inline]
fn first_line(first: &First, place: &[u8], rest: &[u8]) -> Content {
    let mut content = [0; 64];
    fill(&mut content, 0, &first.encode());
    fill(&mut content, HEAD, place);
    fill(&mut content, HEAD + place.len(), rest);
    content
}

fn place(off: u64, key: u32) -> [u8; PLACE] {
    let mut bytes = [0; PLACE];
    let (at, name) = bytes.split_at_mut(8);
    at.copy_from_slice(&off.to_le_bytes());
    name.copy_from_slice(&key.to_le_bytes());
    bytes
}
