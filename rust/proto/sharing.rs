// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Objects that a host offers to many processes of another one: segments, events and ports, and
//! the connections to them (SI-CONSEG-*, SI-RSM-*, SI-EVT-*).
//!
//! Each of the two hosts has one [`Engine`] per link, for as long as the interface exists. It has
//! the connections of this host's processes to what the other host offers (*own* ones), and those
//! of the other host's processes to what this one offers (*guests*). What is offered, the caller
//! knows: the engine asks it through the trait [`Host`], which also takes messages and hears what
//! happens. A host that is its own peer has one engine, which hears what it says itself.
//!
//! | step | host of the process | host of the object |
//! |---|---|---|
//! | a process connects | CONNECT | CONNECTED or REFUSED |
//! | it leaves | LEAVE | |
//! | the owner asks it to leave | | WITHDRAWN |
//! | the owner ends the connection | takes mappings away, GONE | ENDED; memory rests until GONE |
//! | the link is down meanwhile | | memory rests until the next epoch |
//! | the link is back | RESUME for each connection, then RESUMED | CONNECTED or REFUSED for each |
//!
//! The rules that make it hold together:
//!
//! 1. A connection has the number of its process's object, which is not given again before all
//!    others; so LEAVE needs no answer. What arrives for a number that is not known any more has
//!    crossed a LEAVE, and means nothing.
//! 2. Memory may be somebody else's only after LEAVE or GONE, or in the next epoch of the link: the
//!    other host has taken all mappings away before it begins one. That this host calls a link down,
//!    or gives a connection up, proves nothing: the other one may not know yet.
//! 3. A connection outlives the link if both services do: who has it resumes it, and gets the same
//!    object, or has lost it. What is not resumed has left. Connections to ports are not resumed:
//!    nobody could tell which messages had arrived.
//!
//! 4. What a process or an owner ends is ended at once, and cannot fail for want of memory. So the
//!    caller keeps room for as many messages as an engine [owes](Engine::owed), and makes room for
//!    [`SAYS`] more before all that can fail or wait: a process that connects, a message that has
//!    arrived, a link that comes [up](Engine::owed_by_up).
//! 5. A guest is not refused for want of memory: its host hears it [later](NoGrant::Later).
//!
//! The channel between the engines keeps order and loses nothing within an epoch. Messages to ports
//! may take another one; then the caller hands a LEAVE in when all that were sent before it are
//! with the port: see [`window::Receiver::left`]. Everything in a
//! message is checked before anything is changed; what cannot be is [`Corrupt`], and the caller
//! resets the link.
//!
//! | module | owns |
//! |---|---|
//! | [`message`] | what the engines tell each other |
//! | [`placed`] | copies into and out of segments that need no window |
//! | [`question`] | what proves that stores have arrived |
//! | [`requests`] | what guests would like to read in that way |
//! | [`state`] | the states of a connection, and of a segment at an interface |
//! | [`tally`] | triggers of events that are counted by totals |
//! | [`window`] | how many messages to a port may be under way |

mod guest;
pub mod message;
pub mod placed;
pub mod question;
pub mod requests;
pub mod state;
pub mod tally;
pub mod window;

use crate::fabric::{Life, OFFER_NAMES, PLACED};
use crate::name::Name;
use crate::rows::{find, find_mut, Edit, Key, Node, Order, Ordered, Rows, Table};
use message::{Message, What};
use state::{Change, State};

pub use crate::pairing::Corrupt;

/// Most own connections of one link, and most guests.
pub const CONNECTIONS: usize = 1024;

/// Most connections that were asked for and have not been answered, whether or not somebody still
/// waits for them: what a process asks for again and again is not more than the peer can keep.
pub const UNANSWERED: usize = 256;

/// Most messages that come of one process that connects, or of one message of the other engine,
/// those included that the engine [owes](Engine::owed) from then on.
pub const SAYS: usize = 3;

/// What a connection leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// Memory.
    Segment,
    /// A flag or counter.
    Event,
    /// A queue of messages.
    Port,
}

/// What a process would like to be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The kind of object.
    pub object: Object,
    /// The number under which it is offered; zero if it is asked for by its name.
    pub number: u32,
    /// It must be an event that counts.
    pub counted: bool,
    /// A segment whose memory no window has to lead to: see [`placed`].
    pub placed: bool,
    /// Of a segment that is granted to one partner: the process's session with the one that has
    /// granted it, and `number` is that of the grant. Zero for what is offered to everybody.
    pub session: u32,
}

impl Want {
    /// The [features](crate::fabric) that both services need, for the process to ask in this way.
    pub fn features(&self, name: &Name) -> u16 {
        let of = |is_used: bool, feature: u16| u16::from(is_used) * feature;
        of(self.placed, PLACED) | of(!name.is_none(), OFFER_NAMES)
    }
}

/// What the process of a connection may do with a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// Its host may copy from it.
    pub read: bool,
    /// It may store into it; only then a window shows it to the process.
    pub write: bool,
}

impl Rights {
    /// Those of what is offered to everybody.
    pub const ALL: Rights = Rights {
        read: true,
        write: true,
    };

    /// Nothing; no connection has them.
    pub const NONE: Rights = Rights {
        read: false,
        write: false,
    };

    /// What both allow.
    pub fn and(self, other: Rights) -> Rights {
        Rights {
            read: self.read && other.read,
            write: self.write && other.write,
        }
    }
}

/// What a connection gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Names what is offered, among all that its host has ever offered; not zero.
    pub token: u32,
    /// Where a segment's memory begins, among what the other host may reach.
    pub off: u64,
    /// Bytes of a segment; zero for others.
    pub len: u64,
    /// Without that to write, there is no memory at `off`.
    pub rights: Rights,
}

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing of that number, or of that name, is offered.
    NotFound,
    /// It takes no further connections, or does not count.
    Refused,
    /// The memory is not reached.
    Unreachable,
    /// The link went down; never in a message.
    Down,
}

/// Why a guest is granted nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoGrant {
    /// It is refused.
    Refused(Why),
    /// There is no memory for that now. All is as it was: the guest has not been heard, and the
    /// caller hands its message in again.
    Later,
}

impl From<Why> for NoGrant {
    fn from(why: Why) -> Self {
        NoGrant::Refused(why)
    }
}

/// Why a message has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unheard {
    /// The other engine cannot have said that; the epoch must end.
    Corrupt,
    /// The host has no memory for what is asked for: the message is to be handed in again, before
    /// those behind it.
    Later,
}

impl From<Corrupt> for Unheard {
    fn from(_: Corrupt) -> Self {
        Unheard::Corrupt
    }
}

/// A connection of the other host's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guest {
    /// Its number, of the other host.
    pub number: u32,
    /// What it has asked for.
    pub want: Want,
    /// The token of what it is connected to.
    pub token: u32,
}

impl Guest {
    /// Whether its process may store into memory of this host.
    fn reaches_memory(&self) -> bool {
        self.want.object == Object::Segment
    }
}

/// What has happened. Connections are own ones unless they are guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A connection is there.
    Connected(u32, Grant),
    /// It will not be: the engine has forgotten it.
    Refused(u32, Why),
    /// The link is down.
    Down(u32),
    /// The link is back; the memory may be elsewhere.
    Up(u32, Grant),
    /// The owner asks to leave.
    Withdrawn(u32),
    /// It has ended for good. Nobody reaches the memory through it any more when the call returns.
    Lost(u32),
    /// A guest's link is down.
    GuestDown(Guest),
    /// A guest has resumed its connection.
    GuestUp(Guest),
    /// A guest has left, and does not reach the memory any more.
    GuestLeft(Guest),
    /// A guest's connection has ended, and it is not resumed. Of a segment, [`Event::LetGo`]
    /// follows.
    GuestLost(Guest),
    /// A guest whose connection was ended, or lost, does not reach the memory any more.
    LetGo(Guest),
    /// The answer to a question of that number, or below: see [`question`].
    Answered(u32),
    /// So many messages of a connection have been taken, altogether.
    Taken(u32, u32),
}

/// What an engine needs of its host, at once.
pub trait Host {
    /// A guest asks for an object, by its name unless that is none. Whatever is granted is the
    /// guest's until an event says that it has left, was lost, or has let go.
    ///
    /// # Errors
    /// Why it is granted nothing.
    fn accept(&mut self, guest: u32, want: &Want, name: &Name) -> Result<Grant, NoGrant>;

    /// A guest that was down asks for the same again.
    ///
    /// # Errors
    /// Why it is granted nothing; if it is refused, the guest is lost.
    fn accept_again(&mut self, guest: &Guest) -> Result<Grant, NoGrant>;

    /// Send a message to the other engine, in order.
    fn say(&mut self, message: Message);

    /// Something has happened.
    fn event(&mut self, event: Event);
}

/// Why a process cannot connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The link is down.
    Down,
    /// There are too many connections.
    Full,
    /// The peer has too much to answer just now: there may be room after each of its answers.
    Busy,
    /// The number is zero, or in use.
    Number,
}

/// A connection of this host's process.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    number: u32,
    want: Want,
    /// Nothing until the other host has answered.
    grant: Option<Grant>,
    state: State,
}

impl Ordered for Own {
    type Nodes = [Node; 1];

    fn number(&self) -> u32 {
        self.number
    }

    fn key(&self, _order: Order) -> Option<Key> {
        None
    }
}

/// Guests by the token of what they are connected to.
const TOKEN: Order = Order::nth(1);

/// Guests that have [ended](Stage::Ended), in one group.
const ENDED: Order = Order::nth(2);

/// Where a guest stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Connected.
    Up,
    /// The link is down.
    Down,
    /// Ended or lost: it is not proven that nobody reaches the memory by it.
    Ended,
}

/// An entry for a guest.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    guest: Guest,
    stage: Stage,
    /// It was asked to leave, or is to be asked when the link is back.
    withdrawn: bool,
}

impl Ordered for Entry {
    type Nodes = [Node; 3];

    fn number(&self) -> u32 {
        self.guest.number
    }

    fn key(&self, order: Order) -> Option<Key> {
        let number = u64::from(self.guest.number);
        match order {
            TOKEN => Some((u64::from(self.guest.token), number)),
            ENDED => (self.stage == Stage::Ended).then_some((0, number)),
            _ => None,
        }
    }
}

/// The connections of one link.
#[derive(Debug)]
pub struct Engine<O: Table<Own>, G: Table<Entry>> {
    own: Rows<Own, O>,
    guests: Rows<Entry, G>,
    is_up: bool,
    /// Connections that the other host has not answered, some of them left.
    unanswered: usize,
    /// The other service, as long as connections to it can be resumed.
    partner: Option<Life>,
}

impl<O: Table<Own>, G: Table<Entry>> Engine<O, G> {
    /// No connections, in tables that are empty.
    pub fn new(own: O, guests: G) -> Self {
        Engine {
            own: Rows::new(own),
            guests: Rows::new(guests),
            is_up: false,
            unanswered: 0,
            partner: None,
        }
    }

    /// Most messages that may still come of what cannot fail: [`leave`](Self::leave),
    /// [`withdraw`](Self::withdraw), [`end`](Self::end) and [`end_guest`](Self::end_guest). Each
    /// message that these say counts among them.
    pub fn owed(&self) -> usize {
        // That an own connection is left; that a guest is to leave, and that it is ended.
        self.own.len() + 2 * self.guests.len()
    }

    /// The same, with the messages that come of [`up`](Self::up).
    pub fn owed_by_up(&self) -> usize {
        self.owed() + self.own.len() + 1
    }

    /// Both services listen to each other from now on; the other one has that life.
    pub fn up(&mut self, partner: Life, host: &mut impl Host) {
        self.down(host);
        if self.partner != Some(partner) {
            self.give_up(host);
        }
        self.all_let_go(host);
        self.is_up = true;
        self.partner = Some(partner);
        for own in self.own.iter() {
            let (false, Some(grant)) = (own.state.is_lost(), own.grant) else {
                continue;
            };
            self.unanswered += 1;
            host.say(Message {
                connection: own.number,
                what: What::Resume(own.want, grant.token),
            });
        }
        host.say(Message {
            connection: 0,
            what: What::Resumed,
        });
    }

    /// The services do not listen to each other any more.
    pub fn down(&mut self, host: &mut impl Host) {
        if !core::mem::replace(&mut self.is_up, false) {
            return;
        }
        self.unanswered = 0;
        self.own.retain(|own| {
            if own.grant.is_none() {
                host.event(Event::Refused(own.number, Why::Down));
                return false;
            }
            if own.want.object == Object::Port {
                lose(own, host);
            } else if own.state.apply(Change::Down) {
                host.event(Event::Down(own.number));
            }
            true
        });
        self.guests.retain(|entry| {
            let guest = entry.guest;
            match entry.stage {
                Stage::Ended if guest.reaches_memory() => {}
                Stage::Ended => {
                    host.event(Event::LetGo(guest));
                    return false;
                }
                _ if guest.want.object == Object::Port => {
                    host.event(Event::GuestLost(guest));
                    return false;
                }
                Stage::Up => {
                    entry.stage = Stage::Down;
                    host.event(Event::GuestDown(guest));
                }
                Stage::Down => {}
            }
            true
        });
    }

    /// The link was down for so long that nothing is resumed.
    pub fn give_up(&mut self, host: &mut impl Host) {
        if self.is_up {
            return;
        }
        self.partner = None;
        self.own.retain(|own| {
            lose(own, host);
            true
        });
        self.guests.retain(|entry| {
            if entry.stage == Stage::Ended {
                return true;
            }
            host.event(Event::GuestLost(entry.guest));
            entry.stage = Stage::Ended;
            entry.guest.reaches_memory()
        });
    }

    /// The processes of the other service reach nothing any more that was theirs: that service has
    /// ended, or a new epoch begins.
    pub fn all_let_go(&mut self, host: &mut impl Host) {
        self.guests.retain_in(ENDED, 0, |entry| {
            host.event(Event::LetGo(entry.guest));
            false
        });
    }

    /// A process connects, to what has that name unless it is none: [`Event::Connected`] or
    /// [`Event::Refused`] follows. The caller has seen to it that both services have the
    /// [features](Want::features).
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn connect(
        &mut self,
        number: u32,
        want: &Want,
        name: &Name,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        if !self.is_up {
            return Err(Refusal::Down);
        }
        if number == 0 || find(&self.own, number).is_some() {
            return Err(Refusal::Number);
        }
        if self.unanswered >= UNANSWERED {
            return Err(Refusal::Busy);
        }
        let own = Own {
            number,
            want: *want,
            grant: None,
            state: State::CONNECTING,
        };
        self.own.insert(own).ok_or(Refusal::Full)?;
        self.unanswered += 1;
        host.say(Message {
            connection: number,
            what: What::Connect(*want, *name),
        });
        Ok(())
    }

    /// A process has left, and does not reach the memory any more; or it does not wait for the
    /// answer. So many messages has it sent.
    pub fn leave(&mut self, number: u32, sent: u32, host: &mut impl Host) {
        let Some(own) = find(&self.own, number) else {
            return;
        };
        if self.is_up && !own.state.is_lost() {
            host.say(Message {
                connection: number,
                what: What::Leave(sent),
            });
        }
        self.own.remove(number);
    }

    /// The state of a connection.
    pub fn state(&self, number: u32) -> Option<State> {
        Some(find(&self.own, number)?.state)
    }

    /// The other engine has said something.
    ///
    /// # Errors
    /// Why it has changed nothing.
    pub fn receive(&mut self, message: &Message, host: &mut impl Host) -> Result<(), Unheard> {
        if !self.is_up {
            return Ok(());
        }
        let number = message.connection;
        if message.what.is_answer() {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
        match message.what {
            What::Connect(want, name) => self.hear_connect(number, want, &name, host)?,
            What::Resume(want, token) => self.hear_resume(number, want, token, host)?,
            What::Resumed => self.hear_resumed(host),
            What::Leave(_) => self.left(number, host),
            What::Gone => self.hear_gone(number, host)?,
            What::Connected(grant) => self.hear_connected(number, grant, host)?,
            What::Refused(why) => self.hear_refused(number, why, host)?,
            What::Withdrawn => drop(self.hear_withdrawn(number, host)?),
            What::Ended => self.hear_ended(number, host)?,
            What::Ask => host.say(Message {
                connection: number,
                what: What::Answer,
            }),
            What::Answer => host.event(Event::Answered(number)),
            What::Taken(total) => {
                if find(&self.own, number).is_some_and(|own| own.want.object != Object::Port) {
                    return Err(Unheard::Corrupt);
                }
                host.event(Event::Taken(number, total));
            }
            // The caller deals with them, ahead of what waits for this engine.
            What::Fetch(_) | What::Placed(_) => {}
        }
        Ok(())
    }

    fn hear_connected(
        &mut self,
        number: u32,
        grant: Grant,
        host: &mut impl Host,
    ) -> Result<(), Corrupt> {
        let Some(mut own) = find_mut(&mut self.own, number) else {
            return Ok(());
        };
        let is_segment = own.want.object == Object::Segment;
        if grant.token == 0 || is_segment != (grant.len != 0) {
            return Err(Corrupt);
        }
        if own.state == State::CONNECTING {
            own.state.apply(Change::Up);
            own.grant = Some(grant);
            host.event(Event::Connected(number, grant));
            return Ok(());
        }
        let before = own.grant.ok_or(Corrupt)?;
        let is_same = Grant { off: 0, ..before } == Grant { off: 0, ..grant };
        if !is_same || !own.state.apply(Change::Up) {
            return Err(Corrupt);
        }
        own.grant = Some(grant);
        host.event(Event::Up(number, grant));
        Ok(())
    }

    fn hear_refused(&mut self, number: u32, why: Why, host: &mut impl Host) -> Result<(), Corrupt> {
        let Some(mut own) = find_mut(&mut self.own, number) else {
            return Ok(());
        };
        if own.state == State::CONNECTING {
            drop(own);
            self.own.remove(number);
            host.event(Event::Refused(number, why));
            return Ok(());
        }
        if own.state.is_operational() || own.state.is_lost() {
            return Err(Corrupt);
        }
        lose(&mut own, host);
        Ok(())
    }

    /// The connection that is to leave, if it is still there.
    fn hear_withdrawn(
        &mut self,
        number: u32,
        host: &mut impl Host,
    ) -> Result<Option<Edit<'_, Own, O>>, Corrupt> {
        let Some(mut own) = find_mut(&mut self.own, number) else {
            return Ok(None);
        };
        if !own.state.is_operational() {
            return Err(Corrupt);
        }
        if own.state.apply(Change::Withdraw) {
            host.event(Event::Withdrawn(number));
        }
        Ok(Some(own))
    }

    /// Whoever is ended was to leave, whether that was said before or not.
    fn hear_ended(&mut self, number: u32, host: &mut impl Host) -> Result<(), Corrupt> {
        let Some(mut own) = self.hear_withdrawn(number, host)? else {
            return Ok(());
        };
        lose(&mut own, host);
        host.say(Message {
            connection: number,
            what: What::Gone,
        });
        Ok(())
    }
}

/// End a connection for good, once.
fn lose(own: &mut Own, host: &mut impl Host) {
    if own.state.apply(Change::Lose) {
        host.event(Event::Lost(own.number));
    }
}
