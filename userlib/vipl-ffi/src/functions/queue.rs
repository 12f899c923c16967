// SPDX-License-Identifier: MIT OR Apache-2.0

//! Work queues: posting, and what is complete.

use super::{found, required};
use crate::{process::Process, sys};
use mp_c_abi::{Handle, Out};
use mp_fabric::Device;
use std::ptr;
use vipl::{deadline, Completion, Error, MemHandle, QueueHandler, QueueKind, Result, Vi};

/// A descriptor of the program, which is followed only where it is registered (VI-POST-8).
pub type Descriptor = *mut sys::VIP_DESCRIPTOR;

/// The descriptor at an address.
pub fn descriptor(at: usize) -> Descriptor {
    ptr::with_exposed_provenance_mut(at)
}

/// Post a descriptor (VI-POST-1 to VI-POST-11).
pub fn post<D: Device>(
    process: &Process<D>,
    queue: QueueKind,
    vi: Handle,
    descriptor: Descriptor,
    memory: sys::VIP_MEM_HANDLE,
) -> Result<()> {
    let vi = &found(&process.vis, vi)?.object;
    let (at, memory) = (descriptor.expose_provenance(), MemHandle(memory));
    match queue {
        QueueKind::Send => vi.post_send(at, memory),
        QueueKind::Receive => vi.post_recv(at, memory),
    }
}

/// Take the first descriptor of a queue if it is complete (VI-WQ-1 to VI-WQ-6).
pub fn done<D: Device>(
    process: &Process<D>,
    queue: QueueKind,
    vi: Handle,
    out: Out<Descriptor>,
) -> Result<()> {
    taken(process, vi, out, |vi| match queue {
        QueueKind::Send => vi.send_done(),
        QueueKind::Receive => vi.recv_done(),
    })
}

/// Take the first descriptor of a queue as soon as it is complete (VI-WQ-7 to VI-WQ-9).
pub fn wait<D: Device>(
    process: &Process<D>,
    queue: QueueKind,
    vi: Handle,
    timeout: sys::VIP_ULONG,
    out: Out<Descriptor>,
) -> Result<()> {
    taken(process, vi, out, |vi| match queue {
        QueueKind::Send => vi.send_wait(deadline(timeout)),
        QueueKind::Receive => vi.recv_wait(deadline(timeout)),
    })
}

/// Hand a descriptor back. One with an error is an error as well (VI-WQ-3); without any, NULL goes
/// to the caller (VI-WQ-4, VI-WQ-5).
fn taken<D: Device>(
    process: &Process<D>,
    vi: Handle,
    out: Out<Descriptor>,
    take: impl FnOnce(&Vi<D>) -> Result<Completion>,
) -> Result<()> {
    let made = found(&process.vis, vi)?;
    required(out)?;
    let taken = take(&made.object);
    out.write(taken.map_or(ptr::null_mut(), |done| descriptor(done.descriptor)));
    match taken?.status.is_error() {
        true => Err(Error::Descriptor),
        false => Ok(()),
    }
}

/// Let a handler take one descriptor of a queue (VI-NTFY-1 to VI-NTFY-8, VI-NTFY-14). It is made
/// for the handle of the NIC.
pub fn notify<D: Device>(
    process: &Process<D>,
    queue: QueueKind,
    vi: Handle,
    handler: impl FnOnce(Handle) -> Option<QueueHandler<D>>,
) -> Result<()> {
    let made = found(&process.vis, vi)?;
    let handler = handler(made.nic.handle).ok_or(Error::InvalidParameter)?;
    match queue {
        QueueKind::Send => made.object.send_notify(handler),
        QueueKind::Receive => made.object.recv_notify(handler),
    }
}
