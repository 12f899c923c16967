// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes as programs use them: calls, waits, and the links that threads look at.
//!
//! A node has one lock, below which its engine and its links are. The way for data of a channel has a
//! lock of its own, which is taken below the node's, or alone by calls that find data or room. No lock
//! is held while another host is asked.

mod channels;

pub(crate) use channels::Errand;

use crate::{
    attributes::{Attribute, NodeAttributes, NodeState},
    claim::{claim, failed, Nonce},
    connect::Connector,
    engine::{Engine, LAST},
    link::Link,
    lock,
    pipe::{Buffer, Pipe},
    request::By,
    table::Table,
    wire::{End, Subject, Wire},
    worker::Worker,
    Completion, Endpoint, Error, NodeId, Outcome, Parameters, Payload, Request, Result, Topology,
};
use mp_fabric::{CharDevice, Deadline, Device, EventMask, Fabric, Session};
use mp_queue_pair::provider::{
    lead, Answer, Attention, Led, NotNow, Owner, Question, Rest, Role, Served, Service, NEWS,
};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};
use tracing::debug;

/// How long a thread looks before it sleeps.
const LOOK: Duration = Duration::from_millis(10);
/// How long another node may take to answer a question (MC-NATTRGET-2).
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// How often what has been done is sent, with what that has led to, before others get a turn.
const ROUNDS: usize = 4;
/// How long a node may take to receive the rest of a message whose sender has waited long enough.
const GRACE: Duration = Duration::from_secs(2);

/// How long a call sleeps that there is no memory for, before it tries again.
const NAP: Duration = Duration::from_millis(1);

/// Nodes of one host that a node accepts sessions of.
pub(crate) const PEERS_MAX: usize = 256;

/// A node: what a program is in the fabric. All calls may be made by several threads at a time
/// (MC-GEN-8). Dropping it finalizes it.
pub struct Node<D: Device = CharDevice>(Arc<NodeShared<D>>);

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes that are in the room.
    pub size: usize,
    /// The message was longer than the room, and its end is lost (MC-MSGRECV-3).
    pub is_truncated: bool,
}

pub(crate) struct NodeShared<D: Device> {
    pub(crate) fabric: Fabric<D>,
    pub(crate) topology: Topology,
    pub(crate) id: NodeId,
    /// The fabric's number of this host.
    pub(crate) host: u32,
    /// Of the claim.
    pub(crate) nonce: Nonce,
    core: Mutex<Core<D>>,
    /// The last thread has woken since the node has ended.
    slept: Condvar,
    pub(crate) service: Service,
    role: Role<Tied<D>>,
    pub(crate) connector: Worker,
    /// The ways for data of channels, by the ports of their endpoints.
    pipes: RwLock<Table<u16, Arc<Pipe<D>>>>,
    /// Packets that the program has, by the addresses of their buffers.
    held: Mutex<Table<usize, HeldBy<D>>>,
}

struct Core<D: Device> {
    engine: Engine,
    links: Table<NodeId, Linked<D>>,
    /// Ways for data that something waits for, in the order in which they are served.
    busy: BTreeMap<(u32, u16), Arc<Pipe<D>>>,
    /// What the connector has to do for channels.
    errands: Vec<Errand>,
    /// What the service thread looks after, by numbers.
    ties: HashMap<u64, Tie<D>>,
    numbers: u64,
    alive: bool,
    /// Threads of the program that sleep.
    sleepers: Vec<Sleeper>,
}

/// The slot of a packet that the program has, and whose it is.
type HeldBy<D> = (Arc<Pipe<D>>, Buffer);

/// The link to another node.
struct Linked<D: Device> {
    number: u64,
    /// The host that it leads to.
    host: u32,
    attention: Arc<Attention>,
    link: Link<D>,
}

/// A thread that sleeps until one of some requests is over.
struct Sleeper {
    requests: Vec<Request>,
    woken: Arc<Condvar>,
    /// It serves meanwhile, and looks itself.
    leads: bool,
}

impl Node {
    /// Become a node, on the fabric of this host and with the configuration file (MC-INIT-1).
    ///
    /// # Errors
    /// As [`with_fabric`](Self::with_fabric); [`Error::NodeInitFailed`] also if the file makes no
    /// sense.
    pub fn initialize(domain: u32, node: u32, attributes: NodeAttributes) -> Result<Self> {
        let topology = Topology::load().map_err(|error| {
            tracing::error!("{error}");
            Error::NodeInitFailed
        })?;
        let fabric = Fabric::open().map_err(failed)?;
        Self::with_fabric(fabric, topology, domain, node, attributes)
    }
}

impl<D: Device> Node<D> {
    /// Become a node on a fabric.
    ///
    /// # Errors
    /// [`Error::DomainInvalid`], [`Error::NodeInvalid`] (MC-INIT-8). [`Error::NodeInitFailed`]:
    /// another process has the number (MC-INIT-6), or the fabric fails.
    pub fn with_fabric(
        fabric: Fabric<D>,
        topology: Topology,
        domain: u32,
        node: u32,
        attributes: NodeAttributes,
    ) -> Result<Self> {
        let parameters = Parameters::default();
        Self::with_parameters(fabric, topology, domain, node, attributes, parameters)
    }

    /// Become a node on a fabric, with limits of its own.
    ///
    /// # Errors
    /// As [`with_fabric`](Self::with_fabric); [`Error::Parameter`]: more than the library has.
    pub fn with_parameters(
        fabric: Fabric<D>,
        topology: Topology,
        domain: u32,
        node: u32,
        attributes: NodeAttributes,
        parameters: Parameters,
    ) -> Result<Self> {
        mp_log::init();
        parameters.check()?;
        let id = NodeId::new(domain, node)?;
        let host = fabric.host().map_err(failed)?;
        let nonce = Nonce::new()?;
        let claim = claim(&fabric, &topology, id, host, &nonce)?;
        let node = Node(Arc::new(NodeShared {
            fabric,
            topology,
            id,
            host,
            nonce,
            core: Mutex::new(Core::new(Engine::new(id, attributes, parameters))),
            slept: Condvar::new(),
            service: Service::new().map_err(failed)?,
            role: Role::default(),
            connector: Worker::new()?,
            pipes: RwLock::default(),
            held: Mutex::default(),
        }));
        node.start(claim)?;
        Ok(node)
    }

    /// Make the node found, and start its threads.
    fn start(&self, claim: crate::claim::Claim<D>) -> Result<()> {
        let shared = &self.0;
        let mut connector = Connector::new(shared);
        connector.post()?;
        let mark = claim.settle();
        let own = Arc::new(Own(Arc::clone(shared)));
        Service::start(&own, "mcapi-service").map_err(failed)?;
        shared.connector.start("mcapi-connect", move || {
            connector.run();
            drop(mark);
        })
    }

    /// The node's domain and number (MC-DOMID-1, MC-NODEID-1).
    ///
    /// # Errors
    /// [`Error::NodeNotInit`]: finalized, as of all calls.
    pub fn id(&self) -> Result<NodeId> {
        Ok(self.0.alive()?.engine.id())
    }

    /// End the node: its endpoints are gone, and call that wait return (MC-FINAL-1 to
    /// MC-FINAL-5).
    ///
    /// # Errors
    /// [`Error::NodeNotInit`].
    pub fn finalize(&self) -> Result<()> {
        self.0.finalize()
    }

    /// Say how far the node is, to whoever asks for [`NodeAttributes::STATE`]. Nothing else follows from
    /// it.
    ///
    /// # Errors
    /// [`Error::NodeNotInit`].
    pub fn mark(&self, state: NodeState) -> Result<()> {
        self.0.alive()?.engine.mark(state);
        Ok(())
    }

    /// Messages that were discarded: they were for ports without an endpoint for messages, or
    /// their endpoint was deleted (MC-MSG-6).
    ///
    /// # Errors
    /// [`Error::NodeNotInit`].
    pub fn discarded(&self) -> Result<u64> {
        Ok(self.0.alive()?.engine.discarded())
    }

    /// Make an endpoint of a port, or of one that is free. What had arrived for the port before
    /// is not for it.
    ///
    /// # Errors
    /// [`Error::PortInvalid`]: also if there are as many as the node may have, and one of any port is
    /// asked for; [`Error::EndpointExists`]; [`Error::General`]: there are as many.
    pub fn endpoint_create(&self, port: Option<u32>) -> Result<Endpoint> {
        let port = match port {
            Some(port) => Some(Endpoint::new(self.0.id, port)?.port()),
            None => None,
        };
        self.0.with(|core| {
            core.take_in();
            core.engine.create(port)
        })
    }

    /// Take an endpoint away, with its messages. Does not wait.
    ///
    /// # Errors
    /// [`Error::EndpointNotOwner`], [`Error::EndpointInvalid`].
    pub fn endpoint_delete(&self, endpoint: Endpoint) -> Result<()> {
        self.0.with(|core| core.engine.delete(endpoint))
    }

    /// The endpoint that a tuple names, if there is such a domain.
    fn named(&self, domain: u32, node: u32, port: u32) -> Result<Endpoint> {
        let endpoint = Endpoint::new(NodeId::new(domain, node)?, port)?;
        match self.0.topology.hosts(domain).is_empty() {
            false => Ok(endpoint),
            true => Err(Error::DomainInvalid),
        }
    }

    /// Begin to wait until an endpoint exists.
    ///
    /// # Errors
    /// [`Error::DomainInvalid`], [`Error::NodeInvalid`], [`Error::PortInvalid`],
    /// [`Error::RequestLimit`]. Of the request: [`Error::EndpointGetLimit`].
    pub fn endpoint_get_i(&self, domain: u32, node: u32, port: u32) -> Result<Request> {
        let endpoint = self.named(domain, node, port)?;
        self.0.with(|core| core.engine.get(endpoint, By::Program))
    }

    /// Wait until an endpoint exists. If the deadline is past, it looks once: for no longer than
    /// the other node takes to answer.
    ///
    /// # Errors
    /// As [`endpoint_get_i`](Self::endpoint_get_i), and [`Error::Timeout`].
    pub fn endpoint_get(
        &self,
        domain: u32,
        node: u32,
        port: u32,
        deadline: Deadline,
    ) -> Result<Endpoint> {
        let endpoint = self.named(domain, node, port)?;
        let deadline = match deadline {
            Deadline::PAST => {
                let found = self.endpoint_attribute(endpoint, Attribute::Type);
                found.map_err(|error| match error {
                    Error::NodeNotInit => error,
                    _ => Error::Timeout,
                })?;
                Deadline::after(ANSWER)
            }
            other => other,
        };
        let begun = Instant::now();
        let request = begin_call(deadline, || {
            self.0.with(|core| core.engine.get(endpoint, By::Call))
        })?;
        match self.0.finish(request, begun, deadline)?? {
            Completion::Endpoint(endpoint) => Ok(endpoint),
            _ => Err(Error::General),
        }
    }

    /// The value of an attribute of any endpoint.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]; [`Error::General`]: its node cannot be reached or does not
    /// answer.
    pub fn endpoint_attribute(&self, endpoint: Endpoint, attribute: Attribute) -> Result<u64> {
        self.attribute_until(endpoint, attribute, Deadline::after(ANSWER))
    }

    /// The same, if its node answers until a deadline.
    pub(crate) fn attribute_until(
        &self,
        endpoint: Endpoint,
        attribute: Attribute,
        deadline: Deadline,
    ) -> Result<u64> {
        let port = endpoint.port();
        if endpoint.node() == self.0.id {
            let own = |core: &mut Core<D>| core.engine.attribute(port, attribute, self.0.id);
            return self.0.with(own);
        }
        let subject = Subject::Endpoint { port };
        let number = attribute.number() as u16;
        let answer = self.ask(endpoint.node(), subject, number, deadline);
        answer.map_err(|error| match error {
            Error::NodeInvalid => Error::EndpointInvalid,
            other => other,
        })
    }

    /// Set an attribute of an endpoint of this node.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`], [`Error::EndpointRemote`], [`Error::AttributeReadOnly`],
    /// [`Error::AttributeValue`], [`Error::AttributeNotSupported`].
    pub fn set_endpoint_attribute(
        &self,
        endpoint: Endpoint,
        attribute: Attribute,
        value: u64,
    ) -> Result<()> {
        let set = |core: &mut Core<D>| core.engine.set_attribute(endpoint, attribute, value);
        self.0.with(set)
    }

    /// The value of an attribute of any node (MC-NATTRGET-1).
    ///
    /// # Errors
    /// [`Error::DomainInvalid`]; [`Error::NodeInvalid`]: also if there is none at the moment;
    /// [`Error::AttributeNumber`]; [`Error::General`]: it cannot be reached or does not answer.
    pub fn node_attribute(&self, domain: u32, node: u32, number: u32) -> Result<u64> {
        let endpoint = self.named(domain, node, 0)?;
        let number = u16::try_from(number).map_err(|_| Error::AttributeNumber)?;
        let deadline = Deadline::after(ANSWER);
        self.ask(endpoint.node(), Subject::Node, number, deadline)
    }

    /// Which hosts domains are on.
    pub(crate) fn topology(&self) -> &Topology {
        &self.0.topology
    }

    /// The fabric that the node is on.
    pub(crate) fn fabric(&self) -> &Fabric<D> {
        &self.0.fabric
    }

    /// Ask a node something, and wait until it has answered, or until a deadline.
    ///
    /// # Errors
    /// [`Error::NodeInvalid`], [`Error::General`], as of [`node_attribute`](Self::node_attribute);
    /// those of the other node.
    pub(crate) fn ask(
        &self,
        node: NodeId,
        subject: Subject,
        attribute: u16,
        deadline: Deadline,
    ) -> Result<u64> {
        let ask = |core: &mut Core<D>| core.engine.ask(node, subject, attribute);
        let done = self.0.call(|_| Ok(deadline), ask);
        let done = done.map_err(|error| match error {
            Error::Timeout => Error::General,
            other => other,
        })?;
        match done? {
            Completion::Value(value) => Ok(value),
            _ => Err(Error::General),
        }
    }

    /// Begin to send a message, which is copied. The request is complete when the other node has
    /// it in memory, or when it was discarded because there is no such endpoint.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]: the sender is none of this node. [`Error::General`]: the
    /// receiver is of this node and not for messages. [`Error::MessageSize`],
    /// [`Error::Priority`], [`Error::RequestLimit`], [`Error::MemoryLimit`]. Of the request:
    /// [`Error::Transmission`].
    pub fn msg_send_i<'a>(
        &self,
        from: Endpoint,
        to: Endpoint,
        data: impl Into<Payload<'a>>,
        priority: u32,
    ) -> Result<Request> {
        let data = data.into().piece();
        let send = |core: &mut Core<D>| core.engine.send(from, to, data, priority, By::Program);
        self.0.with(send)
    }

    /// Send a message: wait until there is memory for its copy, and a buffer for it at the receiver, as
    /// long as the sender's [`Attribute::Timeout`] says.
    ///
    /// # Errors
    /// As [`msg_send_i`](Self::msg_send_i) and of its request, but for the limits;
    /// [`Error::Timeout`]: nothing was sent.
    pub fn msg_send<'a>(
        &self,
        from: Endpoint,
        to: Endpoint,
        data: impl Into<Payload<'a>>,
        priority: u32,
    ) -> Result<()> {
        let data = data.into().piece();
        let send = |core: &mut Core<D>| core.engine.send(from, to, data, priority, By::Call);
        let sent = self.0.call(|core| core.deadline(from), send)?;
        sent.map(|_| ())
    }

    /// Begin to receive a message of at most so many bytes.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]; [`Error::General`]: the endpoint is not for messages;
    /// [`Error::RequestLimit`]. Of the request: [`Error::MessageTruncated`], with the first bytes;
    /// [`Error::EndpointInvalid`]: the endpoint was deleted.
    pub fn msg_recv_i(&self, endpoint: Endpoint, room: usize) -> Result<Request> {
        let receive = |core: &mut Core<D>| core.engine.receive(endpoint, room, By::Program);
        self.0.with(receive)
    }

    /// Receive a message: wait for one as long as the endpoint's [`Attribute::Timeout`] says.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`]: also if it is deleted meanwhile; [`Error::General`]: the
    /// endpoint is not for messages; [`Error::Timeout`]: no message is taken.
    pub fn msg_recv(&self, endpoint: Endpoint, room: &mut [u8]) -> Result<Received> {
        let (data, is_truncated) = self.msg_take(endpoint, room.len())?;
        let size = data.len();
        if let Some(room) = room.get_mut(..size) {
            room.copy_from_slice(&data);
        }
        Ok(Received { size, is_truncated })
    }

    /// Receive a message as [`msg_recv`](Self::msg_recv): at most so many bytes of it, and whether
    /// there were more.
    ///
    /// # Errors
    /// The same.
    pub fn msg_take(&self, endpoint: Endpoint, room: usize) -> Result<(Arc<Vec<u8>>, bool)> {
        let receive = |core: &mut Core<D>| core.engine.receive(endpoint, room, By::Call);
        let received = self.0.call(|core| core.deadline(endpoint), receive)?;
        match received? {
            Completion::Message { data, is_truncated } => Ok((data, is_truncated)),
            _ => Err(Error::General),
        }
    }

    /// Messages that can be received without waiting.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`].
    pub fn msg_available(&self, endpoint: Endpoint) -> Result<usize> {
        let core = self.0.look()?;
        Ok(core.engine.local(endpoint)?.available())
    }

    /// What a request has come to; nothing while it is pending. It stays (MC-TEST-1, MC-TEST-2).
    ///
    /// # Errors
    /// [`Error::RequestInvalid`]; why the operation has failed.
    pub fn test(&self, request: Request) -> Result<Option<Completion>> {
        let mut core = self.0.look()?;
        core.engine.requests().check_program(request)?;
        let done = core.engine.requests().test(request)?;
        done.cloned().transpose()
    }

    /// Wait until a request has ended, and release it (MC-WAIT-1 to MC-WAIT-6).
    ///
    /// # Errors
    /// [`Error::RequestInvalid`]; [`Error::WaitPending`]: another thread waits for it;
    /// [`Error::RequestCancelled`]; [`Error::Timeout`]: the request stays. Why the operation has
    /// failed: the request is released.
    pub fn wait(&self, request: Request, deadline: Deadline) -> Outcome {
        self.wait_any(&[request], deadline)?.1
    }

    /// Wait until one of several requests has ended, and release that one: its index, and what it
    /// has come to (MC-WAITANY-1 to MC-WAITANY-8).
    ///
    /// # Errors
    /// As [`wait`](Self::wait), but for the operation's; [`Error::Parameter`]: there are none, or
    /// one is there twice.
    pub fn wait_any(&self, requests: &[Request], deadline: Deadline) -> Result<(usize, Outcome)> {
        self.0
            .with(|core| core.engine.requests().begin_wait(requests))?;
        let waited = self.0.wait(requests, Instant::now(), deadline, |core| {
            let all = core.engine.requests();
            if !requests.iter().all(|request| all.is_live(*request)) {
                return Some(Err(Error::RequestCancelled));
            }
            let index = requests.iter().position(|request| all.is_done(*request))?;
            let (_, done) = all.release(*requests.get(index)?).ok()?;
            Some(Ok((index, done?)))
        });
        match self.0.alive() {
            Ok(mut core) => core.engine.requests().end_wait(requests),
            // Nobody else waits any more.
            Err(_) => return waited.unwrap_or(Err(Error::RequestCancelled)),
        }
        waited?
    }

    /// Withdraw what a request is for, and release it; threads that wait for it return
    /// (MC-CANCEL-1 to MC-CANCEL-5). What it had come to before, if it had: that stands, and a
    /// message or a packet that was received is not lost (MC-CANCEL-4).
    ///
    /// # Errors
    /// [`Error::RequestInvalid`].
    pub fn cancel(&self, request: Request) -> Result<Option<Outcome>> {
        self.0.with(|core| {
            core.engine.requests().check_program(request)?;
            core.engine.cancel(request)
        })
    }
}

impl<D: Device> Core<D> {
    fn new(engine: Engine) -> Self {
        Core {
            engine,
            links: Table::default(),
            busy: BTreeMap::new(),
            errands: Vec::new(),
            ties: HashMap::new(),
            numbers: 0,
            alive: true,
            sleepers: Vec::new(),
        }
    }

    /// Until when a call on an endpoint of this node waits (MC-TMO-1).
    fn deadline(&self, endpoint: Endpoint) -> Result<Deadline> {
        let settings = &self.engine.local(endpoint)?.settings;
        Ok(Deadline::after_milliseconds(settings.timeout))
    }

    /// Do something with a link that is open; one that has ended is forgotten. Whether there was
    /// something.
    fn on_link(
        &mut self,
        node: NodeId,
        act: impl FnOnce(&mut Engine, &mut Link<D>) -> Result<bool, End>,
    ) -> bool {
        let Core { engine, links, .. } = self;
        let Some(Linked {
            host,
            attention,
            link,
            ..
        }) = links.get_mut(&node)
        else {
            return false;
        };
        let acted = match attention.take_news().then(|| link.look()).flatten() {
            Some(end) => Err(end),
            None => link.is_open().and_then(|is_open| {
                if link.has_begun() {
                    engine.up(node, *host);
                }
                Ok(is_open && act(engine, link)?)
            }),
        };
        if let Err(end) = acted {
            self.unlink(node, end);
        }
        acted.unwrap_or(true)
    }

    /// A link has ended: receive what has arrived, and forget it.
    fn unlink(&mut self, node: NodeId, end: End) {
        let Some(mut linked) = self.links.remove(&node) else {
            return;
        };
        let end = linked.link.end(end);
        debug!("the session with {node} has ended: {end:?}");
        self.ties.remove(&linked.number);
        drain(&mut self.engine, node, &mut linked);
        linked.link.close();
        self.engine.down(node, end);
        self.engine.seek(node);
    }

    /// Put a link that leads to a host in the place of one that may be there.
    fn relink(&mut self, node: NodeId, host: u32, link: Link<D>) -> u64 {
        if let Some(mut before) = self.links.remove(&node) {
            self.ties.remove(&before.number);
            let end = before.link.end(End::Gone);
            drain(&mut self.engine, node, &mut before);
            before.link.close();
            self.engine.down(node, end);
        }
        let (number, attention) = (self.number(), Arc::default());
        self.ties
            .insert(number, Tie::Link(node, Arc::clone(&attention)));
        self.links.insert(
            node,
            Linked {
                number,
                host,
                attention,
                link,
            },
        );
        number
    }

    /// A number for the service thread.
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Move frames of a link; whether there were any.
    fn progress(&mut self, node: NodeId) -> bool {
        self.on_link(node, |engine, link| engine.progress(node, link))
    }

    /// Look at everything that has arrived.
    fn take_in(&mut self) {
        let nodes: Vec<_> = self.links.keys().copied().collect();
        for node in nodes {
            self.on_link(node, |engine, link| {
                let moved = engine.take_in(node, link, LAST)?;
                link.flush()?;
                Ok(moved)
            });
        }
    }

    /// Whether one of some requests is done, or not there any more.
    fn is_any_over(&mut self, requests: &[Request]) -> bool {
        let all = self.engine.requests();
        let is_over = |request: &Request| all.is_done(*request) || !all.is_live(*request);
        requests.iter().any(is_over)
    }

    /// Wake threads whose requests are over, which takes a system call for each one that sleeps;
    /// whether there were any.
    fn wake(&mut self) -> bool {
        let Core {
            engine, sleepers, ..
        } = self;
        let over = engine.requests().over();
        let mut woken = false;
        for sleeper in sleepers.iter().filter(|_| !over.is_empty()) {
            let mut requests = sleeper.requests.iter();
            if requests.any(|request| over.contains(request)) {
                if !sleeper.leads {
                    sleeper.woken.notify_one();
                }
                woken = true;
            }
        }
        engine.requests().forget_over();
        woken
    }

    /// How a request has ended, which is released then; nothing while it has not. One that is not there
    /// was cancelled: whoever waits for it must not look for ever.
    fn take_done(&mut self, request: Request) -> Option<Outcome> {
        let all = self.engine.requests();
        match (all.is_live(request), all.is_done(request)) {
            (false, _) => Some(Err(Error::RequestCancelled)),
            (true, true) => all.release(request).ok()?.1,
            (true, false) => None,
        }
    }
}

/// Whether there may be a session with a node of a host beside those that there are, with their hosts.
fn has_room_for(node: NodeId, host: u32, others: impl Iterator<Item = (NodeId, u32)>) -> bool {
    let others = others.filter(|(other, at)| *at == host && *other != node);
    others.count() < PEERS_MAX
}

/// Begin the request of a call that waits. One that there is no memory for is begun when there is, before
/// a deadline (MC-MSGSEND-2).
///
/// # Errors
/// What it cannot begin for, but no memory; [`Error::Timeout`].
fn begin_call(deadline: Deadline, begin: impl Fn() -> Result<Request>) -> Result<Request> {
    loop {
        match begin() {
            Err(Error::MemoryLimit) => nap(deadline)?,
            begun => return begun,
        }
    }
}

/// Sleep for a while, until there may be memory.
///
/// # Errors
/// [`Error::Timeout`]: the deadline is over.
fn nap(deadline: Deadline) -> Result<()> {
    let left = deadline.remaining().unwrap_or(NAP);
    if left.is_zero() {
        return Err(Error::Timeout);
    }
    std::thread::sleep(left.min(NAP));
    Ok(())
}

/// Receive what has arrived on a link that is over.
fn drain<D: Device>(engine: &mut Engine, node: NodeId, linked: &mut Linked<D>) {
    let Linked { host, link, .. } = linked;
    if let Ok(true) = link.is_open() {
        if link.has_begun() {
            engine.up(node, *host);
        }
        engine.drain(node, link);
    }
}

impl<D: Device> NodeShared<D> {
    fn alive(&self) -> Result<MutexGuard<'_, Core<D>>> {
        let core = lock(&self.core);
        match core.alive {
            true => Ok(core),
            false => Err(Error::NodeNotInit),
        }
    }

    /// Do something, send what it has led to, and let others know what they have to do about it.
    fn with<T>(&self, act: impl FnOnce(&mut Core<D>) -> Result<T>) -> Result<T> {
        let mut core = self.alive()?;
        let result = act(&mut core);
        self.settle(&mut core);
        result
    }

    /// Send what has come up on the links that it is for, and do what has come of it. Whether a
    /// thread of the program was woken.
    fn settle(&self, core: &mut Core<D>) -> bool {
        self.settle_within(core, ROUNDS)
    }

    fn settle_within(&self, core: &mut Core<D>, rounds: usize) -> bool {
        // What has been done leads to answers; those of others can wait for a next time.
        for _ in 0..rounds {
            let changed = core.engine.take_changed();
            for node in &changed {
                core.progress(*node);
            }
            let has_news = self.follow_news(core);
            for node in &changed {
                self.look_after(core, *node);
            }
            if changed.is_empty() && !has_news {
                break;
            }
        }
        // What the last round has led to is the service thread's to send.
        while self.follow_news(core) {}
        for node in core.engine.take_changed() {
            self.look_after(core, node);
        }
        if core.engine.seeks() {
            self.connector.wake.ring();
        }
        let woken = core.wake();
        if woken {
            self.service.kick_leader();
        }
        woken
    }

    /// Let the service thread see to what could not be sent on a link.
    fn look_after(&self, core: &mut Core<D>, node: NodeId) {
        if let Some(linked) = core.links.get(&node) {
            if core.engine.has_to_send(node) || linked.link.owes_signal() {
                linked.attention.list(&self.service, linked.number);
            }
        }
    }

    /// Let the service thread wake another node, if the kernel had no memory for that.
    fn see_to_signal_of(&self, core: &Core<D>, node: NodeId) {
        let linked = core.links.get(&node);
        if let Some(linked) = linked.filter(|linked| linked.link.owes_signal()) {
            linked.attention.list(&self.service, linked.number);
        }
    }

    /// Move frames of all links and data of all channels that something waits for.
    fn move_all(&self, core: &mut Core<D>) -> bool {
        let mut moved = false;
        let nodes: Vec<_> = core.links.keys().copied().collect();
        for node in nodes {
            if let Some(linked) = core.links.get(&node) {
                linked.attention.watch();
            }
            moved |= core.progress(node);
            self.see_to_signal_of(core, node);
        }
        moved |= self.move_data(core);
        self.settle(core);
        moved
    }

    /// Move frames for a call that does not wait.
    fn look(&self) -> Result<MutexGuard<'_, Core<D>>> {
        let mut core = self.alive()?;
        self.move_all(&mut core);
        Ok(core)
    }

    /// The threads of the program look no more: partners have to signal.
    fn unwatch(&self, core: &mut Core<D>) {
        for linked in core.links.values_mut() {
            linked.link.remind();
            linked.attention.unwatch(&self.service);
        }
        for pipe in core.busy.values() {
            pipe.remind();
            pipe.attention.unwatch(&self.service);
        }
    }

    /// Nodes that the connector has to find.
    pub(crate) fn sought(&self) -> Vec<NodeId> {
        let core = lock(&self.core);
        let mut sought = core.engine.sought();
        sought.retain(|node| !core.links.contains_key(node));
        sought
    }

    /// There is a session with a node on a host, perhaps in the place of one that has ended.
    pub(crate) fn connected(&self, node: NodeId, host: u32, session: Session<D>) {
        // What has woken the connector is the service thread's from now on.
        let quiet = session.notify(EventMask::empty(), None);
        let link = quiet
            .map_err(|_| End::Gone)
            .and_then(|()| Link::new(session));
        let Ok(mut core) = self.alive() else {
            return;
        };
        match link {
            Ok(link) => {
                debug!("a session with {node} begins");
                let number = core.relink(node, host, link);
                self.watch(&core, node, number);
            }
            Err(end) if !core.links.contains_key(&node) => core.engine.down(node, end),
            Err(_) => {}
        }
        self.settle(&mut core);
    }

    /// Let the service thread look after a new link.
    fn watch(&self, core: &Core<D>, node: NodeId, number: u64) {
        let Some(linked) = core.links.get(&node) else {
            return;
        };
        if let Some(session) = linked.link.session() {
            // One that cannot be watched has ended, which whoever looks next sees.
            let _ = session.watch(NEWS, number);
        }
        linked.attention.note_news();
        linked.attention.list(&self.service, number);
    }

    /// A node is not there, or cannot be reached.
    pub(crate) fn unreachable(&self, node: NodeId, end: End) {
        let Ok(mut core) = self.alive() else {
            return;
        };
        if !core.links.contains_key(&node) {
            core.engine.down(node, end);
            self.settle(&mut core);
        }
    }

    /// Whether a node of a host that asks may have a session: what those of one host can make this one
    /// keep is limited, whatever domains they are of.
    pub(crate) fn has_room_for(&self, node: NodeId, host: u32) -> bool {
        let core = lock(&self.core);
        let others = core.links.iter().map(|(id, linked)| (*id, linked.host));
        has_room_for(node, host, others)
    }

    /// End everything, for the fabric has ended under the node: the process has closed the descriptor.
    fn fail(&self) {
        // A node that has been finalized has ended.
        let _ = self.with(|core| {
            for node in core.links.keys().copied().collect::<Vec<_>>() {
                core.unlink(node, End::Down);
            }
            core.engine.fail();
            Ok(())
        });
        self.connector.stop();
    }

    /// Give up connects that other nodes have not answered for too long, and sessions with nodes that
    /// take nothing.
    pub(crate) fn age(&self) {
        let Ok(mut core) = self.alive() else {
            return;
        };
        for node in core.engine.age() {
            match core.links.contains_key(&node) {
                true => core.unlink(node, End::Broken),
                false => core.engine.down(node, End::Down),
            }
        }
        self.settle(&mut core);
    }

    /// Wait until there is an answer for requests: look for a while from `begun` on, then sleep.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::NodeNotInit`]: also if the node is finalized meanwhile.
    fn wait<T>(
        self: &Arc<Self>,
        requests: &[Request],
        begun: Instant,
        deadline: Deadline,
        mut answer: impl FnMut(&mut Core<D>) -> Option<T>,
    ) -> Result<T> {
        let is_over = |deadline: Deadline| deadline.remaining().is_some_and(|left| left.is_zero());
        let mut looks = true;
        loop {
            let mut core = match looks {
                true => self.look()?,
                false => self.alive()?,
            };
            if let Some(answer) = answer(&mut core) {
                return Ok(answer);
            }
            if is_over(deadline) {
                return Err(Error::Timeout);
            }
            if begun.elapsed() < LOOK {
                drop(core);
                spin_loop();
                continue;
            }
            if looks {
                self.unwatch(&mut core);
                looks = false;
            }
            self.sleep(core, requests, deadline);
        }
    }

    /// Wait until one of some requests is over, serving meanwhile unless somebody else does.
    fn sleep(
        self: &Arc<Self>,
        mut core: MutexGuard<'_, Core<D>>,
        requests: &[Request],
        deadline: Deadline,
    ) {
        let woken = Arc::new(Condvar::new());
        core.sleepers.push(Sleeper {
            requests: requests.into(),
            woken: Arc::clone(&woken),
            leads: true,
        });
        drop(core);
        let own = Own(Arc::clone(self));
        let led = lead(&own, deadline, || {
            let mut core = lock(&self.core);
            !core.alive || core.is_any_over(requests)
        });
        let mut core = lock(&self.core);
        if let Led::Follow(_follower) = led {
            if core.alive && !core.is_any_over(requests) {
                let is_this = |sleeper: &&mut Sleeper| Arc::ptr_eq(&sleeper.woken, &woken);
                if let Some(sleeper) = core.sleepers.iter_mut().find(is_this) {
                    sleeper.leads = false;
                }
                core = deadline.sleep_on(&woken, core);
            }
        }
        core.sleepers
            .retain(|sleeper| !Arc::ptr_eq(&sleeper.woken, &woken));
        if !core.alive && core.sleepers.is_empty() {
            // Whoever finalizes waits for that.
            self.slept.notify_all();
        }
    }

    /// Begin a request of a call and wait for its end, both until a deadline.
    ///
    /// # Errors
    /// What it cannot begin for, but no memory; as [`finish`](Self::finish).
    fn call(
        self: &Arc<Self>,
        deadline: impl FnOnce(&Core<D>) -> Result<Deadline>,
        begin: impl Fn(&mut Core<D>) -> Result<Request>,
    ) -> Result<Outcome> {
        let mut core = self.alive()?;
        let deadline = deadline(&core)?;
        let request = loop {
            let begun = begin(&mut core);
            self.settle(&mut core);
            match begun {
                Err(Error::MemoryLimit) => {
                    drop(core);
                    nap(deadline)?;
                    core = self.alive()?;
                }
                begun => break begun?,
            }
        };
        if let Some(done) = core.take_done(request) {
            return Ok(done);
        }
        drop(core);
        self.finish(request, Instant::now(), deadline)
    }

    /// Wait for the end of a call's own request, and release it. One that is not done in time is
    /// withdrawn, unless it has started to be sent: then its end is near, or the other node does
    /// not take it, and the session with it ends.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    fn finish(
        self: &Arc<Self>,
        request: Request,
        begun: Instant,
        deadline: Deadline,
    ) -> Result<Outcome> {
        let done = |core: &mut Core<D>| core.take_done(request);
        let waited = self.wait(&[request], begun, deadline, done);
        if waited != Err(Error::Timeout) {
            return waited;
        }
        let withdrawn = self.with(|core| match core.engine.started(request) {
            Some(_) => Ok(None),
            None => core.engine.cancel(request).map(Some),
        })?;
        match withdrawn {
            Some(done) => return done.ok_or(Error::Timeout),
            None => match self.wait(&[request], begun, Deadline::after(GRACE), done) {
                Err(Error::Timeout) => {}
                other => return other,
            },
        }
        self.with(|core| {
            if let Some(node) = core.engine.started(request) {
                core.unlink(node, End::Broken);
            }
            Ok(())
        })?;
        self.wait(&[request], begun, Deadline::NEVER, done)
    }

    fn finalize(&self) -> Result<()> {
        let mut core = self.alive()?;
        core.alive = false;
        let links = std::mem::take(&mut core.links);
        core.ties.clear();
        core.busy.clear();
        for sleeper in &core.sleepers {
            sleeper.woken.notify_one();
        }
        self.service.kick_leader();
        while !core.sleepers.is_empty() {
            let woken = self.slept.wait(core);
            core = woken.unwrap_or_else(PoisonError::into_inner);
        }
        core.engine = Engine::new(self.id, NodeAttributes::default(), Parameters::default());
        drop(core);
        for mut linked in links.into_values() {
            linked.link.finish();
            linked.link.close();
        }
        self.forget_channels();
        self.connector.stop();
        self.service.stop();
        Ok(())
    }

    /// Move messages of a link for the service thread; whether there were any.
    fn serve(&self, tie: &Tie<D>) -> bool {
        let Ok(mut core) = self.core.try_lock() else {
            return false;
        };
        if !core.alive {
            return false;
        }
        let moved = match tie {
            Tie::Link(node, _) => core.progress(*node),
            Tie::Pipe(pipe) => self.move_in_turn(&mut core, pipe),
        };
        if self.settle(&mut core) {
            // Who was woken goes on with it.
            tie.attention().hand_over();
        }
        moved
    }

    /// Whether there is something on a link that nobody has received. Nobody receives meanwhile.
    fn has_work(&self, tie: &Tie<D>) -> bool {
        let Ok(core) = self.core.try_lock() else {
            return false;
        };
        match tie {
            Tie::Link(node, _) => {
                let linked = core.links.get(node);
                linked.is_some_and(|linked| linked.link.has_news())
            }
            Tie::Pipe(pipe) => pipe.has_work(),
        }
    }

    /// Ask the other node of a link for signals.
    fn rest(&self, tie: &Tie<D>, number: u64, until: Deadline) -> Rest {
        let question = match self.question(tie, number) {
            Ok(question) => question,
            Err(rest) => return rest,
        };
        let answer = question.ask(&self.fabric, until);
        let mut core = lock(&self.core);
        let (answer, owes) = match tie {
            Tie::Link(node, _) => match core.links.get_mut(node) {
                Some(linked) if linked.number == number => {
                    (linked.link.answered(answer), linked.link.owes_signal())
                }
                _ => return Rest::Over,
            },
            Tie::Pipe(pipe) => (pipe.answered(answer), pipe.owes_signal()),
        };
        match answer {
            // Asking has published, for which the partner may have to be woken.
            Answer::Surely if owes => Rest::Nap,
            Answer::Surely => Rest::Armed,
            Answer::Perhaps => Rest::Nap,
            Answer::Busy => Rest::Busy,
        }
    }

    /// What the other node's host is asked; nothing if the link rests, or must not, without that.
    fn question(&self, tie: &Tie<D>, number: u64) -> Result<Question<D>, Rest> {
        let Ok(mut core) = self.core.try_lock() else {
            return Err(Rest::Nap);
        };
        if !core.alive {
            return Err(Rest::Over);
        }
        if tie.attention().has_news() {
            return Err(Rest::Busy);
        }
        // Before anything is noted as asked for that will not be.
        if tie.attention().is_watched() {
            return Err(Rest::Nap);
        }
        let armed = match tie {
            Tie::Link(node, _) => {
                let waits = core.engine.has_to_send(*node);
                let linked = core.links.get_mut(node);
                let linked = linked.filter(|linked| linked.number == number);
                let linked = linked.ok_or(Rest::Over)?;
                if linked.link.owes_signal() {
                    return Err(Rest::Nap);
                }
                linked.link.arm(waits)
            }
            Tie::Pipe(pipe) if !pipe.is_busy() => return Err(Rest::Over),
            Tie::Pipe(pipe) if pipe.owes_signal() => return Err(Rest::Nap),
            Tie::Pipe(pipe) => pipe.arm(),
        };
        match armed {
            Ok(question) => question.ok_or(Rest::Armed),
            Err(NotNow) => Err(Rest::Busy),
        }
    }
}

/// What the service thread looks after: a link, or the data of a channel.
pub(crate) enum Tie<D: Device> {
    Link(NodeId, Arc<Attention>),
    Pipe(Arc<Pipe<D>>),
}

impl<D: Device> Clone for Tie<D> {
    fn clone(&self) -> Self {
        match self {
            Tie::Link(node, attention) => Tie::Link(*node, Arc::clone(attention)),
            Tie::Pipe(pipe) => Tie::Pipe(Arc::clone(pipe)),
        }
    }
}

impl<D: Device> Tie<D> {
    fn attention(&self) -> &Attention {
        match self {
            Tie::Link(_, attention) => attention,
            Tie::Pipe(pipe) => &pipe.attention,
        }
    }
}

/// The same for the service thread.
pub(crate) struct Tied<D: Device> {
    node: Arc<NodeShared<D>>,
    tie: Tie<D>,
    number: u64,
}

impl<D: Device> Served for Tied<D> {
    fn attention(&self) -> &Attention {
        self.tie.attention()
    }

    fn serve(&self) -> bool {
        self.node.serve(&self.tie)
    }

    fn has_work(&self) -> bool {
        self.node.has_work(&self.tie)
    }

    fn rest(&self, until: Deadline) -> Rest {
        self.node.rest(&self.tie, self.number, until)
    }
}

/// What the service thread is of.
pub(crate) struct Own<D: Device>(pub(crate) Arc<NodeShared<D>>);

impl<D: Device> Owner for Own<D> {
    type Device = D;
    type Link = Tied<D>;

    fn service(&self) -> &Service {
        &self.0.service
    }

    fn role(&self) -> &Role<Tied<D>> {
        &self.0.role
    }

    fn fabric(&self) -> &Fabric<D> {
        &self.0.fabric
    }

    fn link(&self, number: u64) -> Option<Tied<D>> {
        let tie = lock(&self.0.core).ties.get(&number).cloned()?;
        let node = Arc::clone(&self.0);
        Some(Tied { node, tie, number })
    }

    fn fail(&self) {
        self.0.fail();
    }
}

impl<D: Device> Drop for Node<D> {
    fn drop(&mut self) {
        // One that was finalized needs nothing.
        let _ = self.0.finalize();
    }
}

impl<D: Device> fmt::Debug for Node<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.0.id).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        link::tests::{message, pair, pair_in},
        wire::{Control, Frame},
    };
    use mp_queue_pair::Piece;
    use mp_testing::{Host, World};

    /// MC-MSG-8: a link that was lost is told of, also if a new session is there before anybody has
    /// noticed.
    #[test]
    fn a_session_that_is_replaced_has_ended_as_its_link_did() {
        let [own, other] = [0, 1].map(|node| NodeId::new(0, node).unwrap());
        let mut core = Core::new(Engine::new(
            own,
            NodeAttributes::default(),
            Parameters::default(),
        ));
        let from = core.engine.create(Some(1)).unwrap();
        let world = World::new(1, 1 << 20);
        let [link, _there] = pair_in(&world);
        core.relink(other, 1, link);
        core.progress(other);
        let to = Endpoint::of(other, 1);
        let sent = core
            .engine
            .send(from, to, Piece::Bytes(b"lost"), 1, By::Program)
            .unwrap();
        world.set_up(0, false);
        let [link, _there] = pair();
        core.relink(other, 1, link);
        let result = core.engine.requests().test(sent).unwrap();
        assert_eq!(result, Some(&Err(Error::Transmission)));
    }

    /// What a call has no turn left to send, the service thread sends.
    #[test]
    fn what_the_rounds_leave_is_sent() {
        let world = World::new(1, 8 << 20);
        world.set_loopback(8 << 20);
        let [a, b] = [1, 2].map(|number| {
            let fabric = Fabric::with_device(world.open(Host::A));
            let attributes = NodeAttributes::default();
            Node::with_fabric(fabric, Topology::default(), 0, number, attributes).unwrap()
        });
        let [from, to] = [&a, &b].map(|node| node.endpoint_create(None).unwrap());
        b.set_endpoint_attribute(to, Attribute::Timeout, 10_000)
            .unwrap();
        a.msg_send(from, to, b"first", 1).unwrap();
        assert_eq!(b.msg_take(to, 8).unwrap().0[..], *b"first");
        // Until the service threads sleep.
        std::thread::sleep(10 * LOOK);
        let mut core = a.0.alive().unwrap();
        core.engine
            .send(from, to, Piece::Bytes(b"left"), 1, By::Program)
            .unwrap();
        a.0.settle_within(&mut core, 0);
        drop(core);
        assert_eq!(b.msg_take(to, 8).unwrap().0[..], *b"left");
    }

    /// Nodes of one host have so many sessions, of whatever domains they are, and those that have one may
    /// have it anew; nodes of other hosts do not matter, also those of the same domain.
    #[test]
    fn nodes_of_a_host_have_so_many_sessions() {
        let id = |domain, node: usize| NodeId::new(domain, node as u32).unwrap();
        let one = |number: usize| id(number as u32 % 2, number);
        let mut others: Vec<_> = (0..PEERS_MAX).map(|number| (one(number), 7)).collect();
        for domain in 0..3 {
            let other = id(domain, PEERS_MAX);
            assert!(!has_room_for(other, 7, others.iter().copied()));
            assert!(has_room_for(other, 8, others.iter().copied()));
        }
        assert!(has_room_for(one(0), 7, others.iter().copied()));
        others.pop();
        assert!(has_room_for(id(0, PEERS_MAX), 7, others.iter().copied()));
    }

    /// Channels that something waits for are in the order of their priorities, and of their ports.
    #[test]
    fn channels_that_wait_are_in_the_order_of_their_priorities() {
        let world = World::new(1, 8 << 20);
        world.set_loopback(8 << 20);
        let fabric = Fabric::with_device(world.open(Host::A));
        let attributes = NodeAttributes::default();
        let node = Node::with_fabric(fabric, Topology::default(), 0, 1, attributes).unwrap();
        let wait = |request| node.wait(request, Deadline::NEVER).unwrap();
        for (port, priority) in [(1, 7), (3, 0), (5, 2), (7, 0)] {
            let ends = [port, port + 1].map(|port| node.endpoint_create(Some(port)).unwrap());
            for end in ends {
                node.set_endpoint_attribute(end, Attribute::Priority, priority)
                    .unwrap();
                node.set_endpoint_attribute(end, Attribute::MaxPayloadSize, 64)
                    .unwrap();
            }
            let [send, receive] = ends;
            wait(node.pktchan_connect_i(send, receive).unwrap());
            let opens = [
                node.pktchan_send_open_i(send).unwrap(),
                node.pktchan_recv_open_i(receive).unwrap(),
            ];
            let Completion::Open(channel) = opens.map(wait)[0].clone() else {
                panic!();
            };
            // More than there are buffers.
            for _ in 0..20 {
                node.pktchan_send_i(channel, b"waits").unwrap();
            }
        }
        let core = node.0.alive().unwrap();
        let senders = core.busy.values().map(|pipe| pipe.plan.port);
        assert_eq!(senders.collect::<Vec<_>>(), [3, 7, 5, 1]);
    }

    /// MC-CANCEL-2: a call whose request is not there any more ends, whether it looks or sleeps.
    #[test]
    fn a_call_ends_when_its_request_has_gone() {
        let world = World::new(1, 8 << 20);
        world.set_loopback(8 << 20);
        let fabric = Fabric::with_device(world.open(Host::A));
        let attributes = NodeAttributes::default();
        let node = Node::with_fabric(fabric, Topology::default(), 0, 1, attributes).unwrap();
        let endpoint = node.endpoint_create(None).unwrap();
        // It ends anyhow, if it does not end as it should.
        node.set_endpoint_attribute(endpoint, Attribute::Timeout, 10_000)
            .unwrap();
        for pause in [LOOK / 5, 5 * LOOK] {
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| node.msg_take(endpoint, 8));
                let pending = || node.0.with(|core| Ok(core.engine.requests().pending()));
                while pending().unwrap().is_empty() {
                    std::thread::yield_now();
                }
                std::thread::sleep(pause);
                let [request] = pending().unwrap()[..] else {
                    panic!("it waits for one");
                };
                let withdrawn = node.0.with(|core| core.engine.cancel(request));
                assert_eq!(withdrawn, Ok(None));
                assert_eq!(waits.join().unwrap(), Err(Error::RequestCancelled));
            });
        }
    }

    /// What a session has brought is received before another one takes its place.
    #[test]
    fn what_a_replaced_session_has_brought_is_received() {
        let [own, other] = [0, 1].map(|node| NodeId::new(0, node).unwrap());
        let mut core = Core::new(Engine::new(
            own,
            NodeAttributes::default(),
            Parameters::default(),
        ));
        let to = core.engine.create(Some(1)).unwrap();
        let [link, mut there] = pair();
        core.relink(other, 1, link);
        core.progress(other);
        let (version, features) = (1, 0);
        let ready = Frame::Control(Control::Ready { version, features });
        assert_eq!(there.send(&ready), Ok(true));
        for _ in 0..3 {
            assert_eq!(there.send(&message(1, b"hello")), Ok(true));
        }
        there.flush().unwrap();
        let [link, _] = pair();
        core.relink(other, 1, link);
        assert_eq!(core.engine.local(to).unwrap().available(), 3);
        assert_eq!((core.links.len(), core.ties.len()), (1, 1));
    }
}
