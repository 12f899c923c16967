// SPDX-License-Identifier: GPL-2.0-only

//! Sizes of pages. The host has no page structures: nothing asks for those of an allocation.

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
