// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! A queue of at most [`READS_MAX`] entries, in place.

use super::READS_MAX;
use core::array;
use core::mem;

const _: () = assert!(READS_MAX.is_power_of_two());

#[derive(Debug)]
pub(super) struct Few<T> {
    places: [T; READS_MAX],
    first: usize,
    len: usize,
}

impl<T: Default> Few<T> {
    pub(super) fn new() -> Self {
        Few {
            places: array::from_fn(|_| T::default()),
            first: 0,
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == READS_MAX
    }

    /// The `n`-th one from the front.
    #[inline]
    pub(super) fn get_mut(&mut self, n: usize) -> Option<&mut T> {
        if n >= self.len {
            return None;
        }
        self.places.get_mut((self.first + n) & (READS_MAX - 1))
    }

    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(0)
    }

    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len.wrapping_sub(1))
    }

    /// Add one; false if there is no room.
    pub(super) fn push_back(&mut self, entry: T) -> bool {
        let is_full = self.is_full();
        if !is_full {
            self.len += 1;
            if let Some(place) = self.back_mut() {
                *place = entry;
            }
        }
        !is_full
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let front = mem::take(self.front_mut()?);
        self.first = (self.first + 1) & (READS_MAX - 1);
        self.len -= 1;
        Some(front)
    }

    pub(super) fn clear(&mut self) {
        while self.pop_front().is_some() {}
    }

    /// Keep those only.
    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        for _ in 0..self.len {
            if let Some(entry) = self.pop_front().filter(&keep) {
                self.push_back(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    proptest! {
        /// It holds what a queue of any length would, as long as there is room.
        #[test]
        fn it_is_a_queue(actions in prop::collection::vec((0..7_u8, 0..100_u32), 0..300)) {
            let (mut few, mut model) = (Few::new(), VecDeque::new());
            for (action, value) in actions {
                match action {
                    0..=3 => {
                        let is_full = model.len() == READS_MAX;
                        prop_assert_eq!(few.push_back(value), !is_full);
                        if !is_full {
                            model.push_back(value);
                        }
                    }
                    4 => prop_assert_eq!(few.pop_front(), model.pop_front()),
                    5 => {
                        few.retain(|kept| *kept >= value / 4);
                        model.retain(|kept| *kept >= value / 4);
                    }
                    _ if value == 0 => {
                        few.clear();
                        model.clear();
                    }
                    _ => {}
                }
                prop_assert_eq!(few.back_mut().copied(), model.back().copied());
                let found: Vec<_> = (0..=few.len()).filter_map(|n| few.get_mut(n).copied()).collect();
                prop_assert_eq!(found, Vec::from(model.clone()));
            }
        }
    }
}
