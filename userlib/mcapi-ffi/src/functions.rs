// SPDX-License-Identifier: MIT OR Apache-2.0

//! What each function does. All look at pointers first, then at what is named, then at whose it is,
//! then at values (MC-GEN-4), and write a result only when they have succeeded, unless a function
//! says otherwise. That the process is a node is known by then.

mod endpoint;
mod message;
mod node;
mod packet;
mod request;
mod scalar;

pub use endpoint::*;
pub use message::*;
pub use node::*;
pub use packet::*;
pub use request::*;
pub use scalar::*;

use mcapi::{Endpoint, Error, Result, VolatileSlice};
use mp_c_abi::{Input, Null, Out, Room};

/// The endpoint of a handle, which may not exist.
///
/// # Errors
/// [`Error::EndpointInvalid`]: it cannot be one.
fn endpoint(raw: u64) -> Result<Endpoint> {
    Endpoint::from_raw(raw).ok_or(Error::EndpointInvalid)
}

/// Refuse NULL where something goes.
///
/// # Errors
/// [`Error::Parameter`].
fn required<T: Copy>(out: Out<T>) -> Result<Out<T>> {
    out.required().map_err(|Null| Error::Parameter)
}

/// Refuse NULL where an attribute goes, whatever its size.
///
/// # Errors
/// [`Error::Parameter`].
fn place(room: Room<u8>) -> Result<Room<u8>> {
    match room.address() {
        0 => Err(Error::Parameter),
        _ => Ok(room),
    }
}

/// The bytes that a program sends, from any memory: also from the buffer of a packet, which the
/// sender of that one can still write. More than there can be in memory are too many, with that
/// error.
///
/// # Errors
/// [`Error::Parameter`]: NULL.
fn payload(buffer: &Input<u8>, too_many: Error) -> Result<VolatileSlice<'_>> {
    buffer.required().map_err(|Null| Error::Parameter)?;
    if isize::try_from(buffer.len()).is_err() {
        return Err(too_many);
    }
    // SAFETY: What is sent is only read.
    unsafe { buffer.volatile() }.map_err(|Null| Error::Parameter)
}
