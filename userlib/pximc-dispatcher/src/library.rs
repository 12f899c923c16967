// SPDX-License-Identifier: MIT OR Apache-2.0

//! Libraries of vendors: loads them, and knows the types of the functions in them.
//!
//! A library is loaded so that its names are its own (`RTLD_LOCAL`): it exports the same ones as
//! the Dispatcher, and as all other vendors. A file that is no library, or lacks a function, is
//! skipped with a warning in the log; only `PXIMC_enableDeviceAccess` may lack, for it is younger
//! than the first libraries.

#![allow(unsafe_code)]

use std::env;
use std::ffi::{c_char, c_void, CStr, OsStr};
use std::fmt;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::os::unix::{Library as Object, RTLD_LOCAL, RTLD_NOW};

use tracing::{info, warn};

use crate::dispatch::{Registry, Vendor};
use crate::scan::{self, FileId};
use crate::status::Status;
use crate::sys::Functions;

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

/// Whether a function is not the Dispatcher's: a library that depends on the Dispatcher, and
/// lacks the function, would answer by calling it.
fn is_foreign(function: *const c_void) -> bool {
    let own = own_object().map(|object| object.dli_fbase);
    object_of(function).is_some_and(|object| Some(object.dli_fbase) != own)
}

/// Which of these functions neither a library nor one that it depends on has.
macro_rules! lacking {
    ($functions:ident: $($name:ident)*) => {{
        let mut names: Vec<&'static str> = Vec::new();
        $(
            let function = $functions.$name.as_ref();
            if !function.is_ok_and(|function| is_foreign(*function as *const c_void)) {
                names.push(stringify!($name));
            }
        )*
        names
    }};
}

/// Why a file is not used as a vendor's library.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error(transparent)]
    NotLoaded(#[from] libloading::Error),
    #[error("lacks {}", .0.join(", "))]
    Incomplete(Vec<&'static str>),
}

/// A vendor's library.
pub struct Library {
    path: PathBuf,
    /// What the Dispatcher's callers are passed on to: all of them are there, except that
    /// libraries for the first revision of the specification lack one.
    pub functions: Functions,
    /// Whether that one is there: `PXIMC_enableDeviceAccess`.
    pub has_device_access: bool,
}

impl fmt::Debug for Library {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Library")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Library {
    /// Load the library, if it is one, and have all functions.
    fn load(path: &Path) -> Result<Library, Unfit> {
        // SAFETY: What the object does when it is loaded is as trusted as the directory, which is
        // as trusted as the Dispatcher's own.
        let object = unsafe { Object::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
        // SAFETY: Who puts a library with these names here says that it keeps to the header; it
        // stays loaded as long as the functions are there.
        let functions = unsafe { Functions::from_library(object) }?;
        let lacking = lacking!(functions:
            PXIMC_findInterfaces
            PXIMC_queryInterfaceInformation
            PXIMC_waitForInterfaceEvent
            PXIMC_findWindows
            PXIMC_queryWindowInformation
            PXIMC_requestWindowLogicalAsServer
            PXIMC_requestWindowLogicalAsClient
            PXIMC_requestWindowLogicalAsPeer
            PXIMC_requestWindowPhysicalAsServer
            PXIMC_requestWindowPhysicalAsClient
            PXIMC_waitForConnection
            PXIMC_getPhysicalAddress
            PXIMC_assertEvent
            PXIMC_waitForSessionEvent
            PXIMC_closeWindow
            PXIMC_cleanup
        );
        if !lacking.is_empty() {
            return Err(Unfit::Incomplete(lacking));
        }
        let has_device_access = lacking!(functions: PXIMC_enableDeviceAccess).is_empty();
        Ok(Library {
            path: path.into(),
            functions,
            has_device_access,
        })
    }

    /// Load the library, and tell how that went.
    fn load_and_tell(path: &Path) -> Option<Library> {
        let name = path.display();
        let loaded = Library::load(path);
        match &loaded {
            Ok(library) if library.has_device_access => info!("{name}: loaded"),
            Ok(_) => info!("{name}: loaded, without PXIMC_enableDeviceAccess"),
            Err(reason) => warn!("{name}: skipped: {reason}"),
        }
        loaded.ok()
    }

    /// An address that only this library has.
    fn address(&self) -> *const c_void {
        let cleanup = self.functions.PXIMC_cleanup.as_ref();
        cleanup.map_or(ptr::null(), |function| *function as *const c_void)
    }
}

impl Vendor for Library {
    fn find_interfaces(&self, ids: &mut [u32]) -> (Status, u32) {
        let capacity = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let mut actual = 0;
        // SAFETY: There is room for as many ids as `capacity` says.
        let status = unsafe {
            self.functions
                .PXIMC_findInterfaces(capacity, ids.as_mut_ptr(), &mut actual)
        };
        (status, actual)
    }

    fn close_window(&self, session: u32) -> Status {
        // SAFETY: Any number may be passed.
        unsafe { self.functions.PXIMC_closeWindow(session) }
    }

    fn cleanup(&self) -> Status {
        // SAFETY: May be called at any time.
        unsafe { self.functions.PXIMC_cleanup() }
    }

    fn is_same(&self, other: &Library) -> bool {
        self.address() == other.address()
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
            .filter_map(|path| Library::load_and_tell(path))
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
