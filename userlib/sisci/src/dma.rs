// SPDX-License-Identifier: GPL-2.0

//! DMA queues. The driver's queues are each for one interface, and copy with an engine or a
//! thread of their own; here a queue is an adapter's, with one of the driver's for each interface
//! that it has been used over. It copies from this host to remote segments.

use crate::{
    deadline,
    desc::no_call,
    users::{User, Users},
    wait::Waits,
    Action, Desc, Error, LocalSegment, RemoteSegment, Result,
};
use mp_fabric::{Copy, Device, EventMask, InterfaceId, Queue, QueueState, SegmentState};
use rustix::io::Errno;
use std::{
    fmt,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
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

/// Where a transfer comes from.
#[derive(Debug)]
pub enum DmaSource<'a, D: Device> {
    /// A local segment; it has to be prepared.
    Segment(&'a LocalSegment<D>),
    /// Memory of this process at an address, which is only read.
    Memory(usize),
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

/// A callback for the end of a transfer.
type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// Transfers, one after the other. Copies are the same queue.
pub struct DmaQueue<D: Device>(Arc<Inner<D>>);

pub(crate) struct Inner<D: Device> {
    desc: Desc<D>,
    adapter: u32,
    entries: u32,
    state: Mutex<State<D>>,
    users: Users,
    _user: User,
}

struct State<D: Device> {
    queues: Vec<(InterfaceId, Arc<Queue<D>>)>,
    /// The transfer that was started last.
    last: Option<Transfer<D>>,
}

struct Transfer<D: Device> {
    queue: Arc<Queue<D>>,
    waits: Arc<Waits>,
    /// Whether its callback has run, or there is none.
    told: Arc<AtomicBool>,
    /// What stays as long as it is under way.
    used: Vec<User>,
}

impl<D: Device> Clone for DmaQueue<D> {
    fn clone(&self) -> Self {
        DmaQueue(Arc::clone(&self.0))
    }
}

impl<D: Device> fmt::Debug for DmaQueue<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DmaQueue").finish_non_exhaustive()
    }
}

impl<D: Device> Desc<D> {
    /// Makes a queue of an adapter, for vectors of so many entries.
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
        let first = self.fabric().create_queue(loopback, entries);
        let first = first.map_err(|error| no_call(error.into()))?;
        let inner = Arc::new(Inner {
            desc: self.clone(),
            adapter,
            entries,
            state: Mutex::new(State {
                queues: vec![(loopback, Arc::new(first))],
                last: None,
            }),
            users: Users::default(),
            _user: user,
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

    /// Lets go of what transfers use that have ended since.
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
        self.state().current()
    }
}

impl<D: Device> State<D> {
    /// The state of the transfer that was started last; what it uses is let go if it has ended.
    fn current(&mut self) -> Result<DmaState> {
        let Some(last) = &mut self.last else {
            return Ok(DmaState::Idle);
        };
        let state = match last.queue.state()? {
            QueueState::Idle => DmaState::Idle,
            QueueState::Posted => DmaState::Posted,
            QueueState::Done => DmaState::Done,
            QueueState::Error => DmaState::Error,
            QueueState::Aborted => DmaState::Aborted,
        };
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

    /// Starts a transfer to a remote segment, with a callback for its end or without.
    ///
    /// # Errors
    /// In this order: [`Error::IllegalOperation`]: one is under way, or its callback has not run
    /// yet, or the remote segment is not mapped. [`Error::MaxEntries`]: none or too many pieces. [`Error::OutOfRange`].
    /// [`Error::SegmentNotPrepared`], [`Error::SegmentNotConnected`]: not operational, or over
    /// another adapter. [`Error::IllegalAddress`], [`Error::NoSpace`]; [`Error::System`]: no
    /// thread for callbacks. A transfer that cannot be started leaves the state as it was.
    pub fn start(
        &self,
        source: DmaSource<'_, D>,
        remote: &RemoteSegment<D>,
        pieces: &[Piece],
        callback: Option<Callback>,
    ) -> Result<()> {
        let mut used = vec![remote.users().enter()?];
        if let DmaSource::Segment(segment) = source {
            used.push(segment.users().enter()?);
        }
        let mut state = self.0.state();
        let told = |last: &Transfer<D>| last.told.load(Ordering::Acquire);
        let running = state.current()? == DmaState::Posted || !state.last.as_ref().is_none_or(told);
        if running || !remote.is_mapped() {
            return Err(Error::IllegalOperation);
        }
        if pieces.is_empty() || pieces.len() > self.0.entries as usize {
            return Err(Error::MaxEntries);
        }
        let copies = self.copies(&source, remote, pieces)?;
        let (interface, connection) = (remote.interface()?, remote.connection()?);
        let adapter = self.0.desc.adapter(self.0.adapter)?;
        if !adapter.interfaces().any(|id| id == interface) || !remote.is_operational() {
            return Err(Error::SegmentNotConnected);
        }
        let queue = self.queue(&mut state, interface)?;
        let waits = Arc::new(Waits::default());
        let started = match &source {
            DmaSource::Segment(segment) => queue.start(segment.segment(), connection, &copies),
            DmaSource::Memory(_) => queue.start_from_memory(connection, &copies),
        };
        started.map_err(|error| match error {
            mp_fabric::Error::System(Errno::BUSY) => Error::IllegalOperation,
            mp_fabric::Error::System(Errno::RANGE) => Error::OutOfRange,
            mp_fabric::Error::System(Errno::FAULT) => Error::IllegalAddress,
            mp_fabric::Error::NoWindow => Error::SegmentNotPrepared,
            mp_fabric::Error::PartnerGone | mp_fabric::Error::InterfaceDown => {
                Error::SegmentNotConnected
            }
            other => other.into(),
        })?;
        let told = Arc::new(AtomicBool::new(callback.is_none()));
        state.last = Some(Transfer {
            queue: Arc::clone(&queue),
            waits: Arc::clone(&waits),
            told: Arc::clone(&told),
            used,
        });
        drop(state);
        match callback {
            Some(callback) => self.arm(&queue, &waits, told, callback),
            None => Ok(()),
        }
    }

    fn arm(
        &self,
        queue: &Queue<D>,
        waits: &Waits,
        told: Arc<AtomicBool>,
        callback: Callback,
    ) -> Result<()> {
        let inner = Arc::downgrade(&self.0);
        let mut callback = Some(callback);
        let run = move || {
            let state = inner.upgrade()?.current().ok()?;
            if !state.is_final() {
                return None;
            }
            // It may start the next one itself.
            told.store(true, Ordering::Release);
            callback.take()?(state.status());
            Some(Action::Cancel)
        };
        let object = std::iter::once(&**queue);
        let armed = waits.arm(&self.0.desc, object, EventMask::DONE, run);
        if armed.is_err() {
            // Nobody would hear of its end.
            let _ = queue.abort();
        }
        armed
    }

    /// The copies that the pieces are.
    fn copies(
        &self,
        source: &DmaSource<'_, D>,
        remote: &RemoteSegment<D>,
        pieces: &[Piece],
    ) -> Result<Vec<Copy>> {
        let (base, room) = match source {
            DmaSource::Segment(segment) => {
                segment.filled()?;
                if segment.state(self.0.adapter)? == SegmentState::Unprepared {
                    return Err(Error::SegmentNotPrepared);
                }
                (0, segment.size())
            }
            DmaSource::Memory(address) => (*address, usize::MAX),
        };
        let fits = |start: usize, size: usize, room: usize| {
            start.checked_add(size).is_some_and(|end| end <= room)
        };
        let mut copies = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let local = base.checked_add(piece.local).ok_or(Error::OutOfRange)?;
            if !fits(local, piece.size, room) || !fits(piece.remote, piece.size, remote.size()) {
                return Err(Error::OutOfRange);
            }
            if piece.size == 0 {
                return Err(Error::SizeAlignment);
            }
            copies.push(Copy {
                local: local as u64,
                remote: piece.remote as u64,
                len: piece.size as u64,
            });
        }
        Ok(copies)
    }

    fn queue(&self, state: &mut State<D>, interface: InterfaceId) -> Result<Arc<Queue<D>>> {
        if let Some((_, queue)) = state.queues.iter().find(|(id, _)| *id == interface) {
            return Ok(Arc::clone(queue));
        }
        let queue = self.0.desc.fabric().create_queue(interface, self.0.entries);
        let queue = Arc::new(queue?);
        state.queues.push((interface, Arc::clone(&queue)));
        Ok(queue)
    }

    /// Waits so many milliseconds until the transfer has ended: its final state.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: nothing was started, or there is a callback that has not run.
    /// [`Error::Timeout`], [`Error::Cancelled`]: a signal has come; the transfer goes on.
    pub fn wait(&self, milliseconds: u32) -> Result<DmaState> {
        let state = self.0.state();
        let last = state.last.as_ref().ok_or(Error::IllegalOperation)?;
        let (queue, waits) = (Arc::clone(&last.queue), Arc::clone(&last.waits));
        drop(state);
        let object = std::iter::once(&**queue);
        waits.wait(object, EventMask::DONE, deadline(milliseconds), || {
            let state = self.0.current()?;
            Ok(state.is_final().then_some(state))
        })
    }

    /// Aborts the transfer: nothing is read or written by it when this returns. In a final state
    /// it does nothing.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: nothing was started.
    pub fn abort(&self) -> Result<()> {
        let mut state = self.0.state();
        let last = state.last.as_ref().ok_or(Error::IllegalOperation)?;
        last.queue.abort()?;
        state.current().map(|_| ())
    }

    /// Removes the queue. The value is of no use afterwards.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: a transfer is under way.
    pub fn remove(&self) -> Result<()> {
        let last = self.0.users.release(|| match self.0.current()? {
            DmaState::Posted => Err(Error::IllegalOperation),
            _ => Ok(()),
        });
        last?;
        let mut state = self.0.state();
        let (queues, last) = (std::mem::take(&mut state.queues), state.last.take());
        drop(state);
        if let Some(last) = last {
            last.waits.end();
        }
        drop(queues);
        Ok(())
    }
}

impl<D: Device> Drop for Inner<D> {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = state.last.take() {
            last.waits.end();
        }
    }
}
