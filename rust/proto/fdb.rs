// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The forwarding database of the virtual Ethernet: which port a MAC address was last seen behind
//! (IDT-ETH-2).
//!
//! A table of sets with [`WAYS`] places each; an address belongs to one set, so a lookup compares
//! at most [`WAYS`] words. The caller brings the storage. All functions take `&self` and every
//! place is one atomic word, so that queues look up and learn at the same time without a lock;
//! what two of them learn about the same address at the same instant ends as one or the other,
//! which is all that learning promises.
//!
//! An address that was not heard for some time is forgotten, unless its host has announced it: that
//! one lasts until it is heard behind another port, or nothing is known of its port any more. A
//! full set forgets the address that was not heard for longest, whatever it is. The hash has a secret, so that
//! nobody can fill a set on purpose from outside.

use core::ops::Deref;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::wire::mix;

/// A MAC address as on the wire.
pub type Mac = [u8; 6];

/// The address of everybody.
pub const BROADCAST: Mac = [0xff; 6];

/// Places of a set.
pub const WAYS: usize = 8;

/// Ages count in steps of 2^26 nanoseconds, about 67 milliseconds.
const STEP_SHIFT: u32 = 26;
const MAC_MASK: u64 = (1 << 48) - 1;

/// The mark of addresses that last.
const LASTING: u64 = 1 << 63;

/// Ports are below.
const PORTS: u16 = 0x7fff;

/// Whom a frame with this destination concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// One station.
    Unicast,
    /// A group.
    Multicast,
    /// Everybody.
    Broadcast,
}

/// Whom a frame with destination `mac` concerns.
#[inline]
pub fn classify(mac: &Mac) -> Class {
    if *mac == BROADCAST {
        Class::Broadcast
    } else if mac[0] & 1 != 0 {
        Class::Multicast
    } else {
        Class::Unicast
    }
}

/// A place of the table.
#[derive(Debug, Default)]
pub struct Slot {
    /// Address in bits 0..48, port plus one in bits 48..63, then [`LASTING`]; zero when free.
    word: AtomicU64,
    /// When it was heard last, in steps.
    seen: AtomicU32,
}

impl Slot {
    /// A free place.
    pub const fn new() -> Slot {
        Slot {
            word: AtomicU64::new(0),
            seen: AtomicU32::new(0),
        }
    }
}

/// What learning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// The address was known behind this port.
    Known,
    /// The address was known behind another port, and has moved.
    Moved(u16),
    /// The address is new.
    New,
    /// The address is new and another one was forgotten for it.
    Replaced,
    /// Not the address of a station (a group, or zero), not a port, or a table without places.
    Refused,
}

/// The table. `S` is the storage: a whole number of sets is used, rounded down to a power of two.
#[derive(Debug)]
pub struct Fdb<S> {
    slots: S,
    sets: usize,
    secret: u64,
    age: u32,
}

impl<S: Deref<Target = [Slot]>> Fdb<S> {
    /// An empty table over `slots`, whose entries are forgotten `age` nanoseconds after the
    /// address was heard last. `secret` is a random number.
    pub fn new(slots: S, secret: u64, age: u64) -> Self {
        let sets = match (slots.len() / WAYS).checked_ilog2() {
            Some(n) => 1 << n,
            None => 0,
        };
        Fdb {
            slots,
            sets,
            secret,
            age: step(age).max(1),
        }
    }

    /// The port behind which `mac` was heard, unless that is too long ago.
    #[inline]
    pub fn lookup(&self, mac: &Mac, now: u64) -> Option<u16> {
        let key = key(mac);
        let now = step(now);
        self.set(key).iter().find_map(|slot| {
            let word = slot.word.load(Relaxed);
            let hit = word & MAC_MASK == key && word != 0 && self.fresh(slot, word, now);
            hit.then(|| port(word))
        })
    }

    /// Note that `mac` was heard behind `port_id` (below 0x7fff).
    #[inline]
    pub fn learn(&self, mac: &Mac, port_id: u16, now: u64) -> Learned {
        self.note(mac, port_id, now, 0)
    }

    /// Note that the host behind `port_id` (below 0x7fff) has announced `mac` as its own. It is
    /// known until it is heard behind another port, or the port is [flushed](Self::flush_port).
    pub fn learn_lasting(&self, mac: &Mac, port_id: u16, now: u64) -> Learned {
        self.note(mac, port_id, now, LASTING)
    }

    #[inline]
    fn note(&self, mac: &Mac, port_id: u16, now: u64, mark: u64) -> Learned {
        let key = key(mac);
        let now = step(now);
        if key == 0 || port_id >= PORTS || classify(mac) != Class::Unicast {
            return Learned::Refused;
        }
        let word = mark | (u64::from(port_id) + 1) << 48 | key;
        let set = self.set(key);
        let known = set.iter().find(|s| {
            let w = s.word.load(Relaxed);
            w & MAC_MASK == key && w >> 48 != 0
        });
        if let Some(slot) = known {
            return self.refresh(slot, word, now);
        }
        let Some(slot) = set.iter().max_by_key(|s| self.staleness(s, now)) else {
            return Learned::Refused;
        };
        let old = slot.word.load(Relaxed);
        let living = old != 0 && self.fresh(slot, old, now);
        slot.seen.store(now, Relaxed);
        slot.word.store(word, Relaxed);
        if living {
            Learned::Replaced
        } else {
            Learned::New
        }
    }

    fn refresh(&self, slot: &Slot, word: u64, now: u32) -> Learned {
        let old = slot.word.load(Relaxed);
        let expired = !self.fresh(slot, old, now);
        // A line that does not change stays in every processor's cache.
        if slot.seen.load(Relaxed) != now {
            slot.seen.store(now, Relaxed);
        }
        let is_there = port(old) == port(word);
        // What was announced lasts as long as it is heard there, too.
        let word = word | if is_there { old & LASTING } else { 0 };
        if old != word {
            slot.word.store(word, Relaxed);
        }
        match (expired, is_there) {
            (true, _) => Learned::New,
            (false, true) => Learned::Known,
            (false, false) => Learned::Moved(port(old)),
        }
    }

    /// Forget what was learned behind `port`, and say how much that was.
    pub fn flush_port(&self, port_id: u16) -> usize {
        self.forget(|word, _| port(word) == port_id)
    }

    /// Forget everything, and say how much that was.
    pub fn flush(&self) -> usize {
        self.forget(|_, _| true)
    }

    /// Free the places of addresses that were not heard for too long, and say how many.
    /// Lookups do not need it.
    pub fn expire(&self, now: u64) -> usize {
        let now = step(now);
        self.forget(|word, slot| !self.fresh(slot, word, now))
    }

    /// Call `f` with each address, its port and the nanoseconds since it was heard.
    pub fn for_each(&self, now: u64, mut f: impl FnMut(Mac, u16, u64)) {
        let now = step(now);
        for slot in self.slots.iter() {
            let word = slot.word.load(Relaxed);
            if word != 0 && self.fresh(slot, word, now) {
                let [_, _, mac @ ..] = (word & MAC_MASK).to_be_bytes();
                let steps = now.wrapping_sub(slot.seen.load(Relaxed));
                f(mac, port(word), u64::from(steps) << STEP_SHIFT);
            }
        }
    }

    fn forget(&self, which: impl Fn(u64, &Slot) -> bool) -> usize {
        let mut count = 0;
        for slot in self.slots.iter() {
            let word = slot.word.load(Relaxed);
            if word != 0 && which(word, slot) {
                slot.word.store(0, Relaxed);
                count += 1;
            }
        }
        count
    }

    #[inline]
    fn set(&self, key: u64) -> &[Slot] {
        let hash = (mix(key ^ self.secret) >> 32) as usize;
        let first = (hash & self.sets.wrapping_sub(1)) * WAYS;
        if self.sets == 0 {
            return &[];
        }
        self.slots.get(first..first + WAYS).unwrap_or(&[])
    }

    /// A clock of another processor may be a little behind: a time in the future is fresh.
    #[inline]
    fn fresh(&self, slot: &Slot, word: u64, now: u32) -> bool {
        let steps = now.wrapping_sub(slot.seen.load(Relaxed));
        word & LASTING != 0 || steps <= self.age || steps > u32::MAX / 2
    }

    fn staleness(&self, slot: &Slot, now: u32) -> u32 {
        if slot.word.load(Relaxed) == 0 {
            return u32::MAX;
        }
        match now.wrapping_sub(slot.seen.load(Relaxed)) {
            ahead if ahead > u32::MAX / 2 => 0,
            steps => steps,
        }
    }
}

#[inline]
fn key(mac: &Mac) -> u64 {
    let [a, b, c, d, e, f] = *mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

#[inline]
fn step(ns: u64) -> u32 {
    (ns >> STEP_SHIFT & 0xffff_ffff) as u32
}

#[inline]
fn port(word: u64) -> u16 {
    (((word & !LASTING) >> 48) as u16).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::vec::Vec;

    const SEC: u64 = 1_000_000_000;

    fn fdb(slots: usize) -> Fdb<Vec<Slot>> {
        let slots = (0..slots).map(|_| Slot::new()).collect();
        Fdb::new(slots, 0x1234_5678_9abc_def0, 300 * SEC)
    }

    fn mac(n: u64) -> Mac {
        let [_, _, _, a, b, c, d, e] = n.to_be_bytes();
        [2, a, b, c, d, e]
    }

    /// IDT-ETH-2
    #[test]
    fn unicast_multicast_and_broadcast_are_told_apart() {
        assert_eq!(classify(&[0xff; 6]), Class::Broadcast);
        assert_eq!(classify(&[0x33, 0x33, 0, 0, 0, 1]), Class::Multicast);
        assert_eq!(classify(&[0x01, 0, 0x5e, 0, 0, 1]), Class::Multicast);
        assert_eq!(classify(&[0x02, 0, 0, 0, 0, 1]), Class::Unicast);
    }

    /// IDT-ETH-2
    #[test]
    fn an_address_is_found_behind_the_port_it_was_heard_from() {
        let t = fdb(64);
        assert_eq!(t.lookup(&mac(1), 0), None);
        assert_eq!(t.learn(&mac(1), 7, 0), Learned::New);
        assert_eq!(t.learn(&mac(1), 7, SEC), Learned::Known);
        assert_eq!(t.lookup(&mac(1), SEC), Some(7));
        assert_eq!(t.learn(&mac(1), 0, SEC), Learned::Moved(7));
        assert_eq!(t.lookup(&mac(1), SEC), Some(0));
    }

    /// IDT-ETH-2
    #[test]
    fn groups_and_zero_are_not_learned() {
        let t = fdb(64);
        assert_eq!(t.learn(&BROADCAST, 1, 0), Learned::Refused);
        assert_eq!(t.learn(&[1, 0, 0, 0, 0, 1], 1, 0), Learned::Refused);
        assert_eq!(t.learn(&[0; 6], 1, 0), Learned::Refused);
        assert_eq!(t.learn(&mac(1), PORTS, 0), Learned::Refused);
        assert_eq!(t.learn(&mac(1), PORTS - 1, 0), Learned::New);
        assert_eq!(t.lookup(&mac(1), 0), Some(PORTS - 1));
        assert_eq!(t.lookup(&BROADCAST, 0), None);
        assert_eq!(t.lookup(&[0; 6], 0), None);
    }

    /// IDT-ETH-2
    #[test]
    fn an_address_that_was_announced_is_known_as_long_as_its_host_is_there() {
        let t = fdb(64);
        t.learn_lasting(&mac(1), 3, 0);
        t.learn(&mac(2), 3, 0);
        let late = 3600 * SEC;
        assert_eq!(t.lookup(&mac(2), late), None);
        assert_eq!(t.lookup(&mac(1), late), Some(3));
        assert_eq!(t.expire(late), 1);
        // To be heard changes nothing.
        assert_eq!(t.learn(&mac(1), 3, late), Learned::Known);
        assert_eq!(t.lookup(&mac(1), 2 * late), Some(3));
        assert_eq!(t.flush_port(3), 1);
        assert_eq!(t.lookup(&mac(1), late), None);
    }

    /// IDT-ETH-2
    #[test]
    fn an_address_that_was_heard_before_lasts_once_it_is_announced() {
        let t = fdb(64);
        t.learn(&mac(1), 3, 0);
        assert_eq!(t.learn_lasting(&mac(1), 3, 0), Learned::Known);
        assert_eq!(t.lookup(&mac(1), 3600 * SEC), Some(3));
    }

    /// IDT-ETH-2
    #[test]
    fn an_address_that_was_announced_and_moves_is_one_like_others() {
        let t = fdb(64);
        t.learn_lasting(&mac(1), 3, 0);
        assert_eq!(t.learn(&mac(1), 4, 3600 * SEC), Learned::Moved(3));
        assert_eq!(t.lookup(&mac(1), 3600 * SEC), Some(4));
        assert_eq!(t.lookup(&mac(1), 7200 * SEC), None);
    }

    /// IDT-ETH-2
    #[test]
    fn announcements_leave_room_for_what_is_heard_later() {
        let t = fdb(WAYS);
        for n in 0..WAYS as u64 {
            t.learn_lasting(&mac(n), 3, n * SEC);
        }
        assert_eq!(t.learn(&mac(100), 4, 100 * SEC), Learned::Replaced);
        assert_eq!(t.lookup(&mac(100), 100 * SEC), Some(4));
        assert_eq!(t.lookup(&mac(0), 100 * SEC), None);
        assert_eq!(t.lookup(&mac(1), 100 * SEC), Some(3));
    }

    /// IDT-ETH-4
    #[test]
    fn addresses_behind_a_peer_that_left_are_forgotten() {
        let t = fdb(64);
        for n in 0..10 {
            t.learn(&mac(n), (n % 2) as u16, 0);
        }
        assert_eq!(t.flush_port(1), 5);
        assert_eq!(t.lookup(&mac(1), 0), None);
        assert_eq!(t.lookup(&mac(2), 0), Some(0));
        assert_eq!(t.flush(), 5);
    }

    /// IDT-ETH-2
    #[test]
    fn silence_ages_an_address_out_and_traffic_keeps_it() {
        let t = fdb(64);
        let day = 86_400 * SEC;
        t.learn(&mac(1), 1, day);
        t.learn(&mac(2), 1, day);
        t.learn(&mac(2), 1, day + 200 * SEC);
        assert_eq!(t.lookup(&mac(1), day + 299 * SEC), Some(1));
        assert_eq!(t.lookup(&mac(1), day + 301 * SEC), None);
        assert_eq!(t.lookup(&mac(2), day + 301 * SEC), Some(1));
        assert_eq!(t.expire(day + 301 * SEC), 1);
        assert_eq!(t.lookup(&mac(2), day - SEC), Some(1));
    }

    /// IDT-ETH-2
    #[test]
    fn a_full_set_forgets_what_was_silent_longest() {
        let t = fdb(WAYS);
        for n in 0..WAYS as u64 {
            assert_eq!(t.learn(&mac(n), 1, n * SEC), Learned::New);
        }
        assert_eq!(t.learn(&mac(100), 2, 10 * SEC), Learned::Replaced);
        assert_eq!(t.lookup(&mac(0), 10 * SEC), None);
        assert_eq!(t.lookup(&mac(1), 10 * SEC), Some(1));
        assert_eq!(t.lookup(&mac(100), 10 * SEC), Some(2));
    }

    /// IDT-ETH-2
    #[test]
    fn a_table_without_places_learns_nothing_and_survives() {
        let t = fdb(WAYS - 1);
        assert_eq!(t.learn(&mac(1), 1, 0), Learned::Refused);
        assert_eq!(t.lookup(&mac(1), 0), None);
    }

    proptest! {
        /// IDT-ETH-2
        #[test]
        fn a_lookup_gives_the_last_port_or_nothing(
            events in prop::collection::vec((0u64..200, 0u16..4), 0..400),
        ) {
            let t = fdb(64);
            let mut truth = HashMap::new();
            for (n, (m, p)) in events.iter().enumerate() {
                t.learn(&mac(*m), *p, n as u64 * SEC / 10);
                truth.insert(*m, *p);
                prop_assert_eq!(t.lookup(&mac(*m), n as u64 * SEC / 10), Some(*p));
            }
            let mut seen = 0;
            for (m, p) in &truth {
                if let Some(found) = t.lookup(&mac(*m), 40 * SEC) {
                    prop_assert_eq!(found, *p);
                    seen += 1;
                }
            }
            let mut listed = 0;
            t.for_each(40 * SEC, |_, _, _| listed += 1);
            prop_assert_eq!(listed, seen);
        }
    }
}
