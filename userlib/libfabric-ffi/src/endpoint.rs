// SPDX-License-Identifier: MIT OR Apache-2.0

//! Endpoints and passive endpoints as programs call them.

use crate::{
    core::Info,
    count,
    info::{from_socket, give_address, INJECT, QUEUE},
    objects::{
        close, fid, missing, no_control, object, ops, table, take_request, Fid, Object, Ops,
    },
    status, sys,
    tables::{error, Bound, Ep, Pep, UserMemory},
    Result,
};
use libfabric::{Address, Endpoint, Listener, Receive, Send, Source, CM_DATA_MAX, IOV_MAX};
use std::{
    collections::hash_map::RandomState,
    ffi::c_void,
    hash::{BuildHasher, Hasher},
    mem::size_of,
    ptr, slice,
    sync::Arc,
};

type EpFid = Object<sys::fid_ep>;

const COMPLETION: u64 = sys::FI_COMPLETION as u64;
const SELECTIVE: u64 = sys::FI_SELECTIVE_COMPLETION;
const CQ_DATA: u64 = sys::FI_REMOTE_CQ_DATA as u64;
const INJECTED: u64 = sys::FI_INJECT as u64;
const MORE: u64 = sys::FI_MORE as u64;
/// Flags that a send, or a receive, may have.
const SEND_FLAGS: u64 = COMPLETION
    | CQ_DATA
    | INJECTED
    | MORE
    | sys::FI_INJECT_COMPLETE as u64
    | sys::FI_TRANSMIT_COMPLETE as u64;
const RECEIVE_FLAGS: u64 = COMPLETION | MORE;

missing! {
    no_setopt(*mut sys::fid, i32, i32, *const c_void, usize) -> i32;
    no_tx_ctx(*mut sys::fid_ep, i32, *mut sys::fi_tx_attr, *mut *mut sys::fid_ep, *mut c_void) -> i32;
    no_rx_ctx(*mut sys::fid_ep, i32, *mut sys::fi_rx_attr, *mut *mut sys::fid_ep, *mut c_void) -> i32;
    no_size_left(*mut sys::fid_ep) -> isize;
    no_cancel(*mut sys::fid, *mut c_void) -> isize;
    no_getpeer(*mut sys::fid_ep, *mut c_void, *mut usize) -> i32;
    no_connect(*mut sys::fid_ep, *const c_void, *const c_void, usize) -> i32;
    no_listen(*mut sys::fid_pep) -> i32;
    no_accept(*mut sys::fid_ep, *const c_void, usize) -> i32;
    no_reject(*mut sys::fid_pep, *mut sys::fid, *const c_void, usize) -> i32;
    no_shutdown(*mut sys::fid_ep, u64) -> i32;
    no_setname(*mut sys::fid, *mut c_void, usize) -> i32;
    no_join(*mut sys::fid_ep, *const c_void, u64, *mut *mut sys::fid_mc, *mut c_void) -> i32;
}

/// Functions of endpoints of both kinds.
const fn ep_ops(
    cancel: unsafe extern "C" fn(*mut sys::fid, *mut c_void) -> isize,
) -> sys::fi_ops_ep {
    sys::fi_ops_ep {
        size: size_of::<sys::fi_ops_ep>(),
        cancel: Some(cancel),
        getopt: Some(getopt),
        setopt: Some(no_setopt),
        tx_ctx: Some(no_tx_ctx),
        rx_ctx: Some(no_rx_ctx),
        rx_size_left: Some(no_size_left),
        tx_size_left: Some(no_size_left),
    }
}

static PEP: Ops<sys::fi_ops> = Ops(ops(close_pep, bind_pep, no_control));
static PEP_OPS: Ops<sys::fi_ops_ep> = Ops(ep_ops(no_cancel));
static PEP_CM: Ops<sys::fi_ops_cm> = Ops(sys::fi_ops_cm {
    size: size_of::<sys::fi_ops_cm>(),
    setname: Some(setname),
    getname: Some(getname_pep),
    getpeer: Some(no_getpeer),
    connect: Some(no_connect),
    listen: Some(listen),
    accept: Some(no_accept),
    reject: Some(reject),
    shutdown: Some(no_shutdown),
    join: Some(no_join),
});

/// A port that programs do not name: by chance, of those that are for that.
fn any_port() -> u16 {
    let chance = RandomState::new().build_hasher().finish();
    0xC000 | (chance & 0x3FFF) as u16
}

/// An address that a program may name, or not.
///
/// # Safety
/// It is null, or there are so many bytes.
unsafe fn given_address(at: *const c_void, len: usize, own: u32) -> Result<Address> {
    match at.is_null() {
        true => Ok(Address::default()),
        // SAFETY: As the caller says.
        false => unsafe { from_socket(at, len, own) },
    }
}

/// Data that programs tell each other when they connect.
///
/// # Safety
/// There are so many bytes.
unsafe fn told<'a>(data: *const c_void, len: usize) -> Result<&'a [u8]> {
    match len {
        0 => Ok(&[]),
        _ if data.is_null() || len > CM_DATA_MAX => Err(libc::EINVAL),
        // SAFETY: As the caller says.
        _ => Ok(unsafe { slice::from_raw_parts(data.cast(), len) }),
    }
}

pub(crate) unsafe extern "C" fn passive_ep(
    fabric: *mut sys::fid_fabric,
    info: *mut sys::fi_info,
    pep: *mut *mut sys::fid_pep,
    context: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: These are a program's.
        unsafe {
            let fabric = object::<sys::fid_fabric>(fabric.cast())?;
            let shared = &fabric.shared;
            let given = info.as_ref().ok_or(libc::EINVAL)?;
            let own = given_address(given.src_addr, given.src_addrlen, shared.own)?;
            let own = Address {
                host: shared.own,
                port: if own.port == 0 { any_port() } else { own.port },
            };
            let seen = sys::fid_pep {
                fid: fid(sys::FI_CLASS_PEP, context, &PEP.0),
                ops: table(&PEP_OPS.0),
                cm: table(&PEP_CM.0),
            };
            let mut tables = shared.lock();
            let id = tables.peps.add(Pep {
                fid: 0,
                eq: None,
                own,
                info: Info::copy(info)?,
                listener: None,
            });
            let opened = Fid::new(seen, Arc::clone(shared), id).of(&fabric.users);
            let made = opened.into_raw();
            tables.peps.get(id)?.fid = made.expose_provenance();
            pep.write(made);
        }
        Ok(())
    })
}

unsafe extern "C" fn close_pep(at: *mut sys::fid) -> i32 {
    // SAFETY: It is a program's passive endpoint.
    unsafe {
        close::<sys::fid_pep>(at, |pep| {
            let ended = pep.shared.lock().peps.take(pep.id);
            drop(ended);
        })
    }
}

unsafe extern "C" fn bind_pep(at: *mut sys::fid, to: *mut sys::fid, _flags: u64) -> i32 {
    status(|| {
        // SAFETY: These are a program's; the class says what it is.
        unsafe {
            let pep = object::<sys::fid_pep>(at.cast())?;
            if to.as_ref().ok_or(libc::EINVAL)?.fclass != sys::FI_CLASS_EQ as usize {
                return Err(libc::EINVAL);
            }
            let eq = object::<sys::fid_eq>(to.cast())?;
            pep.shared.lock().peps.get(pep.id)?.eq = Some(eq.id);
        }
        Ok(())
    })
}

unsafe extern "C" fn setname(at: *mut sys::fid, address: *mut c_void, len: usize) -> i32 {
    status(|| {
        // SAFETY: These are a program's.
        unsafe {
            let pep = object::<sys::fid_pep>(at.cast())?;
            let named = from_socket(address, len, pep.shared.own)?;
            let mut tables = pep.shared.lock();
            let own = tables.peps.get(pep.id)?;
            if named.host != pep.shared.own || own.listener.is_some() {
                return Err(libc::EINVAL);
            }
            if named.port != 0 {
                own.own.port = named.port;
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn getname_pep(at: *mut sys::fid, room: *mut c_void, len: *mut usize) -> i32 {
    status(|| {
        // SAFETY: These are a program's.
        unsafe {
            let pep = object::<sys::fid_pep>(at.cast())?;
            let own = pep.shared.lock().peps.get(pep.id)?.own;
            give_address(own, room, len)
        }
    })
}

unsafe extern "C" fn listen(at: *mut sys::fid_pep) -> i32 {
    status(|| {
        // SAFETY: It is a program's.
        let pep = unsafe { object::<sys::fid_pep>(at.cast()) }?;
        let mut tables = pep.shared.lock();
        let own = tables.peps.get(pep.id)?;
        if own.eq.is_none() || own.listener.is_some() {
            return Err(libc::EINVAL);
        }
        let listener = Listener::new(&pep.shared.fabric, own.own);
        own.listener = Some(listener.map_err(|_| libc::ENOMEM)?);
        Ok(())
    })
}

unsafe extern "C" fn reject(
    _pep: *mut sys::fid_pep,
    handle: *mut sys::fid,
    data: *const c_void,
    len: usize,
) -> i32 {
    status(|| {
        // SAFETY: These are a program's.
        let (request, data) = unsafe { (take_request(handle)?, told(data, len)?) };
        request.ok_or(libc::EINVAL)?.reject(data);
        Ok(())
    })
}

static EP: Ops<sys::fi_ops> = Ops(ops(close_ep, bind_ep, control_ep));
static EP_OPS: Ops<sys::fi_ops_ep> = Ops(ep_ops(cancel));
static EP_CM: Ops<sys::fi_ops_cm> = Ops(sys::fi_ops_cm {
    size: size_of::<sys::fi_ops_cm>(),
    setname: Some(no_setname),
    getname: Some(getname_ep),
    getpeer: Some(getpeer),
    connect: Some(connect),
    listen: Some(no_listen),
    accept: Some(accept),
    reject: Some(no_reject),
    shutdown: Some(shutdown),
    join: Some(no_join),
});
static EP_MSG: Ops<sys::fi_ops_msg> = Ops(sys::fi_ops_msg {
    size: size_of::<sys::fi_ops_msg>(),
    recv: Some(recv),
    recvv: Some(recvv),
    recvmsg: Some(recvmsg),
    send: Some(send),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: Some(senddata),
    injectdata: Some(injectdata),
});

pub(crate) unsafe extern "C" fn endpoint(
    domain: *mut sys::fid_domain,
    info: *mut sys::fi_info,
    ep: *mut *mut sys::fid_ep,
    context: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: These are a program's; a handle is of a request, or the call fails.
        unsafe {
            let domain = object::<sys::fid_domain>(domain.cast())?;
            let shared = &domain.shared;
            let info = info.as_ref().ok_or(libc::EINVAL)?;
            let from = given_address(info.src_addr, info.src_addrlen, shared.own)?;
            let to = given_address(info.dest_addr, info.dest_addrlen, shared.own)?;
            let request = take_request(info.handle)?;
            let seen = sys::fid_ep {
                fid: fid(sys::FI_CLASS_EP, context, &EP.0),
                ops: table(&EP_OPS.0),
                cm: table(&EP_CM.0),
                msg: table(&EP_MSG.0),
                // Nothing that is not asked for: none of these is offered.
                rma: ptr::null_mut(),
                tagged: ptr::null_mut(),
                atomic: ptr::null_mut(),
                collective: ptr::null_mut(),
            };
            let mut tables = shared.lock();
            let id = tables.eps.add(Ep {
                endpoint: Endpoint::new(shared.own, shared.status.clone()),
                fid: 0,
                context: context.expose_provenance(),
                eq: None,
                tx: None,
                rx: None,
                enabled: false,
                request,
                from: Address {
                    host: shared.own,
                    ..from
                },
                to,
            });
            let opened = Fid::new(seen, Arc::clone(shared), id).of(&domain.users);
            let made = opened.into_raw();
            tables.eps.get(id)?.fid = made.expose_provenance();
            ep.write(made);
        }
        Ok(())
    })
}

unsafe extern "C" fn close_ep(at: *mut sys::fid) -> i32 {
    // SAFETY: It is a program's endpoint.
    unsafe {
        close::<sys::fid_ep>(at, |ep| {
            let ended = ep.shared.lock().eps.take(ep.id);
            if let Some(mut ended) = ended {
                // The partner receives what was sent. Nobody is told of the rest.
                ended.endpoint.shut(&mut |_| ());
            }
        })
    }
}

unsafe extern "C" fn bind_ep(at: *mut sys::fid, to: *mut sys::fid, flags: u64) -> i32 {
    status(|| {
        // SAFETY: These are a program's; the class says what it is.
        unsafe {
            let ep = object::<sys::fid_ep>(at.cast())?;
            let mut tables = ep.shared.lock();
            let this = tables.eps.get(ep.id)?;
            match to.as_ref().ok_or(libc::EINVAL)?.fclass {
                class if class == sys::FI_CLASS_EQ as usize => {
                    this.eq = Some(object::<sys::fid_eq>(to.cast())?.id);
                }
                class if class == sys::FI_CLASS_CQ as usize => {
                    let cq = object::<sys::fid_cq>(to.cast())?.id;
                    let selective = flags & SELECTIVE != 0;
                    let bound = Some(Bound { cq, selective });
                    let directions = sys::FI_TRANSMIT as u64 | sys::FI_RECV as u64;
                    if flags & directions == 0 {
                        return Err(libc::EINVAL);
                    }
                    if flags & sys::FI_TRANSMIT as u64 != 0 {
                        this.tx = bound;
                    }
                    if flags & sys::FI_RECV as u64 != 0 {
                        this.rx = bound;
                    }
                }
                _ => return Err(libc::ENOSYS),
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn control_ep(at: *mut sys::fid, command: i32, _arg: *mut c_void) -> i32 {
    status(|| {
        // SAFETY: It is a program's endpoint.
        let ep = unsafe { object::<sys::fid_ep>(at.cast()) }?;
        if command != sys::FI_ENABLE as i32 {
            return Err(libc::ENOSYS);
        }
        let mut tables = ep.shared.lock();
        let this = tables.eps.get(ep.id)?;
        match this.eq {
            None => Err(sys::FI_ENOEQ as i32),
            Some(_) if this.tx.is_none() && this.rx.is_none() => Err(sys::FI_ENOCQ as i32),
            Some(_) => {
                this.enabled = true;
                Ok(())
            }
        }
    })
}

unsafe extern "C" fn getopt(
    _at: *mut sys::fid,
    level: i32,
    name: i32,
    value: *mut c_void,
    len: *mut usize,
) -> i32 {
    status(|| {
        let known = (sys::FI_OPT_ENDPOINT as i32, sys::FI_OPT_CM_DATA_SIZE as i32);
        if (level, name) != known {
            return Err(sys::FI_ENOPROTOOPT as i32);
        }
        // SAFETY: There is as much room as it says.
        unsafe {
            let len = len.as_mut().ok_or(libc::EINVAL)?;
            if *len < size_of::<usize>() {
                return Err(sys::FI_ETOOSMALL as i32);
            }
            value.cast::<usize>().write_unaligned(CM_DATA_MAX);
            *len = size_of::<usize>();
        }
        Ok(())
    })
}

unsafe extern "C" fn cancel(at: *mut sys::fid, context: *mut c_void) -> isize {
    count(|| {
        // SAFETY: It is a program's endpoint.
        let ep = unsafe { object::<sys::fid_ep>(at.cast()) }?;
        let mut tables = ep.shared.lock();
        let cancelled = tables.with(ep.id, |ep, mut told| {
            ep.endpoint.channel().cancel(context.addr(), &mut told)
        })?;
        match cancelled {
            true => Ok(0),
            false => Err(libc::ENOENT),
        }
    })
}

unsafe extern "C" fn getname_ep(at: *mut sys::fid, room: *mut c_void, len: *mut usize) -> i32 {
    status(|| {
        // SAFETY: These are a program's.
        unsafe {
            let ep = object::<sys::fid_ep>(at.cast())?;
            let own = ep.shared.lock().eps.get(ep.id)?.from;
            give_address(own, room, len)
        }
    })
}

unsafe extern "C" fn getpeer(at: *mut sys::fid_ep, room: *mut c_void, len: *mut usize) -> i32 {
    status(|| {
        // SAFETY: These are a program's.
        unsafe {
            let ep = object::<sys::fid_ep>(at.cast())?;
            let to = ep.shared.lock().eps.get(ep.id)?.to;
            give_address(to, room, len)
        }
    })
}

/// Whether an endpoint can begin to connect.
fn must_be_ready(ep: &Ep) -> Result {
    match ep.enabled && ep.endpoint.is_idle() {
        true => Ok(()),
        false => Err(sys::FI_EOPBADSTATE as i32),
    }
}

unsafe extern "C" fn connect(
    at: *mut sys::fid_ep,
    address: *const c_void,
    data: *const c_void,
    len: usize,
) -> i32 {
    status(|| {
        // SAFETY: These are a program's.
        unsafe {
            let ep = object::<sys::fid_ep>(at.cast())?;
            let size = size_of::<sys::sockaddr_in>();
            let to = from_socket(address, size, ep.shared.own)?;
            let data = told(data, len)?;
            let mut tables = ep.shared.lock();
            let this = tables.eps.get(ep.id)?;
            must_be_ready(this)?;
            this.to = to;
            this.endpoint.connect(this.from, to, data);
        }
        Ok(())
    })
}

unsafe extern "C" fn accept(at: *mut sys::fid_ep, data: *const c_void, len: usize) -> i32 {
    status(|| {
        // SAFETY: These are a program's.
        let (ep, data) = unsafe { (object::<sys::fid_ep>(at.cast())?, told(data, len)?) };
        let mut tables = ep.shared.lock();
        let this = tables.eps.get(ep.id)?;
        // As with connections over TCP, accepting enables.
        this.enabled = true;
        must_be_ready(this)?;
        let request = this.request.take().ok_or(sys::FI_EOPBADSTATE as i32)?;
        let accepted = this.endpoint.accept(request, data);
        accepted.map_err(|refusal| error(refusal).0)
    })
}

unsafe extern "C" fn shutdown(at: *mut sys::fid_ep, _flags: u64) -> i32 {
    status(|| {
        // SAFETY: It is a program's endpoint.
        let ep = unsafe { object::<sys::fid_ep>(at.cast()) }?;
        let mut tables = ep.shared.lock();
        tables.with(ep.id, |ep, mut told| ep.endpoint.shut(&mut told))
    })
}

/// A send as a program asks for it.
struct Asked {
    memory: UserMemory,
    context: *mut c_void,
    data: u64,
    flags: u64,
    /// Neither completion nor context.
    silent: bool,
}

impl Asked {
    /// A send of memory that stays as it is until the program is told.
    fn told(memory: UserMemory, context: *mut c_void) -> Self {
        Asked {
            memory,
            context,
            data: 0,
            flags: COMPLETION,
            silent: false,
        }
    }

    /// A send of memory that may change at once, of which the program is not told.
    fn silent(memory: UserMemory) -> Self {
        Asked {
            memory,
            context: ptr::null_mut(),
            data: 0,
            flags: INJECTED,
            silent: true,
        }
    }

    /// The same with data that accompany it.
    fn with(self, data: u64) -> Self {
        Asked {
            data,
            flags: self.flags | CQ_DATA,
            ..self
        }
    }
}

impl EpFid {
    fn send(&self, asked: Asked) -> Result<usize> {
        if asked.flags & !SEND_FLAGS != 0 {
            return Err(sys::FI_EBADFLAGS as i32);
        }
        let immediate = match asked.flags & CQ_DATA {
            0 => None,
            _ => Some(u32::try_from(asked.data).map_err(|_| libc::EINVAL)?),
        };
        let source = match asked.flags & INJECTED {
            0 => Source::Memory(asked.memory),
            _ => Source::Copy(asked.memory.copy()),
        };
        match &source {
            Source::Copy(bytes) if bytes.len() > INJECT => return Err(libc::EINVAL),
            _ => {}
        }
        let mut tables = self.shared.lock();
        let this = tables.eps.get(self.id)?;
        let Some(bound) = this.tx else {
            return Err(sys::FI_ENOCQ as i32);
        };
        if !this.enabled || !this.endpoint.can_send() {
            return Err(sys::FI_EOPBADSTATE as i32);
        }
        let waits = this.endpoint.channel().sends();
        let has_room = tables
            .cqs
            .get(bound.cq)
            .is_ok_and(|cq| cq.done.len() < cq.size);
        if waits >= QUEUE || !has_room {
            return Err(libc::EAGAIN);
        }
        let tells = !asked.silent && (!bound.selective || asked.flags & COMPLETION != 0);
        let send = Send {
            source,
            context: asked.context.expose_provenance(),
            immediate,
            tells,
        };
        tables.with(self.id, |ep, mut told| {
            ep.endpoint.channel().send(send, &mut told)
        })?;
        Ok(0)
    }

    fn receive(&self, memory: UserMemory, context: *mut c_void, flags: u64) -> Result<usize> {
        if flags & !RECEIVE_FLAGS != 0 {
            return Err(sys::FI_EBADFLAGS as i32);
        }
        let mut tables = self.shared.lock();
        let this = tables.eps.get(self.id)?;
        let Some(bound) = this.rx else {
            return Err(sys::FI_ENOCQ as i32);
        };
        if !this.enabled {
            return Err(sys::FI_EOPBADSTATE as i32);
        }
        if this.endpoint.channel().receives() >= QUEUE {
            return Err(libc::EAGAIN);
        }
        this.endpoint.channel().receive(Receive {
            memory,
            context: context.expose_provenance(),
            tells: !bound.selective || flags & COMPLETION != 0,
        });
        Ok(0)
    }
}

/// Memory of a program from a list of pieces.
///
/// # Safety
/// There are so many; they are the program's until the operation has ended.
unsafe fn memory(pieces: *const sys::iovec, count: usize) -> Result<UserMemory> {
    if count > IOV_MAX || count > 0 && pieces.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: As the caller says.
    unsafe {
        match count {
            0 => UserMemory::new(&[]),
            _ => UserMemory::new(slice::from_raw_parts(pieces, count)),
        }
    }
}

/// # Safety
/// As of [`memory()`].
unsafe fn one(buf: *const c_void, len: usize) -> Result<UserMemory> {
    let piece = sys::iovec {
        iov_base: buf.cast_mut(),
        iov_len: len,
    };
    // SAFETY: As the caller says.
    unsafe { UserMemory::new(&[piece]) }
}

unsafe extern "C" fn send(
    at: *mut sys::fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    _to: sys::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe {
        object::<sys::fid_ep>(at.cast())?.send(Asked::told(one(buf, len)?, context))
    })
}

unsafe extern "C" fn sendv(
    at: *mut sys::fid_ep,
    pieces: *const sys::iovec,
    _desc: *mut *mut c_void,
    number: usize,
    _to: sys::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe {
        let memory = memory(pieces, number)?;
        object::<sys::fid_ep>(at.cast())?.send(Asked::told(memory, context))
    })
}

unsafe extern "C" fn sendmsg(at: *mut sys::fid_ep, msg: *const sys::fi_msg, flags: u64) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe {
        let msg = msg.as_ref().ok_or(libc::EINVAL)?;
        object::<sys::fid_ep>(at.cast())?.send(Asked {
            memory: memory(msg.msg_iov, msg.iov_count)?,
            context: msg.context,
            data: msg.data,
            flags,
            silent: false,
        })
    })
}

unsafe extern "C" fn inject(
    at: *mut sys::fid_ep,
    buf: *const c_void,
    len: usize,
    _to: sys::fi_addr_t,
) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe { object::<sys::fid_ep>(at.cast())?.send(Asked::silent(one(buf, len)?)) })
}

unsafe extern "C" fn senddata(
    at: *mut sys::fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    _to: sys::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe {
        let asked = Asked::told(one(buf, len)?, context).with(data);
        object::<sys::fid_ep>(at.cast())?.send(asked)
    })
}

unsafe extern "C" fn injectdata(
    at: *mut sys::fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    _to: sys::fi_addr_t,
) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe {
        object::<sys::fid_ep>(at.cast())?.send(Asked::silent(one(buf, len)?).with(data))
    })
}

unsafe extern "C" fn recv(
    at: *mut sys::fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    _from: sys::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe {
        let memory = one(buf, len)?;
        object::<sys::fid_ep>(at.cast())?.receive(memory, context, COMPLETION)
    })
}

unsafe extern "C" fn recvv(
    at: *mut sys::fid_ep,
    pieces: *const sys::iovec,
    _desc: *mut *mut c_void,
    number: usize,
    _from: sys::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe {
        let memory = memory(pieces, number)?;
        object::<sys::fid_ep>(at.cast())?.receive(memory, context, COMPLETION)
    })
}

unsafe extern "C" fn recvmsg(at: *mut sys::fid_ep, msg: *const sys::fi_msg, flags: u64) -> isize {
    // SAFETY: These are a program's.
    count(|| unsafe {
        let msg = msg.as_ref().ok_or(libc::EINVAL)?;
        let memory = memory(msg.msg_iov, msg.iov_count)?;
        object::<sys::fid_ep>(at.cast())?.receive(memory, msg.context, flags)
    })
}
