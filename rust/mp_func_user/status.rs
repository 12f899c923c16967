// SPDX-License-Identifier: GPL-2.0-only

//! Status words: what a context's process reads of its connections without a call
//! (`SI-SEQ-10`).

use crate::session::Mapper;
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    shared_pages::SharedPages,
    vma::{
        Cache,
        Frame,
        Frames,
        Published, //
    }, //
};

/// Bytes of a word.
const WORD: usize = core::mem::size_of::<u64>();

/// The pages with the words.
struct Pages(SharedPages);

// SAFETY: The pages are this object's alone. The kernel writes words there, and never reads them.
unsafe impl Frames for Pages {
    fn frame(&self, page: usize) -> Option<Frame> {
        let phys = self.0.phys_address(page.checked_mul(PAGE_SIZE)?).ok()?;
        Some(Frame::at(phys, Cache::Cached))
    }
}

/// The status words of a context.
#[pin_data(PinnedDrop)]
pub(crate) struct Status {
    pages: Arc<Pages>,
    published: Published,
    /// Which words are somebody's.
    #[pin]
    used: Mutex<KVec<bool>>,
}

impl Status {
    /// So many words, mapped where `mapper` says.
    ///
    /// # Errors
    ///
    /// `ENOSPC` without free offsets, `ENOMEM`.
    pub(crate) fn new(words: u32, mapper: &Mapper) -> Result<Arc<Self>> {
        let words = (words as usize).max(1);
        let count = (words * WORD).div_ceil(PAGE_SIZE);
        let pages = SharedPages::of_process(count)?;
        pages.populate(0, count * PAGE_SIZE)?;
        let pages = Arc::new(Pages(pages), GFP_KERNEL_ACCOUNT)?;
        let published = mapper
            .space
            .publish(count, mapper.owner, false, mapper.scrap.clone())?;
        published.mapping().show(pages.clone());
        let free = KVec::from_elem(false, words, GFP_KERNEL_ACCOUNT)?;
        let init = pin_init!(Self {
            pages,
            published,
            used <- new_mutex!(free),
        });
        Arc::pin_init(init, GFP_KERNEL_ACCOUNT)
    }

    /// The offset for `mmap()` and the length, in bytes.
    pub(crate) fn place(&self) -> (u64, u64) {
        let page = PAGE_SIZE as u64;
        let first = self.published.mapping().first() as u64;
        (first * page, self.published.mapping().pages() as u64 * page)
    }

    /// A word that nobody uses.
    ///
    /// # Errors
    ///
    /// `ENOSPC`.
    pub(crate) fn word(self: &Arc<Self>) -> Result<Word> {
        let mut used = self.used.lock();
        let at = used.iter().position(|used| !used).ok_or(ENOSPC)?;
        *used.get_mut(at).ok_or(ENOSPC)? = true;
        drop(used);
        let status = self.clone();
        Ok(Word { status, at })
    }
}

#[pinned_drop]
impl PinnedDrop for Status {
    fn drop(self: Pin<&mut Self>) {
        drop(self.published.mapping().revoke());
    }
}

/// A status word; zero before and after.
pub(crate) struct Word {
    status: Arc<Status>,
    at: usize,
}

impl Word {
    /// Show a state and a count.
    pub(crate) fn set(&self, state: u32, count: u32) {
        let word = u64::from(count) << 32 | u64::from(state);
        // Inside: there is such a word.
        let _ = self.status.pages.0.write_u64(self.at * WORD, word);
    }

    /// Bytes from the first word to this one.
    pub(crate) fn position(&self) -> u32 {
        (self.at * WORD) as u32
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        self.set(0, 0);
        if let Some(used) = self.status.used.lock().get_mut(self.at) {
            *used = false;
        }
    }
}
