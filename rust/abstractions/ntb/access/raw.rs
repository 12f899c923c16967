// SPDX-License-Identifier: GPL-2.0-only

//! The loads and stores themselves. All are volatile.
//!
//! Bulk copies move eight bytes at a time and sixty-four between turns of the
//! loop: a plain loop beats `rep movs` under emulation, fills write-combining
//! buffers on hardware, and keeps source and destination from evicting each
//! other's entry of a direct-mapped software TLB at every word.

use core::mem::size_of;

const WORD: usize = size_of::<u64>();
/// Words moved between turns of the loop.
const BATCH: usize = 8;

/// Load a word in one piece.
///
/// # Safety
///
/// `src` is valid for volatile reads and aligned.
#[inline(always)]
pub(super) unsafe fn load<T: Copy>(src: *const T) -> T {
    // SAFETY: As the caller promises.
    unsafe { src.read_volatile() }
}

/// Store a word in one piece.
///
/// # Safety
///
/// `dst` is valid for volatile writes and aligned.
#[inline(always)]
pub(super) unsafe fn store<T: Copy>(dst: *mut T, val: T) {
    // SAFETY: As the caller promises.
    unsafe { dst.write_volatile(val) };
}

/// Store zero.
///
/// # Safety
///
/// `dst` is valid for volatile writes of `len` bytes.
pub(super) unsafe fn zero(dst: *mut u8, len: usize) {
    let mut ptr = dst;
    let end = ptr.wrapping_add(len);
    while ptr < end && !ptr.cast::<u64>().is_aligned() {
        // SAFETY: `ptr` is before the end.
        unsafe { ptr.write_volatile(0) };
        ptr = ptr.wrapping_add(1);
    }
    while end as usize - ptr as usize >= WORD {
        // SAFETY: `ptr` is aligned and a word is left.
        unsafe { ptr.cast::<u64>().write_volatile(0) };
        ptr = ptr.wrapping_add(WORD);
    }
    while ptr < end {
        // SAFETY: `ptr` is before the end.
        unsafe { ptr.write_volatile(0) };
        ptr = ptr.wrapping_add(1);
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
pub(super) unsafe fn copy_out(mut dst: *mut u8, mut src: *const u8, mut len: usize) {
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
