// SPDX-License-Identifier: GPL-2.0

//! Physical memory that a window leads to, and that was not allocated for it.

use super::NtbDev;
use kernel::{
    prelude::*,
    sync::aref::ARef, //
};
use mp_bindings as bindings;

/// Whether the kernel uses any of a range of physical addresses as its memory.
pub fn is_system_ram(phys: u64, len: u64) -> bool {
    let Ok(len) = usize::try_from(len) else {
        return true;
    };
    // SAFETY: No requirements.
    unsafe { bindings::range_is_system_ram(phys, len) }
}

/// Whose memory a range is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeOf {
    /// Pages of the kernel's, which their owner keeps for as long.
    Kernel,
    /// Memory of a device, or such as the kernel does not use.
    Device,
}

/// A range of physical addresses, as the bridge reaches it: mapped where something
/// translates between them.
///
/// [`expose`](Self::expose) lets a peer write it; the translation is taken away again
/// before the mapping is.
///
/// # Invariants
///
/// `dma` is the mapping of `len` bytes, made for `of`.
pub struct MappedRange {
    dma: u64,
    len: usize,
    of: RangeOf,
    exposed: Option<(u32, u32)>,
    dev: ARef<NtbDev>,
}

impl MappedRange {
    /// Maps `len` bytes at `phys`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the bridge cannot reach them.
    pub fn new(dev: &NtbDev, phys: u64, len: usize, of: RangeOf) -> Result<Self> {
        let is_device = of == RangeOf::Device;
        // SAFETY: The DMA device is valid while the NTB device is; what is mapped is the
        // caller's to name, and what is behind it stays as `of` says.
        let dma = unsafe { bindings::ntb_map_range(dev.dma_dev_raw(), phys, len, is_device) };
        if dma == u64::MAX {
            return Err(crate::error::unsupported());
        }
        // INVARIANT: Just mapped.
        Ok(Self {
            dma,
            len,
            of,
            exposed: None,
            dev: dev.into(),
        })
    }

    /// Address for the device, which is what a peer's bridge needs to know.
    pub fn dma_address(&self) -> u64 {
        self.dma
    }

    /// Lets peer `pidx` write `size` bytes, at most all, through its window `widx`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is exposed already, `EINVAL` for more bytes, or what the device's
    /// driver reports.
    pub fn expose(&mut self, pidx: u32, widx: u32, size: u64) -> Result {
        if self.exposed.is_some() {
            return Err(EBUSY);
        }
        if size > self.len as u64 {
            return Err(EINVAL);
        }
        self.dev.mw_set_trans(pidx, widx, self.dma, size)?;
        self.exposed = Some((pidx, widx));
        Ok(())
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        if let Some((pidx, widx)) = self.exposed.take() {
            self.dev.mw_clear_trans(pidx, widx);
        }
        let is_device = self.of == RangeOf::Device;
        // SAFETY: The mapping that the invariants describe; no translation leads to it.
        unsafe { bindings::ntb_unmap_range(self.dev.dma_dev_raw(), self.dma, self.len, is_device) };
    }
}
