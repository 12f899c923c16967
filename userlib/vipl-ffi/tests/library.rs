// SPDX-License-Identifier: MIT OR Apache-2.0

//! The library as programs load it: its symbols, and its functions called from C on a system
//! without the fabric.

use mp_testing::built::{
    assert_told, build, build_example, compiler, exports, include, run, soname, Scratch,
};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// What the examples say where there is no fabric.
const UNOPENED: &str = "FAILED: VipOpenNic: VIP_ERROR_RESOURCE\n";

fn library() -> PathBuf {
    mp_testing::built::library(env!("CARGO_PKG_NAME"), "libvipl.so.1")
}

/// A directory with the library by the names that programs are linked to and look for.
fn installed() -> Scratch {
    let place = Scratch::new();
    fs::copy(library(), place.path("libvipl.so.1")).unwrap();
    symlink("libvipl.so.1", place.path("libvipl.so")).unwrap();
    place
}

/// Names of the functions that the header declares.
fn functions() -> BTreeSet<String> {
    let text = fs::read_to_string(include().join("vipl.h")).unwrap();
    let declarations = text.split("\nVIP_RETURN ").skip(1);
    let names = declarations.filter_map(|declaration| declaration.split('(').next());
    names.map(str::to_owned).collect()
}

/// VI-CONF-3, VI-CONF-6: the functions by their names, and nothing else.
#[test]
fn exactly_the_functions_of_the_header_are_exported() {
    let found: BTreeSet<String> = exports(&library(), "VIPL_1.0").into_iter().collect();
    assert_eq!(functions().len(), 41);
    assert_eq!(found, functions());
}

#[test]
fn the_library_has_the_name_that_programs_are_linked_to() {
    assert_eq!(soname(&library()), "libvipl.so.1");
}

/// VI-GEN-5, VI-NIC-4: functions are called from C, and take nothing for a handle that is none.
#[test]
fn a_program_in_c_calls_all_functions() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/calls.c");
    let place = installed();
    let program = place.path("calls");
    build(
        compiler("gcc")
            .args(["-std=gnu99", "-Wall", "-Wextra", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-L")
            .arg(&place.0)
            .args(["-lvipl", "-ldl"]),
    );
    let printed = run(Command::new(&program)
        .env("LD_LIBRARY_PATH", &place.0)
        .arg(place.path("libvipl.so.1")));
    assert_eq!(printed, "");
}

/// VI-CONF-6: the examples in C are compiled without a warning from the header and the library alone,
/// and say what is missing where there is no fabric.
#[test]
fn the_examples_in_c_can_be_built_and_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vipl");
    let place = installed();
    for (name, words) in [
        ("vipl_echo_server", &["1"][..]),
        ("vipl_echo_client", &["4", "1"]),
        ("vipl_perf", &["client", "4"]),
        ("vipl_copy", &["receive", "/dev/null"]),
    ] {
        let program = build_example(&examples, name, &["common.c", "end.c"], &place, "-lvipl");
        let output = Command::new(&program)
            .args(words)
            .env("LD_LIBRARY_PATH", &place.0)
            .env("VIPL_CONF", "/dev/null")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, UNOPENED);
    }
}

/// With `MP_LOG=error` a call that fails tells what is missing, and what would help.
#[test]
fn what_is_missing_is_told_if_the_environment_asks_for_it() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vipl");
    let place = installed();
    let sources = ["common.c", "end.c"];
    let program = build_example(&examples, "vipl_perf", &sources, &place, "-lvipl");
    let mut perf = Command::new(&program);
    perf.args(["client", "4"]).env("LD_LIBRARY_PATH", &place.0);
    let parts = ["VipOpenNic{", "/dev/mp_fabric: ", "modprobe mp_func_user"];
    assert_told(&mut perf, UNOPENED, &parts);
}
