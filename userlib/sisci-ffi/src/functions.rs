// SPDX-License-Identifier: GPL-2.0

//! What each function does. All look at things in the same order (SI-GEN-9): whether the library
//! is initialized, handles and pointers, flags, and then what the crate `sisci` looks at.

mod dma;
mod interrupt;
mod library;
mod map;
mod node;
mod remote;
mod requester;
mod segment;

pub use dma::*;
pub use interrupt::*;
pub use library::*;
pub use map::*;
pub use node::*;
pub use remote::*;
pub use requester::*;
pub use segment::*;

use crate::{
    buffer::Output,
    process::Process,
    sys,
    table::{Handle, Table},
};
use mp_fabric::Device;
use sisci::{Desc, Error, Result};

/// Refuses flags that a function does not take.
pub fn only(flags: u32, taken: u32) -> Result<()> {
    match flags & !taken {
        0 => Ok(()),
        _ => Err(Error::IllegalFlag),
    }
}

/// A callback, if there is to be one; without the flag none is looked at.
fn wanted<C>(flags: u32, callback: Option<C>) -> Result<Option<C>> {
    match flags & sys::SCI_FLAG_USE_CALLBACK {
        0 => Ok(None),
        _ => callback.ok_or(Error::IllegalParameter).map(Some),
    }
}

/// Makes an object and the handle for it, which a callback gets before anybody else.
fn make<T: Clone>(
    table: &Table<T>,
    out: Output<Handle>,
    make: impl FnOnce(Handle) -> Result<T>,
) -> Result<()> {
    let handle = table.reserve()?;
    table.enter(handle, make(handle)?);
    out.write(handle);
    Ok(())
}

/// A function that this library does not have: flags are looked at all the same.
pub fn missing<D: Device>(process: &Process<D>, flags: u32, taken: u32) -> Result<()> {
    process.ready()?;
    only(flags, taken)?;
    Err(Error::NotImplemented)
}

/// The descriptor and the out-pointer of a function that makes something.
fn maker<D: Device>(process: &Process<D>, desc: Handle, out: Output<Handle>) -> Result<Desc<D>> {
    process.ready()?;
    let desc = process.descs.get(desc)?;
    out.required()?;
    Ok(desc)
}

/// Where something is that a function connects to.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub node: u32,
    pub adapter: u32,
    pub number: u32,
    pub timeout: u32,
}

/// The number of a result.
pub fn code(result: Result<()>) -> u32 {
    result.map_or_else(Error::code, |()| sys::SCI_ERR_OK)
}
