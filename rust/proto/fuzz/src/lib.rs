// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the parsers of the protocol crate must do with bytes that a peer has chosen: never panic,
//! accept nothing that they would not write themselves, and keep their own books in order.
//!
//! Each target is a function of bytes. `tests/corpus.rs` runs them over the kept corpus with every
//! test; `scripts/fuzz.sh` has libFuzzer look for more.

mod dibs;
mod input;
mod queue_pair;
mod targets;
mod work;

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name; each has a file of that name in `corpus`.
pub const TARGETS: &[(&str, Target)] = &[
    ("wire", targets::wire),
    ("hello", targets::hello),
    ("mailbox", targets::mailbox),
    ("link", targets::link),
    ("layout", targets::layout),
    ("consumer", targets::consumer),
    ("producer", targets::producer),
    ("manage", targets::manage),
    ("flow", targets::flow),
    ("fabric", targets::fabric),
    ("ether", targets::ether),
    ("dibs", dibs::run),
    ("pairing_message", targets::pairing_message),
    ("sharing_message", targets::sharing_message),
    ("pairing_arbiter", targets::pairing_arbiter),
    ("pairing_asker", targets::pairing_asker),
    ("queue_pair", queue_pair::run),
    ("work", work::run),
];

/// The target with that name.
pub fn target(name: &str) -> Option<Target> {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, target)| *target)
}
