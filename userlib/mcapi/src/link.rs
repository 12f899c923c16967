// SPDX-License-Identifier: MIT OR Apache-2.0

//! The way to another node over the fabric: frames in the queue pair of a session.
//!
//! Control frames and messages of priority 0 go on stream 0, others on stream 1, which leaves a
//! quarter of the ring's lines to stream 0.

use crate::{
    pair::{end_of, Open, Pair},
    wire::{End, Frame, Header, Wire, FRAME},
};
use mp_fabric::{CharDevice, Device, Session};
use mp_queue_pair::{
    provider::{shape, SLOT},
    Head, Outgoing,
};

/// Lines of the longest message that has no slot.
const INLINE_LINES: u32 = 5;
/// Streams: what cannot wait, and the rest.
const URGENT: u16 = 0;
const BULK: u16 = 1;
const STREAMS: u16 = 2;

/// A frame's data have room in a slot.
const _: () = assert!(FRAME == SLOT);

/// The way to another node.
#[derive(Debug)]
pub(crate) struct Link<D: Device = CharDevice>(Pair<D>);

impl<D: Device> std::ops::Deref for Link<D> {
    type Target = Pair<D>;

    fn deref(&self) -> &Pair<D> {
        &self.0
    }
}

impl<D: Device> std::ops::DerefMut for Link<D> {
    fn deref_mut(&mut self) -> &mut Pair<D> {
        &mut self.0
    }
}

impl<D: Device> Link<D> {
    /// Begin a queue pair in a session that is paired.
    ///
    /// # Errors
    /// The end that it has come to.
    pub(crate) fn new(session: Session<D>) -> Result<Self, End> {
        Ok(Link(Pair::new(session, |size| shape(size, STREAMS))?))
    }

    /// Whether frames can be sent and received.
    ///
    /// # Errors
    /// The end that it has come to; [`End::Broken`]: also if the other node's window is not divided
    /// as it has to be.
    pub(crate) fn is_open(&mut self) -> Result<bool, End> {
        if !self.0.is_open()? {
            return Ok(false);
        }
        let partner = self.0.open()?.outbox.partner();
        let fits = partner.slot_size as usize >= FRAME
            && partner.slots >= STREAMS.into()
            && partner.streams >= STREAMS.into()
            && partner.lines >= 4 * INLINE_LINES;
        match fits {
            true => Ok(true),
            false => Err(End::Broken),
        }
    }
}

fn send<D: Device>(open: &mut Open<D>, frame: &Frame<'_>) -> Result<bool, End> {
    let stream = match frame.lane().map(|lane| lane.level) {
        None | Some(0) => URGENT,
        Some(_) => BULK,
    };
    let outbox = &mut open.outbox;
    let lines = outbox.partner().lines / 4 + INLINE_LINES;
    if stream == BULK && !outbox.has_lines(lines).map_err(end_of)? {
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
    outbox.put(&mut message).map_err(end_of)
}

fn receive<D: Device>(open: &mut Open<D>) -> Result<Option<Frame<'_>>, End> {
    let len = |head: &Head| Header::words_of(head.kind).map(|words| 4 * words);
    let Some(message) = open.inbox.receive(len)? else {
        return Ok(None);
    };
    let header = Header::read(message.head.kind, message.extra).ok_or(End::Broken)?;
    header.frame(message.data).map(Some).ok_or(End::Broken)
}

impl<D: Device> Wire for Link<D> {
    fn send(&mut self, frame: &Frame<'_>) -> Result<bool, End> {
        send(self.open()?, frame)
    }

    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        receive(self.open()?)
    }

    fn flush(&mut self) -> Result<(), End> {
        let Open { outbox, inbox } = self.open()?;
        inbox.flush().map_err(end_of)?;
        outbox.flush().map_err(end_of)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::wire::{Control, Lane, WORDS};
    use mp_fabric::{Fabric, InterfaceId};
    use mp_queue_pair::{provider::WINDOW, Piece, EXTRA_MAX, INLINE_MAX};
    use mp_testing::{FakeDevice, Host, World};

    /// Any header fits beside a slot, and alone into lines.
    const _: () = assert!(4 * WORDS <= EXTRA_MAX && 4 * WORDS <= INLINE_MAX);

    /// The two ends of a link between two hosts.
    pub(crate) fn pair() -> [Link<FakeDevice>; 2] {
        pair_in(&World::new(1, 1 << 20))
    }

    /// The same between the hosts of a world.
    pub(crate) fn pair_in(world: &World) -> [Link<FakeDevice>; 2] {
        let hosts = [Host::A, Host::B];
        let [a, b] = hosts.map(|host| Fabric::with_device(world.open(host)));
        let [here, there] = hosts.map(|host| InterfaceId(world.interface(0, host)));
        let server = a.server(here, 1).local(WINDOW).remote(WINDOW).open();
        let client = b.client(there, 1).local(WINDOW).remote(WINDOW).open();
        let mut links = [server, client].map(|session| Link::new(session.unwrap()).unwrap());
        while !links.iter_mut().all(|link| link.is_open().unwrap()) {}
        links
    }

    pub(crate) fn message(level: u16, data: &[u8]) -> Frame<'_> {
        Frame::Message {
            lane: Lane { level, port: 1 },
            from: 1,
            total: data.len() as u32,
            data: Piece::Bytes(data),
        }
    }

    /// MC-MSG-13: whatever fills the ring or the slots, what is urgent has room.
    #[test]
    fn bulk_leaves_room_for_what_is_urgent() {
        for (len, urgent) in [(0, 30), (FRAME, 2)] {
            let [mut a, mut b] = pair();
            let data = vec![5; len];
            let mut bulk = 0;
            while a.send(&message(7, &data)).unwrap() {
                bulk += 1;
            }
            assert!(a.open().unwrap().outbox.need().is_some() && bulk > 0);
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
