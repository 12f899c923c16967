// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Two hosts that share objects, under a seeded scheduler: processes connect and leave, owners
//! withdraw and end, messages take their time, the link is lost and comes back, services start
//! anew. What must hold is checked after every step, and in the end that both hosts agree.

mod common;

use common::Dice;
use mp_proto::fabric::Life;
use mp_proto::name::{Name, NAME_MAX};
use mp_proto::rows::Row;
use mp_proto::sharing::message::{Message, What};
use mp_proto::sharing::{
    Engine, Entry, Event, Grant, Guest, Host, NoGrant, Object, Own, Refusal, Rights, Unheard, Want,
    Why, SAYS, UNANSWERED,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

type Tables = Engine<Vec<Row<Own>>, Vec<Row<Entry>>>;

/// What a host has beside its engine.
#[derive(Default)]
struct Site {
    out: VecDeque<Message>,
    events: Vec<Event>,
    /// Tokens of what is offered, by number of a segment.
    offered: BTreeMap<u32, u32>,
    /// The same of what has a name.
    named: BTreeMap<Vec<u8>, u32>,
    /// Guests that may reach memory, with its token.
    reached_by: BTreeMap<u32, u32>,
    /// Own connections that processes write by, with the token.
    writes: BTreeMap<u32, u32>,
    /// So many guests come before there is memory again.
    short: u64,
}

impl Site {
    /// Memory for a guest.
    fn memory(&mut self) -> Result<(), NoGrant> {
        match self.short {
            0 => Ok(()),
            _ => {
                self.short -= 1;
                Err(NoGrant::Later)
            }
        }
    }
}

const OBJECTS: u32 = 3;

impl Host for Site {
    fn accept(&mut self, guest: u32, want: &Want, name: &Name) -> Result<Grant, NoGrant> {
        self.memory()?;
        let found = match name.is_none() {
            true => self.offered.get(&want.number),
            false => self.named.get(name.bytes()),
        };
        let token = *found.ok_or(Why::NotFound)?;
        assert_eq!(self.reached_by.insert(guest, token), None);
        Ok(grant(want, token))
    }

    fn accept_again(&mut self, guest: &Guest) -> Result<Grant, NoGrant> {
        self.memory()?;
        assert_eq!(self.reached_by.get(&guest.number), Some(&guest.token));
        Ok(grant(&guest.want, guest.token))
    }

    fn say(&mut self, message: Message) {
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Some(message));
        self.out.push_back(message);
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Connected(n, grant) => assert_eq!(self.writes.insert(n, grant.token), None),
            Event::Up(n, grant) => assert_eq!(self.writes.insert(n, grant.token), None),
            Event::Down(n) => assert!(self.writes.remove(&n).is_some()),
            Event::Lost(n) => drop(self.writes.remove(&n)),
            Event::GuestLeft(g) | Event::LetGo(g) => {
                assert_eq!(self.reached_by.remove(&g.number), Some(g.token));
            }
            _ => {}
        }
        self.events.push(event);
    }
}

fn grant(want: &Want, token: u32) -> Grant {
    let len = match want.object {
        Object::Segment => 0x1000,
        _ => 0,
    };
    let rights = match want.session {
        0 => Rights::ALL,
        _ => READ_ONLY,
    };
    Grant {
        token,
        off: 0,
        len,
        rights,
    }
}

const READ_ONLY: Rights = Rights {
    read: true,
    write: false,
};

fn segment(number: u32) -> Want {
    Want {
        object: Object::Segment,
        number,
        counted: false,
        placed: false,
        session: 0,
    }
}

/// A site that has room for so many messages, and no memory for others.
struct Bounded<'a> {
    site: &'a mut Site,
    room: &'a mut usize,
}

impl Host for Bounded<'_> {
    fn accept(&mut self, guest: u32, want: &Want, name: &Name) -> Result<Grant, NoGrant> {
        self.site.accept(guest, want, name)
    }

    fn accept_again(&mut self, guest: &Guest) -> Result<Grant, NoGrant> {
        self.site.accept_again(guest)
    }

    fn say(&mut self, message: Message) {
        let left = self.room.checked_sub(1);
        *self.room = left.unwrap_or_else(|| panic!("no room for {message:?}"));
        self.site.say(message);
    }

    fn event(&mut self, event: Event) {
        self.site.event(event);
    }
}

struct Two {
    engines: [Tables; 2],
    sites: [Site; 2],
    /// Messages that each can say without memory.
    room: [usize; 2],
    lives: [u32; 2],
    is_up: bool,
    last: u32,
}

impl Two {
    fn new() -> Two {
        let table = || Engine::new(vec![Row::FREE; 8], vec![Row::FREE; 8]);
        Two {
            engines: [table(), table()],
            sites: Default::default(),
            room: [0; 2],
            lives: [1, 2],
            is_up: false,
            last: 10,
        }
    }

    fn fresh(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn up(&mut self) {
        // A host that comes up has ended the epoch before, and waits until the other one has.
        self.down();
        self.is_up = true;
        for n in 0..2 {
            let partner = Life::new(self.lives[1 - n]);
            self.room[n] = self.room[n].max(self.engines[n].owed_by_up());
            self.input(n, |engine, host| engine.up(partner, host));
            self.room[n] = self.engines[n].owed();
        }
    }

    /// An input that cannot fail: there is room for what comes of it.
    fn input<R>(&mut self, who: usize, f: impl FnOnce(&mut Tables, &mut Bounded<'_>) -> R) -> R {
        let mut host = Bounded {
            site: &mut self.sites[who],
            room: &mut self.room[who],
        };
        f(&mut self.engines[who], &mut host)
    }

    /// An input before which room is made, and after which no more is kept than has to be.
    fn reserved<R>(&mut self, who: usize, f: impl FnOnce(&mut Tables, &mut Bounded<'_>) -> R) -> R {
        self.room[who] = self.room[who].max(self.engines[who].owed() + SAYS);
        let result = self.input(who, f);
        let owed = self.engines[who].owed();
        assert!(self.room[who] >= owed, "more is owed than was reserved");
        self.room[who] = owed;
        result
    }

    fn withdraw(&mut self, who: usize, token: u32) {
        self.input(who, |engine, host| engine.withdraw(token, host));
    }

    fn down(&mut self) {
        for n in 0..2 {
            self.down_at(n);
        }
    }

    /// One of them notices, the other one has not.
    fn down_at(&mut self, who: usize) {
        self.is_up = false;
        self.sites[0].out.clear();
        self.sites[1].out.clear();
        self.engines[who].down(&mut self.sites[who]);
    }

    fn connect(&mut self, who: usize, want: Want) -> Result<u32, Refusal> {
        self.connect_by(who, want, &Name::NONE)
    }

    fn connect_by(&mut self, who: usize, want: Want, name: &Name) -> Result<u32, Refusal> {
        let number = self.fresh();
        self.reserved(who, |engine, host| {
            engine.connect(number, &want, name, host)
        })?;
        Ok(number)
    }

    fn leave(&mut self, who: usize, number: u32) {
        self.sites[who].writes.remove(&number);
        self.input(who, |engine, host| engine.leave(number, 0, host));
    }

    fn end(&mut self, who: usize, token: u32) {
        let before = self.engines[who].guests(token).count();
        let ended = self.input(who, |engine, host| engine.end(token, host));
        assert_eq!(ended, before);
    }

    /// Deliver the oldest message of a host, which stays if there is no memory for it.
    fn deliver(&mut self, from: usize) -> bool {
        let Some(message) = self.sites[from].out.front().copied() else {
            return false;
        };
        let to = 1 - from;
        let has_done = |site: &Site| (site.out.len(), site.events.len(), site.reached_by.clone());
        let before = has_done(&self.sites[to]);
        let heard = self.reserved(to, |engine, host| engine.receive(&message, host));
        if heard == Err(Unheard::Later) {
            assert_eq!(has_done(&self.sites[to]), before, "{message:?}");
            return true;
        }
        assert_eq!(heard, Ok(()), "{message:?}");
        self.sites[from].out.pop_front();
        true
    }

    fn settle(&mut self) {
        while self.deliver(0) || self.deliver(1) {}
    }

    /// Nobody writes where the owner thinks that nobody can.
    /// Whether a guest of the second host is ending.
    fn is_ending(&self, number: u32) -> bool {
        self.engines[1].ending().any(|guest| guest == number)
    }

    fn check(&self) {
        for n in 0..2 {
            for (number, token) in &self.sites[n].writes {
                let owner = &self.sites[1 - n];
                assert_eq!(owner.reached_by.get(number), Some(token));
            }
        }
    }
}

fn connected() -> (Two, u32) {
    let mut two = Two::new();
    two.up();
    two.sites[1].offered.insert(1, 77);
    let number = two.connect(0, segment(1)).unwrap();
    two.settle();
    two.sites.iter_mut().for_each(|site| site.events.clear());
    (two, number)
}

fn names(site: &Site) -> Vec<&'static str> {
    let name = |event: &Event| match event {
        Event::Connected(..) => "connected",
        Event::Refused(..) => "refused",
        Event::Down(_) => "down",
        Event::Up(..) => "up",
        Event::Withdrawn(_) => "withdrawn",
        Event::Lost(_) => "lost",
        Event::GuestDown(_) => "guest down",
        Event::GuestUp(_) => "guest up",
        Event::GuestLeft(_) => "guest left",
        Event::GuestLost(_) => "guest lost",
        Event::LetGo(_) => "let go",
        Event::Answered(_) => "answered",
        Event::Taken(..) => "taken",
    };
    site.events.iter().map(name).collect()
}

/// SI-CONSEG-2, SI-EVT-2, SI-DISSEG-1
#[test]
fn a_process_connects_and_leaves() {
    let (mut two, number) = connected();
    assert!(two.engines[0].state(number).unwrap().is_operational());
    assert_eq!(two.engines[1].guests(77).count(), 1);
    two.leave(0, number);
    two.settle();
    assert_eq!(names(&two.sites[1]), ["guest left"]);
    assert_eq!(two.engines[1].guests(77).count(), 0);
}

/// SI-CONSEG-6, SI-CONSEG-7
#[test]
fn what_is_not_offered_is_refused_at_once() {
    let mut two = Two::new();
    assert_eq!(two.connect(0, segment(5)), Err(Refusal::Down));
    two.up();
    two.settle();
    let number = two.connect(0, segment(5)).unwrap();
    two.settle();
    assert_eq!(two.sites[0].events, [Event::Refused(number, Why::NotFound)]);
    assert_eq!(two.engines[0].state(number), None);
}

fn name(bytes: &[u8]) -> Name {
    Name::new(bytes).expect("short")
}

/// And what was found by its name is resumed without it.
#[test]
fn a_name_is_found_if_all_its_bytes_are_equal() {
    let mut two = Two::new();
    two.up();
    let longest = [7; NAME_MAX];
    for (token, offered) in [(77, &b"a\0b"[..]), (78, b"a"), (79, &longest)] {
        two.sites[1].named.insert(offered.to_vec(), token);
    }
    for absent in [&b"a\0"[..], b"a\0b\0", b"A", b"b", &longest[1..]] {
        let number = two.connect_by(0, segment(0), &name(absent)).unwrap();
        two.settle();
        let refused = Event::Refused(number, Why::NotFound);
        assert_eq!(two.sites[0].events.last(), Some(&refused), "{absent:?}");
    }
    for (token, offered) in [(77, &b"a\0b"[..]), (78, b"a"), (79, &longest)] {
        let number = two.connect_by(0, segment(0), &name(offered)).unwrap();
        two.settle();
        assert_eq!(two.sites[0].writes.get(&number), Some(&token));
        // It has no number, also where something has the number zero.
        two.sites[1].offered.insert(0, 99);
        two.down();
        two.up();
        two.settle();
        assert_eq!(two.sites[0].writes.get(&number), Some(&token));
    }
}

/// SI-UNAVAIL-3, SI-EVT-3
#[test]
fn who_is_asked_to_leave_is_asked_once_and_stays_connected() {
    let (mut two, number) = connected();
    for _ in 0..2 {
        two.engines[1].withdraw(77, &mut two.sites[1]);
    }
    assert_eq!(two.sites[1].out.len(), 1);
    two.settle();
    assert_eq!(names(&two.sites[0]), ["withdrawn"]);
    let state = two.engines[0].state(number).unwrap();
    assert!(state.is_operational() && state.is_withdrawn());
    assert_eq!(two.engines[1].guests(77).count(), 1);
}

/// SI-UNAVAIL-4, SI-EVT-3, SI-EVT-6
#[test]
fn who_is_put_out_hears_both_and_lets_go() {
    let (mut two, number) = connected();
    two.engines[1].end(77, &mut two.sites[1]);
    assert_eq!(two.engines[1].guests(77).count(), 0);
    assert!(two.sites[1].reached_by.contains_key(&number), "not yet");
    two.settle();
    assert_eq!(names(&two.sites[0]), ["withdrawn", "lost"]);
    assert_eq!(names(&two.sites[1]), ["let go"]);
    two.leave(0, number);
    assert!(two.sites[0].out.is_empty(), "all is told");
}

/// SI-EVT-4, SI-EVT-5
#[test]
fn a_connection_outlives_the_link_if_both_services_do() {
    let (mut two, number) = connected();
    two.down();
    assert!(!two.engines[0].state(number).unwrap().is_operational());
    two.up();
    two.settle();
    assert_eq!(names(&two.sites[0]), ["down", "up"]);
    assert_eq!(names(&two.sites[1]), ["guest down", "guest up"]);
    assert_eq!(two.engines[1].guests(77).count(), 1);
}

/// SI-EVT-6, SI-EVT-7
#[test]
fn a_connection_is_lost_with_either_service() {
    for who in 0..2 {
        let (mut two, _) = connected();
        two.down();
        two.lives[who] = 9;
        two.engines[who] = Engine::new(vec![Row::FREE; 8], vec![Row::FREE; 8]);
        two.sites[who] = Site::default();
        two.up();
        two.settle();
        let expected: [&[&str]; 2] = match who {
            0 => [&[], &["guest down", "guest lost", "let go"]],
            _ => [&["down", "lost"], &[]],
        };
        assert_eq!(names(&two.sites[0]), expected[0]);
        assert_eq!(names(&two.sites[1]), expected[1]);
    }
}

/// SI-EVT-6, SI-DISSEG-4
#[test]
fn what_is_given_up_or_left_meanwhile_is_not_resumed() {
    let (mut two, number) = connected();
    two.down();
    two.leave(0, number);
    two.up();
    two.settle();
    assert_eq!(names(&two.sites[1]), ["guest down", "guest left"]);

    let (mut two, number) = connected();
    two.down();
    two.engines[1].give_up(&mut two.sites[1]);
    two.up();
    two.settle();
    assert_eq!(names(&two.sites[0]), ["down", "lost"]);
    assert!(two.engines[0].state(number).unwrap().is_lost());
}

/// SI-UNAVAIL-3
#[test]
fn who_is_asked_to_leave_while_the_link_is_down_hears_it_later() {
    let (mut two, _) = connected();
    two.down();
    two.engines[1].withdraw(77, &mut two.sites[1]);
    two.up();
    two.settle();
    assert_eq!(names(&two.sites[0]), ["down", "up", "withdrawn"]);
}

/// SI-UNAVAIL-3
#[test]
fn who_did_not_hear_that_it_was_asked_to_leave_hears_it_when_the_link_is_back() {
    let (mut two, _) = connected();
    two.engines[1].withdraw(77, &mut two.sites[1]);
    two.down();
    two.up();
    two.settle();
    assert_eq!(names(&two.sites[0]), ["down", "up", "withdrawn"]);
}

/// However often a process asks and leaves, the peer has so much to keep.
#[test]
fn a_peer_that_does_not_answer_is_not_asked_for_ever() {
    let mut two = Two::new();
    two.up();
    two.settle();
    for _ in 0..UNANSWERED {
        let number = two.connect(0, segment(5)).unwrap();
        two.leave(0, number);
    }
    assert_eq!(two.connect(0, segment(5)), Err(Refusal::Busy));
    assert_eq!(two.sites[0].out.len(), 2 * UNANSWERED);
    // An answer makes room, also for what has been left.
    while two.sites[1].out.is_empty() {
        two.deliver(0);
    }
    two.deliver(1);
    let number = two.connect(0, segment(5)).unwrap();
    assert_eq!(two.connect(0, segment(5)), Err(Refusal::Busy));
    two.leave(0, number);
    two.down();
    two.up();
    assert!(two.connect(0, segment(5)).is_ok(), "nobody waits any more");
}

/// Without memory for anything, processes leave and owners end what they have.
#[test]
fn what_ends_needs_no_room_but_what_was_kept_for_it() {
    let mut two = Two::new();
    two.up();
    two.sites[1].offered.extend([(1, 77), (2, 78)]);
    let connect = |two: &mut Two, n| two.connect(0, segment(n)).unwrap();
    let all = [1, 1, 2, 2].map(|n| connect(&mut two, n));
    two.settle();
    assert_eq!(two.room, [two.engines[0].owed(), two.engines[1].owed()]);
    two.withdraw(1, 77);
    two.end(1, 77);
    two.withdraw(1, 78);
    two.input(1, |engine, host| engine.end_guest(all[2], host));
    for number in all {
        two.leave(0, number);
    }
    assert_eq!((two.sites[0].out.len(), two.sites[1].out.len()), (4, 7));
    two.settle();
    assert_eq!([two.engines[0].owed(), two.engines[1].owed()], [0, 0]);
}

/// SI-ISM-2
#[test]
fn a_connection_to_a_port_does_not_outlive_the_link() {
    let mut two = Two::new();
    two.up();
    two.sites[1].offered.insert(1, 77);
    let want = Want {
        object: Object::Port,
        ..segment(1)
    };
    let number = two.connect(0, want).unwrap();
    two.settle();
    two.sites[1].say(Message {
        connection: number,
        what: What::Taken(3),
    });
    two.settle();
    assert_eq!(two.sites[0].events.last(), Some(&Event::Taken(number, 3)));
    two.down();
    assert!(two.engines[0].state(number).unwrap().is_lost());
    assert_eq!(names(&two.sites[1]), ["guest lost"]);
}

#[test]
fn what_was_ended_is_ending_until_nobody_writes_there() {
    let (mut two, number) = connected();
    assert!(!two.is_ending(number));
    two.end(1, 77);
    assert!(two.is_ending(number));
    assert!(!two.is_ending(number + 1));
    // The other host hears of it, and takes the mappings away.
    assert!(two.deliver(1));
    assert!(two.sites[0].writes.is_empty());
    assert!(two.is_ending(number), "it has not said so");
    two.settle();
    assert!(!two.is_ending(number));
}

/// The other host stands still, and does not know that the link is down.
#[test]
fn a_link_that_is_down_proves_nothing_and_the_next_epoch_does() {
    let (mut two, number) = connected();
    two.end(1, 77);
    two.down_at(1);
    assert!(two.sites[0].writes.contains_key(&number), "it still writes");
    assert!(two.is_ending(number));
    two.engines[1].give_up(&mut two.sites[1]);
    assert!(two.is_ending(number));
    two.down();
    two.up();
    assert!(!two.is_ending(number));
    two.settle();
    assert_eq!(names(&two.sites[0]), ["down", "lost"]);
    assert_eq!(names(&two.sites[1]), ["let go"]);
}

#[test]
fn what_is_ended_while_the_link_is_down_may_still_be_written() {
    let (mut two, number) = connected();
    two.down_at(1);
    two.end(1, 77);
    assert!(two.sites[0].writes.contains_key(&number));
    assert!(two.is_ending(number));
    assert_eq!(names(&two.sites[1]), ["guest down"]);
}

#[test]
fn what_is_given_up_may_still_be_written_until_the_other_service_has_ended() {
    let (mut two, number) = connected();
    two.down_at(1);
    two.engines[1].give_up(&mut two.sites[1]);
    assert!(two.sites[0].writes.contains_key(&number));
    assert_eq!(two.engines[1].guests(77).count(), 0);
    assert!(two.is_ending(number));
    two.sites[0].writes.clear();
    two.engines[1].all_let_go(&mut two.sites[1]);
    assert!(!two.is_ending(number));
    assert_eq!(names(&two.sites[1]), ["guest down", "guest lost", "let go"]);
}

/// Nobody stores into an event.
#[test]
fn a_connection_to_an_event_has_ended_with_the_epoch() {
    let mut two = Two::new();
    two.up();
    two.sites[1].offered.insert(1, 77);
    let want = Want {
        object: Object::Event,
        ..segment(1)
    };
    let number = two.connect(0, want).unwrap();
    two.settle();
    two.sites[1].events.clear();
    two.end(1, 77);
    two.down_at(1);
    assert!(!two.is_ending(number));
    assert_eq!(names(&two.sites[1]), ["let go"]);
}

/// The connection of one guest ends, and no other to the same object; its place is free then.
#[test]
fn one_guest_is_put_out_alone() {
    let (mut two, doomed) = connected();
    let other = two.connect(0, segment(1)).unwrap();
    two.settle();
    two.sites[0].events.clear();
    for number in [doomed, doomed, 1234] {
        two.engines[1].end_guest(number, &mut two.sites[1]);
    }
    two.settle();
    assert_eq!(names(&two.sites[0]), ["withdrawn", "lost"]);
    assert!(two.engines[0].state(doomed).unwrap().is_lost());
    assert!(two.engines[0].state(other).unwrap().is_operational());
    let left: Vec<u32> = two.engines[1]
        .guests(77)
        .map(|guest| guest.number)
        .collect();
    assert_eq!(left, [other]);
    assert!(!two.is_ending(doomed));
}

/// What one partner was granted ends alone.
#[test]
fn a_grant_ends_without_the_others() {
    let (mut two, published) = connected();
    two.sites[1].offered.insert(2, 78);
    let want = Want {
        session: 5,
        ..segment(2)
    };
    let granted = two.connect(0, want).unwrap();
    two.settle();
    let is = Grant {
        token: 78,
        off: 0,
        len: 0x1000,
        rights: READ_ONLY,
    };
    assert_eq!(two.sites[0].events, [Event::Connected(granted, is)]);
    two.end(1, 78);
    two.settle();
    assert!(two.engines[0].state(granted).unwrap().is_lost());
    assert!(two.engines[0].state(published).unwrap().is_operational());
    assert_eq!(
        (
            two.engines[1].guests(77).count(),
            two.engines[1].guests(78).count()
        ),
        (1, 0)
    );
}

/// Rights do not change while the link is away.
#[test]
fn a_connection_that_comes_back_with_other_rights_is_none() {
    let (mut two, number) = connected();
    two.engines[0].down(&mut two.sites[0]);
    two.engines[0].up(Life::new(2), &mut two.sites[0]);
    let connected = Grant {
        rights: READ_ONLY,
        ..grant(&segment(1), 77)
    };
    let message = Message {
        connection: number,
        what: What::Connected(connected),
    };
    let heard = two.engines[0].receive(&message, &mut two.sites[0]);
    assert_eq!(heard, Err(Unheard::Corrupt));
}

/// A request for which the host has no memory is heard later: it is not refused, and what was there
/// stays.
#[test]
fn what_a_host_has_no_memory_for_is_heard_later() {
    let mut two = Two::new();
    two.up();
    two.sites[1].offered.insert(1, 77);
    two.sites[1].short = 2;
    let number = two.connect(0, segment(1)).unwrap();
    for _ in 0..2 {
        two.deliver(0);
        assert_eq!(two.engines[1].guests(77).count(), 0);
    }
    two.settle();
    assert!(two.engines[0].state(number).unwrap().is_operational());
    // The same of what is resumed.
    two.up();
    two.sites[1].short = 2;
    two.settle();
    assert!(two.engines[0].state(number).unwrap().is_operational());
    assert_eq!(two.engines[1].guests(77).count(), 1);
    assert!(!names(&two.sites[1]).contains(&"guest lost"));
}

/// SI-PROBE-2
#[test]
fn a_question_is_answered_behind_what_was_said_before() {
    let (mut two, number) = connected();
    two.leave(0, number);
    let question = Message {
        connection: 5,
        what: What::Ask,
    };
    two.sites[0].say(question);
    two.settle();
    assert_eq!(names(&two.sites[1]), ["guest left"]);
    assert_eq!(two.sites[0].events, [Event::Answered(5)]);
}

/// design 2, never 5
#[test]
fn what_cannot_be_said_is_found() {
    let say = |connection, what| Message { connection, what };
    let bad = |engine: &mut Tables, site: &mut Site, message| {
        let heard = engine.receive(&message, site);
        assert_eq!(heard, Err(Unheard::Corrupt), "{message:?}");
    };
    let (mut two, number) = connected();
    let Two { engines, sites, .. } = &mut two;
    let [importer, exporter] = engines;
    let [at_importer, at_exporter] = sites;
    let place = |token, len| Grant {
        token,
        off: 0,
        len,
        rights: Rights::ALL,
    };
    for grant in [place(77, 0x1000), place(0, 1), place(77, 0)] {
        bad(importer, at_importer, say(number, What::Connected(grant)));
    }
    bad(
        importer,
        at_importer,
        say(number, What::Refused(Why::NotFound)),
    );
    bad(importer, at_importer, say(number, What::Taken(1)));
    bad(
        exporter,
        at_exporter,
        say(number, What::Connect(segment(1), Name::NONE)),
    );
    bad(
        exporter,
        at_exporter,
        say(0, What::Connect(segment(1), Name::NONE)),
    );
    bad(
        exporter,
        at_exporter,
        say(number, What::Resume(segment(1), 77)),
    );
    bad(exporter, at_exporter, say(number, What::Gone));
    for what in [What::Leave(0), What::Gone, What::Ended, What::Withdrawn] {
        assert_eq!(exporter.receive(&say(99, what), at_exporter), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// SI-CONSEG-10, SI-RSM-6, SI-EVT-10, SI-NTB-10
    #[test]
    fn nobody_writes_where_the_owner_thinks_that_nobody_can(seed in any::<u64>()) {
        let dice = Dice::new(seed);
        let mut two = Two::new();
        two.up();
        for _ in 0..300 {
            let who = dice.below(2) as usize;
            match dice.below(15) {
                0 | 1 => {
                    let number = 1 + dice.below(u64::from(OBJECTS)) as u32;
                    let _ = two.connect(who, segment(number));
                }
                2 => {
                    let writes: Vec<u32> = two.sites[who].writes.keys().copied().collect();
                    if !writes.is_empty() {
                        two.leave(who, writes[dice.below(writes.len() as u64) as usize]);
                    }
                }
                3 => {
                    let number = 1 + dice.below(u64::from(OBJECTS)) as u32;
                    let token = two.fresh();
                    two.sites[who].offered.entry(number).or_insert(token);
                }
                4 => {
                    let offered: Vec<(u32, u32)> =
                        two.sites[who].offered.iter().map(|(n, t)| (*n, *t)).collect();
                    if let Some((number, token)) = offered.first().copied() {
                        two.sites[who].offered.remove(&number);
                        two.end(who, token);
                        prop_assert_eq!(two.engines[who].guests(token).count(), 0);
                    }
                }
                5 => {
                    let token = two.sites[who].offered.values().next().copied();
                    if let Some(token) = token {
                        two.withdraw(who, token);
                    }
                }
                6 if dice.once_in(3) => two.down_at(who),
                7 if !two.is_up => two.up(),
                8 if !two.is_up && dice.once_in(3) => {
                    two.engines[who].give_up(&mut two.sites[who]);
                }
                9 => two.sites[who].short = dice.below(4),
                _ => {
                    two.deliver(who);
                }
            }
            two.check();
        }
        if !two.is_up {
            two.up();
        }
        two.settle();
        two.check();
        // All that is left is what both agree upon.
        for n in 0..2 {
            let mine: BTreeSet<_> = two.sites[n].writes.iter().collect();
            let theirs: BTreeSet<_> = two.sites[1 - n].reached_by.iter().collect();
            prop_assert_eq!(mine, theirs);
        }
    }

    /// design 2, never 5
    #[test]
    fn messages_survive_the_wire(
        words in prop::collection::vec(any::<u32>(), 8),
        kind in 0u32..15,
        behind in prop_oneof![
            Just(Vec::new()),
            prop::collection::vec(any::<u8>(), 0..=NAME_MAX + 2),
        ],
    ) {
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes[0] = kind as u8;
        bytes[1] %= 4;
        bytes[2] %= 16;
        bytes[8..12].copy_from_slice(&(words[2] % 5).to_le_bytes());
        let is_named = kind == 1 && bytes[2] & 8 != 0;
        bytes.extend(&behind);
        if let Some(message) = Message::decode(&bytes) {
            let encoded = message.encode();
            prop_assert_eq!(Message::decode(&encoded), Some(message));
            prop_assert_eq!(encoded.len(), bytes.len());
            let name = match message.what {
                What::Connect(_, name) => name,
                _ => Name::NONE,
            };
            prop_assert_eq!(name.bytes(), behind.as_slice());
            prop_assert_eq!(is_named, !name.is_none());
            prop_assert!(behind.len() <= NAME_MAX);
        }
    }

    #[test]
    fn a_name_stands_for_the_number_and_for_no_grant(
        bytes in prop::collection::vec(any::<u8>(), 1..=NAME_MAX),
        number in 0u32..2,
        session in 0u32..2,
    ) {
        let want = Want { session, ..segment(number) };
        let what = What::Connect(want, name(&bytes));
        let message = Message { connection: 1, what };
        let heard = Message::decode(&message.encode());
        prop_assert_eq!(heard.is_some(), number == 0 && session == 0);
    }

    /// design 2, never 5
    #[test]
    fn no_message_harms_an_engine(
        all in prop::collection::vec((0u32..14, 0u32..4, 0u32..4, 0u32..4, 0u64..2), 0..60),
    ) {
        let mut two = Two::new();
        two.up();
        two.sites[0].offered.insert(1, 1);
        two.connect(0, segment(1)).unwrap();
        for (kind, connection, number, token, len) in all {
            let mut bytes = [0; 32];
            bytes[0] = kind as u8;
            bytes[1] = 1;
            bytes[4] = if connection == 3 { 11 } else { connection as u8 };
            bytes[8] = number as u8;
            bytes[12] = token as u8;
            bytes[25] = len as u8;
            let Some(message) = Message::decode(&bytes) else { continue };
            if two.engines[0].receive(&message, &mut two.sites[0]).is_err() {
                two.engines[0].down(&mut two.sites[0]);
                two.engines[0].up(Life::new(2), &mut two.sites[0]);
            }
        }
    }
}
