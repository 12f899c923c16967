// SPDX-License-Identifier: GPL-2.0-only

//! Bridges between hosts of a run: a port at each host, with doorbells, scratchpads and windows.
//!
//! What is stored through a window takes the way that `mp_bridge_model` describes. The contexts
//! of a host stand for its processors: each has write-combining buffers of its own, which are written
//! out by a barrier, by an access to a register, and after [`DRAIN`]. What was written out is
//! posted: writes from one port to another one arrive in their order, registers among them, and take
//! their time; some arrive before it, while the target looks. Doorbells are among them, or have no
//! order with anything. What arrives while the link is down is lost; what is held up arrives later.

use crate::{
    ntb_ctx_ops,
    pci_dev,
    spin_lock_irqsave_flags,
    spin_unlock_irqrestore_flags, //
};
use bindings::{
    device,
    spinlock_t, //
};
use core::{
    cell::{
        Cell,
        RefCell,
        UnsafeCell, //
    },
    ffi::c_void,
    ptr, //
};
use machine::{
    alarm::Alarm,
    chance,
    context,
    dice::Odds,
    fail,
    memory,
    point,
    spawn_on,
    world::below,
    Host,
    Kind, //
};
use mp_bridge_model::{
    Buffers,
    Chance,
    Line,
    Way as Posts, //
};
use std::{
    collections::BTreeMap,
    rc::{
        Rc,
        Weak, //
    }, //
};

/// Scratchpads of a port.
const PADS: usize = 32;
/// Nanoseconds after which the buffers of all processors have been written out.
const DRAIN: u64 = 2_000_000;
/// Nanoseconds after which what is held up is looked at again.
const STALL: u64 = 100_000;

/// What a bridge is like.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Windows of a port to each other one.
    pub windows: usize,
    /// Bytes of each; a power of two from a page on.
    pub window: usize,
    /// Doorbell bits, which all ports share.
    pub doorbells: u32,
    /// Nanoseconds that a write may take.
    pub latency: u64,
    /// How often a doorbell raises no interrupt.
    pub lost: Odds,
    /// Whether doorbells overtake what was posted before them, come late, twice or not at all.
    pub unordered: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            windows: 1,
            window: 1 << 17,
            doorbells: 18,
            latency: 2_000,
            lost: Odds::NEVER,
            unordered: false,
        }
    }
}

/// Random numbers of the run.
struct Dice;

impl Chance for Dice {
    fn below(&self, n: u64) -> u64 {
        below(n)
    }
}

/// Where a window leads to.
#[derive(Clone, Copy)]
struct Translation {
    dma: u64,
    size: u64,
}

/// A write on its way.
enum Posted {
    /// Into what this window leads to.
    Memory(usize, Line),
    Pad(usize, u32),
    Doorbells(u64),
}

/// The way from one port to another one.
struct Way {
    /// With the times at which they were posted.
    posted: RefCell<Posts<(u64, Posted)>>,
    /// A context delivers.
    is_served: Cell<bool>,
}

impl Way {
    fn new(latency: u64) -> Self {
        Self {
            posted: RefCell::new(Posts::new(latency)),
            is_served: Cell::new(false),
        }
    }
}

/// A port of a bridge: the device that the host's NTB core knows.
#[repr(C)]
pub struct ntb_dev {
    pub dev: device,
    pub pdev: *mut pci_dev,
    number: usize,
    bridge: Weak<Bridge>,
    host: Rc<Host>,
    /// The first address of its windows.
    base: u64,
    /// Held while the client is told of an event.
    lock: UnsafeCell<spinlock_t>,
    client: Cell<(*mut c_void, *const ntb_ctx_ops)>,
    pub(crate) is_bound: Cell<bool>,
    pads: [Cell<u32>; PADS],
    doorbells: Cell<u64>,
    masked: Cell<u64>,
    is_enabled: Cell<bool>,
    /// Where the windows of this port lead to, by the ports that they lead to.
    windows: Box<[Cell<Option<Translation>>]>,
    /// To each port.
    ways: Box<[Way]>,
    pub(crate) is_offline: Cell<bool>,
    pub(crate) has_failed: Cell<bool>,
}

/// A bridge.
pub struct Bridge {
    plan: Plan,
    ports: RefCell<Vec<Rc<ntb_dev>>>,
    is_cut: Cell<bool>,
    is_stalled: Cell<bool>,
    slowest: Cell<u64>,
}

/// The ports of a host, and what is mapped of their windows.
#[derive(Default)]
pub(crate) struct Ports {
    list: RefCell<Vec<(Rc<Bridge>, Rc<ntb_dev>)>>,
    mapped: RefCell<BTreeMap<usize, Mapped>>,
    /// The buffers of processors that are not empty, by context.
    buffers: RefCell<BTreeMap<u64, Buffers>>,
    drain: RefCell<Option<Rc<Alarm>>>,
}

/// A window that is mapped.
#[derive(Clone)]
struct Mapped {
    len: usize,
    port: Rc<ntb_dev>,
    window: usize,
}

/// The addresses of windows begin here, 4 GiB for each port.
const WINDOWS: u64 = 1 << 40;

impl core::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}, {} ns", self.plan, self.slowest())
    }
}

impl Bridge {
    /// A bridge between hosts.
    ///
    /// # Panics
    ///
    /// If a plan has windows without a page.
    pub fn new(plan: Plan, hosts: &[Rc<Host>]) -> Rc<Self> {
        assert!(plan.window.is_power_of_two() && plan.window >= bindings::PAGE_SIZE);
        let this = Rc::new(Self {
            plan,
            ports: RefCell::default(),
            is_cut: Cell::new(false),
            is_stalled: Cell::new(false),
            slowest: Cell::new(0),
        });
        for (number, host) in hosts.iter().enumerate() {
            let ports = host.own::<Ports>();
            let base = WINDOWS + ((ports.list.borrow().len() as u64) << 32);
            let port = Rc::new(ntb_dev::new(&this, hosts.len(), number, host, base));
            port.init_lock();
            this.ports.borrow_mut().push(port.clone());
            ports.list.borrow_mut().push((this.clone(), port));
        }
        this
    }

    /// Hold up all that is posted, or let it arrive. Nobody is told.
    pub fn stall(&self, is_stalled: bool) {
        self.is_stalled.set(is_stalled);
    }

    /// Whether each doorbell raises an interrupt, behind what was posted before it.
    pub fn loses_nothing(&self) -> bool {
        self.plan.lost == Odds::NEVER && !self.plan.unordered
    }

    /// Nanoseconds that a write has taken at most.
    pub fn slowest(&self) -> u64 {
        self.slowest.get()
    }

    /// Cut the cable, or plug it in: all links go down, or may come up.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.set(is_cut);
        self.link_changed();
    }

    /// How many refer to the device at a host, beside its bus.
    pub fn references(&self, number: usize) -> u32 {
        self.ports.borrow()[number].dev.references() - 1
    }

    /// Raise an event at all ports.
    pub(crate) fn link_changed(&self) {
        for port in self.ports.borrow().iter().cloned() {
            let host = port.host.clone();
            spawn_on(&host, "link event", Kind::Interrupt, move || {
                port.link_event();
            });
        }
    }

    fn port(&self, number: usize) -> Rc<ntb_dev> {
        self.ports.borrow()[number].clone()
    }

    /// Whether the link between two ports is up.
    fn is_up(&self, one: &ntb_dev, other: &ntb_dev) -> bool {
        !self.is_cut.get() && one.is_enabled.get() && other.is_enabled.get()
    }
}

impl ntb_dev {
    fn new(bridge: &Rc<Bridge>, ports: usize, number: usize, host: &Rc<Host>, base: u64) -> Self {
        let pad = [0, u32::MAX][below(2) as usize];
        Self {
            dev: device::new("ntb"),
            pdev: ptr::null_mut(),
            number,
            bridge: Rc::downgrade(bridge),
            host: host.clone(),
            base,
            lock: UnsafeCell::new(spinlock_t::default()),
            client: Cell::new((ptr::null_mut(), ptr::null())),
            is_bound: Cell::new(false),
            pads: [const { Cell::new(0) }; PADS].map(|_| Cell::new(pad)),
            doorbells: Cell::new(0),
            masked: Cell::new(0),
            is_enabled: Cell::new(false),
            windows: (0..bridge.plan.windows * (ports - 1))
                .map(|_| Cell::new(None))
                .collect(),
            ways: (0..ports).map(|_| Way::new(bridge.plan.latency)).collect(),
            is_offline: Cell::new(false),
            has_failed: Cell::new(false),
        }
    }

    fn init_lock(&self) {
        let class = kernel::static_lock_class!().as_ptr();
        let name = c"ntb_dev::ctx_lock".as_ptr();
        // SAFETY: It stays where it is, in an `Rc`; name and class are statics.
        unsafe { bindings::__spin_lock_init(self.lock.get(), name.cast(), class) };
    }

    pub(crate) fn bridge(&self) -> Rc<Bridge> {
        self.bridge
            .upgrade()
            .expect("a bridge lives as its hosts do")
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn peers(&self) -> usize {
        self.ways.len() - 1
    }

    /// The port that is this peer; `None` if there is none.
    pub(crate) fn peer(&self, pidx: i32) -> Option<Rc<ntb_dev>> {
        let pidx = usize::try_from(pidx).ok().filter(|p| *p < self.peers())?;
        let number = pidx + usize::from(pidx >= self.number);
        Some(self.bridge().port(number))
    }

    /// This port as that one counts its peers.
    pub(crate) fn index_at(&self, other: &ntb_dev) -> usize {
        self.number - usize::from(self.number > other.number)
    }

    pub(crate) fn is_up(&self, peer: &ntb_dev) -> bool {
        point();
        self.bridge().is_up(self, peer)
    }

    pub(crate) fn enable(&self, is_enabled: bool) {
        register();
        if self.is_enabled.replace(is_enabled) != is_enabled {
            self.bridge().link_changed();
        }
    }

    /// Windows, to all peers.
    pub(crate) fn windows(&self) -> usize {
        self.windows.len()
    }

    pub(crate) fn window_size(&self) -> usize {
        self.bridge().plan.window
    }

    /// Where a window lies for this host; `None` if there is none.
    pub(crate) fn window_at(&self, window: i32) -> Option<u64> {
        let window = usize::try_from(window).ok();
        let window = window.filter(|window| *window < self.windows())?;
        Some(self.base + (window * self.window_size()) as u64)
    }

    /// Let the window of a peer lead to memory of this host, or nowhere; `false` if there is no such
    /// window or that is wrong.
    pub(crate) fn lead(&self, peer: &ntb_dev, window: i32, to: Option<(u64, u64)>) -> bool {
        register();
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        let is_of_peer = |w: &usize| w % peer.peers() == self.index_at(peer);
        let Some(window) = peer
            .windows
            .get(Some(window).filter(is_of_peer).unwrap_or(usize::MAX))
        else {
            return false;
        };
        let page = bindings::PAGE_SIZE as u64;
        let fits = |(dma, size): &(u64, u64)| {
            dma % page == 0 && *size <= self.window_size() as u64 && size % page == 0
        };
        if to.as_ref().is_some_and(|to| !fits(to)) {
            return false;
        }
        window.set(to.map(|(dma, size)| Translation { dma, size }));
        true
    }

    pub(crate) fn valid_doorbells(&self) -> u64 {
        (1 << self.bridge().plan.doorbells) - 1
    }

    pub(crate) fn doorbells(&self) -> u64 {
        register();
        self.doorbells.get()
    }

    pub(crate) fn clear_doorbells(&self, bits: u64) {
        register();
        self.doorbells.set(self.doorbells.get() & !bits);
    }

    pub(crate) fn masked(&self) -> u64 {
        register();
        self.masked.get()
    }

    /// Mask doorbells, or unmask them, which raises an interrupt for those that have rung.
    pub(crate) fn mask(&self, bits: u64, is_masked: bool) {
        register();
        let masked = self.masked.get();
        if is_masked {
            return self.masked.set(masked | bits);
        }
        self.masked.set(masked & !bits);
        if self.doorbells.get() & masked & bits != 0 {
            self.interrupt();
        }
    }

    /// Whether a read gives all ones now: it may as long as the cable is cut.
    pub(crate) fn reads_ones(&self) -> bool {
        self.bridge().is_cut.get() && chance(Odds(1, 2))
    }

    pub(crate) fn pad(&self, at: i32) -> Option<&Cell<u32>> {
        self.pads.get(usize::try_from(at).ok()?)
    }

    pub(crate) fn pads(&self) -> usize {
        PADS
    }

    /// Ring doorbells of all peers, behind what is posted if they have an order.
    pub(crate) fn ring(&self, bits: u64) {
        register();
        let bridge = self.bridge();
        for to in (0..self.ways.len()).filter(|to| *to != self.number) {
            if !bridge.plan.unordered {
                self.post(to, Posted::Doorbells(bits));
                continue;
            }
            let times = [0, 2, 2].get(below(32) as usize).copied().unwrap_or(1);
            (0..times).for_each(|_| self.ring_apart(to, bits));
        }
    }

    /// Ring doorbells of a peer at any time.
    fn ring_apart(&self, to: usize, bits: u64) {
        let (bridge, from) = (self.bridge(), self.number);
        let host = bridge.port(to).host.clone();
        spawn_on(&host, "doorbell under way", Kind::Process, move || {
            machine::sleep_until(machine::now() + below(bridge.plan.latency));
            let (from, target) = (bridge.port(from), bridge.port(to));
            if bridge.is_up(&from, &target) {
                from.arrive(&target, Posted::Doorbells(bits));
            }
        });
    }

    /// Store a scratchpad of a peer, behind what is posted.
    pub(crate) fn store_pad(&self, peer: &ntb_dev, at: usize, value: u32) {
        register();
        self.post(peer.number, Posted::Pad(at, value));
    }

    /// Tell the client something, as the NTB core does.
    fn tell(&self, tell: impl FnOnce(&ntb_ctx_ops, *mut c_void)) {
        let lock = self.lock.get();
        // SAFETY: Initialised with the port.
        let flags = unsafe { spin_lock_irqsave_flags(lock) };
        let (ctx, ops) = self.client.get();
        // SAFETY: Null, or what a client has set and not cleared, which takes the lock.
        if let Some(ops) = unsafe { ops.as_ref() } {
            tell(ops, ctx);
        }
        // SAFETY: Locked above.
        unsafe { spin_unlock_irqrestore_flags(lock, flags) };
    }

    /// Set or clear what the client hears of events by; `false` if it is set already.
    pub(crate) fn set_client(&self, ctx: *mut c_void, ops: *const ntb_ctx_ops) -> bool {
        let lock = self.lock.get();
        // SAFETY: Initialised with the port.
        let flags = unsafe { spin_lock_irqsave_flags(lock) };
        let is_free = ops.is_null() || self.client.get().1.is_null();
        if is_free {
            self.client.set((ctx, ops));
        }
        // SAFETY: Locked above.
        unsafe { spin_unlock_irqrestore_flags(lock, flags) };
        is_free
    }

    pub(crate) fn link_event(&self) {
        self.tell(|ops, ctx| {
            if let Some(event) = ops.link_event {
                // SAFETY: The client's function with its context.
                unsafe { event(ctx) };
            }
        });
    }

    /// Raise the interrupt of the doorbells.
    fn interrupt(&self) {
        let port = self.bridge().port(self.number);
        spawn_on(&self.host, "doorbell", Kind::Interrupt, move || {
            port.tell(|ops, ctx| {
                if let Some(event) = ops.db_event {
                    // SAFETY: The client's function with its context.
                    unsafe { event(ctx, 0) };
                }
            });
        });
    }

    /// The port that a window leads to.
    fn target_of(&self, window: usize) -> usize {
        let pidx = window % self.peers();
        pidx + usize::from(pidx >= self.number)
    }

    fn post(&self, to: usize, what: Posted) {
        let way = &self.ways[to];
        let now = machine::now();
        way.posted.borrow_mut().post(now, (now, what), &Dice);
        if !way.is_served.replace(true) {
            let (bridge, from) = (self.bridge(), self.number);
            spawn_on(&bridge.port(to).host, "bridge", Kind::Process, move || {
                bridge.port(from).deliver(to);
            });
        }
    }

    /// Let all that is posted arrive.
    fn deliver(&self, to: usize) {
        let (bridge, way) = (self.bridge(), &self.ways[to]);
        let target = bridge.port(to);
        loop {
            let due = way.posted.borrow().due();
            match due {
                None => break,
                _ if bridge.is_stalled.get() => {
                    machine::sleep_until(machine::now() + STALL);
                    continue;
                }
                // Before its time: the target looks just then.
                Some(at) if at > machine::now() && !chance(Odds(1, 8)) => machine::sleep_until(at),
                Some(_) => context::relax(),
            }
            let Some((due, (at, what))) = way.posted.borrow_mut().take() else {
                break;
            };
            if !bridge.is_up(self, &target) {
                continue;
            }
            let took = machine::now() - at;
            bridge.slowest.set(bridge.slowest.get().max(took));
            if let Some(rest) = self.arrive(&target, what) {
                way.posted.borrow_mut().put_back((due, (at, rest)));
            }
        }
        way.is_served.set(false);
    }

    /// A write arrives; what of it does not yet.
    fn arrive(&self, target: &ntb_dev, what: Posted) -> Option<Posted> {
        match what {
            Posted::Pad(at, value) => target.pads[at].set(value),
            Posted::Doorbells(bits) => {
                let before = target.doorbells.get();
                target.doorbells.set(before | bits);
                let lost = target.bridge().plan.lost;
                if bits & !before & !target.masked.get() != 0 && !chance(lost) {
                    target.interrupt();
                }
            }
            Posted::Memory(window, mut line) => {
                let now = line.arriving(&Dice);
                if let Some(Translation { dma, size }) = self.windows[window].get() {
                    let bytes = line.data.iter().enumerate();
                    for (n, byte) in bytes.filter(|(n, _)| now >> n & 1 != 0) {
                        let off = (line.at + n) as u64;
                        if off < size {
                            store_byte(&target.host, dma + off, *byte);
                        }
                    }
                }
                return (line.set != 0).then_some(Posted::Memory(window, line));
            }
        }
        None
    }
}

/// Whether each port of the calling host has a client: one whose probe function has failed has not.
pub fn ports_are_bound() -> bool {
    let ports = machine::host().own::<Ports>();
    let all = ports.all();
    all.iter().all(|port| port.is_bound.get())
}

/// A bridge stores into memory of a host.
fn store_byte(host: &Host, dma: u64, byte: u8) {
    match memory::at_phys(host, dma, 1) {
        // SAFETY: Memory that is there; readers of it expect that it changes.
        Some(at) => unsafe { at.write_volatile(byte) },
        None => fail("a bridge stores where no memory is"),
    }
}

/// An access to a register: all that the calling processor has stored is posted before.
fn register() {
    point();
    flush();
}

/// Write the buffers of the calling processor out, as a barrier does.
pub(crate) fn flush() {
    let ports = machine::host().own::<Ports>();
    let mine = ports.buffers.borrow_mut().remove(&context::number());
    if let Some(mut buffers) = mine {
        buffers.flush(&Dice, |line| ports.post(line));
    }
}

/// A load: of what the peer may write, which may come first.
///
/// Fails if it is from a window.
pub fn io_load(from: *const u8) {
    point();
    let ports = machine::host().own::<Ports>();
    if ports.find(from.addr()).is_some() {
        fail("it reads through a window");
    }
}

/// A store of `bytes`; `false` if it is to no window, and nothing has been done.
pub fn io_store<'a>(to: *mut u8, bytes: impl FnOnce() -> &'a [u8]) -> bool {
    point();
    let ports = machine::host().own::<Ports>();
    let Some((base, mapped)) = ports.find(to.addr()) else {
        return false;
    };
    let bytes = bytes();
    if to.addr() - base + bytes.len() > mapped.len {
        fail("it stores behind the end of a window");
    }
    let number = context::number();
    let mine = ports.buffers.borrow_mut().remove(&number);
    let mut buffers = mine.unwrap_or_default();
    buffers.store(to.addr(), bytes, &Dice, |line| ports.post(line));
    if !buffers.is_empty() {
        ports.buffers.borrow_mut().insert(number, buffers);
        ports.drain_later();
    }
    true
}

impl Ports {
    /// The ports of the calling host.
    pub(crate) fn all(&self) -> Vec<Rc<ntb_dev>> {
        let list = self.list.borrow();
        list.iter().map(|(_, port)| port.clone()).collect()
    }

    /// Map the window at a physical address; its address, or null without memory or such a window.
    pub(crate) fn map(&self, phys: u64, len: usize) -> *mut u8 {
        let ports = self.all();
        let found = ports.iter().find_map(|port| {
            let windows = 0..port.windows();
            let mut found = windows.filter(|w| port.window_at(*w as i32) == Some(phys));
            Some((port, found.next()?))
        });
        let Some((port, window)) = found.filter(|(port, _)| len <= port.window_size()) else {
            return ptr::null_mut();
        };
        // Nothing is stored there.
        let layout = std::alloc::Layout::from_size_align(len, bindings::PAGE_SIZE);
        let base = memory::allocate(layout.expect("the size of a window"), true);
        if !base.is_null() {
            let port = port.clone();
            let mapped = Mapped { len, port, window };
            self.mapped.borrow_mut().insert(base.addr(), mapped);
        }
        base
    }

    /// Unmap a window; what processors hold back of it is posted first.
    pub(crate) fn unmap(&self, base: *mut u8) {
        self.drain();
        if self.mapped.borrow_mut().remove(&base.addr()).is_none() {
            fail("it unmaps what is not mapped");
        }
        // SAFETY: Allocated when it was mapped; nobody stores there any more.
        unsafe { memory::free(base) };
    }

    fn find(&self, address: usize) -> Option<(usize, Mapped)> {
        let mapped = self.mapped.borrow();
        let (&base, found) = mapped.range(..=address).next_back()?;
        (address - base < found.len).then(|| (base, found.clone()))
    }

    /// Post a line that was stored at an address that is mapped.
    fn post(&self, line: Line) {
        let Some((base, mapped)) = self.find(line.at) else {
            fail("a processor holds back what it has stored to a window that is gone");
        };
        let Mapped { port, window, .. } = mapped;
        let at = line.at - base;
        let what = Posted::Memory(window, Line { at, ..line });
        port.post(port.target_of(window), what);
    }

    /// Write the buffers of all processors out.
    fn drain(&self) {
        for mut buffers in self.buffers.take().into_values() {
            buffers.flush(&Dice, |line| self.post(line));
        }
    }

    fn drain_later(&self) {
        let mut drain = self.drain.borrow_mut();
        let drain = drain.get_or_insert_with(|| {
            Alarm::new("processors", Kind::Process, || {
                machine::host().own::<Ports>().drain();
            })
        });
        if !drain.is_set() {
            drain.set(machine::now() + DRAIN);
        }
    }

    /// Whether a window of a peer leads to that memory of the calling host.
    pub(crate) fn is_led_to(&self, dma: u64, len: u64) -> bool {
        self.all().iter().any(|port| {
            let peers = (0..port.peers()).filter_map(|p| port.peer(p as i32));
            peers.into_iter().any(|peer| {
                let leads = |(number, window): (usize, &Cell<Option<Translation>>)| {
                    let to = window.get();
                    peer.target_of(number) == port.number
                        && to.is_some_and(|to| to.dma < dma + len && dma < to.dma + to.size)
                };
                peer.windows.iter().enumerate().any(leads)
            })
        })
    }
}
