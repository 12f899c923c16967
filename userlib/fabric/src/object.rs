// SPDX-License-Identifier: MIT OR Apache-2.0

//! What sessions, segments, connections, queues and offers have in common: a handle that ends
//! with its value, and the ways of waiting.

use crate::{
    sys::{self, mp_address, mp_handle, mp_message, mp_notice, mp_offer, mp_remove},
    wait, Call, CharDevice, Deadline, Device, Error, EventMask, Fabric, InterfaceId, Key, Name,
    Result, Subject, Target,
};
use rustix::{
    fd::BorrowedFd,
    io::{retry_on_intr, Errno},
};
use std::{
    fmt,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
};

/// What every object of the kernel's is: a handle, which is closed when it is dropped. The types of
/// objects dereference to it.
pub struct Object<D: Device = CharDevice> {
    pub(crate) device: Arc<D>,
    handle: u32,
    closed: AtomicBool,
}

/// How a segment or an offer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Only if nobody is connected. An offer takes no new connections from then on.
    Unused,
    /// In any case: connections are lost.
    Force,
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

/// Close an object by a call that is made again when a signal has ended it: then it has closed
/// the object, or done nothing.
fn close_to_the_end(
    mut close: impl FnMut() -> std::result::Result<(), Errno>,
) -> std::result::Result<(), Errno> {
    let mut was_ended = false;
    let closed = retry_on_intr(|| close().inspect_err(|errno| was_ended |= *errno == Errno::INTR));
    match closed {
        Err(Errno::NOENT) if was_ended => Ok(()),
        closed => closed,
    }
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
            true => Err(Error::NotFound(Subject::Unnamed)),
        }
    }

    /// End the object, whatever it is used for. Also done when it is dropped.
    ///
    /// # Errors
    /// [`Error::NotFound`] if that was done before.
    pub fn close(&self) -> Result<()> {
        self.end(|device, handle| {
            close_to_the_end(|| {
                let mut close = mp_handle {
                    handle,
                    ..Default::default()
                };
                device.call(Call::Close(&mut close))
            })
        })
    }

    /// End a segment or an offer, unless it is used and that is not by force.
    pub(crate) fn remove(&self, removal: Removal) -> Result<()> {
        self.end(|device, handle| {
            let mut remove = mp_remove {
                handle,
                flags: match removal {
                    Removal::Unused => 0,
                    Removal::Force => sys::MP_REMOVE_FORCE,
                },
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
            return Err(Error::NotFound(Subject::Unnamed));
        }
        let ended = end(&self.device, self.handle);
        if ended == Err(Errno::BUSY) {
            self.closed.store(false, Ordering::Release);
        }
        Ok(ended?)
    }

    /// Wait for an event of the mask; give those that are there, and take what can be taken.
    ///
    /// # Errors
    /// [`Error::NotFound`], also if it is closed meanwhile; [`Error::TimedOut`].
    /// [`Error::NotPaired`]: a session without a partner, and the mask has none of `PAIRED`,
    /// `REQUEST` and `REFUSED`.
    pub fn wait(&self, mask: EventMask, deadline: Deadline) -> Result<EventMask> {
        self.wait_by(0, mask, deadline)
    }

    pub(crate) fn wait_by(
        &self,
        flags: u32,
        mask: EventMask,
        deadline: Deadline,
    ) -> Result<EventMask> {
        let target = Target::Object(self.open_handle()?);
        wait::wait(&*self.device, target, mask, flags, deadline)
    }

    /// Signal an eventfd whenever an event of the mask comes, and at once if one is there;
    /// without an eventfd no longer.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::System`] with `EBADF`: not an eventfd.
    pub fn notify(&self, mask: EventMask, eventfd: Option<BorrowedFd<'_>>) -> Result<()> {
        let target = Target::Object(self.open_handle()?);
        wait::notify(&*self.device, target, mask, eventfd)
    }

    /// Report events of the mask to [`Events`](crate::Events) by a cookie; with an empty mask no
    /// longer.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn watch(&self, mask: EventMask, cookie: u64) -> Result<()> {
        let target = Target::Object(self.open_handle()?);
        wait::watch(&*self.device, target, mask, cookie)
    }

    /// Take what has happened next to a segment or connection, and to whom of its peers.
    pub(crate) fn notice(&self, deadline: Deadline) -> Result<(Notice, Peer)> {
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

impl<D: Device> fmt::Debug for Object<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("handle", &self.handle)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl<D: Device> Drop for Object<D> {
    fn drop(&mut self) {
        // What was closed before needs nothing; the rest ends with the context at the latest.
        let _ = self.close();
    }
}

/// The number of an offer, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Any that is free.
    Any,
    /// Any that is free; others may share it.
    AnyShared,
    /// This one, for nobody else.
    Own(u32),
    /// This one, with all who share it.
    Shared(u32),
    /// Any that is free, under this name, for nobody else.
    Named(Name),
    /// The one that has this name, with all who share it; any that is free if none has.
    NamedShared(Name),
}

impl Number {
    /// What it asks for: nothing if any will do.
    fn key(self) -> Option<Key> {
        match self {
            Number::Any | Number::AnyShared => None,
            Number::Own(number) | Number::Shared(number) => Some(number.into()),
            Number::Named(name) | Number::NamedShared(name) => Some(name.into()),
        }
    }

    fn flags(self) -> u32 {
        match self {
            Number::Any | Number::Named(_) => sys::MP_OFFER_ANY,
            Number::AnyShared | Number::NamedShared(_) => sys::MP_OFFER_ANY | sys::MP_OFFER_SHARED,
            Number::Own(_) => 0,
            Number::Shared(_) => sys::MP_OFFER_SHARED,
        }
    }
}

/// What becomes of triggers that nobody has taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triggers {
    /// They are one.
    Merged,
    /// Each counts.
    Counted,
}

/// An event or a port, to which peers at one interface may connect by its number, or its name.
#[derive(Debug)]
pub struct Offer<D: Device = CharDevice> {
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
    /// Offer an event that peers can trigger.
    ///
    /// # Errors
    /// In this order: [`Error::NoInterface`]; [`Error::UidTaken`]: the number or the name is used,
    /// [`Error::Quota`], [`Error::NoMemory`].
    pub fn offer_event(
        &self,
        interface: InterfaceId,
        number: Number,
        triggers: Triggers,
    ) -> Result<Offer<D>> {
        let flags = match triggers {
            Triggers::Merged => 0,
            Triggers::Counted => sys::MP_OFFER_COUNTED,
        };
        self.offer(
            sys::MP_OBJECT_EVENT,
            Subject::Event,
            interface,
            number,
            flags,
        )
    }

    /// Offer a port that peers can send messages to.
    ///
    /// # Errors
    /// As [`offer_event()`](Self::offer_event).
    pub fn offer_port(&self, interface: InterfaceId, number: Number) -> Result<Offer<D>> {
        self.offer(sys::MP_OBJECT_PORT, Subject::Port, interface, number, 0)
    }

    fn offer(
        &self,
        object: u32,
        subject: fn(InterfaceId, Option<Key>) -> Subject,
        interface: InterfaceId,
        number: Number,
        flags: u32,
    ) -> Result<Offer<D>> {
        let key = number.key();
        let (wanted, name) = key.as_ref().map_or((0, &[][..]), Key::parts);
        let mut offer = mp_offer {
            flags: flags | number.flags(),
            interface: interface.0,
            object,
            number: wanted,
            ..Default::default()
        };
        let called = self.device.call(Call::Offer(&mut offer, name));
        called.map_err(Error::of(subject(interface, key)))?;
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

    /// End it.
    ///
    /// # Errors
    /// [`Error::System`] with `EBUSY`: it is used, and that is not by force. [`Error::NotFound`].
    pub fn remove(&self, removal: Removal) -> Result<()> {
        self.object.remove(removal)
    }

    /// Take the next message of a port.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::NotFound`]; [`Error::Invalid`]: not a port.
    /// [`Error::TooLong`]: the message is longer than the room, and stays.
    pub fn receive(&self, room: &mut [u8], deadline: Deadline) -> Result<Received> {
        let mut message = mp_message {
            handle: self.object.open_handle()?,
            deadline: deadline.nanoseconds(),
            ..Default::default()
        };
        let device = &self.object.device;
        let received = retry_on_intr(|| device.call(Call::Receive(&mut message, room)));
        let len = message.length as usize;
        match received {
            Ok(()) => Ok(Received {
                len: len.min(room.len()),
                peer: message.peer,
            }),
            Err(Errno::MSGSIZE) => Err(Error::TooLong { len }),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_signal_has_ended_is_closed_to_the_end() {
        for (answers, outcome) in [
            (vec![Ok(())], Ok(())),
            (vec![Err(Errno::NOENT)], Err(Errno::NOENT)),
            (vec![Err(Errno::INTR), Err(Errno::INTR), Ok(())], Ok(())),
            (vec![Err(Errno::INTR), Err(Errno::NOENT)], Ok(())),
            (
                vec![Err(Errno::INTR), Err(Errno::INPROGRESS)],
                Err(Errno::INPROGRESS),
            ),
        ] {
            let mut answers = answers.into_iter();
            assert_eq!(close_to_the_end(|| answers.next().unwrap()), outcome);
            assert_eq!(answers.next(), None);
        }
    }
}
