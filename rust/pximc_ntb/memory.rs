// SPDX-License-Identifier: GPL-2.0-only

//! Shared memory as the protocol crate sees it: the two places where it meets
//! the NTB's windows.

use kernel::sync::Arc;
use mp_kernel::{
    barrier,
    ntb::{
        InboundBuffer,
        PeerWindow, //
    }, //
};
use mp_proto::memory::{
    Inbound,
    OutOfBounds,
    Outbound, //
};

/// Local memory that a peer writes.
#[derive(Clone)]
pub(crate) struct LocalMemory(pub(crate) Arc<InboundBuffer>);

impl Inbound for LocalMemory {
    #[inline]
    fn size(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        self.0.read_u64(off).map_err(|_| OutOfBounds)
    }

    #[inline]
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        self.0.copy_to_slice(off, buf).map_err(|_| OutOfBounds)
    }

    fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds> {
        self.0.zero(off, len).map_err(|_| OutOfBounds)
    }

    #[inline]
    fn rmb(&self) {
        barrier::rmb();
    }
}

/// A peer's memory, as this host writes it through a window.
#[derive(Clone)]
pub(crate) struct RemoteMemory(pub(crate) Arc<PeerWindow>);

impl Outbound for RemoteMemory {
    #[inline]
    fn size(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        self.0.write_u64(off, val).map_err(|_| OutOfBounds)
    }

    #[inline]
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        self.0.copy_from_slice(off, buf).map_err(|_| OutOfBounds)
    }

    #[inline]
    fn wmb(&self) {
        barrier::wmb();
    }

    #[inline]
    fn release(&self) {
        barrier::mb();
    }

    #[inline]
    fn mb(&self) {
        barrier::mb();
    }
}
