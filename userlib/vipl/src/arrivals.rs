// SPDX-License-Identifier: MIT OR Apache-2.0

//! Changes of interfaces, for threads that wait for partners on several of them: one was added, or
//! has gone up or down.
//!
//! The kernel signals one descriptor for each interface, and a NIC has the same one for all. A
//! thread that reads it wakes all others that wait.

use crate::{lock, Result};
use mp_fabric::{Deadline, Device, Error, EventMask, Fabric, InterfaceId, Wake};
use rustix::fd::{AsFd, BorrowedFd};
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// Threads that sleep, each on a [`Wake`] of its own.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Vec<Weak<Wake>>);

impl Wakes {
    /// Add one. Those that have gone are forgotten.
    pub(crate) fn enter(&mut self, wake: &Arc<Wake>) {
        self.0.retain(|other| other.strong_count() > 0);
        self.0.push(Arc::downgrade(wake));
    }

    /// Let all look.
    pub(crate) fn ring(&self) {
        for wake in self.0.iter().filter_map(Weak::upgrade) {
            wake.ring();
        }
    }
}

/// The threads of a NIC that wait for changes of interfaces.
pub(crate) struct Arrivals {
    changed: Wake,
    waiting: Mutex<Wakes>,
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

    /// What a thread sleeps on that waits, beside [`AsFd`] of this: rung if another one has read of a
    /// change.
    ///
    /// # Errors
    /// [`Resource`](crate::Error::Resource): there are no more descriptors.
    pub(crate) fn enter(&self) -> Result<Arc<Wake>> {
        let own = Arc::new(Wake::new()?);
        lock(&self.waiting).enter(&own);
        Ok(own)
    }

    /// Let all look that wait.
    pub(crate) fn ring(&self) {
        lock(&self.waiting).ring();
    }

    /// Begin to look: what changes after this is told again, and the caller looks what there is now.
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

    /// Sleep until an interface changes, or what is slept on is rung, or the time is over; without a
    /// time that has no end. The caller looks again, whatever has ended the sleep.
    pub(crate) fn sleep(&self, own: &Wake, time: Option<Duration>) {
        own.sleep_or(&self.changed, time.map_or(Deadline::NEVER, Deadline::after));
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
