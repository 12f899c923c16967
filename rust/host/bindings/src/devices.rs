// SPDX-License-Identifier: GPL-2.0-only

//! Devices: how many refer to one, and what its driver keeps with it.

use core::{
    cell::Cell,
    ffi::c_void,
    ptr, //
};
use machine::{
    fail,
    point, //
};

pub const DMA_ATTR_FORCE_CONTIGUOUS: u32 = 1 << 6;

/// A device. It belongs to what stands in for its bus.
#[repr(C)]
pub struct device {
    references: Cell<u32>,
    driver_data: Cell<*mut c_void>,
    name: Cell<&'static str>,
}

impl device {
    /// A device that its bus alone refers to.
    pub fn new(name: &'static str) -> Self {
        Self {
            references: Cell::new(1),
            driver_data: Cell::new(ptr::null_mut()),
            name: Cell::new(name),
        }
    }

    /// What the log calls it.
    pub fn name(&self) -> &'static str {
        self.name.get()
    }

    /// How many refer to it.
    pub fn references(&self) -> u32 {
        self.references.get()
    }
}

/// # Safety
///
/// The device is valid; so for all functions of this file.
///
/// Fails if nobody refers to it.
pub unsafe fn get_device(dev: *mut device) -> *mut device {
    point();
    // SAFETY: As the caller promises.
    let references = unsafe { &(*dev).references };
    if references.get() == 0 {
        fail("it takes a reference to a device that is gone");
    }
    references.set(references.get() + 1);
    dev
}

/// # Safety
///
/// The caller has a reference.
///
/// Fails if that is the one of the device's bus.
pub unsafe fn put_device(dev: *mut device) {
    point();
    // SAFETY: As the caller promises.
    let references = unsafe { &(*dev).references };
    if references.get() < 2 {
        fail("it gives up a reference to a device that it does not have");
    }
    references.set(references.get() - 1);
}

/// # Safety
///
/// As for [`get_device`].
pub unsafe fn dev_set_drvdata(dev: *mut device, data: *mut c_void) {
    // SAFETY: As the caller promises.
    unsafe { &(*dev).driver_data }.set(data);
}

/// # Safety
///
/// As for [`get_device`].
pub unsafe fn dev_get_drvdata(dev: *mut device) -> *mut c_void {
    // SAFETY: As the caller promises.
    unsafe { &(*dev).driver_data }.get()
}
