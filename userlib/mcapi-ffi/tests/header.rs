// SPDX-License-Identifier: MIT OR Apache-2.0

//! `mcapi.h` and the headers beside it, as compilers see them.

use mp_testing::built::{build, compiler, include, without_comments, words};
use std::{collections::BTreeSet, fs, path::Path};

/// C and C++, in the standards that programs are written in.
const LANGUAGES: [(&str, &str, &str); 5] = [
    ("gcc", "c", "c89"),
    ("gcc", "c", "c99"),
    ("gcc", "c", "c11"),
    ("gcc", "c", "c17"),
    ("g++", "c++", "c++11"),
];

const HEADERS: [&str; 6] = [
    "mca.h",
    "mca_impl_spec.h",
    "mcapi.h",
    "mcapi_impl_spec.h",
    "mcapi_v1000_to_v2000.h",
    "mcapi-1.0/mcapi.h",
];

/// MC-ATTR-7, MC-BUF-3: each header alone, and `layout.c`, which asserts each constant, size and
/// offset.
#[test]
fn sizes_offsets_and_constants_hold() {
    let layout = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/layout.c");
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

/// Nothing that the headers define is left out of `layout.c`.
#[test]
fn each_constant_of_the_headers_is_asserted() {
    let layout = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/layout.c");
    let asserted = words(&fs::read_to_string(layout).unwrap());
    let left_out: BTreeSet<String> = HEADERS[..4]
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
