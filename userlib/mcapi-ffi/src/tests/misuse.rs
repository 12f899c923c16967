// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs may not do: NULL, handles that are none, calls of what is no node.

use super::*;
use std::ffi::c_void;

/// A function, and what it is refused with.
type Refusal = (&'static str, Result<()>);

/// All functions of a node that are no requests, with arguments of which each is wrong in one way.
fn calls(state: &Node, own: u64, places: &mut Places) -> Vec<Refusal> {
    use functions::*;
    let none = own + 1;
    let data = input(b"data");
    let attribute = places.bytes();
    let size = out(&mut places.size);
    let packet = out(&mut places.packet);
    let handle = UNTOUCHED;
    let elsewhere = ptr::without_provenance::<c_void>(0x1000);
    let parameter = |name, result: Result<()>| {
        assert_eq!(result, Err(Error::Parameter), "{name}");
        (name, result)
    };
    let (endpoint, channel) = (Err(Error::EndpointInvalid), Err(Error::ChannelInvalid));
    let mut all = vec![
        parameter(
            "node_get_attribute",
            node_get_attribute(state, 0, 1, 0, no_room(4)),
        ),
        parameter(
            "get_attribute",
            endpoint_get_attribute(state, own, 0, no_room(4)),
        ),
        parameter(
            "set_attribute",
            endpoint_set_attribute(state, own, 0, no_input(4)),
        ),
        parameter("msg_send", msg_send(state, own, own, no_input(1), 0)),
        parameter("msg_recv", msg_recv(state, own, no_room(1), size)),
        parameter("msg_recv", msg_recv(state, own, attribute, Out::NULL)),
        parameter("pktchan_send", pktchan_send(state, handle, no_input(1))),
        parameter("pktchan_recv", pktchan_recv(state, handle, Out::NULL, size)),
        parameter(
            "pktchan_recv",
            pktchan_recv(state, handle, packet, Out::NULL),
        ),
        parameter(
            "release_test",
            pktchan_release_test(state, ptr::null()).map(|_| ()),
        ),
    ];
    let mut refused = |name, result: Result<()>, expected: Result<()>| {
        assert_eq!(result, expected, "{name}");
        all.push((name, result));
    };
    for raw in [none, 0xFFFF, 1 << 31, 1 << 48, u64::MAX] {
        refused("delete", endpoint_delete(state, raw), endpoint);
        refused(
            "get_attribute",
            endpoint_get_attribute(state, raw, 0, attribute),
            endpoint,
        );
        refused(
            "get_attribute",
            endpoint_get_attribute(state, raw, 99, attribute),
            endpoint,
        );
        refused(
            "set_attribute",
            endpoint_set_attribute(state, raw, 99, data),
            endpoint,
        );
        refused("msg_send", msg_send(state, raw, own, data, 0), endpoint);
        refused("msg_recv", msg_recv(state, raw, attribute, size), endpoint);
        refused(
            "msg_available",
            msg_available(state, raw).map(|_| ()),
            endpoint,
        );
    }
    for raw in [0, 1, handle, u32::MAX] {
        refused("pktchan_send", pktchan_send(state, raw, data), channel);
        refused(
            "pktchan_recv",
            pktchan_recv(state, raw, packet, size),
            channel,
        );
        refused(
            "available",
            pktchan_available(state, raw).map(|_| ()),
            channel,
        );
        refused("send_uint64", sclchan_send(state, raw, 1_u64), channel);
        refused("send_uint8", sclchan_send(state, raw, 1_u8), channel);
        refused(
            "recv_uint32",
            sclchan_recv::<_, u32>(state, raw).map(|_| ()),
            channel,
        );
        refused(
            "recv_uint16",
            sclchan_recv::<_, u16>(state, raw).map(|_| ()),
            channel,
        );
        refused(
            "available",
            sclchan_available(state, raw).map(|_| ()),
            channel,
        );
    }
    let buffer = Err(Error::BufferInvalid);
    for address in [ptr::null(), elsewhere] {
        refused("release", pktchan_release(state, address), buffer);
    }
    refused(
        "release_test",
        pktchan_release_test(state, elsewhere).map(|_| ()),
        buffer,
    );
    all
}

/// Where functions may not write.
struct Places {
    bytes: [u8; 4],
    size: usize,
    packet: *mut c_void,
}

impl Places {
    fn new() -> Self {
        Places {
            bytes: [0x5A; 4],
            size: 0x5A5A,
            packet: ptr::without_provenance_mut(0x5A5A),
        }
    }

    fn bytes(&mut self) -> Room<u8> {
        room(&mut self.bytes)
    }

    fn are_untouched(&self) -> bool {
        (self.bytes, self.size, self.packet.addr()) == ([0x5A; 4], 0x5A5A, 0x5A5A)
    }
}

/// MC-GEN-4, MC-GEN-11: each argument that cannot be has its status, and nothing is written.
#[test]
fn arguments_that_cannot_be_are_refused() {
    let program = node(&world(), Host::A, 1);
    let own = create(&program, 5);
    let mut places = Places::new();
    let refused = program
        .with(|state| Ok(calls(state, own, &mut places)))
        .unwrap();
    assert!(refused.iter().all(|(_, result)| result.is_err()));
    assert!(places.are_untouched());
    // What is there stays as it was.
    send(&program, own, own, b"data").unwrap();
    assert_eq!(receive(&program, own, 8), (Ok(()), b"data".to_vec()));
}

/// The same of functions that begin something: the request becomes 0 (MC-GEN-6).
#[test]
fn operations_that_cannot_be_are_not_begun() {
    use functions::*;
    let program = node(&world(), Host::A, 1);
    let own = create(&program, 5);
    let mut places = Places::new();
    let mut endpoint = u64::MAX;
    let mut handle = UNTOUCHED;
    let (found, opened, packet) = (
        out(&mut endpoint),
        out(&mut handle),
        out(&mut places.packet),
    );
    let bytes = room(&mut places.bytes);
    let refused = |name, start: &dyn Fn(&Node) -> Result<Begun>, expected: Error| {
        assert_eq!(begin(&program, start), Err(expected.code()), "{name}");
        // There must be a place for the request, whatever else is wrong.
        let answer = program.begin(Out::NULL, start);
        assert_eq!(answer.status, sys::MCAPI_ERR_PARAMETER, "{name}");
    };
    let parameter = Error::Parameter;
    refused("get", &|s| endpoint_get_i(s, 0, 1, 5, Out::NULL), parameter);
    refused(
        "send",
        &|s| msg_send_i(s, own, own, no_input(1), 0),
        parameter,
    );
    refused("recv", &|s| msg_recv_i(s, own, no_room(1)), parameter);
    refused(
        "open",
        &|s| pktchan_recv_open_i(s, Out::NULL, own),
        parameter,
    );
    refused(
        "open",
        &|s| pktchan_send_open_i(s, Out::NULL, own),
        parameter,
    );
    refused(
        "open",
        &|s| sclchan_recv_open_i(s, Out::NULL, own),
        parameter,
    );
    refused(
        "open",
        &|s| sclchan_send_open_i(s, Out::NULL, own),
        parameter,
    );
    refused("pktsend", &|s| pktchan_send_i(s, 1, no_input(1)), parameter);
    refused("pktrecv", &|s| pktchan_recv_i(s, 1, Out::NULL), parameter);
    refused(
        "get",
        &|s| endpoint_get_i(s, 0x1_0000, 1, 5, found),
        Error::DomainInvalid,
    );
    refused(
        "get",
        &|s| endpoint_get_i(s, 0, 0x8000, 5, found),
        Error::NodeInvalid,
    );
    refused(
        "get",
        &|s| endpoint_get_i(s, 0, 1, 0xFFFF, found),
        Error::PortInvalid,
    );
    for raw in [0xFFFF, 1 << 31, 1 << 48, u64::MAX] {
        let expected = Error::EndpointInvalid;
        refused(
            "send",
            &|s| msg_send_i(s, raw, own, input(b"a"), 0),
            expected,
        );
        refused(
            "send",
            &|s| msg_send_i(s, own, raw, input(b"a"), 0),
            expected,
        );
        refused("recv", &|s| msg_recv_i(s, raw, bytes), expected);
        refused("connect", &|s| pktchan_connect_i(s, raw, own), expected);
        refused("connect", &|s| pktchan_connect_i(s, own, raw), expected);
        refused("connect", &|s| sclchan_connect_i(s, raw, own), expected);
        refused("connect", &|s| sclchan_connect_i(s, own, raw), expected);
        refused("open", &|s| pktchan_recv_open_i(s, opened, raw), expected);
        refused("open", &|s| pktchan_send_open_i(s, opened, raw), expected);
        refused("open", &|s| sclchan_recv_open_i(s, opened, raw), expected);
        refused("open", &|s| sclchan_send_open_i(s, opened, raw), expected);
    }
    for raw in [0, 1, UNTOUCHED, u32::MAX] {
        let expected = Error::ChannelInvalid;
        refused(
            "pktsend",
            &|s| pktchan_send_i(s, raw, input(b"a")),
            expected,
        );
        refused("pktrecv", &|s| pktchan_recv_i(s, raw, packet), expected);
    }
    assert!(places.are_untouched());
    assert_eq!((endpoint, handle), (u64::MAX, UNTOUCHED));
}

/// MC-GEN-3: nothing can be done before initializing, and after finalizing.
#[test]
fn what_is_no_node_can_do_nothing() {
    let program = program(&world(), Host::A);
    let refused = |program: &Program| {
        let created = program.with(|state| functions::endpoint_create(state, 1));
        assert_eq!(created, Err(Error::NodeNotInit));
        let begun = begin(program, |_| unreachable!());
        assert_eq!(begun, Err(sys::MCAPI_ERR_NODE_NOTINIT));
        // It comes before everything that is wrong.
        let answer = program.begin(Out::NULL, |_| unreachable!());
        assert_eq!(answer.status, sys::MCAPI_ERR_NODE_NOTINIT);
    };
    refused(&program);
    initialize(&program, 0, 1).unwrap();
    functions::finalize(&program).unwrap();
    refused(&program);
}
