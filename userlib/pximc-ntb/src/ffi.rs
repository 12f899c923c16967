// SPDX-License-Identifier: MIT OR Apache-2.0

//! The exported functions, as `pximc.h` declares them, and the function that does what each does.

use crate::{
    functions::{self, WindowOutput},
    process::Process,
    status::{self, Failure, Outcome},
    sys::{self, tPXIMC_Status},
};
use mp_c_abi::{export, guarded, Out, PerProcess};
use mp_fabric::CharDevice;
use pximc::{Error, Library, PhysicalRange, Sizes};
use std::ffi::c_void;
use tracing::{debug, trace};

static PROCESSES: PerProcess<Process<CharDevice>> = PerProcess::new(&|_| {
    Process::new(&|| {
        // Why there is none has been told.
        Library::open().map_err(|_| Error::InvalidInterface)
    })
});

/// Run a function for the process that calls. A panic is a defect of this library, which the
/// specification has no status for: the caller is told that a resource is missing.
fn run(function: impl FnOnce(&Process<CharDevice>) -> Outcome) -> tPXIMC_Status {
    let outcome = guarded(|| function(PROCESSES.current()));
    let outcome = outcome.unwrap_or(Err(Failure::Library(Error::SpaceNotAvailable)));
    match outcome {
        Ok(()) => {}
        Err(Failure::Library(Error::Timeout)) => trace!("{}", Error::Timeout),
        Err(why) => debug!("{why}"),
    }
    status::number(outcome)
}

export! {
    header = sys; run = run;

    /// Lists the interfaces of this system.
    PXIMC_findInterfaces(max_number: u32, interface_ids: *mut u32, actual_number: Out<u32>)
        -> tPXIMC_Status
        = functions::find_interfaces([interface_ids; max_number], actual_number);

    /// Tells an attribute of an interface.
    PXIMC_queryInterfaceInformation(
        interface_id: u32, attribute_id: u32,
        max_size: u32, attribute_value: *mut c_void, actual_size: Out<u32>,
    ) -> tPXIMC_Status
        = functions::query_interface_information(
            interface_id, attribute_id, [attribute_value; max_size], actual_size);

    /// Waits for changes of an interface.
    PXIMC_waitForInterfaceEvent(interface_id: u32, timeout: u32, reason_code: Out<u32>)
        -> tPXIMC_Status
        = functions::wait_for_interface_event;

    /// Lists the windows of the other system.
    PXIMC_findWindows(
        interface_id: u32, max_number: u32, window_ids: *mut u32, actual_number: Out<u32>,
    ) -> tPXIMC_Status
        = functions::find_windows(interface_id, [window_ids; max_number], actual_number);

    /// Tells an attribute of a window of the other system.
    PXIMC_queryWindowInformation(
        interface_id: u32, window_id: u32, attribute_id: u32,
        max_size: u32, attribute_value: *mut c_void, actual_size: Out<u32>,
    ) -> tPXIMC_Status
        = functions::query_window_information(
            interface_id, window_id, attribute_id, [attribute_value; max_size], actual_size);

    /// Offers a window of memory to clients.
    PXIMC_requestWindowLogicalAsServer(
        interface_id: u32, protocol: u32,
        max_local: u64, min_local: u64, max_remote: u64, min_remote: u64,
        uid: u32, window_data: *const u8, window_data_size: u32, session_number: Out<u32>,
    ) -> tPXIMC_Status
        = functions::request_window_logical_as_server(
            interface_id, protocol, (Sizes { max_local, min_local, max_remote, min_remote }),
            uid, [window_data; window_data_size], session_number);

    /// Pairs with a server.
    PXIMC_requestWindowLogicalAsClient(
        interface_id: u32, protocol: u32,
        max_local: u64, min_local: u64, max_remote: u64, min_remote: u64,
        uid: u32, session_number: Out<u32>,
    ) -> tPXIMC_Status
        = functions::request_window_logical_as_client(
            interface_id, protocol, (Sizes { max_local, min_local, max_remote, min_remote }),
            uid, session_number);

    /// Pairs with a peer, or waits for one.
    PXIMC_requestWindowLogicalAsPeer(
        interface_id: u32, protocol: u32,
        max_local: u64, min_local: u64, max_remote: u64, min_remote: u64,
        uid: u32, window_data: *const u8, window_data_size: u32, session_number: Out<u32>,
    ) -> tPXIMC_Status
        = functions::request_window_logical_as_peer(
            interface_id, protocol, (Sizes { max_local, min_local, max_remote, min_remote }),
            uid, [window_data; window_data_size], session_number);

    /// Offers physical addresses to clients.
    PXIMC_requestWindowPhysicalAsServer(
        interface_id: u32, protocol: u32, size: u64, uid: u32, address: u64,
        window_data: *const u8, window_data_size: u32, session_number: Out<u32>,
    ) -> tPXIMC_Status
        = functions::request_window_physical_as_server(
            interface_id, protocol,
            // SAFETY: A program that offers physical addresses answers for what is there.
            (unsafe { PhysicalRange::new(address, size) }),
            uid, [window_data; window_data_size], session_number);

    /// Pairs with a physical server.
    PXIMC_requestWindowPhysicalAsClient(
        interface_id: u32, protocol: u32, max_remote: u64, min_remote: u64, uid: u32,
        session_number: Out<u32>,
    ) -> tPXIMC_Status
        = functions::request_window_physical_as_client(
            interface_id, protocol, ((max_remote, min_remote)), uid, session_number);

    /// Waits for the partner.
    PXIMC_waitForConnection(
        session_number: u32, timeout: u32,
        remote_address: Out<*mut c_void>, remote_size: Out<u64>,
        local_address: Out<*mut c_void>, local_size: Out<u64>,
    ) -> tPXIMC_Status
        = functions::wait_for_connection(
            session_number, timeout,
            (WindowOutput { address: remote_address, size: remote_size }),
            (WindowOutput { address: local_address, size: local_size }));

    /// Tells where devices reach the remote window.
    PXIMC_getPhysicalAddress(session_number: u32, physical_address: Out<u64>) -> tPXIMC_Status
        = functions::get_physical_address;

    /// Lets a device reach the remote window.
    PXIMC_enableDeviceAccess(
        session_number: u32, access_mode: u32, bus: u32, device: u32, function: u32,
    ) -> tPXIMC_Status
        = functions::enable_device_access(session_number, access_mode, ([bus, device, function]));

    /// Wakes the partner.
    PXIMC_assertEvent(session_number: u32) -> tPXIMC_Status = functions::assert_event;

    /// Waits for an event of a session.
    PXIMC_waitForSessionEvent(session_number: u32, timeout: u32, reason_code: Out<u32>)
        -> tPXIMC_Status
        = functions::wait_for_session_event;

    /// Closes a session.
    PXIMC_closeWindow(session_number: u32) -> tPXIMC_Status = functions::close_window;

    /// Closes all sessions of this process.
    PXIMC_cleanup() -> tPXIMC_Status = functions::cleanup;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic ends in the library, and the library goes on.
    #[test]
    fn a_panic_becomes_a_status() {
        assert_eq!(run(|_| panic!("a defect")), sys::PXIMC_SPACE_NOT_AVAILABLE);
        assert_eq!(run(|_| Ok(())), sys::PXIMC_SUCCESS);
    }
}
