// SPDX-License-Identifier: GPL-2.0-only

//! Questions that peers are asked for their statistics (`IDT-PEER-3`), until they are answered.
//!
//! Services of this host wait for the answer. Programs do not: their requests are taken, and a worker
//! sends each the answer when that has arrived, or an error. Callbacks of generic netlink must not wait for peers,
//! as nobody registers a family, nor loads a module with one, before they have returned.

use crate::{
    management,
    netlink::Awaiting,
    peer::Peer, //
};
use kernel::{
    new_condvar,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc,
        CondVar, //
    },
    time::msecs_to_jiffies, //
};
use mp_kernel::{
    new_spinlock_bh,
    sync::{
        RcuArc,
        SpinLockBh, //
    },
    time::monotonic_ns,
    worker::{
        new_worker,
        Work,
        Worker, //
    }, //
};
use mp_proto::manage::{
    Message,
    PeerStats, //
};

/// Questions that may be open at a time.
const MAX_QUESTIONS: usize = 16;

/// Milliseconds until a program is told again for whose answer there was no memory.
const RETRY_MS: u32 = 10;

/// What tells programs, while the service runs.
static WORKER: RcuArc<Worker<Questions>> = RcuArc::empty();

/// The next number of a question.
static NEXT_QUESTION: Atomic<u32> = Atomic::new(1);

/// A question for a peer's statistics.
struct Question {
    number: u32,
    /// The life of the peer that is asked.
    asked: u32,
    /// When it was asked, and until when it may be answered, by the monotonic clock.
    asked_ns: u64,
    until_ns: u64,
    /// The program that is told, if none waits.
    program: Option<Awaiting>,
    answer: Option<Answer>,
}

impl Question {
    /// What its program is to be told, if it is time to.
    fn outcome(&self, now: u64) -> Option<(Awaiting, Result<Answer>)> {
        let outcome = match self.answer {
            Some(answer) => Ok(answer),
            None if now >= self.until_ns => Err(ETIMEDOUT),
            None => return None,
        };
        Some((self.program?, outcome))
    }
}

/// What a peer has answered.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    /// Its statistics over all its own peers.
    pub(crate) stats: PeerStats,
    /// From the question until the answer has arrived.
    pub(crate) round_trip_ns: u64,
}

/// Those that are open.
#[pin_data]
struct Questions {
    /// At most [`MAX_QUESTIONS`], for which there is room.
    #[pin]
    open: SpinLockBh<KVec<Question>>,
    #[pin]
    answered: CondVar,
}

/// Start the worker.
pub(crate) fn start() -> Result {
    let questions = Arc::pin_init(
        try_pin_init!(Questions {
            open <- new_spinlock_bh!(KVec::with_capacity(MAX_QUESTIONS, GFP_KERNEL)?),
            answered <- new_condvar!(),
        }),
        GFP_KERNEL,
    )?;
    WORKER.replace(Some(new_worker!(questions)?));
    Ok(())
}

/// Stop the worker, and tell programs that nobody answers any more; no more of them ask. Sleeps.
pub(crate) fn stop() {
    let Some(worker) = WORKER.replace(None) else {
        return;
    };
    worker.stop();
    let open = core::mem::take(&mut *worker.target().open.lock());
    for program in open.iter().filter_map(|question| question.program) {
        // Without memory it is told nothing; its socket is as good as before.
        let _ = program.tell(Err(ENODEV));
    }
}

/// Ask a peer for its statistics, over all its own peers (`IDT-PEER-3`), and
/// wait for the answer. Sleeps.
///
/// # Errors
///
/// `ETIMEDOUT` if none has come in `timeout_ms` milliseconds, `ENOTCONN` if the
/// peer has left, `EAGAIN` if the question cannot be sent now, `EBUSY` if too
/// many ask at a time, `EINTR`.
pub fn ask_stats(peer: &Peer, timeout_ms: u32) -> Result<PeerStats> {
    let worker = WORKER.get().ok_or(ENODEV)?;
    let questions = worker.target();
    let number = questions.ask(peer, timeout_ms, None)?;
    let answer = questions.await_answer(number, timeout_ms);
    questions.close(number);
    Ok(answer?.stats)
}

/// Ask a peer the same; `program` is told in at most `timeout_ms` milliseconds.
///
/// # Errors
///
/// As [`ask_stats`], if the question cannot be sent.
pub(crate) fn ask_for(peer: &Peer, timeout_ms: u32, program: Awaiting) -> Result {
    let worker = WORKER.get().ok_or(ENODEV)?;
    worker.target().ask(peer, timeout_ms, Some(program))?;
    // It looks when the time of this one is over.
    worker.kick();
    Ok(())
}

/// Forget what the program has asked whose socket was closed: another one may have its number soon.
pub(crate) fn forget(socket: u32) {
    if let Some(worker) = WORKER.get() {
        let is_its = |question: &Question| question.program.is_some_and(|p| p.is_of(socket));
        let mut open = worker.target().open.lock();
        open.retain(|question| !is_its(question));
    }
}

/// An answer has come; one that nobody waits for, or of another peer, is dropped. Softirq context.
pub(crate) fn answer(from: &Peer, number: u32, stats: PeerStats) {
    let now = monotonic_ns();
    let guard = rcu::read_lock();
    let Some(worker) = WORKER.load(&guard) else {
        return;
    };
    let questions = worker.target();
    let mut open = questions.open.lock();
    let asked = |q: &&mut Question| q.number == number && q.asked == from.life();
    if let Some(question) = open.iter_mut().find(asked) {
        question.answer = Some(Answer {
            stats,
            round_trip_ns: now.saturating_sub(question.asked_ns),
        });
    }
    drop(open);
    questions.answered.notify_all();
    worker.kick();
}

impl Questions {
    /// Ask; the number of the question, which is open until [`close`](Self::close).
    fn ask(&self, peer: &Peer, timeout_ms: u32, program: Option<Awaiting>) -> Result<u32> {
        let number = NEXT_QUESTION.fetch_add(1, Relaxed);
        let now = monotonic_ns();
        let question = Question {
            number,
            asked: peer.life(),
            asked_ns: now,
            until_ns: now.saturating_add(u64::from(timeout_ms) * 1_000_000),
            program,
            answer: None,
        };
        let mut open = self.open.lock();
        if open.len() >= MAX_QUESTIONS {
            return Err(EBUSY);
        }
        open.push(question, GFP_ATOMIC)?;
        drop(open);
        if let Err(error) = management::tell(peer, &Message::AskStats(number)) {
            self.close(number);
            return Err(error.into());
        }
        Ok(number)
    }

    fn close(&self, number: u32) {
        self.open
            .lock()
            .retain(|question| question.number != number);
    }

    fn await_answer(&self, number: u32, timeout_ms: u32) -> Result<Answer> {
        use kernel::sync::CondVarTimeoutResult as Waited;
        let mut open = self.open.lock();
        let mut left = msecs_to_jiffies(timeout_ms);
        loop {
            let question = open.iter().find(|q| q.number == number);
            if let Some(answer) = question.and_then(|q| q.answer) {
                return Ok(answer);
            }
            match self.answered.wait_interruptible_timeout(&mut open, left) {
                Waited::Woken { jiffies } => left = jiffies,
                Waited::Timeout => return Err(ETIMEDOUT),
                Waited::Signal { .. } => return Err(EINTR),
            }
        }
    }

    /// A question whose program is to be told now, and what.
    fn next_outcome(&self, now: u64) -> Option<(u32, Awaiting, Result<Answer>)> {
        let open = self.open.lock();
        let mut outcomes = open.iter().filter_map(|question| {
            let (program, outcome) = question.outcome(now)?;
            Some((question.number, program, outcome))
        });
        outcomes.next()
    }

    /// Milliseconds until the time of a program's question is over.
    fn next_end(&self, now: u64) -> Option<u32> {
        let open = self.open.lock();
        let programs = open.iter().filter(|question| question.program.is_some());
        let first = programs.map(|question| question.until_ns).min()?;
        Some((first.saturating_sub(now) / 1_000_000 + 1) as u32)
    }
}

impl Work for Questions {
    fn run(&self) -> Option<u32> {
        let now = monotonic_ns();
        while let Some((number, program, outcome)) = self.next_outcome(now) {
            if program.tell(outcome) == Err(ENOMEM) {
                return Some(RETRY_MS);
            }
            // Or its socket is closed, or takes no more.
            self.close(number);
        }
        self.next_end(now)
    }
}
