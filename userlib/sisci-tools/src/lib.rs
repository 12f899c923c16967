// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tools of SISCI: programs that measure and show what goes on between two nodes.
//!
//! Each tool is a module here and a program in `bin`, which only calls [`start()`]; its manual
//! page is in `man`. The same programs are in `examples/sisci` in C; they take the same options,
//! print the same, and one side may be in C and the other one in Rust.
//!
//! | module | owns |
//! |---|---|
//! | [`scipp`], [`intr_bench`], [`rpc`] | latencies: of stores, interrupts and calls |
//! | [`scibench`], [`dmabench`] | rates: of copies by the processor and by DMA |
//! | [`shmem`] | the life of a segment |
//! | [`sci_probe`], [`sci_query`] | nodes and adapters |
//! | [`options`], [`output`], [`failure`] | the command line, results, why a program ends |
//! | [`side`], [`mirror`] | what client and server have in common |

pub mod dmabench;
pub mod failure;
pub mod intr_bench;
pub mod mirror;
pub mod options;
pub mod output;
pub mod rpc;
pub mod sci_probe;
pub mod sci_query;
pub mod scibench;
pub mod scipp;
pub mod shmem;
pub mod side;

use clap::Parser;
use failure::Outcome;
use mp_fabric::Device;
use output::Output;
use sisci::Library;
use std::{io, process::ExitCode};

/// A tool: its options, and what it does with them.
pub trait Tool: Parser {
    /// Whether it prints JSON.
    fn json(&self) -> bool;

    /// Do it.
    ///
    /// # Errors
    /// What the program ends with.
    fn run<D: Device>(&self, library: &Library<D>, out: &mut Output<'_>) -> Outcome;
}

/// Run a tool with the options of the command line; the exit status.
pub fn start<T: Tool>() -> ExitCode {
    mp_tools::start(|tool: &T| {
        let mut stdout = io::stdout();
        let mut out = Output::new(tool.json(), &mut stdout);
        tool.run(&Library::load()?, &mut out)
    })
}
