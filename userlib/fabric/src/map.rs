// SPDX-License-Identifier: MIT OR Apache-2.0

//! Windows and memory of this process that others reach.
//!
//! The other host changes this memory at any time: there is no reference to it, neither here nor
//! elsewhere. [`Map::volatile`] gives the `VolatileSlice` of the crate `vm-memory`, which has the
//! bounds checks, copies and atomic accesses that this needs and is maintained for exactly this
//! purpose; an own type would repeat it. It is for 64-bit processes only; others have the address.

#[cfg(target_pointer_width = "64")]
use crate::whole;
use crate::ProcessMemory;
use rustix::{
    fd::AsFd,
    io::Errno,
    mm::{mmap, mmap_anonymous, munmap, MapFlags, ProtFlags},
};
use std::{
    fmt::Debug,
    marker::PhantomData,
    process,
    ptr::{self, NonNull},
};
#[cfg(target_pointer_width = "64")]
use {
    std::sync::atomic::{fence, AtomicU64, Ordering},
    vm_memory::{AtomicAccess, Bytes, VolatileSlice},
};

/// Bytes of a line.
#[cfg(target_pointer_width = "64")]
const LINE: usize = 64;

/// What may be done with mapped memory: [`ReadWrite`] or [`ReadOnly`].
pub trait Protection: private::Sealed + Debug + Send + Sync + 'static {}

/// Loads and stores.
#[derive(Debug)]
pub enum ReadWrite {}

/// Loads only: a store would fault, and there is no function for one.
///
/// ```compile_fail
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = std::fs::File::open("/dev/zero")?;
/// let map = mp_fabric::Map::<mp_fabric::ReadOnly>::with_hint(file, 0, 4096, 0)?;
/// map.volatile();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum ReadOnly {}

impl Protection for ReadWrite {}
impl Protection for ReadOnly {}

mod private {
    use rustix::mm::ProtFlags;

    pub trait Sealed {
        const FLAGS: ProtFlags;
    }

    impl Sealed for super::ReadWrite {
        const FLAGS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
    }

    impl Sealed for super::ReadOnly {
        const FLAGS: ProtFlags = ProtFlags::READ;
    }
}

/// Mapped memory; unmapped when it is dropped.
#[derive(Debug)]
pub struct Map<P: Protection = ReadWrite> {
    start: NonNull<u8>,
    len: usize,
    /// A forked child has this object, but not the memory.
    process: u32,
    /// Lines are stored in one piece. Only where the processor can.
    #[cfg(target_pointer_width = "64")]
    whole_lines: bool,
    protection: PhantomData<P>,
}

// SAFETY: The memory belongs to the whole process, and is accessed by raw pointers only.
unsafe impl<P: Protection> Send for Map<P> {}
// SAFETY: As above; nothing in the object changes.
unsafe impl<P: Protection> Sync for Map<P> {}

impl<P: Protection> Map<P> {
    /// Map `len` bytes at an offset of a file, shared. The address `hint` is tried first, unless
    /// it is 0 or something is mapped there.
    ///
    /// # Errors
    /// Those of `mmap()`; `ENOMEM` also if `len` exceeds the address space.
    pub fn with_hint(file: impl AsFd, offset: u64, len: u64, hint: usize) -> Result<Self, Errno> {
        let len = usize::try_from(len).map_err(|_| Errno::NOMEM)?;
        let hint = ptr::without_provenance_mut(hint);
        // SAFETY: The kernel chooses a free range, also with a hint, and nothing has a reference
        // to it.
        let start = unsafe { mmap(hint, len, P::FLAGS, MapFlags::SHARED, file, offset)? };
        Self::of(start.cast(), len)
    }

    fn of(start: *mut u8, len: usize) -> Result<Self, Errno> {
        Ok(Map {
            start: NonNull::new(start).ok_or(Errno::NOMEM)?,
            len,
            process: process::id(),
            #[cfg(target_pointer_width = "64")]
            whole_lines: false,
            protection: PhantomData,
        })
    }

    /// The size in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no byte; the kernel maps no such memory.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte. Every access has to be volatile or atomic: the other host
    /// reads and writes the same memory.
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// The memory, whatever may be done with it: callers do not store to what is only read.
    #[cfg(target_pointer_width = "64")]
    #[inline]
    fn slice(&self) -> VolatileSlice<'_> {
        // SAFETY: The range stays mapped as long as the object is borrowed, and has no references.
        unsafe { VolatileSlice::new(self.start.as_ptr(), self.len) }
    }

    /// Copy bytes from an offset on into a room, all of which is filled.
    ///
    /// # Errors
    /// `ERANGE`: the memory has fewer bytes.
    #[cfg(target_pointer_width = "64")]
    pub fn read(&self, offset: usize, room: VolatileSlice<'_>) -> Result<(), Errno> {
        let from = self.slice().subslice(offset, room.len());
        from.map_err(|_| Errno::RANGE)?.copy_to_volatile_slice(room);
        Ok(())
    }

    /// Load the word that has the byte at `offset`. What this thread has stored over the same link
    /// before, and flushed, has arrived when that returns; what it loads later is loaded later.
    ///
    /// Ones may be what is there, or what a processor reads where nobody answers: over a link that
    /// has just died, and of which the driver does not know yet.
    #[cfg(target_pointer_width = "64")]
    pub fn read_back(&self, offset: usize) -> Option<u64> {
        self.load(offset - offset % size_of::<u64>())
    }

    /// Load an aligned value; what is loaded later is loaded later.
    #[cfg(target_pointer_width = "64")]
    pub(crate) fn load<T: AtomicAccess>(&self, offset: usize) -> Option<T> {
        // No other order is allowed for memory that cannot be written to; the fence makes up for
        // it.
        let value = self.slice().load(offset, Ordering::Relaxed).ok()?;
        fence(Ordering::Acquire);
        Some(value)
    }
}

impl Map {
    /// Map `len` bytes at an offset of a file, for reading and writing, shared.
    ///
    /// # Errors
    /// As [`with_hint()`](Self::with_hint).
    pub fn new(file: impl AsFd, offset: u64, len: u64) -> Result<Self, Errno> {
        Self::with_hint(file, offset, len, 0)
    }

    /// Make memory of this process, all zero, which begins at a page. Peers and devices can be
    /// given it ([`memory()`](Self::memory)): nothing else of the process ever lies there.
    ///
    /// # Errors
    /// Those of `mmap()`.
    pub fn allocate(len: usize) -> Result<Self, Errno> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: The kernel chooses a free range, and nothing has a reference to it.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, flags)? };
        Self::of(start.cast(), len)
    }

    /// The memory, for [`Segment::fill`](crate::Segment::fill) and queues.
    pub fn memory(&self) -> ProcessMemory<'_> {
        // SAFETY: There are no references to the memory, and the kernel keeps pages that it has
        // given away also when they are no longer mapped.
        unsafe { ProcessMemory::new(self.start.as_ptr() as usize, self.len) }
    }

    /// As [`as_ptr()`](Self::as_ptr), for stores.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The memory.
    #[cfg(target_pointer_width = "64")]
    #[inline]
    pub fn volatile(&self) -> VolatileSlice<'_> {
        self.slice()
    }

    /// An aligned word, which is loaded and stored in one piece. Nothing if it is not all in the
    /// memory.
    #[cfg(target_pointer_width = "64")]
    #[inline]
    pub fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let [word] = self.words(offset)?;
        Some(word)
    }

    /// The words of an aligned line of 64 bytes, each of which is loaded and stored in one piece.
    /// Nothing if the line is not all in the memory.
    #[cfg(target_pointer_width = "64")]
    #[inline]
    pub fn line(&self, offset: usize) -> Option<&[AtomicU64; LINE / 8]> {
        self.words(offset)
    }

    /// Store lines in one piece from now on, where the processor can. For windows of bridges: other
    /// memory leaves the caches by that.
    #[cfg(target_pointer_width = "64")]
    pub(crate) fn with_whole_lines(mut self) -> Self {
        self.whole_lines = whole::is_there();
        self
    }

    /// Store an aligned line of 64 bytes, each word in one piece, or all of them. Nothing if the line
    /// is not all in the memory.
    #[cfg(target_pointer_width = "64")]
    #[inline]
    pub(crate) fn store_line(&self, offset: usize, line: &[u64; 8]) -> Option<()> {
        let words = self.line(offset)?;
        if self.whole_lines {
            // A copy, so that the caller's may stay in registers otherwise.
            let line = *line;
            // SAFETY: Only set where the processor has the instruction, or where a test does what it
            // does; a line is aligned.
            unsafe { whole::store(words, &line) };
            return Some(());
        }
        for (word, value) in words.iter().zip(line) {
            word.store(value.to_le(), Ordering::Relaxed);
        }
        Some(())
    }

    /// Words whose offset is a multiple of their size altogether. Nothing if they are not all in the
    /// memory.
    #[cfg(target_pointer_width = "64")]
    #[inline]
    fn words<const COUNT: usize>(&self, offset: usize) -> Option<&[AtomicU64; COUNT]> {
        let len = size_of::<[AtomicU64; COUNT]>();
        let end = offset.checked_add(len)?;
        if end > self.len || offset % len != 0 {
            return None;
        }
        // SAFETY: The words lie in memory that stays mapped as long as the object is borrowed. They are
        // aligned, as the memory begins at a page. Others may change atomic words, and everybody
        // accesses the memory by such or by volatile accesses.
        Some(unsafe { self.start.byte_add(offset).cast().as_ref() })
    }
}

/// Make everything that this thread has stored leave the processor, also what is still combined.
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

impl<P: Protection> Drop for Map<P> {
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

#[cfg(all(test, target_arch = "x86_64", target_pointer_width = "64"))]
mod tests;
