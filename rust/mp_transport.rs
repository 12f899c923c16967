// SPDX-License-Identifier: GPL-2.0-only

//! Message frame service of the fabric.
//!
//! The hub between *function services*, which use frames (virtual Ethernet,
//! user-space objects), and *transport services*, which move them to peers
//! (`pximc_ntb`, loopback). It owns the registries of peers, functions and
//! transports, fills in and checks the message header, dispatches what
//! arrives, duplicates broadcasts and keeps the statistics. It knows neither
//! rings nor the NTB API (rules `IDT-*` of the IDT programming guide).
//!
//! * [`frame`]: what is sent ([`frame::Frame`]) and what is received ([`frame::RxFrame`]).
//! * [`kept`]: received frames that a function owns for longer; [`copy`]: how they are
//!   copied.
//! * [`peer`]: the hosts that can be reached, and the [`peer::Link`] each is reached by.
//! * [`function`], [`transport`]: the two traits and their registration.
//! * [`service`]: sending by peer id, and the entry point for what arrives.
//! * [`memory`]: memory of both ends of a link, beside frames.
//! * [`interface`]: the local ends of links.
//! * [`local`]: addresses of windows, and copies by DMA.
//! * `capi`: all of this for modules in C, as `include/mp/mp.h` declares it.
//! * [`loopback`]: the local host as a peer of itself.
//! * [`forward`], [`via`]: peers that another one forwards to, seen from the one in
//!   the middle and from the ends.
//! * [`routed`]: their interfaces, and the memory that they are sent data for.
//! * [`management`]: what the services of two hosts tell each other; [`letters`]: messages that wait
//!   to be read; [`questions`]: what one is asked for.
//! * [`netlink`]: what programs are told; [`details`]: what transports know of links.
//!
//! Data paths run in softirq or process context and take no lock of the
//! service; registration and peer events run in process context under one
//! mutex.

use kernel::prelude::*;
use mp_kernel::{
    notifier::{
        ModuleGoes,
        Notifier, //
    },
    param, //
};

#[path = "mp_transport/capi.rs"]
mod capi;
#[path = "mp_transport/copied.rs"]
mod copied;
#[path = "mp_transport/copy.rs"]
pub mod copy;
#[path = "mp_transport/details.rs"]
pub mod details;
#[path = "mp_transport/forward.rs"]
mod forward;
#[path = "mp_transport/frame.rs"]
pub mod frame;
#[path = "mp_transport/function.rs"]
pub mod function;
#[path = "mp_transport/interface.rs"]
pub mod interface;
#[path = "mp_transport/kept.rs"]
pub mod kept;
#[path = "mp_transport/letters.rs"]
mod letters;
#[path = "mp_transport/local.rs"]
pub mod local;
#[path = "mp_transport/loopback.rs"]
pub mod loopback;
#[path = "mp_transport/management.rs"]
pub mod management;
#[path = "mp_transport/memory.rs"]
pub mod memory;
#[path = "mp_transport/netlink.rs"]
mod netlink;
#[path = "mp_transport/peer.rs"]
pub mod peer;
#[path = "mp_transport/questions.rs"]
pub mod questions;
#[path = "mp_transport/routed.rs"]
mod routed;
#[path = "mp_transport/service.rs"]
pub mod service;
#[path = "mp_transport/stats.rs"]
pub mod stats;
#[path = "mp_transport/sysfs.rs"]
mod sysfs;
#[path = "mp_transport/transport.rs"]
pub mod transport;
#[path = "mp_transport/via.rs"]
mod via;

/// The module: the open registry, the loopback peer and the way for programs.
struct MessageFrameService {
    netlink: Option<netlink::Registration>,
    loopback: Option<loopback::Loopback>,
    /// Behind the loopback, which uses it.
    commons: memory::commons::Open,
    /// Modules may go while frames of theirs are under way.
    _watch: Notifier<ModuleGoes, capi::Watch>,
}

impl kernel::Module for MessageFrameService {
    fn init(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Called exactly once, before anything can use the registry.
        unsafe { service::REGISTRY.init() };
        // SAFETY: As above.
        unsafe { local::CHANGES.init() };
        let watch = Notifier::new(capi::Watch::new()?)?;
        let commons = memory::commons::Commons::open(commons_memory()?)?;
        service::start()?;
        // From here on an error drops the module, which stops the service again.
        let mut this = Self {
            netlink: None,
            loopback: None,
            commons,
            _watch: watch,
        };
        let commons = this.commons.commons();
        this.loopback = Some(loopback::Loopback::new(loopback_memory()?, commons)?);
        this.netlink = Some(netlink::start(module)?);
        Ok(this)
    }
}

/// A parameter that must lie in a range.
///
/// # Errors
///
/// `EINVAL`, with a message that names the parameter and the range.
fn ranged(name: &str, value: u32, min: u32, max: u32) -> Result<usize> {
    if (min..=max).contains(&value) {
        return Ok(value as usize);
    }
    pr_err!("parameter {}={} is not in {}..{}\n", name, value, min, max);
    Err(EINVAL)
}

/// Most bytes of memory of this host as a peer of itself, as the parameter says.
///
/// # Errors
///
/// As [`ranged`].
fn loopback_memory() -> Result<usize> {
    Ok(ranged("loopback_kib", param!(loopback_kib), 64, 1 << 20)? * 1024)
}

/// Most bytes of the commons, as the parameter says.
///
/// # Errors
///
/// As [`ranged`].
fn commons_memory() -> Result<usize> {
    Ok(ranged("commons_mib", param!(commons_mib), 0, 1 << 10)? << 20)
}

impl Drop for MessageFrameService {
    fn drop(&mut self) {
        self.netlink = None;
        self.loopback = None;
        service::stop();
    }
}

module! {
    type: MessageFrameService,
    name: "mp_transport",
    authors: ["The pximc-ntb authors"],
    description: "Message frame service for NTB fabrics",
    license: "GPL",
    params: {
        commons_mib: u32 {
            default: 4,
            description: "most memory of this host that many peers reach at once, in MiB, up to 1024, rounded down to a power of two; taken when it is used; 0: none",
        },
        loopback_kib: u32 {
            default: 16384,
            description: "most memory of this host as a peer of itself, and of private segments, in KiB, 64 to 1048576; taken when it is used",
        },
    },
}
