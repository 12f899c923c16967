// SPDX-License-Identifier: GPL-2.0-only

//! Two hosts with a bridge between them, whose modules are the shipped ones: `pximc_ntb` on
//! `mp_transport`. Each sends frames to the other one, in several streams.
//!
//! What is checked on every host:
//!
//! * frames of a stream arrive whole and in order; of those that were accepted in one session of the
//!   peer none is missing before one that arrives, the first one included, and none at all once the
//!   senders rest, unless memory has run short;
//! * none waits for longer than a sleep may last whose wake-up crosses it, and all of them on average
//!   for much less; a frame that was refused does not arrive;
//! * no host takes the other one for a liar, and a link that nothing has happened to stays up;
//! * peers come and go in turn, and nothing arrives of one that is not there;
//! * each frame that was made is completed once;
//! * frames arrive again after whatever has happened, in a bounded time;
//! * nothing is left when the modules have been unloaded.
//!
//! SEEDS=N takes so many seeds of each test, SEED=N that one alone.

#[path = "links/host.rs"]
mod host;
#[path = "links/ledger.rs"]
mod ledger;
#[path = "links/sweep.rs"]
mod sweep;

use host::Machine;
use ledger::Shared;
use machine::{
    dice::Odds,
    sleep_until,
    world::{
        below,
        set_failing_memory, //
    },
    Host,
    Plan, //
};
use mp_bindings::bridge::{
    self,
    Bridge, //
};
use std::{
    cell::{
        Cell,
        RefCell, //
    },
    rc::Rc, //
};

const MS: u64 = 1_000_000;

/// Seeds of each test, unless the environment says otherwise.
const SEEDS: u64 = 8;

/// Frames of each stream that have to arrive between two events.
const FRAMES: u32 = 20;

/// Nanoseconds that a frame takes at most where interrupts are lost, or writes take longer than the
/// second look waits: some heartbeats, one for each part of it and one for each report.
const LATE: u64 = 6 * 50 * MS;

/// Nanoseconds of turns: whoever is woken has one after all others.
const TURNS: u64 = MS;

/// In how many nanoseconds they do: with a link that has to come up, whose peer's silence may have
/// to be noticed before.
const IN_TIME: u64 = 3_000 * MS;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Run `test` with each seed: contexts change often, now and then, or seldom.
fn for_each_seed(test: fn(&Pair)) {
    with_each_seed(false, test);
}

/// As [`for_each_seed`]; if `may_lose`, memory runs short at times.
fn with_each_seed(may_lose: bool, test: fn(&Pair)) {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let preempt = [Odds(1, 2), Odds(1, 8), Odds(1, 64)][seed as usize % 3];
        let plan = Plan {
            preempt,
            ..Plan::new(seed)
        };
        machine::run(plan, move || {
            let pair = Pair::new(may_lose);
            test(&pair);
            pair.end();
        });
    }
}

/// Two hosts and the bridge between them.
struct Pair {
    bridge: Rc<Bridge>,
    machines: [Machine; 2],
    /// Nanoseconds from going to sleep to the second look.
    recheck: u64,
}

impl Pair {
    /// Any bridge and any parameters; both hosts have loaded their modules.
    fn new(may_lose: bool) -> Self {
        let plan = bridge::Plan {
            windows: 1 + below(2) as usize,
            window: 1 << (16 + below(3)),
            doorbells: [2, 4, 18, 32][below(4) as usize],
            latency: [200, 2_000, 50_000][below(3) as usize],
            lost: [Odds::NEVER, Odds(1, 8)][below(2) as usize],
            unordered: below(4) == 0,
        };
        let hosts = [machine::host(), Host::add()];
        let bridge = Bridge::new(plan, &hosts);
        let recheck = [50, 1_000, 5_000][below(3) as usize];
        let ledgers = [Shared::new(), Shared::new()];
        let mut number = 0;
        let machines = hosts.map(|host| {
            let mut its = ledgers.clone();
            its.rotate_left(number);
            number += 1;
            let linger = [0, 20][below(2) as usize];
            kernel::module_param::set(&host, "pximc_ntb", "busy_poll_us", linger);
            kernel::module_param::set(&host, "pximc_ntb", "recheck_us", recheck);
            kernel::module_param::set(&host, "pximc_ntb", "memory_kib", 64 << below(2));
            Machine::start(host, its, may_lose)
        });
        Self {
            bridge,
            machines,
            recheck: recheck * 1_000,
        }
    }

    /// Wait until frames have arrived on both hosts that are newer than all before.
    fn await_frames(&self) {
        let before = self.machines.each_ref().map(Machine::received);
        let until = machine::now() + IN_TIME;
        let some_are_missing = || {
            let now = self.machines.each_ref().map(Machine::received);
            let mut pairs = now.iter().flatten().zip(before.iter().flatten());
            pairs.any(|(now, before)| now - before < FRAMES)
        };
        while some_are_missing() {
            if machine::now() > until {
                let logs = self.machines.each_ref().map(Machine::log);
                let now = self.machines.each_ref().map(Machine::received);
                machine::fail(format!("no frames in time: {before:?} {now:?} {logs:?}"));
            }
            sleep_until(machine::now() + MS / 10);
        }
    }

    /// Nothing new is sent; wait until all has arrived that was accepted in the present sessions.
    fn settle(&self) {
        self.machines.iter().for_each(|machine| machine.rest(true));
        let until = machine::now() + IN_TIME;
        let missing = || {
            let mut ledgers = self.machines.iter();
            ledgers.find_map(|machine| machine.sent.get().missing())
        };
        // Whatever is being sent is accepted.
        sleep_until(machine::now() + MS);
        while let Some(missing) = missing() {
            if machine::now() > until {
                let logs = self.machines.each_ref().map(Machine::log);
                machine::fail(format!(
                    "accepted, and not there in time: {missing}{logs:?}"
                ));
            }
            sleep_until(machine::now() + MS / 10);
        }
        self.assert_prompt();
        self.machines.iter().for_each(|machine| machine.rest(false));
    }

    /// No side has slept for longer than it may although there was something for it. What crosses is
    /// seen by the second look if that comes behind it: an event index there, and an index back.
    fn assert_prompt(&self) {
        let there_and_back = 2 * self.bridge.slowest();
        let is_seen = there_and_back + TURNS / 10 < self.recheck && self.bridge.loses_nothing();
        let (most, mean) = match is_seen {
            true => (2 * self.recheck, self.recheck),
            false => (LATE, LATE),
        };
        for machine in &self.machines {
            let times = machine.sent.get().times();
            let is_prompt = times.slowest <= most + there_and_back + TURNS
                && times.all / times.frames.max(1) <= mean + there_and_back + TURNS / 10;
            assert!(
                is_prompt,
                "{times:?}, {} ns: {:?}",
                self.recheck, self.bridge
            );
        }
    }

    /// Memory is short from now on: frames may be lost.
    fn excuse_all(&self) {
        for machine in &self.machines {
            machine.sent.get().excuse_all();
        }
    }

    /// No frame may be lost any more.
    fn excuse(&self) {
        for machine in &self.machines {
            machine.sent.get().excuse();
        }
    }

    /// Wait until the transports are loaded.
    fn await_reload(&self) {
        self.machines.iter().for_each(Machine::await_reload);
    }

    /// Nothing is missing; unload everything in the middle of what is sent.
    fn end(self) {
        self.settle();
        sleep_until(machine::now() + below(2 * MS));
        self.unload();
    }

    /// Unload everything; nothing is left.
    fn unload(self) {
        for machine in &self.machines {
            machine.stop();
        }
        let logs = self.machines.each_ref().map(Machine::log);
        for line in logs.iter().flatten() {
            assert!(!line.contains("impossible"), "{logs:?}");
        }
        for (number, machine) in self.machines.iter().enumerate() {
            machine.assert_nothing_left();
            assert_eq!(
                self.bridge.references(number),
                0,
                "references to the device"
            );
        }
    }
}

#[test]
fn frames_arrive_once_in_order_and_whole() {
    for_each_seed(|pair| {
        pair.await_frames();
        pair.settle();
        pair.await_frames();
        let logs = pair.machines.each_ref().map(Machine::log);
        for line in logs.iter().flatten() {
            assert!(line.starts_with("info: "), "{logs:?}");
            assert!(!line.contains("is down"), "{logs:?}");
        }
    });
}

#[test]
fn a_link_whose_cable_was_cut_comes_back() {
    for_each_seed(|pair| {
        for _ in 0..3 {
            pair.await_frames();
            if below(2) == 0 {
                pair.settle();
            }
            sleep_until(machine::now() + below(2 * MS));
            if below(4) == 0 {
                pair.bridge.stall(true);
            } else {
                pair.bridge.cut(true);
            }
            sleep_until(machine::now() + below(2_000 * MS));
            pair.bridge.stall(false);
            pair.bridge.cut(false);
        }
        pair.await_frames();
    });
}

#[test]
fn a_module_may_be_unloaded_at_any_time_and_be_loaded_again() {
    for_each_seed(|pair| {
        for _ in 0..3 {
            if below(4) != 0 {
                pair.await_frames();
            }
            sleep_until(machine::now() + below(3 * MS));
            pair.machines[below(2) as usize].reload();
        }
        pair.await_frames();
    });
}

#[test]
fn frames_arrive_once_there_is_memory_again() {
    with_each_seed(true, |pair| {
        pair.await_frames();
        for _ in 0..3 {
            pair.excuse_all();
            set_failing_memory([Odds(1, 50), Odds(1, 10), Odds(1, 3)][below(3) as usize]);
            sleep_until(machine::now() + below(100 * MS));
            match below(3) {
                0 => pair.machines[below(2) as usize].reload_later(),
                1 => pair.bridge.cut(true),
                _ => (),
            }
            sleep_until(machine::now() + below(100 * MS));
            pair.bridge.cut(false);
            sleep_until(machine::now() + below(100 * MS));
            set_failing_memory(Odds::NEVER);
            pair.await_reload();
            pair.await_frames();
            pair.excuse();
            pair.await_frames();
        }
    });
}

#[test]
fn a_seed_gives_one_run() {
    let run = |seed| {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let noted = seen.clone();
        machine::run(Plan::new(seed), move || {
            let pair = Pair::new(false);
            pair.await_frames();
            pair.bridge.cut(true);
            sleep_until(machine::now() + below(MS));
            pair.bridge.cut(false);
            pair.await_frames();
            let received = pair.machines.each_ref().map(Machine::received);
            noted.borrow_mut().push((machine::now(), received));
            pair.end();
            noted
                .borrow_mut()
                .push((machine::now(), Default::default()));
        });
        seen.take()
    };
    for seed in 0..5 {
        let first = run(seed);
        // The addresses of the second run are others.
        let _other = std::hint::black_box(vec![0_u8; 1_000_000]);
        assert_eq!(first, run(seed), "seed {seed}");
    }
    assert_ne!(run(1), run(2));
}
