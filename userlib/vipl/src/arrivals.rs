// SPDX-License-Identifier: MIT OR Apache-2.0

//! News of interfaces, for threads that wait for partners on several of them: one is new, or has
//! gone up or down.
//!
//! The kernel signals one descriptor for each interface, and a NIC has the same one for all. A
//! thread that reads it wakes all others that wait.

use crate::{lock, Result};
use mp_fabric::{Deadline, Device, Error, EventMask, Fabric, InterfaceId, Wake};
use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    fd::{AsFd, BorrowedFd},
};
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// Who waits for news of interfaces.
pub(crate) struct Arrivals {
    changed: Wake,
    waiting: Mutex<Vec<Weak<Wake>>>,
}

impl Arrivals {
    /// Nobody waits.
    ///
    /// # Errors
    /// [`Resource`](crate::Error::Resource): there are no more descriptors.
    pub(crate) fn new() -> Result<Self> {
        Ok(Arrivals {
            changed: Wake::new()?,
            waiting: Mutex::default(),
        })
    }

    /// What a thread sleeps on that waits, beside [`AsFd`] of this: rung if another one has taken the
    /// news.
    ///
    /// # Errors
    /// [`Resource`](crate::Error::Resource): there are no more descriptors.
    pub(crate) fn enter(&self) -> Result<Arc<Wake>> {
        let own = Arc::new(Wake::new()?);
        let mut waiting = lock(&self.waiting);
        waiting.retain(|other| other.strong_count() > 0);
        waiting.push(Arc::downgrade(&own));
        Ok(own)
    }

    /// Let all look that wait.
    pub(crate) fn ring(&self) {
        let waiting = lock(&self.waiting).clone();
        for wake in waiting.iter().filter_map(Weak::upgrade) {
            wake.ring();
        }
    }

    /// Take the news: what changes after this is told again, and the caller looks what there is now.
    /// False if the kernel does not tell of all that may come: then the caller has to look again later.
    ///
    /// # Errors
    /// [`Resource`](crate::Error::Resource): the context has ended, as of all calls.
    pub(crate) fn take<D: Device>(&self, fabric: &Fabric<D>, own: &Wake) -> Result<bool> {
        own.read();
        if self.changed.read() {
            self.ring();
            own.read();
        }
        let mut tells = self.follow(fabric, InterfaceId::ANY)?;
        for interface in fabric.interfaces()? {
            tells &= self.follow(fabric, interface)?;
        }
        Ok(tells)
    }

    /// Sleep until there is news, or what is slept on is rung, or the time is over; without a time
    /// that has no end. The caller looks again, whatever has ended the sleep.
    pub(crate) fn sleep(&self, own: &Wake, time: Option<Duration>) {
        let mut fds =
            [own.as_fd(), self.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let _ = poll(&mut fds, time.as_ref());
    }

    /// Let the kernel tell of an interface from now on; false if there is none of that number, or no
    /// memory for that.
    fn follow<D: Device>(&self, fabric: &Fabric<D>, interface: InterfaceId) -> Result<bool> {
        // The caller sees what has happened before, which nobody has to be told again.
        let _ = fabric.wait(interface, EventMask::STATE, Deadline::PAST);
        match fabric.notify(interface, EventMask::STATE, Some(self.changed.as_fd())) {
            Ok(()) => Ok(true),
            Err(Error::NoInterface(_) | Error::NoMemory) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Arrivals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changed.as_fd()
    }
}
