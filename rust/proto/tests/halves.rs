// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Both halves of a ring, over one pair of memories: a sender that waits for room is woken, whatever
//! the receiver keeps, as long as it has memory to move that to.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use common::rings::{self, PLACE};
use common::Ram;
use mp_proto::memory::OutOfBounds;
use mp_proto::receiving::{self, AddError, Arrived, Assembly, Kept, ReceivingHalf, Upper, RX_HELD};
use mp_proto::ring::{Chunk, Place, Record, Ringing, Slot, Step, UNIT};
use mp_proto::sending::{self, Copies, Payload, Pending, SendError, SendingHalf};
use mp_proto::wire::{BlockHdr, Envelope, MsgHdr, PeerId, Tag};
use proptest::prelude::*;

/// Units of the ring.
const UNITS: u32 = 512;

const LARGE: Place = Place {
    size: UNITS * UNIT,
    ..PLACE
};

/// A frame of so many bytes of data, all zero.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Zeros(u32);

impl Payload for Zeros {
    type Error = OutOfBounds;
    const OUTSIDE: OutOfBounds = OutOfBounds;

    fn func_hdr(&self) -> &[u8] {
        &[]
    }
    fn data_len(&self) -> u32 {
        self.0
    }
    fn failed(&self, _why: SendError<OutOfBounds>) {}
}

impl Zeros {
    /// A frame of `units` units.
    fn of(units: u32) -> Zeros {
        Zeros(units * UNIT - (BlockHdr::SIZE + MsgHdr::SIZE) as u32)
    }

    fn head(self) -> Envelope {
        Envelope::from(MsgHdr {
            dst: PeerId::from_bdf(2, 0, 0),
            src: PeerId::from_bdf(1, 0, 0),
            len: self.0,
            func: 7,
        })
    }
}

/// Nobody copies records.
enum NoCopies {}

impl Copies<Zeros> for NoCopies {
    fn is_empty(&self) -> bool {
        match *self {}
    }
    fn take_reported(&mut self) -> Option<(Pending<Zeros>, bool)> {
        match *self {}
    }
    fn abandon(&mut self) {
        match *self {}
    }
}

/// What the sending half is given besides: nothing.
struct Sends;

impl sending::Context<Zeros> for rings::World<Sends> {
    type Copies = NoCopies;

    fn write_data(&self, _: &Slot, _: &Chunk, _: usize, _: &Zeros) -> Result<(), OutOfBounds> {
        Ok(())
    }
    fn wants_copy(&self, _len: u32) -> bool {
        false
    }
    fn start_copy(
        &self,
        copies: &mut NoCopies,
        _record: Pending<Zeros>,
    ) -> Result<(), Pending<Zeros>> {
        match *copies {}
    }
    fn copy_ended(&self, _len: u32, _copied: bool) {}
    fn ring_full(&self) {}
    fn unreadable(&self) {
        unreachable!("the data is there");
    }
}

/// A record that is kept: its place, while its data is in the ring.
type Spot = Rc<Cell<Option<usize>>>;

/// What the receiving half is given besides.
#[derive(Default)]
struct Receives {
    returned: RefCell<Vec<usize>>,
    urgent: Cell<bool>,
}

impl receiving::Context<Spot> for rings::World<Receives> {
    fn take_returned(&self, f: impl FnMut(usize)) {
        self.returned.take().into_iter().for_each(f);
    }
    fn set_urgent(&self, urgent: bool) {
        self.urgent.set(urgent);
    }
    fn move_out(&self, spot: &Spot) -> bool {
        spot.take().is_some()
    }
}

/// Counts the bytes of frames in parts.
#[derive(Default)]
struct Lengths(u32);

impl Assembly<Ram> for Lengths {
    type Whole = u32;

    fn add(&mut self, _: &Ram, record: &Record, step: Step) -> Result<Option<u32>, AddError> {
        self.0 = record.data_len + if step.first { 0 } else { self.0 };
        Ok(step.last.then_some(self.0))
    }
    fn give_back(&mut self, _whole: u32) {}
}

/// The layer above the receiver.
struct Service<'a> {
    keep: bool,
    kept: &'a RefCell<Vec<Spot>>,
    frames: &'a Cell<u32>,
}

impl Upper<Spot, u32> for Service<'_> {
    fn frame(&self, frame: &Arrived<'_>) -> Option<Spot> {
        self.frames.set(self.frames.get() + 1);
        if !(self.keep && frame.may_keep) {
            return None;
        }
        let spot = Rc::new(Cell::new(Some(frame.place)));
        self.kept.borrow_mut().push(spot.clone());
        Some(spot)
    }
    fn whole(&self, _whole: &u32, _is_last: bool) {
        self.frames.set(self.frames.get() + 1);
    }
    fn no_memory(&self) {
        unreachable!("there is memory");
    }
}

struct Two {
    tx: SendingHalf<Zeros, NoCopies>,
    rx: ReceivingHalf<Lengths, Vec<Option<Kept<Spot>>>>,
    sender: rings::World<Sends>,
    receiver: rings::World<Receives>,
    kept: RefCell<Vec<Spot>>,
    /// The frame that has met a full ring.
    waits: Option<Zeros>,
    /// Doorbells that the sender has followed.
    heard: u32,
    sent: u32,
    arrived: Cell<u32>,
}

impl Two {
    fn new() -> Two {
        let (one, other) = (Tag::new(11, 22), Tag::new(22, 11));
        let level = Ringing::Level;
        let sender = rings::World::new(4096, (4096 + UNITS * UNIT) as usize, Sends);
        let mut receiver = rings::World::new(0, 0, Receives::default());
        receiver.own = sender.peers.clone();
        receiver.peers = sender.own.clone();
        let places = (0..RX_HELD).map(|_| None).collect();
        let parts = Lengths::default();
        let place = LARGE.check().expect("a good place");
        let tx = SendingHalf::new(place, one, other, level, false, None);
        let rx = ReceivingHalf::new(place, other, one, level, false, parts, places);
        Two {
            tx,
            rx,
            sender,
            receiver,
            kept: RefCell::default(),
            waits: None,
            heard: 0,
            sent: 0,
            arrived: Cell::new(0),
        }
    }

    /// Send a frame, or wait for room for it.
    fn send(&mut self, frame: Zeros) {
        // Each round sends something or waits.
        for _ in 0..16 {
            match self.tx.send(&self.sender, &frame.head(), &frame) {
                Ok(_) => {
                    self.tx.publish(&self.sender);
                    self.sent += 1;
                    return;
                }
                Err(SendError::Full) => {}
                Err(e) => panic!("an honest receiver: {e:?}"),
            }
            if !self.tx.await_room(&self.sender).now {
                self.waits = Some(frame);
                return;
            }
        }
        panic!("neither room nor a wait");
    }

    /// The receiver takes all that is there, and keeps it if `keep`; then it sleeps.
    fn receive(&mut self, keep: bool) {
        let service = Service {
            keep,
            kept: &self.kept,
            frames: &self.arrived,
        };
        loop {
            self.rx.receive(&self.receiver, &service, 64);
            if !self.rx.arm(&self.receiver) {
                return;
            }
        }
    }

    /// The receiver takes what is there, and the sender follows each doorbell.
    fn follow_bells(&mut self, keep: bool) {
        self.receive(keep);
        while self.heard != self.receiver.bells.get() {
            self.heard = self.receiver.bells.get();
            self.tx.completions(&self.sender);
            if let Some(frame) = self.waits.take() {
                self.send(frame);
            }
            self.receive(keep);
        }
    }

    /// The function gives back what it keeps at `pick`.
    fn give_back(&mut self, pick: usize) {
        let count = self.kept.borrow().len();
        if count == 0 {
            return;
        }
        let spot = self.kept.borrow_mut().swap_remove(pick % count);
        if let Some(place) = spot.take() {
            self.receiver.returned.borrow_mut().push(place);
            if self.receiver.urgent.get() {
                self.receive(false);
            }
        }
    }

    fn step(&mut self, (what, how): (u8, u16)) {
        let how = u32::from(how);
        match what {
            0..=6 if self.waits.is_some() => {}
            0..=4 => return self.send(Zeros::of(1 + how % 99)),
            5 => return self.send(Zeros::of(1 + how % (UNITS / 2))),
            6 => return self.send(Zeros(how % 50_000)),
            7 => return self.give_back(how as usize),
            8 => while self.rx.age(&self.receiver) {},
            _ => {}
        }
        self.follow_bells(how % 3 != 0);
        assert_eq!(self.receiver.corrupt.get(), None);
        assert_eq!(self.sender.corrupt.get(), None);
        let free = self.tx.refresh(&self.sender.own).expect("honest");
        assert!(free >= UNITS / 2, "the receiver holds half of the ring");
        assert!(
            self.waits.is_none(),
            "{free} units are free, and no doorbell"
        );
        assert!(!self.tx.has_partial());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_sender_that_waits_is_woken_whatever_is_kept(
        steps in prop::collection::vec((0u8..11, any::<u16>()), 1..200),
    ) {
        let mut two = Two::new();
        for step in steps {
            two.step(step);
        }
        two.step((9, 0));
        prop_assert_eq!(two.arrived.get(), two.sent);
    }
}

/// The receiver keeps less than half of the ring; the frames behind that are taken, and held by what
/// is kept, of which it moves out no more than it must.
#[test]
fn room_behind_what_is_kept_is_told() {
    let mut two = Two::new();
    for _ in 0..5 {
        two.send(Zeros::of(49));
    }
    two.receive(true);
    for _ in 0..4 {
        two.send(Zeros::of(49));
    }
    two.send(Zeros::of(193));
    assert!(two.waits.is_some(), "71 units are free");
    two.follow_bells(false);
    assert!(two.waits.is_none(), "the frame fits, and no doorbell");
}
