// SPDX-License-Identifier: GPL-2.0-only

//! Received frames that a function keeps beyond the call that gave them to it
//! (`IDT-FN-2`, `IDT-MSG-6`).
//!
//! The data of a [`KeptFrame`] stays where it arrived, in memory of its
//! transport, until the frame is dropped, or until the transport needs the memory
//! and moves the data to a private copy; or it is copied at once, where the
//! transport does not hold data for others. Transports hold data through an
//! [`Anchor`]: it belongs to this module, refers to the transport's [`Holder`],
//! and is cut off from it before the holder's memory or code may vanish. From
//! then on the data is gone, and the frame is an empty shell that fails to copy.

use crate::{
    copied::Copied,
    copy::{
        Buffers,
        Completion, //
    },
    frame::{
        scatter,
        RxData,
        FUNC_HDR_MAX, //
    },
    peer::Peer, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use mp_kernel::{
    bytes::Writer,
    error,
    new_spinlock_bh,
    sync::{
        RcuArc,
        SpinLockBh, //
    }, //
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
    /// Fill all of `dst` with bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if so many are not there.
    fn copy_to(&self, hold: &Hold, offset: usize, dst: Writer<'_>) -> Result;

    /// Begin to copy all of the data into `buffers`, which have room for it, one
    /// after the other, and tell `done` when that has come to an end. The data
    /// is not [moved out](Spot::move_out) meanwhile.
    ///
    /// # Errors
    ///
    /// Gives `done` back if it cannot: the data is for [`copy_to`](Self::copy_to).
    fn sync(&self, hold: &Hold, buffers: &Buffers<'_>, done: Completion) -> Result<(), Completion> {
        let _ = (hold, buffers);
        Err(done)
    }

    /// No copy of [`sync`](Self::sync) is under way any more: the data can be
    /// [moved out](Spot::move_out), unless it has been released. Any context up to
    /// softirq.
    fn unpinned(&self, _hold: &Hold) {}

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

    /// Cut all kept frames off their data. No call into the holder is under way
    /// or can start when this returns. Sleeps.
    pub fn close(&self) {
        drop(self.holder.replace(None));
    }

    /// Call `f` with the holder, unless the data has been cut off.
    fn with(&self, f: impl FnOnce(&dyn Holder)) {
        if let Some(holder) = self.holder.load(&rcu::read_lock()) {
            f(&*holder.0);
        }
    }

    /// The handle of data that the holder holds from now on, and its place, by which
    /// the holder can move it out.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn hold(self: &Arc<Self>, hold: Hold) -> Result<(Kept, Arc<Spot>)> {
        let spot = Arc::pin_init(Spot::new(hold), GFP_ATOMIC)?;
        let held = Held {
            anchor: self.clone(),
            spot: spot.clone(),
        };
        Ok((Kept(Place::Held(held)), spot))
    }
}

/// Where data is that a transport holds, or has held.
enum State {
    /// And so many copies are under way, for which it must stay where it is.
    Held(u32),
    /// The transport has moved it out.
    Copied(Copied),
    /// Nobody needs it any more.
    Released,
}

/// The place of data that a transport holds.
#[pin_data]
pub struct Spot {
    hold: Hold,
    #[pin]
    state: SpinLockBh<State>,
}

impl Spot {
    fn new(hold: Hold) -> impl PinInit<Self> {
        pin_init!(Self {
            hold,
            state <- new_spinlock_bh!(State::Held(0)),
        })
    }

    /// Copy the data to private memory; whether the transport may use its own for
    /// something else from now on. `false` if the data is being copied, or has been
    /// released, which the transport has been or is being told.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or that of reading the data.
    pub fn move_out(&self, holder: &dyn Holder) -> Result<bool> {
        let mut state = self.state.lock();
        if !matches!(*state, State::Held(0)) {
            return Ok(false);
        }
        let (hold, len) = (&self.hold, self.hold.parts.len());
        *state = State::Copied(Copied::new(len, |at, dst| holder.copy_to(hold, at, dst))?);
        Ok(true)
    }
}

/// Data in the hands of a transport.
struct Held {
    anchor: Arc<Anchor>,
    spot: Arc<Spot>,
}

impl Held {
    fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result {
        // Locked, so that the data does not move meanwhile.
        match &*self.spot.state.lock() {
            State::Copied(copied) => copied.copy_to(offset, dst),
            _ => match self.anchor.holder.load(&rcu::read_lock()) {
                Some(holder) => holder.0.copy_to(&self.spot.hold, offset, dst),
                None => Err(error::not_connected()),
            },
        }
    }
}

impl Held {
    /// Let the holder copy, and pin the data meanwhile.
    fn sync(&self, buffers: &Buffers<'_>, done: Completion) -> Result<(), Completion> {
        let guard = rcu::read_lock();
        let Some(holder) = self.anchor.holder.load(&guard) else {
            return Err(done);
        };
        let Some(pin) = Pin::new(self) else {
            return Err(done);
        };
        let copied = holder.0.sync(&self.spot.hold, buffers, done.after(pin));
        copied.map_err(Completion::unpinned)
    }
}

/// Keeps data where it is until it is dropped.
///
/// # Invariants
///
/// It has been counted in the state of `spot`.
pub(crate) struct Pin {
    anchor: Arc<Anchor>,
    spot: Arc<Spot>,
}

impl Pin {
    /// Pin data that the transport has.
    fn new(held: &Held) -> Option<Self> {
        match &mut *held.spot.state.lock() {
            State::Held(pins) => *pins += 1,
            _ => return None,
        }
        // INVARIANT: Just counted.
        Some(Self {
            anchor: held.anchor.clone(),
            spot: held.spot.clone(),
        })
    }

    /// Count it off; whether it was the last one of data that the transport holds.
    fn remove(&self) -> bool {
        match &mut *self.spot.state.lock() {
            State::Held(pins) => {
                *pins = pins.saturating_sub(1);
                *pins == 0
            }
            _ => false,
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if self.remove() {
            self.anchor.with(|holder| holder.unpinned(&self.spot.hold));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let last = core::mem::replace(&mut *self.spot.state.lock(), State::Released);
        if matches!(last, State::Held(_)) {
            self.anchor.with(|holder| holder.release(&self.spot.hold));
        }
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
        let copied = Copied::new(data.len(), |at, dst| data.copy_to(at, dst))?;
        Ok(Self(Place::Copied(copied)))
    }
}

impl Kept {
    /// Begin to copy all of the data into `buffers` and tell `done` when that has
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
            done = match held.sync(buffers, done) {
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
            Place::Copied(copied) => copied.len(),
            Place::Held(held) => held.spot.hold.parts.len(),
        }
    }

    /// As for all received data; `ENOTCONN` if the link has gone down meanwhile.
    fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result {
        match &self.0 {
            Place::Copied(copied) => copied.copy_to(offset, dst),
            Place::Held(held) => held.copy_to(offset, dst),
        }
    }
}

/// A received frame that belongs to the function; dropping it gives its data back.
///
/// It may be dropped in any context up to softirq, by any module, and whatever
/// has become of the link. Its data is copied once if it is copied out soon, and
/// twice if the transport has needed its memory before.
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

    /// Copy the data into `buffers`, one after the other (`IDT-MSG-5`).
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
