// SPDX-License-Identifier: MIT OR Apache-2.0

//! `vipl.h` as compilers see it.

use mp_testing::built::{build, compiler, include, without_comments, words};
use std::{fs, path::Path};

/// C and C++, in the standards that programs are written in.
const LANGUAGES: [(&str, &str, &str); 5] = [
    ("gcc", "c", "c89"),
    ("gcc", "c", "c99"),
    ("gcc", "c", "c11"),
    ("gcc", "c", "c17"),
    ("g++", "c++", "c++11"),
];

/// VI-CONF-7: `layout.c` asserts each size, offset, constant and name.
#[test]
fn sizes_offsets_constants_and_names_hold() {
    let layout = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/layout.c");
    for (name, language, standard) in LANGUAGES {
        for file in [&include().join("vipl.h"), &layout] {
            build(
                compiler(name)
                    .args(["-x", language, &format!("-std={standard}")])
                    .args(["-Wall", "-Wextra"])
                    .arg("-fsyntax-only")
                    .arg(file),
            );
        }
    }
}

/// VI-CONF-7: nothing that the header defines is left out of `layout.c`.
#[test]
fn each_constant_of_the_header_is_asserted() {
    let layout = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/layout.c");
    let asserted = fs::read_to_string(layout).unwrap();
    let asserted = words(&asserted);
    let header = fs::read_to_string(include().join("vipl.h")).unwrap();
    let left_out: Vec<_> = words(&without_comments(&header))
        .into_iter()
        .filter(|word| word.starts_with("VI") || word.starts_with("_VI") || word.starts_with("Vip"))
        .filter(|word| !asserted.contains(word) && word != "VIP_KERNEL")
        .collect();
    assert_eq!(left_out, Vec::<String>::new());
}
