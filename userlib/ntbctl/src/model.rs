// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hosts, peers and links as the kernel tells of them.

use crate::{failure::Failure, netlink::Attributes, uapi};
use serde::{Serialize, Serializer};
use std::{fmt, str::FromStr};

/// The id of a host in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The root processor.
    pub const RP: PeerId = PeerId(0);

    /// A host that the fabric has given no id yet.
    pub const NONE: PeerId = PeerId(uapi::MP_PEER_ID_NONE);
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl Serialize for PeerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for PeerId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "rp" {
            return Ok(PeerId::RP);
        }
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u32::from_str_radix(digits, 16)
            .map(PeerId)
            .map_err(|_| "not the id of a peer: hexadecimal, or rp".into())
    }
}

/// Named numbers.
pub type Counters = Vec<(String, u64)>;

fn read_counters(attributes: &Attributes) -> Result<Counters, Failure> {
    attributes
        .nests(uapi::MP_A_COUNTER)
        .map(|counter| {
            let name = counter.text(uapi::MP_COUNTER_A_NAME).unwrap_or_default();
            Ok((name.into(), counter.required(uapi::MP_COUNTER_A_VALUE)?))
        })
        .collect()
}

/// Serialise named numbers as a map.
///
/// # Errors
/// The serialiser's.
pub fn as_map<S: Serializer>(counters: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counters.iter().map(|(name, value)| (name, value)))
}

/// This host.
#[derive(Debug)]
pub struct Host {
    /// Its id.
    pub id: PeerId,
    /// Frames that it has dropped or forwarded.
    pub counters: Counters,
}

impl Host {
    /// Read an answer.
    ///
    /// # Errors
    /// [`Failure::Malformed`]; so below.
    pub fn read(attributes: &Attributes) -> Result<Self, Failure> {
        Ok(Host {
            id: PeerId(attributes.required(uapi::MP_A_PEER_ID)?),
            counters: read_counters(attributes)?,
        })
    }

    /// What it is in the fabric.
    pub fn role(&self) -> &'static str {
        match self.id {
            PeerId::RP => "root processor",
            PeerId::NONE => "not in a fabric",
            _ => "endpoint",
        }
    }
}

/// Names of the statistics, in their order.
pub const STATS: [&str; 6] = [
    "tx_frames",
    "tx_bytes",
    "tx_errors",
    "rx_frames",
    "rx_bytes",
    "rx_errors",
];

/// The statistics of a peer, named by [`STATS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats(pub [u64; STATS.len()]);

impl Stats {
    /// Read an answer that has statistics.
    pub fn read(attributes: &Attributes) -> Result<Self, Failure> {
        let nest = attributes.nests(uapi::MP_A_STATS).next();
        let nest = nest.ok_or_else(|| Failure::Malformed("no statistics".into()))?;
        Ok(Stats([
            nest.required(uapi::MP_STATS_A_TX_FRAMES)?,
            nest.required(uapi::MP_STATS_A_TX_BYTES)?,
            nest.required(uapi::MP_STATS_A_TX_ERRORS)?,
            nest.required(uapi::MP_STATS_A_RX_FRAMES)?,
            nest.required(uapi::MP_STATS_A_RX_BYTES)?,
            nest.required(uapi::MP_STATS_A_RX_ERRORS)?,
        ]))
    }
}

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(STATS.iter().zip(&self.0))
    }
}

/// A ring in both directions; sizes and fill levels in bytes.
#[derive(Debug, Serialize)]
pub struct Ring {
    /// Its number; 0 is the control ring.
    #[serde(rename = "ring")]
    pub number: u32,
    /// Size of the one that this host fills.
    pub tx_size: u64,
    /// What of it is not known to be consumed.
    pub tx_used: u64,
    /// Size of the one that the peer fills.
    pub rx_size: u64,
    /// What of it is not given back.
    pub rx_used: u64,
}

impl Ring {
    fn read(nest: &Attributes) -> Result<Self, Failure> {
        Ok(Ring {
            number: nest.required(uapi::MP_RING_A_NUMBER)?,
            tx_size: nest.required(uapi::MP_RING_A_TX_SIZE)?,
            tx_used: nest.required(uapi::MP_RING_A_TX_USED)?,
            rx_size: nest.required(uapi::MP_RING_A_RX_SIZE)?,
            rx_used: nest.required(uapi::MP_RING_A_RX_USED)?,
        })
    }
}

/// An epoch number; the letter keeps it from being read as a decimal number.
#[derive(Clone, Copy, Debug)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{:016x}", self.0)
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The link to a peer.
#[derive(Debug, Serialize)]
pub struct Link {
    /// Number of the bridge.
    pub bridge: u32,
    /// Epoch number of this host.
    pub epoch: Epoch,
    /// Epoch number of the peer.
    pub peer_epoch: Epoch,
    /// Version of the wire format; modules of the first release do not tell it.
    pub version: Option<u64>,
    /// Bytes of memory that the peer writes into.
    pub inbound: u64,
    /// Bytes of the peer's memory that are mapped.
    pub outbound: u64,
    /// Its rings, by number.
    pub rings: Vec<Ring>,
}

impl Link {
    fn read(nest: &Attributes) -> Result<Self, Failure> {
        let rings = nest.nests(uapi::MP_LINK_A_RING);
        Ok(Link {
            bridge: nest.required(uapi::MP_LINK_A_BRIDGE)?,
            epoch: Epoch(nest.required(uapi::MP_LINK_A_EPOCH)?),
            peer_epoch: Epoch(nest.required(uapi::MP_LINK_A_PEER_EPOCH)?),
            version: nest.number(uapi::MP_LINK_A_VERSION),
            inbound: nest.required(uapi::MP_LINK_A_INBOUND)?,
            outbound: nest.required(uapi::MP_LINK_A_OUTBOUND)?,
            rings: rings
                .map(|ring| Ring::read(&ring))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// The id of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(pub u32);

impl fmt::Display for InterfaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl Serialize for InterfaceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a link waits for: a number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitsFor(pub u32);

/// Number, name and meaning of what a link may wait for.
const WAITS: [(u32, &str, &str); 14] = [
    (uapi::MP_WAITS_REPAIR, "repair", "the bridge has failed"),
    (
        uapi::MP_WAITS_NTB_LINK,
        "ntb_link",
        "the bridge has no link: cable, power and driver of the peer",
    ),
    (
        uapi::MP_WAITS_MEMORY,
        "memory",
        "this host has no memory for the peer to write into",
    ),
    (
        uapi::MP_WAITS_MAILBOX,
        "mailbox",
        "the peer's mailbox is empty: its pximc_ntb is not loaded",
    ),
    (
        uapi::MP_WAITS_VERSION,
        "version",
        "the peer speaks other versions",
    ),
    (
        uapi::MP_WAITS_ANSWER,
        "answer",
        "the peer's mailbox does not answer: what this host writes does not arrive",
    ),
    (
        uapi::MP_WAITS_WINDOW,
        "window",
        "the peer's memory cannot be mapped",
    ),
    (
        uapi::MP_WAITS_HELLO,
        "hello",
        "nothing of the peer arrives in memory: its window leads elsewhere",
    ),
    (
        uapi::MP_WAITS_ECHO,
        "echo",
        "nothing arrives in the peer's memory: this host's window leads elsewhere",
    ),
    (
        uapi::MP_WAITS_PAUSE,
        "pause",
        "the peer writes what cannot be",
    ),
    (
        uapi::MP_WAITS_IDENTITY,
        "identity",
        "no host is the root processor",
    ),
    (
        uapi::MP_WAITS_OTHER_ROOT,
        "other_root",
        "the peer belongs to another root processor",
    ),
    (
        uapi::MP_WAITS_ENTRY,
        "entry",
        "the peer's id belongs to another host, or memory is short",
    ),
    (
        uapi::MP_WAITS_DOORBELL,
        "doorbell",
        "frames pass, but no doorbell has ever come",
    ),
];

impl WaitsFor {
    /// Its name, as the kernel has it in sysfs; that of a later kernel is its number.
    pub fn name(self) -> String {
        let known = WAITS.iter().find(|(number, ..)| *number == self.0);
        known.map_or_else(|| self.0.to_string(), |(_, name, _)| (*name).into())
    }

    /// What that means.
    pub fn meaning(self) -> &'static str {
        let known = WAITS.iter().find(|(number, ..)| *number == self.0);
        known.map_or("unknown to this program", |(.., meaning)| meaning)
    }
}

impl Serialize for WaitsFor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

/// The local end of a link.
#[derive(Debug, Serialize)]
pub struct Interface {
    /// Its id.
    pub id: InterfaceId,
    /// For people.
    pub name: String,
    /// Where it leads: `bridge`, `loopback` or `routed`.
    pub kind: String,
    /// Number of the bridge, if it leads over one.
    pub bridge: Option<u64>,
    /// Which of the bridge's peers is at the far end.
    pub port: u32,
    /// The peer at the far end, while there is one.
    pub peer: Option<PeerId>,
    /// Epochs that ended because the peer wrote what cannot be.
    pub resets: u64,
    /// What its link waits for, if it does.
    pub waits_for: Option<WaitsFor>,
    /// For how many milliseconds.
    pub waits_ms: Option<u64>,
}

impl Interface {
    /// Read an entry of a list.
    ///
    /// # Errors
    /// [`Failure::Malformed`].
    pub fn read(attributes: &Attributes) -> Result<Self, Failure> {
        let nest = attributes.nests(uapi::MP_A_INTERFACE).next();
        let nest = nest.ok_or_else(|| Failure::Malformed("no interface".into()))?;
        let word = |kind| nest.number(kind).and_then(|n| u32::try_from(n).ok());
        Ok(Interface {
            id: InterfaceId(nest.required(uapi::MP_INTERFACE_A_ID)?),
            name: nest.text(uapi::MP_INTERFACE_A_NAME).unwrap_or("?").into(),
            kind: nest.text(uapi::MP_INTERFACE_A_KIND).unwrap_or("?").into(),
            bridge: nest.number(uapi::MP_INTERFACE_A_BRIDGE),
            port: nest.required(uapi::MP_INTERFACE_A_PORT)?,
            peer: word(uapi::MP_INTERFACE_A_PEER_ID).map(PeerId),
            resets: nest.required(uapi::MP_INTERFACE_A_RESETS)?,
            waits_for: word(uapi::MP_INTERFACE_A_WAITS_FOR).map(WaitsFor),
            waits_ms: nest.number(uapi::MP_INTERFACE_A_WAITS_MS),
        })
    }
}

/// Another host. Its statistics, counters and link are serialised apart from it.
#[derive(Debug, Serialize)]
pub struct Peer {
    /// Its id.
    pub id: PeerId,
    /// Its number on this host.
    pub index: u32,
    /// Name of the transport that reaches it.
    #[serde(rename = "type")]
    pub transport: String,
    /// Whether frames can be sent to it.
    #[serde(rename = "state", serialize_with = "as_state")]
    pub connected: bool,
    /// The peer that forwards to it, if it has no link of its own.
    #[serde(rename = "route", serialize_with = "as_route")]
    pub hop: Option<PeerId>,
    /// Number of transmit queues.
    pub queues: u32,
    /// Most bytes of data in a frame.
    pub max_frame: u64,
    /// Its statistics.
    #[serde(skip)]
    pub stats: Stats,
    /// Counters of its link.
    #[serde(skip)]
    pub counters: Counters,
    /// Its link, if it has one of its own.
    #[serde(skip)]
    pub link: Option<Link>,
}

impl Peer {
    /// Read an answer, an entry of a list or an event.
    pub fn read(attributes: &Attributes) -> Result<Self, Failure> {
        let hop = attributes.number(uapi::MP_A_NEXT_HOP_ID);
        let link = attributes.nests(uapi::MP_A_LINK).next();
        Ok(Peer {
            id: PeerId(attributes.required(uapi::MP_A_PEER_ID)?),
            index: attributes.required(uapi::MP_A_PEER_INDEX)?,
            transport: attributes.text(uapi::MP_A_TRANSPORT).unwrap_or("?").into(),
            connected: attributes.required::<u32>(uapi::MP_A_STATE)? == uapi::MP_STATE_CONNECTED,
            hop: hop.and_then(|id| id.try_into().ok()).map(PeerId),
            queues: attributes.required(uapi::MP_A_TX_QUEUES)?,
            max_frame: attributes.required(uapi::MP_A_MAX_FRAME)?,
            stats: Stats::read(attributes)?,
            counters: read_counters(attributes)?,
            link: link.map(|link| Link::read(&link)).transpose()?,
        })
    }

    /// Its state in one word.
    pub fn state(&self) -> &'static str {
        state(self.connected)
    }

    /// How it is reached.
    pub fn route(&self) -> String {
        route(self.hop)
    }
}

fn state(connected: bool) -> &'static str {
    match connected {
        true => "connected",
        false => "leaving",
    }
}

fn route(hop: Option<PeerId>) -> String {
    match hop {
        Some(hop) => format!("via {hop}"),
        None => "direct".into(),
    }
}

fn as_state<S: Serializer>(connected: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state(*connected))
}

fn as_route<S: Serializer>(hop: &Option<PeerId>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&route(*hop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ids_are_hexadecimal() {
        assert_eq!("0x1f".parse(), Ok(PeerId(0x1f)));
        assert_eq!("rp".parse(), Ok(PeerId::RP));
        assert!("".parse::<PeerId>().is_err());
        assert!("123456789".parse::<PeerId>().is_err());
        assert_eq!(PeerId(0x100).to_string(), "00000100");
    }

    #[test]
    fn an_answer_without_what_it_has_to_have_is_refused() {
        let answer = Attributes::of_numbers(&[(uapi::MP_A_PEER_ID, 0x100)]);
        assert!(matches!(Peer::read(&answer), Err(Failure::Malformed(_))));
        let host = Host::read(&answer).expect("an id is enough");
        assert_eq!((host.id, host.role()), (PeerId(0x100), "endpoint"));
    }

    #[test]
    fn a_peer_is_told_without_what_is_shown_apart() {
        let peer = Peer {
            id: PeerId(0x100),
            index: 1,
            transport: "ntb".into(),
            connected: true,
            hop: Some(PeerId::RP),
            queues: 2,
            max_frame: 4096,
            stats: Stats([1, 2, 3, 4, 5, 6]),
            counters: vec![("dropped".into(), 7)],
            link: None,
        };
        let expected = json!({
            "id": "00000100", "index": 1, "type": "ntb", "state": "connected",
            "route": "via 00000000", "queues": 2, "max_frame": 4096,
        });
        assert_eq!(json!(peer), expected);
        let expected = json!({
            "tx_frames": 1, "tx_bytes": 2, "tx_errors": 3,
            "rx_frames": 4, "rx_bytes": 5, "rx_errors": 6,
        });
        assert_eq!(json!(peer.stats), expected);
    }

    #[test]
    fn what_a_link_waits_for_has_a_name_and_a_meaning() {
        for number in 1..=uapi::MP_WAITS_DOORBELL {
            let waits = WaitsFor(number);
            assert!(waits.name().parse::<u32>().is_err(), "{number} has a name");
            assert_ne!(waits.meaning(), WaitsFor(99).meaning());
        }
        assert_eq!(WaitsFor(99).name(), "99");
        let bare = Attributes::of_numbers(&[(uapi::MP_A_PEER_ID, 0x100)]);
        assert!(matches!(Interface::read(&bare), Err(Failure::Malformed(_))));
    }

    #[test]
    fn a_link_is_told_with_its_rings() {
        let link = Link {
            bridge: 1,
            epoch: Epoch(0x1e5),
            peer_epoch: Epoch(2),
            version: None,
            inbound: 3,
            outbound: 4,
            rings: vec![Ring {
                number: 0,
                tx_size: 5,
                tx_used: 6,
                rx_size: 7,
                rx_used: 8,
            }],
        };
        let ring = json!({ "ring": 0, "tx_size": 5, "tx_used": 6, "rx_size": 7, "rx_used": 8 });
        let expected = json!({
            "bridge": 1, "epoch": "x00000000000001e5", "peer_epoch": "x0000000000000002",
            "version": null, "inbound": 3, "outbound": 4, "rings": [ring],
        });
        assert_eq!(json!(link), expected);
    }
}
