// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the two ends of a connection tell each other, as messages of a queue pair.
//!
//! | kind | name | header, little-endian | payload | immediate data |
//! |---|---|---|---|---|
//! | 1 | send | | the whole message | if posted with it |
//! | 2 | long send | total (4) | its first bytes | if posted with it |
//! | 3 | write | remote address (8), handle (4), total (4) | its first bytes, or all | if posted with it |
//! | 4 | more | | the next bytes of the long send or write | |
//! | 5 | abort | | none: the long send or write ends here | |
//! | 6 | read | remote address (8), handle (4), total (4) | | |
//! | 7 | read data | | the next bytes of the oldest read | |
//! | 8 | read failed | number (4) of the read | | |
//! | 9 | acknowledgement | number (4) | | |
//! | 10 | refusal | number (4), Status bits (4) | | |
//!
//! Long sends and writes are not interleaved with each other; everything else may stand between
//! their pieces. A read is answered by as many pieces as it takes, one read after the other, and
//! one without bytes by an empty piece. At most [`READS_MAX`] reads are unanswered.
//!
//! Sends and writes of a VI with Reliable Reception are numbered from 1 on. An acknowledgement says
//! that all up to its number have taken effect; a refusal, that all before it have, and why that
//! one has not. Reads are numbered from 1 on as well.
//!
//! The two ends may agree on checks of what crosses, which `check` adds behind each payload.
//!
//! A connection ends with a [`Reason`], as the end of the queue pair. An end that says none that is
//! known, or a message that cannot be, is an error of the transport.

//! Connections that share a queue pair, a *trunk*, have lanes in it: each side has numbered its own.
//! In front of the header is the receiver's number of the lane (4). Two kinds more are of a lane
//! itself:
//!
//! | kind | name | header behind the lane | sent |
//! |---|---|---|---|
//! | 11 | ready | sender's number of the lane (4) | once by each side, as the first message: the other one may send |
//! | 12 | end | sender's number of the lane (4), reason (4) or 0, messages that have taken effect (8) | as the last message |
//!
//! What is told of a lane is ignored if its two numbers are not those of one connection.
//!
//! A trunk has messages of all its lanes in the order in which they were sent. The end of a trunk
//! is the end of all its lanes.

use mp_queue_pair::Piece;
use vm_memory::VolatileSlice;

/// Most reads that are not answered.
pub(crate) const READS_MAX: usize = 32;

/// Most bytes of a header.
pub(crate) const HEADER_MAX: usize = 16;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Send = 1,
    LongSend = 2,
    Write = 3,
    More = 4,
    Abort = 5,
    Read = 6,
    ReadData = 7,
    ReadFailed = 8,
    Ack = 9,
    Refusal = 10,
}

impl Kind {
    /// The kind of a number.
    #[inline]
    pub(crate) fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Kind::Send,
            2 => Kind::LongSend,
            3 => Kind::Write,
            4 => Kind::More,
            5 => Kind::Abort,
            6 => Kind::Read,
            7 => Kind::ReadData,
            8 => Kind::ReadFailed,
            9 => Kind::Ack,
            10 => Kind::Refusal,
            _ => return None,
        })
    }

    /// Bytes of its header.
    #[inline]
    pub(crate) fn header(self) -> usize {
        match self {
            Kind::Send | Kind::More | Kind::Abort | Kind::ReadData => 0,
            Kind::LongSend | Kind::ReadFailed | Kind::Ack => 4,
            Kind::Refusal => 8,
            Kind::Write | Kind::Read => HEADER_MAX,
        }
    }
}

/// A header: as many bytes as its kind has, then zeros.
pub(crate) type Header = [u8; HEADER_MAX];

/// A header of up to four numbers.
#[inline]
pub(crate) fn header(words: [u32; 4]) -> Header {
    let mut header = [0; HEADER_MAX];
    for (bytes, word) in header.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// A header of the bytes that a message has.
#[inline]
pub(crate) fn header_of(bytes: &[u8]) -> Header {
    let mut header = Header::default();
    if bytes.is_empty() {
        // Of most messages.
        return header;
    }
    if let Some(to) = header.get_mut(..bytes.len()) {
        to.copy_from_slice(bytes);
    }
    header
}

/// A number of a header.
#[inline]
pub(crate) fn word(header: &Header, index: usize) -> u32 {
    let bytes = header.chunks_exact(4).nth(index).unwrap_or_default();
    u32::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// Remote address, handle and length as a header, and back.
#[inline]
pub(crate) fn place_header(address: u64, handle: u32, len: u32) -> Header {
    header([address as u32, (address >> 32) as u32, handle, len])
}

/// See [`place_header`].
#[inline]
pub(crate) fn place_of(header: &Header) -> (u64, u32, u32) {
    let address = u64::from(word(header, 0)) | u64::from(word(header, 1)) << 32;
    (address, word(header, 2), word(header, 3))
}

/// A message that has arrived. The payload lies where the partner can still change it.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) immediate: Option<u32>,
    pub(crate) header: Header,
    pub(crate) payload: Piece<'a>,
    /// What the way has made of it, where messages are checked.
    pub(crate) fault: Option<Fault>,
}

/// What is wrong with a message (VI-EM-7, VI-EM-8, VI-EM-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Something in it was changed on the way.
    Corrupt,
    /// So many messages before it have not come.
    Gap { missing: u32 },
    /// It came before.
    Again,
}

/// Why a side ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The program has disconnected, or has closed its NIC.
    Disconnect = 1,
    /// An error that the level does not survive.
    Fault = 2,
    /// The other side has told what cannot be, or the memory between the hosts is corrupted.
    Transport = 3,
    /// The operation behind those that have taken effect was refused: it had no receive descriptor,
    /// or one that does not fit. There was no room to say so before.
    RefusedReceive = 4,
    /// The same: it was an RDMA operation that is not allowed.
    RefusedRdma = 5,
}

impl Reason {
    /// The reason of a number.
    pub(crate) fn of(number: u16) -> Option<Self> {
        let all = [
            Reason::Disconnect,
            Reason::Fault,
            Reason::Transport,
            Reason::RefusedReceive,
            Reason::RefusedRdma,
        ];
        all.into_iter().find(|reason| *reason as u16 == number)
    }
}

/// How a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The remote side has ended it.
    Closed(Reason),
    /// The remote process has gone.
    Gone,
    /// The link is down.
    Down,
    /// The remote side has told what cannot be, or the memory between the hosts is corrupted.
    Broken,
}

/// The way to the other end of a connection.
pub(crate) trait Wire {
    /// Most payload bytes of a message of that kind.
    fn most(&self, kind: Kind) -> usize;

    /// Send a message; false if there is no room now.
    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[VolatileSlice<'_>],
    ) -> Result<bool, End>;

    /// Whether there may be a message or an end, or [`flush()`](Self::flush) has to be tried again.
    fn has_news(&self) -> bool;

    /// The next message. The one before is given back.
    fn receive(&mut self) -> Result<Option<Frame<'_>>, End>;

    /// Let the partner know of everything that was sent and received.
    fn flush(&mut self) -> Result<(), End>;

    /// What was received last has taken effect, and all before it. The partner knows at the latest
    /// when this side closes, whether there is room for a message or not.
    fn effect(&mut self);

    /// Number of what was sent last; it grows with each message.
    fn sent(&self) -> u64;

    /// Up to which number what was sent has taken effect, as far as the partner has said so by
    /// [`effect()`](Self::effect).
    fn effective(&mut self) -> u64;

    /// End the connection, behind everything that was sent.
    fn close(&mut self, reason: Reason);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kinds_and_reasons_are_their_numbers() {
        for number in 0..=u8::MAX {
            let kind = Kind::of(number);
            assert_eq!(kind.is_some(), (1..=10).contains(&number));
            assert!(kind.is_none_or(|kind| kind as u8 == number && kind.header() <= HEADER_MAX));
        }
        assert_eq!(
            [0, 1, 5, 6].map(|n| Reason::of(n).map(|reason| reason as u16)),
            [None, Some(1), Some(5), None]
        );
    }

    proptest! {
        /// VI-DESC-1
        #[test]
        fn places_survive_the_wire(address: u64, handle: u32, len: u32) {
            let header = place_header(address, handle, len);
            prop_assert_eq!(place_of(&header), (address, handle, len));
            prop_assert_eq!(&header[..8], &address.to_le_bytes());
        }
    }
}
