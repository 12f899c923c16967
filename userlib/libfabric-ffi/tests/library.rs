// SPDX-License-Identifier: MIT OR Apache-2.0

//! The library as libfabric loads it, on a system without the fabric.

use mp_testing::built::{exports, soname};
use std::{path::PathBuf, process::Command};

fn library() -> PathBuf {
    mp_testing::built::library(env!("CARGO_PKG_NAME"), "libmpfab-fi.so")
}

#[test]
fn nothing_but_the_entry_is_exported() {
    assert_eq!(exports(&library(), "MPFAB_1.0"), ["fi_prov_ini"]);
    assert_eq!(soname(&library()), "libmpfab-fi.so");
}

/// Debian's libfabric finds the provider by its name, and is told that there is nothing to use.
#[test]
fn libfabric_finds_the_provider_and_no_fabric() {
    let mut asked = Command::new("fi_info");
    asked.args(["-p", "mpfab"]).env("FI_LOG_LEVEL", "info");
    asked.env("FI_PROVIDER_PATH", library().parent().unwrap());
    let output = asked.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("registering provider: mpfab (0.1)"), "{said}");
    assert!(said.contains("provider mpfab returned -61"), "{said}");
    assert!(!output.status.success());
}
