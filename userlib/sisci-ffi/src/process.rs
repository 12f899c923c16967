// SPDX-License-Identifier: MIT OR Apache-2.0

//! What this process has open: all objects, by their handles.
//!
//! Nothing of it is of use to a forked child: the driver refuses its calls, and what is mapped is
//! not mapped there. The child starts with nothing, but need not initialize the library again
//! (SI-GEN-24).

use mp_c_abi::Table;
use mp_fabric::Device;
use sisci::{
    Desc, DmaQueue, Error, Library, LocalDataInterrupt, LocalInterrupt, LocalSegment, Map,
    RemoteDataInterrupt, RemoteInterrupt, RemoteSegment, Result, Sequence,
};
use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Mutex, MutexGuard, PoisonError,
};

/// How the library is loaded when a process initializes it.
pub type Load<D> = &'static (dyn Fn() -> Result<Library<D>> + Sync);

/// What a handle is of. The numbers are the upper bits of every handle: not canonical on any
/// processor, so of no address (SI-ABI-7).
#[derive(Clone, Copy, Debug)]
enum Kind {
    Desc = 0x5C11,
    LocalSegment,
    RemoteSegment,
    Map,
    Sequence,
    DmaQueue,
    LocalInterrupt,
    RemoteInterrupt,
    LocalDataInterrupt,
    RemoteDataInterrupt,
}

/// What a process has open.
pub struct Process<D: Device> {
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
    /// One that has nothing; it is initialized as often as its parent is, if there is one.
    pub fn new(load: Load<D>, parent: Option<&Self>) -> Self {
        let initialized = parent.map_or(0, |parent| parent.initialized.load(Ordering::Acquire));
        Process {
            load,
            initialized: AtomicUsize::new(initialized),
            library: Mutex::new(None),
            descs: Table::new(Kind::Desc as u16),
            local_segments: Table::new(Kind::LocalSegment as u16),
            remote_segments: Table::new(Kind::RemoteSegment as u16),
            maps: Table::new(Kind::Map as u16),
            sequences: Table::new(Kind::Sequence as u16),
            dma_queues: Table::new(Kind::DmaQueue as u16),
            local_interrupts: Table::new(Kind::LocalInterrupt as u16),
            remote_interrupts: Table::new(Kind::RemoteInterrupt as u16),
            local_data_interrupts: Table::new(Kind::LocalDataInterrupt as u16),
            remote_data_interrupts: Table::new(Kind::RemoteDataInterrupt as u16),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Library<D>>> {
        self.library.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuse a process that has not initialized the library.
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

    /// Initialize the library once more.
    pub fn initialize(&self) {
        self.initialized.fetch_add(1, Ordering::AcqRel);
    }

    /// Undo one initialization; the last one ends callbacks.
    pub fn terminate(&self) {
        let less = |count: usize| count.checked_sub(1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        if self.initialized.fetch_update(set, fetch, less) != Ok(1) {
            return;
        }
        // What the program has mapped it may still use: that stays until the process ends.
        // The callback that this waits for may want the lock.
        let library = self.slot().take();
        if let Some(library) = library {
            library.stop();
        }
    }
}
