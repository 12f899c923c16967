// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sleeping until words change, on two hosts in one process.
#![cfg(target_pointer_width = "64")]

use mp_fabric::{
    vm_memory::VolatileMemory, Deadline, Errno, Error, EventMask, Fabric, InterfaceId, Map, Park,
    Parked, Session, Subject,
};
use mp_testing::{FakeDevice, Host, World};
use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

const PROTOCOL: u32 = 0xF111_D006;
const WINDOW: u64 = 0x1000;

const WORD: u64 = 64;
const ARM: u64 = 128;
const PARK: Park = Park {
    word: WORD,
    value: 0,
    arm: ARM,
    arm_value: 7,
};
const CHANGED: Parked = Parked::Changed { late: false };

struct Side {
    fabric: Fabric<FakeDevice>,
    session: Session<FakeDevice>,
    near: Map,
    far: Map,
}

fn sides(world: &World) -> [Side; 2] {
    let fabrics = [Host::A, Host::B].map(|host| {
        let fabric = Fabric::with_device(world.open(host));
        (fabric, InterfaceId(world.interface(0, host)))
    });
    let size = WINDOW..=WINDOW;
    let [(a, at_a), (b, at_b)] = &fabrics;
    let server = a
        .server(*at_a, PROTOCOL)
        .local(size.clone())
        .remote(size.clone());
    let server = server.open().unwrap();
    let client = b.client(*at_b, PROTOCOL).local(size.clone()).remote(size);
    let client = client.open().unwrap();
    let mut sessions = [server, client].into_iter();
    fabrics.map(|(fabric, _)| {
        let session = sessions.next().unwrap();
        let near = session.map_local().unwrap().unwrap();
        let far = session.map_remote().unwrap().unwrap();
        Side {
            fabric,
            session,
            near,
            far,
        }
    })
}

fn store(map: &Map, at: u64, value: u64) {
    let memory = map.volatile();
    let word = memory.get_atomic_ref::<std::sync::atomic::AtomicU64>(at as usize);
    word.unwrap().store(value, Ordering::SeqCst);
}

fn load(map: &Map, at: u64) -> u64 {
    let memory = map.volatile();
    let word = memory.get_atomic_ref::<std::sync::atomic::AtomicU64>(at as usize);
    word.unwrap().load(Ordering::SeqCst)
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

#[test]
fn a_partner_that_looks_at_its_arm_word_wakes_the_sleeper() {
    let world = World::new(1, 1 << 20);
    let [a, b] = sides(&world);
    let partner = thread::spawn(move || {
        while load(&b.near, ARM) != PARK.arm_value {
            thread::yield_now();
        }
        store(&b.far, WORD, 1);
        b.session.signal().unwrap();
        b
    });
    let parked = a.session.park(&PARK, soon()).unwrap();
    assert!(matches!(parked, CHANGED | Parked::Event(EventMask::SIGNAL)));
    assert_eq!(load(&a.near, WORD), 1);
    drop(partner.join());
}

#[test]
fn a_word_that_has_changed_is_told_at_once_and_nothing_is_armed() {
    let world = World::new(1, 1 << 20);
    let [a, b] = sides(&world);
    store(&b.far, WORD, 5);
    assert_eq!(a.session.park(&PARK, Deadline::PAST), Ok(CHANGED));
    assert_eq!(load(&b.near, ARM), 0);
    b.session.signal().unwrap();
    let signal = Parked::Event(EventMask::SIGNAL);
    assert_eq!(a.session.park(&PARK, soon()), Ok(signal));
    assert_eq!(a.session.park(&PARK, soon()), Ok(CHANGED), "taken");
}

#[test]
fn a_call_that_does_not_wait_arms_and_looks_once() {
    let world = World::new(1, 1 << 20);
    let [a, b] = sides(&world);
    let parked = a.session.park(&PARK, Deadline::PAST);
    assert_eq!(parked, Err(Error::TimedOut));
    assert_eq!(load(&b.near, ARM), 7);
    let armed = Park {
        arm_value: 8,
        ..PARK
    };
    assert_eq!(a.fabric.arm(&[(&a.session, armed)], soon()), Ok(None));
    assert_eq!(load(&b.near, ARM), 8);
}

#[test]
fn a_change_without_a_signal_is_noticed_late() {
    let world = World::new(1, 1 << 20);
    let [a, b] = sides(&world);
    let partner = thread::spawn(move || {
        while load(&b.near, ARM) != PARK.arm_value {
            thread::yield_now();
        }
        // Until the sleeper has looked once more.
        thread::sleep(Duration::from_millis(10));
        store(&b.far, WORD, 1);
        b
    });
    let began = Instant::now();
    let parked = a.session.park(&PARK, soon());
    assert_eq!(parked, Ok(Parked::Changed { late: true }));
    assert!(began.elapsed() < Duration::from_secs(5));
    drop(partner.join());
}

#[test]
fn several_sessions_are_slept_on_and_the_one_with_news_is_told() {
    let world = World::new(1, 1 << 20);
    let [a, b] = sides(&world);
    let size = WINDOW..=WINDOW;
    let at = |host| InterfaceId(world.interface(0, host));
    let request = a.fabric.server(at(Host::A), PROTOCOL + 1);
    let second = request.local(size.clone()).remote(size.clone()).open();
    let second = second.unwrap();
    let request = b.fabric.client(at(Host::B), PROTOCOL + 1);
    let other = request.local(size.clone()).remote(size).open().unwrap();
    let words = [(&a.session, PARK), (&second, PARK)];
    assert_eq!(a.fabric.park(&words, Deadline::PAST), Err(Error::TimedOut));
    store(&other.map_remote().unwrap().unwrap(), WORD, 1);
    assert_eq!(a.fabric.park(&words, soon()), Ok((1, CHANGED)));
    drop(other);
    let closed = Parked::Event(EventMask::CLOSED);
    assert_eq!(a.fabric.park(&words, soon()), Ok((1, closed)));
}

#[test]
fn words_are_checked_and_sessions_have_partners() {
    let world = World::new(1, 1 << 20);
    let [a, _b] = sides(&world);
    let park = |park: Park| a.session.park(&park, Deadline::PAST);
    let bad = [
        (Park { word: 4, ..PARK }, Error::Invalid(Subject::Unnamed)),
        (Park { arm: 4, ..PARK }, Error::Invalid(Subject::Unnamed)),
        (
            Park {
                word: WINDOW,
                ..PARK
            },
            Error::System(Errno::RANGE),
        ),
        (
            Park {
                arm: u64::MAX - 7,
                ..PARK
            },
            Error::System(Errno::RANGE),
        ),
    ];
    for (bad, error) in bad {
        assert_eq!(park(bad), Err(error), "{bad:?}");
    }
    assert_eq!(
        a.fabric.park(&[], Deadline::PAST),
        Err(Error::Invalid(Subject::Unnamed))
    );
    let at = InterfaceId(world.interface(0, Host::A));
    let request = a.fabric.server(at, PROTOCOL + 1).local(WINDOW..=WINDOW);
    let posted = request.open().unwrap();
    assert_eq!(posted.park(&PARK, soon()), Err(Error::NotPaired));
}
