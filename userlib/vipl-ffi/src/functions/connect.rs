// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections, of clients with servers and between peers.

use super::{found, required};
use crate::{
    address::Address,
    process::{Made, NicObject, Process},
    structures, sys,
};
use mp_c_abi::{Handle, Nap, Null, Out};
use mp_fabric::Device;
use std::{os::fd::AsRawFd, sync::Arc};
use vipl::{deadline, Error, RemoteViAttributes, Request, Result, Server, Vi};

/// A server that waits for a client that asks for a discriminator (VI-CONN-1 to VI-CONN-7), and where
/// it is to be told of it.
pub struct Waiting<D: Device> {
    nic: Arc<NicObject<D>>,
    server: Server<D>,
    handle: Handle,
    remote: Address,
    attributes: Out<sys::VIP_VI_ATTRIBUTES>,
    out: Out<Handle>,
}

/// Begin to wait for a client.
pub fn connect_wait<D: Device>(
    process: &Process<D>,
    nic: Handle,
    local: Address,
    timeout: sys::VIP_ULONG,
    remote: Address,
    attributes: Out<sys::VIP_VI_ATTRIBUTES>,
    out: Out<Handle>,
) -> Result<Waiting<D>> {
    let nic = found(&process.nics, nic)?;
    let local = local.read()?;
    remote.required().map_err(|Null| Error::InvalidParameter)?;
    required(attributes)?;
    required(out)?;
    let handle = Made::reserve(&process.conns, &nic)?;
    let server = nic.nic.serve(&local, deadline(timeout))?;
    Ok(Waiting {
        nic,
        server,
        handle,
        remote,
        attributes,
        out,
    })
}

impl<D: Device> Waiting<D> {
    /// Look whether a client has asked; nothing if there is time to [sleep](Self::nap).
    pub fn look(&mut self, process: &Process<D>) -> Option<Result<()>> {
        let found = self.server.look()?;
        Some(found.and_then(|request| self.tell(process, &request)))
    }

    fn tell(&self, process: &Process<D>, request: &Request<D>) -> Result<()> {
        Made::enter(&process.conns, &self.nic, self.handle, request.clone())?;
        self.remote.write(request.address());
        self.attributes
            .write(structures::remote_vi(request.attributes()));
        self.out.write(self.handle);
        Ok(())
    }

    /// How long it may sleep before it looks again, and what wakes it earlier.
    pub fn nap(&self) -> Nap {
        let (time, fds) = self.server.nap();
        Nap {
            time,
            fds: fds.map(|fd| fd.as_raw_fd()),
        }
    }
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
    if request.object.is_answered() {
        request.forget(&process.conns, conn);
    }
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
