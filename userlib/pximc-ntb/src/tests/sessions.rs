// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sessions: connection, addresses, close, and the table of states and calls.

use super::*;
use std::time::{Duration, Instant};

/// Where a byte goes, and whether it arrives.
fn arrives((from, size): (*mut u8, u64), (to, _): (*mut u8, u64)) -> bool {
    let last = size as usize - 1;
    // SAFETY: Both are mapped windows of that size.
    unsafe {
        from.add(last).write_volatile(0x5a);
        from.write_volatile(0x11);
        to.add(last).read_volatile() == 0x5a && to.read_volatile() == 0x11
    }
}

/// PXI-WFC-2, PXI-WFC-3, PXI-WFC-4, PXI-WFC-5, PXI-WFC-15, PXI-PAIR-17, PXI-GEN-9
#[test]
fn both_sides_get_the_same_windows() {
    let (_, s0, s1) = systems();
    let server = s1
        .server(sizes(0x3000, 0x400, 0x1000, 0x400), 0, b"")
        .unwrap();
    let client = s0.client(sizes(0x4000, 0x400, 0x2000, 0x800), 0).unwrap();
    let (at0, at1) = (
        s0.connect(client, 0).unwrap(),
        s1.connect(server, 0).unwrap(),
    );
    assert_eq!((at0.remote.1, at0.local.1), (0x2000, 0x1000));
    assert_eq!((at1.local.1, at1.remote.1), (0x2000, 0x1000));
    assert!(arrives(at0.remote, at1.local));
    assert!(arrives(at1.remote, at0.local));
    assert!(arrives(at0.local, at1.remote));
}

/// A session that has a partner gives the same addresses every time; a failure to map them is no
/// end, and can be tried again.
#[test]
fn windows_are_mapped_once_and_a_failure_is_not_final() {
    let (world, s0, s1) = systems();
    let (client, _) = pair(&s0, &s1);
    world.set_mappable(false);
    assert_eq!(s0.connect(client, 0), Err(PXIMC_SPACE_NOT_AVAILABLE));
    world.set_mappable(true);
    let first = s0.connect(client, 0).unwrap();
    assert_eq!(s0.connect(client, PXIMC_TIMEOUT_INFINITE), Ok(first));
}

/// PXI-WFC-8, PXI-WFC-9, PXI-WFC-10, PXI-WFC-11
#[test]
fn windows_that_are_not_there_have_no_address() {
    let (_, s0, s1) = systems();
    let none = (ptr::null_mut(), 0);
    let server = s1.physical_server(0xF000_0000, 0x1000, 0, b"").unwrap();
    let client = s0.physical_client(0x1000, 0x1000, 0).unwrap();
    let connection = s1.connect(server, 0).unwrap();
    assert_eq!(
        (connection.remote, connection.local),
        (none, (ptr::null_mut(), 0x1000))
    );
    let connection = s0.connect(client, 0).unwrap();
    assert_eq!((connection.remote.1, connection.local), (0x1000, none));
    assert!(!connection.remote.0.is_null());
    let server = s1.server(sizes(0x10, 0x10, 0, 0), 0, b"").unwrap();
    let client = s0.client(sizes(0, 0, 0x10, 0x10), 0).unwrap();
    assert_eq!(s0.connect(client, 0).unwrap().local, none);
    assert_eq!(s1.connect(server, 0).unwrap().remote, none);
}

/// PXI-WFC-16
#[test]
fn pointers_for_windows_that_were_not_asked_for_may_be_null() {
    let (_, s0, s1) = systems();
    let server = s1.server(sizes(0x10, 0x10, 0, 0), 0, b"").unwrap();
    let client = s0.client(sizes(0, 0, 0x10, 0x10), 0).unwrap();
    let nothing = || WindowOutput {
        address: null(),
        size: null(),
    };
    let connect = |side: &Side, number, null_is_local: bool| {
        let (mut address, mut size) = (ptr::null_mut(), 0);
        let window = WindowOutput {
            address: output(&mut address),
            size: output(&mut size),
        };
        let (remote, local) = if null_is_local {
            (window, nothing())
        } else {
            (nothing(), window)
        };
        let outcome = functions::wait_for_connection(side.process(), number, 0, remote, local);
        (status::number(outcome), size)
    };
    assert_eq!(connect(&s0, client, true), (PXIMC_SUCCESS, 0x10));
    assert_eq!(connect(&s0, client, false), (PXIMC_INVALID_ARGUMENT, 0));
    assert_eq!(connect(&s1, server, false), (PXIMC_SUCCESS, 0x10));
    assert_eq!(connect(&s1, server, true), (PXIMC_INVALID_ARGUMENT, 0));
    assert_eq!(connect(&s1, 0, true), (PXIMC_INVALID_SESSION, 0));
}

/// PXI-WFC-1, PXI-WFC-12, PXI-WFC-13, PXI-WFC-14, PXI-WFC-17, PXI-REQLC-10, PXI-REQLS-16
#[test]
fn a_wait_for_a_partner_ends_with_it_or_with_its_time() {
    let (world, s0, s1) = systems();
    let server = s1.server(PAGE, 0, b"").unwrap();
    assert_eq!(s1.connect(server, 0), Err(PXIMC_TIMEOUT));
    let start = Instant::now();
    assert_eq!(s1.connect(server, 20), Err(PXIMC_TIMEOUT));
    assert!(start.elapsed() >= Duration::from_millis(20));
    let waiter = waiting(&world, move || {
        s1.connect(server, PXIMC_TIMEOUT_INFINITE).is_ok()
    });
    let client = s0.client(PAGE, 0).unwrap();
    assert!(waiter.join().unwrap());
    assert!(s0.connect(client, 0).is_ok());
}

/// PXI-WFC-6, PXI-WFC-7, PXI-WFC-18
#[test]
fn a_wait_for_a_partner_ends_at_once_if_it_is_in_vain() {
    let (world, s0, s1) = systems();
    let infinite = PXIMC_TIMEOUT_INFINITE;
    assert_eq!(s0.connect(0, infinite), Err(PXIMC_INVALID_SESSION));
    let server = s1.server(PAGE, 0, b"").unwrap();
    let waiter = waiting(&world, move || s1.connect(server, infinite).unwrap_err());
    world.set_up(0, false);
    assert_eq!(waiter.join().unwrap(), PXIMC_INTERFACE_DOWN);
    assert_eq!(s1.connect(server, infinite), Err(PXIMC_INTERFACE_DOWN));
    world.set_up(0, true);
    let client = s0.client(PAGE, 0).unwrap();
    assert_eq!(s0.close(client), PXIMC_SUCCESS);
    assert_eq!(s1.connect(server, infinite), Err(PXIMC_SESSION_CLOSED));
}

/// States of a session, as the specification's functions tell them apart.
#[derive(Clone, Copy, Debug)]
enum State {
    Unpaired,
    UnpairedDown,
    Paired,
    PartnerClosed,
    LinkLost,
    LinkLostAndBack,
    Removed,
    Closed,
    Foreign,
}

/// What each call returns in a state: the status, and for events the reason.
struct Row {
    state: State,
    connect: tPXIMC_Status,
    physical: tPXIMC_Status,
    assert: tPXIMC_Status,
    event: Answer<u32>,
    close: tPXIMC_Status,
}

const fn row(
    state: State,
    connect: tPXIMC_Status,
    physical: tPXIMC_Status,
    event: Answer<u32>,
    close: tPXIMC_Status,
) -> Row {
    Row {
        state,
        connect,
        physical,
        assert: physical,
        event,
        close,
    }
}

const OK: tPXIMC_Status = PXIMC_SUCCESS;
const DOWN: tPXIMC_Status = PXIMC_INTERFACE_DOWN;
const GONE: tPXIMC_Status = PXIMC_SESSION_CLOSED;
const NONE: tPXIMC_Status = PXIMC_INVALID_SESSION;
const ALONE: tPXIMC_Status = PXIMC_NO_PAIRING;

#[rustfmt::skip]
const TABLE: [Row; 9] = [
    row(State::Unpaired, PXIMC_TIMEOUT, ALONE, Err(ALONE), OK),
    row(State::UnpairedDown, DOWN, DOWN, Err(ALONE), OK),
    row(State::Paired, OK, OK, Err(PXIMC_TIMEOUT), OK),
    row(State::PartnerClosed, GONE, GONE, Ok(PXIMC_EVENT_CONNECTION_CLOSED), OK),
    row(State::LinkLost, DOWN, DOWN, Ok(PXIMC_EVENT_INTERFACE_DOWN), OK),
    row(State::LinkLostAndBack, GONE, GONE, Ok(PXIMC_EVENT_CONNECTION_CLOSED), OK),
    row(State::Removed, DOWN, DOWN, Ok(PXIMC_EVENT_CONNECTION_CLOSED), OK),
    row(State::Closed, NONE, NONE, Err(NONE), NONE),
    row(State::Foreign, NONE, NONE, Err(NONE), NONE),
];

/// A session of the first system in a state; who calls, its number, and its owner.
fn session_in(state: State) -> (World, Side, u32, Side) {
    let (world, s0, s1) = systems();
    if matches!(state, State::Unpaired | State::UnpairedDown) {
        let number = s0.server(PAGE, 0, b"").unwrap();
        world.set_up(0, matches!(state, State::Unpaired));
        return (world, s0, number, s0);
    }
    let (number, partner) = pair(&s0, &s1);
    let mut caller = s0;
    match state {
        State::PartnerClosed => assert_eq!(s1.close(partner), OK),
        State::LinkLost => world.set_up(0, false),
        State::LinkLostAndBack => {
            world.set_up(0, false);
            world.set_up(0, true);
        }
        State::Removed => world.remove(0, Host::A),
        State::Closed => assert_eq!(s0.close(number), OK),
        State::Foreign => caller = side(&world, Host::A),
        _ => {}
    }
    (world, caller, number, s0)
}

/// The table of states and calls: PXI-AE-6, PXI-GPA-2, PXI-EDA-5, PXI-WSE-3, PXI-WSE-8,
/// PXI-WSE-13, PXI-WFC-6, PXI-CW-3, PXI-CW-5, PXI-SES-2, PXI-SES-6, PXI-SES-7.
#[test]
fn every_call_has_its_status_in_every_state() {
    for row in TABLE {
        let (_world, side, number, owner) = session_in(row.state);
        for _ in 0..2 {
            let state = row.state;
            let connected = side.connect(number, 0).map_or_else(|status| status, |_| OK);
            assert_eq!(connected, row.connect, "{state:?}");
            let addressed = side.address(number).map_or_else(|status| status, |_| OK);
            assert_eq!(addressed, row.physical, "{state:?}");
            let access = side.access(number, PXIMC_DEVICE_ACCESS_READ, [1, 2, 3]);
            assert_eq!(access, row.physical, "{state:?}");
            assert_eq!(side.assert_event(number), row.assert, "{state:?}");
            assert_eq!(side.event(number, 0), row.event, "{state:?}");
        }
        assert_eq!(side.close(number), row.close, "{:?}", row.state);
        // Whoever may not close it has done no harm to the owner.
        let left = if row.close == OK || matches!(row.state, State::Closed) {
            NONE
        } else {
            OK
        };
        assert_eq!(owner.close(number), left, "{:?}", row.state);
    }
}

/// PXI-GPA-1, PXI-GPA-2: the last of the errors.
#[test]
fn a_physical_address_needs_a_remote_window_that_devices_reach() {
    let (world, s0, s1) = systems();
    let server = s1.server(sizes(0x10, 0x10, 0, 0), 0, b"").unwrap();
    let client = s0.client(sizes(0, 0, 0x10, 0x10), 0).unwrap();
    assert!(s0.address(client).is_ok());
    assert_eq!(s1.address(server), Err(PXIMC_NO_WINDOW));
    assert_eq!(
        s1.access(server, PXIMC_DEVICE_ACCESS_READ, [0; 3]),
        PXIMC_NO_WINDOW
    );
    let refused = PXIMC_PHY_RESOURCE_NOT_AVAILABLE;
    world.set_reachable(false);
    assert_eq!(s0.address(client), Err(refused));
    assert_eq!(s0.access(client, PXIMC_DEVICE_ACCESS_READ, [0; 3]), refused);
    world.set_privileged(false);
    assert_eq!(s0.address(client), Err(refused));
    // Without a remote window the privilege is not what is missing.
    assert_eq!(s1.address(server), Err(PXIMC_NO_WINDOW));
    let null_address = functions::get_physical_address(s0.process(), client, null());
    assert_eq!(status::number(null_address), PXIMC_INVALID_ARGUMENT);
    let null_address = functions::get_physical_address(s0.process(), 0, null());
    assert_eq!(status::number(null_address), PXIMC_INVALID_SESSION);
}

/// PXI-EDA-1, PXI-EDA-2, PXI-EDA-6, PXI-EDA-7, PXI-EDA-8, PXI-EDA-9
#[test]
fn devices_get_access_one_by_one_and_lose_it_together_with_the_session() {
    let (world, s0, s1) = systems();
    let (client, _) = pair(&s0, &s1);
    let clear = PXIMC_DEVICE_ACCESS_CLEAR_ALL;
    let both = PXIMC_DEVICE_ACCESS_READ | PXIMC_DEVICE_ACCESS_WRITE;
    assert!(world.access(client).is_empty());
    assert_eq!(s0.access(client, clear, [1, 2, 3]), OK);
    assert_eq!(s0.access(client, both, [255, 31, 7]), OK);
    assert_eq!(s0.access(client, PXIMC_DEVICE_ACCESS_WRITE, [1, 2, 3]), OK);
    let domain = 0x1_0003;
    let granted = [(3, domain, 255, 31 << 3 | 7), (2, domain, 1, 2 << 3 | 3)];
    assert_eq!(world.access(client), granted);
    assert_eq!(s0.access(client, clear, [255, 31, 7]), OK);
    assert_eq!(world.access(client), granted[1..]);
    assert_eq!(s0.close(client), OK);
    assert!(world.access(client).is_empty());
}

/// PXI-EDA-2, PXI-EDA-4: after the session, before its state.
#[test]
fn undefined_accesses_and_places_are_invalid() {
    let (_, s0, s1) = systems();
    let (client, server) = pair(&s0, &s1);
    assert_eq!(s1.close(server), OK);
    let read = PXIMC_DEVICE_ACCESS_READ;
    let clear = PXIMC_DEVICE_ACCESS_CLEAR_ALL;
    let wrong = [
        (0, [0; 3]),
        (4, [0; 3]),
        (0x4000_0000, [0; 3]),
        (clear | read, [0; 3]),
        (clear | 4, [0; 3]),
        (read, [256, 0, 0]),
        (read, [0, 32, 0]),
        (read, [0, 0, 8]),
        (read, [u32::MAX, 0, 0]),
        (clear, [0, 0, 8]),
    ];
    for (mode, place) in wrong {
        let found = s0.access(client, mode, place);
        assert_eq!(found, PXIMC_INVALID_ARGUMENT, "{mode:#x} {place:?}");
        assert_eq!(s0.access(0, mode, place), PXIMC_INVALID_SESSION);
    }
    assert_eq!(s0.access(client, read, [255, 31, 7]), PXIMC_SESSION_CLOSED);
}

/// PXI-CW-4, PXI-CW-6, PXI-CW-7, PXI-CW-8, PXI-CW-9, PXI-CW-11
#[test]
fn the_memory_is_free_when_both_sides_have_closed() {
    let (world, s0, s1) = systems();
    let (client, server) = pair(&s0, &s1);
    assert_eq!(world.free(0, Host::A), POOL - 0x1000);
    assert_eq!(s0.close(client), OK);
    assert_eq!(s1.event(server, 0), Ok(PXIMC_EVENT_CONNECTION_CLOSED));
    assert_eq!(world.free(0, Host::A), POOL - 0x1000);
    let all = sizes(POOL, POOL, 0, 0);
    assert_eq!(s0.server(all, 0, b""), Err(PXIMC_SPACE_NOT_AVAILABLE));
    assert_eq!(s1.close(server), OK);
    let posted = s0.server(all, 0, b"").unwrap();
    assert_eq!(s0.close(posted), OK);
    assert_eq!(s1.client(sizes(0, 0, 1, 1), 0), Err(PXIMC_NO_PAIRING));
}

/// Whoever waits for a session that another thread closes is told at once.
#[test]
fn closing_ends_the_waits_of_other_threads() {
    let (world, s0, s1) = systems();
    let infinite = PXIMC_TIMEOUT_INFINITE;
    let posted = s0.server(PAGE, 0, b"").unwrap();
    let waiter = waiting(&world, move || s0.connect(posted, infinite).unwrap_err());
    assert_eq!(s0.close(posted), OK);
    assert_eq!(waiter.join().unwrap(), NONE);
    let (client, _) = pair(&s0, &s1);
    let waiter = waiting(&world, move || s0.event(client, infinite));
    assert_eq!(s0.cleanup(), OK);
    assert_eq!(waiter.join().unwrap(), Err(NONE));
}

/// PXI-CL-1, PXI-CL-2, PXI-CL-3, PXI-CL-4, PXI-CL-5, PXI-CL-6, PXI-FI-11, PXI-CW-3
#[test]
fn cleanup_closes_what_this_process_has_and_nothing_else() {
    let (world, s0, s1) = systems();
    let other = side(&world, Host::A);
    let others = other.server(PAGE, 7, b"").unwrap();
    assert_eq!(s0.cleanup(), OK);
    for _ in 0..3 {
        let (client, server) = {
            let server = s1.server(PAGE, 0, b"").unwrap();
            (s0.client(PAGE, 0).unwrap(), server)
        };
        s0.connect(client, 0).unwrap();
        s0.server(PAGE, 0, b"").unwrap();
        assert_eq!(s0.interfaces().len(), 2);
        assert_eq!((s0.cleanup(), s0.cleanup()), (OK, OK));
        assert_eq!(s0.close(client), NONE);
        assert_eq!(s1.event(server, 0), Ok(PXIMC_EVENT_CONNECTION_CLOSED));
        assert_eq!(s1.close(server), OK);
        assert_eq!(s1.windows(), Ok(vec![7]));
        assert_eq!(world.contexts(), 2);
    }
    assert_eq!(world.free(0, Host::A), POOL);
    assert_eq!(other.connect(others, 0), Err(PXIMC_TIMEOUT));
}

/// PXI-SES-2, PXI-WFC-15: a child has none of its parent's sessions, and can have its own.
#[test]
fn a_forked_child_starts_anew() {
    let (_, s0, s1) = systems();
    let (client, _) = pair(&s0, &s1);
    let connection = s0.connect(client, 0).unwrap();
    let child = s0.forked();
    assert_eq!(child.connect(client, 0), Err(NONE));
    assert_eq!(child.cleanup(), OK);
    assert_eq!(child.interfaces().len(), 2);
    let own = child.server(PAGE, 0, b"").unwrap();
    assert_eq!(child.close(own), OK);
    assert_eq!(s1.windows().map(|windows| windows.len()), Ok(1));
    // SAFETY: The parent's window is still mapped.
    unsafe { connection.remote.0.write_volatile(1) };
}

/// PXI-SES-2: whatever threads of its parent are at, a child can have sessions.
#[test]
fn a_child_waits_for_no_thread_of_its_parent() {
    // The stand-in is no place that processes share: each has its own.
    let open: Open<FakeDevice> = &|| {
        let fabric = Fabric::with_device(World::new(1, POOL).open(Host::A));
        Ok(Library::with_fabric(fabric, false))
    };
    let processes = PerProcess::new(Box::leak(Box::new(move |_: Option<&_>| Process::new(open))));
    let processes: &'static _ = Box::leak(Box::new(processes));
    let interface = World::new(1, POOL).interface(0, Host::A);
    mp_testing::children_of_threads(|| {
        let id = std::process::id();
        let process = Side {
            processes,
            id,
            interface,
        };
        let server = process.server(PAGE, 0, b"").unwrap();
        assert_eq!(process.connect(server, 0), Err(PXIMC_TIMEOUT));
        assert_eq!(process.close(server), OK);
    });
}

/// PXI-GEN-3, PXI-SES-4: threads that open, use and close at the same time.
#[test]
fn many_threads_may_call_at_the_same_time() {
    let (world, s0, s1) = systems();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            thread::spawn(move || {
                for round in 0..50 {
                    let uid = 1 + thread * 50 + round;
                    let server = s1.server(PAGE, uid, b"").unwrap();
                    let client = s0.client(PAGE, uid).unwrap();
                    let (at0, at1) = (
                        s0.connect(client, 0).unwrap(),
                        s1.connect(server, 1000).unwrap(),
                    );
                    assert!(arrives(at0.remote, at1.local));
                    let waiter = thread::spawn(move || s1.event(server, PXIMC_TIMEOUT_INFINITE));
                    assert_eq!(s0.assert_event(client), OK);
                    assert_eq!(waiter.join().unwrap(), Ok(PXIMC_EVENT_ASSERTED));
                    let waiter = thread::spawn(move || s1.event(server, PXIMC_TIMEOUT_INFINITE));
                    assert_eq!(s1.close(server), OK);
                    assert_eq!(waiter.join().unwrap(), Err(NONE));
                    assert_eq!(s0.close(client), OK);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(world.free(0, Host::A), POOL);
    assert_eq!((s0.windows(), s1.windows()), (Ok(vec![]), Ok(vec![])));
}
