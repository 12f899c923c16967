// SPDX-License-Identifier: GPL-2.0-only

//! Mappings of page frames into processes, which can be revoked.
//!
//! * [`AddressSpace`]: the offsets at which programs find what they may map, and the
//!   page tables that show it. A [`chardev::Device`](crate::chardev::Device) has one.
//! * [`Mapping`]: something to map: at most one [`Frames`] object, behind which a
//!   [`ScrapPage`] stands in. [`Mapping::show`] shows it, [`Mapping::revoke`] takes the frames
//!   away from all processes at once; they see the scrap page before and after.
//! * [`NewVma`]: an area that a program is just creating by `mmap()`.
//! * [`offsets`]: the allocator of offsets.
//!
//! Nothing is entered into a page table before it is touched: the callbacks here ask
//! for each page when a process touches it. The core of memory management calls them;
//! drivers see the types above only.
//!
//! # Why nothing revoked stays mapped
//!
//! A page fault holds the mapping's lock from before it asks which frame a page has
//! until the frame is in the page table. `revoke` changes the answer under that lock
//! and takes everything out of the page tables afterwards. So a fault is either over
//! by then, and its entry is found and removed like all others, or it begins later
//! and gets the scrap page. Areas that are moved, split or about to vanish meanwhile
//! are the concern of memory management, which has them in the address space's tree
//! as long as they have a page table entry.
//!
//! # Locks
//!
//! In this order: `mmap_lock` or the lock of one area, which faults and
//! `mmap()` hold; the mapping's lock; then those that an allocation takes
//! for reclaim, the address space's `i_mmap_rwsem`, and those of page tables. `revoke`
//! takes the second, lets go of it, and takes `i_mmap_rwsem`: it sleeps, but never
//! waits for `mmap_lock`, and may be called with it held.
//!
//! The last reference to a mapping, and with it one to its frames, may be dropped by
//! `munmap()` or a dying process, with `mmap_lock` held.

mod mapping;
pub mod offsets;
mod scrap;
mod space;

use core::marker::PhantomData;

use kernel::{
    bindings,
    mm::virt::VmaNew,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};

pub use self::{
    mapping::{
        Cache,
        Frame,
        Frames,
        Mapping, //
    },
    scrap::ScrapPage,
    space::{
        AddressSpace,
        Published, //
    }, //
};

/// As many pages are entered with the one that was touched, at most, as long as they
/// belong to the same aligned group.
const AROUND: usize = 16;

/// An area that a program creates by `mmap()`.
///
/// # Invariants
///
/// As for [`VmaNew`]; nothing but the methods here has changed the area.
pub struct NewVma<'a> {
    area: &'a VmaNew,
    /// Not to be handed to another thread.
    _call: PhantomData<*mut ()>,
}

impl NewVma<'_> {
    /// An area in its callback.
    ///
    /// # Safety
    ///
    /// `area` is that of an `mmap` callback, for the duration of `'a`, and has not been
    /// changed yet.
    pub(crate) unsafe fn from_raw(area: *mut bindings::vm_area_struct) -> Self {
        // INVARIANT: As the caller promises.
        Self {
            // SAFETY: As the caller promises.
            area: unsafe { VmaNew::from_raw(area) },
            _call: PhantomData,
        }
    }

    /// The offset that the program named, in pages.
    pub fn first(&self) -> usize {
        // SAFETY: By the invariants the area is valid, and nobody else changes it.
        unsafe { (*self.area.as_ptr()).vm_pgoff }
    }

    /// How many pages it wants; never zero.
    pub fn pages(&self) -> usize {
        (self.area.end() - self.area.start()) / PAGE_SIZE
    }

    /// Whether it wants to read.
    pub fn readable(&self) -> bool {
        self.area.readable()
    }

    /// Whether it wants to write.
    pub fn writable(&self) -> bool {
        self.area.writable()
    }

    /// Keep the program from writing, for good.
    ///
    /// # Errors
    ///
    /// `EACCES` if it wants to.
    pub fn forbid_write(&self) -> Result {
        self.area.try_clear_maywrite().map_err(|_| EACCES)
    }

    /// Let the area show what lies at its offset, which is in `mapping`.
    ///
    /// It is not inherited by children, cannot grow, is not dumped, never holds instructions,
    /// and the kernel neither reads nor pins its memory for others.
    ///
    /// # Errors
    ///
    /// `EACCES` if the program wants to execute what is there: somebody else may write it.
    /// `EINVAL` if the area reaches beyond `mapping`, is private to the process
    /// (`MAP_PRIVATE`), or `mapping` is not of this device.
    pub fn attach(self, mapping: Arc<Mapping>) -> Result {
        if !mapping.has(self.first(), self.pages()) {
            return Err(EINVAL);
        }
        self.area.try_clear_mayexec().map_err(|_| EACCES)?;
        let area = self.area.as_ptr();
        // SAFETY: By the invariants the area is in its callback; the inode belongs to the
        // mapping. The area's flags allow frames afterwards, and nothing else was set.
        if !unsafe { mp_bindings::vma_become_frames(area, mapping.inode()) } {
            return Err(EINVAL);
        }
        // SAFETY: As above. The reference belongs to the area from here on, until `close`; so
        // the callbacks find a mapping there.
        unsafe {
            (*area).vm_private_data = Arc::into_raw(mapping).cast_mut().cast();
            (*area).vm_ops = OPERATIONS;
        }
        Ok(())
    }
}

/// What memory management calls for the areas that [`NewVma::attach`] has equipped.
const OPERATIONS: &bindings::vm_operations_struct = &bindings::vm_operations_struct {
    open: Some(open),
    close: Some(close),
    fault: Some(fault),
    ..pin_init::zeroed()
};

/// The mapping that an area shows.
///
/// # Safety
///
/// `area` has the [`OPERATIONS`] and is not closed before the end of `'a`.
unsafe fn mapping_of<'a>(area: *mut bindings::vm_area_struct) -> ArcBorrow<'a, Mapping> {
    // SAFETY: `attach` has put a reference there, or `open` another one; it is the area's own
    // until `close`.
    unsafe { ArcBorrow::from_raw((*area).vm_private_data.cast_const().cast()) }
}

/// A second area came into being as a copy of one, when it was split or moved.
///
/// # Safety
///
/// `area` has the [`OPERATIONS`].
unsafe extern "C" fn open(area: *mut bindings::vm_area_struct) {
    // SAFETY: As the caller promises. The copy has the pointer, but no reference yet: the one of
    // the original lives, since that is not closed during the call.
    let mapping: Arc<Mapping> = unsafe { mapping_of(area) }.into();
    // Now it belongs to the copy.
    let _ = Arc::into_raw(mapping);
}

/// An area goes, after its page table entries have gone.
///
/// # Safety
///
/// `area` has the [`OPERATIONS`]; nothing is called for it any more.
unsafe extern "C" fn close(area: *mut bindings::vm_area_struct) {
    // SAFETY: The reference of the area, which ends with it.
    drop(unsafe { Arc::<Mapping>::from_raw((*area).vm_private_data.cast_const().cast()) });
}

/// A process touches a page that is not in its page table.
///
/// # Safety
///
/// `fault` is valid, and its area has the [`OPERATIONS`].
unsafe extern "C" fn fault(fault: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: As the caller promises.
    let (area, page, address) = unsafe {
        let cause = &(*fault).__bindgen_anon_1;
        (cause.vma, cause.pgoff, cause.address)
    };
    // SAFETY: As the caller promises; an area is not closed during a fault, nor its borders
    // changed.
    let (mapping, end) = unsafe {
        let bounds = &(*area).__bindgen_anon_1.__bindgen_anon_1;
        (mapping_of(area), bounds.vm_end)
    };
    let room = (end - address) / PAGE_SIZE;
    let group = AROUND - page % AROUND;
    let pages = room.min(group).max(1);
    mapping.enter(page, pages, |n, frame| {
        let combine = matches!(frame.cache, Cache::WriteCombining);
        let address = address + n * PAGE_SIZE;
        // SAFETY: The area has the flags for frames, the address is one of its own by the
        // choice of `pages`, and by the contract of `Frames` a process may see that frame.
        unsafe { mp_bindings::vma_insert_frame(area, address, frame.pfn, combine) }
    })
}
