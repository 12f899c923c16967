// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suites of the message frame service, run on hosts by several seeds each.
//!
//! Those of `rust/mp_kunit.rs` that are not here need the network stack, tasks of the kernel, or what
//! serves programs.

#![cfg(test)]

#[path = "../../../mp_kunit/fifo.rs"]
mod fifo;
#[path = "../../../mp_kunit/fixture.rs"]
mod fixture;
#[path = "../../../mp_kunit/forward.rs"]
mod forward;
#[path = "../../../mp_kunit/frames.rs"]
mod frames;
#[path = "../../../mp_kunit/interface.rs"]
mod interface;
#[path = "../../../mp_kunit/kept.rs"]
mod kept;
#[path = "../../../mp_kunit/memory.rs"]
mod memory;

use kernel::module;
use machine::Plan;
use mp_transport::HOST_MODULE;

/// Seeds of each case, unless the environment says SEEDS=N.
const SEEDS: u64 = 4;

fn seeds() -> u64 {
    let said = std::env::var("SEEDS").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// Run a case on a host that has loaded the module; it leaves no memory behind.
fn on_a_host(case: fn()) {
    for seed in 0..seeds() {
        machine::run(Plan::new(seed), move || {
            module::load(&HOST_MODULE).expect("memory is there");
            case();
            module::unload(&HOST_MODULE);
            assert_eq!(machine::memory::pieces_of(&machine::host()), 0);
        });
    }
}
