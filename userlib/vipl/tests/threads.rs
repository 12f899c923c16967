// SPDX-License-Identifier: MIT OR Apache-2.0

//! Many threads without a lock of their own: on different VIs, on the queues of one, on the tables
//! of a NIC, and handlers beside them.

mod common;

use common::{briefly, good, soon, Device, Pair, TestVi};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc, Mutex,
    },
    thread,
    time::{Duration, Instant},
};
use vipl::{
    deadline, Completion, Deadline, Descriptor, Error, ErrorEvent, Level, MemAttributes,
    NameService, QueueKind, State, Status,
};

const SOON: Duration = Duration::from_secs(30);

/// Post receives for so many messages.
fn expect(pair: &Pair, b: &TestVi, count: u32) {
    for _ in 0..count {
        pair.b.receive(b, 4);
    }
}

/// Send numbered messages, and take their descriptors.
fn send_numbers(pair: &Pair, a: &TestVi, count: u32) {
    for number in 0..count {
        let descriptor = Descriptor::new().immediate(number);
        let posted = pair.a.post(a, descriptor, &number.to_le_bytes());
        let done = a.send_wait(soon()).unwrap();
        assert_eq!(done, good(posted, Status::OP_SEND, 4));
    }
}

/// The number of a message.
fn number(done: Completion) -> u32 {
    assert!(!done.status.is_error(), "{done:?}");
    done.immediate.unwrap()
}

/// Each number once, in order.
fn receive_numbers(b: &TestVi, count: u32) {
    for expected in 0..count {
        assert_eq!(number(b.recv_wait(soon()).unwrap()), expected);
    }
}

/// VI-THR-2, VI-THR-3, VI-THR-11: a thread for each queue of many VIs, which share nothing but the
/// NIC; and two that share a completion queue.
#[test]
fn threads_on_many_vis_lose_nothing() {
    const MESSAGES: u32 = 150;
    let pair = Pair::new();
    let vis: Vec<_> = (0..9).map(|n| pair.connected(Level::ALL[n % 3])).collect();
    let cq = pair.b.nic.create_cq(4096, 0).unwrap();
    let attributes = pair.b.attributes(Level::ReliableDelivery);
    let shared: Vec<_> = (0..3)
        .map(|n| {
            let a = pair.a.vi(Level::ReliableDelivery);
            let b = pair.b.nic.create_vi(&attributes, None, Some(&cq), n);
            let b = b.unwrap();
            pair.connect(&a, &b);
            (a, b)
        })
        .collect();
    for (_, b) in vis.iter().chain(&shared) {
        expect(&pair, b, MESSAGES);
    }
    let next: Vec<_> = shared.iter().map(|_| Mutex::new(BTreeSet::new())).collect();
    let left = AtomicUsize::new(shared.len() * MESSAGES as usize);
    thread::scope(|scope| {
        for (a, b) in &vis {
            scope.spawn(|| send_numbers(&pair, a, MESSAGES));
            scope.spawn(|| receive_numbers(b, MESSAGES));
        }
        for (a, _) in &shared {
            scope.spawn(|| send_numbers(&pair, a, MESSAGES));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while left.load(Ordering::Relaxed) > 0 {
                    let Ok((vi, kind)) = cq.wait(briefly()) else {
                        continue;
                    };
                    assert_eq!(kind, QueueKind::Receive);
                    let found = number(vi.recv_done().unwrap());
                    let fresh = next[vi.token() as usize].lock().unwrap().insert(found);
                    assert!(fresh, "{found} came twice");
                    left.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    });
    for seen in next {
        let all: Vec<_> = seen.into_inner().unwrap().into_iter().collect();
        assert_eq!(all, (0..MESSAGES).collect::<Vec<_>>());
    }
}

/// Make one of everything, and end it; what cannot be connected says so.
fn make_and_end(pair: &Pair, turn: u64) {
    let nic = &pair.a.nic;
    let tag = nic.create_ptag().unwrap();
    let attributes = MemAttributes {
        ptag: tag,
        rdma_write: true,
        rdma_read: false,
    };
    let memory = nic.register(pair.a.map.memory(), &attributes).unwrap();
    let cq = nic.create_cq(8, turn).unwrap();
    let own = vipl::ViAttributes {
        ptag: tag,
        ..pair.a.attributes(Level::ReliableDelivery)
    };
    let vi = nic.create_vi(&own, Some(&cq), None, turn).unwrap();
    assert_eq!(nic.destroy_ptag(tag), Err(Error::Resource));
    assert_eq!((vi.token(), vi.query().unwrap().state), (turn, State::Idle));
    let (here, there) = (pair.a.address(b"me"), pair.b.address(b"nobody"));
    let asked = vi.connect_request(&here, &there, soon());
    assert_eq!(asked, Err(Error::NoMatch));
    assert_eq!(cq.done().unwrap_err(), Error::NotDone);
    vi.set_attributes(&pair.a.attributes(Level::Unreliable))
        .unwrap();
    nic.deregister(pair.a.at(0), memory).unwrap();
    assert_eq!(nic.destroy_ptag(tag), Ok(()));
    vi.destroy().unwrap();
    cq.destroy().unwrap();
}

/// Begin and end the name service, which other threads do as well; how often each was done.
fn begin_and_end(names: &NameService, begun: &AtomicUsize, ended: &AtomicUsize) {
    let none = Some(Path::new("/dev/null"));
    begun.fetch_add(usize::from(names.init(none).is_ok()), Ordering::Relaxed);
    if let Ok(names) = names.names() {
        assert!(names.address("nobody", 0).is_err());
    }
    ended.fetch_add(usize::from(names.shutdown().is_ok()), Ordering::Relaxed);
}

/// VI-THR-4, VI-THR-5: threads make and end everything, connections among them, while others have
/// traffic.
#[test]
fn threads_make_and_end_objects_beside_traffic() {
    const MESSAGES: u32 = 400;
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableReception);
    expect(&pair, &b, MESSAGES);
    let names = NameService::default();
    let over = AtomicBool::new(false);
    let [turns, begun, ended] = [0; 3].map(AtomicUsize::new);
    thread::scope(|scope| {
        for own in 0..4_u64 {
            let (pair, names, over) = (&pair, &names, &over);
            let (turns, begun, ended) = (&turns, &begun, &ended);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    make_and_end(pair, own);
                    begin_and_end(names, begun, ended);
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let (one, two) = pair.connected(Level::Unreliable);
                one.disconnect().unwrap();
                two.disconnect().unwrap();
                one.destroy().unwrap();
                two.destroy().unwrap();
            }
        });
        scope.spawn(|| send_numbers(&pair, &a, MESSAGES));
        receive_numbers(&b, MESSAGES);
        over.store(true, Ordering::Relaxed);
    });
    assert!(turns.into_inner() > 0 && names.names().is_err());
    assert_eq!(begun.into_inner(), ended.into_inner());
    // Nothing is left: the tag goes with the region and the VI that have it.
    a.disconnect().unwrap();
    a.destroy().unwrap();
    pair.a.nic.deregister(pair.a.at(0), pair.a.handle).unwrap();
    assert_eq!(pair.a.nic.destroy_ptag(pair.a.tag), Ok(()));
}

/// VI-THR-6, VI-WQ-6: threads that wait hold up no Done: the fastest of some calls takes no time.
#[test]
fn done_is_not_held_up_by_threads_that_wait() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    let cq = pair.b.nic.create_cq(4, 0).unwrap();
    pair.b.receive(&b, 4);
    let fastest = |done: &dyn Fn() -> Error| {
        let times = (0..50).map(|_| {
            let begun = Instant::now();
            assert_eq!(done(), Error::NotDone);
            begun.elapsed()
        });
        times.min().unwrap()
    };
    thread::scope(|scope| {
        let waits = scope.spawn(|| b.recv_wait(Deadline::NEVER));
        let entry = scope.spawn(|| cq.wait(Deadline::after(Duration::from_secs(1))));
        thread::sleep(Duration::from_millis(50));
        let received = fastest(&|| b.recv_done().unwrap_err());
        let entries = fastest(&|| cq.done().unwrap_err());
        let most = Duration::from_millis(1);
        assert!(
            received < most && entries < most,
            "{received:?} {entries:?}"
        );
        pair.a.send(&a, b"four");
        assert!(waits.join().unwrap().is_ok());
        assert_eq!(entry.join().unwrap().unwrap_err(), Error::Timeout);
    });
}

/// VI-THR-7, VI-THR-12: threads that use Done and threads that use Wait on one queue: each message
/// once, and to each thread in order.
#[test]
fn done_and_wait_on_one_queue_share_it() {
    const MESSAGES: u32 = 600;
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    expect(&pair, &b, MESSAGES);
    let takes = |with_wait: bool| {
        let mut own = Vec::new();
        loop {
            let taken = match with_wait {
                true => b.recv_wait(soon()),
                false => b.recv_done(),
            };
            match taken {
                Ok(done) => own.push(number(done)),
                Err(Error::NotDone) => thread::yield_now(),
                // The queue is empty.
                Err(Error::Descriptor) => return own,
                Err(error) => panic!("{error}"),
            }
        }
    };
    let mut all: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| send_numbers(&pair, &a, MESSAGES));
        let threads = [true, false, true, false].map(|wait| scope.spawn(move || takes(wait)));
        let each = threads.map(|thread| thread.join().unwrap());
        for own in &each {
            assert!(own.windows(2).all(|pair| pair[0] < pair[1]), "{own:?}");
        }
        each.into_iter().flatten().collect()
    });
    all.sort_unstable();
    assert_eq!(all, (0..MESSAGES).collect::<Vec<_>>());
}

/// VI-THR-8, VI-THR-9: threads that register handlers, and others that use Done and Wait, on one
/// queue: each message once, and each handler once.
#[test]
fn handlers_and_calls_on_one_queue_share_it() {
    const MESSAGES: u32 = 600;
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    expect(&pair, &b, MESSAGES);
    let (tell, told) = mpsc::channel();
    let registered = AtomicUsize::new(0);
    let mut all: Vec<u32> = thread::scope(|scope| {
        for _ in 0..3 {
            let tell = tell.clone();
            let (b, registered) = (&b, &registered);
            scope.spawn(move || loop {
                let tell = tell.clone();
                let handler = move |_: &TestVi, done: Option<Completion>| tell.send(done).unwrap();
                match b.recv_notify(Box::new(handler)) {
                    Ok(()) => registered.fetch_add(1, Ordering::Relaxed),
                    Err(Error::Descriptor) => return,
                    Err(error) => panic!("{error}"),
                };
                thread::yield_now();
            });
        }
        scope.spawn(|| send_numbers(&pair, &a, MESSAGES));
        let takes = [false, true].map(|wait| {
            let b = &b;
            scope.spawn(move || {
                let mut own = Vec::new();
                loop {
                    let taken = match wait {
                        true => b.recv_wait(deadline(20)),
                        false => b.recv_done(),
                    };
                    match taken {
                        Ok(done) => own.push(number(done)),
                        Err(Error::NotDone | Error::Timeout) => thread::yield_now(),
                        Err(Error::Descriptor) => return own,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        takes
            .into_iter()
            .flat_map(|taken| taken.join().unwrap())
            .collect()
    });
    // Those that found the queue empty were given nothing.
    for _ in 0..registered.into_inner() {
        all.extend(told.recv_timeout(SOON).unwrap().map(number));
    }
    drop(tell);
    assert!(told.recv_timeout(Duration::from_millis(60)).is_err());
    all.sort_unstable();
    assert_eq!(all, (0..MESSAGES).collect::<Vec<_>>());
}

/// VI-THR-9: threads register handlers of a completion queue while entries come.
#[test]
fn handlers_of_a_completion_queue_are_registered_by_many_threads() {
    const MESSAGES: u32 = 300;
    let pair = Pair::new();
    let cq = pair.b.nic.create_cq(4096, 0).unwrap();
    let attributes = pair.b.attributes(Level::ReliableDelivery);
    let b = pair
        .b
        .nic
        .create_vi(&attributes, None, Some(&cq), 0)
        .unwrap();
    let a = pair.a.vi(Level::ReliableDelivery);
    pair.connect(&a, &b);
    expect(&pair, &b, MESSAGES);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..3 {
            let (tell, cq) = (tell.clone(), &cq);
            scope.spawn(move || {
                for _ in 0..MESSAGES / 3 {
                    let tell = tell.clone();
                    let handler = move |vi: &TestVi, _| tell.send(vi.recv_done()).unwrap();
                    cq.notify(Box::new(handler)).unwrap();
                }
            });
        }
        send_numbers(&pair, &a, MESSAGES);
    });
    let numbers = (0..MESSAGES).map(|_| number(told.recv_timeout(SOON).unwrap().unwrap()));
    assert_eq!(
        numbers.collect::<Vec<_>>(),
        (0..MESSAGES).collect::<Vec<_>>()
    );
    assert_eq!(cq.done().unwrap_err(), Error::NotDone);
}

/// VI-THR-10: handlers that block, of a queue, of a completion queue and of errors, each on a thread
/// that is not the caller's: everything else goes on.
#[test]
fn handlers_that_block_hold_up_nobody_else() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    let (other_a, other_b) = pair.connected(Level::ReliableDelivery);
    let cq = pair.b.nic.create_cq(8, 0).unwrap();
    let attributes = pair.b.attributes(Level::ReliableDelivery);
    let (bound_a, bound_b) = (
        pair.a.vi(Level::ReliableDelivery),
        pair.b
            .nic
            .create_vi(&attributes, None, Some(&cq), 0)
            .unwrap(),
    );
    pair.connect(&bound_a, &bound_b);
    let (lost_a, lost_b) = pair.connected(Level::ReliableDelivery);
    let (tell, told) = mpsc::channel();
    let gate = std::sync::Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let blocks = || {
        let (tell, gate) = (tell.clone(), std::sync::Arc::clone(&gate));
        move || {
            tell.send(thread::current().id()).unwrap();
            drop(gate.lock());
        }
    };
    let (of_queue, of_cq, of_errors) = (blocks(), blocks(), blocks());
    let errors = move |_: &_, _: &ErrorEvent<Device>| of_errors();
    pair.b
        .nic
        .set_error_handler(Some(Box::new(errors)))
        .unwrap();
    pair.b.receive(&b, 4);
    pair.b.receive(&bound_b, 4);
    b.recv_notify(Box::new(move |_, _| of_queue())).unwrap();
    cq.notify(Box::new(move |_, _| of_cq())).unwrap();
    pair.a.send(&a, b"four");
    pair.a.send(&bound_a, b"four");
    assert!(a.send_wait(soon()).is_ok());
    lost_a.disconnect().unwrap();
    let threads: Vec<_> = (0..3).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert!(!threads.contains(&thread::current().id()));
    // Meanwhile, also on the queue whose handler blocks.
    for (a, b) in [(&other_a, &other_b), (&a, &b)] {
        expect(&pair, b, 20);
        send_numbers(&pair, a, 20);
        receive_numbers(b, 20);
    }
    assert_eq!(lost_b.query().unwrap().state, State::Error);
    drop(held);
}

/// VI-EP-11, VI-NTFY-11: a VI that is destroyed has no call and no handler any more, and leaves its
/// tag and its completion queue.
#[test]
fn nothing_is_left_of_a_vi_that_is_destroyed() {
    let pair = Pair::new();
    let nic = &pair.a.nic;
    let (cq, tag) = (nic.create_cq(8, 0).unwrap(), nic.create_ptag().unwrap());
    let attributes = vipl::ViAttributes {
        ptag: tag,
        ..pair.a.attributes(Level::Unreliable)
    };
    let vi = nic.create_vi(&attributes, Some(&cq), None, 0).unwrap();
    let memory = MemAttributes {
        ptag: tag,
        rdma_write: false,
        rdma_read: false,
    };
    let memory = nic.register(pair.a.map.memory(), &memory).unwrap();
    let (tell, told) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    // The first handler runs until the VI is being destroyed; the second one waits behind it.
    let first = tell.clone();
    for _ in 0..2 {
        let descriptor = pair.a.descriptor(&Descriptor::new());
        vi.post_recv(descriptor, memory).unwrap();
    }
    let blocks = move |_: &TestVi, _| {
        first.send("first").unwrap();
        let _ = wait.recv_timeout(SOON);
    };
    vi.recv_notify(Box::new(blocks)).unwrap();
    vi.recv_notify(Box::new(move |_, _| tell.send("second").unwrap()))
        .unwrap();
    vi.disconnect().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok("first"));
    thread::scope(|scope| {
        let destroys = scope.spawn(|| vi.destroy());
        while vi.query().is_ok() {
            thread::yield_now();
        }
        drop(go);
        assert_eq!(destroys.join().unwrap(), Ok(()));
    });
    assert!(
        told.recv_timeout(SOON).is_err(),
        "the second handler was called"
    );
    let (here, there) = (pair.a.address(b"me"), pair.b.address(b"you"));
    let calls = [
        vi.query().map(drop),
        vi.set_attributes(&attributes),
        vi.post_send(pair.a.at(0), pair.a.handle),
        vi.post_recv(pair.a.at(0), pair.a.handle),
        vi.send_done().map(drop),
        vi.recv_done().map(drop),
        vi.send_wait(soon()).map(drop),
        vi.recv_wait(soon()).map(drop),
        vi.send_notify(Box::new(|_, _| {})),
        vi.recv_notify(Box::new(|_, _| {})),
        vi.connect_request(&here, &there, soon()).map(drop),
        vi.peer_request(&here, &there, soon()),
        vi.peer_done().map(drop),
        vi.peer_wait().map(drop),
        vi.disconnect(),
        vi.destroy(),
    ];
    assert_eq!(calls, [Err(Error::InvalidParameter); 16]);
    nic.deregister(pair.a.at(0), memory).unwrap();
    assert_eq!((cq.destroy(), nic.destroy_ptag(tag)), (Ok(()), Ok(())));
}

/// All of them with other chances of the bridge.
#[test]
fn with_other_seeds() {
    mp_testing::with_other_seeds("with_other_seeds", &[]);
}
