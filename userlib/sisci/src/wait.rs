// SPDX-License-Identifier: MIT OR Apache-2.0

//! How threads learn of an object's events: each in a wait of its own, or the callback. A wait
//! sleeps on an eventfd, so that a signal ends it, and so does the release of the object.

use crate::{
    dispatch::{Dispatcher, Ran},
    Action, Desc, Error, Result,
};
use mp_fabric::{Deadline, Device, EventMask, Object};
use rustix::{
    event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec},
    fd::{AsFd, OwnedFd},
    io::{self, Errno},
};
use std::sync::{
    atomic::{AtomicBool, AtomicUsize, Ordering},
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
};

/// The waits for an object, or its callback.
#[derive(Default)]
pub(crate) struct Waits {
    /// Readable when a wait has to look again; there once somebody has waited.
    wake: OnceLock<OwnedFd>,
    /// Threads in a wait.
    waiting: AtomicUsize,
    cancelled: AtomicBool,
    callback: Mutex<Callback>,
}

/// A thread in a wait.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Waiting(count)
    }

    fn alone(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 1
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Callback {
    active: Arc<AtomicBool>,
    registered: Option<(Arc<Dispatcher>, u64)>,
}

impl Waits {
    fn callback(&self) -> MutexGuard<'_, Callback> {
        self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a callback takes the events.
    pub(crate) fn has_callback(&self) -> bool {
        self.callback().active.load(Ordering::Acquire)
    }

    /// Has a callback run for the events of objects; the function takes one of them and runs it.
    ///
    /// # Errors
    /// [`Error::System`]: the thread cannot be started, or no object be watched.
    pub(crate) fn arm<'a, D: Device>(
        &self,
        desc: &Desc<D>,
        objects: impl Iterator<Item = &'a Object<D>>,
        mask: EventMask,
        run: impl FnMut() -> Option<Action> + Send + 'static,
    ) -> Result<()> {
        self.register(desc, run)?;
        self.watch(objects, mask)
    }

    /// Has a callback run, for nothing yet.
    ///
    /// # Errors
    /// [`Error::System`]: the thread cannot be started.
    pub(crate) fn register<D: Device>(
        &self,
        desc: &Desc<D>,
        mut run: impl FnMut() -> Option<Action> + Send + 'static,
    ) -> Result<()> {
        let dispatcher = desc.dispatcher()?;
        let active = Arc::new(AtomicBool::new(true));
        let own = Arc::clone(&active);
        let cookie = dispatcher.register(Box::new(move || match run() {
            None => Ran::Nothing,
            Some(Action::Continue) => Ran::More,
            Some(Action::Cancel) => {
                own.store(false, Ordering::Release);
                Ran::Last
            }
        }));
        let mut callback = self.callback();
        callback.active = active;
        callback.registered = Some((dispatcher, cookie));
        Ok(())
    }

    /// Has the callback run for the events of objects, if there is one.
    fn watch<'a, D: Device>(
        &self,
        objects: impl Iterator<Item = &'a Object<D>>,
        mask: EventMask,
    ) -> Result<()> {
        let cookie = self
            .callback()
            .registered
            .as_ref()
            .map(|(_, cookie)| *cookie);
        let Some(cookie) = cookie else {
            return Ok(());
        };
        for object in objects {
            if let Err(error) = object.watch(mask, cookie) {
                self.disarm();
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Has the callback and the waits that there are already learn of the events of an object
    /// that there was not.
    ///
    /// # Errors
    /// [`Error::System`]: the object cannot be watched.
    pub(crate) fn attach<D: Device>(&self, object: &Object<D>, mask: EventMask) -> Result<()> {
        if let Some(wake) = self.wake.get() {
            object.notify(mask, Some(wake.as_fd()))?;
        }
        self.watch(std::iter::once(object), mask)
    }

    /// Has the callback or the waits look for something that no object tells of.
    pub(crate) fn look(&self) {
        self.ring();
        if let Some((dispatcher, cookie)) = &self.callback().registered {
            dispatcher.kick(*cookie);
        }
    }

    /// Ends the callback: when it returns, it does not run and will not, unless it is the caller.
    pub(crate) fn disarm(&self) {
        let registered = {
            let mut callback = self.callback();
            callback.active.store(false, Ordering::Release);
            callback.registered.take()
        };
        if let Some((dispatcher, cookie)) = registered {
            dispatcher.forget(cookie);
        }
    }

    /// Ends all waits and the callback: the object is gone.
    pub(crate) fn end(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.ring();
        self.disarm();
    }

    fn ring(&self) {
        if let Some(wake) = self.wake.get() {
            // A counter that is full is readable all the same.
            let _ = io::write(wake, &1_u64.to_ne_bytes());
        }
    }

    /// What wakes the waits; the objects tell it of their events from the first wait on.
    fn wake<'a, D: Device>(
        &self,
        objects: impl Iterator<Item = &'a Object<D>>,
        mask: EventMask,
    ) -> Result<&OwnedFd> {
        if let Some(wake) = self.wake.get() {
            return Ok(wake);
        }
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let new = eventfd(0, flags).map_err(Error::System)?;
        let wake = self.wake.get_or_init(|| new);
        for object in objects {
            object.notify(mask, Some(wake.as_fd()))?;
        }
        // Whoever came meanwhile may have looked before the objects knew of it.
        self.ring();
        Ok(wake)
    }

    /// Waits until the function has taken something.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: there is a callback. [`Error::Cancelled`]: the object is
    /// released, or a signal has come. [`Error::Timeout`]. Those of the function.
    pub(crate) fn wait<'a, D: Device, T>(
        &self,
        objects: impl Iterator<Item = &'a Object<D>>,
        mask: EventMask,
        deadline: Deadline,
        mut take: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        if self.has_callback() {
            return Err(Error::IllegalOperation);
        }
        let wake = match self.wake(objects, mask) {
            Err(_) if self.cancelled.load(Ordering::Acquire) => return Err(Error::Cancelled),
            other => other?,
        };
        // Before looking: whoever takes something then wakes this thread, in case there is more.
        let waiting = Waiting::enter(&self.waiting);
        let mut look = || {
            let taken = take();
            if self.cancelled.load(Ordering::Acquire) {
                // Others that wait have to see it as well.
                self.ring();
                return Some(Err(Error::Cancelled));
            }
            taken.transpose()
        };
        loop {
            // Before looking: what comes later makes it readable again.
            let _ = io::read(wake, &mut [0; 8]);
            if let Some(taken) = look() {
                // There may be more, for a thread whose wake this one has read.
                if !waiting.alone() {
                    self.ring();
                }
                return taken;
            }
            let left = deadline.remaining();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::Timeout);
            }
            // Too long for the type is a time that nobody waits.
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(wake, PollFlags::IN)], left.as_ref()) {
                Ok(_) => {}
                Err(Errno::INTR) => return Err(Error::Cancelled),
                Err(errno) => return Err(Error::System(errno)),
            }
            // At once: it stays readable, also for others, until the next wait reads it.
            if let Some(taken) = look() {
                return taken;
            }
        }
    }
}

/// Nothing to take yet is no error.
pub(crate) fn taken<T>(result: mp_fabric::Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(mp_fabric::Error::TimedOut) => Ok(None),
        Err(mp_fabric::Error::NotFound) => Err(Error::Cancelled),
        Err(other) => Err(other.into()),
    }
}
