// SPDX-License-Identifier: MIT OR Apache-2.0

//! `mcapi_bench`: how long a message, a packet or a scalar takes to another node, and how many bytes
//! pass, by size.
//!
//! A client sends orders to a server, as messages. The first one names the client's endpoints; the
//! server answers with its own, and connects both ways, unless it is a stage of a pipeline, which the
//! client connects. Each order is answered behind its data.
//!
//! | module | owns |
//! |---|---|
//! | here | servers, and clients of one |
//! | [`several`] | clients of several servers: many that send to one, and a pipeline |

mod several;

use crate::{
    failure::{Failure, Outcome},
    way::{Ends, Kind, Way},
    Tool,
};
use clap::{Parser, ValueEnum};
use mcapi::{Deadline, Device, Endpoint, Fabric, Node, Topology, MESSAGE_MAX, NODE_MAX};
use mp_table::{Align, Columns};
use mp_tools::{Failure as _, Output, Quantiles, Sink};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The port that orders of new clients go to.
const PORT: u32 = 1;
/// Priority of orders: they are not behind data.
const URGENT: u32 = 0;
/// Rounds before a latency is measured.
const WARM_UP: u64 = 50;

/// Measure messages, packets and scalars between two nodes of MCAPI
#[derive(Debug, Parser)]
#[command(
    name = "mcapi_bench",
    version,
    after_help = "mcapi_bench(1) tells more."
)]
pub enum Options {
    /// Do the other half of what clients measure, one after the other
    Server(Server),
    /// Measure, and print
    Client(Client),
    /// Receive from several servers at the same time
    Many(several::Many),
    /// Send packets through several servers, one after the other
    Pipeline(several::Pipeline),
}

/// Options of both sides.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Both {
    /// Be this node of the own domain
    #[arg(long, value_name = "N", default_value_t = NODE_MAX)]
    node: u32,

    /// Milliseconds to wait for the other side at most
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    patience: u64,
}

/// Options of the server.
#[derive(clap::Args, Debug)]
pub struct Server {
    #[command(flatten)]
    both: Both,

    /// End when a client has ended
    #[arg(long)]
    once: bool,
}

/// Options of the client.
#[derive(clap::Args, Debug)]
pub struct Client {
    /// The server's domain: a host by its number, unless mcapi.conf(5) says otherwise
    domain: u32,

    /// The server's node
    #[arg(default_value_t = NODE_MAX)]
    server: u32,

    #[command(flatten)]
    both: Both,

    /// What to measure; all three by default
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    only: Vec<Kind>,

    /// Sizes in bytes; scalars have eight
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "8,64,1024,4096,65536"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=65536))]
    sizes: Vec<u32>,

    /// Rounds of each measurement
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Print JSON, a line for each size
    #[arg(long)]
    json: bool,
}

impl Both {
    fn patience(self) -> Duration {
        Duration::from_millis(self.patience)
    }
}

/// What a server is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Open a way for a kind of data.
    Open(Kind),
    /// The same of packets, as a stage of a pipeline, which somebody else connects.
    Join,
    /// Send so many items, of so many bytes each.
    Give(usize),
    /// Send so many items back.
    Echo,
    /// Receive so many items.
    Count,
    /// Close the way; of a client without one, end if there is only one client.
    End,
}

/// What a client tells a server: the task and how many items, and its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    task: Task,
    count: u64,
    /// Where it is answered.
    back: Endpoint,
    ends: Ends,
}

/// Bytes of an order: task, kind or bytes, count and three endpoints, of 64 bits each, little-endian.
const ORDER: usize = 48;

impl Order {
    fn encode(&self) -> [u8; ORDER] {
        let (task, kind) = match self.task {
            Task::Open(kind) => (0, kind as u64),
            Task::Echo => (1, 0),
            Task::Count => (2, 0),
            Task::End => (3, 0),
            Task::Join => (4, 0),
            Task::Give(bytes) => (5, bytes as u64),
        };
        let endpoints = [self.back, self.ends.out, self.ends.into].map(Endpoint::to_raw);
        let [back, out, into] = endpoints;
        let mut bytes = [0; ORDER];
        let words = [task, kind, self.count, back, out, into];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Outcome<Self> {
        const WRONG: Failure = Failure::Wrong("that is no order of a client");
        let bytes: &[u8; ORDER] = bytes.try_into().map_err(|_| WRONG)?;
        let mut words = bytes.chunks_exact(8).map(|eight| {
            let eight = eight.try_into().unwrap_or_default();
            u64::from_le_bytes(eight)
        });
        let mut next = || words.next().unwrap_or_default();
        let (task, what) = (next(), next());
        let what = usize::try_from(what).map_err(|_| WRONG)?;
        let kind = Kind::value_variants().get(what).copied();
        let task = match task {
            0 => Task::Open(kind.ok_or(WRONG)?),
            1 => Task::Echo,
            2 => Task::Count,
            3 => Task::End,
            4 => Task::Join,
            5 if what <= MESSAGE_MAX => Task::Give(what),
            _ => return Err(WRONG),
        };
        let count = next();
        let mut endpoint = || Endpoint::from_raw(next()).ok_or(WRONG);
        Ok(Order {
            task,
            count,
            back: endpoint()?,
            ends: Ends {
                out: endpoint()?,
                into: endpoint()?,
            },
        })
    }
}

impl Tool for Options {
    fn run<D: Device>(&self, fabric: Fabric<D>, topology: Topology, out: &mut Sink<'_>) -> Outcome {
        let node = match self {
            Options::Server(server) => {
                return server.run(&crate::node(fabric, topology, server.both.node)?, out);
            }
            Options::Client(client) => {
                let node = crate::node(fabric, topology, client.both.node)?;
                client.run(&node, &mut Output::new(client.json, columns(), out))?;
                node
            }
            Options::Many(many) => {
                let node = crate::node(fabric, topology, many.both().node)?;
                many.run(&node, out)?;
                node
            }
            Options::Pipeline(pipeline) => {
                let node = crate::node(fabric, topology, pipeline.both().node)?;
                pipeline.run(&node, out)?;
                node
            }
        };
        Ok(node.finalize()?)
    }
}

/// The next order at an endpoint.
fn order<D: Device>(node: &Node<D>, at: Endpoint) -> Outcome<Order> {
    let (bytes, _) = node.msg_take(at, ORDER)?;
    Order::decode(&bytes)
}

fn tell<D: Device>(node: &Node<D>, from: Endpoint, to: Endpoint, order: &Order) -> Outcome {
    Ok(node.msg_send(from, to, &order.encode(), URGENT)?)
}

// --- the server

impl Server {
    fn run<D: Device>(&self, node: &Node<D>, out: &mut Sink<'_>) -> Outcome {
        let port = node.endpoint_create(Some(PORT))?;
        writeln!(out, "ready")?;
        out.flush()?;
        loop {
            let first = order(node, port)?;
            let served = match first.task {
                Task::Open(kind) => self.serve(node, &first, kind),
                Task::Join => self.serve(node, &first, Kind::Packets),
                Task::End if self.once => return Ok(node.finalize()?),
                _ => Ok(()),
            };
            match served {
                // Others may still come.
                Err(failure) if !self.once => drop(failure.report()),
                served => served?,
            }
        }
    }

    /// Do what a client orders for one kind of data.
    fn serve<D: Device>(&self, node: &Node<D>, first: &Order, kind: Kind) -> Outcome {
        let patience = self.both.patience();
        let own = Ends::new(node, patience)?;
        let orders = Ends::new(node, patience)?;
        let answer = Order {
            back: orders.into,
            ends: own,
            ..*first
        };
        tell(node, orders.out, first.back, &answer)?;
        if first.task != Task::Join {
            Way::connect(node, kind, [own, first.ends], patience)?;
        }
        let way = Way::open(node, kind, own, first.ends, patience)?;
        loop {
            let next = order(node, orders.into)?;
            do_all(&way, &next)?;
            tell(node, orders.out, first.back, &next)?;
            if next.task == Task::End {
                break;
            }
        }
        way.close()?;
        for endpoint in [orders.out, orders.into] {
            node.endpoint_delete(endpoint)?;
        }
        Ok(())
    }
}

/// Do what an order says, as often as it says.
fn do_all<D: Device>(way: &Way<'_, D>, order: &Order) -> Outcome {
    if let Task::Give(bytes) = order.task {
        let data = vec![7; bytes];
        return (0..order.count).try_for_each(|_| way.put(&data));
    }
    for _ in 0..order.count {
        way.take(|item| match order.task {
            Task::Echo => item.put_back(),
            _ => Ok(()),
        })?;
    }
    Ok(())
}

// --- the client

/// What a size has come to.
#[derive(Serialize)]
struct Result {
    kind: Kind,
    bytes: usize,
    rounds: u32,
    /// Halves of round trips, in microseconds.
    #[serde(flatten)]
    times: Quantiles,
    /// Bytes that go one way in a microsecond.
    mb_s: f64,
}

const HEAD: [&str; 7] = [
    "with",
    "bytes",
    "rounds",
    "min us",
    "median us",
    "99 % us",
    "MB/s",
];

impl Result {
    fn row(&self) -> Vec<String> {
        let kind = self.kind.to_possible_value();
        let kind = kind.map_or_else(String::new, |kind| kind.get_name().to_owned());
        let Quantiles { min, median, p99 } = self.times;
        let mut row = vec![kind, self.bytes.to_string(), self.rounds.to_string()];
        row.extend([min, median, p99].map(|time| format!("{time:.3}")));
        row.push(format!("{:.1}", self.mb_s));
        row
    }
}

/// The columns of the table.
fn columns() -> Columns {
    let numbers = [10, 9, 11, 11, 11, 10].map(|width| (width, Align::Right));
    let first = [(9, Align::Left)].into_iter();
    Columns::new(1, first.chain(numbers))
}

impl Client {
    fn run<D: Device>(&self, node: &Node<D>, out: &mut Output<'_>) -> Outcome {
        let deadline = Deadline::after(self.both.patience());
        let server = node.endpoint_get(self.domain, self.server, PORT, deadline)?;
        out.head(&HEAD)?;
        let kinds = match &self.only[..] {
            [] => Kind::value_variants(),
            some => some,
        };
        for kind in kinds {
            Session::begin(self, node, server, *kind)?.run(out)?;
        }
        end_server(node, server, self.both.patience())
    }

    /// Sizes that items of a kind can have.
    fn sizes(&self, kind: Kind) -> Vec<usize> {
        match kind {
            Kind::Scalars => vec![size_of::<u64>()],
            _ => self.sizes.iter().map(|size| *size as usize).collect(),
        }
    }
}

/// Let a server end that serves one client only.
fn end_server<D: Device>(node: &Node<D>, server: Endpoint, patience: Duration) -> Outcome {
    let ends = Ends::new(node, patience)?;
    let last = Order {
        task: Task::End,
        count: 0,
        back: ends.into,
        ends,
    };
    tell(node, ends.out, server, &last)
}

/// A server that carries out orders.
struct Service<'a, D: Device> {
    node: &'a Node<D>,
    /// Orders go from here, and are answered here; and to there.
    orders: Ends,
    there: Endpoint,
    /// The server's endpoints for data.
    ends: Ends,
}

impl<'a, D: Device> Service<'a, D> {
    /// Give a server its first task, for data to and from these endpoints.
    fn begin(
        node: &'a Node<D>,
        server: Endpoint,
        task: Task,
        own: Ends,
        patience: Duration,
    ) -> Outcome<Self> {
        let orders = Ends::new(node, patience)?;
        let first = Order {
            task,
            count: 0,
            back: orders.into,
            ends: own,
        };
        tell(node, orders.out, server, &first)?;
        let answer = order(node, orders.into)?;
        Ok(Service {
            node,
            orders,
            there: answer.back,
            ends: answer.ends,
        })
    }

    fn order(&self, task: Task, count: u64) -> Outcome {
        let order = Order {
            task,
            count,
            back: self.orders.into,
            ends: self.orders,
        };
        tell(self.node, self.orders.out, self.there, &order)
    }

    /// Wait until the server has done all of an order.
    fn answered(&self) -> Outcome {
        order(self.node, self.orders.into).map(|_| ())
    }

    /// The server ends its end of the way, and is free for others.
    fn end(self) -> Outcome {
        self.order(Task::End, 0)?;
        self.answered()?;
        for endpoint in [self.orders.out, self.orders.into] {
            self.node.endpoint_delete(endpoint)?;
        }
        Ok(())
    }
}

/// What a client measures of one kind.
struct Session<'a, D: Device> {
    client: &'a Client,
    kind: Kind,
    way: Way<'a, D>,
    service: Service<'a, D>,
}

impl<'a, D: Device> Session<'a, D> {
    fn begin(client: &'a Client, node: &'a Node<D>, server: Endpoint, kind: Kind) -> Outcome<Self> {
        let patience = client.both.patience();
        let own = Ends::new(node, patience)?;
        let service = Service::begin(node, server, Task::Open(kind), own, patience)?;
        let way = Way::open(node, kind, own, service.ends, patience)?;
        Ok(Session {
            client,
            kind,
            way,
            service,
        })
    }

    fn run(self, out: &mut Output<'_>) -> Outcome {
        for size in self.client.sizes(self.kind) {
            let rounds = self.client.rounds;
            let times = self.latency(size)?;
            let times = Quantiles::of(&times).ok_or(Failure::Wrong("nothing was measured"))?;
            let result = Result {
                kind: self.kind,
                bytes: size,
                rounds,
                times,
                mb_s: self.throughput(size)?,
            };
            out.result(&result, &[result.row()])?;
        }
        self.service.end()?;
        self.way.close()
    }

    /// Times of so many rounds, halves of round trips; what comes back is compared afterwards.
    fn latency(&self, size: usize) -> Outcome<Vec<Duration>> {
        let rounds = u64::from(self.client.rounds) + WARM_UP;
        let (mut data, mut room, mut times) = (vec![0; size], Vec::new(), Vec::new());
        self.service.order(Task::Echo, rounds)?;
        for round in 0..rounds {
            for (n, byte) in (0_u64..).zip(&mut data) {
                *byte = (round + 7 * n + (n >> 8)) as u8;
            }
            let start = Instant::now();
            self.way.put(&data)?;
            let (half, is_same) = self.way.take(|item| {
                let half = start.elapsed() / 2;
                Ok((half, item.is(&data, &mut room)))
            })?;
            if !is_same {
                return Err(Failure::Wrong("other bytes have come back"));
            }
            if round >= WARM_UP {
                times.push(half);
            }
        }
        self.service.answered()?;
        Ok(times)
    }

    /// Bytes in a microsecond, until the server has all of them.
    fn throughput(&self, size: usize) -> Outcome<f64> {
        let (data, rounds) = (vec![7; size], u64::from(self.client.rounds));
        self.service.order(Task::Count, rounds)?;
        let start = Instant::now();
        for _ in 0..rounds {
            self.way.put(&data)?;
        }
        self.service.answered()?;
        Ok(rounds as f64 * size as f64 / start.elapsed().as_secs_f64() / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(raw: u64) -> Endpoint {
        Endpoint::from_raw(raw).unwrap()
    }

    #[test]
    fn orders_survive_the_wire_and_others_are_refused() {
        let kinds = Kind::value_variants().iter().copied().map(Task::Open);
        let others = [Task::Echo, Task::Count, Task::End, Task::Join];
        for task in kinds.chain(others).chain([0, 65536].map(Task::Give)) {
            let order = Order {
                task,
                count: 0x0123_4567_89AB_CDEF,
                back: endpoint(1),
                ends: Ends {
                    out: endpoint(1 << 16 | 2),
                    into: endpoint(1 << 32 | 3),
                },
            };
            let bytes = order.encode();
            assert_eq!(Order::decode(&bytes).unwrap(), order);
            assert!(Order::decode(&bytes[1..]).is_err());
            for (at, byte) in [(0, 6), (26, 0xFF), (31, 0xFF)] {
                let mut wrong = bytes;
                wrong[at] = byte;
                let is_endpoint = at >= 24;
                assert_eq!(Order::decode(&wrong).is_err(), !is_endpoint || at == 31);
            }
            let mut wrong = bytes;
            wrong[12] = 1;
            let has_more = matches!(task, Task::Open(_) | Task::Give(_));
            assert_eq!(Order::decode(&wrong).is_err(), has_more, "{task:?}");
        }
    }
}
