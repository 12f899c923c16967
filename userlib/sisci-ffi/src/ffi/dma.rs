// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues of transfers by DMA.

use super::{handle_out, plain, run, Argument, Error};
use crate::{
    buffer::{Array, Bytes},
    functions::{self, Pieces, Source},
    sys,
    table::Handle,
};
use sisci::Piece;
use std::ffi::{c_uint, c_void};

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

export! {
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
}
