// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks of what crosses: a checksum and a number behind the payload of each message, where the
//! two ends have agreed on it.
//!
//! | bytes behind the payload | what |
//! |---|---|
//! | 4 | number of the message, from 0 on, little-endian |
//! | 4 | CRC-32C of the message, little-endian |
//!
//! The checksum begins with the receiver's number of the lane, as its initial value (0 on a queue
//! pair of the connection's own), and covers kind, immediate data (a byte that tells whether there is any, and four, which
//! are 0 if there is none), header, number and payload, in this order. The engine hears of a message
//! that does not have its checksum, that messages before it are missing, or that it came before
//! ([`Fault`]).
//!
//! A program that changes the bytes of a send while it is under way spoils the checksum of its own
//! message.

use crate::{
    engine::Program,
    link::Numbers as Lanes,
    wire::{End, Fault, Frame, Header, Kind, Reason, Wire},
};
use crc32c::crc32c_append;
use mp_queue_pair::Piece;
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut};
use vm_memory::VolatileSlice;

/// Bytes behind the payload.
const TRAILER: usize = 8;
/// Bytes that are copied to be summed up: memory that others write has no references.
const CHUNK: usize = 512;
/// Pieces of a message without an allocation, the trailer counted.
const FEW: usize = crate::descriptor::FEW + 1;

/// Numbers of the next messages, and of the lane.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    lanes: Lanes,
    sent: u32,
    received: u32,
}

/// A way to the other end whose messages are checked, or are not.
#[derive(Debug)]
pub(crate) struct Checked<W> {
    wire: W,
    /// Nothing if the ends have not agreed on checks.
    numbers: Option<Numbers>,
}

impl<W> Checked<W> {
    /// Check the messages of a lane, or do not.
    pub(crate) fn new(wire: W, checks: bool, lanes: Lanes) -> Self {
        let numbers = Numbers {
            lanes,
            sent: 0,
            received: 0,
        };
        Checked {
            wire,
            numbers: checks.then_some(numbers),
        }
    }

    /// Check a message that others have received, in the order in which they were sent.
    #[inline]
    pub(crate) fn arrived<'a>(&mut self, frame: Frame<'a>) -> Frame<'a> {
        match &mut self.numbers {
            None => frame,
            Some(numbers) => open(numbers, frame),
        }
    }
}

/// What is beside messages is the wire's own.
impl<W> Deref for Checked<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.wire
    }
}

impl<W> DerefMut for Checked<W> {
    fn deref_mut(&mut self) -> &mut W {
        &mut self.wire
    }
}

/// The checksum of all that is before the payload.
fn begin(lane: u32, kind: Kind, immediate: Option<u32>, header: &Header, number: u32) -> u32 {
    let [i0, i1, i2, i3] = immediate.unwrap_or(0).to_le_bytes();
    let flag = u8::from(immediate.is_some());
    let crc = crc32c_append(lane, &[kind as u8, flag, i0, i1, i2, i3]);
    let header = header.get(..kind.header()).unwrap_or_default();
    crc32c_append(crc32c_append(crc, header), &number.to_le_bytes())
}

/// Go on with a checksum.
fn sum(mut crc: u32, memory: VolatileSlice<'_>) -> u32 {
    let mut chunk = [0; CHUNK];
    let mut at = 0;
    while let Ok(rest) = memory.offset(at) {
        let len = rest.len().min(CHUNK);
        let Some(chunk) = chunk.get_mut(..len).filter(|chunk| !chunk.is_empty()) else {
            break;
        };
        rest.copy_to(chunk);
        crc = crc32c_append(crc, chunk);
        at += len;
    }
    crc
}

/// Payload and trailer, number before checksum; nothing if it is too short.
fn split<'a>(payload: &Piece<'a>) -> Option<(Piece<'a>, u32, u32)> {
    let len = payload.len().checked_sub(TRAILER)?;
    let mut trailer = [0; TRAILER];
    let payload = match payload {
        Piece::Bytes(bytes) => {
            let (payload, rest) = bytes.split_at_checked(len)?;
            trailer = rest.try_into().ok()?;
            Piece::Bytes(payload)
        }
        Piece::Memory(memory) => {
            memory.offset(len).ok()?.copy_to(&mut trailer);
            Piece::Memory(memory.subslice(0, len).ok()?)
        }
    };
    let [n0, n1, n2, n3, c0, c1, c2, c3] = trailer;
    let (number, crc) = ([n0, n1, n2, n3], [c0, c1, c2, c3]);
    Some((payload, u32::from_le_bytes(number), u32::from_le_bytes(crc)))
}

/// Take the trailer off a message, and look at it.
fn open<'a>(numbers: &mut Numbers, frame: Frame<'a>) -> Frame<'a> {
    let next = numbers.received;
    let (payload, fault) = match split(&frame.payload) {
        None => (Piece::Bytes(&[]), Some(Fault::Corrupt)),
        Some((payload, number, crc)) => {
            let head = begin(
                numbers.lanes.own,
                frame.kind,
                frame.immediate,
                &frame.header,
                number,
            );
            let found = match payload {
                Piece::Bytes(bytes) => crc32c_append(head, bytes),
                Piece::Memory(memory) => sum(head, memory),
            };
            (
                payload,
                (found != crc)
                    .then_some(Fault::Corrupt)
                    .or(order(number, next)),
            )
        }
    };
    numbers.received = match fault {
        None | Some(Fault::Corrupt) => next.wrapping_add(1),
        Some(Fault::Gap { missing }) => next.wrapping_add(missing).wrapping_add(1),
        Some(Fault::Again) => next,
    };
    Frame {
        payload,
        fault,
        ..frame
    }
}

/// What is wrong with the number of a message, where another one is the next.
fn order(number: u32, next: u32) -> Option<Fault> {
    match number.wrapping_sub(next) {
        0 => None,
        missing if missing <= u32::MAX / 2 => Some(Fault::Gap { missing }),
        _ => Some(Fault::Again),
    }
}

impl<W: Wire<Program>> Wire<Program> for Checked<W> {
    fn most(&self, kind: Kind) -> usize {
        let trailer = self.numbers.map_or(0, |_| TRAILER);
        self.wire.most(kind) - trailer
    }

    #[inline]
    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[VolatileSlice<'_>],
    ) -> Result<bool, End> {
        let Some(numbers) = &mut self.numbers else {
            return self.wire.send(kind, immediate, header, payload);
        };
        let head = begin(numbers.lanes.partner, kind, immediate, header, numbers.sent);
        let crc = payload.iter().fold(head, |crc, piece| sum(crc, *piece));
        let [n0, n1, n2, n3] = numbers.sent.to_le_bytes();
        let [c0, c1, c2, c3] = crc.to_le_bytes();
        let mut trailer = [n0, n1, n2, n3, c0, c1, c2, c3];
        let mut pieces: SmallVec<[_; FEW]> = payload.iter().copied().collect();
        pieces.push(VolatileSlice::from(&mut trailer[..]));
        let sent = self.wire.send(kind, immediate, header, &pieces)?;
        numbers.sent = numbers.sent.wrapping_add(sent.into());
        Ok(sent)
    }

    #[inline]
    fn has_news(&self) -> bool {
        self.wire.has_news()
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        let Some(numbers) = &mut self.numbers else {
            return self.wire.receive();
        };
        let frame = self.wire.receive()?;
        Ok(frame.map(|frame| open(numbers, frame)))
    }

    fn flush(&mut self) -> Result<(), End> {
        self.wire.flush()
    }

    fn effect(&mut self) {
        self.wire.effect();
    }

    fn sent(&self) -> u64 {
        self.wire.sent()
    }

    fn effective(&mut self) -> u64 {
        self.wire.effective()
    }

    fn close(&mut self, reason: Reason) {
        self.wire.close(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A send as it is on its way to a lane, its number 0.
    fn sent_to(lane: u32, payload: &[u8]) -> Vec<u8> {
        let crc = begin(lane, Kind::Send, None, &Header::default(), 0);
        let crc = crc32c_append(crc, payload);
        [payload, &0_u32.to_le_bytes(), &crc.to_le_bytes()].concat()
    }

    /// VI-EM-7: a message that comes to another lane than it was sent to is spoiled.
    #[test]
    fn a_message_of_another_lane_is_corrupt() {
        let bytes = sent_to(4, b"four");
        for (own, fault) in [
            (4, None),
            (5, Some(Fault::Corrupt)),
            (0, Some(Fault::Corrupt)),
        ] {
            let mut numbers = Numbers {
                lanes: Lanes { own, partner: 4 },
                sent: 0,
                received: 0,
            };
            let frame = Frame {
                kind: Kind::Send,
                immediate: None,
                header: Header::default(),
                payload: Piece::Bytes(&bytes),
                fault: None,
            };
            assert_eq!(open(&mut numbers, frame).fault, fault);
        }
    }
}
