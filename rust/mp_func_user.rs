// SPDX-License-Identifier: GPL-2.0-only

//! User services: the character device `/dev/mp_fabric`, and what the services of two
//! hosts tell each other about the sessions of their processes.
//!
//! `uapi/linux/mp_fabric.h` defines the device, `Documentation/uapi` explains it, and
//! [`mp_proto::pairing`] decides who is paired with whom.
//!
//! * [`context`]: open files, what they own, and how they end.
//! * [`calls`]: the calls, from structures to methods and back.
//! * [`session`], [`window`]: what a pair is for its process; memory that is mapped and
//!   taken away. [`access`]: devices that reach it as well.
//! * [`segment`], [`offer`]: what processes offer to peers: memory, events, ports.
//! * [`connection`], [`notices`], [`status`]: the use of what a peer offers, and what
//!   happens to it; [`queue`], [`pipeline`]: copies into it; [`lane`]: where these run;
//!   [`placed`]: copies that its host makes. [`handover`]: both of them, given to other processes.
//! * [`ready`], [`stream`]: events, and everybody who waits for them.
//! * [`link`], [`host`]: the end of a link; all links of the host. [`question`]: what proves
//!   that stores have arrived. [`leaving`]: waits until memory is let go of. [`numbered`]: objects
//!   by their numbers.
//! * [`park`]: processes that sleep until memory changes.
//! * [`desk`], [`sharing`]: what the pairing engine and the sharing engine decide, carried
//!   out.
//! * [`stores`]: stores into windows that no bridge leads to.
//! * [`inbox`], [`outbox`]: messages that wait. [`shortage`]: when they wait for memory.
//! * [`quota`]: what a user may have. [`per_user`]: what each user has of its own at a link, as the
//!   work queue of a [`lane`] and the messages that are [`unsent`].
//!
//! Locks, the outer ones first: the registry's of `mp_transport`; a context's objects;
//! a link's core; a session's state, or a connection's, or the list of segments and then
//! a segment's state and its notices; the access of a session's devices; then those of
//! mappings and of memory, and that of quotas. A process's
//! `mmap_lock` comes before those of mappings only, and nothing is copied from or to a
//! process under any of these. Spin locks are innermost: that of a link's watchers comes
//! before that of an object's events, which comes before the stream's. Under the
//! outbox's, frames are sent. [`placed`] has two of its own behind a connection's state.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    chardev::{
        self,
        Device,
        Options, //
    },
    param, //
};
use mp_proto::fabric;
use mp_transport::{
    frame::FuncId,
    function,
    interface, //
};

#[path = "mp_func_user/access.rs"]
mod access;
#[path = "mp_func_user/answer.rs"]
mod answer;
#[path = "mp_func_user/asked.rs"]
mod asked;
#[path = "mp_func_user/bells.rs"]
mod bells;
#[path = "mp_func_user/calls.rs"]
mod calls;
#[path = "mp_func_user/connection.rs"]
mod connection;
#[path = "mp_func_user/context.rs"]
mod context;
#[path = "mp_func_user/desk.rs"]
mod desk;
#[path = "mp_func_user/handover.rs"]
mod handover;
#[path = "mp_func_user/host.rs"]
mod host;
#[path = "mp_func_user/inbox.rs"]
mod inbox;
#[path = "mp_func_user/lane.rs"]
mod lane;
#[path = "mp_func_user/leaving.rs"]
mod leaving;
#[path = "mp_func_user/link.rs"]
mod link;
#[path = "mp_func_user/notices.rs"]
mod notices;
#[path = "mp_func_user/numbered.rs"]
mod numbered;
#[path = "mp_func_user/offer.rs"]
mod offer;
#[path = "mp_func_user/outbox.rs"]
mod outbox;
#[path = "mp_func_user/park.rs"]
mod park;
#[path = "mp_func_user/per_user.rs"]
mod per_user;
#[path = "mp_func_user/pipeline.rs"]
mod pipeline;
#[path = "mp_func_user/placed.rs"]
mod placed;
#[path = "mp_func_user/question.rs"]
mod question;
#[path = "mp_func_user/queue.rs"]
mod queue;
#[path = "mp_func_user/quota.rs"]
mod quota;
#[path = "mp_func_user/ready.rs"]
mod ready;
#[path = "mp_func_user/segment.rs"]
mod segment;
#[path = "mp_func_user/session.rs"]
mod session;
#[path = "mp_func_user/sharing.rs"]
mod sharing;
#[path = "mp_func_user/shortage.rs"]
mod shortage;
#[path = "mp_func_user/status.rs"]
mod status;
#[path = "mp_func_user/stores.rs"]
mod stores;
#[path = "mp_func_user/stream.rs"]
mod stream;
#[path = "mp_func_user/uapi.rs"]
mod uapi;
#[path = "mp_func_user/unsent.rs"]
mod unsent;
#[path = "mp_func_user/window.rs"]
mod window;

use context::{
    Context,
    Limits,
    Shared, //
};
use host::Links;

/// The function that the services' messages are for.
pub(crate) const FUNC: FuncId = FuncId(fabric::FUNC_ID);

/// The device.
static DEVICE: Device<Context> = Device::new();

/// Who may open it until a udev rule says otherwise: root.
const MODE: u16 = 0o600;

/// Most objects that an open file can be allowed: each may have a status word.
const MOST_OBJECTS: u32 = 1 << 16;

/// The module: gone in this order.
struct UserService {
    _device: chardev::Registration<Context>,
    _watch: interface::Watch,
    _function: function::Registration,
    _counts: Counts,
}

/// What counts for users though its objects have gone.
struct Counts;

impl Drop for Counts {
    fn drop(&mut self) {
        quota::Leased::end_all();
    }
}

impl kernel::Module for UserService {
    fn init(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Called exactly once, before there are contexts.
        unsafe { quota::SHARES.init() };
        // SAFETY: As above.
        unsafe { quota::LEASED.init() };
        handover::start(module);
        let links = Links::new(param!(reconnect_timeout_ms))?;
        let function = function::Registration::new(FUNC, links.clone())
            .inspect_err(|e| pr_err!("cannot register the function service: {:?}\n", e))?;
        let watch = interface::Watch::new(links.clone())?;
        let limits = Limits {
            sessions: param!(sessions).min(MOST_OBJECTS),
            user_sessions: param!(user_sessions),
            objects: param!(objects).min(MOST_OBJECTS),
            user_objects: param!(user_objects),
            user_segments: param!(user_segments),
            user_connections: param!(user_connections),
            user_contexts: param!(user_contexts),
            user_memory: param!(user_memory),
        };
        let shared = Shared::new(links, limits)?;
        let options = Options {
            name: c"mp_fabric",
            node: None,
            mode: MODE,
        };
        let device = DEVICE
            .register(module, options, Arc::new(shared, GFP_KERNEL)?)
            .inspect_err(|e| pr_err!("cannot register the device: {:?}\n", e))?;
        Ok(Self {
            _device: device,
            _watch: watch,
            _function: function,
            _counts: Counts,
        })
    }
}

module! {
    type: UserService,
    name: "mp_func_user",
    authors: ["The pximc-ntb authors"],
    description: "Windows, sessions and events between processes of NTB fabrics",
    license: "GPL",
    params: {
        sessions: u32 {
            default: 1024,
            description: "Most sessions of an open file (default 1024)",
        },
        user_sessions: u32 {
            default: 1024,
            description: "Most sessions of a user (default 1024, of 1536 of a link)",
        },
        objects: u32 {
            default: 1024,
            description: "Most other objects of an open file (default 1024)",
        },
        user_objects: u32 {
            default: 4096,
            description: "Most other objects of a user (default 4096)",
        },
        user_segments: u32 {
            default: 512,
            description: "Most segments among them (default 512, half of all)",
        },
        user_connections: u32 {
            default: 512,
            description: "Most connections among them (default 512, half of a link's)",
        },
        user_contexts: u32 {
            default: 1024,
            description: "Most open files of a user (default 1024)",
        },
        user_memory: u32 {
            default: 100,
            description: "Percent of the memory for windows and segments that a user may have",
        },
        reconnect_timeout_ms: u32 {
            default: 10000,
            description: "Milliseconds after which connections do not wait for a link that is down any more (default 10000)",
        },
    },
}
