// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections between two hosts, and what crosses them.

mod common;

use common::{flushed, good, soon, Pair, ENOUGH, SHORT};
use vipl::{Descriptor, Error, Level, Remote, State, Status};

/// VI-RDMA-1, VI-DESC-11, VI-WQ-2, VI-REL-7, VI-LIM-5: messages of all sizes arrive at all levels,
/// and both descriptors are completed.
#[test]
fn messages_of_all_sizes_arrive_at_all_levels() {
    let pair = Pair::new();
    for level in Level::ALL {
        let (a, b) = pair.connected(level);
        for len in [0, 1, 40, 41, 264, 265, 4096, 4097, 70_000, 1 << 20] {
            let bytes: Vec<u8> = (0..len).map(|n| (n * 7 + len) as u8).collect();
            let (receive, room) = pair.b.receive(&b, len);
            let send = pair.a.send(&a, &bytes);
            let got = b.recv_wait(soon());
            assert_eq!(
                got,
                Ok(good(receive, Status::OP_RECEIVE, len)),
                "{level:?} {len}"
            );
            assert_eq!(pair.b.bytes(room, len), bytes);
            let sent = a.send_wait(soon());
            assert_eq!(sent, Ok(good(send, Status::OP_SEND, len)));
        }
        assert_eq!(a.send_done(), Err(Error::Descriptor));
        assert_eq!(a.disconnect(), Ok(()));
    }
}

/// VI-POST-2, VI-RDMA-7: a message arrives although neither side makes another call.
#[test]
fn messages_move_while_nobody_looks() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableReception);
    let len = 500_000;
    let (_, room) = pair.b.receive(&b, len);
    pair.a.send(&a, &vec![0x5a; len]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(pair.b.bytes(room + len - 1, 1), [0x5a]);
}

/// VI-DISC-1 to VI-DISC-4, VI-STATE-8, VI-STATE-9: both ends flush; the other one is in error.
#[test]
fn a_disconnect_flushes_both_ends() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    let [r1, r2] = [0; 2].map(|_| pair.b.receive(&b, 10).0);
    let own = pair.a.receive(&a, 10).0;
    assert_eq!(a.disconnect(), Ok(()));
    assert_eq!(a.query().unwrap().state, State::Idle);
    assert_eq!(a.recv_done(), Ok(flushed(own, Status::OP_RECEIVE)));
    assert_eq!(b.recv_wait(soon()), Ok(flushed(r1, Status::OP_RECEIVE)));
    assert_eq!(b.recv_done(), Ok(flushed(r2, Status::OP_RECEIVE)));
    assert_eq!(b.query().unwrap().state, State::Error);
    let late = pair.b.send(&b, b"late");
    assert_eq!(b.send_done(), Ok(flushed(late, Status::OP_SEND)));
    assert_eq!(b.disconnect(), Ok(()));
    pair.connect(&a, &b);
    pair.a.receive(&a, 4);
    pair.b.post(&b, Descriptor::new().immediate(99), b"good");
    assert_eq!(a.recv_wait(soon()).unwrap().immediate, Some(99));
}

/// VI-ADDR-6, VI-PEER-6: VIs of one program, on one host, connect in both models.
#[test]
fn a_host_connects_to_itself() {
    let pair = Pair::new();
    pair.world.set_loopback(1 << 20);
    for peers in [false, true] {
        let [one, two] = [0; 2].map(|_| pair.a.vi(Level::ReliableReception));
        let here = pair.a.address(b"here");
        if peers {
            one.peer_request(&here, &here, soon()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(30));
            assert_eq!(one.peer_done(), Err(Error::NotDone));
            two.peer_request(&here, &here, soon()).unwrap();
            assert!(one.peer_wait().is_ok() && two.peer_wait().is_ok());
        } else {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let request = pair.a.nic.connect_wait(&here, soon()).unwrap();
                    request.accept(&one).unwrap();
                });
                while two.connect_request(&here, &here, soon()) == Err(Error::NoMatch) {
                    std::thread::yield_now();
                }
            });
        }
        let (receive, room) = pair.a.receive(&one, 9000);
        pair.a.send(&two, &[0x42; 9000]);
        assert_eq!(
            one.recv_wait(soon()),
            Ok(good(receive, Status::OP_RECEIVE, 9000))
        );
        assert_eq!(pair.a.bytes(room, 9000), [0x42; 9000]);
        assert_eq!(one.disconnect(), Ok(()));
    }
}

/// VI-RDMA-2 to VI-RDMA-4, VI-ORD-5, VI-RDMA-7: remote memory is written and read while the other
/// program does nothing, and what was written is there when a later message is.
#[test]
fn remote_memory_is_written_and_read() {
    let pair = Pair::new();
    for level in [Level::ReliableDelivery, Level::ReliableReception] {
        let (a, b) = pair.connected(level);
        for len in [0, 1, 4096, 100_000, 1 << 20] {
            let bytes: Vec<u8> = (0..len).map(|n| (n * 11 + len) as u8).collect();
            let remote = pair.b.room(len);
            let at = Remote {
                address: pair.b.at(remote) as u64,
                handle: pair.b.handle.0,
            };
            let write = pair.a.post(&a, Descriptor::write(at), &bytes);
            let (receive, _) = pair.b.receive(&b, 1);
            let send = pair.a.send(&a, b"!");
            assert_eq!(
                b.recv_wait(soon()),
                Ok(good(receive, Status::OP_RECEIVE, 1))
            );
            assert_eq!(pair.b.bytes(remote, len), bytes);
            let local = pair.a.room(len);
            let read = pair.a.one(Descriptor::read(at), local, len);
            a.post_send(read, pair.a.handle).unwrap();
            for (descriptor, operation, len) in [
                (write, Status::OP_RDMA_WRITE, len),
                (send, Status::OP_SEND, 1),
                (read, Status::OP_RDMA_READ, len),
            ] {
                assert_eq!(a.send_wait(soon()), Ok(good(descriptor, operation, len)));
            }
            assert_eq!(pair.a.bytes(local, len), bytes);
        }
        a.disconnect().unwrap();
    }
}

/// VI-REL-3: what is complete with Reliable Reception is in the target's memory when its sender sees
/// that, for whoever looks there without the library.
#[test]
fn success_with_reliable_reception_is_seen_at_once() {
    for windows in [ENOUGH, SHORT] {
        let pair = Pair::with_windows(windows);
        let (a, b) = pair.connected(Level::ReliableReception);
        let remote = pair.b.room(256);
        let at = Remote {
            address: pair.b.at(remote) as u64,
            handle: pair.b.handle.0,
        };
        for n in 1..=200 {
            let bytes = [n; 256];
            let (_, receive) = pair.b.receive(&b, bytes.len());
            for (descriptor, place) in [
                (Descriptor::write(at), remote),
                (Descriptor::new(), receive),
            ] {
                pair.a.post(&a, descriptor, &bytes);
                let done = loop {
                    match a.send_done() {
                        Err(Error::NotDone) => std::hint::spin_loop(),
                        other => break other.unwrap(),
                    }
                };
                assert_eq!(pair.b.bytes(place, bytes.len()), bytes);
                assert!(!done.status.is_error(), "{done:?}");
            }
        }
    }
}

/// VI-WQ-7, VI-CQ-6, VI-POST-2: both sides sleep between messages, for shorter and longer, and no
/// wake-up is lost; one with its work queues, one with a completion queue.
#[test]
fn sides_that_sleep_wake_each_other() {
    let pair = Pair::new();
    for level in [Level::Unreliable, Level::ReliableReception] {
        let a = pair.a.vi(level);
        let cq = pair.b.nic.create_cq(16, 0).unwrap();
        let attributes = pair.b.attributes(level);
        let b = pair.b.nic.create_vi(&attributes, None, Some(&cq), 0);
        let b = b.unwrap();
        pair.connect(&a, &b);
        let rounds = 150;
        let len = |n: u64| [8, 300, 4096, 60_000][n as usize % 4];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..rounds {
                    pair.b.receive(&b, 60_000);
                    if n > 0 {
                        std::thread::sleep(std::time::Duration::from_micros(n * 97 % 3000));
                    }
                    let (vi, _) = cq.wait(soon()).unwrap();
                    let got = vi.recv_done().unwrap();
                    assert_eq!(got.length as usize, len(n));
                    pair.b.send(&vi, &n.to_le_bytes());
                    assert!(!vi.send_wait(soon()).unwrap().status.is_error());
                }
            });
            for n in 0..rounds {
                let (_, room) = pair.a.receive(&a, 8);
                std::thread::sleep(std::time::Duration::from_micros(20_000 / (1 + n)));
                // A message without a receive would be lost.
                while b.query().unwrap().recv_empty {
                    std::thread::yield_now();
                }
                pair.a.send(&a, &vec![n as u8; len(n)]);
                assert!(!a.recv_wait(soon()).unwrap().status.is_error());
                assert_eq!(pair.a.bytes(room, 8), n.to_le_bytes());
                assert!(!a.send_wait(soon()).unwrap().status.is_error());
            }
        });
        a.disconnect().unwrap();
    }
}

/// All of them with other chances of the bridge.
#[test]
fn with_other_seeds() {
    mp_testing::with_other_seeds("with_other_seeds", &[]);
}
