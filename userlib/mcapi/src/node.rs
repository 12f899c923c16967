// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes as programs use them: calls, waits, and the links that threads look at.
//!
//! A node has one lock, below which its engine and its links are. The way for data of a channel has a
//! lock of its own, which is taken below the node's, or alone by calls that find data or room. No lock
//! is held while another host is asked.

mod channels;
mod core;
mod moving;
mod peers;
mod pipes;
mod serving;
mod waiting;

pub(crate) use pipes::Errand;

use self::core::Core;
use crate::{
    attributes::{Attribute, NodeAttributes, NodeState},
    claim::{claim, failed, Nonce},
    connect::Connector,
    cut,
    engine::Engine,
    lock,
    pipe::{Buffer, Pipe},
    request::By,
    table::Table,
    wire::Subject,
    worker::Worker,
    Completion, Endpoint, Error, NodeId, Outcome, Parameters, Payload, Request, Result, Topology,
};
use mp_fabric::{CharDevice, Deadline, Device, Fabric};
use mp_queue_pair::provider::{Role, Service};
use serving::{Own, Tie, Tied};
use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};
use waiting::begin_call;

/// How long a thread looks before it sleeps.
const LOOK: Duration = Duration::from_millis(10);
/// How long another node may take to answer a question (MC-NATTRGET-2).
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

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
    /// Ways for data on which packets are lent, until nothing is lent on them any more.
    lenders: Mutex<Vec<Arc<Pipe<D>>>>,
}

/// The slot of a packet that the program has, and whose it is.
type HeldBy<D> = (Arc<Pipe<D>>, Buffer);

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
            lenders: Mutex::default(),
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
            core.take_in(&self.0.service);
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
        let service = &self.0.service;
        self.0
            .with(|core| core.send(from, to, data, priority, service))
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
        let at_once = |core: &mut Core<D>| {
            let lane = core.engine.check_send(from, to, data.len(), priority)?;
            Ok(core.send_at_once(from, to.node(), lane, data, &self.0.service))
        };
        if self.0.with(at_once)? {
            return Ok(());
        }
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
    pub fn msg_take(&self, endpoint: Endpoint, room: usize) -> Result<(Vec<u8>, bool)> {
        if let Some(data) = self.0.with(|core| core.engine.try_receive(endpoint))? {
            return Ok(cut(data, room));
        }
        // Behind the receives that wait.
        let receive = |core: &mut Core<D>| core.engine.receive(endpoint, room, By::Call);
        let received = self.0.call(|core| core.deadline(endpoint), receive)?;
        match received? {
            Completion::Message { data, is_truncated } => {
                Ok((Arc::unwrap_or_clone(data), is_truncated))
            }
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
        let begin = |core: &mut Core<D>| core.engine.requests().begin_wait(requests);
        if let Some(done) = self.0.with(begin)? {
            return Ok(done);
        }
        let waited = self.0.wait(requests, Instant::now(), deadline, |core| {
            let all = core.engine.requests();
            match requests.iter().all(|request| all.is_live(*request)) {
                true => all.take_any(requests).map(Ok),
                false => Some(Err(Error::RequestCancelled)),
            }
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
