// SPDX-License-Identifier: MIT OR Apache-2.0

//! Channels between two nodes of a test.

#![allow(dead_code)] // each test file uses a part

use super::{soon, TestNode};
use mcapi::{Attribute, Channel, Completion, Endpoint, Packet, Request, Result};
use std::{
    thread,
    time::{Duration, Instant},
};

/// Two nodes, each with an end of an open channel.
pub struct Ends<'a> {
    pub a: &'a TestNode,
    pub b: &'a TestNode,
    pub from: Endpoint,
    pub to: Endpoint,
    pub send: Channel,
    pub receive: Channel,
}

pub fn open(node: &TestNode, request: Result<Request>) -> Channel {
    match node.wait(request.unwrap(), soon()) {
        Ok(Completion::Open(channel)) => channel,
        other => panic!("{other:?}"),
    }
}

/// A node, its endpoint, and the request to open its end.
pub type End<'a> = (&'a TestNode, Endpoint, Result<Request>);

/// Both ends of a channel, once they are open.
pub fn opened<'a>((a, from, sends): End<'a>, (b, to, receives): End<'a>) -> Ends<'a> {
    Ends {
        a,
        b,
        from,
        to,
        send: open(a, sends),
        receive: open(b, receives),
    }
}

/// Make endpoints with these attributes.
pub fn endpoints(a: &TestNode, b: &TestNode, attributes: &[(Attribute, u64)]) -> [Endpoint; 2] {
    [a, b].map(|node| {
        let endpoint = node.endpoint_create(None).unwrap();
        for (attribute, value) in attributes {
            node.set_endpoint_attribute(endpoint, *attribute, *value)
                .unwrap();
        }
        endpoint
    })
}

pub fn packets<'a>(a: &'a TestNode, b: &'a TestNode, attributes: &[(Attribute, u64)]) -> Ends<'a> {
    let [from, to] = endpoints(a, b, attributes);
    let connected = a.pktchan_connect_i(from, to).unwrap();
    assert_eq!(a.wait(connected, soon()), Ok(Completion::Connected));
    let (sends, receives) = (a.pktchan_send_open_i(from), b.pktchan_recv_open_i(to));
    opened((a, from, sends), (b, to, receives))
}

pub fn scalars<'a>(a: &'a TestNode, b: &'a TestNode, attributes: &[(Attribute, u64)]) -> Ends<'a> {
    let [from, to] = endpoints(a, b, attributes);
    let connected = b.sclchan_connect_i(from, to).unwrap();
    assert_eq!(b.wait(connected, soon()), Ok(Completion::Connected));
    let (sends, receives) = (a.sclchan_send_open_i(from), b.sclchan_recv_open_i(to));
    opened((a, from, sends), (b, to, receives))
}

pub fn bytes(packet: &Packet) -> Vec<u8> {
    let mut bytes = vec![0; packet.len()];
    assert_eq!(packet.read(&mut bytes), packet.len());
    bytes
}

/// Receive a packet and release it.
pub fn take(node: &TestNode, channel: Channel) -> Result<Vec<u8>> {
    let packet = node.pktchan_recv(channel)?;
    let data = bytes(&packet);
    node.pktchan_release(packet.address()).unwrap();
    Ok(data)
}

/// Close both ends of a packet channel.
pub fn close(ends: &Ends<'_>) {
    let first = ends.a.pktchan_send_close_i(ends.send).unwrap();
    let second = ends.b.pktchan_recv_close_i(ends.receive).unwrap();
    assert_eq!(ends.a.wait(first, soon()), Ok(Completion::Closed));
    assert_eq!(ends.b.wait(second, soon()), Ok(Completion::Closed));
}

/// Call until the answer is the one that is waited for.
pub fn until(is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::yield_now();
    }
}
