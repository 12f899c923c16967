// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests that run themselves again in a process of their own: what a library says on standard
//! error, and what it reads in the environment, belong to the process.

use std::{env, process::Command};

/// Set in the process that a test starts.
const INNER: &str = "MP_TESTING_INNER";

/// Whether this is the process that a test has started.
pub fn is_inner() -> bool {
    env::var_os(INNER).is_some()
}

/// Run a test of the same file again, with variables and without `MP_LOG` unless it is one; what it
/// has written to standard output and to standard error.
///
/// # Panics
/// If it fails, or does not run.
pub fn again(test: &str, variables: &[(&str, &str)]) -> (String, String) {
    let mut command = Command::new(env::current_exe().expect("the test is a file"));
    command.args(["--exact", test, "--nocapture"]);
    command.env_remove("MP_LOG").env(INNER, "1");
    let output = command.envs(variables.iter().copied()).output();
    let output = output.expect("the test can be started");
    let [told, complained] = [output.stdout, output.stderr].map(|bytes| {
        let text = String::from_utf8(bytes);
        text.expect("it is text")
    });
    let ran = told.contains("1 passed") && output.status.success();
    assert!(ran, "{test}: {}\n{told}{complained}", output.status);
    (told, complained)
}
