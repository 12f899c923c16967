// SPDX-License-Identifier: MIT OR Apache-2.0

//! Remote segments: connections to segments of other nodes, or of this one. A connection may be
//! made while the program goes on; the segment has none as long as that takes.

use crate::{
    desc::no_call,
    map::{self, Backing},
    next, refuse_callback,
    users::Users,
    Action, Desc, Error, Map, MapFlags, Reason, Result, ANSWER,
};
use mp_fabric::{
    taken, thread, CharDevice, Connection, ConnectionInfo, ConnectionState, Deadline, Device,
    EventMask, Goal, InterfaceId, Object, StatusWord, Waits,
};
use std::{
    fmt, iter,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    },
};

/// Something that has happened to a remote segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteEvent {
    /// What.
    pub reason: Reason,
    /// What that means for the connection, or why there is none.
    pub status: Result<()>,
}

impl From<Reason> for RemoteEvent {
    fn from(reason: Reason) -> Self {
        RemoteEvent {
            reason,
            status: reason.status(),
        }
    }
}

/// A connection to a segment. Copies are the same one.
pub struct RemoteSegment<D: Device = CharDevice>(Arc<Inner<D>>);

struct Inner<D: Device> {
    desc: Desc<D>,
    /// None until it is connected. Set with the outcome's lock held.
    link: OnceLock<Linked<D>>,
    /// What became of an attempt to connect that the program did not wait for, until it is told.
    outcome: Mutex<Option<RemoteEvent>>,
    node: u32,
    id: u32,
    adapter: u32,
    maps: AtomicUsize,
    /// Those that copy to it, as long as there is a map.
    transfers: Users,
    users: Users,
    waits: Waits,
}

/// A connection, and what is known of it.
struct Linked<D: Device> {
    connection: Connection<D>,
    info: ConnectionInfo,
    loopback: bool,
}

impl<D: Device> Clone for RemoteSegment<D> {
    fn clone(&self) -> Self {
        RemoteSegment(Arc::clone(&self.0))
    }
}

impl<D: Device> fmt::Debug for RemoteSegment<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSegment")
            .field("node", &self.0.node)
            .field("id", &self.0.id)
            .finish_non_exhaustive()
    }
}

/// Connect to something of a node. A node that does not answer is not waited for longer than
/// it may take.
///
/// # Errors
/// [`Error::Timeout`]: not in the time asked for. [`Error::NodeNotResponding`]: not in the time
/// that a node has. Those of [`mp_fabric::Fabric::connect`].
pub(crate) fn connect<D: Device>(
    desc: &Desc<D>,
    interface: InterfaceId,
    goal: Goal,
    milliseconds: u32,
) -> Result<Connection<D>> {
    let wanted = Deadline::after_milliseconds(milliseconds);
    let answer = Deadline::after(ANSWER);
    let connected = desc.fabric().connect(interface, goal, wanted.min(answer));
    connected.map_err(|error| match error.into() {
        Error::Timeout if wanted > answer => Error::NodeNotResponding,
        other => no_call(other),
    })
}

impl<D: Device> Desc<D> {
    /// Connect to a segment that a node has made available.
    ///
    /// # Errors
    /// In this order: those of the adapter and of the node; [`Error::NoLinkAccess`],
    /// [`Error::NoRemoteLinkAccess`], [`Error::NoSuchSegment`], [`Error::ConnectionRefused`],
    /// [`Error::HwNoSpace`], [`Error::Timeout`], [`Error::NodeNotResponding`].
    pub fn connect_segment(
        &self,
        node: u32,
        id: u32,
        adapter: u32,
        milliseconds: u32,
    ) -> Result<RemoteSegment<D>> {
        let segment = self.remote(node, id, adapter)?;
        let linked = self.link(node, id, adapter, milliseconds)?;
        segment.0.linked(linked, None);
        Ok(segment)
    }

    /// Begin to connect to a segment, and do not wait: an event tells the outcome, which is
    /// [`Reason::Operational`], or [`Reason::Lost`] with the error.
    ///
    /// # Errors
    /// [`Error::System`]: no thread for that.
    pub fn begin_connect_segment(
        &self,
        node: u32,
        id: u32,
        adapter: u32,
        milliseconds: u32,
    ) -> Result<RemoteSegment<D>> {
        let segment = self.remote(node, id, adapter)?;
        let inner = Arc::downgrade(&segment.0);
        let desc = self.clone();
        let connecting = move || {
            let linked = desc.link(node, id, adapter, milliseconds);
            // If the segment is gone, so is the connection.
            if let Some(inner) = inner.upgrade() {
                inner.settle(linked);
            }
        };
        thread::spawn("sisci-connect", connecting)?;
        Ok(segment)
    }

    /// A segment that is not connected.
    fn remote(&self, node: u32, id: u32, adapter: u32) -> Result<RemoteSegment<D>> {
        Ok(RemoteSegment(Arc::new(Inner {
            desc: self.clone(),
            link: OnceLock::new(),
            outcome: Mutex::new(None),
            node,
            id,
            adapter,
            maps: AtomicUsize::new(0),
            transfers: Users::default(),
            users: Users::below(self.enter()?),
            waits: Waits::default(),
        })))
    }

    fn link(&self, node: u32, id: u32, adapter: u32, milliseconds: u32) -> Result<Linked<D>> {
        let interface = self.route(adapter, node)?;
        let connected = connect(self, interface, Goal::Segment(id.into()), milliseconds);
        let connection = match connected {
            Err(Error::HwNoSpace) => self.connect_placed(interface, id, milliseconds),
            connected => connected,
        }?;
        Ok(Linked {
            info: connection.info()?,
            connection,
            loopback: self.fabric().interface(interface)?.loopback,
        })
    }
}

impl<D: Device> Desc<D> {
    /// Connect to a segment that no window leads to: the drivers make all copies.
    ///
    /// # Errors
    /// [`Error::HwNoSpace`]: one of the drivers does not do that.
    fn connect_placed(
        &self,
        interface: InterfaceId,
        id: u32,
        milliseconds: u32,
    ) -> Result<Connection<D>> {
        if !self.has(mp_fabric::sys::MP_FEATURE_PLACED)? {
            return Err(Error::HwNoSpace);
        }
        let connected = connect(
            self,
            interface,
            Goal::PlacedSegment(id.into()),
            milliseconds,
        );
        connected.map_err(|error| match error {
            Error::NotSupported => Error::HwNoSpace,
            other => other,
        })
    }
}

impl<D: Device> Inner<D> {
    fn outcome(&self) -> MutexGuard<'_, Option<RemoteEvent>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connect it.
    fn linked(&self, linked: Linked<D>, event: Option<RemoteEvent>) {
        let mut outcome = self.outcome();
        // Nobody else connects it.
        let _ = self.link.set(linked);
        *outcome = event;
    }

    /// Tell what waits, and the callback, of the connection's events.
    fn attach(&self) -> Result<()> {
        let object = self.objects().next();
        object.map_or(Ok(()), |object| {
            Ok(self.waits.attach(object, EventMask::NOTICE)?)
        })
    }

    /// What there is to learn of events from. Looks when it is asked, and not before: who waits
    /// has either been seen by who connects, or sees the connection.
    fn objects(&self) -> impl Iterator<Item = &Object<D>> {
        let look = || {
            drop(self.outcome());
            self.link.get()
        };
        let linked = iter::once_with(look).flatten();
        linked.map(|linked| &*linked.connection)
    }

    /// Tell what became of an attempt to connect.
    fn settle(&self, linked: Result<Linked<D>>) {
        let failed = |error| RemoteEvent {
            reason: Reason::Lost,
            status: Err(error),
        };
        match linked {
            Ok(linked) => {
                self.linked(linked, Some(Reason::Operational.into()));
                if let Err(error) = self.attach() {
                    *self.outcome() = Some(failed(error));
                }
            }
            Err(error) => *self.outcome() = Some(failed(error)),
        }
        self.waits.look();
    }
}

impl<D: Device> Inner<D> {
    fn next(&self) -> Result<Option<RemoteEvent>> {
        if let Some(event) = self.outcome().take() {
            return Ok(Some(event));
        }
        let Some(linked) = self.link.get() else {
            return Ok(None);
        };
        let notice = taken(linked.connection.notice(Deadline::PAST))?;
        Ok(notice.map(|notice| Reason::from(notice).into()))
    }
}

impl<D: Device> RemoteSegment<D> {
    /// The connection.
    ///
    /// # Errors
    /// [`Error::NotConnected`]: there is none yet, or there could not be one.
    fn linked(&self) -> Result<&Linked<D>> {
        self.0.link.get().ok_or(Error::NotConnected)
    }

    pub(crate) fn connection(&self) -> Result<&Connection<D>> {
        Ok(&self.linked()?.connection)
    }

    pub(crate) fn users(&self) -> &Users {
        &self.0.users
    }

    /// How many maps there are.
    pub(crate) fn maps(&self) -> &AtomicUsize {
        &self.0.maps
    }

    pub(crate) fn transfers(&self) -> &Users {
        &self.0.transfers
    }

    /// Whether one map is left, and a transfer relies on it (SI-UNMAP-2).
    pub(crate) fn needs_its_map(&self) -> bool {
        self.0.maps.load(Ordering::Acquire) == 1 && self.0.transfers.are_there()
    }

    /// Whether there are maps of it.
    pub fn is_mapped(&self) -> bool {
        self.0.maps.load(Ordering::Acquire) > 0
    }

    /// The physical address of its first byte in the adapter's window, for whoever may know it;
    /// none if it leads to nobody (`SI-QUERY-11`).
    pub fn physical_address(&self) -> Option<u64> {
        let size = self.size();
        self.connection().ok()?.address(0, size as u64).ok()
    }

    pub(crate) fn interface(&self) -> Result<InterfaceId> {
        Ok(self.linked()?.info.interface)
    }

    /// The virtual device that it was made on.
    pub fn desc(&self) -> &Desc<D> {
        &self.0.desc
    }

    /// Whether no window leads there: it is not mapped, and transfers need no map.
    pub fn is_placed(&self) -> bool {
        let linked = self.linked();
        linked.is_ok_and(|linked| linked.info.state.contains(ConnectionState::PLACED))
    }

    /// Whether it is a segment of this host.
    pub fn is_loopback(&self) -> bool {
        self.linked().is_ok_and(|linked| linked.loopback)
    }

    /// Whether an adapter leads there. To this host itself all do.
    pub(crate) fn is_over(&self, adapter: u32) -> bool {
        self.0.adapter == adapter || self.is_loopback()
    }

    /// Its bytes; 0 as long as it is not connected.
    pub fn size(&self) -> usize {
        let bytes = self.linked().map_or(0, |linked| linked.info.len);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// The node that has it.
    pub fn node(&self) -> u32 {
        self.0.node
    }

    /// The state and how often it has ceased to be operational, without a call if the driver has
    /// words for that.
    ///
    /// # Errors
    /// Those of mapping the words; [`Error::NotConnected`].
    pub(crate) fn word(&self) -> Result<StatusWord> {
        let status = self.0.desc.status()?;
        let at = self.linked()?.info.status;
        match status.and_then(|status| status.word(at)) {
            Some(word) => Ok(word),
            None => Ok(StatusWord(u64::from(self.state()?.bits()))),
        }
    }

    /// What the connection is good for.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: it has been disconnected. [`Error::NotConnected`].
    pub fn state(&self) -> Result<ConnectionState> {
        let info = self.linked()?.connection.info();
        Ok(info.map_err(|_| Error::IllegalParameter)?.state)
    }

    /// Whether what is written arrives at this moment.
    pub fn is_operational(&self) -> bool {
        let state = self.state();
        state.is_ok_and(|state| state.contains(ConnectionState::OPERATIONAL))
    }

    /// Disconnect. The value is of no use afterwards.
    ///
    /// # Errors
    /// [`Error::Busy`]: maps or transfers use it.
    pub fn disconnect(&self) -> Result<()> {
        self.0.desc.settle_queues();
        self.0.users.release(|| {
            let closed = self.linked().map(|linked| linked.connection.close());
            closed
                .unwrap_or(Ok(()))
                .map_err(|_| Error::IllegalParameter)
        })?;
        self.0.waits.cancel();
        Ok(())
    }

    /// Let a callback run for its events, also for those that have happened already.
    ///
    /// # Errors
    /// [`Error::System`]: no thread for callbacks.
    pub fn set_callback(
        &self,
        mut callback: impl FnMut(RemoteEvent) -> Action + Send + 'static,
    ) -> Result<()> {
        let inner = Arc::downgrade(&self.0);
        let mut run = move || {
            let inner = inner.upgrade()?;
            let event = inner.next().ok()??;
            Some(callback(event))
        };
        let Inner { desc, waits, .. } = &*self.0;
        let (objects, run) = (self.0.objects(), move || next(run()));
        Ok(waits.call(&desc.context.reactor, objects, EventMask::NOTICE, run)?)
    }

    /// Wait so many milliseconds for the next event.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: there is a callback. [`Error::Timeout`].
    /// [`Error::Cancelled`]: it has been disconnected, or a signal has come.
    pub fn wait(&self, milliseconds: u32) -> Result<RemoteEvent> {
        refuse_callback(&self.0.waits)?;
        let objects = self.0.objects();
        let deadline = Deadline::after_milliseconds(milliseconds);
        let waits = &self.0.waits;
        waits.wait(objects, EventMask::NOTICE, deadline, || self.0.next())
    }

    /// Map a part of it, at an address that is tried first or anywhere.
    ///
    /// # Errors
    /// In this order: [`Error::SizeAlignment`]: no bytes. [`Error::OutOfRange`];
    /// [`Error::OffsetAlignment`]: the address does not fit the offset.
    /// [`Error::NotConnected`]: the connection is not operational, or there is none yet.
    /// [`Error::HwNoSpace`]: no window leads there. [`Error::NoSpace`].
    pub fn map(
        &self,
        offset: usize,
        size: usize,
        address: usize,
        flags: MapFlags,
    ) -> Result<Map<D>> {
        let range = map::Range { offset, size };
        map::new(Backing::Remote(self.clone()), range, address, flags)
    }
}

impl<D: Device> Drop for Inner<D> {
    fn drop(&mut self) {
        self.waits.cancel();
    }
}
