// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes and their names.

use super::{found, only};
use crate::{buffer::Output, process::Process, sys, table::Handle};
use mp_fabric::Device;
use sisci::{Error, Result};

/// `SCIProbeNode`
pub fn probe_node<D: Device>(
    process: &Process<D>,
    desc: Handle,
    adapter: u32,
    node: u32,
    flags: u32,
) -> Result<()> {
    let desc = found(process, &process.descs, desc, flags, 0)?;
    desc.probe(adapter, node)
}

/// `SCIGetLocalNodeId`
pub fn local_node_id<D: Device>(
    process: &Process<D>,
    adapter: u32,
    node: Output<u32>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    node.required()?;
    only(flags, 0)?;
    node.write(process.library()?.open()?.local_node(adapter)?);
    Ok(())
}

/// Slots of a list of nodes.
pub type Slots = [u32; sys::DIS_MAX_NSCIS as usize];

/// `SCIGetNodeIdByAdapterName`, `SCIGetNodeInfoByAdapterName`
pub fn nodes_by_name<D: Device>(
    process: &Process<D>,
    name: Option<&str>,
    adapters: Option<Output<Slots>>,
    nodes: Output<Slots>,
    kind: Output<u32>,
    flags: u32,
) -> Result<()> {
    process.ready()?;
    let name = name.ok_or(Error::IllegalParameter)?;
    nodes.required()?;
    adapters.map_or(Ok(()), |out| out.required().map(|_| ()))?;
    only(flags, 0)?;
    let library = process.library()?;
    let (mut ids, mut numbers) = (Slots::default(), Slots::default());
    let mut slots = ids.iter_mut().zip(&mut numbers);
    let mut found = false;
    for node in library.config().named(name) {
        if let Some((id, number)) = slots.next() {
            (*id, *number) = (node.id, node.adapter);
            found = true;
        }
    }
    nodes.write(ids);
    if let Some(out) = adapters {
        out.write(numbers);
    }
    kind.write(match found {
        true => sys::DIS_ADAPTER_NTB,
        false => sys::DIS_ADAPTER_UNKNOWN,
    });
    Ok(())
}
