// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes as programs use them: calls, waits, and the links that threads look at.
//!
//! A node has one lock, below which its engine and the list of its links are. A link has a lock of
//! its own, which is taken below the node's, or alone by the service thread while it asks another
//! host. A thread that finds a link locked leaves it to the one that holds it.

mod channels;

use crate::{
    attributes::{Attribute, NodeAttributes},
    claim::{claim, failed},
    connect::Connector,
    engine::Engine,
    link::Link,
    lock,
    request::By,
    service::{self, Service, Worker},
    wire::{End, Subject, Wire},
    Completion, Endpoint, Error, NodeId, Outcome, Request, Result, Topology,
};
use mp_fabric::{CharDevice, Deadline, Device, Fabric};
use std::{
    collections::HashMap,
    fmt,
    hint::spin_loop,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
    },
    time::{Duration, Instant},
};
use tracing::debug;

/// How long a thread looks before it sleeps.
const LOOK: Duration = Duration::from_millis(10);
/// How long another node may take to answer a question (MC-NATTRGET-2).
const ANSWER: Duration = Duration::from_secs(5);
/// Frames that are looked at for the last time.
const LAST: usize = 1 << 20;

pub(crate) type SharedLink<D> = Arc<Mutex<Link<D>>>;

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
    core: Mutex<Core<D>>,
    /// Something has become complete, or the node has ended.
    changed: Condvar,
    pub(crate) service: Service,
    pub(crate) connector: Worker,
    /// Threads of the program that look until there is something.
    watchers: AtomicUsize,
    /// A thread of the program has looked once.
    polled: AtomicBool,
    /// Something has happened to a session.
    news: AtomicBool,
}

struct Core<D: Device> {
    engine: Engine,
    links: HashMap<NodeId, SharedLink<D>>,
    alive: bool,
    /// Threads of the program that sleep.
    asleep: usize,
}

/// A thread looks, as long as this is there.
struct Watch<'a>(&'a AtomicUsize);

impl<'a> Watch<'a> {
    fn new(watchers: &'a AtomicUsize) -> Self {
        watchers.fetch_add(1, Ordering::SeqCst);
        Watch(watchers)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
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
        mp_log::init();
        let id = NodeId::new(domain, node)?;
        let host = fabric.host().map_err(failed)?;
        let claim = claim(&fabric, &topology, id, host)?;
        let node = Node(Arc::new(NodeShared {
            fabric,
            topology,
            id,
            host,
            core: Mutex::new(Core {
                engine: Engine::new(id, attributes),
                links: HashMap::new(),
                alive: true,
                asleep: 0,
            }),
            changed: Condvar::new(),
            service: Service::new()?,
            connector: Worker::new()?,
            watchers: AtomicUsize::new(0),
            polled: AtomicBool::new(false),
            news: AtomicBool::new(false),
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
        let own = Arc::clone(shared);
        let run = move || service::run(&own);
        shared.service.worker.start("mcapi-service", run)?;
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
    /// [`Error::PortInvalid`]; [`Error::EndpointExists`]; [`Error::General`]: there are
    /// [`ENDPOINTS_MAX`](crate::ENDPOINTS_MAX).
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
        let request = self.0.with(|core| core.engine.get(endpoint, By::Call))?;
        match self.0.finish(request, deadline)?? {
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
        let port = endpoint.port();
        if endpoint.node() == self.0.id {
            let own = |core: &mut Core<D>| core.engine.attribute(port, attribute, self.0.id);
            return self.0.with(own);
        }
        let subject = Subject::Endpoint { port };
        let answer = self.ask(endpoint.node(), subject, attribute.number() as u16);
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
        self.ask(endpoint.node(), Subject::Node, number)
    }

    fn ask(&self, node: NodeId, subject: Subject, attribute: u16) -> Result<u64> {
        let ask = |core: &mut Core<D>| core.engine.ask(node, subject, attribute);
        let request = self.0.with(ask)?;
        let done = self.0.finish(request, Deadline::after(ANSWER));
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
    pub fn msg_send_i(
        &self,
        from: Endpoint,
        to: Endpoint,
        data: &[u8],
        priority: u32,
    ) -> Result<Request> {
        let send = |core: &mut Core<D>| core.engine.send(from, to, data, priority, By::Program);
        self.0.with(send)
    }

    /// Send a message: wait until there is a buffer for it at the receiver, as long as the
    /// sender's [`Attribute::Timeout`] says.
    ///
    /// # Errors
    /// As [`msg_send_i`](Self::msg_send_i) and of its request, but for the limits;
    /// [`Error::Timeout`]: nothing was sent.
    pub fn msg_send(&self, from: Endpoint, to: Endpoint, data: &[u8], priority: u32) -> Result<()> {
        let (request, deadline) = self.0.with(|core| {
            let request = core.engine.send(from, to, data, priority, By::Call)?;
            Ok((request, core.deadline(from)?))
        })?;
        self.0.finish(request, deadline)?.map(|_| ())
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
        let (request, deadline) = self.0.with(|core| {
            let request = core.engine.receive(endpoint, room, By::Call)?;
            Ok((request, core.deadline(endpoint)?))
        })?;
        match self.0.finish(request, deadline)?? {
            Completion::Message { data, is_truncated } => Ok((data, is_truncated)),
            _ => Err(Error::General),
        }
    }

    /// Messages that can be received without waiting.
    ///
    /// # Errors
    /// [`Error::EndpointInvalid`].
    pub fn msg_available(&self, endpoint: Endpoint) -> Result<usize> {
        self.0.look();
        let shared = self.0.alive()?;
        Ok(shared.engine.local(endpoint)?.available())
    }

    /// What a request has come to; nothing while it is pending. It stays (MC-TEST-1, MC-TEST-2).
    ///
    /// # Errors
    /// [`Error::RequestInvalid`]; why the operation has failed.
    pub fn test(&self, request: Request) -> Result<Option<Completion>> {
        self.0.look();
        let mut core = self.0.alive()?;
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
        let waited = self.0.wait(deadline, |core| {
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

    /// Withdraw what a request is for, and release it (MC-CANCEL-1 to MC-CANCEL-5). Who waits
    /// for it is told.
    ///
    /// # Errors
    /// [`Error::RequestInvalid`].
    pub fn cancel(&self, request: Request) -> Result<()> {
        self.0.with(|core| core.engine.cancel(request))?;
        self.0.changed.notify_all();
        Ok(())
    }
}

/// What has come of looking at all links.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    /// There was something.
    any: bool,
    /// Another thread had some of them.
    is_partly: bool,
}

impl<D: Device> Core<D> {
    /// Until when a call on an endpoint of this node waits (MC-TMO-1).
    fn deadline(&self, endpoint: Endpoint) -> Result<Deadline> {
        let settings = &self.engine.local(endpoint)?.settings;
        Ok(Deadline::after_milliseconds(settings.timeout))
    }

    /// Do something with each link that is open and that nobody else has; one that has ended is
    /// forgotten.
    fn each_link(
        &mut self,
        mut act: impl FnMut(&mut Engine, NodeId, &mut Link<D>) -> Result<bool, End>,
    ) -> Moved {
        let mut moved = Moved::default();
        let engine = &mut self.engine;
        self.links.retain(|node, link| {
            let Ok(mut link) = link.try_lock() else {
                moved.is_partly = true;
                return true;
            };
            let acted = link.is_open().and_then(|is_open| {
                if link.has_begun() {
                    engine.up(*node);
                }
                Ok(is_open && act(engine, *node, &mut link)?)
            });
            moved.any |= acted.unwrap_or(true);
            if let Err(end) = acted {
                debug!("the session with {node} has ended: {end:?}");
                engine.down(*node, end);
                engine.seek(*node);
            }
            acted.is_ok()
        });
        moved
    }

    /// Move frames of all links.
    fn progress(&mut self) -> Moved {
        self.each_link(|engine, node, link| engine.progress(node, link))
    }

    /// Forget links whose partner has gone, or that are down.
    fn look_for_ends(&mut self) -> Moved {
        let mut moved = Moved::default();
        let engine = &mut self.engine;
        self.links.retain(|node, link| {
            let Ok(mut link) = link.try_lock() else {
                moved.is_partly = true;
                return true;
            };
            let Some(end) = link.look() else {
                return true;
            };
            moved.any = true;
            debug!("the session with {node} is over: {end:?}");
            // What it has said last may have come meanwhile.
            let _ = link.is_open().and_then(|is_open| match is_open {
                true if link.has_begun() => Ok(false),
                true => engine.take_in(*node, &mut *link, LAST),
                false => Ok(false),
            });
            engine.down(*node, end);
            engine.seek(*node);
            false
        });
        moved
    }

    /// Look at everything that has arrived.
    fn take_in(&mut self) {
        self.each_link(|engine, node, link| {
            let moved = engine.take_in(node, link, LAST)?;
            link.flush()?;
            Ok(moved)
        });
    }

    /// Whether something is to be sent for which there is no room now.
    fn has_to_send(&mut self) -> bool {
        let Core { engine, links, .. } = self;
        links.keys().any(|node| engine.has_to_send(*node))
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

    /// Do something, and let others know what they have to do about it.
    fn with<T>(&self, act: impl FnOnce(&mut Core<D>) -> Result<T>) -> Result<T> {
        let mut core = self.alive()?;
        let result = act(&mut core);
        self.move_frames(&mut core);
        self.wake(&core);
        let waits = core.has_to_send();
        drop(core);
        if waits {
            self.service.kick();
        }
        result
    }

    /// Move frames of all links; whether there were any.
    fn move_frames(&self, core: &mut Core<D>) -> bool {
        let mut moved = core.progress().any;
        if self.news.swap(false, Ordering::SeqCst) {
            let ended = core.look_for_ends();
            moved |= ended.any;
            if ended.is_partly {
                self.note_news();
            }
        }
        if moved {
            self.wake(core);
        }
        if core.engine.seeks() {
            self.connector.wake.ring();
        }
        moved
    }

    /// Wake threads for which there may be something, which takes a system call.
    fn wake(&self, core: &Core<D>) {
        if core.asleep > 0 {
            self.changed.notify_all();
        }
    }

    /// Move frames for a call that does not wait.
    fn look(&self) {
        self.polled.store(true, Ordering::SeqCst);
        if let Ok(mut core) = self.alive() {
            self.move_frames(&mut core);
        }
    }

    /// Move frames for the service thread; whether there were any.
    pub(crate) fn serve(&self) -> bool {
        match self.core.try_lock() {
            Ok(mut core) if core.alive => self.move_frames(&mut core),
            _ => false,
        }
    }

    /// Something has happened to a session: whoever moves frames next looks to which.
    pub(crate) fn note_news(&self) {
        self.news.store(true, Ordering::SeqCst);
    }

    /// Whether nobody has looked since something has happened to a session.
    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Ordering::SeqCst)
    }

    /// Whether threads of the program look, or one has since this was asked last.
    pub(crate) fn is_watched(&self) -> bool {
        let polled = self.polled.swap(false, Ordering::SeqCst);
        polled || self.watchers.load(Ordering::SeqCst) > 0
    }

    /// All links, and whether something waits for room on them.
    pub(crate) fn links(&self) -> Vec<(SharedLink<D>, bool)> {
        let mut core = lock(&self.core);
        let Core { engine, links, .. } = &mut *core;
        let links = links.iter();
        let links = links.map(|(node, link)| (Arc::clone(link), engine.has_to_send(*node)));
        links.collect()
    }

    /// Nodes that the connector has to find.
    pub(crate) fn sought(&self) -> Vec<NodeId> {
        let core = lock(&self.core);
        let mut sought = core.engine.sought();
        sought.retain(|node| !core.links.contains_key(node));
        sought
    }

    /// There is a link to a node, perhaps in the place of one that has ended.
    pub(crate) fn connected(&self, node: NodeId, link: Link<D>) {
        let Ok(mut core) = self.alive() else {
            return;
        };
        debug!("a session with {node} begins");
        let before = core.links.insert(node, Arc::new(Mutex::new(link)));
        if before.is_some() {
            core.engine.down(node, End::Gone);
            self.wake(&core);
        }
        drop(core);
        self.service.kick();
    }

    /// A node is not there, or cannot be reached.
    pub(crate) fn unreachable(&self, node: NodeId, end: End) {
        let Ok(mut core) = self.alive() else {
            return;
        };
        if !core.links.contains_key(&node) {
            core.engine.down(node, end);
            self.wake(&core);
        }
    }

    /// Wait until there is an answer: look for a while, then sleep.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::NodeNotInit`]: also if the node is finalized meanwhile.
    fn wait<T>(
        &self,
        deadline: Deadline,
        mut answer: impl FnMut(&mut Core<D>) -> Option<T>,
    ) -> Result<T> {
        let mut watch = Some(Watch::new(&self.watchers));
        let begun = Instant::now();
        let is_over = |deadline: Deadline| deadline.remaining().is_some_and(|left| left.is_zero());
        loop {
            let mut core = self.alive()?;
            self.move_frames(&mut core);
            if let Some(answer) = answer(&mut core) {
                return Ok(answer);
            }
            if is_over(deadline) {
                return Err(Error::Timeout);
            }
            if watch.is_some() && begun.elapsed() < LOOK {
                drop(core);
                spin_loop();
                continue;
            }
            watch = None;
            self.service.kick();
            self.sleep(core, deadline);
        }
    }

    /// Sleep until something has changed.
    fn sleep(&self, mut core: MutexGuard<'_, Core<D>>, deadline: Deadline) {
        core.asleep += 1;
        let mut core = match deadline.remaining() {
            None => {
                let woken = self.changed.wait(core);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
            Some(left) => {
                let woken = self.changed.wait_timeout(core, left);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        core.asleep -= 1;
        if !core.alive {
            // Whoever finalizes waits for that.
            self.changed.notify_all();
        }
    }

    /// Wait for the end of a call's own request, and release it. One that is not done in time is
    /// withdrawn, unless it has started to be sent: then its end is near.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    fn finish(&self, request: Request, deadline: Deadline) -> Result<Outcome> {
        let mut deadline = deadline;
        loop {
            let waited = self.wait(deadline, |core| {
                let all = core.engine.requests();
                match all.is_done(request) {
                    true => all.release(request).ok()?.1,
                    false => None,
                }
            });
            if waited != Err(Error::Timeout) {
                return waited;
            }
            let withdrawn = self.with(|core| match core.engine.is_started(request) {
                true => Ok(None),
                false => core.engine.cancel(request).map(Some),
            })?;
            match withdrawn {
                Some(Some(done)) => return Ok(done),
                Some(None) => return Err(Error::Timeout),
                None => deadline = Deadline::NEVER,
            }
        }
    }

    fn finalize(&self) -> Result<()> {
        let mut core = self.alive()?;
        core.alive = false;
        let links = std::mem::take(&mut core.links);
        self.changed.notify_all();
        while core.asleep > 0 {
            let woken = self.changed.wait(core);
            core = woken.unwrap_or_else(PoisonError::into_inner);
        }
        core.engine = Engine::new(self.id, NodeAttributes::default());
        drop(core);
        for link in links.values() {
            lock(link).close();
        }
        self.connector.stop();
        self.service.worker.stop();
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
