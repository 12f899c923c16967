// SPDX-License-Identifier: GPL-2.0-only

//! The life of the link to one peer: feeds the state machine of
//! [`mp_proto::link`] with what the hardware shows and carries out its actions.
//!
//! Everything here runs in the link's worker, one call at a time; interrupts
//! only kick it. The data path is in [`crate::channel`].

use crate::{
    arena::Arena,
    channel::{
        Channel,
        Tags, //
    },
    channel_link::{
        ChannelLink,
        Epoch, //
    },
    device::Shared,
    dma::Engine,
    further::{
        self,
        Windows, //
    },
    host::{
        LinkKey,
        Order, //
    },
    local,
    mailbox::Mailbox,
    memory::{
        LocalMemory,
        RemoteMemory, //
    },
    upper::{
        Session,
        Upper, //
    },
    waits::Waits, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};
use mp_kernel::{
    error,
    time::monotonic_ns as now,
    trace,
    worker::{
        new_worker,
        Work,
        Worker, //
    }, //
};
use mp_proto::{
    layout::{
        Layout,
        STATUS_LEN, //
    },
    link::{
        self as proto_link,
        Action,
        Actions,
        DownReason,
        Hello,
        Identity,
        Link,
        Local,
        Mismatch,
        Rng,
        Role,
        State,
        WaitsFor,
        FEATURE_OTHER_ROOT, //
    },
    memory::Inbound,
    ring::Ringing,
    version::Terms,
    wire::PeerId, //
};
use mp_transport::{
    local::Registration,
    service, //
};

const NS_PER_MS: u64 = 1_000_000;

/// How often a link without a peer is looked at, in milliseconds, should the
/// event that announces the peer get lost.
const IDLE_MS: u32 = 250;

/// The kernel's random numbers.
pub(crate) struct KernelRng;

impl Rng for KernelRng {
    fn next_u64(&mut self) -> u64 {
        mp_kernel::random::next_u64()
    }
}

/// An epoch that lives.
struct Active {
    link: Arc<ChannelLink>,
    remote: Identity,
    /// Whether the upper side knows of it: once both ids are known.
    entered: bool,
    /// Whether it has been reported that the peer belongs to another fabric.
    split_told: bool,
    /// `None` if there are too many.
    _outbound: Option<Registration>,
}

/// What exists from the first time that the NTB's link was up.
struct Live {
    /// `None` if there are too many.
    _inbound: Option<Registration>,
    machine: Link<KernelRng>,
    /// Go before what they lead to.
    _windows: Windows,
    /// Goes before the memory.
    arena: Arena,
    inb: LocalMemory,
    layout: Layout,
    mailbox: Mailbox,
    identity: Identity,
    /// What is to be mapped as soon as everything else is done.
    to_map: Option<PeerMemory>,
    window: Option<RemoteMemory>,
    active: Option<Active>,
}

/// See [`Action::MapWindow`].
struct PeerMemory {
    len: u64,
    addr: u64,
}

/// What only the worker touches.
struct Inner {
    live: Option<Live>,
    /// The last error that kept the link from being prepared, to report it once.
    trouble: Option<Error>,
    waits: Waits,
}

/// The link to one peer.
#[pin_data]
pub(crate) struct PeerLink {
    shared: Arc<Shared>,
    pidx: u32,
    upper: Arc<Worker<Upper>>,
    #[pin]
    inner: Mutex<Inner>,
}

impl PeerLink {
    /// The link to peer `pidx`, of which nothing is known yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(shared: Arc<Shared>, pidx: u32) -> Result<Arc<Self>> {
        let upper = new_worker!(Upper::new(shared.clone(), pidx)?)?;
        Arc::pin_init(
            pin_init!(Self {
                shared,
                pidx,
                upper,
                inner <- new_mutex!(Inner {
                    live: None,
                    trouble: None,
                    waits: Waits::new(),
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Prepare memory and mailbox. Some bridges say what they demand of the
    /// memory only while the link is up.
    fn prepare(&self) -> Result<Live> {
        let settings = self.shared.settings();
        let windows = Windows::open(&self.shared, self.pidx);
        let inb = self.shared.inbound_memory(self.pidx)?;
        let layout = Layout::plan(inb.size() as u64, settings.queues).map_err(|_| ENOSPC)?;
        let identity = self.shared.identity_for(self.pidx);
        let local = Local {
            addr: inb.0.dma_address(),
            layout,
            further: windows.told(),
            identity,
            support: settings.support,
        };
        let arena = Arena::new(&inb, &layout, &windows, &self.shared, self.pidx)?;
        Ok(Live {
            _inbound: local::inbound(&inb).ok(),
            machine: Link::new(settings.config, local, KernelRng),
            _windows: windows,
            arena,
            inb,
            layout,
            mailbox: Mailbox::new(&self.shared, self.pidx)?,
            identity,
            to_map: None,
            window: None,
            active: None,
        })
    }

    /// Prepare the link if that is still to be done and can be.
    fn ensure_live(&self, inner: &mut Inner) {
        if inner.live.is_some() || !self.shared.is_link_up(self.pidx) {
            return;
        }
        match self.prepare() {
            Ok(live) => inner.live = Some(live),
            Err(e) if inner.trouble != Some(e) => {
                inner.trouble = Some(e);
                dev_err!(
                    self.shared.ntb(),
                    "peer {}: no inbound memory: error {}\n",
                    self.pidx,
                    e.to_errno()
                );
            }
            Err(_) => {}
        }
    }

    /// What the link waits for.
    fn waits_for(&self, live: Option<&Live>) -> Option<WaitsFor> {
        if self.upper.target().is_failed() {
            return Some(WaitsFor::Repair);
        }
        let Some(live) = live else {
            return Some(match self.shared.is_link_up(self.pidx) {
                true => WaitsFor::Memory,
                false => WaitsFor::NtbLink,
            });
        };
        let waits = live.machine.waits_for();
        waits.or_else(|| self.entry_waits_for(live.active.as_ref()?))
    }

    /// What a link waits for that is up.
    fn entry_waits_for(&self, active: &Active) -> Option<WaitsFor> {
        let is_known = active.remote.id.is_host() && service::self_id() != PeerId::SELF;
        match active.entered {
            false if self.split(&active.remote).is_some() => Some(WaitsFor::OtherRoot),
            false if !is_known => Some(WaitsFor::Identity),
            false => Some(WaitsFor::Entry),
            true if !self.upper.target().is_entered() => Some(WaitsFor::Entry),
            true => (!self.shared.has_been_rung()).then_some(WaitsFor::Doorbell),
        }
    }

    /// Leave the peer for good, with a goodbye. The worker has been stopped.
    pub(crate) fn shutdown(&self) {
        if let Some(live) = &mut self.inner.lock().live {
            self.step(live, |machine| machine.shutdown());
        }
        // The peer is taken out of the message frame service here and now.
        self.upper.stop();
        self.upper.target().run();
    }

    /// Show the machine everything there is to see.
    fn observe(&self, live: &mut Live) {
        let now = now();
        let ntb = self.shared.ntb();
        let is_up = !ntb.is_offline() && self.shared.is_link_up(self.pidx);
        self.step(live, |machine| machine.ntb_link(is_up, now));
        if ntb.has_failed() && self.upper.target().fail() {
            dev_err!(ntb, "peer {}: the bridge has failed\n", self.pidx);
            self.upper.kick();
        }

        while let Some(mail) = live.mailbox.read(&self.shared) {
            self.step(live, |machine| machine.mailbox(mail, now));
            if !live.mailbox.has_more() {
                break;
            }
        }
        if live
            .active
            .as_ref()
            .is_some_and(|a| a.link.channel().is_faulty())
        {
            self.corrupt(live);
        }
        let hello = Hello::read(&live.inb);
        let beat = proto_link::read_beat(&live.inb).unwrap_or(0);
        self.step(live, |machine| machine.observe(hello, beat, now));
    }

    /// Follow changes of who this host is.
    fn follow_identity(&self, live: &mut Live) {
        if let Some(active) = &live.active {
            self.learn_identity(&active.remote);
        }
        let identity = self.shared.identity_for(self.pidx);
        if identity != live.identity {
            let is_renamed = live.identity.id.is_host() && identity.id != live.identity.id;
            if is_renamed && live.active.as_ref().is_some_and(|a| a.entered) {
                // This host has another name now: everybody starts over.
                self.corrupt(live);
            }
            live.identity = identity;
            self.step(live, |machine| machine.set_identity(identity, now()));
        }
        self.enter_peer(live);
    }

    /// Show the machine one thing, and do what follows from it.
    fn step(&self, live: &mut Live, show: impl FnOnce(&mut Link<KernelRng>) -> Actions) {
        self.carry_out(live, show);
        // Not while the list is gone through that says so: it would lie on the stack beside the
        // next one.
        while let Some(asked) = live.to_map.take() {
            self.map(live, asked);
        }
    }

    // Not inlined, so that the list is on the stack for as long as it is gone through.
    #[inline(never)]
    fn carry_out(&self, live: &mut Live, show: impl FnOnce(&mut Link<KernelRng>) -> Actions) {
        let todo = show(&mut live.machine);
        for action in todo.iter() {
            self.act(live, action);
        }
    }

    /// End the epoch: the peer, or this host, has not kept to the protocol.
    fn corrupt(&self, live: &mut Live) {
        self.step(live, |machine| machine.corrupt(now()));
    }

    #[inline(never)]
    fn act(&self, live: &mut Live, action: &Action) {
        match *action {
            Action::ResetInbound => {
                // The length is the status page's, which every layout has.
                let _ = live.inb.zero(0, STATUS_LEN);
            }
            Action::PublishMailbox(ref mail) => {
                live.mailbox.publish(&self.shared, mail);
                self.shared.bell(self.pidx).ring_link();
            }
            Action::ClearMailbox => live.mailbox.clear(&self.shared),
            Action::MapWindow { len, addr } => live.to_map = Some(PeerMemory { len, addr }),
            Action::UnmapWindow => {
                live.to_map = None;
                live.arena.end();
                live.window = None;
            }
            Action::WriteHello(ref hello) => {
                if let Some(window) = &live.window {
                    // Only a window below a status page refuses, and none such is mapped.
                    let _ = hello.write(window);
                    if live.machine.state() != State::Up {
                        self.shared.bell(self.pidx).ring_link();
                    }
                }
            }
            Action::Beat(beat) => {
                if let Some(window) = &live.window {
                    let _ = proto_link::write_beat(window, beat);
                }
            }
            Action::LinkUp {
                ref peer, terms, ..
            } => self.link_up(live, peer, terms),
            Action::LinkDown(reason) => self.link_down(live, reason),
            Action::PeerChanged(identity) => self.peer_changed(live, identity),
            Action::ReportVersion(mismatch) => self.report_version(mismatch),
        }
    }

    fn report_version(&self, mismatch: Mismatch) {
        let ntb = self.shared.ntb();
        let own = self.shared.settings().support;
        match mismatch {
            Mismatch::Bootstrap(version) => dev_err!(
                ntb,
                "peer {} has bootstrap version {}, this host {}: load modules of the same release on both\n",
                self.pidx,
                version,
                mp_proto::mailbox::VERSION,
            ),
            Mismatch::Wire(theirs) => dev_err!(
                ntb,
                "peer {} speaks wire versions {} to {}, this host {} to {}: load modules of a newer release on {}\n",
                self.pidx,
                theirs.oldest,
                theirs.newest,
                own.oldest,
                own.newest,
                if own.is_older_than(theirs) {
                    "this host"
                } else {
                    "the peer"
                },
            ),
        }
    }

    #[inline(never)]
    fn map(&self, live: &mut Live, asked: PeerMemory) {
        let PeerMemory { len, addr } = asked;
        let window = self.shared.map_peer(self.pidx, len, addr);
        if let Err(e) = &window {
            dev_err!(
                self.shared.ntb(),
                "peer {}: cannot map {} bytes of its memory: error {}\n",
                self.pidx,
                len,
                e.to_errno(),
            );
        }
        live.window = window.ok().map(RemoteMemory);
        let size = live.window.as_ref().map(|w| w.0.len() as u64);
        self.carry_out(live, |machine| machine.mapped(size, now()));
    }

    #[inline(never)]
    fn link_up(&self, live: &mut Live, peer: &Hello, terms: Terms) {
        match self.open_channel(live, peer, terms) {
            Ok(link) => {
                self.shared.set_active(self.pidx, Some(link.clone()));
                let channel = link.channel().clone();
                let outbound = live.window.as_ref();
                let outbound =
                    outbound.and_then(|w| local::outbound(w, peer.layout.len, channel).ok());
                dev_info!(
                    self.shared.ntb(),
                    "link to peer {} is up, wire version {}\n",
                    self.pidx,
                    terms.version
                );
                trace::link_state(self.shared.bridge(), self.pidx, true, c"up");
                live.active = Some(Active {
                    link,
                    remote: peer.identity,
                    entered: false,
                    split_told: false,
                    _outbound: outbound,
                });
                self.learn_identity(&peer.identity);
                self.enter_peer(live);
            }
            Err(e) => {
                dev_err!(
                    self.shared.ntb(),
                    "peer {}: cannot open a channel: error {}\n",
                    self.pidx,
                    e.to_errno(),
                );
                self.corrupt(live);
            }
        }
    }

    #[inline(never)]
    fn open_channel(
        &self,
        live: &mut Live,
        peer: &Hello,
        terms: Terms,
    ) -> Result<Arc<ChannelLink>> {
        let (tx, rx) = live.machine.tags().ok_or(error::no_link())?;
        let out = live.window.clone().ok_or(error::no_link())?;
        let commons = self.commons_of(peer);
        let engine = Engine::new(
            self.shared.clone(),
            self.pidx,
            &out,
            &peer.layout,
            commons.as_ref(),
        )?;
        let channel = Channel::new(
            live.inb.clone(),
            out.clone(),
            self.shared.bell(self.pidx),
            engine.clone(),
            &live.layout,
            &peer.layout,
            Tags { tx, rx },
            Ringing::of(terms.version),
        )?;
        let channel = Arc::new(channel, GFP_KERNEL)?;
        let shared = &self.shared;
        let memory = live
            .arena
            .begin(shared, self.pidx, &out, commons, &engine, peer)?;
        // The link is up because the peer echoes the own epoch.
        let epoch = Epoch {
            own: peer.echo,
            peers: peer.epoch,
            version: terms.version,
        };
        let link = ChannelLink::new(channel, memory, self.shared.bridge(), epoch);
        Ok(Arc::new(link, GFP_KERNEL)?)
    }

    /// The window to the peer's commons, if there is one.
    #[inline(never)]
    fn commons_of(&self, peer: &Hello) -> Option<(RemoteMemory, u64)> {
        let commons = further::commons_of(&self.shared, self.pidx, &peer.further);
        commons.unwrap_or_else(|e| {
            dev_warn!(
                self.shared.ntb(),
                "peer {}: its commons are not reached: error {}\n",
                self.pidx,
                e.to_errno(),
            );
            None
        })
    }

    /// An endpoint learns from the RP who it is.
    fn learn_identity(&self, remote: &Identity) {
        let host = self.shared.host();
        if remote.role == Role::Root && host.role() == Role::Endpoint {
            let order = host.order(self.key(), remote.your_id, remote.your_index);
            self.shared.refuse(self.pidx, order == Order::Refused);
        }
    }

    /// The name of this link among those of the host.
    fn key(&self) -> LinkKey {
        (self.shared.bridge(), self.pidx)
    }

    /// What the peer is if it belongs to another fabric, with a root processor of its own.
    fn split(&self, remote: &Identity) -> Option<&'static str> {
        let own = self.shared.identity_for(self.pidx);
        Some(match (own.role, remote.role) {
            (Role::Root, Role::Root) => "is a root processor like this host",
            (Role::Root, _) if remote.features & FEATURE_OTHER_ROOT != 0 => {
                "obeys another root processor"
            }
            (Role::Endpoint, _) if own.features & FEATURE_OTHER_ROOT != 0 => {
                "is a second root processor"
            }
            _ => return None,
        })
    }

    /// Whether the peer belongs to another fabric; reported once for each epoch, as it may say
    /// so again and again.
    fn is_split(&self, active: &mut Active) -> bool {
        let Some(other) = self.split(&active.remote) else {
            return false;
        };
        if !active.split_told {
            active.split_told = true;
            dev_err!(
                self.shared.ntb(),
                "peer {} {}: give all hosts but one the parameter role=2\n",
                self.pidx,
                other
            );
        }
        true
    }

    /// Enter the peer into the message frame service once both ids are
    /// known.
    fn enter_peer(&self, live: &mut Live) {
        let Some(active) = &mut live.active else {
            return;
        };
        let remote = active.remote;
        if active.entered || !remote.id.is_host() || service::self_id() == PeerId::SELF {
            return;
        }
        if self.is_split(active) {
            return;
        }
        let session = Session {
            link: active.link.clone(),
            id: remote.id,
            index: remote.index,
        };
        // Without memory it is tried again at the next look.
        if let Ok(session) = Arc::new(session, GFP_KERNEL) {
            active.entered = true;
            self.follow(Some(session));
        }
    }

    /// Let the upper side follow a session, or none.
    fn follow(&self, session: Option<Arc<Session>>) {
        self.upper.target().want(session);
        self.upper.kick();
    }

    fn peer_changed(&self, live: &mut Live, identity: Identity) {
        self.learn_identity(&identity);
        let Some(active) = &mut live.active else {
            return;
        };
        // Only a liar changes its id within an epoch.
        let is_renamed = identity.id != active.remote.id;
        active.remote = identity;
        // A peer is entered once in an epoch. One that goes over to another fabric may come back,
        // and what it sends meanwhile is for nobody.
        if active.entered && (is_renamed || self.is_split(active)) {
            return self.corrupt(live);
        }
        self.enter_peer(live);
    }

    fn link_down(&self, live: &mut Live, reason: DownReason) {
        let Some(active) = live.active.take() else {
            return;
        };
        dev_info!(
            self.shared.ntb(),
            "link to peer {} is down: {:?}\n",
            self.pidx,
            reason
        );
        if reason == DownReason::Corrupt {
            self.upper.target().count_reset();
        }
        trace::link_state(self.shared.bridge(), self.pidx, false, name_of(reason));
        self.shared.host().link_down(self.key());
        active.link.channel().close();
        // Before the peer, who may rely on it, is told of another epoch.
        active.link.end_memory();
        self.shared.set_active(self.pidx, None);
        self.follow(None);
    }
}

impl Work for PeerLink {
    /// Late heartbeats look like a dead host.
    const URGENT: bool = true;

    fn run(&self) -> Option<u32> {
        self.shared.answer_lost();
        let mut inner = self.inner.lock();
        self.ensure_live(&mut inner);
        let Inner { live, waits, .. } = &mut *inner;
        let next = live.as_mut().map_or(IDLE_MS, |live| self.look(live));
        let waits_for = self.waits_for(live.as_ref());
        waits.look(&self.shared, self.pidx, self.upper.target(), waits_for);
        Some(next)
    }
}

impl PeerLink {
    /// Look at the link, and do what follows. The milliseconds until the next look.
    fn look(&self, live: &mut Live) -> u32 {
        self.observe(live);
        self.follow_identity(live);
        self.step(live, |machine| machine.tick(now()));
        if let Some(active) = &live.active {
            active.link.channel().watch_engine();
            // The safety net under lost writes and lost doorbells.
            active.link.channel().repeat_indices();
            active.link.channel().age_kept();
            active.link.heartbeat(self.shared.settings().config.beat);
        }
        next_look(live)
    }
}

/// The reason in a word, for tracepoints.
fn name_of(reason: DownReason) -> &'static CStr {
    match reason {
        DownReason::NtbLink => c"ntb_link",
        DownReason::PeerSilent => c"peer_silent",
        DownReason::PeerLeft => c"peer_left",
        DownReason::PeerRestarted => c"peer_restarted",
        DownReason::Corrupt => c"corrupt",
        DownReason::Shutdown => c"shutdown",
    }
}

/// When to look again, in milliseconds.
fn next_look(live: &Live) -> u32 {
    match live.machine.deadline() {
        Some(at) => {
            let ms = at.saturating_sub(now()).div_ceil(NS_PER_MS);
            (ms as u32).clamp(1, IDLE_MS)
        }
        None => IDLE_MS,
    }
}
