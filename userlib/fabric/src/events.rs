// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events of all watched objects of a context, by one descriptor.

use crate::{
    sys::mp_event, CharDevice, Deadline, Device, Error, EventMask, Fabric, InterfaceId, Result,
};
use rustix::{
    event::{PollFd, PollFlags},
    fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    io::Errno,
};
use std::sync::Arc;

/// Whom a wait or a watch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An interface.
    Interface(InterfaceId),
    /// Any other object, by its handle.
    Object(u32),
}

/// Something has happened to an object that is watched. It is not taken by that: a wait whose
/// deadline is past does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What the object was watched by.
    pub cookie: u64,
    /// What has happened.
    pub events: EventMask,
}

/// Reads the events of the objects that are watched.
///
/// The descriptor ([`AsFd`], [`AsRawFd`]) is readable as long as there are any, and
/// [`read()`](Self::read) does not wait: that fits `epoll`, `mio` and `tokio`. Two readers of one
/// context take events from each other.
///
/// # Examples
/// ```no_run
/// use mio::{unix::SourceFd, Interest, Poll, Token};
/// use mp_fabric::{EventMask, Fabric};
/// use std::os::fd::AsRawFd;
///
/// # fn main() -> std::io::Result<()> {
/// let fabric = Fabric::open()?;
/// let interface = fabric.interfaces()?[0];
/// fabric.watch(interface, EventMask::STATE, 1)?;
/// let events = fabric.events();
/// let mut poll = Poll::new()?;
/// let source = events.as_raw_fd();
/// poll.registry().register(&mut SourceFd(&source), Token(0), Interest::READABLE)?;
/// poll.poll(&mut mio::Events::with_capacity(1), None)?;
/// for event in events.read()? {
///     println!("{}: {:?}", event.cookie, event.events);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Events<D = CharDevice> {
    device: Arc<D>,
}

impl<D: Device> Fabric<D> {
    /// The events of objects that are watched in this context.
    pub fn events(&self) -> Events<D> {
        Events {
            device: Arc::clone(&self.device),
        }
    }
}

impl<D: Device> Events<D> {
    /// Take what has been reported: nothing, if there is nothing.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Ended`].
    pub fn read(&self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        match self.device.read(&mut events) {
            Ok(()) | Err(Errno::AGAIN) => Ok(events.into_iter().map(Event::from).collect()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Take what has been reported, as soon as there is something.
    ///
    /// # Errors
    /// As [`read()`](Self::read), and [`Error::TimedOut`].
    pub fn wait(&self, deadline: Deadline) -> Result<Vec<Event>> {
        loop {
            let events = self.read()?;
            if !events.is_empty() {
                return Ok(events);
            }
            match deadline.poll(&mut [PollFd::new(self, PollFlags::IN)]) {
                Ok(0) => return Err(Error::TimedOut),
                Ok(_) | Err(Error::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<D: Device> AsFd for Events<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
}

impl<D: Device> AsRawFd for Events<D> {
    fn as_raw_fd(&self) -> RawFd {
        self.device.fd().as_raw_fd()
    }
}

impl From<mp_event> for Event {
    fn from(event: mp_event) -> Self {
        Event {
            cookie: event.cookie,
            events: EventMask::from_bits_retain(event.events),
        }
    }
}
