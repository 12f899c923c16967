// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The two tables of an engine: sessions of this host, and those of the other one.
//!
//! What a session still has to tell the other host is noted in its entry, with the time of the
//! decision (a count, not a clock), and told in that order; so no message needs a place in a
//! queue, and none is lost. An entry stays until all is told and the other host, too, has
//! finished with it: a number is never ambiguous.

use crate::pairing::message::{Pairing, Why};
use crate::pairing::terms::{Connection, Limits, Params, Span};
use crate::rows::{Key, Node, Order, Ordered};

/// By when the earliest was decided of what is to be told.
pub(super) const DUE: Order = Order::nth(1);

/// What has a turn, by since when; see [`Turn`].
pub(super) const TURN: Order = Order::nth(2);

/// Posted peers, by when they were posted.
pub(super) const PEER: Order = Order::nth(3);

/// What may be given a partner, by [what it has in common](Params::alike) with all that may be
/// given the same, and by when it was posted.
pub(super) const ALIKE: Order = Order::nth(4);

/// By identifiers: own sessions, and those of the other host that are listed.
pub(super) const UID: Order = Order::nth(5);

/// Own clients whose request is at a server of the other host, by that server.
pub(super) const SERVER: Order = Order::nth(6);

/// What a session has a turn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It looks for a partner.
    Seek,
    /// Its owner has accepted a client.
    Settle,
}

/// When something was decided that is still to be told; zero if there is nothing.
pub(super) type Due = u64;

/// The key of the earliest of what is due.
fn earliest(all: impl IntoIterator<Item = Due>) -> Option<Key> {
    let due = all.into_iter().filter(|due| *due != 0).min()?;
    Some((due, 0))
}

/// Whether it is a peer that waits.
fn is_peer(params: &Params, waits: bool) -> bool {
    params.connection == Connection::Peer && waits
}

/// What an own session is to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// The other session's number.
    pub partner: u32,
    /// The window backed here.
    pub local: Option<Span>,
    /// The window backed on the other host.
    pub remote: Option<Span>,
    /// The other session is closed.
    pub partner_closed: bool,
}

/// Where an own session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Looks for a partner while the process waits.
    Asking,
    /// Its post has not been acknowledged; the process waits.
    Posting,
    /// A client whose request is at a server that answers itself, under that number; zero if the
    /// arbiter has not told which.
    Held(u32),
    /// Posted.
    Open,
    /// Has, or had, a partner.
    Paired(Pair),
    /// The other host knows it no more.
    Over,
}

/// What the asker holds for a session while the arbiter decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Nothing,
    /// Nothing can be held: the answer to the arbiter's last question.
    Denied,
    Window(Option<Span>),
}

/// A session of this host.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    pub(super) number: u32,
    pub(super) params: Params,
    alike: u64,
    /// Its identifier; zero while it has none.
    pub(super) uid: u32,
    pub(super) stage: Stage,
    /// Its owner has closed it.
    pub(super) closed: bool,
    /// When it began to ask, and later, when it was posted.
    pub(super) order: u64,
    pub(super) hold: Hold,
    /// REQUEST or POST, by its stage.
    pub(super) ask: Due,
    /// RESERVED.
    pub(super) answer: Due,
    /// CLOSE.
    pub(super) close: Due,
    /// Of a server that answers itself: the client whose request is at hand.
    pub(super) client: Option<u32>,
    /// When that was accepted.
    pub(super) accepted: Due,
    /// ACCEPT, or REJECT.
    pub(super) verdict: Due,
    /// The client that REJECT is for, and the reason.
    pub(super) rejects: Option<(u32, u32)>,
}

impl Own {
    pub(super) fn new(number: u32, params: &Params, stage: Stage) -> Own {
        Own {
            number,
            params: *params,
            alike: params.alike(),
            uid: 0,
            stage,
            closed: false,
            order: 0,
            hold: Hold::Nothing,
            ask: 0,
            answer: 0,
            close: 0,
            client: None,
            accepted: 0,
            verdict: 0,
            rejects: None,
        }
    }

    pub(super) fn pair(&self) -> Option<&Pair> {
        match &self.stage {
            Stage::Paired(pair) => Some(pair),
            _ => None,
        }
    }

    /// Whether it may be given a partner that asks for one.
    pub(super) fn waits(&self) -> bool {
        self.stage == Stage::Open && !self.closed && self.client.is_none()
    }

    /// Whether it looks for a partner for its process.
    pub(super) fn asks(&self) -> bool {
        self.stage == Stage::Asking && !self.closed
    }

    /// Whether its request waits for an answer.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Held(_)) && !self.closed
    }

    /// What it has a turn for, and since when.
    pub(super) fn turn(&self) -> Option<(Turn, u64)> {
        match self.accepted {
            accepted if accepted != 0 && !self.closed => Some((Turn::Settle, accepted)),
            _ => self.asks().then_some((Turn::Seek, self.order)),
        }
    }

    /// Whether nobody needs the entry any more.
    pub(super) fn is_finished(&self) -> bool {
        let dues = [self.ask, self.answer, self.close, self.verdict];
        let told = dues == [0; 4];
        told && match self.stage {
            Stage::Over => true,
            Stage::Paired(pair) => self.closed && pair.partner_closed,
            _ => false,
        }
    }
}

impl Ordered for Own {
    type Nodes = [Node; 7];

    fn number(&self) -> u32 {
        self.number
    }

    fn key(&self, order: Order) -> Option<Key> {
        let number = u64::from(self.number);
        match order {
            DUE => earliest([self.ask, self.answer, self.verdict, self.close]),
            TURN => self.turn().map(|(_, since)| (since, 0)),
            PEER => is_peer(&self.params, self.waits()).then_some((self.order, 0)),
            ALIKE => self.waits().then_some((self.alike, self.order)),
            UID => (self.uid != 0).then_some((u64::from(self.uid), number)),
            SERVER => match self.stage {
                Stage::Held(server) => Some((u64::from(server), number)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Where a session of the other host stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FarStage {
    /// Looks for a partner; known to the arbiter only.
    Asking,
    /// A client whose request an own server, of that number, has at hand.
    Held(u32),
    /// Posted.
    Open,
    /// Has an own session for a partner; not closed. Sizes as that host sees them.
    Paired { local: u64, remote: u64 },
    /// Refused or closed: stays until the other host has been told.
    Gone,
}

/// What the arbiter has to tell about a session of the asker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Reserve(Limits),
    Release,
    Unable,
    Paired(Pairing),
}

/// What the other host is to learn of its session for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Posted,
    Refused(Why),
    Closed,
}

/// A session of the other host.
#[derive(Debug, Clone, Copy)]
pub struct Far {
    pub(super) number: u32,
    pub(super) params: Params,
    alike: u64,
    /// Its identifier; zero while it has none.
    pub(super) uid: u32,
    pub(super) stage: FarStage,
    /// Its own partner, zero without one.
    pub(super) partner: u32,
    /// When it began to ask, and later, when it was posted.
    pub(super) order: u64,
    pub(super) answer: Due,
    pub(super) answer_is: Answer,
    pub(super) step: Due,
    pub(super) step_is: Step,
    /// HELD.
    pub(super) notice: Due,
    /// Of a server that answers itself: the own client whose request it has; zero without.
    pub(super) client: u32,
    /// When it has accepted that.
    pub(super) accepted: Due,
}

impl Far {
    pub(super) fn new(number: u32, params: &Params, uid: u32, stage: FarStage) -> Far {
        Far {
            number,
            params: *params,
            alike: params.alike(),
            uid,
            stage,
            partner: 0,
            order: 0,
            answer: 0,
            answer_is: Answer::Posted,
            step: 0,
            step_is: Step::Release,
            notice: 0,
            client: 0,
            accepted: 0,
        }
    }

    /// Whether it may be given a partner that asks for one.
    pub(super) fn waits(&self) -> bool {
        self.stage == FarStage::Open && self.client == 0
    }

    /// What it has a turn for, and since when.
    pub(super) fn turn(&self) -> Option<(Turn, u64)> {
        match self.accepted {
            0 => (self.stage == FarStage::Asking).then_some((Turn::Seek, self.order)),
            accepted => Some((Turn::Settle, accepted)),
        }
    }

    /// Whether processes of this host see it.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.stage, FarStage::Open | FarStage::Paired { .. })
    }

    /// Whether nobody needs the entry any more.
    pub(super) fn is_finished(&self) -> bool {
        let dues = [self.answer, self.step, self.notice];
        self.stage == FarStage::Gone && dues == [0; 3]
    }
}

impl Ordered for Far {
    type Nodes = [Node; 6];

    fn number(&self) -> u32 {
        self.number
    }

    fn key(&self, order: Order) -> Option<Key> {
        match order {
            DUE => earliest([self.answer, self.step, self.notice]),
            TURN => self.turn().map(|(_, since)| (since, 0)),
            PEER => is_peer(&self.params, self.waits()).then_some((self.order, 0)),
            ALIKE => self.waits().then_some((self.alike, self.order)),
            UID => {
                let key = (u64::from(self.uid), u64::from(self.number));
                self.is_listed().then_some(key)
            }
            _ => None,
        }
    }
}
