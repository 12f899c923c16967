// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages that are changed, lost or repeated on the way, where they are checked.

use super::*;

/// What a test does to the message of an operation.
type Spoil<'a> = &'a dyn Fn(&mut VecDeque<Sent>);

/// Operations that cross as sends or writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crossing {
    Send,
    Write,
    WriteWithImmediate,
}

impl Crossing {
    const ALL: [Crossing; 3] = [
        Crossing::Send,
        Crossing::Write,
        Crossing::WriteWithImmediate,
    ];

    fn descriptor(self, remote: Remote) -> Descriptor {
        match self {
            Crossing::Send => Descriptor::new().immediate(5),
            Crossing::Write => Descriptor::write(remote),
            Crossing::WriteWithImmediate => Descriptor::write(remote).immediate(5),
        }
    }

    /// What a sender's status tells, and that of the receive.
    fn operations(self) -> (Status, Status) {
        match self {
            Crossing::Send => (Status::OP_SEND, Status::OP_RECEIVE),
            _ => (Status::OP_RDMA_WRITE, Status::OP_REMOTE_RDMA_WRITE),
        }
    }
}

/// Change a bit of a message that is on its way.
fn flip(sent: &mut Sent, byte: usize) {
    let Sent::Frame(_, immediate, header, bytes) = sent else {
        panic!("no message");
    };
    match (byte, immediate) {
        (0, Some(immediate)) => *immediate ^= 1 << 17,
        (1, _) => header[3] ^= 4,
        _ => {
            let at = byte % bytes.len();
            bytes[at] ^= 0x10;
        }
    }
}

/// An operation of some pieces; one of them is spoiled on the way.
fn spoiled(
    level: Level,
    crossing: Crossing,
    len: usize,
    code: ErrorCode,
    bits: Status,
    spoil: Spoil<'_>,
) {
    let (own, theirs) = crossing.operations();
    let consumes = crossing != Crossing::Write;
    let outcome = Outcome {
        sender: heard(level, own, Status::TRANSPORT_ERROR),
        receiver: consumes.then_some(DONE.with(bits).with(theirs)),
        code: (!consumes && level.is_reliable()).then_some(code),
        ends: level.is_reliable(),
    };
    fault_of(Net::with(level, true), &outcome, |net| {
        let at = match consumes {
            true => net.b.receive(len),
            false => net.b.room(len),
        };
        let descriptor = crossing.descriptor(net.remote(at));
        net.a.send(descriptor, &vec![7; len]);
        net.a.progress();
        spoil(&mut net.forth.borrow_mut());
    });
}

/// VI-DESC-19: what is checked arrives as it is, in as many pieces as it takes.
#[test]
fn checked_messages_arrive_as_they_are() {
    for level in Level::ALL {
        let mut net = Net::with(level, true);
        for len in [0, 1, MOST - 8, MOST - 7, MOST, 700, 5000] {
            let bytes: Vec<u8> = (0..len).map(|n| (n + len) as u8).collect();
            for crossing in Crossing::ALL {
                let at = net.b.receive(len);
                let (own, theirs) = crossing.operations();
                net.a.send(crossing.descriptor(net.remote(at)), &bytes);
                net.run();
                assert_eq!(net.a.status(SEND), done(own, Status::default()));
                assert_eq!(net.b.bytes(at, len), bytes);
                let received = net.b.status(RECEIVE);
                match crossing {
                    Crossing::Write => assert_eq!(received, None),
                    _ => assert_eq!(received, done(theirs, Status::IMMEDIATE)),
                }
                if crossing == Crossing::Write {
                    net.a.send(Descriptor::new(), b"");
                    net.run();
                    assert!(net.a.status(SEND).is_some() && net.b.status(RECEIVE).is_some());
                }
            }
            if level.has_read() {
                let (from, to) = (net.b.data(&bytes), net.a.room(len));
                let read = net.a.with(Descriptor::read(net.remote(from)), to, len);
                net.a.post(SEND, &read);
                net.run();
                let ok = done(Status::OP_RDMA_READ, Status::default());
                assert_eq!((net.a.status(SEND), net.a.bytes(to, len)), (ok, bytes));
            }
        }
        assert_eq!((net.a.errors(), net.b.errors()), (vec![], vec![]));
    }
}

/// VI-EM-7, VI-EM-8, VI-ERR-9, VI-ERR-11, VI-REL-1, VI-REL-2, VI-REL-8, SC-19: a bit of any piece,
/// of its header or of its immediate data.
#[test]
fn a_message_that_is_changed_is_told_as_its_level_says() {
    for level in Level::ALL {
        for crossing in Crossing::ALL {
            // One piece, and three.
            for (len, pieces) in [(8, 1), (600, 3)] {
                for (piece, byte) in (0..pieces).flat_map(|piece| (0..16).map(move |b| (piece, b)))
                {
                    let (code, bits) = (ErrorCode::RdmawData, Status::TRANSPORT_ERROR);
                    // Later pieces have no header.
                    let byte = if piece > 0 { byte + 2 } else { byte };
                    if byte == 1 && crossing == Crossing::Send && pieces == 1 {
                        continue;
                    }
                    spoiled(level, crossing, len, code, bits, &|way| {
                        flip(&mut way[piece], byte)
                    });
                }
            }
        }
    }
}

/// VI-EM-7: without a receive the message counts as one that has none.
#[test]
fn a_changed_message_without_a_receive_is_told_once() {
    for level in Level::ALL {
        let outcome = Outcome {
            sender: heard(level, Status::OP_SEND, Status::REMOTE_DESC_ERROR),
            receiver: None,
            code: Some(ErrorCode::RecvqEmpty),
            ends: level.is_reliable(),
        };
        fault_of(Net::with(level, true), &outcome, |net| {
            net.a.send(Descriptor::new(), &[7; 600]);
            net.a.progress();
            flip(&mut net.forth.borrow_mut()[0], 9);
        });
    }
}

/// VI-EM-13: the answer to a read is changed.
#[test]
fn an_answer_that_is_changed_fails_its_read() {
    for level in [Level::ReliableDelivery, Level::ReliableReception] {
        for piece in 0..3 {
            let mut net = Net::with(level, true);
            let to = net.a.room(700);
            let read = net.a.with(Descriptor::read(net.remote(0)), to, 700);
            net.a.post(SEND, &read);
            net.a.progress();
            net.b.progress();
            flip(&mut net.back.borrow_mut()[piece], 77);
            net.run();
            let failed = done(Status::OP_RDMA_READ, Status::TRANSPORT_ERROR);
            assert_eq!(net.a.status(SEND), failed);
            assert_eq!(net.states(), (State::Error, State::Error));
            assert_eq!((net.a.errors(), net.b.errors()), (vec![LOST], vec![LOST]));
        }
    }
}

/// VI-EM-13: also while a message comes that is not whole; it is flushed.
#[test]
fn an_answer_between_pieces_of_a_message_fails_its_read_only() {
    for level in [Level::ReliableDelivery, Level::ReliableReception] {
        let mut net = Net::with(level, true);
        net.a.receive(5000);
        let to = net.a.room(700);
        let read = net.a.with(Descriptor::read(net.remote(0)), to, 700);
        net.a.post(SEND, &read);
        net.b.send(Descriptor::new(), &[7; 5000]);
        net.a.progress();
        net.b.progress();
        let mut way = net.back.borrow_mut();
        let of = |sent: &Sent, wanted| matches!(sent, Sent::Frame(kind, ..) if *kind == wanted);
        let begun = way
            .iter()
            .position(|sent| of(sent, Kind::LongSend))
            .unwrap();
        let mut behind = way.iter_mut().skip(begun);
        flip(behind.find(|sent| of(sent, Kind::ReadData)).unwrap(), 77);
        drop(way);
        net.run();
        let failed = done(Status::OP_RDMA_READ, Status::TRANSPORT_ERROR);
        assert_eq!(net.a.status(SEND), failed);
        assert_eq!(net.a.status(RECEIVE), flushed(Status::OP_RECEIVE));
        assert_eq!(net.a.errors(), vec![LOST]);
    }
}

/// VI-EM-10, VI-STS-6: what is neither data nor an answer, but is changed, fails the transport.
#[test]
fn an_acknowledgement_that_is_changed_fails_the_transport() {
    let mut net = Net::with(Level::ReliableReception, true);
    net.b.receive(8);
    net.a.send(Descriptor::new(), b"one");
    net.a.progress();
    net.b.progress();
    flip(&mut net.back.borrow_mut()[0], 1);
    net.a.progress();
    let failed = done(Status::OP_SEND, Status::TRANSPORT_ERROR);
    assert_eq!(net.a.status(SEND), failed);
    assert_eq!(net.a.engine.state(), State::Error);
}

/// VI-EM-10, VI-ERR-12, VI-REL-2: a piece in the middle is lost.
#[test]
fn a_piece_that_is_lost_is_told_as_its_level_says() {
    for level in Level::ALL {
        for crossing in Crossing::ALL {
            let (code, bits) = (ErrorCode::RdmaTransport, Status::TRANSPORT_ERROR);
            let bits = bits.with(Status::PARTIAL_ERROR);
            spoiled(level, crossing, 600, code, bits, &|way| drop(way.remove(1)));
        }
    }
}

/// VI-EM-9, VI-STS-4: a sender with Reliable Reception that has sent a part learns from the receiver
/// that its message is cut.
#[test]
fn a_sender_learns_from_the_receiver_that_its_message_is_cut() {
    let mut net = Net::with(Level::ReliableReception, true);
    net.b.receive(20_000);
    net.a.send(Descriptor::new(), &[7; 20_000]);
    net.a.progress();
    net.forth.borrow_mut().remove(3);
    net.b.progress();
    let received = net.b.status(RECEIVE);
    net.run();
    let cut = Status::PARTIAL_ERROR.with(Status::TRANSPORT_ERROR);
    assert_eq!(received, done(Status::OP_RECEIVE, cut));
    assert_eq!(net.a.status(SEND), done(Status::OP_SEND, cut));
    assert_eq!(net.states(), (State::Error, State::Error));
}

/// VI-EM-10, VI-REL-1, VI-REL-2: a whole message is lost: reliable connections end with the one
/// behind it, others deliver that.
#[test]
fn a_message_that_is_lost_is_told_by_the_next_one() {
    for level in Level::ALL {
        for posted in [true, false] {
            let mut net = Net::with(level, true);
            let at = match posted {
                true => net.b.receive(8),
                false => 0,
            };
            net.a.send(Descriptor::write(net.remote(4096)), b"lost");
            net.a.send(Descriptor::write(net.remote(8192)), b"next");
            net.a.progress();
            net.forth.borrow_mut().pop_front();
            net.run();
            assert_eq!(net.b.bytes(4096, 4), [0; 4]);
            if !level.is_reliable() {
                assert_eq!(net.b.bytes(8192, 4), b"next");
                assert_eq!((net.b.errors(), net.b.status(RECEIVE)), (vec![], None));
                continue;
            }
            assert_eq!(net.b.bytes(8192, 4), [0; 4], "{at}");
            let expected = match posted {
                true => vec![LOST],
                false => vec![ErrorCode::RdmaTransport, LOST],
            };
            assert_eq!(net.b.errors(), expected);
            let received = net.b.status(RECEIVE);
            let failed = done(Status::OP_RECEIVE, Status::TRANSPORT_ERROR);
            assert_eq!(received, failed.filter(|_| posted));
            let (first, second) = (net.a.status(SEND), net.a.status(SEND));
            let (ok, failed) = (Status::default(), Status::TRANSPORT_ERROR);
            let expected = match is_acknowledged(level) {
                true => [failed, Status::FLUSHED_ERROR],
                false => [ok, ok],
            };
            let expected = expected.map(|bits| done(Status::OP_RDMA_WRITE, bits));
            assert_eq!([first, second], expected);
            assert_eq!(net.states(), (State::Error, State::Error));
        }
    }
}

/// VI-EM-10, VI-REL-1, VI-REL-2: what comes again is dropped, and nothing else happens.
#[test]
fn a_message_that_comes_again_is_dropped() {
    for level in Level::ALL {
        for (len, again) in [(8, 0), (600, 0), (600, 1), (600, 2)] {
            let mut net = Net::with(level, true);
            let ats = [net.b.receive(len), net.b.receive(len)];
            net.a.send(Descriptor::new(), &vec![7; len]);
            net.a.progress();
            let way = &net.forth;
            let copy = way.borrow()[again].clone();
            way.borrow_mut().push_back(copy);
            net.run();
            net.a.send(Descriptor::new(), &vec![8; len]);
            net.run();
            for (at, byte) in ats.into_iter().zip([7, 8]) {
                let ok = Status::default();
                assert_eq!(net.a.status(SEND), done(Status::OP_SEND, ok));
                assert_eq!(net.b.status(RECEIVE), done(Status::OP_RECEIVE, ok));
                assert_eq!(net.b.bytes(at, len), vec![byte; len]);
            }
            assert_eq!((net.a.errors(), net.b.errors()), (vec![], vec![]));
        }
    }
}

/// VI-EM-7: a message without room for its trailer was changed as well.
#[test]
fn a_message_without_a_trailer_was_changed() {
    for level in Level::ALL {
        let (code, bits) = (ErrorCode::RdmawData, Status::TRANSPORT_ERROR);
        spoiled(level, Crossing::Send, 8, code, bits, &|way| {
            let Sent::Frame(.., bytes) = &mut way[0] else {
                panic!("no message");
            };
            bytes.truncate(7);
        });
    }
}

proptest! {
    /// VI-REL-1, VI-REL-2: whatever happens to messages on the way, what a receive takes for good
    /// was sent, at most once, in order; with reliability nothing behind an error is taken.
    #[test]
    fn what_is_received_was_sent(
        level in 0..3_usize,
        lens in prop::collection::vec(1..900_usize, 1..8),
        spoils in prop::collection::vec((0..3_u8, 0..40_usize, 0..300_usize), 0..4),
    ) {
        let level = Level::ALL[level];
        let mut net = Net::with(level, true);
        let ats: Vec<_> = lens.iter().map(|_| net.b.receive(900)).collect();
        for (n, len) in lens.iter().enumerate() {
            net.a.send(Descriptor::new(), &vec![n as u8 + 1; *len]);
        }
        let mut passed = 0;
        for _ in 0..200 {
            net.a.progress();
            for (what, which, byte) in &spoils {
                let Some(index) = which.checked_sub(passed) else {
                    continue;
                };
                let mut way = net.forth.borrow_mut();
                if !matches!(way.get(index), Some(Sent::Frame(..))) {
                    continue;
                }
                match what {
                    0 => flip(&mut way[index], *byte + 2),
                    1 => drop(way.remove(index)),
                    _ => {
                        let copy = way[index].clone();
                        way.insert(index, copy);
                    }
                }
            }
            passed += net.forth.borrow().len();
            net.b.progress();
        }
        let mut last = 0;
        let mut failed = false;
        for at in ats {
            let Head::Done(got) = net.b.engine.take(RECEIVE) else {
                break;
            };
            failed |= got.status.is_error();
            if got.status.is_error() {
                continue;
            }
            prop_assert!(!failed || !level.is_reliable());
            let bytes = net.b.bytes(at, got.length as usize);
            let n = bytes[0];
            prop_assert!(n > last, "{} after {}", n, last);
            prop_assert_eq!(bytes, vec![n; lens[usize::from(n) - 1]]);
            last = n;
        }
    }
}
