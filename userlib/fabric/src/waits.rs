// SPDX-License-Identifier: MIT OR Apache-2.0

//! How the threads of a program learn of events, of one object or several: each in a wait of its
//! own, or all by one callback. A wait sleeps on an eventfd, so that a signal ends it, and so does
//! whoever cancels.

use crate::{
    reactor::lock, Deadline, Device, Error, EventMask, Next, Object, Reactor, Registration, Result,
    Wake,
};
use rustix::{
    event::{PollFd, PollFlags},
    fd::AsFd,
};
use std::sync::{
    atomic::{AtomicBool, AtomicUsize, Ordering},
    Mutex, OnceLock,
};

/// The waits for events, or the callback for them.
///
/// The objects are named in each call, since they may come and go meanwhile: [`attach`] tells of
/// one that has come.
///
/// [`attach`]: Self::attach
#[derive(Debug, Default)]
pub struct Waits {
    /// Readable when a wait has to look again; there once somebody has waited.
    wake: OnceLock<Wake>,
    /// Threads in a wait.
    waiting: AtomicUsize,
    cancelled: AtomicBool,
    callback: Mutex<Option<Registration>>,
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

impl Waits {
    /// Whether a callback takes the events.
    pub fn has_callback(&self) -> bool {
        lock(&self.callback)
            .as_ref()
            .is_some_and(Registration::is_active)
    }

    /// Let a callback run for events of objects, in the place of one that there was. It looks at
    /// once for what has happened already.
    ///
    /// # Errors
    /// Those of [`Reactor::register`] and [`Registration::arm`]. [`Error::Cancelled`]: it has
    /// been ended for good.
    pub fn call<'a, D: Device>(
        &self,
        reactor: &Reactor<D>,
        objects: impl Iterator<Item = &'a Object<D>>,
        mask: EventMask,
        run: impl FnMut() -> Next + Send + 'static,
    ) -> Result<()> {
        let registration = reactor.register(run)?;
        let before = lock(&self.callback).replace(registration);
        // Not with the lock held: it may run, and want it.
        drop(before);
        if self.cancelled.load(Ordering::Acquire) {
            self.end_callback();
            return Err(Error::Cancelled);
        }
        for object in objects {
            self.arm(object, mask)
                .inspect_err(|_| self.end_callback())?;
        }
        if let Some(callback) = &*lock(&self.callback) {
            callback.kick();
        }
        Ok(())
    }

    fn arm<D: Device>(&self, object: &Object<D>, mask: EventMask) -> Result<()> {
        match &*lock(&self.callback) {
            Some(callback) => callback.arm(object, mask),
            None => Ok(()),
        }
    }

    /// Let the callback and the waits that there are already learn of the events of an object
    /// that there was not.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::System`]: the object cannot be watched.
    pub fn attach<D: Device>(&self, object: &Object<D>, mask: EventMask) -> Result<()> {
        if let Some(wake) = self.wake.get() {
            object.notify(mask, Some(wake.as_fd()))?;
        }
        self.arm(object, mask)
    }

    /// Let the callback or the waits look for something that no object tells of.
    pub fn look(&self) {
        self.ring();
        if let Some(callback) = &*lock(&self.callback) {
            callback.kick();
        }
    }

    /// End the callback: when it returns, it does not run and will not, unless it is the caller.
    pub fn end_callback(&self) {
        let callback = lock(&self.callback).take();
        drop(callback);
    }

    /// End all waits and the callback, for good.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.ring();
        self.end_callback();
    }

    fn ring(&self) {
        if let Some(wake) = self.wake.get() {
            wake.ring();
        }
    }

    /// What wakes the waits; the objects tell it of their events from the first wait on.
    fn wake<'a, D: Device>(
        &self,
        objects: impl Iterator<Item = &'a Object<D>>,
        mask: EventMask,
    ) -> Result<&Wake> {
        if let Some(wake) = self.wake.get() {
            return Ok(wake);
        }
        let new = Wake::new()?;
        let wake = self.wake.get_or_init(|| new);
        // All of them, also after an error: later waits rely on it.
        let notified: Vec<_> = objects
            .map(|object| object.notify(mask, Some(wake.as_fd())))
            .collect();
        // Whoever came meanwhile may have looked before the objects knew of it.
        wake.ring();
        notified.into_iter().collect::<Result<()>>()?;
        Ok(wake)
    }

    /// Wait until the function has taken something ([`taken`]).
    ///
    /// # Errors
    /// [`Error::Cancelled`], [`Error::Interrupted`]: a signal has come. [`Error::TimedOut`].
    /// [`Error::System`]: there are no more descriptors. Those of the function.
    pub fn wait<'a, D: Device, T, E: From<Error>>(
        &self,
        objects: impl Iterator<Item = &'a Object<D>>,
        mask: EventMask,
        deadline: Deadline,
        mut take: impl FnMut() -> std::result::Result<Option<T>, E>,
    ) -> std::result::Result<T, E> {
        let wake = match self.wake(objects, mask) {
            Err(_) if self.cancelled.load(Ordering::Acquire) => Err(Error::Cancelled),
            other => other,
        }?;
        // Before looking: whoever takes something then wakes this thread, in case there is more.
        let waiting = Waiting::enter(&self.waiting);
        let mut look = || {
            let taken = take();
            if self.cancelled.load(Ordering::Acquire) {
                // Others that wait have to see it as well.
                self.ring();
                return Some(Err(Error::Cancelled.into()));
            }
            taken.transpose()
        };
        loop {
            // Before looking: what comes later makes it readable again.
            wake.read();
            if let Some(taken) = look() {
                // There may be more, for a thread whose wake this one has read.
                if !waiting.alone() {
                    self.ring();
                }
                return taken;
            }
            let mut fds = [PollFd::new(wake, PollFlags::IN)];
            if deadline.poll(&mut fds)? == 0 {
                return Err(Error::TimedOut.into());
            }
            // At once: it stays readable, also for others, until the next wait reads it.
            if let Some(taken) = look() {
                return taken;
            }
        }
    }
}

/// What a call has taken that does not wait: nothing to take yet is no error.
///
/// # Errors
/// Those of the call; [`Error::Cancelled`]: the object is closed.
pub fn taken<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::TimedOut) => Ok(None),
        Err(Error::NotFound(_)) => Err(Error::Cancelled),
        Err(other) => Err(other),
    }
}
