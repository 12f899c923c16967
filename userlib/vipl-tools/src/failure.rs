// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a tool ends before its time.

use std::io;
use vipl::{Error, NamesError, Status};

/// What a tool does, or why not.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a tool ends before its time.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The names of hosts cannot be read.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// There is no such host.
    #[error(
        "no host `{0}`: no line of vipl.conf(5) has that name, and it is no host's number; \
        `ntbctl peers` lists the hosts that are reached"
    )]
    NoHost(String),
    /// A function of the specification has failed.
    #[error("{0}: {1} ({name})", name = .1.name())]
    Call(&'static str, Error),
    /// A descriptor has come back with an error.
    #[error("a descriptor has failed: status {:#010x}", .0.0)]
    Descriptor(Status),
    /// The other side has said something that makes no sense.
    #[error("{0}")]
    Wrong(&'static str),
    /// A file cannot be read or written, or there is no way to print.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl mp_tools::Failure for Failure {
    fn as_io(&self) -> Option<&io::Error> {
        match self {
            Failure::Io(error) => Some(error),
            _ => None,
        }
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

impl<T> Called<T> for vipl::Result<T> {
    fn called(self, function: &'static str) -> Outcome<T> {
        self.map_err(|error| Failure::Call(function, error))
    }
}
