// SPDX-License-Identifier: MIT OR Apache-2.0

//! Completion queues: which queue of which VI has completed a descriptor, for many VIs at once.
//!
//! An entry is a note that a descriptor can be taken from its work queue; the descriptor stays
//! there. The lock of a completion queue is taken below that of a VI, never the other way round.

use crate::{
    attributes::CQ_ENTRIES_MAX,
    lock,
    nic::NicShared,
    notify::{Job, Notifier},
    room::{must_have_memory, Heap},
    trunk::Trunk,
    vi::{Vi, ViShared, LOOKS},
    Error, QueueKind, Result,
};
use mp_fabric::{CharDevice, Deadline, Device};
use mp_proto::work::{Completions, Full};
use mp_queue_pair::provider::{lead, Led};
use smallvec::SmallVec;
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, Weak},
};

/// Is told of one entry.
pub type CqHandler<D = CharDevice> = Box<dyn FnOnce(&Vi<D>, QueueKind) + Send>;

/// A completion queue. Copies are the same one.
pub struct Cq<D: Device = CharDevice>(pub(crate) Arc<CqShared<D>>);

crate::shared!(Cq);

pub(crate) struct CqShared<D: Device> {
    nic: Arc<NicShared<D>>,
    pub(crate) id: u64,
    token: u64,
    state: Mutex<State<D>>,
    arrived: Condvar,
    /// VIs with a queue that is bound to it, as of now: who looks at them all takes no copy.
    bound: Mutex<Arc<Vec<Weak<ViShared<D>>>>>,
    notifier: Notifier,
}

/// What has come of adding entries.
pub(crate) struct Pushed {
    /// Some were dropped, for the first time since one was taken (VI-CQ-11).
    pub(crate) overrun: bool,
    /// Handlers whose thread has ended.
    pub(crate) refused: Vec<Job>,
    /// A thread that slept was woken.
    pub(crate) woken: bool,
}

/// A queue of a VI that has completed a descriptor; nothing is a place that has no entry.
type Entry<D> = Option<(Weak<ViShared<D>>, QueueKind)>;

struct State<D: Device> {
    entries: Completions<Entry<D>, Heap<Entry<D>>>,
    handlers: VecDeque<CqHandler<D>>,
    alive: bool,
    /// Threads that wait for an entry.
    asleep: usize,
    /// Threads that serve meanwhile, or find that another one does.
    leading: usize,
}

impl<D: Device> Cq<D> {
    pub(crate) fn new(nic: &Arc<NicShared<D>>, id: u64, entries: u64, token: u64) -> Result<Self> {
        Ok(Cq(Arc::new(CqShared {
            nic: Arc::clone(nic),
            id,
            token,
            state: Mutex::new(State {
                entries: Completions::new(capacity(entries)?, Heap::default()),
                handlers: VecDeque::new(),
                alive: true,
                asleep: 0,
                leading: 0,
            }),
            arrived: Condvar::new(),
            bound: Mutex::default(),
            notifier: Notifier::new("vipl-cq"),
        })))
    }

    /// What it was made with.
    pub fn token(&self) -> u64 {
        self.0.token
    }

    /// Take an entry: the VI, and which of its queues has completed a descriptor. Never waits
    /// (VI-CQ-4, VI-CQ-5).
    ///
    /// # Errors
    /// [`Error::NotDone`]: there is none. [`Error::InvalidParameter`]: destroyed.
    pub fn done(&self) -> Result<(Vi<D>, QueueKind)> {
        if let Some(entry) = self.0.take()? {
            return Ok(entry);
        }
        self.0.poll();
        self.0.take()?.ok_or(Error::NotDone)
    }

    /// Take an entry as soon as there is one (VI-CQ-6).
    ///
    /// # Errors
    /// [`Error::Timeout`], also at once if the deadline is past. [`Error::InvalidParameter`]:
    /// destroyed, also meanwhile.
    pub fn wait(&self, deadline: Deadline) -> Result<(Vi<D>, QueueKind)> {
        let looks = if deadline == Deadline::PAST { 1 } else { LOOKS };
        for _ in 0..looks {
            match self.done() {
                Err(Error::NotDone) => std::hint::spin_loop(),
                other => return other,
            }
        }
        let shared = &self.0;
        loop {
            let left = deadline.remaining();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::Timeout);
            }
            shared.each_bound(|vi| vi.unwatch());
            shared.rest(deadline)?;
            if let Some(entry) = shared.take()? {
                return Ok(entry);
            }
        }
    }

    /// Let a handler take one entry, now or as soon as there is one, behind earlier handlers
    /// (VI-NTFY-9, VI-NTFY-10).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: destroyed. [`Error::Resource`]: there are no more threads.
    pub fn notify(&self, handler: CqHandler<D>) -> Result<()> {
        must_have_memory()?;
        self.0.notifier.start()?;
        let mut state = self.0.state()?;
        let reserved = state.handlers.try_reserve(1);
        reserved.map_err(|_| Error::Resource)?;
        self.0.notifier.reserve(state.handlers.len() + 1)?;
        state.handlers.push_back(handler);
        let refused = self.0.serve(&mut state);
        drop(state);
        drop(refused);
        self.0.each_bound(|vi| vi.unwatch());
        Ok(())
    }

    /// Give it room for at least so many entries; those that there are stay (VI-CQ-10).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: none, or destroyed. [`Error::Resource`]: too many, or fewer than
    /// there are.
    pub fn resize(&self, entries: u64) -> Result<()> {
        let mut state = self.0.state()?;
        let resized = state.entries.resize(capacity(entries)?);
        resized.map_err(|Full| Error::Resource)
    }

    /// End it; handlers that wait are dropped (VI-CQ-9).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: destroyed before. [`Error::Resource`]: a queue of a VI is bound
    /// to it.
    pub fn destroy(&self) -> Result<()> {
        let mut state = self.0.state()?;
        if !lock(&self.0.bound).is_empty() {
            return Err(Error::Resource);
        }
        state.alive = false;
        drop(state);
        self.0.nic.forget_cq(self.0.id);
        self.0.end();
        self.0.leave();
        Ok(())
    }
}

impl<D: Device> CqShared<D> {
    fn state(&self) -> Result<MutexGuard<'_, State<D>>> {
        let state = lock(&self.state);
        match state.alive {
            true => Ok(state),
            false => Err(Error::InvalidParameter),
        }
    }

    /// Whether it was made with that NIC.
    pub(crate) fn is_of(&self, nic: &Arc<NicShared<D>>) -> bool {
        Arc::ptr_eq(&self.nic, nic)
    }

    /// A queue of a VI is bound to it from now on.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: destroyed. [`Error::Resource`]: there is no memory.
    pub(crate) fn bind(&self, vi: &Arc<ViShared<D>>) -> Result<()> {
        // Under the state's lock: it cannot be destroyed meanwhile.
        let _state = self.state()?;
        let mut bound = lock(&self.bound);
        // Those who look have the list as it is.
        let mut all = Vec::new();
        let reserved = all.try_reserve_exact(bound.len() + 1);
        reserved.map_err(|_| Error::Resource)?;
        all.extend_from_slice(&bound);
        all.push(Arc::downgrade(vi));
        *bound = Arc::new(all);
        Ok(())
    }

    /// A VI has gone: its entries are never seen (VI-CQ-13).
    pub(crate) fn unbind(&self, vi: &Arc<ViShared<D>>) {
        let is_other = |other: &Weak<ViShared<D>>| other.as_ptr() != Arc::as_ptr(vi);
        Arc::make_mut(&mut *lock(&self.bound)).retain(is_other);
        let is_others = |entry: &Entry<D>| entry.as_ref().is_some_and(|(vi, _)| is_other(vi));
        lock(&self.state).entries.retain(is_others);
    }

    /// Do something with all VIs that have a queue that is bound to it, without a lock.
    pub(crate) fn each_bound(&self, act: impl FnMut(Arc<ViShared<D>>)) {
        let bound = Arc::clone(&lock(&self.bound));
        bound.iter().filter_map(Weak::upgrade).for_each(act);
    }

    /// Add entries.
    pub(crate) fn push(&self, vi: &Arc<ViShared<D>>, kind: QueueKind, count: usize) -> Pushed {
        let mut state = lock(&self.state);
        let entry = || Some((Arc::downgrade(vi), kind));
        let overrun = state.entries.push(count, entry);
        let refused = self.serve(&mut state);
        // Waking takes a system call, which one that leads does not need.
        let (sleeps, leads) = (state.asleep > 0, state.leading > 0);
        let woken = sleeps || leads;
        drop(state);
        if sleeps {
            self.arrived.notify_all();
        }
        if leads {
            self.nic.service.kick_leader();
        }
        Pushed {
            overrun,
            refused,
            woken,
        }
    }

    /// Give entries to handlers; those whose thread has ended.
    fn serve(&self, state: &mut State<D>) -> Vec<Job> {
        let mut refused = Vec::new();
        while !state.handlers.is_empty() {
            let Some((vi, kind)) = state.pop() else {
                break;
            };
            if let Some(handler) = state.handlers.pop_front() {
                refused.extend(self.notifier.push(Box::new(move || handler(&vi, kind))));
            }
        }
        refused
    }

    /// Wait until there is an entry, serving meanwhile unless somebody else does.
    fn rest(&self, deadline: Deadline) -> Result<()> {
        self.state()?.leading += 1;
        let led = lead(&*self.nic, deadline, || {
            let state = lock(&self.state);
            !state.alive || !state.entries.is_empty()
        });
        let mut state = lock(&self.state);
        state.leading -= 1;
        if let (Led::Follow(_follower), true, true) = (led, state.alive, state.entries.is_empty()) {
            state.asleep += 1;
            state = deadline.sleep_on(&self.arrived, state);
            state.asleep -= 1;
        }
        Ok(())
    }

    fn take(&self) -> Result<Option<(Vi<D>, QueueKind)>> {
        Ok(self.state()?.pop())
    }

    /// Let all VIs that it is bound to look for messages.
    fn poll(&self) {
        let mut trunks: SmallVec<[Arc<Trunk<D>>; 2]> = SmallVec::new();
        self.each_bound(|vi| {
            let shared = vi.poll();
            let is_new =
                |trunk: &Arc<Trunk<D>>| !trunks.iter().any(|other| Arc::ptr_eq(other, trunk));
            trunks.extend(shared.filter(is_new));
        });
        for trunk in trunks {
            trunk.look();
        }
    }

    /// End waits, and drop handlers that have not begun; [`leave()`](Self::leave) comes after
    /// that.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        state.alive = false;
        state.entries.clear();
        let handlers = std::mem::take(&mut state.handlers);
        drop(state);
        drop(handlers);
        self.arrived.notify_all();
        self.nic.service.kick_leader();
        self.notifier.close();
    }

    /// Wait for handlers that run.
    pub(crate) fn leave(&self) {
        self.notifier.stop();
    }
}

impl<D: Device> State<D> {
    /// Take an entry of a VI that is there.
    fn pop(&mut self) -> Option<(Vi<D>, QueueKind)> {
        self.entries.take(|entry| {
            let (vi, kind) = entry?;
            Some((Vi(vi.upgrade()?), kind))
        })
    }
}

impl<D: Device> fmt::Debug for CqShared<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cq")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// How many entries a queue can have (VI-CQ-1).
fn capacity(entries: u64) -> Result<usize> {
    match entries {
        0 => Err(Error::InvalidParameter),
        _ if entries > CQ_ENTRIES_MAX => Err(Error::Resource),
        _ => usize::try_from(entries).map_err(|_| Error::Resource),
    }
}
