// SPDX-License-Identifier: MIT OR Apache-2.0

//! The name service.

use super::{found, passed, required};
use crate::{address::Address, process::Process, sys};
use mp_c_abi::{Handle, Null, Out, Room, Text};
use mp_fabric::Device;
use std::{ffi::c_char, path::Path};
use vipl::{Error, HostAddress, NamesError, Result};

/// What a failure of the service is for programs in C.
fn failed(error: NamesError) -> Error {
    match error {
        NamesError::File { .. } => Error::Resource,
        _ => Error::NameService,
    }
}

/// Initialize the name service of a NIC, from a file of the program or of this host (VI-NS-1 to
/// VI-NS-3).
pub fn ns_init<D: Device>(process: &Process<D>, nic: Handle, path: Text) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    match path.read() {
        Err(Null) => nic.names.init(None).map_err(failed),
        Ok(path) => {
            let init = nic.names.init(Some(Path::new(&*path)));
            init.map_err(|error| match failed(error) {
                // The program has named the file.
                Error::Resource => Error::InvalidParameter,
                other => other,
            })
        }
    }
}

/// Find an address of a name (VI-NS-5 to VI-NS-8).
pub fn ns_get_host_by_name<D: Device>(
    process: &Process<D>,
    nic: Handle,
    name: Text,
    out: Address,
    index: sys::VIP_ULONG,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    let name = name.read().map_err(|Null| Error::InvalidParameter)?;
    out.must_hold_host()?;
    let names = nic.names.names().map_err(failed)?;
    let address = names.address(&name, index as usize).map_err(failed)?;
    out.write_host(HostAddress::of(address));
    Ok(())
}

/// Find the name of an address; the room for it, in which its end has to fit, is a length that is
/// updated (VI-NS-9, VI-NS-10).
pub fn ns_get_host_by_addr<D: Device>(
    process: &Process<D>,
    nic: Handle,
    address: Address,
    name: Out<c_char>,
    len: Out<sys::VIP_ULONG>,
    room: impl FnOnce(Out<c_char>, usize) -> Room<u8>,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    let host = address.read_host()?;
    required(name)?;
    let there = passed(len)?;
    let names = nic.names.names().map_err(failed)?;
    let found = names.name(host.peer()).map_err(failed)?.as_bytes();
    let with_end = found.len() + 1;
    if there < with_end as sys::VIP_ULONG {
        len.write(with_end as sys::VIP_ULONG);
        return Err(Error::InvalidParameter);
    }
    room(name, with_end).fill(&[found, &[0]].concat());
    len.write(found.len() as sys::VIP_ULONG);
    Ok(())
}

/// End the name service of a NIC (VI-NS-4).
pub fn ns_shutdown<D: Device>(process: &Process<D>, nic: Handle) -> Result<()> {
    found(&process.nics, nic)?.names.shutdown().map_err(failed)
}
