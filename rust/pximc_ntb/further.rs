// SPDX-License-Identifier: GPL-2.0-only

//! Windows beside that of the inbound memory.
//!
//! The windows between two hosts are numbered from zero, the same at both ends: as many
//! as either end has are used. Number 0 leads to the inbound memory, number 1 to the
//! commons of its host, if there are any, and all others to what their host exposes
//! there at the time.
//!
//! Where the sender programs the translation, it leads number 1 to the address that the
//! owner's Hello tells, and the others to those that the owner writes into its status page
//! ([`Target`]). The owner cannot end that at once, so it shows no pages of processes there.

use crate::{
    device::Shared,
    dma::{
        self,
        Engine, //
    },
    memory::{
        LocalMemory,
        RemoteMemory, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    dma_buf::{
        Attached,
        Part, //
    },
    error,
    iomem::{
        is_device_memory,
        DeviceRange, //
    },
    ntb::{
        device::WindowLimits,
        range::MappedRange,
        PeerWindow, //
    },
    user_pages::UserPages, //
};
use mp_proto::{
    layout::PAGE,
    link::Further,
    target::Target, //
};
use mp_transport::{
    copy::Completion,
    local::Piece,
    memory::{
        Cache,
        Commons,
        LeadWindows,
        PageFrame,
        RemoteBytes,
        SeeWindows, //
    }, //
};

/// The window that leads to the commons.
const COMMONS: u32 = 1;
/// The first of those that lead to what is exposed.
const EXPOSED: u32 = 2;

/// The commons, as a peer reaches them. Dropping it ends that.
struct CommonsWindow {
    range: MappedRange,
    commons: Arc<Commons>,
    len: u64,
}

impl CommonsWindow {
    /// Lead the window of peer `pidx` to the commons; the peer does it where it
    /// programs the translation.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such window, `EOPNOTSUPP` if it cannot lead there, those
    /// of [`Commons::pages`], or what the bridge's driver reports.
    fn open(shared: &Shared, pidx: u32) -> Result<Self> {
        let widx = shared.inbound_widx(pidx, COMMONS).ok_or(ENODEV)?;
        let commons = Commons::get()?;
        let pages = commons.pages()?;
        let limits = shared.ntb().mw_get_align(pidx, widx)?;
        let len = reach(&limits, pages.len() as u64);
        let mut range = MappedRange::of_run(shared.ntb(), &pages)?;
        if len == 0 || !limits.is_aligned(range.dma_address()) {
            return Err(error::unsupported());
        }
        range.expose(pidx, widx, len)?;
        Ok(Self {
            range,
            commons,
            len,
        })
    }
}

/// How much of `len` bytes a window can lead to: whole pages.
fn reach(limits: &WindowLimits, len: u64) -> u64 {
    let len = len.min(limits.size_max);
    let unit = limits.size_align.max(PAGE);
    len - len % unit
}

/// The further windows of one peer, at this host's end. To be dropped before the
/// memory that it offers by them is closed.
pub(crate) struct Windows {
    commons: Option<CommonsWindow>,
    exposed: u32,
}

impl Windows {
    /// Open what can be opened; what cannot, is not there.
    pub(crate) fn open(shared: &Shared, pidx: u32) -> Self {
        let commons = CommonsWindow::open(shared, pidx);
        if let Err(e) = &commons {
            if *e != ENODEV && *e != ENOSPC {
                dev_warn!(
                    shared.ntb(),
                    "peer {}: its second window does not reach the commons: error {}\n",
                    pidx,
                    e.to_errno(),
                );
            }
        }
        let exposed = (EXPOSED..)
            .take_while(|number| shared.inbound_widx(pidx, *number).is_some())
            .count() as u32;
        Self {
            commons: commons.ok(),
            exposed,
        }
    }

    /// What the peer is told of them.
    pub(crate) fn told(&self) -> Further {
        let commons = self.commons.as_ref();
        Further {
            commons_len: commons.map_or(0, |commons| commons.len),
            commons_addr: commons.map_or(0, |commons| commons.range.dma_address()),
            exposed: self.exposed,
        }
    }

    /// The commons, and how many of their bytes the peer reaches.
    pub(crate) fn commons(&self) -> Option<(Arc<Commons>, u64)> {
        let window = self.commons.as_ref()?;
        Some((window.commons.clone(), window.len))
    }

    /// The windows that can be led elsewhere, if there are any.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn lead(&self, shared: &Arc<Shared>, pidx: u32) -> Result<Option<Arc<Lead>>> {
        if self.exposed == 0 {
            return Ok(None);
        }
        let mut led = KVec::new();
        for _ in 0..self.exposed {
            led.push(None, GFP_KERNEL)?;
        }
        let lead = Arc::pin_init(
            pin_init!(Lead {
                shared: shared.clone(),
                pidx,
                state <- new_mutex!(Leading { led, far: None }),
            }),
            GFP_KERNEL,
        )?;
        Ok(Some(lead))
    }
}

/// What windows lead to, and who is to be told of it.
struct Leading {
    /// What each leads to.
    led: KVec<Option<MappedRange>>,
    /// The status page of a peer that programs the translation itself, in an epoch.
    far: Option<RemoteMemory>,
}

impl Leading {
    /// Tell the peer where a window leads, if it has to know.
    fn tell(&self, window: u32) {
        let Some(far) = &self.far else { return };
        // Every peer has words for as many windows as are used.
        let _ = match self.led.get(window as usize) {
            Some(Some(range)) => Target {
                addr: range.dma_address(),
                len: range.len() as u64,
            }
            .write(window, far),
            _ => Target::clear(window, far),
        };
    }
}

/// Leads windows of one peer to physical memory.
#[pin_data]
pub(crate) struct Lead {
    shared: Arc<Shared>,
    pidx: u32,
    #[pin]
    state: Mutex<Leading>,
}

impl Lead {
    /// Begin an epoch, in which the peer's inbound memory is behind `far`.
    pub(crate) fn begin(&self, far: &RemoteMemory) {
        if self.shared.ntb().receiver_translates() {
            return;
        }
        let mut state = self.state.lock();
        state.far = Some(far.clone());
        (0..state.led.len() as u32).for_each(|window| state.tell(window));
    }

    /// The peer's inbound memory is not reached any more.
    pub(crate) fn end(&self) {
        let far = self.state.lock().far.take();
        drop(far);
    }

    /// The NTB core's number of a window, and the bytes that it leads to when it leads
    /// to some memory.
    ///
    /// # Errors
    ///
    /// See [`LeadWindows::check`].
    fn plan(&self, window: u32, phys: u64, len: u64) -> Result<(u32, u64)> {
        let (widx, limits, whole) = self.room(window, len)?;
        let is_aligned = phys % PAGE == 0 && limits.is_aligned(phys);
        if !is_aligned || !is_device_memory(phys, whole) {
            return Err(error::unsupported());
        }
        Ok((widx, whole))
    }

    /// The NTB core's number of a window, its limits, and the bytes that it leads to when it
    /// is to lead to `len`.
    ///
    /// # Errors
    ///
    /// `ENODEV`, `ENOSPC`, `EOPNOTSUPP` if it cannot end there.
    fn room(&self, window: u32, len: u64) -> Result<(u32, WindowLimits, u64)> {
        let number = EXPOSED.checked_add(window).ok_or(ENODEV)?;
        let widx = self.shared.inbound_widx(self.pidx, number).ok_or(ENODEV)?;
        let limits = self.shared.ntb().mw_get_align(self.pidx, widx)?;
        let whole = len.checked_next_multiple_of(PAGE).ok_or(ENOSPC)?;
        if whole > limits.size_max {
            return Err(ENOSPC);
        }
        // Nothing else is shown to the peer than what was named, but for the rest of a page.
        match limits.is_size(whole) {
            true => Ok((widx, limits, whole)),
            false => Err(error::unsupported()),
        }
    }

    /// Pages of a process as a window can lead to them, with its number and their bytes.
    ///
    /// # Errors
    ///
    /// See [`LeadWindows::check_pages`].
    fn map(&self, window: u32, pages: &Arc<UserPages>) -> Result<(MappedRange, u32, u64)> {
        let (widx, limits, whole) = self.room(window, pages.len() as u64)?;
        // A peer that leads the window itself could reach them when they are somebody else's.
        if pages.start() != 0 || !self.shared.ntb().receiver_translates() {
            return Err(error::unsupported());
        }
        let range = MappedRange::of_pages(self.shared.ntb(), pages)?;
        match limits.is_aligned(range.dma_address()) {
            true => Ok((range, widx, whole)),
            false => Err(error::unsupported()),
        }
    }

    /// What the bridge reaches as a window can lead to it, with its number and its bytes.
    ///
    /// # Errors
    ///
    /// See [`LeadWindows::check_attached`].
    fn range_of(&self, window: u32, attached: &Arc<Attached>) -> Result<(MappedRange, u32, u64)> {
        let (widx, limits, whole) = self.room(window, attached.len())?;
        let range = MappedRange::of_attached(self.shared.ntb(), attached)?;
        match limits.is_aligned(range.dma_address()) {
            true => Ok((range, widx, whole)),
            false => Err(error::unsupported()),
        }
    }

    /// A window leads there now.
    fn led(&self, window: u32, range: MappedRange) -> Result {
        let mut state = self.state.lock();
        let place = state.led.get_mut(window as usize).ok_or(ENODEV)?;
        *place = Some(range);
        state.tell(window);
        Ok(())
    }
}

impl LeadWindows for Lead {
    fn count(&self) -> u32 {
        self.state.lock().led.len() as u32
    }

    fn check(&self, window: u32, phys: u64, len: u64) -> Result {
        self.plan(window, phys, len).map(|_| ())
    }

    fn lead(&self, window: u32, range: &DeviceRange) -> Result {
        let (widx, whole) = self.plan(window, range.phys(), range.len())?;
        let mut range = MappedRange::of_device(self.shared.ntb(), range, whole)?;
        let limits = self.shared.ntb().mw_get_align(self.pidx, widx)?;
        if !limits.is_aligned(range.dma_address()) {
            return Err(error::unsupported());
        }
        range.expose(self.pidx, widx, whole)?;
        self.led(window, range)
    }

    fn check_pages(&self, window: u32, pages: &Arc<UserPages>) -> Result {
        self.map(window, pages).map(|_| ())
    }

    fn lead_pages(&self, window: u32, pages: &Arc<UserPages>) -> Result {
        let (mut range, widx, whole) = self.map(window, pages)?;
        range.expose(self.pidx, widx, whole)?;
        self.led(window, range)
    }

    fn attach(&self, part: &Arc<Part>) -> Result<Arc<Attached>> {
        // A peer that leads the window itself could reach it when it is somebody else's.
        match self.shared.ntb().receiver_translates() {
            true => MappedRange::attach(self.shared.ntb(), part),
            false => Err(error::unsupported()),
        }
    }

    fn check_attached(&self, window: u32, attached: &Arc<Attached>) -> Result {
        self.range_of(window, attached).map(|_| ())
    }

    fn lead_attached(&self, window: u32, attached: &Arc<Attached>) -> Result {
        let (mut range, widx, whole) = self.range_of(window, attached)?;
        range.expose(self.pidx, widx, whole)?;
        self.led(window, range)
    }

    fn withdraw(&self, window: u32) {
        let mut state = self.state.lock();
        let range = state.led.get_mut(window as usize).and_then(Option::take);
        state.tell(window);
        drop(state);
        drop(range);
    }
}

/// Memory that a window leads to from its start.
struct Seen {
    memory: RemoteMemory,
    /// What copies there as the window with that number; `None` if nothing does.
    engine: Option<(Arc<Engine>, usize)>,
}

impl Seen {
    fn place(&self, base: u64, off: u64) -> Result<u64> {
        if off >= self.memory.0.len() as u64 {
            return Err(EINVAL);
        }
        base.checked_add(off).ok_or(EINVAL)
    }
}

impl RemoteBytes for Seen {
    fn page(&self, off: u64) -> Result<PageFrame> {
        let phys = self.place(self.memory.0.phys_addr(), off)?;
        PageFrame::at(phys, Cache::WriteCombining)
    }

    fn bus_address(&self, off: u64) -> Result<u64> {
        self.place(self.memory.0.bus_addr(), off)
    }

    fn store_u64(&self, off: u64, val: u64) -> Result {
        self.memory.0.write_u64(usize::try_from(off)?, val)
    }

    fn write(&self, off: u64, src: &[u8]) -> Result {
        self.memory.0.copy_from(usize::try_from(off)?, src.into())
    }

    unsafe fn copy(&self, off: u64, pieces: &[Piece], done: Completion) -> Result {
        let (engine, window) = self.engine.as_ref().ok_or(ENODEV)?;
        // SAFETY: As the caller promises.
        unsafe { engine.copy_much(*window, off, pieces, done) }
    }

    fn flush(&self) {
        self.memory.0.flush();
    }
}

/// What is reached of a peer's memory, and how many bytes.
pub(crate) type Reached = (Arc<dyn RemoteBytes>, u64);

/// The window to the commons of peer `pidx`, of which it has told that, and how many of
/// their bytes are reached; `None` if this end has no window for them.
///
/// # Errors
///
/// `ENOMEM`, or what the bridge's driver reports.
pub(crate) fn commons_of(
    shared: &Shared,
    pidx: u32,
    told: &Further,
) -> Result<Option<(RemoteMemory, u64)>> {
    let widx = shared.outbound_widx(pidx, COMMONS);
    let (Some(widx), true) = (widx, told.commons_len != 0) else {
        return Ok(None);
    };
    let window = shared.map_window(pidx, widx, told.commons_len, told.commons_addr)?;
    let len = told.commons_len.min(window.len() as u64);
    Ok(Some((RemoteMemory(window), len - len % PAGE)))
}

/// A peer's commons behind a window, and what copies there.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn reached(commons: (RemoteMemory, u64), engine: &Arc<Engine>) -> Result<Reached> {
    let (memory, len) = commons;
    let engine = Some((engine.clone(), dma::COMMONS));
    Ok((Arc::new(Seen { memory, engine }, GFP_KERNEL)?, len))
}

/// The windows that peer `pidx`, which has told that, leads to memory of its choice, or
/// has this host lead there by its words in the `near` inbound memory; `None` if there
/// are none.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn see(
    shared: &Arc<Shared>,
    pidx: u32,
    told: &Further,
    near: &LocalMemory,
) -> Result<Option<Arc<dyn SeeWindows>>> {
    let here = (EXPOSED..)
        .take_while(|number| shared.outbound_widx(pidx, *number).is_some())
        .count() as u32;
    let count = told.exposed.min(here);
    if count == 0 {
        return Ok(None);
    }
    let see = See {
        shared: shared.clone(),
        pidx,
        count,
        near: near.clone(),
    };
    Ok(Some(Arc::new(see, GFP_KERNEL)?))
}

/// Windows that one peer leads to memory of its choice.
struct See {
    shared: Arc<Shared>,
    pidx: u32,
    count: u32,
    near: LocalMemory,
}

impl See {
    /// Map a window where it leads, and say how many bytes of it do.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it leads nowhere, `ENOMEM`, or what the bridge's driver reports.
    fn map(&self, window: u32, widx: u32) -> Result<(Arc<PeerWindow>, u64)> {
        let ntb = self.shared.ntb();
        if ntb.receiver_translates() {
            let mapped = Arc::new(ntb.map_peer_window(widx)?, GFP_KERNEL)?;
            let len = mapped.len() as u64;
            return Ok((mapped, len));
        }
        let Target { addr, len } = Target::read(window, &self.near).ok_or(EINVAL)?;
        let mapped = self.shared.map_window(self.pidx, widx, len, addr)?;
        let len = len.min(mapped.len() as u64);
        Ok((mapped, len))
    }
}

impl SeeWindows for See {
    fn count(&self) -> u32 {
        self.count
    }

    fn look(&self, window: u32) -> Result<Reached> {
        let number = EXPOSED.checked_add(window).ok_or(ENODEV)?;
        let widx = self.shared.outbound_widx(self.pidx, number).ok_or(ENODEV)?;
        let (mapped, len) = self.map(window, widx)?;
        let seen = Seen {
            memory: RemoteMemory(mapped),
            engine: None,
        };
        Ok((Arc::new(seen, GFP_KERNEL)?, len))
    }
}
