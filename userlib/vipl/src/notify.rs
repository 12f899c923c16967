// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads that run handlers of the program: one for each queue that has any (VI-NTFY-12), and one
//! for the asynchronous errors of a NIC. Handlers of a thread run one after the other, without a
//! lock, and may call everything (VI-NTFY-13).
//!
//! The reactor of `mp_fabric` has one thread for all callbacks of a context, which run for events
//! that the kernel tells of. A handler runs for a completion, of which the kernel knows nothing,
//! and while it blocks, those of other queues run.

use crate::{lock, Error, Result};
use mp_fabric::thread;
use std::{
    cell::Cell,
    collections::VecDeque,
    fmt,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, PoisonError},
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
    started: bool,
    running: bool,
    stopped: bool,
    /// Handlers that were pushed, and those of them that have returned.
    pushed: u64,
    returned: u64,
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
        if state.started || state.stopped {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let spawned = thread::spawn(self.name, move || shared.run());
        spawned.map_err(|_| Error::Resource)?;
        state.started = true;
        Ok(())
    }

    /// Make sure that there is room for so many handlers beside those that have not begun.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub(crate) fn reserve(&self, more: usize) -> Result<()> {
        let reserved = lock(&self.shared.state).jobs.try_reserve(more);
        reserved.map_err(|_| Error::Resource)
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
        state.pushed += 1;
        self.shared.changed.notify_all();
        None
    }

    /// Wait until all handlers that were pushed have returned, unless one of them is the caller, or
    /// waits for the caller to return. Those that are stopped never begin.
    pub(crate) fn settle(&self) {
        let Some(_wait) = Wait::begin(self.shared.number()) else {
            return;
        };
        let mut state = lock(&self.shared.state);
        let last = state.pushed;
        while state.returned < last && (state.running || !state.stopped) {
            let changed = self.shared.changed.wait(state);
            state = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Begin no more handlers. Those that have not begun are dropped by [`close()`](Self::close): that
    /// runs code of the program, and this does not.
    pub(crate) fn halt(&self) {
        lock(&self.shared.state).stopped = true;
        self.shared.changed.notify_all();
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
    /// is the caller (VI-NTFY-11), or waits for the caller to return.
    pub(crate) fn stop(&self) {
        self.close();
        let Some(_wait) = Wait::begin(self.shared.number()) else {
            return;
        };
        let mut state = lock(&self.shared.state);
        while state.running {
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

/// Threads of handlers that wait for a handler of another thread to return, and for which thread.
static WAITS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

thread_local! {
    /// The number of the notifier that this thread runs handlers of; 0 of all other threads.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// The current thread waits for handlers of another one.
struct Wait(usize);

impl Wait {
    /// Nothing if the thread would wait for itself, also by way of others: of those that wait for
    /// each other the last one does not.
    fn begin(other: usize) -> Option<Self> {
        let own = OWN.get();
        let mut waits = lock(&WAITS);
        let mut next = Some(other);
        while let Some(thread) = next {
            if thread == own {
                return None;
            }
            let wait = waits.iter().find(|(waits, _)| *waits == thread);
            next = wait.map(|(_, other)| *other);
        }
        if own != 0 {
            waits.push((own, other));
        }
        Some(Wait(own))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        lock(&WAITS).retain(|(waits, _)| *waits != self.0);
    }
}

impl Shared {
    /// What tells it from all others that there are, and is not 0.
    fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn run(&self) {
        OWN.set(self.number());
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
            let mut state = lock(&self.state);
            (state.running, state.returned) = (false, state.returned + 1);
            drop(state);
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

    /// VI-NTFY-11, VI-NTFY-13: handlers that stop each other's threads return, all but one of them
    /// after the handler that they have stopped.
    #[test]
    fn handlers_that_stop_each_other_return() {
        let notifiers: Vec<_> = (0..3).map(|_| Arc::new(Notifier::new("test"))).collect();
        let all = Arc::new(std::sync::Barrier::new(3));
        let (tell, told) = mpsc::channel();
        for (n, notifier) in notifiers.iter().enumerate() {
            let next = Arc::clone(&notifiers[(n + 1) % 3]);
            let (all, tell) = (Arc::clone(&all), tell.clone());
            notifier.start().unwrap();
            let stops = Box::new(move || {
                all.wait();
                next.stop();
                tell.send(n).unwrap();
            });
            assert!(notifier.push(stops).is_none());
        }
        let first = told.recv_timeout(SOON).unwrap();
        // Who waits for a handler returns after it.
        assert_eq!(told.recv_timeout(SOON), Ok((first + 2) % 3));
        assert_eq!(told.recv_timeout(SOON), Ok((first + 1) % 3));
        for notifier in &notifiers {
            notifier.stop();
        }
        assert!(lock(&WAITS).is_empty());
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
