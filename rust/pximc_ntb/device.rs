// SPDX-License-Identifier: GPL-2.0

//! One NTB device: its ports, its doorbells, and the links to its peers.

use crate::{
    bell::{
        Bell,
        Group, //
    },
    channel_link::ChannelLink,
    memory::LocalMemory,
    messages::Messages,
    peer_link::PeerLink, //
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
    worker::Worker, //
};
use mp_proto::{
    layout::MIN_LEN,
    link::{
        Config,
        Identity,
        Role, //
    },
    mailbox::ALIGN,
    wire::PeerId, //
};
use mp_transport::{
    service,
    transport::Registration as Transport, //
};

/// What the module's parameters say, checked.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// The part this host plays; `None` lets the port decide: the lowest is the RP.
    pub(crate) role: Option<Role>,
    /// Most bytes of inbound memory for each peer.
    pub(crate) memory: usize,
    /// Data queues for each peer.
    pub(crate) queues: u32,
    /// Least data bytes of a record to be copied by a DMA engine; `None`: never.
    pub(crate) dma_threshold: Option<u32>,
    /// For how many nanoseconds, at most, an idle processor watches a ring.
    pub(crate) linger_ns: u64,
    /// Times of the links.
    pub(crate) config: Config,
}

/// What the link to one peer shows to interrupts.
struct Slot {
    worker: RcuArc<Worker<PeerLink>>,
    active: RcuArc<ChannelLink>,
}

/// An endpoint's own id and index, packed so that they change together.
struct Assigned(Atomic<u64>);

impl Assigned {
    const fn nobody() -> Self {
        Self(Atomic::new(PeerId::SELF.0 as u64))
    }

    fn get(&self) -> (PeerId, u32) {
        let word = self.0.load(Relaxed);
        (PeerId(word as u32), (word >> 32) as u32)
    }

    fn set(&self, id: PeerId, index: u32) {
        self.0
            .store(u64::from(index) << 32 | u64::from(id.0), Relaxed);
    }
}

/// What the device's links and its interrupts share.
pub(crate) struct Shared {
    ntb: ARef<NtbDev>,
    transport: Arc<Transport>,
    settings: Settings,
    role: Role,
    /// Logical port number of this host.
    logical: u32,
    assigned: Assigned,
    group: Group,
    messages: Pin<KBox<Messages>>,
    slots: KVec<Slot>,
}

impl Shared {
    fn new(ntb: &NtbDev, transport: Arc<Transport>, settings: Settings) -> Result<Self> {
        let peers = ntb.peer_port_count();
        let logical = logical_port(ntb, settings.role)?;
        let role = settings.role.unwrap_or(if logical == 0 {
            Role::Root
        } else {
            Role::Endpoint
        });
        let group = Group::new(ntb.db_valid_mask(), peers + 1, logical).inspect_err(|_| {
            dev_err!(ntb, "fewer doorbell bits than ports\n");
        })?;
        let mut slots = KVec::new();
        for _ in 0..peers {
            let slot = Slot {
                worker: RcuArc::empty(),
                active: RcuArc::empty(),
            };
            slots.push(slot, GFP_KERNEL)?;
        }
        let this = Self {
            ntb: ntb.into(),
            transport,
            settings,
            role,
            logical,
            assigned: Assigned::nobody(),
            group,
            messages: Messages::new(peers)?,
            slots,
        };
        if role == Role::Root {
            this.assigned(PeerId::RP, 0);
        }
        Ok(this)
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

    /// Who this host is to peer `pidx`. The RP gives out ids and indices by
    /// logical ports, counted so that its own index is 0 (`IDT-ID-5`).
    pub(crate) fn identity_for(&self, pidx: u32) -> Identity {
        let (id, index) = self.assigned.get();
        let peer = self.peer_logical_port(pidx);
        let (your_id, your_index) = match self.role {
            Role::Root => {
                let your_index = peer + u32::from(peer < self.logical);
                (PeerId::from_bdf(your_index, 0, 0), your_index)
            }
            Role::Endpoint => (PeerId::SELF, 0),
        };
        Identity {
            role: self.role,
            id,
            index,
            your_id,
            your_index,
            features: 0,
        }
    }

    /// This host has got its id: takes it, and has all links tell their peers.
    pub(crate) fn assigned(&self, id: PeerId, index: u32) {
        if self.assigned.get() == (id, index) {
            return;
        }
        match service::set_self_id(id) {
            Ok(()) => {
                self.assigned.set(id, index);
                dev_info!(self.ntb, "this host is {:08x}, index {}\n", id.0, index);
                self.kick_all();
            }
            Err(e) => dev_err!(
                self.ntb,
                "this host is {:08x} and cannot be {:08x} as well: error {}\n",
                service::self_id().0,
                id.0,
                e.to_errno()
            ),
        }
    }

    /// Allocates the inbound memory for peer `pidx` and lets the peer reach it:
    /// as much as the settings, the window and the kernel's memory allow.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` while the link is down, `ENOMEM`, or what the bridge's driver
    /// reports.
    pub(crate) fn inbound_memory(&self, pidx: u32) -> Result<LocalMemory> {
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

    /// Maps the window to peer `pidx`: the outbound window of that number, as the
    /// NTB core's resource indices have it. The peer's inbound memory is `len`
    /// bytes at bus address `addr`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the bridge's driver reports.
    pub(crate) fn map_peer(&self, pidx: u32, len: u64, addr: u64) -> Result<Arc<PeerWindow>> {
        // Where the receiver programs the translation this does nothing.
        self.ntb.peer_mw_set_trans(pidx, pidx, addr, len)?;
        Ok(Arc::new(self.ntb.map_peer_window(pidx)?, GFP_KERNEL)?)
    }

    /// Shows or hides the live channel to the doorbell handler.
    pub(crate) fn set_active(&self, pidx: u32, link: Option<Arc<ChannelLink>>) {
        if let Some(slot) = self.slots.get(pidx as usize) {
            drop(slot.active.replace(link));
        }
    }

    /// Has all links looked at.
    fn kick_all(&self) {
        let guard = rcu::read_lock();
        for slot in &self.slots {
            if let Some(worker) = slot.worker.load(&guard) {
                worker.kick();
            }
        }
    }

    /// Has the rings of one queue to peer `pidx` polled. Any context.
    pub(crate) fn poll_queue(&self, pidx: u32, queue: u16) {
        let guard = rcu::read_lock();
        let slot = self.slots.get(pidx as usize);
        if let Some(link) = slot.and_then(|slot| slot.active.load(&guard)) {
            link.poll_where(|q| q == queue);
        }
    }

    /// Answers the doorbells that are set although nobody was interrupted: they
    /// would not ring again.
    pub(crate) fn answer_lost(&self) {
        self.answer(!0);
    }

    /// Answers the doorbells of this host that are set, of those in `mask`.
    fn answer(&self, mask: u64) {
        let bits = self.ntb.db_read() & mask & self.group.mask();
        if bits == 0 {
            return;
        }
        // A doorbell that cannot be cleared rings again.
        let _ = self.ntb.db_clear(bits);
        if bits & self.group.link_bit() != 0 {
            self.kick_all();
        }
        self.poll_queues(bits);
    }

    /// Has the rings of the queues polled whose bits are in `bits`.
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
        self.answer(self.ntb.db_vector_mask(vector));
    }

    fn msg_event(&self) {
        self.kick_all();
    }
}

impl Listener<ModuleGoes> for Shared {
    fn notify(&self) {
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
    /// Takes the device into use.
    ///
    /// # Errors
    ///
    /// `ENOSPC` or `ENODEV` if the bridge lacks doorbells, scratchpads or
    /// messages, `ENOMEM`, or what its driver reports.
    pub(crate) fn new(ntb: &NtbDev, transport: Arc<Transport>, settings: Settings) -> Result<Self> {
        let shared = Arc::new(Shared::new(ntb, transport, settings)?, GFP_KERNEL)?;
        // Made before the steps that may fail, so that `drop` undoes them.
        let mut this = Self {
            _watch: Notifier::new(shared.clone())?,
            shared,
            events: None,
        };
        for (pidx, slot) in this.shared.slots.iter().enumerate() {
            let link = PeerLink::new(this.shared.clone(), pidx as u32)?;
            slot.worker.replace(Some(Worker::new(link)?));
        }
        this.shared.open_events()?;
        this.events = Some(EventRegistration::new(ntb, this.shared.clone())?);
        ntb.link_enable()?;
        this.shared.kick_all();
        Ok(this)
    }
}

impl Shared {
    /// Unmasks this port's doorbells and no others, and messages if there are any.
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
        let masked = ntb.db_set_mask(ntb.db_valid_mask());
        if masked.and(ntb.link_disable()).is_err() {
            dev_warn!(ntb, "cannot take the links down\n");
        }
        // Inbound memory, which the workers own, stays for as long as peers could reach it.
        for (pidx, slot) in (0..).zip(&self.shared.slots) {
            if ntb.peer_mw_clear_trans(pidx, pidx).is_err() {
                dev_warn!(ntb, "peer {}: its window is still led to it\n", pidx);
            }
            drop(slot.worker.replace(None));
        }
        if self.shared.assigned.get().0 == service::self_id() {
            service::clear_self_id();
        }
    }
}

/// The driver, as the NTB core sees it.
pub(crate) struct Driver;

impl ntb::client::Client for Driver {
    type Data = Device;

    fn probe(dev: &NtbDev) -> Result<Device> {
        let (transport, settings) = crate::context().ok_or(ENODEV)?;
        Device::new(dev, transport, settings)
    }
}
