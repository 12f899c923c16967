// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line.

use crate::model::PeerId;
use clap::{Args, Parser, Subcommand};
use std::{fmt, time::Duration};

/// Shows and tests the message frame fabric over PCI Express non-transparent bridges.
///
/// Peers are named by their ids in hexadecimal, as `ntbctl peers` shows them, or `rp` for the root
/// processor. Looking needs no privilege; what sends frames to another host needs CAP_NET_ADMIN.
#[derive(Parser, Debug)]
#[command(name = "ntbctl", version, arg_required_else_help = true)]
#[command(after_help = "ntbctl(8) explains every column and counter.")]
pub struct Options {
    /// Print JSON
    #[arg(short, long, global = true)]
    pub json: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the hosts that frames can be sent to
    Peers,
    /// Show the links to them: epochs, memory and rings, and what others wait for
    Links,
    /// List the local ends of links, with what each waits for
    Interfaces,
    /// Show the counters of this host, its peers and its links
    Stats(Stats),
    /// Measure the round trip to a peer
    Ping(Ping),
    /// Show which peer is reached over which bridge
    Topology,
    /// Tell of peers that arrive and leave, until interrupted
    Monitor,
    /// Show SMC: identities, connections, and what fell back to TCP; or set the identity
    Smc(Smc),
    /// Print what completes command lines of ntbctl in a shell
    Completion(Completion),
}

/// What is done, and with which peer.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Peers => f.write_str("peers"),
            Command::Links => f.write_str("links"),
            Command::Interfaces => f.write_str("interfaces"),
            Command::Stats(Stats { remote: None, .. }) => f.write_str("stats"),
            Command::Stats(Stats {
                remote: Some(peer), ..
            }) => write!(f, "stats of {peer}"),
            Command::Ping(ping) => write!(f, "ping {}", ping.peer),
            Command::Topology => f.write_str("topology"),
            Command::Monitor => f.write_str("monitor"),
            Command::Smc(Smc { command: None }) => f.write_str("smc"),
            Command::Smc(Smc {
                command: Some(command),
            }) => match command {
                SmcCommand::Connections => f.write_str("smc connections"),
                SmcCommand::Identify(identity) => write!(f, "smc identify {}", identity.name),
                SmcCommand::Forget(identity) => write!(f, "smc forget {}", identity.name),
            },
            Command::Completion(_) => f.write_str("completion"),
        }
    }
}

/// Options of `stats`.
#[derive(Args, Debug)]
pub struct Stats {
    /// Show them again and again, after so many seconds, with what happened per second
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<Duration>,

    /// Show them so many times in all; 0 for no end
    #[arg(short, long, value_name = "N", default_value_t = 0, requires = "watch")]
    pub count: u64,

    /// Ask a peer for its statistics, over all its peers
    #[arg(short, long, value_name = "PEER", conflicts_with = "watch")]
    pub remote: Option<PeerId>,
}

/// Options of `ping`.
#[derive(Args, Debug)]
pub struct Ping {
    /// The peer to ask
    pub peer: PeerId,

    /// Ask so many times; 0 for no end
    #[arg(short, long, value_name = "N", default_value_t = 4)]
    pub count: u64,

    /// Wait so many seconds between two questions
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub interval: Duration,

    /// Wait so many seconds for an answer, at most 60
    #[arg(short = 'W', long, value_name = "SECONDS", default_value = "1", value_parser = timeout)]
    pub timeout: Duration,
}

/// Options of `smc`.
#[derive(Args, Debug)]
pub struct Smc {
    /// What to do; without it, show the state.
    #[command(subcommand)]
    pub command: Option<SmcCommand>,
}

/// What to do with SMC.
#[derive(Subcommand, Debug)]
pub enum SmcCommand {
    /// List the connections of SMC sockets, with what carries each, and why if that is TCP
    Connections,
    /// Give this host an identity: two hosts need one in common
    Identify(Identity),
    /// Take an identity away
    Forget(Identity),
}

/// An identity.
#[derive(Args, Debug)]
pub struct Identity {
    /// Name of the identity: up to 32 of A to Z, 0 to 9, `.` and `-`, the first one a letter or a digit
    #[arg(default_value = "MPFAB", value_parser = identity)]
    pub name: String,
}

/// Options of `completion`.
#[derive(Args, Debug)]
pub struct Completion {
    /// The shell
    pub shell: clap_complete::Shell,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    let duration = Duration::try_from_secs_f64(number).map_err(|e| e.to_string())?;
    if duration < Duration::from_millis(1) {
        return Err("less than a millisecond".into());
    }
    Ok(duration)
}

/// Most bytes of an identity.
const LONGEST_IDENTITY: usize = 32;

fn identity(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    if text.len() > LONGEST_IDENTITY {
        return Err(format!("more than {LONGEST_IDENTITY} characters"));
    }
    if !text.starts_with(is_plain) {
        return Err("it does not begin with A to Z or 0 to 9".into());
    }
    match text.contains(|c| !is_plain(c) && c != '.' && c != '-') {
        true => Err("other characters than A to Z, 0 to 9, `.` and `-`".into()),
        false => Ok(text.into()),
    }
}

/// The longest time for an answer.
const LONGEST: Duration = Duration::from_secs(60);

fn timeout(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        timeout if timeout > LONGEST => Err(format!("more than {} seconds", LONGEST.as_secs())),
        timeout => Ok(timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_description_of_the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn what_is_done_is_named_with_its_peer() {
        for (words, name) in [
            (["ntbctl", "ping", "708"].as_slice(), "ping 00000708"),
            (&["ntbctl", "stats", "--remote", "rp"], "stats of 00000000"),
            (&["ntbctl", "stats"], "stats"),
            (&["ntbctl", "links"], "links"),
            (&["ntbctl", "interfaces"], "interfaces"),
        ] {
            let options = Options::try_parse_from(words).expect(name);
            assert_eq!(options.command.to_string(), name);
        }
    }

    #[test]
    fn peers_are_named_by_hexadecimal_ids() {
        for (text, id) in [
            ("rp", 0),
            ("100", 0x100),
            ("0x100", 0x100),
            ("00000208", 0x208),
        ] {
            let options = Options::try_parse_from(["ntbctl", "ping", text]).expect(text);
            let Command::Ping(ping) = options.command else {
                panic!("not a ping");
            };
            assert_eq!(ping.peer, PeerId(id));
        }
        assert!(Options::try_parse_from(["ntbctl", "ping", "ep1"]).is_err());
    }

    #[test]
    fn times_out_of_range_are_refused() {
        for arguments in [
            ["ntbctl", "ping", "rp", "-W", "61"],
            ["ntbctl", "ping", "rp", "-W", "0"],
            ["ntbctl", "ping", "rp", "-i", "-1"],
        ] {
            assert!(Options::try_parse_from(arguments).is_err());
        }
    }

    #[test]
    fn identities_are_those_that_the_kernel_takes() {
        let named = |name: &str| Options::try_parse_from(["ntbctl", "smc", "identify", name]);
        let longest = "Z".repeat(LONGEST_IDENTITY);
        for name in ["MPFAB", "0", "RACK-1.B", &longest] {
            let options = named(name).expect(name);
            assert_eq!(options.command.to_string(), format!("smc identify {name}"));
        }
        for name in ["", "mpfab", ".A", "A B", "A_B", "Ä", &format!("{longest}Z")] {
            assert!(named(name).is_err(), "{name}");
        }
        let options = Options::try_parse_from(["ntbctl", "smc", "forget"]).expect("the default");
        assert_eq!(options.command.to_string(), "smc forget MPFAB");
    }

    /// Whatever can be said on the command line is explained.
    #[test]
    fn the_manual_page_names_every_command_and_option() {
        let manual = include_str!("../man/ntbctl.8").replace('\\', "");
        let options = Options::command();
        let commands = options.get_subcommands();
        for command in commands.flat_map(|it| std::iter::once(it).chain(it.get_subcommands())) {
            assert!(manual.contains(command.get_name()), "{command}");
            for argument in command.get_arguments() {
                let name = match argument.get_long() {
                    Some(long) => format!("--{long}"),
                    None => argument.get_id().as_str().to_uppercase(),
                };
                assert!(manual.contains(&name), "{command} {name}");
            }
        }
    }
}
