// SPDX-License-Identifier: MIT OR Apache-2.0

//! A mark that a forked child finds unset, for the kernel has wiped it.

use std::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

/// Bytes that are mapped for one.
const PAGE: usize = 4096;

/// NULL until it is set for the first time, then a page of its own that is never unmapped.
pub(crate) struct Mark(AtomicPtr<AtomicU32>);

impl Mark {
    pub(crate) const fn new() -> Self {
        Mark(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.word()
            .is_some_and(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Set it in this process. Without such memory it stays as it is.
    pub(crate) fn set(&self) {
        if self.word().is_none() {
            self.map();
        }
        if let Some(word) = self.word() {
            word.store(1, Ordering::Release);
        }
    }

    fn word(&self) -> Option<&AtomicU32> {
        // SAFETY: NULL, or a page that `map` has stored, which is never unmapped.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    fn map(&self) {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: New memory of this process, at a place that the kernel chooses.
        let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return;
        }
        // SAFETY: The page has just been mapped.
        let wiped = unsafe { libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) } == 0;
        let (none, word) = (ptr::null_mut(), page.cast::<AtomicU32>());
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        if !wiped || self.0.compare_exchange(none, word, set, fetch).is_err() {
            // SAFETY: Nobody else knows of the page.
            unsafe { libc::munmap(page, PAGE) };
        }
    }
}
