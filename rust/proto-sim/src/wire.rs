// SPDX-License-Identifier: GPL-2.0-only

//! One direction of a link: what a host stores through its window and how it gets into the other
//! host's memory. `Documentation/simulator.md` says why the model is this one.
//!
//! 1. A store goes into the write-combining buffers of the processor that executes it, which are
//!    `mp_bridge_model`'s. An access to a register empties them as a fence does, and [`DRAIN`] at
//!    the latest.
//! 2. What was written out is posted (`mp_bridge_model::Way`). Posted writes of one sender to one
//!    target stay in order, registers among them; between senders there is no order. They take their
//!    time.
//! 3. A line arrives in words of 8 bytes, in any order; the reader may look in between.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use mp_bridge_model::{Buffers, Line, Way, LINE};
use mp_proto::mailbox;
use mp_proto::memory::{Inbound, OutOfBounds, Outbound};

use crate::dice::Dice;

/// Processors of a host that store through windows.
pub const CPUS: usize = 2;
/// Nanoseconds after which interrupts have emptied all buffers.
const DRAIN: u64 = 2_000_000;

/// Bytes of a host's memory.
pub type Bytes = Rc<RefCell<Vec<u8>>>;

/// What happens to writes under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// They arrive.
    No,
    /// They wait, and arrive later.
    Stalled,
    /// They are lost.
    Lost,
}

/// A write on its way.
enum Posted {
    Memory(Line),
    Pad(usize, u32),
    Message(u32),
}

/// One direction of a link.
pub struct Wire {
    open: [Buffers; CPUS],
    opened: u64,
    posted: Way<Posted>,
    /// Where the window leads to; `None` while nobody is there.
    pub target: Option<Bytes>,
    /// The scratchpads that the sender writes for the target. They outlive both.
    pub pads: [u32; mailbox::WORDS],
    /// Messages that the target has not read.
    pub messages: VecDeque<u32>,
    /// What happens to what arrives now.
    pub cut: Cut,
    /// Writes that arrived, and that were lost.
    pub arrived: u64,
    /// See above.
    pub lost: u64,
    now: u64,
    dice: Dice,
}

impl Wire {
    /// A wire on which writes take less than `delay` nanoseconds.
    pub fn new(delay: u64, dice: Dice) -> Rc<RefCell<Wire>> {
        Rc::new(RefCell::new(Wire {
            open: Default::default(),
            opened: 0,
            posted: Way::new(delay),
            target: None,
            pads: dice.one_of(&[[0; 4], [u32::MAX; 4]]),
            messages: VecDeque::new(),
            cut: Cut::No,
            arrived: 0,
            lost: 0,
            now: 0,
            dice,
        }))
    }

    /// What was posted goes from here on at that time.
    pub fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    fn store(&mut self, cpu: usize, off: usize, bytes: &[u8]) {
        if self.open.iter().all(Buffers::is_empty) {
            self.opened = self.now;
        }
        self.with_buffers(cpu, |open, dice, post| open.store(off, bytes, dice, post));
    }

    /// Write all buffers of a processor out.
    pub fn flush(&mut self, cpu: usize) {
        self.with_buffers(cpu, |open, dice, post| open.flush(dice, post));
    }

    fn with_buffers(
        &mut self,
        cpu: usize,
        work: impl FnOnce(&mut Buffers, &Dice, &mut dyn FnMut(Line)),
    ) {
        let mut open = std::mem::take(&mut self.open[cpu]);
        let dice = self.dice.clone();
        work(&mut open, &dice, &mut |line| {
            self.post(Posted::Memory(line))
        });
        self.open[cpu] = open;
    }

    /// Write all buffers of all processors out: all have been interrupted.
    pub fn flush_all(&mut self) {
        for cpu in 0..CPUS {
            self.flush(cpu);
        }
    }

    /// A store to a scratchpad of the target.
    pub fn store_pad(&mut self, cpu: usize, at: usize, val: u32) {
        self.flush(cpu);
        self.post(Posted::Pad(at, val));
    }

    /// Send a message, if the target's register has room.
    pub fn send_message(&mut self, cpu: usize, message: u32) -> bool {
        let under_way = self.posted.iter();
        let under_way = under_way.filter(|what| matches!(what, Posted::Message(_)));
        if self.messages.len() + under_way.count() >= 4 {
            return false;
        }
        self.flush(cpu);
        self.post(Posted::Message(message));
        true
    }

    fn post(&mut self, what: Posted) {
        self.posted.post(self.now, what, &self.dice);
    }

    /// When all that is posted has arrived, if nothing holds it up.
    pub fn last(&self) -> u64 {
        self.posted.last()
    }

    /// When something happens here next.
    pub fn due(&self) -> Option<u64> {
        let front = self.posted.due();
        let open = self.open.iter().any(|open| !open.is_empty());
        let drain = open.then_some(self.opened + DRAIN);
        match (front, drain) {
            _ if self.cut == Cut::Stalled => drain,
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Deliver what is due.
    pub fn deliver(&mut self, now: u64) {
        self.now = now;
        if self.opened + DRAIN <= now {
            self.flush_all();
            self.opened = now;
        }
        while self.posted.due().is_some_and(|at| at <= now) && self.next() {}
    }

    /// Let the next write arrive before its time: the target looks just then.
    pub fn deliver_one(&mut self) {
        self.next();
    }

    /// Deliver the next write, or a part of it; `false` if nothing can arrive.
    fn next(&mut self) -> bool {
        if self.cut == Cut::Stalled {
            return false;
        }
        let Some((at, mut what)) = self.posted.take() else {
            return false;
        };
        if self.cut == Cut::Lost {
            self.lost += 1;
            return true;
        }
        self.arrived += 1;
        match &mut what {
            Posted::Pad(at, val) => self.pads[*at] = *val,
            Posted::Message(message) => self.messages.push_back(*message),
            Posted::Memory(line) => {
                let now = line.arriving(&self.dice);
                if let Some(target) = &self.target {
                    apply(&mut target.borrow_mut(), line, now);
                }
                if line.set != 0 {
                    self.posted.put_back((at, what));
                }
            }
        }
        true
    }

    /// Forget what is under way: the sender has lost its power.
    pub fn drop_open(&mut self) {
        self.open = Default::default();
    }

    /// Lose what is under way for ever.
    pub fn lose(&mut self) {
        self.lost += self.posted.lose() as u64;
    }
}

fn apply(target: &mut [u8], line: &Line, set: u64) {
    let Some(room) = target.get_mut(line.at..line.at + LINE) else {
        return;
    };
    if set == u64::MAX {
        room.copy_from_slice(&line.data);
        return;
    }
    for (n, byte) in room.iter_mut().enumerate() {
        if set >> n & 1 != 0 {
            *byte = line.data[n];
        }
    }
}

/// What a host can do with the peer's memory.
#[derive(Clone)]
pub struct Window {
    /// The way there.
    pub wire: Rc<RefCell<Wire>>,
    /// Bytes that can be reached.
    pub len: usize,
    /// The processor that runs now.
    pub cpu: Rc<Cell<usize>>,
}

impl Outbound for Window {
    fn size(&self) -> usize {
        self.len
    }
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        self.write(off, &val.to_le_bytes())
    }
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        let end = off.checked_add(buf.len()).ok_or(OutOfBounds)?;
        if end > self.len {
            return Err(OutOfBounds);
        }
        self.wire.borrow_mut().store(self.cpu.get(), off, buf);
        Ok(())
    }
    fn wmb(&self) {
        self.wire.borrow_mut().flush(self.cpu.get());
    }
    fn release(&self) {
        self.wmb();
    }
    fn mb(&self) {
        self.wmb();
    }
}

/// Memory of a host that a peer writes.
#[derive(Clone)]
pub struct Near {
    /// The bytes.
    pub bytes: Bytes,
    /// The way from the peer.
    pub wire: Rc<RefCell<Wire>>,
    /// Its writes may arrive between any two loads.
    pub races: bool,
    /// Chance.
    pub dice: Dice,
}

impl Near {
    /// The same, while nothing arrives.
    pub fn still(&self) -> Near {
        Near {
            races: false,
            ..self.clone()
        }
    }

    fn race(&self) {
        if self.races && self.dice.once_in(8) {
            self.wire.borrow_mut().deliver_one();
        }
    }
}

impl Inbound for Near {
    fn size(&self) -> usize {
        self.bytes.borrow().len()
    }
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        self.race();
        let mem = self.bytes.borrow();
        let word = mem.get(off..).and_then(|b| b.first_chunk());
        word.map(|b| u64::from_le_bytes(*b)).ok_or(OutOfBounds)
    }
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        let end = off.checked_add(buf.len()).ok_or(OutOfBounds)?;
        // Another write may arrive between any two words; one place is as good as many.
        let at = (buf.len() / 16 * 8).min(buf.len());
        let (a, b) = buf.split_at_mut(at);
        self.race();
        a.copy_from_slice(self.bytes.borrow().get(off..off + at).ok_or(OutOfBounds)?);
        self.race();
        b.copy_from_slice(self.bytes.borrow().get(off + at..end).ok_or(OutOfBounds)?);
        Ok(())
    }
    fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds> {
        let end = off.checked_add(len).ok_or(OutOfBounds)?;
        let mut mem = self.bytes.borrow_mut();
        mem.get_mut(off..end).ok_or(OutOfBounds)?.fill(0);
        Ok(())
    }
    fn rmb(&self) {}
}
