// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the provider can do, for programs that ask, and addresses as programs have them.
//!
//! An address is one of IPv4 (`FI_SOCKADDR_IN`), as that is what `ofi_rxm` stores and compares: in the
//! block that the Internet has reserved, 240.0.0.0/4, so that nobody takes one for an address of a
//! network. Host 3 of the fabric is 240.0.0.3. The port is that of a passive endpoint.

use crate::{
    core::{allocate, Info},
    sys, Result,
};
use libfabric::{Address, IOV_MAX};
use mp_fabric::Fabric;
use std::{
    ffi::{c_char, CStr},
    mem, slice,
};

/// The provider, the fabric and the domain.
pub(crate) const NAME: &CStr = c"mpfab";
/// Where addresses begin, and which bits name a host.
const BLOCK: u32 = 0xF000_0000;
/// Sends and receives of an endpoint that wait at the same time.
pub(crate) const QUEUE: usize = 1024;
/// Bytes that are injected at most.
pub(crate) const INJECT: usize = 1024;
/// Bytes of a message at most.
pub(crate) const MESSAGE: usize = 1 << 30;
/// Bytes of data that accompany a message.
const CQ_DATA: usize = 4;

pub(crate) const MSG: u64 = sys::FI_MSG as u64;
pub(crate) const SEND: u64 = sys::FI_SEND as u64;
pub(crate) const RECV: u64 = sys::FI_RECV as u64;
/// What one of the two directions can do, and what an endpoint can.
const TX: u64 = MSG | SEND;
const RX: u64 = MSG | RECV;
const SECONDARY: u64 = sys::FI_LOCAL_COMM | sys::FI_REMOTE_COMM;
const CAPS: u64 = MSG | SEND | RECV | SECONDARY;
/// Flags that each send, or receive, may have.
const TX_FLAGS: u64 = sys::FI_COMPLETION as u64
    | sys::FI_INJECT as u64
    | sys::FI_INJECT_COMPLETE as u64
    | sys::FI_TRANSMIT_COMPLETE as u64;
const RX_FLAGS: u64 = sys::FI_COMPLETION as u64;
const ORDER: u64 = sys::FI_ORDER_SAS as u64;
const COMP_ORDER: u64 = sys::FI_ORDER_STRICT as u64 | sys::FI_ORDER_DATA as u64;

/// An address as programs have it.
pub(crate) fn to_socket(address: Address) -> sys::sockaddr_in {
    // SAFETY: All zeros are an address.
    let mut socket: sys::sockaddr_in = unsafe { mem::zeroed() };
    socket.sin_family = libc::AF_INET as libc::sa_family_t;
    socket.sin_port = address.port.to_be();
    socket.sin_addr.s_addr = (BLOCK | address.host).to_be();
    socket
}

/// The bytes of an address as programs have it.
pub(crate) fn socket_bytes(address: Address) -> [u8; mem::size_of::<sys::sockaddr_in>()] {
    let socket = to_socket(address);
    let mut bytes = [0; mem::size_of::<sys::sockaddr_in>()];
    let (family, rest) = bytes.split_at_mut(2);
    family.copy_from_slice(&socket.sin_family.to_ne_bytes());
    let (port, rest) = rest.split_at_mut(2);
    port.copy_from_slice(&socket.sin_port.to_ne_bytes());
    rest[..4].copy_from_slice(&socket.sin_addr.s_addr.to_ne_bytes());
    bytes
}

/// An address from what programs have; one of any host is `own`.
///
/// # Safety
/// There are so many bytes.
pub(crate) unsafe fn from_socket(at: *const libc::c_void, len: usize, own: u32) -> Result<Address> {
    if at.is_null() || len < mem::size_of::<sys::sockaddr_in>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: As the caller says; it need not be aligned.
    let socket = unsafe { at.cast::<sys::sockaddr_in>().read_unaligned() };
    let number = u32::from_be(socket.sin_addr.s_addr);
    if i32::from(socket.sin_family) != libc::AF_INET {
        return Err(libc::EAFNOSUPPORT);
    }
    let port = u16::from_be(socket.sin_port);
    match number {
        0 => Ok(Address { host: own, port }),
        _ if number & BLOCK == BLOCK => Ok(Address {
            host: number & !BLOCK,
            port,
        }),
        _ => Err(libc::EADDRNOTAVAIL),
    }
}

/// The number of this host, if an address can have it.
pub(crate) fn own_host(fabric: &Fabric) -> Result<u32> {
    let host = fabric.host().map_err(|_| libc::ENODATA)?;
    match host & BLOCK {
        0 => Ok(host),
        _ => Err(libc::ENODATA),
    }
}

/// A string of C, if there is one.
///
/// # Safety
/// It is null or ends with a zero.
unsafe fn text<'a>(at: *const c_char) -> Option<&'a str> {
    // SAFETY: As the caller says.
    let text = (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) });
    text.map(|text| text.to_str().unwrap_or("?"))
}

/// The address of a node, which is a host's number or address, and a service.
fn named(node: Option<&str>, service: Option<&str>, own: u32) -> Result<Address> {
    let port = match service {
        None => 0,
        Some(service) => service.parse().map_err(|_| libc::ENODATA)?,
    };
    let host = match node {
        None => own,
        Some(node) => match node.parse::<std::net::Ipv4Addr>() {
            Ok(address) if u32::from(address) & BLOCK == BLOCK => u32::from(address) & !BLOCK,
            Ok(_) => return Err(libc::ENODATA),
            Err(_) => node.parse().map_err(|_| libc::ENODATA)?,
        },
    };
    match host & BLOCK {
        0 => Ok(Address { host, port }),
        _ => Err(libc::ENODATA),
    }
}

/// What is known of a request: who it is for and from whom.
#[derive(Default)]
struct Ends {
    from: Option<Address>,
    to: Option<Address>,
}

/// Answer what the provider can do of what is asked for.
///
/// # Safety
/// The strings and the hints are null or those of a caller of `fi_getinfo()`.
pub(crate) unsafe fn answer(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const sys::fi_info,
    own: u32,
) -> Result<Info> {
    // SAFETY: As the caller says.
    let (node, service) = unsafe { (text(node), text(service)) };
    // SAFETY: As the caller says.
    let hints = unsafe { hints.as_ref() };
    let mut ends = Ends::default();
    if let Some(hints) = hints {
        // SAFETY: Addresses of hints have their lengths.
        unsafe {
            if !hints.src_addr.is_null() {
                ends.from = Some(from_socket(hints.src_addr, hints.src_addrlen, own)?);
            }
            if !hints.dest_addr.is_null() {
                ends.to = Some(from_socket(hints.dest_addr, hints.dest_addrlen, own)?);
            }
            fits(version, hints)?;
        }
    }
    if node.is_some() || service.is_some() {
        let named = named(node, service, own)?;
        match flags & sys::FI_SOURCE {
            0 if node.is_some() => ends.to = Some(named),
            _ => ends.from = Some(named),
        }
    }
    let from = ends.from.unwrap_or_default();
    ends.from = Some(Address { host: own, ..from });
    let mut info = Info::new()?;
    // SAFETY: libfabric allocates all parts of a structure.
    unsafe { fill(info.get_mut(), version, hints, &ends)? };
    Ok(info)
}

/// Whether all that is asked for can be had.
///
/// # Safety
/// Its pointers are null or lead to what they are for.
unsafe fn fits(version: u32, hints: &sys::fi_info) -> Result {
    let known = [sys::FI_FORMAT_UNSPEC, sys::FI_SOCKADDR, sys::FI_SOCKADDR_IN];
    let mut fits = hints.caps & !CAPS == 0 && known.contains(&hints.addr_format);
    // SAFETY: As the caller says.
    unsafe {
        if let Some(ep) = hints.ep_attr.as_ref() {
            fits &= ep.type_ == sys::FI_EP_UNSPEC || ep.type_ == sys::FI_EP_MSG;
            fits &= ep.protocol == sys::FI_PROTO_UNSPEC && ep.max_msg_size <= MESSAGE;
            fits &= ep.msg_prefix_size == 0 && ep.auth_key_size == 0;
            fits &= ep.tx_ctx_cnt <= 1 && ep.rx_ctx_cnt <= 1;
        }
        if let Some(tx) = hints.tx_attr.as_ref() {
            fits &= tx.caps & !(TX | SECONDARY) == 0 && tx.op_flags & !TX_FLAGS == 0;
            fits &= tx.msg_order & !ORDER == 0 && tx.comp_order & !COMP_ORDER == 0;
            fits &= tx.inject_size <= INJECT && tx.size <= QUEUE && tx.iov_limit <= IOV_MAX;
            fits &= tx.rma_iov_limit == 0;
        }
        if let Some(rx) = hints.rx_attr.as_ref() {
            fits &= rx.caps & !(RX | SECONDARY) == 0 && rx.op_flags & !RX_FLAGS == 0;
            fits &= rx.msg_order & !ORDER == 0 && rx.comp_order & !COMP_ORDER == 0;
            fits &= rx.size <= QUEUE && rx.iov_limit <= IOV_MAX && rx.total_buffered_recv == 0;
        }
        if let Some(domain) = hints.domain_attr.as_ref() {
            let auto = [domain.control_progress, domain.data_progress];
            fits &= !auto.contains(&sys::FI_PROGRESS_AUTO) && is_ours(domain.name);
            fits &= domain.cq_data_size <= CQ_DATA && domain.caps & !SECONDARY == 0;
            fits &= domain.cntr_cnt == 0 && domain.auth_key_size == 0;
            fits &= region_mode(version, domain.mr_mode).is_some();
        }
        if let Some(fabric) = hints.fabric_attr.as_ref() {
            fits &= is_ours(fabric.name);
        }
    }
    match fits {
        true => Ok(()),
        false => Err(libc::ENODATA),
    }
}

/// Whether a name is none, or the provider's.
///
/// # Safety
/// It is null or ends with a zero.
unsafe fn is_ours(name: *const c_char) -> bool {
    // SAFETY: As the caller says.
    name.is_null() || unsafe { CStr::from_ptr(name) } == NAME
}

/// How regions are registered, of what a program supports. None has to be; programs of releases
/// before 1.5 choose between two modes, of which either is kept.
fn region_mode(version: u32, hints: i32) -> Option<i32> {
    let basic = sys::FI_MR_BASIC as i32;
    match (version >> 16, version & 0xffff) {
        (1, 0..5) if hints == basic => Some(basic),
        (1, 0..5) => Some(sys::FI_MR_SCALABLE as i32),
        _ => Some(0),
    }
}

/// # Safety
/// All parts of the structure are there.
unsafe fn fill(
    info: &mut sys::fi_info,
    version: u32,
    hints: Option<&sys::fi_info>,
    ends: &Ends,
) -> Result {
    let asked = hints.map_or(0, |hints| hints.caps);
    // One that asks for messages alone gets both directions.
    let caps = match asked & (SEND | RECV) {
        0 => CAPS,
        some => MSG | some | SECONDARY,
    };
    info.caps = caps;
    info.addr_format = sys::FI_SOCKADDR_IN;
    if let Some(from) = ends.from {
        let bytes = socket_bytes(from);
        (info.src_addr, info.src_addrlen) = (allocate(&bytes)?, bytes.len());
    }
    if let Some(to) = ends.to {
        let bytes = socket_bytes(to);
        (info.dest_addr, info.dest_addrlen) = (allocate(&bytes)?, bytes.len());
    }
    // SAFETY: As the caller says; the hints' parts are null or there.
    unsafe {
        let (tx, rx) = (&mut *info.tx_attr, &mut *info.rx_attr);
        (tx.caps, rx.caps) = (caps & (TX | SECONDARY), caps & (RX | SECONDARY));
        if let Some(hints) = hints {
            tx.op_flags = hints.tx_attr.as_ref().map_or(0, |tx| tx.op_flags);
            rx.op_flags = hints.rx_attr.as_ref().map_or(0, |rx| rx.op_flags);
        }
        (tx.msg_order, rx.msg_order) = (ORDER, ORDER);
        (tx.comp_order, rx.comp_order) = (COMP_ORDER, COMP_ORDER);
        (tx.size, rx.size) = (QUEUE, QUEUE);
        (tx.iov_limit, rx.iov_limit) = (IOV_MAX, IOV_MAX);
        tx.inject_size = INJECT;

        let ep = &mut *info.ep_attr;
        ep.type_ = sys::FI_EP_MSG;
        ep.protocol_version = 1;
        ep.max_msg_size = MESSAGE;
        (ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (1, 1);

        let domain = &mut *info.domain_attr;
        domain.name = allocate(NAME.to_bytes_with_nul())?.cast();
        domain.threading = sys::FI_THREAD_SAFE;
        domain.control_progress = sys::FI_PROGRESS_MANUAL;
        domain.data_progress = sys::FI_PROGRESS_MANUAL;
        domain.resource_mgmt = sys::FI_RM_ENABLED;
        let mode = hints.and_then(|hints| hints.domain_attr.as_ref());
        let mode = mode.map_or(0, |domain| domain.mr_mode);
        domain.mr_mode = region_mode(version, mode).unwrap_or(0);
        domain.mr_key_size = 8;
        domain.cq_data_size = CQ_DATA;
        (domain.cq_cnt, domain.ep_cnt) = (QUEUE, QUEUE);
        (domain.tx_ctx_cnt, domain.rx_ctx_cnt) = (QUEUE, QUEUE);
        (domain.max_ep_tx_ctx, domain.max_ep_rx_ctx) = (1, 1);
        domain.mr_iov_limit = IOV_MAX;
        domain.mr_cnt = 65_536;
        domain.caps = SECONDARY;

        let fabric = &mut *info.fabric_attr;
        fabric.name = allocate(NAME.to_bytes_with_nul())?.cast();
        fabric.api_version = version;
    }
    Ok(())
}

/// Copy an address to a program's room, of which the length is there and is made that of the address.
///
/// # Safety
/// There is as much room as it says.
pub(crate) unsafe fn give_address(
    address: Address,
    room: *mut libc::c_void,
    len: *mut usize,
) -> Result {
    let bytes = socket_bytes(address);
    // SAFETY: As the caller says.
    unsafe {
        let len = len.as_mut().ok_or(libc::EINVAL)?;
        let most = mem::replace(len, bytes.len());
        if most > 0 && !room.is_null() {
            let room = slice::from_raw_parts_mut(room.cast::<u8>(), most);
            let fits = most.min(bytes.len());
            room[..fits].copy_from_slice(&bytes[..fits]);
        }
        match most < bytes.len() {
            true => Err(sys::FI_ETOOSMALL as i32),
            false => Ok(()),
        }
    }
}
