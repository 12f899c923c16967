// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections to segments of nodes.

use super::{code, end, found, make_armed, maker, only, wanted, Place};
use crate::{process::Process, sys};
use mp_c_abi::{Handle, Out};
use mp_fabric::Device;
use sisci::{Error, RemoteEvent, RemoteSegment, Result, BROADCAST_NODE};

/// Runs a callback of a remote segment.
pub type RemoteCallback = Box<dyn Fn(Handle, RemoteEvent) -> sisci::Action + Send>;

/// `SCIConnectSegment`
pub fn connect_segment<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Out<Handle>,
    place: Place,
    callback: Option<RemoteCallback>,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    let asynchronous = sys::SCI_FLAG_ASYNCHRONOUS_CONNECT;
    only(
        flags,
        sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_BROADCAST | asynchronous,
    )?;
    if flags & sys::SCI_FLAG_BROADCAST != 0 {
        desc.adapter(place.adapter)?;
        return Err(match place.node {
            BROADCAST_NODE => Error::NotSupported,
            _ => Error::IllegalNodeId,
        });
    }
    let callback = wanted(flags, callback)?;
    let Place {
        node,
        adapter,
        number,
        timeout,
    } = place;
    let make = || match flags & asynchronous {
        0 => desc.connect_segment(node, number, adapter, timeout),
        _ => desc.begin_connect_segment(node, number, adapter, timeout),
    };
    make_armed(&process.remote_segments, out, make, |segment, handle| {
        callback.map_or(Ok(()), |callback| {
            segment.set_callback(move |event| callback(handle, event))
        })
    })
}

/// A remote segment, for a function that takes no flags.
fn remote<D: Device>(
    process: &Process<D>,
    segment: Handle,
    flags: u32,
) -> Result<RemoteSegment<D>> {
    found(process, &process.remote_segments, segment, flags, 0)
}

/// `SCIDisconnectSegment`
pub fn disconnect_segment<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    end(
        process,
        &process.remote_segments,
        handle,
        flags,
        |segment| segment.disconnect(),
    )
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

/// `SCIWaitForRemoteSegmentEvent`
pub fn wait_for_remote_segment_event<D: Device>(
    process: &Process<D>,
    segment: Handle,
    status: Out<u32>,
    timeout: u32,
    flags: u32,
) -> Result<u32> {
    let event = remote(process, segment, flags)?.wait(timeout)?;
    status.write(code(event.status));
    Ok(event.reason as u32)
}
