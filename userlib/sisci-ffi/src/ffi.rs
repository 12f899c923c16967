// SPDX-License-Identifier: GPL-2.0

//! The exported functions, each by three names (SI-ABI-3). What they do with pointers is to make
//! values of [`buffer`](crate::buffer) of them; what they do with a panic is to end it. And this is
//! where callbacks of the program are called.

use crate::{
    buffer::{Array, Bytes, Output, Query},
    functions::{self, Part, Pieces, Place, Source},
    process::{Process, Processes},
    query, sys,
    table::Handle,
};
use mp_fabric::CharDevice;
use sisci::{Action, Library, Piece, Result};
use std::{
    ffi::{c_char, c_int, c_uint, c_ulonglong, c_void, CStr},
    panic::{catch_unwind, AssertUnwindSafe},
    ptr,
};

static PROCESSES: Processes<CharDevice> = Processes::new(&Library::load);

/// Where the error goes.
type Error = *mut sys::sci_error_t;

/// Flags of what connects to a segment of a device.
const CONNECT: u32 =
    sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_ASYNCHRONOUS_CONNECT | sys::SCI_FLAG_BROADCAST;

/// Runs a function for the process that calls. A panic is a defect of this library, which the
/// specification has no error for: the caller is told that a resource is missing.
fn caught<T>(function: impl FnOnce(&Process<CharDevice>) -> Result<T>) -> Result<T> {
    let result = catch_unwind(AssertUnwindSafe(|| function(PROCESSES.current())));
    result.unwrap_or(Err(sisci::Error::ApiNoSpace))
}

/// Writes an error, and `errno` if it is one of the system's.
fn tell(error: Error, result: Result<()>) {
    if let Err(sisci::Error::System(errno)) = result {
        // SAFETY: The address is that of this thread's variable.
        unsafe { *libc::__errno_location() = errno.raw_os_error() }
    }
    // SAFETY: Promised by the caller of the exported function.
    unsafe { Output::new(error) }.write(functions::code(result));
}

/// Runs a function that writes an error; a value of nothing if it fails.
fn run<T: Default>(error: Error, function: impl FnOnce(&Process<CharDevice>) -> Result<T>) -> T {
    let (value, result) = match caught(function) {
        Ok(value) => (value, Ok(())),
        Err(error) => (T::default(), Err(error)),
    };
    tell(error, result);
    value
}

/// Runs a function without an error; a value of nothing if it fails.
fn plain<T: Default>(function: impl FnOnce(&Process<CharDevice>) -> Result<T>) -> T {
    caught(function).unwrap_or_default()
}

/// Runs a function that returns a status beside the error.
fn checked(error: Error, function: impl FnOnce(&Process<CharDevice>) -> (u32, Result<()>)) -> u32 {
    let ran = caught(|process| Ok(function(process)));
    let (status, result) = ran.unwrap_or_else(|error| (sys::SCI_SEQ_PENDING, Err(error)));
    tell(error, result);
    status
}

/// Where a handle goes; NULL goes there at once, which stays if the function fails (SI-GEN-11).
///
/// # Safety
/// The pointer is NULL, or one may write a handle there as long as the value exists.
unsafe fn handle_out<T>(pointer: *mut *mut T) -> HandleOut {
    // SAFETY: The caller's promise; all handles are pointers.
    let out: Output<Handle> = unsafe { Output::new(pointer.cast()) };
    out.write(Handle::NULL);
    out
}

type HandleOut = Output<Handle>;

/// A text of the program; nothing if it is NULL or no text.
///
/// # Safety
/// The pointer is NULL, or leads to a text that ends with NUL.
unsafe fn text(start: *const c_char) -> Option<String> {
    if start.is_null() {
        return None;
    }
    // SAFETY: The caller's promise.
    let text = unsafe { CStr::from_ptr(start) };
    Some(text.to_string_lossy().into_owned())
}

/// What a program gives a callback, which may run on another thread.
#[derive(Clone, Copy)]
struct Argument(*mut c_void);

// SAFETY: It is only handed back to the program, which knows that callbacks have a thread.
unsafe impl Send for Argument {}

impl Argument {
    /// Also has closures take the whole of it, rather than the pointer in it.
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

fn action(number: sys::sci_callback_action_t) -> Action {
    match number {
        sys::SCI_CALLBACK_CANCEL => Action::Cancel,
        _ => Action::Continue,
    }
}

fn local_callback(
    callback: sys::sci_cb_local_segment_t,
    argument: *mut c_void,
) -> Option<functions::LocalCallback> {
    let (callback, argument) = (callback?, Argument(argument));
    Some(Box::new(move |handle, event| {
        let status = functions::code(event.reason.status());
        let (segment, reason) = (handle.to_pointer(), event.reason as u32);
        // SAFETY: The program has asked for that, with the argument.
        action(unsafe {
            callback(
                argument.pointer(),
                segment,
                reason,
                event.node,
                event.adapter,
                status,
            )
        })
    }))
}

fn remote_callback(
    callback: sys::sci_cb_remote_segment_t,
    argument: *mut c_void,
) -> Option<functions::RemoteCallback> {
    let (callback, argument) = (callback?, Argument(argument));
    Some(Box::new(move |handle, reason| {
        let status = functions::code(reason.status());
        // SAFETY: The program has asked for that, with the argument.
        action(unsafe {
            callback(
                argument.pointer(),
                handle.to_pointer(),
                reason as u32,
                status,
            )
        })
    }))
}

fn dma_callback(
    callback: sys::sci_cb_dma_t,
    argument: *mut c_void,
) -> Option<functions::DmaCallback> {
    let (callback, argument) = (callback?, Argument(argument));
    Some(Box::new(move |handle, status| {
        let status = functions::code(status);
        // SAFETY: The program has asked for that, with the argument. It runs once: what it wants
        // does not matter.
        unsafe { callback(argument.pointer(), handle.to_pointer(), status) };
    }))
}

fn interrupt_callback(
    callback: sys::sci_cb_interrupt_t,
    argument: *mut c_void,
) -> Option<functions::InterruptCallback> {
    let (callback, argument) = (callback?, Argument(argument));
    Some(Box::new(move |handle| {
        let (interrupt, status) = (handle.to_pointer(), sys::SCI_ERR_OK);
        // SAFETY: The program has asked for that, with the argument.
        action(unsafe { callback(argument.pointer(), interrupt, status) })
    }))
}

fn data_callback(
    callback: sys::sci_cb_data_interrupt_t,
    argument: *mut c_void,
) -> Option<functions::DataCallback> {
    let (callback, argument) = (callback?, Argument(argument));
    Some(Box::new(move |handle, data| {
        let (start, len) = (data.as_ptr().cast_mut().cast(), data.len() as u32);
        let (interrupt, status) = (handle.to_pointer(), sys::SCI_ERR_OK);
        // SAFETY: The program has asked for that, with the argument; the message is a copy of its
        // own.
        action(unsafe { callback(argument.pointer(), interrupt, start, len, status) })
    }))
}

/// Exports functions by their own name, and by the two that programs for other implementations
/// are linked to.
macro_rules! export {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Of `sisci_api.h`, as for all functions: a pointer is NULL, or leads to as much memory
        /// as the other arguments say, which is the call's until it returns. Handles are not
        /// followed.
        #[no_mangle]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? $body

        const _: () = {
            #[export_name = concat!("_SISCI_PUBLIC_FUNC_ST_", stringify!($name))]
            unsafe extern "C" fn single($($argument: $type),*) $(-> $result)? {
                // SAFETY: The caller's promise.
                unsafe { $name($($argument),*) }
            }

            #[export_name = concat!("_SISCI_PUBLIC_FUNC_MT_", stringify!($name))]
            unsafe extern "C" fn multiple($($argument: $type),*) $(-> $result)? {
                // SAFETY: The caller's promise.
                unsafe { $name($($argument),*) }
            }
        };
    )*};
}

export! {
    /// Initializes the library.
    fn SCIInitialize(flags: c_uint, error: Error) {
        run(error, |process| functions::initialize(process, flags));
    }

    /// Undoes an initialization.
    fn SCITerminate() {
        PROCESSES.current().terminate();
    }

    /// Opens a virtual device.
    fn SCIOpen(sd: *mut sys::sci_desc_t, flags: c_uint, error: Error) {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(sd) };
        run(error, |process| functions::open(process, out, flags));
    }

    /// Closes a virtual device.
    fn SCIClose(sd: sys::sci_desc_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::close(process, Handle::from_pointer(sd), flags)
        });
    }

    /// Makes a local segment.
    fn SCICreateSegment(
        sd: sys::sci_desc_t,
        segment: *mut sys::sci_local_segment_t,
        segment_id: c_uint,
        size: usize,
        callback: sys::sci_cb_local_segment_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(segment) };
        run(error, |process| {
            functions::create_segment(
                process,
                Handle::from_pointer(sd),
                out,
                segment_id,
                size,
                local_callback(callback, callback_arg),
                flags,
            )
        });
    }

    /// Would make memory of the program a segment.
    fn SCIRegisterSegmentMemory(
        address: *mut c_void,
        size: usize,
        segment: sys::sci_local_segment_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (address, size, segment);
        run(error, |process| {
            functions::missing(process, flags, sys::SCI_FLAG_LOCK_USER_MEM)
        });
    }

    /// Would make physical memory a segment.
    fn SCIAttachPhysicalMemory(
        ioaddress: sys::sci_ioaddr_t,
        address: *mut c_void,
        bus_no: c_uint,
        size: usize,
        segment: sys::sci_local_segment_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (ioaddress, address, bus_no, size, segment);
        run(error, |process| {
            functions::missing(
                process,
                flags,
                sys::SCI_FLAG_CUDA_BUFFER | sys::SCI_FLAG_SCIF_BUFFER,
            )
        });
    }

    /// Attaches to a segment of another process.
    fn SCIAttachLocalSegment(
        sd: sys::sci_desc_t,
        segment: *mut sys::sci_local_segment_t,
        segment_id: c_uint,
        size: *mut usize,
        callback: sys::sci_cb_local_segment_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let (out, out2) = unsafe { (handle_out(segment), Output::new(size)) };
        run(error, |process| {
            functions::attach_local_segment(
                process,
                Handle::from_pointer(sd),
                out,
                segment_id,
                out2,
                local_callback(callback, callback_arg),
                flags,
            )
        });
    }

    /// Lets other processes attach to a segment.
    fn SCIShareSegment(segment: sys::sci_local_segment_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::share_segment(process, Handle::from_pointer(segment), flags)
        });
    }

    /// Has a segment reachable through an adapter.
    fn SCIPrepareSegment(
        segment: sys::sci_local_segment_t,
        local_adapter_no: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        run(error, |process| {
            functions::prepare_segment(
                process,
                Handle::from_pointer(segment),
                local_adapter_no,
                flags,
            )
        });
    }

    /// Lets nodes connect to a segment.
    fn SCISetSegmentAvailable(
        segment: sys::sci_local_segment_t,
        local_adapter_no: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        run(error, |process| {
            functions::set_segment_available(
                process,
                Handle::from_pointer(segment),
                local_adapter_no,
                flags,
            )
        });
    }

    /// Lets no more nodes connect to a segment.
    fn SCISetSegmentUnavailable(
        segment: sys::sci_local_segment_t,
        local_adapter_no: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        run(error, |process| {
            functions::set_segment_unavailable(
                process,
                Handle::from_pointer(segment),
                local_adapter_no,
                flags,
            )
        });
    }

    /// Removes a local segment.
    fn SCIRemoveSegment(segment: sys::sci_local_segment_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::remove_segment(process, Handle::from_pointer(segment), flags)
        });
    }

    /// Waits for an event of a local segment.
    fn SCIWaitForLocalSegmentEvent(
        segment: sys::sci_local_segment_t,
        sourcenode_id: *mut c_uint,
        local_adapter_no: *mut c_uint,
        timeout: c_uint,
        flags: c_uint,
        error: Error,
    ) -> sys::sci_segment_cb_reason_t {
        // SAFETY: The caller's promise.
        let (out0, out1) = unsafe { (Output::new(sourcenode_id), Output::new(local_adapter_no)) };
        run(error, |process| {
            functions::wait_for_local_segment_event(
                process,
                Handle::from_pointer(segment),
                out0,
                out1,
                timeout,
                flags,
            )
        })
    }

    /// Tells the bytes of a local segment; 0 of none.
    fn SCIGetLocalSegmentSize(segment: sys::sci_local_segment_t) -> usize {
        plain(|process| functions::local_segment_size(process, Handle::from_pointer(segment)))
    }

    /// Tells the id of a local segment; 0 of none.
    fn SCIGetLocalSegmentId(segment: sys::sci_local_segment_t) -> c_uint {
        plain(|process| functions::local_segment_id(process, Handle::from_pointer(segment)))
    }

    /// Maps a part of a local segment.
    fn SCIMapLocalSegment(
        segment: sys::sci_local_segment_t,
        map: *mut sys::sci_map_t,
        offset: usize,
        size: usize,
        addr: *mut c_void,
        flags: c_uint,
        error: Error,
    ) -> *mut c_void {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(map) };
        let part = Part {
            offset,
            size,
            address: addr.addr(),
        };
        let address = run(error, |process| {
            functions::map_local_segment(process, Handle::from_pointer(segment), out, part, flags)
        });
        ptr::with_exposed_provenance_mut(address)
    }

    /// Connects to a segment of a node.
    fn SCIConnectSegment(
        sd: sys::sci_desc_t,
        segment: *mut sys::sci_remote_segment_t,
        node_id: c_uint,
        segment_id: c_uint,
        local_adapter_no: c_uint,
        callback: sys::sci_cb_remote_segment_t,
        callback_arg: *mut c_void,
        timeout: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(segment) };
        let place = Place {
            node: node_id,
            adapter: local_adapter_no,
            number: segment_id,
            timeout,
        };
        run(error, |process| {
            functions::connect_segment(
                process,
                Handle::from_pointer(sd),
                out,
                place,
                remote_callback(callback, callback_arg),
                flags,
            )
        });
    }

    /// Disconnects from a segment.
    fn SCIDisconnectSegment(segment: sys::sci_remote_segment_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::disconnect_segment(process, Handle::from_pointer(segment), flags)
        });
    }

    /// Tells the bytes of a remote segment; 0 of none.
    fn SCIGetRemoteSegmentSize(segment: sys::sci_remote_segment_t) -> usize {
        plain(|process| functions::remote_segment_size(process, Handle::from_pointer(segment)))
    }

    /// Tells the id of a remote segment; 0 of none.
    fn SCIGetRemoteSegmentId(segment: sys::sci_remote_segment_t) -> c_uint {
        plain(|process| functions::remote_segment_id(process, Handle::from_pointer(segment)))
    }

    /// Tells the node of a remote segment; 0 of none.
    fn SCIGetRemoteSegmentNodeId(segment: sys::sci_remote_segment_t) -> c_uint {
        plain(|process| functions::remote_segment_node(process, Handle::from_pointer(segment)))
    }

    /// Waits for an event of a remote segment.
    fn SCIWaitForRemoteSegmentEvent(
        segment: sys::sci_remote_segment_t,
        status: Error,
        timeout: c_uint,
        flags: c_uint,
        error: Error,
    ) -> sys::sci_segment_cb_reason_t {
        // SAFETY: The caller's promise.
        let out0 = unsafe { Output::new(status) };
        run(error, |process| {
            functions::wait_for_remote_segment_event(
                process,
                Handle::from_pointer(segment),
                out0,
                timeout,
                flags,
            )
        })
    }

    /// Maps a part of a remote segment.
    fn SCIMapRemoteSegment(
        segment: sys::sci_remote_segment_t,
        map: *mut sys::sci_map_t,
        offset: usize,
        size: usize,
        addr: *mut c_void,
        flags: c_uint,
        error: Error,
    ) -> *mut c_void {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(map) };
        let part = Part {
            offset,
            size,
            address: addr.addr(),
        };
        let address = run(error, |process| {
            functions::map_remote_segment(process, Handle::from_pointer(segment), out, part, flags)
        });
        ptr::with_exposed_provenance_mut(address)
    }

    /// Unmaps a map.
    fn SCIUnmapSegment(map: sys::sci_map_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::unmap_segment(process, Handle::from_pointer(map), flags)
        });
    }

    /// Tells the address of a map; NULL of none.
    fn SCIGetMapPointer(map: sys::sci_map_t) -> *mut c_void {
        let address = plain(|process| functions::map_pointer(process, Handle::from_pointer(map)));
        ptr::with_exposed_provenance_mut(address)
    }

    /// Tells no physical address: 0.
    fn SCIGetMapPhysAddr(map: sys::sci_map_t) -> sys::sci_ioaddr_t {
        let _ = map;
        0
    }

    /// Makes a sequence for a map.
    fn SCICreateMapSequence(
        map: sys::sci_map_t,
        sequence: *mut sys::sci_sequence_t,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(sequence) };
        run(error, |process| {
            functions::create_map_sequence(process, Handle::from_pointer(map), out, flags)
        });
    }

    /// Removes a sequence.
    fn SCIRemoveSequence(sequence: sys::sci_sequence_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::remove_sequence(process, Handle::from_pointer(sequence), flags)
        });
    }

    /// Looks whether transfers can begin.
    fn SCIStartSequence(
        sequence: sys::sci_sequence_t,
        flags: c_uint,
        error: Error,
    ) -> sys::sci_sequence_status_t {
        checked(error, |process| {
            functions::start_sequence(process, Handle::from_pointer(sequence), flags)
        })
    }

    /// Looks whether transfers have arrived.
    fn SCICheckSequence(
        sequence: sys::sci_sequence_t,
        flags: c_uint,
        error: Error,
    ) -> sys::sci_sequence_status_t {
        checked(error, |process| {
            functions::check_sequence(process, Handle::from_pointer(sequence), flags)
        })
    }

    /// Waits until stores have arrived.
    fn SCIStoreBarrier(sequence: sys::sci_sequence_t, flags: c_uint) {
        plain(|process| functions::store_barrier(process, Handle::from_pointer(sequence), flags));
    }

    /// Has stores leave the processor.
    fn SCIFlush(sequence: sys::sci_sequence_t, flags: c_uint) {
        let _ = (sequence, flags);
        mp_fabric::flush_stores();
    }

    /// Copies into a map.
    fn SCIMemWrite(
        mem_addr: *mut c_void,
        remote_addr: *mut c_void,
        size: usize,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let (from, to) = unsafe { (Bytes::new(mem_addr, size), Bytes::new(remote_addr, size)) };
        run(error, |process| {
            functions::mem_write(process, from, to, flags)
        });
    }

    /// Copies into a map or out of it, checked or not.
    fn SCIMemCpy(
        sequence: sys::sci_sequence_t,
        mem_addr: *mut c_void,
        remote_map: sys::sci_map_t,
        remote_offset: usize,
        size: usize,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let memory = unsafe { Bytes::new(mem_addr, size) };
        let sequence = (!sequence.is_null()).then(|| Handle::from_pointer(sequence));
        run(error, |process| {
            functions::mem_cpy(
                process,
                sequence,
                memory,
                Handle::from_pointer(remote_map),
                remote_offset,
                flags,
            )
        });
    }

    /// Does nothing: caches are coherent.
    fn SCICacheSync(
        map: sys::sci_map_t,
        addr: *mut c_void,
        length: usize,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (map, addr, length);
        run(error, |process| functions::cache_sync(process, flags));
    }

    /// Makes a queue for transfers.
    fn SCICreateDMAQueue(
        sd: sys::sci_desc_t,
        dq: *mut sys::sci_dma_queue_t,
        local_adapter_no: c_uint,
        max_entries: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(dq) };
        run(error, |process| {
            functions::create_dma_queue(
                process,
                Handle::from_pointer(sd),
                out,
                local_adapter_no,
                max_entries,
                flags,
            )
        });
    }

    /// Removes a queue.
    fn SCIRemoveDMAQueue(dq: sys::sci_dma_queue_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::remove_dma_queue(process, Handle::from_pointer(dq), flags)
        });
    }

    /// Starts a transfer from a local segment.
    fn SCIStartDmaTransfer(
        dq: sys::sci_dma_queue_t,
        local_segment: sys::sci_local_segment_t,
        remote_segment: sys::sci_remote_segment_t,
        local_offset: usize,
        size: usize,
        remote_offset: usize,
        callback: sys::sci_cb_dma_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        let source = Source::Segment(Handle::from_pointer(local_segment));
        let pieces = Pieces::One(Piece {
            local: local_offset,
            remote: remote_offset,
            size,
        });
        run(error, |process| {
            functions::start_dma(
                process,
                Handle::from_pointer(dq),
                source,
                Handle::from_pointer(remote_segment),
                pieces,
                dma_callback(callback, callback_arg),
                flags,
            )
        });
    }

    /// Starts a transfer from memory of the program.
    fn SCIStartDmaTransferMem(
        dq: sys::sci_dma_queue_t,
        local_address: *mut c_void,
        remote_segment: sys::sci_remote_segment_t,
        size: usize,
        remote_offset: usize,
        callback: sys::sci_cb_dma_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let source = Source::Memory(unsafe { Bytes::new(local_address, size) });
        let pieces = Pieces::One(Piece {
            local: 0,
            remote: remote_offset,
            size,
        });
        run(error, |process| {
            functions::start_dma(
                process,
                Handle::from_pointer(dq),
                source,
                Handle::from_pointer(remote_segment),
                pieces,
                dma_callback(callback, callback_arg),
                flags,
            )
        });
    }

    /// Starts transfers from a local segment.
    fn SCIStartDmaTransferVec(
        dq: sys::sci_dma_queue_t,
        local_segment: sys::sci_local_segment_t,
        remote_segment: sys::sci_remote_segment_t,
        vec_length: usize,
        dis_dma_vec: *mut sys::dis_dma_vec_t,
        callback: sys::sci_cb_dma_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        let source = Source::Segment(Handle::from_pointer(local_segment));
        // SAFETY: The caller's promise.
        let pieces = Pieces::Vector(unsafe { Array::new(dis_dma_vec, vec_length) });
        run(error, |process| {
            functions::start_dma(
                process,
                Handle::from_pointer(dq),
                source,
                Handle::from_pointer(remote_segment),
                pieces,
                dma_callback(callback, callback_arg),
                flags,
            )
        });
    }

    /// Tells the state of a queue.
    fn SCIDMAQueueState(dq: sys::sci_dma_queue_t) -> sys::sci_dma_queue_state_t {
        plain(|process| functions::dma_queue_state(process, Handle::from_pointer(dq)))
    }

    /// Waits until a transfer has ended.
    fn SCIWaitForDMAQueue(
        dq: sys::sci_dma_queue_t,
        timeout: c_uint,
        flags: c_uint,
        error: Error,
    ) -> sys::sci_dma_queue_state_t {
        run(error, |process| {
            functions::wait_for_dma_queue(process, Handle::from_pointer(dq), timeout, flags)
        })
    }

    /// Aborts a transfer.
    fn SCIAbortDMAQueue(dq: sys::sci_dma_queue_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::abort_dma_queue(process, Handle::from_pointer(dq), flags)
        });
    }

    /// Would reserve a DMA channel.
    fn SCIRequestDMAChannel(
        sd: sys::sci_desc_t,
        channel: *mut sys::sci_dma_channel_t,
        local_adapter_no: c_uint,
        type_: sys::sci_dma_type_t,
        channel_id: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (sd, channel, local_adapter_no, type_, channel_id);
        run(error, |process| {
            functions::missing(process, flags, sys::SCI_FLAG_DMA_CHANNEL_SHARED)
        });
    }

    /// Would return a DMA channel.
    fn SCIReturnDMAChannel(channel: sys::sci_dma_channel_t, error: Error) {
        let _ = channel;
        run(error, |process| functions::missing(process, 0, 0));
    }

    /// Would have a queue use a DMA channel.
    fn SCIAssignDMAChannel(
        channel: sys::sci_dma_channel_t,
        dq: sys::sci_dma_queue_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (channel, dq);
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would tell the type of a DMA channel.
    fn SCIGetDMAChannelType(channel: sys::sci_dma_channel_t) -> sys::sci_dma_type_t {
        let _ = channel;
        sys::SCI_DMA_TYPE_DONTCARE
    }

    /// Would have a DMA channel reach a local segment.
    fn SCIPrepareLocalSegmentForDMA(
        channel: sys::sci_dma_channel_t,
        local_segment: sys::sci_local_segment_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (channel, local_segment);
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would undo that.
    fn SCIUnprepareLocalSegmentForDMA(
        channel: sys::sci_dma_channel_t,
        local_segment: sys::sci_local_segment_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (channel, local_segment);
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would have a DMA channel reach a remote segment.
    fn SCIPrepareRemoteSegmentForDMA(
        channel: sys::sci_dma_channel_t,
        remote_segment: sys::sci_remote_segment_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (channel, remote_segment);
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would undo that.
    fn SCIUnprepareRemoteSegmentForDMA(
        channel: sys::sci_dma_channel_t,
        remote_segment: sys::sci_remote_segment_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (channel, remote_segment);
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Makes an interrupt.
    fn SCICreateInterrupt(
        sd: sys::sci_desc_t,
        interrupt: *mut sys::sci_local_interrupt_t,
        local_adapter_no: c_uint,
        interrupt_no: *mut c_uint,
        callback: sys::sci_cb_interrupt_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let (out, number) = unsafe { (handle_out(interrupt), Output::new(interrupt_no)) };
        run(error, |process| {
            functions::create_interrupt(
                process,
                Handle::from_pointer(sd),
                out,
                local_adapter_no,
                number,
                interrupt_callback(callback, callback_arg),
                flags,
            )
        });
    }

    /// Removes an interrupt.
    fn SCIRemoveInterrupt(interrupt: sys::sci_local_interrupt_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::remove_interrupt(process, Handle::from_pointer(interrupt), flags)
        });
    }

    /// Waits for an interrupt.
    fn SCIWaitForInterrupt(
        interrupt: sys::sci_local_interrupt_t,
        timeout: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        run(error, |process| {
            functions::wait_for_interrupt(process, Handle::from_pointer(interrupt), timeout, flags)
        });
    }

    /// Connects to an interrupt of a node.
    fn SCIConnectInterrupt(
        sd: sys::sci_desc_t,
        interrupt: *mut sys::sci_remote_interrupt_t,
        node_id: c_uint,
        local_adapter_no: c_uint,
        interrupt_no: c_uint,
        timeout: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(interrupt) };
        let place = Place {
            node: node_id,
            adapter: local_adapter_no,
            number: interrupt_no,
            timeout,
        };
        run(error, |process| {
            functions::connect_interrupt(process, Handle::from_pointer(sd), out, place, flags)
        });
    }

    /// Disconnects from an interrupt.
    fn SCIDisconnectInterrupt(interrupt: sys::sci_remote_interrupt_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::disconnect_interrupt(process, Handle::from_pointer(interrupt), flags)
        });
    }

    /// Triggers an interrupt.
    fn SCITriggerInterrupt(interrupt: sys::sci_remote_interrupt_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::trigger_interrupt(process, Handle::from_pointer(interrupt), flags)
        });
    }

    /// Makes an interrupt with messages.
    fn SCICreateDataInterrupt(
        sd: sys::sci_desc_t,
        interrupt: *mut sys::sci_local_data_interrupt_t,
        local_adapter_no: c_uint,
        interrupt_no: *mut c_uint,
        callback: sys::sci_cb_data_interrupt_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let (out, number) = unsafe { (handle_out(interrupt), Output::new(interrupt_no)) };
        run(error, |process| {
            functions::create_data_interrupt(
                process,
                Handle::from_pointer(sd),
                out,
                local_adapter_no,
                number,
                data_callback(callback, callback_arg),
                flags,
            )
        });
    }

    /// Removes an interrupt with messages.
    fn SCIRemoveDataInterrupt(
        interrupt: sys::sci_local_data_interrupt_t,
        flags: c_uint,
        error: Error,
    ) {
        run(error, |process| {
            functions::remove_data_interrupt(process, Handle::from_pointer(interrupt), flags)
        });
    }

    /// Waits for a message.
    fn SCIWaitForDataInterrupt(
        interrupt: sys::sci_local_data_interrupt_t,
        data: *mut c_void,
        length: *mut c_uint,
        timeout: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise: the length is that of the buffer.
        let (length, buffer) = unsafe {
            let length = Output::new(length);
            let room = length.read().unwrap_or(0);
            (length, Bytes::new(data, room as usize))
        };
        run(error, |process| {
            functions::wait_for_data_interrupt(
                process,
                Handle::from_pointer(interrupt),
                buffer,
                length,
                timeout,
                flags,
            )
        });
    }

    /// Connects to an interrupt with messages.
    fn SCIConnectDataInterrupt(
        sd: sys::sci_desc_t,
        interrupt: *mut sys::sci_remote_data_interrupt_t,
        node_id: c_uint,
        local_adapter_no: c_uint,
        interrupt_no: c_uint,
        timeout: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(interrupt) };
        let place = Place {
            node: node_id,
            adapter: local_adapter_no,
            number: interrupt_no,
            timeout,
        };
        run(error, |process| {
            functions::connect_data_interrupt(process, Handle::from_pointer(sd), out, place, flags)
        });
    }

    /// Disconnects from an interrupt with messages.
    fn SCIDisconnectDataInterrupt(
        interrupt: sys::sci_remote_data_interrupt_t,
        flags: c_uint,
        error: Error,
    ) {
        run(error, |process| {
            functions::disconnect_data_interrupt(process, Handle::from_pointer(interrupt), flags)
        });
    }

    /// Sends a message.
    fn SCITriggerDataInterrupt(
        interrupt: sys::sci_remote_data_interrupt_t,
        data: *mut c_void,
        length: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let data = unsafe { Bytes::new(data, length as usize) };
        run(error, |process| {
            functions::trigger_data_interrupt(process, Handle::from_pointer(interrupt), data, flags)
        });
    }

    /// Tells whether a node answers: 1 or 0.
    fn SCIProbeNode(
        sd: sys::sci_desc_t,
        local_adapter_no: c_uint,
        node_id: c_uint,
        flags: c_uint,
        error: Error,
    ) -> c_int {
        let found = run(error, |process| {
            functions::probe_node(
                process,
                Handle::from_pointer(sd),
                local_adapter_no,
                node_id,
                flags,
            )
            .map(|()| true)
        });
        found.into()
    }

    /// Tells what is asked for.
    fn SCIQuery(command: c_uint, data: *mut c_void, flags: c_uint, error: Error) {
        // SAFETY: The caller's promise.
        let query = unsafe { Query::new(data) };
        run(error, |process| {
            query::query(process, command, query, flags)
        });
    }

    /// Tells this host's node id at an adapter.
    fn SCIGetLocalNodeId(adapter_no: c_uint, node_id: *mut c_uint, flags: c_uint, error: Error) {
        // SAFETY: The caller's promise.
        let out0 = unsafe { Output::new(node_id) };
        run(error, |process| {
            functions::local_node_id(process, adapter_no, out0, flags)
        });
    }

    /// Tells the node ids of a name.
    fn SCIGetNodeIdByAdapterName(
        adaptername: *mut c_char,
        node_id: *mut sys::dis_nodeId_list_t,
        type_: *mut sys::dis_adapter_type_t,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let (name, nodes, kind) =
            unsafe { (text(adaptername), Output::new(node_id), Output::new(type_)) };
        run(error, |process| {
            functions::nodes_by_name(process, name.as_deref(), None, nodes, kind, flags)
        });
    }

    /// Tells the node ids and adapters of a name.
    fn SCIGetNodeInfoByAdapterName(
        adaptername: *mut c_char,
        adapter_no: *mut c_uint,
        node_idlist: *mut sys::dis_nodeId_list_t,
        type_: *mut sys::dis_adapter_type_t,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise; there are as many adapters as node ids.
        let (name, adapters, nodes, kind) = unsafe {
            (
                text(adaptername),
                Output::new(adapter_no.cast()),
                Output::new(node_idlist),
                Output::new(type_),
            )
        };
        run(error, |process| {
            functions::nodes_by_name(process, name.as_deref(), Some(adapters), nodes, kind, flags)
        });
    }

    /// Tells what an error is.
    fn SCIGetErrorString(error: sys::sci_error_t) -> *const c_char {
        sisci::error_string(error).as_ptr()
    }

    /// Would be for devices of other nodes.
    fn SCIRegisterPCIeRequester(
        sd: sys::sci_desc_t,
        local_adapter_no: c_uint,
        bus: c_uint,
        devfn: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (sd, local_adapter_no, bus, devfn);
        run(error, |process| {
            functions::missing(
                process,
                flags,
                sys::SCI_FLAG_BROADCAST | sys::SCI_FLAG_PCIE_REQUESTER_GLOBAL,
            )
        });
    }

    /// Would be for devices of other nodes.
    fn SCIUnregisterPCIeRequester(
        sd: sys::sci_desc_t,
        local_adapter_no: c_uint,
        bus: c_uint,
        devfn: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (sd, local_adapter_no, bus, devfn);
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would be for devices of other nodes.
    fn SCIBorrowDevice(
        sd: sys::sci_desc_t,
        device: *mut sys::sci_smartio_device_t,
        fdid: c_ulonglong,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (sd, device, fdid);
        run(error, |process| {
            functions::missing(process, flags, sys::SCI_FLAG_EXCLUSIVE)
        });
    }

    /// Would be for devices of other nodes.
    fn SCIReturnDevice(device: sys::sci_smartio_device_t, flags: c_uint, error: Error) {
        let _ = device;
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would be for devices of other nodes.
    fn SCIReleaseExclusiveBorrow(device: sys::sci_smartio_device_t, flags: c_uint, error: Error) {
        let _ = device;
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would be for devices of other nodes.
    fn SCIConnectDeviceSegment(
        device: sys::sci_smartio_device_t,
        segment: *mut sys::sci_remote_segment_t,
        segment_id: c_uint,
        segment_type: c_uint,
        callback: sys::sci_cb_device_segment_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (
            device,
            segment,
            segment_id,
            segment_type,
            callback,
            callback_arg,
        );
        run(error, |process| functions::missing(process, flags, CONNECT));
    }

    /// Would be for devices of other nodes.
    fn SCIConnectDeviceSegmentPath(
        device: sys::sci_smartio_device_t,
        segment: *mut sys::sci_remote_segment_t,
        node_id: c_uint,
        segment_id: c_uint,
        segment_type: c_uint,
        local_adapter_no: c_uint,
        callback: sys::sci_cb_device_segment_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (
            device,
            segment,
            node_id,
            segment_id,
            segment_type,
            local_adapter_no,
            callback,
            callback_arg,
        );
        run(error, |process| functions::missing(process, flags, CONNECT));
    }

    /// Would be for devices of other nodes.
    fn SCICreateDeviceSegment(
        device: sys::sci_smartio_device_t,
        segment_id: c_uint,
        size: usize,
        type_: c_uint,
        access_hints: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (device, segment_id, size, type_, access_hints);
        run(error, |process| {
            functions::missing(
                process,
                flags,
                sys::SCI_FLAG_DEVICE_SIDE_ONLY
                    | sys::SCI_FLAG_LOCAL_ONLY
                    | sys::SCI_FLAG_DEVICE_PREFER_BANDWIDTH
                    | sys::SCI_FLAG_HOST_PREFER_BANDWIDTH,
            )
        });
    }

    /// Would be for devices of other nodes.
    fn SCIMapLocalSegmentForDevice(
        segment: sys::sci_local_segment_t,
        local_adapter_no: c_uint,
        device: sys::sci_smartio_device_t,
        remote_addr: *mut sys::sci_ioaddr_t,
        offset: usize,
        size: usize,
        callback: sys::sci_cb_device_mapping_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (
            segment,
            local_adapter_no,
            device,
            remote_addr,
            offset,
            size,
            callback,
            callback_arg,
        );
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would be for devices of other nodes.
    fn SCIUnmapLocalSegmentForDevice(
        segment: sys::sci_local_segment_t,
        local_adapter_no: c_uint,
        device: sys::sci_smartio_device_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (segment, local_adapter_no, device);
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would be for devices of other nodes.
    fn SCIMapRemoteSegmentForDevice(
        segment: sys::sci_remote_segment_t,
        device: sys::sci_smartio_device_t,
        remote_addr: *mut sys::sci_ioaddr_t,
        offset: usize,
        size: usize,
        callback: sys::sci_cb_device_mapping_t,
        callback_arg: *mut c_void,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (
            segment,
            device,
            remote_addr,
            offset,
            size,
            callback,
            callback_arg,
        );
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would be for devices of other nodes.
    fn SCIUnmapRemoteSegmentForDevice(
        segment: sys::sci_remote_segment_t,
        device: sys::sci_smartio_device_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (segment, device);
        run(error, |process| functions::missing(process, flags, 0));
    }

    /// Would be for devices of other nodes.
    fn SCIGetDeviceList(
        sd: sys::sci_desc_t,
        fdids: *mut c_ulonglong,
        length: usize,
        filter: *const sys::sci_smartio_device_info_t,
        flags: c_uint,
        error: Error,
    ) -> usize {
        let _ = (sd, fdids, length, filter);
        run(error, |process| {
            functions::missing(
                process,
                flags,
                sys::SCI_FLAG_SPECIFY_PATH | sys::SCI_FLAG_SPECIFY_SLOT,
            )
        });
        0
    }

    /// Would be for devices of other nodes.
    fn SCIGetFabricDeviceId(device: sys::sci_smartio_device_t) -> c_ulonglong {
        let _ = device;
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::sys;

    /// SI-ABI-2, SI-ABI-9: all 84 functions have the signatures of the header.
    #[test]
    fn signatures_are_those_of_the_header() {
        let mut count = 0;
        macro_rules! same {
            ($($name:ident($($argument:tt),*)),* $(,)?) => {$({
                // The arrays compile only if both are functions of one type.
                let header: unsafe extern "C" fn($(same!(@ $argument)),*) -> _ = sys::$name;
                let types = [header, super::$name as unsafe extern "C" fn($(same!(@ $argument)),*) -> _];
                count += types.len() / 2;
            })*};
            (@ $argument:tt) => { _ };
        }
        same!(
            SCIInitialize(a, b),
            SCITerminate(),
            SCIOpen(a, b, c),
            SCIClose(a, b, c),
            SCICreateSegment(a, b, c, d, e, f, g, h),
            SCIRegisterSegmentMemory(a, b, c, d, e),
            SCIAttachPhysicalMemory(a, b, c, d, e, f, g),
            SCIAttachLocalSegment(a, b, c, d, e, f, g, h),
            SCIShareSegment(a, b, c),
            SCIPrepareSegment(a, b, c, d),
            SCISetSegmentAvailable(a, b, c, d),
            SCISetSegmentUnavailable(a, b, c, d),
            SCIRemoveSegment(a, b, c),
            SCIWaitForLocalSegmentEvent(a, b, c, d, e, f),
            SCIGetLocalSegmentSize(a),
            SCIGetLocalSegmentId(a),
            SCIMapLocalSegment(a, b, c, d, e, f, g),
            SCIConnectSegment(a, b, c, d, e, f, g, h, i, j),
            SCIDisconnectSegment(a, b, c),
            SCIGetRemoteSegmentSize(a),
            SCIGetRemoteSegmentId(a),
            SCIGetRemoteSegmentNodeId(a),
            SCIWaitForRemoteSegmentEvent(a, b, c, d, e),
            SCIMapRemoteSegment(a, b, c, d, e, f, g),
            SCIUnmapSegment(a, b, c),
            SCIGetMapPointer(a),
            SCIGetMapPhysAddr(a),
            SCICreateMapSequence(a, b, c, d),
            SCIRemoveSequence(a, b, c),
            SCIStartSequence(a, b, c),
            SCICheckSequence(a, b, c),
            SCIStoreBarrier(a, b),
            SCIFlush(a, b),
            SCIMemWrite(a, b, c, d, e),
            SCIMemCpy(a, b, c, d, e, f, g),
            SCICacheSync(a, b, c, d, e),
            SCICreateDMAQueue(a, b, c, d, e, f),
            SCIRemoveDMAQueue(a, b, c),
            SCIStartDmaTransfer(a, b, c, d, e, f, g, h, i, j),
            SCIStartDmaTransferMem(a, b, c, d, e, f, g, h, i),
            SCIStartDmaTransferVec(a, b, c, d, e, f, g, h, i),
            SCIDMAQueueState(a),
            SCIWaitForDMAQueue(a, b, c, d),
            SCIAbortDMAQueue(a, b, c),
            SCIRequestDMAChannel(a, b, c, d, e, f, g),
            SCIReturnDMAChannel(a, b),
            SCIAssignDMAChannel(a, b, c, d),
            SCIGetDMAChannelType(a),
            SCIPrepareLocalSegmentForDMA(a, b, c, d),
            SCIUnprepareLocalSegmentForDMA(a, b, c, d),
            SCIPrepareRemoteSegmentForDMA(a, b, c, d),
            SCIUnprepareRemoteSegmentForDMA(a, b, c, d),
            SCICreateInterrupt(a, b, c, d, e, f, g, h),
            SCIRemoveInterrupt(a, b, c),
            SCIWaitForInterrupt(a, b, c, d),
            SCIConnectInterrupt(a, b, c, d, e, f, g, h),
            SCIDisconnectInterrupt(a, b, c),
            SCITriggerInterrupt(a, b, c),
            SCICreateDataInterrupt(a, b, c, d, e, f, g, h),
            SCIRemoveDataInterrupt(a, b, c),
            SCIWaitForDataInterrupt(a, b, c, d, e, f),
            SCIConnectDataInterrupt(a, b, c, d, e, f, g, h),
            SCIDisconnectDataInterrupt(a, b, c),
            SCITriggerDataInterrupt(a, b, c, d, e),
            SCIProbeNode(a, b, c, d, e),
            SCIQuery(a, b, c, d),
            SCIGetLocalNodeId(a, b, c, d),
            SCIGetNodeIdByAdapterName(a, b, c, d, e),
            SCIGetNodeInfoByAdapterName(a, b, c, d, e, f),
            SCIGetErrorString(a),
            SCIRegisterPCIeRequester(a, b, c, d, e, f),
            SCIUnregisterPCIeRequester(a, b, c, d, e, f),
            SCIBorrowDevice(a, b, c, d, e),
            SCIReturnDevice(a, b, c),
            SCIReleaseExclusiveBorrow(a, b, c),
            SCIConnectDeviceSegment(a, b, c, d, e, f, g, h),
            SCIConnectDeviceSegmentPath(a, b, c, d, e, f, g, h, i, j),
            SCICreateDeviceSegment(a, b, c, d, e, f, g),
            SCIMapLocalSegmentForDevice(a, b, c, d, e, f, g, h, i, j),
            SCIUnmapLocalSegmentForDevice(a, b, c, d, e),
            SCIMapRemoteSegmentForDevice(a, b, c, d, e, f, g, h, i),
            SCIUnmapRemoteSegmentForDevice(a, b, c, d),
            SCIGetDeviceList(a, b, c, d, e, f),
            SCIGetFabricDeviceId(a),
        );
        assert_eq!(count, 84);
    }
}
