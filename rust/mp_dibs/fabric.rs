// SPDX-License-Identifier: GPL-2.0-only

//! The device's view of all links and buffers, and the function service.

use crate::{
    buffer::{
        AtEnd,
        Buffer, //
    },
    dibs::{
        Added,
        Device,
        Driver,
        Gid as RawGid,
        MAX_BUFFERS, //
    },
    link::Link,
    stats::Tally,
    SERVICE, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        rcu,
        Arc,
        ArcBorrow,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_kernel::{
    contiguous::ContiguousPages,
    error,
    sync::RcuArc,
    worker::{
        Work,
        Worker, //
    }, //
};
use mp_proto::dibs::{
    message::MAX_SIZE,
    Gid,
    Message,
    Moved,
    Token,
    MAX_BUFFER,
    MIN_BUFFER, //
};
use mp_transport::{
    frame::{
        RxContext,
        RxFrame, //
    },
    function::Function,
    peer::Peer,
    service::{
        self,
        MAX_PEERS, //
    }, //
};

/// Milliseconds until a link is tried again for which there was no memory, and until clients should have
/// heard of the end of one.
const AGAIN_MS: u32 = 1000;

/// Milliseconds to wait for peers when the module goes.
const FAREWELL_MS: u32 = 1000;

/// What replaces links and gives back memory, while the module is loaded.
static WORKER: RcuArc<Worker<Fabric>> = RcuArc::empty();

/// Have the worker run in so many milliseconds at the latest. Any context.
pub(crate) fn kick(ms: u32) {
    if let Some(worker) = WORKER.load(&rcu::read_lock()) {
        match ms {
            0 => worker.kick(),
            _ => worker.kick_once_in(ms),
        }
    }
}

/// Runs the worker until it is dropped.
pub(crate) struct Working;

impl Working {
    pub(crate) fn new(worker: Arc<Worker<Fabric>>) -> Self {
        WORKER.replace(Some(worker));
        Self
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        drop(WORKER.replace(None));
    }
}

/// What links are made of.
struct Changes {
    /// Name of the device, once it is registered.
    gid: Option<Gid>,
    /// By index: peers that are there, and have no link yet.
    waiting: KVVec<Option<Arc<Peer>>>,
    /// The device goes.
    leaving: bool,
}

/// All of it.
///
/// Locks: `changes`, then `additions`, then those of a link or a buffer.
#[pin_data]
pub(crate) struct Fabric {
    device: Arc<Device>,
    pub(crate) tally: Arc<Tally>,
    /// By index of the peer; changed under `changes`.
    links: KVVec<RcuArc<Link>>,
    #[pin]
    changes: Mutex<Changes>,
    /// By number; changed by [`Driver::add`], under `additions`, and [`Driver::remove`].
    buffers: KVVec<RcuArc<Buffer>>,
    /// No link ends meanwhile.
    #[pin]
    additions: Mutex<()>,
}

fn empty<T: Send + Sync>(count: usize) -> Result<KVVec<RcuArc<T>>> {
    let mut cells = KVVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        cells.push(RcuArc::empty(), GFP_KERNEL)?;
    }
    Ok(cells)
}

impl Fabric {
    /// Without any peer, for a device that is to be registered.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let device = Device::new()?;
        let (links, buffers) = (empty(MAX_PEERS)?, empty(MAX_BUFFERS)?);
        let mut waiting = KVVec::with_capacity(MAX_PEERS, GFP_KERNEL)?;
        waiting.extend_with(MAX_PEERS, None, GFP_KERNEL)?;
        let changes = Changes {
            gid: None,
            waiting,
            leaving: false,
        };
        let tally = Arc::new(Tally::default(), GFP_KERNEL)?;
        let this = pin_init!(Self {
            device,
            tally,
            links,
            changes <- new_mutex!(changes, "mp_dibs::Fabric::changes"),
            buffers,
            additions <- new_mutex!((), "mp_dibs::Fabric::additions"),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// The device is registered by that name: it is told to all peers.
    pub(crate) fn begin(&self, gid: Gid) {
        self.changes.lock().gid = Some(gid);
        kick(0);
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Counted references to all links. Process context.
    fn all_links(&self) -> impl Iterator<Item = Arc<Link>> + '_ {
        self.links.iter().filter_map(|cell| cell.get())
    }

    /// The link to a partner.
    fn link_to(&self, gid: &RawGid) -> Option<Arc<Link>> {
        let gid = Gid(*gid);
        self.all_links().find(|link| link.partner() == Some(gid))
    }

    /// The link to that peer in its present life.
    fn link_of<'g>(&self, peer: &Arc<Peer>, guard: &'g rcu::Guard) -> Option<ArcBorrow<'g, Link>> {
        let link = self.links.get(peer.index() as usize)?.load(guard)?;
        Arc::ptr_eq(link.peer(), peer).then_some(link)
    }

    pub(crate) fn buffers_in_use(&self) -> u64 {
        let guard = rcu::read_lock();
        let used = |cell: &&RcuArc<Buffer>| cell.load(&guard).is_some();
        self.buffers.iter().filter(used).count() as u64
    }

    pub(crate) fn slots_in_use(&self) -> u64 {
        self.all_links()
            .map(|link| link.slots_in_use() as u64)
            .sum()
    }

    pub(crate) fn partners(&self) -> u64 {
        let is_partner = |link: &Arc<Link>| link.partner().is_some();
        self.all_links().filter(is_partner).count() as u64
    }

    /// Make links to all peers that have none. Whether some are to be tried again.
    fn open_links(&self, changes: &mut Changes) -> bool {
        let Some(gid) = changes.gid.filter(|_| !changes.leaving) else {
            return false;
        };
        let mut lacks = false;
        for (cell, waiting) in self.links.iter().zip(changes.waiting.iter_mut()) {
            let Some(peer) = waiting.take() else {
                continue;
            };
            if self.open(cell, &peer, gid) == Err(ENOMEM) {
                *waiting = Some(peer);
                lacks = true;
            }
        }
        lacks
    }

    /// Make a link to a peer and enter it. Under `changes`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory now, of the kernel or of the link.
    fn open(&self, cell: &RcuArc<Link>, peer: &Arc<Peer>, gid: Gid) -> Result {
        if gid.host() != service::self_id() {
            pr_warn!("this host has another id now: mp_dibs is to be unloaded and loaded again\n");
            return Ok(());
        }
        match Link::new(peer, gid, &self.tally) {
            Ok(link) => {
                self.tell_of_lost();
                cell.replace(Some(link.clone()));
                link.greet();
                Ok(())
            }
            Err(e) if e == ENOMEM || e == ENOSPC => Err(ENOMEM),
            Err(e) => {
                pr_info!(
                    "peer {:08x}: no memory to share: error {}\n",
                    peer.id().0,
                    e.to_errno()
                );
                Ok(())
            }
        }
    }

    /// Take a link out, and end what the clients have over it. The partner may write to its buffers until
    /// the epoch ends, unless it `has_let_go`. Under `changes`.
    fn close(&self, cell: &RcuArc<Link>, has_let_go: bool) -> Option<Arc<Link>> {
        let link = cell.replace(None)?;
        let _additions = self.additions.lock();
        let gid = link.end();
        let is_its = |buffer: &Arc<Buffer>| Arc::ptr_eq(&buffer.link, &link);
        for buffer in self.buffers.iter().filter_map(|cell| cell.get()) {
            if is_its(&buffer) {
                buffer.end();
            }
        }
        link.give_back(has_let_go);
        if let Some(gid) = gid {
            self.device.gone(&gid.0);
            kick(AGAIN_MS);
        }
        Some(link)
    }

    /// End connections of links that have ended, whose clients have had no memory to hear of that. Whether
    /// some are to be looked at again.
    fn end_connections(&self) -> bool {
        let mut wait = false;
        for (index, cell) in self.buffers.iter().enumerate() {
            match cell.get().map(|buffer| buffer.see_to_end()) {
                Some(AtEnd::Signal) => self.device.signal(index as u32, 0),
                Some(AtEnd::Wait) => wait = true,
                _ => {}
            }
        }
        wait
    }

    /// Replace links to peers whose devices have gone. Under `changes`.
    fn replace_links(&self, changes: &mut Changes) {
        for (cell, waiting) in self.links.iter().zip(changes.waiting.iter_mut()) {
            let Some(answer) = cell.get().and_then(|link| link.to_replace()) else {
                continue;
            };
            // Nothing of this host's is written by a device that has gone.
            if let Some(link) = self.close(cell, true) {
                if answer {
                    link.answer_farewell();
                }
                *waiting = Some(link.peer().clone());
            }
        }
    }

    /// Tell clients once more of devices that have gone, before one of these may be back: they keep
    /// nothing of the life before then, but may have had no memory to hear of its end. Under `changes`.
    fn tell_of_lost(&self) {
        let mut told = None;
        for buffer in self.buffers.iter().filter_map(|cell| cell.get()) {
            let gid = buffer.rgid;
            let is_lost = buffer.link.is_ended() && self.link_to(&gid.0).is_none();
            if is_lost && told.replace(gid) != Some(gid) {
                self.device.gone(&gid.0);
            }
        }
    }

    /// Tell all peers that the device, which has no buffers any more, goes, and wait for their answers for
    /// a time. What is not answered stays in quarantine.
    pub(crate) fn leave(&self) {
        {
            let mut changes = self.changes.lock();
            changes.leaving = true;
            self.all_links().for_each(|link| link.leave());
        }
        for _ in 0..FAREWELL_MS {
            if !self.all_links().any(|link| link.is_leaving()) {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        let _changes = self.changes.lock();
        for link in self.all_links().filter(|link| link.has_left()) {
            link.give_back(true);
        }
    }

    /// Take what a peer says has arrived. Softirq context, under RCU.
    fn moved(&self, link: &Link, moved: &Moved, guard: &rcu::Guard) -> Result {
        let unknown = || {
            self.tally.unknown_buffers.add(1);
            error::stale()
        };
        let index = link.lent(moved.token).ok_or_else(unknown)?;
        let cell = self.buffers.get(index as usize).ok_or(EINVAL)?;
        let buffer = cell.load(guard).filter(|b| b.token == moved.token);
        let buffer = buffer.ok_or_else(unknown)?;
        let received = buffer.receive(moved, &self.tally);
        match received {
            Ok(()) => self.tally.received_signals.add(1),
            Err(e) if e == error::protocol() => self.tally.refused_frames.add(1),
            Err(e) => {
                if e == error::stale() {
                    self.tally.late_frames.add(1);
                }
                return Err(e);
            }
        }
        self.device.signal(index, u32::from(moved.signal));
        received
    }
}

impl Function for Fabric {
    fn peer_add(&self, peer: &Arc<Peer>) {
        if peer.id() == service::self_id() || peer.hop().is_some() {
            return;
        }
        let mut changes = self.changes.lock();
        if let Some(waiting) = changes.waiting.get_mut(peer.index() as usize) {
            *waiting = Some(peer.clone());
        }
        if self.open_links(&mut changes) {
            kick(AGAIN_MS);
        }
    }

    fn peer_del(&self, peer: &Arc<Peer>) {
        let mut changes = self.changes.lock();
        let index = peer.index() as usize;
        if let Some(waiting) = changes.waiting.get_mut(index) {
            waiting.take_if(|waiting| Arc::ptr_eq(waiting, peer));
        }
        if let Some(cell) = self.links.get(index) {
            let is_its = |link: &Arc<Link>| Arc::ptr_eq(link.peer(), peer);
            if cell.get().is_some_and(|link| is_its(&link)) {
                self.close(cell, false);
            }
        }
    }

    fn receive(&self, _rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
        let guard = rcu::read_lock();
        let link = self.link_of(frame.src(), &guard);
        let link = link.ok_or(error::not_connected())?;
        let mut bytes = [0; MAX_SIZE];
        let bytes = bytes.get_mut(..frame.len()).ok_or(error::bad_message())?;
        frame.copy_to(0, (&mut *bytes).into())?;
        match Message::decode(bytes).map_err(|_| error::bad_message())? {
            Message::Hello(hello) => link.greeted(hello),
            Message::Moved(moved) => self.moved(&link, &moved, &guard),
            Message::Release(token) => {
                link.released(token);
                Ok(())
            }
            Message::Gone(token) => link.gone(token),
            Message::Event { code, info } => {
                let gid = link.partner().ok_or(error::not_connected())?;
                if !link.may_send_event() {
                    self.tally.refused_events.add(1);
                    return Err(EAGAIN);
                }
                self.device.event(&gid.0, code, info);
                Ok(())
            }
            Message::Bye => {
                link.bid_farewell();
                Ok(())
            }
            Message::Left => {
                link.left();
                Ok(())
            }
        }
    }

    fn tx_completed(&self, peer: &Peer, queue: u16, _units: u32) {
        if queue != 0 {
            return;
        }
        let guard = rcu::read_lock();
        let cell = self.links.get(peer.index() as usize);
        if let Some(link) = cell.and_then(|cell| cell.load(&guard)) {
            link.room();
        }
    }
}

impl Driver for Fabric {
    fn query(&self, gid: &RawGid) -> Result {
        let guard = rcu::read_lock();
        let gid = Gid(*gid);
        let mut links = self.links.iter().filter_map(|cell| cell.load(&guard));
        match links.any(|link| link.partner() == Some(gid)) {
            true => Ok(()),
            false => Err(ENETUNREACH),
        }
    }

    fn add(&self, gid: &RawGid, len: u32) -> Result<Added> {
        if !(MIN_BUFFER..=MAX_BUFFER).contains(&len) {
            return Err(EINVAL);
        }
        let _additions = self.additions.lock();
        let link = self.link_to(gid).ok_or(error::not_connected())?;
        let mut cells = self.buffers.iter().enumerate();
        let free = cells.find(|(_, cell)| cell.get().is_none());
        let (number, cell) = free.ok_or(ENOSPC)?;
        let index = number as u32;
        let pages = ContiguousPages::compound(len.next_power_of_two() as usize)?;
        let address = pages.as_ptr();
        let landing = Arc::new(link.memory.alloc(u64::from(len))?, GFP_KERNEL)?;
        link.memory.grant(SERVICE, &landing)?;
        let token = link.lend(index, len, &landing).inspect_err(|_| {
            // The peer does not know of it.
            let _ = link.memory.peer_let_go(SERVICE, landing.off());
        })?;
        let buffer = Buffer::new(&link, token, Gid(*gid), len, pages, &landing)
            .inspect_err(|_| link.take_back(token))?;
        cell.replace(Some(buffer));
        Ok(Added {
            address,
            token: token.raw(),
            index,
        })
    }

    fn remove(&self, index: u32, token: u64) -> Result {
        let cell = self.buffers.get(index as usize).ok_or(EINVAL)?;
        let is_it = |buffer: &Arc<Buffer>| buffer.token.raw() == token;
        if !cell.get().is_some_and(|buffer| is_it(&buffer)) {
            return Err(EINVAL);
        }
        // Nothing is received for it any more when this returns.
        let buffer = cell.replace(None).ok_or(EINVAL)?;
        buffer.link.take_back(buffer.token);
        Ok(())
    }

    fn move_data(&self, token: u64, signal: Option<u32>, offset: u32, data: &[u8]) -> Result {
        let guard = rcu::read_lock();
        let token = Token::from_raw(token);
        let mut links = self.links.iter().filter_map(|cell| cell.load(&guard));
        match links.find(|link| link.id() == token.owner()) {
            Some(link) => link.move_data(token, signal, offset, data),
            None => {
                self.tally.refused_moves.add(1);
                Err(error::not_connected())
            }
        }
    }

    fn event(&self, gid: &RawGid, code: u32, info: u64) -> Result {
        let link = self.link_to(gid).ok_or(error::not_connected())?;
        link.event(code, info)
    }
}

impl Work for Fabric {
    fn run(&self) -> Option<u32> {
        let lacks = {
            let mut changes = self.changes.lock();
            if !changes.leaving {
                self.replace_links(&mut changes);
            }
            self.open_links(&mut changes)
        };
        self.all_links().for_each(|link| link.settle());
        let waits = self.end_connections();
        (lacks || waits).then_some(AGAIN_MS)
    }
}
