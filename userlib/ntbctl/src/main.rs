// SPDX-License-Identifier: MIT OR Apache-2.0

//! `ntbctl`: shows and tests the message frame fabric of this host.
//!
//! * [`cli`]: the command line.
//! * [`commands`]: one module for each thing to do.
//! * [`model`]: hosts, peers and links as the kernel tells of them.
//! * [`netlink`]: the conversation with the kernel; [`uapi`]: its numbers.
//! * [`output`]: tables and JSON.
//! * [`failure`]: what can go wrong, and the exit status for it.

mod cli;
mod commands;
mod failure;
mod model;
mod netlink;
mod output;
mod uapi;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match cli::Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Where standard error is closed, the status has to do.
            let _ = error.print();
            return failure::usage_status(&error);
        }
    };
    match commands::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(&options.command),
    }
}
