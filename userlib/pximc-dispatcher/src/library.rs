// SPDX-License-Identifier: MIT OR Apache-2.0

//! Libraries of vendors: loads them, and knows the types of the functions in them.
//!
//! A library is loaded so that its names are its own (`RTLD_LOCAL`): it exports the same ones as
//! the Dispatcher, and as all other vendors. A file that is no library, or lacks a function, is
//! passed over in silence; only `PXIMC_enableDeviceAccess` may lack, for it is younger than the
//! first libraries.

#![allow(unsafe_code)]

use std::env;
use std::ffi::{c_char, c_int, c_void, CStr, CString, OsStr};
use std::fmt;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use crate::dispatch::{Registry, Vendor};
use crate::scan::{self, FileId};
use crate::status::Status;

/// Names another directory than the one below `/opt`; not heeded in privileged programs.
const DIRECTORY_VARIABLE: &CStr = c"PXIMC_LIBRARY_PATH";

/// Where the libraries for this size of pointers are, by preference.
#[cfg(target_pointer_width = "64")]
const DIRECTORIES: [&str; 1] = ["/opt/pximc/lib64"];
#[cfg(not(target_pointer_width = "64"))]
const DIRECTORIES: [&str; 2] = ["/opt/pximc/lib32", "/opt/pximc/lib"];

extern "C" {
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

macro_rules! functions {
    ($($name:ident($($type:ty),*);)*) => {
        /// The functions of a library, by the names of the specification.
        #[allow(non_snake_case, missing_docs)]
        #[derive(Clone, Copy)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($type),*) -> Status,)*
            /// Absent in libraries for the first revision of the specification.
            pub PXIMC_enableDeviceAccess:
                Option<unsafe extern "C" fn(u32, u32, u32, u32, u32) -> Status>,
        }

        impl Functions {
            /// The functions in a library; none if one lacks that has to be there.
            ///
            /// # Safety
            ///
            /// The library keeps to `pximc.h`, and is not unloaded as long as the functions are
            /// used.
            unsafe fn of(handle: &Handle) -> Option<Functions> {
                Some(Functions {
                    $($name: {
                        let symbol = handle.symbol(name(concat!(stringify!($name), "\0"))?)?;
                        // SAFETY: A function of this name has this type, says the caller.
                        unsafe { mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($type),*) -> Status>(symbol) }
                    },)*
                    PXIMC_enableDeviceAccess: handle.symbol(c"PXIMC_enableDeviceAccess").map(|symbol| {
                        // SAFETY: As above.
                        unsafe { mem::transmute::<NonNull<c_void>, unsafe extern "C" fn(u32, u32, u32, u32, u32) -> Status>(symbol) }
                    }),
                })
            }
        }
    };
}

functions! {
    PXIMC_findInterfaces(u32, *mut u32, *mut u32);
    PXIMC_queryInterfaceInformation(u32, u32, u32, *mut c_void, *mut u32);
    PXIMC_waitForInterfaceEvent(u32, u32, *mut u32);
    PXIMC_findWindows(u32, u32, *mut u32, *mut u32);
    PXIMC_queryWindowInformation(u32, u32, u32, u32, *mut c_void, *mut u32);
    PXIMC_requestWindowLogicalAsServer(u32, u32, u64, u64, u64, u64, u32, *const u8, u32, *mut u32);
    PXIMC_requestWindowLogicalAsClient(u32, u32, u64, u64, u64, u64, u32, *mut u32);
    PXIMC_requestWindowLogicalAsPeer(u32, u32, u64, u64, u64, u64, u32, *const u8, u32, *mut u32);
    PXIMC_requestWindowPhysicalAsServer(u32, u32, u64, u32, u64, *const u8, u32, *mut u32);
    PXIMC_requestWindowPhysicalAsClient(u32, u32, u64, u64, u32, *mut u32);
    PXIMC_waitForConnection(u32, u32, *mut *mut c_void, *mut u64, *mut *mut c_void, *mut u64);
    PXIMC_getPhysicalAddress(u32, *mut u64);
    PXIMC_assertEvent(u32);
    PXIMC_waitForSessionEvent(u32, u32, *mut u32);
    PXIMC_closeWindow(u32);
    PXIMC_cleanup();
}

fn name(bytes: &'static str) -> Option<&'static CStr> {
    CStr::from_bytes_with_nul(bytes.as_bytes()).ok()
}

/// What `dladdr` knows of an address.
fn object_of(address: *const c_void) -> Option<libc::Dl_info> {
    let mut info = mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: The address is looked up and not followed; `info` has room for the answer.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: It is filled in if something was found.
    (found != 0).then(|| unsafe { info.assume_init() })
}

/// The Dispatcher itself.
fn own_object() -> Option<libc::Dl_info> {
    let own: fn() -> Option<libc::Dl_info> = own_object;
    object_of(own as *const c_void)
}

/// The file that this code is in.
fn own_file() -> Option<FileId> {
    let name = own_object()?.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: The name of an object that is loaded, which this one stays while it runs.
    let name = unsafe { CStr::from_ptr(name) };
    FileId::of(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// A loaded object; unloaded when it is dropped as often as it was loaded.
#[derive(Debug)]
struct Handle(NonNull<c_void>);

impl Handle {
    fn open(path: &Path) -> Option<Handle> {
        const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_LOCAL;
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: The path ends in NUL. What the object does when it is loaded is as trusted as
        // the directory, which is as trusted as the Dispatcher's own.
        NonNull::new(unsafe { libc::dlopen(path.as_ptr(), FLAGS) }).map(Handle)
    }

    /// Something in the object, or in one that it depends on, but nothing of the Dispatcher: who
    /// depends on that would answer by calling it.
    fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: The handle is open and the name ends in NUL.
        let symbol = NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })?;
        let own = own_object()?.dli_fbase;
        let foreign = object_of(symbol.as_ptr()).is_some_and(|object| object.dli_fbase != own);
        foreign.then_some(symbol)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: It was opened, and nothing of it is used any more.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

// SAFETY: The functions of the dynamic linker may be called from any thread.
unsafe impl Send for Handle {}
// SAFETY: As above.
unsafe impl Sync for Handle {}

/// A vendor's library.
pub struct Library {
    /// What the Dispatcher's callers are passed on to.
    pub functions: Functions,
    /// Last, so that it outlives the functions.
    handle: Handle,
}

impl fmt::Debug for Library {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Library")
            .field(&self.handle)
            .finish()
    }
}

impl Library {
    /// Loads the library, if it is one, and has all functions.
    fn load(path: &Path) -> Option<Library> {
        let handle = Handle::open(path)?;
        // SAFETY: Who puts a library with these names here says that it keeps to the header; it
        // stays loaded as long as the functions are there.
        let functions = unsafe { Functions::of(&handle) }?;
        Some(Library { functions, handle })
    }
}

impl Vendor for Library {
    fn find_interfaces(&self, ids: &mut [u32]) -> (Status, u32) {
        let capacity = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let mut actual = 0;
        // SAFETY: There is room for as many ids as `capacity` says.
        let status = unsafe {
            (self.functions.PXIMC_findInterfaces)(capacity, ids.as_mut_ptr(), &mut actual)
        };
        (status, actual)
    }

    fn close_window(&self, session: u32) -> Status {
        // SAFETY: Any number may be passed.
        unsafe { (self.functions.PXIMC_closeWindow)(session) }
    }

    fn cleanup(&self) -> Status {
        // SAFETY: May be called at any time.
        unsafe { (self.functions.PXIMC_cleanup)() }
    }

    fn is_same(&self, other: &Library) -> bool {
        self.handle.0 == other.handle.0
    }
}

/// The directory that vendors put links to their libraries into.
#[derive(Debug)]
pub struct Directory;

impl Registry for Directory {
    type Vendor = Library;

    /// All libraries in it, by name.
    fn load(&self) -> Vec<Library> {
        let paths = scan::candidates(&directory(), own_file());
        paths
            .iter()
            .filter_map(|path| Library::load(path))
            .collect()
    }
}

fn directory() -> PathBuf {
    directory_by_environment().unwrap_or_else(|| {
        let mut usual = DIRECTORIES.iter().map(PathBuf::from);
        let there = usual.clone().find(|path| path.is_dir());
        there.or_else(|| usual.next()).unwrap_or_default()
    })
}

fn directory_by_environment() -> Option<PathBuf> {
    // SAFETY: The name ends in NUL.
    let privileged = unsafe { secure_getenv(DIRECTORY_VARIABLE.as_ptr()) }.is_null();
    if privileged {
        return None;
    }
    let name = OsStr::from_bytes(DIRECTORY_VARIABLE.to_bytes());
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
