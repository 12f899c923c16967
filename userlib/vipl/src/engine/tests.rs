// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two engines, face to face, without I/O: what crosses is in two queues that a test may look at,
//! shorten and add to.

use super::*;
use crate::{
    check::Checked,
    descriptor::{Descriptor, Remote, Status},
    link::Numbers,
    memory::tests::{attributes, TAG},
    wire::{header, Frame, Header, Kind, HEADER_MAX},
    Level, Ptag,
};
use mp_fabric::Map;
use mp_proto::work::{Place, READS_MAX};
use mp_queue_pair::Piece;
use proptest::prelude::*;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};
use vm_memory::{Bytes, VolatileSlice};

mod spoiled;

/// Bytes of a message.
const MOST: usize = 256;
/// Messages that fit on the way.
const ROOM: usize = 8;
const LEN: usize = 1 << 20;

#[derive(Clone, Debug)]
enum Sent {
    Frame(Kind, Option<u32>, Header, Vec<u8>),
    End(End),
}

type Way = Rc<RefCell<VecDeque<Sent>>>;
type Told = Rc<Cell<u64>>;

struct Fake {
    out: Way,
    inward: Way,
    current: Vec<u8>,
    /// Messages that were sent, and received.
    sent: u64,
    received: u64,
    /// Those that have taken effect, and those of them that the other side was told of.
    effect: u64,
    told: Told,
    hears: Told,
    /// So many sends find no room although there would be.
    refuses: u32,
}

impl Wire<Program> for Fake {
    fn most(&self, kind: Kind) -> usize {
        MOST - kind.header()
    }

    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[VolatileSlice<'_>],
    ) -> std::result::Result<bool, End> {
        let mut bytes = Vec::new();
        for piece in payload {
            let at = bytes.len();
            bytes.resize(at + piece.len(), 0);
            piece.copy_to(&mut bytes[at..]);
        }
        assert!(bytes.len() <= self.most(kind));
        let mut out = self.out.borrow_mut();
        let room = out.len() < ROOM && self.refuses == 0;
        self.refuses = self.refuses.saturating_sub(1);
        self.sent += u64::from(room);
        if room {
            out.push_back(Sent::Frame(kind, immediate, *header, bytes));
        }
        Ok(room)
    }

    fn has_news(&self) -> bool {
        !self.inward.borrow().is_empty()
    }

    fn receive(&mut self) -> std::result::Result<Option<Frame<'_>>, End> {
        let mut inward = self.inward.borrow_mut();
        match inward.front() {
            None => Ok(None),
            Some(Sent::End(end)) => Err(*end),
            Some(Sent::Frame(..)) => {
                let Some(Sent::Frame(kind, immediate, header, bytes)) = inward.pop_front() else {
                    return Ok(None);
                };
                self.current = bytes;
                self.received += 1;
                Ok(Some(Frame {
                    kind,
                    immediate,
                    header,
                    payload: Piece::from(&self.current[..]),
                    fault: None,
                }))
            }
        }
    }

    fn flush(&mut self) -> std::result::Result<(), End> {
        Ok(())
    }

    fn effect(&mut self) {
        self.effect = self.received;
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn effective(&mut self) -> u64 {
        self.hears.get()
    }

    fn close(&mut self, reason: Reason) {
        self.told.set(self.effect);
        self.out
            .borrow_mut()
            .push_back(Sent::End(End::Closed(reason)));
    }
}

struct Side {
    engine: Engine,
    regions: Regions,
    map: Map,
    handle: MemHandle,
    wire: Checked<Fake>,
    used: usize,
}

impl Side {
    fn new(
        level: Level,
        checks: bool,
        [out, inward]: [&Way; 2],
        [told, hears]: [&Told; 2],
    ) -> Self {
        let (regions, map) = (Regions::default(), Map::allocate(LEN).unwrap());
        let handle = regions
            .register(map.memory(), attributes(), u64::MAX)
            .unwrap();
        let mut engine = Engine::new(ViAttributes {
            level,
            max_transfer_size: 100_000,
            ptag: TAG,
            rdma_write: true,
            rdma_read: level.has_read(),
        })
        .unwrap();
        engine.event(&regions, Event::Connect).unwrap();
        engine.event(&regions, Event::Established).unwrap();
        let wire = Fake {
            out: Rc::clone(out),
            inward: Rc::clone(inward),
            current: Vec::new(),
            sent: 0,
            received: 0,
            effect: 0,
            told: Rc::clone(told),
            hears: Rc::clone(hears),
            refuses: 0,
        };
        Side {
            engine,
            regions,
            map,
            handle,
            wire: Checked::new(wire, checks, Numbers::default()),
            used: 0,
        }
    }

    fn progress(&mut self) -> bool {
        let works = !self.engine.is_over() && self.engine.has_work(&self.wire);
        works && self.engine.progress(&self.regions.view(), &mut self.wire)
    }

    fn base(&self) -> usize {
        self.map.memory().start()
    }

    fn room(&mut self, len: usize) -> usize {
        let at = self.used;
        self.used += len.next_multiple_of(64);
        at
    }

    fn data(&mut self, bytes: &[u8]) -> usize {
        let at = self.room(bytes.len());
        self.map.volatile().write_slice(bytes, at).unwrap();
        at
    }

    fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.map.volatile().read_slice(&mut bytes, at).unwrap();
        bytes
    }

    /// Post a descriptor; its address.
    fn post(&mut self, kind: QueueKind, descriptor: &Descriptor) -> usize {
        let at = self.data(&descriptor.encode());
        let address = self.base() + at;
        self.engine
            .post(&self.regions.view(), kind, address, self.handle);
        address
    }

    /// Add a piece of the memory.
    fn with(&self, descriptor: Descriptor, at: usize, len: usize) -> Descriptor {
        descriptor.segment(self.base() + at, self.handle, len as u32)
    }

    fn send(&mut self, descriptor: Descriptor, bytes: &[u8]) -> usize {
        let at = self.data(bytes);
        let descriptor = self.with(descriptor, at, bytes.len());
        self.post(QueueKind::Send, &descriptor)
    }

    /// Post a receive; where its bytes go.
    fn receive(&mut self, len: usize) -> usize {
        let at = self.room(len);
        let descriptor = self.with(Descriptor::new(), at, len);
        self.post(QueueKind::Receive, &descriptor);
        at
    }

    /// How the next descriptor of a queue was completed.
    fn status(&mut self, kind: QueueKind) -> Option<Status> {
        match self.engine.take(kind) {
            Head::Done(done) => {
                let word = self.bytes(done.descriptor - self.base() + 24, 8);
                let written = u64::from_le_bytes(word.try_into().unwrap());
                let expected = u64::from(done.status.0) << 32 | u64::from(done.length);
                assert_eq!(written, expected, "memory and completion differ");
                assert_eq!(done.status.0 & 0xFFF0_FE00, 0);
                assert!(!done.status.is_error() || done.length == 0);
                Some(done.status)
            }
            _ => None,
        }
    }

    fn errors(&mut self) -> Vec<ErrorCode> {
        let reports = self.engine.reports().into_iter();
        reports.map(|report| report.code).collect()
    }
}

/// A sender and a receiver.
struct Net {
    a: Side,
    b: Side,
    forth: Way,
    back: Way,
}

impl Net {
    fn new(level: Level) -> Self {
        Self::with(level, false)
    }

    /// Messages are checked, or are not.
    fn with(level: Level, checks: bool) -> Self {
        let (forth, back) = (Way::default(), Way::default());
        let (one, two) = (Told::default(), Told::default());
        Net {
            a: Side::new(level, checks, [&forth, &back], [&one, &two]),
            b: Side::new(level, checks, [&back, &forth], [&two, &one]),
            forth,
            back,
        }
    }

    /// Let everything arrive.
    fn run(&mut self) {
        for _ in 0..10_000 {
            let (a, b) = (self.a.progress(), self.b.progress());
            if !a && !b {
                return;
            }
        }
        panic!("it never ends");
    }

    /// Memory of the receiver as the sender names it.
    fn remote(&self, at: usize) -> Remote {
        Remote {
            address: (self.b.base() + at) as u64,
            handle: self.b.handle.0,
        }
    }

    fn states(&self) -> (State, State) {
        (self.a.engine.state(), self.b.engine.state())
    }
}

const DONE: Status = Status::DONE;
const SEND: QueueKind = QueueKind::Send;
const RECEIVE: QueueKind = QueueKind::Receive;
const LOST: ErrorCode = ErrorCode::ConnLost;

fn done(operation: Status, bits: Status) -> Option<Status> {
    Some(DONE.with(operation).with(bits))
}

fn flushed(operation: Status) -> Option<Status> {
    done(operation, Status::FLUSHED_ERROR)
}

/// What an error leads to at a level: the sender's bits, the receiver's codes, whether the
/// connection ends.
#[derive(Debug)]
struct Outcome {
    sender: Option<Status>,
    receiver: Option<Status>,
    code: Option<ErrorCode>,
    ends: bool,
}

/// Run a faulty operation and another one behind it, and look at everything.
fn fault(level: Level, outcome: &Outcome, act: impl FnOnce(&mut Net)) {
    fault_of(Net::new(level), outcome, act);
}

fn fault_of(mut net: Net, outcome: &Outcome, act: impl FnOnce(&mut Net)) {
    let level = net.a.engine.attributes.level;
    act(&mut net);
    net.run();
    let context = format!("{level:?} {outcome:?}");
    assert_eq!(net.a.status(SEND), outcome.sender, "{context}");
    if let Some(receiver) = outcome.receiver {
        assert_eq!(net.b.status(RECEIVE), Some(receiver), "{context}");
    }
    let lost = outcome.ends.then_some(LOST);
    let expected: Vec<_> = outcome.code.into_iter().chain(lost).collect();
    assert_eq!(net.b.errors(), expected, "{context}");
    assert_eq!(
        net.a.errors(),
        lost.into_iter().collect::<Vec<_>>(),
        "{context}"
    );
    // What follows succeeds, or never does.
    net.b.receive(8);
    net.a.send(Descriptor::new(), b"after");
    net.run();
    let (send, receive) = (net.a.status(SEND), net.b.status(RECEIVE));
    if outcome.ends {
        assert_eq!(net.states(), (State::Error, State::Error), "{context}");
        assert_eq!(send, flushed(Status::OP_SEND), "{context}");
        assert_eq!(receive, flushed(Status::OP_RECEIVE), "{context}");
    } else {
        assert_eq!(
            net.states(),
            (State::Connected, State::Connected),
            "{context}"
        );
        assert_eq!(send, done(Status::OP_SEND, Status::default()), "{context}");
        assert_eq!(
            receive,
            done(Status::OP_RECEIVE, Status::default()),
            "{context}"
        );
    }
}

/// Whether sends wait for the target.
fn is_acknowledged(level: Level) -> bool {
    level == Level::ReliableReception
}

/// The bits of a sender that hears of errors only if it waits for the receiver.
fn heard(level: Level, operation: Status, bits: Status) -> Option<Status> {
    match is_acknowledged(level) {
        true => done(operation, bits),
        false => done(operation, Status::default()),
    }
}

/// VI-EM-1, VI-STS-1 to VI-STS-3, VI-STATE-12, VI-STATE-20: an own descriptor that is wrong.
#[test]
fn own_errors_end_reliable_connections() {
    for level in Level::ALL {
        for bits in [
            Status::FORMAT_ERROR,
            Status::PROTECTION_ERROR,
            Status::LENGTH_ERROR,
        ] {
            let outcome = Outcome {
                sender: done(Status::OP_SEND, bits),
                receiver: None,
                code: None,
                ends: level.is_reliable(),
            };
            fault(level, &outcome, |net| {
                let at = net.a.data(b"bytes");
                let mut bytes = net.a.with(Descriptor::new(), at, 5).encode();
                match bits {
                    Status::FORMAT_ERROR => bytes[16] = 1,
                    Status::PROTECTION_ERROR => bytes[40] ^= 1,
                    _ => bytes[24] = 4,
                }
                let at = net.a.data(&bytes);
                let address = net.a.base() + at;
                net.a
                    .engine
                    .post(&net.a.regions.view(), SEND, address, net.a.handle);
            });
        }
    }
}

/// VI-EM-2, VI-DESC-12: a receive is wrong also if the message does not reach the segment that is, in
/// one piece or several; nothing is written.
#[test]
fn all_segments_of_a_receive_are_checked() {
    for len in [8, 3 * MOST] {
        let mut net = Net::new(Level::Unreliable);
        let (at, bad) = (net.b.room(len), MemHandle(net.b.handle.0 ^ 1));
        let descriptor = net.b.with(Descriptor::new(), at, len);
        let descriptor = descriptor.segment(net.b.base(), bad, 4);
        net.b.post(RECEIVE, &descriptor);
        net.a.send(Descriptor::new(), &vec![7; len]);
        net.run();
        let bits = Status::PROTECTION_ERROR;
        assert_eq!(net.b.status(RECEIVE), done(Status::OP_RECEIVE, bits));
        assert_eq!(net.b.bytes(at, len), vec![0; len]);
    }
}

/// VI-EM-2, VI-STS-8, VI-DESC-12: a receive that is wrong or too small.
#[test]
fn bad_receives_complete_with_their_bit() {
    let bits = [
        (Status::FORMAT_ERROR, 4096),
        (Status::PROTECTION_ERROR, 4096),
        (Status::LENGTH_ERROR, 8),
    ];
    // The ways hold eight pieces: all of it is sent before anybody answers.
    for (level, len) in Level::ALL.into_iter().flat_map(|l| [(l, 9), (l, 2000)]) {
        for (bits, room) in bits {
            let outcome = Outcome {
                sender: heard(level, Status::OP_SEND, Status::REMOTE_DESC_ERROR),
                receiver: done(Status::OP_RECEIVE, bits),
                code: None,
                ends: level.is_reliable(),
            };
            fault(level, &outcome, |net| {
                let at = net.b.room(room);
                let mut bytes = net.b.with(Descriptor::new(), at, room).encode();
                match bits {
                    Status::FORMAT_ERROR => bytes[14] = 1,
                    Status::PROTECTION_ERROR => bytes[40] ^= 1,
                    _ => {}
                }
                let at = net.b.data(&bytes);
                let (address, handle) = (net.b.base() + at, net.b.handle);
                net.b
                    .engine
                    .post(&net.b.regions.view(), RECEIVE, address, handle);
                net.a.send(Descriptor::new(), &vec![1; len]);
            });
        }
    }
}

/// VI-EM-3, VI-ERR-6: no receive.
#[test]
fn a_message_without_a_receive_is_told() {
    for level in Level::ALL {
        for (descriptor, operation) in [
            (Descriptor::new(), Status::OP_SEND),
            (Descriptor::new().immediate(4), Status::OP_SEND),
        ] {
            let outcome = Outcome {
                sender: heard(level, operation, Status::REMOTE_DESC_ERROR),
                receiver: None,
                code: Some(ErrorCode::RecvqEmpty),
                ends: level.is_reliable(),
            };
            fault(level, &outcome, |net| {
                net.a.send(descriptor, &[7; 600]);
            });
        }
        let outcome = Outcome {
            sender: heard(level, Status::OP_RDMA_WRITE, Status::REMOTE_DESC_ERROR),
            receiver: None,
            code: Some(ErrorCode::RecvqEmpty),
            ends: level.is_reliable(),
        };
        fault(level, &outcome, |net| {
            let at = net.b.data(&[0; 600]);
            let write = Descriptor::write(net.remote(at)).immediate(1);
            net.a.send(write, &[7; 600]);
        });
    }
}

/// VI-EM-4, VI-EM-5, VI-RDMA-5, VI-ERR-8, VI-ERR-11, VI-MEM-7, VI-DESC-20: each of the checks alone
/// refuses a write, and nothing is written.
#[test]
fn writes_that_are_not_allowed_write_nothing() {
    for level in Level::ALL {
        for with_immediate in [false, true] {
            for check in 0..5 {
                let bits = Status::PROTECTION_ERROR.with(Status::OP_REMOTE_RDMA_WRITE);
                let outcome = Outcome {
                    sender: heard(level, Status::OP_RDMA_WRITE, Status::RDMA_PROT_ERROR),
                    receiver: with_immediate.then_some(DONE.with(bits)),
                    code: (!with_immediate).then_some(ErrorCode::RdmawProt),
                    ends: level.is_reliable(),
                };
                fault(level, &outcome, |net| {
                    let mut remote = net.remote(0);
                    net.b.data(&[0x11; 700]);
                    let base = net.b.base();
                    let less = |ptag, rdma_write| crate::MemAttributes {
                        ptag,
                        rdma_write,
                        rdma_read: true,
                    };
                    let second =
                        net.b
                            .regions
                            .register(net.b.map.memory(), less(Ptag(2), true), u64::MAX);
                    let third =
                        net.b
                            .regions
                            .register(net.b.map.memory(), less(TAG, false), u64::MAX);
                    match check {
                        0 => net.b.engine.attributes.rdma_write = false,
                        1 => remote.handle = third.unwrap().0,
                        2 => remote.handle = second.unwrap().0,
                        3 => remote.handle ^= 1 << 31,
                        _ => remote.address = (base + LEN - 699) as u64,
                    }
                    if with_immediate {
                        net.b.receive(8);
                    }
                    let write = Descriptor::write(remote);
                    let write = if with_immediate {
                        write.immediate(5)
                    } else {
                        write
                    };
                    net.a.send(write, &[0x22; 700]);
                    net.run();
                    assert_eq!(net.b.bytes(0, 700), [0x11; 700]);
                    assert_eq!(net.b.bytes(LEN - 699, 699), [0; 699]);
                });
            }
        }
    }
}

/// VI-EM-6, VI-ERR-13, VI-STS-7: a read that is not allowed reads nothing.
#[test]
fn reads_that_are_not_allowed_read_nothing() {
    for level in [Level::ReliableDelivery, Level::ReliableReception] {
        for check in 0..3 {
            let outcome = Outcome {
                sender: done(Status::OP_RDMA_READ, Status::RDMA_PROT_ERROR),
                receiver: None,
                code: Some(ErrorCode::RdmarProt),
                ends: true,
            };
            fault(level, &outcome, |net| {
                let mut remote = net.remote(0);
                net.b.data(&[0x11; 700]);
                match check {
                    0 => net.b.engine.attributes.rdma_read = false,
                    1 => remote.handle ^= 1 << 31,
                    _ => remote.address = (net.b.base() + LEN - 699) as u64,
                }
                let at = net.a.data(&[0x22; 700]);
                let read = net.a.with(Descriptor::read(remote), at, 700);
                net.a.post(SEND, &read);
                net.run();
                assert_eq!(net.a.bytes(at, 700), [0x22; 700]);
            });
        }
    }
}

/// VI-RDMA-2, VI-RDMA-3, VI-DESC-11, VI-DESC-16, VI-DESC-17: writes of all sizes; with immediate
/// data a receive is consumed, and its own pieces stay as they are.
#[test]
fn writes_change_memory_and_nothing_else() {
    for level in Level::ALL {
        let mut net = Net::new(level);
        for len in [0, 1, 240, 241, 5000] {
            let bytes: Vec<u8> = (0..len).map(|n| (n + len) as u8).collect();
            let (guard, own) = (net.b.data(&[9; 64]), net.b.receive(16));
            let at = net.b.data(&vec![0; len]);
            let end = net.b.data(&[9; 64]);
            net.a.send(Descriptor::write(net.remote(at)), &bytes);
            net.run();
            assert_eq!(
                net.a.status(SEND),
                done(Status::OP_RDMA_WRITE, Status::default())
            );
            assert_eq!((net.b.bytes(at, len), net.b.status(RECEIVE)), (bytes, None));
            let write = Descriptor::write(net.remote(at)).immediate(0xabcd);
            net.a.send(write, &vec![5; len]);
            net.run();
            assert_eq!(net.b.bytes(at, len), vec![5; len]);
            let Head::Done(got) = net.b.engine.take(RECEIVE) else {
                panic!("not received");
            };
            let bits = Status::OP_REMOTE_RDMA_WRITE.with(Status::IMMEDIATE);
            assert_eq!(got.status, DONE.with(bits));
            assert_eq!((got.length as usize, got.immediate), (len, Some(0xabcd)));
            assert_eq!(net.b.bytes(own, 16), [0; 16]);
            assert_eq!(
                (net.b.bytes(guard, 64), net.b.bytes(end, 64)),
                (vec![9; 64], vec![9; 64])
            );
            assert_eq!(
                net.a.status(SEND),
                done(Status::OP_RDMA_WRITE, Status::default())
            );
        }
        assert_eq!((net.a.errors(), net.b.errors()), (vec![], vec![]));
    }
}

/// VI-RDMA-4, VI-RDMA-8, VI-WQ-1, VI-ORD-2, VI-ORD-4: reads of all sizes, with sends behind them
/// that arrive earlier and come back later.
#[test]
fn reads_bring_memory_and_sends_overtake_them() {
    for level in [Level::ReliableDelivery, Level::ReliableReception] {
        let mut net = Net::new(level);
        for len in [0, 1, 256, 257, 5000] {
            let bytes: Vec<u8> = (0..len).map(|n| (n + len) as u8).collect();
            let from = net.b.data(&bytes);
            let to = net.a.data(&vec![0; len]);
            let read = net.a.with(Descriptor::read(net.remote(from)), to, len);
            net.a.post(SEND, &read);
            net.b.receive(8);
            net.a.send(Descriptor::new().immediate(3), b"behind");
            net.a.progress();
            net.b.progress();
            let got = done(Status::OP_RECEIVE, Status::IMMEDIATE);
            assert_eq!(net.b.status(RECEIVE), got);
            assert_eq!(net.a.status(SEND), None);
            net.run();
            assert_eq!(net.a.bytes(to, len), bytes);
            assert_eq!(
                net.a.status(SEND),
                done(Status::OP_RDMA_READ, Status::default())
            );
            assert_eq!(net.a.status(SEND), done(Status::OP_SEND, Status::default()));
        }
    }
}

/// VI-ORD-3: a fenced send waits for all reads before it, and sends what the last one has brought.
#[test]
fn a_fence_waits_for_reads() {
    let mut net = Net::new(Level::ReliableDelivery);
    let to = net.a.room(1000);
    let reads = 2 * READS_MAX;
    for n in 1..=reads {
        let from = net.b.data(&vec![n as u8; 1000]);
        let read = net.a.with(Descriptor::read(net.remote(from)), to, 1000);
        net.a.post(SEND, &read);
    }
    let fenced = net.a.with(Descriptor::new().fence(), to, 1000);
    net.a.post(SEND, &fenced);
    let at = net.b.receive(1000);
    net.run();
    for _ in 0..reads {
        assert_eq!(
            net.a.status(SEND),
            done(Status::OP_RDMA_READ, Status::default())
        );
    }
    assert_eq!(net.a.status(SEND), done(Status::OP_SEND, Status::default()));
    assert_eq!(net.b.bytes(at, 1000), vec![reads as u8; 1000]);
}

/// VI-REL-6, VI-STATE-20: what was sent before an own error still succeeds.
#[test]
fn an_own_error_waits_for_what_was_sent_before() {
    let mut net = Net::new(Level::ReliableReception);
    net.b.receive(8);
    net.a.send(Descriptor::new(), b"good");
    net.a.send(Descriptor::new(), &vec![0; 100_001]);
    net.run();
    let expected = [Status::default(), Status::LENGTH_ERROR];
    for bits in expected {
        assert_eq!(net.a.status(SEND), done(Status::OP_SEND, bits));
    }
    let got = done(Status::OP_RECEIVE, Status::default());
    assert_eq!(net.b.status(RECEIVE), got);
    assert_eq!(net.states(), (State::Error, State::Error));
}

/// VI-REL-3, VI-EM-9: what was sent whole succeeds if it takes effect, although the message behind it
/// ends in the middle; also if the partner refuses that one.
#[test]
fn what_was_sent_before_a_cut_message_succeeds() {
    for refuses in [false, true] {
        let mut net = Net::new(Level::ReliableReception);
        let second = net
            .a
            .regions
            .register(net.a.map.memory(), attributes(), u64::MAX);
        let second = second.unwrap();
        net.b.receive(8);
        // Of a message that is too long the partner refuses the rest.
        let room = if refuses { 8 } else { 20_000 };
        net.b.receive(room);
        net.a.send(Descriptor::new(), b"good");
        let cut = Descriptor::new().segment(net.a.base(), second, 20_000);
        net.a.used = 20_032;
        net.a.post(SEND, &cut);
        net.a.progress();
        net.a.regions.deregister(net.a.base(), second).unwrap();
        net.a.progress();
        net.run();
        let own = Status::PROTECTION_ERROR.with(Status::PARTIAL_ERROR);
        assert_eq!(net.a.status(SEND), done(Status::OP_SEND, Status::default()));
        assert_eq!(net.a.status(SEND), done(Status::OP_SEND, own), "{refuses}");
        let got = done(Status::OP_RECEIVE, Status::default());
        assert_eq!(net.b.status(RECEIVE), got);
        assert_eq!(net.states(), (State::Error, State::Error));
    }
}

/// VI-STS-2, VI-STS-4, VI-DESC-12: the memory that a read goes to is deregistered in between.
#[test]
fn a_read_into_memory_that_has_gone_is_cut() {
    let mut net = Net::new(Level::ReliableDelivery);
    let second = net
        .a
        .regions
        .register(net.a.map.memory(), attributes(), u64::MAX);
    let second = second.unwrap();
    let read = Descriptor::read(net.remote(0)).segment(net.a.base() + 4096, second, 2000);
    net.a.post(SEND, &read);
    net.a.progress();
    net.b.progress();
    let rest = net.back.borrow_mut().split_off(2);
    net.a.progress();
    net.a.regions.deregister(net.a.base(), second).unwrap();
    net.back.borrow_mut().extend(rest);
    net.run();
    let bits = Status::PROTECTION_ERROR.with(Status::PARTIAL_ERROR);
    assert_eq!(net.a.status(SEND), done(Status::OP_RDMA_READ, bits));
    assert_eq!(net.states(), (State::Error, State::Error));
}

/// VI-STS-8: a refusal is told before the end, also if there is no room for it at first.
#[test]
fn a_refusal_waits_for_room_and_the_end_for_it() {
    let mut net = Net::new(Level::ReliableReception);
    for _ in 0..ROOM {
        net.a.receive(4);
        net.b.send(Descriptor::new(), b"fill");
    }
    net.a.send(Descriptor::new(), b"nobody");
    net.b.progress();
    let view = net.a.regions.view();
    let (work, mut side) = net.a.engine.parts(&view);
    work.transmit(&mut side, &mut net.a.wire).unwrap();
    drop(view);
    net.b.progress();
    assert_eq!(net.b.engine.state(), State::Error);
    assert_eq!(net.back.borrow().len(), ROOM);
    net.run();
    let refused = done(Status::OP_SEND, Status::REMOTE_DESC_ERROR);
    assert_eq!(net.a.status(SEND), refused);
}

/// VI-REL-3, VI-REL-6, VI-REL-7: only Reliable Reception waits for the target, and nothing behind a
/// failure is delivered.
#[test]
fn reliable_reception_waits_for_the_target() {
    for level in Level::ALL {
        let mut net = Net::new(level);
        net.b.receive(8);
        net.a.send(Descriptor::new(), b"one");
        net.a.progress();
        let early = net.a.status(SEND).is_some();
        assert_eq!(early, !is_acknowledged(level));
        net.run();
        assert_eq!(early, net.a.status(SEND).is_none());
    }
    let mut net = Net::new(Level::ReliableReception);
    for len in [8, 2, 8] {
        net.b.receive(len);
    }
    for _ in 0..3 {
        net.a.send(Descriptor::new(), b"five!");
    }
    net.run();
    let sends = [(); 3].map(|()| net.a.status(SEND));
    let receives = [(); 3].map(|()| net.b.status(RECEIVE));
    let (ok, none) = (Status::default(), Status::FLUSHED_ERROR);
    assert_eq!(
        sends,
        [ok, Status::REMOTE_DESC_ERROR, none].map(|bits| done(Status::OP_SEND, bits))
    );
    assert_eq!(
        receives,
        [ok, Status::LENGTH_ERROR, none].map(|bits| done(Status::OP_RECEIVE, bits))
    );
}

/// VI-EM-9, VI-STS-4, VI-ERR-10, VI-MEM-12: memory that is deregistered in the middle of a message
/// cuts it, at both ends.
#[test]
fn a_message_that_is_cut_is_told_at_both_ends() {
    for level in Level::ALL {
        for write in [false, true] {
            let mut net = Net::new(level);
            let second = net
                .a
                .regions
                .register(net.a.map.memory(), attributes(), u64::MAX);
            let second = second.unwrap();
            let at = net.b.receive(20_000);
            let descriptor = match write {
                false => Descriptor::new(),
                true => Descriptor::write(net.remote(at)),
            };
            let descriptor = descriptor.segment(net.a.base(), second, 20_000);
            net.a.used = 20_032;
            net.a.post(SEND, &descriptor);
            net.a.progress();
            net.a.regions.deregister(net.a.base(), second).unwrap();
            net.run();
            let operation = if write {
                Status::OP_RDMA_WRITE
            } else {
                Status::OP_SEND
            };
            let cut = Status::PROTECTION_ERROR.with(Status::PARTIAL_ERROR);
            assert_eq!(net.a.status(SEND), done(operation, cut));
            let partial = Status::PARTIAL_ERROR.with(Status::TRANSPORT_ERROR);
            let (reliable, errors) = (level.is_reliable(), net.b.errors());
            let mut expected = Vec::new();
            match (write, reliable) {
                (false, _) => assert_eq!(net.b.status(RECEIVE), done(Status::OP_RECEIVE, partial)),
                (true, true) => expected.push(ErrorCode::RdmawAbort),
                (true, false) => assert_eq!(net.b.status(RECEIVE), None),
            }
            expected.extend(reliable.then_some(LOST));
            assert_eq!(errors, expected);
        }
    }
}

/// VI-REL-3: what has taken effect has succeeded, although the receiver has disconnected before
/// there was room to say so; what has not is flushed.
#[test]
fn a_disconnect_loses_no_acknowledgement() {
    let mut net = Net::new(Level::ReliableReception);
    net.b.receive(8);
    net.b.receive(8);
    for n in 0..3 {
        net.a.send(Descriptor::new(), b"three");
        net.a.progress();
        if n < 2 {
            net.b.wire.refuses = 1;
            net.b.progress();
            assert!(net.b.status(RECEIVE).is_some());
        }
    }
    // As a VI does.
    net.b.wire.close(Reason::Disconnect);
    let disconnected = net.b.engine.event(&net.b.regions, Event::Disconnect);
    disconnected.unwrap();
    net.a.progress();
    let ok = done(Status::OP_SEND, Status::default());
    let sends = [(); 3].map(|()| net.a.status(SEND));
    assert_eq!(sends, [ok, ok, flushed(Status::OP_SEND)]);
}

/// VI-EM-9, VI-ORD-1: a message does not overtake the word that the one before it ends in the
/// middle, at a level that survives that.
#[test]
fn a_message_waits_for_the_abort_before_it() {
    let mut net = Net::new(Level::Unreliable);
    net.b.receive(20_000);
    net.b.receive(8);
    let map = net.a.map.memory();
    let second = net.a.regions.register(map, attributes(), u64::MAX);
    let second = second.unwrap();
    let cut = Descriptor::new().segment(net.a.base(), second, 20_000);
    net.a.used = 20_032;
    net.a.post(SEND, &cut);
    net.a.progress();
    net.a.regions.deregister(net.a.base(), second).unwrap();
    net.b.progress();
    net.a.send(Descriptor::new(), b"next");
    // Room for the abort comes just after it was tried.
    net.a.wire.refuses = 1;
    net.run();
    assert_eq!(net.states(), (State::Connected, State::Connected));
    let partial = Status::PARTIAL_ERROR.with(Status::TRANSPORT_ERROR);
    assert_eq!(net.b.status(RECEIVE), done(Status::OP_RECEIVE, partial));
    let ok = done(Status::OP_RECEIVE, Status::default());
    assert_eq!(net.b.status(RECEIVE), ok);
}

/// VI-STS-9: a partner that refuses an operation with what it cannot fail with fails it as the
/// transport does.
#[test]
fn a_refusal_has_the_bits_of_its_operation() {
    let (descriptor, protected) = (Status::REMOTE_DESC_ERROR, Status::RDMA_PROT_ERROR);
    let nowhere = Remote {
        address: 0,
        handle: 0,
    };
    let send = (Descriptor::new(), Status::OP_SEND, [descriptor]);
    let write = Descriptor::write(nowhere);
    let noticed = write.clone().immediate(1);
    let write = (write, Status::OP_RDMA_WRITE, [protected]);
    for (operation, of, [only]) in [send, write] {
        for told in [descriptor, protected] {
            let mut net = Net::new(Level::ReliableReception);
            net.a.send(operation.clone(), b"x");
            net.a.progress();
            let refusal = header([1, told.0, 0, 0]);
            let refusal = Sent::Frame(Kind::Refusal, None, refusal, vec![]);
            net.back.borrow_mut().push_back(refusal);
            net.a.progress();
            let bits = match told == only {
                true => told,
                false => Status::TRANSPORT_ERROR,
            };
            assert_eq!(net.a.status(SEND), done(of, bits));
        }
    }
    let mut net = Net::new(Level::ReliableReception);
    net.a.send(noticed, b"x");
    net.run();
    assert_eq!(net.a.status(SEND), done(Status::OP_RDMA_WRITE, descriptor));
}

/// VI-DESC-10, VI-EM-1, VI-EM-2: a segment without bytes names memory all the same.
#[test]
fn a_segment_without_bytes_has_a_good_handle() {
    for good in [true, false] {
        let mut net = Net::new(Level::ReliableDelivery);
        let (data, handle) = (net.a.base(), net.a.handle);
        let handle = if good {
            handle
        } else {
            MemHandle(handle.0 ^ 1)
        };
        net.b.receive(8);
        let descriptor = Descriptor::new().segment(data, handle, 0);
        net.a.post(SEND, &descriptor);
        net.run();
        let bits = match good {
            true => Status::default(),
            false => Status::PROTECTION_ERROR,
        };
        assert_eq!(net.a.status(SEND), done(Status::OP_SEND, bits));
    }
}

/// VI-EM-10, VI-STS-6: a partner that finds what cannot be says so: what waits for it fails as the
/// transport does.
#[test]
fn a_partner_that_finds_nonsense_fails_what_waits_for_it() {
    for level in Level::ALL
        .into_iter()
        .filter(|level| is_acknowledged(*level))
    {
        let mut net = Net::new(level);
        net.b.receive(8);
        net.forth
            .borrow_mut()
            .push_back(Sent::Frame(Kind::More, None, [0; HEADER_MAX], vec![1]));
        net.a.send(Descriptor::new(), b"one");
        net.a.send(Descriptor::new(), b"two");
        net.run();
        let bits = [Status::TRANSPORT_ERROR, Status::FLUSHED_ERROR];
        assert_eq!(
            [(); 2].map(|()| net.a.status(SEND)),
            bits.map(|bits| done(Status::OP_SEND, bits))
        );
        assert_eq!(net.states(), (State::Error, State::Error));
    }
}

/// VI-STS-8, VI-REL-3: a refusal for which there is no room before the program disconnects is told
/// with the end.
#[test]
fn a_refusal_without_room_is_told_with_the_end() {
    let nowhere = Remote {
        address: 0,
        handle: 0,
    };
    let send = (
        Descriptor::new(),
        Status::OP_SEND,
        Status::REMOTE_DESC_ERROR,
    );
    let write = Descriptor::write(nowhere);
    let write = (write, Status::OP_RDMA_WRITE, Status::RDMA_PROT_ERROR);
    for (operation, of, bits) in [send, write] {
        let mut net = Net::new(Level::ReliableReception);
        net.b.receive(8);
        net.a.send(Descriptor::new(), b"good");
        net.a.send(operation, b"bad");
        net.a.send(Descriptor::new(), b"later");
        net.a.progress();
        net.b.wire.refuses = u32::MAX;
        net.b.progress();
        let reason = net.b.engine.leaves();
        net.b.wire.close(reason);
        net.b
            .engine
            .event(&net.b.regions, Event::Disconnect)
            .unwrap();
        net.a.progress();
        let expected = [
            done(Status::OP_SEND, Status::default()),
            done(of, bits),
            flushed(Status::OP_SEND),
        ];
        assert_eq!([(); 3].map(|()| net.a.status(SEND)), expected);
        assert_eq!(net.a.engine.state(), State::Error);
    }
}

/// VI-EM-11, VI-EM-13, VI-STS-6, VI-REL-10: a link that fails fails what waits for the partner; a
/// partner that leaves only flushes.
#[test]
fn what_waits_for_the_partner_fails_with_the_link() {
    for level in Level::ALL {
        for end in [
            End::Down,
            End::Broken,
            End::Gone,
            End::Closed(Reason::Disconnect),
            End::Closed(Reason::Transport),
        ] {
            let mut net = Net::new(level);
            let to = net.a.room(64);
            if level.has_read() {
                let read = net.a.with(Descriptor::read(net.remote(0)), to, 64);
                net.a.post(SEND, &read);
            }
            net.a.send(Descriptor::new(), b"one");
            net.a.send(Descriptor::new(), b"two");
            net.a.receive(8);
            net.a.progress();
            net.back.borrow_mut().push_back(Sent::End(end));
            net.a.progress();
            let transport = matches!(
                end,
                End::Down | End::Broken | End::Closed(Reason::Transport)
            );
            let bits = match transport {
                true => Status::TRANSPORT_ERROR,
                false => Status::FLUSHED_ERROR,
            };
            if level.has_read() {
                assert_eq!(net.a.status(SEND), done(Status::OP_RDMA_READ, bits));
            }
            let sends = match is_acknowledged(level) {
                true => [bits, Status::FLUSHED_ERROR],
                false => [Status::default(); 2],
            };
            assert_eq!(
                [(); 2].map(|()| net.a.status(SEND)),
                sends.map(|bits| done(Status::OP_SEND, bits))
            );
            assert_eq!(net.a.status(RECEIVE), flushed(Status::OP_RECEIVE));
            assert_eq!(
                (net.a.engine.state(), net.a.errors()),
                (State::Error, vec![LOST])
            );
        }
    }
}

/// VI-EM-10, VI-ERR-12: the transport fails in the middle of a message.
#[test]
fn a_message_is_cut_by_the_transport() {
    for level in Level::ALL {
        for write in [false, true] {
            let mut net = Net::new(level);
            let at = net.b.receive(5000);
            let descriptor = match write {
                false => Descriptor::new(),
                true => Descriptor::write(net.remote(at)),
            };
            net.a.send(descriptor, &[1; 5000]);
            net.a.progress();
            net.forth.borrow_mut().push_back(Sent::End(End::Broken));
            net.b.progress();
            let partial = Status::PARTIAL_ERROR.with(Status::TRANSPORT_ERROR);
            let bits = if write {
                Status::FLUSHED_ERROR
            } else {
                partial
            };
            assert_eq!(net.b.status(RECEIVE), done(Status::OP_RECEIVE, bits));
            let code = (write && level.is_reliable()).then_some(ErrorCode::RdmaTransport);
            let expected: Vec<_> = code.into_iter().chain([LOST]).collect();
            assert_eq!(net.b.errors(), expected);
        }
    }
}

/// VI-POST-8, VI-ERR-4, VI-ERR-16, VI-EM-12, VI-STATE-13: three ways of posting what is none, at
/// every level.
#[test]
fn descriptors_that_are_none_are_catastrophes() {
    for level in Level::ALL {
        for way in 0..4 {
            let mut net = Net::new(level);
            net.a.receive(4);
            let at = net.a.data(&Descriptor::new().encode());
            let (base, handle) = (net.a.base(), net.a.handle);
            let address = match way {
                0 => base + at + 32,
                1 => base + LEN,
                _ => base + at,
            };
            match way {
                2 => net
                    .a
                    .engine
                    .post(&net.a.regions.view(), SEND, address, MemHandle(0)),
                3 => {
                    net.a
                        .engine
                        .post(&net.a.regions.view(), RECEIVE, address, handle);
                    net.a.map.volatile().write_slice(&[1], at).unwrap();
                    net.b.send(Descriptor::new(), b"");
                    net.b.send(Descriptor::new(), b"");
                }
                _ => net
                    .a
                    .engine
                    .post(&net.a.regions.view(), SEND, address, handle),
            }
            net.run();
            let reports = net.a.engine.reports();
            let report = reports.first().copied().unwrap();
            assert_eq!(
                (report.code, report.descriptor),
                (ErrorCode::PostDesc, Some(address))
            );
            assert_eq!(report.resource, Resource::Descriptor);
            assert_eq!(reports.len(), 2);
            assert_eq!(net.states(), (State::Error, State::Error));
            let first = net.a.status(RECEIVE);
            match way {
                3 => assert_eq!(first, done(Status::OP_RECEIVE, Status::default())),
                _ => assert_eq!(first, flushed(Status::OP_RECEIVE)),
            }
        }
    }
}

/// VI-POST-9, VI-ERR-7: one descriptor too many.
#[test]
fn too_many_descriptors_are_a_catastrophe() {
    let mut net = Net::new(Level::Unreliable);
    let at = net.a.data(&vec![0; 64 * (DESCRIPTORS_MAX + 1)]);
    for n in 0..=DESCRIPTORS_MAX {
        assert_eq!(net.a.engine.state(), State::Connected);
        let address = net.a.base() + at + 64 * n;
        net.a
            .engine
            .post(&net.a.regions.view(), RECEIVE, address, net.a.handle);
    }
    assert_eq!(net.a.errors(), [ErrorCode::ViOverrun, LOST]);
    for _ in 0..=DESCRIPTORS_MAX {
        assert_eq!(net.a.status(RECEIVE), flushed(Status::OP_RECEIVE));
    }
}

/// VI-ERR-14, VI-MEM-12: a descriptor that cannot be reached when it is to be completed.
#[test]
fn a_completion_that_cannot_be_written_is_a_catastrophe() {
    let mut net = Net::new(Level::ReliableDelivery);
    let second = net
        .b
        .regions
        .register(net.b.map.memory(), attributes(), u64::MAX)
        .unwrap();
    let room = net.b.room(300);
    let descriptor = net.b.with(Descriptor::new(), room, 300);
    let at = net.b.data(&descriptor.encode());
    let address = net.b.base() + at;
    net.b
        .engine
        .post(&net.b.regions.view(), RECEIVE, address, second);
    net.a.send(Descriptor::new(), &[3; 300]);
    net.a.progress();
    let last = net.forth.borrow_mut().pop_back().unwrap();
    net.b.progress();
    net.b.regions.deregister(net.b.base(), second).unwrap();
    net.forth.borrow_mut().push_back(last);
    net.run();
    assert_eq!(net.b.errors(), [ErrorCode::CompProt, LOST]);
    assert_eq!(net.states(), (State::Error, State::Error));
}

/// VI-POST-5 to VI-POST-7, VI-STATE-19: what is posted when not connected.
#[test]
fn posts_wait_or_are_flushed_by_state() {
    let mut net = Net::new(Level::ReliableDelivery);
    net.a
        .engine
        .event(&net.a.regions, Event::Disconnect)
        .unwrap();
    net.a.send(
        Descriptor::write(Remote {
            address: 0,
            handle: 0,
        }),
        b"x",
    );
    assert_eq!(net.a.status(SEND), flushed(Status::OP_RDMA_WRITE));
    net.a.receive(4);
    assert_eq!(net.a.status(RECEIVE), None);
    assert!(net.a.engine.may_be_destroyed().is_err());
    net.a
        .engine
        .event(&net.a.regions, Event::Disconnect)
        .unwrap();
    assert_eq!(net.a.status(RECEIVE), flushed(Status::OP_RECEIVE));
    assert!(net.a.engine.may_be_destroyed().is_ok());
}

fn place_header(address: u64, handle: u32, len: u32) -> Header {
    let place = Place {
        handle,
        address,
        len,
    };
    place.header()
}

/// What a partner may say that cannot be.
fn nonsense() -> Vec<(Kind, Header, Vec<u8>)> {
    let none = [0; HEADER_MAX];
    vec![
        (Kind::More, none, vec![1]),
        (Kind::Abort, none, vec![]),
        (Kind::LongSend, header([4, 0, 0, 0]), vec![1; 5]),
        (Kind::LongSend, header([4, 0, 0, 0]), vec![]),
        (Kind::Write, place_header(0, 1, 4), vec![1; 5]),
        (Kind::ReadData, none, vec![1]),
        (Kind::ReadFailed, header([1, 0, 0, 0]), vec![]),
        (Kind::Ack, header([1, 0, 0, 0]), vec![]),
        (Kind::Refusal, header([1, 0, 0, 0]), vec![]),
        (Kind::Ack, none, vec![1]),
    ]
}

/// VI-EM-10: what cannot be ends the connection, at every level.
#[test]
fn nonsense_ends_the_connection() {
    for level in Level::ALL {
        for (kind, header, bytes) in nonsense() {
            let mut net = Net::new(level);
            net.b.receive(100);
            let sent = Sent::Frame(kind, None, header, bytes);
            net.forth.borrow_mut().push_back(sent.clone());
            net.b.progress();
            // A write that is not allowed may be told first.
            let state = net.b.engine.state();
            assert_eq!(state, State::Error, "{level:?} {sent:?}");
        }
        if level.has_read() {
            let mut net = Net::new(level);
            for _ in 0..=READS_MAX {
                let header = place_header(net.b.base() as u64, net.b.handle.0, 8);
                let sent = Sent::Frame(Kind::Read, None, header, vec![]);
                net.forth.borrow_mut().push_back(sent);
            }
            net.b.progress();
            assert_eq!(net.b.engine.state(), State::Error);
        }
    }
}

proptest! {
    /// VI-DESC-19, VI-ORD-5, VI-ORD-7: any pieces to any pieces, in order, at every level.
    #[test]
    fn streams_of_pieces_arrive_as_they_are(
        level in 0..3_usize,
        messages in prop::collection::vec((prop::collection::vec(0..300_usize, 0..8), prop::collection::vec(0..300_usize, 0..8), any::<Option<u32>>()), 1..20),
    ) {
        let mut net = Net::new(Level::ALL[level]);
        let mut expected = Vec::new();
        for (n, (from, to, immediate)) in messages.iter().enumerate() {
            let total: usize = from.iter().sum();
            let mut receive = Descriptor::new();
            let (mut places, mut room) = (Vec::new(), 0);
            for len in to.iter().copied().chain([total]) {
                let at = net.b.room(len);
                receive = net.b.with(receive, at, len);
                places.push((at, len));
                room += len;
            }
            prop_assert!(room >= total);
            net.b.post(RECEIVE, &receive);
            let mut send = immediate.map_or(Descriptor::new(), |data| Descriptor::new().immediate(data));
            let mut bytes = Vec::new();
            for (piece, len) in from.iter().enumerate() {
                let part: Vec<u8> = (0..*len).map(|i| (i * 3 + piece * 5 + n) as u8).collect();
                let at = net.a.data(&part);
                send = net.a.with(send, at, *len);
                bytes.extend(part);
            }
            net.a.post(SEND, &send);
            expected.push((bytes, places, *immediate));
            if n % 3 == 0 {
                net.a.progress();
            }
        }
        net.run();
        for (bytes, places, immediate) in expected {
            let Head::Done(got) = net.b.engine.take(RECEIVE) else {
                return Err(TestCaseError::fail("not received"));
            };
            prop_assert!(!got.status.is_error());
            prop_assert_eq!((got.length as usize, got.immediate), (bytes.len(), immediate));
            let mut found = Vec::new();
            for (at, len) in places {
                let left = bytes.len() - found.len();
                found.extend(net.b.bytes(at, len.min(left)));
            }
            prop_assert_eq!(found, bytes);
            prop_assert_eq!(net.a.status(SEND), done(Status::OP_SEND, Status::default()));
        }
    }

    /// VI-STS-9, VI-DESC-15: whatever a partner says, nothing panics, every descriptor comes back
    /// once, and no bit appears that its level does not have.
    #[test]
    fn any_messages_leave_queues_whole(
        level in 0..3_usize,
        messages in prop::collection::vec((1..=10_u8, any::<Option<u32>>(), any::<[u32; 4]>(), 0..5_u32, prop::collection::vec(any::<u8>(), 0..64), any::<bool>()), 0..40),
    ) {
        let level = Level::ALL[level];
        let mut net = Net::new(level);
        for n in 0..6 {
            net.b.receive(40);
            net.b.send(Descriptor::new(), &vec![n; 30 * usize::from(n)]);
        }
        for (kind, immediate, words, small, bytes, likely) in messages {
            let header = match likely {
                true => {
                    let place = place_header(net.b.base() as u64, net.b.handle.0, small * 10);
                    if kind == 3 || kind == 6 { place } else { header([small, words[1], 0, 0]) }
                }
                false => header(words),
            };
            let kind = Kind::of(kind).unwrap();
            net.forth.borrow_mut().push_back(Sent::Frame(kind, immediate, header, bytes));
            net.b.progress();
            net.back.borrow_mut().clear();
        }
        net.b.engine.event(&net.b.regions, Event::Disconnect).unwrap();
        for _ in 0..6 {
            let send = net.b.status(SEND).unwrap();
            let receive = net.b.status(RECEIVE).unwrap();
            let only = match level {
                Level::Unreliable => Status::RDMA_PROT_ERROR.with(Status::REMOTE_DESC_ERROR).with(Status::TRANSPORT_ERROR),
                Level::ReliableDelivery => Status::RDMA_PROT_ERROR.with(Status::REMOTE_DESC_ERROR).with(Status::TRANSPORT_ERROR),
                Level::ReliableReception => Status::default(),
            };
            prop_assert_eq!(send.masked(only), Status::default());
            let never = Status::RDMA_PROT_ERROR.with(Status::REMOTE_DESC_ERROR);
            prop_assert_eq!(receive.masked(never), Status::default());
        }
        prop_assert_eq!((net.b.status(SEND), net.b.status(RECEIVE)), (None, None));
    }
}
