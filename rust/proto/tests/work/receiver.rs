// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The receiving half. The model takes whole messages: what each makes of its receive, of memory and of
//! the connection, in whatever pieces it comes.

use crate::net::{Id, Message, Posted, Side, MOST};
use crate::script::{alone, arrive, flushed, hear, message, outcome, work, NONE};
use mp_proto::work::{
    header, word, Errors, Fault, Kind, Level, Notice, Operation, Outcome, Place, QueueKind, Reason,
    Remote, State, READS_MAX,
};
use proptest::prelude::*;
use std::collections::VecDeque;

/// What the partner sends.
#[derive(Clone, Debug)]
struct Arrival {
    write: bool,
    immediate: Option<u32>,
    /// Its pieces, by their bytes.
    pieces: Vec<u8>,
    /// It has no end.
    aborts: bool,
    /// A write to memory that is closed.
    closed: bool,
    /// Receives that are posted before it, by their room.
    receives: Vec<u8>,
    /// A read of so many bytes between its pieces.
    reads: Option<u8>,
    /// The way spoils a piece, or loses what was before it.
    spoiled: Option<(usize, Fault)>,
    /// Each piece comes twice.
    again: bool,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
    );
    let pieces = prop::collection::vec(1..=MOST as u8, 0..5);
    // Mostly one with enough room.
    let receives = prop_oneof![
        6 => prop::collection::vec(32..50_u8, 1),
        1 => prop::collection::vec(0..40_u8, 0..3),
    ];
    let reads = prop::option::weighted(0.2, 0..30_u8);
    let faults = prop_oneof![Just(Fault::Corrupt), Just(Fault::Gap { missing: 1 })];
    let spoiled = prop::option::weighted(0.1, (0..5_usize, faults));
    let way = (reads, spoiled, prop::bool::weighted(0.1));
    let arrival = (flags, any::<Option<u32>>(), pieces, receives, way);
    let arrival = arrival.prop_map(
        |((write, aborts, closed), immediate, pieces, receives, (reads, spoiled, again))| Arrival {
            write,
            immediate,
            aborts: aborts && pieces.len() > 1,
            spoiled: spoiled.filter(|(piece, _)| *piece < pieces.len().max(1)),
            again,

            pieces,
            closed: closed && write,
            receives,
            reads,
        },
    );
    prop::collection::vec(arrival, 0..12)
}

/// What a receiver has to make of it.
struct Receiver {
    level: Level,
    up: bool,
    waiting: VecDeque<(Id, usize)>,
    expected: Vec<(Id, Outcome)>,
    notices: Vec<Notice>,
    effected: u32,
    refusal: Option<(u32, Errors)>,
}

impl Receiver {
    fn new(level: Level) -> Self {
        Receiver {
            level,
            up: true,
            waiting: VecDeque::new(),
            expected: Vec::new(),
            notices: Vec::new(),
            effected: 0,
            refusal: None,
        }
    }

    fn posted(&mut self, id: Id, room: usize) {
        match self.up {
            true => self.waiting.push_back((id, room)),
            false => self.expected.push((id, flushed())),
        }
    }

    fn faults(&mut self) {
        if self.level.is_reliable() && self.up {
            self.up = false;
            self.notices.push(Notice::Lost);
            let flushed = self.waiting.drain(..).map(|(id, _)| (id, flushed()));
            self.expected.extend(flushed);
        }
    }

    fn refuses(&mut self, why: Errors) {
        if self.level.is_acknowledged() {
            self.refusal = Some((self.effected + 1, why));
        }
        self.faults();
    }

    /// Whether its bytes are written.
    fn takes(&mut self, arrival: &Arrival) -> bool {
        if !self.up {
            return false;
        }
        let len = arrival.pieces.iter().map(|len| usize::from(*len)).sum();
        let write = arrival.write;
        let failed = |errors| outcome(errors, write, 0, None);
        let (spoiled, fault) = arrival
            .spoiled
            .map_or((None, None), |(n, fault)| (Some(n), Some(fault)));
        if spoiled == Some(0) && fault != Some(Fault::Corrupt) && self.level.is_reliable() {
            let lost = outcome(Errors::TRANSPORT, false, 0, None);
            match self.waiting.pop_front() {
                Some((id, _)) => self.expected.push((id, lost)),
                None => self.notices.push(Notice::WriteLost),
            }
            self.refuses(Errors::TRANSPORT);
            return false;
        }
        let receive = match !write || arrival.immediate.is_some() {
            false => None,
            true => match self.waiting.pop_front() {
                Some(receive) => Some(receive),
                None => {
                    self.notices.push(Notice::NoReceive { write });
                    self.refuses(Errors::REMOTE_RECEIVE);
                    return false;
                }
            },
        };
        let fails = |model: &mut Self, errors, notice, reliably: bool| match receive {
            Some((id, _)) => model.expected.push((id, failed(errors))),
            None if !reliably || model.level.is_reliable() => model.notices.push(notice),
            None => {}
        };
        if (spoiled, fault) == (Some(0), Some(Fault::Corrupt)) {
            fails(self, Errors::TRANSPORT, Notice::WriteCorrupt, true);
            self.refuses(Errors::TRANSPORT);
            return false;
        }
        if arrival.closed {
            fails(self, Errors::PROTECTION, Notice::WriteRefused, false);
            self.refuses(Errors::REMOTE_ACCESS);
            return false;
        }
        if !write && receive.is_some_and(|(_, room)| room < len) {
            fails(self, Errors::LENGTH, Notice::Lost, false);
            self.refuses(Errors::REMOTE_RECEIVE);
            return false;
        }
        if spoiled.is_some_and(|n| n > 0) {
            let (errors, notice) = match fault {
                Some(Fault::Corrupt) => (Errors::TRANSPORT, Notice::WriteCorrupt),
                _ => (Errors::PARTIAL.with(Errors::TRANSPORT), Notice::WriteLost),
            };
            fails(self, errors, notice, true);
            self.refuses(Errors::TRANSPORT);
            return false;
        }
        if arrival.aborts {
            let errors = Errors::PARTIAL.with(Errors::TRANSPORT);
            fails(self, errors, Notice::WriteAborted, true);
            self.faults();
            return false;
        }
        if let Some((id, _)) = receive {
            let good = outcome(Errors::NONE, write, len, arrival.immediate);
            self.expected.push((id, good));
        }
        self.effected += u32::from(self.level.is_acknowledged());
        true
    }
}

/// The messages of an arrival; the bytes of all of them.
fn messages(arrival: &Arrival, place: Place, first: u8) -> (Vec<Message>, Vec<u8>) {
    let mut messages = Vec::new();
    let mut bytes = Vec::new();
    let mut next = first;
    let pieces = match arrival.pieces.is_empty() {
        true => vec![0],
        false => arrival.pieces.clone(),
    };
    for (n, len) in pieces.iter().enumerate() {
        let piece: Vec<u8> = (0..*len)
            .map(|_| {
                next = next % 250 + 1;
                next
            })
            .collect();
        let (kind, head) = match (n, arrival.write) {
            (0, true) => (Kind::Write, place.header()),
            (0, false) if pieces.len() == 1 => (Kind::Send, NONE),
            (0, false) => (Kind::LongSend, header([place.len, 0, 0, 0])),
            _ => (Kind::More, NONE),
        };
        messages.push(Message {
            kind,
            immediate: arrival.immediate.filter(|_| n == 0),
            header: head,
            bytes: piece.clone(),
            fault: arrival
                .spoiled
                .filter(|(piece, _)| *piece == n)
                .map(|(_, fault)| fault),
        });
        bytes.extend(piece);
    }
    if arrival.aborts {
        let last = messages.pop().and_then(|last| last.fault);
        messages.push(Message {
            kind: Kind::Abort,
            immediate: None,
            header: NONE,
            bytes: Vec::new(),
            fault: last,
        });
    }
    (messages, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Receives, memory, notices, acknowledgements and answers are those of the model, in whatever
    /// pieces messages come, and whatever room there is to answer.
    #[test]
    fn a_receiver_follows_its_model(
        level in 0..3_usize,
        arrivals in arrivals(),
        rooms in prop::collection::vec(0..3_usize, 1..20),
    ) {
        let level = Level::ALL[level];
        let (mut side, mut model) = (alone(level), Receiver::new(level));
        let mut rooms = rooms.iter().cycle();
        let mut answers = Vec::new();
        for (n, arrival) in arrivals.iter().enumerate() {
            let mut at = None;
            for room in &arrival.receives {
                let room = usize::from(*room);
                let range = side.program.room(room);
                at.get_or_insert(range.start);
                let posted = Posted {
                    work: Ok(work(Operation::Send, None, false, room)),
                    segments: vec![range],
                };
                let id = side.post(QueueKind::Receive, posted);
                model.posted(id, room);
            }
            let len: usize = arrival.pieces.iter().map(|len| usize::from(*len)).sum();
            let place = side.program.room(len);
            if arrival.closed {
                side.program.closed.push(place.start..place.start + 1);
            }
            let to = Place { handle: 0, address: place.start as u64, len: len as u32 };
            let (messages, bytes) = messages(arrival, to, (n * 37) as u8);
            // Where a send goes: that of the first receive that waits.
            let target = match (arrival.write, model.waiting.front()) {
                (true, _) => place.clone(),
                (false, Some((id, _))) => {
                    let segment = side.program.requests[*id].segments[0].clone();
                    segment.start..segment.start + len.min(segment.len())
                }
                (false, None) => 0..0,
            };
            let read = arrival.reads.filter(|_| level.has_reads());
            let last = messages.len() - 1;
            for (n, message) in messages.into_iter().enumerate() {
                let again = Message { fault: Some(Fault::Again), ..message.clone() };
                arrive(&mut side, message);
                if arrival.again {
                    arrive(&mut side, again);
                }
                if let Some(len) = read.filter(|_| n == 0) {
                    let data: Vec<u8> = (0..len).map(|n| n ^ 0x55).collect();
                    let from = side.program.data(&data);
                    let place = Place { handle: 0, address: from.start as u64, len: len.into() };
                    hear(&mut side, Kind::Read, None, place.header(), &[]);
                    // One that comes behind what has ended the connection is not answered.
                    answers.push(data);
                }
                side.link.room = *rooms.next().unwrap();
                if n < last {
                    side.progress();
                }
            }
            side.progress();
            let takes = model.takes(arrival);
            let found = side.program.bytes(target);
            if takes {
                prop_assert_eq!(found, bytes);
            } else if arrival.closed || !arrival.aborts && arrival.spoiled.is_none() {
                prop_assert!(found.iter().all(|byte| *byte == 0), "written: {:?}", arrival);
            } else {
                prop_assert!(found.iter().zip(&bytes).all(|(found, byte)| *found == 0 || found == byte));
            }
            for (id, expected) in &model.expected {
                prop_assert_eq!(side.outcome(*id), Some(*expected), "{:?}", arrival);
            }
            for (id, _) in &model.waiting {
                prop_assert_eq!(side.outcome(*id), None);
            }
            prop_assert_eq!(&side.program.notices, &model.notices);
            prop_assert_eq!(side.end.state() == State::Connected, model.up);
        }
        side.link.room = usize::MAX;
        while side.progress() {}
        side.take();
        let said: Vec<Message> = side.link.out.borrow().frames.iter().cloned().collect();
        let numbers = |wanted| {
            let all = said.iter().filter(move |message| message.kind == wanted);
            all.map(|message| (word(&message.header, 0), word(&message.header, 1)))
        };
        let acks: Vec<u32> = numbers(Kind::Ack).map(|(number, _)| number).collect();
        prop_assert!(acks.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", acks);
        let refusals: Vec<_> = numbers(Kind::Refusal).collect();
        let expected: Vec<_> = model.refusal.iter().map(|(n, why)| (*n, why.0)).collect();
        prop_assert_eq!(&refusals, &expected);
        if refusals.is_empty() {
            prop_assert_eq!(acks.last().copied().unwrap_or(0), model.effected);
        } else {
            prop_assert!(acks.last().copied().unwrap_or(0) <= model.effected);
        }
        let mut answered = Vec::new();
        for message in said.iter().filter(|message| message.kind == Kind::ReadData) {
            answered.extend(&message.bytes);
        }
        let all: Vec<u8> = answers.concat();
        match model.up {
            true => prop_assert_eq!(answered, all),
            false => prop_assert!(all.starts_with(&answered)),
        }
    }

    /// Whatever a partner says, nothing panics, and each request comes back once.
    #[test]
    fn any_messages_leave_queues_whole(
        level in 0..3_usize,
        messages in prop::collection::vec((1..=10_u8, any::<Option<u32>>(), any::<[u32; 4]>(), 0..5_u32, prop::collection::vec(any::<u8>(), 0..MOST), any::<bool>()), 0..40),
    ) {
        let mut side = alone(Level::ALL[level]);
        for n in 0..6 {
            let room = side.program.room(20);
            let receives = Posted { work: Ok(work(Operation::Send, None, false, 20)), segments: vec![room] };
            side.post(QueueKind::Receive, receives);
            let bytes = side.program.data(&[n as u8 + 1; 20]);
            let at = Remote { address: 0, handle: 0 };
            let operation = [Operation::Send, Operation::Write(at), Operation::Read(at)][n % 3];
            let sends = Posted { work: Ok(work(operation, None, false, 20)), segments: vec![bytes] };
            side.post(QueueKind::Send, sends);
        }
        for (kind, immediate, words, small, bytes, likely) in messages {
            let header = match likely {
                true => header([small, words[1] & 0x1FE, 0, small * 4]),
                false => header(words),
            };
            hear(&mut side, Kind::of(kind).unwrap(), immediate, header, &bytes);
            side.link.room = small as usize;
            side.progress();
        }
        side.disconnect();
        side.take();
        prop_assert_eq!(&side.taken, &side.posted);
    }
}

/// A side with receives of 100 bytes, and whether the connection is up behind each of these messages.
fn is_up_behind(level: Level, messages: &[Message]) -> Vec<bool> {
    let mut side = alone(level);
    for _ in messages {
        let room = side.program.room(100);
        let posted = Posted {
            work: Ok(work(Operation::Send, None, false, 100)),
            segments: vec![room],
        };
        side.post(QueueKind::Receive, posted);
    }
    let each = messages.iter().map(|message| {
        arrive(&mut side, message.clone());
        side.progress();
        side.end.state() == State::Connected
    });
    each.collect()
}

/// What cannot be ends the connection, at every level.
#[test]
fn what_cannot_be_ends_the_connection() {
    let total = |total| header([total, 0, 0, 0]);
    let place = Place::default().header();
    let nonsense = [
        message(Kind::More, NONE, 1),
        message(Kind::Abort, NONE, 0),
        message(Kind::LongSend, total(4), 5),
        message(Kind::LongSend, total(4), 0),
        message(Kind::Write, place, 1),
        message(Kind::Read, place, 1),
        message(Kind::ReadData, NONE, 1),
        message(Kind::ReadFailed, total(1), 0),
        message(Kind::Ack, total(1), 0),
        message(Kind::Ack, NONE, 1),
        message(Kind::Refusal, total(1), 0),
    ];
    for level in Level::ALL {
        for message in &nonsense {
            let one = std::slice::from_ref(message);
            assert_eq!(is_up_behind(level, one), [false], "{level:?} {message:?}");
        }
        // Another message before the first one is whole.
        let begun = message(Kind::LongSend, total(9), 4);
        for (next, up) in [
            (message(Kind::Send, NONE, 1), false),
            (message(Kind::Write, place, 0), false),
            (message(Kind::More, NONE, 6), false),
            (message(Kind::More, NONE, 5), true),
        ] {
            assert_eq!(
                is_up_behind(level, &[begun.clone(), next]),
                [true, up],
                "{level:?}"
            );
        }
        // More reads than may be open.
        let reads = vec![message(Kind::Read, place, 0); READS_MAX + 1];
        let up = is_up_behind(level, &reads);
        let good = if level.has_reads() { READS_MAX } else { 0 };
        assert_eq!(up.iter().filter(|up| **up).count(), good, "{level:?}");
    }
}

/// Messages that a side has sent of a kind, by their first two numbers.
fn said(side: &Side, kind: Kind) -> Vec<(u32, u32)> {
    let way = side.link.out.borrow();
    let all = way.frames.iter().filter(|message| message.kind == kind);
    let numbers = all.map(|message| (word(&message.header, 0), word(&message.header, 1)));
    numbers.collect()
}

/// Memory that goes away in the middle of a message cuts it.
#[test]
fn a_message_into_no_memory_is_cut() {
    for level in Level::ALL {
        for write in [false, true] {
            let mut side = alone(level);
            let room = side.program.room(16);
            let posted = Posted {
                work: Ok(work(Operation::Send, None, false, 16)),
                segments: vec![room.clone()],
            };
            let receive = side.post(QueueKind::Receive, posted);
            let place = Place {
                handle: 0,
                address: room.start as u64,
                len: 16,
            };
            let first = match write {
                true => message(Kind::Write, place.header(), MOST),
                false => message(Kind::LongSend, header([16, 0, 0, 0]), MOST),
            };
            arrive(&mut side, first);
            side.progress();
            side.program.closed.push(room);
            arrive(&mut side, message(Kind::More, NONE, MOST));
            side.link.room = usize::MAX;
            side.progress();
            let cut = Errors::PROTECTION.with(Errors::PARTIAL);
            let (expected, why) = match (write, level.is_reliable()) {
                (false, _) => (Some(cut), Errors::REMOTE_RECEIVE),
                (true, true) => (Some(Errors::FLUSHED), Errors::REMOTE_ACCESS),
                (true, false) => (None, Errors::REMOTE_ACCESS),
            };
            let found = side.outcome(receive).map(|outcome| outcome.errors);
            assert_eq!(found, expected, "{level:?} {write}");
            let notices = &side.program.notices;
            assert_eq!(notices.contains(&Notice::WriteRefused), write, "{level:?}");
            assert_eq!(notices.contains(&Notice::Lost), level.is_reliable());
            let refusals = said(&side, Kind::Refusal);
            match level.is_acknowledged() {
                true => assert_eq!(refusals, [(1, why.0)]),
                false => assert_eq!(refusals, []),
            }
        }
    }
}

/// A refusal for which there is no room is told by how the connection ends.
#[test]
fn a_refusal_without_room_is_told_with_the_end() {
    let place = Place {
        handle: 0,
        address: u64::MAX,
        len: 4,
    };
    let (send, write) = (
        message(Kind::Send, NONE, 4),
        message(Kind::Write, place.header(), 4),
    );
    for level in Level::ALL {
        for (refused, reason) in [
            (None, Reason::Disconnect),
            (Some(&send), Reason::RefusedReceive),
            (Some(&write), Reason::RefusedRdma),
        ] {
            let mut side = alone(level);
            let room = side.program.room(4);
            let posted = Posted {
                work: Ok(work(Operation::Send, None, false, 4)),
                segments: vec![room],
            };
            side.post(QueueKind::Receive, posted);
            arrive(&mut side, send.clone());
            refused
                .into_iter()
                .for_each(|message| arrive(&mut side, message.clone()));
            side.progress();
            let expected = match level.is_acknowledged() {
                true => reason,
                false => Reason::Disconnect,
            };
            assert_eq!(side.end.leaves(), expected, "{level:?} {refused:?}");
            // Once it was told it is not told again.
            side.link.room = usize::MAX;
            side.progress();
            assert_eq!(side.end.leaves(), Reason::Disconnect);
        }
    }
}

/// A read whose memory goes away fails by its number, and ends the connection.
#[test]
fn a_read_of_no_memory_fails_by_its_number() {
    for level in [Level::Reliable, Level::Acknowledged] {
        for failing in 0..3 {
            let mut side = alone(level);
            let places = [(); 3].map(|()| side.program.data(&[1; 16]));
            for place in &places {
                let place = Place {
                    handle: 0,
                    address: place.start as u64,
                    len: 16,
                };
                arrive(&mut side, message(Kind::Read, place.header(), 0));
            }
            // What is before it is answered, and its first part.
            side.link.room = 2 * failing + 1;
            side.progress();
            side.program.closed.push(places[failing].clone());
            side.link.room = usize::MAX;
            while side.progress() {}
            let number = failing as u32 + 1;
            assert_eq!(said(&side, Kind::ReadFailed), [(number, 0)], "{level:?}");
            assert_eq!(said(&side, Kind::ReadData).len(), 2 * failing + 1);
            assert_eq!(side.program.notices, [Notice::ReadRefused, Notice::Lost]);
        }
    }
}

/// Parts that come behind a spoiled message belong to it; behind the next one they cannot be.
#[test]
fn parts_belong_to_the_message_before() {
    let spoiled = Message {
        fault: Some(Fault::Corrupt),
        ..message(Kind::LongSend, NONE, 4)
    };
    let (more, abort) = (message(Kind::More, NONE, 4), message(Kind::Abort, NONE, 0));
    for (next, part) in [
        (message(Kind::Send, NONE, 1), &more),
        (message(Kind::Send, NONE, 1), &abort),
        (message(Kind::Write, Place::default().header(), 0), &more),
    ] {
        let all = [
            spoiled.clone(),
            more.clone(),
            abort.clone(),
            next,
            part.clone(),
        ];
        let up = is_up_behind(Level::Unreliable, &all);
        assert_eq!(up, [true, true, true, true, false], "{part:?}");
    }
}
