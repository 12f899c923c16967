// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes and their names.

use super::{found, only, Legal};
use crate::{process::Process, sys};
use mp_c_abi::{Handle, Out, Room, Text};
use mp_fabric::Device;
use sisci::Result;

/// `SCIProbeNode`
pub fn probe_node<D: Device>(
    process: &Process<D>,
    desc: Handle,
    adapter: u32,
    node: u32,
    flags: u32,
) -> Result<i32> {
    let desc = found(process, &process.descs, desc, flags, 0)?;
    desc.probe(adapter, node)?;
    Ok(1)
}

/// `SCIGetLocalNodeId`
pub fn local_node_id<D: Device>(
    process: &Process<D>,
    adapter: u32,
    node: Out<u32>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    node.required().legal()?;
    only(flags, 0)?;
    node.write(process.library()?.open()?.local_node(adapter)?);
    Ok(())
}

/// Slots of a list of nodes.
pub type Slots = [u32; SLOTS];

/// How many there are.
pub const SLOTS: usize = sys::DIS_MAX_NSCIS as usize;

/// `SCIGetNodeIdByAdapterName`
pub fn node_ids_by_name<D: Device>(
    process: &Process<D>,
    name: Text,
    nodes: Out<Slots>,
    kind: Out<u32>,
    flags: u32,
) -> Result<()> {
    nodes_by_name(process, name, None, nodes, kind, flags)
}

/// `SCIGetNodeInfoByAdapterName`; there are as many adapters as nodes.
pub fn node_info_by_name<D: Device>(
    process: &Process<D>,
    name: Text,
    adapters: Room<u32>,
    nodes: Out<Slots>,
    kind: Out<u32>,
    flags: u32,
) -> Result<()> {
    nodes_by_name(process, name, Some(adapters), nodes, kind, flags)
}

fn nodes_by_name<D: Device>(
    process: &Process<D>,
    name: Text,
    adapters: Option<Room<u32>>,
    nodes: Out<Slots>,
    kind: Out<u32>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let name = name.read().legal()?;
    nodes.required().legal()?;
    adapters.map(Room::required).transpose().legal()?;
    only(flags, 0)?;
    let library = process.library()?;
    let (mut ids, mut numbers) = (Slots::default(), Slots::default());
    let mut slots = ids.iter_mut().zip(&mut numbers);
    let mut found = false;
    for node in library.config().named(&name) {
        if let Some((id, number)) = slots.next() {
            (*id, *number) = (node.id, node.adapter);
            found = true;
        }
    }
    nodes.write(ids);
    if let Some(out) = adapters {
        out.fill(&numbers);
    }
    kind.write(match found {
        true => sys::DIS_ADAPTER_NTB,
        false => sys::DIS_ADAPTER_UNKNOWN,
    });
    Ok(())
}
