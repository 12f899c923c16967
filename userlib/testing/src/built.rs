// SPDX-License-Identifier: MIT OR Apache-2.0

//! The shared library of a crate, and programs in C above it. Whatever goes wrong fails the test.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

/// The functions that PXImc specifies, in alphabetical order.
pub const PXIMC: [&str; 17] = [
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

/// The shared library of a crate, by the name that programs look for. It is linked beside the test,
/// unless it is there already, as `make userlib` does.
pub fn library(package: &str, name: &str) -> PathBuf {
    let test = env::current_exe().expect("the test is a file");
    let library = test.with_file_name(name);
    run(Command::new(checkout().join("scripts/link.sh"))
        .arg(package)
        .arg(archive(package, &test))
        .arg(&library));
    library
}

/// What Cargo has made of a crate beside the test. There is one for each set of features that it was
/// built with. The newest is of the present source: Cargo makes one anew that is older.
fn archive(package: &str, test: &Path) -> PathBuf {
    let stem = format!("lib{}-", package.replace('-', "_"));
    let beside = fs::read_dir(test.parent().expect("it is in a directory"));
    let entries = beside.expect("it can be read").map_while(Result::ok);
    let archives = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(&stem) && name.ends_with(".a")
    });
    let newest = archives.max_by_key(|entry| entry.metadata().and_then(|of| of.modified()).ok());
    newest.expect("Cargo makes a static library").path()
}

/// All words of a text: names, numbers, keywords.
pub fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map(str::to_owned)
        .collect()
}

/// What is outside of comments in a header of C.
pub fn without_comments(text: &str) -> String {
    let pieces = text.split("/*").enumerate();
    let code = pieces.map(|(index, piece)| match index {
        0 => piece,
        _ => piece.split_once("*/").map_or("", |(_, code)| code),
    });
    code.collect()
}

/// The directory with all sources.
fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The headers that programs include.
pub fn include() -> PathBuf {
    checkout().join("userlib/include")
}

/// Run a program, which has to succeed; what it prints.
pub fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program can be run");
    let messages = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    assert!(status.success(), "{command:?}: {status} {messages}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Check what a program and its libraries tell on standard error: exactly `own`, and all of `parts`
/// as well if `MP_LOG` asks for errors. It ends with the same status.
pub fn assert_told(command: &mut Command, own: &str, parts: &[&str]) {
    let mut told = |level: Option<&str>| {
        command.env_remove("MP_LOG");
        level.map(|level| command.env("MP_LOG", level));
        let output = command.output().expect("the program can be run");
        let told = String::from_utf8(output.stderr).expect("it tells text");
        (output.status, told)
    };
    let quiet = told(None);
    assert_eq!(quiet.1, own);
    let (status, told) = told(Some("error"));
    assert_eq!(status, quiet.0);
    for part in parts {
        assert!(told.contains(part), "{part} is not told: {told}");
    }
}

/// The names that a library exports, in alphabetical order. Each has this version, as its default.
pub fn exports(library: &Path, version: &str) -> Vec<String> {
    let mut symbols = Command::new("nm");
    symbols.args(["--dynamic", "--defined-only", "--format=just-symbols"]);
    let symbols = run(symbols.arg(library));
    // The version is a symbol itself.
    let exported = symbols.lines().filter(|symbol| *symbol != version);
    let mut names: Vec<String> = exported
        .map(|symbol| match symbol.split_once("@@") {
            Some((name, of)) if of == version => name.to_owned(),
            _ => panic!("{symbol} has not the version {version}"),
        })
        .collect();
    names.sort();
    names
}

/// Put a library into `place` that has the names of another one, without versions, and does
/// nothing: what programs of releases without versions were linked to.
pub fn without_versions(library: &Path, version: &str, place: &Scratch) {
    let functions = exports(library, version);
    let functions: String = functions
        .iter()
        .map(|name| format!("void {name}(void) {{}}\n"))
        .collect();
    let source = place.path("without_versions.c");
    fs::write(&source, functions).expect("there is room");
    let name = soname(library);
    build(
        compiler("gcc")
            .args(["-shared", "-fPIC", &format!("-Wl,-soname,{name}"), "-o"])
            .arg(place.path(&name))
            .arg(&source),
    );
}

/// The versions that a program needs of libraries.
pub fn needed_versions(program: &Path) -> Vec<String> {
    let told = run(Command::new("readelf").arg("-VW").arg(program));
    let names = told.lines().filter_map(|line| {
        let rest = line.split_once("Name: ")?.1;
        Some(rest.split_whitespace().next()?.to_owned())
    });
    names.collect()
}

/// The name that programs which are linked to a library look for.
pub fn soname(library: &Path) -> String {
    let dynamic = run(Command::new("readelf").arg("-d").arg(library));
    let name = dynamic.lines().find(|line| line.contains("(SONAME)"));
    let name = name.and_then(|line| line.split_once('[')?.1.split_once(']'));
    name.expect("it has a name").0.to_owned()
}

/// A compiler with the headers within reach.
pub fn compiler(name: &str) -> Command {
    let mut command = Command::new(name);
    command.arg("-I").arg(include());
    command
}

/// Run a compiler, which has nothing to complain about.
pub fn build(command: &mut Command) {
    let output = command.output().expect("the compiler can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    let is_good = output.status.success() && said.is_empty();
    assert!(is_good, "{command:?}: {said}");
}

/// Build an example of C in the directory of a library's, with the sources that all of them
/// share, against the library in `place`; without a warning.
pub fn build_example(
    examples: &Path,
    name: &str,
    shared: &[&str],
    place: &Scratch,
    link: &str,
) -> PathBuf {
    let program = place.path(name);
    build(
        compiler("gcc")
            .args(["-std=c99", "-Wall", "-Wextra", "-pthread", "-o"])
            .arg(&program)
            .arg(examples.join(name).with_extension("c"))
            .args(shared.iter().map(|source| examples.join(source)))
            .arg("-L")
            .arg(&place.0)
            .arg(link),
    );
    program
}

/// A directory that goes when the test ends.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// An empty one.
    pub fn new() -> Scratch {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("mp-built-{}-{number}", process::id()));
        fs::create_dir(&path).expect("there is room for a directory");
        Scratch(path)
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
