// SPDX-License-Identifier: MIT OR Apache-2.0

//! Work queues, completion queues, handlers and asynchronous errors.

mod common;

use common::{briefly, flushed, good, soon, Device, Pair, TestVi};
use rustix::io::Errno;
use std::{
    sync::{mpsc, Arc, Barrier},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};
use vipl::{
    deadline, Completion, Cq, Deadline, Descriptor, Error, ErrorCode, Level, MemAttributes,
    QueueKind, Remote, Resource, State, Status, ViAttributes, CQ_ENTRIES_MAX, CQ_MAX,
    DESCRIPTORS_MAX,
};

const SOON: Duration = Duration::from_secs(30);
const NOT: Duration = Duration::from_millis(60);

/// A connection whose ends have a completion queue each, for both queues.
fn with_cqs(pair: &Pair, level: Level) -> [(TestVi, Cq<Device>); 2] {
    let ends = [&pair.a, &pair.b].map(|side| {
        let cq = side.nic.create_cq(64, 5).unwrap();
        let attributes = side.attributes(level);
        let vi = side.nic.create_vi(&attributes, Some(&cq), Some(&cq), 6);
        (vi.unwrap(), cq)
    });
    pair.connect(&ends[0].0, &ends[1].0);
    ends
}

/// VI-WQ-3 to VI-WQ-7, VI-GEN-4: what Done and Wait say of empty, pending and complete queues.
#[test]
fn done_and_wait_look_at_the_head() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    assert_eq!(b.recv_done(), Err(Error::Descriptor));
    assert_eq!(b.recv_wait(Deadline::NEVER), Err(Error::Descriptor));
    let (receive, _) = pair.b.receive(&b, 4);
    assert_eq!(b.recv_done(), Err(Error::NotDone));
    assert_eq!(b.recv_wait(deadline(0)), Err(Error::Timeout));
    let begun = Instant::now();
    assert_eq!(b.recv_wait(deadline(80)), Err(Error::Timeout));
    assert!(begun.elapsed() >= Duration::from_millis(80));
    thread::scope(|scope| {
        let waits = scope.spawn(|| b.recv_wait(soon()));
        thread::sleep(Duration::from_millis(50));
        // Done does not wait behind Wait (VI-THR-6).
        let begun = Instant::now();
        assert_eq!(b.recv_done(), Err(Error::NotDone));
        assert!(begun.elapsed() < Duration::from_secs(1));
        pair.a.send(&a, b"four");
        assert_eq!(
            waits.join().unwrap(),
            Ok(good(receive, Status::OP_RECEIVE, 4))
        );
    });
    // Flushing releases a wait (VI-WQ-8).
    let (receive, _) = pair.b.receive(&b, 4);
    thread::scope(|scope| {
        let waits = scope.spawn(|| b.recv_wait(Deadline::NEVER));
        thread::sleep(Duration::from_millis(30));
        a.disconnect().unwrap();
        assert_eq!(
            waits.join().unwrap(),
            Ok(flushed(receive, Status::OP_RECEIVE))
        );
    });
}

/// VI-EP-10, VI-EP-11, VI-STATE-17, VI-PTAG-3, VI-QRY-3: what keeps a VI and its tag.
#[test]
fn a_vi_is_destroyed_when_it_is_idle_and_empty() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::Unreliable);
    assert_eq!(a.destroy(), Err(Error::InvalidState));
    pair.a.receive(&a, 4);
    a.disconnect().unwrap();
    let info = a.query().unwrap();
    assert_eq!(
        (info.state, info.send_empty, info.recv_empty),
        (State::Idle, true, false)
    );
    assert_eq!(a.destroy(), Err(Error::InvalidState));
    assert!(a.recv_done().unwrap().status.is_error());
    assert_eq!(pair.a.nic.destroy_ptag(pair.a.tag), Err(Error::Resource));
    assert_eq!(a.destroy(), Ok(()));
    let invalid = Err(Error::InvalidParameter);
    assert_eq!(a.destroy(), invalid);
    assert_eq!(a.post_send(0, pair.a.handle), invalid);
    assert_eq!(a.recv_done().map(|_| ()), invalid);
    assert_eq!(a.disconnect(), invalid);
    while b.query().unwrap().state != State::Error {
        thread::yield_now();
    }
    assert_eq!(b.destroy(), Err(Error::InvalidState));
    // The region has the tag.
    assert_eq!(pair.a.nic.destroy_ptag(pair.a.tag), Err(Error::Resource));
    pair.a.nic.deregister(pair.a.at(0), pair.a.handle).unwrap();
    assert_eq!(pair.a.nic.destroy_ptag(pair.a.tag), Ok(()));
}

/// VI-EP-2, VI-EP-3, VI-EP-9, VI-CQ-1, VI-CQ-9, VI-CQ-10, VI-WQ-9
#[test]
fn completion_queues_are_bound_and_resized() {
    let pair = Pair::new();
    let nic = &pair.a.nic;
    assert_eq!(nic.create_cq(0, 0).unwrap_err(), Error::InvalidParameter);
    let most = CQ_ENTRIES_MAX;
    assert_eq!(nic.create_cq(most + 1, 0).unwrap_err(), Error::Resource);
    let cq = nic.create_cq(most, 9).unwrap();
    let foreign = pair.b.nic.create_cq(1, 0).unwrap();
    let attributes = pair.a.attributes(Level::Unreliable);
    let refused = nic.create_vi(&attributes, Some(&foreign), None, 0);
    assert_eq!(refused.unwrap_err(), Error::InvalidParameter);
    for (send, receive) in [(true, true), (true, false), (false, true), (false, false)] {
        let [s, r] = [send, receive].map(|bound| bound.then_some(&cq));
        let vi = nic.create_vi(&attributes, s, r, 0).unwrap();
        pair.a.receive(&vi, 4);
        let waits = vi.recv_wait(deadline(0)).unwrap_err();
        assert_eq!(waits == Error::Resource, receive);
        let notified = vi.recv_notify(Box::new(|_, _| {}));
        assert_eq!(notified == Err(Error::Resource), receive);
        assert_eq!(vi.send_wait(deadline(0)) == Err(Error::Resource), send);
        assert_eq!(cq.destroy() == Err(Error::Resource), send || receive);
        if !send && !receive {
            break;
        }
        vi.disconnect().unwrap();
        // A handler takes what is not bound.
        assert_eq!(vi.recv_done().is_ok(), receive);
        vi.destroy().unwrap();
    }
    assert_eq!(cq.resize(4), Err(Error::InvalidParameter));
    let cq = nic.create_cq(2, 0).unwrap();
    let vi = nic.create_vi(&attributes, Some(&cq), None, 0).unwrap();
    for _ in 0..2 {
        pair.a.send(&vi, b"flushed");
    }
    assert_eq!(cq.resize(1), Err(Error::Resource));
    assert_eq!(cq.resize(0), Err(Error::InvalidParameter));
    assert_eq!(cq.resize(3), Ok(()));
    pair.a.send(&vi, b"flushed");
    for _ in 0..3 {
        assert_eq!(cq.done().unwrap(), (vi.clone(), QueueKind::Send));
    }
    assert_eq!(cq.done().unwrap_err(), Error::NotDone);
    let more: Vec<_> = (1..CQ_MAX).map(|_| nic.create_cq(1, 0).unwrap()).collect();
    assert_eq!(nic.create_cq(1, 0).unwrap_err(), Error::Resource);
    more[0].destroy().unwrap();
    assert!(nic.create_cq(1, 0).is_ok());
}

/// VI-CQ-1, VI-LIM-6: as many entries as the NIC tells, and one more is an overrun.
#[test]
fn a_completion_queue_holds_as_many_entries_as_the_nic_tells() {
    let pair = Pair::new();
    let cq = pair.a.nic.create_cq(CQ_ENTRIES_MAX, 0).unwrap();
    let attributes = pair.a.attributes(Level::Unreliable);
    let vi = || {
        let vi = pair.a.nic.create_vi(&attributes, Some(&cq), None, 0);
        vi.unwrap()
    };
    // So many VIs whose queues are full.
    let full = CQ_ENTRIES_MAX as usize / DESCRIPTORS_MAX;
    let vis: Vec<_> = (0..full).map(|_| vi()).collect();
    let post = |vi: &TestVi| {
        // Without a connection it comes back at once.
        let descriptor = pair.a.descriptor(&Descriptor::new());
        vi.post_send(descriptor, pair.a.handle).unwrap();
    };
    for vi in &vis {
        (0..DESCRIPTORS_MAX).for_each(|_| post(vi));
    }
    let one_more = vi();
    for vi in &vis {
        for _ in 0..DESCRIPTORS_MAX {
            assert_eq!(cq.done().unwrap(), (vi.clone(), QueueKind::Send));
        }
    }
    assert_eq!(cq.done().unwrap_err(), Error::NotDone);
    for vi in &vis {
        (0..DESCRIPTORS_MAX).for_each(|_| assert!(vi.send_done().is_ok()));
        (0..DESCRIPTORS_MAX).for_each(|_| post(vi));
    }
    let state = |vi: &TestVi| vi.query().unwrap().state;
    assert_eq!(state(&vis[0]), State::Idle);
    post(&one_more);
    let soon = Instant::now() + SOON;
    while state(&one_more) != State::Error || state(&vis[0]) != State::Error {
        assert!(Instant::now() < soon);
    }
}

/// VI-CQ-2, VI-CQ-4, VI-CQ-6, VI-CQ-7, VI-DISC-6: one entry for each completion, good or flushed; the
/// descriptor stays on its queue.
#[test]
fn a_completion_queue_tells_of_each_completion_once() {
    let pair = Pair::new();
    let [(a, cq_a), (b, cq_b)] = with_cqs(&pair, Level::ReliableDelivery);
    for _ in 0..10 {
        pair.b.receive(&b, 4);
        pair.a.send(&a, b"four");
    }
    for _ in 0..10 {
        assert_eq!(cq_b.wait(soon()).unwrap(), (b.clone(), QueueKind::Receive));
        assert!(!b.recv_done().unwrap().status.is_error());
        assert_eq!(cq_a.wait(soon()).unwrap(), (a.clone(), QueueKind::Send));
        assert!(!a.send_done().unwrap().status.is_error());
    }
    assert_eq!(cq_b.wait(deadline(0)).unwrap_err(), Error::Timeout);
    assert_eq!(cq_b.wait(deadline(40)).unwrap_err(), Error::Timeout);
    assert_eq!(b.token(), 6);
    assert_eq!(cq_b.token(), 5);
    for _ in 0..3 {
        pair.b.receive(&b, 4);
    }
    thread::scope(|scope| {
        let waits = scope.spawn(|| cq_b.wait(soon()).map(|(_, kind)| kind));
        thread::sleep(Duration::from_millis(40));
        assert_eq!(cq_b.done().unwrap_err(), Error::NotDone);
        a.disconnect().unwrap();
        assert_eq!(waits.join().unwrap(), Ok(QueueKind::Receive));
    });
    // Taken before its entry: the entry stays.
    for _ in 0..3 {
        assert!(b.recv_done().unwrap().status.is_error());
    }
    for _ in 0..2 {
        assert!(cq_b.done().is_ok());
    }
    assert_eq!(b.recv_done(), Err(Error::Descriptor));
    assert_eq!(cq_b.done().unwrap_err(), Error::NotDone);
}

/// VI-CQ-2, VI-CQ-7, VI-DISC-6: what a thread takes that looks at the descriptor's own queue has an
/// entry as well, also if its own look has completed it.
#[test]
fn what_a_look_completes_has_an_entry() {
    let pair = Pair::new();
    let [(a, cq_a), (b, cq)] = with_cqs(&pair, Level::ReliableDelivery);
    let look = || {
        let end = Instant::now() + SOON;
        loop {
            match b.recv_done() {
                Err(Error::NotDone) => assert!(Instant::now() < end, "nothing comes"),
                other => return other.unwrap(),
            }
        }
    };
    for round in 0..100 {
        pair.b.receive(&b, 4);
        pair.a.send(&a, b"four");
        assert!(!look().status.is_error());
        let told = cq.done();
        assert_eq!(told, Ok((b.clone(), QueueKind::Receive)), "round {round}");
        assert_eq!(cq_a.wait(soon()).unwrap(), (a.clone(), QueueKind::Send));
        a.send_done().unwrap();
    }
    pair.b.receive(&b, 4);
    a.disconnect().unwrap();
    assert!(look().status.is_error());
    assert_eq!(cq.done(), Ok((b.clone(), QueueKind::Receive)));
    assert_eq!(cq.done().unwrap_err(), Error::NotDone);
}

/// VI-CQ-8: many VIs on one completion queue.
#[test]
fn many_vis_share_a_completion_queue() {
    let pair = Pair::new();
    let cq = pair.b.nic.create_cq(1000, 0).unwrap();
    let attributes = pair.b.attributes(Level::ReliableReception);
    let vis: Vec<_> = (0..16)
        .map(|n| {
            let a = pair.a.vi(Level::ReliableReception);
            let b = pair.b.nic.create_vi(&attributes, Some(&cq), Some(&cq), n);
            let b = b.unwrap();
            pair.connect(&a, &b);
            for _ in 0..4 {
                pair.b.receive(&b, 8);
            }
            (a, b)
        })
        .collect();
    for (n, (a, _)) in vis.iter().enumerate() {
        for _ in 0..4 {
            pair.a.send(a, &vec![n as u8; n % 8]);
        }
    }
    let mut counts = vec![0; vis.len()];
    for _ in 0..4 * vis.len() {
        let (vi, kind) = cq.wait(soon()).unwrap();
        assert_eq!(kind, QueueKind::Receive);
        let got = vi.recv_done().unwrap();
        assert_eq!(u64::from(got.length), vi.token() % 8);
        counts[vi.token() as usize] += 1;
    }
    assert_eq!(counts, vec![4; vis.len()]);
}

/// VI-CQ-11, VI-CQ-13, VI-ERR-17, VI-ERR-18: an overrun is told once, and its VIs are recovered.
#[test]
fn an_overrun_is_told_and_can_be_recovered_from() {
    let pair = Pair::new();
    let nic = &pair.a.nic;
    let cq = nic.create_cq(2, 11).unwrap();
    let attributes = pair.a.attributes(Level::Unreliable);
    let [one, two] = [0; 2].map(|_| nic.create_vi(&attributes, Some(&cq), None, 0).unwrap());
    let (tell, told) = mpsc::channel();
    let handler = move |_: &_, event: &vipl::ErrorEvent<Device>| {
        let cq = event.cq.as_ref().map(Cq::token);
        tell.send((event.code, event.resource, cq, event.vi.is_some()))
            .unwrap();
    };
    nic.set_error_handler(Some(Box::new(handler))).unwrap();
    for _ in 0..4 {
        pair.a.send(&one, b"");
    }
    let expected = (ErrorCode::Catastrophic, Resource::Cq, Some(11), false);
    assert_eq!(told.recv_timeout(SOON), Ok(expected));
    assert!(told.recv_timeout(NOT).is_err());
    for vi in [&one, &two] {
        assert_eq!(vi.query().unwrap().state, State::Error);
        vi.disconnect().unwrap();
        while vi.send_done().is_ok() {}
        vi.destroy().unwrap();
    }
    // Entries of VIs that are gone are never seen.
    assert_eq!(cq.done().unwrap_err(), Error::NotDone);
    assert_eq!(cq.destroy(), Ok(()));
}

/// What a handler was told, and on which thread.
type Told = (u32, Option<Completion>, ThreadId);

fn note(tell: &mpsc::Sender<Told>, number: u32) -> vipl::QueueHandler<Device> {
    let tell = tell.clone();
    Box::new(move |_, done| {
        tell.send((number, done, thread::current().id())).unwrap();
    })
}

/// VI-NTFY-1 to VI-NTFY-8: handlers and descriptors in order, one each, and none when the queue is
/// empty.
#[test]
fn handlers_take_descriptors_in_order() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    let (tell, told) = mpsc::channel();
    assert_eq!(b.recv_notify(note(&tell, 0)), Err(Error::Descriptor));
    let receives = [0; 3].map(|_| pair.b.receive(&b, 4).0);
    for n in 1..=5 {
        b.recv_notify(note(&tell, n)).unwrap();
    }
    assert!(told.recv_timeout(NOT).is_err());
    for _ in 0..3 {
        pair.a.send(&a, b"four");
    }
    let all: Vec<_> = (0..5).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    for (n, (number, done, thread)) in all.iter().enumerate() {
        assert_eq!(*number as usize, n + 1);
        let expected = receives.get(n).map(|at| good(*at, Status::OP_RECEIVE, 4));
        assert_eq!((*done, *thread), (expected, all[0].2));
    }
    assert_ne!(all[0].2, thread::current().id());
    // One that is complete already is taken all the same; each handler once.
    let last = pair.b.receive(&b, 4).0;
    pair.b.receive(&b, 4);
    pair.a.send(&a, b"four");
    thread::sleep(Duration::from_millis(50));
    b.recv_notify(note(&tell, 9)).unwrap();
    let (number, done, _) = told.recv_timeout(SOON).unwrap();
    assert_eq!((number, done), (9, Some(good(last, Status::OP_RECEIVE, 4))));
    pair.a.send(&a, b"four");
    assert!(told.recv_timeout(NOT).is_err());
    assert!(b.recv_done().is_ok());
}

/// VI-NTFY-13, SC-12: an echo by handlers that post, take and register from inside; and one that
/// disconnects.
#[test]
fn handlers_may_call_everything() {
    let pair = std::sync::Arc::new(Pair::new());
    let (a, b) = pair.connected(Level::ReliableReception);
    let rounds = 20;
    fn again(pair: std::sync::Arc<Pair>, vi: &TestVi, room: usize) {
        vi.recv_notify(Box::new(move |vi, done| {
            if done.is_none_or(|done| done.status.is_error()) {
                return;
            }
            let bytes = pair.b.bytes(room, 8);
            let (_, next) = pair.b.receive(vi, 8);
            again(std::sync::Arc::clone(&pair), vi, next);
            pair.b.send(vi, &bytes);
            assert!(vi.send_wait(soon()).is_ok());
            if bytes == [rounds_end(); 8] {
                vi.disconnect().unwrap();
            }
        }))
        .unwrap();
    }
    fn rounds_end() -> u8 {
        19
    }
    let (_, room) = pair.b.receive(&b, 8);
    again(std::sync::Arc::clone(&pair), &b, room);
    for n in 0..rounds {
        let (_, echo) = pair.a.receive(&a, 8);
        pair.a.send(&a, &[n; 8]);
        assert!(!a.recv_wait(soon()).unwrap().status.is_error());
        assert_eq!(pair.a.bytes(echo, 8), [n; 8]);
    }
    while a.query().unwrap().state != State::Error {
        thread::yield_now();
    }
}

/// VI-NTFY-9 to VI-NTFY-11: handlers of a completion queue take entries, also later ones; those that
/// wait are dropped with it.
#[test]
fn handlers_take_entries_of_completion_queues() {
    let pair = Pair::new();
    let cq = pair.a.nic.create_cq(8, 0).unwrap();
    let attributes = pair.a.attributes(Level::Unreliable);
    let vi = pair
        .a
        .nic
        .create_vi(&attributes, None, Some(&cq), 3)
        .unwrap();
    let (tell, told) = mpsc::channel();
    for n in 0..2 {
        let tell = tell.clone();
        let handler = move |vi: &TestVi, kind| tell.send((n, vi.token(), kind)).unwrap();
        cq.notify(Box::new(handler)).unwrap();
    }
    assert!(told.recv_timeout(NOT).is_err());
    pair.a.receive(&vi, 4);
    vi.disconnect().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok((0, 3, QueueKind::Receive)));
    assert_eq!(cq.done().unwrap_err(), Error::NotDone);
    assert!(vi.recv_done().is_ok());
    vi.destroy().unwrap();
    assert_eq!(cq.destroy(), Ok(()));
    drop(tell);
    assert!(told.recv_timeout(SOON).is_err());
}

/// VI-ERR-1 to VI-ERR-5, VI-ERR-19, VI-ERR-20, VI-DISC-3: who is told of what, in order, once.
#[test]
fn asynchronous_errors_are_told_in_order_and_once() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::Unreliable);
    let (tell, told) = mpsc::channel();
    let other = tell.clone();
    let handler = move |_: &_, event: &vipl::ErrorEvent<Device>| {
        let vi = event.vi.clone().unwrap();
        let state = vi.query().unwrap().state;
        if event.code == ErrorCode::ConnLost {
            vi.disconnect().unwrap();
        }
        tell.send((event.code, event.operation, state)).unwrap();
    };
    pair.b
        .nic
        .set_error_handler(Some(Box::new(|_, _| panic!("replaced"))))
        .unwrap();
    pair.b
        .nic
        .set_error_handler(Some(Box::new(handler)))
        .unwrap();
    let own = move |_: &_, event: &vipl::ErrorEvent<Device>| {
        other
            .send((event.code, event.operation, State::Idle))
            .unwrap();
    };
    pair.a.nic.set_error_handler(Some(Box::new(own))).unwrap();
    pair.a.send(&a, b"nobody");
    let write = Descriptor::write(Remote {
        address: 0,
        handle: 0,
    });
    pair.a.post(&a, write, b"refused");
    a.disconnect().unwrap();
    let (receive, write) = (Status::OP_RECEIVE, Status::OP_REMOTE_RDMA_WRITE);
    let expected = [
        (ErrorCode::RecvqEmpty, receive),
        (ErrorCode::RdmawProt, write),
        (ErrorCode::ConnLost, Status::default()),
    ];
    for (code, operation) in expected {
        let (got, of, state) = told.recv_timeout(SOON).unwrap();
        assert_eq!((got, of), (code, operation));
        assert!(code != ErrorCode::ConnLost || state == State::Error);
    }
    assert!(told.recv_timeout(NOT).is_err());
    assert_eq!(b.query().unwrap().state, State::Idle);
    // Without a handler it is logged, and the program lives.
    pair.b.nic.set_error_handler(None).unwrap();
    b.post_send(3, pair.b.handle).unwrap();
    assert_eq!(b.query().unwrap().state, State::Error);
    assert!(told.recv_timeout(NOT).is_err());
}

/// VI-ERR-1: a handler is done with when the call that replaces it has returned, unless it makes the
/// call itself.
#[test]
fn a_handler_that_was_replaced_has_returned() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::Unreliable);
    let (_c, d) = pair.connected(Level::Unreliable);
    let nic = &pair.b.nic;
    let context = Arc::new(());
    let (tell, told) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let held = Arc::clone(&context);
    let first = move |_: &_, _: &vipl::ErrorEvent<Device>| {
        tell.send(Arc::strong_count(&held)).unwrap();
        let _ = wait.recv_timeout(SOON);
    };
    nic.set_error_handler(Some(Box::new(first))).unwrap();
    pair.a.send(&a, b"nobody");
    assert_eq!(told.recv_timeout(SOON), Ok(2));
    // This one is there when the call returns.
    d.post_send(3, pair.b.handle).unwrap();
    thread::scope(|scope| {
        let replaced = scope.spawn(|| nic.set_error_handler(None));
        thread::sleep(NOT);
        assert!(!replaced.is_finished());
        // It is told of both, which were before.
        go.send(()).unwrap();
        assert_eq!(told.recv_timeout(SOON), Ok(2));
        assert!(!replaced.is_finished());
        // And of what else becomes of them.
        drop(go);
        assert_eq!(replaced.join().unwrap(), Ok(()));
    });
    assert_eq!(Arc::strong_count(&context), 1);
    let (tell, told) = mpsc::channel();
    let own = move |nic: &vipl::Nic<Device>, _: &vipl::ErrorEvent<Device>| {
        tell.send(nic.set_error_handler(None)).unwrap();
    };
    nic.set_error_handler(Some(Box::new(own))).unwrap();
    b.post_send(3, pair.b.handle).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(Ok(())));
}

/// VI-ERR-1, VI-NIC-8: a call that waits for a handler ends with the NIC.
#[test]
fn replacing_a_handler_ends_with_the_nic() {
    let pair = Pair::new();
    let (a, _b) = pair.connected(Level::Unreliable);
    let nic = &pair.b.nic;
    let (tell, told) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let first = move |_: &_, _: &vipl::ErrorEvent<Device>| {
        tell.send(()).unwrap();
        let _ = wait.recv_timeout(SOON);
    };
    nic.set_error_handler(Some(Box::new(first))).unwrap();
    pair.a.send(&a, b"nobody");
    assert_eq!(told.recv_timeout(SOON), Ok(()));
    thread::scope(|scope| {
        let replaced = scope.spawn(|| nic.set_error_handler(None));
        thread::sleep(NOT);
        let closes = scope.spawn(|| nic.close());
        thread::sleep(NOT);
        assert!(!replaced.is_finished() && !closes.is_finished());
        drop(go);
        assert_eq!(closes.join().unwrap(), Ok(()));
        let replaced = replaced.join().unwrap();
        assert_eq!(replaced, Err(Error::InvalidParameter));
    });
}

/// VI-ATTR-2, VI-ATTR-3, VI-EP-5, VI-EP-7, VI-EP-8, VI-PTAG-4, VI-PTAG-7
#[test]
fn attributes_change_all_or_not() {
    let pair = Pair::new();
    let (nic, vi) = (&pair.a.nic, pair.a.vi(Level::ReliableDelivery));
    let (good, foreign) = (pair.a.attributes(Level::ReliableDelivery), pair.b.tag);
    for (attributes, error) in [
        (
            ViAttributes {
                max_transfer_size: 0,
                ..good
            },
            Error::InvalidMtu,
        ),
        (
            ViAttributes {
                level: Level::Unreliable,
                ..good
            },
            Error::InvalidRdmaRead,
        ),
        (
            ViAttributes {
                ptag: foreign,
                level: Level::ReliableReception,
                ..good
            },
            Error::InvalidPtag,
        ),
        (
            ViAttributes {
                ptag: vipl::Ptag(0),
                ..good
            },
            Error::InvalidPtag,
        ),
    ] {
        assert_eq!(
            nic.create_vi(&attributes, None, None, 0).unwrap_err(),
            error
        );
        assert_eq!(vi.set_attributes(&attributes), Err(error));
        assert_eq!(vi.query().unwrap().attributes, good);
    }
    let tag = nic.create_ptag().unwrap();
    let moved = ViAttributes { ptag: tag, ..good };
    assert_eq!(vi.set_attributes(&moved), Ok(()));
    assert_eq!(nic.destroy_ptag(tag), Err(Error::Resource));
    assert_eq!(vi.set_attributes(&good), Ok(()));
    assert_eq!(nic.destroy_ptag(tag), Ok(()));
    let region = (pair.a.at(0), pair.a.handle);
    let bad = MemAttributes {
        ptag: foreign,
        rdma_write: false,
        rdma_read: false,
    };
    let before = nic.query_memory(region.0, region.1).unwrap();
    assert_eq!(
        nic.set_memory(region.0, region.1, &bad),
        Err(Error::InvalidPtag)
    );
    assert_eq!(nic.query_memory(region.0, region.1), Ok(before));
    let register = nic.register(pair.a.map.memory(), &bad);
    assert_eq!(register, Err(Error::InvalidPtag));
}

/// VI-THR-3, VI-THR-6, VI-THR-7, VI-THR-11: senders, receivers, Done and Wait on one VI at once: each
/// descriptor comes back once.
#[test]
fn threads_share_a_vi() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableReception);
    let count = 2000;
    let taken = std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut posted = 0;
            while posted < count {
                let waiting = posted - taken.load(std::sync::atomic::Ordering::Relaxed);
                if waiting < 64 {
                    pair.b.receive(&b, 32);
                    pair.a.send(&a, &posted.to_le_bytes());
                    posted += 1;
                } else {
                    thread::yield_now();
                }
            }
        });
        for done in [true, false] {
            let (b, taken) = (&b, &taken);
            scope.spawn(move || {
                while taken.load(std::sync::atomic::Ordering::Relaxed) < count {
                    let got = if done {
                        b.recv_done()
                    } else {
                        b.recv_wait(briefly())
                    };
                    match got {
                        Ok(got) => {
                            assert_eq!(got.status, Status::DONE.with(Status::OP_RECEIVE));
                            taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                        Err(Error::NotDone | Error::Timeout | Error::Descriptor) => {
                            thread::yield_now();
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let mut sent = 0;
        while sent < count {
            match a.send_wait(briefly()) {
                Ok(got) => {
                    assert_eq!(got.status, Status::DONE);
                    sent += 1;
                }
                Err(Error::Timeout | Error::Descriptor) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(taken.into_inner(), count);
}

/// VI-REL-11: a VI without receives does not hold up another one.
#[test]
fn a_vi_that_receives_nothing_disturbs_nobody() {
    let pair = Pair::new();
    let (a, _deaf) = pair.connected(Level::Unreliable);
    let (c, d) = pair.connected(Level::Unreliable);
    for n in 0..2000_u32 {
        let send = pair.a.send(&a, &[1; 300]);
        assert_eq!(
            a.send_wait(soon()),
            Ok(good(send, Status::OP_SEND, 300)),
            "{n}"
        );
    }
    pair.b.receive(&d, 4);
    pair.a.send(&c, b"four");
    assert!(d.recv_wait(soon()).is_ok());
}

/// VI-EM-11, VI-STATE-11, VI-REL-9, VI-REL-10, SC-16: a link that goes down is noticed at every level.
#[test]
fn a_link_that_goes_down_is_noticed() {
    let pair = Pair::new();
    let vis: Vec<_> = Level::ALL.map(|level| pair.connected(level)).into();
    let receives: Vec<_> = vis.iter().map(|(_, b)| pair.b.receive(b, 4).0).collect();
    pair.world.set_up(0, false);
    for ((a, b), receive) in vis.iter().zip(receives) {
        assert_eq!(
            b.recv_wait(soon()),
            Ok(flushed(receive, Status::OP_RECEIVE))
        );
        while a.query().unwrap().state != State::Error {
            thread::yield_now();
        }
        let send = pair.a.send(a, b"late");
        assert_eq!(a.send_done(), Ok(flushed(send, Status::OP_SEND)));
        assert_eq!((a.disconnect(), b.disconnect()), (Ok(()), Ok(())));
    }
}

/// VI-NIC-2, VI-NIC-3, VI-NIC-4, VI-QRY-1, VI-QRY-2, VI-SMI-2
#[test]
fn nics_are_opened_by_name() {
    let world = mp_testing::World::new(1, 1 << 20);
    let other = world.clone();
    let library =
        vipl::Library::new(move || Ok(vipl::Fabric::with_device(other.open(mp_testing::Host::B))));
    for (name, error) in [
        ("", Error::InvalidParameter),
        ("NIC0", Error::InvalidParameter),
        ("VINICx", Error::InvalidParameter),
        ("vinic", Error::InvalidParameter),
        ("VINIC1", Error::Resource),
    ] {
        assert_eq!(library.open_nic(name).unwrap_err(), error, "{name}");
    }
    let [one, two] = ["VINIC", "VINIC0"].map(|name| library.open_nic(name).unwrap());
    let attributes = one.attributes().unwrap().clone();
    assert_eq!(attributes.local_address.peer(), 1);
    assert_eq!(
        two.attributes().unwrap().local_address,
        attributes.local_address
    );
    assert_eq!(one.neighbours(1), Ok(vec![vipl::HostAddress::of(0)]));
    let tag = one.create_ptag().unwrap();
    assert_eq!(two.destroy_ptag(tag), Err(Error::InvalidParameter));
    one.close().unwrap();
    assert_eq!(two.attributes().unwrap().max_vi, attributes.max_vi);
    assert!(two.create_ptag().is_ok());
    let none = vipl::Library::<mp_testing::FakeDevice>::new(|| Err(mp_fabric::Error::NotLoaded));
    assert_eq!(none.open_nic("VINIC").unwrap_err(), Error::Resource);
}

/// VI-NIC-8, VI-ERR-19: an error handler closes the NIC that it is told of.
#[test]
fn an_error_handler_closes_the_nic() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    let (tell, told) = mpsc::channel();
    let handler = move |nic: &vipl::Nic<Device>, event: &vipl::ErrorEvent<Device>| {
        tell.send((event.code, nic.close(), nic.close())).unwrap();
    };
    let nic = &pair.a.nic;
    nic.set_error_handler(Some(Box::new(handler))).unwrap();
    pair.b.send(&b, b"nobody");
    let closed = (ErrorCode::RecvqEmpty, Ok(()), Err(Error::InvalidParameter));
    assert_eq!(told.recv_timeout(SOON), Ok(closed));
    // CONN_LOST comes after that, to nobody; the handler is dropped.
    assert!(told.recv_timeout(SOON).is_err());
    assert_eq!(a.query(), Err(Error::InvalidParameter));
    while b.query().unwrap().state != State::Error {
        thread::yield_now();
    }
}

/// VI-NIC-5, VI-EM-9: a NIC that is closed has no regions any more; what arrives meanwhile is not
/// refused for that, but finds a connection that has ended.
#[test]
fn a_nic_that_is_closed_refuses_no_message() {
    let pair = std::sync::Arc::new(Pair::new());
    let vis: Vec<_> = (0..2)
        .map(|_| pair.connected(Level::ReliableReception))
        .collect();
    let (tell, told) = mpsc::channel();
    /// Sends to a VI when it is dropped, and lets that look for messages.
    struct Late(std::sync::Arc<Pair>, (TestVi, TestVi), mpsc::Sender<Status>);
    impl Drop for Late {
        fn drop(&mut self) {
            let Late(pair, (here, there), tell) = self;
            pair.b.send(there, b"late");
            let _ = here.recv_done();
            let done = there.send_wait(soon()).unwrap();
            tell.send(done.status).unwrap();
        }
    }
    for n in 0..2 {
        pair.a.receive(&vis[n].0, 8);
        let late = Late(pair.clone(), vis[1 - n].clone(), tell.clone());
        let handler = move |_: &TestVi, _| drop(late);
        vis[n].0.recv_notify(Box::new(handler)).unwrap();
    }
    pair.a.nic.close().unwrap();
    for _ in 0..2 {
        let status = told
            .recv_timeout(std::time::Duration::from_secs(20))
            .unwrap();
        assert_eq!(status, Status::DONE.with(Status::FLUSHED_ERROR));
    }
}

/// VI-NTFY-11, VI-NTFY-13: handlers of two VIs that destroy each other's VI.
#[test]
fn handlers_destroy_each_others_vis() {
    let pair = Pair::new();
    let vis = [(); 2].map(|()| pair.connected(Level::ReliableDelivery));
    let both = std::sync::Arc::new(std::sync::Barrier::new(2));
    let (tell, told) = mpsc::channel();
    for n in 0..2 {
        pair.a.receive(&vis[n].0, 8);
        let (other, both, tell) = (vis[1 - n].0.clone(), both.clone(), tell.clone());
        let handler = move |_: &TestVi, _| {
            both.wait();
            other.disconnect().unwrap();
            both.wait();
            tell.send(other.destroy()).unwrap();
        };
        vis[n].0.recv_notify(Box::new(handler)).unwrap();
    }
    for (_, there) in &vis {
        pair.b.send(there, b"now");
    }
    for _ in 0..2 {
        let destroyed = told.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(destroyed, Ok(Ok(())));
    }
}

/// VI-NIC-5: memory that the program has given back before it closes the NIC, with receives in it.
#[test]
fn a_nic_is_closed_after_the_memory_of_its_queues_has_gone() {
    let pair = Pair::new();
    let (_a, b) = pair.connected(Level::ReliableDelivery);
    let common::Pair { b: side, a, .. } = pair;
    side.receive(&b, 4);
    drop(a);
    while b.query().unwrap().state != State::Error {
        thread::yield_now();
    }
    b.disconnect().unwrap();
    side.receive(&b, 4);
    let common::Side { nic, map, .. } = side;
    drop(map);
    assert_eq!(nic.close(), Ok(()));
}

/// VI-THR-3: a host that does not answer holds up no thread of the program.
#[test]
fn a_host_that_does_not_answer_holds_up_no_caller() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    pair.world.set_silent(true);
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        // Before it sleeps, the service thread asks for a signal of the message after this one.
        pair.a.receive(&a, 4);
        pair.b.send(&b, b"four");
        for _ in 0..20 {
            let begun = Instant::now();
            a.query().unwrap();
            longest = longest.max(begun.elapsed());
            thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(longest < Duration::from_millis(40), "{longest:?}");
    pair.world.set_silent(false);
}

/// VI-NIC-5, VI-NTFY-13: handlers that wait for each other's VI end with the NIC, whichever of them
/// ends first.
#[test]
fn a_nic_is_closed_while_handlers_wait() {
    let pair = Pair::new();
    let (vis, peers): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| pair.connected(Level::ReliableDelivery))
        .unzip();
    let (tell, told) = mpsc::channel();
    let both = std::sync::Arc::new(Barrier::new(2));
    for n in 0..2 {
        let (own, other) = (&vis[n], vis[1 - n].clone());
        let (tell, both) = (tell.clone(), std::sync::Arc::clone(&both));
        pair.a.receive(own, 4);
        pair.a.receive(own, 4);
        let waits = move |_: &TestVi, _| {
            both.wait();
            tell.send(None).unwrap();
            tell.send(Some(other.recv_wait(Deadline::NEVER))).unwrap();
        };
        own.recv_notify(Box::new(waits)).unwrap();
    }
    for peer in &peers {
        pair.b.send(peer, b"four");
    }
    for _ in 0..2 {
        assert_eq!(told.recv_timeout(SOON), Ok(None));
    }
    let nic = pair.a.nic.clone();
    let closed = thread::spawn(move || nic.close());
    for _ in 0..2 {
        let ended = told.recv_timeout(SOON).expect("a handler still waits");
        assert_eq!(ended, Some(Err(Error::InvalidParameter)));
    }
    assert_eq!(closed.join().unwrap(), Ok(()));
}

/// VI-NTFY-13: a handler that is not taken, or whose thread has ended, is dropped without a lock.
#[test]
fn handlers_are_dropped_without_a_lock() {
    struct Asks(TestVi, mpsc::Sender<bool>);
    impl Drop for Asks {
        fn drop(&mut self) {
            self.1.send(self.0.query().is_ok()).unwrap();
        }
    }
    let pair = Pair::new();
    let (a, _b) = pair.connected(Level::ReliableDelivery);
    let (tell, told) = mpsc::channel();
    let asks = Asks(a.clone(), tell);
    let refused = thread::spawn(move || a.recv_notify(Box::new(move |_, _| drop(asks))));
    assert_eq!(told.recv_timeout(SOON), Ok(true));
    assert_eq!(refused.join().unwrap(), Err(Error::Descriptor));
}

/// VI-ERR-6: of errors that a remote side causes at any rate no more than some wait for a handler
/// that is slow; what comes after them is told.
#[test]
fn errors_that_repeat_do_not_pile_up() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::Unreliable);
    let (tell, told) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let handler = move |_: &_, event: &vipl::ErrorEvent<Device>| {
        let _ = wait.recv_timeout(SOON);
        tell.send(event.code).unwrap();
    };
    pair.a
        .nic
        .set_error_handler(Some(Box::new(handler)))
        .unwrap();
    for _ in 0..2_000 {
        pair.b.send(&b, b"nobody");
        assert!(b.send_wait(soon()).is_ok());
    }
    b.disconnect().unwrap();
    while a.query().unwrap().state != State::Error {
        thread::yield_now();
    }
    drop(go);
    let mut count = 0;
    let last = loop {
        match told.recv_timeout(SOON) {
            Ok(ErrorCode::RecvqEmpty) => count += 1,
            other => break other,
        }
    };
    assert_eq!(last, Ok(ErrorCode::ConnLost));
    // The one that was being told of does not wait.
    assert!((256..=257).contains(&count), "{count}");
}

/// VI-POST-2: a partner that sleeps is woken although the kernel has no memory for that at first,
/// and the connection goes on.
#[test]
fn a_signal_without_memory_is_tried_again() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    for _ in 0..5 {
        pair.b.receive(&b, 4);
        // Long enough for the service thread to ask for a signal.
        thread::sleep(Duration::from_millis(50));
        pair.world.fail_signals(2);
        pair.a.send(&a, b"four");
        assert!(!a.send_wait(soon()).unwrap().status.is_error());
        let begun = Instant::now();
        assert!(!b.recv_wait(soon()).unwrap().status.is_error());
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    assert_eq!(a.query().unwrap().state, State::Connected);
}

/// VI-POST-2, VI-EM-11: where another host forwards, what the kernel has no memory to send arrives
/// later; what it cannot send ends the connection at both ends, as a lost link does.
#[test]
fn stores_that_are_not_sent_are_kept_or_end_the_connection() {
    let pair = Pair::new();
    pair.world.set_routed(true);
    let (a, b) = pair.connected(Level::ReliableDelivery);
    for count in [1, 2, 5] {
        let (_, room) = pair.b.receive(&b, 4);
        thread::sleep(Duration::from_millis(50));
        pair.world.fail_stores(count, Errno::NOMEM);
        pair.a.send(&a, b"kept");
        assert!(!a.send_wait(soon()).unwrap().status.is_error());
        let begun = Instant::now();
        assert!(!b.recv_wait(soon()).unwrap().status.is_error());
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(pair.b.bytes(room, 4), b"kept");
    }
    let (tell, told) = mpsc::channel();
    for side in [&pair.a, &pair.b] {
        let tell = tell.clone();
        let handler = move |_: &_, event: &vipl::ErrorEvent<Device>| {
            tell.send(event.code).unwrap();
        };
        side.nic.set_error_handler(Some(Box::new(handler))).unwrap();
    }
    let receives = [pair.a.receive(&a, 4).0, pair.b.receive(&b, 4).0];
    thread::sleep(Duration::from_millis(50));
    pair.world.fail_stores(1, Errno::TIMEDOUT);
    pair.a.send(&a, b"lost");
    for (vi, receive) in [&a, &b].into_iter().zip(receives) {
        let done = vi.recv_wait(soon()).unwrap();
        assert_eq!(done, flushed(receive, Status::OP_RECEIVE));
        assert_eq!(vi.query().unwrap().state, State::Error);
        assert_eq!(told.recv_timeout(SOON), Ok(ErrorCode::ConnLost));
    }
}

/// All of them with other chances of the bridge; those that take long, once.
#[test]
fn with_other_seeds() {
    mp_testing::with_other_seeds("with_other_seeds", &["does_not_answer", "as_many_entries"]);
}
