// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions that programs call, by the names and with the arguments of `pximc.h`.
//!
//! Each finds out whom the call is for and passes it on: pointers as they are, and all outputs
//! and the status as the vendor leaves them. Only interface and session numbers are replaced by
//! the vendor's own. `errno` is what the vendor leaves as well. No panic leaves this module.

#![allow(non_snake_case, unsafe_code)]

use std::ffi::c_void;

use mp_c_abi::{export, Null, Out, PerProcess, Room};

use crate::dispatch::{Dispatcher, Listing};
use crate::library::{Directory, Library};
use crate::status::{self, Status};
use crate::sys;

/// A child begins with a new one, for sessions work in the process that has opened them only
/// (PXI-SES-2).
static DISPATCHERS: PerProcess<Dispatcher<Directory>> =
    PerProcess::new(&|_| Dispatcher::new(Directory));

/// Call with the dispatcher of this process; `SPACE_NOT_AVAILABLE` if it panics.
fn run(call: impl FnOnce(&Dispatcher<Directory>) -> Status) -> Status {
    mp_c_abi::caught(|| call(DISPATCHERS.current())).unwrap_or(status::SPACE_NOT_AVAILABLE)
}

/// Call the vendor that has the interface, with its own number for it.
fn to_interface(
    dispatcher: &Dispatcher<Directory>,
    interface: u32,
    call: impl FnOnce(&Library, u32) -> Status,
) -> Status {
    match dispatcher.interface(interface) {
        Ok(route) => call(route.vendor(), route.number()),
        Err(status) => status,
    }
}

/// The same, for a function that opens a session: its number goes to the program.
fn to_interface_for_session(
    dispatcher: &Dispatcher<Directory>,
    interface: u32,
    session: Out<u32>,
    call: impl FnOnce(&Library, u32, &mut u32) -> Status,
) -> Status {
    let opened = dispatcher.open(interface, |route| {
        session
            .required()
            .map_err(|Null| status::INVALID_ARGUMENT)?;
        // The vendor's number is kept here until it is known how the program shall call it.
        let mut number = 0;
        match call(route.vendor(), route.number(), &mut number) {
            status::SUCCESS => Ok(number),
            status => Err(status),
        }
    });
    match opened {
        Ok(number) => {
            session.write(number);
            status::SUCCESS
        }
        Err(status) => status,
    }
}

/// Call the vendor whose session it is, with its own number for it.
fn to_session(
    dispatcher: &Dispatcher<Directory>,
    session: u32,
    call: impl FnOnce(&Library, u32) -> Status,
) -> Status {
    match dispatcher.session(session) {
        Ok(route) => call(route.vendor(), route.number()),
        Err(status) => status,
    }
}

/// The same; then the number of the session is forgotten.
fn close(
    dispatcher: &Dispatcher<Directory>,
    session: u32,
    call: impl FnOnce(&Library, u32) -> Status,
) -> Status {
    dispatcher
        .close(session, |route| call(route.vendor(), route.number()))
        .unwrap_or_else(|status| status)
}

/// List the interfaces of all vendors, one vendor after the other.
///
/// If the array is too small, or a vendor insists on being given too little room, nothing but the
/// number of interfaces is written. Without any vendor, that is zero.
fn find_interfaces(
    dispatcher: &Dispatcher<Directory>,
    ids: Room<u32>,
    capacity: u32,
    actual: Out<u32>,
) -> Status {
    if actual.required().is_err() || ids.required().is_err() {
        return status::INVALID_ARGUMENT;
    }
    let (status, count, found) = match dispatcher.find_interfaces() {
        Listing::NoProvider => (status::NO_PROVIDER, 0, None),
        Listing::Failed(status::INSUFFICIENT_SPACE, count) => {
            (status::INSUFFICIENT_SPACE, count, None)
        }
        Listing::Failed(status, _) => return status,
        Listing::Complete(found) => match u32::try_from(found.len()) {
            Ok(count) if count <= capacity => (status::SUCCESS, count, Some(found)),
            count => (status::INSUFFICIENT_SPACE, count.unwrap_or(u32::MAX), None),
        },
    };
    ids.fill(&found.unwrap_or_default());
    actual.write(count);
    status
}

/// Functions that go to the vendor that has the interface.
macro_rules! by_interface {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { export! {
        header = sys; run = run;
        $(
            /// As in `pximc.h`, by the vendor that has the interface.
            $name(interface: u32, $($argument: $type),*) -> Status = to_interface(interface,
                // SAFETY: The arguments are those that the caller answers for.
                (|vendor, number| unsafe { vendor.functions.$name(number, $($argument),*) }));
        )*
    }};
}

/// Functions that open a session with the vendor that has the interface.
macro_rules! by_interface_for_session {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { export! {
        header = sys; run = run;
        $(
            /// As in `pximc.h`, by the vendor that has the interface. The number of the session
            /// may be another than the vendor's.
            $name(interface: u32, $($argument: $type,)* session: Out<u32>) -> Status
                = to_interface_for_session(interface, session,
                    // SAFETY: The arguments are those that the caller answers for.
                    (|vendor, number, opened| unsafe {
                        vendor.functions.$name(number, $($argument,)* opened)
                    }));
        )*
    }};
}

/// Functions that go to the vendor whose session it is.
macro_rules! by_session {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { export! {
        header = sys; run = run;
        $(
            /// As in `pximc.h`, by the vendor whose session it is.
            $name(session: u32, $($argument: $type),*) -> Status = to_session(session,
                // SAFETY: The arguments are those that the caller answers for.
                (|vendor, number| unsafe { vendor.functions.$name(number, $($argument),*) }));
        )*
    }};
}

by_interface! {
    PXIMC_queryInterfaceInformation(
        attribute: u32, capacity: u32, value: *mut c_void, actual: *mut u32);
    PXIMC_waitForInterfaceEvent(timeout: u32, reason: *mut u32);
    PXIMC_findWindows(capacity: u32, windows: *mut u32, actual: *mut u32);
    PXIMC_queryWindowInformation(
        window: u32, attribute: u32, capacity: u32, value: *mut c_void, actual: *mut u32);
}

by_interface_for_session! {
    PXIMC_requestWindowLogicalAsServer(
        protocol: u32, max_local: u64, min_local: u64, max_remote: u64, min_remote: u64,
        uid: u32, data: *const u8, data_size: u32);
    PXIMC_requestWindowLogicalAsClient(
        protocol: u32, max_local: u64, min_local: u64, max_remote: u64, min_remote: u64, uid: u32);
    PXIMC_requestWindowLogicalAsPeer(
        protocol: u32, max_local: u64, min_local: u64, max_remote: u64, min_remote: u64,
        uid: u32, data: *const u8, data_size: u32);
    PXIMC_requestWindowPhysicalAsServer(
        protocol: u32, local_size: u64, uid: u32, address: u64, data: *const u8, data_size: u32);
    PXIMC_requestWindowPhysicalAsClient(
        protocol: u32, max_remote: u64, min_remote: u64, uid: u32);
}

by_session! {
    PXIMC_waitForConnection(
        timeout: u32, remote: *mut *mut c_void, remote_size: *mut u64,
        local: *mut *mut c_void, local_size: *mut u64);
    PXIMC_getPhysicalAddress(address: *mut u64);
    PXIMC_assertEvent();
    PXIMC_waitForSessionEvent(timeout: u32, reason: *mut u32);
}

export! {
    header = sys; run = run;

    /// List the interfaces of all vendors.
    PXIMC_findInterfaces(capacity: u32, ids: *mut u32, actual: Out<u32>) -> Status
        = find_interfaces([ids; capacity], capacity, actual);

    /// As in `pximc.h`, by the vendor whose session it is, if that knows the function.
    PXIMC_enableDeviceAccess(session: u32, mode: u32, bus: u32, device: u32, function: u32)
        -> Status = to_session(session, (|vendor, number| match vendor.has_device_access {
            // SAFETY: It takes any numbers.
            true => unsafe {
                vendor.functions.PXIMC_enableDeviceAccess(number, mode, bus, device, function)
            },
            false => status::PHY_RESOURCE_NOT_AVAILABLE,
        }));

    /// As in `pximc.h`, by the vendor whose session it is; then its number is forgotten.
    PXIMC_closeWindow(session: u32) -> Status = close(session,
        // SAFETY: It takes any number.
        (|vendor, number| unsafe { vendor.functions.PXIMC_closeWindow(number) }));

    /// Clean up with all vendors that were loaded, and forget all interfaces and sessions.
    PXIMC_cleanup() -> Status = Dispatcher::cleanup;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_status() {
        let status = run(|_| panic!("the program shall not see this"));
        assert_eq!(status, status::SPACE_NOT_AVAILABLE);
        assert_eq!(run(|_| status::SUCCESS), status::SUCCESS);
    }

    /// PXI-SES-2: a lock of the parent's dispatcher may be held for ever.
    #[test]
    fn a_child_waits_for_no_thread_of_its_parent() {
        mp_testing::children_of_threads(|| {
            DISPATCHERS.current().find_interfaces();
            DISPATCHERS.current().cleanup();
        });
    }
}
