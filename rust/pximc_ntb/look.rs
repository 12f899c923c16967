// SPDX-License-Identifier: GPL-2.0-only

//! The second look at the rings of a queue of which a side has gone to sleep.
//!
//! Stores to the peer are posted. What the peer publishes while this side's event
//! index is on its way rings no doorbell, and may itself arrive only after this
//! side has looked ([`mp_proto::ring`]). Once the time is over that a store takes
//! there and back, that is seen; what is published later rings.
//!
//! A timer looks then, one for each queue. Starting a timer is dear: a sleep starts it
//! only if it does not run, and whoever sleeps later is looked at when it expires, or in
//! one more turn. A wake-up does not stop it. While an idle processor watches the rings
//! nothing is lost, and the look comes after that.
//!
//! The heartbeat looks as well: what it finds overdue may have its doorbell on the way
//! and is looked at again a little later.

use crate::{
    bell::Bell,
    channel::Channel,
    channel_link::Poller, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    barrier,
    net::napi::Instance,
    time::monotonic_ns,
    timer::{
        Expire,
        Timer, //
    }, //
};

const NS_PER_US: u64 = 1000;

/// Looks at one queue.
pub(crate) struct Look {
    channel: Arc<Channel>,
    napi: Arc<Instance<Poller>>,
    /// The doorbells of this host.
    bell: Bell,
    queue: u16,
    /// Nanoseconds from going to sleep to the second look; zero: there is none.
    after: u64,
    /// When the queue had nothing to do for the last time, as far as is known.
    idle_at: Atomic<u64>,
    /// When the last sleep is to be looked at; zero: there was none.
    due: Atomic<u64>,
    /// Whether the timer runs, or has not begun to look. Either who sets `due` sees that the
    /// timer has begun to look, and starts it, or the timer sees the new `due`.
    runs: Atomic<bool>,
    /// Whether the heartbeat has started the timer, and no sleep since.
    by_heartbeat: Atomic<bool>,
}

/// A [`Look`] with its timer.
pub(crate) type LookTimer = Pin<KBox<Timer<Look>>>;

impl Look {
    /// The look at `queue`, which `bell` wakes and `napi` polls; `after` nanoseconds after each
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        channel: Arc<Channel>,
        napi: Arc<Instance<Poller>>,
        bell: Bell,
        queue: u16,
        after: u64,
    ) -> Result<LookTimer> {
        Timer::new(Self {
            channel,
            napi,
            bell,
            queue,
            after,
            idle_at: Atomic::new(0),
            due: Atomic::new(0),
            runs: Atomic::new(false),
            by_heartbeat: Atomic::new(false),
        })
    }

    /// Whether a side sleeps, nobody has woken it, and there is something for it.
    fn is_overdue(&self) -> bool {
        !self.napi.is_scheduled() && self.channel.is_overdue(self.queue)
    }
}

/// A side has gone to sleep, and is watched for `watch_ns` nanoseconds by a processor that
/// has nothing else to do.
#[inline]
pub(crate) fn asleep(timer: &Timer<Look>, watch_ns: u64) {
    let look = timer.target();
    let now = monotonic_ns();
    look.idle_at.store(now, Relaxed);
    look.by_heartbeat.store(false, Relaxed);
    if look.after != 0 {
        let due = now + watch_ns + look.after;
        // Sleeps of a queue may coincide: then one of them is looked at somewhat late.
        let is_sooner = due < look.due.load(Relaxed);
        look.due.store(due, Relaxed);
        if !look.runs.xchg(true, Full) || is_sooner {
            timer.start(due);
        }
    }
}

/// A heartbeat: has the queue polled. If it is overdue, that waits for `grace` nanoseconds,
/// in which its doorbell may still come.
pub(crate) fn heartbeat(timer: &Timer<Look>, grace: u64) {
    let look = timer.target();
    if !look.is_overdue() {
        look.idle_at.store(monotonic_ns(), Relaxed);
        return look.napi.schedule();
    }
    // What has just gone to sleep is looked at soon.
    if !look.runs.xchg(true, Full) {
        look.by_heartbeat.store(true, Relaxed);
        timer.start(monotonic_ns() + grace);
    }
}

impl Expire for Look {
    fn expire(&self) -> Option<u64> {
        self.runs.store(false, Relaxed);
        barrier::mb();
        let due = self.due.load(Relaxed);
        let late = self.by_heartbeat.load(Relaxed);
        if !late && monotonic_ns() < due {
            // Somebody has gone to sleep meanwhile, and may have started the timer by now.
            return (!self.runs.xchg(true, Full)).then_some(due);
        }
        if self.is_overdue() {
            // A doorbell that is there has been rung in time, however long its interrupt takes.
            if !self.bell.is_rung(self.queue) {
                let most = monotonic_ns().saturating_sub(self.idle_at.load(Relaxed));
                self.channel.count_overdue(late, most / NS_PER_US);
            }
            self.napi.schedule();
        }
        None
    }
}
