// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The receiving half: lines and slots of the own window, credit and free entries of the partner's.

use core::ops::DerefMut;

use super::layout::BadLayout;
use super::line::{lines_for, unpack, Content, First, Operation, CONTENT, HEAD, PLACE};
use super::{
    Arms, Broken, End, Head, Laps, Layout, Park, ARM_DATA, ARM_SPACE, CREDIT, END, EXTRA_MAX,
    INLINE_MAX,
};
use crate::memory::{Inbound, OutOfBounds, Outbound, Part};

/// What a receiver keeps for each of its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Held {
    /// The slot is in the hands of this side.
    #[default]
    Here,
    /// The partner may fill it, on that stream.
    Given(u16),
}

/// Where the data of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// So many bytes of the room have been filled.
    Inline(usize),
    /// In a slot of the own window, which belongs to the caller until it is given again. The
    /// first [`EXTRA_MAX`] bytes of the room are those of the layer above.
    Slot {
        /// For [`Receiver::give`].
        slot: u32,
        /// The bytes, in the own window. The partner can still change them.
        part: Part,
    },
    /// In the buffers of the own window. The first
    /// [`PLACED_EXTRA_MAX`](super::PLACED_EXTRA_MAX) bytes of the room are those of the layer
    /// above.
    Placed {
        /// What the buffer was advertised under, as the partner says.
        key: u32,
        /// Where the bytes are in the buffers.
        off: u64,
        /// The same, in the own window. The partner can still change them.
        part: Part,
    },
    /// There is none: the partner's buffers can be written to.
    Advertised {
        /// Its name.
        key: u32,
        /// Where it is in the partner's buffers; it lies there.
        off: u64,
        /// Its bytes.
        len: u32,
    },
}

/// A message that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// What every message has.
    pub head: Head,
    /// Its data.
    pub body: Body,
    /// Lines received with it altogether, for [`Receiver::acknowledge`].
    pub number: u64,
}

/// Why there will be no more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The partner has closed, and everything that it had sent has been received.
    Closed {
        /// Why, as the partner's layer says.
        reason: u16,
    },
    /// The pair has ended.
    Broken(Broken),
}

impl From<Broken> for Stop {
    #[inline]
    fn from(broken: Broken) -> Stop {
        Stop::Broken(broken)
    }
}

impl From<OutOfBounds> for Stop {
    #[inline]
    fn from(_: OutOfBounds) -> Stop {
        Stop::Broken(Broken::Memory)
    }
}

/// Why a slot was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveError {
    /// The partner has it already, or there is none with that number that it could use.
    Slot,
    /// This side did not announce that stream.
    Stream,
    /// The pair has ended.
    Broken(Broken),
}

/// The receiving half of a queue pair. `H` holds a [`Held`] for each slot of the own window.
///
/// `inb` is always the own window, `out` the partner's.
#[derive(Debug)]
pub struct Receiver<H> {
    own: Layout,
    peer: Layout,
    slots: u32,
    held: H,
    lines: Laps,
    free: Laps,
    /// Lines that the partner knows to be taken.
    told: u64,
    acknowledged: u64,
    /// Acknowledged lines that the partner knows of.
    told_acknowledged: u64,
    /// Slots were given that were not published.
    gave: bool,
    arms: Arms,
    failed: Option<Broken>,
}

impl<H: DerefMut<Target = [Held]>> Receiver<H> {
    /// A receiver at the beginning of a pair, between windows whose layouts were checked. It has
    /// given no slot yet.
    ///
    /// # Errors
    /// [`BadLayout`] when the table is too short.
    pub fn new(own: Layout, peer: Layout, held: H) -> Result<Self, BadLayout> {
        let slots = own.slots.min(peer.free);
        if held.len() < slots as usize {
            return Err(BadLayout);
        }
        Ok(Receiver {
            own,
            peer,
            slots,
            held,
            lines: Laps::new(own.lines),
            free: Laps::new(peer.free),
            told: 0,
            acknowledged: 0,
            told_acknowledged: 0,
            gave: false,
            arms: Arms::new(ARM_DATA, ARM_SPACE),
            failed: None,
        })
    }

    /// Slots that can be given: numbers from 0 on.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Lines received.
    #[inline]
    pub fn received(&self) -> u64 {
        self.lines.count()
    }

    #[inline]
    fn alive(&self) -> Result<(), Broken> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Whether there may be something to receive: the beginning of a message, or an end. It costs
    /// two loads if there is nothing.
    ///
    /// # Errors
    /// What [`receive`](Self::receive) would find.
    #[inline]
    pub fn has_news(&self, inb: &(impl Inbound + ?Sized)) -> Result<bool, Broken> {
        self.alive()?;
        let word = inb.load_u64(self.own.line(self.lines.at()))?;
        Ok(self.lines.is_new(word, Broken::Line)? || inb.load_u64(END)? != 0)
    }

    /// The next message, if it is there whole. Its data, or what accompanies it, is in `room`,
    /// whose other bytes are of no meaning.
    ///
    /// # Errors
    /// See [`Stop`].
    #[inline]
    pub fn receive(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        room: &mut [u8; INLINE_MAX],
    ) -> Result<Option<Message>, Stop> {
        self.alive()?;
        let result = match self.next(inb, room) {
            Ok(None) => self.look_end(inb),
            other => other.map_err(Stop::from),
        };
        if let Err(Stop::Broken(broken)) = result {
            self.failed = Some(broken);
        }
        result
    }

    #[inline]
    fn next(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        room: &mut [u8; INLINE_MAX],
    ) -> Result<Option<Message>, Broken> {
        let (mut lines, mut content) = (self.lines, [0; 64]);
        if !load(inb, &self.own, &mut lines, &mut content)? {
            return Ok(None);
        }
        let (raw, rest) = content.split_first_chunk::<HEAD>().ok_or(Broken::Memory)?;
        let first = First::decode(raw)?;
        if u32::from(first.head.stream) >= self.own.streams {
            return Err(Broken::Stream);
        }
        copy(room, 0, rest.get(..EXTRA_MAX));
        let body = match first.operation {
            Operation::Inline => {
                let len = first.len as usize;
                if len > INLINE_MAX {
                    return Err(Broken::Length);
                }
                let mut at = EXTRA_MAX;
                for _ in 1..lines_for(len) {
                    if !load(inb, &self.own, &mut lines, &mut content)? {
                        return Ok(None);
                    }
                    copy(room, at, content.get(..CONTENT));
                    at += CONTENT;
                }
                Body::Inline(len)
            }
            Operation::Slot => self.filled(&first)?,
            Operation::Placed => {
                let (off, key) = place(room);
                let part = self.own.buffer(off, first.len).ok_or(Broken::Length)?;
                room.copy_within(PLACE..EXTRA_MAX, 0);
                Body::Placed { key, off, part }
            }
            Operation::Advertise => {
                let (off, key) = place(room);
                let len = first.len;
                self.peer.buffer(off, len).ok_or(Broken::Length)?;
                let rest = room.get(PLACE..EXTRA_MAX);
                if rest.is_none_or(|rest| rest.iter().any(|b| *b != 0)) {
                    return Err(Broken::Operation);
                }
                Body::Advertised { key, off, len }
            }
        };
        inb.rmb();
        self.lines = lines;
        Ok(Some(Message {
            head: first.head,
            body,
            number: lines.count(),
        }))
    }

    /// Take a slot that the partner has filled.
    #[inline]
    fn filled(&mut self, first: &First) -> Result<Body, Broken> {
        let slot = u32::from(first.slot);
        let part = self.own.slot(slot).ok_or(Broken::Slot)?;
        let len = first.len as usize;
        if len > part.len {
            return Err(Broken::Length);
        }
        let held = self.held.get_mut(slot as usize);
        let held = held.filter(|held| **held == Held::Given(first.head.stream));
        *held.ok_or(Broken::Slot)? = Held::Here;
        let part = Part { len, ..part };
        Ok(Body::Slot { slot, part })
    }

    /// Look whether the partner has ended the pair; there is no whole message.
    fn look_end(&self, inb: &(impl Inbound + ?Sized)) -> Result<Option<Message>, Stop> {
        match End::decode(inb.load_u64(END)?)? {
            None => Ok(None),
            Some(End::Broken { reason }) => Err(Broken::Partner(reason).into()),
            Some(End::Closed { reason, lines }) => {
                match lines.wrapping_sub(self.lines.count() as u32) {
                    0 => Err(Stop::Closed { reason }),
                    // They become visible.
                    more if more <= self.own.lines => Ok(None),
                    _ => Err(Broken::End.into()),
                }
            }
        }
    }

    /// Give a slot to the partner, to be filled on a stream: one that a message came in, or one
    /// that was never given; in any order. What was read from it was read before.
    ///
    /// # Errors
    /// See [`GiveError`].
    pub fn give(
        &mut self,
        out: &(impl Outbound + ?Sized),
        slot: u32,
        stream: u16,
    ) -> Result<(), GiveError> {
        self.alive().map_err(GiveError::Broken)?;
        if u32::from(stream) >= self.own.streams {
            return Err(GiveError::Stream);
        }
        let held = self.held.get_mut(slot as usize);
        let held = held.filter(|held| slot < self.slots && **held == Held::Here);
        let held = held.ok_or(GiveError::Slot)?;
        let word = u64::from(self.free.tag()) << 56 | u64::from(stream) << 32 | u64::from(slot);
        out.release();
        out.store_u64(self.peer.free_entry(self.free.at()), word)
            .map_err(|_| GiveError::Broken(Broken::Memory))?;
        *held = Held::Given(stream);
        self.free.advance();
        self.gave = true;
        Ok(())
    }

    /// Acknowledge all messages up to the one with that number: they have taken effect. A number
    /// that is not newer than the last one, or was not received, changes nothing.
    pub fn acknowledge(&mut self, number: u64) {
        if (self.acknowledged..=self.lines.count()).contains(&number) {
            self.acknowledged = number;
        }
    }

    /// Push out what was given and acknowledged, and credit for lines once a quarter of the
    /// ring was taken; say whether the partner has to be signalled.
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
        let untold = self.lines.count() - self.told;
        let credit =
            untold >= u64::from(self.own.lines / 4) || self.acknowledged != self.told_acknowledged;
        if credit {
            self.tell_credit(out)?;
        }
        if !credit && !self.gave {
            return Ok(false);
        }
        self.gave = false;
        out.mb();
        self.arms.must_signal(inb)
    }

    fn tell_credit(&mut self, out: &(impl Outbound + ?Sized)) -> Result<(), Broken> {
        let (taken, acknowledged) = (self.lines.count(), self.acknowledged);
        out.release();
        let word = u64::from(taken as u32) << 32 | u64::from(acknowledged as u32);
        out.store_u64(CREDIT, word)?;
        self.told = taken;
        self.told_acknowledged = acknowledged;
        Ok(())
    }

    /// Publish everything, and ask for a signal when the partner sends a line; say whether
    /// the partner has to be signalled. The caller asks the partner's host, looks again, and
    /// sleeps.
    ///
    /// # Errors
    /// [`Broken::Memory`] when the window is too small.
    pub fn arm_data(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        out: &(impl Outbound + ?Sized),
    ) -> Result<bool, Broken> {
        self.alive()?;
        self.tell_credit(out)?;
        self.arms.arm(out)?;
        self.gave = false;
        out.mb();
        self.arms.must_signal(inb)
    }

    /// What a kernel needs to let this side sleep until a message may be whole; nothing if one is,
    /// or the partner has ended. [`arm_data`](Self::arm_data) comes before.
    ///
    /// The word is the first one that the next message lacks: lines arrive in pieces, and one
    /// that is there does not change any more when the rest arrives.
    ///
    /// # Errors
    /// What [`receive`](Self::receive) would find.
    pub fn park(&self, inb: &(impl Inbound + ?Sized)) -> Result<Option<Park>, Broken> {
        self.alive()?;
        if inb.load_u64(END)? != 0 {
            return Ok(None);
        }
        let mut lines = self.lines;
        let mut left = 1;
        while left > 0 {
            let start = self.own.line(lines.at());
            let mut content = [0; 64];
            for n in 0..8 {
                let at = start + 8 * n;
                let word = inb.load_u64(at)?;
                if !lines.is_new(word, Broken::Line)? {
                    return Ok(Some(self.arms.park(at, word)));
                }
                unpack(&mut content, n, word);
            }
            if lines.count() == self.lines.count() {
                let raw = content.first_chunk::<HEAD>().ok_or(Broken::Memory)?;
                let first = First::decode(raw)?;
                left = match first.operation {
                    Operation::Inline => lines_for(first.len.min(INLINE_MAX as u32) as usize),
                    _ => 1,
                };
            }
            lines.advance();
            left -= 1;
        }
        Ok(None)
    }

    /// What must hold between any two calls, for tests.
    ///
    /// # Errors
    /// What does not.
    pub fn invariants(&self) -> Result<(), &'static str> {
        self.lines.invariants()?;
        if self.free.count() != 0 {
            self.free.invariants()?;
        }
        let taken = self.lines.count();
        let counts = self.told_acknowledged <= self.acknowledged
            && self.acknowledged <= taken
            && self.told <= taken
            && taken - self.told <= u64::from(self.own.lines);
        if !counts {
            return Err("lines taken, told and acknowledged are out of order");
        }
        let mut given = self.held.iter().filter_map(|held| match held {
            Held::Given(stream) => Some(*stream),
            Held::Here => None,
        });
        let known = given.all(|stream| u32::from(stream) < self.own.streams);
        known.then_some(()).ok_or("a slot is given to no stream")
    }
}

/// Take the content of the next line; false if it is not there whole. What is used of each word was
/// loaded once.
#[inline]
fn load(
    inb: &(impl Inbound + ?Sized),
    own: &Layout,
    lines: &mut Laps,
    content: &mut Content,
) -> Result<bool, Broken> {
    let start = own.line(lines.at());
    // Most looks find nothing, and need no more than this.
    if !lines.is_new(inb.load_u64(start)?, Broken::Line)? {
        return Ok(false);
    }
    let line = inb.load_line(start)?;
    if !lines.are_new(&line, Broken::Line)? {
        return Ok(false);
    }
    for (n, word) in line.iter().enumerate() {
        unpack(content, n, *word);
    }
    lines.advance();
    Ok(true)
}

#[inline]
fn copy(room: &mut [u8; INLINE_MAX], at: usize, bytes: Option<&[u8]>) {
    let bytes = bytes.unwrap_or_default();
    let room = room.get_mut(at..).and_then(|r| r.get_mut(..bytes.len()));
    if let Some(room) = room {
        room.copy_from_slice(bytes);
    }
}

/// Offset and key of an advertised buffer.
fn place(room: &[u8; INLINE_MAX]) -> (u64, u32) {
    let [o0, o1, o2, o3, o4, o5, o6, o7, k0, k1, k2, k3, ..] = *room;
    let off = u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]);
    (off, u32::from_le_bytes([k0, k1, k2, k3]))
}
