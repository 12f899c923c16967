// SPDX-License-Identifier: MIT OR Apache-2.0

//! The library as programs load it: its symbols, and its functions called from C on a system
//! without the fabric.

use mp_testing::built::{
    assert_told, build, build_example, exports, include, needed_versions, run, soname, Scratch,
};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// The version that symbols of the library have.
const VERSION: &str = "MCAPI_2.0";

/// What the examples say where there is no fabric.
const UNINITIALIZED: &str = "FAILED: mcapi_initialize: MCAPI_ERR_NODE_INITFAILED\n";

/// The examples, and arguments for each role that they have.
const RUNS: [(&str, &[&str]); 10] = [
    ("mcapi_balance", &["worker 1", "balancer 2 10 1"]),
    ("mcapi_callbacks", &["server 1", "client 2 1 10"]),
    (
        "mcapi_connect",
        &["source 1 10", "sink 2", "connector 3 1 2"],
    ),
    ("mcapi_control", &["tpu 1", "signal 2", "control 3 1 2 10"]),
    ("mcapi_many", &["sink 1 1", "source 2 1"]),
    ("mcapi_names", &["server", "client 1 one other"]),
    ("mcapi_offload", &["worker 1", "client 2 1 10"]),
    ("mcapi_perf", &["server 1", "client 2 1 --json"]),
    ("mcapi_pipeline", &["stage 1", "source 2 1"]),
    ("mcapi_recover", &["worker 1", "client 2 1 10"]),
];

fn library() -> PathBuf {
    mp_testing::built::library(env!("CARGO_PKG_NAME"), "libmcapi.so.2")
}

/// A directory with the library by the names that programs are linked to and look for.
fn installed() -> Scratch {
    let (place, library) = (Scratch::new(), library());
    for name in ["libmcapi.so.2", "libmcapi.so"] {
        symlink(&library, place.path(name)).unwrap();
    }
    place
}

/// Names of the functions that the headers declare.
fn functions() -> BTreeSet<String> {
    let headers = ["mcapi.h", "mcapi_abb.h"].map(|name| include().join(name));
    let text = headers
        .map(|header| fs::read_to_string(header).unwrap())
        .concat();
    let declarations = text.split("\nextern ").skip(1);
    let names = declarations.filter_map(|declaration| {
        let (before, _) = declaration.split_once('(')?;
        before.split([' ', '*']).next_back()
    });
    names
        .map(str::to_owned)
        .filter(|name| name.starts_with("mcapi"))
        .collect()
}

/// The functions by their names, and nothing else.
#[test]
fn exactly_the_functions_of_the_headers_are_exported() {
    let found: BTreeSet<String> = exports(&library(), VERSION).into_iter().collect();
    assert_eq!(functions().len(), 52);
    assert_eq!(found, functions());
}

#[test]
fn the_library_has_the_name_that_programs_are_linked_to() {
    assert_eq!(soname(&library()), "libmcapi.so.2");
}

/// Build a program of C from `tests/c` against the library; run it.
fn runs(source: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(source);
    let (place, library) = (Scratch::new(), library());
    let program = place.path("program");
    build(
        Command::new("gcc")
            .args(["-Wall", "-Wextra", "-pedantic", "-o"])
            .arg(&program)
            .args(options)
            .arg("-I")
            .arg(include())
            .arg(source)
            .arg("-L")
            .arg(library.parent().unwrap())
            .arg("-lmcapi"),
    );
    assert!(needed_versions(&program).iter().any(|it| it == VERSION));
    let printed = run(Command::new(&program)
        .env("LD_LIBRARY_PATH", library.parent().unwrap())
        .env("MCAPI_CONFIG", "/dev/null"));
    assert_eq!(printed, "");
}

/// MC-GEN-2, MC-GEN-3, MC-DISP-3: all functions are called from C, and do nothing without a node.
#[test]
fn a_program_in_c_calls_all_functions() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/calls.c");
    let text = fs::read_to_string(source).unwrap();
    for function in functions() {
        assert!(text.contains(&format!("{function}(")), "{function}");
    }
    runs("calls.c", &["-std=c99"]);
}

/// Names of the examples that there are.
fn programs(examples: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(examples).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .filter_map(|name| name.strip_suffix(".c").map(str::to_owned))
        .filter(|name| name.starts_with("mcapi_"))
        .collect()
}

/// The examples in C are compiled without a warning from the headers and the library alone, and say
/// what is missing where there is no fabric.
#[test]
fn the_examples_in_c_can_be_built_and_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mcapi");
    let place = installed();
    let run = BTreeSet::from(RUNS.map(|(name, _)| name.to_owned()));
    assert_eq!(run, programs(&examples));
    for (name, roles) in RUNS {
        let program = build_example(&examples, name, &["common.c"], &place, "-lmcapi");
        for role in roles {
            let output = Command::new(&program)
                .args(role.split(' '))
                .env("LD_LIBRARY_PATH", &place.0)
                .env("MCAPI_CONFIG", "/dev/null")
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(1), "{name} {role}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), UNINITIALIZED);
        }
    }
}

/// With `MP_LOG=error` a call that fails tells what is missing, and what would help.
#[test]
fn what_is_missing_is_told_if_the_environment_asks_for_it() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mcapi");
    let place = installed();
    let program = build_example(&examples, "mcapi_names", &["common.c"], &place, "-lmcapi");
    let mistaken = place.path("mcapi.conf");
    fs::write(&mistaken, "nonsense\n").unwrap();
    let names = |config: &Path| {
        let mut names = Command::new(&program);
        names.arg("server").env("LD_LIBRARY_PATH", &place.0);
        names.env("MCAPI_CONFIG", config);
        names
    };
    let parts = [
        "mcapi_initialize{",
        "/dev/mp_fabric: ",
        "modprobe mp_func_user",
    ];
    assert_told(&mut names(Path::new("/dev/null")), UNINITIALIZED, &parts);
    let file = format!("{}: line 1: ", mistaken.display());
    let parts = ["mcapi_initialize{", &*file];
    assert_told(&mut names(&mistaken), UNINITIALIZED, &parts);
}

/// MC-COMPAT-1: a program that was written to 1.0 and uses all of its calls is compiled as it is.
#[test]
fn a_program_of_1_0_is_compiled_and_runs() {
    let compatible = include().join("mcapi-1.0");
    let compatible = format!("-I{}", compatible.display());
    for standard in ["-std=c89", "-std=c99", "-std=gnu17"] {
        runs("version1.c", &[standard, &compatible]);
    }
    build(
        Command::new("g++")
            .args(["-x", "c++", "-Wall", "-Wextra", "-fsyntax-only"])
            .arg(compatible)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/version1.c")),
    );
}
