// SPDX-License-Identifier: MIT OR Apache-2.0

//! The two windows of a session as the engine reaches them.

use crate::piece::{Cursor, Piece};
use mp_fabric::{
    vm_memory::{Bytes, VolatileSlice},
    Map, RemoteMemory,
};
use mp_proto::memory::{Inbound, OutOfBounds, Outbound, Part};
use std::sync::atomic::{fence, Ordering};

/// What a window is cleared with.
static ZEROS: [u8; 4096] = [0; 4096];

/// The own window: the partner writes it, this process reads it.
#[derive(Debug)]
pub(crate) struct Near(pub(crate) Map);

/// The partner's window: this process only writes it.
#[derive(Debug)]
pub(crate) struct Far<'a, R>(pub(crate) &'a R);

/// Do the same by windows that are mapped and by those that are sent to. Each has code of its own: a
/// mapped one costs one branch for all of it.
macro_rules! with_far {
    ($shared:expr, $far:ident => $call:expr) => {
        match &$shared.far {
            mp_fabric::PartnerMemory::Mapped(memory) => {
                let $far = &crate::window::Far(memory);
                $call
            }
            mp_fabric::PartnerMemory::Sent(memory) => {
                let $far = &crate::window::Far(memory);
                $call
            }
        }
    };
}

pub(crate) use with_far;

impl Near {
    /// A part of the window.
    #[inline]
    pub(crate) fn part(&self, part: Part) -> Result<VolatileSlice<'_>, OutOfBounds> {
        let slice = self.0.volatile().subslice(part.off, part.len);
        slice.map_err(|_| OutOfBounds)
    }
}

impl<R: RemoteMemory> Far<'_, R> {
    /// Write the next `len` bytes that a cursor has.
    #[inline]
    pub(crate) fn gather(
        &self,
        off: usize,
        len: usize,
        from: &mut Cursor<'_>,
    ) -> Result<(), OutOfBounds> {
        let mut at = off;
        from.take(len, |piece| {
            let (here, len) = (at, piece.len());
            at += len;
            match piece {
                Piece::Bytes(bytes) => self.0.write(here, bytes),
                Piece::Memory(memory) => self.0.copy(here, memory),
            }
        })
        .map_err(|_| OutOfBounds)
    }
}

impl Inbound for Near {
    fn size(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        let word = self.0.word(off).ok_or(OutOfBounds)?;
        Ok(word.load(Ordering::Relaxed).to_le())
    }
    #[inline]
    fn load_line(&self, off: usize) -> Result<[u64; 8], OutOfBounds> {
        let words = self.0.line(off).ok_or(OutOfBounds)?;
        Ok(words
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed).to_le()))
    }
    #[inline]
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        let read = self.0.volatile().read_slice(buf, off);
        read.map_err(|_| OutOfBounds)
    }
    fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds> {
        let part = self.0.volatile().subslice(off, len);
        let mut left = part.map_err(|_| OutOfBounds)?;
        while !left.is_empty() {
            let here = left.len().min(ZEROS.len());
            let written = ZEROS.get(..here).map(|zeros| left.write_slice(zeros, 0));
            written.ok_or(OutOfBounds)?.map_err(|_| OutOfBounds)?;
            left = left.offset(here).map_err(|_| OutOfBounds)?;
        }
        Ok(())
    }
    #[inline]
    fn rmb(&self) {
        fence(Ordering::Acquire);
    }
}

impl<R: RemoteMemory> Outbound for Far<'_, R> {
    fn size(&self) -> usize {
        self.0.size()
    }
    #[inline]
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        self.0.store(off, val).map_err(|_| OutOfBounds)
    }
    #[inline]
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        self.0.write(off, buf).map_err(|_| OutOfBounds)
    }
    #[inline]
    fn store_line(&self, off: usize, words: &[u64; 8]) -> Result<(), OutOfBounds> {
        self.0.store_line(off, words).map_err(|_| OutOfBounds)
    }
    #[inline]
    fn wmb(&self) {
        self.0.flush();
    }
    #[inline]
    fn release(&self) {
        fence(Ordering::Release);
    }
    #[inline]
    fn mb(&self) {
        self.0.barrier();
    }
}
