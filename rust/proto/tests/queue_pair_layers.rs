// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What protocols above lay on messages: each row of the table in `Documentation/queue-pairs.md`,
//! with an interface of remote memory as the example. Its kinds, headers and rules are this
//! test's own; the layout has no word of them.

mod common;

use std::collections::{BTreeMap, VecDeque};

use common::Ram;
use mp_proto::memory::{Inbound, Outbound};
use mp_proto::queue_pair::{
    Body, Head, Held, Hello, Layout, Link, Queue, Receiver, SendError, Sender, Wants, EXTRA_MAX,
    INLINE_MAX,
};

const WINDOW: usize = 0x8000;
const SLOT: usize = 4096;
/// Conversations of the pair.
const STREAMS: u16 = 4;

/// Kinds of this test's protocol.
const SEND: u8 = 1;
const WRITE: u8 = 2;
const READ: u8 = 3;
const READ_DATA: u8 = 4;
const REFUSED: u8 = 5;

fn layout() -> Layout {
    let wants = Wants {
        lines: 16,
        free: 8,
        slots: 6,
        slot_size: SLOT as u32,
        streams: STREAMS.into(),
    };
    Layout::plan(WINDOW as u64, &wants).expect("fits")
}

/// Where data are in the target's memory: address (8), handle (4), length (4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Remote {
    address: u64,
    handle: u32,
    len: u32,
}

// With room for a number and a checksum.
const _: () = assert!(Remote::SIZE + 8 + 4 <= EXTRA_MAX);

impl Remote {
    const SIZE: usize = 16;

    fn encode(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.handle.to_le_bytes());
        bytes[12..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Remote {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        Remote {
            address: u64::from(word(0)) | u64::from(word(4)) << 32,
            handle: word(8),
            len: word(12),
        }
    }
}

/// What a conversation has received.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Sent(Vec<u8>, Option<u32>),
    /// Written data, with immediate data.
    Written(u32),
    Read(Vec<u8>),
    Refused(u32),
}

/// One end: the pair, memory that the other end may name, and what has happened.
struct End {
    own: Ram,
    tx: Sender<Vec<Link>, Vec<Queue>>,
    rx: Receiver<Vec<Held>>,
    memory: BTreeMap<u32, Vec<u8>>,
    /// Parts of each stream so far.
    parts: Vec<Vec<u8>>,
    events: BTreeMap<u16, VecDeque<Event>>,
    /// What it has to say itself: kind, header and data.
    answers: VecDeque<(Head, Vec<u8>, Vec<u8>)>,
}

fn ends() -> (End, End) {
    let (a, b) = (Ram::new(WINDOW), Ram::new(WINDOW));
    for ram in [&a, &b] {
        Hello::new(layout()).tell(ram).expect("inside");
    }
    let end = |own: Ram, peer: &Ram| {
        let (links, queues) = (vec![Link::default(); 8], vec![Queue::default(); 4]);
        let mut rx = Receiver::new(layout(), layout(), vec![Held::default(); 8]).expect("long");
        for slot in 0..6 {
            let stream = slot as u16 % STREAMS;
            rx.give(peer, slot, stream).expect("here");
        }
        End {
            tx: Sender::new(layout(), layout(), links, queues).expect("long"),
            rx,
            own,
            memory: BTreeMap::new(),
            parts: vec![Vec::new(); STREAMS.into()],
            events: BTreeMap::new(),
            answers: VecDeque::new(),
        }
    };
    (end(a.clone(), &b), end(b, &a))
}

impl End {
    /// Send what there is room for of a message, from `done` on; how far it is, and the number
    /// of its last line once it has gone.
    fn post(
        &mut self,
        to: &Ram,
        head: Head,
        header: &[u8],
        data: &[u8],
        mut done: usize,
    ) -> Result<(usize, Option<u64>), SendError> {
        loop {
            let rest = &data[done..];
            let (sent, len) = if header.len() + rest.len() <= INLINE_MAX {
                let all = [header, rest].concat();
                (self.tx.send(&self.own, to, &head, &all), rest.len())
            } else {
                let Some(slot) = self.tx.take_slot(&self.own, head.stream)? else {
                    return Ok((done, None));
                };
                let len = rest.len().min(SLOT);
                to.write(slot.part().off, &rest[..len]).expect("inside");
                let more = rest.len() > len;
                let head = Head { more, ..head };
                let own = &self.own;
                let sent = self.tx.send_slot(own, to, &head, slot, len as u32, header);
                let sent = sent.map_err(|(slot, error)| {
                    self.tx.put_back(slot);
                    error
                });
                (sent, len)
            };
            match sent {
                Ok(number) if done + len == data.len() => return Ok((data.len(), Some(number))),
                Ok(_) => done += len,
                Err(SendError::Full) => return Ok((done, None)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Take what has come, and acknowledge it.
    fn work(&mut self, from: &Ram) {
        let mut room = [0; INLINE_MAX];
        while let Some(message) = self.rx.receive(&self.own, &mut room).expect("honest") {
            let head = message.head;
            let header = match head.kind {
                SEND => 0,
                _ => Remote::SIZE,
            };
            let (header, data) = match message.body {
                Body::Inline(len) => (room[..header].to_vec(), room[header..len].to_vec()),
                Body::Slot { slot, part } => {
                    let mut data = vec![0; part.len];
                    self.own.read(part.off, &mut data).expect("inside");
                    self.rx.give(from, slot, head.stream).expect("held");
                    (room[..header].to_vec(), data)
                }
                other => panic!("{other:?}"),
            };
            let all = &mut self.parts[usize::from(head.stream)];
            all.extend(data);
            if !head.more {
                let data = std::mem::take(all);
                self.act(head, &header, data);
            }
            self.rx.acknowledge(message.number);
        }
        self.rx.publish(&self.own, from).expect("inside");
    }

    fn act(&mut self, head: Head, header: &[u8], data: Vec<u8>) {
        let event = match head.kind {
            SEND => Some(Event::Sent(data, head.immediate)),
            READ_DATA => Some(Event::Read(data)),
            REFUSED => Some(Event::Refused(Remote::decode(header).handle)),
            WRITE | READ => {
                let remote = Remote::decode(header);
                let (from, len) = (remote.address as usize, remote.len as usize);
                let memory = self.memory.get_mut(&remote.handle);
                let room = memory.and_then(|memory| memory.get_mut(from..from + len));
                let answer = |kind| Head {
                    kind,
                    more: false,
                    immediate: None,
                    ..head
                };
                match room {
                    None => {
                        let refused = (answer(REFUSED), header.to_vec(), Vec::new());
                        self.answers.push_back(refused);
                        None
                    }
                    Some(room) if head.kind == READ => {
                        let read = (answer(READ_DATA), header.to_vec(), room.to_vec());
                        self.answers.push_back(read);
                        None
                    }
                    Some(room) => {
                        room.copy_from_slice(&data);
                        head.immediate.map(Event::Written)
                    }
                }
            }
            kind => panic!("kind {kind}"),
        };
        let events = self.events.entry(head.stream).or_default();
        events.extend(event);
    }

    fn event(&mut self, stream: u16) -> Option<Event> {
        self.events.get_mut(&stream)?.pop_front()
    }
}

/// Send a whole message while the other end works; the number of its last line.
fn deliver(from: &mut End, to: &mut End, head: Head, header: &[u8], data: &[u8]) -> u64 {
    let mut done = 0;
    for _ in 0..1000 {
        let (now, number) = from.post(&to.own, head, header, data, done).expect("alive");
        from.tx.publish(&from.own, &to.own).expect("inside");
        to.work(&from.own);
        if let Some(number) = number {
            return number;
        }
        done = now;
    }
    panic!("it never goes");
}

/// Send the answers of an end.
fn answer(from: &mut End, to: &mut End) {
    while let Some((head, header, data)) = from.answers.pop_front() {
        deliver(from, to, head, &header, &data);
    }
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + seed) as u8).collect()
}

fn on(stream: u16, kind: u8, immediate: Option<u32>) -> Head {
    Head {
        stream,
        kind,
        immediate,
        more: false,
    }
}

/// Up to 64 KiB and more, with and without immediate data, one conversation after the other.
#[test]
fn messages_of_any_length_carry_immediate_data_or_none() {
    let (mut a, mut b) = ends();
    for (n, len) in [0, 40, 264, 265, 4096, 4097, 65_536, 100_001]
        .into_iter()
        .enumerate()
    {
        let stream = n as u16 % STREAMS;
        let immediate = (n % 2 == 0).then_some(n as u32);
        deliver(
            &mut a,
            &mut b,
            on(stream, SEND, immediate),
            &[],
            &pattern(len, n),
        );
        let sent = Event::Sent(pattern(len, n), immediate);
        assert_eq!(b.event(stream), Some(sent), "{len} bytes");
        assert_eq!(b.event(stream), None);
    }
}

/// Conversations do not disturb each other: parts of all of them are under way at once.
#[test]
fn parts_of_several_conversations_are_told_apart() {
    let (mut a, mut b) = ends();
    let data: Vec<_> = (0..4).map(|n| pattern(20_000 + n, n)).collect();
    let mut left: Vec<(u16, usize)> = (0..4).map(|stream| (stream, 0)).collect();
    let mut mixed = 0;
    while !left.is_empty() {
        left.retain_mut(|(stream, done)| {
            let head = on(*stream, SEND, None);
            let data = &data[usize::from(*stream)];
            let posted = a.post(&b.own, head, &[], data, *done).expect("alive");
            mixed += usize::from(posted.0 < data.len());
            *done = posted.0;
            posted.1.is_none()
        });
        a.tx.publish(&a.own, &b.own).expect("inside");
        b.work(&a.own);
    }
    assert!(mixed > 4, "they were under way at the same time");
    for (stream, data) in (0..4).zip(data) {
        assert_eq!(b.event(stream), Some(Event::Sent(data, None)));
    }
}

#[test]
fn a_write_names_its_target_and_is_silent_unless_it_has_immediate_data() {
    let (mut a, mut b) = ends();
    b.memory.insert(7, vec![0; 70_000]);
    for (len, immediate) in [
        (0, None),
        (8, Some(1)),
        (248, None),
        (249, None),
        (66_000, Some(2)),
    ] {
        let data = pattern(len, 3);
        let remote = Remote {
            address: 100,
            handle: 7,
            len: len as u32,
        };
        let number = deliver(
            &mut a,
            &mut b,
            on(1, WRITE, immediate),
            &remote.encode(),
            &data,
        );
        assert_eq!(b.memory[&7][100..100 + len], data, "{len} bytes");
        assert_eq!(b.event(1), immediate.map(Event::Written));
        // It is in memory once it is acknowledged.
        assert_eq!(a.tx.acknowledged(&a.own), Ok(number));
    }
}

#[test]
fn what_a_target_refuses_comes_back_with_a_status_and_touches_nothing() {
    let (mut a, mut b) = ends();
    b.memory.insert(7, vec![9; 100]);
    for (handle, address) in [(8, 0), (7, 90)] {
        let remote = Remote {
            address,
            handle,
            len: 20,
        };
        deliver(
            &mut a,
            &mut b,
            on(2, WRITE, Some(1)),
            &remote.encode(),
            &[1; 20],
        );
        answer(&mut b, &mut a);
        assert_eq!(a.event(2), Some(Event::Refused(handle)));
        assert_eq!(b.event(2), None);
    }
    assert_eq!(b.memory[&7], [9; 100]);
}

/// The target pushes: nobody reads across the bridge.
#[test]
fn a_read_is_a_request_and_an_answer_with_data() {
    let (mut a, mut b) = ends();
    b.memory.insert(3, pattern(66_000, 1));
    for len in [0, 248, 65_536] {
        let remote = Remote {
            address: 5,
            handle: 3,
            len,
        };
        deliver(&mut a, &mut b, on(0, READ, None), &remote.encode(), &[]);
        answer(&mut b, &mut a);
        let data = pattern(66_000, 1)[5..5 + len as usize].to_vec();
        assert_eq!(a.event(0), Some(Event::Read(data)), "{len} bytes");
    }
}

/// Lines that were taken are free; what they said has taken effect when it is acknowledged.
#[test]
fn success_is_one_word_and_no_message() {
    let (mut a, mut b) = ends();
    let number =
        a.tx.send(&a.own, &b.own, &on(0, SEND, None), b"x")
            .expect("room");
    a.tx.publish(&a.own, &b.own).expect("inside");
    let mut room = [0; INLINE_MAX];
    let message =
        b.rx.receive(&b.own, &mut room)
            .expect("honest")
            .expect("there");
    b.rx.arm_data(&b.own, &a.own).expect("inside");
    assert_eq!(a.tx.taken(&a.own), Ok(number));
    assert_eq!(
        a.tx.acknowledged(&a.own),
        Ok(0),
        "taken, without effect so far"
    );
    b.rx.acknowledge(message.number);
    b.rx.publish(&b.own, &a.own).expect("inside");
    assert_eq!(a.tx.acknowledged(&a.own), Ok(number));
    assert_eq!(
        a.rx.receive(&a.own, &mut room),
        Ok(None),
        "no message says so"
    );
}
