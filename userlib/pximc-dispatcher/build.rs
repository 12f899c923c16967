// SPDX-License-Identifier: MIT OR Apache-2.0

//! Gives the library the name that programs are linked to, by the size of its pointers.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let bits = env::var("CARGO_CFG_TARGET_POINTER_WIDTH").expect("cargo sets it");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpximc{bits}.so");
}
