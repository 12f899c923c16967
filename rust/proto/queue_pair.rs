// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Queue pairs: messages between two processes, in the two windows of their session.
//!
//! A queue pair carries messages of up to 65536 streams in both directions, by plain stores. A
//! side reads its own window only, and writes into the partner's only ([`Outbound`]). Each
//! direction has a [`Sender`] at one end and a [`Receiver`] at the other. They share no state: two
//! threads of a process may use them at the same time. Protocols above lay their own meaning on
//! [`Head::kind`], the immediate data and the bytes that accompany a message; the layout knows
//! none of them. `Documentation/queue-pairs.md` gives the reasons for the layout, with counts.
//!
//! # A window
//!
//! Its owner plans it ([`Layout`]) and announces it to the partner ([`Hello`]). Only the partner
//! writes to it.
//!
//! | offset | bytes | content | written by the partner's | read by the owner's |
//! |---|---|---|---|---|
//! | 0x000 | 128 | the partner's [`Hello`] | set-up | set-up |
//! | 0x080 | 8 | *credit*: lines taken (63..32), acknowledged (31..0), of those that the owner has sent | receiver | sender |
//! | 0x0c0 | 8 | *data arm*: signal when the owner sends a line | receiver | sender |
//! | 0x100 | 8 | *space arm*: signal when the owner gives credit or slots | sender | receiver |
//! | 0x140 | 8 | [`End`] | either | receiver |
//! | 0x180 | 128 | zero, never read in this version | | |
//! | `free` | 8 each | *free ring*: slots of the partner that the owner may fill | receiver | sender |
//! | `lines` | 64 each | *line ring* | sender | receiver |
//! | `slots` | | receive slots of equal size, any contents | sender | receiver, layers |
//! | `buffers` | | advertised buffers, any contents | sender | layers |
//!
//! # A line
//!
//! Eight words of 8 bytes, each of which identifies itself: bits 63..56 of every word hold the
//! *tag* of the lap, bits 55..0 hold seven bytes of content. Content byte *n* is byte *n* mod 7 of
//! word *n* / 7. The tag of lap *l* is *l* mod 254 + 1. Zero, which windows start with, and 0xff,
//! which memory of a lost link reads as, are no tags.
//!
//! A line is valid when all eight words have the tag of the lap. A line is only written again
//! after the receiver has taken it, which it does after all eight words were there. Each word is
//! therefore either of this lap or of the one before, and the order in which words become visible
//! does not matter: no fence orders them, and a line may leave the processor in pieces.
//!
//! | content byte | bytes | first line of a message |
//! |---|---|---|
//! | 0 | 1 | operation, below |
//! | 1 | 1 | bit 0: immediate data; bit 1: more parts of the message follow on the stream; others zero |
//! | 2 | 1 | kind, of the layer above |
//! | 3 | 1 | zero |
//! | 4 | 2 | stream |
//! | 6 | 2 | slot |
//! | 8 | 4 | length in bytes of the data |
//! | 12 | 4 | immediate data, else zero |
//! | 16 | 40 | by operation |
//!
//! | operation | data | content from byte 16 on |
//! |---|---|---|
//! | 1 inline | at most [`INLINE_MAX`] bytes | the first 40 bytes of data; each of the lines behind it has 56 more |
//! | 2 slot | in a receive slot | 40 bytes of the layer above |
//! | 3 placed | in `buffers` of the line's reader | offset there (8), key (4), 28 bytes of the layer above |
//! | 4 advertise | none | offset (8) and key (4) of `length` bytes in `buffers` of the line's writer, which the reader may fill from now on; others zero |
//!
//! # Other words
//!
//! An entry of the free ring: tag (63..56), zero (55..48), stream (47..32), slot (31..0). Its tags
//! are those of the line ring, with the laps of the free ring. A side gives a slot once for each
//! time that it has been used, so that a ring with as many entries as slots never overflows.
//!
//! An arm word is a number that is another one each time; a side signals once for each number
//! that is not zero and that it sees after it has published.
//!
//! # Order
//!
//! | before | fence | after |
//! |---|---|---|
//! | payload in a slot or buffer | [`Outbound::wmb`] | the line that tells of it |
//! | line, credit, free entry | [`Outbound::mb`] | load of the arm word |
//! | loads of lines and slots | [`Outbound::release`] | credit, free entry |
//! | load of a line, free entry or credit | [`Inbound::rmb`] | use of the memory that it names |
//! | all else | [`Outbound::wmb`] | end |
//!
//! # Going to sleep
//!
//! A side stores its arm word, asks the partner's host and waits for the answer, looks again, and
//! sleeps if there is nothing. The answer proves that the arm word had arrived, and that what the
//! partner stored before it could see the arm word has arrived as well. Without the question a
//! line and an arm word can cross on the way; who does not ask looks again from time to time.
//!
//! # Untrusted
//!
//! Every value that the partner wrote is loaded once and checked. One that cannot be is a
//! [`Broken`]; the half that found it gives the same error from then on.

use crate::memory::{Inbound, OutOfBounds, Outbound};
use crate::version::Support;

mod hello;
mod layout;
mod line;
mod receiver;
mod sender;

pub use hello::{Hello, HELLO_SIZE, MAGIC};
pub use layout::{BadLayout, Layout, Wants, HEADER_SIZE, LINE, MAX_LINES, MIN_LINES};
pub use line::{lines_for, Head, Operation, EXTRA_MAX, INLINE_MAX, PLACED_EXTRA_MAX};
pub use receiver::{Body, GiveError, Held, Message, Receiver, Stop};
pub use sender::{Link, Need, Queue, SendError, Sender, Slot};

/// The versions of the layout in this source.
///
/// | version | what is new |
/// |---|---|
/// | 1 | first release |
pub const SUPPORT: Support = Support::only(1);

/// Where a partner's receiver tells what it has taken.
pub(crate) const CREDIT: usize = 0x080;
/// Where a partner's receiver asks for a signal.
pub(crate) const ARM_DATA: usize = 0x0c0;
/// Where a partner's sender asks for a signal.
pub(crate) const ARM_SPACE: usize = 0x100;
/// Where a partner ends the pair.
pub(crate) const END: usize = 0x140;

/// What a partner did that cannot be, or said of us. The pair has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The first word of its Hello is something else.
    Magic,
    /// It speaks no version of the layout that this side speaks.
    Version,
    /// Its window cannot be divided as it says.
    Layout,
    /// A word of a line is neither of this lap nor of the last one.
    Line,
    /// An unknown operation, or flags or bytes that are not zero.
    Operation,
    /// More data than the operation, the slot or the buffer can have.
    Length,
    /// A stream that was not announced.
    Stream,
    /// A slot that it was not given for that stream.
    Slot,
    /// It took or acknowledged more than was sent, or less than before.
    Credit,
    /// A free entry that is neither of this lap nor of the last one.
    Free,
    /// It gave a slot that it does not hold, or that does not exist.
    FreeSlot,
    /// Its end is none, or leaves out lines that were taken.
    End,
    /// An area lies outside its memory.
    Memory,
    /// It says that this side broke the rules, for that reason.
    Partner(u16),
}

impl From<OutOfBounds> for Broken {
    #[inline]
    fn from(_: OutOfBounds) -> Broken {
        Broken::Memory
    }
}

impl Broken {
    /// The reason as the partner is told it, not zero.
    pub fn reason(self) -> u16 {
        match self {
            Broken::Magic => 1,
            Broken::Version => 2,
            Broken::Layout => 3,
            Broken::Line => 4,
            Broken::Operation => 5,
            Broken::Length => 6,
            Broken::Stream => 7,
            Broken::Slot => 8,
            Broken::Credit => 9,
            Broken::Free => 10,
            Broken::FreeSlot => 11,
            Broken::End => 12,
            Broken::Memory => 13,
            Broken::Partner(reason) => reason,
        }
    }
}

/// How a partner ended the pair: one word.
///
/// | bits | content |
/// |---|---|
/// | 63..56 | 1 closed, 2 broken |
/// | 55..48 | zero |
/// | 47..32 | reason, of the layer above; broken: [`Broken::reason`], from 256 on of the layer above |
/// | 31..0 | closed: lines that the writer has sent altogether; broken: zero |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// In order: all lines that were sent before are delivered first.
    Closed {
        /// Why, as the layer above says.
        reason: u16,
        /// Lines sent, modulo 2^32.
        lines: u32,
    },
    /// At once.
    Broken {
        /// Why.
        reason: u16,
    },
}

impl End {
    /// The word that says so.
    pub fn encode(self) -> u64 {
        let word = |kind: u64, reason: u16, low: u32| {
            kind << 56 | u64::from(reason) << 32 | u64::from(low)
        };
        match self {
            End::Closed { reason, lines } => word(1, reason, lines),
            End::Broken { reason } => word(2, reason, 0),
        }
    }

    /// What a word says; nothing if it is zero.
    ///
    /// # Errors
    /// [`Broken::End`].
    pub fn decode(word: u64) -> Result<Option<End>, Broken> {
        let reason = (word >> 32) as u16;
        let end = match word >> 56 {
            1 => End::Closed {
                reason,
                lines: word as u32,
            },
            2 => End::Broken { reason },
            _ if word == 0 => return Ok(None),
            _ => return Err(Broken::End),
        };
        if end.encode() == word {
            Ok(Some(end))
        } else {
            Err(Broken::End)
        }
    }
}

/// End the pair at the partner, behind everything that was stored before. The first end that a
/// side tells is the one that counts.
///
/// # Errors
/// [`OutOfBounds`] when the window is too small.
pub fn tell_end(out: &(impl Outbound + ?Sized), end: End) -> Result<(), OutOfBounds> {
    out.wmb();
    out.store_u64(END, end.encode())?;
    out.mb();
    Ok(())
}

/// What a kernel needs to let a side sleep: it sleeps while a word of the own window has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Park {
    /// Where the word is in the own window, in bytes.
    pub word: usize,
    /// What it is as long as there is nothing new.
    pub value: u64,
    /// Where the arm word is in the partner's window, in bytes.
    pub arm: usize,
    /// What is stored there.
    pub arm_value: u64,
}

/// The two arm words of a half: the one that it stores at the partner before it sleeps, and the
/// one that the partner stores here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arms {
    there: usize,
    here: usize,
    armed: u64,
    signalled: u64,
}

impl Arms {
    pub(crate) fn new(there: usize, here: usize) -> Arms {
        Arms {
            there,
            here,
            armed: 0,
            signalled: 0,
        }
    }

    /// Ask for a signal.
    pub(crate) fn arm(&mut self, out: &(impl Outbound + ?Sized)) -> Result<(), OutOfBounds> {
        self.armed += 1;
        out.store_u64(self.there, self.armed)
    }

    /// Whether the partner has asked for a signal that it was not given yet. What it shall find
    /// was published before.
    #[inline]
    pub(crate) fn must_signal(&mut self, inb: &(impl Inbound + ?Sized)) -> Result<bool, Broken> {
        let arm = inb.load_u64(self.here)?;
        let must = arm != 0 && arm != self.signalled;
        self.signalled = arm;
        Ok(must)
    }

    pub(crate) fn park(&self, word: usize, value: u64) -> Park {
        Park {
            word,
            value,
            arm: self.there,
            arm_value: self.armed,
        }
    }
}

/// The tag of lap `lap`: never zero, never all ones.
#[inline]
pub(crate) const fn tag_of(lap: u64) -> u8 {
    (lap % 254) as u8 + 1
}

/// A ring of tagged entries, as its one writer or its one reader counts them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Laps {
    /// Entries written or read altogether.
    count: u64,
    /// Place in the ring, and the tag there: divisions are slow.
    at: u32,
    tag: u8,
    /// The tag of the lap before, zero in the first one.
    old: u8,
    entries: u32,
}

impl Laps {
    /// `entries` is a power of two.
    pub(crate) fn new(entries: u32) -> Laps {
        Laps {
            count: 0,
            at: 0,
            tag: tag_of(0),
            old: 0,
            entries,
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Place of the next entry in the ring.
    #[inline]
    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    #[inline]
    pub(crate) fn tag(&self) -> u8 {
        self.tag
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        self.count += 1;
        self.at += 1;
        if self.at >= self.entries {
            self.at = 0;
            self.old = self.tag;
            self.tag = if self.tag == tag_of(253) {
                tag_of(0)
            } else {
                self.tag + 1
            };
        }
    }

    /// Whether a word is of this lap.
    ///
    /// # Errors
    /// `bad` if it is of no lap that can be there.
    #[inline]
    pub(crate) fn is_new(&self, word: u64, bad: Broken) -> Result<bool, Broken> {
        let tag = (word >> 56) as u8;
        if tag == self.tag {
            Ok(true)
        } else if tag == self.old {
            Ok(false)
        } else {
            Err(bad)
        }
    }

    /// Whether all words of a line are of this lap.
    ///
    /// # Errors
    /// As [`is_new`](Self::is_new).
    #[inline]
    pub(crate) fn are_new(&self, line: &[u64; 8], bad: Broken) -> Result<bool, Broken> {
        let tag = u64::from(self.tag) << 56;
        let differences = line.iter().fold(0, |all, word| all | (word ^ tag));
        if differences >> 56 == 0 {
            return Ok(true);
        }
        for word in line {
            if !self.is_new(*word, bad)? {
                break;
            }
        }
        Ok(false)
    }

    /// The count, the place and the tags belong together.
    pub(crate) fn invariants(&self) -> Result<(), &'static str> {
        let entries = u64::from(self.entries.max(1));
        let lap = self.count / entries;
        let old = lap.checked_sub(1).map_or(0, tag_of);
        let fits = u64::from(self.at) == self.count % entries
            && self.tag == tag_of(lap)
            && self.old == old;
        fits.then_some(()).ok_or("a lap and its tags differ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags_follow_the_laps_and_are_never_zero_or_all_ones() {
        let mut laps = Laps::new(8);
        for _ in 0..8 * 600 {
            laps.invariants().expect("a lap");
            assert!(laps.tag() != 0 && laps.tag() != 0xff && laps.tag() != laps.old);
            laps.advance();
        }
    }

    proptest! {
        #[test]
        fn a_line_is_new_once_all_its_words_are(kinds in prop::array::uniform8(0..30_u8), laps in 0..3_u32) {
            let mut ring = Laps::new(8);
            (0..8 * laps).for_each(|_| ring.advance());
            let [new, old] = [ring.tag, ring.old].map(|tag| u64::from(tag) << 56 | 7);
            let line = kinds.map(|kind| match kind {
                0 => old,
                1 => 0xff << 56,
                _ => new,
            });
            let each = line.iter().try_fold(true, |all, word| match all {
                true => ring.is_new(*word, Broken::Line),
                false => Ok(false),
            });
            prop_assert_eq!(ring.are_new(&line, Broken::Line), each);
        }

        /// design 2, never 5
        #[test]
        fn an_end_survives_the_wire_and_other_words_are_none(word: u64, reason: u16, lines: u32) {
            for end in [End::Closed { reason, lines }, End::Broken { reason }] {
                prop_assert_eq!(End::decode(end.encode()), Ok(Some(end)));
            }
            if let Ok(Some(end)) = End::decode(word) {
                prop_assert_eq!(end.encode(), word);
            }
            prop_assert_eq!(End::decode(u64::MAX), Err(Broken::End));
        }
    }
}
