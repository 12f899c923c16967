// SPDX-License-Identifier: GPL-2.0

//! The library as programs load it: its symbols, and its functions called from C on a system
//! without the fabric.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The specification's functions, in alphabetical order.
const FUNCTIONS: [&str; 17] = [
    "PXIMC_assertEvent",
    "PXIMC_cleanup",
    "PXIMC_closeWindow",
    "PXIMC_enableDeviceAccess",
    "PXIMC_findInterfaces",
    "PXIMC_findWindows",
    "PXIMC_getPhysicalAddress",
    "PXIMC_queryInterfaceInformation",
    "PXIMC_queryWindowInformation",
    "PXIMC_requestWindowLogicalAsClient",
    "PXIMC_requestWindowLogicalAsPeer",
    "PXIMC_requestWindowLogicalAsServer",
    "PXIMC_requestWindowPhysicalAsClient",
    "PXIMC_requestWindowPhysicalAsServer",
    "PXIMC_waitForConnection",
    "PXIMC_waitForInterfaceEvent",
    "PXIMC_waitForSessionEvent",
];

/// Cargo puts the library beside this test.
fn directory() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().into()
}

fn library() -> PathBuf {
    directory().join("libpximc_ntb.so")
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {} {messages}",
        output.status
    );
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// PXI-GEN-1, PXI-GEN-4, PXI-GEN-5
#[test]
fn exactly_the_functions_of_the_specification_are_exported() {
    let symbols = text(&run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())));
    let names: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    assert_eq!(names, FUNCTIONS);
}

/// PXI-REG-7: no name of the Dispatcher's.
#[test]
fn the_library_has_a_name_of_its_own() {
    let dynamic = text(&run(Command::new("readelf").arg("-d").arg(library())));
    assert!(dynamic.contains("[libpximc_ntb.so]"), "{dynamic}");
}

/// PXI-GEN-2, PXI-FI-9, PXI-FI-10, PXI-CL-6: every function can be called from C, and without the
/// fabric there is nothing. The program has functions of the same names, as one that is linked to
/// the Dispatcher: none of them is called.
#[test]
fn a_program_in_c_calls_all_functions() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls.c");
    let program = directory().join(format!("pximc-calls-{}", std::process::id()));
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include");
    let mut compiler = Command::new("gcc");
    compiler.args([
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-D_DEFAULT_SOURCE",
        "-rdynamic",
    ]);
    run(compiler
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .arg("-ldl"));
    let output = Command::new(&program).arg(library()).output();
    std::fs::remove_file(&program).unwrap();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The examples in C compile without a warning, and say what is missing where there is no fabric.
#[test]
fn the_examples_in_c_can_be_built_and_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pximc");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include");
    let all = std::fs::read_dir(&examples)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_program = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".c") && name.starts_with('s') && name != "scenario.c"
    };
    let programs: Vec<PathBuf> = all.filter(is_program).collect();
    assert!(!programs.is_empty());
    for source in programs {
        let name = source.file_stem().unwrap().to_string_lossy().into_owned();
        let program = directory().join(format!("{name}-{}", std::process::id()));
        let mut compiler = Command::new("gcc");
        compiler
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(&include);
        compiler
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .arg(examples.join("scenario.c"))
            .arg(examples.join("engine.c"));
        run(compiler.arg("-L").arg(directory()).arg("-lpximc_ntb"));
        let mut example = Command::new(&program);
        example.env("LD_LIBRARY_PATH", directory()).args([
            "s0",
            "--timeout",
            "1",
            "--target",
            "00:1f.0",
            "--engine",
            "00:1f.1",
        ]);
        let output = example.output();
        std::fs::remove_file(&program).unwrap();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output).contains("FAILED: no interface is up"),
            "{}",
            text(&output)
        );
    }
}
