// SPDX-License-Identifier: GPL-2.0-only

//! A private copy of received data, in pieces that can be had in any context.

use crate::frame::gather;
use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*, //
};
use mp_kernel::bytes::{
    self,
    SharedBytes,
    Writer, //
};

/// Bytes in each piece.
const PIECE: usize = 4096;

/// A private copy.
pub(crate) struct Copied {
    pieces: KVec<KVec<u8>>,
    len: usize,
}

impl Copied {
    /// Copy `len` bytes, each piece by a call of `read` with its offset.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` if `read` leaves bytes out, or that of `read`.
    pub(crate) fn new(len: usize, read: impl Fn(usize, Writer<'_>) -> Result) -> Result<Self> {
        let flags = GFP_ATOMIC | __GFP_NOWARN;
        let mut pieces = KVec::with_capacity(len.div_ceil(PIECE), flags)?;
        for at in (0..len).step_by(PIECE) {
            let mut piece = KVec::new();
            bytes::append(&mut piece, PIECE.min(len - at), flags, |dst| read(at, dst))?;
            pieces.push(piece, flags)?;
        }
        Ok(Self { pieces, len })
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Call `f` with each piece in order and stop at the first error.
    pub(crate) fn for_each_piece<'a>(
        &'a self,
        f: &mut dyn FnMut(SharedBytes<'a>) -> Result,
    ) -> Result {
        let mut pieces = self.pieces.iter();
        pieces.try_for_each(|piece| f(piece.as_slice().into()))
    }

    /// As [`RxData::copy_to`](crate::frame::RxData::copy_to).
    pub(crate) fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result {
        gather(offset, dst, |f| self.for_each_piece(f))
    }
}
