// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the functions do. Each looks first at the interface or session it is for, then at its
//! other arguments, then at states: the order that the specification gives, or where it gives
//! none, that in which a caller learns most. Outputs are written only as its tables say.

use crate::{
    attributes,
    process::{Entry, Process},
    status::{Failure, Outcome, INVALID_ARGUMENT},
    sys,
};
use mp_c_abi::{Input, Out, Room};
use mp_fabric::Device;
use pximc::{
    Access, Deadline, Error, Interface, PhysicalRange, Result, Session, SessionEvent, Sizes,
    WINDOW_DATA_MAX,
};
use std::ffi::c_void;

fn interface<D: Device>(process: &Process<D>, id: u32) -> Result<Interface<D>> {
    process.context()?.library.interface(id)
}

/// Write all elements and how many they are; or, if there is no room for them, only how many
/// they are. Memory that is to hold elements has to be aligned.
///
/// # Errors
/// In this order: no room, no alignment.
pub fn fill<T: Copy>(room: Room<T>, elements: &[T], alignment: usize, actual: Out<u32>) -> Outcome {
    // All lists are far shorter; one that is not would not fit.
    let count = u32::try_from(elements.len()).unwrap_or(u32::MAX);
    if elements.len() > room.len() {
        actual.write(count);
        return Err(Failure::InsufficientSpace);
    }
    room.required()?;
    if count > 0 && room.address() % alignment != 0 {
        return Err(Failure::Alignment);
    }
    room.fill(elements);
    actual.write(count);
    Ok(())
}

/// A copy of the data for a window, if they are not too long.
fn window_data(data: Input<u8>) -> std::result::Result<Vec<u8>, Failure> {
    match data.len() {
        0..=WINDOW_DATA_MAX => Ok(data.copy()?),
        _ => Err(INVALID_ARGUMENT),
    }
}

/// `PXIMC_findInterfaces`
pub fn find_interfaces<D: Device>(
    process: &Process<D>,
    ids: Room<u32>,
    actual: Out<u32>,
) -> Outcome {
    actual.required()?;
    ids.required()?;
    // Without a fabric there are no interfaces, which is no error.
    let interfaces = process
        .context()
        .map_or(Vec::new(), |context| context.library.interfaces());
    let found: Vec<u32> = interfaces.iter().map(Interface::id).collect();
    fill(ids, &found, 1, actual)
}

/// `PXIMC_queryInterfaceInformation`
pub fn query_interface_information<D: Device>(
    process: &Process<D>,
    id: u32,
    attribute: u32,
    value: Room<u8>,
    actual: Out<u32>,
) -> Outcome {
    let information = interface(process, id)?.information()?;
    actual.required()?;
    value.required()?;
    let attribute = attributes::interface(&information, attribute);
    attribute
        .ok_or(Failure::NsupAttribute)?
        .write(value, actual)
}

/// `PXIMC_waitForInterfaceEvent`
pub fn wait_for_interface_event<D: Device>(
    process: &Process<D>,
    id: u32,
    milliseconds: u32,
    reason: Out<u32>,
) -> Outcome {
    let deadline = Deadline::after_milliseconds(milliseconds);
    let interface = interface(process, id)?;
    reason.required()?;
    let events = interface.wait_for_event(deadline)?;
    let bit = |set: bool, bit: u32| if set { bit } else { 0 };
    reason.write(
        bit(events.state, sys::PXIMC_EVENT_INTERFACE_STATE_CHANGE)
            | bit(events.windows, sys::PXIMC_EVENT_WINDOW_STATE_CHANGE),
    );
    Ok(())
}

/// `PXIMC_findWindows`
pub fn find_windows<D: Device>(
    process: &Process<D>,
    id: u32,
    windows: Room<u32>,
    actual: Out<u32>,
) -> Outcome {
    let interface = interface(process, id)?;
    actual.required()?;
    windows.required()?;
    fill(windows, &interface.windows()?, 1, actual)
}

/// `PXIMC_queryWindowInformation`
pub fn query_window_information<D: Device>(
    process: &Process<D>,
    id: u32,
    window: u32,
    attribute: u32,
    value: Room<u8>,
    actual: Out<u32>,
) -> Outcome {
    let interface = interface(process, id)?;
    actual.required()?;
    value.required()?;
    let attribute = attributes::window(&interface.window(window)?, attribute);
    attribute
        .ok_or(Failure::NsupAttribute)?
        .write(value, actual)
}

/// Open a session and tell its number.
fn request<D: Device>(
    process: &Process<D>,
    id: u32,
    sizes: Sizes,
    number: Out<u32>,
    open: impl FnOnce(&Interface<D>) -> std::result::Result<Session<D>, Failure>,
) -> Outcome {
    let context = process.context()?;
    let interface = context.library.interface(id)?;
    number.required()?;
    let entry = Entry {
        session: open(&interface)?,
        remote: sizes.max_remote > 0,
        local: sizes.max_local > 0,
    };
    number.write(context.enter(entry));
    Ok(())
}

/// `PXIMC_requestWindowLogicalAsServer`
pub fn request_window_logical_as_server<D: Device>(
    process: &Process<D>,
    id: u32,
    protocol: u32,
    sizes: Sizes,
    uid: u32,
    data: Input<u8>,
    number: Out<u32>,
) -> Outcome {
    request(process, id, sizes, number, |interface| {
        let data = window_data(data)?;
        Ok(interface.request_logical_as_server(protocol, sizes, uid, &data)?)
    })
}

/// `PXIMC_requestWindowLogicalAsClient`
pub fn request_window_logical_as_client<D: Device>(
    process: &Process<D>,
    id: u32,
    protocol: u32,
    sizes: Sizes,
    uid: u32,
    number: Out<u32>,
) -> Outcome {
    request(process, id, sizes, number, |interface| {
        Ok(interface.request_logical_as_client(protocol, sizes, uid)?)
    })
}

/// `PXIMC_requestWindowLogicalAsPeer`
pub fn request_window_logical_as_peer<D: Device>(
    process: &Process<D>,
    id: u32,
    protocol: u32,
    sizes: Sizes,
    uid: u32,
    data: Input<u8>,
    number: Out<u32>,
) -> Outcome {
    request(process, id, sizes, number, |interface| {
        let data = window_data(data)?;
        Ok(interface.request_logical_as_peer(protocol, sizes, uid, &data)?)
    })
}

/// `PXIMC_requestWindowPhysicalAsServer`
pub fn request_window_physical_as_server<D: Device>(
    process: &Process<D>,
    id: u32,
    protocol: u32,
    range: PhysicalRange,
    uid: u32,
    data: Input<u8>,
    number: Out<u32>,
) -> Outcome {
    let sizes = Sizes {
        max_local: range.len(),
        ..Sizes::default()
    };
    request(process, id, sizes, number, |interface| {
        let data = window_data(data)?;
        Ok(interface.request_physical_as_server(protocol, range, uid, &data)?)
    })
}

/// `PXIMC_requestWindowPhysicalAsClient`
pub fn request_window_physical_as_client<D: Device>(
    process: &Process<D>,
    id: u32,
    protocol: u32,
    (max_remote, min_remote): (u64, u64),
    uid: u32,
    number: Out<u32>,
) -> Outcome {
    let sizes = Sizes {
        max_remote,
        ..Sizes::default()
    };
    request(process, id, sizes, number, |interface| {
        Ok(interface.request_physical_as_client(protocol, max_remote, min_remote, uid)?)
    })
}

/// Where a window's address and size go.
#[derive(Debug)]
pub struct WindowOutput {
    pub address: Out<*mut c_void>,
    pub size: Out<u64>,
}

impl WindowOutput {
    fn required(&self) -> Outcome {
        self.address.required()?;
        self.size.required()?;
        Ok(())
    }

    fn write(&self, address: Option<*mut u8>, size: u64) {
        self.address
            .write(address.map_or(std::ptr::null_mut(), <*mut u8>::cast));
        self.size.write(size);
    }
}

/// `PXIMC_waitForConnection`
pub fn wait_for_connection<D: Device>(
    process: &Process<D>,
    number: u32,
    milliseconds: u32,
    remote: WindowOutput,
    local: WindowOutput,
) -> Outcome {
    let deadline = Deadline::after_milliseconds(milliseconds);
    let entry = process.session(number)?;
    if entry.remote {
        remote.required()?;
    }
    if entry.local {
        local.required()?;
    }
    let connection = entry.session.wait_for_connection(deadline)?;
    let address =
        |map: &Option<std::sync::Arc<pximc::Map>>| map.as_ref().map(|map| map.as_mut_ptr());
    remote.write(address(&connection.remote), connection.remote_size);
    local.write(address(&connection.local), connection.local_size);
    Ok(())
}

/// `PXIMC_getPhysicalAddress`
pub fn get_physical_address<D: Device>(
    process: &Process<D>,
    number: u32,
    address: Out<u64>,
) -> Outcome {
    let entry = process.session(number)?;
    address.required()?;
    address.write(entry.session.physical_address()?);
    Ok(())
}

/// `PXIMC_enableDeviceAccess`
pub fn enable_device_access<D: Device>(
    process: &Process<D>,
    number: u32,
    mode: u32,
    [bus, device, function]: [u32; 3],
) -> Outcome {
    let entry = process.session(number)?;
    let part = |number: u32| u8::try_from(number).map_err(|_| INVALID_ARGUMENT);
    let (bus, device, function) = (part(bus)?, part(device)?, part(function)?);
    let access = access(mode).ok_or(INVALID_ARGUMENT)?;
    Ok(entry
        .session
        .enable_device_access(access, bus, device, function)?)
}

/// The accesses that bits stand for; nothing if one of them is not defined.
fn access(mode: u32) -> Option<Access> {
    let known = [
        (sys::PXIMC_DEVICE_ACCESS_READ, Access::READ),
        (sys::PXIMC_DEVICE_ACCESS_WRITE, Access::WRITE),
        (sys::PXIMC_DEVICE_ACCESS_CLEAR_ALL, Access::CLEAR),
    ];
    let all = known.iter().fold(0, |all, (bit, _)| all | bit);
    let set = known.iter().filter(|(bit, _)| mode & bit != 0);
    (mode & !all == 0).then(|| set.map(|(_, access)| *access).collect())
}

/// `PXIMC_assertEvent`
pub fn assert_event<D: Device>(process: &Process<D>, number: u32) -> Outcome {
    Ok(process.session(number)?.session.assert_event()?)
}

/// `PXIMC_waitForSessionEvent`
pub fn wait_for_session_event<D: Device>(
    process: &Process<D>,
    number: u32,
    milliseconds: u32,
    reason: Out<u32>,
) -> Outcome {
    let deadline = Deadline::after_milliseconds(milliseconds);
    let entry = process.session(number)?;
    reason.required()?;
    reason.write(match entry.session.wait_for_event(deadline)? {
        SessionEvent::Asserted => sys::PXIMC_EVENT_ASSERTED,
        SessionEvent::ConnectionClosed => sys::PXIMC_EVENT_CONNECTION_CLOSED,
        SessionEvent::InterfaceDown => sys::PXIMC_EVENT_INTERFACE_DOWN,
    });
    Ok(())
}

/// `PXIMC_closeWindow`
pub fn close_window<D: Device>(process: &Process<D>, number: u32) -> Outcome {
    let entry = process.take_session(number)?;
    // Without the kernel's context the session has ended before.
    entry.session.close().or_else(|error| match error {
        Error::InvalidSession => Ok(()),
        other => Err(other.into()),
    })
}

/// `PXIMC_cleanup`
pub fn cleanup<D: Device>(process: &Process<D>) -> Outcome {
    for entry in process.take_all() {
        // What the kernel has closed before is closed.
        let _ = entry.session.close();
    }
    Ok(())
}
