// SPDX-License-Identifier: GPL-2.0-only

//! The links of this host: follows interfaces and their peers, and takes frames to the
//! link that they are for.

use crate::{
    inbox::{
        self,
        Kind,
        Worker,
        WorkerRef, //
    },
    link::{
        Link,
        AGAIN_MS, //
    },
    outbox::Outbox,
    ready::{
        self,
        Watchers, //
    },
    segment::Segments, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        rcu,
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_kernel::{
    error,
    new_spinlock_bh,
    sync::{
        RcuArc,
        SpinLockBh, //
    },
    worker::new_worker, //
};
use mp_proto::{
    fabric::{
        self,
        Header,
        Life, //
    },
    sequence::{
        Arrival,
        Order, //
    },
    sharing::message::{
        Message,
        What,
        SIZE, //
    }, //
};
use mp_transport::{
    frame::{
        RxContext,
        RxData,
        RxFrame, //
    },
    function::Function,
    interface::{
        Interface,
        Watcher, //
    },
    memory::{
        Commons,
        Local,
        Memory, //
    },
    peer::Peer,
    service::MAX_PEERS, //
};

/// How often what a peer takes is tried to be had.
const TRIES: u32 = 10;

/// A link with its worker, and the peer at its far end.
#[pin_data]
struct Route {
    link: Arc<Link>,
    worker: WorkerRef,
    outbox: Arc<Outbox>,
    /// Of the peer's frames, which are numbered if another host forwards them.
    #[pin]
    order: SpinLockBh<Order>,
}

/// A link, for as long as its interface is there.
struct Entry {
    link: Arc<Link>,
    worker: WorkerRef,
}

/// All links.
#[pin_data]
pub(crate) struct Links {
    /// The life of this service.
    life: Life,
    /// See [`Link::new`].
    reconnect_timeout_ms: u32,
    segments: Arc<Segments>,
    #[pin]
    entries: Mutex<KVec<Entry>>,
    /// Contexts that want to know of new ones.
    #[pin]
    pub(crate) arrivals: Watchers,
    /// Links with a peer, in no order; read under RCU.
    routes: [RcuArc<Route>; MAX_PEERS],
}

impl Links {
    /// No links; see [`Link::new`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(reconnect_timeout_ms: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                life: Life::new(mp_kernel::random::next_u64() as u32),
                reconnect_timeout_ms,
                segments: Segments::new()?,
                entries <- new_mutex!(KVec::new()),
                arrivals <- Watchers::new(),
                routes: [const { RcuArc::empty() }; MAX_PEERS],
            }? Error),
            GFP_KERNEL,
        )
    }

    /// All segments of this host.
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Cut memory for a segment of the calling process: of a link's, which its peer alone reaches, that
    /// of the host itself nobody, or else of all, which the peers of all links reach.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes, `EDQUOT` if the control group of the process may not have so much,
    /// `ENETDOWN` if the link is down by now, `ENOSPC`, `ENOMEM`.
    pub(crate) fn cut(len: u64, of: Option<&Memory>) -> Result<Local> {
        let cut = match of {
            Some(memory) => memory.alloc_for_caller(len),
            // That there are no commons, or no longer, is no other case than that they are full.
            None => Commons::get().and_then(|commons| commons.alloc_for_caller(len)),
        };
        cut.map_err(|e| match e {
            e if e == EINVAL || e == ENOMEM || e == error::quota() => e,
            e if of.is_some() && e == error::not_connected() => error::net_down(),
            _ => ENOSPC,
        })
    }

    /// Bytes of all memory that [`cut`](Self::cut) cuts from.
    pub(crate) fn memory_total(of: Option<&Memory>) -> u64 {
        match of {
            Some(memory) => memory.limits().local_total,
            None => Commons::get().map_or(0, |commons| commons.limits().total),
        }
    }

    /// Call `f` with each link.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Link>)) {
        // By their ids: others may come and go meanwhile.
        let mut last = None;
        loop {
            let next = {
                let entries = self.entries.lock();
                let ids = entries.iter().map(|e| (e.link.interface().id(), e));
                let behind = ids.filter(|(id, _)| last.is_none_or(|last| *id > last));
                let next = behind.min_by_key(|(id, _)| *id);
                next.map(|(id, e)| (id, e.link.clone()))
            };
            let Some((id, link)) = next else { break };
            f(&link);
            last = Some(id);
        }
    }

    /// Find the link of an interface.
    ///
    /// # Errors
    ///
    /// `ENODEV`.
    pub(crate) fn get(&self, interface: u32) -> Result<Arc<Link>> {
        let entries = self.entries.lock();
        let entry = entries
            .iter()
            .find(|entry| entry.link.interface().id() == interface);
        Ok(entry.ok_or(ENODEV)?.link.clone())
    }

    /// The link of this host with itself.
    ///
    /// # Errors
    ///
    /// `ENODEV`.
    pub(crate) fn own(&self) -> Result<Arc<Link>> {
        let entries = self.entries.lock();
        let own = entries.iter().find(|entry| entry.link.is_loopback());
        Ok(own.ok_or(ENODEV)?.link.clone())
    }

    /// Whether any object has that number.
    pub(crate) fn has_object(&self, number: u32) -> bool {
        let entries = self.entries.lock();
        let of_links = entries.iter().any(|entry| entry.link.has_object(number));
        drop(entries);
        of_links || self.segments.has_number(number)
    }

    /// The ids of all interfaces in ascending order, those without windows behind the others:
    /// programs that do not know of these take the first ones.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn ids(&self) -> Result<KVec<u32>> {
        let entries = self.entries.lock();
        let mut known = KVec::with_capacity(entries.len(), GFP_KERNEL)?;
        for Entry { link, .. } in entries.iter() {
            known.push((link.is_routed(), link.interface().id()), GFP_KERNEL)?;
        }
        known.sort_unstable();
        let mut ids = KVec::with_capacity(known.len(), GFP_KERNEL)?;
        for (_, id) in known {
            ids.push(id, GFP_KERNEL)?;
        }
        Ok(ids)
    }

    fn entry(&self, interface: &Interface) -> Option<(Arc<Link>, WorkerRef)> {
        let entries = self.entries.lock();
        let entry = entries
            .iter()
            .find(|entry| entry.link.interface().id() == interface.id())?;
        Some((entry.link.clone(), entry.worker.clone()))
    }

    fn add(&self, interface: &Arc<Interface>) -> Result {
        let segments = self.segments.clone();
        let link = Link::new(
            interface.clone(),
            self.life,
            segments,
            self.reconnect_timeout_ms,
        )?;
        let worker: Arc<Worker> = new_worker!(link.clone())?;
        Ok(self
            .entries
            .lock()
            .push(Entry { link, worker }, GFP_KERNEL)?)
    }

    fn connect(&self, interface: &Interface, peer: &Arc<Peer>) -> Result {
        let (link, worker) = self.entry(interface).ok_or(ENODEV)?;
        let shortage = link.shortage().clone();
        let outbox = Outbox::new(peer.clone(), worker.clone(), shortage)?;
        let route = Arc::pin_init(
            Route::new(link.clone(), worker.clone(), outbox.clone()),
            GFP_KERNEL,
        )?;
        let cell = self.routes.iter().find(|cell| cell.get().is_none());
        drop(cell.ok_or(ENOSPC)?.replace(Some(route)));
        link.peer_up(outbox).or_else(|e| {
            if e != ENOMEM {
                return Err(e);
            }
            worker.kick_in(AGAIN_MS);
            Ok(())
        })
    }

    /// Call `f` with the route to a peer, under RCU.
    fn with_route<R>(&self, peer: &Peer, f: impl FnOnce(&Route) -> R) -> Option<R> {
        let guard = rcu::read_lock();
        let mut routes = self.routes.iter().filter_map(|cell| cell.load(&guard));
        let route = routes.find(|route| core::ptr::eq(&**route.outbox.peer(), peer))?;
        Some(f(&route))
    }
}

impl Watcher for Links {
    fn added(&self, interface: &Arc<Interface>) {
        match self.add(interface) {
            Ok(()) => self.arrivals.tell(ready::STATE),
            Err(e) => pr_err!(
                "interface {:08x} cannot be used: error {}\n",
                interface.id(),
                e.to_errno()
            ),
        }
    }

    fn removed(&self, interface: &Arc<Interface>) {
        let gone = {
            let mut entries = self.entries.lock();
            let at = entries
                .iter()
                .position(|entry| Arc::ptr_eq(entry.link.interface(), interface));
            at.and_then(|at| entries.remove(at).ok())
        };
        if let Some(Entry { link, worker }) = gone {
            worker.stop();
            link.removed();
            self.segments.forget(interface.id());
        }
    }

    fn failed(&self, interface: &Arc<Interface>) {
        if let Some((link, _)) = self.entry(interface) {
            self.segments.failed(interface.id(), link.peer_id());
            link.failed();
        }
    }

    fn peer_up(&self, interface: &Arc<Interface>, peer: &Arc<Peer>) {
        let mut connected = self.connect(interface, peer);
        for _ in 0..TRIES {
            if connected != Err(ENOMEM) {
                break;
            }
            fsleep(Delta::from_millis(AGAIN_MS.into()));
            connected = self.connect(interface, peer);
        }
        if let Err(e) = connected {
            pr_err!(
                "interface {:08x}: peer {:08x} cannot be used: error {}\n",
                interface.id(),
                peer.id().0,
                e.to_errno()
            );
            if e == ENOMEM {
                // Perhaps there is some when the link has started over.
                peer.reset();
            }
        }
    }

    fn peer_down(&self, interface: &Arc<Interface>, peer: &Arc<Peer>) {
        for cell in &self.routes {
            if cell
                .get()
                .is_some_and(|route| Arc::ptr_eq(route.outbox.peer(), peer))
            {
                drop(cell.replace(None));
            }
        }
        if let Some((link, worker)) = self.entry(interface) {
            link.peer_down();
            // Connections are given up if that lasts.
            worker.kick();
        }
    }
}

/// The bytes of a frame that may have a message of the sharing engine. They are copied once: the
/// peer may change those in the ring at any time.
fn sharing_bytes(frame: &RxFrame<'_>) -> Option<[u8; SIZE]> {
    let mut data = [0; SIZE];
    let is_there = frame.len() == SIZE && frame.copy_to(0, data.as_mut_slice().into()).is_ok();
    is_there.then_some(data)
}

impl Route {
    /// To a peer of which nothing has been heard yet.
    fn new(link: Arc<Link>, worker: WorkerRef, outbox: Arc<Outbox>) -> impl PinInit<Self> {
        pin_init!(Self {
            link,
            worker,
            outbox,
            order <- new_spinlock_bh!(Order::default()),
        })
    }

    /// The header of a frame, if it is to be dealt with: of those that are numbered, none behind a
    /// gap.
    ///
    /// # Errors
    ///
    /// `EBADMSG` if it is none, `EPROTO` if a frame before it is missing.
    fn header(&self, frame: &RxFrame<'_>) -> Result<Option<Header>> {
        if !self.link.is_routed() {
            return Header::decode(frame.func_hdr())
                .ok_or_else(error::bad_message)
                .map(Some);
        }
        let (header, number) =
            fabric::split_number(frame.func_hdr()).ok_or_else(error::bad_message)?;
        let header = Header::decode(header).ok_or_else(error::bad_message)?;
        let begins = matches!(header, Header::Hello(_));
        match self.order.lock().arrived(number, begins) {
            Arrival::Next => Ok(Some(header)),
            Arrival::Gap => Err(error::protocol()),
            Arrival::Outside => Ok(None),
        }
    }

    /// The two services do not agree any more: the worker has both start over. What comes behind
    /// that is not for this conversation.
    fn fail(&self, error: Error) {
        self.order.lock().fail();
        self.link.inbox.fail(error);
        self.worker.kick();
    }

    /// Make stores of the peer's processes.
    ///
    /// # Errors
    ///
    /// Those of [`Link::stored`]; but for `ENOTCONN` no honest service brings them about.
    fn store(&self, frame: &RxFrame<'_>) -> Result {
        self.link.stored(frame).inspect_err(|e| {
            if *e != error::not_connected() {
                self.fail(*e);
            }
        })
    }

    /// Leave the data of a frame to the worker.
    fn leave(&self, header: Header, data: &dyn RxData, kind: Kind) -> Result {
        let entered = self.link.inbox.enter(header, data, kind);
        self.worker.kick();
        entered
    }

    /// Leave a message to a port to the worker, with the connection that it comes from and its
    /// number. Without memory, that connection ends.
    fn leave_message(
        &self,
        header: Header,
        (from, number): (u32, u32),
        frame: &RxFrame<'_>,
    ) -> Result {
        match self.link.arrived(from, number) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(e) => {
                self.fail(e);
                return Err(e);
            }
        }
        self.leave(header, &**frame, Kind::ForPort)
            .inspect_err(|e| {
                if inbox::is_of_port(Kind::ForPort, *e) {
                    self.link.lose_message(from);
                    self.worker.kick();
                }
            })
    }

    /// Deal with a message of the sharing engine, or leave it to the worker.
    fn share(&self, header: Header, frame: &RxFrame<'_>) -> Result {
        let Some(data) = sharing_bytes(frame) else {
            return self.leave(header, &**frame, Kind::Other);
        };
        let message = Message::decode(&data);
        if let Some(taken) = message.and_then(|message| self.link.take_placed(&message)) {
            return taken;
        }
        if message.is_some_and(|message| self.link.take_question(&message, &self.outbox)) {
            return Ok(());
        }
        let kind = match message.map(|message| message.what) {
            Some(What::Taken(_)) => Kind::Receipt,
            _ => Kind::Other,
        };
        // What the kind was chosen by, and nothing else, is what waits.
        self.leave(header, &data, kind)
    }
}

impl Links {
    /// Deal with a frame of the peer's service, or leave it to the link's worker.
    fn deal_with(&self, route: &Route, header: Header, frame: &RxFrame<'_>) -> Result {
        match header {
            Header::Signal { life, to, from }
                if life == self.life && route.link.inbox.is_empty() =>
            {
                route.link.signalled(to, from);
                Ok(())
            }
            Header::Trigger { life, from } => {
                let mut total = [0; 4];
                frame.copy_to(0, total.as_mut_slice().into())?;
                if life == self.life {
                    route.link.triggered(from, u32::from_le_bytes(total));
                }
                Ok(())
            }
            Header::Sharing(life) if life == self.life => route.share(header, frame),
            Header::Put { life, from } if life == self.life => route.link.put(from, frame),
            Header::Exchange { life, from } if life == self.life => {
                route.link.exchange(from, frame)
            }
            Header::Fetched { life, to, number } if life == self.life => {
                route.link.fetched(to, number, frame)
            }
            Header::Stores(life) if life == self.life => route.store(frame),
            Header::Message { life, from, number } if life == self.life => {
                route.leave_message(header, (from, number), frame)
            }
            // Of another life.
            Header::Message { .. }
            | Header::Put { .. }
            | Header::Exchange { .. }
            | Header::Fetched { .. }
            | Header::Stores(_) => Ok(()),
            _ => route.leave(header, &**frame, Kind::Other),
        }
    }
}

impl Function for Links {
    fn peer_add(&self, _peer: &Arc<Peer>) {
        // Peers without an interface are reached by frames only.
    }

    fn peer_del(&self, _peer: &Arc<Peer>) {}

    fn receive(&self, _rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
        let peer = frame.src().clone();
        let received = self.with_route(&peer, |route| match route.header(&frame) {
            Ok(Some(header)) => self.deal_with(route, header, &frame),
            Ok(None) => Ok(()),
            Err(e) => {
                if e == error::protocol() {
                    route.fail(e);
                }
                Err(e)
            }
        });
        // Before the interface is known to be up: the peer will say hello again.
        received.unwrap_or(Ok(()))
    }

    fn lost(&self, peer: &Peer) {
        self.with_route(peer, |route| route.fail(error::protocol()));
    }

    fn tx_completed(&self, peer: &Peer, _queue: u16, _units: u32) {
        self.with_route(peer, |route| {
            route.outbox.resume();
            route.link.has_room();
        });
    }
}
