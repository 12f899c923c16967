// SPDX-License-Identifier: GPL-2.0-only

//! NAPI: each poll is a softirq of its own. No processor lingers.

mod poll;

pub use poll::Poll;

use core::marker::PhantomData;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        rcu,
        Arc,
        Mutex, //
    }, //
};
use machine::{
    enter_atomic,
    leave_atomic,
    point,
    queue,
    spawn,
    Kind, //
};

use crate::sync::SpinLockBh;

/// Packets of one poll at most, as of the kernel.
const BUDGET: u32 = 64;

/// After how many milliseconds a poll goes on although other tasks want to run.
pub const LATEST_MS: u32 = 1;

/// A device without an interface, which owns NAPI instances.
pub struct NapiHost(());

impl NapiHost {
    /// Create one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(()), GFP_KERNEL)?)
    }

    /// Add an instance that polls `poller`. It starts disabled.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn add<P: Poll>(self: &Arc<Self>, poller: Arc<P>) -> Result<Arc<Instance<P>>> {
        Arc::pin_init(Instance::new(self.clone(), poller), GFP_KERNEL)
    }
}

/// Where an [`Instance`] is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Disabled,
    Enabled,
}

/// Bits of what polls know.
mod bits {
    /// A poll runs or is due, or the instance is disabled: nobody begins another one.
    pub(super) const SCHED: u32 = 1;
    /// Somebody has asked for a poll while one ran.
    pub(super) const MISSED: u32 = 2;
    /// Somebody waits for the end of polls.
    pub(super) const DISABLE: u32 = 4;
}

/// What polls and those who ask for them share.
struct Turns(Atomic<u32>);

impl Turns {
    fn queue(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Change the bits in one piece; those before.
    fn change(&self, change: impl Fn(u32) -> u32) -> u32 {
        let mut old = self.0.load(kernel::sync::atomic::Relaxed);
        loop {
            match self.0.cmpxchg(old, change(old), Full) {
                Ok(old) => return old,
                Err(found) => old = found,
            }
        }
    }
}

/// A NAPI instance, as its owner and its interrupt handler see it.
#[pin_data(PinnedDrop)]
pub struct Instance<P: Poll> {
    turns: Arc<Turns>,
    #[pin]
    poller: SpinLockBh<Option<Arc<P>>>,
    #[pin]
    state: Mutex<State>,
    _host: Arc<NapiHost>,
}

impl<P: Poll> Instance<P> {
    fn new(host: Arc<NapiHost>, poller: Arc<P>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            turns: Arc::new(Turns(Atomic::new(bits::SCHED)), GFP_KERNEL)?,
            poller <- crate::new_spinlock_bh!(Some(poller)),
            state <- kernel::new_mutex!(State::Disabled),
            _host: host,
        })
    }

    /// Allow the instance to be scheduled.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it is closed.
    pub fn enable(&self) -> Result {
        let mut state = self.state.lock();
        match *state {
            State::Closed => return Err(EINVAL),
            State::Enabled => return Ok(()),
            State::Disabled => (),
        }
        self.turns.change(|_| 0);
        *state = State::Enabled;
        Ok(())
    }

    /// Wait for a running poll to end and keep further ones from starting. Sleeps.
    pub fn disable(&self) {
        self.disable_locked(&mut self.state.lock());
    }

    fn disable_locked(&self, state: &mut State) {
        if *state != State::Enabled {
            return;
        }
        self.turns.change(|old| old | bits::DISABLE);
        while self.turns.change(|old| old | bits::SCHED) & bits::SCHED != 0 {
            let is_polled = || {
                let now = self.turns.0.load(kernel::sync::atomic::Relaxed);
                now & bits::SCHED != 0
            };
            queue::wait_while(self.turns.queue(), is_polled);
        }
        self.turns.change(|_| bits::SCHED);
        *state = State::Disabled;
    }

    /// Disable the instance for good and release the poller. Sleeps.
    pub fn close(&self) {
        let mut state = self.state.lock();
        if *state == State::Closed {
            return;
        }
        self.disable_locked(&mut state);
        rcu::synchronize_rcu();
        *state = State::Closed;
        drop(state);
        let poller = self.poller.lock().take();
        drop(poller);
    }

    /// Ask for a poll. Any context.
    pub fn schedule(&self) {
        let old = self.turns.change(|old| match old {
            0 => bits::SCHED,
            old if old & bits::DISABLE != 0 => old,
            old => old | bits::MISSED,
        });
        if old != 0 {
            return;
        }
        let Some(poller) = self.poller.lock().clone() else {
            return;
        };
        let turns = self.turns.clone();
        spawn("napi", Kind::Softirq, move || poll(&turns, &*poller));
    }

    /// Whether a poll runs or is due.
    pub fn is_scheduled(&self) -> bool {
        self.turns.0.load(kernel::sync::atomic::Relaxed) & bits::SCHED != 0
    }

    /// Return when every poll that ran at the time of the call has ended.
    pub fn synchronize(&self) {
        rcu::synchronize_rcu();
    }
}

#[pinned_drop]
impl<P: Poll> PinnedDrop for Instance<P> {
    fn drop(self: Pin<&mut Self>) {
        self.close();
    }
}

/// Poll until nothing is left to do, or until the instance is to be disabled. A softirq of its own
/// each time.
fn poll<P: Poll>(turns: &Turns, poller: &P) {
    let napi = Napi(PhantomData);
    loop {
        let done = poller.poll(&napi, BUDGET);
        let more = done >= BUDGET || poller.arm(0);
        let old = turns.change(|old| {
            let again = more || old & bits::MISSED != 0;
            match old & bits::DISABLE {
                0 if again => bits::SCHED,
                disable => disable,
            }
        });
        let again = more || old & bits::MISSED != 0;
        if old & bits::DISABLE != 0 || !again {
            queue::wake_all(turns.queue());
            return;
        }
        leave_atomic();
        point();
        enter_atomic();
    }
}

/// A NAPI, as its poll function sees it.
pub struct Napi(PhantomData<*mut ()>);

impl Napi {
    /// Packets are held back by nobody.
    pub fn flush_gro(&self) {}
}
