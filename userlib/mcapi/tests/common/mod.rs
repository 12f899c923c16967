// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes on two hosts in one process. Between the hosts, and between processes of one, is a model
//! of a bridge: what they store in each other's memory leaves in pieces and arrives late.

#![allow(dead_code)] // each test file uses a part

pub mod ends;

use mcapi::{Deadline, Endpoint, Error, Fabric, Node, NodeAttributes, Topology};
use mp_testing::{Bridge, BridgeDevice, Host, World};
use std::time::Duration;

/// The device that everything is on.
pub type TestNode = Node<BridgeDevice>;

/// Long enough for everything that comes.
pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

/// Long enough to see that nothing comes.
pub fn briefly() -> Deadline {
    Deadline::after(Duration::from_millis(60))
}

/// Two hosts: A is domain 0, and B domain 1.
pub struct Hosts {
    pub world: World,
    pub bridge: Bridge,
    pub topology: Topology,
}

impl Hosts {
    pub fn new() -> Self {
        let world = World::new(1, 8 << 20);
        world.set_loopback(8 << 20);
        Hosts {
            world,
            bridge: Bridge::new(7),
            topology: Topology::default(),
        }
    }

    pub fn with_config(text: &str) -> Self {
        Hosts {
            topology: Topology::parse(text).unwrap(),
            ..Hosts::new()
        }
    }

    pub fn fabric(&self, host: Host) -> Fabric<BridgeDevice> {
        Fabric::with_device(self.bridge.device(self.world.open(host)))
    }

    /// A process that wants to be a node.
    pub fn try_node(&self, host: Host, domain: u32, node: u32) -> Result<TestNode, Error> {
        let (fabric, topology) = (self.fabric(host), self.topology.clone());
        Node::with_fabric(fabric, topology, domain, node, NodeAttributes::default())
    }

    /// A node of the host's domain.
    pub fn node(&self, host: Host, node: u32) -> TestNode {
        self.try_node(host, host as u32, node).unwrap()
    }

    /// Two nodes: both on host A, or on both hosts.
    pub fn pairs() -> Vec<(Hosts, TestNode, TestNode)> {
        let pair = |host| {
            let hosts = Hosts::new();
            let (a, b) = (hosts.node(Host::A, 1), hosts.node(host, 2));
            (hosts, a, b)
        };
        [Host::A, Host::B].map(pair).into()
    }
}

/// An endpoint of another node.
pub fn get(node: &TestNode, endpoint: Endpoint) -> Endpoint {
    let (id, port) = (endpoint.node(), endpoint.port().into());
    node.endpoint_get(id.domain(), id.node(), port, soon())
        .unwrap()
}

/// Receive a message, as bytes.
pub fn receive(node: &TestNode, endpoint: Endpoint) -> Vec<u8> {
    let mut room = vec![0; mcapi::MESSAGE_MAX];
    let received = node.msg_recv(endpoint, &mut room).unwrap();
    assert!(!received.is_truncated);
    room.truncate(received.size);
    room
}
