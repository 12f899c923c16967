// SPDX-License-Identifier: GPL-2.0-only

//! Memory as a capability of links, beside frames: memory of this host that a peer may
//! reach, and memory of the peer that this host reaches.
//!
//! Function services take [`Peer::memory`](crate::peer::Peer::memory) of a peer that
//! has arrived. [`Memory::alloc`] cuts a [`Local`] piece from the memory that this peer
//! reaches; the service tells the peer its offset and length in a frame of its own,
//! and calls [`Memory::grant`] before that. [`Memory::reach`] makes a [`Remote`] piece
//! of what the peer has told. Both give page frames for mappings, and are read and
//! written by the kernel itself. [`Commons::alloc`] cuts pieces that many peers can be
//! granted, and [`Memory::expose`] leads a window to physical memory of the caller's
//! choice, as an [`Exposure`].
//!
//! * *Epochs.* A [`Memory`] belongs to one epoch of a link, and so do all [`Remote`]
//!   pieces. A [`Local`] piece stays the owner's over epochs.
//! * *Quarantine.* A piece that was granted in the present epoch is given to nobody
//!   else when its owner drops it, until the peer has let go
//!   ([`Memory::peer_let_go`]), or its end of the service that has granted it has ended
//!   ([`Memory::peer_let_all_go`]), or the next epoch begins: by then the peer has ended the
//!   old one, and with it all that it could write by. A piece of the commons waits for
//!   all peers that it was granted to; an exposure's window stays led there meanwhile.
//! * *Revocation.* Whoever maps pages of a piece keeps a [`Hold`] on it and is told when
//!   nobody may reach the memory any more: for a [`Remote`] piece at the end of the
//!   epoch, before this host says so to the peer; for a [`Local`] one when the memory
//!   itself goes. What the kernel does by the methods of a piece fails from then on.
//! * *Engines.* [`Remote::copy`] has a DMA engine copy what a [`Source`] has, in the
//!   background; what is under way is over before either end of it goes.
//! * *Windows.* Offsets count from the start of what a peer may reach, over all windows
//!   that lead there ([`mp_proto::reach`]), and no piece spans two of them: the arena,
//!   the commons, and windows that can be led elsewhere.
//!
//! Transports offer memory by [`Pool`] and [`Memory`], which refer to the transport by
//! the traits [`LocalBytes`], [`RemoteBytes`], [`LeadWindows`] and [`SeeWindows`] only
//! and are cut off from it ([`Pool::close`], [`Memory::end`]) before its memory or code
//! may vanish; pieces that are still there are empty shells then.
//!
//! # Contexts
//!
//! Loads, stores and page frames: any context. Everything else sleeps. No lock of this
//! module that anything else takes is held while a holder is told.

use crate::{
    copy::Completion,
    frame::FuncId,
    local::Piece,
    memory::{
        exposed::What,
        holders::Holders, //
    }, //
};
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        rcu,
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    dma_buf::{
        Attached,
        Part, //
    },
    dmem::Charge,
    error,
    iomem::DeviceRange,
    sync::RcuArc,
    user_pages::UserPages, //
};
use mp_proto::{
    layout::PAGE,
    reach::{
        self,
        Place, //
    }, //
};

#[path = "memory/bytes.rs"]
mod bytes;
#[path = "memory/cleaner.rs"]
mod cleaner;
#[path = "memory/commons.rs"]
pub(crate) mod commons;
#[path = "memory/exposed.rs"]
mod exposed;
#[path = "memory/flights.rs"]
mod flights;
#[path = "memory/holders.rs"]
mod holders;
#[path = "memory/physical.rs"]
pub(crate) mod physical;
#[path = "memory/pieces.rs"]
mod pieces;
#[path = "memory/pool.rs"]
mod pool;
#[path = "memory/stock.rs"]
mod stock;

pub use self::{
    commons::{
        Commons,
        CommonsLimits, //
    },
    exposed::Exposure,
    flights::{
        Runs,
        Source,
        Told, //
    },
    holders::Hold,
    pieces::{
        run_of,
        Local,
        Remote, //
    },
    pool::{
        Further,
        Pool, //
    },
    stock::Lease, //
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
        if size > PAGE || phys % size != 0 {
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
    /// Make a range, which is nobody's, ready to be used. Sleeps.
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

    /// Load an aligned word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside.
    fn load_u64(&self, off: u64) -> Result<u64>;

    /// Store an aligned word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside.
    fn store_u64(&self, off: u64, val: u64) -> Result;

    /// Exchange an aligned word that has the value `expected` for `desired`, in one step;
    /// whether it had.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside.
    fn exchange_u64(&self, off: u64, expected: u64, desired: u64) -> Result<bool>;

    /// Fill all of `dst` from `off`; bytes that are written meanwhile may be seen
    /// old or new.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    fn read(&self, off: u64, dst: &mut [u8]) -> Result;

    /// Copy all of `src` to `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    fn write(&self, off: u64, src: &[u8]) -> Result;

    /// Store zero to `len` bytes at `off`.
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

    /// Store an aligned word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside.
    fn store_u64(&self, off: u64, val: u64) -> Result;

    /// Copy all of `src` to `off`, in any order and any pieces.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    fn write(&self, off: u64, src: &[u8]) -> Result;

    /// Start to copy pieces of this host's memory by an engine, to places that count
    /// from `off`, and tell `done` at the end. Called under RCU. What is under way has
    /// been told before the transport [ends](Memory::end) the epoch.
    ///
    /// # Errors
    ///
    /// `ENODEV` without an engine, `EAGAIN` if it has too much to do, others if the
    /// processor is to copy this; `done` is not told then.
    ///
    /// # Safety
    ///
    /// The pieces stay allocated until `done` has been told.
    unsafe fn copy(&self, off: u64, pieces: &[Piece], done: Completion) -> Result {
        let _ = (off, pieces, done);
        Err(ENODEV)
    }

    /// Push all stores before it out, ahead of all stores after it.
    fn flush(&self);
}

/// Windows of a link that can be led to memory of the caller's choice, as the transport
/// sees them on the host whose memory that is. Numbered from zero.
pub trait LeadWindows: Send + Sync + 'static {
    /// How many there are, always the same.
    fn count(&self) -> u32;

    /// Whether a window could lead to `len` bytes of physical memory. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are too many bytes for the window, `EOPNOTSUPP` if it cannot
    /// begin or end there, or must not.
    fn check(&self, window: u32, phys: u64, len: u64) -> Result;

    /// Lead a window, which leads nowhere, to a range of physical memory: the peer
    /// reaches it from offset 0 of the window, and nothing else but the rest of a
    /// page. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), or what the bridge's driver reports.
    fn lead(&self, window: u32, range: &DeviceRange) -> Result;

    /// Whether a window could lead to pages of a process. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); `EOPNOTSUPP` also if they are not in one run for the bridge.
    fn check_pages(&self, window: u32, pages: &Arc<UserPages>) -> Result {
        let _ = (window, pages);
        Err(error::unsupported())
    }

    /// As [`lead`](Self::lead), to all pages, which it keeps until it is
    /// [withdrawn](Self::withdraw). Sleeps.
    ///
    /// # Errors
    ///
    /// As [`check_pages`](Self::check_pages), or what the bridge's driver reports.
    fn lead_pages(&self, window: u32, pages: &Arc<UserPages>) -> Result {
        let _ = (window, pages);
        Err(error::unsupported())
    }

    /// Let the bridge reach a part of a dma-buf. Sleeps, maybe for long: not to be called with a lock.
    /// To be dropped before the interface goes.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is not in one run for the bridge, or nobody else could end what a window
    /// leads to; those of the driver that has exported it.
    fn attach(&self, part: &Arc<Part>) -> Result<Arc<Attached>> {
        let _ = part;
        Err(error::unsupported())
    }

    /// Whether a window could lead to what the bridge reaches so. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    fn check_attached(&self, window: u32, attached: &Arc<Attached>) -> Result {
        let _ = (window, attached);
        Err(error::unsupported())
    }

    /// As [`lead`](Self::lead), to all that the bridge reaches so, which it keeps until it is
    /// [withdrawn](Self::withdraw). Sleeps.
    ///
    /// # Errors
    ///
    /// As [`check_attached`](Self::check_attached), or what the bridge's driver reports.
    fn lead_attached(&self, window: u32, attached: &Arc<Attached>) -> Result {
        let _ = (window, attached);
        Err(error::unsupported())
    }

    /// End [`lead`](Self::lead): the peer reaches the memory no longer when this
    /// returns; where it leads the window itself, as soon as it knows. Sleeps.
    fn withdraw(&self, window: u32);
}

/// The same windows as the other host's transport sees them.
pub trait SeeWindows: Send + Sync + 'static {
    /// How many there are, always the same.
    fn count(&self) -> u32;

    /// What a window leads to now, and how many bytes of it. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the bridge's driver reports.
    fn look(&self, window: u32) -> Result<(Arc<dyn RemoteBytes>, u64)>;
}

/// A [`RemoteBytes`] behind a thin pointer.
struct RemoteRef(Arc<dyn RemoteBytes>);

/// Most windows to a peer.
const MAX_WINDOWS: usize = (reach::FIRST_EXPOSED as u32 + reach::MAX_EXPOSED) as usize;

/// A window to the peer's memory.
struct Window {
    bytes: RcuArc<RemoteRef>,
    /// Bytes; of the windows that can be led elsewhere, as many as can be.
    len: u64,
}

impl Window {
    fn new(bytes: Option<Arc<dyn RemoteBytes>>, len: u64) -> Result<Self> {
        let cell = RcuArc::empty();
        if let Some(bytes) = bytes {
            cell.replace(Some(Arc::new(RemoteRef(bytes), GFP_KERNEL)?));
        }
        Ok(Self { bytes: cell, len })
    }
}

/// The peer's memory in one epoch, as its transport reaches it.
pub struct Far {
    /// The peer's arena, if a window leads there, and its bytes.
    pub arena: (Option<Arc<dyn RemoteBytes>>, u64),
    /// What is reached of the peer's commons, and how many bytes.
    pub commons: Option<(Arc<dyn RemoteBytes>, u64)>,
    /// Windows that the peer can lead to memory of its choice.
    pub windows: Option<Arc<dyn SeeWindows>>,
}

/// Who sees where windows lead that the peer leads elsewhere, if there are any.
type Sight = Option<Arc<dyn SeeWindows>>;

impl Far {
    /// The peer's arena alone.
    pub fn arena(bytes: Arc<dyn RemoteBytes>, len: u64) -> Self {
        Self {
            arena: (Some(bytes), len),
            commons: None,
            windows: None,
        }
    }

    /// A peer's arena that no window leads to.
    pub fn beyond(len: u64) -> Self {
        Self {
            arena: (None, len),
            commons: None,
            windows: None,
        }
    }

    /// By their numbers; and who sees where the further ones lead.
    fn open(self) -> Result<(KVec<Window>, Sight)> {
        let mut all = KVec::new();
        let (arena, len) = self.arena;
        all.push(Window::new(arena, len)?, GFP_KERNEL)?;
        let (commons, len) = self.commons.map_or((None, 0), |(b, len)| (Some(b), len));
        all.push(Window::new(commons, len)?, GFP_KERNEL)?;
        let count = self.windows.as_ref().map_or(0, |windows| windows.count());
        for _ in 0..count.min(reach::MAX_EXPOSED) {
            // How long one is, is seen when it leads somewhere.
            all.push(Window::new(None, u64::MAX)?, GFP_KERNEL)?;
        }
        Ok((all, self.windows))
    }
}

/// How much memory there is; bytes. All are zero once the epoch is over.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    /// What the peer may reach of the arena at most, all pieces together.
    pub local_total: u64,
    /// The largest piece that [`Memory::alloc`] can cut now.
    pub local_largest_free: u64,
    /// What this host may reach of the peer's arena at most.
    pub remote_total: u64,
    /// What the peer may reach of this host's commons at most.
    pub local_commons: u64,
    /// What this host may reach of the peer's commons at most.
    pub remote_commons: u64,
}

/// The memory of both ends of a link in one epoch.
#[pin_data]
pub struct Memory {
    pool: Arc<Pool>,
    /// Number of the epoch among those of the pool.
    epoch: u64,
    /// Of the peer, by their numbers.
    windows: KVec<Window>,
    /// Until the epoch ends. Locked while a window is entered of which it says where it leads:
    /// none is once the epoch is over.
    #[pin]
    see: Mutex<Sight>,
    holders: Arc<Holders>,
}

/// For transports.
impl Memory {
    /// Begin an epoch, in which this host reaches that much of the peer's memory.
    /// What is in quarantine becomes free: call it when the peer has ended the epoch
    /// before. That one has been [ended](Self::end) here as well.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn begin(pool: Arc<Pool>, far: Far) -> Result<Arc<Self>> {
        let (windows, see) = far.open()?;
        let holders = Holders::new()?;
        let this = pin_init!(Self {
            epoch: pool.begin_epoch(),
            pool,
            windows,
            see <- new_mutex!(see),
            holders,
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// End the epoch: this host does not reach the peer's memory any more when this
    /// returns, and no call into the transport's [`RemoteBytes`] or [`SeeWindows`] is
    /// under way. Sleeps.
    pub fn end(&self) {
        self.pool.end_epoch(self.epoch);
        let see = self.see.lock().take();
        // Without the lock.
        drop(see);
        let mut gone = [const { None }; MAX_WINDOWS];
        for (window, gone) in self.windows.iter().zip(&mut gone) {
            *gone = window.bytes.replace(None);
        }
        self.holders.revoke();
        // The windows may go with it: nobody maps them any more.
        drop(gone);
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
        match self.pool.runs(self.epoch) {
            Some([largest, _]) => Limits {
                local_total: self.pool.len(),
                local_largest_free: largest,
                remote_total: self.len_of(reach::ARENA),
                local_commons: self.pool.commons_reach(),
                remote_commons: self.len_of(reach::COMMONS),
            },
            None => Limits::default(),
        }
    }

    /// Bytes of the two longest free runs of the arena, the longest first: what
    /// [`alloc`](Self::alloc) can cut of two pieces. Zero once the epoch is over.
    pub fn free_runs(&self) -> [u64; 2] {
        self.pool.runs(self.epoch).unwrap_or_default()
    }

    /// Bytes of a window to the peer.
    fn len_of(&self, window: u16) -> u64 {
        let window = self.windows.get(usize::from(window));
        window.map_or(0, |window| window.len)
    }

    /// Store what the peer has sent for its arena, where no window of its host leads there; all
    /// memory that is cut from the arena is for the peer to write. Words that are aligned, and of
    /// which no more than a line are stored, are stored in one piece each. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` where nothing was ever cut, `ENOTCONN` if the memory has gone; some may have been
    /// stored then.
    pub fn store(&self, off: u64, src: &[u8]) -> Result {
        self.pool.arena().store(off, src)
    }

    /// Whether there are windows that the peer can lead to memory of its choice.
    pub fn sees_exposures(&self) -> bool {
        self.windows.len() > usize::from(reach::FIRST_EXPOSED)
    }

    /// Cut a piece of `len` bytes, all zero, from the arena that the peer reaches.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes, `ENOSPC` if no free run is long enough, `ENOBUFS` if there
    /// are too many pieces, `ENOMEM`, `ENOTCONN` once the epoch is over.
    pub fn alloc(&self, len: u64) -> Result<Local> {
        self.alloc_charged(len, Charge::NONE)
    }

    /// As [`alloc`](Self::alloc), for the calling process: its control group is charged until the piece
    /// is nobody's any more.
    ///
    /// # Errors
    ///
    /// Those of that, and `EDQUOT` if the group may not have so much of this memory.
    pub fn alloc_for_caller(&self, len: u64) -> Result<Local> {
        self.alloc_charged(len, self.charge_caller(len)?)
    }

    /// As [`alloc`](Self::alloc), for what a group is [charged](Self::charge_caller) for: until the piece
    /// is nobody's any more, at least.
    ///
    /// # Errors
    ///
    /// Those of that.
    pub fn alloc_charged(&self, len: u64, charge: Charge) -> Result<Local> {
        self.pool.alloc(self.epoch, len, charge)
    }

    /// Charge the control group of the calling process for so many bytes of the arena, in whole pages,
    /// of which pieces will be cut later. Nothing is charged for more than there are. Sleeps.
    ///
    /// # Errors
    ///
    /// `EDQUOT` if the group may not have so many, `ENOMEM`.
    pub fn charge_caller(&self, len: u64) -> Result<Charge> {
        self.pool.arena().charge(len)
    }

    /// Whether the peer can reach a piece once it is granted: its own arena's, and those
    /// of the commons that lie in the part that its window leads to.
    pub fn can_grant(&self, local: &Local) -> bool {
        self.pool.can_reach(local)
    }

    /// The peer is about to be told of a piece by that service, and may reach it from now on.
    ///
    /// # Errors
    ///
    /// `ENOSPC` for a piece that it [cannot reach](Self::can_grant), `ENOBUFS` if too
    /// many pieces are granted to too many peers, `ENOTCONN` once the epoch is over.
    pub fn grant(&self, service: FuncId, local: &Local) -> Result {
        self.pool.grant(self.epoch, service, local)
    }

    /// The peer's end of that service has said that it does not reach the piece at `off` any
    /// more: the service has not granted it now, and it is free if its owner has dropped it and
    /// nobody else reaches it.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the service has granted no piece that begins there, `ENOTCONN` once the epoch is
    /// over.
    pub fn peer_let_go(&self, service: FuncId, off: u64) -> Result {
        self.pool.peer_let_go(self.epoch, service, off)
    }

    /// The peer's end of that service has ended, or begun anew: it reaches nothing any more of what
    /// the service has granted or exposed to it, in whichever life of the module here. What other
    /// services have is as it was.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` once the epoch is over: nothing has to be let go of then.
    pub fn peer_let_all_go(&self, service: FuncId) -> Result {
        self.pool.peer_let_all_go(self.epoch, service)
    }

    /// Whether a window of the peer could be led to that memory, if it were free.
    ///
    /// # Errors
    ///
    /// As [`expose`](Self::expose); `EOPNOTSUPP` also unless that is memory of devices: the
    /// kernel's own is not shown.
    pub fn can_expose(&self, phys: u64, len: u64) -> Result {
        let check = |way: &dyn LeadWindows, window| way.check(window, phys, len);
        self.pool.can_expose(self.epoch, &check)
    }

    /// Whether a window of the peer could be led to pages of a process, if it were free.
    ///
    /// # Errors
    ///
    /// As [`expose_pages`](Self::expose_pages).
    pub fn can_expose_pages(&self, pages: &Arc<UserPages>) -> Result {
        let check = |way: &dyn LeadWindows, window| way.check_pages(window, pages);
        self.pool.can_expose(self.epoch, &check)
    }

    /// As [`expose`](Self::expose), to pages of a process, which stay pinned until the peer
    /// does not reach them any more.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the bridge has no window for that, or none that is free or large enough;
    /// `EOPNOTSUPP` if none can begin and end there, or the pages are not in one run for the
    /// bridge; what the bridge's driver reports; `ENOTCONN` once the epoch is over.
    pub fn expose_pages(&self, service: FuncId, pages: &Arc<UserPages>) -> Result<Exposure> {
        self.lead(service, &What::Pages(pages))
    }

    /// Let the bridge reach a part of a dma-buf, for [`expose_attached`](Self::expose_attached).
    /// Sleeps, maybe for long: not to be called with a lock. To be dropped before the interface goes.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the bridge has no window for that; those of [`LeadWindows::attach`]; `ENOTCONN` once
    /// the epoch is over.
    pub fn attach(&self, part: &Arc<Part>) -> Result<Arc<Attached>> {
        self.pool.way(self.epoch)?.attach(part)
    }

    /// Whether a window of the peer could be led there, if it were free.
    ///
    /// # Errors
    ///
    /// As [`expose_attached`](Self::expose_attached).
    pub fn can_expose_attached(&self, attached: &Arc<Attached>) -> Result {
        let check = |way: &dyn LeadWindows, window| way.check_attached(window, attached);
        self.pool.can_expose(self.epoch, &check)
    }

    /// As [`expose`](Self::expose), to what the bridge reaches so, and keeps until the peer does not
    /// reach it any more.
    ///
    /// # Errors
    ///
    /// Those of [`expose`](Self::expose).
    pub fn expose_attached(&self, service: FuncId, attached: &Arc<Attached>) -> Result<Exposure> {
        self.lead(service, &What::Attached(attached))
    }

    fn lead(&self, service: FuncId, what: &What<'_>) -> Result<Exposure> {
        let led = self.pool.expose(self.epoch, service, what)?;
        Ok(Exposure::new(&self.pool, led, what.len()))
    }

    /// Lead a window of the peer to physical memory of this host, for that service. The peer may
    /// reach it from now on, until it [lets go](Self::peer_let_go).
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the bridge has no window for that, or none that is free or large enough;
    /// `EOPNOTSUPP` if none can begin and end there; what the bridge's driver reports; `ENOTCONN`
    /// once the epoch is over.
    pub fn expose(&self, service: FuncId, range: &DeviceRange) -> Result<Exposure> {
        self.lead(service, &What::Physical(range))
    }

    /// The piece of the peer's memory that it has granted at `off`, as this host reaches
    /// it. That the place lies in what this host may reach is checked; what the peer has
    /// granted is between it and the service. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not begin on a page, has no bytes or does not lie in the
    /// peer's memory; `ENOTCONN` once the epoch is over; of a window that the peer leads
    /// elsewhere also those of [`SeeWindows::look`]; `ENOMEM`.
    pub fn reach(self: &Arc<Self>, off: u64, len: u64) -> Result<Remote> {
        let at = Place::decode(off);
        let end = at.off.checked_add(len).ok_or(EINVAL)?;
        if len == 0 || off % PAGE != 0 || end > self.len_of(at.window) {
            return Err(EINVAL);
        }
        if at.window >= reach::FIRST_EXPOSED {
            self.look(at.window, end)?;
        }
        self.with_remote(at.window, |_| Ok(()))?;
        Remote::new(self, at, len)
    }

    /// Find out where a window leads now, which is to have that many bytes.
    fn look(&self, window: u16, len: u64) -> Result {
        let number = u32::from(window - reach::FIRST_EXPOSED);
        let see = self.see.lock();
        let (bytes, seen) = see.as_ref().ok_or(error::not_connected())?.look(number)?;
        if len > seen {
            return Err(EINVAL);
        }
        let bytes = Arc::new(RemoteRef(bytes), GFP_KERNEL)?;
        let window = self.windows.get(usize::from(window)).ok_or(EINVAL)?;
        drop(window.bytes.replace(Some(bytes)));
        Ok(())
    }

    /// Run `f` on a window to the peer's memory.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` once the epoch is over, or that of `f`.
    fn with_remote<R>(
        &self,
        window: u16,
        f: impl FnOnce(&dyn RemoteBytes) -> Result<R>,
    ) -> Result<R> {
        let guard = rcu::read_lock();
        let window = self.windows.get(usize::from(window));
        match window.and_then(|window| window.bytes.load(&guard)) {
            Some(remote) => f(&*remote.0),
            None => Err(error::not_connected()),
        }
    }
}
