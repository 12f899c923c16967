// SPDX-License-Identifier: MIT OR Apache-2.0

//! The way that frames take to another node, and the one to the node itself, in memory.

use super::{Frame, Header};
use crate::Error;
use mp_queue_pair::{provider, Piece};
use std::collections::VecDeque;

/// How the way to a node has ended, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The node has finalized, its process has gone, or there is no such node.
    Gone,
    /// No link leads there.
    Down,
    /// The node has told what cannot be.
    Broken,
}

impl From<provider::End> for End {
    fn from(end: provider::End) -> Self {
        match end {
            provider::End::Closed { .. } | provider::End::Gone => End::Gone,
            provider::End::Down => End::Down,
            provider::End::Broken => End::Broken,
        }
    }
}

/// The way to another node.
pub(crate) trait Wire {
    /// Send a frame; false if there is no room now.
    fn send(&mut self, frame: &Frame<'_>) -> Result<bool, End>;

    /// The next frame. The one before is given back.
    fn receive(&mut self) -> Result<Option<Frame<'_>>, End>;

    /// Let the other node know of everything that was sent and received.
    fn flush(&mut self) -> Result<(), End>;
}

/// A frame in memory: its kind, and the bytes of header and data.
#[derive(Debug, Default)]
pub(crate) struct Packed(u8, Vec<u8>);

impl Packed {
    pub(crate) fn of(frame: &Frame<'_>) -> Self {
        let (header, data) = frame.parts();
        let (bytes, len) = header.bytes();
        let mut packed = bytes.get(..len).unwrap_or_default().to_vec();
        append(&mut packed, &data);
        Packed(header.kind, packed)
    }

    /// Any bytes.
    #[cfg(test)]
    pub(crate) fn raw(kind: u8, bytes: Vec<u8>) -> Self {
        Packed(kind, bytes)
    }

    /// # Errors
    /// [`End::Broken`]: the bytes are none of a frame.
    pub(crate) fn frame(&self) -> Result<Frame<'_>, End> {
        let Packed(kind, bytes) = self;
        let header = Header::read(*kind, bytes).ok_or(End::Broken)?;
        let (_, len) = header.bytes();
        let data = bytes.get(len..).unwrap_or_default();
        header.frame(Piece::Bytes(data)).ok_or(End::Broken)
    }
}

/// Frames in memory: the way from a node to itself.
#[derive(Debug, Default)]
pub(crate) struct Loop {
    frames: VecDeque<Packed>,
    current: Packed,
}

impl Loop {
    /// Most frames on the way.
    const ROOM: usize = 64;
}

/// Copy what is sent, once: whatever others do to the memory, the copy stays as it is.
///
/// # Errors
/// [`Error::MemoryLimit`]: there is no memory for it.
pub(crate) fn copied(data: &Piece<'_>) -> Result<Box<[u8]>, Error> {
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(data.len());
    reserved.map_err(|_| Error::MemoryLimit)?;
    append(&mut bytes, data);
    Ok(bytes.into())
}

/// Copy a frame's data behind what is there.
pub(crate) fn append(to: &mut Vec<u8>, data: &Piece<'_>) {
    match data {
        Piece::Bytes(bytes) => to.extend_from_slice(bytes),
        Piece::Memory(memory) => {
            let at = to.len();
            to.resize(at + memory.len(), 0);
            memory.copy_to(to.get_mut(at..).unwrap_or_default());
        }
    }
}

impl Wire for Loop {
    fn send(&mut self, frame: &Frame<'_>) -> Result<bool, End> {
        let room = self.frames.len() < Self::ROOM;
        if room {
            self.frames.push_back(Packed::of(frame));
        }
        Ok(room)
    }

    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        let Some(next) = self.frames.pop_front() else {
            return Ok(None);
        };
        self.current = next;
        self.current.frame().map(Some)
    }

    fn flush(&mut self) -> Result<(), End> {
        Ok(())
    }
}
