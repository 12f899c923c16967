// SPDX-License-Identifier: GPL-2.0-only

//! The rings of two hosts, called as programs call them, without the hosts around them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mp_proto::layout::Layout;
use mp_proto::ring::Ringing;
use mp_proto::wire::{Envelope, MsgHdr, PeerId, Priority, Tag};
use mp_sim::channel::{Channel, Frame, Making, SendError};
use mp_sim::dice::Dice;
use mp_sim::wire::{Near, Window, Wire};

const LEN: usize = 256 << 10;
const EPOCHS: [u64; 2] = [11, 22];

/// Two channels that lead to each other, and the wires between them.
struct Two {
    ends: [Channel; 2],
    wires: [Rc<RefCell<Wire>>; 2],
}

impl Two {
    fn new() -> Two {
        let layout = Layout::plan(LEN as u64, 1).expect("large enough");
        let wires = [0, 1].map(|k| Wire::new(100, Dice::new(1, k)));
        let memories = [0, 1].map(|_| Rc::new(RefCell::new(vec![0; LEN])));
        let end = |k: usize| {
            // Wire `k` leads from host `k` to the other one.
            wires[k].borrow_mut().target = Some(memories[1 - k].clone());
            let made = Making {
                port: 0,
                epochs: (EPOCHS[k], EPOCHS[1 - k]),
                tags: (
                    Tag::new(EPOCHS[k], EPOCHS[1 - k]),
                    Tag::new(EPOCHS[1 - k], EPOCHS[k]),
                ),
                ringing: Ringing::Level,
                near: Near {
                    bytes: memories[k].clone(),
                    wire: wires[1 - k].clone(),
                    races: false,
                    dice: Dice::new(2, k as u64),
                },
                far: Window {
                    wire: wires[k].clone(),
                    len: LEN,
                    cpu: Rc::new(Cell::new(0)),
                },
                bells: Rc::default(),
                dice: Dice::new(3, k as u64),
                keeps: 0,
                tainted: false,
            };
            Channel::new(made, &layout, &layout)
        };
        let ends = [end(0), end(1)];
        Two { ends, wires }
    }

    /// Let everything arrive that was stored.
    fn settle(&self) {
        for wire in &self.wires {
            let mut wire = wire.borrow_mut();
            wire.flush_all();
            let last = wire.last();
            wire.deliver(last);
        }
    }

    /// Host 1 receives what has arrived; whole frames.
    fn receive(&mut self) -> Vec<Vec<u8>> {
        self.settle();
        let (mut done, mut got) = (0, Vec::new());
        while let Some(frame) = self.ends[1].receive(1, 1000, &mut done) {
            got.push(frame.data);
        }
        self.ends[1].end_poll(1);
        self.settle();
        got
    }
}

/// Send a frame with so many bytes of data.
fn send(channel: &mut Channel, len: usize) -> Result<u32, SendError> {
    let frame = Rc::new(Frame {
        func: 7,
        func_hdr: vec![1, 2, 3],
        data: data(len),
        priority: Priority::Bulk,
    });
    let head = Envelope::from(MsgHdr {
        dst: PeerId::from_bdf(2, 0, 0),
        src: PeerId::from_bdf(1, 0, 0),
        len: (frame.func_hdr.len() + len) as u32,
        func: frame.func,
    });
    channel.send(&head, &frame, 0)
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

/// A sender that asks for room sends the rest of the frame before, and is told of room only once
/// nothing of that is left.
#[test]
fn the_rest_of_a_frame_goes_before_a_sender_is_told_of_room() {
    // Two records, of which one fits behind the short frame.
    const LONG: usize = 120_000;
    const SHORT: usize = 20_000;
    let mut two = Two::new();
    send(&mut two.ends[0], SHORT).expect("the ring is empty");
    send(&mut two.ends[0], LONG).expect("its first record fits");
    assert_eq!(send(&mut two.ends[0], SHORT), Err(SendError::Full));
    assert!(two.receive() == [data(SHORT)]);
    // No poll reports what has been consumed.
    let (has_room, _) = two.ends[0].arm_tx(0);
    assert!(has_room, "all that was sent has been consumed");
    send(&mut two.ends[0], SHORT).expect("there is room");
    two.ends[0].kick(0);
    assert!(two.receive() == [data(LONG), data(SHORT)]);
}
