// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the user services of two hosts tell each other: function headers of frames to function
//! [`FUNC_ID`], and how the two find each other.
//!
//! A service may be loaded and unloaded while the link stays up. So each has the number of its
//! life, and a [`Greeting`] finds out whether the other one is there and listens. Every further
//! message carries the receiver's number: what was meant for an earlier life is dropped.

use crate::wire::{get_u32, put_u32};

/// Function id of the user service: "USER".
pub const FUNC_ID: u32 = 0x5553_4552;

/// Version of everything that the services tell each other.
pub const VERSION: u32 = 2;

/// Size of a header on the wire, in bytes.
pub const SIZE: usize = 16;

/// The number of a service's life, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life(u32);

impl Life {
    /// Makes a number of random bits.
    pub fn new(random: u32) -> Life {
        Life(random.max(1))
    }

    fn from_wire(number: u32) -> Option<Life> {
        (number != 0).then_some(Life(number))
    }
}

/// I am here, and this is whom I have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The sender's version.
    pub version: u32,
    /// The sender's life.
    pub from: Life,
    /// The receiver's life, if the sender has heard of it.
    pub seen: Option<Life>,
}

/// The header of a frame between user services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// See [`Hello`].
    Hello(Hello),
    /// The sender leaves; it was the partner of this life.
    Bye(Life),
    /// The data is a message of the pairing engine, followed by window data.
    Pairing(Life),
    /// The session `from` of the sender signals its partner `to`.
    Signal {
        /// The receiver's life.
        life: Life,
        /// The receiver's session.
        to: u32,
        /// The sender's session.
        from: u32,
    },
    /// The data is a message of the sharing engine.
    Sharing(Life),
    /// The sender's connection has triggered an event; the data is how often altogether.
    Trigger {
        /// The receiver's life.
        life: Life,
        /// The sender's connection.
        from: u32,
    },
    /// The data is a message to the port of the sender's connection.
    Message {
        /// The receiver's life.
        life: Life,
        /// The sender's connection.
        from: u32,
        /// How many messages of the connection came before, modulo 2^32.
        number: u32,
    },
}

const HELLO: u32 = 1;
const BYE: u32 = 2;
const PAIRING: u32 = 3;
const SIGNAL: u32 = 4;
const SHARING: u32 = 5;
const TRIGGER: u32 = 6;
const MESSAGE: u32 = 7;

impl Header {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; SIZE] {
        let words = match *self {
            Header::Hello(hello) => [
                HELLO,
                hello.seen.map_or(0, |life| life.0),
                hello.from.0,
                hello.version,
            ],
            Header::Bye(life) => [BYE, life.0, 0, 0],
            Header::Pairing(life) => [PAIRING, life.0, 0, 0],
            Header::Signal { life, to, from } => [SIGNAL, life.0, to, from],
            Header::Sharing(life) => [SHARING, life.0, 0, 0],
            Header::Trigger { life, from } => [TRIGGER, life.0, from, 0],
            Header::Message { life, from, number } => [MESSAGE, life.0, from, number],
        };
        let mut b = [0; SIZE];
        for (n, word) in words.into_iter().enumerate() {
            put_u32(&mut b, 4 * n, word);
        }
        b
    }

    /// The header in `b`; `None` if it is none. Numbers are unchecked.
    pub fn decode(b: &[u8]) -> Option<Header> {
        let b: &[u8; SIZE] = b.try_into().ok()?;
        let life = Life::from_wire(get_u32(b, 4));
        Some(match get_u32(b, 0) {
            HELLO => Header::Hello(Hello {
                version: get_u32(b, 12),
                from: Life::from_wire(get_u32(b, 8))?,
                seen: life,
            }),
            BYE => Header::Bye(life?),
            PAIRING => Header::Pairing(life?),
            SIGNAL => Header::Signal {
                life: life?,
                to: get_u32(b, 8),
                from: get_u32(b, 12),
            },
            SHARING => Header::Sharing(life?),
            TRIGGER => Header::Trigger {
                life: life?,
                from: get_u32(b, 8),
            },
            MESSAGE => Header::Message {
                life: life?,
                from: get_u32(b, 8),
                number: get_u32(b, 12),
            },
            _ => return None,
        })
    }
}

/// What a message has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// Both services listen to each other from now on.
    Opened,
    /// The other service is gone, or is another one now.
    Closed,
    /// The other service is another one now, and both listen to each other.
    Reopened,
    /// The other service speaks another version.
    Version(u32),
}

/// Finds out whether the other service is there.
#[derive(Debug)]
pub struct Greeting {
    mine: Life,
    theirs: Option<Life>,
    open: bool,
}

impl Greeting {
    /// Of the service with this life; [`hello`](Self::hello) goes to the other one.
    pub fn new(mine: Life) -> Greeting {
        Greeting {
            mine,
            theirs: None,
            open: false,
        }
    }

    /// What to tell the other service: at the start, and when [`receive`](Self::receive) says so.
    pub fn hello(&self) -> Hello {
        Hello {
            version: VERSION,
            from: self.mine,
            seen: self.theirs,
        }
    }

    /// The life to address, while both listen to each other.
    pub fn partner(&self) -> Option<Life> {
        self.theirs.filter(|_| self.open)
    }

    /// Whether a message to that life is for this service, and from one that it listens to.
    pub fn accepts(&self, life: Life) -> bool {
        self.open && life == self.mine
    }

    /// The other service has said hello. Whether it is to be answered, before anything else is
    /// sent, and what has changed.
    pub fn receive(&mut self, hello: Hello) -> (bool, Change) {
        if hello.version != VERSION {
            return (false, Change::Version(hello.version));
        }
        let was_open = self.open;
        let is_new = self.theirs != Some(hello.from);
        let knows_me = hello.seen == Some(self.mine);
        self.theirs = Some(hello.from);
        self.open = knows_me || (was_open && !is_new);
        let change = match (was_open, self.open) {
            (false, true) => Change::Opened,
            (true, false) => Change::Closed,
            (true, true) if is_new => Change::Reopened,
            _ => Change::None,
        };
        (is_new || !knows_me, change)
    }

    /// The other service has said goodbye to that life.
    pub fn bye(&mut self, life: Life) -> Change {
        if !self.accepts(life) {
            return Change::None;
        }
        self.theirs = None;
        self.open = false;
        Change::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Two services with ordered ways between them.
    struct Two {
        ends: [Greeting; 2],
        ways: [VecDeque<Hello>; 2],
    }

    impl Two {
        fn new() -> Two {
            Two {
                ends: [1, 2].map(|n| Greeting::new(Life(n))),
                ways: Default::default(),
            }
        }

        fn greet(&mut self, who: usize) {
            let hello = self.ends[who].hello();
            self.ways[1 - who].push_back(hello);
        }

        /// Delivers one message to `who`, if there is any.
        fn deliver(&mut self, who: usize) -> Option<Change> {
            let hello = self.ways[who].pop_front()?;
            let (answer, change) = self.ends[who].receive(hello);
            if answer {
                self.greet(who);
            }
            Some(change)
        }

        fn settle(&mut self) {
            for n in 0..100 {
                self.deliver(n % 2);
            }
            assert!(self.ways.iter().all(VecDeque::is_empty), "never ends");
        }
    }

    /// design 4.1
    #[test]
    fn it_does_not_matter_who_is_loaded_first() {
        for heard in [[true, false], [false, true], [true, true]] {
            let mut two = Two::new();
            (0..2).filter(|&n| heard[n]).for_each(|n| two.greet(n));
            two.settle();
            assert!(two.ends.iter().all(|end| end.partner().is_some()));
        }
    }

    /// design 4.2
    #[test]
    fn a_service_that_comes_anew_ends_what_was_before() {
        let mut two = Two::new();
        two.greet(0);
        two.settle();
        two.ends[1] = Greeting::new(Life(3));
        two.greet(1);
        assert_eq!(two.deliver(0), Some(Change::Closed));
        assert!(!two.ends[0].accepts(Life(1)));
        two.settle();
        assert_eq!(two.ends[0].partner(), Some(Life(3)));
        assert!(two.ends[1].accepts(Life(3)) && !two.ends[1].accepts(Life(2)));
    }

    /// design 4.11
    #[test]
    fn a_goodbye_counts_only_for_the_life_it_was_said_to() {
        let mut two = Two::new();
        two.greet(0);
        two.settle();
        assert_eq!(two.ends[0].bye(Life(9)), Change::None);
        assert_eq!(two.ends[0].bye(Life(1)), Change::Closed);
        assert_eq!(two.ends[0].partner(), None);
    }

    /// design 4.1
    #[test]
    fn another_version_is_reported_and_changes_nothing() {
        let mut end = Greeting::new(Life(1));
        let hello = Hello {
            version: VERSION + 1,
            from: Life(2),
            seen: None,
        };
        assert_eq!(end.receive(hello), (false, Change::Version(VERSION + 1)));
        assert_eq!(end.hello().seen, None);
    }

    proptest! {
        /// design 4.1, 4.2
        #[test]
        fn two_services_find_each_other_whatever_happened_before(
            events in prop::collection::vec((0u8..3, 0usize..2), 0..60),
        ) {
            let mut two = Two::new();
            let mut life = 2;
            for (what, who) in events {
                match what {
                    0 => two.greet(who),
                    1 => {
                        life += 1;
                        two.ends[who] = Greeting::new(Life(life));
                        two.ways[who].clear();
                        two.greet(who);
                    }
                    _ => {
                        two.deliver(who);
                    }
                }
                for n in 0..2 {
                    // Who is listened to has heard of this life, or of none at all any more.
                    let at = two.ends[n].partner();
                    prop_assert!(at.is_none() || two.ends[n].theirs == at);
                }
            }
            two.greet(0);
            two.settle();
            for n in 0..2 {
                prop_assert_eq!(two.ends[n].partner(), Some(two.ends[1 - n].mine));
            }
        }

        /// design 2, never 5
        #[test]
        fn headers_survive_the_wire(
            b in prop::collection::vec(any::<u8>(), 0..20),
            kind in 0u8..9,
        ) {
            let mut b = b;
            if let Some(first) = b.first_mut() {
                *first = kind;
            }
            b.iter_mut().skip(1).take(3).for_each(|b| *b = 0);
            if let Some(header) = Header::decode(&b) {
                let again = Header::decode(&header.encode());
                prop_assert_eq!(again, Some(header));
            } else {
                prop_assert!(b.len() != SIZE || !(1..8).contains(&kind) || b[4..8] == [0; 4]
                    || b[8..12] == [0; 4]);
            }
        }
    }
}
