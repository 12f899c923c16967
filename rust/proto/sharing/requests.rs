// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What guests would like to read of a segment by [placed transfers](super::placed): a short queue
//! for each guest, and whose turn it is. What is asked for takes no memory beside that.

use crate::sharing::placed::{PIECE, SHARE};

/// Most pieces that a guest has asked for and that have not been sent. It may hear all of a piece,
/// and ask for the next one, before [`Requests::sent`] is called.
const ROOM: usize = SHARE + 1;

/// A piece, or what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// The number that the guest has given it.
    pub number: u32,
    /// Bytes.
    pub len: u32,
    /// Where it begins in the segment.
    pub at: u64,
}

/// A guest asks for nothing, for too much, or too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess;

/// What one guest has asked for, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    all: [Request; ROOM],
    first: usize,
    count: usize,
}

impl Requests {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A guest asks for a piece.
    ///
    /// # Errors
    /// [`Excess`]; it is dropped.
    pub fn enter(&mut self, request: Request) -> Result<(), Excess> {
        let fits = 1..=PIECE;
        if !fits.contains(&(request.len as usize)) || self.count == ROOM {
            return Err(Excess);
        }
        self.all[(self.first + self.count) % ROOM] = request;
        self.count += 1;
        Ok(())
    }

    /// What is to be sent next, at most so many bytes.
    pub fn next(&self, most: u32) -> Option<Request> {
        let request = (self.count != 0).then(|| self.all[self.first])?;
        Some(Request {
            len: request.len.min(most),
            ..request
        })
    }

    /// What [`next`](Self::next) has told was sent.
    pub fn sent(&mut self, part: &Request) {
        if let Some(request) = self.oldest(part.number) {
            request.at = request.at.wrapping_add(u64::from(part.len));
            request.len = request.len.saturating_sub(part.len);
            if request.len == 0 {
                self.pop();
            }
        }
    }

    /// It cannot be read: the guest has been told.
    pub fn failed(&mut self, part: &Request) {
        if self.oldest(part.number).is_some() {
            self.pop();
        }
    }

    fn oldest(&mut self, number: u32) -> Option<&mut Request> {
        let oldest = &mut self.all[self.first];
        (self.count != 0 && oldest.number == number).then_some(oldest)
    }

    fn pop(&mut self) {
        self.first = (self.first + 1) % ROOM;
        self.count -= 1;
    }
}

/// Whose turn it is among guests that have asked for something, behind the one that had the last:
/// each has one before any has another.
pub fn turn(waiting: impl Iterator<Item = u32> + Clone, last: u32) -> Option<u32> {
    let behind = waiting.clone().filter(|guest| *guest > last).min();
    behind.or_else(|| waiting.min())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn request(number: u32, len: usize) -> Request {
        Request {
            number,
            len: len as u32,
            at: u64::from(number) << 20,
        }
    }

    #[test]
    fn a_guest_that_asks_too_much_is_not_heard() {
        let mut requests = Requests::default();
        assert_eq!(requests.enter(request(0, 0)), Err(Excess));
        assert_eq!(requests.enter(request(0, PIECE + 1)), Err(Excess));
        for number in 0..ROOM as u32 {
            assert_eq!(requests.enter(request(number, PIECE)), Ok(()));
        }
        assert_eq!(requests.enter(request(99, 1)), Err(Excess));
        let part = requests.next(u32::MAX).expect("asked for");
        requests.sent(&part);
        assert_eq!(requests.enter(request(99, 1)), Ok(()));
    }

    #[test]
    fn what_was_told_of_another_request_changes_nothing() {
        let mut requests = Requests::default();
        requests.enter(request(5, 100)).expect("there is room");
        let before = requests;
        requests.sent(&request(4, 100));
        requests.failed(&request(6, 100));
        assert_eq!(requests, before);
        requests.failed(&request(5, 100));
        assert!(requests.is_empty());
    }

    proptest! {
        #[test]
        fn every_byte_is_sent_once_and_in_order(
            lens in prop::collection::vec(1..=PIECE, 1..40),
            mosts in prop::collection::vec(1..=PIECE as u32, 1..8),
        ) {
            let mut requests = Requests::default();
            let mut asked = lens.iter().enumerate().peekable();
            let mut sent = Vec::new();
            let mut mosts = mosts.iter().cycle();
            loop {
                while let Some((n, len)) = asked.peek() {
                    if requests.enter(request(*n as u32, **len)).is_err() {
                        break;
                    }
                    asked.next();
                }
                let Some(part) = requests.next(*mosts.next().expect("cycles")) else { break };
                requests.sent(&part);
                sent.push(part);
            }
            prop_assert!(asked.next().is_none());
            let mut parts = sent.into_iter();
            for (n, len) in lens.into_iter().enumerate() {
                let (mut at, end) = ((n as u64) << 20, ((n as u64) << 20) + len as u64);
                while at != end {
                    let part = parts.next().expect("not all was sent");
                    prop_assert_eq!((part.number, part.at), (n as u32, at));
                    at += u64::from(part.len);
                }
            }
            prop_assert_eq!(parts.next(), None);
        }

        #[test]
        fn each_guest_has_its_turn_before_any_has_another(
            guests in prop::collection::btree_set(1u32..1000, 1..20),
            start in any::<u32>(),
        ) {
            let mut last = start;
            let mut served = Vec::new();
            for _ in 0..guests.len() {
                last = turn(guests.iter().copied(), last).expect("some wait");
                served.push(last);
            }
            served.sort_unstable();
            prop_assert_eq!(served, guests.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(turn(core::iter::empty(), last), None);
        }
    }
}
