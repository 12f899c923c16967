// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Numbers of frames that are of use only if none is missing (IDT-MSG-7, design 4.9).
//!
//! A host that forwards may drop a frame, and the next one still arrives. Where a service relies on
//! all of them, its sender numbers them ([`Numbers`]), and its receiver takes them in order only
//! ([`Order`]): behind a gap it takes none, until one comes that begins a conversation anew. If
//! no frame follows a lost one, the receiver cannot notice; the host that has dropped it tells the
//! sender ([`Message::Lost`](crate::manage::Message::Lost)).

/// The sender's half.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbers {
    next: u32,
}

impl Numbers {
    /// The number of the next frame, which is also how many were sent, modulo 2^32.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// That frame has been sent.
    pub fn sent(&mut self) {
        self.next = self.next.wrapping_add(1);
    }
}

/// What is to be done with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one.
    Next,
    /// One before it is missing: neither it nor those behind it are taken. Said once.
    Gap,
    /// It is of no conversation, or behind a gap.
    Outside,
}

/// The receiver's half.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Order {
    /// The number of the next frame, within a conversation without a gap.
    next: Option<u32>,
}

impl Order {
    /// A frame of that number has arrived, which `begins` a conversation or does not.
    ///
    /// A sender begins one only when it has done with what it sent before: so it does not matter
    /// whether that has arrived.
    pub fn arrived(&mut self, number: u32, begins: bool) -> Arrival {
        match self.next {
            Some(next) if next != number && !begins => {
                self.fail();
                Arrival::Gap
            }
            None if !begins => Arrival::Outside,
            _ => {
                self.next = Some(number.wrapping_add(1));
                Arrival::Next
            }
        }
    }

    /// Take nothing more of this conversation.
    pub fn fail(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// What becomes of a frame on its way.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Fate {
        Arrives,
        Lost,
        Twice,
    }

    fn fates() -> impl Strategy<Value = Fate> {
        prop_oneof![8 => Just(Fate::Arrives), 1 => Just(Fate::Lost), 1 => Just(Fate::Twice)]
    }

    #[test]
    fn nothing_is_taken_before_a_conversation_begins() {
        let mut order = Order::default();
        assert_eq!(order.arrived(0, false), Arrival::Outside);
        assert_eq!(order.arrived(7, true), Arrival::Next);
        assert_eq!(order.arrived(8, false), Arrival::Next);
        order.fail();
        assert_eq!(order.arrived(9, false), Arrival::Outside);
    }

    #[test]
    fn numbers_go_on_behind_the_last_one() {
        let mut numbers = Numbers { next: u32::MAX };
        let mut order = Order::default();
        for begins in [true, false, false] {
            assert_eq!(order.arrived(numbers.next(), begins), Arrival::Next);
            numbers.sent();
        }
        assert_eq!(numbers.next(), 2);
    }

    proptest! {
        /// design 2, never 7: behind a frame that was lost none is taken as if it had not been, and
        /// the receiver is told once; the next conversation is whole again.
        #[test]
        fn what_is_taken_of_a_conversation_is_its_beginning(
            start: u32,
            frames in prop::collection::vec((prop::bool::weighted(0.1), fates()), 1..200),
        ) {
            let mut numbers = Numbers { next: start };
            let mut order = Order::default();
            // Of the conversation at hand: frames sent before, taken, and gaps that were told.
            let (mut sent, mut taken, mut gaps) = (0, Vec::new(), 0);
            for (begins, fate) in frames {
                let number = numbers.next();
                numbers.sent();
                if begins {
                    (sent, taken, gaps) = (0, Vec::new(), 0);
                }
                let times = match fate {
                    Fate::Lost => 0,
                    Fate::Twice if !begins => 2,
                    _ => 1,
                };
                for _ in 0..times {
                    match order.arrived(number, begins) {
                        Arrival::Next => taken.push(sent),
                        Arrival::Gap => gaps += 1,
                        Arrival::Outside => {}
                    }
                }
                sent += 1;
                prop_assert!(taken.iter().copied().eq(0..taken.len()));
                prop_assert!(gaps <= 1);
            }
        }
    }
}
