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

mod posts;

use crate::{
    arrivals::Wakes,
    attributes::{Told, ENCODED},
    check::Checked,
    link::{Lane, Link, Numbers, Own, Unopened, ENDS},
    lock,
    nic::NicShared,
    room::must_have_memory,
    state::{Event, State},
    trunk::{Meeting, Patience},
    vi::{Core, Vi, ViShared},
    wire::End,
    Error, HostAddress, NetAddress, Nic, RemoteViAttributes, Result, HOST_ADDRESS_LEN,
};
use mp_fabric::{
    thread, CharDevice, Deadline, Device, Error as FabricError, EventMask, Interface, InterfaceId,
    PartnerState, RequestId, Session, Subject, Wake,
};
use mp_queue_pair::provider::{window, Service, NEWS, WINDOW};
use posts::Posts;
use rustix::fd::{AsFd, BorrowedFd};
use std::{
    fmt, mem,
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::Duration,
};

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
        let own = host == self.local();
        let leads = |interface: &Interface| match own {
            true => interface.loopback,
            false => interface.up && !interface.loopback && interface.peer == Some(host.peer()),
        };
        let interfaces = self.fabric.interfaces()?.into_iter();
        let interfaces = interfaces.filter_map(|id| self.fabric.interface(id).ok());
        let mut interfaces: Vec<_> = interfaces.filter(leads).collect();
        interfaces.sort_by_key(|interface| interface.routed);
        Ok(interfaces.iter().map(|interface| interface.id).collect())
    }
}

impl<D: Device> Nic<D> {
    /// Wait for a client that asks for a discriminator of this host (VI-CONN-1 to VI-CONN-7).
    /// Nobody is kept waiting by one that does not wait.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: the host is not this one, or the discriminator is too long; or
    /// the NIC was closed, also meanwhile. [`Error::Timeout`], [`Error::Resource`].
    pub fn connect_wait(&self, local: &NetAddress, deadline: Deadline) -> Result<Request<D>> {
        let mut server = self.serve(local, deadline)?;
        loop {
            if let Some(found) = server.look() {
                return found;
            }
            server.sleep();
        }
    }

    /// Begin to wait, for callers that sleep themselves.
    ///
    /// # Errors
    /// As [`connect_wait()`](Self::connect_wait).
    pub fn serve(&self, local: &NetAddress, deadline: Deadline) -> Result<Server<D>> {
        must_have_memory()?;
        let nic = self.shared();
        nic.must_be_open()?;
        local.must_be_of(nic.local())?;
        Ok(Server {
            nic: Arc::clone(nic),
            name: name(nic.local(), &local.discriminator),
            deadline,
            sessions: Vec::new(),
            wake: nic.arrivals.enter()?,
            is_told: false,
        })
    }
}

/// A server that waits. Once it is dropped, its discriminator matches nobody (VI-CONN-6).
pub struct Server<D: Device = CharDevice> {
    nic: Arc<NicShared<D>>,
    name: Vec<u8>,
    deadline: Deadline,
    sessions: Vec<Posted<D>>,
    wake: Arc<Wake>,
    /// Whether something wakes it whatever happens.
    is_told: bool,
}

/// A session that a server waits with.
struct Posted<D: Device> {
    interface: InterfaceId,
    is_bare: bool,
    session: Session<D>,
}

impl<D: Device> fmt::Debug for Server<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl<D: Device> Server<D> {
    /// Look whether a client has asked, or it is too late; nothing if there is time to
    /// [sleep](Self::nap).
    pub fn look(&mut self) -> Option<Result<Request<D>>> {
        let nic = Arc::clone(&self.nic);
        let ready = nic.arrivals.take(&nic.fabric, &self.wake);
        let ready = ready.and_then(|tells| nic.must_be_open().map(|()| tells));
        match ready.and_then(|tells| Ok(self.post(&nic)? && tells)) {
            Ok(is_told) => self.is_told = is_told,
            Err(error) => return Some(Err(error)),
        }
        if let Some(request) = self.take(&nic) {
            return Some(request);
        }
        let is_late = self.deadline.remaining().is_some_and(|left| left.is_zero());
        is_late.then_some(Err(Error::Timeout))
    }

    /// How long it may sleep before it looks again, nothing if that has no end, and what wakes it
    /// earlier.
    pub fn nap(&self) -> (Option<Duration>, [BorrowedFd<'_>; 2]) {
        let nap = nap(self.deadline, self.is_told);
        (nap, [self.wake.as_fd(), self.nic.arrivals.as_fd()])
    }

    fn sleep(&self) {
        let time = nap(self.deadline, self.is_told);
        self.nic.arrivals.sleep(&self.wake, time);
    }

    /// Wait on interfaces on which it does not yet, with windows and without; false if something
    /// is missing for that which nothing tells of.
    fn post(&mut self, nic: &Arc<NicShared<D>>) -> Result<bool> {
        let over = |session: &Session<D>| {
            let events = session.state().map(|state| state.events);
            events.map_or(true, |e| e.intersects(EventMask::CLOSED | EventMask::DOWN))
        };
        self.sessions.retain(|posted| !over(&posted.session));
        let mut failed = None;
        let interfaces = nic.fabric.interfaces()?.into_iter();
        for (interface, is_bare) in interfaces.flat_map(|id| [(id, true), (id, false)]) {
            let is_same =
                |posted: &Posted<D>| (posted.interface, posted.is_bare) == (interface, is_bare);
            if self.sessions.iter().any(is_same) {
                continue;
            }
            let server = nic.fabric.server(interface, PROTOCOL).name(&self.name);
            let server = server.hold().once();
            let server = match is_bare {
                true => server.bare(),
                false => {
                    let window = nic.window(interface);
                    server.local(window.clone()).remote(window)
                }
            };
            match server.open() {
                Ok(session) => {
                    let mask = EventMask::REQUEST | EventMask::CLOSED | EventMask::DOWN;
                    session.notify(mask, Some(self.wake.as_fd()))?;
                    self.sessions.push(Posted {
                        interface,
                        is_bare,
                        session,
                    });
                }
                // Not reachable now, or not at all.
                Err(FabricError::InterfaceDown(_) | FabricError::NoInterface(_)) => {}
                Err(FabricError::NotSupported(_)) => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if self.sessions.is_empty() => Err(error.into()),
            failed => Ok(failed.is_none()),
        }
    }

    /// Take a request, if there is one.
    fn take(&mut self, nic: &Arc<NicShared<D>>) -> Option<Result<Request<D>>> {
        let mut index = 0;
        while let Some(posted) = self.sessions.get(index) {
            let partner = posted.session.partner().ok();
            let asked = partner.and_then(|partner| match partner.state {
                PartnerState::Request(request) => Some((request, partner.data)),
                _ => None,
            });
            let Some((id, data)) = asked else {
                index += 1;
                continue;
            };
            let Posted {
                session, is_bare, ..
            } = self.sessions.swap_remove(index);
            let (meeting, rest) = match Meeting::decode(&data).filter(|_| is_bare) {
                Some((meeting, rest)) => (Some(meeting), rest),
                None => (None, &data[..]),
            };
            match introduced(rest).filter(|_| meeting.is_some() == is_bare) {
                Some((told, address)) => {
                    let pending = Pending {
                        session: Arc::new(session),
                        id,
                        meeting,
                    };
                    return Some(Request::new(nic, pending, told, address));
                }
                // It is over with that, and is posted again by the next look.
                None => {
                    // One that has gone needs no answer.
                    let _ = session.reject(id, UNKNOWN, &[]);
                    self.wake.ring();
                }
            }
        }
        None
    }
}

/// A client's request, until it is answered. Copies are the same one. A client whose request is
/// dropped finds nobody (VI-CONN-24).
pub struct Request<D: Device = CharDevice>(pub(crate) Arc<RequestShared<D>>);

crate::shared!(Request);

pub(crate) struct RequestShared<D: Device> {
    nic: Arc<NicShared<D>>,
    stage: Mutex<Stage<D>>,
    told: Told,
    address: NetAddress,
}

/// How far a request is.
enum Stage<D: Device> {
    /// It waits for an answer.
    Open(Pending<D>),
    /// A thread answers it, without the lock: the kernel waits for the client.
    Answering,
    /// It is consumed (VI-CONN-13).
    Over,
}

struct Pending<D: Device> {
    session: Arc<Session<D>>,
    id: RequestId,
    /// What a client has told whose session has no windows.
    meeting: Option<Meeting>,
}

impl<D: Device> fmt::Debug for RequestShared<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl<D: Device> RequestShared<D> {
    /// Let the client find nobody.
    pub(crate) fn end(&self) {
        let before = mem::replace(&mut *lock(&self.stage), Stage::Over);
        drop(before);
    }

    /// Begin to answer.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: answered before, or by another thread now.
    fn begin(&self) -> Result<Pending<D>> {
        let mut stage = lock(&self.stage);
        match mem::replace(&mut *stage, Stage::Answering) {
            Stage::Open(pending) => Ok(pending),
            other => {
                *stage = other;
                Err(Error::InvalidParameter)
            }
        }
    }

    /// The client goes on waiting for an answer, unless the NIC was closed meanwhile.
    fn reopen(&self, pending: Pending<D>) {
        let mut stage = lock(&self.stage);
        if let Stage::Answering = *stage {
            *stage = Stage::Open(pending);
        }
    }

    /// Connect the client to a VI.
    ///
    /// # Errors
    /// Those of [`Request::accept()`], with what is left to be answered.
    fn accept(
        &self,
        vi: &Arc<ViShared<D>>,
        pending: Pending<D>,
    ) -> std::result::Result<(), (Error, Option<Pending<D>>)> {
        let theirs = &self.told;
        let begun = vi.begin(|core| theirs.attributes.must_fit(core.engine.attributes()));
        let begun = begun.and_then(|(serial, own)| {
            vi.keep(serial, &pending.session)?;
            Ok((serial, own))
        });
        let (serial, own) = match begun {
            Ok(begun) => begun,
            Err(error) => return Err((error, Some(pending))),
        };
        let soon = Deadline::after(HANDSHAKE);
        let answer = match pending.meeting {
            None => own.encode().to_vec(),
            Some(_) => [&own.encode()[..], &self.nic.meeting(serial).encode()].concat(),
        };
        let accepted = match pending.meeting {
            // Nobody is told before.
            Some(partner) if self.nic.lacks_trunk(&pending.session, partner) => {
                Err(FabricError::NoSpace(Subject::Unnamed))
            }
            _ => pending.session.accept(pending.id, &answer, soon),
        };
        let failure = match accepted {
            Ok(()) => {
                let way = Way {
                    session: pending.session,
                    meeting: pending.meeting,
                    checks: own.checks || theirs.checks,
                };
                let established = vi.establish(serial, way, soon);
                return established
                    .map_err(|error| (vi.abandon(serial, self.nic.told(error)), None));
            }
            Err(FabricError::InterfaceDown(_)) => self.nic.told(Error::NotReachable),
            Err(FabricError::NoSpace(_) | FabricError::NoMemory) => {
                vi.release(serial);
                return Err((vi.abandon(serial, Error::Resource), Some(pending)));
            }
            Err(FabricError::Foreign) => Error::InvalidParameter,
            Err(_) => Error::Timeout,
        };
        Err((vi.abandon(serial, failure), None))
    }
}

impl<D: Device> Request<D> {
    fn new(
        nic: &Arc<NicShared<D>>,
        pending: Pending<D>,
        told: Told,
        address: NetAddress,
    ) -> Result<Self> {
        let request = Request(Arc::new(RequestShared {
            nic: Arc::clone(nic),
            stage: Mutex::new(Stage::Open(pending)),
            told,
            address,
        }));
        nic.enter_request(&request.0)?;
        Ok(request)
    }

    /// The client's local address, as it has given it (VI-CONN-2).
    pub fn address(&self) -> &NetAddress {
        &self.0.address
    }

    /// What the client's VI has.
    pub fn attributes(&self) -> &RemoteViAttributes {
        &self.0.told.attributes
    }

    /// Connect the client to an idle VI (VI-CONN-8 to VI-CONN-13).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: answered before, or by another thread now, or a VI of another NIC.
    /// [`Error::InvalidState`]: not idle; [`Error::InvalidReliabilityLevel`],
    /// [`Error::InvalidMtu`]: the VI has others; [`Error::Resource`]: memory is missing. After these
    /// the request can still be answered, unless memory went while both sides made the connection.
    /// [`Error::Timeout`]: the client has gone. [`Error::NotReachable`].
    pub fn accept(&self, vi: &Vi<D>) -> Result<()> {
        let (shared, vi) = (&self.0, &vi.0);
        if !Arc::ptr_eq(&shared.nic, &vi.nic) {
            return Err(Error::InvalidParameter);
        }
        let accepted = shared.accept(vi, shared.begin()?);
        accepted.map_err(|(error, pending)| {
            match pending {
                Some(pending) => shared.reopen(pending),
                None => shared.end(),
            }
            error
        })?;
        shared.end();
        Ok(())
    }

    /// Whether it was answered, or the client has gone: nothing can be done with it any more.
    pub fn is_answered(&self) -> bool {
        matches!(*lock(&self.0.stage), Stage::Over)
    }

    /// Reject the client (VI-CONN-14, VI-CONN-15).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: answered before, or by another thread now.
    pub fn reject(&self) -> Result<()> {
        let Pending { session, id, .. } = self.0.begin()?;
        self.0.end();
        match session.reject(id, REJECTED, &[]) {
            Err(FabricError::InterfaceDown(_)) if self.0.nic.tells_partitions => {
                Err(Error::NotReachable)
            }
            // A client that has gone needs no answer.
            _ => Ok(()),
        }
    }
}

impl<D: Device> Vi<D> {
    /// Ask a server for a connection and wait for its answer (VI-CONN-16 to VI-CONN-26); what
    /// the server's VI has.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: an address of the wrong length, a local one of another host,
    /// a deadline in the past. [`Error::InvalidState`]: not idle, or disconnected meanwhile.
    /// [`Error::NoMatch`]: nobody waits for the discriminator. [`Error::Reject`],
    /// [`Error::Timeout`], [`Error::NotReachable`], [`Error::Resource`].
    pub fn connect_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        deadline: Deadline,
    ) -> Result<RemoteViAttributes> {
        let vi = &self.0;
        let host = vi.check_addresses(local, remote, deadline)?;
        let (serial, own) = vi.begin(|_| Ok(()))?;
        let data = introduce(&own, local);
        let connected = vi.reach(serial, deadline, || {
            let asked = vi.ask(host, &remote.discriminator, &data, serial, deadline);
            let (session, meeting, answer) = asked?;
            let way = Way {
                session,
                meeting,
                checks: own.checks || answer.checks,
            };
            vi.establish(serial, way, deadline)?;
            Ok(answer.attributes)
        });
        connected.map_err(|error| vi.abandon(serial, error))
    }

    /// Ask for a connection to a peer that asks for one to this host with the same remote
    /// discriminator (VI-PEER-1 to VI-PEER-6). Does not wait: what comes of it is taken by
    /// [`peer_done()`](Self::peer_done) or [`peer_wait()`](Self::peer_wait).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: as of [`connect_request()`](Self::connect_request).
    /// [`Error::InvalidState`]: not idle. [`Error::Resource`]: there are no more threads.
    pub fn peer_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        deadline: Deadline,
    ) -> Result<()> {
        let host = self.0.check_addresses(local, remote, deadline)?;
        let (serial, own) = self.0.begin(|_| Ok(()))?;
        self.0.with(|core| {
            if core.attempt.serial == serial.attempt {
                core.attempt.peer = Some(Peer::Pending);
            }
            Ok(())
        })?;
        let discriminator = remote.discriminator.clone();
        let vi = Arc::clone(&self.0);
        let meet = move || {
            let met = vi.reach(serial, deadline, || {
                vi.meet(host, &discriminator, &own, serial, deadline)
            });
            vi.latch(serial, met);
        };
        let spawned = thread::spawn("vipl-peer", meet);
        match spawned {
            Ok(_) => Ok(()),
            Err(_) => Err(self.0.abandon(serial, Error::Resource)),
        }
    }

    /// What has come of [`peer_request()`](Self::peer_request); once (VI-PEER-9).
    ///
    /// # Errors
    /// [`Error::NotDone`]; [`Error::InvalidState`]: nothing was requested.
    /// [`Error::Timeout`]: there was no peer in time. [`Error::InvalidReliabilityLevel`],
    /// [`Error::InvalidMtu`]: the peer's VI has others. [`Error::NotReachable`],
    /// [`Error::Resource`].
    pub fn peer_done(&self) -> Result<RemoteViAttributes> {
        self.0.with(|core| match core.attempt.peer.take() {
            None => Err(Error::InvalidState),
            Some(Peer::Pending) => {
                core.attempt.peer = Some(Peer::Pending);
                Err(Error::NotDone)
            }
            Some(Peer::Done(result)) => result,
        })
    }

    /// As [`peer_done()`](Self::peer_done), but waits.
    ///
    /// # Errors
    /// As [`peer_done()`](Self::peer_done).
    pub fn peer_wait(&self) -> Result<RemoteViAttributes> {
        loop {
            match self.peer_done() {
                Err(Error::NotDone) => {}
                other => return other,
            }
            let pending = |core: &Core<D>| matches!(core.attempt.peer, Some(Peer::Pending));
            self.0.sleep(Deadline::NEVER, |core| !pending(core))?;
        }
    }
}

impl<D: Device> ViShared<D> {
    /// The remote host, if both addresses are some.
    fn check_addresses(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        deadline: Deadline,
    ) -> Result<HostAddress> {
        local.must_be_of(self.nic.local())?;
        let host = remote.host()?;
        match deadline == Deadline::PAST {
            true => Err(Error::InvalidParameter),
            false => Ok(host),
        }
    }

    /// Begin an attempt of an idle VI, if the function does not mind; its number, and what the
    /// partner is told of the VI.
    fn begin(
        self: &Arc<Self>,
        admit: impl FnOnce(&Core<D>) -> Result<()>,
    ) -> Result<(Serial, Told)> {
        must_have_memory()?;
        self.with(|core| {
            if core.engine.state() != State::Idle {
                return Err(Error::InvalidState);
            }
            admit(core)?;
            core.engine.event(&self.nic.regions, Event::Connect)?;
            core.attempt.cancel();
            let own = Told {
                attributes: core.engine.attributes().into(),
                checks: self.nic.checks,
            };
            let serial = Serial {
                attempt: core.attempt.serial,
                lane: self.nic.number() as u32,
            };
            Ok((serial, own))
        })
    }

    /// Do something for an attempt.
    ///
    /// # Errors
    /// [`Error::InvalidState`]: it was given up meanwhile. Those of the function.
    fn during<T>(
        self: &Arc<Self>,
        serial: Serial,
        act: impl FnOnce(&mut Core<D>) -> Result<T>,
    ) -> Result<T> {
        self.with(|core| match core.attempt.serial == serial.attempt {
            true => act(core),
            false => Err(Error::InvalidState),
        })
    }

    /// Do what an attempt needs. A NIC that does not tell of partitions does it again whenever
    /// interfaces have changed, as long as the host is not reachable (VI-NR-2).
    ///
    /// # Errors
    /// Those of the function. [`Error::Timeout`] in the place of [`Error::NotReachable`], at the
    /// deadline, of such a NIC; [`Error::InvalidState`]: the attempt was given up.
    fn reach<T>(
        self: &Arc<Self>,
        serial: Serial,
        deadline: Deadline,
        act: impl Fn() -> Result<T>,
    ) -> Result<T> {
        if self.nic.tells_partitions {
            return act();
        }
        let wake = self.wake_of(serial)?;
        let mut was_out_of_reach = false;
        loop {
            // Before it is done: what changes later ends the sleep.
            let mut tells = self.nic.arrivals.take(&self.nic.fabric, &wake)?;
            match act() {
                Err(Error::NotReachable) => was_out_of_reach = true,
                // The link has come up, and the server has not posted on it yet: nothing tells of that.
                Err(Error::NoMatch) if was_out_of_reach => tells = false,
                other => return other,
            }
            self.during(serial, |core| {
                core.attempt.close_sessions();
                Ok(())
            })?;
            if deadline.remaining() == Some(Duration::ZERO) {
                return Err(Error::Timeout);
            }
            self.nic.arrivals.sleep(&wake, nap(deadline, tells));
        }
    }

    /// The attempt has failed: the VI is as it was before, unless the host is not reachable
    /// (VI-CONN-23, VI-NR-3). What the caller is told.
    fn abandon(self: &Arc<Self>, serial: Serial, error: Error) -> Error {
        let failed = self.during(serial, |core| self.give_up(core, error));
        failed.err().unwrap_or(error)
    }

    fn give_up(&self, core: &mut Core<D>, error: Error) -> Result<()> {
        core.attempt.cancel();
        let reliable = core.engine.attributes().level.is_reliable();
        let event = match error {
            Error::NotReachable => Event::NotReachable { reliable },
            _ => Event::Failed,
        };
        core.engine.event(&self.nic.regions, event)
    }

    /// Make a connection of the session that an attempt has led to, not for longer than until the
    /// deadline; the caller abandons the attempt if that fails. The attempt keeps the session until
    /// then: giving it up ends the wait.
    fn establish(self: &Arc<Self>, serial: Serial, way: Way<D>, deadline: Deadline) -> Result<()> {
        let Way {
            session,
            meeting,
            checks,
        } = way;
        let deadline = deadline.min(Deadline::after(HANDSHAKE));
        Service::start(&self.nic, "vipl-service")?;
        let link = match meeting {
            None => {
                let own = self.own_pair(session, deadline)?;
                Link::Own(Checked::new(own, checks, Numbers::default()))
            }
            Some(partner) => {
                let lane = self.lane(serial, session, partner, deadline)?;
                let numbers = lane.numbers();
                Link::Shared(Checked::new(lane, checks, numbers))
            }
        };
        self.connected(serial, link)
    }

    /// Begin a connection on a link that was made for it.
    fn connected(self: &Arc<Self>, serial: Serial, link: Link<D>) -> Result<()> {
        self.during(serial, |core| {
            core.engine.event(&self.nic.regions, Event::Established)?;
            core.attempt.sessions.clear();
            if let Link::Shared(lane) = core.link.insert(link) {
                if !lane.start(self) {
                    self.note_end();
                }
            }
            Ok(())
        })?;
        self.wake();
        self.list();
        Ok(())
    }

    /// Make a queue pair of a connection's own.
    fn own_pair(&self, session: Arc<Session<D>>, deadline: Deadline) -> Result<Own<D>> {
        let own = Own::open(session, deadline)?;
        let watched = own.session().watch(NEWS, self.id);
        watched.map_err(|_| Error::Resource)?;
        self.share(None);
        Ok(own)
    }

    /// Make a lane of the trunk to a partner.
    fn lane(
        self: &Arc<Self>,
        serial: Serial,
        session: Arc<Session<D>>,
        partner: Meeting,
        deadline: Deadline,
    ) -> Result<Lane<D>> {
        let nic = &self.nic;
        let both = (nic.meeting(serial), partner);
        let interface = session.state()?.interface;
        let patience = Patience {
            deadline,
            wake: self.wake_of(serial)?,
            given_up: || self.during(serial, |_| Ok(())).is_err(),
        };
        let found = nic.trunks.find(interface, both, nic.number(), &patience);
        let (trunk, numbers) = found?;
        let watched = session.watch(ENDS, self.id);
        watched.map_err(|_| Error::Resource)?;
        self.share(Some(&trunk));
        Ok(Lane::new(trunk, session, numbers))
    }

    /// What one sleeps on who waits for something of an attempt: rung when that is given up.
    fn wake_of(self: &Arc<Self>, serial: Serial) -> Result<Arc<Wake>> {
        let wake = self.nic.arrivals.enter()?;
        self.during(serial, |core| {
            core.attempt.wakes.enter(&wake);
            Ok(wake)
        })
    }

    /// Let a disconnect close the session of an attempt.
    fn keep(self: &Arc<Self>, serial: Serial, session: &Arc<Session<D>>) -> Result<()> {
        self.during(serial, |core| {
            core.attempt.sessions.push(Arc::clone(session));
            Ok(())
        })
    }

    /// Take the session out of an attempt that does not end it.
    fn release(self: &Arc<Self>, serial: Serial) {
        // One that was given up has none.
        let _ = self.during(serial, |core| {
            core.attempt.sessions.clear();
            Ok(())
        });
    }

    /// Make the session of an attempt, which ends with it.
    fn open(
        self: &Arc<Self>,
        serial: Serial,
        host: HostAddress,
        open: impl Fn(InterfaceId) -> mp_fabric::Result<Session<D>>,
    ) -> Result<Arc<Session<D>>> {
        let mut failure = Error::NotReachable;
        for interface in self.nic.interfaces_to(host)? {
            match open(interface) {
                Ok(session) => {
                    let session = Arc::new(session);
                    self.keep(serial, &session)?;
                    return Ok(session);
                }
                Err(FabricError::NoPartner(_)) => failure = Error::NoMatch,
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }

    /// Ask a server, and wait for its answer.
    fn ask(
        self: &Arc<Self>,
        host: HostAddress,
        discriminator: &[u8],
        data: &[u8],
        serial: Serial,
        deadline: Deadline,
    ) -> Result<(Arc<Session<D>>, Option<Meeting>, Told)> {
        let name = name(host, discriminator);
        let bare = [&self.nic.meeting(serial).encode()[..], data].concat();
        let session = self.open(serial, host, |interface| {
            self.ask_over(interface, &name, [data, &bare])
        })?;
        let answer = answered(&session, deadline)?;
        let (answer, meeting) = told(&session, &answer).ok_or(Error::NoMatch)?;
        Ok((session, meeting, answer))
    }

    /// Ask a server over an interface, with what it is told of a connection with windows and of one
    /// without.
    fn ask_over(
        &self,
        interface: InterfaceId,
        name: &[u8],
        [data, bare]: [&[u8]; 2],
    ) -> mp_fabric::Result<Session<D>> {
        let nic = &self.nic;
        let client = || nic.fabric.client(interface, PROTOCOL).name(name).pending();
        let without = || client().data(bare).bare().open();
        let with = || {
            let window = nic.window(interface);
            let client = client().data(data);
            client.local(window.clone()).remote(window).open()
        };
        if nic.is_short(interface) {
            return match without() {
                Err(FabricError::NotSupported(_)) => with(),
                other => other,
            };
        }
        match with() {
            Err(FabricError::NoSpace(_)) => without(),
            other => other,
        }
    }

    /// Meet a peer.
    fn meet(
        self: &Arc<Self>,
        host: HostAddress,
        discriminator: &[u8],
        own: &Told,
        serial: Serial,
        deadline: Deadline,
    ) -> Result<RemoteViAttributes> {
        let posts = Posts::new(self, serial, host, discriminator, own)?;
        let session = posts.wait(deadline)?;
        let answer = answered(&session, deadline)?;
        let (theirs, meeting) = told(&session, &answer).ok_or(Error::Timeout)?;
        let fits = |core: &mut Core<D>| theirs.attributes.must_fit(core.engine.attributes());
        self.during(serial, fits)?;
        let way = Way {
            session,
            meeting,
            checks: own.checks || theirs.checks,
        };
        self.establish(serial, way, deadline)?;
        Ok(theirs.attributes)
    }

    /// Keep what has come of a peer's request (VI-PEER-9, VI-PEER-11): whoever asks sees that it
    /// is pending until then.
    fn latch(self: &Arc<Self>, serial: Serial, met: Result<RemoteViAttributes>) {
        // One that was given up has nobody who asks.
        let _ = self.during(serial, |core| {
            if let Err(error) = met {
                self.give_up(core, error)?;
            }
            core.attempt.peer = Some(Peer::Done(met));
            Ok(())
        });
        self.wake();
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
mod tests {
    use super::*;
    use crate::{trunk::Trunk, Level, Library, ViAttributes};
    use mp_fabric::Fabric;
    use mp_testing::{FakeDevice, Host, World};
    use std::thread;

    type TestVi = Vi<FakeDevice>;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(20))
    }

    fn until(what: &str, check: impl Fn() -> bool) {
        let end = soon();
        while !check() {
            let left = end.remaining().unwrap_or_default();
            assert!(!left.is_zero(), "not in time: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn nic(world: &World, host: Host) -> Nic<FakeDevice> {
        let world = world.clone();
        let library = Library::new(move || Ok(Fabric::with_device(world.open(host))));
        library.open_nic("VINIC").unwrap()
    }

    fn vi(nic: &Nic<FakeDevice>) -> TestVi {
        let attributes = ViAttributes {
            level: Level::ReliableDelivery,
            max_transfer_size: 4096,
            ptag: nic.create_ptag().unwrap(),
            rdma_write: false,
            rdma_read: false,
        };
        nic.create_vi(&attributes, None, None, 0).unwrap()
    }

    fn address(nic: &Nic<FakeDevice>) -> NetAddress {
        NetAddress::new(nic.attributes().unwrap().local_address, b"x")
    }

    /// Two NIC handles and a connection that has a lane of a trunk.
    fn connected(world: &World) -> [(Nic<FakeDevice>, TestVi, Arc<Trunk<FakeDevice>>); 2] {
        let nics = [Host::A, Host::B].map(|host| nic(world, host));
        let [server, client] = [0, 1].map(|n| vi(&nics[n]));
        let [there, here] = [0, 1].map(|n| address(&nics[n]));
        thread::scope(|scope| {
            scope.spawn(|| {
                let request = nics[0].connect_wait(&there, soon()).unwrap();
                request.accept(&server).unwrap();
            });
            let interface = InterfaceId(world.interface(0, Host::B));
            let fabric = &nics[1].shared().fabric;
            // It waits without windows first.
            until("a server", || {
                !fabric.windows(interface).unwrap().is_empty()
            });
            client.connect_request(&here, &there, soon()).unwrap();
        });
        let [a, b] = nics;
        [(a, server), (b, client)].map(|(nic, vi)| {
            let trunks = &nic.shared().trunks;
            let trunk = (0..100).find_map(|number| trunks.get(number));
            (nic, vi, trunk.unwrap())
        })
    }

    fn state(vi: &TestVi) -> State {
        vi.query().unwrap().state
    }

    /// VI-EM-9: a connection whose trunk ends while it is made ends with it.
    #[test]
    fn a_lane_that_comes_too_late_hears_of_the_end() {
        let world = World::new(1, 0x2_0000);
        let [(nic, first, trunk), (other, ..)] = connected(&world);
        trunk.close(Deadline::PAST);
        assert_eq!(state(&first), State::Error);
        let late = vi(&nic);
        let (serial, _) = late.0.begin(|_| Ok(())).unwrap();
        let peer = |nic: &Nic<FakeDevice>, host, name: &[u8]| {
            let interface = InterfaceId(world.interface(0, host));
            let peer = nic.shared().fabric.peer(interface, PROTOCOL).name(name);
            peer.own_name(1).bare().open().unwrap()
        };
        let session = Arc::new(peer(&nic, Host::A, b"ab"));
        let _partner = peer(&other, Host::B, b"ba");
        session.wait(EventMask::PAIRED, soon()).unwrap();
        let numbers = Numbers {
            own: serial.lane,
            partner: 1,
        };
        let lane = Checked::new(Lane::new(trunk, session, numbers), false, numbers);
        late.0.connected(serial, Link::Shared(lane)).unwrap();
        until("the end", || state(&late) == State::Error);
    }

    /// VI-NIC-5: whoever closes a trunk waits for another thread that ends its lanes.
    #[test]
    fn lanes_have_ended_when_a_trunk_is_closed() {
        let [(_nic, vi, trunk), (_other, _, partner)] = connected(&World::new(1, 0x2_0000));
        let trunk = &trunk;
        thread::scope(|scope| {
            let second = vi.0.with(|_| {
                // It cannot be told meanwhile.
                scope.spawn(|| trunk.close(Deadline::PAST));
                until("the end of the trunk", || partner.has_gone());
                thread::sleep(Duration::from_millis(50));
                let second = scope.spawn(|| trunk.close(Deadline::PAST));
                thread::sleep(Duration::from_millis(50));
                assert!(!second.is_finished());
                Ok(second)
            });
            second.unwrap().join().unwrap();
            assert_eq!(state(&vi), State::Error);
        });
    }

    /// The partner can see that a trunk is over before a program here hears of it, and connects
    /// again.
    #[test]
    fn the_partner_hears_of_the_end_of_a_trunk_before_its_lanes() {
        let [(_nic, vi, trunk), (_other, _, partner)] = connected(&World::new(1, 0x2_0000));
        thread::scope(|scope| {
            let hears = vi.0.with(|core| {
                // It cannot be told meanwhile.
                scope.spawn(|| trunk.close(Deadline::PAST));
                until("the end of the trunk", || partner.has_gone());
                Ok(core.engine.state())
            });
            assert_eq!(hears, Ok(State::Connected));
        });
        until("the end", || state(&vi) == State::Error);
    }
}
