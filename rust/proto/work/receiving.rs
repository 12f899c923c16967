// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The partner's sends and writes: into receives and registered memory. What cannot be is `None`,
//! which ends the connection.

use super::{
    Access, Caller, Endpoint, Errors, Host, Notice, Outcome, Part, Place, Protected, QueueKind,
    State,
};

/// Where the bytes of a message go.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// The [segments](Receiving::segments) of a receive.
    Segments,
    /// What a write of the partner's names.
    Region(Place),
    /// Nowhere: it could not be received.
    Nowhere,
}

impl Target {
    /// Whether a receive would be completed by a write; nothing if nothing is received.
    #[inline]
    fn written(&self) -> Option<bool> {
        match self {
            Target::Nowhere => None,
            Target::Segments => Some(false),
            Target::Region(_) => Some(true),
        }
    }
}

/// The receive of a message.
pub(super) enum Receive {
    /// Its position, and bytes that it has room for. Its segments are [at hand](Receiving::segments).
    Good(u64, u32),
    /// There is none, or a bad one: that was told, and the message is dropped.
    Missing,
}

/// A message of which not all has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    target: Target,
    /// The receive that it completes.
    receive: Option<u64>,
    immediate: Option<u32>,
    total: u32,
    received: u32,
}

impl Message {
    /// One of so many bytes that goes nowhere.
    fn dropped(total: u32) -> Self {
        Message {
            target: Target::Nowhere,
            receive: None,
            immediate: None,
            total,
            received: 0,
        }
    }
}

/// What is being received.
#[derive(Debug)]
pub(super) struct Receiving<S> {
    pub(super) message: Option<Message>,
    /// The segments of the receive that was started last.
    segments: S,
    /// The message before was spoiled or lost on the way: parts that come belong to it.
    pub(super) skips: bool,
}

impl<S: Default> Receiving<S> {
    pub(super) fn new() -> Self {
        Receiving {
            message: None,
            segments: S::default(),
            skips: false,
        }
    }

    /// Give up everything that belongs to requests.
    pub(super) fn abandon(&mut self) {
        self.message = None;
    }
}

impl<C: Caller> Endpoint<C> {
    /// Begin a send of so many bytes, all of which have come if it `is_whole`; nothing if it cannot be
    /// now.
    #[inline]
    pub(super) fn begin_send<H: Host<C>>(
        &mut self,
        host: &mut H,
        total: u32,
        is_whole: bool,
        immediate: Option<u32>,
    ) -> Option<Message> {
        let Receive::Good(position, room) = self.next_receive(host, false)? else {
            return Some(Message::dropped(total));
        };
        let fits = if room < total {
            Err(Errors::LENGTH)
        } else if is_whole {
            // They are checked where the bytes are copied.
            Ok(())
        } else {
            let checked = host.check(&self.receiving.segments, Access::Write);
            checked.map_err(|Protected| Errors::PROTECTION)
        };
        if let Err(errors) = fits {
            self.receive_failed(host, position, Outcome::failed(errors));
            return Some(Message::dropped(total));
        }
        Some(Message {
            target: Target::Segments,
            receive: Some(position),
            immediate,
            total,
            received: 0,
        })
    }

    /// A receive cannot take the message that has come for it.
    #[cold]
    fn receive_failed<H: Host<C>>(&mut self, host: &mut H, position: u64, outcome: Outcome) {
        self.complete(host, QueueKind::Receive, position, outcome);
        self.reject(host, Errors::REMOTE_RECEIVE);
    }

    /// Take the next receive for a send, or for a write; nothing if another message is not finished.
    #[inline]
    pub(super) fn next_receive<H: Host<C>>(
        &mut self,
        host: &mut H,
        write: bool,
    ) -> Option<Receive> {
        if self.receiving.message.is_some() {
            return None;
        }
        self.receiving.skips = false;
        let Some((position, request)) = self.receive.next() else {
            host.note(Notice::NoReceive { write });
            self.reject(host, Errors::REMOTE_RECEIVE);
            return Some(Receive::Missing);
        };
        self.receive.start();
        let segments = &mut self.receiving.segments;
        match host.sample(QueueKind::Receive, request, segments) {
            Ok(work) => Some(Receive::Good(position, work.total)),
            Err(errors) => {
                let outcome = Outcome {
                    written: write,
                    ..Outcome::failed(errors)
                };
                self.receive_failed(host, position, outcome);
                Some(Receive::Missing)
            }
        }
    }

    /// Begin a write, all of which has come if it `is_whole`; nothing if it cannot be now.
    #[inline]
    pub(super) fn begin_write<H: Host<C>>(
        &mut self,
        host: &mut H,
        place: Place,
        is_whole: bool,
        immediate: Option<u32>,
    ) -> Option<Message> {
        if self.receiving.message.is_some() {
            return None;
        }
        self.receiving.skips = false;
        let receive = match immediate {
            None => None,
            Some(_) => match self.next_receive(host, true)? {
                Receive::Good(position, _) => Some(position),
                Receive::Missing => return Some(Message::dropped(place.len)),
            },
        };
        // What is whole is checked where the bytes are copied.
        if !is_whole && !host.allows(place, Access::RemoteWrite) {
            self.write_refused(host, receive);
            return Some(Message::dropped(place.len));
        }
        Some(Message {
            target: Target::Region(place),
            receive,
            immediate,
            total: place.len,
            received: 0,
        })
    }

    /// A write that completes that receive, if any, is not allowed.
    #[cold]
    fn write_refused<H: Host<C>>(&mut self, host: &mut H, receive: Option<u64>) {
        match receive {
            Some(position) => {
                let outcome = Outcome {
                    written: true,
                    ..Outcome::failed(Errors::PROTECTION)
                };
                self.complete(host, QueueKind::Receive, position, outcome);
            }
            None => host.note(Notice::WriteRefused),
        }
        self.reject(host, Errors::REMOTE_ACCESS);
    }

    /// Something of the partner's has failed here: it is told if it waits for that, and the
    /// connection ends if it is reliable.
    pub(super) fn reject<H: Host<C>>(&mut self, host: &mut H, why: Errors) {
        if self.level.is_acknowledged() {
            self.sending.refuse(why);
        }
        self.fault(host);
    }

    /// Take the next bytes of a message; nothing if there are more than it has, or none.
    #[inline]
    pub(super) fn data<H: Host<C>>(
        &mut self,
        host: &mut H,
        mut message: Message,
        payload: &C::Payload<'_>,
    ) -> Option<()> {
        if self.state != State::Connected {
            // It has ended the connection.
            return Some(());
        }
        let total = message.total;
        let len = u32::try_from(C::payload_len(payload)).ok()?;
        let received = message.received.checked_add(len);
        let Some(received) = received.filter(|all| *all <= total && (len > 0 || total == 0)) else {
            self.receiving.message = Some(message);
            return None;
        };
        if self.copy(host, &message, payload, len).is_err() {
            self.interrupted(host, message);
            message = Message::dropped(total);
        }
        message.received = received;
        if received == total {
            self.arrived(host, &message);
        } else if self.state == State::Connected {
            self.receiving.message = Some(message);
        }
        Some(())
    }

    /// Copy the next `len` bytes of a message to where they go.
    #[inline]
    fn copy<H: Host<C>>(
        &self,
        host: &H,
        message: &Message,
        payload: &C::Payload<'_>,
        len: u32,
    ) -> Result<(), Protected> {
        match message.target {
            Target::Nowhere => Ok(()),
            Target::Segments => {
                let part = Part {
                    skip: message.received,
                    len,
                    whole: len == message.total,
                };
                host.scatter(payload, &self.receiving.segments, part)
            }
            Target::Region(place) => {
                let place = place.part(message.received, len).ok_or(Protected)?;
                host.write(payload, place)
            }
        }
    }

    /// Memory must not be accessed, or has become inaccessible since the message began.
    #[cold]
    fn interrupted<H: Host<C>>(&mut self, host: &mut H, message: Message) {
        if matches!(message.target, Target::Region(_)) {
            return self.write_refused(host, message.receive);
        }
        let partial = match message.received {
            0 => Errors::NONE,
            _ => Errors::PARTIAL,
        };
        if let Some(position) = message.receive {
            let outcome = Outcome::failed(Errors::PROTECTION.with(partial));
            self.complete(host, QueueKind::Receive, position, outcome);
        }
        self.reject(host, Errors::REMOTE_RECEIVE);
    }

    /// The message has arrived whole.
    #[inline]
    fn arrived<H: Host<C>>(&mut self, host: &mut H, message: &Message) {
        let Some(written) = message.target.written() else {
            return;
        };
        if let Some(position) = message.receive {
            let outcome = Outcome {
                written,
                immediate: message.immediate,
                ..Outcome::moved(message.total)
            };
            self.complete(host, QueueKind::Receive, position, outcome);
        }
        if self.level.is_acknowledged() {
            self.sending.effect();
        }
    }

    /// The message ends before all of it has arrived: its receive completes with errors, or the
    /// program is told of it.
    pub(super) fn cut<H: Host<C>>(&mut self, host: &mut H, errors: Errors, notice: Notice) {
        let Some(message) = self.receiving.message.take() else {
            return;
        };
        let Some(written) = message.target.written() else {
            return;
        };
        match message.receive {
            Some(position) => {
                let outcome = Outcome {
                    written,
                    ..Outcome::failed(errors)
                };
                self.complete(host, QueueKind::Receive, position, outcome);
            }
            None => self.note_reliably(host, notice),
        }
    }

    /// Tell of what no request tells of. Without reliability nobody hears of it.
    pub(super) fn note_reliably<H: Host<C>>(&mut self, host: &mut H, notice: Notice) {
        if self.level.is_reliable() {
            host.note(notice);
        }
    }

    /// The connection has ended, perhaps by the transport.
    pub(super) fn receiving_ends<H: Host<C>>(&mut self, host: &mut H, transport: bool) {
        let notice = match transport {
            true => Notice::WriteLost,
            false => Notice::WriteAborted,
        };
        self.cut(host, super::delivery::PARTIAL, notice);
    }
}
