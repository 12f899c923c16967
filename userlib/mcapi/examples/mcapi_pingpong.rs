// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages, packets or scalars between two nodes of two hosts, and how long a round trip takes.
//!
//! `mcapi_pingpong server KIND` on one host, `mcapi_pingpong client KIND --domain D` on the other,
//! where D is the server's host by its number in the fabric. The server is node 1 and returns
//! whatever it gets, to one client after another, until it is ended; the client is node 2, compares
//! what comes back, and prints what it has found. With `--pause`, both sleep between rounds.

use clap::{Args, Parser, Subcommand, ValueEnum};
use mcapi::{
    Channel, Completion, Deadline, Endpoint, Error, Fabric, Node, NodeAttributes, NodeId, Request,
    Result, Topology, MESSAGE_MAX,
};
use serde_json::json;
use std::{
    process::ExitCode,
    thread::sleep,
    time::{Duration, Instant},
};

const SERVER: u32 = 1;
const CLIENT: u32 = 2;
/// Ports of both nodes: what comes in, and what goes out.
const IN: u32 = 1;
const OUT: u32 = 2;
/// How long the other node may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures round trips between two nodes.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Return what comes, to one client after another
    Server {
        /// What comes
        kind: Kind,
    },
    /// Measure, and print what was found
    Client(Client),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Messages,
    Packets,
    Scalars,
}

#[derive(Args, Debug)]
struct Client {
    /// What is sent
    kind: Kind,
    /// The server's host
    #[arg(long)]
    domain: u32,
    /// Round trips
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// Bytes of the longest message or packet
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Milliseconds between two rounds
    #[arg(long, default_value_t = 0)]
    pause: u64,
}

fn main() -> ExitCode {
    let done = match Options::parse().role {
        Role::Server { kind } => serve(kind),
        Role::Client(client) => measure(&client),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcapi_pingpong: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Become a node of this host.
fn node(number: u32) -> Result<Node> {
    let host = Fabric::open().and_then(|fabric| fabric.host());
    let host = host.map_err(|_| Error::NodeInitFailed)?;
    let fabric = Fabric::open().map_err(|_| Error::NodeInitFailed)?;
    let topology = Topology::load().map_err(|_| Error::NodeInitFailed)?;
    Node::with_fabric(fabric, topology, host, number, NodeAttributes::default())
}

fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

fn opened(node: &Node, request: Request, deadline: Deadline) -> Result<Channel> {
    match node.wait(request, deadline)? {
        Completion::Open(channel) => Ok(channel),
        _ => Err(Error::General),
    }
}

/// The two ends of channels that a node has: what comes in, and what goes out.
struct Channels([Channel; 2]);

impl Channels {
    fn open(node: &Node, kind: Kind, ends: [Endpoint; 2], deadline: Deadline) -> Result<Self> {
        let requests = match kind {
            Kind::Scalars => [
                node.sclchan_recv_open_i(ends[0])?,
                node.sclchan_send_open_i(ends[1])?,
            ],
            _ => [
                node.pktchan_recv_open_i(ends[0])?,
                node.pktchan_send_open_i(ends[1])?,
            ],
        };
        let [first, second] = requests;
        Ok(Channels([
            opened(node, first, deadline)?,
            opened(node, second, deadline)?,
        ]))
    }

    fn close(self, node: &Node, kind: Kind) -> Result<()> {
        let Channels([receive, send]) = self;
        let requests = match kind {
            Kind::Scalars => [
                node.sclchan_send_close_i(send)?,
                node.sclchan_recv_close_i(receive)?,
            ],
            _ => [
                node.pktchan_send_close_i(send)?,
                node.pktchan_recv_close_i(receive)?,
            ],
        };
        for request in requests {
            node.wait(request, soon())?;
        }
        Ok(())
    }
}

fn serve(kind: Kind) -> Result<()> {
    let node = node(SERVER)?;
    let ends = [
        node.endpoint_create(Some(IN))?,
        node.endpoint_create(Some(OUT))?,
    ];
    let mut room = vec![0; MESSAGE_MAX];
    loop {
        match kind {
            Kind::Messages => serve_message(&node, ends, &mut room)?,
            _ => serve_channels(&node, kind, ends, &mut room)?,
        }
    }
}

/// Return a message to the endpoint whose handle it begins with.
fn serve_message(node: &Node, [receive, send]: [Endpoint; 2], room: &mut [u8]) -> Result<()> {
    let received = node.msg_recv(receive, room)?;
    let data = room.get(..received.size).unwrap_or_default();
    let from = data.first_chunk().map(|raw| u64::from_le_bytes(*raw));
    if let Some(from) = from.and_then(Endpoint::from_raw) {
        node.msg_send(send, from, data, 1)?;
    }
    Ok(())
}

/// Return what comes until the client has closed its ends.
fn serve_channels(node: &Node, kind: Kind, ends: [Endpoint; 2], room: &mut [u8]) -> Result<()> {
    let channels = Channels::open(node, kind, ends, Deadline::NEVER)?;
    let Channels([receive, send]) = channels;
    let ended = loop {
        let returned = match kind {
            Kind::Scalars => node
                .sclchan_recv::<u64>(receive)
                .and_then(|scalar| node.sclchan_send(send, scalar)),
            _ => return_packet(node, receive, send, room),
        };
        if let Err(error) = returned {
            break error;
        }
    };
    match ended {
        // The client has closed, or gone.
        Error::ChannelInvalid | Error::Transmission | Error::General => channels.close(node, kind),
        other => Err(other),
    }
}

fn return_packet(node: &Node, receive: Channel, send: Channel, room: &mut [u8]) -> Result<()> {
    let packet = node.pktchan_recv(receive)?;
    let len = packet.read(room);
    node.pktchan_release(packet.address())?;
    node.pktchan_send(send, room.get(..len).unwrap_or_default())
}

/// One round trip, of a kind.
struct Trip<'a> {
    node: &'a Node,
    kind: Kind,
    ends: [Endpoint; 2],
    server: Endpoint,
    channels: Option<Channels>,
}

impl Trip<'_> {
    fn go(&self, round: u64, data: &[u8], room: &mut [u8]) -> Result<bool> {
        let Some(Channels([receive, send])) = self.channels else {
            self.node.msg_send(self.ends[1], self.server, data, 1)?;
            let received = self.node.msg_recv(self.ends[0], room)?;
            return Ok(room.get(..received.size) == Some(data));
        };
        if self.kind == Kind::Scalars {
            self.node.sclchan_send(send, round)?;
            return Ok(self.node.sclchan_recv::<u64>(receive)? == round);
        }
        self.node.pktchan_send(send, data)?;
        let packet = self.node.pktchan_recv(receive)?;
        let len = packet.read(room);
        self.node.pktchan_release(packet.address())?;
        Ok(room.get(..len) == Some(data))
    }
}

fn measure(client: &Client) -> Result<()> {
    let node = node(CLIENT)?;
    let ends = [
        node.endpoint_create(Some(IN))?,
        node.endpoint_create(Some(OUT))?,
    ];
    let own = ends[0].node();
    let server = NodeId::new(client.domain, SERVER)?;
    let [there_in, there_out] =
        [IN, OUT].map(|port| node.endpoint_get(server.domain(), server.node(), port, soon()));
    let (there_in, there_out) = (there_in?, there_out?);
    let connect = |send, receive| match client.kind {
        Kind::Scalars => node.sclchan_connect_i(send, receive),
        _ => node.pktchan_connect_i(send, receive),
    };
    let mut channels = None;
    if client.kind != Kind::Messages {
        for (send, receive) in [(ends[1], there_in), (there_out, ends[0])] {
            node.wait(connect(send, receive)?, soon())?;
        }
        channels = Some(Channels::open(&node, client.kind, ends, soon())?);
    }
    let trip = Trip {
        node: &node,
        kind: client.kind,
        ends,
        server: there_in,
        channels,
    };
    let (mut wrong, mut nanoseconds) = (0, Vec::new());
    let mut room = vec![0; MESSAGE_MAX];
    for round in 0..client.rounds {
        let size = 8 + (round as usize * 4099) % (client.size.max(8) - 7);
        let mut data = vec![round as u8; size];
        if let Some(head) = data.first_chunk_mut() {
            *head = ends[0].to_raw().to_le_bytes();
        }
        let begun = Instant::now();
        wrong += u64::from(!trip.go(round, &data, &mut room)?);
        nanoseconds.push(begun.elapsed().as_nanos() as u64);
        sleep(Duration::from_millis(client.pause));
    }
    if let Some(channels) = trip.channels {
        channels.close(&node, client.kind)?;
    }
    nanoseconds.sort_unstable();
    let median = nanoseconds.get(nanoseconds.len() / 2);
    println!(
        "{}",
        json!({
            "node": own.to_string(),
            "rounds": client.rounds,
            "wrong": wrong,
            "median_ns": median,
        })
    );
    Ok(())
}
