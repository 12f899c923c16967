// SPDX-License-Identifier: GPL-2.0-only

//! Frames: data fragments with a function header, on the way out
//! ([`Frame`]) and on the way in ([`RxFrame`]).

use crate::{
    kept::{
        Kept,
        KeptFrame, //
    },
    peer::{
        Peer,
        SendError, //
    }, //
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    bytes::{
        SharedBytes,
        Writer, //
    },
    net::napi::Napi, //
};
pub use mp_proto::wire::FUNC_HDR_MAX;
use mp_proto::{
    sending::{
        self,
        Payload, //
    },
    wire::{
        MsgHdr,
        Priority, //
    }, //
};

/// The id in the message header that selects the receiving function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FuncId(pub u32);

/// What a frame carries, and what happens to it in the end.
#[allow(clippy::len_without_is_empty)]
pub trait FrameBody: Send + Sync + 'static {
    /// Number of data bytes in all fragments.
    fn len(&self) -> usize;

    /// Call `f` with each fragment in order and stop at the first error.
    ///
    /// Called once per copy of the frame, in softirq or process context. Fragments live
    /// as long as the body is borrowed. A transport may read them until it drops its
    /// clone of the frame: nobody has the body mutably before. Their bytes may change.
    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result;

    /// The destructor of the frame (`IDT-FRM-4`): runs exactly once, when the
    /// last reference is gone. `Err` if any copy failed (`IDT-MSG-3`), or if the
    /// frame was dropped unsent (`ECANCELED`).
    ///
    /// Transports may drop the last reference under the lock of a transmit queue. Hence
    /// this must not send, and must not take a lock that is held where frames are sent.
    fn complete(&mut self, status: Result);
}

/// The status of a frame that nobody has sent.
const UNSENT: i32 = -(kernel::bindings::ECANCELED as i32);

/// The part of a frame that does not depend on what it carries.
struct Header {
    func: FuncId,
    func_len: u8,
    func_hdr: [u8; FUNC_HDR_MAX],
    /// [`UNSENT`], zero once a copy was sent, or the first error; a negative errno.
    status: Atomic<i32>,
}

struct Inner<B: FrameBody + ?Sized> {
    header: Header,
    body: B,
}

impl<B: FrameBody + ?Sized> Drop for Inner<B> {
    fn drop(&mut self) {
        let status = kernel::error::to_result(self.header.status.load(Relaxed));
        self.body.complete(status);
    }
}

/// A frame to send.
///
/// Cloning takes another reference to the same data (`IDT-FRM-3`): a broadcast
/// sends clones. When the last one is dropped, the body's
/// [`complete`](FrameBody::complete) tells how it went.
#[derive(Clone)]
pub struct Frame {
    inner: Arc<Inner<dyn FrameBody>>,
    priority: Priority,
}

impl Frame {
    /// Make a frame for function `func` of every receiver.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` for a header above [`FUNC_HDR_MAX`], `ENOMEM`. The body has
    /// then been completed with an error.
    pub fn new(
        func: FuncId,
        func_hdr: &[u8],
        priority: Priority,
        mut body: impl FrameBody,
    ) -> Result<Self> {
        let mut header = Header {
            func,
            func_len: 0,
            func_hdr: [0; FUNC_HDR_MAX],
            status: Atomic::new(UNSENT),
        };
        let Some(room) = header.func_hdr.get_mut(..func_hdr.len()) else {
            body.complete(Err(EMSGSIZE));
            return Err(EMSGSIZE);
        };
        room.copy_from_slice(func_hdr);
        header.func_len = func_hdr.len() as u8;
        // On failure the unborn `Inner` is dropped, which completes the body.
        let inner = Arc::new(Inner { header, body }, GFP_ATOMIC)?;
        Ok(Self { inner, priority })
    }

    /// The function this is for.
    #[inline]
    pub fn func(&self) -> FuncId {
        self.inner.header.func
    }

    /// Whether it overtakes ordinary frames (`IDT-ID-6`).
    #[inline]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// The same frame with that priority.
    pub fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// The function header.
    #[inline]
    pub fn func_hdr(&self) -> &[u8] {
        let h = &self.inner.header;
        h.func_hdr
            .get(..usize::from(h.func_len))
            .unwrap_or_default()
    }

    /// Note that a copy was sent.
    pub(crate) fn sent(&self) {
        let _ = self.inner.header.status.cmpxchg(UNSENT, 0, Relaxed);
    }

    /// Note that a copy could not be sent, for good; the first error stays.
    pub fn fail(&self, error: Error) {
        let status = &self.inner.header.status;
        for old in [UNSENT, 0] {
            if status.cmpxchg(old, error.to_errno(), Relaxed).is_ok() {
                return;
            }
        }
    }

    /// What it carries.
    #[inline]
    pub fn body(&self) -> &dyn FrameBody {
        &self.inner.body
    }
}

impl Payload for Frame {
    type Error = Error;
    const OUTSIDE: Error = EIO;

    #[inline]
    fn func_hdr(&self) -> &[u8] {
        Frame::func_hdr(self)
    }

    #[inline]
    fn data_len(&self) -> u32 {
        self.body().len() as u32
    }

    fn failed(&self, why: sending::SendError<Error>) {
        self.fail(SendError::from(why).into());
    }
}

/// Data of a frame that has arrived; usually still in memory the sender shares.
#[allow(clippy::len_without_is_empty)]
pub trait RxData {
    /// Number of bytes.
    fn len(&self) -> usize;

    /// Fill all of `dst` with bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if so many are not there.
    fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result;

    /// Keep the data for longer than the call that lends it. A transport that
    /// can hold it where it is does so; this makes a private copy.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn keep(&self) -> Result<Kept> {
        Kept::copy(self)
    }
}

/// Data that has been copied out of a frame.
impl<const N: usize> RxData for [u8; N] {
    fn len(&self) -> usize {
        N
    }

    fn copy_to(&self, offset: usize, mut dst: Writer<'_>) -> Result {
        let end = offset.checked_add(dst.remaining()).ok_or(EINVAL)?;
        dst.write(self.get(offset..end).ok_or(EINVAL)?.into())
    }
}

/// Fill all of `dst` with bytes from `offset` on out of the fragments through which
/// `walk` goes.
///
/// # Errors
///
/// `EINVAL` if so many are not there, or that of `walk`.
pub(crate) fn gather<'a>(
    offset: usize,
    mut dst: Writer<'_>,
    walk: impl FnOnce(&mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result,
) -> Result {
    let mut skip = offset;
    walk(&mut |fragment| {
        let (skipped, rest) = fragment.split_at(skip);
        skip -= skipped.len();
        let (piece, _) = rest.split_at(dst.remaining());
        dst.write(piece)
    })?;
    // An offset behind the end is not inside, though there is nothing to copy.
    (skip == 0 && dst.remaining() == 0)
        .then_some(())
        .ok_or(EINVAL)
}

/// Copy all of `data` into `buffers`, one after the other (`IDT-MSG-5`).
pub(crate) fn scatter(data: &(impl RxData + ?Sized), buffers: &mut [&mut [u8]]) -> Result {
    let room: usize = buffers.iter().map(|b| b.len()).sum();
    if room < data.len() {
        return Err(EMSGSIZE);
    }
    let mut at = 0;
    for buffer in buffers {
        let n = buffer.len().min(data.len() - at);
        data.copy_to(at, buffer.get_mut(..n).ok_or(EINVAL)?.into())?;
        at += n;
    }
    Ok(())
}

/// Where a frame is being received.
pub struct RxContext<'a> {
    /// The NAPI instance whose poll this is, if it is one.
    pub napi: Option<&'a Napi>,
    /// Index of the receive queue at the peer's link.
    pub queue: u16,
    /// Whether it came with priority frames, ahead of the queue.
    pub priority: Priority,
    /// Whether no other frame follows at once, as far as is known.
    pub last: bool,
}

/// A frame that has arrived, lent to the function for the time of
/// [`receive`](crate::function::Function::receive).
///
/// Headers are private copies that have been checked; the data is not: another
/// host may still change it, so it is only ever copied out.
pub struct RxFrame<'a> {
    pub(crate) peer: &'a Arc<Peer>,
    pub(crate) msg: MsgHdr,
    pub(crate) func_hdr: &'a [u8],
    pub(crate) data: &'a dyn RxData,
}

impl RxFrame<'_> {
    /// The peer that sent it.
    #[inline]
    pub fn src(&self) -> &Arc<Peer> {
        self.peer
    }

    /// The message header.
    #[inline]
    pub fn msg(&self) -> &MsgHdr {
        &self.msg
    }

    /// The function header.
    #[inline]
    pub fn func_hdr(&self) -> &[u8] {
        self.func_hdr
    }

    /// Copy the data into `buffers`, one after the other (`IDT-MSG-5`).
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the buffers are smaller than the data; nothing is copied then.
    pub fn sync(&self, buffers: &mut [&mut [u8]]) -> Result {
        scatter(self.data, buffers)
    }

    /// Make the frame the caller's own (`IDT-FN-2`).
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the data has to be copied and there is no memory for it.
    pub fn keep(self) -> Result<KeptFrame> {
        KeptFrame::new(self.peer, self.msg, self.func_hdr, self.data.keep()?)
    }
}

impl<'a> Deref for RxFrame<'a> {
    type Target = dyn RxData + 'a;

    fn deref(&self) -> &Self::Target {
        self.data
    }
}
