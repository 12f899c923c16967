// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a tool ends before its time.

use sisci::{ConfigError, Error};
use std::io;

/// What a tool does, or why not.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a tool ends before its time.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A function of the specification has failed.
    #[error("{0}: {1} (0x{code:08X}){help}", code = .1.code(), help = help(*.1))]
    Call(&'static str, Error),
    /// A function that connects has failed.
    #[error(
        "{function}: {error} (0x{code:08X}): number {number} of node {node}, at adapter \
        {adapter}{help}", code = .error.code(), help = help(*.error)
    )]
    Connect {
        /// Its name.
        function: &'static str,
        /// Why.
        error: Error,
        /// The node.
        node: u32,
        /// The adapter of this host.
        adapter: u32,
        /// The id of the segment, or the number of the interrupt.
        number: u32,
    },
    /// The other node has fallen silent.
    #[error("the other node has fallen silent")]
    Silent,
    /// The other node has said or written something that makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// A node does not answer, which has been printed.
    #[error("a node does not answer")]
    NoAnswer,
    /// There is no way to print.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl mp_tools::Failure for Failure {
    fn as_io(&self) -> Option<&io::Error> {
        match self {
            Failure::Output(error) => Some(error),
            _ => None,
        }
    }

    fn is_told(&self) -> bool {
        matches!(self, Failure::NoAnswer)
    }
}

/// What would help, if that is known.
fn help(error: Error) -> &'static str {
    match error {
        Error::NoSuchSegment => "; is the other side running there?",
        Error::NoSuchNodeId => "; no line of the configuration has that node: see sisci.conf(5)",
        Error::IllegalNodeId => "; nodes are 1 to 251, see sisci.conf(5)",
        Error::NoSuchAdapterNo => {
            "; adapters have the numbers of the configuration, see sisci.conf(5); \
            `ntbctl links` lists the bridges"
        }
        Error::NoLinkAccess | Error::NoRemoteLinkAccess | Error::NodeNotResponding => {
            "; `ntbctl peers` lists the hosts that are reached"
        }
        Error::SegmentIdUsed => "; another program of this host has it: choose one by --id",
        Error::HwNoSpace => "; a smaller size fits, or larger windows of the bridge",
        _ => "",
    }
}

/// Names the function that a result is of.
pub trait Called<T> {
    /// Name it.
    ///
    /// # Errors
    /// [`Failure::Call`].
    fn called(self, function: &'static str) -> Outcome<T>;
}

impl<T> Called<T> for sisci::Result<T> {
    fn called(self, function: &'static str) -> Outcome<T> {
        self.map_err(|error| Failure::Call(function, error))
    }
}
