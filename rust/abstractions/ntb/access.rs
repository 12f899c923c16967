// SPDX-License-Identifier: GPL-2.0-only

//! Loads and stores to memory that somebody else reads or writes meanwhile.
//!
//! Which accesses a [`Region`] allows; [`raw`] makes them.

mod raw;

pub(crate) use raw::copy_in;

use crate::bytes::{
    SharedBytes,
    Writer, //
};
use core::{
    mem::size_of,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Full, //
    }, //
};

/// A region of memory shared with a peer or a device.
///
/// # Invariants
///
/// `base..base + len` is mapped for as long as the value lives, is aligned to a
/// page, and is accessed through volatile operations only.
pub(crate) struct Region {
    base: *mut u8,
    len: usize,
}

// SAFETY: The memory is not tied to a thread.
unsafe impl Send for Region {}
// SAFETY: All accesses are volatile; concurrent ones are the normal case for this memory.
unsafe impl Sync for Region {}

impl Region {
    /// Describe mapped memory.
    ///
    /// # Safety
    ///
    /// The caller guarantees the type invariants.
    pub(crate) unsafe fn new(base: *mut u8, len: usize) -> Self {
        Self { base, len }
    }

    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of `off` if `len` bytes from there lie inside.
    #[inline(always)]
    fn at(&self, off: usize, len: usize) -> Result<*mut u8> {
        if off > self.len || len > self.len - off {
            return Err(EINVAL);
        }
        Ok(self.base.wrapping_add(off))
    }

    /// The address of an aligned `T` at `off`.
    #[inline(always)]
    pub(super) fn word<T>(&self, off: usize) -> Result<*mut T> {
        if off % size_of::<T>() != 0 {
            return Err(EINVAL);
        }
        Ok(self.at(off, size_of::<T>())?.cast())
    }

    #[inline(always)]
    pub(crate) fn read_u32(&self, off: usize) -> Result<u32> {
        let ptr = self.word::<u32>(off)?;
        // SAFETY: In the region and aligned, as `word` has checked.
        Ok(unsafe { raw::load(ptr) })
    }

    #[inline(always)]
    pub(crate) fn read_u64(&self, off: usize) -> Result<u64> {
        let ptr = self.word::<u64>(off)?;
        // SAFETY: In the region and aligned, as `word` has checked.
        Ok(unsafe { raw::load(ptr) })
    }

    #[inline(always)]
    pub(crate) fn write_u32(&self, off: usize, val: u32) -> Result {
        let ptr = self.word::<u32>(off)?;
        // SAFETY: In the region and aligned, as `word` has checked.
        unsafe { raw::store(ptr, val) };
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn write_u64(&self, off: usize, val: u64) -> Result {
        let ptr = self.word::<u64>(off)?;
        // SAFETY: In the region and aligned, as `word` has checked.
        unsafe { raw::store(ptr, val) };
        Ok(())
    }

    /// Exchange a word of memory that has the value `expected` for `desired`, in one step; whether
    /// it had.
    pub(crate) fn exchange_u64(&self, off: usize, expected: u64, desired: u64) -> Result<bool> {
        let ptr = self.word::<u64>(off)?;
        // SAFETY: In the region and aligned, as `word` has checked. Whoever else has the memory,
        // a program or a device, accesses it at any time as if by atomic accesses.
        let word = unsafe { Atomic::<u64>::from_ptr(ptr) };
        Ok(word.cmpxchg(expected, desired, Full).is_ok())
    }

    /// Copy all of `src` to `off`.
    pub(crate) fn write(&self, off: usize, src: SharedBytes<'_>) -> Result {
        let dst = self.at(off, src.len())?;
        // SAFETY: `src` is readable, `dst` lies in the region for as many bytes.
        unsafe { raw::copy_out(dst, src.as_ptr(), src.len()) };
        Ok(())
    }

    /// The `len` bytes at `off`, to be copied.
    #[inline]
    pub(crate) fn bytes(&self, off: usize, len: usize) -> Result<SharedBytes<'_>> {
        let start = NonNull::new(self.at(off, len)?).ok_or(EINVAL)?;
        // SAFETY: In the region, as `at` has checked, which is mapped while the value lives.
        Ok(unsafe { SharedBytes::new(start, len) })
    }

    /// Fill all of `dst` from `off`.
    pub(crate) fn read(&self, off: usize, dst: &mut [u8]) -> Result {
        let src = self.bytes(off, dst.len())?;
        Writer::from(dst).write(src)
    }

    /// Store zero to `len` bytes at `off`.
    pub(crate) fn zero(&self, off: usize, len: usize) -> Result {
        let start = self.at(off, len)?;
        // SAFETY: In the region, as `at` has checked.
        unsafe { raw::zero(start, len) };
        Ok(())
    }
}
