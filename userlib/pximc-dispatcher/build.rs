// SPDX-License-Identifier: MIT OR Apache-2.0

//! Gives the library the name that programs are linked to, by the size of its pointers.

use std::env;

fn main() {
    let bits = env::var("CARGO_CFG_TARGET_POINTER_WIDTH").expect("cargo sets it");
    mp_c_abi::shared_library(&format!("libpximc{bits}.so"));
}
