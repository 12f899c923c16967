// SPDX-License-Identifier: GPL-2.0-only

//! Copies of received data into the buffers of functions by the DMA engine
//! (`IDT-MSG-5`).
//!
//! As for records that are sent, the engine only leaves a result and has the queue
//! polled; the poll tells the function, after the CPU has copied what the engine has
//! not. What is copied stays in the ring until then.

use crate::{
    dma::{
        Results,
        Ticket, //
    },
    memory::LocalMemory, //
};
use kernel::{
    alloc::kvec::PushError,
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
    bytes::Writer,
    dma_engine::{
        Job,
        Transfer, //
    },
    error,
    new_spinlock_bh,
    sync::SpinLockBh,
    time::monotonic_ns as now, //
};
use mp_proto::memory::Parts;
use mp_transport::{
    copy::{
        Buffers,
        Completion,
        OwnedBuffers, //
    },
    frame::RxData, //
};

/// Received data, still in the ring.
pub(crate) struct InRing<'a> {
    pub(crate) inb: &'a LocalMemory,
    pub(crate) parts: Parts,
}

impl RxData for InRing<'_> {
    fn len(&self) -> usize {
        self.parts.len()
    }

    fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result {
        self.inb.copy(&self.parts, offset, dst)
    }
}

impl InRing<'_> {
    /// Add the pieces of a copy into `buffers` to a transfer.
    ///
    /// # Safety
    ///
    /// The ring and the buffers stay as they are until the transfer has ended, or has
    /// been dropped unstarted.
    unsafe fn add_to<J: Job>(
        &self,
        transfer: &mut Transfer<'_, J>,
        buffers: &Buffers<'_>,
    ) -> Result {
        let mut at = 0;
        for piece in buffers.pieces() {
            let n = (piece.len as usize).min(self.len() - at);
            let runs = self.parts.window(at, n).map_err(|_| EINVAL)?;
            let mut dst = piece.buf;
            for run in [runs.first, runs.second] {
                let src = self.inb.0.bytes(run.off, run.len)?;
                if !src.is_empty() {
                    // SAFETY: As the caller promises; both are inside their memory.
                    unsafe { transfer.add_inward(src, dst) }?;
                }
                dst = dst.wrapping_add(run.len);
            }
            at += n;
        }
        Ok(())
    }
}

/// A copy under way, since when.
struct Flight {
    parts: Parts,
    buffers: OwnedBuffers,
    done: Completion,
    place: usize,
    since: u64,
}

/// The copies of one channel that its engine makes.
#[pin_data]
pub(crate) struct Inward {
    results: Arc<Results>,
    /// Number of `flights`, to be looked at without the lock.
    count: Atomic<u32>,
    /// In no order; never grows beyond its first capacity.
    #[pin]
    flights: SpinLockBh<KVec<Flight>>,
}

impl Inward {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(results: Results) -> Result<Pin<KBox<Self>>> {
        let results = Arc::new(results, GFP_KERNEL)?;
        let flights = KVec::with_capacity(results.places(), GFP_KERNEL)?;
        KBox::pin_init(
            pin_init!(Self {
                results,
                count: Atomic::new(0),
                flights <- new_spinlock_bh!(flights),
            }),
            GFP_KERNEL,
        )
    }

    /// Make a copy by `transfer`, which is `None` if there is none; `job` makes its
    /// job of a ticket.
    ///
    /// # Errors
    ///
    /// Gives `done` back: the copy is for the CPU.
    pub(crate) fn start<J: Job>(
        &self,
        data: &InRing<'_>,
        buffers: &Buffers<'_>,
        done: Completion,
        transfer: Option<Transfer<'_, J>>,
        job: impl FnOnce(Ticket) -> J,
    ) -> Result<(), Completion> {
        let (Some(mut transfer), Some(owned)) = (transfer, buffers.to_owned()) else {
            return Err(done);
        };
        let mut flights = self.flights.lock();
        let taken = |place: &usize| flights.iter().all(|f| f.place != *place);
        let Some(place) = (0..self.results.places()).find(taken) else {
            return Err(done);
        };
        // SAFETY: Who keeps the data has it pinned until `done` is told, and the buffers are
        // the copy's until then; that is after the engine has reported.
        if unsafe { data.add_to(&mut transfer, buffers) }.is_err() {
            return Err(done);
        }
        let Some(ticket) = self.results.ticket(place) else {
            return Err(done);
        };
        let flight = Flight {
            parts: data.parts,
            buffers: owned,
            done,
            place,
            since: now(),
        };
        if let Err(PushError(flight)) = flights.push_within_capacity(flight) {
            return Err(flight.done);
        }
        // Before the engine can have a poll look at it.
        self.count.add(1, Relaxed);
        if transfer.start(job(ticket)).is_ok() {
            return Ok(());
        }
        self.count.fetch_sub(1, Relaxed);
        flights.pop().map_or(Ok(()), |flight| Err(flight.done))
    }

    /// Take a copy out that the engine has reported, and whether it has been made.
    fn take_reported(&self) -> Option<(Flight, bool)> {
        let mut flights = self.flights.lock();
        let at = flights
            .iter()
            .position(|f| self.results.outcome(f.place).is_some())?;
        let flight = flights.remove(at).ok()?;
        self.count.fetch_sub(1, Relaxed);
        let copied = self.results.outcome(flight.place) == Some(true);
        Some((flight, copied))
    }

    /// Tell the functions of the copies that the engine has reported; call `tally`
    /// for each with whether the engine has made it.
    #[inline]
    pub(crate) fn finish(&self, inb: &LocalMemory, tally: impl Fn(bool)) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        while let Some((flight, copied)) = self.take_reported() {
            tally(copied);
            let parts = flight.parts;
            flight.done.tell(match copied {
                true => Ok(()),
                false => flight.buffers.lend().fill(&InRing { inb, parts }),
            });
        }
    }

    /// Fail all copies. The engine has been stopped, and no others can begin.
    pub(crate) fn abandon(&self) {
        let mut all = self.flights.lock();
        let flights = core::mem::take(&mut *all);
        self.count.store(0, Relaxed);
        drop(all);
        for flight in flights {
            flight.done.tell(Err(error::not_connected()));
        }
    }

    /// Whether a copy was begun before `time` and has not been reported.
    pub(crate) fn is_late(&self, time: u64) -> bool {
        let late = |f: &Flight| f.since < time && self.results.outcome(f.place).is_none();
        self.count.load(Relaxed) != 0 && self.flights.lock().iter().any(late)
    }
}
