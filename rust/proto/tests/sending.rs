// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The sending half of a ring against a plain model: what was taken arrives once, in order and
//! whole; units come back as often as they went out; who waits is woken.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use common::rings::{self, PLACE};
use mp_proto::ring::{Chunk, Consumer, Corrupt, Reassembly, Ringing, Slot};
use mp_proto::sending::{Context, Copies, Payload, Pending, Room, SendError, SendingHalf, TX_HELD};
use mp_proto::wire::{Envelope, MsgHdr, PeerId, Tag, FUNC_HDR_MAX};
use proptest::prelude::*;

/// Least data bytes of a record that the engine copies.
const THRESHOLD: u32 = 1000;

/// Why data cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    Outside,
    Broken,
}

struct Inner {
    func_hdr: Vec<u8>,
    data: Vec<u8>,
    broken: Cell<bool>,
    failures: RefCell<Vec<SendError<Unread>>>,
}

#[derive(Clone)]
struct Frame(Rc<Inner>);

impl Frame {
    fn new(number: usize, len: usize) -> Frame {
        Frame(Rc::new(Inner {
            func_hdr: vec![number as u8; number % FUNC_HDR_MAX],
            data: (0..len).map(|n| (n * 7 + number) as u8).collect(),
            broken: Cell::new(false),
            failures: RefCell::default(),
        }))
    }

    fn has_failed(&self) -> bool {
        !self.0.failures.borrow().is_empty()
    }
}

impl Payload for Frame {
    type Error = Unread;
    const OUTSIDE: Unread = Unread::Outside;

    fn func_hdr(&self) -> &[u8] {
        &self.0.func_hdr
    }
    fn data_len(&self) -> u32 {
        self.0.data.len() as u32
    }
    fn failed(&self, why: SendError<Unread>) {
        self.0.failures.borrow_mut().push(why);
    }
}

/// Records that the engine has, and those it has reported.
#[derive(Default)]
struct Engine {
    open: Vec<Pending<Frame>>,
    reported: Vec<(Pending<Frame>, bool)>,
}

impl Copies<Frame> for Rc<RefCell<Engine>> {
    fn is_empty(&self) -> bool {
        let engine = self.borrow();
        engine.open.is_empty() && engine.reported.is_empty()
    }
    fn take_reported(&mut self) -> Option<(Pending<Frame>, bool)> {
        self.borrow_mut().reported.pop()
    }
    fn abandon(&mut self) {
        let mut engine = self.borrow_mut();
        let reported: Vec<_> = engine
            .reported
            .drain(..)
            .map(|(record, _)| record)
            .collect();
        for record in engine.open.drain(..).chain(reported) {
            record.frame.failed(SendError::Gone);
        }
    }
}

/// What a sending half is given besides.
struct Sends {
    /// The engine takes records.
    works: Cell<bool>,
    full: Cell<u32>,
    unreadable: Cell<bool>,
}

type World = rings::World<Sends>;

impl Context<Frame> for World {
    type Copies = Rc<RefCell<Engine>>;

    fn write_data(
        &self,
        slot: &Slot,
        chunk: &Chunk,
        at: usize,
        frame: &Frame,
    ) -> Result<(), Unread> {
        if frame.0.broken.get() {
            return Err(Unread::Broken);
        }
        let from = chunk.data_off as usize;
        let data = &frame.0.data[from..from + chunk.data_len as usize];
        slot.write(&self.peers, at, data)
            .map_err(|_| Unread::Outside)
    }
    fn wants_copy(&self, len: u32) -> bool {
        len >= THRESHOLD
    }
    fn start_copy(
        &self,
        copies: &mut Rc<RefCell<Engine>>,
        record: Pending<Frame>,
    ) -> Result<(), Pending<Frame>> {
        if !self.works.get() {
            return Err(record);
        }
        copies.borrow_mut().open.push(record);
        Ok(())
    }
    fn copy_ended(&self, _len: u32, _copied: bool) {}
    fn ring_full(&self) {
        self.full.set(self.full.get() + 1);
    }
    fn unreadable(&self) {
        self.unreadable.set(true);
    }
}

/// The receiving side, and what it has of a frame.
struct Peer {
    consumer: Consumer<64>,
    order: Reassembly,
    headers: Vec<u8>,
    data: Vec<u8>,
}

struct Ring {
    half: SendingHalf<Frame, Rc<RefCell<Engine>>>,
    engine: Rc<RefCell<Engine>>,
    world: World,
    peer: Peer,
    /// Frames that were taken and have not arrived.
    taken: VecDeque<Frame>,
    frames: usize,
    /// Units that `send` has returned and `completions` has not.
    units: u32,
    /// Somebody waits for room and was not woken.
    waits: bool,
}

impl Ring {
    fn new(urgent: bool, copies: bool) -> Ring {
        let (tx, rx) = (Tag::new(11, 22), Tag::new(22, 11));
        let engine = Rc::<RefCell<Engine>>::default();
        let copies = copies.then(|| engine.clone());
        let place = PLACE.check().expect("a good place");
        Ring {
            half: SendingHalf::new(place, tx, rx, Ringing::Level, urgent, copies),
            engine,
            world: World::new(
                4096,
                4096 + PLACE.size as usize,
                Sends {
                    works: Cell::new(true),
                    full: Cell::new(0),
                    unreadable: Cell::new(false),
                },
            ),
            peer: Peer {
                consumer: Consumer::new(PLACE, rx, tx, Ringing::Level).expect("good place"),
                order: Reassembly::new(),
                headers: Vec::new(),
                data: Vec::new(),
            },
            taken: VecDeque::new(),
            frames: 0,
            units: 0,
            waits: false,
        }
    }

    fn head(frame: &Frame) -> Envelope {
        Envelope::from(MsgHdr {
            dst: PeerId::from_bdf(2, 0, 0),
            src: PeerId::from_bdf(1, 0, 0),
            len: (frame.0.func_hdr.len() + frame.0.data.len()) as u32,
            func: 7,
        })
    }

    fn send(&mut self, len: usize) -> Result<Frame, SendError<Unread>> {
        let frame = Frame::new(self.frames, len);
        let was_full = self.world.full.get();
        let had_partial = self.half.has_partial();
        let sent = self.half.send(&self.world, &Ring::head(&frame), &frame);
        if let Err(why) = sent {
            assert!(!frame.has_failed(), "the caller still has it");
            assert_eq!(Rc::strong_count(&frame.0), 1, "nobody else has it");
            if why == SendError::Full {
                assert!(had_partial || self.world.full.get() > was_full);
            }
            return Err(why);
        }
        self.units += sent?;
        self.frames += 1;
        self.taken.push_back(frame.clone());
        Ok(frame)
    }

    fn await_room(&mut self) -> Room {
        let room = self.half.await_room(&self.world);
        assert!(
            !room.now || !self.half.has_partial(),
            "a rest is in the way"
        );
        assert!(!room.now || room.has_report);
        self.waits = !room.now;
        room
    }

    fn completions(&mut self) -> Option<u32> {
        let units = self.half.completions(&self.world)?;
        self.units = self.units.checked_sub(units).expect("reported once");
        self.waits = false;
        Some(units)
    }

    /// The engine reports a record, which it has copied or not.
    fn report(&mut self, pick: usize, copied: bool) {
        let mut engine = self.engine.borrow_mut();
        if engine.open.is_empty() {
            return;
        }
        let pick = pick % engine.open.len();
        let record = engine.open.remove(pick);
        if copied {
            let (slot, chunk, at) = (&record.slot, &record.chunk, record.data_at);
            let written = self.world.write_data(slot, chunk, at, &record.frame);
            written.expect("the data is there");
        }
        engine.reported.push((record, copied));
    }

    /// The peer takes up to `most` records and gives them back.
    fn receive(&mut self, most: usize) {
        for _ in 0..most {
            let next = self.peer.consumer.next(&self.world.peers);
            let Some(record) = next.expect("an honest sender") else {
                break;
            };
            let step = self.peer.order.accept(&record).expect("an honest sender");
            let mut bytes = vec![0; record.parts.len()];
            let read = record.parts.read(&self.world.peers, 0, &mut bytes);
            read.expect("inside");
            let data = bytes.split_off(record.hdr.hdr_len as usize);
            if step.first {
                self.peer.headers = bytes;
            }
            self.peer.data.extend_from_slice(&data);
            assert!(self.peer.consumer.release(record.token));
            if step.last {
                self.arrived();
            }
        }
        let (own, peers) = (&self.world.own, &self.world.peers);
        let published = self.peer.consumer.publish_cons(own, peers);
        if published.expect("inside") {
            self.waits = false;
        }
        let is_drained = !self.peer.consumer.is_ready(peers) && !self.engine_has_records();
        assert!(!(self.waits && is_drained), "a wake-up is lost");
    }

    fn arrived(&mut self) {
        let frame = self.taken.pop_front().expect("was sent");
        let head = Ring::head(&frame);
        let mut headers = head.encode()[..head.len()].to_vec();
        headers.extend_from_slice(&frame.0.func_hdr);
        assert!(std::mem::take(&mut self.peer.headers) == headers, "headers");
        assert!(std::mem::take(&mut self.peer.data) == frame.0.data, "data");
        assert!(!frame.has_failed(), "it has arrived");
    }

    fn engine_has_records(&self) -> bool {
        !self.engine.is_empty()
    }

    fn check(&self) {
        assert_eq!(self.world.corrupt.get(), None);
        assert!(!self.world.unreadable.get());
        assert!(self.units >= self.half.units() - self.half.free_units());
    }

    fn step(&mut self, (what, how): (u8, u16)) {
        match what {
            0..=3 => {
                let len = usize::from(how) % [60, 900, 5000, 12_000][usize::from(what)];
                let _ = self.send(len);
            }
            4 => self.half.publish(&self.world),
            5 => self.receive(usize::from(how) % 8),
            6 => {
                self.await_room();
            }
            7 => {
                self.completions();
            }
            8 => self.report(usize::from(how / 2), how % 2 == 0),
            _ => self.world.works.set(how % 4 != 0),
        }
        self.check();
    }

    /// Let everything arrive that was taken, without another call of the sender than polls.
    fn drain(&mut self) {
        self.half.publish(&self.world);
        for _ in 0..200 {
            while !self.engine.borrow().open.is_empty() {
                self.report(0, true);
            }
            self.completions();
            self.receive(64);
            self.check();
        }
        assert!(self.taken.is_empty(), "all that was taken arrives");
        assert!(!self.half.has_partial());
        assert_eq!(self.half.units(), self.half.free_units());
    }
}

fn steps() -> impl Strategy<Value = Vec<(u8, u16)>> {
    prop::collection::vec((0u8..10, any::<u16>()), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn frames_arrive_once_in_order_and_whole(steps in steps(), copies in any::<bool>()) {
        let mut ring = Ring::new(false, copies);
        for step in steps {
            ring.step(step);
        }
        ring.drain();
        // Who waits is told of the last unit.
        ring.await_room();
        ring.completions();
        prop_assert_eq!(ring.units, 0, "each unit comes back once");
    }

    #[test]
    fn what_has_not_gone_fails_at_the_end_of_the_epoch(steps in steps(), copies in any::<bool>()) {
        let mut ring = Ring::new(false, copies);
        for step in steps {
            ring.step(step);
        }
        ring.world.is_open.set(false);
        let before = ring.world.peers.0.borrow().clone();
        let bells = ring.world.bells.get();
        let copied: Vec<_> = {
            let engine = ring.engine.borrow();
            let reported = engine.reported.iter().map(|(record, _)| record);
            engine.open.iter().chain(reported).map(|record| record.frame.clone()).collect()
        };
        let has_partial = ring.half.has_partial();
        ring.half.publish(&ring.world);
        ring.half.settle(&ring.world);
        ring.half.await_room(&ring.world);
        prop_assert!(matches!(ring.send(10), Err(SendError::Gone)));
        ring.half.close();
        let is_same = *ring.world.peers.0.borrow() == before;
        prop_assert!(is_same, "nothing is written in the next epoch");
        prop_assert_eq!(ring.world.bells.get(), bells);
        let last = ring.frames.checked_sub(1);
        for frame in &ring.taken {
            let number = ring.frames - ring.taken.len()
                + ring.taken.iter().position(|f| Rc::ptr_eq(&f.0, &frame.0)).expect("there");
            let is_rest = has_partial && Some(number) == last;
            let is_copied = copied.iter().any(|f| Rc::ptr_eq(&f.0, &frame.0));
            prop_assert_eq!(frame.has_failed(), is_rest || is_copied);
        }
    }

    #[test]
    fn urgent_frames_go_at_once_and_have_no_units(steps in steps()) {
        let mut ring = Ring::new(true, false);
        for (what, how) in steps {
            match what {
                0..=3 => {
                    let fits = ring.send(usize::from(how) % 900).is_ok();
                    prop_assert!(fits || ring.half.free_units() < ring.half.units());
                    let is_ready = ring.peer.consumer.is_ready(&ring.world.peers);
                    prop_assert!(!fits || is_ready, "without a publication");
                }
                4 | 5 => ring.receive(usize::from(how) % 8),
                6 => {
                    ring.await_room();
                }
                _ => {
                    let waits = ring.waits;
                    let told = ring.completions();
                    prop_assert!(matches!(told, None | Some(0)));
                    prop_assert!(told.is_some() <= (waits || !ring.waits));
                }
            }
        }
        ring.receive(64);
        ring.receive(64);
        prop_assert!(ring.taken.is_empty());
    }
}

/// Send a frame of three records, of which two fit.
fn with_a_rest() -> (Ring, Frame) {
    let mut ring = Ring::new(false, false);
    let frame = ring.send(10_000).expect("its beginning fits");
    assert!(ring.half.has_partial());
    (ring, frame)
}

/// The peer has the beginning of a frame whose rest is lost: no other frame can follow it.
#[test]
fn an_unreadable_rest_ends_the_epoch() {
    let (mut ring, frame) = with_a_rest();
    frame.0.broken.set(true);
    ring.receive(1);
    ring.completions();
    assert!(ring.world.unreadable.get());
    let first = frame.0.failures.borrow().first().copied();
    assert_eq!(first, Some(SendError::Body(Unread::Broken)));
}

/// A first record that cannot be read leaves nothing behind.
#[test]
fn an_unreadable_frame_is_refused() {
    let mut ring = Ring::new(false, false);
    let frame = Frame::new(1, 100);
    frame.0.broken.set(true);
    let sent = ring.half.send(&ring.world, &Ring::head(&frame), &frame);
    assert_eq!(sent, Err(SendError::Body(Unread::Broken)));
    assert_eq!(ring.half.free_units(), ring.half.units());
    assert!(!ring.world.unreadable.get());
    ring.send(100).expect("the ring is empty");
    ring.drain();
}

/// The rest of a frame goes on from other memory.
#[test]
fn a_rest_is_moved_to_other_memory() {
    let (mut ring, frame) = with_a_rest();
    let copy = Frame::new(0, 10_000);
    let moved = ring.half.detach(|_| Ok::<_, ()>(copy.clone()));
    assert_eq!(moved, Ok(()));
    frame.0.broken.set(true);
    ring.drain();
    let (mut ring, frame) = with_a_rest();
    assert_eq!(ring.half.detach(|_| Err(7)), Err(7));
    assert_eq!(*frame.0.failures.borrow(), [SendError::Gone]);
    assert!(!ring.half.has_partial());
}

/// As many records are open as the half can follow; the others wait for the engine.
#[test]
fn the_engine_has_no_more_records_than_places() {
    let mut ring = Ring::new(false, true);
    let len = THRESHOLD as usize;
    let mut sent = 0;
    while ring.send(len).is_ok() {
        sent += 1;
    }
    assert!(sent <= TX_HELD);
    assert!(ring.world.full.get() > 0);
    ring.drain();
    // What the engine refuses is written at once.
    ring.world.works.set(false);
    ring.send(len).expect("there is room");
    assert!(!ring.engine_has_records());
    ring.drain();
}

/// A frame that no ring of this size takes, and headers that no record takes.
#[test]
fn too_large_is_not_full() {
    let mut ring = Ring::new(false, false);
    assert!(matches!(
        ring.send((16 << 20) + 1),
        Err(SendError::TooLarge)
    ));
    let long = Frame(Rc::new(Inner {
        func_hdr: vec![0; FUNC_HDR_MAX + 8],
        data: Vec::new(),
        broken: Cell::new(false),
        failures: RefCell::default(),
    }));
    let sent = ring.half.send(&ring.world, &Ring::head(&long), &long);
    assert_eq!(sent, Err(SendError::TooLarge));
    assert_eq!(ring.half.free_units(), ring.half.units());
}

/// A peer that claims more than it got ends the epoch, and nobody is told of units.
#[test]
fn an_impossible_index_is_reported() {
    let mut ring = Ring::new(false, false);
    ring.send(100).expect("the ring is empty");
    ring.half.publish(&ring.world);
    let word = (u64::from(Tag::new(22, 11).value()) << 32) | 99;
    ring.world.own.set_word(PLACE.cons, word);
    assert_eq!(ring.half.completions(&ring.world), None);
    assert_eq!(ring.world.corrupt.get(), Some(Corrupt::ConsumerIndex));
}

/// The same for the rest of a frame that is under way: its data is not to blame.
#[test]
fn a_rest_behind_an_impossible_index_is_gone() {
    let (mut ring, frame) = with_a_rest();
    let word = (u64::from(Tag::new(22, 11).value()) << 32) | 9999;
    ring.world.own.set_word(PLACE.cons, word);
    ring.half.await_room(&ring.world);
    assert_eq!(ring.world.corrupt.get(), Some(Corrupt::ConsumerIndex));
    assert!(!ring.world.unreadable.get());
    assert_eq!(*frame.0.failures.borrow(), [SendError::Gone]);
    assert!(!ring.half.has_partial());
}
