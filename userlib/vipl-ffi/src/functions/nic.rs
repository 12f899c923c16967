// SPDX-License-Identifier: MIT OR Apache-2.0

//! NICs, asynchronous errors, and the hosts that there are.

use super::{found, passed, required, reserved};
use crate::{
    address::Address,
    process::{NicObject, Process},
    structures, sys,
};
use mp_c_abi::{Handle, Null, Out, Text};
use mp_fabric::Device;
use std::sync::Arc;
use vipl::{Error, ErrorHandler, Result};

/// Open the NIC of a name (VI-NIC-1 to VI-NIC-4).
pub fn open_nic<D: Device>(process: &Process<D>, name: Text, out: Out<Handle>) -> Result<()> {
    let name = name.read().map_err(|Null| Error::InvalidParameter)?;
    required(out)?;
    let nic = process.library().open_nic(&name)?;
    let address = nic.attributes()?.local_address.0;
    let handle = reserved(&process.nics)?;
    let object = NicObject::new(handle, nic, address);
    process.nics.enter(handle, Arc::new(object));
    out.write(handle);
    Ok(())
}

/// End everything that was made with a NIC (VI-NIC-5 to VI-NIC-8). Threads that are in a call find
/// that its object has ended.
pub fn close_nic<D: Device>(process: &Process<D>, nic: Handle) -> Result<()> {
    let object = found(&process.nics, nic)?;
    process.forget(&object);
    object.nic.close()
}

/// Tell what a NIC has (VI-QRY-1, VI-QRY-2).
pub fn query_nic<D: Device>(
    process: &Process<D>,
    nic: Handle,
    out: Out<sys::VIP_NIC_ATTRIBUTES>,
) -> Result<()> {
    let object = found(&process.nics, nic)?;
    required(out)?;
    out.write(structures::nic(object.nic.attributes()?, &object.address));
    Ok(())
}

/// Tell a handler of asynchronous errors; the default one without (VI-ERR-1, VI-ERR-2).
pub fn error_callback<D: Device>(
    process: &Process<D>,
    nic: Handle,
    handler: impl FnOnce(Handle) -> Option<ErrorHandler<D>>,
) -> Result<()> {
    let object = found(&process.nics, nic)?;
    object.nic.set_error_handler(handler(nic))
}

/// The addresses of hosts, with room for so many (VI-SMI-1 to VI-SMI-5).
pub fn query_system_management_info<D: Device>(
    process: &Process<D>,
    nic: Handle,
    kind: sys::VIP_ULONG,
    list: Out<sys::VIP_AUTODISCOVERY_LIST>,
    entries: impl FnOnce(&sys::VIP_AUTODISCOVERY_LIST) -> Result<Vec<Address>>,
) -> Result<()> {
    let object = found(&process.nics, nic)?;
    if kind != sys::VIP_ULONG::from(AUTODISCOVERY) {
        return Err(Error::InvalidParameter);
    }
    let mut told = passed(list)?;
    let hosts = object.nic.neighbours(told.NumberOfHops)?;
    let room = told.NumAdAddrs;
    told.NumAdAddrs = hosts.len() as sys::VIP_ULONG;
    if told.NumAdAddrs > room {
        list.write(told);
        return Err(Error::Resource);
    }
    let entries = entries(&told)?;
    for entry in &entries {
        entry.must_hold_host()?;
    }
    for (entry, host) in entries.iter().zip(hosts) {
        entry.write_host(host);
    }
    list.write(told);
    Ok(())
}

/// The only information that there is; in the header it is a cast, which bindings leave out.
const AUTODISCOVERY: u32 = 1;
