// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs may not do: NULL, handles that are none, calls of what is no node.

use super::{
    channels::{Channel, Kind, PACKETS, SCALARS},
    *,
};
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
    endpoint: u64,
    handle: u32,
}

impl Places {
    fn new() -> Self {
        Places {
            bytes: [0x5A; 4],
            size: 0x5A5A,
            packet: ptr::without_provenance_mut(0x5A5A),
            endpoint: 0x5A5A,
            handle: 0x5A5A,
        }
    }

    fn bytes(&mut self) -> Room<u8> {
        room(&mut self.bytes)
    }

    fn are_untouched(&self) -> bool {
        (self.bytes, self.size, self.packet.addr()) == ([0x5A; 4], 0x5A5A, 0x5A5A)
            && (self.endpoint, self.handle) == (0x5A5A, 0x5A5A)
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

/// The status of what a function has come to.
fn status<T>(result: Result<T>) -> u32 {
    result.map_or_else(Error::code, |_| sys::MCAPI_SUCCESS)
}

/// The same of one that begins something.
fn begun(program: &Program, start: impl FnOnce(&Node) -> Result<Begun>) -> u32 {
    begin(program, start).err().unwrap_or(sys::MCAPI_SUCCESS)
}

/// A function of a node, by its name in C, and a call with arguments that could be good.
type Call = (&'static str, fn(&Program, &mut Places) -> u32);

/// All functions of a node. Those that need none are tested with it: `nodes`.
const CALLS: [Call; 47] = {
    use functions::*;
    [
        ("mcapi_finalize", |p, _| status(finalize(p))),
        ("mcapi_node_start", |p, _| status(p.with(node_start))),
        ("mcapi_node_rundown", |p, _| status(p.with(node_rundown))),
        ("mcapi_domain_id_get", |p, _| status(p.with(domain_id_get))),
        ("mcapi_node_id_get", |p, _| status(p.with(node_id_get))),
        ("mcapi_node_get_attribute", |p, to| {
            let place = to.bytes();
            status(p.with(|n| node_get_attribute(n, 0, 1, 0, place)))
        }),
        ("mcapi_endpoint_create", |p, _| {
            status(p.with(|n| endpoint_create(n, 1)))
        }),
        ("mcapi_endpoint_get_i", |p, to| {
            let place = out(&mut to.endpoint);
            begun(p, |n| endpoint_get_i(n, 0, 1, 5, place))
        }),
        ("mcapi_endpoint_get", |p, _| {
            status(p.with(|n| endpoint_get(n, 0, 1, 5, NEVER)))
        }),
        ("mcapi_endpoint_delete", |p, _| {
            status(p.with(|n| endpoint_delete(n, 1)))
        }),
        ("mcapi_endpoint_get_attribute", |p, to| {
            let place = to.bytes();
            status(p.with(|n| endpoint_get_attribute(n, 1, 0, place)))
        }),
        ("mcapi_endpoint_set_attribute", |p, _| {
            status(p.with(|n| endpoint_set_attribute(n, 1, 11, input(b"time"))))
        }),
        ("mcapi_msg_send_i", |p, _| {
            begun(p, |n| msg_send_i(n, 1, 2, input(b"data"), 0))
        }),
        ("mcapi_msg_send", |p, _| {
            status(p.with(|n| msg_send(n, 1, 2, input(b"data"), 0)))
        }),
        ("mcapi_msg_recv_i", |p, to| {
            let place = to.bytes();
            begun(p, |n| msg_recv_i(n, 1, place))
        }),
        ("mcapi_msg_recv", |p, to| {
            let (place, size) = (to.bytes(), out(&mut to.size));
            status(p.with(|n| msg_recv(n, 1, place, size)))
        }),
        ("mcapi_msg_available", |p, _| {
            status(p.with(|n| msg_available(n, 1)))
        }),
        ("mcapi_pktchan_connect_i", |p, _| {
            begun(p, |n| pktchan_connect_i(n, 1, 2))
        }),
        ("mcapi_pktchan_recv_open_i", |p, to| {
            let place = out(&mut to.handle);
            begun(p, |n| pktchan_recv_open_i(n, place, 1))
        }),
        ("mcapi_pktchan_send_open_i", |p, to| {
            let place = out(&mut to.handle);
            begun(p, |n| pktchan_send_open_i(n, place, 1))
        }),
        ("mcapi_pktchan_send_i", |p, _| {
            begun(p, |n| pktchan_send_i(n, 1, input(b"data")))
        }),
        ("mcapi_pktchan_send", |p, _| {
            status(p.with(|n| pktchan_send(n, 1, input(b"data"))))
        }),
        ("mcapi_pktchan_recv_i", |p, to| {
            let place = out(&mut to.packet);
            begun(p, |n| pktchan_recv_i(n, 1, place))
        }),
        ("mcapi_pktchan_recv", |p, to| {
            let (place, size) = (out(&mut to.packet), out(&mut to.size));
            status(p.with(|n| pktchan_recv(n, 1, place, size)))
        }),
        ("mcapi_pktchan_available", |p, _| {
            status(p.with(|n| pktchan_available(n, 1)))
        }),
        ("mcapi_pktchan_release", |p, _| {
            status(p.with(|n| pktchan_release(n, b"data".as_ptr().cast())))
        }),
        ("mcapi_pktchan_release_test", |p, _| {
            status(p.with(|n| pktchan_release_test(n, b"data".as_ptr().cast())))
        }),
        ("mcapi_pktchan_recv_close_i", |p, _| {
            begun(p, |n| pktchan_recv_close_i(n, 1))
        }),
        ("mcapi_pktchan_send_close_i", |p, _| {
            begun(p, |n| pktchan_send_close_i(n, 1))
        }),
        ("mcapi_sclchan_connect_i", |p, _| {
            begun(p, |n| sclchan_connect_i(n, 1, 2))
        }),
        ("mcapi_sclchan_recv_open_i", |p, to| {
            let place = out(&mut to.handle);
            begun(p, |n| sclchan_recv_open_i(n, place, 1))
        }),
        ("mcapi_sclchan_send_open_i", |p, to| {
            let place = out(&mut to.handle);
            begun(p, |n| sclchan_send_open_i(n, place, 1))
        }),
        ("mcapi_sclchan_send_uint64", |p, _| {
            status(p.with(|n| sclchan_send(n, 1, 1_u64)))
        }),
        ("mcapi_sclchan_send_uint32", |p, _| {
            status(p.with(|n| sclchan_send(n, 1, 1_u32)))
        }),
        ("mcapi_sclchan_send_uint16", |p, _| {
            status(p.with(|n| sclchan_send(n, 1, 1_u16)))
        }),
        ("mcapi_sclchan_send_uint8", |p, _| {
            status(p.with(|n| sclchan_send(n, 1, 1_u8)))
        }),
        ("mcapi_sclchan_recv_uint64", |p, _| {
            status(p.with(|n| sclchan_recv::<_, u64>(n, 1)))
        }),
        ("mcapi_sclchan_recv_uint32", |p, _| {
            status(p.with(|n| sclchan_recv::<_, u32>(n, 1)))
        }),
        ("mcapi_sclchan_recv_uint16", |p, _| {
            status(p.with(|n| sclchan_recv::<_, u16>(n, 1)))
        }),
        ("mcapi_sclchan_recv_uint8", |p, _| {
            status(p.with(|n| sclchan_recv::<_, u8>(n, 1)))
        }),
        ("mcapi_sclchan_available", |p, _| {
            status(p.with(|n| sclchan_available(n, 1)))
        }),
        ("mcapi_sclchan_recv_close_i", |p, _| {
            begun(p, |n| sclchan_recv_close_i(n, 1))
        }),
        ("mcapi_sclchan_send_close_i", |p, _| {
            begun(p, |n| sclchan_send_close_i(n, 1))
        }),
        ("mcapi_test", |p, to| {
            let size = out(&mut to.size);
            status(p.with(|n| functions::test(n, given(&1), size)))
        }),
        ("mcapi_wait", |p, to| {
            let size = out(&mut to.size);
            status(p.with(|n| functions::wait(n, given(&1), size, NEVER)))
        }),
        ("mcapi_wait_any", |p, to| {
            let size = out(&mut to.size);
            status(p.with(|n| wait_any(n, input(&[1, 2]), size, NEVER)))
        }),
        ("mcapi_cancel", |p, _| {
            status(p.with(|n| cancel(n, given(&1))))
        }),
    ]
};

/// Functions that need no node.
const ANYWHERE: [&str; 5] = [
    "mcapi_initialize",
    "mcapi_initialize2",
    "mcapi_node_init_attributes",
    "mcapi_node_set_attribute",
    "mcapi_display_status",
];

/// All functions that are exported are in the tables, and no others.
#[test]
fn the_tables_have_each_function() {
    let mut names: Vec<_> = CALLS
        .iter()
        .map(|(name, _)| *name)
        .chain(ANYWHERE)
        .collect();
    let exported = include_str!("../ffi.rs").lines();
    let exported = exported.filter_map(|line| line.strip_prefix("    mcapi_")?.split_once('('));
    let mut exported: Vec<_> = exported.map(|(name, _)| format!("mcapi_{name}")).collect();
    names.sort_unstable();
    exported.sort_unstable();
    assert_eq!(names, exported);
    assert_eq!(names.len(), 52);
}

/// MC-GEN-3, MC-FINAL-1, MC-FINAL-6: nothing can be done before initializing, and after finalizing,
/// whatever the arguments are; and nothing is written.
#[test]
fn what_is_no_node_can_do_nothing() {
    let program = program(&world(), Host::A);
    let refused = |program: &Program| {
        let mut places = Places::new();
        for (name, call) in CALLS {
            let status = call(program, &mut places);
            assert_eq!(status, sys::MCAPI_ERR_NODE_NOTINIT, "{name}");
        }
        assert!(places.are_untouched());
        // It comes before everything that is wrong.
        let answer = program.begin(Out::NULL, |_| unreachable!());
        assert_eq!(answer.status, sys::MCAPI_ERR_NODE_NOTINIT);
    };
    refused(&program);
    initialize(&program, 0, 1).unwrap();
    functions::finalize(&program).unwrap();
    refused(&program);
}

/// Of handles that are none, each function of a node says the status that is listed for it, at once.
#[test]
fn what_is_not_there_has_its_status() {
    use sys::*;
    let program = node(&world(), Host::A, 1);
    let mut places = Places::new();
    for (name, call) in CALLS {
        let expected = match name {
            // Those that would succeed, or wait.
            "mcapi_finalize"
            | "mcapi_node_start"
            | "mcapi_node_rundown"
            | "mcapi_domain_id_get"
            | "mcapi_node_id_get"
            | "mcapi_node_get_attribute"
            | "mcapi_endpoint_create"
            | "mcapi_endpoint_get_i"
            | "mcapi_endpoint_get" => continue,
            // Handle 1 is <0,0,1>, of a node that is not there.
            "mcapi_endpoint_delete" => MCAPI_ERR_ENDP_NOTOWNER,
            "mcapi_endpoint_set_attribute" => MCAPI_ERR_ENDP_REMOTE,
            "mcapi_pktchan_connect_i" | "mcapi_sclchan_connect_i" => continue,
            "mcapi_pktchan_release" | "mcapi_pktchan_release_test" => MCAPI_ERR_BUF_INVALID,
            "mcapi_test" | "mcapi_wait" | "mcapi_wait_any" | "mcapi_cancel" => {
                MCAPI_ERR_REQUEST_INVALID
            }
            name if name.contains("open") || name.contains("msg") || name.contains("endpoint") => {
                MCAPI_ERR_ENDP_INVALID
            }
            _ => MCAPI_ERR_CHAN_INVALID,
        };
        assert_eq!(call(&program, &mut places), expected, "{name}");
    }
    assert!(places.are_untouched());
}

/// Post receives until the node has no request left.
fn use_up_requests(program: &Program) {
    let endpoint = create(program, 99);
    let mut bytes = [0; 4];
    let mut post = || {
        let place = room(&mut bytes);
        begin(program, |node| functions::msg_recv_i(node, endpoint, place))
    };
    while post().is_ok() {}
    assert_eq!(post(), Err(sys::MCAPI_ERR_REQUEST_LIMIT));
}

/// A call that begins something.
type Start<'a> = &'a dyn Fn(&Node) -> Result<Begun>;

/// Check what each of two faults of a call is told, and that of both the first one is.
fn first_fault(program: &Program, kind: Kind, other: Kind, channel: &Channel, is_used_up: bool) {
    use functions::*;
    let [own, there] = channel.endpoints;
    let mut handle = UNTOUCHED;
    let place = out(&mut handle);
    let (none, long) = (create(program, 50) + 1, vec![0; 65537]);
    program
        .with(|node| endpoint_delete(node, none - 1))
        .unwrap();
    let told = |start: Start<'_>| begin(program, start).unwrap_err();
    let [send, receive] = kind.open;
    let cases: [(&str, Start<'_>, u32); 12] = [
        (
            "NULL, no endpoint",
            &|n| send(n, Out::NULL, none),
            sys::MCAPI_ERR_PARAMETER,
        ),
        (
            "NULL, direction",
            &|n| receive(n, Out::NULL, own),
            sys::MCAPI_ERR_PARAMETER,
        ),
        (
            "no endpoint",
            &|n| send(n, place, none),
            sys::MCAPI_ERR_ENDP_INVALID,
        ),
        (
            "owner, direction",
            &|n| send(n, place, there),
            sys::MCAPI_ERR_ENDP_INVALID,
        ),
        (
            "type, direction",
            &|n| other.open[1](n, place, own),
            sys::MCAPI_ERR_CHAN_TYPE,
        ),
        (
            "direction",
            &|n| receive(n, place, own),
            sys::MCAPI_ERR_CHAN_DIRECTION,
        ),
        ("open", &|n| send(n, place, own), sys::MCAPI_ERR_CHAN_OPEN),
        (
            "one endpoint",
            &|n| (kind.connect)(n, own, own),
            sys::MCAPI_ERR_ENDP_INVALID,
        ),
        (
            "no channel",
            &|n| (kind.close[0])(n, 1),
            sys::MCAPI_ERR_CHAN_INVALID,
        ),
        (
            "closed as another type",
            &|n| (other.close[1])(n, channel.handles[0]),
            sys::MCAPI_ERR_CHAN_TYPE,
        ),
        (
            "closed the wrong way",
            &|n| (kind.close[1])(n, channel.handles[0]),
            sys::MCAPI_ERR_CHAN_DIRECTION,
        ),
        (
            "no channel, size",
            &|n| pktchan_send_i(n, 1, input(&long)),
            sys::MCAPI_ERR_CHAN_INVALID,
        ),
    ];
    for (name, start, expected) in cases {
        assert_eq!(told(start), expected, "{name}, {is_used_up}");
    }
    // Whose it is comes before what it is connected as, and that before what is wrong with a value.
    let deleted = program.with(|node| endpoint_delete(node, there));
    assert_eq!(deleted, Err(Error::EndpointNotOwner));
    let set = program.with(|node| endpoint_set_attribute(node, there, 99, input(&[0; 3])));
    assert_eq!(set, Err(Error::EndpointRemote));
    let sent = program.with(|node| msg_send(node, none, own, input(&long), 8));
    assert_eq!(sent, Err(Error::EndpointInvalid));
    let sent = program.with(|node| msg_send(node, own, own, input(&long), 8));
    assert_eq!(sent, Err(Error::General));
    assert_eq!(handle, UNTOUCHED);
}

/// MC-GEN-4: of two things that are wrong with a call for a channel the earlier one is told, whether
/// there is a request left or not.
#[test]
fn of_two_faults_the_earlier_is_told() {
    for (kind, other) in [(PACKETS, SCALARS), (SCALARS, PACKETS)] {
        let channel = Channel::new(kind);
        let sender = &channel.programs[0];
        first_fault(sender, kind, other, &channel, false);
        use_up_requests(sender);
        first_fault(sender, kind, other, &channel, true);
    }
}

/// MC-GEN-4: sizes come before limits, that of requests before that of buffers, and limits before what
/// the way for data says.
#[test]
fn of_limits_that_of_requests_is_told_first() {
    let channel = Channel::with(
        PACKETS,
        &[(3, 64), (sys::MCAPI_ENDP_ATTR_NUM_SEND_BUFFERS, 1)],
    );
    let [sender, _] = &channel.programs;
    let send = |len: usize| {
        let data = [0; 65];
        begin(sender, |node| {
            functions::pktchan_send_i(node, channel.handles[0], input(&data[..len]))
        })
    };
    while send(64).unwrap().1 {}
    assert_eq!(send(64), Err(sys::MCAPI_ERR_MEM_LIMIT));
    assert_eq!(send(65), Err(sys::MCAPI_ERR_PKT_SIZE));
    use_up_requests(sender);
    assert_eq!(send(64), Err(sys::MCAPI_ERR_REQUEST_LIMIT));
    assert_eq!(send(65), Err(sys::MCAPI_ERR_PKT_SIZE));
}

/// MC-PKTCONN-7, MC-SCLCONN-1: where a file names the domains, endpoints of others are none to connect.
#[test]
fn endpoints_of_a_domain_that_is_not_are_none() {
    let world = world();
    let load = move || {
        let fabric = Fabric::with_device(world.open(Host::A));
        Ok((fabric, Topology::parse("domain 7 0 1").unwrap()))
    };
    let program = Program::new(Box::leak(Box::new(load)));
    initialize(&program, 7, 1).unwrap();
    let own = create(&program, 1);
    let elsewhere = mcapi::Endpoint::new(mcapi::NodeId::new(5, 1).unwrap(), 1).unwrap();
    let elsewhere = elsewhere.to_raw();
    let connects = [PACKETS.connect, SCALARS.connect];
    for (send, receive) in [(own, elsewhere), (elsewhere, own)] {
        for connect in connects {
            let refused = begin(&program, |node| connect(node, send, receive));
            assert_eq!(refused, Err(sys::MCAPI_ERR_ENDP_INVALID));
        }
    }
}
