// SPDX-License-Identifier: GPL-2.0-only

//! The user service's end of a link: finds out whether the other host's service is
//! there, and has the two pairing engines agree.
//!
//! A link exists as long as its interface. Messages arrive in softirq context and wait
//! in the [`Inbox`](crate::inbox::Inbox); the link's worker, and calls of processes, run
//! the engine under the link's mutex. Whatever the engine decides is carried out before
//! the mutex is released.
//!
//! * [`requests`]: sessions of this host. [`windows`]: those of the peer.
//! * [`offers`]: events and ports.

use crate::{
    asked::{
        Asked,
        Waiter, //
    },
    bells::Bells,
    connection::{
        Connection,
        Goal, //
    },
    desk::{
        Desk,
        Ending, //
    },
    inbox::{
        Inbox,
        Mail, //
    },
    leaving::Leaving,
    numbered::{
        self,
        Keyed, //
    },
    offer::{
        Offer,
        Offered, //
    },
    outbox::{
        Outbox,
        Signal,
        Waiting, //
    },
    per_user::PerUser,
    placed::{
        Server,
        Serving,
        UnderWay, //
    },
    question::{
        Questions,
        Way, //
    },
    ready::{
        self,
        Watchers, //
    },
    segment::Segments,
    session::{
        Phase,
        Session, //
    },
    sharing::{
        Clerk,
        Far as FarEnd,
        Reached,
        Sharing, //
    },
    shortage::Shortage,
    uapi::MP_PEER_NONE,
    unsent::Unsent,
    window::Piece,
    FUNC, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    error,
    new_spinlock_bh,
    process::Payers,
    sync::SpinLockBh,
    time::monotonic_ns,
    worker::{
        new_worker,
        Work,
        Workqueue, //
    }, //
};
use mp_proto::{
    fabric::{
        Change,
        Greeting,
        Header,
        Life,
        MESSAGES,
        NAMES,
        PLACED,
        SUPPORT, //
    },
    pairing::{
        sessions,
        Engine,
        Far,
        Mode,
        Own, //
    },
    rows::Row,
    sharing::{
        self,
        message::{
            Message,
            What, //
        },
        Refusal,
        Unheard, //
    },
    turns::Lack, //
};
use mp_transport::{
    frame::RxFrame,
    interface::{
        Interface,
        Kind, //
    },
    memory::Memory,
    peer::Peer,
    service, //
};

#[path = "link/offers.rs"]
mod offers;
#[path = "link/requests.rs"]
mod requests;
#[path = "link/windows.rs"]
mod windows;

/// Most messages that the worker deals with before it lets others run.
const BATCH: usize = 64;

/// Milliseconds until something is tried again for which there was no memory.
pub(crate) const AGAIN_MS: u32 = 100;

/// The engine with tables on the heap.
pub(crate) type Pairing = Engine<KVVec<Row<Own>>, KVVec<Row<Far>>>;

/// Both services listen to each other.
///
/// # Invariants
///
/// There is room in `closed` for all sessions of the link that are not closed.
pub(crate) struct Up {
    /// The life of the other service.
    pub(crate) life: Life,
    /// What both services know of, [`NAMES`] and others.
    features: u16,
    pub(crate) memory: Arc<Memory>,
    pub(crate) engine: KBox<Pairing>,
    /// Memory that was cut and has no session yet.
    pub(crate) pieces: KVec<Arc<Piece>>,
    /// What the windows of the other host were posted with.
    pub(crate) data: numbered::List<Posted>,
    /// Sessions that are closed, of which the engine keeps the places.
    pub(crate) closed: numbered::List<Session>,
    /// The engine has something to say for which there was no memory.
    pub(crate) is_unsaid: bool,
    /// There are pairs of which their processes are told when all is said.
    pub(crate) has_paired: bool,
}

impl Up {
    /// Whether both services know of placed transfers.
    fn can_place(&self) -> bool {
        self.features & PLACED != 0
    }

    /// Whether messages to ports take a way of their own.
    fn has_way_for_messages(&self) -> bool {
        self.features & MESSAGES != 0
    }
}

/// What a session of the other host was posted with.
pub(crate) struct Posted {
    pub(crate) session: u32,
    pub(crate) data: KVec<u8>,
}

impl Keyed<u32> for Posted {
    fn key(&self) -> u32 {
        self.session
    }
}

/// The other service, for what is dealt with at once, without the link's mutex.
pub(crate) struct Partner {
    pub(crate) memory: Arc<Memory>,
    /// The last question that it has asked, and what answers it.
    asked: Arc<Atomic<u32>>,
    answer: Arc<Signal>,
}

impl Partner {
    /// The service with that life.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOBUFS`.
    fn new(outbox: &Outbox, life: Life, memory: Arc<Memory>) -> Result<Self> {
        let asked = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let answer = Signal::question(outbox, life, asked.clone(), false)?;
        Ok(Self {
            memory,
            asked,
            answer,
        })
    }
}

/// Connections of both ends, over all lives of the link.
struct Shared {
    engine: Sharing,
    reached: KVec<Reached>,
    asked: Asked,
    /// When connections do not wait for the link any more, in nanoseconds.
    give_up_at: Option<u64>,
}

/// What the link's mutex protects.
struct Core {
    shared: KBox<Shared>,
    /// While a peer is at the far end.
    peer: Option<(Arc<Outbox>, Greeting)>,
    up: Option<KBox<Up>>,
    /// The life and the features of a service that listens, until there is memory for what that
    /// takes. What it says waits.
    opening: Option<(Life, u16)>,
    /// The peer has been told of this service.
    is_greeted: bool,
    /// The peer's version has been reported as another one.
    is_version_told: bool,
    /// The interface has gone.
    removed: bool,
}

impl Keyed<u32> for Session {
    fn key(&self) -> u32 {
        self.number()
    }
}

impl Keyed<u32> for Connection {
    fn key(&self) -> u32 {
        self.number()
    }
}

/// The end of a link.
#[pin_data]
pub(crate) struct Link {
    interface: Arc<Interface>,
    /// The life of this service.
    life: Life,
    reconnect_timeout_ms: u32,
    /// All segments of the host.
    segments: Arc<Segments>,
    /// The last peer's id.
    peer_id: Atomic<u32>,
    #[pin]
    core: Mutex<Core>,
    /// While both services listen to each other.
    #[pin]
    partner: SpinLockBh<Option<Partner>>,
    /// All sessions of this link that are not closed.
    #[pin]
    sessions: SpinLockBh<numbered::List<Session>>,
    /// Contexts that want to know of changes.
    #[pin]
    pub(crate) watchers: Watchers,
    /// All connections of this host's processes.
    #[pin]
    connections: SpinLockBh<numbered::List<Connection>>,
    /// Events and ports that are offered here.
    #[pin]
    offered: SpinLockBh<Offered>,
    /// The ways from the peer's connections to them. There is room for as many as there may be.
    #[pin]
    pub(crate) bells: SpinLockBh<Bells>,
    /// Some of these are broken, for the worker to see to.
    has_broken: Atomic<bool>,
    /// Of this host's processes.
    #[pin]
    pub(crate) questions: Questions,
    /// Connections of the peer that were ended.
    #[pin]
    pub(crate) leaving: Leaving,
    /// Placed transfers of this host's processes.
    #[pin]
    under_way: UnderWay,
    /// Those of the peer's processes, to segments of this host.
    server: Arc<Server>,
    /// Where copies of this host's processes run.
    #[pin]
    pub(crate) lanes: PerUser<Workqueue>,
    /// How many messages of theirs wait.
    #[pin]
    pub(crate) unsent: PerUser<Unsent>,
    #[pin]
    pub(crate) inbox: Inbox,
    shortage: Arc<Shortage>,
}

impl Link {
    /// The end of the link that `interface` is, of the service with that life. When it is
    /// down, connections wait for it for `reconnect_timeout_ms` milliseconds (`SI-EVT-6`).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        interface: Arc<Interface>,
        life: Life,
        segments: Arc<Segments>,
        reconnect_timeout_ms: u32,
    ) -> Result<Arc<Self>> {
        let own = KVVec::from_elem(Row::FREE, sharing::CONNECTIONS, GFP_KERNEL)?;
        let guests = KVVec::from_elem(Row::FREE, sharing::CONNECTIONS, GFP_KERNEL)?;
        let shared = Shared {
            engine: Sharing::new(own, guests),
            reached: KVec::new(),
            asked: Asked::new(),
            give_up_at: None,
        };
        let shared = KBox::new(shared, GFP_KERNEL)?;
        let bells = Bells::new()?;
        Arc::pin_init(
            try_pin_init!(Self {
                interface,
                life,
                reconnect_timeout_ms,
                segments,
                peer_id: Atomic::new(MP_PEER_NONE),
                core <- new_mutex!(Core {
                    shared,
                    peer: None,
                    up: None,
                    opening: None,
                    is_greeted: false,
                    is_version_told: false,
                    removed: false,
                }),
                partner <- new_spinlock_bh!(None),
                sessions <- new_spinlock_bh!(numbered::List::new()),
                watchers <- Watchers::new(),
                connections <- new_spinlock_bh!(numbered::List::new()),
                offered <- new_spinlock_bh!(Offered::new()),
                bells <- new_spinlock_bh!(bells),
                has_broken: Atomic::new(false),
                questions <- Questions::new(),
                leaving <- Leaving::new(),
                under_way <- UnderWay::new(),
                server: new_worker!(Serving::new()?)?,
                lanes <- PerUser::new(),
                unsent <- PerUser::new(),
                inbox <- Inbox::new(),
                shortage: Arc::new(Shortage::new(), GFP_KERNEL)?,
            }),
            GFP_KERNEL,
        )
    }

    /// The interface.
    pub(crate) fn interface(&self) -> &Arc<Interface> {
        &self.interface
    }

    /// Whether processes of both hosts reach each other, and how much memory there is.
    pub(crate) fn memory(&self) -> Option<Arc<Memory>> {
        Some(self.core.lock().up.as_ref()?.memory.clone())
    }

    /// Whether its interface has gone.
    pub(crate) fn is_removed(&self) -> bool {
        self.core.lock().removed
    }

    /// These have happened to the interface.
    pub(crate) fn tell(&self, events: u32) {
        self.watchers.tell(events);
    }

    /// Find a session. Any context.
    pub(crate) fn session(&self, number: u32) -> Option<Arc<Session>> {
        self.sessions.lock().get(&number).cloned()
    }

    /// Whether it is the host's with itself, which has one end and no messages.
    pub(crate) fn is_loopback(&self) -> bool {
        self.interface.info().kind == Kind::Loopback
    }

    /// Whether another host forwards to the peer, and no window leads to its memory.
    pub(crate) fn is_routed(&self) -> bool {
        self.interface.info().kind == Kind::Routed
    }

    /// Call `f` with each session.
    pub(crate) fn for_each_session(&self, f: impl FnMut(&Arc<Session>)) {
        numbered::for_each(&self.sessions, f);
    }

    /// Tell processes of partners that they do not know of.
    pub(crate) fn announce(&self) {
        self.for_each_session(|session| session.announce());
    }

    /// Whoever asks for it signals a session of this host. Any context.
    pub(crate) fn signalled(&self, to: u32, from: u32) {
        if let Some(session) = self.session(to).filter(|s| s.is_partner(from)) {
            session.ready().raise(ready::SIGNAL);
        }
    }

    /// The peer at the far end has arrived; says hello.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the worker is to [run](Work::run), which tries again.
    pub(crate) fn peer_up(&self, outbox: Arc<Outbox>) -> Result {
        let mut core = self.core.lock();
        self.peer_id.store(outbox.peer().id().0, Relaxed);
        core.peer = Some((outbox, Greeting::new(self.life)));
        core.is_greeted = false;
        core.is_version_told = false;
        self.greet(&mut core)
    }

    /// Say hello to the peer, unless it has.
    fn greet(&self, core: &mut Core) -> Result {
        let Some((outbox, greeting)) = &core.peer else {
            return Ok(());
        };
        if core.is_greeted {
            return Ok(());
        }
        if !self.is_loopback() {
            outbox.greet(&greeting.hello())?;
            core.is_greeted = true;
            return Ok(());
        }
        // This service is its own partner.
        core.opening = Some((self.life, SUPPORT.features));
        core.is_greeted = true;
        self.open_up(core)
    }

    /// The peer leaves, or this service does, and says goodbye. Sleeps until that is sent.
    pub(crate) fn peer_down(&self) {
        let peer = {
            let mut core = self.core.lock();
            let peer = core.peer.take();
            self.close(&mut core, false, false);
            self.inbox.clear();
            peer
        };
        let Some((outbox, greeting)) = peer else {
            return;
        };
        if let Some(life) = greeting.partner() {
            let said = outbox.say(Waiting::Bye(life));
            if said.is_err() || !outbox.drain() {
                // Unless it has left already, it hears of the end in this way.
                outbox.peer().reset();
            }
        }
    }

    /// The bridge has failed: connections do not wait for the link (`SI-EVT-8`).
    pub(crate) fn failed(&self) {
        let mut core = self.core.lock();
        numbered::for_each(&self.connections, |connection| connection.failed());
        self.close(&mut core, true, false);
    }

    /// The interface has gone.
    pub(crate) fn removed(&self) {
        // What it does keeps this link, and runs code of this module.
        self.server.stop();
        let mut core = self.core.lock();
        core.removed = true;
        self.close(&mut core, true, false);
        self.for_each_session(|session| {
            session.answer_if_pending(Err(ENODEV));
            session.forsaken();
        });
        for number in self.offered.lock().iter() {
            Offer::each_of(number, Offer::forsaken);
        }
        self.tell(ready::OF_INTERFACES);
    }

    /// Deal with a message, in the order in which they have arrived.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: nothing has happened, and it is to be tried again. All others: the two sides do not
    /// agree any more.
    fn receive(&self, core: &mut Core, mail: &mut Mail) -> Result {
        let Some((outbox, greeting)) = &mut core.peer else {
            return Ok(());
        };
        let outbox = outbox.clone();
        let is_for_me = |greeting: &Greeting, life| match self.is_loopback() {
            true => life == self.life,
            false => greeting.accepts(life),
        };
        match mail.header {
            Header::Hello(hello) => {
                let hello = hello.with_data(&mail.data).ok_or_else(error::protocol)?;
                // For the answer.
                outbox.hold_another()?;
                let (answer, change) = greeting.receive(hello);
                let answer = answer.then(|| greeting.hello());
                match change {
                    // Before the answer: then the other service may use its memory anew.
                    Change::Closed | Change::Reopened => self.partner_ended(core, &outbox, false),
                    // It has heard of this service, and has ended what it had with one before it.
                    Change::Opened => nothing_is_reached(&outbox),
                    Change::None | Change::Version(_) => {}
                }
                match answer {
                    Some(hello) => outbox.say(Waiting::Hello(hello))?,
                    // A peer may repeat itself for ever.
                    None => outbox.give_back(),
                }
                self.follow(core, &outbox, change)
            }
            Header::Bye(life) => {
                if greeting.bye(life) == Change::Closed {
                    self.partner_ended(core, &outbox, true);
                }
                Ok(())
            }
            Header::Signal { life, to, from } => {
                if is_for_me(greeting, life) {
                    self.signalled(to, from);
                }
                Ok(())
            }
            Header::Sharing(life) if is_for_me(greeting, life) => {
                let message = Message::decode(&mail.data).ok_or_else(error::protocol)?;
                if self.is_early(core, &message)? {
                    return Ok(());
                }
                let received = self.with_shared(core, |engine, clerk| {
                    clerk.reserve(engine)?;
                    let received = engine.receive(&message, clerk);
                    if message.what.is_answer() {
                        clerk.asked.answered(message.connection);
                    }
                    Ok::<_, Error>(received)
                })??;
                received.map_err(|why| match why {
                    Unheard::Corrupt => error::protocol(),
                    Unheard::Later => ENOMEM,
                })
            }
            Header::Message { life, from, .. } if is_for_me(greeting, life) => {
                match self.deliver(from, core::mem::take(&mut mail.data)) {
                    Ok(true) => self.with_shared(core, |engine, clerk| engine.left(from, clerk)),
                    Ok(false) => Ok(()),
                    Err(_) => {
                        self.lose_message(from);
                        self.end_broken(core)
                    }
                }
            }
            // Triggers do not wait, nor do pieces of segments, nor stores.
            Header::Sharing(_)
            | Header::Message { .. }
            | Header::Trigger { .. }
            | Header::Put { .. }
            | Header::Fetched { .. }
            | Header::Stores(_) => Ok(()),
            Header::Pairing(life) => match &mut core.up {
                Some(up) if greeting.accepts(life) => {
                    let mut desk = Desk::new(self, &outbox, up);
                    desk.receive(&mail.data)?;
                    desk.finish()
                }
                _ => Ok(()),
            },
        }
    }

    /// Carry out what the greeting has found.
    fn follow(&self, core: &mut Core, outbox: &Arc<Outbox>, change: Change) -> Result {
        if let Change::Version(theirs) = change {
            if core::mem::replace(&mut core.is_version_told, true) {
                return Ok(());
            }
            let own = mp_proto::fabric::SUPPORT;
            pr_err!(
                "peer {:08x}: its mp_func_user speaks versions {} to {}, this host's {} to {}: load a newer release on {}\n",
                outbox.peer().id().0,
                theirs.oldest,
                theirs.newest,
                own.oldest,
                own.newest,
                if own.is_older_than(theirs) { "this host" } else { "the peer" },
            );
        }
        if matches!(change, Change::Opened | Change::Reopened) {
            let agreed = core
                .peer
                .as_ref()
                .and_then(|(_, g)| g.partner().zip(g.terms()));
            let (life, terms) = agreed.ok_or_else(error::protocol)?;
            core.opening = Some((life, terms.features));
        }
        Ok(())
    }

    /// Begin a new life of the link, if a service listens for which that has not been done.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: it is to be tried again. `EOPNOTSUPP`, `EINVAL`, `ENOBUFS`.
    fn open_up(&self, core: &mut Core) -> Result {
        let (Some((life, features)), Some((outbox, _))) = (core.opening, &core.peer) else {
            return Ok(());
        };
        let outbox = outbox.clone();
        let up = self.open(outbox.peer(), life, features)?;
        let partner = Partner::new(&outbox, life, up.memory.clone())?;
        let way = self.questions.way(&outbox, life)?;
        outbox.hold(core.shared.engine.owed_by_up())?;
        core.opening = None;
        core.up = Some(up);
        self.opened(core, &outbox, partner, way);
        Ok(())
    }

    /// Make the engine for a new life of the link, of which both services know these features.
    fn open(&self, peer: &Arc<Peer>, life: Life, features: u16) -> Result<KBox<Up>> {
        let memory = peer.memory().ok_or_else(error::unsupported)?;
        let mode = match self.is_loopback() {
            true => Mode::Loopback,
            false if service::self_id().0 < peer.id().0 => Mode::Arbiter,
            false => Mode::Asker,
        };
        let extended = features & NAMES != 0;
        let most = sessions(extended);
        let places = KVVec::from_elem(Row::FREE, most, GFP_KERNEL)?;
        let far = KVVec::from_elem(Row::FREE, most, GFP_KERNEL)?;
        let total = memory.limits().remote_total;
        let engine = Engine::new(mode, total, extended, places, far);
        let mut closed = numbered::List::new();
        closed.reserve_more(self.sessions.lock().len(), GFP_KERNEL)?;
        // INVARIANT: No session is entered before this is the one of the link.
        let up = Up {
            life,
            features,
            memory,
            engine: KBox::new(engine.ok_or(EINVAL)?, GFP_KERNEL)?,
            pieces: KVec::new(),
            data: numbered::List::new(),
            closed,
            is_unsaid: false,
            has_paired: false,
        };
        Ok(KBox::new(up, GFP_KERNEL)?)
    }

    /// Post again what waits for a partner: processes reach each other.
    fn opened(&self, core: &mut Core, outbox: &Arc<Outbox>, partner: Partner, way: Way) {
        let Some(up) = &mut core.up else { return };
        let mut desk = Desk::new(self, outbox, up);
        self.for_each_session(|session| {
            session.find_again();
            if session.phase() == Phase::Posted {
                desk.post_again(session);
            }
        });
        if desk.finish().is_err() {
            outbox.peer().reset();
        }
        let life = up.life;
        let old = self.partner.lock().replace(partner);
        drop(old);
        self.questions.open(way);
        core.shared.give_up_at = None;
        let shared = self.with_shared(core, |engine, clerk| engine.up(life, clerk));
        if shared.is_err() {
            outbox.peer().reset();
        }
        self.tell(ready::OF_INTERFACES);
    }

    /// The other service has ended, and its processes have let go of everything: what
    /// they reached need not wait for the end of the epoch. With `for_good` it does not come
    /// back.
    fn partner_ended(&self, core: &mut Core, outbox: &Outbox, for_good: bool) {
        nothing_is_reached(outbox);
        self.end_shared(core, for_good, true);
        self.close(core, for_good, true);
    }

    /// End what processes share in this life of the link, and with `for_good` altogether.
    /// `has_let_go` is whether the other service's processes reach nothing of it any more.
    fn end_shared(&self, core: &mut Core, for_good: bool, has_let_go: bool) {
        // What owners are told means that nothing is stored any more.
        self.serving().close();
        // What is ended here is not told to the other side.
        let ended = self.with_shared(core, |engine, clerk| {
            engine.down(clerk);
            clerk.asked.clear();
            if for_good {
                engine.give_up(clerk);
            }
            if has_let_go {
                engine.all_let_go(clerk);
            }
        });
        debug_assert!(ended.is_ok());
    }

    /// Call `f` with the engine of connections, and what carries out its decisions. End those that
    /// could not have what is theirs.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`, `EPROTO`: the two sides do not agree any more.
    fn with_shared<R>(
        &self,
        core: &mut Core,
        f: impl FnOnce(&mut Sharing, &mut Clerk<'_>) -> R,
    ) -> Result<R> {
        let far = match (&core.peer, &core.up) {
            (Some((outbox, _)), Some(up)) => Some(FarEnd {
                outbox: outbox.clone(),
                life: up.life,
                memory: up.memory.clone(),
                features: up.features,
            }),
            _ => None,
        };
        let Shared {
            engine,
            reached,
            asked,
            ..
        } = &mut *core.shared;
        let mut clerk = Clerk {
            link: self,
            far,
            reached,
            asked,
            failed: Ok(()),
            has_spoilt: false,
        };
        let result = f(engine, &mut clerk);
        while core::mem::replace(&mut clerk.has_spoilt, false) {
            numbered::for_each(&self.connections, |connection| {
                if connection.take_spoilt() {
                    engine.leave(connection.number(), connection.sent(), &mut clerk);
                    connection.lost();
                }
            });
        }
        if let Some(far) = &clerk.far {
            far.outbox.hold_only(engine.owed());
        }
        clerk.failed.map(|()| result)
    }

    /// As [`with_shared`](Self::with_shared), for a process; the link starts over if that
    /// fails.
    fn share<R>(&self, f: impl FnOnce(&mut Sharing, &mut Clerk<'_>) -> R) -> Result<R> {
        let mut core = self.core.lock();
        if core.removed {
            return Err(ENODEV);
        }
        let shared = self.with_shared(&mut core, f);
        let failed = shared.as_ref().err().and(core.peer.as_ref());
        if let Some((outbox, _)) = failed {
            outbox.peer().reset();
        }
        shared
    }

    /// Processes do not reach each other any more; and with `for_good` the other service, or
    /// this interface, does not come back. What the other service's processes may still reach is
    /// nobody's until they do not, unless it `has_let_go` of all. As its own peer, this host has: this
    /// service goes, whose processes have gone before.
    fn close(&self, core: &mut Core, for_good: bool, has_let_go: bool) {
        let has_let_go = has_let_go || self.is_loopback();
        let gone = self.partner.lock().take();
        drop(gone);
        self.end_shared(core, for_good, false);
        core.shared.give_up_at = match for_good {
            true => None,
            false => Some(monotonic_ns() + u64::from(self.reconnect_timeout_ms) * 1_000_000),
        };
        self.questions.close();
        core.opening = None;
        let Some(mut up) = core.up.take() else { return };
        let Up {
            engine,
            memory,
            pieces,
            ..
        } = &mut *up;
        engine.end(&mut Ending {
            memory,
            pieces,
            has_let_go,
        });
        self.for_each_session(|session| {
            session.answer_if_pending(Err(error::net_down()));
            session.lose();
        });
        self.tell(ready::OF_INTERFACES);
    }

    /// Connect a process to what the peer offers, under that name unless it is none; the request
    /// counts for `payers` until it is answered.
    ///
    /// # Errors
    ///
    /// Those of `MP_IOC_CONNECT`; the connection is closed then.
    pub(crate) fn connect(
        &self,
        connection: &Arc<Connection>,
        payers: &Arc<Payers>,
        deadline: Option<u64>,
    ) -> Result {
        self.connections.lock().enter(connection.clone())?;
        let asked = self.ask_to_connect(connection, payers, deadline);
        let answered = asked.and_then(|()| connection.outcome(deadline));
        answered.inspect_err(|_| self.disconnect(connection))
    }

    /// Ask the peer for a connection, once it has answered enough of what it was asked before, by
    /// this user and by all.
    fn ask_to_connect(
        &self,
        connection: &Connection,
        payers: &Arc<Payers>,
        deadline: Option<u64>,
    ) -> Result {
        let mut turn: Option<Arc<Waiter>> = None;
        loop {
            let waiter = self.share(|engine, clerk| {
                let asked = self.ask_now(connection, payers, (engine, &mut *clerk));
                if let Some(turn) = turn.take().filter(|turn| !turn.was_for(&asked)) {
                    clerk.asked.pass_on(&turn);
                }
                let wait = |lack| clerk.asked.wait_for(payers, lack);
                asked?.map(wait).transpose()
            })??;
            let Some(waiter) = waiter else { return Ok(()) };
            if let Err(e) = waiter.wait(deadline) {
                // If the interface has gone, nobody waits any more.
                let _ = self.share(|_, clerk| clerk.asked.leave(&waiter));
                return Err(e);
            }
            turn = Some(waiter);
        }
    }

    /// Ask the peer for a connection; what is lacking, if it is to be asked later.
    fn ask_now(
        &self,
        connection: &Connection,
        payers: &Arc<Payers>,
        (engine, clerk): (&mut Sharing, &mut Clerk<'_>),
    ) -> Result<Option<Lack>> {
        let Goal { name, .. } = connection.goal();
        let (number, want) = (connection.number(), connection.want());
        let needed = want.features(name);
        if clerk.far.as_ref().is_some_and(|far| !far.has(needed)) {
            return Err(error::unsupported());
        }
        clerk.reserve(engine)?;
        let interface = self.interface.id();
        if let Some(lack) = clerk.asked.enter(number, payers, interface)? {
            return Ok(Some(lack));
        }
        let asked = engine.connect(number, want, name, clerk);
        if asked.is_err() {
            drop(clerk.asked.take(number));
        }
        match asked {
            Ok(()) => Ok(None),
            Err(Refusal::Busy) => Ok(Some(Lack::Place)),
            Err(Refusal::Down) => Err(error::net_down()),
            Err(Refusal::Full) => Err(error::refused()),
            Err(Refusal::Number) => Err(EINVAL),
        }
    }

    /// End a connection: its process has done so, or is gone.
    pub(crate) fn disconnect(&self, connection: &Arc<Connection>) {
        // Before the peer hears of it: then it may use its memory anew.
        connection.strip();
        // Where the interface has gone, there is nobody to be told.
        let (number, sent) = (connection.number(), connection.sent());
        let _ = self.share(|engine, clerk| engine.leave(number, sent, clerk));
        let gone = self.connections.lock().remove(&connection.number());
        drop(gone);
    }

    /// Whether the peer's host copies out of its segments.
    ///
    /// # Errors
    ///
    /// `ENETDOWN`, `EOPNOTSUPP`.
    pub(crate) fn check_placed(&self) -> Result {
        match &self.core.lock().up {
            None => Err(error::net_down()),
            Some(up) if up.can_place() => Ok(()),
            Some(_) => Err(error::unsupported()),
        }
    }

    /// Placed transfers of this host's processes.
    pub(crate) fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Those of the peer's processes.
    pub(crate) fn serving(&self) -> &Serving {
        self.server.target()
    }

    /// The data rings to the peer have room. Any context.
    pub(crate) fn has_room(&self) {
        self.under_way.has_room();
        let is_full = &self.serving().is_full;
        if is_full.load(Relaxed) && is_full.xchg(false, Full) {
            self.server.kick();
        }
    }

    /// A piece of a segment of this host has arrived. Softirq context.
    ///
    /// # Errors
    ///
    /// See [`Serving::put`].
    pub(crate) fn put(&self, from: u32, frame: &RxFrame<'_>) -> Result {
        self.serving().put(from, frame)
    }

    /// Some of what a connection reads has arrived. Softirq context.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such a connection, `EPROTO` if it was not asked for.
    pub(crate) fn fetched(&self, to: u32, number: u32, frame: &RxFrame<'_>) -> Result {
        self.connection(to).ok_or(ENOENT)?.fetched(number, frame)
    }

    /// Deal with what the peer tells of pieces, or ask for; `None` if it is something else.
    /// Softirq context.
    pub(crate) fn take_placed(&self, message: &Message) -> Option<Result> {
        let number = message.connection;
        match message.what {
            What::Placed(totals) => {
                let connection = self.connection(number);
                Some(connection.map_or(Ok(()), |to| to.placed(totals)))
            }
            What::Fetch(request) => {
                let asked = self.serving().ask(number, request);
                self.server.kick();
                Some(asked)
            }
            _ => None,
        }
    }

    /// Find a connection. Any context.
    pub(crate) fn connection(&self, number: u32) -> Option<Arc<Connection>> {
        self.connections.lock().get(&number).cloned()
    }

    /// Whether an object of this link has that number.
    pub(crate) fn has_object(&self, number: u32) -> bool {
        let is_offered = || self.offered.lock().iter().any(|n| n.has_offer(number));
        self.session(number).is_some() || self.connection(number).is_some() || is_offered()
    }

    /// All segments of the host.
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The id of the peer at the far end, or of the last one.
    pub(crate) fn peer_id(&self) -> u32 {
        self.peer_id.load(Relaxed)
    }

    /// Ask those who are connected to what has that token to leave.
    pub(crate) fn ask_guests_to_leave(&self, token: u32) {
        // Where the interface has gone, nobody is.
        let _ = self.share(|engine, clerk| engine.withdraw(token, clerk));
    }

    /// End the connections to what has that token, and say how many there were.
    pub(crate) fn end_guests(&self, token: u32) -> usize {
        let mut ended = 0;
        // Also if the link starts over, as not all of them could be told.
        let _ = self.share(|engine, clerk| ended = engine.end(token, clerk));
        self.serving().end(token);
        ended
    }

    /// Return when it is proven that nobody reaches memory any more whose connections were
    /// ended.
    ///
    /// # Errors
    ///
    /// Those of [`Leaving::wait`].
    pub(crate) fn wait_until_let_go(&self, segment: u32) -> Result {
        self.leaving.wait(self, segment)
    }

    /// By how many connections the peer may still reach the memory of a segment, named by its
    /// token, though they were ended.
    pub(crate) fn ending(&self, segment: u32) -> usize {
        self.with_ending(segment, |ending| ending.count())
    }

    /// Whether there is any such connection.
    pub(crate) fn is_ending(&self, segment: u32) -> bool {
        self.with_ending(segment, |ending| ending.next().is_some())
    }

    /// Call `f` with those connections.
    fn with_ending<R>(
        &self,
        segment: u32,
        f: impl FnOnce(&mut dyn Iterator<Item = u32>) -> R,
    ) -> R {
        let core = self.core.lock();
        let Shared {
            engine, reached, ..
        } = &*core.shared;
        let entry = reached.iter().find(|reached| reached.is_of(segment));
        let is_its = |guest: &u32| entry.is_some_and(|reached| reached.has(*guest));
        let ending = &mut engine.ending().filter(is_its);
        f(ending)
    }

    /// Whether there are connections to what has that token.
    pub(crate) fn has_guests(&self, token: u32) -> bool {
        let core = self.core.lock();
        let mut guests = core.shared.engine.guests(token);
        guests.next().is_some()
    }

    /// Whether the services of both hosts have that feature, of [`mp_proto::fabric`].
    pub(crate) fn speaks(&self, feature: u16) -> bool {
        let core = self.core.lock();
        let greeting = core.peer.as_ref().map(|(_, greeting)| greeting);
        let terms = greeting.and_then(|greeting| greeting.terms());
        self.is_loopback() || terms.is_some_and(|terms| terms.features & feature != 0)
    }

    /// Call `f` with the other service, while both listen to each other. Any context.
    pub(crate) fn with_partner<R>(&self, f: impl FnOnce(&Partner) -> R) -> Option<R> {
        self.partner.lock().as_ref().map(f)
    }

    /// Whether both services listen to each other.
    pub(crate) fn has_partner(&self) -> bool {
        self.partner.lock().is_some()
    }

    /// When this host was short of memory for what it tells the peer, or hears from it: that is not
    /// the peer's fault.
    pub(crate) fn shortage(&self) -> &Arc<Shortage> {
        &self.shortage
    }

    /// End this epoch of the link, as the peer does not do what it has to.
    pub(crate) fn reset(&self) {
        if let Some((outbox, _)) = &self.core.lock().peer {
            report(outbox.peer(), ETIMEDOUT);
            outbox.peer().reset();
        }
    }

    /// Return when all that was stored before is in the peer's memory.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the interface has gone, `ENETDOWN`, `ETIMEDOUT`, `ERESTARTSYS` if the process is
    /// being killed.
    pub(crate) fn barrier(&self, deadline: Option<u64>) -> Result {
        let ticket = self.questions.ask().map_err(|e| self.why_down(e))?;
        self.questions.wait(ticket, deadline)
    }

    /// `ENODEV` instead of an error if the interface has gone.
    fn why_down(&self, error: Error) -> Error {
        match self.core.lock().removed {
            true => ENODEV,
            false => error,
        }
    }

    /// Deal at once with a question, or with the answer to one, as somebody waits for it:
    /// what was stored before has arrived before, whatever else waits in the inbox. Whether
    /// that could be done. Softirq context.
    pub(crate) fn take_question(&self, message: &Message, outbox: &Outbox) -> bool {
        let number = message.connection;
        match message.what {
            What::Ask => {
                let answer = self.with_partner(|partner| {
                    partner.asked.store(number, Release);
                    partner.answer.clone()
                });
                // It has a place of its own.
                answer.is_some_and(|answer| outbox.signal(&answer).is_ok())
            }
            What::Answer => {
                self.questions.answered(number);
                true
            }
            _ => false,
        }
    }

    /// Give connections up whose link was down for too long; the milliseconds until then.
    fn give_up(&self, core: &mut Core) -> Option<u32> {
        let left = core.shared.give_up_at?.saturating_sub(monotonic_ns());
        if left != 0 {
            return Some((left / 1_000_000 + 1) as u32);
        }
        core.shared.give_up_at = None;
        // Nothing is told to the other side.
        let _ = self.with_shared(core, |engine, clerk| engine.give_up(clerk));
        None
    }
}

impl Work for Link {
    /// Processes wait for it.
    const URGENT: bool = true;

    fn run(&self) -> Option<u32> {
        let mut core = self.core.lock();
        if let Some((outbox, _)) = &core.peer {
            outbox.resume();
        }
        let due = self.greet(&mut core).err().map(|_| AGAIN_MS);
        if due.is_some() {
            self.shortage.note();
        }
        self.resume_pairing(&mut core);
        if let Err(e) = self.end_broken(&mut core) {
            self.inbox.fail(e);
        }
        for _ in 0..BATCH {
            match self.next(&mut core) {
                Ok(true) => {}
                Ok(false) => {
                    let give_up = self.give_up(&mut core);
                    return [due, give_up].into_iter().flatten().min();
                }
                Err(e) if e == ENOMEM => {
                    self.shortage.note();
                    return Some(AGAIN_MS);
                }
                Err(e) => {
                    // The two engines do not agree any more.
                    if let Some((outbox, _)) = &core.peer {
                        report(outbox.peer(), e);
                        outbox.peer().reset();
                    }
                    core.opening = None;
                    // What came behind is nothing any more, and not worth a report each.
                    self.inbox.clear();
                }
            }
        }
        // Others want the mutex as well, however many messages a peer may send.
        Some(0)
    }
}

impl Link {
    /// Deal with the next message; whether there was one.
    ///
    /// # Errors
    ///
    /// Those of [`receive`](Self::receive), and why a message was lost.
    fn next(&self, core: &mut Core) -> Result<bool> {
        self.inbox.check()?;
        // What comes behind a Hello waits for that.
        self.open_up(core)?;
        let Some(mut mail) = self.inbox.next(|| !self.has_early())? else {
            return Ok(false);
        };
        if matches!(mail.header, Header::Bye(_)) && self.has_early() {
            self.inbox.hold(mail);
            return Ok(true);
        }
        let received = self.receive(core, &mut mail);
        if received == Err(ENOMEM) {
            self.inbox.put_back(mail);
        }
        received.map(|()| true)
    }
}

/// The peer's user service reaches nothing of what this one has granted so far, in this life or in one
/// before it.
fn nothing_is_reached(outbox: &Outbox) {
    if let Some(memory) = outbox.peer().memory() {
        // If the epoch is over, nothing is left to be done.
        let _ = memory.peer_let_all_go(FUNC);
    }
}

/// Say why a link starts over.
fn report(peer: &Peer, error: Error) {
    pr_err!(
        "peer {:08x}: lost or impossible message, error {}: the link starts over\n",
        peer.id().0,
        error.to_errno(),
    );
}
