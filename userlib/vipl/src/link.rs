// SPDX-License-Identifier: MIT OR Apache-2.0

//! A connection's way over the fabric: the queue pair in the windows of a session. One session for
//! one connection; a [`Link`] is what a connection knows of it, so that connections of the same
//! two processes can share a session by streams of its pair.
//!
//! Payload is gathered where the program has it and scattered from where it has arrived: this
//! side's copies are the only ones.

use crate::{
    descriptor::FEW,
    wire::{End, Frame, Header, Kind, Reason, Wire},
};
use mp_fabric::{CharDevice, Deadline, Device, Error as FabricError, EventMask, Fabric, Session};
use mp_queue_pair::{
    open, Data, Error, Head, Held, Need, Outgoing, Park, Piece, Receiving, Room, Sending, Shape,
    INLINE_MAX,
};
use smallvec::SmallVec;
use std::{mem, ops::RangeInclusive, sync::Arc};
use vm_memory::VolatileSlice;

/// What the service thread hears of a session.
pub(crate) const NEWS: EventMask = EventMask::SIGNAL
    .union(EventMask::CLOSED)
    .union(EventMask::DOWN);

/// Bytes that cross in one piece.
pub(crate) const MTU: usize = 4096;

/// Bytes of a window: the least that is useful, and the most that is used.
const WINDOW: RangeInclusive<u64> = 0x4000..=0x1_0000;

/// Bytes of a window where so many are free: the less there are, the less one connection takes.
pub(crate) fn window(free: u64) -> RangeInclusive<u64> {
    let share = free / 32 / MTU as u64 * MTU as u64;
    *WINDOW.start()..=share.clamp(*WINDOW.start(), *WINDOW.end())
}

/// Bytes of a window that are neither lines nor slots, at most.
const REST: u64 = 1024;
/// Slots of the partner that are used.
const PARTNER_SLOTS: u32 = 16;
/// Bytes of a line.
const LINE: u64 = 64;

/// Lines of the longest message that has no slot.
const INLINE_LINES: u32 = 5;

/// The stream of the pair that a connection has.
const STREAM: u16 = 0;

/// Whether the partner signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Armed {
    /// Not yet: there is something to do.
    No,
    /// It was asked, but a message may have crossed that.
    Perhaps,
    /// Whatever it does from now on.
    Surely,
}

/// The way to the other end of a connection.
#[derive(Debug)]
pub(crate) struct Link<D: Device = CharDevice> {
    sending: Sending<D>,
    receiving: Receiving<D>,
    room: Box<Room>,
    /// The slot of the last message.
    held: Option<Held>,
    /// Lines whose messages have taken effect.
    effect: u64,
    /// Messages were sent, or received, that the partner does not know of.
    put: bool,
    took: bool,
    /// The last message had no room.
    full: bool,
    /// The partner was asked for a signal, and whether also for one of room, and has not signalled
    /// since.
    armed: Option<bool>,
}

/// What the partner's host is asked, without the lock of the VI.
#[derive(Debug)]
pub(crate) struct Question<D: Device = CharDevice> {
    session: Arc<Session<D>>,
    parks: [Option<mp_fabric::Park>; 2],
}

impl<D: Device> Question<D> {
    /// Ask, and wait for the answer until the deadline.
    pub(crate) fn ask(&self, fabric: &Fabric<D>, until: Deadline) -> Armed {
        let parks = self.parks.iter().flatten();
        let words: Vec<_> = parks.map(|park| (&*self.session, *park)).collect();
        match fabric.arm(&words, until) {
            Ok(None) => Armed::Surely,
            Ok(Some(_)) => Armed::No,
            // The host does not answer, or the kernel cannot ask.
            Err(_) => Armed::Perhaps,
        }
    }
}

/// There is something to do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotNow;

/// How a window of so many bytes is divided: an eighth for lines, the rest for slots.
fn shape(size: u64) -> Shape {
    let lines = (size / 8 / LINE).next_power_of_two().clamp(8, 1024);
    let slots = size.saturating_sub(lines * LINE + REST) / MTU as u64;
    Shape {
        lines: lines as u32,
        slots: slots.clamp(1, PARTNER_SLOTS.into()) as u32,
        slot_size: MTU as u32,
        streams: 1,
        partner_slots: PARTNER_SLOTS,
    }
}

impl<D: Device> Link<D> {
    /// Wait until both sides have their end of the pair.
    ///
    /// # Errors
    /// The end that it has come to; nothing if the time is over.
    pub(crate) fn open(session: Arc<Session<D>>, deadline: Deadline) -> Result<Self, Option<End>> {
        let window = session.state().ok().and_then(|state| state.local);
        let size = window.map_or(*WINDOW.start(), |window| window.size);
        let halves = open(session, &shape(size), deadline).map_err(|error| match error {
            Error::Fabric(FabricError::TimedOut) => None,
            other => Some(end_of(other)),
        })?;
        let (sending, receiving) = halves;
        Ok(Link {
            sending,
            receiving,
            room: Box::default(),
            held: None,
            effect: 0,
            put: false,
            took: false,
            full: false,
            armed: None,
        })
    }

    pub(crate) fn session(&self) -> &Arc<Session<D>> {
        self.sending.session()
    }

    /// Look what has happened to the session: whether the partner's process or the link has gone.
    /// A signal is taken: the partner gives one for each time that it was asked, for whatever comes
    /// first.
    pub(crate) fn look(&mut self) -> Option<End> {
        match self.session().wait_one(NEWS, Deadline::PAST) {
            Ok(EventMask::DOWN) => Some(End::Down),
            Ok(EventMask::SIGNAL) => {
                self.armed = None;
                None
            }
            Err(FabricError::TimedOut) => None,
            Ok(_) | Err(_) => Some(End::Gone),
        }
    }

    /// Ask the partner for a signal when it sends, and when it makes room for what `waits`: what
    /// its host has to be asked then. Nothing if the partner signals anyhow.
    ///
    /// # Errors
    /// [`NotNow`]: a message or room is there, or the pair has ended and says so when it is looked
    /// at.
    pub(crate) fn arm(&mut self, waits: bool) -> Result<Option<Question<D>>, NotNow> {
        let needs_room = waits && self.full;
        if self.armed.is_some_and(|room| room || !needs_room) {
            return Ok(None);
        }
        let room = match needs_room {
            true => Some(self.arm_room().ok_or(NotNow)?),
            false => None,
        };
        let Ok(Some(data)) = self.receiving.arm() else {
            return Err(NotNow);
        };
        self.armed = Some(needs_room);
        Ok(Some(Question {
            session: Arc::clone(self.session()),
            parks: [room, Some(data)].map(|park| park.map(of_pair)),
        }))
    }

    /// Note what has come of a question. A signal that others have taken meanwhile was perhaps the
    /// one that it has asked for.
    pub(crate) fn answered(&mut self, answer: Armed) -> Armed {
        match answer {
            Armed::Surely if self.armed.is_none() => Armed::No,
            Armed::Surely => answer,
            Armed::No | Armed::Perhaps => {
                self.armed = None;
                answer
            }
        }
    }

    /// Whether the partner could not be woken: [`flush()`](Wire::flush) tries again.
    pub(crate) fn owes_signal(&self) -> bool {
        self.sending.owes_signal()
    }

    /// What to sleep on until there is room; nothing if there is.
    fn arm_room(&mut self) -> Option<Park> {
        let need = match self.sending.slots(STREAM) {
            Ok(0) if self.sending.partner().slots > 0 => Need::Slot(STREAM),
            _ => Need::Lines(INLINE_LINES),
        };
        self.sending.arm(need).ok()?
    }

    /// Give back the slot of the last message.
    fn give(&mut self) -> Result<(), End> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        let given = self.receiving.give(held, STREAM);
        given.map_err(|(_, error)| end_of(error))
    }
}

impl<D: Device> Wire for Link<D> {
    fn most(&self, kind: Kind) -> usize {
        let partner = self.sending.partner();
        match partner.slots {
            0 => INLINE_MAX - kind.header(),
            _ => partner.slot_size as usize,
        }
    }

    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[VolatileSlice<'_>],
    ) -> Result<bool, End> {
        let head = Head {
            stream: STREAM,
            kind: kind as u8,
            more: false,
            immediate,
        };
        let header = header.get(..kind.header()).unwrap_or_default();
        let put = match payload {
            [one] => {
                let pieces = [Piece::from(*one)];
                self.sending.put(&mut Outgoing::new(head, header, &pieces))
            }
            many => {
                let pieces: SmallVec<[_; FEW]> =
                    many.iter().map(|piece| Piece::from(*piece)).collect();
                self.sending.put(&mut Outgoing::new(head, header, &pieces))
            }
        };
        let put = put.map_err(end_of)?.is_some();
        self.put |= put;
        self.full = !put;
        Ok(put)
    }

    #[inline]
    fn has_news(&self) -> bool {
        self.receiving.has_news() || self.sending.owes_signal()
    }

    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        self.give()?;
        let received = self.receiving.receive(&mut self.room).map_err(end_of)?;
        let Some(message) = received else {
            return Ok(None);
        };
        self.took = true;
        let kind = Kind::of(message.head.kind).ok_or(End::Broken)?;
        let message = message.split(kind.header()).ok_or(End::Broken)?;
        if message.head.more {
            return Err(End::Broken);
        }
        let mut header = Header::default();
        for (to, from) in header.iter_mut().zip(message.extra) {
            *to = *from;
        }
        let payload = match message.data {
            Data::Inline(bytes) => Piece::Bytes(bytes),
            Data::Held(held) => {
                let held = self.held.insert(held);
                Piece::Memory(held.area().volatile().map_err(end_of)?)
            }
            // This library advertises no buffers, and uses none.
            Data::Placed(..) | Data::Advertised(_) => return Err(End::Broken),
        };
        Ok(Some(Frame {
            kind,
            immediate: message.head.immediate,
            header,
            payload,
            fault: None,
        }))
    }

    fn flush(&mut self) -> Result<(), End> {
        if mem::take(&mut self.took) {
            self.give()?;
            self.receiving.publish().map_err(end_of)?;
        }
        if mem::take(&mut self.put) || self.sending.owes_signal() {
            self.sending.publish().map_err(end_of)?;
        }
        Ok(())
    }

    fn effect(&mut self) {
        self.effect = self.receiving.received();
    }

    fn sent(&self) -> u64 {
        self.sending.sent()
    }

    fn effective(&mut self) -> u64 {
        // A pair that is broken says nothing more.
        self.sending.acknowledged().unwrap_or(0)
    }

    fn close(&mut self, reason: Reason) {
        // In a word of its own, for which there is always room.
        self.receiving.acknowledge(self.effect);
        let _ = self.receiving.publish();
        // A partner that has gone need not be told.
        let _ = self.sending.close(reason as u16);
    }
}

/// The session ends with the connection, also while its host is being asked.
impl<D: Device> Drop for Link<D> {
    fn drop(&mut self) {
        // The program may have ended it before.
        let _ = self.session().close();
    }
}

/// What to sleep on, for the kernel.
fn of_pair(park: Park) -> mp_fabric::Park {
    mp_fabric::Park {
        word: park.word as u64,
        value: park.value,
        arm: park.arm as u64,
        arm_value: park.arm_value,
    }
}

/// How a connection has ended when its pair fails.
fn end_of(error: Error) -> End {
    match error {
        Error::Closed { reason } => Reason::of(reason).map_or(End::Broken, End::Closed),
        Error::Fabric(FabricError::InterfaceDown(_) | FabricError::NoInterface(_)) => End::Down,
        Error::Fabric(_) => End::Gone,
        _ => End::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HEADER_MAX;
    use mp_fabric::InterfaceId;
    use mp_testing::{FakeDevice, Host, World};

    /// The two ends of a connection.
    fn linked() -> [Link<FakeDevice>; 2] {
        let world = World::new(1, 1 << 20);
        let [server, client] = [Host::A, Host::B].map(|host| {
            let interface = InterfaceId(world.interface(0, host));
            let fabric = Fabric::with_device(world.open(host));
            let opens = match host {
                Host::A => fabric.server(interface, 1),
                Host::B => fabric.client(interface, 1),
            };
            opens.local(WINDOW).remote(WINDOW).open().unwrap()
        });
        let soon = Deadline::after(std::time::Duration::from_secs(20));
        std::thread::scope(|scope| {
            let server = scope.spawn(move || Link::open(server.into(), soon).unwrap());
            let client = Link::open(client.into(), soon).unwrap();
            [server.join().unwrap(), client]
        })
    }

    /// VI-REL-3: without any room, the end of a connection says what has taken effect.
    #[test]
    fn an_end_tells_what_has_taken_effect() {
        let [mut a, mut b] = linked();
        let send = |link: &mut Link<FakeDevice>| {
            let header = [0; HEADER_MAX];
            link.send(Kind::Ack, None, &header, &[]).unwrap()
        };
        assert!(!b.has_news());
        let sent = [(); 3].map(|()| {
            assert!(send(&mut a));
            a.sent()
        });
        a.flush().unwrap();
        assert!(b.has_news());
        while send(&mut b) {}
        for _ in 0..2 {
            assert!(b.receive().unwrap().is_some());
        }
        b.effect();
        assert!(b.receive().unwrap().is_some());
        b.flush().unwrap();
        assert!(!b.has_news());
        assert_eq!(a.effective(), 0);
        b.close(Reason::Disconnect);
        drop(b);
        assert_eq!(a.effective(), sent[1]);
    }

    /// VI-LIM-6: the less memory there is, the less a connection takes of it.
    #[test]
    fn windows_become_smaller_with_what_is_left() {
        for (free, most) in [
            (0, 0x4000),
            (1 << 20, 0x8000),
            (2 << 20, 0x1_0000),
            (u64::MAX, 0x1_0000),
        ] {
            assert_eq!(window(free), 0x4000..=most);
        }
    }

    /// VI-LIM-6: every window that a connection may get can be divided.
    #[test]
    fn windows_of_all_sizes_are_divided() {
        for size in WINDOW.step_by(4096) {
            let Shape {
                lines,
                slots,
                slot_size,
                ..
            } = shape(size);
            let used = u64::from(lines) * LINE + u64::from(slots) * u64::from(slot_size) + REST;
            assert!(
                used <= size && lines.is_power_of_two() && slots >= 2,
                "{size:#x}"
            );
        }
    }
}
