// SPDX-License-Identifier: GPL-2.0-only

//! All hosts, all wires, one clock: runs a [`Plan`] to its end, step by step.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use mp_proto::layout::{BEAT_OFF, HELLO_OFF, STATUS_LEN};
use mp_proto::link::State;
use mp_proto::wire::PeerId;

use crate::check::{Check, Totals};
use crate::dice::Dice;
use crate::host::{Entity, Env, Host, LINK_BELL};
use crate::link_end::{Joint, Port};
use crate::plan::{Fault, Plan, MS};
use crate::wire::{Bytes, Cut, Wire};

/// Nanoseconds from one look at all links to the next one.
const AUDIT: u64 = 10 * MS;

/// What happens at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A host, and one of its entities.
    Run(usize, usize),
    /// From one host to another.
    Deliver(usize, usize),
    /// Doorbell bits of a host at a bridge.
    Bell(usize, usize, u64),
    Fault(usize),
    Mend(usize),
    Start(usize),
    Reload(usize),
    Audit,
}

/// Two hosts with a link.
struct Pair {
    a: usize,
    b: usize,
    joint: Rc<Joint>,
    cut: Cut,
    /// The NTB says that there is no link.
    reported: bool,
    /// The epochs of both ends when writes began to be lost.
    epochs: [Option<u64>; 2],
    good_since: u64,
    /// The inbound memories at `a` and at `b`, for their next lives.
    bytes: [Option<Bytes>; 2],
}

/// Where the end of a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Faults and traffic.
    Storm,
    /// Everybody is to find everybody, and what lies have left is to go.
    Recover,
    /// All that was sent is to arrive.
    Settle,
    Done,
}

/// A run.
pub struct World {
    env: Rc<Env>,
    now: u64,
    seq: u64,
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    hosts: Vec<Host>,
    wires: Vec<Rc<RefCell<Wire>>>,
    wire_due: Vec<u64>,
    pairs: Vec<Pair>,
    dice: Dice,
    phase: Phase,
    phase_since: u64,
}

impl World {
    /// The world of a plan, before anything happens.
    pub fn new(plan: Plan, trace: bool) -> World {
        let seed = plan.seed;
        let dice = Dice::new(seed, 3);
        let n = plan.hosts.len();
        let wires = (0..n * n).map(|_| Wire::new(plan.delay, dice.clone()));
        let wires = wires.collect();
        let mut check = Check::default();
        check.lying = plan.hostile;
        check.longest = plan.longest_sleep();
        let env = Rc::new(Env {
            dice: dice.clone(),
            check: RefCell::new(check),
            trace,
            plan,
        });
        let mut world = World {
            now: 0,
            seq: 0,
            heap: BinaryHeap::new(),
            hosts: (0..n).map(|i| Host::new(i, env.clone())).collect(),
            wires,
            wire_due: vec![u64::MAX; n * n],
            pairs: Vec::new(),
            dice,
            phase: Phase::Storm,
            phase_since: 0,
            env,
        };
        for b in 1..n {
            for a in 0..b {
                if world.env.plan.linked(a, b) {
                    world.pairs.push(Pair {
                        a,
                        b,
                        joint: Rc::default(),
                        cut: Cut::No,
                        reported: false,
                        epochs: [None; 2],
                        good_since: 0,
                        bytes: [None, None],
                    });
                }
            }
        }
        for host in 0..n {
            world.at(world.env.plan.hosts[host].start, Event::Start(host));
        }
        for fault in 0..world.env.plan.faults.len() {
            world.at(world.env.plan.faults[fault].0, Event::Fault(fault));
        }
        world.at(AUDIT, Event::Audit);
        world
    }

    fn at(&mut self, time: u64, event: Event) {
        self.seq += 1;
        self.heap.push(Reverse((time, self.seq, event)));
    }

    /// Run to the end.
    ///
    /// # Panics
    /// A property that has to hold does not.
    pub fn run(mut self) -> Totals {
        while self.phase != Phase::Done {
            let Some(Reverse((time, _, event))) = self.heap.pop() else {
                panic!("nothing is left to do");
            };
            self.now = time;
            self.step(event);
        }
        let lost = self.wires.iter().map(|wire| wire.borrow().lost).sum();
        let env = self.env.clone();
        for host in &mut self.hosts {
            host.ports.iter_mut().for_each(|port| port.tally(&env));
        }
        let mut totals = env.check.borrow().totals;
        totals.lost = lost;
        totals.time = self.now;
        totals
    }

    fn step(&mut self, event: Event) {
        self.env.check.borrow_mut().totals.steps += 1;
        match event {
            Event::Run(host, number) => self.run_entity(host, number),
            Event::Deliver(from, to) => {
                let at = from * self.hosts.len() + to;
                if self.wire_due[at] == self.now {
                    self.wire_due[at] = u64::MAX;
                    self.wires[at].borrow_mut().deliver(self.now);
                    self.watch(from, to);
                    self.with_host(to, |_| ());
                }
            }
            Event::Bell(host, bridge, bits) => self.bell(host, bridge, bits),
            Event::Fault(n) => {
                let (_, fault) = self.env.plan.faults[n];
                self.env.check.borrow_mut().totals.faults += 1;
                self.fault(fault);
            }
            Event::Mend(pair) => self.mend(pair),
            Event::Start(host) => self.start(host),
            Event::Reload(host) => {
                if self.hosts[host].alive && !self.hosts[host].serves {
                    self.with_host(host, Host::user_load);
                }
            }
            Event::Audit => {
                self.audit();
                self.at(self.now + AUDIT, Event::Audit);
            }
        }
    }

    fn run_entity(&mut self, host: usize, number: usize) {
        let h = &mut self.hosts[host];
        if !h.alive || h.due[number] != self.now {
            return;
        }
        h.due[number] = u64::MAX;
        if h.paused_until > self.now {
            h.due[number] = h.paused_until;
            let at = h.paused_until;
            return self.at(at, Event::Run(host, number));
        }
        self.with_host(host, |h| h.run(Entity::of(number)));
    }

    /// Let a host do something, and follow up what comes of it.
    fn with_host(&mut self, host: usize, what: impl FnOnce(&mut Host)) {
        let n = self.hosts.len();
        let now = self.now;
        for port in &self.hosts[host].ports {
            port.out.borrow_mut().set_now(now);
        }
        let h = &mut self.hosts[host];
        h.now = now;
        what(h);
        h.follow_sleep();
        let woken = std::mem::take(&mut h.woken);
        let bells = std::mem::take(&mut *h.bells.borrow_mut());
        for (time, number) in woken {
            if self.hosts[host].due[number] == time {
                self.at(time, Event::Run(host, number));
            }
        }
        for (k, queue) in bells {
            if let Some(port) = self.hosts[host].ports.get(k) {
                let (peer, bridge, last) = (port.peer, port.bridge, port.out.borrow().last());
                self.ring(peer, bridge, queue, last);
            }
        }
        for to in 0..n {
            if to != host {
                self.watch(host, to);
            }
        }
    }

    /// See to it that a wire delivers in time.
    fn watch(&mut self, from: usize, to: usize) {
        let at = from * self.hosts.len() + to;
        let due = self.wires[at].borrow().due();
        if let Some(due) = due {
            let due = due.max(self.now + 1);
            if due < self.wire_due[at] {
                self.wire_due[at] = due;
                self.at(due, Event::Deliver(from, to));
            }
        }
    }

    /// A doorbell is on its way, behind what was posted before it, which has arrived at `last`.
    /// Where doorbells get lost it may also come twice and overtake everything.
    fn ring(&mut self, host: usize, bridge: usize, queue: u16, last: u64) {
        let plan = &self.env.plan;
        let loss = plan.bell_loss;
        let first = if loss == 0 {
            self.now.max(last)
        } else {
            self.now
        };
        if self.dice.once_in(loss) || self.hosts[host].no_bells_until > self.now {
            self.env.check.borrow_mut().totals.lost_bells += 1;
            return;
        }
        let bits = match queue {
            LINK_BELL => 1,
            queue => 2 << queue,
        };
        let delay = plan.delay;
        let times = 1 + u64::from(loss != 0 && self.dice.once_in(10));
        for _ in 0..times {
            let late = self.dice.below(delay);
            self.at(first + late + 1, Event::Bell(host, bridge, bits));
        }
    }

    fn bell(&mut self, host: usize, bridge: usize, bits: u64) {
        let loss = self.env.plan.bell_loss;
        let h = &mut self.hosts[host];
        if !h.alive {
            return;
        }
        let new = bits & !h.doorbells[bridge];
        h.doorbells[bridge] |= bits;
        // A bit that is set does not interrupt again, and an interrupt may get lost.
        if new != 0 && h.paused_until <= self.now && !self.dice.once_in(loss) {
            self.with_host(host, |h| h.answer(bridge));
        }
    }

    fn pair(&self, a: usize, b: usize) -> Option<usize> {
        let (a, b) = (a.min(b), a.max(b));
        self.pairs.iter().position(|p| (p.a, p.b) == (a, b))
    }

    /// Something has happened to a host: its links have their time from then on.
    fn disturbed(&mut self, host: usize, until: u64) {
        let pairs = self.pairs.iter_mut();
        for p in pairs.filter(|p| p.a == host || p.b == host) {
            p.good_since = p.good_since.max(until);
        }
    }

    fn start(&mut self, host: usize) {
        if self.hosts[host].alive {
            return;
        }
        let n = self.hosts.len();
        let memory = self.env.plan.hosts[host].memory as usize;
        let mut ports = Vec::new();
        for at in 0..self.pairs.len() {
            let p = &mut self.pairs[at];
            if p.a != host && p.b != host {
                continue;
            }
            let (peer, side) = (p.a + p.b - host, usize::from(p.b == host));
            let bytes = p.bytes[side].take();
            let bytes = bytes.unwrap_or_else(|| Rc::new(RefCell::new(vec![0; memory])));
            p.bytes[side] = Some(bytes.clone());
            let (out, inw) = (&self.wires[host * n + peer], &self.wires[peer * n + host]);
            inw.borrow_mut().target = Some(bytes.clone());
            inw.borrow_mut().messages.clear();
            let bridge = self.env.plan.bridge(host, peer);
            let joint = p.joint.clone();
            ports.push(Port::new(
                peer,
                bridge,
                joint,
                out.clone(),
                inw.clone(),
                bytes,
            ));
        }
        if self.env.trace {
            eprintln!("{:12.6} host {host} starts", self.now as f64 / 1e6);
        }
        self.with_host(host, |h| h.start(ports));
        self.disturbed(host, self.now);
        self.set_joints(host);
    }

    /// The NTB of both ends knows whether there is a link.
    fn set_joints(&mut self, host: usize) {
        for at in 0..self.pairs.len() {
            let p = &self.pairs[at];
            if p.a == host || p.b == host {
                self.set_joint(at);
            }
        }
    }

    fn set_joint(&mut self, at: usize) {
        let p = &self.pairs[at];
        let alive = self.hosts[p.a].alive && self.hosts[p.b].alive;
        let broken = p.cut == Cut::Lost && p.reported;
        // Of a dead host the NTB may know or not.
        let up = !broken && (alive || p.joint.up.get() && self.dice.once_in(2));
        p.joint.up.set(up);
        p.joint.seen.iter().for_each(|seen| seen.set(false));
        let (a, b) = (p.a, p.b);
        for (host, peer) in [(a, b), (b, a)] {
            let h = &self.hosts[host];
            let k = h.ports.iter().position(|port| port.peer == peer);
            if let (true, Some(k)) = (h.alive, k) {
                self.with_host(host, |h| h.kick(Entity::Worker(k)));
            }
        }
    }

    fn die(&mut self, host: usize, ms: u64, same_memory: bool) {
        let n = self.hosts.len();
        self.hosts[host].stop();
        for p in self.pairs.iter_mut() {
            let peer = match host {
                _ if p.a == host => p.b,
                _ if p.b == host => p.a,
                _ => continue,
            };
            let inw = &self.wires[peer * n + host];
            if !same_memory {
                p.bytes[usize::from(p.b == host)] = None;
                inw.borrow_mut().target = None;
            }
            inw.borrow_mut().messages.clear();
        }
        self.disturbed(host, self.now);
        self.set_joints(host);
        self.at(self.now + ms * MS + 1, Event::Start(host));
    }

    fn fault(&mut self, fault: Fault) {
        if self.env.trace {
            eprintln!("{:12.6} fault: {fault:?}", self.now as f64 / 1e6);
        }
        let n = self.hosts.len();
        match fault {
            Fault::Lost { a, b, ms, reported } => self.cut(a, b, Cut::Lost, ms, reported),
            Fault::Stalled { a, b, ms } => self.cut(a, b, Cut::Stalled, ms, false),
            Fault::Kill {
                host,
                ms,
                same_memory,
                pads,
            } if self.hosts[host].alive => {
                self.die(host, ms, same_memory);
                for peer in 0..n {
                    let mut out = self.wires[host * n + peer].borrow_mut();
                    out.drop_open();
                    if let Some(pads) = pads {
                        out.pads = [pads; 4];
                    }
                }
            }
            Fault::Unload { host, ms } if self.hosts[host].alive => {
                self.with_host(host, Host::unload);
                self.die(host, ms, false);
            }
            Fault::Pause { host, ms } => {
                let until = self.now + ms * MS;
                self.hosts[host].paused_until = until;
                self.disturbed(host, until);
            }
            Fault::Deaf { host, ms } => self.hosts[host].deaf_until = self.now + ms * MS,
            Fault::NoBells { host, ms } => self.hosts[host].no_bells_until = self.now + ms * MS,
            Fault::Short { host, ms } => self.hosts[host].short_until = self.now + ms * MS,
            Fault::AllOnes { host, ms } => {
                let until = self.now + ms * MS;
                self.hosts[host].ones_until = until;
                self.disturbed(host, until);
            }
            Fault::NoWindow { host, peer } => {
                let mut ports = self.hosts[host].ports.iter_mut();
                if let Some(port) = ports.find(|port| port.peer == peer) {
                    port.no_window = true;
                }
                self.disturbed(host, self.now);
            }
            Fault::Reload { host, ms } if self.hosts[host].alive => {
                self.with_host(host, Host::user_unload);
                self.at(self.now + ms * MS + 1, Event::Reload(host));
            }
            Fault::Renew { host, peer } => {
                let id = self.hosts[peer].self_id();
                self.with_host(host, |host| host.reset_via(id));
            }
            Fault::Scribble { host, peer, how } => self.scribble(host, peer, how),
            // It is dead already.
            Fault::Kill { .. } | Fault::Unload { .. } | Fault::Reload { .. } => {}
        }
    }

    fn epoch(&self, host: usize, peer: usize) -> Option<u64> {
        let port = self.hosts[host]
            .ports
            .iter()
            .find(|port| port.peer == peer)?;
        Some(port.channel()?.borrow().epochs.0)
    }

    fn cut(&mut self, a: usize, b: usize, cut: Cut, ms: u64, reported: bool) {
        let Some(at) = self.pair(a, b) else { return };
        if self.pairs[at].cut != Cut::No {
            return;
        }
        let (a, b) = (self.pairs[at].a, self.pairs[at].b);
        let epochs = [self.epoch(a, b), self.epoch(b, a)];
        let until = self.now + ms * MS;
        let p = &mut self.pairs[at];
        p.cut = cut;
        p.reported = reported;
        p.epochs = epochs;
        p.good_since = u64::MAX;
        self.set_cut(at, cut);
        if reported {
            self.set_joint(at);
        }
        self.at(until, Event::Mend(at));
    }

    fn set_cut(&mut self, at: usize, cut: Cut) {
        let n = self.hosts.len();
        let p = &self.pairs[at];
        let (a, b) = (p.a, p.b);
        for (from, to) in [(a, b), (b, a)] {
            self.wires[from * n + to].borrow_mut().cut = cut;
            self.watch(from, to);
        }
    }

    /// The end of a cut. Bridges do not lose writes silently: where some have been lost, at least
    /// one of both ends has noticed before the link works again.
    fn mend(&mut self, at: usize) {
        let p = &self.pairs[at];
        let n = self.hosts.len();
        let (a, b) = (p.a, p.b);
        let lives = |side: usize, host, peer| {
            p.epochs[side].is_some() && p.epochs[side] == self.epoch(host, peer)
        };
        if p.cut == Cut::Lost && lives(0, a, b) && lives(1, b, a) {
            return self.at(self.now + MS, Event::Mend(at));
        }
        if p.cut == Cut::Lost {
            for (from, to) in [(a, b), (b, a)] {
                self.wires[from * n + to].borrow_mut().lose();
            }
        }
        let p = &mut self.pairs[at];
        p.cut = Cut::No;
        p.good_since = self.now;
        self.set_cut(at, Cut::No);
        self.set_joint(at);
        let (paused_a, paused_b) = (self.hosts[a].paused_until, self.hosts[b].paused_until);
        let ones = self.hosts[a].ones_until.max(self.hosts[b].ones_until);
        let p = &mut self.pairs[at];
        p.good_since = self.now.max(paused_a).max(paused_b).max(ones);
    }

    /// A lying peer writes into a living link: a control word or a block header, nonsense or
    /// nearly right.
    fn scribble(&mut self, host: usize, peer: usize, how: u64) {
        let ports = self.hosts[host].ports.iter();
        let Some(port) = ports.into_iter().find(|port| port.peer == peer) else {
            return;
        };
        let Some(layout) = port.layout() else { return };
        let dice = Dice::new(how, 4);
        let ring = dice.below(u64::from(layout.queues) + 1) as u32;
        let place = layout.ring(ring).expect("exists");
        let words = [place.prod, place.want_space, place.cons, place.want_data];
        let at = match dice.below(8) {
            n @ 0..4 => words[n as usize],
            4 => [HELLO_OFF + 8, BEAT_OFF][dice.pick(2)],
            5 => dice.pick(STATUS_LEN / 8) * 8,
            _ => place.data + dice.pick(place.size as usize / 8) * 8,
        };
        let mut mem = port.bytes.borrow_mut();
        let bytes = mem[at..].first_chunk_mut().expect("inside");
        let old = u64::from_le_bytes(*bytes);
        let new = match dice.below(3) {
            0 => dice.roll(),
            1 => old.wrapping_add(dice.below(200)),
            _ => old.wrapping_sub(dice.below(200)),
        };
        *bytes = new.to_le_bytes();
        drop(mem);
        for port in self.hosts.iter_mut().flat_map(|h| &mut h.ports) {
            port.taint();
        }
    }

    /// How long two hosts may take until their link is up.
    fn patience(&self) -> u64 {
        let config = &self.env.plan.config;
        // A failed attempt is followed by a pause, and a lost doorbell by a slow look.
        (2 * config.timeout + config.backoff_max + 500 * MS + 10 * config.beat).min(2000 * MS)
    }

    fn audit(&mut self) {
        let lying = self.env.check.borrow().lying;
        if !lying {
            self.check_up();
            self.check_drops();
        }
        match self.phase {
            Phase::Storm if self.now >= self.env.plan.calm => self.begin_recovery(),
            Phase::Recover => self.recover(),
            Phase::Settle => self.settle(),
            _ => {}
        }
    }

    /// With both hosts alive and the bridge whole, the link is up soon.
    fn check_up(&self) {
        for p in &self.pairs {
            let both = self.hosts[p.a].alive && self.hosts[p.b].alive;
            let good = p.good_since.saturating_add(self.patience());
            if !both || self.now < good {
                continue;
            }
            for (host, peer) in [(p.a, p.b), (p.b, p.a)] {
                let mut ports = self.hosts[host].ports.iter();
                let state = ports.find(|port| port.peer == peer).map(Port::state);
                let is_up = state == Some(State::Up);
                assert!(is_up, "no link from {host} to {peer}: {state:?}");
            }
        }
    }

    fn check_drops(&self) {
        for h in &self.hosts {
            let d = &h.drops;
            let impossible = [d.bad_header, d.unknown_function, d.overrun];
            let none = impossible == [0; 3] || self.env.plan.hostile;
            assert!(none, "an honest frame was dropped: {d:?}");
        }
    }

    fn begin_recovery(&mut self) {
        self.phase = Phase::Recover;
        self.phase_since = self.now;
        for h in &mut self.hosts {
            h.paused_until = h.paused_until.min(self.now);
            h.deaf_until = self.now;
            h.ones_until = self.now;
            h.no_bells_until = self.now;
            h.short_until = self.now;
        }
        for host in 0..self.hosts.len() {
            let h = &self.hosts[host];
            let due: Vec<_> = (0..h.due.len()).filter(|n| h.due[*n] != u64::MAX).collect();
            if !h.alive {
                self.at(self.now + 1, Event::Start(host));
            } else if !h.serves {
                self.at(self.now + 1, Event::Reload(host));
            }
            for number in due {
                self.with_host(host, |h| {
                    let entity = Entity::of(number);
                    h.due[number] = u64::MAX;
                    h.kick(entity);
                });
            }
        }
        if self.env.check.borrow().lying {
            for host in 0..self.hosts.len() {
                if self.hosts[host].alive {
                    self.with_host(host, Host::reset_links);
                }
            }
            self.env.check.borrow_mut().reset = true;
        }
        for at in 0..self.pairs.len() {
            if self.pairs[at].cut == Cut::Stalled {
                self.mend(at);
            }
        }
    }

    /// Wait until everybody has found everybody.
    fn recover(&mut self) {
        let idle = self
            .hosts
            .iter()
            .flat_map(|h| &h.ports)
            .all(|p| p.user.is_idle());
        let late = self.now > self.phase_since + 3 * self.patience() + 2000 * MS;
        if self.env.check.borrow().lying {
            // What was scribbled is gone with the epochs that it was about.
            let calm = self.now > self.phase_since + self.patience();
            if calm && idle {
                let mut check = self.env.check.borrow_mut();
                check.lying = false;
                for h in &mut self.hosts {
                    h.drops = Default::default();
                }
                drop(check);
                let now = self.now;
                self.pairs
                    .iter_mut()
                    .for_each(|p| p.good_since = p.good_since.max(now));
            }
        } else {
            match self.apart() {
                None => {
                    self.phase = Phase::Settle;
                    self.phase_since = self.now;
                    for host in 0..self.hosts.len() {
                        self.with_host(host, Host::order_burst);
                    }
                    return;
                }
                Some(why) => assert!(!late, "not all find each other: {why}"),
            }
        }
        assert!(!late, "the lies have no end");
    }

    /// Why not all hosts reach all others.
    fn apart(&self) -> Option<String> {
        let n = self.hosts.len();
        for a in 0..n {
            for b in (0..n).filter(|b| *b != a) {
                let h = &self.hosts[a];
                if !self.env.plan.linked(a, b) {
                    if let Some(why) = h.via_unrest(PeerId::from_bdf(b as u32, 0, 0)) {
                        return Some(why);
                    }
                    continue;
                }
                let mut ports = h.ports.iter();
                let port = ports.find(|port| port.peer == b);
                let Some(port) = port.filter(|p| p.state() == State::Up && p.entered().is_some())
                else {
                    return Some(format!("{a} has not entered {b}"));
                };
                let old = port
                    .entered()
                    .and_then(|life| h.peer(life)?.channel.clone());
                let same = match (old, port.channel()) {
                    (Some(a), Some(b)) => Rc::ptr_eq(&a, &b),
                    _ => false,
                };
                if !same {
                    return Some(format!("{a} has entered {b} of an earlier epoch"));
                }
                let user = port.user.unrest();
                if let Some(why) = user.filter(|why| why.contains("listen")) {
                    return Some(format!("{a} to {b}: {why}"));
                }
            }
        }
        None
    }

    /// Wait until all that was sent has arrived, and nothing is left to do.
    fn settle(&mut self) {
        let why = self.unrest();
        let late = self.now > self.phase_since + 4000 * MS + 2 * self.patience();
        match why {
            Some(why) => assert!(!late, "no rest: {why}"),
            None => {
                let sums = self.env.check.borrow().sums();
                assert_eq!(sums[0], sums[1], "the counters of both ends differ");
                self.check_stats();
                self.phase = Phase::Done;
            }
        }
    }

    fn unrest(&mut self) -> Option<String> {
        if let Some(why) = self.env.check.borrow().missing() {
            return Some(why);
        }
        for h in &mut self.hosts {
            let waiting: usize = h.flows.iter().map(|flow| flow.waiting()).sum();
            if waiting != 0 || !h.awaited.is_empty() || !h.backlog.is_empty() {
                let (awaited, backlog) = (&h.awaited, h.backlog.len());
                return Some(format!(
                    "host {}: {waiting} frames wait to be forwarded, {backlog} to be sent, rings \
                     are awaited: {awaited:?}",
                    h.index
                ));
            }
            for port in &h.ports {
                let place = format!("host {} to {}", h.index, port.peer);
                if let Some(why) = port.user.unrest() {
                    return Some(format!("{place}: {why}"));
                }
                if !port.user.is_idle() || !port.is_memory_whole() {
                    return Some(format!("{place}: memory is not free again"));
                }
                let channel = port.channel()?;
                let why = channel.borrow_mut().unrest();
                if let Some(why) = why {
                    return Some(format!("{place}: {why}"));
                }
            }
        }
        None
    }

    /// What a host has sent to a neighbour, that has received.
    fn check_stats(&self) {
        for p in &self.pairs {
            let stats = |host: usize, peer: usize| {
                let h = &self.hosts[host];
                let port = h.ports.iter().find(|port| port.peer == peer);
                let life = port.and_then(Port::entered);
                life.and_then(|life| h.peer(life)).map(|peer| peer.stats)
            };
            let (Some(a), Some(b)) = (stats(p.a, p.b), stats(p.b, p.a)) else {
                panic!("a peer has left");
            };
            if a[0] != b[1] || b[0] != a[1] {
                panic!("{} and {} count {a:?} and {b:?}", p.a, p.b);
            }
        }
    }
}
