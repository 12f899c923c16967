// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages.

use super::{endpoint, payload, required};
use crate::{
    operations::{Begun, Destination},
    process::State,
};
use mcapi::{Device, Error, Result};
use mp_c_abi::{Input, Null, Out, Room};

/// Begin to send a message (MC-MSGSENDI-1 to MC-MSGSENDI-5).
pub fn msg_send_i<D: Device>(
    state: &State<D>,
    from: u64,
    to: u64,
    buffer: Input<u8>,
    priority: u32,
) -> Result<Begun> {
    let data = payload(&buffer, Error::MessageSize)?;
    let (from, to) = (endpoint(from)?, endpoint(to)?);
    let request = state.node.msg_send_i(from, to, data, priority)?;
    Ok(Begun::moving(request, Destination::None))
}

/// Send a message (MC-MSGSEND-1 to MC-MSGSEND-6).
pub fn msg_send<D: Device>(
    state: &State<D>,
    from: u64,
    to: u64,
    buffer: Input<u8>,
    priority: u32,
) -> Result<()> {
    let data = payload(&buffer, Error::MessageSize)?;
    let (from, to) = (endpoint(from)?, endpoint(to)?);
    state.node.msg_send(from, to, data, priority)
}

/// Begin to receive a message (MC-MSGRECVI-1 to MC-MSGRECVI-4).
pub fn msg_recv_i<D: Device>(state: &State<D>, at: u64, buffer: Room<u8>) -> Result<Begun> {
    let buffer = buffer.required().map_err(|Null| Error::Parameter)?;
    let request = state.node.msg_recv_i(endpoint(at)?, buffer.len())?;
    Ok(Begun::moving(request, Destination::Message(buffer)))
}

/// Receive a message (MC-MSGRECV-1 to MC-MSGRECV-5). One that is too long loses its end; its size is
/// what there was room for.
pub fn msg_recv<D: Device>(
    state: &State<D>,
    at: u64,
    buffer: Room<u8>,
    size: Out<usize>,
) -> Result<()> {
    let buffer = buffer.required().map_err(|Null| Error::Parameter)?;
    required(size)?;
    let (data, is_truncated) = state.node.msg_take(endpoint(at)?, buffer.len())?;
    buffer.fill(&data);
    size.write(data.len());
    match is_truncated {
        false => Ok(()),
        true => Err(Error::MessageTruncated),
    }
}

/// Count messages that can be received without waiting (MC-MSGAVAIL-1, MC-MSGAVAIL-2).
pub fn msg_available<D: Device>(state: &State<D>, at: u64) -> Result<u32> {
    let count = state.node.msg_available(endpoint(at)?)?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}
