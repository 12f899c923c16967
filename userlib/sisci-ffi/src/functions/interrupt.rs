// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interrupts, plain ones and those with a message.

use super::{end, found, make, make_armed, maker, only, wanted, Legal, Place};
use crate::{process::Process, sys};
use mp_c_abi::{Handle, Input, Out, Room};
use mp_fabric::Device;
use sisci::{Desc, Error, InterruptFlags, Result, Triggers};

/// Runs a callback of an interrupt.
pub type InterruptCallback = Box<dyn Fn(Handle) -> sisci::Action + Send>;
/// Runs a callback of an interrupt with a message.
pub type DataCallback = Box<dyn Fn(Handle, &[u8]) -> sisci::Action + Send>;

fn interrupt_flags(flags: u32, number: Out<u32>) -> Result<InterruptFlags> {
    Ok(InterruptFlags {
        number: match flags & sys::SCI_FLAG_FIXED_INTNO {
            0 => None,
            _ => Some(number.read().legal()?),
        },
        shared: flags & sys::SCI_FLAG_SHARED_INT != 0,
        counting: flags & sys::SCI_FLAG_COUNTING_INT != 0,
    })
}

/// What is looked at when an interrupt is made: the device, and how it is to be.
fn interrupt_maker<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Out<Handle>,
    number: Out<u32>,
    flags: u32,
    taken: u32,
) -> Result<(Desc<D>, InterruptFlags)> {
    let desc = maker(process, desc, out)?;
    number.required().legal()?;
    let common = sys::SCI_FLAG_USE_CALLBACK | sys::SCI_FLAG_FIXED_INTNO | sys::SCI_FLAG_SHARED_INT;
    only(flags, common | taken)?;
    Ok((desc, interrupt_flags(flags, number)?))
}

/// `SCICreateInterrupt`
pub fn create_interrupt<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Out<Handle>,
    adapter: u32,
    number: Out<u32>,
    callback: Option<InterruptCallback>,
    flags: u32,
) -> Result<()> {
    let counting = sys::SCI_FLAG_COUNTING_INT;
    let (desc, how) = interrupt_maker(process, desc, out, number, flags, counting)?;
    let callback = wanted(flags, callback)?;
    let make = || {
        let interrupt = desc.create_interrupt(adapter, how)?;
        number.write(interrupt.number());
        Ok(interrupt)
    };
    make_armed(&process.local_interrupts, out, make, |interrupt, handle| {
        callback.map_or(Ok(()), |callback| {
            interrupt.set_callback(move || callback(handle))
        })
    })
}

/// `SCIRemoveInterrupt`
pub fn remove_interrupt<D: Device>(process: &Process<D>, handle: Handle, flags: u32) -> Result<()> {
    end(
        process,
        &process.local_interrupts,
        handle,
        flags,
        |interrupt| interrupt.remove(),
    )
}

/// `SCIWaitForInterrupt`
pub fn wait_for_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    timeout: u32,
    flags: u32,
) -> Result<()> {
    let interrupt = found(process, &process.local_interrupts, handle, flags, 0)?;
    interrupt.wait(timeout)
}

/// `SCIConnectInterrupt`
pub fn connect_interrupt<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Out<Handle>,
    place: Place,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    only(flags, sys::SCI_FLAG_COUNTING_INT)?;
    make(&process.remote_interrupts, out, || {
        let Place {
            node,
            adapter,
            number,
            timeout,
        } = place;
        let triggers = match flags {
            0 => Triggers::Merged,
            _ => Triggers::Counted,
        };
        desc.connect_interrupt(node, adapter, number, timeout, triggers)
    })
}

/// `SCIDisconnectInterrupt`
pub fn disconnect_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    end(
        process,
        &process.remote_interrupts,
        handle,
        flags,
        |interrupt| interrupt.disconnect(),
    )
}

/// `SCITriggerInterrupt`
pub fn trigger_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    let interrupt = found(process, &process.remote_interrupts, handle, flags, 0)?;
    interrupt.trigger()
}

/// `SCICreateDataInterrupt`
pub fn create_data_interrupt<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Out<Handle>,
    adapter: u32,
    number: Out<u32>,
    callback: Option<DataCallback>,
    flags: u32,
) -> Result<()> {
    let (desc, how) = interrupt_maker(process, desc, out, number, flags, 0)?;
    let callback = wanted(flags, callback)?;
    let make = || {
        let interrupt = desc.create_data_interrupt(adapter, how)?;
        number.write(interrupt.number());
        Ok(interrupt)
    };
    let table = &process.local_data_interrupts;
    make_armed(table, out, make, |interrupt, handle| {
        callback.map_or(Ok(()), |callback| {
            interrupt.set_callback(move |data| callback(handle, data))
        })
    })
}

/// `SCIRemoveDataInterrupt`
pub fn remove_data_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    end(
        process,
        &process.local_data_interrupts,
        handle,
        flags,
        |interrupt| interrupt.remove(),
    )
}

/// `SCIWaitForDataInterrupt`; the room at the buffer is made of what its length says.
pub fn wait_for_data_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    buffer: Room<u8>,
    length: Out<u32>,
    timeout: u32,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let interrupt = process.local_data_interrupts.get(handle).legal()?;
    length.required().legal()?;
    buffer.required().legal()?;
    only(flags, 0)?;
    let mut room = vec![0; buffer.len().min(sisci::MESSAGE_MAX)];
    match interrupt.wait(&mut room, timeout) {
        Ok(len) => {
            buffer.fill(room.get(..len).unwrap_or_default());
            length.write(len as u32);
            Ok(())
        }
        Err(Error::TooLong { len }) => {
            length.write(len as u32);
            Err(Error::OutOfRange)
        }
        Err(error) => Err(error),
    }
}

/// `SCIConnectDataInterrupt`
pub fn connect_data_interrupt<D: Device>(
    process: &Process<D>,
    desc: Handle,
    out: Out<Handle>,
    place: Place,
    flags: u32,
) -> Result<()> {
    let desc = maker(process, desc, out)?;
    only(flags, sys::SCI_FLAG_BROADCAST)?;
    make(&process.remote_data_interrupts, out, || {
        let Place {
            node,
            adapter,
            number,
            timeout,
        } = place;
        match flags {
            0 => desc.connect_data_interrupt(node, adapter, number, timeout),
            _ => desc.connect_data_interrupts(node, adapter, number, timeout),
        }
    })
}

/// `SCIDisconnectDataInterrupt`
pub fn disconnect_data_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    flags: u32,
) -> Result<()> {
    end(
        process,
        &process.remote_data_interrupts,
        handle,
        flags,
        |interrupt| interrupt.disconnect(),
    )
}

/// `SCITriggerDataInterrupt`
pub fn trigger_data_interrupt<D: Device>(
    process: &Process<D>,
    handle: Handle,
    data: Input<u8>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let interrupt = process.remote_data_interrupts.get(handle).legal()?;
    data.required().legal()?;
    only(flags, 0)?;
    if data.len() > sisci::MESSAGE_MAX {
        return Err(Error::OutOfRange);
    }
    interrupt.trigger(&data.copy().legal()?)
}
