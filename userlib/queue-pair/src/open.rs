// SPDX-License-Identifier: MIT OR Apache-2.0

//! How a pair begins, and what its two halves share.

use crate::{
    provider::{of_engine, NEWS},
    receive::Receiving,
    send::Sending,
    window::{Far, Near},
    Error, Result,
};
use mp_fabric::{
    CharDevice, Deadline, Device, EventMask, Parked, PartnerMemory, Session, Stores, Subject,
};
use mp_proto::{
    memory::{Inbound, Outbound},
    queue_pair::{tell_end, Broken, End, Hello, Layout, Park, Wants},
};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc, OnceLock,
};

/// What the own window is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lines of 64 bytes in the ring that the partner sends into: a power of two from 8 on.
    pub lines: u32,
    /// Slots for messages of the partner that are longer than [`INLINE_MAX`](crate::INLINE_MAX).
    pub slots: u32,
    /// Bytes of each, a multiple of 64.
    pub slot_size: u32,
    /// Streams that the partner may send on.
    pub streams: u16,
    /// Slots of the partner that this side can use: a power of two from 8 on.
    pub partner_slots: u32,
}

impl Default for Shape {
    /// Fit into 64 KiB: 128 lines, and 8 slots of 4096 bytes for one stream.
    fn default() -> Self {
        Shape {
            lines: 128,
            slots: 8,
            slot_size: 4096,
            streams: 1,
            partner_slots: 8,
        }
    }
}

/// What both halves of a pair use.
#[derive(Debug)]
pub(crate) struct Shared<D: Device> {
    pub(crate) session: Arc<Session<D>>,
    pub(crate) near: Arc<Near>,
    pub(crate) far: PartnerMemory<D>,
    /// What calls fail with since the pair has ended at once.
    ended: OnceLock<Error>,
    /// Whether the partner was told of an end: the first one counts.
    told: AtomicBool,
    /// The partner has to be woken, and the kernel had no memory for that, or for what was stored.
    owed: AtomicBool,
}

impl<D: Device> Shared<D> {
    /// The partner's window.
    pub(crate) fn far(&self) -> Far<'_, PartnerMemory<D>> {
        Far(&self.far)
    }

    /// Fail once the pair has ended at once, whichever half has found it.
    #[inline]
    pub(crate) fn alive(&self) -> Result<()> {
        match self.ended.get() {
            None => Ok(()),
            Some(error) => Err(*error),
        }
    }

    /// End both halves, and the partner's, if the partner broke the rules.
    #[inline]
    pub(crate) fn judge<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error @ Error::Broken(broken)) = &result {
            let _ = self.ended.set(*error);
            if !matches!(broken, Broken::Partner(_)) {
                self.break_off(broken.reason());
            }
        }
        result
    }

    /// End both halves, and the partner's.
    pub(crate) fn abort(&self, reason: u16) {
        let _ = self.ended.set(Error::Ended);
        self.break_off(reason);
    }

    #[cold]
    fn break_off(&self, reason: u16) {
        if self.may_tell() && tell_end(&self.far(), End::Broken { reason }).is_ok() {
            // One that has gone misses nothing.
            let _ = self.session.signal();
        }
    }

    /// Whether this is the first end that the partner is told.
    pub(crate) fn may_tell(&self) -> bool {
        !self.told.swap(true, Ordering::AcqRel)
    }

    /// Wake the partner if it sleeps, or was to be woken before.
    #[inline]
    pub(crate) fn wake(&self, asleep: bool) -> Result<()> {
        match &self.far {
            PartnerMemory::Mapped(_) => self.wake_now(asleep),
            PartnerMemory::Sent(stores) => self.wake_behind(stores, asleep),
        }
    }

    #[inline]
    fn wake_now(&self, asleep: bool) -> Result<()> {
        match asleep || self.owes_signal() {
            true => self.signal(),
            false => Ok(()),
        }
    }

    /// Wake the partner once there is what it shall find: stores that the kernel has no memory to
    /// send are tried again, with the signal. Those that are lost end the pair, as a lost link does.
    #[cold]
    fn wake_behind(&self, stores: &Stores<D>, asleep: bool) -> Result<()> {
        match stores.settle() {
            Ok(true) => self.wake_now(asleep),
            Ok(false) => {
                self.owed.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(_) => {
                let _ = self.ended.set(down());
                self.alive()
            }
        }
    }

    /// Send what was stored, if it has to be, although nothing is published behind it.
    #[inline]
    pub(crate) fn push(&self) -> Result<()> {
        match &self.far {
            PartnerMemory::Mapped(_) => Ok(()),
            PartnerMemory::Sent(stores) => self.wake_behind(stores, false),
        }
    }

    /// Whether stores wait for memory of the kernel. Until they are sent nothing more is put, and
    /// nobody sleeps: the partner does not know of it.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        match &self.far {
            PartnerMemory::Mapped(_) => false,
            PartnerMemory::Sent(stores) => stores.is_held_up(),
        }
    }

    /// Fail once the pair has ended, and as long as stores wait for memory of the kernel: the partner
    /// cannot be asked for anything.
    pub(crate) fn must_move(&self) -> Result<()> {
        self.alive()?;
        self.push()?;
        match self.is_held_up() {
            true => Err(mp_fabric::Error::NoMemory.into()),
            false => Ok(()),
        }
    }

    /// What it shall find is there: a signal that fails for want of memory is tried again.
    #[cold]
    fn signal(&self) -> Result<()> {
        self.owed.store(false, Ordering::Relaxed);
        match self.session.signal() {
            Err(mp_fabric::Error::NoMemory) => {
                self.owed.store(true, Ordering::Relaxed);
                Ok(())
            }
            other => Ok(other?),
        }
    }

    #[inline]
    pub(crate) fn owes_signal(&self) -> bool {
        self.owed.load(Ordering::Relaxed)
    }
}

/// A pair whose partner has not announced its end of it yet.
#[derive(Debug)]
pub struct Opening<D: Device = CharDevice> {
    shared: Arc<Shared<D>>,
    own: Layout,
    streams: u16,
}

/// How far an opening is.
#[allow(clippy::large_enum_variant)] // moved once in the life of a pair
#[derive(Debug)]
pub enum Opened<D: Device = CharDevice> {
    /// Both ends are there.
    Ready(Sending<D>, Receiving<D>),
    /// The partner has not announced its end. Its announcement comes with a signal.
    NotYet(Opening<D>),
}

impl<D: Device> Opening<D> {
    /// Divide the own window of a session that is paired, and announce that to the partner.
    /// Never waits.
    ///
    /// # Errors
    /// [`Error::Layout`]; [`Error::Fabric`]: what mapping and signalling fail with.
    pub fn new(session: impl Into<Arc<Session<D>>>, shape: &Shape) -> Result<Self> {
        let session = session.into();
        let near = Near(session.map_local()?.ok_or(Error::Layout)?);
        let far = session.remote()?.ok_or(Error::Layout)?;
        let wants = Wants {
            lines: shape.lines,
            free: shape.partner_slots,
            slots: shape.slots,
            slot_size: shape.slot_size,
            streams: u32::from(shape.streams),
        };
        let own = Layout::plan(near.size() as u64, &wants)?;
        let shared = Shared {
            session,
            near: Arc::new(near),
            far,
            ended: OnceLock::new(),
            told: AtomicBool::new(false),
            owed: AtomicBool::new(false),
        };
        let told = Hello::new(own).tell(&shared.far());
        told.map_err(|_| Error::Layout)?;
        shared.push()?;
        if shared.is_held_up() {
            return Err(mp_fabric::Error::NoMemory.into());
        }
        match shared.session.signal() {
            // It has announced its end, seen this one, and closed: there may be messages.
            Ok(()) | Err(mp_fabric::Error::PartnerGone) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Opening {
            shared: Arc::new(shared),
            own,
            streams: shape.streams,
        })
    }

    /// The session, for its state and its events.
    pub fn session(&self) -> &Arc<Session<D>> {
        &self.shared.session
    }

    /// Look whether the partner has announced its end. Each slot is given to a stream then, one
    /// stream after the other. Never waits.
    ///
    /// # Errors
    /// [`Error::Broken`]: the partner announces what cannot be, or speaks another version;
    /// [`Error::Fabric`]: what waking it fails with.
    pub fn look(self) -> Result<Opened<D>> {
        let shared = &self.shared;
        let size = shared.far().size() as u64;
        let hello = Hello::look(&*shared.near, size).map_err(Error::from);
        let Some((hello, _)) = shared.judge(hello)? else {
            return Ok(Opened::NotYet(self));
        };
        let sending = Sending::new(shared.clone(), self.own, hello.layout)?;
        let receiving = Receiving::new(shared.clone(), self.own, hello.layout, self.streams)?;
        Ok(Opened::Ready(sending, receiving))
    }
}

/// Wait until a session is paired and the partner has announced its end of the pair. Another owner
/// of the session ends the wait by closing it.
///
/// # Errors
/// [`Error::Fabric`]: what waiting fails with, [`TimedOut`](mp_fabric::Error::TimedOut) among
/// it; else as [`Opening::new`] and [`Opening::look`].
pub fn open<D: Device>(
    session: impl Into<Arc<Session<D>>>,
    shape: &Shape,
    deadline: Deadline,
) -> Result<(Sending<D>, Receiving<D>)> {
    let session = session.into();
    session.wait(EventMask::PAIRED, deadline)?;
    let mut opening = Opening::new(session, shape)?;
    loop {
        opening = match opening.look()? {
            Opened::Ready(sending, receiving) => return Ok((sending, receiving)),
            Opened::NotYet(opening) => opening,
        };
        if let Err(gone) = sleep(opening.session(), None, deadline) {
            // What it has announced before it went is there.
            return match opening.look()? {
                Opened::Ready(sending, receiving) => Ok((sending, receiving)),
                Opened::NotYet(_) => Err(gone),
            };
        }
    }
}

/// Sleep until there may be what `park` waits for, which is what [`Sending::arm`] or
/// [`Receiving::arm`] said; without it, until the partner signals. Who has slept looks again.
///
/// # Errors
/// [`Error::Fabric`] with [`TimedOut`](mp_fabric::Error::TimedOut),
/// [`PartnerGone`](mp_fabric::Error::PartnerGone) or
/// [`InterfaceDown`](mp_fabric::Error::InterfaceDown), and other errors of the session.
pub fn sleep<D: Device>(
    session: &Session<D>,
    park: Option<Park>,
    deadline: Deadline,
) -> Result<()> {
    let woken = match park {
        Some(park) => session.park(&of_engine(&park), deadline)?,
        None => Parked::Event(session.wait_one(NEWS, deadline)?),
    };
    match woken {
        Parked::Event(EventMask::CLOSED) => Err(mp_fabric::Error::PartnerGone.into()),
        Parked::Event(EventMask::DOWN) => Err(down()),
        _ => Ok(()),
    }
}

/// What calls fail with once the link is lost.
fn down() -> Error {
    mp_fabric::Error::InterfaceDown(Subject::Unnamed).into()
}
