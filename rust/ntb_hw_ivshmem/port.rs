// SPDX-License-Identifier: GPL-2.0-only

//! The port of this host: the operations table of the NTB core and the
//! interrupt service, spread over the parts.

use super::{
    board::{
        Board,
        SERVICE_VECTOR, //
    },
    doorbell::Doorbells,
    link::{
        Link,
        Update, //
    },
    message::{
        self,
        Messages, //
    },
    params::Params,
    personality::Personality,
    regs::MSG_COUNT,
    scratchpad::Scratchpads,
    windows::Windows, //
};
use kernel::{
    device::Bound,
    pci,
    prelude::*,
    sync::Arc, //
};
use mp_kernel::ntb::{
    bus::Handler,
    device::{
        AddressRange,
        WindowLimits, //
    },
    provider::{
        Device,
        LinkState,
        Ntb, //
    },
};
use mp_kernel::{
    notifier::{
        Listener,
        MachineStops, //
    },
    worker::{
        new_worker,
        Work,
        Worker, //
    }, //
};

/// What the emulated link is said to be: PCI Express 3.0, 8 lanes.
const LINK_SPEED: u8 = 3;
const LINK_WIDTH: u8 = 8;
/// Link changes that one interrupt deals with; another one follows.
const LINK_CHANGES: u32 = 8;

/// The parts of this port.
#[pin_data]
pub(crate) struct Port {
    board: Arc<Board>,
    personality: &'static Personality,
    #[pin]
    link: Link,
    #[pin]
    doorbells: Doorbells,
    scratchpads: Scratchpads,
    #[pin]
    messages: Messages,
    #[pin]
    windows: Windows,
}

impl Port {
    /// Reset this port's registers and claim its memory. Nobody sees it yet.
    ///
    /// # Errors
    ///
    /// As [`Windows::new`].
    pub(crate) fn new<'a>(
        pdev: &'a pci::Device<Bound>,
        board: Arc<Board>,
        params: &'a Params,
    ) -> impl PinInit<Self, Error> + 'a {
        try_pin_init!(Self {
            link <- Link::new(board.clone(), params),
            doorbells <- Doorbells::new(board.clone(), params),
            scratchpads: Scratchpads::new(board.clone(), params),
            messages <- Messages::new(board.clone()),
            windows <- Windows::new(pdev, board.clone(), params),
            personality: params.personality,
            board,
        })
    }

    /// Let peers see this port.
    pub(crate) fn appear(&self) {
        self.link.appear();
    }

    /// Take it out of their sight.
    pub(crate) fn vanish(&self) {
        self.link.vanish();
    }

    /// Interrupt this host itself on all vectors, for what came earlier.
    pub(crate) fn catch_up(&self) {
        for vector in 0..self.board.geometry.vectors.get() {
            self.board.kick(self.board.ports.own(), vector);
        }
    }

    /// The ports of all peers whose link is up.
    fn linked_ports(&self) -> impl Iterator<Item = u32> {
        let up = self.link.up();
        self.board
            .ports
            .peers()
            .filter(move |(pidx, _)| up & 1 << pidx != 0)
            .map(|(_, port)| port)
    }
}

impl Device for Port {
    fn port_number(&self) -> u32 {
        self.board.ports.own()
    }

    fn peer_port_count(&self) -> u32 {
        self.board.ports.peer_count().get()
    }

    fn peer_port_number(&self, pidx: u32) -> Result<u32> {
        self.board.ports.port(pidx)
    }

    fn peer_port_idx(&self, port: u32) -> Result<u32> {
        self.board
            .ports
            .peers()
            .find(|&(_, other)| other == port)
            .map(|(pidx, _)| pidx)
            .ok_or(EINVAL)
    }

    fn link_is_up(&self) -> LinkState {
        match self.link.up() {
            0 => LinkState::default(),
            up => LinkState {
                up,
                speed: LINK_SPEED,
                width: LINK_WIDTH,
            },
        }
    }

    fn link_enable(&self) -> Result {
        self.link.enable();
        self.personality.link_result(&self.board.ports)
    }

    fn link_disable(&self) -> Result {
        self.link.disable();
        Windows::forget_asked(&self.board);
        self.personality.link_result(&self.board.ports)
    }

    fn mw_count(&self, pidx: u32) -> u32 {
        self.windows.count_for(pidx)
    }

    fn mw_get_align(&self, pidx: u32, widx: u32) -> Result<WindowLimits> {
        self.windows.limits(pidx, widx)
    }

    fn mw_set_trans(&self, pidx: u32, widx: u32, addr: u64, size: u64) -> Result {
        self.windows.expose(pidx, widx, addr, size)
    }

    fn mw_clear_trans(&self, pidx: u32, widx: u32) -> Result {
        self.windows.withdraw(pidx, widx)
    }

    fn peer_mw_count(&self) -> u32 {
        self.windows.count()
    }

    fn peer_mw_get_addr(&self, widx: u32) -> Result<AddressRange> {
        self.windows.outbound(widx, self.link.is_enabled())
    }

    fn peer_mw_set_trans(&self, pidx: u32, widx: u32, addr: u64, size: u64) -> Result {
        self.windows.lead(pidx, widx, addr, size)
    }

    fn peer_mw_clear_trans(&self, pidx: u32, widx: u32) -> Result {
        self.windows.let_go(pidx, widx)
    }

    fn db_valid_mask(&self) -> u64 {
        self.doorbells.valid()
    }

    fn db_vector_count(&self) -> u32 {
        self.doorbells.vector_count()
    }

    fn db_vector_mask(&self, vector: u32) -> u64 {
        self.doorbells.vector_mask(vector)
    }

    fn db_read(&self) -> u64 {
        self.doorbells.read()
    }

    fn db_set(&self, bits: u64) -> Result {
        self.doorbells.ring(self.board.ports.own(), bits)
    }

    fn db_clear(&self, bits: u64) -> Result {
        self.doorbells.clear(bits)
    }

    fn db_read_mask(&self) -> u64 {
        self.doorbells.read_mask()
    }

    fn db_set_mask(&self, bits: u64) -> Result {
        self.doorbells.set_mask(bits)
    }

    fn db_clear_mask(&self, bits: u64) -> Result {
        self.doorbells.clear_mask(bits)
    }

    fn peer_db_read(&self) -> u64 {
        self.linked_ports()
            .fold(0, |set, port| set | self.doorbells.read_at(port).0)
    }

    fn peer_db_set(&self, bits: u64) -> Result {
        for port in Iterator::chain(self.linked_ports(), self.doorbells.echo()) {
            self.doorbells.ring(port, bits)?;
        }
        Ok(())
    }

    fn peer_db_read_mask(&self) -> u64 {
        self.linked_ports()
            .fold(0, |set, port| set | self.doorbells.read_at(port).1)
    }

    fn spad_count(&self) -> u32 {
        self.scratchpads.count()
    }

    fn spad_read(&self, sidx: u32) -> u32 {
        self.scratchpads.read(self.board.ports.own(), sidx)
    }

    fn spad_write(&self, sidx: u32, val: u32) -> Result {
        self.scratchpads.write(self.board.ports.own(), sidx, val)
    }

    fn peer_spad_read(&self, pidx: u32, sidx: u32) -> u32 {
        self.board
            .ports
            .port(pidx)
            .map_or(!0, |port| self.scratchpads.read(port, sidx))
    }

    fn peer_spad_write(&self, pidx: u32, sidx: u32, val: u32) -> Result {
        let port = self.board.ports.port(pidx)?;
        self.scratchpads.write(port, sidx, val)
    }

    fn msg_count(&self) -> u32 {
        MSG_COUNT
    }

    fn msg_inbits(&self) -> u64 {
        message::INBITS
    }

    fn msg_outbits(&self) -> u64 {
        message::OUTBITS
    }

    fn msg_read_sts(&self) -> u64 {
        self.messages.read_status()
    }

    fn msg_clear_sts(&self, bits: u64) -> Result {
        self.messages.clear_status(bits);
        Ok(())
    }

    fn msg_set_mask(&self, bits: u64) -> Result {
        self.messages.set_mask(bits);
        Ok(())
    }

    fn msg_clear_mask(&self, bits: u64) -> Result {
        self.messages.clear_mask(bits);
        Ok(())
    }

    fn msg_read(&self, midx: u32) -> (u32, u32) {
        let Ok((msg, port)) = self.messages.read(midx) else {
            return (!0, 0);
        };
        (msg, self.peer_port_idx(port).unwrap_or(0))
    }

    fn peer_msg_write(&self, pidx: u32, midx: u32, msg: u32) -> Result {
        self.messages.write(self.board.ports.port(pidx)?, midx, msg)
    }
}

/// Let the port look at its links again.
struct LinkCheck {
    board: Arc<Board>,
}

impl Work for LinkCheck {
    fn run(&self) -> Option<u32> {
        self.board.kick(self.board.ports.own(), SERVICE_VECTOR);
        None
    }
}

/// The interrupt service of a port.
pub(crate) struct Service {
    ntb: Arc<Ntb<Port>>,
    link_check: Arc<Worker<LinkCheck>>,
}

impl Service {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ntb: Arc<Ntb<Port>>) -> Result<Self> {
        let board = ntb.data().board.clone();
        Ok(Self {
            ntb,
            link_check: new_worker!(Arc::new(LinkCheck { board }, GFP_KERNEL)?)?,
        })
    }

    fn links(&self, port: &Port) {
        for _ in 0..LINK_CHANGES {
            let down = match port.link.update() {
                Update::Changed(down) => down,
                Update::Quiet(Some(ms)) => return self.link_check.kick_in(ms),
                Update::Quiet(None) => return,
            };
            for (_, gone) in port.board.ports.peers().filter(|(p, _)| down & 1 << p != 0) {
                port.messages.forget(gone);
            }
            self.ntb.link_event();
        }
        self.link_check.kick();
    }
}

impl Handler for Service {
    fn interrupt(&self, vector: u32) {
        let port = self.ntb.data();
        if vector == SERVICE_VECTOR {
            self.links(port);
            if port.messages.is_loud() {
                self.ntb.msg_event();
            }
        }
        if let Some(vector) = port.doorbells.vector_of(vector) {
            if port.doorbells.loud(vector) != 0 {
                self.ntb.db_event(vector);
            }
        }
    }
}

impl Listener<MachineStops> for Service {
    /// Peers see the link go down at once.
    fn notify(&self, (): ()) {
        self.ntb.data().vanish();
    }
}
