// SPDX-License-Identifier: MIT OR Apache-2.0

//! Initialization, virtual devices, texts of errors.

use super::{handle_out, run, Error, PROCESSES};
use crate::{functions, sys, table::Handle};
use std::ffi::{c_char, c_uint};

export! {
    /// Initializes the library.
    fn SCIInitialize(flags: c_uint, error: Error) {
        run(error, |process| functions::initialize(process, flags));
    }

    /// Undoes an initialization.
    fn SCITerminate() {
        PROCESSES.current().terminate();
    }

    /// Opens a virtual device.
    fn SCIOpen(sd: *mut sys::sci_desc_t, flags: c_uint, error: Error) {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(sd) };
        run(error, |process| functions::open(process, out, flags));
    }

    /// Closes a virtual device.
    fn SCIClose(sd: sys::sci_desc_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::close(process, Handle::from_pointer(sd), flags)
        });
    }

    /// Tells what an error is.
    fn SCIGetErrorString(error: sys::sci_error_t) -> *const c_char {
        sisci::error_string(error).as_ptr()
    }
}
