// SPDX-License-Identifier: GPL-2.0-only

//! Two hosts with a bridge between them, whose modules are the shipped ones: `pximc_ntb` on
//! `mp_transport`. Each sends frames to the other one, in several streams.
//!
//! What is checked on every host:
//!
//! * frames of a stream arrive whole and in order; in one session of the peer, none is missing unless
//!   memory has run short;
//! * no host takes the other one for a liar, and a link that nothing has happened to stays up;
//! * peers come and go in turn, and nothing arrives of one that is not there;
//! * each frame that was made is completed once;
//! * frames arrive again after whatever has happened, in a bounded time;
//! * nothing is left when the modules have been unloaded.
//!
//! SEEDS=N takes so many seeds of each test, SEED=N that one alone.

#[path = "links/host.rs"]
mod host;

use host::Machine;
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
    cell::RefCell,
    rc::Rc, //
};

const MS: u64 = 1_000_000;

/// Seeds of each test, unless the environment says otherwise.
const SEEDS: u64 = 8;

/// Frames of each stream that have to arrive between two events.
const FRAMES: u32 = 20;

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
        };
        let hosts = [machine::host(), Host::add()];
        let bridge = Bridge::new(plan, &hosts);
        let machines = hosts.map(|host| {
            let linger = [0, 20][below(2) as usize];
            kernel::module_param::set(&host, "pximc_ntb", "busy_poll_us", linger);
            kernel::module_param::set(&host, "pximc_ntb", "memory_kib", 64 << below(2));
            Machine::start(host, may_lose)
        });
        Self { bridge, machines }
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

    /// Wait until the transports are loaded.
    fn await_reload(&self) {
        self.machines.iter().for_each(Machine::await_reload);
    }

    /// Unload everything; nothing is left.
    fn end(self) {
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
            sleep_until(machine::now() + below(2 * MS));
            pair.bridge.cut(true);
            sleep_until(machine::now() + below(2_000 * MS));
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
