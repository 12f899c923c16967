// SPDX-License-Identifier: GPL-2.0

//! What each function does. All look at things in the same order (SI-GEN-9): whether the library
//! is initialized, handles and pointers, flags, and then what the crate `sisci` looks at.

use crate::{
    buffer::{Array, Bytes, Output},
    process::Process,
    sys,
    table::{Handle, Table},
};
use mp_fabric::{flush_stores, Device};
use sisci::{
    CheckFlags, Desc, DmaQueue, DmaSource, DmaState, Error, InterruptFlags, LocalEvent,
    LocalSegment, Map, MapFlags, NewSegment, Piece, Reason, RemoteSegment, Result, SequenceStatus,
    Unavailable, BROADCAST_NODE,
};

/// Refuses flags that a function does not take.
pub fn only(flags: u32, taken: u32) -> Result<()> {
    match flags & !taken {
        0 => Ok(()),
        _ => Err(Error::IllegalFlag),
    }
}

/// A callback, if there is to be one; without the flag none is looked at.
fn wanted<C>(flags: u32, callback: Option<C>) -> Result<Option<C>> {
    match flags & sys::SCI_FLAG_USE_CALLBACK {
        0 => Ok(None),
        _ => callback.ok_or(Error::IllegalParameter).map(Some),
    }
}

/// Makes an object and the handle for it, which a callback gets before anybody else.
fn make<T: Clone>(
    table: &Table<T>,
    out: Output<Handle>,
    make: impl FnOnce(Handle) -> Result<T>,
) -> Result<()> {
    let handle = table.reserve()?;
    table.enter(handle, make(handle)?);
    out.write(handle);
    Ok(())
}

/// `SCIInitialize`
pub fn initialize<D: Device>(process: &Process<D>, flags: u32) -> Result<()> {
    only(flags, 0)?;
    process.initialize();
    Ok(())
}

/// `SCIOpen`
pub fn open<D: Device>(process: &Process<D>, out: Output<Handle>, flags: u32) -> Result<()> {
    process.ready()?;
    out.required()?;
    only(flags, 0)?;
    make(&process.descs, out, |_| process.library()?.open())
}

/// `SCIClose`
pub fn close<D: Device>(process: &Process<D>, desc: Handle, flags: u32) -> Result<()> {
    process.ready()?;
    let open = process.descs.get(desc)?;
    only(flags, 0)?;
    open.close()?;
    process.descs.forget(desc);
    Ok(())
}

/// A function that this library does not have: flags are looked at all the same.
pub fn missing<D: Device>(process: &Process<D>, flags: u32, taken: u32) -> Result<()> {
    process.ready()?;
    only(flags, taken)?;
    Err(Error::NotImplemented)
}

/// The descriptor and the out-pointer of a function that makes something.
fn maker<D: Device>(process: &Process<D>, desc: Handle, out: Output<Handle>) -> Result<Desc<D>> {
    process.ready()?;
    let desc = process.descs.get(desc)?;
    out.required()?;
    Ok(desc)
}

/// Runs a callback of a local segment.
pub type LocalCallback = Box<dyn Fn(Handle, LocalEvent) -> sisci::Action + Send>;

/// `SCICreateSegment`
pub fn create_segment<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Output<Handle>,
    id: u32,
    size: usize,
    callback: Option<LocalCallback>,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    let broadcast = sys::SCI_FLAG_BROADCAST | sys::SCI_FLAG_ALLOW_UNICAST;
    let unbuilt = sys::SCI_FLAG_EMPTY | sys::SCI_FLAG_DMA_GLOBAL;
    let built = sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_PRIVATE | sys::SCI_FLAG_AUTO_ID;
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
    };
    make(&process.local_segments, out, |handle| {
        desc.create_segment(new, callback.map(|c| local_callback(c, handle)))
    })
}

fn local_callback(
    callback: LocalCallback,
    handle: Handle,
) -> Box<dyn FnMut(LocalEvent) -> sisci::Action + Send> {
    Box::new(move |event| callback(handle, event))
}

/// `SCIAttachLocalSegment`
pub fn attach_local_segment<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Output<Handle>,
    id: u32,
    size: Output<usize>,
    callback: Option<LocalCallback>,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    size.required()?;
    only(flags, sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_BROADCAST)?;
    if flags & sys::SCI_FLAG_BROADCAST != 0 {
        return Err(Error::NotSupported);
    }
    let callback = wanted(flags, callback)?;
    make(&process.local_segments, out, |handle| {
        let callback = callback.map(|c| local_callback(c, handle));
        let segment = desc.attach_segment(id, callback)?;
        size.write(segment.size());
        Ok(segment)
    })
}

/// A local segment, for a function that takes such flags.
fn local<D: Device>(
    process: &Process<D>,
    segment: Handle,
    flags: u32,
    taken: u32,
) -> Result<LocalSegment<D>> {
    process.ready()?;
    let segment = process.local_segments.get(segment)?;
    only(flags, taken)?;
    Ok(segment)
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
    // That it is only the source of transfers makes no difference.
    local(process, segment, flags, sys::SCI_FLAG_DMA_SOURCE_ONLY)?.prepare(adapter)
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
    segment.remove(flags & sys::SCI_FLAG_FORCE_REMOVE != 0)?;
    process.local_segments.forget(handle);
    Ok(())
}

/// `SCIWaitForLocalSegmentEvent`
pub fn wait_for_local_segment_event<D: Device>(
    process: &Process<D>,
    segment: Handle,
    node: Output<u32>,
    adapter: Output<u32>,
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

/// Enters a map: its address.
fn enter_map<D: Device>(
    process: &Process<D>,
    out: Output<Handle>,
    map: impl FnOnce() -> Result<Map<D>>,
) -> Result<usize> {
    let mut address = 0;
    make(&process.maps, out, |_| {
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
    out: Output<Handle>,
    part: Part,
    flags: u32,
) -> Result<usize> {
    process.ready()?;
    let segment = process.local_segments.get(segment)?;
    out.required()?;
    only(
        flags,
        sys::SCI_FLAG_FIXED_MAP_ADDR | sys::SCI_FLAG_READONLY_MAP,
    )?;
    enter_map(process, out, || {
        segment.map(part.offset, part.size, part.address, map_flags(flags))
    })
}

/// Runs a callback of a remote segment.
pub type RemoteCallback = Box<dyn Fn(Handle, Reason) -> sisci::Action + Send>;

/// Where something is that a function connects to.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub node: u32,
    pub adapter: u32,
    pub number: u32,
    pub timeout: u32,
}

/// `SCIConnectSegment`
pub fn connect_segment<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Output<Handle>,
    place: Place,
    callback: Option<RemoteCallback>,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    let unbuilt = sys::SCI_FLAG_ASYNCHRONOUS_CONNECT;
    only(
        flags,
        sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_BROADCAST | unbuilt,
    )?;
    if flags & sys::SCI_FLAG_BROADCAST != 0 {
        desc.adapter(place.adapter)?;
        return Err(match place.node {
            BROADCAST_NODE => Error::NotSupported,
            _ => Error::IllegalNodeId,
        });
    }
    if flags & unbuilt != 0 {
        return Err(Error::FlagNotImplemented);
    }
    let callback = wanted(flags, callback)?;
    make(&process.remote_segments, out, |handle| {
        let callback = callback.map(|callback| {
            let run = move |event: sisci::RemoteEvent| callback(handle, event.reason);
            Box::new(run) as Box<dyn FnMut(sisci::RemoteEvent) -> sisci::Action + Send>
        });
        let Place {
            node,
            adapter,
            number,
            timeout,
        } = place;
        desc.connect_segment(node, number, adapter, timeout, callback)
    })
}

/// A remote segment, for a function that takes no flags.
fn remote<D: Device>(
    process: &Process<D>,
    segment: Handle,
    flags: u32,
) -> Result<RemoteSegment<D>> {
    process.ready()?;
    let segment = process.remote_segments.get(segment)?;
    only(flags, 0)?;
    Ok(segment)
}

/// `SCIDisconnectSegment`
pub fn disconnect_segment<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    remote(process, handle, flags)?.disconnect()?;
    process.remote_segments.forget(handle);
    Ok(())
}

/// `SCIGetRemoteSegmentSize`
pub fn remote_segment_size<D: Device>(process: &Process<D>, segment: Handle) -> Result<usize> {
    Ok(remote(process, segment, 0)?.size())
}

/// `SCIGetRemoteSegmentId`
pub fn remote_segment_id<D: Device>(process: &Process<D>, segment: Handle) -> Result<u32> {
    Ok(remote(process, segment, 0)?.id())
}

/// `SCIGetRemoteSegmentNodeId`
pub fn remote_segment_node<D: Device>(process: &Process<D>, segment: Handle) -> Result<u32> {
    Ok(remote(process, segment, 0)?.node())
}

/// The number of a result.
pub fn code(result: Result<()>) -> u32 {
    result.map_or_else(Error::code, |()| sys::SCI_ERR_OK)
}

/// `SCIWaitForRemoteSegmentEvent`
pub fn wait_for_remote_segment_event<D: Device>(
    process: &Process<D>,
    segment: Handle,
    status: Output<u32>,
    timeout: u32,
    flags: u32,
) -> Result<u32> {
    let event = remote(process, segment, flags)?.wait(timeout)?;
    status.write(code(event.reason.status()));
    Ok(event.reason as u32)
}

/// `SCIMapRemoteSegment`
pub fn map_remote_segment<D: Device>(
    process: &Process<D>,
    segment: Handle,
    out: Output<Handle>,
    part: Part,
    flags: u32,
) -> Result<usize> {
    process.ready()?;
    let segment = process.remote_segments.get(segment)?;
    out.required()?;
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
    process.ready()?;
    let map = process.maps.get(handle)?;
    only(flags, 0)?;
    map.unmap()?;
    process.maps.forget(handle);
    Ok(())
}

/// `SCIGetMapPointer`
pub fn map_pointer<D: Device>(process: &Process<D>, map: Handle) -> Result<usize> {
    process.ready()?;
    Ok(process.maps.get(map)?.address())
}

/// `SCICreateMapSequence`
pub fn create_map_sequence<D: Device>(
    process: &Process<D>,
    map: Handle,
    out: Output<Handle>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let map = process.maps.get(map)?;
    out.required()?;
    only(flags, 0)?;
    make(&process.sequences, out, |_| map.sequence())
}

/// `SCIRemoveSequence`
pub fn remove_sequence<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    process.ready()?;
    let sequence = process.sequences.get(handle)?;
    only(flags, 0)?;
    sequence.remove()?;
    process.sequences.forget(handle);
    Ok(())
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
        let sequence = process.sequences.get(sequence)?;
        only(flags, 0)?;
        Ok(sequence)
    });
    found.map_or_else(pending, |sequence| checked(sequence.start()))
}

/// `SCICheckSequence`
pub fn check_sequence<D: Device>(process: &Process<D>, sequence: Handle, flags: u32) -> Checked {
    let found = process.ready().and_then(|()| {
        let sequence = process.sequences.get(sequence)?;
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
    process.ready()?;
    let sequence = process.sequences.get(sequence)?;
    only(flags, 0)?;
    sequence.store_barrier();
    Ok(())
}

/// `SCIMemWrite`
pub fn mem_write<D: Device>(
    process: &Process<D>,
    from: Bytes,
    to: Bytes,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let (from, to) = (from.required()?, to.required()?);
    only(flags, sys::SCI_FLAG_WRITE_BACK_CACHE_MAP)?;
    if flags != 0 {
        return Err(Error::FlagNotImplemented);
    }
    from.volatile()?.copy_to_volatile_slice(to.volatile()?);
    flush_stores();
    Ok(())
}

/// `SCIMemCpy`
pub fn mem_cpy<D: Device>(
    process: &Process<D>,
    sequence: Option<Handle>,
    memory: Bytes,
    map: Handle,
    offset: usize,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let map = process.maps.get(map)?;
    let memory = memory.required()?;
    only(flags, sys::SCI_FLAG_BLOCK_READ | sys::SCI_FLAG_ERROR_CHECK)?;
    let sequence = match flags & sys::SCI_FLAG_ERROR_CHECK {
        0 => None,
        _ => Some(
            process
                .sequences
                .get(sequence.ok_or(Error::IllegalParameter)?)?,
        ),
    };
    match flags & sys::SCI_FLAG_BLOCK_READ {
        0 => map.write(sequence.as_ref(), offset, memory.volatile()?),
        _ => map.read(sequence.as_ref(), offset, memory.volatile()?),
    }
}

/// `SCICacheSync`: caches are coherent with all devices, so only the flags matter.
pub fn cache_sync<D: Device>(process: &Process<D>, flags: u32) -> Result<()> {
    process.ready()?;
    let taken = sys::SCI_FLAG_CACHE_FLUSH | sys::SCI_FLAG_CACHE_INVALIDATE;
    only(flags, taken).map_err(|_| Error::IllegalOperation)
}

/// `SCICreateDMAQueue`
pub fn create_dma_queue<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Output<Handle>,
    adapter: u32,
    entries: u32,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    only(flags, 0)?;
    make(&process.dma_queues, out, |_| {
        desc.create_dma_queue(adapter, entries)
    })
}

/// A queue, for a function that takes no flags.
fn queue<D: Device>(process: &Process<D>, queue: Handle, flags: u32) -> Result<DmaQueue<D>> {
    process.ready()?;
    let queue = process.dma_queues.get(queue)?;
    only(flags, 0)?;
    Ok(queue)
}

/// `SCIRemoveDMAQueue`
pub fn remove_dma_queue<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    queue(process, handle, flags)?.remove()?;
    process.dma_queues.forget(handle);
    Ok(())
}

/// Runs the callback of a queue.
pub type DmaCallback = Box<dyn FnOnce(Handle, Result<()>) + Send>;

/// Where a transfer comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    Segment(Handle),
    Memory(Bytes),
}

/// The pieces of a transfer.
#[derive(Clone, Copy, Debug)]
pub enum Pieces {
    One(Piece),
    Vector(Array<sys::dis_dma_vec_t>),
}

impl Pieces {
    fn list(self, entries: usize) -> Result<Vec<Piece>> {
        let vector = match self {
            Pieces::One(piece) => return Ok(vec![piece]),
            Pieces::Vector(vector) => vector,
        };
        if vector.len() == 0 || vector.len() > entries {
            return Err(Error::MaxEntries);
        }
        let list = vector.copy()?;
        if list.iter().any(|entry| entry.flags != 0) {
            return Err(Error::IllegalFlag);
        }
        let pieces = list.iter().map(|entry| Piece {
            local: entry.local_offset as usize,
            remote: entry.remote_offset as usize,
            size: entry.size as usize,
        });
        Ok(pieces.collect())
    }
}

/// `SCIStartDmaTransfer`, `SCIStartDmaTransferMem`, `SCIStartDmaTransferVec`
pub fn start_dma<D: Device>(
    process: &Process<D>,
    handle: Handle,
    source: Source,
    remote: Handle,
    pieces: Pieces,
    callback: Option<DmaCallback>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let queue = process.dma_queues.get(handle)?;
    let segment = match source {
        Source::Segment(segment) => Some(process.local_segments.get(segment)?),
        Source::Memory(memory) => {
            memory.required()?;
            None
        }
    };
    let remote = process.remote_segments.get(remote)?;
    dma_flags(flags)?;
    let callback = wanted(flags, callback)?;
    let pieces = pieces.list(sisci::VECTOR_MAX as usize)?;
    let source = match (&segment, source) {
        (Some(segment), _) => DmaSource::Segment(segment),
        (None, Source::Memory(memory)) => DmaSource::Memory(memory.address()),
        (None, Source::Segment(_)) => return Err(Error::IllegalParameter),
    };
    let callback = callback.map(|callback| {
        let run = move |status| callback(handle, status);
        Box::new(run) as Box<dyn FnOnce(Result<()>) + Send>
    });
    let waits = flags & sys::SCI_FLAG_DMA_WAIT != 0 && callback.is_none();
    queue.start(source, &remote, &pieces, callback)?;
    match waits {
        true => queue.wait(sisci::INFINITE)?.status(),
        false => Ok(()),
    }
}

/// Which ways of copying there are: that of the system, which is also the default one.
fn dma_flags(flags: u32) -> Result<()> {
    let modes = sys::SCI_FLAG_DMA_GLOBAL | sys::SCI_FLAG_DMA_SYSDMA | sys::SCI_FLAG_DMA_ADAPTER;
    let others = sys::SCI_FLAG_USE_CALLBACK
        | sys::SCI_FLAG_DMA_READ
        | sys::SCI_FLAG_DMA_WAIT
        | sys::SCI_FLAG_BROADCAST;
    only(flags, modes | others)?;
    if (flags & modes).count_ones() > 1 {
        return Err(Error::IllegalFlag);
    }
    if flags & sys::SCI_FLAG_BROADCAST != 0 {
        return Err(Error::NotSupported);
    }
    if flags & sys::SCI_FLAG_DMA_READ != 0 {
        return Err(Error::FlagNotImplemented);
    }
    match flags & modes {
        0 | sys::SCI_FLAG_DMA_SYSDMA => Ok(()),
        _ => Err(Error::DmaNotAvailable),
    }
}

/// `SCIDMAQueueState`
pub fn dma_queue_state<D: Device>(process: &Process<D>, handle: Handle) -> Result<u32> {
    Ok(queue(process, handle, 0)?.state()? as u32)
}

/// `SCIWaitForDMAQueue`
pub fn wait_for_dma_queue<D: Device>(
    process: &Process<D>,
    handle: Handle,
    timeout: u32,
    flags: u32,
) -> Result<u32> {
    let state: DmaState = queue(process, handle, flags)?.wait(timeout)?;
    Ok(state as u32)
}

/// `SCIAbortDMAQueue`
pub fn abort_dma_queue<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    queue(process, handle, flags)?.abort()
}

/// Runs a callback of an interrupt.
pub type InterruptCallback = Box<dyn Fn(Handle) -> sisci::Action + Send>;
/// Runs a callback of an interrupt with a message.
pub type DataCallback = Box<dyn Fn(Handle, &[u8]) -> sisci::Action + Send>;

fn interrupt_flags(flags: u32, number: Output<u32>) -> Result<InterruptFlags> {
    Ok(InterruptFlags {
        number: match flags & sys::SCI_FLAG_FIXED_INTNO {
            0 => None,
            _ => Some(number.read()?),
        },
        shared: flags & sys::SCI_FLAG_SHARED_INT != 0,
        counting: flags & sys::SCI_FLAG_COUNTING_INT != 0,
    })
}

/// What is looked at when an interrupt is made: the device, and how it is to be.
fn interrupt_maker<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Output<Handle>,
    number: Output<u32>,
    flags: u32,
    taken: u32,
) -> Result<(Desc<D>, InterruptFlags)> {
    let desc = maker(process, desc, out)?;
    number.required()?;
    let common = sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_FIXED_INTNO | sys::SCI_FLAG_SHARED_INT;
    only(flags, common | taken)?;
    Ok((desc, interrupt_flags(flags, number)?))
}

/// `SCICreateInterrupt`
pub fn create_interrupt<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Output<Handle>,
    adapter: u32,
    number: Output<u32>,
    callback: Option<InterruptCallback>,
    flags: u32,
) -> Result<()> {
    let counting = sys::SCI_FLAG_COUNTING_INT;
    let (desc, how) = interrupt_maker(process, desc, out, number, flags, counting)?;
    let callback = wanted(flags, callback)?;
    make(&process.local_interrupts, out, |handle| {
        let callback = callback.map(|callback| {
            let run = move || callback(handle);
            Box::new(run) as Box<dyn FnMut() -> sisci::Action + Send>
        });
        let interrupt = desc.create_interrupt(adapter, how, callback)?;
        number.write(interrupt.number());
        Ok(interrupt)
    })
}

/// `SCIRemoveInterrupt`
pub fn remove_interrupt<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    process.ready()?;
    let interrupt = process.local_interrupts.get(handle)?;
    only(flags, 0)?;
    interrupt.remove()?;
    process.local_interrupts.forget(handle);
    Ok(())
}

/// `SCIWaitForInterrupt`
pub fn wait_for_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    timeout: u32,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let interrupt = process.local_interrupts.get(handle)?;
    only(flags, 0)?;
    interrupt.wait(timeout)
}

/// `SCIConnectInterrupt`
pub fn connect_interrupt<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Output<Handle>,
    place: Place,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    only(flags, sys::SCI_FLAG_COUNTING_INT)?;
    make(&process.remote_interrupts, out, |_| {
        let Place {
            node,
            adapter,
            number,
            timeout,
        } = place;
        desc.connect_interrupt(node, adapter, number, timeout, flags != 0)
    })
}

/// `SCIDisconnectInterrupt`
pub fn disconnect_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let interrupt = process.remote_interrupts.get(handle)?;
    only(flags, 0)?;
    interrupt.disconnect()?;
    process.remote_interrupts.forget(handle);
    Ok(())
}

/// `SCITriggerInterrupt`
pub fn trigger_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let interrupt = process.remote_interrupts.get(handle)?;
    only(flags, 0)?;
    interrupt.trigger()
}

/// `SCICreateDataInterrupt`
pub fn create_data_interrupt<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Output<Handle>,
    adapter: u32,
    number: Output<u32>,
    callback: Option<DataCallback>,
    flags: u32,
) -> Result<()> {
    let (desc, how) = interrupt_maker(process, desc, out, number, flags, 0)?;
    let callback = wanted(flags, callback)?;
    make(&process.local_data_interrupts, out, |handle| {
        let callback = callback.map(|callback| {
            let run = move |data: &[u8]| callback(handle, data);
            Box::new(run) as Box<dyn FnMut(&[u8]) -> sisci::Action + Send>
        });
        let interrupt = desc.create_data_interrupt(adapter, how, callback)?;
        number.write(interrupt.number());
        Ok(interrupt)
    })
}

/// `SCIRemoveDataInterrupt`
pub fn remove_data_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let interrupt = process.local_data_interrupts.get(handle)?;
    only(flags, 0)?;
    interrupt.remove()?;
    process.local_data_interrupts.forget(handle);
    Ok(())
}

/// `SCIWaitForDataInterrupt`; the room at the buffer is made of what its length says.
pub fn wait_for_data_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    buffer: Bytes,
    length: Output<u32>,
    timeout: u32,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let interrupt = process.local_data_interrupts.get(handle)?;
    length.required()?;
    buffer.required()?;
    only(flags, 0)?;
    let mut room = vec![0; buffer.len().min(sisci::MESSAGE_MAX)];
    match interrupt.wait(&mut room, timeout)? {
        Ok(len) => {
            buffer.fill(room.get(..len).unwrap_or_default());
            length.write(len as u32);
            Ok(())
        }
        Err(needed) => {
            length.write(needed as u32);
            Err(Error::OutOfRange)
        }
    }
}

/// `SCIConnectDataInterrupt`
pub fn connect_data_interrupt<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Output<Handle>,
    place: Place,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    only(flags, sys::SCI_FLAG_BROADCAST)?;
    make(&process.remote_data_interrupts, out, |_| {
        let Place {
            node,
            adapter,
            number,
            timeout,
        } = place;
        match flags {
            0 => desc.connect_data_interrupt(node, adapter, number, timeout),
            _ => desc.connect_data_interrupts(node, adapter, number, timeout),
        }
    })
}

/// `SCIDisconnectDataInterrupt`
pub fn disconnect_data_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let interrupt = process.remote_data_interrupts.get(handle)?;
    only(flags, 0)?;
    interrupt.disconnect()?;
    process.remote_data_interrupts.forget(handle);
    Ok(())
}

/// `SCITriggerDataInterrupt`
pub fn trigger_data_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    data: Bytes,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let interrupt = process.remote_data_interrupts.get(handle)?;
    data.required()?;
    only(flags, 0)?;
    if data.len() > sisci::MESSAGE_MAX {
        return Err(Error::OutOfRange);
    }
    interrupt.trigger(&data.copy()?)
}

/// `SCIProbeNode`
pub fn probe_node<D: Device>(
    process: &Process<D>,
    desc: Handle,
    adapter: u32,
    node: u32,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let desc = process.descs.get(desc)?;
    only(flags, 0)?;
    desc.probe(adapter, node)
}

/// `SCIGetLocalNodeId`
pub fn local_node_id<D: Device>(
    process: &Process<D>,
    adapter: u32,
    node: Output<u32>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    node.required()?;
    only(flags, 0)?;
    node.write(process.library()?.open()?.local_node(adapter)?);
    Ok(())
}

/// Slots of a list of nodes.
pub type Slots = [u32; sys::DIS_MAX_NSCIS as usize];

/// `SCIGetNodeIdByAdapterName`, `SCIGetNodeInfoByAdapterName`
pub fn nodes_by_name<D: Device>(
    process: &Process<D>,
    name: Option<&str>,
    adapters: Option<Output<Slots>>,
    nodes: Output<Slots>,
    kind: Output<u32>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let name = name.ok_or(Error::IllegalParameter)?;
    nodes.required()?;
    adapters.map_or(Ok(()), |out| out.required().map(|_| ()))?;
    only(flags, 0)?;
    let library = process.library()?;
    let (mut ids, mut numbers) = (Slots::default(), Slots::default());
    let mut slots = ids.iter_mut().zip(&mut numbers);
    let mut found = false;
    for node in library.config().named(name) {
        if let Some((id, number)) = slots.next() {
            (*id, *number) = (node.id, node.adapter);
            found = true;
        }
    }
    nodes.write(ids);
    if let Some(out) = adapters {
        out.write(numbers);
    }
    kind.write(match found {
        true => sys::DIS_ADAPTER_NTB,
        false => sys::DIS_ADAPTER_UNKNOWN,
    });
    Ok(())
}
