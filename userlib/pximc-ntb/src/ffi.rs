// SPDX-License-Identifier: MIT OR Apache-2.0

//! The exported functions. What they do with pointers is to make values of
//! [`buffer`](crate::buffer) of them; what they do with a panic is to end it.

use crate::{
    buffer::{Buffer, Input, Output},
    functions::{self, WindowOutput},
    process::Process,
    status::{self, Failure, Outcome},
    sys::tPXIMC_Status,
};
use mp_fabric::CharDevice;
use mp_processes::Processes;
use pximc::{Error, Library, PhysicalRange, Sizes};
use std::{
    ffi::c_void,
    panic::{catch_unwind, AssertUnwindSafe},
};

static PROCESSES: Processes<Process<CharDevice>> =
    Processes::new(&|_| Process::new(&Library::open));

/// Runs a function for the process that calls. A panic is a defect of this library, which the
/// specification has no status for: the caller is told that a resource is missing.
fn run(function: impl FnOnce(&Process<CharDevice>) -> Outcome) -> tPXIMC_Status {
    let outcome = catch_unwind(AssertUnwindSafe(|| function(PROCESSES.current())));
    status::number(outcome.unwrap_or(Err(Failure::Library(Error::SpaceNotAvailable))))
}

/// Lists the interfaces of this system.
///
/// # Safety
/// Of `pximc.h`, as for all functions: a pointer is NULL, or leads to as much memory as the other
/// arguments say, which is the call's until it returns.
#[no_mangle]
pub unsafe extern "C" fn PXIMC_findInterfaces(
    max_number: u32,
    interface_ids: *mut u32,
    actual_number: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let (ids, actual) = unsafe {
        (
            Buffer::new(interface_ids, max_number),
            Output::new(actual_number),
        )
    };
    run(|process| functions::find_interfaces(process, ids, actual))
}

/// Tells an attribute of an interface.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_queryInterfaceInformation(
    interface_id: u32,
    attribute_id: u32,
    max_size: u32,
    attribute_value: *mut c_void,
    actual_size: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let (value, actual) = unsafe {
        (
            Buffer::new(attribute_value.cast(), max_size),
            Output::new(actual_size),
        )
    };
    run(|process| {
        functions::query_interface_information(process, interface_id, attribute_id, value, actual)
    })
}

/// Waits for changes of an interface.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_waitForInterfaceEvent(
    interface_id: u32,
    timeout: u32,
    reason_code: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let reason = unsafe { Output::new(reason_code) };
    run(|process| functions::wait_for_interface_event(process, interface_id, timeout, reason))
}

/// Lists the windows of the other system.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_findWindows(
    interface_id: u32,
    max_number: u32,
    window_ids: *mut u32,
    actual_number: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let (ids, actual) = unsafe {
        (
            Buffer::new(window_ids, max_number),
            Output::new(actual_number),
        )
    };
    run(|process| functions::find_windows(process, interface_id, ids, actual))
}

/// Tells an attribute of a window of the other system.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_queryWindowInformation(
    interface_id: u32,
    window_id: u32,
    attribute_id: u32,
    max_size: u32,
    attribute_value: *mut c_void,
    actual_size: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let (value, actual) = unsafe {
        (
            Buffer::new(attribute_value.cast(), max_size),
            Output::new(actual_size),
        )
    };
    run(|process| {
        let (id, attribute) = (interface_id, attribute_id);
        functions::query_window_information(process, id, window_id, attribute, value, actual)
    })
}

/// Offers a window of memory to clients.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_requestWindowLogicalAsServer(
    interface_id: u32,
    protocol: u32,
    max_local: u64,
    min_local: u64,
    max_remote: u64,
    min_remote: u64,
    uid: u32,
    window_data: *const u8,
    window_data_size: u32,
    session_number: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let (data, number) = unsafe {
        (
            Input::new(window_data, window_data_size),
            Output::new(session_number),
        )
    };
    let sizes = Sizes {
        max_local,
        min_local,
        max_remote,
        min_remote,
    };
    run(|process| {
        let id = interface_id;
        functions::request_window_logical_as_server(process, id, protocol, sizes, uid, data, number)
    })
}

/// Pairs with a server.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_requestWindowLogicalAsClient(
    interface_id: u32,
    protocol: u32,
    max_local: u64,
    min_local: u64,
    max_remote: u64,
    min_remote: u64,
    uid: u32,
    session_number: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let number = unsafe { Output::new(session_number) };
    let sizes = Sizes {
        max_local,
        min_local,
        max_remote,
        min_remote,
    };
    run(|process| {
        let id = interface_id;
        functions::request_window_logical_as_client(process, id, protocol, sizes, uid, number)
    })
}

/// Pairs with a peer, or waits for one.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_requestWindowLogicalAsPeer(
    interface_id: u32,
    protocol: u32,
    max_local: u64,
    min_local: u64,
    max_remote: u64,
    min_remote: u64,
    uid: u32,
    window_data: *const u8,
    window_data_size: u32,
    session_number: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let (data, number) = unsafe {
        (
            Input::new(window_data, window_data_size),
            Output::new(session_number),
        )
    };
    let sizes = Sizes {
        max_local,
        min_local,
        max_remote,
        min_remote,
    };
    run(|process| {
        let id = interface_id;
        functions::request_window_logical_as_peer(process, id, protocol, sizes, uid, data, number)
    })
}

/// Offers physical addresses to clients.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_requestWindowPhysicalAsServer(
    interface_id: u32,
    protocol: u32,
    size: u64,
    uid: u32,
    address: u64,
    window_data: *const u8,
    window_data_size: u32,
    session_number: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let (data, number) = unsafe {
        (
            Input::new(window_data, window_data_size),
            Output::new(session_number),
        )
    };
    // SAFETY: A program that offers physical addresses answers for what is there.
    let range = unsafe { PhysicalRange::new(address, size) };
    run(|process| {
        let id = interface_id;
        functions::request_window_physical_as_server(
            process, id, protocol, range, uid, data, number,
        )
    })
}

/// Pairs with a physical server.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_requestWindowPhysicalAsClient(
    interface_id: u32,
    protocol: u32,
    max_remote: u64,
    min_remote: u64,
    uid: u32,
    session_number: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let number = unsafe { Output::new(session_number) };
    let remote = (max_remote, min_remote);
    run(|process| {
        let id = interface_id;
        functions::request_window_physical_as_client(process, id, protocol, remote, uid, number)
    })
}

/// Waits for the partner.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_waitForConnection(
    session_number: u32,
    timeout: u32,
    remote_address: *mut *mut c_void,
    remote_size: *mut u64,
    local_address: *mut *mut c_void,
    local_size: *mut u64,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let window = |address, size| unsafe {
        WindowOutput {
            address: Output::new(address),
            size: Output::new(size),
        }
    };
    let remote = window(remote_address, remote_size);
    let local = window(local_address, local_size);
    run(|process| functions::wait_for_connection(process, session_number, timeout, remote, local))
}

/// Tells where devices reach the remote window.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_getPhysicalAddress(
    session_number: u32,
    physical_address: *mut u64,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let address = unsafe { Output::new(physical_address) };
    run(|process| functions::get_physical_address(process, session_number, address))
}

/// Lets a device reach the remote window.
#[no_mangle]
pub extern "C" fn PXIMC_enableDeviceAccess(
    session_number: u32,
    access_mode: u32,
    bus: u32,
    device: u32,
    function: u32,
) -> tPXIMC_Status {
    let place = [bus, device, function];
    run(|process| functions::enable_device_access(process, session_number, access_mode, place))
}

/// Wakes the partner.
#[no_mangle]
pub extern "C" fn PXIMC_assertEvent(session_number: u32) -> tPXIMC_Status {
    run(|process| functions::assert_event(process, session_number))
}

/// Waits for an event of a session.
///
/// # Safety
/// As [`PXIMC_findInterfaces`].
#[no_mangle]
pub unsafe extern "C" fn PXIMC_waitForSessionEvent(
    session_number: u32,
    timeout: u32,
    reason_code: *mut u32,
) -> tPXIMC_Status {
    // SAFETY: The caller's promise.
    let reason = unsafe { Output::new(reason_code) };
    run(|process| functions::wait_for_session_event(process, session_number, timeout, reason))
}

/// Closes a session.
#[no_mangle]
pub extern "C" fn PXIMC_closeWindow(session_number: u32) -> tPXIMC_Status {
    run(|process| functions::close_window(process, session_number))
}

/// Closes all sessions of this process.
#[no_mangle]
pub extern "C" fn PXIMC_cleanup() -> tPXIMC_Status {
    run(functions::cleanup)
}

#[cfg(test)]
mod tests {
    use crate::sys;

    /// PXI-GEN-2, PXI-GEN-4: all 17 functions have the signatures of the header.
    #[test]
    fn signatures_are_those_of_the_header() {
        macro_rules! same {
            ($($name:ident($($argument:tt),*)),* $(,)?) => {$({
                // The arrays compile only if both are functions of one type.
                let header: unsafe extern "C" fn($(same!(@ $argument)),*) -> _ = sys::$name;
                let types = [header, super::$name as unsafe extern "C" fn($(same!(@ $argument)),*) -> _];
                assert_eq!(types.len(), 2);
            })*};
            (@ $argument:tt) => { _ };
        }
        let _ = sys::PXIMC_SUCCESS;
        same!(
            PXIMC_findInterfaces(a, b, c),
            PXIMC_queryInterfaceInformation(a, b, c, d, e),
            PXIMC_waitForInterfaceEvent(a, b, c),
            PXIMC_findWindows(a, b, c, d),
            PXIMC_queryWindowInformation(a, b, c, d, e, f),
            PXIMC_requestWindowLogicalAsServer(a, b, c, d, e, f, g, h, i, j),
            PXIMC_requestWindowLogicalAsClient(a, b, c, d, e, f, g, h),
            PXIMC_requestWindowLogicalAsPeer(a, b, c, d, e, f, g, h, i, j),
            PXIMC_requestWindowPhysicalAsServer(a, b, c, d, e, f, g, h),
            PXIMC_requestWindowPhysicalAsClient(a, b, c, d, e, f),
            PXIMC_waitForConnection(a, b, c, d, e, f),
            PXIMC_getPhysicalAddress(a, b),
            PXIMC_enableDeviceAccess(a, b, c, d, e),
            PXIMC_assertEvent(a),
            PXIMC_waitForSessionEvent(a, b, c),
            PXIMC_closeWindow(a),
            PXIMC_cleanup(),
        );
    }
}
