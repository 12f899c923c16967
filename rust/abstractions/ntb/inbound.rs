// SPDX-License-Identifier: GPL-2.0-only

//! Local memory that a peer writes.

use super::{
    access::Region,
    NtbDev, //
};
use crate::{
    barrier,
    bytes::SharedBytes, //
};
use core::ptr;
use kernel::{
    bindings as core_bindings,
    prelude::*,
    sync::aref::ARef, //
};
use mp_bindings as bindings;

/// One piece of memory also behind an IOMMU, so that a user can map it.
const ATTRS: c_ulong = core_bindings::DMA_ATTR_FORCE_CONTIGUOUS as c_ulong;

/// Coherent, physically contiguous memory for an inbound window.
///
/// Its content is untrusted and changes under the reader: it is read in words
/// or copied out, never borrowed as a slice. Offsets and lengths are in bytes.
///
/// [`expose`](Self::expose) lets a peer write it; the translation is taken away
/// again before the memory is freed. A bridge whose *sender* programs the
/// translation cannot be told so: there, keep the buffer until the peer has let
/// go or the link is down.
///
/// # Invariants
///
/// `raw`, `raw_dma` and `raw_len` are one coherent allocation, in which `map`
/// lies at the address `dma`.
pub struct InboundBuffer {
    map: Region,
    dma: u64,
    raw: *mut c_void,
    raw_dma: u64,
    raw_len: usize,
    exposed: Option<(u32, u32)>,
    dev: ARef<NtbDev>,
}

// SAFETY: The memory is not tied to a thread.
unsafe impl Send for InboundBuffer {}
// SAFETY: Shared access is through `Region` alone.
unsafe impl Sync for InboundBuffer {}

impl InboundBuffer {
    /// Allocate `len` zeroed bytes at an address aligned to `align`, which is a
    /// power of two.
    pub(super) fn new(dev: &NtbDev, len: usize, align: usize) -> Result<Self> {
        if len == 0 || !align.is_power_of_two() {
            return Err(EINVAL);
        }
        // Most allocations are aligned to their size; only then over-allocate.
        match Self::try_new(dev, len, len, align) {
            Err(e) if e == EAGAIN => {
                let raw_len = len.checked_add(align).ok_or(EINVAL)?;
                Self::try_new(dev, len, raw_len, align)
            }
            other => other,
        }
    }

    /// Allocate `raw_len` bytes and find an aligned place for `len` of them;
    /// `EAGAIN` if there is none.
    fn try_new(dev: &NtbDev, len: usize, raw_len: usize, align: usize) -> Result<Self> {
        let mut raw_dma = 0;
        // SAFETY: The DMA device is valid while the NTB device is.
        let raw = unsafe {
            bindings::dma_alloc_attrs(
                dev.dma_dev_raw(),
                raw_len,
                &mut raw_dma,
                core_bindings::GFP_KERNEL | core_bindings::__GFP_NOWARN,
                ATTRS,
            )
        };
        if raw.is_null() {
            return Err(ENOMEM);
        }
        let skip = (raw_dma.wrapping_neg() & (align as u64 - 1)) as usize;
        // INVARIANT: The allocation; `skip` is only used if `len` bytes are left behind it.
        let buffer = Self {
            // SAFETY: `len` bytes of the allocation, mapped until the drop, or none of it.
            map: unsafe {
                Region::new(
                    raw.cast::<u8>().wrapping_add(skip),
                    raw_len.saturating_sub(skip).min(len),
                )
            },
            dma: raw_dma + skip as u64,
            raw,
            raw_dma,
            raw_len,
            exposed: None,
            dev: dev.into(),
        };
        if buffer.len() < len {
            return Err(EAGAIN);
        }
        Ok(buffer)
    }

    /// Length of the memory.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Address for the device, which is what a peer's bridge needs to know.
    #[inline]
    pub fn dma_address(&self) -> u64 {
        self.dma
    }

    /// Kernel address, for a user mapping. Never make a slice of it.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.base()
    }

    /// Physical address on this host.
    pub fn phys_address(&self) -> u64 {
        // SAFETY: Mapped kernel memory, in one physical piece.
        unsafe { bindings::kernel_phys(self.as_ptr().cast()) }
    }

    /// Let peer `pidx` write the memory through its window `widx`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is exposed already, or what the device's driver reports.
    pub fn expose(&mut self, pidx: u32, widx: u32) -> Result {
        if self.exposed.is_some() {
            return Err(EBUSY);
        }
        self.dev
            .mw_set_trans(pidx, widx, self.dma, self.len() as u64)?;
        self.exposed = Some((pidx, widx));
        Ok(())
    }

    /// End [`expose`](Self::expose).
    pub fn withdraw(&mut self) {
        if let Some((pidx, widx)) = self.exposed.take() {
            self.dev.mw_clear_trans(pidx, widx);
        }
    }

    /// Load a word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `off` is unaligned or outside.
    #[inline]
    pub fn read_u32(&self, off: usize) -> Result<u32> {
        self.map.read_u32(off)
    }

    /// Load a word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `off` is unaligned or outside.
    #[inline]
    pub fn read_u64(&self, off: usize) -> Result<u64> {
        self.map.read_u64(off)
    }

    /// Store a word in one piece, as when a ring is set up.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `off` is unaligned or outside.
    #[inline]
    pub fn write_u64(&self, off: usize, val: u64) -> Result {
        self.map.write_u64(off, val)
    }

    /// Exchange a word that has the value `expected` for `desired`, in one step; whether it had.
    ///
    /// # Errors
    ///
    /// As for [`read_u64`](Self::read_u64).
    pub fn exchange_u64(&self, off: usize, expected: u64, desired: u64) -> Result<bool> {
        self.map.exchange_u64(off, expected, desired)
    }

    /// Copy all of `src` to `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that does not fit; nothing is written then.
    pub fn copy_from_slice(&self, off: usize, src: &[u8]) -> Result {
        self.map.write(off, src.into())
    }

    /// The `len` bytes at `off`, to be copied.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that many bytes are not there.
    #[inline]
    pub fn bytes(&self, off: usize, len: usize) -> Result<SharedBytes<'_>> {
        self.map.bytes(off, len)
    }

    /// Copy from `off` into all of `dst`. Bytes that are written meanwhile may
    /// be seen old or new.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that many bytes are not there; `dst` is unchanged then.
    #[inline]
    pub fn copy_to_slice(&self, off: usize, dst: &mut [u8]) -> Result {
        self.map.read(off, dst)
    }

    /// Store zero to `len` bytes at `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that many bytes are not there.
    #[inline]
    pub fn zero(&self, off: usize, len: usize) -> Result {
        self.map.zero(off, len)
    }

    /// Order the loads before it ahead of the loads after it.
    #[inline]
    pub fn rmb(&self) {
        barrier::rmb();
    }
}

impl Drop for InboundBuffer {
    fn drop(&mut self) {
        self.withdraw();
        // SAFETY: The allocation made by `try_new`; no translation leads to it any more.
        unsafe {
            bindings::dma_free_attrs(
                self.dev.dma_dev_raw(),
                self.raw_len,
                self.raw,
                self.raw_dma,
                ATTRS,
            )
        };
        self.raw = ptr::null_mut();
    }
}
