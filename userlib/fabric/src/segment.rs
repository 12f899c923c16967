// SPDX-License-Identifier: MIT OR Apache-2.0

//! Segments: memory of this host with an id that any number of processes may connect to.

use crate::{
    sys::{
        self, mp_handle, mp_segment, mp_segment_attach, mp_segment_create, mp_segment_interface,
        mp_segment_register,
    },
    BarRange, Call, CharDevice, Deadline, Device, Error, Fabric, InterfaceId, Limit, Map, Name,
    Notice, Object, PciFunction, Peer, PhysicalRange, ProcessMemory, Protection, Removal, Result,
    Subject, Vouched,
};
use rustix::{
    fd::{AsRawFd, BorrowedFd},
    io::Errno,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// What peers at an interface may do with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Nothing.
    Unprepared,
    /// Nothing new; it can be published.
    Prepared,
    /// Connect to it.
    Published,
}

/// What becomes of those who are connected to a segment that is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// They stay.
    Quiet,
    /// They are asked to leave.
    Notify,
    /// Their connections are lost.
    Force,
}

/// What is known of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its state at the interface that was asked for; unprepared without one.
    pub state: SegmentState,
    /// Its id; of no meaning if it is private.
    pub id: u32,
    /// Whether it has no id.
    pub private: bool,
    /// Whether other processes may attach to it.
    pub shared: bool,
    /// Connections of all peers, this host's included.
    pub connections: u32,
    /// Connections that have ended, of which it is not proven that nothing is stored by them any
    /// more.
    pub ending: u32,
    /// Its bytes.
    pub len: u64,
    offset: u64,
}

/// Memory of this host.
#[derive(Debug)]
pub struct Segment<D: Device = CharDevice> {
    object: Object<D>,
    id: u32,
    len: AtomicU64,
}

/// Memory that a segment is filled with. Where that begins or ends inside of a page of this
/// process, or is only read, it is not published and not mapped; the kernel copies from it.
#[derive(Clone, Copy, Debug)]
pub enum Filling<'a> {
    /// Memory of this process.
    Own(ProcessMemory<'a>),
    /// Memory of this process that is only read, and need not be writable.
    ReadOnly(ProcessMemory<'a>),
    /// Physical memory of a device, of whole pages.
    Physical(PhysicalRange),
    /// The same, named by a function that nothing drives, and one of its BARs.
    Bar(BarRange),
    /// Whole pages of memory that a driver has exported: of that dma-buf, which may be written, as many
    /// bytes from an offset. It is not mapped, nor copied by the kernel.
    DmaBuf {
        /// Its descriptor, which need not stay open.
        fd: BorrowedFd<'a>,
        /// Where the first byte is.
        offset: u64,
        /// How many bytes there are.
        len: u64,
    },
}

/// Name the BAR of what a segment is filled with.
fn name_bar(fill: &mut mp_segment_register, range: BarRange) {
    let PciFunction {
        domain,
        bus,
        device,
        function,
    } = range.function();
    fill.pci_domain = domain as u16;
    fill.pci_domain_high = (domain >> 16) as u16;
    fill.pci_bus = bus;
    fill.pci_devfn = device << 3 | function & 7;
    fill.pci_bar = range.bar().into();
}

impl<D: Device> std::ops::Deref for Segment<D> {
    type Target = Object<D>;

    fn deref(&self) -> &Object<D> {
        &self.object
    }
}

impl<D: Device> Fabric<D> {
    /// Make memory of this host, all zero. Its id is the first free one of `id` and so many after
    /// it; without any it is private, and no peer has a window to it: it is granted for copies, or
    /// made by [`create_segment_for()`](Self::create_segment_for).
    ///
    /// # Errors
    /// In this order: [`Error::Invalid`]: no bytes. Of a private one [`Error::NoInterface`],
    /// [`Error::InterfaceDown`]: the interface to this host itself is not there, or down.
    /// [`Error::UidTaken`]: no such id is free. [`Error::Quota`], [`Error::NoSpace`],
    /// [`Error::NoMemory`].
    pub fn create_segment(&self, id: Option<(u32, u32)>, len: u64) -> Result<Segment<D>> {
        self.new_segment(id, None, len, (0, 0))
    }

    /// Make memory of this host that has a name as well, by which peers find it.
    ///
    /// # Errors
    /// As [`create_segment()`](Self::create_segment); [`Error::UidTaken`]: or a segment of this
    /// host has that name.
    pub fn create_named_segment(
        &self,
        name: &Name,
        id: (u32, u32),
        len: u64,
    ) -> Result<Segment<D>> {
        self.new_segment(Some(id), Some(name), len, (0, 0))
    }

    /// Make a segment without memory, which can be filled with as many bytes at most.
    ///
    /// # Errors
    /// As [`create_segment()`](Self::create_segment).
    pub fn create_empty_segment(&self, id: Option<(u32, u32)>, len: u64) -> Result<Segment<D>> {
        self.new_segment(id, None, len, (sys::MP_SEGMENT_EMPTY, 0))
    }

    /// Make memory of this host that a window of the peer at an interface alone leads to; with the
    /// interface to this host itself, none does. Others are let reach it by copies only
    /// ([`publish_placed()`](Segment::publish_placed)). It goes with the interface.
    ///
    /// # Errors
    /// As [`create_segment()`](Self::create_segment); [`Error::NoInterface`], [`Error::InterfaceDown`].
    pub fn create_segment_for(
        &self,
        interface: InterfaceId,
        id: Option<(u32, u32)>,
        len: u64,
    ) -> Result<Segment<D>> {
        self.new_segment(id, None, len, (sys::MP_SEGMENT_ONE_PEER, interface.0))
    }

    fn new_segment(
        &self,
        id: Option<(u32, u32)>,
        name: Option<&Name>,
        len: u64,
        (flags, interface): (u32, u32),
    ) -> Result<Segment<D>> {
        let (first, more) = id.unwrap_or((0, 0));
        let private = match id {
            None => sys::MP_SEGMENT_PRIVATE,
            Some(_) => 0,
        };
        let mut create = mp_segment_create {
            flags: flags | private,
            id: first,
            id_more: more,
            length: len,
            interface,
            ..Default::default()
        };
        let subject = Subject::NewSegment {
            id: id.map(|_| first),
            name: name.copied(),
            len,
        };
        let name = name.map_or(&[][..], Name::bytes);
        let called = self.device.call(Call::SegmentCreate(&mut create, name));
        called.map_err(Error::of(subject))?;
        Ok(Segment {
            object: Object::new(&self.device, create.handle),
            id: create.id,
            len: len.into(),
        })
    }

    /// One more handle of a segment that is shared.
    ///
    /// # Errors
    /// [`Error::NotFound`]: no such id. [`Error::NotPermitted`]: it is not shared, or another
    /// user's. [`Error::Quota`], [`Error::NoMemory`].
    pub fn attach_segment(&self, id: u32) -> Result<Segment<D>> {
        let mut attach = mp_segment_attach {
            id,
            ..Default::default()
        };
        let called = self.device.call(Call::SegmentAttach(&mut attach));
        called.map_err(Error::of(Subject::Segment(id)))?;
        Ok(Segment {
            object: Object::new(&self.device, attach.handle),
            id,
            len: attach.length.into(),
        })
    }
}

impl<D: Device> Segment<D> {
    /// The segment that an object is, of which nothing is known yet.
    ///
    /// # Errors
    /// [`Error::NotFound`]: it was closed meanwhile.
    pub(crate) fn of(object: Object<D>) -> Result<Self> {
        let segment = Segment {
            object,
            id: 0,
            len: 0.into(),
        };
        let SegmentInfo { id, len, .. } = segment.info(None)?;
        Ok(Segment {
            id,
            len: len.into(),
            ..segment
        })
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its bytes; of one without memory as many as it can be filled with.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether it has no bytes; the kernel makes no such segment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Give one that was made empty its memory, once. That of this process is pinned until
    /// nobody reaches it any more; physical memory is the caller's to keep.
    ///
    /// # Errors
    /// In this order: [`Error::Invalid`]: no bytes, or no whole pages of a device.
    /// [`Error::System`] with `ERANGE`: more than it can be filled with, with `EEXIST`: it has
    /// memory, with `EFAULT`: there is none, or it cannot be written. [`Error::Quota`]: too much is pinned.
    /// [`Error::NotPermitted`]: physical memory is for privileged callers. Of a BAR also
    /// [`Error::System`] with `ENXIO` or `EBUSY`: there is none, or its function is driven.
    /// [`Error::NotSupported`]: it is the kernel's, or the kernel has no dma-bufs. Of a dma-buf
    /// [`Error::System`] with `EACCES`: the descriptor may not be written. [`Error::NoMemory`].
    pub fn fill(&self, filling: Filling<'_>) -> Result<()> {
        let (address, length, flags) = match filling {
            Filling::Own(memory) => (memory.start() as u64, memory.len() as u64, 0),
            Filling::ReadOnly(memory) => {
                let flags = sys::MP_REGISTER_READ_ONLY;
                (memory.start() as u64, memory.len() as u64, flags)
            }
            Filling::Physical(range) => (range.start(), range.len(), sys::MP_REGISTER_PHYSICAL),
            Filling::Bar(range) => (range.offset(), range.len(), sys::MP_REGISTER_BAR),
            Filling::DmaBuf { offset, len, .. } => (offset, len, sys::MP_REGISTER_DMABUF),
        };
        let mut fill = mp_segment_register {
            handle: self.object.open_handle()?,
            flags,
            address,
            length,
            ..Default::default()
        };
        match filling {
            Filling::Bar(range) => name_bar(&mut fill, range),
            Filling::DmaBuf { fd, .. } => fill.fd = fd.as_raw_fd(),
            _ => {}
        }
        // SAFETY: Whoever has made the filling vouches for its bytes, and these are they.
        let fill = unsafe { Vouched::new(&mut fill) };
        let called = self.object.device.call(Call::SegmentFill(fill));
        called.map_err(|errno| match errno {
            Errno::DQUOT => Error::Quota(Limit::pinned(length)).logged(),
            Errno::ACCESS => Error::System(errno),
            other => Error::of(Subject::Segment(self.id))(other),
        })?;
        self.len.store(length, Ordering::Relaxed);
        Ok(())
    }

    /// End it for this process.
    ///
    /// # Errors
    /// [`Error::System`] with `EBUSY`: it is used, and that is not by force. [`Error::NotFound`].
    /// [`Error::Unproven`]: it has ended, but peers may still store into the memory that it was
    /// filled with, which stays pinned.
    pub fn remove(&self, removal: Removal) -> Result<()> {
        self.object.remove(removal)
    }

    /// Take what has happened next to one of its connections, and who is at the other end.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::NotFound`], also if it is closed meanwhile.
    pub fn notice(&self, deadline: Deadline) -> Result<(Notice, Peer)> {
        self.object.notice(deadline)
    }

    /// Let other processes of the user attach to it.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: it is private. [`Error::NotFound`].
    pub fn share(&self) -> Result<()> {
        let mut handle = mp_handle {
            handle: self.object.open_handle()?,
            ..Default::default()
        };
        Ok(self.object.device.call(Call::SegmentShare(&mut handle))?)
    }

    /// Make the memory reachable at an interface, now and whenever a peer is there.
    ///
    /// # Errors
    /// [`Error::NoInterface`]; [`Error::NoSpace`]: the peers there do not reach it.
    pub fn prepare(&self, interface: InterfaceId) -> Result<()> {
        self.at(interface, 0, |argument| Call::SegmentPrepare(argument))
    }

    /// As [`prepare()`](Self::prepare), also if no window leads to the memory: for queues of this
    /// process, and for those who connect to [`Goal::PlacedSegment`](crate::Goal::PlacedSegment).
    ///
    /// # Errors
    /// [`Error::NoInterface`].
    pub fn prepare_placed(&self, interface: InterfaceId) -> Result<()> {
        self.at(interface, sys::MP_PUBLISH_PLACED, |argument| {
            Call::SegmentPrepare(argument)
        })
    }

    /// Let peers at an interface connect.
    ///
    /// # Errors
    /// [`Error::NoInterface`]; [`Error::NotSupported`]: it is private. [`Error::NoWindow`]: it is
    /// not prepared there.
    pub fn publish(&self, interface: InterfaceId) -> Result<()> {
        self.at(interface, 0, |argument| Call::SegmentPublish(argument))
    }

    /// As [`publish()`](Self::publish), also if no window leads to the memory: see
    /// [`prepare_placed()`](Self::prepare_placed).
    ///
    /// # Errors
    /// As [`publish()`](Self::publish).
    pub fn publish_placed(&self, interface: InterfaceId) -> Result<()> {
        self.at(interface, sys::MP_PUBLISH_PLACED, |argument| {
            Call::SegmentPublish(argument)
        })
    }

    /// Let no more peers at an interface connect. By force, nobody there stores into it any more
    /// when that succeeds.
    ///
    /// # Errors
    /// [`Error::NoInterface`]; [`Error::NoWindow`]: it is not published there.
    /// [`Error::Unproven`]: the connections have ended, but the peer may still store into the
    /// memory, as it does not answer; the same call can be made again.
    pub fn withdraw(&self, interface: InterfaceId, withdrawal: Withdrawal) -> Result<()> {
        let flags = match withdrawal {
            Withdrawal::Quiet => 0,
            Withdrawal::Notify => sys::MP_WITHDRAW_NOTIFY,
            Withdrawal::Force => sys::MP_WITHDRAW_FORCE,
        };
        self.at(interface, flags, |argument| Call::SegmentWithdraw(argument))
    }

    /// Make a call on the segment at an interface.
    fn at(
        &self,
        interface: InterfaceId,
        flags: u32,
        call: impl FnOnce(&mut mp_segment_interface) -> Call<'_>,
    ) -> Result<()> {
        let mut argument = mp_segment_interface {
            handle: self.object.open_handle()?,
            interface: interface.0,
            flags,
            ..Default::default()
        };
        let subject = Subject::SegmentAt {
            id: self.id,
            interface,
        };
        let called = self.object.device.call(call(&mut argument));
        called.map_err(Error::of(subject))
    }

    /// What is known of it, also at an interface.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoInterface`].
    pub fn info(&self, interface: Option<InterfaceId>) -> Result<SegmentInfo> {
        let mut segment = mp_segment {
            handle: self.object.open_handle()?,
            interface: interface.map_or(0, |id| id.0),
            ..Default::default()
        };
        self.object.device.call(Call::Segment(&mut segment))?;
        let has = |flag| segment.flags & flag != 0;
        Ok(SegmentInfo {
            state: match segment.state {
                sys::MP_SEGMENT_PUBLISHED => SegmentState::Published,
                sys::MP_SEGMENT_PREPARED => SegmentState::Prepared,
                _ => SegmentState::Unprepared,
            },
            id: segment.id,
            private: has(sys::MP_SEGMENT_PRIVATE),
            shared: has(sys::MP_SEGMENT_SHARED),
            connections: segment.connections,
            ending: segment.ending,
            len: segment.length,
            offset: segment.offset,
        })
    }

    /// The physical address of `len` bytes of it, which begin at `start` and are in one run.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotPermitted`], [`Error::Invalid`]: no bytes.
    /// [`Error::System`] with `ERANGE`: beyond its end. [`Error::NoWindow`]: not in one run. [`Error::NotSupported`].
    pub fn address(&self, start: u64, len: u64) -> Result<u64> {
        self.object.address(start, len)
    }

    /// Map whole pages of it; the address `hint` is tried first, unless it is 0.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`]: beyond its end, and those of `mmap()`.
    pub fn map<P: Protection>(&self, start: u64, len: u64, hint: usize) -> Result<Map<P>> {
        let offset = self.info(None)?.offset;
        let offset = offset
            .checked_add(start)
            .ok_or(Error::Invalid(Subject::Unnamed))?;
        Ok(self.object.device.map(offset, len, hint)?)
    }
}
