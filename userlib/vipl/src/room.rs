// SPDX-License-Identifier: MIT OR Apache-2.0

//! Room for the queues of `mp_proto`, as much as they ask for, and for what a call makes (VI-GEN-8).

use crate::{Error, Result};
use mp_proto::work::Room;
use std::{
    hint::black_box,
    ops::{Deref, DerefMut},
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
