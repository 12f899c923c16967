// SPDX-License-Identifier: GPL-2.0-only

//! Copies that may go on after the call that starts them: where their data goes, and
//! who is told of their end.

use crate::{
    frame::RxData,
    kept::Pin, //
};
use core::ptr::NonNull;
use kernel::prelude::*;
use mp_bindings::mp_frag;
use mp_kernel::bytes;

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

    /// The same buffers for longer than the call that has them; `None` if there are
    /// many.
    pub fn to_owned(&self) -> Option<OwnedBuffers> {
        let mut pieces = [mp_frag::default(); OWNED];
        let room = pieces.get_mut(..self.0.len())?;
        for (to, &mp_frag { buf, len }) in room.iter_mut().zip(self.0) {
            *to = mp_frag { buf, len };
        }
        // INVARIANT: Those of this type.
        Some(OwnedBuffers {
            pieces,
            count: self.0.len(),
        })
    }

    /// Bytes in all pieces.
    pub fn room(&self) -> usize {
        let lengths = self.0.iter().map(|piece| piece.len as usize);
        lengths.fold(0, usize::saturating_add)
    }

    /// Copy all of `data` into the pieces.
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
            let start = NonNull::new(piece.buf).ok_or(EINVAL)?;
            // SAFETY: Valid by the type invariants, and nobody else touches it.
            unsafe { bytes::fill(start, n, |dst| data.copy_to(at, dst)) }?;
            at += n;
        }
        Ok(())
    }
}

/// Most pieces of [`OwnedBuffers`].
const OWNED: usize = 8;

/// [`Buffers`] whose description does not belong to the caller.
///
/// # Invariants
///
/// As for [`Buffers`].
pub struct OwnedBuffers {
    pieces: [mp_frag; OWNED],
    count: usize,
}

// SAFETY: By the type invariants the memory may be written by whoever has this.
unsafe impl Send for OwnedBuffers {}

impl OwnedBuffers {
    /// The same buffers.
    pub fn lend(&self) -> Buffers<'_> {
        // INVARIANT: Those of this type.
        Buffers(self.pieces.get(..self.count).unwrap_or_default())
    }
}

/// What is called at the end of a copy: `mp_dma_cb` and its argument.
type Callback = unsafe extern "C" fn(c_int, *mut c_void);

/// Who is told how a copy has ended (`IDT-DMA-2`).
pub struct Completion {
    call: Callback,
    data: *mut c_void,
    /// Of what is copied, until the end.
    pin: Option<Pin>,
}

// SAFETY: By the contract of `new` it may be told anywhere.
unsafe impl Send for Completion {}

impl Completion {
    /// Tell by calling `call` with the status and `data`.
    ///
    /// # Safety
    ///
    /// That call must be sound, once, wherever the copy may end.
    pub unsafe fn new(call: Callback, data: *mut c_void) -> Self {
        Self {
            call,
            data,
            pin: None,
        }
    }

    /// The same, with a pin that goes before it tells.
    pub(crate) fn after(self, pin: Pin) -> Self {
        let pin = Some(pin);
        Self { pin, ..self }
    }

    /// The same without a pin.
    pub(crate) fn unpinned(self) -> Self {
        Self { pin: None, ..self }
    }

    /// Tell.
    pub fn tell(self, result: Result) {
        self.tell_status(result.map_or_else(|e| e.to_errno(), |()| 0));
    }

    fn tell_status(self, status: c_int) {
        drop(self.pin);
        // SAFETY: By the contract of `new`; this is the one time.
        unsafe { (self.call)(status, self.data) };
    }

    /// As C code has it, which tells it or gives it [back](RawCompletion::back).
    ///
    /// # Errors
    ///
    /// Itself without memory.
    pub(crate) fn into_raw(self) -> Result<RawCompletion, Self> {
        if self.pin.is_none() {
            let Self { call, data, .. } = self;
            let boxed = false;
            return Ok(RawCompletion { call, data, boxed });
        }
        let Ok(room) = KBox::<Self>::new_uninit(GFP_ATOMIC) else {
            return Err(self);
        };
        Ok(RawCompletion {
            call: Self::ended,
            data: KBox::into_raw(KBox::write(room, self)).cast(),
            boxed: true,
        })
    }

    /// # Safety
    ///
    /// `data` is a leaked box of this type, which is given up.
    unsafe extern "C" fn ended(status: c_int, data: *mut c_void) {
        // SAFETY: As the caller promises.
        KBox::into_inner(unsafe { KBox::from_raw(data.cast::<Self>()) }).tell_status(status);
    }
}

/// A [`Completion`] in the hands of C code, which calls `call` once with `data`.
pub(crate) struct RawCompletion {
    pub(crate) call: Callback,
    pub(crate) data: *mut c_void,
    boxed: bool,
}

impl RawCompletion {
    /// The completion.
    ///
    /// # Safety
    ///
    /// It has not been told, and will not be.
    pub(crate) unsafe fn back(self) -> Completion {
        let Self { call, data, boxed } = self;
        match boxed {
            // SAFETY: The box that `into_raw` has made.
            true => KBox::into_inner(unsafe { KBox::from_raw(data.cast::<Completion>()) }),
            // SAFETY: The parts of a completion that has not been told.
            false => unsafe { Completion::new(call, data) },
        }
    }
}
