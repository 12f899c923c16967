// SPDX-License-Identifier: GPL-2.0-only

//! What a process sees in place of memory that has gone.

use kernel::{
    page::{
        Page,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::Arc, //
};

use super::{
    Cache,
    Frame, //
};

/// A page of ones, as reads from a device that has gone give them.
///
/// One for each owner, who is the only one to see what it has written there: nobody
/// else learns of it, and nothing takes note. It lives as long as a mapping refers to it.
pub struct ScrapPage(Page);

impl ScrapPage {
    /// A fresh page, for one owner, the calling process. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        let page = Page::alloc_page(GFP_KERNEL_ACCOUNT)?;
        let ones = [0xff_u8; 256];
        for offset in (0..PAGE_SIZE).step_by(ones.len()) {
            // SAFETY: The source is as long as that, and nobody else knows the page yet.
            unsafe { page.write_raw(ones.as_ptr(), offset, ones.len()) }?;
        }
        Ok(Arc::new(Self(page), GFP_KERNEL_ACCOUNT)?)
    }

    /// The frame to show.
    pub(super) fn frame(&self) -> Frame {
        // SAFETY: The page is valid.
        let pfn = unsafe { mp_bindings::page_frame(self.0.as_ptr().cast()) };
        Frame::new(pfn, Cache::Cached)
    }
}
