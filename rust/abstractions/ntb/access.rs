// SPDX-License-Identifier: GPL-2.0-only

//! Loads and stores to memory that somebody else reads or writes meanwhile.
//!
//! Every access to such memory is volatile and made here. Bulk copies move
//! eight bytes at a time and sixty-four between turns of the loop: a plain
//! loop beats `rep movs` under emulation, fills write-combining buffers on
//! hardware, and keeps source and destination from evicting each other's
//! entry of a direct-mapped software TLB at every word.

use crate::bytes::{
    SharedBytes,
    Writer, //
};
use core::{
    mem::size_of,
    ptr::NonNull, //
};
use kernel::prelude::*;

const WORD: usize = size_of::<u64>();
/// Words moved between turns of the loop.
const BATCH: usize = 8;

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
        Ok(unsafe { ptr.read_volatile() })
    }

    #[inline(always)]
    pub(crate) fn read_u64(&self, off: usize) -> Result<u64> {
        let ptr = self.word::<u64>(off)?;
        // SAFETY: In the region and aligned, as `word` has checked.
        Ok(unsafe { ptr.read_volatile() })
    }

    #[inline(always)]
    pub(crate) fn write_u32(&self, off: usize, val: u32) -> Result {
        let ptr = self.word::<u32>(off)?;
        // SAFETY: In the region and aligned, as `word` has checked.
        unsafe { ptr.write_volatile(val) };
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn write_u64(&self, off: usize, val: u64) -> Result {
        let ptr = self.word::<u64>(off)?;
        // SAFETY: In the region and aligned, as `word` has checked.
        unsafe { ptr.write_volatile(val) };
        Ok(())
    }

    /// Copy all of `src` to `off`.
    pub(crate) fn write(&self, off: usize, src: SharedBytes<'_>) -> Result {
        let dst = self.at(off, src.len())?;
        // SAFETY: `src` is readable, `dst` lies in the region for as many bytes.
        unsafe { copy_out(dst, src.as_ptr(), src.len()) };
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
        let mut ptr = self.at(off, len)?;
        let end = ptr.wrapping_add(len);
        while ptr < end && !ptr.cast::<u64>().is_aligned() {
            // SAFETY: `ptr` lies in the region.
            unsafe { ptr.write_volatile(0) };
            ptr = ptr.wrapping_add(1);
        }
        while end as usize - ptr as usize >= WORD {
            // SAFETY: `ptr` is aligned and a word of the region is left.
            unsafe { ptr.cast::<u64>().write_volatile(0) };
            ptr = ptr.wrapping_add(WORD);
        }
        while ptr < end {
            // SAFETY: `ptr` lies in the region.
            unsafe { ptr.write_volatile(0) };
            ptr = ptr.wrapping_add(1);
        }
        Ok(())
    }
}

/// A value at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T>(T);

/// Copy to shared memory; its stores are aligned words wherever possible. The source may
/// be shared as well: it is read once.
///
/// # Safety
///
/// `src` is valid for volatile reads and `dst` is mapped for `len` bytes.
unsafe fn copy_out(mut dst: *mut u8, mut src: *const u8, mut len: usize) {
    while len > 0 && !dst.cast::<u64>().is_aligned() {
        // SAFETY: `len` bytes are left on both sides.
        unsafe { dst.write_volatile(src.read_volatile()) };
        dst = dst.wrapping_add(1);
        src = src.wrapping_add(1);
        len -= 1;
    }
    while len >= BATCH * WORD {
        let words: [Unaligned<u64>; BATCH] = core::array::from_fn(|i| {
            // SAFETY: A batch is left.
            unsafe { src.cast::<Unaligned<u64>>().wrapping_add(i).read_volatile() }
        });
        for (i, Unaligned(word)) in words.into_iter().enumerate() {
            // SAFETY: A batch is left and `dst` is aligned.
            unsafe { dst.cast::<u64>().wrapping_add(i).write_volatile(word) };
        }
        dst = dst.wrapping_add(BATCH * WORD);
        src = src.wrapping_add(BATCH * WORD);
        len -= BATCH * WORD;
    }
    while len >= WORD {
        // SAFETY: A word is left.
        let Unaligned(word) = unsafe { src.cast::<Unaligned<u64>>().read_volatile() };
        // SAFETY: A word is left and `dst` is aligned.
        unsafe { dst.cast::<u64>().write_volatile(word) };
        dst = dst.wrapping_add(WORD);
        src = src.wrapping_add(WORD);
        len -= WORD;
    }
    while len > 0 {
        // SAFETY: `len` bytes are left on both sides.
        unsafe { dst.write_volatile(src.read_volatile()) };
        dst = dst.wrapping_add(1);
        src = src.wrapping_add(1);
        len -= 1;
    }
}

/// Copy from shared memory; its loads are aligned words wherever possible.
///
/// # Safety
///
/// `dst` is valid for writes of `len` bytes, which nobody else accesses, and `src` is valid
/// for volatile reads of as many.
pub(crate) unsafe fn copy_in(mut dst: *mut u8, mut src: *const u8, mut len: usize) {
    while len > 0 && !src.cast::<u64>().is_aligned() {
        // SAFETY: `len` bytes are left on both sides.
        unsafe { dst.write(src.read_volatile()) };
        dst = dst.wrapping_add(1);
        src = src.wrapping_add(1);
        len -= 1;
    }
    while len >= BATCH * WORD {
        let words: [u64; BATCH] = core::array::from_fn(|i| {
            // SAFETY: A batch is left and `src` is aligned.
            unsafe { src.cast::<u64>().wrapping_add(i).read_volatile() }
        });
        // SAFETY: A batch is left; the destination may be unaligned.
        unsafe { dst.cast::<[u64; BATCH]>().write_unaligned(words) };
        dst = dst.wrapping_add(BATCH * WORD);
        src = src.wrapping_add(BATCH * WORD);
        len -= BATCH * WORD;
    }
    while len >= WORD {
        // SAFETY: A word is left and `src` is aligned.
        unsafe {
            dst.cast::<u64>()
                .write_unaligned(src.cast::<u64>().read_volatile())
        };
        dst = dst.wrapping_add(WORD);
        src = src.wrapping_add(WORD);
        len -= WORD;
    }
    while len > 0 {
        // SAFETY: `len` bytes are left on both sides.
        unsafe { dst.write(src.read_volatile()) };
        dst = dst.wrapping_add(1);
        src = src.wrapping_add(1);
        len -= 1;
    }
}
