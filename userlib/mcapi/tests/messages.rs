// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages between nodes of one host and of two.

mod common;

use common::{briefly, get, receive, soon, Hosts, TestNode};
use mcapi::{Attribute, Completion, Deadline, Endpoint, Error, MESSAGE_MAX, RECEIVE_BUFFERS};
use mp_testing::Host;
use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

/// Longer than service threads look for who may have stopped.
const REST: Duration = Duration::from_millis(400);

fn raw(endpoint: Endpoint) -> [u8; 8] {
    endpoint.to_raw().to_le_bytes()
}

fn of_raw(bytes: &[u8]) -> Endpoint {
    let raw = u64::from_le_bytes(bytes.try_into().unwrap());
    Endpoint::from_raw(raw).unwrap()
}

/// MC-MSG-1, MC-GEN-11, MC-MSGSEND-1, MC-MSGRECV-1, MC-EPGET-4: any length, both ways.
#[test]
fn messages_cross_whole_and_both_ways() {
    for (_hosts, a, b) in Hosts::pairs() {
        let (here, there) = (
            a.endpoint_create(Some(0)).unwrap(),
            b.endpoint_create(None).unwrap(),
        );
        assert_eq!(get(&a, there), there);
        assert_eq!(get(&b, here), here);
        for len in [0, 1, 40, 300, 4096, 4097, 20_000, MESSAGE_MAX] {
            let data: Vec<u8> = (0..len).map(|n| (n % 249) as u8).collect();
            for ((from, own), (to, other)) in [((&a, here), (&b, there)), ((&b, there), (&a, here))]
            {
                from.msg_send(own, other, &data, 3).unwrap();
                assert!(receive(to, other) == data, "{len} bytes");
            }
        }
        let long = vec![0; MESSAGE_MAX + 1];
        assert_eq!(a.msg_send(here, there, &long, 0), Err(Error::MessageSize));
        a.set_endpoint_attribute(here, Attribute::MaxPayloadSize, 9)
            .unwrap();
        assert_eq!(
            a.msg_send(here, there, &[0; 10], 0),
            Err(Error::MessageSize)
        );
        a.msg_send(here, there, &[0; 9], 0).unwrap();
        assert_eq!(receive(&b, there).len(), 9);
    }
}

/// MC-MSG-10: buffers that a receive gives back are told of at once, also if the node makes no other
/// call: a sender that sleeps for them goes on.
#[test]
fn buffers_that_are_free_are_told_of_without_another_call() {
    for (_hosts, a, b) in Hosts::pairs() {
        for receiver in [&b, &a] {
            let from = a.endpoint_create(None).unwrap();
            let to = receiver.endpoint_create(None).unwrap();
            a.set_endpoint_attribute(from, Attribute::Timeout, 10_000)
                .unwrap();
            for _ in 0..RECEIVE_BUFFERS {
                a.msg_send(from, to, b"fills", 1).unwrap();
            }
            while receiver.msg_available(to).unwrap() < RECEIVE_BUFFERS as usize {}
            thread::scope(|scope| {
                let sends = scope.spawn(|| a.msg_send(from, to, b"waits", 1));
                // Until all threads sleep.
                thread::sleep(REST);
                assert!(!sends.is_finished());
                for _ in 0..RECEIVE_BUFFERS / 4 {
                    receiver.msg_take(to, 8).unwrap();
                }
                let begun = Instant::now();
                assert_eq!(sends.join().unwrap(), Ok(()));
                // A node looks after sessions at longer intervals anyhow.
                assert!(begun.elapsed() < Duration::from_secs(1));
            });
        }
    }
}

/// MC-MSG-12, TS-2: three nodes on two hosts; a handle that came in a message is as good as one
/// that was asked for.
#[test]
fn a_handle_in_a_message_is_usable_at_once() {
    let hosts = Hosts::new();
    let root = hosts.node(Host::A, 0);
    let others = [hosts.node(Host::A, 1), hosts.node(Host::B, 1)];
    let register = root.endpoint_create(Some(0)).unwrap();
    let own = others
        .each_ref()
        .map(|node| node.endpoint_create(None).unwrap());
    for (node, own) in others.iter().zip(own) {
        node.msg_send(own, get(node, register), &raw(own), 0)
            .unwrap();
    }
    let mut known = [0, 1].map(|_| of_raw(&receive(&root, register)));
    known.sort_unstable();
    assert_eq!(known, own);
    for own in own {
        root.msg_send(register, own, &known.map(raw).concat(), 1)
            .unwrap();
    }
    let told = [0, 1].map(|n| receive(&others[n], own[n]));
    for ((node, own), told) in others.iter().zip(own).zip(told) {
        let mut told = told.chunks(8).map(of_raw);
        let peer = told.find(|peer| *peer != own).unwrap();
        node.msg_send(own, peer, b"hello", 7).unwrap();
    }
    for (node, own) in others.iter().zip(own) {
        assert_eq!(receive(node, own), b"hello");
    }
}

/// MC-MSG-10, MC-MSG-13, MC-ATTR-6, TS-10: a full endpoint keeps its own messages waiting, and no
/// urgent ones and no other endpoint's; the sender sees how many buffers are left.
#[test]
fn a_full_endpoint_delays_nobody() {
    for (_hosts, a, b) in Hosts::pairs() {
        let from = a.endpoint_create(None).unwrap();
        let [full, free] = [1, 2].map(|port| b.endpoint_create(Some(port)).unwrap());
        for n in 0..RECEIVE_BUFFERS {
            let left = a.endpoint_attribute(full, Attribute::NumRecvBuffers);
            assert_eq!(left, Ok(u64::from(RECEIVE_BUFFERS - n)));
            a.msg_send(from, full, &[n as u8], 7).unwrap();
        }
        let waiting = a.msg_send_i(from, full, b"waiting", 7).unwrap();
        assert_eq!(a.wait(waiting, briefly()), Err(Error::Timeout));
        a.msg_send(from, full, b"urgent", 0).unwrap();
        a.msg_send(from, free, b"elsewhere", 7).unwrap();
        assert_eq!(receive(&b, free), b"elsewhere");
        assert_eq!(receive(&b, full), b"urgent");
        for n in 0..RECEIVE_BUFFERS {
            assert_eq!(receive(&b, full), [n as u8]);
        }
        assert_eq!(a.wait(waiting, soon()), Ok(Completion::Sent(7)));
        assert_eq!(receive(&b, full), b"waiting");
    }
}

/// MC-TMO-1, MC-TMO-2, MC-TMO-4, MC-MSGSEND-3, MC-MSGRECV-4: the attribute says how long calls
/// wait; what has timed out has done nothing.
#[test]
fn blocking_calls_wait_as_long_as_the_endpoint_says() {
    for (_hosts, a, b) in Hosts::pairs() {
        let from = a.endpoint_create(None).unwrap();
        let to = b.endpoint_create(Some(1)).unwrap();
        for n in 0..RECEIVE_BUFFERS {
            a.msg_send(from, to, &[n as u8], 7).unwrap();
        }
        for milliseconds in [0, 50] {
            let timeout = Duration::from_millis(milliseconds);
            a.set_endpoint_attribute(from, Attribute::Timeout, milliseconds)
                .unwrap();
            let begun = Instant::now();
            assert_eq!(a.msg_send(from, to, b"late", 7), Err(Error::Timeout));
            assert_eq!(a.msg_recv(from, &mut []), Err(Error::Timeout));
            assert!(begun.elapsed() >= 2 * timeout);
        }
        for n in 0..RECEIVE_BUFFERS {
            assert_eq!(receive(&b, to), [n as u8]);
        }
        b.set_endpoint_attribute(to, Attribute::Timeout, 50)
            .unwrap();
        assert_eq!(b.msg_recv(to, &mut []), Err(Error::Timeout));
        a.msg_send(from, to, b"in time", 7).unwrap();
        b.set_endpoint_attribute(to, Attribute::Timeout, u32::MAX.into())
            .unwrap();
        assert_eq!(receive(&b, to), b"in time");
    }
}

/// A node that sleeps is woken although the kernel has no memory for that at first, and the session
/// goes on.
#[test]
fn a_signal_without_memory_is_tried_again() {
    for (hosts, a, b) in Hosts::pairs() {
        let (from, to) = (
            a.endpoint_create(None).unwrap(),
            b.endpoint_create(None).unwrap(),
        );
        a.msg_send(from, to, b"first", 1).unwrap();
        assert_eq!(receive(&b, to), b"first");
        for _ in 0..5 {
            thread::scope(|scope| {
                let waits = scope.spawn(|| receive(&b, to));
                // Long enough for the service thread to ask for a signal.
                thread::sleep(Duration::from_millis(60));
                hosts.world.fail_signals(2);
                let begun = Instant::now();
                a.msg_send(from, to, b"wake", 1).unwrap();
                assert_eq!(waits.join().unwrap(), b"wake");
                assert!(begun.elapsed() < Duration::from_secs(10));
            });
        }
    }
}

/// MC-MSGRECV-3, MC-MSGAVAIL-1, MC-TEST-1, MC-TEST-2
#[test]
fn receives_are_posted_tested_and_cut_short() {
    for (_hosts, a, b) in Hosts::pairs() {
        let (from, to) = (
            a.endpoint_create(None).unwrap(),
            b.endpoint_create(None).unwrap(),
        );
        let posted = b.msg_recv_i(to, 3).unwrap();
        assert_eq!(b.test(posted), Ok(None));
        for text in ["short", "shorter", "shortest"] {
            a.msg_send(from, to, text.as_bytes(), 2).unwrap();
        }
        let done = loop {
            if let Some(done) = b.test(posted).unwrap() {
                break done;
            }
        };
        let (data, is_truncated) = (Arc::new(b"sho".to_vec()), true);
        assert_eq!(done, Completion::Message { data, is_truncated });
        assert_eq!(b.wait(posted, Deadline::PAST), Ok(done));
        assert_eq!(b.test(posted), Err(Error::RequestInvalid));
        while b.msg_available(to).unwrap() < 2 {}
        let mut room = [0; 4];
        let received = b.msg_recv(to, &mut room).unwrap();
        assert_eq!(
            (received.size, received.is_truncated, &room),
            (4, true, b"shor")
        );
        assert_eq!(receive(&b, to), b"shortest");
    }
}

/// TS-10 and waking: both ends sleep, and messages wake them.
#[test]
fn messages_wake_threads_that_sleep() {
    for (_hosts, a, b) in Hosts::pairs() {
        let (from, to) = (
            a.endpoint_create(None).unwrap(),
            b.endpoint_create(None).unwrap(),
        );
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..5 {
                    let got = receive(&b, to);
                    b.msg_send(to, from, &got, 1).unwrap();
                }
            });
            for n in 0..5 {
                // Longer than anybody looks.
                thread::sleep(Duration::from_millis(40));
                a.msg_send(from, to, &[n], 1).unwrap();
                assert_eq!(receive(&a, from), [n]);
            }
        });
    }
}

/// MC-GEN-8, MC-MSG-4: several threads in each of three nodes on two hosts, all to all; each
/// message arrives once, and in the order of its sender and priority.
#[test]
fn many_threads_of_many_nodes_lose_and_double_nothing() {
    const MESSAGES: u32 = 120;
    const PRIORITIES: [u32; 2] = [0, 5];
    let hosts = Hosts::new();
    let nodes = [
        hosts.node(Host::A, 0),
        hosts.node(Host::A, 1),
        hosts.node(Host::B, 0),
    ];
    let endpoints = nodes
        .each_ref()
        .map(|node| node.endpoint_create(Some(1)).unwrap());
    let total = nodes.len() * PRIORITIES.len() * MESSAGES as usize;
    let received = AtomicUsize::new(0);
    let send = &|index: usize, node: &TestNode, priority: u32| {
        let own = node.endpoint_create(None).unwrap();
        for n in 0..MESSAGES {
            for to in endpoints {
                let mut data = vec![index as u8, priority as u8];
                data.extend(n.to_le_bytes());
                data.resize(6 + (n as usize * 37) % 6000, n as u8);
                node.msg_send(own, to, &data, priority).unwrap();
            }
        }
    };
    let take = &|node: &TestNode, own: Endpoint| {
        let mut last = [[None; 8]; 3];
        for _ in 0..total {
            let data = receive(node, own);
            let n = u32::from_le_bytes(data[2..6].try_into().unwrap());
            assert_eq!(data.len(), 6 + (n as usize * 37) % 6000);
            assert!(data[6..].iter().all(|byte| *byte == n as u8));
            let last = &mut last[usize::from(data[0])][usize::from(data[1])];
            assert_eq!(*last, n.checked_sub(1));
            *last = Some(n);
            received.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(node.msg_available(own), Ok(0));
    };
    thread::scope(|scope| {
        for (index, node) in nodes.iter().enumerate() {
            for priority in PRIORITIES {
                scope.spawn(move || send(index, node, priority));
            }
            scope.spawn(move || take(node, endpoints[index]));
        }
    });
    assert_eq!(received.into_inner(), nodes.len() * total);
    assert!(nodes.iter().all(|node| node.discarded() == Ok(0)));
}

/// MC-TMO-4, MC-GEN-9: a long message that does not wait is sent wholly, or times out and is not
/// sent at all, also if it has begun to leave when the time is over.
#[test]
fn a_long_message_is_sent_wholly_or_not_at_all() {
    for (_hosts, a, b) in Hosts::pairs() {
        let from = a.endpoint_create(None).unwrap();
        let to = b.endpoint_create(Some(1)).unwrap();
        get(&a, to);
        a.set_endpoint_attribute(from, Attribute::Timeout, 0)
            .unwrap();
        let mut sent = Vec::new();
        for n in 0..60 {
            match a.msg_send(from, to, &vec![n; MESSAGE_MAX], 4) {
                Ok(()) => sent.push(n),
                Err(error) => assert_eq!(error, Error::Timeout),
            }
            if n % 3 == 0 && !sent.is_empty() {
                assert!(receive(&b, to) == vec![sent.remove(0); MESSAGE_MAX]);
            }
        }
        for n in sent {
            assert!(receive(&b, to) == vec![n; MESSAGE_MAX]);
        }
        b.set_endpoint_attribute(to, Attribute::Timeout, 50)
            .unwrap();
        assert_eq!(b.msg_recv(to, &mut []), Err(Error::Timeout));
    }
}
