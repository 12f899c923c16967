// SPDX-License-Identifier: MIT OR Apache-2.0

//! Safe access to the fabric's character device: which hosts are reachable, and memory that is
//! shared with a process on one of them.
//!
//! One type per object of the device: a [`Fabric`] is an open file, which owns [`Session`]s, whose
//! windows are mapped as [`Map`]s. An [`Interface`] and a [`Window`] are only information. A window
//! is written by plain stores ([`Map::volatile`]); calls are needed to sleep and to wake.
//!
//! Memory that any number of processes may connect to is a [`Segment`], and its use by one of them
//! a [`Connection`]; connections also lead to what is [`offered`](Fabric::offer) for triggers or
//! messages. A [`Queue`] copies in the background. They are what a kernel has that says so:
//! [`Info::features`].
//!
//! Everything that waits takes a [`Deadline`]: in the past it only looks. Who does not want a
//! thread to sleep has an eventfd per object ([`Session::notify`]) or one descriptor for all of
//! them ([`Events`]), for `epoll` or any asynchronous runtime. Who wants callbacks has a
//! [`Reactor`], and [`Waits`] for objects that have both.
//!
//! What fails is told to the crate `tracing`; with `MP_LOG=debug` in the environment it is
//! printed to standard error.
//!
//! A context belongs to the process that opened it. A forked child finds all its calls refused
//! ([`Error::Foreign`]) and its windows not mapped; it opens its own.
//!
//! This crate knows nothing of the programming interfaces above it, and keeps no state that the
//! kernel has as well.
//!
//! # Examples
//! One host serves a window, and another one writes to it.
//! ```no_run
//! use mp_fabric::{Deadline, EventMask, Fabric};
//! use vm_memory::Bytes;
//!
//! # fn main() -> mp_fabric::Result<()> {
//! let fabric = Fabric::open()?;
//! let interface = fabric.interfaces()?[0];
//! let session = fabric.server(interface, 0xF000_0001).local(0x1000..=0x1000).open()?;
//! session.wait(EventMask::PAIRED, Deadline::NEVER)?;
//! session.wait(EventMask::SIGNAL, Deadline::NEVER)?;
//! if let Some(window) = session.map_local()? {
//!     let first: u32 = window.volatile().read_obj(0).unwrap();
//!     println!("{first}");
//! }
//! # Ok(())
//! # }
//! ```
//! ```no_run
//! # use mp_fabric::Fabric;
//! # use vm_memory::Bytes;
//! # fn main() -> mp_fabric::Result<()> {
//! # let fabric = Fabric::open()?;
//! # let interface = fabric.interfaces()?[0];
//! let session = fabric.client(interface, 0xF000_0001).remote(0x1000..=0x1000).open()?;
//! if let Some(window) = session.map_remote()? {
//!     window.volatile().write_obj(42_u32, 0).unwrap();
//! }
//! session.signal()?;
//! # Ok(())
//! # }
//! ```

mod connection;
mod deadline;
mod device;
mod error;
mod events;
mod grant;
mod handover;
mod interface;
mod map;
mod memory;
mod name;
mod object;
mod park;
mod partner;
mod queue;
mod reactor;
#[cfg(target_pointer_width = "64")]
mod remote;
mod segment;
mod session;
#[cfg(target_pointer_width = "64")]
mod status;
mod status_codes;
#[cfg(target_pointer_width = "64")]
mod stores;
pub mod sys;
pub mod thread;
mod wait;
mod waits;
mod wake;
#[cfg(target_pointer_width = "64")]
mod whole;

pub use connection::{Connection, ConnectionInfo, ConnectionState, Goal};
pub use deadline::Deadline;
pub use device::{Call, CharDevice, Device};
pub use error::{Error, Limit, Result, Subject};
pub use events::{Event, Events, Target};
pub use grant::{Grant, Rights};
pub use handover::{DmaBuf, Handover, Imported};
pub use interface::{Info, Interface, InterfaceId, PciFunction, PciIds, Remote, Window};
pub use map::{flush_stores, Map, Protection, ReadOnly, ReadWrite};
pub use memory::{BarRange, PhysicalRange, ProcessMemory, Vouched};
pub use name::{Key, Name, NAME_MAX};
pub use object::{Notice, Number, Object, Offer, Peer, Received, Removal, Triggers};
pub use park::{Park, Parked, PARK_MAX};
pub use partner::{Partner, PartnerState, RequestId};
pub use queue::{Copy, Queue, QueueInfo, QueueState};
pub use reactor::{Next, Reactor, Registration};
#[cfg(target_pointer_width = "64")]
pub use remote::RemoteMemory;
pub use segment::{Filling, Segment, SegmentInfo, SegmentState, Withdrawal};
pub use session::{
    Access, Location, Role, Session, SessionRequest, SessionState, WindowPlace, SIZE_MAX,
    WINDOW_DATA_MAX,
};
#[cfg(target_pointer_width = "64")]
pub use status::{Status, StatusWord};
#[cfg(target_pointer_width = "64")]
pub use stores::{PartnerMemory, Stores};
pub use wait::EventMask;
pub use waits::{taken, Waits};
pub use wake::Wake;

pub use rustix::io::Errno;
#[cfg(target_pointer_width = "64")]
pub use vm_memory;

use std::{path::Path, sync::Arc};
use tracing::{debug, error};

/// A context of the fabric. Copies share it; it ends with the last of them and of the sessions.
#[derive(Debug)]
pub struct Fabric<D = CharDevice> {
    device: Arc<D>,
}

impl<D> Clone for Fabric<D> {
    fn clone(&self) -> Self {
        Fabric {
            device: Arc::clone(&self.device),
        }
    }
}

impl Fabric {
    /// Open the device at its usual place.
    ///
    /// # Errors
    /// [`Error::NotLoaded`]: the kernel module is not loaded. [`Error::NoPermission`]: the user may
    /// not open the file. Other errors of `open()`.
    pub fn open() -> Result<Self> {
        Self::open_at(Path::new(&device::path()))
    }

    /// Open a device file.
    ///
    /// # Errors
    /// As [`open()`](Self::open).
    pub fn open_at(path: &Path) -> Result<Self> {
        mp_log::init();
        let opened = CharDevice::open(path).map_err(|errno| match errno {
            Errno::NOENT | Errno::NXIO | Errno::NODEV => Error::NotLoaded,
            Errno::ACCESS | Errno::PERM => Error::NoPermission,
            other => other.into(),
        });
        let device = opened.inspect_err(|error| error!("{}: {error}", path.display()))?;
        debug!("{}: opened", path.display());
        Ok(Self::with_device(device))
    }
}

impl<D: Device> Fabric<D> {
    /// A context on a device of another kind.
    pub fn with_device(device: D) -> Self {
        Fabric {
            device: Arc::new(device),
        }
    }

    /// The device, for calls that have no function here.
    pub fn device(&self) -> &D {
        &self.device
    }
}
