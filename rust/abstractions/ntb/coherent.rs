// SPDX-License-Identifier: GPL-2.0-only

//! Coherent memory that is held for its address, not for its content.

use core::ptr;
use kernel::{
    bindings,
    device::Bound,
    pci,
    prelude::*,
    sync::aref::ARef, //
};

/// One coherent allocation, which nobody reads or writes.
///
/// # Invariants
///
/// `cpu`, `dma` and `len` describe an allocation for `pdev`.
pub struct CoherentBlock {
    cpu: *mut c_void,
    dma: u64,
    len: usize,
    pdev: ARef<pci::Device>,
}

// SAFETY: Memory is not tied to a thread.
unsafe impl Send for CoherentBlock {}
// SAFETY: A shared block gives access to its address only.
unsafe impl Sync for CoherentBlock {}

/// The place where a function's driver takes coherent memory from.
pub struct CoherentSource {
    pdev: ARef<pci::Device>,
}

impl CoherentSource {
    /// The memory of a function.
    pub fn new(pdev: &pci::Device<Bound>) -> Self {
        Self {
            pdev: ARef::from(&**pdev),
        }
    }

    /// Allocate `len` bytes. Sleeps. Never complains in the log.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn alloc(&self, len: usize) -> Result<CoherentBlock> {
        let mut dma = 0;
        let dev: &kernel::device::Device = (*self.pdev).as_ref();
        // SAFETY: The device is valid.
        let cpu = unsafe {
            mp_bindings::dma_alloc_attrs(
                ptr::from_ref(dev).cast_mut().cast(),
                len,
                &mut dma,
                bindings::GFP_KERNEL | bindings::__GFP_NOWARN,
                0,
            )
        };
        if cpu.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Just allocated.
        Ok(CoherentBlock {
            cpu,
            dma,
            len,
            pdev: self.pdev.clone(),
        })
    }
}

impl CoherentBlock {
    /// Address for the device.
    pub fn dma_address(&self) -> u64 {
        self.dma
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for CoherentBlock {
    fn drop(&mut self) {
        let dev: &kernel::device::Device = (*self.pdev).as_ref();
        // SAFETY: The allocation that the invariants describe.
        unsafe {
            mp_bindings::dma_free_attrs(
                ptr::from_ref(dev).cast_mut().cast(),
                self.len,
                self.cpu,
                self.dma,
                0,
            )
        };
    }
}
