// SPDX-License-Identifier: GPL-2.0

//! Contexts: open files with the objects that they own.

use crate::{
    calls,
    host::Links,
    link::Link,
    quota::Share,
    ready::{
        self,
        Ready, //
    },
    session::{
        Mapper,
        Session, //
    },
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
    error,
    process::{
        Owner,
        UserId, //
    },
    vma::{
        NewVma,
        ScrapPage, //
    },
    wait::Events, //
};

/// What all contexts share.
pub(crate) struct Shared {
    pub(crate) links: Arc<Links>,
    /// Most sessions of a context.
    pub(crate) sessions_max: u32,
    /// Most sessions of all contexts of a user.
    pub(crate) user_sessions_max: u32,
    /// The last handle that was given.
    last_handle: Atomic<u32>,
    /// The last number of a context.
    last_context: Atomic<u64>,
}

impl Shared {
    /// For contexts on these links.
    pub(crate) fn new(links: Arc<Links>, sessions_max: u32, user_sessions_max: u32) -> Self {
        Self {
            links,
            sessions_max,
            user_sessions_max,
            last_handle: Atomic::new(0),
            last_context: Atomic::new(0),
        }
    }

    /// A handle that no object has.
    pub(crate) fn next_handle(&self) -> u32 {
        loop {
            let handle = self.last_handle.fetch_add(1, Relaxed).wrapping_add(1);
            // After a turn, those that live still have theirs.
            if handle != 0 && !self.links.has_session(handle) {
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
                    link.watch(self.ready.clone())?;
                    self.link.unwatch(&self.ready);
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
    sessions: KVec<Owned>,
    /// Interfaces that it has waited for.
    interfaces: KVec<Watched>,
    /// Sessions that are being opened.
    opening: u32,
}

/// A context.
#[pin_data(PinnedDrop)]
pub(crate) struct Context {
    shared: Arc<Shared>,
    owner: Arc<Owner>,
    user: UserId,
    mapper: Mapper,
    stream: Arc<Stream>,
    /// Whether it has ended, or is just ending.
    ended: Atomic<bool>,
    /// `None` once it has ended.
    #[pin]
    objects: Mutex<Option<Objects>>,
}

impl Context {
    /// What all contexts share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Where its windows are mapped.
    pub(crate) fn mapper(&self) -> &Mapper {
        &self.mapper
    }

    /// Where events are reported.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Runs `f` on what it owns.
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

    /// Finds a session.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`.
    pub(crate) fn session(&self, handle: u32) -> Result<Arc<Session>> {
        self.with_objects(|objects| {
            let owned = objects
                .sessions
                .iter()
                .find(|o| o.session.number() == handle);
            Ok(owned.ok_or(ENOENT)?.session.clone())
        })
    }

    /// Has a session opened by `f`, which may wait, within the quotas.
    ///
    /// # Errors
    ///
    /// `EDQUOT`, `ESHUTDOWN`, `ENOMEM`, or that of `f`; it is not there then.
    pub(crate) fn open_session(
        &self,
        f: impl FnOnce() -> Result<Arc<Session>>,
    ) -> Result<Arc<Session>> {
        let share = Share::new(self.user, self.shared.user_sessions_max)?;
        self.with_objects(|objects| {
            let there = objects.sessions.len() as u32 + objects.opening;
            if there >= self.shared.sessions_max {
                return Err(error::quota());
            }
            objects
                .sessions
                .reserve(objects.opening as usize + 1, GFP_KERNEL)?;
            objects.opening += 1;
            Ok(())
        })?;
        let opened = f();
        let entered = self.with_objects(|objects| {
            objects.opening -= 1;
            let session = opened.clone()?;
            let owned = Owned {
                session,
                _share: share,
            };
            Ok(objects.sessions.push(owned, GFP_KERNEL)?)
        });
        let session = opened?;
        if let Err(e) = entered {
            // It has ended meanwhile.
            session.link().end(&session);
            return Err(e);
        }
        Ok(session)
    }

    /// Closes a session.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ESHUTDOWN`.
    pub(crate) fn close_session(&self, handle: u32) -> Result {
        let owned = self.with_objects(|objects| {
            let sessions = &mut objects.sessions;
            let at = sessions.iter().position(|o| o.session.number() == handle);
            sessions.remove(at.ok_or(ENOENT)?).map_err(|_| ENOENT)
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
            let ready = Ready::new(ready::OF_INTERFACES, 0)?;
            objects.interfaces.reserve(1, GFP_KERNEL)?;
            link.watch(ready.clone())?;
            let watched = Watched {
                interface: id,
                link,
                ready: ready.clone(),
            };
            objects.interfaces.push(watched, GFP_KERNEL)?;
            Ok(ready)
        })
    }

    /// Ends it: everything that it owns is closed.
    fn end(&self) {
        self.ended.store(true, Relaxed);
        let Some(objects) = self.objects.lock().take() else {
            return;
        };
        for owned in &objects.sessions {
            owned.session.link().end(&owned.session);
        }
        for watched in &objects.interfaces {
            watched.link.unwatch(&watched.ready);
            watched.ready.close();
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
        let number = shared.last_context.fetch_add(1, Relaxed);
        let mapper = Mapper {
            space: space.clone(),
            owner: number,
            scrap: ScrapPage::new()?,
        };
        let stream = Stream::new(pollers.clone())?;
        Arc::pin_init(
            pin_init!(Self {
                shared: shared.into(),
                owner: owner.clone(),
                user: UserId::current(),
                mapper,
                stream,
                ended: Atomic::new(false),
                objects <- new_mutex!(Some(Objects {
                    sessions: KVec::new(),
                    interfaces: KVec::new(),
                    opening: 0,
                })),
            }),
            GFP_KERNEL,
        )
    }

    fn ioctl(this: ArcBorrow<'_, Self>, command: u32, arg: UserPtr) -> Result<c_int> {
        this.check()?;
        calls::call(&this, command, arg)?;
        Ok(0)
    }

    fn poll(this: ArcBorrow<'_, Self>) -> Events {
        this.stream.poll()
    }

    fn mmap(this: ArcBorrow<'_, Self>, area: NewVma<'_>) -> Result {
        this.check()?;
        let mapping = this.mapper.space.find(area.first(), 1);
        let mapping = mapping.filter(|mapping| mapping.owner() == this.mapper.owner);
        area.attach(mapping.ok_or(ENOENT)?)
    }

    fn read(this: ArcBorrow<'_, Self>, to: &mut UserSliceWriter, nonblock: bool) -> Result<usize> {
        this.check_caller()?;
        this.stream.read(to, nonblock)
    }

    fn abandoned(this: ArcBorrow<'_, Self>) {
        this.end();
    }
}
