// SPDX-License-Identifier: GPL-2.0-only

//! NTB transport service: moves message frames through the memory windows of
//! non-transparent bridges.
//!
//! A client of the kernel's NTB core, for any bridge it drives and any number
//! of peers. It knows no function service, and the layers above it no NTB.
//!
//! * [`host`]: this host over all its bridges: its part, ids and indices.
//! * [`device`]: one bridge: ports, doorbell interrupts, windows.
//! * [`peer_link`]: the life of the link to one peer: bootstrap, epochs,
//!   heartbeat; drives the state machine of `mp_proto::link`.
//! * [`waits`]: what it waits for, for people.
//! * [`upper`]: enters the peer of a live link into the message frame service.
//! * [`channel`]: the data path of one epoch: rings, back-pressure.
//! * [`channel_link`]: what the layer above sees of it, and the NAPI polls.
//! * [`look`]: the second look at a queue that sleeps.
//! * [`dma`]: large copies by a DMA engine, if there is one.
//! * [`inward`]: its copies of received data.
//! * [`kept`]: records that functions keep in the rings.
//! * [`reassembly`]: frames too long for one record of a small ring.
//! * [`local`]: the windows' addresses for other services.
//! * [`mailbox`], [`messages`]: bootstrap by scratchpads or by messages.
//! * [`bell`]: how doorbell bits are shared out.
//! * [`arena`]: the memory of both ends that other services use.
//! * [`further`]: windows beside that of the inbound memory.
//! * [`memory`]: windows as the protocol crate sees memory.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    cpu,
    ntb::client,
    param,
    sync::RcuArc, //
};
use mp_proto::{
    layout::MAX_QUEUES,
    link::{
        Config,
        Role, //
    },
    version::{
        Support,
        WIRE, //
    }, //
};
use mp_transport::transport;

#[path = "pximc_ntb/arena.rs"]
mod arena;
#[path = "pximc_ntb/bell.rs"]
mod bell;
#[path = "pximc_ntb/channel.rs"]
mod channel;
#[path = "pximc_ntb/channel_link.rs"]
mod channel_link;
#[path = "pximc_ntb/device.rs"]
mod device;
#[path = "pximc_ntb/dma.rs"]
mod dma;
#[path = "pximc_ntb/further.rs"]
mod further;
#[path = "pximc_ntb/host.rs"]
mod host;
#[path = "pximc_ntb/inward.rs"]
mod inward;
#[path = "pximc_ntb/kept.rs"]
mod kept;
#[path = "pximc_ntb/local.rs"]
mod local;
#[path = "pximc_ntb/look.rs"]
mod look;
#[path = "pximc_ntb/mailbox.rs"]
mod mailbox;
#[path = "pximc_ntb/memory.rs"]
mod memory;
#[path = "pximc_ntb/messages.rs"]
mod messages;
#[path = "pximc_ntb/peer_link.rs"]
mod peer_link;
#[path = "pximc_ntb/reassembly.rs"]
mod reassembly;
#[path = "pximc_ntb/upper.rs"]
mod upper;
#[path = "pximc_ntb/waits.rs"]
mod waits;

/// Transport id of this service.
const TRANSPORT_ID: u32 = 1;

const NS_PER_US: u64 = 1000;
const NS_PER_MS: u64 = 1_000_000;

/// What a device needs of the module.
struct Context {
    transport: Arc<transport::Registration>,
    host: Arc<host::Host>,
    settings: device::Settings,
}

static CONTEXT: RcuArc<Context> = RcuArc::empty();

/// Whether a device has been offered to this driver.
static PROBED: Atomic<u32> = Atomic::new(0);

/// The module's context, while it is loaded.
fn context() -> Option<Arc<Context>> {
    PROBED.store(1, Relaxed);
    CONTEXT.get()
}

/// Says that all peers are about to go, when the module does.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(context) = CONTEXT.get() {
            context.transport.unload();
        }
    }
}

/// Takes the context away when the module goes.
struct ContextGuard;

impl Drop for ContextGuard {
    fn drop(&mut self) {
        drop(CONTEXT.replace(None));
    }
}

/// The module: the client's registration, and after it what its devices use.
#[pin_data]
struct NtbTransport {
    _leaving: Leaving,
    #[pin]
    _client: client::Registration<device::Driver>,
    _context: ContextGuard,
}

impl kernel::InPlaceModule for NtbTransport {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _context: open()?,
            _leaving: Leaving,
            _client <- client::Registration::new(c"pximc_ntb", module),
            _: {
                if PROBED.load(Relaxed) == 0 {
                    pr_info!(
                        "no NTB device is free: load its driver, or unload another client of it\n"
                    );
                }
            },
        })
    }
}

/// Check the parameters and register the transport.
fn open() -> Result<ContextGuard> {
    let settings = settings()?;
    let host = host::Host::new(role()?)?;
    let transport = Arc::new(
        transport::Registration::new(TRANSPORT_ID, c"ntb")?,
        GFP_KERNEL,
    )?;
    let context = Context {
        transport,
        host,
        settings,
    };
    CONTEXT.replace(Some(Arc::new(context, GFP_KERNEL)?));
    Ok(ContextGuard)
}

/// A parameter that must lie in a range.
///
/// # Errors
///
/// `EINVAL`, with a message that names the parameter and the range.
fn ranged(name: &str, value: u32, min: u32, max: u32) -> Result<u32> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    pr_err!("parameter {}={} is not in {}..{}\n", name, value, min, max);
    Err(EINVAL)
}

/// The part that the parameter says.
fn role() -> Result<Option<Role>> {
    Ok(match ranged("role", u32::from(param!(role)), 0, 2)? {
        0 => None,
        1 => Some(Role::Root),
        _ => Some(Role::Endpoint),
    })
}

/// The module's other parameters, checked.
fn settings() -> Result<device::Settings> {
    let memory = ranged("memory_kib", param!(memory_kib), 64, 1 << 20)?;
    let queues = match ranged("queues", param!(queues), 0, MAX_QUEUES)? {
        // More queues than processors would only make each ring smaller.
        0 => cpu::online().min(MAX_QUEUES),
        queues => queues,
    };
    let beat = ranged("heartbeat_ms", param!(heartbeat_ms), 1, 10_000)?;
    let timeout = param!(timeout_ms);
    let dma = u32::from(param!(dma));
    let threshold = ranged(
        "dma_threshold",
        param!(dma_threshold),
        64,
        channel::MAX_FRAME as u32,
    )?;
    let linger = ranged("busy_poll_us", param!(busy_poll_us), 0, 10_000)?;
    let look = ranged("recheck_us", param!(recheck_us), 0, 10_000)?;
    Ok(device::Settings {
        memory: memory as usize * 1024,
        queues,
        dma_threshold: (ranged("dma", dma, 0, 1)? == 1).then_some(threshold),
        linger_ns: u64::from(linger) * NS_PER_US,
        look_ns: u64::from(look) * NS_PER_US,
        config: Config {
            beat: u64::from(beat) * NS_PER_MS,
            timeout: u64::from(ranged("timeout_ms", timeout, 3 * beat, 60_000)?) * NS_PER_MS,
            ..Config::default()
        },
        support: support()?,
    })
}

/// The wire versions that the parameters leave.
fn support() -> Result<Support> {
    let Support { oldest, newest, .. } = WIRE;
    let at_least = ranged("wire_oldest", param!(wire_oldest).into(), 0, newest.into())?;
    let at_most = match param!(wire_newest) {
        0 => newest,
        most => ranged("wire_newest", most.into(), oldest.into(), newest.into())? as u8,
    };
    WIRE.narrowed(at_least as u8, at_most).ok_or_else(|| {
        pr_err!("parameters wire_oldest and wire_newest leave no version\n");
        EINVAL
    })
}

module! {
    type: NtbTransport,
    name: "pximc_ntb",
    authors: ["The pximc-ntb authors"],
    description: "NTB transport service of the message frame fabric",
    license: "GPL",
    params: {
        role: u8 {
            default: 0,
            description: "0: root processor if it has the lowest port of all its bridges, 1: root processor, 2: endpoint",
        },
        memory_kib: u32 {
            default: 4096,
            description: "most inbound memory for each peer, in KiB; the window limits it further",
        },
        queues: u32 {
            default: 0,
            description: "most data queues for each peer, 1 to 8; 0: one for each processor",
        },
        dma: u8 {
            default: 1,
            description: "1: copy large frames by a DMA engine if there is one, 0: never",
        },
        dma_threshold: u32 {
            default: 16384,
            description: "least bytes of data to be copied by the DMA engine, 64 to 131072",
        },
        busy_poll_us: u32 {
            default: 1000,
            description: "longest time for which an idle processor watches a ring before it sleeps, in microseconds, up to 10000; 0: never",
        },
        recheck_us: u32 {
            default: 50,
            description: "time from going to sleep to a second look at the rings, in microseconds, up to 10000: longer than a write takes through the bridge and one back; 0: no second look",
        },
        heartbeat_ms: u32 {
            default: 50,
            description: "time between two heartbeats, in milliseconds",
        },
        timeout_ms: u32 {
            default: 600,
            description: "silence after which a peer counts as gone, in milliseconds",
        },
        wire_oldest: u8 {
            default: 0,
            description: "oldest wire version to speak; 0: the oldest that this release speaks",
        },
        wire_newest: u8 {
            default: 0,
            description: "newest wire version to speak; 0: the newest that this release speaks",
        },
    },
}
