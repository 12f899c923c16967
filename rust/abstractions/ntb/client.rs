// SPDX-License-Identifier: GPL-2.0-only

//! Drivers of NTB devices.
//!
//! # Examples
//!
//! ```ignore
//! use kernel::prelude::*;
//! use mp_kernel::ntb::{self, client};
//!
//! struct Hello;
//!
//! impl client::Client for Hello {
//!     type Data = ();
//!
//!     fn probe(dev: &ntb::NtbDev) -> Result {
//!         dev_info!(dev, "port {} of {}\n", dev.port_number()?, dev.peer_port_count() + 1);
//!         Ok(())
//!     }
//! }
//!
//! #[pin_data]
//! struct HelloModule {
//!     #[pin]
//!     registration: client::Registration<Hello>,
//! }
//!
//! impl kernel::InPlaceModule for HelloModule {
//!     fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
//!         try_pin_init!(Self {
//!             registration <- client::Registration::new(c"hello", module),
//!         })
//!     }
//! }
//! ```

use super::NtbDev;
use core::marker::PhantomData;
use kernel::{
    bindings as core_bindings,
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    types::{
        ForeignOwnable,
        Opaque, //
    }, //
};
use mp_bindings as bindings;

/// A driver of NTB devices.
pub trait Client: 'static {
    /// What the driver keeps for each device it is bound to.
    type Data: Send + Sync + 'static;

    /// Called in process context for each NTB device without a client.
    ///
    /// An [`ARef<NtbDev>`](kernel::sync::aref::ARef) may be kept in the data,
    /// but no longer than that: the device's own driver cannot be unbound
    /// while one exists.
    ///
    /// # Errors
    ///
    /// Any error leaves the device to another client.
    fn probe(dev: &NtbDev) -> Result<Self::Data>;

    /// Called in process context when the device or the client goes away.
    ///
    /// On return every reference to the device must be on its way out.
    fn remove(dev: &NtbDev, data: Self::Data) {
        let _ = dev;
        drop(data);
    }
}

/// The registration of a [`Client`]; dropping it unbinds all devices.
///
/// # Invariants
///
/// `client` is registered with the NTB core from the end of the initialiser to
/// the drop, and its callbacks are those of `T`.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Client> {
    #[pin]
    client: Opaque<bindings::ntb_client>,
    _client: PhantomData<fn() -> T>,
}

// SAFETY: Nothing can be done with a shared registration.
unsafe impl<T: Client> Sync for Registration<T> {}
// SAFETY: A client may be unregistered from any thread.
unsafe impl<T: Client> Send for Registration<T> {}

impl<T: Client> Registration<T> {
    /// Register the client under `name` for the calling module; devices that
    /// exist are probed before this returns.
    ///
    /// # Errors
    ///
    /// What `driver_register()` reports: `EBUSY` if the name is taken, `ENOMEM`.
    pub fn new(name: &'static CStr, module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            client <- Opaque::try_ffi_init(|slot: *mut bindings::ntb_client| {
                // SAFETY: `slot` is valid for writes.
                unsafe {
                    slot.write(bindings::ntb_client::default());
                    (*slot).ops.probe = Some(Self::probe);
                    (*slot).ops.remove = Some(Self::remove);
                }
                // SAFETY: `slot` is pinned and lives until it is unregistered by the drop; name and
                // module are static.
                to_result(unsafe {
                    bindings::__ntb_register_client(
                        slot,
                        module.as_ptr().cast(),
                        name.as_char_ptr(),
                    )
                })
            }),
            _client: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Called by the NTB core only, with a device that is being bound.
    unsafe extern "C" fn probe(
        _client: *mut bindings::ntb_client,
        ntb: *mut bindings::ntb_dev,
    ) -> c_int {
        // SAFETY: The core passes a valid device.
        let dev = unsafe { NtbDev::from_raw(ntb) };
        from_result(|| {
            let data = KBox::new(T::probe(dev)?, GFP_KERNEL)?;
            // SAFETY: The device is being bound to this client, which owns its driver data.
            unsafe { core_bindings::dev_set_drvdata(dev.as_dev(), data.into_foreign().cast()) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called by the NTB core only, with a device for which `probe` succeeded.
    unsafe extern "C" fn remove(_client: *mut bindings::ntb_client, ntb: *mut bindings::ntb_dev) {
        // SAFETY: The core passes a valid device.
        let dev = unsafe { NtbDev::from_raw(ntb) };
        // SAFETY: As above.
        let data = unsafe { core_bindings::dev_get_drvdata(dev.as_dev()) };
        // SAFETY: `probe` has put it there, and the core removes a device once.
        let data = unsafe { <KBox<T::Data> as ForeignOwnable>::from_foreign(data.cast()) };
        T::remove(dev, KBox::into_inner(data));
    }
}

#[pinned_drop]
impl<T: Client> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered, by the type invariant.
        unsafe { bindings::ntb_unregister_client(self.client.get()) };
    }
}
