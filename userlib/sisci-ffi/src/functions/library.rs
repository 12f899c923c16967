// SPDX-License-Identifier: MIT OR Apache-2.0

//! Initialization and virtual devices.

use super::{end, make, only};
use crate::{buffer::Output, process::Process, table::Handle};
use mp_fabric::Device;
use sisci::Result;

/// `SCIInitialize`
pub fn initialize<D: Device>(process: &Process<D>, flags: u32) -> Result<()> {
    only(flags, 0)?;
    process.initialize();
    Ok(())
}

/// `SCIOpen`
pub fn open<D: Device>(process: &Process<D>, out: Output<Handle>, flags: u32) -> Result<()> {
    process.ready()?;
    out.required()?;
    only(flags, 0)?;
    make(&process.descs, out, |_| process.library()?.open())
}

/// `SCIClose`
pub fn close<D: Device>(process: &Process<D>, desc: Handle, flags: u32) -> Result<()> {
    end(process, &process.descs, desc, flags, |open| open.close())
}
