// SPDX-License-Identifier: GPL-2.0-only

//! What has happened to an object, and who wants to know: threads that wait, an
//! eventfd, and the context's stream of records.

use crate::{
    stream::{
        Place,
        Stream, //
    },
    uapi, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    error,
    eventfd::EventFd,
    new_spinlock_bh,
    new_wait_queue,
    sync::SpinLockBh,
    wait::{
        Events,
        Sleep,
        WaitQueue, //
    }, //
};
use mp_proto::sharing::tally::Pending;

/// An interface has gone up or down.
pub(crate) const STATE: u32 = uapi::MP_EVENT_STATE;
/// The peer's windows have changed.
pub(crate) const WINDOWS: u32 = uapi::MP_EVENT_WINDOWS;
/// A session has a partner, or has had one.
pub(crate) const PAIRED: u32 = uapi::MP_EVENT_PAIRED;
/// The partner has signalled; an event was triggered.
pub(crate) const SIGNAL: u32 = uapi::MP_EVENT_SIGNAL;
/// The partner is gone for good.
pub(crate) const CLOSED: u32 = uapi::MP_EVENT_CLOSED;
/// The link is down.
pub(crate) const DOWN: u32 = uapi::MP_EVENT_DOWN;
/// There is a notice.
pub(crate) const NOTICE: u32 = uapi::MP_EVENT_NOTICE;
/// A queue is in a final state.
pub(crate) const DONE: u32 = uapi::MP_EVENT_DONE;
/// There is a message.
pub(crate) const MESSAGE: u32 = uapi::MP_EVENT_MESSAGE;
/// A server has a request at hand.
pub(crate) const REQUEST: u32 = uapi::MP_EVENT_REQUEST;
/// A client will have no partner.
pub(crate) const REFUSED: u32 = uapi::MP_EVENT_REFUSED;

/// Events that are gone once a wait has returned them (`PXI-WIE-1`, `PXI-WSE-1`).
const TAKEN: u32 = STATE | WINDOWS | SIGNAL;

/// Events of interfaces.
pub(crate) const OF_INTERFACES: u32 = STATE | WINDOWS;
/// Events of sessions.
pub(crate) const OF_SESSIONS: u32 = PAIRED | SIGNAL | CLOSED | DOWN | REQUEST | REFUSED;
/// Events of sessions that somebody may wait for who has no partner.
pub(crate) const BEFORE_PAIRED: u32 = PAIRED | REQUEST | REFUSED;
/// Events of all objects.
pub(crate) const OF_OBJECTS: u32 =
    OF_SESSIONS | OF_SEGMENTS | OF_CONNECTIONS | OF_EVENTS | OF_PORTS | OF_QUEUES;
/// Events of queues.
pub(crate) const OF_QUEUES: u32 = DONE;
/// Events of segments.
pub(crate) const OF_SEGMENTS: u32 = NOTICE;
/// Events of connections.
pub(crate) const OF_CONNECTIONS: u32 = NOTICE | CLOSED | DOWN;
/// Events of events.
pub(crate) const OF_EVENTS: u32 = SIGNAL | CLOSED;
/// Events of ports.
pub(crate) const OF_PORTS: u32 = MESSAGE | CLOSED;

/// The most important first (`PXI-WSE-4`).
const RANKS: [u32; 3] = [CLOSED, DOWN, SIGNAL];

/// Where a context's stream reports events.
struct Watch {
    place: Place,
    target: u32,
    mask: u32,
    cookie: u64,
    /// Whether the stream has a place for it already.
    queued: bool,
}

struct State {
    events: u32,
    /// How many signals wait, if that is not simply one.
    signals: Option<Pending>,
    /// The object has been closed.
    gone: bool,
    notify: Option<(EventFd, u32)>,
    watch: Option<Watch>,
}

/// Contexts that want to know of something which several may wait for: the events that each of
/// them has of it.
#[pin_data]
pub(crate) struct Watchers {
    #[pin]
    all: SpinLockBh<KVec<Arc<Ready>>>,
}

impl Watchers {
    /// Nobody wants to know.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            all <- new_spinlock_bh!(KVec::new()),
        })
    }

    /// Tell a context of changes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(&self, ready: Arc<Ready>) -> Result {
        Ok(self.all.lock().push(ready, GFP_ATOMIC)?)
    }

    /// End [`add`](Self::add).
    pub(crate) fn remove(&self, ready: &Arc<Ready>) {
        let gone = {
            let mut all = self.all.lock();
            let at = all.iter().position(|w| Arc::ptr_eq(w, ready));
            at.and_then(|at| all.remove(at).ok())
        };
        drop(gone);
    }

    /// Tell all contexts of events.
    pub(crate) fn tell(&self, events: u32) {
        self.all.lock().iter().for_each(|w| w.raise(events));
    }
}

/// The events of an object.
#[pin_data]
pub(crate) struct Ready {
    /// An event that must have happened before there can be others.
    needs: u32,
    /// Those that there can be before.
    before: u32,
    #[pin]
    state: SpinLockBh<State>,
    #[pin]
    queue: WaitQueue,
}

impl Ready {
    /// With these events from the start.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(events: u32) -> Result<Arc<Self>> {
        Self::with(events, 0, 0, None)
    }

    /// Of a session: waits fail as long as it has no partner, unless they are for what there
    /// can be before.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn of_session() -> Result<Arc<Self>> {
        Self::with(0, PAIRED, BEFORE_PAIRED, None)
    }

    /// Of an event, which is triggered by [`count`](Self::count).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn counting(counts: bool) -> Result<Arc<Self>> {
        Self::with(0, 0, 0, Some(Pending::new(counts)))
    }

    fn with(events: u32, needs: u32, before: u32, signals: Option<Pending>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                needs,
                before,
                state <- new_spinlock_bh!(State {
                    events,
                    signals,
                    gone: false,
                    notify: None,
                    watch: None,
                }),
                queue <- new_wait_queue!("mp_ready"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// It was triggered so often. Any context but hard interrupts.
    pub(crate) fn count(self: &Arc<Self>, count: u32) {
        if count == 0 {
            return;
        }
        if let Some(signals) = &mut self.state.lock().signals {
            signals.add(count);
        }
        self.raise(SIGNAL);
    }

    /// The events that are there.
    pub(crate) fn events(&self) -> u32 {
        self.state.lock().events
    }

    /// These have happened. Any context but hard interrupts.
    pub(crate) fn raise(self: &Arc<Self>, events: u32) {
        let stream = {
            let mut state = self.state.lock();
            state.events |= events;
            if let Some((eventfd, mask)) = &state.notify {
                if mask & events != 0 {
                    eventfd.signal();
                }
            }
            self.enqueue(&mut state, events)
        };
        if let Some(stream) = stream {
            stream.wake();
        }
        self.queue.wake(Events::IN);
    }

    /// Enter it into the queue of the stream that watches one of `events`, unless it is
    /// there. The stream, if there is somebody to wake.
    fn enqueue(self: &Arc<Self>, state: &mut State, events: u32) -> Option<Arc<Stream>> {
        let watch = state.watch.as_mut()?;
        if watch.queued || watch.mask & events == 0 {
            return None;
        }
        let stream = watch.place.stream().clone();
        watch.queued = stream.push(self.clone());
        Some(stream)
    }

    /// A record that was taken has not arrived.
    pub(crate) fn tell_again(self: &Arc<Self>) {
        let stream = {
            let mut state = self.state.lock();
            let events = state.events;
            self.enqueue(&mut state, events)
        };
        if let Some(stream) = stream {
            stream.wake();
        }
    }

    /// These are not so any more.
    pub(crate) fn clear(&self, events: u32) {
        self.state.lock().events &= !events;
    }

    /// The context has ended, which has more objects: as [`close`](Self::close), and who sleeps on
    /// the descriptor looks again, which tells of the end.
    pub(crate) fn end(&self) {
        if let Some((eventfd, _)) = &self.state.lock().notify {
            eventfd.signal();
        }
        self.close();
    }

    /// The object is closed: all waits end.
    pub(crate) fn close(&self) {
        let gone;
        {
            let mut state = self.state.lock();
            state.gone = true;
            let watch = state.watch.take();
            let queued = watch.as_ref().and_then(|watch| self.dequeue(watch));
            gone = (state.notify.take(), watch, queued);
        }
        self.queue.wake(Events::ALL);
        drop(gone);
    }

    /// Take it out of the queue of a stream that does not watch it any more.
    fn dequeue(&self, watch: &Watch) -> Option<Arc<Self>> {
        watch.queued.then(|| watch.place.stream().forget(self))?
    }

    /// Wait for events of `mask`, and take what can be taken; with `one` only the
    /// most important.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the object is closed, `ENOTCONN` see [`of_session`](Self::of_session), `ETIMEDOUT`,
    /// `ERESTARTSYS` for a signal.
    pub(crate) fn wait(&self, mask: u32, deadline: Option<u64>, one: bool) -> Result<u32> {
        let mut result = Ok(0);
        let waited = self.queue.wait_until(Sleep::Interruptible, deadline, || {
            result = self.take(mask, one);
            result != Ok(0)
        });
        match result {
            Ok(0) => waited.ok().map(|()| 0),
            result => result,
        }
    }

    /// Events that a wait has taken have not reached the process: they happen anew.
    pub(crate) fn give_back(self: &Arc<Self>, events: u32) {
        let events = events & TAKEN;
        if events & SIGNAL != 0 {
            if let Some(signals) = &mut self.state.lock().signals {
                signals.add(1);
            }
        }
        if events != 0 {
            self.raise(events);
        }
    }

    /// Where those sleep who wait for events.
    pub(crate) fn queue(&self) -> &WaitQueue {
        &self.queue
    }

    /// Take what there is of `mask`, with `one` only the most important; 0 if there is nothing.
    /// Any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ENOTCONN`: as [`wait`](Self::wait).
    pub(crate) fn take(&self, mask: u32, one: bool) -> Result<u32> {
        let mut state = self.state.lock();
        if state.gone {
            return Err(ENOENT);
        }
        let is_too_early = state.events & self.needs == 0 && mask & self.before == 0;
        if self.needs != 0 && is_too_early {
            return Err(error::not_connected());
        }
        let mut found = state.events & mask;
        if one {
            found = RANKS
                .into_iter()
                .find(|rank| found & rank != 0)
                .unwrap_or(found);
        }
        let mut taken = found & TAKEN;
        if let Some(signals) = state.signals.as_mut().filter(|_| found & SIGNAL != 0) {
            if !signals.take() {
                // Somebody was faster than the event that tells of it.
                found &= !SIGNAL;
            }
            if signals.is_there() {
                taken &= !SIGNAL;
            }
        }
        state.events &= !taken;
        Ok(found)
    }

    /// Signal an eventfd when events of `mask` come, and now if one is there; no
    /// eventfd ends that.
    pub(crate) fn notify(&self, eventfd: Option<EventFd>, mask: u32) {
        let old;
        {
            let mut state = self.state.lock();
            if let Some(eventfd) = &eventfd {
                if state.events & mask != 0 {
                    eventfd.signal();
                }
            }
            let new = eventfd
                .map(|eventfd| (eventfd, mask))
                .filter(|_| !state.gone);
            old = core::mem::replace(&mut state.notify, new);
        }
        drop(old);
    }

    /// Let a stream report events of `mask` under that cookie, and those that are there
    /// at once; an empty mask ends that.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn watch(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        target: u32,
        mask: u32,
        cookie: u64,
    ) -> Result {
        let new = Watch {
            place: Place::new(stream)?,
            target,
            mask,
            cookie,
            queued: false,
        };
        let (old, stream);
        {
            let mut state = self.state.lock();
            let before = state.watch.take();
            let queued = before.as_ref().and_then(|watch| self.dequeue(watch));
            let is_wanted = mask != 0 && !state.gone;
            let unwanted = match is_wanted {
                true => state.watch.replace(new),
                false => Some(new),
            };
            let events = state.events;
            stream = self.enqueue(&mut state, events);
            old = (before, queued, unwanted);
        }
        drop(old);
        if let Some(stream) = stream {
            stream.wake();
        }
        Ok(())
    }

    /// The record for the stream, which has taken this out of its queue; `None` if what
    /// it was about is not so any more.
    pub(crate) fn record(&self) -> Option<uapi::mp_event> {
        let mut state = self.state.lock();
        let events = state.events;
        let watch = state.watch.as_mut()?;
        watch.queued = false;
        (events & watch.mask != 0).then_some(uapi::mp_event {
            cookie: watch.cookie,
            target: watch.target,
            events: events & watch.mask,
        })
    }
}
