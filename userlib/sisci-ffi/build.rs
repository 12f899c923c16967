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
    // The compiler exports the functions of the specification and nothing else. A thread may still
    // be in here when a program lets go of the library: it stays until the process ends.
    for argument in [
        "-Wl,-soname,libsisci.so",
        "-Wl,-Bsymbolic-functions",
        "-Wl,-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
