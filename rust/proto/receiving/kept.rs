// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The records of a ring that are kept.

use core::ops::DerefMut;

/// Most records that are kept at a time.
const KEPT_MAX: usize = super::RX_HELD / 2;

/// A record that is kept.
#[derive(Debug)]
pub struct Kept<K> {
    name: K,
    /// Whether it was there at the last [`KeptList::age`].
    is_old: bool,
}

/// Those that are kept, by their places.
pub(super) struct KeptList<S> {
    places: S,
    count: usize,
}

impl<K, S: DerefMut<Target = [Option<Kept<K>>]>> KeptList<S> {
    /// `places` are all empty.
    pub(super) fn new(places: S) -> Self {
        KeptList { places, count: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.count < KEPT_MAX
    }

    /// Enter a record; `false` if there is no such place, or not an empty one.
    pub(super) fn put(&mut self, place: usize, name: K) -> bool {
        let Some(empty @ None) = self.places.get_mut(place) else {
            return false;
        };
        *empty = Some(Kept {
            name,
            is_old: false,
        });
        self.count += 1;
        true
    }

    pub(super) fn remove(&mut self, place: usize) {
        if self.places.get_mut(place).and_then(Option::take).is_some() {
            self.count -= 1;
        }
    }

    /// The first of `held` that is kept: its place and name, and whether it is old.
    pub(super) fn first(&self, held: impl Iterator<Item = usize>) -> Option<(usize, &K, bool)> {
        let mut kept = held.filter_map(|place| {
            let kept = self.places.get(place)?.as_ref()?;
            Some((place, &kept.name, kept.is_old))
        });
        kept.next()
    }

    /// From now on all of them are old.
    pub(super) fn age(&mut self) {
        for kept in self.places.iter_mut().flatten() {
            kept.is_old = true;
        }
    }
}
