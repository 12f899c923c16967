// SPDX-License-Identifier: GPL-2.0-only

//! The device memory controller, which these hosts do not have: there are no regions, and nothing is
//! charged.

use kernel::ffi::{
    c_char,
    c_int,
    c_void, //
};

/// # Safety
///
/// None.
pub unsafe fn dmem_region_register(_: u64, _: *const c_char, _: *mut *mut c_void) -> c_int {
    0
}

/// # Safety
///
/// None.
pub unsafe fn dmem_region_unregister(_: *mut c_void) {}

/// # Safety
///
/// None.
pub unsafe fn dmem_charge(_: *mut c_void, _: u64, _: *mut *mut c_void) -> c_int {
    0
}

/// # Safety
///
/// None.
pub unsafe fn dmem_uncharge(_: *mut c_void, _: u64) {}
