// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes whose process has no memory for more than it has. The file has one test, for all threads of its
//! process share the limit.

mod common;

use common::{soon, Hosts};
use mcapi::{Attribute, Completion, Error};
use mp_testing::{Host, LimitedMemory};
use std::{thread, time::Duration};

#[global_allocator]
static MEMORY: LimitedMemory = LimitedMemory::new();

/// A table of requests does not grow beyond this.
const SHORT: usize = 16 << 10;

/// MC-MSGRECVI-2, MC-PKTRECVI-2, MC-PKTSENDI-3, MC-MSGRECV-6, MC-PKTRECV-2, MC-MSGSEND-2: operations that do not wait are
/// refused where there is no memory for their request, and take nothing; calls that wait do so, and end as
/// they should.
#[test]
fn without_memory_nothing_is_begun_and_nothing_lost() {
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
    // Nor is there memory for the copy of a long message.
    assert_eq!(a.msg_send(own, to, &long, 1), Err(Error::MemoryLimit));
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
