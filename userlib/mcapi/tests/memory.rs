// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes whose process has no memory for more than it has.

mod common;

use common::{soon, Hosts};
use mcapi::{
    Attribute, Channel, Completion, Endpoint, Error, Fabric, Node, NodeAttributes, Result,
    Topology, MESSAGE_MAX,
};
use mp_testing::{FakeDevice, Host, LimitedMemory, World};
use std::{
    panic,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

#[global_allocator]
static MEMORY: LimitedMemory = LimitedMemory::new();

/// One test at a time: all threads of a process share the limit.
static ONE: Mutex<()> = Mutex::new(());

/// Be the only test. One that fails needs memory to say so.
fn alone() -> MutexGuard<'static, ()> {
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        MEMORY.limit(usize::MAX);
        tell(info);
    }));
    one
}

/// A table of requests does not grow beyond this.
const SHORT: usize = 16 << 10;

/// A node on what has no model of a bridge, which has memory for what is on its way.
type PlainNode = Node<FakeDevice>;

/// One on each of two hosts.
fn plain_nodes() -> [PlainNode; 2] {
    let world = World::new(1, 8 << 20);
    world.set_loopback(8 << 20);
    [(Host::A, 0), (Host::B, 1)].map(|(host, domain)| {
        let fabric = Fabric::with_device(world.open(host));
        let attributes = NodeAttributes::default();
        Node::with_fabric(fabric, Topology::default(), domain, 1, attributes).unwrap()
    })
}

/// An endpoint whose packets have so many bytes at most, and whose calls wait so many milliseconds.
fn endpoint(node: &PlainNode, packet: usize, timeout: u32) -> Endpoint {
    let endpoint = node.endpoint_create(None).unwrap();
    for (attribute, value) in [
        (Attribute::MaxPayloadSize, packet as u64),
        (Attribute::Timeout, timeout.into()),
    ] {
        node.set_endpoint_attribute(endpoint, attribute, value)
            .unwrap();
    }
    endpoint
}

/// Both ends of a packet channel, with as many packets as it has slots for.
fn full_channel(a: &PlainNode, b: &PlainNode, packet: &[u8], timeout: u32) -> [Channel; 2] {
    let [from, into] = [a, b].map(|node| endpoint(node, packet.len(), timeout));
    let connected = a.pktchan_connect_i(from, into).unwrap();
    a.wait(connected, soon()).unwrap();
    let (sends, receives) = (a.pktchan_send_open_i(from), b.pktchan_recv_open_i(into));
    let ends = [(a, sends), (b, receives)].map(|(node, request)| {
        match node.wait(request.unwrap(), soon()) {
            Ok(Completion::Open(channel)) => channel,
            other => panic!("{other:?}"),
        }
    });
    let one_waits = loop {
        let sent = a.pktchan_send_i(ends[0], packet).unwrap();
        match a.test(sent).unwrap() {
            Some(_) => a.wait(sent, soon()).unwrap(),
            None => break sent,
        };
    };
    a.cancel(one_waits).unwrap();
    ends
}

/// A call that there is no memory for returns when its time is over, and not with anything else.
fn takes_its_time(call: impl FnOnce() -> Result<()>) {
    let begun = Instant::now();
    assert_eq!(call(), Err(Error::Timeout));
    assert!(begun.elapsed() >= Duration::from_millis(50));
}

/// MC-MSGSEND-2, MC-PKTSEND-1, MC-TMO-1: calls that send wait until there is memory for the copy of what is
/// sent, as long as their endpoint says; a packet needs none once there is a slot.
#[test]
fn sends_that_wait_do_so_for_memory() {
    let _one = alone();
    let [a, b] = plain_nodes();
    let long = vec![7; MESSAGE_MAX];
    let [hasty, patient] = [50, u32::MAX].map(|timeout| endpoint(&a, long.len(), timeout));
    let to = endpoint(&b, long.len(), u32::MAX);
    let [hasty_send, _] = full_channel(&a, &b, &long, 50);
    let [send, receives] = full_channel(&a, &b, &long, u32::MAX);
    // Of all that is there meanwhile nothing is as large.
    MEMORY.limit(MESSAGE_MAX - 1);
    takes_its_time(|| a.msg_send(hasty, to, &long, 1));
    takes_its_time(|| a.pktchan_send(hasty_send, &long));
    thread::scope(|scope| {
        let message = scope.spawn(|| a.msg_send(patient, to, &long, 1));
        let packet = scope.spawn(|| a.pktchan_send(send, &long));
        thread::sleep(Duration::from_millis(100));
        assert!(!message.is_finished() && !packet.is_finished());
        let taken = b.pktchan_recv(receives).unwrap();
        b.pktchan_release(taken.address()).unwrap();
        assert_eq!(packet.join().unwrap(), Ok(()));
        assert!(!message.is_finished());
        MEMORY.limit(usize::MAX);
        assert_eq!(message.join().unwrap(), Ok(()));
    });
    assert_eq!(*b.msg_take(to, MESSAGE_MAX).unwrap().0, long);
    assert_eq!(b.msg_available(to), Ok(0));
}

/// MC-MSG-6: a message that the receiver has no memory for is discarded and counted, and ends nothing; the
/// next one arrives.
#[test]
fn a_message_that_there_is_no_memory_for_is_discarded() {
    let _one = alone();
    let [a, b] = plain_nodes();
    let [from, to] = [&a, &b].map(|node| endpoint(node, MESSAGE_MAX, u32::MAX));
    // One more than there is room for, and one behind it, both copied.
    let mut count = 0;
    let waits = loop {
        count += 1;
        let sent = a.msg_send_i(from, to, &[1; SHORT / 2], 1).unwrap();
        match a.test(sent).unwrap() {
            Some(_) => a.wait(sent, soon()).unwrap(),
            None => break sent,
        };
    };
    let long = a.msg_send_i(from, to, &vec![2; MESSAGE_MAX], 1).unwrap();
    // Of all that is there meanwhile nothing is as large.
    MEMORY.limit(MESSAGE_MAX - 1);
    let take = || b.msg_take(to, 1).unwrap().0[0];
    assert!((0..count).all(|_| take() == 1));
    for (request, size) in [(waits, SHORT / 2), (long, MESSAGE_MAX)] {
        assert_eq!(a.wait(request, soon()), Ok(Completion::Sent(size)));
    }
    a.msg_send(from, to, b"\x03", 1).unwrap();
    assert_eq!(take(), 3);
    assert_eq!(b.discarded(), Ok(1));
    MEMORY.limit(usize::MAX);
}

/// MC-MSGRECVI-2, MC-PKTRECVI-2, MC-PKTSENDI-3, MC-MSGRECV-6, MC-PKTRECV-2: operations that do not wait are
/// refused where there is no memory for their request, and take nothing; calls that wait do so, and end as
/// they should.
#[test]
fn without_memory_nothing_is_begun_and_nothing_lost() {
    let _one = alone();
    let hosts = Hosts::new();
    let (a, b) = (hosts.node(Host::A, 1), hosts.node(Host::B, 2));
    let [own, from] = [(); 2].map(|()| a.endpoint_create(None).unwrap());
    let [to, into] = [(); 2].map(|()| b.endpoint_create(None).unwrap());
    for (node, end) in [(&a, from), (&b, into)] {
        node.set_endpoint_attribute(end, Attribute::MaxPayloadSize, 64)
            .unwrap();
    }
    let connected = a.pktchan_connect_i(from, into).unwrap();
    a.wait(connected, soon()).unwrap();
    let (sends, receives) = (a.pktchan_send_open_i(from), b.pktchan_recv_open_i(into));
    let opened = [(&a, sends), (&b, receives)].map(|(node, request)| {
        match node.wait(request.unwrap(), soon()) {
            Ok(Completion::Open(channel)) => channel,
            other => panic!("{other:?}"),
        }
    });
    let [send, receives] = opened;
    let elsewhere = b.endpoint_create(None).unwrap();
    let take = || b.msg_take(to, 8).unwrap().0;

    let long = vec![0; 2 * SHORT];
    let mut posted = Vec::with_capacity(2 * 4096);
    MEMORY.limit(SHORT);
    let refused = loop {
        match b.msg_recv_i(elsewhere, 8) {
            Ok(request) => posted.push(request),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::MemoryLimit);
    assert!(posted.len() > 32 && posted.len() < 4096);
    assert_eq!(b.pktchan_recv_i(receives), Err(Error::MemoryLimit));
    while let Ok(request) = a.msg_recv_i(own, 8) {
        posted.push(request);
    }
    assert_eq!(a.pktchan_send_i(send, b"none"), Err(Error::MemoryLimit));
    // Also more often than there are buffers for what is sent: none is lost.
    for _ in 0..1024 {
        assert_eq!(a.msg_send_i(own, to, b"none", 1), Err(Error::MemoryLimit));
        assert_eq!(a.msg_send_i(own, to, &long, 1), Err(Error::MemoryLimit));
    }
    a.msg_send(own, to, b"message", 1).unwrap();
    a.pktchan_send(send, b"packet").unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(b.msg_recv_i(to, 8), Err(Error::MemoryLimit));
    assert_eq!(b.pktchan_recv_i(receives), Err(Error::MemoryLimit));
    assert_eq!(take()[..], *b"message");
    let packet = b.pktchan_recv(receives).unwrap();
    assert_eq!(packet.len(), 6);
    b.pktchan_release(packet.address()).unwrap();
    // Calls that have to wait.
    thread::scope(|scope| {
        let message = scope.spawn(take);
        let packet = scope.spawn(|| b.pktchan_recv(receives).map(|packet| packet.len()));
        thread::sleep(Duration::from_millis(100));
        assert!(!message.is_finished() && !packet.is_finished());
        a.msg_send(own, to, b"later", 1).unwrap();
        a.pktchan_send(send, b"later").unwrap();
        assert_eq!(message.join().unwrap()[..], *b"later");
        assert_eq!(packet.join().unwrap(), Ok(5));
    });
    MEMORY.limit(usize::MAX);
    let again = b.msg_recv_i(to, 8).unwrap();
    let sent = a.msg_send_i(own, to, b"again", 1).unwrap();
    assert_eq!(a.wait(sent, soon()), Ok(Completion::Sent(5)));
    assert_eq!(b.wait(again, soon()).unwrap().size(), 5);
}
