// SPDX-License-Identifier: GPL-2.0-only

//! Sending, receiving and copying frames.

use super::{
    exported,
    frame::{
        FrameObject,
        Origin, //
    },
    give,
    lend,
    peer,
    status,
    take,
    trans, //
};
use crate::{
    copy::{
        Buffers,
        Completion, //
    },
    frame::{
        gather,
        Frame,
        FrameBody,
        FuncId,
        RxContext,
        RxData, //
    },
    service, //
};
use core::slice;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_bindings::{
    mp_dma_cb,
    mp_frag,
    mp_frame, //
};
use mp_kernel::{
    bytes::{
        SharedBytes,
        Writer, //
    },
    error,
    sync::without_bh, //
};
use mp_proto::wire::{
    MsgHdr,
    PeerId, //
};

/// A frame of C's on its way.
struct Body(Option<Arc<FrameObject>>);

impl FrameBody for Body {
    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |frame| frame.data_len() as usize)
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        self.0.as_ref().ok_or(EINVAL)?.for_each_fragment(f)
    }

    fn complete(&mut self, result: Result) {
        if let Some(frame) = self.0.take() {
            frame.set_status(status(result));
        }
    }
}

/// Fill in message header, source and destination (`IDT-MSG-2`).
fn address(frame: &FrameObject, dst: PeerId, func: u32) {
    frame.set_msg(&MsgHdr {
        dst,
        src: service::self_id(),
        len: frame.func_len().saturating_add(frame.data_len()),
        func,
    });
    frame.set_src(peer::own());
    frame.set_dst(peer::find(dst));
}

fn transmit(frame: &Arc<FrameObject>, dst: PeerId, func: u32) -> Result {
    let body = Body(Some(frame.clone()));
    if !frame.has_buffers() {
        let mut body = body;
        body.complete(Err(EINVAL));
        return Err(EINVAL);
    }
    address(frame, dst, func);
    let wire = Frame::new(FuncId(func), frame.func_hdr(), frame.priority(), body)?;
    service::send(dst, &wire)
}

/// Send a frame with the caller's reference, which comes back if a queue is full.
fn send(frame: Arc<FrameObject>, dst: PeerId, func: u32) -> Result {
    match transmit(&frame, dst, func) {
        Err(e) if e == EAGAIN && dst != PeerId::BCAST => {
            // It is the caller's, as before.
            let _: *mut mp_frame = give(frame);
            Err(e)
        }
        result => {
            drop(frame);
            result.map_err(|e| match e {
                e if e == EAGAIN => error::no_buffers(),
                e => e,
            })
        }
    }
}

/// Pass on a frame that a transport in C has received (`IDT-MSG-4`).
fn receive(frame: &Arc<FrameObject>) -> Result {
    let src = frame.src().ok_or(EINVAL)?;
    let data = trans::Arrived::new(frame, &src)?;
    let rx = RxContext {
        napi: None,
        queue: 0,
        priority: frame.priority(),
        last: true,
    };
    without_bh(|| service::receive(&rx, &src, frame.msg(), frame.func_hdr(), &data))
}

/// The data of a frame whose fragments have buffers.
pub(super) struct Local<'a>(pub(super) &'a FrameObject);

impl RxData for Local<'_> {
    fn len(&self) -> usize {
        self.0.data_len() as usize
    }

    fn copy_to(&self, offset: usize, dst: Writer<'_>) -> Result {
        gather(offset, dst, |f| self.0.for_each_fragment(f))
    }
}

/// A copy that goes on, with the frame it copies.
struct Copying {
    _frame: Arc<FrameObject>,
    cb: mp_dma_cb,
    cb_data: *mut c_void,
}

impl Copying {
    fn end(self, status: c_int) {
        if let Some(cb) = self.cb {
            // SAFETY: The header's contract; this is the one call.
            unsafe { cb(status, self.cb_data) };
        }
    }

    /// # Safety
    ///
    /// `data` is a leaked box of this type, which is given up.
    unsafe extern "C" fn ended(status: c_int, data: *mut c_void) {
        // SAFETY: As the caller promises.
        let this = unsafe { KBox::from_raw(data.cast::<Self>()) };
        KBox::into_inner(this).end(status);
    }
}

/// Copy a frame's data (`IDT-MSG-5`).
fn sync(
    frame: &Arc<FrameObject>,
    buffers: &Buffers<'_>,
    cb: mp_dma_cb,
    cb_data: *mut c_void,
) -> Result {
    let copying = Copying {
        _frame: frame.clone(),
        cb,
        cb_data,
    };
    let root = frame.root();
    let Origin::Received(kept) = root.origin() else {
        let copied = buffers.fill(&Local(root));
        copied?;
        copying.end(0);
        return Ok(());
    };
    let copying = match KBox::new(copying, GFP_ATOMIC) {
        Ok(copying) => KBox::into_raw(copying),
        Err(e) => return Err(e.into()),
    };
    // SAFETY: The box is given up by the call.
    let done = unsafe { Completion::new(Copying::ended, copying.cast()) };
    kept.data().sync(buffers, done).inspect_err(|_| {
        // SAFETY: The box is still ours: nobody has been told.
        drop(unsafe { KBox::from_raw(copying) });
    })
}

exported! {
    /// `IDT-MSG-2`, `IDT-MSG-3`.
    fn mp_frame_send(frame: *mut mp_frame, dst: u32, func: u32) -> c_int {
        // SAFETY: The header's contract.
        let frame = unsafe { take::<FrameObject, _>(frame) };
        status(frame.ok_or(EINVAL).and_then(|frame| send(frame, PeerId(dst), func)))
    }

    /// `IDT-MSG-4`.
    fn mp_frame_receive(frame: *mut mp_frame) -> c_int {
        // SAFETY: The header's contract.
        let Some(frame) = (unsafe { take::<FrameObject, _>(frame) }) else {
            return EINVAL.to_errno();
        };
        let result = receive(&frame);
        match result {
            Ok(()) => drop(frame),
            // It is the caller's, as before.
            Err(_) => {
                let _: *mut mp_frame = give(frame);
            }
        }
        status(result)
    }

    /// `IDT-MSG-5`, `IDT-MSG-6`.
    fn mp_frame_sync(
        frame: *mut mp_frame,
        frags: u32,
        buffers: *mut mp_frag,
        cb: mp_dma_cb,
        cb_data: *mut c_void,
    ) -> c_int {
        // SAFETY: The header's contract.
        let Some(frame) = (unsafe { lend::<FrameObject, _>(frame) }) else {
            return EINVAL.to_errno();
        };
        let pieces = match (frags, buffers.is_null()) {
            (0, _) => &[],
            (_, true) => return EINVAL.to_errno(),
            // SAFETY: The header's contract: an array of that length.
            (_, false) => unsafe { slice::from_raw_parts(buffers, frags as usize) },
        };
        // SAFETY: The header's contract: nobody else uses this memory before the callback.
        let buffers = unsafe { Buffers::new(pieces) };
        status(sync(&frame.into(), &buffers, cb, cb_data))
    }
}
