// SPDX-License-Identifier: MIT OR Apache-2.0

//! `SCIQuery`: what is known of the library, adapters and objects.

use crate::{
    functions::{only, Legal},
    process::Process,
    sys,
};
use mp_c_abi::{Abi, Handle, Out, Room};
use mp_fabric::Device;
use sisci::{Adapter, Desc, Error, Result, API, VENDOR};
use std::{
    ffi::{c_char, c_void},
    fs,
};

/// The structure of a query, with the pointers in it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Query(*mut c_void);

impl Query {
    /// # Safety
    /// The pointer is NULL, or leads to the structure that belongs to the command of the query as
    /// long as the value exists; and so do the pointers in it to what its subcommand answers.
    #[cfg(test)]
    pub unsafe fn new(structure: *mut c_void) -> Self {
        Query(structure)
    }

    /// Refuse NULL.
    fn required(self) -> Result<Self> {
        match self.0.is_null() {
            false => Ok(self),
            true => Err(Error::IllegalParameter),
        }
    }

    /// The structure. The type is the one that belongs to the command.
    fn structure<T: Copy>(self) -> Out<T> {
        // SAFETY: The caller's promise.
        unsafe { Out::new(self.0.cast()) }
    }

    /// Where a pointer in the structure leads to. The type is the one that the subcommand answers.
    fn answer<T: Copy>(self, pointer: *mut c_void) -> Out<T> {
        // SAFETY: The caller's promise.
        unsafe { Out::new(pointer.cast()) }
    }

    /// The text that a pointer in the structure leads to, with room for so many bytes.
    fn text(self, start: *mut c_char, len: u32) -> Room<u8> {
        // SAFETY: The caller's promise.
        unsafe { Room::new(start.cast(), len as usize) }
    }
}

// SAFETY: A pointer, and transparent.
unsafe impl Abi<*mut c_void> for Query {
    fn to_c(self) -> *mut c_void {
        self.0
    }
}

/// A line of a processor's cache, where the system does not tell.
const LINE: u32 = 64;

/// `SCIQuery`
pub fn query<D: Device>(
    process: &Process<D>,
    command: u32,
    query: Query,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    query.required()?;
    let modes = sys::SCI_FLAG_DMA_ADAPTER | sys::SCI_FLAG_DMA_GLOBAL | sys::SCI_FLAG_DMA_SYSDMA;
    match command {
        sys::SCI_Q_DMA => only(flags, modes)?,
        sys::SCI_Q_ADAPTER => only(flags, sys::SCI_FLAG_DMA_SYSDMA)?,
        _ => only(flags, 0)?,
    }
    match command {
        sys::SCI_Q_VENDORID => text(query, VENDOR),
        sys::SCI_Q_API => text(query, API),
        sys::SCI_Q_ADAPTER => adapter(process, query),
        sys::SCI_Q_SYSTEM => system(query),
        sys::SCI_Q_LOCAL_SEGMENT => local_segment(process, query),
        sys::SCI_Q_REMOTE_SEGMENT => remote_segment(process, query),
        sys::SCI_Q_MAP => map(process, query),
        sys::SCI_Q_DMA => dma(process, query, flags),
        _ => Err(Error::IllegalQuery),
    }
}

/// As much of the text as there is room for, and a NUL in any case.
fn text(query: Query, text: &str) -> Result<()> {
    let structure: sys::sci_query_string_t = query.structure().read().legal()?;
    let room = query
        .text(structure.str_, structure.length)
        .required()
        .legal()?;
    let Some(len) = room.len().checked_sub(1) else {
        return Err(Error::OutOfRange);
    };
    let mut bytes: Vec<u8> = text.bytes().take(len).collect();
    bytes.push(0);
    room.fill(&bytes);
    Ok(())
}

/// Answer a number.
fn answer(query: Query, to: *mut c_void, number: u32) -> Result<()> {
    let out: Out<u32> = query.answer(to).required().legal()?;
    out.write(number);
    Ok(())
}

fn adapter<D: Device>(process: &Process<D>, query: Query) -> Result<()> {
    let structure: sys::sci_query_adapter_t = query.structure().read().legal()?;
    query.answer::<u32>(structure.data).required().legal()?;
    let desc = process.library()?.open()?;
    let adapter = desc.adapter(structure.localAdapterNo)?;
    let number = about_adapter(&desc, &adapter, structure.portNo, structure.subcommand)?;
    answer(query, structure.data, number)
}

fn about_adapter<D: Device>(
    desc: &Desc<D>,
    adapter: &Adapter,
    port: u32,
    subcommand: u32,
) -> Result<u32> {
    let port = port as usize;
    match subcommand {
        sys::SCI_Q_ADAPTER_CARD_TYPE => Ok(sys::DIS_ADAPTER_NTB),
        sys::SCI_Q_ADAPTER_NODEID => desc.node_at(adapter).ok_or(Error::NoSuchNodeId),
        sys::SCI_Q_ADAPTER_CONFIGURED => Ok(desc.node_at(adapter).is_some().into()),
        sys::SCI_Q_ADAPTER_LINK_OPERATIONAL => adapter.is_operational(port).map(u32::from),
        sys::SCI_Q_ADAPTER_LINK_WIDTH => adapter.link_width(port),
        sys::SCI_Q_ADAPTER_LINK_SPEED => adapter.link_speed(port),
        sys::SCI_Q_ADAPTER_LINK_ENABLED => {
            let there = port < adapter.links.len();
            there.then_some(1).ok_or(Error::IllegalParameter)
        }
        sys::SCI_Q_ADAPTER_NUMBER_OF_LINKS => Ok(adapter.links.len() as u32),
        sys::SCI_Q_ADAPTER_DMA_MTU => Ok(u32::MAX),
        sys::SCI_Q_ADAPTER_MCAST_MAX_GROUPS => Ok(0),
        sys::SCI_Q_ADAPTER_BDF => adapter.bdf(),
        // Nothing tells.
        sys::SCI_Q_ADAPTER_SERIAL_NUMBER
        | sys::SCI_Q_ADAPTER_LINK_UPTIME
        | sys::SCI_Q_ADAPTER_LINK_DOWNTIME
        | sys::SCI_Q_ADAPTER_LINK_CABLE_INSERTED
        | sys::SCI_Q_ADAPTER_LINK_PARTNER_PORT_NO => Err(Error::NotSupported),
        _ => Err(Error::IllegalQuery),
    }
}

fn system(query: Query) -> Result<()> {
    let structure: sys::sci_query_system_t = query.structure().read().legal()?;
    query.answer::<u32>(structure.data).required().legal()?;
    if structure.subcommand != sys::SCI_Q_SYSTEM_CPU_CACHE_LINE_SIZE {
        return Err(Error::IllegalQuery);
    }
    let file = "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size";
    let text = fs::read_to_string(file).unwrap_or_default();
    answer(query, structure.data, text.trim().parse().unwrap_or(LINE))
}

// Addresses are 0 for all who may not know them, as is that of a local segment on the bus: the
// driver does not tell it.

fn local_segment<D: Device>(process: &Process<D>, query: Query) -> Result<()> {
    let out = query.structure();
    let mut structure: sys::sci_query_local_segment_t = out.read().legal()?;
    let handle = Handle::from_pointer(structure.segment);
    let segment = process.local_segments.get(handle).legal()?;
    structure.data.ioaddr = match structure.subcommand {
        sys::SCI_Q_LOCAL_SEGMENT_IOADDR | sys::SCI_Q_LOCAL_SEGMENT_VIRTUAL_KERNEL_ADDR => 0,
        sys::SCI_Q_LOCAL_SEGMENT_PHYS_ADDR => segment.physical_address().unwrap_or(0),
        _ => return Err(Error::IllegalQuery),
    };
    out.write(structure);
    Ok(())
}

fn remote_segment<D: Device>(process: &Process<D>, query: Query) -> Result<()> {
    let out = query.structure();
    let mut structure: sys::sci_query_remote_segment_t = out.read().legal()?;
    let handle = Handle::from_pointer(structure.segment);
    let segment = process.remote_segments.get(handle).legal()?;
    if structure.subcommand != sys::SCI_Q_REMOTE_SEGMENT_IOADDR {
        return Err(Error::IllegalQuery);
    }
    if !segment.is_mapped() {
        return Err(Error::IllegalOperation);
    }
    structure.data.ioaddr = segment.physical_address().unwrap_or(0);
    out.write(structure);
    Ok(())
}

fn map<D: Device>(process: &Process<D>, query: Query) -> Result<()> {
    let out = query.structure();
    let mut structure: sys::sci_query_map_t = out.read().legal()?;
    let map = process
        .maps
        .get(Handle::from_pointer(structure.map))
        .legal()?;
    structure.data = match structure.subcommand {
        sys::SCI_Q_MAP_MAPPED_TO_LOCAL_TARGET => map.is_local().into(),
        sys::SCI_Q_MAP_PHYS_ADDR => map.physical_address().unwrap_or(0),
        sys::SCI_Q_MAP_IOADDR if map.is_local() => 0,
        sys::SCI_Q_MAP_IOADDR => map.physical_address().unwrap_or(0),
        _ => return Err(Error::IllegalQuery),
    };
    out.write(structure);
    Ok(())
}

fn dma<D: Device>(process: &Process<D>, query: Query, mode: u32) -> Result<()> {
    let structure: sys::sci_query_dma_t = query.structure().read().legal()?;
    if mode.count_ones() != 1 {
        return Err(Error::IllegalFlag);
    }
    let desc = process.library()?.open()?;
    desc.adapter(structure.localAdapterNo)?;
    let there = mode == sys::SCI_FLAG_DMA_SYSDMA && desc.has_queues()?;
    match structure.subcommand {
        sys::SCI_Q_DMA_AVAILABLE => answer(query, structure.data, there.into()),
        sys::SCI_Q_DMA_CAPABILITIES if !there => Err(Error::DmaNotAvailable),
        sys::SCI_Q_DMA_CAPABILITIES => {
            let out = query.answer(structure.data).required().legal()?;
            out.write(sys::sci_dma_capabilities_t {
                num_channels: 1,
                max_transfer_size: u32::MAX,
                max_vector_length: sisci::VECTOR_MAX,
                support_mem2io: 1,
                support_io2mem: 0,
                support_io2io: 0,
                min_align_bytes: 1,
                suggested_align_bytes: LINE,
            });
            Ok(())
        }
        _ => Err(Error::IllegalQuery),
    }
}
