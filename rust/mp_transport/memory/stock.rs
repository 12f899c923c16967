// SPDX-License-Identifier: GPL-2.0

//! Memory that pieces are cut from, who has which, and which links' peers may reach
//! them.

use super::{
    holders::{
        Hold,
        Holders, //
    },
    Holder,
    LocalBytes, //
};
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
    sync::RcuArc, //
};
use mp_proto::{
    arena::{
        AllocError,
        Arena,
        Extent, //
    },
    layout::PAGE,
    reach, //
};

/// Most pieces of one stock, those in quarantine included.
const MAX_PIECES: usize = 1024;

/// Bytes that are zeroed without a pause.
const STRETCH: u64 = 1 << 16;

/// A [`LocalBytes`] behind a thin pointer.
struct LocalRef(Arc<dyn LocalBytes>);

/// The peer of a link may reach a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Grant {
    off: u64,
    link: u64,
}

/// Who has which piece.
struct Pieces {
    arena: Arena<KVVec<Option<Extent>>>,
    /// Each at most once; as many as there is room for.
    grants: KVVec<Grant>,
}

impl Pieces {
    fn is_granted(&self, off: u64) -> bool {
        self.grants.iter().any(|grant| grant.off == off)
    }

    /// Frees a piece that its owner has given up, if nobody may reach it any more.
    fn settle(&mut self, off: u64) {
        let is_retired = self.arena.get(off).is_some_and(|extent| extent.retired);
        if is_retired && !self.is_granted(off) {
            // It is there.
            let _ = self.arena.free(off);
        }
    }
}

/// Memory of this host, of which pieces are cut.
///
/// Offsets here count from the start of the stock. Outside they name the window as
/// well, by which peers reach it ([`reach`]).
#[pin_data]
pub(super) struct Stock {
    window: u16,
    len: u64,
    bytes: RcuArc<LocalRef>,
    /// Held while a piece is made ready, for which the memory must stay.
    #[pin]
    preparing: Mutex<()>,
    #[pin]
    pieces: Mutex<Pieces>,
    holders: Arc<Holders>,
}

impl Stock {
    /// The first `len` bytes of some memory, rounded down to pages, that peers reach
    /// by that window, with room for so many grants.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        window: u16,
        len: u64,
        bytes: Arc<dyn LocalBytes>,
        links: usize,
    ) -> Result<Arc<Self>> {
        let table = KVVec::from_elem(None, MAX_PIECES, GFP_KERNEL)?;
        let grants = KVVec::with_capacity(MAX_PIECES * links, GFP_KERNEL)?;
        let arena = Arena::new(len, table);
        let holders = Holders::new()?;
        let cell = RcuArc::empty();
        cell.replace(Some(Arc::new(LocalRef(bytes), GFP_KERNEL)?));
        Arc::pin_init(
            pin_init!(Self {
                window,
                len: arena.size(),
                bytes: cell,
                preparing <- new_mutex!(()),
                pieces <- new_mutex!(Pieces { arena, grants }),
                holders,
            }),
            GFP_KERNEL,
        )
    }

    /// See [`Pool::close`](super::Pool::close).
    pub(super) fn close(&self) {
        let preparing = self.preparing.lock();
        let bytes = self.bytes.replace(None);
        drop(preparing);
        self.holders.revoke();
        // Its pages may go with it: nobody maps them any more.
        drop(bytes);
    }

    /// Bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The number by which peers know the place at `off`.
    pub(super) fn place(&self, off: u64) -> u64 {
        reach::start_of(self.window) + off
    }

    /// The largest piece that can be cut.
    pub(super) fn largest(&self) -> u64 {
        self.pieces.lock().arena.largest()
    }

    /// Cuts a piece, and says where.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOSPC`, `ENOBUFS`; see [`Memory::alloc`](super::Memory::alloc).
    pub(super) fn cut(&self, len: u64) -> Result<u64> {
        let extent = self.pieces.lock().arena.alloc(len);
        extent.map(|extent| extent.off).map_err(|e| match e {
            AllocError::Zero => EINVAL,
            AllocError::NoSpace => ENOSPC,
            AllocError::TooMany => error::no_buffers(),
        })
    }

    /// Makes a piece ready that was just cut: present, and all zero, also behind its end
    /// in the last page, which whoever maps it sees as well.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOTCONN` if the memory has gone.
    pub(super) fn prepare(&self, off: u64, len: u64) -> Result {
        let len = len.next_multiple_of(PAGE);
        let _preparing = self.preparing.lock();
        let bytes = self.bytes.get().ok_or(error::not_connected())?;
        bytes.0.prepare(off, len)?;
        let mut done = 0;
        while done < len {
            let n = STRETCH.min(len - done);
            bytes.0.zero(off + done, n)?;
            done += n;
        }
        Ok(())
    }

    /// The peer of a link may reach the piece at `off` from now on.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if there are too many grants.
    pub(super) fn grant(&self, link: u64, off: u64) -> Result {
        let mut pieces = self.pieces.lock();
        let grant = Grant { off, link };
        if pieces.grants.contains(&grant) {
            return Ok(());
        }
        pieces
            .grants
            .push_within_capacity(grant)
            .map_err(|_| error::no_buffers())
    }

    /// The peer of a link does not reach the piece at `off` any more.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it was not granted to that one.
    pub(super) fn let_go(&self, link: u64, off: u64) -> Result {
        let mut pieces = self.pieces.lock();
        let grant = Grant { off, link };
        let at = pieces.grants.iter().position(|known| *known == grant);
        pieces
            .grants
            .remove(at.ok_or(ENOENT)?)
            .map_err(|_| ENOENT)?;
        pieces.settle(off);
        Ok(())
    }

    /// The peer of a link reaches nothing any more of what it was granted.
    pub(super) fn let_all_go(&self, link: u64) {
        let mut pieces = self.pieces.lock();
        while let Some(at) = pieces.grants.iter().position(|grant| grant.link == link) {
            if let Ok(grant) = pieces.grants.remove(at) {
                pieces.settle(grant.off);
            }
        }
    }

    /// The owner gives a piece up. Those that peers may reach wait for them.
    pub(super) fn give_up(&self, off: u64) {
        let mut pieces = self.pieces.lock();
        // The piece is there: it was cut for the one who gives it up, once.
        let _ = match pieces.is_granted(off) {
            true => pieces.arena.retire(off),
            false => pieces.arena.free(off),
        };
    }

    /// Adds a holder, who is told by [`close`](Self::close).
    pub(super) fn hold(&self, holder: Arc<dyn Holder>) -> Result<Hold> {
        self.holders.add(holder)
    }

    /// Runs `f` on the memory.
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
