// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! design 2, never 5: all parsers over the kept corpus, and over bytes near it.

use std::fs;
use std::path::Path;

use mp_fuzz::TARGETS;

/// The bytes that a line of hexadecimal digits stands for.
fn bytes(line: &str) -> Vec<u8> {
    let digits: Vec<_> = line
        .chars()
        .map(|c| c.to_digit(16).expect("a digit"))
        .collect();
    digits
        .chunks(2)
        .map(|two| (two[0] << 4 | two[1]) as u8)
        .collect()
}

/// The inputs of a target.
fn inputs(name: &str) -> Vec<Vec<u8>> {
    let file = format!("corpus/{name}.hex");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(path).expect("a file for each target");
    text.lines().map(bytes).collect()
}

#[test]
fn nothing_in_the_corpus_breaks_a_parser() {
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        inputs.iter().for_each(|input| target(input));
    }
}

/// Each input with a bit changed, a byte left out or one put in.
#[test]
fn nothing_near_the_corpus_breaks_a_parser() {
    let mut state = 1u64;
    let mut roll = |n: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize % n.max(1)
    };
    for (name, target) in TARGETS {
        for input in inputs(name) {
            for _ in 0..50 {
                let mut near = input.clone();
                let at = roll(near.len() + 1);
                match roll(3) {
                    0 if at < near.len() => near[at] ^= 1 << roll(8),
                    1 if at < near.len() => drop(near.remove(at)),
                    _ => near.insert(at, roll(256) as u8),
                }
                target(&near);
            }
        }
    }
}
