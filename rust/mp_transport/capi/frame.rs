// SPDX-License-Identifier: GPL-2.0-only

//! `mp_frame`: its memory, its references and its end.

use super::{
    area::Area,
    exported,
    give,
    give_or_null,
    lend,
    peer,
    share,
    take,
    trans::Carried, //
};
use crate::{
    frame::RxData,
    kept::KeptFrame,
    peer::Peer, //
};
use core::{
    ptr::{
        self,
        NonNull, //
    },
    slice, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        UniqueArc, //
    },
    types::Opaque, //
};
use mp_bindings::{
    mp_frag,
    mp_frame,
    mp_frame_ds,
    mp_peer, //
};
use mp_kernel::bytes::SharedBytes;
use mp_proto::wire::{
    MsgHdr,
    Priority,
    FRAME_PRIORITY, //
};

/// Where a frame comes from.
pub(super) enum Origin {
    /// C code has made it.
    Made,
    /// It has arrived, and C code has got it.
    Received(KeptFrame),
    /// It is a frame for a transport in C to send.
    Outgoing(Carried),
}

/// What each kind of memory behind a frame begins at, in bytes.
#[derive(Clone, Copy)]
struct Places {
    msg: usize,
    func: usize,
    private: usize,
    end: usize,
}

impl Places {
    /// Fragments, message header, function header, private data; `None` for what
    /// does not fit into memory.
    fn new(frags: u32, func_len: u32, priv_len: u32) -> Option<Self> {
        let msg = (frags as usize).checked_mul(size_of::<mp_frag>())?;
        let func = msg.checked_add(MsgHdr::SIZE)?;
        let after = func.checked_add(func_len as usize)?;
        let private = after.checked_next_multiple_of(size_of::<u64>())?;
        Some(Self {
            msg,
            func,
            private,
            end: private.checked_add(priv_len as usize)?,
        })
    }
}

/// An `mp_frame` and what is behind it.
///
/// # Invariants
///
/// - `area` is as `places` says for `frags` fragments and `func_len` bytes.
/// - `c.from`, `c.dst` and `c.src` are null or references of this frame's.
#[repr(C)]
pub(super) struct FrameObject {
    c: Opaque<mp_frame>,
    area: Area,
    places: Places,
    frags: u32,
    func_len: u32,
    origin: Origin,
}

// SAFETY: A frame has one owner at a time, or is only read; the header's contract.
unsafe impl Send for FrameObject {}
// SAFETY: As above.
unsafe impl Sync for FrameObject {}

/// The status of a frame that nobody has sent.
const UNSENT: c_int = -(kernel::bindings::ECANCELED as c_int);

impl FrameObject {
    /// A frame with zeroed fragments, headers and private data.
    pub(super) fn new(
        (frags, func_len, priv_len): (u32, u32, u32),
        ds: mp_frame_ds,
        origin: Origin,
    ) -> Result<Arc<Self>> {
        let places = Places::new(frags, func_len, priv_len).ok_or(ENOMEM)?;
        // All memory first: to drop a `FrameObject` runs the destructor of its frame, which is
        // not for a frame that nobody has had.
        let area = Area::new(places.end, GFP_ATOMIC)?;
        let place = UniqueArc::new_uninit(GFP_ATOMIC)?;
        let c = Opaque::new(mp_frame {
            frags,
            func_len,
            ds,
            status: UNSENT,
            ..Default::default()
        });
        let this = Self {
            c,
            area,
            places,
            frags,
            func_len,
            origin,
        };
        let this = Arc::from(place.write(this));
        let list = this.list();
        // SAFETY: Nobody else knows the frame; an empty list is its own neighbour.
        unsafe {
            (*list).next = list;
            (*list).prev = list;
        }
        // INVARIANT: No reference has been entered yet.
        Ok(this)
    }

    fn list(&self) -> *mut mp_bindings::list_head {
        // SAFETY: The pointer is valid; only an address is made.
        unsafe { &raw mut (*self.c.get()).list }
    }

    /// The part that C sees.
    pub(super) fn c(&self) -> *mut mp_frame {
        self.c.get()
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The fragment at `index`.
    fn frag(&self, index: u32) -> Option<*mut mp_frag> {
        let first: *mut mp_frag = self.area.at(0);
        (index < self.frags).then(|| first.wrapping_add(index as usize))
    }

    /// The fragments.
    pub(super) fn frags(&self) -> &[mp_frag] {
        // SAFETY: As many are there by the type invariants, and by the header's contract nobody
        // changes them while the frame is being sent, received or copied.
        unsafe { slice::from_raw_parts(self.area.at(0), self.frags as usize) }
    }

    /// Describe the fragment at `index`, if there is one.
    pub(super) fn set_frag(&self, index: u32, frag: mp_frag) {
        if let Some(place) = self.frag(index) {
            // SAFETY: In the area; whoever fills in a frame has it alone.
            unsafe { place.write(frag) };
        }
    }

    /// Call `f` with the content of each fragment.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a fragment without buffer, or that of `f`.
    pub(super) fn for_each_fragment<'a>(
        &'a self,
        f: &mut dyn FnMut(SharedBytes<'a>) -> Result,
    ) -> Result {
        for frag in self.frags().iter().filter(|frag| frag.len != 0) {
            let start = NonNull::new(frag.buf).ok_or(EINVAL)?;
            // SAFETY: The header's contract: so many bytes, which stay as long as the frame.
            f(unsafe { SharedBytes::new(start, frag.len as usize) })?;
        }
        Ok(())
    }

    /// Whether all its fragments have buffers.
    pub(super) fn has_buffers(&self) -> bool {
        let is_there = |frag: &mp_frag| frag.len == 0 || !frag.buf.is_null();
        self.frags().iter().all(is_there)
    }

    /// Bytes in all fragments (`IDT-FRM-8`).
    pub(super) fn data_len(&self) -> u32 {
        let lengths = self.frags().iter().map(|frag| frag.len);
        lengths.fold(0, u32::saturating_add)
    }

    /// Bytes of the function header.
    pub(super) fn func_len(&self) -> u32 {
        self.func_len
    }

    /// The function header.
    pub(super) fn func_hdr(&self) -> &[u8] {
        // SAFETY: So long by the type invariants; see `frags` for changes.
        unsafe { slice::from_raw_parts(self.area.at(self.places.func), self.func_len as usize) }
    }

    /// Fill in the function header.
    pub(super) fn set_func_hdr(&self, hdr: &[u8]) {
        let len = hdr.len().min(self.func_len as usize);
        // SAFETY: So many bytes are in the area; see `set_frag`.
        unsafe { ptr::copy_nonoverlapping(hdr.as_ptr(), self.area.at(self.places.func), len) };
    }

    /// The message header.
    pub(super) fn msg(&self) -> MsgHdr {
        // SAFETY: So long by the type invariants; see `frags` for changes.
        MsgHdr::decode(unsafe { &*self.area.at::<[u8; MsgHdr::SIZE]>(self.places.msg) })
    }

    /// Fill in the message header.
    pub(super) fn set_msg(&self, msg: &MsgHdr) {
        let place = self.area.at::<[u8; MsgHdr::SIZE]>(self.places.msg);
        // SAFETY: In the area; see `set_frag`.
        unsafe { place.write(msg.encode()) };
    }

    /// What its flags ask for (`IDT-ID-6`).
    pub(super) fn priority(&self) -> Priority {
        // SAFETY: Valid; see `frags` for changes.
        Priority::from_flags(unsafe { (*self.c()).flags })
    }

    /// The opposite of [`priority`](Self::priority).
    pub(super) fn set_priority(&self, priority: Priority) {
        let flags = match priority {
            Priority::Bulk => 0,
            Priority::High => FRAME_PRIORITY,
        };
        // SAFETY: Valid; see `set_frag`.
        unsafe { (*self.c()).flags = flags };
    }

    /// The peer that `src` names.
    pub(super) fn src(&self) -> Option<Arc<Peer>> {
        // SAFETY: By the type invariants the frame has a reference.
        unsafe { lend::<Peer, _>((*self.c()).src) }.map(Arc::from)
    }

    /// Enter a peer as destination; what was there before is dropped.
    pub(super) fn set_dst(&self, peer: Option<Arc<Peer>>) {
        // SAFETY: By the type invariants, which this keeps.
        unsafe { replace(&raw mut (*self.c()).dst, peer) };
    }

    /// As [`set_dst`](Self::set_dst), for the source.
    pub(super) fn set_src(&self, peer: Option<Arc<Peer>>) {
        // SAFETY: By the type invariants, which this keeps.
        unsafe { replace(&raw mut (*self.c()).src, peer) };
    }

    /// Take the reference to the frame that it is a clone of, if it has one.
    fn take_from(&self) -> Option<Arc<FrameObject>> {
        // SAFETY: By the type invariants this is null or a reference, and valid for writes; who
        // ends a frame has it alone.
        unsafe { take((&raw mut (*self.c()).from).replace(ptr::null_mut())) }
    }

    /// Set the status for the destructor.
    pub(super) fn set_status(&self, status: c_int) {
        // SAFETY: Valid; whoever has the frame sets it.
        unsafe { (*self.c()).status = status };
    }

    /// The frame whose data it has: itself, or the one at the end of its clones.
    pub(super) fn root(&self) -> &FrameObject {
        let mut frame = self;
        // SAFETY: By the type invariants each frame has a reference to the next.
        while let Some(from) = unsafe { (*frame.c()).from.cast::<FrameObject>().as_ref() } {
            frame = from;
        }
        frame
    }

    /// A frame for C code that has received it (`IDT-FN-2`): its data is one
    /// fragment, without a buffer.
    pub(super) fn received(kept: KeptFrame) -> Result<Arc<Self>> {
        let (src, msg, len) = (kept.src().clone(), *kept.msg(), kept.data().len() as u32);
        let func_len = kept.func_hdr().len() as u32;
        let origin = Origin::Received(kept);
        let this = Self::new((u32::from(len != 0), func_len, 0), None, origin)?;
        let buf = ptr::null_mut();
        this.set_frag(0, mp_frag { buf, len });
        this.set_msg(&msg);
        if let Origin::Received(kept) = &this.origin {
            this.set_func_hdr(kept.func_hdr());
        }
        this.set_src(Some(src));
        this.set_dst(peer::own());
        Ok(this)
    }

    /// `IDT-FRM-3`.
    fn cloned(self: &Arc<Self>, priv_len: u32, ds: mp_frame_ds) -> Result<Arc<Self>> {
        let sizes = (self.frags, self.func_len, priv_len);
        let this = Self::new(sizes, ds, Origin::Made)?;
        for (index, &mp_frag { buf, len }) in (0..).zip(self.frags()) {
            this.set_frag(index, mp_frag { buf, len });
        }
        this.set_msg(&self.msg());
        this.set_func_hdr(self.func_hdr());
        let (new, old) = (this.c(), self.c());
        // SAFETY: Both are valid, and nobody else knows the new one.
        unsafe {
            (*new).flags = (*old).flags;
            (*new).func_priv = (*old).func_priv;
            // INVARIANT: A reference of the clone's.
            (*new).from = give(self.clone());
            this.set_dst(lend::<Peer, _>((*old).dst).map(Arc::from));
            this.set_src(lend::<Peer, _>((*old).src).map(Arc::from));
        }
        Ok(this)
    }
}

/// Put a reference to a peer in place of another.
///
/// # Safety
///
/// `place` is null or a reference, and valid for writes.
unsafe fn replace(place: *mut *mut mp_peer, peer: Option<Arc<Peer>>) {
    // SAFETY: As the caller promises.
    let old = unsafe { take::<Peer, _>(place.replace(give_or_null(peer))) };
    drop(old);
}

/// The last reference ends a frame (`IDT-FRM-4`).
impl Drop for FrameObject {
    fn drop(&mut self) {
        let c = self.c();
        // SAFETY: The frame is valid, and nobody else has it.
        if let Some(ds) = unsafe { (*c).ds } {
            // SAFETY: The header's contract: the destructor works until the frame is gone.
            unsafe { ds(c) };
        }
        if let Origin::Outgoing(carried) = &self.origin {
            // SAFETY: As above.
            carried.returned(unsafe { (*c).status });
        }
        self.set_dst(None);
        self.set_src(None);
        // Clones of clones end one after the other: a stack has no room for all of them.
        let mut next = self.take_from();
        while let Some(frame) = next {
            next = Arc::into_unique_or_drop(frame).and_then(|frame| frame.take_from());
        }
    }
}

exported! {
    /// `IDT-FRM-2`.
    fn mp_frame_alloc(frags: u32, func_len: u32, priv_len: u32, ds: mp_frame_ds) -> *mut mp_frame {
        give_or_null(FrameObject::new((frags, func_len, priv_len), ds, Origin::Made).ok())
    }

    /// `IDT-FRM-3`.
    fn mp_frame_clone(frame: *mut mp_frame, priv_len: u32, ds: mp_frame_ds) -> *mut mp_frame {
        // SAFETY: The header's contract.
        let frame = unsafe { lend::<FrameObject, _>(frame) };
        give_or_null(frame.and_then(|frame| Arc::from(frame).cloned(priv_len, ds).ok()))
    }

    /// `IDT-FRM-4`.
    fn mp_frame_free(frame: *mut mp_frame) {
        // SAFETY: The header's contract.
        drop(unsafe { take::<FrameObject, _>(frame) });
    }

    /// `IDT-FRM-4`.
    fn mp_frame_inc(frame: *mut mp_frame) -> *mut mp_frame {
        // SAFETY: The header's contract.
        unsafe { share::<FrameObject, _>(frame) }
    }

    /// `IDT-FRM-4`.
    fn mp_frame_dec(frame: *mut mp_frame) {
        // SAFETY: The header's contract.
        drop(unsafe { take::<FrameObject, _>(frame) });
    }

    /// `IDT-FRM-5`.
    fn mp_frame_dst_set(frame: *mut mp_frame, peer: *mut mp_peer) -> *mut mp_peer {
        // SAFETY: The header's contract.
        let (frame, found) = unsafe { (lend::<FrameObject, _>(frame), lend::<Peer, _>(peer)) };
        match (frame, found) {
            (Some(frame), Some(found)) => {
                frame.set_dst(Some(found.into()));
                peer
            }
            _ => ptr::null_mut(),
        }
    }

    /// `IDT-FRM-5`.
    fn mp_frame_src_set(frame: *mut mp_frame, peer: *mut mp_peer) -> *mut mp_peer {
        // SAFETY: The header's contract.
        let (frame, found) = unsafe { (lend::<FrameObject, _>(frame), lend::<Peer, _>(peer)) };
        match (frame, found) {
            (Some(frame), Some(found)) => {
                frame.set_src(Some(found.into()));
                peer
            }
            _ => ptr::null_mut(),
        }
    }

    /// `IDT-FRM-6`.
    fn mp_frame_frag(frame: *mut mp_frame, frag: *mut mp_frag) -> *mut mp_frag {
        // SAFETY: The header's contract.
        let Some(frame) = (unsafe { lend::<FrameObject, _>(frame) }) else {
            return ptr::null_mut();
        };
        let index = match frag.is_null() {
            true => 0,
            false => {
                let bytes = (frag as usize).wrapping_sub(frame.area.at::<u8>(0) as usize);
                (bytes / size_of::<mp_frag>()).saturating_add(1)
            }
        };
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        frame.frag(index).unwrap_or(ptr::null_mut())
    }

    /// `IDT-FRM-7`.
    fn mp_frame_msg(frame: *mut mp_frame) -> *mut c_void {
        // SAFETY: The header's contract.
        let frame = unsafe { lend::<FrameObject, _>(frame) };
        frame.map_or(ptr::null_mut(), |f| f.area.at(f.places.msg))
    }

    /// `IDT-FRM-7`.
    fn mp_frame_func(frame: *mut mp_frame) -> *mut c_void {
        // SAFETY: The header's contract.
        let frame = unsafe { lend::<FrameObject, _>(frame) };
        frame.map_or(ptr::null_mut(), |f| f.area.at(f.places.func))
    }

    /// `IDT-FRM-7`.
    fn mp_frame_priv(frame: *mut mp_frame) -> *mut c_void {
        // SAFETY: The header's contract.
        let frame = unsafe { lend::<FrameObject, _>(frame) };
        frame.map_or(ptr::null_mut(), |f| f.area.at(f.places.private))
    }

    /// `IDT-FRM-8`.
    fn mp_frame_msg_len() -> u32 {
        MsgHdr::SIZE as u32
    }

    /// `IDT-FRM-8`.
    fn mp_frame_func_len(frame: *mut mp_frame) -> u32 {
        // SAFETY: The header's contract.
        let frame = unsafe { lend::<FrameObject, _>(frame) };
        frame.map_or(0, |f| f.func_len())
    }

    /// `IDT-FRM-8`.
    fn mp_frame_hdr_len(frame: *mut mp_frame) -> u32 {
        // SAFETY: The header's contract.
        let frame = unsafe { lend::<FrameObject, _>(frame) };
        frame.map_or(0, |f| f.func_len() + MsgHdr::SIZE as u32)
    }

    /// `IDT-FRM-8`.
    fn mp_frame_data_len(frame: *mut mp_frame) -> u32 {
        // SAFETY: The header's contract.
        let frame = unsafe { lend::<FrameObject, _>(frame) };
        frame.map_or(0, |f| f.data_len())
    }

    /// `IDT-FRM-8`.
    fn mp_frame_len(frame: *mut mp_frame) -> u32 {
        // SAFETY: The header's contract.
        let frame = unsafe { lend::<FrameObject, _>(frame) };
        frame.map_or(0, |f| {
            let headers = f.func_len() + MsgHdr::SIZE as u32;
            headers.saturating_add(f.data_len())
        })
    }
}
