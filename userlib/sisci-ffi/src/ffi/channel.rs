// SPDX-License-Identifier: MIT OR Apache-2.0

//! DMA channels, which are not built: all say so.

use super::{handle_out, run, Error};
use crate::{functions, sys};
use std::ffi::c_uint;

export! {
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
        // SAFETY: The caller's promise.
        unsafe { handle_out(channel) };
        let _ = (sd, local_adapter_no, type_, channel_id);
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
}
