// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the library makes of the device's answers, on two hosts in one process.

use mio::{unix::SourceFd, Interest, Poll, Token};
mod common;

use common::End;
use mp_fabric::{
    sys::mp_event, Access, Call, Deadline, Device, Error, EventMask, Fabric, InterfaceId, Limit,
    Location, Map, PciFunction, PhysicalRange, Protection, Role, Subject, SIZE_MAX,
};
use mp_testing::{FakeDevice, Host, World, LOOPBACK};
use rustix::{
    event::{eventfd, EventfdFlags},
    fd::{AsFd, AsRawFd, BorrowedFd},
    io::{self, Errno},
};
use std::{
    sync::{
        atomic::{AtomicU32, Ordering},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};
use vm_memory::{Bytes, VolatileMemory};

const PROTOCOL: u32 = 0xF111_D000;

fn ends() -> (World, End, End) {
    let world = World::new(1, 1 << 20);
    let (a, b) = (End::new(&world, Host::A), End::new(&world, Host::B));
    (world, a, b)
}

#[test]
fn interfaces_are_listed_and_described() {
    let (world, a, _b) = ends();
    assert_eq!(
        a.fabric.interfaces().unwrap(),
        [InterfaceId(LOOPBACK), a.interface]
    );
    let interface = a.fabric.interface(a.interface).unwrap();
    assert!(interface.up && !interface.loopback);
    assert_eq!(interface.name, "ntb0");
    let (ids, function) = interface.pci.unwrap();
    assert_eq!(ids.vendor, 0x111d);
    let expected = PciFunction {
        domain: 0x1_0003,
        bus: 0x42,
        device: 31,
        function: 5,
    };
    assert_eq!(function, expected);
    assert!(a.fabric.interface(InterfaceId(LOOPBACK)).unwrap().loopback);
    let missing = InterfaceId(99);
    let refused = Error::NoInterface(Subject::Interface(missing));
    assert_eq!(a.fabric.interface(missing), Err(refused));
    world.set_up(0, false);
    let interface = a.fabric.interface(a.interface).unwrap();
    assert!(!interface.up && interface.peer.is_none() && interface.remote.is_none());
}

#[test]
fn an_interface_that_comes_up_is_waited_for() {
    let (world, a, _b) = ends();
    world.set_loopback(1 << 20);
    let found = a.fabric.wait_for_interface(Deadline::PAST);
    assert_eq!(found, Ok(a.interface));
    world.set_up(0, false);
    let none = Err(Error::NoInterface(Subject::AnyInterface));
    let soon = Deadline::after(Duration::from_millis(30));
    assert_eq!(a.fabric.wait_for_interface(soon), none);
    let fabric = a.fabric.clone();
    let waiter = thread::spawn(move || fabric.wait_for_interface(Deadline::NEVER));
    world.set_up(0, true);
    assert_eq!(waiter.join().unwrap(), Ok(a.interface));
}

#[test]
fn lists_that_are_longer_than_expected_are_complete() {
    let world = World::new(100, 1 << 20);
    let fabric = Fabric::with_device(world.open(Host::A));
    assert_eq!(fabric.interfaces().unwrap().len(), 101);
}

#[test]
fn windows_have_what_they_were_posted_with() {
    let (_world, a, b) = ends();
    let request = a.fabric.server(a.interface, PROTOCOL).uid(7).data(b"a\0b");
    let server = request.local(1..=SIZE_MAX).remote(0..=5).open().unwrap();
    assert_eq!(
        (server.uid(), b.fabric.windows(b.interface).unwrap()),
        (7, vec![7])
    );
    let window = b.fabric.window(b.interface, 7).unwrap();
    assert_eq!(
        (window.role, window.location),
        (Role::Server, Location::Logical)
    );
    assert_eq!((window.local, window.remote), (1..=SIZE_MAX, 0..=5));
    assert_eq!((window.protocol, window.paired), (PROTOCOL, false));
    assert_eq!(window.data, b"a\0b");
    let missing = Subject::Window {
        interface: b.interface,
        uid: 8,
    };
    assert_eq!(
        b.fabric.window(b.interface, 8),
        Err(Error::NotFound(missing))
    );
    drop(server);
    assert!(b.fabric.windows(b.interface).unwrap().is_empty());
}

#[test]
fn what_one_side_writes_the_other_one_reads() {
    let (_world, a, b) = ends();
    let server = a
        .fabric
        .server(a.interface, PROTOCOL)
        .local(8192..=8192)
        .open()
        .unwrap();
    assert_eq!(server.signal(), Err(Error::NotPaired));
    assert!(server.map_local().unwrap().is_none());
    let client = b
        .fabric
        .client(b.interface, PROTOCOL)
        .remote(0..=SIZE_MAX)
        .open()
        .unwrap();
    assert_eq!(
        server.wait(EventMask::PAIRED, Deadline::PAST),
        Ok(EventMask::PAIRED)
    );
    let (here, there) = (
        server.map_local().unwrap().unwrap(),
        client.map_remote().unwrap(),
    );
    let there = there.unwrap();
    assert!(server.map_remote().unwrap().is_none());
    assert_eq!((here.len(), there.len()), (8192, 8192));
    there.volatile().write_slice(b"over there", 8000).unwrap();
    let mut read = [0; 10];
    here.volatile().read_slice(&mut read, 8000).unwrap();
    assert_eq!(&read, b"over there");
    // A flag to poll is an atomic.
    there.volatile().store(5_u32, 0, Ordering::Release).unwrap();
    assert_eq!(
        here.volatile().load::<u32>(0, Ordering::Acquire).unwrap(),
        5
    );
    assert!(here.volatile().get_atomic_ref::<AtomicU32>(8190).is_err());
    assert!(there.volatile().write_slice(b"too far", 8190).is_err());
}

#[test]
fn a_signal_is_taken_and_the_end_is_not() {
    let (_world, a, b) = ends();
    let server = a
        .fabric
        .server(a.interface, PROTOCOL)
        .local(1..=1)
        .open()
        .unwrap();
    let client = b
        .fabric
        .client(b.interface, PROTOCOL)
        .remote(1..=1)
        .open()
        .unwrap();
    let mask = EventMask::SIGNAL | EventMask::CLOSED;
    client.signal().unwrap();
    client.signal().unwrap();
    assert_eq!(
        server.wait_one(mask, Deadline::NEVER),
        Ok(EventMask::SIGNAL)
    );
    assert_eq!(server.wait_one(mask, Deadline::PAST), Err(Error::TimedOut));
    client.signal().unwrap();
    client.close().unwrap();
    assert_eq!(client.close(), Err(Error::NotFound(Subject::Unnamed)));
    assert_eq!(client.state(), Err(Error::NotFound(Subject::Unnamed)));
    assert_eq!(
        server.wait_one(mask, Deadline::NEVER),
        Ok(EventMask::CLOSED)
    );
    assert_eq!(server.wait(mask, Deadline::NEVER), Ok(mask));
    assert_eq!(server.wait(mask, Deadline::NEVER), Ok(EventMask::CLOSED));
    assert_eq!(server.signal(), Err(Error::PartnerGone));
}

#[test]
fn a_wait_is_never_too_short_and_ends_when_its_session_does() {
    let (world, a, _b) = ends();
    let server = a
        .fabric
        .peer(a.interface, PROTOCOL)
        .local(1..=1)
        .open()
        .unwrap();
    let server = Arc::new(server);
    let start = Instant::now();
    let time = Duration::from_millis(30);
    let waited = server.wait(EventMask::PAIRED, Deadline::after(time));
    assert_eq!(waited, Err(Error::TimedOut));
    assert!(start.elapsed() >= time);
    let other = Arc::clone(&server);
    let waiter = thread::spawn(move || other.wait(EventMask::PAIRED, Deadline::NEVER));
    while world.waiting() == 0 {
        thread::yield_now();
    }
    server.close().unwrap();
    assert_eq!(
        waiter.join().unwrap(),
        Err(Error::NotFound(Subject::Unnamed))
    );
}

#[test]
fn refusals_have_names_and_name_what_was_asked_for() {
    let (world, a, b) = ends();
    let session = |end: &End, uid| Subject::Session {
        interface: end.interface,
        protocol: PROTOCOL,
        uid,
    };
    let (wanted, posted) = (session(&b, 0), session(&a, 3));
    let client = || b.fabric.client(b.interface, PROTOCOL);
    let refused = |request: mp_fabric::SessionRequest<'_, FakeDevice>| request.open().unwrap_err();
    assert_eq!(refused(client()), Error::Invalid(wanted));
    assert_eq!(refused(client().local(1..=1)), Error::NoPartner(wanted));
    let large = client().local(2 << 20..=SIZE_MAX);
    assert_eq!(refused(large), Error::NoSpace(wanted));
    let server = || a.fabric.server(a.interface, PROTOCOL).uid(3).local(1..=1);
    let _posted = server().open().unwrap();
    assert_eq!(refused(server()), Error::UidTaken(posted));
    // SAFETY: The hosts are in this process, and have no physical memory.
    let range = unsafe { PhysicalRange::new(0x1000, 16) };
    let physical = || a.fabric.server(a.interface, PROTOCOL).physical(range);
    world.set_reachable(false);
    assert_eq!(refused(physical()), Error::NotSupported(session(&a, 0)));
    world.set_privileged(false);
    assert_eq!(refused(physical()), Error::NotPermitted(session(&a, 0)));
    world.set_quota(1);
    let info = a.fabric.info().unwrap();
    let sessions = Limit::Sessions {
        context: info.sessions_max,
        user: info.user_sessions_max,
    };
    assert_eq!(refused(server().uid(4)), Error::Quota(sessions));
    world.set_up(0, false);
    assert_eq!(refused(server()), Error::InterfaceDown(posted));
    world.remove(0, Host::A);
    assert_eq!(refused(server()), Error::NoInterface(posted));
}

#[test]
fn devices_reach_a_remote_window_after_permission() {
    let (world, a, b) = ends();
    let server = a
        .fabric
        .server(a.interface, PROTOCOL)
        .local(1..=1)
        .open()
        .unwrap();
    let client = b
        .fabric
        .client(b.interface, PROTOCOL)
        .remote(1..=1)
        .open()
        .unwrap();
    let device = PciFunction {
        domain: 0x2_0001,
        bus: 2,
        device: 3,
        function: 4,
    };
    client.allow(Access::READ | Access::WRITE, device).unwrap();
    assert_eq!(
        world.access(client.handle()),
        [(3, 0x2_0001, 2, 3 << 3 | 4)]
    );
    client.allow(Access::CLEAR, device).unwrap();
    assert!(world.access(client.handle()).is_empty());
    assert!(client.address().is_ok());
    assert_eq!(server.address(), Err(Error::NoWindow(Subject::Unnamed)));
}

#[test]
fn an_eventfd_is_signalled_at_once_and_later() {
    let (_world, a, b) = ends();
    let counter = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let count = || io::read(&counter, &mut [0; 8]);
    a.fabric
        .notify(a.interface, EventMask::WINDOWS, Some(counter.as_fd()))
        .unwrap();
    assert_eq!(count(), Ok(8));
    let window = b
        .fabric
        .server(b.interface, PROTOCOL)
        .local(1..=1)
        .open()
        .unwrap();
    assert_eq!(count(), Ok(8));
    a.fabric
        .notify(a.interface, EventMask::WINDOWS, None)
        .unwrap();
    drop(window);
    assert_eq!(count(), Err(Errno::AGAIN));
    let session = a
        .fabric
        .server(a.interface, PROTOCOL)
        .local(1..=1)
        .open()
        .unwrap();
    session
        .notify(EventMask::PAIRED, Some(counter.as_fd()))
        .unwrap();
    let _client = b
        .fabric
        .client(b.interface, PROTOCOL)
        .remote(1..=1)
        .open()
        .unwrap();
    assert_eq!(count(), Ok(8));
}

#[test]
fn watched_objects_are_reported_by_their_cookies() {
    let (world, a, b) = ends();
    let events = a.fabric.events();
    assert!(events.read().unwrap().is_empty());
    let short = Deadline::after(Duration::from_millis(5));
    assert_eq!(events.wait(short), Err(Error::TimedOut));
    let session = a
        .fabric
        .server(a.interface, PROTOCOL)
        .local(1..=1)
        .open()
        .unwrap();
    session.watch(EventMask::PAIRED, 11).unwrap();
    a.fabric.watch(a.interface, EventMask::STATE, 22).unwrap();
    assert_eq!(events.wait(Deadline::PAST).unwrap()[0].cookie, 22);
    let _client = b
        .fabric
        .client(b.interface, PROTOCOL)
        .remote(1..=1)
        .open()
        .unwrap();
    let paired = events.wait(Deadline::NEVER).unwrap();
    assert_eq!(
        (paired[0].cookie, paired[0].events),
        (11, EventMask::PAIRED)
    );
    session.watch(EventMask::empty(), 0).unwrap();
    world.set_up(0, false);
    let down: Vec<u64> = events
        .read()
        .unwrap()
        .iter()
        .map(|event| event.cookie)
        .collect();
    assert_eq!(down, [22]);
}

#[test]
fn a_poll_finds_events_as_long_as_they_are_there() {
    let (world, a, _b) = ends();
    let events = a.fabric.events();
    let (mut poll, mut found) = (Poll::new().unwrap(), mio::Events::with_capacity(4));
    let source = events.as_raw_fd();
    let registry = poll.registry();
    registry
        .register(&mut SourceFd(&source), Token(3), Interest::READABLE)
        .unwrap();
    a.fabric.watch(a.interface, EventMask::STATE, 5).unwrap();
    poll.poll(&mut found, None).unwrap();
    assert_eq!(
        found.iter().next().map(|event| event.token()),
        Some(Token(3))
    );
    assert_eq!(events.read().unwrap().len(), 1);
    poll.poll(&mut found, Some(Duration::from_millis(5)))
        .unwrap();
    assert!(found.is_empty());
    let later = thread::spawn(move || world.set_up(0, false));
    poll.poll(&mut found, None).unwrap();
    assert_eq!(events.read().unwrap()[0].cookie, 5);
    later.join().unwrap();
}

#[test]
fn the_kernel_describes_itself() {
    let (_world, a, _b) = ends();
    assert_eq!(a.fabric.info().unwrap().version, 1);
}

/// Counts the calls that close a session.
struct Counting(FakeDevice, Arc<AtomicU32>);

impl Device for Counting {
    type Remote = Map;

    fn remote(&self, map: Map) -> Map {
        map
    }

    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        if let Call::Close(_) = call {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        self.0.call(call)
    }

    fn map<P: Protection>(&self, offset: u64, len: u64, hint: usize) -> Result<Map<P>, Errno> {
        self.0.map(offset, len, hint)
    }

    fn read(&self, events: &mut Vec<mp_event>) -> Result<(), Errno> {
        self.0.read(events)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}

/// Its number may be another session's by then.
#[test]
fn a_session_is_closed_only_once() {
    let world = World::new(1, 1 << 20);
    let count = Arc::new(AtomicU32::new(0));
    let fabric = Fabric::with_device(Counting(world.open(Host::A), Arc::clone(&count)));
    let interface = InterfaceId(world.interface(0, Host::A));
    let open = || {
        fabric
            .server(interface, PROTOCOL)
            .local(1..=1)
            .open()
            .unwrap()
    };
    drop(open());
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let session = open();
    session.close().unwrap();
    assert_eq!(session.close(), Err(Error::NotFound(Subject::Unnamed)));
    drop(session);
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[test]
fn a_context_that_ends_closes_its_sessions() {
    let (world, a, b) = ends();
    let _session = a
        .fabric
        .server(a.interface, PROTOCOL)
        .local(1..=1)
        .open()
        .unwrap();
    assert_eq!(b.fabric.windows(b.interface).unwrap().len(), 1);
    drop((_session, a));
    assert!(b.fabric.windows(b.interface).unwrap().is_empty());
    assert_eq!(world.contexts(), 1);
}
