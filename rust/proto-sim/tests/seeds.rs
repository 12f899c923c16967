// SPDX-License-Identifier: GPL-2.0-only

//! Seeds of the simulator: many short ones with every test, and as many as fit into half an hour with
//! `LONG=1`.
//!
//! A failure is shrunk and printed with the arguments of `mp-sim` that bring it about again.

use std::time::{Duration, Instant};

use mp_sim::check::Totals;
use mp_sim::plan::{Fault, Length, Plan, Reduction, MS};
use mp_sim::shrink::shrink;
use mp_sim::{run, run_seed};

/// Short seeds of every day.
const SHORT: u64 = 10_000;
/// Threads that share them.
const THREADS: u64 = 2;

fn fail(seed: u64, length: Length, why: &str) -> ! {
    let (less, smaller) = shrink(seed, length, why, 300);
    let long = match length {
        Length::Short => "",
        Length::Long => " --long",
    };
    panic!(
        "seed {seed}: {why}\nsmaller: {smaller}\n    cargo run --release -p mp_sim --{long} --seed \
         {seed}{}",
        less.arguments()
    );
}

/// Run seeds on all threads until there are none, or `until`.
fn run_all(length: Length, seeds: std::ops::Range<u64>, until: Option<Instant>) -> Totals {
    let part = |thread: u64| {
        let mut totals = Totals::default();
        let mine = seeds.clone().filter(move |seed| seed % THREADS == thread);
        for seed in mine {
            if until.is_some_and(|until| Instant::now() > until) {
                break;
            }
            match run_seed(seed, length, &Reduction::default()) {
                Ok(run) => totals.add(&run),
                Err(why) => fail(seed, length, &why),
            }
        }
        totals
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || part(n))).collect();
        let mut totals = Totals::default();
        for thread in threads {
            match thread.join() {
                Ok(run) => totals.add(&run),
                Err(why) => std::panic::resume_unwind(why),
            }
        }
        totals
    })
}

/// design 4.1 to 4.11, 5; IDT-MSG-7, IDT-PEER-13, PXI-PAIR-11, PXI-PAIR-13, PXI-PAIR-18
#[test]
fn whatever_happens_nothing_is_lost_and_everybody_finds_everybody() {
    let totals = run_all(Length::Short, 0..SHORT, None);
    println!("{totals:#?}");
    // A simulation in which little happens proves little.
    assert!(totals.time > 1_000_000_000 * SHORT / 4, "{totals:?}");
    assert!(
        totals.faults > SHORT && totals.ups > 2 * SHORT,
        "{totals:?}"
    );
    assert!(
        totals.frames > 100 * SHORT && totals.forwarded > SHORT,
        "{totals:?}"
    );
    assert!(totals.pairs > SHORT && totals.words > SHORT, "{totals:?}");
    assert!(totals.messages > 4 * SHORT, "{totals:?}");
    assert!(totals.requests > SHORT, "{totals:?}");
    assert!(totals.lost_bells > SHORT && totals.resets > 0, "{totals:?}");
}

/// Memory that is short ends requests and sessions, and no link. With nothing else in the way, each
/// link comes up once.
#[test]
fn a_host_that_is_short_of_memory_keeps_its_links() {
    let mut totals = Totals::default();
    for seed in 0..100 {
        let mut plan = Plan::new(seed, Length::Short, &Reduction::default());
        plan.hostile = false;
        plan.sessions = true;
        plan.faults.clear();
        plan.calm = 1000 * MS;
        let quiet = run(plan.clone(), false).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let hosts = plan.hosts.len();
        plan.faults = (0..6)
            .map(|n| {
                let (host, ms) = (n % hosts, plan.calm / MS / 3);
                (n as u64 * plan.calm / 6, Fault::Short { host, ms })
            })
            .collect();
        let short = run(plan, false).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!((short.ups, short.resets), (quiet.ups, 0), "seed {seed}");
        totals.add(&short);
    }
    assert!(totals.pairs > 300 && totals.messages > 300, "{totals:?}");
    assert!(totals.requests > 100, "{totals:?}");
}

/// The same with more hosts, for longer: with `LONG=1` for 25 minutes, else a few.
#[test]
fn many_hosts_hold_out_for_long() {
    let long = std::env::var("LONG").is_ok_and(|long| long == "1");
    let seeds = if long { u64::MAX } else { 8 };
    let until = Instant::now() + Duration::from_secs(25 * 60);
    let totals = run_all(Length::Long, 0..seeds, Some(until));
    println!("{totals:#?}");
    assert!(totals.frames > 1000);
}
