// SPDX-License-Identifier: MIT OR Apache-2.0

//! `pximc.h` with all compilers and standards that there are.

mod common;

use std::process::Command;

use common::source;
use mp_testing::built::compiler;

const C: [&str; 7] = ["c89", "c99", "c11", "c17", "c2x", "gnu89", "gnu17"];
const CXX: [&str; 7] = [
    "c++98", "c++11", "c++14", "c++17", "c++20", "c++23", "gnu++17",
];

/// Compilers that are installed, for the language.
fn compilers(names: &[&'static str]) -> Vec<&'static str> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    names
        .iter()
        .copied()
        .filter(|name| is_there(name))
        .collect()
}

/// Whether the compiler has the standard.
fn knows(name: &str, language: &str, standard: &str) -> bool {
    let standard = format!("-std={standard}");
    let output = compiler(name)
        .args(["-x", language, &standard, "-fsyntax-only", "/dev/null"])
        .output();
    output.expect("the compiler can be run").status.success()
}

/// Compile everything in the header, in all standards; how many there were.
fn compile_in_all(compilers: &[&str], language: &str, standards: &[&str], more: &[&str]) -> usize {
    let program = source("header.c");
    let mut tried = 0;
    for name in compilers {
        for standard in standards
            .iter()
            .filter(|standard| knows(name, language, standard))
        {
            let standard = format!("-std={standard}");
            let strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-long-long"];
            mp_testing::built::run(
                compiler(name)
                    .args(["-x", language, &standard, "-fsyntax-only"])
                    .args(strict)
                    .args(more)
                    .arg(&program),
            );
            tried += 1;
        }
    }
    tried
}

/// PXI-INSL-1, PXI-GEN-2, PXI-GEN-6: values, types and a switch over statuses, in C of any age.
#[test]
fn the_header_is_c() {
    let compilers = compilers(&["gcc", "clang", "clang-19"]);
    assert!(compile_in_all(&compilers, "c", &C, &[]) >= C.len());
}

/// PXI-INSL-1, PXI-GEN-6: and in C++, where a case that does not fit is an error.
#[test]
fn the_header_is_cxx() {
    let compilers = compilers(&["g++", "clang++", "clang++-19"]);
    assert!(compile_in_all(&compilers, "c++", &CXX, &[]) >= CXX.len());
}

/// PXI-GEN-10: numbers and types are the same where pointers have 32 bits. Without a C library
/// for them, for only the header is of interest.
#[test]
fn the_header_is_for_32_bits_as_well() {
    let more = ["-m32", "-ffreestanding", "-Wno-main"];
    let compilers = compilers(&["gcc", "clang", "clang-19"]);
    assert!(compile_in_all(&compilers, "c", &C, &more) >= C.len());
}
