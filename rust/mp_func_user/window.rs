// SPDX-License-Identifier: GPL-2.0-only

//! Windows of sessions: memory that processes map, and that can be taken away from
//! them at any time.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    dma_buf::{
        Buffer,
        Part, //
    },
    error,
    iomem::DeviceRange,
    iommu::Range,
    user_pages::UserPages,
    vma::{
        AddressSpace,
        Cache,
        Frame,
        Frames,
        Mapping,
        Published,
        ScrapPage, //
    }, //
};
use mp_proto::{
    fabric::Life,
    sharing::Rights, //
};
use mp_transport::memory::{
    self,
    run_of,
    Exposure,
    Hold,
    Holder,
    Local,
    PageFrame,
    Remote,
    Runs, //
};

/// Bytes of a page.
const PAGE: u64 = kernel::page::PAGE_SIZE as u64;

/// Memory of the partner's host that no window leads to: what is stored there is sent. See
/// [`stores`](crate::stores).
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    /// The partner's service, which has it.
    pub(crate) life: Life,
    /// Where it begins in that host's arena.
    pub(crate) off: u64,
    pub(crate) len: u64,
}

/// The memory of a window.
pub(crate) enum Piece {
    /// Memory of this host, which the partner reaches.
    Local(Local),
    /// Memory of the partner's host.
    Remote(Remote),
    /// The same where no window leads.
    Sent(Sent),
    /// Physical memory of this host, which the partner alone reaches (`PXI-REQPS-13`).
    Exposed(Exposure),
    /// Memory of a process of this host.
    Pages(Arc<UserPages>),
    /// Physical memory of this host, of whole pages, which is not the kernel's.
    Physical(DeviceRange),
    /// Memory that a driver has exported.
    DmaBuf(Arc<Part>),
}

impl Piece {
    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Piece::Local(local) => local.len(),
            Piece::Remote(remote) => remote.len(),
            Piece::Sent(sent) => sent.len,
            Piece::Exposed(exposure) => exposure.len(),
            Piece::Pages(pages) => pages.len() as u64,
            Piece::Physical(range) => range.len(),
            Piece::DmaBuf(part) => part.len(),
        }
    }

    /// Where the partner reaches it, if it is memory of this host.
    pub(crate) fn off(&self) -> Option<u64> {
        match self {
            Piece::Local(local) => Some(local.off()),
            Piece::Exposed(exposure) => Some(exposure.off()),
            Piece::Remote(_)
            | Piece::Sent(_)
            | Piece::Pages(_)
            | Piece::Physical(_)
            | Piece::DmaBuf(_) => None,
        }
    }

    /// Whether a process may map it.
    pub(crate) fn is_mappable(&self) -> bool {
        let is_elsewhere = matches!(self, Piece::Exposed(_) | Piece::Sent(_) | Piece::DmaBuf(_));
        !is_elsewhere && self.can_be_shown()
    }

    /// Whether others may be shown its pages, by windows and mappings: they are nothing else, and
    /// may be written.
    pub(crate) fn can_be_shown(&self) -> bool {
        match self {
            Piece::Pages(pages) => pages.can_be_shown(),
            _ => true,
        }
    }

    /// Whether its pages may be given to others for as long as they like: they are ordinary memory
    /// of this host, and stay as long as the piece does, whatever becomes of links and bridges.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Piece::Local(local) => local.is_lasting(),
            Piece::Pages(pages) => pages.can_be_shown(),
            _ => false,
        }
    }

    /// Where byte `at` of its pages is, and how many bytes of at most `most` are in one run from
    /// there, up to the end of its last page.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    pub(crate) fn run_of_pages(&self, at: u64, most: u64) -> Result<(u64, u64)> {
        run_of(at, most, |page| Ok(self.page(page)?.phys))
    }

    /// Which copies this host's kernel makes: out of it, and into it.
    pub(crate) fn copied(&self) -> Rights {
        match self {
            Piece::Local(_) => Rights::ALL,
            Piece::Pages(pages) => Rights {
                read: true,
                write: pages.may_be_written(),
            },
            Piece::Remote(_)
            | Piece::Sent(_)
            | Piece::Exposed(_)
            | Piece::Physical(_)
            | Piece::DmaBuf(_) => Rights::NONE,
        }
    }

    /// Where in its first page it begins.
    fn start(&self) -> u64 {
        match self {
            Piece::Pages(pages) => pages.start() as u64,
            _ => 0,
        }
    }

    fn page(&self, page: u64) -> Result<PageFrame> {
        match self {
            Piece::Local(local) => local.page(page),
            Piece::Remote(remote) => remote.page(page),
            Piece::Exposed(_) | Piece::Sent(_) | Piece::DmaBuf(_) => Err(error::unsupported()),
            Piece::Pages(pages) => {
                let phys = pages.phys_address(usize::try_from(page)?)?;
                PageFrame::at(phys, memory::Cache::Cached)
            }
            Piece::Physical(range) => {
                let off = page.checked_mul(PAGE).filter(|off| *off < range.len());
                let at = off.and_then(|off| range.phys().checked_add(off));
                let at = at.ok_or(EINVAL)?;
                PageFrame::at(at, memory::Cache::WriteCombining)
            }
        }
    }

    /// The physical address of its byte `at`, which is in one run with the `len` bytes from
    /// there.
    ///
    /// # Errors
    ///
    /// `EINVAL` for nothing, `ERANGE` outside, `ENXIO` if it is not in one run, `EOPNOTSUPP`
    /// if this host does not reach it, `ENOTCONN` if its memory has gone.
    pub(crate) fn phys_address(&self, at: u64, len: u64) -> Result<u64> {
        let end = at.checked_add(len);
        if end.is_none_or(|end| end > self.len()) {
            return Err(ERANGE);
        }
        let at = at.checked_add(self.start()).ok_or(ERANGE)?;
        match run_of(at, len, |page| Ok(self.page(page)?.phys))? {
            (phys, found) if found == len => Ok(phys),
            _ => Err(ENXIO),
        }
    }

    /// Fill all of `to` from `at`, in memory of this host.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, `ENOTCONN` if it has gone, `EOPNOTSUPP` if the kernel does not read
    /// it.
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) -> Result {
        match self {
            Piece::Local(local) => local.read(at, to),
            Piece::Pages(pages) => pages.read(usize::try_from(at)?, to),
            _ => Err(error::unsupported()),
        }
    }

    /// Copy all of `from` to `at`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, `ENOTCONN` if it has gone, `EOPNOTSUPP` if the kernel does not write
    /// there.
    pub(crate) fn write(&self, at: u64, from: &[u8]) -> Result {
        match self {
            Piece::Local(local) => local.write(at, from),
            Piece::Remote(remote) => remote.write(at, from),
            Piece::Pages(pages) => pages.write(usize::try_from(at)?, from),
            Piece::Sent(_) | Piece::Exposed(_) | Piece::Physical(_) | Piece::DmaBuf(_) => {
                Err(error::unsupported())
            }
        }
    }

    /// Load an aligned word of this host's memory in one piece. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside, `ENOTCONN` if the memory has gone, `EOPNOTSUPP` if
    /// the kernel does not load it.
    pub(crate) fn load_u64(&self, at: u64) -> Result<u64> {
        match self {
            Piece::Local(local) => local.load_u64(at),
            _ => Err(error::unsupported()),
        }
    }

    /// Store an aligned word of the partner's memory in one piece; nothing once the epoch is
    /// over.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside, `EOPNOTSUPP` if the kernel does not store there.
    pub(crate) fn store_u64(&self, at: u64, value: u64) -> Result {
        match self {
            Piece::Remote(remote) => match remote.store_u64(at, value) {
                Err(e) if e == error::not_connected() => Ok(()),
                stored => stored,
            },
            _ => Err(error::unsupported()),
        }
    }

    /// Exchange an aligned word of this host's memory that has the value `expected` for `desired`, in
    /// one step; whether it had. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside, `ENOTCONN` if the memory has gone, `EOPNOTSUPP` if
    /// the kernel does not write there, `EPERM` if it must not.
    pub(crate) fn exchange_u64(&self, at: u64, expected: u64, desired: u64) -> Result<bool> {
        match self {
            Piece::Local(local) => local.exchange_u64(at, expected, desired),
            Piece::Pages(pages) => pages.exchange_u64(usize::try_from(at)?, expected, desired),
            _ => Err(error::unsupported()),
        }
    }

    /// Where devices of this host reach a remote piece.
    ///
    /// # Errors
    ///
    /// `ENXIO` of a local one, `EOPNOTSUPP` if devices cannot reach it, `ENOTCONN` when
    /// the link is down.
    pub(crate) fn bus_range(&self) -> Result<Range> {
        let remote = match self {
            Piece::Remote(remote) => remote,
            Piece::Sent(_) => return Err(error::unsupported()),
            _ => return Err(ENXIO),
        };
        let (bus, phys) = (remote.bus_address(0)?, remote.page(0)?.phys);
        let len = remote.len().checked_next_multiple_of(PAGE).ok_or(EINVAL)?;
        if bus % PAGE != 0 {
            return Err(error::unsupported());
        }
        Ok(Range {
            bus,
            phys,
            len: usize::try_from(len)?,
        })
    }

    /// No engine copies to a remote piece any more when this returns. Sleeps.
    pub(crate) fn stop_copies(&self) {
        if let Piece::Remote(remote) = self {
            remote.stop();
        }
    }

    /// Let `holder` be told when the memory goes; `None` if it is there as long as the piece.
    /// Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if it has gone, `ENOMEM`.
    pub(crate) fn hold(&self, holder: Arc<dyn Holder>) -> Result<Option<Hold>> {
        match self {
            Piece::Local(local) => local.hold(holder).map(Some),
            Piece::Remote(remote) => remote.hold(holder).map(Some),
            Piece::Exposed(_) | Piece::Sent(_) => Err(error::unsupported()),
            Piece::Pages(_) | Piece::Physical(_) | Piece::DmaBuf(_) => Ok(None),
        }
    }
}

// SAFETY: Until a piece is dropped, it is seen by those alone to whom it was given on purpose: its
// owner, partners, those it was handed to; a remote one leads into a window of the bridge in any case. Nothing of
// the kernel's is in its pages: those of a process are pinned, physical memory is not the
// kernel's.
unsafe impl Frames for Piece {
    fn frame(&self, page: usize) -> Option<Frame> {
        self.page(page as u64).ok().map(shown)
    }
}

/// The page as processes see it.
fn shown(page: PageFrame) -> Frame {
    let cache = match page.cache {
        memory::Cache::Cached => Cache::Cached,
        memory::Cache::WriteCombining => Cache::WriteCombining,
    };
    Frame::at(page.phys, cache)
}

// SAFETY: A local piece stays allocated as long as it is there and its memory does, of which
// the holder is told; pages of a process stay pinned as long as it is there.
unsafe impl Runs for Piece {
    fn run(&self, at: u64, most: u64) -> Result<(u64, u64)> {
        match self {
            Piece::Local(local) => local.run(at, most),
            Piece::Pages(pages) => {
                let most = most.min((pages.len() as u64).saturating_sub(at));
                let at = at.checked_add(self.start()).ok_or(EINVAL)?;
                run_of(at, most, |page| pages.phys_address(usize::try_from(page)?))
            }
            _ => Err(error::unsupported()),
        }
    }

    fn hold(&self, holder: Arc<dyn Holder>) -> Result<Option<Hold>> {
        Piece::hold(self, holder)
    }
}

/// The memory of a piece, as a dma-buf has it.
///
/// # Invariants
///
/// The piece is [lasting](Piece::is_lasting).
pub(crate) struct Lasting<T> {
    piece: Arc<Piece>,
    is_writable: bool,
    /// What the piece is of, which ends after it.
    _owner: T,
}

impl<T> Lasting<T> {
    /// That of a piece.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is not lasting.
    pub(crate) fn new(piece: Arc<Piece>, is_writable: bool, owner: T) -> Result<Self> {
        match piece.is_lasting() {
            // INVARIANT: It is.
            true => Ok(Self {
                piece,
                is_writable,
                _owner: owner,
            }),
            false => Err(error::unsupported()),
        }
    }
}

// SAFETY: By the invariants the pages are ordinary ones, which stay as long as the piece; they are
// those of a segment alone, to be shown to others.
unsafe impl<T: Send + Sync + 'static> Buffer for Lasting<T> {
    fn len(&self) -> usize {
        (self.piece.len() as usize).next_multiple_of(PAGE as usize)
    }

    fn run(&self, at: usize, most: usize) -> Result<(u64, usize)> {
        let (phys, len) = self.piece.run_of_pages(at as u64, most as u64)?;
        Ok((phys, usize::try_from(len)?))
    }

    fn is_writable(&self) -> bool {
        self.is_writable
    }
}

/// Is told of the memory of a window. A leaf: it waits for nobody.
pub(crate) trait Watch: Send + Sync + 'static {
    /// Memory is about to be shown.
    fn back(&self);

    /// It has gone. When this returns, nobody has stored yet into what is shown instead; it may come
    /// more than once.
    fn gone(&self);
}

/// A piece as processes see it.
pub(crate) struct Watched {
    pub(crate) piece: Arc<Piece>,
    pub(crate) watch: Option<Arc<dyn Watch>>,
}

// SAFETY: As of the piece, which it has.
unsafe impl Frames for Watched {
    fn frame(&self, page: usize) -> Option<Frame> {
        let found = self.piece.page(page as u64);
        // The process sees the scrap page there.
        if let (Err(_), Some(watch)) = (&found, &self.watch) {
            watch.gone();
        }
        found.ok().map(shown)
    }
}

/// Takes a mapping away when its memory goes.
struct Revoker {
    mapping: Arc<Mapping>,
    watch: Option<Arc<dyn Watch>>,
}

impl Holder for Revoker {
    fn revoke(&self) {
        if let Some(watch) = &self.watch {
            watch.gone();
        }
        drop(self.mapping.revoke());
    }
}

/// A piece that a process may map.
///
/// Dropping it takes the memory away from all processes, and gives the piece back.
pub(crate) struct Window {
    published: Published,
    len: u64,
    /// Told when the memory goes; ends before the piece does.
    hold: Option<Hold>,
    watch: Option<Arc<dyn Watch>>,
    /// None once it was taken away.
    piece: Option<Arc<Piece>>,
}

impl Window {
    /// Let the process of context `owner` map a piece, which is
    /// [mappable](Piece::is_mappable), in its address space, also to write there if it
    /// `is_writable`. If the
    /// memory has gone already, the window has its size and shows what all see whose
    /// memory has been taken away. `watch` is told of what it shows.
    ///
    /// # Errors
    ///
    /// `ENOSPC` without a free offset, `EOPNOTSUPP` of another piece, or where the pages of this
    /// kernel are none of the fabric's, `ENOMEM`.
    pub(crate) fn new(
        piece: Arc<Piece>,
        space: &Arc<AddressSpace>,
        (owner, is_writable): (u64, bool),
        scrap: Arc<ScrapPage>,
        watch: Option<Arc<dyn Watch>>,
    ) -> Result<Self> {
        if !piece.is_mappable() {
            return Err(error::unsupported());
        }
        let pages = piece.len().div_ceil(PAGE) as usize;
        match piece.page(0) {
            Err(e) if e != error::not_connected() => return Err(e),
            _ => {}
        }
        // Another thread that guesses the offset may map it from here on, and sees the scrap
        // page until the piece is shown.
        let mut window = Self {
            published: space.publish(pages, owner, is_writable, scrap)?,
            len: piece.len(),
            hold: None,
            watch,
            piece: None,
        };
        window.show(piece)?;
        Ok(window)
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The offset for `mmap()`, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.published.mapping().first() as u64 * PAGE
    }

    /// Show a piece where nothing is shown, or no more, of the size of the one before. If its
    /// memory has gone already, the scrap page stays there.
    ///
    /// The hold comes first. Whoever takes the memory away empties the place that
    /// [`Piece::page`] asks before the holders are told: if that happens between the two
    /// steps, what is shown has no frames.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing is shown.
    pub(crate) fn show(&mut self, piece: Arc<Piece>) -> Result {
        self.show_once_held(piece, Piece::hold)
    }

    /// As [`show`](Self::show), where `hold` is [`Piece::hold`], and what a test does around it.
    ///
    /// # Errors
    ///
    /// Those of `hold`, `ENOMEM`; nothing is shown.
    pub(crate) fn show_once_held(
        &mut self,
        piece: Arc<Piece>,
        hold: impl FnOnce(&Piece, Arc<dyn Holder>) -> Result<Option<Hold>>,
    ) -> Result {
        drop(self.hold.take());
        let mapping = self.published.mapping();
        let watched = Watched {
            piece: piece.clone(),
            watch: self.watch.clone(),
        };
        let watched = Arc::new(watched, GFP_KERNEL_ACCOUNT)?;
        let revoker = Revoker {
            mapping: mapping.clone(),
            watch: self.watch.clone(),
        };
        let revoker = Arc::new(revoker, GFP_KERNEL_ACCOUNT)?;
        self.tell(Watch::back);
        match hold(&piece, revoker) {
            Ok(hold) => {
                self.hold = hold;
                mapping.show(watched);
            }
            Err(e) if e == error::not_connected() => self.tell(Watch::gone),
            Err(e) => return Err(e),
        }
        self.piece = Some(piece);
        Ok(())
    }

    fn tell(&self, what: impl Fn(&dyn Watch)) {
        if let Some(watch) = &self.watch {
            what(&**watch);
        }
    }

    /// Take the memory away from all processes, and let go of it.
    pub(crate) fn release(&mut self) {
        self.forsake();
        drop(self.hold.take());
        self.piece = None;
    }

    /// Take the memory away from all processes.
    pub(crate) fn forsake(&self) {
        drop(self.published.mapping().revoke());
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.forsake();
        drop(self.hold.take());
    }
}
