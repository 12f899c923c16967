// SPDX-License-Identifier: GPL-2.0-only

//! The second look at the rings of a queue of which a side has gone to sleep.
//!
//! Stores to the peer are posted. What the peer publishes while this side's event
//! index is on its way rings no doorbell, and may itself arrive only after this
//! side has looked ([`mp_proto::ring`]). Once the time is over that a store takes
//! there and back, that is seen; what is published later rings.
//!
//! A timer looks then, one for each queue, started by each sleep anew. It is not
//! stopped by a wake-up: then it finds nothing, or a side that sleeps again. The heartbeat uses it as well: what it finds
//! overdue may have its doorbell on the way and is looked at again a little later.

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
            Relaxed, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
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
            by_heartbeat: Atomic::new(false),
        })
    }

    /// Whether a side sleeps, nobody has woken it, and there is something for it.
    fn is_overdue(&self) -> bool {
        !self.napi.is_scheduled() && self.channel.is_overdue(self.queue)
    }
}

/// A side has gone to sleep.
#[inline]
pub(crate) fn asleep(timer: &Timer<Look>) {
    let look = timer.target();
    let now = monotonic_ns();
    look.idle_at.store(now, Relaxed);
    look.by_heartbeat.store(false, Relaxed);
    if look.after != 0 {
        timer.start(now + look.after);
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
    if !timer.is_active() {
        look.by_heartbeat.store(true, Relaxed);
        timer.start(monotonic_ns() + grace);
    }
}

impl Expire for Look {
    fn expire(&self) -> Option<u64> {
        if self.is_overdue() {
            let late = self.by_heartbeat.load(Relaxed);
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
