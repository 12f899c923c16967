// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the virtual Ethernet function says about a packet: its function header (IDT-ETH-1 to
//! IDT-ETH-4).
//!
//! 32 bytes, little-endian. Together with the headers in front of it (IDT-EP-2, IDT-MSG-1) that
//! makes 64: the packet itself starts on a cache line of the ring.
//!
//! | bytes | packet | announcement |
//! |---|---|---|
//! | 0 | version | version |
//! | 1 | kind 0 | kind 1 |
//! | 2 | flags | 0 |
//! | 3 | segmentation kind | 0 |
//! | 4..6 | first byte of the checksummed part | address |
//! | 6..8 | distance of the checksum field from there | address |
//! | 8..10 | payload bytes per segment | address |
//! | 10..12 | length of all headers | 0 |
//! | 12..14 | 802.1Q tag | 0 |
//! | 14..16 | 0 | 0 |
//! | 16..20 | flow hash | 0 |
//! | 20..32 | 0 | 0 |
//!
//! A decoded header is consistent in itself and with the length of the packet; what only the
//! packet's bytes can tell is left to the network stack.

use crate::fdb::{classify, Class, Mac};

/// Function id of the virtual Ethernet in the message header.
pub const FUNC_ID: u32 = 1;

/// Version of the header. Another one is refused: hosts of one fabric run the same.
pub const VERSION: u8 = 1;

/// Length of an Ethernet header without tag.
pub const ETH_HLEN: usize = 14;

/// Longest packet: the largest payload, or a segmented packet of 64 KiB, with Ethernet header and
/// one tag in the data.
pub const MAX_PACKET: usize = 65536 + ETH_HLEN + 4;

/// Largest MTU.
pub const MAX_MTU: u32 = 65535;

const KIND_PACKET: u8 = 0;
const KIND_ANNOUNCE: u8 = 1;

const FLAG_CSUM_PARTIAL: u8 = 1 << 0;
const FLAG_CSUM_VALID: u8 = 1 << 1;
const FLAG_HASH: u8 = 1 << 2;
const FLAG_VLAN: u8 = 1 << 3;
const FLAG_ECN: u8 = 1 << 4;
const FLAGS: u8 = FLAG_CSUM_PARTIAL | FLAG_CSUM_VALID | FLAG_HASH | FLAG_VLAN | FLAG_ECN;

/// What is known of a packet's transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing: the receiver checks it.
    Unchecked,
    /// The sender has checked it, or made it itself.
    Valid,
    /// Not computed yet: it covers the packet from `start` on and belongs `offset` bytes behind
    /// `start`.
    Partial {
        /// First byte that it covers, counted from the Ethernet header.
        start: u16,
        /// Distance of its field from `start`.
        offset: u16,
    },
}

/// What the segments of a large packet are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP datagrams.
    Udp,
}

impl SegmentKind {
    const ALL: [SegmentKind; 3] = [SegmentKind::TcpV4, SegmentKind::TcpV6, SegmentKind::Udp];

    const fn code(self) -> u8 {
        match self {
            SegmentKind::TcpV4 => 1,
            SegmentKind::TcpV6 => 2,
            SegmentKind::Udp => 3,
        }
    }
}

/// How a packet that crosses whole is to be cut if it travels on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// Its protocol.
    pub kind: SegmentKind,
    /// Payload bytes of each segment but the last; not zero.
    pub size: u16,
    /// TCP with a congestion mark that only the first segment keeps.
    pub ecn: bool,
}

/// Everything about a packet but its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketInfo {
    /// Its transport checksum.
    pub checksum: Checksum,
    /// How it is to be cut, if it is larger than a packet of the medium.
    pub segments: Option<Segments>,
    /// Bytes of all its headers; a hint.
    pub header_len: u16,
    /// A hash of its flow.
    pub hash: Option<u32>,
    /// The 802.1Q tag that was taken out of it.
    pub vlan: Option<u16>,
}

impl PacketInfo {
    /// A packet of which nothing is known.
    pub const PLAIN: PacketInfo = PacketInfo {
        checksum: Checksum::Unchecked,
        segments: None,
        header_len: 0,
        hash: None,
        vlan: None,
    };
}

/// A function header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// The frame carries a packet.
    Packet(PacketInfo),
    /// The frame carries nothing; the sender's own address is this.
    Announce(Mac),
}

/// Why a header, with a frame of the given length, is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Not [`Header::SIZE`] bytes.
    Length,
    /// Another version, which this is.
    Version(u8),
    /// Neither packet nor announcement.
    Kind,
    /// A flag, or a combination of flags, that does not exist.
    Flags,
    /// A reserved field is not zero.
    Reserved,
    /// Shorter than an Ethernet header or longer than [`MAX_PACKET`]; or an announcement with data.
    PacketLength,
    /// A checksum field outside the packet.
    Checksum,
    /// Segments of an unknown kind, of no size, or of a packet whose checksum is not partial.
    Segments,
    /// Not the address of a station.
    Address,
}

impl Header {
    /// Size on the wire in bytes.
    pub const SIZE: usize = 32;

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut b = [0; Self::SIZE];
        b[0] = VERSION;
        match self {
            Header::Packet(info) => {
                b[1] = KIND_PACKET;
                info.encode(&mut b);
            }
            Header::Announce(mac) => {
                b[1] = KIND_ANNOUNCE;
                b[4..10].copy_from_slice(mac);
            }
        }
        b
    }

    /// The header in `bytes`, checked, of a frame with `len` data bytes.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn decode(bytes: &[u8], len: usize) -> Result<Header, Malformed> {
        let b: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| Malformed::Length)?;
        if b[0] != VERSION {
            return Err(Malformed::Version(b[0]));
        }
        match b[1] {
            KIND_PACKET => PacketInfo::decode(b, len).map(Header::Packet),
            KIND_ANNOUNCE => decode_announcement(b, len).map(Header::Announce),
            _ => Err(Malformed::Kind),
        }
    }
}

fn decode_announcement(b: &[u8; Header::SIZE], len: usize) -> Result<Mac, Malformed> {
    let mac = [b[4], b[5], b[6], b[7], b[8], b[9]];
    if len != 0 {
        return Err(Malformed::PacketLength);
    }
    if b[2..4].iter().chain(&b[10..]).any(|b| *b != 0) {
        return Err(Malformed::Reserved);
    }
    if mac == [0; 6] || classify(&mac) != Class::Unicast {
        return Err(Malformed::Address);
    }
    Ok(mac)
}

impl PacketInfo {
    fn encode(&self, b: &mut [u8; Header::SIZE]) {
        match self.checksum {
            Checksum::Unchecked => {}
            Checksum::Valid => b[2] |= FLAG_CSUM_VALID,
            Checksum::Partial { start, offset } => {
                b[2] |= FLAG_CSUM_PARTIAL;
                b[4..6].copy_from_slice(&start.to_le_bytes());
                b[6..8].copy_from_slice(&offset.to_le_bytes());
            }
        }
        if let Some(segments) = self.segments {
            b[3] = segments.kind.code();
            b[8..10].copy_from_slice(&segments.size.to_le_bytes());
            if segments.ecn {
                b[2] |= FLAG_ECN;
            }
        }
        b[10..12].copy_from_slice(&self.header_len.to_le_bytes());
        if let Some(tag) = self.vlan {
            b[2] |= FLAG_VLAN;
            b[12..14].copy_from_slice(&tag.to_le_bytes());
        }
        if let Some(hash) = self.hash {
            b[2] |= FLAG_HASH;
            b[16..20].copy_from_slice(&hash.to_le_bytes());
        }
    }

    fn decode(b: &[u8; Header::SIZE], len: usize) -> Result<PacketInfo, Malformed> {
        let flags = b[2];
        let has = |flag| flags & flag != 0;
        let word = |at: usize| u16::from_le_bytes([b[at], b[at + 1]]);
        if !(ETH_HLEN..=MAX_PACKET).contains(&len) {
            return Err(Malformed::PacketLength);
        }
        if flags & !FLAGS != 0 {
            return Err(Malformed::Flags);
        }
        if b[14..16].iter().chain(&b[20..]).any(|b| *b != 0) {
            return Err(Malformed::Reserved);
        }
        let checksum = match (has(FLAG_CSUM_PARTIAL), has(FLAG_CSUM_VALID)) {
            (false, false) => Checksum::Unchecked,
            (false, true) => Checksum::Valid,
            (true, false) => decode_partial(word(4), word(6), len)?,
            (true, true) => return Err(Malformed::Flags),
        };
        Ok(PacketInfo {
            checksum,
            segments: decode_segments(b[3], word(8), has(FLAG_ECN), checksum)?,
            header_len: word(10),
            hash: has(FLAG_HASH).then(|| u32::from_le_bytes([b[16], b[17], b[18], b[19]])),
            vlan: has(FLAG_VLAN).then(|| word(12)),
        })
    }
}

fn decode_partial(start: u16, offset: u16, len: usize) -> Result<Checksum, Malformed> {
    let end = usize::from(start) + usize::from(offset) + 2;
    if usize::from(start) < ETH_HLEN || end > len {
        return Err(Malformed::Checksum);
    }
    Ok(Checksum::Partial { start, offset })
}

fn decode_segments(
    code: u8,
    size: u16,
    ecn: bool,
    checksum: Checksum,
) -> Result<Option<Segments>, Malformed> {
    if code == 0 {
        return if ecn { Err(Malformed::Flags) } else { Ok(None) };
    }
    let kind = SegmentKind::ALL
        .into_iter()
        .find(|kind| kind.code() == code)
        .ok_or(Malformed::Segments)?;
    // The largest number means something else to Linux.
    let size_ok = size != 0 && size != u16::MAX;
    if !size_ok || !matches!(checksum, Checksum::Partial { .. }) {
        return Err(Malformed::Segments);
    }
    if ecn && kind == SegmentKind::Udp {
        return Err(Malformed::Flags);
    }
    Ok(Some(Segments { kind, size, ecn }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fdb::BROADCAST;
    use crate::wire::{BlockHdr, MsgHdr};
    use proptest::prelude::*;

    const TCP: PacketInfo = PacketInfo {
        checksum: Checksum::Partial {
            start: 34,
            offset: 16,
        },
        segments: Some(Segments {
            kind: SegmentKind::TcpV4,
            size: 1448,
            ecn: true,
        }),
        header_len: 66,
        hash: Some(0x0403_0201),
        vlan: Some(0x6005),
    };

    fn info() -> impl Strategy<Value = PacketInfo> {
        let checksum = prop_oneof![
            Just(Checksum::Unchecked),
            Just(Checksum::Valid),
            (14u16..200, 0u16..40).prop_map(|(start, offset)| Checksum::Partial { start, offset }),
        ];
        let segments = (0..3usize, 1u16..u16::MAX, any::<bool>());
        (
            checksum,
            proptest::option::of(segments),
            any::<u16>(),
            any::<Option<u32>>(),
            any::<Option<u16>>(),
        )
            .prop_map(|(checksum, segments, header_len, hash, vlan)| {
                let partial = matches!(checksum, Checksum::Partial { .. });
                let segments = segments.filter(|_| partial).map(|(kind, size, ecn)| {
                    let kind = SegmentKind::ALL[kind];
                    let ecn = ecn && kind != SegmentKind::Udp;
                    Segments { kind, size, ecn }
                });
                PacketInfo {
                    checksum,
                    segments,
                    header_len,
                    hash,
                    vlan,
                }
            })
    }

    /// IDT-ETH-1: the layout, byte for byte.
    #[test]
    fn packet_header_has_the_documented_layout() {
        let mut want = [0; Header::SIZE];
        want[..20].copy_from_slice(&[
            1, 0, 0b1_1101, 1, 34, 0, 16, 0, 0xa8, 0x05, 66, 0, 0x05, 0x60, 0, 0, 1, 2, 3, 4,
        ]);
        assert_eq!(Header::Packet(TCP).encode(), want);
    }

    #[test]
    fn announcement_has_the_documented_layout() {
        let mut want = [0; Header::SIZE];
        want[..10].copy_from_slice(&[1, 1, 0, 0, 2, 0x4d, 0x50, 0, 0, 7]);
        assert_eq!(Header::Announce([2, 0x4d, 0x50, 0, 0, 7]).encode(), want);
    }

    #[test]
    fn the_packet_starts_on_a_cache_line() {
        assert_eq!(BlockHdr::SIZE + MsgHdr::SIZE + Header::SIZE, 64);
    }

    #[test]
    fn an_unknown_version_is_named() {
        let mut b = Header::Packet(PacketInfo::PLAIN).encode();
        b[0] = 2;
        assert_eq!(Header::decode(&b, 60), Err(Malformed::Version(2)));
    }

    #[test]
    fn a_header_of_another_length_is_refused() {
        let b = Header::Packet(PacketInfo::PLAIN).encode();
        assert_eq!(Header::decode(&b[..31], 60), Err(Malformed::Length));
        assert_eq!(Header::decode(&[], 60), Err(Malformed::Length));
    }

    #[test]
    fn packets_are_neither_too_short_nor_too_long() {
        let b = Header::Packet(PacketInfo::PLAIN).encode();
        assert_eq!(Header::decode(&b, 13), Err(Malformed::PacketLength));
        assert!(Header::decode(&b, 14).is_ok());
        assert!(Header::decode(&b, MAX_PACKET).is_ok());
        assert_eq!(
            Header::decode(&b, MAX_PACKET + 1),
            Err(Malformed::PacketLength)
        );
        assert!(MAX_PACKET >= MAX_MTU as usize + ETH_HLEN + 4);
    }

    #[test]
    fn a_checksum_field_must_lie_in_the_packet() {
        let b = Header::Packet(TCP).encode();
        assert_eq!(Header::decode(&b, 51), Err(Malformed::Checksum));
        assert_eq!(Header::decode(&b, 52), Ok(Header::Packet(TCP)));
        let mut wild = b;
        wild[4..8].fill(0xff);
        assert_eq!(Header::decode(&wild, MAX_PACKET), Err(Malformed::Checksum));
        let mut in_ethernet_header = b;
        in_ethernet_header[4] = 13;
        assert_eq!(
            Header::decode(&in_ethernet_header, 2000),
            Err(Malformed::Checksum)
        );
    }

    #[test]
    fn segments_need_a_size_a_kind_and_a_partial_checksum() {
        let good = Header::Packet(TCP).encode();
        for (at, value) in [(3, 4), (3, 0xff)] {
            let mut b = good;
            b[at] = value;
            assert_eq!(Header::decode(&b, 3000), Err(Malformed::Segments));
        }
        for size in [0u16, u16::MAX] {
            let mut b = good;
            b[8..10].copy_from_slice(&size.to_le_bytes());
            assert_eq!(Header::decode(&b, 3000), Err(Malformed::Segments));
        }
        let mut b = good;
        b[2] = FLAG_CSUM_VALID;
        assert_eq!(Header::decode(&b, 3000), Err(Malformed::Segments));
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        let good = Header::Packet(TCP).encode();
        let set = |flags: u8, kind: u8| {
            let mut b = good;
            b[2] = flags;
            b[3] = kind;
            Header::decode(&b, 3000)
        };
        assert_eq!(
            set(FLAG_CSUM_PARTIAL | FLAG_CSUM_VALID, 0),
            Err(Malformed::Flags)
        );
        assert_eq!(set(FLAG_ECN, 0), Err(Malformed::Flags));
        assert_eq!(set(FLAG_CSUM_PARTIAL | FLAG_ECN, 3), Err(Malformed::Flags));
        assert_eq!(set(0x20, 0), Err(Malformed::Flags));
    }

    #[test]
    fn an_announcement_names_a_station_and_carries_nothing() {
        let station = [2, 0, 0, 0, 0, 1];
        let b = Header::Announce(station).encode();
        assert_eq!(Header::decode(&b, 0), Ok(Header::Announce(station)));
        assert_eq!(Header::decode(&b, 60), Err(Malformed::PacketLength));
        for mac in [[0; 6], BROADCAST, [1, 0, 0x5e, 0, 0, 1]] {
            let b = Header::Announce(mac).encode();
            assert_eq!(Header::decode(&b, 0), Err(Malformed::Address));
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(info in info()) {
            let header = Header::Packet(info);
            prop_assert_eq!(Header::decode(&header.encode(), MAX_PACKET), Ok(header));
        }

        /// Whatever a peer writes is refused, or is something that could have been sent.
        #[test]
        fn any_bytes_are_refused_or_consistent(bytes: [u8; Header::SIZE], len in 0usize..70000) {
            if let Ok(header) = Header::decode(&bytes, len) {
                if let Header::Packet(PacketInfo { checksum: Checksum::Partial { start, offset }, .. }) = header {
                    prop_assert!(usize::from(start) + usize::from(offset) + 2 <= len);
                }
                prop_assert_eq!(Header::decode(&header.encode(), len), Ok(header));
            }
        }

        /// As above, near valid headers.
        #[test]
        fn a_flipped_bit_is_refused_or_consistent(info in info(), at in 0usize..32, bit in 0u8..8) {
            let mut b = Header::Packet(info).encode();
            b[at] ^= 1 << bit;
            if let Ok(header) = Header::decode(&b, 3000) {
                prop_assert_eq!(Header::decode(&header.encode(), 3000), Ok(header));
            }
        }
    }
}
