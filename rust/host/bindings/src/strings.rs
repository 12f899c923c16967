// SPDX-License-Identifier: GPL-2.0-only

//! Functions of `string.h` and `kstrtox.h`.

use core::{
    ffi::c_void,
    ptr, //
};

/// The first byte of that value among `len`; null if there is none.
///
/// # Safety
///
/// The bytes are valid for reads.
pub unsafe fn memchr(start: *const c_void, value: i32, len: usize) -> *mut c_void {
    // SAFETY: As the caller promises.
    let bytes = unsafe { core::slice::from_raw_parts(start.cast::<u8>(), len) };
    match bytes.iter().position(|byte| i32::from(*byte) == value) {
        // SAFETY: Inside.
        Some(at) => unsafe { start.byte_add(at) }.cast_mut(),
        None => ptr::null_mut(),
    }
}

/// Parse a boolean by its first letter, as `kstrtobool()` does.
///
/// # Safety
///
/// `text` is a string, and `result` is valid for writes.
pub unsafe fn kstrtobool(text: *const u8, result: *mut bool) -> i32 {
    // SAFETY: As the caller promises.
    let first = unsafe { text.read() };
    let value = match first {
        b'y' | b'Y' | b't' | b'T' | b'1' => true,
        b'n' | b'N' | b'f' | b'F' | b'0' => false,
        _ => return -crate::EINVAL.cast_signed(),
    };
    // SAFETY: As the caller promises.
    unsafe { result.write(value) };
    0
}

extern "C" {
    /// What the kernel calls so writes as much as fits as well; it is used for pointers alone.
    #[link_name = "snprintf"]
    pub fn scnprintf(to: *mut u8, size: usize, format: *const u8, ...) -> i32;
}

/// Fill memory with numbers that the seed gives.
///
/// # Safety
///
/// The memory is valid for writes.
pub unsafe fn get_random_bytes(to: *mut c_void, len: usize) {
    for at in 0..len {
        let byte = machine::world::below(256) as u8;
        // SAFETY: As the caller promises.
        unsafe { to.cast::<u8>().add(at).write(byte) };
    }
}

/// States of a module.
pub const module_state_MODULE_STATE_GOING: u32 = 2;
