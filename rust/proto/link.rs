// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The link to one peer: from nobody there to an epoch with rings, and back (design 4.1 to 4.3).
//!
//! Both sides run the same machine. Its inputs are what the caller saw and the time; its outputs
//! are [`Actions`], which the caller carries out in order before it calls again. Times are
//! nanoseconds of a monotonic clock.
//!
//! | state | meaning | leaves when |
//! |---|---|---|
//! | `Down` | the NTB has no link | the NTB has one |
//! | `Boot` | mailbox published, echo of our generation awaited | it came: asks for the window |
//! | `Mapping` | the caller maps the window | it says how that went |
//! | `Mapped` | Hellos are exchanged through memory | the peer echoes our epoch |
//! | `Up` | the epoch lives: rings, heartbeats | anything goes wrong or ends |
//! | `Hold` | pause after corrupt memory or a window that cannot be mapped | the pause is over |
//! | `Stopped` | shut down for good | never |
//!
//! The rules that make it converge whatever the order of events:
//!
//! 1. The own generation is new whenever `Boot` is entered from `Up`, from a silent peer, from
//!    `Hold` or from `Down`. In `Mapped`, a new generation of the *peer* is followed with the own
//!    generation unchanged, so that two hosts cannot chase each other.
//! 2. The peer's memory is written only after its mailbox has echoed the own generation, which
//!    shows that it is alive and has seen this attempt.
//! 3. The own status page is zeroed before a generation or an echo is published for the first
//!    time: no peer can have written there for the attempt that follows.
//! 4. Every engagement has a new random epoch; the link is up when each has echoed the other's.
//!    Hello and heartbeat are repeated at every beat, so that no single lost write matters.

mod hello;
mod waiting;

pub use hello::{
    read_beat, write_beat, Further, Hello, Identity, Role, FEATURE_OTHER_ROOT, HELLO_SIZE,
};
pub use waiting::{Patience, WaitsFor, PATIENCE};

use crate::layout::Layout;
use crate::mailbox::{Mail, MailRead};
use crate::version::{Support, Terms};
use crate::wire::Tag;

const MS: u64 = 1_000_000;

/// A source of random numbers that no peer can guess.
pub trait Rng {
    /// The next number.
    fn next_u64(&mut self) -> u64;
}

/// Times of the link, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// From one heartbeat to the next.
    pub beat: u64,
    /// Silence after which the peer counts as gone.
    pub timeout: u64,
    /// First pause after corrupt memory; doubled each time.
    pub backoff_min: u64,
    /// Longest pause.
    pub backoff_max: u64,
    /// The link was up for so long: the next pause is the first one again.
    pub stable: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            beat: 50 * MS,
            timeout: 600 * MS,
            backoff_min: 20 * MS,
            backoff_max: 1000 * MS,
            stable: 5000 * MS,
        }
    }
}

/// Whether what a Hello says for a whole epoch differs.
fn is_altered(now: &Hello, before: &Hello) -> bool {
    now.layout != before.layout || now.further != before.further || now.support != before.support
}

/// Why an epoch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownReason {
    /// The NTB lost its link.
    NtbLink,
    /// No sign of life within [`Config::timeout`].
    PeerSilent,
    /// The peer said goodbye.
    PeerLeft,
    /// The peer started a new attempt.
    PeerRestarted,
    /// The peer wrote what cannot be.
    Corrupt,
    /// This side shuts down.
    Shutdown,
}

/// What the caller has to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Zero the status page of the own inbound memory, before the actions that follow.
    ResetInbound,
    /// Put this into the mailbox that the peer reads; comes again until the peer has answered.
    PublishMailbox(Mail),
    /// Put zero into the mailbox that the peer reads.
    ClearMailbox,
    /// Make the peer's memory reachable and report by [`Link::mapped`]; the last of its list.
    MapWindow {
        /// Bytes of the peer's inbound memory, as it claims.
        len: u64,
        /// Its bus address, for a sender that programs the translation.
        addr: u64,
    },
    /// Stop all access to the peer's memory, outstanding copies included.
    UnmapWindow,
    /// [`Hello::write`] this.
    WriteHello(Hello),
    /// [`write_beat`] this.
    Beat(u64),
    /// The epoch begins: set up rings and tell the upper layers.
    LinkUp {
        /// The own epoch.
        local_epoch: u64,
        /// The peer.
        peer: Hello,
        /// The version and the features of this epoch.
        terms: Terms,
    },
    /// The epoch is over: stop its rings and tell the upper layers, before the actions that follow.
    LinkDown(DownReason),
    /// The peer's identity or features changed within the epoch.
    PeerChanged(Identity),
    /// The peer cannot be understood; once per reason until a link was up, and at most once in
    /// [`Config::backoff_max`].
    ReportVersion(Mismatch),
}

/// In what two hosts differ that cannot understand each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// The peer has this version of the bootstrap.
    Bootstrap(u8),
    /// The peer speaks these wire versions, and this host none of them.
    Wire(Support),
}

const MAX_ACTIONS: usize = 6;

/// How often a peer may change its identity in one epoch, within [`Config::stable`]. An endpoint is
/// named when its root processor is found, and by each other one; a change takes the caller a grace
/// period.
const MAX_CHANGES: u32 = 16;

/// What to do after an input, in order.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Actions {
    list: [Option<Action>; MAX_ACTIONS],
    len: usize,
}

impl Actions {
    fn push(&mut self, action: Action) {
        if let Some(place) = self.list.get_mut(self.len) {
            *place = Some(action);
            self.len += 1;
        }
    }

    /// They, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Action> {
        self.list.iter().flatten()
    }
}

impl IntoIterator for Actions {
    type Item = Action;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<Action>, MAX_ACTIONS>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter().flatten()
    }
}

/// Where the link stands; see the module's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The NTB has no link.
    Down,
    /// The peer's answer is awaited.
    Boot,
    /// The caller maps the window.
    Mapping,
    /// Hellos are exchanged.
    Mapped,
    /// The epoch lives.
    Up,
    /// Pausing.
    Hold,
    /// Shut down.
    Stopped,
}

/// What a host brings into its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// Bus address of the inbound memory for this peer, aligned to
    /// [`mailbox::ALIGN`](crate::mailbox::ALIGN).
    pub addr: u64,
    /// Its division.
    pub layout: Layout,
    /// The further windows for this peer.
    pub further: Further,
    /// Who this host is to the peer.
    pub identity: Identity,
    /// The wire versions that this host speaks.
    pub support: Support,
}

/// What was found in a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nobody,
    /// A mail before; now nothing, as is found for a moment while one is written.
    Emptied,
    OtherVersion,
    Mail,
}

/// The machine.
#[derive(Debug)]
pub struct Link<R> {
    config: Config,
    local: Local,
    rng: R,
    state: State,
    generation: u16,
    echo: u16,
    /// The peer's mail as last read; in `Mapping` and later the one that was engaged.
    mail: Option<Mail>,
    /// What was found in the peer's mailbox last.
    found: Found,
    /// What the attempt before this one has failed for.
    failed_for: Option<WaitsFor>,
    reported: Option<Mismatch>,
    /// Nothing is reported before, so that a peer of many versions does not fill a log.
    quiet_until: u64,
    epoch: u64,
    peer: Option<Hello>,
    window: u64,
    beat: u64,
    last_beat: u64,
    last_life: u64,
    next_beat: u64,
    hold_until: u64,
    backoff: u64,
    up_since: u64,
    /// Changes of the peer's identity in the epoch since `changes_since`.
    changes: u32,
    changes_since: u64,
}

impl<R: Rng> Link<R> {
    /// A link without an NTB link.
    pub fn new(config: Config, local: Local, rng: R) -> Self {
        Link {
            config,
            local,
            rng,
            state: State::Down,
            generation: 0,
            echo: 0,
            mail: None,
            found: Found::Nobody,
            failed_for: None,
            reported: None,
            quiet_until: 0,
            epoch: 0,
            peer: None,
            window: 0,
            beat: 0,
            last_beat: 0,
            last_life: 0,
            next_beat: 0,
            hold_until: 0,
            backoff: config.backoff_min,
            up_since: 0,
            changes: 0,
            changes_since: 0,
        }
    }

    /// Where the link stands.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// What the link waits for; `None` while it is up, and after [`Self::shutdown`].
    pub fn waits_for(&self) -> Option<WaitsFor> {
        Some(match self.state {
            State::Up | State::Stopped => return None,
            State::Down => WaitsFor::NtbLink,
            State::Mapping => WaitsFor::Window,
            State::Mapped if self.peer.is_none() => WaitsFor::Hello,
            State::Mapped => WaitsFor::Echo,
            State::Hold => self.failed_for.unwrap_or(WaitsFor::Pause),
            State::Boot => match self.found {
                Found::Nobody => WaitsFor::Mailbox,
                Found::OtherVersion => WaitsFor::Version,
                // Attempts follow each other: the wait for an answer is the shortest part of each.
                Found::Mail | Found::Emptied => self.failed_for.unwrap_or(WaitsFor::Answer),
            },
        })
    }

    /// The tags of the epoch's control words: those this side writes and those of the peer.
    /// `None` unless the link is up.
    pub fn tags(&self) -> Option<(Tag, Tag)> {
        let peer = self.peer.filter(|_| self.state == State::Up)?;
        let tx = Tag::new(self.epoch, peer.epoch);
        let rx = Tag::new(peer.epoch, self.epoch);
        Some((tx, rx))
    }

    /// When [`Self::tick`] has something to do at the latest; `None` when it never will.
    pub fn deadline(&self) -> Option<u64> {
        match self.state {
            State::Down | State::Mapping | State::Stopped => None,
            State::Hold => Some(self.hold_until),
            State::Boot => Some(self.next_beat),
            State::Mapped | State::Up => {
                let silent = self.last_life.saturating_add(self.config.timeout);
                Some(self.next_beat.min(silent.saturating_add(1)))
            }
        }
    }

    /// The NTB's link as it is now; to be repeated at will.
    pub fn ntb_link(&mut self, up: bool, now: u64) -> Actions {
        let mut todo = Actions::default();
        match (self.state, up) {
            (State::Stopped, _) => {}
            (State::Down, true) => self.boot(now, &mut todo),
            (State::Down, false) | (_, true) => {}
            (_, false) => {
                self.leave(DownReason::NtbLink, &mut todo);
                self.mail = None;
                (self.found, self.failed_for) = (Found::Nobody, None);
                self.state = State::Down;
            }
        }
        todo
    }

    /// The peer's mailbox as it was just read, or a mail that came by messages.
    pub fn mailbox(&mut self, read: MailRead, now: u64) -> Actions {
        let mut todo = Actions::default();
        if !self.listens() {
            return todo;
        }
        match read {
            MailRead::Unclear => {}
            MailRead::Nobody => self.empty_mailbox(),
            MailRead::Version(v) => {
                self.found = Found::OtherVersion;
                self.report(Mismatch::Bootstrap(v), now, &mut todo);
            }
            MailRead::Mail(mail) => {
                self.found = Found::Mail;
                self.peer_mail(mail, now, &mut todo);
            }
        }
        todo
    }

    /// How [`Action::MapWindow`] went: the bytes that can be reached, or `None`. Ignored when the
    /// window is not wanted any more.
    pub fn mapped(&mut self, window: Option<u64>, now: u64) -> Actions {
        let mut todo = Actions::default();
        if self.state != State::Mapping {
            return todo;
        }
        match window {
            None => {
                self.failed_for = Some(WaitsFor::Window);
                self.disengage(&mut todo);
                self.hold(now, &mut todo);
            }
            Some(window) => {
                self.window = window;
                self.state = State::Mapped;
                self.last_life = now;
                self.speak(now, &mut todo);
            }
        }
        todo
    }

    /// What stands in the own status page: [`Hello::read`] and [`read_beat`]. Call it before
    /// [`Self::tick`], so that a late caller does not take itself for a silent peer.
    // Not inlined: with the Hello, a caller in a kernel has much on its stack.
    #[inline(never)]
    pub fn observe(&mut self, hello: Option<Hello>, beat: u64, now: u64) -> Actions {
        let mut todo = Actions::default();
        if !matches!(self.state, State::Mapped | State::Up) {
            return todo;
        }
        if beat != self.last_beat {
            self.last_beat = beat;
            self.last_life = now;
        }
        match (hello, self.peer) {
            (None, _) => {}
            (Some(hello), None) => self.first_hello(hello, now, &mut todo),
            (Some(hello), Some(_)) if self.state == State::Mapped => {
                self.first_hello(hello, now, &mut todo);
            }
            (Some(hello), Some(peer)) => self.next_hello(hello, peer, now, &mut todo),
        }
        todo
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64) -> Actions {
        let mut todo = Actions::default();
        match self.state {
            State::Down | State::Mapping | State::Stopped => {}
            State::Hold => {
                if now >= self.hold_until {
                    self.boot(now, &mut todo);
                }
            }
            State::Boot => {
                if now >= self.next_beat {
                    self.publish(now, &mut todo);
                }
            }
            State::Mapped | State::Up => {
                if now.saturating_sub(self.last_life) > self.config.timeout {
                    self.failed_for = self.waits_for();
                    self.leave(DownReason::PeerSilent, &mut todo);
                    self.boot(now, &mut todo);
                } else if now >= self.next_beat {
                    if self.state == State::Mapped {
                        self.publish(now, &mut todo);
                    }
                    self.speak(now, &mut todo);
                }
            }
        }
        todo
    }

    /// The peer wrote what cannot be, in a ring or elsewhere.
    pub fn corrupt(&mut self, now: u64) -> Actions {
        let mut todo = Actions::default();
        if matches!(self.state, State::Mapped | State::Up) {
            self.reject(now, &mut todo);
        }
        todo
    }

    /// Tell the peer who this host is from now on.
    pub fn set_identity(&mut self, identity: Identity, now: u64) -> Actions {
        let mut todo = Actions::default();
        self.local.identity = identity;
        if matches!(self.state, State::Mapped | State::Up) {
            self.speak(now, &mut todo);
        }
        todo
    }

    /// Leave for good, with a goodbye where the peer can be reached.
    pub fn shutdown(&mut self) -> Actions {
        let mut todo = Actions::default();
        if self.state != State::Stopped {
            self.leave(DownReason::Shutdown, &mut todo);
            todo.push(Action::ClearMailbox);
            self.state = State::Stopped;
        }
        todo
    }

    fn listens(&self) -> bool {
        !matches!(self.state, State::Down | State::Stopped)
    }

    /// The peer's mailbox is empty. It is believed at the second time.
    fn empty_mailbox(&mut self) {
        self.found = match self.found {
            Found::Mail => Found::Emptied,
            _ => Found::Nobody,
        };
        if (self.found, self.state) == (Found::Nobody, State::Boot) {
            self.failed_for = None;
        }
    }

    /// End what was begun with the peer; the caller sets the next state. A goodbye is written
    /// only where the peer's memory is known to be still the one that was engaged.
    fn leave(&mut self, reason: DownReason, todo: &mut Actions) {
        if self.state == State::Up {
            todo.push(Action::LinkDown(reason));
        }
        let reachable = matches!(self.state, State::Mapped | State::Up);
        if reachable && matches!(reason, DownReason::Corrupt | DownReason::Shutdown) {
            let mut hello = self.hello();
            hello.goodbye = true;
            todo.push(Action::WriteHello(hello));
        }
        self.disengage(todo);
    }

    /// Let the peer's memory go, without a word to the peer.
    fn disengage(&mut self, todo: &mut Actions) {
        if matches!(self.state, State::Mapping | State::Mapped | State::Up) {
            todo.push(Action::UnmapWindow);
        }
        self.peer = None;
        self.epoch = 0;
    }

    /// Start an attempt with a new generation.
    fn boot(&mut self, now: u64, todo: &mut Actions) {
        let old = self.generation;
        let fresh = (self.rng.next_u64() & 0xffff) as u16;
        self.generation = match fresh {
            0 => old.wrapping_add(1).max(1),
            same if same == old => old.wrapping_add(1).max(1),
            fresh => fresh,
        };
        self.echo = self.mail.map_or(0, |m| m.generation);
        self.state = State::Boot;
        todo.push(Action::ResetInbound);
        self.publish(now, todo);
    }

    fn publish(&mut self, now: u64, todo: &mut Actions) {
        self.next_beat = now.saturating_add(self.config.beat);
        todo.push(Action::PublishMailbox(Mail {
            generation: self.generation,
            echo: self.echo,
            len: self.local.layout.len,
            addr: self.local.addr,
        }));
    }

    fn hello(&self) -> Hello {
        Hello {
            goodbye: false,
            epoch: self.epoch,
            echo: self.peer.map_or(0, |p| p.epoch),
            identity: self.local.identity,
            layout: self.local.layout,
            further: self.local.further,
            support: self.local.support,
        }
    }

    fn report(&mut self, what: Mismatch, now: u64, todo: &mut Actions) {
        if self.reported != Some(what) && now >= self.quiet_until {
            self.reported = Some(what);
            self.quiet_until = now.saturating_add(self.config.backoff_max);
            todo.push(Action::ReportVersion(what));
        }
    }

    /// Hello and heartbeat.
    fn speak(&mut self, now: u64, todo: &mut Actions) {
        self.next_beat = now.saturating_add(self.config.beat);
        self.beat = self.beat.wrapping_add(1);
        todo.push(Action::WriteHello(self.hello()));
        todo.push(Action::Beat(self.beat));
    }

    fn peer_mail(&mut self, mail: Mail, now: u64, todo: &mut Actions) {
        let engaged = self.mail.replace(mail);
        let same = engaged.is_some_and(|e| e.generation == mail.generation);
        match self.state {
            State::Down | State::Hold | State::Stopped => return,
            State::Mapping | State::Mapped | State::Up if same => return,
            State::Up => {
                self.leave(DownReason::PeerRestarted, todo);
                self.boot(now, todo);
                return;
            }
            State::Mapping | State::Mapped => {
                self.leave(DownReason::PeerRestarted, todo);
                self.state = State::Boot;
            }
            State::Boot => {}
        }
        if self.echo != mail.generation {
            self.echo = mail.generation;
            todo.push(Action::ResetInbound);
            self.publish(now, todo);
        }
        if mail.echo == self.generation {
            self.engage(mail, todo);
        }
    }

    fn engage(&mut self, mail: Mail, todo: &mut Actions) {
        self.epoch = self.rng.next_u64().max(1);
        self.beat = self.epoch;
        self.last_beat = 0;
        self.state = State::Mapping;
        todo.push(Action::MapWindow {
            len: mail.len,
            addr: mail.addr,
        });
    }

    /// A Hello before the link is up.
    fn first_hello(&mut self, hello: Hello, now: u64, todo: &mut Actions) {
        if hello.goodbye {
            return;
        }
        // The peer finds the same, in the Hello that was written when its window was mapped.
        let Some(terms) = self.local.support.agree(hello.support) else {
            self.failed_for = Some(WaitsFor::Version);
            self.report(Mismatch::Wire(hello.support), now, todo);
            self.disengage(todo);
            self.hold(now, todo);
            return;
        };
        if hello.layout.validate(self.window).is_err() {
            self.reject(now, todo);
            return;
        }
        let known = self.peer.is_some_and(|p| p.epoch == hello.epoch);
        self.peer = Some(hello);
        if !known {
            self.last_life = now;
            self.speak(now, todo);
        }
        if hello.echo == self.epoch {
            self.state = State::Up;
            self.up_since = now;
            (self.changes, self.changes_since) = (0, now);
            self.reported = None;
            self.failed_for = None;
            todo.push(Action::LinkUp {
                local_epoch: self.epoch,
                peer: hello,
                terms,
            });
        }
    }

    /// A Hello while the link is up.
    fn next_hello(&mut self, hello: Hello, peer: Hello, now: u64, todo: &mut Actions) {
        if hello.epoch != peer.epoch || hello.echo != self.epoch {
            self.leave(DownReason::PeerRestarted, todo);
            self.boot(now, todo);
        } else if hello.goodbye {
            self.leave(DownReason::PeerLeft, todo);
            self.boot(now, todo);
        } else if is_altered(&hello, &peer) {
            self.reject(now, todo);
        } else if hello.identity != peer.identity {
            self.change(hello, now, todo);
        }
    }

    /// The peer has another identity. One that has too many of them does not behave.
    fn change(&mut self, hello: Hello, now: u64, todo: &mut Actions) {
        if now.saturating_sub(self.changes_since) >= self.config.stable {
            (self.changes, self.changes_since) = (0, now);
        }
        self.changes += 1;
        if self.changes > MAX_CHANGES {
            self.reject(now, todo);
            return;
        }
        self.peer = Some(hello);
        todo.push(Action::PeerChanged(hello.identity));
    }

    fn reject(&mut self, now: u64, todo: &mut Actions) {
        self.failed_for = Some(WaitsFor::Pause);
        self.leave(DownReason::Corrupt, todo);
        self.hold(now, todo);
    }

    /// Pause, longer each time, so that a peer that never behaves costs little.
    fn hold(&mut self, now: u64, todo: &mut Actions) {
        if self.up_since != 0 && now.saturating_sub(self.up_since) >= self.config.stable {
            self.backoff = self.config.backoff_min;
        }
        self.up_since = 0;
        self.hold_until = now.saturating_add(self.backoff);
        self.backoff = self.backoff.saturating_mul(2).min(self.config.backoff_max);
        self.state = State::Hold;
        todo.push(Action::ClearMailbox);
    }
}
