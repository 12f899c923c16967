// SPDX-License-Identifier: GPL-2.0-only

//! One allocation fails, each in its turn: the first, the second, until a run has none of that number.
//!
//! All runs of a sweep have the same seed, so they are the same up to the allocation that fails, and
//! each allocation of that run fails once. Hosts that are not concerned notice nothing, whoever is
//! refused tries again, what is lost is counted, and the link carries all frames again.
//!
//! FAILING=N takes allocation N alone, with SEED. LONG=1 takes all of them, else every [`STRIDE`]th is,
//! from another one on with each SEED.

use super::*;
use machine::world::{
    fail_allocation,
    has_failed, //
};

/// Each so many allocations fail in one run of the tests.
const STRIDE: u64 = 16;

/// Run `test` with each number of an allocation, which it fails; it returns whether there was one.
fn sweep(test: fn(u64) -> bool) {
    let is_long = number("LONG") == Some(1);
    let seed = number("SEED").unwrap_or(1);
    let stride = if is_long { 1 } else { STRIDE };
    let (numbers, stride) = match number("FAILING") {
        Some(number) => (number..number + 1, 1),
        None => (1 + seed % stride..u64::MAX, stride),
    };
    for number in numbers.step_by(stride as usize) {
        let was_there = Rc::new(Cell::new(false));
        let out = was_there.clone();
        let plan = Plan {
            preempt: Odds(1, 64),
            ..Plan::new(seed)
        };
        machine::run(plan, move || out.set(test(number)));
        if !was_there.get() {
            return;
        }
    }
}

/// Two hosts that send; allocation `number` of what follows fails, and memory is there again. Whether
/// there was one.
fn with_pair(number: u64, what_follows: impl FnOnce(&Pair)) -> bool {
    let pair = Pair::new(true);
    pair.await_frames();
    pair.excuse_all();
    fail_allocation(number);
    what_follows(&pair);
    go_on(pair)
}

/// Memory is there again: the link carries all frames.
fn go_on(pair: Pair) -> bool {
    let has_failed = has_failed();
    pair.await_reload();
    pair.await_frames();
    pair.excuse();
    pair.await_frames();
    pair.end();
    has_failed
}

#[test]
fn a_link_comes_up_whichever_allocation_fails() {
    sweep(|number| {
        fail_allocation(number);
        let pair = Pair::new(true);
        pair.excuse_all();
        pair.await_frames();
        go_on(pair)
    });
}

#[test]
fn frames_arrive_whichever_allocation_fails() {
    sweep(|number| with_pair(number, Pair::await_frames));
}

#[test]
fn a_link_comes_back_whichever_allocation_fails() {
    sweep(|number| {
        with_pair(number, |pair| {
            pair.bridge.cut(true);
            sleep_until(machine::now() + below(200 * MS));
            pair.bridge.cut(false);
            pair.await_frames();
        })
    });
}

#[test]
fn a_module_is_loaded_again_whichever_allocation_fails() {
    sweep(|number| {
        with_pair(number, |pair| {
            pair.machines[0].reload();
            pair.await_frames();
        })
    });
}

#[test]
fn modules_are_unloaded_whichever_allocation_fails() {
    sweep(|number| {
        let pair = Pair::new(true);
        pair.await_frames();
        fail_allocation(number);
        pair.unload();
        has_failed()
    });
}
