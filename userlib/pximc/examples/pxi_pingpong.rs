// SPDX-License-Identifier: GPL-2.0

//! How fast two systems are over PXImc: a round trip by events, a round trip by looking at memory
//! all the time, and writing into the other system's memory.
//!
//! `pxi_pingpong server` on one system, `pxi_pingpong client` on the other, which prints a line.
//! The server serves one client after another, until it is ended.
//!
//! Each side has a window that the other one writes to; nobody reads across the link. The client
//! writes what is to be measured into the server's window and asserts an event.

use clap::{Args, Parser, Subcommand};
use mp_fabric::Device;
use pximc::{Connection, Deadline, Error, Interface, Library, Map, Session, SessionEvent, Sizes};
use serde_json::json;
use std::{
    fmt,
    hint::spin_loop,
    process::ExitCode,
    sync::{atomic::Ordering, Arc},
    thread::{sleep, yield_now},
    time::{Duration, Instant},
};
use vm_memory::{Bytes, VolatileMemoryError};

/// Of the range for own protocols.
const PROTOCOL: u32 = 0xF111_D002;
/// Patience with a partner that has to answer at once.
const PATIENCE: Duration = Duration::from_secs(30);
/// Looks at memory between looks at the partner's life.
const LOOKS: u32 = 10_000;

// Places in a window.
const BALL: usize = 0;
const COMMAND: usize = 64;
const ROUNDS: usize = 72;
const DATA: usize = 128;

/// What is written when looking at memory: nothing that events have left there.
const POLLED: u64 = 1 << 32;

// Commands.
const EVENTS: u64 = 1;
const POLLING: u64 = 2;
const WRITE: u64 = 3;

/// Measures PXImc between two systems.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Answers one client after another
    Server(Common),
    /// Measures, and prints a line
    Client(Client),
}

#[derive(Args, Clone, Debug)]
struct Common {
    /// Number of the interface; without it, the first one that is up
    #[arg(long)]
    interface: Option<u32>,
    /// Unique identifier of the server's window
    #[arg(long, default_value_t = 4711)]
    uid: u32,
    /// Bytes of each window
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(4096..))]
    size: u64,
}

#[derive(Args, Clone, Debug)]
struct Client {
    #[command(flatten)]
    common: Common,
    /// Round trips of each kind
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Times that the window is written
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    writes: u64,
    /// Seconds to wait for a server
    #[arg(long, default_value_t = 10)]
    patience: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Why nothing was measured.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Pximc(Error),
    NoInterface,
    NoWindow,
    Gone,
    Memory,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Pximc(error)
    }
}

impl From<VolatileMemoryError> for Failure {
    fn from(_: VolatileMemoryError) -> Self {
        Failure::Memory
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Pximc(error) => error.fmt(f),
            Failure::NoInterface => f.write_str("no interface is up"),
            Failure::NoWindow => f.write_str("the partner has too small a window"),
            Failure::Gone => f.write_str("the partner has gone"),
            Failure::Memory => f.write_str("outside of the window"),
        }
    }
}

type Outcome<T> = Result<T, Failure>;

/// A session with a partner.
struct Link<D: Device> {
    session: Session<D>,
    local: Arc<Map>,
    remote: Arc<Map>,
}

impl<D: Device> Link<D> {
    fn new(session: Session<D>, connection: Connection) -> Outcome<Self> {
        let (Some(local), Some(remote)) = (connection.local, connection.remote) else {
            return Err(Failure::NoWindow);
        };
        Ok(Link {
            session,
            local,
            remote,
        })
    }

    fn tell(&self, place: usize, value: u64) -> Outcome<()> {
        Ok(self
            .remote
            .volatile()
            .store(value, place, Ordering::Release)?)
    }

    fn told(&self, place: usize) -> Outcome<u64> {
        Ok(self.local.volatile().load(place, Ordering::Acquire)?)
    }

    /// Waits for an event; false if the partner has gone.
    fn event(&self, deadline: Deadline) -> Outcome<bool> {
        Ok(self.session.wait_for_event(deadline)? == SessionEvent::Asserted)
    }

    fn answer(&self) -> Outcome<()> {
        match self.event(Deadline::after(PATIENCE))? {
            true => Ok(()),
            false => Err(Failure::Gone),
        }
    }

    /// Looks until the partner has written the value.
    fn look_for(&self, value: u64) -> Outcome<()> {
        loop {
            for _ in 0..LOOKS {
                if self.told(BALL)? == value {
                    return Ok(());
                }
                spin_loop();
            }
            match self.event(Deadline::PAST) {
                Ok(false) => return Err(Failure::Gone),
                Err(Failure::Pximc(Error::Timeout)) | Ok(true) => yield_now(),
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// The interface to use.
fn interface<D: Device>(library: &Library<D>, number: Option<u32>) -> Outcome<Interface<D>> {
    if let Some(number) = number {
        return Ok(library.interface(number)?);
    }
    let up = |interface: &Interface<D>| interface.information().is_ok_and(|i| i.interface.up);
    library
        .interfaces()
        .into_iter()
        .find(up)
        .ok_or(Failure::NoInterface)
}

fn sizes(size: u64) -> Sizes {
    Sizes {
        max_local: size,
        min_local: 4096,
        max_remote: size,
        min_remote: 4096,
    }
}

/// Serves a client until it goes.
fn serve<D: Device>(library: &Library<D>, options: &Common) -> Outcome<()> {
    let interface = interface(library, options.interface)?;
    let sizes = sizes(options.size);
    let session = interface.request_logical_as_server(PROTOCOL, sizes, options.uid, b"pingpong")?;
    let connection = session.wait_for_connection(Deadline::NEVER)?;
    let link = Link::new(session, connection)?;
    while link.event(Deadline::NEVER)? {
        let rounds = link.told(ROUNDS)?;
        match link.told(COMMAND)? {
            EVENTS => {
                for round in 1..=rounds {
                    link.tell(BALL, link.told(BALL)?)?;
                    link.session.assert_event()?;
                    if round < rounds {
                        link.answer()?;
                    }
                }
            }
            POLLING => {
                for round in 1..=rounds {
                    link.look_for(POLLED + round)?;
                    link.tell(BALL, POLLED + round)?;
                }
            }
            // All data are there when their event is.
            _ => link.session.assert_event()?,
        }
    }
    Ok(())
}

/// What was measured.
#[derive(Debug)]
struct Measured {
    size: u64,
    events: Vec<Duration>,
    polling: Vec<Duration>,
    bytes_per_second: f64,
}

/// Finds a server, and measures.
fn measure<D: Device>(library: &Library<D>, options: &Client) -> Outcome<Measured> {
    let interface = interface(library, options.common.interface)?;
    let sizes = sizes(options.common.size);
    let end = Instant::now() + Duration::from_secs(options.patience);
    let session = loop {
        match interface.request_logical_as_client(PROTOCOL, sizes, options.common.uid) {
            Err(Error::NoPairing) if Instant::now() < end => sleep(Duration::from_millis(10)),
            other => break other?,
        }
    };
    let connection = session.wait_for_connection(Deadline::PAST)?;
    let size = connection.remote_size;
    let link = Link::new(session, connection)?;
    let (events, polling) = (
        by_events(&link, options.rounds)?,
        by_polling(&link, options.rounds)?,
    );
    let bytes_per_second = by_writing(&link, options.writes)?;
    Ok(Measured {
        size,
        events,
        polling,
        bytes_per_second,
    })
}

fn by_events<D: Device>(link: &Link<D>, rounds: u64) -> Outcome<Vec<Duration>> {
    link.tell(COMMAND, EVENTS)?;
    link.tell(ROUNDS, rounds)?;
    let round_trip = |round| {
        let start = Instant::now();
        link.tell(BALL, round)?;
        link.session.assert_event()?;
        link.answer()?;
        match link.told(BALL)? == round {
            true => Ok(start.elapsed()),
            false => Err(Failure::Memory),
        }
    };
    (1..=rounds).map(round_trip).collect()
}

fn by_polling<D: Device>(link: &Link<D>, rounds: u64) -> Outcome<Vec<Duration>> {
    link.tell(COMMAND, POLLING)?;
    link.tell(ROUNDS, rounds)?;
    link.session.assert_event()?;
    let round_trip = |round| {
        let start = Instant::now();
        link.tell(BALL, POLLED + round)?;
        link.look_for(POLLED + round)?;
        Ok(start.elapsed())
    };
    (1..=rounds).map(round_trip).collect()
}

fn by_writing<D: Device>(link: &Link<D>, writes: u64) -> Outcome<f64> {
    link.tell(COMMAND, WRITE)?;
    let window = link.remote.volatile().offset(DATA)?;
    let data = vec![0x5a_u8; window.len()];
    let start = Instant::now();
    for _ in 0..writes {
        window.copy_from(&data);
    }
    link.session.assert_event()?;
    link.answer()?;
    Ok(window.len() as f64 * writes as f64 / start.elapsed().as_secs_f64())
}

impl Measured {
    fn print(mut self, json: bool) {
        self.events.sort_unstable();
        self.polling.sort_unstable();
        let speed = self.bytes_per_second / 1e6;
        if !json {
            let (events, polling) = (median(&self.events), median(&self.polling));
            println!("round trip {events:.1} us, polling {polling:.1} us, writing {speed:.0} MB/s");
            return;
        }
        let numbers = json!({
            "size": self.size,
            "rounds": self.events.len(),
            "event_us": { "median": median(&self.events), "p99": at(&self.events, 99) },
            "polling_us": { "median": median(&self.polling), "p99": at(&self.polling, 99) },
            "write_mb_s": speed,
        });
        println!("{numbers}");
    }
}

fn median(sorted: &[Duration]) -> f64 {
    at(sorted, 50)
}

/// A percentile in microseconds.
fn at(sorted: &[Duration], percent: usize) -> f64 {
    let index = sorted.len().saturating_sub(1) * percent / 100;
    sorted
        .get(index)
        .map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

fn run(options: &Options) -> Outcome<()> {
    let library = Library::open()?;
    match &options.role {
        Role::Server(common) => loop {
            match serve(&library, common) {
                Ok(()) | Err(Failure::Gone | Failure::Pximc(Error::SessionClosed)) => {}
                Err(failure) => return Err(failure),
            }
        },
        Role::Client(client) => {
            measure(&library, client)?.print(client.json);
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("pxi_pingpong: {failure}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_fabric::Fabric;
    use mp_fabric_fake::{FakeDevice, Host, World};
    use std::thread;

    fn library(world: &World, host: Host) -> Library<FakeDevice> {
        Library::with_fabric(Fabric::with_device(world.open(host)), false)
    }

    fn client(line: &str) -> Client {
        let words = ["pxi_pingpong", "client"]
            .into_iter()
            .chain(line.split(' '));
        match Options::parse_from(words).role {
            Role::Client(client) => client,
            Role::Server(_) => panic!("not a client"),
        }
    }

    #[test]
    fn both_roles_play_to_the_end() {
        let world = World::new(1, 1 << 20);
        let options = client("--rounds 20 --writes 3 --size 65536");
        let (server, common) = (library(&world, Host::B), options.common.clone());
        let serving = thread::spawn(move || serve(&server, &common));
        let measured = measure(&library(&world, Host::A), &options).unwrap();
        assert_eq!(measured.size, 65536);
        assert_eq!((measured.events.len(), measured.polling.len()), (20, 20));
        assert!(measured.bytes_per_second > 0.0);
        assert_eq!(serving.join().unwrap(), Ok(()));
        assert_eq!(world.free(0, Host::A), 1 << 20);
    }

    #[test]
    fn a_client_without_a_server_gives_up() {
        let world = World::new(1, 1 << 20);
        let options = client("--patience 0");
        let failure = measure(&library(&world, Host::A), &options).unwrap_err();
        assert_eq!(failure, Failure::Pximc(Error::NoPairing));
        world.set_up(0, false);
        let failure = measure(&library(&world, Host::A), &options).unwrap_err();
        assert_eq!(failure, Failure::NoInterface);
    }

    #[test]
    fn percentiles_are_those_of_a_sorted_list() {
        let times: Vec<Duration> = (1..=101).map(Duration::from_micros).collect();
        assert!((median(&times) - 51.0).abs() < 1e-9);
        assert!((at(&times, 99) - 100.0).abs() < 1e-9);
    }
}
