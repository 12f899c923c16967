// SPDX-License-Identifier: MIT OR Apache-2.0

//! Callbacks: one thread for a context, as soon as it has any. It sleeps until the kernel reports
//! an event of a watched object, and runs the callback that is registered for it, in turn for
//! objects that have more. No lock is held meanwhile that a function of this crate takes: a callback
//! may call any of them, and end its own registration.

use crate::{
    thread, CharDevice, Deadline, Device, Error, EventMask, Events, Fabric, Object, Result, Wake,
};
use rustix::event::{PollFd, PollFlags};
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
    },
    thread::{JoinHandle, ThreadId},
};
use tracing::{error, warn};

/// What a callback wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To run when there is another event: it has taken none.
    Wait,
    /// To run again: it has taken an event, and there may be more.
    Again,
    /// Never to run again.
    End,
}

/// Takes one event, if there is one, and does what is to be done for it.
type Run = Box<dyn FnMut() -> Next + Send>;

/// Runs callbacks for events of a context's objects. It has to be the only reader of the context's
/// [`Events`].
///
/// A callback that panics ends itself alone. It runs on a thread that handles no signals but
/// those of its own faults; processes and threads that a callback starts inherit that mask.
pub struct Reactor<D: Device = CharDevice> {
    fabric: Fabric<D>,
    name: &'static str,
    worker: Mutex<Option<Arc<Worker>>>,
}

/// A callback, until it is dropped: then it does not run and will not, unless it is the one that
/// drops it.
#[derive(Debug)]
pub struct Registration {
    worker: Arc<Worker>,
    handler: Arc<Handler>,
}

struct Handler {
    cookie: u64,
    /// None once it has ended itself.
    run: Mutex<Option<Run>>,
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    running: bool,
    ended: bool,
}

/// The thread, and what it has in common with others.
struct Worker {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    id: ThreadId,
}

struct Shared {
    handlers: Mutex<Handlers>,
    /// Callbacks that have something which no event of the kernel tells of.
    kicked: Mutex<Vec<u64>>,
    stopped: AtomicBool,
    wake: Wake,
}

#[derive(Default)]
struct Handlers {
    by_cookie: HashMap<u64, Arc<Handler>>,
    last: u64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Device> Reactor<D> {
    /// One for a context; its thread gets the name, and starts with the first callback.
    pub fn new(fabric: &Fabric<D>, name: &'static str) -> Self {
        Reactor {
            fabric: fabric.clone(),
            name,
            worker: Mutex::new(None),
        }
    }

    /// Register a callback. It is called when the registration is armed for an object's events,
    /// or kicked, and not before.
    ///
    /// # Errors
    /// [`Error::System`]: there are no more threads or descriptors.
    pub fn register(&self, run: impl FnMut() -> Next + Send + 'static) -> Result<Registration> {
        let worker = self.worker()?;
        let mut handlers = lock(&worker.shared.handlers);
        handlers.last += 1;
        let cookie = handlers.last;
        let handler = Arc::new(Handler {
            cookie,
            run: Mutex::new(Some(Box::new(run))),
            state: Mutex::default(),
            idle: Condvar::new(),
        });
        handlers.by_cookie.insert(cookie, Arc::clone(&handler));
        drop(handlers);
        Ok(Registration { worker, handler })
    }

    fn worker(&self) -> Result<Arc<Worker>> {
        let mut slot = lock(&self.worker);
        if let Some(worker) = &*slot {
            return Ok(Arc::clone(worker));
        }
        let shared = Arc::new(Shared {
            handlers: Mutex::default(),
            kicked: Mutex::default(),
            stopped: AtomicBool::new(false),
            wake: Wake::new()?,
        });
        let (own, events) = (Arc::clone(&shared), self.fabric.events());
        let thread = thread::spawn(self.name, move || own.run(&events))?;
        let worker = Arc::new(Worker {
            shared,
            id: thread.thread().id(),
            thread: Mutex::new(Some(thread)),
        });
        *slot = Some(Arc::clone(&worker));
        Ok(worker)
    }

    /// End all callbacks: when it returns, none runs or will run, unless it is the caller. What is
    /// registered later runs on another thread.
    pub fn stop(&self) {
        let Some(worker) = lock(&self.worker).take() else {
            return;
        };
        worker.shared.stopped.store(true, Ordering::Release);
        worker.shared.wake.ring();
        let thread = lock(&worker.thread).take();
        if let Some(thread) = thread.filter(|_| !worker.is_caller()) {
            // It does not panic: what a callback does is caught where it is called.
            let _ = thread.join();
        }
    }
}

impl<D: Device> Drop for Reactor<D> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Worker {
    fn is_caller(&self) -> bool {
        std::thread::current().id() == self.id
    }
}

impl Registration {
    /// Let the callback run for events of an object, of those that are there as well.
    ///
    /// # Errors
    /// [`Error::NotFound`]: the object is closed.
    pub fn arm<D: Device>(&self, object: &Object<D>, mask: EventMask) -> Result<()> {
        object.watch(mask, self.handler.cookie)
    }

    /// Let the callback run for something that no object tells of.
    pub fn kick(&self) {
        lock(&self.worker.shared.kicked).push(self.handler.cookie);
        self.worker.shared.wake.ring();
    }

    /// Whether the callback may still run: it has not ended itself.
    pub fn is_active(&self) -> bool {
        !lock(&self.handler.state).ended
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Handler { cookie, idle, .. } = &*self.handler;
        lock(&self.worker.shared.handlers).by_cookie.remove(cookie);
        let mut state = lock(&self.handler.state);
        state.ended = true;
        if self.worker.is_caller() {
            return;
        }
        while state.running {
            state = idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        // What it has captured goes now, although the worker may still hold the handler.
        let run = lock(&self.handler.run).take();
        drop(run);
    }
}

impl Shared {
    fn run<D: Device>(&self, events: &Events<D>) {
        let mut ready = VecDeque::new();
        loop {
            let until = match ready.is_empty() {
                true => Deadline::NEVER,
                false => Deadline::PAST,
            };
            let mut fds = [
                PollFd::new(events, PollFlags::IN),
                PollFd::new(&self.wake, PollFlags::IN),
            ];
            match until.poll(&mut fds) {
                Ok(_) | Err(Error::Interrupted) => {}
                Err(error) => return warn!("no more callbacks: {error}"),
            }
            if !fds[1].revents().is_empty() {
                self.wake.read();
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
                    Err(error) => return warn!("no more callbacks: {error}"),
                }
            }
            if let Some(handler) = ready.pop_front() {
                match handler.run_once() {
                    Next::Again => ready.push_back(handler),
                    Next::End => {
                        lock(&self.handlers).by_cookie.remove(&handler.cookie);
                    }
                    Next::Wait => {}
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

impl Handler {
    /// Run the callback, unless it has ended.
    fn run_once(&self) -> Next {
        let mut state = lock(&self.state);
        if state.ended {
            return Next::End;
        }
        state.running = true;
        drop(state);
        let run = AssertUnwindSafe(|| {
            let mut run = lock(&self.run);
            let next = run.as_mut().map_or(Next::End, |run| run());
            if next == Next::End {
                *run = None;
            }
            next
        });
        // What it has left in the middle nobody sees: it does not run again.
        let next = catch_unwind(run).unwrap_or_else(|payload| {
            // Dropping it runs code that may panic again.
            std::mem::forget(payload);
            error!("a callback has panicked, and does not run again");
            Next::End
        });
        let mut state = lock(&self.state);
        state.running = false;
        state.ended |= next == Next::End;
        self.idle.notify_all();
        next
    }
}

impl<D: Device> fmt::Debug for Reactor<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reactor").field(&self.name).finish()
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Worker").field(&self.id).finish()
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handler").field(&self.cookie).finish()
    }
}
