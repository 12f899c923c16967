// SPDX-License-Identifier: MIT OR Apache-2.0

//! DMA queues. The driver's queues are each for one interface, and copy with an engine or a
//! thread of their own; here a queue is an adapter's, with one of the driver's for each interface
//! that it has been used over. It copies from this host to remote segments, and out of them.

use crate::{
    desc::no_call,
    next, refuse_callback,
    users::{User, Users},
    Action, Desc, Error, LocalSegment, RemoteSegment, Result,
};
use mp_fabric::{
    CharDevice, Copy, Deadline, Device, EventMask, InterfaceId, ProcessMemory, Queue, QueueState,
    Waits,
};
use rustix::io::Errno;
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc, Mutex, MutexGuard, PoisonError,
};

/// Most entries of a vector.
pub const VECTOR_MAX: u32 = 256;

/// The state of a queue. The numbers are those of `sisci_types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaState {
    /// Never started.
    Idle = 0,
    /// A transfer is under way.
    Posted = 2,
    /// It is complete, and visible at its target.
    Done = 3,
    /// It was aborted.
    Aborted = 4,
    /// It has failed.
    Error = 5,
}

impl DmaState {
    fn is_final(self) -> bool {
        !matches!(self, DmaState::Idle | DmaState::Posted)
    }

    /// What the final state means.
    pub fn status(self) -> Result<()> {
        match self {
            DmaState::Error => Err(Error::TransferFailed),
            DmaState::Aborted => Err(Error::Cancelled),
            DmaState::Idle | DmaState::Posted | DmaState::Done => Ok(()),
        }
    }
}

/// Where a transfer comes from, or goes to if it reads.
#[derive(Debug)]
pub enum DmaSource<'a, D: Device = CharDevice> {
    /// A local segment; it has to be prepared.
    Segment(&'a LocalSegment<D>),
    /// Memory of this process, which is in use until the transfer ends.
    Memory(ProcessMemory<'a>),
}

/// Which way a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the remote segment.
    Write,
    /// From the remote segment: the driver of its node sends.
    Read,
}

/// A piece of a transfer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it starts in the source.
    pub local: usize,
    /// Where it starts in the remote segment.
    pub remote: usize,
    /// Its length.
    pub size: usize,
}

/// The copies that the pieces are.
fn copies<D: Device>(
    source: &DmaSource<'_, D>,
    remote: &RemoteSegment<D>,
    pieces: &[Piece],
) -> Result<Vec<Copy>> {
    let room = match source {
        DmaSource::Segment(segment) => {
            segment.filled()?;
            segment.size()
        }
        DmaSource::Memory(memory) => memory.len(),
    };
    let fits = |start: usize, size: usize, room: usize| {
        start.checked_add(size).is_some_and(|end| end <= room)
    };
    let mut copies = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if !fits(piece.local, piece.size, room) || !fits(piece.remote, piece.size, remote.size()) {
            return Err(Error::OutOfRange);
        }
        if piece.size == 0 {
            return Err(Error::SizeAlignment);
        }
        copies.push(Copy {
            local: piece.local as u64,
            remote: piece.remote as u64,
            len: piece.size as u64,
        });
    }
    Ok(copies)
}

/// A callback for the end of a transfer.
type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// Transfers, one after the other. Copies are the same queue.
pub struct DmaQueue<D: Device = CharDevice>(Arc<Inner<D>>);

pub(crate) struct Inner<D: Device> {
    desc: Desc<D>,
    adapter: u32,
    entries: u32,
    state: Mutex<State<D>>,
    users: Users,
}

struct State<D: Device> {
    queues: Vec<Arc<Driven<D>>>,
    /// The transfer that was started last.
    last: Option<Transfer<D>>,
}

/// A queue of the driver's.
struct Driven<D: Device> {
    interface: InterfaceId,
    queue: Queue<D>,
    /// Where its status word is.
    status: u32,
    waits: Waits,
}

struct Transfer<D: Device> {
    queue: Arc<Driven<D>>,
    /// Whether its callback has run, or there is none.
    told: Arc<AtomicBool>,
    /// What stays as long as it is under way.
    used: Vec<User>,
}

crate::shared!(DmaQueue);

impl<D: Device> Desc<D> {
    /// Make a queue of an adapter, for vectors of so many entries.
    ///
    /// # Errors
    /// Those of the adapter; [`Error::IllegalParameter`]: no entries. [`Error::NoSpace`]: more
    /// than [`VECTOR_MAX`].
    pub fn create_dma_queue(&self, adapter: u32, entries: u32) -> Result<DmaQueue<D>> {
        let user = self.enter()?;
        let loopback = self.adapter(adapter)?.loopback.id;
        match entries {
            0 => return Err(Error::IllegalParameter),
            1..=VECTOR_MAX => {}
            _ => return Err(Error::NoSpace),
        }
        // So that a driver without queues is found now.
        let first = Driven::new(self, loopback, entries)?;
        let inner = Arc::new(Inner {
            desc: self.clone(),
            adapter,
            entries,
            state: Mutex::new(State {
                queues: vec![Arc::new(first)],
                last: None,
            }),
            users: Users::below(user),
        });
        let mut queues = self.queues();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&inner));
        Ok(DmaQueue(inner))
    }

    fn queues(&self) -> MutexGuard<'_, Vec<std::sync::Weak<Inner<D>>>> {
        self.context
            .queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Let go of what transfers use that have ended since.
    pub(crate) fn settle_queues(&self) {
        let queues: Vec<_> = self.queues().iter().filter_map(|q| q.upgrade()).collect();
        for queue in queues {
            let _ = queue.current();
        }
    }
}

impl<D: Device> Inner<D> {
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Result<DmaState> {
        self.state().current(&self.desc)
    }

    /// End all waits and callbacks.
    fn end(&self) {
        // Not with the lock held: a callback that runs may want it.
        let (queues, last) = {
            let mut state = self.state();
            (std::mem::take(&mut state.queues), state.last.take())
        };
        queues.iter().for_each(|driven| driven.waits.cancel());
        drop((queues, last));
    }
}

impl<D: Device> Driven<D> {
    fn new(desc: &Desc<D>, interface: InterfaceId, entries: u32) -> Result<Self> {
        let queue = desc.fabric().create_queue(interface, entries);
        let queue = queue.map_err(|error| no_call(error.into()))?;
        Ok(Driven {
            interface,
            status: queue.info()?.status,
            queue,
            waits: Waits::default(),
        })
    }

    /// Its state, without a call if the driver has words for that.
    fn state(&self, desc: &Desc<D>) -> Result<DmaState> {
        let word = desc.status()?.and_then(|status| status.word(self.status));
        let state = match word {
            Some(word) => word.queue(),
            None => self.queue.info()?.state,
        };
        Ok(match state {
            QueueState::Idle => DmaState::Idle,
            QueueState::Posted => DmaState::Posted,
            QueueState::Done => DmaState::Done,
            QueueState::Error => DmaState::Error,
            QueueState::Aborted => DmaState::Aborted,
        })
    }
}

impl<D: Device> State<D> {
    /// The state of the transfer that was started last; what it uses is let go if it has ended.
    fn current(&mut self, desc: &Desc<D>) -> Result<DmaState> {
        let Some(last) = &mut self.last else {
            return Ok(DmaState::Idle);
        };
        let state = last.queue.state(desc)?;
        if state.is_final() {
            last.used.clear();
        }
        Ok(state)
    }
}

impl<D: Device> DmaQueue<D> {
    /// The virtual device that it was made on.
    pub fn desc(&self) -> &Desc<D> {
        &self.0.desc
    }

    /// How far the transfer is that was started last.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: the queue is removed.
    pub fn state(&self) -> Result<DmaState> {
        self.0.current()
    }

    /// Start a transfer to a remote segment or from it, with a callback for its end or without.
    ///
    /// # Errors
    /// In this order: [`Error::FlagNotImplemented`]: the driver does not read.
    /// [`Error::IllegalOperation`]: one is under way, or its callback has not run yet, or the
    /// remote segment is not mapped, unless it cannot be. [`Error::MaxEntries`]: none or too many pieces. [`Error::OutOfRange`].
    /// [`Error::SegmentNotPrepared`], [`Error::SegmentNotConnected`]: not operational, or over
    /// another adapter. [`Error::NotSupported`]: the driver of the node does not read.
    /// [`Error::IllegalAddress`], [`Error::NoSpace`]; [`Error::System`]: no
    /// thread for callbacks. A transfer that cannot be started leaves the state as it was, but for
    /// one from memory that turns out not to be there: that has failed.
    pub fn start(
        &self,
        source: DmaSource<'_, D>,
        direction: Direction,
        remote: &RemoteSegment<D>,
        pieces: &[Piece],
        callback: Option<Callback>,
    ) -> Result<()> {
        if direction == Direction::Read {
            self.check_read()?;
        }
        let mut used = vec![remote.users().enter()?, remote.transfers().enter()?];
        if let DmaSource::Segment(segment) = source {
            used.push(segment.users().enter()?);
        }
        let mut state = self.0.state();
        let told = |last: &Transfer<D>| last.told.load(Ordering::Acquire);
        let running = state.current(&self.0.desc)? == DmaState::Posted
            || !state.last.as_ref().is_none_or(told);
        if running || !remote.is_mapped() && !remote.is_placed() {
            return Err(Error::IllegalOperation);
        }
        if pieces.is_empty() || pieces.len() > self.0.entries as usize {
            return Err(Error::MaxEntries);
        }
        let copies = copies(&source, remote, pieces)?;
        if !remote.is_over(self.0.adapter) {
            return Err(Error::SegmentNotConnected);
        }
        let connection = remote.connection()?;
        let driven = self.driven(&mut state, remote.interface()?)?;
        let queue = &driven.queue;
        let started = match &source {
            DmaSource::Segment(segment) => {
                let segment = segment.segment();
                match direction {
                    Direction::Write => queue.start(segment, connection, &copies),
                    Direction::Read => queue.start_read(segment, connection, &copies),
                }
            }
            DmaSource::Memory(memory) => match direction {
                Direction::Write => queue.start_from_memory(*memory, connection, &copies),
                Direction::Read => queue.start_into_memory(*memory, connection, &copies),
            },
        };
        started.map_err(|error| match error {
            mp_fabric::Error::System(Errno::BUSY) => Error::IllegalOperation,
            mp_fabric::Error::System(Errno::RANGE) => Error::OutOfRange,
            mp_fabric::Error::System(Errno::FAULT) => Error::IllegalAddress,
            mp_fabric::Error::NoWindow(_) => Error::SegmentNotPrepared,
            mp_fabric::Error::PartnerGone | mp_fabric::Error::InterfaceDown(_) => {
                Error::SegmentNotConnected
            }
            other => other.into(),
        })?;
        let told = Arc::new(AtomicBool::new(callback.is_none()));
        state.last = Some(Transfer {
            queue: Arc::clone(&driven),
            told: Arc::clone(&told),
            used,
        });
        drop(state);
        match callback {
            Some(callback) => self.arm(&driven, told, callback),
            None => Ok(()),
        }
    }

    /// Whether the driver of this node reads.
    fn check_read(&self) -> Result<()> {
        match self.0.desc.has(mp_fabric::sys::MP_FEATURE_PLACED)? {
            true => Ok(()),
            false => Err(Error::FlagNotImplemented),
        }
    }

    fn arm(&self, driven: &Driven<D>, told: Arc<AtomicBool>, callback: Callback) -> Result<()> {
        let inner = Arc::downgrade(&self.0);
        let (mut callback, unarmed) = (Some(callback), Arc::clone(&told));
        let mut run = move || {
            let state = inner.upgrade()?.current().ok()?;
            if !state.is_final() {
                return None;
            }
            // It may start the next one itself.
            told.store(true, Ordering::Release);
            callback.take()?(state.status());
            Some(Action::Cancel)
        };
        let Driven { queue, waits, .. } = driven;
        let object = std::iter::once(&**queue);
        let run = move || next(run());
        let reactor = &self.0.desc.context.reactor;
        let armed = waits.call(reactor, object, EventMask::DONE, run);
        if armed.is_err() {
            // Nobody would hear of its end, and the next transfer need not wait for that.
            let _ = queue.abort();
            unarmed.store(true, Ordering::Release);
        }
        Ok(armed?)
    }

    /// The driver's queue for an interface.
    fn driven(&self, state: &mut State<D>, interface: InterfaceId) -> Result<Arc<Driven<D>>> {
        let mut known = state.queues.iter();
        if let Some(queue) = known.find(|queue| queue.interface == interface) {
            return Ok(Arc::clone(queue));
        }
        let queue = Driven::new(&self.0.desc, interface, self.0.entries);
        let queue = Arc::new(queue.map_err(|error| match error {
            // The link is gone, and with it the connection.
            Error::NoSuchAdapterNo => Error::SegmentNotConnected,
            other => other,
        })?);
        state.queues.push(Arc::clone(&queue));
        Ok(queue)
    }

    /// Wait so many milliseconds until the transfer has ended: its final state.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: nothing was started, or there is a callback that has not run.
    /// [`Error::Timeout`], [`Error::Cancelled`]: a signal has come; the transfer goes on.
    pub fn wait(&self, milliseconds: u32) -> Result<DmaState> {
        let state = self.0.state();
        let last = state.last.as_ref().ok_or(Error::IllegalOperation)?;
        let driven = Arc::clone(&last.queue);
        drop(state);
        let Driven { queue, waits, .. } = &*driven;
        refuse_callback(waits)?;
        let object = std::iter::once(&**queue);
        waits.wait(
            object,
            EventMask::DONE,
            Deadline::after_milliseconds(milliseconds),
            || {
                let state = self.0.current()?;
                Ok(state.is_final().then_some(state))
            },
        )
    }

    /// Abort the transfer: nothing is read or written by it when this returns. In a final state
    /// it does nothing.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: nothing was started.
    pub fn abort(&self) -> Result<()> {
        let mut state = self.0.state();
        let last = state.last.as_ref().ok_or(Error::IllegalOperation)?;
        last.queue.queue.abort()?;
        state.current(&self.0.desc).map(|_| ())
    }

    /// Remove the queue. The value is of no use afterwards.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: a transfer is under way.
    pub fn remove(&self) -> Result<()> {
        let last = self.0.users.release(|| match self.0.current()? {
            DmaState::Posted => Err(Error::IllegalOperation),
            _ => Ok(()),
        });
        last?;
        self.0.end();
        Ok(())
    }
}

impl<D: Device> Drop for Inner<D> {
    fn drop(&mut self) {
        self.end();
    }
}
