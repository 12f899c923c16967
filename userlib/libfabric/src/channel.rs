// SPDX-License-Identifier: MIT OR Apache-2.0

//! Posted sends and receives, and the queue pair that moves them.
//!
//! A message without a posted receive stays in the ring until there is one: its sender finds no room
//! after a while, and waits. Data are copied once on each side. A send is complete once its data are
//! in the memory of the partner's host.

use mp_fabric::{vm_memory::VolatileSlice, CharDevice, Device, EventMask, Status};
use mp_queue_pair::{
    provider::{take_signal, End},
    Data, Head, Outgoing, Piece, Receiving, Room, Sending,
};
use std::{collections::VecDeque, sync::Arc};

/// Most pieces of memory of one operation.
pub const IOV_MAX: usize = 4;
/// Messages that one look receives at most, so that others have their turn.
const BATCH: usize = 64;
/// Looks at memory that find nothing, before the kernel is asked whether the partner is there.
const LOOKS: u32 = 16_384;

/// Memory of the program, in pieces.
pub trait Memory {
    /// A piece; nothing behind the last one, of which there are at most [`IOV_MAX`].
    fn piece(&self, index: usize) -> Option<VolatileSlice<'_>>;
}

/// What is sent.
#[derive(Debug)]
pub enum Source<M> {
    /// Memory of the program, which is not changed until the send is complete.
    Memory(M),
    /// A copy.
    Copy(Vec<u8>),
}

impl<M: Memory> Source<M> {
    fn piece(&self, index: usize) -> Option<Piece<'_>> {
        match self {
            Source::Memory(memory) => memory.piece(index).map(Piece::Memory),
            Source::Copy(bytes) => (index == 0).then_some(Piece::Bytes(bytes)),
        }
    }
}

/// A send.
#[derive(Debug)]
pub struct Send<M> {
    /// The data.
    pub source: Source<M>,
    /// What the program calls it.
    pub context: usize,
    /// What accompanies the data.
    pub immediate: Option<u32>,
    /// Whether the program is told of its success.
    pub tells: bool,
}

/// A receive.
#[derive(Debug)]
pub struct Receive<M> {
    /// Where the data go.
    pub memory: M,
    /// What the program calls it.
    pub context: usize,
    /// Whether the program is told of its success.
    pub tells: bool,
}

/// Which of the two an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A send.
    Send,
    /// A receive.
    Receive,
}

/// Why an operation has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The message was longer than the receive, by so many bytes.
    Truncated(usize),
    /// It was cancelled, or the connection has ended.
    Cancelled,
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the program calls it.
    pub context: usize,
    /// Send or receive.
    pub kind: Kind,
    /// Bytes that were received.
    pub len: usize,
    /// What accompanied the data that were received.
    pub immediate: Option<u32>,
    /// Why it has failed, if it has.
    pub fault: Option<Fault>,
}

/// A send that waits for room.
#[derive(Debug)]
struct Queued<M> {
    send: Send<M>,
    /// Bytes that the partner has.
    sent: usize,
}

/// Both halves of a pair.
#[derive(Debug)]
struct Pair<D: Device> {
    sending: Sending<D>,
    receiving: Receiving<D>,
    watch: Option<Watch>,
}

/// The status word of a session, which is read without a call.
#[derive(Clone, Debug)]
pub struct Watch {
    pub(crate) words: Arc<Status>,
    pub(crate) at: u32,
}

impl Watch {
    /// How the session has ended, if it has.
    #[inline]
    fn end(&self) -> Option<End> {
        let events = self.words.word(self.at)?.session();
        match events {
            _ if events.contains(EventMask::DOWN) => Some(End::Down),
            _ if events.contains(EventMask::CLOSED) => Some(End::Gone),
            _ => None,
        }
    }
}

/// Sends and receives of one endpoint.
#[derive(Debug)]
pub struct Channel<M, D: Device = CharDevice> {
    pair: Option<Pair<D>>,
    room: Box<Room>,
    sends: VecDeque<Queued<M>>,
    receives: VecDeque<Receive<M>>,
    /// Bytes of the message at hand that have arrived.
    arrived: usize,
    /// Looks that have found nothing since the kernel was asked.
    looks: u32,
    /// How the pair has ended; messages may be in the ring.
    end: Option<End>,
}

impl<M, D: Device> Default for Channel<M, D> {
    fn default() -> Self {
        Channel {
            pair: None,
            room: Box::default(),
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            arrived: 0,
            looks: 0,
            end: None,
        }
    }
}

impl<M: Memory, D: Device> Channel<M, D> {
    /// Begin to move messages. `watch` is where the kernel says that the session has ended.
    pub fn open(&mut self, sending: Sending<D>, receiving: Receiving<D>, watch: Option<Watch>) {
        self.pair = Some(Pair {
            sending,
            receiving,
            watch,
        });
    }

    /// How the partner or the link has ended it, if that was seen.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Sends that wait for room.
    pub fn sends(&self) -> usize {
        self.sends.len()
    }

    /// Receives that wait for messages.
    pub fn receives(&self) -> usize {
        self.receives.len()
    }

    /// Post a send. One that ends at once is told; nothing is sent before the pair is open.
    pub fn send(&mut self, send: Send<M>, told: &mut impl FnMut(Completion)) {
        let mut queued = Queued { send, sent: 0 };
        if self.end.is_some() {
            return told(queued.send.completion(Some(Fault::Cancelled)));
        }
        if self.sends.is_empty() {
            if let Some(pair) = &mut self.pair {
                match queued.put(pair) {
                    Ok(true) => queued.send.succeed(told),
                    Ok(false) => self.sends.push_back(queued),
                    Err(end) => {
                        self.sends.push_back(queued);
                        return self.finish(end, told);
                    }
                }
                return self.publish(told);
            }
        }
        self.sends.push_back(queued);
    }

    /// Post a receive.
    pub fn receive(&mut self, receive: Receive<M>) {
        self.receives.push_back(receive);
    }

    /// Cancel the first receive of that context which no message has come to; whether there was one.
    pub fn cancel(&mut self, context: usize, told: &mut impl FnMut(Completion)) -> bool {
        let begun = usize::from(self.arrived > 0);
        let mut receives = self.receives.iter().skip(begun);
        let Some(at) = receives.position(|receive| receive.context == context) else {
            return false;
        };
        if let Some(receive) = self.receives.remove(begun + at) {
            told(receive.completion(0, None, Some(Fault::Cancelled)));
        }
        true
    }

    /// Move what can be moved; operations that end are told. There is no system call unless the
    /// partner has to be woken, or the kernel has no status words and nothing has moved for long.
    pub fn progress(&mut self, told: &mut impl FnMut(Completion)) {
        let Some(pair) = &self.pair else {
            return self.flush_if_over(told);
        };
        let can_take = !self.receives.is_empty() && pair.receiving.has_news();
        if can_take || !self.sends.is_empty() {
            if let Err(end) = self.move_all(told) {
                self.finish(end, told);
            }
        }
        self.notice(!can_take, told);
    }

    /// Notice the end of the connection.
    #[inline]
    fn notice(&mut self, idle: bool, told: &mut impl FnMut(Completion)) {
        let watch = self.pair.as_ref().and_then(|pair| pair.watch.as_ref());
        let end = match (watch, self.end) {
            (_, Some(_)) => return self.drain(told),
            (Some(watch), None) => watch.end(),
            (None, None) => {
                self.looks = if idle { self.looks + 1 } else { 0 };
                return match self.looks {
                    0..LOOKS => {}
                    _ => self.look(told),
                };
            }
        };
        if let Some(end) = end {
            self.finish(end, told);
            self.drain(told);
        }
    }

    /// Ask the kernel whether the partner is there.
    pub fn look(&mut self, told: &mut impl FnMut(Completion)) {
        self.looks = 0;
        if let (Some(pair), None) = (&self.pair, self.end) {
            if let Err(end) = take_signal(pair.receiving.session()) {
                self.finish(end, told);
            }
        }
        if self.end.is_some() {
            self.drain(told);
        }
    }

    /// End the connection in order: the partner receives what was sent. What waits is flushed.
    pub fn shut(&mut self, told: &mut impl FnMut(Completion)) {
        if let Some(mut pair) = self.pair.take() {
            // One that has gone need not be told.
            let _ = pair.sending.close(0);
            let _ = pair.receiving.session().close();
        }
        self.end.get_or_insert(End::Closed { reason: 0 });
        self.flush_if_over(told);
    }

    fn move_all(&mut self, told: &mut impl FnMut(Completion)) -> Result<(), End> {
        self.take_all(told)?;
        let Some(pair) = &mut self.pair else {
            return Ok(());
        };
        let waits = !self.sends.is_empty();
        while let Some(queued) = self.sends.front_mut() {
            if !queued.put(pair)? {
                break;
            }
            if let Some(queued) = self.sends.pop_front() {
                queued.send.succeed(told);
            }
        }
        if waits {
            pair.sending.publish()?;
        }
        Ok(())
    }

    /// Take messages out of the ring for which there are receives.
    fn take_all(&mut self, told: &mut impl FnMut(Completion)) -> Result<(), End> {
        let Some(pair) = &mut self.pair else {
            return Ok(());
        };
        let mut took = false;
        for _ in 0..BATCH {
            let Some(receive) = self.receives.front() else {
                break;
            };
            let Some(message) = pair.receiving.receive(&mut self.room)? else {
                break;
            };
            took = true;
            let head = message.head;
            receive.fill(self.arrived, &message.data)?;
            self.arrived += message.data.len();
            if let Data::Held(held) = message.data {
                let given = pair.receiving.give(held, head.stream);
                given.map_err(|(_, error)| error)?;
            }
            if head.more {
                continue;
            }
            let arrived = std::mem::take(&mut self.arrived);
            if let Some(receive) = self.receives.pop_front() {
                receive.end(arrived, head.immediate, told);
            }
        }
        if took {
            pair.receiving.publish()?;
        }
        Ok(())
    }

    fn publish(&mut self, told: &mut impl FnMut(Completion)) {
        let published = self.pair.as_mut().map(|pair| pair.sending.publish());
        if let Some(Err(error)) = published {
            self.finish(error.into(), told);
        }
    }

    /// The connection has ended: sends are flushed now, receives when the ring has no message.
    fn finish(&mut self, end: End, told: &mut impl FnMut(Completion)) {
        self.end.get_or_insert(end);
        self.flush_sends(told);
    }

    fn flush_sends(&mut self, told: &mut impl FnMut(Completion)) {
        for queued in self.sends.drain(..) {
            told(queued.send.completion(Some(Fault::Cancelled)));
        }
    }

    /// Receive what came before the end, as far as there are receives.
    fn drain(&mut self, told: &mut impl FnMut(Completion)) {
        let failed = self.take_all(told).is_err();
        let pair = self.pair.as_ref();
        if failed || pair.is_none_or(|pair| !pair.receiving.has_news()) {
            self.pair = None;
            self.flush_if_over(told);
        }
    }

    fn flush_if_over(&mut self, told: &mut impl FnMut(Completion)) {
        if self.end.is_none() {
            return;
        }
        self.arrived = 0;
        self.flush_sends(told);
        for receive in self.receives.drain(..) {
            told(receive.completion(0, None, Some(Fault::Cancelled)));
        }
    }
}

impl<M: Memory> Queued<M> {
    /// Put as many of its bytes as there is room for; whether that were all.
    fn put<D: Device>(&mut self, pair: &mut Pair<D>) -> Result<bool, End> {
        let head = Head {
            immediate: self.send.immediate,
            ..Head::default()
        };
        let (mut pieces, mut count, mut skip, mut left) =
            ([Piece::Bytes(&[]); IOV_MAX], 0, self.sent, 0);
        for room in &mut pieces {
            let Some(piece) = self.send.source.piece(count) else {
                break;
            };
            let here = skip.min(piece.len());
            *room = behind(piece, here);
            skip -= here;
            left += room.len();
            count += 1;
        }
        let mut message = Outgoing::new(head, &[], pieces.get(..count).unwrap_or_default());
        let put = pair.sending.put(&mut message)?.is_some();
        self.sent += left - message.left();
        Ok(put)
    }
}

/// A piece without its first bytes, of which it has as many.
fn behind(piece: Piece<'_>, skip: usize) -> Piece<'_> {
    match piece {
        Piece::Bytes(bytes) => Piece::Bytes(bytes.get(skip..).unwrap_or_default()),
        Piece::Memory(memory) => match memory.offset(skip) {
            Ok(rest) => Piece::Memory(rest),
            Err(_) => Piece::Bytes(&[]),
        },
    }
}

impl<M> Send<M> {
    fn completion(&self, fault: Option<Fault>) -> Completion {
        Completion {
            context: self.context,
            kind: Kind::Send,
            len: 0,
            immediate: None,
            fault,
        }
    }

    fn succeed(&self, told: &mut impl FnMut(Completion)) {
        if self.tells {
            told(self.completion(None));
        }
    }
}

impl<M: Memory> Receive<M> {
    fn pieces(&self) -> impl Iterator<Item = VolatileSlice<'_>> {
        (0..IOV_MAX).map_while(|index| self.memory.piece(index))
    }

    /// Copy data to their place; what has no room there is lost.
    fn fill(&self, at: usize, data: &Data<'_>) -> Result<(), End> {
        let mut skip = at;
        let rooms = self.pieces().filter_map(|piece| {
            let here = skip.min(piece.len());
            skip -= here;
            piece.offset(here).ok()
        });
        data.scatter(rooms)?;
        Ok(())
    }

    fn end(self, arrived: usize, immediate: Option<u32>, told: &mut impl FnMut(Completion)) {
        let room: usize = self.pieces().map(|piece| piece.len()).sum();
        match arrived.checked_sub(room) {
            None | Some(0) if self.tells => told(self.completion(arrived, immediate, None)),
            None | Some(0) => {}
            Some(over) => told(self.completion(room, immediate, Some(Fault::Truncated(over)))),
        }
    }

    fn completion(&self, len: usize, immediate: Option<u32>, fault: Option<Fault>) -> Completion {
        Completion {
            context: self.context,
            kind: Kind::Receive,
            len,
            immediate,
            fault,
        }
    }
}
