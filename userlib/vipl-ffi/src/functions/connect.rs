// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections, of clients with servers and between peers.

use super::{found, required, reserved};
use crate::{
    address::Address,
    process::{Made, Process},
    structures, sys,
};
use mp_c_abi::{Handle, Null, Out};
use mp_fabric::Device;
use vipl::{deadline, Error, RemoteViAttributes, Result, Vi};

/// Wait for a client that asks for a discriminator (VI-CONN-1 to VI-CONN-7).
pub fn connect_wait<D: Device>(
    process: &Process<D>,
    nic: Handle,
    local: Address,
    timeout: sys::VIP_ULONG,
    remote: Address,
    attributes: Out<sys::VIP_VI_ATTRIBUTES>,
    out: Out<Handle>,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    let local = local.read()?;
    remote.required().map_err(|Null| Error::InvalidParameter)?;
    required(attributes)?;
    required(out)?;
    let handle = reserved(&process.conns)?;
    let request = nic.nic.connect_wait(&local, deadline(timeout))?;
    Made::enter(&process.conns, &nic, handle, request.clone())?;
    remote.write(request.address());
    attributes.write(structures::remote_vi(request.attributes()));
    out.write(handle);
    Ok(())
}

/// Connect a client to an idle VI. The handle of the client ends with an answer (VI-CONN-8 to
/// VI-CONN-13).
pub fn connect_accept<D: Device>(process: &Process<D>, conn: Handle, vi: Handle) -> Result<()> {
    let request = found(&process.conns, conn)?;
    let vi = found(&process.vis, vi)?;
    let accepted = request.object.accept(&vi.object);
    if request.object.is_answered() {
        request.forget(&process.conns, conn);
    }
    accepted
}

/// Reject a client (VI-CONN-14, VI-CONN-15).
pub fn connect_reject<D: Device>(process: &Process<D>, conn: Handle) -> Result<()> {
    let request = found(&process.conns, conn)?;
    let rejected = request.object.reject();
    request.forget(&process.conns, conn);
    rejected
}

/// Ask a server for a connection and wait for its answer (VI-CONN-16 to VI-CONN-26).
pub fn connect_request<D: Device>(
    process: &Process<D>,
    vi: Handle,
    local: Address,
    remote: Address,
    timeout: sys::VIP_ULONG,
    out: Out<sys::VIP_VI_ATTRIBUTES>,
) -> Result<()> {
    connected(process, vi, out, |vi| {
        let (local, remote) = (local.read()?, remote.read()?);
        vi.connect_request(&local, &remote, deadline(timeout))
    })
}

/// Ask for a connection to a peer, and do not wait (VI-PEER-1 to VI-PEER-6).
pub fn connect_peer_request<D: Device>(
    process: &Process<D>,
    vi: Handle,
    local: Address,
    remote: Address,
    timeout: sys::VIP_ULONG,
) -> Result<()> {
    let vi = found(&process.vis, vi)?;
    let (local, remote) = (local.read()?, remote.read()?);
    vi.object.peer_request(&local, &remote, deadline(timeout))
}

/// Tell what has come of it (VI-PEER-7 to VI-PEER-11).
pub fn connect_peer_done<D: Device>(
    process: &Process<D>,
    vi: Handle,
    out: Out<sys::VIP_VI_ATTRIBUTES>,
) -> Result<()> {
    connected(process, vi, out, Vi::peer_done)
}

/// Wait for what comes of it (VI-PEER-7 to VI-PEER-11).
pub fn connect_peer_wait<D: Device>(
    process: &Process<D>,
    vi: Handle,
    out: Out<sys::VIP_VI_ATTRIBUTES>,
) -> Result<()> {
    connected(process, vi, out, Vi::peer_wait)
}

/// Do what connects a VI, and tell what the other one has.
fn connected<D: Device>(
    process: &Process<D>,
    vi: Handle,
    out: Out<sys::VIP_VI_ATTRIBUTES>,
    connect: impl FnOnce(&Vi<D>) -> Result<RemoteViAttributes>,
) -> Result<()> {
    let vi = found(&process.vis, vi)?;
    required(out)?;
    out.write(structures::remote_vi(&connect(&vi.object)?));
    Ok(())
}
