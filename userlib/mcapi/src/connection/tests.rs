// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of [`connection`](super).

use super::*;
use crate::NodeId;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
enum Event {
    Open(usize),
    Withdraw(usize),
    Close(usize),
    /// A close that is pending is cancelled.
    WithdrawClose(usize),
    /// The oldest thing that was told arrives.
    Deliver(usize),
    /// What the way for data waits for happens at an end.
    Way(usize),
    /// An end finds that there is no way for data, or none any more, and tells the other one.
    Fail(usize),
    /// An end's owner finds that the other node or the link has gone. What was told is lost.
    Sever(usize),
}

impl Event {
    fn end(self) -> usize {
        match self {
            Event::Open(end) | Event::Withdraw(end) | Event::Close(end) => end,
            Event::WithdrawClose(end) | Event::Deliver(end) | Event::Way(end) => end,
            Event::Fail(end) | Event::Sever(end) => end,
        }
    }
}

/// So often something is severed, in 50 events.
fn events(severs: u32) -> impl Strategy<Value = Vec<Event>> {
    let end = || 0..2_usize;
    let one = prop_oneof![
        9 => end().prop_map(Event::Open),
        3 => end().prop_map(Event::Withdraw),
        6 => end().prop_map(Event::Close),
        2 => end().prop_map(Event::WithdrawClose),
        18 => end().prop_map(Event::Deliver),
        12 => end().prop_map(Event::Way),
        severs => end().prop_map(Event::Fail),
        severs => end().prop_map(Event::Sever),
    ];
    prop::collection::vec(one, 0..60)
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Packets), Just(Kind::Scalars)]
}

/// The states of section 4.1 of an endpoint that was connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connected,
    OpenPending,
    Open,
    ClosePending,
    /// The other end is closed.
    OtherClosed,
    Broken,
    /// Not connected any more.
    Free,
}

impl State {
    /// What the status has of it.
    fn flags(self) -> u64 {
        match self {
            State::Connected | State::Free => 0,
            State::OpenPending => STATUS_OPEN_PENDING,
            // One that is broken stays open for the program until it closes it.
            State::Open | State::OtherClosed | State::Broken => STATUS_OPEN,
            State::ClosePending => STATUS_CLOSE_PENDING,
        }
    }

    fn of_open(self) -> Result<()> {
        match self {
            State::Connected => Ok(()),
            State::OpenPending => Err(Error::ChannelOpenPending),
            State::ClosePending => Err(Error::ChannelClosePending),
            _ => Err(Error::ChannelOpen),
        }
    }

    fn of_close(self) -> Result<()> {
        match self {
            State::Open | State::OtherClosed | State::Broken => Ok(()),
            _ => Err(Error::ChannelNotOpen),
        }
    }

    /// What a connect of the endpoint, or deleting it, gets.
    fn of_connect(self) -> Error {
        match self {
            State::ClosePending => Error::ChannelClosePending,
            _ => Error::ChannelConnected,
        }
    }

    /// Whether the table, or some rows of it at once, lead from a state to another one by an event.
    fn leads(self, event: Event, to: State) -> bool {
        use State::*;
        match (event, self, to) {
            (Event::Open(_), Connected, Connected) => false,
            (Event::Close(_), Open | Broken, Open | Broken) => false,
            _ if self == to => true,
            (Event::Open(_), Connected, OpenPending | Open | OtherClosed) => true,
            (Event::Withdraw(_), OpenPending, Connected) => true,
            (Event::Close(_), Open, ClosePending) => true,
            // Only what waits to be sent keeps it.
            (Event::Close(_), OtherClosed, ClosePending | Free) => true,
            (Event::Close(_), Broken, Free) => true,
            (Event::Deliver(_), OpenPending, Open) => true,
            (Event::Deliver(_), Open, OtherClosed) => true,
            (Event::Deliver(_), ClosePending, Free) => true,
            (Event::Way(_), OpenPending, Open | OtherClosed) => true,
            (Event::Way(_), ClosePending, Free) => true,
            (Event::Deliver(_) | Event::Fail(_) | Event::Sever(_), _, _) => {
                self.breaks_to() == Some(to)
            }
            _ => false,
        }
    }

    /// Where the loss of the other node, of the link, or of the way for data leads to.
    fn breaks_to(self) -> Option<State> {
        match self {
            State::Connected | State::OpenPending | State::ClosePending => Some(State::Free),
            State::Open | State::OtherClosed => Some(State::Broken),
            State::Broken | State::Free => None,
        }
    }
}

/// What a program has asked an end for, and what has come of it.
#[derive(Clone, Debug, Default)]
struct Seen {
    opening: Option<Request>,
    is_open: bool,
    closing: Option<Request>,
    has_closed: bool,
    /// The close was cancelled: nobody is told of its end.
    is_untold: bool,
    is_complete: bool,
    is_disconnected: bool,
    is_severed: bool,
    /// It was told that the other end is closed.
    other_has_closed: bool,
}

/// Both ends of a channel, and what is on the way between their owners.
struct Pair {
    ends: [Connection; 2],
    told: [VecDeque<Say>; 2],
    seen: [Seen; 2],
    /// The receiving end has to be posted, the sending end has to ask, the pair is made.
    post: bool,
    ask: bool,
    made: [bool; 2],
    /// The sender has closed, and something waits to be sent.
    is_full: bool,
    /// The owners can tell each other nothing any more.
    is_cut: bool,
    requests: u32,
}

const SENDER: usize = 0;
const RECEIVER: usize = 1;
const ENDS: [usize; 2] = [SENDER, RECEIVER];

impl Seen {
    /// It wants the channel, or has had it.
    fn asks(&self) -> bool {
        self.opening.is_some() || self.is_open
    }

    fn state(&self) -> State {
        match self {
            _ if self.is_disconnected => State::Free,
            _ if self.has_closed => State::ClosePending,
            _ if self.is_open && self.is_severed => State::Broken,
            _ if self.is_open && self.other_has_closed => State::OtherClosed,
            _ if self.is_open => State::Open,
            _ if self.opening.is_some() => State::OpenPending,
            _ => State::Connected,
        }
    }
}

impl Pair {
    fn new(kind: Kind) -> Self {
        let role = |direction| Role { kind, direction };
        let at = |node| Endpoint::of(NodeId::new(0, node).unwrap(), 1);
        Pair {
            ends: [
                Connection::new(7, role(Direction::Send), at(1)),
                Connection::new(7, role(Direction::Receive), at(0)),
            ],
            told: Default::default(),
            seen: Default::default(),
            post: false,
            ask: false,
            made: [false; 2],
            is_full: false,
            is_cut: false,
            requests: 0,
        }
    }

    fn request(&mut self) -> Request {
        self.requests += 1;
        Request::from_raw(self.requests)
    }

    /// Whether something was severed at one of the ends.
    fn is_severed(&self) -> bool {
        self.seen.iter().any(|seen| seen.is_severed)
    }

    /// Do what an end wants to be done.
    fn follow(&mut self, end: usize, steps: Vec<Step>) {
        for step in steps {
            // Only what is on the way may have changed that, or the loss of the other end, which
            // this one does not know of yet.
            let withdraws = |end: usize| self.told[end].contains(&Say::Withdrawn);
            let other = 1 - end;
            let other_asks =
                self.seen[other].asks() || withdraws(other) || self.seen[other].is_severed;
            let both_ask = self.seen[end].asks() && other_asks;
            let both_closed = self.seen.iter().all(|seen| seen.has_closed);
            let seen = &mut self.seen[end];
            assert!(
                !seen.is_disconnected || matches!(step, Step::Tell(_)),
                "{step:?}"
            );
            match step {
                Step::Tell(_) if self.is_cut => {}
                Step::Tell(say) => self.told[end].push_back(say),
                // MC-CHAN-2: only while both ask, and when data can move.
                Step::Opened(request) => {
                    assert!(both_ask && self.made[end] && !seen.is_severed);
                    assert_eq!(seen.opening.take(), Some(request));
                    seen.is_open = true;
                }
                // MC-CHAN-15: only after both.
                Step::Closed(request) => {
                    assert!(both_closed || seen.is_severed);
                    assert_eq!(seen.closing.take(), Some(request));
                    seen.is_complete = true;
                }
                Step::Failed(request, error) => {
                    assert_eq!(
                        (seen.opening.take(), error),
                        (Some(request), Error::General)
                    );
                    assert!(seen.is_severed);
                }
                Step::Post => {
                    assert!(end == RECEIVER && !self.post && both_ask);
                    self.post = true;
                }
                Step::Ask => {
                    assert!(end == SENDER && !self.ask);
                    self.ask = true;
                }
                Step::CloseHere => self.is_full |= end == SENDER && !seen.is_severed,
                Step::CloseThere => assert!(self.seen[1 - end].has_closed),
                Step::Sever => assert!(seen.is_severed),
                // MC-PKTSCLOSE-3: not before everything was sent.
                Step::Disconnect => {
                    assert!(seen.is_severed || end == RECEIVER || !self.is_full);
                    seen.is_disconnected = true;
                }
            }
        }
    }

    /// Let something happen, and hold what it has led to against the table of section 4.1.
    fn step(&mut self, event: Event) {
        let before = self.seen.each_ref().map(Seen::state);
        let was_severed = self.seen.each_ref().map(|seen| seen.is_severed);
        self.happen(event);
        for end in ENDS {
            let (seen, connection) = (&self.seen[end], &self.ends[end]);
            let state = seen.state();
            let may = match end == event.end() {
                true => before[end].leads(event, state),
                false => before[end] == state,
            };
            assert!(may, "{end}: {:?} {event:?} {state:?}", before[end]);
            // At once, whatever waits to be sent.
            if seen.is_severed && !was_severed[end] {
                let broken = before[end].breaks_to().unwrap_or(before[end]);
                assert_eq!(state, broken, "{end}: {event:?}");
            }
            if state == State::Free {
                continue;
            }
            assert_eq!(connection.flags(), state.flags(), "{state:?}");
            assert_eq!(connection.check_open(connection.role), state.of_open());
            assert_eq!(connection.check_close(), state.of_close());
            assert_eq!(connection.is_taken(), state.of_connect());
        }
    }

    fn happen(&mut self, event: Event) {
        let end = event.end();
        let mut steps = Vec::new();
        let seen = &self.seen[end];
        if seen.is_disconnected && !matches!(event, Event::Deliver(_) | Event::Sever(_)) {
            return;
        }
        match event {
            Event::Open(_) if seen.state() == State::Connected => {
                let request = self.request();
                self.seen[end].opening = Some(request);
                self.ends[end].open(request, &mut steps);
            }
            Event::Withdraw(_) => {
                if let Some(request) = self.seen[end].opening.take() {
                    self.ends[end].withdraw_open(request, &mut steps);
                }
            }
            Event::Close(_) if seen.state().of_close().is_ok() => {
                let request = self.request();
                let seen = &mut self.seen[end];
                (seen.closing, seen.has_closed) = (Some(request), true);
                self.ends[end].close(request, &mut steps);
            }
            Event::WithdrawClose(_) => {
                if let Some(request) = self.seen[end].closing.take() {
                    self.seen[end].is_untold = true;
                    self.ends[end].withdraw_close(request);
                }
            }
            Event::Deliver(to) => self.deliver(to, &mut steps),
            Event::Way(_) => self.way(end, &mut steps),
            Event::Fail(_) => {
                self.seen[end].is_severed = true;
                self.ends[end].fail(&mut steps);
            }
            Event::Sever(_) => {
                self.is_cut = true;
                self.told = Default::default();
                if !self.seen[end].is_disconnected {
                    self.seen[end].is_severed = true;
                    self.ends[end].sever(&mut steps);
                }
            }
            Event::Open(_) | Event::Close(_) => {}
        }
        self.follow(end, steps);
    }

    fn deliver(&mut self, to: usize, steps: &mut Vec<Step>) {
        let arrived = self.told[1 - to].pop_front();
        let seen = &mut self.seen[to];
        if let Some(say) = arrived.filter(|_| !seen.is_disconnected) {
            seen.is_severed |= say == Say::Severed;
            seen.other_has_closed |= say == Say::Closed;
            self.ends[to].told(say, steps);
        }
    }

    fn way(&mut self, end: usize, steps: &mut Vec<Step>) {
        match end {
            RECEIVER if self.post && !self.made[RECEIVER] => {
                if self.ask {
                    self.made[RECEIVER] = true;
                    self.ends[end].ready(steps);
                } else if !self.is_cut && !self.told[RECEIVER].contains(&Say::Posted) {
                    self.told[RECEIVER].push_back(Say::Posted);
                }
            }
            SENDER if self.ask && !self.made[SENDER] => {
                self.made[SENDER] = true;
                self.ends[end].ready(steps);
            }
            SENDER if self.is_full => {
                self.is_full = false;
                self.ends[SENDER].drained(steps);
            }
            _ => {}
        }
    }

    /// Let everything happen that can: a link that was cut is found to be so at both ends.
    fn run(&mut self) {
        for _ in 0..40 {
            for end in ENDS {
                self.step(Event::Way(end));
                self.step(Event::Deliver(end));
            }
        }
        for end in ENDS.into_iter().filter(|_| self.is_cut).collect::<Vec<_>>() {
            self.step(Event::Sever(end));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// MC-CHAN-2, MC-CHAN-9, MC-CHAN-15, MC-PKTROPEN-6, MC-PKTRCLOSE-6: in whatever order both ends
    /// are opened, withdrawn and closed, and whatever crosses what.
    #[test]
    fn ends_open_and_close_together(kind in kinds(), events in events(0)) {
        let mut pair = Pair::new(kind);
        for event in &events {
            pair.step(*event);
        }
        pair.run();
        let [sender, receiver] = &pair.seen;
        if sender.asks() && receiver.asks() {
            prop_assert!(sender.is_open && receiver.is_open, "{:?}", pair.seen);
        }
        let both_closed = sender.has_closed && receiver.has_closed;
        for seen in &pair.seen {
            prop_assert_eq!(seen.is_complete, both_closed && !seen.is_untold);
            prop_assert_eq!(seen.is_disconnected, both_closed);
        }
    }

    /// MC-CHAN-16: the same when the way for data fails, or the link is lost, at any step, and each
    /// end goes on before and after it finds out: what is pending ends, and an end that was open is
    /// the program's to close, at once.
    #[test]
    fn ends_that_are_severed_end(kind in kinds(), events in events(1)) {
        let mut pair = Pair::new(kind);
        for event in &events {
            pair.step(*event);
        }
        pair.run();
        if !pair.is_severed() {
            return Ok(());
        }
        for end in ENDS {
            let seen = &pair.seen[end];
            prop_assert!(seen.opening.is_none() && seen.closing.is_none(), "{:?}", seen);
            let is_kept = seen.is_open && !seen.has_closed;
            prop_assert_eq!(seen.is_disconnected, !is_kept, "{:?}", seen);
            prop_assert_eq!(seen.is_complete, seen.has_closed && !seen.is_untold);
            pair.step(Event::Close(end));
            prop_assert_eq!(pair.seen[end].state(), State::Free);
            prop_assert!(pair.seen[end].closing.is_none());
        }
    }
}

/// MC-CHAN-2, MC-PKTROPEN-6: data that could move do not open an end alone.
#[test]
fn an_end_does_not_open_alone() {
    for [first, second] in [[SENDER, RECEIVER], [RECEIVER, SENDER]] {
        let mut pair = Pair::new(Kind::Packets);
        for end in ENDS {
            pair.step(Event::Open(end));
        }
        for end in [RECEIVER, SENDER] {
            pair.step(Event::Deliver(end));
        }
        pair.step(Event::Withdraw(first));
        pair.step(Event::Withdraw(second));
        pair.run();
        assert!(pair.made[SENDER] && pair.made[RECEIVER]);
        pair.step(Event::Open(first));
        pair.run();
        assert!(pair.seen[first].opening.is_some() && !pair.seen[first].is_open);
        pair.step(Event::Open(second));
        pair.run();
        assert!(pair.seen.iter().all(|seen| seen.is_open));
    }
}

/// MC-CHAN-5, MC-CHAN-11, A-28
#[test]
fn an_end_opens_as_what_it_was_connected_for() {
    use {Direction::*, Kind::*};
    let all = [
        (Packets, Send),
        (Packets, Receive),
        (Scalars, Send),
        (Scalars, Receive),
    ];
    let all = all.map(|(kind, direction)| Role { kind, direction });
    for (role, wanted) in all
        .into_iter()
        .flat_map(|role| all.map(|other| (role, other)))
    {
        let expected = match (role.kind == wanted.kind, role.direction == wanted.direction) {
            (true, true) => Ok(()),
            (true, false) => Err(Error::ChannelDirection),
            (false, _) => Err(Error::ChannelType),
        };
        let partner = Endpoint::of(NodeId::new(0, 1).unwrap(), 1);
        let end = Connection::new(1, role, partner);
        assert_eq!(end.check_open(wanted), expected);
        assert_eq!(role.other().other(), role);
    }
}
