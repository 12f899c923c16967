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
//! | service thread | notes it at the link ([`Attention::note_news`]), and lists the link |
//! | whoever moves messages next | takes the note and looks at the session |
//!
//! Links that a thread of the program looks at stay on the list but are left to it. So is one whose
//! messages have woken a thread of the program: that thread shall run, not this one.
//!
//! # Naps
//!
//! A thread of the program that goes to sleep says so ([`Attention::unwatch`]), with a system call if
//! the service thread sleeps, and the service thread looks after the link at once. A program that
//! only stops calling cannot be noticed by that: while links are left to it, the service thread
//! sleeps for a nap and then sees whether they were looked at since.
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
//! A message waits for a program that has stopped for `NAP_MAX + NAP_MIN` at most: it is there at the
//! end of a nap, and if the link is not looked at in the short one behind it, the service thread takes
//! it. It does not wait for so long if its sender sleeps: before a sender's thread leaves a link it
//! signals once for what the partner may not have seen ([`Outbox::remind`](super::Outbox::remind)),
//! which ends the partner's nap.

use mp_fabric::{thread, Deadline, Device, Events, Fabric, Result, Wake};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::{
    mem,
    sync::{
        atomic::{AtomicBool, AtomicU8, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Looks at the listed links in vain before the thread sleeps.
const LOOKS: u32 = 50;
/// How long it looks, as long as there are messages, before it sees whether there is news, or more
/// links.
const TURN: Duration = Duration::from_millis(1);
/// How long the service thread sleeps at least while there are links whose partners do not signal;
/// at most, that is [`NAP_MAX`].
pub const NAP_MIN: Duration = Duration::from_millis(1);
/// See [`NAP_MIN`].
pub const NAP_MAX: Duration = Duration::from_millis(128);
/// How long it sleeps before it asks partners again that could not be asked.
const RETRY: Duration = Duration::from_millis(10);
/// How long hosts may take altogether to say that they have been asked: those that do not answer
/// hold up nobody else for longer.
const ANSWERS: Duration = Duration::from_millis(10);

/// What the thread does: it looks at what is listed.
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
    /// Links that were listed and that the thread has not taken.
    listed: Mutex<Vec<u64>>,
    stopped: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    /// There is no thread yet.
    ///
    /// # Errors
    /// As [`Wake::new`].
    pub fn new() -> Result<Self> {
        Ok(Service {
            wake: Wake::new()?,
            activity: AtomicU8::new(RUNNING),
            listed: Mutex::default(),
            stopped: AtomicBool::new(false),
            thread: Mutex::default(),
        })
    }

    /// Let the thread look at what is listed before it sleeps.
    pub fn kick(&self) {
        if self.activity.swap(KICKED, Ordering::AcqRel) == ASLEEP {
            self.wake.ring();
        }
    }

    /// Make sure that there is a thread, unless it was stopped. It keeps its owner.
    ///
    /// # Errors
    /// As [`thread::spawn`].
    pub fn start<O: Owner>(owner: &Arc<O>, name: &str) -> Result<()> {
        let service = owner.service();
        let mut slot = lock(&service.thread);
        if slot.is_some() || service.stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        let own = Arc::clone(owner);
        *slot = Some(thread::spawn(name, move || Run::new(&*own).run())?);
        Ok(())
    }

    /// End the thread.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake.ring();
        let thread = lock(&self.thread).take();
        let own = std::thread::current().id();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != own) {
            // It calls nothing of the program's, and does not panic.
            let _ = thread.join();
        }
    }
}

/// What has come of looking at links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// There were no messages for a while.
    Idle,
    /// There may be more.
    More,
    /// A thread of the program was woken, or looks by itself.
    HandedOver,
}

/// How long the thread sleeps while links are left to the program.
#[derive(Debug)]
struct Nap {
    long: Duration,
    /// The last one was long.
    was_long: bool,
}

impl Nap {
    fn new() -> Self {
        Nap {
            long: NAP_MIN,
            was_long: false,
        }
    }

    /// How long the next one is: a short one behind a long one, if the program may not look any more
    /// although it should.
    fn next(&mut self, doubtful: bool) -> Duration {
        self.was_long = !(self.was_long && doubtful);
        match self.was_long {
            true => self.long,
            false => NAP_MIN,
        }
    }

    /// Whether all links were looked at in the last one, and whether it has lasted as long as it
    /// should.
    fn note(&mut self, all_watched: bool, undisturbed: bool) {
        match all_watched {
            true if self.was_long && undisturbed => self.long = NAP_MAX.min(2 * self.long),
            true => {}
            false => *self = Nap::new(),
        }
    }
}

/// What the thread has.
struct Run<'a, O: Owner> {
    owner: &'a O,
    events: Events<O::Device>,
    /// The links that it looks after.
    own: Vec<O::Link>,
    /// How often it has asked partners for signals.
    rounds: usize,
    nap: Nap,
    /// Nothing has ended its last sleep before the time.
    undisturbed: bool,
}

impl<'a, O: Owner> Run<'a, O> {
    fn new(owner: &'a O) -> Self {
        Run {
            owner,
            events: owner.fabric().events(),
            own: Vec::new(),
            rounds: 0,
            nap: Nap::new(),
            undisturbed: false,
        }
    }

    fn run(&mut self) {
        let service = self.owner.service();
        while !service.stopped.load(Ordering::Acquire) {
            // Whatever kicks from now on is looked at before the thread sleeps.
            service.activity.swap(RUNNING, Ordering::AcqRel);
            self.take_listed();
            let own = mem::take(&mut self.own);
            let mut own = self.leave_watched(own);
            if self.undisturbed && !own.is_empty() {
                // A program that was held up looks now, also on the only processor.
                std::thread::yield_now();
                own = self.leave_watched(own);
            }
            self.nap.note(own.is_empty(), self.undisturbed);
            let wait = self.look_after(own);
            if !self.sleep(wait) {
                return self.owner.fail();
            }
        }
    }

    /// Leave links to threads of the program that look at them; the others.
    fn leave_watched(&mut self, links: Vec<O::Link>) -> Vec<O::Link> {
        let is_watched = |link: &O::Link| link.attention().is_watched();
        let (watched, rest) = links.into_iter().partition(is_watched);
        self.own.extend::<Vec<_>>(watched);
        rest
    }

    /// Move messages of links that nobody else looks at, and put them to rest; how long the thread
    /// may sleep.
    fn look_after(&mut self, mut own: Vec<O::Link>) -> Option<Duration> {
        let begun = Instant::now();
        loop {
            match turn(&own, begun) {
                Turn::Idle => return self.put_to_rest(own),
                Turn::More => {
                    self.own.extend(own);
                    return Some(Duration::ZERO);
                }
                Turn::HandedOver => own = self.leave_watched(own),
            }
            if !own.is_empty() {
                // Who was woken comes first, also on the only processor.
                std::thread::yield_now();
            }
        }
    }

    fn take_listed(&mut self) {
        let listed = mem::take(&mut *lock(&self.owner.service().listed));
        let links = listed.into_iter().filter_map(|link| self.owner.link(link));
        self.own.extend(links);
    }

    /// Ask partners for signals, and keep the links that cannot rest without the thread; how long
    /// it may sleep. Each time another link is the first one: hosts that do not answer use up the
    /// time of those behind them.
    fn put_to_rest(&mut self, mut own: Vec<O::Link>) -> Option<Duration> {
        let until = Deadline::after(ANSWERS);
        let (mut busy, mut again) = (false, false);
        self.rounds = self.rounds.wrapping_add(1);
        let first = self.rounds.checked_rem(own.len()).unwrap_or(0);
        own.rotate_left(first);
        for link in own {
            let rest = link.attention().settle(|| link.rest(until));
            busy |= rest == Rest::Busy;
            again |= rest == Rest::Nap;
            if matches!(rest, Rest::Busy | Rest::Nap) {
                self.own.push(link);
            }
        }
        match self.own.is_empty() {
            _ if busy => Some(Duration::ZERO),
            _ if again => Some(RETRY),
            false => {
                let has_work = self.own.iter().any(|link| link.has_work());
                Some(self.nap.next(has_work || !self.undisturbed))
            }
            true => None,
        }
    }

    /// Sleep until there is news or a kick, and note what has happened to which session. False once
    /// the fabric has ended.
    fn sleep(&mut self, wait: Option<Duration>) -> bool {
        let service = self.owner.service();
        let asleep =
            service
                .activity
                .compare_exchange(RUNNING, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        let wait = match asleep {
            Ok(_) => wait,
            // It was kicked meanwhile.
            Err(_) => Some(Duration::ZERO),
        };
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let mut fds = [
            PollFd::new(&service.wake, PollFlags::IN),
            PollFd::new(&self.events, PollFlags::IN),
        ];
        // It looks again, whatever has ended the wait.
        let _ = poll(&mut fds, wait.as_ref());
        // Nobody has to wake it any more.
        service.activity.store(KICKED, Ordering::Release);
        let [woken, told] = fds.map(|fd| fd.revents());
        self.undisturbed = woken.is_empty() && told.is_empty();
        if !woken.is_empty() {
            service.wake.read();
        }
        if !told.is_empty() {
            self.note_events();
        }
        !told.intersects(PollFlags::HUP | PollFlags::NVAL)
    }

    fn note_events(&self) {
        // An owner that cannot read events any more is being closed.
        for event in self.events.read().unwrap_or_default() {
            if let Some(link) = self.owner.link(event.cookie) {
                link.attention().note_news();
                link.attention().list(self.owner.service(), event.cookie);
            }
        }
    }
}

/// Move messages of links that nobody else looks at, until there have been none for a while, or
/// until others shall go on.
fn turn<L: Served>(own: &[L], begun: Instant) -> Turn {
    let mut idle = 0;
    while !own.is_empty() && idle < LOOKS {
        // All of them, whichever is first.
        let moved = own.iter().filter(|link| link.serve()).count();
        if own.iter().any(|link| link.attention().is_handed_over()) {
            return Turn::HandedOver;
        }
        idle = if moved > 0 { 0 } else { idle + 1 };
        if moved > 0 && begun.elapsed() >= TURN {
            return Turn::More;
        }
        std::hint::spin_loop();
    }
    Turn::Idle
}

/// Lock, also after a panic: each change is complete when others see it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
