// SPDX-License-Identifier: MIT OR Apache-2.0

//! The exported functions, as `sisci_api.h` declares them, each by three names (SI-ABI-3), and the
//! function that does what each does. And this is where callbacks of the program are called.

use crate::{
    functions::{self, Part, Pieces, Place, Requester, Slots, Source, SLOTS},
    process::Process,
    query::{query, Query},
    sys,
};
use mp_c_abi::{export, guarded, set_errno, Abi, Handle, Opaque, Out, PerProcess, Text};
use mp_fabric::{CharDevice, PhysicalRange, ProcessMemory};
use sisci::{Action, Library, Piece, Result};
use std::{
    ffi::{c_char, c_int, c_uint, c_ulonglong, c_void},
    ptr,
};
use tracing::{debug, trace};

static PROCESSES: PerProcess<Process<CharDevice>> =
    PerProcess::new(&|parent| Process::new(&|| Ok(Library::load()?), parent));

/// Where the error goes.
type Error = Out<sys::sci_error_t>;

/// Run a function for the process that calls. A panic is a defect of this library, which the
/// specification has no error for: the caller is told that a resource is missing.
fn caught<T>(function: impl FnOnce(&Process<CharDevice>) -> Result<T>) -> Result<T> {
    let result = guarded(|| function(PROCESSES.current()));
    result.unwrap_or(Err(sisci::Error::ApiNoSpace))
}

/// Write an error, and `errno` if it is one of the system's.
fn tell(error: Error, result: Result<()>) {
    match result {
        Ok(()) => {}
        Err(sisci::Error::Timeout) => trace!("{}", sisci::Error::Timeout),
        Err(why) => debug!("{why}"),
    }
    if let Some(errno) = result.err().and_then(sisci::Error::errno) {
        set_errno(errno.raw_os_error());
    }
    error.write(functions::code(result));
}

/// Run a function that writes an error; a value of nothing if it fails.
fn run<T: Default>(error: Error, function: impl FnOnce(&Process<CharDevice>) -> Result<T>) -> T {
    let (value, result) = match caught(function) {
        Ok(value) => (value, Ok(())),
        Err(error) => (T::default(), Err(error)),
    };
    tell(error, result);
    value
}

/// As [`run`], for an address; NULL if it fails.
fn mapped(
    error: Error,
    function: impl FnOnce(&Process<CharDevice>) -> Result<usize>,
) -> *mut c_void {
    ptr::with_exposed_provenance_mut(run(error, function))
}

/// Run a function that returns a status beside the error.
fn checked(error: Error, function: impl FnOnce(&Process<CharDevice>) -> (u32, Result<()>)) -> u32 {
    let ran = caught(|process| Ok(function(process)));
    let (status, result) = ran.unwrap_or_else(|error| (sys::SCI_SEQ_PENDING, Err(error)));
    tell(error, result);
    status
}

/// Run a function without an error; a value of nothing if it fails.
fn plain<T: Default>(function: impl FnOnce(&Process<CharDevice>) -> Result<T>) -> T {
    caught(function).unwrap_or_default()
}

/// As [`plain`], for an address; NULL if it fails.
fn pointer(function: impl FnOnce(&Process<CharDevice>) -> Result<usize>) -> *mut c_void {
    ptr::with_exposed_provenance_mut(plain(function))
}

/// As [`plain`], for the type of a channel, which has a value of its own for none.
fn channel_type(function: impl FnOnce(&Process<CharDevice>) -> Result<u32>) -> u32 {
    caught(function).unwrap_or(sys::SCI_DMA_TYPE_DONTCARE)
}

/// Run a function that needs no process.
fn text(function: impl FnOnce(&()) -> *const c_char) -> *const c_char {
    guarded(|| function(&())).unwrap_or(c"".as_ptr())
}

fn action(number: sys::sci_callback_action_t) -> Action {
    match number {
        sys::SCI_CALLBACK_CANCEL => Action::Cancel,
        _ => Action::Continue,
    }
}

fn local_callback(
    callback: sys::sci_cb_local_segment_t,
    argument: Opaque,
) -> Option<functions::LocalCallback> {
    let callback = callback?;
    Some(Box::new(move |handle, event| {
        let (argument, segment, reason) = (argument.pointer(), handle.to_c(), event.reason as u32);
        let status = functions::code(event.reason.status());
        // SAFETY: The program has asked for that, with the argument.
        action(unsafe { callback(argument, segment, reason, event.node, event.adapter, status) })
    }))
}

fn remote_callback(
    callback: sys::sci_cb_remote_segment_t,
    argument: Opaque,
) -> Option<functions::RemoteCallback> {
    let callback = callback?;
    Some(Box::new(move |handle, event| {
        let (argument, segment, reason) = (argument.pointer(), handle.to_c(), event.reason as u32);
        let status = functions::code(event.status);
        // SAFETY: The program has asked for that, with the argument.
        action(unsafe { callback(argument, segment, reason, status) })
    }))
}

fn interrupt_callback(
    callback: sys::sci_cb_interrupt_t,
    argument: Opaque,
) -> Option<functions::InterruptCallback> {
    let callback = callback?;
    Some(Box::new(move |handle| {
        // SAFETY: The program has asked for that, with the argument.
        action(unsafe { callback(argument.pointer(), handle.to_c(), sys::SCI_ERR_OK) })
    }))
}

fn data_callback(
    callback: sys::sci_cb_data_interrupt_t,
    argument: Opaque,
) -> Option<functions::DataCallback> {
    let callback = callback?;
    Some(Box::new(move |handle, data| {
        let (argument, interrupt, status) = (argument.pointer(), handle.to_c(), sys::SCI_ERR_OK);
        let (start, len) = (data.as_ptr().cast_mut().cast(), data.len() as u32);
        // SAFETY: The program has asked for that, with the argument; the message is a copy of its
        // own.
        action(unsafe { callback(argument, interrupt, start, len, status) })
    }))
}

fn dma_callback(callback: sys::sci_cb_dma_t, argument: Opaque) -> Option<functions::DmaCallback> {
    let callback = callback?;
    Some(Box::new(move |handle, status| {
        // SAFETY: The program has asked for that, with the argument. It runs once: what it wants
        // does not matter.
        unsafe { callback(argument.pointer(), handle.to_c(), functions::code(status)) };
    }))
}

/// Exports functions by all their names.
macro_rules! sisci {
    (run = $run:ident; $($functions:tt)*) => {
        export! {
            header = sys; run = $run;
            aliases = ["_SISCI_PUBLIC_FUNC_ST_", "_SISCI_PUBLIC_FUNC_MT_"];
            $($functions)*
        }
    };
}

sisci! {
    run = run;

    /// Initialize the library.
    SCIInitialize(flags: c_uint; error: Error) = functions::initialize;

    /// Open a virtual device.
    SCIOpen(sd: Out<Handle>, flags: c_uint; error: Error) = functions::open;

    /// Close a virtual device.
    SCIClose(sd: Handle, flags: c_uint; error: Error) = functions::close;

    /// Make a local segment.
    SCICreateSegment(
        sd: Handle, segment: Out<Handle>, segment_id: c_uint, size: usize,
        callback: sys::sci_cb_local_segment_t, argument: Opaque, flags: c_uint; error: Error
    ) = functions::create_segment(
        sd, segment, segment_id, size, (local_callback(callback, argument)), flags);

    /// Give a segment memory of the program.
    SCIRegisterSegmentMemory(
        address: *mut c_void, size: usize, segment: Handle, flags: c_uint; error: Error
    ) = functions::register_segment_memory(
        segment,
        // SAFETY: A program that makes memory a segment gives it to whoever connects.
        (unsafe { ProcessMemory::new(address.expose_provenance(), size) }),
        flags);

    /// Give a segment physical memory.
    SCIAttachPhysicalMemory(
        ioaddress: sys::sci_ioaddr_t, _address: *mut c_void, bus_no: c_uint, size: usize,
        segment: Handle, flags: c_uint; error: Error
    ) = functions::attach_physical_memory(
        segment,
        // SAFETY: A program that makes physical memory a segment answers for what is there.
        (unsafe { PhysicalRange::new(ioaddress, size as u64) }),
        bus_no, flags);

    /// Attach to a segment of another process.
    SCIAttachLocalSegment(
        sd: Handle, segment: Out<Handle>, segment_id: c_uint, size: Out<usize>,
        callback: sys::sci_cb_local_segment_t, argument: Opaque, flags: c_uint; error: Error
    ) = functions::attach_local_segment(
        sd, segment, segment_id, size, (local_callback(callback, argument)), flags);

    /// Let other processes attach to a segment.
    SCIShareSegment(segment: Handle, flags: c_uint; error: Error) = functions::share_segment;

    /// Make a segment reachable through an adapter.
    SCIPrepareSegment(segment: Handle, adapter: c_uint, flags: c_uint; error: Error)
        = functions::prepare_segment;

    /// Let nodes connect to a segment.
    SCISetSegmentAvailable(segment: Handle, adapter: c_uint, flags: c_uint; error: Error)
        = functions::set_segment_available;

    /// Let no more nodes connect to a segment.
    SCISetSegmentUnavailable(segment: Handle, adapter: c_uint, flags: c_uint; error: Error)
        = functions::set_segment_unavailable;

    /// Remove a local segment.
    SCIRemoveSegment(segment: Handle, flags: c_uint; error: Error) = functions::remove_segment;

    /// Wait for an event of a local segment.
    SCIWaitForLocalSegmentEvent(
        segment: Handle, node_id: Out<c_uint>, adapter: Out<c_uint>, timeout: c_uint,
        flags: c_uint; error: Error
    ) -> sys::sci_segment_cb_reason_t = functions::wait_for_local_segment_event;

    /// Connect to a segment of a node.
    SCIConnectSegment(
        sd: Handle, segment: Out<Handle>, node: c_uint, number: c_uint, adapter: c_uint,
        callback: sys::sci_cb_remote_segment_t, argument: Opaque, timeout: c_uint,
        flags: c_uint; error: Error
    ) = functions::connect_segment(
        sd, segment, (Place { node, adapter, number, timeout }),
        (remote_callback(callback, argument)), flags);

    /// Disconnect from a segment.
    SCIDisconnectSegment(segment: Handle, flags: c_uint; error: Error)
        = functions::disconnect_segment;

    /// Wait for an event of a remote segment.
    SCIWaitForRemoteSegmentEvent(
        segment: Handle, status: Error, timeout: c_uint, flags: c_uint; error: Error
    ) -> sys::sci_segment_cb_reason_t = functions::wait_for_remote_segment_event;

    /// Unmap a map.
    SCIUnmapSegment(map: Handle, flags: c_uint; error: Error) = functions::unmap_segment;

    /// Make a sequence for a map.
    SCICreateMapSequence(map: Handle, sequence: Out<Handle>, flags: c_uint; error: Error)
        = functions::create_map_sequence;

    /// Remove a sequence.
    SCIRemoveSequence(sequence: Handle, flags: c_uint; error: Error) = functions::remove_sequence;

    /// Copy into a map.
    SCIMemWrite(
        mem_addr: *mut c_void, remote_addr: *mut c_void, size: usize, flags: c_uint; error: Error
    ) = functions::mem_write([mem_addr; size], [remote_addr; size], flags);

    /// Copy into a map or out of it, checked or not.
    SCIMemCpy(
        sequence: Handle, mem_addr: *mut c_void, remote_map: Handle, remote_offset: usize,
        size: usize, flags: c_uint; error: Error
    ) = functions::mem_cpy(sequence, [mem_addr; size], remote_map, remote_offset, flags);

    /// Do nothing: caches are coherent.
    SCICacheSync(_map: Handle, _addr: *mut c_void, _length: usize, flags: c_uint; error: Error)
        = functions::cache_sync(flags);

    /// Make a queue for transfers.
    SCICreateDMAQueue(
        sd: Handle, dq: Out<Handle>, adapter: c_uint, max_entries: c_uint, flags: c_uint;
        error: Error
    ) = functions::create_dma_queue;

    /// Remove a queue.
    SCIRemoveDMAQueue(dq: Handle, flags: c_uint; error: Error) = functions::remove_dma_queue;

    /// Start a transfer from a local segment.
    SCIStartDmaTransfer(
        dq: Handle, local_segment: Handle, remote_segment: Handle, local: usize, size: usize,
        remote: usize, callback: sys::sci_cb_dma_t, argument: Opaque, flags: c_uint; error: Error
    ) = functions::start_dma(
        dq, (Source::Segment(local_segment)), remote_segment,
        (Pieces::One(Piece { local, remote, size })), (dma_callback(callback, argument)), flags);

    /// Start a transfer from memory of the program.
    SCIStartDmaTransferMem(
        dq: Handle, address: *mut c_void, remote_segment: Handle, size: usize, remote: usize,
        callback: sys::sci_cb_dma_t, argument: Opaque, flags: c_uint; error: Error
    ) = functions::start_dma_from_memory(
        dq,
        // SAFETY: A program that starts a transfer keeps the memory until it ends, and leaves it
        // alone if the transfer writes there.
        (unsafe { ProcessMemory::new(address.expose_provenance(), size) }),
        remote_segment, remote, (dma_callback(callback, argument)), flags);

    /// Start transfers from a local segment.
    SCIStartDmaTransferVec(
        dq: Handle, local_segment: Handle, remote_segment: Handle, length: usize,
        vector: *mut sys::dis_dma_vec_t, callback: sys::sci_cb_dma_t, argument: Opaque,
        flags: c_uint; error: Error
    ) = functions::start_dma_of_vector(
        dq, local_segment, remote_segment, [vector; length], (dma_callback(callback, argument)),
        flags);

    /// Wait until a transfer has ended.
    SCIWaitForDMAQueue(dq: Handle, timeout: c_uint, flags: c_uint; error: Error)
        -> sys::sci_dma_queue_state_t
        = functions::wait_for_dma_queue;

    /// Abort a transfer.
    SCIAbortDMAQueue(dq: Handle, flags: c_uint; error: Error) = functions::abort_dma_queue;

    /// Make an interrupt.
    SCICreateInterrupt(
        sd: Handle, interrupt: Out<Handle>, adapter: c_uint, number: Out<c_uint>,
        callback: sys::sci_cb_interrupt_t, argument: Opaque, flags: c_uint; error: Error
    ) = functions::create_interrupt(
        sd, interrupt, adapter, number, (interrupt_callback(callback, argument)), flags);

    /// Remove an interrupt.
    SCIRemoveInterrupt(interrupt: Handle, flags: c_uint; error: Error)
        = functions::remove_interrupt;

    /// Wait for an interrupt.
    SCIWaitForInterrupt(interrupt: Handle, timeout: c_uint, flags: c_uint; error: Error)
        = functions::wait_for_interrupt;

    /// Connect to an interrupt of a node.
    SCIConnectInterrupt(
        sd: Handle, interrupt: Out<Handle>, node: c_uint, adapter: c_uint, number: c_uint,
        timeout: c_uint, flags: c_uint; error: Error
    ) = functions::connect_interrupt(
        sd, interrupt, (Place { node, adapter, number, timeout }), flags);

    /// Disconnect from an interrupt.
    SCIDisconnectInterrupt(interrupt: Handle, flags: c_uint; error: Error)
        = functions::disconnect_interrupt;

    /// Trigger an interrupt.
    SCITriggerInterrupt(interrupt: Handle, flags: c_uint; error: Error)
        = functions::trigger_interrupt;

    /// Make an interrupt with messages.
    SCICreateDataInterrupt(
        sd: Handle, interrupt: Out<Handle>, adapter: c_uint, number: Out<c_uint>,
        callback: sys::sci_cb_data_interrupt_t, argument: Opaque, flags: c_uint; error: Error
    ) = functions::create_data_interrupt(
        sd, interrupt, adapter, number, (data_callback(callback, argument)), flags);

    /// Remove an interrupt with messages.
    SCIRemoveDataInterrupt(interrupt: Handle, flags: c_uint; error: Error)
        = functions::remove_data_interrupt;

    /// Wait for a message.
    SCIWaitForDataInterrupt(
        interrupt: Handle, data: *mut c_void, length: Out<c_uint>, timeout: c_uint,
        flags: c_uint; error: Error
    ) = functions::wait_for_data_interrupt(interrupt, [data; length], length, timeout, flags);

    /// Connect to an interrupt with messages.
    SCIConnectDataInterrupt(
        sd: Handle, interrupt: Out<Handle>, node: c_uint, adapter: c_uint, number: c_uint,
        timeout: c_uint, flags: c_uint; error: Error
    ) = functions::connect_data_interrupt(
        sd, interrupt, (Place { node, adapter, number, timeout }), flags);

    /// Disconnect from an interrupt with messages.
    SCIDisconnectDataInterrupt(interrupt: Handle, flags: c_uint; error: Error)
        = functions::disconnect_data_interrupt;

    /// Send a message.
    SCITriggerDataInterrupt(
        interrupt: Handle, data: *mut c_void, length: c_uint, flags: c_uint; error: Error
    ) = functions::trigger_data_interrupt(interrupt, [data; length], flags);

    /// Tell whether a node answers: 1 or 0.
    SCIProbeNode(sd: Handle, adapter: c_uint, node_id: c_uint, flags: c_uint; error: Error)
        -> c_int
        = functions::probe_node;

    /// Tell what is asked for.
    SCIQuery(command: c_uint, data: Query, flags: c_uint; error: Error) = query;

    /// Tell this host's node id at an adapter.
    SCIGetLocalNodeId(adapter: c_uint, node_id: Out<c_uint>, flags: c_uint; error: Error)
        = functions::local_node_id;

    /// Tell the node ids of a name.
    SCIGetNodeIdByAdapterName(
        name: Text, node_ids: Out<Slots>, kind: Out<sys::dis_adapter_type_t>, flags: c_uint;
        error: Error
    ) = functions::node_ids_by_name;

    /// Tell the node ids and adapters of a name.
    SCIGetNodeInfoByAdapterName(
        name: Text, adapters: *mut c_uint, node_ids: Out<Slots>,
        kind: Out<sys::dis_adapter_type_t>, flags: c_uint; error: Error
    ) = functions::node_info_by_name(name, [adapters; SLOTS], node_ids, kind, flags);

    /// Let a device of this host send through the bridge: not supported, as bridges know nothing of
    /// it.
    SCIRegisterPCIeRequester(
        sd: Handle, adapter: c_uint, bus: c_uint, devfn: c_uint, flags: c_uint; error: Error
    ) = functions::register_requester(sd, (Requester { adapter, bus, devfn }), flags);

    /// Take that back: not supported.
    SCIUnregisterPCIeRequester(
        sd: Handle, adapter: c_uint, bus: c_uint, devfn: c_uint, flags: c_uint; error: Error
    ) = functions::unregister_requester(sd, (Requester { adapter, bus, devfn }), flags);
}

sisci! {
    run = mapped;

    /// Map a part of a local segment.
    SCIMapLocalSegment(
        segment: Handle, map: Out<Handle>, offset: usize, size: usize, address: *mut c_void,
        flags: c_uint; error: Error
    ) -> *mut c_void = functions::map_local_segment(
        segment, map, (Part { offset, size, address: address.addr() }), flags);

    /// Map a part of a remote segment.
    SCIMapRemoteSegment(
        segment: Handle, map: Out<Handle>, offset: usize, size: usize, address: *mut c_void,
        flags: c_uint; error: Error
    ) -> *mut c_void = functions::map_remote_segment(
        segment, map, (Part { offset, size, address: address.addr() }), flags);
}

sisci! {
    run = checked;

    /// Look whether transfers can begin.
    SCIStartSequence(sequence: Handle, flags: c_uint; error: Error) -> sys::sci_sequence_status_t
        = functions::start_sequence;

    /// Look whether transfers have arrived.
    SCICheckSequence(sequence: Handle, flags: c_uint; error: Error) -> sys::sci_sequence_status_t
        = functions::check_sequence;
}

sisci! {
    run = plain;

    /// Undo an initialization.
    SCITerminate() = functions::terminate;

    /// Tell the bytes of a local segment; 0 of none.
    SCIGetLocalSegmentSize(segment: Handle) -> usize = functions::local_segment_size;

    /// Tell the id of a local segment; 0 of none.
    SCIGetLocalSegmentId(segment: Handle) -> c_uint = functions::local_segment_id;

    /// Tell the bytes of a remote segment; 0 of none.
    SCIGetRemoteSegmentSize(segment: Handle) -> usize = functions::remote_segment_size;

    /// Tell the id of a remote segment; 0 of none.
    SCIGetRemoteSegmentId(segment: Handle) -> c_uint = functions::remote_segment_id;

    /// Tell the node of a remote segment; 0 of none.
    SCIGetRemoteSegmentNodeId(segment: Handle) -> c_uint = functions::remote_segment_node;

    /// Tell the physical address of a map; 0 if it is not in one run, of none, and for
    /// programs without privilege.
    SCIGetMapPhysAddr(map: Handle) -> sys::sci_ioaddr_t = functions::map_physical_address;

    /// Wait until stores have arrived.
    SCIStoreBarrier(sequence: Handle, flags: c_uint) = functions::store_barrier;

    /// Make stores leave the processor.
    SCIFlush(_sequence: Handle, _flags: c_uint) = functions::flush();

    /// Tell the state of a queue.
    SCIDMAQueueState(dq: Handle) -> sys::sci_dma_queue_state_t = functions::dma_queue_state;
}

sisci! {
    run = pointer;

    /// Tell the address of a map; NULL of none.
    SCIGetMapPointer(map: Handle) -> *mut c_void = functions::map_pointer;
}

sisci! {
    run = text;

    /// Tell what an error is.
    SCIGetErrorString(error: sys::sci_error_t) -> *const c_char = functions::error_string;
}

/// Flags of what connects to a segment of a device.
const CONNECT: u32 =
    sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_ASYNCHRONOUS_CONNECT | sys::SCI_FLAG_BROADCAST;
/// Flags of what makes a segment of a device.
const CREATE: u32 = sys::SCI_FLAG_DEVICE_SIDE_ONLY
    | sys::SCI_FLAG_LOCAL_ONLY
    | sys::SCI_FLAG_DEVICE_PREFER_BANDWIDTH
    | sys::SCI_FLAG_HOST_PREFER_BANDWIDTH;
/// Flags of what lists devices.
const LIST: u32 = sys::SCI_FLAG_SPECIFY_PATH | sys::SCI_FLAG_SPECIFY_SLOT;

// DMA channels and devices of other nodes, which are not built: all say so.

sisci! {
    run = run;

    /// Reserve a DMA channel: not implemented.
    SCIRequestDMAChannel(
        _sd: Handle, channel: Out<Handle>, _adapter: c_uint, _type: sys::sci_dma_type_t,
        _id: c_uint, flags: c_uint; error: Error
    ) = functions::missing_maker(channel, flags, (sys::SCI_FLAG_DMA_CHANNEL_SHARED));

    /// Return a DMA channel: not implemented.
    SCIReturnDMAChannel(_channel: Handle; error: Error) = functions::missing((0), (0));

    /// Let a queue use a DMA channel: not implemented.
    SCIAssignDMAChannel(_channel: Handle, _dq: Handle, flags: c_uint; error: Error)
        = functions::missing(flags, (0));

    /// Let a DMA channel reach a local segment: not implemented.
    SCIPrepareLocalSegmentForDMA(_channel: Handle, _segment: Handle, flags: c_uint; error: Error)
        = functions::missing(flags, (0));

    /// Undo that: not implemented.
    SCIUnprepareLocalSegmentForDMA(_channel: Handle, _segment: Handle, flags: c_uint; error: Error)
        = functions::missing(flags, (0));

    /// Let a DMA channel reach a remote segment: not implemented.
    SCIPrepareRemoteSegmentForDMA(_channel: Handle, _segment: Handle, flags: c_uint; error: Error)
        = functions::missing(flags, (0));

    /// Undo that: not implemented.
    SCIUnprepareRemoteSegmentForDMA(
        _channel: Handle, _segment: Handle, flags: c_uint; error: Error
    ) = functions::missing(flags, (0));

    /// Borrow a device of another node: not implemented.
    SCIBorrowDevice(
        _sd: Handle, device: Out<Handle>, _fdid: c_ulonglong, flags: c_uint; error: Error
    ) = functions::missing_maker(device, flags, (sys::SCI_FLAG_EXCLUSIVE));

    /// Return a device: not implemented.
    SCIReturnDevice(_device: Handle, flags: c_uint; error: Error) = functions::missing(flags, (0));

    /// Let others borrow a device as well: not implemented.
    SCIReleaseExclusiveBorrow(_device: Handle, flags: c_uint; error: Error)
        = functions::missing(flags, (0));

    /// Connect to a segment of a device: not implemented.
    SCIConnectDeviceSegment(
        _device: Handle, segment: Out<Handle>, _id: c_uint, _type: c_uint,
        _callback: sys::sci_cb_device_segment_t, _argument: Opaque, flags: c_uint; error: Error
    ) = functions::missing_maker(segment, flags, (CONNECT));

    /// Connect to a segment of a device by an adapter: not implemented.
    SCIConnectDeviceSegmentPath(
        _device: Handle, segment: Out<Handle>, _node: c_uint, _id: c_uint, _type: c_uint,
        _adapter: c_uint, _callback: sys::sci_cb_device_segment_t, _argument: Opaque,
        flags: c_uint; error: Error
    ) = functions::missing_maker(segment, flags, (CONNECT));

    /// Make a segment on a device: not implemented.
    SCICreateDeviceSegment(
        _device: Handle, _id: c_uint, _size: usize, _type: c_uint, _hints: c_uint, flags: c_uint;
        error: Error
    ) = functions::missing(flags, (CREATE));

    /// Let a device reach a local segment: not implemented.
    SCIMapLocalSegmentForDevice(
        _segment: Handle, _adapter: c_uint, _device: Handle, _address: Out<sys::sci_ioaddr_t>,
        _offset: usize, _size: usize, _callback: sys::sci_cb_device_mapping_t,
        _argument: Opaque, flags: c_uint; error: Error
    ) = functions::missing(flags, (0));

    /// Undo that: not implemented.
    SCIUnmapLocalSegmentForDevice(
        _segment: Handle, _adapter: c_uint, _device: Handle, flags: c_uint; error: Error
    ) = functions::missing(flags, (0));

    /// Let a device reach a remote segment: not implemented.
    SCIMapRemoteSegmentForDevice(
        _segment: Handle, _device: Handle, _address: Out<sys::sci_ioaddr_t>, _offset: usize,
        _size: usize, _callback: sys::sci_cb_device_mapping_t, _argument: Opaque, flags: c_uint;
        error: Error
    ) = functions::missing(flags, (0));

    /// Undo that: not implemented.
    SCIUnmapRemoteSegmentForDevice(
        _segment: Handle, _device: Handle, flags: c_uint; error: Error
    ) = functions::missing(flags, (0));

    /// List devices of other nodes: not implemented.
    SCIGetDeviceList(
        _sd: Handle, _fdids: Out<c_ulonglong>, _length: usize,
        _filter: *const sys::sci_smartio_device_info_t, flags: c_uint; error: Error
    ) -> usize = functions::missing(flags, (LIST));
}

sisci! {
    run = channel_type;

    /// Tell the type of a DMA channel: not implemented.
    SCIGetDMAChannelType(_channel: Handle) -> sys::sci_dma_type_t = functions::missing((0), (0));
}

sisci! {
    run = plain;

    /// Tell the id of a device: not implemented.
    SCIGetFabricDeviceId(_device: Handle) -> c_ulonglong = functions::missing((0), (0));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SI-ABI-8: a panic ends in the library, with an error and nothing that could be taken for a
    /// result; so does one of a function that returns a status.
    #[test]
    fn a_panic_becomes_an_error() {
        let mut error = sys::SCI_ERR_OK;
        // SAFETY: It outlives the calls.
        let place = unsafe { Out::new(&raw mut error) };
        let value: u32 = run(place, |_| panic!("a defect"));
        assert_eq!((value, place.read()), (0, Ok(sys::SCI_ERR_API_NOSPC)));
        place.write(sys::SCI_ERR_OK);
        let status = checked(place, |_| panic!("another one"));
        assert_eq!(status, sys::SCI_SEQ_PENDING);
        assert_eq!(place.read(), Ok(sys::SCI_ERR_API_NOSPC));
        assert_eq!(plain::<usize>(|_| panic!("a third one")), 0);
        // The library goes on.
        run(place, |_| Ok(()));
        assert_eq!(place.read(), Ok(sys::SCI_ERR_OK));
    }

    fn n<T>() -> *mut T {
        ptr::null_mut()
    }

    /// SI-GEN-3, SI-GEN-11, SI-BORROW-1, SI-RELEXC-1: what is not built says so in each function,
    /// leaves no handle and calls nobody, but not with flags that it would not take.
    #[test]
    fn what_is_not_built_says_so() {
        let mut error = sys::SCI_ERR_OK;
        // SAFETY: Not more is passed than what is there.
        unsafe { sys::SCIInitialize(0, &mut error) };
        macro_rules! missing {
            ($($name:ident($($argument:expr),*) $flags:expr),* $(,)?) => {$(
                for (flags, expected) in [
                    ($flags, sys::SCI_ERR_NOT_IMPLEMENTED),
                    ($flags | 1 << 31, sys::SCI_ERR_ILLEGAL_FLAG),
                ] {
                    // SAFETY: As above; functions that are not built look at nothing else.
                    unsafe { sys::$name($($argument,)* flags, &mut error) };
                    assert_eq!(error, expected, stringify!($name));
                }
            )*};
        }
        let mut device = ptr::dangling_mut();
        let mut segment = ptr::dangling_mut();
        let mut channel = ptr::dangling_mut();
        missing!(
            SCIRequestDMAChannel(n(), &mut channel, 0, sys::SCI_DMA_TYPE_SYSTEM, 0)
                sys::SCI_FLAG_DMA_CHANNEL_SHARED,
            SCIAssignDMAChannel(n(), n()) 0,
            SCIPrepareLocalSegmentForDMA(n(), n()) 0,
            SCIUnprepareLocalSegmentForDMA(n(), n()) 0,
            SCIPrepareRemoteSegmentForDMA(n(), n()) 0,
            SCIUnprepareRemoteSegmentForDMA(n(), n()) 0,
            SCIBorrowDevice(n(), &mut device, 1) sys::SCI_FLAG_EXCLUSIVE,
            SCIReturnDevice(n()) 0,
            SCIReleaseExclusiveBorrow(n()) 0,
            SCIConnectDeviceSegment(n(), &mut segment, 1, 1, None, n()) sys::SCI_FLAG_USE_CALLBACK,
            SCIConnectDeviceSegmentPath(n(), &mut segment, 4, 1, 1, 0, None, n()) 0,
            SCICreateDeviceSegment(n(), 1, 4096, 1, 1) sys::SCI_FLAG_DEVICE_SIDE_ONLY,
            SCIMapLocalSegmentForDevice(n(), 0, n(), n(), 0, 0, None, n()) 0,
            SCIUnmapLocalSegmentForDevice(n(), 0, n()) 0,
            SCIMapRemoteSegmentForDevice(n(), n(), n(), 0, 0, None, n()) 0,
            SCIUnmapRemoteSegmentForDevice(n(), n()) 0,
            SCIGetDeviceList(n(), n(), 0, n()) sys::SCI_FLAG_SPECIFY_SLOT,
        );
        assert!(device.is_null() && segment.is_null() && channel.is_null());
        // SAFETY: As above.
        unsafe {
            sys::SCIReturnDMAChannel(n(), &mut error);
            assert_eq!(error, sys::SCI_ERR_NOT_IMPLEMENTED);
            assert_eq!(sys::SCIGetDMAChannelType(n()), sys::SCI_DMA_TYPE_DONTCARE);
            assert_eq!(sys::SCIGetFabricDeviceId(n()), 0);
            assert_eq!(sys::SCIGetDeviceList(n(), n(), 0, n(), 0, &mut error), 0);
        }
    }
}
