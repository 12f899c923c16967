// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a way for data has below its lock: the queue pair, what has arrived, and what waits.

use super::{
    plan::{Plan, SCALAR_LINES, SLOTS},
    Buffer, Done, Ended, Moved, Tried,
};
use crate::{
    attributes::BufferType,
    channel::{Direction, Kind},
    latest::{Copied, Getter, Setter},
    lent::{address, Loans},
    pair::{end_of, Open, Pair},
    wire::End,
    Error, Request, Result,
};
use mp_fabric::Device;
use mp_queue_pair::{Data, Head, Held, Outgoing, Piece, Room};
use std::collections::VecDeque;

/// Packets or scalars that are sent at once of those that wait, before others get a turn: what is more
/// urgent does not wait for all of them.
pub(super) const BUDGET: usize = 16;

/// What has arrived.
#[derive(Debug)]
pub(super) enum Item {
    Packet(Buffer),
    Scalar { width: u8, value: u64 },
}

/// How what is sent goes, once the way is open.
#[derive(Debug, Default)]
pub(super) enum Sends {
    /// By the ring.
    #[default]
    Plain,
    /// By the state buffer that the channel has.
    Latest(Box<Setter>),
    /// By the ring, with a note of what the receiver has not released.
    Lent(Box<Loans>),
}

/// A packet, or a scalar, that is not sent yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: Request,
    /// Where the program has its data.
    pub(super) address: usize,
    pub(super) data: Box<[u8]>,
    /// It takes one of the endpoint's send buffers.
    pub(super) is_counted: bool,
}

#[derive(Debug)]
pub(super) struct Inner<D: Device> {
    pub(super) pair: Pair<D>,
    pub(super) room: Box<Room>,
    /// What was taken out of the ring and not received, and receives that wait.
    pub(super) arrived: VecDeque<Item>,
    pub(super) posted: VecDeque<Request>,
    /// What waits to be sent.
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) sends: Sends,
    /// The state buffer at the receiver, if the channel has one and is open.
    pub(super) getter: Option<Box<Getter>>,
    /// Why nothing can be sent, or nothing more will arrive.
    pub(super) ended: Option<Error>,
    /// The other end has sent what cannot be.
    pub(super) is_broken: bool,
    /// The pair has ended, which was told.
    pub(super) is_over: bool,
    /// The program has closed this end.
    pub(super) is_closed: bool,
    /// The other end, which receives, was told that nothing more comes.
    pub(super) is_finished: bool,
}

impl<D: Device> Inner<D> {
    /// What was tried, as whoever has no lock has to know of it.
    pub(super) fn tried<T>(&self, done: Option<T>) -> Tried<T> {
        let is_left = self.pair.owes_signal() || self.is_setting();
        Tried {
            owes_signal: done.is_some() && is_left,
            done,
        }
    }

    /// Whether something waits to be sent.
    pub(super) fn has_to_send(&self) -> bool {
        !self.waiting.is_empty() || self.is_setting()
    }

    /// Whether there is something left to do for a value that was sent.
    pub(super) fn is_setting(&self) -> bool {
        matches!(&self.sends, Sends::Latest(setter) if setter.is_busy())
    }

    /// Whether the state buffer has a value that was not received.
    pub(super) fn has_value(&mut self) -> bool {
        match (&self.getter, self.pair.open()) {
            // What is wrong is told by the receive.
            (Some(getter), Ok(open)) => getter.has_news(open.inbox.receiving()).unwrap_or(true),
            _ => false,
        }
    }

    /// Whether it has one, and a receive has room for it.
    pub(super) fn is_value_ready(&mut self, plan: &Plan) -> bool {
        let is_packet = plan.role.kind == Kind::Packets;
        match (&self.getter, self.pair.open()) {
            (Some(getter), Ok(open)) => getter.is_ready(open.inbox.receiving(), is_packet),
            _ => false,
        }
    }

    /// Begin with the state buffer, if the channel has one, or with notes of what is lent: both ends are
    /// there.
    ///
    /// # Errors
    /// [`End::Broken`]: the windows are not as they have to be.
    pub(super) fn begin_with(&mut self, plan: &Plan) -> Result<(), End> {
        if plan.is_lent() && plan.role.direction == Direction::Send {
            self.sends = Sends::Lent(Box::default());
        }
        if plan.buffers == BufferType::Fifo {
            return Ok(());
        }
        let Open { outbox, inbox } = self.pair.open()?;
        let most = plan.value_max();
        match plan.role.direction {
            Direction::Send => self.sends = Sends::Latest(Box::new(Setter::new(outbox, most)?)),
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
    pub(super) fn release_copy(&mut self, copied: Copied, plan: &Plan) -> Tried<()> {
        if let Some(getter) = &mut self.getter {
            getter.give(copied, plan.slot_size());
        }
        Tried {
            done: Some(()),
            owes_signal: !self.posted.is_empty(),
        }
    }

    /// What was taken is still there to be received.
    pub(super) fn put_back(&mut self, item: Item) {
        match &mut self.getter {
            Some(getter) => getter.put_back(),
            None => self.arrived.push_front(item),
        }
    }

    /// # Errors
    /// [`Error::ChannelInvalid`]: this end was closed.
    pub(super) fn check_here(&self) -> Result<()> {
        match self.is_closed {
            false => Ok(()),
            true => Err(Error::ChannelInvalid),
        }
    }

    /// # Errors
    /// As [`check_here`](Self::check_here); why nothing can be sent.
    pub(super) fn check(&self) -> Result<()> {
        self.check_here()?;
        self.ended.map_or(Ok(()), Err)
    }

    /// Everything that waits ends.
    pub(super) fn end(&mut self, error: Error) -> Ended {
        let error = *self.ended.get_or_insert(error);
        if let Sends::Latest(setter) = &mut self.sends {
            setter.forget();
        }
        let sends = std::mem::take(&mut self.waiting);
        let sends = sends.into_iter().map(|waiting| waiting.request);
        let receives = std::mem::take(&mut self.posted);
        let all = sends.chain(receives);
        all.map(|request| (request, Err(error))).collect()
    }

    /// Make a value the latest one of the state buffer, which has room unless there is no memory; or lend
    /// a packet that the program has at an address, if there is room.
    #[cold]
    pub(super) fn send_otherwise(
        &mut self,
        kind: u8,
        address: usize,
        data: Piece<'_>,
    ) -> Result<bool, End> {
        let Open { outbox, .. } = self.pair.open()?;
        match &mut self.sends {
            Sends::Latest(setter) => setter.set(outbox, kind, data),
            Sends::Lent(loans) => loans.send(outbox, address, data),
            Sends::Plain => Ok(true),
        }
    }

    /// Whether a packet that the program has sent from an address was not released by the receiver, or
    /// waits to be sent.
    pub(super) fn is_lent(&mut self, address: usize) -> bool {
        let is_known = match &self.sends {
            Sends::Lent(loans) => loans.has(Some(address)),
            _ => return false,
        };
        let waits = || {
            self.waiting
                .iter()
                .any(|waiting| waiting.address == address)
        };
        waits() || (is_known && self.settled().is_some_and(|loans| loans.has(Some(address))))
    }

    /// Whether nothing is lent, and nothing will be: the program has closed this end.
    pub(super) fn lends_no_more(&mut self) -> bool {
        let sends = !self.is_closed || self.has_to_send();
        !sends && self.settled().is_none_or(|loans| !loans.has(None))
    }

    /// What is lent now. When the session has ended, the receiver has nothing of it any more.
    fn settled(&mut self) -> Option<&Loans> {
        let Sends::Lent(loans) = &mut self.sends else {
            return None;
        };
        let settled = match self.pair.open() {
            Ok(Open { outbox, .. }) => loans.settle(outbox),
            Err(end) => Err(end),
        };
        if settled.is_err() || (loans.has(None) && self.pair.has_ended()) {
            loans.forget();
        }
        Some(loans)
    }

    /// Close this end, and discard what has arrived. Where packets are lent, their sender is told of it, and
    /// that nothing more is taken.
    pub(super) fn close(&mut self, plan: &Plan) {
        let was_closed = std::mem::replace(&mut self.is_closed, true);
        let is_lent = plan.is_lent() && plan.role.direction == Direction::Receive;
        if is_lent && !was_closed {
            // One that has failed has nothing more.
            let _ = self.take_all(plan);
            for item in std::mem::take(&mut self.arrived) {
                if let Item::Packet(Buffer::Slot(held)) = item {
                    self.give(held);
                }
            }
            if let Ok(Open { inbox, .. }) = self.pair.open() {
                let receiving = inbox.receiving();
                receiving.acknowledge(receiving.received());
                // A sender that has gone need not be told.
                let _ = receiving.publish();
                self.pair.finish();
            }
        }
        self.arrived.clear();
    }

    /// Give a slot back to the sender.
    #[inline(always)]
    pub(super) fn give(&mut self, held: Held) {
        if let Ok(Open { inbox, .. }) = self.pair.open() {
            let stream = held.stream();
            // A sender that has gone needs no room.
            let _ = inbox.receiving().give(held, stream);
            let _ = inbox.receiving().publish();
        }
    }

    pub(super) fn send_packet(&mut self, data: Piece<'_>) -> Result<bool> {
        if !matches!(self.sends, Sends::Plain) {
            let sent = self.send_otherwise(0, address(&data), data);
            return sent.map_err(|_| Error::Transmission);
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

    pub(super) fn send_waiting(&mut self, plan: &Plan, first: &Waiting) -> Result<bool> {
        let data = &*first.data;
        if plan.role.kind == Kind::Packets {
            let data = Piece::Bytes(data);
            if matches!(self.sends, Sends::Plain) {
                return self.send_packet(data);
            }
            let sent = self.send_otherwise(0, first.address, data);
            return sent.map_err(|_| Error::Transmission);
        }
        let mut value = [0; 8];
        for (to, from) in value.iter_mut().zip(data) {
            *to = *from;
        }
        self.send_scalar(data.len() as u8, u64::from_le_bytes(value))
    }

    #[cold]
    pub(super) fn set_scalar(&mut self, width: u8, value: u64) -> Result<bool> {
        let bytes = value.to_le_bytes();
        let data = Piece::Bytes(bytes.get(..width.into()).unwrap_or_default());
        let sent = self.send_otherwise(width, 0, data);
        sent.map_err(|_| Error::General)
    }

    #[inline]
    pub(super) fn send_scalar(&mut self, width: u8, value: u64) -> Result<bool> {
        if !matches!(self.sends, Sends::Plain) {
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
    pub(super) fn take(&mut self, plan: &Plan) -> Result<Option<Item>> {
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
    pub(super) fn ended_by(&mut self, plan: &Plan, end: End) -> Error {
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
    pub(super) fn take_value(&mut self, plan: &Plan) -> Result<Option<Item>> {
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

    pub(super) fn read_value(&mut self, kind: Kind) -> Result<Option<Item>, End> {
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
    pub(super) fn take_all(&mut self, plan: &Plan) -> Result<(), End> {
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
    pub(super) fn take_news(&mut self) -> Result<(), End> {
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
    pub(super) fn take_in(&mut self, plan: &Plan) -> Result<Option<Item>, End> {
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
    pub(super) fn receive(&mut self, plan: &Plan) -> Ended {
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

    pub(super) fn progress(&mut self, plan: &Plan, moved: &mut Moved) -> Result<(), End> {
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
            self.begin_with(plan)?;
        }
        moved.ended = self.receive(plan);
        if self.is_broken {
            return Err(End::Broken);
        }
        for _ in 0..BUDGET {
            let Some(first) = self.waiting.pop_front() else {
                break;
            };
            match self.send_waiting(plan, &first) {
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
        if let Sends::Latest(setter) = &mut self.sends {
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
