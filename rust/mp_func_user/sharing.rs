// SPDX-License-Identifier: GPL-2.0-only

//! Carries out what a link's sharing engine decides: memory, connections' states, notices,
//! messages.

use crate::{
    asked::Asked,
    connection::Way,
    link::Link,
    notices::Notice,
    offer::Number,
    outbox::{
        Outbox,
        Receipt,
        Signal,
        Waiting, //
    },
    segment::Segment,
    uapi::*,
    window::Piece,
    FUNC, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::error;
use mp_proto::{
    fabric::{
        self,
        Life, //
    },
    name::Name,
    rows::Row,
    sharing::{
        message::Message,
        tally::Heard,
        window::Receiver,
        Engine,
        Entry,
        Event,
        Grant,
        Guest,
        Host,
        NoGrant,
        Object,
        Own,
        Rights,
        Want,
        Why,
        SAYS, //
    },
    wire::Priority, //
};
use mp_transport::memory::{
    Exposure,
    Memory, //
};

/// The engine with tables on the heap.
pub(crate) type Sharing = Engine<KVVec<Row<Own>>, KVVec<Row<Entry>>>;

/// The way from a guest to the event or port that it is connected to.
pub(crate) struct Bell {
    pub(crate) guest: u32,
    pub(crate) number: Arc<Number>,
    pub(crate) heard: Heard,
    pub(crate) receiver: Receiver,
    /// Of messages to a port.
    pub(crate) receipt: Option<Receipt>,
    /// A message was lost: none that comes behind it is taken, and the connection ends.
    pub(crate) is_broken: bool,
}

/// Memory of a segment that the peer may reach by its connections.
pub(crate) struct Reached {
    /// The segment's token.
    segment: u32,
    off: u64,
    /// The epoch in which it was granted at that offset.
    epoch: u64,
    /// The connections, also those that were ended and have not let go, in the order of their
    /// numbers. There is one at least.
    guests: KVec<u32>,
    /// Leads a window to memory that is neither the link's nor the commons'.
    exposure: Option<Exposure>,
}

/// Who is at the other end, while both services listen to each other.
#[derive(Clone)]
pub(crate) struct Far {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) life: Life,
    pub(crate) memory: Arc<Memory>,
    /// What both services know of, [`fabric::PLACED`] and others.
    pub(crate) features: u16,
}

impl Far {
    /// Whether both services have all those features.
    pub(crate) fn has(&self, features: u16) -> bool {
        features & !self.features == 0
    }
}

impl Reached {
    /// The entry of a segment, with that connection.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; all is as it was.
    fn enter(segment: u32, guest: u32, all: &mut KVec<Self>) -> Result<&mut Self> {
        let Some(at) = all.iter().position(|reached| reached.is_of(segment)) else {
            let mut guests = KVec::with_capacity(1, GFP_KERNEL)?;
            guests.push(guest, GFP_KERNEL)?;
            let new = Self {
                segment,
                off: 0,
                epoch: 0,
                guests,
                exposure: None,
            };
            all.push(new, GFP_KERNEL)?;
            return all.last_mut().ok_or(EINVAL);
        };
        let known = all.get_mut(at).ok_or(EINVAL)?;
        if let Err(place) = known.guests.binary_search(&guest) {
            known.guests.reserve(1, GFP_KERNEL)?;
            let entered = known.guests.insert_within_capacity(place, guest);
            entered.map_err(|_| ENOMEM)?;
        }
        Ok(known)
    }

    /// Let the peer reach the memory, and find out where it does.
    ///
    /// # Errors
    ///
    /// Those of [`Memory::grant`], [`Memory::expose`] and [`Memory::expose_pages`].
    fn show(&mut self, segment: &Segment, piece: &Piece, link: &Link, memory: &Memory) -> Result {
        if self.epoch != memory.epoch() {
            // The window of the epoch before may be the only one.
            drop(self.exposure.take());
        }
        let exposure = match piece {
            Piece::Local(local) => {
                memory.grant(FUNC, local)?;
                self.off = local.off();
                self.epoch = memory.epoch();
                return Ok(());
            }
            _ if self.exposure.is_some() => return Ok(()),
            Piece::Pages(pages) => memory.expose_pages(FUNC, pages)?,
            Piece::Physical(range) => memory.expose(FUNC, range)?,
            Piece::DmaBuf(_) => {
                // Not here: other things of the link wait for this.
                let attached = segment.attached(link.interface().id());
                memory.expose_attached(FUNC, &attached.ok_or_else(error::unsupported)?)?
            }
            Piece::Remote(_) | Piece::Sent(_) | Piece::Exposed(_) => {
                return Err(error::unsupported());
            }
        };
        self.off = exposure.off();
        self.epoch = memory.epoch();
        self.exposure = Some(exposure);
        Ok(())
    }

    /// Whether it is that of a segment.
    pub(crate) fn is_of(&self, segment: u32) -> bool {
        self.segment == segment
    }

    /// Whether a connection is one of its own.
    pub(crate) fn has(&self, guest: u32) -> bool {
        self.guests.binary_search(&guest).is_ok()
    }
}

/// Carries out what the engine decides.
pub(crate) struct Clerk<'a> {
    pub(crate) link: &'a Link,
    pub(crate) far: Option<Far>,
    pub(crate) reached: &'a mut KVec<Reached>,
    pub(crate) asked: &'a mut Asked,
    /// The peer has said what cannot be, or takes nothing.
    pub(crate) failed: Result,
    /// Connections could not have what is theirs, and are to end.
    pub(crate) has_spoilt: bool,
}

/// What becomes of a guest for which something could not be had: it waits for memory, or is told.
pub(crate) fn no_grant(error: Error, why: Why) -> NoGrant {
    match error == ENOMEM {
        true => NoGrant::Later,
        false => why.into(),
    }
}

impl Clerk<'_> {
    /// Make room for all that comes of a process that connects, or of a message that has arrived,
    /// before the engine hears of it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS` if the peer takes nothing.
    pub(crate) fn reserve(&self, engine: &Sharing) -> Result {
        match &self.far {
            Some(far) => far.outbox.hold(engine.owed() + SAYS),
            None => Ok(()),
        }
    }

    /// Grant the memory of a segment, also once more if it was before: to be copied by its host,
    /// and, to a guest that stores into it and does not do without, to be reached by a window.
    fn grant(&mut self, guest: &Guest) -> Result<Grant, NoGrant> {
        let mut grant = self.grant_placed(guest)?;
        // Within this host, whoever stores does so by itself, and is entered as if by a window.
        let is_copied_for = guest.want.placed && !self.link.is_loopback();
        if is_copied_for || !grant.rights.write {
            return Ok(grant);
        }
        let shown = self.grant_window(guest);
        if shown.is_err() {
            self.let_go(guest);
        }
        grant.off = shown?;
        Ok(grant)
    }

    /// Let a guest have its host ask for copies of a segment.
    fn grant_placed(&mut self, guest: &Guest) -> Result<Grant, NoGrant> {
        let segment = self.link.segments().by_token(guest.token);
        let segment = segment.ok_or(Why::NotFound)?;
        let piece = segment.piece().ok_or(Why::NotFound)?;
        let copied = piece.copied();
        let usable = Rights {
            // Who has a window stores by itself.
            write: copied.write || !guest.want.placed,
            ..copied
        };
        let granted = segment.rights(guest.token).ok_or(Why::NotFound)?;
        let rights = granted.and(usable);
        if rights == Rights::NONE {
            return Err(Why::Unreachable.into());
        }
        let far = self.far.as_ref().ok_or(Why::NotFound)?;
        if far.has(fabric::PLACED) && !self.link.is_loopback() {
            let reached = (piece.clone(), rights);
            let serving = self.link.serving();
            let of = (guest.number, guest.token);
            let entered = serving.enter(of, reached, &far.outbox, far.life);
            entered.map_err(|e| no_grant(e, Why::Refused))?;
        }
        Ok(Grant {
            token: guest.token,
            off: 0,
            len: piece.len(),
            rights,
        })
    }

    /// Let a guest reach the memory of a segment by a window, and say where.
    fn grant_window(&mut self, guest: &Guest) -> Result<u64, NoGrant> {
        let segment = self.link.segments().by_token(guest.token);
        let segment = segment.ok_or(Why::NotFound)?;
        let piece = segment.piece().ok_or(Why::NotFound)?;
        if !guest.want.placed && !piece.can_be_shown() {
            return Err(Why::Unreachable.into());
        }
        let far = self.far.as_ref().ok_or(Why::NotFound)?;
        let entry = Reached::enter(segment.token(), guest.number, self.reached);
        let entry = entry.map_err(|e| no_grant(e, Why::Refused))?;
        let shown = match self.link.is_loopback() {
            true => Ok(()),
            false => entry.show(&segment, piece, self.link, &far.memory),
        };
        let off = entry.off;
        shown
            .map(|()| off)
            .map_err(|e| no_grant(e, Why::Unreachable))
    }

    /// A guest reaches the memory of its segment no more.
    fn let_go(&mut self, guest: &Guest) {
        self.link.serving().leave(guest.number);
        let mut all = self.reached.iter();
        let Some(at) = all.position(|reached| reached.has(guest.number)) else {
            return;
        };
        let Some(known) = self.reached.get_mut(at) else {
            return;
        };
        known.guests.retain(|number| *number != guest.number);
        if !known.guests.is_empty() {
            return;
        }
        let (off, epoch) = (known.off, known.epoch);
        // It is there.
        let gone = self.reached.remove(at);
        if let Some(far) = self.far.as_ref().filter(|_| !self.link.is_loopback()) {
            if far.memory.epoch() == epoch {
                // If the epoch is over, nothing is left to be done.
                let _ = far.memory.peer_let_go(FUNC, off);
            }
        }
        drop(gone);
    }

    /// Tell the owners of a guest's segment.
    fn tell(&self, guest: &Guest, kind: u32) {
        if let Some(segment) = self.link.segments().by_token(guest.token) {
            segment.tell(Notice {
                kind,
                interface: self.link.interface().id(),
                peer: self.link.peer_id(),
                connection: guest.number,
            });
        }
    }

    fn accept_segment(&mut self, number: u32, want: &Want, name: &Name) -> Result<Grant, NoGrant> {
        let segments = self.link.segments();
        let (segment, token) = match want.session {
            0 => {
                let segment = match name.is_none() {
                    true => segments.by_id(want.number),
                    false => segments.by_name(name),
                };
                let segment = segment.ok_or(Why::NotFound)?;
                segment.accept(self.link.interface().id())?;
                let token = segment.token();
                (segment, token)
            }
            _ => {
                let segment = segments.by_token(want.number).ok_or(Why::NotFound)?;
                segment.accept_partner(want, self.link)?;
                (segment, want.number)
            }
        };
        let guest = Guest {
            number,
            want: *want,
            token,
        };
        let granted = self.grant(&guest);
        match granted {
            Ok(_) => self.tell(&guest, MP_NOTICE_CONNECTED),
            Err(_) => segment.left(1),
        }
        granted
    }

    fn accept_number(&mut self, guest: u32, want: &Want, name: &Name) -> Result<Grant, NoGrant> {
        let number = self.link.offered(want, name).ok_or(Why::NotFound)?;
        let bell = self.bell(guest, want, &number);
        let bell = bell.map_err(|e| no_grant(e, Why::Refused))?;
        number.accept(want)?;
        if !self.link.bells.lock().enter(bell) {
            number.left(1);
            return Err(Why::Refused.into());
        }
        Ok(Grant {
            token: number.token(),
            off: 0,
            len: 0,
            rights: Rights::ALL,
        })
    }

    /// The way from a guest to an event or port.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS` if the peer takes nothing.
    fn bell(&self, guest: u32, want: &Want, number: &Arc<Number>) -> Result<KBox<Bell>> {
        let receipt = match (want.object, &self.far) {
            (Object::Port, Some(far)) => Some(Receipt::new(far.outbox.clone(), far.life, guest)?),
            _ => None,
        };
        let bell = Bell {
            guest,
            number: number.clone(),
            heard: Heard::default(),
            receiver: Receiver::default(),
            receipt,
            is_broken: false,
        };
        Ok(KBox::new(bell, GFP_KERNEL)?)
    }

    /// A guest is not connected any more, of which its segment's owners are told.
    fn guest_gone(&self, guest: &Guest, notice: u32) {
        if guest.want.object == Object::Segment {
            self.link.serving().leave(guest.number);
            self.tell(guest, notice);
            if let Some(segment) = self.link.segments().by_token(guest.token) {
                segment.left(1);
            }
        } else if let Some(number) = self.link.take_bell(guest.number) {
            number.left(1);
        }
    }

    /// A guest that is not connected any more reaches nothing.
    fn guest_let_go(&mut self, guest: &Guest) {
        match guest.want.object {
            Object::Segment => self.let_go(guest),
            _ => drop(self.link.take_bell(guest.number)),
        }
    }

    /// The object of an own connection is there.
    fn found(&self, number: u32, grant: Grant) -> Result {
        let Some(connection) = self.link.connection(number) else {
            return Ok(());
        };
        let far = self.far.as_ref().ok_or_else(error::net_down)?;
        let piece = match connection.want().object {
            Object::Segment if self.link.is_loopback() => {
                let segment = self.link.segments().by_token(grant.token);
                let segment = segment.ok_or(ENOENT)?;
                Some(segment.piece().ok_or(ENOENT)?.clone())
            }
            Object::Segment if !grant.rights.write || connection.want().placed => None,
            Object::Segment => {
                let piece = Piece::Remote(far.memory.reach(grant.off, grant.len)?);
                Some(Arc::new(piece, GFP_KERNEL)?)
            }
            _ => None,
        };
        let signal = match connection.want().object {
            Object::Event => Some(Signal::trigger(
                &far.outbox,
                far.life,
                number,
                connection.total().clone(),
            )?),
            _ => None,
        };
        let way = Way {
            outbox: far.outbox.clone(),
            life: far.life,
            signal,
            lane: match far.has(fabric::MESSAGES) {
                true => Priority::Bulk,
                false => Priority::High,
            },
        };
        connection.found(piece, &grant, way)
    }
}

impl Host for Clerk<'_> {
    fn accept(&mut self, guest: u32, want: &Want, name: &Name) -> Result<Grant, NoGrant> {
        match want.object {
            Object::Segment => self.accept_segment(guest, want, name),
            _ => self.accept_number(guest, want, name),
        }
    }

    fn accept_again(&mut self, guest: &Guest) -> Result<Grant, NoGrant> {
        match guest.want.object {
            Object::Segment => self.grant(guest),
            _ => Ok(Grant {
                token: guest.token,
                off: 0,
                len: 0,
                rights: Rights::ALL,
            }),
        }
    }

    fn say(&mut self, message: Message) {
        let Some(far) = &self.far else { return };
        if let Err(e) = far.outbox.say(Waiting::Sharing(far.life, message)) {
            self.failed = Err(e);
        }
    }

    fn event(&mut self, event: Event) {
        let own = |number| self.link.connection(number);
        match event {
            Event::Connected(number, grant) => {
                if let (Err(e), Some(connection)) = (self.found(number, grant), own(number)) {
                    // The process gives up, and leaves.
                    connection.refused(match e == EINVAL || e == error::not_connected() {
                        true => ENOSPC,
                        false => e,
                    });
                }
            }
            Event::Up(number, grant) => {
                if let (Err(_), Some(connection)) = (self.found(number, grant), own(number)) {
                    connection.spoil();
                    self.has_spoilt = true;
                }
            }
            Event::Refused(number, why) => {
                if let Some(connection) = own(number) {
                    connection.refused(match why {
                        Why::NotFound => ENOENT,
                        Why::Refused => error::refused(),
                        Why::Unreachable => ENOSPC,
                        Why::Down => error::net_down(),
                    });
                }
            }
            Event::Down(number) => drop(own(number).map(|c| c.down())),
            Event::Withdrawn(number) => drop(own(number).map(|c| c.withdrawn())),
            Event::Lost(number) => drop(own(number).map(|c| c.lost())),
            Event::Taken(number, total) => {
                if let Some(Err(e)) = own(number).map(|c| c.taken(total)) {
                    self.failed = Err(e);
                }
            }
            Event::Answered(question) => self.link.questions.answered(question),
            Event::GuestDown(guest) => self.tell(&guest, MP_NOTICE_DOWN),
            Event::GuestUp(guest) => self.tell(&guest, MP_NOTICE_UP),
            Event::GuestLeft(guest) => {
                self.guest_gone(&guest, MP_NOTICE_DISCONNECTED);
                self.guest_let_go(&guest);
            }
            Event::GuestLost(guest) => self.guest_gone(&guest, MP_NOTICE_LOST),
            Event::LetGo(guest) => {
                self.guest_let_go(&guest);
                self.link.leaving.has_let_go();
            }
        }
    }
}
