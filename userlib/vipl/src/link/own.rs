// SPDX-License-Identifier: MIT OR Apache-2.0

//! A connection's own way: the queue pair in the windows of its session.

use super::{end_of, ending, put, Unopened};
use crate::{
    engine::Program,
    wire::{header_of, End, Frame, Header, Kind, Reason, Wire},
};
use mp_fabric::{CharDevice, Deadline, Device, Session};
use mp_queue_pair::{
    open,
    provider::{shape, Answer, Inbox, Lent, NotNow, Outbox, Question, WINDOW},
    Head, INLINE_MAX,
};
use std::sync::Arc;
use vm_memory::VolatileSlice;

/// The stream of the pair that a connection has.
const STREAM: u16 = 0;

/// The way to the other end of a connection.
#[derive(Debug)]
pub(crate) struct Own<D: Device = CharDevice> {
    outbox: Outbox<D>,
    inbox: Inbox<D>,
    /// Lines whose messages have taken effect.
    effect: u64,
}

impl<D: Device> Own<D> {
    /// Wait until both sides have their end of the pair.
    ///
    /// # Errors
    /// Why it was not opened.
    pub(crate) fn open(session: Arc<Session<D>>, deadline: Deadline) -> Result<Self, Unopened> {
        let window = session.state().ok().and_then(|state| state.local);
        let size = window.map_or(*WINDOW.start(), |window| window.size);
        let (sending, receiving) = open(session, &shape(size, 1), deadline)?;
        Ok(Own {
            outbox: Outbox::new(sending),
            inbox: Inbox::new(receiving),
            effect: 0,
        })
    }

    pub(crate) fn session(&self) -> &Arc<Session<D>> {
        self.outbox.session()
    }

    /// Look what has happened to the session: whether the partner's process or the link has gone.
    pub(crate) fn look(&mut self) -> Option<End> {
        self.inbox.look().map(ending)
    }

    /// Ask the partner for a signal when it sends, and when it makes room for what `waits`: what
    /// its host has to be asked then. Nothing if the partner signals anyhow.
    ///
    /// # Errors
    /// As [`Inbox::arm`].
    pub(crate) fn arm(&mut self, waits: bool) -> Result<Option<Question<D>>, NotNow> {
        let need = self.outbox.need().filter(|_| waits);
        let room = need.map(|need| (&mut self.outbox, need));
        self.inbox.arm(room)
    }

    /// Note what has come of a question.
    pub(crate) fn answered(&mut self, answer: Answer) -> Answer {
        self.inbox.answered(answer)
    }

    /// Signal the partner for what it may not have seen; as [`Outbox::remind`].
    pub(crate) fn remind(&mut self) {
        self.outbox.remind();
    }

    /// Whether the partner could not be woken: [`flush()`](Wire::flush) tries again.
    pub(crate) fn owes_signal(&self) -> bool {
        self.outbox.owes_signal()
    }
}

impl<D: Device> Wire<Program> for Own<D> {
    #[inline]
    fn most(&self, kind: Kind) -> usize {
        let partner = self.outbox.partner();
        match partner.slots {
            0 => INLINE_MAX - kind.header(),
            _ => partner.slot_size as usize,
        }
    }

    #[inline]
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
        put(&mut self.outbox, head, header, payload).map_err(end_of)
    }

    #[inline]
    fn has_news(&self) -> bool {
        self.inbox.has_news() || self.outbox.owes_signal()
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<Frame<'_>>, End> {
        let extra = |head: &Head| Some(Kind::of(head.kind)?.header());
        let Some(Lent { head, extra, data }) = self.inbox.receive(extra).map_err(ending)? else {
            return Ok(None);
        };
        Ok(Some(Frame {
            kind: Kind::of(head.kind).ok_or(End::Broken)?,
            immediate: head.immediate,
            header: header_of(extra),
            payload: data,
            fault: None,
        }))
    }

    #[inline]
    fn flush(&mut self) -> Result<(), End> {
        self.inbox.flush().map_err(end_of)?;
        self.outbox.flush().map_err(end_of)
    }

    fn effect(&mut self) {
        self.effect = self.inbox.received();
    }

    fn sent(&self) -> u64 {
        self.outbox.sent()
    }

    fn effective(&mut self) -> u64 {
        // A pair that is broken says nothing more.
        self.outbox.sending().acknowledged().unwrap_or(0)
    }

    fn close(&mut self, reason: Reason) {
        // In a word of its own, for which there is always room.
        self.inbox.receiving().acknowledge(self.effect);
        let _ = self.inbox.receiving().publish();
        // A partner that has gone need not be told.
        let _ = self.outbox.sending().close(reason as u16);
    }
}

/// The session ends with the connection, also while its host is being asked.
impl<D: Device> Drop for Own<D> {
    fn drop(&mut self) {
        // The program may have ended it before.
        let _ = self.session().close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HEADER_MAX;
    use mp_fabric::{Fabric, InterfaceId};
    use mp_testing::{FakeDevice, Host, World};

    /// The two ends of a connection.
    fn linked() -> [Own<FakeDevice>; 2] {
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
            let server = scope.spawn(move || Own::open(server.into(), soon).unwrap());
            let client = Own::open(client.into(), soon).unwrap();
            [server.join().unwrap(), client]
        })
    }

    /// VI-REL-3: without any room, the end of a connection says what has taken effect.
    #[test]
    fn an_end_tells_what_has_taken_effect() {
        let [mut a, mut b] = linked();
        let send = |link: &mut Own<FakeDevice>| {
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
}
