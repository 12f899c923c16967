// SPDX-License-Identifier: MIT OR Apache-2.0

//! What NICs, VIs and memory have, and which of it can be.

use crate::{Error, HostAddress, Ptag, Result, DISCRIMINATOR_MAX};
use mp_proto::work;
use mp_queue_pair::provider::SLOT;

/// How reliable a VI is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Unreliable Delivery: at most once.
    Unreliable,
    /// Reliable Delivery: exactly once and in order, or the connection ends.
    ReliableDelivery,
    /// Reliable Reception: as before, and a send has succeeded only when its data is in the
    /// target's memory.
    ReliableReception,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 3] = [
        Level::Unreliable,
        Level::ReliableDelivery,
        Level::ReliableReception,
    ];

    /// The bit that `vipl.h` gives it.
    pub const fn bit(self) -> u16 {
        match self {
            Level::Unreliable => 0x01,
            Level::ReliableDelivery => 0x02,
            Level::ReliableReception => 0x04,
        }
    }

    /// The level of a bit (VI-EP-4).
    ///
    /// # Errors
    /// [`Error::InvalidReliabilityLevel`]: none, several or unknown ones.
    pub fn of_bits(bits: u16) -> Result<Self> {
        let level = Level::ALL.into_iter().find(|level| level.bit() == bits);
        level.ok_or(Error::InvalidReliabilityLevel)
    }

    /// Whether an error ends the connection.
    pub(crate) fn is_reliable(self) -> bool {
        work::Level::from(self).is_reliable()
    }

    /// Whether there is RDMA read.
    pub(crate) fn has_read(self) -> bool {
        RDMA_READ & self.bit() != 0
    }
}

impl From<Level> for work::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Unreliable => work::Level::Unreliable,
            Level::ReliableDelivery => work::Level::Reliable,
            Level::ReliableReception => work::Level::Acknowledged,
        }
    }
}

/// Levels with RDMA read, as bits (VI-LIM-4).
const RDMA_READ: u16 = Level::ReliableDelivery.bit() | Level::ReliableReception.bit();

/// Most bytes that one descriptor transfers.
pub const TRANSFER_MAX: u32 = 16 << 20;
/// Most descriptors of a work queue.
pub const DESCRIPTORS_MAX: usize = 4096;
/// Most segments of a descriptor, the address segment counted: its largest size is 4096 bytes
/// (VI-LIM-2).
pub const SEGMENTS_MAX: u16 = 254;
/// Most completion queues of a NIC handle.
pub const CQ_MAX: usize = 1024;
/// Most entries of a completion queue.
pub const CQ_ENTRIES_MAX: u64 = 65_536;
/// Most regions of a NIC handle.
pub const REGIONS_MAX: usize = 65_535;

/// Sessions of a NIC handle that are no VI's: those that servers wait with, and trunks.
const SESSIONS_KEPT: u32 = 64;

/// What a VI is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViAttributes {
    /// Its reliability.
    pub level: Level,
    /// Most bytes of a transfer, from 1 to [`TRANSFER_MAX`].
    pub max_transfer_size: u64,
    /// Its protection tag.
    pub ptag: Ptag,
    /// Whether the remote side may write here.
    pub rdma_write: bool,
    /// Whether the remote side may read here.
    pub rdma_read: bool,
}

impl ViAttributes {
    /// Refuse what no VI can have, except for the tag (VI-EP-5, VI-EP-8).
    ///
    /// # Errors
    /// [`Error::InvalidMtu`], [`Error::InvalidRdmaRead`].
    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=u64::from(TRANSFER_MAX)).contains(&self.max_transfer_size) {
            return Err(Error::InvalidMtu);
        }
        match self.rdma_read && !self.level.has_read() {
            true => Err(Error::InvalidRdmaRead),
            false => Ok(()),
        }
    }
}

/// What is told of the VI at the other end: no tag, and no quality of service, for there is only
/// one (VI-CONN-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteViAttributes {
    /// Its reliability.
    pub level: Level,
    /// Most bytes of a transfer.
    pub max_transfer_size: u64,
    /// Whether it can be written to.
    pub rdma_write: bool,
    /// Whether it can be read from.
    pub rdma_read: bool,
}

impl From<&ViAttributes> for RemoteViAttributes {
    fn from(own: &ViAttributes) -> Self {
        RemoteViAttributes {
            level: own.level,
            max_transfer_size: own.max_transfer_size,
            rdma_write: own.rdma_write,
            rdma_read: own.rdma_read,
        }
    }
}

impl RemoteViAttributes {
    /// Refuse to connect VIs that do not fit: reliability before the largest transfer
    /// (VI-CONN-9, VI-PEER-4).
    ///
    /// # Errors
    /// [`Error::InvalidReliabilityLevel`], [`Error::InvalidMtu`].
    pub(crate) fn must_fit(&self, own: &ViAttributes) -> Result<()> {
        if self.level != own.level {
            return Err(Error::InvalidReliabilityLevel);
        }
        match self.max_transfer_size == own.max_transfer_size {
            true => Ok(()),
            false => Err(Error::InvalidMtu),
        }
    }
}

/// Bytes of [`Told::encode`].
pub(crate) const ENCODED: usize = 16;

/// Marks data of this library, in this version.
const MAGIC: [u8; 4] = *b"VIA1";
/// What a side has enabled, and asks for.
const WRITE: u8 = 1;
const READ: u8 = 2;
const CHECKS: u8 = 4;

/// What the sides of a connection tell each other of their VIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) attributes: RemoteViAttributes,
    /// It asks for checks of what crosses, which there are if any of the two asks for them.
    pub(crate) checks: bool,
}

impl Told {
    /// As the other side is told it: magic (4), level (1), flags (1), zero (2), largest transfer
    /// (8), little-endian.
    pub(crate) fn encode(&self) -> [u8; ENCODED] {
        let [m0, m1, m2, m3] = MAGIC;
        let RemoteViAttributes {
            level,
            max_transfer_size,
            rdma_write,
            rdma_read,
        } = self.attributes;
        let flag = |is: bool, bit| if is { bit } else { 0 };
        let flags = flag(rdma_write, WRITE) | flag(rdma_read, READ) | flag(self.checks, CHECKS);
        let [t0, t1, t2, t3, t4, t5, t6, t7] = max_transfer_size.to_le_bytes();
        let level = level.bit() as u8;
        [
            m0, m1, m2, m3, level, flags, 0, 0, t0, t1, t2, t3, t4, t5, t6, t7,
        ]
    }

    /// What the other side has told; nothing if it is not that.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ENCODED] = bytes.first_chunk()?;
        let [m0, m1, m2, m3, level, flags, z0, z1, transfer @ ..] = *bytes;
        let told = Told {
            attributes: RemoteViAttributes {
                level: Level::of_bits(level.into()).ok()?,
                max_transfer_size: u64::from_le_bytes(transfer),
                rdma_write: flags & WRITE != 0,
                rdma_read: flags & READ != 0,
            },
            checks: flags & CHECKS != 0,
        };
        let known = flags & !(WRITE | READ | CHECKS) == 0 && [z0, z1] == [0, 0];
        ([m0, m1, m2, m3] == MAGIC && known).then_some(told)
    }
}

/// What memory is registered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemAttributes {
    /// Its protection tag.
    pub ptag: Ptag,
    /// Whether remote sides may write there.
    pub rdma_write: bool,
    /// Whether remote sides may read there.
    pub rdma_read: bool,
}

/// What a NIC has; fixed when it is opened (VI-QRY-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicAttributes {
    /// Its name, at most 63 bytes.
    pub name: String,
    /// Version of the driver's interface.
    pub hardware_version: u32,
    /// Version of this library: 1.
    pub provider_version: u32,
    /// The address of this host.
    pub local_address: HostAddress,
    /// Most bytes of a discriminator.
    pub max_discriminator_len: u16,
    /// Most bytes that can be registered.
    pub max_register_bytes: u64,
    /// Most regions.
    pub max_register_regions: u64,
    /// Most bytes of a region.
    pub max_register_block_bytes: u64,
    /// Most VIs.
    pub max_vi: u64,
    /// Most descriptors of a work queue.
    pub max_descriptors_per_queue: u64,
    /// Most segments of a descriptor.
    pub max_segments_per_desc: u64,
    /// Most completion queues.
    pub max_cq: u64,
    /// Most entries of each.
    pub max_cq_entries: u64,
    /// Most bytes of a transfer.
    pub max_transfer_size: u64,
    /// Bytes that cross in one piece.
    pub native_mtu: u64,
    /// Most protection tags.
    pub max_ptags: u64,
    /// Bits of [`Level`].
    pub reliability_level_support: u16,
    /// Levels with RDMA read.
    pub rdma_read_support: u16,
}

impl NicAttributes {
    /// Those of a host with so many bytes of memory and so many sessions for a program.
    pub(crate) fn of(
        name: String,
        local_address: HostAddress,
        version: u32,
        sessions: u32,
        memory: u64,
    ) -> Self {
        let all = Level::ALL.iter().fold(0, |bits, level| bits | level.bit());
        NicAttributes {
            name,
            hardware_version: version,
            provider_version: 1,
            local_address,
            max_discriminator_len: DISCRIMINATOR_MAX as u16,
            max_register_bytes: memory,
            max_register_regions: REGIONS_MAX as u64,
            max_register_block_bytes: memory,
            max_vi: sessions.saturating_sub(SESSIONS_KEPT).max(1).into(),
            max_descriptors_per_queue: DESCRIPTORS_MAX as u64,
            max_segments_per_desc: SEGMENTS_MAX.into(),
            max_cq: CQ_MAX as u64,
            max_cq_entries: CQ_ENTRIES_MAX,
            max_transfer_size: TRANSFER_MAX.into(),
            native_mtu: SLOT as u64,
            max_ptags: REGIONS_MAX.max(sessions as usize) as u64,
            reliability_level_support: all,
            rdma_read_support: RDMA_READ,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn good() -> ViAttributes {
        ViAttributes {
            level: Level::ReliableDelivery,
            max_transfer_size: 4096,
            ptag: Ptag(1),
            rdma_write: true,
            rdma_read: true,
        }
    }

    /// VI-EP-4: exactly one level.
    #[test]
    fn a_level_is_one_bit() {
        for bits in 0..=u16::MAX {
            let known = matches!(bits, 1 | 2 | 4);
            assert_eq!(Level::of_bits(bits).is_ok(), known, "{bits:#x}");
        }
    }

    /// VI-EP-5, VI-EP-8
    #[test]
    fn what_no_vi_can_have_is_refused() {
        assert_eq!(good().check(), Ok(()));
        for (size, result) in [
            (0, Err(Error::InvalidMtu)),
            (1, Ok(())),
            (TRANSFER_MAX.into(), Ok(())),
            (u64::from(TRANSFER_MAX) + 1, Err(Error::InvalidMtu)),
            (u64::MAX, Err(Error::InvalidMtu)),
        ] {
            let vi = ViAttributes {
                max_transfer_size: size,
                ..good()
            };
            assert_eq!(vi.check(), result);
        }
        let vi = ViAttributes {
            level: Level::Unreliable,
            ..good()
        };
        assert_eq!(vi.check(), Err(Error::InvalidRdmaRead));
    }

    /// VI-CONN-9, VI-PEER-4: level and transfer size are compared, in this order, and nothing else.
    #[test]
    fn only_level_and_size_have_to_fit() {
        let own = good();
        let remote = RemoteViAttributes {
            rdma_write: false,
            rdma_read: false,
            ..RemoteViAttributes::from(&own)
        };
        assert_eq!(remote.must_fit(&own), Ok(()));
        let size = RemoteViAttributes {
            max_transfer_size: 1,
            ..remote
        };
        assert_eq!(size.must_fit(&own), Err(Error::InvalidMtu));
        let both = RemoteViAttributes {
            level: Level::Unreliable,
            ..size
        };
        assert_eq!(both.must_fit(&own), Err(Error::InvalidReliabilityLevel));
    }

    /// VI-LIM-1, VI-LIM-2, VI-LIM-3, VI-LIM-4
    #[test]
    fn the_least_that_the_specification_asks_for_is_there() {
        let nic = NicAttributes::of("VINIC".into(), HostAddress::of(0), 1, 70_000, 1);
        assert!(nic.max_discriminator_len >= 16);
        assert!(nic.max_segments_per_desc >= 253);
        assert!(nic.max_ptags >= nic.max_vi && nic.max_vi >= 1);
        assert_eq!(nic.reliability_level_support, 7);
        assert_eq!(nic.rdma_read_support & !nic.reliability_level_support, 0);
    }

    proptest! {
        /// VI-CONN-2: attributes arrive as they are; other bytes are none.
        #[test]
        fn attributes_survive_the_wire(level in 0..3_usize, size: u64, write: bool, read: bool, checks: bool, other: [u8; ENCODED]) {
            let attributes = RemoteViAttributes {
                level: Level::ALL[level],
                max_transfer_size: size,
                rdma_write: write,
                rdma_read: read,
            };
            let told = Told { attributes, checks };
            prop_assert_eq!(Told::decode(&told.encode()), Some(told));
            if let Some(decoded) = Told::decode(&other) {
                prop_assert_eq!(decoded.encode(), other);
            }
            prop_assert_eq!(Told::decode(&other[1..]), None);
        }
    }
}
