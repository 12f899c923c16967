// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interrupts, plain ones and those with a message.

use super::{action, handle_out, run, Argument, Error};
use crate::{
    buffer::{Bytes, Output},
    functions::{self, Place},
    sys,
    table::Handle,
};
use std::ffi::{c_uint, c_void};

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

export! {
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
}
