// SPDX-License-Identifier: MIT OR Apache-2.0

//! How nodes begin, find each other, and end.

mod common;

use common::{briefly, get, receive, soon, Hosts};
use mcapi::{
    Attribute, Completion, Deadline, Endpoint, EndpointType, Error, Fabric, FoundNode, Node,
    NodeAttributes, NodeId, Request, Topology, RECEIVE_BUFFERS, STATUS_CONNECTED,
};
use mp_fabric::{sys::mp_event, Call, Device, Errno, Map, Protection};
use mp_testing::{BridgeDevice, Host, World};
use std::{
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc, Arc, Barrier,
    },
    thread,
    time::{Duration, Instant},
};

/// MC-INIT-6, MC-INIT-7, MC-INIT-8: on the own host.
#[test]
fn a_number_is_one_process_s() {
    let hosts = Hosts::new();
    let node = hosts.node(Host::A, 5);
    let id = node.id().unwrap();
    assert_eq!((id.domain(), id.node()), (0, 5));
    assert_eq!(
        hosts.try_node(Host::A, 0, 5).unwrap_err(),
        Error::NodeInitFailed
    );
    assert_eq!(
        hosts.try_node(Host::A, 1, 5).unwrap_err(),
        Error::DomainInvalid
    );
    assert_eq!(
        hosts.try_node(Host::A, 0, 0x8000).unwrap_err(),
        Error::NodeInvalid
    );
    assert_eq!(
        hosts.try_node(Host::A, 1 << 16, 0).unwrap_err(),
        Error::DomainInvalid
    );
    drop(hosts.node(Host::B, 5));
    for _ in 0..20 {
        node.finalize()
            .unwrap_or_else(|error| assert_eq!(error, Error::NodeNotInit));
        let again = hosts.node(Host::A, 5);
        assert_eq!(again.finalize(), Ok(()));
    }
    drop(node);
    assert_eq!(hosts.world.contexts(), 0);
}

/// MC-INIT-6, A-45: over hosts, for a domain that is on both; whoever comes second fails.
#[test]
fn a_number_of_a_domain_on_two_hosts_is_one_process_s() {
    let hosts = Hosts::with_config("domain 7 0 1");
    for [first, second] in [[Host::A, Host::B], [Host::B, Host::A]] {
        let node = hosts.try_node(first, 7, 1).unwrap();
        assert_eq!(
            hosts.try_node(second, 7, 1).unwrap_err(),
            Error::NodeInitFailed
        );
        let other = hosts.try_node(second, 7, 2).unwrap();
        let endpoint = node.endpoint_create(Some(3)).unwrap();
        assert_eq!(get(&other, endpoint), endpoint);
        assert_eq!(
            hosts.try_node(first, 0, 1).unwrap_err(),
            Error::DomainInvalid
        );
    }
}

/// MC-MSG-8, MC-NATTRGET-2: a node that is not found is none, unless it may be on a host of its domain
/// that no link leads to.
#[test]
fn a_node_may_be_on_a_host_that_no_link_leads_to() {
    let hosts = Hosts::with_config("domain 7 0 1");
    let node = hosts.try_node(Host::A, 7, 1).unwrap();
    let own = node.endpoint_create(None).unwrap();
    let nowhere = Endpoint::new(NodeId::new(7, 2).unwrap(), 1).unwrap();
    let deadline = soon();
    for _ in 0..2 {
        // Where the link has just come up, the node may not have seen that.
        let asked = loop {
            let asked = node.node_attribute(7, 2, NodeAttributes::TYPE);
            if asked != Err(Error::General) || deadline.remaining() == Some(Duration::ZERO) {
                break asked;
            }
        };
        assert_eq!(asked, Err(Error::NodeInvalid));
        assert_eq!(node.msg_send(own, nowhere, b"", 1), Ok(()));
        hosts.world.set_up(0, false);
        let asked = node.node_attribute(7, 2, NodeAttributes::TYPE);
        assert_eq!(asked, Err(Error::General));
        let sent = node.msg_send(own, nowhere, b"", 1);
        assert_eq!(sent, Err(Error::Transmission));
        hosts.world.set_up(0, true);
    }
}

/// MC-INIT-6: a node that can have no more sessions, and so nothing to be asked by, keeps its number.
#[test]
fn a_claim_stands_without_a_listener() {
    let hosts = Hosts::with_config("domain 7 0 1");
    let node = hosts.try_node(Host::A, 7, 1).unwrap();
    let endpoint = node.endpoint_create(Some(1)).unwrap();
    let neighbour = hosts.try_node(Host::A, 7, 3).unwrap();
    assert_eq!(get(&neighbour, endpoint), endpoint);
    let other = hosts.try_node(Host::B, 7, 2).unwrap();
    // The mark, two sessions on each interface, and the one with the neighbour.
    hosts.world.set_quota(6);
    assert_eq!(get(&other, endpoint), endpoint);
    assert_eq!(
        hosts.try_node(Host::B, 7, 1).unwrap_err(),
        Error::NodeInitFailed
    );
    // There are more again, and others are answered.
    hosts.world.set_quota(100);
    let other = hosts.try_node(Host::B, 7, 4).unwrap();
    assert_eq!(get(&other, endpoint), endpoint);
}

/// MC-INIT-6: at the same time, not both; and afterwards one can.
#[test]
fn of_two_that_claim_at_the_same_time_one_wins() {
    let hosts = Hosts::with_config("domain 7 0 1");
    for _ in 0..10 {
        let both = thread::scope(|scope| {
            let claims = [Host::A, Host::B].map(|host| {
                let hosts = &hosts;
                scope.spawn(move || hosts.try_node(host, 7, 1))
            });
            claims.map(|claim| claim.join().unwrap())
        });
        assert_eq!(
            both.iter().filter(|claim| claim.is_ok()).count(),
            1,
            "{both:?}"
        );
    }
}

/// MC-EPGETI-1, MC-EPGETI-5, MC-EPGET-1: before the node, its endpoint, or the link is there.
#[test]
fn gets_wait_for_nodes_and_links() {
    for host in [Host::A, Host::B] {
        let hosts = Hosts::new();
        let early = hosts.node(Host::A, 1);
        let (domain, node, port) = (host as u32, 2, 17);
        let begun = Instant::now();
        for deadline in [Deadline::PAST, briefly()] {
            let none = early.endpoint_get(domain, node, port, deadline);
            assert_eq!(none, Err(Error::Timeout));
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        let pending = early.endpoint_get_i(domain, node, port).unwrap();
        assert_eq!(early.test(pending), Ok(None));
        if host == Host::B {
            hosts.world.set_up(0, false);
        }
        let late = hosts.node(host, 2);
        assert_eq!(early.wait(pending, briefly()), Err(Error::Timeout));
        let created = late.endpoint_create(Some(port)).unwrap();
        if host == Host::B {
            assert_eq!(early.wait(pending, briefly()), Err(Error::Timeout));
            hosts.world.set_up(0, true);
        }
        assert_eq!(
            early.wait(pending, soon()),
            Ok(Completion::Endpoint(created))
        );
        let now = early.endpoint_get(domain, node, port, Deadline::PAST);
        assert_eq!(now, Ok(created));
        assert_eq!(late.endpoint_attribute(created, Attribute::GetCount), Ok(2));
    }
}

/// MC-FINAL-2, MC-FINAL-3, MC-MSG-6: others see that a node has ended, and go on with the next
/// one of its number.
#[test]
fn a_node_that_ends_and_begins_again_starts_clean() {
    for host in [Host::A, Host::B] {
        let hosts = Hosts::new();
        let lasting = hosts.node(Host::A, 1);
        let own = lasting.endpoint_create(None).unwrap();
        for round in 0..3_u8 {
            let node = hosts.node(host, 2);
            let endpoint = node.endpoint_create(Some(4)).unwrap();
            assert_eq!(get(&lasting, endpoint), endpoint);
            let count = node.endpoint_attribute(endpoint, Attribute::GetCount);
            assert_eq!(count, Ok(1));
            assert_eq!(node.msg_available(endpoint), Ok(0));
            lasting.msg_send(own, endpoint, &[round], 1).unwrap();
            assert_eq!(receive(&node, endpoint), [round]);
            node.msg_send(endpoint, own, b"back", 1).unwrap();
            assert_eq!(receive(&lasting, own), b"back");
            lasting.msg_send(own, endpoint, b"lost", 1).unwrap();
            node.finalize().unwrap();
            assert_eq!(node.endpoint_create(None), Err(Error::NodeNotInit));
            // It is nobody's mistake that it is not there, unless it has just gone.
            let begun = Instant::now();
            let sent = lasting.msg_send(own, endpoint, b"too late", 1);
            assert!(
                matches!(sent, Ok(()) | Err(Error::Transmission)),
                "{sent:?}"
            );
            lasting.msg_send(own, endpoint, b"to nobody", 1).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(5));
            let asked = lasting.node_attribute(host as u32, 2, NodeAttributes::TYPE);
            assert_eq!(asked, Err(Error::NodeInvalid));
            let asked = lasting.endpoint_attribute(endpoint, Attribute::Type);
            assert_eq!(asked, Err(Error::EndpointInvalid));
        }
    }
}

/// Two nodes that ask for each other at the same time have one session, and lose nothing.
#[test]
fn nodes_that_seek_each_other_meet_once() {
    for host in [Host::A, Host::B] {
        for _ in 0..15 {
            let hosts = Hosts::new();
            let nodes = [hosts.node(Host::A, 1), hosts.node(host, 2)];
            let ends = nodes
                .each_ref()
                .map(|node| node.endpoint_create(Some(1)).unwrap());
            let start = Barrier::new(2);
            let free = || hosts.world.free(0, Host::B);
            let before = free();
            thread::scope(|scope| {
                let [one, other] = [0, 1].map(|own| {
                    let (nodes, ends, start) = (&nodes, &ends, &start);
                    scope.spawn(move || {
                        start.wait();
                        for n in 0..30 {
                            nodes[own]
                                .msg_send(ends[own], ends[1 - own], &[n], 2)
                                .unwrap();
                        }
                        for n in 0..30 {
                            assert_eq!(receive(&nodes[own], ends[own]), [n]);
                        }
                    })
                });
                one.join().unwrap();
                other.join().unwrap();
            });
            if host == Host::B {
                assert_eq!(before - free(), 0x1_0000, "one window at host B");
            }
        }
    }
}

/// MC-MSG-8, MC-NATTRGET-1, MC-NATTRGET-2: the link is lost, and comes again.
#[test]
fn a_lost_link_is_told_of_and_used_again() {
    let hosts = Hosts::new();
    let (a, b) = (hosts.node(Host::A, 1), hosts.node(Host::B, 2));
    let (own, other) = (
        a.endpoint_create(None).unwrap(),
        b.endpoint_create(Some(1)).unwrap(),
    );
    for round in 0..3_u8 {
        assert_eq!(a.node_attribute(1, 2, NodeAttributes::TYPE), Ok(0));
        a.msg_send(own, other, &[round], 1).unwrap();
        assert_eq!(receive(&b, other), [round]);
        // One that waits for room, and one that is sent when there is no link.
        let full: Vec<Request> = (0..60)
            .map(|_| a.msg_send_i(own, other, b"flood", 7).unwrap())
            .collect();
        assert_eq!(a.wait(full[59], briefly()), Err(Error::Timeout));
        hosts.world.set_up(0, false);
        assert_eq!(a.wait(full[59], soon()), Err(Error::Transmission));
        assert_eq!(a.msg_send(own, other, b"", 1), Err(Error::Transmission));
        assert_eq!(
            a.node_attribute(1, 2, NodeAttributes::TYPE),
            Err(Error::General)
        );
        for request in &full[..59] {
            a.cancel(*request).unwrap();
        }
        hosts.world.set_up(0, true);
        while b.msg_available(other).unwrap() > 0 {
            assert_eq!(receive(&b, other), b"flood");
        }
        assert_eq!(get(&a, other), other);
    }
}

/// MC-FINAL-1, MC-FINAL-4, MC-REQ-11: threads that wait return when the node ends.
#[test]
fn threads_that_wait_return_when_the_node_ends() {
    for early in [true, false] {
        let hosts = Hosts::new();
        let node = hosts.node(Host::A, 1);
        let own = node.endpoint_create(None).unwrap();
        let request = node.endpoint_get_i(1, 9, 9).unwrap();
        thread::scope(|scope| {
            let node = &node;
            let waits = [
                scope.spawn(move || node.wait(request, Deadline::NEVER).map(|_| ())),
                scope.spawn(move || node.msg_recv(own, &mut []).map(|_| ())),
                scope.spawn(move || node.endpoint_get(1, 8, 8, Deadline::NEVER).map(|_| ())),
            ];
            // They look, or they sleep.
            thread::sleep(Duration::from_millis(if early { 4 } else { 40 }));
            node.finalize().unwrap();
            let results = waits.map(|wait| wait.join().unwrap());
            let others = Err(Error::NodeNotInit);
            assert_eq!(results, [Err(Error::RequestCancelled), others, others]);
        });
        assert_eq!(node.finalize(), Err(Error::NodeNotInit));
        assert_eq!(node.test(request), Err(Error::NodeNotInit));
    }
}

/// MC-WAITANY-1 to MC-WAITANY-7, MC-WAIT-4 to MC-WAIT-6, MC-CANCEL-2, MC-REQ-3, MC-REQ-5, TS-7
#[test]
fn waits_are_for_one_of_many_and_end_by_cancel() {
    for (_hosts, a, b) in Hosts::pairs() {
        let (from, to) = (
            a.endpoint_create(None).unwrap(),
            b.endpoint_create(None).unwrap(),
        );
        let ends = [1, 2, 3].map(|port| b.endpoint_create(Some(port)).unwrap());
        let requests = ends.map(|end| b.msg_recv_i(end, 9).unwrap());
        for _ in 0..3 {
            assert_eq!(b.wait_any(&requests, briefly()), Err(Error::Timeout));
        }
        assert_eq!(b.wait_any(&[], soon()), Err(Error::Parameter));
        a.msg_send(from, ends[1], b"second", 1).unwrap();
        let (index, done) = b.wait_any(&requests, soon()).unwrap();
        let (data, is_truncated) = (Arc::new(b"second".to_vec()), false);
        assert_eq!(
            (index, done),
            (1, Ok(Completion::Message { data, is_truncated }))
        );
        assert_eq!(b.wait_any(&requests, soon()), Err(Error::RequestInvalid));
        let rest = [requests[0], requests[2]];
        let (begun, begins) = mpsc::channel();
        thread::scope(|scope| {
            let b = &b;
            let waits = scope.spawn(move || {
                begun.send(()).unwrap();
                loop {
                    // The other thread only looks.
                    match b.wait_any(&rest, Deadline::NEVER) {
                        Err(Error::WaitPending) => {}
                        other => break other,
                    }
                }
            });
            begins.recv().unwrap();
            while b.wait(rest[0], Deadline::PAST) != Err(Error::WaitPending) {}
            thread::sleep(Duration::from_millis(30));
            b.cancel(rest[1]).unwrap();
            assert_eq!(waits.join().unwrap(), Err(Error::RequestCancelled));
        });
        b.endpoint_delete(ends[0]).unwrap();
        assert_eq!(b.wait(rest[0], soon()), Err(Error::EndpointInvalid));
        assert_eq!(b.cancel(rest[0]), Err(Error::RequestInvalid));
        a.msg_send(from, to, b"still works", 0).unwrap();
        assert_eq!(receive(&b, to), b"still works");
    }
}

/// MC-MSG-6, MC-MSG-9: what had arrived for a port before it had an endpoint is not for that one.
/// Without a bridge between them, a message has arrived when its send is complete.
#[test]
fn an_endpoint_gets_nothing_that_came_before_it() {
    let world = World::new(1, 8 << 20);
    world.set_loopback(8 << 20);
    for host in [Host::A, Host::B] {
        let node = |host: Host, number| {
            let fabric = Fabric::with_device(world.open(host));
            let (topology, attributes) = (Topology::default(), NodeAttributes::default());
            Node::with_fabric(fabric, topology, host as u32, number, attributes).unwrap()
        };
        let (a, b) = (node(Host::A, 1), node(host, 2));
        let own = a.endpoint_create(None).unwrap();
        let first = b.endpoint_create(Some(7)).unwrap();
        a.msg_send(own, first, b"first", 3).unwrap();
        while b.msg_available(first).unwrap() == 0 {}
        for _ in 0..100 {
            b.endpoint_delete(first).unwrap();
            a.msg_send(own, first, b"too early", 3).unwrap();
            assert_eq!(b.endpoint_create(Some(7)), Ok(first));
            assert_eq!(b.msg_available(first), Ok(0));
        }
        assert_eq!(b.discarded(), Ok(101));
    }
}

/// What there is in the fabric: nodes of both hosts, their endpoints, and what is connected.
#[test]
fn nodes_and_endpoints_are_found() {
    let hosts = Hosts::new();
    let (a, b) = (hosts.node(Host::A, 1), hosts.node(Host::B, 2));
    let [one, two] = [&a, &b].map(|node| node.id().unwrap());
    let found = a.nodes().unwrap();
    assert_eq!(
        found,
        [(one, 0), (two, 1)].map(|(node, host)| FoundNode { node, host })
    );
    assert_eq!(a.endpoints(two), Ok(vec![]));
    let message = b.endpoint_create(Some(9)).unwrap();
    let last = b.endpoint_create(Some(0xfffe)).unwrap();
    let own = a.endpoint_create(None).unwrap();
    let connected = a.sclchan_connect_i(own, last).unwrap();
    a.wait(connected, soon()).unwrap();
    for (asker, node, expected) in [
        (&a, two, vec![(message, None), (last, Some(own))]),
        (&b, two, vec![(message, None), (last, Some(own))]),
        (&b, one, vec![(own, Some(last))]),
    ] {
        let found = asker.endpoints(node).unwrap();
        let told: Vec<_> = found.iter().map(|e| (e.endpoint, e.partner)).collect();
        assert_eq!(told, expected);
        for found in found {
            let is_scalar = found.kind == EndpointType::ScalarChannel;
            assert_eq!(is_scalar, found.partner.is_some());
            let is_connected = found.status & STATUS_CONNECTED != 0;
            assert_eq!(is_connected, found.partner.is_some());
        }
    }
    b.finalize().unwrap();
    assert_eq!(a.endpoints(two), Err(Error::NodeInvalid));
    assert_eq!(a.nodes().unwrap().len(), 1);
}

/// A host tells of a node of a domain that is not on it, as who lists knows: it is none.
#[test]
fn nodes_of_domains_that_are_elsewhere_are_not_listed() {
    let mut hosts = Hosts::new();
    let a = hosts.node(Host::A, 1);
    hosts.topology = Topology::parse("domain 5 1").unwrap();
    let other = hosts.try_node(Host::B, 5, 2).unwrap();
    let own = FoundNode {
        node: a.id().unwrap(),
        host: 0,
    };
    assert_eq!(a.nodes(), Ok(vec![own]));
    let there = FoundNode {
        node: other.id().unwrap(),
        host: 1,
    };
    assert_eq!(other.nodes(), Ok(vec![there]));
}

/// A device whose descriptor its process may close.
struct Closable {
    device: BridgeDevice,
    is_closed: Arc<AtomicBool>,
    /// What the descriptor is then: one that hangs up.
    hung_up: UnixStream,
}

impl Closable {
    /// That nobody closes has to be looked at before each use.
    fn check(&self) -> Result<(), Errno> {
        match self.is_closed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Errno::BADF),
        }
    }
}

impl Device for Closable {
    type Remote = <BridgeDevice as Device>::Remote;

    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        self.check()?;
        self.device.call(call)
    }

    fn map<P: Protection>(&self, offset: u64, len: u64, hint: usize) -> Result<Map<P>, Errno> {
        self.check()?;
        self.device.map(offset, len, hint)
    }

    fn remote(&self, map: Map) -> Self::Remote {
        self.device.remote(map)
    }

    fn read(&self, events: &mut Vec<mp_event>) -> Result<(), Errno> {
        self.check()?;
        self.device.read(events)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self.check() {
            Ok(()) => self.device.fd(),
            Err(_) => self.hung_up.as_fd(),
        }
    }
}

/// A node whose process closes the descriptor of its device keeps none of its threads waiting for ever:
/// not for messages, packets, scalars, rooms, endpoints or requests. What it begins later fails as well,
/// and it can be finalized.
#[test]
fn a_node_without_its_device_keeps_nobody_waiting() {
    for host in [Host::A, Host::B] {
        let hosts = Hosts::new();
        let is_closed = Arc::new(AtomicBool::new(false));
        let device = Closable {
            device: hosts.bridge.device(hosts.world.open(Host::A)),
            is_closed: Arc::clone(&is_closed),
            hung_up: UnixStream::pair().unwrap().0,
        };
        let (topology, attributes) = (Topology::default(), NodeAttributes::default());
        let fabric = Fabric::with_device(device);
        let node = Node::with_fabric(fabric, topology, 0, 1, attributes).unwrap();
        let other = hosts.node(host, 2);
        let there = other.endpoint_create(Some(9)).unwrap();
        let [own, free] = [1, 2].map(|port| node.endpoint_create(Some(port)).unwrap());
        let open = |sends: bool, is_scalar: bool| {
            let (near, far) = (node.endpoint_create(None), other.endpoint_create(None));
            let (near, far) = (near.unwrap(), far.unwrap());
            let (from, to) = if sends { (near, far) } else { (far, near) };
            let connected = match is_scalar {
                true => other.sclchan_connect_i(from, to).unwrap(),
                false => other.pktchan_connect_i(from, to).unwrap(),
            };
            other.wait(connected, soon()).unwrap();
            let [opens, opened] = match (sends, is_scalar) {
                (true, true) => [
                    node.sclchan_send_open_i(near),
                    other.sclchan_recv_open_i(far),
                ],
                (false, true) => [
                    node.sclchan_recv_open_i(near),
                    other.sclchan_send_open_i(far),
                ],
                (true, false) => [
                    node.pktchan_send_open_i(near),
                    other.pktchan_recv_open_i(far),
                ],
                (false, false) => [
                    node.pktchan_recv_open_i(near),
                    other.pktchan_send_open_i(far),
                ],
            };
            other.wait(opened.unwrap(), soon()).unwrap();
            match node.wait(opens.unwrap(), soon()) {
                Ok(Completion::Open(channel)) => channel,
                other => panic!("{other:?}"),
            }
        };
        let [in_packets, in_scalars] = [false, true].map(|is_scalar| open(false, is_scalar));
        let [out_packets, out_scalars] = [false, true].map(|is_scalar| open(true, is_scalar));
        let sends = (0..RECEIVE_BUFFERS).map(|_| node.msg_send(own, there, b"fills", 1));
        assert!(sends.into_iter().all(|sent| sent.is_ok()));
        let posted = node.msg_recv_i(free, 8).unwrap();
        let found = node.endpoint_get_i(0, 77, 1).unwrap();
        thread::scope(|scope| {
            let node = &node;
            let waits: [(_, thread::ScopedJoinHandle<'_, Result<(), Error>>); 8] = [
                (
                    Error::Transmission,
                    scope.spawn(move || node.msg_recv(own, &mut []).map(|_| ())),
                ),
                (
                    Error::Transmission,
                    scope.spawn(move || node.msg_send(own, there, b"more", 1)),
                ),
                (
                    Error::Transmission,
                    scope.spawn(move || node.wait(posted, Deadline::NEVER).map(|_| ())),
                ),
                (
                    Error::General,
                    scope.spawn(move || node.wait(found, Deadline::NEVER).map(|_| ())),
                ),
                (
                    Error::General,
                    scope.spawn(move || node.endpoint_get(0, 1, 99, Deadline::NEVER).map(|_| ())),
                ),
                (
                    Error::Transmission,
                    scope.spawn(move || node.pktchan_recv(in_packets).map(|_| ())),
                ),
                (
                    Error::General,
                    scope.spawn(move || node.sclchan_recv::<u8>(in_scalars).map(|_| ())),
                ),
                (
                    Error::Transmission,
                    scope.spawn(move || loop {
                        node.pktchan_send(out_packets, b"packet")?;
                    }),
                ),
            ];
            thread::sleep(Duration::from_millis(100));
            assert!(waits.iter().all(|(_, wait)| !wait.is_finished()));
            let begun = Instant::now();
            is_closed.store(true, Ordering::Release);
            for (error, wait) in waits {
                assert_eq!(wait.join().unwrap(), Err(error));
            }
            assert!(begun.elapsed() < Duration::from_secs(20));
        });
        assert_eq!(
            node.msg_send(own, there, b"later", 1),
            Err(Error::Transmission)
        );
        assert_eq!(node.msg_recv(own, &mut []), Err(Error::Transmission));
        assert_eq!(node.sclchan_send(out_scalars, 1_u8), Err(Error::General));
        let asked = node.node_attribute(host as u32, 2, NodeAttributes::TYPE);
        assert_eq!(asked, Err(Error::General));
        let got = node.endpoint_get(0, 1, 99, Deadline::NEVER);
        assert_eq!(got, Err(Error::General));
        assert_eq!(node.finalize(), Ok(()));
    }
}

/// MC-CANCEL-1, MC-REQ-1: what a call waits for is no request of the program. Another thread that has
/// guessed its number can neither cancel it nor wait for it, and the call gets its message.
#[test]
fn what_a_call_waits_for_cannot_be_cancelled() {
    for (_hosts, a, b) in Hosts::pairs() {
        let [from, to] = [&a, &b].map(|node| node.endpoint_create(Some(1)).unwrap());
        b.set_endpoint_attribute(to, Attribute::Timeout, 10_000)
            .unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| receive(&b, to));
            // While the call looks, and after it has fallen asleep.
            for pause in [5, 60] {
                thread::sleep(Duration::from_millis(pause));
                for index in 0..2048 {
                    let guess = Request::from_raw((1 << 20) | index);
                    assert_eq!(b.test(guess), Err(Error::RequestInvalid));
                    assert_eq!(b.wait(guess, Deadline::PAST), Err(Error::RequestInvalid));
                    assert_eq!(b.cancel(guess), Err(Error::RequestInvalid));
                }
            }
            assert!(!waits.is_finished());
            a.msg_send(from, to, b"still there", 1).unwrap();
            assert_eq!(waits.join().unwrap(), b"still there");
        });
    }
}
