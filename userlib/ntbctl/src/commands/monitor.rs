// SPDX-License-Identifier: MIT OR Apache-2.0

//! `monitor`: peers that arrive and leave.
//!
//! It lists the peers that are there first, after it has begun to listen, so that nothing happens
//! unseen between the two. Who arrives just then may be told of twice.

use crate::{
    failure::Failure,
    model::Peer,
    netlink::Connection,
    output::{print, print_json},
    uapi,
};
use serde::Serialize;

/// What has happened to a peer.
#[derive(Serialize)]
struct Event<'a> {
    event: &'a str,
    #[serde(flatten)]
    peer: &'a Peer,
}

/// Tell of events until it is interrupted.
pub fn run(kernel: &mut Connection, json: bool) -> Result<(), Failure> {
    kernel.listen()?;
    tell_all(kernel, json)?;
    loop {
        let Some(event) = kernel.next_event()? else {
            eprintln!("ntbctl: events were lost; these peers are there now");
            tell_all(kernel, json)?;
            continue;
        };
        let what = match u32::from(event.command) {
            uapi::MP_CMD_PEER_ADD_NTF => "arrived",
            uapi::MP_CMD_PEER_DEL_NTF => "left",
            // A later kernel may tell of more.
            _ => continue,
        };
        tell(what, &Peer::read(&event.attributes)?, json)?;
    }
}

/// Tell of the peers that are there.
fn tell_all(kernel: &mut Connection, json: bool) -> Result<(), Failure> {
    let peers = super::peers(kernel)?;
    peers
        .iter()
        .try_for_each(|peer| tell("present", peer, json))
}

fn tell(event: &str, peer: &Peer, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&Event { event, peer });
    }
    print(&format!(
        "{} {event}, index {}, {}, {}",
        peer.id,
        peer.index,
        peer.transport,
        peer.route()
    ))
}
