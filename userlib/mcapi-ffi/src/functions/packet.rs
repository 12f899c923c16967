// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packet channels.

use super::{endpoint, payload, required};
use crate::{
    answer::Answer,
    operations::{Begun, Destination},
    process::State,
};
use mcapi::{Channel, Device, Error, Result};
use mp_c_abi::{Input, Out};
use std::{ffi::c_void, ptr};

/// Begin to connect two endpoints (MC-PKTCONN-1 to MC-PKTCONN-8).
pub fn pktchan_connect_i<D: Device>(state: &State<D>, send: u64, receive: u64) -> Result<Begun> {
    let (send, receive) = (endpoint(send)?, endpoint(receive)?);
    let request = state.node.pktchan_connect_i(send, receive)?;
    Ok(Begun::plain(request, Destination::None))
}

/// Begin to open the receiving end (MC-PKTROPEN-1 to MC-PKTROPEN-6).
pub fn pktchan_recv_open_i<D: Device>(
    state: &State<D>,
    handle: Out<u32>,
    at: u64,
) -> Result<Begun> {
    let destination = Destination::Channel(required(handle)?);
    let request = state.node.pktchan_recv_open_i(endpoint(at)?)?;
    Ok(Begun::plain(request, destination))
}

/// Begin to open the sending end (MC-PKTSOPEN-1).
pub fn pktchan_send_open_i<D: Device>(
    state: &State<D>,
    handle: Out<u32>,
    at: u64,
) -> Result<Begun> {
    let destination = Destination::Channel(required(handle)?);
    let request = state.node.pktchan_send_open_i(endpoint(at)?)?;
    Ok(Begun::plain(request, destination))
}

/// Begin to send a packet (MC-PKTSENDI-1 to MC-PKTSENDI-3).
pub fn pktchan_send_i<D: Device>(
    state: &State<D>,
    channel: u32,
    buffer: Input<u8>,
) -> Result<Begun> {
    let data = payload(&buffer, Error::PacketSize)?;
    let channel = Channel::from_raw(channel);
    let request = state.node.pktchan_send_i(channel, data)?;
    state.sent.note(channel, buffer.address(), Some(request));
    Ok(Begun::moving(request, Destination::None))
}

/// Send a packet (MC-PKTSEND-1 to MC-PKTSEND-3).
pub fn pktchan_send<D: Device>(state: &State<D>, channel: u32, buffer: Input<u8>) -> Result<()> {
    let data = payload(&buffer, Error::PacketSize)?;
    let channel = Channel::from_raw(channel);
    state.node.pktchan_send(channel, data)?;
    state.sent.note(channel, buffer.address(), None);
    Ok(())
}

/// Begin to receive a packet (MC-PKTRECVI-1 to MC-PKTRECVI-3).
pub fn pktchan_recv_i<D: Device>(
    state: &State<D>,
    channel: u32,
    buffer: Out<*mut c_void>,
) -> Result<Begun> {
    let destination = Destination::Packet(required(buffer)?);
    let request = state.node.pktchan_recv_i(Channel::from_raw(channel))?;
    Ok(Begun::moving(request, destination))
}

/// Receive a packet, whose buffer is the program's until it is released (MC-PKTRECV-1 to
/// MC-PKTRECV-4).
pub fn pktchan_recv<D: Device>(
    state: &State<D>,
    channel: u32,
    buffer: Out<*mut c_void>,
    size: Out<usize>,
) -> Result<()> {
    let (buffer, size) = (required(buffer)?, required(size)?);
    let packet = state.node.pktchan_recv(Channel::from_raw(channel))?;
    buffer.write(ptr::with_exposed_provenance_mut(packet.address()));
    size.write(packet.len());
    Ok(())
}

/// Count packets that can be received without waiting (MC-PKTAVAIL-1).
pub fn pktchan_available<D: Device>(state: &State<D>, channel: u32) -> Result<u32> {
    let count = state.node.pktchan_available(Channel::from_raw(channel))?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Give the buffer of a packet back (MC-PKTREL-1 to MC-PKTREL-5).
pub fn pktchan_release<D: Device>(state: &State<D>, buffer: *const c_void) -> Result<()> {
    // It may have been sent on, and may be somebody else's as soon as it is released.
    let last = state.sent.last();
    state.node.pktchan_release(buffer.addr())?;
    state.sent.forget_until(buffer.addr(), last);
    Ok(())
}

/// Tell whether the memory of a packet that was sent may be used again, or a buffer that was
/// received is released (MC-PKTRELTEST-1 to MC-PKTRELTEST-4). Memory of a packet that was sent on
/// several channels may be when none of them has it.
pub fn pktchan_release_test<D: Device>(
    state: &State<D>,
    buffer: *const c_void,
) -> Result<Answer<u8>> {
    if buffer.is_null() {
        return Err(Error::Parameter);
    }
    let at = buffer.addr();
    let is_held = match state.sent.find(at) {
        // It was sent when the request was complete, or never is.
        Some(Some(request)) if matches!(state.node.test(request), Ok(None)) => true,
        Some(_) => state.node.pktchan_is_lent(at)?,
        None if state.node.pktchan_is_held(at)? || state.node.pktchan_is_lent(at)? => true,
        None => return Err(Error::BufferInvalid),
    };
    Ok(match is_held {
        true => Answer::PENDING,
        false => Answer::success(1),
    })
}

/// Begin to close the receiving end (MC-PKTRCLOSE-1 to MC-PKTRCLOSE-6).
pub fn pktchan_recv_close_i<D: Device>(state: &State<D>, channel: u32) -> Result<Begun> {
    let request = state
        .node
        .pktchan_recv_close_i(Channel::from_raw(channel))?;
    Ok(Begun::plain(request, Destination::None))
}

/// Begin to close the sending end (MC-PKTSCLOSE-1 to MC-PKTSCLOSE-3).
pub fn pktchan_send_close_i<D: Device>(state: &State<D>, channel: u32) -> Result<Begun> {
    let channel = Channel::from_raw(channel);
    let lends = state.node.pktchan_lends(channel);
    let request = state.node.pktchan_send_close_i(channel)?;
    match lends {
        true => state.sent.retire(channel),
        false => state.sent.forget(channel),
    }
    Ok(Begun::plain(request, Destination::None))
}
