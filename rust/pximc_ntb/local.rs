// SPDX-License-Identifier: GPL-2.0-only

//! The windows of a link as the local processor's: where memory is that a peer
//! reaches, and a peer's memory behind the bridge (`IDT-LP-9`).

use crate::{
    channel::Channel,
    dma::INBOUND,
    memory::{
        LocalMemory,
        RemoteMemory, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_transport::{
    copy::Completion,
    local::{
        Copier,
        Piece,
        Range,
        Registration,
        Side, //
    }, //
};

/// Register memory that a peer reaches.
///
/// # Errors
///
/// `ENOSPC`, `ENOMEM`.
pub(crate) fn inbound(memory: &LocalMemory) -> Result<Registration> {
    let buffer = &memory.0;
    let range = Range {
        side: Side::Inbound,
        virt: buffer.as_ptr() as usize,
        phys: buffer.phys_address(),
        pci: buffer.dma_address(),
        len: buffer.len() as u64,
    };
    Registration::new(range, None)
}

/// Register the `len` bytes of a peer's memory that a channel leads to, and the
/// channel's engine.
///
/// # Errors
///
/// `ENOSPC`, `ENOMEM`.
pub(crate) fn outbound(
    memory: &RemoteMemory,
    len: u64,
    channel: Arc<Channel>,
) -> Result<Registration> {
    let window = &memory.0;
    let range = Range {
        side: Side::Outbound,
        virt: window.virt_addr(),
        phys: window.phys_addr(),
        pci: window.bus_addr(),
        len: len.min(window.len() as u64),
    };
    Registration::new(range, Some(channel))
}

impl Copier for Channel {
    unsafe fn start(&self, pieces: &[Piece], done: Completion) -> Result {
        // SAFETY: As the caller promises.
        unsafe { self.engine().copy(INBOUND, 0, pieces, done) }
    }
}
