// SPDX-License-Identifier: MIT OR Apache-2.0

//! VIs.

use super::{found, passed, required, token};
use crate::{
    process::{Made, Process},
    structures, sys,
};
use mp_c_abi::{Handle, Out};
use mp_fabric::Device;
use vipl::Result;

/// Make a VI whose queues may be bound to completion queues (VI-EP-1 to VI-EP-9).
pub fn create_vi<D: Device>(
    process: &Process<D>,
    nic: Handle,
    attributes: Out<sys::VIP_VI_ATTRIBUTES>,
    send_cq: Handle,
    recv_cq: Handle,
    out: Out<Handle>,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    let bound = |handle: Handle| match handle.is_null() {
        true => Ok(None),
        false => found(&process.cqs, handle).map(Some),
    };
    let (send, recv) = (bound(send_cq)?, bound(recv_cq)?);
    let attributes = passed(attributes)?;
    required(out)?;
    let attributes = structures::vi_attributes(&attributes)?;
    let handle = Made::reserve(&process.vis, &nic)?;
    let [send, recv] = [&send, &recv].map(|cq| cq.as_deref().map(|made| &made.object));
    let vi = nic.nic.create_vi(&attributes, send, recv, token(handle))?;
    Made::enter(&process.vis, &nic, handle, vi)?;
    out.write(handle);
    Ok(())
}

/// End a VI (VI-EP-10, VI-EP-11).
pub fn destroy_vi<D: Device>(process: &Process<D>, vi: Handle) -> Result<()> {
    let made = found(&process.vis, vi)?;
    made.object.destroy()?;
    made.forget(&process.vis, vi);
    Ok(())
}

/// Tell state, attributes, and which queues are empty (VI-QRY-3).
pub fn query_vi<D: Device>(
    process: &Process<D>,
    vi: Handle,
    state: Out<sys::VIP_VI_STATE>,
    attributes: Out<sys::VIP_VI_ATTRIBUTES>,
    send_empty: Out<sys::VIP_BOOLEAN>,
    recv_empty: Out<sys::VIP_BOOLEAN>,
) -> Result<()> {
    let made = found(&process.vis, vi)?;
    required(state)?;
    required(attributes)?;
    required(send_empty)?;
    required(recv_empty)?;
    let told = made.object.query()?;
    state.write(told.state as sys::VIP_VI_STATE);
    attributes.write(structures::own_vi(&told.attributes));
    send_empty.write(told.send_empty.into());
    recv_empty.write(told.recv_empty.into());
    Ok(())
}

/// Change the attributes of a VI, all or none (VI-ATTR-1 to VI-ATTR-3).
pub fn set_vi_attributes<D: Device>(
    process: &Process<D>,
    vi: Handle,
    attributes: Out<sys::VIP_VI_ATTRIBUTES>,
) -> Result<()> {
    let made = found(&process.vis, vi)?;
    let attributes = passed(attributes)?;
    // A VI that is not idle says so first (VI-ATTR-1).
    let idle = made.object.query()?.state == vipl::State::Idle;
    let attributes = match structures::vi_attributes(&attributes) {
        Err(_) if !idle => return Err(vipl::Error::InvalidState),
        other => other?,
    };
    made.object.set_attributes(&attributes)
}

/// End the connection of a VI, or the attempt to make one (VI-DISC-1 to VI-DISC-11).
pub fn disconnect<D: Device>(process: &Process<D>, vi: Handle) -> Result<()> {
    found(&process.vis, vi)?.object.disconnect()
}
