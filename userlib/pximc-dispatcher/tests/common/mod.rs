// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the tests of the built library share.

#![allow(dead_code)] // each test program uses its part

use std::path::{Path, PathBuf};

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(name)
}

/// The library as cargo has built it for this test.
pub fn dispatcher() -> PathBuf {
    mp_testing::built::library(env!("CARGO_PKG_NAME"), "libpximc64.so")
}
