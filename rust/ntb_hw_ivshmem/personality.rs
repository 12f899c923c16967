// SPDX-License-Identifier: GPL-2.0-only

//! What the device is like: the limits of real parts, as data.
//!
//! A [`Personality`] shows a client what the kernel's own driver of a part
//! would. Its values are those of the drivers below `drivers/ntb/hw`, named
//! beside each; the sizes of windows, which a part's firmware chooses, are such
//! that they fit the rig. Parts of the driver ask the personality, and none of
//! them knows which one it is.
//!
//! Parts that join two hosts do so in a rig of two. Where there are more, they
//! have port numbers, and everything that is "for each peer" that many times.

use super::board::Ports;
use kernel::{
    fmt,
    prelude::*,
    sizes::{
        SZ_1M,
        SZ_2M,
        SZ_4K,
        SZ_4M,
        SZ_64K, //
    }, //
};
use mp_kernel::ntb::{
    device::WindowLimits,
    provider::{
        Features,
        Topology, //
    }, //
};

/// How a client of one of two hosts tells them apart.
#[derive(Clone, Copy, Debug)]
enum Sides {
    /// By port numbers.
    Numbered,
    /// By the topology: that of port 0, and that of port 1.
    Differ(Topology, Topology),
    /// Not at all: both have this topology, and port number 0.
    Alike(Topology),
}

/// What an alignment refers to.
#[derive(Clone, Copy, Debug)]
enum Align {
    /// So many bytes.
    Bytes(usize),
    /// The size of the window.
    Window,
}

impl Align {
    fn bytes(self, window: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes as u64,
            Self::Window => window,
        }
    }
}

/// The size of a window.
#[derive(Clone, Copy, Debug)]
enum Size {
    /// The parameter `mw_size`.
    Full,
    /// So many bytes.
    Bytes(usize),
    /// `mw_size`, divided by this.
    Share(u64),
}

/// Windows of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    count: u32,
    size: Size,
    addr_align: Align,
    size_align: Align,
}

impl Windows {
    const NONE: Self = Self::direct(0, Align::Window);

    /// Windows of full size onto memory at addresses aligned like this.
    const fn direct(count: u32, addr_align: Align) -> Self {
        Self {
            count,
            size: Size::Full,
            addr_align,
            size_align: Align::Bytes(1),
        }
    }

    fn limits(&self, full: u64) -> WindowLimits {
        let size = match self.size {
            Size::Full => full,
            Size::Bytes(bytes) => full.min(bytes as u64),
            Size::Share(parts) => full.checked_div(parts).unwrap_or(full),
        };
        WindowLimits {
            addr_align: self.addr_align.bytes(size),
            size_align: self.size_align.bytes(size),
            size_max: size,
        }
    }
}

/// The windows for each peer: first the direct ones, then those of a lookup table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPlan {
    direct: Windows,
    table: Windows,
}

impl WindowPlan {
    /// Number of windows for each peer.
    pub(crate) fn count(&self) -> u32 {
        self.direct.count + self.table.count
    }

    /// Number of those that are not entries of a table.
    pub(crate) fn direct_count(&self) -> u32 {
        self.direct.count
    }

    /// The same with another number of direct windows.
    pub(crate) fn with_direct_count(mut self, count: u32) -> Self {
        self.direct.count = count;
        self
    }

    /// What window `number` demands, if the direct ones have `full` bytes.
    pub(crate) fn limits(&self, number: u32, full: u64) -> WindowLimits {
        let kind = if number < self.direct.count {
            &self.direct
        } else {
            &self.table
        };
        kind.limits(full)
    }
}

/// What becomes of a ring, and of the mask.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bells {
    /// Every host has doorbells of its own.
    Own,
    /// One register is seen by all hosts, by the one that rings too.
    Shared,
    /// Each doorbell is an interrupt: there is no mask, and one ring rings one.
    Interrupts,
}

impl Bells {
    /// Those that ring when a client rings `bits` at once.
    #[inline]
    pub(crate) fn rung(self, bits: u64) -> u64 {
        match self {
            Self::Own | Self::Shared => bits,
            Self::Interrupts => bits & bits.wrapping_neg(),
        }
    }

    /// Those that `bits` keep from interrupting.
    #[inline]
    pub(crate) fn masked(self, bits: u64) -> u64 {
        match self {
            Self::Own | Self::Shared => bits,
            Self::Interrupts => 0,
        }
    }

    /// Whether who rings a peer is rung as well.
    #[inline]
    pub(crate) fn echo(self) -> bool {
        matches!(self, Self::Shared)
    }
}

/// How many interrupts doorbells are spread over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// As many as there are.
    Many,
    /// One, of which the client is told.
    One,
    /// One; the client is told nothing.
    Untold,
}

/// Who leads a window to a host's memory.
#[derive(Clone, Copy, Debug)]
enum Translation {
    /// The host whose memory it is.
    Receiver,
    /// The host that writes.
    Sender,
}

/// What a device is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Personality {
    name: &'static str,
    sides: Sides,
    translation: Translation,
    /// Windows for each peer.
    pub(crate) windows: WindowPlan,
    /// Bytes of a direct window.
    pub(crate) mw_size: usize,
    /// Number of doorbells.
    pub(crate) db_count: u32,
    /// How they work.
    pub(crate) bells: Bells,
    /// How they are spread over interrupts.
    pub(crate) vectors: Vectors,
    /// Whether a host can see its peers' doorbells, and ring its own.
    bell_state: bool,
    /// Number of scratchpads of each host.
    pub(crate) spad_count: u32,
    /// Whether there are message registers.
    messages: bool,
    /// Whether the driver reports an error for enabling and disabling the link at the
    /// secondary side, although it has done what that side can do.
    secondary_reports_error: bool,
}

impl Personality {
    /// The one with this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|one| one.name == name)
    }

    /// The one without any part's peculiarities.
    pub(crate) fn generic() -> &'static Self {
        &GENERIC
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its place among all, for comparison between hosts.
    pub(crate) fn index(&self) -> u32 {
        let place = ALL.iter().position(|one| one.name == self.name);
        place.map_or(0, |place| place as u32)
    }

    /// Whether the host that writes leads a window to memory.
    pub(crate) fn sender_translates(&self) -> bool {
        matches!(self.translation, Translation::Sender)
    }

    /// How the device joins this host to the others.
    pub(crate) fn topology(&self, ports: &Ports) -> Topology {
        match self.sides {
            _ if ports.peer_count().get() > 1 => Topology::Switch,
            Sides::Numbered => Topology::Switch,
            Sides::Alike(both) => both,
            Sides::Differ(first, _) if ports.own() == 0 => first,
            Sides::Differ(_, second) => second,
        }
    }

    /// The result of `ntb_link_enable()` and `ntb_link_disable()`, which have had their effect.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the part's driver reports it.
    pub(crate) fn link_result(&self, ports: &Ports) -> Result {
        let is_secondary = matches!(self.topology(ports), Topology::Secondary);
        if self.secondary_reports_error && is_secondary {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// The groups of operations that the device has.
    pub(crate) fn features(&self, ports: &Ports, spad_count: u32) -> Features {
        let numbered = ports.peer_count().get() > 1 || matches!(self.sides, Sides::Numbered);
        let translation = match self.translation {
            Translation::Receiver => Features::RECEIVER_TRANSLATES,
            Translation::Sender => Features::SENDER_TRANSLATES,
        };
        [
            (numbered, Features::PORTS),
            (self.vectors != Vectors::Untold, Features::DOORBELL_VECTORS),
            (self.bell_state, Features::DOORBELL_STATE),
            (spad_count > 0, Features::SCRATCHPADS),
            (self.messages, Features::MESSAGES),
        ]
        .into_iter()
        .filter(|(has, _)| *has)
        .fold(translation, |all, (_, feature)| all | feature)
    }
}

/// The names of all personalities, in one line.
pub(crate) struct Names;

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = ALL.iter();
        all.next().map_or(Ok(()), |first| f.write_str(first.name))?;
        all.try_for_each(|one| write!(f, ", {}", one.name))
    }
}

/// No part: everything that the NTB core knows of.
const GENERIC: Personality = Personality {
    name: "generic",
    sides: Sides::Numbered,
    translation: Translation::Receiver,
    windows: WindowPlan {
        direct: Windows::direct(2, Align::Window),
        table: Windows::NONE,
    },
    mw_size: SZ_4M,
    db_count: 32,
    bells: Bells::Own,
    vectors: Vectors::Many,
    bell_state: true,
    spad_count: 32,
    messages: true,
    secondary_reports_error: false,
};

/// Intel Xeon, third generation of the bridge, back to back.
const INTEL: Personality = Personality {
    name: "intel",
    // intel_ntb3_ops has no port operations (ntb_hw_gen3.c); xeon_ppd_topo() (ntb_hw_gen1.c).
    sides: Sides::Differ(Topology::Upstream, Topology::Downstream),
    // .mw_set_trans = intel_ntb3_mw_set_trans (ntb_hw_gen3.c).
    translation: Translation::Receiver,
    windows: WindowPlan {
        // XEON_MW_COUNT (ntb_hw_gen1.h); intel_ntb_mw_get_align() wants the address
        // aligned to the window (ntb_hw_gen1.c).
        direct: Windows::direct(2, Align::Window),
        table: Windows::NONE,
    },
    mw_size: SZ_4M,
    // GEN3_DB_COUNT (ntb_hw_gen3.h).
    db_count: 32,
    bells: Bells::Own,
    // GEN3_DB_MSIX_VECTOR_COUNT, one for each doorbell (ntb_hw_gen3.h).
    vectors: Vectors::Many,
    bell_state: false,
    // GEN3_SPAD_COUNT (ntb_hw_gen3.h).
    spad_count: 16,
    messages: false,
    secondary_reports_error: false,
};

/// AMD, device 145b.
const AMD: Personality = Personality {
    name: "amd",
    // amd_get_topo() (ntb_hw_amd.c).
    sides: Sides::Differ(Topology::Primary, Topology::Secondary),
    // .mw_set_trans = amd_ntb_mw_set_trans (ntb_hw_amd.c).
    translation: Translation::Receiver,
    windows: WindowPlan {
        // dev_data[0].mw_count, amd_ntb_mw_get_align() (ntb_hw_amd.c).
        direct: Windows::direct(3, Align::Bytes(SZ_4K)),
        table: Windows::NONE,
    },
    mw_size: SZ_4M,
    // AMD_DB_CNT (ntb_hw_amd.h), less the one that amd_init_dev() keeps for itself.
    db_count: 15,
    bells: Bells::Own,
    // amd_ntb_db_vector_mask(): one for each doorbell (ntb_hw_amd.c).
    vectors: Vectors::Many,
    bell_state: false,
    // AMD_SPADS_CNT (ntb_hw_amd.h), of which amd_init_ntb() gives half to each side.
    spad_count: 8,
    messages: false,
    // amd_ntb_link_enable() and amd_ntb_link_disable(): -EINVAL with NTB_TOPO_SEC, after the
    // interrupts have been switched (ntb_hw_amd.c).
    secondary_reports_error: true,
};

/// Microchip Switchtec, with its lookup table in use (use_lut_mws).
const SWITCHTEC: Personality = Personality {
    name: "switchtec",
    // switchtec_ntb_ops has no port operations; switchtec_ntb_init_sndev() sets
    // the topology and refuses more than one peer (ntb_hw_switchtec.c).
    sides: Sides::Alike(Topology::Switch),
    // .mw_set_trans = switchtec_ntb_mw_set_trans (ntb_hw_switchtec.c).
    translation: Translation::Receiver,
    windows: WindowPlan {
        // As many as the partition has BARs; switchtec_ntb_mw_get_align().
        direct: Windows {
            count: 2,
            size: Size::Full,
            addr_align: Align::Bytes(SZ_4K),
            size_align: Align::Bytes(SZ_4K),
        },
        // Up to lut_table_entries, less a reserved one; LUT_SIZE, and aligned to
        // that by switchtec_ntb_mw_get_align() (ntb_hw_switchtec.c).
        table: Windows {
            count: 2,
            size: Size::Bytes(SZ_64K),
            addr_align: Align::Window,
            size_align: Align::Window,
        },
    },
    // max_mw_size (ntb_hw_switchtec.c).
    mw_size: SZ_2M,
    // switchtec_ntb_init_db() (ntb_hw_switchtec.c).
    db_count: 28,
    bells: Bells::Own,
    // switchtec_ntb_db_vector_count() (ntb_hw_switchtec.c).
    vectors: Vectors::One,
    bell_state: false,
    // shared_mw.spad: in the peer's memory, behind a reserved entry of the table
    // (ntb_hw_switchtec.c).
    spad_count: 128,
    // The part has them, the driver keeps them for link changes.
    messages: false,
    secondary_reports_error: false,
};

/// An endpoint controller that is programmed to be a bridge.
const EPF: Personality = Personality {
    name: "epf",
    // ntb_epf_init_struct() (ntb_hw_epf.c).
    sides: Sides::Alike(Topology::Unknown),
    // .mw_set_trans = ntb_epf_mw_set_trans (ntb_hw_epf.c).
    translation: Translation::Receiver,
    windows: WindowPlan {
        // num_mws of Documentation/PCI/endpoint/pci-ntb-howto.rst, of at most 4;
        // ntb_epf_mw_get_align() (ntb_hw_epf.c).
        direct: Windows::direct(2, Align::Bytes(SZ_4K)),
        table: Windows::NONE,
    },
    // mw1 and mw2 of pci-ntb-howto.rst.
    mw_size: SZ_1M,
    // ntb_epf_init_isr() and ntb_epf_init_dev(): the interrupts, eight in the rig,
    // less that of the link and an unused one (ntb_hw_epf.c).
    db_count: 6,
    // ntb_epf_db_set_mask() does nothing, and ntb_epf_peer_db_set() looks for the
    // first bit only (ntb_hw_epf.c).
    bells: Bells::Interrupts,
    // ntb_epf_db_vector_mask(): one for each doorbell (ntb_hw_epf.c).
    vectors: Vectors::Many,
    bell_state: false,
    // spad_count of pci-ntb-howto.rst.
    spad_count: 128,
    messages: false,
    secondary_reports_error: false,
};

/// An IDT 89HPES switch.
const IDT: Personality = Personality {
    name: "idt",
    // idt_ntb_port_number() and the other port operations (ntb_hw_idt.c).
    sides: Sides::Numbered,
    // .peer_mw_set_trans = idt_ntb_peer_mw_set_trans, and no mw_set_trans (ntb_hw_idt.c).
    translation: Translation::Sender,
    windows: WindowPlan {
        // idt_scan_mws(): a BAR with direct translation (ntb_hw_idt.c);
        // IDT_TRANS_ALIGN (ntb_hw_idt.h).
        direct: Windows::direct(1, Align::Bytes(4)),
        // As there: entries of a BAR with a table, for which firmware may choose
        // twelve of one sixteenth of the aperture; one of them here.
        table: Windows {
            count: 1,
            size: Size::Share(16),
            addr_align: Align::Bytes(4),
            size_align: Align::Window,
        },
    },
    mw_size: SZ_4M,
    // IDT_DBELL_MASK (ntb_hw_idt.h).
    db_count: 32,
    // The global doorbell register, with all permissions (ntb_hw_idt.c, section 5).
    bells: Bells::Shared,
    // idt_ntb_ops has no vector operations (ntb_hw_idt.c).
    vectors: Vectors::Untold,
    bell_state: false,
    spad_count: 0,
    // IDT_MSG_CNT, as many as here (ntb_hw_idt.h).
    messages: true,
    secondary_reports_error: false,
};

/// No part: the least that the fabric runs on.
const TINY: Personality = Personality {
    name: "tiny",
    sides: Sides::Numbered,
    translation: Translation::Receiver,
    windows: WindowPlan {
        direct: Windows::direct(1, Align::Window),
        table: Windows::NONE,
    },
    mw_size: SZ_64K,
    db_count: 2,
    bells: Bells::Own,
    vectors: Vectors::Many,
    bell_state: false,
    spad_count: 4,
    messages: false,
    secondary_reports_error: false,
};

static ALL: [Personality; 7] = [GENERIC, INTEL, AMD, SWITCHTEC, EPF, IDT, TINY];
