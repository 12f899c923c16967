// SPDX-License-Identifier: MIT OR Apache-2.0

//! Registered memory: the only place of this crate that accesses memory of the program.
//!
//! A region is what the program has vouched for ([`Regions::register`]) until it deregisters it:
//! whole pages (VI-MEM-2). An access names a handle, a tag, an address and a length, and happens
//! under the table's lock for readers: when deregistering returns, nothing touches the memory any
//! more (VI-MEM-12). There are no references to it, only volatile slices and atomic words
//! ([`Words`]), since the program and peers use it at the same time.
//!
//! Pages are made present when they are registered, stay locked in memory until no region has them
//! ([`Locks`]), and are accessed where the program has them. A program that unmaps memory before it
//! deregisters it makes the library's threads fault.

mod limit;

pub(crate) use limit::lockable;
pub(crate) use mp_proto::work::{Access, Place, Protected};

use crate::{attributes::REGIONS_MAX, lock, pages::Counts, Error, MemAttributes, Ptag, Result};
use mp_fabric::ProcessMemory;
use rustix::{
    io::Errno,
    mm::{madvise, mlock, msync, munlock, Advice, MsyncFlags},
    param::page_size,
};
use std::{
    collections::VecDeque,
    ffi::c_void,
    ops::Range,
    ptr, slice,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
};
use vm_memory::VolatileSlice;

/// Names a region: index and generation, so that an old handle is none (VI-MEM-4).
///
/// The number is what descriptors have. That of a region is never 0; any number can be made a
/// handle, and those that were not given lead nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemHandle(pub u32);

#[derive(Debug)]
struct Region {
    /// The address that it was registered with.
    base: usize,
    /// Its pages.
    pages: Range<usize>,
    writable: bool,
    attributes: MemAttributes,
}

impl Region {
    #[inline]
    fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => true,
            Access::Write => self.writable,
            Access::RemoteRead => self.attributes.rdma_read,
            Access::RemoteWrite => self.attributes.rdma_write && self.writable,
        }
    }
}

/// So many free places rest, so that a handle comes back after 65,535 times as many registrations
/// (VI-MEM-4).
const REST: usize = 1024;

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
    locks: Arc<Locks>,
}

#[derive(Debug, Default)]
struct Used {
    /// The one that is free for longest first.
    free: VecDeque<u16>,
    regions: usize,
    bytes: u64,
    /// All regions have ended, and there are no more.
    closed: bool,
}

impl Regions {
    /// No regions yet, in a process with these locked pages.
    pub(crate) fn new(locks: &Arc<Locks>) -> Self {
        Regions {
            locks: Arc::clone(locks),
            ..Regions::default()
        }
    }

    /// Register memory.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: there is none, or it is not mapped, or all regions were
    /// [ended](Self::clear). [`Error::Resource`]: there are too many regions, the process may not
    /// lock so much memory, or there is none.
    pub(crate) fn register(
        &self,
        memory: ProcessMemory<'_>,
        attributes: MemAttributes,
        most: u64,
    ) -> Result<MemHandle> {
        let pages = pages_of(memory).ok_or(Error::InvalidParameter)?;
        let bytes = pages.len() as u64;
        let mut used = lock(&self.used);
        if used.closed {
            return Err(Error::InvalidParameter);
        }
        if used.regions >= REGIONS_MAX || used.bytes.saturating_add(bytes) > most {
            return Err(Error::Resource);
        }
        self.reserve(&mut used)?;
        let writable = populate(&pages)?;
        self.locks.lock(&pages)?;
        let region = Region {
            base: memory.start(),
            pages,
            writable,
            attributes,
        };
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let rest = used.free.len() <= REST && slots.len() < REGIONS_MAX;
        let free = match rest {
            true => None,
            false => used.free.pop_front(),
        };
        let index = free.unwrap_or_else(|| {
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

    /// Make sure that there is room for another region, and for its place when it is free again.
    ///
    /// # Errors
    /// [`Error::Resource`].
    fn reserve(&self, used: &mut Used) -> Result<()> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let places = (slots.len() + 1).saturating_sub(used.free.len());
        let reserved = slots.try_reserve(1);
        let reserved = reserved.and_then(|()| used.free.try_reserve(places));
        reserved.map_err(|_| Error::Resource)
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
        used.free.push_back(handle.0 as u16);
        used.regions -= 1;
        used.bytes -= region.pages.len() as u64;
        drop(slots);
        self.locks.unlock(&region.pages);
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
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        View(self.slots.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// End all regions, also those that are being registered, and let nobody register more.
    pub(crate) fn clear(&self) {
        lock(&self.used).closed = true;
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        for region in slots.iter_mut().filter_map(|slot| slot.region.take()) {
            self.locks.unlock(&region.pages);
        }
    }
}

/// The pages that regions of a process have locked (VI-MEM-3). Locks of pages do not count, so that
/// they are counted here; what the program locks itself is unlocked with the last region that has
/// it. A forked child has none of them.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<Counts>);

impl Locks {
    /// Lock pages for a region.
    ///
    /// # Errors
    /// [`Error::Resource`]: the process may not lock so much memory; nothing has changed.
    fn lock(&self, pages: &Range<usize>) -> Result<()> {
        let mut counts = lock(&self.0);
        let new = counts.add(pages);
        for (locked, part) in new.iter().enumerate() {
            // SAFETY: Where a page is does not matter to anybody.
            if unsafe { mlock(start(part), part.len()) }.is_err() {
                // Of this part the first pages may be locked.
                new.iter().take(locked + 1).for_each(release);
                counts.remove(pages);
                return Err(Error::Resource);
            }
        }
        Ok(())
    }

    /// Let go of pages that a region had.
    fn unlock(&self, pages: &Range<usize>) {
        lock(&self.0).remove(pages).iter().for_each(release);
    }
}

/// Unlock pages. Those that the program has unmapped are not locked any more, and the kernel gets no
/// further than to them: then each half is unlocked by itself, down to single pages.
fn release(pages: &Range<usize>) {
    // SAFETY: Where a page is does not matter to anybody.
    let unlocked = unsafe { munlock(start(pages), pages.len()) };
    let half = pages.len() / page_size() / 2 * page_size();
    if unlocked.is_err() && half > 0 {
        let middle = pages.start + half;
        release(&(pages.start..middle));
        release(&(middle..pages.end));
    }
}

fn start(pages: &Range<usize>) -> *mut c_void {
    ptr::with_exposed_provenance_mut(pages.start)
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
    #[inline]
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
    #[inline]
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
    #[inline]
    pub(crate) fn reach(
        &self,
        tag: Ptag,
        handle: u32,
        access: Access,
    ) -> std::result::Result<Reach<'_>, Protected> {
        let region = self.region(handle).ok_or(Protected)?;
        match region.allows(access) && region.attributes.ptag == tag {
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

    /// So many structures of words of it, one behind the other.
    ///
    /// # Errors
    /// [`Protected`]: not all of them lie in it, or not where such structures may begin.
    #[inline]
    pub(crate) fn words<T: Words>(
        self,
        start: usize,
        count: usize,
    ) -> std::result::Result<&'a [T], Protected> {
        let len = count.checked_mul(size_of::<T>()).ok_or(Protected)?;
        self.slice(start, len)?;
        let start: *const T = ptr::with_exposed_provenance(start);
        if start.is_null() || !start.is_aligned() {
            return Err(Protected);
        }
        // SAFETY: The range lies in memory that was vouched for, as in `slice()`, and the pointer is
        // aligned and not null. `T` takes any bytes and lets others change them. Nothing stores unless
        // the pages are writable: callers ask for the access that they make.
        Ok(unsafe { slice::from_raw_parts(start, count) })
    }
}

/// Structures in memory that others change at any time: each word is loaded and stored in one piece.
///
/// # Safety
/// They consist of atomic integers, without padding.
pub(crate) unsafe trait Words {}

/// The pages that some memory lies in; nothing if there is no memory.
fn pages_of(memory: ProcessMemory<'_>) -> Option<Range<usize>> {
    let page = page_size();
    let end = memory.start().checked_add(memory.len())?;
    let end = end.checked_next_multiple_of(page)?;
    (!memory.is_empty()).then_some(memory.start() / page * page..end)
}

/// Why pages could not be made present (VI-MEM-10): they are not mapped or lead to nothing, or the
/// kernel has no memory for them, or none that is sound.
fn refusal(pages: &Range<usize>, error: Errno) -> Error {
    // SAFETY: With this flag nothing is written: the kernel only looks what is mapped there.
    let mapped = || unsafe { msync(start(pages), pages.len(), MsyncFlags::ASYNC) }.is_ok();
    match error {
        Errno::AGAIN | Errno::HWPOISON => Error::Resource,
        Errno::NOMEM if mapped() => Error::Resource,
        _ => Error::InvalidParameter,
    }
}

/// Make pages present; whether they can be written (VI-MEM-8).
fn populate(pages: &Range<usize>) -> Result<bool> {
    let advise = |advice| {
        // SAFETY: What is mapped there is made present, and keeps its contents.
        unsafe { madvise(start(pages), pages.len(), advice) }
    };
    match advise(Advice::LinuxPopulateWrite) {
        Ok(()) => return Ok(true),
        // Read-only pages.
        Err(Errno::INVAL) => {}
        Err(error) => return Err(refusal(pages, error)),
    }
    let read = advise(Advice::LinuxPopulateRead);
    read.map(|()| false).map_err(|error| refusal(pages, error))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use mp_fabric::Map;
    use std::collections::HashSet;
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

    /// VI-MEM-4, VI-MEM-11: also for who registers for each transfer.
    #[test]
    fn handles_do_not_come_back_soon() {
        let (regions, map) = (Regions::default(), Map::allocate(4096).unwrap());
        let mut seen = HashSet::new();
        for _ in 0..70_000 {
            let memory = part(&map, 0, 8);
            let handle = regions.register(memory, attributes(), u64::MAX).unwrap();
            assert!(seen.insert(handle.0), "{handle:?} again");
            regions.deregister(memory.start(), handle).unwrap();
        }
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

    /// VI-MEM-10: what the kernel has no memory for can be registered later; what is not there
    /// cannot.
    #[test]
    fn memory_that_is_missing_is_told_from_memory_that_is_not_there() {
        let map = Map::allocate(2 * 4096).unwrap();
        let pages = pages_of(map.memory()).unwrap();
        for error in [Errno::NOMEM, Errno::AGAIN, Errno::HWPOISON] {
            assert_eq!(refusal(&pages, error), Error::Resource);
        }
        assert_eq!(refusal(&pages, Errno::FAULT), Error::InvalidParameter);
        let gone = pages.end - 4096..pages.end;
        let run = || {
            // SAFETY: Nobody accesses the page.
            unsafe { rustix::mm::munmap(start(&gone), gone.len()) }.unwrap();
            assert_eq!(refusal(&pages, Errno::NOMEM), Error::InvalidParameter);
            0
        };
        // Nothing else is mapped where the page was.
        assert_eq!(mp_testing::child(run), 0);
    }

    /// Which pages of a map are locked.
    fn locked(map: &Map) -> Vec<bool> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut areas = Vec::new();
        for line in smaps.lines() {
            let first = line.split(' ').next().unwrap();
            let hex = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(from), Some(to))) =
                first.split_once('-').map(|(a, b)| (hex(a), hex(b)))
            {
                areas.push((from..to, false));
            } else if let Some(flags) = line.strip_prefix("VmFlags:") {
                areas.last_mut().unwrap().1 = flags.split_whitespace().any(|flag| flag == "lo");
            }
        }
        let pages = (map.memory().start()..)
            .step_by(4096)
            .take(map.len() / 4096);
        let area = |page| areas.iter().find(|(area, _)| area.contains(&page)).unwrap();
        pages.map(|page| area(page).1).collect()
    }

    /// VI-MEM-3, VI-MEM-11: pages are locked as long as a region of any NIC has them.
    #[test]
    fn pages_are_locked_until_no_region_has_them() {
        let (locks, map) = (Arc::default(), Map::allocate(4 * 4096).unwrap());
        let [one, two] = [0; 2].map(|_| Regions::new(&locks));
        let register = |regions: &Regions, offset, len| {
            let part = part(&map, offset, len);
            let handle = regions.register(part, attributes(), u64::MAX).unwrap();
            (part.start(), handle)
        };
        assert_eq!(locked(&map), [false; 4]);
        let first = register(&one, 100, 4096);
        assert_eq!(locked(&map), [true, true, false, false]);
        let second = register(&two, 4096, 2 * 4096);
        let third = register(&two, 8192, 1);
        assert_eq!(locked(&map), [true, true, true, false]);
        let wrong = one.deregister(first.0 + 1, first.1);
        assert_eq!(wrong, Err(Error::InvalidParameter));
        assert_eq!(locked(&map), [true, true, true, false]);
        one.deregister(first.0, first.1).unwrap();
        assert_eq!(locked(&map), [false, true, true, false]);
        two.deregister(second.0, second.1).unwrap();
        assert_eq!(locked(&map), [false, false, true, false]);
        two.deregister(third.0, third.1).unwrap();
        assert_eq!(locked(&map), [false; 4]);
        register(&one, 0, 4 * 4096);
        one.clear();
        assert_eq!(locked(&map), [false; 4]);
    }

    /// VI-NIC-5, VI-MEM-3: a program that registers memory while it closes the NIC leaves no locked
    /// pages behind.
    #[test]
    fn nothing_is_registered_once_all_regions_have_ended() {
        let (regions, map) = (Regions::default(), Map::allocate(4096).unwrap());
        regions.clear();
        let late = regions.register(map.memory(), attributes(), u64::MAX);
        assert_eq!(late, Err(Error::InvalidParameter));
        assert_eq!(locked(&map), [false]);
    }

    /// VI-MEM-3, VI-MEM-11: a region of which a part was unmapped ends as any other, and leaves no
    /// locked pages behind.
    #[test]
    fn pages_beside_unmapped_ones_are_unlocked() {
        let has_locked = |pages: usize| {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
            locked.unwrap().trim() == format!("{} kB", 4 * pages)
        };
        let run = || {
            for gone in [0..1, 1..2, 3..4, 0..4] {
                let (regions, map) = (Regions::default(), Map::allocate(4 * 4096).unwrap());
                let base = map.memory().start();
                let handle = regions.register(map.memory(), attributes(), u64::MAX);
                let pages = base + gone.start * 4096..base + gone.end * 4096;
                // SAFETY: Nobody accesses the pages.
                unsafe { rustix::mm::munmap(start(&pages), pages.len()) }.unwrap();
                assert!(has_locked(4 - gone.len()));
                assert_eq!(regions.deregister(base, handle.unwrap()), Ok(TAG));
                assert!(has_locked(0), "{gone:?}");
            }
            0
        };
        // Nothing else is mapped where the pages were.
        assert_eq!(mp_testing::child(run), 0);
    }

    /// VI-MEM-10: pages in front of one that cannot be locked do not stay locked.
    #[test]
    fn what_was_locked_in_part_is_released() {
        use rustix::mm::{mprotect, MprotectFlags};
        let (locks, map) = (Locks::default(), Map::allocate(3 * 4096).unwrap());
        let pages = pages_of(map.memory()).unwrap();
        let last = pages.end - 4096..pages.end;
        // SAFETY: Nobody accesses the page.
        unsafe { mprotect(start(&last), last.len(), MprotectFlags::empty()) }.unwrap();
        assert_eq!(locks.lock(&pages), Err(Error::Resource));
        assert_eq!(locked(&map), [false; 3]);
    }

    /// VI-MEM-3, VI-MEM-10: what the process may not lock is refused, and leaves nothing behind.
    #[test]
    fn what_must_not_be_locked_is_refused() {
        use rustix::{
            process::{getrlimit, setrlimit, Resource, Rlimit},
            thread::{capabilities, set_capabilities, CapabilitySet},
        };
        let run = || {
            let mut own = capabilities(None).unwrap();
            own.effective.remove(CapabilitySet::IPC_LOCK);
            set_capabilities(None, own).unwrap();
            let limit = Rlimit {
                current: Some(4 * 4096),
                ..getrlimit(Resource::Memlock)
            };
            setrlimit(Resource::Memlock, limit).unwrap();
            let (regions, map) = (Regions::default(), Map::allocate(9 * 4096).unwrap());
            let register = |offset, pages: usize| {
                let memory = part(&map, offset, pages * 4096);
                regions.register(memory, attributes(), u64::MAX)
            };
            let middle = register(4 * 4096, 1).unwrap();
            assert_eq!(register(0, 9), Err(Error::Resource));
            let left = locked(&map).into_iter().filter(|locked| *locked);
            assert_eq!(left.count(), 1);
            assert!(register(0, 2).is_ok());
            regions
                .deregister(map.memory().start() + 4 * 4096, middle)
                .unwrap();
            assert!(!locked(&map)[4]);
            0
        };
        // The limit is the process's.
        assert_eq!(mp_testing::child(run), 0);
    }

    /// VI-MEM-3, VI-GEN-9: a child has none of its parent's locked pages, and the parent's stay.
    #[test]
    fn a_child_has_no_locked_pages() {
        let (regions, map) = (Regions::default(), Map::allocate(4096).unwrap());
        regions
            .register(map.memory(), attributes(), u64::MAX)
            .unwrap();
        let status = mp_testing::child(|| {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            u8::from(!status.contains("VmLck:\t       0 kB"))
        });
        assert_eq!((status, locked(&map)), (0, vec![true]));
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
