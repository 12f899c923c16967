// SPDX-License-Identifier: GPL-2.0-only

//! Numbers of errors.

include!("../../../../build/host/errno.rs");

pub const MAX_ERRNO: u32 = 4095;
/// Of a build that has no names of errors.
///
/// # Safety
///
/// Any number will do.
pub unsafe fn errname(_number: i32) -> *const u8 {
    core::ptr::null()
}

use core::ffi::c_void;

/// # Safety
///
/// Any number will do.
pub unsafe fn ERR_PTR(number: isize) -> *mut c_void {
    core::ptr::without_provenance_mut(number.cast_unsigned())
}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn IS_ERR(pointer: *const c_void) -> bool {
    pointer.addr() >= usize::MAX - MAX_ERRNO as usize
}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn PTR_ERR(pointer: *const c_void) -> isize {
    pointer.addr().cast_signed()
}
