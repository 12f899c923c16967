// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a node knows of another one: whether there is a session, messages both ways, and
//! questions both ways.

use crate::{
    connection::{Role, Say},
    incoming::Incoming,
    outgoing::{Outgoing, Send},
    request::REQUESTS_MAX,
    wire::{Control, End, Frame, Wire, CHANNELS, FEATURES, VERSION},
    Endpoint, NodeId, Request,
};
use std::collections::{BTreeMap, VecDeque};

/// Most frames other than messages that wait for room: more than a node that keeps to the limits
/// of its own can make necessary.
const CONTROL_MAX: usize = 4 * REQUESTS_MAX;

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is none.
    None,
    /// The other node has not said that it is ready.
    Opening,
    /// Everything may be sent.
    Ready,
}

/// Something that the other node has not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) request: Request,
    pub(crate) frame: Control,
}

/// A connect that the other node, which has the higher endpoint, has not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    pub(crate) frame: Control,
    pub(crate) id: u64,
    /// Port of the own endpoint, and what it will be.
    pub(crate) own: u16,
    pub(crate) role: Role,
    pub(crate) partner: Endpoint,
    /// The node that wants them connected, and its number of that; nothing once it has gone.
    pub(crate) asker: Option<(NodeId, u32)>,
    /// How often it was found unanswered.
    pub(crate) age: u8,
}

/// What a node knows of another one.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) stage: Stage,
    /// The host that the last session was with.
    pub(crate) host: Option<u32>,
    /// Frames other than messages, which go first.
    control: VecDeque<Control>,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    /// Own gets that are not answered, by their numbers. They outlive sessions.
    pub(crate) gets: BTreeMap<u32, (Request, u16)>,
    /// Own gets that were withdrawn before an answer to them has come.
    pub(crate) withdrawn: BTreeMap<u32, u16>,
    /// What else was asked and is not answered.
    pub(crate) asks: BTreeMap<u32, Ask>,
    pub(crate) reservations: BTreeMap<u32, Reservation>,
    /// The other node's gets of ports that have no endpoint.
    pub(crate) parked: BTreeMap<u32, u16>,
    /// That both have.
    features: u64,
    last: u32,
}

impl Default for Peer {
    fn default() -> Self {
        Peer {
            stage: Stage::None,
            host: None,
            control: VecDeque::new(),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            gets: BTreeMap::new(),
            withdrawn: BTreeMap::new(),
            asks: BTreeMap::new(),
            reservations: BTreeMap::new(),
            features: 0,
            parked: BTreeMap::new(),
            last: 0,
        }
    }
}

impl Peer {
    /// A number for a get or a question.
    pub(crate) fn number(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            let last = &self.last;
            let is_taken = self.gets.contains_key(last)
                || self.withdrawn.contains_key(last)
                || self.asks.contains_key(last)
                || self.reservations.contains_key(last);
            if !is_taken {
                return *last;
            }
        }
    }

    /// Withdraw a get. The other node may have answered it by now.
    pub(crate) fn withdraw(&mut self, number: u32) {
        let get = self.gets.remove(&number);
        if let (Some((_, port)), Stage::Ready) = (get, self.stage) {
            self.withdrawn.insert(number, port);
            self.tell(Control::Withdrawn { number });
        }
    }

    /// Tell something, if there is a session: a new one begins with what is unanswered.
    pub(crate) fn tell(&mut self, frame: Control) {
        if self.stage == Stage::Ready {
            self.control.push_back(frame);
        }
    }

    /// A session has begun: tells which buffers are in use, and that this node is ready.
    pub(crate) fn open(&mut self) {
        self.stage = Stage::Opening;
        self.control = self.incoming.debts().into();
        self.control.push_back(Control::Ready {
            version: VERSION,
            features: FEATURES,
        });
    }

    /// Whether the other node knows of channels.
    pub(crate) fn has_channels(&self) -> bool {
        self.features & CHANNELS != 0
    }

    /// Whether it is known that it does not.
    pub(crate) fn refuses_channels(&self) -> bool {
        self.stage == Stage::Ready && !self.has_channels()
    }

    /// Ask for something.
    pub(crate) fn ask(&mut self, number: u32, ask: Ask) {
        self.asks.insert(number, ask);
        self.tell(ask.frame);
    }

    /// Ask for the higher endpoint of a connect.
    pub(crate) fn reserve(&mut self, reservation: Reservation) {
        if let Control::Reserve { number, .. } = reservation.frame {
            self.reservations.insert(number, reservation);
            self.tell(reservation.frame);
        }
    }

    /// Let connects that are not answered grow older, and give up those that are too old.
    pub(crate) fn age(&mut self, most: u8) -> Vec<Reservation> {
        let mut old = Vec::new();
        for (number, reservation) in &mut self.reservations {
            reservation.age = reservation.age.saturating_add(1);
            if reservation.age > most {
                old.push(*number);
            }
        }
        let given_up = old.into_iter().filter_map(|number| self.give_up(number));
        given_up.collect()
    }

    /// Give up a connect. The other node is told behind the question: if it has connected its end by
    /// then, that is severed.
    fn give_up(&mut self, number: u32) -> Option<Reservation> {
        let reservation = self.reservations.remove(&number)?;
        let waiting = self.control.len();
        self.control.retain(|frame| *frame != reservation.frame);
        if self.control.len() == waiting {
            let (port, id) = (reservation.partner.port(), reservation.id);
            let say = Say::Severed;
            self.tell(Control::Channel { port, id, say });
        }
        Some(reservation)
    }

    /// What was asked about channels: the other node does not know of them.
    pub(crate) fn take_channels(&mut self) -> (Vec<Ask>, Vec<Reservation>) {
        self.control.retain(|frame| !frame.is_of_channels());
        let asks = std::mem::take(&mut self.asks);
        let is_of_channels = |ask: &Ask| ask.frame.is_of_channels();
        let (ended, kept): (Vec<_>, Vec<_>) =
            asks.into_iter().partition(|(_, ask)| is_of_channels(ask));
        self.asks = kept.into_iter().collect();
        let reservations = std::mem::take(&mut self.reservations);
        (
            ended.into_iter().map(|(_, ask)| ask).collect(),
            reservations.into_values().collect(),
        )
    }

    /// The other node is ready: tells it what it has not answered.
    pub(crate) fn ready(&mut self, features: u64) {
        self.stage = Stage::Ready;
        self.features = features & FEATURES;
        let gets = self.gets.iter().map(|(number, (_, port))| Control::Get {
            number: *number,
            port: *port,
        });
        let asks = self.asks.values().map(|ask| ask.frame);
        let reservations = self.reservations.values().map(|asked| asked.frame);
        self.control.extend(gets.chain(asks).chain(reservations));
    }

    /// Fail once more waits than can be: of what the other node should take, has asked, or should
    /// answer.
    ///
    /// # Errors
    /// [`End::Broken`].
    pub(crate) fn check(&self) -> Result<(), End> {
        let is_less = self.control.len() <= CONTROL_MAX
            && self.parked.len() <= 2 * REQUESTS_MAX
            && self.withdrawn.len() <= CONTROL_MAX;
        match is_less {
            true => Ok(()),
            false => Err(End::Broken),
        }
    }

    /// Whether there is something that the other node should know.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.gets.is_empty()
            || !self.asks.is_empty()
            || !self.reservations.is_empty()
            || !self.outgoing.is_empty()
    }

    /// Whether nothing is known of the other node that has to be.
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::None && !self.is_wanted() && self.incoming.is_empty()
    }

    /// The frame that is sent next. It stays so until [`sent`](Self::sent).
    pub(crate) fn next(&mut self) -> Option<Frame<'_>> {
        if let Some(control) = self.next_control() {
            return Some(Frame::Control(control));
        }
        match self.stage {
            Stage::Ready => self.outgoing.next(),
            _ => None,
        }
    }

    /// Choose the next control frame: one that waits, or else credits, which may follow debts at once.
    fn next_control(&self) -> Option<Control> {
        let control = self.control.front().copied();
        control.or_else(|| match self.stage {
            Stage::Ready => self.incoming.credit(),
            _ => None,
        })
    }

    /// Send a message at once; false if it has more than one frame, something goes first, or there is no
    /// room.
    ///
    /// # Errors
    /// How the session has ended.
    pub(crate) fn send_at_once(
        &mut self,
        message: Frame<'_>,
        wire: &mut impl Wire,
    ) -> Result<bool, End> {
        let goes_first = self.stage == Stage::Ready && self.next_control().is_none();
        match goes_first {
            true => self.outgoing.send_at_once(message, wire),
            false => Ok(false),
        }
    }

    /// The frame was sent; the message, if it was its last one.
    pub(crate) fn sent(&mut self) -> Option<Send> {
        if self.control.pop_front().is_some() {
            return None;
        }
        match self.next_control() {
            Some(_) => {
                self.incoming.told();
                None
            }
            None => self.outgoing.advance(),
        }
    }

    /// Whether a frame can be sent.
    pub(crate) fn can_send(&mut self) -> bool {
        self.next().is_some()
    }

    /// The session has ended.
    pub(crate) fn close(&mut self) {
        self.stage = Stage::None;
        self.control.clear();
        self.incoming.reset();
        self.parked.clear();
        self.withdrawn.clear();
    }
}
