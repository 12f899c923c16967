// SPDX-License-Identifier: MIT OR Apache-2.0

//! The library as programs load it: its symbols, and its functions called from C on a system
//! without the fabric.

use mp_testing::built::{assert_told, build, compiler, exports, run, soname, Scratch, PXIMC};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The library.
fn library() -> PathBuf {
    mp_testing::built::library(env!("CARGO_PKG_NAME"), "libpximc_ntb.so")
}

/// PXI-GEN-1, PXI-GEN-4, PXI-GEN-5
#[test]
fn exactly_the_functions_of_the_specification_are_exported() {
    assert_eq!(exports(&library(), "PXIMC_NTB_1.1"), PXIMC);
}

/// PXI-REG-7: no name of the Dispatcher's.
#[test]
fn the_library_has_a_name_of_its_own() {
    assert_eq!(soname(&library()), "libpximc_ntb.so");
}

/// PXI-GEN-2, PXI-FI-9, PXI-FI-10, PXI-CL-6: every function can be called from C, and without the
/// fabric there is nothing. The program has functions of the same names, as one that is linked to
/// the Dispatcher: none of them is called.
#[test]
fn a_program_in_c_calls_all_functions() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls.c");
    let place = Scratch::new();
    let program = place.path("calls");
    build(
        compiler("gcc")
            .args([
                "-std=c99",
                "-Wall",
                "-Wextra",
                "-D_DEFAULT_SOURCE",
                "-rdynamic",
            ])
            .arg("-o")
            .arg(&program)
            .arg(source)
            .arg("-ldl"),
    );
    run(Command::new(&program).arg(library()));
}

/// That there is no interface is success; why there is none can be asked for.
#[test]
fn a_program_is_told_why_there_is_no_interface() {
    let place = Scratch::new();
    let (source, program) = (place.path("list.c"), place.path("list"));
    let text = "#include <pximc.h>\n\
        int main(void) { uint32_t n = 7; return PXIMC_findInterfaces(0, 0, &n) || n; }\n";
    fs::write(&source, text).unwrap();
    let library = library();
    let directory = library.parent().unwrap();
    let mut build_it = compiler("gcc");
    build_it.arg("-o").arg(&program).arg(&source);
    build(build_it.arg("-L").arg(directory).arg("-lpximc_ntb"));
    let mut list = Command::new(&program);
    run(list.env("LD_LIBRARY_PATH", directory));
    let parts = [
        "PXIMC_findInterfaces{max_number=0 ",
        "/dev/mp_fabric: ",
        "modprobe mp_func_user",
    ];
    assert_told(&mut list, "", &parts);
}

/// The examples in C compile without a warning, and say what is missing where there is no fabric.
#[test]
fn the_examples_in_c_can_be_built_and_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pximc");
    let all = std::fs::read_dir(&examples)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_program = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".c") && name.starts_with('s') && name != "scenario.c"
    };
    let programs: Vec<PathBuf> = all.filter(is_program).collect();
    assert!(!programs.is_empty());
    let (place, library) = (Scratch::new(), library());
    let directory = library.parent().unwrap();
    for source in programs {
        let program = place.path("program");
        build(
            compiler("gcc")
                .args(["-std=c99", "-Wall", "-Wextra", "-o"])
                .arg(&program)
                .arg(&source)
                .arg(examples.join("scenario.c"))
                .arg(examples.join("engine.c"))
                .arg("-L")
                .arg(directory)
                .arg("-lpximc_ntb"),
        );
        let mut example = Command::new(&program);
        example.env("LD_LIBRARY_PATH", directory).args([
            "s0",
            "--timeout",
            "1",
            "--target",
            "00:1f.0",
            "--engine",
            "00:1f.1",
        ]);
        let output = example.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("FAILED: no interface is up"), "{said}");
    }
}
