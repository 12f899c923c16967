// SPDX-License-Identifier: GPL-2.0-only

//! Hosts, peers and links as attributes.

use super::uapi;
use crate::{
    details::{
        LinkDetails,
        RingDetails, //
    },
    interface::Interface,
    peer::Peer,
    service,
    stats::Snapshot, //
};
use kernel::prelude::*;
use mp_kernel::genl::Message;

/// Write this host.
pub(super) fn host(message: &mut Message<'_>) -> Result {
    message.number(uapi::MP_A_PEER_ID, service::self_id().0.into())?;
    for (name, value) in service::COUNTERS.iter().zip(service::counters()) {
        counter(message, name, value)?;
    }
    Ok(())
}

/// Write a peer with all that is known of it.
pub(super) fn peer(message: &mut Message<'_>, peer: &Peer) -> Result {
    let state = match peer.is_connected() {
        true => uapi::MP_STATE_CONNECTED,
        false => uapi::MP_STATE_LEAVING,
    };
    let transport = peer.transport();
    message.number(uapi::MP_A_PEER_ID, peer.id().0.into())?;
    message.number(uapi::MP_A_PEER_INDEX, peer.index().into())?;
    message.text(uapi::MP_A_TRANSPORT, transport.name())?;
    message.number(uapi::MP_A_TRANSPORT_ID, transport.id().into())?;
    message.number(uapi::MP_A_STATE, state.into())?;
    if let Some(hop) = peer.hop() {
        message.number(uapi::MP_A_NEXT_HOP_ID, hop.id().0.into())?;
    }
    message.number(uapi::MP_A_TX_QUEUES, peer.tx_queues().into())?;
    message.number(uapi::MP_A_MAX_FRAME, peer.max_frame() as u64)?;
    stats(message, &peer.stats().snapshot())?;
    peer.for_each_counter(|name, value| counter(message, name, value))?;
    match peer.details() {
        Some(details) => link(message, peer, &details),
        None => Ok(()),
    }
}

/// Write the local end of a link.
pub(super) fn interface(message: &mut Message<'_>, interface: &Interface) -> Result {
    let info = interface.info();
    message.nest(uapi::MP_A_INTERFACE, |message| {
        message.number(uapi::MP_INTERFACE_A_ID, interface.id().into())?;
        message.text(uapi::MP_INTERFACE_A_NAME, &info.name)?;
        message.text(uapi::MP_INTERFACE_A_KIND, info.kind.name())?;
        if let Some(bridge) = info.bridge {
            message.number(uapi::MP_INTERFACE_A_BRIDGE, bridge.into())?;
        }
        message.number(uapi::MP_INTERFACE_A_PORT, info.port.into())?;
        if let Some(peer) = interface.peer() {
            message.number(uapi::MP_INTERFACE_A_PEER_ID, peer.id().0.into())?;
        }
        message.number(uapi::MP_INTERFACE_A_RESETS, interface.resets())?;
        match interface.waits() {
            Some((waits, ms)) => {
                message.number(uapi::MP_INTERFACE_A_WAITS_FOR, waits.number().into())?;
                message.number(uapi::MP_INTERFACE_A_WAITS_MS, ms)
            }
            None => Ok(()),
        }
    })
}

/// Write the statistics of a peer, or those that it has of its own.
pub(super) fn stats(message: &mut Message<'_>, stats: &Snapshot) -> Result {
    message.nest(uapi::MP_A_STATS, |message| {
        message.number(uapi::MP_STATS_A_TX_FRAMES, stats.tx_frames)?;
        message.number(uapi::MP_STATS_A_TX_BYTES, stats.tx_bytes)?;
        message.number(uapi::MP_STATS_A_TX_ERRORS, stats.tx_errors)?;
        message.number(uapi::MP_STATS_A_RX_FRAMES, stats.rx_frames)?;
        message.number(uapi::MP_STATS_A_RX_BYTES, stats.rx_bytes)?;
        message.number(uapi::MP_STATS_A_RX_ERRORS, stats.rx_errors)
    })
}

fn counter(message: &mut Message<'_>, name: &CStr, value: u64) -> Result {
    message.nest(uapi::MP_A_COUNTER, |message| {
        message.text(uapi::MP_COUNTER_A_NAME, name)?;
        message.number(uapi::MP_COUNTER_A_VALUE, value)
    })
}

fn link(message: &mut Message<'_>, peer: &Peer, details: &LinkDetails) -> Result {
    message.nest(uapi::MP_A_LINK, |message| {
        // The upper half is the transport's id.
        message.number(uapi::MP_LINK_A_BRIDGE, u64::from(peer.bridge() as u32))?;
        message.number(uapi::MP_LINK_A_EPOCH, details.epoch)?;
        message.number(uapi::MP_LINK_A_PEER_EPOCH, details.peer_epoch)?;
        message.number(uapi::MP_LINK_A_INBOUND, details.inbound)?;
        message.number(uapi::MP_LINK_A_OUTBOUND, details.outbound)?;
        for (number, details) in details.rings.iter().enumerate() {
            if let Some(details) = details {
                ring(message, number, details)?;
            }
        }
        message.number(uapi::MP_LINK_A_VERSION, details.version.into())
    })
}

fn ring(message: &mut Message<'_>, number: usize, ring: &RingDetails) -> Result {
    message.nest(uapi::MP_LINK_A_RING, |message| {
        message.number(uapi::MP_RING_A_NUMBER, number as u64)?;
        message.number(uapi::MP_RING_A_TX_SIZE, ring.tx_size.into())?;
        message.number(uapi::MP_RING_A_TX_USED, ring.tx_used.into())?;
        message.number(uapi::MP_RING_A_RX_SIZE, ring.rx_size.into())?;
        message.number(uapi::MP_RING_A_RX_USED, ring.rx_used.into())
    })
}
