// SPDX-License-Identifier: MIT OR Apache-2.0

//! Trunks: the queue pair that all connections of two NIC handles share which have no memory of
//! their own.
//!
//! A message belongs to a lane ([`Lane`](crate::link::Lane)), which is a connection. Lanes need no
//! credit: messages are taken as soon as somebody looks, and one without a receive descriptor is an
//! error of its VI. The thread that receives a message gives it to its VI.
//!
//! | lock | order | for |
//! |---|---|---|
//! | `inbox` | before those of VIs | receiving; never waited for with a VI's lock |
//! | a VI's | | what has arrived for it |
//! | `outbox`, `lanes` | after those of VIs | sending; whose lane it is |
//!
//! A thread that looks for a VI's messages therefore receives without the VI's lock, and looks
//! again. A trunk that breaks, or whose partner has gone, ends all its lanes. It ends with one of
//! the two handles: a lane may always be the first one of several.

mod lanes;
mod meet;
mod turns;

pub(crate) use meet::{Meeting, Patience, Trunks};

use crate::{
    link::{end_of, ending, put, Numbers, ENDS},
    lock,
    vi::ViShared,
    wire::{header, header_of, word, End, Frame, Header, Kind, Reason},
};
use lanes::Lanes;
use mp_fabric::{CharDevice, Deadline, Device, Fabric, Session};
use mp_queue_pair::{
    provider::{Answer, Attention, Inbox, NotNow, Outbox, Question, Rest, Service},
    sleep, Head, Park, Receiving, Sending, EXTRA_MAX, INLINE_MAX,
};
use std::{
    collections::VecDeque,
    fmt,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, Condvar, Mutex, PoisonError, Weak,
    },
    time::Duration,
};
use turns::Turns;
use vm_memory::VolatileSlice;

/// Messages that are received at once before those who wait get a turn.
const BUDGET: usize = 256;
/// Turns at once.
const TURNS: usize = 64;
/// Most messages about lanes that wait for room: a partner that makes none for so many does not do
/// what it should.
const CONTROL_MAX: usize = 4096;
/// Bytes in front of a header.
const LANE: usize = 4;
/// Kinds of a lane itself.
const READY: u8 = 11;
const END: u8 = 12;
/// Bytes of their headers, which begin with the sender's own number of the lane.
const READY_LEN: usize = 4;
const END_LEN: usize = 16;

/// Any header fits beside a slot.
const _: () = assert!(LANE + crate::wire::HEADER_MAX <= EXTRA_MAX);

/// What the partner is told of a lane, by its number; this side's is told as well.
pub(crate) enum Control<D: Device> {
    /// This side receives on it.
    Ready(Numbers),
    /// It has ended at this side. Its session is closed behind that.
    End {
        lane: Numbers,
        reason: Option<Reason>,
        effective: u64,
        session: Arc<Session<D>>,
    },
}

impl<D: Device> Control<D> {
    /// It is not told any more: the partner finds the end of the session.
    fn give_up(self) {
        if let Control::End { session, .. } = self {
            // It may have ended by itself.
            let _ = session.close();
        }
    }
}

/// The half that sends.
struct Out<D: Device> {
    outbox: Outbox<D>,
    control: VecDeque<Control<D>>,
    turns: Turns,
    ended: Option<End>,
}

/// A queue pair that connections share.
pub(crate) struct Trunk<D: Device = CharDevice> {
    number: u64,
    /// Where it is known, until it has ended.
    home: Weak<Trunks<D>>,
    service: Arc<Service>,
    attention: Attention,
    /// Bytes of a slot of the partner; 0 if it has none.
    slot: usize,
    inbox: Mutex<Inbox<D>>,
    outbox: Mutex<Out<D>>,
    lanes: Mutex<Lanes<D>>,
    /// Rounds of receiving that have begun, and the last one that has found everything.
    begun: AtomicU64,
    received: AtomicU64,
    /// A thread has begun to tell all lanes of the end.
    finished: AtomicBool,
    /// All lanes know of it.
    told: Mutex<bool>,
    all_told: Condvar,
}

impl<D: Device> Out<D> {
    /// Send what is to be told of lanes; whether nothing more is.
    fn tell(&mut self) -> Result<bool, End> {
        let mut closing = Vec::new();
        let told = loop {
            let (kind, lane, header) = match self.control.front() {
                None => break true,
                Some(Control::Ready(lane)) => (READY, *lane, end_header(lane.own, None, 0)),
                Some(Control::End {
                    lane,
                    reason,
                    effective,
                    ..
                }) => (END, *lane, end_header(lane.own, *reason, *effective)),
            };
            let len = if kind == END { END_LEN } else { READY_LEN };
            let header = header.get(..len).unwrap_or_default();
            if !self.put(kind, None, lane.partner, header, &[])? {
                break false;
            }
            if let Some(Control::End { session, .. }) = self.control.pop_front() {
                closing.push(session);
            }
        };
        if !closing.is_empty() {
            self.outbox.flush().map_err(end_of)?;
        }
        for session in closing {
            // It may have ended by itself.
            let _ = session.close();
        }
        Ok(told)
    }

    fn put(
        &mut self,
        kind: u8,
        immediate: Option<u32>,
        lane: u32,
        header: &[u8],
        payload: &[VolatileSlice<'_>],
    ) -> Result<bool, End> {
        let head = Head {
            stream: 0,
            kind,
            more: false,
            immediate,
        };
        let mut extra = [0; EXTRA_MAX];
        let bytes = lane.to_le_bytes().into_iter().chain(header.iter().copied());
        for (to, from) in extra.iter_mut().zip(bytes) {
            *to = from;
        }
        let extra = extra.get(..LANE + header.len()).unwrap_or_default();
        put(&mut self.outbox, head, extra, payload).map_err(end_of)
    }

    /// Whether the trunk is still there.
    fn alive(&self) -> Result<(), End> {
        self.ended.map_or(Ok(()), Err)
    }

    /// Keep an end: nothing is sent any more.
    fn judge<T>(&mut self, result: Result<T, End>) -> Result<T, End> {
        if let Err(end) = result {
            self.ended.get_or_insert(end);
        }
        result
    }

    /// Whether somebody waits for room.
    fn is_waited_for(&self) -> bool {
        !self.control.is_empty() || self.turns.first().is_some()
    }
}

/// The header of an end; that of a lane that is ready begins as well with the number of the lane.
fn end_header(own: u32, reason: Option<Reason>, effective: u64) -> Header {
    let reason = reason.map_or(0, |reason| reason as u32);
    header([own, reason, effective as u32, (effective >> 32) as u32])
}

/// How the partner has ended a lane, and how much has taken effect there.
fn end_in(header: &Header) -> (End, u64) {
    let end = match word(header, 1) {
        0 => End::Gone,
        reason => match u16::try_from(reason).ok().and_then(Reason::of) {
            Some(reason) => End::Closed(reason),
            None => End::Broken,
        },
    };
    let effective = u64::from(word(header, 2)) | u64::from(word(header, 3)) << 32;
    (end, effective)
}

/// Bytes of the interface above that a message of a kind has.
fn extra_of(head: &Head) -> Option<usize> {
    let header = match head.kind {
        READY => READY_LEN,
        END => END_LEN,
        kind => Kind::of(kind)?.header(),
    };
    Some(LANE + header)
}

impl<D: Device> Trunk<D> {
    /// A trunk on a pair that both ends have announced. The service thread knows it by the number.
    pub(crate) fn new(
        number: u64,
        home: &Arc<Trunks<D>>,
        service: &Arc<Service>,
        (sending, receiving): (Sending<D>, Receiving<D>),
    ) -> Self {
        let partner = sending.partner();
        let slot = match partner.slots {
            0 => 0,
            _ => partner.slot_size as usize,
        };
        Trunk {
            number,
            home: Arc::downgrade(home),
            service: Arc::clone(service),
            attention: Attention::default(),
            slot,
            inbox: Mutex::new(Inbox::new(receiving)),
            outbox: Mutex::new(Out {
                outbox: Outbox::new(sending),
                control: VecDeque::new(),
                turns: Turns::default(),
                ended: None,
            }),
            lanes: Mutex::default(),
            begun: AtomicU64::new(0),
            received: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            told: Mutex::default(),
            all_told: Condvar::new(),
        }
    }

    pub(crate) fn attention(&self) -> &Attention {
        &self.attention
    }

    /// Whether nothing moves on it any more.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.outbox).ended.is_some()
    }

    /// Whether all lanes have been told of its end: one that is entered now hears nothing more.
    fn has_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// How it has ended, for lanes that were entered too late to be told.
    pub(crate) fn end(&self) -> Option<End> {
        lock(&self.outbox).ended.filter(|_| self.has_finished())
    }

    /// Whether it is over, or its partner or the link has gone and nobody has looked yet.
    pub(crate) fn has_gone(&self) -> bool {
        let out = lock(&self.outbox);
        let session = Arc::clone(out.outbox.session());
        let is_over = out.ended.is_some();
        drop(out);
        // A session without a state was closed.
        is_over
            || session
                .state()
                .map_or(true, |state| state.events.intersects(ENDS))
    }

    /// Let the service thread look after it.
    pub(crate) fn list(&self) {
        self.attention.list(&self.service, self.number);
    }

    /// A thread of the program was woken: the trunk is left to it.
    pub(crate) fn hand_over(&self) {
        self.attention.hand_over();
    }

    /// Whether there is something that nobody has received. Nobody receives meanwhile.
    pub(crate) fn has_work(&self) -> bool {
        let inbox = self.inbox.try_lock();
        inbox.is_ok_and(|inbox| inbox.has_news())
    }

    /// The threads of the program look no more.
    pub(crate) fn unwatch(&self) {
        lock(&self.outbox).outbox.remind();
        self.attention.unwatch(&self.service);
    }

    /// Enter the lane of a VI; whether the partner is ready for it.
    pub(crate) fn enter(&self, lane: Numbers, vi: &Arc<ViShared<D>>) -> bool {
        lock(&self.lanes).enter(lane, vi)
    }

    /// A lane is not there any more: what comes for it is dropped.
    pub(crate) fn forget(&self, lane: u32) {
        lock(&self.lanes).remove(lane);
        lock(&self.outbox).turns.leave(lane);
    }

    fn vi(&self, lane: u32) -> Option<Arc<ViShared<D>>> {
        lock(&self.lanes).vi(lane)
    }

    /// Most payload bytes of a message.
    pub(crate) fn most(&self, kind: Kind) -> usize {
        match self.slot {
            0 => INLINE_MAX - LANE - kind.header(),
            slot => slot,
        }
    }

    /// Tell the partner something of a lane, as soon as there is room.
    pub(crate) fn tell(&self, control: Control<D>) {
        let mut out = lock(&self.outbox);
        if out.alive().is_err() {
            drop(out);
            return control.give_up();
        }
        out.control.push_back(control);
        let told = match out.control.len() {
            0..=CONTROL_MAX => out.tell(),
            _ => Err(End::Broken),
        };
        let told = told.and_then(|told| out.outbox.flush().map_err(end_of).map(|()| told));
        let told = out.judge(told);
        drop(out);
        if told != Ok(true) {
            self.list();
        }
    }

    /// Send a message on a lane; false if there is no room now, or others have their turn.
    pub(crate) fn send(
        &self,
        lane: Numbers,
        (kind, immediate, header): (Kind, Option<u32>, &Header),
        payload: &[VolatileSlice<'_>],
    ) -> Result<bool, End> {
        let mut out = lock(&self.outbox);
        out.alive()?;
        let told = out.tell();
        let header = header.get(..kind.header()).unwrap_or_default();
        let put = match told {
            Ok(true) if out.turns.may(lane.own) => {
                out.put(kind as u8, immediate, lane.partner, header, payload)
            }
            Ok(_) => Ok(false),
            Err(end) => Err(end),
        };
        let put = out.judge(put);
        match put {
            Ok(true) => out.turns.sent(lane.own),
            Ok(false) => out.turns.wait(lane.own),
            Err(_) => {}
        }
        drop(out);
        if put != Ok(true) {
            self.list();
        }
        put
    }

    /// A lane does not wait for room any more.
    pub(crate) fn yield_turn(&self, lane: u32) {
        lock(&self.outbox).turns.leave(lane);
    }

    /// Let the partner know of everything that was sent.
    pub(crate) fn flush(&self) -> Result<(), End> {
        let mut out = lock(&self.outbox);
        out.alive()?;
        let flushed = out.outbox.flush().map_err(end_of);
        out.judge(flushed)
    }

    /// The first round of receiving that finds everything that was sent before now.
    pub(crate) fn next_round(&self) -> u64 {
        self.begun.load(Ordering::SeqCst) + 1
    }

    /// Whether that round, or a later one, has found everything.
    pub(crate) fn has_received(&self, round: u64) -> bool {
        self.received.load(Ordering::SeqCst) >= round || self.has_finished()
    }

    /// As [`pump()`](Self::pump), for a thread of the program. One that has finished is left to
    /// nobody: there is nothing to look for.
    pub(crate) fn look(&self) -> bool {
        if self.has_finished() {
            return false;
        }
        self.attention.watch();
        self.pump()
    }

    /// Receive, unless somebody else does, and let those send who wait; whether anything has moved.
    /// Without the lock of a VI.
    pub(crate) fn pump(&self) -> bool {
        let mut touched = Vec::new();
        let received = match self.inbox.try_lock() {
            Ok(mut inbox) => self.receive(&mut inbox, &mut touched),
            Err(_) => return false,
        };
        let any = !touched.is_empty();
        for vi in touched {
            vi.push();
        }
        if let Err(end) = received {
            let _ = lock(&self.outbox).judge::<()>(Err(end));
        }
        let advanced = self.advance();
        self.finish();
        any || advanced
    }

    fn receive(
        &self,
        inbox: &mut Inbox<D>,
        touched: &mut Vec<Arc<ViShared<D>>>,
    ) -> Result<(), End> {
        let round = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let end = match self.attention.take_news() {
            true => inbox.look(),
            false => None,
        };
        for _ in 0..BUDGET {
            let Some(lent) = inbox.receive(extra_of).map_err(ending)? else {
                inbox.flush().map_err(end_of)?;
                self.received.store(round, Ordering::SeqCst);
                return end.map_or(Ok(()), |end| Err(ending(end)));
            };
            let (lane, header) = lent.extra.split_first_chunk().ok_or(End::Broken)?;
            let lane = u32::from_le_bytes(*lane);
            let header = header_of(header);
            let both = Numbers {
                own: lane,
                partner: word(&header, 0),
            };
            let vi = match lent.head.kind {
                READY => self.ready(both)?,
                END => self.ended(both, &header),
                kind => {
                    let vi = self.vi(lane);
                    let frame = Frame {
                        kind: Kind::of(kind).ok_or(End::Broken)?,
                        immediate: lent.head.immediate,
                        header,
                        payload: lent.data,
                        fault: None,
                    };
                    vi.inspect(|vi| vi.deliver(lane, frame))
                }
            };
            if let Some(vi) = vi.filter(|vi| !touched.iter().any(|other| Arc::ptr_eq(other, vi))) {
                touched.push(vi);
            }
        }
        if end.is_some() {
            // What has come before it was not all received.
            self.attention.note_news();
        }
        inbox.flush().map_err(end_of)
    }

    /// The partner is ready for a lane.
    fn ready(&self, lane: Numbers) -> Result<Option<Arc<ViShared<D>>>, End> {
        let vi = lock(&self.lanes).ready(lane)?;
        Ok(vi.inspect(|vi| vi.begin_lane(lane)))
    }

    /// The partner has ended a lane.
    fn ended(&self, lane: Numbers, header: &Header) -> Option<Arc<ViShared<D>>> {
        let (end, effective) = end_in(header);
        let vi = lock(&self.lanes).ended(lane);
        vi.inspect(|vi| vi.end_lane(lane, end, effective))
    }

    /// Let those send who wait, one after the other; whether anything was sent.
    fn advance(&self) -> bool {
        let mut any = false;
        for _ in 0..TURNS {
            let mut out = lock(&self.outbox);
            if out.alive().is_err() || !out.is_waited_for() && !out.outbox.owes_signal() {
                break;
            }
            let told = out.tell();
            let told = told.and_then(|told| out.outbox.flush().map_err(end_of).map(|()| told));
            let told = out.judge(told);
            let Some(lane) = out.turns.first().filter(|_| told == Ok(true)) else {
                break;
            };
            drop(out);
            match self.vi(lane) {
                Some(vi) if vi.push() => any = true,
                Some(_) => break,
                None => self.yield_turn(lane),
            }
        }
        any
    }

    /// Tell all lanes of the end of the trunk, if it has come: first the partner, so that a program
    /// that hears of it and connects again does not get it once more from there.
    fn finish(&self) {
        let out = lock(&self.outbox);
        let Some(end) = out.ended.filter(|_| !self.has_finished()) else {
            return;
        };
        let session = Arc::clone(out.outbox.session());
        drop(out);
        // The partner may have ended it before.
        let _ = session.close();
        if self.finished.swap(true, Ordering::SeqCst) {
            return;
        }
        let lanes = std::mem::take(&mut *lock(&self.lanes));
        let control = std::mem::take(&mut lock(&self.outbox).control);
        control.into_iter().for_each(Control::give_up);
        for (lane, vi) in lanes.vis() {
            vi.lose_lane(lane, end);
            vi.push();
        }
        if let Some(home) = self.home.upgrade() {
            home.forget(self.number);
        }
        *lock(&self.told) = true;
        self.all_told.notify_all();
    }

    /// End it from this side: the lanes have ended when it returns, also if another thread ends them.
    /// Until the deadline the partner may make room for
    /// what it is to be told of them.
    pub(crate) fn close(&self, until: Deadline) {
        while let Some((session, park)) = self.tell_last() {
            let slept = park.map_or(Ok(()), |park| sleep(&session, Some(park), until));
            if slept.is_err() || until.remaining() == Some(Duration::ZERO) {
                break;
            }
        }
        let _ = lock(&self.outbox).judge::<()>(Err(End::Gone));
        self.finish();
        let told = self.all_told.wait_while(lock(&self.told), |told| !*told);
        drop(told.unwrap_or_else(PoisonError::into_inner));
    }

    /// Tell what is to be told of lanes; the session, and what to sleep on for the rest of it, unless
    /// there is room by now. Nothing if all was told, or cannot be told.
    fn tell_last(&self) -> Option<(Arc<Session<D>>, Option<Park>)> {
        let mut out = lock(&self.outbox);
        out.alive().ok()?;
        let told = out.tell();
        let told = told.and_then(|told| out.outbox.flush().map_err(end_of).map(|()| told));
        if out.judge(told) != Ok(false) {
            return None;
        }
        let need = out.outbox.need()?;
        let park = out.outbox.sending().arm(need).ok()?;
        Some((Arc::clone(out.outbox.session()), park))
    }

    /// Before the service thread sleeps: ask the partner for signals, unless a thread of the program
    /// looks.
    pub(crate) fn rest(&self, fabric: &Fabric<D>, until: Deadline) -> Rest {
        let question = match self.question() {
            Ok(question) => question,
            Err(rest) => return rest,
        };
        let answer = question.ask(fabric, until);
        let answer = lock(&self.inbox).answered(answer);
        match answer {
            Answer::Surely if lock(&self.outbox).outbox.owes_signal() => Rest::Nap,
            Answer::Surely => Rest::Armed,
            Answer::Perhaps => Rest::Nap,
            Answer::Busy => Rest::Busy,
        }
    }

    /// What to ask the partner's host; nothing if the trunk rests, or must not, without that.
    fn question(&self) -> Result<Question<D>, Rest> {
        if self.is_over() {
            return Err(match self.has_finished() {
                true => Rest::Over,
                false => Rest::Busy,
            });
        }
        if self.attention.is_watched() {
            return Err(Rest::Nap);
        }
        let Ok(mut inbox) = self.inbox.try_lock() else {
            return Err(Rest::Nap);
        };
        if self.attention.has_news() {
            return Err(Rest::Busy);
        }
        let mut out = lock(&self.outbox);
        if out.ended.is_some() {
            return Err(Rest::Busy);
        }
        if out.outbox.owes_signal() {
            return Err(Rest::Nap);
        }
        let room = match (out.is_waited_for(), out.outbox.need()) {
            (true, None) => return Err(Rest::Busy),
            (true, Some(need)) => Some((&mut out.outbox, need)),
            (false, _) => None,
        };
        match inbox.arm(room) {
            Ok(question) => question.ok_or(Rest::Armed),
            Err(NotNow) => Err(Rest::Busy),
        }
    }
}

impl<D: Device> fmt::Debug for Trunk<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trunk")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
