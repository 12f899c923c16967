// SPDX-License-Identifier: GPL-2.0-only

//! A provider of the kernel's DMA engine core.
//!
//! An [`Engine`] is what the core holds on to; a [`Channel`] of it keeps the
//! pieces in four lists under one lock and a worker that makes the copies. A
//! piece is a descriptor on the heap: the client has its address from `prep`
//! to `submit`, afterwards it belongs to the channel.
//!
//! C header: [`include/linux/dmaengine.h`](srctree/include/linux/dmaengine.h)

use crate::behaviour::{
    Behaviour,
    Fate, //
};
use core::ptr;
use kernel::{
    container_of,
    device::Device,
    error::{
        from_err_ptr,
        to_result, //
    },
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};
use mp_bindings as bindings;
use mp_kernel::{
    new_spinlock_bh,
    sync::SpinLockBh,
    worker::{
        new_worker,
        Work,
        Worker, //
    }, //
};

/// Most channels of the engine.
const CHANNELS_MAX: u32 = 16;

/// Most pieces that a channel has at a time.
const DEPTH: usize = 512;

/// How long a finished piece waits for being reclaimed, in milliseconds.
const RECLAIM_MS: u32 = 3;

// In glue.c. Devices and channels are the core's structures.
unsafe extern "C" {
    fn dma_test_init_device(dma: *mut c_void);
    fn dma_test_add_channel(dma: *mut c_void, chan: *mut c_void);
    fn dma_test_copy(dst: u64, src: u64, len: usize) -> c_int;
    fn dma_test_spoil(dst: u64, len: usize) -> c_int;
}

/// One number of the statistics.
pub(crate) struct Count(Atomic<u64>);

impl Count {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    fn add(&self, n: usize) {
        self.0.add(n as u64, Relaxed);
    }

    /// The present value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What became of the pieces of all channels.
pub(crate) struct Tally {
    pub(crate) copied: Count,
    pub(crate) failed: Count,
    pub(crate) stalled: Count,
    pub(crate) refused: Count,
    pub(crate) terminated: Count,
    asked: Count,
}

impl Tally {
    /// Nothing has happened yet.
    pub(crate) const fn new() -> Self {
        Self {
            copied: Count::new(),
            failed: Count::new(),
            stalled: Count::new(),
            refused: Count::new(),
            terminated: Count::new(),
            asked: Count::new(),
        }
    }

    /// The number of the next piece asked for, from one on.
    fn next(&self) -> u64 {
        self.asked.0.fetch_add(1, Relaxed) + 1
    }
}

/// One copy, asked for by a client.
#[repr(C)]
struct Piece {
    tx: bindings::dma_async_tx_descriptor,
    src: u64,
    dst: u64,
    len: usize,
    number: u64,
    result: bindings::dmaengine_tx_result,
}

// SAFETY: The pointers in the descriptor are the client's and are only handed back to it.
unsafe impl Send for Piece {}

type List = KVec<KBox<Piece>>;

/// The pieces of a channel. The lists never grow beyond their first capacity.
struct Queue {
    /// Submitted, but not issued.
    submitted: List,
    /// To be copied.
    issued: List,
    /// To be reported.
    finished: List,
    /// Never to be reported.
    stalled: List,
    /// The cookie of the piece that the worker has in hand, or zero.
    in_hand: i32,
    cookie: i32,
}

impl Queue {
    fn new() -> Result<Self> {
        let list = || List::with_capacity(DEPTH, GFP_KERNEL);
        Ok(Self {
            submitted: list()?,
            issued: list()?,
            finished: list()?,
            stalled: list()?,
            in_hand: 0,
            cookie: bindings::DMA_MIN_COOKIE as i32,
        })
    }

    fn lists(&mut self) -> [&mut List; 4] {
        let Self {
            submitted,
            issued,
            finished,
            stalled,
            ..
        } = self;
        [submitted, issued, finished, stalled]
    }

    fn len(&mut self) -> usize {
        self.lists().iter().map(|list| list.len()).sum()
    }

    /// A cookie for a new piece.
    fn next_cookie(&mut self) -> i32 {
        self.cookie = match self.cookie.checked_add(1) {
            Some(cookie) => cookie,
            None => bindings::DMA_MIN_COOKIE as i32,
        };
        self.cookie
    }

    /// Whether the piece with `cookie` has not been reported.
    fn has(&mut self, cookie: i32) -> bool {
        let holds = |list: &&mut List| list.iter().any(|piece| piece.tx.cookie == cookie);
        self.in_hand == cookie || self.lists().iter().any(holds)
    }

    /// Take the next piece to copy.
    fn take(&mut self, last_first: bool) -> Option<KBox<Piece>> {
        let at = if last_first {
            self.issued.len().checked_sub(1)?
        } else {
            0
        };
        let piece = self.issued.remove(at).ok()?;
        self.in_hand = piece.tx.cookie;
        Some(piece)
    }
}

/// Put a piece into a list; one that is full, which `prep` prevents, drops it.
fn put(list: &mut List, piece: KBox<Piece>) {
    let _ = list.push_within_capacity(piece);
}

/// What a channel's worker and its callbacks share.
#[pin_data]
struct State {
    #[pin]
    queue: SpinLockBh<Queue>,
    /// Held by the worker while it has a piece in hand or reports one.
    #[pin]
    working: Mutex<()>,
    behaviour: Behaviour,
    tally: &'static Tally,
}

impl State {
    /// Decide on a piece and make its copy.
    fn process(&self, piece: &mut Piece) -> Fate {
        if self.behaviour.delay_us != 0 {
            fsleep(Delta::from_micros(self.behaviour.delay_us.into()));
        }
        let fate = self.behaviour.fate(piece.number);
        let (src, dst, len) = (piece.src, piece.dst, piece.len);
        let done = match fate {
            // SAFETY: Without an IOMMU bus addresses are physical ones, and the client keeps both
            // ranges mapped until the piece is reported or the channel synchronised.
            Fate::Copied => unsafe { dma_test_copy(dst, src, len) },
            // SAFETY: As above.
            Fate::Failed if self.behaviour.garbage => unsafe { dma_test_spoil(dst, len) },
            Fate::Failed | Fate::Stalled => 0,
        };
        piece.result = if fate == Fate::Copied && done == 0 {
            bindings::dmaengine_tx_result_DMA_TRANS_NOERROR
        } else {
            bindings::dmaengine_tx_result_DMA_TRANS_WRITE_FAILED
        };
        fate
    }

    /// Take the next piece through to its list.
    fn step(&self) -> bool {
        let Some(mut piece) = self.queue.lock().take(self.behaviour.reorder) else {
            return false;
        };
        let fate = self.process(&mut piece);
        let count = match fate {
            Fate::Copied => &self.tally.copied,
            Fate::Failed => &self.tally.failed,
            Fate::Stalled => &self.tally.stalled,
        };
        count.add(1);
        let mut queue = self.queue.lock();
        queue.in_hand = 0;
        let list = match fate {
            Fate::Stalled => &mut queue.stalled,
            _ => &mut queue.finished,
        };
        put(list, piece);
        true
    }

    /// Report all finished pieces.
    fn report(&self) {
        loop {
            let finished = self.queue.lock().finished.remove(0);
            let Ok(piece) = finished else {
                return;
            };
            let result = bindings::dmaengine_result {
                result: piece.result,
                residue: 0,
            };
            let param = piece.tx.callback_param;
            if let Some(callback) = piece.tx.callback_result {
                // SAFETY: The client's own function and parameter, called once.
                unsafe { callback(param, &result) };
            } else if let Some(callback) = piece.tx.callback {
                // SAFETY: As above.
                unsafe { callback(param) };
            }
        }
    }

    /// Drop all pieces unreported.
    fn terminate(&self) {
        let mut queue = self.queue.lock();
        let dropped = queue.len();
        queue.lists().into_iter().for_each(|list| list.clear());
        self.tally.terminated.add(dropped);
    }

    /// Return when the worker has nothing of what it had before.
    fn synchronize(&self) {
        drop(self.working.lock());
    }
}

impl Work for State {
    fn run(&self) -> Option<u32> {
        let _working = self.working.lock();
        if self.behaviour.reclaim {
            // What was left since the last run.
            self.report();
        }
        while self.step() {
            if !self.behaviour.reclaim {
                self.report();
            }
        }
        let left = !self.queue.lock().finished.is_empty();
        left.then_some(RECLAIM_MS)
    }
}

/// A channel.
#[pin_data]
struct Channel {
    #[pin]
    chan: Opaque<bindings::dma_chan>,
    worker: Arc<Worker<State>>,
}

impl Channel {
    fn new(behaviour: Behaviour, tally: &'static Tally) -> Result<Pin<KBox<Self>>> {
        let queue = Queue::new()?;
        let state = Arc::pin_init(
            pin_init!(State {
                queue <- new_spinlock_bh!(queue),
                working <- new_mutex!(()),
                behaviour,
                tally,
            }),
            GFP_KERNEL,
        )?;
        let worker = new_worker!(state)?;
        KBox::pin_init(
            pin_init!(Self {
                chan: Opaque::zeroed(),
                worker,
            }),
            GFP_KERNEL,
        )
    }

    /// # Safety
    ///
    /// `chan` is the field of a [`Channel`] that lives for `'a`.
    unsafe fn from_raw<'a>(chan: *mut bindings::dma_chan) -> &'a Self {
        // SAFETY: The caller's promise.
        unsafe { &*container_of!(Opaque::cast_from(chan), Self, chan) }
    }

    fn state(&self) -> &State {
        self.worker.target()
    }

    /// Make a piece, which is the client's until it is submitted.
    fn prepare(&self, dst: u64, src: u64, len: usize, flags: u32) -> Option<KBox<Piece>> {
        let state = self.state();
        if state.behaviour.reclaim {
            state.report();
        }
        let number = state.tally.next();
        if state.behaviour.refuses(number) || state.queue.lock().len() >= DEPTH {
            state.tally.refused.add(1);
            return None;
        }
        let mut piece = KBox::new(
            Piece {
                tx: Default::default(),
                src,
                dst,
                len,
                number,
                result: bindings::dmaengine_tx_result_DMA_TRANS_NOERROR,
            },
            GFP_ATOMIC,
        )
        .ok()?;
        // SAFETY: Both are valid.
        unsafe { bindings::dma_async_tx_descriptor_init(&mut piece.tx, self.chan.get()) };
        piece.tx.flags = flags;
        piece.tx.tx_submit = Some(submit);
        Some(piece)
    }

    fn issue(&self) {
        let mut queue = self.state().queue.lock();
        let Queue {
            submitted, issued, ..
        } = &mut *queue;
        submitted.drain_all().for_each(|piece| put(issued, piece));
        drop(queue);
        self.worker.kick();
    }
}

/// # Safety
///
/// Called by the DMA engine core for a channel of an [`Engine`].
unsafe extern "C" fn prep(
    chan: *mut bindings::dma_chan,
    dst: u64,
    src: u64,
    len: usize,
    flags: c_ulong,
) -> *mut bindings::dma_async_tx_descriptor {
    // SAFETY: The caller's promise.
    let this = unsafe { Channel::from_raw(chan) };
    match this.prepare(dst, src, len, flags as u32) {
        // The descriptor is the first field.
        Some(piece) => KBox::into_raw(piece).cast(),
        None => ptr::null_mut(),
    }
}

/// # Safety
///
/// Called by the client, once for each descriptor that `prep` returned.
unsafe extern "C" fn submit(tx: *mut bindings::dma_async_tx_descriptor) -> i32 {
    // SAFETY: The descriptor is the first field of a piece that `prep` leaked.
    let mut piece = unsafe { KBox::from_raw(tx.cast::<Piece>()) };
    // SAFETY: `prep` has set the channel.
    let this = unsafe { Channel::from_raw(piece.tx.chan) };
    let mut queue = this.state().queue.lock();
    let cookie = queue.next_cookie();
    piece.tx.cookie = cookie;
    put(&mut queue.submitted, piece);
    cookie
}

/// # Safety
///
/// Called by the DMA engine core for a channel of an [`Engine`].
unsafe extern "C" fn issue_pending(chan: *mut bindings::dma_chan) {
    // SAFETY: The caller's promise.
    unsafe { Channel::from_raw(chan) }.issue();
}

/// # Safety
///
/// Called by the DMA engine core for a channel of an [`Engine`]; `state` is null
/// or valid.
unsafe extern "C" fn tx_status(
    chan: *mut bindings::dma_chan,
    cookie: i32,
    state: *mut bindings::dma_tx_state,
) -> bindings::dma_status {
    // SAFETY: The caller's promise.
    let mut queue = unsafe { Channel::from_raw(chan) }.state().queue.lock();
    // SAFETY: The caller's promise.
    if let Some(state) = unsafe { state.as_mut() } {
        *state = bindings::dma_tx_state {
            last: cookie,
            used: queue.cookie,
            ..Default::default()
        };
    }
    if queue.has(cookie) {
        bindings::dma_status_DMA_IN_PROGRESS
    } else {
        bindings::dma_status_DMA_COMPLETE
    }
}

/// # Safety
///
/// Called by the DMA engine core for a channel of an [`Engine`].
unsafe extern "C" fn terminate_all(chan: *mut bindings::dma_chan) -> c_int {
    // SAFETY: The caller's promise.
    unsafe { Channel::from_raw(chan) }.state().terminate();
    0
}

/// # Safety
///
/// Called by the DMA engine core for a channel of an [`Engine`], where it may
/// sleep.
unsafe extern "C" fn synchronize(chan: *mut bindings::dma_chan) {
    // SAFETY: The caller's promise.
    let state = unsafe { Channel::from_raw(chan) }.state();
    state.synchronize();
    // A piece that was in hand when the channel was terminated may have come back.
    state.report();
}

/// # Safety
///
/// Called by the DMA engine core for a channel of an [`Engine`] that its client
/// has given back.
unsafe extern "C" fn free_resources(chan: *mut bindings::dma_chan) {
    // SAFETY: The caller's promise.
    let state = unsafe { Channel::from_raw(chan) }.state();
    state.terminate();
    state.synchronize();
    state.terminate();
}

/// # Safety
///
/// Called by the DMA engine core when the last reference to the device of an
/// [`Engine`] is gone, which [`Registration::new`] created.
unsafe extern "C" fn release(dma: *mut bindings::dma_device) {
    let engine = container_of!(Opaque::cast_from(dma), Engine, dma);
    // SAFETY: `Registration::new` leaked this reference.
    drop(unsafe { Arc::from_raw(engine) });
}

/// The engine, with its channels.
#[pin_data]
pub(crate) struct Engine {
    #[pin]
    dma: Opaque<bindings::dma_device>,
    channels: KVec<Pin<KBox<Channel>>>,
    dev: ARef<Device>,
}

// SAFETY: The core synchronises its use of the device; channels lock their state.
unsafe impl Send for Engine {}
// SAFETY: As above.
unsafe impl Sync for Engine {}

impl Engine {
    /// An engine that nobody knows of.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number of channels out of range, `ENOMEM`.
    pub(crate) fn new(
        dev: &Device,
        count: u32,
        behaviour: Behaviour,
        tally: &'static Tally,
    ) -> Result<Arc<Self>> {
        if !(1..=CHANNELS_MAX).contains(&count) {
            pr_err!(
                "parameter channels={} is not in 1..{}\n",
                count,
                CHANNELS_MAX
            );
            return Err(EINVAL);
        }
        let mut channels = KVec::new();
        for _ in 0..count {
            channels.push(Channel::new(behaviour, tally)?, GFP_KERNEL)?;
        }
        let this = Arc::pin_init(
            pin_init!(Self {
                dma: Opaque::zeroed(),
                channels,
                dev: dev.into(),
            }),
            GFP_KERNEL,
        )?;
        this.describe();
        Ok(this)
    }

    /// Fill in what the core wants to know.
    fn describe(&self) {
        let dma = self.dma.get();
        let dev: *const Device = &*self.dev;
        // SAFETY: The device is zeroed memory that nobody else knows of yet, in an object that does
        // not move, and so are its channels.
        unsafe {
            (*dma).dev = dev.cast_mut().cast();
            (*dma).device_prep_dma_memcpy = Some(prep);
            (*dma).device_issue_pending = Some(issue_pending);
            (*dma).device_tx_status = Some(tx_status);
            (*dma).device_terminate_all = Some(terminate_all);
            (*dma).device_synchronize = Some(synchronize);
            (*dma).device_free_chan_resources = Some(free_resources);
            (*dma).device_release = Some(release);
            dma_test_init_device(dma.cast());
            for channel in &self.channels {
                dma_test_add_channel(dma.cast(), channel.chan.get().cast());
            }
        }
    }
}

/// Keeps an engine registered.
pub(crate) struct Registration(Arc<Engine>);

impl Registration {
    /// Register the engine.
    ///
    /// # Errors
    ///
    /// What the core reports.
    pub(crate) fn new(engine: Arc<Engine>) -> Result<Self> {
        let raw = Arc::into_raw(engine.clone());
        // SAFETY: The device is complete, and the reference in `raw` keeps it until `release()`.
        let result = to_result(unsafe { bindings::dma_async_device_register(engine.dma.get()) });
        if let Err(e) = result {
            // SAFETY: The core has refused the device and will not release it.
            drop(unsafe { Arc::from_raw(raw) });
            return Err(e);
        }
        Ok(Self(engine))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`.
        unsafe { bindings::dma_async_device_unregister(self.0.dma.get()) };
    }
}

/// The device that the driver binds to; dropping it takes it away.
pub(crate) struct PlatformDevice(*mut kernel::bindings::platform_device);

// SAFETY: Platform devices may be unregistered by any thread.
unsafe impl Send for PlatformDevice {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl Sync for PlatformDevice {}

impl PlatformDevice {
    /// Add the device `name`, which can reach all memory.
    ///
    /// # Errors
    ///
    /// What the driver core reports; `ENODEV` if the driver refuses the device.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        let info = kernel::bindings::platform_device_info {
            name: name.as_char_ptr(),
            id: kernel::bindings::PLATFORM_DEVID_NONE,
            dma_mask: u64::MAX,
            ..Default::default()
        };
        // SAFETY: `info` is complete.
        let dev = unsafe { kernel::bindings::platform_device_register_full(&info) };
        Ok(Self(from_err_ptr(dev)?))
    }
}

impl Drop for PlatformDevice {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`.
        unsafe { kernel::bindings::platform_device_unregister(self.0) };
    }
}
