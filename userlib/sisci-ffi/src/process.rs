// SPDX-License-Identifier: GPL-2.0

//! What this process has open: all objects, by their handles.
//!
//! Nothing of it is of use to a forked child: the driver refuses its calls, and what is mapped is
//! not mapped there. The child starts with nothing, and never touches the parent's part, whose
//! locks may be held for ever by threads that it does not have. It need not initialize the library
//! again (SI-GEN-24).

use crate::table::{Kind, Table};
use mp_fabric::Device;
use sisci::{
    Desc, DmaQueue, Error, Library, LocalDataInterrupt, LocalInterrupt, LocalSegment, Map,
    RemoteDataInterrupt, RemoteInterrupt, RemoteSegment, Result, Sequence,
};
use std::{
    ptr,
    sync::{
        atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering},
        Mutex, MutexGuard, PoisonError,
    },
};

/// Bytes of the page that tells of a fork.
const PAGE: usize = 4096;

/// How the library is loaded when a process initializes it.
pub type Load<D> = &'static (dyn Fn() -> Result<Library<D>> + Sync);

/// The process that is calling, of all those that this memory has been copied to by `fork()`.
pub struct Processes<D: Device> {
    load: Load<D>,
    /// Those of parents are never freed.
    current: AtomicPtr<Process<D>>,
}

impl<D: Device> Processes<D> {
    /// No process has called yet.
    pub const fn new(load: Load<D>) -> Self {
        Processes {
            load,
            current: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The process that is calling. That it is the one of the call before is known without a
    /// system call.
    pub fn current(&self) -> &Process<D> {
        if MARK.is_set() {
            // SAFETY: NULL, or made below and never freed.
            if let Some(process) = unsafe { self.current.load(Ordering::Acquire).as_ref() } {
                return process;
            }
        }
        let process = self.of(std::process::id());
        MARK.set();
        process
    }

    /// The process of that id, which is the one that is calling. Takes no lock: a thread that the
    /// child does not have may hold it.
    pub fn of(&self, id: u32) -> &Process<D> {
        let mut current = self.current.load(Ordering::Acquire);
        loop {
            // SAFETY: NULL, or made below and never freed.
            let initialized = match unsafe { current.as_ref() } {
                Some(process) if process.id == id => return process,
                Some(parent) => parent.initialized.load(Ordering::Acquire),
                None => 0,
            };
            let new = Box::into_raw(Box::new(Process::new(id, self.load, initialized)));
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match self
                .current
                .compare_exchange(current, new, success, failure)
            {
                Ok(_) => current = new,
                Err(other) => {
                    // SAFETY: It has just been made, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    current = other;
                }
            }
        }
    }
}

/// Memory that a child finds empty.
struct Mark(AtomicPtr<AtomicU32>);

static MARK: Mark = Mark(AtomicPtr::new(ptr::null_mut()));

impl Mark {
    fn is_set(&self) -> bool {
        // SAFETY: NULL, or a page of its own that is never unmapped.
        let word = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        word.is_some_and(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Sets it in this process. Without such memory it stays as it is.
    fn set(&self) {
        if self.0.load(Ordering::Acquire).is_null() {
            self.map();
        }
        // SAFETY: As above.
        if let Some(word) = unsafe { self.0.load(Ordering::Acquire).as_ref() } {
            word.store(1, Ordering::Release);
        }
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

/// What a process has open.
pub struct Process<D: Device> {
    id: u32,
    load: Load<D>,
    /// How often the library was initialized without having been terminated.
    initialized: AtomicUsize,
    library: Mutex<Option<Library<D>>>,
    pub descs: Table<Desc<D>>,
    pub local_segments: Table<LocalSegment<D>>,
    pub remote_segments: Table<RemoteSegment<D>>,
    pub maps: Table<Map<D>>,
    pub sequences: Table<Sequence<D>>,
    pub dma_queues: Table<DmaQueue<D>>,
    pub local_interrupts: Table<LocalInterrupt<D>>,
    pub remote_interrupts: Table<RemoteInterrupt<D>>,
    pub local_data_interrupts: Table<LocalDataInterrupt<D>>,
    pub remote_data_interrupts: Table<RemoteDataInterrupt<D>>,
}

impl<D: Device> Process<D> {
    pub fn new(id: u32, load: Load<D>, initialized: usize) -> Self {
        Process {
            id,
            load,
            initialized: AtomicUsize::new(initialized),
            library: Mutex::new(None),
            descs: Table::new(Kind::Desc),
            local_segments: Table::new(Kind::LocalSegment),
            remote_segments: Table::new(Kind::RemoteSegment),
            maps: Table::new(Kind::Map),
            sequences: Table::new(Kind::Sequence),
            dma_queues: Table::new(Kind::DmaQueue),
            local_interrupts: Table::new(Kind::LocalInterrupt),
            remote_interrupts: Table::new(Kind::RemoteInterrupt),
            local_data_interrupts: Table::new(Kind::LocalDataInterrupt),
            remote_data_interrupts: Table::new(Kind::RemoteDataInterrupt),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Library<D>>> {
        self.library.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a process that has not initialized the library.
    ///
    /// # Errors
    /// [`Error::NotInitialized`].
    pub fn ready(&self) -> Result<()> {
        match self.initialized.load(Ordering::Acquire) {
            0 => Err(Error::NotInitialized),
            _ => Ok(()),
        }
    }

    /// The library, with the configuration as it is when it is first needed.
    ///
    /// # Errors
    /// [`Error::NotInitialized`]; those of loading it.
    pub fn library(&self) -> Result<Library<D>> {
        self.ready()?;
        let mut slot = self.slot();
        if let Some(library) = &*slot {
            return Ok(library.clone());
        }
        let library = (self.load)()?;
        *slot = Some(library.clone());
        Ok(library)
    }

    /// Initializes the library once more.
    pub fn initialize(&self) {
        self.initialized.fetch_add(1, Ordering::AcqRel);
    }

    /// Undoes one initialization; the last one ends callbacks.
    pub fn terminate(&self) {
        let less = |count: usize| count.checked_sub(1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        if self.initialized.fetch_update(set, fetch, less) != Ok(1) {
            return;
        }
        // What the program has mapped it may still use: that stays until the process ends.
        if let Some(library) = self.slot().take() {
            library.stop();
        }
    }
}
