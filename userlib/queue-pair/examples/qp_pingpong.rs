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
//! message, which shows what sleeping and waking cost. With `--pause` both sides pause before each
//! message of a round trip, which does not count: each finds a host on which nothing happens.
//!
//! With `--writes` there are no messages: the sides write in place into buffers of each other, as
//! RDMA does, and look at their own memory for the word that is written last. The server copies
//! nothing.

use clap::{Args, Parser, Subcommand};
use mp_fabric::{
    vm_memory::VolatileMemory, Deadline, Error as FabricError, EventMask, Fabric, InterfaceId,
    Session,
};
use mp_queue_pair::{
    Area, Error, Head, Piece, Place, QueuePair, Received, Receiving, Sending, Shape,
};
use mp_tools::{pause, PAUSE_MAX};
use serde_json::json;
use std::{
    collections::VecDeque,
    error,
    hint::spin_loop,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
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
    /// With --sleep: microseconds to pause before each message of a round trip; the same on both
    /// sides
    #[arg(long, default_value_t = 0, requires = "sleep",
        value_parser = clap::value_parser!(u64).range(..=PAUSE_MAX))]
    pause: u64,
    /// Write into memory of the other side, instead of sending messages
    #[arg(long, conflicts_with = "sleep")]
    writes: bool,
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
    if options.writes {
        return serve_writes(end);
    }
    let mut room = vec![0; end.pair.message_max()];
    loop {
        let received = match end.receive(&mut room) {
            Ok(received) => received,
            Err(Error::Closed { .. } | Error::Fabric(FabricError::PartnerGone)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !received.head.more {
            let mut head = received.head;
            if options.pause > 0 && head.immediate.is_none() {
                head.immediate = Some(u32::try_from(pause(options.pause).as_nanos())?);
            }
            end.send(&head, &room[..received.len])?;
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

/// Round trips in microseconds, sorted; each by itself if there are pauses.
fn measure(end: &mut End, rounds: u64, size: usize, micros: u64) -> Outcome<Vec<f64>> {
    let data = vec![0x5a; size];
    let mut room = vec![0; end.pair.message_max()];
    // All of it now: to make room later would take system calls.
    let most = if micros > 0 { 1 } else { BATCH };
    let mut times = Vec::with_capacity(usize::try_from(rounds / most + 1)?);
    let mut left = rounds;
    while left > 0 {
        let batch = left.min(most);
        pause(micros);
        let start = Instant::now();
        let mut paused = Duration::ZERO;
        for _ in 0..batch {
            end.send(&Head::default(), &data)?;
            let received = end.receive(&mut room)?;
            if received.len != size {
                return Err("another length than was sent".into());
            }
            paused += Duration::from_nanos(received.head.immediate.unwrap_or(0).into());
        }
        let took = start.elapsed().saturating_sub(paused);
        times.push(took.as_secs_f64() * 1e6 / batch as f64);
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

/// Places that writes go to, one after the other.
const PLACES: u64 = 8;
/// Bytes of a word.
const WORD: usize = 8;

/// One side of what is written in place. A write ends in a word that numbers it, which is stored
/// behind all others.
struct Writer {
    sending: Sending,
    _receiving: Receiving,
    own: Area,
    data: Vec<u8>,
}

impl Writer {
    fn new(end: End, size: usize) -> Outcome<Self> {
        if size < WORD || size % WORD != 0 {
            return Err("a write has a multiple of 8 bytes".into());
        }
        let (sending, receiving) = end.pair.split();
        let place = Place {
            key: 0,
            off: 0,
            len: u32::try_from(size * PLACES as usize + WORD)?,
        };
        let own = receiving.area(place).ok_or("the window is too small")?;
        Ok(Writer {
            sending,
            _receiving: receiving,
            own,
            data: vec![0x5a; size - WORD],
        })
    }

    fn size(&self) -> u64 {
        (self.data.len() + WORD) as u64
    }

    /// Where the word of a write lies.
    fn word(&self, write: u64) -> u64 {
        write % PLACES * self.size() + self.data.len() as u64
    }

    /// Where a side says how much it has seen.
    fn seen(&self) -> u64 {
        PLACES * self.size()
    }

    #[inline]
    fn store(&mut self, at: u64, word: u64) -> Result<(), Error> {
        self.sending.store(at, word)?;
        self.sending.fence();
        Ok(())
    }

    /// Write the whole of a place.
    fn write(&mut self, write: u64) -> Result<(), Error> {
        let at = self.word(write);
        if !self.data.is_empty() {
            let data = [Piece::from(&self.data[..])];
            self.sending.write(at - self.data.len() as u64, &data)?;
            self.sending.fence();
        }
        self.store(at, write)
    }

    /// Look until a word of the own memory is at least this; what it is.
    fn until(&self, at: u64, least: u64) -> Outcome<u64> {
        let own = self.own.volatile()?;
        let word = own.get_atomic_ref::<AtomicU64>(usize::try_from(at)?)?;
        let gone = EventMask::CLOSED.union(EventMask::DOWN);
        loop {
            for _ in 0..LOOKS {
                let found = u64::from_le(word.load(Ordering::Acquire));
                if found >= least {
                    return Ok(found);
                }
                spin_loop();
            }
            match self.sending.session().wait(gone, Deadline::PAST) {
                Err(FabricError::TimedOut) => {}
                _ => return Err(Error::from(FabricError::PartnerGone).into()),
            }
        }
    }
}

/// Answer a client's writes by own ones, then tell how many have come.
fn serve_writes(mut end: End) -> Outcome<()> {
    let mut plan = [0; 3 * WORD];
    end.receive(&mut plan)?;
    let mut words = plan.chunks_exact(WORD).map(|word| {
        let word = word.try_into().unwrap_or_default();
        u64::from_le_bytes(word)
    });
    let mut next = || words.next().unwrap_or_default();
    let (size, rounds, stream) = (next(), next(), next());
    let mut writer = Writer::new(end, usize::try_from(size)?)?;
    for round in 1..=rounds {
        writer.until(writer.word(round), round)?;
        writer.write(round)?;
    }
    for write in rounds + 1..=rounds + stream {
        writer.until(writer.word(write), write)?;
        let seen = write - rounds;
        if seen % (PLACES / 4) == 0 || seen == stream {
            writer.store(writer.seen(), seen)?;
        }
    }
    // Until the client has gone.
    let _ = writer.until(writer.seen(), u64::MAX);
    Ok(())
}

/// Round trips in microseconds, sorted, and the seconds that writes one after the other take.
fn measure_writes(mut end: End, options: &Client) -> Outcome<(Vec<f64>, Option<f64>)> {
    let (rounds, stream) = (options.rounds, options.stream);
    let plan = [options.size as u64, rounds, stream].map(u64::to_le_bytes);
    end.send(&Head::default(), &plan.concat())?;
    let mut writer = Writer::new(end, options.size)?;
    let mut times = Vec::with_capacity(usize::try_from(rounds / BATCH + 1)?);
    let mut round = 0;
    while round < rounds {
        let batch = (rounds - round).min(BATCH);
        let start = Instant::now();
        for _ in 0..batch {
            round += 1;
            writer.write(round)?;
            writer.until(writer.word(round), round)?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / batch as f64);
    }
    times.sort_by(f64::total_cmp);
    let start = Instant::now();
    let mut seen = 0;
    for sent in 0..stream {
        if sent - seen >= PLACES {
            seen = writer.until(writer.seen(), seen + 1)?;
        }
        writer.write(rounds + 1 + sent)?;
    }
    writer.until(writer.seen(), stream)?;
    let took = start.elapsed().as_secs_f64();
    Ok((times, (stream > 0).then_some(took)))
}

/// The same of messages; how many bytes were compared before.
fn measure_messages(mut end: End, options: &Client) -> Outcome<(u64, Vec<f64>, Option<f64>)> {
    let bytes = compare(&mut end, options.messages)?;
    let times = measure(&mut end, options.rounds, options.size, options.common.pause)?;
    let streamed = match options.stream {
        0 => None,
        messages => Some(stream(&mut end, messages, options.size)?),
    };
    end.pair.close(0)?;
    Ok((bytes, times, streamed))
}

fn play(fabric: &Fabric, options: &Client) -> Outcome<()> {
    let session = connect(fabric, &options.common)?;
    let end = End::new(session, &options.common, Deadline::after(PATIENCE))?;
    let (bytes, times, streamed) = match options.common.writes {
        true => {
            let (times, streamed) = measure_writes(end, options)?;
            (0, times, streamed)
        }
        false => measure_messages(end, options)?,
    };
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
