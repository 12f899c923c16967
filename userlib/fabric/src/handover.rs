// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is handed to another process on purpose, by file descriptors: the use of a segment or of a
//! connection, and dma-bufs of segments, for processes and for drivers of devices.

use crate::{
    sys::{self, mp_export, mp_import, mp_segment_dmabuf},
    Call, CharDevice, Connection, Deadline, Device, Errno, Error, Fabric, Object, Result, Rights,
    Segment, Subject,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a kernel has answered, of which a descriptor was to come.
fn descriptor(fd: Option<OwnedFd>) -> Result<OwnedFd> {
    fd.ok_or(Error::NotSupported(Subject::Unnamed))
}

/// What a call has failed with that is for rights which its process may not have.
fn of_rights(errno: Errno) -> Error {
    match errno {
        Errno::ACCESS => Error::System(errno),
        other => other.into(),
    }
}

/// A descriptor by which another process gets the use of a segment or a connection:
/// [`Fabric::import()`]. It is sent as any, by `SCM_RIGHTS` or a fork, and exec closes it. What was
/// sent is not taken back.
///
/// One of a segment keeps its memory until the last copy of the descriptor is closed; one of a
/// connection keeps nothing.
#[derive(Debug)]
pub struct Handover(OwnedFd);

impl AsFd for Handover {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Handover> for OwnedFd {
    fn from(handover: Handover) -> OwnedFd {
        handover.0
    }
}

/// A dma-buf of a segment. Drivers of devices import it by its descriptor, and processes map it; it
/// keeps the segment's memory until nobody has it any more.
#[derive(Debug)]
pub struct DmaBuf(OwnedFd);

impl AsFd for DmaBuf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<DmaBuf> for OwnedFd {
    fn from(buffer: DmaBuf) -> OwnedFd {
        buffer.0
    }
}

/// What a process was handed, and what it may do with it.
#[derive(Debug)]
pub enum Imported<D: Device = CharDevice> {
    /// The memory of a segment, and no more: what peers may do with it is said by its owner, and
    /// calls for that fail with `EACCES`. Without [`Rights::WRITE`] it is mapped as
    /// [`ReadOnly`](crate::ReadOnly).
    Segment(Segment<D>, Rights),
    /// A connection of its own to what the other one's leads to.
    Connection(Connection<D>, Rights),
}

impl<D: Device> Object<D> {
    fn export(&self, rights: Rights) -> Result<Handover> {
        let mut export = mp_export {
            handle: self.open_handle()?,
            rights: rights.bits(),
            ..Default::default()
        };
        let mut fd = None;
        let called = self.device.call(Call::Export(&mut export, &mut fd));
        called.map_err(of_rights)?;
        descriptor(fd).map(Handover)
    }
}

impl<D: Device> Segment<D> {
    /// A descriptor by which another process gets the use of its memory, with those rights.
    /// [`Rights::READ`] is among them.
    ///
    /// # Errors
    /// In this order: [`Error::Invalid`]: no rights, others, or not that to read.
    /// [`Error::NotFound`]. [`Error::System`] with `EACCES`: this process has not these rights itself.
    /// [`Error::Quota`]. [`Error::System`] with `EMFILE`, `ENFILE`. [`Error::NoMemory`].
    pub fn export(&self, rights: Rights) -> Result<Handover> {
        Object::export(self, rights)
    }

    /// A dma-buf of its memory, in whole pages. Without [`Rights::WRITE`], devices and processes
    /// only read it; [`Rights::READ`] is among the rights.
    ///
    /// # Errors
    /// In this order: [`Error::Invalid`]: as of [`export()`](Self::export). [`Error::NotFound`].
    /// [`Error::System`] with `EACCES`: as there. [`Error::NoWindow`]: it has no memory. [`Error::NotSupported`]: its
    /// memory may go before the dma-buf does, or the kernel has no dma-bufs. [`Error::Quota`].
    /// [`Error::System`] with `EMFILE`, `ENFILE`. [`Error::NoMemory`].
    pub fn dma_buf(&self, rights: Rights) -> Result<DmaBuf> {
        let mut export = mp_segment_dmabuf {
            handle: self.open_handle()?,
            rights: rights.bits(),
            ..Default::default()
        };
        let mut fd = None;
        let called = self.device.call(Call::SegmentDmaBuf(&mut export, &mut fd));
        called.map_err(of_rights)?;
        descriptor(fd).map(DmaBuf)
    }
}

impl<D: Device> Connection<D> {
    /// A descriptor by which another process makes a connection to the same, with those rights.
    ///
    /// # Errors
    /// In this order: [`Error::Invalid`]: no rights or others, or of an event or port not that to
    /// write. [`Error::NotFound`]. [`Error::System`] with `EACCES`: this process has not these rights
    /// itself. [`Error::PartnerGone`]: it is lost, or the session that it was granted to is closed;
    /// of that session also [`Error::InterfaceDown`] and [`Error::NotPaired`]. [`Error::Quota`].
    /// [`Error::System`] with `EMFILE`, `ENFILE`. [`Error::NoMemory`].
    pub fn export(&self, rights: Rights) -> Result<Handover> {
        Object::export(self, rights)
    }
}

impl<D: Device> Fabric<D> {
    /// Take what a descriptor of [`Segment::export()`] or [`Connection::export()`] leads to, any
    /// number of times. A connection is made anew until the deadline.
    ///
    /// # Errors
    /// [`Error::System`] with `EBADF`. [`Error::Invalid`]: it is another kind of descriptor.
    /// [`Error::Quota`]. Of a connection those of [`connect()`](Fabric::connect).
    pub fn import(&self, handover: impl AsFd, deadline: Deadline) -> Result<Imported<D>> {
        let mut import = mp_import {
            deadline: deadline.nanoseconds(),
            ..Default::default()
        };
        let call = Call::Import(&mut import, handover.as_fd());
        self.device.call(call)?;
        let object = Object::new(&self.device, import.handle);
        let rights = Rights::from_bits_retain(import.rights);
        match import.object {
            sys::MP_OBJECT_SEGMENT => Ok(Imported::Segment(Segment::of(object)?, rights)),
            _ => Ok(Imported::Connection(Connection::of(object), rights)),
        }
    }
}
