// SPDX-License-Identifier: GPL-2.0-only

//! `mp_trans`: transport services in C.

use super::{
    area::Area,
    exported,
    frame::{
        FrameObject,
        Origin, //
    },
    func::lent,
    give,
    give_or_null,
    lend,
    peer::{
        self,
        counters, //
    },
    share,
    status,
    take,
    transfer::Local, //
};
use crate::{
    copy::{
        Buffers,
        Completion, //
    },
    frame::{
        Frame,
        RxData,
        FUNC_HDR_MAX, //
    },
    kept::{
        Anchor,
        Hold,
        Holder,
        Kept, //
    },
    peer::{
        Link,
        Peer,
        SendError, //
    },
    service,
    transport::{
        Announcements,
        TransportEntry, //
    }, //
};
use core::ptr;
use kernel::{
    error::to_result,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};
use mp_bindings::{
    mp_frag,
    mp_frame,
    mp_stats,
    mp_trans, //
};
use mp_kernel::{
    bytes::Writer,
    new_spinlock_bh,
    notifier::{
        Listener,
        ModuleGoes, //
    },
    sync::{
        RcuArc,
        SpinLockBh, //
    }, //
};
use mp_proto::{
    memory::{
        Part,
        Parts, //
    },
    wire::{
        Envelope,
        PeerData,
        PeerId,
        WayTag, //
    }, //
};

/// What sysfs shows as type of the peers.
const NAME: &CStr = c"external";

/// Most data bytes of a frame: what any transport can carry.
const MAX_FRAME: usize = 1 << 17;

/// Most transport services in C.
const MAX_TRANSPORTS: usize = 8;

/// Those that are registered.
static REGISTERED: [RcuArc<TransObject>; MAX_TRANSPORTS] =
    [const { RcuArc::empty() }; MAX_TRANSPORTS];

/// An `mp_trans` and what is behind it.
#[repr(C)]
#[pin_data]
pub(super) struct TransObject {
    c: Opaque<mp_trans>,
    private: Area,
    entry: Arc<TransportEntry>,
    /// While it is registered: the way to the frames that functions keep.
    anchor: RcuArc<Anchor>,
    /// These frames: pointers that stand for a reference each.
    #[pin]
    held: SpinLockBh<KVec<usize>>,
    /// The peers that it has entered for announcements, by the ids announced.
    #[pin]
    announced: Mutex<KVec<(PeerId, Arc<Peer>)>>,
    /// Keeps registration and its end apart.
    #[pin]
    registered: Mutex<bool>,
}

// SAFETY: The callbacks do not change while it is registered; the header's contract.
unsafe impl Send for TransObject {}
// SAFETY: As above.
unsafe impl Sync for TransObject {}

impl TransObject {
    fn new(entry: Arc<TransportEntry>, priv_len: u32) -> Result<Arc<Self>> {
        let private = Area::new(priv_len as usize, GFP_KERNEL)?;
        let c = mp_trans {
            id: entry.id(),
            ..Default::default()
        };
        Arc::pin_init(
            pin_init!(Self {
                c: Opaque::new(c),
                private,
                entry,
                anchor: RcuArc::empty(),
                held <- new_spinlock_bh!(KVec::new()),
                announced <- new_mutex!(KVec::new()),
                registered <- new_mutex!(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Its entry in the registry, once it is there.
    pub(super) fn entry(&self) -> &Arc<TransportEntry> {
        &self.entry
    }

    /// What C has put in.
    fn table(&self) -> mp_trans {
        // SAFETY: Valid, and not written while it is registered; the header's contract.
        unsafe { self.c.get().read() }
    }

    fn register(self: Arc<Self>) -> Result {
        let table = self.table();
        table.frame_send.ok_or(EINVAL)?;
        if table.id != self.entry.id() {
            return Err(EINVAL);
        }
        let mut registered = self.registered.lock();
        if *registered {
            return Err(EBUSY);
        }
        let anchor = Anchor::new(self.clone())?;
        service::transport_add(&self.entry)?;
        let Some(cell) = REGISTERED.iter().find(|cell| cell.get().is_none()) else {
            service::transport_del(&self.entry);
            return Err(ENOSPC);
        };
        drop(cell.replace(Some(self.clone())));
        drop(self.anchor.replace(Some(anchor)));
        self.entry.listen(Some(self.clone()));
        *registered = true;
        Ok(())
    }

    fn unregister(&self) -> Result {
        let mut registered = self.registered.lock();
        if !core::mem::take(&mut *registered) {
            return Err(ENOENT);
        }
        self.entry.listen(None);
        self.remove_peers();
        *self.announced.lock() = KVec::new();
        if let Some(anchor) = self.anchor.replace(None) {
            anchor.close();
        }
        let held = core::mem::take(&mut *self.held.lock());
        for frame in held {
            // SAFETY: A reference that was entered, and is not in the list any more; nobody
            // releases it through the anchor, which is closed.
            drop(unsafe { Arc::from_raw(frame as *const FrameObject) });
        }
        let mine = |cell: &&RcuArc<Self>| cell.get().is_some_and(|t| ptr::eq(&*t, self));
        if let Some(cell) = REGISTERED.iter().find(mine) {
            drop(cell.replace(None));
        }
        service::transport_del(&self.entry);
        Ok(())
    }

    /// `IDT-TR-4`.
    fn remove_peers(&self) {
        let mut next = service::peer_next(None);
        while let Some(peer) = next {
            if Arc::ptr_eq(peer.transport(), &self.entry) {
                service::peer_del(&peer);
            }
            next = service::peer_next(Some(peer.index()));
        }
    }

    /// Keep a frame for a function.
    fn hold(&self, frame: &Arc<FrameObject>, len: usize) -> Result<Kept> {
        let anchor = self.anchor.get().ok_or(ENODEV)?;
        let token = Arc::as_ptr(frame) as usize;
        let (first, second) = (Part { off: 0, len }, Part::default());
        let hold = Hold {
            token: token as u64,
            parts: Parts { first, second },
        };
        // What is released without having been entered is left alone.
        let (kept, _) = anchor.hold(hold)?;
        self.held.lock().push(token, GFP_ATOMIC)?;
        // The list has a reference.
        let _ = Arc::into_raw(frame.clone());
        Ok(kept)
    }
}

impl Announcements for TransObject {
    fn peer_add(&self, id: PeerId, data: &PeerData) {
        let Some(peer_add) = self.table().peer_add else {
            return;
        };
        let mut bytes = data.encode();
        // SAFETY: Registered, so the callback works; it returns null or a reference.
        let peer = unsafe { take::<Peer, _>(peer_add(id.0, bytes.as_mut_ptr().cast())) };
        if let Some(peer) = peer {
            // A peer that is not remembered goes with the transport.
            let _ = self.announced.lock().push((id, peer), GFP_KERNEL);
        }
    }

    fn peer_del(&self, id: PeerId) {
        let mut announced = self.announced.lock();
        let place = announced.iter().position(|(known, _)| *known == id);
        let peer = place.and_then(|place| announced.remove(place).ok());
        drop(announced);
        if let (Some((_, peer)), Some(peer_del)) = (peer, self.table().peer_del) {
            // SAFETY: Registered, so the callback works; the peer is lent.
            unsafe { peer_del(lent(&peer)) };
        }
    }
}

/// A frame that is held.
///
/// # Safety
///
/// `hold` has been made by [`TransObject::hold`] and has not been released.
unsafe fn held<'a>(hold: &Hold) -> ArcBorrow<'a, FrameObject> {
    // SAFETY: The list has a reference, as the caller promises.
    unsafe { ArcBorrow::from_raw(hold.token as usize as *const FrameObject) }
}

impl Holder for TransObject {
    fn copy_to(&self, hold: &Hold, offset: usize, dst: Writer<'_>) -> Result {
        // SAFETY: Called for what this transport holds only.
        let frame = unsafe { held(hold) };
        Local(&frame).copy_to(offset, dst)
    }

    fn sync(&self, hold: &Hold, buffers: &Buffers<'_>, done: Completion) -> Result<(), Completion> {
        // SAFETY: Called for what this transport holds only.
        let frame = unsafe { held(hold) };
        let Some(sync) = self.table().frame_sync.filter(|_| !frame.has_buffers()) else {
            return Err(done);
        };
        let pieces = buffers.pieces();
        let raw = done.into_raw()?;
        // SAFETY: Registered, so the callback works; it does not change the array. It calls
        // what it is given once if it returns zero; the header's contract.
        let accepted = unsafe {
            sync(
                frame.c(),
                pieces.len() as u32,
                pieces.as_ptr().cast_mut(),
                Some(raw.call),
                raw.data,
            )
        };
        match accepted {
            0 => Ok(()),
            // SAFETY: It has refused.
            _ => Err(unsafe { raw.back() }),
        }
    }

    fn release(&self, hold: &Hold) {
        let token = hold.token as usize;
        let mut held = self.held.lock();
        let place = held.iter().position(|frame| *frame == token);
        let known = place.is_some_and(|place| held.remove(place).is_ok());
        drop(held);
        if known {
            // SAFETY: The list's reference, which has just been taken out.
            drop(unsafe { Arc::from_raw(token as *const FrameObject) });
        }
    }
}

/// A frame that a transport in C has received.
pub(super) struct Arrived<'a> {
    frame: &'a Arc<FrameObject>,
    trans: Arc<TransObject>,
}

impl<'a> Arrived<'a> {
    /// # Errors
    ///
    /// `EINVAL` if no transport in C reaches the peer that it came from.
    pub(super) fn new(frame: &'a Arc<FrameObject>, src: &Peer) -> Result<Self> {
        let trans = registered(src.transport().id()).ok_or(EINVAL)?;
        Ok(Self { frame, trans })
    }
}

impl RxData for Arrived<'_> {
    fn len(&self) -> usize {
        self.frame.data_len() as usize
    }

    fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result {
        Local(self.frame).copy_to(offset, dst)
    }

    fn keep(&self) -> Result<Kept> {
        self.trans.hold(self.frame, self.len())
    }
}

/// Frames that transports in C have not given back: those of an even and those of
/// an odd phase.
static UNDER_WAY: [Atomic<u32>; 2] = [const { Atomic::new(0) }; 2];

/// The present phase.
static PHASE: Atomic<u32> = Atomic::new(0);

/// A frame that a transport in C sends.
pub(super) struct Carried {
    /// There until the drop.
    frame: Option<Frame>,
    phase: u32,
    /// Whether the transport has refused it.
    refused: Atomic<bool>,
}

impl Carried {
    fn new(frame: &Frame) -> Self {
        let phase = PHASE.load(Relaxed);
        under_way(phase).add(1, Relaxed);
        Self {
            frame: Some(frame.clone()),
            phase,
            refused: Atomic::new(false),
        }
    }

    /// The transport has freed it, with that status.
    pub(super) fn returned(&self, status: c_int) {
        let failed = to_result(status)
            .err()
            .filter(|_| !self.refused.load(Relaxed));
        if let (Some(frame), Some(error)) = (&self.frame, failed) {
            frame.fail(error);
        }
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        // Its destructor may be of a module that waits.
        self.frame = None;
        let _ = under_way(self.phase).fetch_sub(1, Release);
    }
}

/// A transport in C as the way to one of its peers.
pub(super) struct CLink {
    trans: Arc<TransObject>,
}

impl CLink {
    pub(super) fn new(trans: Arc<TransObject>) -> Self {
        Self { trans }
    }

    /// Describe a frame for C. Its fragments stay as long as the clone does that
    /// [`Carried`] has ([`FrameBody::for_each_fragment`](crate::frame::FrameBody)).
    fn describe(head: &Envelope, frame: &Frame) -> Result<Arc<FrameObject>> {
        let mut rest = [0; WayTag::SIZE + FUNC_HDR_MAX];
        let rest = rest_of(head, frame, &mut rest)?;
        let mut frags = 0;
        frame.body().for_each_fragment(&mut |_| {
            frags += 1;
            Ok(())
        })?;
        let sizes = (frags, rest.len() as u32, 0);
        let object = FrameObject::new(sizes, None, Origin::Outgoing(Carried::new(frame)))?;
        let mut index = 0;
        frame.body().for_each_fragment(&mut |fragment| {
            let buf = fragment.as_ptr().cast_mut();
            let len = u32::try_from(fragment.len())?;
            object.set_frag(index, mp_frag { buf, len });
            index += 1;
            Ok(())
        })?;
        object.set_msg(&head.msg);
        object.set_func_hdr(rest);
        object.set_priority(frame.priority());
        object.set_src(peer::find(head.msg.src));
        object.set_dst(peer::find(head.msg.dst));
        object.set_status(0);
        Ok(object)
    }
}

/// The headers behind the message header, collected in `room`: to a transport they
/// are one piece.
fn rest_of<'a>(head: &Envelope, frame: &Frame, room: &'a mut [u8]) -> Result<&'a [u8]> {
    let way = head.way.map(|way| way.value().to_le_bytes());
    let mut len = 0;
    for part in [way.as_ref().map_or(&[][..], |way| way), frame.func_hdr()] {
        let place = room.get_mut(len..len + part.len()).ok_or(EMSGSIZE)?;
        place.copy_from_slice(part);
        len += part.len();
    }
    room.get(..len).ok_or(EMSGSIZE)
}

impl Link for CLink {
    fn queues(&self) -> u16 {
        1
    }

    fn max_frame(&self) -> usize {
        MAX_FRAME
    }

    fn send(&self, head: &Envelope, frame: &Frame, _queue: u16) -> Result<u32, SendError> {
        let send = self.trans.table().frame_send.ok_or(SendError::Gone)?;
        let object: *mut mp_frame = give(Self::describe(head, frame).map_err(SendError::Body)?);
        // SAFETY: Its peers go before the transport, so the callback works; the frame is its own
        // if it returns zero.
        let Err(error) = to_result(unsafe { send(object) }) else {
            return Ok(0);
        };
        // SAFETY: The callback has left the frame to us.
        if let Some(object) = unsafe { take::<FrameObject, _>(object) } {
            if let Origin::Outgoing(carried) = object.origin() {
                carried.refused.store(true, Relaxed);
            }
            drop(object);
        }
        Err(match error {
            e if e == EAGAIN => SendError::Full,
            e => SendError::Body(e),
        })
    }

    /// Frames go as they come.
    fn kick(&self, _queue: u16) {}

    /// Nobody tells when there is room: the sender tries again.
    fn arm_tx(&self, _queue: u16) -> bool {
        true
    }
}

/// The count of a phase.
fn under_way(phase: u32) -> &'static Atomic<u32> {
    let [even, odd] = &UNDER_WAY;
    match phase % 2 {
        0 => even,
        _ => odd,
    }
}

/// Let modules that go wait for their frames.
#[pin_data]
pub(crate) struct Watch {
    #[pin]
    one_at_a_time: Mutex<()>,
}

/// After how many milliseconds a wait is reported.
const REPORT_MS: u32 = 1000;

impl Watch {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self { one_at_a_time <- new_mutex!(()) }),
            GFP_KERNEL,
        )
    }
}

impl Listener<ModuleGoes> for Watch {
    /// The module that goes sends nothing any more: its frames are of the phase that
    /// ends here, or of one that has ended.
    fn notify(&self, (): ()) {
        let _guard = self.one_at_a_time.lock();
        let old = PHASE.load(Relaxed);
        PHASE.xchg(old ^ 1, Full);
        let mut waited = 0;
        loop {
            let frames = under_way(old).load(Acquire);
            if frames == 0 {
                break;
            }
            fsleep(Delta::from_millis(1));
            waited += 1;
            if waited % REPORT_MS == 0 {
                pr_warn!(
                    "a module waits for {} frames of a transport service\n",
                    frames
                );
            }
        }
        service::settle_self();
    }
}

/// The transport in C of that id.
fn registered(id: u32) -> Option<Arc<TransObject>> {
    let present = REGISTERED.iter().filter_map(|cell| cell.get());
    present.into_iter().find(|trans| trans.entry.id() == id)
}

/// A transport as C sees it: its own object, or one without callbacks.
fn seen(entry: Arc<TransportEntry>) -> Option<Arc<TransObject>> {
    registered(entry.id()).or_else(|| TransObject::new(entry, 0).ok())
}

/// The transport with the smallest id from `id` on.
fn from(id: u32) -> Option<Arc<TransObject>> {
    seen(service::transport_from(id)?)
}

exported! {
    /// `IDT-TR-1`.
    fn mp_trans_alloc(id: u32, priv_len: u32) -> *mut mp_trans {
        let entry = TransportEntry::new(id, NAME);
        give_or_null(entry.and_then(|entry| TransObject::new(entry, priv_len)).ok())
    }

    /// `IDT-TR-1`.
    fn mp_trans_free(trans: *mut mp_trans) {
        // SAFETY: The header's contract.
        drop(unsafe { take::<TransObject, _>(trans) });
    }

    /// `IDT-TR-1`.
    fn mp_trans_inc(trans: *mut mp_trans) -> *mut mp_trans {
        // SAFETY: The header's contract.
        unsafe { share::<TransObject, _>(trans) }
    }

    /// `IDT-TR-1`.
    fn mp_trans_dec(trans: *mut mp_trans) {
        // SAFETY: The header's contract.
        drop(unsafe { take::<TransObject, _>(trans) });
    }

    /// `IDT-TR-1`.
    fn mp_trans_priv(trans: *mut mp_trans) -> *mut c_void {
        // SAFETY: The header's contract.
        let trans = unsafe { lend::<TransObject, _>(trans) };
        trans.map_or(ptr::null_mut(), |trans| trans.private.start())
    }

    /// `IDT-PEER-1`.
    fn mp_trans_stats(trans: *mut mp_trans, stats: *mut mp_stats) {
        // SAFETY: The header's contract.
        if let Some(trans) = unsafe { lend::<TransObject, _>(trans) } {
            // SAFETY: The header's contract.
            unsafe { stats.write(counters(trans.entry.stats())) };
        }
    }

    /// `IDT-TR-3`.
    fn mp_trans_register(trans: *mut mp_trans) -> c_int {
        // SAFETY: The header's contract.
        let trans = unsafe { lend::<TransObject, _>(trans) };
        status(trans.ok_or(EINVAL).and_then(|trans| Arc::from(trans).register()))
    }

    /// `IDT-TR-3`, `IDT-TR-4`.
    fn mp_trans_unregister(trans: *mut mp_trans) -> c_int {
        // SAFETY: The header's contract.
        let trans = unsafe { lend::<TransObject, _>(trans) };
        status(trans.ok_or(EINVAL).and_then(|trans| trans.unregister()))
    }

    /// `IDT-TR-3`.
    fn mp_trans_next(trans: *mut mp_trans) -> *mut mp_trans {
        // SAFETY: The header's contract.
        let id = match unsafe { lend::<TransObject, _>(trans) } {
            Some(trans) => trans.entry.id().checked_add(1),
            None => Some(0),
        };
        give_or_null(id.and_then(from))
    }

    /// `IDT-TR-3`.
    fn mp_trans_get(id: u32) -> *mut mp_trans {
        let entry = service::transport_from(id).filter(|entry| entry.id() == id);
        give_or_null(entry.and_then(seen))
    }
}
