// SPDX-License-Identifier: GPL-2.0-only

//! What the peer of one link may reach of this host's memory, over all epochs.

use super::{
    commons::Commons,
    exposed::{
        Check,
        Exposed,
        Led,
        What, //
    },
    pieces::Local,
    stock::{
        Stock,
        MAX_PIECES, //
    },
    LeadWindows,
    LocalBytes, //
};
use crate::frame::FuncId;
use kernel::{
    new_mutex,
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex,
        MutexGuard, //
    }, //
};
use mp_kernel::{
    dmem::Charge,
    error, //
};
use mp_proto::reach::{
    self,
    Place, //
};

/// The number of the next pool.
static NEXT: Atomic<u64> = Atomic::new(1);

/// The epoch of a link.
struct Epoch {
    /// Zero before the first one.
    number: u64,
    is_up: bool,
}

/// The commons, as the peer of a link reaches them.
struct Share {
    commons: Arc<Commons>,
    /// How many bytes from the start.
    reach: u64,
}

/// The memory of this host that the peer of one link may reach, over all epochs of the
/// link: its own arena, a share of the commons, and windows that can be led elsewhere.
///
/// Belongs to the transport that has the memory, and lives for as long as pieces do.
#[pin_data]
pub struct Pool {
    /// Names the link among those of this host.
    link: u64,
    arena: Arc<Stock>,
    share: Option<Share>,
    #[pin]
    epoch: Mutex<Epoch>,
    /// The inner one of the two.
    #[pin]
    exposed: Mutex<Exposed>,
}

/// Most pieces of the pool of the own host: windows of sessions within it, and what no peer reaches.
const HOST_PIECES: usize = 4 * MAX_PIECES;

/// What a pool has besides its arena.
#[derive(Default)]
pub struct Further {
    /// The commons, and how many bytes from their start the peer reaches.
    pub commons: Option<(Arc<Commons>, u64)>,
    /// Windows that can be led to memory of the caller's choice.
    pub windows: Option<Arc<dyn LeadWindows>>,
    /// Its memory is that of no device: it stays as long as this module.
    pub is_lasting: bool,
}

/// For transports.
impl Pool {
    /// A pool of the first `len` bytes of some memory, rounded down to pages, and of
    /// what the link has besides. Control groups are limited in that memory under `mp/` and its name.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(
        (name, len): (&CStr, u64),
        bytes: Arc<dyn LocalBytes>,
        further: Further,
    ) -> Result<Arc<Self>> {
        let pieces = match further.is_lasting {
            true => HOST_PIECES,
            false => MAX_PIECES,
        };
        let window = (reach::ARENA, further.is_lasting);
        let arena = Stock::new(window, (name, len), bytes, (pieces, 1))?;
        let exposed = Exposed::new(further.windows)?;
        let share = further.commons;
        let this = Arc::pin_init(
            pin_init!(Self {
                link: NEXT.fetch_add(1, Relaxed),
                arena,
                share: share.map(|(commons, reach)| Share { commons, reach }),
                epoch <- new_mutex!(Epoch {
                    number: 0,
                    is_up: false,
                }),
                exposed <- new_mutex!(exposed),
            }),
            GFP_KERNEL,
        )?;
        Ok(this)
    }

    /// The memory is about to go: nobody on this host reaches it any more when this
    /// returns, and no call into the transport's [`LocalBytes`] or [`LeadWindows`] is
    /// under way. The peer does not reach the commons any more when it is called.
    /// Sleeps.
    pub fn close(&self) {
        self.arena.close();
        self.exposed.lock().close();
        if let Ok(commons) = Commons::get() {
            commons.forget(self.link);
        }
    }
}

impl Pool {
    /// Bytes of the arena.
    pub(super) fn len(&self) -> u64 {
        self.arena.len()
    }

    /// Name the link.
    pub(super) fn link(&self) -> u64 {
        self.link
    }

    /// The arena.
    pub(super) fn arena(&self) -> &Arc<Stock> {
        &self.arena
    }

    /// How many bytes of the commons the peer reaches.
    pub(super) fn commons_reach(&self) -> u64 {
        self.share.as_ref().map_or(0, |share| share.reach)
    }

    /// Begin an epoch and say its number.
    pub(super) fn begin_epoch(&self) -> u64 {
        let mut epoch = self.epoch.lock();
        self.let_all_go(None);
        epoch.number += 1;
        epoch.is_up = true;
        epoch.number
    }

    /// The peer reaches nothing any more of what it was granted or exposed, or of what it was for that
    /// service.
    fn let_all_go(&self, service: Option<FuncId>) {
        self.arena.let_all_go(self.link, service);
        if let Some(commons) = self.commons() {
            commons.let_all_go(self.link, service);
        }
        self.exposed.lock().let_all_go(service);
    }

    /// End an epoch. What is in quarantine stays there: the peer may not know yet.
    pub(super) fn end_epoch(&self, number: u64) {
        let mut epoch = self.epoch.lock();
        if epoch.number == number {
            epoch.is_up = false;
        }
    }

    /// Let the epoch last while the guard lives.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` unless that is the present one.
    fn in_epoch(&self, number: u64) -> Result<MutexGuard<'_, Epoch>> {
        let epoch = self.epoch.lock();
        let is_now = epoch.is_up && epoch.number == number;
        is_now.then_some(epoch).ok_or(error::not_connected())
    }

    /// Bytes of the two longest free runs of the arena, the longest first; `None` once the epoch
    /// is over.
    pub(super) fn runs(&self, epoch: u64) -> Option<[u64; 2]> {
        let _epoch = self.in_epoch(epoch).ok()?;
        Some(self.arena.runs())
    }

    /// See [`Memory::alloc`](super::Memory::alloc).
    pub(super) fn alloc(&self, epoch: u64, len: u64, charge: Charge) -> Result<Local> {
        drop(self.in_epoch(epoch)?);
        Local::cut(&self.arena, len, charge)
    }

    /// See [`Memory::can_grant`](super::Memory::can_grant).
    pub(super) fn can_reach(&self, local: &Local) -> bool {
        if local.is_of(&self.arena) {
            return true;
        }
        let is_common = self.commons().is_some_and(|stock| local.is_of(&stock));
        is_common && local.pages_end() <= self.commons_reach()
    }

    /// See [`Memory::grant`](super::Memory::grant).
    pub(super) fn grant(&self, epoch: u64, service: FuncId, local: &Local) -> Result {
        if !self.can_reach(local) {
            return Err(ENOSPC);
        }
        let _epoch = self.in_epoch(epoch)?;
        local.grant(self.link, service)
    }

    /// See [`Memory::peer_let_go`](super::Memory::peer_let_go).
    pub(super) fn peer_let_go(&self, epoch: u64, service: FuncId, number: u64) -> Result {
        let _epoch = self.in_epoch(epoch)?;
        let Place { window, off } = Place::decode(number);
        let whose = (self.link, service);
        match window {
            reach::ARENA => self.arena.let_go(whose, off),
            reach::COMMONS => {
                let commons = self.commons().ok_or(ENOENT)?;
                commons.let_go(whose, off)
            }
            window => self.exposed.lock().let_go(service, window, off),
        }
    }

    /// See [`Memory::peer_let_all_go`](super::Memory::peer_let_all_go).
    pub(super) fn peer_let_all_go(&self, epoch: u64, service: FuncId) -> Result {
        let _epoch = self.in_epoch(epoch)?;
        self.let_all_go(Some(service));
        Ok(())
    }

    /// The way to lead windows.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are none, `ENOTCONN` once the epoch is over or the link has gone.
    pub(super) fn way(&self, epoch: u64) -> Result<Arc<dyn LeadWindows>> {
        let _epoch = self.in_epoch(epoch)?;
        self.exposed.lock().way()
    }

    /// See [`Memory::can_expose`](super::Memory::can_expose).
    pub(super) fn can_expose(&self, epoch: u64, check: &Check<'_>) -> Result {
        let _epoch = self.in_epoch(epoch)?;
        self.exposed.lock().can_expose(check)
    }

    /// See [`Memory::expose`](super::Memory::expose).
    pub(super) fn expose(&self, epoch: u64, service: FuncId, what: &What<'_>) -> Result<Led> {
        let _epoch = self.in_epoch(epoch)?;
        self.exposed.lock().expose(service, what)
    }

    /// The owner of an exposure gives it up.
    pub(super) fn conceal(&self, led: Led) {
        self.exposed.lock().give_up(led);
    }

    /// The memory of the commons, if there is any yet.
    fn commons(&self) -> Option<Arc<Stock>> {
        self.share.as_ref()?.commons.stock()
    }
}
