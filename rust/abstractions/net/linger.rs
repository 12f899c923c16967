// SPDX-License-Identifier: GPL-2.0-only

//! Watching the source of a NAPI instance where a processor has nothing else to
//! do; see [`napi`](super::napi).

use core::ptr::NonNull;

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque, //
};

use super::napi::{
    schedule,
    Poll, //
};
use crate::{
    idle::{
        self,
        IdleThread,
        IdleWork, //
    },
    time::monotonic_ns, //
};

/// How long it pays to watch a source before sleeping.
struct WatchTime {
    /// When the last poll that found something came to its end.
    rested: Atomic<u64>,
    /// How long to watch from then on, in nanoseconds.
    window: Atomic<u64>,
    /// How long it may be.
    max: u64,
}

impl WatchTime {
    const fn new(max: u64) -> Self {
        Self {
            rested: Atomic::new(0),
            window: Atomic::new(0),
            max,
        }
    }

    /// A poll that found something came to its end; for how many nanoseconds to watch
    /// for more. After a short pause the next one is expected to be short.
    fn rest(&self) -> u64 {
        let now = monotonic_ns();
        let gap = now.saturating_sub(self.rested.load(Relaxed));
        let window = match gap <= self.max {
            true => (2 * gap).min(self.max),
            false => 0,
        };
        self.rested.store(now, Relaxed);
        self.window.store(window, Relaxed);
        window
    }

    /// Until when to watch.
    fn deadline(&self) -> u64 {
        self.rested.load(Relaxed) + self.window.load(Relaxed)
    }
}

/// Watches the source of an instance while a processor has nothing else to do.
struct Watch<P> {
    poller: Arc<P>,
    watch_time: WatchTime,
    /// Whether a poll was deferred, and this is to go on: the source is not armed.
    is_deferred: Atomic<bool>,
    napi: NonNull<Opaque<mp_bindings::napi_struct>>,
}

// SAFETY: `napi` is only scheduled, which any task may do; `P` is `Send` and `Sync`.
unsafe impl<P: Poll> Send for Watch<P> {}
// SAFETY: As above.
unsafe impl<P: Poll> Sync for Watch<P> {}

impl<P: Poll> IdleWork for Watch<P> {
    fn run(&self) -> bool {
        let deadline = self.watch_time.deadline();
        let is_late = || monotonic_ns() >= deadline;
        let is_deferred = self.is_deferred.load(Relaxed);
        if is_late() && !is_deferred {
            return false;
        }
        let poller = &*self.poller;
        let mute = || {
            if !is_deferred {
                poller.mute();
            }
        };
        // The poll arms the source; without one it has to be done here, unless the poll was deferred
        // and other tasks go first.
        let settle = |over: bool| {
            if is_deferred && !over {
                return false;
            }
            self.is_deferred.store(false, Relaxed);
            poller.is_ready() || poller.arm(0)
        };
        let is_due = idle::spin(mute, || poller.is_ready() || is_late(), settle);
        if is_due {
            // SAFETY: The instance stops this thread before its NAPI is gone.
            schedule(unsafe { self.napi.as_ref() });
        }
        is_due || self.is_deferred.load(Relaxed) || !is_late()
    }
}

/// The thread that watches the source of an instance.
pub(super) struct Lingering<P: Poll>(IdleThread<Watch<P>>);

impl<P: Poll> Lingering<P> {
    /// Start it, if the source allows it. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn start(
        poller: &Arc<P>,
        napi: &Opaque<mp_bindings::napi_struct>,
    ) -> Result<Option<Self>> {
        let max = poller.linger_ns();
        // Locks may sleep on a real-time kernel, and a thread that watches must not.
        if max == 0 || cfg!(CONFIG_PREEMPT_RT) {
            return Ok(None);
        }
        let watch = Watch {
            poller: poller.clone(),
            watch_time: WatchTime::new(max),
            is_deferred: Atomic::new(false),
            napi: napi.into(),
        };
        Ok(Some(Self(IdleThread::new(c"mp_busy_poll", watch)?)))
    }

    /// A poll that found something arms the source: for how many nanoseconds it is to be
    /// watched, which is zero unless the next packet is likely to come soon.
    #[inline]
    pub(super) fn rest(&self) -> u64 {
        self.0.work().watch_time.rest()
    }

    /// The source is armed: watches it for as long as [`rest`](Self::rest) has said.
    #[inline]
    pub(super) fn watch(&self) {
        self.0.kick();
    }

    /// A poll has not armed the source: goes on behind other tasks.
    pub(super) fn defer(&self) {
        let watch = self.0.work();
        watch.watch_time.rest();
        watch.is_deferred.store(true, Relaxed);
        self.0.kick();
    }

    /// Somebody else polls; whether a poll was deferred.
    #[inline]
    pub(super) fn take_deferred(&self) -> bool {
        let is_deferred = &self.0.work().is_deferred;
        is_deferred.load(Relaxed) && is_deferred.xchg(false, Relaxed)
    }
}
