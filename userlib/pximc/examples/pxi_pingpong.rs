// SPDX-License-Identifier: MIT OR Apache-2.0

//! How fast two systems are over PXImc: a round trip by events, a round trip by looking at memory
//! all the time, writing into the other system's memory, and opening and closing sessions.
//!
//! `pxi_pingpong server` on one system, `pxi_pingpong client` on the other, which prints a line.
//! The server serves one client after another, until it is ended.
//!
//! Each side has a window that the other one writes to; nobody reads across the link. The client
//! writes what is to be measured into the server's window and asserts an event. While memory is
//! looked at or written, neither side makes a system call. With `--pause` both sides pause before each
//! event, which does not count: each event finds a host on which nothing happens.

use clap::{Args, Parser, Subcommand, ValueEnum};
use mp_fabric::Device;
use mp_tools::{pause, PAUSE_MAX};
use pximc::{Connection, Deadline, Error, Interface, Library, Map, Session, SessionEvent, Sizes};
use serde_json::{json, Value};
use std::{
    fmt,
    hint::spin_loop,
    process::ExitCode,
    sync::{atomic::Ordering, Arc},
    thread::{sleep, yield_now},
    time::{Duration, Instant},
};
use vm_memory::{Bytes, VolatileMemoryError, VolatileSlice};

/// Of the range for own protocols.
const PROTOCOL: u32 = 0xF111_D002;
/// Patience with a partner that has to answer at once.
const PATIENCE: Duration = Duration::from_secs(30);
/// Looks at memory between looks at the partner's life, which cost a system call: seconds.
const LOOKS: u32 = 1 << 27;
/// The clock is read once for so many parts of all polled round trips, which are shorter than that.
const PARTS: u64 = 50;
/// Where software emulates the memory management unit, pages whose numbers end alike evict each
/// other from a table: the source is shifted by so many pages, so many times.
const SHIFT: usize = 13 * 4096;
const SHIFTS: usize = 4;
/// Bytes of a window that is only opened and closed.
const SMALL: u64 = 4096;

// Places in a window.
const BALL: usize = 0;
const COMMAND: usize = 64;
const ROUNDS: usize = 72;
const PAUSE: usize = 80;
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
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(SMALL..))]
    size: u64,
    /// Seconds to wait for the interface, and for a server
    #[arg(long, default_value_t = 10)]
    patience: u64,
}

impl Common {
    fn end(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.patience)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Round trips by events
    Events,
    /// Round trips by looking at memory
    Polling,
    /// Writing a window
    Writing,
    /// Opening and closing sessions
    Pairing,
}

#[derive(Args, Clone, Debug)]
struct Client {
    #[command(flatten)]
    common: Common,
    /// Round trips of each kind
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Times that the window is written, from each of several places
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..))]
    writes: u64,
    /// Sessions that are opened and closed
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pairings: u64,
    /// Microseconds to pause before each event, on both sides
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=PAUSE_MAX))]
    pause: u64,
    /// What to measure, separated by commas; all of it by default
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Kind>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Client {
    fn wants(&self, kind: Kind) -> bool {
        self.only.is_empty() || self.only.contains(&kind)
    }
}

/// Why nothing was measured.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Unopened(mp_fabric::Error),
    Pximc(Error),
    NoInterface,
    NoWindow,
    Gone,
    Memory,
}

impl From<mp_fabric::Error> for Failure {
    fn from(error: mp_fabric::Error) -> Self {
        Failure::Unopened(error)
    }
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
            Failure::Unopened(error) => error.fmt(f),
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

    /// Wait for an event; false if the partner has gone.
    fn event(&self, deadline: Deadline) -> Outcome<bool> {
        Ok(self.session.wait_for_event(deadline)? == SessionEvent::Asserted)
    }

    fn answer(&self) -> Outcome<()> {
        match self.event(Deadline::after(PATIENCE))? {
            true => Ok(()),
            false => Err(Failure::Gone),
        }
    }

    /// Look until the partner has written the value.
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
                Err(Failure::Pximc(Error::Timeout)) | Ok(true) => {}
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// The interface to use, once it is up.
fn interface<D: Device>(library: &Library<D>, options: &Common) -> Outcome<Interface<D>> {
    if let Some(number) = options.interface {
        return Ok(library.interface(number)?);
    }
    let up = |interface: &Interface<D>| interface.information().is_ok_and(|i| i.interface.up);
    let end = options.end();
    loop {
        if let Some(found) = library.interfaces().into_iter().find(up) {
            return Ok(found);
        }
        if Instant::now() >= end {
            return Err(Failure::NoInterface);
        }
        sleep(Duration::from_millis(10));
    }
}

fn sizes(size: u64) -> Sizes {
    Sizes {
        max_local: size,
        min_local: SMALL,
        max_remote: size,
        min_remote: SMALL,
    }
}

/// Serve a client until it goes, in whatever way.
fn serve<D: Device>(library: &Library<D>, options: &Common) -> Outcome<()> {
    match play(library, options) {
        Err(Failure::Gone | Failure::Pximc(Error::SessionClosed)) => Ok(()),
        other => other,
    }
}

fn play<D: Device>(library: &Library<D>, options: &Common) -> Outcome<()> {
    let interface = interface(library, options)?;
    let sizes = sizes(options.size);
    let session = interface.request_logical_as_server(PROTOCOL, sizes, options.uid, b"pingpong")?;
    let connection = session.wait_for_connection(Deadline::NEVER)?;
    let link = Link::new(session, connection)?;
    while link.event(Deadline::NEVER)? {
        let rounds = link.told(ROUNDS)?;
        match link.told(COMMAND)? {
            EVENTS => {
                let micros = link.told(PAUSE)?;
                for round in 1..=rounds {
                    let paused = pause(micros);
                    link.tell(PAUSE, paused.as_nanos().try_into().unwrap_or(u64::MAX))?;
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

/// What was measured, or `None` if it was not wanted.
#[derive(Debug, Default)]
struct Measured {
    /// Bytes of the server's window.
    size: u64,
    events: Option<Vec<Duration>>,
    polling: Option<Vec<Duration>>,
    /// Bytes per second, for each place of the source.
    writing: Option<Vec<f64>>,
    /// Sessions per second.
    pairing: Option<f64>,
}

/// Open a session with a server, once there is one.
fn open<D: Device>(
    interface: &Interface<D>,
    options: &Common,
    size: u64,
    pause: impl Fn(),
) -> Outcome<(Session<D>, Connection)> {
    let end = options.end();
    let session = loop {
        match interface.request_logical_as_client(PROTOCOL, sizes(size), options.uid) {
            // The server has not come yet, or has not yet closed the session before, whose
            // memory both sides have to let go of.
            Err(Error::NoPairing | Error::SpaceNotAvailable) if Instant::now() < end => pause(),
            other => break other?,
        }
    };
    let connection = session.wait_for_connection(Deadline::PAST)?;
    Ok((session, connection))
}

/// Find a server, and measure.
fn measure<D: Device>(library: &Library<D>, options: &Client) -> Outcome<Measured> {
    let interface = interface(library, &options.common)?;
    let pause = || sleep(Duration::from_millis(10));
    let (session, connection) = open(&interface, &options.common, options.common.size, pause)?;
    let mut measured = Measured {
        size: connection.remote_size,
        ..Measured::default()
    };
    let link = Link::new(session, connection)?;
    if options.wants(Kind::Events) {
        measured.events = Some(by_events(&link, options.rounds, options.pause)?);
    }
    if options.wants(Kind::Polling) {
        measured.polling = Some(by_polling(&link, options.rounds)?);
    }
    if options.wants(Kind::Writing) {
        measured.writing = Some(by_writing(&link, options.writes)?);
    }
    drop(link);
    if options.wants(Kind::Pairing) {
        measured.pairing = Some(by_pairing(&interface, &options.common, options.pairings)?);
    }
    Ok(measured)
}

fn by_events<D: Device>(link: &Link<D>, rounds: u64, micros: u64) -> Outcome<Vec<Duration>> {
    link.tell(COMMAND, EVENTS)?;
    link.tell(ROUNDS, rounds)?;
    link.tell(PAUSE, micros)?;
    let round_trip = |round| {
        pause(micros);
        let start = Instant::now();
        link.tell(BALL, round)?;
        link.session.assert_event()?;
        link.answer()?;
        let took = start.elapsed();
        match link.told(BALL)? == round {
            true => Ok(took.saturating_sub(Duration::from_nanos(link.told(PAUSE)?))),
            false => Err(Failure::Memory),
        }
    };
    (1..=rounds).map(round_trip).collect()
}

fn by_polling<D: Device>(link: &Link<D>, rounds: u64) -> Outcome<Vec<Duration>> {
    link.tell(COMMAND, POLLING)?;
    link.tell(ROUNDS, rounds)?;
    link.session.assert_event()?;
    let parts = PARTS.min(rounds);
    let part = |part| {
        let (first, end) = (part * rounds / parts, (part + 1) * rounds / parts);
        let start = Instant::now();
        for round in first + 1..=end {
            link.tell(BALL, POLLED + round)?;
            link.look_for(POLLED + round)?;
        }
        Ok(start.elapsed().div_f64((end - first) as f64))
    };
    (0..parts).map(part).collect()
}

fn by_writing<D: Device>(link: &Link<D>, writes: u64) -> Outcome<Vec<f64>> {
    link.tell(COMMAND, WRITE)?;
    let window = link.remote.volatile().offset(DATA)?;
    let data = vec![0x5a_u8; window.len() + (SHIFTS - 1) * SHIFT];
    // The pages of the window and of the data are there from the first time on.
    write(&window, &data);
    let speed = |shift| {
        let data = data.get(shift * SHIFT..).unwrap_or_default();
        let start = Instant::now();
        for _ in 0..writes {
            write(&window, data);
        }
        link.session.assert_event()?;
        link.answer()?;
        Ok(window.len() as f64 * writes as f64 / start.elapsed().as_secs_f64())
    };
    (0..SHIFTS).map(speed).collect()
}

/// Fill the window by plain stores.
fn write(window: &VolatileSlice<'_>, data: &[u8]) {
    window.copy_from(data);
}

/// Open sessions with a server that waits for the next one after each, and close them.
fn by_pairing<D: Device>(
    interface: &Interface<D>,
    options: &Common,
    pairings: u64,
) -> Outcome<f64> {
    let start = Instant::now();
    for _ in 0..pairings {
        let (session, _connection) = open(interface, options, SMALL, yield_now)?;
        session.close()?;
    }
    Ok(pairings as f64 / start.elapsed().as_secs_f64())
}

impl Measured {
    fn print(mut self, json: bool) {
        for times in [&mut self.events, &mut self.polling].into_iter().flatten() {
            times.sort_unstable();
        }
        let line = if json {
            self.numbers().to_string()
        } else {
            self.words()
        };
        println!("{line}");
    }

    fn numbers(&self) -> Value {
        let mut numbers = json!({ "size": self.size });
        let times = [("event_us", &self.events), ("polling_us", &self.polling)];
        for (name, times) in times {
            if let Some(times) = times {
                numbers[name] = json!({ "median": median(times), "p99": at(times, 99) });
            }
        }
        if let Some((worst, best)) = self.writing() {
            numbers["write_mb_s"] = json!({ "best": best, "worst": worst });
        }
        if let Some(pairing) = self.pairing {
            numbers["pairings_s"] = json!(pairing);
        }
        numbers
    }

    fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(times) = &self.events {
            words.push(format!("round trip {:.1} us", median(times)));
        }
        if let Some(times) = &self.polling {
            words.push(format!("polling {:.2} us", median(times)));
        }
        if let Some((_, best)) = self.writing() {
            words.push(format!("writing {best:.0} MB/s"));
        }
        if let Some(pairing) = self.pairing {
            words.push(format!("{pairing:.0} sessions/s"));
        }
        words.join(", ")
    }

    /// The worst and the best speed in MB/s.
    fn writing(&self) -> Option<(f64, f64)> {
        let speeds = self.writing.as_ref()?.iter().map(|speed| speed / 1e6);
        Some((
            speeds.clone().fold(f64::INFINITY, f64::min),
            speeds.fold(0.0, f64::max),
        ))
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
            serve(&library, common)?;
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
    use mp_testing::{FakeDevice, Host, World};
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
        let options = client("--rounds 120 --pause 100 --writes 3 --pairings 7 --size 65536");
        let (server, common) = (library(&world, Host::B), options.common.clone());
        let serving = thread::spawn(move || (0..8).try_for_each(|_| serve(&server, &common)));
        let measured = measure(&library(&world, Host::A), &options).unwrap();
        assert_eq!(measured.size, 65536);
        assert_eq!(measured.events.as_ref().unwrap().len(), 120);
        assert_eq!(measured.polling.as_ref().unwrap().len(), 50);
        assert_eq!(measured.writing.as_ref().unwrap().len(), SHIFTS);
        let numbers = measured.numbers();
        for name in [
            "/event_us/median",
            "/polling_us/p99",
            "/write_mb_s/best",
            "/pairings_s",
        ] {
            let number = numbers.pointer(name).and_then(Value::as_f64);
            assert!(
                number.is_some_and(|number| number > 0.0),
                "{name}: {numbers}"
            );
        }
        assert_eq!(serving.join().unwrap(), Ok(()));
        assert_eq!(world.free(0, Host::A), 1 << 20);
    }

    #[test]
    fn only_what_is_wanted_is_measured() {
        let world = World::new(1, 1 << 20);
        let options = client("--rounds 3 --only polling,pairing --pairings 1");
        let (server, common) = (library(&world, Host::B), options.common.clone());
        let serving = thread::spawn(move || (0..2).try_for_each(|_| serve(&server, &common)));
        let measured = measure(&library(&world, Host::A), &options).unwrap();
        assert_eq!(serving.join().unwrap(), Ok(()));
        assert_eq!(measured.polling.as_ref().unwrap().len(), 3);
        let numbers = measured.numbers();
        let names: Vec<_> = numbers.as_object().unwrap().keys().collect();
        assert_eq!(names, ["pairings_s", "polling_us", "size"]);
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
