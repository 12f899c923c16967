// SPDX-License-Identifier: MIT OR Apache-2.0

//! Endpoints, from the attempt to connect to the end of the connection.

use crate::{
    address::Address,
    channel::{Channel, Completion, Memory, Watch},
    listener::{Request, REJECTED},
    PROTOCOL,
};
use mp_fabric::{
    sys, CharDevice, Deadline, Device, Error as FabricError, EventMask, Fabric, PartnerState,
    Session, Status,
};
use mp_queue_pair::{
    provider::{shape, take_signal, window},
    Opened, Opening,
};
use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

/// Most bytes that programs tell each other when they connect.
pub const CM_DATA_MAX: usize = 512;
/// How long a client asks again for a server that is not there: one that takes a request is not for a
/// moment.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long the other host may take to confirm a connection that a server has accepted.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The program there has said so, with these data.
    Rejected(Vec<u8>),
    /// Nobody listens there, or has stopped to.
    Nobody,
    /// No link leads there, or it was lost.
    Unreachable,
    /// There is no memory for it here or there.
    NoMemory,
}

/// What has happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is there; what the program says that has accepted it.
    Connected(Vec<u8>),
    /// It has not come to be.
    Refused(Refusal),
    /// It has ended.
    Shutdown,
}

/// How far a connection is.
#[derive(Debug)]
enum State<D: Device> {
    Idle,
    /// Nobody has taken the request yet.
    Asking(Ask),
    /// Somebody has the request.
    Asked(Arc<Session<D>>),
    /// Both have said yes.
    Opening(Box<Opening<D>>, Vec<u8>),
    Open,
    /// It is over, and that was told.
    Over,
}

/// What is asked for, of whom, and until when.
#[derive(Debug)]
struct Ask {
    to: Address,
    data: Vec<u8>,
    until: Instant,
}

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint<M, D: Device = CharDevice> {
    state: State<D>,
    own: u32,
    channel: Channel<M, D>,
    status: Option<Arc<Status>>,
}

impl<M: Memory, D: Device> Endpoint<M, D> {
    /// An endpoint of a host. Its sends and receives can be posted from now on.
    pub fn new(own: u32, status: Option<Arc<Status>>) -> Self {
        Endpoint {
            state: State::Idle,
            own,
            channel: Channel::default(),
            status,
        }
    }

    /// The status words of a context, if the kernel has those of sessions.
    pub fn status(fabric: &Fabric<D>) -> Option<Arc<Status>> {
        let info = fabric.info().ok()?;
        let has_words = info.features & u64::from(sys::MP_FEATURE_ACCEPT) != 0;
        let status = has_words.then(|| fabric.status().ok().flatten());
        status.flatten().map(Arc::new)
    }

    /// Give its sends and receives.
    pub fn channel(&mut self) -> &mut Channel<M, D> {
        &mut self.channel
    }

    /// Whether it has no connection and has never asked for one.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Whether sends may be posted: the connection is there, or has ended.
    pub fn can_send(&self) -> bool {
        matches!(self.state, State::Open | State::Over)
    }

    /// Ask for a connection. `from` is told to the other side.
    pub fn connect(&mut self, from: Address, to: Address, data: &[u8]) {
        self.state = State::Asking(Ask {
            to,
            data: [&from.bytes()[..], data].concat(),
            until: Instant::now() + PATIENCE,
        });
    }

    /// Accept a request, with data for who asks. Waits until the other host has confirmed that.
    ///
    /// # Errors
    /// The partner has gone, or there is no memory.
    pub fn accept(&mut self, request: Request<D>, data: &[u8]) -> Result<(), Refusal> {
        let until = Deadline::after(HANDSHAKE);
        let accepted = request.session.accept(request.id, data, until);
        accepted.map_err(refusal)?;
        self.opening(Arc::new(request.session), Vec::new())
    }

    /// End the connection in order. Operations that wait are flushed.
    pub fn shut(&mut self, told: &mut impl FnMut(Completion)) {
        self.state = State::Over;
        self.channel.shut(told);
    }

    /// Find out what has happened to the connection, with system calls; operations that end are told.
    pub fn look(&mut self, fabric: &Fabric<D>, told: &mut impl FnMut(Completion)) -> Option<Event> {
        let event = match mem::replace(&mut self.state, State::Over) {
            State::Asking(ask) => self.ask(fabric, ask),
            State::Asked(session) => self.hear(session),
            State::Opening(opening, data) => self.look_at(*opening, data),
            State::Open => {
                self.state = State::Open;
                self.channel.look(told);
                Ok(self.shutdown())
            }
            other => {
                self.state = other;
                Ok(None)
            }
        };
        event.unwrap_or_else(|refusal| {
            self.channel.shut(told);
            Some(Event::Refused(refusal))
        })
    }

    /// Move messages; operations that end are told. The end of the connection, once.
    #[inline]
    pub fn progress(&mut self, told: &mut impl FnMut(Completion)) -> Option<Event> {
        self.channel.progress(told);
        self.shutdown()
    }

    #[inline]
    fn shutdown(&mut self) -> Option<Event> {
        if self.channel.end().is_some() && matches!(self.state, State::Open) {
            self.state = State::Over;
            return Some(Event::Shutdown);
        }
        None
    }

    fn ask(&mut self, fabric: &Fabric<D>, ask: Ask) -> Result<Option<Event>, Refusal> {
        let other = (ask.to.host != self.own).then_some(ask.to.host);
        let interfaces = fabric.interfaces_to(other).map_err(refusal)?;
        let mut refused = Refusal::Unreachable;
        for interface in interfaces {
            let free = fabric.interface(interface).map_err(refusal)?.local_free;
            let (window, name) = (window(free), ask.to.bytes());
            let client = fabric.client(interface, PROTOCOL).name(&name);
            let client = client.data(&ask.data).pending();
            match client.local(window.clone()).remote(window).open() {
                Ok(session) => {
                    self.state = State::Asked(Arc::new(session));
                    return Ok(None);
                }
                Err(error) => refused = refusal(error),
            }
        }
        if refused != Refusal::Nobody || ask.until <= Instant::now() {
            return Err(refused);
        }
        self.state = State::Asking(ask);
        Ok(None)
    }

    fn hear(&mut self, session: Arc<Session<D>>) -> Result<Option<Event>, Refusal> {
        let events = session.state().map_err(refusal)?.events;
        if events.contains(EventMask::DOWN) {
            return Err(Refusal::Unreachable);
        }
        if events.intersects(EventMask::PAIRED | EventMask::REFUSED) {
            let partner = session.partner().map_err(refusal)?;
            return match partner.state {
                PartnerState::Rejected(REJECTED) => Err(Refusal::Rejected(partner.data)),
                _ if !events.contains(EventMask::PAIRED) => Err(Refusal::Nobody),
                _ => self.opening(session, partner.data).map(|()| None),
            };
        }
        if events.contains(EventMask::CLOSED) {
            return Err(Refusal::Nobody);
        }
        self.state = State::Asked(session);
        Ok(None)
    }

    fn opening(&mut self, session: Arc<Session<D>>, data: Vec<u8>) -> Result<(), Refusal> {
        let size = session.state().map_err(refusal)?.local;
        let shape = shape(size.map_or(0, |window| window.size), 1);
        let opening = Opening::new(session, &shape).map_err(|_| Refusal::Nobody)?;
        self.state = State::Opening(Box::new(opening), data);
        Ok(())
    }

    fn look_at(&mut self, opening: Opening<D>, data: Vec<u8>) -> Result<Option<Event>, Refusal> {
        let session = Arc::clone(opening.session());
        // What the other side has announced before it went is there.
        let end = take_signal(&session).err();
        match opening.look().map_err(|_| Refusal::Nobody)? {
            Opened::Ready(sending, receiving) => {
                let watch = self.watch(&session);
                self.channel.open(sending, receiving, watch);
                self.state = State::Open;
                Ok(Some(Event::Connected(data)))
            }
            Opened::NotYet(_) if end.is_some() => Err(Refusal::Nobody),
            Opened::NotYet(opening) => {
                self.state = State::Opening(Box::new(opening), data);
                Ok(None)
            }
        }
    }

    fn watch(&self, session: &Session<D>) -> Option<Watch> {
        let words = Arc::clone(self.status.as_ref()?);
        let at = session.state().ok()?.status;
        Some(Watch { words, at })
    }
}

/// Why there is no connection, by what the kernel says.
fn refusal(error: FabricError) -> Refusal {
    match error {
        FabricError::InterfaceDown(_) | FabricError::NoInterface(_) => Refusal::Unreachable,
        FabricError::NoSpace(_) | FabricError::NoMemory | FabricError::Quota(_) => {
            Refusal::NoMemory
        }
        _ => Refusal::Nobody,
    }
}
