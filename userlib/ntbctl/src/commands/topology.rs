// SPDX-License-Identifier: MIT OR Apache-2.0

//! `topology`: which peer is reached over which bridge, or by way of which other peer.

use crate::{
    failure::Failure,
    model::{Host, Peer, PeerId},
    netlink::Connection,
    output::{print, print_json},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// This host, and the peers by what they are reached over.
#[derive(Serialize)]
struct Topology<'a> {
    host: PeerId,
    role: &'a str,
    bridges: Vec<Bridge<'a>>,
    forwarded: Vec<Forwarded>,
}

/// The peers that are reached over a bridge.
#[derive(Serialize)]
struct Bridge<'a> {
    #[serde(rename = "type")]
    transport: &'a str,
    bridge: u32,
    peers: Vec<PeerId>,
}

/// The peers that are reached by way of another one.
#[derive(Serialize)]
struct Forwarded {
    hop: PeerId,
    peers: Vec<PeerId>,
}

/// Peers by what they are reached over.
#[derive(Default)]
struct Groups<'a> {
    /// By transport and bridge.
    bridges: BTreeMap<(&'a str, u32), Vec<&'a Peer>>,
    /// By the peer that forwards.
    hops: BTreeMap<PeerId, Vec<&'a Peer>>,
}

impl<'a> Groups<'a> {
    fn new(peers: &'a [Peer]) -> Self {
        let mut groups = Groups::default();
        for peer in peers {
            match (peer.hop, &peer.link) {
                (Some(hop), _) => groups.hops.entry(hop).or_default().push(peer),
                (None, link) => {
                    let bridge = link.as_ref().map_or(0, |link| link.bridge);
                    let key = (peer.transport.as_str(), bridge);
                    groups.bridges.entry(key).or_default().push(peer);
                }
            }
        }
        groups
    }

    fn lines(&self, host: &Host) -> Vec<String> {
        let mut lines = vec![format!("{}  this host, {}", host.id, host.role())];
        for ((transport, bridge), peers) in &self.bridges {
            lines.push(format!("  {transport} bridge {bridge}"));
            for peer in peers {
                lines.push(format!("    {}  {}", peer.id, peer.state()));
                let beyond = self.hops.get(&peer.id).into_iter().flatten();
                lines.extend(beyond.map(|far| format!("      {}  {}", far.id, far.state())));
            }
        }
        lines
    }

    fn topology(&self, host: &Host) -> Topology<'_> {
        let ids = |peers: &[&Peer]| peers.iter().map(|peer| peer.id).collect();
        let bridges = self.bridges.iter();
        let bridges = bridges.map(|(&(transport, bridge), peers)| Bridge {
            transport,
            bridge,
            peers: ids(peers),
        });
        let forwarded = self.hops.iter().map(|(&hop, peers)| Forwarded {
            hop,
            peers: ids(peers),
        });
        Topology {
            host: host.id,
            role: host.role(),
            bridges: bridges.collect(),
            forwarded: forwarded.collect(),
        }
    }
}

/// Show it as this host sees it.
pub fn run(kernel: &mut Connection, json: bool) -> Result<(), Failure> {
    let (host, peers) = (super::host(kernel)?, super::peers(kernel)?);
    let groups = Groups::new(&peers);
    match json {
        true => print_json(&groups.topology(&host)),
        false => print(&groups.lines(&host).join("\n")),
    }
}
