// SPDX-License-Identifier: MIT OR Apache-2.0

//! What segments, connections, queues and offers have in common: a handle that ends with its
//! value, notices, and the ways of waiting.

use crate::{
    sys::{self, mp_address, mp_handle, mp_message, mp_notice, mp_offer, mp_remove},
    wait, Call, Deadline, Device, Error, EventMask, Fabric, InterfaceId, Result, Target,
};
use rustix::{
    fd::BorrowedFd,
    io::{retry_on_intr, Errno},
};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc,
};

/// A handle of the kernel's. It is closed when it is dropped.
#[derive(Debug)]
pub struct Object<D: Device> {
    pub(crate) device: Arc<D>,
    handle: u32,
    closed: AtomicBool,
}

/// Somebody at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The interface that leads there.
    pub interface: InterfaceId,
    /// The id of the host.
    pub id: u32,
}

/// What has happened to a connection. A segment's owner learns of each of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A peer's process has connected to the segment.
    Connected,
    /// It has left; or the segment's owner would like this process to leave.
    Disconnected,
    /// The link is down.
    Down,
    /// The connection is operational again.
    Up,
    /// It has ended for good.
    Lost,
    /// The bridge has failed, at which the segment is prepared, or the connection was.
    Fatal,
}

/// A message that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its length in bytes.
    pub len: usize,
    /// Id of the sender's host.
    pub peer: u32,
}

impl<D: Device> Object<D> {
    pub(crate) fn new(device: &Arc<D>, handle: u32) -> Self {
        Object {
            device: Arc::clone(device),
            handle,
            closed: AtomicBool::new(false),
        }
    }

    /// The number of the object.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Whether it has been ended, by this value.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The handle, as long as it is this object's: the kernel may give the number again later.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(crate) fn open_handle(&self) -> Result<u32> {
        match self.is_closed() {
            false => Ok(self.handle),
            true => Err(Error::NotFound),
        }
    }

    /// Ends the object, whatever it is used for. Also done when it is dropped.
    ///
    /// # Errors
    /// [`Error::NotFound`] if that was done before.
    pub fn close(&self) -> Result<()> {
        self.end(|device, handle| {
            let mut close = mp_handle {
                handle,
                ..Default::default()
            };
            device.call(Call::Close(&mut close))
        })
    }

    /// Ends a segment or an offer, unless it is used.
    ///
    /// # Errors
    /// [`Error::System`] with `EBUSY` if it is used, unless by force. An offer takes no new
    /// connections from then on. [`Error::NotFound`], [`Error::Invalid`].
    pub fn remove(&self, force: bool) -> Result<()> {
        self.end(|device, handle| {
            let mut remove = mp_remove {
                handle,
                flags: if force { sys::MP_REMOVE_FORCE } else { 0 },
                ..Default::default()
            };
            device.call(Call::Remove(&mut remove))
        })
    }

    /// The physical address of so many bytes of the segment that it is or leads to.
    pub(crate) fn address(&self, start: u64, len: u64) -> Result<u64> {
        let mut range = mp_address {
            handle: self.open_handle()?,
            offset: start,
            length: len,
            ..Default::default()
        };
        self.device.call(Call::Address(&mut range))?;
        Ok(range.address)
    }

    fn end(&self, end: impl FnOnce(&D, u32) -> std::result::Result<(), Errno>) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Err(Error::NotFound);
        }
        let ended = end(&self.device, self.handle);
        if ended == Err(Errno::BUSY) {
            self.closed.store(false, Ordering::Release);
        }
        Ok(ended?)
    }

    /// Waits for an event of the mask, and takes what can be taken.
    ///
    /// # Errors
    /// [`Error::NotFound`], also if it is closed meanwhile; [`Error::TimedOut`].
    pub fn wait(&self, mask: EventMask, deadline: Deadline) -> Result<EventMask> {
        let target = Target::Object(self.open_handle()?);
        wait::wait(&*self.device, target, mask, 0, deadline)
    }

    /// Signals an eventfd whenever an event of the mask comes, and at once if one is there;
    /// without an eventfd no longer.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::System`] with `EBADF`: not an eventfd.
    pub fn notify(&self, mask: EventMask, eventfd: Option<BorrowedFd<'_>>) -> Result<()> {
        let target = Target::Object(self.open_handle()?);
        wait::notify(&*self.device, target, mask, eventfd)
    }

    /// Reports events of the mask to [`Events`](crate::Events) by a cookie; with an empty mask no
    /// longer.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn watch(&self, mask: EventMask, cookie: u64) -> Result<()> {
        let target = Target::Object(self.open_handle()?);
        wait::watch(&*self.device, target, mask, cookie)
    }

    /// Takes what has happened next to a segment or connection, and to whom of its peers.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::NotFound`], also if it is closed meanwhile.
    pub fn notice(&self, deadline: Deadline) -> Result<(Notice, Peer)> {
        let mut notice = mp_notice {
            handle: self.open_handle()?,
            deadline: deadline.nanoseconds(),
            ..Default::default()
        };
        retry_on_intr(|| self.device.call(Call::Notice(&mut notice)))?;
        let peer = Peer {
            interface: InterfaceId(notice.interface),
            id: notice.peer,
        };
        let notice = match notice.notice {
            sys::MP_NOTICE_CONNECTED => Notice::Connected,
            sys::MP_NOTICE_DISCONNECTED => Notice::Disconnected,
            sys::MP_NOTICE_DOWN => Notice::Down,
            sys::MP_NOTICE_UP => Notice::Up,
            sys::MP_NOTICE_FATAL => Notice::Fatal,
            // What a newer kernel tells of a connection that is beyond this library.
            _ => Notice::Lost,
        };
        Ok((notice, peer))
    }
}

impl<D: Device> Drop for Object<D> {
    fn drop(&mut self) {
        // What was closed before needs nothing; the rest ends with the context at the latest.
        let _ = self.close();
    }
}

/// An event or a port, to which peers at one interface may connect by its number.
#[derive(Debug)]
pub struct Offer<D: Device> {
    object: Object<D>,
    number: u32,
}

impl<D: Device> std::ops::Deref for Offer<D> {
    type Target = Object<D>;

    fn deref(&self) -> &Object<D> {
        &self.object
    }
}

impl<D: Device> Fabric<D> {
    /// Offers an event that peers can trigger. With a number, or any that is free; shared with
    /// all who say so, or not; counted, or merged as long as nobody takes it.
    ///
    /// # Errors
    /// In this order: [`Error::NoInterface`]; [`Error::UidTaken`]: the number is used,
    /// [`Error::Quota`], [`Error::NoMemory`].
    pub fn offer_event(
        &self,
        interface: InterfaceId,
        number: Option<u32>,
        shared: bool,
        counted: bool,
    ) -> Result<Offer<D>> {
        let counted = if counted { sys::MP_OFFER_COUNTED } else { 0 };
        self.offer(sys::MP_OBJECT_EVENT, interface, number, shared, counted)
    }

    /// Offers a port that peers can send messages to.
    ///
    /// # Errors
    /// As [`offer_event()`](Self::offer_event).
    pub fn offer_port(
        &self,
        interface: InterfaceId,
        number: Option<u32>,
        shared: bool,
    ) -> Result<Offer<D>> {
        self.offer(sys::MP_OBJECT_PORT, interface, number, shared, 0)
    }

    fn offer(
        &self,
        object: u32,
        interface: InterfaceId,
        number: Option<u32>,
        shared: bool,
        flags: u32,
    ) -> Result<Offer<D>> {
        let shared = if shared { sys::MP_OFFER_SHARED } else { 0 };
        let any = if number.is_none() {
            sys::MP_OFFER_ANY
        } else {
            0
        };
        let mut offer = mp_offer {
            flags: flags | shared | any,
            interface: interface.0,
            object,
            number: number.unwrap_or(0),
            ..Default::default()
        };
        self.device.call(Call::Offer(&mut offer))?;
        Ok(Offer {
            object: Object::new(&self.device, offer.handle),
            number: offer.number,
        })
    }
}

impl<D: Device> Offer<D> {
    /// The number by which peers connect.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Takes the next message of a port.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::NotFound`]; [`Error::Invalid`]: not a port. A message that
    /// is longer than the room stays: `Ok(Err(length))`.
    pub fn receive(
        &self,
        room: &mut [u8],
        deadline: Deadline,
    ) -> Result<std::result::Result<Received, usize>> {
        let mut message = mp_message {
            handle: self.object.open_handle()?,
            deadline: deadline.nanoseconds(),
            ..Default::default()
        };
        let device = &self.object.device;
        let received = retry_on_intr(|| device.call(Call::Receive(&mut message, room)));
        let len = message.length as usize;
        match received {
            Ok(()) => Ok(Ok(Received {
                len: len.min(room.len()),
                peer: message.peer,
            })),
            Err(Errno::MSGSIZE) => Ok(Err(len)),
            Err(errno) => Err(errno.into()),
        }
    }
}
