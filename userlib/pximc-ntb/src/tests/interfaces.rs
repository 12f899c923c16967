// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interfaces: lists, attributes, events.

use super::*;
use std::time::{Duration, Instant};

/// The values of an attribute's call: status, size, and the buffer.
fn query(
    side: &Side,
    attribute: u32,
    capacity: u32,
    offset: usize,
) -> (tPXIMC_Status, u32, [u8; 64]) {
    #[repr(align(8))]
    struct Room([u8; 64]);
    let (mut room, mut actual) = (Room([0xa5; 64]), SENTINEL);
    let value = buffer(&mut room.0[offset..], capacity);
    let (process, out) = (side.process(), output(&mut actual));
    let id = side.interface;
    let outcome = functions::query_interface_information(process, id, attribute, value, out);
    (status::number(outcome), actual, room.0)
}

fn number(side: &Side, attribute: u32) -> Answer<u32> {
    match query(side, attribute, 4, 0) {
        (PXIMC_SUCCESS, 4, value) => Ok(u32::from_ne_bytes(value[..4].try_into().unwrap())),
        (failure, _, _) => Err(failure),
    }
}

fn text(side: &Side, attribute: u32) -> Answer<String> {
    match query(side, attribute, 64, 0) {
        (PXIMC_SUCCESS, size, value) => {
            let (text, end) = value.split_at(size as usize - 1);
            assert_eq!(end[0], 0);
            Ok(String::from_utf8(text.into()).unwrap())
        }
        (failure, _, _) => Err(failure),
    }
}

/// PXI-FI-1, PXI-FI-2, PXI-FI-3, PXI-FI-4, PXI-FI-7, PXI-FI-8
#[test]
fn every_local_end_is_listed_once_whether_up_or_down() {
    let (world, s0, _) = systems();
    let ids = s0.interfaces();
    assert_eq!(
        ids,
        [world.interface(0, Host::A), world.interface(1, Host::A)]
    );
    assert!(!ids.contains(&0));
    world.set_up(0, false);
    assert_eq!(s0.interfaces(), ids);
    world.remove(0, Host::A);
    assert_eq!(s0.interfaces(), ids[1..]);
}

/// PXI-FI-6, PXI-FI-7, PXI-GEN-7: too little room tells the number and writes nothing else.
#[test]
fn a_list_of_interfaces_is_complete_or_not_written() {
    let (_, s0, _) = systems();
    let process = s0.process();
    for capacity in 0..12 {
        let (mut ids, mut actual) = ([SENTINEL; 16], SENTINEL);
        let room = buffer(&mut ids, capacity);
        let outcome = functions::find_interfaces(process, room, output(&mut actual));
        let (expected, written) = match capacity {
            0..2 => (PXIMC_INSUFFICIENT_SPACE, 0),
            _ => (PXIMC_SUCCESS, 2),
        };
        assert_eq!((status::number(outcome), actual), (expected, 2));
        assert!(ids[written..].iter().all(|id| *id == SENTINEL));
        assert!(ids[..written].iter().all(|id| *id != SENTINEL));
    }
    let mut actual = SENTINEL;
    let probe = functions::find_interfaces(process, null_buffer(0), output(&mut actual));
    assert_eq!(
        (status::number(probe), actual),
        (PXIMC_INSUFFICIENT_SPACE, 2)
    );
}

/// PXI-FI-9, PXI-FI-10: without the kernel's module there is no interface.
#[test]
fn no_fabric_is_no_interface_and_no_error() {
    let open: crate::process::Open<FakeDevice> = &|| Err(pximc::Error::InvalidInterface);
    let (mut ids, mut actual) = ([SENTINEL; 1], SENTINEL);
    let process = Process::new(open);
    let outcome = functions::find_interfaces(&process, buffer(&mut ids, 1), output(&mut actual));
    assert_eq!((outcome, actual, ids), (Ok(()), 0, [SENTINEL]));
    let outcome = functions::find_windows(&process, 1, buffer(&mut ids, 1), output(&mut actual));
    assert_eq!(status::number(outcome), PXIMC_INVALID_INTERFACE);
    assert_eq!(status::number(functions::cleanup(&process)), PXIMC_SUCCESS);
}

/// The loopback interface is not one of another system, unless a user wants it.
#[test]
fn loopback_is_hidden_from_all_functions_unless_asked_for() {
    use mp_testing::LOOPBACK;
    let (world, s0, _) = systems();
    let hidden = Side {
        interface: LOOPBACK,
        ..s0
    };
    assert!(!s0.interfaces().contains(&LOOPBACK));
    assert_eq!(hidden.windows(), Err(PXIMC_INVALID_INTERFACE));
    assert_eq!(hidden.interface_event(0), Err(PXIMC_INVALID_INTERFACE));
    assert_eq!(hidden.server(PAGE, 0, b""), Err(PXIMC_INVALID_INTERFACE));
    let library = Library::with_fabric(Fabric::with_device(world.open(Host::A)), true);
    assert_eq!(library.interfaces()[0].id(), LOOPBACK);
}

/// PXI-QI-3, PXI-QI-6, PXI-QI-10, PXI-QI-11, PXI-QI-12
#[test]
fn required_attributes_are_there_up_and_down() {
    let (world, s0, _) = systems();
    for up in [true, false] {
        world.set_up(0, up);
        assert_eq!(number(&s0, PXIMC_U32_PROTOCOL_VERSION), Ok(0x0001_0000));
        assert_eq!(number(&s0, PXIMC_U32_MANF_ID), Ok(0x111d));
        let state = if up { PXIMC_STATE_UP } else { PXIMC_STATE_DOWN };
        assert_eq!(number(&s0, PXIMC_U32_INTERFACE_STATE), Ok(state));
    }
    world.set_pci(false);
    assert_eq!(number(&s0, PXIMC_U32_MANF_ID), Ok(0xffff));
}

/// PXI-QI-11: both ends have to be there, and to reach each other.
#[test]
fn an_interface_without_its_other_end_is_down() {
    let (world, s0, _) = systems();
    assert_eq!(number(&s0, PXIMC_U32_INTERFACE_STATE), Ok(PXIMC_STATE_UP));
    world.remove(0, Host::B);
    assert_eq!(number(&s0, PXIMC_U32_INTERFACE_STATE), Ok(PXIMC_STATE_DOWN));
}

/// PXI-QI-4: optional attributes are known, or not supported; never something else.
#[test]
fn optional_attributes_are_told_as_far_as_they_are_known() {
    let (world, s0, _) = systems();
    let pci = [
        (PXIMC_U32_INTERFACE_DEVICE_ID, 0x8091),
        (PXIMC_U32_INTERFACE_VENDOR_ID, 0x111d),
        (PXIMC_U32_INTERFACE_SS_ID, 0x5678),
        (PXIMC_U32_INTERFACE_SS_VENDOR_ID, 0x1234),
        (PXIMC_U32_INTERFACE_BUS, 0x42),
        (PXIMC_U32_INTERFACE_DEV, 31),
        (PXIMC_U32_INTERFACE_FUNC, 5),
    ];
    let remote = [
        (PXIMC_U32_REMOTE_ENDIANNESS, 0x7856_3412),
        (PXIMC_U32_REMOTE_WORD_SIZE, 64),
    ];
    for (attribute, value) in pci.into_iter().chain(remote) {
        assert_eq!(number(&s0, attribute), Ok(value));
    }
    assert_eq!(text(&s0, PXIMC_STR_INTERFACE_NAME).unwrap(), "ntb0");
    assert_eq!(text(&s0, PXIMC_STR_MODEL_NAME).unwrap(), "89HPES24NT6AG2");
    assert!(text(&s0, PXIMC_STR_MANF_NAME)
        .unwrap()
        .starts_with("Integrated Device"));
    for attribute in [
        PXIMC_STR_SERIAL_NUM,
        PXIMC_STR_LOG_DATA,
        PXIMC_STR_REMOTE_OS,
    ] {
        assert_eq!(text(&s0, attribute), Err(PXIMC_NSUP_ATTRIBUTE));
    }
    assert_eq!(
        number(&s0, PXIMC_U32_INTERFACE_LOCAL),
        Err(PXIMC_NSUP_ATTRIBUTE)
    );
    world.set_up(0, false);
    for (attribute, _) in remote {
        assert_eq!(number(&s0, attribute), Err(PXIMC_NSUP_ATTRIBUTE));
    }
    world.set_pci(false);
    for (attribute, _) in pci {
        assert_eq!(number(&s0, attribute), Err(PXIMC_NSUP_ATTRIBUTE));
    }
    world.set_name(b"");
    assert_eq!(
        text(&s0, PXIMC_STR_INTERFACE_NAME),
        Err(PXIMC_NSUP_ATTRIBUTE)
    );
}

/// PXI-QI-5: what is no attribute is not supported, also in the range of vendors.
#[test]
fn unknown_attributes_are_not_supported() {
    let (_, s0, _) = systems();
    for attribute in [
        0,
        1,
        0x1000_0007,
        0x3000_000e,
        0x4000_0001,
        0xF000_0000,
        0xFFFF_FFFF,
    ] {
        assert_eq!(
            number(&s0, attribute),
            Err(PXIMC_NSUP_ATTRIBUTE),
            "{attribute:#x}"
        );
    }
}

/// PXI-QI-1, PXI-QI-2, PXI-QI-7, PXI-QI-8
#[test]
fn a_number_has_four_bytes_and_no_more_are_written() {
    let (_, s0, _) = systems();
    for capacity in 0..17 {
        let (found, actual, value) = query(&s0, PXIMC_U32_PROTOCOL_VERSION, capacity, 0);
        let (expected, written) = match capacity {
            0..4 => (PXIMC_INSUFFICIENT_SPACE, 0),
            _ => (PXIMC_SUCCESS, 4),
        };
        assert_eq!((found, actual), (expected, 4));
        assert!(value[written..].iter().all(|byte| *byte == 0xa5));
    }
}

/// PXI-QI-9: and the size is looked at before the alignment.
#[test]
fn a_number_wants_an_aligned_buffer() {
    let (_, s0, _) = systems();
    for offset in 1..4 {
        let (found, actual, value) = query(&s0, PXIMC_U32_MANF_ID, 16, offset);
        assert_eq!((found, actual), (PXIMC_ALIGNMENT_ERROR, SENTINEL));
        assert!(value.iter().all(|byte| *byte == 0xa5));
        let (found, actual, _) = query(&s0, PXIMC_U32_MANF_ID, 3, offset);
        assert_eq!((found, actual), (PXIMC_INSUFFICIENT_SPACE, 4));
    }
    let (found, _, _) = query(&s0, PXIMC_STR_INTERFACE_NAME, 16, 1);
    assert_eq!(found, PXIMC_SUCCESS);
}

/// PXI-QI-13, PXI-QI-14, PXI-QI-15, PXI-QI-16
#[test]
fn a_text_fits_with_its_zero_or_not_at_all() {
    let (world, s0, _) = systems();
    world.set_name("n\u{fc}b\t1".as_bytes());
    for capacity in 0..8 {
        let (found, actual, value) = query(&s0, PXIMC_STR_INTERFACE_NAME, capacity, 0);
        let (expected, written) = match capacity {
            0..6 => (PXIMC_INSUFFICIENT_SPACE, 0),
            _ => (PXIMC_SUCCESS, 6),
        };
        assert_eq!((found, actual), (expected, 6));
        assert_eq!(value[..written], b"n?b?1\0"[..written]);
        assert!(value[written..].iter().all(|byte| *byte == 0xa5));
    }
}

/// Interface, then pointers, then attribute: a call that is wrong in several ways gets the first
/// one's status.
#[test]
fn queries_look_at_the_interface_first() {
    let (_, s0, _) = systems();
    let query = |id, attribute, value, out| {
        let process = s0.process();
        let outcome = functions::query_interface_information(process, id, attribute, value, out);
        status::number(outcome)
    };
    let mut actual = SENTINEL;
    assert_eq!(query(0, 0, null_buffer(4), null()), PXIMC_INVALID_INTERFACE);
    assert_eq!(
        query(s0.interface, 0, null_buffer(0), null()),
        PXIMC_INVALID_ARGUMENT
    );
    let null_value = query(s0.interface, 0, null_buffer(4), output(&mut actual));
    assert_eq!(null_value, PXIMC_INVALID_ARGUMENT);
    assert_eq!(
        query(s0.interface, 0, null_buffer(0), output(&mut actual)),
        PXIMC_NSUP_ATTRIBUTE
    );
    assert_eq!(actual, SENTINEL);
    let probe = query(
        s0.interface,
        PXIMC_U32_MANF_ID,
        null_buffer(0),
        output(&mut actual),
    );
    assert_eq!((probe, actual), (PXIMC_INSUFFICIENT_SPACE, 4));
}

const BOTH: u32 = PXIMC_EVENT_INTERFACE_STATE_CHANGE | PXIMC_EVENT_WINDOW_STATE_CHANGE;

/// PXI-WIE-2, PXI-WIE-4
#[test]
fn the_first_wait_of_a_process_returns_at_once() {
    let (_, s0, _) = systems();
    assert_eq!(s0.interface_event(PXIMC_TIMEOUT_INFINITE), Ok(BOTH));
    assert_eq!(s0.interface_event(0), Err(PXIMC_TIMEOUT));
    let bogus = Side {
        interface: 99,
        ..s0
    };
    assert_eq!(
        bogus.interface_event(PXIMC_TIMEOUT_INFINITE),
        Err(PXIMC_INVALID_INTERFACE)
    );
    let null_reason = functions::wait_for_interface_event(s0.process(), s0.interface, 0, null());
    assert_eq!(status::number(null_reason), PXIMC_INVALID_ARGUMENT);
}

/// PXI-WIE-1, PXI-WIE-3, PXI-WIE-5, PXI-WIE-9, PXI-WIE-10
#[test]
fn changes_are_kept_for_every_process_and_told_once() {
    let (world, s0, s1) = systems();
    let other = side(&world, Host::A);
    for process in [s0, other] {
        assert_eq!(process.interface_event(0), Ok(BOTH));
    }
    for _ in 0..10 {
        let number = s1.server(PAGE, 0, b"").unwrap();
        assert_eq!(s1.close(number), PXIMC_SUCCESS);
    }
    for process in [s0, other] {
        assert_eq!(
            process.interface_event(0),
            Ok(PXIMC_EVENT_WINDOW_STATE_CHANGE)
        );
        assert_eq!(process.interface_event(0), Err(PXIMC_TIMEOUT));
    }
    world.set_up(0, false);
    world.set_up(0, true);
    assert_eq!(s0.interface_event(0), Ok(BOTH));
    assert_eq!(s0.interface_event(0), Err(PXIMC_TIMEOUT));
}

/// PXI-WIE-6, PXI-WIE-7, PXI-WIE-8
#[test]
fn a_wait_ends_with_an_event_or_with_its_time() {
    let (world, s0, _) = systems();
    assert_eq!(s0.interface_event(0), Ok(BOTH));
    let start = Instant::now();
    assert_eq!(s0.interface_event(20), Err(PXIMC_TIMEOUT));
    assert!(start.elapsed() >= Duration::from_millis(20));
    let waiter = waiting(&world, move || s0.interface_event(PXIMC_TIMEOUT_INFINITE));
    world.set_up(0, false);
    assert_eq!(waiter.join().unwrap(), Ok(BOTH));
}
