// SPDX-License-Identifier: MIT OR Apache-2.0

//! Protection tags and registered memory.

use super::{found, passed, required};
use crate::{process::Process, structures, sys};
use mp_c_abi::{Handle, Out};
use mp_fabric::{Device, ProcessMemory};
use std::ffi::c_void;
use vipl::{MemHandle, Result};

/// Make a protection tag (VI-PTAG-1).
pub fn create_ptag<D: Device>(
    process: &Process<D>,
    nic: Handle,
    out: Out<sys::VIP_PROTECTION_HANDLE>,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    required(out)?;
    out.write(structures::ptag_handle(nic.nic.create_ptag()?));
    Ok(())
}

/// End a protection tag that nothing is associated with (VI-PTAG-3).
pub fn destroy_ptag<D: Device>(
    process: &Process<D>,
    nic: Handle,
    ptag: sys::VIP_PROTECTION_HANDLE,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    nic.nic.destroy_ptag(structures::ptag_of(ptag))
}

/// Register memory; 0 goes where the handle should if that fails (VI-MEM-4).
pub fn register_mem<D: Device>(
    process: &Process<D>,
    nic: Handle,
    memory: ProcessMemory<'_>,
    attributes: Out<sys::VIP_MEM_ATTRIBUTES>,
    out: Out<sys::VIP_MEM_HANDLE>,
) -> Result<()> {
    out.write(0);
    let nic = found(&process.nics, nic)?;
    let attributes = structures::mem_attributes(&passed(attributes)?);
    required(out)?;
    out.write(nic.nic.register(memory, &attributes)?.0);
    Ok(())
}

/// End the registration of memory (VI-MEM-11).
pub fn deregister_mem<D: Device>(
    process: &Process<D>,
    nic: Handle,
    start: *mut c_void,
    handle: sys::VIP_MEM_HANDLE,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    nic.nic.deregister(start.addr(), MemHandle(handle))
}

/// Tell the attributes of memory (VI-QRY-4).
pub fn query_mem<D: Device>(
    process: &Process<D>,
    nic: Handle,
    start: *mut c_void,
    handle: sys::VIP_MEM_HANDLE,
    out: Out<sys::VIP_MEM_ATTRIBUTES>,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    required(out)?;
    let attributes = nic.nic.query_memory(start.addr(), MemHandle(handle))?;
    out.write(structures::mem(&attributes));
    Ok(())
}

/// Change the attributes of memory, all or none (VI-ATTR-4, VI-ATTR-5).
pub fn set_mem_attributes<D: Device>(
    process: &Process<D>,
    nic: Handle,
    start: *mut c_void,
    handle: sys::VIP_MEM_HANDLE,
    attributes: Out<sys::VIP_MEM_ATTRIBUTES>,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    let attributes = structures::mem_attributes(&passed(attributes)?);
    let handle = MemHandle(handle);
    nic.nic.set_memory(start.addr(), handle, &attributes)
}
