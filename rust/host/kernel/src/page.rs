// SPDX-License-Identifier: GPL-2.0-only

//! Pages. Those of an allocation are told to nobody.

use crate::alloc::{
    AllocError,
    Flags, //
};
use core::ptr::NonNull;

/// Bits of an offset in a page.
pub const PAGE_SHIFT: usize = bindings::PAGE_SHIFT as usize;
/// Bytes of a page.
pub const PAGE_SIZE: usize = bindings::PAGE_SIZE;

/// A page that belongs to an allocation; there is none.
pub enum BorrowedPage<'a> {
    #[doc(hidden)]
    None(core::convert::Infallible, &'a ()),
}

impl BorrowedPage<'_> {
    /// # Safety
    ///
    /// Never called.
    pub unsafe fn from_raw(_page: NonNull<bindings::page>) -> Self {
        unreachable!("the host has no pages")
    }
}

/// Allocations that tell their pages.
pub trait AsPageIter {
    /// Goes through them.
    type Iter<'a>: Iterator<Item = BorrowedPage<'a>>
    where
        Self: 'a;

    /// Its pages.
    fn page_iter(&mut self) -> Self::Iter<'_>;
}

/// A page, as of the kernel.
pub struct Page {
    page: NonNull<bindings::page>,
}

// SAFETY: A page is not tied to a context.
unsafe impl Send for Page {}
// SAFETY: As above.
unsafe impl Sync for Page {}

impl Page {
    /// Allocate one.
    ///
    /// # Errors
    ///
    /// [`AllocError`].
    pub fn alloc_page(flags: Flags) -> Result<Self, AllocError> {
        // SAFETY: No requirements.
        let page = unsafe { bindings::alloc_pages(flags.as_raw(), 0) };
        let page = NonNull::new(page).ok_or(AllocError)?;
        Ok(Self { page })
    }

    /// As C has it.
    pub fn as_ptr(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: Allocated by this type.
        unsafe { bindings::__free_pages(self.page.as_ptr(), 0) };
    }
}
