// SPDX-License-Identifier: GPL-2.0-only

//! NAPI: polling of packet sources with interrupt mitigation and busy polling.
//!
//! An engine that receives packets implements [`Poll`]. [`NapiHost::add`]
//! turns it into an [`Instance`], which is what an interrupt handler
//! schedules; while the kernel runs the poll function, the function sees the
//! same NAPI as a [`Napi`], which is what packets are delivered through.
//!
//! The two types exist because the state behind them has two owners: scheduling
//! is for everyone, GRO lists and completion are for the one who polls.
//!
//! A [`NapiHost`] is not an interface. It is a device that exists only to own
//! NAPI instances, for engines that feed several interfaces, or none that they
//! know of. The packets are delivered to an interface of the receiver's choice,
//! by [`NetDevice::deliver`](super::device::NetDevice::deliver); the id of the
//! polled NAPI travels with them to the socket, so that socket busy polling
//! (`SO_BUSY_POLL`) finds its way back to [`Poll::poll`].
//!
//! # Overload
//! Packets may come faster than the programs on the same processor can take
//! them. A poll that has used up its budget is therefore not repeated at once,
//! as the kernel would do in its softirq thread for milliseconds, while full
//! sockets drop packets. It goes on in process context, behind the tasks that
//! it has woken; a source that lingers, see below, also after a poll that has
//! found but a few packets, and then only once the processor has nothing else
//! to do, or after [`LATEST_MS`]. Meanwhile the source holds its packets back,
//! which is right for sources that can, and hold back their senders in turn.
//!
//! # Lingering
//! To be woken takes a processor longer than most answers take to come. Where
//! packets have come shortly after one another, a processor that has nothing to
//! do therefore watches the source for the next one, for twice as long as the
//! last took, before it sleeps; never for longer than the source allows by
//! [`Poll::linger_ns`], and only until any other task wants to run ([`idle`](crate::idle)).
//! Not on kernels built for real time.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

mod poll;

pub use poll::Poll;

use core::{
    cell::UnsafeCell,
    marker::{
        PhantomData,
        PhantomPinned, //
    },
    ptr::NonNull, //
};

use kernel::{
    container_of,
    error::code::{
        EINVAL,
        ENOMEM, //
    },
    prelude::*,
    static_lock_class,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

use super::linger::Lingering;

/// From so many packets on a poll is followed by the tasks that it has woken,
/// if its source lingers.
const CROWD: u32 = 4;

/// After how many milliseconds a poll goes on although other tasks want to run.
pub const LATEST_MS: u32 = 1;

/// How long a poll that goes on lets other tasks run at least. They keep the
/// processor beyond that as long as the scheduler lets them.
const PAUSE: Delta = Delta::from_micros(20);

/// A device without an interface, which owns NAPI instances.
///
/// # Invariants
///
/// `dev` came from `alloc_netdev_dummy()` and is freed with this object, which
/// every [`Instance`] of it keeps alive.
pub struct NapiHost {
    dev: NonNull<mp_bindings::net_device>,
}

// SAFETY: A dummy net device may be released from any task.
unsafe impl Send for NapiHost {}
// SAFETY: The device's NAPI list is changed under the device's own lock, by the C side.
unsafe impl Sync for NapiHost {}

impl NapiHost {
    /// Create a host without instances.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        // SAFETY: Any size of private data is allowed.
        let dev = unsafe { mp_bindings::alloc_netdev_dummy(0) };
        // INVARIANT: The device was just allocated by `alloc_netdev_dummy()`. It is released by
        // `drop()`, which also runs when `Arc::new()` fails.
        let host = Self {
            dev: NonNull::new(dev).ok_or(ENOMEM)?,
        };
        Ok(Arc::new(host, GFP_KERNEL)?)
    }

    /// Add a NAPI instance that polls `poller`. It starts disabled.
    ///
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Examples
    ///
    /// ```
    /// use kernel::{prelude::*, sync::Arc};
    /// use mp_kernel::net::napi::{Instance, Napi, NapiHost, Poll};
    ///
    /// struct Ring;
    ///
    /// impl Poll for Ring {
    ///     fn poll(&self, _napi: &Napi, _budget: u32) -> u32 {
    ///         0 // packets taken out of the ring
    ///     }
    /// }
    ///
    /// let host = NapiHost::new()?;
    /// let napi: Arc<Instance<Ring>> = host.add(Arc::new(Ring, GFP_KERNEL)?)?;
    /// napi.enable()?;
    /// napi.schedule(); // as an interrupt handler does
    /// napi.close();
    /// # Ok::<(), Error>(())
    /// ```
    pub fn add<P: Poll>(self: &Arc<Self>, poller: Arc<P>) -> Result<Arc<Instance<P>>> {
        let instance = Arc::pin_init(Instance::new(self.clone()), GFP_KERNEL)?;
        let active = Active::new(poller, &instance.napi)?;
        // SAFETY: Nobody else knows the instance.
        unsafe { *instance.active.get() = Some(active) };
        // SAFETY: The host's device is valid by its invariants and outlives the instance, which
        // holds a reference to the host. The instance is pinned, was not added before, and is
        // deleted before its memory is released, by `Instance::close()`.
        unsafe {
            mp_bindings::netif_napi_add(
                self.dev.as_ptr(),
                instance.napi.get(),
                Some(poll_callback::<P>),
            )
        };
        *instance.state.lock() = State::Disabled;
        Ok(instance)
    }
}

impl Drop for NapiHost {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the device is ours, and no instance is left on it.
        unsafe { mp_bindings::free_netdev(self.dev.as_ptr()) };
    }
}

/// Where an [`Instance`] is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not, or no longer, known to the kernel.
    Closed,
    Disabled,
    Enabled,
}

/// The state of a new instance. Name and class of its lock are from one place,
/// in one module, whatever polls: lockdep insists on that.
#[inline(never)]
fn new_state() -> impl PinInit<Mutex<State>> {
    Mutex::new(State::Closed, c"Napi::state", static_lock_class!())
}

/// A NAPI instance, as its owner and its interrupt handler see it.
///
/// An owner that is itself the poller, or is owned by it, has to call
/// [`close`](Self::close) to break the circle of references.
///
/// # Invariants
///
/// - While `state` is not [`State::Closed`], `napi` is registered with the
///   device of `host`, and `active` holds a value that does not change.
/// - The poll function runs only while `state` is [`State::Enabled`], or
///   [`close`](Self::close) waits for it. That is so also once it has completed the NAPI, which
///   `napi_disable()` alone does not wait for.
#[pin_data(PinnedDrop)]
pub struct Instance<P: Poll> {
    #[pin]
    napi: Opaque<mp_bindings::napi_struct>,
    active: UnsafeCell<Option<Active<P>>>,
    /// Goes on with a poll that other tasks were let go before.
    #[pin]
    rest: Opaque<mp_bindings::delayed_work>,
    #[pin]
    state: Mutex<State>,
    host: Arc<NapiHost>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: All operations on the NAPI structure are safe from any task; `P` is `Send` and `Sync`.
unsafe impl<P: Poll> Send for Instance<P> {}
// SAFETY: As above; `active` changes only as the type invariants say, under `state`.
unsafe impl<P: Poll> Sync for Instance<P> {}

/// What an instance has until it is closed.
struct Active<P: Poll> {
    poller: Arc<P>,
    lingering: Option<Lingering<P>>,
}

/// What follows a poll.
enum After {
    /// Nothing: the source is armed.
    Rest,
    /// The next one, at once.
    Again,
    /// The next one, behind other tasks and so many milliseconds.
    Defer(u32),
}

impl<P: Poll> Active<P> {
    fn new(poller: Arc<P>, napi: &Opaque<mp_bindings::napi_struct>) -> Result<Self> {
        Ok(Self {
            lingering: Lingering::start(&poller, napi)?,
            poller,
        })
    }

    /// What follows a poll that has found `done` packets.
    fn after(&self, done: u32, budget: u32) -> After {
        match &self.lingering {
            Some(lingering) if done >= CROWD => {
                lingering.defer();
                After::Defer(LATEST_MS)
            }
            _ if done >= budget => After::Defer(0),
            lingering => self.arm(lingering.as_ref().filter(|_| done > 0)),
        }
    }

    /// Arm the source, and have it watched if that pays.
    fn arm(&self, lingering: Option<&Lingering<P>>) -> After {
        let watch_ns = lingering.map_or(0, Lingering::rest);
        if self.poller.arm(watch_ns) {
            return After::Again;
        }
        if let Some(lingering) = lingering.filter(|_| watch_ns != 0) {
            lingering.watch();
        }
        After::Rest
    }

    /// Whether a poll that was deferred is still to go on.
    fn is_due(&self) -> bool {
        self.lingering.as_ref().is_none_or(Lingering::take_deferred)
    }
}

impl<P: Poll> Instance<P> {
    fn new(host: Arc<NapiHost>) -> impl PinInit<Self> {
        // INVARIANT: The instance is not registered yet.
        pin_init!(Self {
            napi: Opaque::zeroed(),
            active: UnsafeCell::new(None),
            rest <- Opaque::ffi_init(|slot| {
                let class = static_lock_class!().as_ptr().cast();
                // SAFETY: `slot` is valid for writes and pinned; the name is static, and so is
                // the class.
                unsafe {
                    mp_bindings::init_delayed_work(
                        slot,
                        Some(rest_callback::<P>),
                        c"Napi::rest".as_char_ptr(),
                        class,
                    )
                }
            }),
            state <- new_state(),
            host,
            _pin: PhantomPinned,
        })
    }

    /// Allow the instance to be scheduled. No effect when it is enabled.
    ///
    /// May sleep. Work that came earlier is not announced: the caller
    /// schedules the instance once after it.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the instance is closed.
    pub fn enable(&self) -> Result {
        let mut state = self.state.lock();
        match *state {
            State::Closed => return Err(EINVAL),
            State::Enabled => return Ok(()),
            State::Disabled => (),
        }
        // SAFETY: By the type invariants the NAPI is registered; it is disabled.
        unsafe { mp_bindings::napi_enable(self.napi.get()) };
        *state = State::Enabled;
        Ok(())
    }

    /// Keep polls from starting, and wait for the end of one that runs.
    fn disable_locked(&self, state: &mut State) {
        if *state != State::Enabled {
            return;
        }
        // SAFETY: By the type invariants the NAPI is registered; it is enabled.
        unsafe { mp_bindings::napi_disable(self.napi.get()) };
        // A poll that has completed the NAPI is over for the kernel, and arms the source only now.
        self.synchronize();
        *state = State::Disabled;
    }

    /// Disable the instance for good and release the poller.
    ///
    /// May sleep, for RCU grace periods; must not be called by the poll
    /// function. Packets that GRO still held are dropped. Scheduling a closed
    /// instance has no effect.
    pub fn close(&self) {
        let mut state = self.state.lock();
        if *state == State::Closed {
            return;
        }
        self.disable_locked(&mut state);
        // SAFETY: `rest` is initialised. No poll runs that could queue it again.
        unsafe { mp_bindings::disable_delayed_work_sync(self.rest.get()) };
        // SAFETY: The poll function and the work, the only other users of the cell, do not run and
        // never will again: both have been waited for above, the poll function to its very end;
        // `state` is locked. A thread that lingers has no effect on a disabled NAPI.
        let active = unsafe { (*self.active.get()).take() };
        let poller = active.map(|active| active.poller);
        // SAFETY: By the type invariants the NAPI is registered with a live device, and it is
        // disabled. The call waits until no busy poller can hold a pointer to it.
        unsafe { mp_bindings::netif_napi_del(self.napi.get()) };
        *state = State::Closed;
        drop(state);
        drop(poller);
    }

    /// Ask for a poll, soon, on this CPU. Any context; interrupt handlers are
    /// the usual caller. Of several calls before the poll one counts, and a call
    /// during a poll makes another one follow.
    #[inline]
    pub fn schedule(&self) {
        schedule(&self.napi);
    }

    /// Whether a poll runs or is due.
    #[inline]
    pub fn is_scheduled(&self) -> bool {
        // SAFETY: `napi` is initialised; the flag is read atomically.
        unsafe { mp_bindings::napi_is_scheduled(self.napi.get()) }
    }

    /// Return when every poll that ran at the time of the call has ended.
    ///
    /// Sleeps, for a bounded time, also when polls follow one another.
    pub fn synchronize(&self) {
        // SAFETY: Always safe in a context that may sleep. Polls run with bottom halves
        // disabled, which makes them read-side critical sections of RCU.
        unsafe { mp_bindings::synchronize_net() };
    }
}

#[pinned_drop]
impl<P: Poll> PinnedDrop for Instance<P> {
    fn drop(self: Pin<&mut Self>) {
        self.close();
    }
}

pub(super) fn schedule(napi: &Opaque<mp_bindings::napi_struct>) {
    // SAFETY: `napi` is an initialised NAPI structure. One that is disabled or deleted still has
    // its "scheduled" state set and is left alone.
    unsafe { mp_bindings::napi_schedule_any(napi.get()) };
}

/// A NAPI, as its poll function sees it.
///
/// It cannot leave the call of [`Poll::poll`]: delivery of packets and
/// completion are for the CPU that polls.
///
/// # Invariants
///
/// `napi` is registered and owned by the running poll function.
pub struct Napi {
    napi: NonNull<mp_bindings::napi_struct>,
    _not_send: PhantomData<*mut ()>,
}

impl Napi {
    /// Let go of all packets that GRO holds back for others to be merged with.
    ///
    /// The network stack gets them before bottom halves are enabled again.
    /// Without this call it happens at the end of each poll.
    #[inline]
    pub fn flush_gro(&self) {
        // SAFETY: By the type invariants the NAPI and its GRO lists are ours.
        unsafe { mp_bindings::napi_gro_flush_all(self.napi.as_ptr()) };
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut mp_bindings::napi_struct {
        self.napi.as_ptr()
    }
}

/// The kernel counts work in signed numbers; budgets are far below their end.
fn as_int(work: u32) -> c_int {
    c_int::try_from(work).unwrap_or(c_int::MAX)
}

/// # Safety
///
/// To be called only as the poll function of an [`Instance<P>`]'s NAPI.
unsafe extern "C" fn poll_callback<P: Poll>(
    napi: *mut mp_bindings::napi_struct,
    budget: c_int,
) -> c_int {
    let opaque: *mut Opaque<mp_bindings::napi_struct> = napi.cast();
    // SAFETY: The NAPI is the field of an instance, which outlives this call: it is closed, and so
    // waits for this function to return, before it is released.
    let instance = unsafe { &*container_of!(opaque, Instance<P>, napi).cast_const() };
    // SAFETY: By the type invariants of `Instance` the cell does not change before `close()` has
    // waited for this function, which runs with bottom halves disabled to its end.
    let active = unsafe { &*instance.active.get() };
    let (Some(active), Some(ptr)) = (active, NonNull::new(napi)) else {
        return 0;
    };
    let budget = u32::try_from(budget).unwrap_or(0);

    // INVARIANT: The kernel calls us with the NAPI scheduled, and therefore owned by this call.
    let napi = Napi {
        napi: ptr,
        _not_send: PhantomData,
    };
    if let Some(lingering) = &active.lingering {
        lingering.take_deferred();
    }
    let done = active.poller.poll(&napi, budget);
    // Packets in the GRO lists point to interfaces that nothing keeps from vanishing after the poll.
    napi.flush_gro();
    if budget == 0 {
        return 0;
    }

    // SAFETY: By the type invariants the NAPI is ours, up to this call. With `false` the poll
    // function will be called again anyway: a socket is busy polling, or somebody has scheduled
    // the NAPI meanwhile.
    if unsafe { mp_bindings::napi_complete_done(ptr.as_ptr(), as_int(done)) } {
        match active.after(done, budget) {
            After::Defer(ms) => {
                // SAFETY: `rest` is initialised, and `close()` waits for it.
                unsafe {
                    let queue = mp_bindings::system_workqueue(false);
                    mp_bindings::queue_delayed_once(queue, instance.rest.get(), ms);
                }
            }
            After::Again => schedule(&instance.napi),
            After::Rest => (),
        }
    }

    // The kernel wants less than the budget from a poll that completed.
    as_int(done.min(budget - 1))
}

/// Call the poll function in this task, after those that wait.
///
/// # Safety
///
/// Called by the workqueue for the field `rest` of an [`Instance<P>`].
unsafe extern "C" fn rest_callback<P: Poll>(work: *mut mp_bindings::work_struct) {
    let dwork = container_of!(work, mp_bindings::delayed_work, work);
    let opaque = Opaque::cast_from(dwork);
    // SAFETY: The instance is closed, and so waits for this function, before it is released.
    let instance = unsafe { &*container_of!(opaque, Instance<P>, rest) };
    // SAFETY: By the type invariants of `Instance` the cell does not change before `close()` has
    // waited for this function.
    let active = unsafe { &*instance.active.get() };
    let Some(active) = active else {
        return;
    };
    // SAFETY: Always safe.
    if active.lingering.is_none() && unsafe { mp_bindings::other_task_runnable() } {
        fsleep(PAUSE);
    }
    if active.is_due() {
        instance.schedule();
    }
}
