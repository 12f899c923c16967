// SPDX-License-Identifier: GPL-2.0-only

//! The NTB core for clients, over the [`bridge`](crate::bridge)s of a run: bridges with scratchpads
//! and without message registers, whose translations the receiver programs.

use crate::bridge::{
    ntb_dev,
    Ports, //
};
use bindings::{
    device,
    EINVAL,
    ENOMEM,
    ENOTCONN, //
};
use core::{
    ffi::c_void,
    ptr, //
};
use machine::{
    fail,
    host,
    memory,
    might_sleep,
    point, //
};
use std::{
    alloc::Layout,
    cell::RefCell,
    rc::Rc, //
};

pub const ntb_speed_NTB_SPEED_AUTO: i32 = -1;
pub const ntb_width_NTB_WIDTH_AUTO: i32 = -1;

/// What a client hears of its device.
#[repr(C)]
pub struct ntb_ctx_ops {
    pub link_event: Option<unsafe extern "C" fn(*mut c_void)>,
    pub db_event: Option<unsafe extern "C" fn(*mut c_void, i32)>,
    pub msg_event: Option<unsafe extern "C" fn(*mut c_void)>,
}

type Probe = unsafe extern "C" fn(*mut ntb_client, *mut ntb_dev) -> i32;
type Remove = unsafe extern "C" fn(*mut ntb_client, *mut ntb_dev);

/// Which functions of a client are called for its devices.
#[derive(Default)]
#[repr(C)]
pub struct ntb_client_ops {
    pub probe: Option<Probe>,
    pub remove: Option<Remove>,
}

/// A client.
#[derive(Default)]
#[repr(C)]
pub struct ntb_client {
    pub ops: ntb_client_ops,
}

/// The devices that a client is bound to.
#[derive(Default)]
struct Bound(RefCell<Vec<(usize, Rc<ntb_dev>)>>);

fn error(number: u32) -> i32 {
    -number.cast_signed()
}

/// Register a client: it is offered all devices that have none.
///
/// # Safety
///
/// The client is valid until it is unregistered.
pub unsafe fn __ntb_register_client(
    client: *mut ntb_client,
    _module: *mut c_void,
    _name: *const u8,
) -> i32 {
    // What the driver core needs for it.
    let driver = memory::allocate(Layout::new::<u64>(), true);
    if driver.is_null() {
        return error(ENOMEM);
    }
    let (owned, bound) = (host().own::<Drivers>(), host().own::<Bound>());
    owned.0.borrow_mut().push((client.addr(), driver));
    for port in host().own::<Ports>().all() {
        if port.is_bound.replace(true) {
            continue;
        }
        // SAFETY: As the caller promises.
        let probe = unsafe { (*client).ops.probe.expect("a client has a probe function") };
        // SAFETY: As the driver core calls it.
        if unsafe { probe(client, Rc::as_ptr(&port).cast_mut()) } < 0 {
            port.is_bound.set(false);
        } else {
            bound.0.borrow_mut().push((client.addr(), port));
        }
    }
    0
}

/// What the driver core has for each client.
#[derive(Default)]
struct Drivers(RefCell<Vec<(usize, *mut u8)>>);

/// # Safety
///
/// The client is registered.
pub unsafe fn ntb_unregister_client(client: *mut ntb_client) {
    might_sleep();
    let bound = host().own::<Bound>();
    loop {
        let mut list = bound.0.borrow_mut();
        let Some(at) = list.iter().position(|(of, _)| *of == client.addr()) else {
            break;
        };
        let (_, port) = list.remove(at);
        drop(list);
        // SAFETY: As the caller promises.
        let remove = unsafe {
            (*client)
                .ops
                .remove
                .expect("a client has a remove function")
        };
        // SAFETY: As the driver core calls it, once for each device that is bound.
        unsafe { remove(client, Rc::as_ptr(&port).cast_mut()) };
        port.is_bound.set(false);
    }
    let drivers = host().own::<Drivers>();
    let mut drivers = drivers.0.borrow_mut();
    let at = drivers.iter().position(|(of, _)| *of == client.addr());
    let (_, driver) = drivers.remove(at.expect("a client that is registered"));
    // SAFETY: Allocated when it was registered.
    unsafe { memory::free(driver) };
}

/// Functions of a device: by their names, with the device as a reference.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($port:ident $(, $arg:ident: $type:ty)*) $(-> $ret:ty)? $body:block)*) => {$(
        $(#[$doc])*
        /// # Safety
        ///
        /// The device is valid; other pointers are null or valid for writes.
        pub unsafe fn $name(ntb: *mut ntb_dev $(, $arg: $type)*) $(-> $ret)? {
            // SAFETY: As the caller promises.
            let $port = unsafe { &*ntb };
            $body
        }
    )*};
}

/// Store what a function gives back beside its result.
fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: A variable of the caller.
        unsafe { to.write(value) };
    }
}

/// Zero, or that a value is wrong.
fn valid(is_valid: bool) -> i32 {
    if is_valid {
        0
    } else {
        error(EINVAL)
    }
}

functions! {
    ntb_get_dma_dev(port) -> *mut device {
        ptr::from_ref(&port.dev).cast_mut()
    }
    ntb_is_offline(port) -> bool {
        point();
        port.is_offline.get()
    }
    ntb_has_failed(port) -> bool {
        point();
        port.has_failed.get()
    }
    ntb_port_number(port) -> i32 {
        port.number() as i32
    }
    ntb_peer_port_count(port) -> i32 {
        port.peers() as i32
    }
    ntb_peer_port_number(port, pidx: i32) -> i32 {
        port.peer(pidx).map_or(error(EINVAL), |peer| peer.number() as i32)
    }
    ntb_peer_port_idx(port, number: i32) -> i32 {
        let peers = 0..port.peers() as i32;
        let is_it = |pidx: &i32| port.peer(*pidx).is_some_and(|p| p.number() as i32 == number);
        peers.into_iter().find(is_it).unwrap_or(error(EINVAL))
    }
    ntb_peer_resource_idx(port, pidx: i32) -> i32 {
        let peer = port.peer(pidx);
        peer.map_or(error(EINVAL), |peer| port.index_at(&peer) as i32)
    }
    ntb_link_is_up(port, speed: *mut i32, width: *mut i32) -> u64 {
        give(speed, 1);
        give(width, 1);
        let is_up = |pidx: &usize| port.peer(*pidx as i32).is_some_and(|p| port.is_up(&p));
        (0..port.peers()).filter(is_up).fold(0, |up, pidx| up | 1 << pidx)
    }
    ntb_link_enable(port, _speed: i32, _width: i32) -> i32 {
        port.enable(true);
        0
    }
    ntb_link_disable(port) -> i32 {
        port.enable(false);
        0
    }
    ntb_link_event(port) {
        port.link_event();
    }
    ntb_set_ctx(port, ctx: *mut c_void, ops: *const ntb_ctx_ops) -> i32 {
        valid(port.set_client(ctx, ops))
    }
    ntb_clear_ctx(port) {
        port.set_client(ptr::null_mut(), ptr::null());
    }
    ntb_mw_count(port, pidx: i32) -> i32 {
        port.peer(pidx).map_or(0, |peer| peer.windows() as i32)
    }
    ntb_mw_get_align(
        port,
        pidx: i32,
        widx: i32,
        addr_align: *mut u64,
        size_align: *mut u64,
        size_max: *mut u64
    ) -> i32 {
        might_sleep();
        let Some(peer) = port.peer(pidx).filter(|peer| peer.window_at(widx).is_some()) else {
            return error(EINVAL);
        };
        if !port.is_up(&peer) {
            return error(ENOTCONN);
        }
        give(addr_align, bindings::PAGE_SIZE as u64);
        give(size_align, bindings::PAGE_SIZE as u64);
        give(size_max, port.window_size() as u64);
        0
    }
    ntb_mw_set_trans(port, pidx: i32, widx: i32, addr: u64, size: u64) -> i32 {
        valid(port.peer(pidx).is_some_and(|peer| port.lead(&peer, widx, Some((addr, size)))))
    }
    ntb_mw_clear_trans(port, pidx: i32, widx: i32) -> i32 {
        valid(port.peer(pidx).is_some_and(|peer| port.lead(&peer, widx, None)))
    }
    ntb_receiver_translates(_port) -> bool {
        true
    }
    ntb_peer_mw_count(port) -> i32 {
        port.windows() as i32
    }
    ntb_peer_mw_get_addr(port, widx: i32, addr: *mut u64, size: *mut u64) -> i32 {
        let Some(at) = port.window_at(widx) else {
            return error(EINVAL);
        };
        give(addr, at);
        give(size, port.window_size() as u64);
        0
    }
    ntb_peer_mw_set_trans(_port, _pidx: i32, _widx: i32, _addr: u64, _size: u64) -> i32 {
        0
    }
    ntb_peer_mw_clear_trans(_port, _pidx: i32, _widx: i32) -> i32 {
        0
    }
    ntb_window_bus(_port, addr: u64, _len: usize) -> u64 {
        addr
    }
    ntb_db_is_unsafe(_port) -> i32 {
        0
    }
    ntb_db_valid_mask(port) -> u64 {
        port.valid_doorbells()
    }
    ntb_db_vector_count(_port) -> i32 {
        1
    }
    ntb_db_vector_mask(port, vector: i32) -> u64 {
        if vector == 0 { port.valid_doorbells() } else { 0 }
    }
    ntb_db_read(port) -> u64 {
        port.doorbells()
    }
    ntb_db_clear(port, bits: u64) -> i32 {
        port.clear_doorbells(bits);
        0
    }
    ntb_db_read_mask(port) -> u64 {
        port.masked()
    }
    ntb_db_set_mask(port, bits: u64) -> i32 {
        port.mask(bits, true);
        valid(bits & !port.valid_doorbells() == 0)
    }
    ntb_db_clear_mask(port, bits: u64) -> i32 {
        port.mask(bits, false);
        valid(bits & !port.valid_doorbells() == 0)
    }
    ntb_peer_db_set(port, bits: u64) -> i32 {
        if bits & !port.valid_doorbells() != 0 {
            return error(EINVAL);
        }
        port.ring(bits);
        0
    }
    ntb_spad_is_unsafe(_port) -> i32 {
        0
    }
    ntb_spad_count(port) -> i32 {
        port.pads() as i32
    }
    ntb_spad_read(port, at: i32) -> u32 {
        point();
        let pad = port.pad(at).filter(|_| !port.reads_ones());
        pad.map_or(u32::MAX, |pad| pad.get())
    }
    ntb_spad_write(port, at: i32, value: u32) -> i32 {
        point();
        valid(port.pad(at).map(|pad| pad.set(value)).is_some())
    }
    ntb_peer_spad_read(port, pidx: i32, at: i32) -> u32 {
        point();
        let peer = port.peer(pidx).filter(|peer| port.is_up(peer));
        peer.map_or(u32::MAX, |peer| peer.pad(at).map_or(u32::MAX, |pad| pad.get()))
    }
    ntb_peer_spad_write(port, pidx: i32, at: i32, value: u32) -> i32 {
        let Some(peer) = port.peer(pidx).filter(|peer| peer.pad(at).is_some()) else {
            return error(EINVAL);
        };
        port.store_pad(&peer, at as usize, value);
        0
    }
    ntb_msg_count(_port) -> i32 {
        0
    }
    ntb_msg_inbits(_port) -> u64 {
        0
    }
    ntb_msg_outbits(_port) -> u64 {
        0
    }
    ntb_msg_read_sts(_port) -> u64 {
        0
    }
    ntb_msg_clear_sts(_port, _bits: u64) -> i32 {
        error(EINVAL)
    }
    ntb_msg_set_mask(_port, _bits: u64) -> i32 {
        error(EINVAL)
    }
    ntb_msg_clear_mask(_port, _bits: u64) -> i32 {
        error(EINVAL)
    }
    ntb_msg_read(_port, _pidx: *mut i32, _midx: i32) -> u32 {
        u32::MAX
    }
    ntb_peer_msg_write(_port, _pidx: i32, _midx: i32, _value: u32) -> i32 {
        error(EINVAL)
    }
}

/// Map a window; null without memory, or if there is none.
///
/// # Safety
///
/// None.
pub unsafe fn ntb_map_window(phys: u64, len: usize) -> *mut c_void {
    might_sleep();
    host().own::<Ports>().map(phys, len).cast()
}

/// # Safety
///
/// It was mapped, and nobody stores there any more.
pub unsafe fn ntb_unmap_window(base: *mut c_void) {
    might_sleep();
    host().own::<Ports>().unmap(base.cast());
}

/// Memory that a device reaches, in one piece, of zeros; null without memory.
///
/// # Safety
///
/// `dma` is valid for writes.
pub unsafe fn dma_alloc_attrs(
    _dev: *mut device,
    len: usize,
    dma: *mut u64,
    flags: u32,
    _attrs: usize,
) -> *mut c_void {
    let page = bindings::PAGE_SIZE;
    // SAFETY: Fresh memory.
    let start = unsafe {
        bindings::krealloc_node_align(
            ptr::null(),
            len.next_multiple_of(page),
            page,
            flags | bindings::__GFP_ZERO,
            bindings::NUMA_NO_NODE,
        )
    };
    if !start.is_null() {
        give(dma, memory::phys_of(start.addr()).unwrap_or_default());
    }
    start
}

/// # Safety
///
/// Allocated by [`dma_alloc_attrs`]; nobody uses it any more.
///
/// Fails if a window leads there.
pub unsafe fn dma_free_attrs(
    _dev: *mut device,
    len: usize,
    start: *mut c_void,
    dma: u64,
    _attrs: usize,
) {
    if host().own::<Ports>().is_led_to(dma, len as u64) {
        fail("it frees memory that a window of a peer leads to");
    }
    // SAFETY: As the caller promises.
    unsafe { memory::free(start.cast()) };
}

/// # Safety
///
/// It was allocated.
pub unsafe fn kernel_phys(virt: *mut c_void) -> u64 {
    let phys = memory::phys_of(virt.addr());
    phys.unwrap_or_else(|| fail("it asks for the address of no memory"))
}

/// Where a device reaches a range; all ones if it does not.
///
/// # Safety
///
/// The range stays until it is unmapped.
pub unsafe fn ntb_map_range(_dev: *mut device, phys: u64, _len: usize, is_device: bool) -> u64 {
    if is_device {
        u64::MAX
    } else {
        phys
    }
}

/// # Safety
///
/// It was mapped.
///
/// Fails if a window leads there.
pub unsafe fn ntb_unmap_range(_dev: *mut device, dma: u64, len: usize, _is_device: bool) {
    if host().own::<Ports>().is_led_to(dma, len as u64) {
        fail("it unmaps memory that a window of a peer leads to");
    }
}

/// Pages of processes, of which there are none.
///
/// # Safety
///
/// None.
pub unsafe fn ntb_map_pages(
    _dev: *mut device,
    _pages: *mut *mut bindings::page,
    _count: u32,
    _dma: *mut u64,
) -> *mut c_void {
    ptr::null_mut()
}

/// # Safety
///
/// It was mapped: never.
pub unsafe fn ntb_unmap_pages(_dev: *mut device, _table: *mut c_void) {
    fail("it unmaps pages of a process");
}
