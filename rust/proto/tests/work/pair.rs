// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Two ends. The model is the list of what was posted, with its own bytes and place each: what it may
//! be complete with follows from that list, from its level and from how the connection has ended.

use crate::net::{connected, Heap, Id, Message, Posted, Side, Spoiled, MOST};
use mp_proto::work::{
    Endpoint, Errors, Kind, Level, Notice, Operation, Place, QueueKind, Remote, Rooms, State, Work,
    READS_MAX,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// What is posted at an end, with the receive for it at the other one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Op {
    kind: Kind,
    len: usize,
    /// It has immediate data; a write then has a receive.
    immediate: bool,
    fence: bool,
    /// What is wrong with it.
    flaw: Flaw,
    /// What the program has done to it.
    spoiled: Option<Spoiled>,
    /// What the partner's program has done to its receive.
    spoils: Option<Spoiled>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    /// The request itself.
    Own,
    /// Its own memory.
    Segment,
    /// The receive has not enough room.
    Short,
    /// The partner's memory.
    Remote,
}

impl Flaw {
    /// Whether the partner finds it.
    fn is_far(self) -> bool {
        matches!(self, Flaw::Short | Flaw::Remote)
    }
}

impl Op {
    /// Whether its message takes a receive.
    fn consumes(&self) -> bool {
        match self.kind {
            // It has none.
            _ if matches!(self.flaw, Flaw::Own | Flaw::Segment) => false,
            Kind::Send => true,
            Kind::Write => self.immediate,
            _ => false,
        }
    }
}

/// One that was posted.
#[derive(Debug)]
struct Listed {
    op: Op,
    id: Id,
    /// The partner's receive.
    receive: Option<Id>,
    /// Own bytes.
    local: Vec<Range<usize>>,
    /// The partner's.
    remote: Range<usize>,
    /// What they have to become.
    bytes: Vec<u8>,
    immediate: Option<u32>,
}

/// What a test of fences knows: of each fenced request, by how its first message is known, the reads
/// before it.
type Fences = Rc<RefCell<HashMap<u64, Vec<Id>>>>;

struct Pair {
    level: Level,
    sides: [Side; 2],
    lists: [Vec<Listed>; 2],
    fences: [Fences; 2],
    /// Why the connection has ended, if a test has ended it.
    down: bool,
    left: bool,
}

/// By what a first message is known.
fn key(message: &Message) -> Option<u64> {
    match message.kind {
        Kind::Send | Kind::LongSend => message.immediate.map(u64::from),
        Kind::Write | Kind::Read => Some(1 << 40 | Place::of(&message.header).address),
        _ => None,
    }
}

impl Pair {
    fn new(level: Level) -> Self {
        let mut sides = connected(level);
        let fences = [Fences::default(), Fences::default()];
        for (side, fences) in sides.iter_mut().zip(&fences) {
            let (fences, done) = (Rc::clone(fences), Rc::clone(&side.program.done));
            side.link.judge = Some(Rc::new(move |message| {
                let fences = fences.borrow();
                let before = key(message).and_then(|key| fences.get(&key));
                for read in before.into_iter().flatten() {
                    assert!(done.borrow()[*read].is_some(), "a fence was passed");
                }
            }));
        }
        Pair {
            level,
            sides,
            lists: Default::default(),
            fences,
            down: false,
            left: false,
        }
    }

    /// Post an operation at a side, and the receive for it at the other one.
    fn post(&mut self, at: usize, op: Op) {
        let number = self.lists[at].len();
        let bytes: Vec<u8> = (0..op.len)
            .map(|n| (1 + (n * 7 + number * 31 + at * 101) % 250) as u8)
            .collect();
        let [one, two] = &mut self.sides;
        let (own, other) = if at == 0 { (one, two) } else { (two, one) };
        // In two pieces.
        let cut = op.len / 3;
        let (local, remote) = match op.kind {
            Kind::Read => {
                let pieces = [cut, op.len - cut].map(|len| own.program.room(len));
                (pieces, other.program.data(&bytes))
            }
            _ => {
                let pieces = [&bytes[..cut], &bytes[cut..]].map(|part| own.program.data(part));
                (pieces, other.program.room(op.len))
            }
        };
        match op.flaw {
            Flaw::Segment => own.program.closed.push(local[1].start..local[1].start + 1),
            Flaw::Remote => {
                let last = remote.end.max(remote.start + 1);
                other.program.closed.push(last - 1..last);
            }
            _ => {}
        }
        let place = Remote {
            address: remote.start as u64,
            handle: 0,
        };
        let immediate = op.immediate.then_some((at << 16 | number) as u32);
        let work = Work {
            operation: match op.kind {
                Kind::Send => Operation::Send,
                Kind::Write => Operation::Write(place),
                _ => Operation::Read(place),
            },
            immediate,
            fence: op.fence,
            total: op.len as u32,
        };
        let receive = op.consumes().then(|| {
            let room = op.len - usize::from(op.flaw == Flaw::Short);
            let to = remote.start..remote.start + room;
            let receives = Posted {
                work: Ok(Work {
                    operation: Operation::Send,
                    immediate: None,
                    fence: false,
                    total: room as u32,
                }),
                segments: vec![to],
            };
            let spoils = op
                .spoils
                .map(|spoils| (other.program.requests.len(), spoils));
            other.program.spoiled.extend(spoils);
            other.post(QueueKind::Receive, receives)
        });
        if op.fence {
            let reads = self.lists[at]
                .iter()
                .filter(|listed| listed.op.kind == Kind::Read);
            let reads = reads.map(|listed| listed.id).collect();
            let key = match op.kind {
                Kind::Send => immediate.map(u64::from),
                _ => Some(1 << 40 | place.address),
            };
            key.and_then(|key| self.fences[at].borrow_mut().insert(key, reads));
        }
        let posted = Posted {
            work: match op.flaw {
                Flaw::Own => Err(Errors::LENGTH),
                _ => Ok(work),
            },
            segments: local.to_vec(),
        };
        let spoiled = op
            .spoiled
            .map(|spoiled| (own.program.requests.len(), spoiled));
        own.program.spoiled.extend(spoiled);
        let id = own.post(QueueKind::Send, posted);
        self.lists[at].push(Listed {
            op,
            id,
            receive,
            local: local.to_vec(),
            remote,
            bytes,
            immediate,
        });
    }

    /// Give a side room for so many messages, and its turn.
    fn turn(&mut self, at: usize, room: usize) {
        self.sides[at].link.room = room;
        self.sides[at].progress();
        let asked = self.sides[at].link.out.borrow();
        let reads = asked.frames.iter().filter(|frame| frame.kind == Kind::Read);
        assert!(reads.count() <= READS_MAX);
    }

    fn arrive(&mut self, at: usize, count: usize) {
        self.sides[at].link.inward.borrow_mut().arrive(count);
    }

    /// The link is down: what is on its way does not arrive.
    fn cut(&mut self) {
        self.down = true;
        for side in &self.sides {
            side.link.out.borrow_mut().cut = true;
        }
    }

    /// Let everything arrive.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moves = false;
            for at in 0..2 {
                self.arrive(at, usize::MAX / 2);
                self.sides[at].link.room = usize::MAX;
                moves |= self.sides[at].progress();
            }
            if !moves {
                return;
            }
        }
        panic!("it never ends");
    }

    /// End it at both sides; all that was posted comes back.
    fn end(&mut self) {
        for at in [0, 1] {
            self.sides[at].disconnect();
            self.sides[at].take();
            assert_eq!(self.sides[at].taken, self.sides[at].posted);
        }
    }

    /// Whether everything arrives that is to arrive: nothing has ended the connection.
    fn is_up(&self) -> bool {
        let up = |side: &Side| side.end.state() == State::Connected;
        self.sides.iter().all(up) && !self.down && !self.left
    }

    /// Compare what has become of everything with the lists; whether the connection is up.
    fn check(&self, up: bool) {
        self.check_causes(up);
        for at in 0..2 {
            self.check_order(at);
            let mut failed = false;
            for listed in &self.lists[at] {
                let context = format!("{:?} {at} {listed:?}", self.level);
                let good = self.check_request(at, listed, up, &context);
                // Without an answer nobody knows what the partner has made of it.
                let told = self.level.is_acknowledged() || listed.op.kind == Kind::Read;
                self.check_bytes(at, listed, up || good && told, &context);
                if let Some(receive) = listed.receive {
                    let taken = self.check_receive(at, listed, receive, up, &context);
                    let changed = self.has_answered(1 - at, receive);
                    assert!(taken || changed || !good || !told, "{context}");
                    let behind = failed && self.level.is_reliable();
                    assert!(!taken || !behind, "behind a failure: {context}");
                    failed |= !taken;
                }
            }
        }
    }

    /// What is wrong with an operation: a read needs reliability.
    fn flaw(&self, op: &Op) -> Flaw {
        match op.kind {
            Kind::Read if !self.level.has_reads() => Flaw::Own,
            _ => op.flaw,
        }
    }

    /// What its receive may have failed with.
    fn failed(&self, op: &Op) -> Errors {
        match op.flaw {
            Flaw::Short => Errors::LENGTH,
            Flaw::Remote => Errors::PROTECTION,
            _ => Errors::NONE,
        }
    }

    /// What its request may have failed with.
    fn errors(&self, op: &Op) -> Errors {
        let acknowledged = self.level.is_acknowledged();
        match (op.kind, self.flaw(op)) {
            (Kind::Read, Flaw::Own) if op.flaw != Flaw::Own => Errors::FORMAT,
            (_, Flaw::Own) => Errors::LENGTH,
            (_, Flaw::Segment) => Errors::PROTECTION,
            (Kind::Read, Flaw::Remote) => Errors::REMOTE_ACCESS,
            (_, Flaw::Remote) if acknowledged => Errors::REMOTE_ACCESS,
            (_, Flaw::Short) if acknowledged => Errors::REMOTE_RECEIVE,
            _ => Errors::NONE,
        }
    }

    /// Whether the program of a side has answered that it cannot be told of a request.
    fn has_answered(&self, at: usize, id: Id) -> bool {
        let answered = &self.sides[at].program.answered;
        answered.iter().any(|(answered, _)| *answered == id)
    }

    /// What has become of a request.
    fn outcome(&self, at: usize, listed: &Listed) -> Errors {
        self.sides[at].outcome(listed.id).expect("complete").errors
    }

    /// Whether the request says what is wrong with it, at its own side.
    fn says(&self, at: usize, listed: &Listed) -> bool {
        let errors = self.errors(&listed.op);
        let found = self.outcome(at, listed);
        errors.any() && Errors(found.0 & !Errors::PARTIAL.0) == errors
    }

    /// Whether the partner says it: its receive, or what the program is told beside that.
    fn partner_says(&self, at: usize, listed: &Listed) -> bool {
        let other = &self.sides[1 - at];
        let failed = self.failed(&listed.op);
        match (listed.receive, listed.op.kind, self.flaw(&listed.op)) {
            (Some(receive), _, _) if failed.any() => {
                other.outcome(receive).expect("complete").errors == failed
            }
            (None, Kind::Write, Flaw::Remote) => {
                other.program.notices.contains(&Notice::WriteRefused)
            }
            (_, Kind::Read, Flaw::Remote) => other.program.notices.contains(&Notice::ReadRefused),
            _ => false,
        }
    }

    /// Whether this has ended a connection: it is said by the request, by its receive, or it was
    /// spoiled and the program was asked.
    fn is_cause(&self, at: usize, listed: &Listed) -> bool {
        let receive = listed
            .receive
            .is_some_and(|id| self.has_answered(1 - at, id));
        let answered = receive || self.has_answered(at, listed.id);
        let reliable = self.level.is_reliable();
        answered || reliable && (self.says(at, listed) || self.partner_says(at, listed))
    }

    /// Only what is wrong ends a connection that nobody has cut or left, and it is said what: not
    /// everything is flushed. One that is up has nothing wrong that would have ended it.
    fn check_causes(&self, up: bool) {
        let all = [0, 1].into_iter();
        let all = all.flat_map(|at| self.lists[at].iter().map(move |listed| (at, listed)));
        let causes: Vec<_> = all
            .filter(|(at, listed)| self.is_cause(*at, listed))
            .collect();
        assert!(!up || causes.is_empty(), "{:?} {causes:?}", self.level);
        let ended = self.down || self.left;
        assert!(
            up || ended || !causes.is_empty(),
            "{:?} {:?}",
            self.level,
            self.lists
        );
        // What the partner has told of a request it has said to its own program as well.
        for (at, listed) in causes {
            if self.says(at, listed) && listed.receive.is_some() && self.flaw(&listed.op).is_far() {
                let spoiled = listed.op.spoils == Some(Spoiled::Altered);
                assert!(self.partner_says(at, listed) || spoiled, "{listed:?}");
            }
        }
    }

    /// What the own side finds out is found in the order of the list, and ends what is behind it.
    fn check_order(&self, at: usize) {
        if !self.level.is_reliable() {
            return;
        }
        let acknowledged = self.level.is_acknowledged();
        let (mut wrong, mut over) = (false, false);
        let mut lost = 0;
        for listed in &self.lists[at] {
            let (found, flaw) = (self.outcome(at, listed), self.flaw(&listed.op));
            let says = self.says(at, listed);
            let context = format!("{:?} {at} {listed:?} {found:?}", self.level);
            assert!(
                !over || found == Errors::FLUSHED,
                "behind a failure: {context}"
            );
            assert!(!says || !wrong, "before it is one that is wrong: {context}");
            // The answer to a read may come after what is behind it has failed here, and so may the
            // partner's word where nobody waits for it.
            let at_once = match listed.op.kind {
                Kind::Read => !flaw.is_far(),
                _ => acknowledged || !flaw.is_far(),
            };
            wrong |= flaw != Flaw::None && !says && at_once;
            over |= says && at_once;
            lost += u32::from(found == Errors::TRANSPORT && listed.op.kind != Kind::Read);
        }
        // Only the oldest of those that wait for the partner.
        assert!(
            lost <= u32::from(acknowledged && self.down),
            "{:?}",
            self.lists
        );
    }

    /// The request itself; whether it has succeeded.
    fn check_request(&self, at: usize, listed: &Listed, up: bool, context: &str) -> bool {
        let Listed { op, .. } = listed;
        let outcome = self.sides[at].outcome(listed.id).expect("complete");
        let errors = self.errors(op);
        if !outcome.errors.any() {
            assert_eq!(outcome.length as usize, op.len, "{context}");
            let own_flaw = matches!(self.flaw(op), Flaw::Own | Flaw::Segment);
            assert!(!own_flaw, "{context}");
            assert!(
                !errors.any() || self.level == Level::Unreliable,
                "{context}"
            );
            return true;
        }
        let ended = outcome.errors == Errors::FLUSHED;
        assert!(!up || !ended, "{context}");
        let part = outcome.errors.masked(Errors::PARTIAL);
        let in_parts = op.len > MOST && op.kind != Kind::Read && self.flaw(op).is_far();
        assert!(!part.any() || in_parts, "{context} {outcome:?}");
        let rest = Errors(outcome.errors.0 & !part.0);
        let known = errors.any() && rest == errors;
        let down = self.down && rest == Errors::TRANSPORT;
        assert!(ended || known || down, "{context} {outcome:?}");
        if self.level == Level::Unreliable && !ended {
            assert_eq!(outcome.errors, errors, "{context}");
        }
        false
    }

    /// The bytes that it has moved, all of them if it is known to have succeeded.
    fn check_bytes(&self, at: usize, listed: &Listed, told: bool, context: &str) {
        let (own, other) = (&self.sides[at].program, &self.sides[1 - at].program);
        let found = match listed.op.kind {
            Kind::Read => {
                let pieces = listed.local.iter();
                pieces.flat_map(|piece| own.bytes(piece.clone())).collect()
            }
            _ => other.bytes(listed.remote.clone()),
        };
        let flaw = self.flaw(&listed.op);
        if flaw != Flaw::None {
            // Not even a part of it.
            assert!(found.iter().all(|byte| *byte == 0), "{context} {found:?}");
        } else if told {
            assert_eq!(found, listed.bytes, "{context}");
        } else {
            let mut both = found.iter().zip(&listed.bytes);
            assert!(
                both.all(|(found, byte)| *found == 0 || found == byte),
                "{context}"
            );
        }
    }

    /// Its receive; whether it has a message.
    fn check_receive(
        &self,
        at: usize,
        listed: &Listed,
        receive: Id,
        up: bool,
        context: &str,
    ) -> bool {
        let (Listed { op, .. }, other) = (listed, &self.sides[1 - at]);
        let received = other.outcome(receive).expect("complete");
        let failed = self.failed(op);
        if !received.errors.any() {
            assert!(!failed.any(), "{context}");
            let bytes = other.program.bytes(listed.remote.clone());
            assert_eq!(bytes, listed.bytes, "{context}");
            assert_eq!(received.length as usize, op.len, "{context}");
            assert_eq!(received.immediate, listed.immediate, "{context}");
            assert_eq!(received.written, op.kind == Kind::Write, "{context}");
            return true;
        }
        let cut = Errors::PARTIAL.with(Errors::TRANSPORT);
        let is_cut = received.errors == cut && op.len > MOST;
        let ended = received.errors == Errors::FLUSHED || is_cut;
        let known = failed.any() && received.errors == failed;
        assert!(known || ended && !up, "{context} {received:?}");
        false
    }
}

fn ops() -> impl Strategy<Value = Op> {
    let kinds = prop_oneof![
        3 => Just(Kind::Send),
        2 => Just(Kind::Write),
        2 => Just(Kind::Read),
    ];
    let flaws = prop_oneof![
        24 => Just(Flaw::None),
        1 => Just(Flaw::Own),
        1 => Just(Flaw::Segment),
        1 => Just(Flaw::Short),
        1 => Just(Flaw::Remote),
    ];
    let flags = (any::<bool>(), prop::bool::weighted(0.2));
    let spoiled = || {
        let how = prop_oneof![Just(Spoiled::Altered), Just(Spoiled::Untold)];
        prop::option::weighted(0.01, how)
    };
    let all = (kinds, 0..30_usize, flags, flaws, (spoiled(), spoiled()));
    all.prop_map(|(kind, len, (immediate, fence), flaw, (spoiled, spoils))| {
        // What an operation of that kind cannot have.
        let flaw = match (kind, flaw) {
            (Kind::Send, Flaw::Remote) => Flaw::None,
            (Kind::Read | Kind::Write, Flaw::Short) => Flaw::None,
            (_, Flaw::Short) if len == 0 => Flaw::None,
            (_, flaw) => flaw,
        };
        Op {
            kind,
            len,
            immediate: immediate && kind != Kind::Read,
            fence,
            flaw,
            spoiled,
            spoils,
        }
    })
}

#[derive(Clone, Debug)]
enum Action {
    Post(usize, Op),
    Turn(usize, usize),
    Arrive(usize, usize),
    Take(usize),
    Cut,
    Leave(usize),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let side = || 0..2_usize;
    let action = prop_oneof![
        40 => (side(), ops()).prop_map(|(at, op)| Action::Post(at, op)),
        60 => (side(), 0..6_usize).prop_map(|(at, room)| Action::Turn(at, room)),
        40 => (side(), 1..8_usize).prop_map(|(at, count)| Action::Arrive(at, count)),
        20 => side().prop_map(Action::Take),
        1 => Just(Action::Cut),
        1 => side().prop_map(Action::Leave),
    ];
    prop::collection::vec(action, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is posted at both ends in whatever interleaving: each request comes back once and in
    /// order, with what its list says; nothing arrives that was not sent, or behind an error that
    /// ends the connection; what has failed has written nothing; no fence is passed.
    #[test]
    fn what_is_posted_is_what_arrives(level in 0..3_usize, actions in actions()) {
        let mut pair = Pair::new(Level::ALL[level]);
        for action in actions {
            match action {
                Action::Post(at, op) => pair.post(at, op),
                Action::Turn(at, room) => pair.turn(at, room),
                Action::Arrive(at, count) => pair.arrive(at, count),
                Action::Take(at) => pair.sides[at].take(),
                Action::Cut => pair.cut(),
                Action::Leave(at) => {
                    pair.left = true;
                    pair.sides[at].disconnect();
                }
            }
        }
        pair.settle();
        let up = pair.is_up();
        if !up {
            // It has ended at both sides, and both were told, unless they have left.
            for side in &pair.sides {
                prop_assert_ne!(side.end.state(), State::Connected);
                let lost = side.program.notices.iter().filter(|notice| **notice == Notice::Lost);
let told = lost.count();
                let is_broken = side.end.state() == State::Broken;
                prop_assert!(told == 1 || told == 0 && !is_broken);
            }
        }
        pair.end();
        pair.check(up);
    }
}

/// The queues of an endpoint have as much room as the caller says when it makes it, each its own.
#[test]
fn queues_have_the_room_that_they_are_given() {
    for [send, receive] in [[1, 16], [64, 2], [0, 32]] {
        let [mut side, _] = connected(Level::Reliable);
        let rooms = Rooms {
            send: Heap::new(send, 0),
            receive: Heap::new(receive, 2 * receive),
        };
        side.end = Endpoint::new(Level::Reliable, rooms);
        side.program.done.borrow_mut().resize(1000, None);
        for (kind, most) in [(QueueKind::Send, send), (QueueKind::Receive, 2 * receive)] {
            let mut post = |id| side.end.post(&mut side.program, kind, id);
            let ids = 100 * kind as usize..;
            let posted = ids.take_while(|id| post(*id).is_ok()).count();
            assert_eq!((posted, side.end.len(kind)), (most, most), "{kind:?}");
        }
    }
}

/// How often each step is taken.
type Counts = [usize; 6];

/// Do something for each order of steps, of which there are so many each.
fn each_order(left: &mut Counts, order: &mut Vec<usize>, act: &mut impl FnMut(&[usize])) {
    let mut any = false;
    for step in 0..left.len() {
        if left[step] > 0 {
            any = true;
            left[step] -= 1;
            order.push(step);
            each_order(left, order, act);
            order.pop();
            left[step] += 1;
        }
    }
    if !any {
        act(order);
    }
}

/// All orders of four posts, the turns of both sides with room for few messages, and the end of the
/// link or of one side.
#[test]
fn each_order_of_few_steps_ends_as_its_lists_say() {
    let op = |kind, len, flaw, fence| Op {
        kind,
        len,
        immediate: true,
        fence,
        flaw,
        spoiled: None,
        spoils: None,
    };
    let scripts = [
        // A read, and what must not overtake it; a message in the other direction.
        [
            op(Kind::Read, 9, Flaw::None, false),
            op(Kind::Send, 10, Flaw::None, true),
            op(Kind::Write, 3, Flaw::None, false),
        ],
        // The second one is refused.
        [
            op(Kind::Send, 3, Flaw::None, false),
            op(Kind::Send, 10, Flaw::Short, false),
            op(Kind::Write, 3, Flaw::None, false),
        ],
        [
            op(Kind::Write, 9, Flaw::Remote, false),
            op(Kind::Send, 3, Flaw::None, false),
            op(Kind::Send, 9, Flaw::Segment, false),
        ],
    ];
    let mut orders = 0;
    for level in Level::ALL {
        for script in &scripts {
            for end in 0..3 {
                let mut counts = [3, 2, 2, usize::from(end == 1), usize::from(end == 2), 1];
                each_order(&mut counts, &mut Vec::new(), &mut |order| {
                    orders += 1;
                    run(level, script, order);
                });
            }
        }
    }
    assert_eq!(orders, 3 * 3 * (1_680 + 2 * 15_120));
}

fn run(level: Level, script: &[Op; 3], order: &[usize]) {
    let mut pair = Pair::new(level);
    let mut posted = script.iter();
    for step in order {
        match step {
            0 => pair.post(0, *posted.next().unwrap()),
            1 | 2 => {
                pair.turn(step - 1, 2);
                pair.arrive(2 - step, 2);
            }
            3 => pair.cut(),
            4 => {
                pair.left = true;
                pair.sides[1].disconnect();
            }
            _ => pair.post(
                1,
                Op {
                    fence: false,
                    ..script[1]
                },
            ),
        }
    }
    pair.settle();
    let up = pair.is_up();
    pair.end();
    pair.check(up);
}
