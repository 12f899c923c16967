// SPDX-License-Identifier: GPL-2.0-only

//! Contexts: open files with the objects that they own.

use crate::{
    calls,
    connection::Connection,
    host::Links,
    link::Link,
    offer::Offer,
    park::Lookout,
    queue::{
        Queue,
        QueueRef, //
    },
    quota::{
        Kind,
        Leased,
        Share,
        WindowShare, //
    },
    ready::{
        self,
        Ready, //
    },
    segment::{
        Holding,
        Permit, //
    },
    session::{
        Mapper,
        Session, //
    },
    status::Status,
    stream::Stream, //
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
        ArcBorrow,
        Mutex, //
    },
    uaccess::{
        UserPtr,
        UserSliceWriter, //
    }, //
};
use mp_kernel::{
    chardev::{
        File,
        Opening, //
    },
    dmem::Charge,
    error,
    process::{
        Owner,
        Payers,
        UserId, //
    },
    user_pages::{
        Purpose,
        Toll,
        UserPages, //
    },
    vma::{
        NewVma,
        ScrapPage, //
    },
    wait::Events,
    worker::{
        new_worker,
        Worker, //
    }, //
};
use mp_proto::{
    layout::PAGE,
    pairing::terms::{
        Location,
        Params, //
    }, //
};
use mp_transport::memory::Memory;

/// How many objects there may be.
pub(crate) struct Limits {
    /// Most sessions of a context.
    pub(crate) sessions: u32,
    /// Most sessions of all contexts of a user.
    pub(crate) user_sessions: u32,
    /// Most other objects of a context.
    pub(crate) objects: u32,
    /// Most other objects of all contexts of a user.
    pub(crate) user_objects: u32,
    /// Most segments among them, each use counted.
    pub(crate) user_segments: u32,
    /// Most connections among them.
    pub(crate) user_connections: u32,
    /// Most contexts of a user.
    pub(crate) user_contexts: u32,
    /// How much of the memory that peers reach a user may have, in percent.
    pub(crate) user_memory: u32,
}

impl Limits {
    /// Most bytes of a user of so many that there are, whole pages; none if that is not
    /// limited, or if there are none anyway.
    fn memory(&self, total: u64) -> Option<u64> {
        let is_limited = self.user_memory < 100 && total != 0;
        let most = || total.saturating_mul(self.user_memory.into()) / 100;
        is_limited.then(|| most() / PAGE * PAGE)
    }
}

/// Sessions of a user for which there is a place for one more, which is closed while its partner is
/// open: those who close both halves of pairs have room for new ones at once.
const CLOSED: u64 = 4;

/// The bytes that so many take, in whole pages.
fn in_pages(len: u64) -> u64 {
    len.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

/// Whether a session is of use without a local window.
fn is_local_optional(params: &Params) -> bool {
    params.local.min == 0 && params.remote.max != 0
}

/// What a local window counts as for the control group of the calling process, which may have less
/// than is asked for: it is made smaller then, but no smaller than it has to be.
///
/// # Errors
///
/// `EDQUOT`, `ENOMEM`.
fn charge_window(memory: &Memory, params: &mut Params, total: u64) -> Result<Charge> {
    let least = params.local.min.max(1);
    let mut len = params.local.max.min(total);
    loop {
        let charged = memory.charge_caller(len);
        if len == 0 || charged.as_ref().err() != Some(&error::quota()) {
            return charged;
        }
        len = match len > least {
            true => (len / 2).max(least),
            false if is_local_optional(params) => 0,
            false => return charged,
        };
        params.local.max = len;
    }
}

/// What all contexts share.
pub(crate) struct Shared {
    pub(crate) links: Arc<Links>,
    pub(crate) limits: Limits,
    /// Looks after those who sleep until memory changes.
    pub(crate) lookout: Arc<Worker<Lookout>>,
    /// The last handle that was given.
    last_handle: Atomic<u32>,
    /// The last number of a context.
    last_context: Atomic<u64>,
}

impl Shared {
    /// For contexts on these links.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(links: Arc<Links>, limits: Limits) -> Result<Self> {
        Ok(Self {
            links,
            limits,
            lookout: new_worker!(Lookout::new()?)?,
            last_handle: Atomic::new(0),
            last_context: Atomic::new(0),
        })
    }

    /// A handle that no object has.
    pub(crate) fn next_handle(&self) -> u32 {
        loop {
            let handle = self.last_handle.fetch_add(1, Relaxed).wrapping_add(1);
            // After a turn, those that live still have theirs.
            if handle != 0 && !self.links.has_object(handle) {
                return handle;
            }
        }
    }
}

/// A session with what it counts as.
struct Owned {
    session: Arc<Session>,
    _share: Share,
}

/// An object that is no session.
#[derive(Clone)]
pub(crate) enum Object {
    /// The use of a segment.
    Segment(Arc<Holding>),
    /// A connection.
    Connection(Arc<Connection>),
    /// An event or port.
    Offer(Arc<Offer>),
    /// Copies into segments of peers.
    Queue(QueueRef),
    /// What one partner may do with a segment.
    Permit(Arc<Permit>),
}

impl Object {
    /// Its handle.
    pub(crate) fn number(&self) -> u32 {
        match self {
            Object::Segment(holding) => holding.number(),
            Object::Connection(connection) => connection.number(),
            Object::Offer(offer) => offer.number(),
            Object::Queue(queue) => queue.target().number(),
            Object::Permit(permit) => permit.number(),
        }
    }

    /// Its events, and which there can be.
    fn ready(&self) -> (Arc<Ready>, u32) {
        match self {
            Object::Segment(holding) => (holding.ready().clone(), ready::OF_SEGMENTS),
            Object::Connection(it) => (it.ready().clone(), ready::OF_CONNECTIONS),
            Object::Offer(offer) if offer.is_port() => (offer.ready().clone(), ready::OF_PORTS),
            Object::Offer(offer) => (offer.ready().clone(), ready::OF_EVENTS),
            Object::Queue(queue) => (queue.target().ready().clone(), ready::OF_QUEUES),
            Object::Permit(permit) => (permit.ready().clone(), 0),
        }
    }

    /// End it.
    ///
    /// # Errors
    ///
    /// `EBUSY` if others use it, unless `force`; `ENOENT` if it has ended.
    fn remove(&self, links: &Links, force: bool) -> Result {
        match self {
            Object::Segment(holding) => holding.remove(links, force),
            Object::Offer(offer) => offer.remove(force),
            Object::Permit(permit) => permit.remove(force),
            Object::Connection(connection) => {
                connection.link().disconnect(connection);
                Ok(())
            }
            Object::Queue(queue) => {
                Queue::close(queue);
                Ok(())
            }
        }
    }
}

/// An object with all that it counts as.
struct OwnedObject {
    object: Object,
    _shares: Shares,
}

/// What an object counts as: as any, and as one of its kind.
pub(crate) type Shares = [Option<Share>; 2];

/// What is to be made.
pub(crate) enum Make {
    /// A segment of so many bytes, of `total` that there are `of` an interface, or of all.
    Segment {
        len: u64,
        total: u64,
        of: Option<u32>,
    },
    /// One more use of a segment.
    Attachment,
    /// A connection.
    Connection,
    /// Anything else.
    Other,
}

/// What a context has of an interface: its events.
struct Watched {
    interface: u32,
    /// Where its events come from: another one after the interface has gone and come.
    link: Arc<Link>,
    ready: Arc<Ready>,
}

impl Watched {
    /// The events of the interface, whose link is this one now.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the interface has gone, and its last events (`PXI-WIE-1`) have been
    /// taken; `ENOMEM`.
    fn follow(&mut self, link: Result<Arc<Link>>) -> Result<Arc<Ready>> {
        match link {
            Ok(link) => {
                if !Arc::ptr_eq(&link, &self.link) {
                    link.watchers.add(self.ready.clone())?;
                    self.link.watchers.remove(&self.ready);
                    self.link = link;
                    self.ready.raise(ready::OF_INTERFACES);
                }
            }
            Err(e) if self.ready.events() == 0 => return Err(e),
            Err(_) => {}
        }
        Ok(self.ready.clone())
    }
}

/// What a context owns.
struct Objects {
    /// By their numbers.
    sessions: KVec<Owned>,
    /// Interfaces that it has waited for.
    interfaces: KVec<Watched>,
    /// Whether there are new ones, once it has asked.
    arrivals: Option<Arc<Ready>>,
    /// Sessions that are being opened.
    opening: u32,
    /// All that is no session.
    objects: KVec<OwnedObject>,
    /// Such that are being made.
    making: u32,
}

/// A context.
#[pin_data(PinnedDrop)]
pub(crate) struct Context {
    shared: Arc<Shared>,
    owner: Arc<Owner>,
    user: UserId,
    payers: Arc<Payers>,
    _share: Share,
    mapper: Mapper,
    stream: Arc<Stream>,
    /// The status words of its connections.
    status: Arc<Status>,
    /// Whether it has ended, or is just ending.
    ended: Atomic<bool>,
    /// `None` once it has ended.
    #[pin]
    objects: Mutex<Option<Objects>>,
}

impl Context {
    /// What all contexts share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Where its windows are mapped.
    pub(crate) fn mapper(&self) -> &Mapper {
        &self.mapper
    }

    /// The status words of its connections.
    pub(crate) fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// The user whose it is.
    pub(crate) fn user(&self) -> UserId {
        self.user
    }

    /// Who is charged for what it has.
    pub(crate) fn payers(&self) -> &Arc<Payers> {
        &self.payers
    }

    /// Where events are reported.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Run `f` on what it owns.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN` once it has ended, or that of `f`.
    fn with_objects<R>(&self, f: impl FnOnce(&mut Objects) -> Result<R>) -> Result<R> {
        let mut objects = self.objects.lock();
        match &mut *objects {
            Some(objects) => f(objects),
            None => Err(error::shut_down()),
        }
    }

    /// Whether the caller may use it.
    ///
    /// # Errors
    ///
    /// `EACCES`.
    fn check_caller(&self) -> Result {
        match self.owner.is_current() {
            true => Ok(()),
            false => Err(EACCES),
        }
    }

    /// Whether the caller may use it, and it has not ended. Takes no lock: `mmap()` asks
    /// under the process's own.
    ///
    /// # Errors
    ///
    /// `EACCES`, `ESHUTDOWN`.
    fn check(&self) -> Result {
        self.check_caller()?;
        match self.ended.load(Relaxed) {
            true => Err(error::shut_down()),
            false => Ok(()),
        }
    }

    /// Pin `len` bytes at an address of the calling process, which all who pay for this are
    /// charged for, with no more than `RLIMIT_MEMLOCK` each.
    ///
    /// # Errors
    ///
    /// Those of [`UserPages::pin`].
    pub(crate) fn pin(&self, address: u64, len: u64, purpose: Purpose) -> Result<UserPages> {
        UserPages::pin(address, len, purpose, |pages, most| {
            let share = Share::new(&self.payers, Kind::Pinned, pages as u64, most as u64)?;
            let toll: Toll = KBox::new(share, GFP_KERNEL_ACCOUNT)?;
            Ok(toll)
        })
    }

    /// Find a session.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`.
    pub(crate) fn session(&self, handle: u32) -> Result<Arc<Session>> {
        self.with_objects(|objects| {
            let sessions = &objects.sessions;
            let at = sessions.binary_search_by_key(&handle, |o| o.session.number());
            let owned = at.ok().and_then(|at| sessions.get(at));
            Ok(owned.ok_or(ENOENT)?.session.clone())
        })
    }

    /// Open a session by `f`, which may wait, within the quotas. It is given the
    /// parameters, with no larger local window than the user may have at `link`, and what the
    /// session counts as beyond its end: its place in the link's table, and its memory.
    ///
    /// # Errors
    ///
    /// `EDQUOT`, `ESHUTDOWN`, `ENOMEM`, or that of `f`; it is not there then.
    pub(crate) fn open_session(
        &self,
        link: &Link,
        mut params: Params,
        f: impl FnOnce(Params, (Share, Option<WindowShare>)) -> Result<Arc<Session>>,
    ) -> Result<Arc<Session>> {
        let limits = &self.shared.limits;
        let most = u64::from(limits.user_sessions);
        let share = Share::new(&self.payers, Kind::Session, 1, most)?;
        let kind = Kind::Place(link.interface().id());
        let place = Share::new(&self.payers, kind, 1, most + most / CLOSED)?;
        let memory = self.share_window(link, &mut params)?;
        self.with_objects(|objects| {
            let there = objects.sessions.len() as u32 + objects.opening;
            if there >= self.shared.limits.sessions {
                return Err(error::quota());
            }
            objects
                .sessions
                .reserve(objects.opening as usize + 1, GFP_KERNEL_ACCOUNT)?;
            objects.opening += 1;
            Ok(())
        })?;
        let opened = f(params, (place, memory));
        let entered = self.with_objects(|objects| {
            objects.opening -= 1;
            let session = opened.clone()?;
            let owned = Owned {
                session,
                _share: share,
            };
            let sessions = &mut objects.sessions;
            let number = owned.session.number();
            let at = sessions.partition_point(|o| o.session.number() < number);
            // There is room for it.
            let entered = sessions.insert_within_capacity(at, owned);
            entered.map_err(|_| ENOMEM)
        });
        let session = opened?;
        if let Err(e) = entered {
            // It has ended meanwhile.
            session.link().end(&session);
            return Err(e);
        }
        Ok(session)
    }

    /// What the local window of a session counts as, which is made smaller if need be. Where
    /// the memory is the caller's own, it does not count.
    ///
    /// # Errors
    ///
    /// `EDQUOT`, `ENETDOWN` if the link is down, `ENOMEM`.
    fn share_window(&self, link: &Link, params: &mut Params) -> Result<Option<WindowShare>> {
        if params.location == Location::Physical || params.local.max == 0 {
            return Ok(None);
        }
        let memory = link.memory().ok_or(error::net_down())?;
        let total = memory.limits().local_total;
        let kind = Kind::Memory(Some(link.interface().id()));
        let most = self.shared.limits.memory(total);
        if let Some(most) = most {
            self.fit_to_user(kind, most, params);
        }
        // The user has no more of it than the group may have.
        let group = charge_window(&memory, params, total)?;
        if params.local.max == 0 {
            return Ok(None);
        }
        let len = in_pages(params.local.max);
        let user = most.map(|most| Share::new(&self.payers, kind, len, most));
        Ok(Some(WindowShare::new(user.transpose()?, group)))
    }

    /// Make a local window smaller where its user may not have so much, but no smaller than it has to be.
    fn fit_to_user(&self, kind: Kind, most: u64, params: &mut Params) {
        // Segments for that peer count as the same.
        Leased::settle();
        let left = Share::left(&self.payers, kind, most);
        let least = match is_local_optional(params) {
            true => 0,
            false => params.local.min.max(1),
        };
        params.local.max = params.local.max.min(left.max(least));
    }

    /// What an object counts as, and its memory.
    ///
    /// # Errors
    ///
    /// `EDQUOT`, `ENOMEM`.
    pub(crate) fn share_object(&self, what: Make) -> Result<(Shares, Option<Share>)> {
        let limits = &self.shared.limits;
        let share = |kind, amount, most| Share::new(&self.payers, kind, amount, most).map(Some);
        let any = share(Kind::Object, 1, limits.user_objects.into())?;
        let segment = || share(Kind::Segment, 1, limits.user_segments.into());
        let (own, memory) = match what {
            Make::Segment { len, total, of } => {
                Leased::settle();
                let share = |most| Share::new(&self.payers, Kind::Memory(of), in_pages(len), most);
                let memory = limits.memory(total).map(share).transpose()?;
                (segment()?, memory)
            }
            Make::Attachment => (segment()?, None),
            Make::Connection => {
                let most = limits.user_connections.into();
                (share(Kind::Connection, 1, most)?, None)
            }
            Make::Other => (None, None),
        };
        Ok(([any, own], memory))
    }

    /// Make an object by `f`, which may wait, within the quotas.
    ///
    /// # Errors
    ///
    /// `EDQUOT`, `ESHUTDOWN`, `ENOMEM`, or that of `f`; it is not there then.
    pub(crate) fn make(&self, what: Make, f: impl FnOnce() -> Result<Object>) -> Result<Object> {
        let (shares, memory) = self.share_object(what)?;
        self.with_objects(|objects| {
            let there = objects.objects.len() as u32 + objects.making;
            if there >= self.shared.limits.objects {
                return Err(error::quota());
            }
            objects
                .objects
                .reserve(objects.making as usize + 1, GFP_KERNEL_ACCOUNT)?;
            objects.making += 1;
            Ok(())
        })?;
        let made = f();
        let counted = match (&made, memory) {
            (Ok(Object::Segment(holding)), Some(memory)) => holding.count(memory),
            _ => Ok(()),
        };
        let entered = self.with_objects(|objects| {
            objects.making -= 1;
            counted?;
            let owned = OwnedObject {
                object: made.clone()?,
                _shares: shares,
            };
            Ok(objects.objects.push(owned, GFP_KERNEL_ACCOUNT)?)
        });
        let object = made?;
        if let Err(e) = entered {
            // It has ended meanwhile.
            object.remove(&self.shared.links, true)?;
            return Err(e);
        }
        Ok(object)
    }

    /// Find an object that is no session.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`.
    pub(crate) fn object(&self, handle: u32) -> Result<Object> {
        self.with_objects(|objects| {
            let owned = objects.objects.iter().find(|o| o.object.number() == handle);
            Ok(owned.ok_or(ENOENT)?.object.clone())
        })
    }

    /// Find the use of a segment.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`.
    pub(crate) fn segment(&self, handle: u32) -> Result<Arc<Holding>> {
        match self.object(handle)? {
            Object::Segment(holding) => Ok(holding),
            _ => Err(ENOENT),
        }
    }

    /// Find a connection.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`.
    pub(crate) fn connection(&self, handle: u32) -> Result<Arc<Connection>> {
        match self.object(handle)? {
            Object::Connection(connection) => Ok(connection),
            _ => Err(ENOENT),
        }
    }

    /// Find a queue.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`.
    pub(crate) fn queue(&self, handle: u32) -> Result<QueueRef> {
        match self.object(handle)? {
            Object::Queue(queue) => Ok(queue),
            _ => Err(ENOENT),
        }
    }

    /// The events of an object, and which there can be.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`.
    pub(crate) fn ready(&self, handle: u32) -> Result<(Arc<Ready>, u32)> {
        match self.session(handle) {
            Ok(session) => Ok((session.ready().clone(), ready::OF_SESSIONS)),
            Err(_) => Ok(self.object(handle)?.ready()),
        }
    }

    /// End an object that is no session; when that returns, no peer reaches a segment's memory
    /// any more.
    ///
    /// # Errors
    ///
    /// `EBUSY` if others use it, unless `force`; `ENOENT`, `ESHUTDOWN`. It has ended with those
    /// of [`Holding::wait_until_let_go`].
    pub(crate) fn remove(&self, handle: u32, force: bool) -> Result {
        let object = self.object(handle)?;
        if let Object::Queue(queue) = &object {
            queue.target().retire()?;
        }
        object.remove(&self.shared.links, force)?;
        let waited = match &object {
            Object::Segment(holding) => holding.wait_until_let_go(&self.shared.links),
            Object::Permit(permit) => permit.wait_until_let_go(),
            _ => Ok(()),
        };
        let gone = self.with_objects(|objects| {
            let objects = &mut objects.objects;
            let at = objects.iter().position(|o| o.object.number() == handle);
            Ok(at.and_then(|at| objects.remove(at).ok()))
        })?;
        drop(gone);
        waited
    }

    /// Close an object of whatever kind; see [`remove`](Self::remove).
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`; those of [`Holding::wait_until_let_go`] if it is closed.
    pub(crate) fn close(&self, handle: u32) -> Result {
        match self.close_session(handle) {
            Err(e) if e == ENOENT => self.remove(handle, true),
            closed => closed,
        }
    }

    /// Close a session.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`.
    fn close_session(&self, handle: u32) -> Result {
        let owned = self.with_objects(|objects| {
            let sessions = &mut objects.sessions;
            let at = sessions.binary_search_by_key(&handle, |o| o.session.number());
            let at = at.map_err(|_| ENOENT)?;
            sessions.remove(at).map_err(|_| ENOENT)
        })?;
        owned.session.link().end(&owned.session);
        Ok(())
    }

    /// The events of an interface, which are kept from the first call on.
    ///
    /// # Errors
    ///
    /// `ENODEV`, `ESHUTDOWN`, `ENOMEM`.
    pub(crate) fn interface(&self, id: u32) -> Result<Arc<Ready>> {
        let link = self.shared.links.get(id);
        self.with_objects(|objects| {
            let known = objects.interfaces.iter_mut().find(|w| w.interface == id);
            if let Some(watched) = known {
                return watched.follow(link);
            }
            let link = link?;
            let ready = Ready::new(ready::OF_INTERFACES)?;
            objects.interfaces.reserve(1, GFP_KERNEL_ACCOUNT)?;
            link.watchers.add(ready.clone())?;
            let watched = Watched {
                interface: id,
                link,
                ready: ready.clone(),
            };
            objects.interfaces.push(watched, GFP_KERNEL_ACCOUNT)?;
            Ok(ready)
        })
    }

    /// Whether interfaces were added, which is kept from the first call on.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN`, `ENOMEM`.
    pub(crate) fn arrivals(&self) -> Result<Arc<Ready>> {
        self.with_objects(|objects| {
            if let Some(ready) = &objects.arrivals {
                return Ok(ready.clone());
            }
            let ready = Ready::new(ready::STATE)?;
            self.shared.links.arrivals.add(ready.clone())?;
            objects.arrivals = Some(ready.clone());
            Ok(ready)
        })
    }

    /// End it: everything that it owns is closed.
    fn end(&self) {
        self.ended.store(true, Relaxed);
        let Some(objects) = self.objects.lock().take() else {
            return;
        };
        for owned in &objects.sessions {
            owned.session.link().end(&owned.session);
        }
        // Those who use something of peers before those whom peers use.
        let rank = |object: &Object| match object {
            Object::Queue(_) => 0,
            Object::Connection(_) => 1,
            _ => 2,
        };
        for turn in 0..3 {
            for OwnedObject { object, .. } in &objects.objects {
                if rank(object) == turn {
                    // By force that is possible, unless another thread is just doing it.
                    let _ = object.remove(&self.shared.links, true);
                }
            }
        }
        for watched in &objects.interfaces {
            watched.link.watchers.remove(&watched.ready);
            watched.ready.end();
        }
        if let Some(ready) = &objects.arrivals {
            self.shared.links.arrivals.remove(ready);
            ready.end();
        }
        self.stream.end();
    }
}

#[pinned_drop]
impl PinnedDrop for Context {
    fn drop(self: Pin<&mut Self>) {
        self.end();
    }
}

#[vtable]
impl File for Context {
    type Shared = Shared;

    fn open(opening: Opening<'_, Self>) -> Result<Arc<Self>> {
        let Opening {
            shared,
            owner,
            space,
            pollers,
        } = opening;
        let user = UserId::current();
        let payers = Arc::new(Payers::current()?, GFP_KERNEL_ACCOUNT)?;
        let most = shared.limits.user_contexts.into();
        let share = Share::new(&payers, Kind::Context, 1, most)?;
        let number = shared.last_context.fetch_add(1, Relaxed);
        let mapper = Mapper {
            space: space.clone(),
            owner: number,
            scrap: ScrapPage::new()?,
        };
        let stream = Stream::new(pollers.clone())?;
        let words = shared.limits.objects + shared.limits.sessions;
        let status = Status::new(words, &mapper)?;
        Arc::pin_init(
            pin_init!(Self {
                shared: shared.into(),
                owner: owner.clone(),
                user,
                payers,
                _share: share,
                mapper,
                stream,
                status,
                ended: Atomic::new(false),
                objects <- new_mutex!(Some(Objects {
                    sessions: KVec::new(),
                    interfaces: KVec::new(),
                    arrivals: None,
                    opening: 0,
                    objects: KVec::new(),
                    making: 0,
                })),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    fn ioctl(this: ArcBorrow<'_, Self>, command: u32, arg: UserPtr) -> Result<c_int> {
        this.check()?;
        calls::call(&this, command, arg)?;
        Ok(0)
    }

    fn poll(this: ArcBorrow<'_, Self>) -> Events {
        match this.check_caller() {
            Ok(()) => this.stream.poll(),
            Err(_) => Events::ERR,
        }
    }

    fn mmap(this: ArcBorrow<'_, Self>, area: NewVma<'_>) -> Result {
        this.check()?;
        let mapping = this.mapper.space.find(area.first(), 1);
        let mapping = mapping.filter(|mapping| mapping.owner() == this.mapper.owner);
        let mapping = mapping.ok_or(ENOENT)?;
        if !mapping.is_writable() {
            area.forbid_write()?;
        }
        area.attach(mapping)
    }

    fn read(this: ArcBorrow<'_, Self>, to: &mut UserSliceWriter, nonblock: bool) -> Result<usize> {
        this.check_caller()?;
        this.stream.read(to, nonblock)
    }

    fn abandoned(this: ArcBorrow<'_, Self>) {
        this.end();
    }
}
