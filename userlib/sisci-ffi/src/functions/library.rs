// SPDX-License-Identifier: MIT OR Apache-2.0

//! Initialization and virtual devices.

use super::{end, make, only, Legal};
use crate::process::Process;
use mp_c_abi::{Handle, Out};
use mp_fabric::Device;
use sisci::Result;
use std::ffi::c_char;

/// `SCIInitialize`
pub fn initialize<D: Device>(process: &Process<D>, flags: u32) -> Result<()> {
    only(flags, 0)?;
    process.initialize();
    Ok(())
}

/// `SCITerminate`
pub fn terminate<D: Device>(process: &Process<D>) -> Result<()> {
    process.terminate();
    Ok(())
}

/// `SCIGetErrorString`, which needs no process.
pub fn error_string((): &(), error: u32) -> *const c_char {
    sisci::error_string(error).as_ptr()
}

/// `SCIOpen`
pub fn open<D: Device>(process: &Process<D>, out: Out<Handle>, flags: u32) -> Result<()> {
    out.write(Handle::NULL);
    process.ready()?;
    out.required().legal()?;
    only(flags, 0)?;
    make(&process.descs, out, || process.library()?.open())
}

/// `SCIClose`
pub fn close<D: Device>(process: &Process<D>, desc: Handle, flags: u32) -> Result<()> {
    end(process, &process.descs, desc, flags, |open| open.close())
}
