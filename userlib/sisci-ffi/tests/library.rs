// SPDX-License-Identifier: MIT OR Apache-2.0

//! The library as programs load it: its symbols, the headers, and its functions called from C on
//! a system without the fabric.

use mp_testing::built::{
    build, build_example, compiler, exports, include, needed_versions, run, soname,
    without_versions, Scratch,
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The version that symbols of the library have.
const VERSION: &str = "SISCI_1.0";

fn library() -> PathBuf {
    mp_testing::built::library(env!("CARGO_PKG_NAME"), "libsisci.so")
}

/// A directory with the library by the name that programs are linked to.
fn installed() -> Scratch {
    let place = Scratch::new();
    fs::copy(library(), place.path("libsisci.so")).unwrap();
    place
}

fn header(name: &str) -> String {
    fs::read_to_string(include().join(name)).unwrap()
}

/// Names of the functions that the header declares.
fn functions() -> BTreeSet<String> {
    let text = header("sisci_api.h");
    let declarations = text.split("SISCI_API_EXPORT ").skip(1);
    let name = |declaration: &str| {
        let start = declaration.find("SCI")?;
        let rest = declaration.get(start..)?;
        Some(rest.split('(').next()?.to_owned())
    };
    declarations.filter_map(name).collect()
}

/// Names of the constants that the header defines and the library has as objects: flags, queries,
/// and the time that means for ever.
fn constants() -> BTreeSet<String> {
    let text = header("sisci_types.h");
    let defined = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define "));
    let names = defined.filter_map(|line| line.split([' ', '\t']).next());
    let wanted = |name: &&str| {
        name.starts_with("SCI_FLAG_")
            || name.starts_with("SCI_Q_")
            || *name == "SCI_INFINITE_TIMEOUT"
    };
    names.filter(wanted).map(str::to_owned).collect()
}

/// SI-ABI-2, SI-ABI-3, SI-ABI-4: the functions by all their names, the constants, nothing else.
#[test]
fn exactly_what_the_headers_have_is_exported() {
    let found: BTreeSet<String> = exports(&library(), VERSION).into_iter().collect();
    let functions = functions();
    assert_eq!(functions.len(), 84);
    let mut expected = BTreeSet::new();
    for name in &functions {
        expected.insert(format!("_SISCI_PUBLIC_FUNC_ST_{name}"));
        expected.insert(format!("_SISCI_PUBLIC_FUNC_MT_{name}"));
    }
    expected.extend(functions);
    let constants = constants();
    expected.extend(constants.iter().map(|n| format!("_SISCI_PUBLIC_CONST_{n}")));
    assert_eq!(found, expected);
}

#[test]
fn the_library_has_the_name_that_programs_are_linked_to() {
    assert_eq!(soname(&library()), "libsisci.so");
}

/// Run an example with the library of a place: it says that there is no fabric.
fn finds_no_fabric(program: &Path, words: &[&str], place: &Scratch) {
    let output = Command::new(program)
        .args(words)
        .env("LD_LIBRARY_PATH", &place.0)
        .env("SISCI_CONF", "/dev/null")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("FAILED: SCIOpen: "), "{said}");
}

/// SI-ABI-3: a program that was linked before symbols had versions runs with the library of today,
/// and one that is linked today asks for the version.
#[test]
fn programs_of_releases_without_versions_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sisci");
    let (old, new) = (Scratch::new(), installed());
    without_versions(&library(), VERSION, &old);
    let shared = ["common.c", "mirror.c"];
    for (place, asks) in [(&old, false), (&new, true)] {
        let program = build_example(&examples, "sci_query", &shared, place, "-lsisci");
        let versions = needed_versions(&program);
        assert_eq!(versions.iter().any(|needed| needed == VERSION), asks);
        finds_no_fabric(&program, &[], &new);
    }
}

/// SI-ABI-1: each header alone, in every language that programs are written in.
#[test]
fn the_headers_compile_alone() {
    for (language, standard) in [("c", "c89"), ("c", "c99"), ("c", "c17"), ("c++", "c++11")] {
        for name in ["sisci_api.h", "sisci_types.h", "sisci_error.h"] {
            let name_of = if language == "c" { "gcc" } else { "g++" };
            build(
                compiler(name_of)
                    .args(["-x", language, &format!("-std={standard}")])
                    .args(["-Wall", "-Wextra", "-fsyntax-only"])
                    .arg(include().join(name)),
            );
        }
    }
}

/// SI-ABI-3, SI-ABI-4, SI-ABI-5, SI-ABI-6, SI-INIT-2, SI-ERRSTR-1, SI-GEN-1, SI-GEN-29, SI-FLUSH-2:
/// numbers and layouts are those that a compiler of C finds, and functions can be called from C.
#[test]
fn a_program_in_c_finds_what_the_library_has() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/calls.c");
    let place = Scratch::new();
    let program = place.path("calls");
    build(
        compiler("gcc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-ldl"),
    );
    run(Command::new(&program)
        .env("SISCI_CONF", "/dev/null")
        .arg(library()));
}

/// The examples in C compile without a warning, and say what is missing where there is no fabric.
#[test]
fn the_examples_in_c_can_be_built_and_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sisci");
    let place = installed();
    for (name, words) in [
        ("dmabench", &["client", "4"][..]),
        ("intr_bench", &["client", "4"]),
        ("rpc", &["client", "4"]),
        ("sci_probe", &["4"]),
        ("sci_query", &[]),
        ("scibench", &["client", "4"]),
        ("scipp", &["client", "4"]),
        ("shmem", &["server", "4"]),
    ] {
        let shared = ["common.c", "mirror.c"];
        let program = build_example(&examples, name, &shared, &place, "-lsisci");
        finds_no_fabric(&program, words, &place);
    }
}

/// SI-ABI-1, SI-ABI-3, SI-ABI-4: a program in the customary style needs no change, by whatever
/// names its headers have it linked to the library.
#[test]
fn a_customary_program_is_linked_by_all_names() {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/sisci_customary.c");
    let place = installed();
    let ways: [(&str, &[&str]); 5] = [
        ("gcc", &["-std=c99", "-Werror"]),
        ("gcc", &["-std=gnu17", "-DFAMILY=ST"]),
        ("gcc", &["-std=gnu17", "-DFAMILY=MT"]),
        ("g++", &["-x", "c++", "-fpermissive", "-w"]),
        ("g++", &["-x", "c++", "-fpermissive", "-w", "-DFAMILY=MT"]),
    ];
    for (name, options) in ways {
        let program = place.path("customary");
        build(
            compiler(name)
                .args(["-Wall", "-Wextra"])
                .args(options)
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .arg("-L")
                .arg(&place.0)
                .arg("-lsisci"),
        );
        let output = Command::new(&program)
            .arg("8")
            .env("LD_LIBRARY_PATH", &place.0)
            .env("SISCI_CONF", "/dev/null")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{options:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.starts_with("SCIOpen failed - Error code 0x40000919"),
            "{said}"
        );
    }
}
