// SPDX-License-Identifier: MIT OR Apache-2.0

//! Room for the queues of `mp_proto`, as much as they ask for.

use mp_proto::work::Room;
use std::ops::{Deref, DerefMut};

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
