// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names of segments, events and ports, on two hosts in one process.

mod common;

use common::End;
use mp_fabric::{Deadline, Error, Goal, Key, Name, Number, Removal, Triggers, NAME_MAX};
use mp_testing::{Host, World};

fn name(bytes: &[u8]) -> Name {
    Name::new(bytes).expect("not too long")
}

fn ends() -> [End; 2] {
    let world = World::new(1, 1 << 20);
    [Host::A, Host::B].map(|host| End::new(&world, host))
}

impl End {
    fn finds(&self, goal: Goal) -> bool {
        let connected = self.fabric.connect(self.interface, goal, Deadline::NEVER);
        match connected {
            Ok(_) => true,
            Err(Error::NotFound(_)) => false,
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_name_has_one_byte_at_least_and_64_at_most() {
    assert_eq!(NAME_MAX, 64);
    assert_eq!(Name::new(b""), None);
    assert_eq!(name(&[0; 64]).bytes(), [0; 64]);
    assert_eq!(Name::new(&[0; 65]), None);
    assert_ne!(name(b"a"), name(b"a\0"));
    assert_eq!(Key::from(name(b"a\0\"")).to_string(), r#""a\x00\"""#);
}

#[test]
fn what_has_a_name_is_found_by_that_and_by_its_number() {
    let [a, b] = ends();
    let jobs = name(b"jobs");
    let named = Number::Named(jobs);
    let port = a.fabric.offer_port(a.interface, named).unwrap();
    let event = a.fabric.offer_event(a.interface, named, Triggers::Counted);
    let event = event.unwrap();
    let segment = a.fabric.create_named_segment(&jobs, (7, 0), 4096).unwrap();
    segment.prepare(a.interface).unwrap();
    assert!(!b.finds(Goal::Segment(jobs.into())), "not published");
    segment.publish(a.interface).unwrap();
    for key in [Key::from(jobs), port.number().into()] {
        assert!(b.finds(Goal::Port(key)));
    }
    assert!(b.finds(Goal::CountedEvent(jobs.into())));
    assert!(b.finds(Goal::Segment(jobs.into())));
    assert!(b.finds(Goal::Segment(7.into())));
    for other in [&b"job"[..], b"jobs\0", b"Jobs"] {
        assert!(!b.finds(Goal::Port(name(other).into())), "{other:?}");
    }
    event.remove(Removal::Force).unwrap();
    assert!(!b.finds(Goal::Event(jobs.into())));
    assert!(b.finds(Goal::Port(jobs.into())), "another kind of object");
}

#[test]
fn a_name_is_given_once_unless_it_is_shared() {
    let [a, _] = ends();
    let jobs = name(b"jobs");
    let offer = |number| a.fabric.offer_port(a.interface, number);
    let first = offer(Number::NamedShared(jobs)).unwrap();
    let second = offer(Number::NamedShared(jobs)).unwrap();
    assert_eq!(first.number(), second.number());
    for taken in [Number::Named(jobs), Number::Shared(first.number())] {
        assert!(matches!(offer(taken), Err(Error::UidTaken(_))));
    }
    let create = |id| a.fabric.create_named_segment(&jobs, (id, 0), 4096);
    let _segment = create(1).unwrap();
    assert!(matches!(create(2), Err(Error::UidTaken(_))));
}
