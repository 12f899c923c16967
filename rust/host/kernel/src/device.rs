// SPDX-License-Identifier: GPL-2.0-only

//! Devices, as far as their drivers refer to them and name them in the log.

use crate::{
    bindings,
    sync::aref::AlwaysRefCounted,
    types::Opaque, //
};
use core::ptr::NonNull;

/// A device.
#[repr(transparent)]
pub struct Device(Opaque<bindings::device>);

// SAFETY: References may be given up by any context.
unsafe impl Send for Device {}
// SAFETY: Contexts of a host take turns.
unsafe impl Sync for Device {}

impl Device {
    /// # Safety
    ///
    /// Valid for the lifetime, and somebody has a reference.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::device) -> &'a Self {
        // SAFETY: A transparent wrapper; valid as the caller promises.
        unsafe { &*ptr.cast() }
    }

    /// What the log calls it.
    pub fn name(&self) -> &'static str {
        // SAFETY: A reference to it is valid.
        unsafe { &*self.0.get() }.name()
    }
}

// SAFETY: The functions count the references.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: The reference proves that it is valid.
        unsafe { bindings::get_device(self.0.get()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller has a reference.
        unsafe { bindings::put_device(obj.cast().as_ptr()) };
    }
}

impl AsRef<Device> for Device {
    fn as_ref(&self) -> &Device {
        self
    }
}

#[doc(hidden)]
pub fn note(level: &str, dev: &Device, text: core::fmt::Arguments<'_>) {
    crate::print::note(level, format_args!("{}: {text}", dev.name()));
}

/// Print at this level, with the name of a device.
#[doc(hidden)]
#[macro_export]
macro_rules! dev_note {
    ($level:literal, $dev:expr, $($arg:tt)*) => {{
        let dev: &$crate::device::Device = ($dev).as_ref();
        $crate::device::note($level, dev, $crate::prelude::fmt!($($arg)*))
    }};
}

/// Print at this level, with the name of a device.
#[macro_export]
macro_rules! dev_err {
    ($($arg:tt)*) => { $crate::dev_note!("err", $($arg)*) };
}

/// Print at this level, with the name of a device.
#[macro_export]
macro_rules! dev_warn {
    ($($arg:tt)*) => { $crate::dev_note!("warn", $($arg)*) };
}

/// Print at this level, with the name of a device.
#[macro_export]
macro_rules! dev_info {
    ($($arg:tt)*) => { $crate::dev_note!("info", $($arg)*) };
}
