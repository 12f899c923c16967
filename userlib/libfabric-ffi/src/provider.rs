// SPDX-License-Identifier: MIT OR Apache-2.0

//! What libfabric finds in the library, and how a fabric is opened.

use crate::{
    info::{answer, own_host, NAME},
    objects::{open_fabric, Fid},
    status, sys,
    tables::Shared,
};
use mp_fabric::Fabric;
use std::{
    ffi::{c_char, c_void},
    sync::Arc,
};

/// The provider, which libfabric writes to as well.
struct Provider(std::cell::UnsafeCell<sys::fi_provider>);

// SAFETY: libfabric alone uses what is in it, behind its lock.
unsafe impl Sync for Provider {}

/// Numbers of versions, as libfabric packs them.
const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

static PROVIDER: Provider = Provider(std::cell::UnsafeCell::new(sys::fi_provider {
    version: version(0, 1),
    fi_version: version(1, 17),
    context: sys::fi_context {
        internal: [std::ptr::null_mut(); 4],
    },
    name: NAME.as_ptr(),
    getinfo: Some(getinfo),
    fabric: Some(fabric),
    cleanup: Some(cleanup),
}));

/// The entry of a provider that libfabric loads.
#[no_mangle]
pub extern "C" fn fi_prov_ini() -> *mut sys::fi_provider {
    PROVIDER.0.get()
}

unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const sys::fi_info,
    info: *mut *mut sys::fi_info,
) -> i32 {
    status(|| {
        let fabric = Fabric::open().map_err(|_| libc::ENODATA)?;
        let own = own_host(&fabric)?;
        // SAFETY: These are a caller's of `fi_getinfo()`.
        unsafe {
            let found = answer(version, node, service, flags, hints, own)?;
            info.write(found.into_raw());
        }
        Ok(())
    })
}

unsafe extern "C" fn fabric(
    attr: *mut sys::fi_fabric_attr,
    fabric: *mut *mut sys::fid_fabric,
    context: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: These are a caller's of `fi_fabric()`.
        let (version, is_ours) = unsafe {
            let attr = attr.as_ref().ok_or(libc::EINVAL)?;
            let name = attr.name;
            let is_ours = name.is_null() || std::ffi::CStr::from_ptr(name) == NAME;
            (attr.api_version, is_ours)
        };
        if !is_ours {
            return Err(libc::ENODATA);
        }
        let opened = Fabric::open().map_err(|_| libc::ENODEV)?;
        let shared = Arc::new(Shared::new(opened)?);
        let opened: Fid<sys::fid_fabric> = open_fabric(shared, version, context);
        // SAFETY: There is room for it.
        unsafe { fabric.write(opened.into_raw()) };
        Ok(())
    })
}

unsafe extern "C" fn cleanup() {}
