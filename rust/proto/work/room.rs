// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Rings of entries in room of a kind that the caller chooses, or in place: nothing is allocated here.

use super::READS_MAX;
use core::array;
use core::marker::PhantomData;
use core::mem;
use core::ops::{Deref, DerefMut};

/// Entries that a ring has room for when it grows the first time.
const FIRST: usize = 16;

/// Room for the entries of a ring: none, or a power of two. How much there is at first, and how much
/// there may be, each one can have from its caller.
pub trait Room<T: Default>: DerefMut<Target = [T]> {
    /// Make room for exactly `len` entries, more than there are; those that there are stay in front.
    /// Nothing changes if there is no memory, or if it must not be more.
    fn grow(&mut self, len: usize);
}

/// Room for [`READS_MAX`] entries, in place.
#[derive(Debug)]
pub(super) struct Few<T>([T; READS_MAX]);

const _: () = assert!(READS_MAX.is_power_of_two());

impl<T: Default> Default for Few<T> {
    fn default() -> Self {
        Few(array::from_fn(|_| T::default()))
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Few<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Default> Room<T> for Few<T> {
    fn grow(&mut self, _len: usize) {}
}

/// There is no room for another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Entries in the order in which they were pushed. Positions count from the first entry that was ever
/// pushed.
#[derive(Debug)]
pub(super) struct Ring<T, S> {
    /// A position leads to a place without a division.
    room: S,
    /// Position of the first entry.
    base: u64,
    /// Position of the next one to be pushed.
    end: u64,
    of: PhantomData<T>,
}

impl<T: Default, S: Room<T>> Ring<T, S> {
    /// An empty one that begins with that room.
    pub(super) fn new(room: S) -> Self {
        Ring {
            room,
            base: 0,
            end: 0,
            of: PhantomData,
        }
    }

    #[inline]
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.end - self.base) as usize
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.end == self.base
    }

    /// Whether another entry needs more room.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len() == self.room.len()
    }

    /// Where the entry of a position is, if it is there.
    #[inline]
    fn place(&self, position: u64) -> Option<usize> {
        let is_there = self.base <= position && position < self.end;
        is_there.then(|| position as usize & self.room.len().wrapping_sub(1))
    }

    #[inline]
    pub(super) fn get(&self, position: u64) -> Option<&T> {
        self.room.get(self.place(position)?)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, position: u64) -> Option<&mut T> {
        let place = self.place(position)?;
        self.room.get_mut(place)
    }

    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.base)
    }

    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.end.wrapping_sub(1))
    }

    /// Make sure that there is room for another entry.
    ///
    /// # Errors
    /// [`Full`].
    #[inline]
    pub(super) fn reserve(&mut self) -> Result<(), Full> {
        match self.is_full() {
            true => self.grow(),
            false => Ok(()),
        }
    }

    /// Add an entry; its position.
    ///
    /// # Errors
    /// [`Full`].
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> Result<u64, Full> {
        self.reserve()?;
        let position = self.end;
        let place = position as usize & self.room.len().wrapping_sub(1);
        *self.room.get_mut(place).ok_or(Full)? = entry;
        self.end += 1;
        Ok(position)
    }

    /// Make room for twice as many.
    #[cold]
    fn grow(&mut self) -> Result<(), Full> {
        let old = self.room.len();
        let len = match old {
            0 => FIRST,
            _ => 2 * old,
        };
        self.room.grow(len);
        if self.room.len() != len {
            return Err(Full);
        }
        // Each place has become two, by a bit more of the position.
        for position in self.base..self.end {
            let place = position as usize & (len - 1);
            if place & old != 0 {
                self.room.swap(place, place - old);
            }
        }
        Ok(())
    }

    /// Take the first entry.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let first = mem::take(self.front_mut()?);
        self.base += 1;
        Some(first)
    }

    /// Drop the first entry, if there is one, as late as its place is used again.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.base = self.end.min(self.base + 1);
    }

    pub(super) fn clear(&mut self) {
        while self.pop().is_some() {}
    }

    /// Keep those only.
    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        for _ in 0..self.len() {
            if let Some(entry) = self.pop().filter(&keep) {
                // There is the room of the one that was taken.
                let _ = self.push(entry);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    /// Room as long as there is memory, and for at most so many entries.
    #[derive(Debug)]
    pub(in super::super) struct Heap<T, const MOST: usize>(Vec<T>);

    impl<T, const MOST: usize> Default for Heap<T, MOST> {
        fn default() -> Self {
            Heap(Vec::new())
        }
    }

    impl<T: Default, const MOST: usize> Heap<T, MOST> {
        /// Room for so many.
        fn of(len: usize) -> Self {
            let mut heap = Heap(Vec::new());
            heap.0.resize_with(len, T::default);
            heap
        }
    }

    impl<T, const MOST: usize> Deref for Heap<T, MOST> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T, const MOST: usize> DerefMut for Heap<T, MOST> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }

    impl<T: Default, const MOST: usize> Room<T> for Heap<T, MOST> {
        fn grow(&mut self, len: usize) {
            if len <= MOST {
                self.0.resize_with(len, T::default);
            }
        }
    }

    /// Compare a ring with room for so many entries with a queue.
    fn is_a_queue(
        room: impl Room<u32>,
        most: usize,
        actions: &[(u8, u32)],
    ) -> Result<(), TestCaseError> {
        let (mut ring, mut model) = (Ring::new(room), VecDeque::new());
        for (action, value) in actions {
            let (value, end) = (*value, ring.end());
            match action {
                0..=3 if model.len() == most => prop_assert_eq!(ring.push(value), Err(Full)),
                0..=3 => {
                    prop_assert_eq!(ring.push(value), Ok(end));
                    model.push_back(value);
                }
                4 => prop_assert_eq!(ring.pop(), model.pop_front()),
                5 => {
                    ring.skip();
                    model.pop_front();
                }
                6 => {
                    ring.retain(|kept| *kept >= value / 4);
                    model.retain(|kept| *kept >= value / 4);
                }
                _ if value == 0 => {
                    ring.clear();
                    model.clear();
                }
                _ => {}
            }
            prop_assert_eq!(
                (ring.len(), ring.is_empty()),
                (model.len(), model.is_empty())
            );
            prop_assert_eq!(ring.front_mut().copied(), model.front().copied());
            prop_assert_eq!(ring.back_mut().copied(), model.back().copied());
            let around = ring.base().saturating_sub(2)..ring.end() + 2;
            let found: Vec<_> = around
                .filter_map(|position| ring.get(position).copied())
                .collect();
            prop_assert_eq!(found, Vec::from(model.clone()));
        }
        Ok(())
    }

    proptest! {
        /// It holds what a queue of any length would, as long as there is room.
        #[test]
        fn a_ring_is_a_queue(actions in prop::collection::vec((0..8_u8, 0..100_u32), 0..300)) {
            is_a_queue(Few::default(), READS_MAX, &actions)?;
            is_a_queue(Heap::<_, 64>::default(), 64, &actions)?;
            is_a_queue(Heap::<_, 0>::default(), 0, &actions)?;
        }

        /// The same with room that it has from the beginning, and that it gets in addition.
        #[test]
        fn a_ring_begins_with_the_room_it_is_given(
            first in 0..6_u32,
            actions in prop::collection::vec((0..8_u8, 0..100_u32), 0..300),
        ) {
            let first = 1 << first;
            is_a_queue(Heap::<_, 0>::of(first), first, &actions)?;
            // It grows to a multiple of what it was.
            is_a_queue(Heap::<_, 64>::of(first), 64, &actions)?;
        }
    }
}
