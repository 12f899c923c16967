// SPDX-License-Identifier: GPL-2.0-only

//! Whole hosts over the protocol crate, in one thread, under a clock that a seed drives.
//!
//! [`run`] plays a [`plan::Plan`]: hosts that come and go, links that stall, lose and lie, frames,
//! sessions and the memory behind them. The state machines are those of [`mp_proto`]; what drives
//! them here follows the kernel modules call by call, so that what it finds is theirs, too.
//! [`shrink`] makes a failure smaller. `Documentation/simulator.md` describes the model and what
//! is checked.
//!
//! | module | stands for |
//! |---|---|
//! | [`wire`] | windows, scratchpads and messages: the ordering rules of the bridge |
//! | [`link_end`] | `pximc_ntb/peer_link.rs`, `upper.rs` and the polls of `channel_link.rs` |
//! | [`channel`] | the receiving halves of rings in `pximc_ntb/channel.rs`, and `kept.rs` |
//! | [`service`] | `mp_transport/service.rs`, `peer.rs` |
//! | [`forward`], [`via`], [`management`] | the files of that name in `mp_transport` |
//! | [`memory`] | `mp_transport/memory` |
//! | [`user`] | `mp_func_user`, and processes; some of them with queue pairs |
//! | [`app`] | a function service |
//! | [`host`], [`world`] | workers, interrupts; the clock, faults, and what must come true in the end |
//! | [`check`], [`pairs`] | what must hold at every step |

pub mod app;
pub mod channel;
pub mod check;
pub mod dice;
pub mod forward;
pub mod host;
pub mod link_end;
pub mod management;
pub mod memory;
pub mod pairs;
pub mod plan;
pub mod service;
pub mod shrink;
pub mod user;
pub mod via;
pub mod wire;
pub mod world;

use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe};
use std::sync::Once;

use check::Totals;
use plan::{Length, Plan, Reduction};

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Make panics of runs leave their message behind instead of printing it.
fn keep_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |info| {
            if !RUNS.get() {
                return others(info);
            }
            let place = info.location();
            let place = place.map_or(String::new(), |p| format!(" ({}:{})", p.file(), p.line()));
            let text = info.payload_as_str().unwrap_or("a panic");
            LAST.with(|last| *last.borrow_mut() = format!("{text}{place}"));
        }));
    });
}

/// Run a plan.
///
/// # Errors
/// What did not hold.
pub fn run(plan: Plan, trace: bool) -> Result<Totals, String> {
    keep_messages();
    RUNS.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| world::World::new(plan, trace).run()));
    RUNS.set(false);
    result.map_err(|_| LAST.with(|last| last.borrow().clone()))
}

/// Run a seed.
///
/// # Errors
/// What did not hold.
pub fn run_seed(seed: u64, length: Length, less: &Reduction) -> Result<Totals, String> {
    run(Plan::new(seed, length, less), false)
}
