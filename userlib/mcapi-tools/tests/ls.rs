// SPDX-License-Identifier: MIT OR Apache-2.0

//! What `mcapi_ls` prints of nodes on two hosts.

use clap::Parser;
use mcapi::{Completion, Deadline, Device, Fabric, Node, NodeAttributes, Topology};
use mcapi_tools::{ls::Options, Tool};
use mp_testing::{Host, World};
use serde_json::{json, Value};
use std::time::Duration;

/// A node of the host's own domain.
fn node(world: &World, host: Host, number: u32) -> Node<impl Device> {
    let fabric = Fabric::with_device(world.open(host));
    let attributes = NodeAttributes::default();
    Node::with_fabric(fabric, Topology::default(), host as u32, number, attributes).unwrap()
}

fn printed(world: &World, words: &[&str]) -> String {
    let options = Options::parse_from(["mcapi_ls"].iter().chain(words));
    let fabric = Fabric::with_device(world.open(Host::A));
    let mut out = Vec::new();
    options.run(fabric, Topology::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn nodes_endpoints_and_channels_are_listed() {
    let world = World::new(1, 8 << 20);
    world.set_loopback(8 << 20);
    let (a, b) = (node(&world, Host::A, 1), node(&world, Host::B, 2));
    let to = b.endpoint_create(Some(7)).unwrap();
    b.endpoint_create(Some(5)).unwrap();
    assert_eq!(
        printed(&world, &[]),
        "domain    node        host    port  type      channel\n\
         \x20    0       1         0x0       -  -\n\
         \x20    1       2         0x1       5  message\n\
         \x20    1       2         0x1       7  message\n"
    );
    let from = a.endpoint_create(Some(3)).unwrap();
    let connected = a.pktchan_connect_i(from, to).unwrap();
    let soon = Deadline::after(Duration::from_secs(20));
    assert_eq!(a.wait(connected, soon), Ok(Completion::Connected));
    a.pktchan_send_open_i(from).unwrap();
    assert_eq!(
        printed(&world, &["--domain", "0"]),
        "domain    node        host    port  type      channel\n\
         \x20    0       1         0x0       3  packet    to <1,2,7> opening\n"
    );
    let lines = printed(&world, &["--json", "--node", "9"]);
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let end = json!({
        "port": 7, "type": "packet", "state": ["connected", "receive"], "partner": [0, 1, 3]
    });
    assert_eq!(lines[1]["endpoints"][1], end);
    let of = |line: &Value| [&line["domain"], &line["node"], &line["host"]].map(Value::as_u64);
    let numbers: Vec<_> = lines.iter().map(of).collect();
    assert_eq!(numbers, [[0, 1, 0], [1, 2, 1]].map(|line| line.map(Some)));
}
