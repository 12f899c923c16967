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
    #[error("no node of domain {0}: {1}; choose a number that is free by --node")]
    NoNode(u32, Error),
    /// A function has failed.
    #[error("{0}")]
    Call(#[from] Error),
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
}
