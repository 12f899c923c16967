// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Messages to ports that take another way than what the engines say, under a seeded scheduler:
//! either way may be the faster one. A port gets what was sent by the time at which its sender
//! leaves, all of it and in order, and nothing behind that.

mod common;

use common::Dice;
use mp_proto::fabric::Life;
use mp_proto::name::Name;
use mp_proto::rows::Row;
use mp_proto::sharing::message::{Message, What};
use mp_proto::sharing::window::{Receiver, Sender};
use mp_proto::sharing::{
    Engine, Entry, Event, Grant, Guest, Host, NoGrant, Object, Own, Rights, Want,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

type Tables = Engine<Vec<Row<Own>>, Vec<Row<Entry>>>;

const TOKEN: u32 = 9;
const PORT: Want = Want {
    object: Object::Port,
    number: 1,
    counted: false,
    placed: false,
    session: 0,
};
const GRANT: Grant = Grant {
    token: TOKEN,
    off: 0,
    len: 0,
    rights: Rights::ALL,
};

/// What an engine has said and told.
#[derive(Default)]
struct Site {
    out: VecDeque<Message>,
    events: VecDeque<Event>,
    /// Of the guests.
    receivers: BTreeMap<u32, Receiver>,
}

impl Host for Site {
    fn accept(&mut self, guest: u32, _: &Want, _: &Name) -> Result<Grant, NoGrant> {
        self.receivers.insert(guest, Receiver::default());
        Ok(GRANT)
    }

    fn accept_again(&mut self, _: &Guest) -> Result<Grant, NoGrant> {
        unreachable!("connections to ports are not resumed")
    }

    fn say(&mut self, message: Message) {
        self.out.push_back(message);
    }

    fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }
}

/// What waits for the worker of the port's host, in the order in which it has arrived.
enum Mail {
    Said(Message),
    ForPort(u32, u32),
}

/// A message: its connection, its number, and what it says.
type Sent = (u32, u32, u32);

/// The host of the processes, and that of the port.
struct Two {
    engines: [Tables; 2],
    sites: [Site; 2],
    /// Messages on their way.
    lane: VecDeque<Sent>,
    senders: BTreeMap<u32, Sender>,
    inbox: VecDeque<Mail>,
    /// Per connection: all that was sent, and all that the port has got.
    sent: BTreeMap<u32, Vec<u32>>,
    got: BTreeMap<u32, Vec<u32>>,
    /// Connections that the port's owner has ended.
    ended: Vec<u32>,
    last: u32,
}

impl Two {
    fn new() -> Two {
        let table = || Engine::new(vec![Row::FREE; 8], vec![Row::FREE; 8]);
        let mut two = Two {
            engines: [table(), table()],
            sites: Default::default(),
            lane: VecDeque::new(),
            senders: BTreeMap::new(),
            inbox: VecDeque::new(),
            sent: BTreeMap::new(),
            got: BTreeMap::new(),
            ended: Vec::new(),
            last: 0,
        };
        for n in 0..2 {
            two.engines[n].up(Life::new(2 - n as u32), &mut two.sites[n]);
        }
        two
    }

    fn connect(&mut self) {
        self.last += 1;
        let (engine, site) = (&mut self.engines[0], &mut self.sites[0]);
        let _ = engine.connect(self.last, &PORT, &Name::NONE, site);
    }

    fn send(&mut self, connection: u32) {
        let Some(number) = self.senders.get_mut(&connection).and_then(Sender::send) else {
            return;
        };
        let sent = self.sent.entry(connection).or_default();
        let word = connection * 1000 + sent.len() as u32;
        sent.push(word);
        self.lane.push_back((connection, number, word));
    }

    fn leave(&mut self, connection: u32) {
        let sent = self.senders.remove(&connection).map_or(0, |s| s.sent());
        self.engines[0].leave(connection, sent, &mut self.sites[0]);
    }

    /// What the engine has told the processes.
    fn tell_processes(&mut self) {
        while let Some(event) = self.sites[0].events.pop_front() {
            match event {
                Event::Connected(n, _) => drop(self.senders.insert(n, Sender::default())),
                Event::Lost(n) => drop(self.senders.remove(&n)),
                Event::Taken(n, total) => {
                    if let Some(sender) = self.senders.get_mut(&n) {
                        assert_eq!(sender.taken(total), Ok(()));
                    }
                }
                _ => {}
            }
        }
    }

    /// The connections to the port, before somebody may hear of them.
    fn tell_port(&mut self) {
        while let Some(event) = self.sites[1].events.pop_front() {
            if let Event::GuestLeft(guest) | Event::LetGo(guest) = event {
                self.sites[1].receivers.remove(&guest.number);
            }
        }
    }

    /// A message has come by its own way.
    fn message_arrives(&mut self) {
        let Some((connection, number, word)) = self.lane.pop_front() else {
            return;
        };
        if let Some(receiver) = self.sites[1].receivers.get_mut(&connection) {
            assert_eq!(receiver.arrived(number), Ok(()));
            self.inbox.push_back(Mail::ForPort(connection, word));
        }
    }

    /// The worker of the port's host takes what has arrived first.
    fn work(&mut self) {
        match self.inbox.pop_front() {
            Some(Mail::Said(message)) => self.hear(&message),
            Some(Mail::ForPort(connection, word)) => self.deliver(connection, word),
            None => {}
        }
        self.tell_port();
    }

    fn hear(&mut self, message: &Message) {
        let number = message.connection;
        let receiver = self.sites[1].receivers.get_mut(&number);
        if let (What::Leave(sent), Some(receiver)) = (message.what, receiver) {
            let left = receiver.left(sent);
            assert!(left.is_ok(), "{message:?} of {receiver:?}");
            if left == Ok(false) {
                return;
            }
        }
        let heard = self.engines[1].receive(message, &mut self.sites[1]);
        assert_eq!(heard, Ok(()), "{message:?}");
    }

    fn deliver(&mut self, connection: u32, word: u32) {
        let Some(receiver) = self.sites[1].receivers.get_mut(&connection) else {
            assert!(self.ended.contains(&connection), "a message is lost");
            return;
        };
        self.got.entry(connection).or_default().push(word);
        if receiver.deliver() {
            self.engines[1].left(connection, &mut self.sites[1]);
        }
    }

    /// A process takes a message of a connection out of the port.
    fn take(&mut self, connection: u32) {
        let Some(receiver) = self.sites[1].receivers.get_mut(&connection) else {
            return;
        };
        if let Some(total) = receiver.take() {
            let what = What::Taken(total);
            self.sites[1].say(Message { connection, what });
        }
    }

    fn end(&mut self, connection: u32) {
        if self.sites[1].receivers.contains_key(&connection) {
            self.ended.push(connection);
            self.engines[1].end_guest(connection, &mut self.sites[1]);
            self.tell_port();
        }
    }

    /// Something happens on one of the hosts, or to what is under way.
    fn step(&mut self, dice: &Dice) {
        let some = |of: Vec<u32>| match of.len() {
            0 => 0,
            len => of[dice.below(len as u64) as usize],
        };
        let sender = some(self.senders.keys().copied().collect());
        let receiver = some(self.sites[1].receivers.keys().copied().collect());
        match dice.below(24) {
            0 => self.connect(),
            1 => self.leave(sender),
            2..=9 => self.send(sender),
            10 if dice.once_in(8) => self.end(receiver),
            11 => {
                // It does not wait for the answer.
                self.connect();
                self.leave(self.last);
            }
            12..=14 => self.take(receiver),
            _ => self.go_on(dice),
        }
    }

    /// What is under way goes on.
    fn go_on(&mut self, dice: &Dice) {
        match dice.below(8) {
            0 | 1 => self.message_arrives(),
            2 | 3 => {
                let said = self.sites[0].out.pop_front();
                self.inbox.extend(said.map(Mail::Said));
            }
            4 | 5 => self.work(),
            _ => {
                if let Some(message) = self.sites[1].out.pop_front() {
                    let heard = self.engines[0].receive(&message, &mut self.sites[0]);
                    assert_eq!(heard, Ok(()), "{message:?}");
                    self.tell_processes();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// SI-TRDINT-3
    #[test]
    fn a_port_gets_what_was_sent_before_its_sender_has_left(seed in any::<u64>()) {
        let dice = Dice::new(seed);
        let mut two = Two::new();
        for _ in 0..800 {
            two.step(&dice);
            for (connection, got) in &two.got {
                prop_assert!(two.sent[connection].starts_with(got));
            }
        }
        for _ in 0..20_000 {
            two.go_on(&dice);
            let left: Vec<u32> = two.senders.keys().copied().collect();
            left.into_iter().for_each(|connection| two.leave(connection));
        }
        prop_assert!(two.lane.is_empty() && two.inbox.is_empty());
        prop_assert_eq!(two.engines[1].guests(TOKEN).count(), 0);
        prop_assert!(two.sites[1].receivers.is_empty());
        for (connection, sent) in &two.sent {
            if !two.ended.contains(connection) {
                prop_assert_eq!(two.got.get(connection), Some(sent));
            }
        }
    }
}
