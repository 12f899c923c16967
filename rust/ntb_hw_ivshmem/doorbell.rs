// SPDX-License-Identifier: GPL-2.0-only

//! Doorbells.
//!
//! For each pair of ports there are two words of doorbell bits: `RUNG`, written
//! by the sender, and `SEEN`, written by the owner. A doorbell is set while its
//! bits differ. Ringing toggles the bit in `RUNG`, unless it is set already;
//! clearing makes the bit in `SEEN` equal to that in `RUNG`.
//!
//! Between them lie full barriers, so that nothing gets lost:
//!
//! * The sender stores its data, *barrier*, loads `SEEN`; the owner stores
//!   `SEEN`, *barrier*, loads the data. Either the sender finds the bit cleared
//!   and rings again, or the owner finds the data.
//! * The sender stores `RUNG`, *barrier*, loads the mask; the owner stores the
//!   mask, *barrier*, loads `RUNG`. Either the sender interrupts, or the owner
//!   finds the bit set when it unmasks it, and interrupts itself.

use super::{
    board::{
        Board,
        SERVICE_VECTOR, //
    },
    fault::Fault,
    params::Params,
    personality::{
        Bells,
        Vectors, //
    },
    regs::block, //
};
use core::num::NonZero;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    barrier,
    new_spinlock_irqsave,
    sync::SpinLockIrqSave, //
};

/// The doorbells of this port and those it rings.
#[pin_data]
pub(crate) struct Doorbells {
    board: Arc<Board>,
    valid: u64,
    kind: Bells,
    /// The doorbells of each doorbell vector.
    vectors: KVec<u64>,
    /// The interrupt vector of the first doorbell vector.
    first_vector: u32,
    lost: Fault,
    /// Held for changes of `RUNG` words by this host.
    #[pin]
    ringing: SpinLockIrqSave<()>,
    /// Held for changes of `SEEN` words and the mask of this port; has the mask.
    #[pin]
    mask: SpinLockIrqSave<u64>,
}

impl Doorbells {
    /// All doorbells are clear and unmasked.
    pub(crate) fn new(board: Arc<Board>, params: &Params) -> impl PinInit<Self, Error> + use<> {
        let valid = (1 << params.db_count) - 1;
        let kind = params.personality.bells;
        let lost = Fault::new(params.lose_doorbells);
        let all = board.geometry.vectors;
        // The service vector is shared only if there is no other.
        let (first_vector, count) = match NonZero::new(all.get() - 1) {
            Some(others) => (SERVICE_VECTOR + 1, others),
            None => (SERVICE_VECTOR, all),
        };
        let one = NonZero::<u32>::MIN;
        let count = match params.personality.vectors {
            Vectors::Many => NonZero::new(params.db_count).unwrap_or(one).min(count),
            Vectors::One | Vectors::Untold => one,
        };
        try_pin_init!(Self {
            _: {
                let own = board.own();
                own.set64(block::DB_MASK, 0);
                for port in board.ports.all() {
                    own.set64(block::DB_SEEN.at(port), own.get64(block::DB_RUNG.at(port)));
                }
            },
            board,
            vectors: spread(valid, count)?,
            valid,
            kind,
            first_vector,
            lost,
            ringing <- new_spinlock_irqsave!(()),
            mask <- new_spinlock_irqsave!(0u64),
        })
    }

    /// The doorbells that exist.
    pub(crate) fn valid(&self) -> u64 {
        self.valid
    }

    /// Number of doorbell vectors.
    pub(crate) fn vector_count(&self) -> u32 {
        self.vectors.len() as u32
    }

    /// The doorbells of a doorbell vector.
    pub(crate) fn vector_mask(&self, vector: u32) -> u64 {
        self.vectors.get(vector as usize).copied().unwrap_or(0)
    }

    /// The doorbell vector of an interrupt vector.
    pub(crate) fn vector_of(&self, interrupt: u32) -> Option<u32> {
        interrupt.checked_sub(self.first_vector)
    }

    /// The doorbells of `owner` that `sender` has rung.
    #[inline]
    fn set_by(&self, owner: u32, sender: u32) -> u64 {
        let owner = self.board.block(owner);
        owner.get64(block::DB_RUNG.at(sender)) ^ owner.get64(block::DB_SEEN.at(sender))
    }

    /// The doorbells of `owner` that anybody has rung.
    #[inline]
    fn set_at(&self, owner: u32) -> u64 {
        self.board
            .ports
            .all()
            .fold(0, |set, sender| set | self.set_by(owner, sender))
            & self.valid
    }

    /// The doorbells of this port that are set.
    pub(crate) fn read(&self) -> u64 {
        self.set_at(self.board.ports.own())
    }

    /// Those of a doorbell vector that are set and not masked.
    pub(crate) fn loud(&self, vector: u32) -> u64 {
        let masked = self.board.own().get64(block::DB_MASK);
        self.read() & !masked & self.vector_mask(vector)
    }

    /// The masked doorbells.
    pub(crate) fn read_mask(&self) -> u64 {
        *self.mask.lock()
    }

    /// The doorbells that are set at a port, and those masked there.
    pub(crate) fn read_at(&self, port: u32) -> (u64, u64) {
        let masked = self.board.block(port).get64(block::DB_MASK);
        (self.set_at(port), masked & self.valid)
    }

    /// This port, if it is rung whenever it rings a peer.
    pub(crate) fn echo(&self) -> Option<u32> {
        self.kind.echo().then_some(self.board.ports.own())
    }

    /// Ring doorbells of a port.
    ///
    /// # Errors
    ///
    /// `EINVAL` if one of them does not exist.
    pub(crate) fn ring(&self, port: u32, bits: u64) -> Result {
        self.check(bits)?;
        let bits = self.kind.rung(bits);
        let own = self.board.ports.own();
        let peer = self.board.block(port);
        let guard = self.ringing.lock();
        barrier::mb();
        let fresh = bits & !self.set_by(port, own);
        if fresh == 0 {
            return Ok(());
        }
        let rung = peer.get64(block::DB_RUNG.at(own));
        peer.set64(block::DB_RUNG.at(own), rung ^ fresh);
        barrier::mb();
        drop(guard);
        if self.lost.strikes() {
            return Ok(());
        }
        self.interrupt(port, fresh & !peer.get64(block::DB_MASK));
        Ok(())
    }

    /// Clear doorbells of this port.
    ///
    /// # Errors
    ///
    /// `EINVAL` if one of them does not exist.
    pub(crate) fn clear(&self, bits: u64) -> Result {
        self.check(bits)?;
        let own = self.board.ports.own();
        let block = self.board.own();
        let guard = self.mask.lock();
        for sender in self.board.ports.all() {
            let cleared = self.set_by(own, sender) & bits;
            if cleared != 0 {
                let seen = block.get64(block::DB_SEEN.at(sender));
                block.set64(block::DB_SEEN.at(sender), seen ^ cleared);
            }
        }
        drop(guard);
        barrier::mb();
        Ok(())
    }

    /// Mask doorbells of this port.
    ///
    /// # Errors
    ///
    /// `EINVAL` if one of them does not exist.
    pub(crate) fn set_mask(&self, bits: u64) -> Result {
        self.check(bits)?;
        let mut mask = self.mask.lock();
        *mask |= self.kind.masked(bits);
        self.board.own().set64(block::DB_MASK, *mask);
        Ok(())
    }

    /// Unmask doorbells of this port; those that are set interrupt now.
    ///
    /// # Errors
    ///
    /// `EINVAL` if one of them does not exist.
    pub(crate) fn clear_mask(&self, bits: u64) -> Result {
        self.check(bits)?;
        let mut mask = self.mask.lock();
        let unmasked = *mask & bits;
        *mask &= !bits;
        self.board.own().set64(block::DB_MASK, *mask);
        drop(mask);
        if unmasked != 0 {
            barrier::mb();
            self.interrupt(self.board.ports.own(), self.read() & unmasked);
        }
        Ok(())
    }

    /// Raise the interrupts of a port that belong to doorbells.
    fn interrupt(&self, port: u32, bits: u64) {
        for (bells, vector) in self.vectors.iter().zip(self.first_vector..) {
            if bits & bells != 0 {
                self.board.kick(port, vector);
            }
        }
    }

    fn check(&self, bits: u64) -> Result {
        if bits & !self.valid != 0 {
            return Err(EINVAL);
        }
        Ok(())
    }
}

/// Deal doorbells out to vectors, as evenly as it goes.
fn spread(valid: u64, count: NonZero<u32>) -> Result<KVec<u64>> {
    let mut vectors = KVec::with_capacity(count.get() as usize, GFP_KERNEL)?;
    for vector in 0..count.get() {
        let bells = (0..u64::BITS)
            .filter(|&bit| bit % count == vector)
            .fold(0, |bells, bit| bells | 1 << bit);
        vectors.push(bells & valid, GFP_KERNEL)?;
    }
    Ok(vectors)
}
