// SPDX-License-Identifier: GPL-2.0

//! Memory as a capability of links, beside frames: memory of this host that a peer may
//! reach, and memory of the peer that this host reaches.
//!
//! Function services take [`Peer::memory`](crate::peer::Peer::memory) of a peer that
//! has arrived. [`Memory::alloc`] cuts a [`Local`] piece from the memory that this peer
//! reaches; the service tells the peer its offset and length in a frame of its own,
//! and calls [`Memory::grant`] before that. [`Memory::reach`] makes a [`Remote`] piece
//! of what the peer has told. Both give page frames for mappings, and are read and
//! written by the kernel itself.
//!
//! * *Epochs.* A [`Memory`] belongs to one epoch of a link, and so do all [`Remote`]
//!   pieces. A [`Local`] piece stays the owner's over epochs.
//! * *Quarantine.* A piece that was granted in the present epoch is given to nobody
//!   else when its owner drops it, until the peer has let go
//!   ([`Memory::peer_let_go`]) or the next epoch begins: by then the peer has ended the
//!   old one, and with it all that it could write by.
//! * *Revocation.* Whoever maps pages of a piece keeps a [`Hold`] on it and is told when
//!   nobody may reach the memory any more: for a [`Remote`] piece at the end of the
//!   epoch, before this host says so to the peer; for a [`Local`] one when the memory
//!   itself goes. What the kernel does by the methods of a piece fails from then on.
//! * *Windows.* Offsets count from the start of what a peer may reach, over all windows
//!   that lead there, and no piece spans two of them. Today there is one.
//!
//! Transports offer memory by [`Pool`] and [`Memory`], which refer to the transport by
//! the two traits [`LocalBytes`] and [`RemoteBytes`] only and are cut off from it
//! ([`Pool::close`], [`Memory::end`]) before its memory or code may vanish; pieces
//! that are still there are empty shells then.
//!
//! # Contexts
//!
//! Loads, stores and page frames: any context. Everything else sleeps. No lock of this
//! module that anything else takes is held while a holder is told.

use crate::memory::holders::Holders;
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use mp_kernel::{
    error,
    sync::RcuArc, //
};
use mp_proto::layout::PAGE;

#[path = "memory/bytes.rs"]
mod bytes;
#[path = "memory/holders.rs"]
mod holders;
#[path = "memory/pieces.rs"]
mod pieces;
#[path = "memory/pool.rs"]
mod pool;

pub use self::{
    holders::Hold,
    pieces::{
        Local,
        Remote, //
    },
    pool::Pool, //
};

/// How a page is to be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cache {
    /// As ordinary memory.
    Cached,
    /// Uncached, with stores combined: memory behind a bridge.
    WriteCombining,
}

/// A page of physical memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageFrame {
    /// Its physical address.
    pub phys: u64,
    /// How it is to be mapped.
    pub cache: Cache,
}

impl PageFrame {
    /// The page at a physical address.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if no page of this host begins there, or if its pages are larger
    /// than those that pieces are made of: their neighbours would be seen as well.
    pub fn at(phys: u64, cache: Cache) -> Result<Self> {
        let size = PAGE_SIZE as u64;
        if size > PAGE || !phys.is_multiple_of(size) {
            return Err(error::unsupported());
        }
        Ok(Self { phys, cache })
    }
}

/// Who maps pages of a piece, or lets devices write there.
pub trait Holder: Send + Sync + 'static {
    /// Nobody may reach the memory through the holder any more when this returns: it
    /// has taken mappings away, and stopped copies.
    ///
    /// Called once at most, in process context, and not any more once the [`Hold`] has
    /// been dropped. May sleep for a bounded time, in which the link does not come up
    /// again. It must not drop a hold, and must not take a lock under which somebody
    /// drops one.
    fn revoke(&self);
}

/// Memory of this host that a peer may write, as its transport sees it. Offsets are
/// in bytes, below the length that the [`Pool`] was made with.
pub trait LocalBytes: Send + Sync + 'static {
    /// Makes a range, which is nobody's, ready to be used. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn prepare(&self, off: u64, len: u64) -> Result {
        let _ = (off, len);
        Ok(())
    }

    /// The page at `off`. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, or that of [`PageFrame::at`].
    fn page(&self, off: u64) -> Result<PageFrame>;

    /// The address for the kernel of the byte at `off`, behind which the pieces are in
    /// one run; `None` if they are not.
    fn address(&self, off: u64) -> Option<*mut u8> {
        let _ = off;
        None
    }

    /// Loads an aligned word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside.
    fn load_u64(&self, off: u64) -> Result<u64>;

    /// Stores an aligned word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside.
    fn store_u64(&self, off: u64, val: u64) -> Result;

    /// Fills all of `dst` from `off`; bytes that are written meanwhile may be seen
    /// old or new.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    fn read(&self, off: u64, dst: &mut [u8]) -> Result;

    /// Copies all of `src` to `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    fn write(&self, off: u64, src: &[u8]) -> Result;

    /// Stores zero to `len` bytes at `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    fn zero(&self, off: u64, len: u64) -> Result;
}

/// The peer's memory, as its transport sees it. It is only written. Offsets are in
/// bytes, below the length that the [`Memory`] was made with.
pub trait RemoteBytes: Send + Sync + 'static {
    /// The page at `off`. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, or that of [`PageFrame::at`].
    fn page(&self, off: u64) -> Result<PageFrame>;

    /// The address on the PCI bus of the byte at `off`, behind which the pieces are in
    /// one run: where other devices of this host write.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is not on a bus.
    fn bus_address(&self, off: u64) -> Result<u64> {
        let _ = off;
        Err(error::unsupported())
    }

    /// Stores an aligned word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside.
    fn store_u64(&self, off: u64, val: u64) -> Result;

    /// Copies all of `src` to `off`, in any order and any pieces.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    fn write(&self, off: u64, src: &[u8]) -> Result;

    /// Pushes all stores before it out, ahead of all stores after it.
    fn flush(&self);
}

/// A [`RemoteBytes`] behind a thin pointer.
struct RemoteRef(Arc<dyn RemoteBytes>);

/// How much memory there is; bytes. All are zero once the epoch is over.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    /// What the peer may reach at most, all pieces together.
    pub local_total: u64,
    /// The largest piece that [`Memory::alloc`] can cut now.
    pub local_largest_free: u64,
    /// What this host may reach at the peer at most.
    pub remote_total: u64,
}

/// The memory of both ends of a link in one epoch.
pub struct Memory {
    pool: Arc<Pool>,
    /// Number of the epoch among those of the pool.
    epoch: u64,
    remote: RcuArc<RemoteRef>,
    remote_len: u64,
    holders: Arc<Holders>,
}

/// For transports.
impl Memory {
    /// Begins an epoch, in which this host reaches `len` bytes of the peer's memory.
    /// What is in quarantine becomes free: call it when the peer has ended the epoch
    /// before. That one has been [ended](Self::end) here as well.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn begin(pool: Arc<Pool>, remote: Arc<dyn RemoteBytes>, len: u64) -> Result<Arc<Self>> {
        let cell = RcuArc::empty();
        cell.replace(Some(Arc::new(RemoteRef(remote), GFP_KERNEL)?));
        let this = Self {
            epoch: pool.begin_epoch(),
            pool,
            remote: cell,
            remote_len: len,
            holders: Holders::new()?,
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Ends the epoch: this host does not reach the peer's memory any more when this
    /// returns, and no call into the transport's [`RemoteBytes`] is under way. Sleeps.
    pub fn end(&self) {
        self.pool.end_epoch(self.epoch);
        let remote = self.remote.replace(None);
        self.holders.revoke();
        // The window may go with it: nobody maps it any more.
        drop(remote);
    }
}

/// For function services.
impl Memory {
    /// Number of the epoch, different from those before at the same link.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How much memory there is.
    pub fn limits(&self) -> Limits {
        match self.pool.largest(self.epoch) {
            Some(largest) => Limits {
                local_total: self.pool.len(),
                local_largest_free: largest,
                remote_total: self.remote_len,
            },
            None => Limits::default(),
        }
    }

    /// Whether a window can be led to memory of the caller's choice, by its physical
    /// address. No transport can do that: windows lead to memory of their own.
    pub fn has_physical_windows(&self) -> bool {
        false
    }

    /// Cuts a piece of `len` bytes, all zero, from what the peer may reach.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes, `ENOSPC` if no free run is long enough, `ENOBUFS` if there
    /// are too many pieces, `ENOMEM`, `ENOTCONN` once the epoch is over.
    pub fn alloc(&self, len: u64) -> Result<Local> {
        Local::cut(&self.pool, self.epoch, len)
    }

    /// The peer is about to be told of a piece, and may reach it from now on.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a piece that another peer reaches, `ENOTCONN` once the epoch is over.
    pub fn grant(&self, local: &Local) -> Result {
        if !local.is_of(&self.pool) {
            return Err(EINVAL);
        }
        self.pool.grant(self.epoch, local.off())
    }

    /// The peer has said that it does not reach the piece at `off` any more: it is not
    /// granted now, and free if its owner has dropped it.
    ///
    /// # Errors
    ///
    /// `ENOENT` if no granted piece begins there, `ENOTCONN` once the epoch is over.
    pub fn peer_let_go(&self, off: u64) -> Result {
        self.pool.peer_let_go(self.epoch, off)
    }

    /// The piece of the peer's memory that it has granted at `off`, as this host reaches
    /// it. That the place lies in what this host may reach is checked; what the peer has
    /// granted is between it and the service.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not begin on a page, has no bytes or does not lie in the
    /// peer's memory; `ENOTCONN` once the epoch is over.
    pub fn reach(self: &Arc<Self>, off: u64, len: u64) -> Result<Remote> {
        let end = off.checked_add(len).ok_or(EINVAL)?;
        if len == 0 || !off.is_multiple_of(PAGE) || end > self.remote_len {
            return Err(EINVAL);
        }
        self.with_remote(|_| Ok(()))?;
        Ok(Remote::new(self, off, len))
    }

    /// Runs `f` on the peer's memory.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` once the epoch is over, or that of `f`.
    fn with_remote<R>(&self, f: impl FnOnce(&dyn RemoteBytes) -> Result<R>) -> Result<R> {
        match self.remote.load(&rcu::read_lock()) {
            Some(remote) => f(&*remote.0),
            None => Err(error::not_connected()),
        }
    }
}
