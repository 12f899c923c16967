// SPDX-License-Identifier: GPL-2.0-only

//! The commons: memory of this host that the peers of many links reach at the same
//! place.
//!
//! One run of pages, taken when it is first needed: when a link leads a window there,
//! or a piece is cut. A bridge with a single window has none to lead there. While it is
//! the only link of the host, pieces come from that link's arena instead, its *home
//! link*, so that one window is enough for two hosts.

use super::{
    pieces::Local,
    stock::{
        Stock,
        MAX_PIECES, //
    },
    Cache,
    LocalBytes,
    PageFrame,
    Pool,
    RemoteBytes, //
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
    barrier,
    contiguous::ContiguousPages,
    dmem::Charge,
    error,
    sync::RcuArc, //
};
use mp_proto::reach;

/// Less is not worth a run of its own.
const MIN_LEN: usize = 64 << 10;

/// To so many links a piece can be granted if all pieces are, and to more if not.
const MANY_LINKS: usize = 16;

/// The commons of this host, while there is a message frame service.
static COMMONS: RcuArc<Commons> = RcuArc::empty();

/// The run of pages.
struct Pages(Arc<ContiguousPages>);

impl Pages {
    fn frame(&self, off: u64) -> Result<PageFrame> {
        if off >= self.0.len() as u64 {
            return Err(EINVAL);
        }
        PageFrame::at(self.0.phys_address() + off, Cache::Cached)
    }
}

fn place(off: u64) -> Result<usize> {
    Ok(usize::try_from(off)?)
}

impl LocalBytes for Pages {
    fn page(&self, off: u64) -> Result<PageFrame> {
        self.frame(off)
    }

    fn address(&self, off: u64) -> Option<*mut u8> {
        let at = place(off).ok()?;
        (at < self.0.len()).then(|| self.0.as_ptr().wrapping_add(at))
    }

    fn load_u64(&self, off: u64) -> Result<u64> {
        self.0.read_u64(place(off)?)
    }

    fn store_u64(&self, off: u64, val: u64) -> Result {
        self.0.write_u64(place(off)?, val)
    }

    fn exchange_u64(&self, off: u64, expected: u64, desired: u64) -> Result<bool> {
        self.0.exchange_u64(place(off)?, expected, desired)
    }

    fn read(&self, off: u64, dst: &mut [u8]) -> Result {
        self.0.read(place(off)?, dst)
    }

    fn write(&self, off: u64, src: &[u8]) -> Result {
        self.0.write(place(off)?, src)
    }

    fn zero(&self, off: u64, len: u64) -> Result {
        self.0.zero(place(off)?, place(len)?)
    }
}

/// What a link makes of the commons.
struct Link {
    pool: Arc<Pool>,
    /// Its peer reaches them.
    has_window: bool,
}

struct State {
    /// Until the service ends.
    is_open: bool,
    pages: Option<Arc<ContiguousPages>>,
    /// Of all bridges, which the loopback is not.
    links: KVec<Link>,
}

/// How much memory there is; bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CommonsLimits {
    /// All pieces together, at most.
    pub total: u64,
    /// The largest piece that can be cut now.
    pub largest_free: u64,
}

/// The commons of a host.
#[pin_data]
pub struct Commons {
    /// Most bytes, as the module's parameter says: zero, or a power of two.
    wanted: usize,
    /// What is cut from the run, once there is one.
    stock: RcuArc<Stock>,
    #[pin]
    state: Mutex<State>,
}

/// For the module.
impl Commons {
    /// Open the commons of this host, of so many bytes at most; zero: none.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn open(len: usize) -> Result<Open> {
        let wanted = len.checked_ilog2().map_or(0, |n| 1 << n);
        let this = Self::new(wanted)?;
        drop(COMMONS.replace(Some(this.clone())));
        Ok(Open(this))
    }

    fn new(wanted: usize) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                wanted,
                stock: RcuArc::empty(),
                state <- new_mutex!(State {
                    is_open: true,
                    pages: None,
                    links: KVec::new(),
                }),
            }),
            GFP_KERNEL,
        )
    }
}

/// Open the commons. Dropping it takes them away from everybody on this host; no
/// link is there any more then.
pub(crate) struct Open(Arc<Commons>);

impl Open {
    /// The commons.
    pub(crate) fn commons(&self) -> &Arc<Commons> {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(COMMONS.replace(None));
        let pages = {
            let mut state = self.0.state.lock();
            state.is_open = false;
            state.pages.take()
        };
        if let Some(stock) = self.0.stock.replace(None) {
            stock.close();
        }
        drop(pages);
    }
}

/// For transports.
impl Commons {
    /// The commons of this host.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a message frame service.
    pub fn get() -> Result<Arc<Self>> {
        COMMONS.get().ok_or(ENODEV)
    }

    /// The run of pages, taken now if it was not before: to be mapped for a bridge, and
    /// kept for as long as the bridge may reach it.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there is to be none, `ENOMEM`, `ENOTCONN` if the service ends.
    pub fn pages(&self) -> Result<Arc<ContiguousPages>> {
        let mut state = self.state.lock();
        if !state.is_open {
            return Err(error::not_connected());
        }
        if let Some(pages) = &state.pages {
            return Ok(pages.clone());
        }
        let pages = Arc::new(self.take()?, GFP_KERNEL)?;
        let bytes = Arc::new(Pages(pages.clone()), GFP_KERNEL)?;
        let stock = Stock::new(
            (reach::COMMONS, true),
            (c"commons", pages.len() as u64),
            bytes,
            (MAX_PIECES, MANY_LINKS),
        )?;
        drop(self.stock.replace(Some(stock)));
        state.pages = Some(pages.clone());
        Ok(pages)
    }

    /// As many pages as wanted, or as there are.
    fn take(&self) -> Result<ContiguousPages> {
        let mut len = self.wanted;
        if len == 0 {
            return Err(ENOSPC);
        }
        loop {
            match ContiguousPages::new(len.max(PAGE_SIZE)) {
                Err(e) if e == ENOMEM && len >= 2 * MIN_LEN => len /= 2,
                other => return other,
            }
        }
    }

    /// There is a link with that memory. It is forgotten when that is
    /// [closed](Pool::close).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn join(&self, pool: &Arc<Pool>) -> Result {
        let link = Link {
            pool: pool.clone(),
            has_window: pool.commons_reach() != 0,
        };
        Ok(self.state.lock().links.push(link, GFP_KERNEL)?)
    }
}

impl Commons {
    /// A link has gone: its peer reaches nothing any more.
    pub(super) fn forget(&self, link: u64) {
        let gone = {
            let mut state = self.state.lock();
            let at = state.links.iter().position(|l| l.pool.link() == link);
            at.and_then(|at| state.links.remove(at).ok())
        };
        if let Some(stock) = self.stock() {
            stock.let_all_go(link, None);
        }
        drop(gone);
    }

    /// What is cut from, once the run is there.
    pub(super) fn stock(&self) -> Option<Arc<Stock>> {
        self.stock.get()
    }

    /// Most bytes that there can be.
    pub(crate) fn max_len(&self) -> u64 {
        self.wanted as u64
    }

    /// Where the next piece is cut.
    fn source(&self) -> Result<Arc<Stock>> {
        let home = match &self.state.lock().links[..] {
            [only] if !only.has_window => Some(only.pool.arena().clone()),
            _ => None,
        };
        if let Some(home) = home {
            return Ok(home);
        }
        self.pages()?;
        self.stock().ok_or(error::not_connected())
    }
}

/// For function services.
impl Commons {
    /// Cut a piece of `len` bytes, all zero, that the peers of many links can be
    /// [granted](super::Memory::grant), also in epochs to come. Sleeps.
    ///
    /// It goes with the memory that it was cut from, as pieces of an arena do: with the
    /// device if that is a home link, else with the message frame service.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes, `ENOSPC` if no free run is long enough or there are no
    /// commons, `ENOBUFS` if there are too many pieces, `ENOMEM`, `ENOTCONN` if the
    /// memory goes.
    pub fn alloc(&self, len: u64) -> Result<Local> {
        Local::cut(&self.source()?, len, Charge::NONE)
    }

    /// As [`alloc`](Self::alloc), for the calling process: its control group is charged until the piece
    /// is nobody's any more.
    ///
    /// # Errors
    ///
    /// Those of that, and `EDQUOT` if the group may not have so much of the memory that it is cut from.
    pub fn alloc_for_caller(&self, len: u64) -> Result<Local> {
        let stock = self.source()?;
        Local::cut(&stock, len, stock.charge(len)?)
    }

    /// How much memory there is for [`alloc`](Self::alloc) now; nothing if there is to be
    /// none, or none could be had. Sleeps.
    pub fn limits(&self) -> CommonsLimits {
        let Ok(stock) = self.source() else {
            return CommonsLimits::default();
        };
        CommonsLimits {
            total: stock.len(),
            largest_free: stock.largest(),
        }
    }
}

/// The commons as this host reaches them as its own peer.
pub(crate) struct OwnCommons(pub(crate) Arc<Commons>);

impl OwnCommons {
    fn with<R>(&self, f: impl FnOnce(&dyn LocalBytes) -> Result<R>) -> Result<R> {
        match self.0.stock.load(&rcu::read_lock()) {
            Some(stock) => stock.with_bytes(f),
            None => Err(error::not_connected()),
        }
    }
}

impl RemoteBytes for OwnCommons {
    fn page(&self, off: u64) -> Result<PageFrame> {
        self.with(|bytes| bytes.page(off))
    }

    fn store_u64(&self, off: u64, val: u64) -> Result {
        self.with(|bytes| bytes.store_u64(off, val))
    }

    fn write(&self, off: u64, src: &[u8]) -> Result {
        self.with(|bytes| bytes.write(off, src))
    }

    fn flush(&self) {
        barrier::wmb();
    }
}
