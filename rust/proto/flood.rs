// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! How long a packet to all peers waits for those that have no room.
//!
//! One packet at a time is sent to all peers; the next one waits behind it. A peer that consumes
//! slowly holds up its sender, as it does with packets to itself alone. One that does not consume
//! must not: the others would hear nothing any more. So each peer has a limited time that
//! packets wait for it. Waiting uses it up, packets that it takes at once give it back. A packet
//! goes without the peers whose time is over, and these are *passed over* for a while: each packet
//! is offered to them once and does not wait for them, not even if they have made room meanwhile.
//!
//! So a peer that takes nothing costs the others at most one part in [`SHARE`] of their time, and
//! one that makes room for single packets hardly more.
//!
//! Whoever sends calls [`begin`](Delivery::begin) with each packet, offers it to all peers that
//! are [`missing`](Delivery::missing), and tells [`refused`](Delivery::refused) which had no
//! room, again when a peer has made room and when the [`deadline`](Delivery::deadline) is over.

/// Most peers.
pub const PEERS: usize = 64;

/// A set of peers: the bit of each one's index.
pub type PeerSet = u64;

/// A peer is passed over for so many times as long as packets waited for it.
pub const SHARE: u64 = 20;

/// So many packets that a peer takes at once give back all the time that others waited for it.
pub const AT_ONCE: u64 = 32;

/// The set of one peer; empty if there can be no such peer.
#[inline]
pub fn bit(index: u32) -> PeerSet {
    1u64.checked_shl(index).unwrap_or(0)
}

/// What packets may wait for one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Credit {
    /// Nanoseconds that are left.
    left: u64,
    /// None are, and the peer is passed over, until then.
    until: Option<u64>,
}

/// Which peers the present packet has not reached yet, and how long it waits for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Nanoseconds that packets wait for one peer at most.
    wait: u64,
    missing: PeerSet,
    /// When the present packet was offered for the first time.
    since: u64,
    credits: [Credit; PEERS],
}

impl Delivery {
    /// Nothing to send. Packets will wait for one peer for `wait` nanoseconds at most.
    pub const fn new(wait: u64) -> Self {
        let credit = Credit {
            left: wait,
            until: None,
        };
        Self {
            wait,
            missing: 0,
            since: 0,
            credits: [credit; PEERS],
        }
    }

    /// A packet is to be sent to `peers`, in place of the one before.
    pub fn begin(&mut self, peers: PeerSet, now: u64) {
        self.missing = peers;
        self.since = now;
    }

    /// The peers that the packet has yet to reach.
    #[inline]
    pub fn missing(&self) -> PeerSet {
        self.missing
    }

    /// When the time of the first of those that are missing is over, if any are.
    pub fn deadline(&self) -> Option<u64> {
        let left = indices(self.missing).filter_map(|index| Some(self.credits.get(index)?.left));
        Some(self.since.saturating_add(left.min()?))
    }

    /// The packet was offered to all that were missing, and `peers` of these had no room.
    ///
    /// Gives the peers that do not get it.
    pub fn refused(&mut self, peers: PeerSet, now: u64) -> PeerSet {
        let waited = now.saturating_sub(self.since);
        let mut without = 0;
        for index in indices(self.missing) {
            let Some(credit) = self.credits.get_mut(index) else {
                continue;
            };
            if peers & bit(index as u32) == 0 {
                credit.taken(waited, self.wait);
            } else if credit.is_over(waited, now, self.wait) {
                without |= bit(index as u32);
            }
        }
        self.missing &= peers & !without;
        without
    }

    /// `peers` say again and again that they have room, and take nothing: the packet goes without them,
    /// and they are passed over.
    pub fn pass_over(&mut self, peers: PeerSet, now: u64) {
        for index in indices(peers & self.missing) {
            if let Some(credit) = self.credits.get_mut(index) {
                credit.use_up(now, self.wait);
            }
        }
        self.missing &= !peers;
    }

    /// Send the packet to nobody else.
    pub fn cancel(&mut self) {
        self.missing = 0;
    }

    /// Peer `index` has left: one that gets its index starts anew.
    pub fn left(&mut self, index: u32) {
        if let Some(credit) = self.credits.get_mut(index as usize) {
            credit.renew(self.wait);
        }
    }
}

impl Credit {
    fn renew(&mut self, wait: u64) {
        self.left = wait;
        self.until = None;
    }

    /// The peer has taken a packet that had waited so long.
    fn taken(&mut self, waited: u64, wait: u64) {
        if self.until.is_some() {
            return;
        }
        self.left = match waited {
            0 => wait.min(self.left.saturating_add(wait / AT_ONCE)),
            _ => self.left.saturating_sub(waited),
        };
    }

    /// Whether a packet that has waited so long waits no longer.
    fn is_over(&mut self, waited: u64, now: u64, wait: u64) -> bool {
        if self.until.is_some_and(|until| until <= now) {
            self.renew(wait);
        }
        if self.until.is_none() && waited >= self.left {
            self.use_up(now, wait);
        }
        self.until.is_some()
    }

    fn use_up(&mut self, now: u64, wait: u64) {
        self.left = 0;
        self.until = Some(now.saturating_add(wait.saturating_mul(SHARE)));
    }
}

/// The indices of a set's peers.
fn indices(mut peers: PeerSet) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let index = peers.trailing_zeros();
        peers &= peers.checked_sub(1)?;
        Some(index as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const WAIT: u64 = 50_000_000;
    const ALL: PeerSet = 0b111;
    const STALLED: PeerSet = 0b010;

    fn sent_to_all(delivery: &mut Delivery, full: PeerSet, now: u64) -> PeerSet {
        delivery.begin(ALL, now);
        delivery.refused(full, now)
    }

    #[test]
    fn a_packet_that_all_have_room_for_waits_for_nobody() {
        let mut delivery = Delivery::new(WAIT);
        assert_eq!(delivery.deadline(), None);
        delivery.begin(ALL, 5);
        assert_eq!(delivery.missing(), ALL);
        assert_eq!(delivery.refused(0, 5), 0);
        assert_eq!((delivery.missing(), delivery.deadline()), (0, None));
    }

    #[test]
    fn who_says_room_and_takes_nothing_costs_no_other_its_packet() {
        let mut delivery = Delivery::new(WAIT);
        let (eager, slow) = (0b001, STALLED);
        assert_eq!(sent_to_all(&mut delivery, eager | slow, 5), 0);
        delivery.pass_over(eager, 6);
        assert_eq!(delivery.missing(), slow);
        assert_eq!(delivery.deadline(), Some(5 + WAIT));
        assert_eq!(delivery.refused(0, 7), 0);
        // It is offered the next packet, which does not wait for it.
        assert_eq!(sent_to_all(&mut delivery, eager, 8), eager);
        assert_eq!(delivery.missing(), 0);
    }

    #[test]
    fn a_packet_waits_for_a_slow_peer_and_reaches_it_in_time() {
        let mut delivery = Delivery::new(WAIT);
        assert_eq!(sent_to_all(&mut delivery, STALLED, 5), 0);
        assert_eq!(delivery.missing(), STALLED);
        assert_eq!(delivery.deadline(), Some(5 + WAIT));
        assert_eq!(delivery.refused(STALLED, 4 + WAIT), 0);
        assert_eq!(delivery.refused(0, 4 + WAIT), 0);
        assert_eq!(delivery.deadline(), None);
    }

    #[test]
    fn a_packet_goes_without_a_peer_that_makes_no_room_in_time() {
        let mut delivery = Delivery::new(WAIT);
        sent_to_all(&mut delivery, STALLED, 0);
        assert_eq!(delivery.refused(STALLED, WAIT), STALLED);
        assert_eq!((delivery.missing(), delivery.deadline()), (0, None));
    }

    #[test]
    fn a_peer_that_was_given_up_is_offered_each_packet_and_not_waited_for() {
        let mut delivery = Delivery::new(WAIT);
        sent_to_all(&mut delivery, STALLED, 0);
        delivery.refused(STALLED, WAIT);
        let again = WAIT + SHARE * WAIT;
        delivery.begin(ALL, again - 1);
        assert_eq!(delivery.missing(), ALL);
        assert_eq!(delivery.refused(STALLED, again - 1), STALLED);
        // Others are waited for as before.
        assert_eq!(sent_to_all(&mut delivery, ALL, again - 1), STALLED);
        assert_eq!(delivery.missing(), ALL & !STALLED);
        assert_eq!(sent_to_all(&mut delivery, STALLED, again), 0);
        assert_eq!(delivery.missing(), STALLED);
    }

    #[test]
    fn a_peer_that_makes_room_for_one_packet_is_not_waited_for_any_sooner() {
        let mut delivery = Delivery::new(WAIT);
        sent_to_all(&mut delivery, STALLED, 0);
        delivery.refused(STALLED, WAIT);
        assert_eq!(sent_to_all(&mut delivery, 0, WAIT), 0);
        assert_eq!(sent_to_all(&mut delivery, STALLED, WAIT), STALLED);
    }

    #[test]
    fn a_peer_that_makes_room_just_in_time_has_used_up_its_time() {
        let mut delivery = Delivery::new(WAIT);
        sent_to_all(&mut delivery, STALLED, 0);
        delivery.refused(0, WAIT - 1);
        assert_eq!(sent_to_all(&mut delivery, STALLED, WAIT), 0);
        assert_eq!(delivery.deadline(), Some(WAIT + 1));
        assert_eq!(delivery.refused(STALLED, WAIT + 1), STALLED);
    }

    #[test]
    fn a_peer_that_makes_room_for_many_packets_is_waited_for_each_time() {
        let mut delivery = Delivery::new(WAIT);
        let mut now = 0;
        for _ in 0..100 {
            assert_eq!(sent_to_all(&mut delivery, STALLED, now), 0);
            assert_eq!(delivery.deadline(), Some(now + WAIT));
            now += WAIT - 1;
            assert_eq!(delivery.refused(0, now), 0);
            for _ in 0..AT_ONCE {
                assert_eq!(sent_to_all(&mut delivery, 0, now), 0);
            }
        }
    }

    #[test]
    fn a_peer_that_takes_the_index_of_one_given_up_is_waited_for() {
        let mut delivery = Delivery::new(WAIT);
        sent_to_all(&mut delivery, STALLED, 0);
        delivery.refused(STALLED, WAIT);
        delivery.left(1);
        assert_eq!(sent_to_all(&mut delivery, STALLED, WAIT), 0);
        assert_eq!(delivery.missing(), STALLED);
    }

    #[test]
    fn a_packet_that_is_cancelled_waits_for_nobody() {
        let mut delivery = Delivery::new(WAIT);
        sent_to_all(&mut delivery, STALLED, 0);
        delivery.cancel();
        assert_eq!((delivery.missing(), delivery.deadline()), (0, None));
    }

    #[test]
    fn the_last_peer_is_one_like_others() {
        let mut delivery = Delivery::new(WAIT);
        let last = bit(63);
        delivery.begin(!0, 0);
        assert_eq!(delivery.refused(last, 0), 0);
        assert_eq!(delivery.refused(last, WAIT), last);
        assert_eq!(bit(64), 0);
        assert_eq!(indices(last | 1).collect::<Vec<_>>(), [0, 63]);
    }

    proptest! {
        /// Whatever a peer does, it costs the others a part of their time, and a little for each
        /// packet that it takes at once.
        #[test]
        fn a_peer_costs_the_others_a_small_part_of_their_time(
            steps in prop::collection::vec((any::<bool>(), 0..=WAIT, 0..WAIT), 1..400),
        ) {
            let mut delivery = Delivery::new(WAIT);
            let (mut now, mut waited, mut at_once) = (0, 0, 0);
            for (has_room, later, pause) in steps {
                delivery.begin(ALL, now);
                delivery.refused(if has_room { 0 } else { STALLED }, now);
                at_once += u64::from(has_room);
                if let Some(deadline) = delivery.deadline() {
                    let end = deadline.min(now + later);
                    waited += end - now;
                    now = end;
                    // It makes room at the end, or not in time.
                    delivery.refused(if end < deadline { 0 } else { STALLED }, now);
                }
                prop_assert_eq!(delivery.missing(), 0);
                now += pause;
            }
            prop_assert!(waited <= WAIT + now / SHARE + at_once * (WAIT / AT_ONCE));
        }
    }
}
