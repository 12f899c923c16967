// SPDX-License-Identifier: GPL-2.0-only

//! Pages that processes map and that the kernel reads and writes meanwhile.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use crate::ntb::access::Region;
use kernel::{
    alloc::Flags,
    page::{
        Page,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::SetOnce, //
};

/// A page and where it is mapped.
struct Slot {
    region: Region,
    page: Page,
}

impl Slot {
    /// Take a page of zeros.
    fn new(flags: Flags) -> Result<Self> {
        let page = Page::alloc_page(flags | __GFP_ZERO)?;
        // SAFETY: A valid page, which is not in high memory: it was not asked for.
        let base = unsafe { mp_bindings::page_address(page.as_ptr().cast()) };
        // SAFETY: Mapped for as long as the page lives, which is as long as the region does.
        let region = unsafe { Region::new(base.cast(), PAGE_SIZE) };
        Ok(Self { region, page })
    }
}

/// A row of pages, each of which is taken when it is first needed and kept until the
/// row is dropped.
///
/// Whoever maps a page has taken the mapping away before the row is dropped. The
/// content changes under the reader: it is copied, never borrowed. Offsets and
/// lengths are in bytes. All methods but [`populate`](Self::populate) may be called
/// in any context.
pub struct SharedPages {
    slots: KVVec<SetOnce<Slot>>,
    flags: Flags,
}

impl SharedPages {
    /// A row of `count` pages, none of which is taken.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(count: usize) -> Result<Self> {
        Self::with_flags(count, GFP_KERNEL)
    }

    /// As [`new`](Self::new), for the calling process, which is charged for it, and for the pages
    /// that it takes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn of_process(count: usize) -> Result<Self> {
        Self::with_flags(count, GFP_KERNEL_ACCOUNT)
    }

    fn with_flags(count: usize, flags: Flags) -> Result<Self> {
        let mut slots = KVVec::with_capacity(count, flags)?;
        for _ in 0..count {
            slots.push(SetOnce::new(), flags)?;
        }
        Ok(Self { slots, flags })
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.slots.len() * PAGE_SIZE
    }

    /// Take the pages of a range that have not been taken yet; these are zeroed.
    /// Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that is not inside, `ENOMEM`.
    pub fn populate(&self, off: usize, len: usize) -> Result {
        let end = off.checked_add(len).ok_or(EINVAL)?;
        let pages = off / PAGE_SIZE..end.div_ceil(PAGE_SIZE);
        for slot in self.slots.get(pages).ok_or(EINVAL)? {
            if slot.as_ref().is_none() {
                // Another caller may have been faster; then its page is as good.
                slot.populate(Slot::new(self.flags)?);
            }
        }
        Ok(())
    }

    /// Physical address of a byte.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside of the pages that have been taken.
    pub fn phys_address(&self, off: usize) -> Result<u64> {
        let slot = self.slot(off)?;
        // SAFETY: A valid page.
        let page = unsafe { mp_bindings::page_to_phys(slot.page.as_ptr().cast()) };
        Ok(page + (off % PAGE_SIZE) as u64)
    }

    /// Load a word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `off` is unaligned or outside of the pages that have been taken.
    pub fn read_u64(&self, off: usize) -> Result<u64> {
        self.slot(off)?.region.read_u64(off % PAGE_SIZE)
    }

    /// Store a word in one piece.
    ///
    /// # Errors
    ///
    /// As for [`read_u64`](Self::read_u64).
    pub fn write_u64(&self, off: usize, val: u64) -> Result {
        self.slot(off)?.region.write_u64(off % PAGE_SIZE, val)
    }

    /// Exchange a word that has the value `expected` for `desired`, in one step; whether it had.
    ///
    /// # Errors
    ///
    /// As for [`read_u64`](Self::read_u64).
    pub fn exchange_u64(&self, off: usize, expected: u64, desired: u64) -> Result<bool> {
        let region = &self.slot(off)?.region;
        region.exchange_u64(off % PAGE_SIZE, expected, desired)
    }

    /// Fill all of `dst` from `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside of the pages that have been taken; part of `dst` may have
    /// been filled then.
    pub fn read(&self, mut off: usize, dst: &mut [u8]) -> Result {
        let mut rest = dst;
        while !rest.is_empty() {
            let n = rest.len().min(PAGE_SIZE - off % PAGE_SIZE);
            let (part, others) = rest.split_at_mut_checked(n).ok_or(EINVAL)?;
            self.slot(off)?.region.read(off % PAGE_SIZE, part)?;
            off += n;
            rest = others;
        }
        Ok(())
    }

    /// Copy all of `src` to `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside of the pages that have been taken; part of `src` may have
    /// been copied then.
    pub fn write(&self, mut off: usize, src: &[u8]) -> Result {
        let mut rest = src;
        while !rest.is_empty() {
            let n = rest.len().min(PAGE_SIZE - off % PAGE_SIZE);
            let (part, others) = rest.split_at_checked(n).ok_or(EINVAL)?;
            self.slot(off)?.region.write(off % PAGE_SIZE, part.into())?;
            off += n;
            rest = others;
        }
        Ok(())
    }

    /// Store zero to `len` bytes at `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside of the pages that have been taken; part of the range may
    /// have been zeroed then.
    pub fn zero(&self, mut off: usize, mut len: usize) -> Result {
        while len > 0 {
            let n = len.min(PAGE_SIZE - off % PAGE_SIZE);
            self.slot(off)?.region.zero(off % PAGE_SIZE, n)?;
            off += n;
            len -= n;
        }
        Ok(())
    }

    fn slot(&self, off: usize) -> Result<&Slot> {
        let slot = self.slots.get(off / PAGE_SIZE).ok_or(EINVAL)?;
        slot.as_ref().ok_or(EINVAL)
    }
}
