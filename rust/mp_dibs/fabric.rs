// SPDX-License-Identifier: GPL-2.0-only

//! The device's view of all links and buffers, and the function service.

use crate::{
    buffer::Buffer,
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
        atomic::{
            Atomic,
            Relaxed, //
        },
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
    random,
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

/// Milliseconds until clients are told again that a peer has gone: they may have had no memory for it.
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

/// All of it.
#[pin_data]
pub(crate) struct Fabric {
    gid: Gid,
    device: Arc<Device>,
    pub(crate) tally: Arc<Tally>,
    /// By index of the peer; changed under `changes`.
    links: KVVec<RcuArc<Link>>,
    #[pin]
    changes: Mutex<()>,
    /// By number; changed by [`Driver::add`], under `additions`, and [`Driver::remove`].
    buffers: KVVec<RcuArc<Buffer>>,
    #[pin]
    additions: Mutex<()>,
    leaving: Atomic<u32>,
}

fn empty<T: Send + Sync>(count: usize) -> Result<KVVec<RcuArc<T>>> {
    let mut cells = KVVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        cells.push(RcuArc::empty(), GFP_KERNEL)?;
    }
    Ok(cells)
}

impl Fabric {
    /// Without any peer, for a device with a random name.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let gid = Gid::random([random::next_u64(), random::next_u64()]);
        let device = Device::new(&gid.0)?;
        let (links, buffers) = (empty(MAX_PEERS)?, empty(MAX_BUFFERS)?);
        let tally = Arc::new(Tally::default(), GFP_KERNEL)?;
        let this = pin_init!(Self {
            gid,
            device,
            tally,
            links,
            changes <- new_mutex!((), "mp_dibs::Fabric::changes"),
            buffers,
            additions <- new_mutex!((), "mp_dibs::Fabric::additions"),
            leaving: Atomic::new(0),
        });
        Arc::pin_init(this, GFP_KERNEL)
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

    /// Make a link to a peer and enter it. Under `changes`.
    fn open(&self, cell: &RcuArc<Link>, peer: &Arc<Peer>) {
        match Link::new(peer, self.gid, &self.tally) {
            Ok(link) => {
                cell.replace(Some(link.clone()));
                link.greet();
            }
            Err(e) => pr_info!(
                "peer {:08x}: no memory to share: error {}\n",
                peer.id().0,
                e.to_errno()
            ),
        }
    }

    /// Take a link out, and tell the clients. Under `changes`.
    fn close(&self, cell: &RcuArc<Link>) -> Option<Arc<Link>> {
        let link = cell.replace(None)?;
        if let Some(gid) = link.end() {
            self.device.gone(&gid.0);
            kick(AGAIN_MS);
        }
        Some(link)
    }

    /// Replace links to peers whose devices have gone.
    fn replace_links(&self) {
        let _changes = self.changes.lock();
        for cell in &self.links {
            let Some(answer) = cell.get().and_then(|link| link.to_replace()) else {
                continue;
            };
            if let Some(link) = self.close(cell) {
                // Nothing of this host's is written by a device that has gone.
                link.let_go_all();
                if answer {
                    link.answer_farewell();
                }
                self.open(cell, link.peer());
            }
        }
    }

    /// Tell clients of peers that have gone while they have buffers for these. Whether there are any.
    fn tell_again(&self) -> bool {
        let mut lost = false;
        for buffer in self.buffers.iter().filter_map(|cell| cell.get()) {
            if buffer.link.is_ended() {
                self.device.gone(&buffer.rgid.0);
                lost = true;
            }
        }
        lost
    }

    /// Tell all peers that the device, which has no buffers any more, goes, and wait for their answers for
    /// a time. What is not answered stays in quarantine.
    pub(crate) fn leave(&self) {
        self.leaving.store(1, Relaxed);
        let _changes = self.changes.lock();
        self.all_links().for_each(|link| link.leave());
        for _ in 0..FAREWELL_MS {
            if !self.all_links().any(|link| link.is_leaving()) {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        for link in self.all_links().filter(|link| link.has_left()) {
            link.let_go_all();
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
        buffer.receive(moved, &self.tally).inspect_err(|e| {
            if *e == error::protocol() {
                self.tally.refused_frames.add(1);
                // Both clients end what they have with each other.
                self.device.gone(&buffer.rgid.0);
                link.broken();
            }
        })?;
        self.tally.received_signals.add(1);
        self.device.signal(index, u32::from(moved.signal));
        Ok(())
    }
}

impl Function for Fabric {
    fn peer_add(&self, peer: &Arc<Peer>) {
        let is_own = peer.id() == service::self_id();
        if is_own || peer.hop().is_some() || self.leaving.load(Relaxed) != 0 {
            return;
        }
        let _changes = self.changes.lock();
        if let Some(cell) = self.links.get(peer.index() as usize) {
            self.open(cell, peer);
        }
    }

    fn peer_del(&self, peer: &Arc<Peer>) {
        let _changes = self.changes.lock();
        if let Some(cell) = self.links.get(peer.index() as usize) {
            if cell
                .get()
                .is_some_and(|link| Arc::ptr_eq(link.peer(), peer))
            {
                self.close(cell);
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
            Message::Broken => {
                let gid = link.partner().ok_or(error::not_connected())?;
                self.device.gone(&gid.0);
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
        let link = self.link_to(gid).ok_or(error::not_connected())?;
        let _additions = self.additions.lock();
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
        if self.leaving.load(Relaxed) == 0 {
            self.replace_links();
        }
        self.all_links().for_each(|link| link.settle());
        self.tell_again().then_some(AGAIN_MS)
    }
}
