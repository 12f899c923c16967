// SPDX-License-Identifier: MIT OR Apache-2.0

//! Generates the numbers of commands and attributes from the header that the kernel side is
//! generated from as well.

use std::{env, path::PathBuf};

const HEADER: &str = "../../uapi/linux/mp_netlink.h";

fn main() {
    println!("cargo:rerun-if-changed={HEADER}");
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("uapi.rs");
    bindgen::Builder::default()
        .header(HEADER)
        .allowlist_var("MP_.*")
        .layout_tests(false)
        .generate()
        .expect("bindgen needs libclang: scripts/setup.sh installs it")
        .write_to_file(target)
        .expect("the output directory can be written to");
}
