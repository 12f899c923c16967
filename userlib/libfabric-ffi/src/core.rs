// SPDX-License-Identifier: MIT OR Apache-2.0

//! Functions of the libfabric that has loaded the provider. Its structures may be longer than those
//! that this was compiled with, so it allocates them.

use crate::{info::socket_bytes, sys, Result};
use libfabric::Address;
use std::{ffi::CStr, mem, ptr, sync::OnceLock};

type Dup = unsafe extern "C" fn(*const sys::fi_info) -> *mut sys::fi_info;
type Free = unsafe extern "C" fn(*mut sys::fi_info);

/// The two functions.
struct Core {
    dup: Dup,
    free: Free,
}

fn core() -> Option<&'static Core> {
    static CORE: OnceLock<Option<Core>> = OnceLock::new();
    let core = CORE.get_or_init(|| {
        let (dup, free) = (symbol(c"fi_dupinfo")?, symbol(c"fi_freeinfo")?);
        // SAFETY: libfabric's functions of these names have these types.
        unsafe {
            Some(Core {
                dup: mem::transmute::<*mut libc::c_void, Dup>(dup),
                free: mem::transmute::<*mut libc::c_void, Free>(free),
            })
        }
    });
    core.as_ref()
}

/// A function of libfabric, wherever the program has it from.
fn symbol(name: &CStr) -> Option<*mut libc::c_void> {
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
    // SAFETY: Both are strings; a library that is there already runs nothing, and stays.
    let found = unsafe {
        let library = libc::dlopen(c"libfabric.so.1".as_ptr(), flags);
        let library = if library.is_null() {
            libc::RTLD_DEFAULT
        } else {
            library
        };
        libc::dlsym(library, name.as_ptr())
    };
    (!found.is_null()).then_some(found)
}

/// A structure of libfabric with all that it points to.
#[derive(Debug)]
pub(crate) struct Info(*mut sys::fi_info);

// SAFETY: It is nobody else's.
unsafe impl Send for Info {}

impl Info {
    /// An empty one.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Nothing is copied.
        unsafe { Info::copy(ptr::null()) }
    }

    /// A copy of one, without those behind it.
    ///
    /// # Safety
    /// It is none, or one of libfabric's.
    pub(crate) unsafe fn copy(info: *const sys::fi_info) -> Result<Self> {
        let core = core().ok_or(libc::ENOSYS)?;
        // SAFETY: As the caller says.
        let info = unsafe { (core.dup)(info) };
        match info.is_null() {
            true => Err(libc::ENOMEM),
            false => Ok(Info(info)),
        }
    }

    pub(crate) fn get(&self) -> &sys::fi_info {
        // SAFETY: It is there as long as this is.
        unsafe { &*self.0 }
    }

    pub(crate) fn get_mut(&mut self) -> &mut sys::fi_info {
        // SAFETY: It is there as long as this is, and nobody else's.
        unsafe { &mut *self.0 }
    }

    /// Give it away: the program frees it.
    pub(crate) fn into_raw(self) -> *mut sys::fi_info {
        let info = self.0;
        mem::forget(self);
        info
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        if let Some(core) = core() {
            // SAFETY: It came from there.
            unsafe { (core.free)(self.0) }
        }
    }
}

/// A copy of some bytes, which `free()` frees.
pub(crate) fn allocate(bytes: &[u8]) -> Result<*mut libc::c_void> {
    // SAFETY: It has room for them.
    unsafe {
        let room = libc::malloc(bytes.len().max(1));
        if room.is_null() {
            return Err(libc::ENOMEM);
        }
        ptr::copy_nonoverlapping(bytes.as_ptr(), room.cast(), bytes.len());
        Ok(room)
    }
}

impl Info {
    /// The same with other addresses.
    pub(crate) fn between(mut self, from: Address, to: Address) -> Result<Self> {
        let info = self.get_mut();
        // SAFETY: Both are null, or libfabric has allocated them.
        unsafe {
            libc::free(mem::replace(&mut info.src_addr, ptr::null_mut()));
            libc::free(mem::replace(&mut info.dest_addr, ptr::null_mut()));
        }
        let bytes = socket_bytes(from);
        (info.src_addr, info.src_addrlen) = (allocate(&bytes)?, bytes.len());
        let bytes = socket_bytes(to);
        (info.dest_addr, info.dest_addrlen) = (allocate(&bytes)?, bytes.len());
        Ok(self)
    }
}
