// SPDX-License-Identifier: MIT OR Apache-2.0

//! Windows as memory of this process.
//!
//! The other host changes this memory at any time: there is no reference to it, neither here nor
//! elsewhere. [`Map::volatile`] gives the `VolatileSlice` of the crate `vm-memory`, which has the
//! bounds checks, copies and atomic accesses that this needs and is maintained for exactly this
//! purpose; an own type would repeat it. It is for 64-bit processes only; others have the address.

use rustix::{
    fd::AsFd,
    io::Errno,
    mm::{mmap, munmap, MapFlags, ProtFlags},
};
use std::{
    process,
    ptr::{self, NonNull},
};
#[cfg(target_pointer_width = "64")]
use vm_memory::VolatileSlice;

/// How memory is mapped.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapOptions {
    /// Whether stores fault.
    pub read_only: bool,
    /// An address that is tried first; 0 for none. What is mapped there already stays.
    pub hint: usize,
}

/// A mapped window; unmapped when it is dropped.
#[derive(Debug)]
pub struct Map {
    start: NonNull<u8>,
    len: usize,
    /// A forked child has this object, but not the memory.
    process: u32,
}

// SAFETY: The memory belongs to the whole process, and is accessed by raw pointers only.
unsafe impl Send for Map {}
// SAFETY: As above; nothing in the object changes.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `len` bytes at an offset of a file, for reading and writing, shared.
    ///
    /// # Errors
    /// Those of `mmap()`; `ENOMEM` also if `len` exceeds the address space.
    pub fn new(file: impl AsFd, offset: u64, len: u64) -> Result<Self, Errno> {
        Self::with_options(file, offset, len, MapOptions::default())
    }

    /// As [`new()`](Self::new), with options.
    ///
    /// # Errors
    /// As [`new()`](Self::new).
    pub fn with_options(
        file: impl AsFd,
        offset: u64,
        len: u64,
        options: MapOptions,
    ) -> Result<Self, Errno> {
        let len = usize::try_from(len).map_err(|_| Errno::NOMEM)?;
        let access = match options.read_only {
            true => ProtFlags::READ,
            false => ProtFlags::READ | ProtFlags::WRITE,
        };
        let hint = ptr::without_provenance_mut(options.hint);
        // SAFETY: The kernel chooses a free range, also with a hint, and nothing has a reference
        // to it.
        let start = unsafe { mmap(hint, len, access, MapFlags::SHARED, file, offset)? };
        Ok(Map {
            start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?,
            len,
            process: process::id(),
        })
    }

    /// Address of the first byte. Every access has to be volatile or atomic: the other host
    /// reads and writes the same memory.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The window's size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the window has no byte; the kernel maps no such window.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The window's memory.
    #[cfg(target_pointer_width = "64")]
    pub fn volatile(&self) -> VolatileSlice<'_> {
        // SAFETY: The range stays mapped as long as the object is borrowed, and has no references.
        unsafe { VolatileSlice::new(self.start.as_ptr(), self.len) }
    }
}

/// Has everything that this thread has stored leave the processor, also what is still combined.
/// It may be on its way after that.
pub fn flush_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: All processors of this kind have the instruction, and it only orders.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: The instruction only orders.
    unsafe {
        std::arch::asm!("dsb st", options(nostack, preserves_flags))
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.process != process::id() {
            return;
        }
        // SAFETY: The range was mapped by this object, whose borrows have ended. A caller of
        // `as_ptr()` answers for what it does with the address later.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
