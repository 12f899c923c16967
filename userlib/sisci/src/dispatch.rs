// SPDX-License-Identifier: MIT OR Apache-2.0

//! Callbacks: one thread for each virtual device that has any. It sleeps until the driver reports
//! an event of a watched object, takes one event at a time and runs the callback, in turn for
//! objects that have more. No lock of the library is held meanwhile: a callback may call any
//! function, and release its own object.

use crate::{Error, Result};
use mp_fabric::{Deadline, Device, Events};
use rustix::{
    event::{eventfd, poll, EventfdFlags, PollFd, PollFlags},
    fd::OwnedFd,
    io::{self, Errno},
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
    },
    thread::{self, JoinHandle, ThreadId},
};

/// What a callback wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Never to be called again.
    Cancel,
    /// To be called for every further event.
    Continue,
}

/// What became of the attempt to take an event and run the callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// There was no event.
    Nothing,
    /// The callback has run, and there may be more.
    More,
    /// The callback is not to run again.
    Last,
}

/// Takes one event and runs the callback.
pub(crate) type Run = Box<dyn FnMut() -> Ran + Send>;

/// A callback.
struct Handler {
    cookie: u64,
    run: Mutex<Run>,
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    running: bool,
    gone: bool,
}

/// The thread of a virtual device.
pub(crate) struct Dispatcher {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
    id: ThreadId,
}

struct Inner {
    handlers: Mutex<Handlers>,
    /// Callbacks that have something which no event of the driver tells of.
    kicked: Mutex<Vec<u64>>,
    stopped: AtomicBool,
    /// Readable when the thread has to look at the two.
    wake: OwnedFd,
}

#[derive(Default)]
struct Handlers {
    by_cookie: HashMap<u64, Arc<Handler>>,
    last: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dispatcher {
    /// Starts a thread.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn start<D: Device>(events: Events<D>) -> Result<Arc<Self>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let inner = Arc::new(Inner {
            handlers: Mutex::default(),
            kicked: Mutex::default(),
            stopped: AtomicBool::new(false),
            wake: wake.map_err(Error::System)?,
        });
        let own = Arc::clone(&inner);
        let thread = thread::Builder::new().name("sisci".into());
        let thread = thread.spawn(move || own.run(&events)).map_err(|error| {
            let errno = error.raw_os_error().map(Errno::from_raw_os_error);
            Error::System(errno.unwrap_or(Errno::AGAIN))
        })?;
        let id = thread.thread().id();
        Ok(Arc::new(Dispatcher {
            inner,
            thread: Mutex::new(Some(thread)),
            id,
        }))
    }

    /// A new callback, which runs once its object is watched by the number.
    pub(crate) fn register(&self, run: Run) -> u64 {
        let mut handlers = lock(&self.inner.handlers);
        handlers.last += 1;
        let cookie = handlers.last;
        let handler = Handler {
            cookie,
            run: Mutex::new(run),
            state: Mutex::default(),
            idle: Condvar::new(),
        };
        handlers.by_cookie.insert(cookie, Arc::new(handler));
        cookie
    }

    /// Has a callback look for an event that the driver does not report.
    pub(crate) fn kick(&self, cookie: u64) {
        lock(&self.inner.kicked).push(cookie);
        self.inner.ring();
    }

    /// Forgets a callback. When it returns, the callback does not run and will not, unless it is
    /// the caller.
    pub(crate) fn forget(&self, cookie: u64) {
        let handler = lock(&self.inner.handlers).by_cookie.remove(&cookie);
        let Some(handler) = handler else {
            return;
        };
        let mut state = lock(&handler.state);
        state.gone = true;
        if self.is_caller() {
            return;
        }
        while state.running {
            state = handler
                .idle
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_caller(&self) -> bool {
        thread::current().id() == self.id
    }

    /// Ends the thread, unless it is the caller: then it ends when the callback returns.
    pub(crate) fn stop(&self) {
        self.inner.stopped.store(true, Ordering::Release);
        self.inner.ring();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread.filter(|_| !self.is_caller()) {
            // It does not panic: what a callback does is caught where it is called.
            let _ = thread.join();
        }
    }
}

impl Inner {
    fn ring(&self) {
        // A counter that is full is readable all the same.
        let _ = io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn run<D: Device>(&self, events: &Events<D>) {
        let mut ready = VecDeque::new();
        loop {
            let wait = if ready.is_empty() {
                None
            } else {
                Some(Default::default())
            };
            let mut fds = [
                PollFd::new(events, PollFlags::IN),
                PollFd::new(&self.wake, PollFlags::IN),
            ];
            match poll(&mut fds, wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[1].revents().is_empty() {
                let _ = io::read(&self.wake, &mut [0; 8]);
                if self.stopped.load(Ordering::Acquire) {
                    return;
                }
                let kicked = std::mem::take(&mut *lock(&self.kicked));
                self.add(&mut ready, kicked.into_iter());
            }
            if !fds[0].revents().is_empty() {
                match events.read() {
                    Ok(read) => self.add(&mut ready, read.iter().map(|event| event.cookie)),
                    // The context has ended.
                    Err(_) => return,
                }
            }
            if let Some(handler) = ready.pop_front() {
                match run_once(&handler) {
                    Ran::More => ready.push_back(handler),
                    Ran::Last => {
                        lock(&self.handlers).by_cookie.remove(&handler.cookie);
                    }
                    Ran::Nothing => {}
                }
            }
        }
    }

    fn add(&self, ready: &mut VecDeque<Arc<Handler>>, cookies: impl Iterator<Item = u64>) {
        let handlers = lock(&self.handlers);
        for cookie in cookies {
            if let Some(handler) = handlers.by_cookie.get(&cookie) {
                if !ready.iter().any(|other| Arc::ptr_eq(other, handler)) {
                    ready.push_back(Arc::clone(handler));
                }
            }
        }
    }
}

/// Runs a callback if there is an event and the callback is not gone.
fn run_once(handler: &Handler) -> Ran {
    let mut state = lock(&handler.state);
    if state.gone {
        return Ran::Nothing;
    }
    state.running = true;
    drop(state);
    let ran = lock(&handler.run)();
    let mut state = lock(&handler.state);
    state.running = false;
    state.gone |= ran == Ran::Last;
    handler.idle.notify_all();
    ran
}

/// For those who look whether an event is there: not at all later.
pub(crate) const NOW: Deadline = Deadline::PAST;
