// SPDX-License-Identifier: GPL-2.0

//! The library as programs load it: its symbols, the headers, and its functions called from C on
//! a system without the fabric.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Cargo puts the library beside this test.
fn directory() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().into()
}

fn library() -> PathBuf {
    directory().join("libsisci_ffi.so")
}

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../include")
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

/// Names of flags and queries that the header defines.
fn constants() -> BTreeSet<String> {
    let text = header("sisci_types.h");
    let defined = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define "));
    let names = defined.filter_map(|line| line.split([' ', '\t']).next());
    let wanted = |name: &&str| name.starts_with("SCI_FLAG_") || name.starts_with("SCI_Q_");
    names.filter(wanted).map(str::to_owned).collect()
}

/// SI-ABI-2, SI-ABI-3, SI-ABI-4: the functions by all their names, the constants, nothing else.
#[test]
fn exactly_what_the_headers_have_is_exported() {
    let symbols = text(&run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())));
    let found: BTreeSet<String> = symbols
        .lines()
        .filter_map(|line| line.split(' ').nth(2).map(str::to_owned))
        .collect();
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
    let dynamic = text(&run(Command::new("readelf").arg("-d").arg(library())));
    assert!(dynamic.contains("[libsisci.so]"), "{dynamic}");
}

/// SI-ABI-1: each header alone, in every language that programs are written in.
#[test]
fn the_headers_compile_alone() {
    for (language, standard) in [("c", "c89"), ("c", "c99"), ("c", "c17"), ("c++", "c++11")] {
        for name in ["sisci_api.h", "sisci_types.h", "sisci_error.h"] {
            let compiler = if language == "c" { "gcc" } else { "g++" };
            run(Command::new(compiler)
                .args(["-x", language, &format!("-std={standard}")])
                .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
                .arg(include())
                .arg(include().join(name)));
        }
    }
}

/// SI-ABI-3, SI-ABI-4, SI-ABI-5, SI-ABI-6, SI-INIT-2, SI-ERRSTR-1, SI-GEN-1, SI-FLUSH-2: numbers and
/// layouts are those that a compiler of C finds, and functions can be called from C.
#[test]
fn a_program_in_c_finds_what_the_library_has() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/calls.c");
    let program = directory().join(format!("sisci-calls-{}", std::process::id()));
    run(Command::new("gcc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(include())
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(["-ldl"]));
    let output = Command::new(&program)
        .env("SISCI_CONF", "/dev/null")
        .arg(library())
        .output();
    fs::remove_file(&program).unwrap();
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
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sisci");
    let place = directory().join(format!("sisci-examples-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    // By the name that programs are linked to.
    fs::copy(library(), place.join("libsisci.so")).unwrap();
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
        let program = place.join(name);
        run(Command::new("gcc")
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
            .arg(include())
            .arg("-o")
            .arg(&program)
            .arg(examples.join(name).with_extension("c"))
            .arg(examples.join("common.c"))
            .arg(examples.join("mirror.c"))
            .arg("-L")
            .arg(&place)
            .arg("-lsisci"));
        let output = Command::new(&program)
            .args(words)
            .env("LD_LIBRARY_PATH", &place)
            .env("SISCI_CONF", "/dev/null")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("FAILED: SCIOpen: "), "{said}");
    }
    fs::remove_dir_all(&place).unwrap();
}

/// SI-ABI-1, SI-ABI-3, SI-ABI-4: a program in the customary style needs no change, by whatever
/// names its headers have it linked to the library.
#[test]
fn a_customary_program_is_linked_by_all_names() {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/sisci_customary.c");
    let place = directory().join(format!("sisci-customary-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    fs::copy(library(), place.join("libsisci.so")).unwrap();
    let ways: [(&str, &[&str]); 5] = [
        ("gcc", &["-std=c99", "-Werror"]),
        ("gcc", &["-std=gnu17", "-DFAMILY=ST"]),
        ("gcc", &["-std=gnu17", "-DFAMILY=MT"]),
        ("g++", &["-x", "c++", "-fpermissive", "-w"]),
        ("g++", &["-x", "c++", "-fpermissive", "-w", "-DFAMILY=MT"]),
    ];
    for (compiler, options) in ways {
        let program = place.join("customary");
        run(Command::new(compiler)
            .args(["-Wall", "-Wextra", "-I"])
            .arg(include())
            .args(options)
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(&place)
            .arg("-lsisci"));
        let output = Command::new(&program)
            .arg("8")
            .env("LD_LIBRARY_PATH", &place)
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
    fs::remove_dir_all(&place).unwrap();
}
