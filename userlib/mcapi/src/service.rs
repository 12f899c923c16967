// SPDX-License-Identifier: MIT OR Apache-2.0

//! The service thread of a node: moves frames while no thread of the program looks, and notices
//! nodes that have gone. It handles no signals.

use crate::{
    link::Armed,
    lock,
    node::{NodeShared, SharedLink},
    Error, Result,
};
use mp_fabric::{thread, Device, EventMask, Session, Wake};
use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    fd::AsFd,
};
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex,
    },
    thread::JoinHandle,
    time::Duration,
};

/// Looks at all links before the thread sleeps.
const LOOKS: u32 = 50;
/// How long it sleeps at most while there are nodes that do not signal.
const NAP: Duration = Duration::from_millis(10);

/// A thread that sleeps until others wake it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) wake: Wake,
    stopped: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// # Errors
    /// [`Error::NodeInitFailed`]: there are no more descriptors.
    pub(crate) fn new() -> Result<Self> {
        Ok(Worker {
            wake: Wake::new().map_err(|_| Error::NodeInitFailed)?,
            stopped: AtomicBool::new(false),
            thread: Mutex::default(),
        })
    }

    /// # Errors
    /// [`Error::NodeInitFailed`]: there are no more threads.
    pub(crate) fn start(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let spawned = thread::spawn(name, run);
        *lock(&self.thread) = Some(spawned.map_err(|_| Error::NodeInitFailed)?);
        Ok(())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Sleep until it is woken, or not for longer; whether it was.
    pub(crate) fn sleep(&self, most: Option<Duration>) -> bool {
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        let mut fds = [PollFd::new(&self.wake, PollFlags::IN)];
        // Who has slept looks again, whatever has ended it.
        let _ = poll(&mut fds, most.as_ref());
        self.wake.read()
    }

    /// End the thread.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake.ring();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // It calls nothing of the program's, and does not panic.
            let _ = thread.join();
        }
    }
}

/// The service thread.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) worker: Worker,
    /// The thread sleeps, or is about to.
    asleep: AtomicBool,
}

impl Service {
    /// # Errors
    /// [`Error::NodeInitFailed`]: there are no more descriptors.
    pub(crate) fn new() -> Result<Self> {
        Ok(Service {
            worker: Worker::new()?,
            asleep: AtomicBool::new(false),
        })
    }

    /// Let the thread look.
    pub(crate) fn kick(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.worker.wake.ring();
        }
    }

    /// Let events of a session wake the thread.
    ///
    /// # Errors
    /// What the session fails with.
    pub(crate) fn watch<D: Device>(&self, session: &Session<D>) -> mp_fabric::Result<()> {
        let news = EventMask::SIGNAL | EventMask::CLOSED | EventMask::DOWN;
        session.notify(news, Some(self.worker.wake.as_fd()))
    }
}

/// What the thread does until the node is finalized.
pub(crate) fn run<D: Device>(node: &Arc<NodeShared<D>>) {
    let service = &node.service;
    let mut idle = 0;
    while !service.worker.is_stopped() {
        let watched = node.is_watched();
        if !watched && idle < LOOKS {
            idle = if node.serve() { 0 } else { idle + 1 };
            std::hint::spin_loop();
            continue;
        }
        // Before the last look: what is begun later rings.
        service.asleep.store(true, Ordering::SeqCst);
        // Threads of the program that look may cease to.
        let rest = if watched { Armed::Perhaps } else { rest(node) };
        let rang = service.worker.sleep(match rest {
            Armed::No => Some(Duration::ZERO),
            Armed::Perhaps => Some(NAP),
            Armed::Surely => None,
        });
        service.asleep.store(false, Ordering::SeqCst);
        idle = 0;
        // What there is to do may be that a session has ended.
        if rang || rest == Armed::No {
            node.note_news();
        }
    }
}

/// Ask all nodes for signals; the worst of what comes of it.
fn rest<D: Device>(node: &Arc<NodeShared<D>>) -> Armed {
    // A node that has signalled does not do so again before somebody has looked.
    if node.has_news() {
        return Armed::No;
    }
    let links = node.links();
    let arm = |(link, waits): (SharedLink<D>, bool)| match link.try_lock() {
        // Only this link waits for the other host to answer.
        Ok(mut link) => link.arm(&node.fabric, waits),
        Err(_) => Armed::Perhaps,
    };
    let mut worst = Armed::Surely;
    for armed in links.into_iter().map(arm) {
        worst = match (worst, armed) {
            (Armed::No, _) | (_, Armed::No) => Armed::No,
            (Armed::Perhaps, _) | (_, Armed::Perhaps) => Armed::Perhaps,
            _ => Armed::Surely,
        };
    }
    worst
}
