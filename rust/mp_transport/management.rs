// SPDX-License-Identifier: GPL-2.0-only

//! What the message frame services of the hosts tell each other
//! ([`mp_proto::manage`]): who is there (`IDT-PEER-13`), how far forwarded
//! frames have got (`IDT-MSG-7`), and statistics on request (`IDT-PEER-3`).
//!
//! Messages are priority frames without data that no function sees and no
//! counter counts. Those that concern frames under way are answered as they
//! arrive; what enters or removes peers sleeps, and is left to a worker. Nothing
//! here waits for an event that is not repeated: the worker compares what is
//! with what ought to be, and runs again as long as something could not be sent.

use crate::{
    forward,
    frame::{
        Frame,
        FrameBody,
        FuncId, //
    },
    letters::{
        Letter,
        Letters, //
    },
    peer::{
        members,
        Peer,
        PeerSet,
        Route,
        SendError, //
    },
    questions,
    routed::Routed,
    service::{
        self,
        MAX_PEERS, //
    },
    via::Via, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    bytes::SharedBytes,
    error,
    sync::RcuArc,
    time::monotonic_ns,
    worker::{
        new_worker,
        Work,
        Worker, //
    }, //
};
use mp_proto::{
    herald::{
        Entry,
        Herald,
        Member,
        Path, //
    },
    manage::{
        Announced,
        Message,
        FUNC_ID, //
    },
    pause::Pause,
    wire::{
        Envelope,
        MsgHdr,
        PeerId,
        Priority,
        WayTag, //
    }, //
};

/// Milliseconds until what could not be sent is tried again.
const RETRY_MS: u32 = 10;

/// How long a hop that was asked to renew a way may take before it is asked again, in nanoseconds:
/// longer than a pause between two ways.
const RENEWAL_NS: u64 = 2_000_000_000;

/// The worker, while the service runs.
static WORKER: RcuArc<Worker<Manager>> = RcuArc::empty();

/// What an endpoint was told.
type Told = Herald<KVec<Entry>>;

/// An endpoint, to the root processor.
struct Endpoint {
    peer: Arc<Peer>,
    member: Member,
    herald: Told,
}

/// Another endpoint, to an endpoint.
struct Neighbour {
    host: Announced,
    /// Who has announced it, and forwards to it.
    hop: Arc<Peer>,
    /// The way to it, over all its lives as a peer.
    via: Option<Arc<Via>>,
    /// The peer that was entered for it, with the way to it.
    entered: Option<Arc<Peer>>,
    /// Whether the hop knows that frames are taken; or, of a host at the same bridge,
    /// whether the transport knows of it.
    told: bool,
    /// Whether it takes frames.
    ready: bool,
    /// Between two lives of the peer on the same way.
    pause: Pause,
    /// The way is over: when the hop is to be asked, once more, to renew it.
    renewal: Option<u64>,
}

/// What only the worker touches.
struct State {
    endpoints: KVec<Endpoint>,
    neighbours: KVec<Neighbour>,
    /// The interfaces to neighbours that are or were reached over another one.
    routed: KVec<Routed>,
}

#[pin_data]
pub(crate) struct Manager {
    #[pin]
    inbox: Letters,
    #[pin]
    state: Mutex<State>,
    /// Whether something could not be sent.
    pending: Atomic<bool>,
}

/// Start the worker.
pub(crate) fn start() -> Result {
    let manager = Arc::pin_init(
        try_pin_init!(Manager {
            inbox <- Letters::new(),
            state <- new_mutex!(State {
                endpoints: KVec::new(),
                neighbours: KVec::new(),
                routed: KVec::new(),
            }),
            pending: Atomic::new(false),
        }),
        GFP_KERNEL,
    )?;
    WORKER.replace(Some(new_worker!(manager)?));
    questions::start()
}

/// Stop the worker and forget everything. Sleeps.
pub(crate) fn stop() {
    questions::stop();
    if let Some(worker) = WORKER.replace(None) {
        worker.stop();
    }
    forward::stop();
}

/// Let the worker look at what has changed. Any context.
pub(crate) fn kick() {
    if let Some(worker) = WORKER.load(&rcu::read_lock()) {
        worker.kick();
    }
}

/// Something could not be sent: has the worker try it again in a while.
pub(crate) fn retry() {
    if let Some(worker) = WORKER.load(&rcu::read_lock()) {
        if !worker.target().pending.xchg(true, Relaxed) {
            worker.kick_in(RETRY_MS);
        }
    }
}

/// Send a message to the message frame service of a peer.
///
/// # Errors
///
/// [`SendError`]; a message that found no memory counts as one that found no room.
pub(crate) fn tell(peer: &Peer, message: &Message) -> Result<(), SendError> {
    let bytes = message.encode();
    let frame = Frame::new(FuncId(FUNC_ID), &bytes, Priority::High, Nothing)
        .map_err(|_| SendError::Full)?;
    let head = Envelope::from(MsgHdr {
        dst: peer.id(),
        src: service::self_id(),
        len: bytes.len() as u32,
        func: FUNC_ID,
    });
    peer.relay(&head, &frame, 0).map(|_| ())
}

/// Take a message of a peer. Softirq context.
///
/// # Errors
///
/// `EBADMSG` for what is no message, or not from this peer.
pub(crate) fn receive(from: &Arc<Peer>, bytes: &[u8]) -> Result {
    let message = Message::decode(bytes).ok_or(error::bad_message())?;
    if !may_say(from, &message) {
        return Err(error::bad_message());
    }
    match message {
        Message::Here(_)
        | Message::Gone(..)
        | Message::Go(..)
        | Message::Ready(..)
        | Message::Renew(..) => post(from, message),
        Message::Passed(lane, total) => {
            if let Some(peer) = service::far_peer(from, lane.dst, Some(lane.way)) {
                if let Some(via) = peer.via() {
                    via.passed(&peer, lane.number, total);
                }
            }
            Ok(())
        }
        Message::Lost(lane, function) => {
            if let Some(peer) = service::far_peer(from, lane.dst, Some(lane.way)) {
                service::lost(&peer, function);
            }
            Ok(())
        }
        Message::Want(lane, total) => {
            forward::want(from, lane, total);
            Ok(())
        }
        Message::AskStats(number) => {
            // A question that is not answered is asked again, or given up.
            let _ = tell(from, &Message::Stats(number, service::totals()));
            Ok(())
        }
        Message::Stats(number, stats) => {
            questions::answer(from, number, stats);
            Ok(())
        }
    }
}

/// Whether this message is one that `from` has to say: the RP says who is there,
/// and only neighbours speak of what is forwarded.
fn may_say(from: &Peer, message: &Message) -> bool {
    let is_root = service::self_id() == PeerId::RP;
    match message {
        Message::AskStats(_) | Message::Stats(..) => true,
        _ if from.via().is_some() => false,
        Message::Here(_) | Message::Gone(..) | Message::Go(..) => from.id() == PeerId::RP,
        Message::Ready(..) | Message::Renew(..) => is_root,
        Message::Passed(..) | Message::Want(..) | Message::Lost(..) => true,
    }
}

/// Leave a message to the worker.
fn post(from: &Arc<Peer>, message: Message) -> Result {
    let guard = rcu::read_lock();
    let worker = WORKER.load(&guard).ok_or(ENODEV)?;
    worker.target().inbox.push(from, message)?;
    worker.kick();
    Ok(())
}

/// There is room in `queue` of `peer` for frames of `waiting`.
pub(crate) fn resume(peer: &Peer, waiting: PeerSet, queue: u16) {
    forward::resume(peer, waiting, queue);
    for index in members(waiting) {
        if let Some(far) = service::peer_at(index) {
            if far.hop().is_some_and(|hop| hop.life() == peer.life()) {
                far.tx_completed(queue, 0);
            }
        }
    }
}

/// Get memory for what so many peers have to say, before the last of them is there. Sleeps.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn make_room(peers: usize) -> Result {
    match WORKER.get() {
        Some(worker) => worker.target().inbox.make_room(peers),
        None => Ok(()),
    }
}

impl Manager {
    /// Keep heralds for the endpoints that are there, and no others.
    fn follow_endpoints(&self, endpoints: &mut KVec<Endpoint>) -> Result {
        let mut unloading = KVec::new();
        endpoints.retain(|endpoint| {
            let stays = endpoint.peer.is_connected();
            if !stays && endpoint.peer.transport().is_unloading() {
                // Forgotten below, where there is room for more than one.
                let _ = unloading.push(endpoint.member, GFP_KERNEL);
            }
            stays
        });
        for member in &unloading {
            for endpoint in endpoints.iter_mut() {
                if endpoint.peer.transport().is_unloading() {
                    endpoint.herald.forget(member.id);
                }
            }
        }
        let mut next = None;
        while let Some(peer) = service::peer_next(next) {
            next = Some(peer.index());
            let known = |e: &Endpoint| e.peer.life() == peer.life();
            let is_endpoint = peer.via().is_none() && peer.is_connected();
            if is_endpoint && !endpoints.iter().any(known) {
                let member = Member {
                    id: peer.id(),
                    life: peer.life(),
                    bridge: peer.bridge(),
                    data: peer.data(),
                };
                let endpoint = Endpoint {
                    peer,
                    member,
                    herald: Told::new(KVec::from_elem(Entry::default(), MAX_PEERS, GFP_KERNEL)?),
                };
                endpoints.push(endpoint, GFP_KERNEL)?;
            }
        }
        Ok(())
    }

    /// Forward between the endpoints that share no bridge.
    fn set_flows(&self, endpoints: &[Endpoint], now: u64) -> Result {
        let mut ways = KVec::new();
        for (n, a) in endpoints.iter().enumerate() {
            for b in endpoints.iter().skip(n + 1) {
                if let Path::Way(way) = path(a, b, now) {
                    ways.push((a.peer.clone(), b.peer.clone(), way), GFP_KERNEL)?;
                }
            }
        }
        forward::set(&ways)
    }

    /// Tell each endpoint what it does not know yet, as far as there is room.
    fn announce(&self, endpoints: &mut [Endpoint], now: u64) -> Result {
        let mut members = KVec::with_capacity(endpoints.len(), GFP_KERNEL)?;
        for endpoint in endpoints.iter() {
            members.push(endpoint.member, GFP_KERNEL)?;
        }
        for number in 0..endpoints.len() {
            while let Some(message) = next_message(endpoints, number, &members, now) {
                let Some(endpoint) = endpoints.get_mut(number) else {
                    break;
                };
                match tell(&endpoint.peer, &message) {
                    Ok(()) => endpoint.herald.sent(&message, &members),
                    Err(SendError::Gone) => break,
                    Err(_) => {
                        retry();
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Take a message that the softirq has left.
    fn read(&self, state: &mut State, letter: Letter) -> Result {
        let Letter { from, message } = letter;
        match message {
            Message::Here(host) => self.here(&mut state.neighbours, from, host)?,
            Message::Gone(id, way) => remove(&mut state.neighbours, |n| {
                n.host.id == id && n.host.way == way && n.hop.life() == from.life()
            }),
            Message::Go(id, way) => {
                let neighbour = find(&mut state.neighbours, &from, id, way);
                if let Some(neighbour) = neighbour {
                    neighbour.ready = true;
                    neighbour.open();
                }
            }
            Message::Ready(id, way) => {
                with_herald(state, &from, |herald| herald.ready(id, way));
            }
            Message::Renew(id, way) => {
                renew(state, &from, id, way);
            }
            _ => {}
        }
        Ok(())
    }

    fn here(&self, neighbours: &mut KVec<Neighbour>, hop: Arc<Peer>, host: Announced) -> Result {
        remove(neighbours, |n| n.host.id == host.id);
        if !host.id.is_host() || neighbours.len() >= MAX_PEERS {
            return Ok(());
        }
        let neighbour = Neighbour {
            host,
            hop,
            via: None,
            entered: None,
            told: false,
            ready: false,
            pause: Pause::default(),
            renewal: None,
        };
        Ok(neighbours.push(neighbour, GFP_KERNEL)?)
    }

    /// Enter the peers that are reached over another one, and say that their
    /// frames are taken.
    fn follow_neighbours(&self, neighbours: &mut KVec<Neighbour>, routed: &mut KVec<Routed>) {
        remove(neighbours, |n| !n.hop.is_connected());
        for neighbour in neighbours.iter_mut() {
            // Other errors last until something changes, and then this runs again.
            if matches!(neighbour.follow(routed), Err(e) if e == ENOMEM || e == EAGAIN) {
                retry();
            }
            if neighbour.owes_answer() {
                neighbour.tell_ready();
            }
        }
    }

    fn is_root(&self) -> bool {
        service::self_id() == PeerId::RP
    }

    /// Do what there is to do at a time; what becomes due behind that is for a later run.
    fn work(&self, state: &mut State, now: u64) -> Result {
        if self.is_root() {
            self.follow_endpoints(&mut state.endpoints)?;
        } else {
            state.endpoints = KVec::new();
        }
        while let Some(letter) = self.inbox.pop() {
            self.read(state, letter)?;
        }
        // One time for both: no way is told of before there are flows.
        self.set_flows(&state.endpoints, now)?;
        self.announce(&mut state.endpoints, now)?;
        let State {
            neighbours, routed, ..
        } = state;
        self.follow_neighbours(neighbours, routed);
        Ok(())
    }
}

impl Work for Manager {
    fn run(&self) -> Option<u32> {
        self.pending.store(false, Relaxed);
        let mut state = self.state.lock();
        let now = monotonic_ns();
        if self.work(&mut state, now).is_err() {
            // Out of memory.
            retry();
        }
        forward::resume_all();
        for via in state.neighbours.iter().filter_map(Neighbour::via) {
            via.ask_again();
        }
        let retry = self.pending.load(Relaxed).then_some(RETRY_MS);
        [retry, state.due(now)].into_iter().flatten().min()
    }
}

impl State {
    /// The milliseconds until there is something to do though nothing happens, if there will be.
    /// All was done that was due at `done`; since then, time has passed.
    fn due(&self, done: u64) -> Option<u32> {
        let heralds = self.endpoints.iter().map(|endpoint| &endpoint.herald);
        let pauses = heralds.filter_map(|herald| herald.end_of_pause(done));
        let renewals = self.neighbours.iter().filter_map(|n| n.renewal);
        let first = Iterator::chain(pauses, renewals)
            .filter(|at| done < *at)
            .min()?;
        Some((first.saturating_sub(monotonic_ns()) / 1_000_000 + 1) as u32)
    }
}

/// How two endpoints reach each other.
fn path(a: &Endpoint, b: &Endpoint, now: u64) -> Path {
    Path::between((&a.member, &a.herald), (&b.member, &b.herald), now)
}

/// Call `f` with what that endpoint was told.
fn with_herald(state: &mut State, of: &Peer, f: impl FnOnce(&mut Told)) {
    let mut endpoints = state.endpoints.iter_mut();
    if let Some(endpoint) = endpoints.find(|endpoint| endpoint.peer.life() == of.life()) {
        f(&mut endpoint.herald);
    }
}

/// An endpoint asks to renew the way to host `id`.
fn renew(state: &mut State, by: &Peer, id: PeerId, way: WayTag) {
    let asker = state.endpoints.iter().find(|e| e.peer.life() == by.life());
    let other = state.endpoints.iter().find(|e| e.member.id == id);
    if let (Some(asker), Some(other)) = (asker, other) {
        let now = monotonic_ns();
        let path = path(asker, other, now);
        with_herald(state, by, |herald| herald.renew(id, way, path, now));
    }
}

/// The next message to endpoint `number`.
fn next_message(
    endpoints: &[Endpoint],
    number: usize,
    members: &[Member],
    now: u64,
) -> Option<Message> {
    let endpoint = endpoints.get(number)?;
    let find = |member: &Member| endpoints.iter().find(|e| e.member.life == member.life);
    let path =
        |member: &Member| find(member).map_or(Path::Pause, |other| path(endpoint, other, now));
    let is_ready = |member: &Member, way: WayTag| {
        find(member).is_some_and(|other| other.herald.is_ready(endpoint.member.id, way))
    };
    endpoint
        .herald
        .next(&endpoint.member, members, path, is_ready)
}

/// The neighbour that `hop` has announced with this mark.
fn find<'a>(
    neighbours: &'a mut KVec<Neighbour>,
    hop: &Peer,
    id: PeerId,
    way: WayTag,
) -> Option<&'a mut Neighbour> {
    neighbours
        .iter_mut()
        .find(|n| n.host.id == id && n.host.way == Some(way) && n.hop.life() == hop.life())
}

/// Remove neighbours, with the peers that were entered for them.
fn remove(neighbours: &mut KVec<Neighbour>, which: impl Fn(&Neighbour) -> bool) {
    neighbours.retain(|neighbour| !which(neighbour));
}

impl Neighbour {
    fn via(&self) -> Option<&Arc<Via>> {
        self.entered.as_ref()?.via()
    }

    /// Enter the peer, unless it has a link of its own. If the two hosts do not agree, the hop makes
    /// a way anew, on which the host is another neighbour; a hop of the first release does not, and the
    /// peer is entered again on the same way.
    ///
    /// # Errors
    ///
    /// `EAGAIN` during a pause; those of [`enter`](Self::enter).
    fn follow(&mut self, routed: &mut KVec<Routed>) -> Result {
        let Some(way) = self.host.way else {
            self.leave_to_transport();
            return Ok(());
        };
        if self
            .entered
            .as_ref()
            .is_some_and(|peer| !peer.is_connected())
        {
            // It has got a link of its own meanwhile.
            self.leave();
            self.told = false;
        }
        if self.via().is_some_and(|via| via.is_broken()) {
            let routed = Routed::to(self.host.id, routed)?;
            routed.count_reset();
            match self.host.renews {
                true => self.renewal = Some(0),
                // Functions say goodbye, as long as it is there.
                false => routed.set_peer(None),
            }
            self.leave();
            self.pause.begin(monotonic_ns());
        }
        if self.renewal.is_some() {
            self.ask_to_renew(way);
            return Ok(());
        }
        if self.entered.is_some() || service::peer_get(self.host.id).is_some() {
            return Ok(());
        }
        if self.pause.end(monotonic_ns()).is_some() {
            return Err(EAGAIN);
        }
        self.enter(way, routed)
    }

    /// Ask the hop to renew the way, if it is time to: it says that the host has gone then.
    fn ask_to_renew(&mut self, way: WayTag) {
        let now = monotonic_ns();
        if self.renewal.is_none_or(|at| now < at) {
            return;
        }
        match tell(&self.hop, &Message::Renew(self.host.id, way)) {
            Err(SendError::Full) => retry(),
            _ => self.renewal = Some(now + RENEWAL_NS),
        }
    }

    fn enter(&mut self, way: WayTag, routed: &mut KVec<Routed>) -> Result {
        let Announced { id, data, .. } = self.host;
        let via = match &self.via {
            Some(via) => via.clone(),
            None => Via::new(self.hop.clone(), id, data.peer_index, way)?,
        };
        self.via = Some(via.clone());
        let transport = self.hop.transport().clone();
        let route = Route::Via(via.clone());
        let peer = Peer::new(id, data.peer_index, transport, route, via.clone())?;
        // Also without an interface it is reached by frames.
        let interface = Routed::to(id, routed);
        via.begin(interface.as_ref().ok().and_then(|to| to.begin().ok()));
        service::peer_add(&peer).inspect_err(|_| via.end())?;
        pr_info!(
            "peer {:08x} has arrived, by way of {:08x}\n",
            id.0,
            self.hop.id().0
        );
        self.entered = Some(peer.clone());
        self.open();
        match interface {
            Ok(interface) => interface.set_peer(Some(peer)),
            Err(e) => pr_err!(
                "peer {:08x} has no interface: error {}\n",
                id.0,
                e.to_errno()
            ),
        }
        Ok(())
    }

    /// Remove the peer, if it is there; the host may be entered again.
    fn leave(&mut self) -> bool {
        let Some(peer) = self.entered.take() else {
            return false;
        };
        service::peer_del(&peer);
        if let Some(via) = &self.via {
            via.end();
        }
        pr_info!("peer {:08x} has left\n", peer.id().0);
        true
    }

    /// The host shares a bridge with this one: its transport may enter it.
    fn leave_to_transport(&mut self) {
        if !core::mem::replace(&mut self.told, true) {
            let Announced { id, data, .. } = &self.host;
            let transport = self.hop.transport();
            transport.announce(|listener| listener.peer_add(*id, data));
        }
    }

    /// Let frames go if the other end takes them.
    fn open(&self) {
        if let (true, Some(peer)) = (self.ready, &self.entered) {
            if let Some(via) = peer.via() {
                via.open(peer);
            }
        }
    }

    fn owes_answer(&self) -> bool {
        self.entered.is_some() && !self.told
    }

    fn tell_ready(&mut self) {
        if let Some(way) = self.host.way {
            let sent = tell(&self.hop, &Message::Ready(self.host.id, way));
            self.told = sent.is_ok();
            if sent == Err(SendError::Full) {
                retry();
            }
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        if !self.leave() && self.host.way.is_none() && self.told {
            let transport = self.hop.transport();
            transport.announce(|listener| listener.peer_del(self.host.id));
        }
    }
}

/// A message has no data.
struct Nothing;

impl FrameBody for Nothing {
    fn len(&self) -> usize {
        0
    }

    fn for_each_fragment<'a>(&'a self, _f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        Ok(())
    }

    fn complete(&mut self, _status: Result) {}
}
