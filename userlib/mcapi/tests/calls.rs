// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls of the device that messages and channels take.

mod common;

use common::Hosts;
use mcapi::{
    Channel, Completion, Deadline, Endpoint, Fabric, Node, NodeAttributes, Request, Topology,
};
use mp_fabric::{sys::mp_event, Call, Device, Errno, Map, Protection};
use mp_testing::{BridgeDevice, Host};
use std::{
    cell::Cell,
    os::fd::BorrowedFd,
    sync::{
        atomic::{AtomicU32, Ordering},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

thread_local! {
    /// Calls that this thread has made.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// A device that counts the calls of each thread, and all of them.
struct Counting(BridgeDevice, Arc<AtomicU32>);

impl Device for Counting {
    type Remote = <BridgeDevice as Device>::Remote;

    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        CALLS.set(CALLS.get() + 1);
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.call(call)
    }

    fn map<P: Protection>(&self, offset: u64, len: u64, hint: usize) -> Result<Map<P>, Errno> {
        self.0.map(offset, len, hint)
    }

    fn remote(&self, map: Map) -> Self::Remote {
        self.0.remote(map)
    }

    fn read(&self, events: &mut Vec<mp_event>) -> Result<(), Errno> {
        self.0.read(events)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}

/// A node, and the number of its calls.
fn counting(hosts: &Hosts, host: Host, number: u32) -> (Node<Counting>, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let device = hosts.bridge.device(hosts.world.open(host));
    let fabric = Fabric::with_device(Counting(device, Arc::clone(&calls)));
    let (topology, attributes) = (Topology::default(), NodeAttributes::default());
    let node = Node::with_fabric(fabric, topology, host as u32, number, attributes);
    (node.unwrap(), calls)
}

const ROUNDS: u32 = 300;

/// So many rounds of a message there and one back; the calls of this thread.
fn play(node: &Node<Counting>, own: Endpoint, other: Endpoint, serves: bool) -> u32 {
    let before = CALLS.get();
    let mut room = [0; 64];
    for _ in 0..ROUNDS {
        if serves {
            node.msg_send(own, other, b"there", 1).unwrap();
        }
        while node.msg_available(own).unwrap() == 0 {}
        node.msg_recv(own, &mut room).unwrap();
        if !serves {
            node.msg_send(own, other, b"back", 1).unwrap();
        }
    }
    CALLS.get() - before
}

/// While threads at both ends look, messages cross without a call: of the same host and of two.
/// Threads that the machine keeps from looking for a while are signalled: not in all games.
#[test]
fn messages_take_no_call_while_both_ends_look() {
    for host in [Host::A, Host::B] {
        let hosts = Hosts::new();
        let (a, b) = (counting(&hosts, Host::A, 1).0, counting(&hosts, host, 2).0);
        let here = a.endpoint_create(Some(1)).unwrap();
        let there = b.endpoint_create(Some(1)).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let calls = thread::scope(|scope| {
                let back = scope.spawn(|| play(&b, there, here, false));
                play(&a, here, there, true) + back.join().unwrap()
            });
            if calls == 0 {
                break;
            }
            assert!(Instant::now() < until, "{calls} calls in {ROUNDS} rounds");
        }
    }
}

/// Open a channel for packets or scalars from one node to another one.
fn channel(from: &Node<Counting>, to: &Node<Counting>, is_scalar: bool) -> [Channel; 2] {
    let done = |node: &Node<Counting>, request: Request| {
        let deadline = Deadline::after(Duration::from_secs(30));
        node.wait(request, deadline).unwrap()
    };
    let ends = [from, to].map(|node| node.endpoint_create(None).unwrap());
    let connected = match is_scalar {
        true => from.sclchan_connect_i(ends[0], ends[1]),
        false => from.pktchan_connect_i(ends[0], ends[1]),
    };
    done(from, connected.unwrap());
    let opens = match is_scalar {
        true => [
            from.sclchan_send_open_i(ends[0]),
            to.sclchan_recv_open_i(ends[1]),
        ],
        false => [
            from.pktchan_send_open_i(ends[0]),
            to.pktchan_recv_open_i(ends[1]),
        ],
    };
    let [send, receive] = opens.map(Result::unwrap);
    [done(from, send), done(to, receive)].map(|done| match done {
        Completion::Open(channel) => channel,
        other => panic!("{other:?}"),
    })
}

/// So many rounds of a packet or a scalar there and one back; the calls of this thread.
fn play_channels(
    node: &Node<Counting>,
    [send, receive]: [Channel; 2],
    is_scalar: bool,
    serves: bool,
) -> u32 {
    let before = CALLS.get();
    let put = |n: u32| match is_scalar {
        true => node.sclchan_send(send, n).unwrap(),
        false => node.pktchan_send(send, &n.to_le_bytes()).unwrap(),
    };
    for n in 0..ROUNDS {
        if serves {
            put(n);
        }
        if is_scalar {
            assert_eq!(node.sclchan_recv(receive), Ok(n));
        } else {
            let packet = node.pktchan_recv(receive).unwrap();
            assert_eq!(packet.len(), 4);
            node.pktchan_release(packet.address()).unwrap();
        }
        if !serves {
            put(n);
        }
    }
    CALLS.get() - before
}

/// The same for packets and scalars: blocking calls, which look for 10 ms.
#[test]
fn channels_take_no_call_while_both_ends_look() {
    for (host, is_scalar) in [Host::A, Host::B]
        .into_iter()
        .flat_map(|h| [(h, false), (h, true)])
    {
        let hosts = Hosts::new();
        let (a, b) = (counting(&hosts, Host::A, 1).0, counting(&hosts, host, 2).0);
        let (there, back) = (channel(&a, &b, is_scalar), channel(&b, &a, is_scalar));
        let (of_a, of_b) = ([there[0], back[1]], [back[0], there[1]]);
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let calls = thread::scope(|scope| {
                let other = scope.spawn(|| play_channels(&b, of_b, is_scalar, false));
                play_channels(&a, of_a, is_scalar, true) + other.join().unwrap()
            });
            if calls == 0 {
                break;
            }
            assert!(Instant::now() < until, "{calls} calls in {ROUNDS} rounds");
        }
    }
}

/// Ends that wait for a packet and for a scalar sleep, and are woken.
#[test]
fn channels_without_data_sleep() {
    for host in [Host::A, Host::B] {
        let hosts = Hosts::new();
        let [(a, of_a), (b, of_b)] = [(Host::A, 1), (host, 2)].map(|(h, n)| counting(&hosts, h, n));
        let (packets, scalars) = (channel(&a, &b, false), channel(&a, &b, true));
        thread::scope(|scope| {
            let packet = scope.spawn(|| b.pktchan_recv(packets[1]).map(|packet| packet.len()));
            let scalar = scope.spawn(|| b.sclchan_recv(scalars[1]));
            thread::sleep(Duration::from_millis(300));
            let calls = || [&of_a, &of_b].map(|calls| calls.load(Ordering::Relaxed));
            let before = calls();
            thread::sleep(Duration::from_millis(1000));
            let after = calls();
            a.pktchan_send(packets[0], b"wake").unwrap();
            a.sclchan_send(scalars[0], 7_u16).unwrap();
            assert_eq!(packet.join().unwrap(), Ok(4));
            assert_eq!(scalar.join().unwrap(), Ok(7_u16));
            for (before, after) in before.into_iter().zip(after) {
                assert!(after - before <= 40, "{before:?} {after:?}");
            }
        });
    }
}

/// Nodes that have a session, of which one waits for a message and one for a node that does not
/// come, make next to no calls: they look for the node from time to time.
#[test]
fn nodes_without_messages_sleep() {
    for host in [Host::A, Host::B] {
        let hosts = Hosts::new();
        let [(a, of_a), (b, of_b)] = [(Host::A, 1), (host, 2)].map(|(h, n)| counting(&hosts, h, n));
        let (here, there) = (
            a.endpoint_create(None).unwrap(),
            b.endpoint_create(None).unwrap(),
        );
        a.msg_send(here, there, b"", 1).unwrap();
        b.msg_recv(there, &mut []).unwrap();
        b.endpoint_get_i(1, 99, 1).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| b.msg_recv(there, &mut []).unwrap());
            thread::sleep(Duration::from_millis(300));
            let calls = || [&of_a, &of_b].map(|calls| calls.load(Ordering::Relaxed));
            let before = calls();
            thread::sleep(Duration::from_millis(1000));
            let after = calls();
            a.msg_send(here, there, b"", 1).unwrap();
            // Of B, two looks for the node with some calls each.
            assert!(after[0] - before[0] <= 40, "{before:?} {after:?}");
            assert!(after[1] - before[1] <= 80, "{before:?} {after:?}");
        });
    }
}
