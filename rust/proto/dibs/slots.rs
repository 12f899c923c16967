// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The buffers that a host has lent to one peer, by the entries of that peer's table.
//!
//! A slot is free, lent, or taken back. A slot that was taken back stays so until the peer has said that
//! it writes there no more: until then it may be in the middle of that.

use core::ops::DerefMut;

use super::Token;
use crate::wire::PeerId;

/// One slot. `index` is the number of the buffer at the owner's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Nobody's.
    Free,
    /// The peer sends into buffer `index`.
    Lent {
        /// The buffer's token.
        token: Token,
        /// Which one it is.
        index: u32,
    },
    /// The peer has been told to stop, or is about to be.
    TakenBack {
        /// What the buffer's token was.
        token: Token,
    },
}

/// All slots of a peer.
pub struct Slots<T> {
    slots: T,
    /// Where to look next, so that a slot is used again as late as possible.
    next: usize,
}

impl<T: DerefMut<Target = [Slot]>> Slots<T> {
    /// With one [`Slot::Free`] for each entry of the peer's table.
    pub fn new(slots: T) -> Self {
        Self { slots, next: 0 }
    }

    fn slot(&mut self, token: Token) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(token.slot()))
    }

    /// Lend buffer `index` of `owner`, the own host, if a slot is free among the first `limit`, of which
    /// the peer has entries.
    pub fn lend(&mut self, owner: PeerId, limit: usize, index: u32, random: u64) -> Option<Token> {
        let limit = limit.min(self.slots.len());
        let is_free = |at: &usize| self.slots.get(*at) == Some(&Slot::Free);
        let from = self.next.min(limit);
        let at = (from..limit).chain(0..from).find(is_free)?;
        let token = Token::new(owner, u16::try_from(at).ok()?, random)?;
        *self.slots.get_mut(at)? = Slot::Lent { token, index };
        self.next = at + 1;
        Some(token)
    }

    /// The buffer that the peer may send into by this token.
    pub fn lent(&self, token: Token) -> Option<u32> {
        match self.slots.get(usize::from(token.slot()))? {
            Slot::Lent { token: lent, index } if *lent == token => Some(*index),
            _ => None,
        }
    }

    /// Take a buffer back. Whether it was lent.
    pub fn take_back(&mut self, token: Token) -> bool {
        match self.slot(token) {
            Some(slot @ Slot::Lent { .. }) if is(slot, token) => {
                *slot = Slot::TakenBack { token };
                true
            }
            _ => false,
        }
    }

    /// The peer says that it does not write there any more. Whether it was told to.
    pub fn let_go(&mut self, token: Token) -> bool {
        match self.slot(token) {
            Some(slot @ Slot::TakenBack { .. }) if is(slot, token) => {
                *slot = Slot::Free;
                true
            }
            _ => false,
        }
    }

    /// Whether nobody has it.
    pub fn is_free(&self, slot: usize) -> bool {
        self.slots.get(slot) == Some(&Slot::Free)
    }

    /// How many are not free.
    pub fn used(&self) -> usize {
        self.slots.iter().filter(|s| **s != Slot::Free).count()
    }
}

fn is(slot: &Slot, wanted: Token) -> bool {
    match slot {
        Slot::Free => false,
        Slot::Lent { token, .. } | Slot::TakenBack { token } => *token == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const OWNER: PeerId = PeerId(3);

    fn slots(count: usize) -> Slots<Vec<Slot>> {
        Slots::new(std::vec![Slot::Free; count])
    }

    #[test]
    fn a_slot_is_lent_once() {
        let mut slots = slots(2);
        let first = slots.lend(OWNER, 2, 10, 1).unwrap();
        let second = slots.lend(OWNER, 2, 11, 1).unwrap();
        assert_ne!(first.slot(), second.slot());
        assert_eq!(slots.lend(OWNER, 2, 12, 1), None);
        assert_eq!(
            (slots.lent(first), slots.lent(second)),
            (Some(10), Some(11))
        );
    }

    #[test]
    fn the_peer_has_fewer_entries() {
        let mut slots = slots(8);
        assert!(slots.lend(OWNER, 1, 0, 1).is_some());
        assert_eq!(slots.lend(OWNER, 1, 1, 1), None);
    }

    /// The landing place may be written until the peer has let go.
    #[test]
    fn a_slot_is_free_when_the_peer_has_let_go() {
        let mut slots = slots(1);
        let token = slots.lend(OWNER, 1, 0, 1).unwrap();
        assert!(slots.take_back(token));
        assert_eq!(slots.lent(token), None);
        assert_eq!(slots.lend(OWNER, 1, 1, 2), None);
        assert!(!slots.is_free(0));
        assert!(slots.let_go(token));
        assert!(slots.is_free(0) && !slots.is_free(1));
        assert_eq!(slots.used(), 0);
        assert!(slots.lend(OWNER, 1, 1, 2).is_some());
    }

    #[test]
    fn nobody_lets_go_of_what_it_was_not_told_to() {
        let mut slots = slots(1);
        let token = slots.lend(OWNER, 1, 0, 1).unwrap();
        assert!(!slots.let_go(token));
        let other = Token::new(OWNER, 0, 2).unwrap();
        assert!(!slots.take_back(other));
        assert!(slots.take_back(token));
        assert!(!slots.take_back(token));
        assert!(!slots.let_go(other));
        assert!(slots.let_go(token) && !slots.let_go(token));
    }

    /// What is under way for the buffer before is not for this one.
    #[test]
    fn an_old_token_leads_to_no_later_buffer() {
        let mut slots = slots(1);
        let old = slots.lend(OWNER, 1, 0, 1).unwrap();
        slots.take_back(old);
        slots.let_go(old);
        let new = slots.lend(OWNER, 1, 7, 2).unwrap();
        assert_eq!((slots.lent(old), slots.lent(new)), (None, Some(7)));
        assert!(!slots.take_back(old));
    }

    #[test]
    fn slots_are_used_again_as_late_as_possible() {
        let mut slots = slots(3);
        for round in 0..6 {
            let token = slots.lend(OWNER, 3, 0, 1).unwrap();
            assert_eq!(token.slot(), round % 3);
            slots.take_back(token);
            slots.let_go(token);
        }
    }
}
