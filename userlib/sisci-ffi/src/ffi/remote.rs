// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections to segments of nodes.

use super::{action, handle_out, plain, run, Argument, Error};
use crate::{
    buffer::Output,
    functions::{self, Place},
    sys,
    table::Handle,
};
use std::ffi::{c_uint, c_void};

fn remote_callback(
    callback: sys::sci_cb_remote_segment_t,
    argument: *mut c_void,
) -> Option<functions::RemoteCallback> {
    let (callback, argument) = (callback?, Argument(argument));
    Some(Box::new(move |handle, event| {
        let status = functions::code(event.status);
        // SAFETY: The program has asked for that, with the argument.
        action(unsafe {
            callback(
                argument.pointer(),
                handle.to_pointer(),
                event.reason as u32,
                status,
            )
        })
    }))
}

export! {
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
}
