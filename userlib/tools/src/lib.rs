// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the tools that measure have in common, whichever library they use: how a program starts
//! and ends, and how it prints results.
//!
//! [`start()`] is the main function of a tool. It exits with status 0, with 2 if the command line
//! makes no sense, and with 1 for any other [`Failure`]. [`Output`] prints results as a table or
//! as JSON, [`Quantiles`] are what times come to, [`pause()`] makes a pause that does not count.

mod output;
mod pause;
mod quantiles;

pub use output::{Output, Sink};
pub use pause::{pause, PAUSE_MAX};
pub use quantiles::Quantiles;

use clap::Parser;
use std::{fmt, io, process::ExitCode};

/// Exit status for a command line that makes no sense.
const USAGE: u8 = 2;
/// Exit status for everything else.
const FAILED: u8 = 1;

/// Why a tool ends before its time.
pub trait Failure: fmt::Display {
    /// The error of the system, if it is one.
    fn as_io(&self) -> Option<&io::Error>;

    /// Whether the user has been told already.
    fn is_told(&self) -> bool {
        false
    }

    /// Tell the user; the exit status.
    fn report(&self) -> ExitCode {
        let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        // Whoever reads the output has seen enough.
        if self.as_io().is_some_and(broken) {
            return ExitCode::SUCCESS;
        }
        if !self.is_told() {
            eprintln!("FAILED: {self}");
        }
        FAILED.into()
    }
}

/// Run a tool with the options of the command line; the exit status.
pub fn start<T: Parser, F: Failure>(run: impl FnOnce(&T) -> Result<(), F>) -> ExitCode {
    match T::try_parse() {
        Ok(tool) => match run(&tool) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        },
        Err(error) => {
            // Where standard error is closed, the status has to do.
            let _ = error.print();
            match error.use_stderr() {
                true => USAGE.into(),
                false => ExitCode::SUCCESS,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Told(Option<io::Error>);

    impl fmt::Display for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("of a test")
        }
    }

    impl Failure for Told {
        fn as_io(&self) -> Option<&io::Error> {
            self.0.as_ref()
        }

        fn is_told(&self) -> bool {
            true
        }
    }

    fn status(kind: Option<io::ErrorKind>) -> String {
        format!("{:?}", Told(kind.map(io::Error::from)).report())
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        let success = format!("{:?}", ExitCode::SUCCESS);
        assert_eq!(status(Some(io::ErrorKind::BrokenPipe)), success);
        let failed = format!("{:?}", ExitCode::from(FAILED));
        assert_eq!(status(Some(io::ErrorKind::NotFound)), failed);
        assert_eq!(status(None), failed);
    }
}
