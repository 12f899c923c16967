// SPDX-License-Identifier: GPL-2.0-only

//! What must hold, seen from outside of all hosts. Who breaks it panics; the caller of a run
//! catches that.

use std::collections::{BTreeMap, BTreeSet};

/// Frames of one sender to one receiver in one lane, while both know each other. They arrive in
/// order, once, and at one receiver only.
#[derive(Debug, Default)]
struct Stream {
    /// The epoch of the sender's end of the link, or the mark of the way.
    epoch: u64,
    sent: u64,
    got: u64,
    bytes: u64,
    bytes_got: u64,
    /// The one life of a peer on one host that receives it.
    receiver: Option<(usize, u32, u32)>,
    /// All of it must arrive.
    lives: bool,
}

/// What a run has seen, for the report and so that nobody takes an idle run for a good one.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Frames that functions have received.
    pub frames: u64,
    /// Of these, those that were forwarded.
    pub forwarded: u64,
    /// Bytes of data in them.
    pub bytes: u64,
    /// Links that came up, counted at both ends.
    pub ups: u64,
    /// Pairs of sessions, counted at both ends.
    pub pairs: u64,
    /// Faults.
    pub faults: u64,
    /// Writes that were lost.
    pub lost: u64,
    /// Doorbells that were lost.
    pub lost_bells: u64,
    /// Epochs ended because a liar was found out.
    pub resets: u64,
    /// Kept frames that were moved out of a ring.
    pub moved_out: u64,
    /// Words that processes have found in their windows.
    pub words: u64,
    /// Messages that processes have received over queue pairs.
    pub messages: u64,
    /// Requests that have succeeded on the work queues of processes.
    pub requests: u64,
    /// Sleeps that ended with something that had been there for a while, in runs without faults.
    pub sleeps: u64,
    /// The nanoseconds for which it had been there, altogether.
    pub slept: u64,
    /// Virtual nanoseconds.
    pub time: u64,
    /// Steps of the scheduler.
    pub steps: u64,
}

impl Totals {
    /// Add another run.
    pub fn add(&mut self, other: &Totals) {
        let Totals {
            frames,
            forwarded,
            bytes,
            ups,
            pairs,
            faults,
            lost,
            lost_bells,
            resets,
            moved_out,
            words,
            messages,
            requests,
            sleeps,
            slept,
            time,
            steps,
        } = other;
        self.frames += frames;
        self.forwarded += forwarded;
        self.bytes += bytes;
        self.ups += ups;
        self.pairs += pairs;
        self.faults += faults;
        self.lost += lost;
        self.lost_bells += lost_bells;
        self.resets += resets;
        self.moved_out += moved_out;
        self.words += words;
        self.messages += messages;
        self.requests += requests;
        self.sleeps += sleeps;
        self.slept += slept;
        self.time += time;
        self.steps += steps;
    }
}

/// All streams and totals.
#[derive(Debug, Default)]
pub struct Check {
    streams: BTreeMap<u64, Stream>,
    next: u64,
    /// Own epoch and that of the peer, as hosts have named them in a Hello.
    named: BTreeSet<(u64, u64)>,
    /// See [`Totals`].
    pub totals: Totals,
    /// All pairs of sessions.
    pub pairs: crate::pairs::Pairs,
    /// Somebody lies, and what he has said may still be about: nothing is promised now.
    pub lying: bool,
    /// All epochs that began in the time of lies have been ended.
    pub reset: bool,
    /// For how long a side may sleep although there is something for it; `None`: for any time.
    pub longest: Option<u64>,
}

/// Byte `at` of the data of a frame.
pub fn pattern(stream: u64, number: u64, at: usize) -> u8 {
    (stream.wrapping_mul(31) ^ number.wrapping_mul(7)).wrapping_add(at as u64 + (at as u64 >> 8))
        as u8
}

impl Check {
    /// A number that nothing else has.
    pub fn unique(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A host writes a Hello of its epoch `own` that names `echo` as the peer's.
    pub fn hello(&mut self, own: u64, echo: u64) {
        self.named.insert((own, echo));
    }

    /// A link is up at the end that has epoch `own`; both ends must know of both epochs.
    pub fn up(&mut self, own: u64, peer: u64) {
        let known = self.named.contains(&(peer, own));
        assert!(known || self.lying, "up before the peer knows of the epoch");
        self.totals.ups += 1;
    }

    /// A side has slept for so many nanoseconds although there was something for it.
    pub fn slept(&mut self, ns: u64) {
        let Some(longest) = self.longest else { return };
        self.totals.sleeps += 1;
        self.totals.slept += ns;
        assert!(ns <= longest, "asleep for {ns} ns with something to do");
    }

    /// A stream begins.
    pub fn begin(&mut self, epoch: u64) -> u64 {
        let id = self.unique();
        let stream = Stream {
            epoch,
            lives: true,
            ..Stream::default()
        };
        self.streams.insert(id, stream);
        id
    }

    /// Its sender does not reach its receiver any more.
    pub fn end(&mut self, id: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.lives = false;
        }
    }

    /// The number of the next frame of a stream.
    pub fn number(&self, id: u64) -> u64 {
        self.streams.get(&id).map_or(0, |stream| stream.sent)
    }

    /// A frame was taken.
    pub fn sent(&mut self, id: u64, bytes: usize) {
        let stream = self.streams.get_mut(&id).expect("begun");
        stream.sent += 1;
        stream.bytes += bytes as u64;
    }

    /// A frame has arrived at a function.
    pub fn received(
        &mut self,
        receiver: (usize, u32, u32),
        epoch: u64,
        stream: u64,
        number: u64,
        data: &[u8],
        forwarded: bool,
    ) {
        let lying = self.lying;
        let Some(s) = self.streams.get_mut(&stream) else {
            assert!(lying, "a frame of no stream");
            return;
        };
        if !lying {
            assert_eq!(s.epoch, epoch, "a frame of another epoch is delivered");
            let before = s.receiver.replace(receiver).unwrap_or(receiver);
            assert_eq!(before, receiver, "two receive one stream");
            assert_eq!(
                number, s.got,
                "a frame is lost, comes twice or out of order"
            );
            let right = (0..data.len()).all(|at| data[at] == pattern(stream, number, at));
            assert!(right, "a frame has other data than was sent");
        }
        s.got += 1;
        s.bytes_got += data.len() as u64;
        self.totals.frames += 1;
        self.totals.forwarded += u64::from(forwarded);
        self.totals.bytes += data.len() as u64;
    }

    /// What is still to arrive, of all streams that live.
    pub fn missing(&self) -> Option<String> {
        let mut living = self.streams.iter().filter(|(_, s)| s.lives);
        let (id, s) = living.find(|(_, s)| s.sent != s.got)?;
        Some(format!(
            "stream {id}: {} frames sent, {} received",
            s.sent, s.got
        ))
    }

    /// The frames and bytes of all streams that live: those sent and those received.
    pub fn sums(&self) -> [(u64, u64); 2] {
        let living = self.streams.values().filter(|s| s.lives);
        living.fold([(0, 0); 2], |[(a, b), (c, d)], s| {
            [(a + s.sent, b + s.bytes), (c + s.got, d + s.bytes_got)]
        })
    }
}
