// SPDX-License-Identifier: GPL-2.0-only

//! One NTB device: its ports, its doorbells, and the links to its peers.

use crate::{
    bell::{
        Bell,
        Group, //
    },
    channel_link::ChannelLink,
    host::Host,
    memory::LocalMemory,
    messages::Messages,
    peer_link::PeerLink,
    Context, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    }, //
};
use mp_kernel::{
    notifier::{
        Listener,
        ModuleGoes,
        Notifier, //
    },
    ntb::{
        self,
        EventRegistration,
        Events,
        NtbDev,
        PeerWindow, //
    },
    sync::RcuArc,
    worker::{new_worker, Worker}, //
};
use mp_proto::{
    layout::MIN_LEN,
    link::{
        Config,
        Identity,
        Role,
        FEATURE_OTHER_ROOT, //
    },
    mailbox::ALIGN,
    version::Support,
    wire::PeerId, //
};
use mp_transport::transport::Registration as Transport;

/// Number of the next bridge that is bound.
static NEXT_BRIDGE: Atomic<u32> = Atomic::new(0);

/// What the module's parameters say, checked.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// Most bytes of inbound memory for each peer.
    pub(crate) memory: usize,
    /// Data queues for each peer.
    pub(crate) queues: u32,
    /// Least data bytes of a record to be copied by a DMA engine; `None`: never.
    pub(crate) dma_threshold: Option<u32>,
    /// For how many nanoseconds, at most, an idle processor watches a ring.
    pub(crate) linger_ns: u64,
    /// Nanoseconds from going to sleep to a second look at the rings; zero: none.
    pub(crate) look_ns: u64,
    /// Times of the links.
    pub(crate) config: Config,
    /// Wire versions to speak.
    pub(crate) support: Support,
}

/// What the link to one peer shows to interrupts.
struct Slot {
    worker: RcuArc<Worker<PeerLink>>,
    active: RcuArc<ChannelLink>,
    /// Whether the peer is a root processor that this host does not obey.
    refuses: Atomic<bool>,
}

/// What the device's links and its interrupts share.
pub(crate) struct Shared {
    ntb: ARef<NtbDev>,
    transport: Arc<Transport>,
    settings: Settings,
    host: Arc<Host>,
    /// The indices for its peers, if this host is the root processor.
    indices: KVec<u32>,
    /// Number of the bridge among those of this host.
    bridge: u32,
    /// Logical port number of this host.
    logical: u32,
    group: Group,
    messages: Pin<KBox<Messages>>,
    slots: KVec<Slot>,
    /// Whether a doorbell of this host has ever interrupted it.
    has_been_rung: Atomic<bool>,
}

impl Shared {
    fn new(ntb: &NtbDev, context: &Context) -> Result<Self> {
        let peers = ntb.peer_port_count();
        let logical = logical_port(ntb, context.host.wanted())?;
        let group = Group::new(ntb.db_valid_mask(), peers + 1, logical).inspect_err(|_| {
            dev_err!(ntb, "fewer doorbell bits than ports\n");
        })?;
        let mut slots = KVec::new();
        for _ in 0..peers {
            let slot = Slot {
                worker: RcuArc::empty(),
                active: RcuArc::empty(),
                refuses: Atomic::new(false),
            };
            slots.push(slot, GFP_KERNEL)?;
        }
        Ok(Self {
            ntb: ntb.into(),
            transport: context.transport.clone(),
            settings: context.settings,
            host: context.host.clone(),
            indices: context.host.take_indices(peers)?,
            bridge: NEXT_BRIDGE.fetch_add(1, Relaxed),
            logical,
            group,
            messages: Messages::new(peers)?,
            slots,
            has_been_rung: Atomic::new(false),
        })
    }

    /// The device.
    pub(crate) fn ntb(&self) -> &NtbDev {
        &self.ntb
    }

    /// The messages that have arrived.
    pub(crate) fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The registered transport.
    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The settings.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// This host, over all devices.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// See [`Link::bridge`](mp_transport::peer::Link::bridge).
    pub(crate) fn bridge(&self) -> u32 {
        self.bridge
    }

    /// Note whether peer `pidx` is a root processor that this host does not obey.
    pub(crate) fn refuse(&self, pidx: u32, refuses: bool) {
        if let Some(slot) = self.slots.get(pidx as usize) {
            slot.refuses.store(refuses, Relaxed);
        }
    }

    /// Whether the NTB has a link to peer `pidx`.
    pub(crate) fn is_link_up(&self, pidx: u32) -> bool {
        self.ntb.link_is_up() & (1 << pidx) != 0
    }

    /// Logical port number of this host.
    pub(crate) fn logical_port(&self) -> u32 {
        self.logical
    }

    /// Logical port number of peer `pidx`.
    pub(crate) fn peer_logical_port(&self, pidx: u32) -> u32 {
        pidx + u32::from(pidx >= self.logical)
    }

    /// The index of this host among the peers of its peer `pidx`.
    pub(crate) fn index_at(&self, pidx: u32) -> u32 {
        self.logical - u32::from(self.logical > self.peer_logical_port(pidx))
    }

    /// The doorbell of peer `pidx`.
    pub(crate) fn bell(&self, pidx: u32) -> Bell {
        Bell {
            ntb: self.ntb.clone(),
            group: self.group.of_port(self.peer_logical_port(pidx)),
        }
    }

    /// The doorbells of this host.
    pub(crate) fn own_bell(&self) -> Bell {
        Bell {
            ntb: self.ntb.clone(),
            group: self.group,
        }
    }

    /// Who this host is to peer `pidx`. The RP gives out ids and indices
    /// (`IDT-ID-5`).
    pub(crate) fn identity_for(&self, pidx: u32) -> Identity {
        let (id, index) = self.host.assigned();
        let role = self.host.role();
        let given = self.indices.get(pidx as usize);
        let (your_id, your_index) = match (role, given) {
            (Role::Root, Some(&index)) => (PeerId::from_bdf(index, 0, 0), index),
            _ => (PeerId::SELF, 0),
        };
        let slot = self.slots.get(pidx as usize);
        let refuses = slot.is_some_and(|slot| slot.refuses.load(Relaxed));
        Identity {
            role,
            id,
            index,
            your_id,
            your_index,
            features: if refuses { FEATURE_OTHER_ROOT } else { 0 },
        }
    }

    /// The NTB core's number of this host's inbound window `number` for peer `pidx`;
    /// `None` if there is none. With several peers, the windows of all take turns.
    pub(crate) fn inbound_widx(&self, pidx: u32, number: u32) -> Option<u32> {
        let first = self.ntb.peer_resource_idx(pidx).ok()?;
        let skip = self.ntb.peer_port_count().checked_mul(number)?;
        let widx = first.checked_add(skip)?;
        (widx < self.ntb.mw_count(pidx)).then_some(widx)
    }

    /// The NTB core's number of outbound window `number` to peer `pidx`; `None` if there
    /// is none.
    pub(crate) fn outbound_widx(&self, pidx: u32, number: u32) -> Option<u32> {
        let skip = self.ntb.peer_port_count().checked_mul(number)?;
        let widx = pidx.checked_add(skip)?;
        (widx < self.ntb.peer_mw_count()).then_some(widx)
    }

    /// Allocate the inbound memory for peer `pidx` and let the peer reach it:
    /// as much as the settings, the window and the kernel's memory allow.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` while the link is down, `ENOMEM`, or what the bridge's driver
    /// reports.
    pub(crate) fn inbound_memory(&self, pidx: u32) -> Result<LocalMemory> {
        // Some drivers choose the place when they are asked, for the next who allocates.
        let _turn = self.host.allocation_turn();
        let widx = self.ntb.peer_resource_idx(pidx)?;
        let limits = self.ntb.mw_get_align(pidx, widx)?;
        let mut len = limits.size_max.min(self.settings.memory as u64) as usize;
        loop {
            match self.ntb.alloc_inbound(pidx, widx, len, ALIGN) {
                Ok(mut buffer) => {
                    buffer.expose(pidx, widx)?;
                    return Ok(LocalMemory(Arc::new(buffer, GFP_KERNEL)?));
                }
                Err(e) if e == ENOMEM && len as u64 >= 2 * MIN_LEN => len /= 2,
                Err(e) => return Err(e),
            }
        }
    }

    /// Map the window to the inbound memory of peer `pidx`: the outbound window of that
    /// number, as the NTB core's resource indices have it. That memory is `len` bytes at
    /// bus address `addr`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the bridge's driver reports.
    pub(crate) fn map_peer(&self, pidx: u32, len: u64, addr: u64) -> Result<Arc<PeerWindow>> {
        self.map_window(pidx, pidx, len, addr)
    }

    /// Map outbound window `widx`, which leads to `len` bytes at bus address `addr` of
    /// peer `pidx`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the bridge's driver reports.
    pub(crate) fn map_window(
        &self,
        pidx: u32,
        widx: u32,
        len: u64,
        addr: u64,
    ) -> Result<Arc<PeerWindow>> {
        // Where the receiver programs the translation this does nothing.
        self.ntb.peer_mw_set_trans(pidx, widx, addr, len)?;
        Ok(Arc::new(self.ntb.map_peer_window(widx)?, GFP_KERNEL)?)
    }

    /// Show or hide the live channel to the doorbell handler.
    pub(crate) fn set_active(&self, pidx: u32, link: Option<Arc<ChannelLink>>) {
        if let Some(slot) = self.slots.get(pidx as usize) {
            drop(slot.active.replace(link));
        }
    }

    /// Look at all links.
    pub(crate) fn kick_all(&self) {
        let guard = rcu::read_lock();
        for slot in &self.slots {
            if let Some(worker) = slot.worker.load(&guard) {
                worker.kick();
            }
        }
    }

    /// Let the rings of one queue to peer `pidx` be polled. Any context.
    pub(crate) fn poll_queue(&self, pidx: u32, queue: u16) {
        let guard = rcu::read_lock();
        let slot = self.slots.get(pidx as usize);
        if let Some(link) = slot.and_then(|slot| slot.active.load(&guard)) {
            link.poll_where(|q| q == queue);
        }
    }

    /// Whether a peer's doorbell has ever come over this bridge.
    pub(crate) fn has_been_rung(&self) -> bool {
        self.has_been_rung.load(Relaxed)
    }

    /// Answer the doorbells that are set although nobody was interrupted: they
    /// would not ring again.
    pub(crate) fn answer_lost(&self) {
        self.answer(!0);
    }

    /// Answer the doorbells of this host that are set, of those in `mask`.
    fn answer(&self, mask: u64) {
        let bits = self.ntb.db_read() & mask & self.group.mask();
        if bits == 0 {
            return;
        }
        // A doorbell that cannot be cleared rings again.
        let _ = self.ntb.db_clear(bits);
        // Clearing is a posted write. Reading sees to it that the bridge has done it before the
        // rings are looked at: a doorbell of another peer that comes behind the look would be
        // cleared with it.
        let _ = self.ntb.db_read();
        if bits & self.group.link_bit() != 0 {
            self.kick_all();
        }
        self.poll_queues(bits);
    }

    /// Let the rings of the queues be polled whose bits are in `bits`.
    fn poll_queues(&self, bits: u64) {
        let guard = rcu::read_lock();
        for slot in &self.slots {
            if let Some(link) = slot.active.load(&guard) {
                link.poll_where(|queue| bits & self.group.queue_bit(queue) != 0);
            }
        }
    }
}

impl Events for Shared {
    fn link_event(&self) {
        self.kick_all();
    }

    fn db_event(&self, vector: u32) {
        if !self.has_been_rung() {
            self.has_been_rung.store(true, Relaxed);
        }
        self.answer(self.ntb.db_vector_mask(vector));
    }

    fn msg_event(&self) {
        self.kick_all();
    }
}

impl Listener<ModuleGoes> for Shared {
    fn notify(&self, (): ()) {
        for link in self.slots.iter().filter_map(|slot| slot.active.get()) {
            link.channel().let_go();
        }
    }
}

/// How many ports of the bridge have a lower number than this host's. Some
/// bridges of two ports give both the same; the endpoint's counts as the higher
/// one then.
///
/// # Errors
///
/// `EINVAL` if such ports have no roles, with a line in the log, or what the
/// bridge's driver reports.
fn logical_port(ntb: &NtbDev, role: Option<Role>) -> Result<u32> {
    let own = ntb.port_number()?;
    let mut lower = 0;
    for pidx in 0..ntb.peer_port_count() {
        let peer = ntb.peer_port_number(pidx)?;
        let is_lower = match role {
            _ if peer != own => peer < own,
            Some(role) => role == Role::Endpoint,
            None => {
                dev_err!(
                    ntb,
                    "both ports are number {}: load with role=1 on one host, role=2 on the other\n",
                    own
                );
                return Err(EINVAL);
            }
        };
        lower += u32::from(is_lower);
    }
    Ok(lower)
}

/// A device that this driver is bound to.
pub(crate) struct Device {
    shared: Arc<Shared>,
    events: Option<EventRegistration<Shared>>,
    /// Function services may go while frames of theirs are being sent.
    _watch: Notifier<ModuleGoes, Shared>,
}

impl Device {
    /// Take the device into use.
    ///
    /// # Errors
    ///
    /// `ENOSPC` or `ENODEV` if the bridge lacks doorbells, scratchpads or
    /// messages, `ENOMEM`, or what its driver reports.
    pub(crate) fn new(ntb: &NtbDev, context: &Context) -> Result<Self> {
        let shared = Arc::new(Shared::new(ntb, context)?, GFP_KERNEL)?;
        // Made before the steps that may fail, so that `drop` undoes them.
        let mut this = Self {
            _watch: Notifier::new(shared.clone())?,
            shared,
            events: None,
        };
        let at_lowest_port = this.shared.logical_port() == 0;
        this.shared.host.join(&this.shared, at_lowest_port)?;
        for (pidx, slot) in this.shared.slots.iter().enumerate() {
            let link = PeerLink::new(this.shared.clone(), pidx as u32)?;
            slot.worker.replace(Some(new_worker!(link)?));
        }
        this.shared.open_events()?;
        this.events = Some(EventRegistration::new(ntb, this.shared.clone())?);
        ntb.link_enable();
        this.shared.kick_all();
        Ok(this)
    }
}

impl Shared {
    /// Unmask this port's doorbells and no others, and messages if there are any.
    fn open_events(&self) -> Result {
        let own = self.group.mask();
        self.ntb.db_set_mask(self.ntb.db_valid_mask())?;
        self.ntb.db_clear(own)?;
        self.ntb.db_clear_mask(own)?;
        if self.ntb.msg_count() > 0 {
            // A refused message is tried again without being told of it.
            self.ntb.msg_set_mask(self.ntb.msg_outbits())?;
            self.ntb.msg_clear_mask(self.ntb.msg_inbits())?;
        }
        Ok(())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // No interrupts, then no workers, then a goodbye to each peer, while it can be reached.
        self.events = None;
        for worker in self.shared.slots.iter().filter_map(|s| s.worker.get()) {
            worker.stop();
            worker.target().shutdown();
        }
        let ntb = &self.shared.ntb;
        if ntb.db_set_mask(ntb.db_valid_mask()).is_err() {
            dev_warn!(ntb, "cannot mask the doorbells\n");
        }
        ntb.link_disable();
        // Inbound memory, which the workers own, stays for as long as peers could reach it.
        for (pidx, slot) in (0..).zip(&self.shared.slots) {
            let windows = (0..).map_while(|number| self.shared.outbound_widx(pidx, number));
            for widx in windows {
                if ntb.peer_mw_clear_trans(pidx, widx).is_err() {
                    dev_warn!(ntb, "peer {}: window {} still leads there\n", pidx, widx);
                }
            }
            drop(slot.worker.replace(None));
        }
        self.shared.host.leave(&self.shared);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.host.return_indices(&self.indices);
    }
}

/// The driver, as the NTB core sees it.
pub(crate) struct Driver;

impl ntb::client::Client for Driver {
    type Data = Device;

    fn probe(dev: &NtbDev) -> Result<Device> {
        Device::new(dev, &*crate::context().ok_or(ENODEV)?)
    }
}
