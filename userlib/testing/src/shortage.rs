// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that runs out: an allocator for the process of a test.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

thread_local! {
    /// The largest piece that this thread gets. It needs no memory, and nothing is dropped.
    static HERE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The system's memory, of which there are no pieces larger than a limit.
///
/// # Examples
/// ```
/// use mp_testing::LimitedMemory;
///
/// #[global_allocator]
/// static MEMORY: LimitedMemory = LimitedMemory::new();
///
/// MEMORY.limit(1000);
/// assert!(Vec::<u8>::new().try_reserve(2000).is_err());
/// MEMORY.limit(usize::MAX);
/// ```
#[derive(Debug)]
pub struct LimitedMemory(AtomicUsize);

impl LimitedMemory {
    /// There is no limit yet.
    pub const fn new() -> Self {
        LimitedMemory(AtomicUsize::new(usize::MAX))
    }

    /// Let pieces have so many bytes at most, for all threads.
    pub fn limit(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Let pieces for this thread have so many bytes at most, whatever others get.
    pub fn limit_here(&self, bytes: usize) {
        HERE.set(bytes);
    }

    fn largest(&self) -> usize {
        self.0.load(Ordering::Relaxed).min(HERE.get())
    }
}

impl Default for LimitedMemory {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: What it gives is the system's, and NULL says that there is none. What grows is moved by the
// trait's own function, which allocates anew.
unsafe impl GlobalAlloc for LimitedMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match layout.size() <= self.largest() {
            // SAFETY: The caller promises what the system wants.
            true => unsafe { System.alloc(layout) },
            false => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: The caller promises what the system wants.
        unsafe { System.dealloc(ptr, layout) }
    }
}
