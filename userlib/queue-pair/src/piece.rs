// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is sent, gathered from wherever it lies.

use crate::Head;
use mp_fabric::vm_memory::VolatileSlice;
use std::convert::Infallible;

/// Bytes that are sent.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Memory of this program.
    Bytes(&'a [u8]),
    /// Memory that others may change meanwhile, such as that of an application.
    Memory(VolatileSlice<'a>),
}

impl<'a> From<&'a [u8]> for Piece<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Piece::Bytes(bytes)
    }
}

impl<'a> From<VolatileSlice<'a>> for Piece<'a> {
    fn from(memory: VolatileSlice<'a>) -> Self {
        Piece::Memory(memory)
    }
}

impl Piece<'_> {
    /// Its size in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Memory(memory) => memory.len(),
        }
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of it: at most `len` bytes from `at` on.
    #[inline]
    fn part(&self, at: usize, len: usize) -> Self {
        if at == 0 && len >= self.len() {
            return *self;
        }
        let len = len.min(self.len().saturating_sub(at));
        match self {
            Piece::Bytes(bytes) => Piece::Bytes(bytes.get(at..at + len).unwrap_or_default()),
            Piece::Memory(memory) => match memory.subslice(at, len) {
                Ok(memory) => Piece::Memory(memory),
                Err(_) => Piece::Bytes(&[]),
            },
        }
    }
}

/// Pieces, of which some bytes have been taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pieces: &'a [Piece<'a>],
    /// Bytes of the first piece that have been taken.
    at: usize,
    left: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(pieces: &'a [Piece<'a>]) -> Self {
        Cursor {
            pieces,
            at: 0,
            left: pieces.iter().map(Piece::len).sum(),
        }
    }

    /// Bytes that have not been taken.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Take the next bytes, at most `len`, in runs that each lie in one piece.
    #[inline]
    pub(crate) fn take<E>(
        &mut self,
        len: usize,
        mut run: impl FnMut(Piece<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = len;
        while let (Some((first, rest)), 1..) = (self.pieces.split_first(), left) {
            let part = first.part(self.at, left);
            run(part)?;
            self.at += part.len();
            self.left -= part.len();
            left -= part.len();
            if self.at >= first.len() {
                (self.pieces, self.at) = (rest, 0);
            }
        }
        Ok(())
    }

    /// Copy the next bytes until the room is full or there are no more.
    #[inline]
    pub(crate) fn fill(&mut self, room: &mut [u8]) {
        let mut rest = room;
        let len = rest.len();
        let filled: Result<(), Infallible> = self.take(len, |piece| {
            let room = std::mem::take(&mut rest);
            if let Some((to, behind)) = room.split_at_mut_checked(piece.len()) {
                match piece {
                    Piece::Bytes(bytes) => to.copy_from_slice(bytes),
                    Piece::Memory(memory) => {
                        memory.copy_to(to);
                    }
                }
                rest = behind;
            }
            Ok(())
        });
        let Ok(()) = filled;
    }
}

/// A message that is sent, perhaps in parts: it remembers how far it has gone.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    pub(crate) head: Head,
    pub(crate) extra: &'a [u8],
    pub(crate) data: Cursor<'a>,
}

impl<'a> Outgoing<'a> {
    /// A message of the pieces, one after the other. `extra`, at most
    /// [`EXTRA_MAX`](crate::EXTRA_MAX) bytes, is of the layer above and accompanies each part:
    /// beside its data, or in front of them where the part is sent inline; see
    /// [`Message::split`](crate::Message::split).
    #[inline]
    pub fn new(head: Head, extra: &'a [u8], data: &'a [Piece<'a>]) -> Self {
        let data = Cursor::new(data);
        Outgoing { head, extra, data }
    }

    /// Bytes of data that have not been sent.
    #[inline]
    pub fn left(&self) -> usize {
        self.data.left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_taken_one_after_the_other_whatever_the_rooms_are() {
        let all: Vec<u8> = (0..100).collect();
        let mut memory = all[7..60].to_vec();
        let memory = VolatileSlice::from(&mut memory[..]);
        let pieces = [
            Piece::from(&all[..0]),
            Piece::from(&all[..7]),
            Piece::from(memory),
            Piece::from(&all[60..60]),
            Piece::from(&all[60..]),
        ];
        for room in 1..=101 {
            let mut cursor = Cursor::new(&pieces);
            let mut got = Vec::new();
            while cursor.left() > 0 {
                let mut bytes = vec![0; room.min(cursor.left())];
                cursor.fill(&mut bytes);
                got.extend(bytes);
            }
            assert_eq!(got, all, "rooms of {room}");
        }
    }
}
