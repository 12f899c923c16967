// SPDX-License-Identifier: GPL-2.0

//! Copies that may go on after the call that starts them: where their data goes, and
//! who is told of their end.

use crate::frame::RxData;
use core::slice;
use kernel::prelude::*;
use mp_bindings::mp_frag;

/// Memory for a frame's data, which nobody else touches until the copy has ended.
///
/// # Invariants
///
/// Each piece is valid for writes of its length until then.
pub struct Buffers<'a>(&'a [mp_frag]);

impl<'a> Buffers<'a> {
    /// # Safety
    ///
    /// The caller guarantees the type invariants.
    pub unsafe fn new(pieces: &'a [mp_frag]) -> Self {
        // INVARIANT: As the caller promises.
        Self(pieces)
    }

    /// The pieces, as C has them.
    pub fn pieces(&self) -> &'a [mp_frag] {
        self.0
    }

    /// Bytes in all pieces.
    pub fn room(&self) -> usize {
        let lengths = self.0.iter().map(|piece| piece.len as usize);
        lengths.fold(0, usize::saturating_add)
    }

    /// Copies all of `data` into the pieces.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if they are too small, `EINVAL` for a piece that is nowhere, or
    /// that of the data.
    pub fn fill(&self, data: &(impl RxData + ?Sized)) -> Result {
        if self.room() < data.len() {
            return Err(EMSGSIZE);
        }
        let mut at = 0;
        for piece in self.0 {
            let n = (piece.len as usize).min(data.len() - at);
            if n == 0 {
                continue;
            }
            if piece.buf.is_null() {
                return Err(EINVAL);
            }
            // SAFETY: Valid by the type invariants, and nobody else touches it.
            let dst = unsafe { slice::from_raw_parts_mut(piece.buf, n) };
            data.copy_to(at, dst)?;
            at += n;
        }
        Ok(())
    }
}

/// Who is told how a copy has ended (`IDT-DMA-2`).
pub struct Completion {
    call: unsafe extern "C" fn(c_int, *mut c_void),
    data: *mut c_void,
}

// SAFETY: By the contract of `new` it may be told anywhere.
unsafe impl Send for Completion {}

impl Completion {
    /// Tells by calling `call` with the status and `data`.
    ///
    /// # Safety
    ///
    /// That call must be sound, once, in process or softirq context.
    pub unsafe fn new(call: unsafe extern "C" fn(c_int, *mut c_void), data: *mut c_void) -> Self {
        Self { call, data }
    }

    /// Tells.
    pub fn tell(self, result: Result) {
        let status = result.map_or_else(|e| e.to_errno(), |()| 0);
        // SAFETY: By the contract of `new`; this is the one time.
        unsafe { (self.call)(status, self.data) };
    }

    /// What it calls, for C code that tells instead.
    pub fn into_raw(self) -> (unsafe extern "C" fn(c_int, *mut c_void), *mut c_void) {
        (self.call, self.data)
    }
}
