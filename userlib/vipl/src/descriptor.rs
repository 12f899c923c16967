// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptors, as they lie in memory of the program: little-endian, 64-byte aligned.
//!
//! | offset | bytes | control segment | | offset | bytes | address or data segment |
//! |---|---|---|---|---|---|---|
//! | 0 | 8 | Next | | 0 | 8 | address |
//! | 8 | 4 | NextHandle | | 8 | 4 | memory handle |
//! | 12 | 2 | SegCount | | 12 | 4 | data: length; address: zero |
//! | 14 | 2 | Control | | | | |
//! | 16 | 4 | zero | | | | |
//! | 20 | 4 | ImmediateData | | | | |
//! | 24 | 4 | Length | | | | |
//! | 28 | 4 | Status | | | | |
//!
//! A program can change a descriptor at any time: it is copied once, checked, and then the copy is
//! used (VI-DESC-21).

use crate::{
    attributes::SEGMENTS_MAX,
    memory::{Access, Place, Protected, Reach, View, Words},
    Level, MemHandle, Ptag,
};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use vm_memory::VolatileSlice;

/// Descriptors begin at multiples of so many bytes.
pub const DESCRIPTOR_ALIGNMENT: usize = 64;
/// Bytes of a control segment.
const CONTROL_LEN: usize = size_of::<Control>();

const OP_MASK: u16 = 0x0003;
const OP_SENDRECV: u16 = 0;
const OP_WRITE: u16 = 1;
const OP_READ: u16 = 2;
const IMMEDIATE: u16 = 0x0004;
const FENCE: u16 = 0x0008;
const RESERVED: u16 = 0xFFF0;

/// What a completed descriptor's Status says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

impl Status {
    /// It is complete.
    pub const DONE: Status = Status(0x0000_0001);
    /// It is malformed.
    pub const FORMAT_ERROR: Status = Status(0x0000_0002);
    /// Local memory must not be accessed like that.
    pub const PROTECTION_ERROR: Status = Status(0x0000_0004);
    /// Lengths or the number of segments do not fit.
    pub const LENGTH_ERROR: Status = Status(0x0000_0008);
    /// Only a part was transferred.
    pub const PARTIAL_ERROR: Status = Status(0x0000_0010);
    /// The connection has ended before it was processed.
    pub const FLUSHED_ERROR: Status = Status(0x0000_0020);
    /// The data was lost or corrupted on the way.
    pub const TRANSPORT_ERROR: Status = Status(0x0000_0040);
    /// Remote memory must not be accessed like that.
    pub const RDMA_PROT_ERROR: Status = Status(0x0000_0080);
    /// The remote receive descriptor is missing or does not fit.
    pub const REMOTE_DESC_ERROR: Status = Status(0x0000_0100);
    /// All errors.
    pub const ERROR_MASK: Status = Status(0x0000_01FE);
    /// The completed operation is a send.
    pub const OP_SEND: Status = Status(0x0000_0000);
    /// The completed operation is a receive.
    pub const OP_RECEIVE: Status = Status(0x0001_0000);
    /// The completed operation is an RDMA write.
    pub const OP_RDMA_WRITE: Status = Status(0x0002_0000);
    /// A receive was consumed by a remote RDMA write.
    pub const OP_REMOTE_RDMA_WRITE: Status = Status(0x0003_0000);
    /// The completed operation is an RDMA read.
    pub const OP_RDMA_READ: Status = Status(0x0004_0000);
    /// The completed operation.
    pub const OP_MASK: Status = Status(0x0007_0000);
    /// There is immediate data.
    pub const IMMEDIATE: Status = Status(0x0008_0000);

    /// Both.
    #[must_use]
    pub const fn with(self, other: Status) -> Status {
        Status(self.0 | other.0)
    }

    /// The bits that both have.
    #[must_use]
    pub const fn masked(self, mask: Status) -> Status {
        Status(self.0 & mask.0)
    }

    /// Whether there is an error.
    pub const fn is_error(self) -> bool {
        self.masked(Self::ERROR_MASK).0 != 0
    }
}

/// A descriptor that has been completed and belongs to the program again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Where it is.
    pub descriptor: usize,
    /// How it was completed.
    pub status: Status,
    /// Bytes transferred; 0 after an error.
    pub length: u32,
    /// Immediate data that came with it.
    pub immediate: Option<u32>,
}

/// What a descriptor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A send, or a receive.
    SendReceive,
    /// An RDMA write to so many bytes as the segments have.
    RdmaWrite(Remote),
    /// An RDMA read.
    RdmaRead(Remote),
}

/// Where the remote bytes of an RDMA operation are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The address in the remote process.
    pub address: u64,
    /// The handle that the remote process has for the region.
    pub handle: u32,
}

/// Bytes of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where they begin.
    pub address: usize,
    /// The region.
    pub handle: MemHandle,
    /// How many they are.
    pub len: u32,
}

/// A descriptor that is to be written into memory.
///
/// # Examples
/// ```
/// use vipl::{Descriptor, MemHandle};
///
/// let handle = MemHandle(7);
/// let descriptor = Descriptor::new().segment(0x1000, handle, 12).immediate(5);
/// let bytes = descriptor.encode();
/// assert_eq!(bytes.len(), 48);
/// assert_eq!(bytes[12..14], [1, 0]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Descriptor {
    operation: Operation,
    immediate: Option<u32>,
    fence: bool,
    segments: Vec<Segment>,
}

impl Default for Descriptor {
    fn default() -> Self {
        Self::new()
    }
}

impl Descriptor {
    /// A send or receive without data.
    pub fn new() -> Self {
        Descriptor {
            operation: Operation::SendReceive,
            immediate: None,
            fence: false,
            segments: Vec::new(),
        }
    }

    /// An RDMA write.
    pub fn write(remote: Remote) -> Self {
        Descriptor {
            operation: Operation::RdmaWrite(remote),
            ..Self::new()
        }
    }

    /// An RDMA read.
    pub fn read(remote: Remote) -> Self {
        Descriptor {
            operation: Operation::RdmaRead(remote),
            ..Self::new()
        }
    }

    /// Add a piece of memory.
    pub fn segment(mut self, address: usize, handle: MemHandle, len: u32) -> Self {
        self.segments.push(Segment {
            address,
            handle,
            len,
        });
        self
    }

    /// Let immediate data travel with it.
    pub fn immediate(mut self, data: u32) -> Self {
        self.immediate = Some(data);
        self
    }

    /// Start it only after all earlier RDMA reads of the queue are complete.
    pub fn fence(mut self) -> Self {
        self.fence = true;
        self
    }

    /// Its bytes: 32, and 16 for each segment.
    pub fn encode(&self) -> Vec<u8> {
        let (op, remote) = match self.operation {
            Operation::SendReceive => (OP_SENDRECV, None),
            Operation::RdmaWrite(remote) => (OP_WRITE, Some(remote)),
            Operation::RdmaRead(remote) => (OP_READ, Some(remote)),
        };
        let immediate = self.immediate.map_or(0, |_| IMMEDIATE);
        let control = op | immediate | if self.fence { FENCE } else { 0 };
        let count = self.segments.len() + usize::from(remote.is_some());
        let total: u64 = self.segments.iter().map(|s| u64::from(s.len)).sum();
        let mut bytes = vec![0; 12];
        bytes.extend((count as u16).to_le_bytes());
        bytes.extend(control.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.immediate.unwrap_or(0).to_le_bytes());
        bytes.extend((total as u32).to_le_bytes());
        bytes.extend([0; 4]);
        let mut add = |address: u64, handle: u32, len: u32| {
            bytes.extend(address.to_le_bytes());
            bytes.extend(handle.to_le_bytes());
            bytes.extend(len.to_le_bytes());
        };
        if let Some(remote) = remote {
            add(remote.address, remote.handle, 0);
        }
        for segment in &self.segments {
            add(segment.address as u64, segment.handle.0, segment.len);
        }
        bytes
    }
}

/// Segments that a descriptor has without an allocation.
pub(crate) const FEW: usize = 4;

/// The segments of a descriptor.
pub(crate) type Places = SmallVec<[Place; FEW]>;

/// Pieces of memory, in order.
pub(crate) type Pieces<'a> = SmallVec<[VolatileSlice<'a>; FEW]>;

/// A descriptor that was copied and can be processed. Its segments are beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampled {
    pub(crate) operation: Operation,
    pub(crate) immediate: Option<u32>,
    pub(crate) fence: bool,
    /// Bytes that the segments have altogether.
    pub(crate) total: u32,
}

/// A control segment where the program has it.
#[repr(C)]
struct Control {
    next: AtomicU64,
    next_handle: AtomicU32,
    count: AtomicU16,
    control: AtomicU16,
    reserved: AtomicU32,
    immediate: AtomicU32,
    length: AtomicU32,
    status: AtomicU32,
}

// SAFETY: It consists of atomic integers, each at a multiple of its size.
unsafe impl Words for Control {}

impl Control {
    /// Copy what the program asks for.
    #[inline]
    fn head(&self) -> Head {
        Head {
            count: u16::from_le(self.count.load(Ordering::Relaxed)),
            control: u16::from_le(self.control.load(Ordering::Relaxed)),
            reserved: self.reserved.load(Ordering::Relaxed),
            immediate: u32::from_le(self.immediate.load(Ordering::Relaxed)),
            length: u32::from_le(self.length.load(Ordering::Relaxed)),
        }
    }

    /// Make Next lead to another descriptor, or nowhere.
    #[inline]
    fn link(&self, next: Option<Posted>) {
        let (address, handle) = linkage(next);
        self.next.store(address.to_le(), Ordering::Relaxed);
        self.next_handle.store(handle.to_le(), Ordering::Relaxed);
    }

    /// Whether Next leads there.
    #[inline]
    fn leads_to(&self, next: Option<Posted>) -> bool {
        let address = u64::from_le(self.next.load(Ordering::Relaxed));
        let handle = u32::from_le(self.next_handle.load(Ordering::Relaxed));
        (address, handle) == linkage(next)
    }

    /// Complete the descriptor: the Status last, by one store that releases all else
    /// (VI-DESC-14).
    #[inline]
    fn complete(&self, done: &Completion) {
        if let Some(immediate) = done.immediate {
            self.immediate.store(immediate.to_le(), Ordering::Relaxed);
        }
        self.length.store(done.length.to_le(), Ordering::Relaxed);
        self.status.store(done.status.0.to_le(), Ordering::Release);
    }
}

/// An address or data segment where the program has it.
#[repr(C)]
struct RawSegment {
    address: AtomicU64,
    handle: AtomicU32,
    len: AtomicU32,
}

// SAFETY: As above.
unsafe impl Words for RawSegment {}

impl RawSegment {
    #[inline]
    fn place(&self) -> Place {
        Place {
            address: u64::from_le(self.address.load(Ordering::Relaxed)),
            handle: u32::from_le(self.handle.load(Ordering::Relaxed)),
            len: u32::from_le(self.len.load(Ordering::Relaxed)),
        }
    }
}

/// Where a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) address: usize,
    pub(crate) handle: MemHandle,
}

impl Posted {
    /// The region that it lies in.
    #[inline]
    fn reach<'a>(self, view: &'a View<'_>, tag: Ptag) -> Result<Reach<'a>, Protected> {
        view.reach(tag, self.handle.0, Access::Write)
    }

    /// Its control segment.
    #[inline]
    fn control<'a>(self, reach: Reach<'a>) -> Result<&'a Control, Protected> {
        let controls = reach.words(self.address, 1)?;
        controls.first().ok_or(Protected)
    }

    /// Prepare a descriptor that is posted: no Status, no Next. Its control bits (VI-POST-3,
    /// VI-POST-8).
    ///
    /// # Errors
    /// [`Protected`]: it is none.
    #[inline]
    pub(crate) fn prepare(self, view: &View<'_>, tag: Ptag) -> Result<u16, Protected> {
        if self.address % DESCRIPTOR_ALIGNMENT != 0 {
            return Err(Protected);
        }
        let control = self.control(self.reach(view, tag)?)?;
        control.status.store(0, Ordering::Relaxed);
        control.link(None);
        Ok(u16::from_le(control.control.load(Ordering::Relaxed)))
    }

    /// Make Next lead to another descriptor.
    #[inline]
    pub(crate) fn link(self, view: &View<'_>, tag: Ptag, next: Posted) -> Result<(), Protected> {
        self.control(self.reach(view, tag)?)?.link(Some(next));
        Ok(())
    }

    /// Complete the descriptor.
    pub(crate) fn complete(self, view: &View<'_>, tag: Ptag, done: &Completion) -> Written {
        match self.reach(view, tag).and_then(|reach| self.control(reach)) {
            Err(Protected) => Written::Unreachable,
            Ok(control) => {
                control.complete(done);
                Written::Whole
            }
        }
    }

    /// As [`complete()`](Self::complete), if Next still leads where it was made to.
    #[inline]
    pub(crate) fn complete_linked(
        self,
        view: &View<'_>,
        tag: Ptag,
        next: Option<Posted>,
        done: &Completion,
    ) -> Written {
        match self.reach(view, tag).and_then(|reach| self.control(reach)) {
            Err(Protected) => Written::Unreachable,
            Ok(control) if !control.leads_to(next) => Written::Altered,
            Ok(control) => {
                control.complete(done);
                Written::Whole
            }
        }
    }

    /// Copy the descriptor, its segments into `segments`, and check what does not depend on memory
    /// (VI-DESC-4 to VI-DESC-9).
    ///
    /// # Errors
    /// The bit that it is completed with.
    #[inline]
    pub(crate) fn sample(
        self,
        view: &View<'_>,
        tag: Ptag,
        rules: &Rules,
        segments: &mut Places,
    ) -> Result<Sampled, Status> {
        segments.clear();
        let protected = |Protected| Status::PROTECTION_ERROR;
        let reach = self.reach(view, tag).map_err(protected)?;
        let head = self.control(reach).map_err(protected)?.head();
        if head.count > SEGMENTS_MAX {
            return Err(Status::LENGTH_ERROR);
        }
        if head.control & RESERVED != 0 || head.reserved != 0 {
            return Err(Status::FORMAT_ERROR);
        }
        let behind = self.address.checked_add(CONTROL_LEN).ok_or(Protected);
        let raw = behind.and_then(|behind| reach.words(behind, head.count.into()));
        let mut raw = raw.map_err(protected)?.iter().map(RawSegment::place);
        let operation = operation(&head, &mut raw, rules)?;
        let mut total = 0;
        for place in raw {
            total += u64::from(place.len);
            segments.push(place);
        }
        let mismatch = !rules.receive && total != u64::from(head.length);
        if mismatch || total > rules.max_transfer_size {
            return Err(Status::LENGTH_ERROR);
        }
        Ok(Sampled {
            operation,
            immediate: (head.control & IMMEDIATE != 0).then_some(head.immediate),
            fence: head.control & FENCE != 0 && !rules.receive,
            total: total as u32,
        })
    }
}

/// What has come of completing a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is complete.
    Whole,
    /// Its Next was altered: nothing was written.
    Altered,
    /// It cannot be reached any more.
    Unreachable,
}

/// What a descriptor has to fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// It is on a receive queue.
    pub(crate) receive: bool,
    pub(crate) level: Level,
    pub(crate) max_transfer_size: u64,
}

/// What a control segment asks for.
struct Head {
    count: u16,
    control: u16,
    reserved: u32,
    immediate: u32,
    length: u32,
}

/// What a descriptor asks for; takes the address segment from the front.
fn operation(
    head: &Head,
    segments: &mut impl Iterator<Item = Place>,
    rules: &Rules,
) -> Result<Operation, Status> {
    let op = head.control & OP_MASK;
    if op == OP_SENDRECV {
        return Ok(Operation::SendReceive);
    }
    let first = segments.next().filter(|_| !rules.receive);
    let Place {
        handle,
        address,
        len: reserved,
    } = first.ok_or(Status::FORMAT_ERROR)?;
    if reserved != 0 {
        return Err(Status::FORMAT_ERROR);
    }
    let remote = Remote { address, handle };
    match op {
        OP_WRITE => Ok(Operation::RdmaWrite(remote)),
        OP_READ if rules.level.has_read() => Ok(Operation::RdmaRead(remote)),
        _ => Err(Status::FORMAT_ERROR),
    }
}

/// The operation of control bits, as Status tells it.
#[inline]
pub(crate) fn operation_bits(control: u16, receive: bool) -> Status {
    match control & OP_MASK {
        _ if receive => Status::OP_RECEIVE,
        OP_WRITE => Status::OP_RDMA_WRITE,
        OP_READ => Status::OP_RDMA_READ,
        _ => Status::OP_SEND,
    }
}

/// Make sure that all segments may be accessed like that.
#[inline]
pub(crate) fn check(
    view: &View<'_>,
    tag: Ptag,
    segments: &[Place],
    access: Access,
) -> Result<(), Protected> {
    let mut slices = segments.iter().map(|place| view.slice(tag, *place, access));
    slices.try_for_each(|slice| slice.map(|_| ()))
}

/// Collect the pieces of the first `len` bytes of segments, all of which may be accessed like that,
/// also those that have none of them.
#[inline]
pub(crate) fn collect_checked<'a>(
    pieces: &mut Pieces<'a>,
    (view, tag, access): (&'a View<'_>, Ptag, Access),
    segments: &[Place],
    len: u32,
) -> Result<(), Protected> {
    let mut left = len as usize;
    for place in segments {
        let slice = view.slice(tag, *place, access)?;
        let here = slice.len().min(left);
        if here > 0 {
            pieces.push(slice.subslice(0, here).map_err(|_| Protected)?);
        }
        left -= here;
    }
    Ok(())
}

/// Collect the pieces of segments from `skip` bytes on, `len` bytes altogether, in order
/// (VI-DESC-19).
#[inline]
pub(crate) fn collect<'a>(
    pieces: &mut Pieces<'a>,
    (view, tag, access): (&'a View<'_>, Ptag, Access),
    segments: &[Place],
    skip: u32,
    len: u32,
) -> Result<(), Protected> {
    let (mut skip, mut left) = (skip, len);
    for place in segments {
        if left == 0 {
            break;
        }
        let here = place.len.saturating_sub(skip).min(left);
        if here > 0 {
            let place = Place {
                address: place.address.checked_add(skip.into()).ok_or(Protected)?,
                len: here,
                ..*place
            };
            pieces.push(view.slice(tag, place, access)?);
        }
        skip = skip.saturating_sub(place.len);
        left -= here;
    }
    Ok(())
}

#[inline]
fn linkage(next: Option<Posted>) -> (u64, u32) {
    next.map_or((0, 0), |next| (next.address as u64, next.handle.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{
        tests::{attributes, TAG},
        Regions,
    };
    use mp_fabric::Map;
    use proptest::prelude::*;
    use vm_memory::Bytes;

    fn rules(receive: bool) -> Rules {
        Rules {
            receive,
            level: Level::ReliableDelivery,
            max_transfer_size: 1 << 20,
        }
    }

    struct Memory {
        regions: Regions,
        map: Map,
        handle: MemHandle,
    }

    impl Memory {
        fn new() -> Self {
            let (regions, map) = (Regions::default(), Map::allocate(2 * 4096).unwrap());
            let handle = regions
                .register(map.memory(), attributes(), u64::MAX)
                .unwrap();
            Memory {
                regions,
                map,
                handle,
            }
        }

        fn posted(&self) -> Posted {
            Posted {
                address: self.map.memory().start(),
                handle: self.handle,
            }
        }

        fn sample(&self, bytes: &[u8], rules: &Rules) -> Result<(Sampled, Places), Status> {
            self.map.volatile().write_slice(bytes, 0).unwrap();
            let mut segments = Places::new();
            let view = self.regions.view();
            let sampled = self.posted().sample(&view, TAG, rules, &mut segments)?;
            Ok((sampled, segments))
        }
    }

    fn remote() -> Remote {
        Remote {
            address: 0x1234_5678_9abc,
            handle: 77,
        }
    }

    /// VI-DESC-1, VI-DESC-2, VI-DESC-5: what is written is what is read.
    #[test]
    fn descriptors_are_read_as_they_were_written() {
        let memory = Memory::new();
        let segment = |d: Descriptor| {
            d.segment(0x10, memory.handle, 3)
                .segment(0x20, memory.handle, 0)
        };
        for (descriptor, operation, immediate, fence) in [
            (Descriptor::new(), Operation::SendReceive, None, false),
            (
                Descriptor::new().immediate(9).fence(),
                Operation::SendReceive,
                Some(9),
                true,
            ),
            (
                Descriptor::write(remote()).immediate(0),
                Operation::RdmaWrite(remote()),
                Some(0),
                false,
            ),
            (
                Descriptor::read(remote()).fence(),
                Operation::RdmaRead(remote()),
                None,
                true,
            ),
        ] {
            let (sampled, segments) = memory
                .sample(&segment(descriptor).encode(), &rules(false))
                .unwrap();
            assert_eq!(
                (sampled.operation, sampled.immediate, sampled.fence),
                (operation, immediate, fence)
            );
            assert_eq!((segments.len(), sampled.total), (2, 3));
        }
    }

    /// VI-DESC-4 to VI-DESC-9, VI-DESC-23, VI-STS-1, VI-STS-3
    #[test]
    fn malformed_descriptors_are_told_with_their_bit() {
        let memory = Memory::new();
        let good = |d: Descriptor| d.segment(0x10, memory.handle, 100).encode();
        let send = good(Descriptor::new());
        let with = |from: &[u8], at: usize, value: u8| {
            let mut bytes = from.to_vec();
            bytes[at] = value;
            bytes
        };
        let (format, length) = (Err(Status::FORMAT_ERROR), Err(Status::LENGTH_ERROR));
        let check = |bytes: &[u8], receive: bool| memory.sample(bytes, &rules(receive)).map(|_| ());
        for receive in [false, true] {
            assert_eq!(check(&send, receive), Ok(()));
            for bit in 4..16 {
                let bytes = with(&send, 14 + bit / 8, 1 << (bit % 8));
                assert_eq!(check(&bytes, receive), format, "bit {bit}");
            }
            for byte in 16..20 {
                assert_eq!(check(&with(&send, byte, 1), receive), format);
            }
            assert_eq!(check(&with(&send, 14, 3), receive), format);
            assert_eq!(check(&with(&send, 12, 255), receive), length);
        }
        assert_eq!(check(&with(&send, 24, 99), false), length);
        assert_eq!(check(&with(&send, 24, 99), true), Ok(()));
        let write = good(Descriptor::write(remote()));
        assert_eq!(check(&write, false), Ok(()));
        assert_eq!(check(&write, true), format);
        assert_eq!(check(&with(&write, 44, 1), false), format);
        let none = with(&Descriptor::new().encode(), 14, 1);
        assert_eq!(check(&none, false), format);
        let read = good(Descriptor::read(remote()));
        let unreliable = Rules {
            level: Level::Unreliable,
            ..rules(false)
        };
        assert_eq!(memory.sample(&read, &unreliable).map(|_| ()), format);
        let small = |receive| Rules {
            max_transfer_size: 99,
            ..rules(receive)
        };
        for receive in [false, true] {
            assert_eq!(memory.sample(&send, &small(receive)).map(|_| ()), length);
        }
    }

    /// VI-LIM-2, VI-DESC-9
    #[test]
    fn a_descriptor_has_up_to_254_segments() {
        let memory = Memory::new();
        let with = |count| {
            let descriptor = Descriptor::new();
            (0..count).fold(descriptor, |d, _| d.segment(0x10, memory.handle, 1))
        };
        for (count, result) in [(254, Ok(254)), (255, Err(Status::LENGTH_ERROR))] {
            let sampled = memory.sample(&with(count).encode(), &rules(false));
            assert_eq!(sampled.map(|(sampled, _)| sampled.total), result);
        }
    }

    /// VI-POST-3, VI-POST-8, VI-DESC-3, VI-DESC-14
    #[test]
    fn a_descriptor_is_prepared_linked_and_completed_where_it_lies() {
        let memory = Memory::new();
        let (view, posted) = (memory.regions.view(), memory.posted());
        memory.map.volatile().write_slice(&[0xee; 64], 0).unwrap();
        assert_eq!(posted.prepare(&view, TAG), Ok(0xeeee));
        assert_eq!(posted.prepare(&view, Ptag(9)), Err(Protected));
        let mut bytes = [0; 32];
        memory.map.volatile().read_slice(&mut bytes, 0).unwrap();
        assert_eq!((&bytes[..12], &bytes[28..]), (&[0; 12][..], &[0; 4][..]));
        assert_eq!(bytes[12..28], [0xee; 16]);
        for offset in 1..64 {
            let address = posted.address + offset;
            let other = Posted { address, ..posted };
            assert_eq!(other.prepare(&view, TAG), Err(Protected));
        }
        let behind = Posted {
            address: 0x40,
            ..posted
        };
        let next = Some(behind);
        let done = Completion {
            descriptor: posted.address,
            status: Status::DONE.with(Status::IMMEDIATE),
            length: 0x0102_0304,
            immediate: Some(0x0506_0708),
        };
        let altered = posted.complete_linked(&view, TAG, next, &done);
        assert_eq!(altered, Written::Altered);
        posted.link(&view, TAG, behind).unwrap();
        let altered = posted.complete_linked(&view, TAG, None, &done);
        assert_eq!(altered, Written::Altered);
        let foreign = posted.complete_linked(&view, Ptag(9), next, &done);
        assert_eq!(foreign, Written::Unreachable);
        memory.map.volatile().read_slice(&mut bytes, 0).unwrap();
        assert_eq!(
            (&bytes[20..28], &bytes[28..]),
            (&[0xee; 8][..], &[0; 4][..])
        );
        let whole = posted.complete_linked(&view, TAG, next, &done);
        assert_eq!(whole, Written::Whole);
        memory.map.volatile().read_slice(&mut bytes, 0).unwrap();
        assert_eq!(bytes[20..], [8, 7, 6, 5, 4, 3, 2, 1, 1, 0, 8, 0]);
    }

    proptest! {
        /// VI-DESC-19: pieces are the bytes of the segments, in order.
        #[test]
        fn pieces_are_the_stream_of_the_segments(lens in prop::collection::vec(0..90_u32, 0..12), skip in 0..400_u32, len in 0..400_u32) {
            let memory = Memory::new();
            let fill: Vec<u8> = (0..8192).map(|n| (n % 251) as u8).collect();
            memory.map.volatile().write_slice(&fill, 0).unwrap();
            let mut at = 0;
            let (mut places, mut stream) = (Vec::new(), Vec::<u8>::new());
            for len in lens {
                let place = Place { handle: memory.handle.0, address: (memory.posted().address + at) as u64, len };
                stream.extend(&fill[at..at + len as usize]);
                places.push(place);
                at += len as usize + 13;
            }
            let view = memory.regions.view();
            let total = stream.len() as u32;
            let (skip, len) = (skip.min(total), len.min(total - skip.min(total)));
            let mut found = Vec::new();
            let mut pieces = Pieces::new();
            collect(&mut pieces, (&view, TAG, Access::Read), &places, skip, len).unwrap();
            for piece in pieces {
                let mut bytes = vec![0; piece.len()];
                piece.copy_to(&mut bytes[..]);
                found.extend(bytes);
            }
            prop_assert_eq!(&found[..], &stream[skip as usize..(skip + len) as usize]);
        }

        /// VI-DESC-21: whatever the bytes are, the outcome is a bit or a descriptor that fits.
        #[test]
        fn any_bytes_are_a_descriptor_or_an_error(bytes in prop::collection::vec(any::<u8>(), 4096), receive: bool) {
            let memory = Memory::new();
            match memory.sample(&bytes, &rules(receive)) {
                Ok((sampled, segments)) => prop_assert!(segments.len() <= 254 && sampled.total <= 1 << 20),
                Err(status) => prop_assert!(status.is_error()),
            }
        }
    }
}
