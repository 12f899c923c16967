// SPDX-License-Identifier: MIT OR Apache-2.0

//! The service thread: moves messages while no thread of the program looks, and notices partners
//! that have gone. It runs from the first link on, and handles no signals.
//!
//! It looks after the links on its list only. One leaves the list when its partner signals whatever
//! comes next, and comes back when there is news of its session, or when a thread of the program
//! leaves something that cannot be sent yet. So a link that rests costs nothing, however many there
//! are.
//!
//! | who | does what |
//! |---|---|
//! | kernel | reports news of sessions by the numbers of their links |
//! | whoever serves | notes it at the link ([`Attention::note_news`]), and lists the link |
//! | whoever moves messages next | takes the note and looks at the session |
//!
//! Links that a thread of the program looks at stay on the list but are left to it. So is one whose
//! messages have woken a thread of the program: that thread shall run, not this one.
//!
//! # Leaders
//!
//! A thread of the program that has nothing to do but wait does the service thread's work meanwhile
//! ([`lead`]): what it waits for wakes it at once, and no other thread before it. There is one
//! leader at a time; others that wait sleep, and it wakes them ([`Led::Follow`]).
//!
//! | the leader finishes | the service thread goes on |
//! |---|---|
//! | others wait that have not led | at once |
//! | nobody does | after [`NAP_MIN`], unless a thread leads again by then |
//!
//! While threads lead one after the other, the service thread stands by: it looks by itself each
//! eight times [`NAP_MIN`], and those that finish set no timer for it.
//!
//! A leader that is held up, by a signal handler of the program for example, holds up the others.
//!
//! # Naps
//!
//! A thread of the program that goes to sleep says so ([`Attention::unwatch`]), with a system call if
//! whoever serves sleeps, and the link is looked after at once. A program that only stops calling
//! cannot be noticed by that: while links are left to it, the service thread sleeps for a nap and then
//! sees whether they were looked at since.
//!
//! | nap | length |
//! |---|---|
//! | the first one, and the one after a link was not looked at | [`NAP_MIN`] |
//! | after one in which all links were looked at | twice as long, [`NAP_MAX`] at most |
//! | after a long one, if a message is there, or a partner has signalled | [`NAP_MIN`]: a program that looks takes what there is |
//!
//! While a program looks in each nap, the naps take two system calls in [`NAP_MAX`] at most. One that
//! is held up for longer than a nap is taken for one that has stopped.
//!
//! A message waits for a program that has stopped for `NAP_MAX + 9 * NAP_MIN` at most: it is there at
//! the end of a nap, and if the link is not looked at in the short one behind it, nor in the eight for
//! which the service thread may stand by, that takes it. It does not wait for so long if its sender
//! sleeps: before a sender's thread leaves a link it signals once for what the partner may not have
//! seen ([`Outbox::remind`](super::Outbox::remind)), which ends the partner's nap.

mod alarm;
mod nap;
mod serving;

pub use serving::{lead, Follower, Led, Role};

use alarm::Alarm;
use mp_fabric::{thread, Deadline, Device, Fabric, Result, Wake};
use std::{
    sync::{
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    thread::JoinHandle,
    time::Duration,
};

/// How long whoever serves sleeps at least while there are links whose partners do not signal; at
/// most, that is [`NAP_MAX`].
pub const NAP_MIN: Duration = Duration::from_millis(1);
/// See [`NAP_MIN`].
pub const NAP_MAX: Duration = Duration::from_millis(128);

/// What whoever serves does: it looks at what is listed.
const RUNNING: u8 = 0;
/// It has to look once more before it sleeps.
const KICKED: u8 = 1;
/// It sleeps, or is about to, and has to be woken.
const ASLEEP: u8 = 2;

/// What a link does while the service thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// There is something to do.
    Busy,
    /// A thread of the program looks, or the partner may not signal.
    Nap,
    /// The partner signals when something happens.
    Armed,
    /// There is no link any more, or it is somebody else's to look after it.
    Over,
}

/// Which threads look at a link, and whether its session has news.
#[derive(Debug, Default)]
pub struct Attention {
    /// A thread of the program has looked for messages.
    polled: AtomicBool,
    /// The service thread looks after it, or will: it is on its list, or on the way there.
    listed: AtomicBool,
    /// Something has happened to the session, and nobody has looked what it was.
    news: AtomicBool,
}

impl Attention {
    /// A thread of the program looks for messages now.
    #[inline]
    pub fn watch(&self) {
        self.polled.store(true, Ordering::Relaxed);
    }

    /// The threads of the program look no more: they sleep. The service thread moves messages, or
    /// the partner was asked for signals.
    pub fn unwatch(&self, service: &Service) {
        self.polled.store(false, Ordering::Relaxed);
        if self.listed.load(Ordering::Acquire) {
            service.kick();
        }
    }

    /// Whether a thread of the program has looked since the last time.
    pub fn is_watched(&self) -> bool {
        self.polled.swap(false, Ordering::Relaxed)
    }

    /// A thread of the program that sleeps was woken: the link is left to it, as if it looked.
    pub fn hand_over(&self) {
        self.watch();
    }

    /// Whether a thread of the program has looked, or was woken, and nobody has asked since.
    fn is_handed_over(&self) -> bool {
        self.polled.load(Ordering::Relaxed)
    }

    /// Let the service thread look after the link of that number from now on.
    pub fn list(&self, service: &Service, link: u64) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            lock(&service.listed).push(link);
            service.kick();
        }
    }

    /// Something has happened to the session: whoever moves messages next looks what it was.
    pub fn note_news(&self) {
        self.news.store(true, Ordering::Release);
    }

    /// Whether something has happened; once.
    #[inline]
    pub fn take_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Acquire)
    }

    /// Whether something has happened that nobody has looked at yet.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed)
    }

    /// Put a link to rest that was taken from the list: whoever changes something after this has
    /// looked, lists it again.
    fn settle(&self, rest: impl FnOnce() -> Rest) -> Rest {
        self.listed.store(false, Ordering::SeqCst);
        match rest() {
            rest @ (Rest::Armed | Rest::Over) => rest,
            // Somebody else has listed it meanwhile.
            _ if self.listed.swap(true, Ordering::SeqCst) => Rest::Over,
            rest => rest,
        }
    }
}

/// What the service thread looks after. Copies are the same link.
pub trait Served {
    /// Return who looks at the link.
    fn attention(&self) -> &Attention;

    /// Move messages, unless somebody else does; whether there were any.
    fn serve(&self) -> bool;

    /// Whether there is a message that nobody has taken. Nobody moves messages meanwhile.
    fn has_work(&self) -> bool;

    /// Ask the partner for signals, unless a thread of the program looks; not for longer than until
    /// the deadline, and without a lock while the partner's host answers.
    fn rest(&self, until: Deadline) -> Rest;
}

/// An owner of links, with a thread that looks after them.
pub trait Owner: Send + Sync + 'static {
    /// The kernel's side.
    type Device: Device;
    /// A link.
    type Link: Served;

    /// The thread.
    fn service(&self) -> &Service;

    /// What whoever serves has.
    fn role(&self) -> &Role<Self::Link>;

    /// What reports news of sessions.
    fn fabric(&self) -> &Fabric<Self::Device>;

    /// The link of a number, which is also what its session is watched by.
    fn link(&self, number: u64) -> Option<Self::Link>;

    /// Note that the fabric has ended under its user: the process has closed the descriptor. Nothing
    /// moves any more, and the thread ends after this.
    fn fail(&self) {}
}

/// The thread.
#[derive(Debug)]
pub struct Service {
    wake: Wake,
    /// One of [`RUNNING`], [`KICKED`], [`ASLEEP`].
    activity: AtomicU8,
    /// Links that were listed and that nobody has taken.
    listed: Mutex<Vec<u64>>,
    stopped: AtomicBool,
    /// The fabric has ended under its user.
    ended: AtomicBool,
    /// A thread of the program serves, or is about to.
    led: AtomicBool,
    /// How often one has finished.
    terms: AtomicUsize,
    /// Threads of the program that sleep meanwhile.
    followers: AtomicUsize,
    /// What the service thread sleeps on while another one serves.
    alarm: Alarm,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    /// There is no thread yet.
    ///
    /// # Errors
    /// As [`Wake::new`]: it takes two descriptors.
    pub fn new() -> Result<Self> {
        Ok(Service {
            wake: Wake::new()?,
            activity: AtomicU8::new(RUNNING),
            listed: Mutex::default(),
            stopped: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            led: AtomicBool::new(false),
            terms: AtomicUsize::new(0),
            followers: AtomicUsize::new(0),
            alarm: Alarm::new()?,
            thread: Mutex::default(),
        })
    }

    /// Let whoever serves look at what is listed before it sleeps.
    pub fn kick(&self) {
        if self.activity.swap(KICKED, Ordering::AcqRel) == ASLEEP {
            self.wake.ring();
        }
    }

    /// Let a thread that leads see whether its wait is over.
    pub fn kick_leader(&self) {
        if self.is_led() {
            self.kick();
        }
    }

    fn is_led(&self) -> bool {
        self.led.load(Ordering::SeqCst)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Whether nobody serves any more.
    fn is_over(&self) -> bool {
        self.is_stopped() || self.ended.load(Ordering::SeqCst)
    }

    /// Make sure that there is a thread, unless it was stopped. It keeps its owner.
    ///
    /// # Errors
    /// As [`thread::spawn`].
    pub fn start<O: Owner>(owner: &Arc<O>, name: &str) -> Result<()> {
        let service = owner.service();
        let mut slot = lock(&service.thread);
        if slot.is_some() || service.is_stopped() {
            return Ok(());
        }
        let own = Arc::clone(owner);
        *slot = Some(thread::spawn(name, move || serving::serve(&*own))?);
        Ok(())
    }

    /// End the thread. One that leads finishes soon.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake.ring();
        self.alarm.ring();
        let thread = lock(&self.thread).take();
        let own = std::thread::current().id();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != own) {
            // It calls nothing of the program's, and does not panic.
            let _ = thread.join();
        }
    }
}

/// Lock, also after a panic: each change is complete when others see it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
