// SPDX-License-Identifier: GPL-2.0-only

//! Status words: what a context's process reads of its connections without a call
//! (`SI-SEQ-10`).

use crate::{
    session::Mapper,
    uapi::MP_CONNECTION_OPERATIONAL,
    window::Watch, //
};
use kernel::{
    new_mutex,
    new_spinlock,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLock, //
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
        let shown = pin_init!(Cell {
            status: self.clone(),
            at,
            shown <- new_spinlock!(Shown::default()),
        });
        match Arc::pin_init(shown, GFP_KERNEL_ACCOUNT) {
            Ok(cell) => Ok(Word(cell)),
            Err(e) => {
                self.give_back(at);
                Err(e)
            }
        }
    }

    fn give_back(&self, at: usize) {
        if let Some(used) = self.used.lock().get_mut(at) {
            *used = false;
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Status {
    fn drop(self: Pin<&mut Self>) {
        drop(self.published.mapping().revoke());
    }
}

/// What a word tells.
#[derive(Default)]
struct Shown {
    state: u32,
    count: u32,
    /// The connection's memory has gone, and its state is still to tell that.
    has_gone: bool,
    /// The word is nobody's any more.
    is_over: bool,
}

impl Shown {
    /// The state in the lower half, and the count in the upper one.
    fn word(&self) -> u64 {
        let early = self.has_gone && self.state & MP_CONNECTION_OPERATIONAL != 0;
        let (state, count) = match early {
            true => (
                self.state & !MP_CONNECTION_OPERATIONAL,
                self.count.wrapping_add(1),
            ),
            false => (self.state, self.count),
        };
        match self.is_over {
            true => 0,
            false => u64::from(count) << 32 | u64::from(state),
        }
    }
}

/// A place of a word.
#[pin_data]
struct Cell {
    status: Arc<Status>,
    at: usize,
    #[pin]
    shown: SpinLock<Shown>,
}

impl Cell {
    fn change(&self, change: impl FnOnce(&mut Shown)) {
        let mut shown = self.shown.lock();
        // Then the place may be another one's.
        if shown.is_over {
            return;
        }
        change(&mut shown);
        // Inside: there is such a word.
        let _ = self.status.pages.0.write_u64(self.at * WORD, shown.word());
    }
}

impl Watch for Cell {
    fn back(&self) {
        self.change(|shown| shown.has_gone = false);
    }

    fn gone(&self) {
        self.change(|shown| shown.has_gone = true);
    }
}

/// A status word; zero before and after.
pub(crate) struct Word(Arc<Cell>);

impl Word {
    /// Show a state and a count.
    pub(crate) fn set(&self, state: u32, count: u32) {
        self.0
            .change(|shown| (shown.state, shown.count) = (state, count));
    }

    /// What is told when the memory of its connection goes, so that the word says so before
    /// anybody stores into the scrap page.
    pub(crate) fn watch(&self) -> Arc<dyn Watch> {
        self.0.clone()
    }

    /// Bytes from the first status word to this one.
    pub(crate) fn position(&self) -> u32 {
        (self.0.at * WORD) as u32
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        self.0.change(|shown| shown.is_over = true);
        self.0.status.give_back(self.0.at);
    }
}
