// SPDX-License-Identifier: GPL-2.0-only

//! Queues: copies into segments of peers, or out of them, in order and in the background.
//!
//! A queue has a worker of its own, which copies a stretch at a time through the
//! connection, by an engine where there is one ([`pipeline`](crate::pipeline)): as soon as
//! the connection is lost, down or closed, nothing more is written. What is read from the
//! process itself is read in its own call.

use crate::{
    connection::Connection,
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
    user_pages::{
        Purpose,
        UserPages, //
    },
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
    pub(crate) fn pin(copies: &[mp_copy], purpose: Purpose) -> Result<Self> {
        let mut all = KVec::with_capacity(copies.len(), GFP_KERNEL)?;
        for copy in copies.iter() {
            let piece = match copy.length {
                0 => None,
                len => {
                    let pages = UserPages::pin(copy.local, len, purpose)?;
                    let pages = Arc::new(pages, GFP_KERNEL)?;
                    Some(Arc::new(Piece::Pages(pages), GFP_KERNEL)?)
                }
            };
            all.push(piece, GFP_KERNEL)?;
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
    pub(crate) source: Source,
    pub(crate) connection: Arc<Connection>,
    pub(crate) copies: KVec<mp_copy>,
    /// From the connection's segment to the source.
    pub(crate) reads: bool,
}

impl Job {
    /// Call `f` with each copy, and where it goes: what memory, and where in it.
    fn each_target(&self, mut f: impl FnMut(&mp_copy, &Arc<Piece>, u64) -> Result) -> Result {
        for (n, copy) in self.copies.iter().enumerate() {
            match &self.source {
                Source::Segment(used) => f(copy, used.piece()?, copy.local)?,
                Source::Pinned(pieces) => {
                    if let Some(Some(piece)) = pieces.get(n) {
                        f(copy, piece, 0)?;
                    }
                }
                Source::Process => return Err(EINVAL),
            }
        }
        Ok(())
    }
}

struct State {
    /// `MP_QUEUE_*`.
    state: u32,
    starts: u32,
    /// What the worker is to do next.
    job: Option<Job>,
}

/// A queue.
#[pin_data]
pub(crate) struct Queue {
    number: u32,
    link: Arc<Link>,
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
    /// A queue of a link, for so many copies of one start.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(number: u32, link: Arc<Link>, entries: u32, word: Word) -> Result<QueueRef> {
        let ready = Ready::new(0)?;
        let queue = Arc::pin_init(
            pin_init!(Self {
                number,
                link,
                entries,
                ready,
                word,
                is_aborted: Atomic::new(false),
                state <- new_mutex!(State {
                    state: MP_QUEUE_IDLE,
                    starts: 0,
                    job: None,
                }),
            }),
            GFP_KERNEL,
        )?;
        new_worker!(queue)
    }

    /// Its number, unique on this host.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The link that it is of.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
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
        info.interface = self.link.interface().id();
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
    /// `EBUSY` if it is posted; `EFAULT` if the process has not the memory.
    pub(crate) fn start(worker: &QueueRef, job: Job) -> Result {
        let queue = worker.target();
        let is_own = matches!(job.source, Source::Process);
        let job = {
            let mut state = queue.state.lock();
            if state.state == MP_QUEUE_POSTED {
                return Err(EBUSY);
            }
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
        let Some(job) = job else {
            worker.kick();
            return Ok(());
        };
        let result = queue.copy(&job);
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

    /// Copy from the segment of the connection.
    fn read(&self, job: &Job) -> Result {
        if self.link.is_loopback() {
            return self.read_here(job);
        }
        let mut copying = Copying::new(&job.connection, &self.is_aborted);
        job.each_target(|copy, piece, at| copying.fetch(copy.remote, piece, at, copy.length))?;
        copying.finish()
    }

    /// The same of a segment of this host.
    fn read_here(&self, job: &Job) -> Result {
        let mut buffer = KVec::from_elem(0, STRETCH, GFP_KERNEL)?;
        job.each_target(|copy, piece, at| {
            let mut done = 0;
            while done < copy.length {
                if self.is_aborted.load(Relaxed) {
                    return Err(error::cancelled());
                }
                let count = (copy.length - done).min(STRETCH as u64);
                let part = buffer.get_mut(..count as usize).ok_or(EINVAL)?;
                job.connection.load(copy.remote + done, part)?;
                piece.write(at + done, part)?;
                done += count;
            }
            Ok(())
        })
    }

    fn copy(&self, job: &Job) -> Result {
        match job.reads {
            true => self.read(job),
            false => self.write(job),
        }
    }

    /// Copy to the segment of the connection.
    fn write(&self, job: &Job) -> Result {
        let mut pipeline = Pipeline::new(&job.connection, &self.is_aborted)?;
        let ranges = job.copies.iter().map(|copy| Stretch {
            local: copy.local,
            remote: copy.remote,
            len: copy.length,
        });
        match &job.source {
            Source::Segment(used) => {
                // Dropping it waits for what an engine still reads.
                let source = used.source()?;
                for range in ranges {
                    pipeline.copy(range, used, Some(&source))?;
                }
                pipeline.finish(used)?;
            }
            Source::Process => {
                for range in ranges {
                    pipeline.copy(range, &Caller, None)?;
                }
            }
            Source::Pinned(pieces) => {
                for (range, piece) in ranges.zip(pieces) {
                    let Some(piece) = piece else { continue };
                    let source = memory::Source::new(piece.clone())?;
                    pipeline.copy(Stretch { local: 0, ..range }, &**piece, Some(&source))?;
                    // The next one has another source.
                    pipeline.finish(&**piece)?;
                }
            }
        }
        pipeline.settle_placed()?;
        // All is there when the peer says so.
        self.link.barrier(Some(monotonic_ns() + CONFIRM_NS))
    }

    /// Stop the copies, which are over when this returns.
    ///
    /// # Errors
    ///
    /// `ENXIO` if it was never started, `ENOENT` if it is closed meanwhile, `EINTR` if the
    /// process is being killed.
    pub(crate) fn abort(&self) -> Result {
        match self.state.lock().state {
            MP_QUEUE_IDLE => return Err(ENXIO),
            MP_QUEUE_POSTED => self.is_aborted.store(true, Relaxed),
            _ => return Ok(()),
        }
        self.ready.wait(ready::DONE, None, false)?;
        Ok(())
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
        let job = self.state.lock().job.take()?;
        let result = self.copy(&job);
        // What it has used is not in use any more when it is in a final state.
        drop(job);
        self.finish(result);
        None
    }
}
