// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices of other nodes, which are not built: all say so. And devices that send through the
//! bridge, of which bridges do not know.

use super::{handle_out, run, Error};
use crate::{
    functions::{self, Requester},
    sys,
    table::Handle,
};
use std::ffi::{c_uint, c_ulonglong, c_void};

/// Flags of what connects to a segment of a device.
const CONNECT: u32 =
    sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_ASYNCHRONOUS_CONNECT | sys::SCI_FLAG_BROADCAST;

export! {
    /// Would let a device of this host send through the bridge.
    fn SCIRegisterPCIeRequester(
        sd: sys::sci_desc_t,
        local_adapter_no: c_uint,
        bus: c_uint,
        devfn: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        let requester = Requester {
            adapter: local_adapter_no,
            bus,
            devfn,
        };
        run(error, |process| {
            functions::register_requester(process, Handle::from_pointer(sd), requester, flags)
        });
    }

    /// Would take that back.
    fn SCIUnregisterPCIeRequester(
        sd: sys::sci_desc_t,
        local_adapter_no: c_uint,
        bus: c_uint,
        devfn: c_uint,
        flags: c_uint,
        error: Error,
    ) {
        let requester = Requester {
            adapter: local_adapter_no,
            bus,
            devfn,
        };
        run(error, |process| {
            functions::unregister_requester(process, Handle::from_pointer(sd), requester, flags)
        });
    }

    /// Would be for devices of other nodes.
    fn SCIBorrowDevice(
        sd: sys::sci_desc_t,
        device: *mut sys::sci_smartio_device_t,
        fdid: c_ulonglong,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        unsafe { handle_out(device) };
        let _ = (sd, fdid);
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
        // SAFETY: The caller's promise.
        unsafe { handle_out(segment) };
        let _ = (device, segment_id, segment_type, callback, callback_arg);
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
        // SAFETY: The caller's promise.
        unsafe { handle_out(segment) };
        let _ = (device, node_id, segment_id, segment_type, local_adapter_no, callback, callback_arg);
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
