// SPDX-License-Identifier: GPL-2.0-only

//! What a host has sent and what of it has arrived, known without the hosts: no context has a turn
//! while it is looked at.
//!
//! A frame that was accepted belongs to the session in which it was, unless that has changed meanwhile.
//! Of one session none is missing before one that arrives, the first one included ([`arrive`]); none
//! is missing at all once the sender rests and the session goes on ([`missing`]).
//!
//! [`arrive`]: Ledger::arrive
//! [`missing`]: Ledger::missing

use crate::host::STREAMS;
use machine::now;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc,
        Mutex,
        MutexGuard, //
    }, //
};

/// A frame on its way.
struct Sent {
    /// The session in which its sending began.
    session: u32,
    /// When it was accepted, and whether that was in the same session; `None` while that is open.
    accepted: Option<(u64, bool)>,
    has_arrived: bool,
}

/// Frames of one host to the other one, by stream.
#[derive(Default)]
pub(crate) struct Ledger {
    /// The present session of the sender; odd while the peer is there.
    session: u32,
    streams: [BTreeMap<u32, Sent>; STREAMS.len()],
    /// What was accepted before may be lost, or be late: memory was short.
    excused_until: u64,
    /// When the receiver was told that the sender is there.
    expected_since: u64,
    times: Times,
    /// Frames that are missing before others that have arrived, in the present session of the receiver.
    lost: u64,
}

/// How long frames have taken, from when they were accepted and the receiver knew of the sender.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Times {
    /// Nanoseconds that the slowest one has taken.
    pub(crate) slowest: u64,
    /// Nanoseconds of all of them, and how many they are.
    pub(crate) all: u64,
    pub(crate) frames: u64,
}

/// A ledger that both hosts have.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    /// Of a host that has sent nothing.
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// The ledger, for as long as no other context has a turn: all of them are one thread.
    pub(crate) fn get(&self) -> MutexGuard<'_, Ledger> {
        self.0.try_lock().expect("nobody has it over a turn")
    }

    /// A frame has arrived; ends the run if it should not have, or not now.
    pub(crate) fn arrive(&self, stream: usize, number: u32) {
        let wrong = self.get().arrive(stream, number);
        wrong.unwrap_or_else(|why| machine::fail(why));
    }

    /// A frame was accepted.
    pub(crate) fn accept(&self, stream: usize, number: u32) {
        self.get().accept(stream, number);
    }

    /// A frame was refused; ends the run if it has arrived.
    pub(crate) fn refuse(&self, stream: usize, number: u32) {
        let sent = self.get().streams[stream].remove(&number);
        if sent.is_some_and(|sent| sent.has_arrived) {
            machine::fail(format!(
                "stream {stream}: {number} has arrived, and is refused"
            ));
        }
    }
}

impl Ledger {
    /// The peer comes or goes.
    pub(crate) fn turn(&mut self) {
        self.session += 1;
    }

    /// The receiver is told that the sender is there.
    pub(crate) fn expect(&mut self) {
        self.expected_since = now();
        self.lost = 0;
    }

    /// How many frames are missing of the receiver's session.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Memory is short no more.
    pub(crate) fn excuse(&mut self) {
        self.excused_until = now();
    }

    /// Memory is short from now on.
    pub(crate) fn excuse_all(&mut self) {
        self.excused_until = u64::MAX;
    }

    /// How long frames have taken.
    pub(crate) fn times(&self) -> Times {
        self.times
    }

    /// The sending of a frame begins.
    pub(crate) fn begin(&mut self, stream: usize, number: u32) {
        let sent = Sent {
            session: self.session,
            accepted: None,
            has_arrived: false,
        };
        self.streams[stream].insert(number, sent);
    }

    /// It may have arrived, and a later one with it: then it is not noted any more.
    fn accept(&mut self, stream: usize, number: u32) {
        let session = self.session;
        if let Some(sent) = self.streams[stream].get_mut(&number) {
            sent.accepted = Some((now(), sent.session == session));
        }
    }

    fn arrive(&mut self, stream: usize, number: u32) -> Result<(), String> {
        let (session, excused) = (self.session, self.excused_until);
        let streams = &mut self.streams[stream];
        let sent = streams.get_mut(&number);
        let sent = sent.ok_or_else(|| format!("stream {stream}: {number} was never sent"))?;
        sent.has_arrived = true;
        let its = sent.session;
        if !sent.accepted.map_or(its == session, |(_, is_same)| is_same) {
            return Ok(());
        }
        match sent.accepted {
            Some((at, _)) if at < excused => {}
            accepted => {
                let since = accepted.map_or(now(), |(at, _)| at.max(self.expected_since));
                self.times.note(now() - since);
            }
        }
        let mut before = streams.range(..number).rev();
        let lost = before.find(|(_, sent)| sent.is_due(its, excused));
        if let Some((lost, _)) = lost {
            return Err(format!("stream {stream}: {number} arrives without {lost}"));
        }
        let is_lost = |(_, sent): &(&u32, &Sent)| !sent.has_arrived && sent.session == its;
        self.lost += streams.range(..number).filter(is_lost).count() as u64;
        // Nobody asks for older ones any more.
        *streams = streams.split_off(&number);
        Ok(())
    }

    /// What was accepted in the present session and has not arrived, in words; `None` if nothing.
    pub(crate) fn missing(&self) -> Option<String> {
        let mut text = String::new();
        for (stream, frames) in self.streams.iter().enumerate() {
            let mut due = frames.iter();
            let due = due
                .by_ref()
                .filter(|(_, sent)| sent.is_due(self.session, self.excused_until));
            let due: Vec<_> = due.map(|(number, _)| *number).collect();
            if !due.is_empty() && self.session % 2 == 1 {
                let _ = write!(text, "stream {stream}: {due:?} ");
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

impl Times {
    fn note(&mut self, took: u64) {
        self.slowest = self.slowest.max(took);
        self.all += took;
        self.frames += 1;
    }
}

impl Sent {
    /// It was accepted in this session and not lately before memory was short, and has not arrived.
    fn is_due(&self, session: u32, excused: u64) -> bool {
        let is_due = |(at, is_same): (u64, bool)| is_same && at >= excused;
        !self.has_arrived && self.session == session && self.accepted.is_some_and(is_due)
    }
}
