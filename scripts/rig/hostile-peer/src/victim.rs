// SPDX-License-Identifier: GPL-2.0-only
//! What a peer reaches of a guest: its inbound memory, its registers, its doorbells.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Where the block of a port's registers begins, and where its parts are; see
/// `rust/ntb_hw_ivshmem/regs.rs`.
const BLOCKS: u64 = 0x1000;
const STRIDE: u64 = 0x8000;
const DB_RUNG: u64 = 0x100;
const SPADS: u64 = 0x1000;

/// Which guests they are.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// Who is lied to.
    pub victim: u64,
    /// Who is said to lie.
    pub liar: u64,
    /// Interrupts of each.
    pub vectors: u64,
}

/// A guest as its peer sees it.
#[derive(Debug)]
pub struct Victim {
    ram: File,
    base: u64,
    len: u64,
    queues: u32,
    server: UnixDatagram,
    ports: Ports,
}

impl Victim {
    /// The guest whose RAM is the file `ram`, and has `len` bytes at `base` for the liar,
    /// with so many data queues.
    ///
    /// # Errors
    /// What the system reports of the files.
    pub fn open(
        ram: &Path,
        base: u64,
        len: u64,
        queues: u32,
        server: &Path,
        ports: Ports,
    ) -> io::Result<Self> {
        let ram = File::options().read(true).write(true).open(ram)?;
        let orders = UnixDatagram::unbound()?;
        orders.connect(server)?;
        Ok(Self {
            ram,
            base,
            len,
            queues,
            server: orders,
            ports,
        })
    }

    /// Bytes of the inbound memory.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Its data queues.
    pub fn queues(&self) -> u32 {
        self.queues
    }

    /// The ports.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Bytes of the inbound memory; fewer at its end.
    ///
    /// # Errors
    /// What the system reports.
    pub fn load(&self, at: u64, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count.min(self.len.saturating_sub(at) as usize)];
        self.ram.read_exact_at(&mut bytes, self.base + at)?;
        Ok(bytes)
    }

    /// Overwrite bytes of the inbound memory, as far as it reaches.
    ///
    /// # Errors
    /// What the system reports.
    pub fn store(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let room = self.len.saturating_sub(at) as usize;
        let bytes = &bytes[..bytes.len().min(room)];
        self.ram.write_all_at(bytes, self.base + at)
    }

    /// The word at an offset.
    ///
    /// # Errors
    /// What the system reports.
    pub fn word(&self, at: u64) -> io::Result<u64> {
        let bytes = self.load(at, 8)?;
        Ok(bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)))
    }

    /// Raise one of the guest's interrupts, whatever its doorbells say.
    ///
    /// # Errors
    /// What the system reports.
    pub fn interrupt(&self, vector: u64) -> io::Result<()> {
        self.order(&format!("ring {} {vector}", self.ports.victim))
    }

    /// Set and clear doorbells of the guest without a word.
    ///
    /// # Errors
    /// What the system reports.
    pub fn doorbells(&self, bits: u64) -> io::Result<()> {
        let at = DB_RUNG + 8 * self.ports.liar;
        self.register(at, bits as u32)?;
        self.register(at + 4, (bits >> 32) as u32)
    }

    /// Write a scratchpad of the guest.
    ///
    /// # Errors
    /// What the system reports.
    pub fn scratchpad(&self, number: u64, value: u32) -> io::Result<()> {
        self.register(SPADS + 4 * number, value)
    }

    fn register(&self, at: u64, value: u32) -> io::Result<()> {
        let at = BLOCKS + STRIDE * self.ports.victim + at;
        self.order(&format!("store {at} {value}"))
    }

    fn order(&self, order: &str) -> io::Result<()> {
        self.server.send(order.as_bytes()).map(|_| ())
    }
}
