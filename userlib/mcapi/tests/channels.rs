// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packet and scalar channels between nodes.

mod common;

use common::{
    briefly,
    ends::{bytes, close, endpoints, open, packets, scalars, take, until},
    receive, soon, Hosts,
};
use mcapi::{Attribute, Channel, Completion, Error, Packet, PACKET_MAX, STATUS_OPEN};
use mp_fabric::Errno;
use mp_testing::Host;
use std::{
    thread,
    time::{Duration, Instant},
};

/// MC-PKTSEND-2, MC-PKTRECV-3, MC-GEN-11, MC-BUF-2, MC-BUF-6: packets of any size, whole and in
/// order.
#[test]
fn packets_arrive_whole_and_in_order() {
    for (_hosts, a, b) in Hosts::pairs() {
        let ends = packets(&a, &b, &[]);
        let sizes = [0, 1, 63, 64, 65, 240, 4096, 10_000, PACKET_MAX];
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..10_u8 {
                    for size in sizes {
                        ends.a.pktchan_send(ends.send, &vec![round; size]).unwrap();
                    }
                }
            });
            for round in 0..10 {
                for size in sizes {
                    let packet = ends.b.pktchan_recv(ends.receive).unwrap();
                    assert_eq!(bytes(&packet), vec![round; size]);
                    packet.memory().copy_from(&vec![!round; size]);
                    assert_eq!(bytes(&packet), vec![!round; size]);
                    ends.b.pktchan_release(packet.address()).unwrap();
                }
            }
        });
        let long = vec![0; PACKET_MAX + 1];
        assert_eq!(a.pktchan_send(ends.send, &long), Err(Error::PacketSize));
        let long = a.pktchan_send_i(ends.send, &long);
        assert_eq!(long, Err(Error::PacketSize));
    }
}

/// MC-PKTREL-1 to MC-PKTREL-5, MC-PKTRELTEST-4, MC-BUF-1, MC-PKTRECV-2, MC-PKTAVAIL-1: packets stay
/// where they have arrived until they are released, in any order.
#[test]
fn buffers_are_given_back_in_any_order() {
    for (_hosts, a, b) in Hosts::pairs() {
        let small = (Attribute::MaxPayloadSize, 64);
        let ends = packets(&a, &b, &[small, (Attribute::Timeout, 500)]);
        let mut sent = 0_u8;
        while a.pktchan_send(ends.send, &[sent; 64]).is_ok() {
            sent += 1;
        }
        assert_eq!(sent, 16);
        while b.pktchan_available(ends.receive).unwrap() < sent.into() {}
        let mut held: Vec<Packet> = (0..sent)
            .map(|_| b.pktchan_recv(ends.receive).unwrap())
            .collect();
        assert_eq!(b.pktchan_recv(ends.receive), Err(Error::Timeout));
        // The oldest one is kept while others come and go.
        let kept = held.remove(0);
        for n in 0..100_u8 {
            let middle = held.remove(usize::from(n) * 7 % held.len());
            b.pktchan_release(middle.address()).unwrap();
            let again = b.pktchan_release(middle.address());
            assert_eq!(again, Err(Error::BufferInvalid));
            a.pktchan_send(ends.send, &[n; 50]).unwrap();
            held.push(b.pktchan_recv(ends.receive).unwrap());
            assert_eq!(bytes(held.last().unwrap()), [n; 50]);
            assert_eq!(bytes(&kept), [0; 64]);
        }
        let address = kept.address();
        assert_eq!(a.pktchan_release(address), Err(Error::BufferInvalid));
        for wrong in [0, address + 1, !0] {
            assert_eq!(b.pktchan_release(wrong), Err(Error::BufferInvalid));
            assert_eq!(b.pktchan_is_held(wrong), Ok(false));
        }
        assert_eq!(b.pktchan_is_held(address), Ok(true));
        close(&ends);
        assert_eq!(bytes(&kept), [0; 64]);
        assert_eq!(b.pktchan_release(address), Ok(()));
        assert_eq!(b.pktchan_is_held(address), Ok(false));
    }
}

/// MC-PKTSENDI-2, MC-PKTSENDI-3, MC-PKTRECVI-1, MC-PKTRECVI-3, MC-CHAN-20, MC-CHAN-21,
/// MC-CANCEL-4, MC-CANCEL-5: requests queue, and are cancelled without loss.
#[test]
fn packets_wait_for_room_and_receives_for_packets() {
    for (_hosts, a, b) in Hosts::pairs() {
        let attributes = [
            (Attribute::MaxPayloadSize, 64),
            (Attribute::NumSendBuffers, 3),
        ];
        let ends = packets(&a, &b, &attributes);
        let posted: Vec<_> = (0..4)
            .map(|_| b.pktchan_recv_i(ends.receive).unwrap())
            .collect();
        assert_eq!(b.cancel(posted[1]), Ok(None));
        for n in 0..3_u8 {
            a.pktchan_send(ends.send, &[n]).unwrap();
        }
        for (n, request) in [posted[0], posted[2], posted[3]].into_iter().enumerate() {
            let Ok(Completion::Packet(packet)) = b.wait(request, soon()) else {
                panic!("{n}");
            };
            assert_eq!(bytes(&packet), [n as u8]);
            b.pktchan_release(packet.address()).unwrap();
        }
        // More than fit, once the room of those that were released has come back.
        let (mut sends, deadline) = (Vec::new(), soon());
        let refused = loop {
            match a.pktchan_send_i(ends.send, &[sends.len() as u8]) {
                Ok(request) => sends.push(request),
                Err(_) if sends.len() < 16 + 3 && deadline.remaining() != Some(Duration::ZERO) => {}
                Err(error) => break error,
            }
        };
        assert_eq!((refused, sends.len()), (Error::MemoryLimit, 16 + 3));
        let pending = sends.iter().filter(|send| a.test(**send) == Ok(None));
        assert_eq!(pending.count(), 3);
        assert_eq!(a.cancel(sends[17]), Ok(None));
        let last = a.pktchan_send_i(ends.send, b"last").unwrap();
        for n in (0..19).filter(|n| *n != 17) {
            assert_eq!(take(&b, ends.receive), Ok(vec![n]));
        }
        assert_eq!(take(&b, ends.receive), Ok(b"last".to_vec()));
        assert_eq!(a.wait(last, soon()), Ok(Completion::Sent(4)));
        assert_eq!(a.wait(sends[18], soon()), Ok(Completion::Sent(1)));
        // A packet that a cancelled receive has had is the program's.
        let posted = b.pktchan_recv_i(ends.receive).unwrap();
        a.pktchan_send(ends.send, b"mine").unwrap();
        while b.test(posted) == Ok(None) {}
        let Ok(Some(Ok(Completion::Packet(packet)))) = b.cancel(posted) else {
            panic!();
        };
        assert_eq!(bytes(&packet), b"mine");
        b.pktchan_release(packet.address()).unwrap();
    }
}

/// MC-SCLSEND-1, MC-SCLSEND-2, MC-SCLRECV-1 to MC-SCLRECV-4, MC-SCLAVAIL-1, MC-GEN-12, MC-TMO-1: all
/// widths, their values, and what does not fit.
#[test]
fn scalars_keep_width_value_and_order() {
    for (_hosts, a, b) in Hosts::pairs() {
        let ends = scalars(&a, &b, &[(Attribute::Timeout, 50)]);
        let begun = Instant::now();
        assert_eq!(b.sclchan_recv::<u8>(ends.receive), Err(Error::Timeout));
        assert!(begun.elapsed() >= Duration::from_millis(50));
        for n in 0..20_u64 {
            a.sclchan_send(ends.send, n as u8 | 0x80).unwrap();
            a.sclchan_send(ends.send, u16::MAX - n as u16).unwrap();
            a.sclchan_send(ends.send, 1_u32 << 31 | n as u32).unwrap();
            a.sclchan_send(ends.send, u64::MAX - n).unwrap();
        }
        while b.sclchan_available(ends.receive).unwrap() < 80 {}
        let mismatch = Error::General;
        for n in 0..20_u64 {
            assert_eq!(b.sclchan_recv::<u16>(ends.receive), Err(mismatch));
            assert_eq!(b.sclchan_recv::<u32>(ends.receive), Err(mismatch));
            assert_eq!(b.sclchan_recv::<u64>(ends.receive), Err(mismatch));
            assert_eq!(b.sclchan_recv(ends.receive), Ok(n as u8 | 0x80));
            assert_eq!(b.sclchan_recv::<u8>(ends.receive), Err(mismatch));
            assert_eq!(b.sclchan_recv(ends.receive), Ok(u16::MAX - n as u16));
            assert_eq!(b.sclchan_recv::<u8>(ends.receive), Err(mismatch));
            assert_eq!(b.sclchan_recv(ends.receive), Ok(1_u32 << 31 | n as u32));
            assert_eq!(b.sclchan_recv::<u32>(ends.receive), Err(mismatch));
            assert_eq!(b.sclchan_recv(ends.receive), Ok(u64::MAX - n));
        }
        assert_eq!(b.sclchan_available(ends.receive), Ok(0));
        // Until the ring is full: then calls wait, and nothing of those that do so in vain comes.
        let mut sent = 0_u32;
        while a.sclchan_send(ends.send, sent).is_ok() {
            sent += 1;
        }
        assert!(sent > 100, "{sent}");
        for n in 0..sent {
            assert_eq!(b.sclchan_recv(ends.receive), Ok(n));
        }
        assert_eq!(b.sclchan_recv::<u32>(ends.receive), Err(Error::Timeout));
        a.sclchan_send(ends.send, 7_u32).unwrap();
        until(|| b.sclchan_recv(ends.receive) == Ok(7_u32));
    }
}

/// MC-CHAN-3: many of both kinds, with pauses in which threads sleep.
#[test]
fn nothing_is_lost_when_ends_sleep() {
    for (_hosts, a, b) in Hosts::pairs() {
        let (pkt, scl) = (
            packets(&a, &b, &[(Attribute::MaxPayloadSize, 256)]),
            scalars(&b, &a, &[]),
        );
        let pauses = |n: u32, other: u32| {
            if n % 500 == other {
                thread::sleep(Duration::from_millis(25));
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..3000_u32 {
                    pauses(n, 100);
                    pkt.a.pktchan_send(pkt.send, &n.to_le_bytes()).unwrap();
                }
            });
            scope.spawn(|| {
                for n in 0..3000_u32 {
                    pauses(n, 200);
                    assert_eq!(take(pkt.b, pkt.receive), Ok(n.to_le_bytes().to_vec()));
                }
            });
            scope.spawn(|| {
                for n in 0..3000_u32 {
                    pauses(n, 300);
                    scl.a.sclchan_send(scl.send, n).unwrap();
                }
            });
            for n in 0..3000_u32 {
                pauses(n, 400);
                assert_eq!(scl.b.sclchan_recv(scl.receive), Ok(n));
            }
        });
    }
}

/// MC-CHAN-12 to MC-CHAN-15, MC-CHAN-18, MC-PKTRCLOSE-1 to MC-PKTRCLOSE-5, MC-PKTSCLOSE-1 to
/// MC-PKTSCLOSE-3: what was sent stays receivable when the sender closes, also what had to wait.
#[test]
fn a_sender_that_closes_loses_nothing() {
    for (_hosts, a, b) in Hosts::pairs() {
        let ends = packets(&a, &b, &[(Attribute::MaxPayloadSize, 64)]);
        let sends: Vec<_> = (0..20_u8)
            .map(|n| a.pktchan_send_i(ends.send, &[n]).unwrap())
            .collect();
        let closed = a.pktchan_send_close_i(ends.send).unwrap();
        assert_eq!(a.pktchan_send(ends.send, b""), Err(Error::ChannelInvalid));
        let again = a.pktchan_send_close_i(ends.send);
        assert_eq!(again, Err(Error::ChannelNotOpen));
        assert_eq!(a.wait(closed, briefly()), Err(Error::Timeout));
        for n in 0..20 {
            assert_eq!(take(&b, ends.receive), Ok(vec![n]));
        }
        for request in sends {
            assert_eq!(a.wait(request, soon()), Ok(Completion::Sent(1)));
        }
        let begun = Instant::now();
        assert_eq!(take(&b, ends.receive), Err(Error::ChannelInvalid));
        let posted = b.pktchan_recv_i(ends.receive);
        assert_eq!(posted, Err(Error::ChannelInvalid));
        assert!(begun.elapsed() < Duration::from_secs(5));
        let last = b.pktchan_recv_close_i(ends.receive).unwrap();
        assert_eq!(b.wait(last, soon()), Ok(Completion::Closed));
        assert_eq!(a.wait(closed, soon()), Ok(Completion::Closed));
        let again = b.pktchan_recv_close_i(ends.receive);
        assert_eq!(again, Err(Error::ChannelInvalid));
        // Both are what they were, and can be connected the other way round.
        let connected = b.pktchan_connect_i(ends.to, ends.from).unwrap();
        assert_eq!(b.wait(connected, soon()), Ok(Completion::Connected));
    }
}

/// MC-CHAN-12, MC-CHAN-14, MC-CHAN-18: a receiver that closes discards what has arrived, and ends what
/// waits at both ends.
#[test]
fn a_receiver_that_closes_ends_what_waits() {
    for (_hosts, a, b) in Hosts::pairs() {
        let ends = packets(&a, &b, &[(Attribute::MaxPayloadSize, 64)]);
        thread::scope(|scope| {
            let waits = scope.spawn(|| ends.b.pktchan_recv(ends.receive));
            thread::sleep(Duration::from_millis(30));
            let closed = b.pktchan_recv_close_i(ends.receive).unwrap();
            assert_eq!(waits.join().unwrap(), Err(Error::ChannelInvalid));
            let sent = loop {
                match a.pktchan_send(ends.send, b"late") {
                    Ok(()) => {}
                    other => break other,
                }
            };
            assert_eq!(sent, Err(Error::ChannelInvalid));
            let last = a.pktchan_send_close_i(ends.send).unwrap();
            assert_eq!(a.wait(last, soon()), Ok(Completion::Closed));
            assert_eq!(b.wait(closed, soon()), Ok(Completion::Closed));
        });
        let ends = packets(&a, &b, &[(Attribute::MaxPayloadSize, 64)]);
        let mut sends: Vec<_> = (0..17_u8)
            .map(|n| a.pktchan_send_i(ends.send, &[n]).unwrap())
            .collect();
        let blocked = sends.pop().unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| ends.a.pktchan_send(ends.send, b"blocked"));
            thread::sleep(Duration::from_millis(30));
            b.pktchan_recv_close_i(ends.receive).unwrap();
            assert_eq!(waits.join().unwrap(), Err(Error::ChannelInvalid));
            assert_eq!(a.wait(blocked, soon()), Err(Error::ChannelInvalid));
        });
    }
}

/// MC-CHAN-16, MC-PKTSENDI-1: the other node ends, or the link is lost: what has arrived can be
/// received, everything that waits ends, and the endpoint can be used again.
#[test]
fn channels_end_with_their_nodes_and_links() {
    for is_link in [false, true] {
        for host in [Host::A, Host::B] {
            if is_link && host == Host::A {
                continue;
            }
            let hosts = Hosts::new();
            let (a, b) = (hosts.node(Host::A, 1), hosts.node(host, 2));
            let small = (Attribute::MaxPayloadSize, 64);
            let (out, back) = (packets(&a, &b, &[small]), packets(&b, &a, &[small]));
            let (more, less) = (scalars(&a, &b, &[]), scalars(&b, &a, &[]));
            b.pktchan_send(back.send, b"kept").unwrap();
            b.sclchan_send(less.send, 5_u8).unwrap();
            while a.pktchan_available(back.receive).unwrap() < 1 {}
            while a.sclchan_available(less.receive).unwrap() < 1 {}
            let sends: Vec<_> = (0..17_u8)
                .map(|n| a.pktchan_send_i(out.send, &[n]).unwrap())
                .collect();
            let idle = packets(&b, &a, &[small]);
            thread::scope(|scope| {
                let waits = scope.spawn(|| a.pktchan_recv(idle.receive));
                thread::sleep(Duration::from_millis(30));
                match is_link {
                    true => hosts.world.set_up(0, false),
                    false => b.finalize().unwrap(),
                }
                assert_eq!(waits.join().unwrap(), Err(Error::Transmission));
            });
            assert_eq!(a.wait(sends[16], soon()), Err(Error::Transmission));
            assert_eq!(take(&a, back.receive), Ok(b"kept".to_vec()));
            assert_eq!(take(&a, back.receive), Err(Error::Transmission));
            assert_eq!(a.pktchan_send(out.send, b""), Err(Error::Transmission));
            assert_eq!(a.sclchan_recv(less.receive), Ok(5_u8));
            assert_eq!(a.sclchan_recv::<u8>(less.receive), Err(Error::General));
            assert_eq!(a.sclchan_send(more.send, 1_u8), Err(Error::General));
            let closed = a.pktchan_send_close_i(out.send).unwrap();
            assert_eq!(a.wait(closed, soon()), Ok(Completion::Closed));
            assert_eq!(a.endpoint_delete(out.from), Ok(()));
            let status = a.endpoint_attribute(more.from, Attribute::Status).unwrap();
            assert_eq!(status & STATUS_OPEN, STATUS_OPEN);
        }
    }
}

/// An end that sleeps is woken although the kernel has no memory for that at first: by a packet, and
/// by room for one.
#[test]
fn a_signal_of_a_channel_without_memory_is_tried_again() {
    for (hosts, a, b) in Hosts::pairs() {
        let attributes = [
            (Attribute::MaxPayloadSize, 64),
            (Attribute::Timeout, 10_000),
        ];
        let ends = packets(&a, &b, &attributes);
        let sleep = || thread::sleep(Duration::from_millis(60));
        for _ in 0..3 {
            thread::scope(|scope| {
                let waits = scope.spawn(|| take(&b, ends.receive).unwrap());
                // Long enough for the service thread to ask for a signal.
                sleep();
                hosts.world.fail_signals(u32::MAX);
                a.pktchan_send(ends.send, b"wake").unwrap();
                // Longer than the service thread looks.
                sleep();
                hosts.world.fail_signals(0);
                assert_eq!(waits.join().unwrap(), b"wake");
            });
        }
        let held: Vec<_> = (0..16_u8)
            .map(|n| {
                a.pktchan_send(ends.send, &[n]).unwrap();
                b.pktchan_recv(ends.receive).unwrap()
            })
            .collect();
        for packet in &held[..3] {
            thread::scope(|scope| {
                let waits = scope.spawn(|| a.pktchan_send(ends.send, b"room"));
                sleep();
                hosts.world.fail_signals(u32::MAX);
                b.pktchan_release(packet.address()).unwrap();
                sleep();
                hosts.world.fail_signals(0);
                assert_eq!(waits.join().unwrap(), Ok(()));
            });
        }
    }
}

/// MC-BUF-7: what is in the buffer of a packet, which its sender can still write, is sent on from there:
/// as a packet, at once and later, and as a message.
#[test]
fn buffers_of_packets_are_sent_on() {
    for (_hosts, a, b) in Hosts::pairs() {
        let attributes = [
            (Attribute::MaxPayloadSize, 10_000),
            (Attribute::NumSendBuffers, 1),
        ];
        let (there, back) = (packets(&a, &b, &attributes), packets(&b, &a, &attributes));
        let data: Vec<u8> = (0..10_000).map(|n| (n % 251) as u8).collect();
        a.pktchan_send(there.send, &data).unwrap();
        let packet = b.pktchan_recv(there.receive).unwrap();
        b.pktchan_send(back.send, packet.memory()).unwrap();
        let mut sent = 1;
        let last = loop {
            let request = b.pktchan_send_i(back.send, packet.memory()).unwrap();
            sent += 1;
            if b.test(request) == Ok(None) {
                break request;
            }
        };
        let [from, to] = endpoints(&b, &a, &[]);
        b.msg_send(from, to, packet.memory(), 3).unwrap();
        // Copies were made.
        packet.memory().copy_from(&[0_u8; 10_000]);
        b.pktchan_release(packet.address()).unwrap();
        assert_eq!(receive(&a, to), data);
        for _ in 0..sent {
            assert_eq!(take(&a, back.receive), Ok(data.clone()));
        }
        assert_eq!(b.wait(last, soon()), Ok(Completion::Sent(10_000)));
    }
}

/// MC-MSG-13, MC-CHAN-22: messages overtake whatever packets and scalars wait, of whatever priority
/// those are.
#[test]
fn messages_do_not_wait_for_packets_and_scalars() {
    for (_hosts, a, b) in Hosts::pairs() {
        let attributes = [
            (Attribute::MaxPayloadSize, 64),
            (Attribute::NumSendBuffers, 1000),
        ];
        let (pkt, scl) = (packets(&a, &b, &attributes), scalars(&a, &b, &[]));
        let sends: Vec<_> = (0..1000_u32)
            .map(|n| a.pktchan_send_i(pkt.send, &n.to_le_bytes()).unwrap())
            .collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..1000_u32 {
                    scl.a.sclchan_send(scl.send, n).unwrap();
                }
            });
            while b.sclchan_available(scl.receive).unwrap() < 256 {}
            let [from, to] = endpoints(&a, &b, &[]);
            for priority in [0, 7] {
                a.msg_send(from, to, b"urgent", priority).unwrap();
                assert_eq!(receive(&b, to), b"urgent");
            }
            assert_eq!(a.test(sends[999]), Ok(None));
            let received = scope.spawn(|| {
                (0..1000_u32).all(|n| take(pkt.b, pkt.receive) == Ok(n.to_le_bytes().to_vec()))
            });
            // And while they move.
            a.msg_send(from, to, b"urgent", 0).unwrap();
            assert_eq!(receive(&b, to), b"urgent");
            for n in 0..1000_u32 {
                assert_eq!(b.sclchan_recv(scl.receive), Ok(n));
            }
            assert!(received.join().unwrap());
        });
        assert_eq!(a.wait(sends[999], soon()), Ok(Completion::Sent(4)));
    }
}

/// MC-PKTCONN-1, MC-CHAN-2: three nodes, of which one connects the others; and a node with itself.
#[test]
fn a_third_node_connects_two_others() {
    let hosts = Hosts::new();
    let nodes = [
        hosts.node(Host::A, 1),
        hosts.node(Host::B, 2),
        hosts.node(Host::B, 3),
    ];
    for (by, from, to) in [
        (0, 1, 2),
        (1, 0, 2),
        (2, 0, 1),
        (2, 1, 0),
        (0, 0, 0),
        (1, 0, 0),
    ] {
        let [send, receive] = endpoints(&nodes[from], &nodes[to], &[]);
        let connected = nodes[by].pktchan_connect_i(send, receive).unwrap();
        assert_eq!(nodes[by].wait(connected, soon()), Ok(Completion::Connected));
        let sends = nodes[from].pktchan_send_open_i(send);
        let receives = nodes[to].pktchan_recv_open_i(receive);
        let (sends, receives) = (open(&nodes[from], sends), open(&nodes[to], receives));
        nodes[from].pktchan_send(sends, b"hello").unwrap();
        assert_eq!(take(&nodes[to], receives), Ok(b"hello".to_vec()));
    }
}

/// MC-GEN-3, MC-CHAN-1, MC-PKTAVAIL-1, MC-SCLSEND-3: handles are for what they were opened for.
#[test]
fn handles_do_what_they_are_for() {
    let hosts = Hosts::new();
    let node = hosts.node(Host::A, 1);
    let (pkt, scl) = (packets(&node, &node, &[]), scalars(&node, &node, &[]));
    let none = Channel::from_raw(0);
    let invalid = Error::ChannelInvalid;
    for wrong in [pkt.receive, scl.send, scl.receive, none] {
        assert_eq!(node.pktchan_send(wrong, b""), Err(invalid));
        assert_eq!(node.pktchan_send_i(wrong, b""), Err(invalid));
    }
    for wrong in [pkt.send, scl.send, scl.receive, none] {
        assert_eq!(node.pktchan_recv(wrong), Err(invalid));
        assert_eq!(node.pktchan_available(wrong), Err(invalid));
    }
    for wrong in [pkt.send, pkt.receive, scl.receive, none] {
        assert_eq!(node.sclchan_send(wrong, 1_u8), Err(invalid));
    }
    for wrong in [pkt.send, pkt.receive, scl.send, none] {
        assert_eq!(node.sclchan_recv::<u8>(wrong), Err(invalid));
        assert_eq!(node.sclchan_available(wrong), Err(invalid));
    }
    assert_eq!(
        node.pktchan_send_close_i(pkt.receive),
        Err(Error::ChannelDirection)
    );
    assert_eq!(
        node.sclchan_recv_close_i(pkt.receive),
        Err(Error::ChannelType)
    );
    node.finalize().unwrap();
    let ended = Error::NodeNotInit;
    assert_eq!(node.pktchan_send(pkt.send, b""), Err(ended));
    assert_eq!(node.pktchan_recv(pkt.receive), Err(ended));
    assert_eq!(node.sclchan_send(scl.send, 1_u8), Err(ended));
    assert_eq!(node.pktchan_release(1), Err(ended));
    assert_eq!(node.pktchan_send_close_i(pkt.send), Err(ended));
}

const STATE: (Attribute, u64) = (Attribute::BufferType, 1);

/// A packet that says in each of its words which one it is.
fn numbered(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + number as usize % 300)
}

fn number(packet: &[u8]) -> u64 {
    let number = u64::from_le_bytes(packet[..8].try_into().unwrap());
    assert_eq!(packet, numbered(number), "a value in pieces");
    number
}

/// MC-STATE-1: a producer that is ahead of its reader by any number of values never waits, and the
/// reader has the latest one, as often as it asks.
#[test]
fn a_state_buffer_has_the_latest_value() {
    for (_hosts, a, b) in Hosts::pairs() {
        let ends = packets(&a, &b, &[STATE, (Attribute::Timeout, 100)]);
        assert_eq!(b.pktchan_recv(ends.receive), Err(Error::Timeout));
        assert_eq!(b.pktchan_available(ends.receive), Ok(0));
        for last in [1, 2, 500, 501] {
            for value in last / 2..=last {
                a.pktchan_send(ends.send, &numbered(value)).unwrap();
            }
            until(|| take(&b, ends.receive).is_ok_and(|packet| number(&packet) == last));
            assert_eq!(b.pktchan_available(ends.receive), Ok(0));
            // It is current still.
            assert_eq!(
                take(&b, ends.receive).map(|packet| number(&packet)),
                Ok(last)
            );
        }
        let begun = a.pktchan_send_i(ends.send, &numbered(502)).unwrap();
        assert_eq!(
            a.test(begun),
            Ok(Some(Completion::Sent(numbered(502).len())))
        );
        until(|| b.pktchan_available(ends.receive) == Ok(1));
        let latest = b.pktchan_recv_i(ends.receive).unwrap();
        let Ok(Completion::Packet(packet)) = b.wait(latest, soon()) else {
            panic!("there is a value");
        };
        assert_eq!(number(&bytes(&packet)), 502);
        // A value that the program has does not change.
        a.pktchan_send(ends.send, &numbered(503)).unwrap();
        until(|| take(&b, ends.receive).is_ok_and(|packet| number(&packet) == 503));
        assert_eq!(number(&bytes(&packet)), 502);
        b.pktchan_release(packet.address()).unwrap();
    }
}

/// MC-STATE-1: values that are read while they are overwritten are whole, and none is older than the one
/// before.
#[test]
fn values_are_read_while_they_are_overwritten() {
    for (_hosts, a, b) in Hosts::pairs() {
        let ends = packets(&a, &b, &[STATE]);
        let seen = thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1..=20_000 {
                    a.pktchan_send(ends.send, &numbered(value)).unwrap();
                }
            });
            let (mut last, mut seen) = (0, 0);
            while last < 20_000 {
                let next = number(&take(&b, ends.receive).unwrap());
                assert!(next >= last, "{next} behind {last}");
                seen += u32::from(next > last);
                last = next;
            }
            seen
        });
        assert!(seen > 10, "{seen}");
    }
}

/// MC-STATE-1: the same of scalars, whose widths are those that they were sent with; receives that wait
/// for the first value are woken, and the last one is received after the sender has closed, once.
#[test]
fn scalars_have_state_buffers() {
    for (_hosts, a, b) in Hosts::pairs() {
        let ends = scalars(&a, &b, &[STATE, (Attribute::Timeout, 10_000)]);
        thread::scope(|scope| {
            let first = scope.spawn(|| b.sclchan_recv::<u64>(ends.receive));
            // Longer than threads look.
            thread::sleep(Duration::from_millis(50));
            a.sclchan_send(ends.send, 1_u64 << 60).unwrap();
            assert_eq!(first.join().unwrap(), Ok(1 << 60));
        });
        for value in 0..1000_u16 {
            a.sclchan_send(ends.send, value).unwrap();
        }
        until(|| b.sclchan_recv::<u16>(ends.receive) == Ok(999));
        assert_eq!(b.sclchan_recv::<u32>(ends.receive), Err(Error::General));
        assert_eq!(b.sclchan_recv::<u16>(ends.receive), Ok(999));
        a.sclchan_send(ends.send, 7_u8).unwrap();
        a.sclchan_send_close_i(ends.send).unwrap();
        // Long enough for the close to be there.
        thread::sleep(Duration::from_millis(200));
        assert_eq!(b.sclchan_recv::<u8>(ends.receive), Ok(7));
        until(|| b.sclchan_recv::<u8>(ends.receive) == Err(Error::ChannelInvalid));
    }
}

/// MC-STATE-1, MC-CHAN-6: both ends have a state buffer, or none.
#[test]
fn a_state_buffer_is_that_of_both_ends() {
    for (_hosts, a, b) in Hosts::pairs() {
        let [from, to] = endpoints(&a, &b, &[STATE]);
        let [queue, _] = endpoints(&a, &b, &[]);
        let failed = Err(Error::AttributeIncompatible);
        let begun = a.pktchan_connect_i(queue, to);
        assert_eq!(begun.and_then(|request| a.wait(request, soon())), failed);
        let connected = a.pktchan_connect_i(from, to).unwrap();
        assert_eq!(a.wait(connected, soon()), Ok(Completion::Connected));
    }
}

/// MC-STATE-1, MC-PKTREL-1: receives wait for a buffer when the program has all of them, and get one that
/// it gives back.
#[test]
fn values_wait_for_buffers() {
    for (_hosts, a, b) in Hosts::pairs() {
        let small = (Attribute::MaxPayloadSize, 4096);
        let ends = packets(&a, &b, &[STATE, small, (Attribute::Timeout, 200)]);
        a.pktchan_send(ends.send, &numbered(1)).unwrap();
        let mut held = Vec::new();
        while let Ok(packet) = b.pktchan_recv(ends.receive) {
            held.push(packet);
        }
        assert!((2..=16).contains(&held.len()), "{}", held.len());
        let waits = b.pktchan_recv_i(ends.receive).unwrap();
        assert_eq!(b.test(waits), Ok(None));
        let packet = thread::scope(|scope| {
            let waiter = scope.spawn(|| b.wait(waits, soon()));
            // Longer than threads look.
            thread::sleep(Duration::from_millis(50));
            b.pktchan_release(held.pop().unwrap().address()).unwrap();
            match waiter.join().unwrap() {
                Ok(Completion::Packet(packet)) => packet,
                other => panic!("there is a buffer: {other:?}"),
            }
        });
        assert!(held.iter().all(|other| other.address() != packet.address()));
        held.push(packet);
        for packet in held {
            assert_eq!(number(&bytes(&packet)), 1);
            b.pktchan_release(packet.address()).unwrap();
        }
    }
}

/// MC-STATE-1: between hosts that have no bridge in common, values of packets and scalars that the kernel
/// has no memory to send are kept, the latest one only. It arrives when there is memory, also if the
/// sender has closed by then.
#[test]
fn the_latest_value_is_kept_while_the_kernel_has_no_memory() {
    let hosts = Hosts::new();
    hosts.world.set_routed(true);
    let (a, b) = (hosts.node(Host::A, 1), hosts.node(Host::B, 2));
    let pkt = packets(&a, &b, &[STATE, (Attribute::Timeout, 10_000)]);
    let scl = scalars(&a, &b, &[STATE, (Attribute::Timeout, 10_000)]);
    for (round, closes) in [false, true].into_iter().enumerate() {
        let first = 1 + 100 * round as u64;
        a.pktchan_send(pkt.send, &numbered(first)).unwrap();
        a.sclchan_send(scl.send, first).unwrap();
        until(|| take(&b, pkt.receive).is_ok_and(|packet| number(&packet) == first));
        until(|| b.sclchan_recv::<u64>(scl.receive) == Ok(first));
        hosts.world.fail_stores(u32::MAX, Errno::NOMEM);
        let last = first + 20;
        for value in first + 1..=last {
            a.pktchan_send(pkt.send, &numbered(value)).unwrap();
            a.sclchan_send(scl.send, value).unwrap();
        }
        if closes {
            a.pktchan_send_close_i(pkt.send).unwrap();
            a.sclchan_send_close_i(scl.send).unwrap();
        }
        // What has left its host by now is the first one.
        thread::sleep(Duration::from_millis(100));
        let is_first = take(&b, pkt.receive).map(|packet| number(&packet));
        assert_eq!(is_first, Ok(first));
        assert_eq!(b.sclchan_recv::<u64>(scl.receive), Ok(first));
        hosts.world.fail_stores(0, Errno::NOMEM);
        if !closes {
            until(|| take(&b, pkt.receive).is_ok_and(|packet| number(&packet) == last));
            until(|| b.sclchan_recv::<u64>(scl.receive) == Ok(last));
            continue;
        }
        // Until the close is there as well.
        let packets = std::iter::from_fn(|| take(&b, pkt.receive).ok());
        assert_eq!(packets.last().map(|packet| number(&packet)), Some(last));
        let scalars = std::iter::from_fn(|| b.sclchan_recv::<u64>(scl.receive).ok());
        assert_eq!(scalars.last(), Some(last));
    }
}
