// SPDX-License-Identifier: MIT OR Apache-2.0

//! Maps: parts of segments as memory of this process. Whole pages are mapped; offsets and sizes
//! are exact to the byte all the same (SI-MAPL-5).

use crate::{users::Users, Error, LocalSegment, RemoteSegment, Result, Sequence};
use mp_fabric::{flush_stores, CharDevice, Device, Protection, ReadOnly, ReadWrite};
use std::{
    fmt,
    sync::{atomic::Ordering, Arc, PoisonError, RwLock},
};

/// Bytes of a page; offsets of the driver are multiples of it.
pub(crate) const PAGE: usize = 4096;

/// How a segment is mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapFlags {
    /// The address given is tried first.
    pub fixed: bool,
    /// Stores fault.
    pub read_only: bool,
}

impl MapFlags {
    /// Anywhere, for reading and writing.
    pub const fn empty() -> Self {
        MapFlags {
            fixed: false,
            read_only: false,
        }
    }
}

/// What is mapped.
#[derive(Debug)]
pub(crate) enum Backing<D: Device> {
    Local(LocalSegment<D>),
    Remote(RemoteSegment<D>),
}

impl<D: Device> Backing<D> {
    /// Map whole pages.
    fn map<P: Protection>(&self, start: u64, len: u64, hint: usize) -> Result<mp_fabric::Map<P>> {
        Ok(match self {
            Backing::Local(segment) => segment.segment().map(start, len, hint),
            Backing::Remote(segment) if !segment.is_operational() => {
                return Err(Error::NotConnected)
            }
            Backing::Remote(segment) if segment.is_placed() => return Err(Error::HwNoSpace),
            Backing::Remote(segment) => segment.connection()?.map(start, len, hint),
        }?)
    }
}

/// Bytes of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// A part of a segment as memory. Copies are the same map.
pub struct Map<D: Device = CharDevice>(Arc<Inner<D>>);

struct Inner<D: Device> {
    backing: Backing<D>,
    /// None once it is unmapped.
    memory: RwLock<Option<Memory>>,
    /// Of the first byte.
    address: usize,
    /// Of the first byte in the segment.
    offset: usize,
    /// Bytes of the first page that are before the map.
    before: usize,
    size: usize,
    users: Users,
}

/// Mapped memory, with what may be done with it.
enum Memory {
    Writable(mp_fabric::Map),
    ReadOnly(mp_fabric::Map<ReadOnly>),
}

impl<D: Device> Clone for Map<D> {
    fn clone(&self) -> Self {
        Map(Arc::clone(&self.0))
    }
}

impl<D: Device> fmt::Debug for Map<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("size", &self.0.size)
            .finish_non_exhaustive()
    }
}

/// Map a part of a segment.
pub(crate) fn new<D: Device>(
    backing: Backing<D>,
    range: Range,
    address: usize,
    flags: MapFlags,
) -> Result<Map<D>> {
    let Range { offset, size } = range;
    let (room, users) = match &backing {
        Backing::Local(segment) => (segment.size(), segment.users()),
        Backing::Remote(segment) => (segment.size(), segment.users()),
    };
    let user = users.enter()?;
    if size == 0 {
        return Err(Error::SizeAlignment);
    }
    match &backing {
        Backing::Local(segment) => segment.filled()?,
        // Without a connection nothing is known of its size.
        Backing::Remote(segment) => segment.connection().map(|_| ())?,
    }
    let end = offset.checked_add(size).ok_or(Error::OutOfRange)?;
    if end > room {
        return Err(Error::OutOfRange);
    }
    let before = offset % PAGE;
    if flags.fixed && address % PAGE != before {
        return Err(Error::OffsetAlignment);
    }
    let hint = if flags.fixed { address - before } else { 0 };
    let start = (offset - before) as u64;
    let len = (before + size).next_multiple_of(PAGE) as u64;
    let (memory, at) = if flags.read_only {
        let map = backing.map::<ReadOnly>(start, len, hint)?;
        let at = map.as_ptr();
        (Memory::ReadOnly(map), at)
    } else {
        let map = backing.map::<ReadWrite>(start, len, hint)?;
        let at = map.as_ptr();
        (Memory::Writable(map), at)
    };
    if let Backing::Remote(segment) = &backing {
        segment.maps().fetch_add(1, Ordering::AcqRel);
    }
    Ok(Map(Arc::new(Inner {
        address: at as usize + before,
        backing,
        memory: RwLock::new(Some(memory)),
        offset,
        before,
        size,
        users: Users::below(user),
    })))
}

impl<D: Device> Inner<D> {
    fn unmap(&self) {
        let memory = self.memory.write();
        let memory = memory.unwrap_or_else(PoisonError::into_inner).take();
        if memory.is_some() {
            if let Backing::Remote(segment) = &self.backing {
                segment.maps().fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

impl<D: Device> Map<D> {
    pub(crate) fn users(&self) -> &Users {
        &self.0.users
    }

    /// The connection, if it is a map of one.
    pub(crate) fn remote(&self) -> Option<&RemoteSegment<D>> {
        match &self.0.backing {
            Backing::Remote(segment) => Some(segment),
            Backing::Local(_) => None,
        }
    }

    pub(crate) fn is(&self, other: &Map<D>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Address of the first byte. It changes at any time: every access has to be volatile.
    pub fn address(&self) -> usize {
        self.0.address
    }

    /// Physical address of the first byte, in memory or in the adapter's window, for whoever
    /// may know it; none if the map is not in one run, or leads to nobody (`SI-MAPPA-1`,
    /// `SI-MAPPA-2`).
    pub fn physical_address(&self) -> Option<u64> {
        let (start, len) = (self.0.offset as u64, self.0.size as u64);
        match &self.0.backing {
            Backing::Local(segment) => segment.segment().address(start, len).ok(),
            Backing::Remote(segment) => segment.connection().ok()?.address(start, len).ok(),
        }
    }

    /// Its bytes.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Whether it is memory of this host.
    pub fn is_local(&self) -> bool {
        self.remote().is_none_or(RemoteSegment::is_loopback)
    }

    /// Unmap it.
    ///
    /// # Errors
    /// [`Error::Busy`]: a sequence uses it, or a transfer relies on it.
    pub fn unmap(&self) -> Result<()> {
        if let Some(segment) = self.remote() {
            segment.desc().settle_queues();
        }
        self.0.users.release(|| {
            if self.remote().is_some_and(RemoteSegment::needs_its_map) {
                return Err(Error::Busy);
            }
            self.0.unmap();
            Ok(())
        })
    }

    /// Work on the memory, which stays as long as that takes: an unmap waits. It changes at any
    /// time, and what is written may have to be flushed ([`flush_stores`]).
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: it is unmapped. [`Error::IllegalOperation`]: it is read-only.
    pub fn with<R>(&self, work: impl FnOnce(vm_memory::VolatileSlice<'_>) -> R) -> Result<R> {
        self.held(|memory| match memory {
            Memory::Writable(map) => {
                let part = map.volatile().subslice(self.0.before, self.0.size);
                Ok(work(part.map_err(|_| Error::OutOfRange)?))
            }
            Memory::ReadOnly(_) => Err(Error::IllegalOperation),
        })
    }

    /// Work on the memory, however it is mapped.
    fn held<R>(&self, work: impl FnOnce(&Memory) -> Result<R>) -> Result<R> {
        let memory = self.0.memory.read();
        let memory = memory.unwrap_or_else(PoisonError::into_inner);
        work(memory.as_ref().ok_or(Error::IllegalParameter)?)
    }

    /// Read a word, and so push everything that was written before to where it belongs; whether it is
    /// known that somebody has answered.
    pub(crate) fn read_back(&self) -> bool {
        let at = self.0.before;
        let word = self.held(|memory| {
            Ok(match memory {
                Memory::Writable(map) => map.read_back(at),
                Memory::ReadOnly(map) => map.read_back(at),
            })
        });
        // What is unmapped has nothing that is on its way.
        !matches!(word, Ok(Some(u64::MAX)))
    }

    fn check(&self, offset: usize, size: usize) -> Result<()> {
        let end = offset.checked_add(size).ok_or(Error::OutOfRange)?;
        match end <= self.0.size {
            true => Ok(()),
            false => Err(Error::OutOfRange),
        }
    }

    /// Copy from local memory into the map. With a sequence of the map it is checked whether
    /// that has arrived.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::IllegalParameter`]: the sequence is of another map.
    /// [`Error::IllegalOperation`]: the map is read-only. [`Error::TransferFailed`].
    pub fn write(
        &self,
        sequence: Option<&Sequence<D>>,
        offset: usize,
        data: vm_memory::VolatileSlice<'_>,
    ) -> Result<()> {
        self.check(offset, data.len())?;
        if sequence.is_some_and(|sequence| !sequence.is_of(self)) {
            return Err(Error::IllegalParameter);
        }
        // Before a sequence is started.
        if sequence.is_some() {
            self.with(|_| ())?;
        }
        self.checked(sequence, || {
            self.with(|memory| {
                if let Ok(to) = memory.subslice(offset, data.len()) {
                    data.copy_to_volatile_slice(to);
                }
                flush_stores();
            })
        })
    }

    /// Copy from the map into local memory. With a sequence of the map it is checked whether
    /// that was good.
    ///
    /// # Errors
    /// As [`write()`](Self::write); a read-only map will do.
    pub fn read(
        &self,
        sequence: Option<&Sequence<D>>,
        offset: usize,
        room: vm_memory::VolatileSlice<'_>,
    ) -> Result<()> {
        self.check(offset, room.len())?;
        if sequence.is_some_and(|sequence| !sequence.is_of(self)) {
            return Err(Error::IllegalParameter);
        }
        self.checked(sequence, || {
            let at = self.0.before + offset;
            let read = |memory: &Memory| {
                Ok(match memory {
                    Memory::Writable(map) => map.read(at, room),
                    Memory::ReadOnly(map) => map.read(at, room),
                })
            };
            self.held(read)?.map_err(Error::System)
        })
    }

    fn checked(
        &self,
        sequence: Option<&Sequence<D>>,
        transfer: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(sequence) = sequence else {
            return transfer();
        };
        if !sequence.start().0.is_ok() {
            return Err(Error::TransferFailed);
        }
        transfer()?;
        match sequence.check(Default::default()).0.is_ok() {
            true => Ok(()),
            false => Err(Error::TransferFailed),
        }
    }
}

impl<D: Device> Drop for Inner<D> {
    fn drop(&mut self) {
        self.unmap();
    }
}
