// SPDX-License-Identifier: GPL-2.0-only
//! The shared register memory: BAR 2 of every guest's `ivshmem-doorbell`.
//!
//! The server writes a header that describes the rig and says which ports are
//! unplugged, and of each port's block only the first two words. Everything else belongs to the guests' drivers.
//! Guests may scribble over all of it, therefore nothing is ever read back.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};

/// "NTBI", little-endian.
pub const MAGIC: u32 = 0x4942_544e;
/// Version of the layout.
pub const VERSION: u32 = 1;
/// Bytes of the whole memory.
pub const SIZE: u64 = 1 << 20;
/// Offset of port 0's block.
pub const PORTS_OFFSET: u64 = 0x1000;
/// Bytes from one port's block to the next.
pub const PORT_STRIDE: u32 = 0x8000;
/// Offset in a port's block of the word its driver sets when it is alive.
pub const STATE_OFFSET: u64 = 0;
/// Offset in the header of the mask of unplugged ports.
pub const UNPLUGGED_OFFSET: u64 = 48;
/// Offset in a port's block of the count of times that the port was cut off: its
/// guest died, or it was unplugged.
pub const LOST_OFFSET: u64 = 4;
/// Most ports that fit behind the header.
pub const MAX_PORTS: u32 = ((SIZE - PORTS_OFFSET) / PORT_STRIDE as u64) as u32;

/// What the header tells the drivers about the rig.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Number of ports, connected or not.
    pub ports: u32,
    /// Interrupt vectors of each port.
    pub vectors: u32,
    /// Bytes of RAM of each guest.
    pub ram_size: u64,
    /// Guest-physical start of the contiguous area for window slots.
    pub area_base: u64,
    /// Bytes of that area.
    pub area_size: u64,
    /// PCI device number of the `ivshmem-plain` that maps port 0's RAM.
    pub plain_slot_base: u32,
}

impl Geometry {
    /// Header bytes in the order of the layout.
    pub fn header(&self) -> [u8; 48] {
        let mut bytes = [0; 48];
        let words = [
            u64::from(MAGIC) | u64::from(VERSION) << 32,
            u64::from(self.ports) | u64::from(PORT_STRIDE) << 32,
            self.ram_size,
            self.area_base,
            self.area_size,
            u64::from(self.plain_slot_base) | u64::from(self.vectors) << 32,
        ];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// The shared memory file.
#[derive(Debug)]
pub struct Board {
    memory: File,
    geometry: Geometry,
    lost: Vec<u32>,
    unplugged: u32,
}

impl Board {
    /// Create zeroed memory of fixed size with the header in place.
    ///
    /// # Errors
    /// Whatever `memfd_create(2)`, `ftruncate(2)` or `write(2)` report.
    pub fn new(geometry: Geometry) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = File::from(memfd_create("ivshmem-board", flags)?);
        memory.set_len(SIZE)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW)?;
        let lost = vec![0; geometry.ports as usize];
        let board = Self {
            memory,
            geometry,
            lost,
            unplugged: 0,
        };
        board.write_header()?;
        Ok(board)
    }

    /// Write the header again, in case a guest has overwritten it.
    ///
    /// # Errors
    /// Whatever `pwrite(2)` reports.
    pub fn write_header(&self) -> io::Result<()> {
        self.memory.write_all_at(&self.geometry.header(), 0)?;
        let unplugged = self.unplugged.to_le_bytes();
        self.memory.write_all_at(&unplugged, UNPLUGGED_OFFSET)
    }

    /// Take the port's cable out or put it in again.
    ///
    /// # Errors
    /// Whatever `pwrite(2)` reports.
    pub fn set_plugged(&mut self, port: usize, plugged: bool) -> io::Result<()> {
        let bit = 1 << port;
        match plugged {
            true => self.unplugged &= !bit,
            false => self.unplugged |= bit,
        }
        if !plugged {
            self.count_loss(port)?;
        }
        self.write_header()
    }

    /// Mark the port as nobody's and count the loss.
    ///
    /// # Errors
    /// Whatever `pwrite(2)` reports.
    pub fn release(&mut self, port: usize) -> io::Result<()> {
        let state = block(port) + STATE_OFFSET;
        self.memory.write_all_at(&0u32.to_le_bytes(), state)?;
        self.count_loss(port)
    }

    /// Write a word among those of the ports, as a guest can; nothing elsewhere.
    ///
    /// # Errors
    /// Whatever `pwrite(2)` reports.
    pub fn store(&self, offset: u64, word: u32) -> io::Result<()> {
        let blocks = PORTS_OFFSET..SIZE - 3;
        if !offset.is_multiple_of(4) || !blocks.contains(&offset) {
            return Ok(());
        }
        self.memory.write_all_at(&word.to_le_bytes(), offset)
    }

    fn count_loss(&mut self, port: usize) -> io::Result<()> {
        let Some(lost) = self.lost.get_mut(port) else {
            return Ok(());
        };
        *lost = lost.wrapping_add(1);
        let word = block(port) + LOST_OFFSET;
        self.memory.write_all_at(&lost.to_le_bytes(), word)
    }
}

/// Offset of a port's block.
fn block(port: usize) -> u64 {
    PORTS_OFFSET + port as u64 * u64::from(PORT_STRIDE)
}

impl AsFd for Board {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}
