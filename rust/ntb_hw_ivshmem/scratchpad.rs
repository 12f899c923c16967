// SPDX-License-Identifier: GPL-2.0-only

//! Scratchpads: a bank of words for each port, which anybody may write.

use super::{
    board::Board,
    fault::Fault,
    params::Params,
    regs::block, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The scratchpads of all ports.
pub(crate) struct Scratchpads {
    board: Arc<Board>,
    count: u32,
    dead_reads: Fault,
}

impl Scratchpads {
    /// Clear those of this port, as a reset does.
    pub(crate) fn new(board: Arc<Board>, params: &Params) -> Self {
        for sidx in 0..params.spad_count {
            board.own().set32(block::SPADS.at(sidx), 0);
        }
        Self {
            board,
            count: params.spad_count,
            dead_reads: Fault::new(params.dead_reads),
        }
    }

    /// Number of scratchpads of each port.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// A scratchpad of a port; all ones if nobody is there or it does not exist.
    pub(crate) fn read(&self, port: u32, sidx: u32) -> u32 {
        let owner = self.board.block(port);
        let is_absent = sidx >= self.count || owner.get32(block::STATE) == block::ABSENT;
        if is_absent || self.dead_reads.strikes() {
            return !0;
        }
        owner.get32(block::SPADS.at(sidx))
    }

    /// Write a scratchpad of a port; to no effect if nobody is there.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not exist.
    pub(crate) fn write(&self, port: u32, sidx: u32, val: u32) -> Result {
        if sidx >= self.count {
            return Err(EINVAL);
        }
        let owner = self.board.block(port);
        if owner.get32(block::STATE) != block::ABSENT {
            owner.set32(block::SPADS.at(sidx), val);
        }
        Ok(())
    }
}
