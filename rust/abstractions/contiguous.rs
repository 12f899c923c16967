// SPDX-License-Identifier: GPL-2.0-only

//! A large piece of memory in one run, for windows of any bridge.
//!
//! C header: [`include/linux/gfp.h`](srctree/include/linux/gfp.h)

use crate::ntb::access::Region;
use core::ptr::NonNull;
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// Pages in one run, zeroed when they are taken.
///
/// Whoever maps a page has taken the mapping away before the run is dropped, and no
/// device reaches it any more; references to pages of a [`compound`](Self::compound) one may stay. The content changes under the reader: it is copied,
/// never borrowed. Offsets and lengths are in bytes. All methods but
/// [`new`](Self::new) may be called in any context.
///
/// # Invariants
///
/// `first` is the first of `2^order` pages of this run, which `region` covers.
pub struct ContiguousPages {
    region: Region,
    first: NonNull<mp_bindings::page>,
    order: u32,
}

// SAFETY: Memory is not tied to a thread.
unsafe impl Send for ContiguousPages {}
// SAFETY: Shared access is through `Region` alone.
unsafe impl Sync for ContiguousPages {}

impl ContiguousPages {
    /// Take `len` bytes, a power of two, at an address aligned to as much. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is no power of two or less than a page, `ENOMEM`.
    pub fn new(len: usize) -> Result<Self> {
        // SAFETY: No requirements; this may sleep.
        Self::take(len, |order| unsafe { mp_bindings::contiguous_alloc(order) })
    }

    /// As [`new`](Self::new), for memory of which other parts of the kernel keep pieces beyond the run's
    /// life, as pipes do: it is one compound page, freed with the last reference to any part.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new); `ENOMEM` also above the page allocator's largest run.
    pub fn compound(len: usize) -> Result<Self> {
        // SAFETY: No requirements; this may sleep.
        Self::take(len, |order| unsafe { mp_bindings::compound_alloc(order) })
    }

    fn take(len: usize, alloc: impl FnOnce(u32) -> *mut mp_bindings::page) -> Result<Self> {
        if len < PAGE_SIZE || !len.is_power_of_two() {
            return Err(EINVAL);
        }
        let order = (len / PAGE_SIZE).trailing_zeros();
        let first = alloc(order);
        let first = NonNull::new(first).ok_or(ENOMEM)?;
        // SAFETY: A valid page, which is not in high memory: it was not asked for.
        let base = unsafe { mp_bindings::page_address(first.as_ptr()) };
        // INVARIANT: Just taken.
        Ok(Self {
            // SAFETY: Mapped, in one run, for as long as the pages are there.
            region: unsafe { Region::new(base.cast(), len) },
            first,
            order,
        })
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.region.len()
    }

    /// Physical address of the first byte.
    pub fn phys_address(&self) -> u64 {
        // SAFETY: A valid page.
        unsafe { mp_bindings::page_to_phys(self.first.as_ptr()) }
    }

    /// Kernel address, for comparing and for devices. Never make a slice of it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.base()
    }

    /// Load a word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `off` is unaligned or outside.
    pub fn read_u64(&self, off: usize) -> Result<u64> {
        self.region.read_u64(off)
    }

    /// Store a word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `off` is unaligned or outside.
    pub fn write_u64(&self, off: usize, val: u64) -> Result {
        self.region.write_u64(off, val)
    }

    /// Exchange a word that has the value `expected` for `desired`, in one step; whether it had.
    ///
    /// # Errors
    ///
    /// As for [`read_u64`](Self::read_u64).
    pub fn exchange_u64(&self, off: usize, expected: u64, desired: u64) -> Result<bool> {
        self.region.exchange_u64(off, expected, desired)
    }

    /// Fill all of `dst` from `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside; `dst` is unchanged then.
    pub fn read(&self, off: usize, dst: &mut [u8]) -> Result {
        self.region.read(off, dst)
    }

    /// Copy all of `src` to `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside; nothing is written then.
    pub fn write(&self, off: usize, src: &[u8]) -> Result {
        self.region.write(off, src.into())
    }

    /// Store zero to `len` bytes at `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    pub fn zero(&self, off: usize, len: usize) -> Result {
        self.region.zero(off, len)
    }
}

impl Drop for ContiguousPages {
    fn drop(&mut self) {
        // SAFETY: The run that the invariants describe; nobody reaches it any more.
        unsafe { mp_bindings::contiguous_free(self.first.as_ptr(), self.order) };
    }
}
