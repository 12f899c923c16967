// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! How many messages of each peer may wait until the message frame service has read them.
//!
//! What a message says is not said again, so none of a peer that keeps to the protocol may be lost.
//! Such a peer says few things of each other host, whoever else says how much: each has a share of
//! its own, and what one has beyond its share costs no other anything.

use crate::wire::MAX_PEERS;

/// Most messages of one peer of one other host that wait: that it is there, has gone, and is there
/// anew, and that frames of it are taken.
const OF_EACH_HOST: usize = 4;

/// Most messages of one peer that wait.
pub const SHARE: usize = OF_EACH_HOST * MAX_PEERS;

/// Messages for which a host with so many peers has memory in advance: as many as all of them have
/// to say of each other, or one has of all hosts.
pub const fn in_advance(peers: usize) -> usize {
    let of_all = OF_EACH_HOST * peers * peers;
    if of_all > SHARE {
        of_all
    } else {
        SHARE
    }
}

/// How many messages of each peer wait, by its index.
#[derive(Debug)]
pub struct Shares([u16; MAX_PEERS]);

impl Shares {
    /// Nothing waits.
    pub const fn new() -> Self {
        Self([0; MAX_PEERS])
    }

    /// One more message of peer `index` waits; `false` if it has its share already.
    pub fn take(&mut self, index: u32) -> bool {
        match self.0.get_mut(index as usize) {
            Some(waiting) if usize::from(*waiting) < SHARE => {
                *waiting += 1;
                true
            }
            _ => false,
        }
    }

    /// A message of peer `index` has been read.
    pub fn give_back(&mut self, index: u32) {
        if let Some(waiting) = self.0.get_mut(index as usize) {
            *waiting = waiting.saturating_sub(1);
        }
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All hosts of a star say at once that frames of all others are taken.
    #[test]
    fn what_all_have_to_say_of_each_other_has_room() {
        for peers in 1..MAX_PEERS {
            let mut shares = Shares::new();
            let mut waiting = 0;
            for index in 1..=peers as u32 {
                for _ in 0..OF_EACH_HOST * (peers - 1) {
                    assert!(shares.take(index));
                    waiting += 1;
                }
            }
            assert!(waiting <= in_advance(peers));
        }
    }

    #[test]
    fn who_has_too_much_to_say_costs_no_other_its_share() {
        let mut shares = Shares::new();
        let taken = (0..3 * SHARE).filter(|_| shares.take(1)).count();
        assert_eq!(taken, SHARE);
        assert!((0..SHARE).all(|_| shares.take(2)));
        shares.give_back(1);
        assert!(shares.take(1) && !shares.take(1));
        // No peer has such a number, and nothing of it waits.
        assert!(!shares.take(MAX_PEERS as u32));
        shares.give_back(MAX_PEERS as u32);
        shares.give_back(3);
        assert_eq!((0..2 * SHARE).filter(|_| shares.take(3)).count(), SHARE);
    }
}
