// SPDX-License-Identifier: MIT OR Apache-2.0

//! Structures of C that programs have pointers to: fabrics, domains, regions, and what all of them
//! have in common.

use crate::{core::Info, endpoint, queues, status, sys, tables::Shared, Result};
use libfabric::Request;
use std::{
    ffi::c_void,
    mem::size_of,
    ptr,
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering},
        Arc, Mutex,
    },
};

/// An object: what the program sees, and behind it what it does not.
#[repr(C)]
pub(crate) struct Object<T> {
    seen: T,
    pub(crate) shared: Arc<Shared>,
    /// Its number in its table.
    pub(crate) id: usize,
    /// Objects that were opened of it and not closed.
    pub(crate) users: Arc<AtomicUsize>,
    /// The one that it was opened of.
    parent: Option<Arc<AtomicUsize>>,
    /// Whether waiting was asked for.
    pub(crate) waits: bool,
    /// Of a completion queue, what is told of each completion.
    pub(crate) format: u32,
}

/// An object that nobody points to yet.
pub(crate) struct Fid<T>(Box<Object<T>>);

impl<T> Fid<T> {
    pub(crate) fn new(seen: T, shared: Arc<Shared>, id: usize) -> Self {
        Fid(Box::new(Object {
            seen,
            shared,
            id,
            users: Arc::default(),
            parent: None,
            waits: false,
            format: 0,
        }))
    }

    /// Keep the object open that this one was opened of.
    pub(crate) fn of(mut self, users: &Arc<AtomicUsize>) -> Self {
        users.fetch_add(1, Ordering::Relaxed);
        self.0.parent = Some(Arc::clone(users));
        self
    }

    pub(crate) fn set(mut self, waits: bool, format: u32) -> Self {
        (self.0.waits, self.0.format) = (waits, format);
        self
    }

    pub(crate) fn into_raw(self) -> *mut T {
        Box::into_raw(self.0).cast()
    }
}

/// The object that a program's pointer leads to.
///
/// # Safety
/// It came from [`Fid::into_raw`], and the object was not closed.
pub(crate) unsafe fn object<'a, T>(at: *const c_void) -> Result<&'a Object<T>> {
    // SAFETY: As the caller says.
    unsafe { at.cast::<Object<T>>().as_ref() }.ok_or(libc::EINVAL)
}

/// Close an object of which nothing is open any more.
///
/// # Safety
/// As [`object()`]; nobody uses it later.
pub(crate) unsafe fn close<T>(at: *mut sys::fid, end: impl FnOnce(&Object<T>)) -> i32 {
    status(|| {
        // SAFETY: As the caller says.
        let this = unsafe { object::<T>(at.cast()) }?;
        if this.users.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        end(this);
        // SAFETY: As the caller says.
        let this = unsafe { Box::from_raw(at.cast::<Object<T>>()) };
        if let Some(parent) = &this.parent {
            parent.fetch_sub(1, Ordering::Release);
        }
        Ok(())
    })
}

/// The start of each structure.
pub(crate) fn fid(class: u32, context: *mut c_void, ops: &'static sys::fi_ops) -> sys::fid {
    sys::fid {
        fclass: class as usize,
        context,
        ops: ptr::from_ref(ops).cast_mut(),
    }
}

/// A table of functions.
pub(crate) fn table<T>(table: &'static T) -> *mut T {
    ptr::from_ref(table).cast_mut()
}

/// What functions return that the provider has not.
pub(crate) const MISSING: i8 = -(libc::ENOSYS as i8);

/// Functions that the provider has not.
macro_rules! missing {
    ($($name:ident($($kind:ty),*) $(-> $result:ty)?;)*) => {
        $(pub(crate) unsafe extern "C" fn $name($(_: $kind),*) $(-> $result)? {
            $(<$result>::from($crate::objects::MISSING))?
        })*
    };
}
pub(crate) use missing;

missing! {
    no_bind(*mut sys::fid, *mut sys::fid, u64) -> i32;
    no_control(*mut sys::fid, i32, *mut c_void) -> i32;
    no_ops(*mut sys::fid, *const std::ffi::c_char, u64, *mut *mut c_void, *mut c_void) -> i32;
    no_wait_open(*mut sys::fid_fabric, *mut sys::fi_wait_attr, *mut *mut sys::fid_wait) -> i32;
    no_trywait(*mut sys::fid_fabric, *mut *mut sys::fid, i32) -> i32;
    no_av(*mut sys::fid_domain, *mut sys::fi_av_attr, *mut *mut sys::fid_av, *mut c_void) -> i32;
    no_sep(*mut sys::fid_domain, *mut sys::fi_info, *mut *mut sys::fid_ep, *mut c_void) -> i32;
    no_cntr(*mut sys::fid_domain, *mut sys::fi_cntr_attr, *mut *mut sys::fid_cntr, *mut c_void) -> i32;
    no_poll(*mut sys::fid_domain, *mut sys::fi_poll_attr, *mut *mut sys::fid_poll) -> i32;
    no_stx(*mut sys::fid_domain, *mut sys::fi_tx_attr, *mut *mut sys::fid_stx, *mut c_void) -> i32;
    no_srx(*mut sys::fid_domain, *mut sys::fi_rx_attr, *mut *mut sys::fid_ep, *mut c_void) -> i32;
}

/// Functions of an object that can only be closed and bound.
pub(crate) const fn ops(
    close: unsafe extern "C" fn(*mut sys::fid) -> i32,
    bind: unsafe extern "C" fn(*mut sys::fid, *mut sys::fid, u64) -> i32,
    control: unsafe extern "C" fn(*mut sys::fid, i32, *mut c_void) -> i32,
) -> sys::fi_ops {
    sys::fi_ops {
        size: size_of::<sys::fi_ops>(),
        close: Some(close),
        bind: Some(bind),
        control: Some(control),
        ops_open: Some(no_ops),
        tostr: None,
        ops_set: None,
    }
}

/// A table that is never written to.
pub(crate) struct Ops<T>(pub(crate) T);

// SAFETY: It has functions and a size alone.
unsafe impl<T> Sync for Ops<T> {}

static FABRIC: Ops<sys::fi_ops> = Ops(ops(close_fabric, no_bind, no_control));
static FABRIC_OPS: Ops<sys::fi_ops_fabric> = Ops(sys::fi_ops_fabric {
    size: size_of::<sys::fi_ops_fabric>(),
    domain: Some(domain),
    passive_ep: Some(endpoint::passive_ep),
    eq_open: Some(queues::eq_open),
    wait_open: Some(no_wait_open),
    trywait: Some(no_trywait),
    domain2: None,
});

pub(crate) fn open_fabric(
    shared: Arc<Shared>,
    version: u32,
    context: *mut c_void,
) -> Fid<sys::fid_fabric> {
    let seen = sys::fid_fabric {
        fid: fid(sys::FI_CLASS_FABRIC, context, &FABRIC.0),
        ops: table(&FABRIC_OPS.0),
        api_version: version,
    };
    Fid::new(seen, shared, 0)
}

unsafe extern "C" fn close_fabric(at: *mut sys::fid) -> i32 {
    // SAFETY: It is a program's fabric.
    unsafe { close::<sys::fid_fabric>(at, |_| ()) }
}

static DOMAIN: Ops<sys::fi_ops> = Ops(ops(close_domain, no_bind, no_control));
static DOMAIN_OPS: Ops<sys::fi_ops_domain> = Ops(sys::fi_ops_domain {
    size: size_of::<sys::fi_ops_domain>(),
    av_open: Some(no_av),
    cq_open: Some(queues::cq_open),
    endpoint: Some(endpoint::endpoint),
    scalable_ep: Some(no_sep),
    cntr_open: Some(no_cntr),
    poll_open: Some(no_poll),
    stx_ctx: Some(no_stx),
    srx_ctx: Some(no_srx),
    query_atomic: None,
    query_collective: None,
    endpoint2: None,
});
static REGION_OPS: Ops<sys::fi_ops_mr> = Ops(sys::fi_ops_mr {
    size: size_of::<sys::fi_ops_mr>(),
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
});

unsafe extern "C" fn domain(
    fabric: *mut sys::fid_fabric,
    _info: *mut sys::fi_info,
    domain: *mut *mut sys::fid_domain,
    context: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: It is a program's fabric.
        let fabric = unsafe { object::<sys::fid_fabric>(fabric.cast()) }?;
        let seen = sys::fid_domain {
            fid: fid(sys::FI_CLASS_DOMAIN, context, &DOMAIN.0),
            ops: table(&DOMAIN_OPS.0),
            mr: table(&REGION_OPS.0),
        };
        let opened = Fid::new(seen, Arc::clone(&fabric.shared), 0).of(&fabric.users);
        // SAFETY: There is room for it.
        unsafe { domain.write(opened.into_raw()) };
        Ok(())
    })
}

unsafe extern "C" fn close_domain(at: *mut sys::fid) -> i32 {
    // SAFETY: It is a program's domain.
    unsafe { close::<sys::fid_domain>(at, |_| ()) }
}

static REGION: Ops<sys::fi_ops> = Ops(ops(close_region, no_bind, no_control));

/// Register memory. Sends and receives need no registration, so this has nothing to do; nobody reaches
/// memory of another host, which is refused.
fn region(
    domain: &Object<sys::fid_domain>,
    access: u64,
    key: u64,
    context: *mut c_void,
) -> Result<*mut sys::fid_mr> {
    static KEY: AtomicU64 = AtomicU64::new(1);
    let remote = sys::FI_REMOTE_READ as u64 | sys::FI_REMOTE_WRITE as u64;
    if access & remote != 0 {
        return Err(sys::FI_EOPNOTSUPP as i32);
    }
    let key = match key {
        0 => KEY.fetch_add(1, Ordering::Relaxed),
        key => key,
    };
    let seen = sys::fid_mr {
        fid: fid(sys::FI_CLASS_MR, context, &REGION.0),
        mem_desc: ptr::null_mut(),
        key,
    };
    let opened = Fid::new(seen, Arc::clone(&domain.shared), 0).of(&domain.users);
    Ok(opened.into_raw())
}

unsafe extern "C" fn reg(
    at: *mut sys::fid,
    _buf: *const c_void,
    _len: usize,
    access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    mr: *mut *mut sys::fid_mr,
    context: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: It is a program's domain; there is room for the region.
        unsafe {
            let domain = object::<sys::fid_domain>(at.cast())?;
            mr.write(region(domain, access, key, context)?);
        }
        Ok(())
    })
}

unsafe extern "C" fn regv(
    at: *mut sys::fid,
    _iov: *const sys::iovec,
    _count: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    mr: *mut *mut sys::fid_mr,
    context: *mut c_void,
) -> i32 {
    // SAFETY: As of the other one.
    unsafe { reg(at, ptr::null(), 0, access, offset, key, flags, mr, context) }
}

unsafe extern "C" fn regattr(
    at: *mut sys::fid,
    attr: *const sys::fi_mr_attr,
    flags: u64,
    mr: *mut *mut sys::fid_mr,
) -> i32 {
    // SAFETY: They are a program's.
    let Some(attr) = (unsafe { attr.as_ref() }) else {
        return -libc::EINVAL;
    };
    let (access, key, context) = (attr.access, attr.requested_key, attr.context);
    // SAFETY: As of the other one.
    unsafe { reg(at, ptr::null(), 0, access, 0, key, flags, mr, context) }
}

unsafe extern "C" fn close_region(at: *mut sys::fid) -> i32 {
    // SAFETY: It is a program's region.
    unsafe { close::<sys::fid_mr>(at, |_| ()) }
}

/// A request for a connection, as the handle of a structure that a program is told of.
#[repr(C)]
pub(crate) struct Handle {
    fid: sys::fid,
    request: Mutex<Option<Request>>,
}

static HANDLE: Ops<sys::fi_ops> = Ops(ops(close_handle, no_bind, no_control));

/// Give a structure that is told a handle for the request.
pub(crate) fn with_handle(mut info: Info, request: Request) -> *mut sys::fi_info {
    let handle = Box::new(Handle {
        fid: fid(sys::FI_CLASS_CONNREQ, ptr::null_mut(), &HANDLE.0),
        request: Mutex::new(Some(request)),
    });
    info.get_mut().handle = Box::into_raw(handle).cast();
    info.into_raw()
}

/// Take the request of a handle, which is over with that.
///
/// # Safety
/// It is null, or one that was told and not taken.
pub(crate) unsafe fn take_request(handle: *mut sys::fid) -> Result<Option<Request>> {
    // SAFETY: As the caller says.
    unsafe {
        match handle.as_ref() {
            None => Ok(None),
            Some(fid) if fid.fclass == sys::FI_CLASS_CONNREQ as usize => {
                let handle = Box::from_raw(handle.cast::<Handle>());
                let request = handle.request.into_inner();
                request.map_err(|_| libc::EINVAL)
            }
            Some(_) => Err(libc::EINVAL),
        }
    }
}

unsafe extern "C" fn close_handle(at: *mut sys::fid) -> i32 {
    // SAFETY: It is a request's handle.
    status(|| unsafe { take_request(at) }.map(drop))
}
