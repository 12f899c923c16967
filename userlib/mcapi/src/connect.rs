// SPDX-License-Identifier: MIT OR Apache-2.0

//! How nodes find each other: the connector thread posts what this node is found by, answers those
//! who ask for it, and asks for nodes that the engine has something to tell.
//!
//! | who asks | session | data |
//! |---|---|---|
//! | the other node | a listener: a server with this node's name that holds requests | |
//! | this node | a client with the other node's name, which does not wait | [`Demand`] |
//!
//! A node that is busy, or rejects a request, is asked again after a while that grows. Of two nodes that ask each other at the same time, the request of the lower one counts.

use crate::{
    channel::Direction,
    claim::{self, uid, Demand, Name, PROTOCOL},
    node::{Errand, NodeShared},
    pipe::Plan,
    wire::End,
    NodeId, Result,
};
use mp_fabric::{
    Deadline, Device, Error as FabricError, EventMask, Interface, InterfaceId, PartnerState,
    RequestId, Session,
};
use mp_queue_pair::provider::window;
use std::{
    collections::{HashMap, HashSet},
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::debug;

/// How often the thread looks for interfaces that nothing has told of.
const SELDOM: Duration = Duration::from_secs(2);
/// The same while a node is sought that is not there.
const OFTEN: Duration = Duration::from_millis(500);
/// How long it waits for a node that is there, and is busy with another one or has rejected it; each
/// time twice as long.
const BUSY: Duration = Duration::from_millis(5);
/// The longest of these waits is so many times doubled.
const DOUBLED_MAX: u32 = 7;
/// How often it does before it gives up.
const BUSY_MAX: u32 = 10;
/// How long a node may take to answer a request.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the other host may take to confirm an acceptance.
const ACCEPT: Duration = Duration::from_secs(2);
/// Why a request is rejected: it is none of a node, crosses one that counts, or there are enough.
const UNKNOWN: u32 = 1;
const CROSSING: u32 = 2;
const FULL: u32 = 3;

/// What a node is found by on an interface.
struct Posted<D: Device> {
    owned: Session<D>,
    /// Nothing if there was no memory for it: it is posted later. The claim stands.
    listener: Option<Session<D>>,
}

/// How often a node was busy, and when it is asked again.
#[derive(Clone, Copy, Debug)]
struct Busy {
    times: u32,
    until: Instant,
}

impl Busy {
    /// It was so many times.
    fn new(times: u32) -> Self {
        let wait = BUSY * (1 << times.saturating_sub(1).min(DOUBLED_MAX));
        Busy {
            times,
            until: Instant::now() + wait,
        }
    }

    /// How long it is not asked yet.
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// The connector.
pub(crate) struct Connector<D: Device> {
    node: Arc<NodeShared<D>>,
    posted: HashMap<InterfaceId, Posted<D>>,
    /// Interfaces whose events wake the thread.
    watched: HashSet<InterfaceId>,
    /// Own requests that are not answered, and since when.
    asked: HashMap<NodeId, (Session<D>, Instant)>,
    /// Receiving ends of channels that were posted.
    awaited: Vec<(Plan, Session<D>)>,
    busy: HashMap<NodeId, Busy>,
    /// When connects that are not answered were looked at.
    aged: Instant,
}

/// What has come of asking for a node on an interface.
enum Asked<D: Device> {
    Pending(Session<D>),
    Busy,
    Nobody,
    Unreachable,
}

impl<D: Device> Connector<D> {
    pub(crate) fn new(node: &Arc<NodeShared<D>>) -> Self {
        Connector {
            node: Arc::clone(node),
            posted: HashMap::new(),
            watched: HashSet::new(),
            asked: HashMap::new(),
            awaited: Vec::new(),
            busy: HashMap::new(),
            aged: Instant::now(),
        }
    }

    /// What the thread does until the node is finalized.
    pub(crate) fn run(mut self) {
        let node = Arc::clone(&self.node);
        while !node.connector.is_stopped() {
            let interfaces = self.post().unwrap_or_else(|_| {
                // The service thread sees whether the fabric has ended.
                node.service.kick();
                Vec::new()
            });
            let more = self.answer();
            self.look();
            self.age();
            for errand in node.errands() {
                self.join(&errand, &interfaces);
            }
            self.look_at_awaited();
            let sought = node.sought();
            self.busy.retain(|id, _| sought.contains(id));
            for id in &sought {
                let is_early = self.busy.get(id).is_some_and(|busy| !busy.left().is_zero());
                if !is_early && !self.asked.contains_key(id) {
                    self.seek(*id, &interfaces);
                }
            }
            if more {
                continue;
            }
            let most = if sought.is_empty() { SELDOM } else { OFTEN };
            let next = self.busy.values().map(Busy::left).min();
            node.connector.sleep(next.unwrap_or(most).min(most));
        }
    }

    /// Make this node found on all interfaces; these interfaces.
    ///
    /// # Errors
    /// [`Error::NodeInitFailed`](crate::Error::NodeInitFailed).
    pub(crate) fn post(&mut self) -> Result<Vec<Interface>> {
        let interfaces = claim::interfaces(&self.node.fabric)?;
        self.posted.retain(|_, posted| !posted.owned.is_over());
        for interface in &interfaces {
            self.watch(interface.id);
            if interface.up || interface.loopback {
                if let Err(error) = self.post_on(interface) {
                    debug!("{}: {error}", interface.name);
                }
            }
        }
        Ok(interfaces)
    }

    /// Let events of an interface wake the thread.
    fn watch(&mut self, id: InterfaceId) {
        if self.watched.insert(id) {
            let news = EventMask::STATE | EventMask::WINDOWS;
            let wake = &self.node.connector.wake;
            // One that cannot be watched is looked at seldom.
            let _ = self.node.fabric.notify(id, news, Some(wake.as_fd()));
        }
    }

    /// Post what is missing on an interface.
    fn post_on(&mut self, interface: &Interface) -> mp_fabric::Result<()> {
        let id = interface.id;
        if !self.posted.contains_key(&id) {
            let owned = self.owned(interface)?;
            let listener = None;
            self.posted.insert(id, Posted { owned, listener });
        }
        let is_there = |posted: &Posted<D>| posted.listener.as_ref().is_some_and(|l| !l.is_over());
        if !self.posted.get(&id).is_some_and(is_there) {
            let listener = self.listener(id)?;
            if let Some(posted) = self.posted.get_mut(&id) {
                posted.listener = Some(listener);
            }
        }
        Ok(())
    }

    fn owned(&self, interface: &Interface) -> mp_fabric::Result<Session<D>> {
        let node = &self.node;
        // The mark has the number on the loopback interface.
        let uid = if interface.loopback { 0 } else { uid(node.id) };
        let (name, nonce) = (Name::Owned.of(node.id), node.nonce.bytes());
        claim::post(&node.fabric, interface.id, uid, &name, nonce)
    }

    fn listener(&self, id: InterfaceId) -> mp_fabric::Result<Session<D>> {
        let node = &self.node;
        let window = window(node.fabric.interface(id)?.local_free);
        let name = Name::Listener.of(node.id);
        let server = node.fabric.server(id, PROTOCOL).name(&name).hold();
        let session = server.local(window.clone()).remote(window).open()?;
        self.watch_session(&session, EventMask::REQUEST)?;
        Ok(session)
    }

    fn watch_session(&self, session: &Session<D>, news: EventMask) -> mp_fabric::Result<()> {
        let news = news | EventMask::CLOSED | EventMask::DOWN;
        session.notify(news, Some(self.node.connector.wake.as_fd()))
    }

    /// Answer requests of other nodes, one on each interface: who asks again and again does not keep
    /// the thread from anything else. Whether there was one, so that there may be more.
    fn answer(&mut self) -> bool {
        let ids: Vec<_> = self.posted.keys().copied().collect();
        let mut any = false;
        for id in ids {
            let Some((request, asker)) = self.request(id) else {
                continue;
            };
            match asker {
                Ok(asker) => self.accept(id, request, asker),
                Err(reason) => self.reject(id, request, reason),
            }
            any = true;
        }
        any
    }

    /// From time to time, give up connects that are not answered.
    fn age(&mut self) {
        if self.aged.elapsed() >= SELDOM {
            self.aged = Instant::now();
            self.node.age();
        }
    }

    /// The request that is at hand on an interface, and who asks, or why it is rejected.
    fn request(&self, id: InterfaceId) -> Option<(RequestId, Result<NodeId, u32>)> {
        let listener = self.posted.get(&id)?.listener.as_ref()?;
        let partner = listener.partner().ok()?;
        let PartnerState::Request(request) = partner.state else {
            return None;
        };
        let interface = self.node.fabric.interface(id).ok()?;
        let host = self.host(&interface, Some(partner.peer))?;
        let may_be = |demand: &Demand| {
            let hosts = self.node.topology.hosts(demand.node.domain());
            demand.node != self.node.id
                && hosts.contains(&host)
                && demand.is_of(&self.node.fabric, id)
        };
        let demand = Demand::read(&partner.data).filter(may_be);
        let asker = demand.map(|demand| demand.node).ok_or(UNKNOWN);
        let asker = asker.and_then(|asker| match self.node.has_room_for(asker, host) {
            true => Ok(asker),
            false => Err(FULL),
        });
        let crosses = |asker: &NodeId| self.asked.contains_key(asker) && self.node.id < *asker;
        let asker = asker.and_then(|asker| match crosses(&asker) {
            true => Err(CROSSING),
            false => Ok(asker),
        });
        Some((request, asker))
    }

    /// The host that an interface leads to, which is that of the peer unless it is this one.
    fn host(&self, interface: &Interface, peer: Option<u32>) -> Option<u32> {
        match interface.loopback {
            true => Some(self.node.host),
            false => peer,
        }
    }

    fn reject(&mut self, id: InterfaceId, request: RequestId, reason: u32) {
        let Some(posted) = self.posted.get_mut(&id) else {
            return;
        };
        let rejects = |listener: &Session<D>| listener.reject(request, reason, &[]).is_ok();
        // One that is over is posted anew.
        posted.listener = posted
            .listener
            .take()
            .filter(|listener| rejects(listener) || !listener.is_over());
    }

    /// Accept a request; another listener takes the place of the one that it came to.
    fn accept(&mut self, id: InterfaceId, request: RequestId, asker: NodeId) {
        let next = self.listener(id).ok();
        let Some(posted) = self.posted.get_mut(&id) else {
            return;
        };
        let Some(listener) = std::mem::replace(&mut posted.listener, next) else {
            return;
        };
        self.asked.remove(&asker);
        match listener.accept(request, &[], Deadline::after(ACCEPT)) {
            Ok(()) => self.begin(asker, listener),
            Err(error) => debug!("{asker} has asked, and gone: {error}"),
        }
    }

    /// A session with a node is paired.
    fn begin(&mut self, id: NodeId, session: Session<D>) {
        self.busy.remove(&id);
        match self.host_of(&session) {
            Some(host) => self.node.connected(id, host, session),
            // It has ended, with its interface.
            None => self.node.unreachable(id, End::Down),
        }
    }

    /// The host that a session is with.
    fn host_of(&self, session: &Session<D>) -> Option<u32> {
        let id = session.state().ok()?.interface;
        let interface = self.node.fabric.interface(id).ok()?;
        self.host(&interface, interface.peer)
    }

    /// Make the way for data of a channel: post its receiving end, or ask for it.
    fn join(&mut self, errand: &Errand, interfaces: &[Interface]) {
        let Errand { plan, peer } = errand;
        let interface = match *peer == self.node.id {
            true => interfaces.iter().find(|interface| interface.loopback),
            false => {
                let id = self.node.interface_to(*peer);
                interfaces.iter().find(|interface| Some(interface.id) == id)
            }
        };
        let session = interface.map(|interface| self.channel(plan, interface));
        match (session, plan.role.direction) {
            (Some(Ok(session)), Direction::Receive) => {
                self.awaited.push((*plan, session));
                self.node.posted(plan);
            }
            (Some(Ok(session)), Direction::Send) => self.node.piped(plan, session),
            (None | Some(Err(_)), _) => self.node.severed(plan),
        }
    }

    /// The session for the data of a channel. Its name is known to the two owners only.
    fn channel(&self, plan: &Plan, interface: &Interface) -> mp_fabric::Result<Session<D>> {
        let fabric = &self.node.fabric;
        let name = Name::channel(plan.id);
        let [local, remote] = plan.windows(interface.local_free);
        let session = match plan.role.direction {
            Direction::Send => fabric.client(interface.id, PROTOCOL),
            Direction::Receive => fabric.server(interface.id, PROTOCOL),
        };
        let session = session.name(&name).local(local).remote(remote).open();
        let session =
            session.inspect_err(|error| debug!("no way for data of a channel: {error}"))?;
        self.watch_session(&session, EventMask::PAIRED)?;
        Ok(session)
    }

    /// Look what has become of the receiving ends of channels.
    fn look_at_awaited(&mut self) {
        for (plan, session) in std::mem::take(&mut self.awaited) {
            let events = session.state().map(|state| state.events);
            let events = events.unwrap_or(EventMask::CLOSED);
            if events.contains(EventMask::PAIRED) {
                self.node.piped(&plan, session);
            } else if events.intersects(EventMask::CLOSED | EventMask::DOWN) {
                self.node.severed(&plan);
            } else if self.node.is_wanted(&plan) {
                self.awaited.push((plan, session));
            }
        }
    }

    /// Look what has become of own requests.
    fn look(&mut self) {
        let asked = std::mem::take(&mut self.asked);
        for (id, (session, since)) in asked {
            let events = session.state().map(|state| state.events);
            let events = events.unwrap_or(EventMask::CLOSED);
            if events.contains(EventMask::PAIRED) {
                self.begin(id, session);
            } else if events.intersects(EventMask::REFUSED | EventMask::CLOSED | EventMask::DOWN) {
                // It is sought again: it may have asked itself, or be gone.
                self.was_busy(id);
            } else if since.elapsed() < ANSWER {
                self.asked.insert(id, (session, since));
            } else {
                // Its process stands still, or takes no notice.
                self.node.unreachable(id, End::Down);
            }
        }
    }

    /// Ask for a node on all interfaces that lead to hosts of its domain, until one has it.
    fn seek(&mut self, id: NodeId, interfaces: &[Interface]) {
        let hosts = self.node.topology.hosts(id.domain());
        let host =
            |interface: &Interface| self.host(interface, interface.peer.filter(|_| interface.up));
        // Hosts that have not said that the node is not theirs.
        let (mut left, mut is_busy) = (hosts.clone(), false);
        for interface in interfaces {
            let Some(host) = host(interface).filter(|host| hosts.contains(host)) else {
                continue;
            };
            match self.ask(id, interface) {
                Asked::Pending(session) => {
                    self.asked.insert(id, (session, Instant::now()));
                    return;
                }
                Asked::Busy => is_busy = true,
                Asked::Nobody => left.retain(|other| *other != host),
                Asked::Unreachable => {}
            }
        }
        if is_busy {
            self.was_busy(id);
        } else {
            self.busy.remove(&id);
            // It may be on a host that no link leads to.
            let end = match left.len() < hosts.len() && left.is_empty() {
                true => End::Gone,
                false => End::Down,
            };
            self.node.unreachable(id, end);
        }
    }

    /// A node is there, and is asked again later, unless it was too often.
    fn was_busy(&mut self, id: NodeId) {
        let times = self.busy.get(&id).map_or(0, |busy| busy.times) + 1;
        if times <= BUSY_MAX {
            self.busy.insert(id, Busy::new(times));
        } else {
            self.busy.remove(&id);
            self.node.unreachable(id, End::Down);
        }
    }

    fn ask(&self, id: NodeId, interface: &Interface) -> Asked<D> {
        let fabric = &self.node.fabric;
        let demand = Demand {
            node: self.node.id,
            nonce: self.node.nonce,
        };
        let (name, data) = (Name::Listener.of(id), demand.bytes());
        let window = window(interface.local_free);
        let client = fabric
            .client(interface.id, PROTOCOL)
            .name(&name)
            .data(&data);
        let client = client.local(window.clone()).remote(window).pending();
        match client.open() {
            Ok(session) => {
                match self.watch_session(&session, EventMask::PAIRED | EventMask::REFUSED) {
                    Ok(()) => Asked::Pending(session),
                    Err(_) => Asked::Busy,
                }
            }
            // Its listener may have another request at hand.
            Err(FabricError::NoPartner(_)) => match fabric.window(interface.id, uid(id)) {
                Ok(window) if window.protocol == PROTOCOL => Asked::Busy,
                _ => Asked::Nobody,
            },
            Err(FabricError::NotSupported(_)) => Asked::Nobody,
            Err(error) => {
                debug!("{id} cannot be asked: {error}");
                Asked::Unreachable
            }
        }
    }
}
