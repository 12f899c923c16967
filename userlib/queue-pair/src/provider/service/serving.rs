// SPDX-License-Identifier: MIT OR Apache-2.0

//! Serving: moving messages of links that nobody looks at, and sleeping until there is news. One
//! thread at a time does it, and has the [`Role`].

use super::{lock, nap::Nap, Owner, Rest, Served, Service, ASLEEP, KICKED, NAP_MIN, RUNNING};
use mp_fabric::{Deadline, Events};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::{
    fmt, mem,
    sync::{atomic::Ordering, Mutex, MutexGuard, TryLockError},
    time::{Duration, Instant},
};

/// Looks of the service thread at the listed links in vain before it sleeps.
const LOOKS: u32 = 50;
/// The same of a thread of the program, which has looked before.
const LOOKS_LED: u32 = 1;
/// How long whoever serves looks, as long as there are messages, before it sees whether there is
/// news, or more links.
const TURN: Duration = Duration::from_millis(1);
/// How long the service thread stands by, while threads of the program lead one after the other,
/// before it sees whether one still does.
const STAND_BY: Duration = NAP_MIN.saturating_mul(8);
/// How long it sleeps before it asks partners again that could not be asked.
const RETRY: Duration = Duration::from_millis(10);
/// How long hosts may take altogether to say that they have been asked: those that do not answer
/// hold up nobody else for longer.
const ANSWERS: Duration = Duration::from_millis(10);

/// What whoever serves has, one thread at a time. An owner of links keeps it.
pub struct Role<L>(Mutex<State<L>>);

impl<L> Default for Role<L> {
    fn default() -> Self {
        Role(Mutex::new(State {
            own: Vec::new(),
            rounds: 0,
            nap: Nap::new(),
            undisturbed: false,
        }))
    }
}

impl<L> Role<L> {
    fn take(&self) -> MutexGuard<'_, State<L>> {
        lock(&self.0)
    }

    /// Take it, unless another thread has it.
    fn try_take(&self) -> Option<MutexGuard<'_, State<L>>> {
        match self.0.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Let go of the links that whoever served has left.
    fn forget(&self) {
        let own = mem::take(&mut self.take().own);
        drop(own);
    }
}

impl<L> fmt::Debug for Role<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role").finish_non_exhaustive()
    }
}

struct State<L> {
    /// The links that are looked after.
    own: Vec<L>,
    /// How often partners were asked for signals.
    rounds: usize,
    nap: Nap,
    /// Nothing has ended the last sleep before the time.
    undisturbed: bool,
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

/// How long somebody serves.
struct Stay<F> {
    /// For no longer than until then.
    deadline: Deadline,
    /// Looks in vain before it sleeps.
    looks: u32,
    /// Whether it has no reason any more.
    is_over: F,
}

/// Serve as the service thread does, until the service is stopped; whenever a thread of the program
/// leads, stand by.
pub(super) fn serve<O: Owner>(owner: &O) {
    let service = owner.service();
    let mut before = 0;
    while !service.is_stopped() {
        let state = owner.role().try_take();
        let Some(state) = state.filter(|_| !service.is_led()) else {
            let terms = service.terms.load(Ordering::SeqCst);
            // Where none has finished since the last time, one that does sets the alarm.
            service.alarm.wait((terms != before).then_some(STAND_BY));
            before = terms;
            continue;
        };
        let mut stay = Stay {
            deadline: Deadline::NEVER,
            looks: LOOKS,
            is_over: || service.is_stopped() || service.is_led(),
        };
        if !Serving::new(owner, state).stay(&mut stay) {
            service.ended.store(true, Ordering::SeqCst);
            owner.fail();
            break;
        }
    }
    owner.role().forget();
}

/// How a thread of the program has waited.
#[derive(Debug)]
pub enum Led<'a> {
    /// It has served, until its wait was over.
    Over,
    /// Somebody else serves. The thread sleeps where that one wakes it, and keeps this meanwhile.
    Follow(Follower<'a>),
}

/// A thread of the program that sleeps while another one leads. Once that one has finished, the
/// service thread goes on at once.
#[derive(Debug)]
pub struct Follower<'a>(&'a Service);

impl<'a> Follower<'a> {
    fn new(service: &'a Service) -> Self {
        service.followers.fetch_add(1, Ordering::SeqCst);
        Follower(service)
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A thread of the program that leads. Once it has finished, also by a panic, the service thread
/// goes on.
struct Leader<'a, O: Owner>(&'a O);

impl<O: Owner> Drop for Leader<'_, O> {
    fn drop(&mut self) {
        let service = self.0.service();
        if service.is_over() {
            // Nobody serves any more who would do that.
            self.0.role().forget();
        }
        service.led.store(false, Ordering::SeqCst);
        service.terms.fetch_add(1, Ordering::SeqCst);
        let waits = service.followers.load(Ordering::SeqCst) > 0;
        match waits || service.is_over() {
            true => service.alarm.ring(),
            // The program may go on with what it has waited for, and wait again.
            false => service.alarm.set(),
        }
    }
}

/// Let the calling thread, which wants to sleep, serve until its wait is over, in the place of the
/// service thread: a message for it wakes one thread and not two. Without any lock that serving
/// takes. Whoever ends the wait from another thread calls [`Service::kick_leader`] after that.
///
/// It returns as well at the deadline, which a host that does not answer may hold up for some
/// milliseconds, and once when the service is stopped; from then on a thread follows. As long as it
/// leads, a signal handler of the program on this thread holds up the links of all others, and
/// must return.
pub fn lead<O: Owner>(owner: &O, deadline: Deadline, mut is_over: impl FnMut() -> bool) -> Led<'_> {
    let service = owner.service();
    while service.is_over() || service.led.swap(true, Ordering::SeqCst) {
        let follower = Follower::new(service);
        // A leader that finishes after this has seen the follower.
        if service.is_over() || service.is_led() {
            return Led::Follow(follower);
        }
    }
    let _leader = Leader(owner);
    let mut stay = Stay {
        deadline,
        looks: LOOKS_LED,
        is_over: || {
            let is_late = || deadline.remaining().is_some_and(|left| left.is_zero());
            is_over() || service.is_stopped() || is_late()
        },
    };
    if (stay.is_over)() {
        return Led::Over;
    }
    let role = owner.role();
    let state = role.try_take().unwrap_or_else(|| {
        service.kick();
        // To let go of a lock that was waited for takes a system call. It is free then: the
        // service thread does not wait for it while a thread leads.
        drop(role.take());
        role.take()
    });
    if !Serving::new(owner, state).stay(&mut stay) {
        service.ended.store(true, Ordering::SeqCst);
    }
    Led::Over
}

/// A thread that serves, with the role.
struct Serving<'a, O: Owner> {
    owner: &'a O,
    events: Events<O::Device>,
    state: MutexGuard<'a, State<O::Link>>,
}

impl<'a, O: Owner> Serving<'a, O> {
    fn new(owner: &'a O, state: MutexGuard<'a, State<O::Link>>) -> Self {
        Serving {
            owner,
            events: owner.fabric().events(),
            state,
        }
    }

    /// Serve until there is no reason any more; false once the fabric has ended.
    fn stay(mut self, stay: &mut Stay<impl FnMut() -> bool>) -> bool {
        let service = self.owner.service();
        loop {
            // Whatever kicks from now on is looked at before the thread sleeps.
            service.activity.swap(RUNNING, Ordering::AcqRel);
            if (stay.is_over)() {
                return true;
            }
            self.take_listed();
            let own = mem::take(&mut self.state.own);
            let mut own = self.leave_watched(own);
            if self.state.undisturbed && !own.is_empty() {
                // A program that was held up looks now, also on the only processor.
                std::thread::yield_now();
                own = self.leave_watched(own);
            }
            let undisturbed = self.state.undisturbed;
            self.state.nap.note(own.is_empty(), undisturbed);
            let wait = self.look_after(own, stay);
            if (stay.is_over)() {
                return true;
            }
            let most = earlier(wait, stay.deadline);
            if !self.sleep(most, most == wait) {
                return false;
            }
        }
    }

    /// Leave links to threads of the program that look at them; the others.
    fn leave_watched(&mut self, links: Vec<O::Link>) -> Vec<O::Link> {
        let is_watched = |link: &O::Link| link.attention().is_watched();
        let (watched, rest) = links.into_iter().partition(is_watched);
        self.state.own.extend::<Vec<_>>(watched);
        rest
    }

    /// Move messages of links that nobody else looks at, and put them to rest; how long the thread
    /// may sleep.
    fn look_after(
        &mut self,
        mut own: Vec<O::Link>,
        stay: &mut Stay<impl FnMut() -> bool>,
    ) -> Option<Duration> {
        let begun = Instant::now();
        loop {
            let turn = turn(&own, begun, stay.looks);
            if turn == Turn::More || (stay.is_over)() {
                self.state.own.extend(own);
                return Some(Duration::ZERO);
            }
            if turn == Turn::Idle {
                return self.put_to_rest(own, stay.deadline);
            }
            own = self.leave_watched(own);
            if !own.is_empty() {
                // Who was woken comes first, also on the only processor.
                std::thread::yield_now();
            }
        }
    }

    fn take_listed(&mut self) {
        let listed = mem::take(&mut *lock(&self.owner.service().listed));
        let links = listed.into_iter().filter_map(|link| self.owner.link(link));
        self.state.own.extend(links);
    }

    /// Ask partners for signals, and keep the links that cannot rest by themselves; how long the
    /// thread may sleep. Each time another link is the first one: hosts that do not answer use up
    /// the time of those behind them.
    fn put_to_rest(&mut self, mut own: Vec<O::Link>, deadline: Deadline) -> Option<Duration> {
        let time = earlier(Some(ANSWERS), deadline).unwrap_or(ANSWERS);
        let until = Deadline::after(time);
        let state = &mut *self.state;
        let (mut busy, mut again) = (false, false);
        state.rounds = state.rounds.wrapping_add(1);
        let first = state.rounds.checked_rem(own.len()).unwrap_or(0);
        own.rotate_left(first);
        for link in own {
            let rest = link.attention().settle(|| link.rest(until));
            busy |= rest == Rest::Busy;
            again |= rest == Rest::Nap;
            if matches!(rest, Rest::Busy | Rest::Nap) {
                state.own.push(link);
            }
        }
        match state.own.is_empty() {
            _ if busy => Some(Duration::ZERO),
            _ if again => Some(RETRY),
            false => {
                let has_work = state.own.iter().any(|link| link.has_work());
                Some(state.nap.next(has_work || !state.undisturbed))
            }
            true => None,
        }
    }

    /// Sleep until there is news or a kick, and note what has happened to which session; `whole` is
    /// whether it may sleep for as long as it wants. False once the fabric has ended.
    fn sleep(&mut self, wait: Option<Duration>, whole: bool) -> bool {
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
        let slept = poll(&mut fds, wait.as_ref());
        // Nobody has to wake it any more.
        service.activity.store(KICKED, Ordering::Release);
        let [woken, told] = fds.map(|fd| fd.revents());
        self.state.undisturbed = whole && slept == Ok(0);
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

/// How long it is until the earlier one of two times.
fn earlier(wait: Option<Duration>, deadline: Deadline) -> Option<Duration> {
    match (wait, deadline.remaining()) {
        (Some(wait), Some(left)) => Some(wait.min(left)),
        (wait, left) => wait.or(left),
    }
}

/// Move messages of links that nobody else looks at, until there have been none for so many looks,
/// or until others shall go on.
fn turn<L: Served>(own: &[L], begun: Instant, looks: u32) -> Turn {
    let mut idle = 0;
    while !own.is_empty() && idle < looks {
        // All of them, whichever is first.
        let moved = own.iter().filter(|link| link.serve()).count();
        if own.iter().any(|link| link.attention().is_handed_over()) {
            return Turn::HandedOver;
        }
        if begun.elapsed() >= TURN {
            return match moved {
                // Many links in vain take as long as some with messages.
                0 => Turn::Idle,
                _ => Turn::More,
            };
        }
        idle = if moved > 0 { 0 } else { idle + 1 };
        std::hint::spin_loop();
    }
    Turn::Idle
}
