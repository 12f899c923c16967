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

use crate::{
    attributes::BufferType,
    channel::{Channel, Direction, Kind},
    connection::Role,
    latest::{Copied, Getter, Setter},
    lock,
    pair::{end_of, Open, Pair},
    wire::End,
    Error, Request, Result, Scalar, PACKET_MAX,
};
use mp_fabric::{Deadline, Device, Session};
use mp_queue_pair::{
    provider::{Answer, Attention, NotNow, Question},
    register, Area, Data, Head, Held, Outgoing, Piece, Room, Shape,
};
use std::{
    collections::VecDeque,
    ops::RangeInclusive,
    sync::{Mutex, MutexGuard, OnceLock},
};

/// Bytes of a line.
const LINE: u64 = 64;
/// Bytes of a window that are neither lines nor slots, at most.
const REST: u64 = 1024;
/// Windows are whole pages.
const PAGE: u64 = 4096;
/// Slots of a packet channel: the least, and the most.
const SLOTS: RangeInclusive<u64> = 2..=16;
/// Lines of a packet channel: one for each slot, and some. Also those of news of values.
const PACKET_LINES: u32 = 32;
/// Lines of a scalar channel: so many scalars wait at most, and as many that were taken out of the
/// ring to be counted.
const SCALAR_LINES: u32 = 256;
/// Lines of a sender's own window, which nothing comes into.
const BACK_LINES: u32 = 8;
/// Packets or scalars that are sent at once of those that wait, before others get a turn: what is more
/// urgent does not wait for all of them.
const BUDGET: usize = 16;
/// The part of free memory that one channel takes.
const SHARE: u64 = 8;

/// How the way for data of a channel is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) port: u16,
    pub(crate) id: u64,
    pub(crate) role: Role,
    /// Most bytes of a packet.
    pub(crate) max_payload: u32,
    pub(crate) buffers: BufferType,
    /// How long blocking calls wait, in milliseconds.
    pub(crate) timeout: u32,
    /// Most sends that are not complete, by calls that do not wait.
    pub(crate) send_buffers: u32,
    /// Of the channel; 0 is the highest.
    pub(crate) priority: u32,
}

impl Plan {
    /// In which order channels that something waits for are served: by priority (MC-CHAN-22), and
    /// whose port is lower first.
    pub(crate) fn rank(&self) -> (u32, u16) {
        (self.priority, self.port)
    }

    /// Most bytes of a packet (MC-BUF-4).
    fn packet_max(&self) -> usize {
        PACKET_MAX.min(self.max_payload as usize)
    }

    /// Most bytes of a value in a state buffer.
    fn value_max(&self) -> u32 {
        match self.role.kind {
            Kind::Packets => self.packet_max() as u32,
            Kind::Scalars => size_of::<u64>() as u32,
        }
    }

    fn slot_size(&self) -> u64 {
        (self.packet_max() as u64).next_multiple_of(LINE).max(LINE)
    }

    /// Bytes of the receiver's window: least and most.
    fn receiving(&self) -> RangeInclusive<u64> {
        let size = |lines: u32, slots: u64| {
            let bytes = u64::from(lines) * LINE + slots * self.slot_size() + REST;
            bytes.next_multiple_of(PAGE)
        };
        let value = register::size(self.value_max()).next_multiple_of(PAGE);
        match (self.buffers, self.role.kind) {
            (BufferType::Fifo, Kind::Packets) => {
                size(PACKET_LINES, *SLOTS.start())..=size(PACKET_LINES, *SLOTS.end())
            }
            (BufferType::Fifo, Kind::Scalars) => size(SCALAR_LINES, 0)..=size(SCALAR_LINES, 0),
            (BufferType::State, Kind::Packets) => {
                let (least, most) = SLOTS.into_inner();
                value + size(PACKET_LINES, least)..=value + size(PACKET_LINES, most)
            }
            (BufferType::State, Kind::Scalars) => {
                let all = value + size(PACKET_LINES, 0);
                all..=all
            }
        }
    }

    /// Sizes of the own and of the other window, where so much is free here.
    pub(crate) fn windows(&self, free: u64) -> [RangeInclusive<u64>; 2] {
        let (receiving, sending) = (self.receiving(), PAGE..=PAGE);
        match self.role.direction {
            Direction::Send => [sending, receiving],
            Direction::Receive => {
                let (least, most) = receiving.into_inner();
                let share = (free / SHARE / PAGE * PAGE).clamp(least, most);
                [least..=share, sending]
            }
        }
    }

    /// How the own window of so many bytes is divided.
    fn shape(&self, size: u64) -> Shape {
        let slot_size = self.slot_size();
        let (lines, slots) = match (self.role.direction, self.buffers, self.role.kind) {
            (Direction::Send, ..) => (BACK_LINES, 0),
            // What is behind the ring is no slots of the pair.
            (Direction::Receive, BufferType::State, _) => (PACKET_LINES, 0),
            (Direction::Receive, BufferType::Fifo, Kind::Scalars) => (SCALAR_LINES, 0),
            (Direction::Receive, BufferType::Fifo, Kind::Packets) => {
                let slots = size.saturating_sub(u64::from(PACKET_LINES) * LINE + REST) / slot_size;
                (PACKET_LINES, slots.min(*SLOTS.end()))
            }
        };
        Shape {
            lines,
            slots: slots as u32,
            slot_size: slot_size as u32,
            streams: 1,
            partner_slots: *SLOTS.end() as u32,
        }
    }
}

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

/// What has arrived.
#[derive(Debug)]
enum Item {
    Packet(Buffer),
    Scalar { width: u8, value: u64 },
}

/// A packet, or a scalar, that is not sent yet.
#[derive(Debug)]
struct Waiting {
    request: Request,
    data: Box<[u8]>,
    /// It takes one of the endpoint's send buffers.
    is_counted: bool,
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

#[derive(Debug)]
struct Inner<D: Device> {
    pair: Pair<D>,
    room: Box<Room>,
    /// What was taken out of the ring and not received, and receives that wait.
    arrived: VecDeque<Item>,
    posted: VecDeque<Request>,
    /// What waits to be sent.
    waiting: VecDeque<Waiting>,
    /// The state buffer, if the channel has one and is open, at the sender and at the receiver.
    setter: Option<Box<Setter>>,
    getter: Option<Box<Getter>>,
    /// Why nothing can be sent, or nothing more will arrive.
    ended: Option<Error>,
    /// The other end has sent what cannot be.
    is_broken: bool,
    /// The pair has ended, which was told.
    is_over: bool,
    /// The program has closed this end.
    is_closed: bool,
    /// The other end, which receives, was told that nothing more comes.
    is_finished: bool,
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
                setter: None,
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
        self.channel.get() == Some(&channel) && self.plan.role == role
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

    /// Let a packet, or the bytes of a scalar, wait until there is room.
    pub(crate) fn wait_to_send(&self, request: Request, data: Box<[u8]>, is_counted: bool) {
        self.inner().waiting.push_back(Waiting {
            request,
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
        if let Ok(Open { inbox, .. }) = inner.pair.open() {
            let stream = held.stream();
            // A sender that has gone needs no room.
            let _ = inbox.receiving().give(held, stream);
            let _ = inbox.receiving().publish();
        }
        inner.tried(Some(()))
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
        inner.is_closed = true;
        inner.arrived.clear();
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

impl<D: Device> Inner<D> {
    /// What was tried, as whoever has no lock has to know of it.
    fn tried<T>(&self, done: Option<T>) -> Tried<T> {
        let is_left = self.pair.owes_signal() || self.is_setting();
        Tried {
            owes_signal: done.is_some() && is_left,
            done,
        }
    }

    /// Whether something waits to be sent.
    fn has_to_send(&self) -> bool {
        !self.waiting.is_empty() || self.is_setting()
    }

    /// Whether there is something left to do for a value that was sent.
    fn is_setting(&self) -> bool {
        self.setter.as_ref().is_some_and(|setter| setter.is_busy())
    }

    /// Whether the state buffer has a value that was not received.
    fn has_value(&mut self) -> bool {
        match (&self.getter, self.pair.open()) {
            // What is wrong is told by the receive.
            (Some(getter), Ok(open)) => getter.has_news(open.inbox.receiving()).unwrap_or(true),
            _ => false,
        }
    }

    /// Whether it has one, and a receive has room for it.
    fn is_value_ready(&mut self, plan: &Plan) -> bool {
        let is_packet = plan.role.kind == Kind::Packets;
        match (&self.getter, self.pair.open()) {
            (Some(getter), Ok(open)) => getter.is_ready(open.inbox.receiving(), is_packet),
            _ => false,
        }
    }

    /// Begin with the state buffer, if the channel has one: both ends are there.
    ///
    /// # Errors
    /// [`End::Broken`]: the windows are not as they have to be.
    fn begin_latest(&mut self, plan: &Plan) -> Result<(), End> {
        if plan.buffers == BufferType::Fifo {
            return Ok(());
        }
        let Open { outbox, inbox } = self.pair.open()?;
        let most = plan.value_max();
        match plan.role.direction {
            Direction::Send => self.setter = Some(Box::new(Setter::new(outbox, most)?)),
            Direction::Receive => {
                let count = match plan.role.kind {
                    Kind::Packets => *SLOTS.end(),
                    Kind::Scalars => 0,
                };
                let receiving = inbox.receiving();
                let getter = Getter::new(receiving, most, plan.slot_size(), count)?;
                self.getter = Some(Box::new(getter));
            }
        }
        Ok(())
    }

    /// A buffer of a state buffer's packet is free; a receive may wait for one.
    fn release_copy(&mut self, copied: Copied, plan: &Plan) -> Tried<()> {
        if let Some(getter) = &mut self.getter {
            getter.give(copied, plan.slot_size());
        }
        Tried {
            done: Some(()),
            owes_signal: !self.posted.is_empty(),
        }
    }

    /// What was taken is still there to be received.
    fn put_back(&mut self, item: Item) {
        match &mut self.getter {
            Some(getter) => getter.put_back(),
            None => self.arrived.push_front(item),
        }
    }

    /// # Errors
    /// [`Error::ChannelInvalid`]: this end was closed.
    fn check_here(&self) -> Result<()> {
        match self.is_closed {
            false => Ok(()),
            true => Err(Error::ChannelInvalid),
        }
    }

    /// # Errors
    /// As [`check_here`](Self::check_here); why nothing can be sent.
    fn check(&self) -> Result<()> {
        self.check_here()?;
        self.ended.map_or(Ok(()), Err)
    }

    /// Everything that waits ends.
    fn end(&mut self, error: Error) -> Ended {
        let error = *self.ended.get_or_insert(error);
        if let Some(setter) = &mut self.setter {
            setter.forget();
        }
        let sends = std::mem::take(&mut self.waiting);
        let sends = sends.into_iter().map(|waiting| waiting.request);
        let receives = std::mem::take(&mut self.posted);
        let all = sends.chain(receives);
        all.map(|request| (request, Err(error))).collect()
    }

    /// Make a value the latest one of the state buffer, which has room unless there is no memory.
    #[cold]
    fn set(&mut self, kind: u8, data: Piece<'_>) -> Result<bool, End> {
        match &mut self.setter {
            Some(setter) => setter.set(&mut self.pair.open()?.outbox, kind, data),
            None => Ok(true),
        }
    }

    fn send_packet(&mut self, data: Piece<'_>) -> Result<bool> {
        if self.setter.is_some() {
            return self.set(0, data).map_err(|_| Error::Transmission);
        }
        let pieces = [data];
        let mut message = Outgoing::new(Head::default(), &[], &pieces);
        let sent = self.pair.open().and_then(|open| {
            let sent = open.outbox.put_in_slot(&mut message, 0).map_err(end_of)?;
            open.outbox.flush().map_err(end_of)?;
            Ok(sent)
        });
        sent.map_err(|_| Error::Transmission)
    }

    fn send_waiting(&mut self, plan: &Plan, data: &[u8]) -> Result<bool> {
        if plan.role.kind == Kind::Packets {
            return self.send_packet(Piece::Bytes(data));
        }
        let mut value = [0; 8];
        for (to, from) in value.iter_mut().zip(data) {
            *to = *from;
        }
        self.send_scalar(data.len() as u8, u64::from_le_bytes(value))
    }

    #[cold]
    fn set_scalar(&mut self, width: u8, value: u64) -> Result<bool> {
        let bytes = value.to_le_bytes();
        let data = Piece::Bytes(bytes.get(..width.into()).unwrap_or_default());
        self.set(width, data).map_err(|_| Error::General)
    }

    #[inline]
    fn send_scalar(&mut self, width: u8, value: u64) -> Result<bool> {
        if self.setter.is_some() {
            return self.set_scalar(width, value);
        }
        let bytes = value.to_le_bytes();
        let pieces = [Piece::Bytes(bytes.get(..width.into()).unwrap_or_default())];
        let head = Head {
            kind: width,
            ..Head::default()
        };
        let mut message = Outgoing::new(head, &[], &pieces);
        let sent = self.pair.open().and_then(|open| {
            let sent = open.outbox.put(&mut message).map_err(end_of)?;
            open.outbox.flush().map_err(end_of)?;
            Ok(sent)
        });
        sent.map_err(|_| Error::General)
    }

    /// The next thing that has arrived.
    ///
    /// # Errors
    /// Why there is none, and will be none.
    #[inline]
    fn take(&mut self, plan: &Plan) -> Result<Option<Item>> {
        if self.getter.is_some() {
            return self.take_value(plan);
        }
        if let Some(item) = self.arrived.pop_front() {
            return Ok(Some(item));
        }
        match self.take_in(plan) {
            Ok(item @ Some(_)) => Ok(item),
            Ok(None) => self.ended.map_or(Ok(None), Err),
            Err(end) => Err(self.ended_by(plan, end)),
        }
    }

    /// Why nothing more arrives when the pair has ended.
    fn ended_by(&mut self, plan: &Plan, end: End) -> Error {
        // What a ring says of a sender that has gone is that it has closed.
        let why = match end {
            End::Gone => Error::ChannelInvalid,
            End::Down | End::Broken => plan.role.severed(),
        };
        self.is_broken |= end == End::Broken;
        *self.ended.get_or_insert(why)
    }

    /// The latest value; when nothing more arrives, only if it was not received.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    #[cold]
    fn take_value(&mut self, plan: &Plan) -> Result<Option<Item>> {
        if let Err(end) = self.take_all(plan) {
            self.ended_by(plan, end);
        }
        if let Some(error) = self.ended {
            if !self.has_value() {
                return Err(error);
            }
        }
        let taken = self.read_value(plan.role.kind);
        taken.map_err(|end| self.ended_by(plan, end))
    }

    fn read_value(&mut self, kind: Kind) -> Result<Option<Item>, End> {
        let Some(getter) = &mut self.getter else {
            return Ok(None);
        };
        let receiving = self.pair.open()?.inbox.receiving();
        match kind {
            Kind::Packets => {
                let packet = getter.packet(receiving)?;
                Ok(packet.map(|copied| Item::Packet(Buffer::Copied(Box::new(copied)))))
            }
            Kind::Scalars => {
                let scalar = getter.scalar(receiving)?;
                Ok(scalar.map(|(width, value)| Item::Scalar { width, value }))
            }
        }
    }

    /// Take everything out of the ring that there is room for. News of values are not kept.
    ///
    /// # Errors
    /// How the pair has ended.
    fn take_all(&mut self, plan: &Plan) -> Result<(), End> {
        if self.getter.is_some() {
            return self.take_news();
        }
        while self.arrived.len() < SCALAR_LINES as usize {
            match self.take_in(plan)? {
                Some(item) => self.arrived.push_back(item),
                None => break,
            }
        }
        Ok(())
    }

    /// Take all news of a state buffer out of the ring: the value itself is looked for behind that.
    ///
    /// # Errors
    /// How the pair has ended; [`End::Broken`]: something else has come.
    #[cold]
    fn take_news(&mut self) -> Result<(), End> {
        let receiving = self.pair.open()?.inbox.receiving();
        while let Some(news) = receiving.receive(&mut self.room).map_err(end_of)? {
            match (news.head.kind, news.data) {
                (0, Data::Inline([])) => receiving.publish().map_err(end_of)?,
                _ => return Err(End::Broken),
            }
        }
        Ok(())
    }

    /// Take the next thing out of the ring.
    ///
    /// # Errors
    /// How the pair has ended; [`End::Broken`]: it is nothing of such a channel.
    fn take_in(&mut self, plan: &Plan) -> Result<Option<Item>, End> {
        let Open { inbox, .. } = self.pair.open()?;
        let receiving = inbox.receiving();
        let Some(message) = receiving.receive(&mut self.room).map_err(end_of)? else {
            return Ok(None);
        };
        let item = match (plan.role.kind, message.head.kind, message.data) {
            (Kind::Packets, 0, Data::Held(held)) => Item::Packet(Buffer::Slot(held)),
            (Kind::Scalars, width @ (1 | 2 | 4 | 8), Data::Inline(bytes))
                if bytes.len() == usize::from(width) =>
            {
                let mut value = [0; 8];
                for (to, from) in value.iter_mut().zip(bytes) {
                    *to = *from;
                }
                let value = u64::from_le_bytes(value);
                Item::Scalar { width, value }
            }
            _ => return Err(End::Broken),
        };
        receiving.publish().map_err(end_of)?;
        Ok(Some(item))
    }

    /// Give what has arrived to receives that wait.
    fn receive(&mut self, plan: &Plan) -> Ended {
        let mut ended = Ended::new();
        while !self.posted.is_empty() {
            let done = match self.take(plan) {
                Ok(Some(Item::Packet(buffer))) => Ok(Done::Packet(buffer)),
                Ok(Some(scalar)) => {
                    self.put_back(scalar);
                    Ok(Done::Ready)
                }
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if let Some(request) = self.posted.pop_front() {
                ended.push((request, done));
            }
        }
        ended
    }

    fn progress(&mut self, plan: &Plan, moved: &mut Moved) -> Result<(), End> {
        if self.is_over {
            moved.ended = self.receive(plan);
            moved.is_drained = self.is_closed && !self.is_finished;
            self.is_finished |= moved.is_drained;
            return Ok(());
        }
        if !self.pair.is_open()? {
            return Ok(());
        }
        moved.has_begun = self.pair.has_begun();
        if moved.has_begun {
            self.begin_latest(plan)?;
        }
        moved.ended = self.receive(plan);
        if self.is_broken {
            return Err(End::Broken);
        }
        for _ in 0..BUDGET {
            let Some(first) = self.waiting.pop_front() else {
                break;
            };
            match self.send_waiting(plan, &first.data) {
                Ok(true) => {
                    let sent = Done::Sent(first.data.len());
                    moved.ended.push((first.request, Ok(sent)));
                }
                Ok(false) => {
                    self.waiting.push_front(first);
                    break;
                }
                Err(_) => {
                    self.waiting.push_front(first);
                    return Err(End::Gone);
                }
            }
        }
        if let Some(setter) = &mut self.setter {
            setter.go_on(&mut self.pair.open()?.outbox)?;
        }
        if self.is_closed && !self.has_to_send() && !self.is_finished {
            self.is_finished = true;
            moved.is_drained = true;
            if plan.role.direction == Direction::Send {
                self.pair.finish();
            }
        }
        // A signal that was owed is tried again.
        let Open { outbox, .. } = self.pair.open()?;
        outbox.flush().map_err(end_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_fabric::{Fabric, InterfaceId};
    use mp_testing::{FakeDevice, Host, World};

    fn plan(kind: Kind, direction: Direction, max_payload: u32) -> Plan {
        Plan {
            port: 1,
            id: 1,
            role: Role { kind, direction },
            max_payload,
            buffers: BufferType::Fifo,
            timeout: u32::MAX,
            send_buffers: 4,
            priority: 0,
        }
    }

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

    /// Windows have room for what they are divided into, and both ends ask for the same.
    #[test]
    fn windows_have_room_for_slots_and_lines() {
        for max in [0, 1, 64, 100, 4096, 65536] {
            for kind in [Kind::Packets, Kind::Scalars] {
                let receiver = plan(kind, Direction::Receive, max);
                let sender = plan(kind, Direction::Send, max);
                for free in [0, 1 << 20, 1 << 40] {
                    let [own, back] = receiver.windows(free);
                    let [out, there] = sender.windows(free);
                    assert_eq!(back, out);
                    assert!(there.start() == own.start() && there.end() >= own.end());
                    for size in [*own.start(), *own.end()] {
                        let shape = receiver.shape(size);
                        let used = u64::from(shape.lines) * LINE
                            + u64::from(shape.slots) * u64::from(shape.slot_size)
                            + REST;
                        assert!(used <= size, "{max} {size} {shape:?}");
                        let least = if kind == Kind::Packets { 2 } else { 0 };
                        assert!(shape.slots >= least);
                    }
                }
            }
        }
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
            sender.wait_to_send(Request::from_raw(n + 1), Box::new([1, 2]), false);
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
