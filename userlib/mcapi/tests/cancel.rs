// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operations that are cancelled while they complete.

mod common;

use common::{soon, Hosts, TestNode};
use mcapi::{Attribute, Completion, Error, Outcome, Request, Result};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Sends that are begun, two at a time, and cancelled: so many at least, and at most until sends and
/// receives have both been withdrawn and come too late.
const ROUNDS: u32 = 100_000;
const ROUNDS_MAX: u32 = 100 * ROUNDS;

/// How operations have ended that were cancelled.
#[derive(Default)]
struct Ends {
    /// The numbers of those that were complete.
    done: Vec<u32>,
    withdrawn: u32,
}

impl Ends {
    /// Cancel a request, and note what had become of it; `number` says which item it has moved.
    fn cancel(
        &mut self,
        node: &TestNode,
        request: Request,
        number: impl FnOnce(Completion) -> u32,
    ) {
        match node.cancel(request).unwrap() {
            Some(Ok(done)) => self.done.push(number(done)),
            Some(Err(error)) => panic!("{error:?}"),
            None => self.withdrawn += 1,
        }
    }
}

/// Send numbers with `send` and receive them with `receive`, and cancel everything; `take` is for what
/// a receive has got. Each number that was sent arrives once and in order, and no other does.
fn race(
    (a, b): (&TestNode, &TestNode),
    send: impl Fn(u32) -> Result<Request> + Sync,
    receive: impl Fn() -> Result<Request> + Sync,
    take: impl Fn(Completion) -> u32 + Sync,
) {
    let (is_over, has_withdrawn) = (AtomicBool::new(false), AtomicBool::new(false));
    let (sent, received) = thread::scope(|scope| {
        let sends = scope.spawn(|| {
            let mut ends = Ends::default();
            for n in (0..ROUNDS_MAX).step_by(2) {
                let was_race = ends.withdrawn > 0 && !ends.done.is_empty();
                if n >= ROUNDS && was_race && has_withdrawn.load(Ordering::SeqCst) {
                    break;
                }
                let requests = [n, n + 1].map(|n| (n, send(n).unwrap()));
                for (n, request) in requests {
                    ends.cancel(a, request, |_| n);
                }
            }
            is_over.store(true, Ordering::SeqCst);
            ends
        });
        let receives = scope.spawn(|| {
            let mut ends = Ends::default();
            while !is_over.load(Ordering::SeqCst) {
                let requests = [(); 2].map(|()| receive().unwrap());
                thread::yield_now();
                for request in requests {
                    ends.cancel(b, request, &take);
                }
                has_withdrawn.store(ends.withdrawn > 0, Ordering::SeqCst);
            }
            ends
        });
        (sends.join().unwrap(), receives.join().unwrap())
    });
    let mut all = received.done;
    while all.len() < sent.done.len() {
        all.push(take(b.wait(receive().unwrap(), soon()).unwrap()));
    }
    assert!(all == sent.done, "{} were sent", sent.done.len());
    let last = receive().unwrap();
    assert_eq!(b.test(last), Ok(None));
    assert_eq!(b.cancel(last), Ok(None));
    // It was a race.
    let ends = [sent.withdrawn, received.withdrawn, sent.done.len() as u32];
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap())
}

/// MC-CANCEL-4, MC-CANCEL-5: messages, on one host and on two.
#[test]
fn messages_are_received_once_or_not_sent() {
    for (_hosts, a, b) in Hosts::pairs() {
        let from = a.endpoint_create(None).unwrap();
        let to = b.endpoint_create(None).unwrap();
        race(
            (&a, &b),
            |n| a.msg_send_i(from, to, &n.to_le_bytes(), 1),
            || b.msg_recv_i(to, 8),
            |done| match done {
                Completion::Message {
                    data,
                    is_truncated: false,
                } => number(&data),
                other => panic!("{other:?}"),
            },
        );
    }
}

/// MC-CANCEL-4, MC-CANCEL-5: packets, which are the program's to release when they were received.
#[test]
fn packets_are_received_once_or_not_sent() {
    for (_hosts, a, b) in Hosts::pairs() {
        let ends = [&a, &b].map(|node| {
            let endpoint = node.endpoint_create(None).unwrap();
            node.set_endpoint_attribute(endpoint, Attribute::MaxPayloadSize, 64)
                .unwrap();
            endpoint
        });
        let [from, to] = ends;
        let done = |node: &TestNode, request: Result<Request>| -> Outcome {
            node.wait(request.unwrap(), soon())
        };
        assert_eq!(
            done(&a, a.pktchan_connect_i(from, to)),
            Ok(Completion::Connected)
        );
        let opens = (a.pktchan_send_open_i(from), b.pktchan_recv_open_i(to));
        let (Ok(Completion::Open(send)), Ok(Completion::Open(receive))) =
            (done(&a, opens.0), done(&b, opens.1))
        else {
            panic!("the channel is not open");
        };
        race(
            (&a, &b),
            |n| a.pktchan_send_i(send, &n.to_le_bytes()),
            || b.pktchan_recv_i(receive),
            |done| match done {
                Completion::Packet(packet) => {
                    let mut bytes = [0; 4];
                    assert_eq!(packet.read(&mut bytes), packet.len());
                    b.pktchan_release(packet.address()).unwrap();
                    number(&bytes)
                }
                other => panic!("{other:?}"),
            },
        );
        assert_eq!(b.pktchan_release(1), Err(Error::BufferInvalid));
    }
}
