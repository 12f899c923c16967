// SPDX-License-Identifier: GPL-2.0-only
//! The only program in a guest's initial RAM disk.
//!
//! As process 1 ([`boot`], [`reaper`]) it puts a scratch overlay over the
//! host's root file system, moves there and looks after orphans. Started again
//! with the argument `agent` ([`agent`]) it serves requests from the rig, which
//! arrive as JSON lines on a virtio serial port ([`protocol`], [`port`]).
//!
//! It decides nothing about the project: which modules are loaded and which
//! commands run is the business of the rig on the host.

#![forbid(unsafe_code)]

mod agent;
mod boot;
mod command;
mod network;
mod port;
mod protocol;
mod reaper;

use std::process::ExitCode;

fn main() -> ExitCode {
    let result = if std::env::args().nth(1).as_deref() == Some("agent") {
        agent::serve()
    } else {
        boot::assemble_root().and_then(|()| reaper::run())
    };
    if let Err(error) = result {
        // On process 1 the exit that follows is a kernel panic: the guest ends
        // and this line is the last but one on its console.
        eprintln!("guest-init: {error}");
    }
    ExitCode::FAILURE
}
