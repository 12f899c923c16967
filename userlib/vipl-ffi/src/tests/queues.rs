// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptors of C on queues.

use super::*;
use crate::ffi::{cq_handler, queue_handler};
use std::{
    sync::{mpsc, Mutex},
    time::Duration,
};

const BOTH: [QueueKind; 2] = [QueueKind::Send, QueueKind::Receive];

/// VI-WQ-2, VI-WQ-3, VI-WQ-4, VI-WQ-5, VI-DESC-11, VI-DESC-16: a message arrives, its descriptors come
/// back by their addresses, and those that were flushed are errors.
#[test]
fn descriptors_come_back_by_their_addresses() {
    let (a, b) = pair();
    let (one, other) = (a.vi(), b.vi());
    for queue in BOTH {
        assert_eq!(
            a.done(queue, one),
            (Err(Error::Descriptor), ptr::null_mut())
        );
        assert_eq!(
            a.wait(queue, one),
            (Err(Error::Descriptor), ptr::null_mut())
        );
    }
    let first = b.descriptor(0, 0x1000);
    b.post(QueueKind::Receive, other, first);
    assert_eq!(
        b.done(QueueKind::Receive, other),
        (Err(Error::NotDone), ptr::null_mut())
    );
    connect((&b, other), (&a, one));
    a.fill(0, b"hello");
    let sent = a.descriptor(0, 5);
    a.post(QueueKind::Send, one, sent);
    assert_eq!(a.wait(QueueKind::Send, one), (Ok(()), sent));
    assert_eq!(b.wait(QueueKind::Receive, other), (Ok(()), first));
    assert_eq!(
        status(first),
        sys::VIP_STATUS_DONE | sys::VIP_STATUS_OP_RECEIVE
    );
    assert_eq!(status(sent), sys::VIP_STATUS_DONE | sys::VIP_STATUS_OP_SEND);
    // SAFETY: It has come back.
    assert_eq!(unsafe { (*first).CS.Length }, 5);
    assert_eq!(b.data(0, 5), b"hello");
    let second = b.descriptor(1, 0x1000);
    b.post(QueueKind::Receive, other, second);
    functions::disconnect(&b.process, other).unwrap();
    assert_eq!(
        b.wait(QueueKind::Receive, other),
        (Err(Error::Descriptor), second)
    );
    let flushed = sys::VIP_STATUS_DESC_FLUSHED_ERROR | sys::VIP_STATUS_OP_RECEIVE;
    assert_eq!(status(second), sys::VIP_STATUS_DONE | flushed);
    functions::destroy_vi(&b.process, other).unwrap();
    assert_eq!(functions::destroy_vi(&b.process, other), INVALID);
}

/// VI-CQ-4, VI-EP-3, VI-WQ-9, VI-WQ-10: an entry has the handle of the VI, and which queue it is.
#[test]
fn entries_have_the_handles_that_programs_have() {
    let (a, b) = pair();
    let cq = b.cq();
    let (one, other) = (a.vi(), b.create(b.attributes(), [cq; 2]).unwrap());
    let p = &b.process;
    let entry = || {
        let (mut vi, mut receive) = (NONE, 7);
        let (to_vi, to_receive) = (out(&mut vi), out(&mut receive));
        functions::cq_wait(p, cq, SOON, to_vi, to_receive).map(|()| (vi, receive))
    };
    let (mut vi, mut receive) = (NONE, 7);
    let (to_vi, to_receive) = (out(&mut vi), out(&mut receive));
    assert_eq!(
        functions::cq_done(p, cq, to_vi, to_receive),
        Err(Error::NotDone)
    );
    assert_eq!(
        functions::cq_wait(p, cq, 0, to_vi, to_receive),
        Err(Error::Timeout)
    );
    b.post(QueueKind::Receive, other, b.descriptor(0, 0x1000));
    for queue in BOTH {
        assert_eq!(
            b.wait(queue, other),
            (Err(Error::Resource), ptr::null_mut())
        );
    }
    connect((&b, other), (&a, one));
    let back = a.descriptor(1, 0x1000);
    a.post(QueueKind::Receive, one, back);
    a.post(QueueKind::Send, one, a.descriptor(0, 3));
    assert_eq!(entry(), Ok((other, 1)));
    assert_eq!(b.done(QueueKind::Receive, other).0, Ok(()));
    b.post(QueueKind::Send, other, b.descriptor(2, 3));
    assert_eq!(entry(), Ok((other, 0)));
    assert_eq!(b.done(QueueKind::Send, other).0, Ok(()));
    assert_eq!(functions::destroy_cq(p, cq), Err(Error::Resource));
    functions::disconnect(p, other).unwrap();
    functions::destroy_vi(p, other).unwrap();
    functions::destroy_cq(p, cq).unwrap();
    assert_eq!(functions::destroy_cq(p, cq), INVALID);
}

type Told = mpsc::Sender<[usize; 4]>;
static TOLD: Mutex<Option<Told>> = Mutex::new(None);

fn tell(values: [usize; 4]) {
    if let Some(told) = &*TOLD.lock().unwrap() {
        told.send(values).unwrap();
    }
}

unsafe extern "C" fn on_queue(
    context: *mut c_void,
    nic: *mut c_void,
    vi: *mut c_void,
    descriptor: *mut VIP_DESCRIPTOR,
) {
    tell([context.addr(), nic.addr(), vi.addr(), descriptor.addr()]);
}

unsafe extern "C" fn on_cq(context: *mut c_void, nic: *mut c_void, vi: *mut c_void, receive: i32) {
    tell([context.addr(), nic.addr(), vi.addr(), receive as usize]);
}

/// VI-NTFY-6, VI-NTFY-7, VI-NTFY-9, VI-NTFY-14: handlers get their context, handles, and the
/// descriptor or NULL.
#[test]
fn handlers_get_handles_and_descriptors() {
    let (a, b) = pair();
    let cq = a.cq();
    let (one, other) = (a.create(a.attributes(), [cq, NONE]).unwrap(), b.vi());
    let number = |handle: Handle| mp_c_abi::Abi::<*mut c_void>::to_c(handle).addr();
    let (tell_me, told) = mpsc::channel();
    *TOLD.lock().unwrap() = Some(tell_me);
    let next = || told.recv_timeout(Duration::from_secs(20)).unwrap();
    let none = |nic| queue_handler(None, opaque(1), nic);
    let p = &b.process;
    assert_eq!(
        functions::notify(p, QueueKind::Receive, other, none),
        INVALID
    );
    let none = |nic| cq_handler(None, opaque(1), nic);
    assert_eq!(functions::cq_notify(&a.process, cq, none), INVALID);
    let receive = b.descriptor(0, 0x1000);
    b.post(QueueKind::Receive, other, receive);
    for context in [1, 2] {
        let make = |nic| queue_handler(Some(on_queue), opaque(context), nic);
        functions::notify(p, QueueKind::Receive, other, make).unwrap();
    }
    let make = |nic| cq_handler(Some(on_cq), opaque(3), nic);
    connect((&b, other), (&a, one));
    a.post(QueueKind::Send, one, a.descriptor(0, 3));
    assert_eq!(next(), [1, number(b.nic), number(other), receive.addr()]);
    assert_eq!(next(), [2, number(b.nic), number(other), 0]);
    functions::cq_notify(&a.process, cq, make).unwrap();
    assert_eq!(next(), [3, number(a.nic), number(one), 0]);
    assert_eq!(a.done(QueueKind::Send, one).0, Ok(()));
    let empty = |nic| queue_handler(Some(on_queue), opaque(4), nic);
    let refused = functions::notify(p, QueueKind::Receive, other, empty);
    assert_eq!(refused, Err(Error::Descriptor));
}

/// VI-CQ-13: entries of a VI that is gone surface nowhere, and VIs that are made in its place have
/// other handles.
#[test]
fn entries_of_a_vi_that_is_gone_are_nobodys() {
    let (side, _) = pair();
    let p = &side.process;
    let cq = made(|to| functions::create_cq(p, side.nic, 8, to)).unwrap();
    let mut gone = Vec::new();
    for _ in 0..20 {
        let vi = side.create(side.attributes(), [cq; 2]).unwrap();
        assert!(!gone.contains(&vi));
        // It is not connected: they come back at once, and their entries are not taken.
        for n in 0..4 {
            side.post(QueueKind::Send, vi, side.descriptor(n, 1));
        }
        while !side.done(QueueKind::Send, vi).1.is_null() {}
        functions::destroy_vi(p, vi).unwrap();
        gone.push(vi);
    }
    let _last = side.create(side.attributes(), [cq; 2]).unwrap();
    let (mut handle, mut flag) = (NONE, 0);
    let entry = functions::cq_done(p, cq, out(&mut handle), out(&mut flag));
    assert_eq!((entry, handle), (Err(Error::NotDone), NONE));
}
