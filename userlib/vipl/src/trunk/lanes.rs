// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whose the lanes of a trunk are, by this side's numbers.

use crate::{link::Numbers, vi::ViShared, wire::End};
use mp_fabric::Device;
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

/// Most lanes that a partner is ready for and this side is not: a partner that has more does not do
/// what it should.
const EARLY_MAX: usize = 4096;

/// A lane, by its own number.
enum Entry<D: Device> {
    /// The partner is ready, by the number of the lane there, and this side is not.
    Early(u32),
    /// That of a VI.
    Vi(Weak<ViShared<D>>),
}

/// The lanes of a trunk.
pub(super) struct Lanes<D: Device> {
    entries: HashMap<u32, Entry<D>>,
    /// How many of them are early.
    early: usize,
}

impl<D: Device> Default for Lanes<D> {
    fn default() -> Self {
        Lanes {
            entries: HashMap::new(),
            early: 0,
        }
    }
}

impl<D: Device> Lanes<D> {
    /// Enter the lane of a VI; whether the partner is ready for it.
    pub(super) fn enter(&mut self, lane: Numbers, vi: &Arc<ViShared<D>>) -> bool {
        let early = self.remove(lane.own);
        let entry = Entry::Vi(Arc::downgrade(vi));
        self.entries.insert(lane.own, entry);
        early == Some(lane.partner)
    }

    /// The partner is ready for a lane: the VI that has it, or nothing if this side is not ready.
    ///
    /// # Errors
    /// The end of a partner that is ready for too many.
    pub(super) fn ready(&mut self, lane: Numbers) -> Result<Option<Arc<ViShared<D>>>, End> {
        if let Some(Entry::Vi(vi)) = self.entries.get(&lane.own) {
            return Ok(vi.upgrade());
        }
        self.remove(lane.own);
        if self.early >= EARLY_MAX {
            return Err(End::Broken);
        }
        self.early += 1;
        self.entries.insert(lane.own, Entry::Early(lane.partner));
        Ok(None)
    }

    /// The partner has ended a lane: the VI that has it.
    pub(super) fn ended(&mut self, lane: Numbers) -> Option<Arc<ViShared<D>>> {
        if matches!(self.entries.get(&lane.own), Some(Entry::Early(partner)) if *partner == lane.partner)
        {
            self.remove(lane.own);
        }
        self.vi(lane.own)
    }

    /// A lane is not there any more; by which number the partner was ready for it, if this side was
    /// not.
    pub(super) fn remove(&mut self, lane: u32) -> Option<u32> {
        match self.entries.remove(&lane)? {
            Entry::Vi(_) => None,
            Entry::Early(partner) => {
                self.early -= 1;
                Some(partner)
            }
        }
    }

    /// The VI that has a lane.
    pub(super) fn vi(&self, lane: u32) -> Option<Arc<ViShared<D>>> {
        match self.entries.get(&lane)? {
            Entry::Early(_) => None,
            Entry::Vi(vi) => vi.upgrade(),
        }
    }

    /// The numbers and VIs of all lanes.
    pub(super) fn vis(self) -> impl Iterator<Item = (u32, Arc<ViShared<D>>)> {
        self.entries
            .into_iter()
            .filter_map(|(lane, entry)| match entry {
                Entry::Early(_) => None,
                Entry::Vi(vi) => Some((lane, vi.upgrade()?)),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{vi::Vi, Level, Library, ViAttributes};
    use mp_fabric::Fabric;
    use mp_testing::{FakeDevice, Host, World};

    fn numbers(own: u32) -> Numbers {
        Numbers { own, partner: 7 }
    }

    /// VI-LIM-6: however many connections this side has, the partner may be ready for more; not for
    /// any number.
    #[test]
    fn only_lanes_that_this_side_is_not_ready_for_are_limited() {
        let world = World::new(1, 1 << 20);
        let library = Library::new(move || Ok(Fabric::with_device(world.open(Host::A))));
        let nic = library.open_nic("VINIC").unwrap();
        let attributes = ViAttributes {
            level: Level::Unreliable,
            max_transfer_size: 1,
            ptag: nic.create_ptag().unwrap(),
            rdma_write: false,
            rdma_read: false,
        };
        let Vi(vi) = &nic.create_vi(&attributes, None, None, 0).unwrap();
        let mut lanes = Lanes::<FakeDevice>::default();
        let count = EARLY_MAX as u32;
        for own in 0..2 * count {
            assert!(!lanes.enter(numbers(own), vi));
        }
        let early = 2 * count..3 * count;
        for own in early.clone() {
            assert!(matches!(lanes.ready(numbers(own)), Ok(None)));
            // Said once more, it is one lane.
            assert!(matches!(lanes.ready(numbers(own)), Ok(None)));
        }
        assert!(matches!(lanes.ready(numbers(early.end)), Err(End::Broken)));
        assert!(lanes.ready(numbers(0)).unwrap().is_some());
        assert!(lanes.ended(numbers(early.start)).is_none());
        assert!(lanes.enter(numbers(early.start + 1), vi));
        for own in [early.end, early.end + 1] {
            assert!(matches!(lanes.ready(numbers(own)), Ok(None)));
        }
        assert!(matches!(
            lanes.ready(numbers(early.end + 2)),
            Err(End::Broken)
        ));
    }
}
