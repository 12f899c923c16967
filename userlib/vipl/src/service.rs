// SPDX-License-Identifier: MIT OR Apache-2.0

//! The service thread of a NIC handle: moves messages while no thread of the program looks
//! (VI-POST-2, VI-RDMA-7), and notices partners that have gone. It runs from the first connection
//! on, and handles no signals.

use crate::{
    lock,
    nic::NicShared,
    vi::{Rest, ViShared},
    Error, Result,
};
use mp_fabric::{thread, Device, EventMask, Session};
use rustix::{
    event::{poll, EventfdFlags, PollFd, PollFlags, Timespec},
    fd::{AsFd, OwnedFd},
    io,
};
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, Weak,
    },
    thread::JoinHandle,
};

/// Looks at all connections before the thread sleeps.
const LOOKS: u32 = 50;
/// How long it sleeps at most while there are connections whose partners do not signal, in
/// nanoseconds.
const NAP: i64 = 10_000_000;

/// A counter that is readable until somebody reads it.
///
/// # Errors
/// [`Error::Resource`]: there are no more descriptors.
pub(crate) fn eventfd() -> Result<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    rustix::event::eventfd(0, flags).map_err(|_| Error::Resource)
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Service {
    wake: OwnedFd,
    /// The thread sleeps, or is about to.
    asleep: AtomicBool,
    stopped: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    /// # Errors
    /// [`Error::Resource`]: there are no more descriptors.
    pub(crate) fn new() -> Result<Self> {
        Ok(Service {
            wake: eventfd()?,
            asleep: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            thread: Mutex::default(),
        })
    }

    /// Lets the thread look.
    pub(crate) fn kick(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.ring();
        }
    }

    fn ring(&self) {
        // A counter that is full is readable all the same.
        let _ = io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Makes sure that there is a thread.
    ///
    /// # Errors
    /// [`Error::Resource`]: there are no more.
    pub(crate) fn start<D: Device>(nic: &Arc<NicShared<D>>) -> Result<()> {
        let mut slot = lock(&nic.service.thread);
        if slot.is_some() || nic.service.stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        let own = Arc::clone(nic);
        let spawned = thread::spawn("vipl-service", move || run(&own));
        *slot = Some(spawned.map_err(|_| Error::Resource)?);
        Ok(())
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.ring();
        let thread = lock(&self.thread).take();
        let own = std::thread::current().id();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != own) {
            // It calls nothing of the program's, and does not panic.
            let _ = thread.join();
        }
    }
}

fn run<D: Device>(nic: &NicShared<D>) {
    let service = &nic.service;
    let mut idle = 0;
    while !service.stopped.load(Ordering::Acquire) {
        let linked: Vec<_> = nic.linked().iter().filter_map(Weak::upgrade).collect();
        // Those that a thread of the program looks after are left to it.
        let (watched, own): (Vec<_>, Vec<_>) = linked.into_iter().partition(|vi| vi.is_watched());
        // All of them, whoever is first.
        let moved = own.iter().filter(|vi| vi.serve_link()).count();
        idle = if moved > 0 { 0 } else { idle + 1 };
        if idle >= LOOKS || own.is_empty() {
            if service.sleep(&own, !watched.is_empty()) {
                // Those of its own as well: a thread of the program may have had one of them.
                watched.iter().chain(&own).for_each(|vi| vi.note_news());
            }
        } else {
            std::hint::spin_loop();
        }
    }
}

impl Service {
    /// Sleeps until there is news, unless there is some; not for long if threads of the program
    /// look after other connections, for they may cease to. Whether there was news: these
    /// threads make no system call to learn of it.
    fn sleep<D: Device>(&self, own: &[Arc<ViShared<D>>], others: bool) -> bool {
        // Before the last look: what is posted later rings.
        self.asleep.store(true, Ordering::SeqCst);
        let rests: Vec<Rest> = own.iter().map(ViShared::before_sleep).collect();
        let nap = Timespec {
            tv_sec: 0,
            tv_nsec: NAP,
        };
        if !rests.iter().any(|rest| matches!(rest, Rest::Busy)) {
            let short = others || rests.iter().any(|rest| matches!(rest, Rest::Nap));
            let mut fds = [PollFd::new(&self.wake, PollFlags::IN)];
            // It looks again, whatever has ended the wait.
            let _ = poll(&mut fds, short.then_some(&nap));
        }
        self.asleep.store(false, Ordering::SeqCst);
        io::read(&self.wake, &mut [0; 8]).is_ok()
    }

    /// Lets events of a session wake the thread.
    ///
    /// # Errors
    /// [`Error::Resource`], [`Error::Timeout`]: the session has ended.
    pub(crate) fn watch<D: Device>(&self, session: &Session<D>) -> Result<()> {
        let news = EventMask::SIGNAL | EventMask::CLOSED | EventMask::DOWN;
        Ok(session.notify(news, Some(self.wake.as_fd()))?)
    }
}
