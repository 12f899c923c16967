// SPDX-License-Identifier: MIT OR Apache-2.0

//! Limits that the headers and the attributes tell: each can be reached, and one more is refused.

use super::*;
use mcapi::{ENDPOINTS_MAX, RECEIVE_BUFFERS, SEND_BUFFERS_MAX};

/// MC-GEN-17, MC-INIT-8, MC-EPCREATE-2, MC-EPCREATE-3: domains, nodes and ports.
#[test]
fn names_are_used_up_to_the_last() {
    let world = world();
    let most = sys::MCAPI_MAX_NODE;
    let program = node(&world, Host::A, most);
    assert_eq!(program.with(functions::node_id_get).unwrap().0, most);
    let other = super::program(&world, Host::A);
    let refused = initialize(&other, 0, most + 1).err();
    assert_eq!(refused, Some(Error::NodeInvalid));
    let refused = initialize(&other, sys::MCAPI_MAX_DOMAIN + 1, 1).err();
    assert_eq!(refused, Some(Error::DomainInvalid));
    for port in [sys::MCAPI_MIN_PORT, sys::MCAPI_MAX_PORT] {
        let endpoint = create(&program, port);
        let again = program.with(|state| functions::endpoint_create(state, port));
        assert_eq!(again, Err(Error::EndpointExists));
        program
            .with(|state| functions::endpoint_delete(state, endpoint))
            .unwrap();
        assert_eq!(create(&program, port), endpoint);
    }
    let beyond = program.with(|state| functions::endpoint_create(state, sys::MCAPI_MAX_PORT + 1));
    assert_eq!(beyond, Err(Error::PortInvalid));
}

/// MC-EPCREATE-1, MC-EPCREATE-2, MC-EPCREATE-6, MC-EPCREATE-7: ports that are given are all different,
/// until the node has as many endpoints as it can have.
#[test]
fn a_node_has_so_many_endpoints() {
    let program = node(&world(), Host::A, 1);
    let any = sys::MCAPI_PORT_ANY as u32;
    let mut all: Vec<_> = (0..ENDPOINTS_MAX).map(|_| create(&program, any)).collect();
    assert!(all.iter().all(|endpoint| endpoint & 0xFFFF >= 0x8000));
    for (port, error) in [(any, Error::PortInvalid), (1, Error::General)] {
        let more = program.with(|state| functions::endpoint_create(state, port));
        assert_eq!(more, Err(error));
    }
    let gone = all[7];
    program
        .with(|state| functions::endpoint_delete(state, gone))
        .unwrap();
    all[7] = create(&program, 1);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), ENDPOINTS_MAX);
}

/// MC-EPCREATE-2, MC-REQ-10: a program may ask for less than there is.
#[test]
fn a_node_has_so_many_endpoints_and_requests_as_it_asks_for() {
    let program = node_with(sys::mcapi_param_t {
        max_endpoints: 2,
        max_requests: 1,
        ..PARAMETERS
    });
    let any = sys::MCAPI_PORT_ANY as u32;
    let ends = [any, 1].map(|port| create(&program, port));
    for (port, error) in [(any, Error::PortInvalid), (2, Error::General)] {
        let more = program.with(|state| functions::endpoint_create(state, port));
        assert_eq!(more, Err(error));
    }
    let mut data = [0; 8];
    let mut receive = |end| {
        begin(&program, |node| {
            functions::msg_recv_i(node, end, room(&mut data))
        })
    };
    let (request, is_done) = receive(ends[0]).unwrap();
    assert!(!is_done);
    assert_eq!(receive(ends[1]), Err(sys::MCAPI_ERR_REQUEST_LIMIT));
    let sent = program.with(|node| functions::msg_send(node, ends[1], ends[0], input(b"hello"), 0));
    assert_eq!(sent, Ok(()));
    assert_eq!(wait(&program, request), Ok(5));
    assert!(receive(ends[1]).is_ok());
}

/// MC-BUF-2, MC-BUF-4, MC-MSGSEND-5, MC-MSGSEND-6: messages of the most bytes, also to the endpoint
/// that they are from; and of no more than the sender says.
#[test]
fn messages_have_so_many_bytes() {
    let program = node(&world(), Host::A, 1);
    let (from, to) = (create(&program, 1), create(&program, 2));
    let most = sys::MCAPI_MAX_MESSAGE_SIZE as usize;
    let data: Vec<u8> = (0..=most).map(|n| (n % 251) as u8).collect();
    for most in [most, 100, 0] {
        set(&program, from, 3, most as u32).unwrap();
        for to in [from, to] {
            send(&program, from, to, &data[..most]).unwrap();
            assert_eq!(receive(&program, to, most), (Ok(()), data[..most].to_vec()));
            let more = &data[..most + 1];
            assert_eq!(send(&program, from, to, more), Err(Error::MessageSize));
            let more = send_i(&program, from, to, more);
            assert_eq!(more, Err(sys::MCAPI_ERR_MSG_SIZE));
            assert_eq!(available(&program, to), 0);
        }
    }
}

/// MC-MSG-2, MC-MSGSENDI-4, MC-EPATTRSET-5: all priorities down to the lowest one; an endpoint may have
/// fewer.
#[test]
fn messages_have_so_many_priorities() {
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 1);
    let lowest = sys::MCAPI_MIN_PRORITY;
    for count in [lowest + 1, 3, 1] {
        set(&program, endpoint, 6, count).unwrap();
        for priority in (0..count).rev() {
            let data = [priority as u8];
            send_at(&program, endpoint, endpoint, &data, priority).unwrap();
        }
        for beyond in [count, lowest + 1, u32::MAX] {
            let sent = send_at(&program, endpoint, endpoint, b"", beyond);
            assert_eq!(sent, Err(Error::Priority));
            let sent = begin(&program, |state| {
                functions::msg_send_i(state, endpoint, endpoint, input(b""), beyond)
            });
            assert_eq!(sent, Err(sys::MCAPI_ERR_PRIORITY));
        }
        for priority in 0..count {
            let received = receive(&program, endpoint, 1);
            assert_eq!(received, (Ok(()), vec![priority as u8]));
        }
    }
}

/// MC-MSGSENDI-2, MC-MSG-10, MC-GEN-5, A-23, MC-ATTR-6: so many buffers take messages, so many sends
/// wait for one, and the next is not begun. Blocking calls are not counted.
#[test]
fn sends_have_so_many_buffers() {
    let program = node(&world(), Host::A, 1);
    for (port, most) in [(1, 1), (3, 3), (5, SEND_BUFFERS_MAX)] {
        let (from, to) = (create(&program, port), create(&program, port + 1));
        set(&program, from, 8, most).unwrap();
        let mut requests = Vec::new();
        for n in 0..RECEIVE_BUFFERS + most {
            if n <= RECEIVE_BUFFERS {
                assert_eq!(get_attribute(&program, to, 9), Ok(RECEIVE_BUFFERS - n));
            }
            let (request, is_done) = send_i(&program, from, to, &n.to_le_bytes()).unwrap();
            assert_eq!(is_done, n < RECEIVE_BUFFERS);
            requests.push(request);
        }
        let more = send_i(&program, from, to, b"too many");
        assert_eq!(more, Err(sys::MCAPI_ERR_MEM_LIMIT));
        set(&program, from, 11, 0).unwrap();
        assert_eq!(send_at(&program, from, to, b"", 7), Err(Error::Timeout));
        for (n, request) in (0_u32..).zip(requests) {
            assert_eq!(receive(&program, to, 4), (Ok(()), n.to_le_bytes().to_vec()));
            assert_eq!(wait(&program, request), Ok(4));
        }
        assert_eq!(available(&program, to), 0);
        assert_eq!(get_attribute(&program, to, 9), Ok(RECEIVE_BUFFERS));
    }
}

/// An attribute, values that it can have, and those that it cannot and why.
type Row<'a> = (u32, &'a [u32], &'a [(u32, Error)]);

/// MC-ATTR-2, MC-ATTR-3, MC-EPATTRSET-3 to MC-EPATTRSET-5: what each attribute can be set to, what not
/// and why; and the value is that of the last time.
#[test]
fn attributes_are_set_up_to_their_limits() {
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 1);
    let value = Error::AttributeValue;
    let (read_only, unsupported) = (Error::AttributeReadOnly, Error::AttributeNotSupported);
    // What is right, and what is wrong.
    let table: [Row<'_>; 12] = [
        (
            sys::MCAPI_ENDP_ATTR_TYPE,
            &[2, 4, 1],
            &[(0, value), (3, value), (8, value)],
        ),
        (sys::MCAPI_ENDP_ATTR_GET_COUNT, &[], &[(0, read_only)]),
        (sys::MCAPI_ENDP_ATTR_GET_SOURCE, &[], &[]),
        (
            sys::MCAPI_ENDP_ATTR_MAX_PAYLOAD_SIZE,
            &[0, 65536, 1],
            &[(65537, value), (u32::MAX, value)],
        ),
        (
            sys::MCAPI_ENDP_ATTR_BUFFER_TYPE,
            &[1, 0],
            &[(2, value), (u32::MAX, value)],
        ),
        (
            sys::MCAPI_ENDP_ATTR_MEMORY_TYPE,
            &[1, 0],
            &[
                (2, unsupported),
                (0x1_0000, unsupported),
                (0x1_0001, unsupported),
                (3, value),
            ],
        ),
        (
            sys::MCAPI_ENDP_ATTR_NUM_PRIORITIES,
            &[1, 8],
            &[(0, value), (9, value), (u32::MAX, value)],
        ),
        (
            sys::MCAPI_ENDP_ATTR_PRIORITY,
            &[7, 0],
            &[(8, value), (u32::MAX, value)],
        ),
        (
            sys::MCAPI_ENDP_ATTR_NUM_SEND_BUFFERS,
            &[1, SEND_BUFFERS_MAX],
            &[(0, value), (SEND_BUFFERS_MAX + 1, value)],
        ),
        (
            sys::MCAPI_ENDP_ATTR_NUM_RECV_BUFFERS,
            &[],
            &[(1, read_only), (64, read_only)],
        ),
        (sys::MCAPI_ENDP_ATTR_STATUS, &[], &[(0, read_only)]),
        (sys::MCAPI_ENDP_ATTR_TIMEOUT, &[0, 1, u32::MAX], &[]),
    ];
    for (n, (number, right, wrong)) in (0_u32..).zip(table) {
        assert_eq!(n, number);
        for value in right {
            assert_eq!(set(&program, endpoint, number, *value), Ok(()), "{number}");
            assert_eq!(get_attribute(&program, endpoint, number), Ok(*value));
        }
        if number == sys::MCAPI_ENDP_ATTR_GET_SOURCE {
            continue;
        }
        let before = get_attribute(&program, endpoint, number);
        for (value, expected) in wrong {
            let refused = set(&program, endpoint, number, *value);
            assert_eq!(refused, Err(*expected), "{number} {value}");
            assert_eq!(get_attribute(&program, endpoint, number), before);
        }
    }
    // A priority is one of those that there are.
    set(&program, endpoint, 7, 3).unwrap();
    assert_eq!(set(&program, endpoint, 6, 3), Err(value));
    assert_eq!(set(&program, endpoint, 6, 4), Ok(()));
    assert_eq!(set(&program, endpoint, 7, 4), Err(value));
}

/// MC-ATTR-2, MC-ATTR-4: sizes other than the attribute's, and numbers that are nobody's or of a range
/// that another organization may have.
#[test]
fn attributes_have_one_size_and_known_numbers() {
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 1);
    let bytes = [0; 16];
    let set = |number: u32, size: usize| {
        let value = input(&bytes[..size]);
        program.with(|node| functions::endpoint_set_attribute(node, endpoint, number, value))
    };
    for number in 0..sys::MCAPI_ENDP_ATTR_END {
        let right = match number {
            sys::MCAPI_ENDP_ATTR_GET_SOURCE => 8,
            _ => 4,
        };
        for wrong in (0..16).filter(|size| *size != right) {
            assert_eq!(set(number, wrong), Err(Error::AttributeSize), "{number}");
        }
    }
    // The first and the last number of the ranges 0, 1 and 7.
    let range = |x: u32| [64 + 32 * x, 64 + 32 * (x + 1) - 1];
    let others = [0, 1, 7].into_iter().flat_map(range);
    for number in [12, 63, u32::MAX].into_iter().chain(others) {
        assert_eq!(set(number, 4), Err(Error::AttributeNumber), "{number}");
        let mut place = [0x5A; 4];
        let told = room(&mut place);
        let got =
            program.with(|node| functions::endpoint_get_attribute(node, endpoint, number, told));
        assert_eq!((got, place), (Err(Error::AttributeNumber), [0x5A; 4]));
    }
}
