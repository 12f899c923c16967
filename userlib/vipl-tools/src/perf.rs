// SPDX-License-Identifier: MIT OR Apache-2.0

//! Measure messages and remote memory access between two hosts: latency, bandwidth, connections per
//! second.
//!
//! Each measurement has a connection of its own, which begins with a [`Plan`] of the client. The
//! server answers with where its memory is, and does the other half.

use crate::{
    end::{End, Shape, SIZE_MAX, WINDOW},
    failure::{Failure, Outcome},
    plot::{self, Chart},
    Host, Tool,
};
use clap::{Parser, ValueEnum};
use mp_table::{Align, Columns};
use mp_tools::{pause, Failure as _, Output, Quantiles, Sink, PAUSE_MAX};
use serde::Serialize;
use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
    time::{Duration, Instant},
};
use vipl::{
    Descriptor, Device, Level, NetAddress,
    QueueKind::{Receive, Send},
    Remote,
};

const DISCRIMINATOR: &str = "vi_perf";
/// Rounds before a latency is measured.
const WARM_UP: u32 = 50;
/// A server tells of so many messages at once that it has received.
const CREDIT: u32 = WINDOW as u32 / 2;
/// A connection is made and ended by so many rounds of other measurements.
const ROUNDS_FOR_CONNECTION: u32 = 10;

/// Measure virtual interfaces between two hosts
#[derive(Debug, Parser)]
#[command(version)]
pub enum Options {
    /// Do the other half of what clients measure, one after the other
    Server(Server),
    /// Measure, and print
    Client(Client),
}

/// Options of both sides.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Both {
    /// How reliable the connections are; the same on both sides
    #[arg(long, value_enum, default_value_t = Reliability::Delivery)]
    pub level: Reliability,

    /// Wait for completions by functions that sleep, instead of looking all the time
    #[arg(long)]
    pub wait: bool,

    /// Have completions told by a completion queue
    #[arg(long)]
    pub cq: bool,

    /// Microseconds to pause before each message or write of a latency, which do not count: a side
    /// that waits for longer than it looks sleeps; up to a second
    #[arg(long, value_name = "US", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=PAUSE_MAX))]
    pub pause: u64,

    /// Milliseconds to be patient with the other side
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    pub patience: u64,
}

/// Options of the server.
#[derive(clap::Args, Debug)]
pub struct Server {
    /// Options of both sides.
    #[command(flatten)]
    pub both: Both,

    /// End when a client has ended
    #[arg(long)]
    pub once: bool,
}

/// Options of the client.
#[derive(clap::Args, Debug)]
pub struct Client {
    /// The server: a name of vipl.conf(5), or the number of a host
    pub host: String,

    /// Options of both sides.
    #[command(flatten)]
    pub both: Both,

    /// What to measure; all of it by default
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub only: Vec<Kind>,

    /// What to measure it with; all of it by default
    #[arg(long, value_name = "OPERATION", value_enum, value_delimiter = ',')]
    pub operations: Vec<Operation>,

    /// Sizes in bytes
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "8,64,1024,65536"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=SIZE_MAX as i64))]
    pub sizes: Vec<u32>,

    /// Rounds of each measurement
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,

    /// Print JSON, a line for each result
    #[arg(long)]
    pub json: bool,

    /// Draw latencies and bandwidths by size, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// How reliable a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reliability {
    /// Reliable delivery
    Delivery,
    /// Reliable reception
    Reception,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Half a round trip; of a read, all of it
    Latency,
    /// Bytes in a time
    Bandwidth,
    /// Connections that are made and ended in a time
    Connect,
}

/// What it is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Messages
    Send,
    /// RDMA writes; those of a latency carry immediate data
    Write,
    /// RDMA reads
    Read,
}

impl Operation {
    /// Its name, as on the command line and in JSON.
    fn name(self) -> &'static str {
        match self {
            Operation::Send => "send",
            Operation::Write => "write",
            Operation::Read => "read",
        }
    }
}

impl Both {
    fn shape(self) -> Shape {
        Shape {
            level: match self.level {
                Reliability::Delivery => Level::ReliableDelivery,
                Reliability::Reception => Level::ReliableReception,
            },
            wait: self.wait,
            cq: self.cq,
            patience: self.patience,
        }
    }
}

/// What a client tells a server before a measurement: six numbers, and where its memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// Nothing: the client has ended.
    kind: Option<Kind>,
    operation: Operation,
    size: u32,
    rounds: u32,
    remote: Remote,
}

/// Bytes of a plan.
const PLAN: usize = 28;

impl Plan {
    /// Kind, operation, size, rounds (4 each), address (8), handle (4), little-endian.
    fn encode(&self) -> [u8; PLAN] {
        let kind = self.kind.map_or(0, |kind| kind as u32 + 1);
        let mut bytes = [0; PLAN];
        let fields = [
            kind.into(),
            self.operation as u64,
            self.size.into(),
            self.rounds.into(),
            self.remote.address,
            self.remote.address >> 32,
            self.remote.handle.into(),
        ];
        for (to, field) in bytes.chunks_exact_mut(4).zip(fields) {
            to.copy_from_slice(&(field as u32).to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; PLAN]) -> Outcome<Self> {
        let mut words = bytes.chunks_exact(4).map(|four| {
            let four = four.try_into().unwrap_or_default();
            u32::from_le_bytes(four)
        });
        let mut next = || words.next().unwrap_or_default();
        let kind = next();
        let operation = Operation::value_variants().get(next() as usize).copied();
        let (size, rounds) = (next(), next());
        let (low, high) = (next(), next());
        let kind = match kind {
            0 => None,
            kind => Kind::value_variants().get(kind as usize - 1).copied(),
        };
        let plan = Plan {
            kind,
            operation: operation.ok_or(Failure::Wrong("the plan has no operation"))?,
            size,
            rounds,
            remote: Remote {
                address: u64::from(high) << 32 | u64::from(low),
                handle: next(),
            },
        };
        match (1..=SIZE_MAX).contains(&(plan.size as usize)) {
            true => Ok(plan),
            false => Err(Failure::Wrong("the plan has no size that can be")),
        }
    }

    /// An operation of a latency, which the other side notices: how long the pause before it was
    /// goes along, in nanoseconds.
    fn noticed(&self, there: Remote, pause: Duration) -> Descriptor {
        let nanos = pause.as_nanos().try_into().unwrap_or(u32::MAX);
        match self.operation {
            Operation::Send if nanos == 0 => Descriptor::new(),
            Operation::Send => Descriptor::new().immediate(nanos),
            Operation::Write => Descriptor::write(there).immediate(nanos),
            Operation::Read => Descriptor::read(there),
        }
    }

    /// An operation of a bandwidth.
    fn plain(&self, there: Remote) -> Descriptor {
        match self.operation {
            Operation::Write => Descriptor::write(there),
            _ => self.noticed(there, Duration::ZERO),
        }
    }

    fn size(&self) -> usize {
        self.size as usize
    }

    /// The row of a result in the table.
    fn row(&self, name: &str, value: f64, of: &str) -> Vec<String> {
        let with = self.operation.name();
        let (bytes, rounds) = (self.size.to_string(), self.rounds.to_string());
        let value = format!("{value:.3}");
        [name, with, &bytes, &rounds, &value, of]
            .map(String::from)
            .into()
    }
}

/// What times have come to, in microseconds.
#[derive(Serialize)]
struct Latency {
    kind: Kind,
    operation: Operation,
    bytes: u32,
    rounds: u32,
    #[serde(flatten)]
    times: Quantiles,
}

/// What a time has come to: bytes in a microsecond.
#[derive(Serialize)]
struct Bandwidth {
    kind: Kind,
    operation: Operation,
    bytes: u32,
    rounds: u32,
    mb_s: f64,
}

/// Connections in a second.
#[derive(Serialize)]
struct Connections {
    kind: Kind,
    rounds: u32,
    per_s: f64,
}

const HEAD: [&str; 6] = ["measured", "with", "bytes", "rounds", "result", "of"];

impl Tool for Options {
    fn run<D: Device>(&self, host: &Host<D>, out: &mut Sink<'_>) -> Outcome {
        match self {
            Options::Server(server) => server.run(host),
            Options::Client(client) => {
                let out = &mut Output::new(client.json, columns(), out);
                client.run(host, out)
            }
        }
    }
}

// --- the server

impl Server {
    fn run<D: Device>(&self, host: &Host<D>) -> Outcome {
        let mut end = End::new(host, self.both.shape())?;
        loop {
            let served = serve_one(&mut end, self.both);
            end.leave()?;
            match served {
                Ok(None) if self.once => return Ok(()),
                Ok(Some(plan)) if plan.kind == Some(Kind::Connect) => {
                    for _ in 0..plan.rounds {
                        end.receive()?;
                        end.serve(DISCRIMINATOR)?;
                        // The client ends the connection.
                        drop(end.take(Receive));
                        end.leave()?;
                    }
                }
                Ok(_) => {}
                // Others may still come.
                Err(failure) => drop(failure.report()),
            }
        }
    }
}

/// Serve a measurement; what it was, nothing if the client has ended.
fn serve_one<D: Device>(end: &mut End<D>, both: Both) -> Outcome<Option<Plan>> {
    for _ in 0..WINDOW {
        end.receive()?;
    }
    end.serve(DISCRIMINATOR)?;
    end.take(Receive)?;
    end.receive()?;
    let mut bytes = [0; PLAN];
    end.read(&mut bytes)?;
    let plan = Plan::decode(&bytes)?;
    let there = plan.remote;
    let answer = Plan {
        remote: end.remote(),
        ..plan
    };
    let told = tell(end, &answer);
    let Some(kind) = plan.kind else {
        return Ok(None);
    };
    told?;
    match (kind, plan.operation) {
        (Kind::Latency, Operation::Send | Operation::Write) => {
            for _ in 0..plan.rounds + WARM_UP {
                end.take(Receive)?;
                end.receive()?;
                let pause = pause(both.pause);
                end.send(plan.noticed(there, pause), plan.size())?;
                end.take(Send)?;
            }
        }
        (Kind::Bandwidth, Operation::Send) => {
            for n in 1..=plan.rounds {
                end.take(Receive)?;
                end.receive()?;
                if n % CREDIT == 0 {
                    tell(end, &answer)?;
                }
            }
        }
        // Remote memory needs nobody.
        (Kind::Latency | Kind::Bandwidth, _) | (Kind::Connect, _) => {}
    }
    // The client says that it has ended, and gets an answer behind everything else. It leaves first,
    // maybe before this side knows that the answer has arrived.
    end.take(Receive)?;
    let _ = tell(end, &answer).and_then(|()| end.take(Receive));
    Ok(Some(plan))
}

fn tell<D: Device>(end: &mut End<D>, plan: &Plan) -> Outcome {
    end.write(&plan.encode())?;
    end.send(Descriptor::new(), PLAN)?;
    end.take(Send).map(|_| ())
}

// --- the client

impl Client {
    fn run<D: Device>(&self, host: &Host<D>, out: &mut Output<'_>) -> Outcome {
        let address = host.address(&self.host)?;
        let server = NetAddress::new(address, DISCRIMINATOR.as_bytes());
        let mut end = End::new(host, self.both.shape())?;
        // What cannot be written to is better known before all the work.
        let plot = self.plot.as_ref().map(File::create).transpose()?;
        out.head(&HEAD)?;
        let mut charts = Charts::default();
        let kinds = match &self.only[..] {
            [] => Kind::value_variants(),
            some => some,
        };
        let operations = match &self.operations[..] {
            [] => Operation::value_variants(),
            some => some,
        };
        for kind in kinds {
            if *kind == Kind::Connect {
                self.connections(&mut end, &server, out)?;
                continue;
            }
            for operation in operations {
                for size in &self.sizes {
                    let plan = self.plan(&end, Some(*kind), *operation, *size);
                    self.measure(&mut end, &server, plan, &mut charts, out)?;
                }
            }
        }
        let last = self.plan(&end, None, Operation::Send, 1);
        self.begin(&mut end, &server, &last)?;
        end.leave()?;
        match plot {
            Some(mut file) => Ok(file.write_all(charts.draw()?.as_bytes())?),
            None => Ok(()),
        }
    }

    fn plan<D: Device>(
        &self,
        end: &End<D>,
        kind: Option<Kind>,
        operation: Operation,
        size: u32,
    ) -> Plan {
        Plan {
            kind,
            operation,
            size,
            rounds: match kind {
                // As many as the server tells of.
                Some(Kind::Bandwidth) => self.rounds.next_multiple_of(CREDIT),
                Some(Kind::Connect) => self.rounds.div_ceil(ROUNDS_FOR_CONNECTION),
                _ => self.rounds,
            },
            remote: end.remote(),
        }
    }

    /// Connect and tell the server what is to come; where its memory is.
    fn begin<D: Device>(
        &self,
        end: &mut End<D>,
        server: &NetAddress,
        plan: &Plan,
    ) -> Outcome<Remote> {
        for _ in 0..WINDOW {
            end.receive()?;
        }
        end.ask(server)?;
        tell(end, plan)?;
        Ok(answer(end)?.remote)
    }

    fn measure<D: Device>(
        &self,
        end: &mut End<D>,
        server: &NetAddress,
        plan: Plan,
        charts: &mut Charts,
        out: &mut Output<'_>,
    ) -> Outcome {
        let there = self.begin(end, server, &plan)?;
        if plan.kind == Some(Kind::Latency) {
            let times = latency(end, &plan, there, self.both)?;
            let times = Quantiles::of(&times).ok_or(Failure::Wrong("nothing was measured"))?;
            let name = plan.operation.name();
            charts.latency.add(name, plan.size, times.median);
            self.tell_latency(&plan, times, out)?;
            finish(end, &plan)?;
        } else {
            let start = Instant::now();
            bandwidth(end, &plan, there)?;
            let bytes = f64::from(plan.size) * f64::from(plan.rounds);
            let mb_s = bytes / start.elapsed().as_secs_f64() / 1e6;
            let name = plan.operation.name();
            charts.bandwidth.add(name, plan.size, mb_s);
            self.tell_bandwidth(&plan, mb_s, out)?;
        }
        end.leave()
    }

    fn connections<D: Device>(
        &self,
        end: &mut End<D>,
        server: &NetAddress,
        out: &mut Output<'_>,
    ) -> Outcome {
        let plan = self.plan(end, Some(Kind::Connect), Operation::Send, 1);
        self.begin(end, server, &plan)?;
        finish(end, &plan)?;
        end.leave()?;
        let start = Instant::now();
        for _ in 0..plan.rounds {
            end.ask(server)?;
            end.leave()?;
        }
        let per_s = f64::from(plan.rounds) / start.elapsed().as_secs_f64();
        let value = Connections {
            kind: Kind::Connect,
            rounds: plan.rounds,
            per_s,
        };
        let cells = [
            "connect",
            "",
            "",
            &plan.rounds.to_string(),
            &format!("{per_s:.1}"),
            "per s",
        ];
        Ok(out.result(&value, &[cells.to_vec()])?)
    }

    fn tell_latency(&self, plan: &Plan, times: Quantiles, out: &mut Output<'_>) -> Outcome {
        let value = Latency {
            kind: Kind::Latency,
            operation: plan.operation,
            bytes: plan.size,
            rounds: plan.rounds,
            times,
        };
        let rows = [
            (times.min, "us, least"),
            (times.median, "us, median"),
            (times.p99, "us, 99 %"),
        ];
        let rows = rows.map(|(time, of)| plan.row("latency", time, of));
        Ok(out.result(&value, &rows)?)
    }

    fn tell_bandwidth(&self, plan: &Plan, mb_s: f64, out: &mut Output<'_>) -> Outcome {
        let value = Bandwidth {
            kind: Kind::Bandwidth,
            operation: plan.operation,
            bytes: plan.size,
            rounds: plan.rounds,
            mb_s,
        };
        Ok(out.result(&value, &[plan.row("bandwidth", mb_s, "MB/s")])?)
    }
}

/// What is drawn of results.
struct Charts {
    latency: Chart,
    bandwidth: Chart,
}

impl Default for Charts {
    fn default() -> Self {
        Charts {
            latency: Chart::new("Latency, median", "us"),
            bandwidth: Chart::new("Bandwidth", "MB/s"),
        }
    }
}

impl Charts {
    /// Draw them; nothing was measured of what has no chart.
    fn draw(self) -> io::Result<String> {
        plot::draw(&[self.latency, self.bandwidth]).map_err(io::Error::other)
    }
}

/// The columns of the table.
fn columns() -> Columns {
    let columns = [
        (10, Align::Left),
        (8, Align::Left),
        (9, Align::Right),
        (9, Align::Right),
        (13, Align::Right),
        (1, Align::Left),
    ];
    Columns::new(1, columns)
}

/// The server's answer.
fn answer<D: Device>(end: &mut End<D>) -> Outcome<Plan> {
    end.take(Receive)?;
    end.receive()?;
    let mut bytes = [0; PLAN];
    end.read(&mut bytes)?;
    Plan::decode(&bytes)
}

/// Say that it was all, and wait for the answer behind everything else.
fn finish<D: Device>(end: &mut End<D>, plan: &Plan) -> Outcome {
    tell(end, plan)?;
    end.take(Receive).map(|_| ())
}

/// Times of so many rounds: halves of round trips, or whole reads.
fn latency<D: Device>(
    end: &mut End<D>,
    plan: &Plan,
    there: Remote,
    both: Both,
) -> Outcome<Vec<Duration>> {
    let is_read = plan.operation == Operation::Read;
    let mut times = Vec::new();
    for n in 0..plan.rounds + WARM_UP {
        pause(both.pause);
        let start = Instant::now();
        end.send(plan.noticed(there, Duration::ZERO), plan.size())?;
        let time = match is_read {
            true => {
                end.take(Send)?;
                start.elapsed()
            }
            false => {
                let answer = end.take(Receive)?;
                let round = start.elapsed();
                let paused = Duration::from_nanos(answer.immediate.unwrap_or(0).into());
                end.take(Send)?;
                end.receive()?;
                round.saturating_sub(paused) / 2
            }
        };
        if n >= WARM_UP {
            times.push(time);
        }
    }
    Ok(times)
}

/// Do so many operations, until the server has all of them.
fn bandwidth<D: Device>(end: &mut End<D>, plan: &Plan, there: Remote) -> Outcome {
    let window = WINDOW as u32 - 2;
    let is_send = plan.operation == Operation::Send;
    let (mut under_way, mut credit, mut told) = (0, window, 0);
    for _ in 0..plan.rounds {
        if under_way == window {
            end.take(Send)?;
            under_way -= 1;
        }
        if is_send && credit == 0 {
            answer(end)?;
            credit += CREDIT;
            told += CREDIT;
        }
        end.send(plan.plain(there), plan.size())?;
        under_way += 1;
        credit = credit.saturating_sub(1);
    }
    for _ in 0..under_way {
        end.take(Send)?;
    }
    while is_send && told < plan.rounds {
        answer(end)?;
        told += CREDIT;
    }
    finish(end, plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_the_wire_and_another_one_is_refused() {
        let plan = Plan {
            kind: Some(Kind::Bandwidth),
            operation: Operation::Read,
            size: 0x1_0000,
            rounds: 7,
            remote: Remote {
                address: 0x1234_5678_9ABC_DEF0,
                handle: 0x1357_9BDF,
            },
        };
        assert_eq!(Plan::decode(&plan.encode()).unwrap(), plan);
        let none = Plan { kind: None, ..plan };
        assert_eq!(Plan::decode(&none.encode()).unwrap(), none);
        let large = Plan {
            size: SIZE_MAX as u32 + 1,
            ..plan
        };
        assert!(Plan::decode(&large.encode()).is_err());
        let mut unknown = plan.encode();
        unknown[4] = 3;
        assert!(Plan::decode(&unknown).is_err());
    }
}
