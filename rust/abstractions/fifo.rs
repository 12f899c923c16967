// SPDX-License-Identifier: GPL-2.0-only

//! A queue that grows as needed, in any context.

use kernel::prelude::*;

/// Places of a queue that grows for the first time.
const FIRST: usize = 16;

/// A queue.
///
/// # Invariants
///
/// The `len` slots from `head` on, modulo their number, are filled; all others are empty.
pub struct Fifo<T> {
    slots: KVec<Option<T>>,
    head: usize,
    len: usize,
    /// Entries taken out so far, modulo 2^32.
    taken: u32,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Fifo<T> {
    /// An empty queue without memory.
    pub const fn new() -> Self {
        // INVARIANT: There are no slots.
        Self {
            slots: KVec::new(),
            head: 0,
            len: 0,
            taken: 0,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Make room for `places` entries altogether.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the queue is as it was.
    pub fn reserve(&mut self, places: usize, flags: kernel::alloc::Flags) -> Result {
        if places <= self.slots.len() {
            return Ok(());
        }
        let mut slots = KVec::with_capacity(places, flags)?;
        let (len, taken) = (self.len, self.taken);
        while let Some(entry) = self.pop() {
            slots.push(Some(entry), flags)?;
        }
        while slots.len() < places {
            slots.push(None, flags)?;
        }
        // INVARIANT: The entries fill the first `len` slots.
        *self = Self {
            slots,
            head: 0,
            len,
            taken,
        };
        Ok(())
    }

    /// The slot that is `n` behind `head`, where `n` is at most the number of slots.
    fn slot(&self, n: usize) -> usize {
        let at = self.head + n;
        at.checked_sub(self.slots.len()).unwrap_or(at)
    }

    /// Append an entry.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn push(&mut self, entry: T) -> Result {
        if self.len == self.slots.len() {
            self.reserve((2 * self.len).max(FIRST), GFP_ATOMIC)?;
        }
        let at = self.slot(self.len);
        // INVARIANT: The first slot behind the filled ones is filled.
        *self.slots.get_mut(at).ok_or(ENOMEM)? = Some(entry);
        self.len += 1;
        Ok(())
    }

    /// The oldest entry.
    pub fn front(&self) -> Option<&T> {
        self.slots.get(self.head)?.as_ref()
    }

    /// Whether there is an entry that is meant.
    pub fn any(&self, is_meant: impl Fn(&T) -> bool) -> bool {
        self.slots.iter().flatten().any(is_meant)
    }

    /// Take the oldest entry out.
    pub fn pop(&mut self) -> Option<T> {
        // INVARIANT: The slot at `head` is emptied, unless it was already and `len` is zero.
        let entry = self.slots.get_mut(self.head)?.take()?;
        self.head = self.slot(1);
        self.len -= 1;
        self.taken = self.taken.wrapping_add(1);
        Some(entry)
    }

    /// Take out the oldest entry that is meant; those behind it move up.
    pub fn remove(&mut self, is_meant: impl Fn(&T) -> bool) -> Option<T> {
        let is_at = |n: &usize| {
            let entry = self.slots.get(self.slot(*n)).and_then(Option::as_ref);
            entry.is_some_and(&is_meant)
        };
        let at = (0..self.len).find(is_at)?;
        // INVARIANT: The slot that is emptied here becomes the last one of the filled ones.
        let place = self.slot(at);
        let entry = self.slots.get_mut(place)?.take();
        for n in at + 1..self.len {
            let (to, from) = (self.slot(n - 1), self.slot(n));
            self.slots.swap(to, from);
        }
        self.len -= 1;
        self.taken = self.taken.wrapping_add(1);
        entry
    }

    /// Name the present end of the queue, for [`is_past`](Self::is_past).
    pub fn end(&self) -> u32 {
        self.taken.wrapping_add(self.len as u32)
    }

    /// Whether all entries that were in front of `end` have been taken out.
    pub fn is_past(&self, end: u32) -> bool {
        self.taken.wrapping_sub(end) as i32 >= 0
    }
}
