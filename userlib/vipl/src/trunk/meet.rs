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
        if let Some(trunk) = trunk.as_ref().filter(|trunk| !trunk.is_over()) {
            return Ok((Arc::clone(trunk), numbers));
        }
        let halves = self.connect(fabric, interface, partner.nic, deadline);
        let halves = halves.map_err(|error| match error {
            Error::Fabric(FabricError::TimedOut) => None,
            other => Some(end_of(other)),
        })?;
        let number = number();
        let session = Arc::clone(halves.0.session());
        let new = Arc::new(Trunk::new(number, self, service, halves));
        lock(&self.open).insert(number, Arc::clone(&new));
        session.watch(NEWS, number).map_err(|_| Some(End::Gone))?;
        *trunk = Some(Arc::clone(&new));
        new.list();
        Ok((new, numbers))
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
    use proptest::prelude::*;

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
