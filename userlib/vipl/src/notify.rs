// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads that run handlers of the program: one for each queue that has any (VI-NTFY-12), and one
//! for the asynchronous errors of a NIC. Handlers of a thread run one after the other, without a
//! lock, and may call everything (VI-NTFY-13).

use crate::{lock, Error, Result};
use mp_fabric::thread;
use std::{
    collections::VecDeque,
    fmt,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::ThreadId,
};
use tracing::error;

/// Runs one handler.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A thread for handlers, from the first one on.
pub(crate) struct Notifier {
    name: &'static str,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    thread: Option<ThreadId>,
    running: bool,
    stopped: bool,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notifier").field(&self.name).finish()
    }
}

impl Notifier {
    pub(crate) fn new(name: &'static str) -> Self {
        Notifier {
            name,
            shared: Arc::default(),
        }
    }

    /// Make sure that there is a thread.
    ///
    /// # Errors
    /// [`Error::Resource`]: there are no more.
    pub(crate) fn start(&self) -> Result<()> {
        let mut state = lock(&self.shared.state);
        if state.thread.is_some() || state.stopped {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let spawned = thread::spawn(self.name, move || shared.run());
        let spawned = spawned.map_err(|_| Error::Resource)?;
        state.thread = Some(spawned.thread().id());
        Ok(())
    }

    /// Let the thread run a handler, behind all others. It comes back if the thread has ended:
    /// dropping it runs code of the program, which is for a caller without a lock.
    #[must_use]
    pub(crate) fn push(&self, job: Job) -> Option<Job> {
        let mut state = lock(&self.shared.state);
        if state.stopped {
            return Some(job);
        }
        state.jobs.push_back(job);
        self.shared.changed.notify_all();
        None
    }

    /// End the thread after the handler that runs. Those that have not begun are dropped.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.shared.state);
        state.stopped = true;
        let jobs = std::mem::take(&mut state.jobs);
        self.shared.changed.notify_all();
        drop(state);
        drop(jobs);
    }

    /// As [`close()`](Self::close), and waits: when it returns, no handler runs or will, unless it
    /// is the caller (VI-NTFY-11).
    pub(crate) fn stop(&self) {
        self.close();
        let mut state = lock(&self.shared.state);
        let own = state.thread == Some(std::thread::current().id());
        while state.running && !own {
            let changed = self.shared.changed.wait(state);
            state = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let mut state = lock(&self.state);
            let job = loop {
                if state.stopped {
                    return;
                }
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                let changed = self.changed.wait(state);
                state = changed.unwrap_or_else(PoisonError::into_inner);
            };
            state.running = true;
            drop(state);
            if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
                // Dropping it runs code that may panic again.
                std::mem::forget(payload);
                error!("a handler has panicked");
            }
            lock(&self.state).running = false;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Duration};

    const SOON: Duration = Duration::from_secs(20);

    /// VI-NTFY-4, VI-NTFY-12: in order, one at a time, in one thread.
    #[test]
    fn handlers_run_in_order_in_one_thread() {
        let notifier = Notifier::new("test");
        let (tell, told) = mpsc::channel();
        notifier.start().unwrap();
        for n in 0..100 {
            let tell = tell.clone();
            let job = Box::new(move || tell.send((n, std::thread::current().id())).unwrap());
            assert!(notifier.push(job).is_none());
        }
        let first = told.recv_timeout(SOON).unwrap();
        assert_eq!(first.0, 0);
        for n in 1..100 {
            assert_eq!(told.recv_timeout(SOON), Ok((n, first.1)));
        }
    }

    /// VI-NTFY-11, VI-NTFY-13: stopping waits for a handler that runs, drops the others, and is
    /// possible from inside of one. A handler that panics harms no other.
    #[test]
    fn stopping_waits_and_drops() {
        let notifier = Arc::new(Notifier::new("test"));
        let (tell, told) = mpsc::channel();
        notifier.start().unwrap();
        assert!(notifier.push(Box::new(|| panic!("on purpose"))).is_none());
        let (own, inside) = (Arc::clone(&notifier), tell.clone());
        let stops = Box::new(move || {
            inside.send("begun").unwrap();
            std::thread::sleep(Duration::from_millis(50));
            own.stop();
            inside.send("ended").unwrap();
        });
        assert!(notifier.push(stops).is_none());
        let late = notifier.push(Box::new(move || tell.send("late").unwrap()));
        assert!(late.is_none());
        assert_eq!(told.recv_timeout(SOON), Ok("begun"));
        notifier.stop();
        assert_eq!(told.try_recv(), Ok("ended"));
        assert!(notifier.push(Box::new(|| {})).is_some());
        assert!(told.recv_timeout(SOON).is_err());
    }
}
