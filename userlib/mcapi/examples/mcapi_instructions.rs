// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sends data between two nodes in one thread, for a program that counts instructions.
//!
//! `mcapi_instructions KIND SIZE COUNT`: so many of `message`, `packet` or `scalar` from one node to
//! the other one, which receives each before the next is sent; packets are released. Over the library's
//! fake device. What is counted is `operations()`; what one takes is the difference of two counts,
//! divided by the difference of their numbers: `tests/test_instructions.py`.

use mcapi::{
    Channel, Completion, Deadline, Endpoint, Fabric, Node, NodeAttributes, Request, Topology,
};
use mp_testing::{FakeDevice, Host, World};
use std::{env, error, hint::black_box, time::Duration};

type Outcome<T> = Result<T, Box<dyn error::Error>>;
type TestNode = Node<FakeDevice>;

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Packet,
    Scalar,
}

/// A node, and what it sends or receives with.
struct Side {
    node: TestNode,
    endpoint: Endpoint,
    channel: Channel,
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// A node of the host's domain, with an endpoint.
fn side(world: &World, host: Host) -> Outcome<Side> {
    let fabric = Fabric::with_device(world.open(host));
    let (topology, attributes) = (Topology::default(), NodeAttributes::default());
    let node = Node::with_fabric(fabric, topology, host as u32, 1, attributes)?;
    let endpoint = node.endpoint_create(Some(1))?;
    Ok(Side {
        node,
        endpoint,
        channel: Channel::from_raw(0),
    })
}

fn opened(node: &TestNode, request: Request) -> Outcome<Channel> {
    match node.wait(request, soon())? {
        Completion::Open(channel) => Ok(channel),
        other => Err(format!("it is not open but {other:?}").into()),
    }
}

/// Open a channel from one side to the other one.
fn open(kind: Kind, a: &mut Side, b: &mut Side) -> Outcome<()> {
    let (from, to) = (a.endpoint, b.endpoint);
    let connected = match kind {
        Kind::Message => return Ok(()),
        Kind::Packet => a.node.pktchan_connect_i(from, to)?,
        Kind::Scalar => a.node.sclchan_connect_i(from, to)?,
    };
    a.node.wait(connected, soon())?;
    let [sends, receives] = match kind {
        Kind::Scalar => [
            a.node.sclchan_send_open_i(from)?,
            b.node.sclchan_recv_open_i(to)?,
        ],
        _ => [
            a.node.pktchan_send_open_i(from)?,
            b.node.pktchan_recv_open_i(to)?,
        ],
    };
    a.channel = opened(&a.node, sends)?;
    b.channel = opened(&b.node, receives)?;
    Ok(())
}

/// Send once, and receive.
fn operation(kind: Kind, a: &Side, b: &Side, data: &[u8], room: &mut [u8]) -> Outcome<()> {
    match kind {
        Kind::Message => {
            // Both sides look in turn: a long message needs both.
            let sent = a.node.msg_send_i(a.endpoint, b.endpoint, data, 1)?;
            while b.node.msg_available(b.endpoint)? == 0 {
                a.node.test(sent)?;
            }
            a.node.wait(sent, soon())?;
            black_box(b.node.msg_recv(b.endpoint, room)?);
        }
        Kind::Packet => {
            a.node.pktchan_send(a.channel, data)?;
            let packet = b.node.pktchan_recv(b.channel)?;
            b.node.pktchan_release(packet.address())?;
        }
        Kind::Scalar => {
            a.node.sclchan_send(a.channel, 7_u64)?;
            black_box(b.node.sclchan_recv::<u64>(b.channel)?);
        }
    }
    Ok(())
}

/// Wait until the nodes have found each other. Their threads do that: one that looked again and
/// again instead would leave them no turn where threads run one at a time, as they do in valgrind.
fn find(a: &Side, b: &Side) -> Outcome<()> {
    let id = b.node.id()?;
    let port = b.endpoint.port().into();
    let found = a.node.endpoint_get(id.domain(), id.node(), port, soon())?;
    match found == b.endpoint {
        true => Ok(()),
        false => Err("it is another endpoint".into()),
    }
}

/// What is counted.
#[inline(never)]
fn operations(
    kind: Kind,
    [a, b]: [&Side; 2],
    data: &[u8],
    room: &mut [u8],
    count: usize,
) -> Outcome<()> {
    for _ in 0..count {
        operation(kind, a, b, data, room)?;
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("KIND, SIZE and COUNT are missing");
    let kind = match next()?.as_str() {
        "message" => Kind::Message,
        "packet" => Kind::Packet,
        "scalar" => Kind::Scalar,
        _ => return Err("it is neither message, packet nor scalar".into()),
    };
    let (size, count): (usize, usize) = (next()?.parse()?, next()?.parse()?);
    let world = World::new(1, 1 << 24);
    world.set_loopback(1 << 24);
    let (mut a, mut b) = (side(&world, Host::A)?, side(&world, Host::B)?);
    open(kind, &mut a, &mut b)?;
    let (data, mut room) = (vec![7; size], vec![0; size]);
    find(&a, &b)?;
    // What the first operation takes is not counted.
    operation(kind, &a, &b, &data, &mut room)?;
    operations(kind, [&a, &b], &data, &mut room, count)
}
