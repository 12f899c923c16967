// SPDX-License-Identifier: GPL-2.0-only

//! The fabric for kernel modules in C: the functions that `include/mp/mp.h`
//! declares, by the names of the guide.
//!
//! A thin layer: each function finds the Rust object behind a C pointer and does
//! with it what a Rust caller would do. A function service in C is a
//! [`Function`](crate::function::Function), a transport service in C has a
//! [`Link`](crate::peer::Link) to each of its peers, a frame to send is a
//! [`FrameBody`](crate::frame::FrameBody), and a received one has a
//! [`KeptFrame`](crate::kept::KeptFrame).
//!
//! * `area`: memory inside these objects that belongs to C.
//! * `frame`, `transfer`: `mp_frame`, and what sends, receives and copies it.
//! * `peer`, `trans`, `func`: the objects of these names.
//! * `local`: the local processor.
//!
//! Types and signatures come from the header by bindgen; [`exported`] compares
//! them. `exports.c` exports the symbols.
//!
//! # Safety
//!
//! The header is a contract with the caller of each function: pointers are valid or,
//! where it says so, null; a reference that a call takes over was the caller's; and
//! callbacks work until the unregistration of their service returns, a frame's
//! destructor until the frame is gone. This is what "the header's contract" means in
//! the arguments below. Modules that go are waited for where their frames may still
//! be under way: by `pximc_ntb` and by `trans` at the module notifier, by the loopback
//! when a function is unregistered.

use core::ptr;
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};
use mp_bindings as bindings;
use mp_proto::wire::{
    MsgHdr,
    PeerId,
    FRAME_PRIORITY, //
};

#[path = "capi/area.rs"]
mod area;
#[path = "capi/frame.rs"]
mod frame;
#[path = "capi/func.rs"]
mod func;
#[path = "capi/local.rs"]
mod local;
#[path = "capi/peer.rs"]
mod peer;
#[path = "capi/trans.rs"]
mod trans;
#[path = "capi/transfer.rs"]
mod transfer;

pub(crate) use area::Areas;
pub(crate) use func::FuncObject;
pub(crate) use trans::Watch;

// The header's constants are those of the protocol.
const _: () = {
    assert!(bindings::MP_PEER_RP == PeerId::RP.0);
    assert!(bindings::MP_PEER_SELF == PeerId::SELF.0);
    assert!(bindings::MP_PEER_BCAST == PeerId::BCAST.0);
    assert!(bindings::MP_FRAME_PRIORITY == FRAME_PRIORITY);
    assert!(size_of::<bindings::mp_msg>() == MsgHdr::SIZE);
};

/// Defines functions for C, each as the header declares it.
macro_rules! exported {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block
    )*) => {$(
        // Both branches of an `if` have the same type.
        const _: () = {
            if true {
                mp_bindings::$name
            } else {
                $name
            };
        };

        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The header's contract.
        #[no_mangle]
        unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? $body
    )*};
}
use exported;

/// Zero, or the negative errno.
fn status(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// The object behind a pointer, which stays the caller's.
///
/// # Safety
///
/// `ptr` is null, or [`give`] has made it of a `T` and the reference it stands for
/// is not dropped for as long as the result is in use.
unsafe fn lend<'a, T, C>(ptr: *const C) -> Option<ArcBorrow<'a, T>> {
    // SAFETY: As the caller promises; no unique borrow of such an object exists.
    (!ptr.is_null()).then(|| unsafe { ArcBorrow::from_raw(ptr.cast::<T>()) })
}

/// The object behind a pointer, with the caller's reference.
///
/// # Safety
///
/// `ptr` is null, or [`give`] has made it of a `T` and the reference it stands for
/// is given up.
unsafe fn take<T, C>(ptr: *const C) -> Option<Arc<T>> {
    // SAFETY: As the caller promises.
    (!ptr.is_null()).then(|| unsafe { Arc::from_raw(ptr.cast::<T>()) })
}

/// Make a pointer of a reference.
fn give<T, C>(object: Arc<T>) -> *mut C {
    Arc::into_raw(object).cast_mut().cast()
}

/// As [`give`], or null.
fn give_or_null<T, C>(object: Option<Arc<T>>) -> *mut C {
    object.map_or(ptr::null_mut(), give)
}

/// One more reference to the object behind a pointer.
///
/// # Safety
///
/// As for [`lend`].
unsafe fn share<T, C>(ptr: *mut C) -> *mut C {
    // SAFETY: As the caller promises.
    give_or_null(unsafe { lend::<T, C>(ptr) }.map(Arc::from))
}
