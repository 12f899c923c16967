// SPDX-License-Identifier: GPL-2.0-only

//! Where the registers are.
//!
//! All of them are little-endian. The driver runs on little-endian hosts only,
//! as QEMU's ivshmem does.

/// A 32-bit register at a byte offset.
#[derive(Clone, Copy)]
pub(crate) struct Reg32(pub(crate) usize);

/// A 64-bit register at a byte offset.
#[derive(Clone, Copy)]
pub(crate) struct Reg64(pub(crate) usize);

/// An array of 32-bit registers.
#[derive(Clone, Copy)]
pub(crate) struct Array32(usize);

/// An array of 64-bit registers.
#[derive(Clone, Copy)]
pub(crate) struct Array64(usize);

impl Array32 {
    pub(crate) const fn at(self, i: u32) -> Reg32 {
        Reg32(self.0 + i as usize * 4)
    }
}

impl Array64 {
    pub(crate) const fn at(self, i: u32) -> Reg64 {
        Reg64(self.0 + i as usize * 8)
    }
}

/// PCI ids of both kinds of ivshmem function.
pub(crate) const DEVICE_ID: u32 = 0x1110;
/// BAR of the device's own registers.
pub(crate) const BAR_DEVICE: u32 = 0;
/// BAR of the MSI-X table; only `ivshmem-doorbell` has it.
pub(crate) const BAR_MSIX: u32 = 1;
/// BAR of the shared memory.
pub(crate) const BAR_MEMORY: u32 = 2;

/// The registers of `ivshmem-doorbell` (QEMU's `docs/specs/ivshmem-spec`).
pub(crate) mod device {
    use super::Reg32;

    /// This host's port number.
    pub(crate) const IV_POSITION: Reg32 = Reg32(8);
    /// Write-only: raises an interrupt of a port.
    pub(crate) const DOORBELL: Reg32 = Reg32(12);

    /// The value that raises `vector` of `port`.
    pub(crate) const fn doorbell(port: u32, vector: u32) -> u32 {
        port << 16 | vector
    }
}

/// The head of the register memory, written by the ivshmem server.
pub(crate) mod header {
    use super::{
        Reg32,
        Reg64, //
    };

    pub(crate) const MAGIC: Reg32 = Reg32(0x00);
    pub(crate) const VERSION: Reg32 = Reg32(0x04);
    /// Number of ports, present or not.
    pub(crate) const PORTS: Reg32 = Reg32(0x08);
    /// Bytes from one port's block to the next.
    pub(crate) const STRIDE: Reg32 = Reg32(0x0c);
    /// Bytes of each guest's RAM.
    pub(crate) const RAM_SIZE: Reg64 = Reg64(0x10);
    /// Guest-physical address of the area for window slots.
    pub(crate) const AREA_BASE: Reg64 = Reg64(0x18);
    /// Bytes of that area.
    pub(crate) const AREA_SIZE: Reg64 = Reg64(0x20);
    /// PCI device number of port 0's RAM; the others follow.
    pub(crate) const PLAIN_SLOT_BASE: Reg32 = Reg32(0x28);
    /// Interrupt vectors of each port.
    pub(crate) const VECTORS: Reg32 = Reg32(0x2c);

    /// Ports whose cable is out, a bit each.
    pub(crate) const UNPLUGGED: Reg32 = Reg32(0x30);

    /// "NTBI".
    pub(crate) const MAGIC_VALUE: u32 = 0x4942_544e;
    pub(crate) const VERSION_VALUE: u32 = 1;
    /// Offset of port 0's block.
    pub(crate) const BLOCKS: usize = 0x1000;
}

/// Most ports that a block has room for.
pub(crate) const PORTS_MAX: u32 = 8;
/// Message registers in each direction.
pub(crate) const MSG_COUNT: u32 = 4;
/// Most windows between two ports.
pub(crate) const MOVED_COUNT: u32 = 8;
/// Most scratchpads of a port.
pub(crate) const SPAD_MAX: u32 = 256;

/// The block of a port, its *owner*. Registers are written by the owner, unless
/// said otherwise; arrays over ports are indexed by port number.
pub(crate) mod block {
    use super::{
        Array32,
        Array64,
        Reg32,
        Reg64, //
    };

    /// Bytes in use; the stride must not be less.
    pub(crate) const SIZE: usize = 0x2000;

    /// [`ABSENT`], [`PRESENT`] or [`ENABLED`]; the server stores `ABSENT` when
    /// the owner's machine dies.
    pub(crate) const STATE: Reg32 = Reg32(0x000);
    /// Counts those deaths, and how often the port was unplugged; written by the
    /// server.
    pub(crate) const LOST: Reg32 = Reg32(0x004);
    /// Counts the times that a driver has started on this port.
    pub(crate) const GENERATION: Reg32 = Reg32(0x008);
    /// Counts the times that the link was enabled, without zero.
    pub(crate) const ENABLES: Reg32 = Reg32(0x00c);
    /// Fingerprint of the parameters.
    pub(crate) const FINGERPRINT: Reg32 = Reg32(0x010);
    /// Message bits that raise no interrupt.
    pub(crate) const MSG_MASK: Reg32 = Reg32(0x014);
    /// Doorbells that raise no interrupt.
    pub(crate) const DB_MASK: Reg64 = Reg64(0x018);
    /// Physical address of the memory of the owner's target.
    pub(crate) const TARGET_BASE: Reg64 = Reg64(0x020);
    /// Its bytes, zero without a target.
    pub(crate) const TARGET_LEN: Reg64 = Reg64(0x028);
    /// Which slots of each port the owner's client has asked the address of,
    /// before it enabled the link.
    pub(crate) const ASKED: Array32 = Array32(0x040);
    /// The life of each port's link with which the owner's end is trained, as a
    /// number, or zero.
    pub(crate) const TRAINED: Array32 = Array32(0x060);
    /// Doorbells as each sender has rung them; written by the sender.
    pub(crate) const DB_RUNG: Array64 = Array64(0x100);
    /// Doorbells of each sender as the owner has seen them.
    pub(crate) const DB_SEEN: Array64 = Array64(0x140);
    /// Messages as each sender has sent them; written by the sender.
    pub(crate) const MSG_RUNG: Array32 = Array32(0x180);
    /// Messages of each sender as the owner has seen them.
    pub(crate) const MSG_SEEN: Array32 = Array32(0x1c0);
    /// The messages, `MSG_COUNT` of each sender; written by the sender.
    pub(crate) const MSG_DATA: Array32 = Array32(0x200);
    /// Where windows of each port lead that its owner has led elsewhere than to
    /// their slots, `MOVED_COUNT` of each port, or zero. Bit 0 is set in all others;
    /// with bit 1 it is a place in the owner's target, else in its RAM.
    pub(crate) const MOVED: Array64 = Array64(0x400);
    /// Bytes that those windows lead to, written before the place.
    pub(crate) const MOVED_LEN: Array64 = Array64(0x600);
    /// Scratchpads; written by anybody.
    pub(crate) const SPADS: Array32 = Array32(0x1000);

    /// Nobody is there.
    pub(crate) const ABSENT: u32 = 0;
    /// A driver runs.
    pub(crate) const PRESENT: u32 = 1;
    /// It has enabled the link.
    pub(crate) const ENABLED: u32 = 3;
}
