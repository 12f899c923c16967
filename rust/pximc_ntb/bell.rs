// SPDX-License-Identifier: GPL-2.0-only

//! Doorbells: few bits, shared by purpose (design 4.7).
//!
//! The doorbell register of the NTB API knows no peer: a bit that is set is
//! seen by every port that has not masked it. Each port therefore owns a group
//! of bits and leaves only these unmasked: the first one says "look at the
//! link state", the others "look at your rings", one per data queue as far as
//! they go round.

use kernel::{
    prelude::*,
    sync::aref::ARef, //
};
use mp_kernel::ntb::NtbDev;

/// Most bits of one port: link state and eight queues.
const GROUP_MAX: u32 = 9;

/// The bits of one port.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    first: u32,
    count: u32,
}

impl Group {
    /// The group of logical port `port` of `ports`, out of the `valid` bits.
    ///
    /// # Errors
    ///
    /// `ENOSPC` with fewer bits than ports.
    pub(crate) fn new(valid: u64, ports: u32, port: u32) -> Result<Self> {
        let bits = valid.trailing_ones();
        let count = bits.checked_div(ports).unwrap_or(0).min(GROUP_MAX);
        if count == 0 || port >= ports {
            return Err(ENOSPC);
        }
        Ok(Self {
            first: port * count,
            count,
        })
    }

    /// The group of another port of the same bridge.
    pub(crate) fn of_port(self, port: u32) -> Self {
        Self {
            first: port * self.count,
            ..self
        }
    }

    /// All bits of the group.
    pub(crate) fn mask(self) -> u64 {
        (self.first..self.first + self.count).fold(0, |mask, bit| mask | 1 << bit)
    }

    /// The bit that asks to look at the link state.
    pub(crate) fn link_bit(self) -> u64 {
        1 << self.first
    }

    /// The bit that asks to look at the rings of `queue`.
    pub(crate) fn queue_bit(self, queue: u16) -> u64 {
        match u32::from(queue).checked_rem(self.count - 1) {
            Some(turn) => 1 << (self.first + 1 + turn),
            // A single bit serves everything.
            None => self.link_bit(),
        }
    }
}

/// The doorbells of one port: rings a peer, or tells what this host's own are.
#[derive(Clone)]
pub(crate) struct Bell {
    pub(crate) ntb: ARef<NtbDev>,
    pub(crate) group: Group,
}

impl Bell {
    /// Let the peer look at the rings of `queue`. Any context.
    pub(crate) fn ring(&self, queue: u16) {
        self.set(self.group.queue_bit(queue));
    }

    /// Let the peer look at the link state. Any context.
    pub(crate) fn ring_link(&self) {
        self.set(self.group.link_bit());
    }

    /// Whether this host, whose doorbells these are, has been asked to look at the rings of
    /// `queue` and has not done so yet. Any context.
    pub(crate) fn is_rung(&self, queue: u16) -> bool {
        self.ntb.db_read() & self.group.queue_bit(queue) != 0
    }

    fn set(&self, bits: u64) {
        // A doorbell that cannot be rung is a lost doorbell: the peer's safety poll covers it.
        let _ = self.ntb.peer_db_set(bits);
    }
}
