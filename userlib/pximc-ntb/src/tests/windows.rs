// SPDX-License-Identifier: MIT OR Apache-2.0

//! Windows of the other system: lists and attributes.

use super::*;

/// PXI-FW-1, PXI-FW-2, PXI-FW-3, PXI-FW-4, PXI-FW-8, PXI-FW-10
#[test]
fn windows_are_listed_from_request_to_close() {
    let (_, s0, s1) = systems();
    assert_eq!(s0.windows(), Ok(vec![]));
    let posted = s1.server(PAGE, 1587, b"").unwrap();
    let any = s1.peer(PAGE, 0, b"").unwrap();
    let listed = s0.windows().unwrap();
    assert_eq!((listed.len(), listed[0]), (2, 1587));
    assert!(listed[1] != 0 && listed[1] != 1587);
    let client = s0.client(PAGE, 1587).unwrap();
    assert_eq!(s0.windows(), Ok(listed.clone()));
    assert_eq!(s1.windows().unwrap().len(), 1);
    assert_eq!(s1.close(any), PXIMC_SUCCESS);
    assert_eq!(s0.windows(), Ok(listed[..1].to_vec()));
    let attribute = PXIMC_U32_WINDOW_PAIRING_STATE;
    assert_eq!(s0.window(listed[1], attribute), Err(PXIMC_INVALID_WINDOW));
    for (side, number) in [(s0, client), (s1, posted)] {
        assert_eq!(side.close(number), PXIMC_SUCCESS);
    }
    assert_eq!((s0.windows(), s1.windows()), (Ok(vec![]), Ok(vec![])));
}

/// PXI-FW-5, PXI-FW-6
#[test]
fn a_list_of_windows_is_complete_or_not_written() {
    let (_, s0, s1) = systems();
    for uid in [3, 4, 5] {
        s1.server(sizes(1, 1, 0, 0), uid, b"").unwrap();
    }
    for capacity in 0..6 {
        let (mut ids, mut actual) = ([SENTINEL; 8], SENTINEL);
        let (room, out) = (buffer(&mut ids, capacity), output(&mut actual));
        let outcome = functions::find_windows(s0.process(), s0.interface, room, out);
        let (expected, written) = match capacity {
            0..3 => (PXIMC_INSUFFICIENT_SPACE, 0),
            _ => (PXIMC_SUCCESS, 3),
        };
        assert_eq!((status::number(outcome), actual), (expected, 3));
        assert_eq!(ids[..written], [3, 4, 5][..written]);
        assert!(ids[written..].iter().all(|id| *id == SENTINEL));
    }
}

/// PXI-FW-11, PXI-QW-17
#[test]
fn windows_are_asked_for_in_the_order_interface_link_window_attribute() {
    let (world, s0, _) = systems();
    let bogus = Side { interface: 0, ..s0 };
    assert_eq!(s0.window(7, 0), Err(PXIMC_INVALID_WINDOW));
    world.set_up(0, false);
    assert_eq!(s0.window(7, 0), Err(PXIMC_INTERFACE_DOWN));
    assert_eq!(s0.windows(), Err(PXIMC_INTERFACE_DOWN));
    assert_eq!(bogus.window(7, 0), Err(PXIMC_INVALID_INTERFACE));
    assert_eq!(bogus.windows(), Err(PXIMC_INVALID_INTERFACE));
    let null_count = |id| functions::find_windows(s0.process(), id, null_buffer(0), null());
    assert_eq!(status::number(null_count(0)), PXIMC_INVALID_INTERFACE);
    assert_eq!(
        status::number(null_count(s0.interface)),
        PXIMC_INVALID_ARGUMENT
    );
}

/// PXI-QW-1, PXI-QW-6, PXI-QW-9, PXI-QW-16, PXI-REQLS-9, PXI-REQLS-14, PXI-REQLS-15, PXI-REQLP-15
#[test]
fn attributes_are_what_the_request_has_said() {
    let (_, s0, s1) = systems();
    let wide = sizes(u64::MAX, 1, 0x2000, 0x20);
    s1.server(wide, 5, b"System 1 Server Process").unwrap();
    s1.peer(PAGE, 6, &[0; 1024]).unwrap();
    s1.physical_server(0xF000_0000, 0x1_0000, 7, b"\0").unwrap();
    assert_eq!(
        s0.window(5, PXIMC_U8_WINDOW_DATA).unwrap(),
        b"System 1 Server Process"
    );
    assert_eq!(s0.window(6, PXIMC_U8_WINDOW_DATA).unwrap(), [0; 1024]);
    assert_eq!(s0.window(7, PXIMC_U8_WINDOW_DATA).unwrap(), [0]);
    let numbers = [
        (5, PXIMC_CONNECTION_SERVER, PXIMC_LOCATION_LOGICAL),
        (6, PXIMC_CONNECTION_PEER, PXIMC_LOCATION_LOGICAL),
        (7, PXIMC_CONNECTION_SERVER, PXIMC_LOCATION_PHYSICAL),
    ];
    for (uid, connection, location) in numbers {
        assert_eq!(
            s0.window_u32(uid, PXIMC_U32_WINDOW_CONNECTION_TYPE),
            connection
        );
        assert_eq!(s0.window_u32(uid, PXIMC_U32_WINDOW_LOCATION_TYPE), location);
        assert_eq!(
            s0.window_u32(uid, PXIMC_U32_WINDOW_PROTOCOL_NUMBER),
            PROTOCOL
        );
        assert_eq!(
            s0.window_u32(uid, PXIMC_U32_WINDOW_PAIRING_STATE),
            PXIMC_WINDOW_UNPAIRED
        );
        let status = s0.window(uid, PXIMC_U32_SESSION_EVENT_STATUS);
        assert_eq!(status, Err(PXIMC_NSUP_ATTRIBUTE));
    }
    let expected = [(5, wide), (6, PAGE), (7, sizes(0x1_0000, 0x1_0000, 0, 0))];
    for (uid, sizes) in expected {
        assert_eq!(
            s0.window_u64(uid, PXIMC_U64_WINDOW_MAX_LOCAL_SIZE),
            sizes.max_local
        );
        assert_eq!(
            s0.window_u64(uid, PXIMC_U64_WINDOW_MIN_LOCAL_SIZE),
            sizes.min_local
        );
        assert_eq!(
            s0.window_u64(uid, PXIMC_U64_WINDOW_MAX_REMOTE_SIZE),
            sizes.max_remote
        );
        assert_eq!(
            s0.window_u64(uid, PXIMC_U64_WINDOW_MIN_REMOTE_SIZE),
            sizes.min_remote
        );
    }
}

/// PXI-QW-12, PXI-QW-13, PXI-QW-15, PXI-REQLC-7
#[test]
fn a_paired_window_has_its_actual_sizes() {
    let (_, s0, s1) = systems();
    let server = s1.server(sizes(0x3000, 1, u64::MAX, 0), 5, b"").unwrap();
    s0.client(sizes(0x2000, 0, 0x1800, 0), 5).unwrap();
    assert_eq!(
        s0.window_u32(5, PXIMC_U32_WINDOW_PAIRING_STATE),
        PXIMC_WINDOW_PAIRED
    );
    let connection = s1.connect(server, 0).unwrap();
    assert_eq!((connection.local.1, connection.remote.1), (0x1800, 0x2000));
    for attribute in [
        PXIMC_U64_WINDOW_MIN_LOCAL_SIZE,
        PXIMC_U64_WINDOW_MAX_LOCAL_SIZE,
    ] {
        assert_eq!(s0.window_u64(5, attribute), 0x1800);
    }
    for attribute in [
        PXIMC_U64_WINDOW_MIN_REMOTE_SIZE,
        PXIMC_U64_WINDOW_MAX_REMOTE_SIZE,
    ] {
        assert_eq!(s0.window_u64(5, attribute), 0x2000);
    }
}

/// One attribute into a buffer of any size and alignment.
fn query(side: &Side, attribute: u32, capacity: u32, offset: usize) -> (i32, u32, Vec<u8>) {
    let (mut room, mut actual) = (Aligned([0xa5; 1024]), SENTINEL);
    let value = buffer(&mut room.0[offset..], capacity);
    let (process, id, out) = (side.process(), side.interface, output(&mut actual));
    let outcome = functions::query_window_information(process, id, 5, attribute, value, out);
    (status::number(outcome), actual, room.0.into())
}

/// PXI-QW-2, PXI-QW-3, PXI-QW-5, PXI-QW-7, PXI-QW-8, PXI-QW-10, PXI-QW-11: numbers want aligned
/// buffers, also those of 64 bits at multiples of 4; the size is looked at first.
#[test]
fn buffers_have_to_be_large_enough_and_then_aligned() {
    let (_, s0, s1) = systems();
    s1.server(PAGE, 5, b"twenty-three characters").unwrap();
    let attributes = [
        (PXIMC_U8_WINDOW_DATA, 23, 1),
        (PXIMC_U32_WINDOW_PROTOCOL_NUMBER, 4, 4),
        (PXIMC_U64_WINDOW_MAX_LOCAL_SIZE, 8, 8),
    ];
    for (attribute, size, alignment) in attributes {
        for offset in 0..9 {
            for capacity in [0, size - 1, size, size + 1, 1000] {
                let (found, actual, value) = query(&s0, attribute, capacity, offset);
                let (expected, told, written) = if capacity < size {
                    (PXIMC_INSUFFICIENT_SPACE, size, 0)
                } else if offset % alignment != 0 {
                    (PXIMC_ALIGNMENT_ERROR, SENTINEL, 0)
                } else {
                    (PXIMC_SUCCESS, size, size as usize)
                };
                assert_eq!((found, actual), (expected, told), "{attribute:#x} {offset}");
                let outside = value[..offset].iter().chain(&value[offset + written..]);
                assert!(outside.copied().all(|byte| byte == 0xa5));
            }
        }
    }
}

/// PXI-QW-3, PXI-QW-5: no data is a value of no bytes, which needs no buffer.
#[test]
fn no_window_data_fits_everywhere() {
    let (_, s0, s1) = systems();
    s1.server(PAGE, 5, b"").unwrap();
    let mut actual = SENTINEL;
    let (process, id, out) = (s0.process(), s0.interface, output(&mut actual));
    let outcome = functions::query_window_information(
        process,
        id,
        5,
        PXIMC_U8_WINDOW_DATA,
        null_buffer(0),
        out,
    );
    assert_eq!((outcome, actual), (Ok(()), 0));
}
