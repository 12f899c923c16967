// SPDX-License-Identifier: GPL-2.0-only

//! The rings of a link in one epoch, driven as `rust/pximc_ntb/channel.rs` does: the same calls of
//! [`mp_proto::ring`] in the same order. Copies by a DMA engine are left out.

use std::cell::RefCell;
use std::rc::Rc;

use mp_proto::layout::{Layout, CONTROL_RING};
use mp_proto::memory::Outbound;
use mp_proto::ring::{
    Armed, Chunk, Consumer, Corrupt, NextError, Producer, Reassembly, Record, ReserveError,
    Ringing, Slot, Split, Step, UNIT,
};
use mp_proto::wire::{BlockHdr, Envelope, Priority, Tag};

use crate::dice::Dice;
use crate::wire::{Near, Window};

/// Records a producer may have reserved at a time.
const TX_HELD: usize = 16;
/// Records a consumer may hold at a time.
const RX_HELD: usize = 256;
/// See `REPORT_PART` of the kernel module.
const REPORT_PART: u32 = 16;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// No room now.
    Full,
    /// It never fits.
    TooLarge,
    /// The peer has left.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Closed,
    Faulty,
}

struct Partial {
    head: Envelope,
    frame: Rc<Frame>,
    rest: Split,
}

struct Tx {
    producer: Producer<TX_HELD>,
    partial: Option<Partial>,
    sent: u32,
    reported: u32,
    awaited: bool,
}

impl Tx {
    fn is_idle(&self) -> bool {
        self.producer.unread_units() == 0 && self.partial.is_none() && !self.awaited
    }

    fn unreported(&self) -> u32 {
        let outstanding = self.producer.units() - self.producer.free_units();
        self.sent
            .wrapping_sub(outstanding)
            .wrapping_sub(self.reported)
    }
}

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

/// What the pollers did.
#[derive(Default, Debug, Clone, Copy)]
pub struct Counters {
    /// Doorbells rung.
    pub bells: u64,
    /// Sends that met a full ring.
    pub full: u64,
    /// Kept frames that were moved out.
    pub moved_out: u64,
}

/// The rings of a link, from link-up to link-down.
pub struct Channel {
    /// The link, among those of its host.
    pub port: usize,
    /// The epochs of this host and of the peer.
    pub epochs: (u64, u64),
    /// Somebody scribbled over its memory: anything may come, and a reset is right.
    pub tainted: bool,
    /// What happened.
    pub counters: Counters,
    near: Near,
    far: Window,
    rings: Vec<(Tx, Rx)>,
    state: State,
    bells: Rc<RefCell<Vec<(usize, u16)>>>,
    /// Queues of which a side has gone to sleep: they are to be looked at once more.
    pub asleep: Vec<u16>,
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
    /// See [`Channel::tainted`].
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
            let half = Tx {
                producer: Producer::new(to, tx, rx, parts.ringing).expect("validated"),
                partial: None,
                sent: 0,
                reported: 0,
                awaited: false,
            };
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
            port: parts.port,
            epochs: parts.epochs,
            tainted: parts.tainted,
            counters: Counters::default(),
            near: parts.near,
            far: parts.far,
            rings: (CONTROL_RING..=queues).map(ring).collect(),
            state: State::Open,
            bells: parts.bells,
            asleep: Vec::new(),
            dice: parts.dice,
            keeps: parts.keeps,
        }
    }

    /// Number of data rings.
    pub fn queues(&self) -> u16 {
        (self.rings.len() - 1) as u16
    }

    /// Write all indices again.
    pub fn repeat_indices(&mut self) {
        for (tx, rx) in &mut self.rings {
            tx.producer.repeat(&self.far).expect("inside");
            rx.consumer.repeat(&self.far).expect("inside");
        }
    }

    /// End the traffic.
    pub fn close(&mut self) {
        self.state = State::Closed;
        for (tx, rx) in &mut self.rings {
            tx.partial = None;
            // Given back before, and still to be collected.
            rx.kept.retain(|kept| kept.given_back);
        }
    }

    fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether the link has to be reset.
    pub fn is_faulty(&self) -> bool {
        self.state == State::Faulty
    }

    /// Reset the link because the layers above do not agree any more.
    pub fn give_up(&mut self) {
        if self.is_open() {
            self.state = State::Faulty;
        }
    }

    fn fail(&mut self, cause: Corrupt) {
        assert!(
            self.tainted || !self.is_open(),
            "an honest peer was taken for a liar: {cause:?}"
        );
        self.give_up();
    }

    fn ring_for(&self, queue: u16, priority: Priority) -> Option<usize> {
        let number = match priority {
            Priority::High => 0,
            Priority::Bulk => usize::from(queue) + 1,
        };
        (number < self.rings.len()).then_some(number)
    }

    fn publish(&mut self, number: usize) {
        if !self.is_open() {
            return;
        }
        let tx = &mut self.rings[number].0;
        if tx.producer.publish(&self.far, &self.near) == Ok(true) {
            self.ring_bell(number);
        }
    }

    fn ring_bell(&mut self, number: usize) {
        self.counters.bells += 1;
        self.bells.borrow_mut().push((self.port, queue_of(number)));
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
        if !self.is_open() {
            return Err(SendError::Gone);
        }
        if self.rings[number].0.partial.is_some() {
            return Err(SendError::Full);
        }
        let hdr_len = (head.len() + frame.func_hdr.len()) as u32;
        let data_len = frame.data.len() as u32;
        let cap = self.rings[number].0.producer.record_cap();
        let split = Split::new(hdr_len, data_len, cap);
        let mut rest = split.map_err(|_| SendError::TooLarge)?;
        let units = rest.units();
        let chunk = rest.next().ok_or(SendError::TooLarge)?;
        self.put(number, &chunk, head, frame)?;
        if chunk.data_len < data_len {
            self.rings[number].0.partial = Some(Partial {
                head: *head,
                frame: frame.clone(),
                rest,
            });
            self.publish(number);
            self.go_on(number);
        }
        if number == 0 {
            self.publish(number);
            return Ok(0);
        }
        Ok(units)
    }

    /// Publish what was queued.
    pub fn kick(&mut self, queue: u16) {
        if let Some(number) = self.ring_for(queue, Priority::Bulk) {
            self.publish(number);
        }
    }

    /// Ask for a report as soon as the peer has consumed something.
    pub fn arm_tx(&mut self, queue: u16) -> (bool, bool) {
        let Some(number) = self.ring_for(queue, Priority::Bulk) else {
            return (true, false);
        };
        self.rings[number].0.awaited = true;
        let progress = self.arm_space(number);
        (progress, progress || self.rings[number].0.unreported() != 0)
    }

    /// The same for the control ring.
    pub fn arm_priority(&mut self) -> bool {
        self.rings[0].0.awaited = true;
        let progress = self.arm_space(0);
        if progress && self.rings[0].0.partial.is_some() {
            self.go_on(0);
        }
        progress && self.rings[0].0.partial.is_none()
    }

    fn put(
        &mut self,
        number: usize,
        chunk: &Chunk,
        head: &Envelope,
        frame: &Frame,
    ) -> Result<(), SendError> {
        let tx = &mut self.rings[number].0;
        let slot = match tx.producer.reserve(&self.near, chunk.hdr.buffer_len) {
            Ok(slot) => slot,
            Err(e) => return Err(self.refused(e)),
        };
        let at = self.write_head(&slot, chunk, head, frame);
        let from = chunk.data_off as usize;
        let data = &frame.data[from..from + chunk.data_len as usize];
        slot.write(&self.far, at, data).expect("inside");
        // For whoever publishes it, perhaps on another processor.
        self.far.wmb();
        let tx = &mut self.rings[number].0;
        tx.producer.commit(slot);
        let units = mp_proto::ring::units_for(chunk.hdr.buffer_len);
        tx.sent = tx.sent.wrapping_add(units);
        Ok(())
    }

    fn refused(&mut self, e: ReserveError) -> SendError {
        match e {
            ReserveError::Full | ReserveError::TooManyHeld => {
                self.counters.full += 1;
                SendError::Full
            }
            ReserveError::Length => SendError::TooLarge,
            ReserveError::Corrupt(cause) => {
                self.fail(cause);
                SendError::Gone
            }
        }
    }

    fn write_head(&self, slot: &Slot, chunk: &Chunk, envelope: &Envelope, frame: &Frame) -> usize {
        let mut head = Vec::with_capacity(BlockHdr::SIZE + Envelope::MAX + frame.func_hdr.len());
        head.extend_from_slice(&slot.header(&chunk.hdr));
        if chunk.hdr.hdr_len != 0 {
            head.extend_from_slice(&envelope.encode()[..envelope.len()]);
            head.extend_from_slice(&frame.func_hdr);
        }
        slot.write(&self.far, 0, &head).expect("inside");
        head.len()
    }

    fn go_on(&mut self, number: usize) {
        while let Some(mut partial) = self.rings[number].0.partial.take() {
            let mut rest = partial.rest.clone();
            let Some(chunk) = rest.next() else {
                return;
            };
            match self.put(number, &chunk, &partial.head, &partial.frame) {
                Ok(()) => {
                    partial.rest = rest;
                    self.publish(number);
                    self.rings[number].0.partial = Some(partial);
                }
                Err(SendError::Full) => {
                    self.rings[number].0.partial = Some(partial);
                    if !self.arm_space(number) {
                        return;
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// What the peer has consumed of a ring, and nobody was told of: units, and whether anybody is
    /// to be told. `None` if nobody is.
    pub fn completions(&mut self, number: usize) -> Option<u32> {
        if number >= self.rings.len() || self.rings[number].0.is_idle() {
            return None;
        }
        let awaited = self.rings[number].0.awaited;
        let units = self.harvest(number);
        match number {
            _ if units == 0 => None,
            0 => awaited.then_some(0),
            _ => Some(units),
        }
    }

    fn harvest(&mut self, number: usize) -> u32 {
        let refreshed = self.rings[number].0.producer.refresh(&self.near);
        if let Err(cause) = refreshed {
            self.fail(cause);
            return 0;
        }
        if self.rings[number].0.partial.is_some() {
            self.go_on(number);
        }
        let tx = &mut self.rings[number].0;
        let units = tx.unreported();
        if units < tx.producer.units() / REPORT_PART && !tx.awaited {
            return 0;
        }
        tx.awaited &= units == 0;
        tx.reported = tx.reported.wrapping_add(units);
        units
    }

    /// Take records until there is a whole frame, at most `budget` of them; count them in `done`.
    pub fn receive(&mut self, number: usize, budget: u32, done: &mut u32) -> Option<Received> {
        if number >= self.rings.len() {
            return None;
        }
        while *done < budget && self.is_open() {
            self.collect(number);
            let record = match self.rings[number].1.consumer.next(&self.near) {
                Ok(Some(record)) => record,
                Ok(None) | Err(NextError::TooManyHeld) => break,
                Err(NextError::Corrupt(cause)) => {
                    self.fail(cause);
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
            .read(&self.near, kept.skip, &mut data)
            .expect("inside");
        let same = data == kept.want || self.tainted;
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
        self.counters.moved_out += 1;
        true
    }

    fn give_back(&mut self, number: usize) {
        if !self.is_open() {
            return;
        }
        let rx = &mut self.rings[number].1;
        if rx.consumer.publish_cons(&self.far, &self.near) == Ok(true) {
            self.ring_bell(number);
        }
    }

    fn take(&mut self, number: usize, record: &Record) -> Option<Received> {
        let accepted = self.rings[number].1.order.accept(record);
        let step = match accepted {
            Ok(step) => step,
            Err(cause) => {
                self.fail(cause);
                self.rings[number].1.consumer.release(record.token);
                return None;
            }
        };
        let skip = record.hdr.hdr_len as usize;
        let mut headers = vec![0; skip];
        let mut data = vec![0; record.data_len as usize];
        record
            .parts
            .read(&self.near, 0, &mut headers)
            .expect("inside");
        record
            .parts
            .read(&self.near, skip, &mut data)
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
        match rx.consumer.arm_data(&self.far, &self.near) {
            Ok(armed) => self.note(number, armed) && !self.rings[number].1.consumer.is_full(),
            Err(cause) => {
                self.fail(cause);
                false
            }
        }
    }

    /// Note the queue of a side that goes to sleep; whether it need not sleep.
    fn note(&mut self, number: usize, armed: Armed) -> bool {
        if armed == Armed::Asleep {
            self.asleep.push(queue_of(number));
        }
        armed == Armed::Ready
    }

    /// Whether a side of a queue sleeps although the peer has done what it waits for. Nothing
    /// arrives meanwhile.
    pub fn is_overdue(&self, queue: u16) -> bool {
        let near = self.near.still();
        let ring = |number: usize| {
            let (tx, rx) = &self.rings[number];
            let has_data = rx.consumer.is_overdue(&near) && !rx.consumer.is_full();
            let waits = tx.awaited || tx.partial.is_some();
            has_data || waits && tx.producer.is_overdue(&near)
        };
        self.is_open() && rings(queue).any(ring)
    }

    /// Ask for no doorbell.
    pub fn mute(&mut self, number: usize) {
        if number < self.rings.len() && self.is_open() {
            let rx = &mut self.rings[number].1;
            rx.consumer.mute(&self.far).expect("inside");
        }
    }

    /// Whether the peer has published something new.
    pub fn is_ready(&self, number: usize) -> bool {
        self.rings
            .get(number)
            .is_some_and(|(_, rx)| rx.consumer.is_ready(&self.near) && !rx.consumer.is_full())
    }

    fn arm_space(&mut self, number: usize) -> bool {
        if !self.is_open() {
            return false;
        }
        self.publish(number);
        let tx = &mut self.rings[number].0;
        let free = tx.producer.free_units();
        let outstanding = tx.producer.units() - free;
        let target = free + outstanding.div_ceil(2);
        match tx.producer.arm_space(&self.far, &self.near, target * UNIT) {
            Ok(armed) => self.note(number, armed),
            Err(cause) => {
                self.fail(cause);
                true
            }
        }
    }

    /// Nothing is under way in either direction: why that is not so.
    pub fn unrest(&mut self) -> Option<String> {
        for (number, (tx, rx)) in self.rings.iter_mut().enumerate() {
            let free = tx.producer.refresh(&self.near);
            if free != Ok(tx.producer.units()) || tx.partial.is_some() {
                return Some(format!("ring {number}: {free:?} units free for sending"));
            }
            if rx.consumer.held_units() != 0 || rx.consumer.unpublished_units() != 0 {
                let (held, kept) = (rx.consumer.held_units(), rx.kept.len());
                return Some(format!(
                    "ring {number}: {held} units held, {kept} frames kept"
                ));
            }
            if rx.order.is_open() || rx.consumer.is_ready(&self.near) {
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
