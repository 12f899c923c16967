// SPDX-License-Identifier: GPL-2.0-only

//! Parks the calling thread until a session has news: a word of its local window has changed, the
//! partner has signalled, or is gone.
//!
//! The partner signals only who has armed a word in its memory. What it stores meanwhile, and the
//! arm word, may cross on the way; so the arm word is stored first, then the peer's service is
//! asked, and the words are looked at once more when the answer is there. By then the partner can
//! see the arm word, and all is here that was stored by someone who could not.
//!
//! A signal that does not come all the same is made up for by the [`Lookout`].

use crate::{
    calls,
    context::Context,
    link::Link,
    ready,
    session::Session,
    uapi::*, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    uaccess::UserPtr, //
};
use mp_kernel::{
    barrier,
    uaccess::{
        read_sized,
        write_versioned, //
    },
    wait::{
        wait_until_any,
        Events,
        Sleep,
        WaitQueue, //
    },
    worker::{
        Work,
        Worker, //
    }, //
};
use mp_proto::sharing::question::Ticket;

/// What ends the sleep, besides a word that has changed.
const NEWS: u32 = ready::SIGNAL | ready::CLOSED | ready::DOWN;

/// How often the words of those who sleep are looked at.
const LOOK_MS: u32 = 50;

/// Words that are looked at before others may run, and those of one thread more.
const BATCH: usize = 1024;

/// What looks have found of a word.
mod seen {
    /// It was as it is to be.
    pub(super) const SAME: u32 = 0;
    /// It has changed; a signal may be on its way.
    pub(super) const CHANGED: u32 = 1;
    /// It had changed a look before: the signal is late, or lost.
    pub(super) const LATE: u32 = 2;
}

/// A word that a thread sleeps on, and what wakes the thread.
struct Place {
    session: Arc<Session>,
    entry: mp_park_entry,
    /// One of [`seen`].
    seen: Atomic<u32>,
}

impl Place {
    /// Where an entry of the call leads.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `EINVAL`, and those of [`Session::sleeping_place`].
    fn find(context: &Context, entry: mp_park_entry) -> Result<Self> {
        calls::expect_zero(entry.reserved)?;
        let session = context.session(entry.handle)?;
        session.check_sleeping_place(entry.word, entry.arm)?;
        Ok(Self {
            session,
            entry,
            seen: Atomic::new(seen::SAME),
        })
    }

    /// Whether the word is another one. Any context.
    fn has_changed(&self) -> bool {
        // Memory that has gone has no words; the session tells of that.
        let word = self.session.word(self.entry.word);
        word.is_ok_and(|word| word != self.entry.value)
    }

    /// What there is to tell, which is taken; 0 for nothing. Any context.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the session is closed, `ENOTCONN` without a partner.
    fn news(&self) -> Result<u32> {
        let events = self.session.ready().take(NEWS, true)?;
        if events != 0 || !self.has_changed() {
            return Ok(events);
        }
        Ok(match self.seen.load(Relaxed) == seen::LATE {
            true => MP_PARK_CHANGED | MP_PARK_LATE,
            false => MP_PARK_CHANGED,
        })
    }

    /// Look for somebody who sleeps.
    fn look(&self) {
        if !self.has_changed() {
            return self.seen.store(seen::SAME, Relaxed);
        }
        if self.seen.load(Relaxed) == seen::SAME {
            return self.seen.store(seen::CHANGED, Relaxed);
        }
        self.seen.store(seen::LATE, Relaxed);
        self.session.ready().queue().wake(Events::IN);
    }
}

/// The words of one thread.
struct Places {
    places: KVVec<Place>,
    /// All hosts have answered: from then on partners signal.
    is_armed: Atomic<bool>,
}

impl Places {
    /// Those that the entries of a call name.
    ///
    /// # Errors
    ///
    /// Those of `MP_IOC_PARK`.
    fn read(context: &Context, park: &mp_park) -> Result<Arc<Self>> {
        if park.count == 0 || park.count > MP_PARK_ENTRIES_MAX {
            return Err(EINVAL);
        }
        let count = park.count as usize;
        let mut places = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for n in 0..count {
            let entry = calls::element(park.entries, n, park.entry_size)?;
            places.push(Place::find(context, entry)?, GFP_KERNEL_ACCOUNT)?;
        }
        let places = Self {
            places,
            is_armed: Atomic::new(false),
        };
        Ok(Arc::new(places, GFP_KERNEL_ACCOUNT)?)
    }

    /// The first one that has news, with its number.
    fn find_news(&self) -> Result<Option<(u32, u32)>> {
        for (index, place) in self.places.iter().enumerate() {
            match place.news()? {
                0 => {}
                events => return Ok(Some((index as u32, events))),
            }
        }
        Ok(None)
    }

    /// What to sleep on, each once: one signal wakes a thread once, however many words of its
    /// session the thread sleeps on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn queues(&self) -> Result<KVVec<&WaitQueue>> {
        let mut queues: KVVec<&WaitQueue> =
            KVVec::with_capacity(self.places.len(), GFP_KERNEL_ACCOUNT)?;
        for place in &self.places {
            let queue = place.session.ready().queue();
            let found = queues.binary_search_by_key(&core::ptr::from_ref(queue), |queue| {
                core::ptr::from_ref(*queue)
            });
            if let Err(at) = found {
                queues
                    .insert_within_capacity(at, queue)
                    .map_err(|_| ENOMEM)?;
            }
        }
        Ok(queues)
    }
}

/// A thread that sleeps.
struct Sleeper {
    /// Greater than those of all who fell asleep before.
    number: u64,
    places: Arc<Places>,
}

/// Those who sleep, and whose turn it is.
struct Sleepers {
    /// By their numbers.
    all: KVVec<Sleeper>,
    /// The number of the last one.
    last: u64,
    /// All up to this number have been looked at in this round.
    seen: u64,
}

impl Sleepers {
    /// The place of the first one behind a number.
    fn behind(&self, number: u64) -> usize {
        self.all.partition_point(|sleeper| sleeper.number <= number)
    }

    /// Whose turn it is, if it is still that of somebody in this round.
    fn next(&mut self) -> Option<Arc<Places>> {
        let next = self.all.get(self.behind(self.seen))?;
        self.seen = next.number;
        Some(next.places.clone())
    }

    /// Begin the next round, unless nobody sleeps.
    fn begin_round(&mut self) -> bool {
        self.seen = 0;
        !self.all.is_empty()
    }
}

/// Looks at the words of all who sleep, in case a signal has got lost: round by round, in which
/// each of them has a turn whoever comes and goes meanwhile.
#[pin_data]
pub(crate) struct Lookout {
    #[pin]
    sleepers: Mutex<Sleepers>,
}

impl Lookout {
    /// Nobody sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let lookout = pin_init!(Self {
            sleepers <- new_mutex!(Sleepers {
                all: KVVec::new(),
                last: 0,
                seen: 0,
            }),
        });
        Arc::pin_init(lookout, GFP_KERNEL)
    }

    /// Enter a thread, and say its number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn enter(&self, places: Arc<Places>) -> Result<u64> {
        let mut sleepers = self.sleepers.lock();
        let number = sleepers.last + 1;
        let sleeper = Sleeper { number, places };
        sleepers.all.push(sleeper, GFP_KERNEL)?;
        sleepers.last = number;
        Ok(number)
    }

    fn remove(&self, number: u64) {
        let gone = {
            let mut sleepers = self.sleepers.lock();
            let at = sleepers.behind(number - 1);
            sleepers.all.remove(at)
        };
        drop(gone);
    }
}

impl Work for Lookout {
    fn run(&self) -> Option<u32> {
        let mut looks = 0;
        while looks < BATCH {
            let mut sleepers = self.sleepers.lock();
            let Some(places) = sleepers.next() else {
                return sleepers.begin_round().then_some(LOOK_MS);
            };
            drop(sleepers);
            looks += 1;
            if places.is_armed.load(Relaxed) {
                places.places.iter().for_each(Place::look);
                looks += places.places.len();
            }
        }
        Some(0)
    }
}

/// The words of a thread, entered in the lookout until it wakes.
struct Watched<'a> {
    lookout: &'a Lookout,
    number: u64,
}

impl<'a> Watched<'a> {
    fn new(worker: &'a Worker<Lookout>, places: &Arc<Places>) -> Result<Self> {
        let lookout = &**worker.target();
        let number = lookout.enter(places.clone())?;
        worker.kick_once_in(LOOK_MS);
        Ok(Self { lookout, number })
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.lookout.remove(self.number);
    }
}

/// A link whose peer was asked; nothing if that could not be done.
struct Asked {
    link: Arc<Link>,
    ticket: Option<Ticket>,
}

impl Asked {
    /// Nothing more is to be waited for.
    fn is_over(&self) -> bool {
        let answered = |ticket| self.link.questions.is_answered(ticket) != Ok(false);
        self.ticket.is_none_or(answered)
    }
}

/// Ask the peers of all links that the places are of, each once.
fn ask(places: &Places) -> Result<KVVec<Asked>> {
    let mut asked: KVVec<Asked> = KVVec::new();
    for place in &places.places {
        let link = place.session.link();
        if asked.iter().any(|known| Arc::ptr_eq(&known.link, link)) {
            continue;
        }
        let ticket = match link.is_loopback() {
            true => {
                // What the partner looks at is this memory.
                barrier::mb();
                None
            }
            // One that is not up tells its sessions.
            false => link.questions.ask().ok(),
        };
        let link = link.clone();
        asked.push(Asked { link, ticket }, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(asked)
}

/// Sleep until there is something to tell: the number of an entry and its events, or nothing if
/// the caller wants to sleep itself.
///
/// # Errors
///
/// Those of `MP_IOC_PARK`.
fn sleep(
    lookout: &Worker<Lookout>,
    park: &mp_park,
    places: &Arc<Places>,
) -> Result<Option<(u32, u32)>> {
    if let Some(found) = places.find_news()? {
        return Ok(Some(found));
    }
    let deadline = calls::deadline(park.deadline);
    for Place { session, entry, .. } in &places.places {
        session.arm(entry.arm, entry.arm_value, deadline)?;
    }
    let asked = ask(places)?;
    let _watched = Watched::new(lookout, places)?;
    let mut queues = places.queues()?;
    let of_sessions = queues.len();
    for asked in &asked {
        queues.push(asked.link.questions.queue(), GFP_KERNEL_ACCOUNT)?;
    }
    let mut found = Ok(None);
    let until_armed = || {
        // Before the words are looked at.
        let is_armed = asked.iter().all(Asked::is_over);
        found = places.find_news();
        places.is_armed.store(is_armed, Relaxed);
        found != Ok(None) || is_armed
    };
    let mut waited = wait_until_any(
        queues.iter().copied(),
        Sleep::Interruptible,
        deadline,
        until_armed,
    )?
    .ok();
    if park.flags & MP_PARK_ARMED == 0 && (&found, &waited) == (&Ok(None), &Ok(())) {
        // What others ask from now on wakes nobody here.
        queues.truncate(of_sessions);
        let until_news = || {
            found = places.find_news();
            found != Ok(None)
        };
        waited = wait_until_any(
            queues.iter().copied(),
            Sleep::Interruptible,
            deadline,
            until_news,
        )?
        .ok();
    }
    match found {
        Ok(None) => waited.map(|()| None),
        found => found,
    }
}

/// See `MP_IOC_PARK`.
///
/// # Errors
///
/// Those in the header.
pub(crate) fn park(context: &Context, arg: UserPtr) -> Result {
    let (mut park, size) = read_sized::<mp_park>(arg)?;
    calls::expect_zero(park.flags & !MP_PARK_ARMED)?;
    let places = Places::read(context, &park)?;
    let found = sleep(&context.shared().lookout, &park, &places)?;
    (park.index, park.events) = found.unwrap_or((MP_PARK_NONE, 0));
    write_versioned(arg, size, &park).inspect_err(|_| {
        if let Some(place) = places.places.get(park.index as usize) {
            // Nothing of a signal is left but this.
            place.session.ready().give_back(park.events & NEWS);
        }
    })
}

/// Where a word begins in memory of `len` bytes.
///
/// # Errors
///
/// `EINVAL` if it is unaligned, `ERANGE` outside.
pub(crate) fn check_word(at: u64, len: u64) -> Result {
    let size = size_of::<u64>() as u64;
    if at % size != 0 {
        return Err(EINVAL);
    }
    let end = at.checked_add(size);
    match end.is_some_and(|end| end <= len) {
        true => Ok(()),
        false => Err(ERANGE),
    }
}
