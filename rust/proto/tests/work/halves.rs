// SPDX-License-Identifier: GPL-2.0-only

//! Each half alone. Its partner is a script, which says what it likes and when; a model of a few lines
//! says what each request is complete with, what is told, and what crosses.

use crate::net::{connected, Id, Message, Posted, Side, MOST};
use mp_proto::work::{
    header, word, Errors, Fault, Header, Kind, Level, Notice, Operation, Outcome, Place, QueueKind,
    Remote, State, Work, HEADER_MAX, READS_MAX,
};
use proptest::prelude::*;
use std::collections::VecDeque;

const NONE: Header = [0; HEADER_MAX];

fn work(operation: Operation, immediate: Option<u32>, fence: bool, total: usize) -> Work {
    Work {
        operation,
        immediate,
        fence,
        total: total as u32,
    }
}

fn outcome(errors: Errors, written: bool, length: usize, immediate: Option<u32>) -> Outcome {
    Outcome {
        errors,
        written,
        length: length as u32,
        immediate,
    }
}

fn flushed() -> Outcome {
    outcome(Errors::FLUSHED, false, 0, None)
}

/// One end, and what its partner says to it.
fn alone(level: Level) -> Side {
    let [side, _] = connected(level);
    side
}

/// Let a message arrive.
fn hear(side: &mut Side, kind: Kind, immediate: Option<u32>, header: Header, bytes: &[u8]) {
    let message = Message {
        kind,
        immediate,
        header,
        bytes: bytes.to_vec(),
        fault: None,
    };
    arrive(side, message);
}

fn arrive(side: &mut Side, message: Message) {
    let mut way = side.link.inward.borrow_mut();
    way.frames.push_back(message);
    way.arrive(1);
}

// --- the receiving half -------------------------------------------------------

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

// --- the sending half ---------------------------------------------------------

/// A request of the sender.
#[derive(Clone, Debug)]
struct Ask {
    /// 0 a send, 1 a write, 2 a read.
    what: u8,
    len: u8,
    immediate: Option<u32>,
    fence: bool,
    /// It is wrong.
    bad: bool,
}

#[derive(Clone, Debug)]
enum Script {
    Post(Ask),
    /// The sender's turn, with so much room.
    Turn(usize),
    /// Acknowledge so many more, as far as they were sent.
    Ack(u32),
    /// Answer the oldest read, with so many bytes.
    Answer(u8),
}

fn scripts() -> impl Strategy<Value = Vec<Script>> {
    let ask = (
        0..3_u8,
        0..30_u8,
        any::<Option<u32>>(),
        prop::bool::weighted(0.2),
    );
    let ask =
        (ask, prop::bool::weighted(0.02)).prop_map(|((what, len, immediate, fence), bad)| Ask {
            what,
            len,
            immediate: immediate.filter(|_| what < 2),
            fence,
            bad,
        });
    let script = prop_oneof![
        3 => ask.prop_map(Script::Post),
        4 => (0..5_usize).prop_map(Script::Turn),
        2 => (1..4_u32).prop_map(Script::Ack),
        3 => (0..=MOST as u8).prop_map(Script::Answer),
    ];
    prop::collection::vec(script, 0..100)
}

/// A request, and what has become of it.
struct Asked {
    ask: Ask,
    id: Id,
    bytes: Vec<u8>,
    /// Its messages.
    messages: Vec<Message>,
    /// Bytes of a read that have come.
    answered: usize,
    /// All of them have.
    arrived: bool,
}

impl Asked {
    fn is_read(&self) -> bool {
        self.ask.what == 2
    }

    fn new(side: &mut Side, ask: &Ask, n: usize) -> Self {
        let len = usize::from(ask.len);
        let bytes: Vec<u8> = (0..len).map(|i| ((i * 3 + n * 11) % 251) as u8).collect();
        let segment = match ask.what {
            2 => side.program.room(len),
            _ => side.program.data(&bytes),
        };
        let place = Place {
            handle: n as u32,
            address: 1 << 40 | n as u64,
            len: len as u32,
        };
        let at = Remote {
            address: place.address,
            handle: place.handle,
        };
        let operation = [Operation::Send, Operation::Write(at), Operation::Read(at)];
        let posted = Posted {
            work: match ask.bad {
                true => Err(Errors::FORMAT),
                false => Ok(work(
                    operation[usize::from(ask.what)],
                    ask.immediate,
                    ask.fence,
                    len,
                )),
            },
            segments: vec![segment],
        };
        let messages = match ask.what {
            2 => vec![Message {
                kind: Kind::Read,
                immediate: None,
                header: place.header(),
                bytes: Vec::new(),
                fault: None,
            }],
            what => {
                let arrival = Arrival {
                    write: what == 1,
                    immediate: ask.immediate,
                    pieces: bytes.chunks(MOST).map(|piece| piece.len() as u8).collect(),
                    aborts: false,
                    closed: false,
                    receives: Vec::new(),
                    reads: None,
                    spoiled: None,
                    again: false,
                };
                let (mut messages, _) = messages(&arrival, place, 0);
                let pieces = bytes.chunks(MOST);
                messages
                    .iter_mut()
                    .zip(pieces)
                    .for_each(|(m, piece)| m.bytes = piece.to_vec());
                messages
            }
        };
        Asked {
            ask: ask.clone(),
            id: side.post(QueueKind::Send, posted),
            bytes,
            messages,
            answered: 0,
            arrived: false,
        }
    }
}

/// What a sender has to have done, of which so many messages have crossed.
struct Progress {
    /// Requests whose messages have all crossed.
    whole: usize,
    /// Sends and writes among them.
    numbered: u32,
    reads: u32,
}

fn progress(asked: &[Asked], said: &[Message]) -> Progress {
    let mut progress = Progress {
        whole: 0,
        numbered: 0,
        reads: 0,
    };
    let mut said = said;
    for asked in asked {
        let messages = match asked.ask.bad {
            true => &[][..],
            false => &asked.messages[..],
        };
        let common = said.len().min(messages.len());
        assert_eq!(said[..common], messages[..common]);
        if common < messages.len() {
            assert!(said.len() == common);
            return progress;
        }
        said = &said[common..];
        progress.whole += 1;
        progress.numbered += u32::from(!asked.is_read() && !asked.ask.bad);
        progress.reads += u32::from(asked.is_read() && !asked.ask.bad);
    }
    assert!(said.is_empty(), "{said:?}");
    progress
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// What crosses are the messages of the list, in order, whatever room there is, and each request is
    /// complete when its level says so and not before.
    #[test]
    fn a_sender_follows_its_model(level in 0..3_usize, scripts in scripts(), refuses in any::<Option<u32>>()) {
        let level = Level::ALL[level];
        let mut side = alone(level);
        let mut asked: Vec<Asked> = Vec::new();
        let mut acked = 0;
        let said = |side: &Side| -> Vec<Message> { side.link.out.borrow().frames.iter().cloned().collect() };
        for script in &scripts {
            let is_up = side.end.state() == State::Connected;
            let now = progress(&asked, &said(&side));
            match script {
                Script::Post(ask) if ask.what == 2 && !level.has_reads() => {}
                // What fails ends the test soon.
                Script::Post(_) if !is_up => break,
                Script::Post(ask) => {
                    let n = asked.len();
                    asked.push(Asked::new(&mut side, ask, n));
                }
                Script::Turn(room) => {
                    side.link.room = *room;
                    side.progress();
                }
                Script::Ack(more) if level.is_acknowledged() && is_up => {
                    let number = now.numbered.min(acked + more);
                    hear(&mut side, Kind::Ack, None, header([number, 0, 0, 0]), &[]);
                    acked = number;
                    side.link.room = 0;
                    side.progress();
                }
                Script::Answer(len) if is_up => {
                    let crossed = asked[..now.whole].iter_mut();
                    let mut reads = crossed.filter(|asked| asked.is_read() && !asked.ask.bad);
                    let open = reads.find(|asked| !asked.arrived);
                    let Some(read) = open else { continue };
                    let left = read.bytes.len() - read.answered;
                    let len = left.min(usize::from(*len).max(1));
                    let bytes = read.bytes[read.answered..read.answered + len].to_vec();
                    read.answered += len;
                    read.arrived = read.answered == read.bytes.len();
                    hear(&mut side, Kind::ReadData, None, NONE, &bytes);
                    side.link.room = 0;
                    side.progress();
                }
                Script::Ack(_) | Script::Answer(_) => {}
            }
            check(&side, level, &asked, acked)?;
        }
        if side.end.state() == State::Connected && level.is_acknowledged() {
            if let Some(bits) = refuses {
                refused(&mut side, &asked, acked, bits)?;
            }
        }
        side.disconnect();
        side.take();
        prop_assert_eq!(&side.taken, &side.posted);
    }
}

/// Compare what is complete with the list.
fn check(side: &Side, level: Level, asked: &[Asked], acked: u32) -> Result<(), TestCaseError> {
    let said: Vec<Message> = side.link.out.borrow().frames.iter().cloned().collect();
    let now = progress(asked, &said);
    let is_up = side.end.state() == State::Connected;
    let (mut number, mut reads, mut open) = (0, 0, 0);
    for (n, asked) in asked.iter().enumerate() {
        let found = side.outcome(asked.id);
        let whole = n < now.whole;
        if asked.ask.bad {
            let failed = outcome(Errors::FORMAT, false, 0, None);
            let ended = found == Some(flushed()) && !is_up;
            prop_assert!(found.is_none() || found == Some(failed) || ended);
            // What was sent before it has succeeded first.
            let first = !level.is_acknowledged() || number <= acked;
            prop_assert!(found != Some(failed) || first);
            if found == Some(failed) && level.is_reliable() {
                prop_assert!(!is_up);
            }
            continue;
        }
        let complete = match asked.is_read() {
            true => {
                reads += 1;
                asked.arrived
            }
            false => {
                number += 1;
                whole && (!level.is_acknowledged() || number <= acked)
            }
        };
        if asked.is_read() && whole && !asked.arrived {
            open += 1;
            prop_assert!(found.is_none() || !is_up);
        }
        if asked.is_read() && found.is_some_and(|outcome| !outcome.errors.any()) {
            let segment = side.program.requests[asked.id].segments[0].clone();
            prop_assert_eq!(side.program.bytes(segment), asked.bytes.clone());
            prop_assert!(asked.arrived);
        }
        if asked.ask.fence && whole && open > 0 {
            // It is one of them itself: it has crossed when those before it were complete.
            prop_assert!(open == 1 && asked.is_read() && !asked.arrived);
        }
        match complete {
            true => {
                let good = outcome(Errors::NONE, false, asked.bytes.len(), None);
                prop_assert_eq!(found, Some(good));
            }
            false if is_up => prop_assert_eq!(found, None),
            false => prop_assert!(found.is_none_or(|outcome| outcome == flushed())),
        }
    }
    prop_assert!(open <= READS_MAX && reads >= open);
    Ok(())
}

/// Refuse the oldest request that waits for the partner, with any bits.
fn refused(side: &mut Side, asked: &[Asked], acked: u32, bits: u32) -> Result<(), TestCaseError> {
    let said: Vec<Message> = side.link.out.borrow().frames.iter().cloned().collect();
    let now = progress(asked, &said);
    let sends = asked.iter().enumerate();
    let mut sends = sends.filter(|(_, asked)| !asked.is_read() && !asked.ask.bad);
    let next = sends.nth(acked as usize);
    let refusal = header([acked + 1, bits, 0, 0]);
    hear(side, Kind::Refusal, None, refusal, &[]);
    side.link.room = 0;
    side.progress();
    prop_assert_eq!(side.end.state(), State::Broken);
    let whole: usize = asked[..now.whole]
        .iter()
        .filter(|asked| !asked.ask.bad)
        .map(|asked| asked.messages.len())
        .sum();
    let begun = said.len() > whole;
    let Some((n, asked)) = next.filter(|(n, _)| *n < now.whole || *n == now.whole && begun) else {
        // There is none: the partner has told what cannot be.
        let way = side.link.out.borrow();
        prop_assert_eq!(
            way.end,
            Some(mp_proto::work::End::Closed(
                mp_proto::work::Reason::Transport
            ))
        );
        return Ok(());
    };
    let mut may = Errors::TRANSPORT.with(Errors::PARTIAL);
    if asked.ask.what == 1 {
        may = may.with(Errors::REMOTE_ACCESS);
    }
    if asked.ask.what == 0 || asked.ask.immediate.is_some() {
        may = may.with(Errors::REMOTE_RECEIVE);
    }
    let mut expected = Errors(bits).masked(may);
    if !expected.any() {
        expected = Errors::TRANSPORT;
    }
    if n == now.whole {
        expected = expected.with(Errors::PARTIAL);
    }
    prop_assert_eq!(
        side.outcome(asked.id),
        Some(outcome(expected, false, 0, None))
    );
    Ok(())
}
