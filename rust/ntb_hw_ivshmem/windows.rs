// SPDX-License-Identifier: GPL-2.0-only

//! Memory windows.
//!
//! With `n` peers and `m` windows for each, a port has `n * m` outbound windows. Number `w` leads to peer `w % n`, to the slot `w / n` that
//! this peer has for us; so window `pidx` leads to peer `pidx`, as the core's
//! `ntb_peer_resource_idx()` wants it. An inbound window bears the number of
//! the outbound window at the peer.
//!
//! On parts whose sender programs the translation, a window belongs to no peer
//! before that; here it does, and leads to its slot until it is led elsewhere.
//!
//! # Windows that lead elsewhere
//!
//! Who may rely on a window's slot has asked for its address in time. All others may
//! be led anywhere in the RAM of the host that they lead to, or in its target, by the
//! host that programs the translation: then it is written in that host's registers, and
//! whoever asks for the address from then on gets another one. A real window drops what is stored
//! behind the end of the memory that it leads to; nothing drops it here, so the window is no longer
//! than that.
//!
//! # Which slot a client is about to fill
//!
//! A client asks for the demands of an inbound window just before it allocates
//! the memory, and the slot of that window is made free then. `ntb_perf` asks
//! for another window than the one it sets afterwards, but it has asked its own
//! outbound window's address before it enabled the link, and not those of
//! others. Such questions are noted in the register memory, and a window that
//! the peer cannot be using gives way to one that it can.

use super::{
    board::{
        Board,
        Geometry, //
    },
    params::{
        Address,
        Params, //
    },
    personality::WindowPlan,
    regs::{
        block,
        BAR_MEMORY,
        MOVED_COUNT,
        PORTS_MAX, //
    },
    slots::Slots, //
};
use kernel::{
    device::{
        Bound,
        Device, //
    },
    new_mutex,
    pci,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_kernel::ntb::{
    bus::{
        self,
        Neighbour, //
    },
    coherent::CoherentSource,
    device::{
        AddressRange,
        WindowLimits, //
    }, //
};

/// How often the memory for the slots is tried to be had, and the pause between.
const HOLD_ATTEMPTS: u32 = 10;
const HOLD_PAUSE: Delta = Delta::from_millis(20);

/// The function of a peer's device that shows its RAM.
const RAM_FUNCTION: u32 = 0;
/// The one that shows its target's memory, if that is seen here.
const TARGET_FUNCTION: u32 = 1;

/// Memory of a peer, as this host sees it.
struct View {
    base: u64,
    len: u64,
    _function: Neighbour,
}

impl View {
    fn claim(pdev: &pci::Device<Bound>, at: (u32, u32)) -> Result<Self> {
        let function = Neighbour::claim(pdev, at, BAR_MEMORY, c"ntb_hw_ivshmem")?;
        let (base, len) = function.resource()?;
        Ok(Self {
            base,
            len,
            _function: function,
        })
    }

    /// Up to `size` bytes from `off` on.
    fn part(&self, off: u64, size: u64) -> Option<AddressRange> {
        let left = self.len.checked_sub(off).filter(|left| *left != 0)?;
        Some(AddressRange {
            addr: self.base + off,
            size: size.min(left),
        })
    }
}

/// What is seen of a peer.
struct Aperture {
    ram: View,
    target: Option<View>,
}

impl Aperture {
    /// Claim what is seen of all peers, in the order of their indices.
    fn claim_all(pdev: &pci::Device<Bound>, board: &Board) -> Result<KVec<Self>> {
        let mut all = KVec::with_capacity(board.ports.peer_count().get() as usize, GFP_KERNEL)?;
        for (_, port) in board.ports.peers() {
            let slot = board.geometry.plain_slot_base + port;
            let ram = View::claim(pdev, (slot, RAM_FUNCTION)).and_then(|ram| {
                let fits = ram.len == board.geometry.ram_size;
                fits.then_some(ram).ok_or(ENXIO)
            });
            let ram = ram.inspect_err(|e| {
                dev_err!(
                    pdev,
                    "PCI device {:#x} does not show the RAM of port {}: {:?}\n",
                    slot,
                    port,
                    e
                );
            })?;
            // Most peers have no target.
            let target = View::claim(pdev, (slot, TARGET_FUNCTION)).ok();
            all.push(Self { ram, target }, GFP_KERNEL)?;
        }
        Ok(all)
    }
}

/// A place in the memory of the host that a window leads to.
#[derive(Clone, Copy)]
enum Spot {
    Ram(u64),
    Target(u64),
}

/// Marks a place that a register names.
const SPOT_VALID: u64 = 1;
/// Marks one in the target.
const SPOT_TARGET: u64 = 2;
/// The bits of both; places are aligned to more.
const SPOT_MARKS: u64 = 3;

impl Spot {
    fn encode(self) -> u64 {
        match self {
            Self::Ram(off) => off | SPOT_VALID,
            Self::Target(off) => off | SPOT_VALID | SPOT_TARGET,
        }
    }

    fn decode(word: u64) -> Option<Self> {
        let off = word & !SPOT_MARKS;
        match word & SPOT_MARKS {
            SPOT_VALID => Some(Self::Ram(off)),
            SPOT_MARKS => Some(Self::Target(off)),
            _ => None,
        }
    }
}

/// A window of one port, and what it leads to.
struct Way {
    sender: u32,
    /// The port whose memory it leads to.
    owner: u32,
    /// Its number among all of the sender.
    widx: u32,
    /// Its number among those to the owner.
    number: u32,
}

/// The windows of this port.
#[pin_data]
pub(crate) struct Windows {
    board: Arc<Board>,
    dev: ARef<Device>,
    /// Windows for each peer.
    plan: WindowPlan,
    /// Who writes leads a window to memory, not the host whose memory that is.
    sender_programs: bool,
    /// By peer index.
    apertures: KVec<Aperture>,
    #[pin]
    slots: Slots,
    /// The windows that are exposed, a mask for each peer.
    #[pin]
    exposed: Mutex<[u32; PORTS_MAX as usize]>,
}

impl Windows {
    /// Claim the RAM of all peers and the memory for the slots.
    ///
    /// # Errors
    ///
    /// `ENODEV`, `ENXIO`, `EBUSY` or `ENOMEM`, with a line in the log.
    pub(crate) fn new<'a>(
        pdev: &'a pci::Device<Bound>,
        board: Arc<Board>,
        params: &Params,
    ) -> impl PinInit<Self, Error> + 'a {
        let plan = params.windows;
        let size = params.mw_size;
        let count = board.ports.peer_count().get() * plan.count();
        let geometry = board.geometry;
        let (target, personality) = (params.target, params.personality);
        try_pin_init!(Self {
            _: { check_area(pdev, &geometry, size, count)? },
            _: { tell_target(&board, find_target(pdev, target)?) },
            apertures: Aperture::claim_all(pdev, &board)?,
            board,
            dev: ARef::from(pdev.as_ref()),
            plan,
            sender_programs: personality.sender_translates(),
            slots <- Slots::new(CoherentSource::new(pdev), &geometry, size, count),
            exposed <- new_mutex!([0; PORTS_MAX as usize]),
            _: {
                hold(pdev, &slots)?;
                Self::forget_asked(board);
                Self::forget_moved(board);
            },
        })
    }

    /// Number of windows in each direction, for all peers together.
    pub(crate) fn count(&self) -> u32 {
        self.board.ports.peer_count().get() * self.plan.count()
    }

    /// Number of inbound windows for a peer, including those that are at the
    /// peer's for others.
    pub(crate) fn count_for(&self, pidx: u32) -> u32 {
        self.board.ports.port(pidx).map_or(0, |_| self.count())
    }

    /// Which of the windows for `observer`'s peer `port` bears number `widx` at
    /// `observer`, if it is one of those.
    fn number(&self, observer: u32, port: u32, widx: u32) -> Option<u32> {
        let peers = self.board.ports.peer_count();
        let ours = widx % peers == self.board.ports.index_at(observer, port);
        (ours && widx < self.count()).then_some(widx / peers)
    }

    /// The slot that `owner` has for window `number` of `sender`.
    fn slot(&self, owner: u32, sender: u32, number: u32) -> u32 {
        self.board.ports.index_at(owner, sender) * self.plan.count() + number
    }

    /// Make the slot free that the client is about to fill, and say what the
    /// window demands. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such window, `ENOMEM`.
    pub(crate) fn limits(&self, pidx: u32, widx: u32) -> Result<WindowLimits> {
        let own = self.board.ports.own();
        let port = self.board.ports.port(pidx)?;
        let number = self.choose(pidx, port, widx).ok_or(EINVAL)?;
        self.slots.release(self.slot(own, port, number))?;
        Ok(self.limits_of(number))
    }

    fn limits_of(&self, number: u32) -> WindowLimits {
        self.plan.limits(number, self.slots.size())
    }

    /// The window whose memory a client allocates after it has asked for `widx`.
    fn choose(&self, pidx: u32, port: u32, widx: u32) -> Option<u32> {
        let own = self.board.ports.own();
        let named = self.number(port, own, widx);
        let used = self.board.block(port).get32(block::ASKED.at(own));
        if used == 0 || named.is_some_and(|number| used & 1 << number != 0) {
            return named;
        }
        let exposed = self.exposed.lock();
        let unset = used & !exposed.get(pidx as usize)?;
        (unset != 0)
            .then(|| unset.trailing_zeros())
            .filter(|&number| number < self.plan.count())
            .or(named)
    }

    /// Expose memory to a peer; a size of zero ends that.
    ///
    /// # Errors
    ///
    /// `EINVAL`, with a line in the log that says what was wanted.
    pub(crate) fn expose(&self, pidx: u32, widx: u32, addr: u64, size: u64) -> Result {
        if size == 0 {
            return self.withdraw(pidx, widx);
        }
        let own = self.board.ports.own();
        let port = self.board.ports.port(pidx)?;
        let way = self.way(port, own, widx)?;
        let spot = self.end_of(&way, addr, size)?;
        self.move_to(&way, spot, size);
        self.mark(pidx, way.number, true)
    }

    /// End [`expose`](Self::expose).
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such window.
    pub(crate) fn withdraw(&self, pidx: u32, widx: u32) -> Result {
        let port = self.board.ports.port(pidx)?;
        let number = self
            .number(port, self.board.ports.own(), widx)
            .ok_or(EINVAL)?;
        let own = self.board.own();
        own.set64(block::MOVED.at(port * MOVED_COUNT + number), 0);
        self.mark(pidx, number, false)
    }

    /// Lead an outbound window to memory of a peer.
    ///
    /// # Errors
    ///
    /// `EINVAL`, with a line in the log that says what was wanted.
    pub(crate) fn lead(&self, pidx: u32, widx: u32, addr: u64, size: u64) -> Result {
        let own = self.board.ports.own();
        let port = self.board.ports.port(pidx)?;
        let way = self.way(own, port, widx)?;
        let spot = self.end_of(&way, addr, size)?;
        self.move_to(&way, spot, size);
        Ok(())
    }

    /// End [`lead`](Self::lead).
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such window.
    pub(crate) fn let_go(&self, pidx: u32, widx: u32) -> Result {
        let port = self.board.ports.port(pidx)?;
        let way = self.way(self.board.ports.own(), port, widx)?;
        self.move_to(&way, None, 0);
        Ok(())
    }

    /// Note where a window leads, in the registers of this host, which programs its
    /// translation: to its slot, or to `size` bytes elsewhere.
    fn move_to(&self, way: &Way, spot: Option<Spot>, size: u64) {
        let own = self.board.ports.own();
        let other = match way.owner == own {
            true => way.sender,
            false => way.owner,
        };
        let at = other * MOVED_COUNT + way.number;
        let own = self.board.own();
        own.set64(block::MOVED_LEN.at(at), size);
        own.set64(block::MOVED.at(at), spot.map_or(0, Spot::encode));
    }

    /// The way from window `widx` of `sender` to `owner`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it leads elsewhere, with a line in the log.
    fn way(&self, sender: u32, owner: u32, widx: u32) -> Result<Way> {
        let Some(number) = self.number(sender, owner, widx) else {
            dev_err!(
                self.dev,
                "window {} of port {} does not lead to port {}\n",
                widx,
                sender,
                owner
            );
            return Err(EINVAL);
        };
        Ok(Way {
            sender,
            owner,
            widx,
            number,
        })
    }

    /// Where a way is to end that is led to an address of its owner: elsewhere, or at
    /// its slot.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it cannot, with a line in the log that says what was wanted.
    fn end_of(&self, way: &Way, addr: u64, size: u64) -> Result<Option<Spot>> {
        let wanted = self
            .slots
            .address(self.slot(way.owner, way.sender, way.number));
        let limits = self.limits_of(way.number);
        let fits = size <= limits.size_max && size.checked_rem(limits.size_align) == Some(0);
        if addr == wanted && fits {
            return Ok(None);
        }
        let asked = self
            .board
            .block(way.sender)
            .get32(block::ASKED.at(way.owner));
        let is_movable = asked & 1 << way.number == 0;
        let is_aligned = addr.checked_rem(limits.addr_align) == Some(0) && addr & SPOT_MARKS == 0;
        if is_movable && fits && is_aligned {
            let spot = self.spot(way, addr, size);
            if spot.is_some() {
                return Ok(spot);
            }
        }
        dev_err!(
            self.dev,
            "window {} of port {} needs up to {:#x} bytes at {:#x}, in units of {:#x}, \
             not {:#x} at {:#x}: allocate them right after asking for the alignment\n",
            way.widx,
            way.sender,
            limits.size_max,
            wanted,
            limits.size_align,
            size,
            addr
        );
        Err(EINVAL)
    }

    /// The place of some memory of a way's owner: in its RAM, or in its target.
    fn spot(&self, way: &Way, addr: u64, size: u64) -> Option<Spot> {
        let end = addr.checked_add(size)?;
        if end <= self.board.geometry.ram_size {
            return Some(Spot::Ram(addr));
        }
        let owner = self.board.block(way.owner);
        let off = addr.checked_sub(owner.get64(block::TARGET_BASE))?;
        let fits = off.checked_add(size)? <= owner.get64(block::TARGET_LEN);
        fits.then_some(Spot::Target(off))
    }

    fn mark(&self, pidx: u32, number: u32, exposed: bool) -> Result {
        let mut all = self.exposed.lock();
        let mask = all.get_mut(pidx as usize).ok_or(EINVAL)?;
        *mask = *mask & !(1 << number) | u32::from(exposed) << number;
        Ok(())
    }

    /// Where an outbound window lies. Asked before the link is enabled, it is
    /// noted for the peer.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such window.
    pub(crate) fn outbound(&self, widx: u32, link_enabled: bool) -> Result<AddressRange> {
        if widx >= self.count() {
            return Err(EINVAL);
        }
        let ports = &self.board.ports;
        let pidx = widx % ports.peer_count();
        let number = widx / ports.peer_count();
        let port = ports.port(pidx)?;
        let aperture = self.apertures.get(pidx as usize).ok_or(EINVAL)?;
        if !link_enabled {
            let own = self.board.own();
            let asked = own.get32(block::ASKED.at(port));
            own.set32(block::ASKED.at(port), asked | 1 << number);
        }
        let slot = self.slots.address(self.slot(port, ports.own(), number));
        let whole = self.limits_of(number).size_max;
        let (spot, size) = match self.moved(port, number) {
            None => (Spot::Ram(slot), whole),
            // A driver of a release before does not say how many bytes.
            Some((spot, 0)) => (spot, whole),
            Some((spot, size)) => (spot, size.min(whole)),
        };
        let (view, off) = match spot {
            Spot::Ram(off) => (&aperture.ram, off),
            Spot::Target(off) => (aperture.target.as_ref().ok_or(EINVAL)?, off),
        };
        view.part(off, size).ok_or(EINVAL)
    }

    /// Where the window of that number to a peer leads, and to how many bytes, if not to its
    /// slot, as the host says that programs the translation.
    fn moved(&self, port: u32, number: u32) -> Option<(Spot, u64)> {
        let (owner, other) = match self.sender_programs {
            true => (self.board.own(), port),
            false => (self.board.block(port), self.board.ports.own()),
        };
        let at = other * MOVED_COUNT + number;
        let spot = Spot::decode(owner.get64(block::MOVED.at(at)))?;
        Some((spot, owner.get64(block::MOVED_LEN.at(at))))
    }

    /// Forget where windows were led.
    fn forget_moved(board: &Board) {
        for at in 0..PORTS_MAX * MOVED_COUNT {
            board.own().set64(block::MOVED.at(at), 0);
        }
    }

    /// Forget which windows a client has asked for.
    pub(crate) fn forget_asked(board: &Board) {
        for port in board.ports.all() {
            board.own().set32(block::ASKED.at(port), 0);
        }
    }
}

/// The memory of the target that was named.
///
/// # Errors
///
/// `ENODEV` if there is none, with a line in the log.
fn find_target(pdev: &pci::Device<Bound>, target: Option<Address>) -> Result<Option<(u64, u64)>> {
    let Some(Address { domain, bus, devfn }) = target else {
        return Ok(None);
    };
    let found = bus::find_bar(domain, bus, devfn, BAR_MEMORY).inspect_err(|_| {
        dev_err!(
            pdev,
            "target {:04x}:{:02x}:{:02x}.{} has no memory\n",
            domain,
            bus,
            devfn >> 3,
            devfn & 7
        );
    })?;
    Ok(Some(found))
}

/// Tell all hosts where the memory of this one's target is.
fn tell_target(board: &Board, target: Option<(u64, u64)>) {
    let (base, len) = target.unwrap_or((0, 0));
    board.own().set64(block::TARGET_BASE, base);
    board.own().set64(block::TARGET_LEN, len);
}

/// Whether the slots fit the contiguous area.
fn check_area(pdev: &pci::Device<Bound>, geometry: &Geometry, size: u64, count: u32) -> Result {
    if size * u64::from(count) <= geometry.area_size && geometry.area_base & (size - 1) == 0 {
        return Ok(());
    }
    dev_err!(
        pdev,
        "{} windows of {:#x} bytes do not fit {:#x} bytes at {:#x}: choose less, or a larger area\n",
        count,
        size,
        geometry.area_size,
        geometry.area_base
    );
    Err(ENOMEM)
}

/// Take the memory for the slots; it may be in use for a moment.
fn hold(pdev: &pci::Device<Bound>, slots: &Slots) -> Result {
    let mut missing = slots.hold_all()?;
    for _ in 1..HOLD_ATTEMPTS {
        if missing == 0 {
            return Ok(());
        }
        fsleep(HOLD_PAUSE);
        missing = slots.hold_all()?;
    }
    if missing == slots.total() {
        dev_err!(
            pdev,
            "no contiguous memory at {:#x}: boot with cma=SIZE@{:#x}\n",
            slots.address(0),
            slots.address(0)
        );
        return Err(ENOMEM);
    }
    dev_warn!(
        pdev,
        "{:#x} of {:#x} bytes for windows are in use: some windows will fail\n",
        missing,
        slots.total()
    );
    Ok(())
}
