// SPDX-License-Identifier: MIT OR Apache-2.0

//! Many threads in the same calls at once (MC-GEN-8).

mod common;

use common::{soon, Hosts, TestNode};
use mcapi::{
    Attribute, Channel, Completion, Deadline, Endpoint, Error, NodeAttributes, Request, Result,
};
use mp_testing::Host;
use std::{
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering},
        Barrier,
    },
    thread,
    time::{Duration, Instant},
};

/// What each of several threads sends through the same endpoint or handle.
const ITEMS: u32 = 400;
const THREADS: u32 = 2;

/// An endpoint whose calls wait so many milliseconds.
fn endpoint(node: &TestNode, port: Option<u32>, timeout: u64) -> Endpoint {
    let endpoint = node.endpoint_create(port).unwrap();
    for (attribute, value) in [
        (Attribute::Timeout, timeout),
        (Attribute::MaxPayloadSize, 256),
    ] {
        node.set_endpoint_attribute(endpoint, attribute, value)
            .unwrap();
    }
    endpoint
}

/// Both handles of a packet or scalar channel between two nodes.
fn channel(a: &TestNode, b: &TestNode, is_packets: bool, timeout: u64) -> [Channel; 2] {
    let (from, to) = (endpoint(a, None, timeout), endpoint(b, None, timeout));
    let (connected, opens) = match is_packets {
        true => (
            a.pktchan_connect_i(from, to),
            [a.pktchan_send_open_i(from), b.pktchan_recv_open_i(to)],
        ),
        false => (
            a.sclchan_connect_i(from, to),
            [a.sclchan_send_open_i(from), b.sclchan_recv_open_i(to)],
        ),
    };
    a.wait(connected.unwrap(), soon()).unwrap();
    let [sends, receives] = opens.map(Result::unwrap);
    [(a, sends), (b, receives)].map(|(node, request)| match node.wait(request, soon()) {
        Ok(Completion::Open(channel)) => channel,
        other => panic!("{other:?}"),
    })
}

fn packet(node: &TestNode, channel: Channel) -> Result<u64> {
    let packet = node.pktchan_recv(channel)?;
    let mut bytes = [0; 8];
    assert_eq!(packet.read(&mut bytes), 8);
    node.pktchan_release(packet.address())?;
    Ok(u64::from_le_bytes(bytes))
}

fn message(node: &TestNode, endpoint: Endpoint) -> Result<u64> {
    let (data, _) = node.msg_take(endpoint, 8)?;
    Ok(u64::from_le_bytes(data[..].try_into().unwrap()))
}

/// Let threads send numbers and as many threads take them, until nothing comes: each number is taken
/// once, and those of one sender by one receiver in order.
fn exchange(send: impl Fn(u64) -> Result<()> + Sync, take: impl Fn() -> Result<u64> + Sync) {
    let (send, take) = (&send, &take);
    let mut taken: Vec<u64> = thread::scope(|scope| {
        for sender in 0..THREADS {
            scope.spawn(move || {
                for number in 0..ITEMS {
                    send(u64::from(sender) << 32 | u64::from(number)).unwrap();
                }
            });
        }
        let receivers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(move || {
                    let (mut all, mut last) = (Vec::new(), [None; THREADS as usize]);
                    loop {
                        match take() {
                            Ok(number) => {
                                let last = &mut last[(number >> 32) as usize];
                                assert!(*last < Some(number), "{last:?} {number}");
                                *last = Some(number);
                                all.push(number);
                            }
                            Err(error) => break assert_eq!(error, Error::Timeout),
                        }
                    }
                    all
                })
            })
            .collect();
        let joined = receivers
            .into_iter()
            .map(|receiver| receiver.join().unwrap());
        joined.flatten().collect()
    });
    taken.sort_unstable();
    let senders = (0..u64::from(THREADS)).map(|sender| sender << 32);
    let all = senders.flat_map(|sender| (0..u64::from(ITEMS)).map(move |number| sender | number));
    assert!(taken.into_iter().eq(all), "each one once");
}

/// MC-GEN-8, MC-MSG-4, MC-CHAN-3: several receivers at an endpoint, and several threads that send and
/// receive by the same handles.
#[test]
fn threads_share_endpoints_and_handles() {
    // Longer than a sender is ever held up.
    const IDLE: u64 = 2000;
    for (_hosts, a, b) in Hosts::pairs() {
        let (from, to) = (endpoint(&a, None, 30_000), endpoint(&b, None, IDLE));
        exchange(
            |number| a.msg_send(from, to, &number.to_le_bytes(), 1),
            || message(&b, to),
        );
        let [send, receive] = channel(&a, &b, true, IDLE);
        exchange(
            |number| a.pktchan_send(send, &number.to_le_bytes()),
            || packet(&b, receive),
        );
        let [send, receive] = channel(&a, &b, false, IDLE);
        exchange(
            |number| a.sclchan_send(send, number),
            || b.sclchan_recv::<u64>(receive),
        );
    }
}

/// What a call of the storm may get whose node lives: others take endpoints away under it, and connect
/// them to what they like.
fn is_of_the_living(error: Error) -> bool {
    use Error::*;
    matches!(
        error,
        Timeout
            | EndpointInvalid
            | EndpointExists
            | EndpointDeleted
            | EndpointGetLimit
            | EndpointNotOwner
            | ChannelConnected
            | ChannelOpen
            | ChannelOpenPending
            | ChannelClosePending
            | ChannelType
            | ChannelDirection
            | General
            | Transmission
            | RequestCancelled
            | PortInvalid
            | MemoryLimit
    )
}

/// A request ends in one of the ways that there are, by a thread's own choice.
fn end(node: &TestNode, request: Request, way: u32) -> Result<()> {
    match way % 3 {
        0 => node.cancel(request).map(|_| ()),
        1 => match node.wait(request, Deadline::after(Duration::from_millis(5))) {
            Err(Error::Timeout) => node.cancel(request).map(|_| ()),
            other => other.map(|_| ()),
        },
        _ => match node.wait_any(&[request], Deadline::PAST) {
            Err(Error::Timeout) => node.cancel(request).map(|_| ()),
            other => other?.1.map(|_| ()),
        },
    }
}

/// What one of two nodes has in a storm.
struct Side<'a> {
    node: &'a TestNode,
    other: &'a TestNode,
    /// Handles of channels to the other node and from it, which all threads use: of packets and of scalars.
    out: [Channel; 2],
    into: [Channel; 2],
    begun: Instant,
}

impl Side<'_> {
    /// One of three ports from `first` on that all threads of both nodes use, and its endpoints. Other ports
    /// come from time to time: what is connected and never opened stays so.
    fn ends(&self, round: u32, first: u32) -> Result<(u32, Endpoint, Endpoint)> {
        let era = self.begun.elapsed().as_millis() as u32 / 50 % 50;
        let port = first + round / CALLS.len() as u32 % 3 + 4 * era;
        // Of a node that is finalized only this is known.
        let here = Endpoint::new(self.node.id()?, port).unwrap();
        let there = self.other.id();
        let there = there.map_or(here, |id| Endpoint::new(id, port).unwrap());
        Ok((port, here, there))
    }

    /// Begin to open an endpoint of all threads, or one of this thread, which is nobody else's to connect.
    fn open(&self, round: u32, open: impl Fn(Endpoint) -> Result<Request>) -> Result<()> {
        if round / CALLS.len() as u32 % 2 == 0 {
            return end(self.node, open(self.ends(round, CHANNELS)?.1)?, round);
        }
        let own = self.node.endpoint_create(None)?;
        let ended = open(own).and_then(|request| end(self.node, request, round));
        self.node.endpoint_delete(own).and(ended)
    }
}

/// The first port of what is connected, and of what messages are for: two ports are both.
const CHANNELS: u32 = 1;
const MESSAGES: u32 = 2;

/// A call of the storm; the number of the round chooses what it is made with.
type Call = fn(&Side<'_>, u32) -> Result<()>;

const CALLS: [(&str, Call); 24] = [
    ("create", |side, round| {
        side.node
            .endpoint_create(Some(side.ends(round, CHANNELS)?.0))
            .map(drop)
    }),
    ("create again", |side, round| {
        side.node
            .endpoint_create(Some(side.ends(round, MESSAGES)?.0))
            .map(drop)
    }),
    ("delete", |side, round| {
        side.node
            .endpoint_delete(side.ends(round, CHANNELS + round / 72 % 2)?.1)
    }),
    ("get_i", |side, round| {
        let (port, _, there) = side.ends(round, MESSAGES)?;
        let (domain, number) = (there.node().domain(), there.node().node());
        let request = side.node.endpoint_get_i(domain, number, port)?;
        end(side.node, request, round)
    }),
    ("get", |side, round| {
        let (port, here, _) = side.ends(round, MESSAGES)?;
        let (domain, number) = (here.node().domain(), here.node().node());
        let deadline = Deadline::after(Duration::from_millis(2));
        side.node
            .endpoint_get(domain, number, port, deadline)
            .map(drop)
    }),
    ("connect packets", |side, round| {
        let (_, here, there) = side.ends(round, CHANNELS)?;
        end(side.node, side.node.pktchan_connect_i(here, there)?, round)
    }),
    ("connect scalars", |side, round| {
        let (_, here, there) = side.ends(round, CHANNELS)?;
        end(side.node, side.node.sclchan_connect_i(there, here)?, round)
    }),
    ("open to send", |side, round| {
        side.open(round, |end| side.node.pktchan_send_open_i(end))
    }),
    ("open to receive", |side, round| {
        side.open(round, |end| side.node.sclchan_recv_open_i(end))
    }),
    ("post", |side, round| {
        let here = side.ends(round, MESSAGES)?.1;
        end(side.node, side.node.msg_recv_i(here, 8)?, round)
    }),
    ("send message", |side, round| {
        let (_, here, there) = side.ends(round, MESSAGES)?;
        side.node.msg_send(here, there, b"storm", round % 8)
    }),
    ("send message_i", |side, round| {
        let (_, here, there) = side.ends(round, MESSAGES)?;
        let request = side.node.msg_send_i(here, there, b"storm", round % 8)?;
        end(side.node, request, round)
    }),
    ("available", |side, round| {
        side.node
            .msg_available(side.ends(round, MESSAGES)?.1)
            .map(drop)
    }),
    ("ask", |side, round| {
        let there = side.ends(round, MESSAGES)?.2;
        side.node
            .endpoint_attribute(there, Attribute::Status)
            .map(drop)
    }),
    ("set", |side, round| {
        let here = side.ends(round, MESSAGES)?.1;
        side.node
            .set_endpoint_attribute(here, Attribute::Timeout, 5)
    }),
    ("wait for any", |side, round| {
        let here = side.ends(round, MESSAGES)?.1;
        let one = side.node.msg_recv_i(here, 8)?;
        let other = match side.node.msg_send_i(here, here, b"any", 1) {
            Ok(other) => other,
            Err(error) => return side.node.cancel(one).and(Err(error)),
        };
        let both = [one, other];
        let waited = side
            .node
            .wait_any(&both, Deadline::after(Duration::from_millis(2)));
        let over = waited.as_ref().ok().map(|(index, _)| both[*index]);
        for request in both.into_iter().filter(|request| Some(*request) != over) {
            side.node.cancel(request)?;
        }
        match waited {
            Ok((_, ended)) => ended.map(drop),
            Err(error) => Err(error),
        }
    }),
    ("send packet", |side, _| {
        side.node.pktchan_send(side.out[0], b"a packet")
    }),
    ("send packet_i", |side, round| {
        let request = side.node.pktchan_send_i(side.out[0], b"a packet")?;
        end(side.node, request, round)
    }),
    ("receive packet", |side, _| {
        packet(side.node, side.into[0]).map(drop)
    }),
    ("receive packet_i", |side, _| {
        let request = side.node.pktchan_recv_i(side.into[0])?;
        if let Some(Ok(Completion::Packet(packet))) = side.node.cancel(request)? {
            side.node.pktchan_release(packet.address())?;
        }
        Ok(())
    }),
    ("channels available", |side, _| {
        side.node.pktchan_available(side.into[0])?;
        side.node.sclchan_available(side.into[1]).map(drop)
    }),
    ("send scalar", |side, round| {
        side.node.sclchan_send(side.out[1], round)
    }),
    ("receive scalar", |side, _| {
        side.node.sclchan_recv::<u32>(side.into[1]).map(drop)
    }),
    ("open, use and close", |side, _| {
        let ends = [(); 2].map(|()| side.node.endpoint_create(None));
        let [Ok(from), Ok(to)] = ends else {
            // So many may be there at a time that none is left.
            return ends
                .into_iter()
                .flatten()
                .try_for_each(|end| side.node.endpoint_delete(end));
        };
        let wait = |request: Result<Request>| side.node.wait(request?, soon());
        wait(side.node.pktchan_connect_i(from, to))?;
        let opens = [
            side.node.pktchan_send_open_i(from),
            side.node.pktchan_recv_open_i(to),
        ];
        let [send, receive] = opens.map(|request| match wait(request) {
            Ok(Completion::Open(channel)) => Ok(channel),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        });
        let (send, receive) = (send?, receive?);
        side.node.pktchan_send(send, &7_u64.to_le_bytes())?;
        assert_eq!(packet(side.node, receive)?, 7);
        let closes = [
            side.node.pktchan_send_close_i(send),
            side.node.pktchan_recv_close_i(receive),
        ];
        for close in closes {
            wait(close)?;
        }
        [from, to]
            .into_iter()
            .try_for_each(|end| side.node.endpoint_delete(end))
    }),
];

/// How many of each call have succeeded.
type Counts = [AtomicU32; CALLS.len()];

/// Whether each has.
fn has_each(counts: &Counts) -> bool {
    counts.iter().all(|count| count.load(Ordering::Relaxed) > 0)
}

/// Calls of both nodes' threads until `stop`, each of which gets nothing else than `may` allows, while
/// something else is done. How many of each have succeeded.
fn storm(
    nodes: [&TestNode; 2],
    stop: &AtomicBool,
    may: impl Fn(usize, Error) -> bool + Sync,
    meanwhile: impl FnOnce(&Counts),
) -> Counts {
    let (may, done) = (&may, Counts::default());
    let both = [nodes, [nodes[1], nodes[0]]];
    let channels = both.map(|[a, b]| [true, false].map(|packets| channel(a, b, packets, 5)));
    let side = |at: usize| Side {
        node: nodes[at],
        other: nodes[1 - at],
        out: channels[at].map(|[send, _]| send),
        into: channels[1 - at].map(|[_, receive]| receive),
        begun: Instant::now(),
    };
    let sides = [side(0), side(1)];
    let (sides, counts) = (&sides, &done);
    thread::scope(|scope| {
        for (at, thread) in (0..2).flat_map(|at| (0..3).map(move |thread| (at, thread))) {
            scope.spawn(move || {
                let mut round: u32 = thread * 7;
                while !stop.load(Ordering::Relaxed) {
                    let number = round as usize % CALLS.len();
                    let (name, call) = CALLS[number];
                    match call(&sides[at], round) {
                        Ok(()) => {
                            counts[number].fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert!(may(at, error), "{at} {name}: {error:?}"),
                    }
                    round = round.wrapping_add(1);
                }
            });
        }
        meanwhile(counts);
        stop.store(true, Ordering::Relaxed);
    });
    done
}

/// MC-GEN-8: creating, getting, deleting, connecting, opening, closing, sending, receiving, cancelling and
/// asking at once, each with success as well. What is left is as good as new.
#[test]
fn threads_make_all_calls_at_once() {
    for (_hosts, a, b) in Hosts::pairs() {
        let stop = AtomicBool::new(false);
        let done = storm(
            [&a, &b],
            &stop,
            |_, error| is_of_the_living(error),
            |counts| {
                for round in 0..200 {
                    thread::sleep(Duration::from_millis(100));
                    if round > 15 && has_each(counts) {
                        break;
                    }
                }
            },
        );
        for ((name, _), count) in CALLS.iter().zip(done) {
            assert!(count.into_inner() > 0, "{name}");
        }
        let (from, to) = (endpoint(&a, None, 10_000), endpoint(&b, None, 10_000));
        a.msg_send(from, to, &7_u64.to_le_bytes(), 0).unwrap();
        assert_eq!(message(&b, to), Ok(7));
        let [send, receive] = channel(&a, &b, true, 10_000);
        a.pktchan_send(send, &8_u64.to_le_bytes()).unwrap();
        assert_eq!(packet(&b, receive), Ok(8));
    }
}

/// MC-FINAL-1, MC-FINAL-4, MC-GEN-3, MC-GEN-8: a node is finalized in the middle of that, by two threads
/// of which one does it: its own calls get NODE_NOTINIT or are cancelled, and those of the other node go
/// on.
#[test]
fn a_node_is_finalized_in_the_middle_of_a_storm() {
    for (_hosts, a, b) in Hosts::pairs() {
        let stop = AtomicBool::new(false);
        let may = |at, error| match (at, error) {
            (0, Error::NodeNotInit) => true,
            // To the other node it is as one that is not there, and channels to it have ended.
            (_, Error::NodeInvalid | Error::ChannelInvalid) => true,
            _ => is_of_the_living(error),
        };
        storm([&a, &b], &stop, may, |_| {
            thread::sleep(Duration::from_millis(500));
            let both = Barrier::new(2);
            let ends: Vec<_> = thread::scope(|scope| {
                let finalize = || {
                    both.wait();
                    a.finalize()
                };
                let threads = [scope.spawn(finalize), scope.spawn(finalize)];
                threads.map(|thread| thread.join().unwrap()).into()
            });
            assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
            assert!(ends.contains(&Err(Error::NodeNotInit)));
            thread::sleep(Duration::from_millis(300));
        });
        assert_eq!(a.id(), Err(Error::NodeNotInit));
        let [from, to] = [(); 2].map(|()| endpoint(&b, None, 10_000));
        b.msg_send(from, to, &9_u64.to_le_bytes(), 0).unwrap();
        assert_eq!(message(&b, to), Ok(9));
    }
}

/// MC-INIT-6, MC-GEN-8: of several that want a number at once, at most one has it at a time, and others
/// are told so; it is free again afterwards.
#[test]
fn several_want_a_number_at_once() {
    let hosts = Hosts::new();
    for _ in 0..20 {
        let all = Barrier::new(3);
        let got: Vec<_> = thread::scope(|scope| {
            let threads = [(); 3].map(|()| {
                scope.spawn(|| {
                    let fabric = hosts.fabric(Host::A);
                    all.wait();
                    let (topology, attributes) =
                        (hosts.topology.clone(), NodeAttributes::default());
                    mcapi::Node::with_fabric(fabric, topology, 0, 9, attributes)
                })
            });
            threads.map(|thread| thread.join().unwrap()).into()
        });
        let refused = got.iter().filter_map(|node| node.as_ref().err());
        assert!(refused.clone().all(|error| *error == Error::NodeInitFailed));
        assert_eq!(refused.count(), 2, "one has it");
    }
    assert_eq!(hosts.world.contexts(), 0);
}
