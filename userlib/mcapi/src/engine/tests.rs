// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines of several nodes, face to face, without I/O: what crosses is in queues that a test may
//! look at, hold up and add to.

mod channels;
mod sim;

use super::*;
use crate::{
    engine::peers::LEFT_MAX,
    outgoing::LANES_MAX,
    wire::{End, Frame, Packed, Wire, FRAME},
    EndpointType, RECEIVE_BUFFERS, REQUESTS_MAX,
};
use mp_queue_pair::Piece;
use proptest::prelude::*;
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    rc::Rc,
};

/// Frames that fit on the way.
const ROOM: usize = 8;

type Way = Rc<RefCell<VecDeque<Packed>>>;

#[derive(Default)]
struct Ends {
    out: Way,
    inward: Way,
    current: Packed,
    /// What flushing fails with.
    end: Option<End>,
}

impl Wire for Ends {
    fn send(&mut self, frame: &Frame<'_>) -> Result<bool, End> {
        let mut out = self.out.borrow_mut();
        let room = out.len() < ROOM;
        if room {
            out.push_back(Packed::of(frame));
        }
        Ok(room)
    }

    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        let Some(next) = self.inward.borrow_mut().pop_front() else {
            return Ok(None);
        };
        self.current = next;
        self.current.frame().map(Some)
    }

    fn flush(&mut self) -> Result<(), End> {
        self.end.map_or(Ok(()), Err)
    }
}

/// What sessions of a test are made of: one end each.
trait Medium: Wire + Sized {
    /// What both ends come from.
    type Source;

    fn pair(source: &mut Self::Source) -> [Self; 2];

    /// Let arrive what this end has sent; whether there was anything on the way.
    fn arrive(&mut self) -> bool {
        false
    }

    /// The other node or the link has gone; whether what had arrived before is received then.
    fn sever(&mut self) -> bool {
        false
    }

    /// Nothing is on the way: whatever this end may write to is free.
    fn check_idle(&mut self) {}
}

impl Medium for Ends {
    type Source = ();

    fn pair((): &mut ()) -> [Self; 2] {
        let (there, back) = (Way::default(), Way::default());
        let ends = [(&there, &back), (&back, &there)];
        ends.map(|(out, inward)| Ends {
            out: Rc::clone(out),
            inward: Rc::clone(inward),
            ..Ends::default()
        })
    }
}

fn id(number: usize) -> NodeId {
    NodeId::new(0, number as u32).unwrap()
}

fn engine(number: usize) -> Engine {
    Engine::new(id(number), NodeAttributes::default(), Parameters::default())
}

/// Nodes, and the ways between them.
struct Net<W: Medium = Ends> {
    nodes: Vec<Engine>,
    wires: BTreeMap<(usize, usize), W>,
    source: W::Source,
    /// The numbers of the latest sessions.
    sessions: BTreeMap<(usize, usize), u32>,
    last_session: u32,
}

impl Net {
    /// So many nodes, with a session of each two.
    fn new(count: usize) -> Self {
        Net::with(count, ())
    }
}

impl<W: Medium> Net<W> {
    /// The same over other ways.
    fn with(count: usize, source: W::Source) -> Self {
        let mut net = Net {
            nodes: (0..count).map(engine).collect(),
            wires: BTreeMap::new(),
            source,
            sessions: BTreeMap::new(),
            last_session: 0,
        };
        for a in 0..count {
            for b in 0..a {
                net.connect(a, b);
            }
        }
        net.run();
        net
    }

    fn connect(&mut self, a: usize, b: usize) {
        self.last_session += 1;
        let ways = [(a, b), (b, a)];
        for ((from, to), wire) in ways.into_iter().zip(W::pair(&mut self.source)) {
            self.sessions.insert((from, to), self.last_session);
            self.wires.insert((from, to), wire);
            self.nodes[from].up(id(to), to as u32);
        }
    }

    fn cut(&mut self, a: usize, b: usize, end: End) {
        for (from, to) in [(a, b), (b, a)] {
            if let Some(mut wire) = self.wires.remove(&(from, to)) {
                if wire.sever() {
                    self.nodes[from].drain(id(to), &mut wire);
                }
            }
            self.nodes[from].down(id(to), end);
        }
    }

    /// A node dies, and another one has its number.
    fn die(&mut self, node: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            self.cut(node, other, End::Gone);
        }
        self.nodes[node] = engine(node);
    }

    /// One turn of a node with another one; whether something has moved.
    fn turn(&mut self, from: usize, to: usize) -> bool {
        let Some(wire) = self.wires.get_mut(&(from, to)) else {
            return false;
        };
        self.nodes[from].progress(id(to), wire).unwrap()
    }

    /// Until nothing moves.
    fn run(&mut self) {
        let ways: Vec<_> = self.wires.keys().copied().collect();
        while ways
            .iter()
            .filter(|(from, to)| self.turn(*from, *to) | self.arrive(*from, *to))
            .count()
            > 0
        {}
    }

    /// Let arrive what a node has sent to another one; whether there was anything.
    fn arrive(&mut self, from: usize, to: usize) -> bool {
        let wire = self.wires.get_mut(&(from, to));
        wire.is_some_and(Medium::arrive)
    }

    fn endpoint(&mut self, node: usize, port: u16) -> Endpoint {
        self.nodes[node].create(Some(port)).unwrap()
    }

    fn send(&mut self, from: Endpoint, to: Endpoint, data: &[u8], priority: u32) -> Request {
        let node = from.node().node() as usize;
        let sent = self.nodes[node].send(from, to, Piece::Bytes(data), priority, By::Program);
        sent.unwrap()
    }

    fn receive(&mut self, endpoint: Endpoint) -> Option<Vec<u8>> {
        let node = endpoint.node().node() as usize;
        self.nodes[node].try_receive(endpoint).unwrap()
    }

    fn done(&mut self, node: usize, request: Request) -> Option<Outcome> {
        self.nodes[node].requests().test(request).unwrap().cloned()
    }

    fn result(&mut self, node: usize, request: Request) -> Option<Result<()>> {
        self.done(node, request).map(|done| done.map(|_| ()))
    }

    fn ask(&mut self, node: usize, of: Endpoint, attribute: Attribute) -> Result<u64> {
        let subject = Subject::Endpoint { port: of.port() };
        let number = attribute.number() as u16;
        let request = self.nodes[node].ask(of.node(), subject, number).unwrap();
        self.run();
        let done = self.done(node, request).unwrap();
        self.nodes[node].cancel(request).unwrap();
        match done? {
            Completion::Value(value) => Ok(value),
            other => panic!("{other:?}"),
        }
    }
}

/// The bytes of a message that was received, and whether it was too long.
fn message(done: Outcome) -> (Vec<u8>, bool) {
    match done {
        Ok(Completion::Message { data, is_truncated }) => (data.to_vec(), is_truncated),
        other => panic!("{other:?}"),
    }
}

/// The same within a node, and between two.
fn places() -> [(Net, usize); 2] {
    [(Net::new(1), 0), (Net::new(2), 1)]
}

/// MC-MSG-1, MC-GEN-11, MC-MSGSEND-6, MC-MSGRECV-1, MC-MSGAVAIL-1, MC-REQ-7: any length, whole,
/// and the size of it.
#[test]
fn messages_arrive_whole() {
    for (mut net, other) in places() {
        let (from, to) = (net.endpoint(0, 1), net.endpoint(other, 2));
        for len in [
            0,
            1,
            FRAME - 1,
            FRAME,
            FRAME + 1,
            MESSAGE_MAX - 1,
            MESSAGE_MAX,
        ] {
            let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let request = net.send(from, to, &data, 1);
            net.run();
            assert_eq!(net.done(0, request), Some(Ok(Completion::Sent(len))));
            net.nodes[0].cancel(request).unwrap();
            assert_eq!(net.nodes[other].local(to).unwrap().available(), 1);
            assert_eq!(net.receive(to), Some(data));
            assert_eq!(net.receive(to), None);
        }
        let long = net.nodes[0].send(
            from,
            to,
            Piece::Bytes(&[0; MESSAGE_MAX + 1]),
            1,
            By::Program,
        );
        assert_eq!(long, Err(Error::MessageSize));
    }
}

/// MC-MSG-2, MC-MSG-3: the most urgent first, in order within a priority.
#[test]
fn urgent_messages_are_received_first() {
    for (mut net, other) in places() {
        let (from, to) = (net.endpoint(0, 1), net.endpoint(other, 2));
        for n in 0..24_u8 {
            net.send(from, to, &[n], u32::from(7 - n % 8));
        }
        net.run();
        let all: Vec<u8> = (0..24).map(|_| net.receive(to).unwrap()[0]).collect();
        let expected: Vec<u8> = (0..24).map(|n| 7 - n / 3 + n % 3 * 8).collect();
        assert_eq!(all, expected);
        let beyond = net.nodes[0].send(from, to, Piece::Bytes(b""), 8, By::Program);
        assert_eq!(beyond, Err(Error::Priority));
        net.nodes[0]
            .set_attribute(from, Attribute::NumPriorities, 2)
            .unwrap();
        let beyond = net.nodes[0].send(from, to, Piece::Bytes(b""), 2, By::Program);
        assert_eq!(beyond, Err(Error::Priority));
    }
}

/// MC-MSG-10, MC-MSG-13, MC-GEN-5: a full endpoint keeps its own messages waiting, and no other
/// ones; priority 0 still arrives.
#[test]
fn a_full_endpoint_delays_nobody() {
    for (mut net, other) in places() {
        let (from, full) = (net.endpoint(0, 1), net.endpoint(other, 2));
        let free = net.endpoint(other, 3);
        let most = RECEIVE_BUFFERS as usize;
        let sent: Vec<_> = (0..most + 5)
            .map(|n| net.send(from, full, &[n as u8], 7))
            .collect();
        net.run();
        for (n, request) in sent.iter().enumerate() {
            assert_eq!(net.done(0, *request).is_some(), n < most, "{n}");
        }
        let urgent = net.send(from, full, b"urgent", 0);
        let elsewhere = net.send(from, free, b"elsewhere", 7);
        net.run();
        assert!(net.done(0, urgent).is_some() && net.done(0, elsewhere).is_some());
        assert_eq!(net.receive(free).unwrap(), b"elsewhere");
        assert_eq!(net.receive(full).unwrap(), b"urgent");
        for n in 0..most + 5 {
            assert_eq!(net.receive(full), Some(vec![n as u8]));
            net.run();
        }
        assert!(sent
            .into_iter()
            .all(|request| net.done(0, request).is_some()));
    }
}

/// MC-MSG-13: also one node does not take another one's buffers.
#[test]
fn a_flood_of_one_node_leaves_others_room() {
    let mut net = Net::new(3);
    let to = net.endpoint(0, 1);
    let (flood, calm) = (net.endpoint(1, 1), net.endpoint(2, 1));
    for _ in 0..60 {
        net.send(flood, to, b"flood", 3);
    }
    net.run();
    let request = net.send(calm, to, b"calm", 3);
    net.run();
    assert_eq!(net.result(2, request), Some(Ok(())));
}

/// MC-MSGSENDI-2, A-23: calls that do not wait have so many buffers, those that wait
/// any number; a request too many sends nothing (MC-REQ-10).
#[test]
fn sends_that_do_not_wait_have_a_limit() {
    for (mut net, other) in places() {
        let (from, to) = (net.endpoint(0, 1), net.endpoint(other, 2));
        net.nodes[0]
            .set_attribute(from, Attribute::NumSendBuffers, 3)
            .unwrap();
        let most = RECEIVE_BUFFERS as usize;
        for _ in 0..most {
            net.send(from, to, b"", 4);
            net.run();
        }
        let pending: Vec<_> = (0..3).map(|_| net.send(from, to, b"", 4)).collect();
        let more = net.nodes[0].send(from, to, Piece::Bytes(b""), 4, By::Program);
        assert_eq!(more, Err(Error::MemoryLimit));
        assert!(net.nodes[0]
            .send(from, to, Piece::Bytes(b""), 4, By::Call)
            .is_ok());
        net.nodes[0].cancel(pending[1]).unwrap();
        net.send(from, to, b"", 4);
        let mut received = 0;
        while net.receive(to).is_some() {
            received += 1;
            net.run();
        }
        assert_eq!(received, most + 4);
        while net.nodes[0].requests().count() < REQUESTS_MAX {
            net.nodes[0].receive(from, 0, By::Program).unwrap();
        }
        let more = net.nodes[0].send(from, to, Piece::Bytes(b""), 4, By::Program);
        assert_eq!(more, Err(Error::RequestLimit));
        net.run();
        assert_eq!(net.receive(to), None);
    }
}

/// MC-MSGRECVI-1, MC-MSGRECVI-3, MC-MSGRECVI-4, MC-REQ-8, MC-REQ-12: receives take messages in
/// the order of the calls; what is too long loses its end.
#[test]
fn posted_receives_take_messages_in_order() {
    for (mut net, other) in places() {
        let (from, to) = (net.endpoint(0, 1), net.endpoint(other, 2));
        let posted: Vec<_> = (0..10)
            .map(|n| net.nodes[other].receive(to, n, By::Program).unwrap())
            .collect();
        assert_eq!(net.nodes[other].cancel(posted[3]), Ok(None));
        for n in 0..11_u8 {
            net.send(from, to, &[n; 5], u32::from(n % 8));
            net.run();
        }
        let waiting = net.nodes[other].local(to).unwrap().available();
        assert_eq!(waiting, 2);
        let mut got: Vec<u8> = Vec::new();
        for (room, request) in posted.iter().enumerate().filter(|(n, _)| *n != 3) {
            let done = net.done(other, *request).unwrap();
            let (data, is_truncated) = message(done);
            assert_eq!(is_truncated, room < 5);
            assert_eq!(data.len(), room.min(5));
            got.extend(data.first());
        }
        // Those that were sent first, whatever their priority.
        assert_eq!(got, [1, 2, 3, 4, 5, 6, 7, 8]);
        let now = net.nodes[other].receive(to, 2, By::Program).unwrap();
        let done = net.done(other, now).unwrap();
        assert_eq!(message(done), (vec![9; 2], true));
    }
}

/// MC-MSG-9: a message that began to arrive for an endpoint that was deleted is not for the one that
/// has its port now; the next one is.
#[test]
fn a_message_that_has_begun_is_not_for_a_later_endpoint() {
    let mut net = Net::new(2);
    let (from, to) = (net.endpoint(0, 1), net.endpoint(1, 2));
    let sent = net.send(from, to, &[1; MESSAGE_MAX], 3);
    net.turn(0, 1);
    net.turn(1, 0);
    assert!(net.nodes[1].peer(id(0)).incoming.bytes() > 0);
    net.nodes[1].delete(to).unwrap();
    assert_eq!(net.nodes[1].peer(id(0)).incoming.bytes(), 0);
    assert_eq!(net.endpoint(1, 2), to);
    net.run();
    assert_eq!(net.result(0, sent), Some(Ok(())));
    assert_eq!(net.receive(to), None);
    assert_eq!(net.nodes[1].discarded(), 1);
    net.send(from, to, &[2; MESSAGE_MAX], 3);
    net.run();
    assert_eq!(net.receive(to), Some(vec![2; MESSAGE_MAX]));
}

/// MC-EPATTRSET-3: an endpoint that is for a channel from now on has no messages, and nobody waits
/// for one; the buffers are free.
#[test]
fn messages_end_when_an_endpoint_is_for_a_channel() {
    for (mut net, other) in places() {
        let (from, to) = (net.endpoint(0, 1), net.endpoint(other, 2));
        for round in 0..2 * u64::from(RECEIVE_BUFFERS) {
            let sent = net.send(from, to, b"lost", 3);
            net.run();
            assert_eq!(net.result(0, sent), Some(Ok(())));
            net.nodes[0].cancel(sent).unwrap();
            let node = &mut net.nodes[other];
            node.set_attribute(to, Attribute::Type, 2).unwrap();
            assert_eq!(node.discarded(), round + 1);
            node.set_attribute(to, Attribute::Type, 1).unwrap();
        }
        assert_eq!(net.receive(to), None);
        let posted = net.nodes[other].receive(to, 9, By::Program).unwrap();
        let node = &mut net.nodes[other];
        node.set_attribute(to, Attribute::Type, 4).unwrap();
        assert_eq!(net.result(other, posted), Some(Err(Error::General)));
    }
}

/// MC-MSG-6, MC-MSG-9, MC-EPDEL-1, MC-EPDEL-2, MC-EPDEL-6, MC-EPDEL-7
#[test]
fn messages_of_an_endpoint_go_with_it() {
    for (mut net, other) in places() {
        let (from, to) = (net.endpoint(0, 1), net.endpoint(other, 2));
        for _ in 0..3 {
            net.send(from, to, b"kept", 7);
        }
        net.run();
        if other != 0 {
            assert_eq!(net.nodes[0].delete(to), Err(Error::EndpointNotOwner));
        }
        net.nodes[other].delete(to).unwrap();
        assert_eq!(net.nodes[other].discarded(), 3);
        assert_eq!(net.nodes[other].delete(to), Err(Error::EndpointInvalid));
        assert_eq!(
            net.nodes[other].try_receive(to),
            Err(Error::EndpointInvalid)
        );
        let most = u64::from(RECEIVE_BUFFERS);
        for _ in 0..most + 10 {
            let request = net.send(from, to, b"lost", 7);
            net.run();
            assert_eq!(net.result(0, request), Some(Ok(())));
        }
        assert_eq!(net.nodes[other].discarded(), 3 + most + 10);
        assert_eq!(net.endpoint(other, 2), to);
        assert_eq!(net.receive(to), None);
        let posted = net.nodes[other].receive(to, 9, By::Program).unwrap();
        net.nodes[other].delete(to).unwrap();
        assert_eq!(net.result(other, posted), Some(Err(Error::EndpointInvalid)));
    }
}

/// MC-MSG-5, MC-MSG-7, MC-MSGRECV-2, MC-MSGRECV-5, MC-MSGSENDI-3, MC-EPATTRSET-1, MC-ATTR-1
#[test]
fn endpoints_are_their_nodes_own() {
    let mut net = Net::new(2);
    let (from, to) = (net.endpoint(0, 1), net.endpoint(1, 2));
    let node = &mut net.nodes[0];
    assert_eq!(node.try_receive(to), Err(Error::EndpointInvalid));
    assert_eq!(
        node.receive(to, 1, By::Program),
        Err(Error::EndpointInvalid)
    );
    assert_eq!(
        node.send(to, from, Piece::Bytes(b""), 0, By::Program),
        Err(Error::EndpointInvalid)
    );
    let set = node.set_attribute(to, Attribute::Timeout, 1);
    assert_eq!(set, Err(Error::EndpointRemote));
    let channel = EndpointType::PacketChannel as u64;
    let packets = node.create(Some(9)).unwrap();
    node.set_attribute(packets, Attribute::Type, channel)
        .unwrap();
    assert_eq!(node.try_receive(packets), Err(Error::General));
    assert_eq!(
        node.send(from, packets, Piece::Bytes(b""), 0, By::Program),
        Err(Error::General)
    );
    let sent = net.send(to, packets, b"", 0);
    net.run();
    assert_eq!(net.result(1, sent), Some(Ok(())));
    assert_eq!(net.nodes[0].discarded(), 1);
}

/// MC-EPGETI-1, MC-EPGETI-2, MC-EPCREATE-5, MC-EPGET-4, MC-EPGETI-6
#[test]
fn gets_wait_until_the_endpoint_exists() {
    let mut net = Net::new(3);
    let tuple = Endpoint::of(id(0), 5);
    let gets: Vec<_> = (0..3)
        .map(|n| net.nodes[n].get(tuple, By::Program).unwrap())
        .collect();
    net.run();
    for (n, request) in gets.iter().enumerate() {
        assert_eq!(net.done(n, *request), None);
    }
    assert_eq!(net.endpoint(0, 5), tuple);
    net.run();
    for (n, request) in gets.iter().enumerate() {
        assert_eq!(net.done(n, *request), Some(Ok(Completion::Endpoint(tuple))));
    }
    let again = net.nodes[2].get(tuple, By::Program).unwrap();
    net.run();
    assert_eq!(net.result(2, again), Some(Ok(())));
    for asker in 0..3 {
        assert_eq!(net.ask(asker, tuple, Attribute::GetCount), Ok(4));
        assert_eq!(net.ask(asker, tuple, Attribute::GetSource), Ok(2));
    }
    net.cut(0, 2, End::Gone);
    assert_eq!(net.ask(1, tuple, Attribute::GetCount), Ok(2));
}

/// MC-EPGETI-3, MC-EPGETI-4, MC-EPGETI-5, MC-FINAL-3
#[test]
fn gets_are_withdrawn_limited_and_survive_a_session() {
    for (mut net, other) in places() {
        let tuple = Endpoint::of(id(other), 5);
        let request = net.nodes[0].get(tuple, By::Program).unwrap();
        net.run();
        assert_eq!(net.nodes[0].cancel(request), Ok(None));
        net.run();
        net.endpoint(other, 5);
        assert_eq!(net.ask(0, tuple, Attribute::GetCount), Ok(0));
        // The answer is on its way.
        let request = net.nodes[0].get(tuple, By::Program).unwrap();
        net.turn(0, other);
        net.turn(other, 0);
        net.nodes[0].cancel(request).unwrap();
        net.run();
        let counted = if other == 0 { 1 } else { 0 };
        assert_eq!(net.ask(0, tuple, Attribute::GetCount), Ok(counted));
        let channel = EndpointType::ScalarChannel as u64;
        net.nodes[other].delete(tuple).unwrap();
        net.endpoint(other, 5);
        net.nodes[other]
            .set_attribute(tuple, Attribute::Type, channel)
            .unwrap();
        let gets = [0, 1].map(|_| net.nodes[0].get(tuple, By::Program).unwrap());
        net.run();
        let results = gets.map(|request| net.result(0, request));
        assert_eq!(results, [Some(Ok(())), Some(Err(Error::EndpointGetLimit))]);
    }
    let mut net = Net::new(2);
    let tuple = Endpoint::of(id(1), 5);
    let request = net.nodes[0].get(tuple, By::Program).unwrap();
    net.run();
    for end in [End::Gone, End::Down, End::Broken] {
        net.cut(0, 1, end);
        assert_eq!(net.done(0, request), None);
        assert_eq!(net.nodes[0].sought(), [id(1)]);
        net.connect(0, 1);
        net.run();
        assert_eq!(net.done(0, request), None);
        assert!(net.nodes[0].sought().is_empty());
    }
    net.endpoint(1, 5);
    net.run();
    assert_eq!(net.result(0, request), Some(Ok(())));
}

/// MC-MSG-6, MC-MSG-8, MC-NATTRGET-2: what waits when there is no session any more, or none comes.
#[test]
fn what_waits_for_a_node_ends_as_the_node_does() {
    for (end, asked) in [
        (End::Gone, Error::NodeInvalid),
        (End::Down, Error::General),
        (End::Broken, Error::General),
    ] {
        for has_session in [true, false] {
            // What is sent to a node that is not there is discarded; what has waited for one that was
            // there was not sent.
            let sent = match (end, has_session) {
                (End::Gone, false) => Ok(()),
                _ => Err(Error::Transmission),
            };
            let mut net = Net::new(2);
            if !has_session {
                net.cut(0, 1, End::Gone);
            }
            let (from, to) = (net.endpoint(0, 1), Endpoint::of(id(1), 2));
            assert!(!net.nodes[0].seeks());
            let send = net.send(from, to, b"x", 1);
            let question = net.nodes[0].ask(id(1), Subject::Node, 0).unwrap();
            assert_eq!(net.nodes[0].seeks(), !has_session);
            assert_eq!(net.nodes[0].sought().is_empty(), has_session);
            net.cut(0, 1, end);
            assert_eq!(net.result(0, send), Some(sent));
            assert_eq!(net.result(0, question), Some(Err(asked)));
            assert!(net.nodes[0].sought().is_empty());
        }
    }
}

/// A node whose fabric has ended has nothing to wait for: everything that is pending fails, and so does
/// what is begun later, unless it can be done at once.
#[test]
fn without_a_fabric_nothing_is_pending() {
    let mut net = Net::new(2);
    let [own, full, there] = [net.endpoint(0, 1), net.endpoint(0, 2), net.endpoint(1, 3)];
    let [other, nowhere] = [Endpoint::of(id(1), 9), Endpoint::of(id(7), 9)];
    let role = crate::connection::Role {
        kind: crate::channel::Kind::Packets,
        direction: Direction::Send,
    };
    for _ in 0..RECEIVE_BUFFERS {
        net.send(own, full, b"fills", 7);
    }
    let begin = |net: &mut Net| {
        let mut requests = vec![
            (net.send(own, full, b"no room", 7), Error::Transmission),
            (net.send(own, there, b"elsewhere", 7), Error::Transmission),
            (net.send(own, nowhere, b"nowhere", 7), Error::Transmission),
        ];
        let node = &mut net.nodes[0];
        let subject = Subject::Node;
        let begun = [
            (node.receive(own, 8, By::Program), Error::Transmission),
            (node.receive(own, 8, By::Call), Error::Transmission),
            (node.get(other, By::Program), Error::General),
            (node.get(nowhere, By::Call), Error::General),
            (node.get(Endpoint::of(id(0), 9), By::Call), Error::General),
            (node.ask(id(1), subject, 0), Error::General),
            (node.open(own, role), Error::General),
            (
                node.connect(crate::channel::Kind::Packets, nowhere, other),
                Error::General,
            ),
        ];
        requests.extend(begun.map(|(request, error)| (request.unwrap(), error)));
        requests
    };
    let pending = begin(&mut net);
    for (request, _) in &pending {
        assert_eq!(net.result(0, *request), None);
    }
    net.nodes[0].fail();
    for (request, error) in pending {
        assert_eq!(net.result(0, request), Some(Err(error)));
    }
    assert!(net.nodes[0].requests().pending().is_empty());
    // What was received before, and what is within the node, is not lost.
    for _ in 0..RECEIVE_BUFFERS {
        assert_eq!(net.receive(full).unwrap(), b"fills");
    }
    let sent = net.send(own, full, b"own", 7);
    assert_eq!(net.result(0, sent), Some(Ok(())));
}

/// What was sent before there was a session crosses in order when there is one; buffers that an
/// earlier one has left in use are not used twice.
#[test]
fn a_new_session_goes_on_where_buffers_are_free() {
    let mut net = Net::new(2);
    let (from, to) = (net.endpoint(0, 1), net.endpoint(1, 2));
    let most = RECEIVE_BUFFERS as u8;
    for n in 0..most - 1 {
        net.send(from, to, &[n], 7);
    }
    net.run();
    net.cut(0, 1, End::Gone);
    for n in 0..5 {
        net.send(from, to, &[most - 1 + n], 7);
    }
    net.connect(0, 1);
    net.run();
    assert_eq!(
        net.nodes[1].local(to).unwrap().available(),
        usize::from(most)
    );
    for n in 0..most + 4 {
        assert_eq!(net.receive(to), Some(vec![n]));
        net.run();
    }
}

/// MC-ATTR-6, MC-EPATTRGET-1, MC-EPATTRGET-3, MC-EPCREATE-4: every attribute, as its owner has it.
#[test]
fn attributes_are_read_from_anywhere() {
    let mut net = Net::new(2);
    let (from, to) = (net.endpoint(0, 1), net.endpoint(1, 2));
    let buffers = u64::from(RECEIVE_BUFFERS);
    let defaults = [
        1,
        0,
        u64::MAX,
        65536,
        0,
        0,
        8,
        0,
        64,
        buffers,
        0,
        0xffff_ffff,
    ];
    for (attribute, expected) in Attribute::ALL.into_iter().zip(defaults) {
        for asker in [0, 1] {
            assert_eq!(net.ask(asker, to, attribute), Ok(expected), "{attribute:?}");
        }
    }
    for n in 0..3 {
        net.send(from, to, b"", 7);
        net.run();
        for asker in [0, 1] {
            let free = net.ask(asker, to, Attribute::NumRecvBuffers);
            assert_eq!(free, Ok(buffers - 1 - n));
        }
    }
    net.receive(to);
    assert_eq!(net.ask(0, to, Attribute::NumRecvBuffers), Ok(buffers - 2));
    net.nodes[1]
        .set_attribute(to, Attribute::Timeout, 7)
        .unwrap();
    assert_eq!(net.ask(0, to, Attribute::Timeout), Ok(7));
    let none = Endpoint::of(id(1), 77);
    assert_eq!(
        net.ask(0, none, Attribute::Type),
        Err(Error::EndpointInvalid)
    );
    let request = net.nodes[0]
        .ask(id(1), Subject::Endpoint { port: 2 }, 12)
        .unwrap();
    net.run();
    assert_eq!(net.result(0, request), Some(Err(Error::AttributeNumber)));
}

/// MC-CANCEL-4, MC-CANCEL-5, MC-MSGSENDI-5: a send is withdrawn wholly or not at all.
#[test]
fn cancelled_operations_lose_and_double_nothing() {
    let mut net = Net::new(2);
    let (from, to) = (net.endpoint(0, 1), net.endpoint(1, 2));
    let long = vec![7; MESSAGE_MAX];
    let started = net.send(from, to, &long, 3);
    let behind = net.send(from, to, b"behind", 3);
    net.turn(0, 1);
    let is_started = [started, behind].map(|request| net.nodes[0].started(request).is_some());
    assert_eq!(is_started, [true, false]);
    assert_eq!(net.nodes[0].cancel(started), Ok(None));
    assert_eq!(net.nodes[0].cancel(behind), Ok(None));
    assert_eq!(net.nodes[0].cancel(behind), Err(Error::RequestInvalid));
    net.run();
    assert_eq!(net.receive(to), Some(long));
    assert_eq!(net.receive(to), None);
    let done = net.send(from, to, b"done", 3);
    net.run();
    let ended = net.nodes[0].cancel(done).unwrap();
    assert_eq!(ended, Some(Ok(Completion::Sent(4))));
    assert_eq!(net.receive(to).unwrap(), b"done");
}

/// What a node tells that cannot be ends its session, whatever it is.
#[test]
fn frames_at_the_wrong_time_are_lies() {
    let lane = Lane { level: 0, port: 1 };
    let ready = Control::Ready {
        version: 1,
        features: 0,
    };
    let get = Control::Get { number: 1, port: 9 };
    let data = Piece::Bytes(b"");
    let more = Frame::More { lane, data };
    let mut node = Engine::new(id(0), NodeAttributes::default(), Parameters::default());
    node.up(id(1), 1);
    let mut wire = Ends::default();
    wire.inward.borrow_mut().push_back(Packed::of(&more));
    assert_eq!(node.progress(id(1), &mut wire), Err(End::Broken));
    for controls in [
        &[get][..],
        &[Control::Ready {
            version: 0,
            features: 0,
        }],
        &[ready, ready],
        &[ready, Control::Debt { lane, count: 1 }],
        &[Control::Debt { lane, count: 33 }],
        &[Control::Debt { lane, count: 0 }],
        &[ready, Control::Credit { lane, count: 0 }],
        &[ready, Control::Credit { lane, count: 1 }],
        &[ready, get, get],
    ] {
        let mut node = Engine::new(id(0), NodeAttributes::default(), Parameters::default());
        node.up(id(1), 1);
        let mut wire = Ends::default();
        let packed = controls
            .iter()
            .map(|control| Packed::of(&Frame::Control(*control)));
        wire.inward.borrow_mut().extend(packed);
        let ended = node.progress(id(1), &mut wire);
        assert_eq!(ended, Err(End::Broken), "{controls:?}");
    }
}

/// Say something to a node as another one.
fn say(wire: &Ends, control: Control) {
    let frame = Frame::Control(control);
    wire.inward.borrow_mut().push_back(Packed::of(&frame));
}

/// A node with a peer that is ready.
fn with_peer() -> (Engine, Ends) {
    let mut node = Engine::new(id(0), NodeAttributes::default(), Parameters::default());
    node.up(id(1), 1);
    let mut wire = Ends::default();
    let (version, features) = (1, 0);
    say(&wire, Control::Ready { version, features });
    node.progress(id(1), &mut wire).unwrap();
    (node, wire)
}

/// What has arrived is received, also if the session turns out to have ended before all of it was
/// looked at.
#[test]
fn what_has_arrived_survives_the_end_of_the_session() {
    for end in [End::Gone, End::Down] {
        let (mut node, mut wire) = with_peer();
        let most = RECEIVE_BUFFERS as usize;
        for level in 0..4 {
            let to = node.create(Some(level)).unwrap();
            for n in 0..most {
                let frame = Frame::Message {
                    lane: Lane { level, port: level },
                    from: 0,
                    total: 1,
                    data: Piece::Bytes(&[n as u8]),
                };
                wire.inward.borrow_mut().push_back(Packed::of(&frame));
            }
            assert_eq!(node.local(to).unwrap().available(), 0);
        }
        wire.end = Some(end);
        assert_eq!(node.progress(id(1), &mut wire), Err(end));
        for port in 0..4 {
            let to = Endpoint::of(id(0), port);
            assert_eq!(node.local(to).unwrap().available(), most);
        }
    }
}

/// Credits of a node that does not take them are one for each lane, however many there are.
#[test]
fn credits_do_not_pile_up() {
    let (mut node, mut wire) = with_peer();
    let to = node.create(Some(1)).unwrap();
    let lane = Lane { level: 1, port: 1 };
    wire.out.borrow_mut().clear();
    let fill = |wire: &Ends| {
        while wire.out.borrow().len() < ROOM {
            let frame = Packed::of(&Frame::Control(Control::Get { number: 0, port: 0 }));
            wire.out.borrow_mut().push_back(frame);
        }
    };
    fill(&wire);
    for _ in 0..RECEIVE_BUFFERS {
        let frame = Frame::Message {
            lane,
            from: 0,
            total: 0,
            data: Piece::Bytes(&[]),
        };
        wire.inward.borrow_mut().push_back(Packed::of(&frame));
        node.progress(id(1), &mut wire).unwrap();
        assert_eq!(node.try_receive(to), Ok(Some(vec![])));
    }
    wire.out.borrow_mut().clear();
    while node.progress(id(1), &mut wire).unwrap() {}
    let out = wire.out.borrow();
    let credits = out.iter().map(|packed| packed.frame().unwrap());
    let counts: Vec<u32> = credits
        .map(|frame| match frame {
            Frame::Control(Control::Credit { count, .. }) => count,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(counts, [RECEIVE_BUFFERS]);
}

/// A stream of messages costs its receiver a credit frame for each few of them.
#[test]
fn a_credit_frame_is_for_several_messages() {
    let mut net = Net::new(2);
    let (from, to) = (net.endpoint(0, 1), net.endpoint(1, 2));
    let mut credits = 0;
    for n in 0..100_u8 {
        net.send(from, to, &[n], 3);
        net.turn(0, 1);
        net.turn(1, 0);
        assert_eq!(net.receive(to), Some(vec![n]));
        while net.turn(1, 0) {}
        credits += net.wires[&(1, 0)].out.borrow().len();
        while net.turn(0, 1) {}
    }
    assert!(credits <= 100 / 8, "{credits}");
}

/// Messages for ports without an endpoint take no memory, whatever they are long.
#[test]
fn what_is_for_nobody_is_not_kept() {
    let (mut node, mut wire) = with_peer();
    for port in 0..2000 {
        let frame = Frame::Message {
            lane: Lane { level: 1, port },
            from: 0,
            total: MESSAGE_MAX as u32,
            data: Piece::Bytes(&[1; FRAME]),
        };
        wire.inward.borrow_mut().push_back(Packed::of(&frame));
        node.progress(id(1), &mut wire).unwrap();
        wire.out.borrow_mut().clear();
    }
    assert_eq!(node.peer(id(1)).incoming.bytes(), 0);
}

/// Messages of a node that fill all that it can fill at a port.
const FILLED: usize = RECEIVE_BUFFERS as usize * PRIORITIES;

/// Another node, of a host, sends so many messages of a byte to port 1, at each priority in its turn, and
/// then its session ends.
fn come_and_go(node: &mut Engine, other: NodeId, host: u32, count: usize, end: End) {
    node.up(other, host);
    let mut wire = Ends::default();
    let (version, features) = (1, 0);
    say(&wire, Control::Ready { version, features });
    for level in (0..PRIORITIES as u16).cycle().take(count) {
        let frame = Frame::Message {
            lane: Lane { level, port: 1 },
            from: 0,
            total: 1,
            data: Piece::Bytes(b"x"),
        };
        wire.inward.borrow_mut().push_back(Packed::of(&frame));
    }
    while node.progress(other, &mut wire).unwrap() {
        wire.out.borrow_mut().clear();
    }
    node.down(other, end);
}

/// Only the node that has left the most messages loses them, whichever node ends last, and none does
/// when a link is lost.
#[test]
fn who_has_left_the_most_loses_it() {
    let mut node = Engine::new(id(0), NodeAttributes::default(), Parameters::default());
    let to = node.create(Some(1)).unwrap();
    let most = LEFT_MAX as usize / FILLED;
    for number in 1..=most + 1 {
        come_and_go(&mut node, id(number), 1, FILLED, End::Down);
    }
    let all = (most + 1) * FILLED;
    assert_eq!(node.local(to).unwrap().available(), all);
    // More than are kept go at once with the first node that goes itself, but none of its own.
    let last = id(most + 2);
    come_and_go(&mut node, last, 1, 1, End::Gone);
    assert_eq!(node.discarded() as usize, 2 * FILLED);
    assert_eq!(node.local(to).unwrap().available(), all - 2 * FILLED + 1);
    assert_eq!(node.peer(last).incoming.used(), 1);
}

/// Nodes of a host that come and go by ever new numbers, of several domains, make this one keep so many
/// of their messages and no more, and cost those of other hosts nothing, also those of their domains.
#[test]
fn messages_of_nodes_that_have_gone_are_limited() {
    let mut node = Engine::new(id(0), NodeAttributes::default(), Parameters::default());
    let to = node.create(Some(1)).unwrap();
    let each = FILLED;
    let most = LEFT_MAX as usize / each;
    let one = |number: usize| NodeId::new(number as u32 % 3, number as u32).unwrap();
    let come_and_go =
        |node: &mut Engine, other, host| come_and_go(node, other, host, each, End::Gone);
    come_and_go(&mut node, id(9000), 2);
    for number in 1..4 * most {
        come_and_go(&mut node, one(number), 1);
        let kept = number.min(most) + 1;
        assert_eq!(node.local(to).unwrap().available(), kept * each);
        // Itself, and those whose messages wait.
        assert_eq!(node.peers.len(), 1 + kept);
    }
    assert_eq!(node.discarded() as usize, (3 * most - 1) * each);
    // What is received makes room for others.
    while node.try_receive(to).unwrap().is_some() {}
    come_and_go(&mut node, one(5000), 1);
    assert_eq!(node.local(to).unwrap().available(), each);
}

/// A node makes another one keep account of so many lanes, and no more.
#[test]
fn a_node_has_so_many_lanes() {
    let (message, debt) = (0, 1);
    for what in [message, debt] {
        let mut node = Engine::new(id(0), NodeAttributes::default(), Parameters::default());
        node.up(id(1), 1);
        let mut wire = Ends::default();
        let (version, features) = (1, 0);
        if what == message {
            say(&wire, Control::Ready { version, features });
        }
        let lanes = (0..=u16::MAX - 1).map(|port| Lane { level: 1, port });
        let end = lanes
            .map(|lane| {
                let data = Piece::Bytes(&[1; FRAME]);
                let (from, total) = (0, MESSAGE_MAX as u32);
                let frame = match what == message {
                    true => Frame::Message {
                        lane,
                        from,
                        total,
                        data,
                    },
                    false => Frame::Control(Control::Debt { lane, count: 1 }),
                };
                wire.inward.borrow_mut().push_back(Packed::of(&frame));
                node.progress(id(1), &mut wire)
            })
            .position(|taken| taken == Err(End::Broken));
        assert_eq!(end, Some(LANES_MAX));
    }
}

/// MC-EPGETI-3, MC-EPGETI-4: an answer that crosses its withdrawal is taken back, and nothing else:
/// no other get of that node, and none of a later endpoint of the port.
#[test]
fn a_get_that_was_answered_is_taken_back_alone() {
    let channel = EndpointType::ScalarChannel as u64;
    for is_recreated in [false, true] {
        let mut net = Net::new(2);
        let tuple = net.endpoint(1, 5);
        net.nodes[1]
            .set_attribute(tuple, Attribute::Type, channel)
            .unwrap();
        let first = net.nodes[0].get(tuple, By::Program).unwrap();
        if !is_recreated {
            net.run();
            assert_eq!(net.result(0, first), Some(Ok(())));
        }
        // It is answered with an error, or before the endpoint is another one.
        let second = match is_recreated {
            true => first,
            false => net.nodes[0].get(tuple, By::Program).unwrap(),
        };
        net.turn(0, 1);
        net.turn(1, 0);
        net.nodes[0].cancel(second).unwrap();
        if is_recreated {
            net.nodes[1].delete(tuple).unwrap();
            net.endpoint(1, 5);
            let third = net.nodes[0].get(tuple, By::Program).unwrap();
            net.run();
            assert_eq!(net.result(0, third), Some(Ok(())));
        }
        net.run();
        assert_eq!(net.ask(0, tuple, Attribute::GetCount), Ok(1));
    }
}

/// A node that asks and does not listen is cut off before it takes much memory.
#[test]
fn a_node_that_does_not_listen_is_cut_off() {
    let mut node = Engine::new(id(0), NodeAttributes::default(), Parameters::default());
    node.up(id(1), 1);
    let mut wire = Ends::default();
    let ready = Control::Ready {
        version: 1,
        features: 0,
    };
    say(&wire, ready);
    let mut asked = 0;
    loop {
        let question = Control::Question {
            number: asked,
            subject: Subject::Node,
            attribute: 0,
        };
        say(&wire, question);
        match node.progress(id(1), &mut wire) {
            Ok(_) => asked += 1,
            Err(end) => break assert_eq!(end, End::Broken),
        }
        assert!(asked < 5 * REQUESTS_MAX as u32);
    }
    assert!(asked > REQUESTS_MAX as u32);
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize, usize, u8, usize),
    Receive(usize),
    Post(usize),
    Turn(usize, usize),
    Cancel(usize),
    Cut(usize, usize),
    Connect(usize, usize),
    /// A node dies, and another one has its number.
    Die(usize),
}

const NODES: usize = 3;

fn steps(cuts: u32) -> impl Strategy<Value = Vec<Step>> {
    let node = || 0..NODES;
    let one = prop_oneof![
        6 => (node(), node(), 0..8_u8, 0..3 * FRAME).prop_map(|(a, b, level, len)| Step::Send(a, b, level, len)),
        4 => node().prop_map(Step::Receive),
        1 => node().prop_map(Step::Post),
        9 => (node(), node()).prop_map(|(a, b)| Step::Turn(a, b)),
        1 => (0..200_usize).prop_map(Step::Cancel),
        cuts => (node(), node()).prop_map(|(a, b)| Step::Cut(a, b)),
        2 * cuts => (node(), node()).prop_map(|(a, b)| Step::Connect(a, b)),
        cuts => node().prop_map(Step::Die),
    ];
    prop::collection::vec(one, 0..200)
}

/// What a message says of itself: sender, level, number among all sends.
fn label(from: usize, level: u8, number: usize, len: usize) -> Vec<u8> {
    let mut data = vec![from as u8, level];
    data.extend((number as u32).to_le_bytes());
    data.resize(data.len() + len, number as u8);
    data
}

fn read_label(data: &[u8]) -> (u8, u8, usize) {
    let number = u32::from_le_bytes(data[2..6].try_into().unwrap()) as usize;
    assert!(data[6..].iter().all(|byte| *byte == number as u8));
    (data[0], data[1], number)
}

/// A message that was to be sent.
struct Sent {
    from: usize,
    to: usize,
    level: u8,
    /// Unless it was cancelled, or the sender has died.
    request: Option<Request>,
    /// The session that it was sent in, once it has ended well; [`NOBODY`] if it was discarded.
    session: Option<u32>,
}

/// No session.
const NOBODY: u32 = 0;

/// What the steps have led to.
#[derive(Default)]
struct Story {
    sends: Vec<Sent>,
    posted: Vec<(usize, Request)>,
    received: Vec<(usize, usize)>,
}

impl Story {
    /// A message was received at a node: never twice, and never before an earlier one of its lane.
    fn note(&mut self, at: usize, data: &[u8], last: &mut HashMap<(usize, u8, u8), usize>) {
        let (from, level, number) = read_label(data);
        assert_eq!(self.sends[number].to, at);
        let before = last.insert((at, from, level), number);
        assert!(
            before.is_none_or(|before| before < number),
            "{before:?} {number}"
        );
        self.received.push((at, number));
    }

    /// Note the sessions that messages were sent in by now.
    fn note_sent<W: Medium>(&mut self, net: &mut Net<W>) {
        for sent in self.sends.iter_mut().filter(|sent| sent.session.is_none()) {
            let way = (sent.from, sent.to);
            let is_sent = |request| net.result(sent.from, request) == Some(Ok(()));
            if sent.request.is_some_and(is_sent) {
                let session = net.sessions.get(&way);
                let session = session.filter(|_| net.wires.contains_key(&way));
                sent.session = Some(session.copied().unwrap_or(NOBODY));
            }
        }
    }

    /// A node has died, and with it what its program knew.
    fn forget(&mut self, node: usize) {
        for sent in self.sends.iter_mut().filter(|sent| sent.from == node) {
            (sent.request, sent.session) = (None, None);
        }
        self.posted.retain(|(at, _)| *at != node);
    }

    /// Numbers of what was received: each one once.
    fn received_once(&self) -> HashSet<usize> {
        let numbers: HashSet<_> = self.received.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers.len(), self.received.len(), "a message came twice");
        numbers
    }

    /// MC-GEN-9: each send has ended, and what was told not to have been sent has not come.
    fn check_ends<W: Medium>(&self, net: &mut Net<W>) {
        let received = self.received_once();
        for (number, sent) in self.sends.iter().enumerate() {
            let Some(request) = sent.request else {
                continue;
            };
            match net.result(sent.from, request) {
                Some(Ok(())) => {}
                Some(Err(Error::Transmission)) => {
                    assert!(!received.contains(&number), "{number} was sent");
                }
                other => panic!("{number}: {other:?}"),
            }
        }
    }

    /// MC-GEN-9: of what was sent in a session, a priority at a time, the first ones were received, and
    /// all of them if the session goes on.
    fn check_prefixes<W: Medium>(&self, net: &Net<W>) {
        let received = self.received_once();
        let mut lost = HashSet::new();
        for (number, sent) in self.sends.iter().enumerate() {
            let Some(session) = sent.session.filter(|session| *session != NOBODY) else {
                continue;
            };
            let lane = (sent.from, sent.to, sent.level, session);
            if received.contains(&number) {
                assert!(
                    !lost.contains(&lane),
                    "{number} came, and one before did not"
                );
                continue;
            }
            lost.insert(lane);
            let latest = net.sessions.get(&(sent.from, sent.to));
            assert_ne!(latest, Some(&session), "{number} is lost");
        }
    }
}

fn play<W: Medium>(mut net: Net<W>, steps: Vec<Step>) -> (Net<W>, Story) {
    let endpoints: Vec<_> = (0..NODES).map(|n| net.endpoint(n, 1)).collect();
    let (mut story, mut last) = (Story::default(), HashMap::new());
    for step in steps {
        match step {
            Step::Send(from, to, level, len) => {
                let data = label(from, level, story.sends.len(), len);
                let (here, there) = (endpoints[from], endpoints[to]);
                let sent =
                    net.nodes[from].send(here, there, Piece::Bytes(&data), level.into(), By::Call);
                story.sends.push(Sent {
                    from,
                    to,
                    level,
                    request: sent.ok(),
                    session: None,
                });
            }
            Step::Receive(at) => {
                if let Some(data) = net.receive(endpoints[at]) {
                    story.note(at, &data, &mut last);
                }
            }
            Step::Post(at) => {
                let posted = net.nodes[at].receive(endpoints[at], MESSAGE_MAX, By::Call);
                story.posted.push((at, posted.unwrap()));
            }
            Step::Turn(from, to) => {
                net.turn(from, to);
            }
            Step::Cancel(number) => {
                if let Some(sent) = story.sends.get_mut(number) {
                    // Whether it was sent is seen by whether it arrives, unless that is known.
                    if let Some(request) = sent.request.take() {
                        let _ = net.nodes[sent.from].cancel(request);
                    }
                }
            }
            Step::Cut(a, b) if a != b => net.cut(a, b, End::Gone),
            Step::Connect(a, b) if a != b && !net.wires.contains_key(&(a, b)) => net.connect(a, b),
            Step::Cut(..) | Step::Connect(..) => {}
            Step::Die(node) => {
                story.forget(node);
                net.die(node);
                assert_eq!(net.endpoint(node, 1), endpoints[node]);
            }
        }
        story.note_sent(&mut net);
        // Posted receives are not in order with others that look: those are given first.
        story.posted.retain(|(at, request)| {
            let done = net.nodes[*at].requests().test(*request).unwrap().cloned();
            if let Some(done) = &done {
                net.nodes[*at].cancel(*request).unwrap();
                let (data, _) = message(done.clone());
                let (_, _, number) = read_label(&data);
                story.received.push((*at, number));
            }
            done.is_none()
        });
    }
    let ways: Vec<_> = (0..NODES)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .collect();
    for (a, b) in ways {
        if !net.wires.contains_key(&(a, b)) {
            net.connect(a, b);
        }
    }
    for (at, request) in std::mem::take(&mut story.posted) {
        net.nodes[at].cancel(request).unwrap();
    }
    loop {
        net.run();
        let before = story.received.len();
        for (at, endpoint) in endpoints.iter().enumerate() {
            while let Some(data) = net.receive(*endpoint) {
                story.note(at, &data, &mut last);
            }
        }
        story.note_sent(&mut net);
        if story.received.len() == before {
            story.check_prefixes(&net);
            return (net, story);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// MC-MSG-4, MC-GEN-9, MC-CANCEL-5: whatever three nodes do, each message arrives once, whole,
    /// in the order of its lane; and all sends that were not cancelled are complete.
    #[test]
    fn each_message_arrives_once_and_in_order(steps in steps(0)) {
        let (mut net, story) = play(Net::new(NODES), steps);
        let numbers = story.received_once();
        for (number, sent) in story.sends.iter().enumerate() {
            if let Some(request) = sent.request {
                prop_assert!(numbers.contains(&number), "{number} is lost");
                prop_assert_eq!(net.result(sent.from, request), Some(Ok(())));
            }
        }
        prop_assert!(net.nodes.iter().all(|node| node.discarded() == 0));
    }

    /// MC-GEN-9: the same with sessions that end and begin, and nodes that die: none twice, and all
    /// requests end; what has waited when a session ended is told not to have been sent, and does not
    /// come.
    #[test]
    fn sessions_that_end_double_nothing(steps in steps(1)) {
        let (mut net, story) = play(Net::new(NODES), steps);
        story.check_ends(&mut net);
    }

    /// No frames that a node may send make another one panic, or take more than its buffers.
    #[test]
    fn any_frames_are_taken_or_end_the_session(
        frames in prop::collection::vec((0..12_u8, prop::collection::vec(0..4_u8, 0..20)), 0..60)
    ) {
        let mut node = Engine::new(id(0), NodeAttributes::default(), Parameters::default());
        node.create(Some(1)).unwrap();
        node.up(id(1), 1);
        let mut wire = Ends::default();
        let ready = Frame::Control(Control::Ready { version: 1, features: 0 });
        wire.inward.borrow_mut().push_back(Packed::of(&ready));
        for (kind, mut bytes) in frames {
            // Most numbers are small.
            for (n, byte) in bytes.iter_mut().enumerate() {
                *byte *= u8::from(n % 2 == 0);
            }
            wire.inward.borrow_mut().push_back(Packed::raw(kind, bytes));
            match node.progress(id(1), &mut wire) {
                Ok(_) => wire.out.borrow_mut().clear(),
                Err(end) => {
                    prop_assert_eq!(end, End::Broken);
                    node.down(id(1), end);
                    break;
                }
            }
        }
    }
}
