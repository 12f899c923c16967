// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections: uses of what a peer has published or offered.

use crate::{
    sys::{self, mp_barrier, mp_connect, mp_connection, mp_exchange, mp_handle, mp_message},
    Call, CharDevice, Deadline, Device, Error, Fabric, InterfaceId, Key, Map, Notice, Object,
    Protection, Result, Rights, Subject,
};
use rustix::io::{retry_on_intr, Errno};
use std::fmt;

bitflags::bitflags! {
    /// What a connection is good for at this moment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct ConnectionState: u32 {
        /// What is written arrives.
        const OPERATIONAL = sys::MP_CONNECTION_OPERATIONAL;
        /// The owner would like it to end.
        const WITHDRAWN = sys::MP_CONNECTION_WITHDRAWN;
        /// It has ended for good.
        const LOST = sys::MP_CONNECTION_LOST;
        /// No window leads to the segment: it cannot be mapped, and queues copy.
        const PLACED = sys::MP_CONNECTION_PLACED;
        // A newer kernel may know more.
        const _ = !0;
    }
}

/// What a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A segment.
    Segment(Key),
    /// A segment to which no window has to lead: queues copy into it and out of it. The kernel of
    /// its host does that; see `MP_FEATURE_PLACED`.
    PlacedSegment(Key),
    /// An event.
    Event(Key),
    /// An event that counts.
    CountedEvent(Key),
    /// A port.
    Port(Key),
    /// A segment that was granted to this process.
    Granted {
        /// Handle of the grant, at its host.
        grant: u32,
        /// Handle of this process's session with the one that has granted it.
        session: u32,
    },
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Segment(key) | Goal::PlacedSegment(key) => write!(f, "segment {key}"),
            Goal::Event(key) => write!(f, "event {key}"),
            Goal::CountedEvent(key) => write!(f, "counted event {key}"),
            Goal::Port(key) => write!(f, "port {key}"),
            Goal::Granted { grant, session } => {
                write!(f, "segment of grant {grant:#x} for session {session:#x}")
            }
        }
    }
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The interface that leads to the peer.
    pub interface: InterfaceId,
    /// What it is good for.
    pub state: ConnectionState,
    /// Bytes from the start of [`Status`](crate::Status) to its own word.
    pub status: u32,
    /// Bytes of the segment; else 0.
    pub len: u64,
    /// What this process may do with it; without [`Rights::WRITE`] it is not mapped.
    pub rights: Rights,
    offset: u64,
}

/// A use of something of a peer, or of this host itself.
#[derive(Debug)]
pub struct Connection<D: Device = CharDevice> {
    object: Object<D>,
}

impl<D: Device> std::ops::Deref for Connection<D> {
    type Target = Object<D>;

    fn deref(&self) -> &Object<D> {
        &self.object
    }
}

impl<D: Device> Connection<D> {
    /// The connection that an object is.
    pub(crate) fn of(object: Object<D>) -> Self {
        Connection { object }
    }
}

impl<D: Device> Fabric<D> {
    /// Connect to something that is there already.
    ///
    /// # Errors
    /// In this order: [`Error::NoInterface`], [`Error::Quota`], [`Error::InterfaceDown`],
    /// [`Error::NotFound`]: there is no such thing, or it is not published. [`Error::NoPartner`]:
    /// it takes no more connections, or does not count, or was granted to somebody else; of what
    /// was granted also [`Error::NotPaired`], [`Error::PartnerGone`], and
    /// [`Error::NotSupported`]: the other host is too old. [`Error::NoSpace`]: this host does not
    /// reach the memory. [`Error::TimedOut`]: the peer has not answered.
    /// [`Error::NotSupported`], in the place of [`Error::NotFound`]: the peer's kernel is of a
    /// release without placed segments, or without names.
    pub fn connect(
        &self,
        interface: InterfaceId,
        goal: Goal,
        deadline: Deadline,
    ) -> Result<Connection<D>> {
        let (object, key, flags) = match goal {
            Goal::Segment(key) => (sys::MP_OBJECT_SEGMENT, key, 0),
            Goal::PlacedSegment(key) => (sys::MP_OBJECT_SEGMENT, key, sys::MP_CONNECT_PLACED),
            Goal::Event(key) => (sys::MP_OBJECT_EVENT, key, 0),
            Goal::CountedEvent(key) => (sys::MP_OBJECT_EVENT, key, sys::MP_CONNECT_COUNTED),
            Goal::Port(key) => (sys::MP_OBJECT_PORT, key, 0),
            Goal::Granted { grant, .. } => {
                let grant = Key::Number(grant);
                (sys::MP_OBJECT_SEGMENT, grant, sys::MP_CONNECT_GRANTED)
            }
        };
        let (number, name) = key.parts();
        let session = match goal {
            Goal::Granted { session, .. } => session,
            _ => 0,
        };
        let mut connect = mp_connect {
            flags,
            interface: interface.0,
            object,
            number,
            deadline: deadline.nanoseconds(),
            session,
            ..Default::default()
        };
        let called = self.device.call(Call::Connect(&mut connect, name));
        called.map_err(Error::of(Subject::Goal(interface, goal)))?;
        Ok(Connection {
            object: Object::new(&self.device, connect.handle),
        })
    }

    /// Return once the peer at an interface has answered.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::InterfaceDown`], [`Error::TimedOut`].
    pub fn probe(&self, interface: InterfaceId, deadline: Deadline) -> Result<()> {
        let answered = barrier(&*self.device, interface.0, sys::MP_WAIT_INTERFACE, deadline);
        answered.map_err(Error::of(Subject::Interface(interface)))
    }
}

impl<D: Device> Connection<D> {
    /// What is known of it.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn info(&self) -> Result<ConnectionInfo> {
        let mut connection = mp_connection {
            handle: self.object.open_handle()?,
            ..Default::default()
        };
        self.object.device.call(Call::Connection(&mut connection))?;
        Ok(ConnectionInfo {
            interface: InterfaceId(connection.interface),
            state: ConnectionState::from_bits_retain(connection.state),
            status: connection.status,
            len: connection.length,
            rights: Rights::from_bits_retain(connection.rights),
            offset: connection.offset,
        })
    }

    /// Take what has happened next to it.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::NotFound`], also if it is closed meanwhile.
    pub fn notice(&self, deadline: Deadline) -> Result<Notice> {
        Ok(self.object.notice(deadline)?.0)
    }

    /// Map whole pages of the segment; the address `hint` is tried first, unless it is 0.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`]: beyond its end, and those of `mmap()`: also that
    /// it is placed.
    pub fn map<P: Protection>(&self, start: u64, len: u64, hint: usize) -> Result<Map<P>> {
        let offset = self.info()?.offset;
        let offset = offset
            .checked_add(start)
            .ok_or(Error::Invalid(Subject::Unnamed))?;
        Ok(self.object.device.map(offset, len, hint)?)
    }

    /// The physical address, in a window of this host, of `len` bytes of the segment, which begin
    /// at `start` and are in one run.
    ///
    /// # Errors
    /// As [`Segment::address()`](crate::Segment::address), [`Error::PartnerGone`]: the connection
    /// is lost. [`Error::InterfaceDown`].
    pub fn address(&self, start: u64, len: u64) -> Result<u64> {
        self.object.address(start, len)
    }

    /// Return when all that this process has written to segments at the interface is in the
    /// peer's memory.
    ///
    /// # Errors
    /// [`Error::PartnerGone`]: the connection is lost. [`Error::InterfaceDown`],
    /// [`Error::TimedOut`].
    pub fn barrier(&self, deadline: Deadline) -> Result<()> {
        let handle = self.object.open_handle()?;
        Ok(barrier(&*self.object.device, handle, 0, deadline)?)
    }

    /// Compare the word at `offset` in the segment with `expected` and make it `desired` if it is equal,
    /// in one step; whether it was. The kernel of the segment's host does that, whatever its process
    /// does.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it leads to no segment, or there is no word. [`Error::PartnerGone`]: the
    /// connection is lost. [`Error::InterfaceDown`]. [`Error::NotSupported`]: a kernel is of a
    /// release without such exchanges. [`Error::Permission`]: this process may not read it and
    /// write it. [`Error::TimedOut`]. [`Error::System`] with `EIO`: the word is none in the memory
    /// of its process, with `ENOTTY`: this kernel knows no such call. It is not known whether it was done if the
    /// connection or the link was lost meanwhile, or with [`Error::TimedOut`].
    pub fn exchange(
        &self,
        offset: u64,
        expected: u64,
        desired: u64,
        deadline: Deadline,
    ) -> Result<bool> {
        let mut exchange = mp_exchange {
            connection: self.object.open_handle()?,
            offset,
            expected,
            desired,
            deadline: deadline.nanoseconds(),
            ..Default::default()
        };
        self.object.device.call(Call::Exchange(&mut exchange))?;
        Ok(exchange.exchanged != 0)
    }

    /// Trigger the event, once all that this process has written before is in the memory of its
    /// host.
    ///
    /// # Errors
    /// [`Error::PartnerGone`]: the connection is lost. [`Error::InterfaceDown`].
    /// [`Error::Invalid`]: it does not lead to an event.
    pub fn trigger(&self) -> Result<()> {
        let mut handle = mp_handle {
            handle: self.object.open_handle()?,
            ..Default::default()
        };
        Ok(self.object.device.call(Call::Signal(&mut handle))?)
    }

    /// Send a message to the port.
    ///
    /// # Errors
    /// [`Error::PartnerGone`], [`Error::InterfaceDown`], [`Error::Invalid`]: it does not lead to
    /// a port. [`Error::TimedOut`]: there is no room for it. [`Error::System`] with `EMSGSIZE`.
    pub fn send(&self, data: &[u8], deadline: Deadline) -> Result<()> {
        let mut message = mp_message {
            handle: self.object.open_handle()?,
            deadline: deadline.nanoseconds(),
            ..Default::default()
        };
        let device = &self.object.device;
        Ok(retry_on_intr(|| {
            device.call(Call::Send(&mut message, data))
        })?)
    }
}

fn barrier(
    device: &impl Device,
    target: u32,
    flags: u32,
    deadline: Deadline,
) -> std::result::Result<(), Errno> {
    let mut barrier = mp_barrier {
        flags,
        target,
        deadline: deadline.nanoseconds(),
        ..Default::default()
    };
    retry_on_intr(|| device.call(Call::Barrier(&mut barrier)))
}
