// SPDX-License-Identifier: MIT OR Apache-2.0

//! The built library, under a program in C, above libraries of vendors in C.

mod common;

use std::env;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{dispatcher, source};
use mp_testing::built::{build, compiler, Scratch};

/// The version that symbols of the library have.
const VERSION: &str = "PXIMC_1.1";

/// A system with a directory for vendors' libraries, and a program.
struct System {
    scratch: Scratch,
}

impl System {
    fn new() -> System {
        let system = System {
            scratch: Scratch::new(),
        };
        fs::create_dir(system.vendors()).expect("there is room for a directory");
        symlink(dispatcher(), system.path("libpximc64.so")).expect("links can be made");
        system.link(&system.scratch.0);
        system
    }

    /// Link the program to the Dispatcher in a directory; it is run with that of the system.
    fn link(&self, directory: &Path) {
        let run_path = format!("-Wl,-rpath,{}", self.scratch.0.display());
        build(
            compiler("cc")
                .args(["-O1", "-pthread", "-o"])
                .arg(self.path("program"))
                .arg(source("program.c"))
                .arg("-L")
                .arg(directory)
                .args(["-lpximc64", &run_path]),
        );
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }

    fn vendors(&self) -> PathBuf {
        self.path("lib64")
    }

    /// Install a vendor's library, built with more arguments for the compiler.
    fn install(&self, file: &str, vendor: &str, more: &[&str]) {
        let name = format!("-DVENDOR=\"{vendor}\"");
        build(
            compiler("cc")
                .args(["-shared", "-fPIC", "-O1", "-pthread", &name, "-o"])
                .arg(self.vendors().join(file))
                .arg(source("vendor.c"))
                .args(more),
        );
    }

    /// Two vendors with an interface each that is called alike.
    fn with_two_vendors() -> System {
        let system = System::new();
        system.install("liba.so", "A", &[]);
        system.install("libb.so", "B", &[]);
        system
    }

    /// The program, with nothing of this process's environment but what it is given.
    fn program(&self) -> Command {
        let mut program = Command::new(self.path("program"));
        program
            .env_clear()
            .env("PXIMC_LIBRARY_PATH", self.vendors())
            .env("CALLS", self.path("calls"))
            .env("A_INTERFACES", "1 5")
            .env("B_INTERFACES", "5 9");
        program
    }

    /// What the program writes when it is told these lines.
    fn run(&self, lines: &str) -> Vec<String> {
        self.finish(&mut self.program(), lines)
    }

    fn finish(&self, program: &mut Command, lines: &str) -> Vec<String> {
        fs::remove_file(self.path("calls")).ok();
        let mut running = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be run");
        let mut input = running.stdin.take().expect("it is a pipe");
        input
            .write_all(lines.as_bytes())
            .expect("the program reads it");
        drop(input);
        let output = running.wait_with_output().expect("the program ends");
        assert!(output.status.success(), "{:?}", output.status);
        lines_of(&String::from_utf8_lossy(&output.stdout))
    }

    /// What the vendors were called for.
    fn calls(&self) -> Vec<String> {
        lines_of(&fs::read_to_string(self.path("calls")).unwrap_or_default())
    }

    /// These without being loaded and asked for interfaces.
    fn calls_but_finds(&self) -> Vec<String> {
        let mut calls = self.calls();
        calls.retain(|call| !call.ends_with(" find") && !call.ends_with(" loaded"));
        calls
    }
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(Into::into).collect()
}

/// PXI-GEN-1, PXI-GEN-4, PXI-DSP-22: the 17 functions, and nothing else.
#[test]
fn the_library_exports_the_functions_by_name_and_nothing_else() {
    assert_eq!(
        mp_testing::built::exports(&dispatcher(), VERSION),
        mp_testing::built::PXIMC
    );
}

/// A program that was linked before symbols had versions runs with the library of today.
#[test]
fn programs_of_releases_without_versions_run() {
    let (system, old) = (System::new(), Scratch::new());
    mp_testing::built::without_versions(&dispatcher(), VERSION, &old);
    for (place, asks) in [(&old.0, false), (&system.scratch.0, true)] {
        system.link(place);
        let versions = mp_testing::built::needed_versions(&system.path("program"));
        assert_eq!(versions.iter().any(|needed| needed == VERSION), asks);
        assert_eq!(system.run("find 10\n"), ["find NO_PROVIDER 0:"]);
    }
}

#[test]
fn the_library_bears_the_name_that_programs_are_linked_to() {
    assert_eq!(mp_testing::built::soname(&dispatcher()), "libpximc64.so");
}

/// A thread may be in it, or in a vendor's library, when a program lets go of it.
#[test]
fn the_library_stays_when_a_program_lets_go_of_it() {
    let dynamic = mp_testing::built::run(Command::new("readelf").arg("-d").arg(dispatcher()));
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

/// PXI-INSL-11: a vendor that has come for the other kind of processes only.
#[test]
fn a_vendor_for_another_bitness_only_is_no_provider() {
    let system = System::new();
    let other_bitness = ["-m32", "-shared", "-nostdlib", "-fPIC", "-x", "c", "-o"];
    build(
        compiler("cc")
            .args(other_bitness)
            .arg(system.vendors().join("liba.so"))
            .arg("/dev/null"),
    );
    assert_eq!(system.run("find 10\n"), ["find NO_PROVIDER 0:"]);
    system.install("libb.so", "B", &[]);
    assert_eq!(system.run("find 10\n"), ["find SUCCESS 2: 5 9"]);
}

/// PXI-DSP-3, PXI-FI-10: without vendors, a program finds no provider.
#[test]
fn without_vendors_there_is_no_provider() {
    let system = System::new();
    let said = system.run("find 10\nquery 1 0x30000001\nserver 1\nclose 1\ncleanup\nfind 0\n");
    let expected = [
        "find NO_PROVIDER 0:",
        "query INVALID_INTERFACE 4008636142 ",
        "server INVALID_INTERFACE 0",
        "close INVALID_SESSION",
        "cleanup SUCCESS",
        "find NO_PROVIDER 0:",
    ];
    assert_eq!(said, expected);
}

/// PXI-REG-8: libraries that come after the program has started are found.
#[test]
fn a_vendor_may_be_installed_while_programs_run() {
    let system = System::with_two_vendors();
    let said = system.run(&format!(
        "set PXIMC_LIBRARY_PATH /nowhere\nfind 10\nset PXIMC_LIBRARY_PATH {}\nfind 10\nfind 10\n",
        system.vendors().display()
    ));
    assert_eq!(said[0], "find NO_PROVIDER 0:");
    assert_eq!(said[1], "find SUCCESS 4: 1 5 2147483648 9");
    assert_eq!(said[2], said[1]);
    assert_eq!(
        system.calls(),
        ["A loaded", "B loaded", "A find", "B find", "A find", "B find"]
    );
}

/// PXI-DSP-21, PXI-REG-7, PXI-INSL-11: each library is loaded once, in the order of names; what is no library
/// of a vendor is passed over, and the Dispatcher does not load itself.
#[test]
fn all_libraries_of_vendors_are_loaded_once() {
    let system = System::new();
    system.install("libz.so.1", "A", &[]);
    system.install("libb.so", "B", &["-DWITHOUT_ACCESS"]);
    let vendors = system.vendors();
    symlink("libz.so.1", vendors.join("libz.so")).expect("links can be made");
    for name in ["libpximc32.so", "libpximc64.so", "pximc64.so"] {
        system.install(name, "reserved", &[]);
    }
    system.install("liba-incomplete.so", "incomplete", &["-DWITHOUT_CLEANUP"]);
    system.install(
        "liba-unresolved.so",
        "unresolved",
        &["-Dabort=nobody_has_this"],
    );
    fs::write(vendors.join("liba-garbage.so"), "no library").expect("there is room");
    let other_bitness = ["-m32", "-shared", "-nostdlib", "-fPIC", "-x", "c", "-o"];
    build(
        compiler("cc")
            .args(other_bitness)
            .arg(vendors.join("liba-32.so"))
            .arg("/dev/null"),
    );
    symlink(dispatcher(), vendors.join("libself.so")).expect("links can be made");
    assert_eq!(
        system.run("find 10\n"),
        ["find SUCCESS 4: 5 9 1 2147483648"]
    );
    let calls = system.calls();
    assert_eq!(
        calls,
        [
            "incomplete loaded",
            "B loaded",
            "A loaded",
            "B find",
            "A find"
        ]
    );
}

/// What the Dispatcher tells on standard error at a level, without the time.
fn told(system: &System, level: Option<&str>) -> Vec<String> {
    let mut program = system.program();
    level.map(|level| program.env("MP_LOG", level));
    let mut running = program
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be run");
    let mut input = running.stdin.take().expect("it is a pipe");
    input.write_all(b"find 10\n").expect("the program reads it");
    drop(input);
    let output = running.wait_with_output().expect("the program ends");
    assert!(output.status.success(), "{:?}", output.status);
    let text = String::from_utf8_lossy(&output.stderr);
    let line = |line: &str| line.split_once(' ').map(|(_time, rest)| rest.trim().into());
    text.lines().filter_map(line).collect()
}

/// A library that is passed over is told with the reason, to who asks for warnings only.
#[test]
fn a_library_that_cannot_be_loaded_is_told_with_its_reason() {
    let system = System::new();
    let vendors = system.vendors();
    system.install("liba.so", "A", &[]);
    system.install("libb-incomplete.so", "B", &["-DWITHOUT_CLEANUP"]);
    fs::write(vendors.join("libc-garbage.so"), "no library").expect("there is room");
    symlink("nowhere", vendors.join("libd-dangling.so")).expect("links can be made");
    assert_eq!(told(&system, None), [""; 0]);
    let told = told(&system, Some("warn"));
    for (name, reason) in [
        ("libb-incomplete.so", "lacks PXIMC_cleanup"),
        ("libc-garbage.so", "file too short"),
        ("libd-dangling.so", "No such file or directory"),
    ] {
        // What is told begins with the call that it belongs to.
        let of_call = |line: &str| line.starts_with("WARN PXIMC_findInterfaces{capacity=10 ");
        let is_it = |line: &&String| of_call(line) && line.contains(name);
        let lines: Vec<_> = told.iter().filter(is_it).collect();
        assert!(
            matches!(&lines[..], [line] if line.contains(reason)),
            "{name}: {told:#?}"
        );
    }
    assert_eq!(told.len(), 3, "{told:#?}");
}

/// Where it has looked and what it has found is told to who asks for it.
#[test]
fn directories_and_libraries_are_told() {
    let system = System::new();
    let vendors = system.vendors();
    system.install("libz.so.1", "A", &["-DWITHOUT_ACCESS"]);
    symlink("libz.so.1", vendors.join("libz.so")).expect("links can be made");
    symlink(dispatcher(), vendors.join("libself.so")).expect("links can be made");
    fs::write(vendors.join("README"), "").expect("there is room");
    let info = told(&system, Some("info")).join("\n");
    let path = |name: &str| vendors.join(name).display().to_string();
    let loaded = format!(
        "{}: loaded, without PXIMC_enableDeviceAccess",
        path("libz.so")
    );
    assert!(
        info.contains(&format!("{}: searched", vendors.display())),
        "{info}"
    );
    assert!(info.contains(&loaded), "{info}");
    assert!(!info.contains("skipped"), "{info}");
    let debug = told(&system, Some("debug"));
    for (name, reason) in [
        ("README", "not the name of a vendor's library"),
        ("libself.so", "the Dispatcher itself"),
        ("libz.so.1", "the same library as one that is loaded"),
    ] {
        let is_it = |line: &String| line.contains(reason) && line.contains(&path(name));
        assert!(debug.iter().any(is_it), "{name}: {debug:#?}");
    }
    fs::rename(&vendors, system.path("elsewhere")).expect("it can be renamed");
    let warned = told(&system, Some("warn")).join("\n");
    let expected = format!("{}: cannot be searched: ", vendors.display());
    assert!(warned.contains(&expected), "{warned}");
}

/// PXI-DSP-19: libraries of vendors have functions that are called alike, and each its own.
#[test]
fn vendors_do_not_see_each_others_names() {
    let system = System::with_two_vendors();
    assert_eq!(system.run("find 9\n"), ["find SUCCESS 4: 1 5 2147483648 9"]);
    let calls = system.calls();
    assert_eq!(calls, ["A loaded", "B loaded", "A find", "B find"]);
}

/// A library that depends on the Dispatcher does not have the Dispatcher's functions.
#[test]
fn a_vendor_that_is_linked_to_the_dispatcher_is_not_asked_in_circles() {
    let system = System::new();
    let path = format!("-L{}", system.scratch.0.display());
    let linked = [&path, "-Wl,--no-as-needed", "-lpximc64"];
    system.install(
        "liba.so",
        "A",
        &[&["-DWITHOUT_ACCESS"], &linked[..]].concat(),
    );
    system.install(
        "libb.so",
        "B",
        &[&["-DWITHOUT_CLEANUP"], &linked[..]].concat(),
    );
    let said = system.run("find 10\nserver 1\naccess 15 3\n");
    let expected = [
        "find SUCCESS 2: 1 5",
        "server SUCCESS 15",
        "access PHY_RESOURCE_NOT_AVAILABLE",
    ];
    assert_eq!(said, expected);
}

/// The environment does not make privileged programs load anything. Only root can make one.
#[test]
fn a_privileged_program_does_not_heed_the_environment() {
    const NOBODY: [&str; 3] = ["--reuid", "65534", "--clear-groups"];
    let may = Command::new("setpriv").args(NOBODY).arg("true").status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("not root: nothing was tried");
        return;
    }
    let system = System::with_two_vendors();
    let program = system.path("program");
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("it is ours");
    let run = |command: &mut Command| {
        command
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("PXIMC_LIBRARY_PATH", system.vendors())
            .env("A_INTERFACES", "1");
        system.finish(command, "find 10\n")
    };
    assert_eq!(run(&mut Command::new(&program)), ["find SUCCESS 1: 1"]);
    let said = run(Command::new("setpriv").args(NOBODY).arg(&program));
    assert_eq!(said, ["find NO_PROVIDER 0:"]);
}

/// PXI-DSP-23, PXI-FI-6, PXI-FI-7: short and long arrays, and none.
#[test]
fn a_short_array_is_left_alone_and_the_total_is_told() {
    let system = System::with_two_vendors();
    let said = system
        .run("find 0\nfind 3\nfind 4\nfind 14\nfind-null 0 1\nfind-null 4 1\nfind-null 4 2\n");
    let all = "find SUCCESS 4: 1 5 2147483648 9";
    let expected = [
        "find INSUFFICIENT_SPACE 4:",
        "find INSUFFICIENT_SPACE 4:",
        all,
        all,
        "find INSUFFICIENT_SPACE 4:",
        "find INVALID_ARGUMENT eeeeeeee:",
        "find INVALID_ARGUMENT eeeeeeee:",
    ];
    assert_eq!(said, expected);
}

/// PXI-DSP-2: the first error of a vendor; the array and the count stay as they are.
#[test]
fn a_vendors_error_is_that_of_the_call() {
    let system = System::with_two_vendors();
    let said = system.run(
        "set B_FIND -2147479550\nfind 10\nset A_FIND -2147479548\nfind 10\nquery 9 1\n\
         unset A_FIND\nunset B_FIND\nfind 10\nquery 9 1\n",
    );
    let expected = [
        "find INTERFACE_DOWN eeeeeeee:",
        "find INVALID_ARGUMENT eeeeeeee:",
        "query INVALID_INTERFACE 4008636142 ",
        "find SUCCESS 4: 1 5 2147483648 9",
        "query SUCCESS 1004 BBBB",
    ];
    assert_eq!(said, expected);
}

/// Vendors that never have room enough, or claim to have written more than there was room for.
#[test]
fn a_vendor_that_wants_ever_more_room_does_not_hang_the_program() {
    let system = System::with_two_vendors();
    for how in ["greedy", "boast"] {
        let said = system.run(&format!("set B_FIND {how}\nfind 10\nquery 1 1\n"));
        assert_eq!(
            said,
            ["find INSUFFICIENT_SPACE 10003:", "query SUCCESS 1004 AAAA"]
        );
    }
}

/// PXI-DSP-1, PXI-DSP-5, PXI-DSP-7, PXI-DSP-9, PXI-DSP-20, PXI-DSP-24, PXI-DSP-25: each function
/// for interfaces reaches the vendor that has it, under the vendor's number, even before any
/// listing; whatever the vendor answers, the program gets.
#[test]
fn calls_for_interfaces_reach_their_vendor_and_its_answers_the_program() {
    let system = System::with_two_vendors();
    for (status, name) in [
        ("0", "SUCCESS"),
        ("268439553", "TIMEOUT"),
        ("-2147479549", "NSUP_ATTRIBUTE"),
    ] {
        let said = system.run(&format!(
            "set A_STATUS {status}\nset B_STATUS {status}\nquery 2147483648 0x30000001\n\
             wait-interface 1 7\nwindows 2147483648 4\nwindow 9 1587 0x20000001\n"
        ));
        let expected = [
            format!("query {name} 1004 BBBB"),
            format!("wait-interface {name} 3"),
            format!("windows {name} 1: 1587"),
            format!("window {name} 4 BBBB"),
        ];
        assert_eq!(said, expected);
        let expected = [
            "B query 5 30000001 4",
            "A wait-interface 1 7",
            "B windows 5 4",
            "B window 9 1587 20000001 4",
        ];
        assert_eq!(system.calls_but_finds(), expected);
    }
}

/// PXI-DSP-8, PXI-DSP-11: interfaces of nobody; all vendors are asked once more for each.
#[test]
fn unknown_interfaces_are_invalid_after_one_look() {
    let system = System::with_two_vendors();
    let said = system.run("find 9\nwait-interface 77 1\nwindows 0 4\nwindow 77 1 1\nclient 77\n");
    let expected = [
        "wait-interface INVALID_INTERFACE 4008636142",
        "windows INVALID_INTERFACE 4008636142: 0",
        "window INVALID_INTERFACE 4008636142 ",
        "client INVALID_INTERFACE 0",
    ];
    assert_eq!(said[1..], expected);
    assert_eq!(
        system
            .calls()
            .iter()
            .filter(|call| *call == "A find")
            .count(),
        5
    );
    assert!(system.calls_but_finds().is_empty());
}

/// PXI-DSP-6: an interface is removed, and another one comes.
#[test]
fn a_removed_interfaces_number_goes_to_no_other() {
    let system = System::with_two_vendors();
    let said = system.run(
        "find 9\nset A_INTERFACES 5\nset B_INTERFACES 1 5 0\nfind 9\ncleanup\nfind 9\nquery 1 1\n",
    );
    assert_eq!(said[0], "find SUCCESS 4: 1 5 2147483648 9");
    assert_eq!(
        said[1],
        "find SUCCESS 4: 5 2147483649 2147483648 2147483650"
    );
    assert_eq!(said[3], said[1]);
    assert_eq!(said[4], "query INVALID_INTERFACE 4008636142 ");
}

/// PXI-DSP-10, PXI-DSP-12, PXI-GEN-2: each request, before any listing, with all its arguments.
#[test]
fn requests_reach_their_vendor_with_all_arguments() {
    let system = System::with_two_vendors();
    let said = system.run(
        "set A_SESSION 21\nserver 1\nset A_SESSION 22\nclient 1\nset A_SESSION 23\npeer 1\n\
         physical-server 2147483648\nset B_SESSION 31\nphysical-client 9\n",
    );
    let expected = [
        "server SUCCESS 21",
        "client SUCCESS 22",
        "peer SUCCESS 23",
        "physical-server SUCCESS 15",
        "physical-client SUCCESS 31",
    ];
    assert_eq!(said, expected);
    let expected = [
        "A server 1 abcd1000 ffffffffffffffff 2 3 4 5 window",
        "A client 1 abcd1000 100000001 2 3 4 5",
        "A peer 1 abcd1000 1 2 3 4 5 window",
        "B physical-server 5 abcd1000 1 2 f00000003 window",
        "B physical-client 9 abcd1000 1 2 3",
    ];
    assert_eq!(system.calls_but_finds(), expected);
}

/// PXI-DSP-12, PXI-DSP-14, PXI-SES-3: a request that does not succeed writes no number and opens
/// nothing; nor does one that has no place for the number.
#[test]
fn a_request_without_success_leaves_nothing_behind() {
    let system = System::with_two_vendors();
    let said = system.run(
        "set A_STATUS -2147479545\nclient 1\nset A_STATUS 268439553\nserver 1\nunset A_STATUS\n\
         peer 1 1\nclose 15\n",
    );
    let expected = [
        "client NO_PAIRING 0",
        "server TIMEOUT 0",
        "peer INVALID_ARGUMENT 0",
        "close INVALID_SESSION",
    ];
    assert_eq!(said, expected);
    assert_eq!(system.calls_but_finds().len(), 2);
}

/// What the vendor leaves in `errno` is what the program finds there, also if each call is told of.
#[test]
fn errno_is_the_vendors() {
    let system = System::with_two_vendors();
    for level in ["off", "trace"] {
        let said = system.run(&format!(
            "set MP_LOG {level}\nserver 1\nset A_ERRNO 77\nerrno 15\n"
        ));
        assert_eq!(said, ["server SUCCESS 15", "errno 77"], "{level}");
    }
}

/// PXI-DSP-13, PXI-DSP-15, PXI-DSP-16, PXI-DSP-18, PXI-DSP-19, PXI-DSP-20, PXI-DSP-22: two
/// vendors' sessions are numbered alike, and each function for sessions reaches the right one.
#[test]
fn calls_for_sessions_reach_their_vendor_and_its_answers_the_program() {
    let system = System::with_two_vendors();
    let functions = |session: u32| {
        format!(
            "connect {session} 7\naddress {session}\naccess {session} 3\nassert {session}\n\
             wait {session} 8\nclose {session}\n"
        )
    };
    for (status, name) in [
        ("268439553", "TIMEOUT"),
        ("-2147479550", "INTERFACE_DOWN"),
        ("0", "SUCCESS"),
    ] {
        for (session, vendor) in [(15, "A"), (2_147_483_648, "B")] {
            let said = system.run(&format!(
                "server 1\nclient 9\nset {vendor}_STATUS {status}\n{}",
                functions(session)
            ));
            assert_eq!(
                said[..2],
                ["server SUCCESS 15", "client SUCCESS 2147483648"]
            );
            let expected = [
                format!("connect {name} 1000 100000000 2000 400"),
                format!("address {name} f00000000"),
                format!("access {name}"),
                format!("assert {name}"),
                format!("wait {name} 1"),
                format!("close {name}"),
            ];
            assert_eq!(said[2..], expected);
            let expected = [
                format!("{vendor} connect 15 7"),
                format!("{vendor} address 15"),
                format!("{vendor} access 15 3 255 31 7"),
                format!("{vendor} assert 15"),
                format!("{vendor} wait 15 8"),
                format!("{vendor} close 15"),
            ];
            assert_eq!(system.calls_but_finds()[2..], expected);
        }
    }
}

/// PXI-DSP-17, PXI-SES-5: no vendor hears of sessions that are not there.
#[test]
fn unknown_sessions_are_invalid_and_no_vendors_matter() {
    let system = System::with_two_vendors();
    let said = system.run(
        "find 9\nconnect 0 0\naddress 1\naccess 15 3\nassert 15\nwait 2147483648 0\nclose 15\n",
    );
    let expected = [
        "connect INVALID_SESSION 0 0 0 0",
        "address INVALID_SESSION 0",
        "access INVALID_SESSION",
        "assert INVALID_SESSION",
        "wait INVALID_SESSION 4008636142",
        "close INVALID_SESSION",
    ];
    assert_eq!(said[1..], expected);
    assert!(system.calls_but_finds().is_empty());
}

/// PXI-DSP-26, PXI-SES-6: a closed session's number means nothing until it is given anew.
#[test]
fn a_closed_session_is_forgotten() {
    let system = System::with_two_vendors();
    let said = system.run("server 1\nclose 15\nclose 15\nassert 15\nserver 1\nassert 15\n");
    let expected = [
        "server SUCCESS 15",
        "close SUCCESS",
        "close INVALID_SESSION",
        "assert INVALID_SESSION",
        "server SUCCESS 15",
        "assert SUCCESS",
    ];
    assert_eq!(said, expected);
}

/// PXI-DSP-15, PXI-SES-5: a vendor that calls its session 0, or two of them alike.
#[test]
fn sessions_that_are_numbered_wrongly_get_numbers_of_their_own() {
    let system = System::with_two_vendors();
    let said = system.run("set A_SESSION 0\nserver 1\nclose 2147483648\nset A_SESSION 4\npeer 1\npeer 1\nclose 2147483649\n");
    let expected = [
        "server SUCCESS 2147483648",
        "close SUCCESS",
        "peer SUCCESS 4",
        "peer SUCCESS 2147483649",
        "close SUCCESS",
    ];
    assert_eq!(said, expected);
    let calls = system.calls_but_finds();
    assert_eq!(
        (calls[1].as_str(), calls[4].as_str()),
        ("A close 0", "A close 4")
    );
}

/// PXI-DSP-22: a library of the first revision works, and its sessions let no devices in.
#[test]
fn a_library_without_device_access_says_so_for_its_sessions() {
    let system = System::new();
    system.install("liba.so", "A", &["-DWITHOUT_ACCESS"]);
    system.install("libb.so", "B", &[]);
    let said = system.run("server 1\nserver 9\naccess 15 1\naccess 2147483648 1\naccess 3 1\n");
    let expected = [
        "access PHY_RESOURCE_NOT_AVAILABLE",
        "access SUCCESS",
        "access INVALID_SESSION",
    ];
    assert_eq!(said[2..], expected);
}

/// PXI-GEN-3: while a thread waits in a vendor, others do what they like, and may end the wait.
#[test]
fn a_call_that_waits_holds_up_nobody() {
    let system = System::with_two_vendors();
    let said = system.run(
        "set A_BLOCK 1\nserver 1\nserver 9\nstart 15\nstart 15\nawait A wait\nfind 9\n\
         query 9 1\nclose 2147483648\nassert 15\nassert 15\nassert 15\nunset A_BLOCK\nassert 15\njoin\n",
    );
    let mut others = said.clone();
    others.retain(|line| line != "waited SUCCESS 1");
    assert_eq!(said.len() - others.len(), 2);
    let expected = [
        "server SUCCESS 15",
        "server SUCCESS 2147483648",
        "find SUCCESS 4: 1 5 2147483648 9",
        "query SUCCESS 1004 BBBB",
        "close SUCCESS",
    ];
    assert_eq!(others[..5], expected);
}

/// PXI-DSP-27, PXI-CL-3, PXI-CL-5, PXI-CL-6: each vendor cleans up once; then all starts again.
#[test]
fn cleanup_reaches_each_vendor_once_and_all_starts_again() {
    let system = System::with_two_vendors();
    let said =
        system.run("cleanup\nserver 1\nserver 9\ncleanup\nclose 15\nquery 9 1\nserver 1\nfind 9\n");
    let expected = [
        "cleanup SUCCESS",
        "close INVALID_SESSION",
        "query SUCCESS 1004 BBBB",
        "server SUCCESS 15",
        "find SUCCESS 4: 1 5 2147483648 9",
    ];
    assert_eq!(said[..1], expected[..1]);
    assert_eq!(said[4..], expected[1..]);
    let calls = system.calls();
    for vendor in ["A", "B"] {
        let count = |what: &str| {
            calls
                .iter()
                .filter(|call| **call == format!("{vendor} {what}"))
                .count()
        };
        assert_eq!(
            (count("loaded"), count("cleanup"), count("find")),
            (1, 1, 3)
        );
    }
}

/// PXI-SES-2: a child does not have its parent's sessions, even if the parent was busy when it
/// forked; the parent keeps them.
#[test]
fn a_child_begins_anew() {
    let system = System::with_two_vendors();
    let said = system.run(
        "set A_BLOCK 1\nserver 1\nserver 9\nstart 15\nawait A wait\nfork\nassert 15\n\
         close 2147483648\nfind 9\nserver 9\ncleanup\nparent\nassert 2147483648\nassert 15\njoin\n",
    );
    let expected = [
        "server SUCCESS 15",
        "server SUCCESS 2147483648",
        "assert INVALID_SESSION",
        "close INVALID_SESSION",
        "find SUCCESS 4: 1 5 2147483648 9",
        "server SUCCESS 15",
        "cleanup SUCCESS",
        "assert SUCCESS",
    ];
    assert_eq!(said[..8], expected);
    let mut rest = said[8..].to_vec();
    rest.sort();
    assert_eq!(rest, ["assert SUCCESS", "waited SUCCESS 1"]);
}

/// A program in C is all that it takes: the header and the library.
#[test]
fn the_header_and_the_library_are_all_that_a_program_needs() {
    assert!(mp_testing::built::include().join("pximc.h").is_file());
    let system = System::new();
    build(
        compiler("cc")
            .args(["-O2", "-o"])
            .arg(system.path("all"))
            .arg(source("header.c"))
            .arg("-L")
            .arg(&system.scratch.0)
            .arg("-lpximc64"),
    );
    mp_testing::built::run(
        Command::new(system.path("all")).env("LD_LIBRARY_PATH", &system.scratch.0),
    );
}
