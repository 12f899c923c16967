// SPDX-License-Identifier: GPL-2.0-only

//! Zeroes memory that nobody has, so that who gets it next need not wait for that.
//!
//! A [`Stock`](super::stock::Stock) has one. Pages that may not be zero are *stained*:
//! all of them at first, and then those that come back. The work here cleans them, a few
//! at a time; what is cut before it has come there is cleaned by
//! [`Cleaner::prepare`], at once. It does not know what is cut, and never touches a page
//! that is not stained.

use super::LocalBytes;
use core::ops::Range;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        rcu,
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    error,
    sync::RcuArc,
    worker::Work, //
};
use mp_proto::layout::PAGE;

/// Pages that are zeroed without a pause.
const STRETCH: usize = 16;

/// Stretches that are zeroed before others on the same workqueue may run.
const BATCH: usize = 16;

/// A [`LocalBytes`] behind a thin pointer.
pub(super) struct LocalRef(Arc<dyn LocalBytes>);

/// Which pages are stained, as bits.
struct Stains {
    words: KVVec<u64>,
    /// The work has been at all pages before this one.
    next: usize,
}

/// Whole pages around some bytes.
fn pages(off: u64, len: u64) -> Range<usize> {
    let end = off.saturating_add(len).div_ceil(PAGE);
    (off / PAGE) as usize..end as usize
}

/// Where pages begin, and how many bytes they are.
fn place(pages: &Range<usize>) -> (u64, u64) {
    (pages.start as u64 * PAGE, pages.len() as u64 * PAGE)
}

impl Stains {
    fn new(pages: usize) -> Result<Self> {
        let words = KVVec::from_elem(u64::MAX, pages.div_ceil(64), GFP_KERNEL)?;
        Ok(Self { words, next: 0 })
    }

    fn is_stained(&self, page: usize) -> bool {
        let word = self.words.get(page / 64);
        word.is_some_and(|word| word >> (page % 64) & 1 != 0)
    }

    fn set(&mut self, pages: Range<usize>, stained: bool) {
        for page in pages {
            if let Some(word) = self.words.get_mut(page / 64) {
                let bit = 1 << (page % 64);
                *word = if stained { *word | bit } else { *word & !bit };
            }
        }
    }

    /// The first stained page of some.
    fn first(&self, pages: Range<usize>) -> Option<usize> {
        let mut page = pages.start;
        while page < pages.end {
            let word = self.words.get(page / 64)? >> (page % 64);
            if word != 0 {
                return Some(page + word.trailing_zeros() as usize).filter(|at| *at < pages.end);
            }
            // The next word.
            page = (page / 64 + 1) * 64;
        }
        None
    }

    /// The first stained pages of some, at most a stretch of them.
    fn stretch(&self, pages: Range<usize>) -> Option<Range<usize>> {
        let start = self.first(pages.clone())?;
        let most = pages.end.min(start + STRETCH);
        let end = (start..most).find(|page| !self.is_stained(*page));
        Some(start..end.unwrap_or(most))
    }
}

/// Memory, and what of it may not be zero.
#[pin_data]
pub(super) struct Cleaner {
    pages: usize,
    bytes: RcuArc<LocalRef>,
    /// Held while pages are zeroed, for which the memory must stay.
    #[pin]
    stains: Mutex<Stains>,
}

impl Cleaner {
    /// For the first `len` bytes of some memory, whole pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(len: u64, bytes: Arc<dyn LocalBytes>) -> Result<Arc<Self>> {
        let all = pages(0, len);
        let stains = Stains::new(all.end)?;
        let cell = RcuArc::empty();
        cell.replace(Some(Arc::new(LocalRef(bytes), GFP_KERNEL)?));
        Arc::pin_init(
            pin_init!(Self {
                pages: all.end,
                bytes: cell,
                stains <- new_mutex!(stains),
            }),
            GFP_KERNEL,
        )
    }

    /// The memory is about to go: no call into it is under way when this returns. What
    /// the caller gets may be freed once nobody maps it any more.
    #[must_use]
    pub(super) fn close(&self) -> Option<Arc<LocalRef>> {
        let _stains = self.stains.lock();
        self.bytes.replace(None)
    }

    /// A piece comes back, before anybody else can get it.
    pub(super) fn stain(&self, off: u64, len: u64) {
        let mut stains = self.stains.lock();
        let pages = pages(off, len);
        stains.next = stains.next.min(pages.start);
        stains.set(pages, true);
    }

    /// Make a piece ready that was just cut: present, and all zero, also behind its end
    /// in the last page, which whoever maps it sees as well. A stretch at a time: nobody
    /// waits until all of a large piece is ready but its owner.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOTCONN` if the memory has gone.
    pub(super) fn prepare(&self, off: u64, len: u64) -> Result {
        let Range { mut start, end } = pages(off, len);
        while start < end {
            let part = start..end.min(start + STRETCH);
            start = part.end;
            self.prepare_stretch(part)?;
        }
        Ok(())
    }

    fn prepare_stretch(&self, pages: Range<usize>) -> Result {
        let mut stains = self.stains.lock();
        let bytes = self.bytes.get().ok_or(error::not_connected())?;
        let (off, len) = place(&pages);
        bytes.0.prepare(off, len)?;
        while let Some(stained) = stains.stretch(pages.clone()) {
            let (off, len) = place(&stained);
            bytes.0.zero(off, len)?;
            stains.set(stained, false);
        }
        Ok(())
    }

    /// Run `f` on the memory.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if it has gone, or that of `f`.
    pub(super) fn with_bytes<R>(&self, f: impl FnOnce(&dyn LocalBytes) -> Result<R>) -> Result<R> {
        match self.bytes.load(&rcu::read_lock()) {
            Some(bytes) => f(&*bytes.0),
            None => Err(error::not_connected()),
        }
    }
}

impl Work for Cleaner {
    fn run(&self) -> Option<u32> {
        for _ in 0..BATCH {
            let mut stains = self.stains.lock();
            let bytes = self.bytes.get()?;
            let stretch = stains.stretch(stains.next..self.pages)?;
            stains.next = stretch.end;
            let (off, len) = place(&stretch);
            // What is not present yet stays stained.
            if bytes.0.zero(off, len).is_ok() {
                stains.set(stretch, false);
            }
        }
        Some(0)
    }
}
