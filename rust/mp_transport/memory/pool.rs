// SPDX-License-Identifier: GPL-2.0

//! What one peer may reach of this host's memory, and who has which piece of it.

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
        Mutex,
        MutexGuard, //
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
    layout::PAGE, //
};

/// Most pieces of one pool, those in quarantine included.
const MAX_PIECES: usize = 1024;

/// Bytes that are zeroed without a pause.
const STRETCH: u64 = 1 << 16;

/// A [`LocalBytes`] behind a thin pointer.
struct LocalRef(Arc<dyn LocalBytes>);

/// Who has which piece.
struct Pieces {
    arena: Arena<KVVec<Option<Extent>>>,
    /// Offsets of the pieces that have an owner and that the peer may reach. Has room
    /// for all that can be.
    granted: KVec<u64>,
    /// Number of the epoch, zero before the first one.
    epoch: u64,
    is_up: bool,
}

impl Pieces {
    /// # Errors
    ///
    /// `ENOTCONN` unless `epoch` is the present one.
    fn check(&self, epoch: u64) -> Result {
        let is_now = self.is_up && self.epoch == epoch;
        is_now.then_some(()).ok_or(error::not_connected())
    }

    /// Forgets that a piece was granted, and says whether it was.
    fn take_grant(&mut self, off: u64) -> bool {
        let at = self.granted.iter().position(|granted| *granted == off);
        at.is_some_and(|at| self.granted.remove(at).is_ok())
    }
}

/// The memory of this host that one peer may reach, over all epochs of the link.
///
/// Belongs to the transport that has the memory, and lives for as long as pieces do.
#[pin_data]
pub struct Pool {
    len: u64,
    bytes: RcuArc<LocalRef>,
    /// Held while a piece is made ready, for which the memory must stay.
    #[pin]
    preparing: Mutex<()>,
    #[pin]
    pieces: Mutex<Pieces>,
    holders: Arc<Holders>,
}

/// For transports.
impl Pool {
    /// A pool of the first `len` bytes of some memory, rounded down to pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(len: u64, bytes: Arc<dyn LocalBytes>) -> Result<Arc<Self>> {
        let table = KVVec::from_elem(None, MAX_PIECES, GFP_KERNEL)?;
        let granted = KVec::with_capacity(MAX_PIECES, GFP_KERNEL)?;
        let arena = Arena::new(len, table);
        let holders = Holders::new()?;
        let cell = RcuArc::empty();
        cell.replace(Some(Arc::new(LocalRef(bytes), GFP_KERNEL)?));
        Arc::pin_init(
            pin_init!(Self {
                len: arena.size(),
                bytes: cell,
                preparing <- new_mutex!(()),
                pieces <- new_mutex!(Pieces {
                    arena,
                    granted,
                    epoch: 0,
                    is_up: false,
                }),
                holders,
            }),
            GFP_KERNEL,
        )
    }

    /// The memory is about to go: nobody on this host reaches it any more when this
    /// returns, and no call into the transport's [`LocalBytes`] is under way. Sleeps.
    pub fn close(&self) {
        let preparing = self.preparing.lock();
        let bytes = self.bytes.replace(None);
        drop(preparing);
        self.holders.revoke();
        // Its pages may go with it: nobody maps them any more.
        drop(bytes);
    }
}

impl Pool {
    /// Bytes of the whole pool.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Begins an epoch and says its number.
    pub(super) fn begin_epoch(&self) -> u64 {
        let mut pieces = self.pieces.lock();
        pieces.arena.end_epoch();
        pieces.granted.clear();
        pieces.epoch += 1;
        pieces.is_up = true;
        pieces.epoch
    }

    /// Ends an epoch. What is in quarantine stays there: the peer may not know yet.
    pub(super) fn end_epoch(&self, epoch: u64) {
        let mut pieces = self.pieces.lock();
        if pieces.epoch == epoch {
            pieces.is_up = false;
        }
    }

    /// The pieces, in an epoch.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` unless it is the present one.
    fn in_epoch(&self, epoch: u64) -> Result<MutexGuard<'_, Pieces>> {
        let pieces = self.pieces.lock();
        pieces.check(epoch)?;
        Ok(pieces)
    }

    /// The largest piece that can be cut; `None` once the epoch is over.
    pub(super) fn largest(&self, epoch: u64) -> Option<u64> {
        Some(self.in_epoch(epoch).ok()?.arena.largest())
    }

    /// Cuts a piece, and says where.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOSPC`, `ENOBUFS`, `ENOTCONN`; see [`Memory::alloc`](super::Memory::alloc).
    pub(super) fn cut(&self, epoch: u64, len: u64) -> Result<u64> {
        let extent = self.in_epoch(epoch)?.arena.alloc(len);
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

    /// See [`Memory::grant`](super::Memory::grant).
    pub(super) fn grant(&self, epoch: u64, off: u64) -> Result {
        let mut pieces = self.in_epoch(epoch)?;
        if pieces.granted.contains(&off) {
            return Ok(());
        }
        pieces
            .granted
            .push_within_capacity(off)
            .map_err(|_| error::no_buffers())
    }

    /// See [`Memory::peer_let_go`](super::Memory::peer_let_go).
    pub(super) fn peer_let_go(&self, epoch: u64, off: u64) -> Result {
        let mut pieces = self.in_epoch(epoch)?;
        if pieces.take_grant(off) {
            return Ok(());
        }
        if !pieces.arena.get(off).is_some_and(|extent| extent.retired) {
            return Err(ENOENT);
        }
        pieces.arena.free(off).map_err(|_| ENOENT)
    }

    /// The owner gives a piece up. Those that the peer may reach wait for it.
    pub(super) fn give_up(&self, off: u64) {
        let mut pieces = self.pieces.lock();
        let granted = pieces.take_grant(off);
        let arena = &mut pieces.arena;
        // The piece is there: it was cut for the one who gives it up, once.
        let _ = if granted {
            arena.retire(off)
        } else {
            arena.free(off)
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
