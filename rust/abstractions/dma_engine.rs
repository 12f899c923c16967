// SPDX-License-Identifier: GPL-2.0-only

//! A DMA engine's channel, as a client that copies memory into windows.
//!
//! A [`Channel`] belongs to its owner alone and copies to the [`PeerWindow`]s it
//! was opened for. A [`Transfer`] collects pieces of memory, each with its place in
//! a window, and is started as a whole; what became of it is told to its [`Job`].
//!
//! * A transfer that was accepted ends exactly once (`IDT-DMA-2`): when the
//!   engine has reported all pieces, or when the channel is dropped. One that
//!   was refused gives its job back (`IDT-DMA-3`).
//! * After a failure the destination's content is undefined (`IDT-DMA-5`).
//! * Pieces may be reported in any order, and engines may report old pieces
//!   while they are given new ones: a job may be told in any context, also from
//!   within [`Transfer::start`].
//!
//! Nothing here allocates after the channel has been opened.
//!
//! [`ModuleGoes`](crate::notifier::ModuleGoes) tells of modules that go while their data is
//! being copied.
//!
//! C header: [`include/linux/dmaengine.h`](srctree/include/linux/dmaengine.h)

use crate::{
    bytes::SharedBytes,
    ntb::PeerWindow, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use flight::{
    Flight,
    Piece, //
};
use kernel::{
    device::Device,
    fmt,
    prelude::*,
    str::CStrExt,
    sync::{
        aref::ARef,
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_bindings as bindings;

mod flight;

/// Most pieces of one transfer: a packet's head and all its fragments, one of
/// which may be cut where a ring wraps, and some more.
pub const MAX_PIECES: usize = 24;

/// How long an engine that cannot be stopped is waited for, in milliseconds.
const DRAIN_MS: u32 = 200;

/// Why a transfer that was accepted did not come to a good end.
///
/// How much was copied is not told: engines may leave that open, and the
/// destination's content is undefined in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The source could not be read.
    Read,
    /// The destination could not be written.
    Write,
    /// The transfer was aborted, by the engine or as the channel was dropped.
    Aborted,
    /// The engine took some pieces and refused a later one.
    Refused,
    /// The engine reported a result that has no name.
    Unknown,
}

/// What is told at the end of a transfer.
pub trait Job: Send + 'static {
    /// The transfer has ended; the engine does not touch its memory any more.
    ///
    /// Any context, possibly a hard interrupt or the caller of
    /// [`Transfer::start`]; must not use the channel.
    fn done(self, outcome: Result<(), Failure>);
}

/// A window that a channel copies into.
///
/// # Invariants
///
/// `base..base + len`, unless `base` is `None`, are the bus addresses of the
/// window's first `len` bytes for the engine's device.
struct Target {
    window: Arc<PeerWindow>,
    base: Option<u64>,
    len: usize,
}

/// A channel of a DMA engine.
///
/// Dropping it stops the engine; transfers under way end as
/// [`Failure::Aborted`], unless they have ended before. This sleeps, for a
/// bounded time.
///
/// # Invariants
///
/// - `chan` is a channel that was requested and belongs to this object, `dev`
///   its engine's device.
/// - `flights` does not grow or move once the channel is open.
pub struct Channel<J: Job> {
    chan: NonNull<bindings::dma_chan>,
    dev: ARef<Device>,
    targets: KVec<Target>,
    flights: KVec<Flight<J>>,
}

// SAFETY: DMA channels synchronise themselves; jobs are `Send`, and `Flight` hands each to one
// owner at a time.
unsafe impl<J: Job> Send for Channel<J> {}
// SAFETY: As above.
unsafe impl<J: Job> Sync for Channel<J> {}

impl<J: Job> Channel<J> {
    /// Open a channel that copies into windows, of each the first so many bytes, on
    /// an engine of the NUMA node of `near`, with up to `depth` transfers under way.
    /// Transfers name a window by its place among them. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` if no channel is free, `EINVAL` if a window is shorter, `EIO`
    /// if the engine cannot reach the first one, `ENOMEM`. Those of the others that it
    /// cannot reach are of no use.
    pub fn open<'a>(
        near: &Device,
        windows: impl Iterator<Item = (&'a Arc<PeerWindow>, usize)>,
        depth: usize,
    ) -> Result<Self> {
        let mut targets = KVec::new();
        for (window, len) in windows {
            if len == 0 || len > window.len() {
                return Err(EINVAL);
            }
            let target = Target {
                window: window.clone(),
                base: None,
                len,
            };
            targets.push(target, GFP_KERNEL)?;
        }
        let flights = KVec::with_capacity(depth, GFP_KERNEL)?;
        // SAFETY: `near` is a valid device.
        let chan = unsafe { bindings::dma_request_memcpy(raw(near)) };
        let chan = NonNull::new(chan).ok_or(ENODEV)?;
        // SAFETY: The channel is ours, hence valid, and so is its engine's device.
        let dev: &Device = unsafe { Device::from_raw((*(*chan.as_ptr()).device).dev.cast()) };
        let mut this = Self {
            chan,
            dev: dev.into(),
            targets,
            flights,
        };
        this.map_windows()?;
        for _ in 0..depth {
            let flight = Flight::new(raw(&this.dev));
            this.flights.push(flight, GFP_KERNEL)?;
        }
        Ok(this)
    }

    /// Write the engine's name for the channel.
    pub fn name(&self) -> impl fmt::Display + '_ {
        // SAFETY: The channel is ours; its name is a string that lives as long as it does.
        unsafe { CStr::from_char_ptr(bindings::dma_chan_name(self.chan.as_ptr())) }
    }

    /// Begin a transfer; `None` if as many are under way as there may be. Any
    /// context.
    #[inline]
    pub fn transfer(&self) -> Option<Transfer<'_, J>> {
        let flight = self.flights.iter().find(|flight| flight.claim())?;
        Some(Transfer {
            channel: self,
            flight,
        })
    }

    /// The engine's address of `len` bytes at `off` in a window.
    fn target(&self, window: usize, off: usize, len: usize) -> Result<u64> {
        let target = self.targets.get(window).ok_or(EINVAL)?;
        if off > target.len || len > target.len - off {
            return Err(EINVAL);
        }
        Ok(target.base.ok_or(EIO)? + off as u64)
    }

    /// Map memory for the engine to read; its address there.
    fn map(&self, src: *const u8, len: usize) -> Result<u64> {
        // SAFETY: The function only looks at the addresses.
        if !unsafe { bindings::virt_range_valid(src.cast(), len) } {
            return Err(EFAULT);
        }
        // SAFETY: `dev` is valid, the range lies in the linear map.
        self.mapped(unsafe { bindings::dma_map_to_device(raw(&self.dev), src.cast(), len) })
    }

    /// As [`map`](Self::map), for the engine to write.
    fn map_inward(&self, dst: *mut u8, len: usize) -> Result<u64> {
        // SAFETY: The function only looks at the addresses.
        if !unsafe { bindings::virt_range_valid(dst.cast_const().cast(), len) } {
            return Err(EFAULT);
        }
        // SAFETY: `dev` is valid, the range lies in the linear map.
        self.mapped(unsafe { bindings::dma_map_from_device(raw(&self.dev), dst.cast(), len) })
    }

    /// The address, if the mapping has been made.
    fn mapped(&self, addr: u64) -> Result<u64> {
        // SAFETY: `dev` is valid and has made the mapping.
        match unsafe { bindings::dma_addr_failed(raw(&self.dev), addr) } {
            true => Err(EIO),
            false => Ok(addr),
        }
    }

    /// Whether the engine copies with that alignment.
    fn is_aligned(&self, piece: &Piece) -> bool {
        let (src, dst) = (piece.src as usize, piece.dst as usize);
        // SAFETY: The channel is ours.
        unsafe { bindings::is_dma_copy_aligned(self.chan.as_ptr(), src, dst, piece.len) }
    }

    /// Queue one piece of `flight`; `false` if the engine refuses it.
    fn submit(&self, flight: &Flight<J>, piece: &Piece) -> bool {
        let flags =
            bindings::dma_ctrl_flags_DMA_PREP_INTERRUPT | bindings::dma_ctrl_flags_DMA_CTRL_ACK;
        // SAFETY: The channel is ours and can copy memory; by the type invariants and the contract
        // of `Transfer::add` both ranges stay mapped until the piece has been reported.
        let tx = unsafe {
            bindings::dmaengine_prep_dma_memcpy(
                self.chan.as_ptr(),
                piece.dst,
                piece.src,
                piece.len,
                flags as c_ulong,
            )
        };
        let Some(tx) = NonNull::new(tx) else {
            return false;
        };
        // SAFETY: The descriptor is ours until it is submitted, which it is at once: some engines
        // hold a lock from one to the other. The flight outlives it: dropping the channel stops
        // the engine first.
        unsafe {
            (*tx.as_ptr()).callback_result = Some(Flight::<J>::callback);
            (*tx.as_ptr()).callback_param = core::ptr::from_ref(flight).cast_mut().cast();
            bindings::dmaengine_submit_ok(tx.as_ptr())
        }
    }

    /// Stop the engine; `true` if it does not run and will not report any more.
    fn stop(&self) -> bool {
        let chan = self.chan.as_ptr();
        // SAFETY: The channel is ours.
        let stopped = unsafe { bindings::dmaengine_terminate_async(chan) } == 0;
        // SAFETY: As above; dropping a channel may sleep.
        unsafe { bindings::dmaengine_synchronize(chan) };
        // SAFETY: As above.
        stopped && unsafe { (*(*chan).device).device_synchronize.is_some() }
    }

    /// Wait for transfers to end, for a bounded time.
    fn drain(&self) {
        for _ in 0..DRAIN_MS {
            if !self.flights.iter().any(Flight::is_busy) {
                return;
            }
            fsleep(Delta::from_millis(1));
        }
    }

    /// End all transfers that have not ended. The engine has been stopped.
    fn abort_all(&mut self) {
        for flight in &self.flights {
            // SAFETY: `&mut self` shows that no transfer is being started, and the engine, which
            // has been stopped, reports nothing.
            unsafe { flight.abort() };
        }
    }

    fn release(&self) {
        // SAFETY: The channel is ours and not used any more.
        unsafe { bindings::dma_release(self.chan.as_ptr()) };
    }

    fn map_windows(&mut self) -> Result {
        for target in &mut self.targets {
            let phys = target.window.phys_addr();
            // SAFETY: `dev` is valid, and the range is device memory, as the window says.
            let base = unsafe { bindings::dma_map_window(raw(&self.dev), phys, target.len) };
            // SAFETY: `dev` is valid and has made the mapping.
            let failed = unsafe { bindings::dma_addr_failed(raw(&self.dev), base) };
            // INVARIANT: Just mapped.
            target.base = (!failed).then_some(base);
        }
        let first = self.targets.first().and_then(|target| target.base);
        first.map(|_| ()).ok_or(EIO)
    }

    fn unmap_windows(&mut self) {
        for target in &mut self.targets {
            if let Some(base) = target.base.take() {
                // SAFETY: Mapped by `map_windows`, and the engine has stopped.
                unsafe { bindings::dma_unmap_window(raw(&self.dev), base, target.len) };
            }
        }
    }
}

impl<J: Job> Drop for Channel<J> {
    fn drop(&mut self) {
        if self.stop() {
            self.abort_all();
            self.unmap_windows();
            self.release();
        } else {
            // An engine without an orderly way to stop ends its work as its channel is released.
            self.drain();
            self.release();
            self.abort_all();
            self.unmap_windows();
        }
    }
}

/// The device as the bindings of this crate know it.
fn raw(dev: &Device) -> *mut bindings::device {
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// A transfer that is being put together; dropping it forgets it.
pub struct Transfer<'c, J: Job> {
    channel: &'c Channel<J>,
    flight: &'c Flight<J>,
}

impl<J: Job> Transfer<'_, J> {
    /// Add a piece: all of `src` goes to `off` in the first window.
    ///
    /// # Errors
    ///
    /// `E2BIG` for more than [`MAX_PIECES`], `EFAULT` for memory outside the
    /// kernel's linear map, `EINVAL` for a place outside the window or an
    /// alignment that the engine cannot do, `EIO` if the mapping fails. The
    /// transfer is of no use then.
    ///
    /// # Safety
    ///
    /// The memory of `src` must stay allocated until the transfer is dropped
    /// unstarted, or its job is told or given back.
    pub unsafe fn add(&mut self, src: SharedBytes<'_>, off: usize) -> Result {
        // SAFETY: As the caller promises.
        unsafe { self.add_to(src, 0, off) }
    }

    /// As [`add`](Self::add), to a window.
    ///
    /// # Safety
    ///
    /// As for [`add`](Self::add).
    unsafe fn add_to(&mut self, src: SharedBytes<'_>, window: usize, off: usize) -> Result {
        if src.is_empty() {
            return Ok(());
        }
        // SAFETY: The flight was claimed by this transfer and has not been started.
        let plan = unsafe { self.flight.plan() };
        let place = plan.vacancy().ok_or(E2BIG)?;
        let dst = self.channel.target(window, off, src.len())?;
        *place = Piece {
            src: self.channel.map(src.as_ptr(), src.len())?,
            dst,
            len: src.len(),
            inward: false,
        };
        let aligned = self.channel.is_aligned(place);
        // Counted in any case: it is mapped.
        plan.added();
        aligned.then_some(()).ok_or(EINVAL)
    }

    /// Add a piece that does not go to the window: all of `src` goes to `dst`.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    ///
    /// # Safety
    ///
    /// As for [`add`](Self::add), for both; and nobody else uses `dst` until then.
    pub unsafe fn add_inward(&mut self, src: SharedBytes<'_>, dst: *mut u8) -> Result {
        // SAFETY: The flight was claimed by this transfer and has not been started.
        let plan = unsafe { self.flight.plan() };
        let place = plan.vacancy().ok_or(E2BIG)?;
        let len = src.len();
        let src = self.channel.map(src.as_ptr(), len)?;
        let dst = self.channel.map_inward(dst, len).inspect_err(|_| {
            // SAFETY: Just mapped, for the engine's device.
            unsafe { bindings::dma_unmap_to_device(raw(&self.channel.dev), src, len) };
        })?;
        *place = Piece {
            src,
            dst,
            len,
            inward: true,
        };
        let aligned = self.channel.is_aligned(place);
        // Counted in any case: it is mapped.
        plan.added();
        aligned.then_some(()).ok_or(EINVAL)
    }

    /// Add a piece: `len` bytes at the physical address `src` go to `off` in a
    /// window.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    ///
    /// # Safety
    ///
    /// As for [`add`](Self::add), if there is such memory.
    pub unsafe fn add_phys(&mut self, src: u64, len: usize, window: usize, off: usize) -> Result {
        // SAFETY: The function only looks at the addresses.
        let src = unsafe { bindings::phys_ram(src, len) };
        let src = NonNull::new(src).ok_or(EFAULT)?;
        // SAFETY: That much memory is there, in the linear map.
        let src = unsafe { SharedBytes::new(src.cast(), len) };
        // SAFETY: As the caller promises.
        unsafe { self.add_to(src, window, off) }
    }

    /// Start the transfer. `job` may be told before this returns.
    ///
    /// # Errors
    ///
    /// Gives the job back if the engine takes nothing, or if there is no piece:
    /// nothing has been copied, and nothing will be.
    pub fn start(self, job: J) -> Result<(), J> {
        let flight = self.flight;
        flight.begin();
        // SAFETY: The flight cannot end before `land()` below, nor be changed by anybody else.
        let mut pieces = unsafe { flight.pieces() }.iter();
        let take = |piece| flight.ascend(|| self.channel.submit(flight, piece));
        if !pieces.next().is_some_and(take) {
            return Err(job);
        }
        // Once a piece has been refused the others would be in vain.
        let _ = pieces.all(take);
        // SAFETY: As above; the engine's reports only look at the count.
        unsafe { flight.entrust(job) };
        // The flight now belongs to whoever ends it.
        let this = ManuallyDrop::new(self);
        // SAFETY: The channel is ours.
        unsafe { bindings::dma_issue_pending(this.channel.chan.as_ptr()) };
        flight.land();
        Ok(())
    }
}

impl<J: Job> Drop for Transfer<'_, J> {
    fn drop(&mut self) {
        // SAFETY: The flight was claimed by this transfer, and the engine has nothing of it.
        drop(unsafe { self.flight.leave() });
    }
}
