// SPDX-License-Identifier: MIT OR Apache-2.0

//! The service thread of a NIC handle: moves messages while no thread of the program looks
//! (VI-POST-2, VI-RDMA-7), and notices partners that have gone. It runs from the first connection
//! on, and handles no signals.
//!
//! It looks after the connections on its list only. One leaves the list when its partner signals
//! whatever comes next, and comes back when there is news of its session, or when a thread of the
//! program leaves something that cannot be sent yet. So a connection that rests costs nothing,
//! however many there are.
//!
//! | who | does what |
//! |---|---|
//! | kernel | reports news of sessions by the number of their VI |
//! | service thread | notes it at the VI ([`ViShared::note_news`]), and lists the VI |
//! | whoever moves messages next | takes the note and looks at the session |
//!
//! Connections that a thread of the program looks at stay on the list but are left to it; the
//! service thread sees after a nap whether that is still so.

use crate::{
    lock,
    nic::NicShared,
    vi::{Rest, ViShared},
    Error, Result,
};
use mp_fabric::{thread, Deadline, Device, Events, Wake};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::{
    sync::{
        atomic::{AtomicBool, AtomicU8, Ordering},
        Arc, Mutex,
    },
    thread::JoinHandle,
    time::Duration,
};

/// Looks at the listed connections in vain before the thread sleeps.
const LOOKS: u32 = 50;
/// Looks before it sees whether there is news, or more connections.
const TURN: u32 = 1_000;
/// How long it sleeps at most while there are connections whose partners do not signal.
const NAP: Duration = Duration::from_millis(10);
/// How long hosts may take altogether to say that they have been asked: those that do not answer
/// hold up nobody else for longer.
const ANSWERS: Duration = Duration::from_millis(10);

/// What the thread does: it looks at what is listed.
const RUNNING: u8 = 0;
/// It has to look once more before it sleeps.
const KICKED: u8 = 1;
/// It sleeps, or is about to, and has to be woken.
const ASLEEP: u8 = 2;

/// The thread.
#[derive(Debug)]
pub(crate) struct Service {
    wake: Wake,
    /// One of [`RUNNING`], [`KICKED`], [`ASLEEP`].
    activity: AtomicU8,
    /// VIs that were listed and that the thread has not taken.
    listed: Mutex<Vec<u64>>,
    stopped: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    /// # Errors
    /// [`Error::Resource`]: there are no more descriptors.
    pub(crate) fn new() -> Result<Self> {
        Ok(Service {
            wake: Wake::new()?,
            activity: AtomicU8::new(RUNNING),
            listed: Mutex::default(),
            stopped: AtomicBool::new(false),
            thread: Mutex::default(),
        })
    }

    /// Let the thread look after a VI: by [`ViShared::list`], once until it has left the list.
    pub(crate) fn list(&self, vi: u64) {
        lock(&self.listed).push(vi);
        self.kick();
    }

    /// Let the thread look at what is listed before it sleeps.
    pub(crate) fn kick(&self) {
        if self.activity.swap(KICKED, Ordering::AcqRel) == ASLEEP {
            self.wake.ring();
        }
    }

    /// Make sure that there is a thread.
    ///
    /// # Errors
    /// [`Error::Resource`]: there are no more.
    pub(crate) fn start<D: Device>(nic: &Arc<NicShared<D>>) -> Result<()> {
        let mut slot = lock(&nic.service.thread);
        if slot.is_some() || nic.service.stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        let own = Arc::clone(nic);
        let spawned = thread::spawn("vipl-service", move || Run::new(&own).run());
        *slot = Some(spawned.map_err(|_| Error::Resource)?);
        Ok(())
    }

    /// End the thread.
    pub(crate) fn stop(&self) {
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

/// What the thread has.
struct Run<'a, D: Device> {
    nic: &'a NicShared<D>,
    events: Events<D>,
    /// The VIs that it looks after.
    own: Vec<Arc<ViShared<D>>>,
}

impl<'a, D: Device> Run<'a, D> {
    fn new(nic: &'a NicShared<D>) -> Self {
        Run {
            nic,
            events: nic.fabric.events(),
            own: Vec::new(),
        }
    }

    fn run(&mut self) {
        let service = &self.nic.service;
        while !service.stopped.load(Ordering::Acquire) {
            // Whatever kicks from now on is looked at before the thread sleeps.
            service.activity.swap(RUNNING, Ordering::AcqRel);
            self.take_listed();
            let own = std::mem::take(&mut self.own);
            let (watched, own): (Vec<_>, Vec<_>) = own.into_iter().partition(|vi| vi.is_watched());
            self.own = watched;
            let wait = match self.turn(&own) {
                true => {
                    self.own.extend(own);
                    Some(Duration::ZERO)
                }
                false => self.put_to_rest(own),
            };
            self.sleep(wait);
        }
    }

    fn take_listed(&mut self) {
        let listed = std::mem::take(&mut *lock(&self.nic.service.listed));
        let vis = listed.into_iter().filter_map(|id| self.nic.vi(id));
        self.own.extend(vis);
    }

    /// Move messages of connections that nobody looks at, until there have been none for a while;
    /// whether there may be more.
    fn turn(&self, own: &[Arc<ViShared<D>>]) -> bool {
        let mut idle = 0;
        for _ in 0..TURN {
            if own.is_empty() || idle >= LOOKS {
                return false;
            }
            // All of them, whoever is first.
            let moved = own.iter().filter(|vi| vi.serve_link()).count();
            idle = if moved > 0 { 0 } else { idle + 1 };
            std::hint::spin_loop();
        }
        true
    }

    /// Ask partners for signals, and keep the connections that cannot rest without the thread;
    /// how long it may sleep.
    fn put_to_rest(&mut self, own: Vec<Arc<ViShared<D>>>) -> Option<Duration> {
        let until = Deadline::after(ANSWERS);
        let mut busy = false;
        for vi in own {
            let rest = vi.before_sleep(until);
            busy |= rest == Rest::Busy;
            if matches!(rest, Rest::Busy | Rest::Nap) {
                self.own.push(vi);
            }
        }
        match self.own.is_empty() {
            _ if busy => Some(Duration::ZERO),
            false => Some(NAP),
            true => None,
        }
    }

    /// Sleep until there is news or a kick, and note what has happened to which session.
    fn sleep(&self, wait: Option<Duration>) {
        let service = &self.nic.service;
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
        let [woken, told] = fds.map(|fd| !fd.revents().is_empty());
        if woken {
            service.wake.read();
        }
        if told {
            self.note_events();
        }
    }

    fn note_events(&self) {
        // A NIC that cannot read events any more is being closed.
        for event in self.events.read().unwrap_or_default() {
            if let Some(vi) = self.nic.vi(event.cookie) {
                vi.note_news();
                vi.list();
            }
        }
    }
}
