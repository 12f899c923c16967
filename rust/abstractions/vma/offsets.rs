// SPDX-License-Identifier: GPL-2.0-only

//! The allocator of offsets for `mmap()`.
//!
//! An offset may be given to another value as soon as its first one has gone, even
//! while processes still map that: the areas refer to their mapping itself. That their
//! pages are taken out of the page tables together with those of the second one does
//! no harm, they come back when they are touched.

use kernel::{
    maple_tree::{
        AllocErrorKind,
        MapleTreeAlloc, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        SetOnce, //
    }, //
};

/// First offset in pages that is not handed out: `mmap2()`, the call of 32-bit
/// programs, has 32 bits for multiples of 4 KiB.
pub const END: usize = ((1_u64 << 44) / PAGE_SIZE as u64 - 1) as usize;

/// First offset in pages that may be: zero is what careless programs pass.
const BEGIN: usize = 1;

/// Ranges of offsets, each with a value.
///
/// # Examples
///
/// ```
/// use kernel::sync::Arc;
/// use mp_kernel::vma::offsets::OffsetSpace;
///
/// let space = OffsetSpace::new()?;
/// let ten = OffsetSpace::reserve(&space, 10, |_first| Ok(Arc::new(7, GFP_KERNEL)?))?;
/// assert_eq!(space.find(ten.first() + 9, 1).map(|v| *v), Some(7));
/// assert!(space.find(ten.first() + 9, 2).is_none());
/// # Ok::<(), Error>(())
/// ```
#[pin_data]
pub struct OffsetSpace<T: Send + Sync + 'static> {
    #[pin]
    tree: MapleTreeAlloc<Arc<Entry<T>>>,
}

// SAFETY: A maple tree is not tied to a thread, nor are the values.
unsafe impl<T: Send + Sync + 'static> Send for OffsetSpace<T> {}
// SAFETY: All that is done with a shared tree takes the lock that is part of it, and values
// are shared only.
unsafe impl<T: Send + Sync + 'static> Sync for OffsetSpace<T> {}

/// A range, whose value is set once its offset is known.
struct Entry<T> {
    pages: usize,
    content: SetOnce<(usize, Arc<T>)>,
}

impl<T: Send + Sync + 'static> OffsetSpace<T> {
    /// An empty space. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            tree <- MapleTreeAlloc::new(),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Take a free range of `pages` pages for a value that `make` makes; it is given
    /// the first page. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no pages, `ENOSPC` if no range is that large, `ENOMEM`, and those of
    /// `make`.
    pub fn reserve(
        space: &Arc<Self>,
        pages: usize,
        make: impl FnOnce(usize) -> Result<Arc<T>>,
    ) -> Result<Reservation<T>> {
        if pages == 0 {
            return Err(EINVAL);
        }
        let entry = Arc::new(
            Entry {
                pages,
                content: SetOnce::new(),
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let first = space
            .tree
            .alloc_range(pages, entry.clone(), BEGIN..END, GFP_KERNEL)
            .map_err(|failure| match failure.cause {
                AllocErrorKind::AllocError(_) => ENOMEM,
                AllocErrorKind::Busy | AllocErrorKind::InvalidRequest => ENOSPC,
            })?;
        let value = make(first).inspect_err(|_| space.free(first))?;
        entry.content.populate((first, value.clone()));
        Ok(Reservation {
            space: space.clone(),
            first,
            value,
        })
    }

    /// The value whose range has all these pages. Process or softirq context.
    pub fn find(&self, first: usize, pages: usize) -> Option<Arc<T>> {
        let mut tree = self.tree.lock();
        let entry = tree.load(first)?;
        let (start, value) = entry.content.as_ref()?;
        let left = entry.pages.checked_sub(first.checked_sub(*start)?)?;
        (pages != 0 && pages <= left).then(|| value.clone())
    }

    fn free(&self, first: usize) {
        drop(self.tree.erase(first));
    }
}

/// A range of offsets, which is free again when this is dropped. Dropping may sleep.
pub struct Reservation<T: Send + Sync + 'static> {
    space: Arc<OffsetSpace<T>>,
    first: usize,
    value: Arc<T>,
}

impl<T: Send + Sync + 'static> Reservation<T> {
    /// The first page.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The value.
    pub fn value(&self) -> &Arc<T> {
        &self.value
    }
}

impl<T: Send + Sync + 'static> Drop for Reservation<T> {
    fn drop(&mut self) {
        self.space.free(self.first);
    }
}
