// SPDX-License-Identifier: MIT OR Apache-2.0

//! Callbacks, and what they have to do with waits.

use super::*;
use crate::functions::{
    connect_data_interrupt, connect_interrupt, connect_segment, create_data_interrupt,
    create_interrupt, disconnect_segment, remove_interrupt, remove_segment, trigger_data_interrupt,
    trigger_interrupt, wait_for_data_interrupt, wait_for_interrupt,
};
use sisci::{Action, LocalEvent, Reason};
use std::sync::{
    atomic::{AtomicBool, AtomicU32, Ordering},
    mpsc, OnceLock,
};
use sys::*;

const CALLBACK: u32 = SCI_FLAG_USE_CALLBACK;

fn soon<T>(from: &mpsc::Receiver<T>) -> T {
    from.recv_timeout(Duration::from_secs(10)).unwrap()
}

/// A segment of A with a callback that sends what it gets.
fn told(a: &Program, action: Action) -> (Handle, mpsc::Receiver<(Handle, LocalEvent)>) {
    let (tell, events) = mpsc::channel();
    let callback: LocalCallback = Box::new(move |handle, event| {
        let _ = tell.send((handle, event));
        action
    });
    let segment = create_with(a, open(a), 7, 4096, Some(callback), CALLBACK).unwrap();
    publish(a, segment).unwrap();
    (segment, events)
}

/// SI-CRSEG-7, SI-WLSEG-2, SI-GEN-16, SI-GEN-19: every event runs the callback, and no wait.
#[test]
fn a_callback_runs_for_every_event() {
    let (_world, a, b) = pair();
    let (segment, events) = told(&a, Action::Continue);
    for _ in 0..3 {
        let remote = connect(&b, A, 7).unwrap();
        disconnect_segment(&b, remote, 0).unwrap();
    }
    for _ in 0..3 {
        for reason in [Reason::Connect, Reason::Disconnect] {
            let event = LocalEvent {
                reason,
                node: B,
                adapter: 0,
            };
            assert_eq!(soon(&events), (segment, event));
        }
    }
    let wait = local_event(&a, segment, 0);
    assert_eq!(wait, Err(Error::IllegalOperation));
}

/// SI-GEN-19: a callback that does not want to go on leaves the events to waits.
#[test]
fn a_callback_can_end_itself() {
    let (_world, a, b) = pair();
    let (segment, events) = told(&a, Action::Cancel);
    connect(&b, A, 7).unwrap();
    assert_eq!(soon(&events).1.reason, Reason::Connect);
    let wait = || local_event(&a, segment, 0);
    until("the callback has ended", || wait() == Err(Error::Timeout));
    connect(&b, A, 7).unwrap();
    assert_eq!(local_event(&a, segment, 1000), Ok((SCI_CB_CONNECT, B, 0)));
    assert!(events.try_recv().is_err());
}

/// SI-GEN-17: without the flag the function does not matter; with it there has to be one.
#[test]
fn a_callback_needs_its_flag() {
    let (_world, a, b) = pair();
    let desc = open(&a);
    let missing = create(&a, desc, 7, 4096, CALLBACK);
    assert_eq!(missing, Err(Error::IllegalParameter));
    let called = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&called);
    let callback: LocalCallback = Box::new(move |_, _| {
        seen.store(true, Ordering::Release);
        Action::Continue
    });
    let segment = create_with(&a, desc, 7, 4096, Some(callback), 0).unwrap();
    publish(&a, segment).unwrap();
    connect(&b, A, 7).unwrap();
    assert_eq!(local_event(&a, segment, 1000), Ok((SCI_CB_CONNECT, B, 0)));
    assert!(!called.load(Ordering::Acquire));
    let mut number = 0;
    let to = out(&mut number);
    let missing = made(|out| create_interrupt(&a, desc, out, 0, to, None, CALLBACK));
    assert_eq!(missing, Err(Error::IllegalParameter));
}

/// SI-WRSEG-2, SI-EVT-1, SI-EVT-9, SI-RSM-1: the importer's callback hears of the link, and not of
/// its own connection.
#[test]
fn importers_have_callbacks() {
    let (world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let (tell, events) = mpsc::channel();
    let callback: functions::RemoteCallback = Box::new(move |handle, event| {
        tell.send((handle, event.reason)).unwrap();
        Action::Continue
    });
    let desc = open(&b);
    let remote =
        made(|out| connect_segment(&b, desc, out, place(A, 7), Some(callback), CALLBACK)).unwrap();
    world.set_up(0, false);
    assert_eq!(soon(&events), (remote, Reason::NotOperational));
    world.set_up(0, true);
    assert_eq!(soon(&events), (remote, Reason::Operational));
    functions::set_segment_unavailable(&a, segment, 0, SCI_FLAG_NOTIFY).unwrap();
    assert_eq!(soon(&events), (remote, Reason::Disconnect));
    world.lose(0);
    assert_eq!(soon(&events), (remote, Reason::Lost));
    assert_eq!(remote_event(&b, remote, 0), Err(Error::IllegalOperation));
}

/// SI-GEN-20: a callback may call any function, and release its own object.
#[test]
fn a_callback_may_release_its_own_object() {
    let (_world, a, b) = pair();
    let (done, results) = mpsc::channel();
    let own = Arc::clone(&a);
    let callback: LocalCallback = Box::new(move |handle, event| {
        if event.reason == Reason::Disconnect {
            let size = functions::local_segment_size(&own, handle);
            done.send((size, remove_segment(&own, handle, 0))).unwrap();
        }
        Action::Continue
    });
    let desc = open(&a);
    let segment = create_with(&a, desc, 7, 4096, Some(callback), CALLBACK).unwrap();
    publish(&a, segment).unwrap();
    let remote = connect(&b, A, 7).unwrap();
    disconnect_segment(&b, remote, 0).unwrap();
    assert_eq!(soon(&results), (Ok(4096), Ok(())));
    until("the virtual device is free", || {
        functions::close(&a, desc, 0).is_ok()
    });
}

/// Where a handle goes that a callback looks for.
#[derive(Clone, Copy)]
struct Variable(usize);

impl Variable {
    fn new() -> Self {
        Variable(std::ptr::from_mut(Box::leak(Box::new(NONE))).expose_provenance())
    }

    fn place(self) -> Out<Handle> {
        // SAFETY: It is never freed.
        unsafe { Out::new(ptr::with_exposed_provenance_mut(self.0)) }
    }
}

/// SI-GEN-11, SI-GEN-20: however soon a callback runs, its handle leads to the object, and the
/// program has it.
#[test]
fn a_callback_finds_its_own_object() {
    let (_world, a, b) = pair();
    let (first, desc) = (open(&a), open(&b));
    offered(&a, 7, 4096);
    let (tell, found) = mpsc::channel();
    for _ in 0..3000 {
        let (own, variable, tell) = (Arc::clone(&b), Variable::new(), tell.clone());
        let callback: functions::RemoteCallback = Box::new(move |handle, _| {
            let id = functions::remote_segment_id(&own, handle);
            let _ = tell.send((id, variable.place().read() == Ok(handle)));
            Action::Continue
        });
        let flags = CALLBACK | SCI_FLAG_ASYNCHRONOUS_CONNECT;
        let out = variable.place();
        connect_segment(&b, desc, out, place(A, 7), Some(callback), flags).unwrap();
        assert_eq!(soon(&found), (Ok(7), true));
        disconnect_segment(&b, variable.place().read().unwrap(), 0).unwrap();
    }
    // Somebody else's interrupt of that number is triggered all the time.
    let (mut number, over) = (5, Arc::new(AtomicBool::new(false)));
    let to = out(&mut number);
    let shared = SCI_FLAG_FIXED_INTNO | SCI_FLAG_SHARED_INT;
    made(|out| create_interrupt(&a, first, out, 0, to, None, shared)).unwrap();
    let caller = made(|out| connect_interrupt(&b, desc, out, place(A, 5), 0)).unwrap();
    let (trigger, done) = (Arc::clone(&b), Arc::clone(&over));
    let triggering = std::thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            trigger_interrupt(&trigger, caller, 0).unwrap();
        }
    });
    for _ in 0..3000 {
        let (own, variable, tell) = (Arc::clone(&a), Variable::new(), tell.clone());
        let callback: functions::InterruptCallback = Box::new(move |handle| {
            // Flags are looked at once the object is found.
            let no_flag = wait_for_interrupt(&own, handle, 0, 1);
            let is_found = if no_flag == Err(Error::IllegalFlag) {
                Ok(7)
            } else {
                Err(Error::Busy)
            };
            let _ = tell.send((is_found, variable.place().read() == Ok(handle)));
            Action::Cancel
        });
        let flags = CALLBACK | shared;
        let out = variable.place();
        create_interrupt(&a, first, out, 0, to, Some(callback), flags).unwrap();
        assert_eq!(soon(&found), (Ok(7), true));
        remove_interrupt(&a, variable.place().read().unwrap(), 0).unwrap();
    }
    over.store(true, Ordering::Relaxed);
    triggering.join().unwrap();
}

/// SI-GEN-21, SI-EVT-11: no callback runs once the function that releases has returned.
#[test]
fn release_waits_for_the_callback() {
    for round in 0..50 {
        let (_world, a, b) = pair();
        let gone = Arc::new(AtomicBool::new(false));
        let late = Arc::new(AtomicU32::new(0));
        let (own_gone, own_late) = (Arc::clone(&gone), Arc::clone(&late));
        let callback: LocalCallback = Box::new(move |_, _| {
            own_late.fetch_add(u32::from(own_gone.load(Ordering::SeqCst)), Ordering::SeqCst);
            std::thread::yield_now();
            own_late.fetch_add(u32::from(own_gone.load(Ordering::SeqCst)), Ordering::SeqCst);
            Action::Continue
        });
        let segment = create_with(&a, open(&a), 7, 4096, Some(callback), CALLBACK).unwrap();
        publish(&a, segment).unwrap();
        let connecting = std::thread::spawn(move || while connect(&b, A, 7).is_ok() {});
        std::thread::sleep(Duration::from_micros(round * 50));
        remove_segment(&a, segment, SCI_FLAG_FORCE_REMOVE).unwrap();
        gone.store(true, Ordering::SeqCst);
        connecting.join().unwrap();
        assert_eq!(late.load(Ordering::SeqCst), 0);
    }
}

/// SI-WINT-2, SI-WDINT-3, SI-TRINT-1, SI-GEN-16, SI-ISM-4: interrupts run callbacks, with or
/// without a message.
#[test]
fn interrupts_have_callbacks() {
    let (_world, a, b) = pair();
    let (desc, other) = (open(&a), open(&b));
    let (tell, events) = mpsc::channel();
    let tell_data = tell.clone();
    let plain: functions::InterruptCallback = Box::new(move |handle| {
        tell.send((handle, Vec::new())).unwrap();
        Action::Continue
    });
    let with_data: functions::DataCallback = Box::new(move |handle, data| {
        tell_data.send((handle, data.to_vec())).unwrap();
        Action::Continue
    });
    let mut number = 0;
    let to = out(&mut number);
    let first = made(|out| create_interrupt(&a, desc, out, 0, to, Some(plain), CALLBACK)).unwrap();
    let at = place(A, number);
    let caller = made(|out| connect_interrupt(&b, other, out, at, 0)).unwrap();
    let second =
        made(|out| create_data_interrupt(&a, desc, out, 0, to, Some(with_data), CALLBACK)).unwrap();
    let at = place(A, number);
    let sender = made(|out| connect_data_interrupt(&b, other, out, at, 0)).unwrap();
    trigger_interrupt(&b, caller, 0).unwrap();
    assert_eq!(soon(&events), (first, Vec::new()));
    for n in 0..100 {
        trigger_data_interrupt(&b, sender, input(&[n, n]), 0).unwrap();
        if n % 32 == 31 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    for n in 0..100 {
        assert_eq!(soon(&events), (second, vec![n, n]));
    }
    let wait = wait_for_interrupt(&a, first, 0, 0);
    assert_eq!(wait, Err(Error::IllegalOperation));
    let mut length = 8;
    let wait = wait_for_data_interrupt(&a, second, bytes(&mut [0; 8]), out(&mut length), 0, 0);
    assert_eq!(wait, Err(Error::IllegalOperation));
}

/// SI-CRINT-5: a callback runs as often as a counting interrupt was triggered.
#[test]
fn a_counting_interrupt_runs_its_callback_for_each_trigger() {
    let (_world, a, b) = pair();
    let count = Arc::new(AtomicU32::new(0));
    let own = Arc::clone(&count);
    let callback: functions::InterruptCallback = Box::new(move |_| {
        own.fetch_add(1, Ordering::SeqCst);
        Action::Continue
    });
    let (desc, other) = (open(&a), open(&b));
    let mut number = 0;
    let to = out(&mut number);
    let flags = CALLBACK | SCI_FLAG_COUNTING_INT;
    let interrupt =
        made(|out| create_interrupt(&a, desc, out, 0, to, Some(callback), flags)).unwrap();
    let at = place(A, number);
    let counting = SCI_FLAG_COUNTING_INT;
    let caller = made(|out| connect_interrupt(&b, other, out, at, counting)).unwrap();
    for _ in 0..1000 {
        trigger_interrupt(&b, caller, 0).unwrap();
    }
    until("all triggers are told", || {
        count.load(Ordering::SeqCst) == 1000
    });
    functions::disconnect_interrupt(&b, caller, 0).unwrap();
    remove_interrupt(&a, interrupt, 0).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1000);
}

/// SI-GEN-15: a signal ends a wait, and nothing else.
#[test]
fn a_signal_ends_a_wait() {
    static THREAD: OnceLock<libc::pthread_t> = OnceLock::new();
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: A handler that does nothing, without SA_RESTART making a difference to poll().
    unsafe {
        let mut handler: libc::sigaction = std::mem::zeroed();
        let function: extern "C" fn(libc::c_int) = nothing;
        handler.sa_sigaction = function as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &handler, ptr::null_mut()), 0);
    }
    let (_world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let waiting = Arc::clone(&a);
    let waiter = std::thread::spawn(move || {
        // SAFETY: Always successful.
        THREAD.set(unsafe { libc::pthread_self() }).unwrap();
        local_event(&waiting, segment, SCI_INFINITE_TIMEOUT)
    });
    until("the thread runs", || THREAD.get().is_some());
    std::thread::sleep(Duration::from_millis(100));
    // SAFETY: The thread has not been joined.
    unsafe { libc::pthread_kill(*THREAD.get().unwrap(), libc::SIGUSR1) };
    assert_eq!(waiter.join().unwrap(), Err(Error::Cancelled));
    connect(&b, A, 7).unwrap();
    assert_eq!(local_event(&a, segment, 1000), Ok((SCI_CB_CONNECT, B, 0)));
}
