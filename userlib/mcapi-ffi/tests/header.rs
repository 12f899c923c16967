// SPDX-License-Identifier: MIT OR Apache-2.0

//! `mcapi.h` and the headers beside it, as compilers see them.

use mp_testing::built::{build, compiler, include, run, without_comments, words, Scratch};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// C and C++, in the standards that programs are written in.
const LANGUAGES: [(&str, &str, &str); 5] = [
    ("gcc", "c", "c89"),
    ("gcc", "c", "c99"),
    ("gcc", "c", "c11"),
    ("gcc", "c", "c17"),
    ("g++", "c++", "c++11"),
];

const HEADERS: [&str; 7] = [
    "mca.h",
    "mca_impl_spec.h",
    "mcapi.h",
    "mcapi_impl_spec.h",
    "mcapi_abb.h",
    "mcapi_v1000_to_v2000.h",
    "mcapi-1.0/mcapi.h",
];

/// A source of these tests.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(name)
}

/// MC-ATTR-7, MC-BUF-3: each header alone, and `layout.c`, which asserts each constant, size and
/// offset.
#[test]
fn sizes_offsets_and_constants_hold() {
    let layout = source("layout.c");
    let headers = HEADERS.map(|name| include().join(name));
    for (name, language, standard) in LANGUAGES {
        for file in headers.iter().chain([&layout]) {
            build(
                compiler(name)
                    .args(["-x", language, &format!("-std={standard}")])
                    .args(["-Wall", "-Wextra", "-pedantic", "-fsyntax-only"])
                    .arg(file),
            );
        }
    }
}

/// MC-GEN-13, MC-BUF-3: handles are passed by value and compared, and memory is aligned as the macros
/// ask for, in each language.
#[test]
fn handles_are_values_and_memory_is_aligned() {
    let place = Scratch::new();
    for (name, language, standard) in LANGUAGES {
        let program = place.path(standard);
        build(
            compiler(name)
                .args(["-x", language, &format!("-std={standard}")])
                .args(["-Wall", "-Wextra", "-pedantic", "-o"])
                .arg(&program)
                .arg(source("values.c")),
        );
        assert_eq!(run(&mut Command::new(&program)), "");
    }
}

/// Nothing that the headers define is left out of `layout.c`.
#[test]
fn each_constant_of_the_headers_is_asserted() {
    let asserted = words(&fs::read_to_string(source("layout.c")).unwrap());
    let left_out: BTreeSet<String> = HEADERS[..5]
        .iter()
        .flat_map(|name| {
            words(&without_comments(
                &fs::read_to_string(include().join(name)).unwrap(),
            ))
        })
        .filter(|word| word.starts_with("MCA") && !word.ends_with("_H"))
        .filter(|word| !asserted.contains(word))
        .collect();
    assert_eq!(left_out, BTreeSet::new());
}
