// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a node has below its lock: the engine, the links to other nodes, and what waits. Nothing of it
//! is called without the lock.

use super::{waiting::Sleeper, Errand, Tie, PEERS_MAX};
use crate::{
    engine::{Engine, LAST},
    link::Link,
    pipe::Pipe,
    request::By,
    table::Table,
    wire::{End, Frame, Lane, Wire},
    Endpoint, Error, NodeId, Outcome, Request, Result,
};
use mp_fabric::{Deadline, Device};
use mp_queue_pair::{
    provider::{Attention, Service},
    Piece,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tracing::debug;

/// What the lock of a node is for.
pub(super) struct Core<D: Device> {
    pub(super) engine: Engine,
    pub(super) links: Table<NodeId, Linked<D>>,
    /// Ways for data that something waits for, in the order in which they are served.
    pub(super) busy: BTreeMap<(u32, u16), Arc<Pipe<D>>>,
    /// What the connector has to do for channels.
    pub(super) errands: Vec<Errand>,
    /// What the service thread looks after, by numbers.
    pub(super) ties: HashMap<u64, Tie<D>>,
    pub(super) numbers: u64,
    pub(super) alive: bool,
    /// Threads of the program that sleep.
    pub(super) sleepers: Vec<Sleeper>,
}

/// The link to another node.
pub(super) struct Linked<D: Device> {
    pub(super) number: u64,
    /// The host that it leads to.
    pub(super) host: u32,
    pub(super) attention: Arc<Attention>,
    pub(super) link: Link<D>,
}

impl<D: Device> Linked<D> {
    /// Do something with the link if it is open, after a look at its session if that has news. The
    /// service sees to what could not be signalled.
    ///
    /// # Errors
    /// How it has ended.
    fn act(
        &mut self,
        engine: &mut Engine,
        node: NodeId,
        service: &Service,
        act: impl FnOnce(&mut Engine, &mut Link<D>) -> Result<bool, End>,
    ) -> Result<bool, End> {
        let link = &mut self.link;
        if self.attention.take_news() {
            link.look().map_or(Ok(()), Err)?;
        }
        let is_open = link.is_open()?;
        if link.has_begun() {
            engine.up(node, self.host);
        }
        let acted = is_open && act(engine, link)?;
        if link.owes_signal() {
            self.attention.list(service, self.number);
        }
        Ok(acted)
    }

    /// Move frames; whether there were any.
    ///
    /// # Errors
    /// How it has ended.
    fn progress(
        &mut self,
        engine: &mut Engine,
        node: NodeId,
        service: &Service,
    ) -> Result<bool, End> {
        self.act(engine, node, service, |engine, link| {
            engine.progress(node, link)
        })
    }
}

impl<D: Device> Core<D> {
    pub(super) fn new(engine: Engine) -> Self {
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
    pub(super) fn deadline(&self, endpoint: Endpoint) -> Result<Deadline> {
        let settings = &self.engine.local(endpoint)?.settings;
        Ok(Deadline::after_milliseconds(settings.timeout))
    }

    /// Do something with a link that is open; one that has ended is forgotten. Whether there was
    /// something. The service sees to what could not be signalled.
    pub(super) fn on_link(
        &mut self,
        node: NodeId,
        service: &Service,
        act: impl FnOnce(&mut Engine, &mut Link<D>) -> Result<bool, End>,
    ) -> bool {
        let Some(linked) = self.links.get_mut(&node) else {
            return false;
        };
        let acted = linked.act(&mut self.engine, node, service, act);
        if let Err(end) = acted {
            self.unlink(node, end);
        }
        acted.unwrap_or(true)
    }

    /// A link has ended: receive what has arrived, and forget it.
    pub(super) fn unlink(&mut self, node: NodeId, end: End) {
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
    pub(super) fn relink(&mut self, node: NodeId, host: u32, link: Link<D>) -> u64 {
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
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Move frames of a link; whether there were any.
    pub(super) fn progress(&mut self, node: NodeId, service: &Service) -> bool {
        self.on_link(node, service, |engine, link| engine.progress(node, link))
    }

    /// Move frames of all links, for a thread of the program; whether there were any.
    pub(super) fn progress_all(&mut self, service: &Service) -> bool {
        let Core { engine, links, .. } = self;
        let (mut moved, mut ended) = (false, Vec::new());
        for (node, linked) in links {
            linked.attention.watch();
            match linked.progress(engine, *node, service) {
                Ok(any) => moved |= any,
                Err(end) => ended.push((*node, end)),
            }
        }
        moved |= !ended.is_empty();
        for (node, end) in ended {
            self.unlink(node, end);
        }
        moved
    }

    /// Send a message at once, from where it is; false if it has to wait for its turn or for room.
    pub(super) fn send_at_once(
        &mut self,
        from: Endpoint,
        to: NodeId,
        lane: Lane,
        data: Piece<'_>,
        service: &Service,
    ) -> bool {
        let message = Frame::Message {
            lane,
            from: from.port(),
            total: data.len() as u32,
            data,
        };
        let mut is_sent = false;
        self.on_link(to, service, |engine, link| {
            is_sent = engine.send_at_once(to, message, link)?;
            if is_sent {
                link.flush()?;
            }
            Ok(is_sent)
        });
        is_sent
    }

    /// Begin to send a message: as [`Engine::send`], but at once if that can be.
    ///
    /// # Errors
    /// The same.
    pub(super) fn send(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        data: Piece<'_>,
        priority: u32,
        service: &Service,
    ) -> Result<Request> {
        let lane = self.engine.check_send(from, to, data.len(), priority)?;
        let request = self.engine.begin_send(from, to, lane, By::Program)?;
        match self.send_at_once(from, to.node(), lane, data, service) {
            true => self
                .engine
                .end_send(request, from.port(), data.len(), Ok(())),
            false => self.engine.queue(request, data)?,
        }
        Ok(request)
    }

    /// Look at everything that has arrived.
    pub(super) fn take_in(&mut self, service: &Service) {
        let nodes: Vec<_> = self.links.keys().copied().collect();
        for node in nodes {
            self.on_link(node, service, |engine, link| {
                let moved = engine.take_in(node, link, LAST)?;
                link.flush()?;
                Ok(moved)
            });
        }
    }

    /// Whether one of some requests is done, or not there any more.
    pub(super) fn is_any_over(&mut self, requests: &[Request]) -> bool {
        let all = self.engine.requests();
        let is_over = |request: &Request| all.is_done(*request) || !all.is_live(*request);
        requests.iter().any(is_over)
    }

    /// Wake threads whose requests are over, which takes a system call for each one that sleeps;
    /// whether there were any.
    pub(super) fn wake(&mut self) -> bool {
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
    pub(super) fn take_done(&mut self, request: Request) -> Option<Outcome> {
        let all = self.engine.requests();
        match (all.is_live(request), all.is_done(request)) {
            (false, _) => Some(Err(Error::RequestCancelled)),
            (true, true) => all.release(request).ok()?.1,
            (true, false) => None,
        }
    }
}

/// Whether there may be a session with a node of a host beside those that there are, with their hosts.
pub(super) fn has_room_for(
    node: NodeId,
    host: u32,
    others: impl Iterator<Item = (NodeId, u32)>,
) -> bool {
    let others = others.filter(|(other, at)| *at == host && *other != node);
    others.count() < PEERS_MAX
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        attributes::NodeAttributes,
        link::tests::{message, pair, pair_in},
        request::By,
        wire::{Control, Frame},
        Parameters,
    };
    use mp_queue_pair::Piece;
    use mp_testing::World;

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
        core.progress(other, &Service::new().unwrap());
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
        core.progress(other, &Service::new().unwrap());
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
