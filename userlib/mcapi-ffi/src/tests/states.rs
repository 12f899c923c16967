// SPDX-License-Identifier: MIT OR Apache-2.0

//! Endpoints and channels in each state.

use super::{channels::*, *};

const STATUS: u32 = sys::MCAPI_ENDP_ATTR_STATUS;
const CONNECTED: u32 = sys::MCAPI_ENDP_ATTR_STATUS_CONNECTED;
const OPEN: u32 = sys::MCAPI_ENDP_ATTR_STATUS_OPEN;
const OPEN_PENDING: u32 = sys::MCAPI_ENDP_ATTR_STATUS_OPEN_PENDING;
const CLOSE_PENDING: u32 = sys::MCAPI_ENDP_ATTR_STATUS_CLOSE_PENDING;
const GET_PENDING: u32 = sys::MCAPI_ENDP_ATTR_STATUS_GET_PENDING;

/// Flags of the kind, and of the directions.
fn flags(kind: &Kind) -> (u32, [u32; 2]) {
    let kind = match kind.capacity == PACKETS.capacity {
        true => sys::MCAPI_ENDP_ATTR_STATUS_PKTCHAN,
        false => sys::MCAPI_ENDP_ATTR_STATUS_SCLCHAN,
    };
    let directions = [
        sys::MCAPI_ENDP_ATTR_STATUS_SEND,
        sys::MCAPI_ENDP_ATTR_STATUS_RECEIVE,
    ];
    (kind, directions)
}

/// What cannot be done to an endpoint that is connected; its attributes stay.
fn check_is_connected(program: &Program, endpoint: u64, expected: Error) {
    let before = get_attribute(program, endpoint, sys::MCAPI_ENDP_ATTR_TIMEOUT);
    let connected = Err(Error::ChannelConnected);
    assert_eq!(
        set(program, endpoint, sys::MCAPI_ENDP_ATTR_TIMEOUT, 7),
        connected
    );
    assert_eq!(
        get_attribute(program, endpoint, sys::MCAPI_ENDP_ATTR_TIMEOUT),
        before
    );
    let deleted = program.with(|state| functions::endpoint_delete(state, endpoint));
    assert_eq!(deleted, connected);
    let other = create(program, sys::MCAPI_PORT_ANY as u32);
    for kind in [PACKETS, SCALARS] {
        for (a, b) in [(endpoint, other), (other, endpoint)] {
            let again = begin(program, |node| (kind.connect)(node, a, b));
            let again = again.and_then(|(request, _)| {
                let mut size = 0;
                let ended = program
                    .with(|state| functions::wait(state, given(&request), out(&mut size), SOON));
                ended.map(|_| ()).map_err(Error::code)
            });
            assert_eq!(again, Err(expected.code()));
        }
    }
    // Messages are neither for it nor from there.
    let sent = send(program, other, endpoint, b"data");
    assert_eq!(sent, Err(Error::General));
    assert_eq!(receive(program, endpoint, 4).0, Err(Error::General));
    program
        .with(|state| functions::endpoint_delete(state, other))
        .unwrap();
}

/// MC-ATTR-5, MC-CHAN-4, MC-CHAN-7 to MC-CHAN-9, MC-EPDEL-3, MC-EPATTRSET-2, MC-MSG-7, MC-MSGRECV-5,
/// MC-PKTCONN-5, MC-PKTCONN-8, MC-PKTROPEN-1 to MC-PKTROPEN-4, MC-PKTSOPEN-1, MC-SCLROPEN-1,
/// MC-SCLSOPEN-1: the status of both ends in each state, what is refused there, and that everything is
/// as before when the channel has ended.
#[test]
fn endpoints_tell_their_state() {
    for kind in [PACKETS, SCALARS] {
        for first in [0, 1] {
            let other = 1 - first;
            let programs = pair();
            let ends = [create(&programs[0], 1), create(&programs[1], 2)];
            let (kind_flag, directions) = flags(&kind);
            let check = |end: usize, expected: u32| {
                let asked = &programs[end];
                assert_eq!(get_attribute(asked, ends[end], STATUS), Ok(expected));
            };
            let both = |expected: u32| [0, 1].map(|end| check(end, expected));
            both(0);
            let handles = [UNTOUCHED; 2];
            let places = handles.each_ref().map(|handle| {
                let place: *const u32 = handle;
                // SAFETY: The handles outlive the operations, and are looked at through the pointer.
                unsafe { Out::new(place.cast_mut()) }
            });
            let open = |end: usize| {
                let place = places[end];
                begin(&programs[end], |node| {
                    (kind.open[end])(node, place, ends[end])
                })
            };
            // Before it is connected.
            let (early, _) = open(first).unwrap();
            check(first, OPEN_PENDING);
            check(other, 0);
            assert_eq!(open(first), Err(sys::MCAPI_ERR_CHAN_OPENPENDING));
            let (connecting, _) =
                begin(&programs[0], |node| (kind.connect)(node, ends[0], ends[1])).unwrap();
            assert_eq!(wait(&programs[0], connecting), Ok(0));
            let of = |end: usize| CONNECTED | kind_flag | directions[end];
            check(first, of(first) | OPEN_PENDING);
            check(other, of(other));
            for end in [0, 1] {
                check_is_connected(&programs[end], ends[end], Error::ChannelConnected);
            }
            assert_eq!(open(first), Err(sys::MCAPI_ERR_CHAN_OPENPENDING));
            assert_eq!(test(&programs[first], early), Answer::PENDING);
            assert_eq!(places[first].read(), Ok(UNTOUCHED));
            let (late, _) = open(other).unwrap();
            for (end, request) in [(first, early), (other, late)] {
                assert_eq!(wait(&programs[end], request), Ok(0));
                assert_ne!(places[end].read(), Ok(UNTOUCHED));
                check(end, of(end) | OPEN);
                assert_eq!(open(end), Err(sys::MCAPI_ERR_CHAN_OPEN));
                check_is_connected(&programs[end], ends[end], Error::ChannelConnected);
            }
            let close = |end: usize| {
                let handle = places[end].read().unwrap();
                begin(&programs[end], |node| (kind.close[end])(node, handle)).unwrap()
            };
            let (closing, is_done) = close(first);
            assert!(!is_done);
            check(first, of(first) | CLOSE_PENDING);
            assert_eq!(open(first), Err(sys::MCAPI_ERR_CHAN_CLOSEPENDING));
            check_is_connected(&programs[first], ends[first], Error::ChannelClosePending);
            assert_eq!(test(&programs[first], closing), Answer::PENDING);
            // The other end has been told that this one was closed, and is as it was.
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(test(&programs[first], closing), Answer::PENDING);
            check(other, of(other) | OPEN);
            assert_eq!(open(other), Err(sys::MCAPI_ERR_CHAN_OPEN));
            check_is_connected(&programs[other], ends[other], Error::ChannelConnected);
            let (last, _) = close(other);
            for (end, request) in [(first, closing), (other, last)] {
                assert_eq!(wait(&programs[end], request), Ok(0));
            }
            both(0);
            for end in [0, 1] {
                assert_eq!(get_attribute(&programs[end], ends[end], 0), Ok(1));
                assert_eq!(get_attribute(&programs[end], ends[end], 1), Ok(0));
                assert_eq!(set(&programs[end], ends[end], 11, 7), Ok(()));
            }
            let [send_end, receive_end] = ends;
            send(&programs[0], send_end, receive_end, b"again").unwrap();
            assert_eq!(receive(&programs[1], receive_end, 8).1, b"again");
        }
    }
}

/// MC-ATTR-5, MC-EPGET-3, MC-EPGETI-3, MC-EPGETI-6, MC-EPDEL-7: gets are counted by the endpoint, which
/// has one at most if it is of a channel type, and by each of several of its life.
#[test]
fn endpoints_tell_who_has_got_them() {
    let program = node(&world(), Host::A, 1);
    let get = || program.with(|state| functions::endpoint_get(state, 0, 1, 5, SOON));
    for kind in [1, 2, 4] {
        let endpoint = create(&program, 5);
        set(&program, endpoint, 0, kind).unwrap();
        let status = get_attribute(&program, endpoint, STATUS);
        assert_eq!(status, Ok(0));
        assert_eq!(get(), Ok(endpoint));
        let status = get_attribute(&program, endpoint, STATUS);
        assert_eq!(status, Ok(GET_PENDING));
        let again = match kind {
            1 => Ok(endpoint),
            _ => Err(Error::EndpointGetLimit),
        };
        assert_eq!(get(), again);
        let count = if kind == 1 { 2 } else { 1 };
        assert_eq!(get_attribute(&program, endpoint, 1), Ok(count));
        program
            .with(|state| functions::endpoint_delete(state, endpoint))
            .unwrap();
        assert_eq!(
            get_attribute(&program, endpoint, STATUS),
            Err(Error::EndpointInvalid)
        );
    }
}

/// MC-EPDEL-2, MC-EPDEL-5 to MC-EPDEL-7, MC-MSG-9: what waits at an endpoint that is deleted ends, and
/// its messages are gone.
#[test]
fn what_waits_at_an_endpoint_ends_with_it() {
    let program = node(&world(), Host::A, 1);
    let other = create(&program, 6);
    for kind in [PACKETS, SCALARS] {
        for end in [0, 1] {
            let endpoint = create(&program, 5);
            for _ in 0..3 {
                send(&program, other, endpoint, b"gone").unwrap();
            }
            let delete = || program.with(|state| functions::endpoint_delete(state, endpoint));
            assert_eq!(delete(), Ok(()));
            assert_eq!(create(&program, 5), endpoint);
            assert_eq!(available(&program, endpoint), 0);
            let mut bytes = [0x5A; 4];
            let mut handle = UNTOUCHED;
            let place = out(&mut handle);
            let open = |node: &Node| (kind.open[end])(node, place, endpoint);
            let (opening, is_done) = begin(&program, open).unwrap();
            assert!(!is_done);
            let posted = post(&program, endpoint, &mut bytes);
            std::thread::scope(|scope| {
                let blocked = scope.spawn(|| receive(&program, endpoint, 4).0);
                std::thread::sleep(std::time::Duration::from_millis(40));
                assert_eq!(delete(), Ok(()));
                assert_eq!(blocked.join().unwrap(), Err(Error::EndpointInvalid));
            });
            assert_eq!(wait(&program, opening), Err(Error::EndpointDeleted));
            assert_eq!(wait(&program, posted), Err(Error::EndpointInvalid));
            assert_eq!((bytes, handle), ([0x5A; 4], UNTOUCHED));
            let invalid = Err(Error::EndpointInvalid);
            assert_eq!(delete(), invalid);
            assert_eq!(set(&program, endpoint, 11, 0), invalid);
            assert_eq!(send(&program, endpoint, other, b""), invalid);
            assert_eq!(receive(&program, endpoint, 4).0, invalid);
            // A message to it is nobody's mistake.
            assert_eq!(send(&program, other, endpoint, b"lost"), Ok(()));
        }
    }
}

/// MC-PKTCONN-4, MC-SCLCONN-1: a strict node connects no endpoint for messages that somebody has got;
/// any other node does.
#[test]
fn a_strict_node_connects_nothing_that_was_got() {
    for (flags, expected) in [
        (sys::MCAPI_PARAM_STRICT, Err(sys::MCAPI_ERR_ENDP_GET_LIMIT)),
        (0, Ok(true)),
    ] {
        for kind in [PACKETS, SCALARS] {
            let program = node_with(sys::mcapi_param_t {
                flags,
                ..PARAMETERS
            });
            let create = || create(&program, sys::MCAPI_PORT_ANY as u32);
            let connect = |a, b| {
                begin(&program, |node| (kind.connect)(node, a, b)).map(|(_, is_done)| is_done)
            };
            assert_eq!(connect(create(), create()), Ok(true));
            let [from, to] = [(); 2].map(|()| create());
            let port = (to & 0xFFFF) as u32;
            let got = program.with(|state| functions::endpoint_get(state, 0, 1, port, SOON));
            assert_eq!(got, Ok(to));
            assert_eq!(connect(from, to), expected);
        }
    }
}

/// MC-EPATTRSET-3, A-25, MC-PKTCONN-3, MC-PKTCONN-4, A-9: what a declared type cannot be connected or
/// opened for; that somebody has got an endpoint does not matter.
#[test]
fn declared_types_are_kept() {
    let program = node(&world(), Host::A, 1);
    for (declared, right, wrong) in [(2, PACKETS, SCALARS), (4, SCALARS, PACKETS)] {
        let ends = [(); 2].map(|()| create(&program, sys::MCAPI_PORT_ANY as u32));
        let connect = |kind: &Kind, a: u64, b: u64| {
            begin(&program, |node| (kind.connect)(node, a, b)).map(|(_, is_done)| is_done)
        };
        let same = connect(&right, ends[0], ends[0]);
        assert_eq!(same, Err(sys::MCAPI_ERR_ENDP_INVALID));
        set(&program, ends[1], 0, declared).unwrap();
        let refused = connect(&wrong, ends[0], ends[1]);
        assert_eq!(refused, Err(sys::MCAPI_ERR_ATTR_INCOMPATIBLE));
        let mut handle = UNTOUCHED;
        let place = out(&mut handle);
        let opened = begin(&program, |node| (wrong.open[1])(node, place, ends[1]));
        assert_eq!(opened, Err(sys::MCAPI_ERR_CHAN_TYPE));
        for end in ends {
            let port = (end & 0xFFFF) as u32;
            let got = program.with(|state| functions::endpoint_get(state, 0, 1, port, SOON));
            assert_eq!(got, Ok(end));
        }
        assert_eq!(connect(&right, ends[0], ends[1]), Ok(true));
        for end in ends {
            assert_eq!(get_attribute(&program, end, 0), Ok(declared));
        }
    }
}
