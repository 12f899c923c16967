// SPDX-License-Identifier: GPL-2.0-only

//! A private copy of received data, in pieces that can be had in any context.

use crate::frame::gather;
use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*, //
};

/// Bytes in each piece.
const PIECE: usize = 4096;

/// A private copy.
pub(crate) struct Copied {
    pieces: KVec<KVec<u8>>,
    len: usize,
}

impl Copied {
    /// Copies `len` bytes, each piece by a call of `read` with its offset.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or that of `read`.
    pub(crate) fn new(len: usize, read: impl Fn(usize, &mut [u8]) -> Result) -> Result<Self> {
        let flags = GFP_ATOMIC | __GFP_NOWARN;
        let mut pieces = KVec::with_capacity(len.div_ceil(PIECE), flags)?;
        for at in (0..len).step_by(PIECE) {
            let mut piece = KVec::new();
            piece.resize(PIECE.min(len - at), 0, flags)?;
            read(at, &mut piece)?;
            pieces.push(piece, flags)?;
        }
        Ok(Self { pieces, len })
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Calls `f` with each piece in order and stops at the first error.
    pub(crate) fn for_each_piece(&self, f: &mut dyn FnMut(&[u8]) -> Result) -> Result {
        self.pieces.iter().try_for_each(|piece| f(piece))
    }

    /// Copies `dst.len()` bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that is not all inside the data.
    pub(crate) fn copy_to(&self, offset: usize, dst: &mut [u8]) -> Result {
        gather(offset, dst, self.len, |f| self.for_each_piece(f))
    }
}
