// SPDX-License-Identifier: MIT OR Apache-2.0

//! Scalar channels.

use super::{endpoint, required};
use crate::{
    operations::{Begun, Destination},
    process::State,
};
use mcapi::{Channel, Device, Result, Scalar};
use mp_c_abi::Out;

/// Begin to connect two endpoints (MC-SCLCONN-1).
pub fn sclchan_connect_i<D: Device>(state: &State<D>, send: u64, receive: u64) -> Result<Begun> {
    let (send, receive) = (endpoint(send)?, endpoint(receive)?);
    let request = state.node.sclchan_connect_i(send, receive)?;
    Ok(Begun::plain(request, Destination::None))
}

/// Begin to open the receiving end (MC-SCLROPEN-1).
pub fn sclchan_recv_open_i<D: Device>(
    state: &State<D>,
    handle: Out<u32>,
    at: u64,
) -> Result<Begun> {
    let destination = Destination::Channel(required(handle)?);
    let request = state.node.sclchan_recv_open_i(endpoint(at)?)?;
    Ok(Begun::plain(request, destination))
}

/// Begin to open the sending end (MC-SCLSOPEN-1).
pub fn sclchan_send_open_i<D: Device>(
    state: &State<D>,
    handle: Out<u32>,
    at: u64,
) -> Result<Begun> {
    let destination = Destination::Channel(required(handle)?);
    let request = state.node.sclchan_send_open_i(endpoint(at)?)?;
    Ok(Begun::plain(request, destination))
}

/// Send a scalar (MC-SCLSEND-1 to MC-SCLSEND-4).
pub fn sclchan_send<D: Device, S: Scalar>(state: &State<D>, channel: u32, scalar: S) -> Result<()> {
    state.node.sclchan_send(Channel::from_raw(channel), scalar)
}

/// Receive a scalar (MC-SCLRECV-1 to MC-SCLRECV-4).
pub fn sclchan_recv<D: Device, S: Scalar>(state: &State<D>, channel: u32) -> Result<S> {
    state.node.sclchan_recv(Channel::from_raw(channel))
}

/// Count scalars that can be received without waiting (MC-SCLAVAIL-1).
pub fn sclchan_available<D: Device>(state: &State<D>, channel: u32) -> Result<u32> {
    let count = state.node.sclchan_available(Channel::from_raw(channel))?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Begin to close the receiving end (MC-SCLRCLOSE-1).
pub fn sclchan_recv_close_i<D: Device>(state: &State<D>, channel: u32) -> Result<Begun> {
    let request = state
        .node
        .sclchan_recv_close_i(Channel::from_raw(channel))?;
    Ok(Begun::plain(request, Destination::None))
}

/// Begin to close the sending end (MC-SCLSCLOSE-1).
pub fn sclchan_send_close_i<D: Device>(state: &State<D>, channel: u32) -> Result<Begun> {
    let request = state
        .node
        .sclchan_send_close_i(Channel::from_raw(channel))?;
    Ok(Begun::plain(request, Destination::None))
}
