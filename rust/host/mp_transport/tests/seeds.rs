// SPDX-License-Identifier: GPL-2.0-only

//! The message frame service on hosts whose contexts change where a seed says so, and whose memory
//! runs short: what it promises holds all the same, and nothing is left behind.
//!
//! SEEDS=N takes so many seeds of each test, SEED=N that one alone.
//!
//! * [`load`]: the module itself.
//! * [`forward`]: a peer that forwards.
//! * [`registry`]: peers and functions come and go while frames do.
//! * [`pieces`]: memory of both ends of a link.

#[allow(dead_code)]
#[path = "../../../mp_kunit/fixture.rs"]
mod fixture;
#[path = "seeds/forward.rs"]
mod forward;
#[path = "seeds/load.rs"]
mod load;
#[path = "seeds/pieces.rs"]
mod pieces;
#[path = "seeds/registry.rs"]
mod registry;

use kernel::{
    module,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};
use machine::{
    dice::Odds,
    world::{
        below,
        set_failing_memory, //
    },
    Plan, //
};
use mp_transport::HOST_MODULE;

/// Seeds of each test, unless the environment says otherwise.
const SEEDS: u64 = 200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Run `test` with each seed: contexts change often, now and then, or seldom.
fn for_each_seed(test: fn()) {
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
        machine::run(plan, test);
    }
}

/// As [`for_each_seed`], on a host with the module, which is unloaded at the end.
fn with_module(test: fn()) {
    // A function is no closure that could have it: a test is run by the thread that has set it.
    thread_local!(static TEST: std::cell::Cell<fn()> = const { std::cell::Cell::new(|| ()) });
    TEST.set(test);
    for_each_seed(|| {
        module::load(&HOST_MODULE).expect("memory is there");
        TEST.get()();
        set_failing_memory(Odds::NEVER);
        module::unload(&HOST_MODULE);
        assert_nothing_left();
    });
}

/// Nothing of the module is left on the calling host.
fn assert_nothing_left() {
    let left = mp_kernel::kobject::list();
    assert!(left.is_empty(), "directories: {left:?}");
    let pieces = machine::memory::pieces_of(&machine::host());
    assert_eq!(pieces, 0, "pieces of memory");
}

/// Memory runs short in this run, more or less often.
fn run_short() {
    let odds = [Odds::NEVER, Odds(1, 50), Odds(1, 10), Odds(1, 3)];
    set_failing_memory(odds[below(odds.len() as u64) as usize]);
}
