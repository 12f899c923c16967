// SPDX-License-Identifier: MIT OR Apache-2.0

//! Generates the numbers and signatures from the headers that programs include, and names the
//! library.

use std::{env, path::PathBuf};

const HEADERS: &str = "../include";

fn main() {
    for header in ["sisci_api.h", "sisci_types.h", "sisci_error.h"] {
        println!("cargo:rerun-if-changed={HEADERS}/{header}");
    }
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("sisci.rs");
    bindgen::Builder::default()
        .header(format!("{HEADERS}/sisci_api.h"))
        .allowlist_item("(SCI|DIS|sci|dis)_?.*")
        .prepend_enum_name(false)
        .generate()
        .expect("bindgen needs libclang: scripts/setup.sh installs it")
        .write_to_file(target)
        .expect("the output directory can be written to");
    mp_c_abi::shared_library("libsisci.so");
}
