// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processes that ask for sessions as nodes do, and are none: they cost nobody else anything.

mod common;

use common::{get, receive, soon, Hosts};
use mcapi::{Attribute, Deadline, Endpoint, Error, NodeId};
use mp_fabric::{vm_memory::Bytes, EventMask, Fabric, InterfaceId, PartnerState, Session};
use mp_queue_pair::{open, provider::shape, Head, Outgoing, Receiving, Sending};
use mp_testing::{BridgeDevice, Host, LOOPBACK};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const PROTOCOL: u32 = 0x4d43_4150;

fn interface(hosts: &Hosts, from: Host) -> InterfaceId {
    match from {
        Host::A => InterfaceId(LOOPBACK),
        Host::B => InterfaceId(hosts.world.interface(0, Host::B)),
    }
}

/// What is said by a node that asks, with a nonce.
fn demand(domain: u32, node: u32, nonce: &[u8; 8]) -> Vec<u8> {
    let number = domain << 15 | node;
    [&[1, 0, 1, 0], &number.to_le_bytes()[..], nonce].concat()
}

/// Ask a node of host A for a session, from a host; the session when it has been answered.
fn ask(
    hosts: &Hosts,
    fabric: &Fabric<BridgeDevice>,
    from: Host,
    node: u32,
    data: &[u8],
) -> Session<BridgeDevice> {
    let name = [&b"mcapi\x03"[..], &node.to_le_bytes()].concat();
    let interface = interface(hosts, from);
    let client = fabric.client(interface, PROTOCOL).name(&name).data(data);
    let client = client.local(0x4000..=0x1_0000).remote(0x4000..=0x1_0000);
    let session = client.pending().open().unwrap();
    let answers = EventMask::PAIRED | EventMask::REFUSED;
    session.wait(answers, soon()).unwrap();
    session
}

/// Numbers that are none, that are the node's own, that are another host's, and that nobody has
/// claimed; what is no demand at all.
#[test]
fn who_cannot_be_a_node_is_rejected() {
    let hosts = Hosts::new();
    let node = hosts.node(Host::A, 1);
    let fabric = hosts.fabric(Host::B);
    let of = |domain: u32, node: u32| demand(domain, node, &[0; 8]);
    for data in [
        vec![],
        vec![1],
        of(0, 1),
        of(0, 2),
        of(7, 0),
        of(1, 5),
        vec![0xff; 16],
        vec![0; 17],
    ] {
        let session = ask(&hosts, &fabric, Host::B, 1, &data);
        let partner = session.partner().unwrap();
        assert_eq!(partner.state, PartnerState::Rejected(1), "{data:?}");
    }
    let other = hosts.node(Host::B, 1);
    let endpoint = node.endpoint_create(Some(1)).unwrap();
    assert_eq!(get(&other, endpoint), endpoint);
}

/// A process that asks in the name of a node of its host does not get its link, and the node keeps
/// it.
#[test]
fn who_is_another_node_is_rejected() {
    for from in [Host::A, Host::B] {
        let hosts = Hosts::new();
        let (node, other) = (hosts.node(Host::A, 1), hosts.node(from, 2));
        let endpoint = node.endpoint_create(Some(1)).unwrap();
        assert_eq!(get(&other, endpoint), endpoint);
        let full = other.msg_send_i(other.endpoint_create(None).unwrap(), endpoint, b"", 3);
        assert!(full.is_ok());
        let fabric = hosts.fabric(from);
        for nonce in [[0; 8], [7; 8]] {
            let data = demand(from as u32, 2, &nonce);
            let session = ask(&hosts, &fabric, from, 1, &data);
            let partner = session.partner().unwrap();
            assert_eq!(partner.state, PartnerState::Rejected(1));
        }
        assert_eq!(
            node.endpoint_attribute(endpoint, Attribute::GetCount),
            Ok(1)
        );
    }
}

/// A process of host B that is node <1,9> as far as node <0,1> can see, and does nothing else.
struct Idler {
    _pair: (Sending<BridgeDevice>, Receiving<BridgeDevice>),
    _claim: Session<BridgeDevice>,
}

impl Idler {
    /// Say that it is ready, with these features.
    fn new(hosts: &Hosts, features: u8) -> Self {
        let fabric = hosts.fabric(Host::B);
        let claim = fabric
            .server(interface(hosts, Host::B), PROTOCOL)
            .uid(0x8000_8009);
        let claim = claim.data(b"whatever").bare().hold().open().unwrap();
        let session = ask(hosts, &fabric, Host::B, 1, &demand(1, 9, b"whatever"));
        let size = session.state().unwrap().local.unwrap().size;
        let (mut sending, receiving) = open(session, &shape(size, 2), soon()).unwrap();
        let head = Head {
            kind: 1,
            ..Head::default()
        };
        let ready = [1, 0, 0, 0, features, 0, 0, 0, 0, 0, 0, 0];
        let mut ready = Outgoing::new(head, &ready, &[]);
        assert!(sending.put(&mut ready).unwrap().is_some());
        sending.publish().unwrap();
        Idler {
            _pair: (sending, receiving),
            _claim: claim,
        }
    }
}

/// A node that says that it is ready and then takes nothing keeps nobody waiting for ever: a send whose
/// message has started ends with the session.
#[test]
fn a_node_that_takes_nothing_keeps_nobody() {
    let hosts = Hosts::new();
    let node = hosts.node(Host::A, 1);
    let own = node.endpoint_create(None).unwrap();
    node.set_endpoint_attribute(own, Attribute::Timeout, 50)
        .unwrap();
    let _idler = Idler::new(&hosts, 0);
    let to = Endpoint::new(NodeId::new(1, 9).unwrap(), 1).unwrap();
    let begun = Instant::now();
    let sent = node.msg_send(own, to, &[7; 65536], 3);
    assert_eq!(sent, Err(Error::Transmission));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// MC-PKTCONN-5: a connect with an endpoint of a node that never answers is given up, and the own
/// endpoint is free again.
#[test]
fn a_node_that_answers_no_connect_keeps_no_endpoint() {
    let hosts = Hosts::new();
    let node = hosts.node(Host::A, 1);
    let own = node.endpoint_create(None).unwrap();
    let _idler = Idler::new(&hosts, 1);
    let there = Endpoint::new(NodeId::new(1, 9).unwrap(), 1).unwrap();
    let request = node.pktchan_connect_i(own, there).unwrap();
    assert_eq!(node.endpoint_delete(own), Err(Error::ChannelConnected));
    assert_eq!(node.wait(request, soon()), Err(Error::General));
    assert_eq!(node.endpoint_delete(own), Ok(()));
}

/// A process that has a node's name and answers nobody keeps nobody waiting for ever.
#[test]
fn a_node_that_answers_no_request_is_given_up() {
    let hosts = Hosts::new();
    let fabric = hosts.fabric(Host::B);
    let name = [&b"mcapi\x03"[..], &0x8009_u32.to_le_bytes()].concat();
    let server = fabric.server(interface(&hosts, Host::B), PROTOCOL);
    let server = server.name(&name).hold();
    let server = server.local(0x4000..=0x4000).remote(0x4000..=0x4000);
    let _server = server.open().unwrap();
    let node = hosts.node(Host::A, 1);
    let own = node.endpoint_create(None).unwrap();
    let to = Endpoint::new(NodeId::new(1, 9).unwrap(), 1).unwrap();
    let sent = node.msg_send_i(own, to, b"", 3).unwrap();
    assert_eq!(node.wait(sent, soon()), Err(Error::Transmission));
}

/// Processes that ask again and again keep a node from nothing: it finds others, and is found.
#[test]
fn who_asks_without_end_keeps_nobody() {
    let hosts = Hosts::new();
    let (node, neighbour) = (hosts.node(Host::A, 1), hosts.node(Host::A, 2));
    let endpoint = node.endpoint_create(Some(1)).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let fabric = hosts.fabric(Host::B);
                let name = [&b"mcapi\x03"[..], &1_u32.to_le_bytes()].concat();
                while !over.load(Ordering::Relaxed) {
                    let client = fabric.client(interface(&hosts, Host::B), PROTOCOL);
                    let client = client.name(&name).data(b"none").pending();
                    let asked = client.local(0x4000..=0x4000).remote(0x4000..=0x4000).open();
                    if let Ok(session) = asked {
                        let _ = session.wait(EventMask::REFUSED, soon());
                    }
                }
            });
        }
        let late = hosts.node(Host::A, 3);
        let found = [&neighbour, &late].map(|other| other.endpoint_get(0, 1, 1, soon()));
        let own = late.endpoint_create(Some(1)).unwrap();
        let finds = node.endpoint_get(0, 3, 1, soon());
        over.store(true, Ordering::Relaxed);
        assert_eq!((found, finds), ([Ok(endpoint); 2], Ok(own)));
    });
}

/// A process that has a node's name and rejects everybody is not asked again at once, and not for
/// ever.
#[test]
fn a_node_that_rejects_is_asked_seldom() {
    let hosts = Hosts::new();
    let fabric = hosts.fabric(Host::B);
    let (name, size) = (
        [&b"mcapi\x03"[..], &0x8009_u32.to_le_bytes()].concat(),
        0x4000,
    );
    let server = fabric
        .server(interface(&hosts, Host::B), PROTOCOL)
        .name(&name);
    let server = server.hold().local(size..=size).remote(size..=size);
    let server = server.open().unwrap();
    let node = hosts.node(Host::A, 1);
    let own = node.endpoint_create(None).unwrap();
    let to = Endpoint::new(NodeId::new(1, 9).unwrap(), 1).unwrap();
    let sent = node.msg_send_i(own, to, b"", 3).unwrap();
    let begun = Instant::now();
    let mut rejected = 0;
    while node.test(sent) == Ok(None) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        if let Ok(partner) = server.partner() {
            if let PartnerState::Request(request) = partner.state {
                server.reject(request, 7, &[]).unwrap();
                rejected += 1;
            }
        }
    }
    assert_eq!(node.test(sent), Err(Error::Transmission));
    assert!((2..20).contains(&rejected), "{rejected}");
    assert!(begun.elapsed() > Duration::from_secs(1));
}

/// Partners that never announce their end of the pair, or fill the window with anything, or go
/// without a word: other nodes notice nothing, and a node of that number is served afterwards.
#[test]
fn a_partner_that_lies_costs_nobody_else_anything() {
    for from in [Host::A, Host::B] {
        let hosts = Hosts::new();
        let (node, honest) = (hosts.node(Host::A, 1), hosts.node(Host::B, 2));
        let endpoint = node.endpoint_create(Some(1)).unwrap();
        let own = honest.endpoint_create(Some(1)).unwrap();
        let mut seed = 12345_u64;
        let liar = demand(from as u32, 9, b"whatever");
        for round in 0..12 {
            let fabric = hosts.fabric(from);
            let claim = fabric.server(interface(&hosts, from), PROTOCOL);
            let claim = claim.uid(0x8000_0009 | (from as u32) << 15);
            let claim = claim.data(b"whatever").bare().hold().open().unwrap();
            let session = ask(&hosts, &fabric, from, 1, &liar);
            assert_eq!(session.partner().unwrap().state, PartnerState::Paired);
            let window = session.map_remote().unwrap().unwrap();
            let mut garbage = vec![0_u8; window.len()];
            for byte in garbage.iter_mut().filter(|_| round % 3 != 0) {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (seed >> 56) as u8;
            }
            // Behind what looks like an announcement, or with it.
            let start = if round % 3 == 1 { 0 } else { 64 };
            window
                .volatile()
                .write_slice(&garbage[start..], start)
                .unwrap();
            // The link may have ended by now.
            let _ = session.signal();
            let begun = Instant::now();
            honest.msg_send(own, endpoint, &[round], 3).unwrap();
            assert_eq!(receive(&node, endpoint), [round]);
            assert!(begun.elapsed() < Duration::from_secs(10));
            drop(claim);
        }
        let real = hosts.node(from, 9);
        assert_eq!(get(&real, endpoint), endpoint);
        let none = node.endpoint_get(from as u32, 9, 5, Deadline::PAST);
        assert_eq!(none, Err(Error::Timeout));
    }
}
