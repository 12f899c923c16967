// SPDX-License-Identifier: GPL-2.0-only
//! Process 1 after boot: keeps an agent running and buries orphans.

use std::io;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::{wait, Pid, WaitOptions};

const RESTART_DELAY: Duration = Duration::from_millis(200);

fn start_agent() -> io::Result<Pid> {
    // The RAM disk is out of sight by now, but the link still leads there.
    let agent = Command::new("/proc/self/exe").arg("agent").spawn()?;
    Ok(Pid::from_child(&agent))
}

/// Run for the life of the guest.
///
/// # Errors
/// When no agent can be started, or waiting for children fails.
pub fn run() -> io::Result<()> {
    let mut agent = start_agent()?;
    loop {
        let Some((ended, _)) = wait(WaitOptions::empty())? else {
            continue;
        };
        if ended == agent {
            eprintln!("guest-init: the agent ended, starting another");
            thread::sleep(RESTART_DELAY);
            agent = start_agent()?;
        }
    }
}
