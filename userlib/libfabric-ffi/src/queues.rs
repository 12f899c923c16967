// SPDX-License-Identifier: MIT OR Apache-2.0

//! Event queues, which tell of connections, and completion queues. Reading one moves what can be moved.

use crate::{
    count,
    info::{MSG, RECV, SEND},
    objects::{
        close, fid, missing, no_bind, no_control, object, ops, table, with_handle, Fid, Object, Ops,
    },
    status, sys,
    tables::{Cq, Eq, Told},
    Result,
};
use libfabric::{Completion, Fault, Kind};
use std::{
    ffi::{c_char, c_void},
    mem::size_of,
    ptr, slice,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Completions that a queue has room for, unless the program says otherwise.
const SIZE: usize = 4096;
/// How long one that waits sleeps between two looks: at first, and at most.
const NAP_MIN: Duration = Duration::from_micros(20);
const NAP_MAX: Duration = Duration::from_millis(1);
/// Looks of one that waits before it sleeps.
const LOOKS: u32 = 1000;

type EqFid = Object<sys::fid_eq>;
type CqFid = Object<sys::fid_cq>;

/// Look until there is something, or it is too late: milliseconds, negative ones without an end.
fn wait<T>(timeout: i32, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let time = u64::try_from(timeout).map(Duration::from_millis).ok();
    let late = time.and_then(|time| Instant::now().checked_add(time));
    let (mut looks, mut nap) = (0, NAP_MIN);
    loop {
        match look() {
            Err(libc::EAGAIN) => {}
            other => return other,
        }
        looks += 1;
        if late.is_some_and(|late| late <= Instant::now()) {
            return Err(libc::EAGAIN);
        }
        if looks > LOOKS {
            thread::sleep(nap);
            nap = (nap * 2).min(NAP_MAX);
        }
    }
}

/// Whether a queue that is opened so can wait.
///
/// # Errors
/// `ENOSYS`: by an object that is not implemented.
fn waits(object: sys::fi_wait_obj) -> Result<bool> {
    match object {
        sys::FI_WAIT_NONE => Ok(false),
        sys::FI_WAIT_UNSPEC | sys::FI_WAIT_YIELD => Ok(true),
        _ => Err(libc::ENOSYS),
    }
}

missing! {
    no_write(*mut sys::fid_eq, u32, *const c_void, usize, u64) -> isize;
    no_signal(*mut sys::fid_cq) -> i32;
}

static EQ: Ops<sys::fi_ops> = Ops(ops(close_eq, no_bind, no_control));
static EQ_OPS: Ops<sys::fi_ops_eq> = Ops(sys::fi_ops_eq {
    size: size_of::<sys::fi_ops_eq>(),
    read: Some(eq_read),
    readerr: Some(eq_readerr),
    write: Some(no_write),
    sread: Some(eq_sread),
    strerror: Some(eq_strerror),
});

pub(crate) unsafe extern "C" fn eq_open(
    fabric: *mut sys::fid_fabric,
    attr: *mut sys::fi_eq_attr,
    eq: *mut *mut sys::fid_eq,
    context: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: These are a program's; there is room for the queue.
        unsafe {
            let fabric = object::<sys::fid_fabric>(fabric.cast())?;
            let waits = attr
                .as_ref()
                .map_or(Ok(false), |attr| waits(attr.wait_obj))?;
            let id = fabric.shared.lock().eqs.add(Eq::default());
            let seen = sys::fid_eq {
                fid: fid(sys::FI_CLASS_EQ, context, &EQ.0),
                ops: table(&EQ_OPS.0),
            };
            let opened = Fid::new(seen, Arc::clone(&fabric.shared), id).of(&fabric.users);
            eq.write(opened.set(waits, 0).into_raw());
        }
        Ok(())
    })
}

unsafe extern "C" fn close_eq(at: *mut sys::fid) -> i32 {
    // SAFETY: It is a program's event queue.
    unsafe {
        close::<sys::fid_eq>(at, |eq| {
            // Requests that nobody has seen are refused, without the lock.
            let ended = eq.shared.lock().eqs.take(eq.id);
            drop(ended);
        })
    }
}

/// Where a program wants an event.
#[derive(Clone, Copy)]
struct Room {
    event: *mut u32,
    at: *mut c_void,
    len: usize,
    peeks: bool,
}

impl Room {
    fn new(event: *mut u32, at: *mut c_void, len: usize, flags: u64) -> Self {
        Room {
            event,
            at,
            len,
            peeks: flags & sys::FI_PEEK as u64 != 0,
        }
    }
}

impl EqFid {
    /// # Safety
    /// There is room for what is read.
    unsafe fn read(&self, room: Room) -> Result<usize> {
        let shared = &self.shared;
        let mut tables = shared.lock();
        if tables.eqs.get(self.id)?.told.is_empty() {
            tables.look(shared, self.id);
        }
        let eq = tables.eqs.get(self.id)?;
        eq.data.clear();
        let data = match eq.told.front().ok_or(libc::EAGAIN)? {
            Told::Failure { .. } => return Err(sys::FI_EAVAIL as i32),
            Told::Connection { data, .. } => data.clone(),
            Told::Request { request, .. } => request.data.clone(),
        };
        let head = size_of::<sys::fi_eq_cm_entry>();
        let most = room.len.checked_sub(head).ok_or(sys::FI_ETOOSMALL as i32)?;
        let told = match room.peeks {
            true => None,
            false => eq.told.pop_front(),
        };
        let (event, fid, info) = match told {
            Some(Told::Connection { event, fid, .. }) => (event, fid, ptr::null_mut()),
            Some(Told::Request { fid, info, request }) => {
                (sys::FI_CONNREQ, fid, with_handle(info, request))
            }
            Some(Told::Failure { .. }) => return Err(libc::EIO),
            None => match eq.told.front() {
                Some(Told::Connection { event, fid, .. }) => (*event, *fid, ptr::null_mut()),
                Some(Told::Request { fid, .. }) => (sys::FI_CONNREQ, *fid, ptr::null_mut()),
                _ => return Err(libc::EAGAIN),
            },
        };
        let len = data.len().min(most);
        // SAFETY: There is room for the entry and for what is left of the data.
        unsafe {
            room.event.write(event);
            let entry = room.at.cast::<sys::fi_eq_cm_entry>();
            (&raw mut (*entry).fid).write(ptr::with_exposed_provenance_mut(fid));
            (&raw mut (*entry).info).write(info);
            let to = room.at.cast::<u8>().add(head);
            ptr::copy_nonoverlapping(data.as_ptr(), to, len);
        }
        Ok(head + len)
    }
}

unsafe extern "C" fn eq_read(
    at: *mut sys::fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    let room = Room::new(event, buf, len, flags);
    // SAFETY: These are a program's.
    count(|| unsafe { object::<sys::fid_eq>(at.cast())?.read(room) })
}

unsafe extern "C" fn eq_sread(
    at: *mut sys::fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: i32,
    flags: u64,
) -> isize {
    count(|| {
        let room = Room::new(event, buf, len, flags);
        // SAFETY: These are a program's.
        let eq = unsafe { object::<sys::fid_eq>(at.cast()) }?;
        match eq.waits {
            // SAFETY: There is room for what is read.
            true => wait(timeout, || unsafe { eq.read(room) }),
            false => Err(libc::ENOSYS),
        }
    })
}

unsafe extern "C" fn eq_readerr(
    at: *mut sys::fid_eq,
    buf: *mut sys::fi_eq_err_entry,
    flags: u64,
) -> isize {
    count(|| {
        // SAFETY: These are a program's.
        let eq = unsafe { object::<sys::fid_eq>(at.cast()) }?;
        let mut tables = eq.shared.lock();
        let queue = tables.eqs.get(eq.id)?;
        let Some(Told::Failure {
            fid,
            context,
            error,
            data,
        }) = queue.told.front()
        else {
            return Err(libc::EAGAIN);
        };
        // SAFETY: There is room for an entry, and for as many bytes of data as it says.
        unsafe {
            let entry = &mut *buf;
            entry.fid = ptr::with_exposed_provenance_mut(*fid);
            entry.context = ptr::with_exposed_provenance_mut(*context);
            entry.data = 0;
            (entry.err, entry.prov_errno) = (*error, *error);
            match (entry.err_data.is_null(), entry.err_data_size) {
                (false, 1..) => {
                    let len = entry.err_data_size.min(data.len());
                    let room = slice::from_raw_parts_mut(entry.err_data.cast::<u8>(), len);
                    room.copy_from_slice(&data[..len]);
                    entry.err_data_size = len;
                }
                _ => {
                    queue.data.clone_from(data);
                    entry.err_data = queue.data.as_mut_ptr().cast();
                    entry.err_data_size = queue.data.len();
                }
            }
        }
        if flags & sys::FI_PEEK as u64 == 0 {
            queue.told.pop_front();
        }
        Ok(size_of::<sys::fi_eq_err_entry>())
    })
}

/// What an error is called, by the system.
unsafe fn text(error: i32, buf: *mut c_char, len: usize) -> *const c_char {
    // SAFETY: The system's texts stay; the program's room is as long as it says.
    unsafe {
        let text = libc::strerror(error);
        if !buf.is_null() && len > 0 {
            libc::strncpy(buf, text, len);
            buf.add(len - 1).write(0);
        }
        text
    }
}

unsafe extern "C" fn eq_strerror(
    _eq: *mut sys::fid_eq,
    error: i32,
    _data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: The room is a program's.
    unsafe { text(error, buf, len) }
}

static CQ: Ops<sys::fi_ops> = Ops(ops(close_cq, no_bind, no_control));
static CQ_OPS: Ops<sys::fi_ops_cq> = Ops(sys::fi_ops_cq {
    size: size_of::<sys::fi_ops_cq>(),
    read: Some(cq_read),
    readfrom: Some(cq_readfrom),
    readerr: Some(cq_readerr),
    sread: Some(cq_sread),
    sreadfrom: Some(cq_sreadfrom),
    signal: Some(no_signal),
    strerror: Some(cq_strerror),
});

pub(crate) unsafe extern "C" fn cq_open(
    domain: *mut sys::fid_domain,
    attr: *mut sys::fi_cq_attr,
    cq: *mut *mut sys::fid_cq,
    context: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: These are a program's; there is room for the queue.
        unsafe {
            let domain = object::<sys::fid_domain>(domain.cast())?;
            let attr = attr.as_ref().ok_or(libc::EINVAL)?;
            let (waits, format) = (waits(attr.wait_obj)?, attr.format);
            if attr.wait_cond != sys::FI_CQ_COND_NONE {
                return Err(libc::ENOSYS);
            }
            let format = match format {
                sys::FI_CQ_FORMAT_UNSPEC => sys::FI_CQ_FORMAT_CONTEXT,
                1..=sys::FI_CQ_FORMAT_TAGGED => format,
                _ => return Err(libc::EINVAL),
            };
            let size = if attr.size == 0 { SIZE } else { attr.size };
            let queue = Cq {
                done: Default::default(),
                size,
            };
            let id = domain.shared.lock().cqs.add(queue);
            let seen = sys::fid_cq {
                fid: fid(sys::FI_CLASS_CQ, context, &CQ.0),
                ops: table(&CQ_OPS.0),
            };
            let opened = Fid::new(seen, Arc::clone(&domain.shared), id).of(&domain.users);
            cq.write(opened.set(waits, format).into_raw());
        }
        Ok(())
    })
}

unsafe extern "C" fn close_cq(at: *mut sys::fid) -> i32 {
    // SAFETY: It is a program's completion queue.
    unsafe {
        close::<sys::fid_cq>(at, |cq| {
            let ended = cq.shared.lock().cqs.take(cq.id);
            drop(ended);
        })
    }
}

/// Flags of a completion.
fn flags(completion: &Completion) -> u64 {
    let data = match completion.immediate {
        Some(_) => sys::FI_REMOTE_CQ_DATA as u64,
        None => 0,
    };
    match completion.kind {
        Kind::Send => MSG | SEND,
        Kind::Receive => MSG | RECV | data,
    }
}

impl CqFid {
    /// # Safety
    /// There is room for so many entries.
    unsafe fn read(&self, room: *mut c_void, most: usize) -> Result<usize> {
        let mut tables = self.shared.lock();
        tables.progress(self.id);
        let done = &mut tables.cqs.get(self.id)?.done;
        let good = done
            .iter()
            .take(most)
            .take_while(|next| next.fault.is_none());
        let count = good.count();
        for (index, completion) in done.drain(..count).enumerate() {
            // SAFETY: As the caller says.
            unsafe { self.write(room, index, &completion) }
        }
        match done.front() {
            _ if count > 0 || most == 0 => Ok(count),
            // One that has failed is in the way.
            Some(_) => Err(sys::FI_EAVAIL as i32),
            None => Err(libc::EAGAIN),
        }
    }

    /// # Safety
    /// There is room for an entry.
    unsafe fn write(&self, room: *mut c_void, index: usize, of: &Completion) {
        let op_context = ptr::with_exposed_provenance_mut(of.context);
        let (flags, len, buf) = (flags(of), of.len, ptr::null_mut());
        let data = of.immediate.map_or(0, u64::from);
        // SAFETY: As the caller says; the format is that of the queue.
        unsafe {
            match self.format {
                sys::FI_CQ_FORMAT_MSG => {
                    let entry = sys::fi_cq_msg_entry {
                        op_context,
                        flags,
                        len,
                    };
                    room.cast::<sys::fi_cq_msg_entry>().add(index).write(entry);
                }
                sys::FI_CQ_FORMAT_DATA => {
                    let entry = sys::fi_cq_data_entry {
                        op_context,
                        flags,
                        len,
                        buf,
                        data,
                    };
                    room.cast::<sys::fi_cq_data_entry>().add(index).write(entry);
                }
                sys::FI_CQ_FORMAT_TAGGED => {
                    let entry = sys::fi_cq_tagged_entry {
                        op_context,
                        flags,
                        len,
                        buf,
                        data,
                        tag: 0,
                    };
                    room.cast::<sys::fi_cq_tagged_entry>()
                        .add(index)
                        .write(entry);
                }
                _ => {
                    let entry = sys::fi_cq_entry { op_context };
                    room.cast::<sys::fi_cq_entry>().add(index).write(entry);
                }
            }
        }
    }

    fn read_error(&self, entry: &mut sys::fi_cq_err_entry) -> Result<usize> {
        let mut tables = self.shared.lock();
        let done = &mut tables.cqs.get(self.id)?.done;
        let of = match done.front() {
            Some(first) if first.fault.is_some() => *first,
            _ => return Err(libc::EAGAIN),
        };
        done.pop_front();
        entry.op_context = ptr::with_exposed_provenance_mut(of.context);
        (entry.flags, entry.len) = (flags(&of), of.len);
        (entry.buf, entry.tag) = (ptr::null_mut(), 0);
        entry.data = of.immediate.map_or(0, u64::from);
        (entry.err, entry.olen) = match of.fault {
            Some(Fault::Truncated(over)) => (sys::FI_ETRUNC as i32, over),
            _ => (libc::ECANCELED, 0),
        };
        entry.prov_errno = entry.err;
        entry.err_data_size = 0;
        Ok(1)
    }
}

unsafe extern "C" fn cq_read(at: *mut sys::fid_cq, buf: *mut c_void, most: usize) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe { object::<sys::fid_cq>(at.cast())?.read(buf, most) })
}

unsafe extern "C" fn cq_readfrom(
    at: *mut sys::fid_cq,
    buf: *mut c_void,
    most: usize,
    from: *mut sys::fi_addr_t,
) -> isize {
    // SAFETY: As of the other one; there is room for as many addresses.
    unsafe {
        let read = cq_read(at, buf, most);
        nobody(read, from);
        read
    }
}

/// Write no address for each entry: that of a connection is known.
///
/// # Safety
/// There is room for so many addresses.
unsafe fn nobody(read: isize, from: *mut sys::fi_addr_t) {
    for index in 0..usize::try_from(read).unwrap_or(0) {
        // SAFETY: As the caller says.
        unsafe { from.add(index).write(u64::MAX) }
    }
}

unsafe extern "C" fn cq_sread(
    at: *mut sys::fid_cq,
    buf: *mut c_void,
    most: usize,
    _cond: *const c_void,
    timeout: i32,
) -> isize {
    count(|| {
        // SAFETY: These are a program's.
        let cq = unsafe { object::<sys::fid_cq>(at.cast()) }?;
        match cq.waits {
            // SAFETY: There is room for so many entries.
            true => wait(timeout, || unsafe { cq.read(buf, most) }),
            false => Err(libc::ENOSYS),
        }
    })
}

unsafe extern "C" fn cq_sreadfrom(
    at: *mut sys::fid_cq,
    buf: *mut c_void,
    most: usize,
    from: *mut sys::fi_addr_t,
    cond: *const c_void,
    timeout: i32,
) -> isize {
    // SAFETY: As of the other one; there is room for as many addresses.
    unsafe {
        let read = cq_sread(at, buf, most, cond, timeout);
        nobody(read, from);
        read
    }
}

unsafe extern "C" fn cq_readerr(
    at: *mut sys::fid_cq,
    buf: *mut sys::fi_cq_err_entry,
    _flags: u64,
) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe {
        let cq = object::<sys::fid_cq>(at.cast())?;
        cq.read_error(buf.as_mut().ok_or(libc::EINVAL)?)
    })
}

unsafe extern "C" fn cq_strerror(
    _cq: *mut sys::fid_cq,
    error: i32,
    _data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: The room is a program's.
    unsafe { text(error, buf, len) }
}
