// SPDX-License-Identifier: GPL-2.0-only

//! Processes whose sessions are queue pairs: the engine of `mp_proto` over the windows of the
//! session, as a library has it. Nobody sleeps: each looks whenever its process runs.
//!
//! A message begins with the [name](crate::pairs) of the session that sends it and with its
//! number, and goes on with what [`pattern`] makes of the two. Whatever happens to hosts and links,
//! a session receives the messages of its partner from the first one on, each once and whole. When
//! the partner has ended the pair in order, or has closed its session, none is missing: what it
//! has stored is there before the other host hears that it has closed.

use mp_proto::memory::{Inbound, OutOfBounds, Outbound};
use mp_proto::pairing::terms::Span;
use mp_proto::queue_pair::{
    tell_end, Body, Broken, End, Head, Held, Hello, Layout, Link, Message, Queue, Receiver,
    SendError, Sender, Stop, Wants, INLINE_MAX,
};

use super::{Phase, Session};
use crate::check::{pattern, Check};
use crate::dice::Dice;
use crate::host::Host;
use crate::memory::{Memory, Piece};
use crate::wire::Near;

/// The protocol of sessions that are queue pairs.
pub const PROTOCOL: u32 = 7;

/// Bytes ahead of the pattern of a message.
const HEAD: usize = 16;
/// Bytes of a slot.
pub(super) const SLOT: usize = 256;
/// Streams of a pair: one has inline messages, the other one has the slots.
const STREAMS: usize = 2;
/// The stream of the slots.
pub(super) const SLOTS: u16 = 1;
/// Why a side breaks off, as the layer above says.
const BROKEN_OFF: u16 = 256;

/// The own window of a session.
pub(super) struct Own {
    near: Near,
    start: usize,
    len: usize,
}

impl Own {
    pub(super) fn new(piece: &Piece) -> Own {
        let (near, start) = piece.place();
        Own {
            near: Near {
                races: true,
                ..near
            },
            start,
            len: piece.len as usize,
        }
    }

    fn at(&self, off: usize, len: usize) -> Result<usize, OutOfBounds> {
        let end = off.checked_add(len).filter(|end| *end <= self.len);
        end.map(|_| self.start + off).ok_or(OutOfBounds)
    }
}

impl Inbound for Own {
    fn size(&self) -> usize {
        self.len
    }
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        self.near.load_u64(self.at(off, 8)?)
    }
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        self.near.read(self.at(off, buf.len())?, buf)
    }
    fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds> {
        self.near.zero(self.at(off, len)?, len)
    }
    fn rmb(&self) {
        self.near.rmb();
    }
}

/// The window of the partner. What is stored into it after the epoch vanishes.
pub(super) struct Far<'a> {
    pub(super) memory: &'a Memory,
    pub(super) span: Span,
}

impl Far<'_> {
    fn with(
        &self,
        off: usize,
        len: usize,
        store: impl FnOnce(&dyn Outbound, usize) -> Result<(), OutOfBounds>,
    ) -> Result<(), OutOfBounds> {
        let end = off.checked_add(len);
        if end.is_none_or(|end| end > self.size()) {
            return Err(OutOfBounds);
        }
        match self.memory.place(self.span.off) {
            Some((window, start)) => store(window, start + off),
            None => Ok(()),
        }
    }

    fn fence(&self) {
        if let Some((window, _)) = self.memory.place(self.span.off) {
            window.mb();
        }
    }
}

impl Outbound for Far<'_> {
    fn size(&self) -> usize {
        self.span.len as usize
    }
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        self.with(off, 8, |window, at| window.store_u64(at, val))
    }
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        self.with(off, buf.len(), |window, at| window.write(at, buf))
    }
    fn wmb(&self) {
        self.fence();
    }
    fn release(&self) {
        self.fence();
    }
    fn mb(&self) {
        self.fence();
    }
}

/// Both halves, once both sides have announced their windows.
pub(super) struct Halves {
    pub(super) tx: Sender<Vec<Link>, Vec<Queue>>,
    pub(super) rx: Receiver<Vec<Held>>,
}

impl Halves {
    /// The halves of a side whose own window is divided like that; `None` as long as the partner
    /// has not told how it divides the other one.
    fn new(own: Layout, inb: &Own, far_len: u64) -> Option<Halves> {
        let told = Hello::look(inb, far_len).expect("an honest partner");
        let peer = told?.0.layout;
        let links = vec![Link::default(); peer.slots as usize];
        let queues = vec![Queue::default(); STREAMS];
        let held = vec![Held::default(); own.slots as usize];
        Some(Halves {
            tx: Sender::new(own, peer, links, queues).expect("long enough"),
            rx: Receiver::new(own, peer, held).expect("long enough"),
        })
    }

    pub(super) fn check(&self) {
        self.tx.invariants().expect("a sender");
        self.rx.invariants().expect("a receiver");
    }
}

/// A side of a queue pair.
#[derive(Default)]
pub struct Side {
    /// How the own window is divided, once the partner was told.
    own: Option<Layout>,
    pub(super) halves: Option<Halves>,
    /// Messages received.
    got: u64,
    /// This side sends no more.
    is_closed: bool,
    /// The partner sends no more.
    has_heard_end: bool,
    /// One of the two has broken off.
    is_broken: bool,
}

/// The two sessions of a pair, by their names.
#[derive(Clone, Copy)]
struct Names {
    mine: u64,
    theirs: u64,
}

fn plan(len: u64, dice: &Dice) -> Layout {
    let wants = Wants {
        lines: dice.one_of(&[8, 16]),
        free: 8,
        slots: dice.one_of(&[0, 1, 4]),
        slot_size: SLOT as u32,
        streams: STREAMS as u32,
    };
    Layout::plan(len, &wants).expect("a page is enough")
}

/// The bytes of a message.
fn bytes(of: u64, number: u64, len: usize) -> Vec<u8> {
    let mut data = of.to_le_bytes().to_vec();
    data.extend(number.to_le_bytes());
    data.extend((HEAD..len).map(|at| pattern(of, number, at)));
    data
}

impl Side {
    /// Divide the own window, and tell the partner.
    fn begin(&mut self, inb: &Own, out: &Far<'_>, dice: &Dice) {
        let layout = plan(inb.len as u64, dice);
        Hello::new(layout).tell(out).expect("a page is enough");
        self.own = Some(layout);
    }

    /// Tell the partner how the own window is divided, unless it has gone, and see whether it has
    /// told.
    pub(super) fn meet_partner(&mut self, inb: &Own, out: &Far<'_>, dice: &Dice, parted: bool) {
        if self.own.is_none() && !parted {
            self.begin(inb, out, dice);
        }
        self.meet(inb, out);
    }

    /// See whether the partner has told as well.
    fn meet(&mut self, inb: &Own, out: &Far<'_>) {
        let Some(own) = self.own.filter(|_| self.halves.is_none()) else {
            return;
        };
        self.halves = Halves::new(own, inb, out.span.len);
        if let Some(Halves { rx, .. }) = &mut self.halves {
            for slot in 0..rx.slots() {
                rx.give(out, slot, SLOTS).expect("it is here");
            }
        }
    }

    /// Receive what is there, or some of it.
    fn receive(&mut self, inb: &Own, out: &Far<'_>, most: u64, check: &mut Check, names: Names) {
        for _ in 0..most {
            let Some(halves) = self.halves.as_mut().filter(|_| !self.has_heard_end) else {
                return;
            };
            let mut room = [0; INLINE_MAX];
            match halves.rx.receive(inb, &mut room) {
                Ok(Some(message)) => {
                    let data = take(&mut halves.rx, inb, out, &message, &room);
                    let right = data == bytes(names.theirs, self.got, data.len());
                    assert!(
                        right && data.len() >= HEAD,
                        "a message is lost, torn, stale, twice or out of order"
                    );
                    self.got += 1;
                    check.totals.messages += 1;
                }
                Ok(None) => return,
                Err(Stop::Closed { .. }) => {
                    self.has_heard_end = true;
                    self.expect_all(check, names);
                }
                Err(Stop::Broken(Broken::Partner(BROKEN_OFF))) => self.break_off(),
                Err(Stop::Broken(why)) => panic!("an honest partner is taken for a liar: {why:?}"),
            }
        }
    }

    /// The partner has ended in order: nothing is missing.
    fn expect_all(&self, check: &Check, names: Names) {
        let sent = check.pairs.sent(names.theirs);
        assert_eq!(self.got, sent, "a message is missing");
    }

    fn break_off(&mut self) {
        (self.is_broken, self.has_heard_end) = (true, true);
    }

    /// Send some messages, as far as there is room.
    fn send(&mut self, inb: &Own, out: &Far<'_>, dice: &Dice, check: &mut Check, names: Names) {
        let Some(Halves { tx, .. }) = self.halves.as_mut().filter(|_| !self.is_closed) else {
            return;
        };
        for _ in 0..dice.below(8) {
            let number = check.pairs.sent(names.mine);
            let message =
                |most: usize| bytes(names.mine, number, HEAD + dice.pick(most + 1 - HEAD));
            let sent = match dice.once_in(2) {
                true => {
                    let sent = tx.send(inb, out, &Head::default(), &message(INLINE_MAX));
                    sent.map(drop)
                }
                false => send_slot(tx, inb, out, || message(SLOT)),
            };
            match sent {
                Ok(()) => check.pairs.note_sent(names.mine),
                Err(SendError::Full) => break,
                Err(SendError::Broken(Broken::Partner(BROKEN_OFF))) => return self.break_off(),
                Err(why) => panic!("nothing is sent: {why:?}"),
            }
        }
    }

    /// Push out what was stored; the partner looks by itself.
    fn publish(&mut self, inb: &Own, out: &Far<'_>) {
        if let Some(Halves { tx, rx }) = self.halves.as_mut().filter(|_| !self.is_broken) {
            let sent = tx.publish(inb, out);
            let taken = rx.publish(inb, out);
            sent.and(taken).expect("inside");
        }
    }

    /// End the pair, in order or not.
    fn end(&mut self, out: &Far<'_>, dice: &Dice) {
        let Some(Halves { tx, .. }) = self.halves.as_mut().filter(|_| !self.is_closed) else {
            return;
        };
        self.is_closed = true;
        if dice.once_in(4) {
            let end = End::Broken { reason: BROKEN_OFF };
            tell_end(out, end).expect("inside");
            self.break_off();
        } else {
            tx.close(out, 0).expect("inside");
        }
    }
}

/// The data of a message, of which nothing is left behind.
pub(super) fn take(
    rx: &mut Receiver<Vec<Held>>,
    inb: &Own,
    out: &Far<'_>,
    message: &Message,
    room: &[u8],
) -> Vec<u8> {
    match message.body {
        Body::Inline(len) => room[..len].to_vec(),
        Body::Slot { slot, part } => {
            let mut data = vec![0; part.len];
            inb.read(part.off, &mut data).expect("inside");
            rx.give(out, slot, SLOTS).expect("it is here");
            data
        }
        _ => panic!("nobody has sent that: {message:?}"),
    }
}

/// Send a message in a slot, if there is one.
fn send_slot(
    tx: &mut Sender<Vec<Link>, Vec<Queue>>,
    inb: &Own,
    out: &Far<'_>,
    message: impl FnOnce() -> Vec<u8>,
) -> Result<(), SendError> {
    let slot = tx.take_slot(inb, SLOTS)?.ok_or(SendError::Full)?;
    let data = message();
    out.write(slot.part().off, &data).expect("inside");
    let head = Head {
        stream: SLOTS,
        ..Head::default()
    };
    let sent = tx.send_slot(inb, out, &head, slot, data.len() as u32, &[]);
    sent.map(drop).map_err(|(slot, why)| {
        tx.put_back(slot);
        why
    })
}

impl Session {
    /// Whether it is a queue pair.
    pub(super) fn is_queue_pair(&self) -> bool {
        self.params.protocol == PROTOCOL
    }

    /// The process does what it does with its queue pair.
    fn run_queue_pair(&mut self, dice: &Dice, check: &mut Check) {
        if !self.is_queue_pair() || self.phase != Phase::Paired || self.mine.is_none() {
            return;
        }
        let (Some(piece), Some((memory, span))) = (&self.local, &self.remote) else {
            return;
        };
        let (Some(mine), Some(theirs)) = (self.mine, self.theirs) else {
            return;
        };
        let (names, inb) = (Names { mine, theirs }, Own::new(piece));
        let out = Far {
            memory,
            span: *span,
        };
        let side = &mut self.side;
        side.meet_partner(&inb, &out, dice, self.parted);
        if self.parted {
            // The partner has closed its session, and all that it has stored was there before.
            side.receive(&inb, &out, u64::MAX, check, names);
            if !side.is_broken {
                side.expect_all(check, names);
            }
            side.is_broken = true;
            return;
        }
        side.receive(&inb, &out, dice.below(12), check, names);
        side.send(&inb, &out, dice, check, names);
        if dice.once_in(16) {
            side.end(&out, dice);
        }
        side.publish(&inb, &out);
        // A thread that goes on elsewhere leaves nothing in this processor's buffers, such as the
        // bytes of a slot that was put back.
        out.mb();
        side.halves.iter().for_each(Halves::check);
    }
}

impl Host {
    /// Let processes send and receive over the queue pairs of a link.
    pub(super) fn run_queue_pairs(&mut self, k: usize) {
        let dice = self.env.dice.clone();
        let mut check = self.env.check.borrow_mut();
        if check.lying {
            return;
        }
        for session in &mut self.ports[k].user.sessions {
            session.run_queue_pair(&dice, &mut check);
        }
    }
}
