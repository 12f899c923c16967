// SPDX-License-Identifier: MIT OR Apache-2.0

//! Generates the structures and numbers from the header that the kernel side is generated from
//! as well.

use bindgen::callbacks::{IntKind, ParseCallbacks};
use std::{env, path::PathBuf};

const HEADER: &str = "../../uapi/linux/mp_fabric.h";

/// Gives numbers of 64 bits their type: the largest of them would be taken for -1.
#[derive(Debug)]
struct Types;

impl ParseCallbacks for Types {
    fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
        let wide = name.starts_with("MP_DEADLINE_") || name == "MP_SIZE_MAX";
        wide.then_some(IntKind::U64)
    }
}

fn main() {
    println!("cargo:rerun-if-changed={HEADER}");
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("uapi.rs");
    bindgen::Builder::default()
        .header(HEADER)
        .allowlist_var("MP_.*")
        .allowlist_type("mp_.*")
        .derive_default(true)
        .generate_cstr(true)
        .parse_callbacks(Box::new(Types))
        .generate()
        .expect("bindgen needs libclang: scripts/setup.sh installs it")
        .write_to_file(target)
        .expect("the output directory can be written to");
}
