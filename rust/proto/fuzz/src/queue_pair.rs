// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! A side of a queue pair.

use mp_proto::memory::Outbound;
use mp_proto::queue_pair::{
    Body, Head, Held, Hello, Layout, Link, Queue, Receiver, Sender, Wants, INLINE_MAX,
};

use crate::input::{Input, Memory};

/// Bytes of each window of a queue pair.
const WINDOW: usize = 4096;

/// A side of a queue pair whose partner writes anything: what it is told lies inside, its slots
/// are its own, and its books are in order.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (own, far) = (Memory::new(WINDOW), Memory::new(WINDOW));
    own.put(0, input.take(72));
    if let Ok(Some((hello, terms))) = Hello::look(&own, WINDOW as u64) {
        assert!(hello.layout.check(WINDOW as u64).is_ok());
        assert_eq!(terms.version, 1);
    }
    let wants = Wants {
        lines: 8,
        free: 8,
        slots: 4,
        slot_size: 128,
        streams: 2,
    };
    let layout = Layout::plan(WINDOW as u64, &wants).expect("fits");
    let (links, queues) = (vec![Link::default(); 4], vec![Queue::default(); 2]);
    let mut tx = Sender::new(layout, layout, links, queues).expect("long enough");
    let mut rx = Receiver::new(layout, layout, vec![Held::default(); 4]).expect("long enough");
    let mut here = vec![0, 1, 2, 3];
    let mut room = [0; INLINE_MAX];
    while !input.is_empty() {
        let byte = input.byte();
        let head = Head {
            stream: u16::from(byte >> 4 & 1),
            ..Head::default()
        };
        match byte % 8 {
            0 => {
                // A line of the ring, its words nearly of the first lap.
                let at = layout.lines_off as usize + usize::from(byte >> 3 & 7) * 64;
                for n in 0..8 {
                    let word = input.u64() & !(0xff << 56) | u64::from(byte >> 6 | 1) << 56;
                    own.put(at + 8 * n, &word.to_le_bytes());
                }
            }
            1 => {
                let at = usize::from(input.byte()) * 16;
                own.put(at, &input.array::<8>());
            }
            2 => match rx.receive(&own, &mut room) {
                Ok(Some(message)) => match message.body {
                    Body::Inline(len) => assert!(len <= INLINE_MAX),
                    Body::Slot { slot, part } => {
                        assert!(!here.contains(&slot) && part.len <= 128);
                        assert!(part.off + part.len <= WINDOW);
                        here.push(slot);
                    }
                    Body::Placed { part, .. } => assert!(part.off + part.len <= WINDOW),
                    Body::Advertised { off, len, .. } => {
                        assert!(off + u64::from(len) <= layout.buffers_len);
                    }
                },
                Ok(None) => {}
                Err(stop) => assert_eq!(rx.receive(&own, &mut room), Err(stop)),
            },
            3 => {
                if let Some(slot) = here.pop() {
                    if rx.give(&far, slot, head.stream).is_err() {
                        return;
                    }
                    assert!(rx.give(&far, slot, head.stream).is_err(), "given twice");
                }
            }
            4 => {
                let bytes = input.take(usize::from(byte));
                let _ = tx.send(&own, &far, &head, bytes);
            }
            5 => {
                if let Ok(Some(slot)) = tx.take_slot(&own, head.stream) {
                    let part = slot.part();
                    far.write(part.off, &vec![1; part.len]).expect("inside");
                    if let Err((slot, _)) = tx.send_slot(&own, &far, &head, slot, 128, b"") {
                        tx.put_back(slot);
                    }
                }
            }
            6 => {
                rx.acknowledge(u64::from(byte));
                let _ = (tx.publish(&own, &far), rx.publish(&own, &far));
            }
            _ => {
                let _ = (rx.arm_data(&own, &far), tx.arm_space(&own, &far));
                let _ = tx.acknowledged(&own);
            }
        }
        assert_eq!(tx.invariants(), Ok(()));
        assert_eq!(rx.invariants(), Ok(()));
    }
}
