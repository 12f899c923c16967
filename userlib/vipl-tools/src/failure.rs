// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a tool ends before its time: exit status 1, and 2 if the command line makes no sense.

use std::{io, process::ExitCode};
use vipl::{Error, NamesError, Status};

/// Exit status for a command line that makes no sense.
pub const USAGE: u8 = 2;
/// Exit status for everything else.
const FAILED: u8 = 1;

/// What a tool does, or why not.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a tool ends before its time.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The names of hosts cannot be read, or there is no such name.
    #[error(transparent)]
    Names(#[from] NamesError),
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

impl Failure {
    /// Tell the user; the exit status.
    pub fn report(&self) -> ExitCode {
        match self {
            // Whoever reads the output has seen enough.
            Failure::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            other => eprintln!("FAILED: {other}"),
        }
        FAILED.into()
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
