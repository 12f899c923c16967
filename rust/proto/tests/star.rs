// SPDX-License-Identifier: GPL-2.0

//! A star in one process: up to seven endpoints that only the root processor has links to, under a
//! seeded scheduler. Links go down with all that is on them and come up again, messages and frames
//! take their time, control overtakes data, receivers are slow.
//!
//! After every step: nothing that a host takes is from an earlier life, comes twice or out of
//! order; the root processor keeps no more than the credits allow. In the end, when no link fails
//! any more: everybody knows everybody, and all that was sent since has arrived.

use mp_proto::flow::{cost, Meter, Window, WINDOW};
use mp_proto::herald::{self, Herald, Member};
use mp_proto::manage::{Lane, Message};
use mp_proto::route::{verdict, Verdict};
use mp_proto::wire::{PeerData, PeerId, WayTag};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const MOST: usize = 8;
/// Frames that a data ring takes.
const RING: usize = 4;
const LEN: usize = 60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    src: PeerId,
    dst: PeerId,
    way: WayTag,
    /// Lives of both ends when it was sent, and its number among those of its way; what a real
    /// host does not know.
    lives: (u32, u32),
    number: u32,
}

/// One direction of a link.
#[derive(Default)]
struct Pipe {
    control: VecDeque<Message>,
    data: VecDeque<Frame>,
}

/// What an endpoint knows of another one.
struct Far {
    way: WayTag,
    open: bool,
    window: Window,
    asked: bool,
    /// Frames sent and taken.
    sent: u32,
    taken: u32,
}

struct Endpoint {
    id: PeerId,
    up: bool,
    life: u32,
    to_root: Pipe,
    from_root: Pipe,
    far: BTreeMap<PeerId, Far>,
}

struct Flow {
    way: WayTag,
    meter: Meter,
    waiting: VecDeque<Frame>,
}

struct Star {
    endpoints: Vec<Endpoint>,
    heralds: BTreeMap<PeerId, Herald<MOST>>,
    flows: BTreeMap<(PeerId, PeerId), Flow>,
    next_life: u32,
    delivered: usize,
}

fn member(e: &Endpoint) -> Member {
    Member {
        id: e.id,
        life: e.life,
        bridge: u64::from(e.id.0),
        data: PeerData::default(),
    }
}

impl Star {
    fn new(endpoints: usize) -> Star {
        let endpoint = |n| Endpoint {
            id: PeerId::from_bdf(n, 0, 0),
            up: false,
            life: 0,
            to_root: Pipe::default(),
            from_root: Pipe::default(),
            far: BTreeMap::new(),
        };
        Star {
            endpoints: (1..).take(endpoints).map(endpoint).collect(),
            heralds: BTreeMap::new(),
            flows: BTreeMap::new(),
            next_life: 1,
            delivered: 0,
        }
    }

    fn members(&self) -> Vec<Member> {
        let up = self.endpoints.iter().filter(|e| e.up);
        up.map(member).collect()
    }

    fn at(&self, id: PeerId) -> usize {
        let place = self.endpoints.iter().position(|e| e.id == id);
        place.expect("an endpoint's id")
    }

    /// The link of an endpoint goes down or comes up.
    fn toggle(&mut self, n: usize) {
        let e = &mut self.endpoints[n];
        let id = e.id;
        e.up = !e.up;
        e.to_root = Pipe::default();
        e.from_root = Pipe::default();
        e.far.clear();
        self.heralds.remove(&id);
        if e.up {
            e.life = self.next_life;
            self.next_life += 1;
            self.heralds.insert(id, Herald::new());
        }
        self.set_flows();
    }

    fn set_flows(&mut self) {
        let members = self.members();
        let mut flows = BTreeMap::new();
        for a in &members {
            for b in members.iter().filter(|b| b.id != a.id) {
                let way = herald::way(a, b).expect("two bridges");
                let flow = match self.flows.remove(&(a.id, b.id)) {
                    Some(flow) if flow.way == way => flow,
                    _ => Flow {
                        way,
                        meter: Meter::default(),
                        waiting: VecDeque::new(),
                    },
                };
                flows.insert((a.id, b.id), flow);
            }
        }
        self.flows = flows;
    }

    /// The root processor tells endpoint `n` one thing.
    fn announce(&mut self, n: usize) {
        let members = self.members();
        let e = &self.endpoints[n];
        let Some(herald) = self.heralds.get(&e.id) else {
            return;
        };
        let ready = |m: &Member, way| {
            self.heralds
                .get(&m.id)
                .is_some_and(|h| h.is_ready(e.id, way))
        };
        if let Some(message) = herald.next(&member(e), &members, ready) {
            let id = e.id;
            let herald = self.heralds.get_mut(&id).expect("just found");
            herald.sent(&message, &members);
            self.endpoints[n].from_root.control.push_back(message);
        }
    }

    /// Endpoint `n` sends a frame to another one, if it may.
    fn send(&mut self, n: usize, to: usize) {
        let life = self.endpoints[to].life;
        let e = &mut self.endpoints[n];
        let dst = PeerId::from_bdf(to as u32 + 1, 0, 0);
        let Some(far) = e.far.get_mut(&dst).filter(|far| far.open) else {
            return;
        };
        if !far.window.has_room(cost(LEN)) {
            if !far.asked {
                far.asked = true;
                let lane = Lane {
                    dst,
                    way: far.way,
                    number: 1,
                };
                e.to_root
                    .control
                    .push_back(Message::Want(lane, far.window.wanted()));
            }
            return;
        }
        if e.to_root.data.len() >= RING {
            return;
        }
        far.window.sent(cost(LEN));
        far.sent += 1;
        let frame = Frame {
            src: e.id,
            dst,
            way: far.way,
            lives: (e.life, life),
            number: far.sent,
        };
        e.to_root.data.push_back(frame);
    }

    /// The root processor takes one message or frame of endpoint `n`.
    fn root_takes(&mut self, n: usize, control: bool) {
        let id = self.endpoints[n].id;
        let pipe = &mut self.endpoints[n].to_root;
        if control {
            match pipe.control.pop_front() {
                Some(Message::Ready(about, way)) => {
                    if let Some(herald) = self.heralds.get_mut(&id) {
                        herald.ready(about, way);
                    }
                }
                Some(Message::Want(lane, total)) => {
                    if let Some(flow) = self.flows.get_mut(&(id, lane.dst)) {
                        if flow.way == lane.way {
                            flow.meter.want(total);
                            self.report(id, lane.dst);
                        }
                    }
                }
                other => assert_eq!(other, None),
            }
            return;
        }
        let Some(frame) = pipe.data.pop_front() else {
            return;
        };
        assert_eq!(
            verdict(PeerId::RP, id, frame.src, frame.dst),
            Verdict::Forward
        );
        if let Some(flow) = self.flows.get_mut(&(frame.src, frame.dst)) {
            if flow.way == frame.way {
                assert_eq!(flow.meter.arrive(cost(LEN)), Ok(()));
                flow.waiting.push_back(frame);
                assert!(flow.waiting.len() as u32 * cost(LEN) <= WINDOW);
                self.go_on(frame.src, frame.dst);
            }
        }
    }

    /// The root processor passes on what has room.
    fn go_on(&mut self, src: PeerId, dst: PeerId) {
        let to = self.at(dst);
        let Some(flow) = self.flows.get_mut(&(src, dst)) else {
            return;
        };
        let ring = &mut self.endpoints[to].from_root.data;
        while ring.len() < RING {
            let Some(frame) = flow.waiting.pop_front() else {
                break;
            };
            flow.meter.pass(cost(LEN));
            ring.push_back(frame);
        }
        self.report(src, dst);
    }

    fn report(&mut self, src: PeerId, dst: PeerId) {
        let from = self.at(src);
        let Some(flow) = self.flows.get_mut(&(src, dst)) else {
            return;
        };
        if let Some(total) = flow.meter.due() {
            flow.meter.reported(total);
            let lane = Lane {
                dst,
                way: flow.way,
                number: 1,
            };
            let control = &mut self.endpoints[from].from_root.control;
            control.push_back(Message::Passed(lane, total));
        }
    }

    /// Endpoint `n` takes one message or frame.
    fn takes(&mut self, n: usize, control: bool) {
        if control {
            return self.hears(n);
        }
        let e = &mut self.endpoints[n];
        let Some(frame) = e.from_root.data.pop_front() else {
            return;
        };
        assert_eq!(
            verdict(e.id, PeerId::RP, frame.src, frame.dst),
            Verdict::DeliverFar
        );
        let id = e.id;
        if let Some(far) = e.far.get_mut(&frame.src).filter(|far| far.way == frame.way) {
            far.taken += 1;
            assert_eq!(frame.number, far.taken, "lost, twice or out of order");
            assert_eq!(frame.lives.1, e.life, "for an earlier life");
            self.delivered += 1;
        }
        let sources: Vec<_> = self
            .flows
            .keys()
            .filter(|(_, dst)| *dst == id)
            .copied()
            .collect();
        for (src, dst) in sources {
            self.go_on(src, dst);
        }
    }

    fn hears(&mut self, n: usize) {
        let e = &mut self.endpoints[n];
        match e.from_root.control.pop_front() {
            Some(Message::Here(host)) => {
                let way = host.way.expect("no two share a bridge");
                let far = Far {
                    way,
                    open: false,
                    window: Window::default(),
                    asked: false,
                    sent: 0,
                    taken: 0,
                };
                assert!(e.far.insert(host.id, far).is_none());
                e.to_root.control.push_back(Message::Ready(host.id, way));
            }
            Some(Message::Gone(id, way)) => {
                assert_eq!(e.far.remove(&id).map(|far| far.way), way);
            }
            Some(Message::Go(id, way)) => {
                let far = e.far.get_mut(&id).expect("announced before");
                assert_eq!(far.way, way);
                far.open = true;
            }
            Some(Message::Passed(lane, total)) => {
                if let Some(far) = e.far.get_mut(&lane.dst).filter(|far| far.way == lane.way) {
                    assert!(far.window.passed(total).is_some());
                    far.asked = false;
                }
            }
            other => assert_eq!(other, None),
        }
    }

    fn step(&mut self, what: u8, n: usize, to: usize) {
        match what {
            0 => self.announce(n),
            1 | 2 if self.endpoints[n].up && n != to => self.send(n, to),
            3 => self.root_takes(n, true),
            4 => self.root_takes(n, false),
            5 => self.takes(n, true),
            6 => self.takes(n, false),
            _ => {}
        }
    }

    /// Lets everything happen that can, except that frames are sent.
    fn settle(&mut self) {
        for _ in 0..200 {
            for n in 0..self.endpoints.len() {
                for what in [0, 3, 4, 5, 6] {
                    self.step(what, n, n);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// IDT-MSG-7, IDT-PEER-13
    #[test]
    fn nothing_wrong_is_ever_delivered_and_nothing_right_is_lost(
        count in 2usize..8,
        events in prop::collection::vec((0u8..40, 0usize..7, 0usize..7), 1..1500),
    ) {
        let mut star = Star::new(count);
        for n in 0..count {
            star.toggle(n);
        }
        for (what, n, to) in events {
            let (n, to) = (n % count, to % count);
            match what {
                39 => star.toggle(n),
                what => star.step(what % 7, n, to),
            }
        }
        // The storm is over: all come back, and everything sent arrives.
        for n in 0..count {
            if !star.endpoints[n].up {
                star.toggle(n);
            }
        }
        star.settle();
        for e in &star.endpoints {
            prop_assert_eq!(e.far.len(), count - 1);
            prop_assert!(e.far.values().all(|far| far.open));
        }
        let before = star.delivered;
        for round in 0..20 {
            for n in 0..count {
                star.step(1, n, (n + 1 + round % (count - 1)) % count);
            }
            star.settle();
        }
        prop_assert_eq!(star.delivered - before, 20 * count);
    }
}
