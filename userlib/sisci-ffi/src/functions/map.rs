// SPDX-License-Identifier: MIT OR Apache-2.0

//! Maps, sequences, and transfers by the processor.

use super::{end, found, made_of, make, only, Legal};
use crate::{process::Process, sys};
use mp_c_abi::{Handle, Out, Room};
use mp_fabric::{flush_stores, Device};
use sisci::{CheckFlags, Error, Map, MapFlags, Result, SequenceStatus};

/// A part of a segment, and where it is to be mapped.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub offset: usize,
    pub size: usize,
    pub address: usize,
}

fn map_flags(flags: u32) -> MapFlags {
    MapFlags {
        fixed: flags & sys::SCI_FLAG_FIXED_MAP_ADDR != 0,
        read_only: flags & sys::SCI_FLAG_READONLY_MAP != 0,
    }
}

/// Enter a map: its address.
fn enter_map<D: Device>(
    process: &Process<D>,
    out: Out<Handle>,
    map: impl FnOnce() -> Result<Map<D>>,
) -> Result<usize> {
    let mut address = 0;
    make(&process.maps, out, || {
        let map = map()?;
        address = map.address();
        Ok(map)
    })?;
    Ok(address)
}

/// `SCIMapLocalSegment`
pub fn map_local_segment<D: Device>(
    process: &Process<D>,
    segment: Handle,
    out: Out<Handle>,
    part: Part,
    flags: u32,
) -> Result<usize> {
    let segment = made_of(process, &process.local_segments, segment, out)?;
    only(
        flags,
        sys::SCI_FLAG_FIXED_MAP_ADDR | sys::SCI_FLAG_READONLY_MAP,
    )?;
    enter_map(process, out, || {
        segment.map(part.offset, part.size, part.address, map_flags(flags))
    })
}

/// `SCIMapRemoteSegment`
pub fn map_remote_segment<D: Device>(
    process: &Process<D>,
    segment: Handle,
    out: Out<Handle>,
    part: Part,
    flags: u32,
) -> Result<usize> {
    let segment = made_of(process, &process.remote_segments, segment, out)?;
    let unbuilt = sys::SCI_FLAG_IO_MAP_IOSPACE;
    // All maps of a window are of the same memory: sharing makes no difference.
    let built =
        sys::SCI_FLAG_FIXED_MAP_ADDR | sys::SCI_FLAG_READONLY_MAP | sys::SCI_FLAG_SHARED_MAP;
    only(flags, built | unbuilt)?;
    if flags & unbuilt != 0 {
        return Err(Error::FlagNotImplemented);
    }
    enter_map(process, out, || {
        segment.map(part.offset, part.size, part.address, map_flags(flags))
    })
}

/// `SCIUnmapSegment`
pub fn unmap_segment<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    end(process, &process.maps, handle, flags, |map| map.unmap())
}

/// `SCIGetMapPointer`
pub fn map_pointer<D: Device>(process: &Process<D>, map: Handle) -> Result<usize> {
    process.ready()?;
    Ok(process.maps.get(map).legal()?.address())
}

/// `SCIGetMapPhysAddr`
pub fn map_physical_address<D: Device>(process: &Process<D>, map: Handle) -> Result<u64> {
    process.ready()?;
    Ok(process
        .maps
        .get(map)
        .legal()?
        .physical_address()
        .unwrap_or(0))
}

/// `SCICreateMapSequence`
pub fn create_map_sequence<D: Device>(
    process: &Process<D>,
    map: Handle,
    out: Out<Handle>,
    flags: u32,
) -> Result<()> {
    let map = made_of(process, &process.maps, map, out)?;
    only(flags, 0)?;
    make(&process.sequences, out, || map.sequence())
}

/// `SCIRemoveSequence`
pub fn remove_sequence<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    end(process, &process.sequences, handle, flags, |sequence| {
        sequence.remove()
    })
}

/// A status, and the error beside it.
type Checked = (u32, Result<()>);

fn checked((status, result): (SequenceStatus, Result<()>)) -> Checked {
    (status as u32, result)
}

fn pending(error: Error) -> Checked {
    (sys::SCI_SEQ_PENDING, Err(error))
}

/// `SCIStartSequence`
pub fn start_sequence<D: Device>(process: &Process<D>, sequence: Handle, flags: u32) -> Checked {
    let found = process.ready().and_then(|()| {
        let sequence = process.sequences.get(sequence).legal()?;
        only(flags, 0)?;
        Ok(sequence)
    });
    found.map_or_else(pending, |sequence| checked(sequence.start()))
}

/// `SCICheckSequence`
pub fn check_sequence<D: Device>(process: &Process<D>, sequence: Handle, flags: u32) -> Checked {
    let found = process.ready().and_then(|()| {
        let sequence = process.sequences.get(sequence).legal()?;
        only(
            flags,
            sys::SCI_FLAG_NO_FLUSH | sys::SCI_FLAG_NO_STORE_BARRIER,
        )?;
        Ok(sequence)
    });
    let flags = CheckFlags {
        no_flush: flags & sys::SCI_FLAG_NO_FLUSH != 0,
        no_store_barrier: flags & sys::SCI_FLAG_NO_STORE_BARRIER != 0,
    };
    found.map_or_else(pending, |sequence| checked(sequence.check(flags)))
}

/// `SCIStoreBarrier`
pub fn store_barrier<D: Device>(process: &Process<D>, sequence: Handle, flags: u32) -> Result<()> {
    let sequence = found(process, &process.sequences, sequence, flags, 0)?;
    sequence.store_barrier();
    Ok(())
}

/// `SCIFlush`, which looks at nothing.
pub fn flush<D: Device>(_process: &Process<D>) -> Result<()> {
    flush_stores();
    Ok(())
}

/// `SCIMemWrite`
pub fn mem_write<D: Device>(
    process: &Process<D>,
    from: Room<u8>,
    to: Room<u8>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let (from, to) = (from.required().legal()?, to.required().legal()?);
    only(flags, sys::SCI_FLAG_WRITE_BACK_CACHE_MAP)?;
    if flags != 0 {
        return Err(Error::FlagNotImplemented);
    }
    from.volatile()
        .legal()?
        .copy_to_volatile_slice(to.volatile().legal()?);
    flush_stores();
    Ok(())
}

/// `SCIMemCpy`
pub fn mem_cpy<D: Device>(
    process: &Process<D>,
    sequence: Handle,
    memory: Room<u8>,
    map: Handle,
    offset: usize,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let map = process.maps.get(map).legal()?;
    let memory = memory.required().legal()?;
    only(flags, sys::SCI_FLAG_BLOCK_READ | sys::SCI_FLAG_ERROR_CHECK)?;
    let sequence = match flags & sys::SCI_FLAG_ERROR_CHECK {
        0 => None,
        _ => Some(process.sequences.get(sequence).legal()?),
    };
    match flags & sys::SCI_FLAG_BLOCK_READ {
        0 => map.write(sequence.as_ref(), offset, memory.volatile().legal()?),
        _ => map.read(sequence.as_ref(), offset, memory.volatile().legal()?),
    }
}

/// `SCICacheSync`: caches are coherent with all devices, so only the flags matter.
pub fn cache_sync<D: Device>(process: &Process<D>, flags: u32) -> Result<()> {
    process.ready()?;
    let taken = sys::SCI_FLAG_CACHE_FLUSH | sys::SCI_FLAG_CACHE_INVALIDATE;
    only(flags, taken).map_err(|_| Error::IllegalOperation)
}
