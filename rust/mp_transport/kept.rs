// SPDX-License-Identifier: GPL-2.0

//! Received frames that a function keeps beyond the call that gave them to it
//! (`IDT-FN-2`, `IDT-MSG-6`).
//!
//! The data of a [`KeptFrame`] stays where it arrived, in memory of its
//! transport, until the frame is dropped; or in a private copy, where the
//! transport does not hold data for others. Transports hold data through an
//! [`Anchor`]: it belongs to this module, refers to the transport's [`Holder`],
//! and is cut off from it before the holder's memory or code may vanish. From
//! then on the data is gone, and the frame is an empty shell that fails to copy.

use crate::{
    frame::{
        gather,
        scatter,
        RxData,
        FUNC_HDR_MAX, //
    },
    peer::Peer, //
};
use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use mp_bindings::mp_frag;
use mp_kernel::{
    error,
    sync::RcuArc, //
};
use mp_proto::{
    memory::Parts,
    wire::MsgHdr, //
};

/// What a transport needs to know of data it holds.
#[derive(Clone, Copy)]
pub struct Hold {
    /// The transport's own name for the data.
    pub token: u64,
    /// Where the data lies in the transport's memory.
    pub parts: Parts,
}

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
            let dst = unsafe { core::slice::from_raw_parts_mut(piece.buf, n) };
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

/// A transport's side of kept data. All calls are made under RCU.
pub trait Holder: Send + Sync + 'static {
    /// Copies `dst.len()` bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that is not all inside the data.
    fn copy_to(&self, hold: &Hold, offset: usize, dst: &mut [u8]) -> Result;

    /// Begins to copy all of the data into `buffers`, which have room for it, one
    /// after the other, and tells `done` when that has come to an end.
    ///
    /// # Errors
    ///
    /// Gives `done` back if it cannot: the data is for [`copy_to`](Self::copy_to).
    fn sync(&self, hold: &Hold, buffers: &Buffers<'_>, done: Completion) -> Result<(), Completion> {
        let _ = (hold, buffers);
        Err(done)
    }

    /// The data is of no more use; called once. Any context up to softirq, also
    /// from within the reception of another frame.
    fn release(&self, hold: &Hold);
}

/// A [`Holder`] behind a thin pointer.
struct HolderRef(Arc<dyn Holder>);

/// The way from kept frames to the one who holds their data.
pub struct Anchor {
    holder: RcuArc<HolderRef>,
}

impl Anchor {
    /// An anchor on `holder`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(holder: Arc<dyn Holder>) -> Result<Arc<Self>> {
        let this = Self {
            holder: RcuArc::empty(),
        };
        drop(
            this.holder
                .replace(Some(Arc::new(HolderRef(holder), GFP_KERNEL)?)),
        );
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Cuts all kept frames off their data. No call into the holder is under way
    /// or can start when this returns. Sleeps.
    pub fn close(&self) {
        drop(self.holder.replace(None));
    }

    /// The handle of data that the holder holds from now on.
    pub fn hold(self: &Arc<Self>, hold: Hold) -> Kept {
        Kept(Place::Held(Held {
            anchor: self.clone(),
            hold,
        }))
    }
}

/// Data in the hands of a transport.
struct Held {
    anchor: Arc<Anchor>,
    hold: Hold,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(holder) = self.anchor.holder.load(&rcu::read_lock()) {
            holder.0.release(&self.hold);
        }
    }
}

/// Bytes in each piece of a [`Copied`]: memory that can be had in any context.
const PIECE: usize = 4096;

/// A private copy.
struct Copied {
    pieces: KVec<KVec<u8>>,
    len: usize,
}

impl Copied {
    fn new(data: &(impl RxData + ?Sized)) -> Result<Self> {
        let flags = GFP_ATOMIC | __GFP_NOWARN;
        let len = data.len();
        let mut pieces = KVec::with_capacity(len.div_ceil(PIECE), flags)?;
        for at in (0..len).step_by(PIECE) {
            let mut piece = KVec::new();
            piece.resize(PIECE.min(len - at), 0, flags)?;
            data.copy_to(at, &mut piece)?;
            pieces.push(piece, flags)?;
        }
        Ok(Self { pieces, len })
    }

    fn copy_to(&self, offset: usize, dst: &mut [u8]) -> Result {
        gather(offset, dst, self.len, |f| {
            self.pieces.iter().try_for_each(|piece| f(piece))
        })
    }
}

/// Where kept data is.
enum Place {
    Copied(Copied),
    Held(Held),
}

/// Data that is kept; dropping it gives it back.
pub struct Kept(Place);

impl Kept {
    /// A private copy of `data`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or that of reading the data.
    pub fn copy(data: &(impl RxData + ?Sized)) -> Result<Self> {
        Ok(Self(Place::Copied(Copied::new(data)?)))
    }
}

impl Kept {
    /// Begins to copy all of the data into `buffers` and tells `done` when that has
    /// come to an end, possibly before this returns. The data must be kept until
    /// then.
    ///
    /// # Errors
    ///
    /// As for [`Buffers::fill`], and `ENOTCONN` if the link has gone down; `done` is
    /// not told then.
    pub fn sync(&self, buffers: &Buffers<'_>, mut done: Completion) -> Result {
        if buffers.room() < self.len() {
            return Err(EMSGSIZE);
        }
        if let Place::Held(held) = &self.0 {
            let guard = rcu::read_lock();
            let holder = held.anchor.holder.load(&guard);
            let holder = holder.ok_or(error::not_connected())?;
            done = match holder.0.sync(&held.hold, buffers, done) {
                Ok(()) => return Ok(()),
                Err(done) => done,
            };
        }
        buffers.fill(self)?;
        done.tell(Ok(()));
        Ok(())
    }
}

impl RxData for Kept {
    fn len(&self) -> usize {
        match &self.0 {
            Place::Copied(copied) => copied.len,
            Place::Held(held) => held.hold.parts.len(),
        }
    }

    /// As for all received data; `ENOTCONN` if the link has gone down meanwhile.
    fn copy_to(&self, offset: usize, dst: &mut [u8]) -> Result {
        match &self.0 {
            Place::Copied(copied) => copied.copy_to(offset, dst),
            Place::Held(held) => match held.anchor.holder.load(&rcu::read_lock()) {
                Some(holder) => holder.0.copy_to(&held.hold, offset, dst),
                None => Err(error::not_connected()),
            },
        }
    }
}

/// A received frame that belongs to the function; dropping it gives its data back.
///
/// It may be dropped in any context up to softirq, by any module, and whatever
/// has become of the link. While it is kept in the ring, the ring does not go on
/// for longer than its length: frames are to be copied out soon.
pub struct KeptFrame {
    peer: Arc<Peer>,
    msg: MsgHdr,
    func_len: u8,
    func_hdr: [u8; FUNC_HDR_MAX],
    data: Kept,
}

impl KeptFrame {
    pub(crate) fn new(peer: &Arc<Peer>, msg: MsgHdr, func_hdr: &[u8], data: Kept) -> Result<Self> {
        let mut this = Self {
            peer: peer.clone(),
            msg,
            func_len: func_hdr.len() as u8,
            func_hdr: [0; FUNC_HDR_MAX],
            data,
        };
        let room = this.func_hdr.get_mut(..func_hdr.len()).ok_or(EMSGSIZE)?;
        room.copy_from_slice(func_hdr);
        Ok(this)
    }

    /// The peer that sent it.
    pub fn src(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// The message header.
    pub fn msg(&self) -> &MsgHdr {
        &self.msg
    }

    /// The function header.
    pub fn func_hdr(&self) -> &[u8] {
        self.func_hdr
            .get(..usize::from(self.func_len))
            .unwrap_or_default()
    }

    /// Copies the data into `buffers`, one after the other (`IDT-MSG-5`).
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the buffers are smaller than the data, and nothing is copied;
    /// `ENOTCONN` if the link has gone down.
    pub fn sync(&self, buffers: &mut [&mut [u8]]) -> Result {
        scatter(&self.data, buffers)
    }

    /// Its data.
    pub fn data(&self) -> &Kept {
        &self.data
    }
}
