// SPDX-License-Identifier: GPL-2.0-only

//! Physical memory that is not RAM, as the kernel's resource tree knows it.
//!
//! C header: [`include/linux/ioport.h`](srctree/include/linux/ioport.h)

use crate::error;
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};
use mp_bindings as bindings;

/// Whether all pages of a range of physical addresses are memory of devices, or reserved, at
/// present: addresses that the processor has, neither RAM nor firmware's tables, and not requested
/// by a driver. Any context.
pub fn is_device_memory(phys: u64, len: u64) -> bool {
    let page = PAGE_SIZE as u64;
    let start = phys - phys % page;
    let end = phys
        .checked_add(len)
        .and_then(|end| end.checked_next_multiple_of(page));
    // SAFETY: No requirements.
    end.is_some_and(|end| unsafe { bindings::iomem_is_device_memory(start, end - start) })
}

/// A range of physical addresses of devices, or of reserved memory, that somebody has named who
/// may do so.
///
/// # Invariants
///
/// All of it was [memory of devices](is_device_memory) when the range was made, and the
/// process that named it answers for what comes of its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceRange {
    phys: u64,
    len: u64,
}

impl DeviceRange {
    /// The range of `len` bytes at `phys`.
    ///
    /// # Safety
    ///
    /// Others will read and write there in any way: processes, peers, devices. The process
    /// that named the range may have that done, and answers for it: see
    /// [`may_use_physical_addresses`](crate::process::may_use_physical_addresses).
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` unless it is [memory of devices](is_device_memory).
    pub unsafe fn new(phys: u64, len: u64) -> Result<Self> {
        if !is_device_memory(phys, len) {
            return Err(error::unsupported());
        }
        // INVARIANT: Just looked at; as the caller promises.
        Ok(Self { phys, len })
    }

    /// The physical address of its first byte.
    pub fn phys(&self) -> u64 {
        self.phys
    }

    /// Bytes; never zero.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }
}
