// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the message frame services of two hosts tell each other: function headers of frames to
//! function [`FUNC_ID`], without data (IDT-PEER-3, IDT-PEER-13).

use crate::wire::{get_u32, get_u64, put_u32, put_u64, PeerData, PeerId, WayTag};

/// Function id of the message frame service itself.
pub const FUNC_ID: u32 = 0;

/// Counters of a peer, `mp_stats` (IDT-PEER-1). Bytes are data bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerStats {
    /// Frames sent.
    pub tx_frames: u64,
    /// Data bytes sent.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames received.
    pub rx_frames: u64,
    /// Data bytes received.
    pub rx_bytes: u64,
    /// Frames received and dropped.
    pub rx_errors: u64,
}

impl PeerStats {
    fn words(&self) -> [u64; 6] {
        [
            self.tx_frames,
            self.tx_bytes,
            self.tx_errors,
            self.rx_frames,
            self.rx_bytes,
            self.rx_errors,
        ]
    }
}

/// A host as the RP announces it to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// Its id.
    pub id: PeerId,
    /// The mark of frames between the two that the RP forwards; `None` when they share a bridge,
    /// and the RP does not forward between them.
    pub way: Option<WayTag>,
    /// Its peer-specific data, the index among them.
    pub data: PeerData,
    /// The RP makes ways anew that it is asked to, with [`Message::Renew`].
    pub renews: bool,
}

/// One direction of a flow that a host forwards: frames of one lane to host `dst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Where the frames go.
    pub dst: PeerId,
    /// The mark of their way.
    pub way: WayTag,
    /// 0 for priority frames, else the data queue and 1.
    pub number: u32,
}

/// A message between message frame services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// From the RP: another host is there.
    Here(Announced),
    /// From the RP: another host, announced with this mark, has left.
    Gone(PeerId, Option<WayTag>),
    /// To the RP: frames of that host are taken from now on.
    Ready(PeerId, WayTag),
    /// From the RP: that host takes frames.
    Go(PeerId, WayTag),
    /// From the host that forwards: how many units it has passed on.
    Passed(Lane, u32),
    /// To the host that forwards: report once so many units have been passed on.
    Want(Lane, u32),
    /// To the RP: the two ends do not agree any more; end the way to that host, with that mark, for
    /// both, and begin another one.
    Renew(PeerId, WayTag),
    /// From the host that forwards: frames of the lane were dropped, for that function; see
    /// [`Losses`](crate::flow::Losses).
    Lost(Lane, u32),
    /// The sender's statistics of the reader are asked for, under this number.
    AskStats(u32),
    /// The answer.
    Stats(u32, PeerStats),
}

/// Size of a message on the wire, in bytes.
pub const SIZE: usize = 60;

const HERE: u32 = 1;
const GONE: u32 = 2;
const READY: u32 = 3;
const GO: u32 = 4;
const PASSED: u32 = 5;
const WANT: u32 = 6;
const ASK_STATS: u32 = 7;
const STATS: u32 = 8;
const RENEW: u32 = 9;
const LOST: u32 = 10;

/// Where what is said of an announced host follows its data, and the bit of [`Announced::renews`].
const FLAGS_AT: usize = 12 + PeerData::SIZE;
const RENEWS: u32 = 1;

impl Message {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        let (kind, id, way) = match self {
            Message::Here(host) => (HERE, host.id.0, host.way),
            Message::Gone(id, way) => (GONE, id.0, *way),
            Message::Ready(id, way) => (READY, id.0, Some(*way)),
            Message::Go(id, way) => (GO, id.0, Some(*way)),
            Message::Passed(lane, _) => (PASSED, lane.dst.0, Some(lane.way)),
            Message::Want(lane, _) => (WANT, lane.dst.0, Some(lane.way)),
            Message::Renew(id, way) => (RENEW, id.0, Some(*way)),
            Message::Lost(lane, _) => (LOST, lane.dst.0, Some(lane.way)),
            Message::AskStats(number) => (ASK_STATS, *number, None),
            Message::Stats(number, _) => (STATS, *number, None),
        };
        put_u32(&mut b, 0, kind);
        put_u32(&mut b, 4, id);
        put_u32(&mut b, 8, way.map_or(0, WayTag::value));
        match self {
            Message::Here(host) => {
                if let Some(rest) = b.get_mut(12..FLAGS_AT) {
                    rest.copy_from_slice(&host.data.encode());
                }
                put_u32(&mut b, FLAGS_AT, u32::from(host.renews) * RENEWS);
            }
            Message::Passed(lane, word) | Message::Want(lane, word) | Message::Lost(lane, word) => {
                put_u32(&mut b, 12, lane.number);
                put_u32(&mut b, 16, *word);
            }
            Message::Stats(_, stats) => {
                for (n, word) in stats.words().into_iter().enumerate() {
                    put_u64(&mut b, 12 + 8 * n, word);
                }
            }
            _ => {}
        }
        b
    }

    /// The message in `b`; `None` if it is none. Ids are unchecked.
    pub fn decode(b: &[u8]) -> Option<Message> {
        let b: &[u8; SIZE] = b.try_into().ok()?;
        let id = PeerId(get_u32(b, 4));
        let way = WayTag::from_value(get_u32(b, 8));
        let lane = || {
            Some(Lane {
                dst: id,
                way: way?,
                number: get_u32(b, 12),
            })
        };
        Some(match get_u32(b, 0) {
            HERE => Message::Here(Announced {
                id,
                way,
                data: PeerData::decode(b.get(12..)?.first_chunk()?),
                renews: get_u32(b, FLAGS_AT) & RENEWS != 0,
            }),
            GONE => Message::Gone(id, way),
            READY => Message::Ready(id, way?),
            GO => Message::Go(id, way?),
            PASSED => Message::Passed(lane()?, get_u32(b, 16)),
            WANT => Message::Want(lane()?, get_u32(b, 16)),
            RENEW => Message::Renew(id, way?),
            LOST => Message::Lost(lane()?, get_u32(b, 16)),
            ASK_STATS => Message::AskStats(id.0),
            STATS => {
                let word = |n: usize| get_u64(b, 12 + 8 * n);
                let stats = PeerStats {
                    tx_frames: word(0),
                    tx_bytes: word(1),
                    tx_errors: word(2),
                    rx_frames: word(3),
                    rx_bytes: word(4),
                    rx_errors: word(5),
                };
                Message::Stats(id.0, stats)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn messages() -> impl Strategy<Value = Message> {
        let id = || (0u32..=0xffff).prop_map(PeerId);
        let way = || (1u32..).prop_map(|v| WayTag::from_value(v).expect("not zero"));
        let lane =
            || (id(), way(), 0u32..9).prop_map(|(dst, way, number)| Lane { dst, way, number });
        let data = (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(
            |(inb_base, reg_base, peer_index)| PeerData {
                inb_base,
                reg_base,
                peer_index,
                reserved: 0,
            },
        );
        prop_oneof![
            (id(), prop::option::of(way()), data, any::<bool>()).prop_map(
                |(id, way, data, renews)| Message::Here(Announced {
                    id,
                    way,
                    data,
                    renews
                })
            ),
            (id(), prop::option::of(way())).prop_map(|(id, way)| Message::Gone(id, way)),
            (id(), way()).prop_map(|(id, way)| Message::Ready(id, way)),
            (id(), way()).prop_map(|(id, way)| Message::Go(id, way)),
            (lane(), any::<u32>()).prop_map(|(lane, total)| Message::Passed(lane, total)),
            (lane(), any::<u32>()).prop_map(|(lane, total)| Message::Want(lane, total)),
            (id(), way()).prop_map(|(id, way)| Message::Renew(id, way)),
            (lane(), any::<u32>()).prop_map(|(lane, function)| Message::Lost(lane, function)),
            any::<u32>().prop_map(Message::AskStats),
            (any::<u32>(), any::<[u64; 6]>()).prop_map(|(number, w)| {
                let stats = PeerStats {
                    tx_frames: w[0],
                    tx_bytes: w[1],
                    tx_errors: w[2],
                    rx_frames: w[3],
                    rx_bytes: w[4],
                    rx_errors: w[5],
                };
                Message::Stats(number, stats)
            }),
        ]
    }

    proptest! {
        /// IDT-PEER-3, IDT-PEER-13
        #[test]
        fn every_message_survives_the_wire(message in messages()) {
            prop_assert_eq!(Message::decode(&message.encode()), Some(message));
        }

        #[test]
        fn bytes_that_are_no_message_are_refused_and_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(bytes.len(), SIZE);
                prop_assert_eq!(Message::decode(&message.encode()), Some(message));
            }
        }
    }

    #[test]
    fn a_way_of_zero_is_none() {
        let mut b: Vec<u8> = Message::Gone(PeerId(0x100), None).encode().into();
        assert_eq!(
            Message::decode(&b),
            Some(Message::Gone(PeerId(0x100), None))
        );
        b[0] = 4;
        assert_eq!(Message::decode(&b), None);
    }
}
