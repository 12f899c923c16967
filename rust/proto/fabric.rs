// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the user services of two hosts tell each other: function headers of frames to function
//! [`FUNC_ID`], and how the two find each other.
//!
//! A service may be loaded and unloaded while the link stays up. So each has the number of its
//! life, and a [`Greeting`] finds out whether the other one is there and listens. Every further
//! message carries the receiver's number: what was meant for an earlier life is dropped.

use crate::version::{Support, Terms};
use crate::wire::{get_u32, put_u32};

/// Function id of the user service: "USER".
pub const FUNC_ID: u32 = 0x5553_4552;

/// The versions of what services tell each other that this source speaks. Version 2 is that of
/// the first release.
pub const SUPPORT: Support = Support {
    oldest: FIRST,
    newest: FIRST,
    features: NAMES | PLACED | GRANTS | OFFER_NAMES | MESSAGES | EXCHANGE,
};

/// Optional feature: pairing messages may have names and what goes with them, requests may be held,
/// and there may be [`SESSIONS`](crate::pairing::SESSIONS).
pub const NAMES: u16 = 1;

/// Optional feature: [placed transfers](crate::sharing::placed).
pub const PLACED: u16 = 2;

/// Optional feature: segments may be granted to one partner.
pub const GRANTS: u16 = 4;

/// Optional feature: what is offered may be asked for by its name.
pub const OFFER_NAMES: u16 = 8;

/// Optional feature: messages to ports take the data rings, where they leave the control ring to
/// what the services tell each other; a process that leaves tells how many it has sent.
pub const MESSAGES: u16 = 16;

/// Optional feature: words of segments are compared and exchanged by their host.
pub const EXCHANGE: u16 = 32;

/// The first release listens to no Hello that names another version in its header.
const FIRST: u8 = 2;

/// Size of a header on the wire, in bytes.
pub const SIZE: usize = 16;

/// Size of a header with the frame's number behind it.
pub const NUMBERED: usize = SIZE + 4;

/// A header with the [number](crate::sequence) of its frame: between hosts that another one forwards
/// for, as that one may drop frames. `None` if `header` is none.
pub fn with_number(header: &[u8], number: u32) -> Option<[u8; NUMBERED]> {
    let header: &[u8; SIZE] = header.try_into().ok()?;
    let mut b = [0; NUMBERED];
    b.first_chunk_mut().map(|head| *head = *header)?;
    put_u32(&mut b, SIZE, number);
    Some(b)
}

/// The header and the number that [`with_number`] has put together; `None` if `b` is of another
/// size.
pub fn split_number(b: &[u8]) -> Option<(&[u8], u32)> {
    let b: &[u8; NUMBERED] = b.try_into().ok()?;
    Some((b.get(..SIZE)?, get_u32(b, SIZE)))
}

/// The number of a service's life, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life(u32);

impl Life {
    /// Make a number of random bits.
    pub fn new(random: u32) -> Life {
        Life(random.max(1))
    }

    fn from_wire(number: u32) -> Option<Life> {
        (number != 0).then_some(Life(number))
    }
}

/// I am here, and this is whom I have seen. What the sender speaks is the data of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// What the sender speaks; of a header alone, the version that is named there.
    pub support: Support,
    /// The sender's life.
    pub from: Life,
    /// The receiver's life, if the sender has heard of it.
    pub seen: Option<Life>,
}

impl Hello {
    /// The data of its frame.
    pub fn data(&self) -> [u8; 4] {
        self.support.encode().to_le_bytes()
    }

    /// The Hello of a frame with this data. The first release sends none, later ones may send
    /// more. `None` if it is of no version.
    pub fn with_data(self, data: &[u8]) -> Option<Hello> {
        let word = data.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        let support = Support::decode(word, self.support)?;
        Some(Hello { support, ..self })
    }

    /// The version that the header names: that of the first release, as long as it is spoken.
    fn version(&self) -> u8 {
        self.support.newest.min(FIRST.max(self.support.oldest))
    }
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
    /// The data is where in the segment of the sender's connection, 64 bits, and what to store
    /// there.
    Put {
        /// The receiver's life.
        life: Life,
        /// The sender's connection.
        from: u32,
    },
    /// The data is where in the segment of the sender's connection, what the word there is to be
    /// compared with, and what it is to become, 64 bits each.
    Exchange {
        /// The receiver's life.
        life: Life,
        /// The sender's connection.
        from: u32,
    },
    /// The data is of a piece that the receiver has asked for, behind what came before; none if
    /// it cannot be read.
    Fetched {
        /// The receiver's life.
        life: Life,
        /// The receiver's connection.
        to: u32,
        /// The piece's number.
        number: u32,
    },
    /// The data is [stores](crate::stores) into the memory that the receiver, of that life, has for
    /// the sender, as no window leads there.
    Stores(Life),
}

const HELLO: u32 = 1;
const BYE: u32 = 2;
const PAIRING: u32 = 3;
const SIGNAL: u32 = 4;
const SHARING: u32 = 5;
const TRIGGER: u32 = 6;
const MESSAGE: u32 = 7;
const PUT: u32 = 8;
const FETCHED: u32 = 9;
const STORES: u32 = 10;
const EXCHANGE_WORD: u32 = 11;

/// Bytes ahead of what a frame with [`Header::Put`] stores, which tell where.
pub const PUT_AT: usize = 8;

/// Bytes of a frame with [`Header::Exchange`].
pub const EXCHANGE_SIZE: usize = 24;

impl Header {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; SIZE] {
        let words = match *self {
            Header::Hello(hello) => [
                HELLO,
                hello.seen.map_or(0, |life| life.0),
                hello.from.0,
                u32::from(hello.version()),
            ],
            Header::Bye(life) => [BYE, life.0, 0, 0],
            Header::Pairing(life) => [PAIRING, life.0, 0, 0],
            Header::Signal { life, to, from } => [SIGNAL, life.0, to, from],
            Header::Sharing(life) => [SHARING, life.0, 0, 0],
            Header::Trigger { life, from } => [TRIGGER, life.0, from, 0],
            Header::Message { life, from, number } => [MESSAGE, life.0, from, number],
            Header::Put { life, from } => [PUT, life.0, from, 0],
            Header::Exchange { life, from } => [EXCHANGE_WORD, life.0, from, 0],
            Header::Fetched { life, to, number } => [FETCHED, life.0, to, number],
            Header::Stores(life) => [STORES, life.0, 0, 0],
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
                support: version_of(get_u32(b, 12))?,
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
            PUT => Header::Put {
                life: life?,
                from: get_u32(b, 8),
            },
            EXCHANGE_WORD => Header::Exchange {
                life: life?,
                from: get_u32(b, 8),
            },
            FETCHED => Header::Fetched {
                life: life?,
                to: get_u32(b, 8),
                number: get_u32(b, 12),
            },
            STORES => Header::Stores(life?),
            _ => return None,
        })
    }
}

/// What a header says alone: one version.
fn version_of(word: u32) -> Option<Support> {
    let version = u8::try_from(word).ok().filter(|&v| v != 0)?;
    Some(Support::only(version))
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
    /// The other service speaks these versions, and this one none of them.
    Version(Support),
}

/// Finds out whether the other service is there.
#[derive(Debug)]
pub struct Greeting {
    support: Support,
    mine: Life,
    theirs: Option<Life>,
    /// A service that cannot be understood.
    foreign: Option<Life>,
    terms: Option<Terms>,
    open: bool,
}

impl Greeting {
    /// Of the service with this life; [`hello`](Self::hello) goes to the other one.
    pub fn new(mine: Life) -> Greeting {
        Greeting::speaking(SUPPORT, mine)
    }

    /// Of a service that speaks these versions.
    pub fn speaking(support: Support, mine: Life) -> Greeting {
        Greeting {
            support,
            mine,
            theirs: None,
            foreign: None,
            terms: None,
            open: false,
        }
    }

    /// What to tell the other service: at the start, and when [`receive`](Self::receive) says so.
    pub fn hello(&self) -> Hello {
        Hello {
            support: self.support,
            from: self.mine,
            seen: self.theirs,
        }
    }

    /// The life to address, while both listen to each other.
    pub fn partner(&self) -> Option<Life> {
        self.theirs.filter(|_| self.open)
    }

    /// What both speak, while both listen to each other.
    pub fn terms(&self) -> Option<Terms> {
        self.terms.filter(|_| self.open)
    }

    /// Whether a message to that life is for this service, and from one that it listens to.
    pub fn accepts(&self, life: Life) -> bool {
        self.open && life == self.mine
    }

    /// The other service has said hello. Whether it is to be answered, before anything else is
    /// sent, and what has changed.
    pub fn receive(&mut self, hello: Hello) -> (bool, Change) {
        let terms = self.support.agree(hello.support);
        if terms.is_none() {
            // It may have come later, and is told once what this service speaks.
            let is_new = self.foreign.replace(hello.from) != Some(hello.from);
            return (is_new, Change::Version(hello.support));
        }
        self.terms = terms;
        let was_open = self.open;
        let is_new = self.theirs != Some(hello.from);
        let knows_me = hello.seen == Some(self.mine);
        self.theirs = Some(hello.from);
        // It has known this one: it has started over, and its goodbye was lost.
        let restarts = was_open && hello.seen.is_none();
        self.open = knows_me || (was_open && !is_new && !restarts);
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

        /// Deliver one message to `who`, if there is any.
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

    /// design 4.2: a service that stays, and loses what it knew of the other one.
    #[test]
    fn a_service_that_starts_over_without_a_goodbye_ends_what_was_before() {
        let mut two = Two::new();
        two.greet(0);
        two.settle();
        two.ends[1] = Greeting::new(Life(2));
        two.greet(1);
        assert_eq!(two.deliver(0), Some(Change::Closed));
        assert_eq!(two.ends[0].partner(), None);
        two.settle();
        assert!(two.ends.iter().all(|end| end.partner().is_some()));
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
    fn services_without_a_common_version_both_hear_of_it_and_stay_apart() {
        for first in 0..2 {
            let (old, new) = (Support::only(2), Support::only(3));
            let mut two = Two::new();
            two.ends[0] = Greeting::speaking(old, Life(1));
            two.ends[1] = Greeting::speaking(new, Life(2));
            two.greet(first);
            let mut heard = [None; 2];
            for n in 0..20 {
                let change = two.deliver(n % 2);
                heard[n % 2] = heard[n % 2].or(change);
            }
            assert_eq!(heard, [new, old].map(|s| Some(Change::Version(s))));
            assert!(two.ways.iter().all(VecDeque::is_empty), "never ends");
            assert!(two.ends.iter().all(|end| end.partner().is_none()));
        }
    }

    /// design 4.1
    #[test]
    fn services_of_different_releases_agree_on_the_newest_common_version() {
        let newer = Support {
            oldest: 2,
            newest: 4,
            features: 7,
        };
        let mut two = Two::new();
        two.ends[1] = Greeting::speaking(newer, Life(2));
        two.greet(0);
        two.settle();
        let terms = two.ends.each_ref().map(Greeting::terms);
        assert_eq!(terms, [Some(newer.agree(SUPPORT).expect("shared")); 2]);
    }

    /// design 4.1: what the first release sends and listens to
    #[test]
    fn the_first_release_is_spoken_to() {
        let hello = Hello {
            support: Support {
                oldest: 2,
                newest: 9,
                features: 1,
            },
            from: Life(7),
            seen: None,
        };
        let header = Header::Hello(hello).encode();
        assert_eq!(header[12..], [2, 0, 0, 0]);
        let Some(Header::Hello(heard)) = Header::decode(&header) else {
            panic!("not a Hello");
        };
        assert_eq!(
            heard.with_data(&[]),
            Some(Hello {
                support: Support::only(2),
                ..hello
            })
        );
        assert_eq!(heard.with_data(&hello.data()), Some(hello));
        assert_eq!(heard.with_data(&[3, 2, 0, 0]), None);
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

        #[test]
        fn numbers_stand_behind_headers(header: [u8; SIZE], number: u32, len in 0..2 * NUMBERED) {
            let numbered = with_number(&header, number).expect("a header");
            prop_assert_eq!(split_number(&numbered), Some((&header[..], number)));
            let other = std::vec![0; len];
            prop_assert_eq!(with_number(&other, number).is_some(), len == SIZE);
            prop_assert_eq!(split_number(&other).is_some(), len == NUMBERED);
        }

        /// design 2, never 5
        #[test]
        fn headers_survive_the_wire(
            b in prop::collection::vec(any::<u8>(), 0..20),
            kind in 0u8..13,
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
                prop_assert!(b.len() != SIZE || !(1..12).contains(&kind) || b[4..8] == [0; 4]
                    || b[8..12] == [0; 4] || kind == 1 && version_of(get_u32(&b, 12)).is_none());
            }
        }
    }
}
