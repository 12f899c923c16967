// SPDX-License-Identifier: GPL-2.0-only

//! The user service: greetings, the pairing engine and its memory, and processes that open and
//! close sessions and store into their windows. In the order of `rust/mp_func_user`: `link.rs`,
//! `desk.rs`, `outbox.rs`, `inbox.rs` and `session.rs` there. Some sessions are [queue
//! pairs](queue_pair).

mod queue_pair;
pub(crate) mod work;

use std::collections::VecDeque;
use std::rc::Rc;

use mp_proto::fabric::{Change, Greeting, Header, Life, FUNC_ID};
use mp_proto::layout::PAGE;
use mp_proto::pairing::message::Message;
use mp_proto::pairing::terms::{Connection, Limits, Location, Name, Params, Span};
use mp_proto::pairing::{Engine, Event, Far, Host as EngineHost, Mode, Outcome, Own, SESSIONS};
use mp_proto::rows::Row;
use mp_proto::wire::Priority;

use crate::channel::{Frame, SendError};
use crate::dice::Dice;
use crate::host::{Entity, Host};
use crate::memory::{Memory, Piece};
use crate::plan::MS;

/// Messages that the worker deals with at a time.
const BATCH: usize = 64;
/// A request that has not ended after so long, never will.
const ANSWER: u64 = 10_000 * MS;
/// Until something is tried again for which there was no memory.
const AGAIN: u64 = 100 * MS;
/// Sessions of a host at one link.
const MOST: usize = 5;

type Pairing = Engine<Vec<Row<Own>>, Vec<Row<Far>>>;

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asking,
    Posted,
    Paired,
    Lost,
}

/// A session of a process.
struct Session {
    number: u32,
    params: Params,
    uid: u32,
    phase: Phase,
    /// The request has ended.
    ended: bool,
    /// It has failed: the process closes it.
    failed: bool,
    /// Of a server: a request is at hand.
    asked: bool,
    partner: u32,
    local: Option<Piece>,
    remote: Option<(Rc<Memory>, Span)>,
    /// The partner is not reached any more.
    parted: bool,
    /// What it stores, and whose stores are in its own memory.
    tag: u64,
    theirs: Option<u64>,
    /// The name by which its partner knows whose stores these are; none until its process has
    /// been told of the partner.
    mine: Option<u64>,
    /// Of a queue pair.
    side: queue_pair::Side,
    /// Of work queues over one.
    connection: work::Connection,
    asked_at: u64,
}

/// Both services listen to each other.
struct Up {
    life: Life,
    memory: Rc<Memory>,
    engine: Box<Pairing>,
    pieces: Vec<Piece>,
    /// The engine has something to say for which there was no memory.
    unsaid: bool,
    /// Pairs of which processes are told when all is said.
    paired: Vec<NewPair>,
}

/// A session that has got a partner: number, partner, windows.
type NewPair = (u32, u32, Option<Span>, Option<Span>);

/// One end of a link, to the user service.
#[derive(Default)]
pub struct UserLink {
    /// The life of the peer, while one is entered.
    route: Option<u32>,
    greeting: Option<Greeting>,
    up: Option<Up>,
    /// A service listens, and there was no memory yet for what that takes.
    opening: bool,
    outbox: VecDeque<Rc<Frame>>,
    inbox: VecDeque<(Header, Vec<u8>)>,
    sessions: Vec<Session>,
}

impl UserLink {
    /// Why processes do not reach each other, or wait.
    pub fn unrest(&self) -> Option<String> {
        if self.up.is_none() {
            return Some("the user services do not listen to each other".into());
        }
        if self.up.as_ref().is_some_and(|up| up.unsaid) {
            return Some("there is memory, and not all is said".into());
        }
        if !self.outbox.is_empty() || !self.inbox.is_empty() {
            let (out, inb) = (self.outbox.len(), self.inbox.len());
            return Some(format!("{out} messages wait to be sent, {inb} to be heard"));
        }
        let asks = self.sessions.iter().find(|s| !s.ended);
        asks.map(|s| format!("the request of session {} has not ended", s.number))
    }

    /// Whether there are no sessions.
    pub fn is_idle(&self) -> bool {
        self.sessions.is_empty()
    }
}

/// What the engine decides, carried out at once.
struct Desk<'a> {
    memory: &'a Rc<Memory>,
    pieces: &'a mut Vec<Piece>,
    sessions: &'a mut Vec<Session>,
    paired: &'a mut Vec<NewPair>,
    /// Sessions for whose partners there was no memory.
    missed: Vec<u32>,
    /// How often there is memory now: always, or by chance.
    dice: Option<Dice>,
}

impl Desk<'_> {
    fn has_memory(&self) -> bool {
        self.dice.as_ref().is_none_or(|dice| dice.once_in(2))
    }

    fn session(&mut self, number: u32) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|s| s.number == number)
    }
}

fn give_back(memory: &Memory, pieces: &mut Vec<Piece>, off: u64) {
    if let Some(at) = pieces.iter().position(|piece| piece.off == off) {
        drop(pieces.remove(at));
    }
    memory.peer_let_go(off);
}

impl EngineHost for Desk<'_> {
    fn runs(&self) -> [u64; 2] {
        self.memory.runs()
    }

    fn alloc(&mut self, _session: u32, len: u64) -> Option<u64> {
        let piece = self.memory.cut(len)?;
        let off = piece.off;
        self.pieces.push(piece);
        Some(off)
    }

    fn expose(&mut self, _address: u64, _len: u64) -> Option<u64> {
        None // Bridges of the simulation have one window.
    }

    fn free(&mut self, off: u64) {
        give_back(self.memory, self.pieces, off);
    }

    fn retire(&mut self, _off: u64) {
        // The session has dropped the piece before.
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Requested {
                session,
                uid,
                outcome,
            } => {
                let Some(s) = self.session(session) else {
                    return;
                };
                match outcome {
                    Outcome::Posted => {
                        s.uid = uid;
                        s.ended = true;
                        if s.phase == Phase::Asking {
                            s.phase = Phase::Posted;
                        }
                    }
                    Outcome::Paired => s.uid = uid,
                    _ if s.ended => s.parted = true,
                    _ => (s.ended, s.failed) = (true, true),
                }
            }
            Event::Paired {
                session,
                partner,
                local,
                remote,
            } => {
                let found = |piece: &Piece| Some(piece.off) == local.map(|span| span.off);
                let at = self.pieces.iter().position(found);
                let piece = at.map(|at| self.pieces.remove(at));
                let memory = self.memory.clone();
                let missed = !self.has_memory();
                let Some(s) = self.session(session) else {
                    return;
                };
                if missed {
                    (s.ended, s.failed, s.asked, s.phase) = (true, true, false, Phase::Lost);
                    self.missed.push(session);
                    return;
                }
                assert!(s.phase != Phase::Paired, "a session pairs once");
                s.phase = Phase::Paired;
                s.asked = false;
                s.partner = partner;
                s.local = piece;
                s.remote = remote.map(|span| (memory, span));
                s.parted = false;
                self.paired.push((session, partner, local, remote));
            }
            Event::PartnerClosed { session } => {
                if let Some(s) = self.session(session) {
                    part(s);
                }
            }
            // The process does not wait for it.
            Event::Held { session } => {
                if let Some(s) = self.session(session) {
                    s.ended = true;
                }
            }
            Event::Asked { session, .. } => {
                if let Some(s) = self.session(session) {
                    assert!(!s.asked, "one at a time");
                    s.asked = true;
                }
            }
            Event::Withdrawn { session } => {
                if let Some(s) = self.session(session) {
                    s.asked = false;
                }
            }
            Event::Refused { session, .. } => {
                if let Some(s) = self.session(session) {
                    s.failed = true;
                }
            }
            _ => {}
        }
    }
}

/// The partner is not reached any more.
fn part(s: &mut Session) {
    s.parted = true;
    s.partner = 0;
    if let Some((memory, _)) = &s.remote {
        memory.unmap();
    }
}

/// Takes memory back at the end of an epoch.
struct Ending<'a>(&'a Rc<Memory>, &'a mut Vec<Piece>);

impl EngineHost for Ending<'_> {
    fn runs(&self) -> [u64; 2] {
        [0; 2]
    }
    fn alloc(&mut self, _session: u32, _len: u64) -> Option<u64> {
        None
    }
    fn expose(&mut self, _address: u64, _len: u64) -> Option<u64> {
        None
    }
    fn free(&mut self, off: u64) {
        give_back(self.0, self.1, off);
    }
    fn retire(&mut self, _off: u64) {}
    fn event(&mut self, _event: Event) {}
}

impl Host {
    /// The peer at the far end has arrived; says hello.
    pub fn user_peer_up(&mut self, k: usize, life: u32) {
        if !self.serves {
            return;
        }
        let greeting = Greeting::new(self.life);
        let hello = Header::Hello(greeting.hello());
        let user = &mut self.ports[k].user;
        user.route = Some(life);
        user.greeting = Some(greeting);
        user.outbox.clear();
        self.user_send(k, &hello, Vec::new());
    }

    /// Whether there is memory for the user service now.
    fn has_memory(&self) -> bool {
        self.now >= self.short_until || self.env.dice.once_in(2)
    }

    /// The peer leaves, or this service does, and says goodbye.
    pub fn user_peer_down(&mut self, k: usize) {
        let user = &mut self.ports[k].user;
        let partner = user.greeting.take().and_then(|greeting| greeting.partner());
        if let Some(life) = partner {
            self.user_send(k, &Header::Bye(life), Vec::new());
        }
        self.user_close(k, false);
        let user = &mut self.ports[k].user;
        user.inbox.clear();
        user.outbox.clear();
        user.route = None;
    }

    /// The service is unloaded.
    pub fn user_unload(&mut self) {
        for k in 0..self.ports.len() {
            while let Some(s) = self.ports[k].user.sessions.first() {
                let number = s.number;
                self.user_end(k, number);
            }
            self.user_peer_down(k);
        }
        self.serves = false;
    }

    /// The service is loaded again.
    pub fn user_load(&mut self) {
        self.life = Life::new(self.env.dice.roll() as u32);
        self.serves = true;
        for k in 0..self.ports.len() {
            if let Some(life) = self.ports[k].entered() {
                self.user_peer_up(k, life);
            }
        }
    }

    fn user_send(&mut self, k: usize, header: &Header, data: Vec<u8>) {
        self.ports[k].user.outbox.push_back(Rc::new(Frame {
            func: FUNC_ID,
            func_hdr: header.encode().to_vec(),
            data,
            priority: Priority::High,
        }));
        self.user_flush(k);
    }

    /// Send what waits, as far as there is room.
    fn user_flush(&mut self, k: usize) {
        let Some(life) = self.ports[k].user.route else {
            return;
        };
        while let Some(frame) = self.ports[k].user.outbox.front().cloned() {
            match self.send(life, &frame, 0) {
                Err(SendError::Full) => {
                    if !self.arm_priority(life) {
                        break;
                    }
                }
                _ => drop(self.ports[k].user.outbox.pop_front()),
            }
        }
        self.kick_queue(life, 0);
    }

    /// There may be room now.
    pub fn user_tx_completed(&mut self, life: u32) {
        let of = |port: &crate::link_end::Port| port.user.route == Some(life);
        if let Some(k) = self.ports.iter().position(of) {
            if !self.ports[k].user.outbox.is_empty() {
                self.user_flush(k);
            }
        }
    }

    /// Take a frame; `false` if it is none of this service's.
    pub fn user_receive(&mut self, life: u32, func_hdr: &[u8], data: &[u8]) -> bool {
        let Some(header) = Header::decode(func_hdr) else {
            return false;
        };
        let of = |port: &crate::link_end::Port| port.user.route == Some(life);
        // Before the peer is known here: it will say hello again.
        if let Some(k) = self.ports.iter().position(of) {
            self.ports[k].user.inbox.push_back((header, data.to_vec()));
            self.kick(Entity::User(k));
        }
        true
    }

    /// The link's worker.
    pub fn run_user(&mut self, k: usize) {
        let unsaid = |up: &Up| up.unsaid || up.engine.is_unfinished();
        if self.ports[k].user.up.as_ref().is_some_and(unsaid) {
            self.with_desk(k, |engine, desk| engine.resume(desk));
        }
        for _ in 0..BATCH {
            let user = &self.ports[k].user;
            let waits = user.opening || !user.inbox.is_empty();
            // What a message takes is had before anybody hears of it.
            if waits && !self.has_memory() {
                return self.kick_in(Entity::User(k), AGAIN);
            }
            self.user_open_up(k);
            let Some((header, data)) = self.ports[k].user.inbox.pop_front() else {
                return;
            };
            if !self.user_hear(k, header, &data) {
                let lying = self.env.check.borrow().lying;
                assert!(lying, "honest services do not agree: {header:?}");
                if let Some(channel) = self.ports[k].polled() {
                    channel.borrow_mut().give_up();
                }
                self.ports[k].user.inbox.clear();
            }
        }
        self.kick(Entity::User(k));
    }

    fn user_hear(&mut self, k: usize, header: Header, data: &[u8]) -> bool {
        let Some(greeting) = &mut self.ports[k].user.greeting else {
            return true;
        };
        match header {
            Header::Hello(hello) => {
                let (answer, change) = greeting.receive(hello);
                let answer = answer.then(|| greeting.hello());
                if matches!(change, Change::Closed | Change::Reopened) {
                    self.user_close(k, true);
                }
                if let Some(hello) = answer {
                    self.user_send(k, &Header::Hello(hello), Vec::new());
                }
                self.user_follow(k, change);
            }
            Header::Bye(life) => {
                let change = greeting.bye(life);
                self.user_follow(k, change);
            }
            Header::Signal { .. } => {}
            // Processes of the simulation share memory by sessions only.
            Header::Sharing(_)
            | Header::Trigger { .. }
            | Header::Message { .. }
            | Header::Put { .. }
            | Header::Exchange { .. }
            | Header::Stores(_)
            | Header::Fetched { .. } => {}
            Header::Pairing(life) => {
                if greeting.accepts(life) {
                    return self.user_pairing(k, data);
                }
            }
        }
        true
    }

    fn user_follow(&mut self, k: usize, change: Change) {
        if change == Change::Closed {
            self.user_close(k, true);
        }
        if matches!(change, Change::Opened | Change::Reopened) {
            self.ports[k].user.opening = true;
            if self.has_memory() {
                self.user_open_up(k);
            }
        }
    }

    /// Begin a new life of the link, if a service listens for which that has not been done.
    fn user_open_up(&mut self, k: usize) {
        let port = &mut self.ports[k];
        if !std::mem::take(&mut port.user.opening) {
            return;
        }
        let partner = port.user.greeting.as_ref().and_then(|g| g.partner());
        let (Some(life), Some(memory)) = (partner, port.memory()) else {
            return;
        };
        // The ids are in the order of the numbers.
        let mode = match self.index < port.peer {
            true => Mode::Arbiter,
            false => Mode::Asker,
        };
        let (own, far) = (vec![Row::FREE; 2 * MOST], vec![Row::FREE; SESSIONS]);
        let engine = Engine::new(mode, memory.far_len, true, own, far);
        port.user.up = Some(Up {
            life,
            memory,
            engine: Box::new(engine.expect("large enough")),
            pieces: Vec::new(),
            unsaid: false,
            paired: Vec::new(),
        });
        // What was posted is posted again.
        let posted = port
            .user
            .sessions
            .iter()
            .filter(|s| s.phase == Phase::Posted);
        for number in posted.map(|s| s.number).collect::<Vec<_>>() {
            let again = self.with_desk(k, |engine, desk| {
                let Some(s) = desk.session(number) else {
                    return true;
                };
                s.parted = false;
                let params = Params {
                    uid: if s.uid == 0 { s.params.uid } else { s.uid },
                    ..s.params
                };
                engine.request(number, &params, 0, desk).is_ok()
            });
            let mut sessions = self.ports[k].user.sessions.iter_mut();
            if let (Some(s), Some(false)) = (sessions.find(|s| s.number == number), again) {
                part(s);
            }
        }
    }

    /// Processes do not reach each other any more. `partner_gone`: those of the other host have
    /// let go of everything, for their service has ended.
    fn user_close(&mut self, k: usize, partner_gone: bool) {
        let user = &mut self.ports[k].user;
        user.opening = false;
        let Some(mut up) = user.up.take() else { return };
        up.engine.end(&mut Ending(&up.memory, &mut up.pieces));
        for s in &mut user.sessions {
            if s.phase == Phase::Asking {
                (s.ended, s.failed) = (true, true);
            }
            s.asked = false;
            if s.phase == Phase::Paired {
                s.phase = Phase::Lost;
            }
            if let Some(piece) = s.local.as_ref().filter(|_| partner_gone) {
                up.memory.peer_let_go(piece.off);
            }
            part(s);
        }
    }

    /// Let the engine do something, and send what it has to say: as much as there is memory for.
    fn with_desk<R>(
        &mut self,
        k: usize,
        what: impl FnOnce(&mut Pairing, &mut Desk<'_>) -> R,
    ) -> Option<R> {
        let short = self.now < self.short_until;
        let user = &mut self.ports[k].user;
        let up = user.up.as_mut()?;
        let mut desk = Desk {
            memory: &up.memory,
            pieces: &mut up.pieces,
            sessions: &mut user.sessions,
            paired: &mut up.paired,
            missed: Vec::new(),
            dice: short.then(|| self.env.dice.clone()),
        };
        let result = what(&mut up.engine, &mut desk);
        while let Some(missed) = desk.missed.pop() {
            // The partner hears that it has gone.
            let _ = up.engine.close(missed, &mut desk);
        }
        let mut messages = Vec::new();
        up.unsaid = loop {
            if !desk.has_memory() {
                break true;
            }
            match up.engine.poll(&mut desk) {
                Some(message) => messages.push(message.encode().to_vec()),
                None => break false,
            }
        };
        let paired = match up.unsaid {
            true => Vec::new(),
            false => std::mem::take(&mut up.paired),
        };
        let (life, unsaid, left) = (up.life, up.unsaid, up.engine.is_unfinished());
        if left {
            self.kick(Entity::User(k));
        } else if unsaid {
            self.kick_in(Entity::User(k), AGAIN);
        }
        for bytes in messages {
            self.user_send(k, &Header::Pairing(life), bytes);
        }
        for pair in paired {
            self.note_pair(k, life, pair);
        }
        Some(result)
    }

    fn note_pair(&mut self, k: usize, theirs: Life, (number, partner, local, remote): NewPair) {
        let (own, peer) = (self.index, self.ports[k].peer);
        let channel = self.ports[k].polled();
        let (near, far) = channel.map_or((0, 0), |channel| channel.borrow().epochs);
        let (lives, epochs) = match own < peer {
            true => ((raw(self.life), raw(theirs)), (near, far)),
            false => ((raw(theirs), raw(self.life)), (far, near)),
        };
        let mut sessions = self.ports[k].user.sessions.iter_mut();
        let Some(s) = sessions.find(|s| s.number == number) else {
            return;
        };
        // The partner is told; this process now is, too.
        s.ended = true;
        let seen = crate::pairs::Seen {
            partner,
            local,
            remote,
            limits: (s.params.local, s.params.remote),
            tag: s.tag,
        };
        let key = (own.min(peer), own.max(peer), lives, epochs);
        let mut check = self.env.check.borrow_mut();
        check.totals.pairs += 1;
        if !check.lying {
            check.pairs.note(key, (own, number), (peer, partner), seen);
        }
        s.theirs = Some(check.pairs.name(key, (peer, partner)));
        s.mine = Some(check.pairs.name(key, (own, number)));
    }

    fn user_pairing(&mut self, k: usize, data: &[u8]) -> bool {
        let Some(message) = Message::decode(data) else {
            return false;
        };
        let received = self.with_desk(k, |engine, desk| engine.receive(&message, desk));
        received.is_none_or(|received| received.is_ok())
    }

    /// A process closes a session, or has died.
    fn user_end(&mut self, k: usize, number: u32) {
        let sessions = &mut self.ports[k].user.sessions;
        let Some(at) = sessions.iter().position(|s| s.number == number) else {
            return;
        };
        let s = sessions.remove(at);
        if let Some((memory, _)) = &s.remote {
            memory.unmap();
        }
        drop(s);
        self.with_desk(k, |engine, desk| {
            // The engine does not know a session whose request it has refused.
            let _ = engine.close(number, desk);
        });
    }

    fn user_open(&mut self, k: usize, params: Params) {
        let number = self.next_session;
        self.next_session += 1;
        let tag = self.env.check.borrow_mut().unique();
        let user = &mut self.ports[k].user;
        if user.up.as_ref().is_none_or(|up| up.unsaid) {
            return;
        }
        user.sessions.push(Session {
            number,
            params,
            uid: 0,
            phase: Phase::Asking,
            ended: false,
            failed: false,
            asked: false,
            partner: 0,
            local: None,
            remote: None,
            parted: false,
            tag,
            theirs: None,
            mine: None,
            side: queue_pair::Side::default(),
            connection: work::Connection::default(),
            asked_at: self.now,
        });
        let asked = self.with_desk(k, |engine, desk| engine.request(number, &params, 0, desk));
        if asked.is_none_or(|asked| asked.is_err()) {
            self.user_end(k, number);
        }
    }

    /// Processes do something.
    pub fn run_process(&mut self) {
        let plan = &self.env.plan;
        let (dice, busy) = (self.env.dice.clone(), self.now < plan.calm);
        if !plan.sessions {
            return;
        }
        for k in 0..self.ports.len() {
            let failed = |s: &&Session| s.failed;
            while let Some(s) = self.ports[k].user.sessions.iter().find(failed) {
                let number = s.number;
                self.user_end(k, number);
            }
            self.check_words(k);
            self.run_queue_pairs(k);
            self.run_works(k);
            let (asked_at, count) = {
                let sessions = &self.ports[k].user.sessions;
                let asking = sessions.iter().filter(|s| !s.ended);
                (asking.map(|s| s.asked_at).min(), sessions.len())
            };
            let late = asked_at.is_some_and(|at| self.now > at + ANSWER);
            assert!(!late, "a request does not end");
            if busy && count < MOST && dice.once_in(3) {
                let params = some_params(&dice);
                self.user_open(k, params);
            } else if count > 0 && (dice.once_in(8) || !busy && dice.once_in(2)) {
                let pick = dice.pick(count);
                let number = self.ports[k].user.sessions[pick].number;
                self.user_end(k, number);
            }
            self.answer_requests(k);
            self.store_words(k);
        }
        let pace = if busy { 3 * MS } else { 6 * MS };
        self.kick_in(Entity::Process, pace / 2 + dice.below(pace));
    }

    /// Owners of servers accept requests, or reject them.
    fn answer_requests(&mut self, k: usize) {
        let dice = self.env.dice.clone();
        let asked = self.ports[k].user.sessions.iter().filter(|s| s.asked);
        for server in asked.map(|s| s.number).collect::<Vec<_>>() {
            match dice.below(4) {
                0 => {}
                1 => {
                    self.with_desk(k, |engine, desk| {
                        if engine.reject(server, 1, desk).is_ok() {
                            if let Some(s) = desk.session(server) {
                                s.asked = false;
                            }
                        }
                    });
                }
                _ => {
                    // It may be under way.
                    self.with_desk(k, |engine, desk| engine.accept(server, desk).is_ok());
                }
            }
        }
    }

    /// A process stores into its partner's memory.
    fn store_words(&mut self, k: usize) {
        let dice = &self.env.dice;
        for s in &self.ports[k].user.sessions {
            let knows = s.phase == Phase::Paired && s.mine.is_some();
            if !knows || s.parted || s.is_queue_pair() || s.has_work_queues() {
                continue;
            }
            if let Some((memory, span)) = &s.remote {
                for _ in 0..dice.below(3) {
                    let at = dice.below(span.len / 8);
                    memory.store(span.off, at, s.tag);
                }
            }
        }
    }

    /// In its memory a process finds nothing but zeros and what its partner has stored.
    fn check_words(&mut self, k: usize) {
        let mut check = self.env.check.borrow_mut();
        let dice = &self.env.dice;
        if check.lying {
            return;
        }
        let sessions = self.ports[k].user.sessions.iter();
        for s in sessions.filter(|s| !s.is_queue_pair() && !s.has_work_queues()) {
            let (Some(piece), Some(theirs)) = (&s.local, s.theirs) else {
                continue;
            };
            let words = piece.len / 8;
            let from = dice.below(words);
            for at in (from..words).take(64) {
                let word = piece.word(at);
                if word == 0 {
                    continue;
                }
                check.totals.words += 1;
                let right = check.pairs.is_tag_of(word, theirs);
                assert!(
                    right,
                    "memory is written by another session than the partner"
                );
            }
        }
    }
}

/// The number of a life.
fn raw(life: Life) -> u32 {
    let bytes = Header::Bye(life).encode();
    u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
}

fn some_limits(dice: &crate::dice::Dice) -> Limits {
    let min = dice.below(2);
    match dice.below(4) {
        0 if min == 0 => Limits::default(),
        1 => Limits {
            min: min * PAGE,
            max: u64::MAX,
        },
        _ => Limits {
            min: min * PAGE,
            max: (min + dice.below(3)) * PAGE,
        },
    }
}

fn some_params(dice: &crate::dice::Dice) -> Params {
    let connection = match dice.below(6) {
        0 | 1 => Connection::Server,
        2 | 3 => Connection::Client,
        _ => Connection::Peer,
    };
    let names: [&[u8]; 3] = [b"", b"", b"name"];
    let name = Name::new(names[dice.pick(3)], 0);
    let has_work_queues = dice.once_in(6);
    let is_queue_pair = has_work_queues || dice.once_in(2);
    let limits = || match (some_limits(dice), is_queue_pair) {
        (limits, false) => limits,
        (limits, true) => Limits {
            min: PAGE,
            max: limits.max.max(PAGE),
        },
    };
    Params {
        connection,
        location: Location::Logical,
        protocol: match is_queue_pair {
            true if has_work_queues => work::PROTOCOL,
            true => queue_pair::PROTOCOL,
            false => u32::from(dice.once_in(8)),
        },
        uid: if dice.once_in(6) {
            1 + dice.below(4) as u32
        } else {
            0
        },
        local: limits(),
        remote: limits(),
        address: 0,
        address_bits: 64,
        name: name.expect("short"),
        hold: connection == Connection::Server && dice.once_in(2),
        once: false,
        bare: false,
    }
}
