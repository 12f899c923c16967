// SPDX-License-Identifier: GPL-2.0

//! Windows of sessions: memory that processes map, and that can be taken away from
//! them at any time.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    error,
    iommu::Range,
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
use mp_transport::memory::{
    self,
    Exposure,
    Hold,
    Holder,
    Local,
    PageFrame,
    Remote, //
};

/// Bytes of a page.
const PAGE: u64 = kernel::page::PAGE_SIZE as u64;

/// The memory of a window.
pub(crate) enum Piece {
    /// Memory of this host, which the partner reaches.
    Local(Local),
    /// Memory of the partner's host.
    Remote(Remote),
    /// Physical memory of this host, which the partner alone reaches (`PXI-REQPS-13`).
    Exposed(Exposure),
}

impl Piece {
    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Piece::Local(local) => local.len(),
            Piece::Remote(remote) => remote.len(),
            Piece::Exposed(exposure) => exposure.len(),
        }
    }

    /// Where the partner reaches it, if it is memory of this host.
    pub(crate) fn off(&self) -> Option<u64> {
        match self {
            Piece::Local(local) => Some(local.off()),
            Piece::Exposed(exposure) => Some(exposure.off()),
            Piece::Remote(_) => None,
        }
    }

    /// Whether a process may map it.
    pub(crate) fn is_mappable(&self) -> bool {
        !matches!(self, Piece::Exposed(_))
    }

    fn page(&self, page: u64) -> Result<PageFrame> {
        match self {
            Piece::Local(local) => local.page(page),
            Piece::Remote(remote) => remote.page(page),
            Piece::Exposed(_) => Err(error::unsupported()),
        }
    }

    /// Where devices of this host reach a remote piece.
    ///
    /// # Errors
    ///
    /// `ENXIO` of a local one, `EOPNOTSUPP` if devices cannot reach it, `ENOTCONN` when
    /// the link is down.
    pub(crate) fn bus_range(&self) -> Result<Range> {
        let Piece::Remote(remote) = self else {
            return Err(ENXIO);
        };
        let (bus, phys) = (remote.bus_address(0)?, remote.page(0)?.phys);
        let len = remote.len().checked_next_multiple_of(PAGE).ok_or(EINVAL)?;
        if !bus.is_multiple_of(PAGE) {
            return Err(error::unsupported());
        }
        Ok(Range {
            bus,
            phys,
            len: usize::try_from(len)?,
        })
    }

    /// Has `holder` told when the memory goes. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if it has gone, `ENOMEM`.
    pub(crate) fn hold(&self, holder: Arc<dyn Holder>) -> Result<Hold> {
        match self {
            Piece::Local(local) => local.hold(holder),
            Piece::Remote(remote) => remote.hold(holder),
            Piece::Exposed(_) => Err(error::unsupported()),
        }
    }
}

// SAFETY: A piece is its owner's alone, and of the partner whose memory it shares on purpose,
// until it is dropped; a remote one leads into a window of the bridge in any case. Nothing of
// the kernel's is in its pages.
unsafe impl Frames for Piece {
    fn frame(&self, page: usize) -> Option<Frame> {
        let frame = self.page(page as u64).ok()?;
        let cache = match frame.cache {
            memory::Cache::Cached => Cache::Cached,
            memory::Cache::WriteCombining => Cache::WriteCombining,
        };
        Some(Frame::at(frame.phys, cache))
    }
}

/// Takes a mapping away when its memory goes.
struct Revoker(Arc<Mapping>);

impl Holder for Revoker {
    fn revoke(&self) {
        drop(self.0.revoke());
    }
}

/// A piece that a process may map.
///
/// Dropping it takes the memory away from all processes, and gives the piece back.
pub(crate) struct Window {
    published: Published,
    /// Told when the memory goes; ends before the piece does.
    hold: Option<Hold>,
    piece: Arc<Piece>,
}

impl Window {
    /// Lets the process of context `owner` map a piece in its address space. If the
    /// memory has gone already, the window has its size and shows what all see whose
    /// memory has been taken away.
    ///
    /// # Errors
    ///
    /// `ENOSPC` without a free offset, `ENOMEM`.
    pub(crate) fn new(
        piece: Arc<Piece>,
        space: &Arc<AddressSpace>,
        owner: u64,
        scrap: Arc<ScrapPage>,
    ) -> Result<Self> {
        let pages = piece.len().div_ceil(PAGE) as usize;
        // Another thread that guesses the offset may map it from here on; dropping the window
        // takes that away again.
        let mut window = Self {
            published: space.publish(pages, owner, piece.clone(), scrap)?,
            hold: None,
            piece,
        };
        let revoker = Revoker(window.published.mapping().clone());
        match window.piece.hold(Arc::new(revoker, GFP_KERNEL)?) {
            Ok(hold) => window.hold = Some(hold),
            Err(e) if e == error::not_connected() => window.forsake(),
            Err(e) => return Err(e),
        }
        Ok(window)
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.piece.len()
    }

    /// The offset for `mmap()`, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.published.mapping().first() as u64 * PAGE
    }

    /// Shows a piece again in place of one that was taken away, of the same size. If its
    /// memory has gone already, nothing changes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn restore(&mut self, piece: Arc<Piece>) -> Result {
        drop(self.hold.take());
        self.published.mapping().restore(piece.clone());
        self.piece = piece;
        let revoker = Revoker(self.published.mapping().clone());
        match self.piece.hold(Arc::new(revoker, GFP_KERNEL)?) {
            Ok(hold) => self.hold = Some(hold),
            Err(e) => {
                self.forsake();
                if e != error::not_connected() {
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Takes the memory away from all processes.
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
