// SPDX-License-Identifier: MIT OR Apache-2.0

//! A thread that does something whenever it is woken: the connector. It handles no signals.

use crate::{lock, Error, Result};
use mp_fabric::{thread, Wake};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Mutex,
    },
    thread::JoinHandle,
    time::Duration,
};

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

    /// Sleep until it is woken, or not for longer.
    pub(crate) fn sleep(&self, most: Duration) {
        let most = Timespec::try_from(most).ok();
        let mut fds = [PollFd::new(&self.wake, PollFlags::IN)];
        // Who has slept looks again, whatever has ended it.
        let _ = poll(&mut fds, most.as_ref());
        self.wake.read();
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
