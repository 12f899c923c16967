// SPDX-License-Identifier: MIT OR Apache-2.0

//! What can go wrong, and the exit status for it: 1 if the command line makes no sense or a ping
//! has no answer at all, 2 if the kernel refuses.

use crate::cli::Command;
use std::{io, process::ExitCode};

/// Exit status for a command line that makes no sense.
const USAGE: u8 = 1;
/// Exit status of a ping without any answer.
const NO_ANSWER: u8 = 1;
/// Exit status for everything that the kernel or the system refuses.
const REFUSED: u8 = 2;

const EPERM: i32 = 1;
const ENOTCONN: i32 = 107;

/// Why a command did not do what it should.
#[derive(Debug)]
pub enum Failure {
    /// The kernel does not know the fabric.
    NoFabric,
    /// The kernel has no SMC.
    NoSmc,
    /// The kernel refused: the error, and what it says about it.
    Kernel(io::Error, Option<String>),
    /// The kernel said something that makes no sense.
    Malformed(String),
    /// No netlink, or no way to write the output.
    System(io::Error),
    /// No answer came to any question, which has been reported.
    NoAnswer,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::System(error)
    }
}

impl Failure {
    /// Whether the kernel refused for that reason.
    pub fn is_kernel(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Failure::Kernel(error, _) if error.kind() == kind)
    }

    /// What the user is told; nothing where that is not necessary.
    pub fn message(&self) -> Option<String> {
        match self {
            Failure::NoFabric => {
                Some("the module mp_transport is not loaded: `modprobe pximc_ntb` loads it".into())
            }
            Failure::NoSmc => {
                Some("this kernel has no SMC, or not yet: `modprobe mp_dibs` loads it".into())
            }
            Failure::Kernel(error, None) if error.raw_os_error() == Some(EPERM) => {
                Some(format!("{}: this needs CAP_NET_ADMIN", description(error)))
            }
            Failure::Kernel(error, None) => Some(description(error)),
            Failure::Kernel(error, Some(why)) => {
                let help = match error.raw_os_error() {
                    Some(ENOTCONN) => "; `ntbctl peers` lists those that are there",
                    _ => "",
                };
                Some(format!("{why} ({}){help}", description(error)))
            }
            Failure::Malformed(what) => Some(format!("the kernel's answer makes no sense: {what}")),
            // Whoever reads the output has seen enough.
            Failure::System(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            Failure::System(error) => Some(description(error)),
            Failure::NoAnswer => None,
        }
    }

    fn status(&self) -> u8 {
        match self {
            Failure::NoAnswer => NO_ANSWER,
            Failure::System(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            _ => REFUSED,
        }
    }

    /// Tell the user what of the command line has failed; the exit status.
    pub fn report(&self, command: &Command) -> ExitCode {
        if let Some(message) = self.message() {
            eprintln!("ntbctl: {command}: {message}");
        }
        self.status().into()
    }
}

/// The system's words for an error, without its number.
fn description(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.into(),
        None => text,
    }
}

/// The exit status for what clap has found: asking for help is no error.
pub fn usage_status(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        USAGE.into()
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_come_before_those_of_the_error() {
        let refused = io::Error::from_raw_os_error(107);
        let failure = Failure::Kernel(refused, Some("there is no such peer".into()));
        assert_eq!(
            failure.message().as_deref(),
            Some(
                "there is no such peer (Transport endpoint is not connected); \
                `ntbctl peers` lists those that are there"
            )
        );
    }

    #[test]
    fn a_missing_privilege_is_named() {
        let failure = Failure::Kernel(io::Error::from_raw_os_error(EPERM), None);
        assert_eq!(
            failure.message().as_deref(),
            Some("Operation not permitted: this needs CAP_NET_ADMIN")
        );
        assert_eq!(failure.status(), REFUSED);
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_error() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.message(), failure.status()), (None, 0));
    }
}
