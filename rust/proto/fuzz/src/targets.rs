// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The targets.

use mp_proto::arena::{Arena, Extent};
use mp_proto::fabric::{Greeting, Header, Life};
use mp_proto::flow::{Meter, Window, WINDOW};
use mp_proto::layout::{Layout, MIN_LEN, PAGE, STATUS_LEN};
use mp_proto::link::{
    Action, Actions, Config, Further, Hello, Identity, Link, Local, Rng, Role, State, HELLO_SIZE,
};
use mp_proto::mailbox::{self, Mail, MailRead, MessageRx};
use mp_proto::memory::Inbound;
use mp_proto::pairing::message::{Message, SIZE, SIZE_NAMED};
use mp_proto::pairing::terms::{Connection, Limits, Location, Name, Params};
use mp_proto::pairing::{Engine, Event, Host, Mode, SESSIONS};
use mp_proto::ring::{Consumer, NextError, Place, Producer, Reassembly, ReserveError, Ringing};
use mp_proto::route::verdict;
use mp_proto::rows::Row;
use mp_proto::target::Target;
use mp_proto::version::{Support, WIRE};
use mp_proto::wire::{BlockHdr, Envelope, MsgHdr, PeerData, PeerId, Tag, TaggedIndex};
use mp_proto::{ether, manage, sharing};

use crate::input::{Input, Memory};

/// Headers survive being written again; routing has an answer for all of them.
pub fn wire(data: &[u8]) {
    let mut input = Input(data);
    let bytes = input.array();
    let msg = MsgHdr::decode(&bytes);
    assert_eq!(msg.encode(), bytes);
    assert_eq!(Envelope::from(msg).encode()[..MsgHdr::SIZE], bytes);
    let bytes = input.array();
    assert_eq!(BlockHdr::decode(&bytes).encode(), bytes);
    let bytes = input.array();
    assert_eq!(PeerData::decode(&bytes).encode(), bytes);
    let (own, neighbour) = (PeerId(input.u32()), PeerId(input.u32()));
    let _ = verdict(own, neighbour, msg.src, msg.dst);
}

fn identity(input: &mut Input<'_>) -> Identity {
    Identity {
        role: match input.byte() % 2 {
            0 => Role::Root,
            _ => Role::Endpoint,
        },
        id: PeerId(input.u32()),
        index: input.u32(),
        your_id: PeerId(input.u32()),
        your_index: input.u32(),
        features: input.u32(),
    }
}

fn some_layout(input: &mut Input<'_>) -> Layout {
    if input.byte() % 2 == 0 {
        let len = MIN_LEN + u64::from(input.u32()) % (1 << 22);
        return Layout::plan(len, u32::from(input.byte())).expect("large enough");
    }
    Layout {
        len: input.u64(),
        control_off: input.u64(),
        control_size: input.u32(),
        data_size: input.u32(),
        data_off: input.u64(),
        queues: input.u32(),
        arena_off: input.u64(),
        arena_len: input.u64(),
    }
}

fn some_further(input: &mut Input<'_>) -> Further {
    Further {
        commons_len: input.u64(),
        commons_addr: input.u64(),
        exposed: input.u32(),
    }
}

fn some_support(input: &mut Input<'_>) -> Support {
    let oldest = input.byte().max(1);
    Support {
        oldest,
        newest: input.byte().max(oldest),
        features: input.u32() as u16,
    }
}

fn some_hello(input: &mut Input<'_>) -> Hello {
    Hello {
        goodbye: input.byte() % 4 == 0,
        epoch: input.u64().max(1),
        echo: input.u64(),
        identity: identity(input),
        layout: some_layout(input),
        further: some_further(input),
        support: some_support(input),
    }
}

/// A Hello survives being written; other bytes are none.
pub fn hello(data: &[u8]) {
    let mut input = Input(data);
    let raw: [u8; HELLO_SIZE] = input.array();
    if let Some(hello) = Hello::decode(&raw) {
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
    }
    let hello = some_hello(&mut Input(data));
    let mut bytes = hello.encode();
    assert_eq!(Hello::decode(&bytes), Some(hello));
    // One byte that is different is noticed, unless nothing reads it.
    let at = usize::from(raw[0]) % HELLO_SIZE;
    bytes[at] ^= raw[1].max(1);
    let torn = Hello::decode(&bytes);
    assert!(torn.is_none(), "byte {at} is not sealed");
}

/// A mail survives the mailbox, and messages in any order; nothing else becomes one.
pub fn mailbox(data: &[u8]) {
    let mut input = Input(data);
    let words = [input.u32(), input.u32(), input.u32(), input.u32()];
    if let MailRead::Mail(mail) = Mail::decode(&words) {
        let again = mail.encode().expect("what is read can be written");
        assert_eq!(Mail::decode(&again), MailRead::Mail(mail));
    }
    let read = mailbox::read(|_| match input.byte() {
        0 => None,
        n => Some(words[usize::from(n) % 4]),
    });
    let _ = read;
    let mut rx = MessageRx::new();
    while !input.is_empty() {
        let _ = rx.accept(input.u32());
    }
}

/// A generator that gives what the input says.
struct Told(u64);

impl Rng for Told {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        self.0 >> 16
    }
}

/// What a link asks for, in an order that can be carried out.
struct Driver {
    mapped: bool,
    up: bool,
    wanted: Option<u64>,
}

impl Driver {
    fn carry_out(&mut self, todo: Actions) {
        for action in todo {
            match action {
                Action::ResetInbound => assert!(!self.mapped),
                Action::MapWindow { len, .. } => {
                    assert!(!self.mapped && len >= MIN_LEN);
                    self.wanted = Some(len);
                }
                Action::UnmapWindow => {
                    assert!(!self.up);
                    self.mapped = false;
                    self.wanted = None;
                }
                Action::WriteHello(_) | Action::Beat(_) => assert!(self.mapped),
                Action::LinkUp { peer, .. } => {
                    assert!(self.mapped && !self.up);
                    self.up = true;
                    assert!(peer.layout.ring(0).is_some_and(|p| p.check().is_ok()));
                }
                Action::LinkDown(_) => assert!(std::mem::replace(&mut self.up, false)),
                Action::PublishMailbox(mail) => assert!(mail.encode().is_ok()),
                Action::PeerChanged(_) => assert!(self.up),
                Action::ClearMailbox | Action::ReportVersion(_) => {}
            }
        }
    }
}

/// The state machine of a link keeps its order whatever it is shown.
pub fn link(data: &[u8]) {
    let mut input = Input(data);
    let layout = Layout::plan(1 << 20, 2).expect("large enough");
    let local = Local {
        addr: 0x1_0000,
        layout,
        identity: identity(&mut input),
        further: some_further(&mut input),
        support: WIRE,
    };
    let mut link = Link::new(Config::default(), local, Told(input.u64()));
    let mut driver = Driver {
        mapped: false,
        up: false,
        wanted: None,
    };
    let (mut now, mut generation, mut epoch) = (0u64, 0u16, 0u64);
    let (mut beat, mut last) = (0u64, None);
    while !input.is_empty() {
        let kind = input.byte();
        let todo = match kind % 9 {
            0 => link.ntb_link(kind & 0x80 == 0, now),
            1 => {
                // As an honest peer would answer, or nearly.
                let mail = Mail {
                    generation: u16::from(input.byte()).max(1),
                    echo: if kind & 0x80 == 0 { generation } else { 7 },
                    len: MIN_LEN << (kind >> 4 & 3),
                    addr: 0x2_0000,
                };
                link.mailbox(MailRead::Mail(mail), now)
            }
            2 => {
                let words = [input.u32(), input.u32(), input.u32(), input.u32()];
                link.mailbox(Mail::decode(&words), now)
            }
            3 => {
                let mut hello = some_hello(&mut input);
                if kind & 0x80 == 0 {
                    hello.echo = epoch;
                    hello.layout = Layout::plan(MIN_LEN, 1).expect("large enough");
                }
                last = Some(hello);
                link.observe(last, beat, now)
            }
            4 => {
                beat = beat.wrapping_add(u64::from(kind >> 4));
                link.observe(last, beat, now)
            }
            5 => {
                now = now.saturating_add(u64::from(input.u32()));
                link.tick(now)
            }
            6 => link.corrupt(now),
            7 => link.set_identity(identity(&mut input), now),
            _ if kind == 0xff => link.shutdown(),
            _ => link.tick(now),
        };
        for action in todo.clone() {
            match action {
                Action::PublishMailbox(mail) => generation = mail.generation,
                Action::WriteHello(hello) => epoch = hello.epoch,
                _ => {}
            }
        }
        driver.carry_out(todo);
        if let Some(len) = driver.wanted.take() {
            driver.mapped = kind & 0x40 == 0;
            let todo = link.mapped(driver.mapped.then_some(len), now);
            for action in todo.clone() {
                if let Action::WriteHello(hello) = action {
                    epoch = hello.epoch;
                }
            }
            driver.carry_out(todo);
        }
        assert_eq!(driver.up, link.state() == State::Up);
        assert_eq!(link.tags().is_some(), driver.up);
        assert!(link.deadline().is_some() || !driver.up);
    }
}

/// A layout that passes the check has rings inside the window; where an exposed window is said
/// to lead has an end.
pub fn layout(data: &[u8]) {
    let mut input = Input(data);
    let layout = some_layout(&mut input);
    let window = input.u64() % (1 << 30);
    let (number, said) = (u32::from(input.byte()), Memory::new(STATUS_LEN));
    said.put(input.u32() as usize % STATUS_LEN, &input.array::<16>());
    if let Some(there) = Target::read(number, &said) {
        assert!(there.len % PAGE == 0 && there.addr.checked_add(there.len).is_some());
        assert_eq!(there.write(number, &said), Ok(()));
        assert_eq!(Target::read(number, &said), Some(there));
    }
    if layout.validate(window).is_err() {
        return;
    }
    for ring in 0..=layout.queues {
        let place = layout.ring(ring).expect("exists");
        assert!(place.check().is_ok());
        assert!(place.data as u64 + u64::from(place.size) <= window);
    }
    assert_eq!(layout.ring(layout.queues + 1), None);
}

const RING: u32 = 4096;
const PLACE: Place = Place {
    data: 4096,
    size: RING,
    prod: 0,
    want_space: 8,
    cons: 64,
    want_data: 72,
};

fn tags() -> (Tag, Tag) {
    (Tag::new(1, 2), Tag::new(2, 1))
}

/// A word with the right tag, or any word.
fn index_word(input: &mut Input<'_>, tag: Tag, near: u32) -> u64 {
    let kind = input.byte();
    match kind % 4 {
        0 => input.u64(),
        1 => TaggedIndex {
            tag,
            index: input.u32(),
        }
        .word(),
        _ => TaggedIndex {
            tag,
            index: near.wrapping_add(u32::from(kind >> 2)),
        }
        .word(),
    }
}

/// The records of memory that a liar fills lie inside the ring, and are given back once.
pub fn consumer(data: &[u8]) {
    let mut input = Input(data);
    let (tx, rx) = tags();
    let (memory, far) = (Memory::new(4096 + RING as usize), Memory::new(4096));
    let mut consumer = Consumer::<8>::new(PLACE, tx, rx, Ringing::Level).expect("a good place");
    let mut order = Reassembly::new();
    // An honest producer gives the marks.
    let mut honest = Producer::<8>::new(PLACE, rx, tx, Ringing::Level).expect("a good place");
    let (nobody, mut near) = (Memory::new(4096), 0u32);
    let mut held = Vec::new();
    while !input.is_empty() {
        match input.byte() % 6 {
            0 => {
                let word = index_word(&mut input, rx, near);
                memory.put(PLACE.prod, &word.to_le_bytes());
            }
            1 => {
                let hdr = BlockHdr {
                    buffer_len: u32::from(input.byte()) * 8,
                    hdr_len: u32::from(input.byte() % 64),
                    len: u32::from(input.byte()) * 8,
                    mark: 0,
                };
                let len = hdr.buffer_len.clamp(16, 2048);
                match honest.reserve(&nobody, len) {
                    Ok(slot) => {
                        memory.put(slot.parts.first.off, &slot.header(&hdr));
                        near = near.wrapping_add(len.div_ceil(64));
                        honest.commit(slot);
                    }
                    Err(ReserveError::Full | ReserveError::TooManyHeld) => return,
                    Err(e) => panic!("an honest producer: {e:?}"),
                }
            }
            2 => {
                let at = 4096 + usize::from(input.byte()) * 16;
                memory.put(at, &input.array::<16>());
            }
            3 => match consumer.next(&memory) {
                Ok(Some(rec)) => {
                    let body = rec.hdr.buffer_len as usize - BlockHdr::SIZE;
                    assert_eq!(rec.parts.len(), body);
                    assert!(rec.data_len <= rec.hdr.len);
                    for part in [rec.parts.first, rec.parts.second] {
                        let inside = part.off >= PLACE.data
                            && part.off + part.len <= PLACE.data + RING as usize;
                        assert!(part.len == 0 || inside);
                    }
                    let mut bytes = vec![0; body];
                    rec.parts.read(&memory, 0, &mut bytes).expect("inside");
                    if let Ok(step) = order.accept(&rec) {
                        assert!(step.data_off + rec.data_len <= step.total);
                    }
                    held.push(rec.token);
                }
                Ok(None) | Err(NextError::TooManyHeld) => {}
                Err(NextError::Corrupt(_)) => return,
            },
            4 => {
                if let Some(token) = held.pop() {
                    assert!(consumer.release(token));
                    assert!(!consumer.release(token), "given back twice");
                }
            }
            _ => {
                consumer.publish_cons(&far, &memory).expect("inside");
                if consumer.arm_data(&far, &memory).is_err() {
                    return;
                }
                assert!(consumer.held_units() <= consumer.units());
                let _ = (consumer.unread_units(&memory), consumer.is_overdue(&memory));
            }
        }
    }
}

/// A producer that is told any index writes inside the ring and overtakes nothing.
pub fn producer(data: &[u8]) {
    let mut input = Input(data);
    let (tx, rx) = tags();
    let (memory, far) = (Memory::new(4096), Memory::new(4096 + RING as usize));
    let mut producer = Producer::<8>::new(PLACE, tx, rx, Ringing::Level).expect("a good place");
    let (mut near, mut open) = (0u32, Vec::new());
    while !input.is_empty() {
        match input.byte() % 5 {
            0 => {
                let word = index_word(&mut input, rx, near);
                memory.put(PLACE.cons, &word.to_le_bytes());
                memory.put(PLACE.want_data, &input.u64().to_le_bytes());
            }
            1 => match producer.reserve(&memory, u32::from(input.byte()) * 16) {
                Ok(slot) => {
                    let bytes = vec![0xa5; slot.parts.len()];
                    slot.write(&far, 0, &bytes).expect("inside");
                    open.push(slot);
                }
                Err(ReserveError::Corrupt(_)) => return,
                Err(_) => {}
            },
            2 => {
                if let Some(slot) = open.pop() {
                    producer.commit(slot);
                }
            }
            3 => {
                producer.publish(&far, &memory).expect("inside");
                if let Ok(word) = far.load_u64(PLACE.prod) {
                    near = TaggedIndex::index_of(word, tx).unwrap_or(0);
                }
            }
            _ => {
                if producer
                    .arm_space(&far, &memory, u32::from(input.byte()) * 32)
                    .is_err()
                {
                    return;
                }
            }
        }
        assert!(producer.free_units() <= producer.units());
        assert!(producer.unread_units() <= producer.units());
    }
}

/// Management messages are what they were when they are written again.
pub fn manage(data: &[u8]) {
    if let Some(message) = manage::Message::decode(data) {
        assert_eq!(data.len(), manage::SIZE);
        assert_eq!(manage::Message::decode(&message.encode()), Some(message));
    }
}

/// Credits stay within the window, whatever the other side reports.
pub fn flow(data: &[u8]) {
    let mut input = Input(data);
    let (mut window, mut meter) = (Window::default(), Meter::default());
    while !input.is_empty() {
        match input.byte() % 5 {
            0 => {
                let units = input.u32() % (WINDOW + 10);
                if window.has_room(units) {
                    window.sent(units);
                }
            }
            1 => {
                let _ = window.passed(input.u32());
            }
            2 => {
                let units = input.u32() % (2 * WINDOW);
                if meter.arrive(units).is_ok() {
                    meter.pass(units);
                }
            }
            3 => meter.want(input.u32()),
            _ => {
                if let Some(total) = meter.due() {
                    meter.reported(total);
                }
            }
        }
        assert!(window.under_way() <= WINDOW);
    }
}

/// Greetings are followed; nobody is addressed who has not spoken.
pub fn fabric(data: &[u8]) {
    let mut input = Input(data);
    let mut greeting = Greeting::new(Life::new(5));
    let mut heard = false;
    while !input.is_empty() {
        let bytes: [u8; mp_proto::fabric::SIZE] = input.array();
        let Some(header) = Header::decode(&bytes) else {
            continue;
        };
        assert_eq!(Header::decode(&header.encode()), Some(header));
        match header {
            Header::Hello(hello) => {
                let Some(hello) = hello.with_data(input.0) else {
                    continue;
                };
                heard = true;
                assert_eq!(hello.with_data(&hello.data()), Some(hello));
                let _ = greeting.receive(hello);
            }
            Header::Bye(life) => {
                let _ = greeting.bye(life);
            }
            Header::Pairing(life)
            | Header::Sharing(life)
            | Header::Signal { life, .. }
            | Header::Trigger { life, .. }
            | Header::Message { life, .. }
            | Header::Put { life, .. }
            | Header::Exchange { life, .. }
            | Header::Stores(life)
            | Header::Fetched { life, .. } => {
                let _ = greeting.accepts(life);
            }
        }
        assert!(heard || greeting.partner().is_none());
    }
}

/// Headers of the virtual Ethernet that are accepted are written the same way.
pub fn ether(data: &[u8]) {
    let mut input = Input(data);
    let len = input.u32() as usize % (ether::MAX_PACKET + 100);
    if let Ok(header) = ether::Header::decode(input.0, len) {
        assert_eq!(ether::Header::decode(&header.encode(), len), Ok(header));
    }
}

/// Pairing messages are what they were when they are written again.
pub fn pairing_message(data: &[u8]) {
    if let Some(message) = Message::decode(data) {
        assert!([SIZE, SIZE_NAMED].contains(&data.len()));
        assert_eq!(Message::decode(&message.encode()), Some(message));
    }
}

/// The same of messages on segments, events and ports.
pub fn sharing_message(data: &[u8]) {
    if let Some(message) = sharing::message::Message::decode(data) {
        let again = sharing::message::Message::decode(&message.encode());
        assert_eq!(again, Some(message));
    }
}

const PAGES: u64 = 16;

/// The memory behind an engine, which checks what is asked of it.
struct Desk(Arena<Vec<Option<Extent>>>);

impl Host for Desk {
    fn runs(&self) -> [u64; 2] {
        self.0.runs()
    }
    fn alloc(&mut self, _session: u32, len: u64) -> Option<u64> {
        self.0.alloc(len).ok().map(|extent| extent.off)
    }
    fn expose(&mut self, _address: u64, _len: u64) -> Option<u64> {
        None
    }
    fn free(&mut self, off: u64) {
        self.0.free(off).expect("it was cut");
    }
    fn retire(&mut self, off: u64) {
        self.0.retire(off).expect("it was cut, and is in use");
    }
    fn event(&mut self, _event: Event) {}
}

fn some_params(input: &mut Input<'_>) -> Params {
    let kind = input.byte();
    let mut limits = || {
        let bits = input.byte();
        let min = u64::from(bits & 3);
        Limits {
            min: min * PAGE,
            max: (min + u64::from(bits >> 2 & 7)) * PAGE,
        }
    };
    let connection = match kind % 3 {
        0 => Connection::Server,
        1 => Connection::Client,
        _ => Connection::Peer,
    };
    let hold = connection == Connection::Server && kind & 8 != 0;
    Params {
        connection,
        location: Location::Logical,
        protocol: 0,
        uid: u32::from(kind >> 6),
        local: limits(),
        remote: limits(),
        address: 0,
        address_bits: 64,
        name: Name::NONE,
        hold,
        once: hold && kind & 16 != 0,
        bare: false,
    }
}

/// An engine and a liar: after any messages, no memory is lost or given twice.
fn pairing(data: &[u8], mode: Mode) {
    let mut input = Input(data);
    let mut desk = Desk(Arena::new(PAGES * PAGE, vec![None; 64]));
    let (own, far) = (vec![Row::FREE; 16], vec![Row::FREE; SESSIONS]);
    let engine = Engine::new(mode, PAGES * PAGE, true, own, far);
    let mut engine = engine.expect("large enough");
    let mut open = Vec::new();
    while !input.is_empty() {
        match input.byte() % 6 {
            0 => {
                let number = 1 + u32::from(input.byte() % 8);
                let params = some_params(&mut input);
                if engine.request(number, &params, 0, &mut desk).is_ok() {
                    open.push(number);
                }
            }
            1 => {
                if let Some(number) = open.pop() {
                    let _ = engine.close(number, &mut desk);
                }
            }
            2 => {
                let bytes: [u8; SIZE] = input.array();
                let named: [u8; SIZE_NAMED - SIZE] = input.array();
                let bytes = [&bytes[..], &named[..]].concat();
                if let Some((message, _)) = Message::split(&bytes) {
                    if engine.receive(&message, &mut desk).is_err() {
                        break;
                    }
                }
            }
            3 => {
                let number = 1 + u32::from(input.byte() % 8);
                let _ = engine.accept(number, &mut desk);
            }
            4 => {
                let number = 1 + u32::from(input.byte() % 8);
                let _ = engine.reject(number, 0, &mut desk);
            }
            _ => while engine.poll(&mut desk).is_some() {},
        }
        let uids: Vec<_> = engine.remote_windows().map(|w| w.uid).collect();
        assert!(uids.iter().all(|uid| *uid != 0));
    }
    for number in open {
        let _ = engine.close(number, &mut desk);
    }
    engine.end(&mut desk);
    assert_eq!(desk.0.free_bytes(), PAGES * PAGE, "memory is lost");
}

/// See [`pairing`]; the engine decides.
pub fn pairing_arbiter(data: &[u8]) {
    pairing(data, Mode::Arbiter);
}

/// See [`pairing`]; the liar decides.
pub fn pairing_asker(data: &[u8]) {
    pairing(data, Mode::Asker);
}
