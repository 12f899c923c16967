// SPDX-License-Identifier: GPL-2.0-only

//! What a client hears of its device at interrupt time.

use super::NtbDev;
use core::ptr;
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};
use mp_bindings as bindings;

/// A client's callbacks.
///
/// All of them may be called from hard interrupt context, with interrupts off
/// and under the device's context lock: they must not sleep, must not raise an
/// event themselves ([`NtbDev::link_event`]) and must not drop their own
/// [`EventRegistration`]. Calls for one device never overlap.
pub trait Events: Send + Sync + 'static {
    /// The link to at least one peer may have changed: ask
    /// [`NtbDev::link_is_up`].
    fn link_event(&self) {}

    /// A doorbell of `vector` rang: ask [`NtbDev::db_read`].
    fn db_event(&self, vector: u32) {
        let _ = vector;
    }

    /// A message arrived: ask [`NtbDev::msg_read_sts`].
    fn msg_event(&self) {}
}

/// Delivery of a device's events to `T`; dropping it ends the delivery, and no
/// callback runs any more when the drop returns.
///
/// # Invariants
///
/// `ctx` is the device's context, with the callbacks of `T`.
pub struct EventRegistration<T: Events> {
    dev: ARef<NtbDev>,
    ctx: Arc<T>,
}

impl<T: Events> EventRegistration<T> {
    const OPS: &'static bindings::ntb_ctx_ops = &bindings::ntb_ctx_ops {
        link_event: Some(Self::link_event),
        db_event: Some(Self::db_event),
        msg_event: Some(Self::msg_event),
    };

    /// Start the delivery.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device's events are being delivered already.
    pub fn new(dev: &NtbDev, ctx: Arc<T>) -> Result<Self> {
        let ptr = ptr::from_ref::<T>(&ctx).cast_mut();
        // SAFETY: The device is valid; the context lives in `Self` until it is taken away again.
        to_result(unsafe { bindings::ntb_set_ctx(dev.as_raw(), ptr.cast(), Self::OPS) })?;
        // INVARIANT: Just set.
        Ok(Self {
            dev: dev.into(),
            ctx,
        })
    }

    /// The receiver of the events.
    pub fn context(&self) -> &Arc<T> {
        &self.ctx
    }

    /// # Safety
    ///
    /// Called by the NTB core with the context of a registration.
    unsafe extern "C" fn link_event(ctx: *mut c_void) {
        // SAFETY: The context is a `T` that outlives its registration.
        unsafe { &*ctx.cast::<T>() }.link_event();
    }

    /// # Safety
    ///
    /// Called by the NTB core with the context of a registration.
    unsafe extern "C" fn db_event(ctx: *mut c_void, vector: c_int) {
        // SAFETY: The context is a `T` that outlives its registration.
        unsafe { &*ctx.cast::<T>() }.db_event(vector.max(0) as u32);
    }

    /// # Safety
    ///
    /// Called by the NTB core with the context of a registration.
    unsafe extern "C" fn msg_event(ctx: *mut c_void) {
        // SAFETY: The context is a `T` that outlives its registration.
        unsafe { &*ctx.cast::<T>() }.msg_event();
    }
}

impl<T: Events> Drop for EventRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: The device is valid. The core takes the lock that callbacks run under.
        unsafe { bindings::ntb_clear_ctx(self.dev.as_raw()) };
    }
}
