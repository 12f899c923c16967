// SPDX-License-Identifier: GPL-2.0

//! The user service's end of a link: finds out whether the other host's service is
//! there, and has the two pairing engines agree.
//!
//! A link exists as long as its interface. Messages arrive in softirq context and wait
//! in the [`Inbox`](crate::inbox::Inbox); the link's worker, and calls of processes, run
//! the engine under the link's mutex. Whatever the engine decides is carried out before
//! the mutex is released.

use crate::{
    desk::{
        Desk,
        Ending, //
    },
    inbox::{
        Inbox,
        Mail, //
    },
    outbox::Outbox,
    ready::{
        self,
        Ready, //
    },
    session::{
        Phase,
        Session, //
    },
    window::Piece, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    error,
    new_spinlock_bh,
    sync::SpinLockBh,
    worker::Work, //
};
use mp_proto::{
    fabric::{
        Change,
        Greeting,
        Header,
        Life, //
    },
    pairing::{
        terms::Location,
        Engine,
        Far,
        Mode,
        Own,
        RemoteWindow,
        SESSIONS, //
    }, //
};
use mp_transport::{
    interface::Interface,
    memory::{
        Limits,
        Memory, //
    },
    peer::Peer,
    service, //
};

/// Most messages that the worker deals with before it lets others run.
const BATCH: usize = 64;

/// The engine with tables on the heap.
pub(crate) type Pairing = Engine<KVVec<Option<Own>>, KVVec<Option<Far>>>;

/// Both services listen to each other.
pub(crate) struct Up {
    /// The life of the other service.
    pub(crate) life: Life,
    pub(crate) memory: Arc<Memory>,
    pub(crate) engine: KBox<Pairing>,
    /// Memory that was cut and has no session yet.
    pub(crate) pieces: KVec<Arc<Piece>>,
    /// What the windows of the other host were posted with, by session.
    pub(crate) data: KVec<(u32, KVec<u8>)>,
}

/// What the link's mutex protects.
struct Core {
    /// While a peer is at the far end.
    peer: Option<(Arc<Outbox>, Greeting)>,
    up: Option<KBox<Up>>,
    /// The peer's version has been reported as another one.
    is_version_told: bool,
    /// The interface has gone.
    removed: bool,
}

/// The end of a link.
#[pin_data]
pub(crate) struct Link {
    interface: Arc<Interface>,
    /// The life of this service.
    life: Life,
    #[pin]
    core: Mutex<Core>,
    /// All sessions of this link that are not closed.
    #[pin]
    sessions: SpinLockBh<KVec<Arc<Session>>>,
    /// Contexts that want to know of changes.
    #[pin]
    watchers: SpinLockBh<KVec<Arc<Ready>>>,
    #[pin]
    pub(crate) inbox: Inbox,
}

impl Link {
    /// The end of the link that `interface` is, of the service with that life.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(interface: Arc<Interface>, life: Life) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                interface,
                life,
                core <- new_mutex!(Core {
                    peer: None,
                    up: None,
                    is_version_told: false,
                    removed: false,
                }),
                sessions <- new_spinlock_bh!(KVec::new()),
                watchers <- new_spinlock_bh!(KVec::new()),
                inbox <- Inbox::new(),
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

    /// Has a context know of changes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn watch(&self, ready: Arc<Ready>) -> Result {
        Ok(self.watchers.lock().push(ready, GFP_ATOMIC)?)
    }

    /// Ends [`watch`](Self::watch).
    pub(crate) fn unwatch(&self, ready: &Arc<Ready>) {
        let gone = {
            let mut watchers = self.watchers.lock();
            let at = watchers.iter().position(|w| Arc::ptr_eq(w, ready));
            at.and_then(|at| watchers.remove(at).ok())
        };
        drop(gone);
    }

    /// These have happened to the interface.
    pub(crate) fn tell(&self, events: u32) {
        self.watchers.lock().iter().for_each(|w| w.raise(events));
    }

    /// Finds a session. Any context.
    pub(crate) fn session(&self, number: u32) -> Option<Arc<Session>> {
        let sessions = self.sessions.lock();
        sessions.iter().find(|s| s.number() == number).cloned()
    }

    fn for_each_session(&self, mut f: impl FnMut(&Arc<Session>)) {
        let mut at = 0;
        loop {
            let session = self.sessions.lock().get(at).cloned();
            let Some(session) = session else { break };
            f(&session);
            at += 1;
        }
    }

    /// Tells processes of partners that they do not know of.
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
    /// `ENOMEM`.
    pub(crate) fn peer_up(&self, outbox: Arc<Outbox>) -> Result {
        let mut core = self.core.lock();
        core.is_version_told = false;
        let greeting = Greeting::new(self.life);
        if self.interface.info().is_loopback {
            // This service is its own partner.
            core.up = Some(self.open(outbox.peer(), self.life)?);
            self.opened(&mut core, &outbox);
        } else {
            outbox.send(&Header::Hello(greeting.hello()), KVec::new())?;
        }
        core.peer = Some((outbox, greeting));
        Ok(())
    }

    /// The peer leaves, or this service does, and says goodbye.
    pub(crate) fn peer_down(&self) {
        let mut core = self.core.lock();
        if let Some((outbox, greeting)) = core.peer.take() {
            if let Some(life) = greeting.partner() {
                // It may have left already.
                let _ = outbox.send(&Header::Bye(life), KVec::new());
            }
        }
        self.close(&mut core);
        self.inbox.clear();
    }

    /// The interface has gone.
    pub(crate) fn removed(&self) {
        let mut core = self.core.lock();
        core.removed = true;
        self.close(&mut core);
        self.for_each_session(|session| {
            session.answer_if_pending(Err(ENODEV));
            session.forsaken();
        });
        self.tell(ready::OF_INTERFACES);
    }

    /// Deals with a message, in the order in which they have arrived.
    fn receive(&self, core: &mut Core, mail: Mail) -> Result {
        let Some((outbox, greeting)) = &mut core.peer else {
            return Ok(());
        };
        let outbox = outbox.clone();
        match mail.header {
            Header::Hello(hello) => {
                let (answer, change) = greeting.receive(hello);
                let answer = answer.then(|| greeting.hello());
                if matches!(change, Change::Closed | Change::Reopened) {
                    // Before the answer: then the other service may use its memory anew.
                    self.close_for_good(core);
                }
                if let Some(hello) = answer {
                    outbox.send(&Header::Hello(hello), KVec::new())?;
                }
                self.follow(core, &outbox, change)
            }
            Header::Bye(life) => {
                let change = greeting.bye(life);
                self.follow(core, &outbox, change)
            }
            Header::Signal { life, to, from } => {
                if greeting.accepts(life) {
                    self.signalled(to, from);
                }
                Ok(())
            }
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

    /// Carries out what the greeting has found.
    fn follow(&self, core: &mut Core, outbox: &Arc<Outbox>, change: Change) -> Result {
        if let Change::Version(version) = change {
            if core::mem::replace(&mut core.is_version_told, true) {
                return Ok(());
            }
            pr_err!(
                "peer {:08x} has version {} of mp_func_user's messages, this host {}\n",
                outbox.peer().id().0,
                version,
                mp_proto::fabric::VERSION,
            );
        }
        if change == Change::Closed {
            self.close_for_good(core);
        }
        if matches!(change, Change::Opened | Change::Reopened) {
            let life = core.peer.as_ref().and_then(|(_, g)| g.partner());
            let life = life.ok_or_else(error::protocol)?;
            core.up = Some(self.open(outbox.peer(), life)?);
            self.opened(core, outbox);
        }
        Ok(())
    }

    /// Makes the engine for a new life of the link.
    fn open(&self, peer: &Arc<Peer>, life: Life) -> Result<KBox<Up>> {
        let memory = peer.memory().ok_or_else(error::unsupported)?;
        let mode = match self.interface.info().is_loopback {
            true => Mode::Loopback,
            false if service::self_id().0 < peer.id().0 => Mode::Arbiter,
            false => Mode::Asker,
        };
        let places = KVVec::from_elem(None, SESSIONS, GFP_KERNEL)?;
        let far = KVVec::from_elem(None, SESSIONS, GFP_KERNEL)?;
        let engine = Engine::new(mode, memory.limits().remote_total, places, far);
        let up = Up {
            life,
            memory,
            engine: KBox::new(engine.ok_or(EINVAL)?, GFP_KERNEL)?,
            pieces: KVec::new(),
            data: KVec::new(),
        };
        Ok(KBox::new(up, GFP_KERNEL)?)
    }

    /// Processes reach each other: what waits for a partner is posted again.
    fn opened(&self, core: &mut Core, outbox: &Arc<Outbox>) {
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
        self.tell(ready::OF_INTERFACES);
    }

    /// The other service has ended, and its processes have let go of everything: what
    /// they reached need not wait for the end of the epoch.
    fn close_for_good(&self, core: &mut Core) {
        if let Some(up) = &core.up {
            let memory = up.memory.clone();
            self.for_each_session(|session| session.let_go(&memory));
        }
        self.close(core);
    }

    /// Processes do not reach each other any more.
    fn close(&self, core: &mut Core) {
        let Some(mut up) = core.up.take() else { return };
        let Up {
            engine,
            memory,
            pieces,
            ..
        } = &mut *up;
        engine.end(&mut Ending(memory, pieces));
        self.for_each_session(|session| {
            session.answer_if_pending(Err(error::net_down()));
            session.lose();
        });
        self.tell(ready::OF_INTERFACES);
    }

    /// Asks for a session; returns its identifier when the request has succeeded.
    ///
    /// # Errors
    ///
    /// Those of `MP_IOC_SESSION_OPEN`; the session is closed then.
    pub(crate) fn request(&self, session: &Arc<Session>) -> Result<u32> {
        let asked = self.ask(session).and_then(|outbox| {
            session.outcome().map_err(|e| {
                if e != ETIMEDOUT {
                    return e;
                }
                outbox.peer().reset();
                error::net_down()
            })
        });
        if asked.is_err() {
            self.end(session);
        }
        asked.map_err(|e| self.reason(e))
    }

    /// Why a request has failed that found no memory or nobody: the link may have ended, of
    /// which this service hears a little after its memory has gone.
    fn reason(&self, found: Error) -> Error {
        if found != ENOSPC && found != error::refused() {
            return found;
        }
        match self.memory().map(|memory| memory.limits()) {
            None => error::net_down(),
            Some(limits) if limits == Limits::default() => error::net_down(),
            Some(_) => found,
        }
    }

    fn ask(&self, session: &Arc<Session>) -> Result<Arc<Outbox>> {
        let mut core = self.core.lock();
        if core.removed {
            return Err(ENODEV);
        }
        let Core { peer, up, .. } = &mut *core;
        let (Some((outbox, _)), Some(up)) = (peer, up) else {
            return Err(error::net_down());
        };
        let params = session.params();
        if params.location == Location::Physical && !up.memory.has_physical_windows() {
            return Err(ENOSPC);
        }
        self.sessions.lock().push(session.clone(), GFP_ATOMIC)?;
        let outbox = outbox.clone();
        let mut desk = Desk::new(self, &outbox, up);
        let asked = desk.request(session, &params);
        let sent = desk.finish();
        drop(core);
        if sent.is_err() {
            outbox.peer().reset();
        }
        asked.map(|()| outbox)
    }

    /// Closes a session: its process has done so, or is gone.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        let mut core = self.core.lock();
        let gone = {
            let mut sessions = self.sessions.lock();
            let at = sessions.iter().position(|s| Arc::ptr_eq(s, session));
            at.and_then(|at| sessions.remove(at).ok())
        };
        session.strip();
        if let Core {
            peer: Some((outbox, _)),
            up: Some(up),
            ..
        } = &mut *core
        {
            let outbox = outbox.clone();
            let mut desk = Desk::new(self, &outbox, up);
            desk.close(session.number());
            if desk.finish().is_err() {
                outbox.peer().reset();
            }
        }
        drop(core);
        drop(gone);
    }

    /// Calls `f` with the windows of the peer.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the interface has gone, `ENETDOWN`.
    pub(crate) fn with_windows<R>(&self, f: impl FnOnce(&Windows<'_>) -> R) -> Result<R> {
        let core = self.core.lock();
        match &core.up {
            _ if core.removed => Err(ENODEV),
            Some(up) => Ok(f(&Windows { link: self, up })),
            None => Err(error::net_down()),
        }
    }
}

impl Work for Link {
    /// Processes wait for it.
    const URGENT: bool = true;

    fn run(&self) -> Option<u32> {
        let mut core = self.core.lock();
        for _ in 0..BATCH {
            let mail = self.inbox.next()?;
            let received = mail.and_then(|mail| self.receive(&mut core, mail));
            if let Err(e) = received {
                // The two engines do not agree any more.
                if let Some((outbox, _)) = &core.peer {
                    report(outbox.peer(), e);
                    outbox.peer().reset();
                }
                // What came behind is nothing any more, and not worth a report each.
                self.inbox.clear();
            }
        }
        // Others want the mutex as well, however many messages a peer may send.
        Some(0)
    }
}

/// Says why a link starts over.
fn report(peer: &Peer, error: Error) {
    pr_err!(
        "peer {:08x}: lost or impossible message, error {}: the link starts over\n",
        peer.id().0,
        error.to_errno(),
    );
}

/// The windows of the peer, as processes see them.
pub(crate) struct Windows<'a> {
    link: &'a Link,
    up: &'a Up,
}

impl Windows<'_> {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RemoteWindow> + '_ {
        self.up.engine.remote_windows()
    }

    /// What a window was posted with.
    pub(crate) fn data(&self, window: &RemoteWindow, f: impl FnOnce(&[u8])) {
        if self.link.interface.info().is_loopback {
            let session = self.link.session(window.session);
            f(session.as_ref().map_or(&[][..], |session| session.data()));
        } else {
            let posted = self.up.data.iter().find(|(s, _)| *s == window.session);
            f(posted.map_or(&[][..], |(_, data)| data));
        }
    }
}
