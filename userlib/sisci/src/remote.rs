// SPDX-License-Identifier: GPL-2.0

//! Remote segments: connections to segments of other nodes, or of this one.

use crate::{
    deadline,
    desc::no_call,
    map::{self, Backing},
    users::{User, Users},
    wait::{next_notice, Waits},
    Action, Desc, Error, Map, MapFlags, Reason, Result, ANSWER,
};
use mp_fabric::{
    Connection, ConnectionInfo, ConnectionState, Deadline, Device, EventMask, Goal, InterfaceId,
    StatusWord,
};
use std::{
    fmt,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
};

/// Something that has happened to a remote segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteEvent {
    /// What.
    pub reason: Reason,
}

/// A callback of a remote segment.
pub(crate) type Callback = Box<dyn FnMut(RemoteEvent) -> Action + Send>;

/// A connection to a segment. Copies are the same one.
pub struct RemoteSegment<D: Device>(Arc<Inner<D>>);

struct Inner<D: Device> {
    desc: Desc<D>,
    connection: Connection<D>,
    info: ConnectionInfo,
    loopback: bool,
    node: u32,
    id: u32,
    maps: AtomicUsize,
    users: Users,
    waits: Waits,
    _user: User,
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

/// Connects to something of a node. A node that does not answer is not waited for longer than
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
    let wanted = deadline(milliseconds);
    let answer = Deadline::after(ANSWER);
    let connected = desc.fabric().connect(interface, goal, wanted.min(answer));
    connected.map_err(|error| match error.into() {
        Error::Timeout if wanted > answer => Error::NodeNotResponding,
        other => no_call(other),
    })
}

impl<D: Device> Desc<D> {
    /// Connects to a segment that a node has made available, with a callback for events or
    /// without.
    ///
    /// # Errors
    /// In this order: those of the adapter and of the node; [`Error::NoLinkAccess`],
    /// [`Error::NoRemoteLinkAccess`], [`Error::NoSuchSegment`], [`Error::ConnectionRefused`],
    /// [`Error::HwNoSpace`], [`Error::Timeout`], [`Error::NodeNotResponding`];
    /// [`Error::System`]: no thread for callbacks.
    pub fn connect_segment(
        &self,
        node: u32,
        id: u32,
        adapter: u32,
        milliseconds: u32,
        callback: Option<Callback>,
    ) -> Result<RemoteSegment<D>> {
        let user = self.enter()?;
        let interface = self.route(adapter, node)?;
        let connection = connect(self, interface, Goal::Segment(id), milliseconds)?;
        let info = connection.info()?;
        let loopback = self.fabric().interface(interface)?.loopback;
        let segment = RemoteSegment(Arc::new(Inner {
            desc: self.clone(),
            connection,
            info,
            loopback,
            node,
            id,
            maps: AtomicUsize::new(0),
            users: Users::default(),
            waits: Waits::default(),
            _user: user,
        }));
        if let Some(mut callback) = callback {
            let inner = Arc::downgrade(&segment.0);
            let object = std::iter::once(&*segment.0.connection);
            let run = move || {
                let inner = inner.upgrade()?;
                let event = inner.next().ok()??;
                Some(callback(event))
            };
            segment.0.waits.arm(self, object, EventMask::NOTICE, run)?;
        }
        Ok(segment)
    }
}

impl<D: Device> Inner<D> {
    fn next(&self) -> Result<Option<RemoteEvent>> {
        let notice = next_notice(&self.connection)?;
        Ok(notice.map(|(notice, _)| RemoteEvent {
            reason: notice.into(),
        }))
    }
}

impl<D: Device> RemoteSegment<D> {
    pub(crate) fn connection(&self) -> &Connection<D> {
        &self.0.connection
    }

    pub(crate) fn users(&self) -> &Users {
        &self.0.users
    }

    /// How many maps there are.
    pub(crate) fn maps(&self) -> &AtomicUsize {
        &self.0.maps
    }

    /// Whether there are maps of it.
    pub fn is_mapped(&self) -> bool {
        self.0.maps.load(Ordering::Acquire) > 0
    }

    pub(crate) fn interface(&self) -> InterfaceId {
        self.0.info.interface
    }

    /// The virtual device that it was made on.
    pub fn desc(&self) -> &Desc<D> {
        &self.0.desc
    }

    /// Whether it is a segment of this host.
    pub fn is_loopback(&self) -> bool {
        self.0.loopback
    }

    /// Its bytes.
    pub fn size(&self) -> usize {
        usize::try_from(self.0.info.len).unwrap_or(usize::MAX)
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
    /// Those of mapping the words.
    pub(crate) fn word(&self) -> Result<StatusWord> {
        let status = self.0.desc.status()?;
        match status.and_then(|status| status.word(self.0.info.status)) {
            Some(word) => Ok(word),
            None => Ok(StatusWord(u64::from(self.state()?.bits()))),
        }
    }

    /// What the connection is good for.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: it has been disconnected.
    pub fn state(&self) -> Result<ConnectionState> {
        let info = self.0.connection.info();
        Ok(info.map_err(|_| Error::IllegalParameter)?.state)
    }

    /// Whether what is written arrives at this moment.
    pub fn is_operational(&self) -> bool {
        let state = self.state();
        state.is_ok_and(|state| state.contains(ConnectionState::OPERATIONAL))
    }

    /// Disconnects. The value is of no use afterwards.
    ///
    /// # Errors
    /// [`Error::Busy`]: maps or transfers use it.
    pub fn disconnect(&self) -> Result<()> {
        self.0.desc.settle_queues();
        self.0.users.release(|| {
            let closed = self.0.connection.close();
            closed.map_err(|_| Error::IllegalParameter)
        })?;
        self.0.waits.end();
        Ok(())
    }

    /// Waits so many milliseconds for the next event.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`]: there is a callback. [`Error::Timeout`].
    /// [`Error::Cancelled`]: it has been disconnected, or a signal has come.
    pub fn wait(&self, milliseconds: u32) -> Result<RemoteEvent> {
        let object = std::iter::once(&*self.0.connection);
        let deadline = deadline(milliseconds);
        let waits = &self.0.waits;
        waits.wait(object, EventMask::NOTICE, deadline, || self.0.next())
    }

    /// Maps a part of it, at an address that is tried first or anywhere.
    ///
    /// # Errors
    /// In this order: [`Error::SizeAlignment`]: no bytes. [`Error::OutOfRange`];
    /// [`Error::OffsetAlignment`]: the address does not fit the offset.
    /// [`Error::NotConnected`]: the connection is not operational. [`Error::NoSpace`].
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
        self.waits.end();
    }
}
