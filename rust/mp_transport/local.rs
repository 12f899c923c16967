// SPDX-License-Identifier: GPL-2.0-only

//! The local processor of the guide: what addresses memory has for this host and
//! for others, and copies by a DMA engine (`IDT-LP-*`, `IDT-DMA-*`).
//!
//! Transports register the memory that peers reach (inbound) and the windows through
//! which this host reaches theirs (outbound); a window may have an engine that
//! copies into it. Everything is read under RCU, in any context.

use crate::copy::Completion;
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use mp_kernel::sync::RcuArc;

/// Most ranges of one host: two for each peer.
const MAX_RANGES: usize = 2 * crate::service::MAX_PEERS;

/// Whose memory it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Local memory, as a peer addresses it through the bridge.
    Inbound,
    /// A peer's memory, as this host addresses it.
    Outbound,
}

/// Where memory is; each address is that of its first byte.
#[derive(Clone, Copy)]
pub struct Range {
    /// Whose memory it is.
    pub side: Side,
    /// For this host's programs.
    pub virt: usize,
    /// For this host's memory controller.
    pub phys: u64,
    /// On the PCI bus.
    pub pci: u64,
    /// Bytes.
    pub len: u64,
}

/// A kind of address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// See [`Range::virt`].
    Virt,
    /// See [`Range::phys`].
    Phys,
    /// See [`Range::pci`].
    Pci,
}

impl Range {
    fn start(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Virt => self.virt as u64,
            Kind::Phys => self.phys,
            Kind::Pci => self.pci,
        }
    }

    /// How far inside `len` bytes at an address lie.
    fn offset(&self, kind: Kind, address: u64, len: u64) -> Option<u64> {
        let offset = address.checked_sub(self.start(kind))?;
        let left = self.len.checked_sub(offset)?;
        (left != 0 && len <= left).then_some(offset)
    }
}

/// A range to copy.
#[derive(Clone, Copy, Default)]
pub struct Piece {
    /// Physical address of the source, which is local memory.
    pub src: u64,
    /// Bytes from the start of the window.
    pub off: u64,
    /// Bytes.
    pub len: usize,
}

/// An engine that copies into a window.
pub trait Copier: Send + Sync + 'static {
    /// Start to copy all pieces and tell `done` at the end (`IDT-DMA-2`). Called
    /// under RCU, in process or softirq context.
    ///
    /// # Errors
    ///
    /// `ENODEV` without an engine, `EAGAIN` if it has too much to do, `E2BIG` for too
    /// many pieces, `EINVAL` or `EFAULT` for what it cannot copy; `done` is not told
    /// then.
    ///
    /// # Safety
    ///
    /// The sources stay allocated until `done` has been told.
    unsafe fn start(&self, pieces: &[Piece], done: Completion) -> Result;
}

struct Entry {
    range: Range,
    copier: Option<Arc<dyn Copier>>,
}

static RANGES: [RcuArc<Entry>; MAX_RANGES] = [const { RcuArc::empty() }; MAX_RANGES];

kernel::sync::global_lock! {
    // SAFETY: Initialised in the module's `init`, before anything is registered.
    pub(crate) unsafe(uninit) static CHANGES: Mutex<()> = ();
}

/// Keeps a range registered. Dropping it sleeps, and returns when no call of its
/// copier is under way or can start.
pub struct Registration {
    cell: &'static RcuArc<Entry>,
}

impl Registration {
    /// Register memory, and an engine that copies into it if there is one.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are too many, `ENOMEM`.
    pub fn new(range: Range, copier: Option<Arc<dyn Copier>>) -> Result<Self> {
        let entry = Arc::new(Entry { range, copier }, GFP_KERNEL)?;
        let _changes = CHANGES.lock();
        let cell = RANGES.iter().find(|cell| cell.get().is_none());
        let cell = cell.ok_or(ENOSPC)?;
        drop(cell.replace(Some(entry)));
        Ok(Self { cell })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        drop(self.cell.replace(None));
    }
}

/// Convert an address (`IDT-LP-1` to `IDT-LP-8`); `None` outside all ranges
/// (`IDT-LP-10`).
pub(crate) fn convert(side: Side, from: Kind, to: Kind, address: u64) -> Option<u64> {
    let guard = rcu::read_lock();
    for cell in &RANGES {
        let Some(entry) = cell.load(&guard) else {
            continue;
        };
        if entry.range.side != side {
            continue;
        }
        if let Some(offset) = entry.range.offset(from, address, 1) {
            return Some(entry.range.start(to) + offset);
        }
    }
    None
}

/// A copy from local memory to the PCI bus: physical address, PCI address, bytes.
pub(crate) type Copy = (u64, u64, u32);

/// Most pieces of one copy.
const MAX_PIECES: usize = 32;

/// Start a copy of local memory into one window (`IDT-DMA-3`).
///
/// # Errors
///
/// Those of [`Copier::start`]; `EINVAL` for nothing to copy, or a destination that is
/// not all in one window.
///
/// # Safety
///
/// As for [`Copier::start`].
pub(crate) unsafe fn copy_out(
    copies: impl ExactSizeIterator<Item = Copy> + Clone,
    done: Completion,
) -> Result {
    let mut room = [Piece::default(); MAX_PIECES];
    let room = room.get_mut(..copies.len()).ok_or(E2BIG)?;
    let (_, dst, _) = copies.clone().next().ok_or(EINVAL)?;
    let guard = rcu::read_lock();
    let entry = RANGES.iter().find_map(|cell| {
        let entry = cell.load(&guard)?;
        let range = &entry.range;
        let hit = range.side == Side::Outbound && range.offset(Kind::Pci, dst, 1).is_some();
        hit.then_some(entry)
    });
    let entry = entry.ok_or(EINVAL)?;
    for (piece, (src, dst, len)) in room.iter_mut().zip(copies) {
        let off = entry.range.offset(Kind::Pci, dst, u64::from(len));
        *piece = Piece {
            src,
            off: off.ok_or(EINVAL)?,
            len: len as usize,
        };
    }
    let copier = entry.copier.as_ref().ok_or(ENODEV)?;
    // SAFETY: As the caller promises.
    unsafe { copier.start(room, done) }
}
