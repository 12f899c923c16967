// SPDX-License-Identifier: MIT OR Apache-2.0

//! Registered memory: the only place of this crate that accesses memory of the program.
//!
//! A region is what the program has vouched for ([`Regions::register`]) until it deregisters it:
//! whole pages (VI-MEM-2). An access names a handle, a tag, an address and a length, and happens
//! under the table's lock for readers: when deregistering returns, nothing touches the memory any
//! more (VI-MEM-12). There are no references to it, only volatile slices, since the program and
//! peers use it at the same time.
//!
//! Pages are made present when they are registered, and are accessed where the program has them.
//! A program that unmaps memory before it deregisters it makes the library's threads fault.

use crate::{attributes::REGIONS_MAX, lock, Error, MemAttributes, Ptag, Result};
use mp_fabric::ProcessMemory;
use rustix::{
    io::Errno,
    mm::{madvise, Advice},
    param::page_size,
};
use std::{
    ops::Range,
    ptr,
    sync::{Mutex, PoisonError, RwLock, RwLockReadGuard},
};
use vm_memory::VolatileSlice;

/// Names a region: index and generation, so that an old handle is none (VI-MEM-4).
///
/// The number is what descriptors have. That of a region is never 0; any number can be made a
/// handle, and those that were not given lead nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemHandle(pub u32);

/// What is done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// This side reads it.
    Read,
    /// This side writes it.
    Write,
    /// The remote side reads it.
    RemoteRead,
    /// The remote side writes it.
    RemoteWrite,
}

/// Memory must not be accessed like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protected;

/// So many bytes at an address, in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) handle: u32,
    pub(crate) address: u64,
    pub(crate) len: u32,
}

#[derive(Debug)]
struct Region {
    /// The address that it was registered with.
    base: usize,
    /// Its pages.
    pages: Range<usize>,
    writable: bool,
    attributes: MemAttributes,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u16,
    region: Option<Region>,
}

/// The regions of a NIC handle.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    slots: RwLock<Vec<Slot>>,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    free: Vec<u16>,
    regions: usize,
    bytes: u64,
}

impl Regions {
    /// Register memory.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: there is none, or it is not mapped. [`Error::Resource`].
    pub(crate) fn register(
        &self,
        memory: ProcessMemory<'_>,
        attributes: MemAttributes,
        most: u64,
    ) -> Result<MemHandle> {
        let pages = pages_of(memory).ok_or(Error::InvalidParameter)?;
        let bytes = pages.len() as u64;
        let mut used = lock(&self.used);
        if used.regions >= REGIONS_MAX || used.bytes.saturating_add(bytes) > most {
            return Err(Error::Resource);
        }
        let writable = populate(&pages)?;
        let region = Region {
            base: memory.start(),
            pages,
            writable,
            attributes,
        };
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let index = used.free.pop().unwrap_or_else(|| {
            slots.push(Slot::default());
            (slots.len() - 1) as u16
        });
        let slot = slots.get_mut(usize::from(index)).ok_or(Error::Resource)?;
        // Never 0, and with it the handle.
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        slot.region = Some(region);
        used.regions += 1;
        used.bytes += bytes;
        let number = u32::from(slot.generation) << 16 | u32::from(index);
        Ok(MemHandle(number))
    }

    /// End a region (VI-MEM-11); the tag that it had.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: there is none of that handle at that address.
    pub(crate) fn deregister(&self, base: usize, handle: MemHandle) -> Result<Ptag> {
        let mut used = lock(&self.used);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let slot = slot_mut(&mut slots, base, handle)?;
        let region = slot.region.take().ok_or(Error::InvalidParameter)?;
        used.free.push(handle.0 as u16);
        used.regions -= 1;
        used.bytes -= region.pages.len() as u64;
        Ok(region.attributes.ptag)
    }

    /// What a region has (VI-QRY-4).
    ///
    /// # Errors
    /// As [`deregister()`](Self::deregister).
    pub(crate) fn query(&self, base: usize, handle: MemHandle) -> Result<MemAttributes> {
        let view = self.view();
        let region = view.region(handle.0).filter(|r| r.base == base);
        Ok(region.ok_or(Error::InvalidParameter)?.attributes)
    }

    /// Change what a region has, after the function has said that it can be; for every access
    /// that is checked later (VI-ATTR-4, VI-ATTR-5).
    ///
    /// # Errors
    /// As [`deregister()`](Self::deregister); those of the function.
    pub(crate) fn set(
        &self,
        base: usize,
        handle: MemHandle,
        attributes: MemAttributes,
        admit: impl FnOnce(&MemAttributes) -> Result<()>,
    ) -> Result<()> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let slot = slot_mut(&mut slots, base, handle)?;
        let region = slot.region.as_mut().ok_or(Error::InvalidParameter)?;
        admit(&region.attributes)?;
        region.attributes = attributes;
        Ok(())
    }

    /// Access to the regions, which stay as long as the view.
    pub(crate) fn view(&self) -> View<'_> {
        View(self.slots.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// End all regions.
    pub(crate) fn clear(&self) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        for slot in slots.iter_mut() {
            slot.region = None;
        }
    }
}

fn slot_mut(slots: &mut [Slot], base: usize, handle: MemHandle) -> Result<&mut Slot> {
    let (index, generation) = (handle.0 as u16, handle.0 >> 16);
    let slot = slots.get_mut(usize::from(index));
    let slot = slot.filter(|slot| u32::from(slot.generation) == generation);
    let slot = slot.filter(|slot| slot.region.as_ref().is_some_and(|r| r.base == base));
    slot.ok_or(Error::InvalidParameter)
}

/// The regions, none of which ends meanwhile.
pub(crate) struct View<'a>(RwLockReadGuard<'a, Vec<Slot>>);

impl View<'_> {
    fn region(&self, handle: u32) -> Option<&Region> {
        let slot = self.0.get(usize::from(handle as u16))?;
        let slot = (u32::from(slot.generation) == handle >> 16).then_some(slot)?;
        slot.region.as_ref()
    }

    /// The bytes of a place, if they may be accessed like that: the handle lives, the tag is the
    /// region's, the range lies inside, and the region and its pages allow it (VI-PTAG-2,
    /// VI-RDMA-5).
    ///
    /// # Errors
    /// [`Protected`].
    pub(crate) fn slice(
        &self,
        tag: Ptag,
        place: Place,
        access: Access,
    ) -> std::result::Result<VolatileSlice<'_>, Protected> {
        let start = usize::try_from(place.address).map_err(|_| Protected)?;
        self.reach(tag, place.handle, access)?
            .slice(start, place.len as usize)
    }

    /// A region, if it may be accessed like that: the part of [`slice()`](Self::slice) that does
    /// not depend on the range.
    ///
    /// # Errors
    /// [`Protected`].
    pub(crate) fn reach(
        &self,
        tag: Ptag,
        handle: u32,
        access: Access,
    ) -> std::result::Result<Reach<'_>, Protected> {
        let region = self.region(handle).ok_or(Protected)?;
        let attributes = &region.attributes;
        let allowed = match access {
            Access::Read => true,
            Access::Write => region.writable,
            Access::RemoteRead => attributes.rdma_read,
            Access::RemoteWrite => attributes.rdma_write && region.writable,
        };
        match allowed && attributes.ptag == tag {
            true => Ok(Reach(region)),
            false => Err(Protected),
        }
    }
}

/// A region that may be accessed.
#[derive(Clone, Copy)]
pub(crate) struct Reach<'a>(&'a Region);

impl<'a> Reach<'a> {
    /// So many bytes of it.
    ///
    /// # Errors
    /// [`Protected`]: not all of them lie in it.
    #[inline]
    pub(crate) fn slice(
        self,
        start: usize,
        len: usize,
    ) -> std::result::Result<VolatileSlice<'a>, Protected> {
        let pages = &self.0.pages;
        let end = start.checked_add(len).ok_or(Protected)?;
        if start < pages.start || end > pages.end {
            return Err(Protected);
        }
        let start = ptr::with_exposed_provenance_mut(start);
        // SAFETY: The range lies in memory that was vouched for until it is deregistered, which
        // waits for the view that the region was borrowed from. Nothing writes through the slice
        // unless the pages are writable: callers ask for the access that they make.
        Ok(unsafe { VolatileSlice::new(start, len) })
    }
}

/// The pages that some memory lies in; nothing if there is no memory.
fn pages_of(memory: ProcessMemory<'_>) -> Option<Range<usize>> {
    let page = page_size();
    let end = memory.start().checked_add(memory.len())?;
    let end = end.checked_next_multiple_of(page)?;
    (!memory.is_empty()).then_some(memory.start() / page * page..end)
}

/// Make pages present; whether they can be written (VI-MEM-8).
fn populate(pages: &Range<usize>) -> Result<bool> {
    let advise = |advice| {
        let start = ptr::with_exposed_provenance_mut(pages.start);
        // SAFETY: What is mapped there is made present, and keeps its contents.
        unsafe { madvise(start, pages.len(), advice) }
    };
    match advise(Advice::LinuxPopulateWrite) {
        Ok(()) => return Ok(true),
        Err(Errno::NOMEM | Errno::FAULT) => return Err(Error::InvalidParameter),
        Err(_) => {}
    }
    let read = advise(Advice::LinuxPopulateRead);
    read.map(|()| false).map_err(|_| Error::InvalidParameter)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use mp_fabric::Map;
    use vm_memory::Bytes;

    pub(crate) const TAG: Ptag = Ptag(1);

    pub(crate) fn attributes() -> MemAttributes {
        MemAttributes {
            ptag: TAG,
            rdma_write: true,
            rdma_read: true,
        }
    }

    fn place(handle: MemHandle, address: usize, len: u32) -> Place {
        Place {
            handle: handle.0,
            address: address as u64,
            len,
        }
    }

    fn part(map: &Map, offset: usize, len: usize) -> ProcessMemory<'_> {
        let start = map.memory().start() + offset;
        // SAFETY: It lies in the map.
        unsafe { ProcessMemory::new(start, len) }
    }

    /// VI-MEM-2, VI-MEM-4, VI-MEM-11, VI-QRY-4
    #[test]
    fn a_region_has_whole_pages_until_it_ends() {
        let (regions, map) = (Regions::default(), Map::allocate(3 * 4096).unwrap());
        let memory = part(&map, 4096 + 7, 5);
        let most = u64::MAX;
        let none = part(&map, 0, 0);
        let invalid = Err(Error::InvalidParameter);
        assert_eq!(regions.register(none, attributes(), most), invalid);
        let [one, two] = [0; 2].map(|_| regions.register(memory, attributes(), most).unwrap());
        assert_ne!(one, two);
        let base = memory.start();
        assert_eq!(regions.query(base, one), Ok(attributes()));
        assert_eq!(regions.query(base + 1, one), Err(Error::InvalidParameter));
        let page = map.memory().start() + 4096;
        for (address, len, ok) in [
            (page, 4096, true),
            (page, 4097, false),
            (page - 1, 1, false),
            (page + 4096, 0, true),
            (page + 4096, 1, false),
            (usize::MAX, 2, false),
        ] {
            let view = regions.view();
            let slice = view.slice(TAG, place(one, address, len), Access::Write);
            assert_eq!(slice.is_ok(), ok, "{address:#x} {len}");
        }
        assert_eq!(
            regions.deregister(base - 1, one),
            Err(Error::InvalidParameter)
        );
        assert_eq!(regions.deregister(base, one), Ok(TAG));
        assert_eq!(regions.deregister(base, one), Err(Error::InvalidParameter));
        let three = regions.register(memory, attributes(), most).unwrap();
        assert!(three != one && three != two);
        let view = regions.view();
        assert!(view.slice(TAG, place(one, page, 1), Access::Read).is_err());
        assert!(view.slice(TAG, place(two, page, 1), Access::Read).is_ok());
        assert!(view.slice(TAG, place(three, page, 1), Access::Read).is_ok());
    }

    /// VI-PTAG-2, VI-MEM-7, VI-ATTR-4, VI-ATTR-5
    #[test]
    fn tag_and_enables_decide_from_the_next_access_on() {
        let (regions, map) = (Regions::default(), Map::allocate(4096).unwrap());
        let (memory, base) = (map.memory(), map.memory().start());
        let handle = regions.register(memory, attributes(), u64::MAX).unwrap();
        let may = |tag, access| {
            let place = place(handle, base, 8);
            regions.view().slice(tag, place, access).is_ok()
        };
        use Access::*;
        assert!([Read, Write, RemoteRead, RemoteWrite].map(|a| may(TAG, a)) == [true; 4]);
        assert!([Read, Write, RemoteRead, RemoteWrite].map(|a| may(Ptag(2), a)) == [false; 4]);
        let less = MemAttributes {
            ptag: Ptag(2),
            rdma_write: false,
            rdma_read: false,
        };
        let refused = regions.set(base, handle, less, |_| Err(Error::InvalidPtag));
        assert_eq!(refused, Err(Error::InvalidPtag));
        assert_eq!(regions.query(base, handle), Ok(attributes()));
        regions.set(base, handle, less, |_| Ok(())).unwrap();
        assert_eq!(
            [Read, Write, RemoteRead, RemoteWrite].map(|a| may(Ptag(2), a)),
            [true, true, false, false]
        );
    }

    /// VI-MEM-8, VI-MEM-9, VI-MEM-10: read-only memory is registered and never written; memory
    /// that is not there is not registered; contents stay.
    #[test]
    fn pages_decide_what_can_be_registered() {
        let regions = Regions::default();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let map = Map::<mp_fabric::ReadOnly>::with_hint(file, 0, 4096, 0).unwrap();
        let base = map.as_ptr().expose_provenance();
        // SAFETY: Nothing writes there: that is what is tested.
        let memory = unsafe { ProcessMemory::new(base, 4096) };
        let handle = regions.register(memory, attributes(), u64::MAX).unwrap();
        let view = regions.view();
        let slice = |access| view.slice(TAG, place(handle, base, 4), access);
        let mut magic = [0; 4];
        slice(Access::RemoteRead)
            .unwrap()
            .read_slice(&mut magic, 0)
            .unwrap();
        assert_eq!(&magic, b"\x7fELF");
        assert!(slice(Access::Write).is_err() && slice(Access::RemoteWrite).is_err());
        drop(view);
        regions.deregister(base, handle).unwrap();
        drop(map);
        let gone = regions.register(memory, attributes(), u64::MAX);
        assert_eq!(gone, Err(Error::InvalidParameter));
    }

    /// VI-MEM-10: what exceeds the limits is refused, and what has ended does not count.
    #[test]
    fn bytes_and_regions_are_limited() {
        let (regions, map) = (Regions::default(), Map::allocate(2 * 4096).unwrap());
        let most = 2 * 4096;
        let handle = regions.register(map.memory(), attributes(), most).unwrap();
        let more = regions.register(part(&map, 0, 1), attributes(), most);
        assert_eq!(more, Err(Error::Resource));
        regions.deregister(map.memory().start(), handle).unwrap();
        for n in 0..REGIONS_MAX {
            let one = regions.register(part(&map, 0, 1), attributes(), u64::MAX);
            assert!(one.is_ok(), "{n}");
        }
        let more = regions.register(part(&map, 0, 1), attributes(), u64::MAX);
        assert_eq!(more, Err(Error::Resource));
    }
}
