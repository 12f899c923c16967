// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names, and servers that answer each request themselves, on two hosts in one process.

mod common;

use common::End;
use mp_fabric::{
    sys::MP_FEATURE_ACCEPT, Deadline, Errno, Error, EventMask, PartnerState, RequestId, Session,
    SessionRequest, Subject, NAME_MAX, WINDOW_DATA_MAX,
};
use mp_testing::{FakeDevice, Host, World};
use std::{thread, time::Duration};

const PROTOCOL: u32 = 0xF111_D001;

type Request<'a> = SessionRequest<'a, FakeDevice>;

impl End {
    fn server(&self) -> Request<'_> {
        let request = self.fabric.server(self.interface, PROTOCOL);
        request.local(4096..=8192)
    }

    fn client(&self) -> Request<'_> {
        let request = self.fabric.client(self.interface, PROTOCOL);
        request.remote(0..=4096)
    }

    fn peer(&self) -> Request<'_> {
        let request = self.fabric.peer(self.interface, PROTOCOL);
        request.local(1..=1).remote(1..=1)
    }
}

fn ends() -> (World, End, End) {
    let world = World::new(1, 1 << 20);
    let (a, b) = (End::new(&world, Host::A), End::new(&world, Host::B));
    (world, a, b)
}

fn has(session: &Session<FakeDevice>, events: EventMask) -> bool {
    session.state().unwrap().events.contains(events)
}

fn request(server: &Session<FakeDevice>) -> RequestId {
    match server.partner().unwrap().state {
        PartnerState::Request(request) => request,
        state => panic!("no request: {state:?}"),
    }
}

#[test]
fn a_server_sees_who_asks_and_the_client_what_it_was_answered() {
    let (_world, a, b) = ends();
    let server = a.server().name(b"n").hold().data(b"posted").open().unwrap();
    assert_eq!(server.partner(), Err(Error::NotPaired));
    let client = b.client().name(b"n").pending().data(b"asks");
    let client = client.open().unwrap();
    let events = server.wait(EventMask::REQUEST, Deadline::PAST);
    assert_eq!(events, Ok(EventMask::REQUEST));
    assert!(!has(&server, EventMask::PAIRED) && !has(&client, EventMask::PAIRED));
    assert_eq!(client.partner(), Err(Error::NotPaired));
    let asks = server.partner().unwrap();
    assert_eq!((asks.data, asks.peer), (b"asks".to_vec(), 1));
    assert_eq!((asks.local, asks.remote), (0..=0, 0..=4096));
    server
        .accept(request(&server), b"welcome", Deadline::NEVER)
        .unwrap();
    for session in [&server, &client] {
        assert!(has(session, EventMask::PAIRED));
        assert_eq!(session.partner().unwrap().state, PartnerState::Paired);
    }
    assert!(!has(&server, EventMask::REQUEST));
    let answer = client.partner().unwrap();
    assert_eq!((answer.data, answer.peer), (b"welcome".to_vec(), 0));
    assert_eq!((answer.local, answer.remote), (4096..=4096, 0..=0));
    assert_eq!(client.map_remote().unwrap().unwrap().len(), 4096);
    client.signal().unwrap();
    assert_eq!(
        server.wait(EventMask::SIGNAL, Deadline::PAST),
        Ok(EventMask::SIGNAL)
    );
    // What is answered is not there any more.
    assert_eq!(server.reject(RequestId(1), 0, b""), Err(Error::PartnerGone));
}

#[test]
fn a_client_without_pending_waits_for_the_answer() {
    let (world, a, b) = ends();
    let server = a.server().hold().open().unwrap();
    for accepts in [false, true] {
        thread::scope(|scope| {
            let client = scope.spawn(|| b.client().open());
            while world.waiting() == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            let request = request(&server);
            match accepts {
                true => server.accept(request, b"", Deadline::NEVER),
                false => server.reject(request, 1, b""),
            }
            .unwrap();
            let client = client.join().unwrap();
            match accepts {
                true => assert!(has(&client.unwrap(), EventMask::PAIRED)),
                false => assert_eq!(client.err().map(Errno::from), Some(Errno::CONNREFUSED)),
            }
        });
    }
}

#[test]
fn a_rejection_has_a_reason_and_the_server_waits_for_the_next_client() {
    let (_world, a, b) = ends();
    let server = a.server().hold().open().unwrap();
    let client = b.client().pending().open().unwrap();
    let first = request(&server);
    server.reject(first, 77, b"not you").unwrap();
    assert_eq!(
        client.wait(EventMask::REFUSED, Deadline::PAST),
        Ok(EventMask::REFUSED)
    );
    let refusal = client.partner().unwrap();
    assert_eq!(refusal.state, PartnerState::Rejected(77));
    assert_eq!(refusal.data, b"not you");
    assert!(!has(&server, EventMask::REQUEST | EventMask::CLOSED));
    let _next = b.client().pending().open().unwrap();
    assert_ne!(request(&server), first);
    assert_eq!(server.reject(first, 0, b""), Err(Error::PartnerGone));
}

#[test]
fn a_server_has_one_request_at_a_time_and_the_next_server_takes_the_next() {
    let (_world, a, b) = ends();
    let first = a.server().hold().open().unwrap();
    let second = a.server().hold().open().unwrap();
    let _one = b.client().pending().data(b"1").open().unwrap();
    let _two = b.client().pending().data(b"2").open().unwrap();
    assert_eq!(first.partner().unwrap().data, b"1");
    assert_eq!(second.partner().unwrap().data, b"2");
    assert_eq!(
        b.client().pending().open().err().map(Errno::from),
        Some(Errno::CONNREFUSED)
    );
    assert_eq!(
        b.client().open().err().map(Errno::from),
        Some(Errno::CONNREFUSED)
    );
}

#[test]
fn a_client_that_closes_withdraws_and_a_server_that_closes_refuses() {
    let (_world, a, b) = ends();
    let server = a.server().hold().open().unwrap();
    let client = b.client().pending().open().unwrap();
    let withdrawn = request(&server);
    drop(client);
    assert!(!has(&server, EventMask::REQUEST));
    assert_eq!(server.partner(), Err(Error::NotPaired));
    let late = server.accept(withdrawn, b"", Deadline::NEVER);
    assert_eq!(late, Err(Error::PartnerGone));
    let client = b.client().pending().open().unwrap();
    drop(server);
    assert!(has(&client, EventMask::REFUSED));
    assert_eq!(client.partner().unwrap().state, PartnerState::Gone);
}

#[test]
fn once_is_one_request() {
    let (_world, a, b) = ends();
    for withdraws in [false, true] {
        let server = a.server().hold().once().open().unwrap();
        let client = b.client().pending().open().unwrap();
        match withdraws {
            true => drop(client),
            false => server.reject(request(&server), 0, b"").unwrap(),
        }
        assert!(has(&server, EventMask::CLOSED));
        assert_eq!(
            b.client().pending().open().err().map(Errno::from),
            Some(Errno::CONNREFUSED)
        );
        assert!(b.fabric.windows(b.interface).unwrap().is_empty());
    }
}

#[test]
fn names_are_equal_in_length_and_bytes() {
    let (_world, a, b) = ends();
    let long = [7; NAME_MAX];
    let names: [&[u8]; 6] = [b"", b"a", b"a\0", b"a\0b", b"\0", &long];
    for name in names {
        let server = a.server().name(name).open().unwrap();
        for other in names {
            let client = b.client().name(other).open();
            assert_eq!(client.is_ok(), name == other, "{name:?} {other:?}");
            if client.is_ok() {
                break;
            }
        }
        drop(server);
    }
    let long = [7; NAME_MAX + 1];
    assert_eq!(
        a.server().name(&long).open().err().map(Errno::from),
        Some(Errno::INVAL)
    );
}

#[test]
fn peers_find_each_other_by_their_own_names() {
    let (_world, a, b) = ends();
    let left = a.peer().name(b"leftright").own_name(4).open().unwrap();
    // Their own names are those of the other ones; the whole is the same.
    let whole = b.peer().name(b"leftright").open().unwrap();
    let same = b.peer().name(b"leftright").own_name(4).open().unwrap();
    assert!(!has(&left, EventMask::PAIRED));
    let right = b.peer().name(b"rightleft").own_name(5).data(b"r");
    let right = right.open().unwrap();
    assert!(has(&left, EventMask::PAIRED) && has(&right, EventMask::PAIRED));
    assert_eq!(left.partner().unwrap().data, b"r");
    assert!(!has(&whole, EventMask::PAIRED) && !has(&same, EventMask::PAIRED));
    let equal = a.peer().name(b"leftright").pending().open().unwrap();
    assert!(has(&whole, EventMask::PAIRED) && has(&equal, EventMask::PAIRED));
}

#[test]
fn a_bare_session_has_no_windows_and_fits_only_its_like() {
    let (_world, a, b) = ends();
    let bare = |end: &End| {
        let request = end.fabric.server(end.interface, PROTOCOL);
        request.bare().open()
    };
    let server = bare(&a).unwrap();
    let client = || b.fabric.client(b.interface, PROTOCOL);
    assert_eq!(
        client().remote(0..=1).open().err().map(Errno::from),
        Some(Errno::CONNREFUSED)
    );
    let sized = client().bare().remote(0..=1);
    assert_eq!(sized.open().err().map(Errno::from), Some(Errno::INVAL));
    assert_eq!(client().open().err().map(Errno::from), Some(Errno::INVAL));
    let client = client().bare().open().unwrap();
    let state = server.state().unwrap();
    assert_eq!((state.local, state.remote), (None, None));
    client.signal().unwrap();
    drop(client);
    assert!(has(&server, EventMask::CLOSED));
}

#[test]
fn flags_are_for_their_roles() {
    let (world, a, _b) = ends();
    let wrong = [
        a.client().hold(),
        a.peer().hold(),
        a.client().once(),
        a.server().once(),
        a.server().pending(),
        a.server().name(b"ab").own_name(1),
        a.peer().name(b"ab").own_name(3),
    ];
    for request in wrong {
        assert_eq!(request.open().err().map(Errno::from), Some(Errno::INVAL));
    }
    let server = a.server().open().unwrap();
    assert_eq!(
        server.reject(RequestId(0), 0, b""),
        Err(Error::Invalid(Subject::Unnamed))
    );
    let server = a.server().hold().open().unwrap();
    let long = [0; WINDOW_DATA_MAX + 1];
    assert_eq!(
        server.reject(RequestId(0), 0, &long),
        Err(Error::Invalid(Subject::Unnamed))
    );
    world.set_accepts(false);
    assert_eq!(
        a.server().hold().open().err().map(Errno::from),
        Some(Errno::OPNOTSUPP)
    );
    assert_eq!(
        a.peer().name(b"n").open().err().map(Errno::from),
        Some(Errno::OPNOTSUPP)
    );
    a.server().open().unwrap();
}

#[test]
fn memory_that_cannot_be_had_leaves_the_request() {
    let (world, a, b) = ends();
    let server = a.server().hold().open().unwrap();
    let _client = b.client().pending().open().unwrap();
    let all = a.fabric.server(a.interface, 5).local((1 << 20)..=(1 << 20));
    let all = all.open().unwrap();
    let user = b.fabric.client(b.interface, 5).remote(0..=u64::MAX);
    let user = user.open().unwrap();
    assert_eq!(world.free(0, Host::A), 0);
    let request = request(&server);
    let short = server.accept(request, b"", Deadline::NEVER);
    assert_eq!(short, Err(Error::NoSpace(Subject::Unnamed)));
    drop((all, user));
    server.accept(request, b"", Deadline::NEVER).unwrap();
}

#[test]
fn a_link_that_goes_down_ends_requests() {
    let (world, a, b) = ends();
    let once = a.server().name(b"1").hold().once().open().unwrap();
    let server = a.server().hold().open().unwrap();
    let _first = b.client().name(b"1").pending().open().unwrap();
    let client = b.client().pending().open().unwrap();
    let asked = request(&server);
    world.set_up(0, false);
    let answered = server.accept(asked, b"", Deadline::NEVER);
    assert_eq!(answered, Err(Error::InterfaceDown(Subject::Unnamed)));
    assert!(has(&client, EventMask::REFUSED) && has(&once, EventMask::CLOSED));
    world.set_up(0, true);
    let client = b.client().pending().open().unwrap();
    server
        .accept(request(&server), b"", Deadline::NEVER)
        .unwrap();
    assert!(has(&client, EventMask::PAIRED));
}

#[cfg(target_pointer_width = "64")]
#[test]
fn the_state_is_seen_without_a_call() {
    let (_world, a, b) = ends();
    let features = a.fabric.info().unwrap().features;
    assert_ne!(features & u64::from(MP_FEATURE_ACCEPT), 0);
    let words = a.fabric.status().unwrap().unwrap();
    let server = a.server().hold().open().unwrap();
    let at = server.state().unwrap().status;
    let state = || words.word(at).unwrap().session();
    assert_eq!(state(), EventMask::empty());
    let client = b.client().pending().open().unwrap();
    assert_eq!(state(), EventMask::REQUEST);
    server
        .accept(request(&server), b"", Deadline::NEVER)
        .unwrap();
    client.signal().unwrap();
    assert_eq!(state(), EventMask::PAIRED);
    drop(client);
    assert_eq!(state(), EventMask::PAIRED | EventMask::CLOSED);
}
