// SPDX-License-Identifier: GPL-2.0-only

//! Queues: copies into segments of peers, or out of them, in order and in the background.
//!
//! A queue has a worker in the [`lane`](crate::lane) of its user, which copies a stretch at a
//! time through the connection, by an engine where there is one
//! ([`pipeline`](crate::pipeline)): as soon as the connection is lost, down or closed, nothing
//! more is written. After some stretches the user's other queues have their turns. What is read
//! from the process itself is read in its own call.

use crate::{
    connection::Connection,
    context::Context,
    lane::Lane,
    link::Link,
    pipeline::{
        Pipeline,
        Reader,
        Stretch, //
    },
    placed::Copying,
    ready::{
        self,
        Ready, //
    },
    segment::Used,
    status::Word,
    uapi::*,
    window::Piece, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};
use mp_kernel::{
    error,
    time::monotonic_ns,
    user_pages::Purpose,
    worker::{
        new_worker,
        Work,
        Worker, //
    }, //
};
use mp_transport::memory;

/// A peer that has not confirmed the copies after so long is not there.
const CONFIRM_NS: u64 = 5_000_000_000;

/// Bytes that the processor copies between two segments of this host without a pause.
const STRETCH: usize = 1 << 14;

/// Bytes that are copied before other queues of the user have their turns.
const TURN: u64 = 1 << 22;

/// Where copies come from.
pub(crate) enum Source {
    /// A segment of this host.
    Segment(Used),
    /// The memory of the calling process.
    Process,
    /// Pinned memory of the calling process, of each copy; none for those of no bytes.
    Pinned(KVec<Option<Arc<Piece>>>),
}

impl Source {
    /// Pin the memory of the calling process that copies name, for `purpose`.
    ///
    /// # Errors
    ///
    /// `EFAULT`, `EDQUOT`, `ENOMEM`.
    pub(crate) fn pin(context: &Context, copies: &[mp_copy], purpose: Purpose) -> Result<Self> {
        let mut all = KVec::with_capacity(copies.len(), GFP_KERNEL_ACCOUNT)?;
        for copy in copies.iter() {
            let piece = match copy.length {
                0 => None,
                len => {
                    let pages = context.pin(copy.local, len, purpose)?;
                    let pages = Arc::new(pages, GFP_KERNEL_ACCOUNT)?;
                    Some(Arc::new(Piece::Pages(pages), GFP_KERNEL_ACCOUNT)?)
                }
            };
            all.push(piece, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self::Pinned(all))
    }
}

impl Reader for Used {
    fn read(&self, at: u64, to: &mut [u8]) -> Result {
        Used::read(self, at, to)
    }
}

impl Reader for Piece {
    fn read(&self, at: u64, to: &mut [u8]) -> Result {
        Piece::read(self, at, to)
    }
}

/// Reads the memory of the calling process, at its addresses.
struct Caller;

impl Reader for Caller {
    fn read(&self, at: u64, to: &mut [u8]) -> Result {
        let at = usize::try_from(at).map_err(|_| EFAULT)?;
        let from = UserSlice::new(UserPtr::from_addr(at), to.len());
        from.reader().read_slice(to)
    }
}

/// Copies of one start.
pub(crate) struct Job {
    source: Source,
    connection: Arc<Connection>,
    copies: KVec<mp_copy>,
    /// From the connection's segment to the source.
    reads: bool,
    at: Position,
}

/// How far the copies of one start are.
#[derive(Clone, Copy, Default)]
struct Position {
    /// The next one.
    copy: usize,
    /// Bytes of it that are done with.
    done: u64,
}

/// A part of a copy.
struct Part {
    /// Which copy.
    copy: usize,
    /// Where in the copy.
    off: u64,
    range: Stretch,
}

/// The parts of one turn, in order.
struct Parts<'a> {
    copies: &'a [mp_copy],
    at: &'a mut Position,
    /// Bytes that may still be copied.
    left: u64,
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        if self.left == 0 {
            return None;
        }
        let copy = self.copies.get(self.at.copy)?;
        let off = self.at.done;
        let len = copy.length.saturating_sub(off).min(self.left);
        let part = Part {
            copy: self.at.copy,
            off,
            range: Stretch {
                local: copy.local + off,
                remote: copy.remote + off,
                len,
            },
        };
        self.left -= len;
        self.at.done += len;
        if self.at.done == copy.length {
            *self.at = Position {
                copy: self.at.copy + 1,
                done: 0,
            };
        }
        Some(part)
    }
}

impl Job {
    /// Copies that have been checked: no end of any is beyond what 64 bits can tell.
    pub(crate) fn new(
        source: Source,
        connection: Arc<Connection>,
        copies: KVec<mp_copy>,
        reads: bool,
    ) -> Self {
        Self {
            source,
            connection,
            copies,
            reads,
            at: Position::default(),
        }
    }

    /// Whether all of it is done with.
    fn is_over(&self) -> bool {
        self.at.copy >= self.copies.len()
    }

    /// What is to be copied next, of so many bytes.
    fn parts(&mut self, most: u64) -> (Parts<'_>, &Source, &Connection) {
        let parts = Parts {
            copies: &self.copies,
            at: &mut self.at,
            left: most,
        };
        (parts, &self.source, &self.connection)
    }
}

impl Source {
    /// Where a part goes to that is read: what memory, and where in it; none if it is empty.
    fn target(&self, part: &Part) -> Result<Option<(&Arc<Piece>, u64)>> {
        match self {
            Source::Segment(used) => Ok(Some((used.piece()?, part.range.local))),
            Source::Pinned(pieces) => {
                let piece = pieces.get(part.copy).and_then(Option::as_ref);
                Ok(piece.map(|piece| (piece, part.off)))
            }
            Source::Process => Err(EINVAL),
        }
    }
}

struct State {
    /// `MP_QUEUE_*`.
    state: u32,
    starts: u32,
    /// What the worker is to do next.
    job: Option<Job>,
    /// The call that has started it copies.
    is_in_call: bool,
    /// It is about to be closed.
    is_closing: bool,
}

/// A queue.
#[pin_data]
pub(crate) struct Queue {
    number: u32,
    lane: Lane,
    entries: u32,
    ready: Arc<Ready>,
    word: Word,
    is_aborted: Atomic<bool>,
    #[pin]
    state: Mutex<State>,
}

/// A queue with its worker.
pub(crate) type QueueRef = Arc<Worker<Queue>>;

impl Queue {
    /// A queue of a lane's link, for so many copies of one start.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(number: u32, lane: Lane, entries: u32, word: Word) -> Result<QueueRef> {
        let ready = Ready::new(0)?;
        let workqueue = lane.value().clone();
        let queue = Arc::pin_init(
            pin_init!(Self {
                number,
                lane,
                entries,
                ready,
                word,
                is_aborted: Atomic::new(false),
                state <- new_mutex!(State {
                    state: MP_QUEUE_IDLE,
                    starts: 0,
                    job: None,
                    is_in_call: false,
                    is_closing: false,
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        new_worker!(in workqueue, queue)
    }

    /// Its number, unique on this host.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The link that it is of.
    pub(crate) fn link(&self) -> &Arc<Link> {
        self.lane.link()
    }

    /// Most copies of one start.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// Its events.
    pub(crate) fn ready(&self) -> &Arc<Ready> {
        &self.ready
    }

    /// Tell what there is to know.
    pub(crate) fn describe(&self, info: &mut mp_queue) {
        info.interface = self.link().interface().id();
        info.state = self.state.lock().state;
        info.status = self.word.position();
        info.entries = self.entries;
    }

    /// Whether it can be started.
    ///
    /// # Errors
    ///
    /// `EBUSY`.
    pub(crate) fn check_idle(&self) -> Result {
        match self.state.lock().state {
            MP_QUEUE_POSTED => Err(EBUSY),
            _ => Ok(()),
        }
    }

    fn enter(&self, state: &mut State, new: u32) {
        state.state = new;
        self.word.set(new, state.starts);
    }

    /// Start copies that have been checked.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is posted; `ENOENT` if it is about to be closed; `EFAULT` if the process has not
    /// the memory.
    pub(crate) fn start(worker: &QueueRef, job: Job) -> Result {
        let queue = worker.target();
        let is_own = matches!(job.source, Source::Process);
        let job = {
            let mut state = queue.state.lock();
            if state.state == MP_QUEUE_POSTED {
                return Err(EBUSY);
            }
            if state.is_closing {
                return Err(ENOENT);
            }
            state.is_in_call = is_own;
            state.starts = state.starts.wrapping_add(1);
            queue.is_aborted.store(false, Relaxed);
            queue.enter(&mut state, MP_QUEUE_POSTED);
            queue.ready.clear(ready::DONE);
            match is_own {
                true => Some(job),
                false => {
                    state.job = Some(job);
                    None
                }
            }
        };
        let Some(mut job) = job else {
            worker.kick();
            return Ok(());
        };
        let result = queue.copy(&mut job, u64::MAX);
        drop(job);
        queue.finish(result);
        match result {
            Err(e) if e == EFAULT => Err(e),
            _ => Ok(()),
        }
    }

    fn finish(&self, result: Result) {
        {
            let mut state = self.state.lock();
            let new = match result {
                Ok(()) => MP_QUEUE_DONE,
                Err(_) if self.is_aborted.load(Relaxed) => MP_QUEUE_ABORTED,
                Err(_) => MP_QUEUE_ERROR,
            };
            self.enter(&mut state, new);
        }
        self.ready.raise(ready::DONE);
    }

    /// Copy so many bytes more, and once all is copied return when it is where it was to go.
    fn copy(&self, job: &mut Job, most: u64) -> Result {
        match job.reads {
            true => self.read(job, most),
            false => self.write(job, most),
        }
    }

    /// Copy from the segment of the connection.
    fn read(&self, job: &mut Job, most: u64) -> Result {
        let (parts, source, connection) = job.parts(most);
        if self.link().is_loopback() {
            return self.read_here(parts, source, connection);
        }
        let mut copying = Copying::new(connection, &self.is_aborted);
        for part in parts {
            if let Some((piece, at)) = source.target(&part)? {
                copying.fetch(part.range.remote, piece, at, part.range.len)?;
            }
        }
        copying.finish()
    }

    /// The same of a segment of this host.
    fn read_here(&self, parts: Parts<'_>, source: &Source, connection: &Connection) -> Result {
        let mut buffer = KVec::from_elem(0, STRETCH, GFP_KERNEL_ACCOUNT)?;
        for part in parts {
            let Some((piece, at)) = source.target(&part)? else {
                continue;
            };
            let mut done = 0;
            while done < part.range.len {
                if self.is_aborted.load(Relaxed) {
                    return Err(error::cancelled());
                }
                let count = (part.range.len - done).min(STRETCH as u64);
                let bytes = buffer.get_mut(..count as usize).ok_or(EINVAL)?;
                connection.load(part.range.remote + done, bytes)?;
                piece.write(at + done, bytes)?;
                done += count;
            }
        }
        Ok(())
    }

    /// Copy to the segment of the connection.
    fn write(&self, job: &mut Job, most: u64) -> Result {
        let (parts, source, connection) = job.parts(most);
        let mut pipeline = Pipeline::new(connection, &self.is_aborted)?;
        match source {
            Source::Segment(used) => {
                // Dropping it waits for what an engine still reads.
                let source = used.source()?;
                for part in parts {
                    pipeline.copy(part.range, used, Some(&source))?;
                }
                pipeline.finish(used)?;
            }
            Source::Process => {
                for part in parts {
                    pipeline.copy(part.range, &Caller, None)?;
                }
            }
            Source::Pinned(pieces) => {
                for part in parts {
                    let Some(piece) = pieces.get(part.copy).and_then(Option::as_ref) else {
                        continue;
                    };
                    let source = memory::Source::new(piece.clone())?;
                    let range = Stretch {
                        local: part.off,
                        ..part.range
                    };
                    pipeline.copy(range, &**piece, Some(&source))?;
                    // The next one has another source.
                    pipeline.finish(&**piece)?;
                }
            }
        }
        pipeline.settle_placed()?;
        drop(pipeline);
        match job.is_over() {
            // All is there when the peer says so.
            true => self.link().barrier(Some(monotonic_ns() + CONFIRM_NS)),
            false => Ok(()),
        }
    }

    /// Stop the copies, which are over when this returns.
    ///
    /// # Errors
    ///
    /// `ENXIO` if it was never started, `ENOENT` if it is closed meanwhile, `ERESTARTSYS` for a
    /// signal: the copies stop all the same.
    pub(crate) fn abort(&self) -> Result {
        match self.state.lock().state {
            MP_QUEUE_IDLE => return Err(ENXIO),
            MP_QUEUE_POSTED => self.is_aborted.store(true, Relaxed),
            _ => return Ok(()),
        }
        self.ready.wait(ready::DONE, None, false)?;
        Ok(())
    }

    /// Be started no more, and return when no call copies any more that has started it. What it
    /// does in the background ends with [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is closed meanwhile, `ERESTARTSYS` for a signal: the call may copy memory of
    /// the process that it is not to have soon.
    pub(crate) fn retire(&self) -> Result {
        let is_in_call = {
            let mut state = self.state.lock();
            state.is_closing = true;
            state.state == MP_QUEUE_POSTED && state.is_in_call
        };
        match is_in_call {
            true => self.abort(),
            false => Ok(()),
        }
    }

    /// End it, and all that it does in the background.
    pub(crate) fn close(worker: &QueueRef) {
        let queue = worker.target();
        queue.is_aborted.store(true, Relaxed);
        worker.stop();
        let job = queue.state.lock().job.take();
        drop(job);
        queue.ready.close();
    }
}

impl Work for Queue {
    fn run(&self) -> Option<u32> {
        let mut job = self.state.lock().job.take()?;
        let result = self.copy(&mut job, TURN);
        if result.is_ok() && !job.is_over() {
            self.state.lock().job = Some(job);
            return Some(0);
        }
        // What it has used is not in use any more when it is in a final state.
        drop(job);
        self.finish(result);
        None
    }
}
