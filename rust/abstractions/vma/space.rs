// SPDX-License-Identifier: GPL-2.0-only

//! The address space of a device: its offsets, and the page tables that show them.

use core::{
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    prelude::*,
    sync::Arc, //
};

use super::{
    offsets::{
        OffsetSpace,
        Reservation, //
    },
    Mapping,
    ScrapPage, //
};

/// An inode of no file, whose `struct address_space` knows all areas that show
/// something of a device, through whatever device node it was opened.
///
/// # Invariants
///
/// `raw` is an inode that `map_inode_new()` has returned.
pub(super) struct Inode {
    raw: NonNull<c_void>,
}

// SAFETY: Inodes are counted, and address spaces have locks of their own.
unsafe impl Send for Inode {}
// SAFETY: As above.
unsafe impl Sync for Inode {}

impl Inode {
    fn new() -> Result<Arc<Self>> {
        // SAFETY: Process context.
        let raw = unsafe { mp_bindings::map_inode_new() };
        // INVARIANT: Just made.
        let inode = Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
        };
        Ok(Arc::new(inode, GFP_KERNEL)?)
    }

    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.raw.as_ptr()
    }

    /// Take pages out of all page tables. Sleeps.
    pub(super) fn unmap(&self, first: usize, pages: usize) {
        // SAFETY: By the invariants.
        unsafe { mp_bindings::map_inode_unmap(self.as_ptr(), first, pages) };
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        // SAFETY: By the invariants. No file refers to the inode any more: `AddressSpace::adopt`
        // asks for that.
        unsafe { mp_bindings::map_inode_put(self.as_ptr()) };
    }
}

/// What programs may map of a device, by its offset.
pub struct AddressSpace {
    inode: Arc<Inode>,
    offsets: Arc<OffsetSpace<Mapping>>,
}

impl AddressSpace {
    /// An empty one. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        let space = Self {
            inode: Inode::new()?,
            offsets: OffsetSpace::new()?,
        };
        Ok(Arc::new(space, GFP_KERNEL)?)
    }

    /// Make a mapping of `pages` pages, with an offset at which programs may map it until the
    /// result is dropped. It has no memory until [`Mapping::show`] is called. Sleeps.
    ///
    /// `owner` is told to those who ask with [`Mapping::owner`]: programs can guess
    /// offsets, so that an `mmap` callback compares it with the file's own. So is whether they
    /// may write there, with [`Mapping::is_writable`].
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are no pages, `ENOSPC` without a free offset, `ENOMEM`.
    pub fn publish(
        &self,
        pages: usize,
        owner: u64,
        is_writable: bool,
        scrap: Arc<ScrapPage>,
    ) -> Result<Published> {
        let whose = (owner, is_writable);
        let make = |first| Mapping::new(self.inode.clone(), first, pages, whose, scrap);
        Ok(Published(OffsetSpace::reserve(&self.offsets, pages, make)?))
    }

    /// The mapping that has all these pages, if it is still published.
    pub fn find(&self, first: usize, pages: usize) -> Option<Arc<Mapping>> {
        self.offsets.find(first, pages)
    }

    /// Put the mappings of a file into this address space.
    ///
    /// # Safety
    ///
    /// `file` is in its `open` callback, and calls [`forget`](Self::forget) before the
    /// address space is dropped.
    pub(crate) unsafe fn adopt(&self, file: *mut bindings::file) {
        // SAFETY: As the caller promises.
        unsafe { mp_bindings::map_inode_adopt(self.inode.as_ptr(), file) };
    }

    /// End what [`adopt`](Self::adopt) has begun.
    ///
    /// # Safety
    ///
    /// `file` is in its `release` callback, when it has no mappings any more.
    pub(crate) unsafe fn forget(file: *mut bindings::file) {
        // SAFETY: As the caller promises.
        unsafe { mp_bindings::map_inode_forget(file) };
    }
}

/// A mapping with its offset.
///
/// Dropping it frees the offset, so that nobody can map it any more; areas that show
/// it stay as they are. [`Mapping::revoke`] is what takes the memory away. Sleeps.
pub struct Published(Reservation<Mapping>);

impl Published {
    /// The mapping, for those who keep it for longer than its offset.
    pub fn mapping(&self) -> &Arc<Mapping> {
        self.0.value()
    }
}

impl Deref for Published {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        self.0.value()
    }
}
