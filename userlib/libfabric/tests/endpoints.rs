// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections and messages of endpoints, between two hosts in one process.

use libfabric::{
    Address, Completion, Endpoint, Event, Fault, Kind, Listener, Memory, Receive, Refusal, Request,
    Send, Source,
};
use mp_fabric::{vm_memory::VolatileSlice, Fabric, Map, ReadWrite};
use mp_testing::{FakeDevice, Host, World};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Bytes that a test shares with an endpoint, in two pieces.
#[derive(Clone, Debug)]
struct Bytes {
    map: Arc<Map<ReadWrite>>,
    len: usize,
    cut: usize,
}

impl Bytes {
    fn new(len: usize) -> Self {
        let map = Map::allocate(len.max(1)).unwrap();
        let (map, cut) = (Arc::new(map), len / 3);
        Bytes { map, len, cut }
    }

    fn of(bytes: &[u8]) -> Self {
        let all = Bytes::new(bytes.len());
        all.all().copy_from(bytes);
        all
    }

    fn all(&self) -> VolatileSlice<'_> {
        self.map.volatile().subslice(0, self.len).unwrap()
    }

    fn read(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.all().copy_to(&mut bytes[..]);
        bytes
    }
}

impl Memory for Bytes {
    fn piece(&self, index: usize) -> Option<VolatileSlice<'_>> {
        match index {
            0 => self.all().subslice(0, self.cut).ok(),
            1 => self.all().offset(self.cut).ok(),
            _ => None,
        }
    }
}

/// An endpoint, and what was told of it.
struct Side {
    fabric: Fabric<FakeDevice>,
    endpoint: Endpoint<Bytes, FakeDevice>,
    told: Vec<Completion>,
    events: Vec<Event>,
}

impl Side {
    fn new(world: &World, host: Host) -> Self {
        let fabric = Fabric::with_device(world.open(host));
        let endpoint = Endpoint::new(
            fabric.host().unwrap(),
            Endpoint::<Bytes, _>::status(&fabric),
        );
        Side {
            fabric,
            endpoint,
            told: Vec::new(),
            events: Vec::new(),
        }
    }

    fn send(&mut self, bytes: &[u8], context: usize, immediate: Option<u32>) {
        let source = Source::Memory(Bytes::of(bytes));
        let send = Send {
            source,
            context,
            immediate,
            tells: true,
        };
        let told = &mut self.told;
        self.endpoint
            .channel()
            .send(send, &mut |one| told.push(one));
    }

    fn receive(&mut self, len: usize, context: usize) -> Bytes {
        let memory = Bytes::new(len);
        self.endpoint.channel().receive(Receive {
            memory: memory.clone(),
            context,
            tells: true,
        });
        memory
    }

    fn progress(&mut self) {
        let told = &mut self.told;
        let event = self.endpoint.progress(&mut |one| told.push(one));
        self.events.extend(event);
    }

    fn look(&mut self) {
        let told = &mut self.told;
        let event = self.endpoint.look(&self.fabric, &mut |one| told.push(one));
        self.events.extend(event);
    }

    fn contexts(&self, kind: Kind) -> Vec<usize> {
        let of_kind = self.told.iter().filter(|one| one.kind == kind);
        of_kind.map(|one| one.context).collect()
    }
}

const PORT: u16 = 7;

fn until(mut done: impl FnMut() -> bool) {
    let late = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < late, "nothing happens any more");
        thread::yield_now();
    }
}

fn world() -> World {
    World::new(1, 1 << 22)
}

/// A host that listens, and a request of the other one with some data.
fn asked(world: &World, data: &[u8]) -> (Side, Side, Request<FakeDevice>) {
    let [here, mut there] = [Host::A, Host::B].map(|host| Side::new(world, host));
    let to = Address {
        host: here.fabric.host().unwrap(),
        port: PORT,
    };
    let from = Address {
        host: there.fabric.host().unwrap(),
        port: 99,
    };
    let mut listener = Listener::new(&here.fabric, to).unwrap();
    there.endpoint.connect(from, to, data);
    let mut request = None;
    until(|| {
        there.look();
        request = listener.look(&here.fabric).unwrap();
        request.is_some()
    });
    let request = request.unwrap();
    assert_eq!((request.from, &request.data[..]), (from, data));
    (here, there, request)
}

fn connected(world: &World) -> [Side; 2] {
    let (mut here, mut there, request) = asked(world, b"please");
    here.endpoint.accept(request, b"welcome").unwrap();
    until(|| {
        here.look();
        there.look();
        !here.events.is_empty() && !there.events.is_empty()
    });
    assert_eq!(here.events, [Event::Connected(vec![])]);
    assert_eq!(there.events, [Event::Connected(b"welcome".into())]);
    here.events.clear();
    there.events.clear();
    [here, there]
}

#[test]
fn both_sides_are_told_of_a_connection_and_of_what_the_other_one_says() {
    connected(&world());
}

#[test]
fn who_is_rejected_is_told_why() {
    let world = world();
    let (_here, mut there, request) = asked(&world, b"please");
    request.reject(b"no");
    until(|| {
        there.look();
        !there.events.is_empty()
    });
    let rejected = Refusal::Rejected(b"no".into());
    assert_eq!(there.events, [Event::Refused(rejected)]);
}

#[test]
fn a_request_that_nobody_answers_ends_with_the_listener() {
    let world = world();
    let (here, mut there, request) = asked(&world, &[]);
    drop((here, request));
    until(|| {
        there.look();
        !there.events.is_empty()
    });
    assert_eq!(there.events, [Event::Refused(Refusal::Nobody)]);
}

#[test]
fn nobody_listens_or_no_link_leads_there() {
    let world = world();
    let [here, mut there] = [Host::A, Host::B].map(|host| Side::new(&world, host));
    let host = here.fabric.host().unwrap();
    for (host, why) in [(host, Refusal::Nobody), (host + 77, Refusal::Unreachable)] {
        let to = Address { host, port: PORT };
        there.endpoint.connect(Address::default(), to, &[]);
        until(|| {
            there.look();
            !there.events.is_empty()
        });
        assert_eq!(there.events, [Event::Refused(why)]);
        there.events.clear();
    }
}

/// Messages of all sizes arrive whole and in order, in both directions, also those that are longer than
/// all memory of the connection; so do their completions.
#[test]
fn messages_arrive_whole_and_in_order() {
    let sizes = [0, 1, 8, 255, 256, 4095, 4096, 4097, 70_000, 300_000, 3];
    let data = |size: usize| -> Vec<u8> { (0..size).map(|at| (at * 7 + size) as u8).collect() };
    let mut sides = connected(&world());
    for (from, to) in [(0, 1), (1, 0)] {
        let rooms = sizes.map(|size| sides[to].receive(size + 5, size));
        for (context, size) in sizes.into_iter().enumerate() {
            sides[from].send(&data(size), context, Some(size as u32));
        }
        until(|| {
            sides.iter_mut().for_each(Side::progress);
            sides[to].contexts(Kind::Receive).len() == sizes.len()
        });
        let expected = sizes.map(|size| Completion {
            context: size,
            kind: Kind::Receive,
            len: size,
            immediate: Some(size as u32),
            fault: None,
        });
        assert_eq!(sides[to].told, expected);
        for (room, size) in rooms.iter().zip(sizes) {
            assert_eq!(room.read(size), data(size), "{size}");
        }
        let contexts = sides[from].contexts(Kind::Send);
        assert_eq!(contexts, Vec::from_iter(0..sizes.len()));
        sides.iter_mut().for_each(|side| side.told.clear());
    }
}

#[test]
fn a_message_that_is_longer_than_its_receive_is_cut_and_the_next_one_is_not() {
    let [mut a, mut b] = connected(&world());
    for (index, size) in [10, 9000].into_iter().enumerate() {
        let room = b.receive(4, index);
        let next = b.receive(4, 10 + index);
        a.send(&vec![b'x'; size], 0, None);
        a.send(b"next", 1, None);
        until(|| {
            a.progress();
            b.progress();
            b.told.len() == 2
        });
        assert_eq!(
            (room.read(4), next.read(4)),
            (b"xxxx".to_vec(), b"next".to_vec())
        );
        let cut = &b.told[0];
        assert_eq!((cut.context, cut.len), (index, 4));
        assert_eq!(cut.fault, Some(Fault::Truncated(size - 4)));
        assert_eq!((b.told[1].len, b.told[1].fault), (4, None));
        b.told.clear();
    }
}

/// Messages without a receive are not lost: their sender waits.
#[test]
fn messages_wait_for_receives_and_sends_for_room() {
    const COUNT: usize = 2000;
    let [mut a, mut b] = connected(&world());
    for number in 0..COUNT {
        a.send(&number.to_le_bytes(), number, None);
    }
    for _ in 0..1000 {
        a.progress();
        b.progress();
    }
    assert!(b.told.is_empty() && a.endpoint.channel().sends() > 0);
    let rooms: Vec<_> = (0..COUNT).map(|number| b.receive(8, number)).collect();
    until(|| {
        a.progress();
        b.progress();
        b.told.len() == COUNT
    });
    for (number, room) in rooms.iter().enumerate() {
        assert_eq!(room.read(8), number.to_le_bytes());
    }
    assert_eq!(a.contexts(Kind::Send), b.contexts(Kind::Receive));
}

#[test]
fn a_receive_is_cancelled_by_its_context_unless_its_message_has_begun() {
    let [mut a, mut b] = connected(&world());
    for context in 0..3 {
        b.receive(8, context);
    }
    let told = &mut b.told;
    assert!(!b.endpoint.channel().cancel(9, &mut |one| told.push(one)));
    assert!(b.endpoint.channel().cancel(1, &mut |one| told.push(one)));
    assert_eq!(
        (told[0].context, told[0].fault),
        (1, Some(Fault::Cancelled))
    );
    a.send(b"0", 0, None);
    a.send(b"2", 0, None);
    until(|| {
        b.progress();
        b.told.len() == 3
    });
    assert_eq!(b.contexts(Kind::Receive), [1, 0, 2]);
    // Its parts come one after the other, as there is room.
    let long = vec![7; 300_000];
    let room = b.receive(long.len(), 3);
    a.send(&long, 0, None);
    b.progress();
    let told = &mut b.told;
    assert!(!b.endpoint.channel().cancel(3, &mut |one| told.push(one)));
    until(|| {
        a.progress();
        b.progress();
        b.told.len() == 4
    });
    assert_eq!((room.read(long.len()), b.told[3].fault), (long, None));
}

/// What was sent before the end is received, and then all that waits is flushed, on both sides.
#[test]
fn a_shutdown_is_told_behind_what_was_sent_and_flushes_the_rest() {
    let [mut a, mut b] = connected(&world());
    let room = b.receive(8, 1);
    b.receive(8, 2);
    a.receive(8, 3);
    a.send(b"the last", 4, None);
    let told = &mut a.told;
    a.endpoint.shut(&mut |one| told.push(one));
    assert_eq!((a.told[0].context, a.told[0].fault), (4, None));
    assert_eq!(
        (a.told[1].context, a.told[1].fault),
        (3, Some(Fault::Cancelled))
    );
    until(|| {
        b.progress();
        !b.events.is_empty() && b.told.len() == 2
    });
    assert_eq!(b.events, [Event::Shutdown]);
    assert_eq!(
        (room.read(8), b.told[0].fault),
        (b"the last".to_vec(), None)
    );
    assert_eq!(
        (b.told[1].context, b.told[1].fault),
        (2, Some(Fault::Cancelled))
    );
    // What is posted later is flushed at once.
    b.send(b"?", 5, None);
    b.receive(8, 6);
    b.progress();
    let late = b.told[2..].iter().map(|one| (one.context, one.fault));
    let flushed = Some(Fault::Cancelled);
    assert_eq!(Vec::from_iter(late), [(5, flushed), (6, flushed)]);
    assert_eq!(b.events.len(), 1);
}

/// What has arrived can still be received when its sender has gone.
#[test]
fn a_message_that_waits_for_a_receive_outlives_its_sender() {
    let [mut a, mut b] = connected(&world());
    a.send(b"the last", 1, None);
    drop(a);
    until(|| {
        b.progress();
        !b.events.is_empty()
    });
    assert_eq!(b.events, [Event::Shutdown]);
    let room = b.receive(8, 2);
    b.receive(8, 3);
    until(|| {
        b.progress();
        b.told.len() == 2
    });
    assert_eq!(
        (room.read(8), b.told[0].fault),
        (b"the last".to_vec(), None)
    );
    assert_eq!(b.told[1].fault, Some(Fault::Cancelled));
}

/// A partner that dies, or a link that is lost, ends all operations, those that wait for room too;
/// whoever looks at messages or at events only is told.
#[test]
fn a_partner_that_dies_and_a_link_that_is_lost_end_all_operations() {
    for (link, events) in [(false, false), (false, true), (true, false), (true, true)] {
        let world = world();
        let [a, mut b] = connected(&world);
        b.receive(8, 1);
        b.send(&[5; 300_000], 2, None);
        match link {
            true => world.set_up(0, false),
            false => drop(a),
        }
        until(|| {
            match events {
                true => b.look(),
                false => b.progress(),
            }
            !b.events.is_empty() && b.told.len() == 2
        });
        assert_eq!(b.events, [Event::Shutdown]);
        assert!(b.told.iter().all(|one| one.fault == Some(Fault::Cancelled)));
    }
}
