// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processes that ask for sessions as nodes do, and are none: they cost nobody else anything.

mod common;

use common::{get, receive, soon, Hosts};
use mcapi::{Deadline, Error};
use mp_fabric::{vm_memory::Bytes, EventMask, Fabric, InterfaceId, PartnerState, Session};
use mp_testing::{BridgeDevice, Host, LOOPBACK};
use std::time::{Duration, Instant};

const PROTOCOL: u32 = 0x4d43_4150;

/// Ask a node of host A for a session, from a host; the session when it has been answered.
fn ask(
    hosts: &Hosts,
    fabric: &Fabric<BridgeDevice>,
    from: Host,
    node: u32,
    data: &[u8],
) -> Session<BridgeDevice> {
    let name = [&b"mcapi\x03"[..], &node.to_le_bytes()].concat();
    let interface = match from {
        Host::A => InterfaceId(LOOPBACK),
        Host::B => InterfaceId(hosts.world.interface(0, Host::B)),
    };
    let client = fabric.client(interface, PROTOCOL).name(&name).data(data);
    let client = client.local(0x4000..=0x1_0000).remote(0x4000..=0x1_0000);
    let session = client.pending().open().unwrap();
    let answers = EventMask::PAIRED | EventMask::REFUSED;
    session.wait(answers, soon()).unwrap();
    session
}

/// Number that are none, that are the node's own, and that are another host's.
#[test]
fn who_cannot_be_a_node_is_rejected() {
    let hosts = Hosts::new();
    let node = hosts.node(Host::A, 1);
    let fabric = hosts.fabric(Host::B);
    let of = |domain: u32, node: u32| (domain << 15 | node).to_le_bytes().to_vec();
    for data in [
        vec![],
        vec![1],
        of(0, 1),
        of(0, 2),
        of(7, 0),
        vec![0xff; 4],
        vec![0; 9],
    ] {
        let session = ask(&hosts, &fabric, Host::B, 1, &data);
        let partner = session.partner().unwrap();
        assert_eq!(partner.state, PartnerState::Rejected(1), "{data:?}");
    }
    let other = hosts.node(Host::B, 1);
    let endpoint = node.endpoint_create(Some(1)).unwrap();
    assert_eq!(get(&other, endpoint), endpoint);
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
        let liar = ((from as u32) << 15 | 9).to_le_bytes();
        for round in 0..12 {
            let fabric = hosts.fabric(from);
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
        }
        let real = hosts.node(from, 9);
        assert_eq!(get(&real, endpoint), endpoint);
        let none = node.endpoint_get(from as u32, 9, 5, Deadline::PAST);
        assert_eq!(none, Err(Error::Timeout));
    }
}
