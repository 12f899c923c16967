// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What two endpoints tell each other, and the way that carries it.
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
//! | 10 | refusal | number (4), [`Errors`](super::Errors) (4) | | |
//!
//! Long sends and writes are not interleaved with each other; everything else may stand between
//! their pieces. A read is answered by as many pieces as it takes, one read after the other, and
//! one without bytes by an empty piece. At most [`READS_MAX`] reads are unanswered.
//!
//! Sends and writes of the level with acknowledgements are numbered from 1 on. An acknowledgement
//! says that all up to its number have taken effect; a refusal, that all before it have, and why
//! that one has not. Reads are numbered from 1 on as well.
//!
//! A connection ends with a [`Reason`]. An end that says none that is known, or a message that
//! cannot be, is an error of the transport.

use super::Caller;

/// Most reads that are not answered.
pub const READS_MAX: usize = 32;

/// Most bytes of a header.
pub const HEADER_MAX: usize = 16;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A send, all of it.
    Send = 1,
    /// The first part of a send.
    LongSend = 2,
    /// A write, or the first part of one.
    Write = 3,
    /// The next part of a send or write.
    More = 4,
    /// There are no more parts, although there should be.
    Abort = 5,
    /// The request of a read.
    Read = 6,
    /// A part of an answer.
    ReadData = 7,
    /// There is no answer.
    ReadFailed = 8,
    /// Sends and writes have taken effect.
    Ack = 9,
    /// A send or write has not.
    Refusal = 10,
}

impl Kind {
    /// The kind of a number.
    #[inline]
    pub fn of(number: u8) -> Option<Self> {
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
    pub fn header(self) -> usize {
        match self {
            Kind::Send | Kind::More | Kind::Abort | Kind::ReadData => 0,
            Kind::LongSend | Kind::ReadFailed | Kind::Ack => 4,
            Kind::Refusal => 8,
            Kind::Write | Kind::Read => HEADER_MAX,
        }
    }
}

/// A header: as many bytes as its kind has, then zeros.
pub type Header = [u8; HEADER_MAX];

/// A header of up to four numbers.
#[inline]
pub fn header(words: [u32; 4]) -> Header {
    let mut header = [0; HEADER_MAX];
    for (bytes, word) in header.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// A header of the bytes that a message has, at most [`HEADER_MAX`].
#[inline]
pub fn header_of(bytes: &[u8]) -> Header {
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
pub fn word(header: &Header, index: usize) -> u32 {
    let bytes = header.chunks_exact(4).nth(index).unwrap_or_default();
    u32::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// So many bytes at an address, in a region of the side whose handle it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The region.
    pub handle: u32,
    /// Where they begin.
    pub address: u64,
    /// How many they are.
    pub len: u32,
}

impl Place {
    /// The header that names it.
    #[inline]
    pub fn header(self) -> Header {
        let Place {
            handle,
            address,
            len,
        } = self;
        header([address as u32, (address >> 32) as u32, handle, len])
    }

    /// What a header names.
    #[inline]
    pub fn of(header: &Header) -> Self {
        Place {
            handle: word(header, 2),
            address: u64::from(word(header, 0)) | u64::from(word(header, 1)) << 32,
            len: word(header, 3),
        }
    }

    /// The part of it that begins after so many bytes; nothing if no address has these bytes.
    #[inline]
    pub(super) fn part(self, skip: u32, len: u32) -> Option<Self> {
        let address = self.address.checked_add(skip.into())?;
        Some(Place {
            address,
            len,
            ..self
        })
    }
}

/// A message that has arrived. The payload lies where the partner can still change it.
#[derive(Debug)]
pub struct Frame<P> {
    /// What it is.
    pub kind: Kind,
    /// Immediate data that came with it.
    pub immediate: Option<u32>,
    /// Its header.
    pub header: Header,
    /// Its bytes.
    pub payload: P,
    /// What the way has made of it, where messages are checked.
    pub fault: Option<Fault>,
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Something in it was changed on the way.
    Corrupt,
    /// Messages before it have not come.
    Gap {
        /// How many.
        missing: u32,
    },
    /// It came before.
    Again,
}

/// Why a side ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The program has ended it.
    Disconnect = 1,
    /// An error that the level does not survive.
    Fault = 2,
    /// The other side has told what cannot be, or the memory between the hosts is corrupted.
    Transport = 3,
    /// The operation behind those that have taken effect was refused: it had no receive, or one that
    /// does not fit. There was no room to say so before.
    RefusedReceive = 4,
    /// The same: it was a remote access that is not allowed.
    RefusedRdma = 5,
}

impl Reason {
    /// The reason of a number.
    pub fn of(number: u16) -> Option<Self> {
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
pub enum End {
    /// The partner has ended it.
    Closed(Reason),
    /// The partner's process has gone.
    Gone,
    /// The link is down.
    Down,
    /// The partner has told what cannot be, or the memory between the hosts is corrupted.
    Broken,
}

impl End {
    /// Whether the transport has failed, and nobody has left.
    pub fn is_of_transport(self) -> bool {
        matches!(
            self,
            End::Down | End::Broken | End::Closed(Reason::Transport)
        )
    }
}

/// The way to the other end of a connection. Nothing in it waits.
pub trait Wire<C: Caller> {
    /// Most payload bytes of a message of that kind; from 1 to `u32::MAX`.
    fn most(&self, kind: Kind) -> usize;

    /// Send a message; `false` if there is no room now.
    ///
    /// # Errors
    /// The connection has ended.
    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[C::Piece<'_>],
    ) -> Result<bool, End>;

    /// Whether there may be a message or an end, or [`flush()`](Self::flush) has to be tried again.
    fn has_news(&self) -> bool;

    /// The next message. The one before is given back.
    ///
    /// # Errors
    /// The connection has ended.
    fn receive(&mut self) -> Result<Option<Frame<C::Payload<'_>>>, End>;

    /// Let the partner know of everything that was sent and received.
    ///
    /// # Errors
    /// The connection has ended.
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
        #[test]
        fn places_survive_the_wire(address: u64, handle: u32, len: u32) {
            let place = Place { handle, address, len };
            let header = place.header();
            prop_assert_eq!(Place::of(&header), place);
            prop_assert_eq!(&header[..8], &address.to_le_bytes());
        }
    }
}
