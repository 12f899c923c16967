// SPDX-License-Identifier: MIT OR Apache-2.0

//! Clients of several servers: many that send to one node, and a pipeline.

use super::{end_server, Both, Service, Task, PORT, WARM_UP};
use crate::{
    failure::{Failure, Outcome},
    way::{connect, Ends, Kind, Way},
};
use clap::ValueEnum;
use mcapi::{Deadline, Device, Endpoint, Node};
use mp_table::{Align, Columns};
use mp_tools::{Output, Quantiles, Sink};
use serde::Serialize;
use std::{
    str::FromStr,
    time::{Duration, Instant},
};

/// Packets that each channel has room for, whatever their size.
const ROOM: usize = 2;

/// A server: its domain and its node.
#[derive(Clone, Copy, Debug)]
struct Server {
    domain: u32,
    node: u32,
}

impl FromStr for Server {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a server is DOMAIN:NODE, in decimal";
        let (domain, node) = word.split_once(':').ok_or(WRONG)?;
        Ok(Server {
            domain: domain.parse().map_err(|_| WRONG)?,
            node: node.parse().map_err(|_| WRONG)?,
        })
    }
}

/// What both have in common.
#[derive(clap::Args, Debug)]
struct Common {
    /// The servers, each by domain and node
    #[arg(required = true, value_name = "DOMAIN:NODE")]
    servers: Vec<Server>,

    #[command(flatten)]
    both: Both,

    /// Bytes of each item; scalars have eight
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=65536))]
    size: u32,

    /// Items of each server, or through the pipeline
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Common {
    fn found<D: Device>(&self, node: &Node<D>) -> Outcome<Vec<Endpoint>> {
        let deadline = Deadline::after(self.both.patience());
        let endpoint = |server: &Server| {
            let Server {
                domain,
                node: number,
            } = *server;
            Ok(node.endpoint_get(domain, number, PORT, deadline)?)
        };
        self.servers.iter().map(endpoint).collect()
    }

    /// Print the only result.
    fn tell(
        &self,
        head: &[&str],
        result: &impl Serialize,
        row: Vec<String>,
        out: &mut Sink<'_>,
    ) -> Outcome {
        let columns = row.iter().map(|_| (11, Align::Right));
        let mut output = Output::new(self.json, Columns::new(1, columns), out);
        output.head(head)?;
        Ok(output.result(result, &[row])?)
    }

    /// The servers that serve one client only end.
    fn end_servers<D: Device>(&self, node: &Node<D>, servers: &[Endpoint]) -> Outcome {
        let mut servers = servers.iter();
        servers.try_for_each(|server| end_server(node, *server, self.both.patience()))
    }
}

// --- many that send to one

/// Options of `many`.
#[derive(clap::Args, Debug)]
pub struct Many {
    #[command(flatten)]
    common: Common,

    /// What they send
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Messages)]
    kind: Kind,
}

/// What several servers have come to.
#[derive(Serialize)]
struct Received {
    kind: Kind,
    sources: usize,
    bytes: usize,
    rounds: u32,
    /// Items of all of them in a second.
    items_s: f64,
    /// Bytes in a microsecond.
    mb_s: f64,
}

impl Many {
    pub(super) fn both(&self) -> Both {
        self.common.both
    }

    /// Let all servers send at the same time, and take from each in its turn.
    pub(super) fn run<D: Device>(&self, node: &Node<D>, out: &mut Sink<'_>) -> Outcome {
        let Common { rounds, .. } = self.common;
        let patience = self.common.both.patience();
        let size = match self.kind {
            Kind::Scalars => size_of::<u64>(),
            _ => self.common.size as usize,
        };
        let servers = self.common.found(node)?;
        let mut sources = Vec::new();
        for server in &servers {
            let own = Ends::new(node, patience)?;
            let service = Service::begin(node, *server, Task::Open(self.kind), own, patience)?;
            let way = Way::open(node, self.kind, own, service.ends, patience)?;
            sources.push((service, way));
        }
        let begun = Instant::now();
        for (service, _) in &sources {
            service.order(Task::Give(size), rounds.into())?;
        }
        for _ in 0..rounds {
            for (_, way) in &sources {
                way.take(|item| match item.len() == size {
                    true => Ok(()),
                    false => Err(Failure::Wrong("an item of another size has come")),
                })?;
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        for (service, way) in sources {
            service.answered()?;
            service.end()?;
            way.close()?;
        }
        let items = f64::from(rounds) * servers.len() as f64;
        let received = Received {
            kind: self.kind,
            sources: servers.len(),
            bytes: size,
            rounds,
            items_s: items / seconds,
            mb_s: items * size as f64 / seconds / 1e6,
        };
        let kind = self.kind.to_possible_value();
        let mut row = vec![kind.map_or_else(String::new, |kind| kind.get_name().to_owned())];
        row.extend([
            servers.len().to_string(),
            size.to_string(),
            rounds.to_string(),
        ]);
        row.push(format!("{:.0}", received.items_s));
        row.push(format!("{:.1}", received.mb_s));
        let head = ["with", "sources", "bytes", "rounds", "items/s", "MB/s"];
        self.common.tell(&head, &received, row, out)?;
        self.common.end_servers(node, &servers)
    }
}

// --- a pipeline

/// Options of `pipeline`.
#[derive(clap::Args, Debug)]
pub struct Pipeline {
    #[command(flatten)]
    common: Common,
}

/// What a pipeline has come to.
#[derive(Serialize)]
struct Passed {
    stages: usize,
    bytes: usize,
    rounds: u32,
    /// How long a packet takes through all stages that is alone on its way, in microseconds.
    #[serde(flatten)]
    times: Quantiles,
    /// Bytes in a microsecond when all channels are full.
    mb_s: f64,
}

impl Pipeline {
    pub(super) fn both(&self) -> Both {
        self.common.both
    }

    pub(super) fn run<D: Device>(&self, node: &Node<D>, out: &mut Sink<'_>) -> Outcome {
        let Common { rounds, size, .. } = self.common;
        let patience = self.common.both.patience();
        let servers = self.common.found(node)?;
        let own = Ends::new(node, patience)?;
        let begin = |server: &Endpoint| Service::begin(node, *server, Task::Join, own, patience);
        let stages: Vec<_> = servers.iter().map(begin).collect::<Outcome<_>>()?;
        // From the own sending end through all stages to the own receiving one.
        let outs = std::iter::once(own.out).chain(stages.iter().map(|stage| stage.ends.out));
        let into = stages.iter().map(|stage| stage.ends.into);
        for (from, to) in outs.zip(into.chain([own.into])) {
            connect(node, Kind::Packets, from, to, patience)?;
        }
        let way = Way::open(node, Kind::Packets, own, own, patience)?;
        let line = Line {
            stages,
            way,
            size: size as usize,
        };
        let times = Quantiles::of(&line.latency(rounds)?);
        let passed = Passed {
            stages: servers.len(),
            bytes: size as usize,
            rounds,
            times: times.ok_or(Failure::Wrong("nothing was measured"))?,
            mb_s: line.throughput(rounds)?,
        };
        line.end()?;
        let mut row = [servers.len(), size as usize, rounds as usize]
            .map(|n| n.to_string())
            .to_vec();
        let Quantiles { min, median, p99 } = passed.times;
        row.extend([min, median, p99].map(|time| format!("{time:.3}")));
        row.push(format!("{:.1}", passed.mb_s));
        let head = [
            "stages",
            "bytes",
            "rounds",
            "min us",
            "median us",
            "99 % us",
            "MB/s",
        ];
        self.common.tell(&head, &passed, row, out)?;
        self.common.end_servers(node, &servers)
    }
}

/// Stages that are connected, and the ends of the line.
struct Line<'a, D: Device> {
    stages: Vec<Service<'a, D>>,
    way: Way<'a, D>,
    size: usize,
}

impl<D: Device> Line<'_, D> {
    fn order(&self, count: u64) -> Outcome {
        let mut stages = self.stages.iter();
        stages.try_for_each(|stage| stage.order(Task::Echo, count))
    }

    fn answered(&self) -> Outcome {
        self.stages.iter().try_for_each(Service::answered)
    }

    /// Take a packet, whose bytes all have to be this one; when it was there.
    fn take(&self, byte: u8) -> Outcome<Instant> {
        let mut room = Vec::new();
        self.way.take(|item| {
            let now = Instant::now();
            match item.is(&vec![byte; self.size], &mut room) {
                true => Ok(now),
                false => Err(Failure::Wrong(
                    "another packet has come through the pipeline",
                )),
            }
        })
    }

    /// How long packets take that are alone.
    fn latency(&self, rounds: u32) -> Outcome<Vec<Duration>> {
        let rounds = u64::from(rounds) + WARM_UP;
        self.order(rounds)?;
        let mut times = Vec::new();
        for round in 0..rounds {
            let byte = round as u8;
            let data = vec![byte; self.size];
            let begun = Instant::now();
            self.way.put(&data)?;
            let there = self.take(byte)?;
            if round >= WARM_UP {
                times.push(there - begun);
            }
        }
        self.answered()?;
        Ok(times)
    }

    /// Bytes in a microsecond, with as many packets on their way as all channels have room for.
    fn throughput(&self, rounds: u32) -> Outcome<f64> {
        // One more waits while it is sent.
        let most = ROOM * (self.stages.len() + 1) - 1;
        self.order(rounds.into())?;
        let begun = Instant::now();
        let mut left = 0..rounds;
        for round in 0..rounds {
            self.way.put(&vec![round as u8; self.size])?;
            if (round - left.start) as usize >= most {
                self.take(left.start as u8)?;
                left.start += 1;
            }
        }
        for round in left {
            self.take(round as u8)?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.answered()?;
        Ok(f64::from(rounds) * self.size as f64 / seconds / 1e6)
    }

    fn end(self) -> Outcome {
        self.stages.into_iter().try_for_each(Service::end)?;
        self.way.close()
    }
}
