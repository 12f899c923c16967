// SPDX-License-Identifier: GPL-2.0-only

//! Segments: memory of this host with an id, which many processes of peers may use.
//!
//! A [`Segment`] has the memory and what peers may do with it; a [`Holding`] is the use that
//! one context makes of it: an owner, that is its creator or one that has attached itself, or one that
//! it was handed to. With the last owner it ends for peers, its id and its name are free; its memory
//! stays until the last use of it ends. The sharing engines of links know a segment by its token.

use crate::{
    host::Links,
    link::Link,
    notices::{
        Notice,
        Notices, //
    },
    numbered::{
        Keyed,
        List, //
    },
    quota::{
        Leased,
        Share, //
    },
    ready::Ready,
    session::{
        Mapper,
        Place,
        Session, //
    },
    sharing::no_grant,
    uapi::*,
    window::{
        Piece,
        Window, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SetOnce, //
    }, //
};
use mp_kernel::{
    dma_buf::{
        Attached,
        Part,
        HAS_DMA_BUFS, //
    },
    error,
    process::UserId, //
};
use mp_proto::{
    name::Name,
    rows::first_free,
    sharing::{
        state::Shown,
        NoGrant,
        Rights,
        Want,
        Why, //
    }, //
};
use mp_transport::memory::{
    Memory,
    Source, //
};

struct State {
    /// Other contexts of the user may attach themselves.
    is_shared: bool,
    /// It has no owner any more: it has ended for peers.
    is_gone: bool,
    /// At which interfaces it is prepared or published.
    shown: KVec<(u32, Shown)>,
    /// Interfaces whose bridges reach its part of a dma-buf.
    attached: KVec<(u32, Arc<Attached>)>,
    /// Connections of all links.
    guests: usize,
    /// Queues that copy from it.
    copies: usize,
    holdings: KVec<Arc<Holding>>,
    permits: KVec<Terms>,
}

/// What one partner may do with a segment.
struct Terms {
    /// Of the permit; what its connections have as their token.
    number: u32,
    /// The owner's session with the partner.
    session: Arc<Session>,
    rights: Rights,
    /// Nobody connects by it any more; it stays while its connections are ended.
    has_ended: bool,
}

impl State {
    /// Whether that use of it has not ended.
    fn has(&self, holding: &Holding) -> bool {
        let mut all = self.holdings.iter();
        all.any(|one| core::ptr::eq(&raw const **one, holding))
    }

    /// One more connection.
    ///
    /// # Errors
    ///
    /// [`Why::Refused`] if there are too many notices, [`NoGrant::Later`] without memory for them.
    fn enter(&mut self) -> Result<(), NoGrant> {
        let guests = self.guests + 1;
        for holding in self.holdings.iter().filter(|h| h.hears()) {
            let reserved = holding.notices.reserve(guests);
            reserved.map_err(|e| no_grant(e, Why::Refused))?;
        }
        self.guests = guests;
        Ok(())
    }
}

/// A segment.
#[pin_data]
pub(crate) struct Segment {
    /// None if it is private.
    id: Option<u32>,
    name: Name,
    token: u32,
    user: UserId,
    /// Its memory; none as long as it is empty.
    piece: SetOnce<Arc<Piece>>,
    /// The most that it can be filled with; none if it was made with memory.
    room: Option<u64>,
    #[pin]
    state: Mutex<State>,
}

impl Segment {
    /// Name it among all that this service has ever offered.
    pub(crate) fn token(&self) -> u32 {
        self.token
    }

    /// Its memory, unless it is empty.
    pub(crate) fn piece(&self) -> Option<&Arc<Piece>> {
        self.piece.as_ref()
    }

    /// What connections with that token may do with it; none if they are not its own.
    pub(crate) fn rights(&self, token: u32) -> Option<Rights> {
        if self.token == token {
            return Some(Rights::ALL);
        }
        let state = self.state.lock();
        let of = state.permits.iter().find(|terms| terms.number == token);
        of.map(|terms| terms.rights)
    }

    /// The partner that a permit is for would like to connect over a link. It counts until
    /// [`left`](Self::left).
    ///
    /// # Errors
    ///
    /// Why it cannot; [`Why::Refused`] is for everybody else.
    pub(crate) fn accept_partner(&self, want: &Want, link: &Link) -> Result<(), NoGrant> {
        let mut state = self.state.lock();
        let terms = state.permits.iter().find(|t| t.number == want.number);
        let terms = terms.filter(|terms| !terms.has_ended);
        let session = &terms.ok_or(Why::NotFound)?.session;
        let is_open = link.session(session.number()).is_some();
        if !is_open || session.check_paired().is_err() || !session.is_partner(want.session) {
            return Err(Why::Refused.into());
        }
        state.enter()
    }

    /// A process of the peer at that interface would like to connect. It counts until
    /// [`left`](Self::left).
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) fn accept(&self, interface: u32) -> Result<(), NoGrant> {
        let mut state = self.state.lock();
        let is_published = |(at, shown): &(u32, Shown)| *at == interface && shown.is_published();
        if state.is_gone || !state.shown.iter().any(is_published) {
            return Err(Why::NotFound.into());
        }
        state.enter()
    }

    /// One more use of it, unless `check` says why not.
    ///
    /// # Errors
    ///
    /// That of `check`, `ENOMEM`.
    fn use_once_more(
        self: &Arc<Self>,
        number: u32,
        role: Role,
        check: impl FnOnce(&State) -> Result,
    ) -> Result<Arc<Holding>> {
        let holding = Holding::new(number, self, role)?;
        let mut state = self.state.lock();
        check(&state)?;
        if holding.hears() {
            holding.notices.reserve(state.guests)?;
        }
        state.holdings.push(holding.clone(), GFP_KERNEL_ACCOUNT)?;
        drop(state);
        Ok(holding)
    }

    /// A use of it ends.
    ///
    /// # Errors
    ///
    /// See [`Holding::remove`].
    fn leave(&self, holding: &Arc<Holding>, force: bool) -> Result<Leaving> {
        let mut state = self.state.lock();
        let at = state.holdings.iter().position(|h| Arc::ptr_eq(h, holding));
        let at = at.ok_or(ENOENT)?;
        let is_last = state.holdings.len() == 1;
        let is_owner = |h: &&Arc<Holding>| h.role == Role::Owner;
        let is_last_owner =
            holding.role == Role::Owner && state.holdings.iter().filter(is_owner).count() == 1;
        let is_used = is_last_owner && state.guests != 0 || is_last && state.copies != 0;
        if is_used && !force {
            return Err(EBUSY);
        }
        let (permits, attached) = match is_last_owner {
            true => {
                state.is_gone = true;
                state.shown.clear();
                let permits = core::mem::take(&mut state.permits);
                (permits, core::mem::take(&mut state.attached))
            }
            false => (KVec::new(), KVec::new()),
        };
        Ok(Leaving {
            is_last,
            is_last_owner,
            permits,
            _attached: attached,
            _gone: state.holdings.remove(at).ok(),
        })
    }

    /// So many connections do not count any more.
    pub(crate) fn left(&self, count: usize) {
        let mut state = self.state.lock();
        state.guests = state.guests.saturating_sub(count);
    }

    /// That has happened to one of its connections.
    pub(crate) fn tell(&self, notice: Notice) {
        let state = self.state.lock();
        for holding in state.holdings.iter().filter(|h| h.hears()) {
            holding.notices.push(notice);
        }
    }

    fn change<R>(&self, interface: u32, f: impl FnOnce(&mut Shown) -> Result<R>) -> Result<R> {
        let mut state = self.state.lock();
        if state.is_gone {
            return Err(ENOENT);
        }
        let known = state.shown.iter().position(|(at, _)| *at == interface);
        let at = match known {
            Some(at) => at,
            None => {
                state
                    .shown
                    .push((interface, Shown::Unprepared), GFP_KERNEL_ACCOUNT)?;
                state.shown.len() - 1
            }
        };
        f(&mut state.shown.get_mut(at).ok_or(ENOENT)?.1)
    }

    /// What peers at that interface may do with it.
    fn shown(&self, interface: u32) -> Shown {
        let state = self.state.lock();
        let known = state.shown.iter().find(|(at, _)| *at == interface);
        known.map_or(Shown::Unprepared, |(_, shown)| *shown)
    }

    /// How the bridge of an interface reaches its part of a dma-buf, if it does.
    pub(crate) fn attached(&self, interface: u32) -> Option<Arc<Attached>> {
        let state = self.state.lock();
        let known = state.attached.iter().find(|(at, _)| *at == interface);
        known.map(|(_, attached)| attached.clone())
    }

    /// Let the bridge of a link reach the part of a dma-buf that it was filled with. Sleeps, as long as
    /// the driver takes that has exported it: without a lock.
    ///
    /// # Errors
    ///
    /// `ENETDOWN` if the link is down, `ENODEV` if its interface has gone; those of [`Memory::attach`];
    /// `ENOMEM`.
    ///
    /// [`Memory::attach`]: mp_transport::memory::Memory::attach
    fn attach(&self, link: &Link, part: &Arc<Part>) -> Result {
        let interface = link.interface().id();
        if self.attached(interface).is_some() {
            return Ok(());
        }
        let memory = link.memory().ok_or_else(error::net_down)?;
        let attached = memory.attach(part).map_err(|e| match e {
            e if e == error::not_connected() => error::net_down(),
            e => e,
        })?;
        self.enter_attached(interface, attached)?;
        // It is to go before the interface, of which this may not have heard.
        match link.is_removed() {
            true => {
                drop(self.take_attached(interface));
                Err(ENODEV)
            }
            false => Ok(()),
        }
    }

    /// What another thread has attached meanwhile stays.
    fn enter_attached(&self, interface: u32, attached: Arc<Attached>) -> Result {
        let mut state = self.state.lock();
        if state.is_gone {
            return Err(ENOENT);
        }
        if !state.attached.iter().any(|(at, _)| *at == interface) {
            state
                .attached
                .push((interface, attached), GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }

    /// The caller drops it without the lock.
    fn take_attached(&self, interface: u32) -> Option<(u32, Arc<Attached>)> {
        let mut state = self.state.lock();
        let at = state.attached.iter().position(|(at, _)| *at == interface)?;
        state.attached.remove(at).ok()
    }

    /// An interface has gone (`SI-LSM-5`).
    fn forget(&self, interface: u32) {
        self.state.lock().shown.retain(|(at, _)| *at != interface);
    }
}

/// What ends with a use of a segment. To be dropped without its lock.
struct Leaving {
    /// Nobody uses the segment any more.
    is_last: bool,
    /// No owner does.
    is_last_owner: bool,
    permits: KVec<Terms>,
    /// No window is led there any more; those that are keep theirs until peers have let go.
    _attached: KVec<(u32, Arc<Attached>)>,
    _gone: Option<Arc<Holding>>,
}

/// A segment that a queue copies from.
pub(crate) struct Used(Arc<Segment>);

impl Used {
    /// Fill all of `to` from `at`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, `ENOTCONN` if the memory has gone, `EOPNOTSUPP` if the kernel does not
    /// read it.
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) -> Result {
        self.piece()?.read(at, to)
    }
}

impl Used {
    /// Its memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has none.
    pub(crate) fn piece(&self) -> Result<&Arc<Piece>> {
        self.0.piece().ok_or(EINVAL)
    }

    /// Whether a queue may copy out of it, or if it `reads`, into it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has no memory, `EOPNOTSUPP` if the kernel copies nothing there, `EACCES` if
    /// it is only to be read.
    pub(crate) fn check(&self, reads: bool) -> Result {
        match self.piece()?.copied() {
            Rights::NONE => Err(error::unsupported()),
            Rights { write: false, .. } if reads => Err(EACCES),
            _ => Ok(()),
        }
    }

    /// The same as [`read`](Self::read), for engines.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the memory has gone, `ENOMEM`.
    pub(crate) fn source(&self) -> Result<Source> {
        Source::new(self.piece()?.clone())
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        self.0.state.lock().copies -= 1;
    }
}

impl Keyed<u32> for Segment {
    /// Of one that is not private.
    fn key(&self) -> u32 {
        self.id.unwrap_or(0)
    }
}

impl Keyed<Name> for Segment {
    fn key(&self) -> Name {
        self.name
    }
}

/// Segments in the order of their making, and those among them that have an id or a name.
struct Lists {
    all: KVec<Arc<Segment>>,
    ids: List<Segment, u32>,
    names: List<Segment, Name>,
}

impl Lists {
    /// The id and the name that a new segment gets.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`.
    fn choose(&self, wanted: &Wanted) -> Result<Option<u32>> {
        if self.names.get(&wanted.name).is_some() {
            return Err(error::in_use());
        }
        let Some((first, more)) = wanted.ids else {
            return Ok(None);
        };
        let taken = self.ids.from(&first);
        let is_nth = |n: usize, id| taken.get(n).is_some_and(|nth| nth.id == Some(id));
        let id = first_free(first..=first.saturating_add(more), taken.len(), is_nth);
        id.map(Some).ok_or_else(error::in_use)
    }

    /// Make room for one segment more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn reserve(&mut self) -> Result {
        self.all.reserve(1, GFP_KERNEL)?;
        self.ids.reserve()?;
        self.names.reserve()
    }

    /// Enter a segment for which there is room.
    fn enter(&mut self, segment: Arc<Segment>) {
        if segment.id.is_some() {
            let _ = self.ids.enter(segment.clone());
        }
        if !segment.name.is_none() {
            let _ = self.names.enter(segment.clone());
        }
        let _ = self.all.push_within_capacity(segment);
    }

    /// Nobody finds a segment by its id or its name any more; they may be another one's already.
    fn retire(&mut self, segment: &Arc<Segment>) {
        let is_it = |found: Option<&Arc<Segment>>| found.is_some_and(|f| Arc::ptr_eq(f, segment));
        if is_it(self.ids.get(&segment.key())) {
            self.ids.remove(&segment.key());
        }
        if is_it(self.names.get(&segment.key())) {
            self.names.remove(&segment.key());
        }
    }

    /// Remove a segment. The caller drops it without the lock.
    fn remove(&mut self, segment: &Arc<Segment>) -> Option<Arc<Segment>> {
        self.retire(segment);
        let at = self.all.iter().position(|s| Arc::ptr_eq(s, segment))?;
        self.all.remove(at).ok()
    }
}

/// What a process wants of a segment that it makes.
pub(crate) struct Wanted {
    /// The first id that would do, and how many after that; none if it is private.
    pub(crate) ids: Option<(u32, u32)>,
    pub(crate) name: Name,
    /// Bytes.
    pub(crate) length: u64,
    /// It is made without memory.
    pub(crate) is_empty: bool,
    /// That of a link, whose peer alone is to reach the segment, that of the host itself if nobody is;
    /// none if all peers do.
    pub(crate) memory: Option<Arc<Memory>>,
}

/// All segments of this host.
#[pin_data]
pub(crate) struct Segments {
    #[pin]
    lists: Mutex<Lists>,
}

impl Segments {
    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            lists <- new_mutex!(Lists {
                all: KVec::new(),
                ids: List::new(),
                names: List::new(),
            }),
        });
        Arc::pin_init(init, GFP_KERNEL_ACCOUNT)
    }

    fn find(&self, is_it: impl Fn(&Segment) -> bool) -> Option<Arc<Segment>> {
        self.lists.lock().all.iter().find(|s| is_it(s)).cloned()
    }

    /// The segment of that id.
    pub(crate) fn by_id(&self, id: u32) -> Option<Arc<Segment>> {
        self.lists.lock().ids.get(&id).cloned()
    }

    /// The segment of that name.
    pub(crate) fn by_name(&self, name: &Name) -> Option<Arc<Segment>> {
        self.lists.lock().names.get(name).cloned()
    }

    /// The segment with that token, or with a permit that has it.
    pub(crate) fn by_token(&self, token: u32) -> Option<Arc<Segment>> {
        self.find(|segment| segment.rights(token).is_some())
    }

    /// Whether a segment, or the use that a context makes of one, has that number.
    pub(crate) fn has_number(&self, number: u32) -> bool {
        let is_its = |segment: &Segment| {
            if segment.rights(number).is_some() {
                return true;
            }
            let state = segment.state.lock();
            state.holdings.iter().any(|h| h.number == number)
        };
        self.find(is_its).is_some()
    }

    /// An interface has gone.
    pub(crate) fn forget(&self, interface: u32) {
        let lists = self.lists.lock();
        lists.all.iter().for_each(|s| s.forget(interface));
        drop(lists);
        // That may take its time: without the lock.
        while let Some(segment) = self.find(|s| s.attached(interface).is_some()) {
            drop(segment.take_attached(interface));
        }
    }

    /// The bridge of an interface has failed (`SI-EVT-8`).
    pub(crate) fn failed(&self, interface: u32, peer: u32) {
        let notice = Notice {
            kind: MP_NOTICE_FATAL,
            interface,
            peer,
            connection: 0,
        };
        for segment in &self.lists.lock().all {
            if segment.shown(interface) != Shown::Unprepared {
                segment.tell(notice);
            }
        }
    }

    /// Make a segment, for the context's object `number`.
    ///
    /// # Errors
    ///
    /// Those of `MP_IOC_SEGMENT_CREATE`.
    pub(crate) fn create(
        &self,
        numbers: (u32, u32),
        user: UserId,
        wanted: &Wanted,
    ) -> Result<Arc<Holding>> {
        self.lists.lock().choose(wanted)?;
        // Takes its time: not under the lock.
        let piece = SetOnce::new();
        if !wanted.is_empty {
            let memory = Piece::Local(Links::cut(wanted.length, wanted.memory.as_deref())?);
            piece.populate(Arc::new(memory, GFP_KERNEL_ACCOUNT)?);
        }
        let (number, token) = numbers;
        let mut lists = self.lists.lock();
        let id = lists.choose(wanted)?;
        // A segment and its uses hold each other: nothing may fail once they do. Not charged, as
        // all users of this host wait for the lock.
        lists.reserve()?;
        let segment = Arc::pin_init(
            pin_init!(Segment {
                id,
                name: wanted.name,
                token,
                user,
                piece,
                room: wanted.is_empty.then_some(wanted.length),
                state <- new_mutex!(State {
                    is_shared: false,
                    is_gone: false,
                    shown: KVec::new(),
                    attached: KVec::new(),
                    guests: 0,
                    copies: 0,
                    holdings: KVec::new(),
                    permits: KVec::new(),
                }),
            }),
            GFP_KERNEL,
        )?;
        let holding = Holding::new(number, &segment, Role::Owner)?;
        segment
            .state
            .lock()
            .holdings
            .push(holding.clone(), GFP_KERNEL)?;
        lists.enter(segment);
        Ok(holding)
    }

    /// One more use of a segment that is shared (`SI-ATTSEG-1`).
    ///
    /// # Errors
    ///
    /// `ENOENT`, `EPERM` if it is not shared or another user's, `ENOMEM`.
    pub(crate) fn attach(&self, number: u32, id: u32, user: UserId) -> Result<Arc<Holding>> {
        let segment = self.by_id(id).ok_or(ENOENT)?;
        segment.use_once_more(number, Role::Owner, |state| {
            if state.is_gone {
                return Err(ENOENT);
            }
            match state.is_shared && segment.user == user {
                true => Ok(()),
                false => Err(EPERM),
            }
        })
    }

    fn retire(&self, segment: &Arc<Segment>) {
        self.lists.lock().retire(segment);
    }

    fn take_out(&self, segment: &Arc<Segment>) {
        let gone = self.lists.lock().remove(segment);
        drop(gone);
    }
}

/// What a use of a segment is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// All that can be done with it: of the context that has made it, or has attached itself.
    Owner,
    /// Of a context that it was handed to: its memory, with those rights.
    Handed(Rights),
    /// Of a descriptor, by which it is handed on: it stays.
    Carried,
}

/// The use that a context makes of a segment.
#[pin_data]
pub(crate) struct Holding {
    number: u32,
    role: Role,
    segment: Arc<Segment>,
    ready: Arc<Ready>,
    #[pin]
    notices: Notices,
    #[pin]
    window: Mutex<Option<Window>>,
}

impl Holding {
    fn new(number: u32, segment: &Arc<Segment>, role: Role) -> Result<Arc<Self>> {
        let ready = Ready::new(0)?;
        let of = ready.clone();
        let init = pin_init!(Self {
            number,
            role,
            segment: segment.clone(),
            ready,
            notices <- Notices::new(of),
            window <- new_mutex!(None),
        });
        // Under locks that others take: not charged.
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// One more use of the segment's memory, for somebody else.
    ///
    /// # Errors
    ///
    /// `ENOENT` if this one has ended, `ENOMEM`.
    pub(crate) fn hand(&self, number: u32, role: Role) -> Result<Arc<Holding>> {
        let check = |state: &State| match state.has(self) {
            true => Ok(()),
            false => Err(ENOENT),
        };
        self.segment.use_once_more(number, role, check)
    }

    /// Its memory, if others may have that for as long as they like.
    ///
    /// # Errors
    ///
    /// `ENXIO` if it is empty, `EOPNOTSUPP` if they may not, or this host has no dma-bufs.
    pub(crate) fn lasting(&self) -> Result<Arc<Piece>> {
        let piece = self.segment.piece().ok_or(ENXIO)?;
        match HAS_DMA_BUFS && piece.is_lasting() && piece.run_of_pages(0, 1).is_ok() {
            true => Ok(piece.clone()),
            false => Err(error::unsupported()),
        }
    }

    /// What may be done with its memory.
    pub(crate) fn rights(&self) -> Rights {
        match self.role {
            Role::Owner => Rights::ALL,
            Role::Handed(rights) => rights,
            Role::Carried => Rights::NONE,
        }
    }

    /// Whether it says what peers may do with the segment.
    ///
    /// # Errors
    ///
    /// `EACCES` if not.
    pub(crate) fn check_owner(&self) -> Result {
        match self.role {
            Role::Owner => Ok(()),
            _ => Err(EACCES),
        }
    }

    /// Whether it has notices: what peers do is the owners' business. Who takes none must not be able
    /// to keep peers away.
    fn hears(&self) -> bool {
        self.role == Role::Owner
    }

    /// Its number, unique on this host.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its events.
    pub(crate) fn ready(&self) -> &Arc<Ready> {
        &self.ready
    }

    /// What has happened to the segment's connections.
    pub(crate) fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Its memory, which is new, counts as that, also if others have it in the end: for who has made
    /// it, as long as somebody has it or a peer may reach it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn count(&self, memory: Share) -> Result {
        match self.segment.piece() {
            Some(piece) => Leased::enter(piece, memory),
            None => Ok(()),
        }
    }

    /// Bytes; none as long as it is empty.
    pub(crate) fn len(&self) -> u64 {
        self.segment.piece().map_or(0, |piece| piece.len())
    }

    /// Where bytes of it are; see [`Piece::phys_address`].
    ///
    /// # Errors
    ///
    /// Those of that, `ENXIO` as long as it is empty.
    pub(crate) fn phys_address(&self, at: u64, len: u64) -> Result<u64> {
        self.segment.piece().ok_or(ENXIO)?.phys_address(at, len)
    }

    /// Whether it can be filled with so many bytes.
    ///
    /// # Errors
    ///
    /// `ERANGE`, `EEXIST` if it has memory.
    pub(crate) fn check_room(&self, len: u64) -> Result {
        let piece = self.segment.piece();
        let had = piece.map_or(0, |piece| piece.len());
        if len > self.segment.room.unwrap_or(had) {
            return Err(ERANGE);
        }
        match piece {
            Some(_) => Err(EEXIST),
            None => Ok(()),
        }
    }

    /// Fill it (`SI-REGMEM-6`, `SI-APHYS-1`).
    ///
    /// # Errors
    ///
    /// Those of [`check_room`](Self::check_room), `ENOMEM`.
    pub(crate) fn fill(&self, memory: Piece) -> Result {
        self.check_room(memory.len())?;
        let memory = Arc::new(memory, GFP_KERNEL_ACCOUNT)?;
        // Another thread may have been faster (`SI-REGMEM-4`).
        match self.segment.piece.populate(memory) {
            true => Ok(()),
            false => Err(EEXIST),
        }
    }

    /// The segment's id; zero if it is private.
    pub(crate) fn id(&self) -> u32 {
        self.segment.id.unwrap_or(0)
    }

    /// Let other contexts of the user attach themselves (`SI-SHSEG-1`, `SI-SHSEG-2`).
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is private.
    pub(crate) fn share(&self) -> Result {
        self.segment.id.ok_or_else(error::unsupported)?;
        self.segment.state.lock().is_shared = true;
        Ok(())
    }

    /// See [`Shown::prepare`]. One that is private may be prepared for copies alone: whether it can
    /// have a window is asked when it is granted.
    ///
    /// # Errors
    ///
    /// `ENXIO` if it is empty, `ENOSPC` if the peer there does not reach the memory by a window
    /// and needs one, those of [`Segment::attach`], `ENOMEM`.
    pub(crate) fn prepare(&self, link: &Link, needs_window: bool) -> Result {
        let interface = link.interface().id();
        let piece = self.segment.piece().ok_or(ENXIO)?;
        let needs_window = needs_window && self.segment.id.is_some() && !link.is_loopback();
        if let (Piece::Local(local), Some(memory)) = (&**piece, link.memory()) {
            if needs_window && !memory.can_grant(local) {
                return Err(ENOSPC);
            }
        }
        if let (Piece::DmaBuf(part), false) = (&**piece, link.is_loopback()) {
            self.segment.attach(link, part)?;
        }
        self.segment.change(interface, |shown| {
            shown.prepare();
            Ok(())
        })
    }

    /// See [`Shown::publish`], and [`Shown::publish_placed`] if it does not need a window.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is private, `ENXIO` if it is not prepared there, `ENOSPC` or
    /// `EOPNOTSUPP` if the peer there cannot reach the memory that it was filled with by a window
    /// and needs one, or if the kernel does not copy that memory and it needs none, `ENOMEM`.
    pub(crate) fn publish(&self, link: &Link, needs_window: bool) -> Result {
        self.segment.id.ok_or_else(error::unsupported)?;
        let interface = link.interface().id();
        match (needs_window, self.segment.shown(interface)) {
            (true, Shown::Prepared | Shown::Placed) => self.check_exposure(link)?,
            (false, Shown::Prepared) => self.check_copies(Rights::NONE)?,
            _ => {}
        }
        self.segment.change(interface, |shown| {
            let published = match needs_window {
                true => shown.publish(),
                false => shown.publish_placed(),
            };
            published.map_err(|_| ENXIO)
        })
    }

    /// Whether the kernel makes all copies that go with these rights, and some at all.
    fn check_copies(&self, rights: Rights) -> Result {
        let copied = self.segment.piece().ok_or(ENXIO)?.copied();
        match copied != Rights::NONE && rights.and(copied) == rights {
            true => Ok(()),
            false => Err(error::unsupported()),
        }
    }

    /// Whether the peer of a link can reach the memory that the segment was filled with. When
    /// the link is down, that is found when somebody connects.
    fn check_exposure(&self, link: &Link) -> Result {
        let piece = self.segment.piece().ok_or(ENXIO)?;
        if !piece.can_be_shown() || link.is_loopback() && !piece.is_mappable() {
            return Err(error::unsupported());
        }
        let Some(memory) = link.memory().filter(|_| !link.is_loopback()) else {
            return Ok(());
        };
        let checked = match &**piece {
            Piece::Local(local) if !memory.can_grant(local) => Err(ENOSPC),
            Piece::Pages(pages) => memory.can_expose_pages(pages),
            Piece::Physical(range) => memory.can_expose(range.phys(), range.len()),
            Piece::DmaBuf(_) => {
                let attached = self.segment.attached(link.interface().id());
                memory.can_expose_attached(&attached.ok_or(ENXIO)?)
            }
            _ => Ok(()),
        };
        match checked {
            Err(e) if e == error::not_connected() => Ok(()),
            checked => checked,
        }
    }

    /// See [`Shown::withdraw`]. With `how`, those who are connected are asked to leave, or
    /// put out: then none of them reaches the memory any more.
    ///
    /// # Errors
    ///
    /// `ENXIO` if it is not published there, unless that is about to end by force; `ENOMEM`;
    /// those of [`Link::wait_until_let_go`].
    pub(crate) fn withdraw(&self, link: &Link, how: u32) -> Result {
        let interface = link.interface().id();
        let is_forced = how & MP_WITHDRAW_FORCE != 0;
        let is_again = is_forced && link.is_ending(self.segment.token);
        self.segment
            .change(interface, |shown| match shown.withdraw() {
                Err(_) if !is_again => Err(ENXIO),
                _ => Ok(()),
            })?;
        if is_forced {
            self.segment.left(link.end_guests(self.segment.token));
            link.wait_until_let_go(self.segment.token)?;
        } else if how & MP_WITHDRAW_NOTIFY != 0 {
            link.ask_guests_to_leave(self.segment.token);
        }
        Ok(())
    }

    /// Let the partner of a session connect, with those rights, and nobody else; `number` names
    /// what it connects to.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it has ended, `ENXIO` if it is not prepared there, those of publishing if it is
    /// to be written by a window, `EOPNOTSUPP` if the kernel does not make the copies that it is
    /// for, those of [`Session::check_paired`], `ENOMEM`.
    pub(crate) fn permit(
        &self,
        number: u32,
        session: &Arc<Session>,
        rights: Rights,
        needs_window: bool,
    ) -> Result<Arc<Permit>> {
        let link = session.link();
        if self.segment.shown(link.interface().id()) == Shown::Unprepared {
            return Err(ENXIO);
        }
        session.check_paired()?;
        match rights.write && needs_window {
            true => self.check_exposure(link)?,
            false => self.check_copies(rights)?,
        }
        let ready = Ready::new(0)?;
        let permit = Permit {
            number,
            segment: self.segment.clone(),
            link: link.clone(),
            ready,
        };
        let permit = Arc::new(permit, GFP_KERNEL_ACCOUNT)?;
        let terms = Terms {
            number,
            session: session.clone(),
            rights,
            has_ended: false,
        };
        let mut state = self.segment.state.lock();
        if state.is_gone {
            return Err(ENOENT);
        }
        state.permits.push(terms, GFP_KERNEL_ACCOUNT)?;
        drop(state);
        Ok(permit)
    }

    /// Let a queue copy from it, or if it `reads`, into it.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it has ended, `ENXIO` if it is not prepared at that interface, `EACCES` if it was
    /// handed over without the right.
    pub(crate) fn begin_use(&self, interface: u32, reads: bool) -> Result<Used> {
        let rights = self.rights();
        if !(if reads { rights.write } else { rights.read }) {
            return Err(EACCES);
        }
        if self.segment.shown(interface) == Shown::Unprepared {
            return Err(ENXIO);
        }
        let mut state = self.segment.state.lock();
        if state.is_gone {
            return Err(ENOENT);
        }
        state.copies += 1;
        drop(state);
        Ok(Used(self.segment.clone()))
    }

    /// Tell what there is to know, with the place where the process may map it.
    ///
    /// # Errors
    ///
    /// `ENOSPC` without free offsets, `ENOMEM`.
    pub(crate) fn describe(&self, mapper: &Mapper, links: &Links, info: &mut mp_segment) -> Result {
        info.ending = self.ending(links) as u32;
        let place = self.place(mapper)?;
        (info.length, info.offset) = (place.len, place.offset);
        info.id = self.id();
        info.state = match self.segment.shown(info.interface) {
            Shown::Unprepared => MP_SEGMENT_UNPREPARED,
            Shown::Prepared => MP_SEGMENT_PREPARED,
            Shown::Placed | Shown::Published => MP_SEGMENT_PUBLISHED,
        };
        let state = self.segment.state.lock();
        info.connections = state.guests as u32;
        info.flags = 0;
        if self.segment.id.is_none() {
            info.flags |= MP_SEGMENT_PRIVATE;
        }
        if self.segment.room.is_some() {
            info.flags |= MP_SEGMENT_EMPTY;
        }
        if state.is_shared {
            info.flags |= MP_SEGMENT_SHARED;
        }
        Ok(())
    }

    /// Whether this use has not ended.
    fn is_in_use(&self) -> bool {
        self.segment.state.lock().has(self)
    }

    fn place(&self, mapper: &Mapper) -> Result<Place> {
        let Some(piece) = self.segment.piece() else {
            return Ok(Place::default());
        };
        if !piece.is_mappable() {
            return Ok(Place {
                len: piece.len(),
                offset: 0,
            });
        }
        let mut window = self.window.lock();
        // `remove` takes this use off the list before it takes the window, which is not made again.
        if !self.is_in_use() {
            return Err(ENOENT);
        }
        if window.is_none() {
            *window = Some(mapper.window_for(piece, self.rights().write)?);
        }
        Ok(window.as_ref().map_or(Place::default(), Place::of))
    }

    /// End this use of the segment: with that of the last owner the segment for peers, with the last
    /// one its memory.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is that of the last owner and there are connections, or the last one and it is
    /// copied from, unless they are to be ended by `force`; then nothing has changed. `ENOENT` if it
    /// has ended.
    pub(crate) fn remove(self: &Arc<Self>, links: &Links, force: bool) -> Result {
        let segment = &self.segment;
        let leaving = segment.leave(self, force)?;
        if leaving.is_last_owner {
            links.segments().retire(segment);
            links.for_each(|link| {
                link.end_guests(segment.token);
            });
            for terms in &leaving.permits {
                terms.session.link().end_guests(terms.number);
            }
        }
        if leaving.is_last {
            links.segments().take_out(segment);
        }
        self.ready.close();
        let window = self.window.lock().take();
        drop(window);
        drop(leaving);
        Ok(())
    }

    /// Return when it is proven that no peer reaches the memory any more that was put out. Of
    /// memory that goes with the segment no proof is missed: it is nobody's until there is one.
    ///
    /// # Errors
    ///
    /// Those of [`Link::wait_until_let_go`].
    pub(crate) fn wait_until_let_go(&self, links: &Links) -> Result {
        let mut waited = Ok(());
        links.for_each(|link| {
            let of_link = link.wait_until_let_go(self.segment.token);
            waited = waited.and(of_link);
        });
        match waited {
            Err(e) if e == error::in_progress() && !self.outlives() => Ok(()),
            waited => waited,
        }
    }

    /// Whether its memory is somebody's without the segment, or of others whom it was handed to.
    fn outlives(&self) -> bool {
        if !self.segment.state.lock().holdings.is_empty() {
            return true;
        }
        let piece = self.segment.piece();
        piece.is_some_and(|piece| {
            matches!(
                **piece,
                Piece::Pages(_) | Piece::Physical(_) | Piece::DmaBuf(_)
            )
        })
    }

    /// Connections that were ended by which peers may still reach the memory.
    fn ending(&self, links: &Links) -> usize {
        let mut all = 0;
        links.for_each(|link| all += link.ending(self.segment.token));
        all
    }
}

/// What a segment's owner has granted to one partner.
pub(crate) struct Permit {
    number: u32,
    segment: Arc<Segment>,
    link: Arc<Link>,
    ready: Arc<Ready>,
}

impl Permit {
    /// Its number, unique on this host.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its events, of which there are none.
    pub(crate) fn ready(&self) -> &Arc<Ready> {
        &self.ready
    }

    /// Let the partner connect no more, and end its connections; those of others stay.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there are connections, unless they are to be ended by `force`; then nothing has
    /// changed.
    pub(crate) fn remove(&self, force: bool) -> Result {
        if !force && self.link.has_guests(self.number) {
            return Err(EBUSY);
        }
        let is_its = |terms: &Terms| terms.number == self.number;
        {
            let mut state = self.segment.state.lock();
            if let Some(terms) = state.permits.iter_mut().find(|terms| is_its(terms)) {
                terms.has_ended = true;
            }
        }
        // Those that leave meanwhile are counted by what is still found.
        self.segment.left(self.link.end_guests(self.number));
        let gone = {
            let mut state = self.segment.state.lock();
            let at = state.permits.iter().position(is_its);
            at.and_then(|at| state.permits.remove(at).ok())
        };
        drop(gone);
        self.ready.close();
        Ok(())
    }

    /// Return when it is proven that the partner does not reach the memory any more.
    ///
    /// # Errors
    ///
    /// Those of [`Link::wait_until_let_go`].
    pub(crate) fn wait_until_let_go(&self) -> Result {
        self.link.wait_until_let_go(self.segment.token)
    }
}
