// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The receiving half of a ring against a plain model: what was sent is passed on once, in order and
//! whole; what is kept stays as it is; all of the ring comes back, and the peer is told in time.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use common::rings::{self, PLACE};
use common::Ram;
use mp_proto::receiving::{
    poll_queue, AddError, Arrived, Assembly, Context, Kept, ReceivingHalf, Upper, RX_HELD,
};
use mp_proto::ring::{
    units_for, Armed, Chunk, Corrupt, Place, Producer, Record, ReserveError, Ringing, Split, Step,
};
use mp_proto::wire::{BlockHdr, Tag, TaggedIndex};
use proptest::prelude::*;

/// Records that one call moves out at most.
const MOVED_AT_ONCE: usize = 8;

/// Bytes of the headers of each frame.
const HEAD: usize = 24;

/// A kept record, as the one who keeps it sees it.
struct Spot {
    place: usize,
    record: Record,
    came: Vec<u8>,
    /// Whether its data is in the ring, and nobody has given it back.
    in_ring: Cell<bool>,
}

/// What a receiving half is given besides.
struct Receives {
    /// There is memory to move records to.
    moves: Cell<bool>,
    moved: Cell<usize>,
    returned: RefCell<Vec<usize>>,
    urgent: Cell<bool>,
    /// What another processor does just before it could know that the ring is urgent.
    before_urgent: RefCell<Option<Before>>,
}

type Before = Box<dyn FnOnce(&Receives)>;

type World = rings::World<Receives>;

impl Context<Rc<Spot>> for World {
    fn take_returned(&self, f: impl FnMut(usize)) {
        self.returned.take().into_iter().for_each(f);
    }
    fn set_urgent(&self, urgent: bool) {
        if let Some(before) = self.before_urgent.take().filter(|_| urgent) {
            before(self);
        }
        self.urgent.set(urgent);
    }
    fn move_out(&self, spot: &Rc<Spot>) -> bool {
        let is_moved = self.moves.get() && spot.in_ring.get();
        if is_moved {
            assert!(bytes_of(&self.own, &spot.record) == spot.came, "changed");
            spot.in_ring.set(false);
            self.moved.set(self.moved.get() + 1);
        }
        is_moved
    }
}

fn bytes_of(ram: &Ram, record: &Record) -> Vec<u8> {
    let mut bytes = vec![0; record.parts.len()];
    record.parts.read(ram, 0, &mut bytes).expect("inside");
    bytes
}

/// Memory for frames in parts.
struct Parts {
    open: Option<Vec<u8>>,
    has_memory: Rc<Cell<bool>>,
}

impl Assembly<Ram> for Parts {
    type Whole = Vec<u8>;

    fn add(&mut self, inb: &Ram, record: &Record, step: Step) -> Result<Option<Vec<u8>>, AddError> {
        if step.first {
            self.open = None;
            if !self.has_memory.get() {
                return Err(AddError::NoMemory);
            }
            self.open = Some(Vec::new());
        }
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        open.extend_from_slice(&bytes_of(inb, record));
        Ok(step.last.then(|| self.open.take()).flatten())
    }
    fn give_back(&mut self, _whole: Vec<u8>) {}
}

/// What has been passed on.
struct Service<'a> {
    world: &'a World,
    /// Keep the next frame if that may be.
    keep: bool,
    kept: &'a RefCell<Vec<Rc<Spot>>>,
    got: RefCell<Vec<Vec<u8>>>,
    dropped: Cell<usize>,
    /// Units of frames in one record that were passed on since the epoch began.
    units: Cell<u32>,
    most_unreturned: Cell<u32>,
}

impl Service<'_> {
    /// Units of the records that were passed on, and not told to the peer.
    fn count(&self, record: &Record) {
        self.units.set(self.units.get() + units_of(record));
        let unreturned = self.units.get().saturating_sub(returned_units(self.world));
        let most = self.most_unreturned.get();
        self.most_unreturned.set(most.max(unreturned));
    }
}

impl Upper<Rc<Spot>, Vec<u8>> for Service<'_> {
    fn frame(&self, frame: &Arrived<'_>) -> Option<Rc<Spot>> {
        let came = bytes_of(&self.world.own, frame.record);
        self.got.borrow_mut().push(came.clone());
        self.count(frame.record);
        let returned = returned_units(self.world);
        let unreturned = self.units.get().saturating_sub(returned);
        self.most_unreturned
            .set(unreturned.max(self.most_unreturned.get()));
        if !(self.keep && frame.may_keep) {
            return None;
        }
        let spot = Rc::new(Spot {
            place: frame.place,
            record: *frame.record,
            came,
            in_ring: Cell::new(true),
        });
        self.kept.borrow_mut().push(spot.clone());
        Some(spot)
    }
    fn whole(&self, whole: &Vec<u8>, _is_last: bool) {
        self.got.borrow_mut().push(whole.clone());
    }
    fn no_memory(&self) {
        self.dropped.set(self.dropped.get() + 1);
    }
}

fn units_of(record: &Record) -> u32 {
    units_for((BlockHdr::SIZE + record.parts.len()) as u32)
}

/// Units that the peer has been told of.
fn returned_units(world: &World) -> u32 {
    TaggedIndex::index_of(world.peers.word(PLACE.cons), Tag::new(11, 22)).unwrap_or(0)
}

type Half = ReceivingHalf<Parts, Vec<Option<Kept<Rc<Spot>>>>>;

struct Ring {
    half: Half,
    world: World,
    has_memory: Rc<Cell<bool>>,
    kept: RefCell<Vec<Rc<Spot>>>,
    producer: Producer<16>,
    /// The frame that is being sent, and its records that have not gone.
    rest: Option<(usize, Split)>,
    frames: usize,
    /// Frames that were sent and have not been passed on.
    sent: VecDeque<usize>,
    lens: Vec<usize>,
    dropped: usize,
    /// Units that the last poll of frames in one record has left untold, at most.
    most_unreturned: u32,
}

fn places(count: usize) -> Vec<Option<Kept<Rc<Spot>>>> {
    (0..count).map(|_| None).collect()
}

fn frame(number: usize, len: usize) -> Vec<u8> {
    let head = (0..HEAD).map(|n| (n + number) as u8);
    head.chain((0..len).map(|n| (n * 7 + number) as u8))
        .collect()
}

impl Ring {
    fn new(urgent: bool) -> Ring {
        Ring::with_places(urgent, RX_HELD)
    }

    fn with_places(urgent: bool, count: usize) -> Ring {
        Ring::in_place(PLACE, urgent, count)
    }

    fn in_place(place: Place, urgent: bool, count: usize) -> Ring {
        let (tx, rx) = (Tag::new(11, 22), Tag::new(22, 11));
        let has_memory = Rc::new(Cell::new(true));
        let parts = Parts {
            open: None,
            has_memory: has_memory.clone(),
        };
        let good = place.check().expect("a good place");
        Ring {
            half: Half::new(good, tx, rx, Ringing::Level, urgent, parts, places(count)),
            world: World::new(
                4096 + place.size as usize,
                4096,
                Receives {
                    moves: Cell::new(true),
                    moved: Cell::new(0),
                    returned: RefCell::default(),
                    urgent: Cell::new(false),
                    before_urgent: RefCell::default(),
                },
            ),
            has_memory,
            kept: RefCell::default(),
            producer: Producer::new(place, rx, tx, Ringing::Level).expect("a good place"),
            rest: None,
            frames: 0,
            sent: VecDeque::new(),
            lens: Vec::new(),
            dropped: 0,
            most_unreturned: 0,
        }
    }

    /// Write one record; `false` if there is no room for it.
    fn put(&mut self, number: usize, chunk: &Chunk) -> bool {
        let (own, peers) = (&self.world.own, &self.world.peers);
        let slot = match self.producer.reserve(peers, chunk.hdr.buffer_len) {
            Ok(slot) => slot,
            Err(ReserveError::Full) => return false,
            Err(e) => panic!("an honest receiver: {e:?}"),
        };
        let bytes = frame(number, self.lens[number]);
        let (head, data) = bytes.split_at(HEAD);
        let from = chunk.data_off as usize;
        let data = &data[from..from + chunk.data_len as usize];
        let mut record = slot.header(&chunk.hdr).to_vec();
        if chunk.hdr.hdr_len != 0 {
            record.extend_from_slice(head);
        }
        record.extend_from_slice(data);
        slot.write(own, 0, &record).expect("inside");
        self.producer.commit(slot);
        true
    }

    /// Send what fits of the rest, and then of a frame of `len` bytes; whether all has gone.
    fn send(&mut self, len: usize) -> bool {
        if self.rest.is_none() {
            let cap = self.producer.record_cap();
            let split = Split::new(HEAD as u32, len as u32, cap).expect("not too long");
            self.lens.push(len);
            self.rest = Some((self.frames, split));
            self.frames += 1;
        }
        let (number, mut rest) = self.rest.take().expect("there is one");
        loop {
            let before = rest.clone();
            let Some(chunk) = rest.next() else {
                self.sent.push_back(number);
                break;
            };
            if !self.put(number, &chunk) {
                self.rest = Some((number, before));
                break;
            }
        }
        let published = self.producer.publish(&self.world.own, &self.world.peers);
        published.expect("inside");
        self.rest.is_none()
    }

    /// Receive up to `budget` records, and keep frames if `keep`; how many records there were.
    fn receive(&mut self, budget: u32, keep: bool) -> u32 {
        let service = Service {
            world: &self.world,
            keep,
            kept: &self.kept,
            got: RefCell::default(),
            dropped: Cell::new(0),
            units: Cell::new(returned_units(&self.world)),
            most_unreturned: Cell::new(0),
        };
        let before = self.world.moved.get();
        let done = self.half.receive(&self.world, &service, budget);
        let moved = self.world.moved.get() - before;
        assert!(moved <= MOVED_AT_ONCE, "in one critical section");
        self.most_unreturned = service.most_unreturned.get();
        self.dropped += service.dropped.get();
        let got = service.got.take();
        for bytes in got {
            let number = self.sent.pop_front().expect("was sent");
            assert!(
                bytes == frame(number, self.lens[number]),
                "not what was sent"
            );
        }
        done
    }

    /// A heartbeat: one record is moved out with each call, and the lock is free between them.
    fn age(&mut self) {
        loop {
            let before = self.world.moved.get();
            let more = self.half.age(&self.world);
            let moved = self.world.moved.get() - before;
            assert!(moved <= MOVED_AT_ONCE, "in one critical section");
            if !more {
                return;
            }
            assert_eq!(moved, 1);
        }
    }

    /// Give back the record that is kept at `pick`.
    fn give_back(&mut self, pick: usize) {
        let mut kept = self.kept.borrow_mut();
        if kept.is_empty() {
            return;
        }
        let pick = pick % kept.len();
        let spot = kept.swap_remove(pick);
        if spot.in_ring.replace(false) {
            assert!(
                bytes_of(&self.world.own, &spot.record) == spot.came,
                "changed"
            );
            self.world.returned.borrow_mut().push(spot.place);
        }
    }

    /// A poll that was asked for receives or releases something, or makes room.
    fn poll_for_something(&mut self) {
        let held = self.half.unreturned_units();
        let done = self.receive(64, false);
        assert!(done > 0 || self.half.unreturned_units() < held, "in vain");
    }

    /// What is kept in the ring is as it came.
    fn check(&self) {
        assert_eq!(self.world.corrupt.get(), None);
        for spot in self.kept.borrow().iter().filter(|spot| spot.in_ring.get()) {
            assert!(
                bytes_of(&self.world.own, &spot.record) == spot.came,
                "changed"
            );
        }
    }

    fn step(&mut self, (what, how): (u8, u16)) {
        match what {
            0..=2 => {
                let _ = self.send(usize::from(how) % [60, 900, 12_000][usize::from(what)]);
            }
            3 | 4 => {
                self.receive(u32::from(how) % 16, what == 4);
            }
            5 => self.give_back(usize::from(how)),
            6 => self.age(),
            7 => {
                if self.half.arm(&self.world) {
                    self.poll_for_something();
                }
            }
            8 => self.half.mute(&self.world),
            _ => self.world.moves.set(how % 4 != 0),
        }
        self.check();
    }

    /// Give everything back, and receive all that was sent.
    fn drain(&mut self) {
        self.world.moves.set(true);
        for _ in 0..100 {
            while !self.kept.borrow().is_empty() {
                self.give_back(0);
            }
            if self.rest.is_some() {
                self.send(0);
            }
            self.receive(64, false);
        }
        assert!(self.sent.is_empty() && self.rest.is_none());
        assert_eq!(self.half.unreturned_units(), 0);
        let free = self.producer.refresh(&self.world.peers);
        assert_eq!(free, Ok(self.producer.units()), "all of the ring is back");
    }
}

fn steps() -> impl Strategy<Value = Vec<(u8, u16)>> {
    prop::collection::vec((0u8..10, any::<u16>()), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn frames_are_passed_on_once_in_order_and_whole(steps in steps()) {
        let mut ring = Ring::new(false);
        for step in steps {
            ring.step(step);
        }
        ring.drain();
        prop_assert_eq!(ring.dropped, 0);
    }

    #[test]
    fn after_the_end_of_the_epoch_nothing_is_read_or_written(steps in steps()) {
        let mut ring = Ring::new(false);
        for step in steps {
            ring.step(step);
        }
        ring.world.is_open.set(false);
        let peers = ring.world.peers.0.borrow().clone();
        let (bells, sleeps, moved) =
            (ring.world.bells.get(), ring.world.sleeps.get(), ring.world.moved.get());
        // The memory may be another epoch's by now.
        ring.world.own.0.borrow_mut().fill(0xff);
        prop_assert_eq!(ring.receive(64, false), 0);
        prop_assert!(!ring.half.age(&ring.world));
        prop_assert!(!ring.half.arm(&ring.world));
        ring.half.mute(&ring.world);
        let is_same = *ring.world.peers.0.borrow() == peers;
        prop_assert!(is_same, "nothing is written in the next epoch");
        prop_assert_eq!(ring.world.bells.get(), bells);
        prop_assert_eq!(ring.world.sleeps.get(), sleeps);
        prop_assert_eq!(ring.world.moved.get(), moved);
        prop_assert_eq!(ring.world.corrupt.get(), None);
    }

    #[test]
    fn nothing_of_an_urgent_half_is_kept(lens in prop::collection::vec(0usize..900, 1..100)) {
        let mut ring = Ring::new(true);
        for len in lens {
            ring.send(len);
            ring.receive(64, true);
            prop_assert!(ring.kept.borrow().is_empty());
        }
        ring.drain();
    }
}

/// Without memory to move records to, a ring of which all is kept stops, and goes on when something
/// is given back; with it, it never stops.
#[test]
fn a_ring_stops_only_for_lack_of_memory() {
    let mut ring = Ring::new(false);
    ring.world.moves.set(false);
    for _ in 0..200 {
        ring.send(500);
        ring.receive(64, true);
    }
    let kept = ring.kept.borrow().len();
    assert!(kept > 1, "some are kept");
    assert!(ring.producer.free_units() < ring.producer.units() / 2);
    assert!(ring.world.urgent.get(), "what is given back is needed");
    assert!(!ring.send(4000), "the ring has stopped");
    ring.check();
    ring.world.moves.set(true);
    ring.receive(64, true);
    assert!(ring.world.moved.get() > 0);
    for _ in 0..200 {
        let has_gone = ring.send(500);
        ring.receive(64, true);
        assert!(has_gone || ring.send(0), "the ring has stopped");
    }
    ring.drain();
}

/// More records than places for those that are held: none is overwritten, those that came later stay
/// in the ring, and nobody polls for what cannot be taken.
#[test]
fn no_more_records_are_held_than_there_are_places() {
    let large = Place {
        size: 1 << 16,
        ..PLACE
    };
    let mut ring = Ring::in_place(large, false, RX_HELD);
    ring.world.moves.set(false);
    // The oldest one stays; those behind it are released, and held by it.
    ring.send(0);
    ring.receive(1, true);
    assert_eq!(ring.kept.borrow().len(), 1);
    let mut taken = 1;
    for _ in 0..RX_HELD + 10 {
        assert!(ring.send(0));
        taken += ring.receive(64, false) as usize;
    }
    assert_eq!(taken, RX_HELD);
    assert!(ring.half.unread_units(&ring.world.own) > 0);
    assert!(!ring.half.is_ready(&ring.world.own));
    assert!(!ring.half.arm(&ring.world));
    assert!(!ring.half.is_overdue(&ring.world.own));
    assert!(ring.world.urgent.get(), "what is given back is needed");
    ring.check();
    ring.give_back(0);
    assert_eq!(ring.receive(64, false), 11);
    ring.drain();
}

/// A ring of which so much is kept that it becomes urgent; `before` is what another processor does
/// just before it could know that.
fn becomes_urgent(before: impl FnOnce(&Receives) + 'static) -> Ring {
    let mut ring = Ring::new(false);
    ring.world.moves.set(false);
    *ring.world.before_urgent.borrow_mut() = Some(Box::new(before));
    for _ in 0..3 {
        assert!(ring.send(1500));
    }
    assert_eq!(ring.receive(3, true), 3);
    assert!(ring.world.urgent.get());
    ring
}

/// A record that is given back while the ring becomes urgent is released by the same poll: nobody
/// asks for another one.
#[test]
fn what_is_given_back_too_early_to_be_urgent_is_released() {
    let mut ring = becomes_urgent(|world| world.returned.borrow_mut().extend([0, 1]));
    assert_eq!(ring.half.unreturned_units(), 0);
    ring.kept.borrow_mut().clear();
    ring.drain();
}

/// The same where the end of a copy lets the oldest record be moved out.
#[test]
fn what_can_be_moved_too_early_to_be_urgent_is_moved() {
    let mut ring = becomes_urgent(|world| world.moves.set(true));
    assert!(ring.world.moved.get() > 0);
    assert!(ring.half.unreturned_units() <= ring.half.units() / 2);
    ring.drain();
}

/// A ring of which half of the places are kept, and 20 more records are held. There is memory to
/// move them only since the last poll, which has moved out as many as it may.
fn with_many_in_the_way() -> Ring {
    let large = Place {
        size: 1 << 16,
        ..PLACE
    };
    let mut ring = Ring::in_place(large, false, RX_HELD);
    ring.world.moves.set(false);
    for _ in 0..RX_HELD / 2 {
        assert!(ring.send(0));
        assert_eq!(ring.receive(1, true), 1);
    }
    for _ in 0..20 {
        assert!(ring.send(0));
        assert_eq!(ring.receive(1, false), 1);
    }
    assert!(!ring.half.arm(&ring.world), "no memory, no poll");
    ring.world.moves.set(true);
    assert_eq!(ring.receive(64, false), 0);
    assert_eq!(ring.world.moved.get(), MOVED_AT_ONCE);
    ring
}

/// Many records are in the way at once: a poll moves out a few, and others follow until half of the
/// places are free, though nothing arrives.
#[test]
fn polls_follow_until_there_is_room() {
    let mut ring = with_many_in_the_way();
    let mut polls = 1;
    while ring.half.arm(&ring.world) {
        assert_eq!(ring.receive(64, false), 0);
        polls += 1;
    }
    assert_eq!(ring.world.moved.get(), 20);
    assert_eq!(polls, 3);
    ring.drain();
}

/// None follows once all that was in the way has been given back.
#[test]
fn no_poll_follows_for_what_was_given_back() {
    let mut ring = with_many_in_the_way();
    while !ring.kept.borrow().is_empty() {
        ring.give_back(0);
    }
    assert!(ring.half.arm(&ring.world));
    ring.poll_for_something();
    assert_eq!(ring.half.unreturned_units(), 0);
    assert!(!ring.half.arm(&ring.world));
    ring.send(0);
    assert_eq!(ring.receive(64, false), 1);
    assert!(!ring.half.arm(&ring.world));
    ring.drain();
}

/// What was there at the last heartbeat is moved out, and nothing else.
#[test]
fn what_is_kept_for_long_is_moved_out() {
    let mut ring = Ring::new(false);
    ring.send(100);
    ring.receive(1, true);
    ring.age();
    ring.send(100);
    ring.receive(1, true);
    assert_eq!(ring.world.moved.get(), 0);
    assert_eq!(ring.kept.borrow().len(), 2);
    ring.age();
    assert_eq!(ring.world.moved.get(), 1);
    assert!(!ring.kept.borrow()[0].in_ring.get(), "the older one");
    ring.age();
    assert_eq!(ring.world.moved.get(), 2);
    assert_eq!(ring.half.unreturned_units(), 0, "the peer may use them");
    ring.drain();
}

/// A frame that is given back is released by the next poll, whoever else is kept.
#[test]
fn what_is_given_back_is_released() {
    let mut ring = Ring::new(false);
    ring.world.moves.set(false);
    for _ in 0..3 {
        ring.send(100);
        ring.receive(1, true);
    }
    let before = ring.half.unreturned_units();
    ring.give_back(0);
    ring.receive(0, false);
    assert!(ring.half.unreturned_units() < before);
    assert_eq!(ring.kept.borrow().len(), 2);
    ring.drain();
}

/// The peer is told within a poll: what it waits for is not late by all of the ring.
#[test]
fn the_peer_is_told_within_a_poll() {
    let mut ring = Ring::new(false);
    while ring.send(500) {}
    ring.receive(64, false);
    let record = units_for((BlockHdr::SIZE + HEAD + 500) as u32);
    assert!(ring.most_unreturned > record, "several at a time");
    assert!(ring.most_unreturned <= ring.half.units() / 4 + 2 * record);
    ring.drain();
}

/// A peer that has asked for room is woken when there is some, once; one that has not is not.
#[test]
fn a_peer_that_waits_for_room_is_woken() {
    let mut ring = Ring::new(false);
    while ring.send(500) {}
    ring.receive(2, false);
    assert_eq!(ring.world.bells.get(), 0, "nobody has asked");
    while ring.send(500) {}
    let (own, peers) = (&ring.world.own, &ring.world.peers);
    let bytes = ring.producer.record_cap();
    let armed = ring.producer.arm_space(own, peers, bytes);
    assert_eq!(armed, Ok(Armed::Asleep));
    ring.receive(64, false);
    assert_eq!(ring.world.bells.get(), 1);
    ring.drain();
}

/// The layer above, as it ends the epoch.
struct Ends<'a>(&'a World);

impl Upper<Rc<Spot>, Vec<u8>> for Ends<'_> {
    fn frame(&self, _frame: &Arrived<'_>) -> Option<Rc<Spot>> {
        self.0.is_open.set(false);
        None
    }

    fn whole(&self, _whole: &Vec<u8>, _is_last: bool) {
        unreachable!("a frame in one record");
    }

    fn no_memory(&self) {
        unreachable!("a frame in one record");
    }
}

/// An epoch may end while a frame is passed on: nothing is told to the peer then, however much was
/// consumed.
#[test]
fn nothing_is_written_once_the_layer_above_has_ended_the_epoch() {
    let mut ring = Ring::new(false);
    assert!(
        ring.send(3000),
        "in one record, of more than a quarter of the ring"
    );
    let before = ring.world.peers.word(PLACE.cons);
    assert!(ring.half.receive_one(&ring.world, &Ends(&ring.world)));
    ring.half.end_poll(&ring.world);
    assert_eq!(ring.world.peers.word(PLACE.cons), before);
}

/// What a poll takes of rings that have so many records, control and data, and how many it says.
fn polled(queue: u16, budget: u32, mut there: [u32; 2]) -> ([u32; 2], u32) {
    let mut taken = [0; 2];
    let done = poll_queue(queue, budget, |ring, most| {
        let number = ring.min(1) as usize;
        let count = there[number].min(most);
        there[number] -= count;
        taken[number] += count;
        count
    });
    (taken, done)
}

/// Of a poll that finds control frames without end, data gets a share; none of them leaves anything
/// unused while the other one has more.
#[test]
fn control_frames_leave_a_share_of_a_poll_to_data() {
    assert_eq!(polled(0, 64, [100, 100]), ([48, 16], 64));
    for budget in 1..=64 {
        let ([control, data], done) = polled(0, budget, [100, 100]);
        assert!(control > budget / 2, "what is urgent goes first");
        assert!(control < budget || budget < 4);
        assert_eq!((control + data, done), (budget, budget));
        assert_eq!(polled(0, budget, [100, 0]), ([budget, 0], budget));
        assert_eq!(polled(0, budget, [0, 100]), ([0, budget], budget));
        assert_eq!(polled(3, budget, [100, 100]), ([0, budget], budget));
    }
    assert_eq!(polled(0, 64, [50, 3]), ([50, 3], 53));
    assert_eq!(polled(0, 64, [3, 5]), ([3, 5], 8));
}

/// A half without room for names keeps nothing, and loses nothing.
#[test]
fn without_places_nothing_is_kept() {
    let mut ring = Ring::with_places(false, RX_HELD - 1);
    for _ in 0..100 {
        ring.send(300);
        ring.receive(64, true);
        assert!(ring.kept.borrow().is_empty());
    }
    ring.drain();
}

/// A frame in parts for which there is no memory is dropped, once; those behind it arrive.
#[test]
fn a_frame_without_memory_is_dropped() {
    let mut ring = Ring::new(false);
    ring.has_memory.set(false);
    assert!(!ring.send(10_000), "it takes several records");
    ring.receive(64, false);
    ring.has_memory.set(true);
    while ring.rest.is_some() {
        ring.send(0);
        ring.receive(64, false);
    }
    assert_eq!(ring.dropped, 1);
    assert_eq!(ring.sent.pop_front(), Some(0), "it was not passed on");
    ring.send(10_000);
    ring.drain();
    assert_eq!(ring.dropped, 1);
}

/// A side that asks for a doorbell sleeps only if there is nothing.
#[test]
fn who_sleeps_has_nothing_to_take() {
    let mut ring = Ring::new(false);
    assert!(!ring.half.arm(&ring.world));
    assert_eq!(ring.world.sleeps.get(), 1);
    ring.send(10);
    assert!(ring.half.is_overdue(&ring.world.own));
    assert!(ring.half.arm(&ring.world), "there is one");
    ring.receive(1, false);
    assert!(!ring.half.is_overdue(&ring.world.own));
    ring.half.mute(&ring.world);
    ring.send(10);
    assert!(!ring.half.is_overdue(&ring.world.own), "it does not sleep");
    ring.drain();
}

/// A peer that writes what cannot be ends the epoch, and nothing of that is passed on.
#[test]
fn what_cannot_be_is_reported() {
    let mut ring = Ring::new(false);
    ring.send(100);
    ring.world.own.set_word(PLACE.data, u64::MAX);
    assert_eq!(ring.receive(64, false), 0);
    assert!(ring.world.corrupt.get().is_some());
    assert_eq!(ring.sent.len(), 1, "nothing was passed on");

    let mut ring = Ring::new(false);
    // The second record of a frame whose first one is missing.
    let cap = ring.producer.record_cap();
    let mut split = Split::new(HEAD as u32, 10_000, cap).expect("not too long");
    ring.lens.push(10_000);
    split.next();
    let second = split.next().expect("several records");
    assert!(ring.put(0, &second));
    let published = ring.producer.publish(&ring.world.own, &ring.world.peers);
    published.expect("inside");
    ring.receive(64, false);
    assert_eq!(ring.world.corrupt.get(), Some(Corrupt::Sequence));
}
