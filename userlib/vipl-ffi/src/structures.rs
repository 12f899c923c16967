// SPDX-License-Identifier: MIT OR Apache-2.0

//! Structures of `vipl.h`, made of values of the crate `vipl` and the other way round.

use crate::sys;
use std::{
    ffi::{c_char, c_void},
    ptr,
};
use vipl::{
    Error, Level, MemAttributes, NicAttributes, Ptag, RemoteViAttributes, Result, ViAttributes,
};

/// What the upper 16 bits of a protection handle are: of no address, and of no other handle.
const PTAG: u64 = 0x71A1;
/// Where they begin.
const KIND: u32 = 48;

/// The handle of a protection tag.
pub fn ptag_handle(tag: Ptag) -> *mut c_void {
    ptr::without_provenance_mut((PTAG << KIND | tag.0) as usize)
}

/// The tag of a handle; of anything else, one that nobody has been given.
pub fn ptag_of(handle: *mut c_void) -> Ptag {
    let number = handle.addr() as u64;
    match number >> KIND {
        PTAG => Ptag(number & ((1 << KIND) - 1)),
        _ => Ptag(0),
    }
}

fn boolean(value: bool) -> sys::VIP_BOOLEAN {
    value.into()
}

/// Attributes of a VI.
///
/// # Errors
/// [`Error::InvalidReliabilityLevel`], [`Error::InvalidQos`] (VI-EP-4, VI-EP-6).
pub fn vi_attributes(from: &sys::VIP_VI_ATTRIBUTES) -> Result<ViAttributes> {
    let level = Level::of_bits(from.ReliabilityLevel)?;
    if !from.QoS.is_null() {
        return Err(Error::InvalidQos);
    }
    Ok(ViAttributes {
        level,
        max_transfer_size: from.MaxTransferSize,
        ptag: ptag_of(from.Ptag),
        rdma_write: from.EnableRdmaWrite != 0,
        rdma_read: from.EnableRdmaRead != 0,
    })
}

/// Attributes of a VI of this process.
pub fn own_vi(from: &ViAttributes) -> sys::VIP_VI_ATTRIBUTES {
    sys::VIP_VI_ATTRIBUTES {
        Ptag: ptag_handle(from.ptag),
        ..remote_vi(&RemoteViAttributes {
            level: from.level,
            max_transfer_size: from.max_transfer_size,
            rdma_write: from.rdma_write,
            rdma_read: from.rdma_read,
        })
    }
}

/// Attributes of a VI of another process: without a tag, and without a quality of service
/// (VI-CONN-22).
pub fn remote_vi(from: &RemoteViAttributes) -> sys::VIP_VI_ATTRIBUTES {
    sys::VIP_VI_ATTRIBUTES {
        ReliabilityLevel: from.level.bit(),
        MaxTransferSize: from.max_transfer_size,
        QoS: ptr::null_mut(),
        Ptag: ptr::null_mut(),
        EnableRdmaWrite: boolean(from.rdma_write),
        EnableRdmaRead: boolean(from.rdma_read),
    }
}

/// Attributes of memory.
pub fn mem_attributes(from: &sys::VIP_MEM_ATTRIBUTES) -> MemAttributes {
    MemAttributes {
        ptag: ptag_of(from.Ptag),
        rdma_write: from.EnableRdmaWrite != 0,
        rdma_read: from.EnableRdmaRead != 0,
    }
}

/// Attributes of memory, as a program in C has them.
pub fn mem(from: &MemAttributes) -> sys::VIP_MEM_ATTRIBUTES {
    sys::VIP_MEM_ATTRIBUTES {
        Ptag: ptag_handle(from.ptag),
        EnableRdmaWrite: boolean(from.rdma_write),
        EnableRdmaRead: boolean(from.rdma_read),
    }
}

/// Attributes of a NIC, with the place where its address is kept (VI-QRY-1, VI-QRY-2).
pub fn nic(from: &NicAttributes, address: &[u8]) -> sys::VIP_NIC_ATTRIBUTES {
    let mut name = [0; 64];
    let (_, room) = name.split_last_mut().unwrap_or((&mut 0, &mut []));
    for (to, byte) in room.iter_mut().zip(from.name.bytes()) {
        *to = byte as c_char;
    }
    sys::VIP_NIC_ATTRIBUTES {
        Name: name,
        HardwareVersion: from.hardware_version.into(),
        ProviderVersion: from.provider_version.into(),
        NicAddressLen: address.len() as u16,
        LocalNicAddress: address.as_ptr(),
        ThreadSafe: boolean(true),
        MaxDiscriminatorLen: from.max_discriminator_len,
        MaxRegisterBytes: from.max_register_bytes,
        MaxRegisterRegions: from.max_register_regions,
        MaxRegisterBlockBytes: from.max_register_block_bytes,
        MaxVI: from.max_vi,
        MaxDescriptorsPerQueue: from.max_descriptors_per_queue,
        MaxSegmentsPerDesc: from.max_segments_per_desc,
        MaxCQ: from.max_cq,
        MaxCQEntries: from.max_cq_entries,
        MaxTransferSize: from.max_transfer_size,
        NativeMTU: from.native_mtu,
        MaxPtags: from.max_ptags,
        ReliabilityLevelSupport: from.reliability_level_support,
        RDMAReadSupport: from.rdma_read_support,
    }
}
