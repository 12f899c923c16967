// SPDX-License-Identifier: MIT OR Apache-2.0

//! `peers` and `links`: the hosts that can be reached, and what reaches them.

use super::interfaces;
use crate::{
    failure::Failure,
    model::{Link, PeerId},
    netlink::Connection,
    output::{print, print_json, print_table},
};
use mp_table::Table;
use serde::Serialize;

/// A link, and which peer it leads to.
#[derive(Serialize)]
struct LinkTo<'a> {
    peer: PeerId,
    #[serde(flatten)]
    link: &'a Link,
}

/// List the peers.
pub fn show_peers(kernel: &mut Connection, json: bool) -> Result<(), Failure> {
    let peers = super::peers(kernel)?;
    if json {
        return print_json(&peers);
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
    print_table(&table)
}

/// Show the links of the peers that have one of their own, and in the table what others wait for.
pub fn show_links(kernel: &mut Connection, json: bool) -> Result<(), Failure> {
    let peers = super::peers(kernel)?;
    let links = peers.iter().filter_map(|peer| {
        let link = peer.link.as_ref()?;
        Some(LinkTo {
            peer: peer.id,
            link,
        })
    });
    if json {
        return print_json(&links.collect::<Vec<_>>());
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
    for LinkTo { peer, link } in links {
        table.row([
            peer.to_string(),
            link.bridge.to_string(),
            link.epoch.to_string(),
            link.peer_epoch.to_string(),
            link.version
                .map_or("-".into(), |version| version.to_string()),
            link.inbound.to_string(),
            link.outbound.to_string(),
        ]);
        for ring in &link.rings {
            rings.row([
                peer.to_string(),
                ring.number.to_string(),
                ring.tx_size.to_string(),
                ring.tx_used.to_string(),
                ring.rx_size.to_string(),
                ring.rx_used.to_string(),
            ]);
        }
    }
    print_table(&table)?;
    print("")?;
    print_table(&rings)?;
    if let Some(waiting) = interfaces::waiting(&super::interfaces(kernel)?) {
        print("")?;
        print_table(&waiting)?;
    }
    Ok(())
}
