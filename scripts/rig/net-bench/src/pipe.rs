// SPDX-License-Identifier: GPL-2.0-only
//! Two processes of one guest that wake each other through pipes.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The command line's word for the process at the other end of the pipes.
pub const PARTNER: &str = "echo";

/// Send a byte to a child, wait for it to come back, and so on for `time`, with pauses
/// between, which do not count. On one CPU each round trip takes two context switches.
///
/// # Errors
/// What starting the child or the pipes report.
pub fn ping_pong(time: Duration, pause: Duration) -> io::Result<String> {
    let mut child = Command::new(env::current_exe()?)
        .arg(PARTNER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut there), Some(mut back)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let mut byte = [0x55];
    // The child has been started once it has answered.
    there.write_all(&byte)?;
    back.read_exact(&mut byte)?;
    let start = Instant::now();
    let (mut transactions, mut paused) = (0u64, Duration::ZERO);
    while start.elapsed() < time {
        there.write_all(&byte)?;
        back.read_exact(&mut byte)?;
        transactions += 1;
        if !pause.is_zero() {
            let begun = Instant::now();
            thread::sleep(pause);
            paused += begun.elapsed();
        }
    }
    let seconds = (start.elapsed() - paused).as_secs_f64();
    drop(there);
    child.wait()?;
    Ok(format!(
        r#"{{"transactions": {transactions}, "seconds": {seconds:.6}}}"#
    ))
}

/// Return each byte, until there is no more.
///
/// # Errors
/// What the pipes report.
pub fn echo() -> io::Result<()> {
    // Without the buffer of `Stdin` and the line buffer of `Stdout`.
    let (mut input, mut output) = (stream(io::stdin())?, stream(io::stdout())?);
    let mut byte = [0];
    while input.read(&mut byte)? != 0 {
        output.write_all(&byte)?;
    }
    Ok(())
}

fn stream(of: impl AsFd) -> io::Result<File> {
    Ok(of.as_fd().try_clone_to_owned()?.into())
}
