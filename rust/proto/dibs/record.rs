// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a sender has stored into landing places, and did not tell the owners of the buffers yet.
//!
//! Data is told with the next signal of the same buffer, in one [`Moved`]. Signals that wait for room in
//! the ring become one: the newest record stands, and ranges add up.

use core::ops::DerefMut;

use super::cdc::Record;
use super::message::Moved;
use super::{Token, HEAD};

/// Bytes of a buffer, none of its head and at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    start: u32,
    len: u32,
}

impl Range {
    /// `None` for no bytes, those of the head, or more than can be counted.
    pub const fn new(start: u32, len: u32) -> Option<Range> {
        if start < HEAD || len == 0 || start.checked_add(len).is_none() {
            return None;
        }
        Some(Range { start, len })
    }

    /// The first byte.
    pub const fn start(self) -> u32 {
        self.start
    }

    /// How many bytes.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// The byte behind the last.
    pub const fn end(self) -> u32 {
        self.start + self.len
    }

    /// Whether all of it is in a buffer of `len` bytes.
    pub const fn is_inside(self, len: u32) -> bool {
        self.end() <= len
    }

    /// The shortest range with both.
    fn hull(self, other: Range) -> Range {
        let start = self.start.min(other.start);
        let len = self.end().max(other.end()) - start;
        Range { start, len }
    }

    /// Whether no byte is between them.
    fn touches(self, other: Range) -> bool {
        self.start <= other.end() && other.start <= self.end()
    }
}

/// Most ranges of a buffer that are told at once.
pub const MAX_RANGES: usize = 4;

/// A few ranges of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ranges {
    list: [Option<Range>; MAX_RANGES],
}

impl Ranges {
    /// No range.
    pub const NONE: Ranges = Ranges {
        list: [None; MAX_RANGES],
    };

    /// Add a range to one that it touches, or as a further one; when there are too many, all become the
    /// shortest one with all of them.
    pub fn add(&mut self, range: Range) {
        let touching = self.list.iter_mut().flatten().find(|r| r.touches(range));
        if let Some(touching) = touching {
            *touching = touching.hull(range);
            return;
        }
        if let Some(free) = self.list.iter_mut().find(|r| r.is_none()) {
            *free = Some(range);
            return;
        }
        let all = self.iter().fold(range, Range::hull);
        *self = Ranges::NONE;
        self.list[0] = Some(all);
    }

    /// Add a range behind the others as it is, if there is room.
    pub(super) fn push(&mut self, range: Range) -> Option<()> {
        *self.list.iter_mut().find(|r| r.is_none())? = Some(range);
        Some(())
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.list.iter().flatten().copied()
    }
}

/// What waits for one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    token: Token,
    ranges: Ranges,
    /// If the owner is to be told.
    signal: Option<u16>,
    record: Option<Record>,
    /// Whether it is in the queue, and what is behind it there.
    queued: bool,
    next: Option<u16>,
}

impl Pending {
    /// Nothing.
    pub const NONE: Pending = Pending {
        token: Token::from_raw(0),
        ranges: Ranges::NONE,
        signal: None,
        record: None,
        queued: false,
        next: None,
    };

    /// Drop all that is for somebody else than the buffer with this token.
    fn for_token(&mut self, token: Token) -> &mut Self {
        if self.token != token {
            self.clear();
            self.token = token;
        }
        self
    }

    fn clear(&mut self) {
        self.ranges = Ranges::NONE;
        self.signal = None;
        self.record = None;
    }
}

/// What waits for all buffers of a peer, in the order of their first signals.
pub struct Outbox<T> {
    slots: T,
    first: Option<u16>,
    last: Option<u16>,
}

impl<T: DerefMut<Target = [Pending]>> Outbox<T> {
    /// With one [`Pending::NONE`] for each entry of the table.
    pub fn new(slots: T) -> Self {
        Self {
            slots,
            first: None,
            last: None,
        }
    }

    /// How many buffers there can be.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    fn slot(&mut self, slot: u16) -> Option<&mut Pending> {
        self.slots.get_mut(usize::from(slot))
    }

    /// A range of the landing place has been written.
    pub fn moved(&mut self, token: Token, range: Range) {
        if let Some(pending) = self.slot(token.slot()) {
            pending.for_token(token).ranges.add(range);
        }
    }

    /// The client of the owner is to look, at this record if there is one.
    pub fn signal(&mut self, token: Token, index: u16, record: Option<Record>) {
        let slot = token.slot();
        let Some(pending) = self.slot(slot) else {
            return;
        };
        let pending = pending.for_token(token);
        pending.signal = Some(index);
        pending.record = record.or(pending.record);
        if !pending.queued {
            pending.queued = true;
            pending.next = None;
            self.append(slot);
        }
    }

    fn append(&mut self, slot: u16) {
        match self.last.replace(slot).and_then(|last| self.slot(last)) {
            Some(last) => last.next = Some(slot),
            None => self.first = Some(slot),
        }
    }

    /// The next message. It waits until it is [taken](Self::pop).
    pub fn peek(&mut self) -> Option<Moved> {
        loop {
            let first = self.first?;
            let pending = *self.slot(first)?;
            if let Some(signal) = pending.signal {
                return Some(Moved {
                    token: pending.token,
                    signal,
                    ranges: pending.ranges,
                    record: pending.record,
                });
            }
            self.pop();
        }
    }

    /// Take the next message.
    pub fn pop(&mut self) {
        let Some(first) = self.first else { return };
        let Some(pending) = self.slot(first) else {
            return;
        };
        pending.clear();
        pending.queued = false;
        let next = pending.next.take();
        self.first = next;
        if next.is_none() {
            self.last = None;
        }
    }

    /// The owner has taken the buffer back: nobody is told any more.
    pub fn forget(&mut self, token: Token) {
        if let Some(pending) = self.slot(token.slot()) {
            if pending.token == token {
                pending.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dibs::cdc;
    use crate::wire::PeerId;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn range(start: u32, len: u32) -> Range {
        Range::new(start, len).unwrap()
    }

    fn token(slot: u16) -> Token {
        Token::new(PeerId(1), slot, 5).unwrap()
    }

    fn outbox() -> Outbox<Vec<Pending>> {
        Outbox::new(std::vec![Pending::NONE; 8])
    }

    fn take(outbox: &mut Outbox<Vec<Pending>>) -> Option<Moved> {
        let moved = outbox.peek();
        outbox.pop();
        moved
    }

    #[test]
    fn data_is_told_with_the_next_signal() {
        let mut outbox = outbox();
        outbox.moved(token(3), range(100, 10));
        assert_eq!(outbox.peek(), None);
        outbox.signal(token(3), 1, None);
        let moved = take(&mut outbox).unwrap();
        assert_eq!(moved.token, token(3));
        assert_eq!(moved.ranges.iter().collect::<Vec<_>>(), [range(100, 10)]);
        assert_eq!(take(&mut outbox), None);
    }

    #[test]
    fn signals_that_wait_become_one_with_the_newest_record() {
        let mut outbox = outbox();
        let [old, new] = [1, 2].map(|n| cdc::tests::record((0, n), (0, 0)));
        outbox.moved(token(3), range(100, 10));
        outbox.signal(token(3), 1, Some(old));
        outbox.signal(token(5), 1, None);
        outbox.moved(token(3), range(110, 10));
        outbox.signal(token(3), 1, Some(new));
        let moved = take(&mut outbox).unwrap();
        assert_eq!(moved.record, Some(new));
        assert_eq!(moved.ranges.iter().collect::<Vec<_>>(), [range(100, 20)]);
        assert_eq!(take(&mut outbox).unwrap().token, token(5));
        assert_eq!(take(&mut outbox), None);
    }

    #[test]
    fn what_is_not_taken_stays() {
        let mut outbox = outbox();
        outbox.signal(token(1), 0, None);
        assert_eq!(outbox.peek(), outbox.peek());
        assert!(outbox.peek().is_some());
    }

    #[test]
    fn nothing_is_told_of_a_buffer_that_was_taken_back() {
        let mut outbox = outbox();
        outbox.moved(token(1), range(100, 10));
        outbox.signal(token(1), 0, None);
        outbox.signal(token(2), 0, None);
        outbox.forget(token(1));
        assert_eq!(take(&mut outbox).unwrap().token, token(2));
        // Nor of a later one in the same slot.
        let later = Token::new(PeerId(1), 1, 6).unwrap();
        outbox.moved(token(1), range(100, 10));
        outbox.signal(later, 0, None);
        let moved = take(&mut outbox).unwrap();
        assert_eq!((moved.token, moved.ranges), (later, Ranges::NONE));
    }

    #[test]
    fn ranges_never_have_the_head() {
        assert_eq!(Range::new(HEAD - 1, 4), None);
        assert_eq!(Range::new(HEAD, 0), None);
        assert_eq!(Range::new(u32::MAX, 1), None);
        assert!(Range::new(HEAD, 1).is_some());
    }

    proptest! {
        /// Every byte that was moved is told, in order of the signals, each slot once.
        #[test]
        fn all_that_was_moved_is_told(
            moves in proptest::collection::vec((0u16..8, HEAD..4096, 1u32..200, any::<bool>()), 1..60)
        ) {
            let mut outbox = outbox();
            let mut signalled = Vec::new();
            let mut moved = Vec::new();
            for (slot, start, len, signal) in moves {
                outbox.moved(token(slot), range(start, len));
                moved.push((slot, start, len));
                if signal {
                    outbox.signal(token(slot), slot, None);
                    if !signalled.contains(&slot) {
                        signalled.push(slot);
                    }
                }
            }
            for slot in signalled {
                let told = take(&mut outbox).unwrap();
                prop_assert_eq!((told.token, told.signal), (token(slot), slot));
                for (_, start, len) in moved.iter().filter(|m| m.0 == slot) {
                    let all = range(*start, *len);
                    let has = |at| told.ranges.iter().any(|r| r.start() <= at && at < r.end());
                    prop_assert!((all.start()..all.end()).all(has));
                }
            }
            prop_assert_eq!(take(&mut outbox), None);
        }
    }
}
