// SPDX-License-Identifier: GPL-2.0-only

//! Memory that pieces are cut from, who has which, and which links' peers may reach
//! them.

use super::{
    cleaner::Cleaner,
    holders::{
        Hold,
        Holders, //
    },
    Holder,
    LocalBytes, //
};
use crate::frame::FuncId;
use kernel::{
    new_mutex,
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    dmem::{
        Charge,
        Region, //
    },
    error,
    worker::{
        new_worker,
        Worker, //
    }, //
};
use mp_proto::{
    arena::{
        AllocError,
        Arena,
        Extent, //
    },
    grants::{
        Grant,
        GrantError,
        Grants, //
    },
    layout::PAGE,
    reach, //
};

/// Bytes of a word, which is stored in one piece.
const WORD: usize = size_of::<u64>();

/// Most bytes that are stored word by word.
const LINE: usize = 64;

/// Most pieces of one stock, those in quarantine included.
pub(super) const MAX_PIECES: usize = 1024;

/// How long somebody has a piece, or peers may reach it: what counts for that is kept apart.
pub struct Lease {
    is_over: Atomic<bool>,
}

impl Lease {
    /// Whether the piece is nobody's any more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Acquire)
    }
}

/// Goes with the last one who has a piece, or who may reach it.
pub(super) struct Tenant {
    lease: Arc<Lease>,
    _charge: Charge,
}

impl Tenant {
    /// The first one, whose control group is charged.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(charge: Charge) -> Result<Self> {
        let is_over = Atomic::new(false);
        Ok(Self {
            lease: Arc::new(Lease { is_over }, GFP_KERNEL)?,
            _charge: charge,
        })
    }

    /// What tells how long it is there.
    pub(super) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.lease.is_over.store(true, Release);
    }
}

/// Who has which piece.
struct Pieces {
    owned: Owned,
    grants: Grants<KVVec<Grant>>,
}

/// Pieces, and who has or had them.
struct Owned {
    arena: Arena<KVVec<Option<Extent>>>,
    cleaner: Arc<Cleaner>,
    /// Those who have given a piece up that is in quarantine, by its place. There is room for all.
    tenants: KVVec<(u64, Tenant)>,
}

impl Owned {
    /// A piece is nobody's any more.
    fn free(&mut self, off: u64) {
        if let Some(extent) = self.arena.get(off) {
            self.cleaner.stain(extent.off, extent.len);
            // It is there.
            let _ = self.arena.free(off);
        }
        self.tenants.retain(|(of, _)| *of != off);
    }

    /// Nobody may reach a piece any more: free it, if its owner has given it up.
    fn settle(&mut self, off: u64) {
        if self.arena.get(off).is_some_and(|extent| extent.retired) {
            self.free(off);
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
    /// It stays as long as this module.
    is_lasting: bool,
    cleaner: Arc<Cleaner>,
    /// Set the cleaner to work.
    worker: Arc<Worker<Cleaner>>,
    #[pin]
    pieces: Mutex<Pieces>,
    holders: Arc<Holders>,
    /// What control groups are charged for, until it goes.
    #[pin]
    region: Mutex<Option<Region>>,
}

impl Stock {
    /// The first `len` bytes of some memory, rounded down to pages, which has that name, and which
    /// peers reach by that window, with room for so many pieces and grants of each. Whether that memory
    /// `is_lasting` is what [`is_lasting`](Self::is_lasting) says.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        (window, is_lasting): (u16, bool),
        (name, len): (&CStr, u64),
        bytes: Arc<dyn LocalBytes>,
        (pieces, links): (usize, usize),
    ) -> Result<Arc<Self>> {
        let table = KVVec::from_elem(None, pieces, GFP_KERNEL)?;
        let grants = KVVec::from_elem(Grant::default(), pieces * links, GFP_KERNEL)?;
        let tenants = KVVec::with_capacity(pieces, GFP_KERNEL)?;
        let arena = Arena::new(len, table);
        let holders = Holders::new()?;
        let cleaner = Cleaner::new(arena.size(), bytes)?;
        let worker = new_worker!(cleaner.clone())?;
        worker.kick();
        let len = arena.size();
        let region = Region::new(&CString::try_from_fmt(fmt!("mp/{name}"))?, len)?;
        let pieces = Pieces {
            owned: Owned {
                arena,
                cleaner: cleaner.clone(),
                tenants,
            },
            grants: Grants::new(grants),
        };
        Arc::pin_init(
            pin_init!(Self {
                window,
                len,
                is_lasting,
                cleaner,
                worker,
                pieces <- new_mutex!(pieces),
                holders,
                region <- new_mutex!(Some(region)),
            }),
            GFP_KERNEL,
        )
    }

    /// See [`Pool::close`](super::Pool::close).
    pub(super) fn close(&self) {
        self.worker.stop();
        let region = self.region.lock().take();
        drop(region);
        let bytes = self.cleaner.close();
        self.holders.revoke();
        // Its pages may go with it: nobody maps them any more.
        drop(bytes);
    }

    /// Bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether it stays as long as this module, whatever becomes of links and bridges.
    pub(super) fn is_lasting(&self) -> bool {
        self.is_lasting
    }

    /// The number by which peers know the place at `off`.
    pub(super) fn place(&self, off: u64) -> u64 {
        reach::start_of(self.window) + off
    }

    /// The largest piece that can be cut.
    pub(super) fn largest(&self) -> u64 {
        self.runs()[0]
    }

    /// Bytes of the two longest free runs, the longest first.
    pub(super) fn runs(&self) -> [u64; 2] {
        self.pieces.lock().owned.arena.runs()
    }

    /// Cut a piece, and say where.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOSPC`, `ENOBUFS`; see [`Memory::alloc`](super::Memory::alloc).
    pub(super) fn cut(&self, len: u64) -> Result<u64> {
        let extent = self.pieces.lock().owned.arena.alloc(len);
        extent.map(|extent| extent.off).map_err(|e| match e {
            AllocError::Zero => EINVAL,
            AllocError::NoSpace => ENOSPC,
            AllocError::TooMany => error::no_buffers(),
        })
    }

    /// Charge the control group of the calling process for so many bytes, in whole pages. Sleeps.
    ///
    /// # Errors
    ///
    /// `EDQUOT` if the group may not have so many, `ENOMEM`.
    pub(super) fn charge(&self, len: u64) -> Result<Charge> {
        let pages = len.checked_next_multiple_of(PAGE).ok_or(ENOSPC)?;
        match &*self.region.lock() {
            Some(region) if (1..=self.len).contains(&pages) => region.charge(pages),
            // It goes, or nothing of that length is cut of it.
            _ => Ok(Charge::NONE),
        }
    }

    /// See [`Cleaner::prepare`].
    pub(super) fn prepare(&self, off: u64, len: u64) -> Result {
        self.cleaner.prepare(off, len)
    }

    /// The peer of a link may reach the piece at `off` from now on, for that service.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if there are too many grants.
    pub(super) fn grant(&self, (link, service): (u64, FuncId), off: u64) -> Result {
        let mut pieces = self.pieces.lock();
        let entered = pieces.grants.enter(Grant {
            off,
            link,
            service: service.0,
        });
        entered.map_err(|_| error::no_buffers())
    }

    /// The peer of a link does not reach the piece at `off` any more, for that service.
    ///
    /// # Errors
    ///
    /// `ENOENT` if that has not granted it to that one.
    pub(super) fn let_go(&self, (link, service): (u64, FuncId), off: u64) -> Result {
        let mut pieces = self.pieces.lock();
        let gone = pieces.grants.let_go(&Grant {
            off,
            link,
            service: service.0,
        });
        if gone.map_err(|_: GrantError| ENOENT)? {
            pieces.owned.settle(off);
            self.worker.kick();
        }
        Ok(())
    }

    /// The peer of a link reaches nothing any more of what it was granted, or of what that service
    /// has granted to it.
    pub(super) fn let_all_go(&self, link: u64, service: Option<FuncId>) {
        let mut pieces = self.pieces.lock();
        let Pieces { owned, grants } = &mut *pieces;
        let service = service.map(|service| service.0);
        grants.let_all_go(link, service, |off| owned.settle(off));
        self.worker.kick();
    }

    /// The owner gives a piece up. Those that peers may reach wait for them.
    pub(super) fn give_up(&self, off: u64, tenant: Tenant) {
        let mut pieces = self.pieces.lock();
        // The piece is there: it was cut for the one who gives it up, once.
        if pieces.grants.is_granted(off) {
            let _ = pieces.owned.arena.retire(off);
            // There is room for it.
            let _ = pieces.owned.tenants.push_within_capacity((off, tenant));
        } else {
            pieces.owned.free(off);
            self.worker.kick();
        }
    }

    /// Add a holder, who is told by [`close`](Self::close).
    pub(super) fn hold(&self, holder: Arc<dyn Holder>) -> Result<Hold> {
        self.holders.add(holder)
    }

    /// Run `f` on the memory.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if it has gone, or that of `f`.
    pub(super) fn with_bytes<R>(&self, f: impl FnOnce(&dyn LocalBytes) -> Result<R>) -> Result<R> {
        self.cleaner.with_bytes(f)
    }

    /// See [`Memory::store`](super::Memory::store).
    pub(super) fn store(&self, off: u64, src: &[u8]) -> Result {
        let is_words = off % (WORD as u64) == 0 && src.len() % WORD == 0;
        self.with_bytes(|bytes| {
            if !is_words || src.len() > LINE {
                return bytes.write(off, src);
            }
            let mut at = off;
            for word in src.chunks_exact(WORD) {
                let word = word.try_into().map_err(|_| EINVAL)?;
                bytes.store_u64(at, u64::from_ne_bytes(word))?;
                at += WORD as u64;
            }
            Ok(())
        })
    }
}
