// SPDX-License-Identifier: GPL-2.0-only

//! Carries out what a link's sharing engine decides: memory, connections' states, notices,
//! messages.

use crate::{
    connection::Way,
    link::Link,
    notices::Notice,
    offer::Number,
    outbox::{
        Outbox,
        Receipt,
        Signal, //
    },
    uapi::*,
    window::Piece, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::error;
use mp_proto::{
    fabric::Life,
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
        Object,
        Own,
        Want,
        Why, //
    }, //
};
use mp_transport::memory::{
    Exposure,
    Memory, //
};

/// The engine with tables on the heap.
pub(crate) type Sharing = Engine<KVVec<Option<Own>>, KVVec<Option<Entry>>>;

/// The way from a guest to the event or port that it is connected to.
pub(crate) struct Bell {
    pub(crate) guest: u32,
    pub(crate) number: Arc<Number>,
    pub(crate) heard: Heard,
    pub(crate) receiver: Receiver,
    /// Of messages to a port.
    pub(crate) receipt: Option<Receipt>,
}

/// Memory of a segment that the peer may reach by so many connections.
pub(crate) struct Reached {
    token: u32,
    off: u64,
    guests: usize,
    /// Leads a window to memory that is neither the link's nor the commons', in the epoch of
    /// that number.
    exposure: Option<(Exposure, u64)>,
}

/// Who is at the other end, while both services listen to each other.
#[derive(Clone)]
pub(crate) struct Far {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) life: Life,
    pub(crate) memory: Arc<Memory>,
    /// Both services know of placed transfers.
    pub(crate) can_place: bool,
}

impl Reached {
    /// Lets the peer reach the memory, and finds out where it does.
    ///
    /// # Errors
    ///
    /// Those of [`Memory::grant`], [`Memory::expose`] and [`Memory::expose_pages`].
    fn show(&mut self, piece: &Piece, memory: &Memory) -> Result {
        let is_exposed = self.exposure.as_ref().map(|(_, epoch)| *epoch) == Some(memory.epoch());
        let exposure = match piece {
            Piece::Local(local) => {
                memory.grant(local)?;
                self.off = local.off();
                return Ok(());
            }
            _ if is_exposed => return Ok(()),
            Piece::Pages(pages) => {
                // The window of the epoch before may be the only one.
                drop(self.exposure.take());
                memory.expose_pages(pages)?
            }
            Piece::Physical(range) => {
                drop(self.exposure.take());
                memory.expose(range)?
            }
            Piece::Remote(_) | Piece::Exposed(_) => return Err(error::unsupported()),
        };
        self.off = exposure.off();
        self.exposure = Some((exposure, memory.epoch()));
        Ok(())
    }
}

/// Carries out what the engine decides.
pub(crate) struct Clerk<'a> {
    pub(crate) link: &'a Link,
    pub(crate) far: Option<Far>,
    pub(crate) reached: &'a mut KVec<Reached>,
    /// Something could not be done that the engine counts on.
    pub(crate) failed: Result,
}

/// What a guest is told when something could not be had.
fn why(_: Error) -> Why {
    Why::Refused
}

impl Clerk<'_> {
    /// Grants the memory of a segment, once more if it was before, to be copied by its host.
    fn grant_placed(&mut self, guest: &Guest) -> Result<Grant, Why> {
        let segment = self.link.segments().by_token(guest.token);
        let segment = segment.ok_or(Why::NotFound)?;
        let piece = segment.piece().ok_or(Why::NotFound)?;
        let far = self.far.as_ref().ok_or(Why::NotFound)?;
        if far.can_place && !self.link.is_loopback() {
            let serving = self.link.serving();
            let entered = serving.enter(guest.number, piece.clone(), &far.outbox, far.life);
            entered.map_err(why)?;
        }
        Ok(Grant {
            token: guest.token,
            off: 0,
            len: piece.len(),
        })
    }

    /// The same, to be reached by a window as well, unless the guest needs none.
    fn grant(&mut self, guest: &Guest, is_again: bool) -> Result<Grant, Why> {
        let placed = self.grant_placed(guest)?;
        if guest.want.placed {
            return Ok(placed);
        }
        let granted = self.grant_window(guest, is_again);
        if granted.is_err() {
            self.link.serving().leave(guest.number);
        }
        granted.map(|off| Grant { off, ..placed })
    }

    /// Lets the peer reach the memory of a segment by a window, and says where.
    fn grant_window(&mut self, guest: &Guest, is_again: bool) -> Result<u64, Why> {
        let segment = self.link.segments().by_token(guest.token);
        let segment = segment.ok_or(Why::NotFound)?;
        let piece = segment.piece().ok_or(Why::NotFound)?;
        let far = self.far.as_ref().ok_or(Why::NotFound)?;
        let reached = &mut *self.reached;
        let known = reached.iter().position(|r| r.token == guest.token);
        let at = match known {
            Some(at) => at,
            None => {
                let new = Reached {
                    token: guest.token,
                    off: 0,
                    guests: 0,
                    exposure: None,
                };
                reached.push(new, GFP_KERNEL).map_err(|e| why(e.into()))?;
                reached.len() - 1
            }
        };
        let entry = reached.get_mut(at).ok_or(Why::Refused)?;
        let shown = match self.link.is_loopback() {
            true => Ok(()),
            false => entry.show(piece, &far.memory),
        };
        if shown.is_err() && known.is_none() {
            // It was entered here.
            let _ = reached.remove(at);
            return Err(Why::Unreachable);
        }
        shown.map_err(|_| Why::Unreachable)?;
        entry.guests += usize::from(!is_again || known.is_none());
        Ok(entry.off)
    }

    /// A guest reaches the memory of its segment no more.
    fn let_go(&mut self, guest: &Guest) {
        let at = self.reached.iter().position(|r| r.token == guest.token);
        let Some((at, known)) = at.and_then(|at| Some((at, self.reached.get_mut(at)?))) else {
            return;
        };
        known.guests -= 1;
        if known.guests != 0 {
            return;
        }
        let off = known.off;
        // It is there.
        let gone = self.reached.remove(at);
        if let Some(far) = self.far.as_ref().filter(|_| !self.link.is_loopback()) {
            // If the epoch is over, nothing is left to be done.
            let _ = far.memory.peer_let_go(off);
        }
        drop(gone);
    }

    /// Tells the owners of a guest's segment.
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

    fn accept_segment(&mut self, number: u32, want: &Want) -> Result<Grant, Why> {
        let segment = self.link.segments().by_id(want.number);
        let segment = segment.ok_or(Why::NotFound)?;
        segment.accept(self.link.interface().id())?;
        let guest = Guest {
            number,
            want: *want,
            token: segment.token(),
        };
        let granted = self.grant(&guest, false);
        match granted {
            Ok(_) => self.tell(&guest, MP_NOTICE_CONNECTED),
            Err(_) => segment.left(1),
        }
        granted
    }

    fn accept_number(&mut self, guest: u32, want: &Want) -> Result<Grant, Why> {
        let number = self.link.offered(want.object, want.number);
        let number = number.ok_or(Why::NotFound)?;
        let receipt = match (want.object, &self.far) {
            (Object::Port, Some(far)) => {
                let receipt = Receipt::new(far.outbox.clone(), far.life, guest);
                Some(receipt.map_err(why)?)
            }
            _ => None,
        };
        number.accept(want)?;
        let token = number.token();
        let bell = Bell {
            guest,
            number: number.clone(),
            heard: Heard::default(),
            receiver: Receiver::default(),
            receipt,
        };
        if let Err(e) = self.link.bells.lock().push(bell, GFP_ATOMIC) {
            number.left(1);
            return Err(why(e.into()));
        }
        Ok(Grant {
            token,
            off: 0,
            len: 0,
        })
    }

    /// A guest is not there any more.
    fn guest_gone(&mut self, guest: &Guest, notice: Option<u32>) {
        if guest.want.object == Object::Segment {
            self.link.serving().leave(guest.number);
            if !guest.want.placed {
                self.let_go(guest);
            }
            if let Some(kind) = notice {
                self.tell(guest, kind);
                if let Some(segment) = self.link.segments().by_token(guest.token) {
                    segment.left(1);
                }
            }
            return;
        }
        let bell = {
            let mut bells = self.link.bells.lock();
            let at = bells.iter().position(|bell| bell.guest == guest.number);
            at.and_then(|at| bells.remove(at).ok())
        };
        if let (Some(bell), Some(_)) = (bell, notice) {
            bell.number.left(1);
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
            Object::Segment if connection.want().placed => None,
            Object::Segment => {
                let piece = Piece::Remote(far.memory.reach(grant.off, grant.len)?);
                Some(Arc::new(piece, GFP_KERNEL)?)
            }
            _ => None,
        };
        let signal = match connection.want().object {
            Object::Event => Some(Signal::trigger(
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
        };
        connection.found(piece, grant.len, way)
    }
}

impl Host for Clerk<'_> {
    fn accept(&mut self, guest: u32, want: &Want) -> Result<Grant, Why> {
        match want.object {
            Object::Segment => self.accept_segment(guest, want),
            _ => self.accept_number(guest, want),
        }
    }

    fn accept_again(&mut self, guest: &Guest) -> Result<Grant, Why> {
        match guest.want.object {
            Object::Segment => self.grant(guest, true),
            _ => Ok(Grant {
                token: guest.token,
                off: 0,
                len: 0,
            }),
        }
    }

    fn say(&mut self, message: Message) {
        let Some(far) = &self.far else { return };
        if let Err(e) = far.outbox.say(far.life, &message) {
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
                if self.found(number, grant).is_err() {
                    self.failed = Err(ENOMEM);
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
            Event::GuestDown(guest) => {
                self.link.serving().leave(guest.number);
                self.tell(&guest, MP_NOTICE_DOWN);
            }
            Event::GuestUp(guest) => self.tell(&guest, MP_NOTICE_UP),
            Event::GuestLeft(guest) => self.guest_gone(&guest, Some(MP_NOTICE_DISCONNECTED)),
            Event::GuestLost(guest) => self.guest_gone(&guest, Some(MP_NOTICE_LOST)),
            Event::LetGo(guest) => {
                self.guest_gone(&guest, None);
                self.link.leaving.has_let_go();
            }
        }
    }
}
