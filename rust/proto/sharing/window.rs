// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! How many messages to a port may be under way (SI-TRDINT-3). The receiver tells how many it has
//! taken altogether, modulo 2^32; the sender has at most [`MESSAGES`] that are not taken.

use crate::sharing::Corrupt;

/// Most messages of one connection that the port has not taken: as many as `sisci_types.h`
/// promises.
pub const MESSAGES: u32 = 64;

/// The sender's side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sender {
    sent: u32,
    taken: u32,
}

impl Sender {
    /// How many have been sent, modulo 2^32.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Whether one more may be sent.
    pub fn has_room(&self) -> bool {
        self.sent.wrapping_sub(self.taken) < MESSAGES
    }

    /// The number of the next message, which is sent; `None` if it has to wait.
    pub fn send(&mut self) -> Option<u32> {
        if !self.has_room() {
            return None;
        }
        let number = self.sent;
        self.sent = number.wrapping_add(1);
        Some(number)
    }

    /// The receiver has taken so many.
    ///
    /// # Errors
    /// [`Corrupt`] if there were not so many.
    pub fn taken(&mut self, total: u32) -> Result<(), Corrupt> {
        let under_way = self.sent.wrapping_sub(self.taken);
        if total.wrapping_sub(self.taken) > under_way {
            return Err(Corrupt);
        }
        self.taken = total;
        Ok(())
    }
}

/// The receiver's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receiver {
    arrived: u32,
    /// So many of those that have arrived are with the port, or were.
    delivered: u32,
    taken: u32,
    /// How many there are altogether, of a sender that has left.
    all: Option<u32>,
}

impl Receiver {
    /// The message of that number has arrived.
    ///
    /// # Errors
    /// [`Corrupt`] if it is not the next one, or too many, or its sender had left before.
    pub fn arrived(&mut self, number: u32) -> Result<(), Corrupt> {
        let is_behind_all = self.all == Some(number);
        if number != self.arrived || is_behind_all || self.untaken() >= MESSAGES {
            return Err(Corrupt);
        }
        self.arrived = number.wrapping_add(1);
        Ok(())
    }

    /// The oldest of those that have arrived goes to the port. Whether it is the last one of a
    /// sender that has left.
    pub fn deliver(&mut self) -> bool {
        self.delivered = self.delivered.wrapping_add(1);
        self.has_all()
    }

    /// The sender has left, and has sent so many. Whether all of them are with the port; else
    /// [`deliver`](Self::deliver) tells. It may be told again.
    ///
    /// # Errors
    /// [`Corrupt`] if more have arrived, or so many cannot be under way.
    pub fn left(&mut self, sent: u32) -> Result<bool, Corrupt> {
        let is_another = self.all.is_some_and(|all| all != sent);
        let under_way = sent.wrapping_sub(self.arrived);
        if is_another || under_way > MESSAGES.saturating_sub(self.untaken()) {
            return Err(Corrupt);
        }
        self.all = Some(sent);
        Ok(self.has_all())
    }

    /// Whether the sender has left.
    pub fn has_left(&self) -> bool {
        self.all.is_some()
    }

    fn has_all(&self) -> bool {
        self.all == Some(self.delivered)
    }

    fn untaken(&self) -> u32 {
        self.arrived.wrapping_sub(self.taken)
    }

    /// One more has been taken: the total, if the sender is to be told.
    pub fn take(&mut self) -> Option<u32> {
        if self.taken == self.arrived {
            return None;
        }
        self.taken = self.taken.wrapping_add(1);
        Some(self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// SI-TRDINT-3, SI-CRDINT-2
        #[test]
        fn a_sender_never_has_more_under_way_than_the_port_takes(
            start in any::<u32>(),
            steps in prop::collection::vec(0u8..4, 0..300),
        ) {
            let mut sender = Sender { sent: start, taken: start };
            let mut receiver = Receiver {
                arrived: start,
                delivered: start,
                taken: start,
                all: None,
            };
            let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
            for what in steps {
                match what {
                    0 => if let Some(number) = sender.send() {
                        there.push_back(number);
                    },
                    1 => if let Some(number) = there.pop_front() {
                        prop_assert_eq!(receiver.arrived(number), Ok(()));
                    },
                    2 => back.extend(receiver.take()),
                    _ => if let Some(total) = back.pop_front() {
                        prop_assert_eq!(sender.taken(total), Ok(()));
                    },
                }
                prop_assert!(sender.sent.wrapping_sub(receiver.taken) <= MESSAGES);
            }
            while let Some(number) = there.pop_front() {
                prop_assert_eq!(receiver.arrived(number), Ok(()));
            }
            while let Some(total) = receiver.take() {
                back.push_back(total);
            }
            for total in back {
                prop_assert_eq!(sender.taken(total), Ok(()));
            }
            prop_assert!(sender.has_room());
        }
    }

    /// design 2, never 5
    #[test]
    fn what_was_not_sent_cannot_be_taken_and_what_has_no_room_cannot_arrive() {
        let mut sender = Sender::default();
        assert_eq!(sender.taken(1), Err(Corrupt));
        sender.send();
        assert_eq!(sender.taken(2), Err(Corrupt));
        assert_eq!(sender.taken(1), Ok(()));
        assert_eq!(sender.taken(0), Err(Corrupt));
        let mut receiver = Receiver::default();
        assert_eq!(receiver.arrived(1), Err(Corrupt));
        for number in 0..MESSAGES {
            assert_eq!(receiver.arrived(number), Ok(()));
        }
        assert_eq!(receiver.arrived(MESSAGES), Err(Corrupt));
        assert_eq!(receiver.take(), Some(1));
        assert_eq!(receiver.arrived(MESSAGES), Ok(()));
    }
    /// SI-TRDINT-3
    #[test]
    fn a_sender_has_left_when_all_that_it_has_sent_is_with_the_port() {
        let mut receiver = Receiver::default();
        for number in 0..3 {
            assert_eq!(receiver.arrived(number), Ok(()));
        }
        assert!(!receiver.deliver());
        assert!(!receiver.has_left());
        assert_eq!(receiver.left(4), Ok(false));
        assert_eq!(receiver.left(4), Ok(false));
        assert_eq!(receiver.left(3), Err(Corrupt));
        assert!(receiver.has_left());
        assert!(!receiver.deliver());
        assert!(!receiver.deliver());
        assert_eq!(receiver.arrived(3), Ok(()));
        assert!(receiver.deliver());
        assert_eq!(receiver.arrived(4), Err(Corrupt));
    }

    #[test]
    fn who_has_left_cannot_have_sent_less_than_has_arrived_or_more_than_has_room() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.left(MESSAGES + 1), Err(Corrupt));
        assert_eq!(receiver.arrived(0), Ok(()));
        assert_eq!(receiver.left(0), Err(Corrupt));
        assert_eq!(receiver.left(MESSAGES + 1), Err(Corrupt));
        assert!(!receiver.has_left());
        assert_eq!(receiver.left(MESSAGES), Ok(false));
        assert_eq!(Receiver::default().left(0), Ok(true));
    }
}
