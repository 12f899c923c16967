// SPDX-License-Identifier: GPL-2.0-only

//! Posted writes that take their time, for tests on bridges that have none.
//!
//! With the module parameter `posted_us`, words that are stored to a peer
//! ([`PeerWindow::write_u64`](super::PeerWindow::write_u64)) and doorbells that
//! are rung reach it so many microseconds later, in the order in which they were
//! stored and rung. Bytes that are copied are there at once: what a word
//! announces is there before it.
//!
//! An emulated processor may stand still meanwhile. When the module goes, the log
//! tells how many writes came more than [`LATE`] after their time.

use super::NtbDev;
use crate::{
    barrier,
    fifo::Fifo,
    new_spinlock_irqsave,
    sync::{
        RcuArc,
        SpinLockIrqSave, //
    },
    time::monotonic_ns,
    timer::{
        Expire,
        Timer, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    }, //
};

/// By how many nanoseconds a write may come after its time.
const LATE: u64 = 2_000_000;

/// Writes that may be under way; with more, the oldest arrive early.
const MOST: usize = 4096;

/// A write.
enum Write {
    Word(*mut u64, u64),
    Bell(ARef<NtbDev>, u64),
}

// SAFETY: The memory behind a word's address is not tied to a thread.
unsafe impl Send for Write {}

impl Write {
    fn arrive(self) {
        match self {
            // SAFETY: `Posted::store` was promised that the address stays valid until `flush`,
            // which leaves no write in the queue.
            Write::Word(at, word) => unsafe { at.write_volatile(word) },
            Write::Bell(dev, bits) => {
                barrier::wmb();
                // The doorbell was said to have been rung. One that cannot be is lost.
                let _ = dev.ring_now(bits);
            }
        }
    }
}

/// Writes under way, the oldest first, each with the time at which it arrives.
#[pin_data]
struct UnderWay {
    #[pin]
    writes: SpinLockIrqSave<Fifo<(u64, Write)>>,
    /// Writes that have come too late.
    late: Atomic<u64>,
}

impl UnderWay {
    /// Let all writes arrive that are due at time `now`, or `all`; when the next one is.
    fn arrive(&self, now: u64, all: bool) -> Option<u64> {
        let mut writes = self.writes.lock();
        while writes.front().is_some_and(|(at, _)| all || *at <= now) {
            if let Some((at, write)) = writes.pop() {
                write.arrive();
                self.late.fetch_add(u64::from(now > at + LATE), Relaxed);
            }
        }
        barrier::wmb();
        writes.front().map(|(at, _)| *at)
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        // Whether a test of what writes cost had the machine that it needs.
        let late = self.under_way.late.load(Relaxed);
        pr_info!("{} words and doorbells have reached peers too late\n", late);
    }
}

/// The timer by which writes arrive in time.
struct Arrival(Arc<UnderWay>);

impl Expire for Arrival {
    fn expire(&self) -> Option<u64> {
        self.0.arrive(monotonic_ns(), false)
    }
}

/// The writes of this host to its peers, in order.
pub(crate) struct Posted {
    under_way: Arc<UnderWay>,
    timer: Pin<KBox<Timer<Arrival>>>,
    delay: u64,
}

/// There are none while writes arrive at once.
static POSTED: RcuArc<Posted> = RcuArc::empty();

/// Delay writes by so many nanoseconds from now on; zero: not at all.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn set_delay(delay: u64) -> Result {
    drop(POSTED.replace(None));
    if delay == 0 {
        return Ok(());
    }
    let mut writes = Fifo::new();
    writes.reserve(MOST, GFP_KERNEL)?;
    let under_way = Arc::pin_init(
        pin_init!(UnderWay {
            writes <- new_spinlock_irqsave!(writes),
            late: Atomic::new(0),
        }),
        GFP_KERNEL,
    )?;
    let posted = Posted {
        timer: Timer::new(Arrival(under_way.clone()))?,
        under_way,
        delay,
    };
    drop(POSTED.replace(Some(Arc::new(posted, GFP_KERNEL)?)));
    Ok(())
}

impl Posted {
    /// The delay that applies now, if there is one.
    pub(super) fn get() -> Option<Arc<Self>> {
        POSTED.get()
    }

    fn post(&self, write: Write) {
        let now = monotonic_ns();
        // Should the processor with the timer stand still.
        self.under_way.arrive(now, false);
        let at = now + self.delay;
        let mut writes = self.under_way.writes.lock();
        if writes.len() == MOST {
            if let Some((_, oldest)) = writes.pop() {
                oldest.arrive();
            }
        }
        let is_first = writes.is_empty();
        // There is room.
        let _ = writes.push((at, write));
        if is_first {
            self.timer.start(at);
        }
    }

    /// Store a word.
    ///
    /// # Safety
    ///
    /// `at` is valid for volatile stores until [`flush`](Self::flush) is called.
    #[inline]
    pub(super) unsafe fn store(&self, at: *mut u64, word: u64) {
        self.post(Write::Word(at, word));
    }

    /// Let everything arrive that is under way.
    pub(super) fn flush(&self) {
        self.under_way.arrive(monotonic_ns(), true);
    }
}

/// Let everything arrive that is under way.
pub(super) fn flush() {
    if let Some(posted) = Posted::get() {
        posted.flush();
    }
}

/// Ring doorbells of the peers of `dev` behind what is under way; `false` if writes arrive
/// at once.
#[inline]
pub(super) fn ring(dev: &NtbDev, bits: u64) -> bool {
    let guard = rcu::read_lock();
    let posted = POSTED.load(&guard);
    if let Some(posted) = &posted {
        posted.post(Write::Bell(dev.into(), bits));
    }
    posted.is_some()
}
