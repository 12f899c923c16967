// SPDX-License-Identifier: MIT OR Apache-2.0

//! SISCI for programs in Rust: memory that other nodes connect to, interrupts, messages and
//! transfers between the nodes of a fabric.
//!
//! The names are the specification's. A [`Library`] opens virtual devices ([`Desc`]), on which
//! everything else is made. What its functions return as a number of an error is an [`Error`]
//! here. The crate `sisci-ffi` makes the functions of the specification from it.
//!
//! | file | owns |
//! |---|---|
//! | `config`, `desc` | which numbers nodes and adapters have, and which link leads to a node |
//! | `facts` | what is known of the library and of adapters |
//! | `segment`, `remote`, `map` | local segments, connections to remote ones, maps of both |
//! | `sequence` | whether what was written has arrived |
//! | `interrupt` | interrupts, with and without a message |
//! | `dma` | queues of copies |
//! | `users` | which resource cannot be released before which |
//!
//! The objects are the kernel's, and callbacks and waits those of `mp_fabric`. The kernel has no
//! numbers for nodes, and does not know of maps and sequences that a resource cannot be released before: that is this crate's. It is
//! thread safe, and holds no lock while it waits or while a callback runs. Identifiers like
//! SI-WLSEG-1 in the tests are those of `Documentation/conformance/sisci.md`.
//!
//! # Examples
//! ```no_run
//! use sisci::{Library, MapFlags, NewSegment};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let library = Library::load()?;
//! let desc = library.open()?;
//! let segment = desc.create_segment(NewSegment { id: 4711, ..NewSegment::of(8192) })?;
//! segment.prepare(0)?;
//! segment.set_available(0)?;
//! let event = segment.wait(u32::MAX)?;
//! println!("node {} has connected", event.node);
//! let map = segment.map(0, 8192, 0, MapFlags::empty())?;
//! # Ok(())
//! # }
//! ```

/// Copies of an object are the same one.
macro_rules! shared {
    ($($name:ident)*) => {$(
        impl<D: mp_fabric::Device> Clone for $name<D> {
            fn clone(&self) -> Self {
                $name(std::sync::Arc::clone(&self.0))
            }
        }

        impl<D: mp_fabric::Device> std::fmt::Debug for $name<D> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}
use shared;

mod config;
mod desc;
mod dma;
mod error;
mod facts;
mod interrupt;
mod map;
mod remote;
mod segment;
mod sequence;
mod users;

pub use config::{Config, ConfigError, Mistake, Node, CONFIG_PATH, CONFIG_VARIABLE, DEFAULT_NODE};
use desc::Context;
pub use desc::{Adapter, Desc};
pub use dma::{Direction, DmaQueue, DmaSource, DmaState, Piece, VECTOR_MAX};
pub use error::{error_string, Error, Result};
pub use facts::{API, VENDOR};
pub use interrupt::{
    InterruptFlags, LocalDataInterrupt, LocalInterrupt, RemoteDataInterrupt, RemoteInterrupt,
    MESSAGE_MAX,
};
pub use map::{Map, MapFlags};
pub use remote::{RemoteEvent, RemoteSegment};
pub use segment::{LocalEvent, LocalSegment, NewSegment, Reason, Unavailable};
pub use sequence::{CheckFlags, Sequence, SequenceStatus};

pub use mp_fabric::{
    flush_stores, vm_memory, CharDevice, ConnectionState, Device, Errno, Fabric, Interface,
    InterfaceId, PhysicalRange, ProcessMemory, Removal, SegmentState, Triggers,
};

use mp_fabric::{Next, Waits};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tracing::error;

/// Adapters are numbered from 0 to this.
pub const ADAPTERS: u32 = 4;

/// The node id of all that share a segment; it is no node's.
pub const BROADCAST_NODE: u32 = 252;

/// A timeout in milliseconds that never comes.
pub const INFINITE: u32 = u32::MAX;

/// How long a peer may take to answer.
const ANSWER: Duration = Duration::from_secs(1);

/// What a callback wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Never to be called again.
    Cancel,
    /// To be called for every further event.
    Continue,
}

/// What the reactor does after a callback, or after there was nothing to call it for.
fn next(ran: Option<Action>) -> Next {
    match ran {
        None => Next::Wait,
        Some(Action::Continue) => Next::Again,
        Some(Action::Cancel) => Next::End,
    }
}

/// Refuse a wait for events that a callback takes.
fn refuse_callback(waits: &Waits) -> Result<()> {
    match waits.has_callback() {
        true => Err(Error::IllegalOperation),
        false => Ok(()),
    }
}

/// How a virtual device is opened.
type Open<D> = Arc<dyn Fn() -> mp_fabric::Result<Fabric<D>> + Send + Sync>;

/// The library: the configuration, and the way to the driver.
pub struct Library<D: Device = CharDevice> {
    config: Arc<Config>,
    open: Open<D>,
    /// The context of the fabric, as long as there is a virtual device.
    context: Arc<Mutex<Weak<Context<D>>>>,
}

impl Library {
    /// The library with the configuration of this host.
    ///
    /// # Errors
    /// The configuration cannot be read, or has a mistake; as an [`Error`] it is `EINVAL`, or the
    /// system's.
    pub fn load() -> std::result::Result<Self, ConfigError> {
        mp_log::init();
        let config = Config::load().inspect_err(|error| error!("{error}"))?;
        Ok(Library::new(config, Fabric::open))
    }
}

impl<D: Device> Library<D> {
    /// The library on a device of another kind.
    pub fn new(
        config: Config,
        open: impl Fn() -> mp_fabric::Result<Fabric<D>> + Send + Sync + 'static,
    ) -> Self {
        Library {
            config: Arc::new(config),
            open: Arc::new(open),
            context: Arc::default(),
        }
    }

    /// Open a virtual device.
    ///
    /// # Errors
    /// [`Error::Unopened`]: there is no driver, or the user may not open it.
    /// [`Error::InconsistentVersions`]: the driver is of another version.
    pub fn open(&self) -> Result<Desc<D>> {
        let mut slot = self.context();
        if let Some(context) = slot.upgrade() {
            return Ok(Desc::new(context));
        }
        let fabric = (self.open)().map_err(Error::Unopened)?;
        let (version, own) = (fabric.info()?.version, mp_fabric::sys::MP_FABRIC_VERSION);
        if version != own {
            error!("the driver is of version {version}, and this library of {own}");
            return Err(Error::InconsistentVersions);
        }
        let context = Arc::new(Context::new(fabric, Arc::clone(&self.config)));
        *slot = Arc::downgrade(&context);
        Ok(Desc::new(context))
    }

    /// End callbacks: when it returns, none runs or will run, except for the one that calls it.
    pub fn stop(&self) {
        let context = self.context().upgrade();
        if let Some(context) = context {
            context.reactor.stop();
        }
    }

    fn context(&self) -> MutexGuard<'_, Weak<Context<D>>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of nodes and adapters.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

impl<D: Device> Clone for Library<D> {
    fn clone(&self) -> Self {
        Library {
            config: Arc::clone(&self.config),
            open: Arc::clone(&self.open),
            context: Arc::clone(&self.context),
        }
    }
}
