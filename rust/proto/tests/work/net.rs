// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! An endpoint with a program and a way that tests hold up, cut and look at.

use mp_proto::work::{
    Access, Caller, Completed, End, Endpoint, Entry, Errors, Event, Fault, Frame, Header, Host,
    Kind, Level, Notice, Outcome, Part, Place, Protected, QueueKind, Reason, Room, Rooms, State,
    Wire, Work,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, Range};
use std::rc::Rc;

/// Bytes of a message.
pub const MOST: usize = 8;
/// Bytes of a program.
const MEMORY: usize = 8192;

/// Room for at most so many entries.
#[derive(Debug)]
pub struct Heap<T> {
    entries: Vec<T>,
    most: usize,
}

impl<T: Default> Heap<T> {
    /// Room that begins with `len` entries.
    pub fn new(len: usize, most: usize) -> Self {
        let mut entries = Vec::new();
        entries.resize_with(len, T::default);
        Heap { entries, most }
    }
}

impl<T> Default for Heap<T> {
    /// As long as there is memory.
    fn default() -> Self {
        Heap {
            entries: Vec::new(),
            most: usize::MAX,
        }
    }
}

impl<T> Deref for Heap<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.entries
    }
}

impl<T> DerefMut for Heap<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }
}

impl<T: Default> Room<T> for Heap<T> {
    fn grow(&mut self, len: usize) {
        if len <= self.most {
            self.entries.resize_with(len, T::default);
        }
    }
}

/// A request: its place among all of its program.
pub type Id = usize;

/// What a request is complete with.
pub type Done = (Id, Outcome);

#[derive(Debug)]
pub enum Types {}

impl Caller for Types {
    type Request = Id;
    type Completion = Done;
    type Segments = Vec<Range<usize>>;
    type Room = Heap<Entry<Id, Done>>;
    type Piece<'a> = &'a [Cell<u8>];
    type Pieces<'a> = Vec<&'a [Cell<u8>]>;
    type Payload<'a> = &'a [u8];

    fn payload_len(payload: &&[u8]) -> usize {
        payload.len()
    }
}

/// A request as the program has posted it.
#[derive(Clone, Debug)]
pub struct Posted {
    pub work: Result<Work, Errors>,
    pub segments: Vec<Range<usize>>,
}

/// A program with memory, all of which the partner may access unless it is closed.
pub struct Program {
    pub requests: Vec<Posted>,
    /// What each was completed with.
    pub done: Rc<RefCell<Vec<Option<Outcome>>>>,
    pub notices: Vec<Notice>,
    memory: Vec<Cell<u8>>,
    used: usize,
    /// What nobody may access.
    pub closed: Vec<Range<usize>>,
    /// Requests of which the program cannot be told as usual.
    pub spoiled: Vec<(Id, Spoiled)>,
    /// Those of them that became complete before the connection had ended.
    pub answered: Vec<(Id, Spoiled)>,
}

/// What the program has done to a request that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoiled {
    /// It has changed it.
    Altered,
    /// It cannot be told where it looks.
    Untold,
}

impl Program {
    fn new() -> Self {
        Program {
            requests: Vec::new(),
            done: Rc::default(),
            notices: Vec::new(),
            memory: vec![Cell::new(0); MEMORY],
            used: 0,
            closed: Vec::new(),
            spoiled: Vec::new(),
            answered: Vec::new(),
        }
    }

    /// Fresh memory of so many bytes, at an address that nothing else has.
    pub fn room(&mut self, len: usize) -> Range<usize> {
        let start = self.used;
        self.used += len + 1;
        start..start + len
    }

    /// The same, with these bytes.
    pub fn data(&mut self, bytes: &[u8]) -> Range<usize> {
        let room = self.room(bytes.len());
        for (to, from) in self.memory[room.clone()].iter().zip(bytes) {
            to.set(*from);
        }
        room
    }

    pub fn bytes(&self, range: Range<usize>) -> Vec<u8> {
        self.memory[range].iter().map(Cell::get).collect()
    }

    fn note_done(&mut self, id: Id, outcome: Outcome) {
        let before = self.done.borrow_mut()[id].replace(outcome);
        assert_eq!(before, None, "request {id} is complete twice");
    }

    fn reach(&self, range: Range<usize>) -> Result<&[Cell<u8>], Protected> {
        let meets = |closed: &Range<usize>| {
            closed.start < range.end.max(range.start.saturating_add(1)) && range.start < closed.end
        };
        match self.closed.iter().any(meets) {
            true => Err(Protected),
            false => self.memory.get(range).ok_or(Protected),
        }
    }

    /// The pieces of a part of segments.
    fn part(&self, segments: &[Range<usize>], part: Part) -> Result<Vec<&[Cell<u8>]>, Protected> {
        if part.whole {
            self.check(&segments.to_vec(), Access::Read)?;
        }
        let all = segments.iter().flat_map(Clone::clone);
        let bytes = all.skip(part.skip as usize).take(part.len as usize);
        bytes.map(|at| self.reach(at..at + 1)).collect()
    }

    fn place(&self, place: Place) -> Result<&[Cell<u8>], Protected> {
        let start = usize::try_from(place.address).map_err(|_| Protected)?;
        let end = start.checked_add(place.len as usize).ok_or(Protected)?;
        self.reach(start..end)
    }
}

impl Host<Types> for Program {
    fn sample(
        &mut self,
        _kind: QueueKind,
        request: Id,
        segments: &mut Vec<Range<usize>>,
    ) -> Result<Work, Errors> {
        let posted = &self.requests[request];
        segments.clone_from(&posted.segments);
        posted.work
    }

    fn complete(&mut self, request: Id, _next: Option<Id>, outcome: &Outcome) -> Completed<Done> {
        let failed = outcome.errors.any();
        assert!(!failed || outcome.length == 0 && outcome.immediate.is_none());
        let spoiled = self.spoiled.iter().find(|(id, _)| *id == request).copied();
        self.answered.extend(spoiled);
        let how = spoiled.map(|(_, how)| how);
        if how == Some(Spoiled::Altered) {
            // It is flushed.
            return Completed::Altered;
        }
        self.note_done(request, *outcome);
        match how {
            Some(_) => Completed::Untold((request, *outcome)),
            None => Completed::Whole((request, *outcome)),
        }
    }

    fn flush(&mut self, request: Id) -> Done {
        let outcome = Outcome {
            errors: Errors::FLUSHED,
            written: false,
            length: 0,
            immediate: None,
        };
        self.note_done(request, outcome);
        (request, outcome)
    }

    fn note(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    fn check(&self, segments: &Vec<Range<usize>>, _access: Access) -> Result<(), Protected> {
        let mut all = segments.iter();
        all.try_for_each(|range| self.reach(range.clone()).map(|_| ()))
    }

    fn gather<'a>(
        &'a self,
        pieces: &mut Vec<&'a [Cell<u8>]>,
        segments: &Vec<Range<usize>>,
        part: Part,
    ) -> Result<(), Protected> {
        pieces.extend(self.part(segments, part)?);
        Ok(())
    }

    fn scatter(
        &self,
        payload: &&[u8],
        segments: &Vec<Range<usize>>,
        part: Part,
    ) -> Result<(), Protected> {
        assert_eq!(payload.len(), part.len as usize);
        let to = self.part(segments, part)?.concat_cells();
        assert_eq!(to.len(), payload.len());
        to.iter().zip(*payload).for_each(|(to, from)| to.set(*from));
        Ok(())
    }

    fn allows(&self, place: Place, _access: Access) -> bool {
        self.place(place).is_ok()
    }

    fn read(&self, place: Place) -> Result<&[Cell<u8>], Protected> {
        self.place(place)
    }

    fn write(&self, payload: &&[u8], place: Place) -> Result<(), Protected> {
        let to = self.place(place)?;
        assert_eq!(to.len(), payload.len());
        to.iter().zip(*payload).for_each(|(to, from)| to.set(*from));
        Ok(())
    }
}

/// Pieces, cell by cell.
trait Cells<'a> {
    fn concat_cells(&self) -> Vec<&'a Cell<u8>>;
}

impl<'a> Cells<'a> for Vec<&'a [Cell<u8>]> {
    fn concat_cells(&self) -> Vec<&'a Cell<u8>> {
        self.iter().flat_map(|piece| piece.iter()).collect()
    }
}

/// What crosses.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub kind: Kind,
    pub immediate: Option<u32>,
    pub header: Header,
    pub bytes: Vec<u8>,
    /// What the way makes of it.
    pub fault: Option<Fault>,
}

/// One direction.
#[derive(Debug, Default)]
pub struct Way {
    pub frames: VecDeque<Message>,
    /// So many of them have arrived.
    pub arrived: usize,
    /// How it has ended, behind all frames.
    pub end: Option<End>,
    /// Nothing comes any more, not even what is on its way.
    pub cut: bool,
    /// Messages of the other direction that have taken effect, as told with the end.
    told: u64,
}

impl Way {
    /// End it, after so many messages of the other direction have taken effect.
    pub fn close(&mut self, reason: Reason, effective: u64) {
        if self.end.is_none() {
            (self.end, self.told) = (Some(End::Closed(reason)), effective);
        }
    }

    /// Let so many frames arrive.
    pub fn arrive(&mut self, count: usize) {
        self.arrived = (self.arrived + count).min(self.frames.len());
    }
}

pub type Shared = Rc<RefCell<Way>>;

/// Asks a test what it thinks of a message before it is sent.
pub type Judge = Rc<dyn Fn(&Message)>;

pub struct Link {
    pub out: Shared,
    pub inward: Shared,
    current: Vec<u8>,
    /// So many messages more find room.
    pub room: usize,
    sent: u64,
    received: u64,
    effect: u64,
    pub judge: Option<Judge>,
    /// Messages of that kind find no room, although there is some for others.
    pub refuses: Option<Kind>,
    /// Nothing can be sent any more, which is found when everything has arrived.
    pub fails: Option<End>,
}

impl Link {
    fn new(out: &Shared, inward: &Shared) -> Self {
        Link {
            out: Rc::clone(out),
            inward: Rc::clone(inward),
            current: Vec::new(),
            room: 0,
            sent: 0,
            received: 0,
            effect: 0,
            judge: None,
            refuses: None,
            fails: None,
        }
    }
}

impl Wire<Types> for Link {
    fn most(&self, _kind: Kind) -> usize {
        MOST
    }

    fn send(
        &mut self,
        kind: Kind,
        immediate: Option<u32>,
        header: &Header,
        payload: &[&[Cell<u8>]],
    ) -> Result<bool, End> {
        if self.out.borrow().cut {
            return Err(End::Down);
        }
        if let Some(end) = self.fails {
            let mut way = self.inward.borrow_mut();
            way.arrived = way.frames.len();
            return Err(end);
        }
        let cells = payload.to_vec().concat_cells();
        let message = Message {
            kind,
            immediate,
            header: *header,
            bytes: cells.iter().map(|cell| cell.get()).collect(),
            fault: None,
        };
        assert!(message.bytes.len() <= MOST);
        assert_eq!(header[kind.header()..], [0; 16][kind.header()..]);
        if self.room == 0 || self.refuses == Some(kind) {
            return Ok(false);
        }
        self.room -= 1;
        self.sent += 1;
        if let Some(judge) = &self.judge {
            judge(&message);
        }
        self.out.borrow_mut().frames.push_back(message);
        Ok(true)
    }

    fn has_news(&self) -> bool {
        let way = self.inward.borrow();
        let ends = way.cut || way.frames.is_empty() && way.end.is_some();
        way.arrived > 0 || ends
    }

    fn receive(&mut self) -> Result<Option<Frame<&[u8]>>, End> {
        let mut way = self.inward.borrow_mut();
        if way.arrived == 0 {
            return match way.end {
                _ if way.cut => Err(End::Down),
                Some(end) if way.frames.is_empty() => Err(end),
                _ => Ok(None),
            };
        }
        way.arrived -= 1;
        let message = way.frames.pop_front().unwrap();
        self.current = message.bytes;
        self.received += 1;
        Ok(Some(Frame {
            kind: message.kind,
            immediate: message.immediate,
            header: message.header,
            payload: &self.current,
            fault: message.fault,
        }))
    }

    fn flush(&mut self) -> Result<(), End> {
        Ok(())
    }

    fn effect(&mut self) {
        self.effect = self.received;
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn effective(&mut self) -> u64 {
        self.inward.borrow().told
    }

    fn close(&mut self, reason: Reason) {
        self.out.borrow_mut().close(reason, self.effect);
    }
}

/// One end with its program.
pub struct Side {
    pub end: Endpoint<Types>,
    pub program: Program,
    pub link: Link,
    /// What was taken, by queue.
    pub taken: [Vec<Id>; 2],
    /// What was posted, by queue.
    pub posted: [Vec<Id>; 2],
    /// It has disconnected.
    apart: bool,
}

pub const KINDS: [QueueKind; 2] = [QueueKind::Send, QueueKind::Receive];

impl Side {
    fn new(level: Level, out: &Shared, inward: &Shared) -> Self {
        let mut side = Side {
            end: Endpoint::new(level, Rooms::default()),
            program: Program::new(),
            link: Link::new(out, inward),
            taken: Default::default(),
            posted: Default::default(),
            apart: false,
        };
        for event in [Event::Connect, Event::Established] {
            side.end.event(&mut side.program, event).unwrap();
        }
        side
    }

    /// Post a request.
    pub fn post(&mut self, kind: QueueKind, posted: Posted) -> Id {
        let id = self.program.requests.len();
        self.program.requests.push(posted);
        self.program.done.borrow_mut().push(None);
        self.posted[kind as usize].push(id);
        self.end.post(&mut self.program, kind, id).unwrap();
        id
    }

    pub fn progress(&mut self) -> bool {
        let works = !self.apart && !self.end.is_over() && self.end.has_work(&self.link);
        let moved = works && self.end.progress(&mut self.program, &mut self.link);
        // No level survives that, and what is not complete then is flushed.
        let answered = self.program.answered.len();
        assert!(answered <= 1);
        assert!(answered == 0 || self.end.state() != State::Connected);
        moved
    }

    /// Take what is complete.
    pub fn take(&mut self) {
        for kind in KINDS {
            while let mp_proto::work::Head::Done((id, outcome)) = self.end.take(kind) {
                assert_eq!(self.outcome(id), Some(outcome));
                self.taken[kind as usize].push(id);
            }
            let (taken, posted) = (&self.taken[kind as usize], &self.posted[kind as usize]);
            assert_eq!(taken[..], posted[..taken.len()], "they come back in order");
            let next = posted.get(taken.len()).and_then(|id| self.outcome(*id));
            assert_eq!(next, None, "what is complete was not handed out");
        }
    }

    pub fn outcome(&self, id: Id) -> Option<Outcome> {
        self.program.done.borrow()[id]
    }

    /// End the connection at this side.
    pub fn disconnect(&mut self) {
        self.apart = true;
        let reason = self.end.leaves();
        self.link.close(reason);
        let event = Event::Disconnect;
        self.end.event(&mut self.program, event).unwrap();
    }
}

/// Two ends of a connection.
pub fn connected(level: Level) -> [Side; 2] {
    let (forth, back) = (Shared::default(), Shared::default());
    [
        Side::new(level, &forth, &back),
        Side::new(level, &back, &forth),
    ]
}
