// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tools of MCAPI.
//!
//! Each tool is a module here and a program in `bin`, which only calls [`start()`]; its manual page
//! is in `man`.
//!
//! | module | owns |
//! |---|---|
//! | [`ls`] | a list of nodes, endpoints and channels |
//! | [`failure`] | why a program ends before its time |

pub mod failure;
pub mod ls;

use clap::Parser;
use failure::Outcome;
use mcapi::{Device, Fabric, Topology};
use mp_tools::Sink;
use std::{io, process::ExitCode};

/// A tool: its options, and what it does with them.
pub trait Tool: Parser {
    /// Do it; results go to the writer.
    ///
    /// # Errors
    /// What the program ends with.
    fn run<D: Device>(&self, fabric: Fabric<D>, topology: Topology, out: &mut Sink<'_>) -> Outcome;
}

/// Run a tool with the options of the command line; the exit status.
pub fn start<T: Tool>() -> ExitCode {
    mp_tools::start(|tool: &T| tool.run(Fabric::open()?, Topology::load()?, &mut io::stdout()))
}
