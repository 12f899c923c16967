// SPDX-License-Identifier: GPL-2.0-only

//! Memory of a process that stays where it is: pinned, for as long as somebody needs it.
//!
//! The pages are charged to the user whose process pins them, who may have `RLIMIT_MEMLOCK` of
//! them, and to whomever else the caller charges ([`Toll`]): a user of a namespace has a limit of
//! its own. The process may unmap them, or end: they stay what they are until the last reference
//! goes. The process, and whoever else has them, may write there at any time.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use crate::error;
use core::ptr::NonNull;
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};
use mp_bindings as bindings;

/// Most pages that are pinned without a pause.
const BATCH: usize = 1024;

/// Pages charged to a user, and shown as pinned in the status of a process.
///
/// # Invariants
///
/// `user` is a user to whom this has a reference, and is charged for so many pages. `mm` is memory of
/// a process to which this has one, and has them among those that are pinned.
struct Charge {
    user: NonNull<c_void>,
    mm: *mut c_void,
    pages: usize,
}

impl Charge {
    /// Charge the caller's user, who may have `most`.
    ///
    /// # Errors
    ///
    /// `EDQUOT`.
    fn new(pages: usize, most: usize) -> Result<Self> {
        let mut mm = core::ptr::null_mut();
        // SAFETY: In process context; the result is written to what is there.
        let user = unsafe { bindings::memlock_charge(pages as c_ulong, most as c_ulong, &mut mm) };
        // INVARIANT: Just charged, with references that are ours.
        Ok(Self {
            user: NonNull::new(user).ok_or_else(error::quota)?,
            mm,
            pages,
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { bindings::memlock_give_back(self.user.as_ptr(), self.mm, self.pages as c_ulong) };
    }
}

/// What pages cost besides: it is given back when it is dropped, after the pages.
pub type Toll = KBox<dyn Send + Sync>;

/// What the pages are pinned for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To be read.
    Read,
    /// To be written as well.
    Write,
}

/// A range of a process's memory, pinned. Dropping it sleeps.
///
/// # Invariants
///
/// `pages` are pinned, for `purpose`; all that the range touches once it is made.
pub struct UserPages {
    pages: KVVec<*mut bindings::page>,
    /// Where in the first page the range begins.
    start: usize,
    len: usize,
    purpose: Purpose,
    /// Goes after the pages.
    _charge: Charge,
    _toll: Toll,
}

// SAFETY: Pinned pages belong to nobody in particular.
unsafe impl Send for UserPages {}
// SAFETY: As above; what is in them may change at any time and is only copied.
unsafe impl Sync for UserPages {}

impl UserPages {
    /// Pin `len` bytes at an address of the calling process. `charge` is told how many pages that
    /// are, and how many its user may have. Process context; sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes; `EFAULT` if the process has no such memory, or may not write
    /// it, or if it cannot be pinned; `EDQUOT` for more than its user may have; `ENOMEM`; that of
    /// `charge`.
    pub fn pin(
        address: u64,
        len: u64,
        purpose: Purpose,
        charge: impl FnOnce(usize, usize) -> Result<Toll>,
    ) -> Result<Self> {
        if len == 0 {
            return Err(EINVAL);
        }
        let first = usize::try_from(address).map_err(|_| EFAULT)?;
        let len = usize::try_from(len).map_err(|_| EFAULT)?;
        let start = first % PAGE_SIZE;
        let end = start.checked_add(len).ok_or(EFAULT)?;
        let count = end.div_ceil(PAGE_SIZE);
        // SAFETY: Always safe, in process context.
        let most = unsafe { bindings::memlock_most() } as usize;
        let toll = charge(count, most)?;
        let mut this = Self {
            pages: KVVec::new(),
            start,
            len,
            purpose,
            _charge: Charge::new(count, most)?,
            _toll: toll,
        };
        this.fill(first - start, count)?;
        Ok(this)
    }

    /// Pin `count` pages from `address` on. The list grows with what the process has, not with what
    /// it says.
    fn fill(&mut self, address: usize, count: usize) -> Result {
        while self.pages.len() < count {
            let had = self.pages.len();
            let at = address.checked_add(had * PAGE_SIZE).ok_or(EFAULT)?;
            let more = (count - had).min(BATCH);
            self.pages
                .reserve(more, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?;
            let room = self.pages.spare_capacity_mut().as_mut_ptr();
            let is_write = self.purpose == Purpose::Write;
            // SAFETY: There is room for that many pointers.
            let pinned = unsafe {
                bindings::pin_pages(at as c_ulong, more as c_uint, is_write, room.cast())
            };
            let pinned = usize::try_from(pinned).map_err(|_| match pinned as i32 {
                e if e == ENOMEM.to_errno() => ENOMEM,
                e if e == EINTR.to_errno() => EINTR,
                _ => EFAULT,
            })?;
            if pinned == 0 {
                return Err(EFAULT);
            }
            // SAFETY: The function has written so many, at most as many as there is room for.
            unsafe { self.pages.inc_len(pinned.min(more)) };
        }
        Ok(())
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where in its first page the range begins.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Whether it is whole pages, which may be written: whoever is shown the pages is shown
    /// nothing else, and may do with them what is possible then.
    pub fn can_be_shown(&self) -> bool {
        let is_whole = self.start == 0 && self.len % PAGE_SIZE == 0;
        is_whole && self.may_be_written()
    }

    /// Whether it may be written.
    pub fn may_be_written(&self) -> bool {
        self.purpose == Purpose::Write
    }

    /// The physical address of its page number `page`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has not so many.
    pub fn phys_address(&self, page: usize) -> Result<u64> {
        let page = *self.pages.get(page).ok_or(EINVAL)?;
        // SAFETY: By the invariants a page.
        Ok(unsafe { bindings::page_to_phys(page) })
    }

    /// The pages for C, if they may be written.
    pub(crate) fn writable(&self) -> Option<&[*mut bindings::page]> {
        self.may_be_written().then_some(&self.pages)
    }

    /// Call `f` with the parts of `count` bytes at `at`: page, offset in it, offset from
    /// `at`, bytes.
    fn parts(
        &self,
        at: usize,
        count: usize,
        mut f: impl FnMut(*mut bindings::page, usize, usize, usize),
    ) -> Result {
        let end = at.checked_add(count).filter(|end| *end <= self.len);
        end.ok_or(EINVAL)?;
        let mut done = 0;
        while done < count {
            let place = self.start + at + done;
            let page = *self.pages.get(place / PAGE_SIZE).ok_or(EINVAL)?;
            let off = place % PAGE_SIZE;
            let n = (PAGE_SIZE - off).min(count - done);
            f(page, off, done, n);
            done += n;
        }
        Ok(())
    }

    /// Fill all of `to` from `at`; bytes that are written meanwhile may be seen old or new.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result {
        let to_ptr = to.as_mut_ptr();
        self.parts(at, to.len(), |page, off, done, n| {
            // SAFETY: A pinned page, and `n` bytes inside of it and of `to`.
            unsafe { bindings::page_load(page, off, to_ptr.add(done).cast(), n) };
        })
    }

    /// Copy all of `from` to `at`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, `EPERM` if it was pinned to be read.
    pub fn write(&self, at: usize, from: &[u8]) -> Result {
        if !self.may_be_written() {
            return Err(EPERM);
        }
        self.parts(at, from.len(), |page, off, done, n| {
            // SAFETY: As for `read`, and pinned to be written.
            unsafe { bindings::page_store(page, off, from.as_ptr().add(done).cast(), n) };
        })
    }
}

impl Drop for UserPages {
    fn drop(&mut self) {
        let (pages, count) = (self.pages.as_mut_ptr(), self.pages.len() as c_ulong);
        // SAFETY: By the invariants; nobody reaches them through this any more.
        unsafe { bindings::unpin_pages(pages, count, self.may_be_written()) };
    }
}
