// SPDX-License-Identifier: GPL-2.0-only

//! Shared memory as the protocol crate sees it: the two places where it meets
//! the NTB's windows.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    barrier,
    bytes::{
        SharedBytes,
        Writer, //
    },
    ntb::{
        InboundBuffer,
        PeerWindow, //
    }, //
};
use mp_proto::memory::{
    Inbound,
    OutOfBounds,
    Outbound,
    Parts, //
};

/// Local memory that a peer writes.
#[derive(Clone)]
pub(crate) struct LocalMemory(pub(crate) Arc<InboundBuffer>);

impl LocalMemory {
    /// Fill all of `dst` with bytes of `parts` from `at` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if so many are not there.
    pub(crate) fn copy(&self, parts: &Parts, at: usize, mut dst: Writer<'_>) -> Result {
        let runs = parts.window(at, dst.remaining()).map_err(|_| EINVAL)?;
        for run in [runs.first, runs.second] {
            dst.write(self.0.bytes(run.off, run.len)?)?;
        }
        Ok(())
    }
}

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

impl RemoteMemory {
    /// Copy `src` to the bytes of `parts` from `at` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that does not fit.
    pub(crate) fn copy(&self, parts: &Parts, at: usize, src: SharedBytes<'_>) -> Result {
        let runs = parts.window(at, src.len()).map_err(|_| EINVAL)?;
        let (head, tail) = src.split_at(runs.first.len);
        self.0.copy_from(runs.first.off, head)?;
        self.0.copy_from(runs.second.off, tail)
    }
}

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
        self.0.copy_from(off, buf.into()).map_err(|_| OutOfBounds)
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
