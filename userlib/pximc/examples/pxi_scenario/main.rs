// SPDX-License-Identifier: MIT OR Apache-2.0

//! The scenarios of the specification's appendix A, of two systems, S0 and S1: the same program
//! is run on both. The interfaces and identifiers there are examples; here, they are found.
//!
//! `pxi_scenario s1 s1` on one system, `pxi_scenario s1 s0` on the other. Each step is printed;
//! the program ends with status 0 if all went as they should, with 1 at the first one that did
//! not, and with 2 if the system cannot do what the scenario is about.
//!
//! * [`logical`]: S-1 to S-3, processes that share memory.
//! * [`physical`]: S-4 to S-8, with devices on one side or both. Who offers a device's memory
//!   names it by `--target`, who has a device write by `--engine`; both take root.
//! * [`system`]: the way to a partner, and what a pair can do.
//! * [`devices`]: devices of this system, by sysfs.

mod devices;
mod logical;
mod physical;
mod system;

use clap::{Args, Parser, Subcommand, ValueEnum};
use devices::Place;
use pximc::{Error, Library};
use std::process::ExitCode;
use system::{Outcome, System};

/// Plays one of two systems in a scenario.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// A client connects to a server
    S1(Common),
    /// Two peers connect
    S1b(Common),
    /// Events
    S2(Common),
    /// The end of a connection
    S3 {
        #[command(flatten)]
        common: Common,
        /// Who ends it
        #[arg(long, value_enum, default_value_t = End::S0)]
        end: End,
    },
    /// A process of S0 writes to a device of S1
    S4(Common),
    /// A device of S1 writes to a process of S0
    S5(Common),
    /// A device of S1 writes to a device of S0
    S6(Common),
    /// S-4 and S-5 at once: S1 needs --target and --engine
    S7(Common),
    /// S-6 in both directions at once: both need --target and --engine
    S8(Common),
}

impl Scenario {
    fn common(&self) -> &Common {
        use Scenario::{S1b, S1, S2, S3, S4, S5, S6, S7, S8};
        match self {
            S1(common) | S1b(common) | S2(common) | S4(common) | S5(common) | S6(common)
            | S7(common) | S8(common) => common,
            S3 { common, .. } => common,
        }
    }
}

/// Which system this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    S0,
    S1,
}

impl Role {
    fn other(self) -> Self {
        match self {
            Role::S0 => Role::S1,
            Role::S1 => Role::S0,
        }
    }
}

/// Who ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum End {
    /// S0 closes, as in the specification
    S0,
    /// S1 closes first
    S1,
    /// The process of S0 ends without closing
    Exit,
}

#[derive(Args, Clone, Debug)]
struct Common {
    /// Which system this is
    role: Role,
    /// Number of the interface; without it, the first one that is up
    #[arg(long)]
    interface: Option<u32>,
    /// Protocol number
    #[arg(long, default_value_t = 0xABCD_1000)]
    protocol: u32,
    /// Unique identifier of the server's window
    #[arg(long, default_value_t = 1587)]
    uid: u32,
    /// Most bytes of each window
    #[arg(long, default_value_t = 0x1000)]
    max: u64,
    /// Least bytes
    #[arg(long, default_value_t = 0x400)]
    min: u64,
    /// Seconds to wait for the partner
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Device of this system whose memory the other one reaches, as bus:device.function
    #[arg(long)]
    target: Option<Place>,
    /// Most bytes of it
    #[arg(long, default_value_t = 0x1_0000)]
    length: u64,
    /// Device of this system that reaches the other one
    #[arg(long)]
    engine: Option<Place>,
}

fn run(scenario: &Scenario) -> Outcome<()> {
    let library = Library::open()?;
    let system = System::find(&library, scenario.common())?;
    match scenario {
        Scenario::S1(_) => logical::connect(&system),
        Scenario::S1b(_) => logical::peers(&system),
        Scenario::S2(_) => logical::events(&system),
        Scenario::S3 { end, .. } => logical::end(&system, *end),
        Scenario::S4(_) => physical::process_to_device(&system),
        Scenario::S5(_) => physical::device_to_process(&system),
        Scenario::S6(_) => physical::device_to_device(&system),
        Scenario::S7(_) => physical::both_with_a_process(&system),
        Scenario::S8(_) => physical::both_directions(&library, &system),
    }
}

fn main() -> ExitCode {
    match run(&Options::parse().scenario) {
        Ok(()) => {
            println!("done");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("FAILED: {failure}");
            let cannot = Some(&Error::PhyResourceNotAvailable);
            ExitCode::from(if failure.downcast_ref() == cannot {
                2
            } else {
                1
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_fabric::Fabric;
    use mp_testing::{FakeDevice, Host, World};
    use std::thread;

    type Play = fn(&System<'_, FakeDevice>) -> Outcome<()>;

    fn play(world: &World, host: Host, role: &str, scenario: Play) {
        let library = Library::with_fabric(Fabric::with_device(world.open(host)), false);
        let options = Options::parse_from(["pxi_scenario", "s1", role]).scenario;
        let system = System::find(&library, options.common()).unwrap();
        scenario(&system).unwrap();
    }

    fn both(scenario: Play) {
        let world = World::new(1, 1 << 20);
        let there = world.clone();
        let s1 = thread::spawn(move || play(&there, Host::B, "s1", scenario));
        play(&world, Host::A, "s0", scenario);
        s1.join().unwrap();
        assert_eq!(world.free(0, Host::A), 1 << 20);
    }

    /// S-1
    #[test]
    fn a_client_and_a_server_exchange_data() {
        both(logical::connect);
    }

    /// S-1b
    #[test]
    fn peers_exchange_data() {
        both(logical::peers);
    }

    /// S-2
    #[test]
    fn events_are_told_and_coalesce() {
        both(logical::events);
    }

    /// S-3
    #[test]
    fn either_side_ends_a_connection() {
        both(|system| logical::end(system, End::S0));
        both(|system| logical::end(system, End::S1));
    }
}
