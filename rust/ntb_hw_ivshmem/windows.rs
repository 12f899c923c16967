// SPDX-License-Identifier: GPL-2.0

//! Memory windows.
//!
//! With `n` peers and `m` windows for each, a port has `n * m` outbound windows. Number `w` leads to peer `w % n`, to the slot `w / n` that
//! this peer has for us; so window `pidx` leads to peer `pidx`, as the core's
//! `ntb_peer_resource_idx()` wants it. An inbound window bears the number of
//! the outbound window at the peer.
//!
//! On parts whose sender programs the translation, a window belongs to no peer
//! before that; here it does, and leads to its slot all the time.
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
    params::Params,
    personality::WindowPlan,
    regs::{
        block,
        BAR_MEMORY,
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
    bus::Neighbour,
    coherent::CoherentSource,
    device::{
        AddressRange,
        WindowLimits, //
    }, //
};

/// How often the memory for the slots is tried to be had, and the pause between.
const HOLD_ATTEMPTS: u32 = 10;
const HOLD_PAUSE: Delta = Delta::from_millis(20);

/// The RAM of a peer, as this host sees it.
struct Aperture {
    base: u64,
    _function: Neighbour,
}

impl Aperture {
    /// Claims the RAM of all peers, in the order of their indices.
    fn claim_all(pdev: &pci::Device<Bound>, board: &Board) -> Result<KVec<Self>> {
        let mut all = KVec::with_capacity(board.ports.peer_count().get() as usize, GFP_KERNEL)?;
        for (_, port) in board.ports.peers() {
            let slot = board.geometry.plain_slot_base + port;
            let aperture = Self::claim(pdev, slot, board.geometry.ram_size).inspect_err(|e| {
                dev_err!(
                    pdev,
                    "PCI device {:#x} does not show the RAM of port {}: {:?}\n",
                    slot,
                    port,
                    e
                );
            })?;
            all.push(aperture, GFP_KERNEL)?;
        }
        Ok(all)
    }

    fn claim(pdev: &pci::Device<Bound>, slot: u32, ram_size: u64) -> Result<Self> {
        let function = Neighbour::claim(pdev, slot, BAR_MEMORY, c"ntb_hw_ivshmem")?;
        let (base, size) = function.resource()?;
        if size != ram_size {
            return Err(ENXIO);
        }
        Ok(Self {
            base,
            _function: function,
        })
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
    /// By peer index.
    apertures: KVec<Aperture>,
    #[pin]
    slots: Slots,
    /// The windows that are exposed, a mask for each peer.
    #[pin]
    exposed: Mutex<[u32; PORTS_MAX as usize]>,
}

impl Windows {
    /// Claims the RAM of all peers and the memory for the slots.
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
        try_pin_init!(Self {
            _: { check_area(pdev, &geometry, size, count)? },
            apertures: Aperture::claim_all(pdev, &board)?,
            board,
            dev: ARef::from(pdev.as_ref()),
            plan,
            slots <- Slots::new(CoherentSource::new(pdev), &geometry, size, count),
            exposed <- new_mutex!([0; PORTS_MAX as usize]),
            _: {
                hold(pdev, &slots)?;
                Self::forget_asked(board);
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

    /// Makes the slot free that the client is about to fill, and says what the
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

    /// Exposes memory to a peer; a size of zero ends that.
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
        self.check_end(&way, addr, size)?;
        self.mark(pidx, way.number, true)
    }

    /// Ends [`expose`](Self::expose).
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such window.
    pub(crate) fn withdraw(&self, pidx: u32, widx: u32) -> Result {
        let port = self.board.ports.port(pidx)?;
        let number = self
            .number(port, self.board.ports.own(), widx)
            .ok_or(EINVAL)?;
        self.mark(pidx, number, false)
    }

    /// Leads an outbound window to memory of a peer, where it leads anyway.
    ///
    /// # Errors
    ///
    /// `EINVAL`, with a line in the log that says what was wanted.
    pub(crate) fn lead(&self, pidx: u32, widx: u32, addr: u64, size: u64) -> Result {
        let own = self.board.ports.own();
        let port = self.board.ports.port(pidx)?;
        self.check_end(&self.way(own, port, widx)?, addr, size)
    }

    /// Ends [`lead`](Self::lead), which has no effect.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such window.
    pub(crate) fn let_go(&self, pidx: u32, widx: u32) -> Result {
        let port = self.board.ports.port(pidx)?;
        self.way(self.board.ports.own(), port, widx).map(|_| ())
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

    /// Whether the owner's memory is where a way ends.
    ///
    /// # Errors
    ///
    /// `EINVAL` if not, with a line in the log that says what was wanted.
    fn check_end(&self, way: &Way, addr: u64, size: u64) -> Result {
        let wanted = self
            .slots
            .address(self.slot(way.owner, way.sender, way.number));
        let limits = self.limits_of(way.number);
        let fits = size <= limits.size_max && size.checked_rem(limits.size_align) == Some(0);
        if addr == wanted && fits {
            return Ok(());
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
        Ok(AddressRange {
            addr: aperture.base + self.slots.address(self.slot(port, ports.own(), number)),
            size: self.limits_of(number).size_max,
        })
    }

    /// Forgets which windows a client has asked for.
    pub(crate) fn forget_asked(board: &Board) {
        for port in board.ports.all() {
            board.own().set32(block::ASKED.at(port), 0);
        }
    }
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

/// Takes the memory for the slots; it may be in use for a moment.
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
