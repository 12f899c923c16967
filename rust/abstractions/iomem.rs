// SPDX-License-Identifier: GPL-2.0-only

//! Physical memory that is not RAM, as the kernel's resource tree knows it.
//!
//! C header: [`include/linux/ioport.h`](srctree/include/linux/ioport.h)

use crate::error;
use kernel::{
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};
use mp_bindings as bindings;

/// A range by whole pages: where it begins, and its bytes.
fn pages(phys: u64, len: u64) -> Option<(u64, u64)> {
    let page = PAGE_SIZE as u64;
    let start = phys - phys % page;
    let end = phys.checked_add(len)?.checked_next_multiple_of(page)?;
    (len != 0).then_some((start, end - start))
}

/// Whether all pages of a range of physical addresses are memory of devices, or reserved, at
/// present: addresses that the processor has, neither RAM nor firmware's tables; and in a
/// [`DeviceRange`], or not requested by a driver and not of a function that has one. Sleeps.
pub fn is_device_memory(phys: u64, len: u64) -> bool {
    // SAFETY: No requirements.
    pages(phys, len)
        .is_some_and(|(start, len)| unsafe { bindings::iomem_is_device_memory(start, len) })
}

/// A BAR of a PCI function of this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bar {
    /// The domain of the function's bus.
    pub domain: u32,
    /// The number of its bus.
    pub bus: u8,
    /// Device and function on that.
    pub devfn: u8,
    /// The number of the BAR.
    pub number: u32,
}

/// Pages that no driver can request, and where no memory can be plugged.
///
/// # Invariants
///
/// They are claimed, in this value's name.
struct Claim {
    start: u64,
    len: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { bindings::iomem_unclaim(self.start, self.len) };
    }
}

/// A range of physical addresses of devices, or of reserved memory, that somebody has named who
/// may do so. No driver gets it before the last copy of the value is dropped. Dropping it sleeps.
///
/// # Invariants
///
/// All of it was [memory of devices](is_device_memory) when the range was made, is claimed since
/// then, and the process that named it answers for what comes of its use.
#[derive(Clone)]
pub struct DeviceRange {
    phys: u64,
    len: u64,
    _claim: Arc<Claim>,
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
    /// `EOPNOTSUPP` unless it is [memory of devices](is_device_memory), or if it is only in part
    /// what a device has; `ENOMEM`.
    pub unsafe fn new(phys: u64, len: u64) -> Result<Self> {
        let (start, whole) = pages(phys, len).ok_or(error::unsupported())?;
        // SAFETY: No requirements.
        to_result(unsafe { bindings::iomem_claim(start, whole) })?;
        // INVARIANT: Just claimed.
        Self::claimed(phys, len, Claim { start, len: whole })
    }

    /// The range of `len` bytes at `off` of a BAR, both multiples of a page.
    ///
    /// # Safety
    ///
    /// As for [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes, or no multiples of a page; `ENODEV` if there is no such function, or
    /// it has no memory there; `ERANGE` if it has less; `EOPNOTSUPP` if a driver has it, `ENOMEM`.
    pub unsafe fn of_bar(bar: Bar, off: u64, len: u64) -> Result<Self> {
        let page = PAGE_SIZE as u64;
        if len == 0 || off % page != 0 || len % page != 0 {
            return Err(EINVAL);
        }
        let domain = c_int::try_from(bar.domain).map_err(|_| ENODEV)?;
        let (bus, devfn) = (bar.bus.into(), bar.devfn.into());
        let mut phys = 0;
        // SAFETY: `phys` is valid for writes.
        to_result(unsafe {
            bindings::iomem_claim_bar(domain, bus, devfn, bar.number, off, len, &mut phys)
        })?;
        // INVARIANT: Just claimed.
        Self::claimed(phys, len, Claim { start: phys, len })
    }

    /// The range of which the pages are claimed.
    fn claimed(phys: u64, len: u64, claim: Claim) -> Result<Self> {
        let claim = Arc::new(claim, GFP_KERNEL_ACCOUNT)?;
        // INVARIANT: As the callers say.
        Ok(Self {
            phys,
            len,
            _claim: claim,
        })
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
