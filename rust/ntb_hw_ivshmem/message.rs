// SPDX-License-Identifier: GPL-2.0-only

//! Message registers, with the status bits of the IDT switches.
//!
//! A sender has registers of its own at each owner, so senders never race. The
//! owner's registers show the messages of one sender at a time, until all of
//! them are cleared; a client that takes several registers for one message thus
//! never mixes two senders. A sender whose register is still full is refused,
//! which its outbound status bit tells.
//!
//! Set and clear work as for doorbells; see there for the barriers.

use super::{
    board::{
        Board,
        SERVICE_VECTOR, //
    },
    regs::{
        block,
        MSG_COUNT, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    barrier,
    new_spinlock_irqsave,
    sync::SpinLockIrqSave, //
};

/// One bit for each register.
const REGISTERS: u32 = (1 << MSG_COUNT) - 1;
/// Status bits, where the IDT switches have them.
const OUT_SHIFT: u32 = 0;
const IN_SHIFT: u32 = 16;

/// Status bits of outbound messages.
pub(crate) const OUTBITS: u64 = (REGISTERS << OUT_SHIFT) as u64;
/// Status bits of inbound messages.
pub(crate) const INBITS: u64 = (REGISTERS << IN_SHIFT) as u64;

struct State {
    /// The port whose messages show, if any do.
    sender: u32,
    /// Outbound messages that were refused.
    refused: u32,
    /// Status bits that raise no event.
    mask: u32,
}

/// The message registers of this port and those it writes.
#[pin_data]
pub(crate) struct Messages {
    board: Arc<Board>,
    #[pin]
    state: SpinLockIrqSave<State>,
}

impl Messages {
    /// All registers are empty and unmasked.
    pub(crate) fn new(board: Arc<Board>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: {
                let own = board.own();
                own.set32(block::MSG_MASK, 0);
                for port in board.ports.all() {
                    own.set32(block::MSG_SEEN.at(port), own.get32(block::MSG_RUNG.at(port)));
                }
            },
            board,
            state <- new_spinlock_irqsave!(State {
                sender: 0,
                refused: 0,
                mask: 0,
            }),
        })
    }

    /// The full registers of `owner` for messages of `sender`.
    fn full(&self, owner: u32, sender: u32) -> u32 {
        let owner = self.board.block(owner);
        (owner.get32(block::MSG_RUNG.at(sender)) ^ owner.get32(block::MSG_SEEN.at(sender)))
            & REGISTERS
    }

    /// Empty registers of this port.
    fn empty(&self, sender: u32, registers: u32) {
        let own = self.board.own();
        let seen = own.get32(block::MSG_SEEN.at(sender));
        own.set32(block::MSG_SEEN.at(sender), seen ^ registers);
    }

    /// The registers that show a message, after choosing whose.
    fn shown(&self, state: &mut State) -> u32 {
        let own = self.board.ports.own();
        let full = self.full(own, state.sender);
        if full != 0 {
            return full;
        }
        // Those behind the last sender come first, so that all get their turn.
        let ports = self.board.ports;
        let last = state.sender;
        let behind = ports.all().skip_while(|&port| port <= last);
        for port in Iterator::chain(behind, ports.all()) {
            let full = self.full(own, port);
            if full != 0 {
                state.sender = port;
                return full;
            }
        }
        0
    }

    fn status(&self, state: &mut State) -> u32 {
        self.shown(state) << IN_SHIFT | state.refused << OUT_SHIFT
    }

    /// Status of all registers.
    pub(crate) fn read_status(&self) -> u64 {
        self.status(&mut self.state.lock()).into()
    }

    /// Whether a status bit is set and not masked.
    pub(crate) fn is_loud(&self) -> bool {
        let mut state = self.state.lock();
        let mask = state.mask;
        self.status(&mut state) & !mask != 0
    }

    /// Clear status bits; other messages may show then.
    pub(crate) fn clear_status(&self, bits: u64) {
        let bits = bits as u32;
        let mut state = self.state.lock();
        state.refused &= !(bits >> OUT_SHIFT & REGISTERS);
        let cleared = self.shown(&mut state) & bits >> IN_SHIFT;
        let sender = state.sender;
        self.empty(sender, cleared);
        barrier::mb();
        let mask = state.mask;
        let loud = cleared != 0 && self.shown(&mut state) << IN_SHIFT & !mask != 0;
        drop(state);
        if loud {
            self.interrupt_self();
        }
    }

    /// Mask status bits.
    pub(crate) fn set_mask(&self, bits: u64) {
        let mut state = self.state.lock();
        state.mask |= bits as u32;
        self.board.own().set32(block::MSG_MASK, state.mask);
    }

    /// Unmask status bits; those that are set interrupt now.
    pub(crate) fn clear_mask(&self, bits: u64) {
        let mut state = self.state.lock();
        let unmasked = state.mask & bits as u32;
        state.mask &= !(bits as u32);
        self.board.own().set32(block::MSG_MASK, state.mask);
        barrier::mb();
        let loud = self.status(&mut state) & unmasked != 0;
        drop(state);
        if loud {
            self.interrupt_self();
        }
    }

    /// The message in a register and the port that it is from.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such register.
    pub(crate) fn read(&self, midx: u32) -> Result<(u32, u32)> {
        if midx >= MSG_COUNT {
            return Err(EINVAL);
        }
        let mut state = self.state.lock();
        self.shown(&mut state);
        let data = self
            .board
            .own()
            .get32(block::MSG_DATA.at(state.sender * MSG_COUNT + midx));
        Ok((data, state.sender))
    }

    /// Send a message, or note that it was refused because the register is
    /// full or nobody is there.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such register.
    pub(crate) fn write(&self, port: u32, midx: u32, msg: u32) -> Result {
        if midx >= MSG_COUNT {
            return Err(EINVAL);
        }
        let own = self.board.ports.own();
        let peer = self.board.block(port);
        let bit = 1 << midx;
        let mut state = self.state.lock();
        barrier::mb();
        if peer.get32(block::STATE) == block::ABSENT || self.full(port, own) & bit != 0 {
            state.refused |= bit;
            let loud = bit << OUT_SHIFT & !state.mask != 0;
            drop(state);
            if loud {
                self.interrupt_self();
            }
            return Ok(());
        }
        peer.set32(block::MSG_DATA.at(own * MSG_COUNT + midx), msg);
        barrier::wmb();
        let rung = peer.get32(block::MSG_RUNG.at(own));
        peer.set32(block::MSG_RUNG.at(own), rung ^ bit);
        barrier::mb();
        drop(state);
        if peer.get32(block::MSG_MASK) & bit << IN_SHIFT == 0 {
            self.board.kick(port, SERVICE_VECTOR);
        }
        Ok(())
    }

    /// Drop the messages of a port whose link went down.
    pub(crate) fn forget(&self, port: u32) {
        let state = self.state.lock();
        self.empty(port, self.full(self.board.ports.own(), port));
        drop(state);
    }

    fn interrupt_self(&self) {
        self.board.kick(self.board.ports.own(), SERVICE_VECTOR);
    }
}
