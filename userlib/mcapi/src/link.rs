// SPDX-License-Identifier: MIT OR Apache-2.0

//! The way to another node over the fabric: the queue pair in the windows of a session.
//!
//! Control frames and messages of priority 0 go on stream 0, others on stream 1, which leaves a
//! quarter of the ring's lines to stream 0.

use crate::wire::{End, Frame, Header, Wire, FRAME};
use mp_fabric::{CharDevice, Deadline, Device, Error as FabricError, EventMask, Fabric, Session};
use mp_queue_pair::{
    Data, Error, Head, Held, Need, Opened, Opening, Outgoing, Piece, Receiving, Room, Sending,
    Shape,
};
use std::{mem, ops::RangeInclusive, time::Duration};

/// Bytes of a window: the least that is useful, and the most that is used.
const WINDOW: RangeInclusive<u64> = 0x4000..=0x1_0000;
/// Bytes of a window that are neither lines nor slots, at most.
const REST: u64 = 1024;
/// Bytes of a line.
const LINE: u64 = 64;
/// Lines of the longest message that has no slot.
const INLINE_LINES: u32 = 5;
/// Slots of the other node that are used.
const PARTNER_SLOTS: u32 = 16;
/// Streams: what cannot wait, and the rest.
const URGENT: u16 = 0;
const BULK: u16 = 1;
const STREAMS: u16 = 2;
/// How long the other host may take to say that it has been asked.
const ANSWER: Duration = Duration::from_millis(100);

/// Bytes of a window where so many are free: the less there are, the less one node takes.
pub(crate) fn window(free: u64) -> RangeInclusive<u64> {
    let share = free / 32 / FRAME as u64 * FRAME as u64;
    *WINDOW.start()..=share.clamp(*WINDOW.start(), *WINDOW.end())
}

/// How a window of so many bytes is divided: an eighth for lines, the rest for slots.
fn shape(size: u64) -> Shape {
    let lines = (size / 8 / LINE).next_power_of_two().clamp(32, 1024);
    let slots = size.saturating_sub(lines * LINE + REST) / FRAME as u64;
    Shape {
        lines: lines as u32,
        slots: slots.clamp(STREAMS.into(), PARTNER_SLOTS.into()) as u32,
        slot_size: FRAME as u32,
        streams: STREAMS,
        partner_slots: PARTNER_SLOTS,
    }
}

/// Whether the other node signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Armed {
    /// Not yet: there is something to do.
    No,
    /// It was asked, but a frame may have crossed that.
    Perhaps,
    /// Whatever it does from now on.
    Surely,
}

/// The two halves of a pair that both ends have announced.
#[derive(Debug)]
struct Open<D: Device> {
    sending: Sending<D>,
    receiving: Receiving<D>,
    room: Box<Room>,
    /// The slot of the last frame.
    held: Option<Held>,
    /// Frames were sent, or received, that the other node does not know of.
    put: bool,
    took: bool,
    /// What the last frame waits for, if it had no room.
    need: Option<Need>,
    /// The other node was asked for signals, and whether for such of room, and nothing has moved
    /// since.
    armed: Option<bool>,
}

#[allow(clippy::large_enum_variant)] // moved once in the life of a link
#[derive(Debug)]
enum State<D: Device> {
    Opening(Opening<D>),
    Open(Open<D>),
    /// Only while it changes, or after that has failed.
    Over,
}

/// The way to another node.
#[derive(Debug)]
pub(crate) struct Link<D: Device = CharDevice> {
    state: State<D>,
    /// It has become open, and nobody knows.
    has_begun: bool,
}

impl<D: Device> Link<D> {
    /// Begin a queue pair in a session that is paired.
    ///
    /// # Errors
    /// The end that it has come to.
    pub(crate) fn new(session: Session<D>) -> Result<Self, End> {
        let window = session.state().ok().and_then(|state| state.local);
        let size = window.map_or(*WINDOW.start(), |window| window.size);
        let opening = Opening::new(session, &shape(size)).map_err(end_of)?;
        Ok(Link {
            state: State::Opening(opening),
            has_begun: false,
        })
    }

    pub(crate) fn session(&self) -> Option<&Session<D>> {
        match &self.state {
            State::Opening(opening) => Some(opening.session()),
            State::Open(open) => Some(open.sending.session()),
            State::Over => None,
        }
    }

    /// Whether frames can be sent and received. Looks whether the other node has announced its end,
    /// unless it had before.
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
            Opened::NotYet(opening) => State::Opening(opening),
            Opened::Ready(sending, receiving) => {
                self.has_begun = true;
                State::Open(Open::new(sending, receiving)?)
            }
        };
        Ok(self.has_begun)
    }

    /// Whether it has become open; true once.
    pub(crate) fn has_begun(&mut self) -> bool {
        mem::take(&mut self.has_begun)
    }

    /// Look whether the other node's process or the link has gone, and whether it has signalled:
    /// it does so once for each time that it was asked, for whatever comes first.
    pub(crate) fn look(&mut self) -> Option<End> {
        let state = self.session().map(|session| session.state());
        let Some(Ok(state)) = state else {
            return Some(End::Gone);
        };
        // A link that is lost closes sessions as well.
        if state.events.contains(EventMask::DOWN) {
            return Some(End::Down);
        }
        if state.events.contains(EventMask::CLOSED) {
            return Some(End::Gone);
        }
        if let (true, State::Open(open)) =
            (state.events.contains(EventMask::SIGNAL), &mut self.state)
        {
            open.armed = None;
        }
        None
    }

    /// Ask the other node for a signal when it sends, and when it makes room if something
    /// `waits` for that; unless it was asked, and nothing has happened since.
    pub(crate) fn arm(&mut self, fabric: &Fabric<D>, waits: bool) -> Armed {
        match &mut self.state {
            State::Open(open) => open.arm(fabric, waits),
            // It signals when it announces its end.
            State::Opening(_) => match self.is_open() {
                Ok(false) => Armed::Surely,
                _ => Armed::No,
            },
            State::Over => Armed::No,
        }
    }

    /// End the session, behind everything that was sent.
    pub(crate) fn close(&mut self) {
        if let State::Open(open) = &mut self.state {
            // A node that has gone need not be told.
            let _ = open.sending.close(0);
        }
        self.state = State::Over;
    }

    fn as_open(&mut self) -> Result<&mut Open<D>, End> {
        match &mut self.state {
            State::Open(open) => Ok(open),
            _ => Err(End::Broken),
        }
    }
}

impl<D: Device> Open<D> {
    /// # Errors
    /// [`End::Broken`]: the other node's window is not divided as it has to be.
    fn new(sending: Sending<D>, receiving: Receiving<D>) -> Result<Self, End> {
        let partner = sending.partner();
        let fits = partner.slot_size as usize >= FRAME
            && partner.slots >= STREAMS.into()
            && partner.streams >= STREAMS.into()
            && partner.lines >= 4 * INLINE_LINES;
        if !fits {
            return Err(End::Broken);
        }
        Ok(Open {
            sending,
            receiving,
            room: Box::default(),
            held: None,
            put: false,
            took: false,
            need: None,
            armed: None,
        })
    }

    /// Lines that bulk leaves to what cannot wait.
    fn reserve(&self) -> u32 {
        self.sending.partner().lines / 4
    }

    fn arm(&mut self, fabric: &Fabric<D>, waits: bool) -> Armed {
        let need = match (waits, self.need) {
            // Nobody has tried since it can be sent.
            (true, None) => return Armed::No,
            (true, need) => need,
            (false, _) => None,
        };
        if self.armed.is_some_and(|room| room || need.is_none()) {
            return Armed::Surely;
        }
        // A pair that has ended says so when it is looked at.
        let room = match need.map(|need| self.sending.arm(need)) {
            None => None,
            Some(Ok(Some(park))) => Some(park),
            Some(_) => return Armed::No,
        };
        let Ok(Some(data)) = self.receiving.arm() else {
            return Armed::No;
        };
        let parks = room.into_iter().chain([data]).map(|park| mp_fabric::Park {
            word: park.word as u64,
            value: park.value,
            arm: park.arm as u64,
            arm_value: park.arm_value,
        });
        let session = &**self.sending.session();
        let words: Vec<_> = parks.map(|park| (session, park)).collect();
        match fabric.arm(&words, Deadline::after(ANSWER)) {
            Ok(None) => {
                self.armed = Some(need.is_some());
                Armed::Surely
            }
            Ok(Some(_)) => Armed::No,
            // The host does not answer, or the kernel cannot ask.
            Err(_) => Armed::Perhaps,
        }
    }

    /// Give back the slot of the last frame, to the stream that it came on.
    fn give(&mut self) -> Result<(), End> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        let stream = held.stream();
        let given = self.receiving.give(held, stream);
        given.map_err(|(_, error)| end_of(error))
    }

    fn send(&mut self, frame: &Frame<'_>) -> Result<bool, End> {
        let stream = match frame.lane().map(|lane| lane.level) {
            None | Some(0) => URGENT,
            Some(_) => BULK,
        };
        let lines = self.reserve() + INLINE_LINES;
        if stream == BULK && self.sending.room().map_err(end_of)? < lines {
            self.need = Some(Need::Lines(lines));
            return Ok(false);
        }
        let (header, data) = frame.parts();
        let head = Head {
            stream,
            kind: header.kind,
            more: false,
            immediate: None,
        };
        let (bytes, len) = header.bytes();
        let pieces = [data];
        let mut message = Outgoing::new(head, bytes.get(..len).unwrap_or_default(), &pieces);
        let put = self.sending.put(&mut message).map_err(end_of)?.is_some();
        self.need = (!put).then(|| self.sending.need(&message));
        self.put |= put;
        if put {
            self.armed = None;
        }
        Ok(put)
    }

    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        self.give()?;
        let received = self.receiving.receive(&mut self.room).map_err(end_of)?;
        let Some(message) = received else {
            return Ok(None);
        };
        self.took = true;
        self.armed = None;
        let kind = message.head.kind;
        let len = 4 * Header::words_of(kind).ok_or(End::Broken)?;
        let message = message.split(len).ok_or(End::Broken)?;
        if message.head.more {
            return Err(End::Broken);
        }
        let header = Header::read(kind, message.extra).ok_or(End::Broken)?;
        let data = match message.data {
            Data::Inline(bytes) => Piece::Bytes(bytes),
            Data::Held(held) => {
                let held = self.held.insert(held);
                Piece::Memory(held.area().volatile().map_err(end_of)?)
            }
            // This library advertises no buffers, and uses none.
            Data::Placed(..) | Data::Advertised(_) => return Err(End::Broken),
        };
        header.frame(data).map(Some).ok_or(End::Broken)
    }

    fn flush(&mut self) -> Result<(), End> {
        if mem::take(&mut self.took) {
            self.give()?;
            self.receiving.publish().map_err(end_of)?;
        }
        if mem::take(&mut self.put) {
            self.sending.publish().map_err(end_of)?;
        }
        Ok(())
    }
}

impl<D: Device> Wire for Link<D> {
    fn send(&mut self, frame: &Frame<'_>) -> Result<bool, End> {
        self.as_open()?.send(frame)
    }

    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        self.as_open()?.receive()
    }

    fn flush(&mut self) -> Result<(), End> {
        self.as_open()?.flush()
    }
}

/// How a link has ended when its pair fails.
fn end_of(error: Error) -> End {
    match error {
        Error::Closed { .. } => End::Gone,
        Error::Fabric(FabricError::InterfaceDown(_) | FabricError::NoInterface(_)) => End::Down,
        Error::Fabric(_) => End::Gone,
        _ => End::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Control, Lane, WORDS};
    use mp_fabric::InterfaceId;
    use mp_queue_pair::{EXTRA_MAX, INLINE_MAX};
    use mp_testing::{FakeDevice, Host, World};

    /// Any header fits beside a slot, and alone into lines.
    const _: () = assert!(4 * WORDS <= EXTRA_MAX && 4 * WORDS <= INLINE_MAX);

    #[test]
    fn windows_have_room_for_lines_and_slots() {
        for free in [0, 1 << 20, 1 << 40] {
            let window = window(free);
            for size in [*window.start(), *window.end()] {
                let shape = shape(size);
                let used = u64::from(shape.lines) * LINE + u64::from(shape.slots) * FRAME as u64;
                assert!(used + REST <= size && shape.slots >= STREAMS.into());
            }
        }
    }

    /// The two ends of a link between two hosts.
    fn pair() -> [Link<FakeDevice>; 2] {
        let world = World::new(1, 1 << 20);
        let hosts = [Host::A, Host::B];
        let [a, b] = hosts.map(|host| Fabric::with_device(world.open(host)));
        let [here, there] = hosts.map(|host| InterfaceId(world.interface(0, host)));
        let server = a.server(here, 1).local(WINDOW).remote(WINDOW).open();
        let client = b.client(there, 1).local(WINDOW).remote(WINDOW).open();
        let mut links = [server, client].map(|session| Link::new(session.unwrap()).unwrap());
        while !links.iter_mut().all(|link| link.is_open().unwrap()) {}
        links
    }

    fn message(level: u16, data: &[u8]) -> Frame<'_> {
        Frame::Message {
            lane: Lane { level, port: 1 },
            from: 1,
            total: data.len() as u32,
            data: Piece::Bytes(data),
        }
    }

    /// MC-MSG-13, MC-CHAN-22: whatever fills the ring or the slots, what is urgent has room.
    #[test]
    fn bulk_leaves_room_for_what_is_urgent() {
        for (len, urgent) in [(0, 30), (FRAME, 2)] {
            let [mut a, mut b] = pair();
            let data = vec![5; len];
            let mut bulk = 0;
            while a.send(&message(7, &data)).unwrap() {
                bulk += 1;
            }
            assert!(a.as_open().unwrap().need.is_some() && bulk > 0);
            for _ in 0..urgent {
                assert_eq!(a.send(&message(0, &data)), Ok(true));
            }
            let control = Frame::Control(Control::Get { number: 1, port: 1 });
            assert_eq!(a.send(&control), Ok(true));
            a.flush().unwrap();
            for _ in 0..bulk + urgent + 1 {
                assert!(b.receive().unwrap().is_some());
            }
            assert!(b.receive().unwrap().is_none());
            b.flush().unwrap();
            assert_eq!(a.send(&message(7, &data)), Ok(true));
        }
    }
}
