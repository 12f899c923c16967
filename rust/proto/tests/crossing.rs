// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Wake-ups over a bridge with posted writes: an index and an event index may cross on the way.
//! All orders in which two sides act and their stores arrive are tried.
//!
//! Stores of one side arrive in order, doorbells among them, at any time. They are looked for
//! before each load. What no order here shows does not happen on a bridge that delays writes for
//! as long as it likes.
//!
//! Each property has a twin for which it does not hold, and which has to fail.

mod common;

use std::cell::RefCell;
use std::collections::VecDeque;

use common::Ram;
use mp_proto::memory::{Inbound, OutOfBounds, Outbound};
use mp_proto::ring::{record_cap, Armed, Consumer, Place, Producer, Ringing};
use mp_proto::wire::{BlockHdr, Tag};

const RING: u32 = 4096;
const PLACE: Place = Place {
    data: 4096,
    size: RING,
    prod: 0,
    want_space: 8,
    cons: 64,
    want_data: 72,
};
/// Actions of both sides together.
const STEPS: usize = 8;
/// Publications among them: one record of four is left for the end.
const PUBLICATIONS: usize = 3;

/// The decisions of a run, each with the number of its alternatives.
#[derive(Default)]
struct Choices {
    made: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    fn pick(&mut self, of: usize) -> usize {
        if self.at == self.made.len() {
            self.made.push((0, of));
        }
        self.at += 1;
        self.made[self.at - 1].0
    }

    /// Decide otherwise in the next run; `false` if all has been tried.
    fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, of)) = self.made.pop() {
            if choice + 1 < of {
                self.made.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

/// Something on its way.
enum Posted {
    Word(usize, u64),
    Bell,
}

/// From one side to the other: what is under way, and how many have been posted and have arrived.
#[derive(Default)]
struct Way {
    under_way: VecDeque<Posted>,
    posted: usize,
    arrived: usize,
}

/// When a side that has gone to sleep looks once more: as early as it may.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    None,
    /// Once its event index, the store with that number, has arrived.
    There(usize),
    /// Once what had been posted until then has arrived as well.
    Back(usize),
    /// It has looked, and something was there or not.
    Done(bool),
}

const SLEEPER: usize = 0;
const WAKER: usize = 1;

/// Both memories and the ways to them, by the side that reads.
struct Bridge {
    ram: [Ram; 2],
    ways: RefCell<[Way; 2]>,
    choices: RefCell<Choices>,
    look: RefCell<Look>,
    bell: RefCell<bool>,
    /// The word that wakes, and what it was when the sleeper went to sleep.
    index: usize,
    known: RefCell<u64>,
}

impl Bridge {
    fn post(&self, to: usize, what: Posted) {
        let way = &mut self.ways.borrow_mut()[to];
        way.under_way.push_back(what);
        way.posted += 1;
    }

    /// Up to `count` stores arrive.
    fn arrive(&self, to: usize, count: usize) {
        for _ in 0..count {
            let next = self.ways.borrow_mut()[to].under_way.pop_front();
            match next {
                Some(Posted::Word(at, word)) => self.ram[to].set_word(at, word),
                Some(Posted::Bell) => *self.bell.borrow_mut() = true,
                None => return,
            }
            self.ways.borrow_mut()[to].arrived += 1;
            self.follow();
        }
    }

    /// Look once more if it is time.
    fn follow(&self) {
        let ways = self.ways.borrow();
        let mut look = self.look.borrow_mut();
        if matches!(*look, Look::There(at) if ways[WAKER].arrived >= at) {
            *look = Look::Back(ways[SLEEPER].posted);
        }
        if matches!(*look, Look::Back(at) if ways[SLEEPER].arrived >= at) {
            let now = self.ram[SLEEPER].load_u64(self.index).expect("inside");
            *look = Look::Done(now != *self.known.borrow());
        }
    }

    fn all_arrive(&self) {
        self.arrive(WAKER, usize::MAX);
        self.arrive(SLEEPER, usize::MAX);
    }

    fn view(&self, side: usize) -> View<'_> {
        View { bridge: self, side }
    }

    fn pick(&self, of: usize) -> usize {
        self.choices.borrow_mut().pick(of)
    }
}

/// What `side` reads, or what the other side writes to it.
struct View<'a> {
    bridge: &'a Bridge,
    side: usize,
}

impl Inbound for View<'_> {
    fn size(&self) -> usize {
        Inbound::size(&self.bridge.ram[self.side])
    }
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        let under_way = self.bridge.ways.borrow()[self.side].under_way.len();
        let count = self.bridge.pick(under_way + 1);
        self.bridge.arrive(self.side, count);
        self.bridge.ram[self.side].load_u64(off)
    }
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        self.bridge.ram[self.side].read(off, buf)
    }
    fn zero(&self, _: usize, _: usize) -> Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }
    fn rmb(&self) {}
}

impl Outbound for View<'_> {
    fn size(&self) -> usize {
        Inbound::size(&self.bridge.ram[self.side])
    }
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        self.bridge.post(self.side, Posted::Word(off, val));
        Ok(())
    }
    /// Records are there before their index in any case.
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        Outbound::write(&self.bridge.ram[self.side], off, buf)
    }
    fn wmb(&self) {}
    fn release(&self) {}
    fn mb(&self) {}
}

/// What a run is to show.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    /// Both fall silent; there was a second look or not.
    Silent { looks: bool },
    /// Everything arrives, and the waker publishes once more.
    OneMore,
}

/// One side that publishes, and one that sleeps until it does.
trait Pair {
    const INDEX: usize;
    fn new(ringing: Ringing, bridge: &Bridge) -> Self;
    /// Publish more, if it has more; whether to ring.
    fn publish(&mut self, bridge: &Bridge) -> bool;
    /// Take what is there and go to sleep, if it may.
    fn sleep(&mut self, bridge: &Bridge) -> Armed;
    /// Whether the sleeper has something to do, after all has arrived.
    fn has_news(&mut self, bridge: &Bridge) -> bool;
}

fn tags() -> (Tag, Tag) {
    (Tag::new(1, 2), Tag::new(2, 1))
}

/// Publish records of one unit.
fn send(tx: &mut Producer<8>, to: &View<'_>, own: &View<'_>, bytes: u32) -> bool {
    let Ok(slot) = tx.reserve(own, bytes) else {
        return false;
    };
    let hdr = BlockHdr {
        buffer_len: bytes,
        hdr_len: 16,
        len: bytes - 32,
        mark: 0,
    };
    slot.write(to, 0, &slot.header(&hdr)).expect("inside");
    tx.commit(slot);
    tx.publish(to, own).expect("inside")
}

fn take(rx: &mut Consumer<8>, own: &View<'_>) -> bool {
    let Some(record) = rx.next(own).expect("honest") else {
        return false;
    };
    rx.release(record.token)
}

/// A consumer that sleeps until there is a record.
struct Data(Producer<8>, Consumer<8>);

impl Pair for Data {
    const INDEX: usize = PLACE.prod;

    fn new(ringing: Ringing, _: &Bridge) -> Self {
        let (tx, rx) = tags();
        Data(
            Producer::new(PLACE, tx, rx, ringing).expect("good place"),
            Consumer::new(PLACE, rx, tx, ringing).expect("good place"),
        )
    }

    fn publish(&mut self, bridge: &Bridge) -> bool {
        send(&mut self.0, &bridge.view(SLEEPER), &bridge.view(WAKER), 64)
    }

    fn sleep(&mut self, bridge: &Bridge) -> Armed {
        let (own, to) = (bridge.view(SLEEPER), bridge.view(WAKER));
        while take(&mut self.1, &own) {}
        self.1.arm_data(&to, &own).expect("honest")
    }

    fn has_news(&mut self, bridge: &Bridge) -> bool {
        self.1.is_overdue(&bridge.view(SLEEPER))
    }
}

/// A producer with a full ring that sleeps until there is space.
struct Space(Producer<8>, Consumer<8>);

impl Pair for Space {
    const INDEX: usize = PLACE.cons;

    fn new(ringing: Ringing, bridge: &Bridge) -> Self {
        let Data(mut producer, consumer) = Data::new(ringing, bridge);
        // All that it waits for is there from the start.
        let plain = (&bridge.ram[WAKER], &bridge.ram[SLEEPER]);
        for _ in 0..4 {
            let slot = producer
                .reserve(plain.1, record_cap(RING) / 2)
                .expect("space");
            let hdr = BlockHdr {
                buffer_len: record_cap(RING) / 2,
                hdr_len: 16,
                len: record_cap(RING) / 2 - 32,
                mark: 0,
            };
            let header = slot.header(&hdr);
            slot.write(plain.0, 0, &header).expect("inside");
            producer.commit(slot);
        }
        producer.publish(plain.0, plain.1).expect("inside");
        Space(producer, consumer)
    }

    fn publish(&mut self, bridge: &Bridge) -> bool {
        let (own, to) = (bridge.view(WAKER), bridge.view(SLEEPER));
        take(&mut self.1, &own) && self.1.publish_cons(&to, &own).expect("inside")
    }

    /// Sleep until one record more has been given back than it knows of.
    fn sleep(&mut self, bridge: &Bridge) -> Armed {
        let (own, to) = (bridge.view(SLEEPER), bridge.view(WAKER));
        let free = self.0.refresh(&own).expect("honest");
        let more = 64 * (free + 1);
        self.0.arm_space(&to, &own, more.min(RING)).expect("honest")
    }

    fn has_news(&mut self, bridge: &Bridge) -> bool {
        self.0.is_overdue(&bridge.view(SLEEPER))
    }
}

/// One run.
fn run<P: Pair>(ringing: Ringing, ends: Ends, choices: Choices) -> Choices {
    let bridge = Bridge {
        ram: [8192, 8192].map(Ram::new),
        ways: Default::default(),
        choices: RefCell::new(choices),
        look: RefCell::new(Look::None),
        bell: RefCell::new(false),
        index: P::INDEX,
        known: RefCell::new(0),
    };
    let mut pair = P::new(ringing, &bridge);
    let (mut asleep, mut published) = (false, 0);
    for _ in 0..STEPS {
        if published < PUBLICATIONS && bridge.pick(2) == 0 {
            published += 1;
            if pair.publish(&bridge) {
                bridge.post(SLEEPER, Posted::Bell);
            }
            continue;
        }
        if asleep && !bridge.bell.replace(false) {
            continue;
        }
        let armed = pair.sleep(&bridge);
        asleep = armed != Armed::Ready;
        if armed == Armed::Asleep {
            let known = bridge.ram[SLEEPER].load_u64(P::INDEX);
            *bridge.known.borrow_mut() = known.expect("inside");
            let event = bridge.ways.borrow()[WAKER].posted;
            *bridge.look.borrow_mut() = Look::There(event);
            bridge.follow();
        }
    }
    bridge.all_arrive();
    if ends == Ends::OneMore {
        if pair.publish(&bridge) {
            bridge.post(SLEEPER, Posted::Bell);
        }
        bridge.all_arrive();
    }
    let looks = ends == Ends::Silent { looks: true };
    let has_seen = looks && *bridge.look.borrow() == Look::Done(true);
    if asleep && !has_seen && !*bridge.bell.borrow() {
        assert!(
            !pair.has_news(&bridge),
            "it sleeps, there is news and nobody rang"
        );
    }
    bridge.choices.into_inner()
}

fn explore<P: Pair>(ringing: Ringing, ends: Ends) {
    let mut choices = Choices::default();
    let mut runs = 0;
    loop {
        choices = run::<P>(ringing, ends, choices);
        runs += 1;
        if !choices.advance() {
            break;
        }
    }
    println!("{runs} runs");
    assert!(runs > 1000);
}

const LOOKS: Ends = Ends::Silent { looks: true };
const BLIND: Ends = Ends::Silent { looks: false };

/// design 4.7, 8: an event index that came late is met by the next publication
#[test]
fn the_next_record_wakes_a_consumer_whatever_has_crossed() {
    explore::<Data>(Ringing::Level, Ends::OneMore);
}

#[test]
#[should_panic(expected = "nobody rang")]
fn with_edges_a_consumer_sleeps_on_whatever_is_published() {
    explore::<Data>(Ringing::Edge, Ends::OneMore);
}

/// design 4.7, 8
#[test]
fn the_next_space_wakes_a_producer_whatever_has_crossed() {
    explore::<Space>(Ringing::Level, Ends::OneMore);
}

#[test]
#[should_panic(expected = "nobody rang")]
fn with_edges_a_producer_sleeps_on_whatever_is_given_back() {
    explore::<Space>(Ringing::Edge, Ends::OneMore);
}

/// design 4.7, 8: the last publication before a silence
#[test]
fn a_second_look_finds_the_record_that_has_crossed() {
    explore::<Data>(Ringing::Level, LOOKS);
}

#[test]
#[should_panic(expected = "nobody rang")]
fn without_a_second_look_the_last_record_is_not_seen() {
    explore::<Data>(Ringing::Level, BLIND);
}

/// design 4.7, 8
#[test]
fn a_second_look_finds_the_space_that_has_crossed() {
    explore::<Space>(Ringing::Level, LOOKS);
}

#[test]
#[should_panic(expected = "nobody rang")]
fn without_a_second_look_the_last_space_is_not_seen() {
    explore::<Space>(Ringing::Level, BLIND);
}
