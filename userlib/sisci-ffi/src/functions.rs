// SPDX-License-Identifier: MIT OR Apache-2.0

//! What each function does. All look at things in the same order (SI-GEN-9): whether the library
//! is initialized, handles and pointers, flags, and then what the crate `sisci` looks at.

mod dma;
mod interrupt;
mod legal;
mod library;
mod map;
mod node;
mod remote;
mod requester;
mod segment;

pub use dma::*;
pub use interrupt::*;
pub use legal::Legal;
pub use library::*;
pub use map::*;
pub use node::*;
pub use remote::*;
pub use requester::*;
pub use segment::*;

use crate::{process::Process, sys};
use mp_c_abi::{Handle, Out, Table};
use mp_fabric::Device;
use sisci::{Desc, Error, Result};

/// Refuse flags that a function does not take.
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

/// Make an object and the handle for it.
fn make<T: Clone>(
    table: &Table<T>,
    out: Out<Handle>,
    make: impl FnOnce() -> Result<T>,
) -> Result<()> {
    make_armed(table, out, make, |_, _| Ok(()))
}

/// Make an object and the handle for it, and then has its events run a callback: however soon
/// that is, the handle leads to the object, and is where the program looks for it.
fn make_armed<T: Clone>(
    table: &Table<T>,
    out: Out<Handle>,
    make: impl FnOnce() -> Result<T>,
    arm: impl FnOnce(&T, Handle) -> Result<()>,
) -> Result<()> {
    let handle = table.reserve().legal()?;
    let object = make()?;
    table.enter(handle, object.clone());
    out.write(handle);
    let armed = arm(&object, handle);
    if armed.is_err() {
        out.write(Handle::NULL);
        table.forget(handle);
    }
    armed
}

/// A function that this library does not have: flags are looked at all the same.
pub fn missing<D: Device, T>(process: &Process<D>, flags: u32, taken: u32) -> Result<T> {
    process.ready()?;
    only(flags, taken)?;
    Err(Error::NotImplemented)
}

/// As [`missing`], for a function that makes something.
pub fn missing_maker<D: Device>(
    process: &Process<D>,
    out: Out<Handle>,
    flags: u32,
    taken: u32,
) -> Result<()> {
    out.write(Handle::NULL);
    missing(process, flags, taken)
}

/// The object of a handle, for a function that takes such flags and nothing else to look at.
fn found<D: Device, T: Clone>(
    process: &Process<D>,
    table: &Table<T>,
    handle: Handle,
    flags: u32,
    taken: u32,
) -> Result<T> {
    process.ready()?;
    let object = table.get(handle).legal()?;
    only(flags, taken)?;
    Ok(object)
}

/// End an object, whose handle leads nowhere then, for a function that takes no flags. It goes
/// when the table is not locked any more: callbacks that it waits for may look there.
fn end<D: Device, T: Clone>(
    process: &Process<D>,
    table: &Table<T>,
    handle: Handle,
    flags: u32,
    end: impl FnOnce(&T) -> Result<()>,
) -> Result<()> {
    let object = found(process, table, handle, flags, 0)?;
    end(&object)?;
    table.forget(handle);
    Ok(())
}

/// The object that another one is made of; the out-pointer is looked at as well, and NULL goes
/// there at once, which stays if the function fails (SI-GEN-11).
fn made_of<D: Device, T: Clone>(
    process: &Process<D>,
    table: &Table<T>,
    handle: Handle,
    out: Out<Handle>,
) -> Result<T> {
    out.write(Handle::NULL);
    process.ready()?;
    let object = table.get(handle).legal()?;
    out.required().legal()?;
    Ok(object)
}

/// As [`made_of`], for what is made on a virtual device.
fn maker<D: Device>(process: &Process<D>, desc: Handle, out: Out<Handle>) -> Result<Desc<D>> {
    made_of(process, &process.descs, desc, out)
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
