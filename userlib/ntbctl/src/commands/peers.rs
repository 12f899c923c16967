// SPDX-License-Identifier: MIT OR Apache-2.0

//! `peers` and `links`: the hosts that can be reached, and what reaches them.

use crate::{
    failure::Failure,
    model::{Link, Peer, Ring},
    netlink::Connection,
    output::{print, print_json, Table},
};
use serde_json::{json, Value};

/// Lists the peers.
pub fn show_peers(kernel: &mut Connection, json: bool) -> Result<(), Failure> {
    let peers = super::peers(kernel)?;
    if json {
        return print_json(&peers.iter().map(|peer| Value::from(peer.json())).collect());
    }
    let columns = [
        "id",
        "index",
        "type",
        "state",
        "route",
        "queues",
        "max_frame",
    ];
    let mut table = Table::new(columns);
    for peer in &peers {
        table.row([
            peer.id.to_string(),
            peer.index.to_string(),
            peer.transport.clone(),
            peer.state().into(),
            peer.route(),
            peer.queues.to_string(),
            peer.max_frame.to_string(),
        ]);
    }
    table.print()
}

/// Shows the links of the peers that have one of their own.
pub fn show_links(kernel: &mut Connection, json: bool) -> Result<(), Failure> {
    let peers = super::peers(kernel)?;
    let links = peers
        .iter()
        .filter_map(|peer| Some((peer, peer.link.as_ref()?)));
    if json {
        return print_json(&links.map(|(peer, link)| link_json(peer, link)).collect());
    }
    let mut table = Table::new([
        "peer",
        "bridge",
        "epoch",
        "peer_epoch",
        "version",
        "inbound",
        "outbound",
    ]);
    let mut rings = Table::new(["peer", "ring", "tx_size", "tx_used", "rx_size", "rx_used"]);
    for (peer, link) in links {
        table.row([
            peer.id.to_string(),
            link.bridge.to_string(),
            epoch(link.epoch),
            epoch(link.peer_epoch),
            link.version
                .map_or("-".into(), |version| version.to_string()),
            link.inbound.to_string(),
            link.outbound.to_string(),
        ]);
        for ring in &link.rings {
            rings.row([
                peer.id.to_string(),
                ring.number.to_string(),
                ring.tx_size.to_string(),
                ring.tx_used.to_string(),
                ring.rx_size.to_string(),
                ring.rx_used.to_string(),
            ]);
        }
    }
    table.print()?;
    print("")?;
    rings.print()
}

/// An epoch number; the letter keeps it from being read as a decimal number.
fn epoch(number: u64) -> String {
    format!("x{number:016x}")
}

fn link_json(peer: &Peer, link: &Link) -> Value {
    json!({
        "peer": peer.id.to_string(),
        "bridge": link.bridge,
        "epoch": epoch(link.epoch),
        "peer_epoch": epoch(link.peer_epoch),
        "version": link.version,
        "inbound": link.inbound,
        "outbound": link.outbound,
        "rings": link.rings.iter().map(ring_json).collect::<Value>(),
    })
}

fn ring_json(ring: &Ring) -> Value {
    json!({
        "ring": ring.number,
        "tx_size": ring.tx_size,
        "tx_used": ring.tx_used,
        "rx_size": ring.rx_size,
        "rx_used": ring.rx_used,
    })
}
