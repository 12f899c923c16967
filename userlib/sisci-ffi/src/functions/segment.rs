// SPDX-License-Identifier: MIT OR Apache-2.0

//! Local segments.

use super::{found, make_armed, maker, only, wanted, Legal};
use crate::{process::Process, sys};
use mp_c_abi::{Handle, Out};
use mp_fabric::{Device, PhysicalRange, ProcessMemory};
use sisci::{Error, LocalEvent, LocalSegment, NewSegment, Removal, Result, Unavailable};

/// Runs a callback of a local segment.
pub type LocalCallback = Box<dyn Fn(Handle, LocalEvent) -> sisci::Action + Send>;

/// `SCICreateSegment`
pub fn create_segment<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Out<Handle>,
    id: u32,
    size: usize,
    callback: Option<LocalCallback>,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    let broadcast = sys::SCI_FLAG_BROADCAST | sys::SCI_FLAG_ALLOW_UNICAST;
    let unbuilt = sys::SCI_FLAG_DMA_GLOBAL;
    let built = sys::SCI_FLAG_USE_CALLBACK
        | sys::SCI_FLAG_PRIVATE
        | sys::SCI_FLAG_AUTO_ID
        | sys::SCI_FLAG_EMPTY;
    only(flags, built | unbuilt | broadcast)?;
    if flags & broadcast == sys::SCI_FLAG_ALLOW_UNICAST {
        return Err(Error::IllegalFlag);
    }
    if flags & broadcast != 0 {
        return Err(Error::NotSupported);
    }
    if flags & unbuilt != 0 {
        return Err(Error::FlagNotImplemented);
    }
    let callback = wanted(flags, callback)?;
    let new = NewSegment {
        id,
        size,
        private: flags & sys::SCI_FLAG_PRIVATE != 0,
        auto_id: flags & sys::SCI_FLAG_AUTO_ID != 0,
        empty: flags & sys::SCI_FLAG_EMPTY != 0,
    };
    let make = || desc.create_segment(new);
    make_armed(&process.local_segments, out, make, arm(callback))
}

/// Let the events of a segment run a callback, if there is one.
fn arm<D: Device>(
    callback: Option<LocalCallback>,
) -> impl FnOnce(&LocalSegment<D>, Handle) -> Result<()> {
    move |segment, handle| {
        callback.map_or(Ok(()), |callback| {
            segment.set_callback(move |event| callback(handle, event))
        })
    }
}

/// `SCIAttachLocalSegment`
pub fn attach_local_segment<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Out<Handle>,
    id: u32,
    size: Out<usize>,
    callback: Option<LocalCallback>,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    size.required().legal()?;
    only(flags, sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_BROADCAST)?;
    if flags & sys::SCI_FLAG_BROADCAST != 0 {
        return Err(Error::NotSupported);
    }
    let callback = wanted(flags, callback)?;
    let make = || {
        let segment = desc.attach_segment(id)?;
        size.write(segment.size());
        Ok(segment)
    };
    make_armed(&process.local_segments, out, make, arm(callback))
}

/// A local segment, for a function that takes such flags.
fn local<D: Device>(
    process: &Process<D>,
    segment: Handle,
    flags: u32,
    taken: u32,
) -> Result<LocalSegment<D>> {
    found(process, &process.local_segments, segment, flags, taken)
}

/// `SCIRegisterSegmentMemory`
pub fn register_segment_memory<D: Device>(
    process: &Process<D>,
    segment: Handle,
    memory: ProcessMemory<'_>,
    flags: u32,
) -> Result<()> {
    // Memory is pinned at once, with the flag or without.
    local(process, segment, flags, sys::SCI_FLAG_LOCK_USER_MEM)?.register(memory)
}

/// `SCIAttachPhysicalMemory`; of use on this platform is only the address on the bus.
pub fn attach_physical_memory<D: Device>(
    process: &Process<D>,
    segment: Handle,
    range: PhysicalRange,
    bus: u32,
    flags: u32,
) -> Result<()> {
    let unbuilt = sys::SCI_FLAG_CUDA_BUFFER | sys::SCI_FLAG_SCIF_BUFFER;
    let segment = local(process, segment, flags, unbuilt)?;
    if flags != 0 {
        return Err(Error::FlagNotImplemented);
    }
    if bus != 0 {
        return Err(Error::IllegalParameter);
    }
    segment.attach_physical(range)
}

/// `SCIShareSegment`
pub fn share_segment<D: Device>(process: &Process<D>, segment: Handle, flags: u32) -> Result<()> {
    local(process, segment, flags, 0)?.share()
}

/// `SCIPrepareSegment`
pub fn prepare_segment<D: Device>(
    process: &Process<D>,
    segment: Handle,
    adapter: u32,
    flags: u32,
) -> Result<()> {
    let segment = local(process, segment, flags, sys::SCI_FLAG_DMA_SOURCE_ONLY)?;
    match flags & sys::SCI_FLAG_DMA_SOURCE_ONLY {
        0 => segment.prepare(adapter),
        // Nobody maps it.
        _ => segment.prepare_for_transfers(adapter),
    }
}

/// `SCISetSegmentAvailable`
pub fn set_segment_available<D: Device>(
    process: &Process<D>,
    segment: Handle,
    adapter: u32,
    flags: u32,
) -> Result<()> {
    local(process, segment, flags, 0)?.set_available(adapter)
}

/// `SCISetSegmentUnavailable`
pub fn set_segment_unavailable<D: Device>(
    process: &Process<D>,
    segment: Handle,
    adapter: u32,
    flags: u32,
) -> Result<()> {
    let taken = sys::SCI_FLAG_NOTIFY | sys::SCI_FLAG_FORCE_DISCONNECT;
    let segment = local(process, segment, flags, taken)?;
    let how = if flags & sys::SCI_FLAG_FORCE_DISCONNECT != 0 {
        Unavailable::Force
    } else if flags & sys::SCI_FLAG_NOTIFY != 0 {
        Unavailable::Notify
    } else {
        Unavailable::Quiet
    };
    segment.set_unavailable(adapter, how)
}

/// `SCIRemoveSegment`
pub fn remove_segment<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    let segment = local(process, handle, flags, sys::SCI_FLAG_FORCE_REMOVE)?;
    segment.remove(match flags {
        0 => Removal::Unused,
        _ => Removal::Force,
    })?;
    process.local_segments.forget(handle);
    Ok(())
}

/// `SCIWaitForLocalSegmentEvent`
pub fn wait_for_local_segment_event<D: Device>(
    process: &Process<D>,
    segment: Handle,
    node: Out<u32>,
    adapter: Out<u32>,
    timeout: u32,
    flags: u32,
) -> Result<u32> {
    let event = local(process, segment, flags, 0)?.wait(timeout)?;
    node.write(event.node);
    adapter.write(event.adapter);
    Ok(event.reason as u32)
}

/// `SCIGetLocalSegmentSize`
pub fn local_segment_size<D: Device>(process: &Process<D>, segment: Handle) -> Result<usize> {
    Ok(local(process, segment, 0, 0)?.size())
}

/// `SCIGetLocalSegmentId`
pub fn local_segment_id<D: Device>(process: &Process<D>, segment: Handle) -> Result<u32> {
    Ok(local(process, segment, 0, 0)?.id())
}
