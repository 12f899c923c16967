// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Headers and identifiers as they cross the bridge: little-endian, fixed size, fields in the
//! order of the specification (IDT-ID-*, IDT-MSG-1, IDT-EP-2, IDT-EP-3).
//!
//! Codecs only: a decoded header holds whatever the peer wrote, and its user checks it.

use core::num::NonZeroU32;

/// Most peers of one host, itself included: indices are below.
pub const MAX_PEERS: usize = 64;

/// Read the little-endian word at byte `off` of `buf`; zero behind its end.
#[inline]
pub(crate) fn get_u32(buf: &[u8], off: usize) -> u32 {
    match buf.get(off..).and_then(|b| b.first_chunk::<4>()) {
        Some(b) => u32::from_le_bytes(*b),
        None => 0,
    }
}

/// Read the little-endian word at byte `off` of `buf`; zero behind its end.
#[inline]
pub(crate) fn get_u64(buf: &[u8], off: usize) -> u64 {
    match buf.get(off..).and_then(|b| b.first_chunk::<8>()) {
        Some(b) => u64::from_le_bytes(*b),
        None => 0,
    }
}

/// Write `val` little-endian to byte `off` of `buf`; nothing behind its end.
#[inline]
pub(crate) fn put_u32(buf: &mut [u8], off: usize, val: u32) {
    if let Some(b) = buf.get_mut(off..).and_then(|b| b.first_chunk_mut::<4>()) {
        *b = val.to_le_bytes();
    }
}

/// Write `val` little-endian to byte `off` of `buf`; nothing behind its end.
#[inline]
pub(crate) fn put_u64(buf: &mut [u8], off: usize, val: u64) {
    if let Some(b) = buf.get_mut(off..).and_then(|b| b.first_chunk_mut::<8>()) {
        *b = val.to_le_bytes();
    }
}

/// The bytes of a message that is not always of the same size, `MOST` at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes<const MOST: usize> {
    bytes: [u8; MOST],
    len: usize,
}

impl<const MOST: usize> Bytes<MOST> {
    /// A message of `head` and, behind it, `tail`; what is beyond `MOST` is left out.
    pub fn new(head: &[u8], tail: &[u8]) -> Self {
        let mut bytes = [0; MOST];
        for (to, from) in bytes.iter_mut().zip(head.iter().chain(tail)) {
            *to = *from;
        }
        Bytes {
            bytes,
            len: MOST.min(head.len() + tail.len()),
        }
    }
}

impl<const MOST: usize> core::ops::Deref for Bytes<MOST> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// A bijective scrambling of 64 bits (xor-shift and multiply): tags and seals, not cryptography.
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 29;
    x = x.wrapping_mul(0xa076_1d64_78bd_642f);
    x ^ (x >> 32)
}

/// Id of a peer (IDT-ID-1 to IDT-ID-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// `MP_PEER_RP`: the root processor (IDT-ID-2).
    pub const RP: PeerId = PeerId(0);
    /// `MP_PEER_SELF`: an alias of the own peer (IDT-ID-3).
    pub const SELF: PeerId = PeerId(0x8000_0000);
    /// `MP_PEER_BCAST`: all other peers (IDT-ID-4).
    pub const BCAST: PeerId = PeerId(!0);

    /// `MP_PEER_ID(b, d, f)`: the id of the endpoint behind a bus, device and function (IDT-ID-1).
    /// Bits outside each field are cut off.
    #[inline]
    pub const fn from_bdf(bus: u32, dev: u32, func: u32) -> PeerId {
        PeerId(((bus & 0xff) << 8) | ((dev & 0x1f) << 3) | (func & 7))
    }

    /// Whether the id names one real host: the RP or an id that [`Self::from_bdf`] can give.
    #[inline]
    pub const fn is_host(self) -> bool {
        self.0 <= 0xffff
    }
}

/// Flag of a frame: it overtakes queued ordinary frames, `MP_FRAME_PRIORITY` (IDT-ID-6).
/// It selects the control ring, and therefore needs no bit on the wire.
pub const FRAME_PRIORITY: u32 = 1;

/// Which of a link's rings carries a frame (IDT-ID-6, design 4.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A data ring.
    Bulk,
    /// The control ring, which bulk data never enters.
    High,
}

impl Priority {
    /// The priority that a frame's flags ask for.
    #[inline]
    pub const fn from_flags(flags: u32) -> Priority {
        if flags & FRAME_PRIORITY != 0 {
            Priority::High
        } else {
            Priority::Bulk
        }
    }
}

/// Message header `mp_msg` (IDT-MSG-1), 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsgHdr {
    /// Destination peer id.
    pub dst: PeerId,
    /// Source peer id.
    pub src: PeerId,
    /// Bytes of function header and data, without this header.
    pub len: u32,
    /// Id of the function service that receives the frame.
    pub func: u32,
}

impl MsgHdr {
    /// Size on the wire in bytes.
    pub const SIZE: usize = 16;

    /// The bytes on the wire.
    #[inline]
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut b = [0; Self::SIZE];
        put_u32(&mut b, 0, self.dst.0);
        put_u32(&mut b, 4, self.src.0);
        put_u32(&mut b, 8, self.len);
        put_u32(&mut b, 12, self.func);
        b
    }

    /// The header in `b`, unchecked.
    #[inline]
    pub fn decode(b: &[u8; Self::SIZE]) -> MsgHdr {
        MsgHdr {
            dst: PeerId(get_u32(b, 0)),
            src: PeerId(get_u32(b, 4)),
            len: get_u32(b, 8),
            func: get_u32(b, 12),
        }
    }
}

/// The mark of frames that a third host forwards between two others (IDT-MSG-7): it tells their
/// present lives from earlier ones. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WayTag(NonZeroU32);

impl WayTag {
    /// Size on the wire in bytes.
    pub const SIZE: usize = 4;

    /// The mark that stands for `seed`.
    pub fn new(seed: u64) -> WayTag {
        let low = (seed ^ (seed >> 32)) & 0xffff_ffff;
        let value = u32::try_from(low).ok().and_then(NonZeroU32::new);
        WayTag(value.unwrap_or(NonZeroU32::MIN))
    }

    /// The mark with this value; zero is none.
    pub fn from_value(value: u32) -> Option<WayTag> {
        NonZeroU32::new(value).map(WayTag)
    }

    /// The mark as a number.
    #[inline]
    pub const fn value(self) -> u32 {
        self.0.get()
    }
}

/// What stands in front of a frame's function header: the message header, and on a link that is
/// only a part of the way the mark of the way. Whether there is one follows from source,
/// destination and the two ends of the link ([`crate::route`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// The message header.
    pub msg: MsgHdr,
    /// The mark of the way, if the frame is forwarded.
    pub way: Option<WayTag>,
}

impl Envelope {
    /// Largest size on the wire in bytes.
    pub const MAX: usize = MsgHdr::SIZE + WayTag::SIZE;

    /// Size on the wire in bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> usize {
        match self.way {
            Some(_) => Self::MAX,
            None => MsgHdr::SIZE,
        }
    }

    /// The bytes on the wire; the first [`Self::len`] of them count.
    #[inline]
    pub fn encode(&self) -> [u8; Self::MAX] {
        let mut b = [0; Self::MAX];
        if let Some(head) = b.first_chunk_mut() {
            *head = self.msg.encode();
        }
        if let Some(way) = self.way {
            put_u32(&mut b, MsgHdr::SIZE, way.value());
        }
        b
    }
}

impl From<MsgHdr> for Envelope {
    /// Of a frame that its source sends to its destination over one link.
    #[inline]
    fn from(msg: MsgHdr) -> Envelope {
        Envelope { msg, way: None }
    }
}

/// Longest function header in bytes.
pub const FUNC_HDR_MAX: usize = 64;

/// Block header `mp_x86_hdr` (IDT-EP-2), 16 bytes, in front of every block of a ring.
///
/// A block holds this header, then `hdr_len` bytes of headers, then data up to `buffer_len`. The
/// frame's data may go on in the next blocks of the ring: `len` always counts the data bytes of
/// the frame from this block on, and a block with `hdr_len` zero continues the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHdr {
    /// Bytes of this block: this header, the headers behind it and the data in it.
    pub buffer_len: u32,
    /// Bytes of message header and function header; zero in a continuation.
    pub hdr_len: u32,
    /// Data bytes of the frame in this block and all that continue it.
    pub len: u32,
    /// The specification's reserved word: the mark of epoch and position that
    /// [`Slot::header`](crate::ring::Slot::header) puts in.
    pub mark: u32,
}

impl BlockHdr {
    /// Size on the wire in bytes.
    pub const SIZE: usize = 16;

    /// The bytes on the wire.
    #[inline]
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut b = [0; Self::SIZE];
        put_u32(&mut b, 0, self.buffer_len);
        put_u32(&mut b, 4, self.hdr_len);
        put_u32(&mut b, 8, self.len);
        put_u32(&mut b, 12, self.mark);
        b
    }

    /// The header in `b`, unchecked.
    #[inline]
    pub fn decode(b: &[u8; Self::SIZE]) -> BlockHdr {
        BlockHdr {
            buffer_len: get_u32(b, 0),
            hdr_len: get_u32(b, 4),
            len: get_u32(b, 8),
            mark: get_u32(b, 12),
        }
    }
}

/// Peer data of an NTB endpoint (IDT-EP-3, bases widened to 64 bits), 24 bytes: what the RP tells
/// the other hosts of a new endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerData {
    /// Bus address of the peer's inbound memory.
    pub inb_base: u64,
    /// Bus address of its registers, or zero.
    pub reg_base: u64,
    /// Index that the RP assigned to the peer (IDT-ID-5).
    pub peer_index: u32,
    /// Written as zero, not looked at.
    pub reserved: u32,
}

impl PeerData {
    /// Size on the wire in bytes.
    pub const SIZE: usize = 24;

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut b = [0; Self::SIZE];
        put_u64(&mut b, 0, self.inb_base);
        put_u64(&mut b, 8, self.reg_base);
        put_u32(&mut b, 16, self.peer_index);
        put_u32(&mut b, 20, self.reserved);
        b
    }

    /// The peer data in `b`, unchecked.
    pub fn decode(b: &[u8; Self::SIZE]) -> PeerData {
        PeerData {
            inb_base: get_u64(b, 0),
            reg_base: get_u64(b, 8),
            peer_index: get_u32(b, 16),
            reserved: get_u32(b, 20),
        }
    }
}

/// The mark of an epoch on every control word of one direction: a word of another epoch, or one
/// that was never written, does not carry it. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(u32);

impl Tag {
    /// The tag of the words that the owner of epoch `writer` writes for the owner of `reader`.
    pub fn new(writer: u64, reader: u64) -> Tag {
        let word = mix(mix(writer) ^ reader);
        let low = (word ^ (word >> 32)) & 0xffff_ffff;
        match u32::try_from(low) {
            Ok(tag) if tag != 0 => Tag(tag),
            _ => Tag(1),
        }
    }

    /// The tag as a number.
    #[inline]
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// A control word: an index that belongs to one epoch, `tag << 32 | index`, stored in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaggedIndex {
    /// The epoch's mark.
    pub tag: Tag,
    /// The index, free-running.
    pub index: u32,
}

impl TaggedIndex {
    /// The word in memory.
    #[inline]
    pub const fn word(self) -> u64 {
        ((self.tag.0 as u64) << 32) | self.index as u64
    }

    /// The index in `word` if it belongs to the epoch of `tag`.
    #[inline]
    pub const fn index_of(word: u64, tag: Tag) -> Option<u32> {
        if word >> 32 == tag.0 as u64 {
            Some((word & 0xffff_ffff) as u32)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// IDT-ID-1
    #[test]
    fn peer_id_packs_bus_device_and_function() {
        assert_eq!(PeerId::from_bdf(0x12, 0x03, 0x5), PeerId(0x121d));
        assert_eq!(PeerId::from_bdf(0x1ff, 0x3f, 0xf), PeerId(0xffff));
    }

    /// IDT-ID-2, IDT-ID-3, IDT-ID-4
    #[test]
    fn reserved_peer_ids_have_the_values_of_the_guide() {
        assert_eq!(PeerId::RP.0, 0);
        assert_eq!(PeerId::SELF.0, 0x8000_0000);
        assert_eq!(PeerId::BCAST.0, 0xffff_ffff);
        assert!(PeerId::RP.is_host());
        assert!(!PeerId::SELF.is_host() && !PeerId::BCAST.is_host());
    }

    /// IDT-ID-6
    #[test]
    fn priority_flag_selects_the_control_ring() {
        assert_eq!(Priority::from_flags(FRAME_PRIORITY), Priority::High);
        assert_eq!(Priority::from_flags(!FRAME_PRIORITY), Priority::Bulk);
    }

    /// IDT-MSG-1
    #[test]
    fn message_header_is_four_little_endian_words() {
        let h = MsgHdr {
            dst: PeerId(0x0403_0201),
            src: PeerId(0x0807_0605),
            len: 0x0c0b_0a09,
            func: 0x100f_0e0d,
        };
        let bytes: [u8; 16] = core::array::from_fn(|i| i as u8 + 1);
        assert_eq!(h.encode(), bytes);
        assert_eq!(MsgHdr::decode(&bytes), h);
    }

    /// IDT-EP-2
    #[test]
    fn block_header_is_buffer_len_hdr_len_len_and_the_reserved_word() {
        let h = BlockHdr {
            buffer_len: 0x0403_0201,
            hdr_len: 0x0807_0605,
            len: 0x0c0b_0a09,
            mark: 0x100f_0e0d,
        };
        let bytes: [u8; 16] = core::array::from_fn(|i| i as u8 + 1);
        assert_eq!(h.encode(), bytes);
        assert_eq!(BlockHdr::decode(&bytes), h);
    }

    /// IDT-EP-3
    #[test]
    fn peer_data_carries_wide_bases_and_the_index() {
        let d = PeerData {
            inb_base: 0x0807_0605_0403_0201,
            reg_base: 0x100f_0e0d_0c0b_0a09,
            peer_index: 0x1413_1211,
            reserved: 0x1817_1615,
        };
        let bytes: [u8; 24] = core::array::from_fn(|i| i as u8 + 1);
        assert_eq!(d.encode(), bytes);
        assert_eq!(PeerData::decode(&bytes), d);
    }

    proptest! {
        /// design 4.2
        #[test]
        fn a_word_of_another_epoch_is_not_recognised(a: u64, b: u64, c: u64, index: u32) {
            let tag = Tag::new(a, b);
            let word = TaggedIndex { tag, index }.word();
            prop_assert_eq!(TaggedIndex::index_of(word, tag), Some(index));
            prop_assert_eq!(TaggedIndex::index_of(0, tag), None);
            if c != a {
                prop_assert_eq!(TaggedIndex::index_of(word, Tag::new(c, b)), None);
            }
        }
    }
}
