// SPDX-License-Identifier: MIT OR Apache-2.0

//! Completion queues.

use super::{found, handle_of, required, token};
use crate::{
    process::{Made, Process},
    sys,
};
use mp_c_abi::{Handle, Out};
use mp_fabric::Device;
use vipl::{deadline, Cq, CqHandler, Error, QueueKind, Result, Vi};

/// Make a completion queue (VI-CQ-1).
pub fn create_cq<D: Device>(
    process: &Process<D>,
    nic: Handle,
    entries: sys::VIP_ULONG,
    out: Out<Handle>,
) -> Result<()> {
    let nic = found(&process.nics, nic)?;
    required(out)?;
    let handle = Made::reserve(&process.cqs, &nic)?;
    let cq = nic.nic.create_cq(entries, token(handle))?;
    Made::enter(&process.cqs, &nic, handle, cq)?;
    out.write(handle);
    Ok(())
}

/// End a completion queue that no queue is bound to (VI-CQ-9).
pub fn destroy_cq<D: Device>(process: &Process<D>, cq: Handle) -> Result<()> {
    let made = found(&process.cqs, cq)?;
    made.object.destroy()?;
    made.forget(&process.cqs, cq);
    Ok(())
}

/// Give a completion queue room for at least so many entries (VI-CQ-10).
pub fn resize_cq<D: Device>(
    process: &Process<D>,
    cq: Handle,
    entries: sys::VIP_ULONG,
) -> Result<()> {
    found(&process.cqs, cq)?.object.resize(entries)
}

/// Take an entry if there is one (VI-CQ-4, VI-CQ-5).
pub fn cq_done<D: Device>(
    process: &Process<D>,
    cq: Handle,
    vi: Out<Handle>,
    is_receive: Out<sys::VIP_BOOLEAN>,
) -> Result<()> {
    entry(process, cq, vi, is_receive, Cq::done)
}

/// Take an entry as soon as there is one (VI-CQ-6).
pub fn cq_wait<D: Device>(
    process: &Process<D>,
    cq: Handle,
    timeout: sys::VIP_ULONG,
    vi: Out<Handle>,
    is_receive: Out<sys::VIP_BOOLEAN>,
) -> Result<()> {
    let wait = |cq: &Cq<D>| cq.wait(deadline(timeout));
    entry(process, cq, vi, is_receive, wait)
}

fn entry<D: Device>(
    process: &Process<D>,
    cq: Handle,
    vi: Out<Handle>,
    is_receive: Out<sys::VIP_BOOLEAN>,
    take: impl FnOnce(&Cq<D>) -> Result<(Vi<D>, QueueKind)>,
) -> Result<()> {
    let made = found(&process.cqs, cq)?;
    required(vi)?;
    required(is_receive)?;
    let (of, queue) = take(&made.object)?;
    vi.write(handle_of(of.token()));
    is_receive.write((queue == QueueKind::Receive).into());
    Ok(())
}

/// Let a handler take one entry (VI-NTFY-9, VI-NTFY-10, VI-NTFY-14). It is made for the handle of
/// the NIC.
pub fn cq_notify<D: Device>(
    process: &Process<D>,
    cq: Handle,
    handler: impl FnOnce(Handle) -> Option<CqHandler<D>>,
) -> Result<()> {
    let made = found(&process.cqs, cq)?;
    let handler = handler(made.nic.handle).ok_or(Error::InvalidParameter)?;
    made.object.notify(handler)
}
