// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bytes that the bridge changes, with and without checks of what crosses.

mod common;

use common::{good, soon, Device, Pair, TestVi, ENOUGH, SHORT};
use std::{sync::mpsc, thread, time::Duration};
use vipl::{Descriptor, ErrorCode, ErrorEvent, Level, Remote, State, Status};

const SOON: Duration = Duration::from_secs(30);
/// Bytes of a message that has a slot.
const LEN: usize = 3000;

/// Collect asynchronous errors of the receiver.
fn told(pair: &Pair) -> mpsc::Receiver<ErrorCode> {
    let (tell, told) = mpsc::channel();
    let handler = move |_: &_, event: &ErrorEvent<Device>| tell.send(event.code).unwrap();
    let set = pair.b.nic.set_error_handler(Some(Box::new(handler)));
    set.unwrap();
    told
}

fn until_error(vi: &TestVi) {
    while vi.query().unwrap().state != State::Error {
        thread::yield_now();
    }
}

fn failed(operation: Status) -> Status {
    let bits = Status::TRANSPORT_ERROR.with(operation);
    Status::DONE.with(bits)
}

/// A send, or a write, of bytes that are changed on their way, and a message behind it: at the
/// sender, the status of both; the receiver's.
fn spoiled(pair: &Pair, level: Level, kind: u8) {
    let (a, b) = pair.connected(level);
    let told = told(pair);
    let target = pair.b.data(&[0; LEN]);
    let remote = Remote {
        address: pair.b.at(target) as u64,
        handle: pair.b.handle.0,
    };
    let receives = [0; 2].map(|_| pair.b.receive(&b, LEN).0);
    let (descriptor, operation) = match kind {
        0 => (Descriptor::new(), Status::OP_RECEIVE),
        1 => (
            Descriptor::write(remote).immediate(1),
            Status::OP_REMOTE_RDMA_WRITE,
        ),
        _ => (Descriptor::write(remote), Status::OP_REMOTE_RDMA_WRITE),
    };
    pair.bridge.spoil(1);
    pair.a.post(&a, descriptor, &[7; LEN]);
    let own = a.send_wait(soon()).unwrap().status;
    assert_eq!(
        own.masked(Status::TRANSPORT_ERROR).0 != 0,
        level == Level::ReliableReception
    );
    let consumed = kind < 2;
    if consumed {
        let got = b.recv_wait(soon()).unwrap();
        assert_eq!(
            (got.descriptor, got.status),
            (receives[0], failed(operation))
        );
    }
    if level == Level::Unreliable {
        pair.a.send(&a, b"next");
        let next = receives[usize::from(consumed)];
        let got = b.recv_wait(soon()).unwrap();
        assert_eq!(got, good(next, Status::OP_RECEIVE, 4));
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
        assert!([&a, &b].map(|vi| vi.query().unwrap().state) == [State::Connected; 2]);
    } else {
        if !consumed {
            assert_eq!(told.recv_timeout(SOON), Ok(ErrorCode::RdmawData));
        }
        assert_eq!(told.recv_timeout(SOON), Ok(ErrorCode::ConnLost));
        until_error(&a);
        until_error(&b);
    }
    for vi in [&a, &b] {
        vi.disconnect().unwrap();
        while vi.recv_done().is_ok() || vi.send_done().is_ok() {}
        vi.destroy().unwrap();
    }
}

/// VI-EM-7, VI-EM-8, VI-ERR-9, VI-REL-1, VI-REL-2, VI-REL-8, SC-19: whichever side asks for it,
/// also on a queue pair that connections share.
#[test]
fn bytes_that_are_changed_are_told_as_the_level_says() {
    for (bytes, checks) in [
        (ENOUGH, [true, false]),
        (ENOUGH, [false, true]),
        (ENOUGH, [true, true]),
        (SHORT, [true, true]),
    ] {
        let pair = Pair::of(bytes, checks);
        for (level, kind) in Level::ALL
            .into_iter()
            .flat_map(|l| (0..3).map(move |k| (l, k)))
        {
            spoiled(&pair, level, kind);
        }
    }
}

/// Peers agree on checks as clients and servers do.
#[test]
fn peers_agree_on_checks() {
    let pair = Pair::with_checks([false, true]);
    let (a, b) = (pair.a.vi(Level::Unreliable), pair.b.vi(Level::Unreliable));
    let [here, there] = [&pair.a, &pair.b].map(|side| side.address(b"meet"));
    a.peer_request(&here, &there, soon()).unwrap();
    b.peer_request(&there, &here, soon()).unwrap();
    a.peer_wait().unwrap();
    b.peer_wait().unwrap();
    pair.b.receive(&b, LEN);
    pair.bridge.spoil(1);
    pair.a.send(&a, &[7; LEN]);
    let got = b.recv_wait(soon()).unwrap();
    assert_eq!(got.status, failed(Status::OP_RECEIVE));
}

/// Nobody looks where nobody has asked.
#[test]
fn bytes_are_not_checked_unless_a_side_asks_for_it() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableReception);
    let (receive, room) = pair.b.receive(&b, LEN);
    pair.bridge.spoil(1);
    pair.a.send(&a, &[7; LEN]);
    let got = b.recv_wait(soon()).unwrap();
    assert_eq!(got, good(receive, Status::OP_RECEIVE, LEN));
    assert_ne!(pair.b.bytes(room, LEN), [7; LEN]);
}

/// All of them with other chances of the bridge.
#[test]
fn with_other_seeds() {
    mp_testing::with_other_seeds("with_other_seeds", &[]);
}
