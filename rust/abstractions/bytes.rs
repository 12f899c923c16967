// SPDX-License-Identifier: GPL-2.0-only

//! Bytes of which no slice can exist, and copies between them.
//!
//! A `&[u8]` promises that nobody changes the bytes, a `&mut [u8]` that they are
//! initialised. Neither is true of much that a driver copies: user space has a second
//! mapping of the pages it sends, another host writes to inbound memory, and fresh
//! memory holds no values. [`SharedBytes`] are read by copying alone. A [`Writer`] is
//! written alone, and those who lend it fresh memory ([`fill`], [`append`]) learn
//! whether all of it has been written.

use crate::ntb::access::copy_in;
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    alloc::{
        Allocator,
        Flags, //
    },
    prelude::*, //
};

/// Bytes that somebody else may change at any time. What a copy gets may be of
/// different times.
///
/// # Invariants
///
/// `start` is valid for volatile reads of `len` bytes, for `'a`.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    start: NonNull<u8>,
    len: usize,
    _memory: PhantomData<&'a u8>,
}

impl<'a> SharedBytes<'a> {
    /// # Safety
    ///
    /// The caller guarantees the type invariants.
    #[inline]
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        // INVARIANT: As the caller promises.
        Self {
            start,
            len,
            _memory: PhantomData,
        }
    }

    /// Number of bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where they begin. Never make a slice of them.
    #[inline]
    pub fn as_ptr(self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Cut after `at` bytes; a cut behind the end leaves the second half empty.
    #[inline]
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let at = at.min(self.len);
        // SAFETY: `at` is inside, or right behind the end.
        let middle = unsafe { self.start.add(at) };
        // INVARIANT: Two parts of bytes that are valid.
        let part = |start, len| Self {
            start,
            len,
            _memory: PhantomData,
        };
        (part(self.start, at), part(middle, self.len - at))
    }
}

impl<'a> From<&'a [u8]> for SharedBytes<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        // INVARIANT: A slice is valid for its lifetime.
        Self {
            start: NonNull::from(bytes).cast(),
            len: bytes.len(),
            _memory: PhantomData,
        }
    }
}

/// Room for bytes, written from its start on and never read. A slice is one as well.
///
/// # Invariants
///
/// `next` is valid for writes of `left` bytes, which nobody else accesses for `'a`.
/// `written`, if there, counts bytes of the memory that [`fill`] lends: those that
/// have been written, each once.
pub struct Writer<'a> {
    next: NonNull<u8>,
    left: usize,
    written: Option<&'a mut usize>,
    _memory: PhantomData<&'a mut [MaybeUninit<u8>]>,
}

impl Writer<'_> {
    /// Number of bytes that can still be written.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// Copy all of `src` behind what was written before.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that does not fit; nothing is written then.
    pub fn write(&mut self, src: SharedBytes<'_>) -> Result {
        if src.len > self.left {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants of both; nobody else accesses the destination.
        unsafe { copy_in(self.next.as_ptr(), src.as_ptr(), src.len) };
        if let Some(written) = &mut self.written {
            **written += src.len;
        }
        self.skip(src.len);
        Ok(())
    }

    /// Take the room for the next `len` bytes off.
    ///
    /// # Errors
    ///
    /// `EINVAL` if so many are not left.
    pub fn take(&mut self, len: usize) -> Result<Writer<'_>> {
        if len > self.left {
            return Err(EINVAL);
        }
        let next = self.next;
        self.skip(len);
        // INVARIANT: The bytes are inside, and this writer has just lost them.
        Ok(Writer {
            next,
            left: len,
            written: self.written.as_deref_mut(),
            _memory: PhantomData,
        })
    }

    /// Pass over `len` bytes, of which there are as many at least.
    #[inline]
    fn skip(&mut self, len: usize) {
        // INVARIANT: What is left is at the end of what was there.
        // SAFETY: Inside, or right behind the end.
        self.next = unsafe { self.next.add(len) };
        self.left -= len;
    }
}

impl<'a> From<&'a mut [u8]> for Writer<'a> {
    #[inline]
    fn from(room: &'a mut [u8]) -> Self {
        let left = room.len();
        // INVARIANT: A slice that is borrowed for `'a`.
        Self {
            next: NonNull::from(room).cast(),
            left,
            written: None,
            _memory: PhantomData,
        }
    }
}

/// Let `write` fill memory. After success all `len` bytes from `start` on are initialised.
///
/// # Errors
///
/// `EINVAL` if `write` leaves bytes out, or that of `write`.
///
/// # Safety
///
/// `start` must be valid for writes of `len` bytes, which nobody else accesses meanwhile.
#[inline]
pub unsafe fn fill(
    start: NonNull<u8>,
    len: usize,
    write: impl FnOnce(Writer<'_>) -> Result,
) -> Result {
    let mut written = 0;
    // INVARIANT: As the caller promises; nothing has been written.
    write(Writer {
        next: start,
        left: len,
        written: Some(&mut written),
        _memory: PhantomData,
    })?;
    (written == len).then_some(()).ok_or(EINVAL)
}

/// Append `len` bytes that `write` writes to `vec`.
///
/// # Errors
///
/// `ENOMEM`, `EINVAL` if `write` leaves bytes out, or that of `write`. The vector's
/// elements are what they were then.
pub fn append<A: Allocator>(
    vec: &mut Vec<u8, A>,
    len: usize,
    flags: Flags,
    write: impl FnOnce(Writer<'_>) -> Result,
) -> Result {
    vec.reserve(len, flags)?;
    let room = vec.spare_capacity_mut().get_mut(..len).ok_or(EINVAL)?;
    // SAFETY: The room is valid and borrowed.
    unsafe { fill(NonNull::from(room).cast(), len, write) }?;
    // SAFETY: There is capacity for them, and all have been initialised.
    unsafe { vec.inc_len(len) };
    Ok(())
}
