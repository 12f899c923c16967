// SPDX-License-Identifier: GPL-2.0-only

//! Something that programs may map.

use kernel::{
    bindings,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

use super::{
    space::Inode,
    ScrapPage, //
};

/// How the processor may treat a page frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cache {
    /// As ordinary memory.
    Cached,
    /// Writes are collected and may overtake each other; reads go to the memory each
    /// time. For windows: where the kernel has the frame mapped in another way itself,
    /// that way counts.
    WriteCombining,
}

/// A page frame that a process is to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its number: the physical address in pages.
    pub(super) pfn: usize,
    pub(super) cache: Cache,
}

impl Frame {
    /// The frame at a physical address, which is rounded down to a page.
    ///
    /// Whether processes may see it, the implementation of [`Frames`] answers for.
    pub fn at(phys: u64, cache: Cache) -> Self {
        Self {
            // SAFETY: Arithmetic.
            pfn: unsafe { mp_bindings::phys_frame(phys) },
            cache,
        }
    }

    /// The frame with this number.
    pub(super) fn new(pfn: usize, cache: Cache) -> Self {
        Self { pfn, cache }
    }
}

/// Memory that consists of page frames.
///
/// Dropped where the last process unmaps it, possibly with `mmap_lock` held, or by
/// who has revoked it.
///
/// # Safety
///
/// As long as the object exists, all frames that it has named are memory, or a
/// device's registers, that belong to it alone, and that processes may write to
/// in any way without harm to the kernel.
pub unsafe trait Frames: Send + Sync + 'static {
    /// The frame of a page, counted from the beginning; `None` where there is none.
    ///
    /// Called in a page fault, with `mmap_lock` or the lock of an area and the
    /// mapping's own lock held: it must not copy to or from processes, nor wait for
    /// anybody who does.
    fn frame(&self, page: usize) -> Option<Frame>;
}

/// Something that programs may map, as [`AddressSpace::publish`] has made it.
///
/// # Invariants
///
/// A page table entry of an area that shows this mapping refers to a frame of
/// `memory`, or, outside of it, of `scrap`. Each such area owns a reference to
/// the mapping.
///
/// [`AddressSpace::publish`]: super::AddressSpace::publish
#[pin_data]
pub struct Mapping {
    /// The address space, whose tree has all areas that show this mapping.
    inode: Arc<Inode>,
    /// Offset in the address space, in pages.
    first: usize,
    pages: usize,
    owner: u64,
    is_writable: bool,
    scrap: Arc<ScrapPage>,
    #[pin]
    memory: Mutex<Option<Arc<dyn Frames>>>,
}

impl Mapping {
    /// A mapping at that place in the address space, without memory.
    pub(super) fn new(
        inode: Arc<Inode>,
        first: usize,
        pages: usize,
        (owner, is_writable): (u64, bool),
        scrap: Arc<ScrapPage>,
    ) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            inode,
            first,
            pages,
            owner,
            is_writable,
            scrap,
            memory <- new_mutex!(None, "mp_mapping"),
        });
        Arc::pin_init(init, GFP_KERNEL_ACCOUNT)
    }

    /// Where programs find it: the offset for `mmap()`, in pages.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Its length in pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Whose it is, as the one who published it has said.
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// Whether programs may write there, as the one who published it has said.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether it shows memory.
    pub fn is_live(&self) -> bool {
        self.memory.lock().is_some()
    }

    /// Take the memory away from all processes: they see the scrap page
    /// where they had it. Sleeps; may be called with `mmap_lock` held.
    ///
    /// When it returns no process reaches the memory any more. Returns the memory to
    /// the first who calls it, so that it is freed, or withdrawn from its peer, only then.
    pub fn revoke(&self) -> Option<Arc<dyn Frames>> {
        let memory = self.memory.lock().take();
        // Also if somebody else has taken it: who may still be at this.
        self.inode.unmap(self.first, self.pages);
        memory
    }

    /// Show memory to processes, where they see the scrap page now: as many pages as the
    /// mapping has. Sleeps.
    ///
    /// Memory that somebody else may take away is shown only to a mapping that is told then,
    /// and revokes: if it has been told already, the memory must name no frames any more.
    pub fn show(&self, memory: Arc<dyn Frames>) {
        let old = self.memory.lock().replace(memory);
        // The pages of ones are not asked for again as long as they are there.
        self.inode.unmap(self.first, self.pages);
        drop(old);
    }

    /// Whether these pages of the address space are its own.
    pub(super) fn has(&self, first: usize, pages: usize) -> bool {
        let Some(skipped) = first.checked_sub(self.first) else {
            return false;
        };
        let left = self.pages.checked_sub(skipped);
        left.is_some_and(|left| pages != 0 && pages <= left)
    }

    /// The inode whose address space this is.
    pub(super) fn inode(&self) -> *mut c_void {
        self.inode.as_ptr()
    }

    /// Let `insert` enter frames into a page table: at first the one of `page`, an
    /// offset in the address space, whose result counts, then up to `pages - 1` behind
    /// it as far as they are of the same memory.
    pub(super) fn enter(
        &self,
        page: usize,
        pages: usize,
        insert: impl Fn(usize, Frame) -> bindings::vm_fault_t,
    ) -> bindings::vm_fault_t {
        if !self.has(page, 1) {
            return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
        }
        let index = page - self.first;
        // Held until the frames have been entered: see "Why nothing revoked stays mapped".
        let memory = self.memory.lock();
        let frame = |n: usize| memory.as_ref()?.frame(index.checked_add(n)?);
        let Some(wanted) = frame(0) else {
            return insert(0, self.scrap.frame());
        };
        let result = insert(0, wanted);
        for n in 1..pages.min(self.pages - index) {
            match frame(n) {
                Some(next) if result == bindings::vm_fault_reason_VM_FAULT_NOPAGE => {
                    // Whatever comes of it: the page is asked for again when it is touched.
                    insert(n, next);
                }
                _ => break,
            }
        }
        result
    }
}
