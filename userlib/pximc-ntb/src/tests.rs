// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs in C see, on two systems in one process. Each test names the rules that it
//! proves.

mod events;
mod interfaces;
mod requests;
mod sessions;
mod windows;

use crate::{
    functions::{self, WindowOutput},
    process::{Open, Process},
    status,
    sys::*,
};
use mp_c_abi::{Input, Out, PerProcess, Room};
use mp_fabric::Fabric;
use mp_testing::{FakeDevice, Host, World};
use pximc::{Library, Sizes};
use std::{ffi::c_void, ptr, thread};

/// What is in outputs before a call.
const SENTINEL: u32 = 0xdead_beef;
const PROTOCOL: u32 = 0xABCD_1000;
const POOL: u64 = 1 << 20;

/// A number, or the status that was returned instead.
type Answer<T> = Result<T, tPXIMC_Status>;

/// A process on one of the systems.
#[derive(Clone, Copy)]
struct Side {
    processes: &'static PerProcess<Process<FakeDevice>>,
    /// Its id: a forked child has another one.
    id: u32,
    /// Its end of the first link.
    interface: u32,
}

fn side(world: &World, host: Host) -> Side {
    let (world, interface) = (world.clone(), world.interface(0, host));
    let open = move || {
        Ok(Library::with_fabric(
            Fabric::with_device(world.open(host)),
            false,
        ))
    };
    let open: Open<FakeDevice> = Box::leak(Box::new(open));
    let processes = PerProcess::new(Box::leak(Box::new(move |_: Option<&_>| Process::new(open))));
    Side {
        processes: Box::leak(Box::new(processes)),
        id: 1,
        interface,
    }
}

/// Two systems with two links, and a process on each of them.
fn systems() -> (World, Side, Side) {
    let world = World::new(2, POOL);
    let (s0, s1) = (side(&world, Host::A), side(&world, Host::B));
    (world, s0, s1)
}

fn output<T: Copy>(value: &mut T) -> Out<T> {
    // SAFETY: Tests use the output before they look at the value again.
    unsafe { Out::new(value) }
}

fn null<T: Copy>() -> Out<T> {
    Out::NULL
}

fn buffer<T: Copy>(elements: &mut [T], capacity: u32) -> Room<T> {
    assert!(capacity as usize <= elements.len());
    // SAFETY: So many elements are there; tests use the buffer before they look again.
    unsafe { Room::new(elements.as_mut_ptr(), capacity as usize) }
}

fn null_buffer<T: Copy>(capacity: u32) -> Room<T> {
    // SAFETY: NULL is allowed.
    unsafe { Room::new(ptr::null_mut(), capacity as usize) }
}

fn input(data: &[u8]) -> Input<u8> {
    // SAFETY: All data outlive the call.
    unsafe { Input::new(data.as_ptr(), data.len()) }
}

/// Sizes as the functions take them: most and least local, most and least remote bytes.
fn sizes(max_local: u64, min_local: u64, max_remote: u64, min_remote: u64) -> Sizes {
    Sizes {
        max_local,
        min_local,
        max_remote,
        min_remote,
    }
}

/// Both windows of one page.
const PAGE: Sizes = Sizes {
    max_local: 0x1000,
    min_local: 0x400,
    max_remote: 0x1000,
    min_remote: 0x400,
};

/// What a function has written, which it must not have done unless it succeeded.
fn answer(outcome: status::Outcome, written: u32) -> Answer<u32> {
    match status::number(outcome) {
        PXIMC_SUCCESS => {
            assert_ne!(written, SENTINEL);
            Ok(written)
        }
        failure => {
            assert_eq!(written, SENTINEL, "written without success");
            Err(failure)
        }
    }
}

/// What `waitForConnection` has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Connection {
    remote: (*mut u8, u64),
    local: (*mut u8, u64),
}

impl Side {
    fn process(&self) -> &'static Process<FakeDevice> {
        self.processes.of(self.id)
    }

    /// The same program after `fork()`, in the child.
    fn forked(&self) -> Side {
        Side {
            id: self.id + 1,
            ..*self
        }
    }

    fn interfaces(&self) -> Vec<u32> {
        let (mut ids, mut actual) = ([0; 64], SENTINEL);
        let outcome =
            functions::find_interfaces(self.process(), buffer(&mut ids, 64), output(&mut actual));
        assert_eq!(outcome, Ok(()));
        ids[..actual as usize].into()
    }

    fn windows(&self) -> Answer<Vec<u32>> {
        let (mut ids, mut actual) = ([0; 64], SENTINEL);
        let (room, count) = (buffer(&mut ids, 64), output(&mut actual));
        let outcome = functions::find_windows(self.process(), self.interface, room, count);
        answer(outcome, actual).map(|count| ids[..count as usize].into())
    }

    /// An attribute of a window of the other system.
    fn window(&self, uid: u32, attribute: u32) -> Answer<Vec<u8>> {
        let (mut value, mut actual) = (Aligned([0; 1024]), SENTINEL);
        let (id, room) = (self.interface, buffer(&mut value.0, 1024));
        let outcome = functions::query_window_information(
            self.process(),
            id,
            uid,
            attribute,
            room,
            output(&mut actual),
        );
        answer(outcome, actual).map(|size| value.0[..size as usize].into())
    }

    fn window_u32(&self, uid: u32, attribute: u32) -> u32 {
        u32::from_ne_bytes(self.window(uid, attribute).unwrap().try_into().unwrap())
    }

    fn window_u64(&self, uid: u32, attribute: u32) -> u64 {
        u64::from_ne_bytes(self.window(uid, attribute).unwrap().try_into().unwrap())
    }

    fn server(&self, sizes: Sizes, uid: u32, data: &[u8]) -> Answer<u32> {
        let (id, mut number) = (self.interface, SENTINEL);
        let (data, out) = (input(data), output(&mut number));
        let process = self.process();
        let outcome = functions::request_window_logical_as_server(
            process, id, PROTOCOL, sizes, uid, data, out,
        );
        answer(outcome, number)
    }

    fn client(&self, sizes: Sizes, uid: u32) -> Answer<u32> {
        let (id, mut number) = (self.interface, SENTINEL);
        let (process, out) = (self.process(), output(&mut number));
        let outcome =
            functions::request_window_logical_as_client(process, id, PROTOCOL, sizes, uid, out);
        answer(outcome, number)
    }

    fn peer(&self, sizes: Sizes, uid: u32, data: &[u8]) -> Answer<u32> {
        let (id, mut number) = (self.interface, SENTINEL);
        let (data, out) = (input(data), output(&mut number));
        let process = self.process();
        let outcome =
            functions::request_window_logical_as_peer(process, id, PROTOCOL, sizes, uid, data, out);
        answer(outcome, number)
    }

    fn physical_server(&self, address: u64, size: u64, uid: u32, data: &[u8]) -> Answer<u32> {
        let (id, mut number) = (self.interface, SENTINEL);
        let (data, out) = (input(data), output(&mut number));
        // SAFETY: There is no memory in the tests, and nothing is reached.
        let range = unsafe { pximc::PhysicalRange::new(address, size) };
        let process = self.process();
        let outcome = functions::request_window_physical_as_server(
            process, id, PROTOCOL, range, uid, data, out,
        );
        answer(outcome, number)
    }

    fn physical_client(&self, max: u64, min: u64, uid: u32) -> Answer<u32> {
        let (id, mut number) = (self.interface, SENTINEL);
        let (process, out) = (self.process(), output(&mut number));
        let outcome = functions::request_window_physical_as_client(
            process,
            id,
            PROTOCOL,
            (max, min),
            uid,
            out,
        );
        answer(outcome, number)
    }

    fn connect(&self, number: u32, milliseconds: u32) -> Answer<Connection> {
        let untouched = ptr::dangling_mut::<c_void>();
        let (mut addresses, mut sizes) = ([untouched; 2], [7; 2]);
        let [remote, local] = &mut addresses;
        let [remote_size, local_size] = &mut sizes;
        let remote = WindowOutput {
            address: output(remote),
            size: output(remote_size),
        };
        let local = WindowOutput {
            address: output(local),
            size: output(local_size),
        };
        let process = self.process();
        let outcome = functions::wait_for_connection(process, number, milliseconds, remote, local);
        match status::number(outcome) {
            PXIMC_SUCCESS => Ok(Connection {
                remote: (addresses[0].cast(), sizes[0]),
                local: (addresses[1].cast(), sizes[1]),
            }),
            failure => {
                assert_eq!((addresses, sizes), ([untouched; 2], [7; 2]));
                Err(failure)
            }
        }
    }

    fn event(&self, number: u32, milliseconds: u32) -> Answer<u32> {
        let mut reason = SENTINEL;
        let (process, out) = (self.process(), output(&mut reason));
        let outcome = functions::wait_for_session_event(process, number, milliseconds, out);
        answer(outcome, reason)
    }

    fn interface_event(&self, milliseconds: u32) -> Answer<u32> {
        let mut reason = SENTINEL;
        let (process, out) = (self.process(), output(&mut reason));
        let outcome =
            functions::wait_for_interface_event(process, self.interface, milliseconds, out);
        answer(outcome, reason)
    }

    fn assert_event(&self, number: u32) -> tPXIMC_Status {
        status::number(functions::assert_event(self.process(), number))
    }

    fn address(&self, number: u32) -> Answer<u64> {
        let mut address = 7;
        let outcome = functions::get_physical_address(self.process(), number, output(&mut address));
        match status::number(outcome) {
            PXIMC_SUCCESS => Ok(address),
            failure => {
                assert_eq!(address, 7, "written without success");
                Err(failure)
            }
        }
    }

    fn access(&self, number: u32, mode: u32, place: [u32; 3]) -> tPXIMC_Status {
        status::number(functions::enable_device_access(
            self.process(),
            number,
            mode,
            place,
        ))
    }

    fn close(&self, number: u32) -> tPXIMC_Status {
        status::number(functions::close_window(self.process(), number))
    }

    fn cleanup(&self) -> tPXIMC_Status {
        status::number(functions::cleanup(self.process()))
    }
}

/// Sessions of two processes that are partners.
fn pair(s0: &Side, s1: &Side) -> (u32, u32) {
    let server = s1.server(PAGE, 0, b"").unwrap();
    (s0.client(PAGE, 0).unwrap(), server)
}

/// Room for an attribute.
#[repr(align(8))]
struct Aligned([u8; 1024]);

/// Run a call in another thread until it waits.
fn waiting<T: Send + 'static>(
    world: &World,
    call: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let before = world.waiting();
    let thread = thread::spawn(call);
    while world.waiting() == before {
        assert!(!thread.is_finished(), "the call did not wait");
        thread::yield_now();
    }
    thread
}
