// SPDX-License-Identifier: MIT OR Apache-2.0

//! The end of a channel that an endpoint is: connected, opened, closed (section 4.1 of the digest).
//! No I/O, and no tables: what has to be done about a change is a list of [`Step`]s.
//!
//! | own \ other | idle | open | closed |
//! |---|---|---|---|
//! | idle | CONN | CONN | CONN |
//! | opening | CONN_OPENP, also if data can move | CONN_OPENP, until data can move | the same |
//! | open | never | OPEN, also if the other one has withdrawn its open since | RCLOSED |
//! | closing | CLOSEP | CLOSEP | disconnected |
//!
//! An end opens when both have asked for it, as far as it was told, and the way for data is there. That
//! way is made once in the life of a connection, whoever withdraws what meanwhile. An end that has
//! opened when the other one withdraws stays open, and the other one opens at once when it asks again.

use crate::{
    attributes::{STATUS_CLOSE_PENDING, STATUS_OPEN, STATUS_OPEN_PENDING},
    channel::{Direction, Kind},
    Endpoint, Error, Request, Result,
};

/// What an end of a channel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Role {
    pub(crate) kind: Kind,
    pub(crate) direction: Direction,
}

impl Role {
    /// The role of the other end.
    pub(crate) fn other(self) -> Self {
        let direction = match self.direction {
            Direction::Send => Direction::Receive,
            Direction::Receive => Direction::Send,
        };
        Role { direction, ..self }
    }

    /// Whether an end that was connected for this role can be opened for that one (MC-CHAN-5).
    ///
    /// # Errors
    /// [`Error::ChannelType`], [`Error::ChannelDirection`].
    pub(crate) fn check(self, wanted: Role) -> Result<()> {
        if self.kind != wanted.kind {
            return Err(Error::ChannelType);
        }
        match self.direction == wanted.direction {
            true => Ok(()),
            false => Err(Error::ChannelDirection),
        }
    }

    /// What happens to data that can neither come nor go (MC-CHAN-16).
    pub(crate) fn severed(self) -> Error {
        match self.kind {
            Kind::Packets => Error::Transmission,
            Kind::Scalars => Error::General,
        }
    }
}

/// What the two owners tell each other of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Say {
    /// This end was opened.
    Open = 0,
    /// This end was not opened after all. One that is open already stays so.
    Withdrawn = 1,
    /// This end was closed.
    Closed = 2,
    /// The receiving end can be asked for the way for data.
    Posted = 3,
    /// Data can neither come nor go any more.
    Severed = 4,
}

impl Say {
    pub(crate) fn of(number: u32) -> Option<Self> {
        use Say::*;
        let all = [Open, Withdrawn, Closed, Posted, Severed];
        all.into_iter().find(|say| *say as u32 == number)
    }
}

/// What has to be done about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Tell the other owner.
    Tell(Say),
    /// This end is open: its request is complete.
    Opened(Request),
    /// Both ends are closed: the request of the close is complete.
    Closed(Request),
    /// A request has failed.
    Failed(Request, Error),
    /// The receiving end has to be posted, for the way for data.
    Post,
    /// The receiving end was posted: it is to be asked.
    Ask,
    /// This end was closed: what waits is sent, or what has arrived discarded.
    CloseHere,
    /// The other end was closed.
    CloseThere,
    /// Nothing comes or goes any more.
    Sever,
    /// The endpoint is not connected any more.
    Disconnect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Idle,
    Opening(Request),
    Open,
    /// With the request that is complete when both ends are closed, unless it was withdrawn.
    Closing(Option<Request>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    Idle,
    Open,
    Closed,
}

/// How far the way for data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    None,
    /// The receiving end is being posted.
    Begun,
    /// The receiving end is asked.
    Asked,
    Ready,
    /// It has gone, with the other node or the link.
    Severed,
}

/// The end of a channel that an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    /// What no other connection has, and only the two owners know.
    pub(crate) id: u64,
    pub(crate) role: Role,
    pub(crate) partner: Endpoint,
    own: Own,
    other: Other,
    way: Way,
    /// What was told: a close is told once, after the last data.
    has_told_close: bool,
}

impl Connection {
    pub(crate) fn new(id: u64, role: Role, partner: Endpoint) -> Self {
        Connection {
            id,
            role,
            partner,
            own: Own::Idle,
            other: Other::Idle,
            way: Way::None,
            has_told_close: false,
        }
    }

    /// The flags of the status that an open, or a close, adds.
    pub(crate) fn flags(&self) -> u64 {
        match self.own {
            Own::Idle => 0,
            Own::Opening(_) => STATUS_OPEN_PENDING,
            Own::Open => STATUS_OPEN,
            Own::Closing(_) => STATUS_CLOSE_PENDING,
        }
    }

    /// Why the endpoint cannot be connected or opened again.
    pub(crate) fn is_taken(&self) -> Error {
        match self.own {
            Own::Closing(_) => Error::ChannelClosePending,
            _ => Error::ChannelConnected,
        }
    }

    /// Whether this end can be opened for a role.
    ///
    /// # Errors
    /// [`Error::ChannelType`], [`Error::ChannelDirection`], [`Error::ChannelOpen`],
    /// [`Error::ChannelOpenPending`], [`Error::ChannelClosePending`].
    pub(crate) fn check_open(&self, role: Role) -> Result<()> {
        self.role.check(role)?;
        match self.own {
            Own::Idle => Ok(()),
            Own::Opening(_) => Err(Error::ChannelOpenPending),
            Own::Open => Err(Error::ChannelOpen),
            Own::Closing(_) => Err(Error::ChannelClosePending),
        }
    }

    /// Open this end, which [`check_open`](Self::check_open) allows.
    pub(crate) fn open(&mut self, request: Request, steps: &mut Vec<Step>) {
        self.own = Own::Opening(request);
        steps.push(Step::Tell(Say::Open));
        self.go_on(steps);
    }

    /// Withdraw an open (MC-PKTROPEN-6).
    pub(crate) fn withdraw_open(&mut self, request: Request, steps: &mut Vec<Step>) {
        if self.own == Own::Opening(request) {
            self.own = Own::Idle;
            steps.push(Step::Tell(Say::Withdrawn));
        }
    }

    /// The other owner has told something. Whatever it is changes this channel only.
    pub(crate) fn told(&mut self, say: Say, steps: &mut Vec<Step>) {
        match (say, self.other) {
            (Say::Open, Other::Idle) => self.other = Other::Open,
            // An end that is open by now waits for the other one to be opened again.
            (Say::Withdrawn, Other::Open) if !matches!(self.own, Own::Open) => {
                self.other = Other::Idle;
            }
            (Say::Closed, Other::Idle | Other::Open) => {
                self.other = Other::Closed;
                steps.push(Step::CloseThere);
            }
            (Say::Posted, _) => self.posted(steps),
            (Say::Severed, _) => return self.sever(steps),
            _ => {}
        }
        self.go_on(steps);
    }

    /// The receiving end was posted, whether this one is still to be opened or not.
    fn posted(&mut self, steps: &mut Vec<Step>) {
        if let (Direction::Send, Way::None | Way::Begun) = (self.role.direction, self.way) {
            self.way = Way::Asked;
            steps.push(Step::Ask);
        }
    }

    /// Data can move.
    pub(crate) fn ready(&mut self, steps: &mut Vec<Step>) {
        if let Way::Begun | Way::Asked = self.way {
            self.way = Way::Ready;
        }
        self.go_on(steps);
    }

    fn go_on(&mut self, steps: &mut Vec<Step>) {
        if let (Own::Opening(_), Other::Open, Way::None) = (self.own, self.other, self.way) {
            self.way = Way::Begun;
            if self.role.direction == Direction::Receive {
                steps.push(Step::Post);
            }
        }
        if let (Own::Opening(request), Other::Open | Other::Closed, Way::Ready) =
            (self.own, self.other, self.way)
        {
            self.own = Own::Open;
            steps.push(Step::Opened(request));
        }
        if let (Own::Closing(request), Other::Closed, true) =
            (self.own, self.other, self.has_told_close)
        {
            steps.extend(request.map(Step::Closed));
            steps.push(Step::Disconnect);
        }
    }

    /// Whether this end can be closed.
    ///
    /// # Errors
    /// [`Error::ChannelNotOpen`].
    pub(crate) fn check_close(&self) -> Result<()> {
        match self.own {
            Own::Open => Ok(()),
            _ => Err(Error::ChannelNotOpen),
        }
    }

    /// Close this end, which [`check_close`](Self::check_close) allows. A sender tells the other owner
    /// as soon as everything was [sent](Self::drained).
    pub(crate) fn close(&mut self, request: Request, steps: &mut Vec<Step>) {
        self.own = Own::Closing(Some(request));
        steps.push(Step::CloseHere);
        if self.role.direction == Direction::Receive || self.way == Way::Severed {
            self.drained(steps);
        }
    }

    /// Nothing waits to be sent, or it will not be.
    pub(crate) fn drained(&mut self, steps: &mut Vec<Step>) {
        if !matches!(self.own, Own::Closing(_)) || self.has_told_close {
            return;
        }
        self.has_told_close = true;
        match self.way {
            Way::Severed => self.other = Other::Closed,
            _ => steps.push(Step::Tell(Say::Closed)),
        }
        self.go_on(steps);
    }

    /// Withdraw a close: only nobody is told of its end (MC-PKTRCLOSE-6).
    pub(crate) fn withdraw_close(&mut self, request: Request) {
        if self.own == Own::Closing(Some(request)) {
            self.own = Own::Closing(None);
        }
    }

    /// There is no way for data, or none any more: tell the other owner, once.
    pub(crate) fn fail(&mut self, steps: &mut Vec<Step>) {
        if self.way != Way::Severed {
            steps.push(Step::Tell(Say::Severed));
            self.sever(steps);
        }
    }

    /// The other node or the link has gone, or the way for data (MC-CHAN-16).
    pub(crate) fn sever(&mut self, steps: &mut Vec<Step>) {
        if self.way == Way::Severed {
            return;
        }
        self.way = Way::Severed;
        match self.own {
            Own::Idle => steps.push(Step::Disconnect),
            Own::Opening(request) => {
                steps.push(Step::Failed(request, Error::General));
                steps.push(Step::Disconnect);
            }
            Own::Open => steps.push(Step::Sever),
            Own::Closing(_) => {
                steps.push(Step::Sever);
                self.other = Other::Closed;
                self.has_told_close = true;
                self.go_on(steps);
            }
        }
    }
}

#[cfg(test)]
mod tests;
