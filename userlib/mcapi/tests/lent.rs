// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets of shared memory: the sender is told which of them the receiver has released.

mod common;

use common::{
    ends::{close, packets, until, Ends},
    soon, Hosts, TestNode,
};
use mcapi::{Attribute, Completion, MemoryType, Packet};
use mp_testing::Host;
use proptest::prelude::*;
use std::collections::VecDeque;

const SHARED: (Attribute, u64) = (Attribute::MemoryType, MemoryType::Shared as u64);
const SMALL: (Attribute, u64) = (Attribute::MaxPayloadSize, 64);
/// Packets of that size that can be sent and not released.
const SLOTS: usize = 16;
/// Places in the sender's memory that packets are sent from.
const PLACES: usize = 6;

/// What a test does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Send what is at a place, by a call that does not wait.
    Send(usize),
    /// Receive a packet, if one was sent.
    Receive,
    /// Release one of the packets that the receiver has.
    Release(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..PLACES).prop_map(Step::Send),
        3 => Just(Step::Receive),
        2 => any::<usize>().prop_map(Step::Release),
    ];
    prop::collection::vec(step, 1..120)
}

/// What the ends have, as the rules say.
struct Model<'a> {
    ends: Ends<'a>,
    places: [[u8; 64]; PLACES],
    /// Places of packets that were sent and not received, and packets that the receiver has.
    sent: VecDeque<usize>,
    held: Vec<(usize, Packet)>,
}

impl<'a> Model<'a> {
    fn new(ends: Ends<'a>) -> Self {
        Model {
            ends,
            places: std::array::from_fn(|place| [place as u8; 64]),
            sent: VecDeque::new(),
            held: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        let Ends { a, b, .. } = self.ends;
        match step {
            // Some wait for a slot.
            Step::Send(place) if self.sent.len() + self.held.len() < 2 * SLOTS => {
                let data = &self.places[place];
                a.pktchan_send_i(self.ends.send, data).unwrap();
                self.sent.push_back(place);
            }
            Step::Receive if self.held.len() < SLOTS => {
                if let Some(place) = self.sent.pop_front() {
                    let packet = b.pktchan_recv(self.ends.receive).unwrap();
                    let mut data = [0; 64];
                    assert_eq!(packet.read(&mut data), 64);
                    assert_eq!(data, self.places[place]);
                    self.held.push((place, packet));
                }
            }
            Step::Release(n) if !self.held.is_empty() => {
                let (_, packet) = self.held.swap_remove(n % self.held.len());
                b.pktchan_release(packet.address()).unwrap();
            }
            _ => {}
        }
    }

    /// The sender is told of each place what is so: at once that it is lent, and soon that it is not.
    fn check(&self) {
        let held = self.held.iter().map(|(place, _)| place);
        let lent: Vec<_> = held.chain(&self.sent).collect();
        for (n, place) in self.places.iter().enumerate() {
            let is_lent = || self.ends.a.pktchan_is_lent(at(place)).unwrap();
            match lent.contains(&&n) {
                true => assert!(is_lent(), "place {n} of {lent:?}"),
                false => until(|| !is_lent()),
            }
        }
    }
}

fn at(place: &[u8; 64]) -> usize {
    place.as_ptr().addr()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// MC-PKTRELTEST-1, MC-BUF-5, MC-PKTREL-1: whatever is sent, received and released, and in whichever order;
    /// also when both ends are closed while the receiver has packets.
    #[test]
    fn the_sender_knows_what_was_released(steps in steps()) {
        for (_hosts, a, b) in Hosts::pairs() {
            let mut model = Model::new(packets(&a, &b, &[SHARED, SMALL]));
            for step in &steps {
                model.step(*step);
                model.check();
            }
            let waits = model.sent.len() + model.held.len() > SLOTS;
            if waits {
                continue;
            }
            close(&model.ends);
            // What was not received was discarded.
            model.sent.clear();
            model.check();
            while !model.held.is_empty() {
                model.step(Step::Release(0));
                model.check();
            }
        }
    }
}

/// A packet that was sent from a place, and received.
fn lend(ends: &Ends<'_>, place: &[u8; 64]) -> Packet {
    ends.a.pktchan_send(ends.send, place).unwrap();
    let packet = ends.b.pktchan_recv(ends.receive).unwrap();
    assert_eq!(ends.a.pktchan_is_lent(at(place)), Ok(true));
    packet
}

/// MC-PKTRELTEST-1: when the receiving node or its link has gone, nobody will release what it has.
#[test]
fn what_a_node_had_that_has_gone_is_lent_no_more() {
    for is_closed in [false, true] {
        for (_hosts, a, b) in Hosts::pairs() {
            let place = [1; 64];
            let ends = packets(&a, &b, &[SHARED, SMALL]);
            lend(&ends, &place);
            if is_closed {
                close(&ends);
                assert_eq!(a.pktchan_is_lent(at(&place)), Ok(true));
            }
            b.finalize().unwrap();
            until(|| a.pktchan_is_lent(at(&place)) == Ok(false));
        }
        let hosts = Hosts::new();
        let [a, b] = [(Host::A, 1), (Host::B, 2)].map(|(host, number)| hosts.node(host, number));
        let place = [2; 64];
        let ends = packets(&a, &b, &[SHARED, SMALL]);
        lend(&ends, &place);
        if is_closed {
            close(&ends);
        }
        hosts.world.set_up(0, false);
        until(|| a.pktchan_is_lent(at(&place)) == Ok(false));
    }
}

/// MC-PKTRELTEST-1, MC-CHAN-12: what was not received when the receiving end was closed is lent no more,
/// also what arrives then; what the receiver has is.
#[test]
fn what_a_closed_end_has_not_received_is_lent_no_more() {
    for (_hosts, a, b) in Hosts::pairs() {
        let places = [[1; 64], [2; 64], [3; 64]];
        let ends = packets(&a, &b, &[SHARED, SMALL]);
        let packet = lend(&ends, &places[0]);
        a.pktchan_send(ends.send, &places[1]).unwrap();
        let closing = b.pktchan_recv_close_i(ends.receive).unwrap();
        // The sender is told of it by and by.
        while a.pktchan_send(ends.send, &places[2]).is_ok() {}
        let lent = |place| a.pktchan_is_lent(at(place)).unwrap();
        until(|| !lent(&places[1]) && !lent(&places[2]));
        assert!(lent(&places[0]));
        b.pktchan_release(packet.address()).unwrap();
        until(|| !lent(&places[0]));
        let last = a.pktchan_send_close_i(ends.send).unwrap();
        assert_eq!(a.wait(last, soon()), Ok(Completion::Closed));
        assert_eq!(b.wait(closing, soon()), Ok(Completion::Closed));
    }
}

/// MC-PKTRELTEST-2: what is sent by endpoints of local memory, or in state buffers, is not lent.
#[test]
fn packets_of_local_memory_and_values_are_not_lent() {
    let state = (Attribute::BufferType, 1);
    for attributes in [&[SMALL][..], &[SMALL, state], &[SMALL, state, SHARED]] {
        for (_hosts, a, b) in Hosts::pairs() {
            let place = [1; 64];
            let ends = packets(&a, &b, attributes);
            a.pktchan_send(ends.send, &place).unwrap();
            let packet = b.pktchan_recv(ends.receive).unwrap();
            assert_eq!(a.pktchan_is_lent(at(&place)), Ok(false));
            assert!(!a.pktchan_lends(ends.send));
            b.pktchan_release(packet.address()).unwrap();
        }
    }
}

/// MC-CANCEL-4: a send that waits is lent, and is not when it was cancelled.
#[test]
fn a_send_that_was_cancelled_is_not_lent() {
    for (_hosts, a, b) in Hosts::pairs() {
        let (full, place) = ([1; 64], [2; 64]);
        let ends = packets(&a, &b, &[SHARED, SMALL]);
        assert!(a.pktchan_lends(ends.send) && !b.pktchan_lends(ends.receive));
        for _ in 0..SLOTS {
            a.pktchan_send(ends.send, &full).unwrap();
        }
        let lent = |node: &TestNode| node.pktchan_is_lent(at(&place));
        let waits = a.pktchan_send_i(ends.send, &place).unwrap();
        assert_eq!([lent(&a), lent(&b)], [Ok(true), Ok(false)]);
        a.cancel(waits).unwrap();
        assert_eq!(lent(&a), Ok(false));
    }
}
