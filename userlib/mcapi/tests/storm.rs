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
        atomic::{AtomicBool, Ordering},
        Barrier,
    },
    thread,
    time::Duration,
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

/// One call of the storm after the other on the ports that all threads of both nodes use.
fn call(node: &TestNode, other: &TestNode, round: u32) -> Result<()> {
    let port = 1 + round / 3 % 4;
    // Of a node that is finalized only this is known.
    let here = Endpoint::new(node.id()?, port).unwrap();
    let there = other
        .id()
        .map_or(here, |id| Endpoint::new(id, port).unwrap());
    match round % 11 {
        0 | 1 => node.endpoint_create(Some(port)).map(|_| ()),
        2 => node.endpoint_delete(here),
        3 => {
            let (domain, number) = (there.node().domain(), there.node().node());
            end(node, node.endpoint_get_i(domain, number, port)?, round)
        }
        4 => end(node, node.pktchan_connect_i(here, there)?, round),
        5 => end(node, node.sclchan_connect_i(there, here)?, round),
        6 => end(node, node.pktchan_send_open_i(here)?, round),
        7 => end(node, node.msg_recv_i(here, 8)?, round),
        8 => node.msg_send(here, there, b"storm", round % 8),
        9 => node
            .endpoint_attribute(there, Attribute::Status)
            .map(|_| ()),
        _ => node.msg_available(here).map(|_| ()),
    }
}

/// Calls of both nodes' threads until `stop`, each of which gets nothing else than `may` allows.
fn storm(
    nodes: [&TestNode; 2],
    stop: &AtomicBool,
    may: impl Fn(usize, Error) -> bool + Sync,
    meanwhile: impl FnOnce(),
) {
    let may = &may;
    thread::scope(|scope| {
        for (at, thread) in (0..2).flat_map(|at| (0..3).map(move |thread| (at, thread))) {
            scope.spawn(move || {
                let mut round = thread * 7;
                while !stop.load(Ordering::Relaxed) {
                    if let Err(error) = call(nodes[at], nodes[1 - at], round) {
                        assert!(may(at, error), "{at} {round}: {error:?}");
                    }
                    round = round.wrapping_add(1);
                }
            });
        }
        meanwhile();
        stop.store(true, Ordering::Relaxed);
    });
}

/// MC-GEN-8: creating, getting, deleting, connecting, opening, cancelling and asking at once. What is
/// left is as good as new.
#[test]
fn threads_make_all_calls_at_once() {
    for (_hosts, a, b) in Hosts::pairs() {
        let stop = AtomicBool::new(false);
        storm(
            [&a, &b],
            &stop,
            |_, error| is_of_the_living(error),
            || thread::sleep(Duration::from_millis(1500)),
        );
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
            // To the other node it is as one that is not there.
            (1, Error::NodeInvalid) => true,
            _ => is_of_the_living(error),
        };
        storm([&a, &b], &stop, may, || {
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
