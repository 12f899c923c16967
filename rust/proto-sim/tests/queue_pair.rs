// SPDX-License-Identifier: GPL-2.0-only

//! Queue pairs over the simulator's wires: lines leave the processor in pieces and in any order,
//! and become visible word by word; writes are posted and late.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use mp_proto::memory::{Inbound, Outbound};
use mp_proto::queue_pair::{
    Body, Head, Held, Hello, Layout, Link, Queue, Receiver, SendError, Sender, Wants, INLINE_MAX,
};
use mp_sim::dice::Dice;
use mp_sim::wire::{Near, Window, Wire};

const WINDOW: usize = 8192;
const SLOT: usize = 256;

fn layout() -> Layout {
    let wants = Wants {
        lines: 16,
        free: 8,
        slots: 4,
        slot_size: SLOT as u32,
        streams: 2,
    };
    Layout::plan(WINDOW as u64, &wants).expect("fits")
}

/// What a run leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Missing {
    Nothing,
    /// The fence before a line that tells of a slot.
    Fence,
    /// The question before a side sleeps.
    Question,
}

/// A window without store fences, where that is what is missing.
struct Out {
    window: Window,
    fences: bool,
}

impl Outbound for Out {
    fn size(&self) -> usize {
        self.window.size()
    }
    fn store_u64(&self, off: usize, val: u64) -> Result<(), mp_proto::memory::OutOfBounds> {
        self.window.store_u64(off, val)
    }
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), mp_proto::memory::OutOfBounds> {
        self.window.write(off, buf)
    }
    fn wmb(&self) {
        if self.fences {
            self.window.wmb();
        }
    }
    fn release(&self) {
        self.window.release();
    }
    fn mb(&self) {
        self.window.mb();
    }
}

struct Side {
    near: Near,
    out: Out,
    tx: Sender<Vec<Link>, Vec<Queue>>,
    rx: Receiver<Vec<Held>>,
    /// Messages of the partner: how many were sent, and what the next one has to be.
    expected: VecDeque<(u8, usize)>,
    asleep: bool,
    sent: u64,
    received: u64,
}

/// Everything that was posted on a wire arrives; what the processor still holds does not.
fn arrive(wire: &Rc<RefCell<Wire>>) {
    loop {
        let before = wire.borrow().arrived;
        wire.borrow_mut().deliver_one();
        if wire.borrow().arrived == before {
            break;
        }
    }
}

/// A line that was split leaves parts behind: they arrive as well.
fn settle(wire: &Rc<RefCell<Wire>>) {
    wire.borrow_mut().flush_all();
    arrive(wire);
}

fn sides(seed: u64, missing: Missing) -> [Side; 2] {
    let dice = Dice::new(seed, 1);
    let bytes = [0, 1].map(|_| Rc::new(RefCell::new(vec![0; WINDOW])));
    // Wire 0 leads to the second side.
    let wires = [0, 1].map(|n: usize| {
        let wire = Wire::new(50_000, Dice::new(seed, 2 + n as u64));
        wire.borrow_mut().target = Some(bytes[1 - n].clone());
        wire
    });
    for wire in &wires {
        let window = Window {
            wire: wire.clone(),
            len: WINDOW,
            cpu: Rc::new(Cell::new(0)),
        };
        Hello::new(layout()).tell(&window).expect("inside");
        settle(wire);
    }
    [0, 1].map(|n: usize| {
        let near = Near {
            bytes: bytes[n].clone(),
            wire: wires[1 - n].clone(),
            races: true,
            dice: dice.clone(),
        };
        let (hello, _) = Hello::look(&near, WINDOW as u64)
            .expect("good")
            .expect("there");
        let peer = hello.layout;
        let (links, queues) = (vec![Link::default(); 4], vec![Queue::default(); 2]);
        let out = Out {
            window: Window {
                wire: wires[n].clone(),
                len: WINDOW,
                cpu: Rc::new(Cell::new(0)),
            },
            fences: missing != Missing::Fence,
        };
        let mut side = Side {
            near,
            out,
            tx: Sender::new(layout(), peer, links, queues).expect("long enough"),
            rx: Receiver::new(layout(), peer, vec![Held::default(); 4]).expect("long enough"),
            expected: VecDeque::new(),
            asleep: false,
            sent: 0,
            received: 0,
        };
        for slot in 0..4 {
            side.rx.give(&side.out, slot, 1).expect("here");
        }
        side
    })
}

impl Side {
    fn check(&self) {
        self.tx.invariants().expect("a sender");
        self.rx.invariants().expect("a receiver");
    }

    /// Send something; what, if there was room.
    fn send(&mut self, dice: &Dice) -> Option<(u8, usize)> {
        let byte = self.sent as u8;
        let len = if dice.once_in(2) {
            let len = dice.pick(INLINE_MAX + 1);
            let data = vec![byte; len];
            match self.tx.send(&self.near, &self.out, &Head::default(), &data) {
                Ok(_) => len,
                Err(SendError::Full) => return None,
                Err(e) => panic!("{e:?}"),
            }
        } else {
            let slot = self.tx.take_slot(&self.near, 1).expect("honest")?;
            let len = dice.pick(SLOT + 1);
            self.out
                .write(slot.part().off, &vec![byte; len])
                .expect("inside");
            let head = Head {
                stream: 1,
                ..Head::default()
            };
            let sent =
                self.tx
                    .send_slot(&self.near, &self.out, &head, slot, len as u32, &[byte; 40]);
            match sent {
                Ok(_) => len,
                Err((slot, SendError::Full)) => {
                    self.tx.put_back(slot);
                    return None;
                }
                Err((_, e)) => panic!("{e:?}"),
            }
        };
        self.sent += 1;
        Some((byte, len))
    }

    /// Receive a message, if there is one, and check it.
    fn receive(&mut self) -> bool {
        let mut room = [0; INLINE_MAX];
        let message = self.rx.receive(&self.near, &mut room);
        let Some(message) = message.expect("an honest partner") else {
            return false;
        };
        let (byte, len) = self.expected.pop_front().expect("it was sent");
        let data = match message.body {
            Body::Inline(len) => room[..len].to_vec(),
            Body::Slot { slot, part } => {
                let mut data = vec![0; part.len];
                self.near.read(part.off, &mut data).expect("inside");
                self.rx.give(&self.out, slot, 1).expect("held");
                data
            }
            _ => panic!("{message:?}"),
        };
        assert!(data == vec![byte; len], "torn, stale or out of order");
        self.received += 1;
        true
    }

    /// Publish; whether the partner has to be signalled.
    fn publish(&mut self) -> bool {
        let sent = self.tx.publish(&self.near, &self.out).expect("inside");
        let took = self.rx.publish(&self.near, &self.out).expect("inside");
        sent || took
    }
}

fn play(seed: u64, missing: Missing) {
    let dice = Dice::new(seed, 0);
    let mut sides = sides(seed, missing);
    for _ in 0..400 {
        let n = dice.pick(2);
        let [first, last] = &mut sides;
        let (me, it) = if n == 0 { (first, last) } else { (last, first) };
        let mut signal = false;
        match dice.pick(8) {
            _ if me.asleep => me.near.wire.borrow_mut().deliver_one(),
            0 | 1 => it.expected.extend(me.send(&dice)),
            2 | 3 => drop(me.receive()),
            4 => signal = me.publish(),
            5 => me.out.window.wire.borrow_mut().deliver_one(),
            6 => me.near.wire.borrow_mut().deliver_one(),
            _ => {
                signal = me.rx.arm_data(&me.near, &me.out).expect("inside");
                signal |= me.tx.publish(&me.near, &me.out).expect("inside");
                if missing != Missing::Question {
                    // The question arrives behind the arm word, the answer behind all that the
                    // partner has posted before.
                    arrive(&me.out.window.wire);
                    arrive(&me.near.wire);
                }
                me.asleep = !me.receive();
            }
        }
        if signal {
            // The kernel's signal arrives behind all that was posted before.
            arrive(&me.out.window.wire);
            it.asleep = false;
        }
        me.check();
    }
    // Both publish what they have; whoever sleeps and is not signalled must have nothing to do.
    for n in 0..2 {
        let [first, last] = &mut sides;
        let (me, it) = if n == 0 { (first, last) } else { (last, first) };
        if me.publish() {
            it.asleep = false;
        }
    }
    let wires = sides.each_ref().map(|side| side.out.window.wire.clone());
    wires.iter().for_each(settle);
    for side in &mut sides {
        let had = side.receive();
        assert!(!had || !side.asleep, "a side sleeps and has a message");
        while side.receive() {}
        assert!(side.expected.is_empty(), "a message is lost");
        side.check();
    }
}

fn seeds(count: u64, missing: Missing) -> u64 {
    let mut received = 0;
    for seed in 0..count {
        let failed = std::panic::catch_unwind(|| play(seed, missing));
        if let Err(cause) = failed {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(cause);
        }
        received += 1;
    }
    received
}

#[test]
fn messages_arrive_whole_once_in_order_and_no_wake_up_is_lost() {
    assert_eq!(seeds(3000, Missing::Nothing), 3000);
}

#[test]
#[should_panic(expected = "torn, stale or out of order")]
fn without_the_fence_before_the_line_a_slot_is_torn() {
    seeds(3000, Missing::Fence);
}

#[test]
#[should_panic(expected = "a side sleeps and has a message")]
fn without_the_question_a_wake_up_is_lost() {
    seeds(3000, Missing::Question);
}
