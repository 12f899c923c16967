// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests: the order in which they are refused, identifiers, and who becomes a pair.

use super::*;

/// Sizes that no request may have.
const WRONG_SIZES: [Sizes; 4] = [
    sizes_of(0, 0, 0, 0),
    sizes_of(1, 2, 1, 0),
    sizes_of(1, 0, 1, 2),
    sizes_of(0, 1, 1, 1),
];
/// A least size beyond what is there, in each direction.
const TOO_LARGE: [Sizes; 3] = [
    sizes_of(u64::MAX, POOL + 1, 0, 0),
    sizes_of(0, 0, u64::MAX, POOL + 1),
    sizes_of(u64::MAX, POOL + 1, u64::MAX, POOL + 1),
];

const fn sizes_of(max_local: u64, min_local: u64, max_remote: u64, min_remote: u64) -> Sizes {
    Sizes {
        max_local,
        min_local,
        max_remote,
        min_remote,
    }
}

/// All logical requests, by what differs between them.
fn logical(side: &Side, kind: u32, sizes: Sizes, uid: u32, data: &[u8]) -> Answer<u32> {
    match kind {
        PXIMC_CONNECTION_SERVER => side.server(sizes, uid, data),
        PXIMC_CONNECTION_CLIENT => side.client(sizes, uid),
        _ => side.peer(sizes, uid, data),
    }
}

const KINDS: [u32; 3] = [
    PXIMC_CONNECTION_SERVER,
    PXIMC_CONNECTION_CLIENT,
    PXIMC_CONNECTION_PEER,
];

/// PXI-REQLS-1 to PXI-REQLS-6, PXI-REQLC-1 to PXI-REQLC-5, PXI-REQLP-1 to PXI-REQLP-6: with every
/// mistake the ones that come later are made as well.
#[test]
fn logical_requests_are_refused_in_the_prescribed_order() {
    let (world, s0, s1) = systems();
    for kind in KINDS {
        world.set_up(0, false);
        let bogus = Side { interface: 0, ..s0 };
        let long = [0; 1025];
        for wrong in WRONG_SIZES {
            assert_eq!(
                logical(&bogus, kind, wrong, 0, &long),
                Err(PXIMC_INVALID_INTERFACE)
            );
            assert_eq!(
                logical(&s0, kind, wrong, 0, &long),
                Err(PXIMC_INVALID_ARGUMENT)
            );
            assert_eq!(
                logical(&s0, kind, wrong, 0, b""),
                Err(PXIMC_INVALID_ARGUMENT)
            );
        }
        let huge = TOO_LARGE[0];
        if kind != PXIMC_CONNECTION_CLIENT {
            assert_eq!(
                logical(&s0, kind, huge, 0, &long),
                Err(PXIMC_INVALID_ARGUMENT)
            );
        }
        assert_eq!(logical(&s0, kind, huge, 0, b""), Err(PXIMC_INTERFACE_DOWN));
        world.set_up(0, true);
        for huge in TOO_LARGE {
            assert_eq!(
                logical(&s0, kind, huge, 0, b""),
                Err(PXIMC_SPACE_NOT_AVAILABLE)
            );
        }
        assert_eq!(s1.windows(), Ok(vec![]));
    }
    assert!(s0.server(PAGE, 0, &[0; 1024]).is_ok());
    assert!(s0.peer(PAGE, 0, &[0; 1024]).is_ok());
}

/// PXI-REQPS-1 to PXI-REQPS-6, PXI-REQPS-12
#[test]
fn physical_servers_are_refused_in_the_prescribed_order() {
    let (world, s0, s1) = systems();
    let bogus = Side {
        interface: 99,
        ..s0
    };
    let long = [0; 1025];
    world.set_up(0, false);
    assert_eq!(
        bogus.physical_server(0, 0, 0, &long),
        Err(PXIMC_INVALID_INTERFACE)
    );
    assert_eq!(
        s0.physical_server(1, 1, 0, &long),
        Err(PXIMC_INVALID_ARGUMENT)
    );
    assert_eq!(
        s0.physical_server(1, 0, 0, b""),
        Err(PXIMC_INVALID_ARGUMENT)
    );
    assert_eq!(
        s0.physical_server(0, 1, 0, b""),
        Err(PXIMC_INVALID_ARGUMENT)
    );
    assert_eq!(
        s0.physical_server(u64::MAX, 2, 0, b""),
        Err(PXIMC_INVALID_ARGUMENT)
    );
    assert_eq!(
        s0.physical_server(u64::MAX, 1, 0, b""),
        Err(PXIMC_INTERFACE_DOWN)
    );
    world.set_up(0, true);
    world.set_reachable(false);
    let answer = s0.physical_server(0x1000, 16, 0, b"");
    assert_eq!(answer, Err(PXIMC_PHY_RESOURCE_NOT_AVAILABLE));
    world.set_reachable(true);
    world.set_privileged(false);
    let answer = s0.physical_server(0x1000, 16, 0, b"");
    assert_eq!(answer, Err(PXIMC_PHY_RESOURCE_NOT_AVAILABLE));
    world.set_privileged(true);
    s0.server(PAGE, 9, b"").unwrap();
    assert_eq!(
        s0.physical_server(0x1000, 16, 9, b""),
        Err(PXIMC_UID_CONFLICT)
    );
    assert!(s0.physical_server(0x1000, 16, 10, b"").is_ok());
    assert_eq!(s1.windows(), Ok(vec![9, 10]));
}

/// PXI-REQPC-1 to PXI-REQPC-5
#[test]
fn physical_clients_are_refused_in_the_prescribed_order() {
    let (world, s0, _) = systems();
    let bogus = Side {
        interface: 99,
        ..s0
    };
    world.set_up(0, false);
    assert_eq!(bogus.physical_client(0, 0, 0), Err(PXIMC_INVALID_INTERFACE));
    for (max, min) in [(0, 0), (1, 0), (0, 1), (1, 2)] {
        assert_eq!(s0.physical_client(max, min, 0), Err(PXIMC_INVALID_ARGUMENT));
    }
    assert_eq!(s0.physical_client(2, 1, 0), Err(PXIMC_INTERFACE_DOWN));
    world.set_up(0, true);
    assert_eq!(s0.physical_client(2, 1, 0), Err(PXIMC_NO_PAIRING));
}

/// NULL is an invalid argument where something is to be written or read, after the interface.
#[test]
fn null_is_refused_before_anything_is_opened() {
    let (_, s0, s1) = systems();
    let (process, id) = (s0.process(), s0.interface);
    let mut number = SENTINEL;
    let outcome =
        functions::request_window_logical_as_client(process, 0, PROTOCOL, PAGE, 0, null());
    assert_eq!(status::number(outcome), PXIMC_INVALID_INTERFACE);
    let outcome = functions::request_window_logical_as_peer(
        process,
        id,
        PROTOCOL,
        PAGE,
        0,
        input(b""),
        null(),
    );
    assert_eq!(status::number(outcome), PXIMC_INVALID_ARGUMENT);
    for (size, expected) in [(1, PXIMC_INVALID_ARGUMENT), (1025, PXIMC_INVALID_ARGUMENT)] {
        // SAFETY: NULL is allowed.
        let data = unsafe { Input::new(ptr::null(), size) };
        let out = output(&mut number);
        let outcome =
            functions::request_window_logical_as_server(process, id, PROTOCOL, PAGE, 0, data, out);
        assert_eq!((status::number(outcome), number), (expected, SENTINEL));
    }
    assert_eq!(s1.windows(), Ok(vec![]));
    // SAFETY: NULL is allowed.
    let (data, out) = (unsafe { Input::new(ptr::null(), 0) }, output(&mut number));
    let outcome =
        functions::request_window_logical_as_server(process, id, PROTOCOL, PAGE, 0, data, out);
    assert_eq!(status::number(outcome), PXIMC_SUCCESS);
}

/// PXI-REQLS-7, PXI-REQLS-8, PXI-REQLP-12, PXI-REQLP-13, PXI-REQLP-14, PXI-REQPS-7
#[test]
fn identifiers_are_unique_per_system_and_interface() {
    let (world, s0, s1) = systems();
    s0.server(PAGE, 1, b"").unwrap();
    assert_eq!(s0.server(PAGE, 1, b""), Err(PXIMC_UID_CONFLICT));
    assert_eq!(s0.peer(PAGE, 1, b""), Err(PXIMC_UID_CONFLICT));
    let second_link = Side {
        interface: world.interface(1, Host::A),
        ..s0
    };
    assert!(second_link.server(PAGE, 1, b"").is_ok());
    assert!(s1.server(PAGE, 1, b"").is_ok());
    s0.server(PAGE, 0, b"").unwrap();
    s0.physical_server(0x1000, 1, 0, b"").unwrap();
    let mut listed = s1.windows().unwrap();
    listed.sort_unstable();
    listed.dedup();
    assert_eq!((listed.len(), listed.contains(&0)), (3, false));
    // A peer that finds a partner needs no identifier of its own.
    s1.peer(PAGE, 1, b"").unwrap_err();
    s1.peer(PAGE, 44, b"").unwrap();
    s0.server(PAGE, 44, b"").unwrap();
    assert!(s0.peer(PAGE, 44, b"").is_ok());
}

/// PXI-REQLS-12, PXI-REQLC-11, PXI-REQLP-18, PXI-PAIR-5, PXI-REQLS-17
#[test]
fn one_of_the_windows_may_be_missing() {
    let (_, s0, s1) = systems();
    let (to, from) = (sizes(0, 0, u64::MAX, 1), sizes(0x800, 0x800, 0, 0));
    assert!(s1.server(from, 0, b"").is_ok());
    assert_eq!(s0.client(from, 0), Err(PXIMC_NO_PAIRING));
    let client = s0.client(to, 0).unwrap();
    assert_eq!(s0.connect(client, 0).unwrap().remote.1, 0x800);
    let (left, right) = (s0.peer(to, 0, b"").unwrap(), s1.peer(from, 0, b"").unwrap());
    assert!(s0.connect(left, 0).is_ok() && s1.connect(right, 0).is_ok());
}

/// PXI-REQLC-6, PXI-REQLC-13, PXI-PAIR-2, PXI-PAIR-3, PXI-PAIR-11, PXI-FW-7, PXI-FW-9
#[test]
fn a_client_finds_exactly_what_fits() {
    let (_, s0, s1) = systems();
    s1.peer(PAGE, 0, b"").unwrap();
    s1.physical_server(0x1000, 0x1000, 0, b"").unwrap();
    assert_eq!(s0.client(PAGE, 0), Err(PXIMC_NO_PAIRING));
    let other = s1.server(sizes(0x300, 0, 0x300, 0), 20, b"").unwrap();
    assert_eq!(s0.client(PAGE, 0), Err(PXIMC_NO_PAIRING));
    let wanted = s1.server(PAGE, 21, b"").unwrap();
    assert_eq!(s0.client(PAGE, 22), Err(PXIMC_NO_PAIRING));
    assert!(s0.client(PAGE, 21).is_ok());
    assert_eq!(s0.client(PAGE, 21), Err(PXIMC_NO_PAIRING));
    assert!(s1.connect(wanted, 0).is_ok());
    assert_eq!(s1.connect(other, 0), Err(PXIMC_TIMEOUT));
}

/// PXI-REQPC-5, PXI-REQPC-6, PXI-REQPC-7, PXI-REQPC-10, PXI-REQPC-11
#[test]
fn a_physical_client_gets_the_size_of_its_server() {
    let (_, s0, s1) = systems();
    s1.server(PAGE, 0, b"").unwrap();
    assert_eq!(s0.physical_client(0x1000, 1, 0), Err(PXIMC_NO_PAIRING));
    s1.physical_server(0xF000_0000, 0x1_0000, 3, b"").unwrap();
    assert_eq!(s0.physical_client(0xFFFF, 1, 3), Err(PXIMC_NO_PAIRING));
    assert_eq!(
        s0.physical_client(0x2_0000, 0x1_0001, 3),
        Err(PXIMC_NO_PAIRING)
    );
    assert_eq!(s0.physical_client(0x2_0000, 1, 4), Err(PXIMC_NO_PAIRING));
    let client = s0.physical_client(0x2_0000, 1, 3).unwrap();
    assert_eq!(s0.connect(client, 0).unwrap().remote.1, 0x1_0000);
    assert_eq!(s0.physical_client(0x2_0000, 1, 3), Err(PXIMC_NO_PAIRING));
}

/// PXI-REQLP-7, PXI-REQLP-9, PXI-REQLP-17, PXI-REQLP-20
#[test]
fn peers_meet_in_either_order() {
    for first in [Host::A, Host::B] {
        let world = World::new(1, POOL);
        let (s0, s1) = (side(&world, first), side(&world, Host::A));
        let s1 = if first == Host::A {
            side(&world, Host::B)
        } else {
            s1
        };
        let posted = s0.peer(PAGE, 0, b"").unwrap();
        assert_eq!(s0.connect(posted, 0), Err(PXIMC_TIMEOUT));
        let joined = s1.peer(PAGE, 0, b"").unwrap();
        assert!(s0.connect(posted, 0).is_ok() && s1.connect(joined, 0).is_ok());
    }
}

/// PXI-SES-3, PXI-SES-4, PXI-SES-5, PXI-REQLS-10, PXI-GEN-11
#[test]
fn session_numbers_are_unique_over_interfaces_and_processes() {
    let (world, s0, _) = systems();
    let second_link = Side {
        interface: world.interface(1, Host::A),
        ..s0
    };
    let other = side(&world, Host::A);
    let mut numbers: Vec<u32> = [s0, second_link, other, s0, other]
        .iter()
        .map(|side| side.server(PAGE, 0, b"").unwrap())
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((numbers.len(), numbers.contains(&0)), (5, false));
}

/// Sessions beyond what the kernel allows are space that is not available.
#[test]
fn a_quota_is_a_lack_of_space() {
    let (world, s0, _) = systems();
    world.set_quota(1);
    s0.server(PAGE, 0, b"").unwrap();
    assert_eq!(s0.server(PAGE, 0, b""), Err(PXIMC_SPACE_NOT_AVAILABLE));
}
