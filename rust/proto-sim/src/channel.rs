// SPDX-License-Identifier: GPL-2.0-only

//! The rings of a link in one epoch. Their halves are [`mp_proto::sending`]'s and
//! [`mp_proto::receiving`]'s, as in the kernel. Copies by a DMA engine are left out.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mp_proto::layout::{Layout, CONTROL_RING};
use mp_proto::memory::OutOfBounds;
use mp_proto::receiving::{self, AddError, Arrived, Assembly, Kept, ReceivingHalf, Upper, RX_HELD};
use mp_proto::ring::{Chunk, Corrupt, Record, Ringing, Slot, Step};
use mp_proto::sending::{self, Copies, Payload, Pending, SendingHalf};
use mp_proto::side::Side;
use mp_proto::wire::{Envelope, Priority, Tag};

use crate::dice::Dice;
use crate::wire::{Near, Window};

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

/// What of a record is to be seen: headers, and data.
type Bytes = (Vec<u8>, Vec<u8>);

/// The bytes of a record.
fn bytes_of(record: &Record, near: &Near) -> Bytes {
    let skip = record.hdr.hdr_len as usize;
    let (mut headers, mut data) = (vec![0; skip], vec![0; record.data_len as usize]);
    let parts = record.parts;
    parts.read(near, 0, &mut headers).expect("inside");
    parts.read(near, skip, &mut data).expect("inside");
    (headers, data)
}

/// Frames in parts: there is always memory for one.
#[derive(Default)]
struct Parts {
    open: Option<Bytes>,
}

impl Assembly<Near> for Parts {
    type Whole = Bytes;

    fn add(&mut self, near: &Near, record: &Record, step: Step) -> Result<Option<Bytes>, AddError> {
        let (headers, data) = bytes_of(record, near);
        if step.first {
            self.open = Some((headers, Vec::with_capacity(step.total as usize)));
        }
        let Some((_, whole)) = &mut self.open else {
            return Ok(None);
        };
        let is_next = step.data_off as usize == whole.len();
        assert!(is_next, "a part is out of place");
        whole.extend_from_slice(&data);
        Ok(step.last.then(|| self.open.take()).flatten())
    }

    fn give_back(&mut self, _whole: Bytes) {}
}

/// Where the data of a frame is that a function keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Ring,
    Own,
    Nowhere,
}

/// A record that a function keeps.
struct Spot {
    place: usize,
    record: Record,
    /// Its bytes when it arrived.
    came: Bytes,
    at: Cell<At>,
    /// It is being copied, and must stay where it is.
    is_pinned: Cell<bool>,
}

type Rx = ReceivingHalf<Parts, Vec<Option<Kept<Rc<Spot>>>>>;

/// What a poll found.
pub struct Received {
    /// Message header and what follows it.
    pub headers: Vec<u8>,
    /// The data.
    pub data: Vec<u8>,
    /// Nothing more is known to be in the ring.
    pub last: bool,
}

/// The records of one ring that functions keep or have given back.
#[derive(Default)]
struct InHands {
    kept: RefCell<Vec<Rc<Spot>>>,
    returned: RefCell<Vec<usize>>,
    /// What is given back is to be released at once.
    urgent: Cell<bool>,
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
    /// By ring.
    in_hands: Vec<InHands>,
    moved_out: Cell<u64>,
    /// There is no memory to move records to.
    is_short: Cell<bool>,
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

    /// What is kept is still what has arrived.
    fn look(&self, spot: &Spot) {
        let same = bytes_of(&spot.record, &self.near) == spot.came;
        assert!(
            same || self.tainted.get(),
            "a frame that is kept has changed"
        );
    }
}

/// What calls of the halves of a ring are made for.
struct On<'a> {
    shared: &'a Shared,
    number: usize,
}

impl On<'_> {
    fn in_hands(&self) -> &InHands {
        &self.shared.in_hands[self.number]
    }
}

impl Side for On<'_> {
    type Inbound = Near;
    type Outbound = Window;

    fn inbound(&self) -> &Near {
        &self.shared.near
    }

    fn outbound(&self) -> &Window {
        &self.shared.far
    }

    fn is_open(&self) -> bool {
        self.shared.is_open()
    }

    fn ring_bell(&self) {
        let bell = (self.shared.port, queue_of(self.number));
        self.shared.bells.borrow_mut().push(bell);
    }

    fn asleep(&self) {
        let queue = queue_of(self.number);
        self.shared.asleep.borrow_mut().push(queue);
    }

    fn corrupt(&self, cause: Corrupt) {
        self.shared.fail(cause);
    }
}

impl sending::Context<Sent> for On<'_> {
    type Copies = NoCopies;

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

    fn ring_full(&self) {}

    fn unreadable(&self) {
        unreachable!("the data of all frames is there");
    }
}

impl receiving::Context<Rc<Spot>> for On<'_> {
    fn take_returned(&self, f: impl FnMut(usize)) {
        self.in_hands().returned.take().into_iter().for_each(f);
    }

    fn set_urgent(&self, urgent: bool) {
        self.in_hands().urgent.set(urgent);
    }

    fn move_out(&self, spot: &Rc<Spot>) -> bool {
        let stays = spot.is_pinned.get() || self.shared.is_short.get();
        if spot.at.get() != At::Ring || stays {
            return false;
        }
        self.shared.look(spot);
        spot.at.set(At::Own);
        self.shared.moved_out.set(self.shared.moved_out.get() + 1);
        true
    }
}

/// The service, which keeps one in so many frames.
struct Service<'a> {
    on: On<'a>,
    keeps: u64,
    dice: RefCell<&'a mut Dice>,
    got: RefCell<Option<Received>>,
}

impl Service<'_> {
    fn take(&self, (headers, data): Bytes, last: bool) {
        let got = Received {
            headers,
            data,
            last,
        };
        assert!(self.got.replace(Some(got)).is_none(), "one at a time");
    }
}

impl Upper<Rc<Spot>, Bytes> for Service<'_> {
    fn frame(&self, frame: &Arrived<'_>) -> Option<Rc<Spot>> {
        let came = bytes_of(frame.record, &self.on.shared.near);
        self.take(came.clone(), frame.is_last);
        let dice = self.dice.borrow();
        if !(frame.may_keep && dice.once_in(self.keeps)) {
            return None;
        }
        let spot = Rc::new(Spot {
            place: frame.place,
            record: *frame.record,
            came,
            at: Cell::new(At::Ring),
            is_pinned: Cell::new(dice.once_in(4)),
        });
        self.on.in_hands().kept.borrow_mut().push(spot.clone());
        Some(spot)
    }

    fn whole(&self, whole: &Bytes, is_last: bool) {
        self.take(whole.clone(), is_last);
    }

    fn no_memory(&self) {
        unreachable!("there is memory");
    }
}

/// The rings of a link, from link-up to link-down.
pub struct Channel {
    /// The epochs of this host and of the peer.
    pub epochs: (u64, u64),
    shared: Shared,
    rings: Vec<(Tx, Rx)>,
    dice: Dice,
    keeps: u64,
}

/// What a channel is made of.
pub struct Making {
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
    pub fn new(made: Making, ours: &Layout, theirs: &Layout) -> Channel {
        let (tx, rx) = made.tags;
        let queues = ours.queues.min(theirs.queues);
        let ring = |ring| {
            let (to, from) = (theirs.ring(ring), ours.ring(ring));
            let to = to.and_then(|to| to.check().ok()).expect("validated");
            let from = from.and_then(|from| from.check().ok()).expect("planned");
            let urgent = ring == CONTROL_RING;
            let half = Tx::new(to, tx, rx, made.ringing, urgent, None);
            let places = (0..RX_HELD).map(|_| None).collect();
            let parts = Parts::default();
            let other = Rx::new(from, tx, rx, made.ringing, urgent, parts, places);
            (half, other)
        };
        let rings: Vec<_> = (CONTROL_RING..=queues).map(ring).collect();
        Channel {
            epochs: made.epochs,
            shared: Shared {
                port: made.port,
                near: made.near,
                far: made.far,
                state: Cell::new(State::Open),
                tainted: Cell::new(made.tainted),
                bells: made.bells,
                asleep: RefCell::default(),
                in_hands: rings.iter().map(|_| InHands::default()).collect(),
                moved_out: Cell::new(0),
                is_short: Cell::new(false),
            },
            rings,
            dice: made.dice,
            keeps: made.keeps,
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

    /// Kept frames that were moved out.
    pub fn moved_out(&self) -> u64 {
        self.shared.moved_out.get()
    }

    /// Number of data rings.
    pub fn queues(&self) -> u16 {
        (self.rings.len() - 1) as u16
    }

    /// Write all indices again.
    pub fn repeat_indices(&mut self) {
        for (tx, rx) in &mut self.rings {
            tx.repeat(&self.shared.far).expect("inside");
            rx.repeat(&self.shared.far).expect("inside");
        }
    }

    /// End the traffic.
    pub fn close(&mut self) {
        self.shared.state.set(State::Closed);
        for (tx, _) in &mut self.rings {
            tx.close();
        }
        for hands in &self.shared.in_hands {
            // They are cut off their data.
            hands.kept.take();
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

    /// The receiving half of a ring, and the same.
    fn receiving(&mut self, number: usize) -> (&mut Rx, On<'_>) {
        let Channel { shared, rings, .. } = self;
        (&mut rings[number].1, On { shared, number })
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
        let Channel {
            shared,
            rings,
            dice,
            keeps,
            ..
        } = self;
        let (_, rx) = rings.get_mut(number)?;
        let service = Service {
            on: On { shared, number },
            keeps: *keeps,
            dice: RefCell::new(dice),
            got: RefCell::default(),
        };
        while *done < budget && rx.receive_one(&service.on, &service) {
            *done += 1;
            let got = service.got.take();
            if got.is_some() {
                return got;
            }
        }
        None
    }

    /// End a poll of a ring.
    pub fn end_poll(&mut self, number: usize) {
        if number < self.rings.len() {
            let (rx, on) = self.receiving(number);
            rx.end_poll(&on);
        }
    }

    /// A function gives back something that it keeps, after a look at it, or a copy of that ends;
    /// the queues that are to be polled for it. Memory is short or not until the next time.
    pub fn give_back_kept(&mut self) -> Vec<u16> {
        let mut urgent = Vec::new();
        self.shared.is_short.set(self.dice.once_in(4));
        for (number, hands) in self.shared.in_hands.iter().enumerate() {
            let mut kept = hands.kept.borrow_mut();
            if kept.is_empty() {
                continue;
            }
            let pick = self.dice.pick(kept.len());
            if !kept[pick].is_pinned.replace(false) {
                let spot = kept.swap_remove(pick);
                if spot.at.replace(At::Nowhere) != At::Ring {
                    continue;
                }
                self.shared.look(&spot);
                hands.returned.borrow_mut().push(spot.place);
            }
            if hands.urgent.get() {
                urgent.push(queue_of(number));
            }
        }
        urgent
    }

    /// A heartbeat: what has been kept since the last one is moved out.
    pub fn age_kept(&mut self) {
        for number in 0..self.rings.len() {
            let (rx, on) = self.receiving(number);
            while rx.age(&on) {}
        }
    }

    /// Ask for a doorbell with the next record; `true` if there is one now.
    pub fn arm_data(&mut self, number: usize) -> bool {
        if number >= self.rings.len() {
            return false;
        }
        let (rx, on) = self.receiving(number);
        rx.arm(&on)
    }

    /// Whether a side of a queue sleeps although the peer has done what it waits for. Nothing
    /// arrives meanwhile.
    pub fn is_overdue(&self, queue: u16) -> bool {
        let near = self.shared.near.still();
        let ring = |number: usize| {
            let (tx, rx) = &self.rings[number];
            rx.is_overdue(&near) || tx.is_overdue(&near)
        };
        self.is_open() && rings(queue).any(ring)
    }

    /// Ask for no doorbell.
    pub fn mute(&mut self, number: usize) {
        if number < self.rings.len() {
            let (rx, on) = self.receiving(number);
            rx.mute(&on);
        }
    }

    /// Whether the peer has published something new.
    pub fn is_ready(&self, number: usize) -> bool {
        let ring = self.rings.get(number);
        ring.is_some_and(|(_, rx)| rx.is_ready(&self.shared.near))
    }

    /// Nothing is under way in either direction: why that is not so.
    pub fn unrest(&mut self) -> Option<String> {
        for (number, (tx, rx)) in self.rings.iter_mut().enumerate() {
            let free = tx.refresh(&self.shared.near);
            if free != Ok(tx.units()) || tx.has_partial() {
                return Some(format!("ring {number}: {free:?} units free for sending"));
            }
            let unreturned = rx.unreturned_units();
            if unreturned != 0 {
                return Some(format!("ring {number}: {unreturned} units not given back"));
            }
            if rx.is_within_frame() || rx.is_ready(&self.shared.near) {
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
