// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tools of MCAPI.
//!
//! Each tool is a module here and a program in `bin`, which only calls [`start()`]; its manual page
//! is in `man`.
//!
//! | module | owns |
//! |---|---|
//! | [`bench`](mod@bench) | latency and throughput between two nodes, by size |
//! | [`way`] | messages, packets and scalars to another node and from it |
//! | [`ls`] | a list of nodes, endpoints and channels |
//! | [`failure`] | why a program ends before its time |

pub mod bench;
pub mod failure;
pub mod ls;
pub mod way;

use clap::Parser;
use failure::{Failure, Outcome};
use mcapi::{Device, Fabric, Node, NodeAttributes, Topology};
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

/// Become a node of this host's first domain.
///
/// # Errors
/// [`Failure::NoDomain`], [`Failure::NoNode`].
pub fn node<D: Device>(fabric: Fabric<D>, topology: Topology, number: u32) -> Outcome<Node<D>> {
    let host = fabric.host()?;
    let domain = topology.domain_of(host).ok_or(Failure::NoDomain(host))?;
    Node::with_fabric(fabric, topology, domain, number, NodeAttributes::default())
        .map_err(|error| Failure::NoNode { domain, error })
}

/// Run a tool with the options of the command line; the exit status.
pub fn start<T: Tool>() -> ExitCode {
    mp_tools::start(|tool: &T| tool.run(Fabric::open()?, Topology::load()?, &mut io::stdout()))
}
