// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a tool ends before its time.

use mcapi::{Error, TopologyError};
use mp_fabric::Error as FabricError;
use std::io;

/// What a tool does, or why not.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a tool ends before its time.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] TopologyError),
    /// The fabric cannot be used.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// This host is in no domain.
    #[error("host {0:#x} is in no domain: see mcapi.conf(5)")]
    NoDomain(u32),
    /// The tool cannot become a node.
    #[error("no node of domain {domain}: {error}{}", advice(.error))]
    NoNode {
        /// The domain that it was to be of.
        domain: u32,
        /// Why not.
        error: Error,
    },
    /// A function has failed.
    #[error("{0}")]
    Call(#[from] Error),
    /// The other node has sent something else than it should.
    #[error("{0}")]
    Wrong(&'static str),
    /// There is no way to print.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// What helps if the tool cannot become a node.
fn advice(error: &Error) -> &'static str {
    match error {
        Error::NodeInitFailed => "; choose a number that is free by --node",
        _ => "",
    }
}

impl mp_tools::Failure for Failure {
    fn as_io(&self) -> Option<&io::Error> {
        match self {
            Failure::Output(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another number is a way out only if this one may be taken.
    #[test]
    fn another_number_is_advised_if_it_may_help() {
        for (error, helps) in [(Error::NodeInitFailed, true), (Error::NodeInvalid, false)] {
            let told = Failure::NoNode { domain: 3, error }.to_string();
            assert_eq!(told.contains("--node"), helps, "{told}");
        }
    }
}
