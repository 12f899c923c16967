// SPDX-License-Identifier: MIT OR Apache-2.0

//! `ntbctl completion`: what completes command lines of ntbctl, for a shell.

use crate::{
    cli::{Completion, Options},
    failure::Failure,
    output,
};
use clap::CommandFactory;

/// Print it.
///
/// # Errors
/// See [`Failure`].
pub fn run(completion: &Completion) -> Result<(), Failure> {
    output::print(&script(completion))
}

fn script(completion: &Completion) -> String {
    let mut text = Vec::new();
    clap_complete::generate(
        completion.shell,
        &mut Options::command(),
        "ntbctl",
        &mut text,
    );
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::Shell;

    /// Whatever can be said on the command line is completed.
    #[test]
    fn every_command_and_option_is_completed() {
        for shell in [Shell::Bash, Shell::Zsh] {
            let text = script(&Completion { shell });
            for command in Options::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell} {command}");
                for option in command.get_arguments().filter_map(|a| a.get_long()) {
                    assert!(text.contains(&format!("--{option}")), "{shell} {option}");
                }
            }
        }
    }
}
