// SPDX-License-Identifier: GPL-2.0-only

//! Copies of a queue on their way: by an engine, a few at a time, or by the processor.
//!
//! What the engine does not take, or fails to copy, the processor copies. All goes through
//! the connection: once that is lost, down or closed, nothing more is written. Copies whose
//! destinations overlap are made one after the other.

use crate::{
    connection::Connection,
    placed::Copying, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    barrier,
    error,
    new_wait_queue,
    wait::{
        Events,
        Sleep,
        WaitQueue, //
    }, //
};
use mp_transport::memory::{
    Source,
    Told, //
};

/// Bytes that the processor copies without a pause.
const STRETCH: usize = 1 << 14;

/// Bytes that the engine is given at a time: an abort waits for so many.
const STRIDE: u64 = 1 << 18;

/// Copies that the engine has at a time.
const FLIGHTS: usize = 4;

/// [`Outcomes`] of a copy that has not ended.
const OPEN: u32 = 0;
const COPIED: u32 = 1;
const FAILED: u32 = 2;

/// What has become of the copies of one queue's start.
#[pin_data]
struct Outcomes {
    all: [Atomic<u32>; FLIGHTS],
    /// Bits of the places that are waited for: nobody is woken before the last of them.
    awaited: Atomic<u32>,
    #[pin]
    ended: WaitQueue,
}

impl Outcomes {
    fn new() -> Result<Arc<Self>> {
        let this = pin_init!(Self {
            all: [const { Atomic::new(OPEN) }; FLIGHTS],
            awaited: Atomic::new(0),
            ended <- new_wait_queue!("mp_queue"),
        });
        Arc::pin_init(this, GFP_KERNEL_ACCOUNT)
    }

    fn of(&self, place: usize) -> u32 {
        self.all.get(place).map_or(FAILED, |o| o.load(Acquire))
    }

    fn set(&self, place: usize, outcome: u32) {
        if let Some(known) = self.all.get(place) {
            known.store(outcome, Release);
        }
    }

    /// Whether all copies at these places have ended.
    fn are_over(&self, places: u32) -> bool {
        (0..FLIGHTS).all(|place| places & 1 << place == 0 || self.of(place) != OPEN)
    }

    /// Wait until all copies at these places have ended.
    fn wait(&self, places: u32) -> Result {
        self.awaited.store(places, Relaxed);
        // Either this sees the last outcome, or whoever tells it sees what is awaited.
        barrier::mb();
        self.ended
            .wait_until(Sleep::Killable, None, || self.are_over(places))
            .ok()
    }
}

impl Told for Outcomes {
    fn told(&self, tag: usize, result: Result) {
        self.set(tag, if result.is_ok() { COPIED } else { FAILED });
        barrier::mb();
        if self.are_over(self.awaited.load(Relaxed)) {
            self.ended.wake(Events::IN);
        }
    }
}

/// A range to copy; bytes.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) local: u64,
    pub(crate) remote: u64,
    pub(crate) len: u64,
}

impl Stretch {
    fn overlaps(&self, other: &Self) -> bool {
        let end = |s: &Self| s.remote.saturating_add(s.len);
        self.remote < end(other) && other.remote < end(self)
    }

    /// What is left behind the first bytes.
    fn behind(&self, done: u64) -> Self {
        Self {
            local: self.local.saturating_add(done),
            remote: self.remote.saturating_add(done),
            len: self.len.saturating_sub(done),
        }
    }
}

/// Where copies are read, by the processor.
pub(crate) trait Reader {
    /// Fill all of `to` from `at`.
    ///
    /// # Errors
    ///
    /// What is wrong.
    fn read(&self, at: u64, to: &mut [u8]) -> Result;
}

/// Copies of one start that are on their way.
pub(crate) struct Pipeline<'a> {
    connection: &'a Connection,
    is_aborted: &'a Atomic<bool>,
    /// If no window leads to the segment.
    placed: Option<Copying<'a>>,
    outcomes: Arc<Outcomes>,
    /// By their places: what the engine copies.
    flights: [Option<Stretch>; FLIGHTS],
    /// The place of the next one, where the oldest one is.
    next: usize,
    /// Until it is known that there is none.
    has_engine: bool,
    /// Empty until the processor copies.
    buffer: KVec<u8>,
}

impl<'a> Pipeline<'a> {
    /// Through that connection, until `is_aborted`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(connection: &'a Connection, is_aborted: &'a Atomic<bool>) -> Result<Self> {
        Ok(Self {
            connection,
            is_aborted,
            placed: connection
                .is_by_frames()
                .then(|| Copying::new(connection, is_aborted)),
            outcomes: Outcomes::new()?,
            flights: [None; FLIGHTS],
            next: 0,
            has_engine: true,
            buffer: KVec::new(),
        })
    }

    /// Copy a range; some of it may be under way when this returns. `source` is what the
    /// engine reads, and the same as `reader`.
    ///
    /// # Errors
    ///
    /// `ECANCELED`, or why the processor cannot copy.
    pub(crate) fn copy(
        &mut self,
        mut range: Stretch,
        reader: &dyn Reader,
        source: Option<&Source>,
    ) -> Result {
        while range.len != 0 {
            let part = Stretch {
                len: range.len.min(STRIDE),
                ..range
            };
            self.make_way(&part, reader)?;
            let launched = match source.filter(|_| self.has_engine) {
                Some(source) => self.launch(&part, reader, source)?,
                None => None,
            };
            let done = match launched {
                Some(done) => done,
                None => {
                    self.by_processor(part, reader)?;
                    part.len
                }
            };
            range = range.behind(done);
        }
        Ok(())
    }

    /// Wait until nothing is under way to where `part` goes, and a place is free.
    fn make_way(&mut self, part: &Stretch, reader: &dyn Reader) -> Result {
        let is_in_way = |flight: &Option<Stretch>| flight.is_some_and(|f| f.overlaps(part));
        let is_full = |flights: &[Option<Stretch>]| flights.iter().all(Option::is_some);
        while is_full(&self.flights) || self.flights.iter().any(is_in_way) {
            self.settle_half(reader)?;
        }
        Ok(())
    }

    /// Let the engine begin with a part, and say how many bytes it has taken; `None`: the
    /// part is for the processor.
    fn launch(
        &mut self,
        part: &Stretch,
        reader: &dyn Reader,
        source: &Source,
    ) -> Result<Option<u64>> {
        let place = self.next;
        loop {
            self.outcomes.set(place, OPEN);
            let told: Arc<dyn Told> = self.outcomes.clone();
            let Stretch { local, remote, len } = *part;
            match self
                .connection
                .copy(remote, source, local, len, (told, place))
            {
                Ok(len) => {
                    if let Some(flight) = self.flights.get_mut(place) {
                        *flight = Some(Stretch { len, ..*part });
                    }
                    self.next = (place + 1) % FLIGHTS;
                    return Ok(Some(len));
                }
                Err(e) if e == EAGAIN && self.flights.iter().any(Option::is_some) => {
                    // Its own are in the way, or others' as well: fewer may do.
                    self.settle_half(reader)?;
                }
                Err(e) => {
                    self.has_engine &= e != ENODEV;
                    return Ok(None);
                }
            }
        }
    }

    /// The processor copies a part.
    fn by_processor(&mut self, part: Stretch, reader: &dyn Reader) -> Result {
        if self.buffer.is_empty() {
            self.buffer.resize(STRETCH, 0, GFP_KERNEL_ACCOUNT)?;
        }
        let mut left = part;
        while left.len != 0 {
            if self.is_aborted.load(Relaxed) {
                return Err(error::cancelled());
            }
            let count = left.len.min(STRETCH as u64);
            let buffer = self.buffer.get_mut(..count as usize).ok_or(EINVAL)?;
            reader.read(left.local, buffer)?;
            match &mut self.placed {
                Some(placed) => placed.put(left.remote, buffer)?,
                None => self.connection.store(left.remote, buffer)?,
            }
            left = left.behind(count);
        }
        Ok(())
    }

    /// Let the processor copy what the engine has failed to, of a place whose copy has ended.
    fn settle(&mut self, place: usize, reader: &dyn Reader) -> Result {
        let flight = self.flights.get_mut(place).and_then(Option::take);
        let Some(flight) = flight else { return Ok(()) };
        match self.outcomes.of(place) {
            COPIED if self.is_aborted.load(Relaxed) => Err(error::cancelled()),
            COPIED => Ok(()),
            _ => self.by_processor(flight, reader),
        }
    }

    /// Wait for so many of the oldest copies that are under way.
    fn settle_oldest(&mut self, count: usize, reader: &dyn Reader) -> Result {
        let is_taken = |place: &usize| self.flights.get(*place).is_some_and(Option::is_some);
        let places = (0..FLIGHTS).map(|n| (self.next + n) % FLIGHTS);
        let oldest = places.filter(is_taken).take(count);
        let places = oldest.fold(0, |places, place| places | 1 << place);
        self.outcomes.wait(places)?;
        let first = self.next;
        let is_awaited = |place: &usize| places & 1 << *place != 0;
        (0..FLIGHTS)
            .map(|n| (first + n) % FLIGHTS)
            .filter(is_awaited)
            .try_for_each(|place| self.settle(place, reader))
    }

    /// Wait for the older half of what is under way: the engine has the other half to copy
    /// while this one goes on, which is woken less often.
    fn settle_half(&mut self, reader: &dyn Reader) -> Result {
        let under_way = self.flights.iter().flatten().count();
        self.settle_oldest(under_way.div_ceil(2), reader)
    }

    /// Wait for all copies that are under way.
    ///
    /// # Errors
    ///
    /// As [`copy`](Self::copy).
    pub(crate) fn finish(&mut self, reader: &dyn Reader) -> Result {
        self.settle_oldest(FLIGHTS, reader)
    }

    /// Wait until what went by frames is in the segment.
    ///
    /// # Errors
    ///
    /// Those of [`Copying::finish`].
    pub(crate) fn settle_placed(&mut self) -> Result {
        self.placed.as_mut().map_or(Ok(()), Copying::finish)
    }
}
