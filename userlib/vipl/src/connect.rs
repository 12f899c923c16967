// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections: how two VIs find each other by the sessions of the fabric.
//!
//! | | session | name | data | answer |
//! |---|---|---|---|---|
//! | server | held, for one request | its host address and discriminator | | its VI's attributes |
//! | client | pending | the same of the server | its VI's attributes, its own address | |
//! | peer | peer | own host address and discriminator, then the partner's | its VI's attributes | |
//!
//! Where memory for windows is short at either host, a connection's session has none, and its
//! messages have a lane of a trunk ([`Trunk`](crate::trunk::Trunk)). A server waits for both kinds,
//! and a client asks for one without where memory is short, or turns out to be when it asks. A peer
//! whose memory is short posts both, and says so with the one that has windows: that one counts
//! unless both peers have said so. Without windows, what is told has a [`Meeting`] as well: a client
//! in front of all else, a server and a peer behind their attributes. Over a link whose other kernel
//! knows nothing of sessions without windows, all have windows.
//!
//! The kernel matches by names, in the order in which sessions were opened, and sees to it that
//! both sides agree (VI-CONN-12). Peers name the discriminator of the remote address on both halves
//! (VI-PEER-2) and compare attributes each for itself, from the same data (VI-PEER-4). A server that
//! waits is a session on each interface, this host's own among them (VI-ADDR-6).

mod attempt;
mod posts;
mod request;
mod server;

use crate::{
    arrivals::Wakes,
    attributes::{Told, ENCODED},
    link::Unopened,
    nic::NicShared,
    trunk::Meeting,
    wire::End,
    Error, HostAddress, NetAddress, RemoteViAttributes, Result, HOST_ADDRESS_LEN,
};
use mp_fabric::{
    Deadline, Device, Error as FabricError, EventMask, Interface, InterfaceId, PartnerState,
    Session,
};
use mp_queue_pair::provider::{window, WINDOW};
use std::{mem, ops::RangeInclusive, sync::Arc, time::Duration};

pub use request::Request;
pub(crate) use request::RequestShared;
pub use server::Server;

/// The protocol of all sessions of VIs.
const PROTOCOL: u32 = 0x5649_4131;
/// How long the other side's library may take, once both sides have said yes.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How often one that waits for partners looks at interfaces again of which nothing tells: one that
/// is new, where the kernel does not tell of those, and one on which it cannot wait, as there is no
/// memory or session for that.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Why a server rejects: its program has said so, or the client is none of this library.
const REJECTED: u32 = 1;
const UNKNOWN: u32 = 2;

/// Memory of an interface is short where no longer piece is free, in bytes.
pub(crate) const SHORT: u64 = 0x4_0000;
/// What a peer says behind its attributes that has posted a session without windows as well.
const HAS_BARE: u8 = 1;

/// What ends a wait for an answer.
const ANSWERED: EventMask = EventMask::PAIRED
    .union(EventMask::REFUSED)
    .union(EventMask::CLOSED)
    .union(EventMask::DOWN);

/// What a connection is made of.
struct Way<D: Device> {
    session: Arc<Session<D>>,
    /// Where the partner's lane is, if the session has no windows.
    meeting: Option<Meeting>,
    /// What crosses is checked.
    checks: bool,
}

/// The number of an attempt, and of the lane that its connection may get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serial {
    attempt: u64,
    lane: u32,
}

/// An attempt to connect a VI, or its result. A thread that waits for it sleeps in the kernel, on
/// one of its sessions, or on one of `wakes`.
pub(crate) struct Attempt<D: Device> {
    /// Changes whenever one begins or is given up.
    serial: u64,
    /// Closing them ends the attempt.
    sessions: Vec<Arc<Session<D>>>,
    /// What else is rung when it is given up.
    wakes: Wakes,
    peer: Option<Peer>,
}

/// A request of the peer-to-peer model.
enum Peer {
    Pending,
    Done(Result<RemoteViAttributes>),
}

impl<D: Device> Default for Attempt<D> {
    fn default() -> Self {
        Attempt {
            serial: 0,
            sessions: Vec::new(),
            wakes: Wakes::default(),
            peer: None,
        }
    }
}

impl<D: Device> Attempt<D> {
    /// Give it up (VI-DISC-9).
    pub(crate) fn cancel(&mut self) {
        self.serial += 1;
        self.peer = None;
        self.close_sessions();
        mem::take(&mut self.wakes).ring();
    }

    fn close_sessions(&mut self) {
        for session in self.sessions.drain(..) {
            // What has ended by itself needs nothing.
            let _ = session.close();
        }
    }
}

/// How long one may sleep that waits for partners; nothing if that has no end.
fn nap(deadline: Deadline, is_told: bool) -> Option<Duration> {
    let most = (!is_told).then_some(LOOK_AGAIN);
    let left = deadline.remaining();
    most.into_iter().chain(left).min()
}

/// The name of an endpoint: host address, then discriminator.
fn name(host: HostAddress, discriminator: &[u8]) -> Vec<u8> {
    [&host.0, discriminator].concat()
}

/// What a client tells: its VI's attributes, host address, and discriminator.
fn introduce(told: &Told, local: &NetAddress) -> Vec<u8> {
    [&told.encode()[..], &local.host, &local.discriminator].concat()
}

/// What a client has told; nothing if it is none of this library.
fn introduced(data: &[u8]) -> Option<(Told, NetAddress)> {
    let told = Told::decode(data)?;
    let (host, discriminator) = data.get(ENCODED..)?.split_at_checked(HOST_ADDRESS_LEN)?;
    let address = NetAddress {
        host: host.into(),
        discriminator: discriminator.into(),
    };
    address.host().ok()?;
    Some((told, address))
}

impl<D: Device> NicShared<D> {
    fn local(&self) -> HostAddress {
        self.attributes.local_address
    }

    /// What a server is told that cannot answer a client: of a NIC that does not tell of
    /// partitions, that the client has gone (VI-NR-2).
    fn told(&self, error: Error) -> Error {
        match error {
            Error::NotReachable if !self.tells_partitions => Error::Timeout,
            other => other,
        }
    }

    /// Bytes of a window of a connection over an interface.
    fn window(&self, interface: InterfaceId) -> RangeInclusive<u64> {
        let interface = self.fabric.interface(interface);
        window(interface.map_or(0, |interface| interface.local_free))
    }

    /// Whether connections over an interface have to share memory: this host's or the other one's,
    /// which is taken to be in use as much.
    fn is_short(&self, interface: InterfaceId) -> bool {
        let interface = self.fabric.interface(interface);
        interface.is_ok_and(|interface| {
            let used = interface.local_total.saturating_sub(interface.local_free);
            let there = interface.remote_total.saturating_sub(used);
            interface.local_free.min(there) < SHORT
        })
    }

    /// Whether there is no memory for a trunk to a partner, and none was opened.
    fn lacks_trunk(&self, session: &Session<D>, partner: Meeting) -> bool {
        let interface = session.state().map(|state| state.interface);
        interface.is_ok_and(|id| {
            let interface = self.fabric.interface(id);
            // One that is down has none, and that is not why nobody is reached.
            let lacks =
                |interface: &Interface| interface.up && interface.local_free < *WINDOW.start();
            interface.is_ok_and(|interface| lacks(&interface)) && !self.trunks.lead_to(id, partner)
        })
    }

    /// What the partner of a connection is told that has no windows.
    fn meeting(&self, serial: Serial) -> Meeting {
        self.trunks.meeting(serial.lane)
    }

    /// Interfaces that lead to a host, those that are up; behind the others those that another host
    /// forwards.
    fn interfaces_to(&self, host: HostAddress) -> Result<Vec<InterfaceId>> {
        let other = (host != self.local()).then(|| host.peer());
        Ok(self.fabric.interfaces_to(other)?)
    }
}

impl From<Unopened> for Error {
    /// What a call fails with whose connection could not be opened.
    fn from(why: Unopened) -> Self {
        match why {
            Unopened::Short => Error::Resource,
            Unopened::Ended(End::Down) => Error::NotReachable,
            Unopened::Late | Unopened::Ended(_) => Error::Timeout,
        }
    }
}

/// What a server or a peer has told: its attributes, and where its lane is if the session has no
/// windows. Nothing if it is none of this library.
fn told<D: Device>(session: &Session<D>, data: &[u8]) -> Option<(Told, Option<Meeting>)> {
    let told = Told::decode(data)?;
    let meeting = match session.state().ok()?.local {
        Some(_) => None,
        None => Some(Meeting::decode(data.get(ENCODED..)?)?.0),
    };
    Some((told, meeting))
}

/// Wait for the answer of a partner; the data that it has told.
fn answered<D: Device>(session: &Session<D>, deadline: Deadline) -> Result<Vec<u8>> {
    let waited = session.wait(ANSWERED, deadline);
    let state = match waited {
        Ok(_) | Err(FabricError::TimedOut) => session.state()?,
        // Closed by who gave the attempt up.
        Err(FabricError::NotFound(_)) => return Err(Error::InvalidState),
        Err(error) => return Err(error.into()),
    };
    let events = state.events;
    if events.contains(EventMask::DOWN) {
        return Err(Error::NotReachable);
    }
    if events.contains(EventMask::PAIRED) {
        return Ok(session.partner()?.data);
    }
    if events.contains(EventMask::REFUSED) {
        return Err(match session.partner()?.state {
            PartnerState::Rejected(REJECTED) => Error::Reject,
            _ => Error::NoMatch,
        });
    }
    Err(Error::Timeout)
}

#[cfg(test)]
mod tests;
