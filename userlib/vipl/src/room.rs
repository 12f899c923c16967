// SPDX-License-Identifier: MIT OR Apache-2.0

//! Room for the queues of `mp_proto`, as much as they ask for, and for what a call makes (VI-GEN-8).

use crate::{Error, Result};
use mp_proto::work::Room;
use std::{
    hint::black_box,
    ops::{Deref, DerefMut},
    sync::{Arc, Weak},
};

/// Bytes that a call may need beside tables and rings that grow, which are asked for by themselves.
const OF_A_CALL: usize = 64 * 1024;

/// Refuse to make something without memory: a process that gets none for a small piece of it is
/// aborted.
///
/// # Errors
/// [`Error::Resource`]: there are not so many bytes at the moment.
pub fn must_have_memory() -> Result<()> {
    let mut bytes: Vec<u8> = Vec::new();
    let there = bytes.try_reserve_exact(OF_A_CALL);
    // Otherwise the compiler may leave out both the request and the release.
    black_box(&mut bytes);
    there.map_err(|_| Error::Resource)
}

/// Objects that others have, as long as they have them.
#[derive(Debug)]
pub(crate) struct Living<T>(Vec<Weak<T>>);

impl<T> Default for Living<T> {
    fn default() -> Self {
        Living(Vec::new())
    }
}

impl<T> Living<T> {
    /// Add an object. Those that have gone are left out when there is no room, which is made for as
    /// many as are left: however many are added, each costs a look at few others.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub(crate) fn enter(&mut self, object: &Arc<T>) -> Result<()> {
        let all = &mut self.0;
        if all.len() == all.capacity() {
            all.retain(|other| other.strong_count() > 0);
            let reserved = all.try_reserve(all.len() + 1);
            reserved.map_err(|_| Error::Resource)?;
        }
        all.push(Arc::downgrade(object));
        Ok(())
    }

    /// Those that are still there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<T>> + '_ {
        self.0.iter().filter_map(Weak::upgrade)
    }
}

/// Room that grows.
#[derive(Debug)]
pub(crate) struct Heap<T>(Vec<T>);

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Heap(Vec::new())
    }
}

impl<T> Deref for Heap<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Heap<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Default> Room<T> for Heap<T> {
    fn grow(&mut self, len: usize) {
        let more = len.saturating_sub(self.0.len());
        if self.0.try_reserve_exact(more).is_ok() {
            self.0.resize_with(len, T::default);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that are there are kept, and of the others no more than as many again.
    #[test]
    fn objects_that_have_gone_take_no_room() {
        let mut all = Living::default();
        let kept: Vec<_> = (0..10).map(Arc::new).collect();
        for (n, object) in kept.iter().enumerate() {
            all.enter(object).unwrap();
            for _ in 0..1000 * n {
                all.enter(&Arc::new(100)).unwrap();
            }
        }
        assert!(all.0.len() <= 2 * kept.len() + 8, "{}", all.0.len());
        assert_eq!(all.iter().collect::<Vec<_>>(), kept);
    }
}
