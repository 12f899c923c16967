// SPDX-License-Identifier: GPL-2.0-only

//! Loads and stores of memory that others change, each a place where they may do so. Stores through a
//! window go to the bridge.

use core::{
    ptr,
    slice, //
};

/// Load a word in one piece.
///
/// # Safety
///
/// `src` is valid for reads and aligned.
pub(super) unsafe fn load<T: Copy>(src: *const T) -> T {
    mp_bindings::io_load(src.cast());
    // SAFETY: As the caller promises.
    unsafe { src.read_volatile() }
}

/// Store a word in one piece.
///
/// # Safety
///
/// `dst` is valid for writes, or in a window, and aligned.
pub(super) unsafe fn store<T: Copy>(dst: *mut T, val: T) {
    // SAFETY: The bytes of a value without padding: callers have numbers.
    unsafe { copy_out(dst.cast(), ptr::from_ref(&val).cast(), size_of::<T>()) };
}

/// Store zero.
///
/// # Safety
///
/// `dst` is valid for writes of `len` bytes, or they are in a window.
pub(super) unsafe fn zero(dst: *mut u8, len: usize) {
    let zeros = vec![0; len];
    // SAFETY: As the caller promises.
    unsafe { copy_out(dst, zeros.as_ptr(), len) };
}

/// Copy to shared memory.
///
/// # Safety
///
/// `src` is valid for reads of `len` bytes; `dst` for as many writes, or they are in a window.
pub(super) unsafe fn copy_out(dst: *mut u8, src: *const u8, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: As the caller promises. No context has a turn before the slice is gone.
    let bytes = || unsafe { slice::from_raw_parts(src, len) };
    if !mp_bindings::io_store(dst, bytes) {
        // SAFETY: As the caller promises: it is in no window.
        unsafe { ptr::copy(src, dst, len) };
    }
}

/// Copy from shared memory.
///
/// # Safety
///
/// `dst` is valid for writes of `len` bytes, which nobody else accesses, and `src` is valid
/// for reads of as many.
pub(crate) unsafe fn copy_in(dst: *mut u8, src: *const u8, len: usize) {
    if len == 0 {
        return;
    }
    mp_bindings::io_load(src);
    // SAFETY: As the caller promises.
    unsafe { ptr::copy(src, dst, len) };
}
