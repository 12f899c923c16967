// SPDX-License-Identifier: MIT OR Apache-2.0

//! How two connections of the same two NIC handles come to the same trunk.

use super::Trunk;
use crate::{
    link::{end_of, Numbers},
    lock,
    wire::End,
};
use mp_fabric::{Deadline, Device, Error as FabricError, Fabric, InterfaceId};
use mp_queue_pair::{
    open,
    provider::{shape, Service, NEWS, SLOT, WINDOW},
    Error, Receiving, Sending,
};
use rustix::rand::{getrandom, GetRandomFlags};
use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex},
};

/// The protocol of sessions that are trunks.
const PROTOCOL: u32 = 0x5649_5431;
/// The part of free memory that a trunk takes.
const SHARE: u64 = 8;

/// What the partner of a connection without windows is told: the NIC handle, and the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meeting {
    pub(crate) nic: u64,
    pub(crate) lane: u32,
}

impl Meeting {
    /// Bytes of [`encode`](Self::encode).
    pub(crate) const LEN: usize = 12;

    /// NIC handle (8), lane (4), little-endian.
    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let (nic, lane) = (self.nic.to_le_bytes(), self.lane.to_le_bytes());
        for (to, from) in bytes.iter_mut().zip(nic.into_iter().chain(lane)) {
            *to = from;
        }
        bytes
    }

    /// What was told at the start of some bytes, and the rest.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (nic, rest) = bytes.split_first_chunk()?;
        let (lane, rest) = rest.split_first_chunk()?;
        let meeting = Meeting {
            nic: u64::from_le_bytes(*nic),
            lane: u32::from_le_bytes(*lane),
        };
        Some((meeting, rest))
    }
}

/// Which of the trunks of a NIC handle: over an interface, to another handle. The two ends of a
/// trunk to the same handle are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    interface: InterfaceId,
    nic: u64,
    second: bool,
}

/// A trunk, once it is open. Who opens it has the lock.
type Place<D> = Arc<Mutex<Option<Arc<Trunk<D>>>>>;

/// The trunks of a NIC handle.
pub(crate) struct Trunks<D: Device> {
    /// What tells the handle from all others.
    nic: u64,
    places: Mutex<HashMap<Key, Place<D>>>,
    open: Mutex<HashMap<u64, Arc<Trunk<D>>>>,
}

/// Bytes of a window of a trunk where so many are free.
fn window(free: u64) -> RangeInclusive<u64> {
    let share = free / SHARE / SLOT as u64 * SLOT as u64;
    *WINDOW.start()..=share.clamp(*WINDOW.start(), *WINDOW.end())
}

/// A number that no other process draws, also none that was forked from the same one.
fn unique() -> crate::Result<u64> {
    let mut bytes = [0; 8];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_le_bytes(bytes)),
        _ => Err(crate::Error::Resource),
    }
}

impl<D: Device> Trunks<D> {
    /// Have no trunks yet.
    ///
    /// # Errors
    /// [`Resource`](crate::Error::Resource): the kernel has no random number.
    pub(crate) fn new() -> crate::Result<Self> {
        Ok(Trunks {
            nic: unique()?,
            places: Mutex::default(),
            open: Mutex::default(),
        })
    }

    /// What the partner of a connection is told.
    pub(crate) fn meeting(&self, lane: u32) -> Meeting {
        Meeting {
            nic: self.nic,
            lane,
        }
    }

    /// Whether there is one over an interface.
    pub(crate) fn lead_over(&self, interface: InterfaceId) -> bool {
        let places = lock(&self.places);
        let mut places = places.iter().filter(|(key, _)| key.interface == interface);
        places.any(|(_, place)| {
            // Who has the lock is opening it.
            let trunk = place.try_lock();
            trunk.map_or(true, |trunk| {
                trunk.as_ref().is_some_and(|trunk| !trunk.is_over())
            })
        })
    }

    /// The trunk that the service thread knows by a number.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Trunk<D>>> {
        lock(&self.open).get(&number).cloned()
    }

    /// The trunk to a partner that has told its part of a meeting, and the numbers of the lane. It
    /// is opened by the first connection; others wait for that.
    ///
    /// # Errors
    /// The end that it has come to; nothing if the time is over.
    pub(crate) fn find(
        self: &Arc<Self>,
        fabric: &Fabric<D>,
        service: &Arc<Service>,
        interface: InterfaceId,
        (own, partner): (Meeting, Meeting),
        deadline: Deadline,
        number: impl FnOnce() -> u64,
    ) -> Result<(Arc<Trunk<D>>, Numbers), Option<End>> {
        let key = Key {
            interface,
            nic: partner.nic,
            second: partner.nic == own.nic && own.lane > partner.lane,
        };
        let numbers = Numbers {
            own: own.lane,
            partner: partner.lane,
        };
        let place = Arc::clone(lock(&self.places).entry(key).or_default());
        let mut trunk = lock(&place);
        if let Some(trunk) = trunk.as_ref().filter(|trunk| !trunk.has_gone()) {
            return Ok((Arc::clone(trunk), numbers));
        }
        // What it has is free before another one asks for it, unless it has lanes.
        *trunk = None;
        let halves = self.connect(fabric, interface, partner.nic, deadline);
        let halves = halves.map_err(|error| match error {
            Error::Fabric(FabricError::TimedOut) => None,
            other => Some(end_of(other)),
        });
        let new = halves.and_then(|halves| self.enter(number(), service, halves));
        *trunk = new.as_ref().ok().cloned();
        drop(trunk);
        if new.is_err() {
            self.vacate(&place);
        }
        Ok((new?, numbers))
    }

    /// Let the service thread know of a trunk, and look after it.
    fn enter(
        self: &Arc<Self>,
        number: u64,
        service: &Arc<Service>,
        halves: (Sending<D>, Receiving<D>),
    ) -> Result<Arc<Trunk<D>>, Option<End>> {
        let session = Arc::clone(halves.0.session());
        let new = Arc::new(Trunk::new(number, self, service, halves));
        // Before there can be news of it.
        lock(&self.open).insert(number, Arc::clone(&new));
        if session.watch(NEWS, number).is_err() {
            let failed = lock(&self.open).remove(&number);
            drop(failed);
            return Err(Some(End::Gone));
        }
        new.list();
        Ok(new)
    }

    /// Remove a place where no trunk could be opened, unless somebody else waits for it or has
    /// opened one there.
    fn vacate(&self, place: &Place<D>) {
        lock(&self.places).retain(|_, other| {
            // The caller's and that in the table.
            let is_wanted = Arc::strong_count(other) > 2;
            !Arc::ptr_eq(other, place) || is_wanted || lock(other).is_some()
        });
    }

    /// A trunk has ended: its windows are given back with the last lane.
    pub(super) fn forget(&self, number: u64) {
        let gone = lock(&self.open).remove(&number);
        let mut places = lock(&self.places);
        places.retain(|_, place| {
            // Who waits for a place, or has it, opens another trunk there.
            let is_wanted = Arc::strong_count(place) > 1;
            let other = |trunk: &Arc<Trunk<D>>| trunk.number != number;
            is_wanted || lock(place).as_ref().is_none_or(other)
        });
        drop(places);
        drop(gone);
    }

    /// Make the queue pair of a trunk: both sides ask for each other.
    fn connect(
        &self,
        fabric: &Fabric<D>,
        interface: InterfaceId,
        partner: u64,
        deadline: Deadline,
    ) -> mp_queue_pair::Result<(Sending<D>, Receiving<D>)> {
        let name = [self.nic.to_le_bytes(), partner.to_le_bytes()].concat();
        let window = window(fabric.interface(interface)?.local_free);
        let peer = fabric.peer(interface, PROTOCOL).name(&name).own_name(8);
        let session = peer.local(window.clone()).remote(window).open()?;
        session.wait(mp_fabric::EventMask::PAIRED, deadline)?;
        let size = session.state()?.local.map_or(0, |window| window.size);
        open(session, &shape(size, 1), deadline)
    }

    /// End all of them.
    pub(crate) fn close(&self) {
        let open = std::mem::take(&mut *lock(&self.open));
        open.values().for_each(|trunk| trunk.close());
        let places = std::mem::take(&mut *lock(&self.places));
        drop(places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_queue_pair::provider::Rest;
    use mp_testing::{FakeDevice, Host, World};
    use proptest::prelude::*;
    use std::{thread, time::Duration};

    type Found = Result<Arc<Trunk<FakeDevice>>, Option<End>>;

    /// The trunks of a NIC handle, without a thread that looks after them.
    struct Party {
        fabric: Fabric<FakeDevice>,
        service: Arc<Service>,
        interface: InterfaceId,
        trunks: Arc<Trunks<FakeDevice>>,
    }

    impl Party {
        fn pair(world: &World) -> [Self; 2] {
            [Host::A, Host::B].map(|host| Party {
                fabric: Fabric::with_device(world.open(host)),
                service: Service::new().unwrap().into(),
                interface: InterfaceId(world.interface(0, host)),
                trunks: Trunks::new().unwrap().into(),
            })
        }

        /// Look for the trunk to another one.
        fn find(&self, other: &Party, number: u64, wait: Duration) -> Found {
            let both = (self.trunks.meeting(1), other.trunks.meeting(2));
            let found = self.trunks.find(
                &self.fabric,
                &self.service,
                self.interface,
                both,
                Deadline::after(wait),
                || number,
            );
            found.map(|(trunk, _)| trunk)
        }
    }

    /// Let both sides look for their trunk at once.
    fn meet(both: &[Party; 2], number: u64) -> [Arc<Trunk<FakeDevice>>; 2] {
        let [a, b] = both;
        let wait = Duration::from_secs(5);
        thread::scope(|scope| {
            let other = scope.spawn(|| b.find(a, number, wait));
            [a.find(b, number, wait), other.join().unwrap()].map(Result::unwrap)
        })
    }

    /// VI-EM-9: who connects after the partner has ended a trunk gets another one, although nobody
    /// has looked yet.
    #[test]
    fn a_trunk_whose_partner_has_gone_is_not_found() {
        let both = Party::pair(&World::new(1, 1 << 20));
        let [one, other] = meet(&both, 1);
        let [same, _] = meet(&both, 2);
        assert!(Arc::ptr_eq(&one, &same));
        other.close();
        assert!(!one.is_over());
        let [new, _] = meet(&both, 3);
        assert!(!Arc::ptr_eq(&one, &new));
    }

    /// VI-LIM-6: a trunk that is over gives its windows back before another one is opened.
    #[test]
    fn a_trunk_that_is_over_makes_room_for_the_next_one() {
        let both = Party::pair(&World::new(1, 1 << 20));
        let [trunk, _other] = meet(&both, 1);
        let [a, b] = &both;
        // Somebody else waits for the place meanwhile.
        let place = lock(&a.trunks.places).values().next().cloned();
        trunk.close();
        drop(place);
        let ended = Arc::downgrade(&trunk);
        drop(trunk);
        assert!(ended.strong_count() == 1);
        let wait = Duration::from_secs(5);
        thread::scope(|scope| {
            let next = scope.spawn(|| a.find(b, 2, wait).map(|_| ()));
            while ended.strong_count() > 0 && !next.is_finished() {
                thread::yield_now();
            }
            assert!(b.find(a, 2, wait).is_ok());
            assert_eq!(next.join().unwrap(), Ok(()));
        });
    }

    /// VI-LIM-6: where no trunk was opened, nothing is left of the attempt.
    #[test]
    fn a_trunk_that_was_not_opened_leaves_no_place() {
        let [a, b] = Party::pair(&World::new(1, 1 << 20));
        let found = a.find(&b, 1, Duration::from_millis(20));
        assert_eq!(found.err(), Some(None));
        assert_eq!(lock(&a.trunks.places).len(), 0);
        assert_eq!(lock(&a.trunks.open).len(), 0);
    }

    /// Threads that still look at a trunk that has ended do not keep the service thread at it.
    #[test]
    fn a_trunk_that_has_finished_is_looked_after_by_nobody() {
        let both = Party::pair(&World::new(1, 1 << 20));
        let [trunk, _other] = meet(&both, 1);
        trunk.close();
        assert!(!trunk.look());
        assert!(!trunk.attention().is_watched());
        trunk.attention().watch();
        assert_eq!(trunk.rest(&both[0].fabric, Deadline::PAST), Rest::Over);
    }

    /// VI-LIM-6: trunks are smaller where there is less, and many fit into what is short.
    #[test]
    fn trunks_become_smaller_with_what_is_left() {
        for (free, most) in [
            (0, 0x4000),
            (0x4_0000, 0x8000),
            (0x8_0000, 0x1_0000),
            (u64::MAX, 0x1_0000),
        ] {
            assert_eq!(window(free), 0x4000..=most);
        }
    }

    /// VI-GEN-9: children of one process tell themselves apart.
    #[test]
    fn forked_siblings_have_numbers_of_their_own() {
        let _ = unique().unwrap();
        let siblings = [(); 5].map(|()| mp_testing::child(|| unique().unwrap() as u8));
        assert_ne!(siblings, [siblings[0]; 5]);
    }

    proptest! {
        #[test]
        fn meetings_survive_the_wire(nic: u64, lane: u32, rest: [u8; 3]) {
            let meeting = Meeting { nic, lane };
            let bytes = [&meeting.encode()[..], &rest].concat();
            prop_assert_eq!(Meeting::decode(&bytes), Some((meeting, &rest[..])));
            prop_assert_eq!(Meeting::decode(&bytes[..Meeting::LEN - 1]), None);
        }
    }
}
