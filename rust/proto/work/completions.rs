// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Completion queues: which queue of which endpoint has completed a request, for many endpoints at
//! once.

use super::room::{Full, Ring, Room};

/// A completion queue. Each entry says that a request can be taken from a work queue; the request stays
/// there. What an entry is, is the caller's.
#[derive(Debug)]
pub struct Completions<T, S> {
    entries: Ring<T, S>,
    capacity: usize,
    /// Entries were dropped, and none was taken since.
    overrun: bool,
}

impl<T: Default, S: Room<T>> Completions<T, S> {
    /// One for so many entries, which begins with that room.
    pub fn new(capacity: usize, room: S) -> Self {
        Completions {
            entries: Ring::new(room),
            capacity,
            overrun: false,
        }
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Add `count` entries, as many as there is room for; whether some were dropped, for the first
    /// time since one was taken.
    pub fn push(&mut self, count: usize, entry: impl Fn() -> T) -> bool {
        let room = self.capacity.saturating_sub(self.entries.len());
        let mut added = 0;
        while added < count.min(room) && self.entries.push(entry()).is_ok() {
            added += 1;
        }
        let overrun = added < count && !self.overrun;
        self.overrun |= overrun;
        overrun
    }

    /// Take the first entry that leads to something; those in front of it are dropped.
    pub fn take<U>(&mut self, find: impl Fn(T) -> Option<U>) -> Option<U> {
        while let Some(entry) = self.entries.pop() {
            if let Some(found) = find(entry) {
                self.overrun = false;
                return Some(found);
            }
        }
        None
    }

    /// Give it room for so many entries; those that there are stay.
    ///
    /// # Errors
    /// [`Full`]: there are more.
    pub fn resize(&mut self, capacity: usize) -> Result<(), Full> {
        if capacity < self.entries.len() {
            return Err(Full);
        }
        self.capacity = capacity;
        Ok(())
    }

    /// Keep those entries only.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.entries.retain(keep);
    }

    /// Drop all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::tests::Heap;
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    type Tested = Completions<u32, Heap<u32, 64>>;

    /// Entries of which one leads to nothing.
    fn find(entry: u32) -> Option<u32> {
        (entry != 3).then_some(entry)
    }

    /// What was dropped is told once, until an entry is taken.
    #[test]
    fn an_overrun_is_told_once() {
        let mut queue = Tested::new(2, Heap::default());
        assert_eq!([3, 1].map(|count| queue.push(count, || 1)), [true, false]);
        assert_eq!(queue.take(find), Some(1));
        assert_eq!([1, 1].map(|count| queue.push(count, || 2)), [false, true]);
        assert_eq!([(); 3].map(|()| queue.take(find)), [Some(1), Some(2), None]);
        assert!(queue.push(3, || 3));
        // None of these is taken.
        assert_eq!((queue.take(find), queue.is_empty()), (None, true));
        assert!(!queue.push(3, || 3));
    }

    proptest! {
        /// Entries come back in order, as many as there is room for.
        #[test]
        fn entries_come_back_in_order(capacity in 0..100_usize, actions in prop::collection::vec((0..5_u8, 0..12_u32), 0..200)) {
            let mut queue = Tested::new(capacity, Heap::default());
            let (mut model, mut capacity, mut told) = (VecDeque::new(), capacity, false);
            for (action, value) in actions {
                match action {
                    0 | 1 => {
                        let count = value as usize;
                        // The caller has no memory for more than 64.
                        let room = capacity.min(64).saturating_sub(model.len());
                        model.extend(std::iter::repeat_n(value, count.min(room)));
                        let overrun = count > room && !told;
                        told |= overrun;
                        prop_assert_eq!(queue.push(count, || value), overrun);
                    }
                    2 => {
                        let first = model.iter().position(|entry| find(*entry).is_some());
                        let expected = first.map(|at| model[at]);
                        model.drain(..first.map_or(model.len(), |at| at + 1));
                        told &= expected.is_none();
                        prop_assert_eq!(queue.take(find), expected);
                    }
                    3 => {
                        let less = value as usize * 6;
                        let fits = less >= model.len();
                        capacity = if fits { less } else { capacity };
                        prop_assert_eq!(queue.resize(less).is_ok(), fits);
                    }
                    _ => {
                        queue.retain(|entry| *entry != value);
                        model.retain(|entry| *entry != value);
                    }
                }
                prop_assert_eq!(queue.is_empty(), model.is_empty());
            }
            for expected in model.into_iter().filter_map(find) {
                prop_assert_eq!(queue.take(find), Some(expected));
            }
            prop_assert_eq!(queue.take(find), None);
        }
    }
}
