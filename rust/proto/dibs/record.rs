// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Records that a sender has for the owners of buffers, and did not send yet.
//!
//! Those of one buffer that wait for room in the ring become one: the newest stands, which also tells what
//! has been stored before the others.

use core::ops::DerefMut;

use super::cdc::{self, Record};
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
}

/// What waits for one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    token: Token,
    /// Which signal of the newest record, if that waits.
    signal: Option<u16>,
    /// The newest record, and that of which connection it is.
    record: Record,
    life: u16,
    /// Whether it is in the queue, and what is behind it there.
    queued: bool,
    next: Option<u16>,
}

impl Pending {
    /// Nothing.
    pub const NONE: Pending = Pending {
        token: Token::from_raw(0),
        signal: None,
        record: [0; HEAD as usize],
        life: 0,
        queued: false,
        next: None,
    };

    /// Let a record of the client's wait.
    fn add(&mut self, token: Token, signal: u16, record: Record) {
        if self.token != token {
            self.life = 0;
        } else if !cdc::continues(&self.record, &record) {
            self.life = self.life.wrapping_add(1);
        }
        self.token = token;
        self.signal = Some(signal);
        self.record = record;
    }
}

/// What waits for all buffers of a peer, in the order of their first records.
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

    /// The client of the owner is to look at this record. What waits for another buffer that had the
    /// slot is dropped.
    pub fn signal(&mut self, token: Token, signal: u16, record: Record) {
        let slot = token.slot();
        let Some(pending) = self.slot(slot) else {
            return;
        };
        pending.add(token, signal, record);
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
                    life: pending.life,
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
        pending.signal = None;
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
                pending.signal = None;
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

    fn token(slot: u16) -> Token {
        Token::new(PeerId(1), slot, 5).unwrap()
    }

    fn produced(count: u32) -> Record {
        cdc::tests::record((0, count), (0, 0))
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
    fn records_that_wait_become_the_newest() {
        let mut outbox = outbox();
        outbox.signal(token(3), 1, produced(1));
        outbox.signal(token(5), 1, produced(7));
        outbox.signal(token(3), 2, produced(2));
        let moved = take(&mut outbox).unwrap();
        assert_eq!((moved.signal, moved.record), (2, produced(2)));
        assert_eq!(take(&mut outbox).unwrap().token, token(5));
        assert_eq!(take(&mut outbox), None);
    }

    #[test]
    fn connections_that_use_a_buffer_are_counted() {
        let mut outbox = outbox();
        let mut life = |count| {
            outbox.signal(token(3), 0, produced(count));
            take(&mut outbox).unwrap().life
        };
        assert_eq!([1, 2, 2, 1, 1].map(&mut life), [0, 0, 0, 1, 1]);
        outbox.signal(Token::new(PeerId(1), 3, 6).unwrap(), 0, produced(0));
        assert_eq!(take(&mut outbox).unwrap().life, 0);
    }

    #[test]
    fn what_is_not_taken_stays() {
        let mut outbox = outbox();
        outbox.signal(token(1), 0, produced(1));
        assert_eq!(outbox.peek(), outbox.peek());
        assert!(outbox.peek().is_some());
    }

    #[test]
    fn nothing_is_told_of_a_buffer_that_was_taken_back() {
        let mut outbox = outbox();
        outbox.signal(token(1), 0, produced(1));
        outbox.signal(token(2), 0, produced(1));
        outbox.forget(token(1));
        assert_eq!(take(&mut outbox).unwrap().token, token(2));
        // Nor is what waits for a later one in the same slot dropped with it.
        let later = Token::new(PeerId(1), 1, 6).unwrap();
        outbox.signal(token(1), 0, produced(1));
        outbox.signal(later, 0, produced(2));
        outbox.forget(token(1));
        let moved = take(&mut outbox).unwrap();
        assert_eq!((moved.token, moved.record), (later, produced(2)));
        assert_eq!(take(&mut outbox), None);
    }

    #[test]
    fn ranges_never_have_the_head() {
        assert_eq!(Range::new(HEAD - 1, 4), None);
        assert_eq!(Range::new(HEAD, 0), None);
        assert_eq!(Range::new(u32::MAX, 1), None);
        assert!(Range::new(HEAD, 1).is_some());
    }

    proptest! {
        /// The newest record of each buffer is told once, in the order of the first ones.
        #[test]
        fn all_that_was_recorded_is_told(
            signals in proptest::collection::vec((0u16..8, any::<bool>()), 1..60)
        ) {
            let mut outbox = outbox();
            let mut expected: Vec<(u16, u32)> = Vec::new();
            for (count, (slot, is_taken)) in (0u32..).zip(signals) {
                outbox.signal(token(slot), slot, produced(count));
                match expected.iter_mut().find(|e| e.0 == slot) {
                    Some(waiting) => waiting.1 = count,
                    None => expected.push((slot, count)),
                }
                if is_taken {
                    let (slot, count) = expected.remove(0);
                    let told = take(&mut outbox).unwrap();
                    prop_assert_eq!((told.token, told.record), (token(slot), produced(count)));
                }
            }
            for (slot, count) in expected {
                let told = take(&mut outbox).unwrap();
                prop_assert_eq!((told.token, told.record), (token(slot), produced(count)));
            }
            prop_assert_eq!(take(&mut outbox), None);
        }
    }
}
