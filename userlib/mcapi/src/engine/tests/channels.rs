// SPDX-License-Identifier: MIT OR Apache-2.0

//! Channels between engines: who connects, opens and closes what. The ways for data are made as soon
//! as both ends want them.

use super::*;
use crate::{
    channel::{Channel, Direction, Kind},
    connection::Role,
    engine::channels::AGE_MAX,
};

pub(super) const KINDS: [Kind; 2] = [Kind::Packets, Kind::Scalars];

fn roles(kind: Kind) -> [Role; 2] {
    [Direction::Send, Direction::Receive].map(|direction| Role { kind, direction })
}

impl<W: Medium> Net<W> {
    /// Until nothing moves and no way for data is to be made. What is said of data is dropped, and
    /// nothing ever waits to be sent.
    fn run_channels(&mut self) {
        let mut posted = Vec::new();
        loop {
            self.run();
            let mut is_quiet = true;
            for node in 0..self.nodes.len() {
                for news in self.nodes[node].news() {
                    is_quiet = false;
                    match news {
                        News::Post { port, id, .. } => {
                            posted.push((node, port, id));
                            self.nodes[node].posted(port, id);
                        }
                        News::Ask { port, id, .. } => {
                            let at = posted.iter().position(|(.., other)| *other == id);
                            let (other, there, _) = posted[at.unwrap()];
                            self.nodes[node].ready(port, id);
                            self.nodes[other].ready(there, id);
                        }
                        News::ClosedHere { port } => self.nodes[node].drained(port),
                        _ => {}
                    }
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn connect_by(
        &mut self,
        by: usize,
        kind: Kind,
        send: Endpoint,
        receive: Endpoint,
    ) -> Option<Result<()>> {
        match self.nodes[by].connect(kind, send, receive) {
            Ok(request) => {
                self.run_channels();
                self.result(by, request)
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn open(&mut self, endpoint: Endpoint, role: Role) -> Result<Request> {
        self.nodes[endpoint.node().node() as usize].open(endpoint, role)
    }

    fn opened(&mut self, endpoint: Endpoint, request: Request) -> Option<Channel> {
        match self.done(endpoint.node().node() as usize, request)? {
            Ok(Completion::Open(channel)) => Some(channel),
            other => panic!("{other:?}"),
        }
    }

    /// Connect two endpoints, and open both ends.
    fn channel(&mut self, kind: Kind, send: Endpoint, receive: Endpoint) -> [Channel; 2] {
        assert_eq!(self.connect_by(0, kind, send, receive), Some(Ok(())));
        let [sends, receives] = roles(kind);
        let requests = [(send, sends), (receive, receives)]
            .map(|(endpoint, role)| (endpoint, self.open(endpoint, role).unwrap()));
        self.run_channels();
        requests.map(|(endpoint, request)| self.opened(endpoint, request).unwrap())
    }

    fn attributes(&mut self, of: Endpoint) -> [u64; 3] {
        let all = [Attribute::Type, Attribute::GetCount, Attribute::Status];
        all.map(|attribute| self.ask(0, of, attribute).unwrap())
    }
}

/// Places of sender and receiver among three nodes.
const PLACES: [(usize, usize); 6] = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1)];

/// MC-PKTCONN-1, MC-PKTCONN-8, MC-CHAN-8, MC-PKTRCLOSE-1, MC-PKTRCLOSE-3, MC-SCLCONN-1: by any node,
/// wherever the ends are.
#[test]
fn anybody_connects_anything() {
    for (kind, (sender, receiver)) in KINDS.into_iter().flat_map(|kind| PLACES.map(|p| (kind, p))) {
        for by in 0..3 {
            let mut net = Net::new(3);
            let (send, receive) = (net.endpoint(sender, 1), net.endpoint(receiver, 2));
            assert_eq!(net.connect_by(by, kind, send, receive), Some(Ok(())));
            let (number, flag) = match kind {
                Kind::Packets => (2, 0x11),
                Kind::Scalars => (4, 0x21),
            };
            assert_eq!(net.attributes(send), [number, 1, flag | 0x40]);
            assert_eq!(net.attributes(receive), [number, 1, flag | 0x80]);
            let [sends, receives] = roles(kind);
            let first = net.open(send, sends).unwrap();
            net.run_channels();
            assert_eq!(net.opened(send, first), None);
            assert_eq!(net.attributes(send)[2], flag | 0x44);
            let second = net.open(receive, receives).unwrap();
            net.run_channels();
            let ends = [
                net.opened(send, first).unwrap(),
                net.opened(receive, second).unwrap(),
            ];
            assert_eq!(net.attributes(receive)[2], flag | 0x82);
            let close = net.nodes[sender].close(ends[0], sends).unwrap();
            net.run_channels();
            assert_eq!(net.done(sender, close), None);
            assert_eq!(net.attributes(send)[2], flag | 0x48);
            let other = net.nodes[receiver].close(ends[1], receives).unwrap();
            net.run_channels();
            for (node, request) in [(sender, close), (receiver, other)] {
                assert_eq!(net.done(node, request), Some(Ok(Completion::Closed)));
            }
            for end in [send, receive] {
                assert_eq!(net.attributes(end), [1, 0, 0]);
            }
            assert_eq!(
                net.nodes[sender].close(ends[0], sends),
                Err(Error::ChannelInvalid)
            );
        }
    }
}

/// MC-CHAN-2, MC-CHAN-10, MC-PKTROPEN-1, MC-PKTROPEN-3: connect and both opens in all six orders.
#[test]
fn opening_and_connecting_have_no_order() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for ((sender, receiver), order) in PLACES.into_iter().flat_map(|p| orders.map(|o| (p, o))) {
        let mut net = Net::new(3);
        let ends = [net.endpoint(sender, 1), net.endpoint(receiver, 2)];
        let mut opens = Vec::new();
        for step in order {
            for (end, request) in &opens {
                assert_eq!(net.opened(*end, *request), None);
            }
            match step {
                0 => {
                    let connected = net.connect_by(0, Kind::Packets, ends[0], ends[1]);
                    assert_eq!(connected, Some(Ok(())));
                }
                n => {
                    let end = ends[n - 1];
                    opens.push((end, net.open(end, roles(Kind::Packets)[n - 1]).unwrap()));
                }
            }
            net.run_channels();
        }
        for (end, request) in opens {
            assert!(net.opened(end, request).is_some());
        }
    }
}

/// MC-PKTCONN-3, MC-PKTCONN-5, MC-PKTCONN-7, MC-CHAN-4, MC-CHAN-6, MC-CHAN-7, MC-CHAN-9,
/// MC-EPDEL-3, MC-EPATTRSET-2, MC-EPATTRSET-3, MC-MSG-7, A-25
#[test]
fn what_cannot_be_connected_is_told_whoever_asks() {
    for (sender, receiver) in PLACES {
        for by in 0..3 {
            let mut net = Net::new(3);
            let [send, receive] = [net.endpoint(sender, 1), net.endpoint(receiver, 2)];
            let third = net.endpoint(receiver, 3);
            let none = Endpoint::of(id(receiver), 9);
            let connect = |net: &mut Net, a, b| net.connect_by(by, Kind::Packets, a, b).unwrap();
            assert_eq!(connect(&mut net, send, send), Err(Error::EndpointInvalid));
            for (a, b) in [(send, none), (none, send)] {
                assert_eq!(connect(&mut net, a, b), Err(Error::EndpointInvalid));
            }
            for (attribute, value) in [
                (Attribute::MaxPayloadSize, 64),
                (Attribute::NumPriorities, 4),
                (Attribute::Priority, 3),
                (Attribute::MemoryType, 1),
                (Attribute::BufferType, 1),
                (Attribute::Type, 4),
            ] {
                let before = net.ask(receiver, receive, attribute).unwrap();
                let node = &mut net.nodes[receiver];
                node.set_attribute(receive, attribute, value).unwrap();
                let expected = Err(Error::AttributeIncompatible);
                assert_eq!(connect(&mut net, send, receive), expected);
                let node = &mut net.nodes[receiver];
                node.set_attribute(receive, attribute, before).unwrap();
            }
            // Nothing is left of that.
            assert_eq!(connect(&mut net, send, receive), Ok(()));
            for (a, b) in [
                (send, third),
                (third, send),
                (third, receive),
                (send, receive),
            ] {
                assert_eq!(connect(&mut net, a, b), Err(Error::ChannelConnected));
            }
            for end in [send, receive] {
                let node = &mut net.nodes[end.node().node() as usize];
                assert_eq!(node.delete(end), Err(Error::ChannelConnected));
                let set = node.set_attribute(end, Attribute::Timeout, 1);
                assert_eq!(set, Err(Error::ChannelConnected));
                assert_eq!(node.try_receive(end), Err(Error::General));
            }
        }
    }
}

/// MC-PKTCONN-6: of connects for the same endpoints at the same time exactly one succeeds, and
/// nothing is left of the others.
#[test]
fn one_of_several_connects_succeeds() {
    for seed in 0..200_usize {
        let mut net = Net::new(3);
        let ends: Vec<_> = (0..3).map(|node| net.endpoint(node, 1)).collect();
        let wanted = match seed % 2 {
            0 => [(0, 1), (1, 0), (0, 1)],
            _ => [(0, 1), (1, 2), (2, 0)],
        };
        let asked: Vec<_> = (0..3)
            .map(|n| {
                let (a, b) = wanted[n];
                let by = (seed / 2 + n) % 3;
                (by, net.nodes[by].connect(Kind::Packets, ends[a], ends[b]))
            })
            .collect();
        // In any order.
        let mut random = seed.wrapping_mul(0x9e37_79b9).wrapping_add(7);
        for _ in 0..60 {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12345) & 0x7fff_ffff;
            net.turn(random / 8 % 3, random / 64 % 3);
        }
        net.run_channels();
        let results = asked.into_iter().map(|(by, request)| {
            let request = request?;
            net.result(by, request).unwrap()
        });
        let results: Vec<_> = results.collect();
        let won = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(won, 1, "{seed}: {results:?}");
        for result in results.iter().filter(|result| result.is_err()) {
            assert_eq!(*result, Err(Error::ChannelConnected));
        }
        let connected = ends.iter().map(|end| net.attributes(*end)[2] & 1);
        assert_eq!(connected.sum::<u64>(), 2);
    }
}

/// MC-CHAN-5, MC-CHAN-11, MC-PKTROPEN-4, MC-PKTROPEN-5, MC-PKTRCLOSE-4, MC-PKTRCLOSE-5, MC-EPDEL-5
#[test]
fn opens_and_closes_that_do_not_fit_fail() {
    let mut net = Net::new(2);
    let [send, receive] = [net.endpoint(0, 1), net.endpoint(1, 2)];
    let [sends, receives] = roles(Kind::Packets);
    let [scalars, _] = roles(Kind::Scalars);
    assert_eq!(
        net.nodes[0].open(receive, receives),
        Err(Error::EndpointInvalid)
    );
    // Opened as something else before they are connected.
    let wrong = [
        (send, scalars, Error::ChannelType),
        (receive, sends, Error::ChannelDirection),
    ];
    let pending = wrong.map(|(end, role, error)| (end, net.open(end, role).unwrap(), error));
    assert_eq!(net.open(send, sends), Err(Error::ChannelOpenPending));
    assert_eq!(net.attributes(send), [1, 0, 4]);
    assert_eq!(
        net.connect_by(0, Kind::Packets, send, receive),
        Some(Ok(()))
    );
    for (end, request, error) in pending {
        let node = end.node().node() as usize;
        assert_eq!(net.result(node, request), Some(Err(error)));
    }
    for (end, role, error) in wrong {
        assert_eq!(net.open(end, role), Err(error));
    }
    let opens = [(send, sends), (receive, receives)];
    let opens = opens.map(|(end, role)| (end, net.open(end, role).unwrap()));
    assert_eq!(net.open(send, sends), Err(Error::ChannelOpenPending));
    net.run_channels();
    let [sender, receiver] = opens.map(|(end, request)| net.opened(end, request).unwrap());
    assert_eq!(net.open(send, sends), Err(Error::ChannelOpen));
    let node = &mut net.nodes[0];
    assert_eq!(node.close(sender, receives), Err(Error::ChannelDirection));
    assert_eq!(node.close(sender, scalars), Err(Error::ChannelType));
    assert_eq!(node.close(receiver, receives), Err(Error::ChannelInvalid));
    assert_eq!(
        node.close(Channel::from_raw(0), sends),
        Err(Error::ChannelInvalid)
    );
    let closed = node.close(sender, sends).unwrap();
    assert_eq!(node.close(sender, sends), Err(Error::ChannelNotOpen));
    assert_eq!(net.open(send, sends), Err(Error::ChannelClosePending));
    let again = net.connect_by(1, Kind::Packets, send, receive);
    assert_eq!(again, Some(Err(Error::ChannelClosePending)));
    // Only nobody is told of it (MC-PKTRCLOSE-6).
    assert_eq!(net.nodes[0].cancel(closed), Ok(None));
    net.nodes[1].close(receiver, receives).unwrap();
    net.run_channels();
    for end in [send, receive] {
        assert_eq!(net.attributes(end), [1, 0, 0]);
    }
    let pending = net.open(send, sends).unwrap();
    net.nodes[0].delete(send).unwrap();
    assert_eq!(net.result(0, pending), Some(Err(Error::EndpointDeleted)));
}

/// MC-CHAN-19: a message that began before its endpoint was connected is not for it when the channel
/// has ended.
#[test]
fn a_message_that_began_before_a_channel_is_discarded() {
    let mut net = Net::new(2);
    let (from, to) = (net.endpoint(1, 1), net.endpoint(0, 2));
    let other = net.endpoint(0, 3);
    net.send(from, to, &[1; MESSAGE_MAX], 3);
    net.turn(1, 0);
    net.turn(0, 1);
    let wires = std::mem::take(&mut net.wires);
    let roles = roles(Kind::Packets);
    for (n, channel) in net
        .channel(Kind::Packets, other, to)
        .into_iter()
        .enumerate()
    {
        net.nodes[0].close(channel, roles[n]).unwrap();
        net.run_channels();
    }
    net.wires = wires;
    assert!(net.nodes[0].local(to).unwrap().is_for_messages());
    net.run();
    assert_eq!((net.receive(to), net.nodes[0].discarded()), (None, 1));
}

/// MC-CHAN-19: messages of all priorities that an endpoint has are gone and counted when it is
/// connected, or becomes one for a channel; no other endpoint's are.
#[test]
fn messages_that_an_endpoint_has_when_it_is_connected_are_counted() {
    for kind in KINDS {
        let mut net = Net::new(2);
        let (from, to) = (net.endpoint(1, 1), net.endpoint(0, 2));
        let (declared, other) = (net.endpoint(0, 3), net.endpoint(0, 4));
        for end in [to, declared, other] {
            for n in 0..3_u8 {
                net.send(from, end, &[n], n.into());
            }
            net.send(from, end, &[3; MESSAGE_MAX], 7);
        }
        net.run();
        assert_eq!(net.connect_by(1, kind, from, to), Some(Ok(())));
        assert_eq!(net.nodes[0].discarded(), 4);
        let number = EndpointType::PacketChannel as u64;
        net.nodes[0]
            .set_attribute(declared, Attribute::Type, number)
            .unwrap();
        assert_eq!(net.nodes[0].discarded(), 8);
        for n in 0..3_u8 {
            assert_eq!(net.receive(other), Some(vec![n]));
        }
        assert_eq!(net.receive(other), Some(vec![3; MESSAGE_MAX]));
        // Their buffers are the sender's again.
        net.run();
        for end in [to, declared] {
            let left = net.ask(1, end, Attribute::NumRecvBuffers);
            assert_eq!(left, Ok(RECEIVE_BUFFERS.into()));
        }
    }
}

/// A node that comes back is not told what has become of a connect that its predecessor asked for.
#[test]
fn a_connect_is_answered_to_its_asker_only() {
    let mut net = Net::new(3);
    let ends = [net.endpoint(0, 1), net.endpoint(2, 2)];
    let _ = net.nodes[1]
        .connect(Kind::Packets, ends[0], ends[1])
        .unwrap();
    net.turn(1, 0);
    net.turn(0, 1);
    for other in [0, 2] {
        net.cut(1, other, End::Gone);
    }
    net.nodes[1] = Engine::new(id(1), NodeAttributes::default(), Parameters::default());
    net.connect(0, 1);
    for _ in 0..3 {
        net.turn(0, 1);
        net.turn(1, 0);
    }
    let own = net.endpoint(0, 3);
    let none = Endpoint::of(id(2), 4);
    let refused = net.nodes[1].connect(Kind::Packets, own, none).unwrap();
    net.run_channels();
    assert_eq!(net.result(1, refused), Some(Err(Error::EndpointInvalid)));
    assert_eq!(net.attributes(ends[0])[0], 2);
}

/// MC-PKTROPEN-6: an open that is cancelled leaves the other end pending, and can come again.
#[test]
fn an_open_is_withdrawn_and_comes_again() {
    for (sender, receiver) in PLACES {
        let mut net = Net::new(3);
        let ends = [net.endpoint(sender, 1), net.endpoint(receiver, 2)];
        let roles = roles(Kind::Scalars);
        let before = net.open(ends[0], roles[0]).unwrap();
        net.nodes[sender].cancel(before).unwrap();
        assert_eq!(net.attributes(ends[0]), [1, 0, 0]);
        net.connect_by(0, Kind::Scalars, ends[0], ends[1])
            .unwrap()
            .unwrap();
        for _ in 0..3 {
            let request = net.open(ends[0], roles[0]).unwrap();
            net.run_channels();
            net.nodes[sender].cancel(request).unwrap();
            net.run_channels();
            let other = net.open(ends[1], roles[1]).unwrap();
            net.run_channels();
            assert_eq!(net.opened(ends[1], other), None);
            net.nodes[receiver].cancel(other).unwrap();
            net.run_channels();
        }
        let requests = [0, 1].map(|n| (ends[n], net.open(ends[n], roles[n]).unwrap()));
        net.run_channels();
        for (end, request) in requests {
            assert!(net.opened(end, request).is_some());
        }
    }
}

/// MC-CHAN-16, MC-PKTCONN-2: the other node goes, or the link, in every state.
#[test]
fn channels_end_with_the_node_or_the_link() {
    for end in [End::Gone, End::Down, End::Broken] {
        for state in 0..4 {
            let mut net = Net::new(2);
            let ends = [net.endpoint(0, 1), net.endpoint(1, 2)];
            let [sends, receives] = roles(Kind::Packets);
            let mut requests = Vec::new();
            let mut channel = None;
            match state {
                0 => net
                    .connect_by(0, Kind::Packets, ends[0], ends[1])
                    .unwrap()
                    .unwrap(),
                1 => {
                    net.connect_by(0, Kind::Packets, ends[0], ends[1])
                        .unwrap()
                        .unwrap();
                    requests.push((net.open(ends[0], sends).unwrap(), Err(Error::General)));
                }
                _ => channel = Some(net.channel(Kind::Packets, ends[0], ends[1])[0]),
            }
            if state == 3 {
                let closing = net.nodes[0].close(channel.unwrap(), sends).unwrap();
                requests.push((closing, Ok(())));
            }
            net.run_channels();
            net.cut(0, 1, end);
            net.run_channels();
            for (request, expected) in requests {
                assert_eq!(net.result(0, request), Some(expected));
            }
            if state == 2 {
                assert_eq!(net.attributes(ends[0])[2], 0x53);
                let closed = net.nodes[0].close(channel.unwrap(), sends).unwrap();
                assert_eq!(net.result(0, closed), Some(Ok(())));
            }
            assert_eq!(net.attributes(ends[0]), [1, 0, 0]);
            // A connect that waits for a node ends with it.
            let asked = net.nodes[0]
                .connect(Kind::Packets, ends[1], ends[0])
                .unwrap();
            assert_eq!(net.done(0, asked), None);
            net.cut(0, 1, end);
            let expected = match end {
                End::Gone => Error::EndpointInvalid,
                _ => Error::General,
            };
            assert_eq!(net.result(0, asked), Some(Err(expected)));
            net.nodes[1].delete(ends[1]).err();
            net.connect(0, 1);
            net.run_channels();
            net.endpoint(1, 7);
            let fresh = Endpoint::of(id(1), 7);
            net.channel(Kind::Packets, fresh, ends[0]);
            let _ = receives;
        }
    }
}

/// A connect whose other owner never answers fails, and nothing else does: the own endpoint is free
/// again, the session goes on, and so is the other endpoint as soon as its owner goes on, whether it was
/// asked before or not.
#[test]
fn a_connect_that_is_never_answered_ends_alone() {
    for (has_session, was_asked) in [(true, true), (true, false), (false, false)] {
        let mut net = Net::new(3);
        let (own, there) = (net.endpoint(0, 1), net.endpoint(2, 2));
        if !has_session {
            net.cut(0, 2, End::Gone);
        }
        let asked = net.nodes[1].connect(Kind::Packets, own, there).unwrap();
        net.turn(1, 0);
        net.turn(0, 1);
        if was_asked {
            net.turn(0, 2);
        }
        for _ in 0..=AGE_MAX {
            assert_eq!(net.nodes[0].delete(own), Err(Error::ChannelConnected));
            assert!(net.nodes[0].age().is_empty());
        }
        for _ in 0..3 {
            net.turn(0, 1);
            net.turn(1, 0);
        }
        assert_eq!(net.result(1, asked), Some(Err(Error::General)));
        if !has_session {
            assert_eq!(net.nodes[0].delete(own), Ok(()));
            continue;
        }
        // It is connected again in place of the one that was given up.
        let again = net.connect_by(0, Kind::Packets, own, there);
        assert_eq!(again, Some(Ok(())));
        let ends = [(0, own), (2, there)].map(|(node, end): (usize, Endpoint)| {
            let local = net.nodes[node].local_at(end.port()).unwrap();
            local.connection.as_ref().map(|end| end.id)
        });
        assert!(ends[0].is_some());
        assert_eq!(ends[0], ends[1]);
        let (from, to) = (net.endpoint(0, 5), net.endpoint(2, 5));
        net.send(from, to, b"as before", 1);
        net.run();
        assert_eq!(net.receive(to).unwrap(), b"as before");
    }
    let mut net = Net::new(2);
    let ends = [net.endpoint(0, 1), net.endpoint(1, 2)];
    let connected = net.connect_by(0, Kind::Packets, ends[0], ends[1]);
    assert_eq!(connected, Some(Ok(())));
    assert!((0..2 * AGE_MAX).all(|_| net.nodes[0].age().is_empty()));
}

/// A node that answers no get that was withdrawn, or takes nothing, makes this one remember no more
/// than so many of them.
#[test]
fn what_is_told_to_a_node_that_takes_nothing_is_limited() {
    let (mut node, mut wire) = with_peer();
    let tuple = Endpoint::of(id(1), 5);
    let mut count = 0;
    while node.age().is_empty() {
        let get = node.get(tuple, By::Program).unwrap();
        node.progress(id(1), &mut wire).unwrap();
        node.cancel(get).unwrap();
        node.progress(id(1), &mut wire).unwrap();
        wire.out.borrow_mut().clear();
        count += 1;
        assert!(count <= 5 * REQUESTS_MAX);
    }
    assert!(count > REQUESTS_MAX);
    assert_eq!(node.age(), [id(1)]);
    node.down(id(1), End::Broken);
    assert!(node.age().is_empty());
}

/// A node of a release without channels is told nothing of them.
#[test]
fn a_node_without_channels_is_not_asked() {
    let (mut node, mut wire) = with_peer();
    let own = node.create(Some(1)).unwrap();
    wire.out.borrow_mut().clear();
    for (a, b) in [(own, Endpoint::of(id(1), 1)), (Endpoint::of(id(1), 1), own)] {
        let asked = node.connect(Kind::Packets, a, b);
        node.progress(id(1), &mut wire).unwrap();
        assert_eq!(asked, Err(Error::General));
    }
    assert!(wire.out.borrow().is_empty());
    node.down(id(1), End::Gone);
    let asked = node
        .connect(Kind::Packets, own, Endpoint::of(id(1), 1))
        .unwrap();
    assert_eq!(node.requests().test(asked), Ok(None));
    node.up(id(1), 1);
    let (version, features) = (1, 0);
    say(&wire, Control::Ready { version, features });
    node.progress(id(1), &mut wire).unwrap();
    assert_eq!(node.requests().test(asked), Ok(Some(&Err(Error::General))));
    let status = node.attribute(1, Attribute::Status, id(0));
    assert_eq!(status, Ok(0));
    // And may not speak of them itself.
    say(
        &wire,
        Control::Connected {
            number: 1,
            result: Ok(()),
        },
    );
    assert_eq!(node.progress(id(1), &mut wire), Err(End::Broken));
}

/// A node that wants endpoints connected to those of nodes that are not there makes this one remember
/// none of them, and the endpoint is free again.
#[test]
fn nodes_that_are_not_there_are_forgotten() {
    let mut net = Net::new(2);
    let own = net.endpoint(0, 1);
    for node in 100..300 {
        let none = Endpoint::of(id(node), 1);
        let asked = net.nodes[1].connect(Kind::Packets, own, none).unwrap();
        net.run();
        assert_eq!(net.nodes[0].sought(), [id(node)]);
        assert_eq!(net.nodes[0].delete(own), Err(Error::ChannelConnected));
        net.nodes[0].down(id(node), End::Gone);
        net.run();
        assert_eq!(net.result(1, asked), Some(Err(Error::EndpointInvalid)));
    }
    assert_eq!(net.nodes[0].peers.len(), 2);
    assert_eq!(net.nodes[0].delete(own), Ok(()));
}

/// What programs of three nodes do, and what happens to the nodes and to the links.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Which node asks for which two endpoints to be connected.
    Connect(usize, usize, usize),
    Open(usize, bool),
    /// Close an end that was opened, if one was.
    Close(usize),
    Cancel(usize),
    Turn(usize, usize),
    /// The ways for data that are wanted are made.
    Ways,
    Cut(usize, usize, bool),
    Meet(usize, usize),
    /// A node dies, and another one has its number.
    Die(usize),
    /// Send something through an end that was opened, and take something out of one.
    Put(usize),
    Take(usize),
    /// Two endpoints of nodes that meet are connected and opened, if nothing is in the way.
    Join(usize, usize),
}

pub(super) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let node = || 0..NODES;
    let end = || 0..2 * NODES;
    let one = prop_oneof![
        4 => (node(), end(), end()).prop_map(|(by, a, b)| Act::Connect(by, a, b)),
        4 => (end(), any::<bool>()).prop_map(|(end, sends)| Act::Open(end, sends)),
        2 => any::<usize>().prop_map(Act::Close),
        1 => any::<usize>().prop_map(Act::Cancel),
        9 => (node(), node()).prop_map(|(a, b)| Act::Turn(a, b)),
        3 => Just(Act::Ways),
        1 => (node(), node(), any::<bool>()).prop_map(|(a, b, gone)| Act::Cut(a, b, gone)),
        2 => (node(), node()).prop_map(|(a, b)| Act::Meet(a, b)),
        1 => node().prop_map(Act::Die),
        9 => any::<usize>().prop_map(Act::Put),
        6 => any::<usize>().prop_map(Act::Take),
        3 => (end(), end()).prop_map(|(a, b)| Act::Join(a, b)),
    ];
    prop::collection::vec(one, 0..150)
}

/// Nodes, and what their programs know.
pub(super) struct Fates<W: Medium = Ends> {
    net: Net<W>,
    /// Of all channels.
    kind: Kind,
    /// Requests that were not released, by node.
    requests: Vec<(usize, Request)>,
    /// Handles that were opened, by node, and for what.
    opened: Vec<(usize, Channel, Role)>,
    posted: Vec<(usize, u16, u64)>,
    data: Vec<Data<W>>,
    /// Packets or scalars that were taken.
    pub(super) taken: u32,
}

/// The data of a channel.
struct Data<W> {
    /// Of the connection.
    id: u64,
    /// The nodes of sender and receiver, and their ends.
    nodes: [usize; 2],
    ends: [W; 2],
    put: u32,
    taken: u32,
    /// One of the nodes has gone, or the link.
    is_cut: bool,
}

impl<W: Medium> Data<W> {
    /// What is sent as so many after the first.
    fn item(kind: Kind, number: u32) -> Vec<u8> {
        let mut item = u64::from(number).to_le_bytes().to_vec();
        if kind == Kind::Packets {
            item.resize(8 + number as usize * 701 % (FRAME - 8), number as u8);
        }
        item
    }

    fn put(&mut self, kind: Kind) {
        let item = Self::item(kind, self.put);
        let frame = Frame::Message {
            lane: Lane { level: 0, port: 1 },
            from: 1,
            total: item.len() as u32,
            data: Piece::Bytes(&item),
        };
        if !self.is_cut && self.ends[0].send(&frame).unwrap() {
            self.put += 1;
            self.ends[0].flush().unwrap();
        }
    }

    /// MC-CHAN-3: what comes next is whole, and what was sent next; whether there was something.
    fn take(&mut self, kind: Kind) -> bool {
        let [_, end] = &mut self.ends;
        let is_some = match end.receive().unwrap() {
            Some(Frame::Message { data, .. }) => {
                let mut taken = Vec::new();
                crate::wire::append(&mut taken, &data);
                assert!(
                    taken == Self::item(kind, self.taken),
                    "torn or out of order"
                );
                self.taken += 1;
                true
            }
            Some(other) => panic!("{other:?}"),
            None => false,
        };
        if !self.is_cut {
            end.flush().unwrap();
        }
        is_some
    }

    /// Take all that was sent, of which nothing is lost unless a node or the link was.
    fn take_all(&mut self, kind: Kind) -> u32 {
        let before = self.taken;
        while self.take(kind) | (!self.is_cut && self.ends[0].arrive()) {}
        if !self.is_cut {
            assert_eq!(self.taken, self.put);
            self.ends[1].arrive();
            self.ends[0].check_idle();
        }
        self.taken - before
    }
}

/// The endpoints of all nodes, by numbers.
fn end(number: usize) -> Endpoint {
    Endpoint::of(id(number / 2), number as u16 % 2 + 1)
}

impl<W: Medium> Fates<W> {
    pub(super) fn new(net: Net<W>, kind: Kind) -> Self {
        let mut fates = Fates {
            net,
            kind,
            requests: Vec::new(),
            opened: Vec::new(),
            posted: Vec::new(),
            data: Vec::new(),
            taken: 0,
        };
        (0..NODES).for_each(|node| fates.equip(node));
        fates
    }

    /// Two endpoints of each node.
    fn equip(&mut self, node: usize) {
        for port in [1, 2] {
            self.net.endpoint(node, port);
        }
    }

    fn note(&mut self, node: usize, request: Result<Request>) {
        self.requests
            .extend(request.ok().map(|request| (node, request)));
    }

    /// Do what engines want of the world; whether there was anything.
    fn make_ways(&mut self) -> bool {
        let mut any = false;
        for node in 0..NODES {
            for news in self.net.nodes[node].news() {
                any = true;
                match news {
                    News::Post { port, id, .. } => {
                        self.posted.push((node, port, id));
                        self.net.nodes[node].posted(port, id);
                    }
                    News::Ask { port, id, .. } => {
                        match self.posted.iter().find(|(.., other)| *other == id).copied() {
                            Some((other, there, _)) => {
                                self.data.push(Data {
                                    id,
                                    nodes: [node, other],
                                    ends: W::pair(&mut self.net.source),
                                    put: 0,
                                    taken: 0,
                                    is_cut: false,
                                });
                                self.net.nodes[node].ready(port, id);
                                self.net.nodes[other].ready(there, id);
                            }
                            None => self.net.nodes[node].severed(port, id),
                        }
                    }
                    News::ClosedHere { port } => self.net.nodes[node].drained(port),
                    _ => {}
                }
            }
        }
        any
    }

    /// Learn which opens have succeeded.
    fn look(&mut self) {
        for (node, request) in std::mem::take(&mut self.requests) {
            match self.net.done(node, request) {
                None => self.requests.push((node, request)),
                Some(done) => {
                    self.net.nodes[node].cancel(request).unwrap();
                    if let Ok(Completion::Open(channel)) = done {
                        let port = channel.port();
                        let local = self.net.nodes[node].local_at(port).unwrap();
                        // One that was severed while it was being opened is not open.
                        let role = local.connection.as_ref().unwrap().role;
                        self.opened.push((node, channel, role));
                    }
                }
            }
        }
    }

    fn cut(&mut self, a: usize, b: usize, end: End) {
        self.cut_data(|nodes| nodes == [a, b] || nodes == [b, a]);
        self.net.cut(a, b, end);
    }

    /// What has not arrived of some data is lost.
    fn cut_data(&mut self, between: impl Fn([usize; 2]) -> bool) {
        let data = self.data.iter_mut();
        for data in data.filter(|data| !data.is_cut && between(data.nodes)) {
            data.is_cut = true;
            data.ends[1].sever();
        }
    }

    /// The data of one of the ends that are open for a direction.
    fn data_of(&mut self, direction: Direction, number: usize) -> Option<&mut Data<W>> {
        let is_one = |(.., role): &&(usize, Channel, Role)| role.direction == direction;
        let open: Vec<_> = self.opened.iter().filter(is_one).collect();
        let (node, channel, _) = *open.get(number % open.len().max(1))?;
        let local = self.net.nodes[*node].local_at(channel.port())?;
        let id = local.connection.as_ref()?.id;
        self.data.iter_mut().find(|data| data.id == id)
    }

    /// Take all that was sent to the ends that are open.
    fn take_all(&mut self) {
        let kind = self.kind;
        for number in 0..self.opened.len() {
            let data = self.data_of(Direction::Receive, number);
            self.taken += data.map_or(0, |data| data.take_all(kind));
        }
    }

    pub(super) fn act(&mut self, act: Act) {
        match act {
            Act::Connect(by, a, b) if a / 2 != b / 2 => {
                let (send, receive) = (end(a), end(b));
                let asked = self.net.nodes[by].connect(self.kind, send, receive);
                self.note(by, asked);
            }
            Act::Open(number, sends) => {
                let [send, receive] = roles(self.kind);
                let role = if sends { send } else { receive };
                let opened = self.net.open(end(number), role);
                self.note(number / 2, opened);
            }
            Act::Close(number) if !self.opened.is_empty() => {
                let index = number % self.opened.len();
                let (node, channel, role) = self.opened.swap_remove(index);
                let closed = self.net.nodes[node].close(channel, role).unwrap();
                self.requests.push((node, closed));
            }
            Act::Cancel(number) if !self.requests.is_empty() => {
                let index = number % self.requests.len();
                let (node, request) = self.requests.swap_remove(index);
                self.net.nodes[node].cancel(request).unwrap();
            }
            Act::Turn(a, b) => {
                self.net.turn(a, b);
            }
            Act::Ways => {
                self.make_ways();
            }
            Act::Cut(a, b, gone) if a != b => {
                self.cut(a, b, if gone { End::Gone } else { End::Down });
            }
            Act::Meet(a, b) if a != b && !self.net.wires.contains_key(&(a, b)) => {
                self.net.connect(a, b);
            }
            Act::Die(node) => {
                self.cut_data(|nodes| nodes.contains(&node));
                self.net.die(node);
                self.requests.retain(|(of, _)| *of != node);
                self.opened.retain(|(of, ..)| *of != node);
                self.posted.retain(|(of, ..)| *of != node);
                self.equip(node);
            }
            Act::Put(number) => {
                let kind = self.kind;
                if let Some(data) = self.data_of(Direction::Send, number) {
                    data.put(kind);
                }
            }
            Act::Take(number) => {
                let kind = self.kind;
                let data = self.data_of(Direction::Receive, number);
                self.taken += data.map_or(0, |data| data.take(kind).into());
            }
            Act::Join(a, b) if a / 2 != b / 2 => {
                let (sender, receiver) = (a / 2, b / 2);
                self.act(Act::Meet(sender, receiver));
                self.act(Act::Connect(sender, a, b));
                self.act(Act::Open(a, true));
                self.act(Act::Open(b, false));
                self.calm();
            }
            _ => {}
        }
        self.look();
    }

    /// Until nothing happens any more, with all links.
    fn settle(&mut self) {
        for a in 0..NODES {
            (0..a).for_each(|b| self.act(Act::Meet(a, b)));
        }
        self.calm();
        self.take_all();
    }

    fn calm(&mut self) {
        loop {
            self.net.run();
            if !self.make_ways() {
                break;
            }
        }
        self.look();
    }

    /// The connection of an endpoint, unless its program has to close it first.
    fn connection(&mut self, end: Endpoint) -> Option<(u64, Endpoint)> {
        let node = &mut self.net.nodes[end.node().node() as usize];
        let local = node.local_at(end.port())?;
        assert!(local.reserved.is_none());
        let open = crate::STATUS_OPEN | crate::STATUS_CLOSE_PENDING;
        let connection = local.connection.as_ref();
        let connection = connection.filter(|connection| connection.flags() & open == 0);
        connection.map(|connection| (connection.id, connection.partner))
    }

    /// Let everything happen; then nothing is left of what has ended, and nothing once the others have
    /// gone.
    pub(super) fn check_the_end(&mut self) {
        self.settle();
        for one in (0..2 * NODES).map(end) {
            if let Some((id, partner)) = self.connection(one) {
                let node = &mut self.net.nodes[partner.node().node() as usize];
                let there = node.local_at(partner.port()).unwrap();
                let there = there.connection.as_ref();
                assert_eq!(
                    there.map(|there| (there.id, there.partner)),
                    Some((id, one))
                );
            }
        }
        for other in 1..NODES {
            self.cut(0, other, End::Gone);
        }
        self.make_ways();
        self.look();
        let opened = std::mem::take(&mut self.opened);
        for (_, channel, role) in opened.into_iter().filter(|(of, ..)| *of == 0) {
            let closed = self.net.nodes[0].close(channel, role).unwrap();
            assert_eq!(self.net.result(0, closed), Some(Ok(())));
        }
        for (_, request) in self.requests.iter().filter(|(of, _)| *of == 0) {
            // Only opens wait for a connection that may still come.
            let operation = self.net.nodes[0].requests.operation(*request).copied();
            assert!(
                matches!(operation, Some(Operation::Open { .. })),
                "{operation:?}"
            );
        }
        for port in [1, 2] {
            assert_eq!(self.net.nodes[0].delete(Endpoint::of(id(0), port)), Ok(()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// MC-CHAN-2, MC-CHAN-4, MC-CHAN-15, MC-CHAN-16, MC-PKTCONN-6: whatever three nodes do, and however
    /// they die, no endpoint stays reserved, or connected to one that does not know of it; and when the
    /// others have gone, everything ends.
    #[test]
    fn channels_leave_nothing_behind_when_nodes_die(acts in acts(), of_scalars in any::<bool>()) {
        let mut fates = Fates::new(Net::new(NODES), KINDS[usize::from(of_scalars)]);
        acts.into_iter().for_each(|act| fates.act(act));
        fates.check_the_end();
    }
}
