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

/// A transport's side of kept data. All calls are made under RCU.
pub trait Holder: Send + Sync + 'static {
    /// Copies `dst.len()` bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that is not all inside the data.
    fn copy_to(&self, hold: &Hold, offset: usize, dst: &mut [u8]) -> Result;

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
