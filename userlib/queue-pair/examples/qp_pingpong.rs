// SPDX-License-Identifier: MIT OR Apache-2.0

//! How fast messages are between two processes of two hosts, and whether they arrive as they were
//! sent.
//!
//! `qp_pingpong server` on one host, `qp_pingpong client` on the other, which prints what it has
//! found. The server returns each message as it is, to one client after another, until it is
//! ended. The client first sends messages of many lengths, several at a time, and compares what
//! comes back; then it measures round trips, and messages that it sends one after the other: of
//! those that say that more follow, the server copies the data and returns nothing. Neither side
//! makes a system call meanwhile, unless `--sleep` lets both sleep. They look for a while before they
//! do, so that a partner that answers soon need not wake them; with `--at-once` they sleep for each
//! message, which shows what sleeping and waking cost.

use clap::{Args, Parser, Subcommand};
use mp_fabric::{Deadline, Error as FabricError, EventMask, Fabric, InterfaceId, Session};
use mp_queue_pair::{Error, Head, QueuePair, Received, Shape};
use serde_json::json;
use std::{
    collections::VecDeque,
    error,
    hint::spin_loop,
    process::ExitCode,
    thread::sleep,
    time::{Duration, Instant},
};

/// Of the range for own protocols.
const PROTOCOL: u32 = 0xF111_D004;
/// Looks at memory between looks at the session, which cost a system call: seconds.
const LOOKS: u32 = 1 << 26;
/// Patience with a partner that has to answer at once.
const PATIENCE: Duration = Duration::from_secs(60);
/// The clock is read once for so many round trips, which are shorter than reading it.
const BATCH: u64 = 50;
/// Messages under way at the same time.
const UNDER_WAY: usize = 16;

type Outcome<T> = Result<T, Box<dyn error::Error>>;

/// Measures messages between two hosts.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Returns the messages of one client after another
    Server(Common),
    /// Measures, and prints what it has found
    Client(Client),
}

#[derive(Args, Clone, Debug)]
struct Common {
    /// Number of the interface; without it, the first one to another host that is up
    #[arg(long)]
    interface: Option<u32>,
    /// Unique identifier of the server's window
    #[arg(long, default_value_t = 4712)]
    uid: u32,
    /// Bytes of each window
    #[arg(long, default_value_t = 0x1_0000)]
    window: u64,
    /// Seconds to wait for the interface, and for a server
    #[arg(long, default_value_t = 10)]
    patience: u64,
    /// Bytes of a slot, for messages that have no room in lines
    #[arg(long, default_value_t = 4096)]
    slot_size: u32,
    /// Sleep when there is nothing, instead of looking all the time
    #[arg(long)]
    sleep: bool,
    /// With --sleep: sleep at once, instead of looking for a while before
    #[arg(long, requires = "sleep")]
    at_once: bool,
}

#[derive(Args, Clone, Debug)]
struct Client {
    #[command(flatten)]
    common: Common,
    /// Round trips that are measured
    #[arg(long, default_value_t = 10_000)]
    rounds: u64,
    /// Bytes of a message in them
    #[arg(long, default_value_t = 40)]
    size: usize,
    /// Messages that are sent one after the other
    #[arg(long, default_value_t = 0)]
    stream: u64,
    /// Messages that are compared
    #[arg(long, default_value_t = 10_000)]
    messages: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The interface to use, once it is up.
fn interface(fabric: &Fabric, options: &Common) -> Outcome<InterfaceId> {
    if let Some(number) = options.interface {
        return Ok(InterfaceId(number));
    }
    let patience = Duration::from_secs(options.patience);
    Ok(fabric.wait_for_interface(Deadline::after(patience))?)
}

/// A queue pair, and how this side waits.
struct End {
    pair: QueuePair,
    sleeps: bool,
}

impl End {
    fn new(session: Session, options: &Common, deadline: Deadline) -> Outcome<End> {
        let shape = Shape {
            slot_size: options.slot_size,
            ..Shape::default()
        };
        let mut pair = QueuePair::open(session, &shape, deadline)?;
        if options.at_once {
            pair.set_looks(1);
        }
        let sleeps = options.sleep;
        Ok(End { pair, sleeps })
    }

    /// Whether the partner's process and host are there; that costs a system call.
    fn look_at_session(&self) -> Result<(), Error> {
        let gone = EventMask::CLOSED.union(EventMask::DOWN);
        match self.pair.session().wait(gone, Deadline::PAST) {
            Err(FabricError::TimedOut) => Ok(()),
            Ok(_) => Err(FabricError::PartnerGone.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, room: &mut [u8]) -> Result<Received, Error> {
        if self.sleeps {
            return self.pair.receive(room, Deadline::after(PATIENCE));
        }
        loop {
            for _ in 0..LOOKS {
                if let Some(received) = self.pair.try_receive(room)? {
                    return Ok(received);
                }
                spin_loop();
            }
            self.look_at_session()?;
        }
    }

    fn send(&mut self, head: &Head, data: &[u8]) -> Result<(), Error> {
        if self.sleeps {
            return self.pair.send(head, data, Deadline::after(PATIENCE));
        }
        loop {
            for _ in 0..LOOKS {
                if self.pair.try_send(head, data)? {
                    return Ok(());
                }
                spin_loop();
            }
            self.look_at_session()?;
        }
    }
}

/// Return the messages of a client until it goes, in whatever way.
fn serve(fabric: &Fabric, options: &Common) -> Outcome<()> {
    let window = options.window..=options.window;
    let request = fabric.server(interface(fabric, options)?, PROTOCOL);
    let request = request
        .uid(options.uid)
        .local(window.clone())
        .remote(window);
    let mut end = End::new(request.open()?, options, Deadline::NEVER)?;
    let mut room = vec![0; end.pair.message_max()];
    loop {
        let received = match end.receive(&mut room) {
            Ok(received) => received,
            Err(Error::Closed { .. } | Error::Fabric(FabricError::PartnerGone)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !received.head.more {
            end.send(&received.head, &room[..received.len])?;
        }
    }
}

/// A server's session, as soon as there is one.
fn connect(fabric: &Fabric, options: &Common) -> Outcome<Session> {
    let interface = interface(fabric, options)?;
    let end = Instant::now() + Duration::from_secs(options.patience);
    loop {
        let window = options.window..=options.window;
        let request = fabric.client(interface, PROTOCOL).uid(options.uid);
        match request.local(window.clone()).remote(window).open() {
            Err(FabricError::NoPartner(_)) if Instant::now() < end => {
                sleep(Duration::from_millis(10));
            }
            other => return Ok(other?),
        }
    }
}

/// The message with that number: head and data.
fn message(number: u64, most: usize) -> (Head, Vec<u8>) {
    let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let random = (random ^ random >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    // Short ones and long ones alike.
    let most = if random >> 60 < 12 {
        most.min(300)
    } else {
        most
    };
    let len = (random >> 20) as usize % (most + 1);
    let data = (0..len).map(|n| (random >> (n % 8 * 8)) as u8 ^ n as u8);
    let head = Head {
        kind: number as u8,
        immediate: Some(number as u32),
        ..Head::default()
    };
    (head, data.collect())
}

/// Send messages, several at a time, and compare what comes back.
fn compare(end: &mut End, messages: u64) -> Outcome<u64> {
    let most = end.pair.message_max();
    let mut room = vec![0; most];
    let mut under_way = VecDeque::new();
    let mut bytes = 0;
    let mut next = 0;
    while next < messages || !under_way.is_empty() {
        if next < messages && under_way.len() < UNDER_WAY {
            let (head, data) = message(next, most);
            if end.pair.try_send(&head, &data)? {
                under_way.push_back((head, data));
                next += 1;
                continue;
            }
        }
        let received = end.receive(&mut room)?;
        let (head, data) = under_way.pop_front().ok_or("a message that nobody sent")?;
        if (received.head, &room[..received.len]) != (head, &data[..]) {
            return Err(format!("{:?} is not what was sent: {head:?}", received.head).into());
        }
        bytes += data.len() as u64;
    }
    Ok(bytes)
}

/// Round trips in microseconds, sorted.
fn measure(end: &mut End, rounds: u64, size: usize) -> Outcome<Vec<f64>> {
    let data = vec![0x5a; size];
    let mut room = vec![0; end.pair.message_max()];
    // All of it now: to make room later would take system calls.
    let mut times = Vec::with_capacity(usize::try_from(rounds / BATCH + 1)?);
    let mut left = rounds;
    while left > 0 {
        let batch = left.min(BATCH);
        let start = Instant::now();
        for _ in 0..batch {
            end.send(&Head::default(), &data)?;
            let received = end.receive(&mut room)?;
            if received.len != size {
                return Err("another length than was sent".into());
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / batch as f64);
        left -= batch;
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Seconds that messages take which are sent one after the other. The last one comes back.
fn stream(end: &mut End, messages: u64, size: usize) -> Outcome<f64> {
    let data = vec![0xa5; size];
    let mut room = vec![0; end.pair.message_max()];
    let start = Instant::now();
    for left in (0..messages).rev() {
        let head = Head {
            more: left > 0,
            ..Head::default()
        };
        end.send(&head, &data)?;
    }
    let received = end.receive(&mut room)?;
    let took = start.elapsed().as_secs_f64();
    if room.get(..received.len) != Some(&data[..]) {
        return Err("something else came back than was sent".into());
    }
    Ok(took)
}

fn play(fabric: &Fabric, options: &Client) -> Outcome<()> {
    let session = connect(fabric, &options.common)?;
    let mut end = End::new(session, &options.common, Deadline::after(PATIENCE))?;
    let bytes = compare(&mut end, options.messages)?;
    let times = measure(&mut end, options.rounds, options.size)?;
    let streamed = match options.stream {
        0 => None,
        messages => Some(stream(&mut end, messages, options.size)?),
    };
    end.pair.close(0)?;
    let streamed = streamed.map(|seconds| {
        let messages = options.stream as f64 / seconds;
        (messages, messages * options.size as f64 / 1e6)
    });
    let median = times.get(times.len() / 2).copied();
    if options.json {
        let found = json!({
            "messages": options.messages,
            "bytes": bytes,
            "rounds": options.rounds,
            "size": options.size,
            "round_us": { "median": median, "min": times.first() },
            "messages_s": streamed.map(|(messages, _)| messages),
            "mb_s": streamed.map(|(_, megabytes)| megabytes),
        });
        println!("{found}");
    } else {
        println!(
            "{} messages, {bytes} bytes: as they were sent",
            options.messages
        );
        if let Some(median) = median {
            println!("{} bytes: round trip {median:.2} us", options.size);
        }
        if let Some((messages, megabytes)) = streamed {
            println!(
                "{} bytes: {messages:.0} messages/s, {megabytes:.1} MB/s",
                options.size
            );
        }
    }
    Ok(())
}

fn run(options: &Options) -> Outcome<()> {
    let fabric = Fabric::open()?;
    match &options.role {
        Role::Server(common) => loop {
            serve(&fabric, common)?;
        },
        Role::Client(client) => play(&fabric, client),
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("qp_pingpong: {error}");
            ExitCode::FAILURE
        }
    }
}
