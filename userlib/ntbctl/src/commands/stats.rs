// SPDX-License-Identifier: MIT OR Apache-2.0

//! `stats`: counters of this host, its peers and its links, once or again and again.

use crate::{
    cli,
    failure::Failure,
    model::{as_map, Counters, Host, Peer, PeerId, Stats, STATS},
    netlink::Connection,
    output::{print, print_json, print_table},
    uapi,
};
use mp_table::Table;
use serde::Serialize;
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// The statistics that a peer has of its own.
#[derive(Serialize)]
struct Remote {
    peer: PeerId,
    #[serde(flatten)]
    stats: Stats,
}

/// What this host has counted.
#[derive(Serialize)]
struct Local<'a> {
    host: PeerId,
    #[serde(serialize_with = "as_map")]
    counters: &'a Counters,
    peers: Vec<OfPeer<'a>>,
}

/// What this host has counted of a peer and of the link to it.
#[derive(Serialize)]
struct OfPeer<'a> {
    peer: PeerId,
    #[serde(flatten)]
    stats: Stats,
    #[serde(serialize_with = "as_map")]
    link: &'a Counters,
}

impl<'a> Local<'a> {
    fn new(host: &'a Host, peers: &'a [Peer]) -> Self {
        let of_peer = |peer: &'a Peer| OfPeer {
            peer: peer.id,
            stats: peer.stats,
            link: &peer.counters,
        };
        Local {
            host: host.id,
            counters: &host.counters,
            peers: peers.iter().map(of_peer).collect(),
        }
    }
}

/// Show what was asked for.
pub fn run(kernel: &mut Connection, options: &cli::Stats, json: bool) -> Result<(), Failure> {
    match (options.remote, options.watch) {
        (Some(peer), _) => show_remote(kernel, peer, json),
        (None, Some(interval)) => watch(kernel, interval, options.count, json),
        (None, None) => {
            let (host, peers) = (super::host(kernel)?, super::peers(kernel)?);
            show(&host, &peers, json)
        }
    }
}

fn show_remote(kernel: &mut Connection, peer: PeerId, json: bool) -> Result<(), Failure> {
    let request = [(uapi::MP_A_PEER_ID, peer.0)];
    let stats = Stats::read(&kernel.ask(uapi::MP_CMD_REMOTE_STATS_GET, &request)?)?;
    if json {
        return print_json(&Remote { peer, stats });
    }
    let mut table = Table::new(["host"].iter().chain(&STATS));
    table.row(row(peer, stats.0.iter()));
    print_table(&table)
}

fn row<T: ToString>(peer: PeerId, values: impl Iterator<Item = T>) -> Vec<String> {
    let first = std::iter::once(peer.to_string());
    first.chain(values.map(|value| value.to_string())).collect()
}

fn show(host: &Host, peers: &[Peer], json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&Local::new(host, peers));
    }
    print_table(&stats_table(peers))?;
    print("")?;
    print_table(&links_table(peers))?;
    print("")?;
    let names = host.counters.iter().map(|(name, _)| name.as_str());
    let mut table = Table::new(std::iter::once("host").chain(names));
    table.row(row(host.id, host.counters.iter().map(|(_, value)| value)));
    print_table(&table)
}

fn stats_table(peers: &[Peer]) -> Table {
    let mut table = Table::new(["peer"].iter().chain(&STATS));
    for peer in peers {
        table.row(row(peer.id, peer.stats.0.iter()));
    }
    table
}

/// The counters of all links; transports may have different ones.
fn links_table(peers: &[Peer]) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in peers.iter().flat_map(|peer| &peer.counters) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut table = Table::new(std::iter::once("link").chain(names.iter().copied()));
    for peer in peers.iter().filter(|peer| !peer.counters.is_empty()) {
        let value = |wanted: &&str| {
            let found = peer.counters.iter().find(|(name, _)| name == wanted);
            found.map_or("-".into(), |(_, value)| value.to_string())
        };
        table.row(row(peer.id, names.iter().map(value)));
    }
    table
}

/// Show the statistics, and from then on what has happened per second.
fn watch(
    kernel: &mut Connection,
    interval: Duration,
    count: u64,
    json: bool,
) -> Result<(), Failure> {
    let (mut before, mut taken) = (super::peers(kernel)?, Instant::now());
    match json {
        true => print_json(&Local::new(&super::host(kernel)?, &before))?,
        false => print_table(&stats_table(&before))?,
    }
    for _ in 1..if count == 0 { u64::MAX } else { count } {
        sleep(interval);
        let (peers, now) = (super::peers(kernel)?, Instant::now());
        if json {
            print_json(&Local::new(&super::host(kernel)?, &peers))?;
        } else {
            print("")?;
            print_table(&rates_table(&before, &peers, now - taken))?;
        }
        (before, taken) = (peers, now);
    }
    Ok(())
}

/// What has happened per second.
fn rates_table(before: &[Peer], after: &[Peer], time: Duration) -> Table {
    let columns = STATS.iter().map(|name| format!("{name}/s"));
    let mut table = Table::new(std::iter::once("peer".into()).chain(columns));
    for peer in after {
        // Who was not there began at zero, and so did who has come back since.
        let old = before.iter().find(|old| old.id == peer.id);
        let rates = peer.stats.0.iter().enumerate().map(|(n, &new)| {
            let old = old.map_or(0, |old| old.stats.0[n]);
            let events = new.checked_sub(old).unwrap_or(new);
            format!("{:.0}", events as f64 / time.as_secs_f64())
        });
        table.row(row(peer.id, rates));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counters_are_told_by_name() {
        let host = Host {
            id: PeerId::RP,
            counters: vec![("forwarded".into(), 9)],
        };
        let peer = Peer {
            id: PeerId(0x100),
            index: 1,
            transport: "ntb".into(),
            connected: true,
            hop: None,
            queues: 2,
            max_frame: 4096,
            stats: Stats([1, 2, 3, 4, 5, 6]),
            counters: vec![("doorbells".into(), 7)],
            link: None,
        };
        let peer_json = json!({
            "peer": "00000100", "link": { "doorbells": 7 },
            "tx_frames": 1, "tx_bytes": 2, "tx_errors": 3,
            "rx_frames": 4, "rx_bytes": 5, "rx_errors": 6,
        });
        let expected = json!({
            "host": "00000000", "counters": { "forwarded": 9 }, "peers": [peer_json],
        });
        assert_eq!(json!(Local::new(&host, &[peer])), expected);
    }
}
