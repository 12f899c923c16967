// SPDX-License-Identifier: GPL-2.0-only

//! The register memory that all ports share, and the interrupts between them.

use super::regs::{
    block,
    device,
    header,
    Reg32,
    Reg64,
    BAR_DEVICE,
    BAR_MEMORY,
    PORTS_MAX, //
};
use core::num::NonZero;
use kernel::{
    device::Bound,
    pci,
    prelude::*, //
};
use mp_kernel::{
    barrier,
    ntb::bus::Registers, //
};

/// Port numbers and peer indices: peers are numbered by ascending port, without
/// the observer itself.
///
/// # Invariants
///
/// `own < count`, `count` is at most [`PORTS_MAX`], and `peers` is one less.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    own: u32,
    count: u32,
    peers: NonZero<u32>,
}

impl Ports {
    /// `None` if there are not from 2 to [`PORTS_MAX`] ports, or `own` is none of
    /// them.
    fn new(own: u32, count: u32) -> Option<Self> {
        let peers = NonZero::new(count.checked_sub(1)?)?;
        // INVARIANT: Just checked.
        (own < count && count <= PORTS_MAX).then_some(Self { own, count, peers })
    }

    /// This host's port.
    pub(crate) fn own(&self) -> u32 {
        self.own
    }

    /// All ports, this host's included.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        0..self.count
    }

    /// Number of peers.
    pub(crate) fn peer_count(&self) -> NonZero<u32> {
        self.peers
    }

    /// Indices and ports of all peers.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (u32, u32)> {
        let own = self.own;
        self.all()
            .filter(move |&port| port != own)
            .enumerate()
            .map(|(pidx, port)| (pidx as u32, port))
    }

    /// The port of a peer.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such peer.
    pub(crate) fn port(&self, pidx: u32) -> Result<u32> {
        if pidx >= self.peers.get() {
            return Err(EINVAL);
        }
        Ok(if pidx < self.own { pidx } else { pidx + 1 })
    }

    /// The index of a port among the peers of another, `observer`.
    pub(crate) fn index_at(&self, observer: u32, port: u32) -> u32 {
        if port < observer {
            port
        } else {
            port.saturating_sub(1)
        }
    }
}

/// What the server says of the machines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Bytes of each guest's RAM.
    pub(crate) ram_size: u64,
    /// Guest-physical address of the area for slots.
    pub(crate) area_base: u64,
    /// Bytes of the area.
    pub(crate) area_size: u64,
    /// PCI device number of port 0's RAM.
    pub(crate) plain_slot_base: u32,
    /// Interrupt vectors of each port.
    pub(crate) vectors: NonZero<u32>,
}

/// The register memory and the doorbell register.
///
/// # Invariants
///
/// The blocks of all ports lie in `memory`.
pub(crate) struct Board {
    device: Registers,
    memory: Registers,
    stride: usize,
    /// Who is who.
    pub(crate) ports: Ports,
    /// What the server says.
    pub(crate) geometry: Geometry,
}

impl Board {
    /// Map the BARs of an `ivshmem-doorbell` and check what the server wrote.
    ///
    /// # Errors
    ///
    /// `ENODEV` if this is not register memory as this driver knows it, with a
    /// line in the log, or what mapping reports.
    pub(crate) fn open(pdev: &pci::Device<Bound>) -> Result<Self> {
        let device = Registers::map(pdev, BAR_DEVICE, c"ntb_hw_ivshmem")?;
        let memory = Registers::map(pdev, BAR_MEMORY, c"ntb_hw_ivshmem")?;
        let get = |reg: Reg32| memory.read_u32(reg.0);
        if get(header::MAGIC) != header::MAGIC_VALUE {
            dev_err!(pdev, "no register memory: the server is not the rig's\n");
            return Err(ENODEV);
        }
        if get(header::VERSION) != header::VERSION_VALUE {
            dev_err!(
                pdev,
                "register memory has version {}, not {}\n",
                get(header::VERSION),
                header::VERSION_VALUE
            );
            return Err(ENODEV);
        }
        let count = get(header::PORTS);
        let stride = get(header::STRIDE) as usize;
        let own = device.read_u32(device::IV_POSITION.0);
        let blocks = (count as usize)
            .checked_mul(stride)
            .and_then(|len| len.checked_add(header::BLOCKS));
        let vectors = get(header::VECTORS);
        let ports = Ports::new(own, count).filter(|_| {
            stride >= block::SIZE
                && stride % 8 == 0
                && blocks.is_some_and(|end| end <= memory.len())
        });
        let (Some(ports), Some(vectors)) = (ports, NonZero::new(vectors)) else {
            dev_err!(
                pdev,
                "register memory makes no sense: port {} of {}, stride {:#x}, {} vectors\n",
                own,
                count,
                stride,
                vectors
            );
            return Err(ENODEV);
        };
        let geometry = Geometry {
            ram_size: memory.read_u64(header::RAM_SIZE.0),
            area_base: memory.read_u64(header::AREA_BASE.0),
            area_size: memory.read_u64(header::AREA_SIZE.0),
            plain_slot_base: get(header::PLAIN_SLOT_BASE),
            vectors,
        };
        // INVARIANT: All checked.
        Ok(Self {
            device,
            memory,
            stride,
            ports,
            geometry,
        })
    }

    /// Whether there is a cable at both ports.
    pub(crate) fn is_plugged(&self, a: u32, b: u32) -> bool {
        self.memory.read_u32(header::UNPLUGGED.0) & (1 << a | 1 << b) == 0
    }

    /// The block of a port.
    #[inline]
    pub(crate) fn block(&self, port: u32) -> Block<'_> {
        Block {
            memory: &self.memory,
            base: header::BLOCKS + port as usize * self.stride,
        }
    }

    /// This host's own block.
    #[inline]
    pub(crate) fn own(&self) -> Block<'_> {
        self.block(self.ports.own)
    }

    /// Raise an interrupt of a port, possibly this host's own. Everything
    /// stored before is there when it arrives.
    #[inline]
    pub(crate) fn kick(&self, port: u32, vector: u32) {
        barrier::wmb();
        self.device
            .write_u32(device::DOORBELL.0, device::doorbell(port, vector));
    }

    /// Raise the service interrupt of every port, this host's included.
    pub(crate) fn kick_all(&self) {
        for port in self.ports.all() {
            self.kick(port, SERVICE_VECTOR);
        }
    }
}

/// The vector of link changes and messages.
pub(crate) const SERVICE_VECTOR: u32 = 0;

/// The registers of one port.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    memory: &'a Registers,
    base: usize,
}

impl Block<'_> {
    #[inline]
    pub(crate) fn get32(&self, reg: Reg32) -> u32 {
        self.memory.read_u32(self.base + reg.0)
    }

    #[inline]
    pub(crate) fn set32(&self, reg: Reg32, val: u32) {
        self.memory.write_u32(self.base + reg.0, val);
    }

    #[inline]
    pub(crate) fn get64(&self, reg: Reg64) -> u64 {
        self.memory.read_u64(self.base + reg.0)
    }

    #[inline]
    pub(crate) fn set64(&self, reg: Reg64, val: u64) {
        self.memory.write_u64(self.base + reg.0, val);
    }
}
