// SPDX-License-Identifier: MIT OR Apache-2.0

//! Generates the numbers and signatures from the header that programs include, and names the
//! library.

use std::{env, path::PathBuf};

const HEADER: &str = "../include/pximc.h";

fn main() {
    println!("cargo:rerun-if-changed={HEADER}");
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("pximc.rs");
    bindgen::Builder::default()
        .header(HEADER)
        .allowlist_item("[_et]?PXI(MC|NTB)_.*")
        .prepend_enum_name(false)
        .generate()
        .expect("bindgen needs libclang: scripts/setup.sh installs it")
        .write_to_file(target)
        .expect("the output directory can be written to");
    mp_c_abi::shared_library("libpximc_ntb.so");
}
