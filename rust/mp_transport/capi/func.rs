// SPDX-License-Identifier: GPL-2.0-only

//! `mp_func`: function services in C.

use super::{
    area::Area,
    exported,
    frame::{
        FrameObject, //
    },
    give,
    give_or_null,
    lend,
    share,
    status,
    take, //
};
use crate::{
    frame::{
        FuncId,
        RxContext,
        RxFrame, //
    },
    function::{
        Function,
        FunctionEntry,
        Registration, //
    },
    peer::Peer,
    service, //
};
use core::ptr;
use kernel::{
    error::to_result,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    types::Opaque, //
};
use mp_bindings::{
    mp_frame,
    mp_func,
    mp_peer, //
};
use mp_kernel::error;

/// An `mp_func` and what is behind it.
#[repr(C)]
#[pin_data]
pub(crate) struct FuncObject {
    c: Opaque<mp_func>,
    private: Area,
    #[pin]
    registration: Mutex<Option<Registration>>,
}

// SAFETY: The callbacks do not change while it is registered; the header's contract.
unsafe impl Send for FuncObject {}
// SAFETY: As above.
unsafe impl Sync for FuncObject {}

impl FuncObject {
    fn new(id: u32, priv_len: u32) -> Result<Arc<Self>> {
        let private = Area::new(priv_len as usize, GFP_KERNEL)?;
        let c = mp_func {
            id,
            ..Default::default()
        };
        Arc::pin_init(
            pin_init!(Self {
                c: Opaque::new(c),
                private,
                registration <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// What C has put in.
    fn table(&self) -> mp_func {
        // SAFETY: Valid, and not written while it is registered; the header's contract.
        unsafe { self.c.get().read() }
    }

    fn register(self: Arc<Self>) -> Result {
        let table = self.table();
        table.frame_receive.ok_or(EINVAL)?;
        let mut registration = self.registration.lock();
        if registration.is_some() {
            return Err(EBUSY);
        }
        let function = Arc::new(Service(self.clone()), GFP_KERNEL)?;
        *registration = Some(Registration::with(
            FuncId(table.id),
            function,
            Some(self.clone()),
        )?);
        Ok(())
    }

    fn unregister(&self) -> Result {
        let registration = self.registration.lock().take();
        // Returns when no call of it is under way.
        registration.map(drop).ok_or(ENOENT)
    }
}

/// A function service in C, as the message frame service sees it.
struct Service(Arc<FuncObject>);

/// A peer as a callback gets it lent.
pub(super) fn lent(peer: &Arc<Peer>) -> *mut mp_peer {
    Arc::as_ptr(peer).cast_mut().cast()
}

impl Function for Service {
    fn peer_add(&self, peer: &Arc<Peer>) {
        if let Some(peer_add) = self.0.table().peer_add {
            // SAFETY: Registered, so the callback works; the header's contract.
            unsafe { peer_add(lent(peer)) };
        }
    }

    fn peer_del(&self, peer: &Arc<Peer>) {
        if let Some(peer_del) = self.0.table().peer_del {
            // SAFETY: Registered, so the callback works; the header's contract.
            unsafe { peer_del(lent(peer)) };
        }
    }

    fn receive(&self, _rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
        let receive = self.0.table().frame_receive.ok_or(error::unsupported())?;
        let frame: *mut mp_frame = give(FrameObject::received(frame.keep()?)?);
        // SAFETY: Registered, so the callback works; the frame is its own if it returns zero.
        let result = to_result(unsafe { receive(frame) });
        if result.is_err() {
            // SAFETY: The callback has left the frame to us.
            drop(unsafe { take::<FrameObject, _>(frame) });
        }
        result
    }
}

/// A function as C sees it: its own object, or one without callbacks.
fn seen(entry: &FunctionEntry) -> Option<Arc<FuncObject>> {
    match &entry.c {
        Some(object) => Some(object.clone()),
        None => FuncObject::new(entry.id.0, 0).ok(),
    }
}

/// The function with the smallest id from `id` on.
fn from(id: u32) -> Option<Arc<FuncObject>> {
    seen(&*service::function_from(id)?)
}

exported! {
    /// `IDT-FN-1`.
    fn mp_func_alloc(id: u32, priv_len: u32) -> *mut mp_func {
        give_or_null(FuncObject::new(id, priv_len).ok())
    }

    /// `IDT-FN-1`.
    fn mp_func_free(func: *mut mp_func) {
        // SAFETY: The header's contract.
        drop(unsafe { take::<FuncObject, _>(func) });
    }

    /// `IDT-FN-1`.
    fn mp_func_inc(func: *mut mp_func) -> *mut mp_func {
        // SAFETY: The header's contract.
        unsafe { share::<FuncObject, _>(func) }
    }

    /// `IDT-FN-1`.
    fn mp_func_dec(func: *mut mp_func) {
        // SAFETY: The header's contract.
        drop(unsafe { take::<FuncObject, _>(func) });
    }

    /// `IDT-FN-1`.
    fn mp_func_priv(func: *mut mp_func) -> *mut c_void {
        // SAFETY: The header's contract.
        let func = unsafe { lend::<FuncObject, _>(func) };
        func.map_or(ptr::null_mut(), |func| func.private.start())
    }

    /// `IDT-FN-3`.
    fn mp_func_register(func: *mut mp_func) -> c_int {
        // SAFETY: The header's contract.
        let func = unsafe { lend::<FuncObject, _>(func) };
        status(func.ok_or(EINVAL).and_then(|func| Arc::from(func).register()))
    }

    /// `IDT-FN-3`.
    fn mp_func_unregister(func: *mut mp_func) -> c_int {
        // SAFETY: The header's contract.
        let func = unsafe { lend::<FuncObject, _>(func) };
        status(func.ok_or(EINVAL).and_then(|func| func.unregister()))
    }

    /// `IDT-FN-3`.
    fn mp_func_next(func: *mut mp_func) -> *mut mp_func {
        // SAFETY: The header's contract.
        let id = match unsafe { lend::<FuncObject, _>(func) } {
            Some(func) => func.table().id.checked_add(1),
            None => Some(0),
        };
        give_or_null(id.and_then(from))
    }

    /// `IDT-FN-3`.
    fn mp_func_get(id: u32) -> *mut mp_func {
        let entry = service::function_from(id).filter(|entry| entry.id.0 == id);
        give_or_null(entry.and_then(|entry| seen(&entry)))
    }
}
