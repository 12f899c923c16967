// SPDX-License-Identifier: GPL-2.0

//! What the tests of the built library share: a place for files, and compilers.

#![allow(dead_code)] // each test program uses its part

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

static SCRATCHES: AtomicU32 = AtomicU32::new(0);

/// A directory that goes when the test ends.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        let number = SCRATCHES.fetch_add(1, Ordering::Relaxed);
        let name = format!("pximc-dispatcher-{}-{number}", process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).expect("there is room for a directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(name)
}

pub fn include_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../include")
}

/// The library as cargo has built it for this test.
pub fn dispatcher() -> PathBuf {
    let test = env::current_exe().expect("the test is a file");
    let library = test.with_file_name("libpximc64.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// Runs a compiler with the header within reach.
pub fn compile<A: AsRef<OsStr>>(compiler: &str, arguments: impl IntoIterator<Item = A>) -> Output {
    Command::new(compiler)
        .arg("-I")
        .arg(include_directory())
        .args(arguments)
        .output()
        .expect("the compiler can be run")
}

/// Compiles a program or a library, which has to work.
pub fn build<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) {
    let output = compile("cc", arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
