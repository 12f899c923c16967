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
    uapi::*,
    window::Piece, //
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

/// What looks have found of a word.
mod seen {
    /// It was as it is to be.
    pub(super) const SAME: u32 = 0;
    /// It has changed; a signal may be on its way.
    pub(super) const CHANGED: u32 = 1;
    /// It had changed a look before: the signal is late, or lost.
    pub(super) const LATE: u32 = 2;
}

/// A word that a thread sleeps on.
struct Place {
    session: Arc<Session>,
    local: Arc<Piece>,
    word: u64,
    value: u64,
    /// One of [`seen`].
    seen: Atomic<u32>,
}

impl Place {
    /// Where an entry of the call leads.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `EINVAL`, and those of [`Session::sleeping_place`].
    fn find(context: &Context, entry: &mp_park_entry) -> Result<Self> {
        calls::expect_zero(entry.reserved)?;
        let session = context.session(entry.handle)?;
        Ok(Self {
            local: session.sleeping_place(entry.word, entry.arm)?,
            session,
            word: entry.word,
            value: entry.value,
            seen: Atomic::new(seen::SAME),
        })
    }

    /// Whether the word is another one. Any context.
    fn has_changed(&self) -> bool {
        // Memory that has gone has no words; the session tells of that.
        let word = self.local.load_u64(self.word);
        word.is_ok_and(|word| word != self.value)
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

    /// Looks for somebody who sleeps.
    fn look(&self) {
        if !self.has_changed() {
            return;
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
    places: KVec<Place>,
    /// All hosts have answered: from then on partners signal.
    is_armed: Atomic<bool>,
}

impl Places {
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
    fn queues(&self) -> Result<KVec<&WaitQueue>> {
        let mut queues = KVec::with_capacity(self.places.len(), GFP_KERNEL)?;
        for place in &self.places {
            queues.push(place.session.ready().queue(), GFP_KERNEL)?;
        }
        queues.sort_unstable_by_key(|queue| core::ptr::from_ref(*queue));
        let mut last = core::ptr::null();
        queues.retain(|queue| {
            let queue = core::ptr::from_ref(*queue);
            core::mem::replace(&mut last, queue) != queue
        });
        Ok(queues)
    }
}

/// Looks at the words of all who sleep, in case a signal has got lost.
#[pin_data]
pub(crate) struct Lookout {
    #[pin]
    sleepers: Mutex<KVec<Arc<Places>>>,
}

impl Lookout {
    /// Nobody sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let lookout = pin_init!(Self {
            sleepers <- new_mutex!(KVec::new()),
        });
        Arc::pin_init(lookout, GFP_KERNEL)
    }

    fn remove(&self, places: &Arc<Places>) {
        let gone = {
            let mut sleepers = self.sleepers.lock();
            let at = sleepers.iter().position(|s| Arc::ptr_eq(s, places));
            at.and_then(|at| sleepers.remove(at).ok())
        };
        drop(gone);
    }
}

impl Work for Lookout {
    fn run(&self) -> Option<u32> {
        let mut at = 0;
        loop {
            let places = self.sleepers.lock().get(at).cloned();
            let Some(places) = places else { break };
            if places.is_armed.load(Relaxed) {
                places.places.iter().for_each(Place::look);
            }
            at += 1;
        }
        (at != 0).then_some(LOOK_MS)
    }
}

/// The words of a thread, entered in the lookout until it wakes.
struct Watched<'a> {
    lookout: &'a Lookout,
    places: Arc<Places>,
}

impl<'a> Watched<'a> {
    fn new(worker: &'a Worker<Lookout>, places: Places) -> Result<Self> {
        let places = Arc::new(places, GFP_KERNEL)?;
        let lookout = &**worker.target();
        lookout.sleepers.lock().push(places.clone(), GFP_KERNEL)?;
        worker.kick_once_in(LOOK_MS);
        Ok(Self { lookout, places })
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.lookout.remove(&self.places);
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

/// Asks the peers of all links that the places are of, each once.
fn ask(places: &Places) -> Result<KVec<Asked>> {
    let mut asked: KVec<Asked> = KVec::new();
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
        asked.push(Asked { link, ticket }, GFP_KERNEL)?;
    }
    Ok(asked)
}

/// The entries of the call.
fn entries(park: &mp_park) -> Result<KVec<mp_park_entry>> {
    if park.count == 0 || park.count > MP_PARK_ENTRIES_MAX {
        return Err(EINVAL);
    }
    let mut entries = KVec::with_capacity(park.count as usize, GFP_KERNEL)?;
    for n in 0..park.count as usize {
        entries.push(
            calls::element(park.entries, n, park.entry_size)?,
            GFP_KERNEL,
        )?;
    }
    Ok(entries)
}

/// Sleeps until there is something to tell: the number of an entry and its events, or nothing if
/// the caller wants to sleep itself.
///
/// # Errors
///
/// Those of `MP_IOC_PARK`.
fn sleep(context: &Context, park: &mp_park) -> Result<Option<(u32, u32)>> {
    let entries = entries(park)?;
    let mut places = Places {
        places: KVec::with_capacity(entries.len(), GFP_KERNEL)?,
        is_armed: Atomic::new(false),
    };
    for entry in &entries {
        let place = Place::find(context, entry)?;
        places.places.push(place, GFP_KERNEL)?;
    }
    if let Some(found) = places.find_news()? {
        return Ok(Some(found));
    }
    for (place, entry) in places.places.iter().zip(&entries) {
        place.session.arm(entry.arm, entry.arm_value)?;
    }
    let asked = ask(&places)?;
    let watched = Watched::new(&context.shared().lookout, places)?;
    let places = &*watched.places;
    let deadline = calls::deadline(park.deadline);
    let mut queues = places.queues()?;
    let of_sessions = queues.len();
    for asked in &asked {
        queues.push(asked.link.questions.queue(), GFP_KERNEL)?;
    }
    let mut found = Ok(None);
    let until_armed = || {
        // Before the words are looked at.
        let is_armed = asked.iter().all(Asked::is_over);
        found = places.find_news();
        places.is_armed.store(is_armed, Relaxed);
        found != Ok(None) || is_armed
    };
    let mut waited = wait_until_any(queues.iter().copied(), deadline, until_armed)?.ok();
    if park.flags & MP_PARK_ARMED == 0 && (&found, &waited) == (&Ok(None), &Ok(())) {
        // What others ask from now on wakes nobody here.
        queues.truncate(of_sessions);
        let until_news = || {
            found = places.find_news();
            found != Ok(None)
        };
        waited = wait_until_any(queues.iter().copied(), deadline, until_news)?.ok();
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
    let found = sleep(context, &park)?;
    (park.index, park.events) = found.unwrap_or((MP_PARK_NONE, 0));
    write_versioned(arg, size, &park).inspect_err(|_| {
        let entries = entries(&park).unwrap_or_default();
        let entry = entries.get(park.index as usize);
        if let Some(session) = entry.and_then(|e| context.session(e.handle).ok()) {
            // Nothing of a signal is left but this.
            session.ready().give_back(park.events & NEWS);
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
    if !at.is_multiple_of(size) {
        return Err(EINVAL);
    }
    let end = at.checked_add(size);
    match end.is_some_and(|end| end <= len) {
        true => Ok(()),
        false => Err(ERANGE),
    }
}
