// SPDX-License-Identifier: MIT OR Apache-2.0

//! VIs: endpoints with a queue for sends and one for receives.
//!
//! A VI has one lock, below which its engine and its connection are. Whoever holds it moves
//! messages: threads that look for completions, and the service thread of the NIC. Nobody sleeps
//! with it.

use crate::{
    check::Checked,
    completion::Cq,
    connect::Attempt,
    descriptor::Completion,
    engine::{Engine, Head},
    link::{Lane, Link, News, Numbers},
    lock,
    memory::View,
    nic::NicShared,
    notify::{Job, Notifier},
    room::must_have_memory,
    state::{Event, State},
    trunk::Trunk,
    wire::{End, Frame, Wire},
    Error, MemHandle, QueueKind, Result, ViAttributes,
};
use mp_fabric::{CharDevice, Deadline, Device, Fabric};
use mp_queue_pair::provider::{lead, Answer, Attention, Led, NotNow, Question, Rest, Served};
use std::{
    collections::VecDeque,
    fmt,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Condvar, Mutex, MutexGuard, Weak,
    },
};

/// Looks before a wait sleeps: about as long as it takes to sleep and be woken. Whoever looks for
/// longer holds up others for a partner that does not answer soon.
pub(crate) const LOOKS: u32 = 200;

/// Is told of one descriptor; of none if the queue has become empty (VI-NTFY-6).
pub type QueueHandler<D = CharDevice> = Box<dyn FnOnce(&Vi<D>, Option<Completion>) + Send>;

/// A VI. Copies are the same one.
pub struct Vi<D: Device = CharDevice>(pub(crate) Arc<ViShared<D>>);

crate::shared!(Vi);

impl<D: Device> PartialEq for Vi<D> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<D: Device> Eq for Vi<D> {}

/// What is known of a VI (VI-QRY-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViInfo {
    /// Its state.
    pub state: State,
    /// Its attributes.
    pub attributes: ViAttributes,
    /// Whether nothing is on the send queue, also nothing that is complete.
    pub send_empty: bool,
    /// The same of the receive queue.
    pub recv_empty: bool,
}

/// What is done without the lock after something has happened.
struct After<'a, D: Device> {
    /// Handlers whose thread has ended.
    refused: Vec<Job>,
    overrun: Vec<&'a Cq<D>>,
}

impl<D: Device> Default for After<'_, D> {
    fn default() -> Self {
        After {
            refused: Vec::new(),
            overrun: Vec::new(),
        }
    }
}

pub(crate) struct ViShared<D: Device> {
    pub(crate) nic: Arc<NicShared<D>>,
    pub(crate) id: u64,
    token: u64,
    core: Mutex<Core<D>>,
    /// Something has become complete, or the state has changed.
    changed: Condvar,
    cqs: [Option<Cq<D>>; 2],
    notifiers: [Notifier; 2],
    attention: Attention,
    /// Whether its connection has a lane of a trunk, and of which.
    shares: AtomicBool,
    trunk: Mutex<Weak<Trunk<D>>>,
}

/// What the lock of a VI is for.
pub(crate) struct Core<D: Device> {
    pub(crate) engine: Engine,
    pub(crate) link: Option<Link<D>>,
    pub(crate) attempt: Attempt<D>,
    handlers: [VecDeque<QueueHandler<D>>; 2],
    alive: bool,
    /// Threads that wait for a change.
    asleep: usize,
    /// Threads that serve meanwhile, or find that another one does.
    leading: usize,
}

impl<D: Device> Core<D> {
    /// Whether a thread waits for a change.
    fn is_waited_for(&self) -> bool {
        self.asleep > 0 || self.leading > 0
    }
}

/// What a program is told of the head of a queue.
fn taken(head: Head) -> Result<Completion> {
    match head {
        Head::Empty => Err(Error::Descriptor),
        Head::Pending => Err(Error::NotDone),
        Head::Done(done) => Ok(done),
    }
}

fn index(kind: QueueKind) -> usize {
    match kind {
        QueueKind::Send => 0,
        QueueKind::Receive => 1,
    }
}

impl<D: Device> Vi<D> {
    pub(crate) fn new(
        nic: &Arc<NicShared<D>>,
        id: u64,
        attributes: ViAttributes,
        cqs: [Option<Cq<D>>; 2],
        token: u64,
    ) -> Result<Self> {
        Ok(Vi(Arc::new(ViShared {
            nic: Arc::clone(nic),
            id,
            token,
            core: Mutex::new(Core {
                engine: Engine::new(attributes)?,
                link: None,
                attempt: Attempt::default(),
                handlers: Default::default(),
                alive: true,
                asleep: 0,
                leading: 0,
            }),
            changed: Condvar::new(),
            cqs,
            notifiers: [Notifier::new("vipl-send"), Notifier::new("vipl-recv")],
            attention: Attention::default(),
            shares: AtomicBool::new(false),
            trunk: Mutex::default(),
        })))
    }

    /// What it was made with.
    pub fn token(&self) -> u64 {
        self.0.token
    }

    /// What is known of it.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: destroyed, as of all calls.
    pub fn query(&self) -> Result<ViInfo> {
        self.0.with(|core| {
            let engine = &core.engine;
            Ok(ViInfo {
                state: engine.state(),
                attributes: *engine.attributes(),
                send_empty: engine.is_empty(QueueKind::Send),
                recv_empty: engine.is_empty(QueueKind::Receive),
            })
        })
    }

    /// Change its attributes, all or none (VI-ATTR-1 to VI-ATTR-3).
    ///
    /// # Errors
    /// [`Error::InvalidState`]: not idle. [`Error::InvalidMtu`], [`Error::InvalidRdmaRead`],
    /// [`Error::InvalidPtag`].
    pub fn set_attributes(&self, attributes: &ViAttributes) -> Result<()> {
        let nic = &self.0.nic;
        self.0.with(|core| {
            core.engine.may_change()?;
            attributes.check()?;
            nic.tags
                .exchange(core.engine.attributes().ptag, attributes.ptag)?;
            core.engine.set_attributes(*attributes)
        })
    }

    /// Post a descriptor at an address in a region to the send queue. What is wrong with it is
    /// told when it completes, or to the error handler (VI-POST-1, VI-POST-8).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`].
    pub fn post_send(&self, descriptor: usize, handle: MemHandle) -> Result<()> {
        self.post(QueueKind::Send, descriptor, handle)
    }

    /// As [`post_send()`](Self::post_send), to the receive queue.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`].
    pub fn post_recv(&self, descriptor: usize, handle: MemHandle) -> Result<()> {
        self.post(QueueKind::Receive, descriptor, handle)
    }

    fn post(&self, kind: QueueKind, descriptor: usize, handle: MemHandle) -> Result<()> {
        let shared = &self.0;
        shared.with(|core| {
            let view = shared.nic.regions.view();
            core.engine.post(&view, kind, descriptor, handle);
            if kind == QueueKind::Send {
                shared.progress_with(core, &view);
            }
            Ok(())
        })
    }

    /// Take the first descriptor of the send queue if it is complete; one that has failed as
    /// well. Never waits (VI-WQ-1 to VI-WQ-6).
    ///
    /// # Errors
    /// [`Error::NotDone`]: it is not complete. [`Error::Descriptor`]: there is none.
    pub fn send_done(&self) -> Result<Completion> {
        self.0.done(QueueKind::Send)
    }

    /// As [`send_done()`](Self::send_done), of the receive queue.
    ///
    /// # Errors
    /// [`Error::NotDone`], [`Error::Descriptor`].
    pub fn recv_done(&self) -> Result<Completion> {
        self.0.done(QueueKind::Receive)
    }

    /// Take the first descriptor of the send queue as soon as it is complete (VI-WQ-7).
    ///
    /// # Errors
    /// [`Error::Resource`]: the queue is bound to a completion queue (VI-WQ-9).
    /// [`Error::Descriptor`]: there is none. [`Error::Timeout`]; at once if the deadline is past.
    pub fn send_wait(&self, deadline: Deadline) -> Result<Completion> {
        self.0.wait(QueueKind::Send, deadline)
    }

    /// As [`send_wait()`](Self::send_wait), of the receive queue.
    ///
    /// # Errors
    /// [`Error::Resource`], [`Error::Descriptor`], [`Error::Timeout`].
    pub fn recv_wait(&self, deadline: Deadline) -> Result<Completion> {
        self.0.wait(QueueKind::Receive, deadline)
    }

    /// Let a handler take one descriptor of the send queue, now or as soon as it is complete,
    /// behind earlier handlers (VI-NTFY-1 to VI-NTFY-8).
    ///
    /// # Errors
    /// [`Error::Resource`]: the queue is bound to a completion queue, or there are no more threads.
    /// [`Error::Descriptor`]: there is no descriptor.
    pub fn send_notify(&self, handler: QueueHandler<D>) -> Result<()> {
        self.0.notify(QueueKind::Send, handler)
    }

    /// As [`send_notify()`](Self::send_notify), of the receive queue.
    ///
    /// # Errors
    /// [`Error::Resource`], [`Error::Descriptor`].
    pub fn recv_notify(&self, handler: QueueHandler<D>) -> Result<()> {
        self.0.notify(QueueKind::Receive, handler)
    }

    /// End the connection, or the attempt to make one. What is not complete is flushed, and
    /// nothing of the program's memory is used any more (VI-DISC-1 to VI-DISC-11).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`].
    pub fn disconnect(&self) -> Result<()> {
        self.0.with(|core| {
            self.0.cut(core);
            Ok(())
        })?;
        self.0.wake();
        Ok(())
    }

    /// End the VI (VI-EP-10, VI-EP-11). Handlers that wait are dropped.
    ///
    /// # Errors
    /// [`Error::InvalidState`]: not idle, or descriptors are on its queues.
    pub fn destroy(&self) -> Result<()> {
        self.0.with(|core| {
            core.engine.may_be_destroyed()?;
            self.0.retire(core);
            Ok(())
        })?;
        self.0.nic.forget_vi(self.0.id);
        self.0.leave();
        Ok(())
    }
}

impl<D: Device> ViShared<D> {
    /// Do something with the VI, and tell what has come of it.
    #[inline]
    pub(crate) fn with<T>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Core<D>) -> Result<T>,
    ) -> Result<T> {
        let mut core = self.alive()?;
        let result = act(&mut core);
        self.tell(core);
        result
    }

    #[inline]
    fn alive(&self) -> Result<MutexGuard<'_, Core<D>>> {
        let core = lock(&self.core);
        match core.alive {
            true => Ok(core),
            false => Err(Error::InvalidParameter),
        }
    }

    /// Tell what has happened, and let the service thread go on with what waits.
    #[inline]
    fn tell(self: &Arc<Self>, core: MutexGuard<'_, Core<D>>) {
        let link = core.link.as_ref();
        let waits = link.is_some_and(|link| link.owes_signal() || core.engine.has_to_send());
        match self.must_tell(&core) {
            true => self.tell_all(core),
            false => drop(core),
        }
        if waits {
            self.list();
        }
    }

    /// Whether anybody is to be told of anything.
    #[inline]
    fn must_tell(&self, core: &Core<D>) -> bool {
        let bound = || self.cqs.iter().any(Option::is_some);
        core.engine.has_reports()
            || core.engine.has_completed() && (core.is_waited_for() || bound())
            || !core.handlers.iter().all(VecDeque::is_empty)
    }

    /// With the lock, tell those who are told in the order of occurrence; without it, those who may do
    /// something about it.
    #[inline(never)]
    fn tell_all(self: &Arc<Self>, mut core: MutexGuard<'_, Core<D>>) {
        let mut after = After::default();
        let wake =
            core.is_waited_for() && (core.engine.has_completed() || core.engine.has_reports());
        // Waking takes a system call, which one that leads does not need.
        let sleeps = core.asleep > 0;
        let mut woken = wake;
        for (kind, count) in core.engine.announce() {
            if let Some(cq) = self.cq(kind).filter(|_| count > 0) {
                let pushed = cq.0.push(self, kind, count);
                after.refused.extend(pushed.refused);
                after.overrun.extend(pushed.overrun.then_some(cq));
                woken |= pushed.woken;
            }
        }
        self.serve(&mut core, &mut after.refused);
        let reliable = core.engine.attributes().level.is_reliable();
        for report in core.engine.reports() {
            let vi = Some(Vi(Arc::clone(self)));
            self.nic.report(vi, None, report, report.repeats(reliable));
        }
        drop(core);
        if wake && sleeps {
            self.changed.notify_all();
        }
        if wake {
            self.nic.service.kick_leader();
        }
        if woken {
            self.hand_over();
        }
        drop(after.refused);
        for cq in after.overrun {
            self.nic.overrun(cq);
        }
    }

    /// Let the service thread look after the connection from now on.
    #[cold]
    pub(crate) fn list(&self) {
        self.attention.list(&self.nic.service, self.id);
    }

    /// Let whoever moves messages next look how the connection has ended.
    pub(crate) fn note_end(&self) {
        self.attention.note_news();
    }

    /// A thread of the program was woken: the service thread leaves the connection to it.
    fn hand_over(&self) {
        self.attention.hand_over();
        if let Some(trunk) = self.shared() {
            trunk.hand_over();
        }
    }

    /// Whether there is something to do that nobody has done. Nobody moves messages meanwhile.
    fn has_work(&self) -> bool {
        self.core.try_lock().is_ok_and(|core| {
            let link = core.link.as_ref();
            link.is_some_and(|link| core.engine.has_work(link))
        })
    }

    /// The threads of the program look no more: they sleep. The service thread moves messages, or
    /// the partner was asked for signals. It gets one for what it may not have seen.
    pub(crate) fn unwatch(&self) {
        if let Some(Link::Own(own)) = &mut lock(&self.core).link {
            own.remind();
        }
        self.attention.unwatch(&self.nic.service);
        if let Some(trunk) = self.shared() {
            trunk.unwatch();
        }
    }

    fn cq(&self, kind: QueueKind) -> Option<&Cq<D>> {
        self.cqs.get(index(kind))?.as_ref()
    }

    /// Give completed descriptors to handlers, and nothing to those for which there is none;
    /// collect those whose thread has ended.
    fn serve(self: &Arc<Self>, core: &mut Core<D>, refused: &mut Vec<Job>) {
        let Core {
            engine, handlers, ..
        } = core;
        let kinds = [QueueKind::Send, QueueKind::Receive];
        for ((kind, handlers), notifier) in kinds.into_iter().zip(handlers).zip(&self.notifiers) {
            while !handlers.is_empty() {
                let done = match engine.take(kind) {
                    Head::Pending => break,
                    Head::Empty => None,
                    Head::Done(done) => Some(done),
                };
                if let Some(handler) = handlers.pop_front() {
                    let vi = Vi(Arc::clone(self));
                    refused.extend(notifier.push(Box::new(move || handler(&vi, done))));
                }
            }
        }
    }

    /// Move messages; whether there were any.
    pub(crate) fn progress(&self, core: &mut Core<D>) -> bool {
        let works = |link| self.attention.has_news() || core.engine.has_work(link);
        core.link.as_ref().is_some_and(works) && self.progress_with(core, &self.nic.regions.view())
    }

    /// As [`progress()`](Self::progress), where something is to be done.
    fn progress_with(&self, core: &mut Core<D>, view: &View<'_>) -> bool {
        let Core { engine, link, .. } = core;
        let Some(connected) = link else {
            return false;
        };
        if self.attention.take_news() && self.has_ended(view, engine, connected) {
            *link = None;
            return true;
        }
        let moved = engine.progress(view, connected);
        if engine.is_over() {
            *link = None;
        }
        moved
    }

    /// Look whether the partner or the link has gone; the connection has ended then.
    fn has_ended(&self, view: &View<'_>, engine: &mut Engine, link: &mut Link<D>) -> bool {
        let end = match link.look() {
            News::Ended(end) => end,
            News::None => return false,
            News::Ending => {
                self.attention.note_news();
                return false;
            }
        };
        // What it has said last may have come meanwhile.
        let end = engine.drain(view, link).unwrap_or(end);
        engine.lost(view, link, end);
        true
    }

    /// Its connection has a lane of a trunk from now on, or none.
    pub(crate) fn share(&self, trunk: Option<&Arc<Trunk<D>>>) {
        self.shares.store(trunk.is_some(), Ordering::Release);
        *lock(&self.trunk) = trunk.map(Arc::downgrade).unwrap_or_default();
    }

    /// The trunk that its connection has a lane of.
    #[inline]
    fn shared(&self) -> Option<Arc<Trunk<D>>> {
        match self.shares.load(Ordering::Acquire) {
            true => self.trunk(),
            false => None,
        }
    }

    /// As [`shared()`](Self::shared), of a connection that has a lane or had one.
    #[inline(never)]
    fn trunk(&self) -> Option<Arc<Trunk<D>>> {
        lock(&self.trunk).upgrade()
    }

    /// Receive what has come for the VI and others, for a thread that looks; whether there was
    /// anything. Without the VI's lock.
    fn pump(&self) -> bool {
        self.shared().is_some_and(|trunk| trunk.look())
    }

    /// Do something with a lane, unless it is that of an earlier connection.
    fn with_lane(&self, own: u32, act: impl FnOnce(&mut Engine, &mut Checked<Lane<D>>)) {
        let mut core = lock(&self.core);
        let Core { engine, link, .. } = &mut *core;
        let Some(Link::Shared(lane)) = link else {
            return;
        };
        if lane.is(own) {
            act(engine, lane);
            if engine.is_over() {
                *link = None;
            }
        }
    }

    /// The partner receives on a lane.
    pub(crate) fn begin_lane(&self, both: Numbers) {
        self.with_lane(both.own, |_, lane| lane.begin(both));
    }

    /// A message has arrived on a lane. The caller [pushes](Self::push) the VI later.
    pub(crate) fn deliver(&self, own: u32, frame: Frame<'_>) {
        self.with_lane(own, |engine, lane| {
            lane.count();
            let frame = lane.arrived(frame);
            engine.deliver(&self.nic.regions.view(), lane, frame);
        });
    }

    /// The partner has ended a lane, after so many messages of this side had taken effect.
    pub(crate) fn end_lane(&self, both: Numbers, end: End, effective: u64) {
        self.with_lane(both.own, |engine, lane| {
            if lane.numbers() == both {
                let end = lane.settle(end, effective);
                engine.ended(&self.nic.regions.view(), lane, end);
            }
        });
    }

    /// The trunk of a lane has ended.
    pub(crate) fn lose_lane(&self, own: u32, end: End) {
        self.with_lane(own, |engine, lane| {
            engine.ended(&self.nic.regions.view(), lane, end)
        });
    }

    /// Send what there is to be sent, and tell what has come of messages that were delivered;
    /// whether anything was sent.
    pub(crate) fn push(self: &Arc<Self>) -> bool {
        let mut core = lock(&self.core);
        let moved = self.progress(&mut core);
        self.tell(core);
        moved
    }

    /// Move messages for a thread that looks at a completion queue, unless somebody else does. Those
    /// of a trunk are left to the caller, which may look for many VIs: the trunk.
    pub(crate) fn poll(self: &Arc<Self>) -> Option<Arc<Trunk<D>>> {
        let shared = self.shared();
        if shared.is_some() {
            return shared;
        }
        self.attention.watch();
        if let Ok(mut core) = self.core.try_lock() {
            if self.progress(&mut core) {
                self.tell(core);
            }
        }
        None
    }

    /// Move messages for the service thread; whether there were any.
    fn serve_link(self: &Arc<Self>) -> bool {
        if let Some(trunk) = self.shared().filter(|_| self.attention.has_news()) {
            trunk.pump();
        }
        let Ok(mut core) = self.core.try_lock() else {
            return false;
        };
        let moved = self.progress(&mut core);
        self.tell(core);
        moved
    }

    /// Before the service thread sleeps: asks the partner for signals, unless a thread of the
    /// program looks at the same connection; not for longer than until the deadline, and without
    /// the lock.
    fn before_sleep(self: &Arc<Self>, until: Deadline) -> Rest {
        let question = match self.question() {
            Ok(question) => question,
            Err(rest) => return rest,
        };
        let answer = question.ask(&self.nic.fabric, until);
        let mut core = lock(&self.core);
        let Some(Link::Own(own)) = &mut core.link else {
            return Rest::Over;
        };
        match own.answered(answer) {
            // Asking has published, for which the partner may have to be woken.
            Answer::Surely if own.owes_signal() => Rest::Nap,
            Answer::Surely => Rest::Armed,
            Answer::Perhaps => Rest::Nap,
            Answer::Busy => Rest::Busy,
        }
    }

    /// What to ask the partner's host; nothing if the connection rests, or must not, without that.
    fn question(self: &Arc<Self>) -> std::result::Result<Question<D>, Rest> {
        let Ok(mut core) = self.core.try_lock() else {
            return Err(Rest::Nap);
        };
        let Core { engine, link, .. } = &mut *core;
        let Some(connected) = link else {
            return Err(Rest::Over);
        };
        let view = || self.nic.regions.view();
        if self.attention.take_news() && self.has_ended(&view(), engine, connected) {
            *link = None;
            self.tell(core);
            return Err(Rest::Busy);
        }
        let own = match connected {
            Link::Own(own) => own,
            Link::Shared(_) if self.attention.has_news() => return Err(Rest::Busy),
            // The trunk rests or does not; who waits for room has a turn there.
            Link::Shared(_) => return Err(Rest::Over),
        };
        match self.attention.is_watched() {
            true => Err(Rest::Nap),
            false if own.owes_signal() => Err(Rest::Nap),
            false => match own.arm(engine.has_to_send()) {
                Ok(question) => question.ok_or(Rest::Armed),
                Err(NotNow) => Err(Rest::Busy),
            },
        }
    }

    fn done(self: &Arc<Self>, kind: QueueKind) -> Result<Completion> {
        match self.take(kind) {
            Err(Error::NotDone) if self.pump() => self.take(kind),
            other => other,
        }
    }

    fn take(self: &Arc<Self>, kind: QueueKind) -> Result<Completion> {
        let mut core = self.alive()?;
        let mut head = core.engine.take(kind);
        if !matches!(head, Head::Done(_)) {
            self.attention.watch();
            if self.progress(&mut core) {
                head = core.engine.take(kind);
                self.tell(core);
            }
        }
        taken(head)
    }

    fn wait(self: &Arc<Self>, kind: QueueKind, deadline: Deadline) -> Result<Completion> {
        drop(self.alive()?);
        if self.cq(kind).is_some() {
            return Err(Error::Resource);
        }
        let looks = if deadline == Deadline::PAST { 1 } else { LOOKS };
        for _ in 0..looks {
            match self.done(kind) {
                Err(Error::NotDone) => std::hint::spin_loop(),
                other => return other,
            }
        }
        loop {
            if deadline.remaining().is_some_and(|left| left.is_zero()) {
                return Err(Error::Timeout);
            }
            self.unwatch();
            self.rest(kind, deadline)?;
            match self.done(kind) {
                Err(Error::NotDone) => {}
                other => return other,
            }
        }
    }

    /// Wait until a descriptor is complete or there is none, serving meanwhile unless somebody else
    /// does.
    fn rest(&self, kind: QueueKind, deadline: Deadline) -> Result<()> {
        self.alive()?.leading += 1;
        let led = lead(&*self.nic, deadline, || {
            let core = lock(&self.core);
            !core.alive || !core.engine.is_pending(kind)
        });
        lock(&self.core).leading -= 1;
        match led {
            Led::Over => Ok(()),
            Led::Follow(_follower) => self.sleep(deadline, |core| !core.engine.is_pending(kind)),
        }
    }

    fn notify(self: &Arc<Self>, kind: QueueKind, handler: QueueHandler<D>) -> Result<()> {
        drop(self.alive()?);
        must_have_memory()?;
        let notifier = self.notifiers.get(index(kind)).ok_or(Error::Resource)?;
        if self.cq(kind).is_some() {
            return Err(Error::Resource);
        }
        notifier.start()?;
        // One that is not taken is dropped without the lock.
        let mut handler = Some(handler);
        self.with(|core| {
            if core.engine.is_empty(kind) {
                return Err(Error::Descriptor);
            }
            if let Some(handlers) = core.handlers.get_mut(index(kind)) {
                handlers.try_reserve(1).map_err(|_| Error::Resource)?;
                notifier.reserve(handlers.len() + 1)?;
                handlers.extend(handler.take());
            }
            Ok(())
        })?;
        self.unwatch();
        Ok(())
    }

    /// End the connection, or the attempt to make one, from this side.
    pub(crate) fn cut(&self, core: &mut Core<D>) {
        self.hang_up(core);
        // It is possible in every state.
        let _ = core.engine.event(&self.nic.regions, Event::Disconnect);
    }

    /// Tell the other side that the connection ends, or give up the attempt to make one. What is on
    /// the queues stays there.
    fn hang_up(&self, core: &mut Core<D>) {
        core.attempt.cancel();
        if let Some(mut link) = core.link.take() {
            link.close(core.engine.leaves());
        }
    }

    /// Let no message come or go any more (VI-NIC-5); [`end()`](Self::end) comes after that.
    pub(crate) fn part(&self) {
        let mut core = lock(&self.core);
        self.retire(&mut core);
        self.hang_up(&mut core);
    }

    /// Refuse calls from here on, and begin no further handler; one that runs is waited for in
    /// [`leave()`](Self::leave).
    fn retire(&self, core: &mut Core<D>) {
        core.alive = false;
        self.notifiers.iter().for_each(Notifier::halt);
    }

    /// Wait until something about the VI has changed.
    pub(crate) fn sleep(
        &self,
        deadline: Deadline,
        unless: impl Fn(&Core<D>) -> bool,
    ) -> Result<()> {
        let mut core = self.alive()?;
        if !unless(&core) {
            core.asleep += 1;
            deadline.sleep_on(&self.changed, core).asleep -= 1;
        }
        Ok(())
    }

    /// Wake threads that wait for a change.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
        self.nic.service.kick_leader();
    }

    /// An error that the VI does not survive, and that was told.
    pub(crate) fn fail(self: &Arc<Self>) {
        let failed = self.with(|core| {
            core.engine.fail(&self.nic.regions);
            self.progress(core);
            Ok(())
        });
        // One that was destroyed has failed enough.
        let _ = failed;
    }

    /// End everything, whatever the VI is used for (VI-NIC-5); [`leave()`](Self::leave) comes
    /// after that.
    pub(crate) fn end(&self) {
        let mut core = lock(&self.core);
        self.retire(&mut core);
        self.cut(&mut core);
        let handlers = std::mem::take(&mut core.handlers);
        drop(core);
        drop(handlers);
        self.wake();
        self.notifiers.iter().for_each(Notifier::close);
    }

    /// The VI is not there any more: tells those who have to know, and waits for handlers that
    /// run.
    pub(crate) fn leave(self: &Arc<Self>) {
        let mut core = lock(&self.core);
        let tag = core.engine.attributes().ptag;
        let handlers = std::mem::take(&mut core.handlers);
        drop(core);
        drop(handlers);
        self.nic.tags.release(tag);
        for cq in self.cqs.iter().flatten() {
            cq.0.unbind(self);
        }
        self.wake();
        self.notifiers.iter().for_each(Notifier::stop);
    }
}

/// What the service thread looks after.
pub(crate) enum Serviced<D: Device> {
    /// A VI.
    Vi(Arc<ViShared<D>>),
    /// A trunk, and the NIC that it is of.
    Trunk(Arc<Trunk<D>>, Fabric<D>),
}

impl<D: Device> Served for Serviced<D> {
    fn attention(&self) -> &Attention {
        match self {
            Serviced::Vi(vi) => &vi.attention,
            Serviced::Trunk(trunk, _) => trunk.attention(),
        }
    }

    fn serve(&self) -> bool {
        match self {
            Serviced::Vi(vi) => vi.serve_link(),
            Serviced::Trunk(trunk, _) => trunk.pump(),
        }
    }

    fn has_work(&self) -> bool {
        match self {
            Serviced::Vi(vi) => vi.has_work(),
            Serviced::Trunk(trunk, _) => trunk.has_work(),
        }
    }

    fn rest(&self, until: Deadline) -> Rest {
        match self {
            Serviced::Vi(vi) => vi.before_sleep(until),
            Serviced::Trunk(trunk, fabric) => trunk.rest(fabric, until),
        }
    }
}

impl<D: Device> fmt::Debug for ViShared<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vi")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
