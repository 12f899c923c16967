// SPDX-License-Identifier: GPL-2.0-only

//! The rings of a link in one epoch. The sending halves are [`mp_proto::sending`]'s, as in the
//! kernel; the receiving halves are driven as `rust/pximc_ntb/channel.rs` does, by the same calls of
//! [`mp_proto::ring`] in the same order. Copies by a DMA engine are left out.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mp_proto::layout::{Layout, CONTROL_RING};
use mp_proto::memory::OutOfBounds;
use mp_proto::ring::{
    Armed, Chunk, Consumer, Corrupt, NextError, Reassembly, Record, Ringing, Slot, Step,
};
use mp_proto::sending::{self, Context, Copies, Payload, Pending, SendingHalf};
use mp_proto::wire::{Envelope, Priority, Tag};

use crate::dice::Dice;
use crate::wire::{Near, Window};

/// Records a consumer may hold at a time.
const RX_HELD: usize = 256;
/// See `URGENT_PART` of the kernel module.
const URGENT_PART: u32 = 4;
/// Most data bytes of a frame.
pub const MAX_FRAME: usize = 128 << 10;

/// A frame as a function makes it.
#[derive(Debug)]
pub struct Frame {
    /// The function.
    pub func: u32,
    /// Its header.
    pub func_hdr: Vec<u8>,
    /// The data.
    pub data: Vec<u8>,
    /// Which rings it takes.
    pub priority: Priority,
}

/// Why a frame was not taken.
pub type SendError = sending::SendError<OutOfBounds>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Closed,
    Faulty,
}

/// A frame as a ring sends it.
#[derive(Clone)]
struct Sent(Rc<Frame>);

impl Payload for Sent {
    type Error = OutOfBounds;
    const OUTSIDE: OutOfBounds = OutOfBounds;

    fn func_hdr(&self) -> &[u8] {
        &self.0.func_hdr
    }

    fn data_len(&self) -> u32 {
        self.0.data.len() as u32
    }

    fn failed(&self, _why: SendError) {}
}

/// Nobody copies records.
enum NoCopies {}

impl Copies<Sent> for NoCopies {
    fn is_empty(&self) -> bool {
        match *self {}
    }

    fn take_reported(&mut self) -> Option<(Pending<Sent>, bool)> {
        match *self {}
    }

    fn abandon(&mut self) {
        match *self {}
    }
}

type Tx = SendingHalf<Sent, NoCopies>;

struct Kept {
    place: usize,
    /// Its data, for the moment at which it is given back.
    record: Record,
    skip: usize,
    want: Vec<u8>,
    moved: bool,
    given_back: bool,
    old: bool,
}

struct Rx {
    consumer: Consumer<RX_HELD>,
    order: Reassembly,
    open: Option<(Vec<u8>, Vec<u8>)>,
    kept: Vec<Kept>,
    /// What is given back is to be released at once.
    urgent: bool,
}

/// What a poll found.
pub struct Received {
    /// Message header and what follows it.
    pub headers: Vec<u8>,
    /// The data.
    pub data: Vec<u8>,
    /// Nothing more is known to be in the ring.
    pub last: bool,
}

/// What the rings of a link have in common.
struct Shared {
    port: usize,
    near: Near,
    far: Window,
    state: Cell<State>,
    tainted: Cell<bool>,
    bells: Rc<RefCell<Vec<(usize, u16)>>>,
    /// Queues of which a side has gone to sleep.
    asleep: RefCell<Vec<u16>>,
}

impl Shared {
    fn is_open(&self) -> bool {
        self.state.get() == State::Open
    }

    fn give_up(&self) {
        if self.is_open() {
            self.state.set(State::Faulty);
        }
    }

    fn fail(&self, cause: Corrupt) {
        assert!(
            self.tainted.get() || !self.is_open(),
            "an honest peer was taken for a liar: {cause:?}"
        );
        self.give_up();
    }

    fn ring_bell(&self, number: usize) {
        let bell = (self.port, queue_of(number));
        self.bells.borrow_mut().push(bell);
    }

    fn asleep(&self, number: usize) {
        self.asleep.borrow_mut().push(queue_of(number));
    }
}

/// What calls of the sending half of a ring are made for.
struct On<'a> {
    shared: &'a Shared,
    number: usize,
}

impl Context<Sent> for On<'_> {
    type Inbound = Near;
    type Outbound = Window;
    type Copies = NoCopies;

    fn inbound(&self) -> &Near {
        &self.shared.near
    }

    fn outbound(&self) -> &Window {
        &self.shared.far
    }

    fn is_open(&self) -> bool {
        self.shared.is_open()
    }

    fn write_data(
        &self,
        slot: &Slot,
        chunk: &Chunk,
        at: usize,
        frame: &Sent,
    ) -> Result<(), OutOfBounds> {
        let from = chunk.data_off as usize;
        let data = &frame.0.data[from..from + chunk.data_len as usize];
        slot.write(&self.shared.far, at, data)
    }

    fn wants_copy(&self, _len: u32) -> bool {
        false
    }

    fn start_copy(
        &self,
        copies: &mut NoCopies,
        _record: Pending<Sent>,
    ) -> Result<(), Pending<Sent>> {
        match *copies {}
    }

    fn copy_ended(&self, _len: u32, _copied: bool) {}

    fn ring_bell(&self) {
        self.shared.ring_bell(self.number);
    }

    fn asleep(&self) {
        self.shared.asleep(self.number);
    }

    fn ring_full(&self) {}

    fn corrupt(&self, cause: Corrupt) {
        self.shared.fail(cause);
    }

    fn unreadable(&self) {
        unreachable!("the data of all frames is there");
    }
}

/// The rings of a link, from link-up to link-down.
pub struct Channel {
    /// The epochs of this host and of the peer.
    pub epochs: (u64, u64),
    /// Kept frames that were moved out.
    pub moved_out: u64,
    shared: Shared,
    rings: Vec<(Tx, Rx)>,
    dice: Dice,
    keeps: u64,
}

/// What a channel is made of.
pub struct Parts {
    /// The link.
    pub port: usize,
    /// The epochs of this host and of the peer.
    pub epochs: (u64, u64),
    /// The tags of what this host writes and of what it reads.
    pub tags: (Tag, Tag),
    /// When doorbells are rung.
    pub ringing: Ringing,
    /// This host's memory.
    pub near: Near,
    /// The peer's.
    pub far: Window,
    /// Where doorbells are noted.
    pub bells: Rc<RefCell<Vec<(usize, u16)>>>,
    /// Chance.
    pub dice: Dice,
    /// A function keeps one in so many frames; zero for none.
    pub keeps: u64,
    /// See [`Channel::taint`].
    pub tainted: bool,
}

impl Channel {
    /// The channel of a new epoch.
    pub fn new(parts: Parts, ours: &Layout, theirs: &Layout) -> Channel {
        let (tx, rx) = parts.tags;
        let queues = ours.queues.min(theirs.queues);
        let ring = |ring| {
            let (to, from) = (theirs.ring(ring), ours.ring(ring));
            let (to, from) = (to.expect("validated"), from.expect("planned"));
            let urgent = ring == CONTROL_RING;
            let half = Tx::new(to, tx, rx, parts.ringing, urgent, None).expect("validated");
            let other = Rx {
                consumer: Consumer::new(from, tx, rx, parts.ringing).expect("planned"),
                order: Reassembly::new(),
                open: None,
                kept: Vec::new(),
                urgent: false,
            };
            (half, other)
        };
        Channel {
            epochs: parts.epochs,
            moved_out: 0,
            rings: (CONTROL_RING..=queues).map(ring).collect(),
            shared: Shared {
                port: parts.port,
                near: parts.near,
                far: parts.far,
                state: Cell::new(State::Open),
                tainted: Cell::new(parts.tainted),
                bells: parts.bells,
                asleep: RefCell::default(),
            },
            dice: parts.dice,
            keeps: parts.keeps,
        }
    }

    /// Somebody scribbled over its memory: anything may come, and a reset is right.
    pub fn taint(&self) {
        self.shared.tainted.set(true);
    }

    /// The queues of which a side has gone to sleep since the last call: they are to be looked at
    /// once more.
    pub fn take_asleep(&self) -> Vec<u16> {
        self.shared.asleep.take()
    }

    /// Number of data rings.
    pub fn queues(&self) -> u16 {
        (self.rings.len() - 1) as u16
    }

    /// Write all indices again.
    pub fn repeat_indices(&mut self) {
        for (tx, rx) in &mut self.rings {
            tx.repeat(&self.shared.far).expect("inside");
            rx.consumer.repeat(&self.shared.far).expect("inside");
        }
    }

    /// End the traffic.
    pub fn close(&mut self) {
        self.shared.state.set(State::Closed);
        for (tx, rx) in &mut self.rings {
            tx.close();
            // Given back before, and still to be collected.
            rx.kept.retain(|kept| kept.given_back);
        }
    }

    fn is_open(&self) -> bool {
        self.shared.is_open()
    }

    /// Whether the link has to be reset.
    pub fn is_faulty(&self) -> bool {
        self.shared.state.get() == State::Faulty
    }

    /// Reset the link because the layers above do not agree any more.
    pub fn give_up(&mut self) {
        self.shared.give_up();
    }

    fn ring_for(&self, queue: u16, priority: Priority) -> Option<usize> {
        let number = match priority {
            Priority::High => 0,
            Priority::Bulk => usize::from(queue) + 1,
        };
        (number < self.rings.len()).then_some(number)
    }

    /// The sending half of a ring, and what its calls are made for.
    fn sending(&mut self, number: usize) -> (&mut Tx, On<'_>) {
        let Channel { shared, rings, .. } = self;
        (&mut rings[number].0, On { shared, number })
    }

    /// Queue a frame.
    pub fn send(
        &mut self,
        head: &Envelope,
        frame: &Rc<Frame>,
        queue: u16,
    ) -> Result<u32, SendError> {
        let number = self
            .ring_for(queue, frame.priority)
            .ok_or(SendError::Gone)?;
        let (tx, on) = self.sending(number);
        tx.send(&on, head, &Sent(frame.clone()))
    }

    /// Publish what was queued.
    pub fn kick(&mut self, queue: u16) {
        if let Some(number) = self.ring_for(queue, Priority::Bulk) {
            let (tx, on) = self.sending(number);
            tx.publish(&on);
        }
    }

    /// Ask for a report as soon as the peer has consumed something.
    pub fn arm_tx(&mut self, queue: u16) -> (bool, bool) {
        let Some(number) = self.ring_for(queue, Priority::Bulk) else {
            return (true, false);
        };
        let (tx, on) = self.sending(number);
        let room = tx.await_room(&on);
        (room.now, room.has_report)
    }

    /// The same for the control ring.
    pub fn arm_priority(&mut self) -> bool {
        let (tx, on) = self.sending(0);
        tx.await_room(&on).now
    }

    /// What the peer has consumed of a ring, if somebody is to be told: units.
    pub fn completions(&mut self, number: usize) -> Option<u32> {
        if number >= self.rings.len() {
            return None;
        }
        let (tx, on) = self.sending(number);
        tx.completions(&on)
    }

    /// Take records until there is a whole frame, at most `budget` of them; count them in `done`.
    pub fn receive(&mut self, number: usize, budget: u32, done: &mut u32) -> Option<Received> {
        if number >= self.rings.len() {
            return None;
        }
        while *done < budget && self.is_open() {
            self.collect(number);
            let record = match self.rings[number].1.consumer.next(&self.shared.near) {
                Ok(Some(record)) => record,
                Ok(None) | Err(NextError::TooManyHeld) => break,
                Err(NextError::Corrupt(cause)) => {
                    self.shared.fail(cause);
                    break;
                }
            };
            *done += 1;
            let got = self.take(number, &record);
            let rx = &self.rings[number].1;
            if rx.consumer.unpublished_units() > rx.consumer.units() / 4 {
                self.give_back(number);
            }
            if got.is_some() {
                return got;
            }
        }
        None
    }

    /// End a poll of a ring.
    pub fn end_poll(&mut self, number: usize) {
        if number >= self.rings.len() {
            return;
        }
        self.collect(number);
        while !self.rings[number].1.consumer.may_keep() && self.move_out(number) {}
        let rx = &mut self.rings[number].1;
        rx.urgent = rx.consumer.held_units() > rx.consumer.units() / URGENT_PART;
        self.give_back(number);
    }

    /// Release the records that functions have given back.
    fn collect(&mut self, number: usize) {
        let Rx { consumer, kept, .. } = &mut self.rings[number].1;
        kept.retain(|record| {
            if record.given_back && !record.moved {
                assert!(consumer.release_at(record.place));
            }
            !record.given_back && !record.moved
        });
    }

    /// A function gives back something that it keeps, after a look at it; the queues that are to
    /// be polled for it.
    pub fn give_back_kept(&mut self) -> Vec<u16> {
        let mut urgent = Vec::new();
        for number in 0..self.rings.len() {
            let kept = &self.rings[number].1.kept;
            if kept.is_empty() {
                continue;
            }
            let pick = self.dice.pick(kept.len());
            self.look(number, pick);
            let rx = &mut self.rings[number].1;
            rx.kept[pick].given_back = true;
            if rx.urgent {
                urgent.push(queue_of(number));
            }
        }
        urgent
    }

    /// What is kept is still what has arrived.
    fn look(&mut self, number: usize, pick: usize) {
        let kept = &self.rings[number].1.kept[pick];
        if kept.given_back {
            return;
        }
        let mut data = vec![0; kept.want.len()];
        let parts = kept.record.parts;
        parts
            .read(&self.shared.near, kept.skip, &mut data)
            .expect("inside");
        let same = data == kept.want || self.shared.tainted.get();
        assert!(same, "a frame that is kept has changed");
    }

    /// A heartbeat: what has been kept since the last one is moved out.
    pub fn age_kept(&mut self) {
        for number in 0..self.rings.len() {
            if self.rings[number].1.kept.is_empty() || !self.is_open() {
                continue;
            }
            self.collect(number);
            while self.rings[number].1.kept.first().is_some_and(|k| k.old) && self.move_out(number)
            {
            }
            for record in &mut self.rings[number].1.kept {
                record.old = true;
            }
            self.collect(number);
            self.give_back(number);
        }
    }

    fn move_out(&mut self, number: usize) -> bool {
        if self.rings[number].1.kept.is_empty() {
            return false;
        }
        self.look(number, 0);
        let rx = &mut self.rings[number].1;
        let oldest = rx.kept.remove(0);
        if !oldest.moved {
            assert!(rx.consumer.release_at(oldest.place));
        }
        self.moved_out += 1;
        true
    }

    fn give_back(&mut self, number: usize) {
        if !self.is_open() {
            return;
        }
        let rx = &mut self.rings[number].1;
        if rx
            .consumer
            .publish_cons(&self.shared.far, &self.shared.near)
            == Ok(true)
        {
            self.shared.ring_bell(number);
        }
    }

    fn take(&mut self, number: usize, record: &Record) -> Option<Received> {
        let accepted = self.rings[number].1.order.accept(record);
        let step = match accepted {
            Ok(step) => step,
            Err(cause) => {
                self.shared.fail(cause);
                self.rings[number].1.consumer.release(record.token);
                return None;
            }
        };
        let skip = record.hdr.hdr_len as usize;
        let mut headers = vec![0; skip];
        let mut data = vec![0; record.data_len as usize];
        record
            .parts
            .read(&self.shared.near, 0, &mut headers)
            .expect("inside");
        record
            .parts
            .read(&self.shared.near, skip, &mut data)
            .expect("inside");
        if !(step.first && step.last) {
            self.rings[number].1.consumer.release(record.token);
            return self.take_part(number, step, headers, data);
        }
        self.keep_or_release(number, record, &data);
        let last = !self.rings[number].1.consumer.knows_more();
        Some(Received {
            headers,
            data,
            last,
        })
    }

    fn keep_or_release(&mut self, number: usize, record: &Record, data: &[u8]) {
        let rx = &mut self.rings[number].1;
        let has_room = rx.consumer.may_keep() && rx.kept.len() < RX_HELD / 2;
        if number != 0 && has_room && self.dice.once_in(self.keeps) {
            rx.kept.push(Kept {
                place: Consumer::<RX_HELD>::place_of(record.token),
                record: *record,
                skip: record.hdr.hdr_len as usize,
                want: data.to_vec(),
                moved: false,
                given_back: false,
                old: false,
            });
        } else {
            assert!(rx.consumer.release(record.token));
        }
    }

    fn take_part(
        &mut self,
        number: usize,
        step: Step,
        headers: Vec<u8>,
        data: Vec<u8>,
    ) -> Option<Received> {
        let rx = &mut self.rings[number].1;
        if step.first {
            rx.open = Some((headers, Vec::with_capacity(step.total as usize)));
        }
        let (_, whole) = rx.open.as_mut()?;
        assert_eq!(
            step.data_off as usize,
            whole.len(),
            "a part is out of place"
        );
        whole.extend_from_slice(&data);
        let (headers, data) = step.last.then(|| rx.open.take()).flatten()?;
        let last = !rx.consumer.knows_more();
        Some(Received {
            headers,
            data,
            last,
        })
    }

    /// Ask for a doorbell with the next record; `true` if there is one now.
    pub fn arm_data(&mut self, number: usize) -> bool {
        if number >= self.rings.len() || !self.is_open() {
            return false;
        }
        let rx = &mut self.rings[number].1;
        match rx.consumer.arm_data(&self.shared.far, &self.shared.near) {
            Ok(armed) => self.note(number, armed) && !self.rings[number].1.consumer.is_full(),
            Err(cause) => {
                self.shared.fail(cause);
                false
            }
        }
    }

    /// Note the queue of a side that goes to sleep; whether it need not sleep.
    fn note(&self, number: usize, armed: Armed) -> bool {
        if armed == Armed::Asleep {
            self.shared.asleep(number);
        }
        armed == Armed::Ready
    }

    /// Whether a side of a queue sleeps although the peer has done what it waits for. Nothing
    /// arrives meanwhile.
    pub fn is_overdue(&self, queue: u16) -> bool {
        let near = self.shared.near.still();
        let ring = |number: usize| {
            let (tx, rx) = &self.rings[number];
            let has_data = rx.consumer.is_overdue(&near) && !rx.consumer.is_full();
            has_data || tx.is_overdue(&near)
        };
        self.is_open() && rings(queue).any(ring)
    }

    /// Ask for no doorbell.
    pub fn mute(&mut self, number: usize) {
        if number < self.rings.len() && self.is_open() {
            let rx = &mut self.rings[number].1;
            rx.consumer.mute(&self.shared.far).expect("inside");
        }
    }

    /// Whether the peer has published something new.
    pub fn is_ready(&self, number: usize) -> bool {
        self.rings.get(number).is_some_and(|(_, rx)| {
            rx.consumer.is_ready(&self.shared.near) && !rx.consumer.is_full()
        })
    }

    /// Nothing is under way in either direction: why that is not so.
    pub fn unrest(&mut self) -> Option<String> {
        for (number, (tx, rx)) in self.rings.iter_mut().enumerate() {
            let free = tx.refresh(&self.shared.near);
            if free != Ok(tx.units()) || tx.has_partial() {
                return Some(format!("ring {number}: {free:?} units free for sending"));
            }
            if rx.consumer.held_units() != 0 || rx.consumer.unpublished_units() != 0 {
                let (held, kept) = (rx.consumer.held_units(), rx.kept.len());
                return Some(format!(
                    "ring {number}: {held} units held, {kept} frames kept"
                ));
            }
            if rx.order.is_open() || rx.consumer.is_ready(&self.shared.near) {
                return Some(format!("ring {number}: something has not been received"));
            }
        }
        None
    }
}

/// The rings of a data queue; the control ring goes with queue 0.
pub fn rings(queue: u16) -> std::ops::RangeInclusive<usize> {
    let data = usize::from(queue) + 1;
    match queue {
        0 => 0..=data,
        _ => data..=data,
    }
}

/// The data queue that a ring belongs to; the control ring goes with queue 0.
pub fn queue_of(number: usize) -> u16 {
    number.saturating_sub(1) as u16
}
