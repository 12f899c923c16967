// SPDX-License-Identifier: GPL-2.0-only

//! NAPI: the states of `net/core/dev.c`. Each poll is a softirq of its own, as on processors that have
//! one instance each.

use core::{
    ffi::c_int,
    sync::atomic::{
        AtomicU32,
        Ordering::SeqCst, //
    }, //
};
use machine::{
    context,
    fail,
    memory,
    point,
    queue,
    spawn,
    Kind, //
};
use std::alloc::Layout;

type Poll = unsafe extern "C" fn(*mut napi_struct, c_int) -> c_int;

/// A network device, which only owns instances.
#[repr(C)]
pub struct net_device {
    instances: AtomicU32,
}

/// An instance.
#[repr(C)]
pub struct napi_struct {
    state: AtomicU32,
    poll: Option<Poll>,
    dev: *mut net_device,
}

/// A poll runs or is due, or the instance is disabled.
const SCHED: u32 = 1;
/// Somebody has asked for a poll while one was due or ran.
const MISSED: u32 = 2;
/// Somebody waits until no poll is due.
const DISABLE: u32 = 4;
/// Nobody may poll it: it is disabled.
const NPSVC: u32 = 8;
/// It is added to a device.
const LISTED: u32 = 16;

/// Packets of one poll at most.
const WEIGHT: c_int = 64;

impl napi_struct {
    fn queue(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn state(&self) -> u32 {
        point();
        memory::check(self.queue());
        self.state.load(SeqCst)
    }

    /// Change the state in one piece, if `change` gives a new one; the one before.
    fn change(&self, change: impl Fn(u32) -> Option<u32>) -> u32 {
        let old = self.state();
        if let Some(new) = change(old) {
            self.state.store(new, SeqCst);
            queue::wake_all(self.queue());
        }
        old
    }
}

/// A device without an interface; null without memory.
///
/// # Safety
///
/// None.
pub unsafe fn alloc_netdev_dummy(_private: c_int) -> *mut net_device {
    let dev = memory::allocate(Layout::new::<net_device>(), true).cast::<net_device>();
    if !dev.is_null() {
        let instances = AtomicU32::new(0);
        // SAFETY: Just allocated.
        unsafe { dev.write(net_device { instances }) };
    }
    dev
}

/// # Safety
///
/// The device is one that nobody uses; it has no instances, which is checked.
pub unsafe fn free_netdev(dev: *mut net_device) {
    // SAFETY: As the caller promises.
    if unsafe { &*dev }.instances.load(SeqCst) != 0 {
        fail("it frees a device that has NAPI instances");
    }
    // SAFETY: As the caller promises.
    unsafe { memory::free(dev.cast()) };
}

/// Add an instance, which is disabled.
///
/// # Safety
///
/// Both are valid until the instance is deleted, or the device is freed after that.
pub unsafe fn netif_napi_add(dev: *mut net_device, napi: *mut napi_struct, poll: Option<Poll>) {
    let this = napi_struct {
        state: AtomicU32::new(SCHED | NPSVC | LISTED),
        poll,
        dev,
    };
    // SAFETY: As the caller promises.
    unsafe { &*dev }.instances.fetch_add(1, SeqCst);
    // SAFETY: As the caller promises.
    unsafe { napi.write(this) };
}

/// Take an instance away and wait for those that have a pointer to it.
///
/// # Safety
///
/// It was added; so for all functions below.
///
/// Fails if it is enabled.
pub unsafe fn netif_napi_del(napi: *mut napi_struct) {
    // SAFETY: As the caller promises.
    let this = unsafe { &*napi };
    let before = this.change(|old| Some(old & !LISTED));
    if before & LISTED == 0 {
        return;
    }
    if before & (SCHED | NPSVC) != SCHED | NPSVC {
        fail("it deletes a NAPI that is enabled");
    }
    // SAFETY: The device is there.
    unsafe { &*this.dev }.instances.fetch_sub(1, SeqCst);
    // SAFETY: No requirements.
    unsafe { synchronize_net() };
}

/// # Safety
///
/// As for [`netif_napi_del`].
///
/// Fails if it is enabled already.
pub unsafe fn napi_enable(napi: *mut napi_struct) {
    machine::might_sleep();
    // SAFETY: As the caller promises.
    let before = unsafe { &*napi }.change(|old| Some(old & !(SCHED | NPSVC)));
    if before & SCHED == 0 {
        fail("it enables a NAPI that is enabled");
    }
}

/// Wait until no poll is due, and let none be asked for.
///
/// # Safety
///
/// As for [`netif_napi_del`].
pub unsafe fn napi_disable(napi: *mut napi_struct) {
    machine::might_sleep();
    // SAFETY: As the caller promises.
    let this = unsafe { &*napi };
    this.change(|old| Some(old | DISABLE));
    let is_busy = |state: u32| state & (SCHED | NPSVC) != 0;
    while is_busy(this.change(|old| (!is_busy(old)).then_some(old | SCHED | NPSVC))) {
        queue::wait_while(this.queue(), || is_busy(this.state.load(SeqCst)));
    }
    this.change(|old| Some(old & !DISABLE));
}

/// Raise the softirq that polls the instance.
fn raise(napi: *mut napi_struct) {
    spawn("napi", Kind::Softirq, move || {
        // SAFETY: A poll is due, so the instance is not disabled, and it stays until it is.
        let this = unsafe { &*napi };
        if this.state() & SCHED == 0 {
            return;
        }
        let poll = this.poll.expect("added with a function");
        // SAFETY: As the network stack calls it.
        let done = unsafe { poll(napi, WEIGHT) };
        if done >= WEIGHT {
            fail("a poll has used up its budget and is not to be called again");
        }
    });
}

/// Ask for a poll. Any context.
///
/// # Safety
///
/// As for [`netif_napi_del`], or deleted.
pub unsafe fn napi_schedule_any(napi: *mut napi_struct) {
    // SAFETY: As the caller promises.
    let this = unsafe { &*napi };
    let before = this.change(|old| match old {
        _ if old & DISABLE != 0 => None,
        _ if old & SCHED != 0 => Some(old | MISSED),
        _ => Some(old | SCHED),
    });
    if before & (DISABLE | SCHED) == 0 {
        raise(napi);
    }
}

/// # Safety
///
/// As for [`napi_schedule_any`].
pub unsafe fn napi_is_scheduled(napi: *mut napi_struct) -> bool {
    // SAFETY: As the caller promises.
    unsafe { &*napi }.state() & SCHED != 0
}

/// A poll has handled `done` packets and leaves the instance; `false` if another one follows.
///
/// # Safety
///
/// Called by a poll of the instance.
pub unsafe fn napi_complete_done(napi: *mut napi_struct, _done: c_int) -> bool {
    // SAFETY: As the caller promises.
    let this = unsafe { &*napi };
    if this.state() & NPSVC != 0 {
        return false;
    }
    let before = this.change(|old| {
        let again = if old & MISSED != 0 { SCHED } else { 0 };
        Some(old & !(MISSED | SCHED) | again)
    });
    if before & SCHED == 0 {
        fail("a poll completes a NAPI that is not scheduled");
    }
    if before & MISSED != 0 {
        raise(napi);
        return false;
    }
    true
}

/// There are no packets to be merged.
///
/// # Safety
///
/// Called by a poll.
pub unsafe fn napi_gro_flush_all(_napi: *mut napi_struct) {
    if !context::softirqs_are_off() {
        fail("packets are merged outside of a softirq");
    }
}

/// Wait for those that receive.
///
/// # Safety
///
/// None beyond that the caller may sleep, which is checked.
pub unsafe fn synchronize_net() {
    context::await_sections();
}
