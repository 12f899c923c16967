// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Placed transfers between two hosts, under a seeded scheduler: copies of several connections are
//! begun, given up and ended at any step, frames take their time but keep their order, the link is
//! lost and comes back. Exchanges of words go among them, and each is told what it has come to. And a
//! host that says whatever it likes.

use mp_proto::sharing::placed::{
    Budget, Exchanged, Lost, Stray, Ticket, Totals, Transfers, Watch, BUDGET, PIECE, SHARE,
};
use mp_proto::sharing::requests::{turn, Request, Requests};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

/// Connections, which are guests at the other host.
const CONNECTIONS: usize = 4;

/// What is stored of a piece in this model: its copy and where in the copy.
type Target = (usize, usize);

/// Most bytes of a frame, below those of a piece.
const FRAME: u32 = PIECE as u32 / 2 + 1;

enum Frame {
    Put(usize),
    Exchange(usize, Word),
    Fetch(usize, Request),
    Placed(usize, Totals),
    Fetched(usize, u32, usize),
}

/// What a word is compared with, and what it is to become: each value is had once.
type Word = (u64, u64);

/// An exchange that was sent.
struct Sent {
    connection: usize,
    ticket: Ticket,
    word: Word,
    /// How often the link had been lost.
    losses: usize,
}

#[derive(Default)]
struct Guest {
    requests: Requests,
    totals: Totals,
}

struct Copy {
    connection: usize,
    reads: bool,
    left: usize,
    last: Option<Ticket>,
    failed_before: u32,
    is_over: bool,
    stored: usize,
}

#[derive(Default)]
struct Two {
    budget: Budget,
    connections: [Transfers<Target>; CONNECTIONS],
    guests: [Guest; CONNECTIONS],
    last: u32,
    /// What the other host has sent, and has not gone on from.
    sending: Option<(u32, Request)>,
    copies: Vec<Copy>,
    /// The words of the segments, and what has become of exchanges, by their new values.
    words: [u64; CONNECTIONS],
    exchanged: HashMap<u64, Exchanged>,
    exchanges: Vec<Sent>,
    sent: u64,
    losses: usize,
    there: VecDeque<Frame>,
    back: VecDeque<Frame>,
}

impl Two {
    fn begin(&mut self, connection: usize, reads: bool, pieces: usize) {
        self.budget.join();
        self.copies.push(Copy {
            connection,
            reads,
            left: pieces,
            last: None,
            failed_before: self.connections[connection].failed(),
            is_over: false,
            stored: 0,
        });
    }

    /// A copy goes on, if it may.
    fn advance(&mut self, which: usize) -> bool {
        let copy = &mut self.copies[which];
        if copy.is_over {
            return false;
        }
        let n = copy.connection;
        let transfers = &mut self.connections[n];
        if copy.left == 0 {
            if copy.last.is_none_or(|ticket| transfers.is_done(ticket)) {
                self.end(which);
                return true;
            }
            return false;
        }
        let sent = match copy.reads {
            true => transfers.fetch(&mut self.budget, (which, copy.left), PIECE),
            false => transfers.put(&mut self.budget),
        };
        let Some(ticket) = sent else { return false };
        copy.last = Some(ticket);
        copy.left -= 1;
        self.there.push_back(match copy.reads {
            true => Frame::Fetch(
                n,
                Request {
                    number: ticket.number,
                    len: PIECE as u32,
                    at: 0,
                },
            ),
            false => Frame::Put(n),
        });
        true
    }

    /// An exchange begins, if it may; of what it expects is right as often as not.
    fn exchange(&mut self, n: usize, is_right: bool) {
        let Some(ticket) = self.connections[n].exchange(&mut self.budget) else {
            return;
        };
        self.sent += 1;
        let expected = if is_right { self.words[n] } else { u64::MAX };
        let word = (expected, self.sent);
        self.exchanges.push(Sent {
            connection: n,
            ticket,
            word,
            losses: self.losses,
        });
        self.there.push_back(Frame::Exchange(n, word));
    }

    /// Somebody asks what an exchange has come to, or does not want to know.
    fn take_exchanged(&mut self, which: usize, is_wanted: bool) -> bool {
        let sent = &self.exchanges[which];
        let transfers = &mut self.connections[sent.connection];
        if !is_wanted {
            transfers.abandon(sent.ticket);
            self.exchanges.swap_remove(which);
            return true;
        }
        let Some(exchanged) = transfers.take_exchanged(sent.ticket) else {
            return false;
        };
        match exchanged {
            Ok(exchanged) => assert_eq!(self.exchanged[&sent.word.1], exchanged),
            Err(Lost) => assert_ne!(sent.losses, self.losses),
        }
        self.exchanges.swap_remove(which);
        true
    }

    fn end(&mut self, which: usize) {
        let copy = &mut self.copies[which];
        if !std::mem::replace(&mut copy.is_over, true) {
            self.budget.leave();
            self.connections[copy.connection].forget(|(of, _)| *of == which);
        }
    }

    /// The other host hears the next frame.
    fn serve(&mut self) -> bool {
        match self.there.pop_front() {
            Some(Frame::Put(n)) => {
                self.guests[n].totals.count(true);
                self.back.push_back(Frame::Placed(n, self.guests[n].totals));
            }
            Some(Frame::Exchange(n, (expected, desired))) => {
                let exchanged = match self.words[n] == expected {
                    _ if desired % 8 == 0 => Exchanged::Refused,
                    true => Exchanged::Made,
                    false => Exchanged::Missed,
                };
                if exchanged == Exchanged::Made {
                    self.words[n] = desired;
                }
                assert_eq!(self.exchanged.insert(desired, exchanged), None, "twice");
                self.guests[n].totals.count_exchange(exchanged);
                // It may be told with the piece that comes next.
                if !matches!(self.there.front(), Some(Frame::Put(m)) if *m == n) {
                    self.back.push_back(Frame::Placed(n, self.guests[n].totals));
                }
            }
            Some(Frame::Fetch(n, request)) => {
                assert_eq!(self.guests[n].requests.enter(request), Ok(()));
            }
            _ => return false,
        }
        true
    }

    /// The other host sends the next part of what was asked for.
    fn push(&mut self) -> bool {
        if let Some((n, part)) = self.sending.take() {
            self.guests[n as usize].requests.sent(&part);
            return true;
        }
        let waiting = (0..CONNECTIONS).filter(|n| !self.guests[*n].requests.is_empty());
        let Some(n) = turn(waiting.map(|n| n as u32), self.last) else {
            return false;
        };
        self.last = n;
        let part = self.guests[n as usize].requests.next(FRAME);
        let part = part.expect("it waits");
        self.sending = Some((n, part));
        self.back
            .push_back(Frame::Fetched(n as usize, part.number, part.len as usize));
        true
    }

    fn hear(&mut self) -> bool {
        let budget = &mut self.budget;
        match self.back.pop_front() {
            Some(Frame::Placed(n, totals)) => {
                assert_eq!(self.connections[n].placed(totals, budget), Ok(()));
            }
            Some(Frame::Fetched(n, number, len)) => {
                let copies = &mut self.copies;
                let store = |(which, _): &Target, _| {
                    assert!(!copies[*which].is_over, "stored after the end");
                    copies[*which].stored += len;
                    true
                };
                let fetched = self.connections[n].fetched(number, len, store);
                if let Some(settled) = fetched.expect("it was asked for") {
                    budget.settle(settled);
                }
            }
            _ => return false,
        }
        true
    }

    fn lose_link(&mut self) {
        self.there.clear();
        self.back.clear();
        self.guests = Default::default();
        self.losses += 1;
        self.sending = None;
        for transfers in &mut self.connections {
            transfers.lose(&mut self.budget);
        }
        self.check();
        assert_eq!(self.budget.under_way(), 0);
    }

    fn check(&self) {
        let under_way = self.connections.iter().map(Transfers::under_way);
        assert!(under_way.clone().all(|count| count <= SHARE));
        assert_eq!(under_way.sum::<usize>(), self.budget.under_way());
        assert!(self.budget.under_way() <= BUDGET);
    }

    fn step(&mut self, what: u8, n: usize) {
        let open = self.copies.len();
        match what {
            0 => self.begin(n % CONNECTIONS, n % 2 == 0, n % 23),
            1 if open != 0 && n % 4 == 0 => self.end(n % open),
            2 if n % 16 == 0 => self.lose_link(),
            3..=6 if open != 0 => drop(self.advance(n % open)),
            7 => drop(self.serve()),
            8 => drop(self.push()),
            11..=12 => self.exchange(n % CONNECTIONS, n % 8 < 4),
            13 if !self.exchanges.is_empty() => {
                self.take_exchanged(n % self.exchanges.len(), n % 5 != 0);
            }
            _ => drop(self.hear()),
        }
        self.check();
    }

    /// All copies end, by themselves.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for which in 0..self.copies.len() {
                moved |= self.advance(which);
            }
            moved |= self.serve() | self.push() | self.hear();
            self.check();
            if !moved {
                break;
            }
        }
        while !self.exchanges.is_empty() {
            assert!(self.take_exchanged(0, true), "never told");
        }
        assert!(self.copies.iter().all(|copy| copy.is_over));
        assert_eq!(self.budget.under_way(), 0);
    }
}

proptest! {
    #[test]
    fn copies_end_and_never_have_more_under_way_than_they_may(
        steps in prop::collection::vec((0u8..15, 0usize..1000), 0..400),
    ) {
        let mut two = Two::default();
        for (what, n) in steps {
            two.step(what, n);
        }
        two.settle();
    }

    #[test]
    fn a_copy_that_nobody_disturbs_is_complete(
        pieces in prop::collection::vec(0usize..30, 1..8),
    ) {
        let mut two = Two::default();
        for (n, pieces) in pieces.iter().enumerate() {
            two.begin(n % CONNECTIONS, true, *pieces);
        }
        two.settle();
        for (copy, pieces) in two.copies.iter().zip(pieces) {
            prop_assert_eq!(copy.stored, pieces * PIECE);
            prop_assert_eq!(copy.failed_before, two.connections[copy.connection].failed());
        }
    }

    /// design 2, never 5
    #[test]
    fn a_host_that_lies_stores_nothing_that_was_not_asked_for(
        steps in prop::collection::vec((0u8..8, any::<u32>(), 0usize..PIECE * 2), 0..300),
    ) {
        let mut budget = Budget::default();
        let mut transfers = Transfers::default();
        let mut exchange = None;
        budget.join();
        for (what, n, len) in steps {
            match what {
                0 => drop(transfers.put(&mut budget)),
                1 => drop(transfers.fetch(&mut budget, len.max(1), len.max(1))),
                2 => transfers.forget(|target| target % 2 == 0),
                3 => {
                    let part = |by| n / by % 2;
                    let totals = Totals {
                        done: n % 10,
                        failed: n / 3 % 4,
                        missed: part(7),
                        refused: part(11),
                    };
                    let _ = transfers.placed(totals, &mut budget);
                }
                6 => exchange = transfers.exchange(&mut budget).or(exchange),
                7 => {
                    let taken = exchange.and_then(|ticket| transfers.take_exchanged(ticket));
                    if taken.is_some() {
                        exchange = None;
                    }
                }
                4 if n % 50 == 0 => transfers.lose(&mut budget),
                _ => {
                    let store = |target: &usize, at: usize| {
                        assert!(len != 0 && at + len <= *target, "outside");
                        n % 3 != 0
                    };
                    if let Ok(Some(settled)) = transfers.fetched(n % 12, len, store) {
                        budget.settle(settled);
                    }
                }
            }
            prop_assert_eq!(transfers.under_way(), budget.under_way());
            prop_assert!(budget.under_way() <= SHARE);
        }
    }
}

#[test]
fn many_copies_share_the_budget() {
    let mut budget = Budget::default();
    let mut all: [Transfers<()>; BUDGET / 2] = Default::default();
    all.iter().for_each(|_| budget.join());
    for transfers in &mut all {
        while transfers.put(&mut budget).is_some() {}
        assert_eq!(transfers.under_way(), 2);
    }
    assert_eq!(budget.under_way(), BUDGET);
}

#[test]
fn what_failed_is_counted_and_does_not_hold_up_the_rest() {
    let (mut budget, mut transfers) = (Budget::default(), Transfers::default());
    let first = transfers.fetch(&mut budget, 1, 100).expect("there is room");
    let second = transfers.fetch(&mut budget, 2, 100).expect("there is room");
    let never = |_: &i32, _| panic!("nothing is stored");
    assert_eq!(transfers.fetched(second.number, 100, never), Err(Stray));
    let settled = transfers.fetched(first.number, 0, never);
    budget.settle(settled.expect("the next one").expect("all of it"));
    assert!(transfers.is_done(first) && !transfers.is_done(second));
    let some = transfers.fetched(second.number, 60, |_, at| at == 0);
    assert_eq!(some, Ok(None));
    // More than was asked for.
    let settled = transfers.fetched(second.number, 60, never);
    budget.settle(settled.expect("the next one").expect("all of it"));
    assert_eq!((transfers.failed(), budget.under_way()), (2, 0));
}

/// What waits for others' pieces, or for room, is not given up for what the other host does not
/// do.
#[test]
fn a_host_is_watched_while_it_has_something_to_deal_with() {
    let (mut budget, mut transfers) = (Budget::default(), Transfers::<()>::default());
    let mut watch = Watch::new(transfers.progress(), 100);
    assert_eq!(watch.stalled_for(transfers.progress(), 900), 0);
    for _ in 0..2 {
        transfers.put(&mut budget).expect("there is room");
    }
    assert_eq!(watch.stalled_for(transfers.progress(), 950), 50);
    let totals = Totals {
        done: 1,
        ..Totals::default()
    };
    assert_eq!(transfers.placed(totals, &mut budget), Ok(()));
    assert_eq!(watch.stalled_for(transfers.progress(), 980), 0);
    assert_eq!(watch.stalled_for(transfers.progress(), 1080), 100);
    transfers.lose(&mut budget);
    assert_eq!(watch.stalled_for(transfers.progress(), 2000), 0);
    assert_eq!(budget.progress().under_way, 0);
}

#[test]
fn a_piece_that_could_not_be_sent_is_not_under_way() {
    let (mut budget, mut transfers) = (Budget::default(), Transfers::<()>::default());
    let first = transfers.put(&mut budget).expect("there is room");
    transfers.unsent(first, &mut budget);
    assert_eq!((transfers.under_way(), budget.under_way()), (0, 0));
    let again = transfers.put(&mut budget).expect("there is room");
    assert_eq!(again, first);
    transfers.lose(&mut budget);
    transfers.unsent(again, &mut budget);
    assert_eq!((transfers.failed(), budget.under_way()), (1, 0));
    assert!(transfers.is_done(again));
}

#[test]
fn a_connection_has_one_exchange_under_way_which_is_told_its_own_end() {
    let (mut budget, mut transfers) = (Budget::default(), Transfers::<()>::default());
    let piece = transfers.put(&mut budget).expect("there is room");
    let first = transfers.exchange(&mut budget).expect("there is room");
    assert_eq!(transfers.exchange(&mut budget), None);
    let mut totals = Totals::default();
    totals.count(true);
    // It is not the piece's, nor is the next one there yet.
    let early = Totals {
        missed: 1,
        ..totals
    };
    assert_eq!(transfers.placed(early, &mut budget), Err(Stray));
    assert_eq!(transfers.placed(totals, &mut budget), Ok(()));
    assert!(transfers.is_done(piece));
    assert_eq!(transfers.take_exchanged(first), None);
    totals.count_exchange(Exchanged::Missed);
    assert_eq!(transfers.placed(totals, &mut budget), Ok(()));
    // Until it was heard.
    assert_eq!(transfers.exchange(&mut budget), None);
    assert_eq!(transfers.take_exchanged(first), Some(Ok(Exchanged::Missed)));
    let second = transfers.exchange(&mut budget).expect("there is room");
    transfers.abandon(second);
    assert_eq!(transfers.exchange(&mut budget), None);
    totals.count_exchange(Exchanged::Made);
    assert_eq!(transfers.placed(totals, &mut budget), Ok(()));
    let third = transfers.exchange(&mut budget).expect("there is room");
    transfers.lose(&mut budget);
    assert_eq!(transfers.take_exchanged(third), Some(Err(Lost)));
    let fourth = transfers.exchange(&mut budget).expect("there is room");
    transfers.unsent(fourth, &mut budget);
    assert!(transfers.exchange(&mut budget).is_some());
    assert_eq!(transfers.failed(), 1);
}
