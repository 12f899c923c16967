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
    // The compiler exports the functions of the specification and nothing else. The Dispatcher
    // has functions of the same names: no call from inside may end there. A thread may still be
    // in here when a program lets go of the library: it stays until the process ends.
    for argument in [
        "-Wl,-soname,libpximc_ntb.so",
        "-Wl,-Bsymbolic-functions",
        "-Wl,-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
