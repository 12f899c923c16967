// SPDX-License-Identifier: GPL-2.0-only

//! A queue that grows as needed, in any context.

use core::{
    convert::Infallible,
    ops::Range, //
};

use kernel::{
    alloc::Flags,
    prelude::*, //
};
use pin_init::init_array_from_fn;

/// A queue of small entries.
pub type Fifo<T> = Chunked<T, 64>;

/// A queue. Memory is had for `CHUNK` entries at a time: however long a queue is, it needs no large
/// piece.
///
/// # Invariants
///
/// `head` is less than `CHUNK`. The `len` slots from `head` on, counted through the chunks, are
/// filled; all others are empty.
pub struct Chunked<T, const CHUNK: usize> {
    /// The first one has the head.
    chunks: KVec<Chunk<T, CHUNK>>,
    head: usize,
    len: usize,
    /// Entries taken out so far, modulo 2^32.
    taken: u32,
}

/// Slots of a queue that are next to each other.
type Chunk<T, const CHUNK: usize> = KBox<[Option<T>; CHUNK]>;

/// Empty slots.
///
/// # Errors
///
/// `ENOMEM`.
fn empty_chunk<T, const CHUNK: usize>(flags: Flags) -> Result<Chunk<T, CHUNK>> {
    let none = init_array_from_fn::<_, CHUNK, Option<T>, Infallible>(|_| None);
    KBox::init(none, flags)
}

/// How many chunks have room for so many entries, wherever the head is.
fn chunks_for<const CHUNK: usize>(places: usize) -> usize {
    places.div_ceil(CHUNK) + 1
}

/// Memory for a queue, had where one may wait for it, for who must not: see
/// [`reserve_from`](Chunked::reserve_from).
pub struct Supply<T, const CHUNK: usize> {
    chunks: KVec<Chunk<T, CHUNK>>,
    /// Chunks that the queue lacks.
    lacks: usize,
    /// Chunks that it has altogether then.
    capacity: usize,
}

impl<T, const CHUNK: usize> Supply<T, CHUNK> {
    /// Nothing.
    pub const fn new() -> Self {
        Self {
            chunks: KVec::new(),
            lacks: 0,
            capacity: 0,
        }
    }

    /// Get what the queue has lacked.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn fill(&mut self, flags: Flags) -> Result {
        let more = self.capacity.saturating_sub(self.chunks.len());
        self.chunks.reserve(more, flags)?;
        while self.chunks.len() < self.lacks {
            self.chunks.push(empty_chunk(flags)?, flags)?;
        }
        Ok(())
    }
}

impl<T, const CHUNK: usize> Default for Supply<T, CHUNK> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const CHUNK: usize> Default for Chunked<T, CHUNK> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const CHUNK: usize> Chunked<T, CHUNK> {
    /// An empty queue without memory.
    pub const fn new() -> Self {
        // INVARIANT: There are no slots.
        Self {
            chunks: KVec::new(),
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

    /// Entries that can be appended without memory.
    pub fn room(&self) -> usize {
        self.chunks.len() * CHUNK - self.filled().end
    }

    /// Make room for `places` entries altogether.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the entries are as they were.
    pub fn reserve(&mut self, places: usize, flags: Flags) -> Result {
        while self.chunks.len() < chunks_for::<CHUNK>(places) {
            self.grow(flags)?;
        }
        Ok(())
    }

    /// Make room for `places` entries altogether with memory of a supply, which learns what that
    /// takes if it has less: then there is no room yet, and the result is `false`. Any context.
    pub fn reserve_from(&mut self, places: usize, supply: &mut Supply<T, CHUNK>) -> bool {
        let chunks = chunks_for::<CHUNK>(places);
        let lacks = chunks.saturating_sub(self.chunks.len());
        if lacks == 0 {
            return true;
        }
        let new = &mut supply.chunks;
        if new.len() < lacks || new.capacity() < chunks {
            (supply.lacks, supply.capacity) = (lacks, chunks);
            return false;
        }
        new.truncate(lacks);
        for chunk in core::mem::take(&mut self.chunks) {
            // There is room for them: both are `chunks` together.
            let _ = new.push_within_capacity(chunk);
        }
        new.rotate_left(lacks);
        // INVARIANT: The new slots are empty, and behind all others.
        self.chunks = core::mem::take(new);
        true
    }

    /// Get one chunk more.
    fn grow(&mut self, flags: Flags) -> Result {
        // INVARIANT: Its slots are empty, and behind all others.
        Ok(self.chunks.push(empty_chunk(flags)?, flags)?)
    }

    /// The slots that are filled.
    fn filled(&self) -> Range<usize> {
        self.head..self.head + self.len
    }

    fn slot(&self, at: usize) -> Option<&Option<T>> {
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    fn slot_mut(&mut self, at: usize) -> Option<&mut Option<T>> {
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    /// Append an entry. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn push(&mut self, entry: T) -> Result {
        self.push_with(entry, GFP_ATOMIC)
    }

    /// As [`push`](Self::push), with memory of that kind if it takes some.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn push_with(&mut self, entry: T, flags: Flags) -> Result {
        let at = self.filled().end;
        if self.room() == 0 {
            self.grow(flags)?;
        }
        // INVARIANT: The first slot behind the filled ones is filled.
        *self.slot_mut(at).ok_or(ENOMEM)? = Some(entry);
        self.len += 1;
        Ok(())
    }

    /// The oldest entry.
    pub fn front(&self) -> Option<&T> {
        self.slot(self.head)?.as_ref()
    }

    /// Whether there is an entry that is meant.
    pub fn any(&self, is_meant: impl Fn(&T) -> bool) -> bool {
        let slots = self.filled().filter_map(|at| self.slot(at));
        slots.flatten().any(is_meant)
    }

    /// Take the oldest entry out.
    pub fn pop(&mut self) -> Option<T> {
        // INVARIANT: The slot at `head` is emptied, unless it was already and `len` is zero.
        let entry = self.slot_mut(self.head)?.take()?;
        self.head += 1;
        if self.head == CHUNK {
            // INVARIANT: All slots of the first chunk are empty, which is the last one now.
            self.chunks.rotate_left(1);
            self.head = 0;
        }
        self.len -= 1;
        self.taken = self.taken.wrapping_add(1);
        Some(entry)
    }

    /// Take out the oldest entry that is meant; those behind it move up.
    pub fn remove(&mut self, is_meant: impl Fn(&T) -> bool) -> Option<T> {
        let is_at = |at: &usize| {
            let entry = self.slot(*at).and_then(Option::as_ref);
            entry.is_some_and(&is_meant)
        };
        let at = self.filled().find(is_at)?;
        // INVARIANT: The slot that is emptied here becomes the last one of the filled ones.
        let entry = self.slot_mut(at)?.take();
        for next in at + 1..self.filled().end {
            let moved = self.slot_mut(next).and_then(Option::take);
            if let Some(slot) = self.slot_mut(next - 1) {
                *slot = moved;
            }
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
