// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a tool ends before its time: exit status 1, and 2 if the command line makes no sense.

use sisci::{ConfigError, Error};
use std::{io, process::ExitCode};

/// Exit status for a command line that makes no sense.
pub const USAGE: u8 = 2;
/// Exit status for everything else.
const FAILED: u8 = 1;

/// What a tool does, or why not.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a tool ends before its time.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A function of the specification has failed.
    #[error("{0}: {1} (0x{code:08X})", code = .1.code())]
    Call(&'static str, Error),
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

impl Failure {
    /// Tells the user; the exit status.
    pub fn report(&self) -> ExitCode {
        match self {
            // Whoever reads the output has seen enough.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            Failure::NoAnswer => {}
            other => eprintln!("FAILED: {other}"),
        }
        FAILED.into()
    }
}

/// Names the function that a result is of.
pub trait Called<T> {
    /// Names it.
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
