// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Which transmit queues of the virtual Ethernet lead to which peer.
//!
//! Queue 0 is for packets to all peers. The queues of each peer follow, in the order of their
//! indices. Peers with an index below [`WIDE`] have as many as are asked for, the others one each:
//! the stack keeps a queueing discipline for every queue that there may be, of 24 to 70 KiB. With
//! four queues for each of 64 peers that is 6 to 17 MiB of memory, with these numbers 2.5 to 8.

/// The queue of packets to all peers.
pub const TO_ALL: u32 = 0;

/// Most peers.
pub const MAX_PEERS: u32 = crate::wire::MAX_PEERS as u32;

/// Most queues of a peer.
pub const MAX_QUEUES: u16 = 8;

/// Peers with an index below have more than one queue.
pub const WIDE: u32 = 16;

/// How many queues peers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    of_wide: u16,
}

impl Queues {
    /// Peers with an index below [`WIDE`] have so many; `None` if that is zero or more than
    /// [`MAX_QUEUES`].
    pub fn new(of_wide: u16) -> Option<Self> {
        (1..=MAX_QUEUES)
            .contains(&of_wide)
            .then_some(Self { of_wide })
    }

    /// How many the peer with this index has.
    #[inline]
    pub fn count(&self, index: u32) -> u16 {
        if index < WIDE {
            self.of_wide
        } else {
            1
        }
    }

    /// The most that a peer has.
    pub fn most(&self) -> u16 {
        self.of_wide
    }

    /// The first one of the peer with this index.
    #[inline]
    pub fn first(&self, index: u32) -> u32 {
        let wide = index.min(WIDE);
        TO_ALL + 1 + wide * u32::from(self.of_wide) + (index - wide)
    }

    /// How many there are for all peers below index `end`.
    pub fn total(&self, end: u32) -> u32 {
        self.first(end)
    }

    /// The index of the peer that queue `number` leads to, and which of its queues that is; `None`
    /// for the one to all.
    #[inline]
    pub fn peer(&self, number: u32) -> Option<(u32, usize)> {
        let number = number.checked_sub(TO_ALL + 1)?;
        let each = u32::from(self.of_wide);
        match number.checked_sub(WIDE * each) {
            Some(beyond) => Some((WIDE + beyond, 0)),
            None => Some((
                number.checked_div(each)?,
                number.checked_rem(each)? as usize,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_leads_to_one_peer() {
        for of_wide in 1..=MAX_QUEUES {
            let queues = Queues::new(of_wide).expect("in range");
            assert_eq!(queues.peer(TO_ALL), None);
            let mut next = TO_ALL + 1;
            for index in 0..MAX_PEERS {
                assert_eq!(queues.first(index), next);
                for queue in 0..usize::from(queues.count(index)) {
                    assert_eq!(queues.peer(next), Some((index, queue)));
                    next += 1;
                }
            }
            assert_eq!(queues.total(MAX_PEERS), next);
        }
    }

    #[test]
    fn peers_of_a_small_fabric_have_as_many_as_are_asked_for() {
        let queues = Queues::new(4).expect("in range");
        assert_eq!((queues.count(15), queues.count(16)), (4, 1));
        assert_eq!((queues.total(16), queues.total(64)), (65, 113));
    }

    #[test]
    fn no_peer_is_without_a_queue() {
        assert_eq!(Queues::new(0), None);
        assert_eq!(Queues::new(9), None);
    }
}
