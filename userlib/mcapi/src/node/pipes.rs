// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ways for data of a node's channels: what calls do with one, what moves data on those that something
//! waits for, and what becomes of them as channels begin and end.

use super::{
    core::Core,
    waiting::{begin_call, look_for},
    NodeShared, Tie,
};
use crate::{
    channel::Direction,
    connection::Role,
    engine::News,
    lent::address,
    lock,
    pipe::{Buffer, Done, Ended, Pipe, Plan, Tried},
    request::By,
    wire::copied,
    Channel, Completion, Deadline, Device, Error, NodeId, Outcome, Packet, Request, Result,
};
use mp_fabric::{EventMask, InterfaceId, Session};
use mp_queue_pair::{provider::NEWS, Piece};
use std::{
    sync::{Arc, PoisonError},
    time::Instant,
};

/// What the connector has to do for a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errand {
    pub(crate) plan: Plan,
    /// The node of the other end.
    pub(crate) peer: NodeId,
}

impl<D: Device> NodeShared<D> {
    /// The way for data that a handle is for.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`].
    pub(super) fn pipe(&self, channel: Channel, role: Role) -> Result<Arc<Pipe<D>>> {
        let pipe = self.pipe_of(channel.port());
        let pipe = pipe.filter(|pipe| pipe.is(channel, role));
        pipe.ok_or_else(|| self.or_ended(Error::ChannelInvalid))
    }

    fn pipe_of(&self, port: u16) -> Option<Arc<Pipe<D>>> {
        let pipes = self.pipes.read().unwrap_or_else(PoisonError::into_inner);
        pipes.get(&port).cloned()
    }

    /// An error, unless the node has ended: then that is why.
    pub(super) fn or_ended(&self, error: Error) -> Error {
        self.alive().err().unwrap_or(error)
    }

    /// Let the service thread wake the other end, if the kernel had no memory for that.
    pub(super) fn see_to_signal(&self, pipe: &Pipe<D>, owes_signal: bool) {
        if owes_signal {
            pipe.attention.list(&self.service, pipe.number);
        }
    }

    /// Try something with a way for data once.
    ///
    /// # Errors
    /// What the attempt fails with.
    pub(super) fn attempt<T>(
        &self,
        pipe: &Pipe<D>,
        attempt: impl Fn(&Pipe<D>) -> Result<Tried<T>>,
    ) -> Result<Option<T>> {
        match attempt(pipe) {
            Ok(Tried { done, owes_signal }) => {
                self.see_to_signal(pipe, owes_signal);
                Ok(done)
            }
            Err(error) => {
                // What the other end has done wrong ends the channel.
                pipe.attention.list(&self.service, pipe.number);
                Err(self.or_ended(error))
            }
        }
    }

    /// Try something with a way for data, for as long as threads look; nothing if it takes longer.
    ///
    /// # Errors
    /// What the attempt fails with; [`Error::Timeout`].
    pub(super) fn spin<T>(
        &self,
        pipe: &Arc<Pipe<D>>,
        begun: Instant,
        deadline: Deadline,
        attempt: impl Fn(&Pipe<D>) -> Result<Tried<T>>,
    ) -> Result<Option<T>> {
        look_for(begun, deadline, || self.attempt(pipe, &attempt))
    }

    /// Send something: look for room for a while, then wait for it, with a copy as soon as there is memory
    /// for that.
    pub(super) fn send(
        self: &Arc<Self>,
        pipe: &Arc<Pipe<D>>,
        data: Piece<'_>,
        attempt: impl Fn(&Pipe<D>) -> Result<Tried<()>>,
    ) -> Result<()> {
        if self.attempt(pipe, &attempt)?.is_some() {
            return Ok(());
        }
        let (begun, deadline) = (Instant::now(), pipe.deadline());
        let sent = self.spin(pipe, begun, deadline, &attempt)?;
        if sent.is_some() {
            return Ok(());
        }
        let send_or_begin = || match self.attempt(pipe, &attempt)? {
            Some(()) => Ok(None),
            None => self.begin_send(pipe, data, By::Call).map(Some),
        };
        let Some(request) = begin_call(deadline, send_or_begin)? else {
            return Ok(());
        };
        self.finish(request, begun, deadline)??;
        Ok(())
    }

    pub(super) fn begin_send(
        &self,
        pipe: &Arc<Pipe<D>>,
        data: Piece<'_>,
        by: By,
    ) -> Result<Request> {
        self.with(|core| {
            pipe.check_open()?;
            core.engine.requests().check(by)?;
            if by == By::Program {
                pipe.check_room()?;
            }
            let (at, data) = (address(&data), copied(&data)?);
            let request = core.engine.packet(pipe.plan.port, by)?;
            pipe.wait_to_send(request, at, data, by == By::Program);
            self.begin(core, pipe, request)
        })
    }

    pub(super) fn begin_receive(&self, pipe: &Arc<Pipe<D>>, by: By) -> Result<Request> {
        self.with(|core| {
            pipe.check_receive()?;
            let request = core.engine.packet(pipe.plan.port, by)?;
            pipe.wait_to_receive(request);
            self.begin(core, pipe, request)
        })
    }

    /// Do what a request wants if it can be done now; else the service thread looks after it. One
    /// that has failed at once is none.
    fn begin(&self, core: &mut Core<D>, pipe: &Arc<Pipe<D>>, request: Request) -> Result<Request> {
        core.busy.insert(pipe.plan.rank(), Arc::clone(pipe));
        self.move_pipe(core, pipe);
        if pipe.is_busy() {
            pipe.attention.list(&self.service, pipe.number);
        }
        core.engine.at_once(request)
    }

    /// Keep a packet for the program, which has it from now on.
    pub(super) fn keep(&self, pipe: &Arc<Pipe<D>>, buffer: Buffer) -> Result<Packet> {
        let packet = Packet::new(buffer.area().clone())?;
        let entry = (Arc::clone(pipe), buffer);
        lock(&self.held).insert(packet.address(), entry);
        Ok(packet)
    }

    /// Complete requests for data that are over.
    fn end(&self, core: &mut Core<D>, pipe: &Arc<Pipe<D>>, ended: Ended) {
        for (request, done) in ended {
            let outcome: Outcome = match done {
                Ok(Done::Sent(size)) => Ok(Completion::Sent(size)),
                Ok(Done::Packet(held)) => self.keep(pipe, held).map(Completion::Packet),
                Ok(Done::Ready) => Ok(Completion::Value(1)),
                Err(error) => Err(error),
            };
            core.engine.requests().complete(request, outcome);
        }
    }

    /// Move data of all channels that something waits for, in the order of their priorities, for a thread
    /// of the program. Whether there were any.
    pub(super) fn move_data(&self, core: &mut Core<D>) -> bool {
        if core.busy.is_empty() {
            return false;
        }
        let busy: Vec<_> = core.busy.values().cloned().collect();
        let mut moved = false;
        for pipe in busy {
            pipe.attention.watch();
            moved |= self.move_pipe(core, &pipe);
        }
        moved
    }

    /// Move data of a channel, after what waits to be sent on those of a higher priority. Whether there
    /// were any of its own.
    pub(super) fn move_in_turn(&self, core: &mut Core<D>, pipe: &Arc<Pipe<D>>) -> bool {
        let before = core.busy.range(..pipe.plan.rank());
        let before = before.map(|(_, pipe)| pipe);
        let senders: Vec<_> = before.filter(|pipe| pipe.has_to_send()).cloned().collect();
        for sender in senders {
            self.move_pipe(core, &sender);
        }
        self.move_pipe(core, pipe)
    }

    /// Move data of a channel; whether there were any.
    pub(super) fn move_pipe(&self, core: &mut Core<D>, pipe: &Arc<Pipe<D>>) -> bool {
        let Plan { port, id, .. } = pipe.plan;
        let is_over = pipe.attention.take_news() && pipe.look().is_some();
        let moved = pipe.progress();
        self.end(core, pipe, moved.ended);
        if moved.has_begun {
            core.engine.ready(port, id);
        }
        if moved.is_drained {
            core.engine.drained(port);
        }
        if is_over || moved.end.is_some() {
            core.engine.severed(port, id);
        }
        if !pipe.is_busy() {
            core.busy.remove(&pipe.plan.rank());
        }
        moved.any
    }

    /// Do what has happened to channels; whether there was anything.
    pub(super) fn follow_news(&self, core: &mut Core<D>) -> bool {
        let news = core.engine.news();
        let any = !news.is_empty();
        for news in news {
            match news {
                News::Post { port, peer, .. } | News::Ask { port, peer, .. } => {
                    let plan = core.engine.plan(port);
                    core.errands.extend(plan.map(|plan| Errand { plan, peer }));
                    self.connector.wake.ring();
                }
                News::Ended { port } => self.forget(core, port),
                News::Opened { port, channel } => {
                    if let Some(pipe) = self.pipe_of(port) {
                        pipe.opened(channel);
                    }
                }
                News::Withdrawn { port, request } => {
                    if let Some(pipe) = self.pipe_of(port) {
                        pipe.withdraw(request);
                    }
                }
                News::ClosedHere { port } => self.change(core, port, Pipe::close_here),
                News::ClosedThere { port } => self.change(core, port, Pipe::close_there),
                News::Severed { port } => self.change(core, port, Pipe::sever),
            }
        }
        any
    }

    /// Something has happened to a channel that ends requests, and perhaps more when data are moved.
    fn change(&self, core: &mut Core<D>, port: u16, change: impl FnOnce(&Pipe<D>) -> Ended) {
        let Some(pipe) = self.pipe_of(port) else {
            return;
        };
        let ended = change(&pipe);
        self.end(core, &pipe, ended);
        if pipe.is_busy() {
            core.busy.insert(pipe.plan.rank(), Arc::clone(&pipe));
            self.move_pipe(core, &pipe);
            pipe.attention.list(&self.service, pipe.number);
        }
    }

    /// The endpoint of a port is not connected any more.
    fn forget(&self, core: &mut Core<D>, port: u16) {
        let mut pipes = self.pipes.write().unwrap_or_else(PoisonError::into_inner);
        let pipe = pipes.remove(&port);
        drop(pipes);
        if let Some(pipe) = pipe {
            core.busy.remove(&pipe.plan.rank());
            core.ties.remove(&pipe.number);
            let ended = pipe.close_here();
            self.end(core, &pipe, ended);
            // Its session ends with it: with the last packet that the program has (MC-PKTREL-4), or that
            // it has lent.
            drop(pipe);
            self.forget_lenders();
        }
    }

    /// Forget ways for data that were closed here and lend nothing any more.
    fn forget_lenders(&self) {
        lock(&self.lenders).retain(|pipe| !pipe.lends_no_more());
    }

    /// List the ways for data that packets were lent on, also those of channels that were closed since.
    pub(super) fn lenders(&self) -> Vec<Arc<Pipe<D>>> {
        lock(&self.lenders).clone()
    }

    /// The node has ended.
    pub(super) fn forget_channels(&self) {
        let mut pipes = self.pipes.write().unwrap_or_else(PoisonError::into_inner);
        for (_, pipe) in pipes.drain() {
            pipe.close();
        }
        drop(pipes);
        lock(&self.lenders).clear();
        lock(&self.held).clear();
    }

    /// What the connector has to do for channels.
    pub(crate) fn errands(&self) -> Vec<Errand> {
        std::mem::take(&mut lock(&self.core).errands)
    }

    /// Whether the way for data of a channel is still wanted.
    pub(crate) fn is_wanted(&self, plan: &Plan) -> bool {
        let core = lock(&self.core);
        let now = core.engine.plan(plan.port);
        now.is_some_and(|now| now.id == plan.id)
    }

    /// The interface that leads to a node.
    pub(crate) fn interface_to(&self, peer: NodeId) -> Option<InterfaceId> {
        let core = lock(&self.core);
        let session = core.links.get(&peer)?.link.session()?;
        Some(session.state().ok()?.interface)
    }

    /// The receiving end of a channel was posted.
    pub(crate) fn posted(&self, plan: &Plan) {
        if let Ok(mut core) = self.alive() {
            core.engine.posted(plan.port, plan.id);
            self.settle(&mut core);
        }
    }

    /// There is no way for data of a channel.
    pub(crate) fn severed(&self, plan: &Plan) {
        if let Ok(mut core) = self.alive() {
            core.engine.severed(plan.port, plan.id);
            self.settle(&mut core);
        }
    }

    /// There is a session for the data of a channel.
    pub(crate) fn piped(&self, plan: &Plan, session: Session<D>) {
        // What has woken the connector is the service thread's from now on.
        let quiet = session.notify(EventMask::empty(), None);
        let Ok(mut core) = self.alive() else {
            return;
        };
        let is_wanted = core
            .engine
            .plan(plan.port)
            .is_some_and(|now| now.id == plan.id);
        if !is_wanted {
            return;
        }
        let number = core.number();
        let watched = session.watch(NEWS, number);
        let pipe = match quiet.and(watched) {
            Ok(()) => Pipe::new(session, *plan, number).ok(),
            Err(_) => None,
        };
        match pipe.map(Arc::new) {
            Some(pipe) => {
                core.ties.insert(number, Tie::Pipe(Arc::clone(&pipe)));
                core.busy.insert(plan.rank(), Arc::clone(&pipe));
                if plan.is_lent() && plan.role.direction == Direction::Send {
                    lock(&self.lenders).push(Arc::clone(&pipe));
                }
                let mut pipes = self.pipes.write().unwrap_or_else(PoisonError::into_inner);
                pipes.insert(plan.port, Arc::clone(&pipe));
                drop(pipes);
                pipe.attention.note_news();
                pipe.attention.list(&self.service, number);
            }
            None => core.engine.severed(plan.port, plan.id),
        }
        self.settle(&mut core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        attributes::{Attribute, NodeAttributes},
        Node, Topology,
    };
    use mp_fabric::Fabric;
    use mp_testing::{Host, World};

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
            // A receiving end waits as long as nobody has looked at its session.
            let waits = |core: &Core<_>| {
                core.busy
                    .values()
                    .any(|pipe| u32::from(pipe.plan.port) == port + 1)
            };
            while waits(&node.0.look().unwrap()) {}
            // More than there are buffers.
            for _ in 0..20 {
                node.pktchan_send_i(channel, b"waits").unwrap();
            }
        }
        let core = node.0.alive().unwrap();
        let senders = core.busy.values().map(|pipe| pipe.plan.port);
        assert_eq!(senders.collect::<Vec<_>>(), [3, 7, 5, 1]);
    }
}
