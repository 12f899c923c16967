// SPDX-License-Identifier: MIT OR Apache-2.0

//! Local segments.

use super::{action, handle_out, plain, run, Argument, Error};
use crate::{buffer::Output, functions, sys, table::Handle};
use mp_fabric::{PhysicalRange, ProcessMemory};
use std::ffi::{c_uint, c_void};

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

export! {
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

    /// Gives a segment memory of the program.
    fn SCIRegisterSegmentMemory(
        address: *mut c_void,
        size: usize,
        segment: sys::sci_local_segment_t,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: A program that makes memory a segment gives it to whoever connects.
        let memory = unsafe { ProcessMemory::new(address.expose_provenance(), size) };
        run(error, |process| {
            let segment = Handle::from_pointer(segment);
            functions::register_segment_memory(process, segment, memory, flags)
        });
    }

    /// Gives a segment physical memory.
    fn SCIAttachPhysicalMemory(
        ioaddress: sys::sci_ioaddr_t,
        address: *mut c_void,
        bus_no: c_uint,
        size: usize,
        segment: sys::sci_local_segment_t,
        flags: c_uint,
        error: Error,
    ) {
        let _ = address;
        // SAFETY: A program that makes physical memory a segment answers for what is there.
        let range = unsafe { PhysicalRange::new(ioaddress, size as u64) };
        run(error, |process| {
            let segment = Handle::from_pointer(segment);
            functions::attach_physical_memory(process, segment, range, bus_no, flags)
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
}
