// SPDX-License-Identifier: MIT OR Apache-2.0

//! Callbacks and waits.

use mp_fabric::{
    taken, Connection, Deadline, Error, EventMask, Fabric, Goal, InterfaceId, Next, Number, Offer,
    Reactor, Result, Triggers, Waits,
};
use mp_testing::{FakeDevice, Host, World, LOOPBACK};
use std::{
    fs, iter,
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{channel, Receiver},
        Arc, Weak,
    },
    thread,
    time::Duration,
};

const LOOP: InterfaceId = InterfaceId(LOOPBACK);
const SOON: Duration = Duration::from_secs(10);

/// An event of this host, and what triggers it.
struct Bell {
    fabric: Fabric<FakeDevice>,
    offer: Offer<FakeDevice>,
    trigger: Connection<FakeDevice>,
}

fn bell() -> Bell {
    let fabric = Fabric::with_device(World::new(0, 0).open(Host::A));
    let offer = fabric.offer_event(LOOP, Number::Any, Triggers::Counted);
    let offer = offer.unwrap();
    let goal = Goal::Event(offer.number().into());
    let trigger = fabric.connect(LOOP, goal, Deadline::PAST).unwrap();
    Bell {
        fabric,
        offer,
        trigger,
    }
}

/// Take one event of an offer.
fn take(offer: &Offer<FakeDevice>) -> Result<Option<EventMask>> {
    taken(offer.wait(EventMask::SIGNAL, Deadline::PAST))
}

/// Something that is dropped, and tells.
fn mark() -> (Arc<()>, Weak<()>) {
    let mark = Arc::new(());
    let weak = Arc::downgrade(&mark);
    (mark, weak)
}

fn soon<T>(news: &Receiver<T>) -> T {
    news.recv_timeout(SOON).unwrap()
}

#[test]
fn a_callback_runs_for_each_event_and_only_once_it_is_armed() {
    let Bell {
        fabric,
        offer,
        trigger,
    } = bell();
    let reactor = Reactor::new(&fabric, "test");
    let (offer, (tell, news)) = (Arc::new(offer), channel());
    let own = Arc::clone(&offer);
    let registration = reactor
        .register(move || match take(&own) {
            Ok(Some(_)) => {
                tell.send(()).unwrap();
                Next::Again
            }
            _ => Next::Wait,
        })
        .unwrap();
    trigger.trigger().unwrap();
    trigger.trigger().unwrap();
    // What was under way has run before another callback has.
    let (done, other) = channel();
    let kicked = reactor.register(move || {
        done.send(()).unwrap();
        Next::Wait
    });
    let kicked = kicked.unwrap();
    kicked.kick();
    soon(&other);
    assert!(news.try_recv().is_err());
    registration.arm(&*offer, EventMask::SIGNAL).unwrap();
    soon(&news);
    soon(&news);
    trigger.trigger().unwrap();
    soon(&news);
    drop(registration);
    trigger.trigger().unwrap();
    assert_eq!(
        news.recv_timeout(SOON),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
    );
}

#[test]
fn a_callback_that_panics_ends_itself_alone() {
    let Bell {
        fabric,
        offer,
        trigger,
    } = bell();
    let reactor = Reactor::new(&fabric, "test");
    let (bad, good) = (Waits::default(), Waits::default());
    let (held, weak) = mark();
    let panics = move || {
        let _held = &held;
        panic!("on purpose")
    };
    bad.call(&reactor, iter::once(&*offer), EventMask::SIGNAL, panics)
        .unwrap();
    trigger.trigger().unwrap();
    let until = Deadline::after(SOON);
    while bad.has_callback() && until.remaining() > Some(Duration::ZERO) {
        thread::sleep(Duration::from_millis(1));
    }
    let has_ended = !bad.has_callback();
    // Not on this thread, so that the test ends also if that does not.
    let (done, ended) = channel();
    thread::spawn(move || {
        bad.cancel();
        done.send(()).unwrap();
    });
    soon(&ended);
    assert!(has_ended && weak.upgrade().is_none());
    let (tell, news) = channel();
    let well = move || {
        tell.send(()).unwrap();
        Next::Wait
    };
    good.call(&reactor, iter::once(&*offer), EventMask::SIGNAL, well)
        .unwrap();
    soon(&news);
}

#[test]
fn a_callback_may_end_itself_and_take_another_ones_place() {
    let Bell { fabric, offer, .. } = bell();
    let reactor = Arc::new(Reactor::new(&fabric, "test"));
    let waits = Arc::new(Waits::default());
    let (offer, (tell, news)) = (Arc::new(offer), channel());
    let own = (
        Arc::clone(&reactor),
        Arc::downgrade(&waits),
        Arc::clone(&offer),
    );
    let first = move || {
        let (reactor, waits, offer) = &own;
        let tell = tell.clone();
        let second = move || {
            tell.send("second").unwrap();
            Next::End
        };
        let waits = waits.upgrade().unwrap();
        let objects = iter::once(&***offer);
        waits
            .call(reactor, objects, EventMask::SIGNAL, second)
            .unwrap();
        Next::End
    };
    let objects = iter::once(&**offer);
    waits
        .call(&reactor, objects, EventMask::SIGNAL, first)
        .unwrap();
    assert_eq!(soon(&news), "second");
    let ended = news.recv_timeout(SOON);
    assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn callbacks_leave_signals_to_the_program() {
    let Bell { fabric, .. } = bell();
    let reactor = Reactor::new(&fabric, "reactor-name");
    let (tell, news) = channel();
    let reading = reactor.register(move || {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        tell.send(status).unwrap();
        Next::Wait
    });
    let reading = reading.unwrap();
    reading.kick();
    let status = soon(&news);
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(field("Name:"), "reactor-name");
    let blocked = u64::from_str_radix(&field("SigBlk:"), 16).unwrap();
    let bit = |signal: libc::c_int| 1_u64 << (signal - 1);
    for signal in [libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM, libc::SIGCHLD] {
        assert_ne!(blocked & bit(signal), 0);
    }
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
        assert_eq!(blocked & bit(signal), 0);
    }
    // The program's own thread takes what it took.
    let own = fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(own.contains("SigBlk:\t0000000000000000"));
}

#[test]
fn a_wait_ends_by_event_time_and_cancel() {
    let Bell { offer, trigger, .. } = bell();
    let waits = Waits::default();
    let count = AtomicU32::new(0);
    let wait = |deadline| {
        waits.wait(iter::once(&*offer), EventMask::SIGNAL, deadline, || {
            count.fetch_add(1, Ordering::Relaxed);
            take(&offer)
        })
    };
    assert_eq!(wait(Deadline::PAST), Err(Error::TimedOut));
    assert_eq!(
        wait(Deadline::after(Duration::from_millis(20))),
        Err(Error::TimedOut)
    );
    trigger.trigger().unwrap();
    assert!(wait(Deadline::PAST).is_ok());
    thread::scope(|scope| {
        let waiting = [0; 2].map(|_| scope.spawn(|| wait(Deadline::NEVER)));
        trigger.trigger().unwrap();
        trigger.trigger().unwrap();
        for waiting in waiting {
            assert!(waiting.join().unwrap().is_ok());
        }
        let waiting = [0; 2].map(|_| scope.spawn(|| wait(Deadline::NEVER)));
        thread::sleep(Duration::from_millis(20));
        waits.cancel();
        for waiting in waiting {
            assert_eq!(waiting.join().unwrap(), Err(Error::Cancelled));
        }
    });
    assert_eq!(wait(Deadline::NEVER), Err(Error::Cancelled));
    // It slept, and did not look all the time.
    assert!(count.load(Ordering::Relaxed) < 50);
}
