// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is received, and the signals that a partner is asked for.

use super::{of_engine, End, Outbox, NEWS};
use crate::{Error, Head, Need, Piece, Receiving, Result, Room, EXTRA_MAX};
use mp_fabric::{
    CharDevice, Deadline, Device, Error as FabricError, EventMask, Fabric, Park, Session,
};
use mp_proto::queue_pair::Body;
use std::{mem, sync::Arc};

/// The half of a pair that receives, the slot of the last message, and whether the partner signals.
#[derive(Debug)]
pub struct Inbox<D: Device = CharDevice> {
    receiving: Receiving<D>,
    room: Box<Room>,
    /// The slot of the last message, and the stream that it came on.
    held: Option<(u32, u16)>,
    /// Messages were received since the last flush.
    took: bool,
    /// The partner was asked for a signal, and whether also for one of room, and has not signalled
    /// since.
    asked: Option<bool>,
}

/// A message that has arrived, until the next one is received.
#[derive(Debug)]
pub struct Lent<'a> {
    /// What every message has.
    pub head: Head,
    /// Bytes of the interface above.
    pub extra: &'a [u8],
    /// Its data, which may lie where the partner can still change them.
    pub data: Piece<'a>,
}

/// What has come of asking for signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is something to do first.
    Busy,
    /// The partner was asked, but a message may have crossed that.
    Perhaps,
    /// It signals, whatever it does from now on.
    Surely,
}

/// There is something to do before the partner is asked for signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNow;

/// What the partner's host is asked, without any lock.
#[derive(Debug)]
pub struct Question<D: Device = CharDevice> {
    session: Arc<Session<D>>,
    parks: [Option<Park>; 2],
}

impl<D: Device> Question<D> {
    /// Ask, and wait for the answer until the deadline. [`Inbox::answered`] is told of it.
    pub fn ask(&self, fabric: &Fabric<D>, until: Deadline) -> Answer {
        let parks = self.parks.iter().flatten();
        let words: Vec<_> = parks.map(|park| (&*self.session, *park)).collect();
        match fabric.arm(&words, until) {
            Ok(None) => Answer::Surely,
            Ok(Some(_)) => Answer::Busy,
            // The host does not answer, or the kernel cannot ask.
            Err(_) => Answer::Perhaps,
        }
    }
}

/// Take the signal of a session, if there is one: whether there was.
///
/// # Errors
/// How the session has ended.
pub fn take_signal<D: Device>(session: &Session<D>) -> std::result::Result<bool, End> {
    match session.wait_one(NEWS, Deadline::PAST) {
        Ok(EventMask::SIGNAL) => Ok(true),
        Err(FabricError::TimedOut) => Ok(false),
        // A link that is lost closes sessions as well.
        _ => {
            let events = session.state().map(|state| state.events);
            let is_down = events.is_ok_and(|events| events.contains(EventMask::DOWN));
            Err(if is_down { End::Down } else { End::Gone })
        }
    }
}

impl<D: Device> Inbox<D> {
    /// Nothing was received.
    pub fn new(receiving: Receiving<D>) -> Self {
        Inbox {
            receiving,
            room: Box::default(),
            held: None,
            took: false,
            asked: None,
        }
    }

    /// The session, for its state and its events.
    pub fn session(&self) -> &Arc<Session<D>> {
        self.receiving.session()
    }

    /// Whether [`receive()`](Self::receive) may have something to say. For those who look often and
    /// find nothing.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.receiving.has_news()
    }

    /// Give the last message back, and lend the next one, if there is one. `extra` says how many
    /// bytes of the interface above a message of such a head has, and nothing if there is none of
    /// that.
    ///
    /// # Errors
    /// How the pair has ended. A message that cannot be is [`End::Broken`]: one that `extra` does
    /// not know, or that has fewer bytes, or is in parts, or in buffers, which nobody advertises.
    #[inline]
    pub fn receive(
        &mut self,
        extra: impl FnOnce(&Head) -> Option<usize>,
    ) -> std::result::Result<Option<Lent<'_>>, End> {
        self.give()?;
        let Some(message) = self.receiving.next(&mut self.room)? else {
            return Ok(None);
        };
        self.took = true;
        let head = message.head;
        let len = extra(&head).filter(|len| !head.more && *len <= EXTRA_MAX);
        let len = len.ok_or(End::Broken)?;
        let (extra, rest) = self.room.bytes().split_at(len);
        let data = match message.body {
            Body::Inline(end) => {
                let data = end.checked_sub(len).and_then(|left| rest.get(..left));
                Piece::Bytes(data.ok_or(End::Broken)?)
            }
            Body::Slot { slot, part } => {
                self.held = Some((slot, head.stream));
                Piece::Memory(self.receiving.part(part)?)
            }
            Body::Placed { .. } | Body::Advertised { .. } => return Err(End::Broken),
        };
        Ok(Some(Lent { head, extra, data }))
    }

    /// Give the slot of the last message back to the stream that it came on.
    #[inline]
    fn give(&mut self) -> Result<()> {
        match self.held.take() {
            None => Ok(()),
            Some((slot, stream)) => self.receiving.give_slot(slot, stream).map_err(Error::from),
        }
    }

    /// Give the last message back, and let the partner know of everything that was received.
    ///
    /// # Errors
    /// As [`Receiving::publish`].
    #[inline]
    pub fn flush(&mut self) -> Result<()> {
        match mem::take(&mut self.took) {
            true => self.publish(),
            false => Ok(()),
        }
    }

    fn publish(&mut self) -> Result<()> {
        self.give()?;
        self.receiving.publish()
    }

    /// The half itself, for what needs no note here.
    pub fn receiving(&mut self) -> &mut Receiving<D> {
        &mut self.receiving
    }

    /// Lines received from the beginning on.
    #[inline]
    pub fn received(&self) -> u64 {
        self.receiving.received()
    }

    /// Look what has happened to the session: whether the partner's process or the link has gone.
    /// A signal is taken: the partner gives one for each time that it was asked, for whatever comes
    /// first. What it has sent before its end is there to be received.
    pub fn look(&mut self) -> Option<End> {
        match take_signal(self.receiving.session()) {
            Ok(true) => {
                self.asked = None;
                None
            }
            Ok(false) => None,
            Err(end) => Some(end),
        }
    }

    /// Ask the partner for a signal when it sends, and when it makes room for what waits in the
    /// outbox, if that is given: what its host has to be asked then. Nothing if the partner signals
    /// anyhow.
    ///
    /// # Errors
    /// [`NotNow`]: a message or room is there, or the pair has ended and says so when it is looked
    /// at.
    pub fn arm(
        &mut self,
        room: Option<(&mut Outbox<D>, Need)>,
    ) -> std::result::Result<Option<Question<D>>, NotNow> {
        let needs_room = room.is_some();
        if self.asked.is_some_and(|asked| asked || !needs_room) {
            return Ok(None);
        }
        let room = match room {
            None => None,
            Some((outbox, need)) => match outbox.sending().arm(need) {
                Ok(Some(park)) => Some(park),
                Ok(None) | Err(_) => return Err(NotNow),
            },
        };
        let Ok(Some(data)) = self.receiving.arm() else {
            return Err(NotNow);
        };
        self.asked = Some(needs_room);
        Ok(Some(Question {
            session: Arc::clone(self.receiving.session()),
            parks: [room, Some(data)].map(|park| park.as_ref().map(of_engine)),
        }))
    }

    /// Note what has come of a question. A signal that others have taken meanwhile was perhaps the
    /// one that it has asked for.
    pub fn answered(&mut self, answer: Answer) -> Answer {
        match answer {
            Answer::Surely if self.asked.is_none() => Answer::Busy,
            Answer::Surely => answer,
            Answer::Busy | Answer::Perhaps => {
                self.asked = None;
                answer
            }
        }
    }
}
