// SPDX-License-Identifier: MIT OR Apache-2.0

//! The way for data of a channel: a queue pair of its own, from the sending to the receiving end.
//!
//! | carries | in | kind |
//! |---|---|---|
//! | a packet | one slot of the receiver's window, however short it is | 0 |
//! | a scalar | a line of the ring, little-endian | its bytes |
//! | the news that there is a value in a state buffer ([`latest`](crate::latest)) | a line of the ring, empty | 0 |
//!
//! A packet is handed out in the slot that it has arrived in, and the slot goes back to the sender
//! when the program releases it, in any order: the number of slots is that of packets that were sent
//! and not released.
//!
//! A pipe has a lock of its own. Calls that find data, or room, need no other one. Those that do not
//! leave a request here, which whoever moves data for the node ends; from then on calls queue behind
//! it.

mod inner;
mod plan;

pub(crate) use plan::Plan;

use crate::{
    channel::{Channel, Direction},
    connection::Role,
    latest::Copied,
    lock,
    pair::Pair,
    wire::End,
    Error, Request, Result, Scalar,
};
use inner::{Inner, Item, Sends, Waiting};
use mp_fabric::{Deadline, Device, Session};
use mp_queue_pair::{
    provider::{Answer, Attention, NotNow, Question},
    Area, Held, Piece,
};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, OnceLock},
};

/// A buffer that a packet is received in.
#[derive(Debug)]
pub(crate) enum Buffer {
    /// The one that it has arrived in.
    Slot(Held),
    /// One that it was copied to, of a state buffer.
    Copied(Box<Copied>),
}

impl Buffer {
    pub(crate) fn area(&self) -> &Area {
        match self {
            Buffer::Slot(held) => held.area(),
            Buffer::Copied(copied) => copied.area(),
        }
    }
}

/// What has come of trying something that is done at once or not at all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tried<T> {
    /// Nothing: it cannot be done now.
    pub(crate) done: Option<T>,
    /// It was done, and there is something left that the service thread does: the other end could not
    /// be woken, or there is a buffer for a receive that waits.
    pub(crate) owes_signal: bool,
}

/// What a request has come to. A packet that was received is kept by the node.
#[derive(Debug)]
pub(crate) enum Done {
    Sent(usize),
    Packet(Buffer),
    /// There is something to receive.
    Ready,
}

/// Requests that are over.
pub(crate) type Ended = Vec<(Request, Result<Done>)>;

/// What a pipe has to say to its node.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    pub(crate) ended: Ended,
    /// It has become open.
    pub(crate) has_begun: bool,
    /// Nothing waits to be sent any more, and the end is closed.
    pub(crate) is_drained: bool,
    /// How it has ended.
    pub(crate) end: Option<End>,
    /// Something was sent or received.
    pub(crate) any: bool,
}

/// The way for data of a channel.
#[derive(Debug)]
pub(crate) struct Pipe<D: Device> {
    pub(crate) plan: Plan,
    pub(crate) number: u64,
    pub(crate) attention: Attention,
    /// The handle, once it is open.
    channel: OnceLock<Channel>,
    inner: Mutex<Inner<D>>,
}

impl<D: Device> Pipe<D> {
    /// Begin the way in a session that is paired.
    ///
    /// # Errors
    /// The end that it has come to.
    pub(crate) fn new(session: Session<D>, plan: Plan, number: u64) -> Result<Self, End> {
        let pair = Pair::new(session, |size| plan.shape(size))?;
        Ok(Pipe {
            plan,
            number,
            attention: Attention::default(),
            channel: OnceLock::new(),
            inner: Mutex::new(Inner {
                pair,
                room: Box::default(),
                arrived: VecDeque::new(),
                posted: VecDeque::new(),
                waiting: VecDeque::new(),
                sends: Sends::Plain,
                getter: None,
                ended: None,
                is_broken: false,
                is_over: false,
                is_closed: false,
                is_finished: false,
            }),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner<D>> {
        lock(&self.inner)
    }

    /// It is open, by that handle.
    pub(crate) fn opened(&self, channel: Channel) {
        let _ = self.channel.set(channel);
    }

    /// Whether it is what a call with a handle is for.
    pub(crate) fn is(&self, channel: Channel, role: Role) -> bool {
        self.has(channel) && self.plan.role == role
    }

    /// Until when a call waits (MC-TMO-1).
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after_milliseconds(self.plan.timeout)
    }

    /// Send a packet now, unless others wait or there is no room.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`], [`Error::PacketSize`], [`Error::Transmission`].
    pub(crate) fn try_send_packet(&self, data: Piece<'_>) -> Result<Tried<()>> {
        let mut inner = self.inner();
        self.check_packet(&inner, data.len())?;
        let is_sent = inner.waiting.is_empty() && inner.send_packet(data)?;
        Ok(inner.tried(is_sent.then_some(())))
    }

    fn check_packet(&self, inner: &Inner<D>, len: usize) -> Result<()> {
        inner.check()?;
        match len <= self.plan.packet_max() {
            true => Ok(()),
            false => Err(Error::PacketSize),
        }
    }

    /// Whether something may be sent at all.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.inner().check()
    }

    /// Whether a packet of so many bytes may be sent.
    ///
    /// # Errors
    /// As of [`try_send_packet`](Self::try_send_packet).
    pub(crate) fn check_send(&self, len: usize) -> Result<()> {
        self.check_packet(&self.inner(), len)
    }

    /// Whether one more packet may wait of a call that does not.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`].
    pub(crate) fn check_room(&self) -> Result<()> {
        let inner = self.inner();
        let counted = inner.waiting.iter().filter(|waiting| waiting.is_counted);
        match counted.count() < self.plan.send_buffers as usize {
            true => Ok(()),
            false => Err(Error::MemoryLimit),
        }
    }

    /// Let a packet that the program has at an address, or the bytes of a scalar, wait until there is room.
    pub(crate) fn wait_to_send(
        &self,
        request: Request,
        address: usize,
        data: Box<[u8]>,
        is_counted: bool,
    ) {
        self.inner().waiting.push_back(Waiting {
            request,
            address,
            data,
            is_counted,
        });
    }

    /// Take the next packet, unless receives wait.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`], [`Error::Transmission`]: there are none, and there will be none.
    pub(crate) fn try_receive_packet(&self) -> Result<Tried<Buffer>> {
        let mut inner = self.inner();
        inner.check_here()?;
        if !inner.posted.is_empty() {
            return Ok(inner.tried(None));
        }
        match inner.take(&self.plan)? {
            Some(Item::Packet(buffer)) => Ok(inner.tried(Some(buffer))),
            _ => Ok(inner.tried(None)),
        }
    }

    /// Whether a receive may wait.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`].
    pub(crate) fn check_receive(&self) -> Result<()> {
        self.inner().check_here()
    }

    /// Let a receive wait: for a packet, or until there is a scalar.
    pub(crate) fn wait_to_receive(&self, request: Request) {
        self.inner().posted.push_back(request);
    }

    /// A request waits no more.
    pub(crate) fn withdraw(&self, request: Request) {
        let mut inner = self.inner();
        inner.posted.retain(|other| *other != request);
        inner.waiting.retain(|waiting| waiting.request != request);
    }

    /// Packets or scalars that can be received without waiting: not those that receives which wait
    /// will take.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`].
    pub(crate) fn available(&self) -> Result<usize> {
        let mut inner = self.inner();
        inner.check_here()?;
        // One that has failed has nothing more.
        let _ = inner.take_all(&self.plan);
        let values = usize::from(inner.has_value());
        let arrived = inner.arrived.len() + values;
        Ok(arrived.saturating_sub(inner.posted.len()))
    }

    /// Give the slot of a packet back; one of a channel that is over needs nothing.
    pub(crate) fn release(&self, buffer: Buffer) -> Tried<()> {
        let mut inner = self.inner();
        let held = match buffer {
            Buffer::Slot(held) => held,
            Buffer::Copied(copied) => return inner.release_copy(*copied, &self.plan),
        };
        inner.give(held);
        inner.tried(Some(()))
    }

    /// Whether a packet that the program has sent from an address is lent: not released by the receiver,
    /// or not sent yet.
    pub(crate) fn is_lent(&self, address: usize) -> bool {
        self.inner().is_lent(address)
    }

    /// Whether nothing is lent any more, nor will be.
    pub(crate) fn lends_no_more(&self) -> bool {
        self.inner().lends_no_more()
    }

    /// Whether it is open by that handle.
    pub(crate) fn has(&self, channel: Channel) -> bool {
        self.channel.get() == Some(&channel)
    }

    /// Send a scalar, if there is room.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]; [`Error::General`].
    pub(crate) fn try_send_scalar<S: Scalar>(&self, scalar: S) -> Result<Tried<()>> {
        let mut inner = self.inner();
        inner.check()?;
        let is_sent = inner.waiting.is_empty() && inner.send_scalar(S::WIDTH, scalar.to_u64())?;
        Ok(inner.tried(is_sent.then_some(())))
    }

    /// Take the next scalar, if there is one.
    ///
    /// # Errors
    /// [`Error::ChannelInvalid`]; [`Error::General`]: it has another width, and stays.
    pub(crate) fn try_receive_scalar<S: Scalar>(&self) -> Result<Tried<S>> {
        let mut inner = self.inner();
        inner.check_here()?;
        match inner.take(&self.plan)? {
            Some(Item::Scalar { width, value }) if width == S::WIDTH => {
                Ok(inner.tried(Some(S::from_u64(value))))
            }
            Some(other) => {
                inner.put_back(other);
                Err(Error::General)
            }
            None => Ok(inner.tried(None)),
        }
    }

    /// This end was closed: what waits to be received fails, and what has arrived is discarded; what
    /// waits to be sent goes on (MC-CHAN-12, MC-CHAN-18, MC-PKTSCLOSE-3).
    pub(crate) fn close_here(&self) -> Ended {
        let mut inner = self.inner();
        inner.close(&self.plan);
        let posted = std::mem::take(&mut inner.posted);
        let failed = |request| (request, Err(Error::ChannelInvalid));
        posted.into_iter().map(failed).collect()
    }

    /// The other end was closed: nothing can be sent any more (MC-CHAN-14). What has arrived stays.
    pub(crate) fn close_there(&self) -> Ended {
        match self.plan.role.direction {
            Direction::Send => self.inner().end(Error::ChannelInvalid),
            Direction::Receive => Ended::new(),
        }
    }

    /// Nothing comes or goes any more. What has arrived stays.
    pub(crate) fn sever(&self) -> Ended {
        let mut inner = self.inner();
        let _ = inner.take_all(&self.plan);
        let mut ended = inner.receive(&self.plan);
        ended.extend(inner.end(self.plan.role.severed()));
        ended
    }

    /// Move what can be, for requests that wait.
    pub(crate) fn progress(&self) -> Moved {
        let mut inner = self.inner();
        let mut moved = Moved::default();
        if let Err(end) = inner.progress(&self.plan, &mut moved) {
            // Told once; what waits ends when the channel is severed.
            inner.is_over = true;
            moved.end = Some(end);
        }
        moved.any |= moved.has_begun || moved.is_drained || moved.end.is_some();
        moved.any |= !moved.ended.is_empty();
        moved
    }

    /// Whether something waits here, so that data have to be moved, or the other end still to be
    /// woken.
    pub(crate) fn is_busy(&self) -> bool {
        let inner = self.inner();
        let waits = !inner.posted.is_empty() || inner.has_to_send();
        let closes = inner.is_closed && !inner.is_finished;
        let begins = self.channel.get().is_none();
        let moves = begins || inner.is_broken || inner.pair.owes_signal();
        waits || closes || (!inner.is_over && moves)
    }

    /// Whether something waits to be sent.
    pub(crate) fn has_to_send(&self) -> bool {
        self.inner().has_to_send()
    }

    /// Look whether the session has ended.
    pub(crate) fn look(&self) -> Option<End> {
        self.inner().pair.look()
    }

    /// Ask the other node for signals; see [`Pair::arm`].
    ///
    /// # Errors
    /// [`NotNow`].
    pub(crate) fn arm(&self) -> std::result::Result<Option<Question<D>>, NotNow> {
        let mut inner = self.inner();
        if !inner.posted.is_empty() && inner.is_value_ready(&self.plan) {
            return Err(NotNow);
        }
        let waits = inner.has_to_send();
        inner.pair.arm(waits)
    }

    pub(crate) fn answered(&self, answer: Answer) -> Answer {
        self.inner().pair.answered(answer)
    }

    pub(crate) fn owes_signal(&self) -> bool {
        self.inner().pair.owes_signal()
    }

    /// Signal the other node for what it may not have seen.
    pub(crate) fn remind(&self) {
        self.inner().pair.remind();
    }

    /// Whether something has arrived that something waits for.
    pub(crate) fn has_work(&self) -> bool {
        self.is_busy() && self.inner().pair.has_news()
    }

    /// End the session.
    pub(crate) fn close(&self) {
        self.inner().pair.close();
    }
}

#[cfg(test)]
mod tests {
    use super::{inner::BUDGET, plan::tests::plan, *};
    use crate::{channel::Kind, pair::Open};
    use mp_fabric::{Fabric, InterfaceId};
    use mp_queue_pair::{Data, Head, Outgoing};
    use mp_testing::{FakeDevice, Host, World};

    /// A pipe between two hosts, whose ends are for these kinds.
    fn pipe(kinds: [Kind; 2]) -> [Pipe<FakeDevice>; 2] {
        let world = World::new(1, 1 << 20);
        let plans = [
            plan(kinds[0], Direction::Send, 64),
            plan(kinds[1], Direction::Receive, 64),
        ];
        let hosts = [Host::A, Host::B];
        let [a, b] = hosts.map(|host| Fabric::with_device(world.open(host)));
        let [here, there] = hosts.map(|host| InterfaceId(world.interface(0, host)));
        let size = 0x1_0000;
        let server = b
            .server(there, 1)
            .local(size..=size)
            .remote(size..=size)
            .open();
        let client = a
            .client(here, 1)
            .local(size..=size)
            .remote(size..=size)
            .open();
        let [sender, receiver] = plans;
        let ends = [(client, sender), (server, receiver)];
        let ends = ends.map(|(session, plan)| Pipe::new(session.unwrap(), plan, 1).unwrap());
        while !ends.iter().all(|end| end.inner().pair.is_open().unwrap()) {}
        ends
    }

    /// MC-PKTAVAIL-1: what receives that wait will take is nobody else's.
    #[test]
    fn packets_that_receives_wait_for_are_not_available() {
        let [sender, receiver] = pipe([Kind::Packets; 2]);
        receiver.progress();
        receiver.wait_to_receive(Request::from_raw(1));
        for (sent, left) in [(1, 0), (2, 1)] {
            let tried = sender.try_send_packet(Piece::Bytes(b"packet"));
            assert_eq!(tried.unwrap().done, Some(()));
            assert_eq!(receiver.available(), Ok(left), "{sent}");
        }
        assert_eq!(receiver.progress().ended.len(), 1);
        assert_eq!(receiver.available(), Ok(1));
    }

    /// MC-CHAN-22: what waits on a channel is sent by and by, also if there is room for all of it.
    #[test]
    fn what_waits_is_sent_in_turns() {
        let [sender, _receiver] = pipe([Kind::Scalars; 2]);
        sender.progress();
        for n in 0..2 * BUDGET as u32 + 1 {
            sender.wait_to_send(Request::from_raw(n + 1), 0, Box::new([1, 2]), false);
        }
        let sent = [(); 4].map(|()| sender.progress().ended.len());
        assert_eq!(sent, [BUDGET, BUDGET, 1, 0]);
    }

    /// MC-GEN-12: scalars have the same value for a host of either byte order, which takes a line apart
    /// and puts it together byte by byte, the lowest one first.
    #[test]
    fn scalars_are_the_same_for_hosts_of_either_byte_order() {
        let [sender, receiver] = pipe([Kind::Scalars; 2]);
        receiver.progress();
        for width in [1, 2, 4, 8_u8] {
            let value = 0x8192_A3B4_C5D6_E7F8 >> (64 - 8 * u32::from(width));
            let line: Vec<u8> = (0..width).map(|n| (value >> (8 * n)) as u8).collect();
            let pieces = [Piece::Bytes(&line)];
            let head = Head {
                kind: width,
                ..Head::default()
            };
            let mut message = Outgoing::new(head, &[], &pieces);
            let mut sends = sender.inner();
            let open = sends.pair.open().unwrap();
            assert!(open.outbox.put(&mut message).unwrap());
            open.outbox.flush().unwrap();
            let mut receives = receiver.inner();
            match receives.take(&receiver.plan) {
                Ok(Some(Item::Scalar {
                    width: of,
                    value: is,
                })) => {
                    assert_eq!((of, is), (width, value));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(sends.send_scalar(width, value), Ok(true));
            let Open { inbox, .. } = receives.pair.open().unwrap();
            let mut room = Box::default();
            let arrived = inbox.receiving().receive(&mut room).unwrap().unwrap();
            let Data::Inline(bytes) = arrived.data else {
                panic!("a scalar is in a line");
            };
            let shifted = (0..)
                .zip(bytes)
                .map(|(n, byte)| u64::from(*byte) << (8 * n));
            assert_eq!((bytes.len(), shifted.sum()), (width.into(), value));
        }
    }

    /// A sender that sends what a channel does not carry ends the channel, once, and nothing else.
    #[test]
    fn what_a_channel_does_not_carry_ends_it() {
        use Kind::{Packets, Scalars};
        for (kinds, width) in [([Scalars, Packets], 1), ([Scalars, Scalars], 3)] {
            let [sender, receiver] = pipe(kinds);
            receiver.progress();
            assert_eq!(sender.inner().send_scalar(width, 1), Ok(true));
            let (error, failed) = match kinds[1] {
                Packets => (Error::Transmission, receiver.try_receive_packet().err()),
                Scalars => (Error::General, receiver.try_receive_scalar::<u8>().err()),
            };
            assert_eq!(failed, Some(error));
            assert!(receiver.is_busy());
            assert_eq!(receiver.progress().end, Some(End::Broken));
            assert!(receiver.progress().end.is_none() && !receiver.is_busy());
            receiver.wait_to_receive(Request::from_raw(1));
            let ended = receiver.progress().ended;
            assert!(matches!(ended[..], [(_, Err(failed))] if failed == error));
        }
    }
}
