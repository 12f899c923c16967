// SPDX-License-Identifier: MIT OR Apache-2.0

//! What each function does. All look at handles first, then at pointers, then at values
//! (VI-GEN-5, VI-GEN-6), and write a result only when they have succeeded, unless a function says
//! otherwise.

mod completion;
mod connect;
mod memory;
mod names;
mod nic;
mod queue;
mod vi;

pub use completion::*;
pub use connect::*;
pub use memory::*;
pub use names::*;
pub use nic::*;
pub use queue::*;
pub use vi::*;

use mp_c_abi::{Handle, Null, Out, Table};
use std::sync::Arc;
use vipl::{Error, Result};

/// The object of a handle.
///
/// # Errors
/// [`Error::InvalidParameter`]: there is none (VI-GEN-5), or not in this process (VI-GEN-9).
fn found<T>(table: &Table<Arc<T>>, handle: Handle) -> Result<Arc<T>> {
    table.get(handle).map_err(|_| Error::InvalidParameter)
}

/// Refuse NULL where something goes.
///
/// # Errors
/// [`Error::InvalidParameter`] (VI-GEN-6).
fn required<T: Copy>(out: Out<T>) -> Result<Out<T>> {
    out.required().map_err(|Null| Error::InvalidParameter)
}

/// What a program passes by a pointer.
///
/// # Errors
/// [`Error::InvalidParameter`] (VI-GEN-6).
fn passed<T: Copy>(pointer: Out<T>) -> Result<T> {
    pointer.read().map_err(|Null| Error::InvalidParameter)
}

/// A handle for an object that is to be made.
///
/// # Errors
/// [`Error::Resource`].
fn reserved<T: Clone>(table: &Table<T>) -> Result<Handle> {
    table.reserve().map_err(|_| Error::Resource)
}

/// The number that an object of the crate `vipl` has of its handle.
fn token(handle: Handle) -> u64 {
    address(handle) as u64
}

/// The handle of such a number.
pub fn handle_of(token: u64) -> Handle {
    Handle::from_pointer(std::ptr::without_provenance_mut::<u8>(token as usize))
}

fn address(handle: Handle) -> usize {
    let pointer: *mut u8 = mp_c_abi::Abi::to_c(handle);
    pointer.addr()
}
