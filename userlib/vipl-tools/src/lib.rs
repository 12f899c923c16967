// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tools of virtual interfaces: programs that measure and use them between two hosts.
//!
//! Each tool is a module here and a program in `bin`, which only calls [`start()`]; its manual page
//! is in `man`.
//!
//! | module | owns |
//! |---|---|
//! | [`perf`] | latency, bandwidth and connections per second |
//! | [`copy`] | a file copy |
//! | [`end`] | one end of a connection, with its memory and descriptors |
//! | [`plot`] | plots of what was measured |
//! | [`failure`] | why a program ends before its time |

pub mod copy;
pub mod end;
pub mod failure;
pub mod perf;
pub mod plot;

use clap::Parser;
use failure::{Failure, Outcome};
use mp_tools::Sink;
use std::{io, process::ExitCode};
use vipl::{Device, HostAddress, Library, Names};

/// A tool: its options, and what it does with them.
pub trait Tool: Parser {
    /// Do it; results go to the writer.
    ///
    /// # Errors
    /// What the program ends with.
    fn run<D: Device>(&self, host: &Host<D>, out: &mut Sink<'_>) -> Outcome;
}

/// What a tool has of its host.
#[derive(Debug)]
pub struct Host<D: Device> {
    /// The library.
    pub library: Library<D>,
    /// Names of hosts.
    pub names: Names,
}

impl<D: Device> Host<D> {
    /// Find the address of a host by its name or number.
    ///
    /// # Errors
    /// [`Failure::NoHost`].
    pub fn address(&self, name: &str) -> Outcome<HostAddress> {
        let number = self.names.address(name, 0);
        let number = number.map_err(|_| Failure::NoHost(name.into()))?;
        Ok(HostAddress::of(number))
    }
}

/// Run a tool with the options of the command line; the exit status.
pub fn start<T: Tool>() -> ExitCode {
    mp_tools::start(|tool: &T| {
        let host = Host {
            library: Library::load(),
            names: Names::load()?,
        };
        tool.run(&host, &mut io::stdout())
    })
}
