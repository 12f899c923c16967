// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a tool ends before its time: exit status 1, and 2 if the command line makes no sense.

use sisci::Error;
use std::{fmt, io, process::ExitCode};

/// Exit status for a command line that makes no sense.
pub const USAGE: u8 = 2;
/// Exit status for everything else.
const FAILED: u8 = 1;

/// What a tool does, or why not.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a tool ends before its time.
#[derive(Debug)]
pub enum Failure {
    /// A function of the specification has failed.
    Call(&'static str, Error),
    /// The other node has not done its part in time.
    Silent,
    /// The other node has said or written something that makes no sense.
    Wrong(String),
    /// A node does not answer, which has been printed.
    NoAnswer,
    /// There is no way to print.
    Output(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Call(function, error) => {
                write!(f, "{function}: {error} (0x{:08X})", error.code())
            }
            Failure::Silent => f.write_str("the other node has fallen silent"),
            Failure::Wrong(what) => f.write_str(what),
            Failure::NoAnswer => f.write_str("a node does not answer"),
            Failure::Output(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
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
