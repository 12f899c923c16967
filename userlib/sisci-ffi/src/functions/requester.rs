// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices of this host that send through the bridge themselves: bridges know no requesters of
//! which the driver could tell them, and so nothing is ever registered.

use super::found;
use crate::{process::Process, sys};
use mp_c_abi::Handle;
use mp_fabric::Device;
use sisci::{Error, Result};

/// A function of a device, as it is seen on its bus.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    pub adapter: u32,
    pub bus: u32,
    pub devfn: u32,
}

impl Requester {
    fn check<D: Device>(
        self,
        process: &Process<D>,
        desc: Handle,
        flags: u32,
        taken: u32,
    ) -> Result<()> {
        let desc = found(process, &process.descs, desc, flags, taken)?;
        desc.adapter(self.adapter)?;
        match self.bus.max(self.devfn) > u8::MAX.into() {
            true => Err(Error::IllegalParameter),
            false => Ok(()),
        }
    }
}

/// `SCIRegisterPCIeRequester`
pub fn register_requester<D: Device>(
    process: &Process<D>,
    desc: Handle,
    requester: Requester,
    flags: u32,
) -> Result<()> {
    let taken = sys::SCI_FLAG_BROADCAST | sys::SCI_FLAG_PCIE_REQUESTER_GLOBAL;
    requester.check(process, desc, flags, taken)?;
    Err(Error::NotSupported)
}

/// `SCIUnregisterPCIeRequester`
pub fn unregister_requester<D: Device>(
    process: &Process<D>,
    desc: Handle,
    requester: Requester,
    flags: u32,
) -> Result<()> {
    requester.check(process, desc, flags, 0)?;
    Err(Error::IllegalOperation)
}
