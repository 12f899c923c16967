// SPDX-License-Identifier: MIT OR Apache-2.0

//! Local segments: memory of this host that other nodes connect to.

use crate::{
    desc::no_call,
    map::{self, Backing, PAGE},
    next, refuse_callback,
    users::Users,
    Action, Desc, Error, Map, MapFlags, Result,
};
use mp_fabric::{
    taken, CharDevice, Deadline, Device, EventMask, Filling, InterfaceId, Notice, PhysicalRange,
    ProcessMemory, Removal, Segment, SegmentState, Waits, Withdrawal,
};
use rustix::io::Errno;
use std::{
    fmt, iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Ids that will do as well when any is wanted (SI-CRSEG-5).
const MORE_IDS: u32 = 128;

/// What has happened to a segment. The numbers are those of `sisci_types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A process has connected to the local segment.
    Connect = 1,
    /// The other side has let go, or would like this side to.
    Disconnect = 2,
    /// The link is down.
    NotOperational = 3,
    /// The link is back.
    Operational = 4,
    /// The connection is gone for good.
    Lost = 5,
    /// The adapter is out of order (SI-EVT-8).
    Fatal = 6,
}

impl From<Notice> for Reason {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::Connected => Reason::Connect,
            Notice::Disconnected => Reason::Disconnect,
            Notice::Down => Reason::NotOperational,
            Notice::Up => Reason::Operational,
            Notice::Lost => Reason::Lost,
            Notice::Fatal => Reason::Fatal,
        }
    }
}

impl Reason {
    /// What the reason means for the connection (SI-EVT-9).
    pub fn status(self) -> Result<()> {
        match self {
            Reason::Connect | Reason::Disconnect | Reason::Operational => Ok(()),
            Reason::NotOperational => Err(Error::NoLinkAccess),
            Reason::Lost => Err(Error::NotConnected),
            Reason::Fatal => Err(Error::System(Errno::IO)),
        }
    }
}

/// Something that has happened to a local segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalEvent {
    /// What.
    pub reason: Reason,
    /// The node at the other end; 0 if it has no number.
    pub node: u32,
    /// The local adapter.
    pub adapter: u32,
}

/// What a new segment is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewSegment {
    /// Its id; of no meaning if it is private.
    pub id: u32,
    /// Its bytes.
    pub size: usize,
    /// Whether it has no id, and nobody can connect.
    pub private: bool,
    /// Whether one of the 128 ids after that will do as well.
    pub auto_id: bool,
    /// Whether it has no memory, and can be filled with as many bytes.
    pub empty: bool,
}

impl NewSegment {
    /// A segment of so many bytes, with id 0.
    pub fn of(size: usize) -> Self {
        NewSegment {
            size,
            ..NewSegment::default()
        }
    }
}

/// What becomes of those who are connected to a segment that is no longer available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// They stay.
    Quiet,
    /// They are told.
    Notify,
    /// They are disconnected.
    Force,
}

/// Memory of this host. Copies are the same segment.
pub struct LocalSegment<D: Device = CharDevice>(Arc<Inner<D>>);

struct Inner<D: Device> {
    desc: Desc<D>,
    segment: Segment<D>,
    private: bool,
    memory: Mutex<Memory>,
    users: Users,
    waits: Waits,
}

/// Where a segment's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// From the system.
    System,
    /// From the program, which has not given any yet.
    Missing,
    /// From the program.
    Given,
}

impl<D: Device> Clone for LocalSegment<D> {
    fn clone(&self) -> Self {
        LocalSegment(Arc::clone(&self.0))
    }
}

impl<D: Device> fmt::Debug for LocalSegment<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSegment")
            .field("id", &self.0.segment.id())
            .finish_non_exhaustive()
    }
}

impl<D: Device> Desc<D> {
    /// Make a segment.
    ///
    /// # Errors
    /// In this order: [`Error::SizeAlignment`]: no bytes. [`Error::FlagNotImplemented`]: the
    /// driver has no segments without memory. [`Error::SegmentIdUsed`],
    /// [`Error::NoSpace`].
    pub fn create_segment(&self, new: NewSegment) -> Result<LocalSegment<D>> {
        if new.size == 0 {
            return Err(Error::SizeAlignment);
        }
        let more = if new.auto_id { MORE_IDS } else { 0 };
        let id = (!new.private).then_some((new.id, more));
        let size = u64::try_from(new.size).map_err(|_| Error::NoSpace)?;
        if new.empty && !self.has(mp_fabric::sys::MP_FEATURE_REGISTER)? {
            return Err(Error::FlagNotImplemented);
        }
        let segment = match new.empty {
            true => self.fabric().create_empty_segment(id, size),
            false => self.fabric().create_segment(id, size),
        };
        let segment = segment.map_err(|error| match error.into() {
            // All of these are memory of the system; windows are looked at when it is prepared.
            Error::HwNoSpace => Error::NoSpace,
            other => no_call(other),
        })?;
        let memory = match new.empty {
            true => Memory::Missing,
            false => Memory::System,
        };
        self.local(segment, new.private, memory)
    }

    /// Attach to a segment that another process of this host shares.
    ///
    /// # Errors
    /// [`Error::NoSuchSegment`], [`Error::Access`]: it is not shared with this user.
    pub fn attach_segment(&self, id: u32) -> Result<LocalSegment<D>> {
        let segment = self.fabric().attach_segment(id);
        let segment = segment.map_err(|e| no_call(e.into()))?;
        self.local(segment, false, Memory::System)
    }

    fn local(&self, segment: Segment<D>, private: bool, memory: Memory) -> Result<LocalSegment<D>> {
        Ok(LocalSegment(Arc::new(Inner {
            desc: self.clone(),
            segment,
            private,
            memory: Mutex::new(memory),
            users: Users::below(self.enter()?),
            waits: Waits::default(),
        })))
    }
}

impl<D: Device> Inner<D> {
    fn next(&self) -> Result<Option<LocalEvent>> {
        Ok(
            taken(self.segment.notice(Deadline::PAST))?.map(|(notice, peer)| {
                let (node, adapter) = self.desc.origin(peer);
                LocalEvent {
                    reason: notice.into(),
                    node,
                    adapter,
                }
            }),
        )
    }
}

impl<D: Device> LocalSegment<D> {
    /// The virtual device that it was made on.
    pub fn desc(&self) -> &Desc<D> {
        &self.0.desc
    }

    pub(crate) fn segment(&self) -> &Segment<D> {
        &self.0.segment
    }

    /// The physical address of its first byte, for whoever may know it; none if it is not in one
    /// run (`SI-QUERY-11`).
    pub fn physical_address(&self) -> Option<u64> {
        self.segment().address(0, self.size() as u64).ok()
    }

    pub(crate) fn users(&self) -> &Users {
        &self.0.users
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.0.segment.id()
    }

    /// Its bytes; without memory as many as it can be filled with.
    pub fn size(&self) -> usize {
        usize::try_from(self.0.segment.len()).unwrap_or(usize::MAX)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is memory to map or to prepare.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: none has been given.
    pub(crate) fn filled(&self) -> Result<()> {
        match *self.memory() {
            Memory::Missing => Err(Error::IllegalOperation),
            Memory::System | Memory::Given => Ok(()),
        }
    }

    /// Give one that was made empty memory of this process, which stays pinned until nobody
    /// reaches it.
    ///
    /// # Errors
    /// In this order: [`Error::IllegalOperation`]: it was not made empty, or it has memory.
    /// [`Error::IllegalAddress`]: not at a page's start. [`Error::SizeAlignment`]: no bytes, or
    /// no whole pages. [`Error::OutOfRange`]: more than it was made for.
    /// [`Error::IllegalAddress`]: there is no such memory. [`Error::NoSpace`]: too much is pinned.
    pub fn register(&self, memory: ProcessMemory<'_>) -> Result<()> {
        let (start, len) = (memory.start() as u64, memory.len() as u64);
        self.fill(Filling::Own(memory), start, len)
    }

    /// Give one that was made empty physical memory of a device.
    ///
    /// # Errors
    /// As [`register()`](Self::register); [`Error::Access`]: that is for privileged users.
    /// [`Error::NotSupported`]: it is memory of the system.
    pub fn attach_physical(&self, range: PhysicalRange) -> Result<()> {
        self.fill(Filling::Physical(range), range.start(), range.len())
    }

    fn fill(&self, filling: Filling<'_>, start: u64, len: u64) -> Result<()> {
        let mut memory = self.memory();
        if *memory != Memory::Missing {
            return Err(Error::IllegalOperation);
        }
        if start % PAGE as u64 != 0 {
            return Err(Error::IllegalAddress);
        }
        if len == 0 || len % PAGE as u64 != 0 {
            return Err(Error::SizeAlignment);
        }
        self.0.segment.fill(filling).map_err(|error| match error {
            mp_fabric::Error::System(Errno::RANGE) => Error::OutOfRange,
            mp_fabric::Error::System(Errno::FAULT) => Error::IllegalAddress,
            mp_fabric::Error::System(Errno::EXIST) => Error::IllegalOperation,
            other => no_call(other.into()),
        })?;
        *memory = Memory::Given;
        Ok(())
    }

    /// Let other processes of the user attach.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: it is private.
    pub fn share(&self) -> Result<()> {
        self.0.segment.share().map_err(|error| match error {
            mp_fabric::Error::NotSupported(_) => Error::IllegalOperation,
            other => other.into(),
        })
    }

    /// Make it reachable through an adapter.
    ///
    /// # Errors
    /// Those of [`Desc::adapter`]; [`Error::IllegalOperation`]: it has no memory.
    /// [`Error::HwNoSpace`]: peers do not reach it there.
    pub fn prepare(&self, adapter: u32) -> Result<()> {
        self.prepare_by(adapter, Segment::prepare)
    }

    /// Make it the local segment of transfers through an adapter, whether or not peers reach it.
    ///
    /// # Errors
    /// Those of [`Desc::adapter`]; [`Error::IllegalOperation`]: it has no memory.
    /// [`Error::HwNoSpace`]: peers do not reach it there, and the driver asks for that.
    pub fn prepare_for_transfers(&self, adapter: u32) -> Result<()> {
        match self.0.desc.has(mp_fabric::sys::MP_FEATURE_PLACED)? {
            true => self.prepare_by(adapter, Segment::prepare_placed),
            false => self.prepare(adapter),
        }
    }

    fn prepare_by(
        &self,
        adapter: u32,
        prepare: impl Fn(&Segment<D>, InterfaceId) -> mp_fabric::Result<()>,
    ) -> Result<()> {
        let adapter = self.0.desc.adapter(adapter)?;
        self.filled()?;
        for interface in adapter.interfaces() {
            prepare(&self.0.segment, interface)?;
        }
        Ok(())
    }

    /// Let nodes at an interface connect: by a window, or if none can be led there, by transfers
    /// that the drivers make.
    fn publish(&self, interface: InterfaceId) -> Result<()> {
        let segment = &self.0.segment;
        // A link that has come since was not prepared: now it is.
        segment.prepare(interface)?;
        let published = segment.publish(interface);
        let has_window = !matches!(
            published,
            Err(mp_fabric::Error::NotSupported(_) | mp_fabric::Error::NoSpace(_))
        );
        if has_window || !self.0.desc.has(mp_fabric::sys::MP_FEATURE_PLACED)? {
            return Ok(published?);
        }
        Ok(segment.publish_placed(interface).or(published)?)
    }

    /// Its state at an adapter.
    ///
    /// # Errors
    /// Those of [`Desc::adapter`].
    pub fn state(&self, adapter: u32) -> Result<SegmentState> {
        let adapter = self.0.desc.adapter(adapter)?;
        let mut state = SegmentState::Unprepared;
        for interface in adapter.telling() {
            match self.0.segment.info(Some(interface))?.state {
                SegmentState::Published => return Ok(SegmentState::Published),
                SegmentState::Prepared => state = SegmentState::Prepared,
                SegmentState::Unprepared => {}
            }
        }
        Ok(state)
    }

    /// Let nodes connect over an adapter.
    ///
    /// # Errors
    /// Those of [`Desc::adapter`]; [`Error::IllegalOperation`]: it is private.
    /// [`Error::SegmentNotPrepared`]. [`Error::HwNoSpace`], [`Error::NotSupported`]: no window of
    /// the bridge can lead there, and the driver does not copy it; then it is as available as it
    /// was.
    pub fn set_available(&self, adapter: u32) -> Result<()> {
        let state = self.state(adapter)?;
        if self.0.private {
            return Err(Error::IllegalOperation);
        }
        if state == SegmentState::Unprepared {
            return Err(Error::SegmentNotPrepared);
        }
        let mut new = Vec::new();
        for interface in self.0.desc.adapter(adapter)?.interfaces() {
            let before = self.0.segment.info(Some(interface))?.state;
            if let Err(error) = self.publish(interface) {
                for interface in new {
                    // Whoever has found it meanwhile is out of luck.
                    let _ = self.0.segment.withdraw(interface, Withdrawal::Force);
                }
                return Err(error);
            }
            if before != SegmentState::Published {
                new.push(interface);
            }
        }
        Ok(())
    }

    /// Let no more nodes connect over an adapter.
    ///
    /// # Errors
    /// Those of [`Desc::adapter`]; [`Error::IllegalOperation`]: it is not available there.
    pub fn set_unavailable(&self, adapter: u32, how: Unavailable) -> Result<()> {
        if self.state(adapter)? != SegmentState::Published {
            return Err(Error::IllegalOperation);
        }
        let how = match how {
            Unavailable::Quiet => Withdrawal::Quiet,
            Unavailable::Notify => Withdrawal::Notify,
            Unavailable::Force => Withdrawal::Force,
        };
        let adapter = self.0.desc.adapter(adapter)?;
        let links = adapter.links.iter().map(|link| link.id);
        let loopback = (!self.elsewhere(&adapter)).then_some(adapter.loopback.id);
        for interface in links.chain(loopback) {
            match self.0.segment.withdraw(interface, how) {
                // A link that has come since is not published. Connections have ended also where
                // the other host has not confirmed it.
                Ok(()) | Err(mp_fabric::Error::NoWindow(_) | mp_fabric::Error::Unproven) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    /// Whether this host's own processes may still connect, over another adapter.
    fn elsewhere(&self, adapter: &crate::Adapter) -> bool {
        let others = (0..crate::ADAPTERS).filter(|number| *number != adapter.number);
        let mut states = others.map(|number| self.state(number));
        states.any(|state| state == Ok(SegmentState::Published))
    }

    /// Remove it, or detach if there are other holders. The value is of no use afterwards.
    ///
    /// # Errors
    /// [`Error::Busy`]: maps, transfers or connections use it; connections only unless by force.
    pub fn remove(&self, removal: Removal) -> Result<()> {
        self.0.desc.settle_queues();
        self.0.users.release(|| {
            match self.0.segment.remove(removal) {
                // Registered memory stays pinned for as long as the other host may store there.
                Ok(()) | Err(mp_fabric::Error::Unproven) => Ok(()),
                Err(mp_fabric::Error::System(Errno::BUSY)) => Err(Error::Busy),
                Err(mp_fabric::Error::NotFound(_)) => Err(Error::IllegalParameter),
                Err(other) => Err(other.into()),
            }
        })?;
        self.0.waits.cancel();
        Ok(())
    }

    /// Let a callback run for its events, also for those that have happened already.
    ///
    /// # Errors
    /// [`Error::System`]: no thread for callbacks.
    pub fn set_callback(
        &self,
        mut callback: impl FnMut(LocalEvent) -> Action + Send + 'static,
    ) -> Result<()> {
        let inner = Arc::downgrade(&self.0);
        let mut run = move || {
            let inner = inner.upgrade()?;
            let event = inner.next().ok()??;
            Some(callback(event))
        };
        let Inner { desc, waits, .. } = &*self.0;
        let object = iter::once(&*self.0.segment);
        let run = move || next(run());
        Ok(waits.call(&desc.context.reactor, object, EventMask::NOTICE, run)?)
    }

    /// Wait so many milliseconds for the next event.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: there is a callback. [`Error::Timeout`].
    /// [`Error::Cancelled`]: it has been removed, or a signal has come.
    pub fn wait(&self, milliseconds: u32) -> Result<LocalEvent> {
        let waits = &self.0.waits;
        refuse_callback(waits)?;
        let object = iter::once(&*self.0.segment);
        let deadline = Deadline::after_milliseconds(milliseconds);
        waits.wait(object, EventMask::NOTICE, deadline, || self.0.next())
    }

    /// Map a part of it, at an address that is tried first or anywhere.
    ///
    /// # Errors
    /// In this order: [`Error::SizeAlignment`]: no bytes. [`Error::IllegalOperation`]: it has no
    /// memory. [`Error::OutOfRange`]; [`Error::OffsetAlignment`]: the address does not fit the
    /// offset. [`Error::NoSpace`].
    pub fn map(
        &self,
        offset: usize,
        size: usize,
        address: usize,
        flags: MapFlags,
    ) -> Result<Map<D>> {
        let range = map::Range { offset, size };
        map::new(Backing::Local(self.clone()), range, address, flags)
    }
}

impl<D: Device> Drop for Inner<D> {
    fn drop(&mut self) {
        self.waits.cancel();
    }
}
