// SPDX-License-Identifier: MIT OR Apache-2.0

//! A queue pair of this node with another one, from the session on: to move frames, or the data of a
//! channel.

use crate::wire::End;
use mp_fabric::{CharDevice, Device, EventMask, Session};
use mp_queue_pair::{
    provider::{self, take_signal, Answer, Inbox, NotNow, Outbox, Question},
    Opened, Opening, Shape,
};
use std::mem;

/// The two halves of a pair that both ends have announced.
#[derive(Debug)]
pub(crate) struct Open<D: Device> {
    pub(crate) outbox: Outbox<D>,
    pub(crate) inbox: Inbox<D>,
}

#[derive(Debug)]
enum State<D: Device> {
    Opening(Box<Opening<D>>),
    Open(Box<Open<D>>),
    /// Only while it changes, or after that has failed.
    Over,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Pair<D: Device = CharDevice> {
    state: State<D>,
    /// It has become open, and nobody knows.
    has_begun: bool,
}

impl<D: Device> Pair<D> {
    /// Begin a queue pair in a session that is paired; `shape` is told how large the own window is.
    ///
    /// # Errors
    /// The end that it has come to.
    pub(crate) fn new(session: Session<D>, shape: impl FnOnce(u64) -> Shape) -> Result<Self, End> {
        let state = session.state().map_err(|_| End::Gone)?;
        let size = state.local.map_or(0, |window| window.size);

        let opening = Opening::new(session, &shape(size)).map_err(end_of)?;
        Ok(Pair {
            state: State::Opening(Box::new(opening)),
            has_begun: false,
        })
    }

    pub(crate) fn session(&self) -> Option<&Session<D>> {
        match &self.state {
            State::Opening(opening) => Some(opening.session()),
            State::Open(open) => Some(open.inbox.session()),
            State::Over => None,
        }
    }

    /// Whether data can move. Looks whether the other node has announced its end, unless it had
    /// before.
    ///
    /// # Errors
    /// The end that it has come to.
    pub(crate) fn is_open(&mut self) -> Result<bool, End> {
        if matches!(self.state, State::Open(_)) {
            return Ok(true);
        }
        let State::Opening(opening) = mem::replace(&mut self.state, State::Over) else {
            return Err(End::Broken);
        };
        self.state = match opening.look().map_err(end_of)? {
            Opened::NotYet(opening) => State::Opening(Box::new(opening)),
            Opened::Ready(sending, receiving) => {
                self.has_begun = true;
                State::Open(Box::new(Open {
                    outbox: Outbox::new(sending),
                    inbox: Inbox::new(receiving),
                }))
            }
        };
        Ok(self.has_begun)
    }

    /// Whether it has become open; true once.
    pub(crate) fn has_begun(&mut self) -> bool {
        mem::take(&mut self.has_begun)
    }

    /// # Errors
    /// [`End::Broken`]: it is not open.
    pub(crate) fn open(&mut self) -> Result<&mut Open<D>, End> {
        match &mut self.state {
            State::Open(open) => Ok(open),
            _ => Err(End::Broken),
        }
    }

    /// Whether the session has ended, so that the other node has no part in it any more.
    pub(crate) fn has_ended(&self) -> bool {
        let state = self.session().and_then(|session| session.state().ok());
        state.is_none_or(|state| {
            let over = EventMask::CLOSED | EventMask::DOWN;
            state.events.intersects(over)
        })
    }

    /// Look whether the other node's process or the link has gone, and take its signal: it gives
    /// one for each time that it was asked, for whatever comes first.
    pub(crate) fn look(&mut self) -> Option<End> {
        match &mut self.state {
            State::Opening(opening) => take_signal(opening.session()).err().map(End::from),
            State::Open(open) => open.inbox.look().map(End::from),
            State::Over => Some(End::Gone),
        }
    }

    /// Ask the other node for a signal when it sends, if that is of interest, and when it makes room
    /// if something `waits` for that: what its host has to be asked then. Nothing if it signals
    /// anyhow.
    ///
    /// # Errors
    /// [`NotNow`]: there is something to do first.
    pub(crate) fn arm(&mut self, waits: bool) -> Result<Option<Question<D>>, NotNow> {
        match &mut self.state {
            State::Open(open) => {
                let Open { outbox, inbox } = &mut **open;
                let room = match (waits, outbox.need()) {
                    // Nobody has tried since it can be sent.
                    (true, None) => return Err(NotNow),
                    (true, Some(need)) => Some((outbox, need)),
                    (false, _) => None,
                };
                inbox.arm(room)
            }
            // It signals when it announces its end.
            State::Opening(_) => match self.is_open() {
                Ok(false) => Ok(None),
                _ => Err(NotNow),
            },
            State::Over => Err(NotNow),
        }
    }

    /// Note what has come of a question.
    pub(crate) fn answered(&mut self, answer: Answer) -> Answer {
        match &mut self.state {
            State::Open(open) => open.inbox.answered(answer),
            _ => Answer::Busy,
        }
    }

    /// Signal the other node for what it may not have seen; as
    /// [`Outbox::remind`](mp_queue_pair::provider::Outbox::remind).
    pub(crate) fn remind(&mut self) {
        if let State::Open(open) = &mut self.state {
            open.outbox.remind();
        }
    }

    /// Whether something has arrived that nobody has received.
    pub(crate) fn has_news(&self) -> bool {
        match &self.state {
            State::Open(open) => open.inbox.has_news(),
            _ => false,
        }
    }

    /// Whether the other node could not be woken: the next flush tries again.
    pub(crate) fn owes_signal(&self) -> bool {
        match &self.state {
            State::Open(open) => open.outbox.owes_signal(),
            _ => false,
        }
    }

    /// Tell that nothing more will be sent, behind everything that was.
    pub(crate) fn finish(&mut self) {
        if let State::Open(open) = &mut self.state {
            // A node that has gone need not be told.
            let _ = open.outbox.sending().close(0);
        }
    }

    /// End the session; the other node notices that, and can receive what was sent.
    pub(crate) fn close(&mut self) {
        self.state = State::Over;
    }

    /// What an end has been, now that it is known: the loss of a link closes sessions first.
    pub(crate) fn end(&self, end: End) -> End {
        let state = self.session().and_then(|session| session.state().ok());
        let is_down = state.is_some_and(|state| state.events.contains(EventMask::DOWN));
        match end {
            End::Gone if is_down => End::Down,
            other => other,
        }
    }
}

/// How a pair has ended when it fails.
pub(crate) fn end_of(error: mp_queue_pair::Error) -> End {
    provider::End::from(error).into()
}
