// SPDX-License-Identifier: GPL-2.0-only

//! Processes with work queues over the queue pairs of their sessions: the engine of
//! `mp_proto::work`, as a library has it. Nobody sleeps.
//!
//! Each side posts sends, writes and reads, and receives for those of its partner, some of them
//! wrong. The number of a send or write is its immediate data; [`pattern`] makes its bytes of the
//! number and of the session's [name](crate::pairs). Whatever happens to hosts, links and
//! processes, each request of a process that lives becomes complete once, comes back in order, and
//! its status is true:
//!
//! | status | what must hold |
//! |---|---|
//! | success of a receive | the next message of the partner, whole, in its place |
//! | success, with acknowledgements | the partner's receive is complete, with success |
//! | success of a read | the partner's bytes |
//! | success of a reliable send or write | it arrives, if the connection ends in order |
//! | refused | the partner has refused that one |
//! | flushed | the connection has ended |
//! | failure of the transport | the link is down, and it had begun |
//! | any other | the request is wrong |

use std::cell::Cell;
use std::collections::BTreeMap;

use mp_proto::memory::Outbound;
use mp_proto::queue_pair::{Broken, Head, SendError, Stop, EXTRA_MAX, INLINE_MAX};
use mp_proto::work::{
    header_of, Access, Caller, Completed, End, Endpoint, Entry, Errors, Event, Frame, Header,
    Host as Asked, Kind, Level, Notice, Operation, Outcome, Part, Place, Protected, QueueKind,
    Reason, Remote, Room, Rooms, State, Wire, Work,
};

use super::queue_pair::{Far, Halves, Own, SLOT, SLOTS};
use super::{Phase, Session};
use crate::check::{pattern, Check};
use crate::dice::Dice;
use crate::host::Host;

/// The protocol of sessions that have work queues.
pub const PROTOCOL: u32 = 8;

/// Most bytes of a request.
const LONGEST: usize = 700;
/// Receives that a side keeps posted, mostly.
const RECEIVES: usize = 24;
/// Requests that may wait at a side.
const QUEUED: usize = 16;
/// Where partners write: a place for each of so many numbers.
const PLACES: u64 = 16;
/// The handle of the memory that partners may access.
const HANDLE: u32 = 1;
/// Where partners read, behind the places.
const READ_AT: u64 = PLACES * LONGEST as u64;
/// Bytes that partners read.
const READABLE: usize = 2 * LONGEST;
/// The number of what is read, in its [`pattern`].
const READ_NUMBER: u64 = u64::MAX;

/// Room for a queue.
#[derive(Debug, Default)]
pub struct Heap(Vec<Entry<u64, Done>>);

impl std::ops::Deref for Heap {
    type Target = [Entry<u64, Done>];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for Heap {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Room<Entry<u64, Done>> for Heap {
    fn grow(&mut self, len: usize) {
        self.0.resize_with(len, Entry::default);
    }
}

/// What a request is complete with.
type Done = (u64, Outcome);

/// The types of a process.
#[derive(Debug)]
enum Types {}

impl Caller for Types {
    type Request = u64;
    type Completion = Done;
    /// The request whose memory it is.
    type Segments = u64;
    type Room = Heap;
    type Piece<'a> = &'a [Cell<u8>];
    type Pieces<'a> = Vec<&'a [Cell<u8>]>;
    type Payload<'a> = &'a [u8];

    fn payload_len(payload: &&[u8]) -> usize {
        payload.len()
    }
}

/// A request of a process.
#[derive(Debug)]
struct Request {
    kind: QueueKind,
    work: Result<Work, Errors>,
    /// The number of a send or write that begins.
    number: Option<u32>,
    memory: Vec<Cell<u8>>,
    /// The partner must not let it be.
    is_far_wrong: bool,
    done: Option<Outcome>,
}

/// What both processes have done, as nobody but the test knows.
#[derive(Debug, Default, Clone, Copy)]
pub struct Record {
    /// Requests that have succeeded, and were to arrive, by their numbers.
    succeeded: u32,
    /// Receives that are complete with success, of the partner's numbers before this one.
    taken: u32,
    /// Something of the partner's was refused.
    refused: bool,
    /// A request of its own was wrong.
    failed: bool,
}

/// A process: its requests and memory.
#[derive(Debug)]
struct Process {
    level: Level,
    requests: Vec<Request>,
    /// Where partners write, and then what they read.
    region: Vec<Cell<u8>>,
    names: [u64; 2],
    /// How the connection has ended.
    end: Option<End>,
    own: Record,
    notices: Vec<Notice>,
    /// Numbers given.
    numbers: u32,
}

/// Bytes of a message.
fn bytes(of: u64, number: u64, len: usize) -> impl Iterator<Item = u8> {
    (0..len).map(move |at| pattern(of, number, at))
}

fn cells(bytes: impl Iterator<Item = u8>) -> Vec<Cell<u8>> {
    bytes.map(Cell::new).collect()
}

impl Process {
    fn new(level: Level, names: [u64; 2]) -> Self {
        let places = std::iter::repeat_n(0, READ_AT as usize);
        Process {
            level,
            requests: Vec::new(),
            region: cells(places.chain(bytes(names[0], READ_NUMBER, READABLE))),
            names,
            end: None,
            own: Record::default(),
            notices: Vec::new(),
            numbers: 0,
        }
    }

    fn place(&self, place: Place) -> Result<&[Cell<u8>], Protected> {
        let start = usize::try_from(place.address).map_err(|_| Protected)?;
        let end = start.checked_add(place.len as usize).ok_or(Protected)?;
        let range = self
            .region
            .get(start..end)
            .filter(|_| place.handle == HANDLE);
        range.ok_or(Protected)
    }

    fn part(&self, request: u64, part: Part) -> &[Cell<u8>] {
        let memory = &self.requests[request as usize].memory;
        &memory[part.skip as usize..][..part.len as usize]
    }

    /// The partner's message of that number has arrived, in a receive or in a place.
    fn check_receive(&mut self, request: u64, outcome: &Outcome) {
        let number = outcome.immediate.expect("each has its number");
        let [_, theirs] = self.names;
        let expected = self.own.taken;
        // Without reliability one that is wrong ends nothing but itself.
        let is_next = match self.level.is_reliable() {
            true => number == expected,
            false => number >= expected,
        };
        assert!(is_next, "a message is lost, twice or out of order");
        self.own.taken = number + 1;
        let len = outcome.length as usize;
        let memory = match outcome.written {
            false => &self.requests[request as usize].memory[..len],
            true => &self.region[place_of(number) as usize..][..len],
        };
        let data = memory.iter().map(Cell::get);
        assert!(
            data.eq(bytes(theirs, number.into(), len)),
            "its bytes are others"
        );
    }

    /// A send, write or read has succeeded.
    fn check_success(&mut self, request: u64, length: u32, partner: &Record) {
        let Request {
            number,
            memory,
            work,
            is_far_wrong,
            ..
        } = &self.requests[request as usize];
        let work = work.expect("one that is wrong does not succeed");
        assert_eq!(length, work.total);
        match (work.operation, number) {
            (Operation::Read(remote), _) => {
                assert!(!is_far_wrong, "a read of no memory succeeds");
                let from = (remote.address - READ_AT) as usize;
                let data = memory.iter().map(Cell::get);
                let all = bytes(self.names[1], READ_NUMBER, READABLE);
                assert!(
                    data.eq(all.skip(from).take(memory.len())),
                    "a read brings other bytes"
                );
            }
            (_, Some(number)) => {
                if self.level.is_acknowledged() {
                    assert!(
                        !is_far_wrong && *number < partner.taken,
                        "it has not taken effect"
                    );
                }
                let next = number + 1;
                if !is_far_wrong {
                    self.own.succeeded = next;
                }
            }
            _ => panic!("a send has its number"),
        }
    }

    /// A send, write or read has failed: its errors are true.
    fn check_failure(&self, request: &Request, errors: Errors, partner: &Record) {
        let rest = Errors(errors.0 & !Errors::PARTIAL.0);
        match (rest, request.work) {
            (Errors::TRANSPORT, Ok(_)) => {
                assert_eq!(self.end, Some(End::Down), "no link is down");
            }
            (Errors::REMOTE_RECEIVE, Ok(_)) => {
                assert!(
                    self.level.is_acknowledged() && partner.refused,
                    "nobody has refused it"
                );
            }
            (Errors::REMOTE_ACCESS, Ok(_)) => assert!(request.is_far_wrong, "it is right"),
            (errors, Err(wrong)) => assert_eq!(errors, wrong),
            _ => panic!("that cannot have happened: {errors:?} {request:?}"),
        }
    }
}

/// Where the write of a number goes.
fn place_of(number: u32) -> u64 {
    u64::from(number) % PLACES * LONGEST as u64
}

/// A process, and what is known of its partner, as its work queues ask it.
struct Desk<'a> {
    process: &'a mut Process,
    records: &'a BTreeMap<u64, Record>,
}

impl Desk<'_> {
    fn note_done(&mut self, request: u64, outcome: Outcome) -> Done {
        let before = self.process.requests[request as usize]
            .done
            .replace(outcome);
        assert!(before.is_none(), "a request is complete twice");
        (request, outcome)
    }
}

impl Asked<Types> for Desk<'_> {
    fn sample(
        &mut self,
        kind: QueueKind,
        request: u64,
        segments: &mut u64,
    ) -> Result<Work, Errors> {
        let posted = &self.process.requests[request as usize];
        assert_eq!(posted.kind, kind);
        *segments = request;
        posted.work
    }

    fn complete(&mut self, request: u64, _: Option<u64>, outcome: &Outcome) -> Completed<Done> {
        let nobody = Record::default();
        let partner = self.records.get(&self.process.names[1]).unwrap_or(&nobody);
        let posted = &self.process.requests[request as usize];
        match (posted.kind, outcome.errors) {
            (QueueKind::Receive, Errors::NONE) => self.process.check_receive(request, outcome),
            (QueueKind::Receive, errors) => {
                let cut = Errors::PARTIAL.with(Errors::TRANSPORT);
                let known = [Errors::PROTECTION, Errors::LENGTH, cut].contains(&errors);
                assert!(known, "a receive fails: {errors:?}");
                self.process.own.refused |= errors != cut;
            }
            (QueueKind::Send, Errors::NONE) => {
                self.process.check_success(request, outcome.length, partner);
            }
            (QueueKind::Send, errors) => {
                self.process.check_failure(posted, errors, partner);
                self.process.own.failed = true;
            }
        }
        Completed::Whole(self.note_done(request, *outcome))
    }

    fn flush(&mut self, request: u64) -> Done {
        let outcome = Outcome {
            errors: Errors::FLUSHED,
            written: false,
            length: 0,
            immediate: None,
        };
        self.note_done(request, outcome)
    }

    fn note(&mut self, notice: Notice) {
        let refuses = matches!(
            notice,
            Notice::NoReceive { .. } | Notice::WriteRefused | Notice::ReadRefused
        );
        self.process.own.refused |= refuses;
        self.process.notices.push(notice);
    }

    fn check(&self, _segments: &u64, _access: Access) -> Result<(), Protected> {
        Ok(())
    }

    fn gather<'a>(
        &'a self,
        pieces: &mut Vec<&'a [Cell<u8>]>,
        segments: &u64,
        part: Part,
    ) -> Result<(), Protected> {
        pieces.push(self.process.part(*segments, part));
        Ok(())
    }

    fn scatter(&self, payload: &&[u8], segments: &u64, part: Part) -> Result<(), Protected> {
        copy(payload, self.process.part(*segments, part));
        Ok(())
    }

    fn allows(&self, place: Place, _access: Access) -> bool {
        self.process.place(place).is_ok()
    }

    fn read(&self, place: Place) -> Result<&[Cell<u8>], Protected> {
        self.process.place(place)
    }

    fn write(&self, payload: &&[u8], place: Place) -> Result<(), Protected> {
        copy(payload, self.process.place(place)?);
        Ok(())
    }
}

fn copy(from: &[u8], to: &[Cell<u8>]) {
    assert_eq!(from.len(), to.len());
    to.iter().zip(from).for_each(|(to, from)| to.set(*from));
}

/// The way to the partner, over the two windows.
struct Way<'a> {
    halves: &'a mut Halves,
    inb: &'a Own,
    out: &'a Far<'a>,
    state: &'a mut WayState,
}

/// What a way knows.
#[derive(Default)]
struct WayState {
    /// What was received last.
    current: Vec<u8>,
    number: u64,
    /// Lines that have taken effect.
    effect: u64,
    /// The link is down: nothing more is received, and nothing arrives.
    is_down: bool,
    /// The partner has closed its session: what it had stored is there.
    parted: bool,
}

impl Way<'_> {
    fn put(&mut self, head: &Head, extra: &[u8], data: &[u8]) -> Result<bool, SendError> {
        let (tx, inb, out) = (&mut self.halves.tx, self.inb, self.out);
        let all = [extra, data].concat();
        if all.len() <= INLINE_MAX {
            return match tx.send(inb, out, head, &all) {
                Ok(_) => Ok(true),
                Err(SendError::Full) => Ok(false),
                Err(why) => Err(why),
            };
        }
        let Some(slot) = tx.take_slot(inb, SLOTS)? else {
            return Ok(false);
        };
        out.write(slot.part().off, data).expect("inside");
        let head = Head {
            stream: SLOTS,
            ..*head
        };
        match tx.send_slot(inb, out, &head, slot, data.len() as u32, extra) {
            Ok(_) => Ok(true),
            Err((slot, why)) => {
                tx.put_back(slot);
                match why {
                    SendError::Full => Ok(false),
                    why => Err(why),
                }
            }
        }
    }
}

/// What has become of a pair whose partner is honest.
fn broken(why: &Broken) -> End {
    panic!("an honest partner is taken for a liar: {why:?}")
}

impl Wire<Types> for Way<'_> {
    fn most(&self, kind: Kind) -> usize {
        match self.halves.tx.peer().slots {
            0 => INLINE_MAX - kind.header(),
            _ => SLOT,
        }
    }

    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[&[Cell<u8>]],
    ) -> Result<bool, End> {
        const { assert!(mp_proto::work::HEADER_MAX <= EXTRA_MAX) };
        if self.state.is_down {
            return Err(End::Down);
        }
        if self.state.parted {
            return Err(End::Gone);
        }
        let head = Head {
            stream: 0,
            kind: kind as u8,
            more: false,
            immediate,
        };
        let cells = payload.iter().flat_map(|piece| piece.iter());
        let data: Vec<u8> = cells.map(Cell::get).collect();
        match self.put(&head, &header[..kind.header()], &data) {
            Ok(put) => Ok(put),
            Err(SendError::Broken(why)) => Err(broken(&why)),
            Err(why) => panic!("nothing is sent: {why:?}"),
        }
    }

    fn has_news(&self) -> bool {
        let state = &self.state;
        state.is_down || state.parted || self.halves.rx.has_news(self.inb).expect("honest")
    }

    fn receive(&mut self) -> Result<Option<Frame<&[u8]>>, End> {
        if self.state.is_down {
            return Err(End::Down);
        }
        let mut room = [0; INLINE_MAX];
        let message = match self.halves.rx.receive(self.inb, &mut room) {
            Ok(Some(message)) => message,
            Ok(None) if self.state.parted => return Err(End::Gone),
            Ok(None) => return Ok(None),
            Err(Stop::Closed { reason }) => {
                return Err(Reason::of(reason).map_or(End::Broken, End::Closed));
            }
            Err(Stop::Broken(why)) => return Err(broken(&why)),
        };
        let data =
            super::queue_pair::take(&mut self.halves.rx, self.inb, self.out, &message, &room);
        let kind = Kind::of(message.head.kind).expect("an honest partner");
        let (extra, data) = match message.body {
            mp_proto::queue_pair::Body::Inline(_) => data.split_at(kind.header()),
            _ => (&room[..kind.header()], &data[..]),
        };
        self.state.current = data.to_vec();
        self.state.number = message.number;
        Ok(Some(Frame {
            kind,
            immediate: message.head.immediate,
            header: header_of(extra),
            payload: &self.state.current,
            fault: None,
        }))
    }

    fn flush(&mut self) -> Result<(), End> {
        let Halves { tx, rx } = &mut *self.halves;
        let told = rx.publish(self.inb, self.out);
        let sent = tx.publish(self.inb, self.out);
        told.and(sent).map(drop).map_err(|why| broken(&why))
    }

    fn effect(&mut self) {
        self.state.effect = self.state.number;
    }

    fn sent(&self) -> u64 {
        self.halves.tx.sent()
    }

    fn effective(&mut self) -> u64 {
        self.halves.tx.acknowledged(self.inb).expect("honest")
    }

    fn close(&mut self, reason: Reason) {
        let Halves { tx, rx } = &mut *self.halves;
        rx.acknowledge(self.state.effect);
        rx.publish(self.inb, self.out).expect("inside");
        tx.close(self.out, reason as u16).expect("inside");
    }
}

/// A connection: the work queues of a session.
#[derive(Default)]
pub struct Connection {
    way: WayState,
    ends: Option<(Endpoint<Types>, Process)>,
    /// What was taken, by queue.
    taken: [Vec<u64>; 2],
    /// The process has ended it.
    has_left: bool,
}

const KINDS: [QueueKind; 2] = [QueueKind::Send, QueueKind::Receive];

impl Connection {
    /// The two ends have been found.
    fn begin(&mut self, names: [u64; 2]) {
        let level = Level::ALL[((names[0] + names[1]) % 3) as usize];
        let mut process = Process::new(level, names);
        let mut end = Endpoint::new(level, Rooms::default());
        let records = BTreeMap::new();
        let mut desk = Desk {
            process: &mut process,
            records: &records,
        };
        for event in [Event::Connect, Event::Established] {
            end.event(&mut desk, event).expect("a new one");
        }
        self.ends = Some((end, process));
    }
}

/// Choose a send, write or read, right or wrong.
fn some_request(process: &mut Process, dice: &Dice) -> Request {
    let mut operation = dice.below(3);
    if operation == 2 && !process.level.has_reads() {
        operation = 0;
    }
    let len = match dice.once_in(4) {
        true => dice.pick(LONGEST + 1),
        false => dice.pick(64),
    };
    let is_wrong = dice.once_in(128);
    let is_far_wrong = operation > 0 && !is_wrong && dice.once_in(128);
    let handle = HANDLE + u32::from(is_far_wrong);
    let number = (operation < 2 && !is_wrong).then_some(process.numbers);
    process.numbers += u32::from(number.is_some());
    let name = process.names[0];
    let (operation, memory) = match (operation, number) {
        (0, Some(number)) => (Operation::Send, cells(bytes(name, number.into(), len))),
        (1, Some(number)) => {
            let address = place_of(number);
            let write = Operation::Write(Remote { address, handle });
            (write, cells(bytes(name, number.into(), len)))
        }
        _ => {
            let address = READ_AT + dice.below((READABLE - len) as u64 + 1);
            let read = Operation::Read(Remote { address, handle });
            (read, cells(std::iter::repeat_n(0, len)))
        }
    };
    let work = Work {
        operation,
        immediate: number,
        fence: dice.once_in(8),
        total: len as u32,
    };
    Request {
        kind: QueueKind::Send,
        work: if is_wrong {
            Err(Errors::FORMAT)
        } else {
            Ok(work)
        },
        number,
        memory,
        is_far_wrong,
        done: None,
    }
}

/// A receive for any message.
fn receive() -> Request {
    let work = Work {
        operation: Operation::Send,
        immediate: None,
        fence: false,
        total: LONGEST as u32,
    };
    Request {
        kind: QueueKind::Receive,
        work: Ok(work),
        number: None,
        memory: cells(std::iter::repeat_n(0, LONGEST)),
        is_far_wrong: false,
        done: None,
    }
}

/// A turn of a process: its work queues, its way, and what all have done.
struct Turn<'a> {
    connection: &'a mut Connection,
    halves: &'a mut Halves,
    inb: &'a Own,
    out: &'a Far<'a>,
    check: &'a mut Check,
}

impl Turn<'_> {
    /// Do something with the work queues and their way.
    fn act<R>(
        &mut self,
        act: impl FnOnce(&mut Endpoint<Types>, &mut Desk<'_>, &mut Way<'_>) -> R,
    ) -> R {
        let Connection { way, ends, .. } = &mut *self.connection;
        let (end, process) = ends.as_mut().expect("it has begun");
        let mut desk = Desk {
            process,
            records: &self.check.pairs.work,
        };
        let mut way = Way {
            halves: self.halves,
            inb: self.inb,
            out: self.out,
            state: way,
        };
        act(end, &mut desk, &mut way)
    }

    fn is_up(&mut self) -> bool {
        self.act(|end, _, _| end.state() == State::Connected)
    }

    fn process(&mut self) -> &mut Process {
        &mut self.connection.ends.as_mut().expect("it has begun").1
    }

    fn post(&mut self, request: Request) {
        let kind = request.kind;
        let requests = &mut self.process().requests;
        requests.push(request);
        let id = requests.len() as u64 - 1;
        let posted = self.act(|end, desk, _| end.post(desk, kind, id));
        posted.expect("there is memory");
    }

    fn post_some(&mut self, dice: &Dice) {
        let [sends, receives] = KINDS.map(|kind| self.act(|end, _, _| end.len(kind)));
        // Now and then there are too few.
        if !dice.once_in(32) {
            (receives..RECEIVES).for_each(|_| self.post(receive()));
        }
        let most = QUEUED.saturating_sub(sends) as u64;
        for _ in 0..dice.below(6).min(most) {
            let request = some_request(self.process(), dice);
            self.post(request);
        }
    }

    /// Move what there is to move, and let all know what has been done.
    fn progress(&mut self) {
        self.act(|end, desk, way| {
            if way.state.is_down {
                desk.process.end = Some(End::Down);
            }
            if !end.is_over() && end.has_work(way) {
                end.progress(desk, way);
            }
        });
        self.publish();
    }

    fn publish(&mut self) {
        let (_, process) = self.connection.ends.as_ref().expect("it has begun");
        self.check.pairs.work.insert(process.names[0], process.own);
    }

    /// Take what is complete: each once, in the order in which they were posted.
    fn take(&mut self) {
        let Connection { ends, taken, .. } = &mut *self.connection;
        let (end, process) = ends.as_mut().expect("it has begun");
        for kind in KINDS {
            let taken = &mut taken[kind as usize];
            while let mp_proto::work::Head::Done((id, outcome)) = end.take(kind) {
                let request = &mut process.requests[id as usize];
                assert_eq!(request.done, Some(outcome));
                let before = taken.last().is_none_or(|last| *last < id);
                assert!(before && request.kind == kind, "they come back in order");
                request.memory = Vec::new();
                taken.push(id);
                self.check.totals.requests += u64::from(!outcome.errors.any());
            }
        }
        let flushed = |request: &Request| {
            let done = request.done.as_ref();
            done.is_some_and(|done| done.errors == Errors::FLUSHED)
        };
        let any = process.requests.iter().rev().take(64).any(flushed);
        let has_ended = end.state() != State::Connected;
        assert!(
            has_ended || !any,
            "a request is flushed, and nothing has ended"
        );
    }

    /// The process ends the connection: all that it has posted comes back.
    fn leave(&mut self) {
        self.connection.has_left = true;
        self.act(|end, desk, way| {
            let reason = end.leaves();
            if !end.is_over() && !way.state.is_down && !way.state.parted {
                way.close(reason);
            }
            end.event(desk, Event::Disconnect).expect("always");
        });
        self.publish();
        self.take();
        let (_, process) = self.connection.ends.as_ref().expect("it has begun");
        let taken: usize = self.connection.taken.iter().map(Vec::len).sum();
        assert_eq!(
            taken,
            process.requests.len(),
            "a request does not come back"
        );
    }

    /// What has succeeded on a reliable level has arrived if the partner has ended in order, or with
    /// its session.
    fn expect_all(&mut self) {
        let (_, process) = self.connection.ends.as_ref().expect("it has begun");
        let [_, theirs] = process.names;
        let partner = self.check.pairs.work.get(&theirs);
        let succeeded = partner.map_or(0, |partner| partner.succeeded);
        let own = &process.own;
        // What comes behind an error of this side has not.
        let gave_up = own.refused || own.failed;
        let all = !process.level.is_reliable() || gave_up || own.taken >= succeeded;
        assert!(all, "what has succeeded has not arrived");
    }
}

impl Session {
    /// Whether it has work queues.
    pub(super) fn has_work_queues(&self) -> bool {
        self.params.protocol == PROTOCOL
    }

    /// The process does what it does with its work queues.
    fn run_work(&mut self, dice: &Dice, check: &mut Check) {
        let is_lost = self.phase == Phase::Lost;
        if !self.has_work_queues() || !is_lost && self.phase != Phase::Paired {
            return;
        }
        let (Some(piece), Some((memory, span))) = (&self.local, &self.remote) else {
            return;
        };
        let (Some(mine), Some(theirs)) = (self.mine, self.theirs) else {
            return;
        };
        let inb = Own::new(piece);
        let out = Far {
            memory,
            span: *span,
        };
        let side = &mut self.side;
        if !is_lost {
            side.meet_partner(&inb, &out, dice, self.parted);
        }
        let Some(halves) = &mut side.halves else {
            return;
        };
        let connection = &mut self.connection;
        if connection.has_left {
            return;
        }
        if connection.ends.is_none() {
            connection.begin([mine, theirs]);
        }
        connection.way.is_down = is_lost;
        connection.way.parted = self.parted;
        let mut turn = Turn {
            connection,
            halves,
            inb: &inb,
            out: &out,
            check,
        };
        turn.post_some(dice);
        let was_up = turn.is_up();
        turn.progress();
        turn.take();
        let is_up = turn.is_up();
        if was_up && !is_up && !is_lost {
            turn.expect_all();
        }
        if dice.once_in(if is_up { 24 } else { 3 }) {
            turn.leave();
        }
        // A thread that goes on elsewhere leaves nothing in this processor's buffers.
        out.mb();
        side.halves.iter().for_each(Halves::check);
    }
}

impl Host {
    /// Let processes use the work queues of their sessions over a link.
    pub(super) fn run_works(&mut self, k: usize) {
        let dice = self.env.dice.clone();
        let mut check = self.env.check.borrow_mut();
        if check.lying {
            return;
        }
        for session in &mut self.ports[k].user.sessions {
            session.run_work(&dice, &mut check);
        }
    }
}
