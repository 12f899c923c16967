// SPDX-License-Identifier: GPL-2.0-only

//! Copies of large records by a DMA engine (design 4.10).
//!
//! An [`Engine`] belongs to the channel of one epoch. The channel writes the
//! headers of a record and hands its data to [`Engine::start`]; what it needs
//! to finish the record waits in the ring's [`Copies`]. When the engine has
//! reported the record, the queue is polled, and the poll commits it.
//!
//! The engine reports in a context of its own, possibly from within `start`:
//! hence it only leaves a result and never takes the lock of a ring.
//!
//! Whatever goes wrong, the CPU copies the record. An engine that does not
//! report in time is stopped, and not used again in this epoch.

use crate::{
    device::Shared,
    inward::{
        InRing,
        Inward, //
    },
    kept::Keeper,
    memory::{
        LocalMemory,
        RemoteMemory, //
    }, //
};
use kernel::{
    alloc::kvec::PushError,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        rcu,
        Arc, //
    }, //
};
use mp_kernel::{
    bytes::SharedBytes,
    dma_engine::{
        self,
        Failure,
        Job, //
    },
    error,
    sync::RcuArc,
    time::monotonic_ns as now, //
};
use mp_proto::{
    layout::Layout,
    ring::Chunk,
    sending::{
        self,
        TX_HELD, //
    }, //
};
use mp_transport::{
    copy::{
        Buffers,
        Completion, //
    },
    frame::Frame,
    local::Piece,
    stats::Counter, //
};

/// How long the engine may take for a record, in nanoseconds.
pub(crate) const TIMEOUT: u64 = 1_000_000_000;

/// Copies for other modules that may be under way.
const FOREIGN: usize = 32;

/// The window to a peer's inbound memory, among those that an engine reaches.
pub(crate) const INBOUND: usize = 0;
/// The window to a peer's commons.
pub(crate) const COMMONS: usize = 1;

/// What the engine did, for the statistics.
#[derive(Default)]
pub(crate) struct Counters {
    /// Records copied by the engine.
    pub(crate) frames: Counter,
    /// Bytes of data in them.
    pub(crate) bytes: Counter,
    /// Records that the engine took and did not copy.
    pub(crate) errors: Counter,
    /// Records that were for the engine and copied by the CPU.
    pub(crate) fallbacks: Counter,
    /// Received frames whose data the engine has copied.
    pub(crate) received: Counter,
}

/// A record whose headers are written and whose data is to be copied.
pub(crate) type Pending = sending::Pending<Frame>;

/// Call `put` with each piece of a record's data and its place in the record.
///
/// # Errors
///
/// Those of `put` and of the frame's body; `EINVAL` if the body is shorter
/// than it said, which would leave old bytes in the record.
#[inline]
pub(crate) fn for_each_piece<'a>(
    chunk: &Chunk,
    data_at: usize,
    frame: &'a Frame,
    mut put: impl FnMut(usize, SharedBytes<'a>) -> Result,
) -> Result {
    let mut cut = Cut {
        skip: chunk.data_off as usize,
        left: chunk.data_len as usize,
    };
    let mut at = data_at;
    frame.body().for_each_fragment(&mut |fragment| {
        let piece = cut.next(fragment);
        if piece.is_empty() {
            return Ok(());
        }
        put(at, piece)?;
        at += piece.len();
        Ok(())
    })?;
    (cut.left == 0).then_some(()).ok_or(EINVAL)
}

/// What is to be cut out of a frame's data for a record.
struct Cut {
    /// Bytes still to pass over.
    skip: usize,
    /// Bytes still to take.
    left: usize,
}

impl Cut {
    /// The piece of `fragment` that belongs into the record.
    fn next<'a>(&mut self, fragment: SharedBytes<'a>) -> SharedBytes<'a> {
        let (skipped, rest) = fragment.split_at(self.skip);
        self.skip -= skipped.len();
        let (piece, _) = rest.split_at(self.left);
        self.left -= piece.len();
        piece
    }
}

/// [`Results`] of a record that the engine has not reported.
const OPEN: u32 = 0;
const DONE: u32 = 1;
const FAILED: u32 = 2;

/// What the engine says of the records of one ring, and whom it tells.
pub(crate) struct Results {
    results: [Atomic<u32>; TX_HELD],
    shared: Arc<Shared>,
    pidx: u32,
    queue: u16,
}

impl Results {
    /// Number of places.
    pub(crate) fn places(&self) -> usize {
        self.results.len()
    }

    /// The ticket for a place that no other has.
    pub(crate) fn ticket(self: &Arc<Self>, place: usize) -> Option<Ticket> {
        self.results.get(place)?.store(OPEN, Relaxed);
        Some(Ticket {
            results: self.clone(),
            place,
        })
    }

    /// Whether the copy at a place has been made; `None` before the engine has
    /// reported it.
    pub(crate) fn outcome(&self, place: usize) -> Option<bool> {
        let result = self.results.get(place);
        match result.map_or(FAILED, |result| result.load(Acquire)) {
            OPEN => None,
            result => Some(result == DONE),
        }
    }
}

/// A record's place in [`Results`].
pub(crate) struct Ticket {
    results: Arc<Results>,
    place: usize,
}

impl Ticket {
    fn done(self, outcome: Result<(), Failure>) {
        let Results {
            results,
            shared,
            pidx,
            queue,
        } = &*self.results;
        if let Some(result) = results.get(self.place) {
            result.store(if outcome.is_ok() { DONE } else { FAILED }, Release);
            shared.poll_queue(*pidx, *queue);
        }
    }
}

/// What the engine is asked for.
enum Task {
    /// The data of a record, to be sent or in a function's buffers.
    Record(Ticket),
    /// A copy for another module.
    Copy(Completion, Watched),
}

impl Job for Task {
    fn done(self, outcome: Result<(), Failure>) {
        match self {
            Self::Record(ticket) => ticket.done(outcome),
            Self::Copy(done, watched) => {
                drop(watched);
                done.tell(outcome.map_err(|_| EIO));
            }
        }
    }
}

/// Copies for other modules under way: since when; zero where there is none.
struct Foreign([Atomic<u64>; FOREIGN]);

impl Foreign {
    /// None.
    fn new() -> Self {
        Self([const { Atomic::new(0) }; FOREIGN])
    }

    /// A place for one more, from now on.
    fn enter(self: &Arc<Self>) -> Option<Watched> {
        let since = now().max(1);
        let is_free = |place: &Atomic<u64>| place.cmpxchg(0, since, Relaxed).is_ok();
        let place = self.0.iter().position(is_free)?;
        Some(Watched {
            foreign: self.clone(),
            place,
        })
    }

    /// Whether one was begun before `time`.
    fn is_late(&self, time: u64) -> bool {
        self.0
            .iter()
            .any(|since| (1..time).contains(&since.load(Relaxed)))
    }
}

/// The place of a copy among those for other modules, until the engine has reported it.
struct Watched {
    foreign: Arc<Foreign>,
    place: usize,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(since) = self.foreign.0.get(self.place) {
            since.store(0, Relaxed);
        }
    }
}

/// A record under way, since when.
struct Flight {
    record: Pending,
    place: usize,
    since: u64,
}

/// The records of one ring that the engine copies. Protected by the ring's lock.
pub(crate) struct Copies {
    results: Arc<Results>,
    /// In the order of their start; never grows beyond its first capacity.
    flights: KVec<Flight>,
}

impl Copies {
    fn new(results: Results) -> Result<Self> {
        Ok(Self {
            results: Arc::new(results, GFP_KERNEL)?,
            flights: KVec::with_capacity(TX_HELD, GFP_KERNEL)?,
        })
    }

    /// A place that no record has.
    fn vacancy(&self) -> Option<usize> {
        (0..TX_HELD).find(|place| self.flights.iter().all(|f| f.place != *place))
    }

    /// Whether a record was started at or before `time`.
    pub(crate) fn has_since(&self, time: u64) -> bool {
        self.flights.iter().any(|f| f.since <= time)
    }

    /// Whether a record has waited for longer than an engine may take.
    pub(crate) fn is_late(&self) -> bool {
        let now = now();
        let late = |f: &Flight| {
            now.saturating_sub(f.since) > TIMEOUT && self.results.outcome(f.place).is_none()
        };
        self.flights.iter().any(late)
    }
}

impl sending::Copies<Frame> for Copies {
    #[inline]
    fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    fn take_reported(&mut self) -> Option<(Pending, bool)> {
        let outcome = |f: &Flight| self.results.outcome(f.place);
        let at = self.flights.iter().position(|f| outcome(f).is_some())?;
        let copied = outcome(self.flights.get(at)?) == Some(true);
        let flight = self.flights.remove(at).ok()?;
        Some((flight.record, copied))
    }

    fn abandon(&mut self) {
        for flight in self.flights.drain_all() {
            flight.record.frame.fail(error::not_connected());
        }
    }
}

/// The results for one queue.
fn results(shared: &Arc<Shared>, pidx: u32, queue: u16) -> Results {
    Results {
        results: [const { Atomic::new(OPEN) }; TX_HELD],
        shared: shared.clone(),
        pidx,
        queue,
    }
}

/// A channel of a DMA engine that copies into one peer's memory.
type Copier = dma_engine::Channel<Task>;

/// The engine of one channel, or none.
pub(crate) struct Engine {
    copier: RcuArc<Copier>,
    /// Least data bytes of a record for the engine; `u32::MAX` without one.
    threshold: u32,
    shared: Arc<Shared>,
    pidx: u32,
    inward: Pin<KBox<Inward>>,
    foreign: Arc<Foreign>,
    pub(crate) counters: Counters,
}

impl Engine {
    /// Look for an engine that reaches peer `pidx`, whose memory has the layout
    /// `theirs`, and whose `commons` are behind another window. That there is none is
    /// no error.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        pidx: u32,
        out: &RemoteMemory,
        theirs: &Layout,
        commons: Option<&(RemoteMemory, u64)>,
    ) -> Result<Arc<Self>> {
        let copier = open(&shared, pidx, out, theirs, commons);
        let threshold = match copier {
            Some(_) => shared.settings().dma_threshold.unwrap_or(u32::MAX),
            None => u32::MAX,
        };
        let this = Self {
            copier: RcuArc::empty(),
            threshold,
            inward: Inward::new(results(&shared, pidx, 0))?,
            foreign: Arc::new(Foreign::new(), GFP_KERNEL)?,
            shared,
            pidx,
            counters: Counters::default(),
        };
        drop(this.copier.replace(copier));
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// The keeper of the same channel's `rings` rings, which lie in `inb`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn keeper(self: &Arc<Self>, inb: &LocalMemory, rings: usize) -> Result<Keeper> {
        Keeper::new(inb, self.clone(), rings)
    }

    /// Let data queue `queue` be polled. Any context.
    pub(crate) fn poll_queue(&self, queue: u16) {
        self.shared.poll_queue(self.pidx, queue);
    }

    /// Copy received data into buffers.
    ///
    /// # Errors
    ///
    /// Gives `done` back if the copy is for the CPU.
    pub(crate) fn copy_in(
        &self,
        data: &InRing<'_>,
        buffers: &Buffers<'_>,
        done: Completion,
    ) -> Result<(), Completion> {
        if !self.wants(data.parts.len() as u32) {
            return Err(done);
        }
        let guard = rcu::read_lock();
        let copier = self.copier.load(&guard);
        let transfer = copier.as_ref().and_then(|copier| copier.transfer());
        self.inward
            .start(data, buffers, done, transfer, Task::Record)
    }

    /// End the copies into buffers that have been reported, by the CPU where the
    /// engine has failed. `inb` is where the data is.
    #[inline]
    pub(crate) fn finish_inward(&self, inb: &LocalMemory) {
        self.inward.finish(inb, |copied| match copied {
            true => self.counters.received.add(1),
            false => {
                self.counters.errors.add(1);
                self.counters.fallbacks.add(1);
            }
        });
    }

    /// Fail the copies into buffers. The engine has been stopped.
    pub(crate) fn abandon_inward(&self) {
        self.inward.abandon();
    }

    /// Whether a copy into buffers, or for another module, has waited for longer than an
    /// engine may take.
    pub(crate) fn is_late(&self) -> bool {
        let time = now().saturating_sub(TIMEOUT);
        self.inward.is_late(time) || self.foreign.is_late(time)
    }

    /// The place for the records of queue `queue`; `None` without an engine.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn copies(&self, queue: u16) -> Result<Option<Copies>> {
        if !self.is_there() {
            return Ok(None);
        }
        let results = results(&self.shared, self.pidx, queue);
        Ok(Some(Copies::new(results)?))
    }

    /// Whether there was an engine when the epoch began.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.threshold != u32::MAX
    }

    /// Whether a record with `len` bytes of data is for the engine.
    #[inline]
    pub(crate) fn wants(&self, len: u32) -> bool {
        len >= self.threshold
    }

    /// Let the engine copy a record's data.
    ///
    /// # Errors
    ///
    /// Gives the record back if the engine does not take it: it is for the CPU.
    pub(crate) fn start(&self, copies: &mut Copies, record: Pending) -> Result<(), Pending> {
        let started = self.try_start(copies, record);
        if started.is_err() {
            self.counters.fallbacks.add(1);
        }
        started
    }

    fn try_start(&self, copies: &mut Copies, record: Pending) -> Result<(), Pending> {
        let Some(place) = copies.vacancy() else {
            return Err(record);
        };
        let flight = Flight {
            record,
            place,
            since: now(),
        };
        if let Err(PushError(flight)) = copies.flights.push_within_capacity(flight) {
            return Err(flight.record);
        }
        if self.launch(copies).is_some() {
            return Ok(());
        }
        copies.flights.pop().map_or(Ok(()), |f| Err(f.record))
    }

    /// Start the copy of the record that was entered last.
    fn launch(&self, copies: &Copies) -> Option<()> {
        let guard = rcu::read_lock();
        let copier = self.copier.load(&guard)?;
        let flight = copies.flights.last()?;
        let mut transfer = copier.transfer()?;
        let Pending {
            slot,
            chunk,
            data_at,
            frame,
        } = &flight.record;
        let gathered = for_each_piece(chunk, *data_at, frame, |at, piece| {
            let runs = slot.parts.window(at, piece.len());
            let runs = runs.map_err(|_| EINVAL)?;
            let (head, tail) = piece.split_at(runs.first.len);
            // SAFETY: The pieces live as long as the body of a frame is borrowed, and nobody has it
            // mutably while there is a clone of the frame. The record has one, and is kept by the
            // ring until the job has been told, or is given back once the engine has refused it.
            unsafe {
                transfer.add(head, runs.first.off)?;
                transfer.add(tail, runs.second.off)
            }
        });
        gathered.ok()?;
        let ticket = copies.results.ticket(flight.place)?;
        transfer.start(Task::Record(ticket)).ok()
    }

    /// Copy memory for another module (`IDT-DMA-3`), to places that count from `start`
    /// in one of the windows.
    ///
    /// # Errors
    ///
    /// See [`mp_transport::local::Copier::start`].
    ///
    /// # Safety
    ///
    /// The sources stay allocated until `done` has been told.
    pub(crate) unsafe fn copy(
        &self,
        window: usize,
        start: u64,
        pieces: &[Piece],
        done: Completion,
    ) -> Result {
        let guard = rcu::read_lock();
        let copier = self.copier.load(&guard).ok_or(ENODEV)?;
        let mut transfer = copier.transfer().ok_or(EAGAIN)?;
        for piece in pieces {
            let off = usize::try_from(start.checked_add(piece.off).ok_or(EINVAL)?)?;
            // SAFETY: As the caller promises.
            unsafe { transfer.add_phys(piece.src, piece.len, window, off) }?;
        }
        let watched = self.foreign.enter().ok_or(EAGAIN)?;
        // Who is refused has not been told.
        transfer
            .start(Task::Copy(done, watched))
            .map_err(|_| EAGAIN)
    }

    /// As [`copy`](Self::copy), if there is enough of it for the engine.
    ///
    /// # Errors
    ///
    /// Also `EINVAL` if the processor is as fast.
    ///
    /// # Safety
    ///
    /// As for [`copy`](Self::copy).
    pub(crate) unsafe fn copy_much(
        &self,
        window: usize,
        start: u64,
        pieces: &[Piece],
        done: Completion,
    ) -> Result {
        let lengths = pieces.iter().map(|piece| piece.len);
        let len = lengths.fold(0, usize::saturating_add);
        if !self.is_there() {
            return Err(ENODEV);
        }
        if !self.wants(u32::try_from(len).unwrap_or(u32::MAX - 1)) {
            return Err(EINVAL);
        }
        // SAFETY: As the caller promises.
        unsafe { self.copy(window, start, pieces, done) }
    }

    /// Stop the engine for this epoch: everything under way has been reported
    /// when this returns; whether there was an engine. Sleeps.
    pub(crate) fn stop(&self) -> bool {
        self.copier.replace(None).is_some()
    }

    /// Stop the engine because it is late. Sleeps.
    pub(crate) fn give_up(&self) {
        if self.stop() {
            dev_warn!(
                self.shared.ntb(),
                "peer {}: the DMA engine does not finish: not used until the link is up again\n",
                self.pidx,
            );
        }
    }
}

/// Open a channel of an engine, if there is one and the settings want it.
fn open(
    shared: &Shared,
    pidx: u32,
    out: &RemoteMemory,
    theirs: &Layout,
    commons: Option<&(RemoteMemory, u64)>,
) -> Option<Arc<Copier>> {
    shared.settings().dma_threshold?;
    let ntb = shared.ntb();
    let inbound = (&out.0, theirs.len as usize);
    let commons = commons.filter(|(_, len)| *len != 0);
    let commons = commons.map(|(memory, len)| (&memory.0, *len as usize));
    // In the order of their numbers.
    let windows = [Some(inbound), commons].into_iter().flatten();
    let depth = TX_HELD * (theirs.queues as usize + 1) + FOREIGN;
    match Copier::open(ntb.dma_device(), windows, depth) {
        Ok(copier) => {
            dev_info!(ntb, "peer {}: DMA channel {}\n", pidx, copier.name());
            Arc::new(copier, GFP_KERNEL).ok()
        }
        Err(e) if e == ENODEV => None,
        Err(e) => {
            dev_warn!(ntb, "peer {}: no DMA: error {}\n", pidx, e.to_errno());
            None
        }
    }
}
